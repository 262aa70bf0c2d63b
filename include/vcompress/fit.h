/* fit.h - whether the memory that a model needs (memory.h) is available on a GPU (gpus.h).
 *
 *     need     the peak, what the runtime of the device takes for itself, and what its allocator cannot use
 *     usable   what a program sees of the memory, less what others have taken, less a margin
 *
 * The answer is never "fits" while a part of the need is unknown. All figures are bytes.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_FIT_H
#define VCOMPRESS_FIT_H

#include <vcompress/gpus.h>
#include <vcompress/memory.h>
#include <vcompress/report.h>

VC_BEGIN_C

/* Numbers are stable. */
enum vc_verdict {
    VC_FITS = 0,
    VC_FITS_TIGHTLY = 1, /* fits only by using the margin */
    VC_FITS_NOT = 2,
    VC_FITS_UNKNOWN = 3 /* the known part of the need fits; another part is unknown */
};

struct vc_fit_options {
    size_t struct_size; /* set by vc_fit_defaults */
    /* Memory of the device's runtime. Default 300 MiB: the CUDA context with kernels loaded at first use. Older
     * frameworks take 1,350 MiB. */
    uint64_t context_bytes;
    uint64_t workspace_bytes; /* workspace of the matrix library; default 32 MiB: cuBLAS on the newest devices */
    uint64_t used_bytes;      /* memory that other programs use */
    /* Memory that must stay free. Default 256 MiB; without margin_given it is a sixteenth of the need where bitsandbytes
     * runs the model and that is more. */
    uint64_t margin_bytes;
    /* Training: memory that the allocator cannot use, as a share of activations and transients. 0.3 means 30 %.
     * Negative (the default): the report's VC_MEMORY_SLACK, which is 0.3 with VC_ALLOCATOR_PYTORCH. */
    double slack;
    bool weights_only; /* count the weights only */
    /* Value for unknown activations, transients and inputs together; 0: they stay unknown. */
    uint64_t activation_bytes;
    bool ideal; /* true: the runtime keeps only needed values (llama.cpp, onnxruntime); false: PyTorch's eager mode */
    bool usual_positions; /* vc_fit_largest: as in vc_recipe_options */
    /* margin_bytes is what was asked for, and counts as it is; another value than the default does, too. */
    bool margin_given;
};

static inline void vc_fit_defaults(struct vc_fit_options *options)
{
    vc_options_defaults("vc_fit_options", options, sizeof *options);
}

struct vc_fit {
    enum vc_verdict verdict;
    bool weights_only;                               /* only weights were counted */
    uint64_t peak_bytes, context_bytes, slack_bytes; /* their sum is need_bytes; context_bytes includes the workspace */
    uint64_t need_bytes;
    uint64_t visible_bytes, usable_bytes;
    int64_t headroom_bytes; /* usable_bytes - need_bytes */
};

/* Decides whether the need of a report fits one device. visible_bytes: vc_gpu.visible_bytes of the device. memory: the
 * options that the report was made with. options may be NULL. */
VC_API enum vc_status vc_fit_decide(struct vc_ctx *ctx, const struct vc_memory_report *report,
                                    const struct vc_memory_options *memory, uint64_t visible_bytes,
                                    const struct vc_fit_options *options, struct vc_fit *out);

/* Recomputation within the room of one device: sets memory->budget_bytes, by steps, until the model fits or nothing more can be
 * computed again. *report and *fit: made with VC_RECOMPUTE_AUTO and a budget that keeps everything (INT64_MAX); they
 * become those of the budget that is found. options: as `fit` was made with. */
VC_API enum vc_status vc_fit_budget(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                    struct vc_memory_options *memory, const struct vc_fit_options *options,
                                    struct vc_memory_report *report, struct vc_fit *fit);

/* Finds the largest size, up to `most`, of a symbol of the graph ("batch") with which the model fits; symbol NULL: of
 * context_tokens. *largest is 0 if no size fits. The size bound to the symbol stays. */
VC_API enum vc_status vc_fit_largest(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                     const struct vc_memory_options *memory, uint64_t visible_bytes,
                                     const struct vc_fit_options *options, const char *symbol, uint64_t most,
                                     uint64_t *largest);

/* Counts the layers that fit the device, as llama.cpp places them: the last *largest of *n layers on the device, the
 * others with their keys and values on the host. Tensors outside of layers are on the device. Inference only. *fits is
 * false if the tensors outside of layers alone do not fit. report: made with `memory`, without unknown parts.
 * VC_E_UNSUPPORTED if the graph has no numbered layers. */
VC_API enum vc_status vc_fit_layers(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                    const struct vc_memory_report *report, const struct vc_memory_options *memory,
                                    uint64_t visible_bytes, const struct vc_fit_options *options, uint32_t *largest,
                                    uint32_t *n, bool *fits);

/* Finds the least number of layers whose experts have to be in the memory of the host (vc_memory_options.cpu_moe_layers)
 * so that the model fits the device. *n: layers with experts; 0: the model has none, or another program than llama.cpp
 * runs it. *least is n where *fits is false: all of them on the host do not help. */
VC_API enum vc_status vc_fit_cpu_moe(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model,
                                     const struct vc_memory_options *memory, uint64_t visible_bytes,
                                     const struct vc_fit_options *options, uint64_t *least, uint64_t *n, bool *fits);

/* The answer for one kind of device. */
struct vc_fit_row {
    const struct vc_gpu *gpu; /* NULL: a memory size instead of a GPU */
    unsigned count;           /* number of devices, each with the same need */
    struct vc_fit fit;
    bool has_batch, has_context; /* largest_batch, largest_context are valid */
    uint64_t largest_batch, largest_context;
    bool has_layers;
    uint32_t largest_layers, n_layers; /* largest_layers of n_layers fit; see vc_fit_layers */
    bool has_cpu_moe; /* it fits with the experts of cpu_moe of n_moe layers on the host; see vc_fit_cpu_moe */
    uint64_t cpu_moe, n_moe;
};

/* ---- a model in several types, on several GPUs ---- */

#define VC_FIT_MOST_COLUMNS 8

/* The model with its weights in one type. */
struct vc_fit_column {
    const char *name;      /* "f16"; borrowed */
    uint64_t weight_bytes; /* bytes of the weights */
};

struct vc_fit_matrix {
    size_t n_columns, n_rows;
    struct vc_fit_column columns[VC_FIT_MOST_COLUMNS];
    const struct vc_gpu *const *gpus; /* by row; borrowed from the catalogue */
    const struct vc_fit *fits;        /* row r, column c: fits[r * n_columns + c] */
    bool weights_only;
};

/* Makes a table. Columns: the weights as stored (if model is not NULL), as f32, f16 and, for inference, int8 and
 * int4-g128. Of a model of codes: as stored (the codes themselves), as loaded if its loader decodes
 * (memory->runtime), then what the codes stand for as f32 and f16. The other options come from `memory`, whose `weights` and
 * `scheme` are ignored. Rows: common GPUs of each
 * memory size and the GPUs of `asked`, by rising memory. graph NULL: weights only. */
VC_API enum vc_status vc_fit_matrix_make(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model,
                                         const struct vc_memory_options *memory, const struct vc_fit_options *options,
                                         const struct vc_gpus *gpus, const struct vc_fit_row *asked, size_t n_asked,
                                         struct vc_fit_matrix **out);
/* The same for weights with known bytes, one column each: before and after a conversion, for example. Columns are
 * copied, but their names are borrowed. Both: free *out with vc_result_free before the catalogue. */
VC_API enum vc_status vc_fit_matrix_of_bytes(struct vc_ctx *ctx, const struct vc_fit_column *columns, size_t n_columns,
                                             const struct vc_gpus *gpus, struct vc_fit_matrix **out);

/* Reads the peak from an earlier document of fit, for comparisons in a pipeline. *known: the peak is known.
 * VC_E_FORMAT if the file is no such document. */
VC_API enum vc_status vc_fit_read_peak(struct vc_ctx *ctx, const char *path, uint64_t *peak_bytes, bool *known);

/* The answers for one device before and after a job. vc_report.fits has one per device if a target was given. */
struct vc_fit_change {
    const struct vc_gpu *gpu;
    unsigned count;          /* number of devices, each with the same need */
    bool weights_only;       /* the verdicts count weights only, because nothing else is known */
    enum vc_runtime runtime; /* how the usual loader treats codes of the output */
    struct vc_fit before, after;
    struct vc_fit native; /* like `after`, for a loader that keeps codes as codes */
    /* Before the call: what the output computes, with bound sizes, where passes remove units or layers; NULL: as the source. */
    const struct vc_graph *graph_after;
};

/* Decides for inference, from the report of a planned job. model: the source of the job. graph: the graph of the source
 * with bound sizes, or NULL. The report gives the weights of the output; activations are taken from the source, which
 * needs at least as much. Set gpu and count of *change before the call. options may be NULL. */
VC_API enum vc_status vc_fit_of_report(struct vc_ctx *ctx, const struct vc_report *report, const struct vc_model *model,
                                       const struct vc_graph *graph, const struct vc_fit_options *options,
                                       struct vc_fit_change *change);

/* The word of the verdict; "weights fit" if only weights were counted and they fit. row: the one that the answer is of, or
 * NULL. If the asked size does not fit: "smaller fits" if a smaller batch or context of the row does, "some layers fit" if some
 * layers do. */
VC_API const char *vc_fit_word(const struct vc_fit *fit, const struct vc_fit_row *row);

VC_END_C
#endif
