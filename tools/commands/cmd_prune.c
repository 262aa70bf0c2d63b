/* cmd_prune.c - vcompress prune: options in, a job out. The library does the work; convert.c has what all commands that
 * write a model share. One command has three kinds of pruning, each with a pass of its own:
 *
 *     --sparsity, --pattern, --mask, --set    weights become zero, shapes stay       vc_job_add_prune
 *     --structured, --remove                  rows and columns go                    prune_structured.c
 *     --drop-layers, --keep-layers            whole layers go, before the others     vc_job_add_depth */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/commands/prune_structured.h"
#include "tools/convert/passes.h"
#include "tools/options/library_names.h"

#define MAX_SETS 64

/* Options of three kinds of pruning, of which one run may have several, and what they need beside them. */
struct prune_cli {
    struct convert_options convert;         /* first: the shared options */
    struct vc_prune_options prune;          /* zeros */
    struct vc_depth_options depth;          /* layers */
    struct vc_sparsity_rule sets[MAX_SETS]; /* of --set, in the order given; they point to globs and to argv */
    char *globs[MAX_SETS];                  /* their texts */
    size_t n_sets;
    const char *mask, *calibration;      /* --mask, --calibration */
    bool permanent;                      /* --make-permanent */
    bool alone;                          /* layers are left out, and nothing else is pruned */
    struct vc_model *masks, *statistics; /* files of --mask and --calibration, opened for the first input */
    const char *score;                   /* --score */
    uint64_t n_least;                    /* --drop-layers least:N, with these rows */
    struct vc_data_options data;         /* rows for least:N */
    char *drop, *why;                    /* of the last input */
    struct structured_cli structured;    /* rows and columns */
};

/* "2:4" or "block:4x4". %n says where the text ended: "2:4x" is refused. Bounds are the library's. */
static bool take_pattern(void *group, const char *value)
{
    struct vc_prune_options *prune = &((struct prune_cli *)group)->prune;
    int end = 0;

    if (sscanf(value, "%4u:%4u%n", &prune->keep, &prune->group, &end) == 2 && value[end] == '\0') {
        prune->pattern = VC_PATTERN_N_OF_M;
        return true;
    }
    prune->pattern = VC_PATTERN_BLOCK;
    return sscanf(value, "block:%5ux%5u%n", &prune->block_rows, &prune->block_cols, &end) == 2 && value[end] == '\0';
}

/* --set "GLOB=0.8", repeatable. The argument is cut at its last '=', since a glob may have one. */
static bool take_set(void *group, const char *value)
{
    struct prune_cli *cli = group;
    const char *equals = strrchr(value, '=');

    if (equals == NULL || equals == value || cli->n_sets == MAX_SETS) {
        return false;
    }
    char *glob = strndup(value, (size_t)(equals - value));
    if (glob == NULL) {
        return false;
    }
    cli->globs[cli->n_sets] = glob;
    cli->sets[cli->n_sets++] = (struct vc_sparsity_rule){.glob = glob, .sparsity = equals + 1};
    return true;
}

/* Rows that fill a member of one of the library's three structures. */
#define PRUNE(member)      OPT_FIELD(struct prune_cli, prune.member)
#define DEPTH(member)      OPT_FIELD(struct prune_cli, depth.member)
#define STRUCTURED(member) OPT_FIELD(struct prune_cli, structured.member)

/* Zeros, and rows and columns. Options of one kind name those of the other in `conflicts`. */
/* clang-format off */
static const struct opt prune_opts[] = {
    /* how much, and which weights: a score decides, within a tensor or over all */
    {.name = "sparsity", .letter = 's', .value = "SHARE", .kind = OPT_TEXT, PRUNE(sparsity),
     .conflicts = "structured remove", .help = "share of the weights that become zero, smallest scores first: 0.5 or 50%; existing zeros count"},
    {.name = "scope", OPT_WORDS({"tensor", VC_PRUNE_TENSOR}, {"global", VC_PRUNE_GLOBAL}), PRUNE(scope),
     .conflicts = "remove", .help = "prune the same share of each tensor, which loses more, or all tensors with one threshold (default: with "
             "--sparsity global, by the scores of lamp; with --score magnitude, --set alone, a pattern or "
             "--structured tensor)"},
    {.name = "score", .value = "magnitude|lamp|wanda|sparsegpt|l2|l1|norm|obs", .kind = OPT_WORD, .field = offsetof(struct prune_cli, score),
     .option = "score",
     .conflicts = "remove", .help = "the score of a weight. magnitude: its magnitude; lamp, which means --scope global: its square divided "
             "by the sum of the squares in its tensor that are not smaller, so that no tensor is emptied because its "
             "weights are small; wanda: its magnitude times the size of what it is multiplied with, by --calibration: the "
             "smallest of each row go; sparsegpt: by the second moments of --calibration what its removal costs, and the weights "
             "behind in the row make up for it (default: lamp with --sparsity; magnitude with --scope, --set alone or a pattern). "
             "With --structured: l2, l1, norm, the scales of the normalizations, or obs, what the layers behind lose by the second "
             "moments of --calibration although the others make up for it (default l2)"},
    /* statistics of what the layers get to see (vcompress calibrate) */
    {.name = "calibration", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, OPT_FIELD(struct prune_cli, calibration),
     .help = "--score wanda, sparsegpt or obs, --reconstruct: what the layers get to see, a file of vcompress calibrate"},
    {.name = "calibration-anyway", .kind = OPT_BOOL, .set = 1, PRUNE(calibration_anyway),
     .help = "also statistics that were measured with weights of another training"},
    {.name = "reconstruct", .kind = OPT_BOOL, .set = 1, PRUNE(reconstruct),
     .help = "the weights that stay make up for those that go: least squares, by the second moments of --calibration; with "
             "--structured for whole columns, and biases take the means"},
    /* zeros in a pattern that kernels use */
    {.name = "pattern", .value = "N:M|block:RxC", .kind = OPT_CALL, .call = take_pattern, .option = "pattern",
     .conflicts = "structured remove", .help = "N:M keeps the N largest of every M weights along the input channels (2:4 for sparse tensor cores); "
             "block:RxC removes whole blocks of R rows and C columns"},
    /* rows and columns that go together */
    {.name = "structured", .value = "SHARE", .kind = OPT_TEXT, STRUCTURED(options.share),
     .help = "remove this share of the neurons or channels of every layer: their rows, the columns that read them, "
             "biases, norms; the tensors become smaller (docs/structured.md)"},
    {.name = "remove", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, STRUCTURED(remove),
     .conflicts = "structured", .help = "remove the units of this file, in place of --structured: a line per group with a tensor and axis of the "
             "group and the numbers, such as fc1.weight:0 3,7,12-20"},
    {.name = "dims", .value = "LIST", .kind = OPT_TEXT, STRUCTURED(dims),
     .needs = "structured", .help = "kinds of units to remove: neurons, heads, experts, hidden, by commas (default neurons)"},
    {.name = "round-to", .value = "N", .kind = OPT_COUNT, STRUCTURED(options.round_to),
     .needs = "structured", .help = "the remaining neurons or hidden size are rounded up to a multiple of N"},
    {.name = "couplings", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, STRUCTURED(couplings),
     .needs = "structured remove", .conflicts = "graph", .help = "the rows and columns that belong together, a line per group: fc1.weight:0 = fc1.bias:0 = fc2.weight:1 "
             "(default: from the graph of the model)"},
    {.name = "graph", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, STRUCTURED(graph),
     .needs = "structured remove target-gpu must-fit", .help = "the graph of the model, if its own file has no graph: a list of layers, or an ONNX file"},
    {.name = "layout", .value = "auto", .more = layout_name, .kind = OPT_WORD,
     OPT_FIELD(struct prune_cli, convert.write.layout),
     .needs = "structured remove", .help = "plain: write shapes even if the configuration beside the weights cannot state them, and copy the "
             "configuration unchanged"},
    /* masks from a file, and into one */
    {.name = "mask", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, OPT_FIELD(struct prune_cli, mask),
     .conflicts = "structured remove pattern", .help = "prune by the masks of this file: NAME.mask, or NAME, with 1 for kept weights; tensors without a mask "
             "are kept"},
    {.name = "mask-out", .value = "FILE", .file = FILE_WRITTEN, .kind = OPT_TEXT, PRUNE(mask_path),
     .conflicts = "structured remove", .help = "also write the masks of all pruned tensors: NAME.mask, a bit per weight, for --mask"},
    {.name = "make-permanent", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct prune_cli, permanent),
     .conflicts = "structured remove mask pattern", .help = "apply only the masks of torch.nn.utils.prune: NAME_orig and NAME_mask become the tensor NAME; without "
             "this option prune does the same for every such pair and then prunes the other tensors, too"},
    /* exceptions by name and size */
    {.name = "set", .value = "GLOB=SHARE", .kind = OPT_CALL, .call = take_set, .option = "sets",
     .help = "another share for tensors whose name matches, also for tensors that the default rules skip; repeatable, "
             "the last match decides"},
    {.name = "min-keep", .value = "SHARE", .kind = OPT_TEXT, PRUNE(min_keep),
     .conflicts = "structured remove", .help = "--scope global: at least this share of every tensor stays (default 0.01)"},
    {.name = "min-elements", .value = "N", .kind = OPT_COUNT, PRUNE(min_elems),
     .conflicts = "structured remove mask", .help = "keep tensors with fewer elements (default 0)"},
    /* inputs that are refused unless this says what to do */
    {.name = "nonfinite", OPT_WORDS({"error", VC_NONFINITE_ERROR}, {"keep", VC_NONFINITE_KEEP}), PRUNE(nonfinite),
     .conflicts = "structured remove", .help = "NaN and Inf in the source: stop, or keep that tensor (default error)"},
    {.name = "dequantize", .kind = OPT_BOOL, .set = 1, PRUNE(dequantize),
     .help = "accept quantized weights: they become f32 first"},
};
/* Layers. They go with every other kind of pruning. */
static const struct opt depth_opts[] = {
    /* which layers go: their numbers, or how many by the data */
    {.name = "drop-layers", .value = "LIST|least:N", .kind = OPT_TEXT, DEPTH(drop),
     .help = "remove whole layers, by their numbers from 0: 8,9,10 or 8-10; later layers get new numbers, and "
             "config.json or the metadata of GGUF the new number of layers; before all other pruning. least:N: the N layers "
             "without which, each alone, the answers to the rows of --data change least"},
    {.name = "data", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, OPT_FIELD(struct prune_cli, data.path),
     .needs = "drop-layers", .help = "for least:N, rows, an array for each input of the model (npz, safetensors, ...)"},
    {.name = "rows", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct prune_cli, data.n_rows),
     .needs = "data", .help = "the first N rows only (default: all)"},
    {.name = "length", .value = "N", .kind = OPT_COUNT, OPT_FIELD(struct prune_cli, data.length),
     .needs = "data", .help = "the file holds only tokens, as written by nanoGPT and llm.c; N tokens are a row"},
    /* the same said by what stays, and where the numbers are in the names */
    {.name = "keep-layers", .value = "LIST", .kind = OPT_TEXT, DEPTH(keep),
     .help = "the same, by the layers that stay: 0-7,11"},
    {.name = "layers", .value = "NAME", .kind = OPT_TEXT, DEPTH(layers),
     .needs = "drop-layers keep-layers", .help = "the prefix of the layer numbers in the names of tensors: decoder.block; for models with several lists "
             "of layers, or with layers of several kinds"},
};
/* clang-format on */

static const struct opt_group group_depth = OPT_GROUP("Layers", depth_opts);
static const struct opt_group group_prune = OPT_GROUP("Pruning", prune_opts);
static const struct opt_group *const groups[] = {
    &group_prune, &group_depth, &group_select, &group_write,   &group_write_values, &group_write_zeros, &group_gates,
    &group_known, &group_run,   &group_json,   &group_comment, &group_report,       &group_help,
};

/* pass_row.begin */
static void begin(void *cli)
{
    vc_prune_defaults(&((struct prune_cli *)cli)->prune);
    vc_depth_defaults(&((struct prune_cli *)cli)->depth);
    vc_data_defaults(&((struct prune_cli *)cli)->data);
    vc_structured_defaults(&((struct prune_cli *)cli)->structured.options);
}

/* Layers are left out. */
static bool has_depth(const struct prune_cli *cli)
{
    return cli->depth.drop != NULL || cli->depth.keep != NULL;
}

/* Layers are left out and nothing else is pruned: no other option asks for it. The command then adds no second pass. */
static bool is_depth_alone(const struct app *app, const struct prune_cli *cli)
{
    bool more = cli->n_sets != 0 || cli->mask != NULL || cli->permanent || cli->prune.pattern != VC_PATTERN_NONE;

    for (size_t i = 0; i < sizeof(prune_opts) / sizeof(prune_opts[0]); i++) {
        more = more || options_seen(&app->parsed, prune_opts[i].name);
    }
    return has_depth(cli) && !more && cli->convert.n_rules == 0;
}

/* What stays of a tensor is exact: the gate would pass whatever is left out. */
static int refuse_min_sqnr(struct app *app)
{
    return options_seen(&app->parsed, "min-sqnr")
               ? app_usage(app,
                           "--min-sqnr judges values that change; here rows, columns or layers go, and the rest stays")
               : GO_ON;
}

/* The shared options go to the structure of structured pruning. The output is called model.slim.npz. GO_ON or a
 * status. */
static int ready_structured(struct app *app, struct prune_cli *own, struct conversion *what)
{
    static const struct opt_word scores[] = {{"l2", VC_STRUCTURED_L2},
                                             {"l1", VC_STRUCTURED_L1},
                                             {"norm", VC_STRUCTURED_NORM},
                                             {"obs", VC_STRUCTURED_OBS},
                                             {NULL, 0}};
    struct vc_structured_options *o = &own->structured.options;
    int score = VC_STRUCTURED_L2;

    GO(refuse_min_sqnr(app));
    if (own->score != NULL && !options_choice(scores, own->score, &score)) {
        return app_usage(app, "--score %s: --structured takes l2, l1, norm or obs", own->score);
    }
    o->score = (enum vc_structured_score)score;
    o->scope = own->prune.scope;
    o->dequantize = own->prune.dequantize;
    o->reconstruct = own->prune.reconstruct;
    o->calibration_anyway = own->prune.calibration_anyway;
    o->state_sizes = own->convert.write.layout == NULL || strcmp(own->convert.write.layout, "plain") != 0;
    o->rules = own->convert.rules;
    o->n_rules = own->convert.n_rules;
    o->sets = own->sets;
    o->n_sets = own->n_sets;
    what->tag = "slim";
    return structured_ready(app, &own->structured);
}

/* --sparsity without a word on how its zeros are shared out: lamp loses least (docs/numerics.md). An explicit scope,
 * pattern, mask or score has its own meaning of "smallest" and stays as it is. */
static bool is_shared_by_lamp(const struct app *app, const struct prune_cli *own)
{
    return own->prune.sparsity != NULL && own->score == NULL && !options_seen(&app->parsed, "scope") &&
           own->prune.pattern == VC_PATTERN_NONE && own->mask == NULL && !own->permanent;
}

/* The words of --score without --structured, and the score where none is given. GO_ON or a status. */
static int take_score(struct app *app, struct prune_cli *own)
{
    static const struct opt_word scores[] = {{"magnitude", VC_SCORE_MAGNITUDE},
                                             {"lamp", VC_SCORE_LAMP},
                                             {"wanda", VC_SCORE_WANDA},
                                             {"sparsegpt", VC_SCORE_SPARSEGPT},
                                             {NULL, 0}};
    int score = is_shared_by_lamp(app, own) ? VC_SCORE_LAMP : VC_SCORE_MAGNITUDE;

    if (own->score != NULL && !options_choice(scores, own->score, &score)) {
        return app_usage(app, "--score %s goes with --structured; else magnitude, lamp, wanda or sparsegpt",
                         own->score);
    }
    own->prune.score = (enum vc_prune_score)score;
    return GO_ON;
}

/* --drop-layers least:N and its rows. GO_ON or a status. */
static int take_least(struct app *app, struct prune_cli *own)
{
    int end = 0;

    if (own->depth.drop == NULL || strncmp(own->depth.drop, "least:", 6) != 0) {
        return own->data.path == NULL && own->data.n_rows == 0 && own->data.length == 0
                   ? GO_ON
                   : app_usage(app, "--data, --rows and --length choose layers: --drop-layers least:2");
    }
    if (sscanf(own->depth.drop, "least:%9" SCNu64 "%n", &own->n_least, &end) != 1 || own->depth.drop[end] != '\0' ||
        own->n_least == 0) {
        return app_usage(app, "--drop-layers %s: a number of layers from 1 on, such as least:2", own->depth.drop);
    }
    return own->data.path != NULL ? GO_ON : app_usage(app, "--drop-layers %s needs --data FILE", own->depth.drop);
}

/* The layers that go, by what the answers of this input lose. vc_layers_least measures each layer by leaving it out
 * alone; own->drop is then a list as for --drop-layers, and own->why the reason for the report. */
static enum vc_status choose_layers(struct vc_ctx *ctx, const struct vc_model *model, struct prune_cli *own)
{
    struct vc_evaluate_options options;

    vc_text_free(own->drop);
    vc_text_free(own->why);
    own->drop = own->why = NULL;
    vc_evaluate_defaults(&options);
    options.network.weights = model;
    options.data = &own->data;
    enum vc_status status = vc_graph_build(ctx, model, NULL, &options.network.graph);
    status = status == VC_OK ? vc_layers_least(ctx, &options, own->depth.layers, own->n_least, &own->drop, &own->why)
                             : status;
    own->depth.drop = own->drop;
    own->depth.why = own->why;
    vc_graph_close(options.network.graph);
    return status;
}

/* pass_row.ready: which kind of pruning, and whether something says how much. GO_ON or a status. */
static int ready(struct app *app, void *cli, struct conversion *what)
{
    struct prune_cli *own = cli;
    int rc = take_least(app, own);

    GO(rc);
    if (structured_asked(&own->structured)) {
        return ready_structured(app, own, what);
    }
    GO(take_score(app, own));
    own->prune.rules = own->convert.rules;
    own->prune.n_rules = own->convert.n_rules;
    own->prune.sets = own->sets;
    own->prune.n_sets = own->n_sets;
    if (own->prune.score == VC_SCORE_LAMP && !options_seen(&app->parsed, "scope")) {
        own->prune.scope = VC_PRUNE_GLOBAL;
    }
    what->tag = "pruned";
    own->alone = is_depth_alone(app, own);
    if (own->alone) {
        return refuse_min_sqnr(app);
    }
    what->pairs = true;
    what->beside = own->prune.mask_path;
    if (own->permanent) {
        own->prune.pattern = VC_PATTERN_PAIRS;
        return GO_ON;
    }
    if (own->mask != NULL) {
        own->prune.pattern = VC_PATTERN_GIVEN;
        return GO_ON;
    }
    if (own->prune.sparsity == NULL && own->n_sets == 0 && own->prune.pattern != VC_PATTERN_N_OF_M) {
        return app_usage(app,
                         "nothing says how much to prune: --sparsity 0.5, --pattern 2:4, --structured 0.3, --remove "
                         "FILE, --mask FILE, --make-permanent, or --drop-layers 3,4");
    }
    return GO_ON;
}

/* pass_row.add: layers first, then zeros or rows and columns. Masks and statistics are opened for the first input; they
 * serve all. */
static enum vc_status add(struct vc_ctx *ctx, struct vc_job *job, const struct vc_model *model, void *cli)
{
    struct prune_cli *own = cli;
    enum vc_status status = VC_OK;

    if (has_depth(own)) {
        status = own->n_least != 0 ? choose_layers(ctx, model, own) : VC_OK;
        status = status == VC_OK ? vc_job_add_depth(ctx, job, &own->depth) : status;
        if (status != VC_OK || own->alone) {
            return status;
        }
    }
    if (own->mask != NULL && own->masks == NULL) {
        status = vc_model_open(ctx, own->mask, NULL, &own->masks);
    }
    own->prune.mask = own->masks;
    if (status == VC_OK && own->calibration != NULL && own->statistics == NULL) {
        status = vc_model_open(ctx, own->calibration, NULL, &own->statistics);
    }
    own->prune.calibration = own->structured.options.calibration = own->statistics;
    own->convert.targets.graph = own->structured.graph;
    if (status == VC_OK && structured_asked(&own->structured)) {
        return structured_add(ctx, job, model, &own->structured);
    }
    return status == VC_OK ? vc_job_add_prune(ctx, job, &own->prune) : status;
}

/* pass_row.end */
static void end(void *cli)
{
    struct prune_cli *own = cli;

    for (size_t i = 0; i < own->n_sets; i++) {
        free(own->globs[i]);
    }
    vc_model_close(own->masks);
    vc_model_close(own->statistics);
    vc_text_free(own->drop);
    vc_text_free(own->why);
    structured_end(&own->structured);
}

const struct pass_row pass_prune = {.command = &command_prune,
                                    .size = sizeof(struct prune_cli),
                                    .begin = begin,
                                    .ready = ready,
                                    .add = add,
                                    .end = end};

static int run_prune(struct app *app, int n_args, char **args)
{
    return pass_run(app, &pass_prune, n_args, args);
}

const struct command command_prune = {
    .name = "prune",
    .usage = "(--sparsity SHARE | --pattern N:M | --structured SHARE | --drop-layers LIST | ...) [options] INPUT... "
             "[-o OUTPUT | -d DIR]",
    .summary = "set the smallest weights to zero, or remove neurons or layers",
    .text =
        "Writes a checkpoint with the same tensors, types and shapes, in which the least important weights are zero: "
        "exactly the requested number, among equal weights the first. Biases, norms, embeddings, learned tokens and "
        "positions, and output heads are kept, with the reason in the report; --include selects them. Zeros save "
        "bytes in deflated files (--deflate) and time if hardware skips zeros (--pattern 2:4); on most devices zeros "
        "save no memory.\n"
        "--structured removes whole neurons, channels or heads with all their rows and columns; the tensors become "
        "smaller: file, memory and time shrink everywhere. The couplings of rows and columns come from the graph of "
        "the model (a family of Hugging Face models, GGUF, ONNX, --graph) or from --couplings; --dry-run shows "
        "them.\n"
        "--drop-layers removes whole layers: a smaller model of the same kind, which every loader reads; with --data "
        "those that the answers miss least.\n"
        "  vcompress prune --sparsity 0.5 model.npz\n"
        "  vcompress prune --sparsity 0.8 --scope global --set 'lm_head*=0.5' --deflate \\\n"
        "    model.npz -o small.npz\n"
        "  vcompress prune --pattern 2:4 model.safetensors\n"
        "  vcompress prune --structured 0.3 --round-to 64 model/ -o smaller/\n"
        "  vcompress prune --drop-layers 8-10 model-folder -o smaller\n"
        "  vcompress prune --drop-layers least:2 --data rows.npz model-folder -o smaller",
    .first = "sparsity scope pattern structured graph exclude output dry-run min-sqnr json",
    OPT_GROUPS(groups),
    .args = "FILE",
    .schema = "vcompress.report/1",
    .run = run_prune,
};
