/* memory.h - what memory a model takes while it computes or is trained, and how buffers share one arena.
 *
 * Everything is worked out from shapes: no weights are read, no device is asked, nothing is allocated. Figures are in
 * bytes. What they count, with formulas and sources: docs/memory-model.md. */
#ifndef VCOMPRESS_MEMORY_H
#define VCOMPRESS_MEMORY_H

#include <vcompress/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- buffers in one arena ---- */

/* A buffer that is needed from step `first` to step `last`, both included. */
struct vc_buffer {
    uint64_t size_bytes;
    uint64_t first, last;
    uint64_t offset; /* set by vc_buffers_pack: where it lies in the arena */
};

struct vc_buffer_plan {
    uint64_t arena_bytes; /* with these offsets */
    uint64_t live_bytes;  /* the most that lives at one step: no packing is smaller */
    uint64_t peak_step;   /* the first step where that is so */
};

/* Gives every buffer an offset, a multiple of `align` (a power of two), so that buffers that live at the same step do
 * not overlap. Sizes count rounded up to `align`. Deterministic: large ones first, each into the smallest gap that
 * takes it. VC_E_ARGUMENT: sizes overflow, or last is before first. */
VC_API enum vc_status vc_buffers_pack(struct vc_ctx *ctx, struct vc_buffer *buffers, size_t n, uint64_t align,
                                      struct vc_buffer_plan *out);

/* ---- what a model takes ---- */

/* Numbers of all enums here are stable. */
enum vc_memory_mode { VC_MEMORY_INFER = 0, VC_MEMORY_TRAIN = 1 };

/* States per weight in training, in bytes for f32 weights: 0, 4, 8, 8, as few as rows and columns, 2. */
enum vc_optimizer {
    VC_OPTIMIZER_SGD = 0,
    VC_OPTIMIZER_MOMENTUM = 1,
    VC_OPTIMIZER_ADAM = 2,
    VC_OPTIMIZER_ADAMW = 3,
    VC_OPTIMIZER_ADAFACTOR = 4,
    VC_OPTIMIZER_ADAM8BIT = 5
};

/* Mixed precision: none; PyTorch's autocast (f32 weights, half copies and activations); weights and gradients in half
 * precision with f32 masters. */
enum vc_amp { VC_AMP_NONE = 0, VC_AMP_AUTOCAST = 1, VC_AMP_PURE = 2 };

/* Attention as one kernel, or as products with a matrix of scores. */
enum vc_attention { VC_ATTENTION_FUSED = 0, VC_ATTENTION_EAGER = 1 };

/* What a block of memory is rounded up to: 1, 256, 512 bytes. */
enum vc_allocator { VC_ALLOCATOR_EXACT = 0, VC_ALLOCATOR_CUDA = 1, VC_ALLOCATOR_PYTORCH = 2 };

/* Which activations are computed again in the backward pass: none; all but the inputs of every k-th part; all but those
 * of every layer. */
enum vc_recompute { VC_RECOMPUTE_NONE = 0, VC_RECOMPUTE_SQRT = 1, VC_RECOMPUTE_EVERY = 2, VC_RECOMPUTE_LAYER = 3 };

/* How codes of quantized weights are loaded: as they are; as floats; as they are, and one tensor at a time as floats.
 */
enum vc_runtime { VC_RUNTIME_NATIVE = 0, VC_RUNTIME_DEQUANTIZE = 1, VC_RUNTIME_LAYERWISE = 2 };

struct vc_memory_options {
    size_t struct_size; /* set by vc_memory_defaults */
    enum vc_memory_mode mode;
    /* What float weights are loaded as: f32, f16, bf16, f64; i8: codes with a scale for each row, and what has one
     * dimension as f16. VC_DTYPE_NONE: as they are stored, f32 without a file. */
    enum vc_dtype weights;
    enum vc_dtype activations; /* VC_DTYPE_NONE: f16 where weights are of one or two bytes, else f32 */
    enum vc_optimizer optimizer;
    enum vc_amp amp;
    enum vc_recompute recompute;
    unsigned recompute_every; /* VC_RECOMPUTE_EVERY: nodes with weights in one part */
    enum vc_attention attention;
    enum vc_allocator allocator;
    bool in_place; /* activation functions, normalizations and additions write over an input that dies there */
    bool dropout;  /* training: values are dropped at random, as transformers' configurations have it by default */
    bool reuse;    /* memory of what died is used again; false: every result has memory of its own */
    uint64_t context_tokens; /* keys and values of so many positions are kept per sequence; 0: none */
    enum vc_dtype cache;     /* of them; VC_DTYPE_NONE: as the activations */
    enum vc_runtime runtime;
};

VC_API void vc_memory_defaults_sized(struct vc_memory_options *options, size_t struct_size);

/* Inference, weights as they are stored, fused attention, exact sizes, memory used again but not in place. */
static inline void vc_memory_defaults(struct vc_memory_options *options)
{
    vc_memory_defaults_sized(options, sizeof *options);
}

/* What the bytes are for. */
enum vc_memory_kind {
    VC_MEMORY_PARAMETERS = 0,
    VC_MEMORY_GRADIENTS = 1,
    VC_MEMORY_OPTIMIZER = 2,
    VC_MEMORY_MASTER = 3,      /* f32 copies of half-precision weights; half copies of f32 ones under autocast */
    VC_MEMORY_ACTIVATIONS = 4, /* training: what the backward pass needs; inference: the most that lives at once */
    VC_MEMORY_INPUTS = 5,
    VC_MEMORY_KV_CACHE = 6,
    VC_MEMORY_TRANSIENT = 7, /* training: what lives beside the activations at the peak: gradients of values, ... */
    VC_MEMORY_COMPONENTS = 8
};

/* How a figure is known: counted from sizes that are given; from a formula of how programs behave; from a guess. */
enum vc_known { VC_KNOWN_EXACT = 0, VC_KNOWN_MODELLED = 1, VC_KNOWN_ASSUMED = 2, VC_KNOWN_NOT = 3 };

/* Moments of a run. A single number misleads: after a step most of what the peak took is free again. */
enum vc_moment {
    VC_MOMENT_LOAD = 0,    /* weights are there */
    VC_MOMENT_FORWARD = 1, /* training: at the end of the forward pass, states of the step before included */
    VC_MOMENT_PEAK = 2,
    VC_MOMENT_STEP = 3, /* training: after the optimizer's step */
    VC_MOMENTS = 4
};

struct vc_memory_part {
    uint64_t bytes;
    enum vc_known known;
};

struct vc_memory_report {
    struct vc_memory_part components[VC_MEMORY_COMPONENTS];
    struct vc_memory_part moments[VC_MOMENTS];
    uint64_t n_params, n_trained; /* elements; the second without running statistics */
    uint64_t arena_bytes;         /* what all activations take in one arena with offsets ... */
    uint64_t arena_least;         /* ... and the least that any arrangement takes */
    const char *peak_at;          /* the node whose step the peak is at, of the graph; "" */
    const char *unknown;          /* why activations are not known, a sentence; NULL: they are ... */
    const char *unknown_name;     /* ... and the value or operator that it is about; NULL: none */
};

/* Symbols of the graph have to be bound (vc_graph_bind); activations are not known where one is not. `model` tells how
 * weights are stored: that of the graph, or NULL. The report's strings are the graph's, or static. */
VC_API enum vc_status vc_memory_estimate(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model,
                                         const struct vc_memory_options *options, struct vc_memory_report *out);

/* The report as one JSON document, schema vcompress.estimate/1, with the sizes that are bound and the options. graph
 * may be NULL; path is what the model is called. *text is freed with vc_text_free. */
VC_API enum vc_status vc_memory_json(struct vc_ctx *ctx, const struct vc_memory_report *report,
                                     const struct vc_memory_options *options, const struct vc_graph *graph,
                                     const char *path, char **text);

/* How the program that usually reads files of that layout (vc_model_layout) loads codes: llama.cpp and bitsandbytes as
 * they are, onnxruntime a tensor at a time as floats, all others as floats. NULL, no codes: native. */
VC_API enum vc_runtime vc_memory_runtime(const struct vc_layout *layout);

/* "kv_cache", "forward", "exact". */
VC_API const char *vc_memory_kind_name(enum vc_memory_kind component);
VC_API const char *vc_moment_name(enum vc_moment moment);
VC_API const char *vc_known_name(enum vc_known known);

#ifdef __cplusplus
}
#endif
#endif
