/* cmd_fit.c - vcompress fit: whether what a model takes is there on a GPU; the exit status says so.
 *
 * The library counts what the model takes (memory_cli_count) and decides for one device (vc_fit_decide). Here every
 * device that was named becomes a row, the rows become tables or a document, and their verdicts become one exit status:
 *
 *     0    yes: the model fits all named devices, or one of --all-gpus
 *     1    no, or not certain (tight, unknown), or the peak has grown (--baseline)
 *     2..4 wrong options, a damaged model, a failure of the system */
#include <stdlib.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/convert/convert.h"
#include "tools/model/cards.h"
#include "tools/show/documents.h"

#define MAX_DEVICES 32
#define MOST        ((uint64_t)1 << 30)

struct fit_cli {
    struct memory_cli memory; /* first */
    struct vc_fit_options fit;
    const char *gpus[MAX_DEVICES]; /* of --gpu, in the order given: "RTX 4060", "A100:2", "auto" */
    size_t n_gpus;
    const char *gpus_file;
    uint64_t size; /* of --memory, in bytes; 0: not given */
    struct device_cli device;
    const char *baseline;                                /* of --baseline: a document of an earlier run */
    double max_growth;                                   /* a share, of the peak */
    bool all, max_batch, max_ctx, max_layers, porcelain; /* the switches of their names */
    /* what was found */
    uint64_t peak_before; /* bytes, of the baseline */
    bool grew;            /* more than it may */
    struct vc_gpus *catalogue;
    struct vc_fit_row *rows; /* owned; one per device */
    size_t n_rows;
};

/* --gpu, repeatable. */
static bool take_gpu(void *group, const char *value)
{
    struct fit_cli *cli = group;

    if (cli->n_gpus == MAX_DEVICES) {
        return false;
    }
    cli->gpus[cli->n_gpus++] = value;
    return true;
}

/* "2%" or "0.02" */
static bool take_growth(void *group, const char *value)
{
    return growth_share(value, &((struct fit_cli *)group)->max_growth);
}

/* The devices and the question. Options of a device that fit shares with other commands are in DEVICE_OPTIONS. */
/* clang-format off */
static const struct opt fit_opts[] = {
    /* the devices */
    {.name = "gpu", .value = "NAME[:COUNT]", .kind = OPT_CALL, .call = take_gpu,
     .help = "a name from vcompress gpus, or auto: the GPU of this machine; repeatable, the model must fit all "
             "(default: $VCOMPRESS_GPU)"},
    {.name = "memory", .value = "SIZE", .kind = OPT_SIZE, .option = "visible_bytes", .field = offsetof(struct fit_cli, size),
     .help = "a device with this memory for a program: 16GiB"},
    {.name = "all-gpus", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct fit_cli, all),
     .help = "list every GPU that the model fits, the smallest first; the answer is yes if there is such a GPU"},
    /* the largest size in place of a verdict */
    {.name = "max-batch", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct fit_cli, max_batch),
     .help = "also find the largest batch that fits; this is then the answer: 0 means no"},
    {.name = "max-ctx", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct fit_cli, max_ctx),
     .help = "also find the largest context that fits, at most what the model was made for"},
    {.name = "max-gpu-layers", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct fit_cli, max_layers),
     .help = "also find how many of the last layers fit on the device, with the others and their keys and values on "
             "the host; this is then the answer: 0 means no"},
    /* a gate: the peak of an earlier run */
    {.name = "baseline", .value = "FILE", .file = FILE_READ, .kind = OPT_TEXT, .gate = true, .field = offsetof(struct fit_cli, baseline),
     .help = "an earlier document of --json: exit 1 also if the peak has grown by more than --max-growth"},
    {.name = "max-growth", .value = "SHARE", .kind = OPT_CALL, .gate = true, .call = take_growth,
     .wanted = "a share such as 0.02 or 2%",
     .needs = "baseline", .help = "allowed growth of the peak (default 0)"},
    DEVICE_OPTIONS(struct fit_cli),
    {.name = "porcelain", .kind = OPT_BOOL, .set = 1, .field = offsetof(struct fit_cli, porcelain),
     .help = "a line per device: NAME, need and usable memory in MiB, verdict, then the largest batch, context and number of layers "
             "that were asked for, with tabs between"},
};
/* clang-format on */
static const struct opt_group group_fit = OPT_GROUP("Device", fit_opts);
static const struct opt_group *const groups[] = {&group_fit,     &group_model, &group_memory, &group_kind,
                                                 &group_devices, &group_gates, &group_known,  &group_run,
                                                 &group_json,    &group_page,  &group_report, &group_help};

/* ---- deciding ---- */

/* What others have taken of a row's device was found when the row was made and is not in the options, so it is computed
 * back from the row: used = visible - usable - margin. Nothing usable: as given. */
static uint64_t used_of(const struct fit_cli *cli, const struct vc_fit_row *row)
{
    return row->fit.usable_bytes != 0 ? row->fit.visible_bytes - row->fit.usable_bytes - cli->fit.margin_bytes
                                      : cli->fit.used_bytes;
}

/* Decides a row again for a new estimate. */
static enum vc_status decide_row(struct app *app, struct fit_cli *cli, struct vc_fit_row *row)
{
    struct vc_fit_options options = cli->fit;

    options.used_bytes = used_of(cli, row);
    return vc_fit_decide(app->ctx, &cli->memory.report, &cli->memory.memory, row->fit.visible_bytes, &options,
                         &row->fit);
}

/* Adds the verdict for a GPU, or (gpu NULL) for a memory of that size. visible: bytes that a program sees. */
static int add_row(struct app *app, struct fit_cli *cli, const struct vc_gpu *gpu, unsigned count, uint64_t visible)
{
    struct vc_fit_row *row = &cli->rows[cli->n_rows];
    enum vc_status status;

    *row = (struct vc_fit_row){.gpu = gpu, .count = count};
    status = vc_fit_decide(app->ctx, &cli->memory.report, &cli->memory.memory, visible, &cli->fit, &row->fit);
    cli->n_rows += status == VC_OK;
    return status == VC_OK ? GO_ON : app_fail(app, status);
}

/* Adds the device that a word of --gpu means. What others use of the device at hand is found by device_find and holds
 * for this row alone. */
static int add_named(struct app *app, struct fit_cli *cli, const char *name)
{
    const struct vc_gpu *gpu = NULL;
    uint64_t others = cli->fit.used_bytes;
    uint64_t visible = 0;
    unsigned count = 1;
    int rc = device_find(app, &cli->device, cli->catalogue, name, &gpu, &count, &visible, &cli->fit.used_bytes);

    rc = rc == GO_ON ? memory_cli_check_devices(app, &cli->memory, name, count) : rc;
    rc = rc == GO_ON ? add_row(app, cli, gpu, count, visible) : rc;
    cli->fit.used_bytes = others;
    return rc;
}

/* Small devices first; equal ones by name, so that the order is the same everywhere. */
static int by_memory(const void *a, const void *b)
{
    const struct vc_fit_row *x = a;
    const struct vc_fit_row *y = b;

    if (x->fit.visible_bytes != y->fit.visible_bytes) {
        return x->fit.visible_bytes < y->fit.visible_bytes ? -1 : 1;
    }
    return strcmp(x->gpu->name, y->gpu->name);
}

/* --all-gpus: a verdict for every card of the catalogue, except instances of clouds (gpu->of), whose GPU has a row of
 * its own; then only the cards that the model fits stay, sorted. */
static int add_all(struct app *app, struct fit_cli *cli)
{
    size_t kept = 0;
    const struct vc_gpu *gpu;
    int rc = GO_ON;

    for (size_t k = 0; rc == GO_ON && (gpu = vc_gpu(cli->catalogue, k)) != NULL; k++) {
        if (gpu->of == NULL) {
            rc = add_named(app, cli, gpu->name);
        }
    }
    for (size_t k = 0; k < cli->n_rows; k++) {
        if (cli->rows[k].fit.verdict == VC_FITS) {
            cli->rows[kept++] = cli->rows[k];
        }
    }
    cli->n_rows = kept;
    if (kept != 0) {
        qsort(cli->rows, kept, sizeof *cli->rows, by_memory);
    }
    return rc;
}

/* Whether anything in the graph keeps keys and values. */
static bool has_attention(const struct vc_graph *graph)
{
    for (uint32_t n = 0; n < vc_graph_node_count(graph); n++) {
        if (strcmp(vc_graph_node(graph, n)->op, "Attention") == 0) {
            return true;
        }
    }
    return false;
}

/* Refuses questions about the largest size that have no answer for this model: without a graph nothing depends on the
 * batch, without attention nothing on the context. GO_ON or a status. */
static int check_largest(struct app *app, const struct fit_cli *cli)
{
    const struct vc_graph *graph = cli->memory.source.graph;

    if (!cli->max_batch && !cli->max_ctx && !cli->max_layers) {
        return GO_ON;
    }
    if (graph == NULL && (cli->max_batch || cli->max_layers || cli->memory.report.unknown != NULL)) {
        return cli->memory.source.refused != NULL
                   ? app_refuse(app, VC_E_UNSUPPORTED, "%s", cli->memory.source.refused)
                   : app_refuse(app, VC_E_UNSUPPORTED,
                                "does not say what its model computes, so there is no largest size");
    }
    if (cli->max_ctx && graph != NULL && !has_attention(graph)) {
        return app_refuse(app, VC_E_UNSUPPORTED,
                          "has no attention that keeps keys and values, so --max-ctx has no answer");
    }
    if (cli->max_layers && (cli->max_batch || cli->max_ctx || cli->fit.weights_only)) {
        return app_usage(app,
                         "--max-gpu-layers is about batch and context as they are given, and not about weights alone");
    }
    if (cli->max_layers && cli->memory.memory.mode != VC_MEMORY_INFER) {
        return app_usage(app, "--max-gpu-layers is about inference");
    }
    if (cli->max_layers && cli->memory.report.unknown != NULL) {
        return app_refuse(app, VC_E_UNSUPPORTED, "%s, so --max-gpu-layers has no answer", cli->memory.report.unknown);
    }
    return GO_ON;
}

/* With how many layers' experts on the host the model fits a device that has no room for all of it. */
static int find_experts(struct app *app, struct fit_cli *cli)
{
    enum vc_status status = VC_OK;

    for (size_t k = 0; k < cli->n_rows && status == VC_OK; k++) {
        struct vc_fit_row *row = &cli->rows[k];

        if (cli->memory.memory.program == VC_RUN_BY_LLAMA_CPP && row->fit.verdict != VC_FITS) {
            status = vc_fit_cpu_moe(app->ctx, cli->memory.source.graph, graph_source_model(&cli->memory.source),
                                    &cli->memory.memory, row->fit.visible_bytes, &cli->fit, &row->cpu_moe, &row->n_moe,
                                    &row->has_cpu_moe);
            row->has_cpu_moe = row->has_cpu_moe && row->n_moe != 0;
        }
    }
    return status == VC_OK ? GO_ON : app_fail(app, status);
}

/* The largest batch or context of each device, or how many layers it has room for. batch: the symbol whose size
 * vc_fit_largest seeks; without a symbol it seeks context_tokens. GO_ON or a status. */
static int find_largest(struct app *app, struct fit_cli *cli)
{
    const struct vc_model *model = graph_source_model(&cli->memory.source);
    struct vc_graph *graph = cli->memory.source.graph;
    const char *batch = NULL;
    /* what the model was made for: more positions are read wrongly */
    uint64_t most = cli->memory.report.max_positions != 0 ? cli->memory.report.max_positions : MOST;
    enum vc_status status = VC_OK;
    int rc = check_largest(app, cli);

    cli->fit.usual_positions = memory_cli_usual_positions(&cli->memory);
    if (rc == GO_ON && cli->max_batch) {
        rc = memory_cli_symbol(app, graph, "batch", &batch);
    }
    for (size_t k = 0; rc == GO_ON && k < cli->n_rows && status == VC_OK; k++) {
        struct vc_fit_row *row = &cli->rows[k];
        uint64_t visible = row->fit.visible_bytes;
        bool fits = false;

        row->has_batch = cli->max_batch;
        row->has_context = cli->max_ctx;
        row->has_layers = cli->max_layers;
        if (cli->max_batch) {
            status = vc_fit_largest(app->ctx, graph, model, &cli->memory.memory, visible, &cli->fit, batch, MOST,
                                    &row->largest_batch);
        }
        if (cli->max_ctx && status == VC_OK) {
            status = vc_fit_largest(app->ctx, graph, model, &cli->memory.memory, visible, &cli->fit, NULL, most,
                                    &row->largest_context);
        }
        if (cli->max_layers && status == VC_OK) {
            status = vc_fit_layers(app->ctx, graph, model, &cli->memory.report, &cli->memory.memory, visible, &cli->fit,
                                   &row->largest_layers, &row->n_layers, &fits);
        }
    }
    return rc != GO_ON ? rc : status == VC_OK ? GO_ON : app_fail(app, status);
}

/* ---- --recompute auto ---- */

/* --recompute auto without --budget: the room on the smallest device is the budget. The rows hold the last estimate. GO_ON or
 * a status. */
static int fit_budget(struct app *app, struct fit_cli *cli)
{
    struct vc_fit_row *row = cli->rows;
    enum vc_status status = VC_OK;

    for (size_t k = 1; k < cli->n_rows; k++) {
        row = cli->rows[k].fit.headroom_bytes < row->fit.headroom_bytes ? &cli->rows[k] : row;
    }
    if (cli->n_rows != 0) {
        struct vc_fit_options options = cli->fit;

        options.used_bytes = used_of(cli, row);
        status = vc_fit_budget(app->ctx, cli->memory.source.graph, graph_source_model(&cli->memory.source),
                               &cli->memory.memory, &options, &cli->memory.report, &row->fit);
    }
    for (size_t k = 0; k < cli->n_rows && status == VC_OK; k++) {
        status = decide_row(app, cli, &cli->rows[k]);
    }
    return status == VC_OK ? GO_ON : app_fail(app, status);
}

/* ---- the one before ---- */

/* The peak now, as the document of it says it; false: it is not known. With --weights-only or --activations the peak of
 * the first row counts where the report's own peak is unknown. */
static bool peak_now(const struct fit_cli *cli, uint64_t *peak)
{
    const struct vc_memory_part *whole = &cli->memory.report.moments[VC_MOMENT_PEAK];

    *peak = whole->known != VC_KNOWN_NOT ? whole->bytes : cli->n_rows != 0 ? cli->rows[0].fit.peak_bytes : 0;
    return whole->known != VC_KNOWN_NOT || (cli->n_rows != 0 && cli->rows[0].fit.verdict != VC_FITS_UNKNOWN &&
                                            (cli->fit.weights_only || cli->fit.activation_bytes != 0));
}

/* --baseline: reads the earlier peak; cli->grew says whether the growth is more than allowed. An unknown peak on either
 * side is a no, not a pass. GO_ON or a status. */
static int compare(struct app *app, struct fit_cli *cli)
{
    uint64_t now;
    bool known;

    if (cli->baseline == NULL) {
        return GO_ON;
    }
    enum vc_status status = vc_fit_read_peak(app->ctx, cli->baseline, &cli->peak_before, &known);
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    if (!known || !peak_now(cli, &now)) {
        return app_gate(app, known ? "the peak is not known, so that it cannot be compared"
                                   : "the peak of the baseline is not known, so that it cannot be compared");
    }
    cli->grew = (double)now > (double)cli->peak_before * (1 + cli->max_growth);
    return GO_ON;
}

/* In percent. */
static double growth(const struct fit_cli *cli, uint64_t now)
{
    return cli->peak_before == 0 ? 0.0 : 100 * ((double)now / (double)cli->peak_before - 1);
}

/* "peak: 5.02 GiB, 5.00 GiB in fit.json: +0.4 %, at most 2 %" */
static void print_growth(const struct app *app, const struct fit_cli *cli)
{
    uint64_t now;

    (void)peak_now(cli, &now);
    say(app->out.to, "peak: %s, %s in %s: %+.2f %%, at most %g %%%s\n", fmt_size(CELL, &app->out, now),
        fmt_size(CELL, &app->out, cli->peak_before), cli->baseline, growth(cli, now), 100 * cli->max_growth,
        cli->grew ? ": too much" : "");
}

/* Opens the catalogue and makes a row of every device. Without any option of a device the variable VCOMPRESS_GPU names
 * one. GO_ON or a status. */
static int decide(struct app *app, struct fit_cli *cli)
{
    const char *usual = getenv("VCOMPRESS_GPU");
    enum vc_status status = cards_open(app, cli->gpus_file, &cli->catalogue);
    int rc = status == VC_OK ? GO_ON : app_fail(app, status);

    rc = rc == GO_ON ? device_size_check(app) : rc;
    GO(rc);
    if (cli->n_gpus == 0 && cli->size == 0 && !cli->all) {
        if (usual == NULL || *usual == '\0') {
            return app_usage(app, "fit needs a device: --gpu NAME, --memory SIZE or --all-gpus");
        }
        cli->gpus[cli->n_gpus++] = usual;
    }
    if (cli->n_gpus == 0 && !cli->all && (cli->device.slice != NULL || options_seen(&app->parsed, "ecc"))) {
        return app_usage(app, "--slice and --ecc are about a GPU: --gpu NAME");
    }
    if (cli->n_gpus == 0 && !cli->all && cli->gpus_file != NULL) {
        return app_usage(app, "--gpus-file has GPUs for --gpu NAME and --all-gpus: here it would change nothing");
    }
    cli->rows = calloc(vc_gpus_count(cli->catalogue) + MAX_DEVICES + 1, sizeof *cli->rows);
    if (cli->rows == NULL) {
        return app_refuse(app, VC_E_NOMEM, "not enough memory for the answers");
    }
    for (size_t k = 0; rc == GO_ON && k < cli->n_gpus; k++) {
        rc = add_named(app, cli, cli->gpus[k]);
    }
    if (rc == GO_ON && cli->size != 0) {
        rc = add_row(app, cli, NULL, 1, cli->size);
    }
    if (rc == GO_ON && cli->all) {
        rc = add_all(app, cli);
    }
    rc = rc == GO_ON ? find_experts(app, cli) : rc;
    return rc == GO_ON ? find_largest(app, cli) : rc;
}

/* With --max-batch, --max-ctx or --max-gpu-layers the largest size is the question, and 0 is a no; else the verdict
 * is. */
static bool row_is_yes(const struct vc_fit_row *row)
{
    return row->has_layers ? row->largest_layers != 0
           : row->has_batch || row->has_context
               ? (!row->has_batch || row->largest_batch != 0) && (!row->has_context || row->largest_context != 0)
               : row->fit.verdict == VC_FITS;
}

/* The answer: yes of all devices, of one of them with --all-gpus (whose rows are those that fit). A peak that grew too
 * much is a no whatever the devices say. */
static bool is_yes(const struct fit_cli *cli)
{
    if (cli->grew) {
        return false;
    }
    for (size_t k = 0; k < cli->n_rows; k++) {
        if (!row_is_yes(&cli->rows[k]) && !cli->all) {
            return false;
        }
    }
    return cli->n_rows != 0;
}

/* ---- telling ---- */

/* A device of --memory has no name. */
static const char *name_of(const struct vc_fit_row *row)
{
    return row->gpu != NULL ? row->gpu->name : "a device";
}

/* A largest size, with commas or as digits alone; "?": what the model needs is not known. */
static const char *largest_word(char *buf, const struct vc_fit *fit, uint64_t largest, bool commas)
{
    if (fit->verdict == VC_FITS_UNKNOWN && largest == 0) {
        return "?";
    }
    if (commas) {
        return fmt_count(buf, largest);
    }
    snprintf(buf, CELL_BYTES, "%llu", (unsigned long long)largest);
    return buf;
}

/* A line per device with tabs: name, need, usable, verdict. The need is rounded up to MiB and the room down, so that
 * comparing the two is safe. */
static void print_porcelain(const struct app *app, const struct fit_cli *cli)
{
    for (size_t k = 0; k < cli->n_rows; k++) {
        const struct vc_fit_row *row = &cli->rows[k];

        print_clean(app->out.to, name_of(row));
        fprintf(app->out.to, "\t%llu\t%llu\t%s", (unsigned long long)((row->fit.need_bytes + 1048575) >> 20),
                (unsigned long long)(row->fit.usable_bytes >> 20), vc_fit_word(&row->fit, row));
        if (row->has_batch) {
            fprintf(app->out.to, "\t%s", largest_word(CELL, &row->fit, row->largest_batch, false));
        }
        if (row->has_context) {
            fprintf(app->out.to, "\t%s", largest_word(CELL, &row->fit, row->largest_context, false));
        }
        if (row->has_layers) {
            fprintf(app->out.to, "\t%u", row->largest_layers);
        }
        fputc('\n', app->out.to);
    }
}

/* One row of the table. */
static void add_cells(const struct app *app, const struct fit_cli *cli, struct table *table,
                      const struct vc_fit_row *row)
{
    bool fits = row->fit.verdict == VC_FITS;
    enum ink no = row->fit.verdict == VC_FITS_NOT ? INK_BAD : INK_WARN;

    table_cell(table, 'l', "device", INK_NONE, name_of(row));
    table_cell(table, 'r', "visible", INK_NONE, fmt_size(CELL, &app->out, row->fit.visible_bytes));
    table_cell(table, 'r', "usable", INK_NONE, fmt_size(CELL, &app->out, row->fit.usable_bytes));
    table_cell(table, 'r', "left", INK_NONE, fmt_headroom(CELL, &app->out, row->fit.headroom_bytes));
    table_cell(table, 'l', "verdict", fits ? INK_GOOD : no, vc_fit_word(&row->fit, row));
    if (cli->max_batch) {
        table_cell(table, 'r', "batch", INK_NONE, largest_word(CELL, &row->fit, row->largest_batch, true));
    }
    if (cli->max_ctx) {
        table_cell(table, 'r', "context", INK_NONE, largest_word(CELL, &row->fit, row->largest_context, true));
    }
    if (cli->max_layers) {
        table_cell(table, 'r', "layers", INK_NONE, fmt_text(CELL, "%u of %u", row->largest_layers, row->n_layers));
    }
    table_end_row(table);
}

/* The table of devices, with a column for every largest size that was asked for. False: no memory. */
static bool print_rows(struct app *app, const struct fit_cli *cli)
{
    struct table table = {.failed = false};

    for (size_t k = 0; k < cli->n_rows; k++) {
        add_cells(app, cli, &table, &cli->rows[k]);
    }
    return table_print(&table, &app->out, true);
}

/* "GeForce RTX 4090: fits with --n-cpu-moe 12: the experts of 12 of 32 layers are in the memory of the host" */
static void print_experts(const struct app *app, const struct fit_cli *cli)
{
    for (size_t k = 0; k < cli->n_rows; k++) {
        const struct vc_fit_row *row = &cli->rows[k];

        if (row->has_cpu_moe) {
            say(app->out.to,
                "%s: fits with --n-cpu-moe %llu: the experts of %llu of %llu layers are in the memory of the host\n",
                name_of(row), (unsigned long long)row->cpu_moe, (unsigned long long)row->cpu_moe,
                (unsigned long long)row->n_moe);
        }
    }
}

/* "need: 13.6 GiB = 13.2 GiB at the peak + 332 MiB of the device's runtime", then how much of a device is usable. */
static void print_need(const struct app *app, const struct fit_cli *cli, const struct vc_fit *fit)
{
    if (memory_cli_is_mcu(&cli->memory) && fit->context_bytes == 0) {
        say(app->out.to, "need: %s of RAM%s, and %s of flash for the weights\n",
            fmt_size(CELL, &app->out, fit->need_bytes), fit->verdict == VC_FITS_UNKNOWN ? " and what is not known" : "",
            fmt_size(CELL, &app->out, cli->memory.report.host_weight_bytes));
        return;
    }
    say(app->out.to, "need: %s = %s %s + %s of the device's runtime", fmt_size(CELL, &app->out, fit->need_bytes),
        fmt_size(CELL, &app->out, fit->peak_bytes), cli->fit.weights_only ? "of weights" : "at the peak",
        fmt_size(CELL, &app->out, fit->context_bytes));
    if (fit->slack_bytes != 0) {
        fprintf(app->out.to, " + %s that the allocator cannot use", fmt_size(CELL, &app->out, fit->slack_bytes));
    }
    say(app->out.to, "\nusable: what a program sees, less %s", fmt_size(CELL, &app->out, cli->fit.margin_bytes));
    if (cli->fit.used_bytes != 0) {
        fprintf(app->out.to, " and the %s that others have", fmt_size(CELL, &app->out, cli->fit.used_bytes));
    }
    fputc('\n', app->out.to);
}

/* The estimate, the need, the devices, then the document. GO_ON or a status. */
static int tell(struct app *app, const struct fit_cli *cli)
{
    bool shown = app_prints(app);
    bool several = false;
    int rc = GO_ON;

    signals_end_printing();
    for (size_t k = 0; k < cli->n_rows; k++) {
        several = several || cli->rows[k].count > 1;
    }
    if (shown && cli->porcelain) {
        print_porcelain(app, cli);
    } else if (shown) {
        bool printed = memory_cli_print(app, &cli->memory);

        if (cli->n_rows != 0) {
            print_need(app, cli, &cli->rows[0].fit);
            printed = print_rows(app, cli) && printed;
        } else {
            fputs("no GPU of the catalogue is large enough\n", app->out.to);
        }
        print_experts(app, cli);
        if (several) {
            fprintf(app->out.to, "several devices: each has a memory of its own%s\n",
                    memory_cli_devices(&cli->memory) > 1 ? "" : " and holds the whole model");
        }
        if (cli->baseline != NULL) {
            print_growth(app, cli);
        }
        rc = printed ? GO_ON : app_refuse(app, VC_E_NOMEM, "not enough memory to print the table");
    }
    return rc == GO_ON ? document_fit(app, &cli->memory, &cli->fit, cli->catalogue, cli->rows, cli->n_rows,
                                      cli->baseline, cli->peak_before)
                       : rc;
}

/* With --quiet nothing else is printed: the reason of the first device that says no, as the sentence of a gate. */
static void say_why(struct app *app, const struct fit_cli *cli)
{
    char text[3 * CELL_BYTES + 128];
    uint64_t now;
    size_t k = 0;

    while (k + 1 < cli->n_rows && row_is_yes(&cli->rows[k])) {
        k++;
    }
    if (cli->grew) {
        (void)peak_now(cli, &now);
        snprintf(text, sizeof text, "the peak is %s, %.2f %% above the %s of --baseline, --max-growth allows %g %%",
                 fmt_size(CELL, &app->out, now), growth(cli, now), fmt_size(CELL, &app->out, cli->peak_before),
                 100 * cli->max_growth);
        (void)app_gate(app, text);
        return;
    }
    if (cli->n_rows == 0) {
        (void)app_gate(app, "no GPU of the catalogue is large enough");
        return;
    }
    snprintf(text, sizeof text, "%.60s: %s: needs %s%s, %s usable", name_of(&cli->rows[k]),
             vc_fit_word(&cli->rows[k].fit, &cli->rows[k]), fmt_size(CELL, &app->out, cli->rows[k].fit.need_bytes),
             cli->rows[k].fit.verdict == VC_FITS_UNKNOWN ? " and what is not known" : "",
             fmt_size(CELL, &app->out, cli->rows[k].fit.usable_bytes));
    (void)app_gate(app, text);
}

/* The exit status. A damaged graph (memory_cli_refused) is the answer only where nothing else is certain: weights alone
 * that do not fit are a no without any graph. */
static int answer(struct app *app, const struct fit_cli *cli)
{
    bool unknown = false;
    bool no = cli->fit.weights_only;
    int rc = GO_ON;

    if (is_yes(cli)) {
        return EXIT_YES;
    }
    for (size_t k = 0; k < cli->n_rows; k++) {
        unknown = unknown || cli->rows[k].fit.verdict == VC_FITS_UNKNOWN;
        no = no || cli->rows[k].fit.verdict == VC_FITS_NOT;
    }
    rc = unknown && !no ? memory_cli_refused(app, &cli->memory) : GO_ON;
    if (rc == GO_ON && app->common.quiet) {
        say_why(app, cli);
    }
    return rc == GO_ON ? EXIT_NO : rc;
}

static int run_fit(struct app *app, int n_args, char **args)
{
    struct fit_cli cli = {.all = false};

    vc_memory_defaults(&cli.memory.memory);
    vc_fit_defaults(&cli.fit);
    cli.memory.own_allocator = true;
    GO(app_begin(app, n_args, args, &cli));
    int rc = memory_cli_count(app, &cli.memory);
    bool own_budget = cli.memory.seeks_budget; /* which fit_budget finds, from the devices */
    memory_cli_set_fit(app, &cli.memory, &cli.fit);
    rc = rc == GO_ON ? decide(app, &cli) : rc;
    rc = rc == GO_ON && own_budget ? fit_budget(app, &cli) : rc;
    rc = rc == GO_ON ? compare(app, &cli) : rc;
    rc = rc == GO_ON ? tell(app, &cli) : rc;
    app_print_memory(app);
    rc = rc == GO_ON && !own_budget ? memory_cli_check_budget(app, &cli.memory) : rc;
    rc = rc == GO_ON ? answer(app, &cli) : rc;
    vc_result_free(cli.catalogue);
    memory_cli_close(&cli.memory);
    free(cli.rows);
    return rc;
}

const struct command command_fit = {
    .name = "fit",
    .usage = "[options] --gpu NAME MODEL",
    .summary = "tell whether a model fits a GPU, for inference or for training",
    .schema = "vcompress.fit/1",
    .text =
        "No GPU is needed, and only headers are read. The exit status is 0 if the model fits, 1 if the model does not "
        "fit or the answer is not certain: 'tight' means that the margin is used, 'unknown' that a part of the need "
        "is not known (--weights-only and --activations SIZE help if a file has no graph).\n"
        "  vcompress fit --gpu 'RTX 4060' --ctx 4096 llama/\n"
        "  vcompress fit --memory 16GiB --mode train --batch 32 --max-batch model.onnx\n"
        "  vcompress fit --gpu 'RTX 4090' hf:OWNER/NAME\n"
        "  vcompress fit --all-gpus --dtype int4/group:128 llama/",
    .first = "gpu memory batch ctx dtype mode max-batch max-ctx graph json",
    OPT_GROUPS(groups),
    .needs = "one MODEL",
    .one = true,
    .args = "FILE",
    .reads_headers = true,
    .takes_config = true,
    .run = run_fit,
};
