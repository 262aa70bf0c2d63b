/* cmd_convert.c - vcompress convert: the same tensors in another file format. No pass but one (add): convert.c finds
 * the format by the output's name, and the library copies. */
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/convert/c_header.h"
#include "tools/options/library_names.h"

/* The options of the command. */
struct convert_cli {
    struct convert_options convert; /* first */
    struct c_header_options header; /* of --c-header */
};

/* How codes lie in the output. */
/* clang-format off */
static const struct opt layout_opts[] = {
    {.name = "layout", .value = "auto", .more = layout_name, .kind = OPT_WORD,
     OPT_FIELD(struct convert_options, write.layout),
     .help = "of codes in safetensors, and of int4 in ONNX (onnx: MatMulNBits, onnx-qdq: DequantizeLinear): the same codes "
             "and scales as another program finds them, or a refusal where it has no place for them (default auto: as they "
             "lie)"},
};
/* clang-format on */

/* clang-format off */
/* A header is no output of a job: gates of jobs would pass without having been judged, and the rest would change nothing. What
 * has a better sentence is refused by c_header_run. */
static const struct opt header_opts[] = {
    {.name = "c-header", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct convert_cli, header.on),
     .conflicts = "max-bytes min-ratio baseline target-gpu must-fit deflate strip metadata digest shard drop force-foreign keep-names pre no-vocab",
     .help = "write a header of C, for programs on microcontrollers; it has values, codes with their scales and zero points, sizes, a table "
             "of all and a checksum"},
    {.name = "c-prefix", .value = "NAME", .kind = OPT_TEXT, .field = offsetof(struct convert_cli, header.prefix),
     .needs = "c-header", .help = "what all names in it begin with (default: the output's name)"},
    {.name = "c-align", .value = "N", .kind = OPT_COUNT, .field = offsetof(struct convert_cli, header.alignment),
     .needs = "c-header", .help = "bytes that each array is aligned to (default 16)"},
};
/* clang-format on */

static const struct opt_group group_layout = OPT_GROUP("Layout", layout_opts);
static const struct opt_group group_header = OPT_GROUP("C header", header_opts);

static const struct opt_group *const groups[] = {&group_layout, &group_header, &group_write, &group_write_graph,
                                                 &group_gates,  &group_run,    &group_json,  &group_comment,
                                                 &group_report, &group_help};

/* Of a GGUF model that becomes a folder: blocks of the embedding and the head become floats, which loaders of codes
 * want there. Nothing is added where the embedding is no block, or the output is no folder. */
static enum vc_status add(struct vc_ctx *ctx, struct vc_job *job, const struct vc_model *model, void *user)
{
    static const char *const names[] = {"model.embed_tokens.weight", "lm_head.weight"};
    static const struct vc_rule layers = {"model.layers.*", false};
    const struct convert_options *options = user;
    struct vc_dequantize_options dequantize;
    bool any = false;

    for (size_t i = 0; i < 2 && options->open.as_folder; i++) {
        size_t found = vc_model_find(model, names[i]);

        any = any || (found != VC_NO_TENSOR && vc_dtype_is_quantized(vc_model_tensor(model, found)->dtype));
    }
    vc_dequantize_defaults(&dequantize);
    dequantize.rules = &layers;
    dequantize.n_rules = 1;
    dequantize.excluded_as = "codes of layers stay codes";
    return any ? vc_job_add_dequantize(ctx, job, &dequantize) : VC_OK;
}

/* --c-header is a way of its own: it uses no job. */
static int run_convert(struct app *app, int n_args, char **args)
{
    struct convert_cli cli = {.convert = {.n_rules = 0}};
    struct convert_options *options = &cli.convert;
    const struct conversion what = {.tag = "", .add = add, .user = options};

    convert_defaults(options);
    GO(app_parse(app, n_args, args, &cli));
    if (cli.header.on) {
        return c_header_run(app, options, &cli.header);
    }
    options->write.relayout = options->write.layout != NULL && strcmp(options->write.layout, "auto") != 0;
    return convert_run(app, options, &what);
}

const struct command command_convert = {
    .name = "convert",
    .usage = "[options] INPUT... (-o OUTPUT | --format FORMAT [-d DIR])",
    .summary = "write the same tensors in another file format",
    .text =
        "The extension of the output, or --format, decides the format. Every tensor is copied bit for bit. A "
        "tensor that the format cannot store is refused before values are read. Quantized tensors keep their "
        "codes and scales. Weights of GPTQ and AWQ are read, too; --layout writes their codes for other programs. No "
        "value changes: quantize (--fp16, --bf16) and dequantize cast, and also convert if "
        "the output's name has another format.\n"
        "A Hugging Face folder (config.json, weights, tokenizer) whose output is a GGUF file becomes the model that "
        "llama.cpp runs: names, order of rows, metadata and vocabulary are those of llama.cpp. What llama.cpp would "
        "compute in another way is refused. A GGUF model becomes a folder again where the output's name ends in a "
        "slash: "
        "blocks of Q4_0, Q8_0, MXFP4 and NVFP4 as codes that transformers loads, embedding and head as floats. Where "
        "the "
        "output is an ONNX file, the folder becomes the graph of its family with its weights, for onnxruntime: of "
        "decoders with keys and values of earlier tokens as inputs and outputs.\n"
        "  vcompress convert model.npz -o model.safetensors\n"
        "  vcompress convert model.npz -o deflated.npz --deflate\n"
        "  vcompress convert --format safetensors *.npz\n"
        "  vcompress convert --layout compressed-tensors qwen3-gptq/ -o qwen3-ct/\n"
        "  vcompress convert --layout mlx qwen3-ct/ -o qwen3-mlx/\n"
        "  vcompress convert --layout onnx-qdq model.int4.onnx -o model.qdq.onnx\n"
        "  vcompress convert qwen3/ -o qwen3.gguf\n"
        "  vcompress convert qwen3/ -o qwen3.onnx\n"
        "  vcompress convert --format onnx qwen3/ -o qwen3-onnx/\n"
        "  vcompress convert qwen3-q4_0.gguf -o qwen3/\n"
        "  vcompress convert --c-header model.int8.npz -o model.h",
    .first = "format layout c-header max-shard-size output output-dir force dry-run json",
    OPT_GROUPS(groups),
    .args = "FILE",
    .schema = "vcompress.report/1",
    .run = run_convert,
};
