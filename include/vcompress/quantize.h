/* quantize.h - quantize: fewer bits per weight; dequantize: back to floats. Definitions: docs/numerics.md.
 *
 * The job owns a pass from vc_job_add_... on. The options are copied with their rules and globs; NULL means the
 * defaults. The numbers of all enums here are stable. */
#ifndef VCOMPRESS_QUANTIZE_H
#define VCOMPRESS_QUANTIZE_H

#include <vcompress/job.h>

VC_BEGIN_C

enum vc_nonfinite {
    VC_NONFINITE_ERROR = 0, /* fail; the sentence has the tensor, the count and the first index */
    VC_NONFINITE_KEEP = 1,  /* copy this tensor unchanged (all weights are read once more before the run) */
    /* NaN becomes 0. +-Inf becomes the largest finite magnitude of the scale group (int8) or of the target type
     * (casts).
     */
    VC_NONFINITE_ZERO = 2
};

enum vc_overflow {
    VC_OVERFLOW_ERROR = 0,   /* fail if a finite value is beyond the largest value of the target type */
    VC_OVERFLOW_INF = 1,     /* the value becomes +-Inf, as IEEE 754 rounds */
    VC_OVERFLOW_SATURATE = 2 /* the value becomes the largest finite value */
};

enum vc_target {
    /* i8 codes in [-127, 127] and scales; asymmetric: codes in [-128, 127], scales and i8 zero points. The tensors and
     * the type of scales depend on vc_write_options.layout, too. */
    VC_TARGET_INT8 = 0,
    VC_TARGET_F16 = 1,
    VC_TARGET_BF16 = 2,
    VC_TARGET_F32 = 3,    /* dequantize only */
    VC_TARGET_CHOSEN = 4, /* quantize only: each tensor gets a type by aim_sqnr_db or aim_bytes */
    VC_TARGET_GGUF = 5, /* quantize only: GGUF's block types, by vc_quantize_options.gguf; the output is a GGUF file */
    /* quantize only: i4 codes in [-8, 7], two a byte, and scales per group (128 elements unless granularity_given) or
     * per row of axis 0; asymmetric: and i8 zero points. In ONNX per group along the inputs of a product. The type and
     * the sign of scales depend on
     * vc_write_options.layout. */
    VC_TARGET_INT4 = 6,
    /* quantize only: codes of float grids with scales; VC_NAMES_SCHEMES and docs/numerics.md say which. Scales per row of
     * axis 0 or per block (FP8), per 64 elements unless granularity_given (NF4, FP4), per 32 (MXFP8, MXFP4) or 16
     * (NVFP4). With NVFP4 vc_job_plan reads all weights: joined layers share a global scale. */
    VC_TARGET_FP8 = 7,
    VC_TARGET_MXFP8 = 8,
    VC_TARGET_MXFP4 = 9,
    VC_TARGET_NVFP4 = 10,
    VC_TARGET_NF4 = 11,
    VC_TARGET_FP4 = 12,
    /* quantize only: as INT4, with codes of 2 to 6 bits. VC_TARGET_TERNARY: codes -1, 0 and 1 of 2 bits. */
    VC_TARGET_INT2 = 13,
    VC_TARGET_INT3 = 14,
    VC_TARGET_INT5 = 15,
    VC_TARGET_INT6 = 16,
    VC_TARGET_TERNARY = 17,
    /* quantize only: E4M3 and E5M2 without a scale; of networks that make pictures the layers that become codes, too */
    VC_TARGET_F8_E4M3 = 18,
    VC_TARGET_F8_E5M2 = 19
};

/* How GGUF's blocks get their scales; both write the same layouts. */
enum vc_encoder {
    VC_ENCODER_BEST = 0, /* the lowest squared error that a search finds; never above that of the other encoder */
    VC_ENCODER_LLAMA = 1 /* byte for byte what llama.cpp's quantizers write */
};

/* What becomes of the values between the layers. */
enum vc_activations_kind {
    VC_ACTIVATIONS_NONE = 0,
    /* ONNX, VC_TARGET_INT8: QuantizeLinear and DequantizeLinear behind what products read and make, by ranges of
     * `calibration`, so that onnxruntime computes with codes. Weights of all products become int8, of any size; their
     * biases i32; nothing else.
     * Hugging Face folders, VC_TARGET_INT8 in the layout w8a8 and VC_TARGET_FP8: beside the codes of a weight a scale
     * for the inputs of its layer, the largest magnitude in `calibration`; `saturation` and `ranges` are not set. */
    VC_ACTIVATIONS_STATIC = 1
};

/* The range of a value that codes stand for. Inputs of the graph, and values that no layer reads, have the whole one.
 */
enum vc_ranges {
    VC_RANGES_WHOLE = 0,      /* from the smallest element to the largest */
    VC_RANGES_ERROR = 1,      /* the part of it with the least squared error */
    VC_RANGES_PERCENTILE = 2, /* what all but (100 - percentile) % of the elements lie in */
    VC_RANGES_ENTROPY = 3     /* the magnitudes whose histogram 128 levels keep best, by the divergence (TensorRT) */
};

/* Kernels of x86 processors without VNNI add two products of codes in 16 bits. */
enum vc_saturation {
    VC_SATURATION_AUTO = 0, /* layers whose sums do not fit for the calibration's inputs get smaller codes */
    VC_SATURATION_OFF = 1,
    VC_SATURATION_ALL = 2 /* all layers get such codes: 64 to 127 steps for a row */
};

/* A rule that selects tensors by name; the last rule whose glob matches decides. `*` matches any run of characters, `?`
 * one character, `[a-z]` one character of a set. */
struct vc_rule {
    const char *glob;
    bool include; /* false: copy the tensor. true: process the tensor although a default rule skips it */
};

#define VC_DEFAULT_MIN_ELEMS 4096
#define VC_DEFAULT_MIN_ROW   32
#define VC_AXIS_OUTPUT       (-1000) /* vc_tensor.channel_axis: output channels if known, else axis 0 */

/* What it does to the outputs of a model if one tensor alone gets a scheme. */
struct vc_measured_cost {
    const char *tensor, *scheme; /* "fc1.weight", "int4/group:128" */
    double weights, outputs;     /* norm of the change / norm, of the tensor and of the outputs */
};

struct vc_quantize_options {
    size_t struct_size; /* set by vc_quantize_defaults */
    enum vc_target target;
    enum vc_granularity granularity;
    /* The user chose the granularity. An output whose layout has another granularity (GGUF: groups of 32) is refused
     * then. false: the layout's granularity is used; with VC_TARGET_INT4 groups of 128 in place of channels. */
    bool granularity_given;
    int axis;            /* channel axis; negative counts from the end; default VC_AXIS_OUTPUT */
    uint64_t group_size; /* VC_GRANULARITY_GROUP; VC_GRANULARITY_BLOCK (FP8): rows and columns of a block */
    bool asymmetric;
    enum vc_nonfinite nonfinite;
    enum vc_overflow overflow; /* casts */
    const struct vc_rule *rules;
    size_t n_rules;
    uint64_t min_elems; /* smaller tensors are copied */
    uint64_t min_row;   /* tensors with shorter rows are copied; a row: one index of the channel axis */
    bool requantize;    /* accept quantized weights and dequantize them first */
    /* Type for the other f32 and f64 tensors, those not quantized and not excluded by a rule: "fp16" or "bf16". NULL or
     * "keep": copied. Tensors that the loaders of a format need in f32 (norms in GGUF) are always copied. */
    const char *rest;
    /* Aims: exactly one, with VC_TARGET_CHOSEN. vc_job_plan then reads all weights once or twice. Candidates: int8 with
     * a scale per tensor, per channel and per group of 128, 64 and 32 (in GGUF Q8_0), int2 to int6 in groups of 128,
     * f16 and bf16, as far as the output's layout can store them. docs/numerics.md has the rules. */
    /* Each tensor gets the smallest candidate with at least this SQNR; a tensor without such a candidate is copied. 0:
     * off. */
    double aim_sqnr_db;
    /* The choice with the least sum of squared errors whose only output has at most this many bytes. VC_E_GATE from
     * vc_job_plan if even the smallest choice is larger. 0: off. */
    uint64_t aim_bytes;
    /* VC_TARGET_GGUF: a mixture of block types as llama-quantize names it, in letters of either case: "Q4_K_M". It
     * decides about every tensor, also about small ones: min_elems and min_row are not read. */
    const char *gguf;
    enum vc_encoder encoder; /* VC_TARGET_GGUF */
    bool pure;               /* VC_TARGET_GGUF: the mixture's base type for every tensor that is quantized */
    /* NULL, or a file with statistics of the inputs of layers (docs/formats.md, statistics), of vc_calibrate or
     * llama-imatrix: VC_TARGET_GGUF, and codes of 2 to 6 bits and of floats. Errors are weighed by them; codes whose
     * layer has second moments there are rounded so that each makes up for the errors of those before it, and biases
     * take the mean of what is lost. Must outlive the job. */
    const struct vc_model *calibration;
    bool calibration_anyway; /* also statistics that were measured with weights of another training */
    enum vc_activations_kind
        activations;               /* STATIC: `calibration` has to be of vc_calibrate with the file's own graph */
    enum vc_saturation saturation; /* VC_ACTIVATIONS_STATIC, as the next two */
    enum vc_ranges ranges;
    double percentile; /* above 50, at most 100 */
    /* More aims, in place of aim_bytes: at most so many bits of the output for each weight of the model, or the
     * smallest output whose costs together stay below this share of the outputs, 0 to 1 (needs `costs`). 0: off. */
    double aim_bpw;
    double aim_loss;
    /* Aims, other than aim_sqnr_db: what schemes cost as measured on the outputs of the model
     * (vc_sensitivity_costs_read), in place of the errors of weights. A scheme without a figure costs what the scheme
     * of the nearest error costs, times the ratio of squared errors; a tensor without figures stays as it is. They must
     * outlive the job. */
    const struct vc_measured_cost *costs;
    size_t n_costs;
    /* Hugging Face folders, VC_TARGET_INT8 in the layout w8a8: columns of inputs that are larger than others are
     * divided by a power of two in the norm or the weight before, and the weights that read them multiplied: 0 off,
     * above 0 to 1 how much of the spread goes into the weights (SmoothQuant's alpha, 0.5). Needs `calibration`.
     * Weights that a rule excludes are multiplied, too, and stay floats. */
    double smooth;
    /* NF4 and FP4 in the layout bitsandbytes: scales are codes of a byte, with an f32 scale for 256 of them.
     * vc_job_plan reads all weights. */
    bool double_quant;
    /* Types by name: passes of one job, each for its tensors. Of tensors of two dimensions and more the pass works on those alone that
     * these rules include, even if `rules` would take others, or, if they include none, on those that they do not exclude.
     * One that is included is worked on whatever its name and size say; a table is not. Copied. */
    const struct vc_rule *only;
    size_t n_only;
};

/* int8, per output channel, symmetric, the default skips, everything else off. */
static inline void vc_quantize_defaults(struct vc_quantize_options *options)
{
    vc_options_defaults("vc_quantize_options", options, sizeof *options);
}

VC_API enum vc_status vc_job_add_quantize(struct vc_ctx *ctx, struct vc_job *job,
                                          const struct vc_quantize_options *options);

/* What became of a file. A program allocates this structure, so it does not grow: a job has all figures. */
struct vc_quantized {
    uint64_t bytes_before, bytes_after; /* of the files */
    double sqnr_db;                     /* over all changed tensors; INFINITY: no value changed */
    size_t n_tensors, n_changed;        /* scales and zero points count with their tensor */
};

/* All of a job in one call, for programs that want no more: the model at the path `in`, a file or a folder, becomes `out`, in
 * the format of the name, or of the input. options NULL: the defaults. result may be NULL. An `out` that exists is refused
 * and stays, as with vc_write_options.force false. First version: 0.1. */
VC_API enum vc_status vc_quantize_file(struct vc_ctx *ctx, const char *in, const char *out,
                                       const struct vc_quantize_options *options, struct vc_quantized *result);

/* A scheme that quantize makes, and which options mean something for it. */
struct vc_quantize_scheme {
    const char *name;   /* "int4", "fp16"; static */
    const char *option; /* of the command, "--int4", "--scheme ternary"; static */
    enum vc_target target;
    bool scales;      /* granularity and layout */
    bool zero_points; /* asymmetric */
    bool axes;        /* axis */
};

/* Scheme number `index`, without GGUF's block types. Returns false after the last scheme. */
VC_API bool vc_quantize_scheme_at(size_t index, struct vc_quantize_scheme *out);

struct vc_dequantize_options {
    size_t struct_size;    /* set by vc_dequantize_defaults */
    enum vc_target target; /* F32, F16 or BF16 */
    bool source_dtype;     /* each tensor gets its type before quantization; target is ignored */
    bool casts;            /* convert f16 and bf16 tensors to the target, too */
    enum vc_overflow overflow;
    const struct vc_rule *rules;
    size_t n_rules;
    /* For the report: why tensors stay that a rule excludes, a few words. Must outlive the job. NULL: the report names
     * the rule. */
    const char *excluded_as;
};

/* To f32, everything else off. */
static inline void vc_dequantize_defaults(struct vc_dequantize_options *options)
{
    vc_options_defaults("vc_dequantize_options", options, sizeof *options);
}

VC_API enum vc_status vc_job_add_dequantize(struct vc_ctx *ctx, struct vc_job *job,
                                            const struct vc_dequantize_options *options);

/* Reads one whole tensor as f32; quantized values are decoded. dst holds n_elems floats; n_elems must be the tensor's
 * number of elements. */
VC_API enum vc_status vc_tensor_read_f32(struct vc_ctx *ctx, const struct vc_model *model, size_t index, float *dst,
                                         size_t n_elems);

VC_END_C
#endif
