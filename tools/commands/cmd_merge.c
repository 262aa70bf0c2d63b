/* cmd_merge.c - vcompress merge: low-rank adapters become part of the weights. A pass (pass_merge) that takes files
 * beside its input; the library reads the adapters and finds their modules in the model. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/convert/passes.h"

#define MAX_LORAS 16

struct merge_cli {
    struct convert_options convert;     /* first: the shared options */
    struct vc_merge_options merge;      /* what the pass gets */
    struct vc_lora loras[MAX_LORAS];    /* of --lora, in the order given */
    struct vc_model *models[MAX_LORAS]; /* opened for the first input; they serve all */
    char *paths[MAX_LORAS];             /* owned; without the weight behind '=' */
    size_t n_loras;
};

/* "ADAPTER" or "ADAPTER=0.5": what stands behind the last '=' is the weight if it is a number. A path may have an
 * equals sign: "a=b" without a number behind it is a path. */
static bool take_lora(void *group, const char *value)
{
    struct merge_cli *cli = group;
    const char *equals = strrchr(value, '=');
    char *end = NULL;
    double weight = equals != NULL ? strtod(equals + 1, &end) : 1.0;
    /* a number, and nothing behind it */
    bool given = end != NULL && end != equals + 1 && *end == '\0';
    size_t n = given ? (size_t)(equals - value) : strlen(value);

    if (n == 0 || cli->n_loras == MAX_LORAS || !isfinite(weight)) {
        return false;
    }
    char *path = malloc(n + 1);
    if (path == NULL) {
        return false;
    }
    memcpy(path, value, n);
    path[n] = '\0';
    cli->paths[cli->n_loras] = path;
    cli->loras[cli->n_loras++].weight = given ? weight : 1.0;
    return true;
}

#define MERGE(member) OPT_FIELD(struct merge_cli, merge.member)

/* clang-format off */
static const struct opt merge_opts[] = {
    {.name = "lora", .value = "ADAPTER[=WEIGHT]", .file = FILE_READ, .kind = OPT_CALL, .call = take_lora, .option = "loras",
     .help = "a folder of PEFT (adapter_config.json beside adapter_model.safetensors), or a single file of kohya or diffusers; "
             "repeatable, up to 16; WEIGHT multiplies what it adds (default 1)"},
    {.name = "partial", .kind = OPT_BOOL, .set = 1, MERGE(partial),
     .help = "leave out modules of the adapter that the model does not have, such as those of a text encoder beside a UNet; "
             "without this option such an adapter is refused as one of another model"},
};
/* clang-format on */

static const struct opt_group group_merge = OPT_GROUP("Adapters", merge_opts);
static const struct opt_group *const groups[] = {
    &group_merge, &group_write, &group_write_graph, &group_write_values, &group_gates,
    &group_run,   &group_json,  &group_comment,     &group_report,       &group_help,
};

/* pass_row.begin, ready, add and end (passes.h) */
static void begin(void *cli)
{
    vc_merge_defaults(&((struct merge_cli *)cli)->merge);
}

/* Adapters are opened once and serve all inputs. */
static enum vc_status open_adapters(struct vc_ctx *ctx, void *cli, const struct vc_merge_options **out)
{
    struct merge_cli *own = cli;
    enum vc_status status = VC_OK;

    for (size_t i = 0; status == VC_OK && i < own->n_loras; i++) {
        if (own->models[i] == NULL) {
            status = vc_model_open(ctx, own->paths[i], NULL, &own->models[i]);
            own->loras[i].adapter = own->models[i];
        }
    }
    own->merge.loras = own->loras;
    own->merge.n_loras = own->n_loras;
    *out = &own->merge;
    return status;
}

/* pass_row.ready: whether the options say enough; the tag is part of the output's usual name. */
static int ready(struct app *app, void *cli, struct conversion *what)
{
    const struct merge_cli *own = cli;

    what->tag = "merged";
    what->merge = open_adapters;
    what->merge_user = cli;
    return own->n_loras != 0 ? GO_ON : app_usage(app, "merge needs an adapter: --lora ADAPTER");
}

static enum vc_status add(struct vc_ctx *ctx, struct vc_job *job, const struct vc_model *model, void *cli)
{
    const struct vc_merge_options *merge;
    enum vc_status status = open_adapters(ctx, cli, &merge);

    return status == VC_OK ? vc_job_add_merge(ctx, job, merge) : status;
}

/* pass_row.end */
static void end(void *cli)
{
    struct merge_cli *own = cli;

    for (size_t i = 0; i < own->n_loras; i++) {
        vc_model_close(own->models[i]);
        free(own->paths[i]);
    }
}

const struct pass_row pass_merge = {.command = &command_merge,
                                    .size = sizeof(struct merge_cli),
                                    .begin = begin,
                                    .ready = ready,
                                    .add = add,
                                    .end = end};

static int run_merge(struct app *app, int n_args, char **args)
{
    return pass_run(app, &pass_merge, n_args, args);
}

const struct command command_merge = {
    .name = "merge",
    .usage = "--lora ADAPTER[=WEIGHT]... [options] INPUT... [-o OUTPUT | -d DIR]",
    .summary = "add low-rank adapters (LoRA, DoRA) to the weights",
    .text = "W becomes W + WEIGHT * scale * B A, tile by tile, so that a model of any size passes through a few MiB. "
            "The output has "
            "the names, shapes and types of the model (docs/merge.md).\n"
            "  vcompress merge --lora my-adapter/ llama/ -o llama-mine\n"
            "  vcompress merge --lora style.safetensors=0.8 sdxl.safetensors\n"
            "  vcompress run --pass 'merge --lora my/' --pass 'quantize --int4' llama/\n"
            "  vcompress merge --lora my-adapter/ llama/ -o llama-mine.gguf",
    .first = "lora partial output output-dir force dry-run json",
    OPT_GROUPS(groups),
    .args = "FILE",
    .schema = "vcompress.report/1",
    .run = run_merge,
};
