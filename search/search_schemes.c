/* search_schemes.c - see search_schemes.h. Errors: measured with this program on a matrix of 1024 x 2048 numbers of a normal
 * distribution (docs/memory-model.md). NVFP4 is missing: its scale of the tensor is found by reading all weights. */
#include "search/search_schemes.h"

#define LEAST_HARM_OF_REMOVAL 0.1

#define ROW(NAME, WHAT, FLAGS, TAG, DTYPE, TARGET, ERROR)                                                 \
    .name = (NAME), .what = (WHAT), .flags = (FLAGS), .tag = (TAG), .dtype = (DTYPE), .target = (TARGET), \
    .error = (ERROR)
#define INTEGERS(bits, error)                                                                                      \
    ROW("int" #bits, "int" #bits " weights", "--int" #bits, "int" #bits, "int" #bits "-g128", VC_TARGET_INT##bits, \
        error)
#define BY_NAME(bits, error)                                                                         \
    ROW("int" #bits, "int" #bits " weights", "--scheme int" #bits, "int" #bits, "int" #bits "-g128", \
        VC_TARGET_INT##bits, error)
#define MIXTURE(type, small, error)                                                               \
    ROW(type, type " weights in llama.cpp", "--gguf " type, small, small, VC_TARGET_GGUF, error), \
        .gguf = type, .program = VC_RUN_BY_LLAMA_CPP

static const struct vc_search_scheme plain[] = {
    {ROW("fp16", "fp16 weights", "--fp16", "fp16", "f16", VC_TARGET_F16, 0.0002), .program = VC_RUN_BY_PYTORCH},
    {ROW("int8", "int8 weights", "--int8", "int8", "int8", VC_TARGET_INT8, 0.0087), .program = VC_RUN_BY_PYTORCH,
     .after_pruning = true},
    {BY_NAME(6, 0.025), .program = VC_RUN_BY_PYTORCH},
    {BY_NAME(5, 0.05), .program = VC_RUN_BY_PYTORCH},
    {ROW("int4/group:32", "int4 weights in groups of 32", "--scheme int4/group:32", "int4-g32", "int4-g32",
         VC_TARGET_INT4, 0.081),
     .group = 32, .program = VC_RUN_BY_PYTORCH},
    {INTEGERS(4, 0.097), .program = VC_RUN_BY_PYTORCH, .after_pruning = true},
    {INTEGERS(3, 0.187), .program = VC_RUN_BY_PYTORCH},
    {INTEGERS(2, 0.363), .program = VC_RUN_BY_PYTORCH},
};
static const struct vc_search_scheme bf16 = {
    ROW("bf16", "bf16 weights", "--bf16", "bf16", "bf16", VC_TARGET_BF16, 0.0017), .program = VC_RUN_BY_PYTORCH};
static const struct vc_search_scheme bitsandbytes[] = {
    {ROW("int8 in bitsandbytes", "int8 weights in bitsandbytes", "--int8", "int8", "int8", VC_TARGET_INT8, 0.0087),
     .layout = "bitsandbytes", .program = VC_RUN_BY_BITSANDBYTES},
    {ROW("nf4 in bitsandbytes", "nf4 weights in bitsandbytes", "--nf4", "nf4", "nf4", VC_TARGET_NF4, 0.085),
     .layout = "bitsandbytes", .program = VC_RUN_BY_BITSANDBYTES},
};
static const struct vc_search_scheme float_codes[] = {
    {ROW("fp8", "fp8 weights", "--fp8", "fp8", "fp8-channel", VC_TARGET_FP8, 0.026), .program = VC_RUN_BY_PYTORCH},
    {ROW("mxfp4", "mxfp4 weights", "--mxfp4", "mxfp4", "mxfp4", VC_TARGET_MXFP4, 0.112), .program = VC_RUN_BY_PYTORCH},
};
static const struct vc_search_scheme gguf[] = {
    {MIXTURE("Q8_0", "q8_0", 0.005), .after_pruning = true},
    {MIXTURE("Q6_K", "q6_k", 0.017)},
    {MIXTURE("Q5_K_M", "q5_k_m", 0.034)},
    {MIXTURE("Q4_K_M", "q4_k_m", 0.07), .after_pruning = true},
    {MIXTURE("Q4_K_S", "q4_k_s", 0.075)},
    {MIXTURE("Q3_K_M", "q3_k_m", 0.145)},
    {MIXTURE("Q3_K_S", "q3_k_s", 0.16)},
    {MIXTURE("Q2_K", "q2_k", 0.26)},
};

const struct vc_search_scheme *vc_search_schemes(enum vc_search_kind kind, size_t *n)
{
    static const struct {
        const struct vc_search_scheme *rows;
        size_t n;
    } kinds[VC_SEARCH_KINDS] = {
        [VC_SEARCH_PLAIN] = {plain, sizeof plain / sizeof plain[0]},
        [VC_SEARCH_BITSANDBYTES] = {bitsandbytes, sizeof bitsandbytes / sizeof bitsandbytes[0]},
        [VC_SEARCH_FLOAT_CODES] = {float_codes, sizeof float_codes / sizeof float_codes[0]},
        [VC_SEARCH_GGUF] = {gguf, sizeof gguf / sizeof gguf[0]},
    };

    *n = kinds[kind].n;
    return kinds[kind].rows;
}

const struct vc_search_scheme *vc_search_bf16(void)
{
    return &bf16;
}

double vc_search_harm(double error, bool removes)
{
    return removes && error < LEAST_HARM_OF_REMOVAL ? LEAST_HARM_OF_REMOVAL : error;
}
