/* documents.c - see documents.h. Each function has the same steps:
 *
 *     is_asked                     without --json, --html and --markdown nothing is made
 *     make                         the document, by the library
 *     tell_json                    writes it for --json, and its table for --markdown; true: a page is wanted
 *     add_document, add_string     what a page shows beside the document, as further members
 *     finish                       makes the page, writes it, frees everything
 *
 * So a page never has figures that its document does not have. docs/documents.md lists the members of each document. */
#include "tools/show/documents.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define TIMELINE_POINTS 240
#define MARKDOWN_LINES  12 /* of tensors or changes */

/* A document on its way out. */
struct telling {
    struct app *app;
    enum vc_status status;       /* of what was made last; nothing more is made after a failure */
    char *text, *drawing, *html; /* owned: the JSON, an SVG for the page, the page */
};

/* Whether any of the three forms was asked for. */
static bool is_asked(const struct app *app)
{
    return app->json.on || app->json.html != NULL || app->json.markdown != NULL;
}

/* The document, where one is asked for. */
static void make(struct telling *t, const struct vc_document *document)
{
    t->status = is_asked(t->app) ? vc_document_json(t->app->ctx, document, &t->text) : VC_OK;
}

/* Writes --json and --markdown. *rc: GO_ON or a status. Returns true where the page is to be made, too. */
static bool tell_json(struct telling *t, int *rc)
{
    *rc = t->status == VC_OK ? GO_ON : app_fail(t->app, t->status);
    if (*rc == GO_ON && t->app->json.on) {
        *rc = json_print(t->app, t->text);
    }
    if (*rc == GO_ON && t->app->json.markdown != NULL) {
        char *table = NULL;
        enum vc_status status = vc_document_markdown(t->app->ctx, t->text, MARKDOWN_LINES, &table);

        *rc = beside_write(t->app, true, status, table);
    }
    return *rc == GO_ON && t->app->json.html != NULL;
}

/* The drawing of the page. */
static void draw(struct telling *t, const struct vc_document *document)
{
    t->status = t->status == VC_OK ? vc_document_svg(t->app->ctx, document, &t->drawing) : t->status;
}

/* Adds a member for the page. */
static void add_document(struct telling *t, const char *key, const struct vc_document *member)
{
    char *json = NULL;

    if (t->status == VC_OK) {
        t->status = vc_document_json(t->app->ctx, member, &json);
    }
    if (t->status == VC_OK) {
        t->status = vc_document_add(t->app->ctx, &t->text, key, json, NULL);
    }
    vc_text_free(json);
}

/* Adds a member with a text, which is quoted here. */
static void add_string(struct telling *t, const char *key, const char *string)
{
    if (t->status == VC_OK) {
        t->status = vc_document_add(t->app->ctx, &t->text, key, NULL, string);
    }
}

/* The page from the document as it is now. The command line is its last member. */
static void make_page(struct telling *t)
{
    if (t->app->line != NULL) {
        add_string(t, "command_line", t->app->line);
    }
    if (t->status == VC_OK) {
        t->status = vc_page_html(t->app->ctx, t->text, t->drawing, &t->html);
    }
}

/* The page, where rc says that nothing failed before. */
static int finish(struct telling *t, int rc)
{
    if (rc == GO_ON && t->app->json.html != NULL) {
        if (t->status == VC_OK && t->html == NULL) {
            make_page(t);
        }
        rc = beside_write(t->app, false, t->status, t->html);
    }
    vc_text_free(t->drawing);
    vc_text_free(t->text);
    return rc;
}

/* For documents whose page needs nothing more. */
static int finish_plain(struct telling *t)
{
    int rc;

    (void)tell_json(t, &rc);
    return finish(t, rc);
}

/* Histograms of some tensors' values, the drawings of a page. Frees them. */
static void add_histograms(struct telling *t, enum vc_status status, struct vc_value_histograms *histograms)
{
    t->status = t->status == VC_OK ? status : t->status;
    if (t->status == VC_OK && histograms->n != 0) {
        add_document(t, "histograms", &(struct vc_document){.kind = VC_DOCUMENT_HISTOGRAMS, .of = histograms});
    }
    vc_result_free(histograms);
}

/* The table of GPUs and whether the model fits each. Frees it. */
static void add_matrix(struct telling *t, enum vc_status status, struct vc_fit_matrix *matrix)
{
    t->status = t->status == VC_OK ? status : t->status;
    if (t->status == VC_OK && matrix->n_rows != 0) {
        add_document(t, "gpus", &(struct vc_document){.kind = VC_DOCUMENT_FIT_MATRIX, .of = matrix});
    }
    vc_result_free(matrix);
}

/* ---- what was done to a model ---- */

/* The matrix of a conversion: weights alone, before and after; a third column where a loader would decode the codes. */
static void add_gpus_of_report(struct telling *t, const struct vc_report_totals *totals)
{
    struct vc_fit_column columns[3] = {{"before", totals->host_before}, {"after", totals->device_native}};
    struct vc_fit_matrix *matrix = NULL;
    struct vc_gpus *gpus = NULL;
    size_t n_columns = 2;
    enum vc_status status = vc_gpus_open(t->app->ctx, NULL, &gpus);

    if (totals->device_dequantized != totals->device_native) {
        /* a loader may decode the codes on the device */
        columns[n_columns++] = (struct vc_fit_column){"after, decoded", totals->device_dequantized};
    }
    if (status == VC_OK) {
        status = vc_fit_matrix_of_bytes(t->app->ctx, columns, n_columns, gpus, &matrix);
    }
    add_matrix(t, status, matrix);
    vc_result_free(gpus);
}

/* The document anew, for the page, which differs from that of --json. */
static void replace_report(struct telling *t, const struct vc_report *report)
{
    vc_text_free(t->text);
    t->text = NULL;
    t->status =
        vc_document_json(t->app->ctx, &(struct vc_document){.kind = VC_DOCUMENT_REPORT, .of = report}, &t->text);
}

/* A page has nothing of time and machine. So two pages of the same conversion have the same bytes. */
static struct vc_report forget_run(const struct vc_report *report)
{
    struct vc_report bare = *report;

    bare.seconds = 0;
    bare.threads = 0;
    bare.device = "";
    bare.peak_pool_bytes = bare.peak_rss_bytes = 0;
    return bare;
}

/* The work is done, so a page that does not fit lacks the table of the tensors and says so. */
static void make_short_page(struct telling *t, const struct vc_report *report)
{
    struct vc_report bare = *report;
    struct vc_report_note *notes = calloc(report->n_notes + 1, sizeof *notes);

    if (notes == NULL) {
        return;
    }
    for (size_t i = 0; i < report->n_notes; i++) {
        notes[i] = report->notes[i];
    }
    notes[bare.n_notes++] =
        (struct vc_report_note){"page", "the page with all tensors does not fit --max-memory: their table is left out"};
    bare.notes = notes;
    bare.n_rows = 0;
    replace_report(t, &bare);
    add_gpus_of_report(t, &report->totals);
    make_page(t);
    free(notes);
}

/* All tensors, GPUs and histograms; if that does not fit --max-memory, the short page. */
static void make_report_page(struct telling *t, const struct vc_report *report, const struct vc_model *model)
{
    const struct vc_report bare = forget_run(report);
    struct vc_value_histograms *histograms = NULL;
    enum vc_status status;

    replace_report(t, &bare);
    add_gpus_of_report(t, &report->totals);
    status = t->status == VC_OK ? vc_value_histograms_of_report(t->app->ctx, report, model, &histograms) : t->status;
    add_histograms(t, status, histograms);
    make_page(t);
    if (t->status == VC_E_NOMEM) {
        make_short_page(t, &bare);
    }
}

/* Only --json tells of each tensor here: a table in Markdown has totals. n_rows is 0 then, so that a run with a million
 * tensors does not make rows that nobody reads. */
int document_report(struct app *app, const struct vc_report *report, const struct vc_model *model)
{
    struct vc_report shown = *report;
    struct telling t = {.app = app};
    int rc;

    shown.n_rows = app->json.on ? shown.n_rows : 0;
    make(&t, &(struct vc_document){.kind = VC_DOCUMENT_REPORT, .of = &shown});
    if (tell_json(&t, &rc)) {
        make_report_page(&t, report, model);
    }
    return finish(&t, rc);
}

/* steps: points of the curves, which only the page has. The page has no seconds: it is the same for every run. */
int document_distill(struct app *app, const struct vc_distillation *d, const struct vc_distill_step *steps,
                     size_t n_steps)
{
    struct vc_distillation bare = *d;
    struct telling t = {.app = app};
    int rc;

    bare.seconds = (double)NAN;
    make(&t, &(struct vc_document){.kind = VC_DOCUMENT_DISTILL, .of = d});
    if (tell_json(&t, &rc)) {
        vc_text_free(t.text);
        t.status = vc_document_json(app->ctx, &(struct vc_document){.kind = VC_DOCUMENT_DISTILL, .of = &bare}, &t.text);
        if (n_steps != 0) {
            add_document(&t, "steps", &(struct vc_document){.kind = VC_DOCUMENT_STEPS, .of = steps, .n = n_steps});
        }
    }
    return finish(&t, rc);
}

/* ---- what is in files ---- */

/* With a page, also where the weights would fit: a file that says nothing of its graph can still be asked that. */
int document_inspect(struct app *app, const struct vc_inspection *in)
{
    struct telling t = {.app = app};
    struct vc_fit_matrix *matrix = NULL;
    struct vc_gpus *gpus = NULL;
    struct vc_memory_options memory;
    enum vc_status status;
    int rc;

    make(&t, &(struct vc_document){.kind = VC_DOCUMENT_INSPECT, .of = in});
    if (tell_json(&t, &rc)) {
        /* Weights alone, as they are and in other types: what a file that says nothing of its graph can be asked. */
        vc_memory_defaults(&memory);
        status = vc_gpus_open(app->ctx, NULL, &gpus);
        if (status == VC_OK) {
            status = vc_fit_matrix_make(app->ctx, NULL, in->model, &memory, NULL, gpus, NULL, 0, &matrix);
        }
        add_matrix(&t, status, matrix);
        vc_result_free(gpus);
    }
    return finish(&t, rc);
}

int document_plain(struct app *app, const struct vc_document *document)
{
    struct telling t = {.app = app};

    make(&t, document);
    return finish_plain(&t);
}

int document_svg(struct app *app, const char *path, const struct vc_document *document)
{
    char *text = NULL;
    enum vc_status status = vc_document_svg(app->ctx, document, &text);
    int rc = status == VC_OK ? svg_write(app, path, text) : app_fail(app, status);

    vc_text_free(text);
    return rc;
}

#define N_HISTOGRAMS 6

/* The tensors of a difference that have the lowest SQNR. At most N_HISTOGRAMS, the worst first: an insertion into a
 * short sorted list. Returns their number. */
static size_t worst_names(const struct vc_diff *diff, const char **names)
{
    double errors[N_HISTOGRAMS];
    size_t n = 0;

    for (size_t i = 0; i < diff->n_rows; i++) {
        const struct vc_diff_row *row = &diff->rows[i];
        /* the last place, from which better rows move down */
        size_t at = n < N_HISTOGRAMS ? n : N_HISTOGRAMS - 1;

        if (row->kind != VC_DIFF_VALUES || !row->numeric || (n == N_HISTOGRAMS && !(row->sqnr_db < errors[at]))) {
            continue;
        }
        while (at > 0 && row->sqnr_db < errors[at - 1]) {
            errors[at] = errors[at - 1];
            names[at] = names[at - 1];
            at--;
        }
        errors[at] = row->sqnr_db;
        names[at] = row->name;
        n += n < N_HISTOGRAMS;
    }
    return n;
}

/* The page has histograms of the worst tensors, of both files. */
int document_diff(struct app *app, const struct vc_model *a, const struct vc_model *b, const struct vc_diff *diff,
                  const struct vc_diff_limits *limits)
{
    struct vc_value_histograms *histograms = NULL;
    struct telling t = {.app = app};
    const char *names[N_HISTOGRAMS];
    enum vc_status status;
    int rc;

    make(&t, &(struct vc_document){.kind = VC_DOCUMENT_DIFF, .of = diff, .a = a, .b = b, .limits = limits});
    if (tell_json(&t, &rc)) {
        status = vc_value_histograms_of_models(app->ctx, a, b, names, worst_names(diff, names), &histograms);
        add_histograms(&t, status, histograms);
    }
    return finish(&t, rc);
}

/* The document is given: the comparison of two others. */
int document_changes(struct app *app, char *document)
{
    struct telling t = {.app = app, .text = document};

    return finish_plain(&t);
}

/* The page has the drawing of all figures, and histograms of the first picks, which have the highest error. */
int document_sensitivity(struct app *app, const struct vc_sensitivity *s)
{
    const struct vc_document document = {.kind = VC_DOCUMENT_SENSITIVITY, .of = s};
    struct vc_value_histograms *histograms = NULL;
    struct telling t = {.app = app};
    const char *names[N_HISTOGRAMS];
    enum vc_status status;
    size_t n = 0;
    int rc;

    if (json_may_stream(app)) {
        struct json_stream stream = {.app = app};
        const struct vc_writer writer = json_writer(&stream);

        return json_written(&stream, vc_sensitivity_json_write(app->ctx, s, &writer));
    }
    make(&t, &document);
    if (tell_json(&t, &rc)) {
        for (; n < N_HISTOGRAMS && n < s->quantize.n_picks; n++) {
            names[n] = s->rows[s->quantize.picks[n].row].name;
        }
        status = vc_value_histograms_of_models(app->ctx, s->model, NULL, names, n, &histograms);
        add_histograms(&t, status, histograms);
        draw(&t, &document);
    }
    return finish(&t, rc);
}

/* ---- what is computed, and what it takes ---- */

/* The page has the drawing of the graph. */
int document_graph(struct app *app, const struct vc_graph *graph, const struct vc_graph_blocks *blocks,
                   const struct vc_model *model)
{
    const struct vc_document document = {
        .kind = VC_DOCUMENT_GRAPH, .of = graph, .blocks = blocks, .model = model, .path = app->subject};
    struct telling t = {.app = app};
    int rc;

    make(&t, &document);
    if (tell_json(&t, &rc)) {
        add_string(&t, "file", app->subject);
        draw(&t, &document);
    }
    return finish(&t, rc);
}

/* What estimate and fit show of a run: the memory at each step (a timeline of at most TIMELINE_POINTS points), and the
 * matrix of GPUs. */
static void add_run(struct telling *t, const struct memory_cli *cli, const struct vc_fit_options *fit,
                    const struct vc_gpus *catalogue, const struct vc_fit_row *rows, size_t n_rows)
{
    const struct vc_model *model = graph_source_model(&cli->source);
    const struct vc_graph *graph = cli->source.graph;
    struct vc_memory_timeline *timeline = NULL;
    struct vc_fit_matrix *matrix = NULL;
    enum vc_status status =
        vc_memory_timeline_make(t->app->ctx, graph, model, &cli->memory, TIMELINE_POINTS, &timeline);

    if (timeline != NULL) {
        add_document(t, "timeline", &(struct vc_document){.kind = VC_DOCUMENT_TIMELINE, .of = timeline});
    }
    if (status == VC_OK) {
        status = vc_fit_matrix_make(t->app->ctx, graph, model, &cli->memory, fit, catalogue, rows, n_rows, &matrix);
    }
    add_matrix(t, status, matrix);
    vc_result_free(timeline);
}

/* The page opens the catalogue; rows of fit's own devices are not there. */
int document_estimate(struct app *app, const struct memory_cli *cli)
{
    struct vc_memory_options shown = memory_cli_options(cli);
    struct telling t = {.app = app};
    struct vc_gpus *gpus = NULL;
    int rc;

    make(&t, &(struct vc_document){.kind = VC_DOCUMENT_ESTIMATE,
                                   .of = &cli->report,
                                   .layers = cli->layers,
                                   .memory = &shown,
                                   .graph = cli->source.graph,
                                   .path = app->subject});
    if (tell_json(&t, &rc)) {
        t.status = vc_gpus_open(app->ctx, NULL, &gpus);
        if (t.status == VC_OK) {
            add_run(&t, cli, NULL, gpus, NULL, 0);
        }
        vc_result_free(gpus);
    }
    return finish(&t, rc);
}

/* baseline: the earlier document of --baseline and its peak in bytes, for the page alone. */
int document_fit(struct app *app, const struct memory_cli *cli, const struct vc_fit_options *fit,
                 const struct vc_gpus *catalogue, const struct vc_fit_row *rows, size_t n_rows, const char *baseline,
                 uint64_t baseline_bytes)
{
    struct vc_memory_options shown = memory_cli_options(cli);
    struct telling t = {.app = app};
    char peak[32];
    int rc;

    make(&t, &(struct vc_document){.kind = VC_DOCUMENT_FIT,
                                   .of = &cli->report,
                                   .memory = &shown,
                                   .graph = cli->source.graph,
                                   .path = app->subject,
                                   .rows = rows,
                                   .n = n_rows});
    if (tell_json(&t, &rc)) {
        add_run(&t, cli, fit, catalogue, rows, n_rows);
        if (baseline != NULL) {
            add_string(&t, "baseline", baseline);
            (void)snprintf(peak, sizeof peak, "%" PRIu64, baseline_bytes);
            t.status = t.status == VC_OK ? vc_document_add(app->ctx, &t.text, "baseline_bytes", peak, NULL) : t.status;
        }
    }
    return finish(&t, rc);
}
