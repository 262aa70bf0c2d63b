/* calibration.c - see calibration.h. */
#include "passes/statistics/calibration.h"

#include "passes/decode.h"
#include "passes/graph_params.h"
#include "passes/select.h"
#include "passes/statistics/cholesky.h"
#include "passes/values.h"

#define MOST_NAMES 4 /* of tensors in a note */

static const char counts_tail[] = ".counts";
static const char moments_tail[] = ".in_xtx";
static const char means_tail[] = ".in_sum";
static const char axis_tail[] = ".in_axis"; /* only where columns are axis 0 */

enum vc_status vc_calibration_array(struct vc_ctx *ctx, const struct vc_model *file, const char *name, const char *tail,
                                    size_t *out)
{
    char *full = vc_alloc(ctx, VC_TAG_NAMES, strlen(name) + strlen(tail) + 1);

    VC_CALL_ALLOC(full);
    memcpy(full, name, strlen(name));
    memcpy(full + strlen(name), tail, strlen(tail) + 1);
    *out = vc_model_find(file, full);
    vc_free(ctx, full);
    return VC_OK;
}

/* By the name of a tensor, or by that of the tensor that it is made from. */
static enum vc_status find_of(struct vc_ctx *ctx, const struct vc_model *file, const struct vc_model *model,
                              size_t tensor, const char *tail, size_t *out)
{
    const char *source = model->ops->source_name != NULL ? model->ops->source_name(model, tensor) : NULL;
    enum vc_status status = vc_calibration_array(ctx, file, model->tensors[tensor].name, tail, out);

    return status == VC_OK && *out == VC_NO_TENSOR && source != NULL
               ? vc_calibration_array(ctx, file, source, tail, out)
               : status;
}

/* The same few values of a tensor each time, from its first tile. */
enum vc_status vc_calibration_sample(struct vc_ctx *ctx, const struct vc_model *model, const char *tensor,
                                     float out[VC_SAMPLE_ELEMS], uint64_t *n)
{
    size_t t = vc_model_find(model, tensor);
    struct vc_values values = {0};
    struct vc_buffer_sizes sizes = {0};
    struct vc_buffers buffers = {0};
    struct vc_tile_reader reader = {0};
    struct vc_tile_result result;
    struct vc_tile tile;
    bool more = false;
    enum vc_status status = VC_OK;

    *n = 0;
    if (t == VC_NO_TENSOR || !vc_values_numeric(&model->tensors[t])) {
        return VC_OK;
    }
    VC_TRY(vc_values_init_raw(ctx, model, t, &values));
    VC_TRY(vc_decode_add(ctx, &values.item, true));
    vc_buffer_sizes_add(&sizes, &values.item);
    VC_TRY(vc_buffers_alloc(ctx, &sizes, &buffers));
    VC_TRY(vc_tile_reader_open(ctx, &values.item, &buffers, &reader));
    VC_TRY(vc_tile_reader_next(ctx, &reader, &tile, &result, &more));
    if (more) {
        *n = vc_min_u64(VC_SAMPLE_ELEMS, tile.n_elems);
        for (uint64_t i = 0; i < *n; i++) {
            out[i] = ((const float *)result.data)[i * (vc_min_u64(4096, tile.n_elems) / *n)];
        }
    }
out:
    vc_tile_reader_close(ctx, &reader);
    vc_buffers_release(ctx, &buffers);
    vc_values_release(ctx, &values);
    return status;
}

/* Of two samples; NaN where one of them does not vary. */
static double correlation(const float *a, const float *b, size_t n)
{
    double mean[2] = {0.0, 0.0};
    double sum[3] = {0.0, 0.0, 0.0};

    for (size_t i = 0; i < n; i++) {
        mean[0] += (double)a[i] / (double)n;
        mean[1] += (double)b[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        double x = (double)a[i] - mean[0];
        double y = (double)b[i] - mean[1];

        sum[0] += x * x;
        sum[1] += y * y;
        sum[2] += x * y;
    }
    return sum[0] > 0.0 && sum[1] > 0.0 ? sum[2] / sqrt(sum[0] * sum[1]) : NAN;
}

/* All numbers of an array, as floats. */
static enum vc_status read_numbers(struct vc_ctx *ctx, const struct vc_model *file, size_t tensor, float *out)
{
    const struct vc_place whole = vc_place_whole();

    return vc_place_values(ctx, file, tensor, &whole, false, out);
}

/* Whether all numbers are 0; false: the array is not there, or has none. */
static enum vc_status all_zero(struct vc_ctx *ctx, const struct vc_model *file, size_t array, bool *out)
{
    size_t n =
        array != VC_NO_TENSOR && vc_values_numeric(&file->tensors[array]) ? (size_t)file->tensors[array].n_elems : 0;
    VC_SCOPED float *numbers = vc_alloc_array(ctx, VC_TAG_SCRATCH, n + 1, sizeof *numbers);

    VC_CALL_ALLOC(numbers);
    if (n != 0) {
        VC_CALL(read_numbers(ctx, file, array, numbers));
    }
    *out = n != 0;
    for (size_t i = 0; i < n; i++) {
        *out = *out && numbers[i] == 0.0f;
    }
    return VC_OK;
}

/* Which tensors no input reached, or zeros alone. */
static enum vc_status check_seen(struct vc_ctx *ctx, const struct vc_model *file, const struct vc_model *model,
                                 struct vc_arena *arena, const char **note)
{
    const char *names = NULL;
    size_t n_found = 0;
    size_t n_uncounted = 0;
    size_t n_unseen = 0;

    for (size_t i = 0; i < model->n_tensors; i++) {
        size_t sums, counts;
        bool zeros, uncounted;

        VC_CALL(find_of(ctx, file, model, i, VC_SUMS_TAIL, &sums));
        if (sums == VC_NO_TENSOR) {
            continue;
        }
        VC_CALL(find_of(ctx, file, model, i, counts_tail, &counts));
        VC_CALL(all_zero(ctx, file, counts, &uncounted));
        VC_CALL(all_zero(ctx, file, sums, &zeros));
        n_found++;
        n_uncounted += uncounted;
        n_unseen += uncounted || zeros;
        if ((uncounted || zeros) && n_unseen <= MOST_NAMES) {
            names = vc_arena_printf(ctx, arena, "%s%s%s", names != NULL ? names : "", names != NULL ? ", " : "",
                                    model->tensors[i].name);
            VC_CALL_ALLOC(names);
        }
    }
    VC_REFUSE_IF(n_found == 0 && model->n_unseen == 0, ctx, VC_E_UNSUPPORTED,
                 "%s: has statistics of no tensor of this model: those of a tensor NAME are called NAME%s", file->path,
                 VC_SUMS_TAIL);
    VC_REFUSE_IF(n_found != 0 && n_uncounted == n_found && model->n_unseen == 0, ctx, VC_E_UNSUPPORTED,
                 "%s: the statistics are of no input: all counts are 0 (%s%s)", file->path, names,
                 n_unseen > MOST_NAMES ? ", ..." : "");
    if (names != NULL) {
        *note = vc_arena_printf(ctx, arena, "the statistics of %zu tensor%s are of no input, or of zeros alone: %s%s",
                                n_unseen, n_unseen == 1 ? "" : "s", names, n_unseen > MOST_NAMES ? ", ..." : "");
        VC_CALL_ALLOC(*note);
    }
    return VC_OK;
}

/* Whether the tensor is the one that was measured: 1, 0, or -1 where no digest of its type tells. */
static enum vc_status compare_digest(struct vc_ctx *ctx, const struct vc_model *file, const struct vc_model *model,
                                     size_t tensor, int *same)
{
    int64_t theirs[VC_WEIGHT_DIGEST_ELEMS], ours[VC_WEIGHT_DIGEST_ELEMS];
    size_t array;

    *same = -1;
    VC_CALL(vc_calibration_array(ctx, file, model->tensors[tensor].name, VC_WEIGHT_DIGEST, &array));
    if (array == VC_NO_TENSOR || file->tensors[array].dtype != VC_DTYPE_I64 ||
        file->tensors[array].n_elems != VC_WEIGHT_DIGEST_ELEMS || !vc_sha256_built_in()) {
        return VC_OK;
    }
    VC_CALL(vc_source_read_any(ctx, file, array, VC_FORM_VALUES, 0, theirs, sizeof theirs));
    if (theirs[4] == (int64_t)model->tensors[tensor].dtype) {
        VC_CALL(vc_calibration_digest(ctx, model, tensor, ours));
        *same = memcmp(theirs, ours, sizeof ours) == 0;
    }
    return VC_OK;
}

/* Three signs that statistics belong to these weights, from the surest to the weakest:
 *
 *     digest         the bytes are those that were measured
 *     sample         a few values correlate: the weights were trained on, or rounded
 *     names          only that there are statistics of tensors with these names
 *
 * Weights that are not like those measured are refused, others noted. */
enum vc_status vc_calibration_check(struct vc_ctx *ctx, const struct vc_model *file, const struct vc_model *model,
                                    bool anyway, struct vc_arena *arena, const char **note)
{
    const char *other = NULL; /* the first tensor that is not the one that was measured */
    size_t n_other = 0;
    size_t n_compared = 0;
    double like = 0.0;

    *note = NULL;
    if (file == NULL) {
        return VC_OK;
    }
    VC_CALL(check_seen(ctx, file, model, arena, note));
    for (size_t i = 0; i < model->n_tensors; i++) {
        const char *name = model->tensors[i].name;
        float measured[VC_SAMPLE_ELEMS], now[VC_SAMPLE_ELEMS];
        size_t sample;
        uint64_t n;
        int same;

        if (vc_model_absent(model, name) != NULL) {
            continue;
        }
        VC_CALL(compare_digest(ctx, file, model, i, &same));
        if (same == 0) {
            other = n_other++ == 0 ? name : other;
        }
        VC_CALL(vc_calibration_array(ctx, file, name, VC_SAMPLE, &sample));
        if (same == 1) {
            like += sample != VC_NO_TENSOR ? 1.0 : 0.0;
            n_compared += sample != VC_NO_TENSOR ? 1 : 0;
            continue;
        }
        if (sample == VC_NO_TENSOR || file->tensors[sample].dtype != VC_DTYPE_F32) {
            continue;
        }
        VC_CALL(vc_calibration_sample(ctx, model, name, now, &n));
        if (n < 8 || file->tensors[sample].n_elems != n) {
            continue;
        }
        VC_CALL(vc_source_read_any(ctx, file, sample, VC_FORM_VALUES, 0, measured, (size_t)n * sizeof *measured));
        double one = correlation(measured, now, (size_t)n);
        if (same < 0 && !(one >= 0.999)) {
            other = n_other++ == 0 ? name : other;
        }
        like += isnan(one) ? 0.0 : one;
        n_compared += isnan(one) ? 0 : 1;
    }
    VC_REFUSE_IF(n_compared != 0 && !(like >= 0.25 * (double)n_compared) && !anyway, ctx, VC_E_UNSUPPORTED,
                 "%s: the statistics are those of another training: the weights that were measured are not like "
                 "those of this model (%s takes them all the same)",
                 file->path, vc_option(ctx, "calibration_anyway"));
    if (other != NULL) {
        other = vc_arena_printf(ctx, arena, "the weights are not those that were measured for the statistics: %s%s",
                                other, n_other > 1 ? ", ..." : "");
        VC_CALL_ALLOC(other);
    }
    return vc_note_add(ctx, arena, other, note);
}

/* An array of the file has as many floats as it should. */
static enum vc_status check_tensor(struct vc_ctx *ctx, const struct vc_model *file, size_t tensor, uint64_t n,
                                   const char *of)
{
    const struct vc_tensor *t = &file->tensors[tensor];

    VC_REFUSE_IF(!vc_values_numeric(t), ctx, VC_E_UNSUPPORTED, "%s: '%s' has type %s, expected floats", file->path,
                 t->name, vc_dtype_name(t->dtype));
    return t->n_elems == n ? VC_OK
                           : vc_fail(ctx, VC_E_UNSUPPORTED,
                                     "%s: '%s' has %llu numbers, and %s needs %llu: the statistics are those of "
                                     "another model",
                                     file->path, t->name, (unsigned long long)t->n_elems, of, (unsigned long long)n);
}

/* Statistics of n columns for rows behind axis 0: of each, or of groups of as many. */
static void fit_rows(const struct vc_desc *desc, uint64_t n, struct vc_calibration *out)
{
    uint64_t row = desc->shape[0] != 0 ? desc->n_elems / desc->shape[0] : 0;

    if (n != out->row * out->n_matrices && row != 0 && n % row == 0 && n != 0 && desc->shape[0] % (n / row) == 0) {
        out->row = row;
        out->n_matrices = n / row;
    }
}

/* Looks for the arrays of one tensor and checks how many numbers they have. Columns along another axis than
 * usual are marked as turned and have no statistics. */
enum vc_status vc_calibration_find(struct vc_ctx *ctx, const struct vc_model *file, const struct vc_item *item,
                                   bool axis_rows, struct vc_calibration *out)
{
    const struct vc_desc *desc = item->desc;
    const struct vc_model *model;
    const struct vc_tensor *own;
    size_t axis, index;

    *out = (struct vc_calibration){.file = file,
                                   .sums = VC_NO_TENSOR,
                                   .counts = VC_NO_TENSOR,
                                   .moments = VC_NO_TENSOR,
                                   .means = VC_NO_TENSOR,
                                   .n_matrices = 1};
    if (file == NULL || desc->n_dims < 2) {
        return VC_OK;
    }
    model = vc_model_of(item->set->model, item->source, &own);
    index = (size_t)(own - model->tensors);
    out->row = desc->shape[desc->n_dims - 1];
    for (unsigned d = 0; d + 2 < desc->n_dims; d++) {
        out->n_matrices *= desc->shape[d];
    }
    VC_CALL(find_of(ctx, file, model, index, axis_tail, &axis));
    if (axis != VC_NO_TENSOR) {
        out->turned = true;
        return VC_OK;
    }
    VC_CALL(find_of(ctx, file, model, index, VC_SUMS_TAIL, &out->sums));
    VC_CALL(find_of(ctx, file, model, index, counts_tail, &out->counts));
    VC_CALL(find_of(ctx, file, model, index, moments_tail, &out->moments));
    VC_CALL(find_of(ctx, file, model, index, means_tail, &out->means));
    if (out->sums == VC_NO_TENSOR) {
        out->moments = out->means = VC_NO_TENSOR;
        return VC_OK;
    }
    if (axis_rows) {
        fit_rows(desc, file->tensors[out->sums].n_elems, out);
        VC_REFUSE_IF(
            desc->n_dims > 2 && desc->shape[0] != 0 && file->tensors[out->sums].n_elems != out->row * out->n_matrices,
            ctx, VC_E_UNSUPPORTED,
            "%s: '%s' has %llu numbers, and %s needs %llu, or %llu if its last two axes are those of "
            "matrices: the statistics are those of another model",
            file->path, file->tensors[out->sums].name, (unsigned long long)file->tensors[out->sums].n_elems, own->name,
            (unsigned long long)(desc->n_elems / desc->shape[0]), (unsigned long long)(out->row * out->n_matrices));
    }
    if (out->n_matrices != 1) { /* experts and groups have none of their own */
        out->moments = VC_NO_TENSOR;
    }
    VC_CALL(check_tensor(ctx, file, out->sums, out->row * out->n_matrices, own->name));
    if (out->counts != VC_NO_TENSOR) {
        bool one = file->tensors[out->counts].n_elems == 1; /* of all matrices */

        VC_CALL(check_tensor(ctx, file, out->counts, one ? 1 : out->n_matrices, own->name));
    }
    if (out->moments != VC_NO_TENSOR) {
        VC_CALL(check_tensor(ctx, file, out->moments, out->row * out->row, own->name));
    }
    if (out->means != VC_NO_TENSOR) {
        VC_CALL(check_tensor(ctx, file, out->means, out->row * out->n_matrices, own->name));
    }
    return VC_OK;
}

uint64_t vc_calibration_elems(const struct vc_calibration *calibration)
{
    return calibration->sums == VC_NO_TENSOR ? 0 : calibration->row * calibration->n_matrices;
}

/* The importance of the columns of one matrix, from their sums. */
static bool weigh(float *h, uint64_t n, float count)
{
    bool any = false;

    for (uint64_t i = 0; i < n; i++) {
        if (!(h[i] >= 0.0f) || isinf(h[i])) {
            return false;
        }
        any = any || h[i] > 0.0f;
    }
    for (uint64_t i = 0; i < n; i++) {
        h[i] = any && count > 0.0f ? h[i] / count : 1.0f;
    }
    return count >= 0.0f && isfinite(count);
}

/* One for each matrix; the same for groups of a convolution. */
static enum vc_status read_counts(struct vc_ctx *ctx, const struct vc_calibration *calibration, float *counts)
{
    const struct vc_model *file = calibration->file;
    size_t n = (size_t)calibration->n_matrices;
    size_t n_read = 0;

    if (calibration->counts != VC_NO_TENSOR) {
        n_read = (size_t)file->tensors[calibration->counts].n_elems;
        VC_CALL(read_numbers(ctx, file, calibration->counts, counts));
    }
    for (size_t i = n_read; i < n; i++) {
        counts[i] = n_read != 0 ? counts[0] : 1.0f;
    }
    return VC_OK;
}

/* Importance of each column: its sum of squares, divided by how many inputs there were. Columns of a matrix
 * that no input reached are all alike. */
enum vc_status vc_calibration_load(struct vc_ctx *ctx, const struct vc_calibration *calibration, float *importance)
{
    const struct vc_model *file = calibration->file;
    size_t n_matrices = (size_t)calibration->n_matrices;
    VC_SCOPED float *counts = vc_alloc_array(ctx, VC_TAG_MISC, n_matrices, sizeof *counts);

    VC_CALL_ALLOC(counts);
    VC_CALL(read_numbers(ctx, file, calibration->sums, importance));
    VC_CALL(read_counts(ctx, calibration, counts));
    for (size_t i = 0; i < n_matrices; i++) {
        if (!weigh(importance + i * calibration->row, calibration->row, counts[i])) {
            return vc_fail(ctx, VC_E_FORMAT, "%s: '%s' has NaN, infinite or negative numbers (matrix %zu)", file->path,
                           file->tensors[calibration->sums].name, i);
        }
    }
    return VC_OK;
}

/* The refusal of arrays that cannot be sums of products. */
static enum vc_status no_products(struct vc_ctx *ctx, const struct vc_calibration *calibration)
{
    return vc_fail(ctx, VC_E_FORMAT, "%s: '%s': they are no sums of products of inputs", calibration->file->path,
                   calibration->file->tensors[calibration->moments].name);
}

/* Reads X^T X and checks what any such sum has: numbers that are finite, the sums of squares on its
 * diagonal, and symmetry, both within 1 % of the roots. */
enum vc_status vc_calibration_load_moments(struct vc_ctx *ctx, const struct vc_calibration *calibration, float *moments,
                                           double *count)
{
    const struct vc_model *file = calibration->file;
    size_t k = (size_t)calibration->row;
    VC_SCOPED float *sums = vc_alloc_array(ctx, VC_TAG_MISC, k, sizeof *sums);
    bool finite = true;
    bool none = true;
    float counted;

    VC_CALL_ALLOC(sums);
    VC_CALL(read_numbers(ctx, file, calibration->sums, sums));
    VC_CALL(read_numbers(ctx, file, calibration->moments, moments));
    VC_CALL(read_counts(ctx, calibration, &counted));
    for (size_t i = 0; i < k * k; i++) {
        finite = finite && isfinite(moments[i]);
        none = none && moments[i] == 0.0f;
    }
    VC_REFUSE_IF(!finite || !(counted >= 0.0f) || !isfinite(counted), ctx, VC_E_FORMAT,
                 "%s: '%s' has NaN or infinite numbers, or counts less than no inputs", file->path,
                 file->tensors[calibration->moments].name);
    for (size_t i = 0; i < k * k; i++) {
        double root = sqrt(fabs((double)sums[i / k])) * sqrt(fabs((double)sums[i % k]));
        double is = i % (k + 1) == 0 ? root : (double)moments[i % k * k + i / k];

        if (!(fabs((double)moments[i] - is) <= 0.01 * root)) {
            return no_products(ctx, calibration);
        }
    }
    none = none || counted == 0.0f;
    *count = none ? 1.0 : (double)counted;
    for (size_t i = 0; none && i < k * k; i++) { /* as of an expert that no token reached: all columns are alike */
        moments[i] = i % (k + 1) == 0 ? 1.0f : 0.0f;
    }
    return VC_OK;
}

enum vc_status vc_calibration_factor(struct vc_ctx *ctx, const struct vc_calibration *calibration, double *m, size_t k)
{
    return vc_cholesky_factor(m, k) ? VC_OK : no_products(ctx, calibration);
}

/* Sums divided by the count; 0 where there was no input. */
enum vc_status vc_calibration_load_means(struct vc_ctx *ctx, const struct vc_calibration *calibration, float *means)
{
    const struct vc_tensor *t = &calibration->file->tensors[calibration->means];
    size_t n = (size_t)t->n_elems;
    float count;

    VC_CALL(read_numbers(ctx, calibration->file, calibration->means, means));
    VC_CALL(read_counts(ctx, calibration, &count));
    for (size_t i = 0; i < n; i++) {
        VC_REFUSE_IF(!isfinite(means[i]) || !(count >= 0.0f), ctx, VC_E_FORMAT, "%s: '%s' has NaN or infinite numbers",
                     calibration->file->path, t->name);
        means[i] = count > 0.0f ? (float)((double)means[i] / (double)count) : 0.0f;
    }
    return VC_OK;
}

/* Second moments about the means: X^T X - n m m^T. */
void vc_calibration_centre(float *moments, double count, const float *means, size_t k)
{
    for (size_t i = 0; i < k; i++) {
        for (size_t j = 0; j < k; j++) {
            moments[i * k + j] = (float)((double)moments[i * k + j] - count * (double)means[i] * (double)means[j]);
        }
    }
}

/* The bias that can take up a change of means: plain floats, one for each output. */
enum vc_status vc_calibration_bias(struct vc_ctx *ctx, const struct vc_calibration *calibration,
                                   const struct vc_item *item, size_t *bias)
{
    const struct vc_model *model = item->set->model;
    enum vc_status status = vc_find_beside(ctx, model, model->tensors[item->source].name, ".weight", ".bias", bias);
    const struct vc_tensor *t = status == VC_OK && *bias != VC_NO_TENSOR ? &model->tensors[*bias] : NULL;
    bool plain = t != NULL && t->quant == NULL &&
                 (t->dtype == VC_DTYPE_F32 || t->dtype == VC_DTYPE_F16 || t->dtype == VC_DTYPE_BF16);

    *bias = plain && calibration->means != VC_NO_TENSOR && t->n_dims == 1 && t->n_elems == item->desc->shape[0]
                ? *bias
                : VC_NO_TENSOR;
    return status;
}

/* SHA-256 of the graph's text as four integers, which a file of arrays can hold. Zeros without SHA-256. */
void vc_calibration_graph_digest(const char *text, int64_t out[4])
{
    char hex[VC_SHA256_HEX_BYTES];
    struct vc_sha256 sha;

    memset(out, 0, 4 * sizeof *out);
    if (vc_sha256_built_in()) {
        vc_sha256_begin(&sha);
        vc_sha256_add(&sha, text, strlen(text));
        vc_sha256_end(&sha, hex);
        vc_calibration_numbers_of(hex, out);
    }
}

/* Statistics with a graph beside them must be used with the same graph. Without one on either side nothing
 * is checked. */
enum vc_status vc_calibration_check_graph(struct vc_ctx *ctx, const struct vc_model *file, const char *text,
                                          bool anyway)
{
    size_t array = file != NULL ? vc_model_find(file, VC_STATISTICS_GRAPH) : VC_NO_TENSOR;
    int64_t theirs[4], ours[4];

    if (array == VC_NO_TENSOR || text == NULL || anyway || !vc_sha256_built_in() ||
        file->tensors[array].dtype != VC_DTYPE_I64 || file->tensors[array].n_elems != 4) {
        return VC_OK;
    }
    VC_CALL(vc_source_read_any(ctx, file, array, VC_FORM_VALUES, 0, theirs, sizeof theirs));
    vc_calibration_graph_digest(text, ours);
    VC_REFUSE_IF(memcmp(theirs, ours, sizeof ours) != 0, ctx, VC_E_UNSUPPORTED,
                 "%s: the statistics are those of another graph than the one that says what is coupled (%s takes "
                 "them all the same)",
                 file->path, vc_option(ctx, "calibration_anyway"));
    return VC_OK;
}
