/* structured_edits.c - sizes that the model's configuration states and that follow what is removed. A config.json has
 * one number for all layers, so all groups of a size lose as many units; what it has no key for stays as it is.
 *
 *     unit      key of config.json, and others that follow
 *     neurons   intermediate_size; of experts moe_intermediate_size, of shared ones theirs
 *     heads     num_key_value_heads; num_attention_heads so many times
 *     experts   num_local_experts
 *     hidden    hidden_size */

#include "core/job/job_passes.h"
#include "core/model/stated.h"
#include "graph/couple/couple.h"
#include "prune/structured/removal.h"

/* A config.json or metadata state sizes; ONNX files have a graph, whose edits are of another kind
 * (vc_structured_edit_graph). */
static bool asks_configuration(const struct vc_structured *s)
{
    return s->program.kind == VC_PROGRAM_CONFIG || s->program.kind == VC_PROGRAM_KEYS;
}

/* ---- keys ---- */

/* The first tensor that makes the units. */
static const char *tensor_of(const struct vc_coupling *c)
{
    return c->n_members != 0 ? c->members[0].tensor : NULL;
}

/* Whether the configuration says that n_units / times is the width of an expert, or of all feed-forward parts. counted:
 * `times` is the number of shared experts that it states. Sets group->key and times, and *found. Where both widths fit
 * and nothing is counted, the key is one that is not there, so that the group stays. */
static enum vc_status try_shared(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_coupling *c,
                                 uint64_t times, bool counted, struct vc_removal_group *group, bool *found)
{
    bool expert = false;
    bool all = false;

    *found = false;
    if (times == 0 || c->n_units % times != 0) {
        return VC_OK;
    }
    VC_CALL(vc_program_states(ctx, &s->program, VC_EDIT_EXPERT, c->n_units / times, tensor_of(c), &expert));
    VC_CALL(vc_program_states(ctx, &s->program, VC_EDIT_INTERMEDIATE, c->n_units / times, tensor_of(c), &all));
    if (expert || all) {
        group->key = expert && all && !counted ? VC_EDIT_SHARED : expert ? VC_EDIT_EXPERT : VC_EDIT_INTERMEDIATE;
        group->times = times;
        *found = true;
    }
    return VC_OK;
}

/* Shared experts whose width has no key are so many times as wide as one of the others as the configuration says that
 * are shared, or as wide as one. Where experts have no key of their own, theirs is that of all. */
static enum vc_status key_of_shared(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_coupling *c,
                                    struct vc_removal_group *group)
{
    uint64_t n_shared = 0;
    bool found = false;

    VC_CALL(vc_program_shared_experts(ctx, &s->program, &n_shared));
    VC_CALL(try_shared(ctx, s, c, n_shared, true, group, &found));
    return found ? VC_OK : try_shared(ctx, s, c, 1, false, group, &found);
}

/* What the size of the group is called in the configuration. own: the key that the words of the names say; a width has
 * it only where the configuration states that size by it. */
static enum vc_status key_of(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_coupling *c,
                             enum vc_edit_key own, struct vc_removal_group *group)
{
    static const enum vc_edit_key keys[] = {[VC_UNIT_NEURONS] = VC_EDIT_INTERMEDIATE,
                                            [VC_UNIT_HEADS] = VC_EDIT_KV_HEADS,
                                            [VC_UNIT_EXPERTS] = VC_EDIT_EXPERTS,
                                            [VC_UNIT_HIDDEN] = VC_EDIT_HIDDEN};
    bool says = false;

    group->key = keys[c->unit];
    group->times = 1;
    if (c->unit == VC_UNIT_NEURONS && own != VC_EDIT_INTERMEDIATE) {
        VC_CALL(vc_program_states(ctx, &s->program, own, c->n_units, tensor_of(c), &says));
        group->key = says ? own : group->key;
    }
    if (!says && own == VC_EDIT_SHARED && c->unit == VC_UNIT_NEURONS) {
        VC_CALL(key_of_shared(ctx, s, c, group));
    }
    return VC_OK;
}

/* Groups of one size and one part of the model are many: the configuration is asked once. */
enum vc_status vc_structured_find_keys(struct vc_ctx *ctx, struct vc_structured *s)
{
    enum vc_edit_key own_before = VC_EDIT_INTERMEDIATE;
    const struct vc_removal_group *before = NULL;

    for (size_t i = 0; i < s->n_groups; i++) {
        const struct vc_coupling *c = s->groups[i].coupling;
        enum vc_edit_key own = vc_structured_width_key(c);

        if (before != NULL && own == own_before && before->coupling->unit == c->unit &&
            before->coupling->n_units == c->n_units) {
            s->groups[i].key = before->key;
            s->groups[i].times = before->times;
        } else {
            VC_CALL(key_of(ctx, s, c, own, &s->groups[i]));
        }
        own_before = own;
        before = &s->groups[i];
    }
    return VC_OK;
}

/* Heads of queries that share one of keys and values: their rows are so many times as many. A table with one number for
 * each head (relative positions) has no rows of them. */
static uint64_t queries_of(const struct vc_coupling *c)
{
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;

    for (size_t i = 0; i < c->n_members; i++) {
        uint64_t rows = c->members[i].block * c->members[i].repeat;

        if (c->members[i].makes && rows > 1) {
            least = rows < least ? rows : least;
            most = rows > most ? rows : most;
        }
    }
    return most == 0 ? 1 : most / least;
}

/* Heads: a model may have one key for heads of queries and of keys. */
enum vc_status vc_structured_unsaid(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan,
                                    const struct vc_removal_group *group, const char **reason)
{
    const struct vc_coupling *c = group->coupling;
    static const char *const units[] = {"neurons", "heads", "experts", "numbers of the hidden size"};
    bool says = true;

    *reason = NULL;
    if (!asks_configuration(s) || s->plain) {
        return VC_OK;
    }
    VC_CALL(vc_program_states(ctx, &s->program, group->key, c->n_units / group->times, tensor_of(c), &says));
    if (!says && c->unit == VC_UNIT_HEADS) { /* as many of queries as of keys: one key for both */
        VC_CALL(vc_program_states(ctx, &s->program, VC_EDIT_HEADS, c->n_units * queries_of(c), tensor_of(c), &says));
    }
    /* the number may be about other tensors of that size */
    if (says) {
        VC_CALL(vc_structured_has_role(ctx, s, &s->role, plan, group, &says));
    }
    if (!says) {
        *reason = vc_arena_printf(ctx, plan->arena, "%s has no key for its %llu %s",
                                  s->program.kind == VC_PROGRAM_CONFIG ? "config.json" : "the metadata",
                                  (unsigned long long)c->n_units, units[c->unit]);
        VC_CALL_ALLOC(*reason);
    }
    return VC_OK;
}

/* Another group that the same number is about, and that does not lose as many units; *found NULL: none. Groups that
 * have that size by chance are not meant, as a vocabulary can be as large as a layer is wide. */
static enum vc_status find_other(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan,
                                 const struct vc_removal_group *group, const struct vc_removal_group **found)
{
    *found = NULL;
    for (size_t i = 0; i < s->n_groups && *found == NULL; i++) {
        const struct vc_removal_group *other = &s->groups[i];
        bool same = false;

        if (other->coupling->unit == group->coupling->unit && other->key == group->key &&
            other->coupling->n_units == group->coupling->n_units &&
            (other->reason != NULL || other->n_go != group->n_go)) {
            VC_CALL(vc_structured_has_role(ctx, s, &s->role, plan, other, &same));
        }
        *found = same ? other : NULL;
    }
    return VC_OK;
}

/* One number cannot state two sizes. */
static enum vc_status refuse_uneven(struct vc_ctx *ctx, const struct vc_structured *s,
                                    const struct vc_removal_group *group, const struct vc_removal_group *other)
{
    char reason[VC_MESSAGE_BYTES] = "";

    if (other->reason != NULL) {
        (void)snprintf(reason, sizeof reason, " (%s)", other->reason);
    }
    return vc_fail(ctx, VC_E_UNSUPPORTED,
                   "%s states one %s for all layers, and of %s %llu of %llu would go, of %s %llu%s; %s plain writes "
                   "such shapes all the same, and leaves the configuration as it is",
                   s->program.kind == VC_PROGRAM_CONFIG ? "config.json" : "the metadata", vc_edit_name(group->key),
                   group->coupling->name, (unsigned long long)group->n_go, (unsigned long long)group->coupling->n_units,
                   other->coupling->name, (unsigned long long)other->n_go, reason, vc_option(ctx, "layout"));
}

/* Before scores: a common order takes different numbers from different groups. */
static enum vc_status refuse_global(struct vc_ctx *ctx, const struct vc_structured *s,
                                    const struct vc_removal_group *group)
{
    return vc_fail(
        ctx, VC_E_UNSUPPORTED,
        "%s states one %s for all layers, and %s removes more from some than from others; %s plain writes such "
        "shapes all the same, and leaves the configuration as it is",
        s->program.kind == VC_PROGRAM_CONFIG ? "config.json" : "the metadata", vc_edit_name(group->key),
        vc_option(ctx, "scope"), vc_option(ctx, "layout"));
}

/* One edit for all groups of a size. Two sizes of one key cannot be changed at once. */
static enum vc_status add_edit(struct vc_ctx *ctx, struct vc_plan *plan, enum vc_edit_key key, uint64_t before,
                               uint64_t after)
{
    for (size_t i = 0; i < plan->n_edits; i++) { /* another group has said it */
        if (plan->edits[i].key == key && plan->edits[i].before == before && plan->edits[i].after == after) {
            return VC_OK;
        }
        VC_REFUSE_IF(plan->edits[i].key == key && plan->edits[i].before != before, ctx, VC_E_UNSUPPORTED,
                     "the %s would change from %llu and from %llu at once; keep the groups of one of these sizes "
                     "(%s)",
                     vc_edit_name(key), (unsigned long long)plan->edits[i].before, (unsigned long long)before,
                     vc_option(ctx, "include=false"));
    }
    return vc_plan_edit(ctx, plan, &(struct vc_edit){.key = key, .before = before, .after = after});
}

/* Adds the edits of one group, whose count of units that go is known. */
static enum vc_status edit_group(struct vc_ctx *ctx, struct vc_structured *s, struct vc_plan *plan,
                                 const struct vc_removal_group *group)
{
    const struct vc_coupling *c = group->coupling;
    uint64_t after = c->n_units - group->n_go;
    const struct vc_removal_group *other;

    VC_CALL(find_other(ctx, s, plan, group, &other));
    VC_RETURN_IF(other != NULL, refuse_uneven(ctx, s, group, other));
    if (c->unit == VC_UNIT_HEADS) {
        VC_CALL(add_edit(ctx, plan, VC_EDIT_HEADS, c->n_units * queries_of(c), after * queries_of(c)));
    }
    VC_REFUSE_IF(after % group->times != 0, ctx, VC_E_UNSUPPORTED,
                 "%s: %llu of %llu units would stay, and by the configuration there are %llu times as many as an "
                 "expert has (%s makes it a multiple)",
                 c->name, (unsigned long long)after, (unsigned long long)c->n_units, (unsigned long long)group->times,
                 vc_option(ctx, "round_to"));
    return add_edit(ctx, plan, group->key, c->n_units / group->times, after / group->times);
}

/* Lays the output out, so that its writer says what it has no key for. Where that is not known without a run, it says
 * so after calibration. */
static enum vc_status ask_writer(struct vc_ctx *ctx, struct vc_plan *plan)
{
    char message[VC_MESSAGE_BYTES];
    uint64_t bytes;
    enum vc_status status = vc_plan_file_bytes(ctx, plan, &bytes);

    if (status == VC_E_ARGUMENT) {
        vc_clear_error(ctx);
        return VC_OK;
    }
    if (status != VC_E_UNSUPPORTED) {
        return status;
    }
    memcpy(message, ctx->message, sizeof message);
    return vc_fail(ctx, VC_E_UNSUPPORTED,
                   "%s; %s plain writes the new shapes all the same, and leaves the configuration as it is", message,
                   vc_option(ctx, "layout"));
}

/* All edits, then the writer's own opinion, then the shapes of the whole output (check_stated). */
enum vc_status vc_structured_edit(struct vc_ctx *ctx, struct vc_structured *s, struct vc_plan *plan)
{
    enum vc_status status = VC_OK;

    for (size_t i = 0; asks_configuration(s) && !s->plain && i < s->n_groups; i++) {
        const struct vc_removal_group *group = &s->groups[i];
        bool shared = s->options.scope == VC_PRUNE_GLOBAL && group->scores != NULL && !group->own;

        if (group->reason != NULL) {
            continue;
        }
        /* not known yet how many units each group loses */
        if (shared && s->n_groups > 1) {
            VC_TRY(refuse_global(ctx, s, group));
        }
        VC_TRY(edit_group(ctx, s, plan, group));
    }
    if (plan->n_edits != 0) {
        VC_TRY(ask_writer(ctx, plan));
        if (!s->plain) {
            VC_TRY(vc_structured_check_stated(ctx, s, plan));
        }
    }
out:
    vc_structured_forget_role(ctx, &s->role);
    return status;
}

/* A product of all experts of a layer reads rows in units of 16 bytes. The note tells the smallest --round-to that
 * makes such rows; the file is written all the same, since other programs read it. */
enum vc_status vc_structured_note_experts(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan)
{
    for (size_t i = 0; s->program.kind == VC_PROGRAM_CONFIG && i < s->n_groups; i++) {
        const struct vc_removal_group *group = &s->groups[i];
        const struct vc_coupling_member *m = &group->coupling->members[0];
        uint64_t left = group->coupling->n_units - group->n_go;
        size_t size = m->index < plan->n_items ? vc_dtype_size(plan->items[m->index].desc->dtype) : 0;

        if (group->reason == NULL && group->n_go != 0 && group->coupling->unit == VC_UNIT_NEURONS && size != 0 &&
            vc_structured_has_word(m->tensor, "experts") && left * size % 16 != 0) {
            s->pass.note = vc_arena_printf(ctx, &s->arena,
                                           "%s%s%llu neurons of an expert take %llu bytes, and transformers' product "
                                           "of all experts of a layer wants a "
                                           "multiple of 16: %s %u makes it one",
                                           s->pass.note != NULL ? s->pass.note : "", s->pass.note != NULL ? "; " : "",
                                           (unsigned long long)left, (unsigned long long)(left * size),
                                           vc_option(ctx, "round_to"), (unsigned)(16 / size));
            VC_CALL_ALLOC(s->pass.note);
            break;
        }
    }
    return VC_OK;
}

/* Sizes that nodes of an ONNX file state, such as the shape of a Reshape. */
enum vc_status vc_structured_edit_graph(struct vc_ctx *ctx, const struct vc_structured *s, struct vc_plan *plan)
{
    const struct vc_graph_edit *edits;
    VC_SCOPED uint64_t *kept = NULL;
    size_t n;

    VC_CALL(vc_structured_kept(ctx, s, &kept));
    VC_CALL(vc_couplings_edits(ctx, s->stating, kept, plan->arena, &edits, &n));
    if (n != 0) {
        VC_CALL(vc_plan_edit_graph(ctx, plan, edits, n));
    }
    return VC_OK;
}
