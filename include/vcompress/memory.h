/* memory.h - what memory a model takes while it computes or is trained, and how buffers share one arena.
 *
 * Everything is worked out from shapes: no weights are read, no device is asked, nothing is allocated. Figures are in
 * bytes. What they count, with formulas and sources: docs/memory-model.md.
 *
 * Experimental: see experimental.h. */
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
enum vc_memory_mode {
    VC_MEMORY_INFER = 0,
    VC_MEMORY_TRAIN = 1,
    VC_MEMORY_DISTILL = 2 /* training beside a teacher, whose outputs are the target */
};

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

/* Attention as one kernel, or as products with a matrix of scores; or so with one kernel for scale, mask and softmax,
 * which keeps probabilities in the precision of the activations (Megatron). */
enum vc_attention { VC_ATTENTION_FUSED = 0, VC_ATTENTION_EAGER = 1, VC_ATTENTION_SOFTMAX = 2 };

/* Where training drops values at random and keeps their masks.
 *
 *     STATED   where the graph has dropout: Dropout layers and nodes; probabilities above 0 in config.json
 *              ("attention_probs_dropout_prob"), or the default of transformers where config.json lacks the key
 *     ALWAYS   the same places, all probabilities of attention, and each addition of a branch to the residual stream
 *     NEVER    nowhere */
enum vc_dropout { VC_DROPOUT_STATED = 0, VC_DROPOUT_ALWAYS = 1, VC_DROPOUT_NEVER = 2 };

/* What a block of memory is rounded up to: 1, 256, 512 bytes. */
enum vc_allocator { VC_ALLOCATOR_EXACT = 0, VC_ALLOCATOR_CUDA = 1, VC_ALLOCATOR_PYTORCH = 2 };

/* Which activations are computed again in the backward pass: none; all but the inputs of every k-th part; all but those
 * of every layer; the scores of attention; those parts that cost least, so that the peak is within a budget. */
enum vc_recompute {
    VC_RECOMPUTE_NONE = 0,
    VC_RECOMPUTE_SQRT = 1,
    VC_RECOMPUTE_EVERY = 2,
    VC_RECOMPUTE_LAYER = 3,
    VC_RECOMPUTE_SELECTIVE = 4,
    VC_RECOMPUTE_AUTO = 5
};

/* In which order a pipeline computes the parts of a batch: how many of them a stage keeps activations of. */
enum vc_pipeline { VC_PIPELINE_1F1B = 0, VC_PIPELINE_GPIPE = 1, VC_PIPELINE_INTERLEAVED = 2 };

/* Which weights get adapters of low rank: those of queries and values (as peft does), of all four products of
 * attention, of all products of the layers. */
enum vc_lora_targets { VC_LORA_QV = 0, VC_LORA_ATTENTION = 1, VC_LORA_ALL = 2 };

/* What lies in the memory of the host: nothing; gradients, states and masters; weights, too. */
enum vc_offload { VC_OFFLOAD_NONE = 0, VC_OFFLOAD_OPTIMIZER = 1, VC_OFFLOAD_ALL = 2 };

/* How codes of quantized weights are loaded: as they are; as floats; as they are, and one tensor at a time as floats.
 */
enum vc_runtime { VC_RUNTIME_NATIVE = 0, VC_RUNTIME_DEQUANTIZE = 1, VC_RUNTIME_LAYERWISE = 2 };

/* Which program trains. PyTorch's figures are modelled; ours are the plan of a run (distill.h), to the byte. */
enum vc_memory_trainer { VC_MEMORY_PYTORCH = 0, VC_MEMORY_VCOMPRESS = 1 };

struct vc_memory_options {
    size_t struct_size; /* set by vc_memory_defaults */
    enum vc_memory_mode mode;
    /* VC_MEMORY_VCOMPRESS: mode is VC_MEMORY_TRAIN; `weights` is the precision (f32 if VC_DTYPE_NONE). What this
     * trainer has not, other devices, adapters, autocast, is refused (VC_E_ARGUMENT). */
    enum vc_memory_trainer trainer;
    /* What float weights are loaded as: f32, f16, bf16, f64; i8: codes with a scale for each row, and what has one
     * dimension as f16. VC_DTYPE_NONE: as they are stored, and what config.json names where that is wider; without a
     * file vc_memory_float_type. */
    enum vc_dtype weights;
    /* VC_DTYPE_NONE: f16 where `weights` or `scheme` say one or two bytes, else as `weights`; where they say nothing
     * vc_memory_float_type. */
    enum vc_dtype activations;
    enum vc_optimizer optimizer;
    enum vc_amp amp;
    enum vc_recompute recompute;
    unsigned recompute_every; /* VC_RECOMPUTE_EVERY: nodes with weights in one part */
    enum vc_attention attention;
    enum vc_allocator allocator;
    bool in_place; /* activation functions, normalizations and additions write over an input that dies there */
    enum vc_dropout dropout; /* training only */
    bool reuse;              /* memory of what died is used again; false: every result has memory of its own */
    uint64_t context_tokens; /* keys and values of so many positions are kept per sequence; 0: none */
    enum vc_dtype cache;     /* of them; VC_DTYPE_NONE: as the activations */
    enum vc_runtime runtime;
    /* Several devices: figures are those of one. 0 and 1: no division. */
    unsigned dp, tp, pp;    /* copies of the model; parts of each product; stages of layers */
    unsigned zero;          /* stage of ZeRO over the copies: 1 divides states and masters, 2 gradients, 3 weights */
    unsigned micro_batches; /* parts that the batch of a step comes in; inputs have the size of one; 0: 1 */
    enum vc_pipeline schedule;
    unsigned chunks;              /* VC_PIPELINE_INTERLEAVED: groups of layers on each stage */
    unsigned stage;               /* the stage that figures are of, from 1 on; 0: the one with the highest peak */
    bool sequence_parallel;       /* what tp does not divide is divided along the sequence */
    enum vc_dtype gradients;      /* VC_DTYPE_NONE: as the weights that are trained */
    uint64_t bucket_elems;        /* of the buffers that dp collects gradients and weights in: 500,000,000 */
    unsigned lora_rank;           /* of adapters, which alone are trained; 0: none */
    enum vc_lora_targets targets; /* of them */
    enum vc_offload offload;
    /* VC_MEMORY_DISTILL: what computes the targets; NULL: they are read from a file. Its symbols are bound. */
    const struct vc_graph *teacher;
    const struct vc_model *teacher_model; /* how its weights are stored; NULL: f32, or `teacher_weights` */
    enum vc_dtype teacher_weights;
    unsigned im2col_images;   /* convolutions copy the windows of so many images at once into the workspace; 0: none */
    const char *scheme;       /* of weights, a name of vc_weight_scheme_name, "int4-g64"; NULL: see `weights` */
    uint64_t context_bytes;   /* of the device's runtime: 300 MiB, see fit.h */
    uint64_t workspace_bytes; /* of the library for products: 32 MiB, see fit.h */
    double slack;             /* as in fit.h */
    uint64_t budget_bytes;    /* VC_RECOMPUTE_AUTO: what the peak may take */
    uint64_t foreach_step; /* not 0: the optimizer changes all weights at once, as PyTorch does on GPUs by default: Adam
                              and AdamW have another copy of the second moments then; 0: one after the other */
};

VC_API void vc_memory_defaults_sized(struct vc_memory_options *options, size_t struct_size);

/* Inference (training: AdamW), weights as they are stored, fused attention, exact sizes, memory used again but not in
 * place. */
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
    /* What the device's programs take beside the model's tensors: not in the moments. */
    VC_MEMORY_WORKSPACE = 8,
    VC_MEMORY_CONTEXT = 9,
    VC_MEMORY_SLACK = 10,
    VC_MEMORY_COMMUNICATION = 11, /* buffers between devices */
    VC_MEMORY_TEACHER = 12,       /* its weights, its forward pass, its outputs */
    VC_MEMORY_COMPONENTS = 13
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

/* Of a pipeline. */
struct vc_memory_stage {
    uint64_t peak_bytes;
    double in_flight; /* parts of a batch whose activations are kept at once */
};
#define VC_MEMORY_STAGES 64 /* at most */

struct vc_memory_report {
    struct vc_memory_part components[VC_MEMORY_COMPONENTS];
    struct vc_memory_part moments[VC_MOMENTS];
    struct vc_memory_part reserved[VC_MOMENTS]; /* VC_ALLOCATOR_PYTORCH: what the allocator has taken for them */
    unsigned n_stages, stage;                   /* of the pipeline, and which one this is, from 1 on; 1 without one */
    struct vc_memory_stage stages[VC_MEMORY_STAGES];
    uint64_t host_bytes;            /* VC_OFFLOAD_...: in the memory of the host */
    uint64_t recomputed, n_forward; /* multiply-adds that are computed again, of so many in the forward pass */
    uint64_t n_params, n_trained;   /* elements; the second without running statistics */
    uint64_t arena_bytes;           /* what all activations take in one arena with offsets ... */
    uint64_t arena_least;           /* ... and the least that any arrangement takes */
    const char *peak_at;            /* the node whose step the peak is at, of the graph; "" */
    const char *unknown;            /* why a part is not known, a sentence; NULL: all is ... */
    const char *unknown_name;       /* ... and the value, operator or tensor that it is about; NULL: none */
    uint64_t over_budget;           /* VC_RECOMPUTE_AUTO: bytes of the peak above the budget, which no plan reaches */
    /* The peak as PyTorch's eager mode has it: in inference modules hold more than is needed; the peak of `moments` is
     * that of a runtime that keeps only what is needed. */
    struct vc_memory_part eager;
    const char *eager_at; /* as peak_at */
};

/* Symbols of the graph have to be bound (vc_graph_bind); activations are not known where one is not. `model` tells how
 * weights are stored: that of the graph, or NULL. The strings of the report are those of graph and model, or static. */
VC_API enum vc_status vc_memory_estimate(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model,
                                         const struct vc_memory_options *options, struct vc_memory_report *out);

/* The type of floats that estimates take where the options name none, for weights without a file, activations, keys and
 * values: that of most elements of the model's weights, or what config.json says ("torch_dtype", "dtype") where that is
 * wider or there is no model; else f32. Both may be NULL. */
VC_API enum vc_dtype vc_memory_float_type(const struct vc_graph *graph, const struct vc_model *model);

/* What one layer takes: the module of its weights ("encoder.layer.0.output.dense"), or where nodes without weights
 * belong. */
struct vc_memory_layer {
    const char *name;          /* the last one may be "(other)": what is divided or rounded as a whole */
    uint64_t n_params;         /* the sum of all layers is vc_memory_report.n_params, ... */
    uint64_t weight_bytes;     /* ... its VC_MEMORY_PARAMETERS ... */
    uint64_t activation_bytes; /* ... and its VC_MEMORY_ACTIVATIONS; 0 where these are not known */
    uint64_t output_bytes;     /* of all that it computes, whether that lives at the peak or not */
};

struct vc_memory_layers {
    size_t n;
    const struct vc_memory_layer *layers; /* in the order of the nodes, then weights that no node reads */
};

/* The same estimate as vc_memory_estimate's, by layers. Freed with vc_memory_layers_free. */
VC_API enum vc_status vc_memory_layers_make(struct vc_ctx *ctx, const struct vc_graph *graph,
                                            const struct vc_model *model, const struct vc_memory_options *options,
                                            struct vc_memory_layers **out);
VC_API void vc_memory_layers_free(struct vc_memory_layers *layers); /* accepts NULL */

/* The report as one JSON document, schema vcompress.estimate/1, with the sizes that are bound and the options. layers
 * and graph may be NULL; path is what the model is called. *text is freed with vc_text_free. */
VC_API enum vc_status vc_memory_json(struct vc_ctx *ctx, const struct vc_memory_report *report,
                                     const struct vc_memory_layers *layers, const struct vc_memory_options *options,
                                     const struct vc_graph *graph, const char *path, char **text);

/* How the program that usually reads files of that layout (vc_model_layout) loads codes: llama.cpp and bitsandbytes as
 * they are, onnxruntime a tensor at a time as floats, all others as floats. NULL, no codes: native. */
VC_API enum vc_runtime vc_memory_runtime(const struct vc_layout *layout);

/* Names of the schemes that weights have: "int8", "nf4", "q4_k", ... NULL behind the last. Those that take a size of
 * groups are "int8-gN" and so on here; N is a number. docs/memory-model.md has a table of their bytes. */
VC_API const char *vc_weight_scheme_name(size_t index);
/* Bytes of a weight of that shape, the last axis being the one along which products add. UINT64_MAX: no such scheme, or
 * too many. What has one dimension is of two bytes. */
VC_API uint64_t vc_weight_scheme_bytes(const char *scheme, const uint64_t *shape, unsigned n_dims);

/* A request to PyTorch's caching allocator: memory, or (free) the end of the memory of request number `id`. */
struct vc_allocation {
    uint64_t bytes;
    uint64_t id;
    bool free;
};

struct vc_allocated {
    uint64_t allocated, reserved; /* at the end: blocks that are in use, and segments that were taken */
    uint64_t most_allocated, most_reserved;
};

/* What the allocator of PyTorch (native, defaults) has taken from the device after these requests: sizes rounded to 512
 * bytes, nothing for none; segments of 2 MiB for up to 1 MiB, of 20 MiB for less than 10 MiB, else of the size in steps
 * of 2 MiB; blocks are split, joined and used again. VC_E_ARGUMENT: an id of a request that has no memory. */
VC_API enum vc_status vc_allocator_emulate(struct vc_ctx *ctx, const struct vc_allocation *requests, size_t n,
                                           struct vc_allocated *out);

/* What lives in memory at one step of a run, by component. */
struct vc_memory_point {
    uint64_t step;
    uint64_t bytes[VC_MEMORY_COMPONENTS];
};

/* A run from its first step to its last: the states, which live all the time, and what comes and goes. Of many steps
 * each point is the fullest of those that it stands for, so the peak is among them. */
struct vc_memory_timeline {
    uint64_t n_steps;
    uint64_t backward; /* training: the step of the loss, behind which the backward pass begins; else n_steps */
    size_t n_points;
    const struct vc_memory_point *points;
    size_t peak; /* the first of the fullest points; its sum is the moment VC_MOMENT_PEAK of the report */
};

/* The same run that vc_memory_estimate counts, in at most `most` points. *out is NULL where activations are not known;
 * freed with vc_memory_timeline_free. */
VC_API enum vc_status vc_memory_timeline_make(struct vc_ctx *ctx, const struct vc_graph *graph,
                                              const struct vc_model *model, const struct vc_memory_options *options,
                                              size_t most, struct vc_memory_timeline **out);
VC_API void vc_memory_timeline_free(struct vc_memory_timeline *timeline); /* accepts NULL */

/* "kv_cache", "forward", "exact". */
VC_API const char *vc_memory_kind_name(enum vc_memory_kind component);
VC_API const char *vc_moment_name(enum vc_moment moment);
VC_API const char *vc_known_name(enum vc_known known);

#ifdef __cplusplus
}
#endif
#endif
