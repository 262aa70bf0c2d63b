/* search_schemes.c - see search_schemes.h. Errors: measured with this program on a matrix of 1024 x 2048 numbers of a normal
 * distribution (docs/memory-model.md); of mixtures on models, where their tensors have the shares that they were made for. */
#include "search/search_schemes.h"

#define LEAST_HARM_OF_REMOVAL 0.1

#define ROW(NAME, WHAT, FLAGS, TAG, DTYPE, TARGET, ERROR)                                                 \
    .name = (NAME), .what = (WHAT), .flags = (FLAGS), .tag = (TAG), .dtype = (DTYPE), .target = (TARGET), \
    .error = (ERROR)
#define PLAIN .kind = VC_SEARCH_PLAIN, .program = VC_RUN_BY_PYTORCH
#define INTEGERS(bits, flags, error)                                                                     \
    PLAIN, ROW("int" #bits, "int" #bits " weights", flags "int" #bits, "int" #bits, "int" #bits "-g128", \
               VC_TARGET_INT##bits, error)
#define BITSANDBYTES .kind = VC_SEARCH_BITSANDBYTES, .layout = "bitsandbytes", .program = VC_RUN_BY_BITSANDBYTES
#define FLOATS       .kind = VC_SEARCH_FLOAT_CODES, .program = VC_RUN_BY_PYTORCH
#define BLOCKS(type, small, error)                \
    .gguf = type, .program = VC_RUN_BY_LLAMA_CPP, \
    ROW(type, type " weights", "--gguf " type, small, small, VC_TARGET_GGUF, error)
#define MIXTURE(type, small, error) .kind = VC_SEARCH_GGUF, BLOCKS(type, small, error)

static const struct vc_search_scheme rows[] = {
    {PLAIN, ROW("fp16", "fp16 weights", "--fp16", "fp16", "f16", VC_TARGET_F16, 0.0002)},
    {PLAIN, ROW("int8", "int8 weights", "--int8", "int8", "int8", VC_TARGET_INT8, 0.0087), .after_pruning = true},
    {INTEGERS(6, "--scheme ", 0.025)},
    {INTEGERS(5, "--scheme ", 0.05)},
    {PLAIN,
     ROW("int4/group:32", "int4 weights in groups of 32", "--scheme int4/group:32", "int4-g32", "int4-g32",
         VC_TARGET_INT4, 0.081),
     .group = 32},
    {INTEGERS(4, "--", 0.097), .after_pruning = true},
    {INTEGERS(3, "--", 0.187)},
    {INTEGERS(2, "--", 0.363)},
    {BITSANDBYTES,
     ROW("int8 in bitsandbytes", "int8 weights in bitsandbytes", "--int8", "int8", "int8", VC_TARGET_INT8, 0.0087)},
    {BITSANDBYTES,
     ROW("nf4 in bitsandbytes", "nf4 weights in bitsandbytes", "--nf4", "nf4", "nf4", VC_TARGET_NF4, 0.085)},
    {FLOATS, ROW("fp8", "fp8 weights", "--fp8", "fp8", "fp8-channel", VC_TARGET_FP8, 0.026)},
    {FLOATS, ROW("nvfp4", "nvfp4 weights", "--nvfp4", "nvfp4", "nvfp4", VC_TARGET_NVFP4, 0.0813)},
    {FLOATS, ROW("mxfp4", "mxfp4 weights", "--mxfp4", "mxfp4", "mxfp4", VC_TARGET_MXFP4, 0.112)},
    {MIXTURE("Q8_0", "q8_0", 0.005), .after_pruning = true},
    {MIXTURE("Q6_K", "q6_k", 0.017)},
    {MIXTURE("Q5_K_M", "q5_k_m", 0.034)},
    {MIXTURE("Q5_K_S", "q5_k_s", 0.036)},
    {MIXTURE("Q4_K_M", "q4_k_m", 0.07), .after_pruning = true},
    {MIXTURE("Q4_K_S", "q4_k_s", 0.075)},
    {MIXTURE("IQ4_XS", "iq4_xs", 0.081)},
    {MIXTURE("Q3_K_L", "q3_k_l", 0.138)},
    {MIXTURE("Q3_K_M", "q3_k_m", 0.145)},
    {MIXTURE("Q3_K_S", "q3_k_s", 0.16)},
    {MIXTURE("Q2_K", "q2_k", 0.26)},
    {.kind = VC_SEARCH_GGUF_LEAST, BLOCKS("Q2_0", "q2_0", 0.351)},
    {.kind = VC_SEARCH_GGUF_LEAST, BLOCKS("TQ1_0", "tq1_0", 0.435)},
    {.kind = VC_SEARCH_GGUF_LEAST, BLOCKS("Q1_0", "q1_0", 0.601)},
};
static const struct vc_search_scheme bf16 = {
    PLAIN, ROW("bf16", "bf16 weights", "--bf16", "bf16", "bf16", VC_TARGET_BF16, 0.0017)};
#define N_ROWS (sizeof rows / sizeof rows[0])

/* Whether the program that was given loads such weights. */
static bool loads(enum vc_memory_program given, const struct vc_search_scheme *scheme)
{
    if (given == VC_RUN_BY_ANY) {
        return scheme->layout == NULL;
    }
    if (scheme->gguf != NULL) {
        return given == VC_RUN_BY_LLAMA_CPP;
    }
    return given != VC_RUN_BY_LLAMA_CPP && (scheme->layout == NULL) == (given != VC_RUN_BY_BITSANDBYTES);
}

const struct vc_search_scheme *vc_search_next(const struct vc_search_place *place, size_t *at)
{
    while (*at < N_ROWS) {
        const struct vc_search_scheme *scheme = &rows[(*at)++];

        if ((place->kinds & (unsigned)scheme->kind) != 0 && (!place->given || loads(place->program, scheme))) {
            return scheme;
        }
    }
    return NULL;
}

/* The first row with that target. */
static const struct vc_search_scheme *first_of(enum vc_target target)
{
    size_t k = 0;

    while (rows[k].target != target) {
        k++;
    }
    return &rows[k];
}

const struct vc_search_scheme *vc_search_half(bool is_bf16)
{
    return is_bf16 ? &bf16 : first_of(VC_TARGET_F16);
}

const struct vc_search_scheme *vc_search_eight(bool gguf)
{
    return first_of(gguf ? VC_TARGET_GGUF : VC_TARGET_INT8);
}

double vc_search_usual_error(const char *scheme)
{
    const struct vc_search_scheme *found = strcmp(scheme, bf16.tag) == 0 ? &bf16 : &rows[0];

    for (size_t k = N_ROWS; k-- > 0;) {
        found = strncmp(scheme, rows[k].tag, strlen(rows[k].tag)) == 0 ? &rows[k] : found;
    }
    return found->error;
}

void vc_search_set(const struct vc_search_scheme *scheme, const char *rest, struct vc_quantize_options *options)
{
    options->target = scheme->target;
    options->gguf = scheme->gguf;
    if (scheme->group != 0) {
        options->granularity_given = true;
        options->granularity = VC_GRANULARITY_GROUP;
        options->group_size = scheme->group;
    }
    if (scheme->gguf == NULL && rest != NULL) {
        options->rest = rest;
    }
}

void vc_search_add_pass(struct vc_text *text, const struct vc_search_scheme *scheme, const char *rest, bool layout)
{
    vc_text_add(text, "quantize %s", scheme->flags);
    if (layout && scheme->layout != NULL) {
        vc_text_add(text, " --layout %s", scheme->layout);
    }
    if (scheme->gguf == NULL && rest != NULL) {
        vc_text_add(text, " --rest %s", rest);
    }
}

double vc_search_harm(double error, bool removes)
{
    return removes && error < LEAST_HARM_OF_REMOVAL ? LEAST_HARM_OF_REMOVAL : error;
}
