/* matrix.c - where a model fits in each of several ways to have it: vc_fit_matrix in fit.h.
 *
 *     GPU           as stored   f16    int8    int4/group:128      columns: ways, each with an estimate
 *     RTX 3060      no          yes    yes     yes                 rows: GPUs, the smallest first
 *     A100          yes         yes    yes     yes                 cells: vc_fit_decide */
#include <vcompress/fit.h>

#include "core/base/ctx.h"
#include "memory/float_type.h"

/* Common ones in each class of memory. */
static const char *const common[] = {
    "GeForce GTX 1660 Ti", "GeForce RTX 4060", "GeForce RTX 3080 10GB", "GeForce RTX 3060 12GB", "Tesla T4",
    "GeForce RTX 4080",    "GeForce RTX 4090", "GeForce RTX 5090",      "A100 SXM4 40GB",        "L40S",
    "H100 SXM5 80GB",      "H200 SXM 141GB",
};
#define N_COMMON (sizeof common / sizeof common[0])
#define N_WAYS   5

/* What the matrix points to, freed with it. */
struct owned {
    struct vc_fit_matrix matrix; /* first: what the caller sees */
    struct vc_ctx *ctx;
    const struct vc_gpu **gpus;
    struct vc_fit *fits;
};

static void end(void *result)
{
    struct owned *o = result;

    vc_free(o->ctx, o->gpus);
    vc_free(o->ctx, o->fits);
}

/* What a column is decided by. */
struct way {
    struct vc_memory_report report;
    struct vc_memory_options memory;
};

/* GPUs of the same memory by name. */
static int by_memory(const void *a, const void *b)
{
    const struct vc_gpu *x = *(const struct vc_gpu *const *)a;
    const struct vc_gpu *y = *(const struct vc_gpu *const *)b;
    uint64_t m = x->visible_bytes;
    uint64_t n = y->visible_bytes;

    return m != n ? (m < n ? -1 : 1) : strcmp(x->name, y->name);
}

/* Each row once, also if several names mean it. */
static void add_gpu(struct owned *o, const struct vc_gpu *gpu)
{
    for (size_t i = 0; i < o->matrix.n_rows; i++) {
        if (o->gpus[i] == gpu) {
            return;
        }
    }
    o->gpus[o->matrix.n_rows++] = gpu;
}

/* Rows: those that were asked about, and the common ones that the catalogue has. */
static enum vc_status choose_gpus(struct owned *o, const struct vc_gpus *gpus, const struct vc_fit_row *asked,
                                  size_t n_asked)
{
    VC_CALL(VC_ARRAY(o->ctx, VC_TAG_REPORT, o->gpus, N_COMMON + n_asked));
    for (size_t i = 0; i < n_asked; i++) {
        if (asked[i].gpu != NULL) {
            add_gpu(o, asked[i].gpu);
        }
    }
    for (size_t k = 0; k < vc_gpus_count(gpus); k++) {
        const struct vc_gpu *gpu = vc_gpu(gpus, k);

        for (size_t c = 0; c < N_COMMON; c++) {
            if (strcmp(gpu->name, common[c]) == 0) {
                add_gpu(o, gpu);
            }
        }
    }
    if (o->matrix.n_rows != 0) {
        qsort(o->gpus, o->matrix.n_rows, sizeof *o->gpus, by_memory);
    }
    o->matrix.gpus = o->gpus;
    return VC_OK;
}

/* All cells. An estimate does not depend on the GPU, so each way has one. */
static enum vc_status decide(struct owned *o, const struct way *ways, const struct vc_fit_options *options)
{
    size_t n = o->matrix.n_columns;

    VC_CALL(VC_ARRAY(o->ctx, VC_TAG_REPORT, o->fits, o->matrix.n_rows * n + 1));
    for (size_t r = 0; r < o->matrix.n_rows; r++) {
        for (size_t c = 0; c < n; c++) {
            VC_CALL(vc_fit_decide(o->ctx, &ways[c].report, &ways[c].memory, o->gpus[r]->visible_bytes, options,
                                  &o->fits[r * n + c]));
        }
    }
    o->matrix.fits = o->fits;
    return VC_OK;
}

/* *out is the matrix, or nothing. */
static enum vc_status finish(struct owned *o, enum vc_status status, struct vc_fit_matrix **out)
{
    if (status != VC_OK) {
        vc_result_free(o);
        return status;
    }
    *out = &o->matrix;
    return VC_OK;
}

/* ---- a model ---- */

/* A column, for weights of that type or scheme. */
static enum vc_status add_way(struct owned *o, struct way *ways, const struct vc_graph *graph,
                              const struct vc_model *model, const char *name, enum vc_dtype dtype, const char *scheme)
{
    struct way *way = &ways[o->matrix.n_columns];

    way->memory.weights = dtype;
    way->memory.scheme = scheme;
    enum vc_status status = vc_memory_estimate(o->ctx, graph, model, &way->memory, &way->report);
    if (status == VC_OK) {
        o->matrix.columns[o->matrix.n_columns++] =
            (struct vc_fit_column){name, way->report.components[VC_MEMORY_PARAMETERS].bytes};
    }
    return status;
}

/* Codes become floats of the column's type: the file that dequantize writes, by the program that runs floats of the
 * format. */
static void decode(struct vc_memory_options *memory)
{
    bool by_pytorch = memory->program != VC_RUN_BY_LLAMA_CPP && memory->program != VC_RUN_BY_ONNXRUNTIME;

    memory->runtime = VC_RUNTIME_DEQUANTIZE;
    memory->program = by_pytorch && memory->program != VC_RUN_BY_ANY ? VC_RUN_BY_PYTORCH : memory->program;
}

/* Codes that a loader would decode are shown as they are stored and as they are loaded. Ways that make codes are for
 * inference, and for weights that have none. */
enum vc_status vc_fit_matrix_make(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model,
                                  const struct vc_memory_options *memory, const struct vc_fit_options *options,
                                  const struct vc_gpus *gpus, const struct vc_fit_row *asked, size_t n_asked,
                                  struct vc_fit_matrix **out)
{
    struct owned *o = vc_result_new(ctx, VC_TAG_REPORT, sizeof *o, end);
    struct vc_fit_options own;
    struct way ways[N_WAYS];
    bool coded = vc_has_codes(model);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_CALL_ALLOC(o);
    o->ctx = ctx;
    vc_fit_defaults(&own);
    own = options != NULL ? *options : own;
    for (size_t k = 0; k < N_WAYS; k++) {
        ways[k].memory = *memory;
    }
    if (coded && memory->runtime == VC_RUNTIME_DEQUANTIZE) {
        ways[0].memory.runtime = VC_RUNTIME_NATIVE;
        VC_TRY(add_way(o, ways, graph, model, "as stored", VC_DTYPE_NONE, NULL));
        VC_TRY(add_way(o, ways, graph, model, "as loaded", VC_DTYPE_NONE, NULL));
    } else if (model != NULL) {
        VC_TRY(add_way(o, ways, graph, model, "as stored", VC_DTYPE_NONE, NULL));
    }
    for (size_t k = o->matrix.n_columns; coded && k < N_WAYS; k++) {
        decode(&ways[k].memory);
    }
    VC_TRY(add_way(o, ways, graph, model, coded ? "f32, decoded" : "f32", VC_DTYPE_F32, NULL));
    VC_TRY(add_way(o, ways, graph, model, coded ? "f16, decoded" : "f16", VC_DTYPE_F16, NULL));
    if (memory->mode == VC_MEMORY_INFER && !coded) {
        VC_TRY(add_way(o, ways, graph, model, "int8", VC_DTYPE_NONE, "int8"));
        VC_TRY(add_way(o, ways, graph, model, "int4/group:128", VC_DTYPE_NONE, "int4-g128"));
    }
    const struct vc_memory_report *first = &ways[0].report;
    bool open = graph != NULL && first->unknown_name != NULL; /* a size or an operator, which the user can tell */
    own.weights_only = own.weights_only || (!open && own.activation_bytes == 0 && first->unknown != NULL);
    o->matrix.weights_only = own.weights_only;
    VC_TRY(choose_gpus(o, gpus, asked, n_asked));
    VC_TRY(decide(o, ways, &own));
out:
    return finish(o, status, out);
}

/* ---- bytes ---- */

/* Of weights alone: nothing else is known. */
enum vc_status vc_fit_matrix_of_bytes(struct vc_ctx *ctx, const struct vc_fit_column *columns, size_t n_columns,
                                      const struct vc_gpus *gpus, struct vc_fit_matrix **out)
{
    struct owned *o = vc_result_new(ctx, VC_TAG_REPORT, sizeof *o, end);
    struct way ways[VC_FIT_MOST_COLUMNS];
    struct vc_fit_options options;
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_CALL_ALLOC(o);
    o->ctx = ctx;
    vc_clear_error(ctx);
    memset(ways, 0, sizeof ways);
    vc_fit_defaults(&options);
    options.weights_only = o->matrix.weights_only = true;
    if (n_columns > VC_FIT_MOST_COLUMNS) {
        VC_TRY(vc_fail(ctx, VC_E_ARGUMENT, "%zu columns: at most %d", n_columns, VC_FIT_MOST_COLUMNS));
    }
    for (size_t k = 0; k < n_columns; k++) {
        vc_memory_defaults(&ways[k].memory);
        ways[k].report.components[VC_MEMORY_PARAMETERS].bytes = columns[k].weight_bytes;
        o->matrix.columns[o->matrix.n_columns++] = columns[k];
    }
    VC_TRY(choose_gpus(o, gpus, NULL, 0));
    VC_TRY(decide(o, ways, &options));
out:
    return finish(o, status, out);
}
