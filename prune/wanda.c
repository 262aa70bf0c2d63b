/* wanda.c - the step that scores a weight by what it does to the answers of its row, |w| * sqrt(E[x^2]) with x the
 * input of its column (Wanda, Sun et al. 2023): of each row the smallest scores go, or N of every M stay. The row of a
 * convolution is a filter. With `reconstruct` the weights that stay make up for those that go
 * (passes/statistics/refit.h), which needs second moments. Scores of SparseGPT are found by a scan before
 * (sparsegpt.c). */
#include <math.h>

#include "prune/prune_steps.h"

/* ---- what begin reads ---- */

/* importance[j] = sqrt(E[x_j^2]), for each column of each matrix of the tensor. */
static enum vc_status wanda_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct vc_prune_state *s = step->state;
    size_t n = (size_t)vc_calibration_elems(&s->calibration);

    atomic_store(&s->n_checked, 0);
    if (step->scan) {
        VC_CALL(vc_sparse_begin(ctx, s, step->in.n_elems));
        return vc_reconstruct_begin(ctx, step);
    }
    VC_CALL(VC_ARRAY(ctx, VC_TAG_SCALES, s->importance, n));
    VC_CALL(vc_calibration_load(ctx, &s->calibration, s->importance));
    for (size_t i = 0; i < n; i++) {
        s->importance[i] = sqrtf(s->importance[i]);
    }
    return vc_reconstruct_begin(ctx, step); /* end frees what is there */
}

/* ---- one tile: whole rows ---- */

/* Scratch: the mask, scores, their order, what prune_tile.c needs. */
static size_t room_bytes(const struct vc_step *step, const struct vc_prune_state *s)
{
    return VC_POOL_ALIGNED(VC_TILE_ELEMS / 8 + 8) + VC_POOL_ALIGNED(vc_prune_tile(step) * sizeof(float)) +
           VC_POOL_ALIGNED((size_t)s->calibration.row * sizeof(struct vc_low_score));
}

/* A tensor may have several matrices (experts), each with statistics of its own: rows_each rows of it. */
static void score_rows(const struct vc_prune_state *s, const struct vc_step *step, const struct vc_tile *tile,
                       const void *values, float *scores)
{
    size_t row = (size_t)s->calibration.row;
    uint64_t rows_each = step->in.n_elems / row / s->calibration.n_matrices;

    for (size_t i = 0; i < tile->n_elems; i++) {
        uint64_t at = tile->first + i;
        float value;

        memcpy(&value, (const char *)values + i * sizeof value, sizeof value);
        scores[i] = fabsf(value) * s->importance[at / row / rows_each * row + at % row];
    }
}

/* The mask of whole rows: of each the smallest scores go, of equal ones the first; or N of every M stay. A row loses
 * floor(share * row) weights. */
static enum vc_status make_mask(struct vc_ctx *ctx, const struct vc_step *step, const struct vc_tile *tile,
                                const float *scores, struct vc_low_score *order, uint8_t *mask)
{
    const struct vc_prune_state *s = step->state;
    const struct vc_prune_options *o = s->options;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    size_t row = (size_t)s->calibration.row;

    if (o->pattern == VC_PATTERN_N_OF_M) {
        VC_KERNEL_CALL(k->mask_n_of_m_f32(scores, tile->n_elems / (size_t)(s->n_len * s->n_inner), (size_t)s->n_len,
                                          (size_t)s->n_inner, o->keep, o->group, mask));
        return vc_n_of_m_check(ctx, step->state, mask, tile->n_elems);
    }
    memset(mask, 0xff, (tile->n_elems + 7) / 8);
    for (size_t first = 0; first < tile->n_elems; first += row) {
        for (size_t j = 0; j < row; j++) {
            order[j] = (struct vc_low_score){scores[first + j], first + j};
        }
        vc_mask_lowest(order, row, (size_t)vc_fraction_floor(s->share, row), mask);
    }
    return VC_OK;
}

/* s->mask is there where sparsegpt.c has made it in a scan. */
static enum vc_status wanda_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                  struct vc_tile_out *out)
{
    const struct vc_prune_state *s = step->state;
    float *scores = (float *)(void *)((char *)scratch + VC_POOL_ALIGNED(VC_TILE_ELEMS / 8 + 8));
    char *order = (char *)scores + VC_POOL_ALIGNED(vc_prune_tile(step) * sizeof *scores);
    char *room = (char *)scratch + room_bytes(step, s);
    char *after = room;
    const void *values;

    if (vc_has_nonfinite(step->in.dtype, in->data, tile->n_elems)) {
        return vc_prune_refuse(ctx);
    }
    if (s->mask != NULL) {
        return vc_prune_apply(ctx, step, tile, in->data, s->mask, tile->first, scratch, out);
    }
    VC_CALL(vc_prune_values(ctx, step->in.dtype, in->data, tile->n_elems, &after, &values));
    score_rows(s, step, tile, values, scores);
    VC_CALL(make_mask(ctx, step, tile, scores, (struct vc_low_score *)(void *)order, scratch));
    return vc_prune_apply(ctx, step, tile, in->data, scratch, 0, room, out);
}

static const struct vc_step_ops wanda_ops = {.calibrate = vc_policy_calibrate,
                                             .explain = vc_policy_explain,
                                             .begin = wanda_begin,
                                             .scan = vc_sparse_scan,
                                             .scan_end = vc_sparse_scan_end,
                                             .apply = wanda_apply,
                                             .end = vc_prune_end,
                                             .forget = vc_prune_forget};

/* Tensors that the statistics do not fit are kept, with the reason; a tile has to hold whole rows. */
enum vc_status vc_wanda_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_prune_options *options,
                            struct vc_fraction share, const char *scheme, const char **reason)
{
    bool sparse = options->score == VC_SCORE_SPARSEGPT;
    struct vc_calibration c;
    struct vc_prune_state *s;
    struct vc_step *step;
    uint64_t n_rows, row_len;

    vc_desc_grid(item->desc, &n_rows, &row_len);
    VC_CALL(vc_calibration_find(ctx, options->calibration, item, true, &c));
    *reason = NULL;
    /* why the statistics cannot score this tensor */
    if (c.turned) {
        *reason = vc_weights_turned;
    } else if (c.sums == VC_NO_TENSOR) {
        *reason = "no statistics";
    } else if (item->desc->dtype == VC_DTYPE_F64) {
        *reason = "f64";
    } else if (sparse && c.moments == VC_NO_TENSOR) {
        *reason = vc_no_moments;
    } else if (row_len != c.row || row_len > VC_TILE_ELEMS) {
        *reason = "its rows are not those of the statistics";
    }
    if (*reason != NULL) {
        return vc_item_keep_as(ctx, item, *reason);
    }
    VC_CALL(vc_prune_add_step(ctx, item, &wanda_ops, options, scheme, &s, &step));
    s->calibration = c;
    s->share = share;
    /* groups lie along the input channels; the taps of a kernel are apart */
    if (options->pattern == VC_PATTERN_N_OF_M) {
        step->keep = options->keep;
        step->group = options->group;
        s->n_len = c.row == step->in.shape[step->in.n_dims - 1] ? c.row : step->in.shape[1]; /* input channels */
        s->n_inner = c.row / s->n_len;
    }
    step->scan = sparse;
    step->state_bytes = vc_reconstruct_state(step) + (sparse ? vc_sparse_state(s, step->in.n_elems)
                                                             : (size_t)vc_calibration_elems(&c) * sizeof(float));
    step->scratch_bytes = vc_prune_scratch(step, room_bytes(step, s));
    vc_item_replan(item);
    return VC_OK;
}
