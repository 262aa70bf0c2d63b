/* memory.h - the memory that a model takes in inference and training.
 *
 * Estimates come from shapes: no weights are read, no device is used. All figures are bytes. docs/memory-model.md has
 * the formulas and their sources.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_MEMORY_H
#define VCOMPRESS_MEMORY_H

#include <vcompress/graph.h>
#include <vcompress/word.h>

VC_BEGIN_C

/* Numbers of all enums here are stable. */
enum vc_memory_mode {
    VC_MEMORY_INFER = 0,
    VC_MEMORY_TRAIN = 1,
    VC_MEMORY_DISTILL = 2 /* training with a teacher, whose outputs are the target */
};

/* The optimizer. Bytes of states per f32 weight, in the order below: 0, 4, 8, 8, rows + columns only, 2. */
enum vc_optimizer {
    VC_OPTIMIZER_SGD = 0,
    VC_OPTIMIZER_MOMENTUM = 1,
    VC_OPTIMIZER_ADAM = 2,
    VC_OPTIMIZER_ADAMW = 3,
    VC_OPTIMIZER_ADAFACTOR = 4,
    VC_OPTIMIZER_ADAM8BIT = 5
};

/* Mixed precision. NONE: off; AUTOCAST: PyTorch's autocast (f32 weights, half-precision copies and activations); PURE:
 * weights and gradients in half precision with f32 master weights. */
enum vc_amp { VC_AMP_NONE = 0, VC_AMP_AUTOCAST = 1, VC_AMP_PURE = 2 };

/* Attention. FUSED: one kernel; EAGER: products with a matrix of scores; SOFTMAX: like EAGER, with one kernel for
 * scale, mask and softmax that keeps probabilities in the precision of the activations (Megatron). AUTO: what PyTorch
 * has for GPUs: one kernel, but products in f32 where heads share keys and values. */
enum vc_attention { VC_ATTENTION_FUSED = 0, VC_ATTENTION_EAGER = 1, VC_ATTENTION_SOFTMAX = 2, VC_ATTENTION_AUTO = 3 };

/* Where training drops values at random and keeps their masks.
 *
 *     STATED   where the graph has dropout: Dropout layers and nodes; probabilities above 0 in config.json
 *              ("attention_probs_dropout_prob"), or the default of transformers where config.json lacks the key
 *     ALWAYS   the same places, all probabilities of attention, and each addition of a branch to the residual stream
 *     NEVER    nowhere */
enum vc_dropout { VC_DROPOUT_STATED = 0, VC_DROPOUT_ALWAYS = 1, VC_DROPOUT_NEVER = 2 };

/* The allocator, which rounds a block of memory up to 1, 256, 512 or (onnxruntime's arena) 256 bytes. */
enum vc_allocator {
    VC_ALLOCATOR_EXACT = 0,
    VC_ALLOCATOR_CUDA = 1,
    VC_ALLOCATOR_PYTORCH = 2,
    VC_ALLOCATOR_ONNXRUNTIME = 3
};

/* Activations that the backward pass computes again. SQRT, EVERY: all but the inputs of every k-th part; LAYER: all but
 * the inputs of every layer; SELECTIVE: the scores of attention; AUTO: the cheapest parts with which the peak is within
 * budget_bytes. */
enum vc_recompute {
    VC_RECOMPUTE_NONE = 0,
    VC_RECOMPUTE_SQRT = 1,
    VC_RECOMPUTE_EVERY = 2,
    VC_RECOMPUTE_LAYER = 3,
    VC_RECOMPUTE_SELECTIVE = 4,
    VC_RECOMPUTE_AUTO = 5
};

/* The order in which a pipeline computes the parts of a batch, which decides how many parts' activations a stage keeps.
 */
enum vc_pipeline { VC_PIPELINE_1F1B = 0, VC_PIPELINE_GPIPE = 1, VC_PIPELINE_INTERLEAVED = 2 };

/* Weights with low-rank adapters. QV: queries and values (peft's default); ATTENTION: all four products of attention;
 * ALL: all products of the layers. */
enum vc_lora_targets { VC_LORA_QV = 0, VC_LORA_ATTENTION = 1, VC_LORA_ALL = 2 };

/* Tensors in the memory of the host. OPTIMIZER: gradients, states and master weights; ALL: weights, too. */
enum vc_offload { VC_OFFLOAD_NONE = 0, VC_OFFLOAD_OPTIMIZER = 1, VC_OFFLOAD_ALL = 2 };

/* How a loader treats codes of quantized weights. NATIVE: keeps codes; DEQUANTIZE: makes floats; LAYERWISE: keeps codes
 * and decodes one tensor at a time.
 */
enum vc_runtime { VC_RUNTIME_NATIVE = 0, VC_RUNTIME_DEQUANTIZE = 1, VC_RUNTIME_LAYERWISE = 2 };

/* The program that runs the model: vc_memory_set_program has what follows from it. ANY: no program is named, and only the
 * other options count. PYTORCH: eager mode, weights as floats; TRANSFORMERS: the same, for codes that its loaders
 * decode; BITSANDBYTES: transformers with bitsandbytes' layers, which keep codes. MCU: a program on a microcontroller:
 * weights stay in flash and codes are codes, values are f32 in one arena of RAM, and nothing else is there. */
enum vc_memory_program {
    VC_RUN_BY_ANY = 0,
    VC_RUN_BY_PYTORCH = 1,
    VC_RUN_BY_TRANSFORMERS = 2,
    VC_RUN_BY_BITSANDBYTES = 3,
    VC_RUN_BY_LLAMA_CPP = 4,
    VC_RUN_BY_ONNXRUNTIME = 5,
    VC_RUN_BY_VLLM = 6,
    VC_RUN_BY_MCU = 7,
    VC_RUN_BY_COUNT = 8
};

/* Which program trains. PyTorch's figures are modelled; ours are the plan of a run (distill.h), to the byte. */
enum vc_memory_trainer { VC_MEMORY_PYTORCH = 0, VC_MEMORY_VCOMPRESS = 1 };

struct vc_memory_options {
    size_t struct_size; /* set by vc_memory_defaults */
    enum vc_memory_mode mode;
    /* Type of float weights in memory: f32, f16, bf16, f64, or i8: codes with one scale per row, and tensors of one
     * dimension as f16. VC_DTYPE_NONE: the stored type, or the type in config.json if wider; vc_memory_float_type
     * without a file. */
    enum vc_dtype weights;
    /* VC_DTYPE_NONE: f16 if `weights` or `scheme` take one or two bytes, else the type of `weights`;
     * vc_memory_float_type if neither is set. */
    enum vc_dtype activations;
    enum vc_optimizer optimizer;
    enum vc_amp amp;
    enum vc_recompute recompute;
    unsigned recompute_every; /* VC_RECOMPUTE_EVERY: nodes with weights in one part */
    enum vc_attention attention;
    enum vc_allocator allocator;
    bool in_place;           /* activation functions, normalizations and additions overwrite an input used last there */
    enum vc_dropout dropout; /* training only */
    bool reuse;              /* memory of dead values is reused; false: every result has its own memory */
    uint64_t context_tokens; /* positions per sequence whose keys and values are kept; 0: no cache */
    enum vc_dtype cache;     /* type of keys and values; VC_DTYPE_NONE: as activations */
    enum vc_runtime runtime;
    /* Several devices; all figures are for one device. 0 and 1: no division. */
    unsigned dp, tp, pp; /* copies of the model; parts of each product; stages of a pipeline */
    unsigned zero; /* ZeRO stage over the copies: 1 divides states and masters, 2 also gradients, 3 also weights */
    unsigned micro_batches; /* parts of the batch of a step; inputs have the size of one part; 0 means 1 */
    enum vc_pipeline schedule;
    unsigned chunks;              /* VC_PIPELINE_INTERLEAVED: groups of layers on each stage */
    unsigned stage;               /* stage of the figures, from 1; 0: the stage with the highest peak */
    bool sequence_parallel;       /* tensors that tp does not divide are divided along the sequence */
    enum vc_dtype gradients;      /* VC_DTYPE_NONE: type of the trained weights */
    uint64_t bucket_elems;        /* size of dp's buffers for gradients and weights; default 500,000,000 */
    unsigned lora_rank;           /* rank of adapters; only adapters are trained then; 0: no adapters */
    enum vc_lora_targets targets; /* weights with adapters */
    enum vc_offload offload;
    /* VC_MEMORY_DISTILL: graph of the teacher, with bound symbols. NULL: the targets are read from a file. */
    const struct vc_graph *teacher;
    /* gives the stored type of the teacher's weights; NULL: teacher_weights, or f32 */
    const struct vc_model *teacher_model;
    enum vc_dtype teacher_weights;
    /* Convolutions copy the windows of this many images at once into the workspace (im2col); 0: no copy. */
    unsigned im2col_images;
    const char *scheme;       /* scheme of the weights (vc_weight_scheme_name), "int4-g64"; NULL: see `weights` */
    uint64_t context_bytes;   /* of the device's runtime; default 300 MiB, see fit.h */
    uint64_t workspace_bytes; /* of the matrix library; default 32 MiB, see fit.h */
    double slack;             /* as in fit.h */
    uint64_t budget_bytes;    /* VC_RECOMPUTE_AUTO: largest peak */
    /* Not 0 (default): the optimizer updates all weights at once, as PyTorch does on GPUs where nobody says otherwise;
     * Adam and AdamW then need another copy of the second moments. 0: one weight after the other (foreach=False). */
    uint64_t foreach_step;
    /* With VC_MEMORY_VCOMPRESS, mode must be VC_MEMORY_TRAIN, and `weights` is the precision (VC_DTYPE_NONE: f32).
     * Options that this trainer lacks (several devices, adapters, autocast) are refused with VC_E_ARGUMENT. */
    enum vc_memory_trainer trainer;
    enum vc_memory_program program; /* with what vc_memory_set_program has set by it; default VC_RUN_BY_ANY */
    /* llama.cpp: the weights of the experts of so many layers, the first ones, are in the memory of the host
     * (--n-cpu-moe); 0: of none. Other programs: no effect. */
    uint64_t cpu_moe_layers;
};

/* Inference (training: AdamW), weights as stored, VC_ATTENTION_AUTO, exact sizes, memory reused but not in place. */
static inline void vc_memory_defaults(struct vc_memory_options *options)
{
    vc_options_defaults("vc_memory_options", options, sizeof *options);
}

/* Components of the memory. */
enum vc_memory_kind {
    VC_MEMORY_PARAMETERS = 0,
    VC_MEMORY_GRADIENTS = 1,
    VC_MEMORY_OPTIMIZER = 2,
    VC_MEMORY_MASTER = 3, /* f32 copies of half-precision weights; autocast: half-precision copies of f32 weights */
    VC_MEMORY_ACTIVATIONS = 4, /* training: values for the backward pass; inference: most values at once */
    VC_MEMORY_INPUTS = 5,
    VC_MEMORY_KV_CACHE = 6,
    VC_MEMORY_TRANSIENT = 7, /* training: other values at the peak, such as gradients of values */
    /* Memory of the device beside the model's tensors; not part of the moments. */
    VC_MEMORY_WORKSPACE = 8,
    VC_MEMORY_CONTEXT = 9,
    VC_MEMORY_SLACK = 10,
    VC_MEMORY_COMMUNICATION = 11, /* buffers between devices */
    VC_MEMORY_TEACHER = 12,       /* weights, forward pass and outputs of the teacher */
    VC_MEMORY_COMPONENTS = 13
};

/* Quality of a figure. EXACT: counted from given sizes; MODELLED: from a formula of how programs behave; ASSUMED: from
 * a guess; NOT: unknown. */
enum vc_known { VC_KNOWN_EXACT = 0, VC_KNOWN_MODELLED = 1, VC_KNOWN_ASSUMED = 2, VC_KNOWN_NOT = 3 };

/* Moments of a run. One number is not enough: after a step most memory of the peak is free again. */
enum vc_moment {
    VC_MOMENT_LOAD = 0,    /* weights are loaded */
    VC_MOMENT_FORWARD = 1, /* training: end of the forward pass, with the optimizer's states of the step before */
    VC_MOMENT_PEAK = 2,
    VC_MOMENT_STEP = 3, /* training: after the optimizer's step */
    VC_MOMENTS = 4
};

struct vc_memory_part {
    uint64_t bytes;
    enum vc_known known;
};

/* A stage of a pipeline. */
struct vc_memory_stage {
    uint64_t peak_bytes;
    double in_flight; /* parts of a batch whose activations are kept at once */
};
#define VC_MEMORY_STAGES 64 /* at most */

#define VC_MEMORY_NOTES 8 /* at most */

struct vc_memory_report {
    struct vc_memory_part components[VC_MEMORY_COMPONENTS];
    struct vc_memory_part moments[VC_MOMENTS];
    /* VC_ALLOCATOR_PYTORCH: memory that the allocator reserves at these moments */
    struct vc_memory_part reserved[VC_MOMENTS];
    unsigned n_stages, stage; /* number of stages; stage of the figures, from 1; 1 and 1 without a pipeline */
    struct vc_memory_stage stages[VC_MEMORY_STAGES];
    uint64_t host_bytes;            /* VC_OFFLOAD_...: bytes in the memory of the host */
    uint64_t recomputed, n_forward; /* multiply-adds computed again; multiply-adds of the forward pass */
    uint64_t n_params, n_trained;   /* elements of all and of trained weights; n_trained without running statistics */
    uint64_t arena_bytes;           /* size of one arena with offsets for all activations */
    uint64_t arena_least;           /* lower bound of the arena's size */
    const char *peak_at;            /* node of the graph at the peak; "" if no node */
    const char *unknown;            /* why a part is unknown, a sentence; NULL: all parts are known */
    const char *unknown_name;       /* value, operator or tensor that `unknown` is about, or NULL */
    uint64_t over_budget; /* VC_RECOMPUTE_AUTO: bytes of the peak above the budget, if no plan meets the budget */
    /* The peak in PyTorch's eager mode. In inference, modules hold values longer than needed; VC_MOMENT_PEAK in
     * `moments` is the peak of a runtime that keeps needed values only. */
    struct vc_memory_part eager;
    const char *eager_at; /* like peak_at */
    /* Of VC_MEMORY_PARAMETERS: bytes that the program keeps in the memory of the host, which no moment counts (and
     * host_bytes does). llama.cpp: the table of words, where the output layer is another one, and the experts of
     * cpu_moe_layers. */
    uint64_t host_weight_bytes;
    uint64_t max_positions; /* of a sequence, that the model was made for; 0: not stated */
    /* Sentences without a full stop on how the figures were counted, and on what they leave out. */
    size_t n_notes;
    const char *notes[VC_MEMORY_NOTES];
};

/* Estimates the memory. Bind the symbols of the graph first (vc_graph_bind); activations are unknown if a symbol has no
 * size. model: the graph's model, which gives the stored types of weights, or NULL. Strings of the report are static or
 * borrowed from graph and model. */
VC_API enum vc_status vc_memory_estimate(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model,
                                         const struct vc_memory_options *options, struct vc_memory_report *out);

/* The default float type of estimates: for weights without a file, activations, keys and values. The type of most
 * elements of the model's weights, or the type in config.json ("torch_dtype", "dtype") if wider or without a model;
 * else f32. Both arguments may be NULL. */
VC_API enum vc_dtype vc_memory_float_type(const struct vc_graph *graph, const struct vc_model *model);

/* Memory of one layer. A layer is the module of its weights ("encoder.layer.0.output.dense"); nodes without weights are
 * assigned to a module. */
struct vc_memory_layer {
    const char *name;          /* the last may be "(other)": bytes divided or rounded as a whole */
    uint64_t n_params;         /* sum over layers: vc_memory_report.n_params */
    uint64_t weight_bytes;     /* sum over layers: VC_MEMORY_PARAMETERS */
    uint64_t activation_bytes; /* sum over layers: VC_MEMORY_ACTIVATIONS; 0 if unknown */
    uint64_t output_bytes;     /* all outputs of the layer, whether or not they live at the peak */
};

struct vc_memory_layers {
    size_t n;
    const struct vc_memory_layer *layers; /* in the order of the nodes, then weights that no node reads */
};

/* The estimate of vc_memory_estimate by layers. Free *out with vc_result_free. */
VC_API enum vc_status vc_memory_layers_make(struct vc_ctx *ctx, const struct vc_graph *graph,
                                            const struct vc_model *model, const struct vc_memory_options *options,
                                            struct vc_memory_layers **out);

/* The program that usually runs a file of this format (vc_model_facts.format) with codes in this layout, for a run with these
 * options. llama.cpp: GGUF, and `scheme` of GGUF; onnxruntime: ONNX; bitsandbytes: its layout and its schemes;
 * transformers: other codes in safetensors; PyTorch: all else, and training. layout NULL: no codes; format NULL: no
 * file; options NULL: inference with the defaults. */
VC_API enum vc_memory_program vc_memory_program(const struct vc_layout *layout, const char *format,
                                                const struct vc_memory_options *options);
struct vc_program_facts {
    const char *name; /* "llama.cpp"; NULL: VC_RUN_BY_ANY, or no program has the number */
    bool ideal;       /* keeps no value longer than another operator needs it, so that VC_MOMENT_PEAK is its peak */
    enum vc_allocator allocator; /* for values */
};
/* What is known of a program; never NULL. */
VC_API const struct vc_program_facts *vc_memory_program_facts(enum vc_memory_program program);
/* Sets program and runtime, and of activations, keys and values, and attention those that are still open, to
 * what the program does in inference with a file in this layout. Where the device has nothing but the program
 * (VC_RUN_BY_MCU): context and workspace become 0, and values are written in place. docs/memory-model.md has a table. */
VC_API void vc_memory_set_program(struct vc_memory_options *options, enum vc_memory_program program,
                                  const struct vc_layout *layout);
/* What a program that was named does with weights that a scheme names. NOT_TAKEN: it does not load them; llama.cpp loads
 * GGUF's types alone, onnxruntime none of these, bitsandbytes int8 and its own types of four bits. DECODED: it makes floats of them as it loads them, as PyTorch and
 * transformers do of all codes; of bitsandbytes' types PyTorch keeps the codes. */
enum vc_program_weights { VC_WEIGHTS_NOT_TAKEN = 0, VC_WEIGHTS_KEPT = 1, VC_WEIGHTS_DECODED = 2 };
VC_API enum vc_program_weights vc_memory_program_weights(enum vc_memory_program program, const char *scheme);

/* Gives the symbol "sequence" of the graph, where it has one, the positions of a sequence that the program computes at
 * once where nobody says otherwise: llama.cpp 512 of all sequences ("batch") together (n_ubatch), at most context_tokens
 * and what the model was made for. Other programs: `otherwise`; 0: it stays as it is. */
VC_API enum vc_status vc_memory_bind_positions(struct vc_ctx *ctx, struct vc_graph *graph,
                                               const struct vc_memory_options *options, uint64_t otherwise);
/* Where the program of `options` decodes the codes of a layout, another one that keeps them takes its place: vLLM for
 * compressed-tensors, gptq and awq, else one of the user's own, VC_RUN_BY_ANY, which keeps no value longer than needed;
 * *ideal is then true, else as it was (vc_fit_options.ideal). */
VC_API void vc_memory_set_keeper(struct vc_memory_options *options, const struct vc_layout *layout, bool *ideal);
/* vc_graph_bind_usual, with the length of a sequence that the program of a file in this layout and format computes at
 * once. layout and format: as for vc_memory_program. */
VC_API enum vc_status vc_memory_bind_usual(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_layout *layout,
                                           const char *format);

/* Name of weight scheme number `index`: "int8", "nf4", "q4_k". Schemes with groups are listed as "int8-gN"; a program
 * writes a number for N: "int8-g128". Returns NULL after the last scheme. docs/memory-model.md has a table of bytes. */
VC_API const char *vc_weight_scheme_name(size_t index);

/* Bytes of a weight with this shape; products sum along the last axis. A weight of one dimension takes two bytes per
 * element. Returns UINT64_MAX if the scheme is unknown or the number overflows. */
VC_API uint64_t vc_weight_scheme_bytes(const char *scheme, const uint64_t *shape, unsigned n_dims);

/* Memory at one step of a run, by component. */
struct vc_memory_point {
    uint64_t step;
    uint64_t bytes[VC_MEMORY_COMPONENTS];
};

/* Memory over all steps of a run. In a long run one point stands for several steps and shows the step with the most
 * bytes, so the peak is always a point. */
struct vc_memory_timeline {
    uint64_t n_steps;
    uint64_t backward; /* training: step of the loss, after which the backward pass begins; else n_steps */
    size_t n_points;
    const struct vc_memory_point *points;
    size_t peak; /* first point with the largest sum, which is the report's VC_MOMENT_PEAK */
    /* What runs at each point: the name of a node, its block or its operator. Borrowed from the graph. */
    const char *const *names;
};

/* Makes the timeline of the run that vc_memory_estimate counts, with at most `most` points. *out is NULL if activations
 * are unknown. Free *out with vc_result_free. */
VC_API enum vc_status vc_memory_timeline_make(struct vc_ctx *ctx, const struct vc_graph *graph,
                                              const struct vc_model *model, const struct vc_memory_options *options,
                                              size_t most, struct vc_memory_timeline **out);

VC_END_C
#endif
