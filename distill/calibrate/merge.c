/* merge.c - vc_statistics_merge: files of vc_calibrate that saw other rows of the same model become one. An
 * array is put together by the end of its name:
 *
 *     a.npz  fc1.weight.in_sum2  3.0 ..   .in_max  1.5 ..   .in_hist (width 1/256)
 *     b.npz  fc1.weight.in_sum2  2.0 ..   .in_max  2.5 ..   .in_hist (width 1/128)
 *     c.npz  fc1.weight.in_sum2  5.0 ..   .in_max  2.5 ..   .in_hist (width 1/128)
 *
 * Widths of histograms are powers of two, so that a finer one becomes a coarser one without splitting a
 * bin: bins lie from the middle outwards, and two neighbours are joined as often as it takes. Sums are
 * added in doubles in the order of the files and rounded once at the end. */
#include <math.h>

#include <vcompress/calibrate.h>

#include "core/model/memory_model.h"
#include "core/text/text.h"
#include "distill/calibrate/value_range.h"
#include "kernels/kernels.h"
#include "passes/graph_params.h"
#include "passes/statistics/calibration.h"

#define HALF (VC_RANGE_BINS / 2)

/* SAME: refused where files differ. ENDS: the first number is the least, the second the most. */
enum rule { SAME, ADDED, LEAST, MOST, ENDS, COUNTED, KEPT /* as the first file has it */ };

static const struct {
    const char *tail;
    enum rule rule;
} rules[] = {{"_sum", ADDED},
             {"_sum2", ADDED},
             {"_xtx", ADDED},
             {".counts", ADDED},
             {"_min", LEAST},
             {".range", ENDS},
             {"_sample", KEPT},
             {"_max", MOST},
             {"_width", MOST},
             {"_hist", COUNTED},
             {VC_STATISTICS_ROWS, ADDED},
             {VC_STATISTICS_DATA, ADDED}};

/* Numbers of an array: floats as doubles, others as integers. */
union numbers {
    double *reals;
    int64_t *integers;
    void *any;
};

/* One call. `sums` are the arrays behind `out`. */
struct merge {
    struct vc_ctx *ctx;
    const struct vc_model *const *files;
    size_t n_files;
    bool imatrix;        /* sums of squares and counts alone, in f32 */
    union numbers *sums; /* of the arrays, one after the other */
    struct vc_memory_tensor *out;
    size_t n_out;
    struct vc_arena arena; /* names of widths */
};

/* n numbers of the array of that name in file k. */
static enum vc_status read(const struct merge *g, size_t k, const char *name, uint64_t n, bool integers, void *to)
{
    const struct vc_place whole = vc_place_whole();
    const struct vc_model *file = g->files[k];
    size_t at = vc_model_find(file, name);

    VC_REFUSE_IF(at == VC_NO_TENSOR || file->tensors[at].n_elems != n ||
                     vc_is_integer(file->tensors[at].dtype) != integers,
                 g->ctx, VC_E_UNSUPPORTED, "%s: has no '%s' like %s: the statistics are those of another model",
                 file->path, name, g->files[0]->path);
    return integers ? vc_place_integers(g->ctx, file, at, &whole, to)
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

/* Adds the histogram of file k to one of the width *width. */
static enum vc_status add_bins(struct merge *g, size_t k, const struct vc_tensor *t, double *bins, double *next,
                               double *width)
{
    const char *name = vc_arena_printf(g->ctx, &g->arena, "%s_width", t->name);
    double own;

    VC_CALL_ALLOC(name);
    if (*width == 0.0) {
        VC_CALL(read(g, 0, name, 1, false, width));
    }
    VC_CALL(read(g, k, name, 1, false, &own));
    bool good = t->n_elems == VC_RANGE_BINS && widen(bins, *width, own) && widen(next, own, *width);
    for (size_t b = 0; good && b < VC_RANGE_BINS; b++) {
        good = next[b] >= 0.0;
        bins[b] += next[b];
    }
    *width = fmax(*width, own);
    VC_REFUSE_IF(!good, g->ctx, VC_E_FORMAT, "%s: '%s' and its width are no histogram", g->files[k]->path, t->name);
    return VC_OK;
}

/* An array of the result, from those of all files.
 * The sums are doubles while files are added; those that leave as f32 are rounded in place, each before the
 * next one is read. */
static enum vc_status add_array(struct merge *g, const struct vc_tensor *t)
{
    size_t n = (size_t)t->n_elems;
    bool integers = vc_is_integer(t->dtype);
    union numbers sum = {vc_alloc_array(g->ctx, VC_TAG_TILES, n + 1, sizeof(double))};
    union numbers next = {vc_alloc_array(g->ctx, VC_TAG_TILES, n + 1, sizeof(double))};
    enum rule rule = SAME;
    double width = 0.0;
    enum vc_status status = VC_OK;

    g->out[g->n_out] = (struct vc_memory_tensor){t->name, VC_DTYPE_I64, t->n_dims, t->shape, sum.any};
    g->sums[g->n_out++] = sum;
    VC_TRY(sum.any == NULL || next.any == NULL ? VC_E_NOMEM : VC_OK);
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
        rule = vc_ends_in(t->name, rules[k].tail) ? rules[k].rule : rule;
    }
    VC_TRY(read(g, 0, t->name, n, integers, sum.any));
    for (size_t k = 1; k < g->n_files && rule != KEPT; k++) {
        VC_TRY(read(g, k, t->name, n, integers, next.any));
        if (rule == SAME && memcmp(sum.any, next.any, n * sizeof(double)) != 0) {
            status = vc_fail(g->ctx, VC_E_UNSUPPORTED,
                             "%s: '%s' is not that of %s: the statistics are those of another model", g->files[k]->path,
                             t->name, g->files[0]->path);
            goto out;
        }
        if (rule == COUNTED && !integers) {
            VC_TRY(add_bins(g, k, t, sum.reals, next.reals, &width));
        }
        for (size_t i = 0; rule == ADDED && integers && i < n; i++) {
            sum.integers[i] = (int64_t)((uint64_t)sum.integers[i] + (uint64_t)next.integers[i]);
        }
        for (size_t i = 0; rule >= ADDED && rule <= ENDS && !integers && i < n; i++) {
            double a = sum.reals[i];
            double b = next.reals[i];

            sum.reals[i] = rule == ADDED ? a + b : (rule == LEAST || (rule == ENDS && i == 0)) == (a < b) ? a : b;
        }
    }
    if (!integers) {
        g->out[g->n_out - 1].dtype = (rule == ADDED || rule == COUNTED) && !g->imatrix ? VC_DTYPE_F64 : VC_DTYPE_F32;
    }
    for (size_t i = 0; g->out[g->n_out - 1].dtype == VC_DTYPE_F32 && i < n; i++) {
        float rounded = (float)sum.reals[i];

        memcpy((char *)sum.any + i * sizeof rounded, &rounded, sizeof rounded);
    }
out:
    vc_free(g->ctx, next.any);
    return status;
}

/* Refuses rows that would count twice, as far as digests tell: two files with the same rows, or one with those of all
 * others together, as the result of an earlier run has beside its parts. Sets that share some rows cannot be told.
 * Files that do not say which rows they saw are taken. */
static enum vc_status check_rows(const struct merge *g)
{
    uint64_t(*digests)[4] = vc_calloc_array(g->ctx, VC_TAG_MISC, g->n_files, sizeof *digests);
    uint64_t all[4] = {0};
    bool known = true;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(digests);
    for (size_t k = 0; k < g->n_files; k++) {
        if (vc_model_find(g->files[k], VC_STATISTICS_DATA) != VC_NO_TENSOR) {
            VC_TRY(read(g, k, VC_STATISTICS_DATA, 4, true, digests[k]));
        }
        known = known && digests[k][0] != 0;
        for (size_t i = 0; i < 4; i++) {
            all[i] += digests[k][i];
        }
        for (size_t i = 0; i < k; i++) {
            if (memcmp(digests[i], digests[k], sizeof *digests) == 0 && digests[k][0] != 0) {
                VC_TRY(vc_fail(g->ctx, VC_E_ARGUMENT, "%s: has seen the same rows as %s, which would count twice",
                               g->files[k]->path, g->files[i]->path));
            }
        }
    }
    for (size_t k = 0; k < g->n_files; k++) {
        bool whole = known;

        for (size_t i = 0; i < 4; i++) {
            whole = whole && 2 * digests[k][i] == all[i];
        }
        if (whole) {
            VC_TRY(vc_fail(g->ctx, VC_E_ARGUMENT, "%s: has seen the rows of all other files, which would count twice",
                           g->files[k]->path));
        }
    }
out:
    vc_free(g->ctx, digests);
    return status;
}

/* All arrays of one file have to be in the other. */
static enum vc_status check_names(const struct merge *g, const struct vc_model *has, const struct vc_model *lacks)
{
    for (size_t i = 0; i < has->n_tensors; i++) {
        const char *name = has->tensors[i].name;
        bool moments = vc_ends_in(name, ".in_xtx");

        VC_REFUSE_IF(vc_model_find(lacks, name) == VC_NO_TENSOR, g->ctx, VC_E_UNSUPPORTED,
                     "%s: has no '%s', and %s has: %s%s", lacks->path, name, has->path,
                     moments ? "that one was made with " : "the statistics are those of another model or graph",
                     moments ? vc_option(g->ctx, "second_moments") : "");
    }
    return VC_OK;
}

/* Checks that all files are of one model and of different rows, then puts the arrays together one by one. */
static enum vc_status add_arrays(struct merge *g)
{
    const struct vc_model *first = g->files[0];
    bool any = false;

    for (size_t i = 0; i < first->n_tensors; i++) {
        any = any || vc_ends_in(first->tensors[i].name, ".in_sum2");
    }
    VC_REFUSE_IF(!any, g->ctx, VC_E_UNSUPPORTED,
                 "%s: has no statistics (those of a tensor NAME are called NAME.in_sum2)", first->path);
    for (size_t k = 1; k < g->n_files; k++) {
        if (!g->imatrix) {
            VC_CALL(check_names(g, first, g->files[k]));
            VC_CALL(check_names(g, g->files[k], first));
        }
    }
    VC_CALL(check_rows(g));
    VC_CALL(VC_ZEROS(g->ctx, VC_TAG_MISC, g->sums, first->n_tensors));
    VC_CALL(VC_ZEROS(g->ctx, VC_TAG_MISC, g->out, first->n_tensors));
    for (size_t i = 0; i < first->n_tensors; i++) {
        const char *name = first->tensors[i].name;

        if (!g->imatrix || vc_ends_in(name, ".in_sum2") || vc_ends_in(name, ".counts")) {
            VC_CALL(add_array(g, &first->tensors[i]));
        }
    }
    return VC_OK;
}

/* The result has the arrays of the first file, each put together from all files. For llama.cpp only what an
 * importance matrix has is kept. */
enum vc_status vc_statistics_merge(struct vc_ctx *ctx, const struct vc_model *const *files, size_t n_files,
                                   const struct vc_write_options *write)
{
    struct merge g = {.ctx = ctx, .files = files, .n_files = n_files};
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    enum vc_status status;

    vc_call_begin(ctx);
    if (n_files == 0 || write == NULL || write->path == NULL) {
        status = vc_fail(ctx, VC_E_ARGUMENT, "there are no statistics, or there is no output to write to");
        goto out;
    }
    VC_TRY(vc_kernels_get(ctx) != NULL ? VC_OK : ctx->status);
    g.imatrix = write->format != NULL ? strcmp(write->format, "gguf") == 0 : vc_ends_in(write->path, ".gguf");
    VC_TRY(add_arrays(&g));
    VC_TRY(vc_memory_model_create(ctx, g.out, g.n_out, &model));
    VC_TRY(vc_job_create(ctx, model, &job));
    VC_TRY(vc_job_plan(ctx, job, write));
    VC_TRY(vc_job_run(ctx, job));
out:
    vc_job_free(job);
    vc_model_close(model);
    for (size_t i = 0; i < g.n_out; i++) {
        vc_free(ctx, g.sums[i].any);
    }
    VC_FREE_ALL(ctx, g.sums, g.out);
    vc_arena_release(ctx, &g.arena);
    return vc_call_end(ctx, status);
}
