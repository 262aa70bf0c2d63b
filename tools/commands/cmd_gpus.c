/* cmd_gpus.c - vcompress gpus: the catalogue, or the part of it that matches a name; no GPU is asked. The rows are in
 * the library (vc_gpus_open), those of the user in --gpus-file or in the configuration folder (cards.h). */
#include <errno.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/model/cards.h"

struct gpus_cli {
    struct base_options base;
    const char *file; /* --gpus-file; NULL: none */
    bool csv;         /* --csv */
};

/* clang-format off */
static const struct opt gpus_opts[] = {
    {.name = "gpus-file", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, .field = offsetof(struct gpus_cli, file),
     .help = "more rows, or others for names that are there: CSV with the titles that --csv prints, of which name and "
             "memory_gb are enough"},
    {.name = "csv", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct gpus_cli, csv),
     .conflicts = "json", .help = "print the list as CSV, the form of --gpus-file"},
};
/* clang-format on */
static const struct opt_group group_gpus = OPT_GROUP("Catalogue", gpus_opts);
static const struct opt_group *const groups[] = {&group_gpus, &group_run, &group_json, &group_report, &group_help};

/* The types that matrix units compute with for certain, "fp16 bf16 tf32 int8"; "?" where only uncertain ones are
 * listed. */
static const char *types_text(char *buf, size_t n, const struct vc_gpu *gpu)
{
    size_t used = 0;

    buf[0] = '\0';
    for (unsigned k = 0; k < VC_GPU_TYPES && used < n; k++) {
        if ((gpu->types >> k & 1) != 0) {
            used += (size_t)snprintf(buf + used, n - used, "%s%s", used == 0 ? "" : " ", vc_word(VC_WORDS_GPU_TYPE, k));
        }
    }
    return gpu->types == 0 && gpu->types_unsure != 0 ? "?" : buf;
}

/* One row. The memory that a program sees was measured (VC_GPU_FROM_CUDA), or is known from below: "> 23.5 GiB". */
static void add_card(struct table *table, const struct out *out, const struct vc_gpu *gpu)
{
    char types[128];
    bool measured = gpu->visible_from == VC_GPU_FROM_CUDA;

    table_cell(table, 'l', "name", INK_NONE, gpu->name);
    table_cell(table, 'r', "sold as", INK_NONE, fmt_text(CELL, "%g GB", gpu->memory_gb));
    /* what is not known for sure is known from below */
    table_cell(table, 'r', "visible", measured ? INK_NONE : INK_DIM,
               fmt_text(CELL, "%s%s", measured ? "" : "> ", fmt_size(CELL, out, gpu->visible_bytes)));
    table_cell(table, 'r', "GB/s", INK_NONE,
               gpu->bandwidth_gb_s != 0 ? fmt_text(CELL, "%.4g", gpu->bandwidth_gb_s) : "-");
    table_cell(table, 'r', "CUDA", INK_NONE, gpu->major != 0 ? fmt_text(CELL, "%d.%d", gpu->major, gpu->minor) : "-");
    table_cell(table, 'l', "matrix units", INK_NONE, types_text(types, sizeof types, gpu));
    table_end_row(table);
}

/* The table of GPUs; instances of clouds have lines of their own (print_instances). False: no memory. */
static bool print_cards(struct app *app, const struct vc_gpus *gpus, const char *match)
{
    struct table table = {.failed = false};
    const struct vc_gpu *gpu;

    for (size_t k = 0; (gpu = vc_gpu(gpus, k)) != NULL; k++) {
        if (gpu->of == NULL && (match == NULL || vc_gpu_matches(gpu, match))) {
            add_card(&table, &app->out, gpu);
        }
    }
    return table_print(&table, &app->out, true);
}

/* The instances of clouds that match, or whose GPUs do: a line each. */
static void print_instances(struct app *app, const struct vc_gpus *gpus, const char *match)
{
    const struct vc_gpu *gpu;
    size_t n = 0;

    for (size_t k = 0; (gpu = vc_gpu(gpus, k)) != NULL; k++) {
        if (gpu->of != NULL && (match == NULL || vc_gpu_matches(gpu, match))) {
            fputs(n++ == 0 ? "instances, whose GPUs keep memories of their own\n  " : "  ", app->out.to);
            say(app->out.to, "%s: %u %s %s\n", gpu->name, gpu->count, out_times(&app->out), gpu->of->name);
        }
    }
}

/* With -v: other names and notes. */
static void print_notes(struct app *app, const struct vc_gpus *gpus, const char *match)
{
    const struct vc_gpu *gpu;

    for (size_t k = 0; app->common.verbose > 0 && (gpu = vc_gpu(gpus, k)) != NULL; k++) {
        if ((match != NULL && !vc_gpu_matches(gpu, match)) || (gpu->n_aliases == 0 && *gpu->note == '\0')) {
            continue;
        }
        say(app->out.to, "  %s", gpu->name);
        for (size_t i = 0; i < gpu->n_aliases; i++) {
            say(app->out.to, "%s%s", i == 0 ? ": also called " : ", ", gpu->aliases[i]);
        }
        say(app->out.to, "%s%s\n", *gpu->note == '\0' ? "" : gpu->n_aliases != 0 ? "; " : ": ", gpu->note);
    }
}

/* The whole list for people. GO_ON or a status. */
static int print_catalogue(struct app *app, const struct vc_gpus *gpus, const char *match)
{
    if (!print_cards(app, gpus, match)) {
        return app_refuse(app, VC_E_NOMEM, "not enough memory to print the list");
    }
    print_instances(app, gpus, match);
    print_notes(app, gpus, match);
    return GO_ON;
}

/* --csv to where the report goes, or the JSON document. GO_ON or a status. */
static int print_document(struct app *app, const struct gpus_cli *cli, const struct vc_gpus *gpus, const char *match)
{
    char *text = NULL;
    enum vc_status status =
        cli->csv ? vc_gpus_csv(app->ctx, gpus, match, &text)
                 : vc_document_json(app->ctx,
                                    &(struct vc_document){.kind = VC_DOCUMENT_GPUS, .of = gpus, .match = match}, &text);
    int rc = GO_ON;

    if (status != VC_OK) {
        return app_fail(app, status);
    }
    if (cli->csv) {
        app->print_error = fputs(text, app->out.to) < 0 ? errno : 0;
    } else {
        rc = json_print(app, text);
    }
    vc_text_free(text);
    return rc;
}

/* Of GPUs and of instances. match NULL: all match. */
static bool any_matches(const struct vc_gpus *gpus, const char *match)
{
    const struct vc_gpu *gpu;

    for (size_t k = 0; (gpu = vc_gpu(gpus, k)) != NULL; k++) {
        if (match == NULL || vc_gpu_matches(gpu, match)) {
            return true;
        }
    }
    return false;
}

/* The table is for people, the document for --json, CSV for --gpus-file of another machine. */
static int show(struct app *app, const struct gpus_cli *cli, const struct vc_gpus *gpus, const char *match)
{
    int rc = GO_ON;

    if (!any_matches(gpus, match)) {
        return app_usage(app, "no GPU matches '%s'; vcompress gpus lists all of them", match);
    }
    if (cli->csv) {
        return print_document(app, cli, gpus, match);
    }
    if (app_prints(app)) {
        rc = print_catalogue(app, gpus, match);
    }
    return rc == GO_ON && app->json.on ? print_document(app, cli, gpus, match) : rc;
}

/* The catalogue is opened after the words are checked. */
static int run_gpus(struct app *app, int n_args, char **args)
{
    struct gpus_cli cli = {.csv = false};
    struct vc_gpus *gpus = NULL;
    int rc = app_parse(app, n_args, args, &cli);

    GO(rc);
    if (app->parsed.n_args > 1) {
        return app_usage(app, "gpus takes one name, but got '%s' too", app->parsed.args[1]);
    }
    GO(app_open(app));
    GO(json_check(app));
    enum vc_status status = cards_open(app, cli.file, &gpus);
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    rc = show(app, &cli, gpus, app->parsed.n_args == 1 ? app->parsed.args[0] : NULL);
    vc_result_free(gpus);
    return rc == GO_ON ? EXIT_YES : rc;
}

const struct command command_gpus = {
    .name = "gpus",
    .usage = "[options] [NAME]",
    .summary = "list GPUs that are known: their memory, bandwidth and types",
    .schema = "vcompress.gpus/1",
    .text =
        "A catalogue; no GPU is needed. NAME lists the GPUs that match: 'a100', 'ada', 'RTX 4060'. A program sees less "
        "memory than the vendor's number; a figure after > is a lower bound. -v adds other names and notes.\n"
        "  vcompress gpus 'RTX 4060'\n"
        "  vcompress gpus --csv > cards.csv",
    .first = "csv gpus-file json",
    OPT_GROUPS(groups),
    .run = run_gpus,
};
