/* reconstruct.c - what the weights that stay become, for every kind of step: least squares by the second moments of the
 * inputs (passes/statistics/refit.h), row by row, in the tile that the mask was applied to; or what sparsegpt.c found.
 */

#include "passes/measure_tile.h"
#include "passes/statistics/refit.h"
#include "prune/prune_steps.h"

const char *const vc_no_moments = "no second moments";
const char *const vc_weights_turned = "stored as [in, out]";

/* Sets s->refitted, or step->why with the reason why the weights stay as they are. */
enum vc_status vc_reconstruct_plan(struct vc_ctx *ctx, const struct vc_item *item, struct vc_step *step)
{
    struct vc_prune_state *s = step->state;
    const char *why = NULL;
    uint64_t n_rows, row_len;

    if (!s->options->reconstruct) {
        return VC_OK;
    }
    VC_CALL(vc_calibration_find(ctx, s->options->calibration, item, true, &s->calibration));
    vc_desc_grid(&step->in, &n_rows, &row_len);
    /* why the weights cannot be fitted */
    if (s->calibration.turned) {
        why = vc_weights_turned;
    } else if (s->calibration.moments == VC_NO_TENSOR) {
        why = vc_no_moments;
    } else if (step->in.dtype == VC_DTYPE_F64) {
        why = "f64 is not reconstructed";
    } else if (row_len % s->calibration.row != 0 || s->calibration.row > VC_TILE_ELEMS) {
        why = "rows longer than a tile";
    }
    s->refitted = why == NULL;
    step->why = why != NULL ? why : step->why;
    return VC_OK;
}

/* The second moments of a row as floats, and once as doubles for the factor. */
size_t vc_reconstruct_state(const struct vc_step *step)
{
    const struct vc_prune_state *s = step->state;

    return s->refitted ? (size_t)(s->calibration.row * s->calibration.row) * (sizeof(float) + sizeof(double)) : 0;
}

size_t vc_reconstruct_scratch(const struct vc_step *step)
{
    const struct vc_prune_state *s = step->state;

    return s->refitted || s->options->score == VC_SCORE_SPARSEGPT
               ? (vc_prune_tile(step) + vc_refit_floats((size_t)s->calibration.row)) * sizeof(float)
               : 0;
}

/* The factor is only computed to find out whether the moments are usable (damped, positive definite). After a failure the end
 * of the step frees what is there. */
enum vc_status vc_reconstruct_begin(struct vc_ctx *ctx, struct vc_step *step)
{
    struct vc_prune_state *s = step->state;
    size_t row = (size_t)s->calibration.row;
    VC_SCOPED double *factor = NULL;
    double count;

    if (s->refitted) {
        VC_CALL(VC_ARRAY(ctx, VC_TAG_TILES, s->moments, row * row));
        VC_CALL(vc_calibration_load_moments(ctx, &s->calibration, s->moments, &count));
        vc_refit_prepare(s->moments, count, row);
        VC_CALL(VC_ARRAY(ctx, VC_TAG_TILES, factor, row * row));
        for (size_t i = 0; i < row * row; i++) {
            factor[i] = (double)s->moments[i];
        }
        VC_CALL(vc_calibration_factor(ctx, &s->calibration, factor, row));
    }
    return VC_OK;
}

/* y begins as the values of the tile; rows are fitted VC_REFIT_ROWS at a time; what is stored is rounded to the type,
 * and measured as stored. */
enum vc_status vc_reconstruct(struct vc_ctx *ctx, const struct vc_step *step, const struct vc_tile *tile,
                              const float *values, const uint8_t *mask, uint64_t first, char *scratch,
                              struct vc_tile_out *out)
{
    const struct vc_prune_state *s = step->state;
    size_t row = (size_t)s->calibration.row;
    float *y = (float *)(void *)scratch;
    float *work = y + vc_prune_tile(step);
    uint64_t zeros = 0;

    memcpy(y, values, tile->n_elems * sizeof *y);
    /* sparsegpt.c has found them already */
    for (size_t i = 0; !s->refitted && i < tile->n_elems; i++) {
        y[i] = (mask[(first + i) / 8] & 1U << (first + i) % 8) != 0 ? s->fitted[first + i] : 0.0f;
    }
    for (size_t at = 0; s->refitted && at < tile->n_elems; at += VC_REFIT_ROWS * row) {
        vc_refit(s->moments, row, mask, (size_t)first + at, y + at,
                 (size_t)vc_min_u64(VC_REFIT_ROWS, (tile->n_elems - at) / row), work);
    }
    for (size_t i = 0; i < tile->n_elems; i++) {
        float before;

        memcpy(&before, (const char *)values + i * sizeof before, sizeof before);
        y[i] = vc_store_float(step->in.dtype, y[i], before, out->data, i);
        zeros += y[i] == 0.0f;
    }
    out->stats->zeros_after = zeros;
    return vc_measure_tile(ctx, tile, values, y, out->stats);
}
