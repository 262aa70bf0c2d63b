/* target.c - see target.h. The question of `fit`, asked twice about a conversion: with the model as it is, and with the
 * sizes of the report. The library answers (vc_fit_of_report). */
#include "tools/model/target.h"

#include <string.h>

#include "tools/model/cards.h"
#include "tools/model/graph_source.h"

/* Names are found before any work: a wrong one must not end a run of an hour. */
int targets_find(struct app *app, struct targets *targets)
{
    enum vc_status status = targets->n == 0 ? VC_OK : cards_open(app, targets->gpus_file, &targets->catalogue);

    if (status != VC_OK) {
        return app_fail(app, status);
    }
    for (size_t k = 0; k < targets->n; k++) {
        struct vc_fit_change *change = &targets->changes[k];

        *change = (struct vc_fit_change){.count = 1};
        if (vc_gpus_find(app->ctx, targets->catalogue, targets->names[k], &change->gpu, &change->count) != VC_OK) {
            return app_usage(app, "--%s: %s", targets->must[k] ? "must-fit" : "target-gpu", vc_ctx_message(app->ctx));
        }
    }
    return GO_ON;
}

void targets_close(struct targets *targets)
{
    vc_result_free(targets->catalogue);
    targets->catalogue = NULL;
}

/* Builds the graph of the model, or that of the file of --graph, with the sizes of inputs that are usual for the program that runs a file of that layout
 * and format. A file that does not say what it computes, or says it wrongly, has what stands in for it with the sizes of its configuration; without one
 * the question is about the weights alone. */
static int open_graph(struct app *app, const char *path, const struct vc_model *model, const struct vc_layout *layout,
                      const char *format, struct graph_source *source)
{
    const struct vc_model *weights =
        path != NULL && graph_source_is_config(path) ? NULL : model; /* it says all sizes */
    enum vc_status status = vc_graph_open(app->ctx, path, weights, false, &source->model, &source->graph);

    if (path == NULL && (status == VC_E_UNSUPPORTED || status == VC_E_FORMAT)) {
        if (!graph_source_take_sizes(app, source, model, NULL)) {
            return GO_ON;
        }
        status = VC_OK;
    }
    if (status == VC_OK) {
        status = vc_memory_bind_usual(app->ctx, source->graph, layout, format);
    }
    return status == VC_OK ? GO_ON : app_fail(app, status);
}

/* "needs 8.20 GiB (weights of 7.90 GiB and the device's runtime), 7.17 GiB usable". The sentence for targets->missed,
 * in three forms: the weights fit and nothing more is known; the weights do not fit; the whole need does not. */
static void say_missed(const struct app *app, struct targets *targets, const struct vc_fit_change *change)
{
    const struct vc_fit *fit = &change->after;
    const char *gpu = change->gpu->name;
    char *text = targets->missed;
    size_t n = sizeof targets->missed;
    const char *usable = fmt_size(CELL, &app->out, fit->usable_bytes);
    const char *weights = fmt_size(CELL, &app->out, fit->peak_bytes);
    const char *need = fmt_size(CELL, &app->out, fit->need_bytes);

    if (change->weights_only && fit->verdict == VC_FITS) {
        (void)snprintf(
            text, n,
            "--must-fit %.80s: the weights fit (%s of %s usable), but what else is needed is not known, as the "
            "file does not say what it computes: --graph FILE says it, --weights-only asks about the weights alone",
            gpu, weights, usable);
    } else if (change->weights_only) {
        (void)snprintf(text, n, "--must-fit %.80s: needs %s (weights of %s and the device's runtime), %s usable", gpu,
                       need, weights, usable);
    } else {
        (void)snprintf(text, n, "--must-fit %.80s: needs %s, %s usable", gpu, need, usable);
    }
}

/* The report's gates, and those of targets. Weights alone answer whether a model fits only where that was asked. The
 * gates of the report are copied first, since the list of the library cannot grow; VC_TARGET_GATES has room for
 * both. */
static void judge(const struct app *app, struct targets *targets, struct vc_report *report)
{
    size_t n = report->n_gates < VC_TARGET_GATES - MAX_TARGETS ? report->n_gates : VC_TARGET_GATES - MAX_TARGETS;

    for (size_t k = 0; k < n; k++) {
        targets->gates[k] = report->gates[k];
    }
    for (size_t k = 0; k < targets->n; k++) {
        const struct vc_fit_change *change = &targets->changes[k];
        bool fits = change->after.verdict == VC_FITS && (targets->weights_only || !change->weights_only);

        if (!targets->must[k]) {
            continue;
        }
        /* "must_fit": the limit is what is usable, the figure what is needed */
        targets->gates[n++] = (struct vc_report_gate){"must_fit", (double)change->after.usable_bytes,
                                                      (double)change->after.need_bytes, true, fits};
        if (!fits && (report->gate_missed == NULL || report->gate_missed[0] == '\0')) {
            say_missed(app, targets, change);
            report->gate_missed = targets->missed;
        }
    }
    report->gates = targets->gates;
    report->n_gates = n;
}

/* The answers for each device, with the graph of the model and that of the output, which another program may run. */
static int decide(struct app *app, struct targets *targets, const struct vc_model *model, struct vc_report *report)
{
    struct graph_source before = {.n_sizes = 0}, after = {.n_sizes = 0};
    const char *format = vc_model_facts(model)->format;
    struct vc_fit_options options;
    int rc =
        targets->weights_only ? GO_ON : open_graph(app, targets->graph, model, vc_model_layout(model), format, &before);

    if (rc == GO_ON && before.graph != NULL && report->output_format != NULL &&
        strcmp(report->output_format, format) != 0) {
        rc = open_graph(app, targets->graph, model, report->layouts != NULL ? report->layouts[0] : NULL,
                        report->output_format, &after);
    }
    vc_fit_defaults(&options);
    options.weights_only = targets->weights_only;
    for (size_t k = 0; rc == GO_ON && k < targets->n; k++) {
        targets->changes[k].graph_after = after.graph;
        enum vc_status status = vc_fit_of_report(app->ctx, report, model, before.graph, &options, &targets->changes[k]);

        targets->changes[k].graph_after = NULL;
        rc = status == VC_OK ? GO_ON : app_fail(app, status);
    }
    vc_graph_close(after.graph);
    vc_graph_close(before.graph);
    vc_model_close(after.model);
    vc_model_close(before.model);
    return rc;
}

/* GO_ON, or the status of a failure. Answers go to the report, and judge makes the exit status of --must-fit. */
int targets_ask(struct app *app, struct targets *targets, const struct vc_model *model, struct vc_report *report)
{
    GO(targets->n == 0 ? GO_ON : decide(app, targets, model, report));
    report->n_fits = targets->n;
    report->fits = targets->changes;
    judge(app, targets, report);
    return GO_ON;
}

/* In the order of enum vc_verdict. */
static const char *answer(const struct vc_fit *fit)
{
    static const char *const words[] = {"yes", "tight", "no", "unknown"};

    return words[fit->verdict];
}

/* "tight" and "unknown" are neither good nor bad. */
static enum ink ink_of(enum vc_verdict verdict)
{
    if (verdict == VC_FITS) {
        return INK_GOOD;
    }
    return verdict == VC_FITS_NOT ? INK_BAD : INK_WARN;
}

/* "yes, 1.40 GiB left", "no, 300 MiB too much" */
static void print_answer(const struct app *app, const struct vc_fit *fit)
{
    int64_t left = fit->headroom_bytes;

    fprintf(app->out.to, "%s%s%s, %s %s", out_ink(&app->out, ink_of(fit->verdict)), answer(fit),
            out_ink(&app->out, INK_NONE), fmt_size(CELL, &app->out, left < 0 ? (uint64_t)-left : (uint64_t)left),
            left < 0 ? "too much" : "left");
}

/* A line for each GPU: before, after. The second line is for a program that keeps codes, where its answer is
 * another. */
void print_targets(const struct app *app, const struct vc_report *report)
{
    for (size_t k = 0; k < report->n_fits; k++) {
        const struct vc_fit_change *change = &report->fits[k];

        say(app->out.to, "  fit  %s: %s %s ", change->gpu->name, answer(&change->before), out_arrow(&app->out));
        print_answer(app, &change->after);
        fputs(change->weights_only ? " (weights alone)\n" : "\n", app->out.to);
        if (change->native.verdict != change->after.verdict) {
            fputs("       with kernels that compute on the codes: ", app->out.to);
            print_answer(app, &change->native);
            fputc('\n', app->out.to);
        }
    }
}
