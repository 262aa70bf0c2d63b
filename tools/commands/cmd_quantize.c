/* cmd_quantize.c - vcompress quantize: options in, a job out. The library does the work (vc_job_add_quantize);
 * convert.c has what all commands that write a model share.
 *
 * quantize is a pass (pass_quantize): the command runs it alone, a recipe among others. A new scheme is a row of the
 * library's table (vc_quantize_scheme_at) and appears here by itself; one with an option of its own also gets a row in
 * target_opts. */
#include <stdlib.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/commands/quantize_types.h"
#include "tools/convert/passes.h"
#include "tools/options/distill_words.h"
#include "tools/options/library_names.h"

/* The options of the command. Types of single tensors (--type) are passes of their own. */
struct quantize_cli {
    struct convert_options convert;      /* first: the shared options */
    struct vc_quantize_options quantize; /* what the pass gets */
    const char *calibration;             /* --calibration */
    const char *scheme;                  /* --scheme: its name without the granularity */
    struct vc_model *statistics;         /* ... opened */
    const char *sensitivity;             /* --sensitivity */
    struct vc_sensitivity_costs *costs;  /* ... read; NULL until the first input */
    struct named_types types;            /* --type */
    const char *type_file;               /* --type-file */
};

/* "tensor", "channel", "group:128" or "block:128". A number of 0 is refused; whether the scheme has that granularity is
 * the library's question. */
static bool take_granularity(void *group, const char *value)
{
    struct vc_quantize_options *quantize = &((struct quantize_cli *)group)->quantize;

    quantize->granularity_given = true;
    if (strcmp(value, "tensor") == 0) {
        quantize->granularity = VC_GRANULARITY_TENSOR;
    } else if (strcmp(value, "channel") == 0) {
        quantize->granularity = VC_GRANULARITY_CHANNEL;
    } else {
        bool block = strncmp(value, "block:", 6) == 0;

        quantize->granularity = block ? VC_GRANULARITY_BLOCK : VC_GRANULARITY_GROUP;
        return (block || strncmp(value, "group:", 6) == 0) && options_count(value + 6, &quantize->group_size) &&
               quantize->group_size > 0;
    }
    return true;
}

/* "min-max", "error", "entropy" or "percentile:99.99". */
static bool take_ranges(void *group, const char *value)
{
    struct vc_quantize_options *quantize = &((struct quantize_cli *)group)->quantize;

    if (strncmp(value, "percentile:", 11) == 0) {
        quantize->ranges = VC_RANGES_PERCENTILE;
        return options_real(value + 11, &quantize->percentile);
    }
    if (strcmp(value, "error") == 0) {
        quantize->ranges = VC_RANGES_ERROR;
        return true;
    }
    if (strcmp(value, "entropy") == 0) {
        quantize->ranges = VC_RANGES_ENTROPY;
        return true;
    }
    quantize->ranges = VC_RANGES_WHOLE;
    return strcmp(value, "min-max") == 0;
}

/* --scheme "ternary" or "int3/group:64", in any spelling of scheme_spelling.h. own->scheme is the name, for the
 * output's default name. */
static bool take_scheme(void *group, const char *value)
{
    struct quantize_cli *own = group;

    own->scheme = scheme_word(value, &own->quantize);
    return own->scheme != NULL;
}

/* "lm_head*=int8" */
static bool take_type(void *group, const char *value)
{
    return named_types_add(&((struct quantize_cli *)group)->types, value);
}

/* --aim-loss "1%" or "0.01". Above 0 and below 1. */
static bool take_loss(void *group, const char *value)
{
    double *loss = &((struct quantize_cli *)group)->quantize.aim_loss;
    char *end;

    *loss = strtod(value, &end);
    *loss = end[0] == '%' ? *loss / 100.0 : *loss;
    return end != value && strcmp(end, end[0] == '%' ? "%" : "") == 0 && *loss > 0.0 && *loss < 1.0;
}

/* Number `index` of the schemes that have no option of their own, for the help of --scheme; NULL behind the last. */
static const char *other_scheme(size_t index)
{
    struct vc_quantize_scheme scheme;

    for (size_t i = 0; vc_quantize_scheme_at(i, &scheme); i++) {
        if (strncmp(scheme.option, "--scheme ", 9) == 0 && index-- == 0) {
            return scheme.name;
        }
    }
    return NULL;
}

/* A row that fills a member of the library's structure; and what all targets have in common: one of them per
 * command. */
#define QUANTIZE(member) OPT_FIELD(struct quantize_cli, quantize.member)
#define TARGET           .kind = OPT_ENUM, .one_of = true, .field = offsetof(struct quantize_cli, quantize.target)

/* What weights become: a fixed scheme, a mixture of GGUF's types, or schemes chosen for an aim. */
/* clang-format off */
static const struct opt target_opts[] = {
    /* codes with scales: ints, then floats */
    {.name = "int8", TARGET, .set = VC_TARGET_INT8, .option = "target=int8",
     .help = "codes of 8 bits and f32 scales: a quarter of f32; in GGUF files Q8_0 blocks"},
    {.name = "int4", TARGET, .set = VC_TARGET_INT4, .option = "target=int4",
     .help = "codes of 4 bits and a scale per 128 of them: an eighth of f32; the scales are searched for the least error"},
    {.name = "int3", TARGET, .set = VC_TARGET_INT3, .option = "target=int3", .help = "the same with codes of 3 bits: a tenth of f32"},
    {.name = "int2", TARGET, .set = VC_TARGET_INT2, .option = "target=int2",
     .help = "the same with codes of 2 bits: a fifteenth of f32"},
    {.name = "fp8", TARGET, .set = VC_TARGET_FP8, .option = "target=fp8",
     .help = "floats of 8 bits (E4M3) and a scale per row: a quarter of f32"},
    {.name = "nvfp4", TARGET, .set = VC_TARGET_NVFP4, .option = "target=nvfp4",
     .help = "floats of 4 bits (E2M1), an E4M3 scale per 16 and a scale per tensor, the same for layers that runtimes "
             "join: a seventh of f32; reads all weights first, also with --dry-run"},
    {.name = "nf4", TARGET, .set = VC_TARGET_NF4, .option = "target=nf4",
     .help = "the 16 values of QLoRA's NF4 and a scale per 64: a seventh of f32; in folders of transformers for bitsandbytes"},
    {.name = "fp4", TARGET, .set = VC_TARGET_FP4, .option = "target=fp4", .help = "the same with bitsandbytes' FP4"},
    {.name = "mxfp4", TARGET, .set = VC_TARGET_MXFP4, .option = "target=mxfp4",
     .help = "floats of 4 bits (E2M1) and a power of two per 32: less than a seventh of f32"},
    {.name = "mxfp8", TARGET, .set = VC_TARGET_MXFP8, .option = "target=mxfp8",
     .help = "floats of 8 bits (E4M3) and a power of two per 32"},
    /* casts */
    {.name = "fp16", TARGET, .set = VC_TARGET_F16, .option = "target=f16",
     .help = "IEEE half precision: half of f32, values up to 65504"},
    {.name = "bf16", TARGET, .set = VC_TARGET_BF16, .option = "target=bf16",
     .help = "bfloat16: half of f32, the range of f32, 8 bits of precision"},
    /* everything else, by name */
    {.name = "scheme", .value = "NAME", .kind = OPT_CALL, .one_of = true, .call = take_scheme, .option = "target",
     .wanted = "a scheme, such as ternary or int6/group:64",
     .listed = other_scheme,
     .help = "a scheme by its name, perhaps with its granularity, int3/group:64: those above, %s (ternary: codes -1, 0 and 1 in 2 bits; f8_e4m3, f8_e5m2: floats of 8 bits without scales, as single files of pictures have them)"},
    {.name = "gguf", .value = "TYPE", .kind = OPT_TEXT, .one_of = true, QUANTIZE(gguf), .listed = mixture_name,
     .help = "GGUF's block types, chosen for each tensor as llama-quantize does, such as Q4_K_M or Q8_0; the output is a GGUF file; "
             "all: %s"},
    /* a scheme for each tensor, chosen by an aim */
    {.name = "aim-sqnr", .value = "DB", .kind = OPT_REAL, .one_of = true, QUANTIZE(aim_sqnr_db),
     .help = "for every tensor the smallest of int2 to int6, int8 (a scale per tensor, channel or group), fp16 and bf16 with this "
             "SQNR, else unchanged; reads all weights first, also with --dry-run"},
    {.name = "aim-bytes", .value = "SIZE", .kind = OPT_SIZE, .one_of = true, QUANTIZE(aim_bytes),
     .help = "the same types for every tensor, chosen for the least sum of squared errors in a file of at most SIZE; "
             "exit 1 if no choice is small enough"},
    {.name = "aim-bpw", .value = "BITS", .kind = OPT_ABOVE_0, .one_of = true, QUANTIZE(aim_bpw),
     .help = "the same for a file of at most BITS bits for each weight, whatever it has beside them: 4.5"},
    {.name = "aim-loss", .value = "X%", .kind = OPT_CALL, .one_of = true, .call = take_loss, .option = "aim_loss",
     .wanted = "a share of the outputs, such as 1%",
     .help = "the smallest file whose tensors, each by itself, change the outputs by less than X% together (root of the sum of "
             "squares), by the figures of --sensitivity; measure the file with vcompress evaluate"},
};

/* How codes are made: which tensors get another scheme, granularity, zero points, layout, statistics of inputs, what
 * stays. */
static const struct opt scheme_opts[] = {
    /* which scheme a tensor gets, by its name */
    {.name = "type", .value = "GLOB=SCHEME", .kind = OPT_CALL, .call = take_type, .option = "only",
     .wanted = "a glob, = and a scheme, such as 'lm_head*=int8' (64 at most)",
     .conflicts = "smooth activations=static", .help = "another scheme for the tensors whose names match: one of --scheme, with --gguf a block type (q6_k), or keep; "
             "repeatable, the first match wins; --granularity, --asymmetric and --rest are for the others"},
    {.name = "type-file", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, OPT_FIELD(struct quantize_cli, type_file),
     .conflicts = "smooth activations=static", .help = "the same from the lines of a file, behind those of --type"},
    /* where scales are */
    {.name = "granularity", .value = "tensor|channel|group:N|block:N", .kind = OPT_CALL, .call = take_granularity, .option = "granularity",
     .conflicts = "aim-sqnr aim-bytes aim-bpw aim-loss", .help = "of codes: one scale per tensor (int8 only), per index of the axis, or per N elements of an index, or of fp8 per "
             "block of N rows and N columns (default channel; int2 to int6 and ternary group:128, nf4 and fp4 group:64; GGUF has "
             "group:32 only)"},
    {.name = "axis", .value = "N", .kind = OPT_INT, QUANTIZE(axis),
     .help = "int8: the axis of the channels, negative from the end (default: the output channels: the last axis of "
             "kernels of Flax and Keras, axis 0 if neither format nor name is known)"},
    /* what codes and scales are */
    {.name = "symmetric", .kind = OPT_BOOL, .set = 0, .field = offsetof(struct quantize_cli, quantize.asymmetric),
     .help = "codes around zero, without zero points (default)"},
    {.name = "asymmetric", .kind = OPT_BOOL, .set = 1, QUANTIZE(asymmetric),
     .help = "int8 and int2 to int6: codes with a zero point per scale; of layouts for loaders compressed-tensors, gptq and awq take them"},
    {.name = "double-quant", .kind = OPT_BOOL, .set = 1, QUANTIZE(double_quant),
     .help = "nf4, fp4 for bitsandbytes: scales become codes of a byte, with a scale for 256 of them; codes of weights are chosen "
             "with the scales that these stand for; with --granularity group:32 the least error at 4.25 bits; reads all weights first"},
    /* how they lie in the file */
    {.name = "layout", .value = "auto", .more = layout_name, .kind = OPT_WORD,
     OPT_FIELD(struct quantize_cli, convert.write.layout),
     .help = "codes in safetensors: the programs that load the output. plain: codes and scales for everything; "
             "compressed-tensors (transformers, vLLM; not nf4, fp4), w8a8 (the same, int8: the inputs of layers get codes, too), "
             "bitsandbytes (int8, nf4, fp4), fp8 (fp8 block:128), gptq (int2, int3, int4, int8), awq (int4) and mlx (int2 to int8, mxfp4, mxfp8; mlx-lm): "
             "linear layers only, under their names; comfyui (fp8, int8, nvfp4, mxfp8): single files of networks for pictures. In ONNX, int4 in MatMulNBits nodes (onnx), or in DequantizeLinear alone "
             "(onnx-qdq) (default auto: the layout for the program that loads the input, or a refusal)"},
    /* GGUF's blocks */
    {.name = "encoder", OPT_WORDS({"best", VC_ENCODER_BEST}, {"llama", VC_ENCODER_LLAMA}), QUANTIZE(encoder),
     .needs = "gguf", .help = "best has the lowest error that the search finds, llama the bytes that llama-quantize writes (default best)"},
    {.name = "pure", .kind = OPT_BOOL, .set = 1, QUANTIZE(pure),
     .needs = "gguf", .help = "TYPE's base type for every tensor that gets blocks, without the mixture's exceptions"},
    /* statistics of what the layers get to see (vcompress calibrate) */
    {.name = "calibration", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, OPT_FIELD(struct quantize_cli, calibration),
     .help = "--gguf, codes of 2 to 6 bits and of floats, and --activations: what the layers get to see, a file of vcompress calibrate or "
             "llama-imatrix; errors are weighed by it; not with --gguf, biases take the mean of what rounding loses, and with second moments rounding "
             "makes up for its errors"},
    {.name = "calibration-anyway", .kind = OPT_BOOL, .set = 1, QUANTIZE(calibration_anyway),
     .help = "also statistics that were measured with weights of another training"},
    /* codes of inputs and outputs of layers */
    {.name = "activations", OPT_WORDS({"none", VC_ACTIVATIONS_NONE}, {"static", VC_ACTIVATIONS_STATIC}), QUANTIZE(activations),
     .help = "ONNX, --int8: static also makes codes (u8) of what Conv, Gemm and MatMul read and make, by the ranges in --calibration, "
             "so that onnxruntime computes with codes; weights of all of these are quantized, of any size. Folders (--int8 --layout w8a8, "
             "--fp8): static writes one scale for the inputs of each layer, by the ranges in --calibration, in place of a scale for each row "
             "that the loader finds (default none)"},
    {.name = "ranges", .value = "min-max|error|entropy|percentile:P", .kind = OPT_CALL, .call = take_ranges, .option = "ranges",
     .needs = "activations=static", .help = "in ONNX files, the range of a value's codes: all that was seen, the part with the least squared error, that whose "
             "histogram 128 levels keep best (as TensorRT), or that of P % of its elements, such as 99.99 (default min-max)"},
    {.name = "saturation", OPT_WORDS({"auto", VC_SATURATION_AUTO}, {"off", VC_SATURATION_OFF}, {"all", VC_SATURATION_ALL}), QUANTIZE(saturation),
     .needs = "activations=static", .help = "in ONNX files, smaller codes, down to 7 bits, for layers with which processors without VNNI overflow 16 bits: "
             "those that do so for the calibration's rows, none, or all (default auto)"},
    {.name = "smooth", .value = "ALPHA", .kind = OPT_ABOVE_0, QUANTIZE(smooth),
     .help = "folders, --int8 --layout w8a8: columns of inputs that are larger than others are divided by powers of two in the norm or the "
             "weight before, by --calibration; ALPHA, above 0 to 1, is how much of their spread goes into the weights, mostly 0.5; "
             "tensors that --exclude names stay floats and are changed, too"},
    /* what schemes cost, measured (vcompress sensitivity) */
    {.name = "sensitivity", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, OPT_FIELD(struct quantize_cli, sensitivity),
     .needs = "aim-bytes aim-bpw aim-loss", .help = "choose by what each scheme does to the outputs, from the --json of "
             "vcompress sensitivity --data; a note says where they are of other weights"},
    /* tensors that get no codes */
    {.name = "rest", .value = "keep|fp16|bf16", .kind = OPT_WORD, QUANTIZE(rest),
     .conflicts = "gguf", .help = "also cast the other f32 and f64 tensors, such as embeddings, norms and biases, except tensors that "
             "--exclude names and tensors that GGUF's loaders need in f32 (default keep)"},
    {.name = "min-elements", .value = "N", .kind = OPT_COUNT, QUANTIZE(min_elems),
     .conflicts = "gguf", .help = "keep tensors with fewer elements (default 4096)"},
    {.name = "min-row", .value = "N", .kind = OPT_COUNT, QUANTIZE(min_row),
     .conflicts = "gguf", .help = "keep tensors with fewer elements per index of the axis (default 32)"},
    /* values that have no code */
    {.name = "nonfinite", OPT_WORDS({"error", VC_NONFINITE_ERROR}, {"keep", VC_NONFINITE_KEEP}, {"zero", VC_NONFINITE_ZERO}), QUANTIZE(nonfinite),
     .help = "NaN and Inf in the source: fail, copy this tensor, or replace the values (default error)"},
    {.name = "overflow", OPT_WORDS({"error", VC_OVERFLOW_ERROR}, {"inf", VC_OVERFLOW_INF}, {"sat", VC_OVERFLOW_SATURATE}), QUANTIZE(overflow),
     .conflicts = "gguf", .help = "fp16, bf16, f8_e4m3, f8_e5m2, --rest: values beyond the range: fail, Inf, or the largest finite value (default error)"},
    {.name = "requantize", .kind = OPT_BOOL, .set = 1, QUANTIZE(requantize),
     .help = "accept input that is quantized already"},
};
/* clang-format on */

static const struct opt_group group_target = OPT_GROUP("Target (exactly one)", target_opts);
static const struct opt_group group_scheme = OPT_GROUP("Scheme", scheme_opts);
static const struct opt_group *const groups[] = {
    &group_target, &group_scheme, &group_select, &group_write,   &group_write_graph, &group_write_values, &group_gates,
    &group_known,  &group_run,    &group_json,   &group_comment, &group_report,      &group_help,
};

/* The option of the target on the command line; NULL if there is none. Two of them are refused by the parser (one_of). */
static const struct opt *target_given(const struct app *app)
{
    for (size_t i = 0; i < group_target.n_opts; i++) {
        if (options_seen(&app->parsed, target_opts[i].name)) {
            return &target_opts[i];
        }
    }
    return NULL;
}

/* "--int8, --int4, ... or --aim-loss", for the sentence about a missing target. Returns `all`. */
static const char *list_targets(char *all, size_t room)
{
    size_t n = 0;

    for (size_t i = 0; i < group_target.n_opts && n < room; i++) {
        const char *join = i == 0 ? "" : i + 1 < group_target.n_opts ? ", " : " or ";

        n += (size_t)snprintf(all + n, room - n, "%s--%s", join, target_opts[i].name);
    }
    return all;
}

/* Options that mean something for some schemes only, by the library's table. */
enum scheme_fact { OF_SCALES, OF_AXES, OF_ZERO_POINTS };

/* Whether the scheme has scales, axes or zero points. */
static bool has_fact(const struct vc_quantize_scheme *scheme, enum scheme_fact fact)
{
    return fact == OF_SCALES ? scheme->scales : fact == OF_AXES ? scheme->axes : scheme->zero_points;
}

/* Whether the target stores codes with scales. False for fp16 and bf16, and for an aim, whose caller knows better. */
static bool makes_codes(const struct vc_quantize_options *options)
{
    struct vc_quantize_scheme scheme;

    for (size_t i = 0; vc_quantize_scheme_at(i, &scheme); i++) {
        if (scheme.target == options->target) {
            return scheme.scales;
        }
    }
    return false;
}

/* "--axis works with --int8 only": all schemes of the library's table for which the option means something. */
static int refuse_option(struct app *app, const char *name, enum scheme_fact fact)
{
    struct vc_quantize_scheme scheme;
    char all[512] = "";
    size_t n = 0;

    for (size_t i = 0; vc_quantize_scheme_at(i, &scheme); i++) {
        if (has_fact(&scheme, fact) && n < sizeof(all)) {
            n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", n == 0 ? "" : ", ", scheme.option);
        }
    }
    return app_usage(app, "--%s works with %s only", name, all);
}

/* --scheme int3/group:64 was given: a granularity in the scheme's name. */
static bool scheme_says_granularity(const struct app *app)
{
    for (size_t i = 0; i < app->parsed.n_given && i < PARSE_MAX_GIVEN; i++) {
        const struct given *given = &app->parsed.given[i];

        if (strcmp(given->opt->name, "scheme") == 0 && strchr(given->value, '/') != NULL) {
            return true;
        }
    }
    return false;
}

/* Refuses what says nothing: a script that gives an option expects something of it. GO_ON or a status. codes_only:
 * options about codes, and what a scheme needs to have for each. A new one is a row. */
static int check_target(struct app *app, const struct vc_quantize_options *options)
{
    static const struct {
        const char *name;
        enum scheme_fact fact;
    } codes_only[] = {{"granularity", OF_SCALES},
                      {"layout", OF_SCALES},
                      {"axis", OF_AXES},
                      {"symmetric", OF_ZERO_POINTS},
                      {"asymmetric", OF_ZERO_POINTS}};
    static const size_t n_codes_only = sizeof(codes_only) / sizeof(codes_only[0]);
    bool aim = options->target == VC_TARGET_CHOSEN;
    bool codes = makes_codes(options) || aim;
    bool rest = options->rest != NULL && strcmp(options->rest, "keep") != 0;

    if (target_given(app) == NULL) {
        char all[256];

        return app_usage(app, "no target given: choose %s", list_targets(all, sizeof(all)));
    }
    for (size_t i = 0; !codes && i < n_codes_only; i++) {
        if (options_seen(&app->parsed, codes_only[i].name)) {
            return refuse_option(app, codes_only[i].name, codes_only[i].fact);
        }
    }
    if (options_seen(&app->parsed, "granularity") && scheme_says_granularity(app)) {
        return app_usage(app, "--granularity conflicts with the granularity in --scheme: choose one");
    }
    if (options_seen(&app->parsed, "aim-sqnr") && !(options->aim_sqnr_db > 0.0)) {
        return app_usage(app, "--aim-sqnr: a number of dB above 0");
    }
    if (options_seen(&app->parsed, "aim-bytes") && options->aim_bytes == 0) {
        return app_usage(app, "--aim-bytes: a file has more than 0 bytes");
    }
    if (options_seen(&app->parsed, "aim-loss") && !options_seen(&app->parsed, "sensitivity")) {
        return app_usage(app, "--aim-loss needs what schemes cost: --sensitivity FILE");
    }
    if (options_seen(&app->parsed, "axis") && options->axis == VC_AXIS_OUTPUT) {
        return app_usage(app, "--axis: no tensor has an axis %d", options->axis);
    }
    if (codes && !rest && options_seen(&app->parsed, "overflow")) {
        return app_usage(
            app, "--overflow works with --fp16, --bf16, --scheme f8_e4m3, f8_e5m2 and --rest only: scales of codes "
                 "fit every finite value");
    }
    return GO_ON;
}

/* pass_row.begin */
static void begin(void *cli)
{
    vc_quantize_defaults(&((struct quantize_cli *)cli)->quantize);
}

/* pass_row.ready: the target, the checks, the files of --type-file, and what the output is called:
 *
 *     --int8            model.int8.npz        the option's name
 *     --scheme ternary  model.ternary.npz     the scheme's name
 *     --gguf Q4_K_M     model.Q4_K_M.gguf     GGUF's type
 *     --aim-sqnr 40     model.aim.npz */
static int ready(struct app *app, void *cli, struct conversion *what)
{
    struct quantize_cli *own = cli;
    const struct opt *target = target_given(app);
    bool aim = target != NULL && strncmp(target->name, "aim-", 4) == 0;

    own->quantize.target = aim ? VC_TARGET_CHOSEN : own->quantize.gguf != NULL ? VC_TARGET_GGUF : own->quantize.target;
    own->quantize.rules = own->convert.rules;
    own->quantize.n_rules = own->convert.n_rules;
    int rc = check_target(app, &own->quantize);
    if (rc == GO_ON && own->type_file != NULL) {
        rc = named_types_read(app, &own->types, own->type_file);
        own->type_file = NULL; /* its lines are there now */
    }
    if (rc == GO_ON) {
        rc = named_types_check(app, &own->types, &own->quantize);
    }
    if (rc == GO_ON) {
        if (aim) {
            what->tag = "aim";
        } else if (own->quantize.gguf != NULL) {
            what->tag = own->quantize.gguf;
        } else if (own->scheme != NULL) {
            what->tag = own->scheme;
        } else {
            what->tag = target_given(app)->name;
        }
        what->more_tensors = aim || makes_codes(&own->quantize) || named_types_make_codes(&own->types, &own->quantize);
        what->gguf = own->quantize.gguf != NULL;
        what->requantizes = own->quantize.requantize;
        what->onnx_rows = own->quantize.target == VC_TARGET_INT4;
    }
    return rc;
}

/* pass_row.add: opens statistics and costs for the first input; they serve all. Adds a pass for each --type, then the
 * command's own. */
static enum vc_status add(struct vc_ctx *ctx, struct vc_job *job, const struct vc_model *model, void *cli)
{
    struct quantize_cli *own = cli;
    enum vc_status status = VC_OK;

    if (own->calibration != NULL && own->statistics == NULL) {
        status = vc_model_open(ctx, own->calibration, NULL, &own->statistics);
    }
    own->quantize.calibration = own->statistics;
    if (status == VC_OK && own->sensitivity != NULL && own->costs == NULL) {
        status = vc_sensitivity_costs_read(ctx, own->sensitivity, &own->costs);
    }
    if (own->costs != NULL) {
        own->quantize.costs = own->costs->costs;
        own->quantize.n_costs = own->costs->n;
    }
    return status == VC_OK ? named_types_add_passes(ctx, job, &own->types, &own->quantize) : status;
}

/* pass_row.end */
static void end(void *cli)
{
    named_types_free(&((struct quantize_cli *)cli)->types);
    vc_model_close(((struct quantize_cli *)cli)->statistics);
    vc_result_free(((struct quantize_cli *)cli)->costs);
}

const struct pass_row pass_quantize = {.command = &command_quantize,
                                       .size = sizeof(struct quantize_cli),
                                       .begin = begin,
                                       .ready = ready,
                                       .add = add,
                                       .end = end};

static int run_quantize(struct app *app, int n_args, char **args)
{
    return pass_run(app, &pass_quantize, n_args, args);
}

const struct command command_quantize = {
    .name = "quantize",
    .usage = "(--int8 | --int4 | --fp8 | --nvfp4 | --nf4 | ... | --fp16 | --bf16 | --gguf TYPE | --aim-sqnr DB | "
             "--aim-bytes SIZE | ...) "
             "[options] INPUT... [-o OUTPUT | -d DIR]",
    .summary = "store weights in fewer bits",
    .text = "Writes a checkpoint of the same kind with smaller weights and reports, per tensor, sizes and error. "
            "Small, one-dimensional and integer tensors are copied bit for bit, with the reason in the report. "
            "Existing files are replaced only with --force; --dry-run shows the report without writing. Each of "
            "several inputs gets its own output; a failed input does not stop the others, and the exit status is the "
            "highest status.\n"
            "  vcompress quantize --int8 model.npz -o small.npz\n"
            "  vcompress quantize --int8 --exclude 'lm_head*' --min-sqnr 35 model.npz\n"
            "  vcompress quantize --int8 *.safetensors -d small\n"
            "  vcompress quantize --int8 --rest fp16 pipeline/\n"
            "  vcompress quantize --gguf Q4_K_M model-f16.gguf -o model-q4_k_m.gguf\n"
            "  vcompress quantize --gguf Q4_K_M qwen3/ -o qwen3-q4_k_m.gguf",
    .first = "int8 int4 nf4 fp16 gguf exclude output dry-run min-sqnr json",
    OPT_GROUPS(groups),
    .args = "FILE",
    .schema = "vcompress.report/1",
    .run = run_quantize,
};
