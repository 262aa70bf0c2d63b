/* diff.c - vc_diff: compares two checkpoints tensor by tensor, as the weights that they stand for, so that
 * a quantized file can be compared with its source. Reads both; writes nothing.
 *
 *     vc_diff_pairs      a: conv, fc, bn        b: conv, fc, head       pairs: conv-conv, fc-fc, bn-none, none-head
 *     vc_diff_pair       one pair: decodes both sides, adds up sums over tiles, makes the figures of a row
 *     sum_up             all rows: the figures of the models
 *
 * Rows are independent, so threads take one each; every sum is exact and does not depend on their number. */
#include <math.h>

#include "core/base/option_struct.h"
#include "core/job/totals.h"
#include "kernels/kernels.h"
#include "measure/diff.h"
#include "passes/values.h"

/* What the caller gets is the first member. */
struct vc_diff_owned {
    struct vc_diff diff; /* first: what the caller sees */
    struct vc_ctx *ctx;
    struct vc_diff_row *rows;
};

/* What the threads share. Each writes the row of its own pair. */
struct diff_job {
    const struct vc_model *a, *b;
    struct vc_diff_pair *pairs;
    struct vc_diff_row *rows;
};

/* Over all elements of a pair: x of a, y of b, e = y - x. The exact sums give the same result in any order. */
struct sums {
    struct vc_exact_sum x2, e2, y2, xy;
    double max_abs_error;
    uint64_t different, nonfinite_pairs;
};

/* ---- numbers ---- */

/* Adds one tile. The kernel leaves four sums for each chunk of a row, in the order x2, e2, y2, xy; these
 * are added exactly, so only the chunks, whose length is fixed, are rounded. */
static enum vc_status add_tile(struct vc_ctx *ctx, bool is_f64, const struct vc_tile *tile, const void *x,
                               const void *y, double *chunk_sums, struct sums *sums)
{
    const struct vc_kernels *k = vc_kernels_get(ctx);
    struct vc_diff_sums tile_sums = {.chunk_sums = chunk_sums};
    size_t n_chunks = vc_tile_chunks(tile);

    VC_KERNEL_CALL(is_f64 ? k->diff_f64(x, y, tile->n_rows, tile->row_len, &tile_sums)
                          : k->diff_f32(x, y, tile->n_rows, tile->row_len, &tile_sums));
    for (size_t i = 0; i < n_chunks; i++) {
        vc_exact_add(&sums->x2, chunk_sums[4 * i]);
        vc_exact_add(&sums->e2, chunk_sums[4 * i + 1]);
        vc_exact_add(&sums->y2, chunk_sums[4 * i + 2]);
        vc_exact_add(&sums->xy, chunk_sums[4 * i + 3]);
    }
    sums->max_abs_error = fmax(sums->max_abs_error, tile_sums.max_abs_error);
    sums->different += tile_sums.different;
    sums->nonfinite_pairs += tile_sums.nonfinite_pairs;
    return VC_OK;
}

/* The figures of a row, from the sums. Values that differ in being finite have an infinite error. The
 * cosine of two tensors of zeros is 1, of one of them 0.
 *     x = {1, 2, 2}, y = {1, 2, 1}     x2 = 9, e2 = 1, y2 = 6, xy = 7
 *     SQNR 10 log10(9 / 1) = 9.5 dB     cosine 7 / sqrt(54) = 0.953
 */
static void finish(struct vc_diff_row *row, const struct sums *sums)
{
    double x2 = vc_exact_value(&sums->x2);
    double e2 = vc_exact_value(&sums->e2);
    double y2 = vc_exact_value(&sums->y2);

    row->numeric = true;
    row->kind = sums->different == 0 ? VC_DIFF_SAME : VC_DIFF_VALUES;
    row->max_abs_error = sums->nonfinite_pairs != 0 ? (double)INFINITY : sums->max_abs_error;
    row->sqnr_db = vc_sqnr_db(x2, e2);
    row->sum_x2 = x2;
    row->sum_e2 = e2;
    if (x2 == 0.0 || y2 == 0.0) {
        row->cosine = x2 == 0.0 && y2 == 0.0 ? 1.0 : 0.0;
    } else { /* of equal lengths x2 itself, so that the cosine of a tensor with itself is 1 */
        row->cosine = vc_exact_value(&sums->xy) / (x2 == y2 ? x2 : sqrt(x2) * sqrt(y2));
    }
}

/* Walks both tensors tile by tile: adds the sums of their values where they have any (`numeric`), and tells
 * in *same whether their bytes are the same where they are stored alike. The bytes that were read stay in
 * the buffers' `in`, so nothing is read twice.
 * Both sides have the same shape, so their tiles are the same. */
static enum vc_status walk(struct vc_ctx *ctx, struct vc_tile_reader *fa, struct vc_tile_reader *fb, bool numeric,
                           double *chunk_sums, struct sums *sums, bool *same)
{
    const struct vc_tensor *t = &fa->item->set->model->tensors[fa->item->source];

    for (;;) {
        struct vc_tile_result ra;
        struct vc_tile_result rb;
        struct vc_tile tile;
        bool more = false;

        VC_CALL(vc_tile_reader_next(ctx, fa, &tile, &ra, &more));
        VC_CALL(vc_tile_reader_next(ctx, fb, &tile, &rb, &more));
        if (!more) {
            return VC_OK;
        }
        if (numeric) {
            VC_CALL(add_tile(ctx, fa->item->desc->dtype == VC_DTYPE_F64, &tile, ra.data, rb.data, chunk_sums, sums));
        }
        *same = *same && memcmp(fa->buffers->in, fb->buffers->in, (size_t)vc_tensor_bytes(t, tile.n_elems)) == 0;
    }
}

/* Sizes of all axes are equal. */
static bool same_shape(const struct vc_tensor *a, const struct vc_tensor *b)
{
    return a->n_dims == b->n_dims && memcmp(a->shape, b->shape, a->n_dims * sizeof *a->shape) == 0;
}

/* The blocks of the tensor lie in rows of another length (ComfyUI-GGUF's convolutions); it has the shape of `other`, whose
 * values can be read in such rows. */
static bool is_folded(const struct vc_model *model, size_t tensor, const struct vc_tensor *other)
{
    const struct vc_unfolded *whole = model->unfolded != NULL ? model->unfolded[tensor] : NULL;

    return whole != NULL && other->quant == NULL && other->n_elems == model->tensors[tensor].n_elems &&
           whole->n_dims == other->n_dims &&
           memcmp(whole->shape, other->shape, whole->n_dims * sizeof *whole->shape) == 0;
}

/* One pair whose shapes are equal, or one that is folded. If one side is f64, both are read as f64. Bytes are compared only where
 * the two types are equal and neither has scales elsewhere: codes that are equal mean nothing if their
 * scales differ. */
static enum vc_status compare(struct vc_ctx *ctx, const struct vc_model *a, const struct vc_model *b,
                              const struct vc_diff_pair *pair, bool numeric, struct vc_diff_row *row,
                              struct vc_buffers *buffers)
{
    struct vc_values va = {0};
    struct vc_values vb = {0};
    struct vc_tile_reader fa = {0};
    struct vc_tile_reader fb = {0};
    struct sums sums;
    bool same = a->tensors[pair->a].dtype == b->tensors[pair->b].dtype && a->tensors[pair->a].quant == NULL &&
                b->tensors[pair->b].quant == NULL;
    enum vc_status status = VC_OK;

    memset(&sums, 0, sizeof sums);
    const struct vc_tensor *ta = &a->tensors[pair->a];
    const struct vc_tensor *tb = &b->tensors[pair->b];
    bool as_b = !same_shape(ta, tb) && is_folded(b, pair->b, ta);
    bool as_a = !same_shape(ta, tb) && is_folded(a, pair->a, tb);
    VC_TRY(vc_values_init_like(ctx, a, pair->a, as_b ? tb : ta, &va));
    VC_TRY(vc_values_init_like(ctx, b, pair->b, as_a ? ta : tb, &vb));
    if (numeric && va.item.desc->dtype != vb.item.desc->dtype) {
        VC_TRY(vc_values_to_f64(ctx, &va));
        VC_TRY(vc_values_to_f64(ctx, &vb));
    }
    VC_TRY(vc_tile_reader_open(ctx, &va.item, &buffers[0], &fa));
    VC_TRY(vc_tile_reader_open(ctx, &vb.item, &buffers[1], &fb));
    VC_TRY(walk(ctx, &fa, &fb, numeric, buffers[0].sums, &sums, &same));
    row->identical = same;
    if (numeric) {
        finish(row, &sums);
    } else {
        row->kind = same ? VC_DIFF_SAME : VC_DIFF_VALUES;
    }
out:
    vc_tile_reader_close(ctx, &fa);
    vc_tile_reader_close(ctx, &fb);
    vc_values_release(ctx, &va);
    vc_values_release(ctx, &vb);
    return status;
}

/* Decides what can be said without reading: absent on one side, another shape, or bytes of other types that
 * cannot be compared. The rest is compared. */
enum vc_status vc_diff_pair(struct vc_ctx *ctx, const struct vc_model *model_a, const struct vc_model *model_b,
                            const struct vc_diff_pair *pair, struct vc_diff_row *row, struct vc_buffers *buffers)
{
    const struct vc_tensor *a = pair->a != VC_NO_TENSOR ? &model_a->tensors[pair->a] : NULL;
    const struct vc_tensor *b = pair->b != VC_NO_TENSOR ? &model_b->tensors[pair->b] : NULL;
    const struct vc_tensor *any = a != NULL ? a : b;

    *row = (struct vc_diff_row){.name = any->name,
                                .dtype_a = a != NULL ? a->dtype : VC_DTYPE_NONE,
                                .dtype_b = b != NULL ? b->dtype : VC_DTYPE_NONE,
                                .n_elems = any->n_elems};
    if (a == NULL || b == NULL) {
        row->kind = a != NULL ? VC_DIFF_ONLY_A : VC_DIFF_ONLY_B;
        return VC_OK;
    }
    if (!same_shape(a, b) && !is_folded(model_a, pair->a, b) && !is_folded(model_b, pair->b, a)) {
        row->kind = VC_DIFF_SHAPE;
        return VC_OK;
    }
    bool numeric = vc_values_numeric(a) && vc_values_numeric(b);
    if (!numeric && (a->dtype != b->dtype || a->size_bytes != b->size_bytes)) {
        row->kind = VC_DIFF_VALUES;
        return VC_OK;
    }
    return compare(ctx, model_a, model_b, pair, numeric, row, buffers);
}

/* A vc_exec_each function. */
static enum vc_status one_pair(struct vc_ctx *ctx, void *user, size_t index, struct vc_buffers *buffers)
{
    const struct diff_job *job = user;

    return vc_diff_pair(ctx, job->a, job->b, &job->pairs[index], &job->rows[index], buffers);
}

/* ---- the whole ---- */

#define STRIDE ((size_t)1 << 16) /* tensors between two looks at whether the call is cancelled */

/* Tensors of both by name: all of `a` in its order, with or without a partner, then those that only `b`
 * has. Parts of quantized tensors are not rows of their own. */
enum vc_status vc_diff_pairs(struct vc_ctx *ctx, const struct vc_model *a, const struct vc_model *b,
                             struct vc_diff_pair *pairs, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < a->n_tensors; i++) {
        if (i % STRIDE == 0) {
            VC_CALL(vc_check_cancelled(ctx));
        }
        if (a->tensors[i].part_of == VC_NO_TENSOR) {
            size_t other = vc_model_find(b, a->tensors[i].name);

            if (other != VC_NO_TENSOR && b->tensors[other].part_of != VC_NO_TENSOR) {
                other = VC_NO_TENSOR;
            }
            pairs[(*n)++] = (struct vc_diff_pair){i, other};
        }
    }
    for (size_t i = 0; i < b->n_tensors; i++) {
        if (i % STRIDE == 0) {
            VC_CALL(vc_check_cancelled(ctx));
        }
        if (b->tensors[i].part_of == VC_NO_TENSOR) {
            size_t other = vc_model_find(a, b->tensors[i].name);

            if (other == VC_NO_TENSOR || a->tensors[other].part_of != VC_NO_TENSOR) {
                pairs[(*n)++] = (struct vc_diff_pair){VC_NO_TENSOR, i};
            }
        }
    }
    return VC_OK;
}

/* Room for both sides at once, with four sums for each chunk. */
void vc_diff_sizes(const struct vc_model *a, const struct vc_model *b, struct vc_buffer_sizes *sizes)
{
    vc_values_sizes(a, 4, sizes);
    vc_values_sizes(b, 4, sizes);
}

/* The figures of the whole: SQNR over the values of all tensors, as if they were one.
 * A large tensor counts by its values, not as one among many. */
static void sum_up(struct vc_diff *diff)
{
    struct vc_exact_sum x2;
    struct vc_exact_sum e2;

    vc_exact_clear(&x2);
    vc_exact_clear(&e2);
    for (size_t i = 0; i < diff->n_rows; i++) {
        const struct vc_diff_row *row = &diff->rows[i];

        diff->n_different += row->kind != VC_DIFF_SAME;
        if (row->numeric) {
            vc_exact_add(&x2, row->sum_x2);
            vc_exact_add(&e2, row->sum_e2);
            diff->max_abs_error = fmax(diff->max_abs_error, row->max_abs_error);
        }
    }
    diff->sqnr_db = vc_sqnr_db(vc_exact_value(&x2), vc_exact_value(&e2));
}

/* Refuses a file with tensors that cannot be read: "all equal" would be said of files that were not compared in full.
 */
static enum vc_status check_readable(struct vc_ctx *ctx, const struct vc_model *model)
{
    return model->n_refused == 0 ? VC_OK
                                 : vc_fail(ctx, VC_E_UNSUPPORTED, "%s: %s: %s", model->path, model->refused[0].name,
                                           model->refused[0].why);
}

static void end(void *result)
{
    struct vc_diff_owned *owned = result;

    vc_free(owned->ctx, owned->rows);
}

/* Both files must be readable in full and must not change while they are read. Buffers are two sets for
 * each thread. */
static enum vc_status diff_models(struct vc_ctx *ctx, const struct vc_model *a, const struct vc_model *b,
                                  struct vc_diff **out)
{
    struct diff_job job = {.a = a, .b = b};
    struct vc_diff_owned *owned = NULL;
    size_t n_max = a->n_tensors + b->n_tensors;
    struct vc_buffer_sizes sizes = {0};
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY(check_readable(ctx, a));
    VC_TRY(check_readable(ctx, b));
    VC_CALL_FOUND(ctx, vc_kernels_get(ctx));
    VC_TRY(VC_RESULT(ctx, VC_TAG_REPORT, owned, end));
    owned->ctx = ctx;
    VC_TRY(VC_ZEROS(ctx, VC_TAG_REPORT, owned->rows, n_max));
    job.rows = owned->rows;
    VC_TRY(VC_ARRAY(ctx, VC_TAG_MISC, job.pairs, n_max));
    VC_TRY(vc_diff_pairs(ctx, a, b, job.pairs, &owned->diff.n_rows));
    vc_diff_sizes(a, b, &sizes);
    status = vc_exec_each(ctx, owned->diff.n_rows, NULL, &sizes, 2, one_pair, &job);
    if (status != VC_OK) {
        (void)vc_context(ctx, "%s, %s", a->path, b->path);
    }
    VC_TRY(vc_model_unchanged(ctx, b, vc_model_unchanged(ctx, a, status)));
    owned->diff.rows = owned->rows;
    sum_up(&owned->diff);
    *out = &owned->diff;
out:
    vc_free(ctx, job.pairs);
    if (status != VC_OK) {
        vc_result_free(owned);
    }
    return status;
}

enum vc_status vc_diff_models(struct vc_ctx *ctx, const struct vc_model *a, const struct vc_model *b,
                              struct vc_diff **out)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, diff_models(ctx, a, b, out));
}

/* ---- limits ---- */

/* A row passes if it is the same, or if its values differ within every limit that is set. A tensor that is
 * missing, has another shape, or has no numbers passes never. Limits that cannot be used allow no difference. */
bool vc_diff_within(const struct vc_diff_limits *limits, const struct vc_diff_row *row)
{
    struct vc_diff_limits own = {.by_value = true, .tolerance = 0};

    (void)vc_options_take(VC_OPTIONS(diff_limits), limits, &own);
    if (row->kind == VC_DIFF_SAME) {
        return true;
    }
    if (row->kind != VC_DIFF_VALUES || !row->numeric) {
        return false;
    }
    return (!own.by_value || (own.tolerance > 0 && row->max_abs_error <= own.tolerance)) &&
           (!own.by_sqnr || row->sqnr_db >= own.min_sqnr_db);
}
