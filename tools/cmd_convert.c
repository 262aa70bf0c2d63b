/* cmd_convert.c - vcompress convert: the same tensors in another file format. */
#include "tools/commands.h"
#include "tools/convert.h"

static const struct opt_group *const groups[] = {&group_copy, &group_run, &group_json, &group_report, &group_help};

static int run_convert(struct app *app, int n_args, char **args)
{
    struct convert_options options = {.n_rules = 0};
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    enum vc_status status;
    int rc;

    convert_defaults(&options);
    rc = app_parse(app, n_args, args, &options);
    if (rc == GO_ON) {
        rc = convert_open(app, &options, NULL, &model);
    }
    if (rc != GO_ON) {
        return rc;
    }
    status = vc_job_create(app->ctx, model, &job);
    rc = status == VC_OK ? convert_finish(app, &options, job) : app_fail(app, status);
    vc_job_free(job);
    vc_model_close(model);
    return rc;
}

const struct command command_convert = {
    .name = "convert",
    .usage = "[options] INPUT -o OUTPUT",
    .summary = "write the same tensors in another file format",
    .text = "The extension of the output says its format. Every tensor is copied bit for bit; what the format cannot "
            "hold is refused before anything is read. Quantized tensors keep their codes and scales. No value "
            "changes: casts are the work of quantize (--fp16, --bf16) and dequantize, which also convert when the "
            "output's name asks for another format.\n"
            "  vcompress convert model.npz -o model.safetensors\n"
            "  vcompress convert model.npz -o deflated.npz --deflate",
    .groups = groups,
    .n_groups = sizeof(groups) / sizeof(groups[0]),
    .args = "FILE",
    .schema = "vcompress.report/1",
    .run = run_convert,
};
