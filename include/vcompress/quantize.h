/* quantize.h - fewer bits per weight, and back. Definitions: docs/numerics.md.
 *
 * A pass belongs to its job from vc_job_add_... on. The options are copied with their rules and globs, so they need not
 * outlive the call; NULL means the defaults. The numbers of all enums here are stable. */
#ifndef VCOMPRESS_QUANTIZE_H
#define VCOMPRESS_QUANTIZE_H

#include <vcompress/job.h>

#ifdef __cplusplus
extern "C" {
#endif

enum vc_nonfinite {
    VC_NONFINITE_ERROR = 0, /* stop; name the tensor, the count and the first index */
    VC_NONFINITE_KEEP = 1,  /* keep that tensor as it is (reads all weights once more, before the run) */
    VC_NONFINITE_ZERO = 2   /* NaN becomes 0, +-Inf the largest finite magnitude (of its scale group; of the target
                               type) */
};

enum vc_overflow {
    VC_OVERFLOW_ERROR = 0,   /* a finite value beyond the largest of the target type stops the run */
    VC_OVERFLOW_INF = 1,     /* IEEE: becomes +-Inf */
    VC_OVERFLOW_SATURATE = 2 /* becomes the largest finite value */
};

enum vc_target {
    VC_TARGET_INT8 = 0, /* codes i8 in [-127, 127] and scales (asymmetric: [-128, 127] and i8 zero points); which
                         * tensors and what scales depend on vc_write_options.layout, too */
    VC_TARGET_F16 = 1,
    VC_TARGET_BF16 = 2,
    VC_TARGET_F32 = 3,   /* dequantize only */
    VC_TARGET_CHOSEN = 4 /* quantize only: for each tensor what the aim asks for */
};

/* One entry of the selection; the last rule whose glob matches a tensor's name decides. `*` matches any run of
 * characters, `?` one, `[a-z]` a set. */
struct vc_rule {
    const char *glob;
    bool include; /* false: keep the tensor. true: work on it although a default rule would skip it */
};

#define VC_DEFAULT_MIN_ELEMS 4096
#define VC_DEFAULT_MIN_ROW   32
#define VC_AXIS_OUTPUT       (-1000) /* the output channels where the format (ONNX) or the name tells, else axis 0 */

struct vc_quantize_options {
    size_t struct_size; /* set by vc_quantize_defaults */
    enum vc_target target;
    enum vc_granularity granularity;
    bool granularity_given; /* it was asked for: an output whose layout has another one is refused, instead of taking
                               that for granted (GGUF: groups of 32) */
    int axis;               /* channel axis; negative counts from the end; default VC_AXIS_OUTPUT */
    uint64_t group_size;    /* VC_GRANULARITY_GROUP */
    bool asymmetric;
    enum vc_nonfinite nonfinite;
    enum vc_overflow overflow; /* casts */
    const struct vc_rule *rules;
    size_t n_rules;
    uint64_t min_elems; /* tensors with fewer elements are kept */
    uint64_t min_row;   /* ... and those whose rows (one index of the channel axis, the rest flattened) are shorter */
    bool requantize;    /* accept input that is quantized already: it is dequantized first */
    const char *rest; /* what becomes of f32 and f64 tensors that are not worked on and not excluded by a rule: "fp16",
                         "bf16"; NULL or "keep": nothing. Tensors that a format's loaders want in f32 (norms in GGUF)
                         stay */
    /* Aims, with VC_TARGET_CHOSEN; one of them. All weights are read once or twice while the job is planned. Tried are
     * int8 with a scale per tensor, per channel and per group of 128, 64 and 32 (in GGUF Q8_0), f16 and bf16, as far
     * as the output's layout has a place for them; docs/numerics.md has the rules. */
    double aim_sqnr_db; /* every tensor gets the smallest that has this SQNR, or stays as it is; 0: no such aim */
    uint64_t aim_bytes; /* the choice with the least sum of squared errors in one output of at most that size; 0: no
                           such aim. VC_E_GATE from vc_job_plan where even the smallest choice is larger */
};

VC_API void vc_quantize_defaults_sized(struct vc_quantize_options *options, size_t struct_size);

/* int8, per output channel, symmetric, the default skips, everything else off. */
static inline void vc_quantize_defaults(struct vc_quantize_options *options)
{
    vc_quantize_defaults_sized(options, sizeof *options);
}

VC_API enum vc_status vc_job_add_quantize(struct vc_ctx *ctx, struct vc_job *job,
                                          const struct vc_quantize_options *options);

struct vc_dequantize_options {
    size_t struct_size;    /* set by vc_dequantize_defaults */
    enum vc_target target; /* F32, F16 or BF16 */
    bool source_dtype;     /* back to the type each tensor had before (target is then ignored) */
    bool casts;            /* f16 and bf16 tensors become the target as well */
    enum vc_overflow overflow;
    const struct vc_rule *rules;
    size_t n_rules;
};

VC_API void vc_dequantize_defaults_sized(struct vc_dequantize_options *options, size_t struct_size);

/* To f32, everything else off. */
static inline void vc_dequantize_defaults(struct vc_dequantize_options *options)
{
    vc_dequantize_defaults_sized(options, sizeof *options);
}

VC_API enum vc_status vc_job_add_dequantize(struct vc_ctx *ctx, struct vc_job *job,
                                            const struct vc_dequantize_options *options);

/* Reads one tensor whole as f32, through its scales if it is quantized: the convenient way for small programs.
 * dst holds n_elems floats, exactly those of the tensor. */
VC_API enum vc_status vc_tensor_read_f32(struct vc_ctx *ctx, const struct vc_model *model, size_t index, float *dst,
                                         size_t n_elems);

#ifdef __cplusplus
}
#endif
#endif
