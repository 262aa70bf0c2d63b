/* cmd_dequantize.c - vcompress dequantize: quantized weights back to a float type.
 *
 * A pass (pass_dequantize), so that vcompress run has it too. */
#include "tools/commands/commands.h"
#include "tools/convert/passes.h"

/* The options of the command. */
struct dequantize_cli {
    struct convert_options convert; /* first: the shared options */
    struct vc_dequantize_options dequantize;
};

/* The types exclude each other (one_of). */
#define DEQUANTIZE(member) OPT_FIELD(struct dequantize_cli, dequantize.member)
#define TARGET             .kind = OPT_ENUM, .one_of = true, .field = offsetof(struct dequantize_cli, dequantize.target)

/* What codes become, and what else is cast. */
/* clang-format off */
static const struct opt target_opts[] = {
    {.name = "f32", TARGET, .set = VC_TARGET_F32, .option = "target=f32", .help = "to f32 (default)"},
    {.name = "fp16", TARGET, .set = VC_TARGET_F16, .option = "target=f16",
     .help = "to IEEE half precision"},
    {.name = "bf16", TARGET, .set = VC_TARGET_BF16, .option = "target=bf16", .help = "to bfloat16"},
    {.name = "source-dtype", .kind = OPT_BOOL, .set = 1, .one_of = true, DEQUANTIZE(source_dtype),
     .help = "each tensor gets its type before quantization"},
    {.name = "casts", .kind = OPT_BOOL, .set = 1, DEQUANTIZE(casts),
     .help = "f16 and bf16 tensors become the target as well"},
    {.name = "overflow", OPT_WORDS({"error", VC_OVERFLOW_ERROR}, {"inf", VC_OVERFLOW_INF}, {"sat", VC_OVERFLOW_SATURATE}), DEQUANTIZE(overflow),
     .help = "values beyond the target's range: stop, make them Inf, or the largest finite (default error)"},
};
/* clang-format on */

static const struct opt_group group_target = OPT_GROUP("Target", target_opts);
static const struct opt_group *const groups[] = {
    &group_target, &group_select, &group_write,   &group_write_graph, &group_write_values, &group_gates,
    &group_run,    &group_json,   &group_comment, &group_report,      &group_help,
};

/* For the output's name: model.fp16.npz. */
static const char *tag_of(const struct vc_dequantize_options *options)
{
    if (options->source_dtype) {
        return "source";
    }
    return options->target == VC_TARGET_F16 ? "fp16" : options->target == VC_TARGET_BF16 ? "bf16" : "f32";
}

/* pass_row.begin: options before the command line is read. */
static void begin(void *cli)
{
    vc_dequantize_defaults(&((struct dequantize_cli *)cli)->dequantize);
}

/* pass_row.ready. decodes: the pass makes f32 of all codes and nothing else, so that the library may decode while it
 * opens the input. */
static int ready(struct app *app, void *cli, struct conversion *what)
{
    struct dequantize_cli *own = cli;

    own->dequantize.rules = own->convert.rules;
    own->dequantize.n_rules = own->convert.n_rules;
    what->tag = tag_of(&own->dequantize);
    what->decodes = own->dequantize.target == VC_TARGET_F32 && !own->dequantize.source_dtype &&
                    own->dequantize.n_rules == 0 && own->dequantize.overflow == VC_OVERFLOW_ERROR;
    return GO_ON;
}

/* pass_row.add */
static enum vc_status add(struct vc_ctx *ctx, struct vc_job *job, const struct vc_model *model, void *cli)
{
    return vc_job_add_dequantize(ctx, job, &((const struct dequantize_cli *)cli)->dequantize);
}

const struct pass_row pass_dequantize = {
    .command = &command_dequantize, .size = sizeof(struct dequantize_cli), .begin = begin, .ready = ready, .add = add};

static int run_dequantize(struct app *app, int n_args, char **args)
{
    return pass_run(app, &pass_dequantize, n_args, args);
}

const struct command command_dequantize = {
    .name = "dequantize",
    .usage = "[--f32 | --fp16 | --bf16 | --source-dtype] [options] INPUT... [-o OUTPUT | -d DIR]",
    .summary = "turn quantized weights back into floats",
    .text = "Decodes every quantized tensor, value = (code - zero point) * scale, and drops its scales. Tensors that "
            "are not quantized are kept bit for bit unless --casts is given.\n"
            "  vcompress dequantize model.int8.npz -o back.npz\n"
            "  vcompress dequantize --bf16 qwen3-gptq/ -o qwen3-bf16",
    .first = "f32 fp16 bf16 source-dtype output output-dir force dry-run json",
    OPT_GROUPS(groups),
    .args = "FILE",
    .schema = "vcompress.report/1",
    .run = run_dequantize,
};
