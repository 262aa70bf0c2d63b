/* cmd_plan.c - vcompress plan: how a model can be made to fit a GPU, as command lines; the exit status says whether.
 *
 * The library makes the recipes (vc_recipes_make): the model as it is first, then changes in the order of what each one
 * needs less. Here every recipe becomes command lines, and those that are to be printed are tried in a dry run, so that
 * no line is proposed that would be refused. The exit status is 0 if a recipe is certain to fit. */
#include <stdlib.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/model/cards.h"
#include "tools/show/documents.h"
#include "tools/show/plan_lines.h"

/* The options of the command, the device, and what was found. */
struct plan_cli {
    struct memory_cli memory; /* first */
    struct vc_fit_options fit;
    struct vc_recipe_options options; /* of the search */
    const char *gpu, *gpus_file;
    struct device_cli device;
    uint64_t size;       /* of --memory, in bytes; 0: not given */
    bool all, porcelain; /* the switches of their names */
    /* what was found */
    struct vc_gpus *catalogue;
    const struct vc_gpu *found; /* of --gpu; NULL: --memory */
    struct vc_recipes *recipes;
    size_t n;                      /* of the recipes */
    struct vc_recipe_lines *lines; /* of each */
};

/* --without "batch,prune": each word of VC_WORDS_LEVER sets its bit. */
static bool take_without(void *group, const char *value)
{
    struct plan_cli *cli = group;

    for (const char *at = value; at != NULL;) {
        size_t n = strcspn(at, ",");
        unsigned k = 0;

        while (k < VC_LEVERS &&
               (strlen(vc_word(VC_WORDS_LEVER, k)) != n || strncmp(vc_word(VC_WORDS_LEVER, k), at, n) != 0)) {
            k++;
        }
        if (k == VC_LEVERS) {
            return false;
        }
        cli->options.without |= 1u << k;
        at = at[n] == ',' ? at + n + 1 : NULL;
    }
    return true;
}

/* The device and the search. Options of a device that commands share are in DEVICE_OPTIONS. */
/* clang-format off */
static const struct opt plan_opts[] = {
    {.name = "gpu", .value = "NAME[:COUNT]", .kind = OPT_TEXT, .field = offsetof(struct plan_cli, gpu),
     .help = "as vcompress gpus lists them, or auto, the one at hand (default: $VCOMPRESS_GPU); several of a kind may share the model"},
    {.name = "memory", .value = "SIZE", .kind = OPT_SIZE, .option = "visible_bytes", .field = offsetof(struct plan_cli, size),
     .help = "a device of which a program sees that much: 16GiB"},
    {.name = "all", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct plan_cli, all),
     .help = "list every recipe that needs less memory than all less harmful recipes, whether or not the recipe fits"},
    {.name = "scan", .kind = OPT_BOOL, .set = 1, OPT_FIELD(struct plan_cli, options.scan),
     .help = "read the weights and measure the errors; else they are usual ones"},
    {.name = "without", .value = "LIST", .kind = OPT_CALL, .call = take_without,
     .wanted = "a list of weights, prune, cache, batch, context, accumulation, recompute, amp, optimizer, devices and experts, by commas",
     .help = "leave as they are: weights, prune, cache, batch, context; in training accumulation, recompute, amp, optimizer; of several "
             "devices that they share the model: devices; llama.cpp's experts in the memory of the host: experts"},
    DEVICE_OPTIONS(struct plan_cli),
    {.name = "porcelain", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct plan_cli, porcelain),
     .help = "the command lines alone"},
};
/* clang-format on */
static const struct opt_group group_plan = OPT_GROUP("Plan", plan_opts);
static const struct opt_group *const groups[] = {&group_plan,    &group_model,  &group_memory, &group_kind,
                                                 &group_devices, &group_known,  &group_run,    &group_json,
                                                 &group_page,    &group_report, &group_help};

/* ---- deciding ---- */

/* The one device that the plan is for. Without an option VCOMPRESS_GPU names it. A count, "T4:4", is the number of
 * devices that may share the model. GO_ON or a status. */
static int find_device(struct app *app, struct plan_cli *cli)
{
    unsigned count = 1;

    GO(device_size_check(app));
    if (cli->gpu != NULL && cli->size != 0) {
        return app_usage(app, "--gpu and --memory are two devices: a plan is for one");
    }
    if (cli->gpu == NULL && cli->size == 0) {
        cli->gpu = getenv("VCOMPRESS_GPU");
        if (cli->gpu == NULL || *cli->gpu == '\0') {
            return app_usage(app, "plan needs a device: --gpu NAME or --memory SIZE");
        }
    }
    cli->options.visible_bytes = cli->size;
    if (cli->size != 0 && (cli->device.slice != NULL || options_seen(&app->parsed, "ecc"))) {
        return app_usage(app, "--slice and --ecc are about a GPU: --gpu NAME");
    }
    if (cli->size != 0 && cli->gpus_file != NULL) {
        return app_usage(app, "--gpus-file has GPUs for --gpu NAME: here it would change nothing");
    }
    if (cli->size != 0) {
        return GO_ON;
    }
    enum vc_status status = cards_open(app, cli->gpus_file, &cli->catalogue);
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    int rc = device_find(app, &cli->device, cli->catalogue, cli->gpu, &cli->found, &count, &cli->options.visible_bytes,
                         &cli->fit.used_bytes);
    cli->options.n_devices = count;
    return rc == GO_ON ? memory_cli_check_devices(app, &cli->memory, cli->gpu, count) : rc;
}

/* Command lines of all recipes, then the dry runs of those that are shown: with --all or --json all, else the best. A
 * recipe that a dry run refuses loses its lines and is no candidate any more, so that the best may change in the
 * loop. */
static int make_lines(struct app *app, struct plan_cli *cli)
{
    const struct plan_lines all = {.source = &cli->memory.source,
                                   .gpu = options_seen(&app->parsed, "gpu") ? NULL : cli->gpu};
    int rc = GO_ON;

    /* the number of recipes */
    while (vc_recipe(cli->recipes, cli->n) != NULL) {
        cli->n++;
    }
    cli->lines = calloc(cli->n, sizeof *cli->lines);
    if (cli->lines == NULL) {
        return app_refuse(app, VC_E_NOMEM, "not enough memory for the command lines");
    }
    for (size_t k = 0; rc == GO_ON && k < cli->n; k++) {
        rc = plan_lines_make(app, &all, vc_recipe(cli->recipes, k), &cli->lines[k]);
    }
    signals_end_printing();
    for (size_t k = 0; rc == GO_ON && k < cli->n; k++) {
        const struct vc_recipe *recipe = vc_recipe(cli->recipes, k);
        bool shown = cli->all || app->json.on || k == vc_recipes_best(cli->recipes);

        if (shown && !plan_lines_possible(app, &all, recipe, &cli->lines[k])) {
            cli->lines[k].n = 0;
            vc_recipes_refuse(cli->recipes, k);
        }
    }
    return rc;
}

/* The device, the recipes, their lines. GO_ON or a status. */
static int decide(struct app *app, struct plan_cli *cli)
{
    const struct graph_source *source = &cli->memory.source;
    int rc = find_device(app, cli);

    GO(rc);
    if (cli->options.scan && graph_source_model(source) == NULL) {
        return app_refuse(app, VC_E_UNSUPPORTED, "has no weights that --scan could measure");
    }
    /* the recipes may choose these where nobody said them */
    cli->options.runtime_given = options_seen(&app->parsed, "runtime") || memory_cli_is_mcu(&cli->memory);
    cli->options.allocator_given = options_seen(&app->parsed, "allocator");
    cli->options.usual_positions = memory_cli_usual_positions(&cli->memory);
    enum vc_status status = vc_recipes_make(app->ctx, source->graph, graph_source_model(source), &cli->memory.memory,
                                            &cli->fit, &cli->options, &cli->recipes);
    return status == VC_OK ? make_lines(app, cli) : app_fail(app, status);
}

/* ---- telling ---- */

/* NULL: no recipe is certain to fit. */
static const struct vc_recipe *chosen(const struct plan_cli *cli)
{
    return vc_recipe(cli->recipes, vc_recipes_best(cli->recipes));
}

/* The last one needs least. */
static const struct vc_recipe *nearest(const struct plan_cli *cli)
{
    return vc_recipe(cli->recipes, cli->n - 1);
}

/* The error of the weights, "0.87 %"; "0 %" for a recipe that changes none. */
static const char *fmt_error(char *buf, const struct vc_recipe *recipe)
{
    snprintf(buf, CELL_BYTES, recipe->error == 0 ? "%.0f %%" : "%.2g %%", 100 * recipe->error);
    return buf;
}

/* One row. time: how often the time of the model as it is; empty if no longer. */
static void add_recipe(const struct app *app, struct table *table, const struct vc_recipe *recipe)
{
    enum ink ink = recipe->fit.verdict == VC_FITS ? INK_GOOD : INK_WARN;

    if (recipe->refused || recipe->fit.verdict == VC_FITS_NOT) {
        ink = INK_BAD;
    }
    table_cell(table, 'r', "need", INK_NONE, fmt_size(CELL, &app->out, recipe->fit.need_bytes));
    table_cell(table, 'r', "left", INK_NONE, fmt_headroom(CELL, &app->out, recipe->fit.headroom_bytes));
    table_cell(table, 'l', "verdict", ink, recipe->refused ? "not possible" : vc_fit_word(&recipe->fit, NULL));
    table_cell(table, 'r', "error", INK_NONE, fmt_error(CELL, recipe));
    table_cell(table, 'l', "", INK_DIM, recipe->error == 0 ? "" : recipe->measured ? "measured" : "assumed");
    table_cell(table, 'r', "time", INK_NONE, recipe->time > 1 ? fmt_text(CELL, "%.3g", recipe->time) : "");
    table_cell(table, 'l', "recipe", INK_NONE, recipe->what);
    table_end_row(table);
}

/* All recipes, or the model as it is and the one that was chosen. Where none was chosen, the nearest is shown in its
 * place. False: no memory. */
static bool print_recipes(struct app *app, const struct plan_cli *cli)
{
    const struct vc_recipe *shown = chosen(cli) != NULL ? chosen(cli) : nearest(cli);
    struct table table = {.failed = false};

    for (size_t k = 0; vc_recipe(cli->recipes, k) != NULL; k++) {
        if (cli->all || k == 0 || vc_recipe(cli->recipes, k) == shown) {
            add_recipe(app, &table, vc_recipe(cli->recipes, k));
        }
    }
    return table_print(&table, &app->out, true);
}

/* The command lines of the recipe that was chosen, each behind the text `before`. */
static void print_lines(const struct app *app, const struct plan_cli *cli, const char *before)
{
    const struct vc_recipe_lines *lines = &cli->lines[vc_recipes_best(cli->recipes)];

    for (size_t k = 0; k < lines->n; k++) {
        say(app->out.to, "%s%s\n", before, lines->lines[k]);
    }
}

/* What comes nearest where nothing fits, and what is not known. */
static void print_miss(const struct app *app, const struct plan_cli *cli)
{
    const struct vc_recipe *recipe = nearest(cli);

    bool unread = recipe->report->components[VC_MEMORY_PARAMETERS].known == VC_KNOWN_NOT;

    if (recipe->report->unknown != NULL && (unread || (!cli->fit.weights_only && cli->fit.activation_bytes == 0))) {
        memory_cli_print_unknown(app, recipe->report);
        fputs(unread ? "\n" : "; --weights-only and --activations SIZE help\n", app->out.to);
        memory_cli_print_open(app, &cli->memory);
    }
    if (recipe->refused) {
        fputs("nothing fits that is possible: a dry run of the passes is refused\n", app->out.to);
    } else if (recipe->fit.headroom_bytes < 0) {
        fprintf(app->out.to, "nothing fits; the nearest is %s, which misses by %s\n", recipe->what,
                fmt_size(CELL, &app->out, (uint64_t)-recipe->fit.headroom_bytes));
    } else {
        fputs("nothing is certain to fit\n", app->out.to);
    }
}

/* "llama/ on RTX 3060: 11.5 GiB usable of the 11.8 GiB that a program sees", the table, then the lines or what is
 * missing. False: no memory. */
static bool print_plan(struct app *app, const struct plan_cli *cli)
{
    const struct vc_recipe *recipe = chosen(cli);
    const struct vc_recipe *first = vc_recipe(cli->recipes, 0);

    if (cli->porcelain) {
        if (recipe != NULL) {
            print_lines(app, cli, "");
        }
        return true;
    }
    say(app->out.to, "%s on %s: %s usable of the %s that a program sees%s", app->subject,
        cli->found != NULL ? cli->found->name : "a device", fmt_size(CELL, &app->out, first->fit.usable_bytes),
        fmt_size(CELL, &app->out, first->fit.visible_bytes), cli->fit.weights_only ? "; weights alone" : "");
    memory_cli_print_sizes(app, &cli->memory, "; ");
    fputc('\n', app->out.to);
    if (!print_recipes(app, cli)) {
        return false;
    }
    if (recipe == NULL) {
        print_miss(app, cli);
    } else {
        print_lines(app, cli, "  ");
    }
    if (recipe != NULL && recipe->n_passes != 0 && graph_source_model(&cli->memory.source) == NULL) {
        fputs("no weights were seen: the first line is for those that belong to this model\n", app->out.to);
    }
    return true;
}

/* The report and the document. GO_ON or a status. */
static int tell(struct app *app, const struct plan_cli *cli)
{
    int rc = GO_ON;

    signals_end_printing();
    if (app_prints(app) && !print_plan(app, cli)) {
        rc = app_refuse(app, VC_E_NOMEM, "not enough memory to print the table");
    }
    const struct vc_document document = {.kind = VC_DOCUMENT_PLAN,
                                         .of = cli->recipes,
                                         .gpu = cli->found != NULL ? cli->found->name : NULL,
                                         .path = app->subject,
                                         .lines = cli->lines};

    return rc == GO_ON ? document_plain(app, &document) : rc;
}

/* Exit status 1, or that of a damaged graph where the answer depends on it. With --quiet a sentence says why. */
static int answer_no(struct app *app, const struct plan_cli *cli)
{
    bool unknown = nearest(cli)->fit.verdict == VC_FITS_UNKNOWN && !cli->fit.weights_only;
    int rc = unknown ? memory_cli_refused(app, &cli->memory) : GO_ON;

    if (rc == GO_ON && app->common.quiet) {
        (void)app_gate(app, nearest(cli)->fit.headroom_bytes < 0 ? "no recipe fits" : "no recipe is certain to fit");
    }
    return rc == GO_ON ? EXIT_NO : rc;
}

/* The estimate of the model as it is comes first (memory_cli_count): it opens the model and finds its program. */
static int run_plan(struct app *app, int n_args, char **args)
{
    struct plan_cli cli = {.all = false};

    vc_memory_defaults(&cli.memory.memory);
    vc_fit_defaults(&cli.fit);
    vc_recipe_defaults(&cli.options);
    cli.memory.own_allocator = true; /* as fit */
    GO(app_begin(app, n_args, args, &cli));
    int rc = memory_cli_count(app, &cli.memory);
    cli.memory.memory.budget_bytes =
        cli.memory.seeks_budget ? 0 : cli.memory.memory.budget_bytes; /* of every recipe its own */
    memory_cli_set_fit(app, &cli.memory, &cli.fit);
    rc = rc == GO_ON ? decide(app, &cli) : rc;
    rc = rc == GO_ON ? tell(app, &cli) : rc;
    app_print_memory(app);
    rc = rc == GO_ON && chosen(&cli) == NULL ? answer_no(app, &cli) : rc;
    rc = rc == GO_ON ? EXIT_YES : rc;
    for (size_t k = 0; cli.lines != NULL && k < cli.n; k++) {
        plan_lines_free(&cli.lines[k]);
    }
    free(cli.lines);
    vc_result_free(cli.recipes);
    vc_result_free(cli.catalogue);
    memory_cli_close(&cli.memory);
    return rc;
}

const struct command command_plan = {
    .name = "plan",
    .usage = "[options] --gpu NAME MODEL",
    .summary = "tell how a model can be made to fit a GPU, as command lines",
    .schema = "vcompress.plan/1",
    .text =
        "Finds the least harmful recipe that fits: weights in half precision or in codes of 8 to 2 bits that the "
        "program keeps (bitsandbytes, llama.cpp and others), removed neurons (if the model has a graph), keys and "
        "values of fewer bits, a smaller batch or context; for training the batch in parts, "
        "recomputation, autocast, 8-bit Adam; for several GPUs (NAME:COUNT) a divided model. Prints the command lines "
        "that make the model; the last line checks the fit. Only headers are read, and no GPU is needed. The exit "
        "status is 0 if a recipe fits, else 1; then the nearest recipe is printed with the memory that is missing. "
        "Zeros save no memory on a device, so no recipe prunes single weights.\n"
        "  vcompress plan --gpu 'RTX 3060' --ctx 4096 model/\n"
        "  vcompress plan --gpu T4 --mode train --optimizer adamw --batch 32 --all \\\n"
        "    bert/config.json",
    .first = "gpu memory ctx batch mode optimizer all graph html json",
    OPT_GROUPS(groups),
    .needs = "one MODEL",
    .one = true,
    .args = "FILE",
    .reads_headers = true,
    .takes_config = true,
    .run = run_plan,
};
