/* cmd_inspect.c - vcompress inspect: what is in a checkpoint, from its headers; --stats reads the values as well. */
#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/convert.h"
#include "tools/inspect.h"

struct inspect_cli {
    struct base_options base;
    struct vc_open_options open;
    bool stats;
};

static bool take_void_as(void *group, const char *value)
{
    ((struct inspect_cli *)group)->open.void_as = VC_DTYPE_BF16;
    return strcmp(value, "bf16") == 0;
}

/* clang-format off */
static const struct opt inspect_opts[] = {
    {.name = "stats", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct inspect_cli, stats),
     .help = "read the values: NaN, Inf, zeros, ranges, and how the magnitudes are spread"},
    {.name = "key", .value = "NAME", .kind = OPT_TEXT, OPT_FIELD(struct inspect_cli, open.key),
     .help = "PyTorch files: the dict whose tensors are the weights, such as ema or nets.0 (default: the usual names)"},
    {.name = "void-as", .value = "bf16", .kind = OPT_CALL, .call = take_void_as, .option = "void_as",
     .help = "what NumPy's raw 2-byte elements (V2) mean"},
};
/* clang-format on */
static const struct opt_group group_inspect = {"Inspect", inspect_opts, 3, 0};
static const struct opt_group *const groups[] = {&group_inspect, &group_run, &group_json, &group_report, &group_help};

/* Size of the file that a plain quantize would write, from a plan; 0 when it cannot be said (quantized already). */
static uint64_t estimate(struct app *app, const struct vc_model *model, enum vc_target target)
{
    const struct vc_write_options write = {.path = NULL, .dry_run = true};
    struct vc_quantize_options quantize;
    struct vc_job *job = NULL;
    uint64_t bytes = 0;

    vc_quantize_defaults(&quantize);
    quantize.target = target;
    if (vc_job_create(app->ctx, model, &job) == VC_OK && vc_job_add_quantize(app->ctx, job, &quantize) == VC_OK &&
        vc_job_plan(app->ctx, job, &write) == VC_OK) {
        bytes = vc_job_report(job)->totals.file_after;
    }
    vc_job_free(job);
    return bytes;
}

static void take_census(struct inspection *in)
{
    for (size_t i = 0; i < in->n_tensors; i++) {
        const struct vc_tensor *tensor = vc_model_tensor(in->model, i);
        struct census *census = &in->census[tensor->dtype];
        bool tied = tensor->alias_of != VC_NO_TENSOR; /* listed, but what it holds counts once */
        bool weight = tensor->role == VC_ROLE_WEIGHT && !tied && tensor->dtype != VC_DTYPE_RAW;

        in->compressed = in->compressed || tensor->compressed;
        in->n_tied += tied;
        census->n_tensors++;
        census->n_elems += tied ? 0 : tensor->n_elems;
        census->bytes += tied ? 0 : tensor->size_bytes;
        in->value_bytes += tied ? 0 : tensor->size_bytes;
        if (tensor->companion_of == VC_NO_TENSOR) {
            in->n_own++;
            in->n_quantized += tensor->quant != NULL || vc_dtype_is_quantized(tensor->dtype);
            in->n_params += weight ? tensor->n_elems : 0;
        }
    }
}

static int look(struct app *app, struct inspection *in, bool stats)
{
    enum vc_status status;
    int rc = GO_ON;

    take_census(in);
    if (in->n_quantized == 0) {
        in->int8_bytes = estimate(app, in->model, VC_TARGET_INT8);
        in->fp16_bytes = estimate(app, in->model, VC_TARGET_F16);
    }
    if (stats) {
        in->stats = calloc(in->n_tensors + 1, sizeof(*in->stats));
        if (in->stats == NULL) {
            return app_refuse(app, VC_E_NOMEM, "not enough memory for the statistics of %zu tensors", in->n_tensors);
        }
        progress_begin(app);
        status = vc_model_stats(app->ctx, in->model, in->stats, in->n_tensors);
        progress_end();
        if (status != VC_OK) {
            return app_fail(app, status);
        }
    }
    if (!app->common.quiet && !(app->json.on && app->json.path == NULL) && !print_inspection(app, in)) {
        rc = app_refuse(app, VC_E_NOMEM, "not enough memory to print the report");
    }
    if (rc == GO_ON && app->json.on) {
        rc = json_print(app, NULL, write_inspection, in);
    }
    app_print_memory(app);
    return rc == GO_ON ? EXIT_YES : rc;
}

static int run_inspect(struct app *app, int n_args, char **args)
{
    struct inspect_cli cli = {.open = {.void_as = VC_DTYPE_RAW}};
    struct inspection in = {.model = NULL};
    struct vc_model *model = NULL;
    enum vc_status status;
    int rc = app_parse(app, n_args, args, &cli);

    if (rc != GO_ON) {
        return rc;
    }
    if (app->parsed.n_args != 1) {
        return app_usage(app, "inspect takes one INPUT file, got %d; see vcompress inspect --help", app->parsed.n_args);
    }
    app->subject = app->parsed.args[0];
    rc = app_open(app);
    if (rc == GO_ON) {
        rc = json_check(app);
    }
    if (rc != GO_ON) {
        return rc;
    }
    status = vc_model_open(app->ctx, app->subject, &cli.open, &model);
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    rc = check_key(app, model, cli.open.key);
    if (rc != GO_ON) {
        vc_model_close(model);
        return rc;
    }
    in.model = model;
    in.n_tensors = vc_model_tensor_count(model);
    rc = look(app, &in, cli.stats);
    free(in.stats);
    vc_model_close(model);
    return rc;
}

const struct command command_inspect = {
    .name = "inspect",
    .usage = "[--stats] [options] INPUT",
    .summary = "tell what is in a checkpoint",
    .text = "Reads headers only, unless --stats is given. Tensors that differ in their number alone share a line; -v "
            "lists every one. The sizes after int8 and fp16 are those that quantize would write, exactly.",
    .groups = groups,
    .n_groups = sizeof(groups) / sizeof(groups[0]),
    .args = "FILE",
    .schema = "vcompress.inspect/1",
    .run = run_inspect,
};
