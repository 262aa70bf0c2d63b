/* merge.c - vc_statistics_merge: files of vc_calibrate that saw other rows of the same model become one. An array is
 * put together by the end of its name:
 *
 *     a.npz  fc1.weight.in_sum2  3.0 ..   .in_max  1.5 ..   .in_hist (width 1/256)
 *     b.npz  fc1.weight.in_sum2  2.0 ..   .in_max  2.5 ..   .in_hist (width 1/128)
 *     c.npz  fc1.weight.in_sum2  5.0 ..   .in_max  2.5 ..   .in_hist (width 1/128) */
#include <math.h>
#include <string.h>

#include <vcompress/calibrate.h>

#include "core/base/checked.h"
#include "core/model/memory_model.h"
#include "distill/calibrate/value_range.h"
#include "kernels/kernels.h"
#include "passes/graph_params.h"
#include "passes/statistics/calibration.h"
#include "passes/values.h"

#define HALF (VC_RANGE_BINS / 2)

enum rule { SAME, ADDED, LEAST, MOST, COUNTED };

static const struct {
    const char *tail;
    enum rule rule;
} rules[] = {
    {"_sum", ADDED}, {"_sum2", ADDED}, {"_xtx", ADDED},    {".counts", ADDED},          {"_min", LEAST},
    {"_max", MOST},  {"_width", MOST}, {"_hist", COUNTED}, {VC_STATISTICS_ROWS, ADDED}, {VC_STATISTICS_DATA, ADDED}};

/* One array of the result. */
struct merged {
    const struct vc_tensor *tensor; /* of the first file */
    enum rule rule;
    union { /* n_elems of one of them */
        double *reals;
        int64_t *integers;
        void *any;
    } sum, next;
    size_t width; /* COUNTED: the array of its width */
};

struct merge {
    struct vc_ctx *ctx;
    const struct vc_model *const *files;
    size_t n_files;
    bool imatrix; /* sums of squares and counts alone, in f32 */
    struct merged *arrays;
    size_t n_arrays;
    struct vc_memory_tensor *out;
};

static bool ends_in(const char *name, const char *tail)
{
    size_t n = strlen(name);
    size_t m = strlen(tail);

    return n >= m && strcmp(name + n - m, tail) == 0;
}

static bool is_integer(const struct merged *m)
{
    return vc_is_integer(m->tensor->dtype);
}

/* Numbers of the array in that file; found in it by name, and of the same shape. */
static enum vc_status read(const struct merge *g, const struct merged *m, const struct vc_model *file, void *to)
{
    const struct vc_place whole = vc_place_whole();
    size_t at = vc_model_find(file, m->tensor->name);
    const struct vc_tensor *t = at != VC_NO_TENSOR ? &file->tensors[at] : NULL;

    if (t == NULL || t->n_elems != m->tensor->n_elems || vc_is_integer(t->dtype) != is_integer(m)) {
        return vc_fail(g->ctx, VC_E_UNSUPPORTED, "%s: has no '%s' like %s: the statistics are those of another model",
                       file->path, m->tensor->name, g->files[0]->path);
    }
    return is_integer(m) ? vc_place_integers(g->ctx, file, at, &whole, to)
                         : vc_place_values(g->ctx, file, at, &whole, true, to);
}

/* Bins of at least that width: two neighbours become one. False: the width is no power of two. */
static bool widen(double *bins, double width, double to)
{
    int exponent;

    if (frexp(width, &exponent) != 0.5) {
        return false;
    }
    for (; width < to; width *= 2.0) {
        for (size_t b = 0; b < HALF; b++) { /* outwards */
            double left = bins[HALF - 1 - b];
            double right = bins[HALF + b];

            bins[HALF - 1 - b] = bins[HALF + b] = 0.0;
            bins[HALF - 1 - b / 2] += left;
            bins[HALF + b / 2] += right;
        }
    }
    return true;
}

static enum vc_status add_bins(const struct merge *g, const struct merged *m, const struct vc_model *file)
{
    const struct merged *width = m->width < g->n_arrays ? &g->arrays[m->width] : NULL;
    bool good = width != NULL && m->tensor->n_elems == VC_RANGE_BINS &&
                widen(m->sum.reals, *width->sum.reals, *width->next.reals) &&
                widen(m->next.reals, *width->next.reals, *width->sum.reals);

    for (size_t b = 0; good && b < VC_RANGE_BINS; b++) {
        good = m->next.reals[b] >= 0.0;
        m->sum.reals[b] += m->next.reals[b];
    }
    return good ? VC_OK
                : vc_fail(g->ctx, VC_E_FORMAT, "%s: '%s' and its width are no histogram", file->path, m->tensor->name);
}

static enum vc_status combine(const struct merge *g, const struct merged *m, const struct vc_model *file)
{
    size_t n = (size_t)m->tensor->n_elems;

    if (m->rule == SAME && memcmp(m->sum.any, m->next.any, n * sizeof(double)) != 0) {
        return vc_fail(g->ctx, VC_E_UNSUPPORTED,
                       "%s: '%s' is not that of %s: the statistics are those of another model", file->path,
                       m->tensor->name, g->files[0]->path);
    }
    for (size_t i = 0; m->rule == ADDED && is_integer(m) && i < n; i++) {
        m->sum.integers[i] = (int64_t)((uint64_t)m->sum.integers[i] + (uint64_t)m->next.integers[i]);
    }
    for (size_t i = 0; m->rule != SAME && m->rule != COUNTED && !is_integer(m) && i < n; i++) {
        double a = m->sum.reals[i];
        double b = m->next.reals[i];

        m->sum.reals[i] = m->rule == ADDED ? a + b : (m->rule == LEAST) == (a < b) ? a : b;
    }
    return m->rule == COUNTED ? add_bins(g, m, file) : VC_OK;
}

/* Of the rows that a file has seen; zeros: it does not say. */
static enum vc_status read_digest(const struct merge *g, size_t k, int64_t digest[4])
{
    const struct vc_place whole = vc_place_whole();
    size_t at = vc_model_find(g->files[k], VC_STATISTICS_DATA);
    const struct vc_tensor *t = at != VC_NO_TENSOR ? &g->files[k]->tensors[at] : NULL;

    memset(digest, 0, 4 * sizeof *digest);
    return t != NULL && t->n_elems == 4 && vc_is_integer(t->dtype)
               ? vc_place_integers(g->ctx, g->files[k], at, &whole, digest)
               : VC_OK;
}

/* Two files with the same rows would count these twice. */
static enum vc_status check_rows(const struct merge *g)
{
    static const int64_t none[4] = {0, 0, 0, 0};
    int64_t digests[2][4];
    enum vc_status status = VC_OK;

    for (size_t k = 1; k < g->n_files; k++) {
        VC_TRY(read_digest(g, k, digests[0]));
        for (size_t i = 0; i < k; i++) {
            VC_TRY(read_digest(g, i, digests[1]));
            if (memcmp(digests[0], digests[1], sizeof none) == 0 && memcmp(digests[0], none, sizeof none) != 0) {
                return vc_fail(g->ctx, VC_E_ARGUMENT, "%s: has seen the rows of %s, which would count twice",
                               g->files[k]->path, g->files[i]->path);
            }
        }
    }
out:
    return status;
}

static enum vc_status list_arrays(struct merge *g)
{
    const struct vc_model *first = g->files[0];
    enum vc_status status = VC_OK;
    bool any = false;

    for (size_t i = 0; i < first->n_tensors; i++) {
        any = any || ends_in(first->tensors[i].name, ".in_sum2");
    }
    if (!any) {
        return vc_fail(g->ctx, VC_E_UNSUPPORTED,
                       "%s: has no statistics (those of a tensor NAME are called NAME.in_sum2)", first->path);
    }
    g->arrays = vc_calloc_array(g->ctx, VC_TAG_MISC, first->n_tensors + 1, sizeof *g->arrays);
    VC_TRY_ALLOC(g->arrays);
    for (size_t i = 0; i < first->n_tensors; i++) {
        const struct vc_tensor *t = &first->tensors[i];
        struct merged *m = &g->arrays[g->n_arrays];

        if (g->imatrix && !ends_in(t->name, ".in_sum2") && !ends_in(t->name, ".counts")) {
            continue;
        }
        *m = (struct merged){.tensor = t, .width = SIZE_MAX};
        for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
            m->rule = ends_in(t->name, rules[k].tail) ? rules[k].rule : m->rule;
        }
        if ((!vc_values_numeric(t) && !vc_is_integer(t->dtype)) || t->n_elems == 0) {
            return vc_fail(g->ctx, VC_E_UNSUPPORTED, "%s: '%s' is no array of statistics", first->path, t->name);
        }
        g->n_arrays++;
        m->sum.any = vc_alloc_array(g->ctx, VC_TAG_TILES, (size_t)t->n_elems, sizeof(double));
        VC_TRY_ALLOC(m->sum.any);
        if (g->n_files > 1) {
            m->next.any = vc_alloc_array(g->ctx, VC_TAG_TILES, (size_t)t->n_elems, sizeof(double));
            VC_TRY_ALLOC(m->next.any);
        }
        VC_TRY(read(g, m, first, m->sum.any));
    }
    for (size_t i = 0; i < g->n_arrays; i++) {
        size_t n = strlen(g->arrays[i].tensor->name);

        for (size_t k = 0; g->arrays[i].rule == COUNTED && k < g->n_arrays; k++) {
            const char *name = g->arrays[k].tensor->name;

            g->arrays[i].width = strncmp(name, g->arrays[i].tensor->name, n) == 0 && strcmp(name + n, "_width") == 0 &&
                                         g->arrays[k].tensor->n_elems == 1 && !is_integer(&g->arrays[k])
                                     ? k
                                     : g->arrays[i].width;
        }
    }
out:
    return status;
}

static enum vc_status add_file(const struct merge *g, const struct vc_model *file)
{
    enum vc_status status = VC_OK;

    if (!g->imatrix && file->n_tensors != g->files[0]->n_tensors) {
        return vc_fail(g->ctx, VC_E_UNSUPPORTED,
                       "%s: has %zu arrays and %s %zu: the statistics are those of another model", file->path,
                       file->n_tensors, g->files[0]->path, g->files[0]->n_tensors);
    }
    for (size_t i = 0; i < g->n_arrays; i++) {
        VC_TRY(read(g, &g->arrays[i], file, g->arrays[i].next.any));
    }
    for (size_t i = 0; i < g->n_arrays; i++) { /* histograms read the widths as they were */
        VC_TRY(g->arrays[i].rule == COUNTED ? combine(g, &g->arrays[i], file) : VC_OK);
    }
    for (size_t i = 0; i < g->n_arrays; i++) {
        VC_TRY(g->arrays[i].rule != COUNTED ? combine(g, &g->arrays[i], file) : VC_OK);
    }
out:
    return status;
}

/* Doubles become what the file has: sums and counts stay, extremes are floats again. */
static enum vc_status lay_out(struct merge *g)
{
    g->out = vc_calloc_array(g->ctx, VC_TAG_MISC, g->n_arrays + 1, sizeof *g->out);
    for (size_t i = 0; g->out != NULL && i < g->n_arrays; i++) {
        const struct merged *m = &g->arrays[i];
        bool added = m->rule == ADDED || m->rule == COUNTED;
        enum vc_dtype dtype = is_integer(m) ? VC_DTYPE_I64 : added && !g->imatrix ? VC_DTYPE_F64 : VC_DTYPE_F32;

        for (size_t k = 0; dtype == VC_DTYPE_F32 && k < m->tensor->n_elems; k++) {
            float rounded = (float)m->sum.reals[k];

            memcpy((char *)m->sum.any + k * sizeof rounded, &rounded, sizeof rounded);
        }
        g->out[i] = (struct vc_memory_tensor){m->tensor->name, dtype, m->tensor->n_dims, m->tensor->shape, m->sum.any};
    }
    return g->out != NULL ? VC_OK : VC_E_NOMEM;
}

static enum vc_status merge(struct merge *g, const struct vc_write_options *write)
{
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    enum vc_status status;

    VC_TRY(check_rows(g));
    VC_TRY(list_arrays(g));
    for (size_t k = 1; k < g->n_files; k++) {
        VC_TRY(add_file(g, g->files[k]));
    }
    VC_TRY(lay_out(g));
    VC_TRY(vc_memory_model_create(g->ctx, g->out, g->n_arrays, &model));
    VC_TRY(vc_job_create(g->ctx, model, &job));
    VC_TRY(vc_job_plan(g->ctx, job, write));
    VC_TRY(vc_job_run(g->ctx, job));
out:
    vc_job_free(job);
    vc_model_close(model);
    return status;
}

enum vc_status vc_statistics_merge(struct vc_ctx *ctx, const struct vc_model *const *files, size_t n_files,
                                   const struct vc_write_options *write)
{
    struct merge g = {.ctx = ctx, .files = files, .n_files = n_files};
    enum vc_status status;

    vc_call_begin(ctx);
    if (n_files == 0 || write == NULL || write->path == NULL) {
        status = vc_fail(ctx, VC_E_ARGUMENT, "there are no statistics, or there is no output to write to");
    } else if (vc_kernels_get(ctx) == NULL) {
        status = ctx->status;
    } else {
        g.imatrix = write->format != NULL ? strcmp(write->format, "gguf") == 0 : ends_in(write->path, ".gguf");
        status = merge(&g, write);
    }
    for (size_t i = 0; i < g.n_arrays; i++) {
        vc_free(ctx, g.arrays[i].sum.any);
        vc_free(ctx, g.arrays[i].next.any);
    }
    vc_free(ctx, g.arrays);
    vc_free(ctx, g.out);
    return vc_call_end(ctx, status);
}
