/* fit.h - whether what a model takes (memory.h) is there on a GPU (gpus.h).
 *
 *     need     the peak, what the runtime of the device takes for itself, and what its allocator cannot use
 *     usable   what a program sees of the memory, less what others have taken, less a margin
 *
 * The answer is never "fits" while a part of the need is not known.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_FIT_H
#define VCOMPRESS_FIT_H

#include <vcompress/gpus.h>
#include <vcompress/memory.h>
#include <vcompress/report.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers are stable. */
enum vc_verdict {
    VC_FITS = 0,
    VC_FITS_TIGHTLY = 1, /* only within the margin */
    VC_FITS_NOT = 2,
    VC_FITS_UNKNOWN = 3 /* what is known fits; something is not known */
};

struct vc_fit_options {
    size_t struct_size;     /* set by vc_fit_defaults */
    uint64_t context_bytes; /* of the runtime: 300 MiB, the CUDA context with kernels that are loaded when needed; older
                               frameworks take 1,350 MiB */
    uint64_t workspace_bytes; /* of the library for products: 32 MiB, cuBLAS on the newest devices */
    uint64_t used_bytes;      /* that others have taken */
    uint64_t margin_bytes;    /* 256 MiB that stay free */
    double slack;      /* of activations and transients in training, what a foreign allocator cannot use: 0.3 with
                          VC_ALLOCATOR_PYTORCH; below 0: that */
    bool weights_only; /* the question is about weights alone */
    uint64_t
        activation_bytes; /* what is not known of activations, transients and inputs is taken to be this; 0: unknown */
    bool ideal; /* the runtime keeps only what is needed (llama.cpp, onnxruntime); false: PyTorch's eager mode */
};

VC_API void vc_fit_defaults_sized(struct vc_fit_options *options, size_t struct_size);

static inline void vc_fit_defaults(struct vc_fit_options *options)
{
    vc_fit_defaults_sized(options, sizeof *options);
}

struct vc_fit {
    enum vc_verdict verdict;
    bool weights_only;                               /* it is about weights alone */
    uint64_t peak_bytes, context_bytes, slack_bytes; /* whose sum is the need; context with the workspace */
    uint64_t need_bytes;
    uint64_t visible_bytes, usable_bytes;
    int64_t headroom_bytes; /* usable less need */
};

/* visible_bytes: of one device, vc_gpu_visible_bytes. `memory` are the options that the report was made with. */
VC_API enum vc_status vc_fit_decide(struct vc_ctx *ctx, const struct vc_memory_report *report,
                                    const struct vc_memory_options *memory, uint64_t visible_bytes,
                                    const struct vc_fit_options *options, struct vc_fit *out);

/* The largest size of a symbol of the graph ("batch"), or of context_tokens (symbol NULL), up to `most`, with which it
 * fits; 0: none. The symbol keeps its size. */
VC_API enum vc_status vc_fit_largest(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                     const struct vc_memory_options *memory, uint64_t visible_bytes,
                                     const struct vc_fit_options *options, const char *symbol, uint64_t most,
                                     uint64_t *largest);

/* How many layers a device has room for, the last ones, while the others with their keys and values are on the host, as
 * llama.cpp does it: *largest of *n. What is in no layer is on the device. Inference only. *fits: not even that is
 * there without any layer: false. VC_E_UNSUPPORTED: the graph has no numbered layers. `report` was made with `memory`
 * and is known. */
VC_API enum vc_status vc_fit_layers(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                    const struct vc_memory_report *report, const struct vc_memory_options *memory,
                                    uint64_t visible_bytes, const struct vc_fit_options *options, uint32_t *largest,
                                    uint32_t *n, bool *fits);

/* A device that was asked about. */
struct vc_fit_row {
    const struct vc_gpu *gpu; /* NULL: a memory of a given size */
    unsigned count;           /* of them, each with the same need */
    struct vc_fit fit;
    bool has_batch, has_context; /* these were asked for */
    uint64_t largest_batch, largest_context;
    bool has_layers;
    uint32_t largest_layers, n_layers; /* of so many layers; vc_fit_layers */
};

/* The answer of a row: that of its `fit` (vc_fit_word), but where a largest size was asked for and there is one, though
 * the size at hand does not fit, "smaller fits", or of layers "some layers fit". */
VC_API const char *vc_fit_row_word(const struct vc_fit_row *row);

/* The answers as one JSON document, schema vcompress.fit/1, with the report that they are made from. */
VC_API enum vc_status vc_fit_json(struct vc_ctx *ctx, const struct vc_memory_report *report,
                                  const struct vc_memory_options *options, const struct vc_graph *graph,
                                  const char *path, const struct vc_fit_row *rows, size_t n_rows, char **text);

/* ---- several ways to have a model, on several GPUs ---- */

#define VC_FIT_MOST_COLUMNS 8

/* A model in one of its ways. */
struct vc_fit_column {
    const char *name;      /* "f16"; borrowed */
    uint64_t weight_bytes; /* what its weights take */
};

struct vc_fit_matrix {
    size_t n_columns, n_rows;
    struct vc_fit_column columns[VC_FIT_MOST_COLUMNS];
    const struct vc_gpu *const *gpus; /* by row; of the catalogue that was given */
    const struct vc_fit *fits;        /* of row r and column c: fits[r * n_columns + c] */
    bool weights_only;
};

/* Columns: the weights as they are stored (where a model is given), then as f32, f16 and, for inference, int8 and
 * int4-g128, all else as in `memory` (its `weights` and `scheme` are not looked at). Rows: GPUs that are common in each
 * class of memory, by rising memory, and those that `asked` names. graph may be NULL: weights only. */
VC_API enum vc_status vc_fit_matrix_make(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model,
                                         const struct vc_memory_options *memory, const struct vc_fit_options *options,
                                         const struct vc_gpus *gpus, const struct vc_fit_row *asked, size_t n_asked,
                                         struct vc_fit_matrix **out);
/* The same for weights of which only the bytes are known, a column each: before and after a conversion. Columns are
 * copied, but for their names. */
VC_API enum vc_status vc_fit_matrix_of_bytes(struct vc_ctx *ctx, const struct vc_fit_column *columns, size_t n_columns,
                                             const struct vc_gpus *gpus, struct vc_fit_matrix **out);
VC_API void vc_fit_matrix_free(struct vc_fit_matrix *matrix); /* accepts NULL; before the catalogue is closed */

/* The peak of a document of vc_fit_json, that was written before: what a pipeline compares with. *known: it was known.
 * VC_E_FORMAT: the file is none. */
VC_API enum vc_status vc_fit_read_peak(struct vc_ctx *ctx, const char *path, uint64_t *peak_bytes, bool *known);

/* What a job does to the answer for one device: vc_report.fits has these where a target was given. */
struct vc_fit_change {
    const struct vc_gpu *gpu;
    unsigned count;          /* of them, each with the same need */
    bool weights_only;       /* the verdicts are about weights alone: no more is known */
    enum vc_runtime runtime; /* how codes of the output are loaded, vc_memory_runtime */
    struct vc_fit before, after;
    struct vc_fit native; /* the same as after, with codes that are loaded as they are */
};

/* For inference with the sizes that the graph is bound to, by the report of a job that was planned. `model` is its
 * source and `graph` that of the source, or NULL. The output's weights are those of the report; activations are those
 * of the source, which are not less. gpu and count of *change have to be set; options may be NULL. */
VC_API enum vc_status vc_fit_of_report(struct vc_ctx *ctx, const struct vc_report *report, const struct vc_model *model,
                                       const struct vc_graph *graph, const struct vc_fit_options *options,
                                       struct vc_fit_change *change);

/* "fits", "tight", "does not fit", "unknown". */
VC_API const char *vc_verdict_name(enum vc_verdict verdict);
/* The same, and "weights fit" where that is all that was asked. */
VC_API const char *vc_fit_word(const struct vc_fit *fit);

#ifdef __cplusplus
}
#endif
#endif
