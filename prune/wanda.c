/* wanda.c - the step that scores a weight by what it does to the answers of its row, |w| * sqrt(E[x^2]) with x the
 * input of its column (Wanda, Sun et al. 2023): of each row the smallest scores go, or N of every M stay. The row of a
 * convolution is a filter. With `reconstruct` the weights that stay make up for those that go
 * (passes/statistics/refit.h), which needs second moments. Scores of SparseGPT are found by a scan before
 * (sparsegpt.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "prune/prune_steps.h"

static int by_value(const void *a, const void *b)
{
    const struct vc_low_score *x = a;
    const struct vc_low_score *y = b;

    if (x->value != y->value) {
        return x->value < y->value ? -1 : 1;
    }
    return x->at < y->at ? -1 : x->at > y->at;
}

void vc_mask_lowest(struct vc_low_score *scores, size_t n, size_t n_go, uint8_t *mask)
{
    qsort(scores, n, sizeof *scores, by_value);
    for (size_t i = 0; i < n_go; i++) {
        mask[scores[i].at / 8] &= (uint8_t) ~(1u << scores[i].at % 8);
    }
}

/* ---- what begin reads ---- */

static enum vc_status wanda_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct vc_prune_state *s = step->state;
    size_t n = (size_t)vc_calibration_elems(&s->calibration);
    enum vc_status status = VC_OK;

    atomic_store(&s->n_checked, 0);
    if (step->scan) {
        VC_TRY(vc_sparse_begin(ctx, s, step->in.n_elems));
        return vc_reconstruct_begin(ctx, step);
    }
    s->importance = vc_alloc_array(ctx, VC_TAG_SCALES, n, sizeof *s->importance);
    VC_TRY_ALLOC(s->importance);
    VC_TRY(vc_calibration_load(ctx, &s->calibration, s->importance));
    for (size_t i = 0; i < n; i++) {
        s->importance[i] = sqrtf(s->importance[i]);
    }
    VC_TRY(vc_reconstruct_begin(ctx, step));
out:
    return status; /* end frees what is there */
}

static void wanda_end(struct vc_ctx *ctx, struct vc_step *step)
{
    struct vc_prune_state *s = step->state;

    step->n_checked = atomic_load(&s->n_checked);
    vc_free(ctx, s->importance);
    vc_free(ctx, s->fitted);
    vc_free(ctx, s->mask);
    vc_compensation_free(ctx, s->compensation);
    s->importance = s->fitted = NULL;
    s->mask = NULL;
    s->compensation = NULL;
    vc_reconstruct_end(ctx, step);
}

/* ---- one tile: whole rows ---- */

/* Scratch: the mask, scores, their order. */
struct room {
    uint8_t *mask;
    float *scores;
    struct vc_low_score *order;
    char *rest; /* of prune_tile.c */
};

static size_t aligned(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

static size_t room_bytes(const struct vc_step *step, const struct vc_prune_state *s)
{
    size_t n = (size_t)vc_min_u64(step->in.n_elems, VC_TILE_ELEMS);
    size_t row = (size_t)s->calibration.row;

    return aligned(VC_TILE_ELEMS / 8 + 8) + aligned(n * sizeof(float)) + aligned(row * sizeof(struct vc_low_score));
}

static void carve(const struct vc_step *step, const struct vc_prune_state *s, void *scratch, struct room *r)
{
    size_t n = (size_t)vc_min_u64(step->in.n_elems, VC_TILE_ELEMS);
    size_t row = (size_t)s->calibration.row;
    char *at = scratch;

    r->mask = (uint8_t *)at;
    at += aligned(VC_TILE_ELEMS / 8 + 8);
    r->scores = (float *)(void *)at;
    at += aligned(n * sizeof(float));
    r->order = (struct vc_low_score *)(void *)at;
    r->rest = at + aligned(row * sizeof(struct vc_low_score));
}

static float value_at(const void *values, size_t i)
{
    float value;

    memcpy(&value, (const char *)values + i * sizeof value, sizeof value);
    return value;
}

static void score_rows(const struct vc_prune_state *s, const struct vc_step *step, const struct vc_tile *tile,
                       const void *values, float *scores)
{
    size_t row = (size_t)s->calibration.row;
    uint64_t rows_each = step->in.n_elems / row / s->calibration.n_matrices;

    for (size_t i = 0; i < tile->n_elems; i++) {
        uint64_t at = tile->first + i;

        scores[i] = fabsf(value_at(values, i)) * s->importance[at / row / rows_each * row + at % row];
    }
}

/* Of each row the n_go smallest scores, of equal ones the first. */
static void mask_rows(const struct vc_prune_state *s, const struct vc_tile *tile, const struct room *r)
{
    size_t row = (size_t)s->calibration.row;
    size_t n_go = (size_t)vc_fraction_floor(s->share, row);

    memset(r->mask, 0xff, (tile->n_elems + 7) / 8);
    for (size_t first = 0; first < tile->n_elems; first += row) {
        for (size_t j = 0; j < row; j++) {
            r->order[j] = (struct vc_low_score){r->scores[first + j], first + j};
        }
        vc_mask_lowest(r->order, row, n_go, r->mask);
    }
}

static enum vc_status make_mask(struct vc_ctx *ctx, const struct vc_step *step, const struct vc_tile *tile,
                                const void *values, const struct room *r)
{
    const struct vc_prune_state *s = step->state;
    const struct vc_prune_options *o = s->options;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    enum vc_status status = VC_OK;

    score_rows(s, step, tile, values, r->scores);
    if (o->pattern == VC_PATTERN_N_OF_M) {
        VC_KERNEL_TRY(k->mask_n_of_m_f32(r->scores, tile->n_elems / (size_t)(s->n_len * s->n_inner), (size_t)s->n_len,
                                         (size_t)s->n_inner, o->keep, o->group, r->mask));
        VC_TRY(vc_n_of_m_check(ctx, step->state, r->mask, tile->n_elems));
    } else {
        mask_rows(s, tile, r);
    }
out:
    return status;
}

static enum vc_status wanda_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                  struct vc_tile_out *out)
{
    const struct vc_prune_state *s = step->state;
    struct room r;
    char *after;
    const void *values;

    if (vc_has_nonfinite(step->in.dtype, in->data, tile->n_elems)) {
        return vc_prune_refuse(ctx);
    }
    if (s->mask != NULL) {
        return vc_prune_apply(ctx, step, tile, in->data, s->mask, tile->first, scratch, out);
    }
    carve(step, s, scratch, &r);
    after = r.rest;
    VC_CALL(vc_prune_values(ctx, step->in.dtype, in->data, tile->n_elems, &after, &values));
    VC_CALL(make_mask(ctx, step, tile, values, &r));
    return vc_prune_apply(ctx, step, tile, in->data, r.mask, 0, r.rest, out);
}

static const struct vc_step_ops wanda_ops = {.calibrate = vc_policy_calibrate,
                                             .explain = vc_policy_explain,
                                             .begin = wanda_begin,
                                             .scan = vc_sparse_scan,
                                             .scan_end = vc_sparse_scan_end,
                                             .apply = wanda_apply,
                                             .end = wanda_end,
                                             .forget = vc_prune_forget};

const char *vc_wanda_reason(struct vc_ctx *ctx, const struct vc_prune_options *options, const struct vc_item *item,
                            struct vc_calibration *out, enum vc_status *status)
{
    uint64_t n_rows;
    uint64_t row_len;

    vc_desc_grid(item->desc, &n_rows, &row_len);
    *status = vc_calibration_find(ctx, options->calibration, item, true, out);
    if (*status != VC_OK || out->sums == VC_NO_TENSOR) {
        return "no statistics";
    }
    return item->desc->dtype == VC_DTYPE_F64                                      ? "f64"
           : options->score == VC_SCORE_SPARSEGPT && out->moments == VC_NO_TENSOR ? "no second moments"
           : row_len != out->row || row_len > VC_TILE_ELEMS ? "its rows are not those of the statistics"
                                                            : NULL;
}

enum vc_status vc_wanda_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_prune_options *options,
                            const struct vc_calibration *calibration, struct vc_fraction share, const char *scheme)
{
    bool along_last = calibration->row == item->desc->shape[item->desc->n_dims - 1];
    struct vc_prune_state *s;
    struct vc_step *step;

    VC_CALL(vc_prune_add_step(ctx, item, &wanda_ops, options, scheme, &s, &step));
    s->calibration = *calibration;
    s->share = share;
    if (options->pattern == VC_PATTERN_N_OF_M) {
        step->keep = options->keep;
        step->group = options->group;
        s->n_len = along_last ? calibration->row : step->in.shape[1]; /* input channels */
        s->n_inner = calibration->row / s->n_len;
    }
    step->scan = options->score == VC_SCORE_SPARSEGPT;
    step->state_bytes =
        step->scan ? vc_sparse_state(s, step->in.n_elems) : (size_t)vc_calibration_elems(calibration) * sizeof(float);
    step->state_bytes += vc_reconstruct_state(step);
    step->scratch_bytes = vc_prune_scratch(step, room_bytes(step, s));
    vc_item_replan(item);
    return VC_OK;
}
