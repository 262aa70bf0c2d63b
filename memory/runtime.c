/* runtime.c - the programs that run models: which one usually runs a file, and what it does with codes, keys and values,
 * and values between operators. docs/memory-model.md has the sources.
 *
 *     file            usually run by     codes             keys and values
 *     .gguf           llama.cpp          kept              f16
 *     .onnx           onnxruntime        layer by layer
 *     folder, codes   the layout's own loader: transformers (decoded), vLLM or bitsandbytes (kept)
 *     others          PyTorch            by the layout */

#include "core/base/ctx.h"
#include "core/text/text.h"
#include "graph/sizes.h"
#include "memory/scheme.h"

/* What the usual loader of a layout does with its codes: keeps them, decodes one layer at a time, or all when it
 * loads. */
enum vc_runtime vc_memory_runtime(const struct vc_layout *layout)
{
    if (layout == NULL || strcmp(layout->name, "gguf") == 0 || strcmp(layout->name, "bitsandbytes") == 0) {
        return VC_RUNTIME_NATIVE;
    }
    return strcmp(layout->name, "onnx") == 0 ? VC_RUNTIME_LAYERWISE : VC_RUNTIME_DEQUANTIZE;
}

/* What a program does. VC_DTYPE_NONE, VC_ATTENTION_AUTO: the model or the general rules decide. */
struct program_row {
    struct vc_program_facts facts;
    bool by_layout; /* codes are treated as vc_memory_runtime says; else as `runtime` */
    enum vc_runtime runtime;
    enum vc_dtype activations, cache;
    enum vc_attention attention;
    bool bare; /* nothing of a device is there: no context, no workspace; values are written over */
};

#define ROW(name, ideal, allocator, ...)      \
    {                                         \
        {name, ideal, allocator}, __VA_ARGS__ \
    }
static const struct program_row rows[VC_RUN_BY_COUNT] = {
    [VC_RUN_BY_PYTORCH] = ROW("pytorch", false, VC_ALLOCATOR_PYTORCH, true, VC_RUNTIME_NATIVE, VC_DTYPE_NONE,
                              VC_DTYPE_NONE, VC_ATTENTION_AUTO, false),
    [VC_RUN_BY_TRANSFORMERS] = ROW("transformers", false, VC_ALLOCATOR_PYTORCH, false, VC_RUNTIME_DEQUANTIZE,
                                   VC_DTYPE_NONE, VC_DTYPE_NONE, VC_ATTENTION_AUTO, false),
    [VC_RUN_BY_BITSANDBYTES] = ROW("bitsandbytes", false, VC_ALLOCATOR_PYTORCH, false, VC_RUNTIME_NATIVE, VC_DTYPE_NONE,
                                   VC_DTYPE_NONE, VC_ATTENTION_AUTO, false),
    [VC_RUN_BY_LLAMA_CPP] = ROW("llama.cpp", true, VC_ALLOCATOR_EXACT, false, VC_RUNTIME_NATIVE, VC_DTYPE_F32,
                                VC_DTYPE_F16, VC_ATTENTION_FUSED, false),
    [VC_RUN_BY_ONNXRUNTIME] = ROW("onnxruntime", true, VC_ALLOCATOR_ONNXRUNTIME, false, VC_RUNTIME_LAYERWISE,
                                  VC_DTYPE_NONE, VC_DTYPE_NONE, VC_ATTENTION_AUTO, false),
    [VC_RUN_BY_VLLM] = ROW("vllm", true, VC_ALLOCATOR_PYTORCH, false, VC_RUNTIME_NATIVE, VC_DTYPE_NONE, VC_DTYPE_NONE,
                           VC_ATTENTION_FUSED, false),
    [VC_RUN_BY_MCU] = ROW("mcu", true, VC_ALLOCATOR_EXACT, false, VC_RUNTIME_NATIVE, VC_DTYPE_F32, VC_DTYPE_NONE,
                          VC_ATTENTION_AUTO, true),
};

/* NULL for "any": nothing is said of the program. */
static const struct program_row *row_of(enum vc_memory_program program)
{
    return program > VC_RUN_BY_ANY && program < VC_RUN_BY_COUNT ? &rows[program] : NULL;
}

const struct vc_program_facts *vc_memory_program_facts(enum vc_memory_program program)
{
    static const struct vc_program_facts any = {.allocator = VC_ALLOCATOR_PYTORCH};

    return row_of(program) != NULL ? &row_of(program)->facts : &any;
}

/* --ubatch-size of llama.cpp. */
#define LLAMA_CPP_POSITIONS 512

/* llama.cpp works on so many positions at once, of all sequences of a batch together; 0: another program, which takes
 * the whole context. */
static uint64_t positions_of(const struct vc_memory_options *options, const struct vc_graph *graph, uint64_t batch)
{
    uint64_t most = vc_graph_lists(graph)->max_positions;
    uint64_t n = LLAMA_CPP_POSITIONS / vc_max_u64(vc_min_u64(batch, LLAMA_CPP_POSITIONS), 1);

    if (options->program != VC_RUN_BY_LLAMA_CPP) {
        return 0;
    }
    n = most != 0 ? vc_min_u64(n, most) : n;
    return options->context_tokens != 0 ? vc_min_u64(n, options->context_tokens) : n;
}

/* A size that is not bound is that of one sequence. */
enum vc_status vc_memory_bind_positions(struct vc_ctx *ctx, struct vc_graph *graph,
                                        const struct vc_memory_options *options, uint64_t otherwise)
{
    int64_t batch = vc_graph_size(graph, "batch");

    if (vc_graph_size(graph, "sequence") == 0) {
        return VC_OK;
    }
    uint64_t n = positions_of(options, graph, batch > 0 ? (uint64_t)batch : 1);
    n = n != 0 ? n : otherwise;
    return n == 0 ? VC_OK : vc_graph_bind(ctx, graph, "sequence", (int64_t)n);
}

/* Layouts whose codes vLLM keeps on the device, too, though their usual loader is another program. */
#define KEPT_BY_VLLM "compressed-tensors gptq awq"

/* For the question what a runtime would take that keeps codes as codes, where the usual one decodes them: vLLM where it
 * loads the layout, else an ideal one without losses. */
void vc_memory_set_keeper(struct vc_memory_options *options, const struct vc_layout *layout, bool *ideal)
{
    if (options->runtime != VC_RUNTIME_DEQUANTIZE) {
        return;
    }
    if (layout != NULL && vc_is_one_of(layout->name, KEPT_BY_VLLM)) {
        vc_memory_set_program(options, VC_RUN_BY_VLLM, layout);
        return;
    }
    options->program = VC_RUN_BY_ANY;
    options->runtime = VC_RUNTIME_NATIVE;
    options->attention = options->attention == VC_ATTENTION_AUTO ? VC_ATTENTION_FUSED : options->attention;
    *ideal = true;
}

/* Sizes that the user has set stay. */
enum vc_status vc_memory_bind_usual(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_layout *layout,
                                    const char *format)
{
    struct vc_memory_options memory;

    vc_memory_defaults(&memory);
    memory.program = vc_memory_program(layout, format, &memory);
    if (vc_graph_size(graph, "sequence") < 0) {
        VC_CALL(vc_memory_bind_positions(ctx, graph, &memory, 0));
    }
    return vc_graph_bind_usual(ctx, graph);
}

/* Of a scheme that weights are asked about in; VC_RUN_BY_PYTORCH: none in particular. */
static enum vc_memory_program program_of_scheme(const char *scheme)
{
    struct vc_scheme_layout layout;

    if (scheme == NULL || !vc_scheme_find(scheme, &layout)) {
        return VC_RUN_BY_PYTORCH;
    }
    if (layout.row == NULL) { /* a type of GGUF, or a mixture of these */
        return VC_RUN_BY_LLAMA_CPP;
    }
    return strncmp(scheme, "nf4", 3) == 0 || strcmp(scheme, "fp4") == 0 ? VC_RUN_BY_BITSANDBYTES : VC_RUN_BY_PYTORCH;
}

/* Loaders of layouts read folders of safetensors. */
static enum vc_memory_program program_of_layout(const struct vc_layout *layout, const char *format)
{
    const char *name = layout != NULL ? layout->name : "";

    if (strcmp(name, "bitsandbytes") == 0) {
        return VC_RUN_BY_BITSANDBYTES;
    }
    if (layout == NULL || format == NULL || strcmp(format, "safetensors") != 0) {
        return VC_RUN_BY_PYTORCH;
    }
    if (strcmp(layout->loader, "vLLM") == 0) {
        return VC_RUN_BY_VLLM;
    }
    return strcmp(layout->loader, "transformers") == 0 ? VC_RUN_BY_TRANSFORMERS : VC_RUN_BY_PYTORCH;
}

/* Training is in PyTorch, or in vcompress itself. The format decides before the layout, and a scheme that the weights
 * are to have before both where it belongs to one program. */
enum vc_memory_program vc_memory_program(const struct vc_layout *layout, const char *format,
                                         const struct vc_memory_options *options)
{
    enum vc_memory_program by_layout = program_of_layout(layout, format);
    bool trains = options != NULL && options->mode != VC_MEMORY_INFER;

    if (trains && options->trainer == VC_MEMORY_VCOMPRESS) {
        return VC_RUN_BY_ANY;
    }
    if (trains) {
        return by_layout == VC_RUN_BY_BITSANDBYTES ? by_layout : VC_RUN_BY_PYTORCH;
    }
    if (format != NULL && strcmp(format, "gguf") == 0) {
        return VC_RUN_BY_LLAMA_CPP;
    }
    if (format != NULL && strcmp(format, "onnx") == 0) {
        return VC_RUN_BY_ONNXRUNTIME;
    }
    if (options != NULL && options->scheme != NULL &&
        (layout == NULL || program_of_scheme(options->scheme) == VC_RUN_BY_LLAMA_CPP)) {
        return program_of_scheme(options->scheme);
    }
    return by_layout;
}

/* Blocks of GGUF are llama.cpp's, and it reads nothing else; bitsandbytes has int8 beside its types of four bits. */
enum vc_program_weights vc_memory_program_weights(enum vc_memory_program program, const char *scheme)
{
    enum vc_memory_program of_scheme = program_of_scheme(scheme);
    enum vc_memory_program without = of_scheme == VC_RUN_BY_LLAMA_CPP ? VC_RUN_BY_ONNXRUNTIME : VC_RUN_BY_LLAMA_CPP;
    bool foreign =
        program == VC_RUN_BY_BITSANDBYTES && of_scheme != program && scheme != NULL && strcmp(scheme, "int8") != 0;

    if (program == without || foreign) {
        return VC_WEIGHTS_NOT_TAKEN;
    }
    return program == VC_RUN_BY_TRANSFORMERS || (program == VC_RUN_BY_PYTORCH && of_scheme != VC_RUN_BY_BITSANDBYTES)
               ? VC_WEIGHTS_DECODED
               : VC_WEIGHTS_KEPT;
}

/* What the user has chosen stays; the row fills in the rest. */
void vc_memory_set_program(struct vc_memory_options *options, enum vc_memory_program program,
                           const struct vc_layout *layout)
{
    const struct program_row *row = row_of(program);

    options->program = program;
    if (row == NULL) {
        return;
    }
    options->runtime = row->by_layout ? vc_memory_runtime(layout) : row->runtime;
    if (options->activations == VC_DTYPE_NONE) {
        options->activations = row->activations;
    }
    if (options->cache == VC_DTYPE_NONE) {
        options->cache = row->cache;
    }
    if (options->attention == VC_ATTENTION_AUTO) {
        options->attention = row->attention;
    }
    if (row->bare) {
        options->context_bytes = options->workspace_bytes = 0;
        options->in_place = true;
    }
}
