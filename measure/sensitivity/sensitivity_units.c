/* sensitivity_units.c - see sensitivity_units.h.
 *
 * Two figures of a unit, both from the tensors that make it:
 *
 *     norm     the sum of squares of its elements: its share tells how much of the weights goes
 *     score    what prune --structured compares units by: which go first
 */
#include "measure/sensitivity/sensitivity_units.h"

#include <math.h>

#include "core/base/array.h"
#include "measure/sensitivity/sensitivity_changes.h"
#include "passes/graph_params.h"
#include "passes/scores/axis_sums.h"
#include "passes/scores/unit_scores.h"
#include "passes/values.h"

enum vc_status vc_units_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, float **values)
{
    struct vc_place place = vc_place_whole();

    VC_CALL(VC_ARRAY(ctx, VC_TAG_TILES, *values, (size_t)model->tensors[tensor].n_elems + 1));
    return vc_place_values(ctx, model, tensor, &place, false, *values);
}

/* Reads one tensor at a time, whole. Members that only read the units do not count. */
enum vc_status vc_units_norms(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_coupling *group,
                              double *norms)
{
    enum vc_status status = VC_OK;

    memset(norms, 0, (size_t)group->n_units * sizeof *norms);
    for (size_t k = 0; k < group->n_members && status == VC_OK; k++) {
        size_t tensor = vc_model_find(model, group->members[k].tensor);
        float *values = NULL;

        if (group->members[k].makes) {
            status = vc_units_read(ctx, model, tensor, &values);
        }
        if (values != NULL && status == VC_OK) {
            vc_change_add_norms(group, &group->members[k], &model->tensors[tensor], values, norms);
        }
        vc_free(ctx, values);
    }
    return status;
}

/* ---- scores, as prune --structured has them ---- */

/* A member that makes the units; of several names of a tensor the first. */
struct place {
    size_t tensor;
    const struct vc_coupling_member *member;
};

/* By tensor, then in the order of the members, so that of equal places the first member is kept. */
static int by_tensor(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;

    return VC_FIRST_ORDER(VC_ORDER(x->tensor, y->tensor), VC_ORDER(x->member, y->member));
}

/* Two names of a tensor may make the same elements twice; their sums count once. */
static bool same_place(const struct place *a, const struct place *b)
{
    return a->tensor == b->tensor && a->member->whole == b->member->whole && a->member->axis == b->member->axis &&
           a->member->offset == b->member->offset;
}

/* The members that make the units, of tensors that stand for floats, each place once. Aliases are replaced
 * by the tensor that they name, so that equal places lie next to each other. Returns how many. */
static size_t list_places(const struct vc_model *model, const struct vc_coupling *group, struct place *places)
{
    size_t n = 0;
    size_t kept = 0;

    for (size_t k = 0; k < group->n_members; k++) {
        size_t tensor = vc_model_find(model, group->members[k].tensor);

        if (group->members[k].makes && vc_values_numeric(&model->tensors[tensor])) {
            size_t first = model->tensors[tensor].alias_of;

            places[n++] = (struct place){first != VC_NO_TENSOR ? first : tensor, &group->members[k]};
        }
    }
    qsort(places, n, sizeof *places, by_tensor);
    for (size_t i = 0; i < n; i++) {
        bool again = false;

        for (size_t k = kept; k > 0 && places[k - 1].tensor == places[i].tensor && !again; k--) {
            again = same_place(&places[k - 1], &places[i]);
        }
        if (!again) {
            places[kept++] = places[i];
        }
    }
    return kept;
}

/* Adds all tiles of the tensor to the sums of its axis. */
static enum vc_status add_tiles(struct vc_ctx *ctx, struct vc_values *values, struct vc_buffers *buffers,
                                struct vc_axis_sums *sums)
{
    void *scratch = vc_alloc(ctx, VC_TAG_SCRATCH, vc_axis_sums_scratch(sums));
    struct vc_tile_reader reader = {0};
    struct vc_tile_result result;
    struct vc_tile tile;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(scratch);
    VC_TRY(vc_tile_reader_open(ctx, &values->item, buffers, &reader));
    while (vc_tile_reader_more(ctx, &reader, &tile, &result, &status)) {
        VC_TRY(vc_axis_sums_add(ctx, sums, &tile, result.data, values->item.desc->dtype == VC_DTYPE_F64, scratch));
    }
    VC_TRY(status);
    vc_axis_sums_end(ctx, sums);
out:
    vc_tile_reader_close(ctx, &reader);
    vc_free(ctx, scratch);
    return status;
}

/* The sums of squares along the place's axis, of its tensor's values, tile by tile. Released by the caller.
 * A member that is whole has a unit for itself, and only the total of its sums is used. */
static enum vc_status sum_up(struct vc_ctx *ctx, const struct vc_model *model, const struct place *place,
                             struct vc_axis_sums *sums)
{
    const struct vc_tensor *tensor = &model->tensors[place->tensor];
    struct vc_values values = {.arena = {0}};
    struct vc_buffers buffers = {0};
    struct vc_buffer_sizes sizes = {0};
    enum vc_status status;

    VC_TRY(vc_values_init(ctx, model, place->tensor, &values));
    vc_buffer_sizes_add(&sizes, &values.item);
    VC_TRY(vc_buffers_alloc(ctx, &sizes, &buffers));
    VC_TRY(
        vc_axis_sums_init(ctx, sums, tensor->shape, tensor->n_dims, place->member->whole ? 0 : place->member->axis, 2));
    VC_TRY(add_tiles(ctx, &values, &buffers, sums));
out:
    vc_buffers_release(ctx, &buffers);
    vc_values_release(ctx, &values);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", tensor->name);
}

/* Over all entries of the axis. */
static double total_of(const struct vc_axis_sums *sums)
{
    double total = 0;

    for (uint64_t i = 0; i < sums->len; i++) {
        total += sums->sum[i];
    }
    return total;
}

/* Adds the sums of each place to the scores, by the same functions as prune does. Tensors of single units,
 * as experts have them, are parts: they are compared with those of the other units by their names, once all
 * are known. */
static enum vc_status make_scores(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_coupling *group,
                                  double *scores)
{
    struct vc_unit_scores to = {.coupling = group, .power = 2, .scores = scores};
    struct vc_unit_names names = vc_unit_names_of(group);
    struct place *places = vc_alloc_array(ctx, VC_TAG_MISC, group->n_members + 1, sizeof *places);
    struct vc_unit_part *parts = vc_alloc_array(ctx, VC_TAG_MISC, group->n_members + 1, sizeof *parts);
    enum vc_status status = VC_OK;
    size_t n_parts = 0;

    VC_TRY(places == NULL || parts == NULL ? VC_E_NOMEM : VC_OK);
    memset(scores, 0, (size_t)group->n_units * sizeof *scores);
    size_t n = list_places(model, group, places);
    for (size_t i = 0; i < n; i++) {
        const struct vc_coupling_member *member = places[i].member;
        struct vc_unit_part *part = &parts[n_parts];
        struct vc_axis_sums sums = {.len = 0};

        status = sum_up(ctx, model, &places[i], &sums);
        if (status == VC_OK && !member->whole) {
            status = vc_unit_scores_add(ctx, &to, member, sums.sum);
        } else if (status == VC_OK && vc_unit_names_take(&names, member->tensor, &part->unit, &part->rest)) {
            part->name = member->tensor;
            part->sum = total_of(&sums);
            n_parts++;
        }
        vc_axis_sums_release(ctx, &sums);
        VC_TRY(status);
    }
    VC_TRY(vc_unit_scores_add_parts(ctx, &to, parts, n_parts));
    vc_unit_scores_end(&to);
out:
    VC_FREE_ALL(ctx, parts, places);
    return status;
}

/* Units that cannot be compared are a reason, no failure. */
enum vc_status vc_units_scores(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_coupling *group,
                               struct vc_arena *arena, double *scores, const char **reason)
{
    enum vc_status status = make_scores(ctx, model, group, scores);

    *reason = NULL;
    if (status == VC_E_UNSUPPORTED) {
        *reason = vc_arena_printf(ctx, arena, "%s", vc_ctx_message(ctx));
        vc_clear_error(ctx);
        status = *reason == NULL ? VC_E_NOMEM : VC_OK;
    }
    return status;
}

/* n is at most the number of units. */
enum vc_status vc_units_lowest(struct vc_ctx *ctx, const struct vc_coupling *group, const double *scores, uint64_t n,
                               bool *goes)
{
    VC_SCOPED struct vc_ranked_unit *units = vc_alloc_array(ctx, VC_TAG_MISC, (size_t)group->n_units, sizeof *units);

    VC_CALL_ALLOC(units);
    memset(goes, 0, (size_t)group->n_units * sizeof *goes);
    for (uint64_t u = 0; u < group->n_units; u++) {
        units[u] = (struct vc_ranked_unit){.score = scores[u], .unit = u};
    }
    vc_ranked_units_sort(units, (size_t)group->n_units);
    for (uint64_t u = 0; u < n; u++) {
        goes[units[u].unit] = true;
    }
    return VC_OK;
}

/* The norm of what goes in relation to the norm of all: the square root of a quotient of sums of squares. 0
 * for a group without values other than 0. */
double vc_units_share(const struct vc_coupling *group, const double *norms, const bool *goes)
{
    double all = 0.0;
    double gone = 0.0;

    for (uint64_t u = 0; u < group->n_units; u++) {
        all += norms[u];
        gone += goes[u] ? norms[u] : 0.0;
    }
    return all == 0.0 ? 0.0 : sqrt(gone / all);
}
