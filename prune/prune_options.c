/* prune_options.c - the options of the pass: checked, copied, and as words for the report.
 *
 * Which options go together:
 *
 *     pattern          what chooses the weights                    sparsity, sets   scope   min_keep   score
 *     none             a share, in each tensor or in all           needed           any     global     any
 *     N:M              the N largest of every M                    -                -       -          magnitude, data
 *     block:RxC        a share of the blocks                       needed           any     global     magnitude
 *     given (mask)     a file                                      -                -       -          -
 *     pairs            masks of torch.nn.utils.prune               -                -       -          -
 *
 * lamp needs scope global; wanda and sparsegpt (by data) need statistics and scope tensor. */
#include "passes/select.h"
#include "prune/prune_pass.h"

#define MAX_GROUP 256u
#define MAX_BLOCK 65536u

static const char *const score_names[] = {"magnitude", "lamp", "wanda", "sparsegpt"};

/* The field that chooses which weights go, where the pattern chooses too; NULL: no field does. */
static const char *choosing_field(const struct vc_prune_options *o)
{
    if (o->sparsity != NULL) {
        return "sparsity";
    }
    if (o->n_sets != 0) {
        return "sets";
    }
    if (o->mask != NULL) {
        return "mask";
    }
    return o->scope == VC_PRUNE_GLOBAL ? "scope" : NULL;
}

/* A pattern that chooses by itself is refused beside anything else that chooses. */
static enum vc_status check_pattern(struct vc_ctx *ctx, const struct vc_prune_options *o)
{
    const char *chooses = choosing_field(o);
    bool wanted = o->sparsity != NULL || o->n_sets != 0;

    if (o->pattern == VC_PATTERN_N_OF_M) {
        /* N of M */
        VC_REFUSE_IF(o->group < 2 || o->group > MAX_GROUP || o->keep < 1 || o->keep >= o->group, ctx, VC_E_ARGUMENT,
                     "%u:%u is no pattern: N from 1 to M - 1, M up to %u", o->keep, o->group, MAX_GROUP);
        VC_REFUSE_IF(wanted, ctx, VC_E_ARGUMENT, "%s: %u:%u says already how many weights go", vc_option(ctx, chooses),
                     o->keep, o->group);
        VC_REFUSE_IF(o->mask != NULL, ctx, VC_E_ARGUMENT, "%s: %u:%u says already which weights go",
                     vc_option(ctx, "mask"), o->keep, o->group);
        VC_REFUSE_IF(o->scope == VC_PRUNE_GLOBAL, ctx, VC_E_ARGUMENT, "%s: %u:%u compares weights in their groups only",
                     vc_option(ctx, "scope"), o->keep, o->group);
        return VC_OK;
    }
    /* joined pairs */
    VC_REFUSE_IF(o->pattern == VC_PATTERN_PAIRS && chooses != NULL, ctx, VC_E_ARGUMENT,
                 "%s: the masks of torch.nn.utils.prune say already which weights go", vc_option(ctx, chooses));
    if (o->pattern == VC_PATTERN_PAIRS) {
        return VC_OK;
    }
    /* a mask from a file */
    VC_REFUSE_IF((o->pattern == VC_PATTERN_GIVEN) != (o->mask != NULL), ctx, VC_E_ARGUMENT,
                 "vc_prune_options: a mask and VC_PATTERN_GIVEN go together");
    if (o->pattern == VC_PATTERN_GIVEN) {
        VC_REFUSE_IF(wanted || o->scope == VC_PRUNE_GLOBAL, ctx, VC_E_ARGUMENT, "%s: %s says already which weights go",
                     vc_option(ctx, wanted ? chooses : "scope"), vc_option(ctx, "mask"));
        return VC_OK;
    }
    /* blocks, and single weights: a share is needed */
    VC_REFUSE_IF(o->pattern == VC_PATTERN_BLOCK &&
                     (o->block_rows < 1 || o->block_cols < 1 || o->block_rows > MAX_BLOCK || o->block_cols > MAX_BLOCK),
                 ctx, VC_E_ARGUMENT, "a block has 1 to %u rows and columns, not %u x %u", MAX_BLOCK, o->block_rows,
                 o->block_cols);
    return wanted ? VC_OK
                  : vc_fail(ctx, VC_E_ARGUMENT, "nothing says how much to prune: %s", vc_option(ctx, "sparsity"));
}

/* Scores and least squares by statistics. Statistics without something that reads them are refused, too. */
static enum vc_status check_statistics(struct vc_ctx *ctx, const struct vc_prune_options *o)
{
    bool by_data = o->score >= VC_SCORE_WANDA;

    VC_REFUSE_IF(o->calibration == NULL && by_data, ctx, VC_E_ARGUMENT,
                 "%s %s needs statistics of the inputs of layers: %s", vc_option(ctx, "score"), score_names[o->score],
                 vc_option(ctx, "calibration"));
    VC_REFUSE_IF(o->calibration == NULL && o->reconstruct, ctx, VC_E_ARGUMENT,
                 "%s needs statistics of the inputs of layers: %s", vc_option(ctx, "reconstruct"),
                 vc_option(ctx, "calibration"));
    VC_REFUSE_IF(o->calibration == NULL && o->calibration_anyway, ctx, VC_E_ARGUMENT, "%s goes with %s",
                 vc_option(ctx, "calibration_anyway"), vc_option(ctx, "calibration"));
    VC_REFUSE_IF(o->calibration != NULL && !by_data && !o->reconstruct, ctx, VC_E_ARGUMENT,
                 "%s goes with %s, or with %s wanda or sparsegpt", vc_option(ctx, "calibration"),
                 vc_option(ctx, "reconstruct"), vc_option(ctx, "score"));
    return !by_data ||
                   (o->scope == VC_PRUNE_TENSOR && (o->pattern == VC_PATTERN_NONE || o->pattern == VC_PATTERN_N_OF_M))
               ? VC_OK
               : vc_fail(ctx, VC_E_ARGUMENT,
                         "%s %s compares the weights of a %s: it goes with %s tensor, alone or with a pattern N:M",
                         vc_option(ctx, "score"), score_names[o->score], o->score == VC_SCORE_WANDA ? "row" : "tensor",
                         vc_option(ctx, "scope"));
}

/* Shares are parsed here, as fractions: 0.3 of 10 weights is 3, whatever 0.3 is as a double. */
enum vc_status vc_prune_check(struct vc_ctx *ctx, struct vc_prune *p)
{
    const struct vc_prune_options *o = &p->options;

    VC_REFUSE_IF((unsigned)o->scope > VC_PRUNE_GLOBAL || (unsigned)o->pattern > VC_PATTERN_PAIRS, ctx, VC_E_ARGUMENT,
                 "vc_prune_options: no such scope or pattern");
    VC_REFUSE_IF(o->nonfinite != VC_NONFINITE_ERROR && o->nonfinite != VC_NONFINITE_KEEP, ctx, VC_E_ARGUMENT,
                 "%s: prune replaces no NaN and Inf: error or keep", vc_option(ctx, "nonfinite"));
    VC_CALL(check_pattern(ctx, o));
    VC_REFUSE_IF((unsigned)o->score > VC_SCORE_SPARSEGPT, ctx, VC_E_ARGUMENT, "vc_prune_options: no such score");
    VC_CALL(check_statistics(ctx, o));
    VC_REFUSE_IF(o->score == VC_SCORE_LAMP && (o->scope != VC_PRUNE_GLOBAL || o->pattern != VC_PATTERN_NONE), ctx,
                 VC_E_ARGUMENT,
                 "%s lamp: these scores compare single weights of all tensors, so they go with one threshold for all "
                 "(%s) and without a pattern; inside of a tensor their order is that of the magnitudes",
                 vc_option(ctx, "score"), vc_option(ctx, "scope"));
    VC_REFUSE_IF(o->min_keep != NULL && o->scope != VC_PRUNE_GLOBAL, ctx, VC_E_ARGUMENT,
                 "%s goes with one threshold for all tensors only: %s", vc_option(ctx, "min_keep"),
                 vc_option(ctx, "scope"));
    p->sparsity = (struct vc_fraction){0, 1};
    if (o->sparsity != NULL) {
        VC_CALL(vc_share_read(ctx, "sparsity", o->sparsity, &p->sparsity));
    }
    p->min_keep = (struct vc_fraction){1, 100};
    if (o->min_keep != NULL) {
        VC_CALL(vc_share_read(ctx, "min_keep", o->min_keep, &p->min_keep));
    }
    return VC_OK;
}

/* Rules keep their order: the last match decides. */
enum vc_status vc_prune_sets_copy(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_sparsity_rule *rules,
                                  size_t n, struct vc_prune_set **out)
{
    struct vc_prune_set *sets = vc_arena_alloc(ctx, arena, (n + 1) * sizeof *sets);

    VC_CALL_ALLOC(sets);
    for (size_t i = 0; i < n; i++) {
        VC_CALL_ALLOC(sets[i].glob = vc_arena_printf(ctx, arena, "%s", rules[i].glob));
        VC_CALL(vc_share_read(ctx, "sets", rules[i].sparsity, &sets[i].share));
    }
    *out = sets;
    return VC_OK;
}

/* The pass's own copies of what the options point to. pair_alone and pair_first are the options for masks of joined
 * pairs, which have no policy for NaN and write no mask of their own where the weights are pruned further. */
enum vc_status vc_prune_copy(struct vc_ctx *ctx, struct vc_prune *p)
{
    struct vc_prune_options *o = &p->options;

    /* texts and rules */
    VC_CALL(vc_rules_copy(ctx, &p->arena, o->rules, o->n_rules, &o->rules));
    if (o->sparsity != NULL) {
        VC_CALL_ALLOC(o->sparsity = vc_arena_printf(ctx, &p->arena, "%s", o->sparsity));
    }
    if (o->mask_path != NULL) {
        VC_CALL_ALLOC(o->mask_path = vc_arena_printf(ctx, &p->arena, "%s", o->mask_path));
        p->mask_file = (struct vc_part_file){VC_PART_MASK, VC_DTYPE_U8, o->mask_path};
        p->pass.part_file = &p->mask_file;
    }
    VC_CALL(vc_prune_sets_copy(ctx, &p->arena, o->sets, o->n_sets, &p->sets));
    o->sets = NULL;
    /* the two sets of options for masks of pairs */
    p->pair_alone = *o;
    p->pair_alone.nonfinite = VC_NONFINITE_ERROR;
    p->pair_alone.reconstruct = false;
    p->pair_first = p->pair_alone;
    p->pair_first.mask_path = NULL;
    return VC_OK;
}

/* NULL: no memory. */
static const char *pattern_text(struct vc_ctx *ctx, struct vc_prune *p)
{
    const struct vc_prune_options *o = &p->options;

    if (o->pattern == VC_PATTERN_N_OF_M) {
        return vc_arena_printf(ctx, &p->arena, "%u:%u", o->keep, o->group);
    }
    if (o->pattern == VC_PATTERN_BLOCK) {
        return vc_arena_printf(ctx, &p->arena, "block:%ux%u", o->block_rows, o->block_cols);
    }
    if (o->pattern == VC_PATTERN_GIVEN) {
        return "given";
    }
    if (o->pattern == VC_PATTERN_PAIRS) {
        return "pairs";
    }
    return "none";
}

/* Quadratic in the number of rules, of which there are few. */
const char *vc_prune_sets_text(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_prune_set *sets, size_t n)
{
    const char *text = "";

    for (size_t i = 0; text != NULL && i < n; i++) {
        text = vc_arena_printf(ctx, arena, "%s%s%s=%g", text, i == 0 ? "" : ",", sets[i].glob,
                               (double)sets[i].share.n / (double)sets[i].share.d);
    }
    return text;
}

/* What a command line would say. NULL: VC_E_NOMEM. */
static const char *command_text(struct vc_ctx *ctx, struct vc_prune *p, const char *pattern)
{
    const struct vc_prune_options *o = &p->options;
    bool global = o->scope == VC_PRUNE_GLOBAL;
    bool blocks = o->pattern == VC_PATTERN_BLOCK;
    const char *score = o->score != VC_SCORE_MAGNITUDE ? " --score " : "";
    const char *name = o->score != VC_SCORE_MAGNITUDE ? score_names[o->score] : "";
    const char *more = o->reconstruct ? " --reconstruct" : "";
    const char *scope = "";

    if (o->mask != NULL) {
        return o->reconstruct ? "prune --mask --reconstruct" : "prune --mask";
    }
    if (o->pattern == VC_PATTERN_PAIRS) {
        return "prune --make-permanent";
    }
    if (o->pattern == VC_PATTERN_N_OF_M) {
        return vc_arena_printf(ctx, &p->arena, "prune --pattern %s%s%s%s", pattern, score, name, more);
    }
    if (global) {
        scope = " --scope global";
    } else if (!blocks) {
        scope = " --scope tensor";
    }
    return vc_arena_printf(ctx, &p->arena, "prune --sparsity %s%s%s%s%s%s%s", o->sparsity != NULL ? o->sparsity : "0",
                           scope, score, name, more, blocks ? " --pattern " : "", blocks ? pattern : "");
}

/* The entries of the recipe that outputs carry: what decides the result, without paths. */
enum vc_status vc_prune_describe(struct vc_ctx *ctx, struct vc_prune *p)
{
    const struct vc_prune_options *o = &p->options;
    const char *pattern = pattern_text(ctx, p);
    bool n_of_m = o->pattern == VC_PATTERN_N_OF_M;
    bool global = o->scope == VC_PRUNE_GLOBAL;
    bool scored = o->score != VC_SCORE_MAGNITUDE || o->reconstruct;
    const char *min_keep = o->min_keep != NULL ? o->min_keep : "0.01";
    const struct vc_recipe_entry entries[] = {
        {"prune", n_of_m || o->sparsity == NULL ? "" : o->sparsity},
        {"scope", global ? "global" : "tensor"},
        {"pattern", pattern},
        {"min_keep", global ? min_keep : ""},
        {"sets", vc_prune_sets_text(ctx, &p->arena, p->sets, o->n_sets)},
        {"nonfinite", o->nonfinite == VC_NONFINITE_KEEP ? "keep" : "error"},
        {"min_elements", vc_arena_printf(ctx, &p->arena, "%llu", (unsigned long long)o->min_elems)},
        {"rules", vc_rules_text(ctx, &p->arena, o->rules, o->n_rules)},
        /* the last entry: left out where it says nothing */
        {"score",
         vc_arena_printf(ctx, &p->arena, "%s%s", score_names[o->score], o->reconstruct ? ", reconstruct" : "")},
    };

    for (size_t i = 0; i < sizeof entries / sizeof entries[0] - !scored; i++) {
        VC_CALL_ALLOC(entries[i].value);
        p->recipe[p->pass.n_recipe++] = entries[i];
    }
    p->pass.recipe = p->recipe;
    p->pass.command = command_text(ctx, p, pattern);
    return p->pass.command != NULL ? VC_OK : VC_E_NOMEM;
}
