/* structured_options.c - the options of removing units: checked, copied, and as words for the report.
 *
 *     vc_structured_check       before a model is known: what says how much goes, and who reads statistics
 *     vc_structured_copy        lists and texts of the caller
 *     vc_structured_describe    the recipe of the output, the command of the report
 *
 * Whether units of a kind exist, and how many of them can go, is known with the couplings (structured_groups.c). */
#include "passes/select.h"
#include "prune/structured/removal.h"

#define ALL_UNITS (1u << VC_UNIT_NEURONS | 1u << VC_UNIT_HEADS | 1u << VC_UNIT_EXPERTS | 1u << VC_UNIT_HIDDEN)

/* A share of 1 would leave no unit. */
static enum vc_status check_share(struct vc_ctx *ctx, const char *what, const char *text, struct vc_fraction share)
{
    return share.n < share.d ? VC_OK
                             : vc_fail(ctx, VC_E_ARGUMENT, "%s: '%s' would leave nothing", vc_option(ctx, what), text);
}

/* Either shares or given units; statistics exactly where something reads them. */
enum vc_status vc_structured_check(struct vc_ctx *ctx, struct vc_structured *s)
{
    const struct vc_structured_options *o = &s->options;
    bool shares = o->share != NULL || o->n_sets != 0;

    VC_REFUSE_IF((unsigned)o->score > VC_STRUCTURED_OBS || (unsigned)o->scope > VC_PRUNE_GLOBAL, ctx, VC_E_ARGUMENT,
                 "vc_structured_options: no such score or scope");
    /* what goes: a share or a list, of known kinds */
    VC_REFUSE_IF(o->units == 0 || (o->units & ~ALL_UNITS) != 0, ctx, VC_E_ARGUMENT, "%s: no such kind of units",
                 vc_option(ctx, "units"));
    VC_REFUSE_IF(o->n_remove != 0 && shares, ctx, VC_E_ARGUMENT, "%s: %s says already what goes",
                 vc_option(ctx, o->share != NULL ? "share" : "sets"), vc_option(ctx, "remove"));
    VC_REFUSE_IF(o->n_remove == 0 && !shares, ctx, VC_E_ARGUMENT, "nothing says how much to remove: %s",
                 vc_option(ctx, "share"));
    /* statistics */
    VC_REFUSE_IF(o->calibration == NULL && o->calibration_anyway, ctx, VC_E_ARGUMENT, "%s goes with %s",
                 vc_option(ctx, "calibration_anyway"), vc_option(ctx, "calibration"));
    VC_REFUSE_IF((o->reconstruct || o->score == VC_STRUCTURED_OBS) != (o->calibration != NULL), ctx, VC_E_ARGUMENT,
                 "%s goes with %s or %s obs, and these need it", vc_option(ctx, "calibration"),
                 vc_option(ctx, "reconstruct"), vc_option(ctx, "score"));
    s->share = (struct vc_fraction){0, 1};
    if (o->share != NULL) {
        VC_CALL(vc_share_read(ctx, "share", o->share, &s->share));
    }
    return check_share(ctx, "share", o->share, s->share);
}

/* Deep copies: the caller's lists may go. */
static enum vc_status copy_removals(struct vc_ctx *ctx, struct vc_structured *s)
{
    struct vc_structured_options *o = &s->options;
    struct vc_structured_units *own = vc_arena_alloc(ctx, &s->arena, (o->n_remove + 1) * sizeof *own);

    VC_CALL_ALLOC(own);
    for (size_t i = 0; i < o->n_remove; i++) {
        uint64_t *units = vc_arena_alloc(ctx, &s->arena, (o->remove[i].n + 1) * sizeof *units);

        VC_CALL_ALLOC(units);
        own[i] = o->remove[i];
        VC_CALL_ALLOC(own[i].tensor = vc_arena_printf(ctx, &s->arena, "%s", o->remove[i].tensor));
        for (size_t k = 0; k < o->remove[i].n; k++) {
            units[k] = o->remove[i].units[k];
        }
        own[i].units = units;
    }
    o->remove = own;
    return VC_OK;
}

/* Rules, shares and lists of units are the caller's, who may free them when the pass is added. Shares of sets are
 * checked here, since their words are read here. */
enum vc_status vc_structured_copy(struct vc_ctx *ctx, struct vc_structured *s)
{
    struct vc_structured_options *o = &s->options;

    VC_CALL(vc_rules_copy(ctx, &s->arena, o->rules, o->n_rules, &o->rules));
    if (o->share != NULL) {
        VC_CALL_ALLOC(o->share = vc_arena_printf(ctx, &s->arena, "%s", o->share));
    }
    VC_CALL(vc_prune_sets_copy(ctx, &s->arena, o->sets, o->n_sets, &s->sets));
    for (size_t i = 0; i < o->n_sets; i++) {
        VC_CALL(check_share(ctx, "sets", o->sets[i].sparsity, s->sets[i].share));
    }
    o->sets = NULL;
    return copy_removals(ctx, s);
}

/* "neurons,heads" */
static const char *units_text(struct vc_ctx *ctx, struct vc_structured *s)
{
    static const char *const names[] = {"neurons", "heads", "experts", "hidden"};
    const char *text = "";

    for (size_t i = 0; text != NULL && i < sizeof names / sizeof names[0]; i++) {
        if ((s->options.units >> i & 1u) != 0) {
            text = vc_arena_printf(ctx, &s->arena, "%s%s%s", text, text[0] == '\0' ? "" : ",", names[i]);
        }
    }
    return text;
}

static const char *const score_names[] = {"l2", "l1", "norm", "obs"};

/* What a command line would say, without paths. NULL: no memory. */
static const char *command_text(struct vc_ctx *ctx, struct vc_structured *s)
{
    const struct vc_structured_options *o = &s->options;
    const char *text =
        o->n_remove != 0 ? "prune --remove"
                         : vc_arena_printf(ctx, &s->arena, "prune --structured %s", o->share != NULL ? o->share : "0");

    if (text != NULL && o->scope == VC_PRUNE_GLOBAL) {
        text = vc_arena_printf(ctx, &s->arena, "%s%s", text, " --scope global");
    }
    if (text != NULL && o->score != VC_STRUCTURED_L2) {
        text = vc_arena_printf(ctx, &s->arena, "%s --score %s", text, score_names[o->score]);
    }
    if (text != NULL && o->round_to > 1) {
        text = vc_arena_printf(ctx, &s->arena, "%s --round-to %llu", text, (unsigned long long)o->round_to);
    }
    if (text != NULL && o->reconstruct) {
        text = vc_arena_printf(ctx, &s->arena, "%s%s", text, " --reconstruct");
    }
    return text;
}

/*     structured=50%, units=heads, score=magnitude, scope=tensor, round_to=64, ... */
enum vc_status vc_structured_describe(struct vc_ctx *ctx, struct vc_structured *s)
{
    const struct vc_structured_options *o = &s->options;
    bool global = o->scope == VC_PRUNE_GLOBAL;
    const struct vc_recipe_entry entries[VC_STRUCTURED_RECIPE] = {
        {"structured", o->share != NULL ? o->share : ""},
        {"units", units_text(ctx, s)},
        {"score", o->n_remove != 0 ? "given" : score_names[o->score]},
        {"scope", global ? "global" : "tensor"},
        {"round_to", vc_arena_printf(ctx, &s->arena, "%llu", (unsigned long long)o->round_to)},
        {"sets", vc_prune_sets_text(ctx, &s->arena, s->sets, o->n_sets)},
        {"rules", vc_rules_text(ctx, &s->arena, o->rules, o->n_rules)},
        {"couplings", o->couplings != NULL ? "given" : "graph"},
        {"reconstruct", "true"}, /* the last entry: left out where it says nothing */
    };
    size_t n = sizeof entries / sizeof entries[0] - (o->reconstruct ? 0 : 1);

    for (size_t i = 0; i < n; i++) {
        VC_CALL_ALLOC(entries[i].value);
        s->recipe[s->pass.n_recipe++] = entries[i];
    }
    s->pass.recipe = s->recipe;
    s->pass.command = command_text(ctx, s);
    return s->pass.command != NULL ? VC_OK : VC_E_NOMEM;
}
