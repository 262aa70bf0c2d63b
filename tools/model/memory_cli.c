/* memory_cli.c - the command line of estimate and fit: how a model is used, and what memory that takes. The library
 * counts (vc_memory_estimate); here are the options, the checks between them, and the tables for people.
 *
 * A reader starts at memory_cli_count, which goes through the stages: checks, the model and its graph, the program that
 * runs it, the sizes of the inputs, the teacher, the estimate. */
#include "tools/model/memory_cli.h"

#include <string.h>

#include "tools/options/recompute_word.h"
#include "tools/options/scheme_spelling.h"

/* The type of the library for a word of the command line: "fp16" and "f16" are one type, as are "int8" and "i8". False
 * for a word that names no type. */
static bool dtype_of(const char *word, enum vc_dtype *dtype)
{
    char name[16];

    if (strcmp(word, "int8") == 0) {
        word = "i8";
    }
    snprintf(name, sizeof name, "%s%s", strncmp(word, "fp", 2) == 0 ? "f" : "",
             strncmp(word, "fp", 2) == 0 ? word + 2 : word);
    *dtype = vc_dtype_from_name(name);
    return *dtype != VC_DTYPE_NONE;
}

/* A type that weights and gradients can have in memory. The 8-bit floats are schemes with scales, not types of this
 * kind. */
static bool is_float_type(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F32 || dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16 || dtype == VC_DTYPE_F64;
}

/* A type of floats, or the name of a scheme in any spelling: "int8", "nf4", "int4/group:128", "q4_k". The stages, of
 * which the first that succeeds decides:
 *
 *     f16, int8      a type of the library: memory.weights
 *     nf4            a name of an estimate's scheme, vc_weight_scheme_bytes knows it: cli->scheme
 *     half           another spelling of a type of floats: memory.weights
 *     INT4/group:128 another spelling of a scheme, "int4-g128" for estimates: cli->scheme
 *
 * The shape 1 x 1 is only there to ask whether a name is known; UINT64_MAX means that it is not. */
static bool take_dtype(void *group, const char *value)
{
    struct memory_cli *cli = group;
    const uint64_t one[] = {1, 1};
    char spelled[SCHEME_BYTES];

    cli->scheme[0] = '\0';
    cli->memory.weights = VC_DTYPE_NONE;
    if (dtype_of(value, &cli->memory.weights) &&
        (is_float_type(cli->memory.weights) || cli->memory.weights == VC_DTYPE_I8)) {
        return true;
    }
    cli->memory.weights = VC_DTYPE_NONE;
    snprintf(cli->scheme, sizeof cli->scheme, "%s", value);
    if (vc_weight_scheme_bytes(value, one, 2) != UINT64_MAX) {
        return true;
    }
    snprintf(cli->scheme, sizeof cli->scheme, "%s", scheme_spelled_for_estimates(value, spelled));
    if (dtype_of(cli->scheme, &cli->memory.weights) && is_float_type(cli->memory.weights)) {
        cli->scheme[0] = '\0'; /* fp16 of "half" */
        return true;
    }
    cli->memory.weights = VC_DTYPE_NONE;
    return vc_weight_scheme_bytes(cli->scheme, one, 2) != UINT64_MAX;
}

/* --kv-dtype. The list has the types in which programs store keys and values; "fp8" means f8_e4m3 here. */
static bool take_kv_dtype(void *group, const char *value)
{
    static const enum vc_dtype types[] = {VC_DTYPE_F32,  VC_DTYPE_F16,     VC_DTYPE_BF16, VC_DTYPE_I8,
                                          VC_DTYPE_Q8_0, VC_DTYPE_Q5_1,    VC_DTYPE_Q5_0, VC_DTYPE_Q4_1,
                                          VC_DTYPE_Q4_0, VC_DTYPE_F8_E4M3, VC_DTYPE_NVFP4};
    struct memory_cli *cli = group;
    bool known = dtype_of(strcmp(value, "fp8") == 0 ? "f8_e4m3" : value, &cli->memory.cache);

    for (size_t k = 0; known && k < sizeof types / sizeof types[0]; k++) {
        if (types[k] == cli->memory.cache) {
            return true;
        }
    }
    return false;
}

/* --runtime takes two kinds of words: ways to load without a program's name, and the names of programs, whose rules
 * then decide the rest (choose_program). */
static bool take_runtime(void *group, const char *value)
{
    static const struct {
        const char *name;
        enum vc_runtime runtime;
    } ways[] = {
        {"native", VC_RUNTIME_NATIVE}, {"dequantize", VC_RUNTIME_DEQUANTIZE}, {"layerwise", VC_RUNTIME_LAYERWISE}};
    struct memory_cli *cli = group;

    cli->memory.program = VC_RUN_BY_ANY;
    for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
        if (strcmp(ways[k].name, value) == 0) {
            cli->memory.runtime = ways[k].runtime;
            return true;
        }
    }
    for (int k = VC_RUN_BY_PYTORCH; k < VC_RUN_BY_MCU; k++) { /* --device-kind has that one */
        if (strcmp(vc_memory_program_facts((enum vc_memory_program)k)->name, value) == 0) {
            cli->memory.program = (enum vc_memory_program)k;
            return true;
        }
    }
    return false;
}

/* "gpu" is the default, and means any device whose program is known otherwise. */
static bool take_device_kind(void *group, const char *value)
{
    struct memory_cli *cli = group;

    cli->memory.program = strcmp(value, "mcu") == 0 ? VC_RUN_BY_MCU : VC_RUN_BY_ANY;
    return cli->memory.program == VC_RUN_BY_MCU || strcmp(value, "gpu") == 0;
}

/* --recompute, with K of every:K. */
static bool take_recompute(void *group, const char *value)
{
    struct memory_cli *cli = group;

    return recompute_word(value, &cli->memory.recompute, &cli->memory.recompute_every);
}

/* --teacher-dtype and --grad-dtype take types of floats alone. */
static bool take_teacher_dtype(void *group, const char *value)
{
    struct memory_cli *cli = group;

    return dtype_of(value, &cli->memory.teacher_weights) && is_float_type(cli->memory.teacher_weights);
}

static bool take_grad_dtype(void *group, const char *value)
{
    struct memory_cli *cli = group;

    return dtype_of(value, &cli->memory.gradients) && is_float_type(cli->memory.gradients);
}

/* The model and how it is run. --size, --graph and --weights come from graph_source.h. */
/* clang-format off */
static const struct opt model_opts[] = {
    /* sizes of the inputs: names that many models have in common */
    {.name = "batch", .value = "N", .kind = OPT_COUNT, .field = offsetof(struct memory_cli, batch),
     .help = "the size batch of the inputs (default 1)"},
    {.name = "seq", .value = "N", .kind = OPT_COUNT, .field = offsetof(struct memory_cli, sequence),
     .help = "the size sequence of the inputs (default 128; llama.cpp: what it computes at once, 512)"},
    GRAPH_SOURCE_OPTIONS,
    /* weights, and keys and values, in memory */
    {.name = "dtype", .value = "TYPE", .kind = OPT_CALL, .call = take_dtype, .option = "scheme",
     .wanted = "a type of floats or a scheme, such as f16, int8, int4, int4/group:64, nf4, q4_k_m",
     .help = "the type of floats in memory (default: as stored; f32 without a file): f32, f16, bf16, f64, or the "
             "scheme of their codes, every name that quantize has (int4, nf4, fp8, q4_k_m), int4/group:64 and its like, awq/group:N, gptq/group:N, hqq/group:N, "
             "nf4-dq, q4_0, q4_k and others (docs/memory-model.md); norms and biases, and except with "
             "GGUF's types embeddings and the output layer, are then f16"},
    {.name = "kv-dtype", .value = "TYPE", .kind = OPT_CALL, .call = take_kv_dtype,
     .wanted = "f32, f16, bf16, int8, fp8, q8_0, q5_1, q5_0, q4_1, q4_0 or nvfp4",
     .help = "of the keys and values of --ctx: f32, f16, bf16, int8, fp8, q8_0, q5_1, q5_0, q4_1, q4_0, nvfp4 (default: as the activations; llama.cpp f16)"},
    /* the rules of the program that runs it */
    {.name = "runtime", .value = "NAME", .kind = OPT_CALL, .call = take_runtime, .option = "program",
     .wanted = "native, dequantize, layerwise, llama.cpp, onnxruntime, bitsandbytes, transformers, pytorch or vllm",
     .conflicts = "trainer=vcompress", .help = "the program whose rules the figures follow: llama.cpp, onnxruntime, bitsandbytes, transformers, pytorch, vllm "
             "(default: the one that usually runs such a file; docs/memory-model.md has the rules); or one without a name, "
             "which loads codes of quantized weights as codes (native), as floats (dequantize), or as codes with one tensor "
             "at a time as floats (layerwise); native and layerwise keep no value longer than needed"},
    {.name = "ctx", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct memory_cli, memory.context_tokens),
     .help = "inference: keys and values of N positions are kept for every sequence"},
    {.name = "n-cpu-moe", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct memory_cli, memory.cpu_moe_layers),
     .help = "llama.cpp's option: the experts of the first N layers are in the memory of the host"},
};
/* Training, its memory, and the rules of the allocator. Options of training need --mode train or distill; the parser
 * refuses them otherwise, by `needs`. */
static const struct opt memory_opts[] = {
    /* what is done with the model */
    {.name = "mode", OPT_WORDS({"infer", VC_MEMORY_INFER}, {"train", VC_MEMORY_TRAIN}, {"distill", VC_MEMORY_DISTILL}), OPT_FIELD(struct memory_cli, memory.mode),
     .help = "the use of the model (default infer); distill: training towards the outputs of --teacher, or of a file "
             "with outputs"},
    {.name = "teacher", .value = "MODEL", .kind = OPT_TEXT, .field = offsetof(struct memory_cli, teacher_path),
     .needs = "mode=distill", .help = "the model that is there, too, and computes the targets"},
    {.name = "teacher-dtype", .value = "f32|f16|bf16|f64", .kind = OPT_CALL, .call = take_teacher_dtype,
     .needs = "teacher", .help = "the type of the teacher's floats in memory (default: as stored)"},
    /* training: the program, its optimizer, its arithmetic */
    {.name = "trainer", OPT_WORDS({"pytorch", VC_MEMORY_PYTORCH}, {"vcompress", VC_MEMORY_VCOMPRESS}), OPT_FIELD(struct memory_cli, memory.trainer),
     .needs = "mode=train|distill", .help = "the program that trains (default pytorch); vcompress: the exact bytes of distill, without its rows and "
             "the teacher"},
    {.name = "optimizer", OPT_WORDS({"sgd", VC_OPTIMIZER_SGD}, {"momentum", VC_OPTIMIZER_MOMENTUM}, {"adam", VC_OPTIMIZER_ADAM}, {"adamw", VC_OPTIMIZER_ADAMW}, {"adafactor", VC_OPTIMIZER_ADAFACTOR}, {"adam8bit", VC_OPTIMIZER_ADAM8BIT}),
     OPT_FIELD(struct memory_cli, memory.optimizer), .needs = "mode=train|distill", .help = "whose states training keeps (default adamw)"},
    {.name = "foreach", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct memory_cli, foreach), .option = "foreach_step",
     .needs = "mode=train|distill", .conflicts = "trainer=vcompress", .help = "the optimizer updates all weights at once, as PyTorch does on GPUs (default): Adam then needs a copy of "
             "its second moments"},
    {.name = "no-foreach", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct memory_cli, no_foreach),
     .needs = "mode=train|distill", .conflicts = "trainer=vcompress", .help = "one weight after the other: foreach=False in PyTorch, or fused=True, which needs no copy at all"},
    {.name = "amp", OPT_WORDS({"none", VC_AMP_NONE}, {"autocast", VC_AMP_AUTOCAST}, {"pure", VC_AMP_PURE}), OPT_FIELD(struct memory_cli, memory.amp),
     .needs = "mode=train|distill", .help = "mixed precision: autocast keeps f32 weights and computes products in half precision; pure has weights and "
             "gradients of half precision with f32 masters (default none)"},
    /* training: values that are computed again in the backward pass */
    {.name = "recompute", .value = "none|sqrt|every:K|layer|selective|auto", .kind = OPT_CALL, .call = take_recompute,
     .option = "recompute", .wanted = "none, sqrt, every:K, layer, selective or auto",
     .needs = "mode=train|distill", .help = "activation checkpointing: parts that the backward pass computes again (default none): sqrt: about the "
             "square root of the number of operators as parts; every:K: parts of K operators with weights; layer: "
             "every layer; selective: the scores of attention; auto: as few parts as --budget allows"},
    {.name = "budget", .value = "SIZE", .kind = OPT_SIZE, OPT_FIELD(struct memory_cli, memory.budget_bytes),
     .needs = "recompute=auto", .help = "the largest peak (default of fit and plan: the room on the device)"},
    /* kernels and the allocator */
    {.name = "attention", OPT_WORDS({"fused", VC_ATTENTION_FUSED}, {"eager", VC_ATTENTION_EAGER}, {"softmax", VC_ATTENTION_SOFTMAX}, {"auto", VC_ATTENTION_AUTO}), OPT_FIELD(struct memory_cli, memory.attention),
     .help = "as one kernel, or with a matrix of scores; softmax: so, with probabilities of the activations' type; auto (the "
             "default): as one kernel where PyTorch has one for GPUs, which is not so in f32 where heads share keys"},
    {.name = "allocator", OPT_WORDS({"exact", VC_ALLOCATOR_EXACT}, {"cuda", VC_ALLOCATOR_CUDA}, {"pytorch", VC_ALLOCATOR_PYTORCH}, {"onnxruntime", VC_ALLOCATOR_ONNXRUNTIME}),
     OPT_FIELD(struct memory_cli, memory.allocator),
     .conflicts = "trainer=vcompress", .help = "blocks are rounded up to 1, 256, 512 or 256 bytes (default exact; of fit the program's own)"},
    {.name = "in-place", .kind = OPT_BOOL, .set = 1, OPT_FIELD(struct memory_cli, memory.in_place),
     .help = "activation functions, normalizations and additions overwrite an input that is not needed later"},
    {.name = "no-reuse", .kind = OPT_BOOL, .set = 0, OPT_FIELD(struct memory_cli, memory.reuse),
     .help = "every value has memory of its own, which nothing uses again"},
    /* training: masks, adapters, gradients */
    {.name = "dropout", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct memory_cli, dropout), .option = "dropout",
     .needs = "mode=train|distill", .help = "values are dropped at random, and the masks are kept, in attention and where a branch joins the stream, too (default: "
             "where the model says it; of a config.json by its probabilities, or those that transformers has where keys are absent)"},
    {.name = "no-dropout", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct memory_cli, no_dropout), .option = "dropout",
     .needs = "mode=train|distill", .help = "nothing is dropped"},
    {.name = "lora", .value = "R", .kind = OPT_COUNT, .field = offsetof(struct memory_cli, lora), .option = "lora_rank",
     .needs = "mode=train|distill", .help = "only adapters of rank R are trained, the weights stay as they are"},
    {.name = "lora-targets", OPT_WORDS({"qv", VC_LORA_QV}, {"attention", VC_LORA_ATTENTION}, {"all", VC_LORA_ALL}), OPT_FIELD(struct memory_cli, memory.targets),
     .needs = "lora", .help = "which products of the layers have adapters: queries and values (default), attention, or all"},
    {.name = "grad-dtype", .value = "f32|f16|bf16|f64", .kind = OPT_CALL, .call = take_grad_dtype,
     .needs = "mode=train|distill", .help = "of gradients (default: as the weights)"},
    /* what is not a value of the model: workspaces, the runtime's own memory */
    {.name = "im2col", .value = "N", .kind = OPT_COUNT, .field = offsetof(struct memory_cli, im2col),
     .help = "convolutions copy the windows of N images at once into the workspace (default: no copies)"},
    {.name = "workspace", .value = "SIZE", .kind = OPT_SIZE, OPT_FIELD(struct memory_cli, memory.workspace_bytes),
     .help = "memory of the library for products (default 32MiB)"},
    {.name = "context-overhead", .value = "SIZE", .kind = OPT_SIZE, OPT_FIELD(struct memory_cli, memory.context_bytes),
     .help = "memory of the device's runtime (default 300MiB)"},
};
/* Several devices: data parallel (--dp, --zero), tensor parallel (--tp), pipeline (--pp). The figures are those of one
 * device, with --pp of the stage that needs most. */
static const struct opt devices_opts[] = {
    /* data parallel: the batch is divided */
    {.name = "dp", .value = "N", .kind = OPT_COUNT, .field = offsetof(struct memory_cli, dp),
     .needs = "mode=train|distill", .help = "N copies of the model, each with a batch of its own"},
    {.name = "zero", OPT_WORDS({"0", 0}, {"1", 1}, {"2", 2}, {"3", 3}), OPT_FIELD(struct memory_cli, memory.zero),
     .help = "tensors divided between the copies of --dp: 1 states, 2 also gradients, 3 also weights (default 0)"},
    /* tensor parallel: weights and values are divided */
    {.name = "tp", .value = "N", .kind = OPT_COUNT, .field = offsetof(struct memory_cli, tp), .option = "tp",
     .help = "products of attention, MLP and vocabulary are divided between N devices"},
    {.name = "sequence-parallel", .kind = OPT_BOOL, .set = 1, OPT_FIELD(struct memory_cli, memory.sequence_parallel),
     .help = "divide along the sequence the tensors that --tp does not divide"},
    /* pipeline: layers are divided */
    {.name = "pp", .value = "N", .kind = OPT_COUNT, .field = offsetof(struct memory_cli, pp), .option = "pp",
     .help = "layers are divided between N devices, the stages of a pipeline"},
    {.name = "schedule", OPT_WORDS({"1f1b", VC_PIPELINE_1F1B}, {"gpipe", VC_PIPELINE_GPIPE}, {"interleaved", VC_PIPELINE_INTERLEAVED}),
     OPT_FIELD(struct memory_cli, memory.schedule),
     .help = "in which order stages compute the parts of a batch (default 1f1b)"},
    {.name = "chunks", .value = "N", .kind = OPT_COUNT, .field = offsetof(struct memory_cli, chunks),
     .needs = "schedule=interleaved", .help = "groups of layers on each stage (default 2)"},
    {.name = "stage", .value = "N", .kind = OPT_COUNT, .field = offsetof(struct memory_cli, stage),
     .help = "the stage that is shown (default: the one that needs most)"},
    /* a step in parts */
    {.name = "accum", .value = "N", .kind = OPT_COUNT, .field = offsetof(struct memory_cli, accumulate),
     .needs = "mode=train|distill", .help = "a step adds the gradients of N parts of --batch each (default 1)"},
    /* buffers of communication, and the host's memory */
    {.name = "bucket", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct memory_cli, memory.bucket_elems),
     .help = "elements of a buffer that --zero collects gradients or weights in (default 500000000)"},
    {.name = "offload", OPT_WORDS({"none", VC_OFFLOAD_NONE}, {"optimizer", VC_OFFLOAD_OPTIMIZER}, {"all", VC_OFFLOAD_ALL}), OPT_FIELD(struct memory_cli, memory.offload),
     .needs = "mode=train|distill", .help = "tensors in the host's memory: gradients, states and master weights; all: weights, too (default none)"},
};
static const struct opt kind_opts[] = {
    {.name = "device-kind", .value = "gpu|mcu", .kind = OPT_CALL, .call = take_device_kind, .option = "device_kind",
     .conflicts = "runtime gpu all-gpus weights-only max-gpu-layers mode=train|distill dp tp pp", .help = "mcu: a microcontroller: --memory is its RAM, weights stay in flash, codes are codes; no "
             "context of a device, workspace, margin or rounding of blocks, and values in place (default gpu)"},
};
/* clang-format on */
const struct opt_group group_kind = OPT_GROUP("Microcontrollers", kind_opts);
const struct opt_group group_model = OPT_GROUP("Model", model_opts);
const struct opt_group group_memory = OPT_GROUP("Memory", memory_opts);
const struct opt_group group_devices = OPT_GROUP("Several devices", devices_opts);

/* A symbol is a size that the graph leaves open, by its name: "sequence_length" answers to "sequence". The batch has a
 * rule of its own in the library, since exporters call it "batch_size", "N" or nothing. */
int memory_cli_symbol(struct app *app, const struct vc_graph *graph, const char *name, const char **symbol)
{
    size_t n = strlen(name);

    *symbol = strcmp(name, "batch") == 0 ? vc_graph_lists(graph)->batch : NULL;
    for (uint32_t k = 0; *symbol == NULL && vc_graph_symbol(graph, k, NULL) != NULL; k++) {
        *symbol = strncmp(vc_graph_symbol(graph, k, NULL), name, n) == 0 ? vc_graph_symbol(graph, k, NULL) : NULL;
    }
    if (*symbol != NULL) {
        return GO_ON;
    }
    return app_usage(app, "the inputs of the model leave no size open that is called %s; --size NAME=N sets others",
                     name);
}

/* Gives a size to the symbol that --batch or --seq mean. The name that people use is `name`. */
static int bind_named(struct app *app, struct graph_source *source, const char *name, uint64_t size)
{
    const char *symbol;
    int rc = memory_cli_symbol(app, source->graph, name, &symbol);

    if (rc == GO_ON && vc_graph_bind(app->ctx, source->graph, symbol, (int64_t)size) != VC_OK) {
        rc = app_fail(app, VC_E_ARGUMENT);
    }
    return rc;
}

/* Gives all open sizes of a graph their values. Later ones replace earlier ones: the usual sizes and --size, then --batch
 * and --seq. Without a length the program's own: llama.cpp computes 512 positions at a time, whatever the context, where
 * others have 128. GO_ON or a status. */
static int bind_all(struct app *app, const struct memory_cli *cli, struct graph_source *source)
{
    int rc = graph_source_bind(app, source);

    if (rc == GO_ON && cli->batch != 0) {
        rc = bind_named(app, source, "batch", cli->batch);
    }
    if (rc == GO_ON && cli->sequence != 0) {
        rc = bind_named(app, source, "sequence", cli->sequence);
    }
    if (rc == GO_ON && memory_cli_usual_positions(cli) &&
        vc_memory_bind_positions(app->ctx, source->graph, &cli->memory, 0) != VC_OK) {
        return app_fail(app, VC_E_ARGUMENT);
    }
    return rc;
}

/* ---- checking ---- */

/* An option that needs another one, which has to be there with it. These pairs are not in the rows' `needs`, because a
 * number decides (--dp 1 is as good as none), or an option that only one of the two commands has (--max-ctx,
 * --weights-only of fit). GO_ON or a status. */
static int check_pairs(struct app *app, const struct memory_cli *cli)
{
    const struct {
        const char *name, *needs;
        bool there;
    } pairs[] = {
        {"zero", "--dp N", cli->dp > 1},
        {"bucket", "--dp N", cli->dp > 1},
        {"sequence-parallel", "--tp N", cli->tp > 1},
        {"schedule", "--pp N", cli->pp > 1},
        {"stage", "--pp N", cli->pp > 1},
        {"kv-dtype", "--ctx N", cli->memory.context_tokens != 0 || options_seen(&app->parsed, "max-ctx")},
        {"activations", "a verdict beyond weights (no --weights-only)", !options_seen(&app->parsed, "weights-only")},
    };

    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        if (options_seen(&app->parsed, pairs[k].name) && !pairs[k].there) {
            return app_usage(app, "--%s changes nothing without %s", pairs[k].name, pairs[k].needs);
        }
    }
    return GO_ON;
}

/* An option that would change nothing was meant for something else. GO_ON or a status. 0 is refused for counts that
 * start at 1: in the structures 0 means that the option was not given. */
static int check_options(struct app *app, const struct memory_cli *cli)
{
    const struct {
        const char *name;
        uint64_t value;
    } from_1[] = {{"batch", cli->batch}, {"seq", cli->sequence},     {"dp", cli->dp},        {"tp", cli->tp},
                  {"pp", cli->pp},       {"accum", cli->accumulate}, {"chunks", cli->chunks}};
    bool trains = cli->memory.mode != VC_MEMORY_INFER;

    if (trains && (cli->memory.context_tokens != 0 || options_seen(&app->parsed, "max-ctx"))) {
        return app_usage(app, "--%s is about inference: training keeps no keys and values",
                         cli->memory.context_tokens != 0 ? "ctx" : "max-ctx");
    }
    if (cli->memory.context_tokens != 0 && options_seen(&app->parsed, "seq") &&
        cli->sequence > cli->memory.context_tokens) {
        return app_usage(app, "--ctx counts all positions, with the %llu of --seq that are in work",
                         (unsigned long long)cli->sequence);
    }
    for (size_t k = 0; k < sizeof from_1 / sizeof from_1[0]; k++) {
        if (options_seen(&app->parsed, from_1[k].name) && (from_1[k].value == 0 || from_1[k].value > INT64_MAX)) {
            return app_usage(app, "--%s: expected a number from 1 on", from_1[k].name);
        }
    }
    return check_pairs(app, cli);
}

/* Moves counts from the 64 bits that the parser fills into the library's narrower fields, none of which has use for
 * more than a million. Then decides the pairs of contradicting switches and the default of --chunks. GO_ON or a
 * status. */
static int take_counts(struct app *app, struct memory_cli *cli)
{
    const struct {
        const char *name;
        uint64_t from;
        unsigned *to;
    } counts[] = {
        {"dp", cli->dp, &cli->memory.dp},
        {"tp", cli->tp, &cli->memory.tp},
        {"pp", cli->pp, &cli->memory.pp},
        {"accum", cli->accumulate, &cli->memory.micro_batches},
        {"chunks", cli->chunks, &cli->memory.chunks},
        {"stage", cli->stage, &cli->memory.stage},
        {"lora", cli->lora, &cli->memory.lora_rank},
        {"im2col", cli->im2col, &cli->memory.im2col_images},
    };

    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        if (counts[k].from > 1000000) {
            return app_usage(app, "--%s: %llu is more than 1000000", counts[k].name,
                             (unsigned long long)counts[k].from);
        }
        *counts[k].to = (unsigned)counts[k].from;
    }
    if (cli->memory.schedule == VC_PIPELINE_INTERLEAVED && cli->chunks == 0) {
        cli->memory.chunks = 2;
    }
    cli->memory.foreach_step = !cli->no_foreach;
    cli->memory.dropout = cli->no_dropout ? VC_DROPOUT_NEVER : cli->dropout ? VC_DROPOUT_ALWAYS : VC_DROPOUT_STATED;
    cli->memory.scheme = cli->scheme[0] != '\0' ? cli->scheme : NULL;
    return GO_ON;
}

/* Opens --teacher as the model itself is opened, with the same --size options. Sentences name the teacher's file while
 * it is worked on (app->subject). GO_ON or a status. */
static int open_teacher(struct app *app, struct memory_cli *cli)
{
    const char *student = app->subject;

    if (cli->teacher_path == NULL) {
        return GO_ON;
    }
    app->subject = cli->teacher_path;
    /* the same sizes of inputs, and the same common options */
    cli->teacher.base = cli->source.base;
    memcpy(cli->teacher.sizes, cli->source.sizes, sizeof cli->source.sizes);
    cli->teacher.n_sizes = cli->source.n_sizes;
    int rc = graph_source_open(app, &cli->teacher, GRAPH_ALWAYS);
    rc = rc == GO_ON ? bind_all(app, cli, &cli->teacher) : rc;
    cli->memory.teacher = cli->teacher.graph;
    cli->memory.teacher_model = graph_source_model(&cli->teacher);
    app->subject = rc == GO_ON ? student : app->subject;
    return rc;
}

/* Whether an estimate of the weights alone would be no answer: training keeps values for the backward pass, and a share
 * of one device depends on the operators. Without a graph such a question is refused. */
static bool needs_graph(const struct memory_cli *cli)
{
    return cli->memory.mode != VC_MEMORY_INFER || cli->memory.tp > 1 || cli->memory.pp > 1;
}

/* A damaged graph does not stop an estimate of the weights; here, behind the tables, its fault becomes the exit
 * status. */
int memory_cli_refused(struct app *app, const struct memory_cli *cli)
{
    if (cli->source.refused == NULL || cli->report.unknown == NULL) {
        return GO_ON;
    }
    (void)app_gate(app, cli->source.refused);
    return EXIT_INPUT;
}

bool memory_cli_is_mcu(const struct memory_cli *cli)
{
    return cli->memory.program == VC_RUN_BY_MCU;
}

/* --runtime, or the program that usually runs such a file; then what follows from it. GO_ON or a status. An explicit
 * program is refused for training if it only runs models (llama.cpp, vLLM ...). Without --runtime the file's layout and
 * format decide: a GGUF file is run by llama.cpp. What the user said about attention and the allocator stays. */
static int choose_program(struct app *app, struct memory_cli *cli)
{
    const struct vc_model *model = graph_source_model(&cli->source);
    const struct vc_layout *layout = model != NULL ? vc_model_layout(model) : NULL;
    bool given = options_seen(&app->parsed, "runtime") || memory_cli_is_mcu(cli);
    struct vc_memory_options asked = cli->memory;
    enum vc_memory_program program =
        given ? cli->memory.program
              : vc_memory_program(layout, model != NULL ? vc_model_facts(model)->format : NULL, &cli->memory);

    if (given && cli->memory.mode != VC_MEMORY_INFER && vc_memory_program_facts(program)->ideal) {
        return app_usage(app, "--runtime %s runs models and trains none", vc_memory_program_facts(program)->name);
    }
    if ((given || program == VC_RUN_BY_ONNXRUNTIME) && cli->memory.scheme != NULL &&
        vc_memory_program_weights(program, cli->memory.scheme) == VC_WEIGHTS_NOT_TAKEN) {
        return app_usage(
            app, "%s loads no weights as %s: types such as q8_0 and q4_k_m are llama.cpp's, which has no others%s",
            vc_memory_program_facts(program)->name, cli->memory.scheme,
            program == VC_RUN_BY_BITSANDBYTES ? "; bitsandbytes has int8, nf4, nf4-dq and fp4" : "");
    }
    if (program != VC_RUN_BY_ANY) {
        vc_memory_set_program(&cli->memory, program, layout);
        cli->memory.workspace_bytes =
            options_seen(&app->parsed, "workspace") ? asked.workspace_bytes : cli->memory.workspace_bytes;
        cli->memory.context_bytes =
            options_seen(&app->parsed, "context-overhead") ? asked.context_bytes : cli->memory.context_bytes;
        if (given && cli->memory.scheme != NULL &&
            vc_memory_program_weights(program, cli->memory.scheme) == VC_WEIGHTS_DECODED) {
            cli->memory.runtime = VC_RUNTIME_DEQUANTIZE;
        }
    } else if (given && cli->memory.runtime != VC_RUNTIME_DEQUANTIZE && cli->memory.attention == VC_ATTENTION_AUTO) {
        cli->memory.attention = VC_ATTENTION_FUSED; /* a runtime with kernels of its own */
    }
    if (cli->memory.cpu_moe_layers != 0 && program != VC_RUN_BY_LLAMA_CPP) {
        return app_usage(app,
                         "--n-cpu-moe is an option of llama.cpp, which does not run such a file: ask about GGUF, a "
                         "--dtype of GGUF such as q4_k_m, or --runtime llama.cpp");
    }
    if (cli->own_allocator && !options_seen(&app->parsed, "allocator")) {
        cli->memory.allocator = vc_memory_program_facts(program)->allocator;
    }
    return GO_ON;
}

bool memory_cli_usual_positions(const struct memory_cli *cli)
{
    static const char name[] = "sequence=";

    for (size_t k = 0; k < cli->source.n_sizes; k++) {
        if (strncmp(cli->source.sizes[k], name, sizeof name - 1) == 0) {
            return false;
        }
    }
    return cli->sequence == 0;
}

void memory_cli_set_fit(const struct app *app, const struct memory_cli *cli, struct vc_fit_options *fit)
{
    fit->ideal = options_seen(&app->parsed, "runtime") && cli->memory.program == VC_RUN_BY_ANY &&
                 cli->memory.runtime != VC_RUNTIME_DEQUANTIZE;
    fit->margin_given = options_seen(&app->parsed, "margin");
    fit->context_bytes = cli->memory.context_bytes;
    fit->workspace_bytes = cli->report.components[VC_MEMORY_WORKSPACE].bytes;
    if (memory_cli_is_mcu(cli) && !fit->margin_given) {
        fit->margin_bytes = 0; /* nobody else uses the RAM */
    }
}

/* Without a graph there are no inputs: sizes of these would change nothing. llama.cpp's rules need no graph for keys
 * and values: their size follows from the metadata. */
static int refuse_sizes(struct app *app, const struct memory_cli *cli)
{
    static const char *const names[] = {"batch", "seq", "size"};

    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        if (options_seen(&app->parsed, names[k])) {
            return app_usage(app,
                             "--%s is a size of the model's inputs, and what %s computes is not known: only its "
                             "weights%s are counted%s",
                             names[k], app->subject,
                             cli->memory.program == VC_RUN_BY_LLAMA_CPP ? ", and keys and values of one sequence" : "",
                             cli->memory.program == VC_RUN_BY_LLAMA_CPP ? "" : "; --graph FILE says it");
        }
    }
    return GO_ON;
}

/* GO_ON with cli->report filled, or a status. The structures stay open for the printing; memory_cli_close closes
 * them. */
int memory_cli_count(struct app *app, struct memory_cli *cli)
{
    int rc = check_options(app, cli);
    enum vc_status status;

    rc = rc == GO_ON ? take_counts(app, cli) : rc;
    rc =
        rc == GO_ON ? graph_source_open(app, &cli->source, needs_graph(cli) ? GRAPH_WHERE_SAID : GRAPH_OR_WEIGHTS) : rc;
    rc = rc == GO_ON ? choose_program(app, cli) : rc;
    if (rc == GO_ON) {
        rc = cli->source.graph != NULL ? bind_all(app, cli, &cli->source) : refuse_sizes(app, cli);
    }
    GO(rc == GO_ON ? open_teacher(app, cli) : rc);
    cli->seeks_budget =
        cli->own_allocator && cli->memory.recompute == VC_RECOMPUTE_AUTO && cli->memory.budget_bytes == 0;
    if (cli->seeks_budget) {
        cli->memory.budget_bytes = INT64_MAX;
    }
    status =
        vc_memory_estimate(app->ctx, cli->source.graph, graph_source_model(&cli->source), &cli->memory, &cli->report);
    return status == VC_OK ? GO_ON : app_fail(app, status);
}

uint64_t memory_cli_devices(const struct memory_cli *cli)
{
    const unsigned ways[] = {cli->memory.dp, cli->memory.tp, cli->memory.pp}; /* 0: not divided */
    uint64_t n = 1;

    for (size_t k = 0; k < 3; k++) {
        n *= ways[k] > 1 ? ways[k] : 1;
    }
    return n;
}

int memory_cli_check_devices(struct app *app, const struct memory_cli *cli, const char *name, unsigned count)
{
    uint64_t n = memory_cli_devices(cli);

    return count < 2 || n <= count
               ? GO_ON
               : app_usage(app, "--gpu: '%s' are %u devices, but --dp, --tp and --pp are about %llu", name, count,
                           (unsigned long long)n);
}

/* over_budget is set by --recompute auto alone, where no plan comes below --budget. */
int memory_cli_check_budget(struct app *app, const struct memory_cli *cli)
{
    char text[64 + 2 * CELL_BYTES];

    if (cli->report.over_budget == 0) {
        return GO_ON;
    }
    snprintf(text, sizeof text, "the peak is %s whatever is computed again, --budget is %s",
             fmt_size(CELL, &app->out, cli->report.moments[VC_MOMENT_PEAK].bytes),
             fmt_size(CELL, &app->out, cli->memory.budget_bytes));
    return app_gate(app, text);
}

void memory_cli_close(struct memory_cli *cli)
{
    vc_result_free(cli->layers);
    graph_source_close(&cli->source);
    graph_source_close(&cli->teacher);
}

/* ---- printing ---- */

/* "the inputs leave sizes open; give them, such as --size height=N --size width=N" */
void memory_cli_print_open(const struct app *app, const struct memory_cli *cli)
{
    const char *name;
    int64_t size;
    bool any = false;

    for (uint32_t k = 0; cli->source.graph != NULL && (name = vc_graph_symbol(cli->source.graph, k, &size)) != NULL;
         k++) {
        if (size < 0) {
            fputs(any ? " --size" : "the inputs leave sizes open; give them, such as --size", app->out.to);
            (void)print_shell_word(app->out.to, name);
            fputs("=N", app->out.to);
            any = true;
        }
    }
    fputs(any ? "\n" : "", app->out.to);
}

void memory_cli_print_sizes(const struct app *app, const struct memory_cli *cli, const char *before)
{
    const char *name;
    int64_t size;

    for (uint32_t k = 0; cli->source.graph != NULL && (name = vc_graph_symbol(cli->source.graph, k, &size)) != NULL;
         k++) {
        if (size > 0) {
            say(app->out.to, "%s%s %lld", before, name, (long long)size);
            before = ", ";
        }
    }
}

/* ", one device of dp 8 x tp 2, ZeRO 1". Nothing for one device without ZeRO. */
static void print_division(const struct app *app, const struct vc_memory_options *o)
{
    const struct {
        const char *name;
        unsigned n;
    } ways[] = {{"dp", o->dp}, {"tp", o->tp}, {"pp", o->pp}};
    const char *before = ", one device of ";

    for (size_t k = 0; k < 3; k++) {
        if (ways[k].n > 1) {
            fprintf(app->out.to, "%s%s %u", before, ways[k].name, ways[k].n);
            before = " x ";
        }
    }
    if (o->zero != 0) {
        fprintf(app->out.to, ", ZeRO %u", o->zero);
    }
    if (o->lora_rank != 0) {
        fprintf(app->out.to, ", adapters of rank %u", o->lora_rank);
    }
}

/* No option named a type: types are the model's own, which the head then says. */
static bool is_usual(const struct memory_cli *cli)
{
    const struct vc_memory_options *o = &cli->memory;

    return o->activations == VC_DTYPE_NONE && o->weights == VC_DTYPE_NONE && o->scheme == NULL && o->amp == VC_AMP_NONE;
}

/* The options as documents show them: the type of values is told, where it was left to the program. */
struct vc_memory_options memory_cli_options(const struct memory_cli *cli)
{
    struct vc_memory_options shown = cli->memory;

    if (is_usual(cli) && shown.activations == VC_DTYPE_NONE) {
        shown.activations = vc_memory_float_type(cli->source.graph, graph_source_model(&cli->source));
    }
    return shown;
}

/* "unknown: the sizes of a node: loop_3" */
void memory_cli_print_unknown(const struct app *app, const struct vc_memory_report *r)
{
    say(app->out.to, "unknown: %s%s%s", r->unknown, r->unknown_name != NULL ? ": " : "",
        r->unknown_name != NULL ? r->unknown_name : "");
}

/* "llama/config.json: 6,738,415,616 parameters; training, adamw, batch 4, sequence 512" */
static void print_head(const struct app *app, const struct memory_cli *cli)
{
    static const char *const optimizers[] = {"sgd", "momentum", "adam", "adamw", "adafactor", "adam8bit"};
    static const char *const amps[] = {"", ", autocast", ", pure half precision"};
    bool trains = cli->memory.mode != VC_MEMORY_INFER;

    say(app->out.to, "%s: %s parameters; %s", app->subject, fmt_count(CELL, cli->report.n_params),
        cli->memory.mode == VC_MEMORY_DISTILL ? "distillation with "
        : trains                              ? "training with "
                                              : "inference");
    if (trains) {
        fprintf(app->out.to, "%s%s", optimizers[cli->memory.optimizer], amps[cli->memory.amp]);
    }
    if (is_usual(cli) && memory_cli_options(cli).activations != VC_DTYPE_F32) {
        fprintf(app->out.to, " in %s", vc_dtype_name(memory_cli_options(cli).activations));
    }
    memory_cli_print_sizes(app, cli, ", ");
    if (cli->memory.context_tokens != 0) {
        fprintf(app->out.to, ", context of %llu", (unsigned long long)cli->memory.context_tokens);
    }
    print_division(app, &cli->memory);
    fputc('\n', app->out.to);
}

/* One row: bytes, the share of `whole` (0: none), and how certain the figure is. */
static void add_part(const struct app *app, struct table *table, const char *name, const struct vc_memory_part *part,
                     uint64_t whole, enum ink ink)
{
    bool known = part->known != VC_KNOWN_NOT;

    table_cell(table, 'l', "", ink, name);
    table_cell(table, 'r', "", ink, known ? fmt_size(CELL, &app->out, part->bytes) : "?");
    table_cell(table, 'r', "", INK_DIM,
               known && whole != 0 ? fmt_percent(CELL, (double)part->bytes, (double)whole) : "");
    table_cell(table, 'l', "", INK_DIM, vc_word(VC_WORDS_KNOWN, part->known));
    table_end_row(table);
}

/* The row of a component, by enum vc_memory_kind. Activations of training are those that wait for the backward pass. */
static const char *component_text(enum vc_memory_kind component, bool trains)
{
    static const char *const texts[VC_MEMORY_COMPONENTS] = {"parameters",
                                                            "gradients",
                                                            "optimizer states",
                                                            "copies of weights",
                                                            "activations",
                                                            "inputs",
                                                            "keys and values",
                                                            "transients",
                                                            "workspace of products",
                                                            "context of the device",
                                                            "what the allocator cannot use",
                                                            "communication",
                                                            "teacher"};

    return component == VC_MEMORY_ACTIVATIONS && trains ? "kept for the backward pass" : texts[component];
}

/* What a device's programs take beside the values of the model. These rows are shown at the end, by estimate alone
 * (tell_device): fit has them in its sum. */
static bool is_of_device(enum vc_memory_kind component)
{
    return component == VC_MEMORY_WORKSPACE || component == VC_MEMORY_CONTEXT || component == VC_MEMORY_SLACK;
}

/* "stage 1 of 4: 3.20 GiB at the peak, parts of the batch in flight: 4" */
static void print_stages(const struct app *app, const struct vc_memory_report *r, bool trains, bool in_flash)
{
    for (unsigned k = 0; r->n_stages > 1 && k < r->n_stages; k++) {
        fprintf(app->out.to, "stage %u of %u: %s at the peak", k + 1, r->n_stages,
                fmt_size(CELL, &app->out, r->stages[k].peak_bytes));
        if (trains) {
            fprintf(app->out.to, ", parts of the batch in flight: %g", r->stages[k].in_flight);
        }
        fputs(k + 1 == r->stage ? " (shown)\n" : "\n", app->out.to);
    }
    if (r->host_bytes != 0) {
        fprintf(app->out.to, "%s: %s\n", in_flash ? "in flash" : "in the host's memory",
                fmt_size(CELL, &app->out, r->host_bytes));
    }
}

/* Two groups of rows in one table: components, whose bytes add up to the peak (their share stands behind), then moments
 * of the run. Training has four moments; inference two, loading and the peak:
 *
 *     parameters                  1.20 MiB   71.0 %   exact
 *     activations                  490 KiB   28.3 %   exact
 *     after loading               1.20 MiB            exact
 *     at the peak, ideal          1.69 MiB            exact        nothing is kept longer than needed
 *     at the peak, PyTorch eager  1.91 MiB            exact
 *
 * False: no memory. */
static bool print_tables(struct app *app, const struct memory_cli *cli)
{
    static const char *const moments[VC_MOMENTS] = {"after loading", "after the forward pass", "at the peak",
                                                    "after a step"};
    static const char *const ideal = "at the peak, ideal"; /* nothing is kept that nobody needs any more */
    const struct vc_memory_report *r = &cli->report;
    bool trains = cli->memory.mode != VC_MEMORY_INFER;
    const struct vc_memory_part *peak = &r->moments[VC_MOMENT_PEAK];
    uint64_t whole = peak->known != VC_KNOWN_NOT ? peak->bytes + r->host_weight_bytes : 0;
    bool eager =
        cli->memory.program != VC_RUN_BY_LLAMA_CPP && cli->memory.program != VC_RUN_BY_VLLM && !memory_cli_is_mcu(cli);
    struct table table = {.failed = false};

    for (enum vc_memory_kind k = 0; k < VC_MEMORY_COMPONENTS; k++) {
        if (is_of_device(k)) {
            continue;
        }
        if (r->components[k].bytes != 0 || r->components[k].known == VC_KNOWN_NOT) {
            add_part(app, &table, component_text(k, trains), &r->components[k], whole, INK_NONE);
        }
    }
    for (enum vc_moment k = 0; k < VC_MOMENTS; k++) {
        if (trains || k == VC_MOMENT_LOAD || k == VC_MOMENT_PEAK) {
            add_part(app, &table, !trains && k == VC_MOMENT_PEAK && eager ? ideal : moments[k], &r->moments[k], 0,
                     INK_BOLD);
        }
    }
    if (!trains && eager && r->eager.known != VC_KNOWN_NOT) {
        add_part(app, &table, "at the peak, PyTorch eager", &r->eager, 0, INK_BOLD);
    }
    if (r->reserved[VC_MOMENT_PEAK].bytes != 0) {
        add_part(app, &table, !trains && eager ? "reserved by the allocator, ideal" : "reserved by the allocator",
                 &r->reserved[VC_MOMENT_PEAK], 0, INK_NONE);
    }
    for (enum vc_memory_kind k = VC_MEMORY_WORKSPACE; cli->tell_device && k <= VC_MEMORY_SLACK; k++) {
        if (r->components[k].bytes != 0) {
            add_part(app, &table, component_text(k, trains), &r->components[k], 0, INK_NONE);
        }
    }
    return table_print(&table, &app->out, false);
}

/* "layer  parameters  weights  at the peak  output", with the sums of all. */
static bool print_layers(struct app *app, const struct memory_cli *cli)
{
    const char *kept = cli->memory.mode != VC_MEMORY_INFER ? "kept" : "at the peak";
    bool known = cli->report.components[VC_MEMORY_ACTIVATIONS].known != VC_KNOWN_NOT;
    struct vc_memory_layer sum = {.name = "all"};
    struct table table = {.failed = false};

    for (size_t k = 0; k <= cli->layers->n; k++) {
        const struct vc_memory_layer *layer = k < cli->layers->n ? &cli->layers->layers[k] : &sum;
        enum ink ink = layer == &sum ? INK_BOLD : INK_NONE;

        table_cell(&table, 'l', "layer", ink, layer->name);
        table_cell(&table, 'r', "parameters", ink, fmt_count(CELL, layer->n_params));
        table_cell(&table, 'r', "weights", ink, fmt_size(CELL, &app->out, layer->weight_bytes));
        table_cell(&table, 'r', kept, ink, known ? fmt_size(CELL, &app->out, layer->activation_bytes) : "?");
        table_cell(&table, 'r', "output", ink, known ? fmt_size(CELL, &app->out, layer->output_bytes) : "?");
        table_end_row(&table);
        sum.n_params += layer->n_params;
        sum.weight_bytes += layer->weight_bytes;
        sum.activation_bytes += layer->activation_bytes;
        sum.output_bytes += layer->output_bytes;
    }
    return table_print(&table, &app->out, true);
}

/* The order: head, tables, then what is unknown or the stages of a pipeline, with -v the arena and the layers, and
 * notes of the library. */
bool memory_cli_print(struct app *app, const struct memory_cli *cli)
{
    const struct vc_memory_report *r = &cli->report;

    print_head(app, cli);
    if (!print_tables(app, cli)) {
        return false;
    }
    if (r->unknown != NULL) {
        memory_cli_print_unknown(app, r);
        fputc('\n', app->out.to);
        memory_cli_print_open(app, cli);
    } else {
        print_stages(app, r, cli->memory.mode != VC_MEMORY_INFER, memory_cli_is_mcu(cli));
    }
    if (r->unknown == NULL && app->common.verbose > 0) {
        say(app->out.to, "activations in one arena: %s, at least %s; the peak is at %s\n",
            fmt_size(CELL, &app->out, r->arena_bytes), fmt_size(CELL, &app->out, r->arena_least),
            *r->peak_at != '\0' ? r->peak_at : "the loss");
    }
    for (size_t k = 0; k < r->n_notes; k++) {
        fprintf(app->out.to, "note: %s\n", r->notes[k]);
    }
    return cli->layers == NULL || app->common.verbose == 0 || print_layers(app, cli);
}
