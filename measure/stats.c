/* stats.c - statistics of every tensor's values (mean, range, zeros, NaN and Inf), one tensor per thread.
 * Sums are exact, so they do not depend on the number of threads.
 *
 *     tile --kernel--> two sums per chunk, counts, range, histogram --> exact sums of the tensor --> mean, rms
 *
 * Codes are decoded on the way: figures are of the weights that they stand for. NaN and Inf are counted and
 * are in no sum and no range. */
#include <math.h>

#include "kernels/kernels.h"
#include "measure/packed_stats.h"
#include "passes/values.h"

/* What threads share; each writes the statistics of its own tensor. */
struct stats_job {
    const struct vc_model *model;
    struct vc_packed_stats *packed; /* of each tensor */
};

/* Sums over the finite values of a tensor. */
struct running {
    struct vc_exact_sum sum, sum2;
};

/* Adds one tile: two sums for each chunk of a row, x and x^2, in exact sums, and the counts.
 * A chunk is of a fixed length, so that its rounded sum is always the same. */
static enum vc_status add_tile(struct vc_ctx *ctx, const struct vc_item *item, const struct vc_tile *tile,
                               const void *data, double *sums, struct running *running, struct vc_value_stats *stats)
{
    const struct vc_kernels *k = vc_kernels_get(ctx);
    struct vc_value_counts counts = {.chunk_sums = sums};
    size_t n_chunks = vc_tile_chunks(tile);

    if (item->desc->dtype == VC_DTYPE_F64) {
        VC_KERNEL_CALL(k->values_f64(data, tile->n_rows, tile->row_len, &counts));
    } else {
        VC_KERNEL_CALL(k->values_f32(data, tile->n_rows, tile->row_len, &counts));
    }
    for (size_t i = 0; i < n_chunks; i++) {
        vc_exact_add(&running->sum, sums[2 * i]);
        vc_exact_add(&running->sum2, sums[2 * i + 1]);
    }
    stats->nans += counts.nans;
    stats->infs += counts.infs;
    stats->zeros += counts.zeros;
    stats->subnormals += counts.subnormals;
    stats->min = fmin(stats->min, counts.min);
    stats->max = fmax(stats->max, counts.max);
    for (size_t i = 0; i < VC_HISTOGRAM_BINS; i++) {
        stats->histogram[i] += counts.histogram[i];
    }
    return VC_OK;
}

/* Mean and rms are of the finite values. If there are none, the range is 0 to 0. */
static void finish(struct vc_value_stats *stats, const struct running *running)
{
    uint64_t finite = stats->n_elems - stats->nans - stats->infs;

    stats->valid = true;
    if (finite == 0) {
        stats->min = 0.0;
        stats->max = 0.0;
        return;
    }
    stats->absmax = fmax(fabs(stats->min), fabs(stats->max));
    stats->mean = vc_exact_value(&running->sum) / (double)finite;
    stats->rms = sqrt(vc_exact_value(&running->sum2) / (double)finite);
}

/* ---- all tensors ---- */

/* A vc_exec_each function. Parts of quantized tensors, and tensors without numbers, get none. */
static enum vc_status one_tensor(struct vc_ctx *ctx, void *user, size_t index, struct vc_buffers *buffers)
{
    struct stats_job *job = user;
    const struct vc_tensor *t = &job->model->tensors[index];
    struct vc_value_stats stats = {.valid = false};
    struct running running = {0};
    struct vc_values values;
    struct vc_tile_reader reader = {0};
    struct vc_tile_result result;
    struct vc_tile tile;
    enum vc_status status = VC_OK;

    if (t->part_of != VC_NO_TENSOR || !vc_values_numeric(t)) {
        return VC_OK;
    }
    stats.n_elems = t->n_elems;
    stats.min = (double)INFINITY;
    stats.max = -(double)INFINITY;
    VC_TRY(vc_values_init(ctx, job->model, index, &values));
    VC_TRY(vc_tile_reader_open(ctx, &values.item, buffers, &reader));
    while (vc_tile_reader_more(ctx, &reader, &tile, &result, &status)) {
        VC_TRY(add_tile(ctx, &values.item, &tile, result.data, buffers->sums, &running, &stats));
    }
    VC_TRY(status);
    finish(&stats, &running);
    VC_TRY(vc_packed_stats_set(ctx, job->packed, index, &stats));
out:
    vc_tile_reader_close(ctx, &reader);
    vc_values_release(ctx, &values);
    return status;
}

/* Packed: large models have many tensors whose statistics are kept side by side. */
enum vc_status vc_packed_stats_make(struct vc_ctx *ctx, const struct vc_model *model, struct vc_packed_stats **out)
{
    struct stats_job job = {.model = model};

    *out = NULL;
    VC_CALL_FOUND(ctx, vc_kernels_get(ctx));
    VC_CALL(vc_packed_stats_create(ctx, model->n_tensors, &job.packed));
    enum vc_status status = vc_values_each(ctx, model, one_tensor, &job);
    if (status != VC_OK) {
        (void)vc_context(ctx, "%s", model->path);
    }
    status = vc_model_unchanged(ctx, model, status);
    if (status != VC_OK) {
        vc_packed_stats_free(ctx, job.packed);
        return status;
    }
    *out = job.packed;
    return VC_OK;
}
