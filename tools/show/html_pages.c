/* html_pages.c - see html_pages.h. */
#include "tools/show/html_pages.h"

#define TIMELINE_POINTS 240

static struct vc_page_options options_of(const struct app *app)
{
    struct vc_page_options options;

    vc_page_defaults(&options);
    options.command = app->line;
    return options;
}

int page_report(struct app *app, const struct vc_report *report, const struct vc_model *model)
{
    const struct vc_report_totals *totals = &report->totals;
    struct vc_fit_column columns[3] = {{"before", totals->host_before}, {"after", totals->device_native}};
    struct vc_page_options options = options_of(app);
    struct vc_fit_matrix *matrix = NULL;
    struct vc_value_histograms *histograms = NULL;
    struct vc_gpus *gpus = NULL;
    size_t n_columns = 2;
    char *text = NULL;
    enum vc_status status;

    if (app->json.html == NULL) {
        return GO_ON;
    }
    if (totals->device_dequantized != totals->device_native) {
        columns[n_columns++] = (struct vc_fit_column){"after, decoded", totals->device_dequantized};
    }
    status = vc_gpus_open(app->ctx, NULL, &gpus);
    if (status == VC_OK) {
        status = vc_fit_matrix_of_bytes(app->ctx, columns, n_columns, gpus, &matrix);
    }
    if (status == VC_OK) {
        status = vc_value_histograms_of_report(app->ctx, report, model, &histograms);
    }
    options.histograms = histograms;
    options.matrix = matrix;
    if (status == VC_OK) {
        status = vc_report_html(app->ctx, report, &options, &text);
    }
    vc_value_histograms_free(histograms);
    vc_fit_matrix_free(matrix);
    vc_gpus_close(gpus);
    return html_write(app, status, text);
}

/* Weights alone, as they are and in other types: what a file that says nothing of its graph can be asked. */
static enum vc_status weights_matrix(struct app *app, const struct vc_model *model, const struct vc_gpus *gpus,
                                     struct vc_fit_matrix **matrix)
{
    struct vc_memory_options memory;

    vc_memory_defaults(&memory);
    return vc_fit_matrix_make(app->ctx, NULL, model, &memory, NULL, gpus, NULL, 0, matrix);
}

int page_inspect(struct app *app, const struct vc_inspection *in)
{
    struct vc_page_options options = options_of(app);
    struct vc_fit_matrix *matrix = NULL;
    struct vc_gpus *gpus = NULL;
    char *text = NULL;
    enum vc_status status;

    if (app->json.html == NULL) {
        return GO_ON;
    }
    status = vc_gpus_open(app->ctx, NULL, &gpus);
    if (status == VC_OK) {
        status = weights_matrix(app, in->model, gpus, &matrix);
    }
    options.matrix = matrix;
    if (status == VC_OK) {
        status = vc_inspect_html(app->ctx, in, &options, &text);
    }
    vc_fit_matrix_free(matrix);
    vc_gpus_close(gpus);
    return html_write(app, status, text);
}

#define N_HISTOGRAMS 6

/* The tensors of a difference that have the lowest SQNR. */
static size_t worst_names(const struct vc_diff *diff, const char **names)
{
    double errors[N_HISTOGRAMS];
    size_t n = 0;

    for (size_t i = 0; i < diff->n_rows; i++) {
        const struct vc_diff_row *row = &diff->rows[i];
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

int page_diff(struct app *app, const struct vc_model *a, const struct vc_model *b, const struct vc_diff *diff,
              const struct vc_diff_limits *limits)
{
    struct vc_page_options options = options_of(app);
    struct vc_value_histograms *histograms = NULL;
    const char *names[N_HISTOGRAMS];
    char *text = NULL;
    enum vc_status status;

    if (app->json.html == NULL) {
        return GO_ON;
    }
    status = vc_value_histograms_of_models(app->ctx, a, b, names, worst_names(diff, names), &histograms);
    options.histograms = histograms;
    if (status == VC_OK) {
        status = vc_diff_html(app->ctx, a, b, diff, limits, &options, &text);
    }
    vc_value_histograms_free(histograms);
    return html_write(app, status, text);
}

int page_sensitivity(struct app *app, const struct vc_sensitivity *s)
{
    struct vc_page_options options = options_of(app);
    struct vc_value_histograms *histograms = NULL;
    const char *names[N_HISTOGRAMS];
    char *text = NULL;
    size_t n = 0;
    enum vc_status status;

    if (app->json.html == NULL) {
        return GO_ON;
    }
    for (; n < N_HISTOGRAMS && n < s->quantize.n_picks; n++) {
        names[n] = s->rows[s->quantize.picks[n].row].name;
    }
    status = vc_value_histograms_of_models(app->ctx, s->model, NULL, names, n, &histograms);
    options.histograms = histograms;
    if (status == VC_OK) {
        status = vc_sensitivity_html(app->ctx, s, &options, &text);
    }
    vc_value_histograms_free(histograms);
    return html_write(app, status, text);
}

int page_graph(struct app *app, const struct vc_graph *graph, const struct vc_graph_blocks *blocks)
{
    struct vc_page_options options = options_of(app);
    char *text = NULL;
    enum vc_status status;

    if (app->json.html == NULL) {
        return GO_ON;
    }
    status = vc_graph_html(app->ctx, graph, blocks, app->subject, &options, &text);
    return html_write(app, status, text);
}

int page_verify(struct app *app, const struct vc_verification *v, bool strict)
{
    struct vc_page_options options = options_of(app);
    char *text = NULL;
    enum vc_status status;

    if (app->json.html == NULL) {
        return GO_ON;
    }
    status = vc_verify_html(app->ctx, v, strict, &options, &text);
    return html_write(app, status, text);
}

int page_distill(struct app *app, const struct vc_distillation *d, const char *student,
                 const struct vc_distill_step *steps, size_t n_steps)
{
    struct vc_page_options options = options_of(app);
    char *text = NULL;
    enum vc_status status;

    if (app->json.html == NULL) {
        return GO_ON;
    }
    status = vc_distill_html(app->ctx, d, student, steps, n_steps, &options, &text);
    return html_write(app, status, text);
}

int page_plan(struct app *app, const struct vc_recipes *recipes, const char *gpu, const struct vc_recipe_lines *lines)
{
    struct vc_page_options options = options_of(app);
    char *text = NULL;
    enum vc_status status;

    if (app->json.html == NULL) {
        return GO_ON;
    }
    status = vc_recipes_html(app->ctx, recipes, gpu, app->subject, lines, &options, &text);
    return html_write(app, status, text);
}

/* The timeline and the matrix of a run; both may stay NULL. */
static enum vc_status gather(struct app *app, const struct memory_cli *cli, const struct vc_fit_options *fit,
                             const struct vc_gpus *catalogue, const struct vc_fit_row *rows, size_t n_rows,
                             struct vc_memory_timeline **timeline, struct vc_fit_matrix **matrix)
{
    const struct vc_model *model = graph_source_model(&cli->source);
    enum vc_status status =
        vc_memory_timeline_make(app->ctx, cli->source.graph, model, &cli->memory, TIMELINE_POINTS, timeline);

    return status != VC_OK ? status
                           : vc_fit_matrix_make(app->ctx, cli->source.graph, model, &cli->memory, fit, catalogue, rows,
                                                n_rows, matrix);
}

int page_estimate(struct app *app, const struct memory_cli *cli)
{
    struct vc_page_options options = options_of(app);
    struct vc_memory_timeline *timeline = NULL;
    struct vc_fit_matrix *matrix = NULL;
    struct vc_gpus *gpus = NULL;
    char *text = NULL;
    enum vc_status status;

    if (app->json.html == NULL) {
        return GO_ON;
    }
    status = vc_gpus_open(app->ctx, NULL, &gpus);
    if (status == VC_OK) {
        status = gather(app, cli, NULL, gpus, NULL, 0, &timeline, &matrix);
    }
    options.matrix = matrix;
    if (status == VC_OK) {
        status = vc_memory_html(app->ctx, &cli->report, &cli->memory, cli->source.graph, app->subject, timeline,
                                &options, &text);
    }
    vc_memory_timeline_free(timeline);
    vc_fit_matrix_free(matrix);
    vc_gpus_close(gpus);
    return html_write(app, status, text);
}

int page_fit(struct app *app, const struct memory_cli *cli, const struct vc_fit_options *fit,
             const struct vc_gpus *catalogue, const struct vc_fit_row *rows, size_t n_rows, const char *baseline,
             uint64_t baseline_bytes)
{
    struct vc_page_options options = options_of(app);
    struct vc_memory_timeline *timeline = NULL;
    struct vc_fit_matrix *matrix = NULL;
    char *text = NULL;
    enum vc_status status;

    if (app->json.html == NULL) {
        return GO_ON;
    }
    status = gather(app, cli, fit, catalogue, rows, n_rows, &timeline, &matrix);
    options.matrix = matrix;
    options.baseline = baseline;
    options.baseline_bytes = baseline_bytes;
    if (status == VC_OK) {
        status = vc_fit_html(app->ctx, &cli->report, &cli->memory, cli->source.graph, app->subject, rows, n_rows,
                             timeline, &options, &text);
    }
    vc_memory_timeline_free(timeline);
    vc_fit_matrix_free(matrix);
    return html_write(app, status, text);
}
