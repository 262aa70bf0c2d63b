/* verify_data.c - the values of a file, for what headers cannot tell: checksums, scales that are none,
 * codes beyond their range, NaN and Inf, the same weights twice. Every tensor is read once, front to back.
 *
 * Threads take a tensor each and note what they see in `struct seen`; findings are made of that at the end,
 * in the order of the file. Then the reader checks what belongs to no tensor, and tensors whose bytes have
 * the same hash are compared.
 *
 *     tensor               read as                      looked at
 *     floats               values (F32 or F64)          NaN, Inf, range; scales: finite, above 0
 *     scales as bytes      bytes                        E8M0, E4M3: a number, not below 0
 *     codes                bytes, then decoded          -128 where the scheme has none; what `dequantize` refuses
 *     blocks of GGUF       values, decoded              NaN and Inf, which come from scales inside
 *     anything else        bytes                        the digest alone
 *
 * A file may be wrong in many places: a fault ends the work on its tensor and no other. */

#include "core/base/array.h"
#include "core/model/code_schemes.h"
#include "core/text/text.h"
#include "kernels/grid_codes.h"
#include "kernels/kernels.h"
#include "measure/diff.h"
#include "measure/verify/verify_parts.h"
#include "passes/sha256.h"
#include "passes/values.h"

#define VC_TIED_MIN_ELEMS 1024 /* smaller tensors are often equal by chance: all zeros, all ones */

/* What a worker saw of one tensor.
 * Numbers only; sentences are made from them at the end. */
struct seen {
    char *error;         /* the pool's; why it cannot be read */
    uint64_t bad_scales; /* NaN, Inf, zero, or negative where that is not meant */
    uint64_t first_bad;
    float bad_value;
    uint64_t low_codes; /* -128 where the scheme has no such code */
    /* To find tensors with the same bytes; valid for floats. */
    bool numeric;
    double min, max;
    uint64_t hash; /* of the bytes, in their order */
};

/* What the threads share; each writes `seen` of its own tensor. */
struct data_job {
    struct verify *v;
    struct seen *seen;
};

/* ---- one tensor ---- */

/* Counts scales that are none and keeps the first. negative: scales below 0 are right; zero: those of 0.
 * NaN fails isfinite; the sign of a zero does not matter. */
static void look_at_scales(const float *x, const struct vc_tile *tile, bool negative, bool zero, struct seen *seen)
{
    for (uint64_t i = 0; i < tile->n_elems; i++) {
        if (!isfinite(x[i]) || (x[i] < 0.0F && !negative) || (x[i] == 0.0F && !zero)) {
            if (seen->bad_scales++ == 0) {
                seen->first_bad = tile->first + i;
                seen->bad_value = x[i];
            }
        }
    }
}

/* Scales that are bytes: E8M0 or E4M3. One of 0 is harmless: its codes are 0. */
static void look_at_bytes(const uint8_t *bytes, const struct vc_tile *tile, enum vc_dtype type, struct seen *seen)
{
    for (uint64_t i = 0; i < tile->n_elems; i++) {
        float value = type == VC_DTYPE_F8_E8M0 ? vc_e8m0_value(bytes[i]) : vc_e4m3_value(bytes[i]);

        if (!isfinite(value) || signbit(value)) {
            if (seen->bad_scales++ == 0) {
                seen->first_bad = tile->first + i;
                seen->bad_value = value;
            }
        }
    }
}

/* Counts -128: symmetric codes of this library go from -127 to 127, so something else wrote it, or damage did. */
static void look_at_codes(const int8_t *codes, const struct vc_tile *tile, struct seen *seen)
{
    for (uint64_t i = 0; i < tile->n_elems; i++) {
        seen->low_codes += codes[i] == INT8_MIN;
    }
}

/* Counts NaN and Inf, and widens the range. The kernel wants room for its sums, which nobody needs here. */
static enum vc_status look_at_floats(struct vc_ctx *ctx, bool is_f64, const struct vc_tile *tile, const void *data,
                                     double *sums, struct vc_verify_row *row, struct seen *seen)
{
    const struct vc_kernels *k = vc_kernels_get(ctx);
    struct vc_value_counts counts = {.chunk_sums = sums};

    VC_KERNEL_CALL(is_f64 ? k->values_f64(data, tile->n_rows, tile->row_len, &counts)
                          : k->values_f32(data, tile->n_rows, tile->row_len, &counts));
    row->nans += counts.nans;
    row->infs += counts.infs;
    seen->min = fmin(seen->min, counts.min);
    seen->max = fmax(seen->max, counts.max);
    return VC_OK;
}

/* Scales, by what the reader knows or, of weights that it takes for plain tensors, by the names that loaders go by.
 * *absmax: they are largest magnitudes, which may be 0. */
static bool is_scale(const struct vc_model *model, size_t index, bool *absmax)
{
    const struct vc_tensor *t = &model->tensors[index];
    const struct vc_quant *quant = t->part_of != VC_NO_TENSOR ? model->tensors[t->part_of].quant : NULL;

    *absmax = quant != NULL && (vc_quant_find(quant, VC_PART_ABSMAX) != VC_NO_TENSOR ||
                                quant->scheme == VC_SCHEME_NF4 || quant->scheme == VC_SCHEME_FP4);
    return quant != NULL ? vc_quant_scale(quant) == index || vc_quant_find(quant, VC_PART_GLOBAL_SCALE) == index
                         : vc_ends_in(t->name, ".weight_scale") || vc_ends_in(t->name, ".weight_scale_inv");
}

/* Which scales beside those above 0 are right: nodes of a graph multiply by any; there are schemes of both signs; whole
 * numbers of GGUF's blocks are groups that have any, 0 for zeros; and MLX's scales with a bias have any. */
static void find_signs(const struct vc_model *model, size_t index, bool absmax, bool *negative, bool *zero)
{
    const struct vc_tensor *t = &model->tensors[index];
    const struct vc_quant *quant = t->part_of != VC_NO_TENSOR ? model->tensors[t->part_of].quant : NULL;
    const struct vc_code_scheme *row = quant != NULL ? vc_code_scheme(quant->scheme) : NULL;
    bool blocks =
        row != NULL && row->grid == VC_GRID_NONE && quant->symmetric && quant->granularity == VC_GRANULARITY_GROUP;
    bool any = model->ops->code_places != NULL || blocks || (quant != NULL && quant->offset_rule != VC_OFFSET_NONE);

    *negative = any || (row != NULL && vc_code_groups(row, VC_DTYPE_NONE, NULL).both_signs);
    *zero = any || absmax;
}

/* What the bytes of scales are, E8M0 or E4M3; NONE: the tensor holds no scales, or holds them as f32.
 * A scale of a scheme is F32 in most files, and then a tensor of floats like others. */
static enum vc_dtype type_of_bytes(const struct vc_model *model, size_t index)
{
    const struct vc_tensor *t = &model->tensors[index];
    const struct vc_quant *quant = t->part_of != VC_NO_TENSOR ? model->tensors[t->part_of].quant : NULL;

    return quant != NULL && t->dtype != VC_DTYPE_F32 && vc_quant_scale(quant) == index
               ? vc_code_scheme(quant->scheme)->scale
               : VC_DTYPE_NONE;
}

/* Symmetric codes that go from -127 to 127: ours. Other programs use -128 as well. */
static bool has_narrow_codes(const struct vc_model *model, const struct vc_tensor *t)
{
    return t->quant != NULL && t->dtype == VC_DTYPE_I8 && t->quant->symmetric &&
           vc_ends_in(model->tensors[vc_quant_scale(t->quant)].name, ".scale");
}

/* Where the bytes of a tensor go as they are read. */
struct digests {
    struct vc_sha256 *sha; /* NULL: not wanted */
    uint64_t hash;
};

/* Eight bytes are multiplied into the hash, and its upper half comes down, so that each bit reaches later
 * ones. Anybody can make two tensors with one hash: it finds what to compare, and proves nothing. The pieces
 * are tiles, which are the same for tensors of one shape; the last bytes of each are filled up with zeros. */
static uint64_t add_to_hash(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *bytes = data;

    while (n != 0) {
        uint64_t word = 0;
        size_t taken = n < sizeof word ? n : sizeof word;

        if (taken == sizeof word) { /* a size that the compiler knows: one load */
            memcpy(&word, bytes, sizeof word);
        } else {
            memcpy(&word, bytes, taken);
        }
        hash = (hash ^ word) * 0x9E3779B97F4A7C15U; /* 2^64 over the golden ratio: odd, its bits well mixed */
        hash ^= hash >> 32;
        bytes += taken;
        n -= taken;
    }
    return hash;
}

/* A vc_tile_reader.see function. */
static void add_to_digests(void *user, const void *data, size_t n)
{
    struct digests *d = user;

    d->hash = add_to_hash(d->hash, data, n);
    if (d->sha != NULL) {
        vc_sha256_add(d->sha, data, n);
    }
}

/* Reads one tensor and looks at every tile: floats as values, everything else as its bytes. Digest and hash
 * are of the bytes as they are read.
 * Codes are seen as bytes here; decode() makes values of them in a second walk. */
static enum vc_status walk(struct vc_ctx *ctx, const struct verify *v, size_t index, struct vc_values *values,
                           struct vc_buffers *buffers, struct seen *seen)
{
    const struct vc_tensor *t = &v->model->tensors[index];
    bool absmax = false;
    bool negative = false;
    bool zero = false;
    bool scales = is_scale(v->model, index, &absmax);
    enum vc_dtype bytes = type_of_bytes(v->model, index);
    bool is_f64 = values->item.desc->dtype == VC_DTYPE_F64;
    struct vc_sha256 sha;
    struct digests digests = {.sha = v->options.sha256 ? &sha : NULL};
    struct vc_tile_reader reader = {0};
    struct vc_tile_result result;
    struct vc_tile tile;
    enum vc_status status;

    find_signs(v->model, index, absmax, &negative, &zero);
    VC_TRY(vc_tile_reader_open(ctx, &values->item, buffers, &reader));
    if (v->options.sha256) {
        vc_sha256_begin(&sha);
    }
    reader.see = add_to_digests;
    reader.user = &digests;
    while (vc_tile_reader_more(ctx, &reader, &tile, &result, &status)) {
        if (seen->numeric) {
            VC_TRY(look_at_floats(ctx, is_f64, &tile, result.data, buffers->sums, &v->rows[index], seen));
        }
        if (bytes != VC_DTYPE_NONE) {
            look_at_bytes(result.data, &tile, bytes, seen);
        }
        if (seen->numeric && scales && !is_f64) {
            look_at_scales(result.data, &tile, negative, zero, seen);
        }
        if (has_narrow_codes(v->model, t)) {
            look_at_codes(result.data, &tile, seen);
        }
    }
    VC_TRY(status);
    seen->hash = digests.hash;
    v->rows[index].read = true;
    if (v->options.sha256) {
        vc_sha256_end(&sha, v->rows[index].sha256);
    }
out:
    vc_tile_reader_close(ctx, &reader);
    return status;
}

/* All values of codes, as `dequantize` makes them: what it refuses is wrong with the file. */
static enum vc_status decode(struct vc_ctx *ctx, const struct vc_model *model, size_t index, struct vc_buffers *buffers)
{
    struct vc_values values = {0};
    struct vc_tile_reader reader = {0};
    enum vc_status status;
    bool more = true;

    VC_TRY(vc_values_init_strict(ctx, model, index, &values));
    VC_TRY(vc_tile_reader_open(ctx, &values.item, buffers, &reader));
    while (more) {
        struct vc_tile_result result;
        struct vc_tile tile;

        VC_TRY(vc_tile_reader_next(ctx, &reader, &tile, &result, &more));
    }
out:
    vc_tile_reader_close(ctx, &reader);
    vc_values_release(ctx, &values);
    return status;
}

/* A vc_exec_each function. A fault of the file is noted, and the work goes on with the next tensor. */
static enum vc_status one_tensor(struct vc_ctx *ctx, void *user, size_t index, struct vc_buffers *buffers)
{
    const struct data_job *job = user;
    const struct vc_tensor *t = &job->v->model->tensors[index];
    struct seen *seen = &job->seen[index];
    struct vc_values values = {0};
    enum vc_status status;

    seen->numeric = t->quant == NULL && vc_values_numeric(t);
    seen->min = (double)INFINITY;
    seen->max = -(double)INFINITY;
    if (seen->numeric) {
        VC_TRY(vc_values_init(ctx, job->v->model, index, &values));
    } else {
        VC_TRY(vc_values_init_raw(ctx, job->v->model, index, &values));
    }
    VC_TRY(walk(ctx, job->v, index, &values, buffers, seen));
    vc_values_release(ctx, &values);
    if (t->quant != NULL) {
        VC_TRY(decode(ctx, job->v->model, index, buffers));
    }
    return VC_OK;
out:
    vc_values_release(ctx, &values);
    return vc_verify_take(ctx, status, &seen->error);
}

/* ---- the same weights twice ---- */

/* A tensor and what it is sorted by. */
struct keyed_tensor {
    const struct verify *v;
    const struct seen *seen;
    size_t tensor;
};

/* 0: type, shape and hash are the same, so that the bytes are, too, but for a chance of 1 to 2^64: what lies
 * between two tensors of the same bytes in the sorted list has these bytes as well. */
static int alike(const struct keyed_tensor *x, const struct keyed_tensor *y)
{
    const struct vc_tensor *a = &x->v->model->tensors[x->tensor];
    const struct vc_tensor *b = &y->v->model->tensors[y->tensor];
    int order = VC_FIRST_ORDER(VC_ORDER(x->seen->hash, y->seen->hash), VC_ORDER(a->dtype, b->dtype),
                               VC_ORDER(a->n_dims, b->n_dims));

    return order != 0 ? order : memcmp(a->shape, b->shape, a->n_dims * sizeof *a->shape);
}

/* Those that are alike lie next to each other, in the order of the file. */
static int compare_keyed_tensors(const void *a, const void *b)
{
    const struct keyed_tensor *x = a;
    const struct keyed_tensor *y = b;

    return VC_FIRST_ORDER(alike(x, y), VC_ORDER(x->tensor, y->tensor));
}

/* Tensors that may be tied: large ones whose values are not all the same. Returns how many.
 * Tensors that the file itself says are one (alias_of) are no finding. */
static size_t list_keyed_tensors(const struct verify *v, const struct seen *seen, struct keyed_tensor *list)
{
    size_t n = 0;

    for (size_t i = 0; i < v->model->n_tensors; i++) {
        const struct vc_tensor *t = &v->model->tensors[i];

        if (v->rows[i].read && seen[i].numeric && t->n_elems >= VC_TIED_MIN_ELEMS && seen[i].min < seen[i].max &&
            t->alias_of == VC_NO_TENSOR) {
            list[n++] = (struct keyed_tensor){v, &seen[i], i};
        }
    }
    if (n > 1) {
        qsort(list, n, sizeof *list, compare_keyed_tensors);
    }
    return n;
}

/* Tensors with the same bytes. Neighbours in the sorted list that are alike are read again and compared,
 * which hardly ever happens without a reason. */
static enum vc_status find_tied(struct vc_ctx *ctx, const struct verify *v, const struct seen *seen)
{
    struct keyed_tensor *list = vc_alloc_array(ctx, VC_TAG_MISC, v->model->n_tensors, sizeof *list);
    struct vc_buffers buffers[2] = {{0}, {0}};
    struct vc_buffer_sizes sizes = {0};
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(list);
    size_t n = list_keyed_tensors(v, seen, list);
    vc_diff_sizes(v->model, v->model, &sizes);
    for (size_t i = 1; i < n; i++) {
        struct vc_diff_pair pair = {list[i - 1].tensor, list[i].tensor};
        struct vc_diff_row row;

        if (alike(&list[i - 1], &list[i]) != 0) {
            continue;
        }
        if (buffers[0].block == NULL) {
            VC_TRY(vc_buffers_alloc(ctx, &sizes, &buffers[0]));
            VC_TRY(vc_buffers_alloc(ctx, &sizes, &buffers[1]));
        }
        VC_TRY(vc_diff_pair(ctx, v->model, v->model, &pair, &row, buffers));
        if (row.identical) {
            VC_TRY(vc_find(ctx, VC_SEVERITY_WARNING, "tied", v->rows[pair.b].name,
                           "has the same %llu values as '%s': tied weights need to be written once only",
                           (unsigned long long)v->rows[pair.b].n_elems, v->rows[pair.a].name));
        }
    }
out:
    vc_buffers_release(ctx, &buffers[0]);
    vc_buffers_release(ctx, &buffers[1]);
    vc_free(ctx, list);
    return status;
}

/* ---- findings ---- */

/* The findings of one tensor. Values that are not finite are an error in scales and in blocks, else a
 * warning: weights may have them.
 * A tensor with bad scales has no second finding about NaN. */
static enum vc_status report_tensor(struct vc_ctx *ctx, const struct verify *v, size_t index, const struct seen *seen)
{
    const struct vc_verify_row *row = &v->rows[index];
    enum vc_status status = VC_OK;

    if (seen->error != NULL) {
        status = vc_fail(ctx, VC_E_FORMAT, "%s", seen->error);
        return vc_collect(ctx, status, "data", row->name);
    }
    if (seen->bad_scales != 0) {
        VC_CALL(vc_find(ctx, VC_SEVERITY_ERROR, "scale", row->name,
                        "has %llu of %llu scales that are not finite and above 0; the first is number %llu: %g",
                        (unsigned long long)seen->bad_scales, (unsigned long long)row->n_elems,
                        (unsigned long long)seen->first_bad, (double)seen->bad_value));
    } else if (row->nans + row->infs != 0) {
        bool blocks = vc_dtype_is_quantized(v->model->tensors[index].dtype); /* their scales are in them */

        enum vc_severity severity = blocks ? VC_SEVERITY_ERROR : VC_SEVERITY_WARNING;

        VC_CALL(vc_find(ctx, severity, blocks ? "scale" : "nonfinite", row->name,
                        "has %llu NaN and %llu Inf among %llu values%s", (unsigned long long)row->nans,
                        (unsigned long long)row->infs, (unsigned long long)row->n_elems,
                        blocks ? ": llama.cpp refuses blocks with such scales" : ""));
    }
    if (seen->low_codes != 0) {
        VC_CALL(vc_find(ctx, VC_SEVERITY_ERROR, "range", row->name,
                        "has %llu codes of -128; symmetric int8 goes from -127 to 127",
                        (unsigned long long)seen->low_codes));
    }
    return VC_OK;
}

/* Reads all tensors, the largest first, then reports in the order of the file. */
enum vc_status vc_verify_data(struct vc_ctx *ctx, struct verify *v)
{
    struct data_job job = {.v = v};
    size_t n = v->model->n_tensors;
    enum vc_status status = VC_OK;

    VC_CALL_FOUND(ctx, vc_kernels_get(ctx));
    VC_TRY_ALLOC(job.seen = vc_calloc_array(ctx, VC_TAG_REPORT, n, sizeof *job.seen));
    VC_TRY(vc_values_each(ctx, v->model, one_tensor, &job));
    for (size_t i = 0; i < n; i++) {
        VC_TRY(report_tensor(ctx, v, i, &job.seen[i]));
    }
    if (v->model->ops != NULL && v->model->ops->check_rest != NULL) {
        VC_TRY(v->model->ops->check_rest(ctx, v->model));
    }
    VC_TRY(find_tied(ctx, v, job.seen));
out:
    for (size_t i = 0; job.seen != NULL && i < n; i++) {
        vc_free(ctx, job.seen[i].error);
    }
    vc_free(ctx, job.seen);
    return status;
}
