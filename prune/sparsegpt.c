/* sparsegpt.c - the scan that removes weights and gives what the row loses by each to the weights behind it (SparseGPT,
 * Frantar and Alistarh 2023), by the second moments of the inputs. With U as in passes/statistics/compensate.h, columns
 * in the order of the file:
 *
 *     for each block of columns:   the weights with the least |w_j| / U_jj go, over all rows; of N:M in each group
 *                                  w_i -= w_j / U_jj * U_ji for i > j, column by column
 *
 * A block has COLUMNS columns, or is as wide as a group: M columns, of a convolution M channels with their taps. The
 * tensor lies in memory meanwhile. The step is that of wanda.c. */
#include <math.h>

#include "prune/prune_steps.h"

/* By score, equal ones by place. */
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

/* Columns whose weights are chosen together, as in the paper. */
#define COLUMNS 128

/* The whole tensor as f32, its mask, U, and the scores of one block of columns of all rows. */
size_t vc_sparse_state(const struct vc_prune_state *s, uint64_t n_elems)
{
    uint64_t k = s->calibration.row;

    return (size_t)(vc_compensation_bytes(k) + (k * k + n_elems + k * VC_COMPENSATE_ROWS) * sizeof(float) +
                    n_elems / 8 + n_elems / k * vc_min_u64(k, COLUMNS) * sizeof(struct vc_low_score));
}

/* After a failure the end of the step frees what is there. */
enum vc_status vc_sparse_begin(struct vc_ctx *ctx, struct vc_prune_state *s, uint64_t n_elems)
{
    size_t k = (size_t)s->calibration.row;
    VC_SCOPED float *moments = vc_alloc_array(ctx, VC_TAG_TILES, k * k, sizeof *moments);
    double count;

    VC_CALL_ALLOC(moments);
    VC_CALL(vc_calibration_load_moments(ctx, &s->calibration, moments, &count));
    VC_CALL(vc_compensation_make(ctx, &s->calibration, moments, count, false, &s->compensation));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_TILES, s->fitted, (size_t)n_elems));
    VC_CALL_ALLOC(s->mask = vc_calloc_array(ctx, VC_TAG_SCRATCH, (size_t)vc_ceil_div_u64(n_elems, 8), 1));
    return VC_OK;
}

enum vc_status vc_sparse_scan(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                              const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    const struct vc_prune_state *s = step->state;
    char *room = scratch;
    const void *values;

    if (vc_has_nonfinite(step->in.dtype, in->data, tile->n_elems)) {
        return vc_prune_refuse(ctx);
    }
    VC_CALL(vc_prune_values(ctx, step->in.dtype, in->data, tile->n_elems, &room, &values));
    memcpy(s->fitted + tile->first, values, tile->n_elems * sizeof *s->fitted);
    return VC_OK;
}

/* The bit of the weight is set. */
static bool stays(const struct vc_prune_state *s, size_t at)
{
    return (s->mask[at / 8] & 1U << at % 8) != 0;
}

/* Which weights of columns from..to - 1 go: of all rows together the share of all columns before `to`, without those
 * that went before; of N:M all but N of each row and tap. n_go is a difference of floors, so that the sum over all
 * blocks is exactly the share of the tensor. */
static void choose(struct vc_prune_state *s, size_t n_rows, size_t from, size_t to, struct vc_low_score *order)
{
    size_t k = (size_t)s->calibration.row;
    size_t keep = s->options->keep;
    size_t inner = s->n_inner != 0 ? (size_t)s->n_inner : 1;
    size_t together = s->n_inner != 0 ? 1 : n_rows;
    uint64_t n_go = vc_fraction_floor(s->share, n_rows * to) - vc_fraction_floor(s->share, n_rows * from);

    for (size_t set = 0; set < n_rows / together * inner; set++) {
        size_t row = set / inner * together;
        size_t n = 0;

        for (size_t end = row + together; row < end; row++) {
            for (size_t j = from + set % inner; j < to; j += inner) {
                float w = stays(s, row * k + j) ? s->fitted[row * k + j] : 0.0f;

                order[n++] =
                    (struct vc_low_score){fabsf(w) / vc_compensation_diagonal(s->compensation, j), row * k + j};
            }
        }
        vc_mask_lowest(order, n, s->n_inner == 0 ? (size_t)n_go : n > keep ? n - keep : 0, s->mask);
    }
}

/* For vc_compensate: what a weight becomes when its column is done. The rows from s->first_row on. */
static float value(const void *user, size_t row, size_t column, float x)
{
    const struct vc_prune_state *s = user;

    return stays(s, (s->first_row + row) * (size_t)s->calibration.row + column) ? x : 0.0f;
}

/* Block by block: choose, then every row passes its losses on to the columns behind. */
enum vc_status vc_sparse_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct vc_prune_state *s = step->state;
    size_t k = (size_t)s->calibration.row;
    size_t n = (size_t)step->in.n_elems;
    size_t block = s->n_inner != 0 ? s->options->group * (size_t)s->n_inner : COLUMNS;
    VC_SCOPED struct vc_low_score *order =
        vc_alloc_array(ctx, VC_TAG_SCRATCH, n / k * (k < block ? k : block), sizeof *order);
    VC_SCOPED float *work = vc_alloc_array(ctx, VC_TAG_SCRATCH, k * VC_COMPENSATE_ROWS, sizeof *work);

    VC_CALL_ALLOC(order);
    VC_CALL_ALLOC(work);
    for (size_t i = 0; i < n; i++) { /* weights that are 0 stay 0 */
        s->mask[i / 8] |= (uint8_t)((s->fitted[i] != 0.0f) << i % 8);
    }
    for (size_t from = 0; from < k; from += block) {
        size_t to = from + block < k ? from + block : k;

        VC_CALL(vc_check_cancelled(ctx));
        choose(s, n / k, from, to, order);
        for (s->first_row = 0; s->first_row < n / k; s->first_row += VC_COMPENSATE_ROWS) {
            vc_compensate(s->compensation, from, to, s->fitted + s->first_row * k,
                          (size_t)vc_min_u64(VC_COMPENSATE_ROWS, n / k - s->first_row), work, value, s);
        }
    }
    if (s->n_inner != 0) {
        VC_CALL(vc_n_of_m_check(ctx, s, s->mask, n));
    }
    return VC_OK;
}
