/* cmd_dequantize.c - vcompress dequantize: quantized weights back to a float type. */
#include "tools/commands.h"
#include "tools/convert.h"

#define SOURCE_DTYPE 100 /* of target: what each tensor had before */

struct dequantize_cli {
    struct convert_options convert; /* first: the shared options */
    int target;                     /* enum vc_target, or SOURCE_DTYPE; -1: none given */
    struct vc_dequantize_options dequantize;
    int overflow;
};

#define FIELD(member) offsetof(struct dequantize_cli, member)

/* clang-format off */
static const struct opt target_opts[] = {
    {.name = "f32", .kind = OPT_ONE_OF, .set = VC_TARGET_F32, .field = FIELD(target), .help = "to f32 (default)"},
    {.name = "fp16", .kind = OPT_ONE_OF, .set = VC_TARGET_F16, .field = FIELD(target),
     .help = "to IEEE half precision"},
    {.name = "bf16", .kind = OPT_ONE_OF, .set = VC_TARGET_BF16, .field = FIELD(target), .help = "to bfloat16"},
    {.name = "source-dtype", .kind = OPT_ONE_OF, .set = SOURCE_DTYPE, .field = FIELD(target),
     .help = "to what each tensor was before it was quantized"},
    {.name = "casts", .kind = OPT_BOOL, .set = 1, .field = FIELD(dequantize.casts),
     .help = "f16 and bf16 tensors become the target as well"},
    {.name = "overflow", .value = "error|inf|sat", .kind = OPT_CHOICE, .field = FIELD(overflow),
     .help = "values beyond the target's range: stop, make them Inf, or the largest finite (default error)"},
};
/* clang-format on */

static const struct opt_group group_target = {"Target", target_opts, sizeof(target_opts) / sizeof(target_opts[0]), 0};
static const struct opt_group *const groups[] = {
    &group_target, &group_select, &group_write, &group_run, &group_json, &group_report, &group_help,
};

static const char *tag_of(int target)
{
    switch (target) {
    case VC_TARGET_F16:
        return "fp16";
    case VC_TARGET_BF16:
        return "bf16";
    case SOURCE_DTYPE:
        return "source";
    default:
        return "f32";
    }
}

static int run_dequantize(struct app *app, int n_args, char **args)
{
    struct dequantize_cli cli = {.target = -1};
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    enum vc_status status;
    int rc;

    vc_dequantize_defaults(&cli.dequantize);
    rc = app_parse(app, n_args, args, &cli);
    if (rc == GO_ON) {
        rc = convert_open(app, &cli.convert, tag_of(cli.target), &model);
    }
    if (rc != GO_ON) {
        return rc;
    }
    cli.dequantize.source_dtype = cli.target == SOURCE_DTYPE;
    if (cli.target >= 0 && cli.target != SOURCE_DTYPE) {
        cli.dequantize.target = (enum vc_target)cli.target;
    }
    cli.dequantize.overflow = (enum vc_overflow)cli.overflow;
    cli.dequantize.rules = cli.convert.select.rules;
    cli.dequantize.n_rules = cli.convert.select.n_rules;

    status = vc_job_create(app->ctx, model, &job);
    if (status == VC_OK) {
        status = vc_job_add_dequantize(app->ctx, job, &cli.dequantize);
    }
    rc = status == VC_OK ? convert_finish(app, &cli.convert, job) : app_fail(app, status);
    vc_job_free(job);
    vc_model_close(model);
    return rc;
}

const struct command command_dequantize = {
    .name = "dequantize",
    .usage = "[--f32 | --fp16 | --bf16 | --source-dtype] [options] INPUT [-o OUTPUT]",
    .summary = "turn quantized weights back into floats",
    .text = "Decodes every quantized tensor, value = (code - zero point) * scale, and drops its scales. Tensors that "
            "are not quantized are kept bit for bit unless --casts is given.",
    .groups = groups,
    .n_groups = sizeof(groups) / sizeof(groups[0]),
    .args = "FILE",
    .schema = "vcompress.report/1",
    .run = run_dequantize,
};
