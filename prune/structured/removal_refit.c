/* removal_refit.c - options.reconstruct: what a weight that loses columns becomes, and its bias. A step before the one
 * that removes:
 *
 *     fc2.weight [10, 128] --[ refit: columns that go are 0 ]--[ removal: 10x64 ] passes/statistics/lost_columns.h
 *     fc2.bias   [10]      --[ refit: adds the mean of what fc2.weight does not say any more ]
 *
 * The steps are planned before it is known what goes, and pass tiles on until then. */

#include "passes/decode.h"
#include "passes/measure_tile.h"
#include "passes/select.h"
#include "passes/statistics/lost_columns.h"
#include "prune/structured/removal.h"

/* The state of the step, in the job's arena. */
struct refit {
    struct vc_calibration calibration;
    size_t weight;                /* in the model */
    size_t bias;                  /* VC_NO_TENSOR: it has none that could take the mean */
    bool is_bias;                 /* the step is that of the bias */
    bool centred;                 /* the bias takes the mean */
    bool *gone;                   /* by column, in the job's arena; NULL: none goes, or it is not known yet */
    struct vc_lost_columns *lost; /* between begin and end, ... */
    double *gains;                /* ... and of a bias, for each element */
};

/* ---- which weights ---- */

/* Whether columns of the item may go; *why: these are not made up for. An axis from 1 on is one of the inputs. `makes`
 * would be an axis of outputs. */
static bool loses_columns(const struct vc_structured *s, const struct vc_item *item, const char **why)
{
    bool loses = false;
    size_t first;
    size_t n = vc_structured_find(s, item, &first);

    for (size_t i = first; i < first + n; i++) {
        const struct vc_coupling_member *m = s->members[i].member;

        if (!m->whole && m->axis >= 1 && !m->makes) {
            loses = true;
            *why = s->groups[s->members[i].group].coupling->unit == VC_UNIT_HIDDEN
                       ? "what norms divide by changes with the hidden size"
                       : *why;
        }
    }
    return loses;
}

/* *why is set for the report where a tensor loses columns and cannot be fitted. */
enum vc_status vc_removal_reader(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_item *item,
                                 struct vc_calibration *calibration, size_t *bias, bool *is, const char **why)
{
    const struct vc_desc *desc = item->desc;

    *is = false;
    *bias = VC_NO_TENSOR;
    if (!loses_columns(s, item, why) || *why != NULL) {
        return VC_OK;
    }
    VC_CALL(vc_calibration_find(ctx, s->options.calibration, item, true, calibration));
    /* what the statistics lack */
    if (calibration->moments == VC_NO_TENSOR) {
        *why = "no second moments, so what stays is as it was";
    } else if (desc->dtype == VC_DTYPE_F64) {
        *why = "f64 is not reconstructed";
    } else if (calibration->row * desc->shape[0] != desc->n_elems || calibration->row > VC_TILE_ELEMS) {
        *why = "statistics of parts of its rows";
    } else {
        *why = NULL;
    }
    *is = *why == NULL;
    return vc_calibration_bias(ctx, calibration, item, bias);
}

/* ---- the step ---- */

/* What the outputs of the weight lose on average, row by row: r->gains. The weight is decoded whole, since its bias is
 * another tensor that may come first. */
static enum vc_status fit_bias(struct vc_ctx *ctx, const struct vc_item *item, struct refit *r)
{
    size_t n_rows = (size_t)item->set->model->tensors[r->weight].shape[0];
    size_t row = (size_t)r->calibration.row;
    VC_SCOPED float *weights = vc_alloc_array(ctx, VC_TAG_TILES, n_rows * row, sizeof *weights);
    VC_SCOPED void *work = vc_alloc(ctx, VC_TAG_SCRATCH, vc_lost_columns_work(row));

    VC_CALL(weights == NULL || work == NULL ? VC_E_NOMEM : VC_OK);
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, r->gains, n_rows));
    VC_CALL(vc_decode_tensor(ctx, item->set->model, r->weight, weights, n_rows * row));
    for (size_t at = 0; at < n_rows; at += VC_LOST_ROWS) {
        vc_lost_columns_rows(r->lost, weights + at * row, (size_t)vc_min_u64(VC_LOST_ROWS, n_rows - at), work,
                             r->gains + at);
    }
    return VC_OK;
}

/* The fit is made once the job is written, when it is known what goes; before that nothing is held in memory. */
static enum vc_status refit_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct refit *r = step->state;
    enum vc_status status = VC_OK;

    if (r->gone != NULL) {
        VC_TRY(vc_lost_columns_make(ctx, &r->calibration, r->gone, r->centred, &r->lost));
        if (r->is_bias) {
            VC_TRY(fit_bias(ctx, item, r));
        }
    }
out:
    return status; /* end frees what is there */
}

/* Frees what begin made, also where it failed in the middle. */
static void refit_end(struct vc_ctx *ctx, struct vc_step *step)
{
    struct refit *r = step->state;

    vc_lost_columns_free(ctx, r->lost);
    vc_free(ctx, r->gains);
    r->lost = NULL;
    r->gains = NULL;
}

/* Elements of the largest tile. */
static size_t tile_floats(const struct vc_step *step)
{
    return (size_t)vc_min_u64(step->in.n_elems, VC_TILE_ELEMS);
}

/* Rows of the weight are fitted VC_LOST_ROWS at a time; a bias gets its gains; both are stored in the type of the
 * tensor and measured as stored. Before it is known what goes, tiles pass unchanged. */
static enum vc_status refit_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                  struct vc_tile_out *out)
{
    const struct refit *r = step->state;
    float *before = scratch;
    float *y = before + tile_floats(step);
    size_t row = (size_t)r->calibration.row;

    if (r->gone == NULL) {
        memcpy(out->data, in->data, (size_t)vc_dtype_bytes(step->in.dtype, tile->n_elems));
        return VC_OK;
    }
    VC_CALL(vc_decode_floats(ctx, step->in.dtype, in->data, tile->n_elems, before));
    memcpy(y, before, tile->n_elems * sizeof *y);
    for (size_t at = 0; at < tile->n_elems && !r->is_bias; at += VC_LOST_ROWS * row) {
        vc_lost_columns_rows(r->lost, y + at, (size_t)vc_min_u64(VC_LOST_ROWS, (tile->n_elems - at) / row),
                             y + tile_floats(step), NULL);
    }
    for (size_t i = 0; i < tile->n_elems; i++) {
        y[i] += r->is_bias ? (float)r->gains[tile->first + i] : 0.0f;
        y[i] = vc_store_float(step->in.dtype, y[i], before[i], out->data, i);
        out->stats->zeros_after += y[i] == 0.0f;
    }
    return vc_measure_tile(ctx, tile, before, y, out->stats);
}

static const struct vc_step_ops refit_ops = {.begin = refit_begin, .apply = refit_apply, .end = refit_end};

/* ---- planning ---- */

/* The item is a weight, or else the bias of a weight: then the question is asked about that weight. */
enum vc_status vc_removal_refit_add(struct vc_ctx *ctx, struct vc_structured *s, struct vc_item *item, bool *added,
                                    const char **why)
{
    struct vc_item weight = *item;
    struct refit r = {.bias = VC_NO_TENSOR};
    size_t of = VC_NO_TENSOR;
    bool is_weight = false;

    *added = false;
    *why = NULL;
    if (!s->options.reconstruct) {
        return VC_OK;
    }
    r.weight = item->source;
    VC_CALL(vc_removal_reader(ctx, s, item, &r.calibration, &r.bias, &is_weight, why));
    /* the bias of a weight that loses columns */
    if (!is_weight && *why == NULL) {
        VC_CALL(vc_find_beside(ctx, item->set->model, item->set->model->tensors[item->source].name, ".bias", ".weight",
                               &of));
        if (of != VC_NO_TENSOR) {
            VC_CALL(vc_item_make(ctx, item->set, of, &weight));
        }
        r.weight = of;
        if (of != VC_NO_TENSOR) {
            VC_CALL(vc_removal_reader(ctx, s, &weight, &r.calibration, &r.bias, &r.is_bias, why));
        }
        r.is_bias = r.is_bias && r.bias == item->source;
        *why = NULL;
    }
    if (!is_weight && !r.is_bias) {
        return VC_OK;
    }
    struct vc_step *step = vc_item_add_step(ctx, item, &refit_ops);
    VC_CALL_ALLOC(step);
    VC_CALL_ALLOC(step->state = vc_arena_alloc(ctx, item->set->arena, sizeof r));
    memcpy(step->state, &r, sizeof r);
    step->action = VC_ACTION_REFITTED;
    step->scheme = "least squares";
    step->scratch_bytes =
        2 * tile_floats(step) * sizeof(float) + (is_weight ? vc_lost_columns_work((size_t)r.calibration.row) : 0);
    *added = true;
    s->n_refitted += is_weight;
    return VC_OK;
}

/* The step of this pass that refits the item. */
static struct vc_step *find_step(const struct vc_structured *s, const struct vc_item *item)
{
    for (size_t i = item->chain->pass_first; i < item->chain->n_steps; i++) {
        if (item->chain->steps[i]->ops == &refit_ops && item->chain->steps[i]->pass == &s->pass) {
            return item->chain->steps[i];
        }
    }
    return NULL;
}

/* The columns of the weight that go; NULL: none. A column is an index over all axes from 1 on: of a convolution a
 * channel has several. */
static enum vc_status list_gone(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_item *item,
                                uint64_t row, bool **out)
{
    const struct vc_desc *desc = item->first;
    bool *gone = vc_arena_alloc(ctx, item->set->arena, (size_t)row);
    bool any = false;
    uint64_t inner = row;

    *out = NULL;
    VC_CALL_ALLOC(gone);
    memset(gone, 0, (size_t)row);
    for (unsigned axis = 1; axis < desc->n_dims; axis++) {
        uint64_t len = desc->shape[axis];
        bool *of_axis = vc_calloc_array(ctx, VC_TAG_SCRATCH, (size_t)len + 1, sizeof *of_axis);

        VC_CALL_ALLOC(of_axis);
        inner /= len;
        vc_removal_mark(s, item, axis, of_axis);
        for (uint64_t j = 0; j < row; j++) {
            gone[j] = gone[j] || of_axis[j / inner % len];
            any = any || gone[j];
        }
        vc_free(ctx, of_axis);
    }
    *out = any ? gone : NULL;
    return VC_OK;
}

/* After the decision: the step knows its columns, its label and its memory. A step that has nothing to do passes tiles
 * on. */
enum vc_status vc_removal_refit_settle(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_plan *plan,
                                       struct vc_item *item, bool *refits)
{
    struct vc_step *step = find_step(s, item);
    struct refit *r = step == NULL ? NULL : step->state;
    const struct vc_item *weight = r == NULL ? NULL : &plan->items[r->weight];

    *refits = false;
    if (step == NULL) {
        return VC_OK;
    }
    /* the bias takes the mean only if it has a step of its own */
    r->centred = r->is_bias || (r->bias != VC_NO_TENSOR && !vc_item_is_idle(&plan->items[r->bias]) &&
                                find_step(s, &plan->items[r->bias]) != NULL);
    VC_CALL(list_gone(ctx, s, weight, r->calibration.row, &r->gone));
    *refits = step->lossy = r->gone != NULL;
    VC_REFUSE_IF(*refits && r->centred && weight->chain->pass_first != 0, ctx, VC_E_UNSUPPORTED,
                 "%s: an earlier pass changes it, and its bias is fitted to the source; write a file in between",
                 plan->model->tensors[r->weight].name);
    step->scheme = *refits ? "least squares" : "as it was";
    step->state_bytes = !*refits ? 0
                                 : (size_t)(vc_lost_columns_bytes(r->calibration.row) +
                                            (r->is_bias ? weight->first->n_elems * sizeof(float) : 0) +
                                            step->in.n_elems * sizeof(double));
    return VC_OK;
}
