/* print_answers.c - see print_answers.h.
 *
 * The notes say what an output without labels was taken for, since all figures depend on that guess. */
#include "tools/show/print_answers.h"

#include <math.h>

/* A case for each kind that the library tells apart. The text is made in any case; NULL says that it is no news: labels
 * or an explicit --loss have decided. */
const char *answers_text(enum vc_answer_kind kind, uint64_t n, bool labelled, bool named, char *text, size_t n_text)
{
    char buf[CELL_BYTES];

    (void)fmt_count(buf, n);
    switch (kind) {
    case VC_ANSWERS_LOGITS:
        snprintf(text, n_text, "answers are taken for logits of %s classes; --loss mse compares outputs as values",
                 buf);
        return labelled || named ? NULL : text;
    case VC_ANSWERS_SOFTMAX:
        snprintf(text, n_text, "the output is made by Softmax: answers are the logits of %s classes before it", buf);
        return text;
    case VC_ANSWERS_LOGARITHM:
        snprintf(text, n_text, "the output is probabilities of %s classes: answers are their logarithm", buf);
        return text;
    case VC_ANSWERS_SIGMOID:
        snprintf(text, n_text,
                 "the output is made by Sigmoid: answers are logits of two classes, 0 and what is before it");
        return text;
    case VC_ANSWERS_PAIR:
        snprintf(text, n_text, "answers are logits of two classes, 0 and the output");
        return text;
    case VC_ANSWERS_SIGMOIDS:
        snprintf(text, n_text, "the output is made by Sigmoid: answers are the %s logit%s before it", buf, plural(n));
        return text;
    default:
        snprintf(text, n_text, "answers are %s value%s, compared by squared error (--loss mse)", buf, plural(n));
        return named ? NULL : text;
    }
}

/* Of spans both outputs are judged. */
void print_answers(const struct app *app, const struct vc_quality *q, const struct vc_graph *graph)
{
    bool one = graph == NULL || q->task == VC_NET_TASK_SPANS || vc_graph_output_count(graph) == 1;
    const char *output = one ? NULL : vc_graph_value(graph, vc_graph_output(graph, q->output))->name;
    const struct out *out = &app->out;
    bool named = options_seen(&app->parsed, "loss") || options_seen(&app->parsed, "task") ||
                 q->task == VC_NET_TASK_LABELS || q->task == VC_NET_TASK_SPANS; /* the line before says it */
    char text[200];

    if (q->n_parts != 0) { /* each was named */
        return;
    }
    if (answers_text(q->answers, q->n_outputs, q->n_labels != 0, named, text, sizeof(text)) == NULL && output == NULL) {
        return;
    }
    out_inked(out, INK_WARN, "note:");
    if (output != NULL) {
        say(out->to, " of several outputs %s is judged:", output);
    }
    answers_text(q->answers, q->n_outputs, false, false, text, sizeof(text));
    say(out->to, " %s\n", text);
}

/* How near the answers are to y of floats (regression, embeddings), or of yes and no (labels). Nothing for classes. */
static void print_y(FILE *to, const struct vc_quality *q)
{
    if (q->n_targets == 0) {
        return;
    }
    if (q->task == VC_NET_TASK_LABELS) {
        fprintf(to, isnan(q->f1) ? ", F1 not defined" : ", F1 %.4f", q->f1);
        fprintf(to, ", cross-entropy %.4f", q->ce);
        return;
    }
    fprintf(to, ", mean squared error %.4g", q->squared_error);
    if (q->task == VC_NET_TASK_EMBEDDINGS) {
        fprintf(to, ", cosine %.4f", q->cosine);
        return;
    }
    fprintf(to, isnan(q->r2) ? ", R2 not defined" : ", R2 %.4f", q->r2);
    fprintf(to, ", mean absolute error %.4g", q->absolute_error);
}

/* The line of the report: "net.npz: classes: 10,000 rows, accuracy 97.99 % (9,799 of 10,000), cross-entropy 0.0712".
 * Of a network that answers for each position of a sequence e to the cross-entropy is the perplexity. */
static void print_figures(const struct app *app, const struct vc_quality *q, const struct vc_graph *graph)
{
    bool tokens = q->task != VC_NET_TASK_SPANS && vc_graph_value(graph, vc_graph_output(graph, q->output))->n_dims == 3;
    const char *others = q->task == VC_NET_TASK_MAPS ? "places" : "rows";
    FILE *to = app->out.to;

    say(to, "%s%s%s: %s: %s %s", app->subject, q->name[0] != '\0' ? ": " : "", q->name,
        vc_word(VC_WORDS_NET_TASK, q->task), fmt_count(CELL, q->n_rows), tokens ? "tokens" : others);
    if (q->n_labels != 0) {
        say(to, ", %s %s (%s of %s), cross-entropy %.4f", isnan(q->exact_match) ? "accuracy" : "exact match",
            fmt_share(CELL, q->accuracy), fmt_count(CELL, (uint64_t)llround(q->accuracy * (double)q->n_labels)),
            fmt_count(CELL, q->n_labels), q->ce);
        if (!isnan(q->exact_match)) {
            fprintf(to, ", F1 %.4f", q->f1);
        }
        if (!isnan(q->iou)) {
            fprintf(to, ", mean IoU %.4f", q->iou);
        }
        if (tokens) {
            fprintf(to, ", perplexity %.4f", exp(q->ce));
        }
        if (q->n_bytes != 0) {
            say(to, ", %.4f bits per byte (of %s)", q->bits_per_byte, fmt_count(CELL, q->n_bytes));
        }
    }
    print_y(to, q);
    if (!isnan(q->agreement)) {
        fprintf(to, ", agreement with the teacher %s", fmt_share(CELL, q->agreement));
    }
    if (!isnan(q->kd)) {
        fprintf(to, q->loss == VC_TEACHER_LOSS_KD ? ", %s %.4f" : ", %s %.4g", vc_teacher_loss_facts(q->loss)->measure,
                q->kd);
    }
    if (!isnan(q->teacher_r2)) {
        fprintf(to, " (R2 %.4f)", q->teacher_r2);
    }
    fputc('\n', to);
    if (q->undefined != NULL) {
        fprintf(to, "note: %s\n", q->undefined);
    }
}

/* Of several outputs a line each. */
void print_quality(const struct app *app, const struct vc_quality *q, const struct vc_graph *graph)
{
    for (size_t k = 0; k < q->n_parts; k++) {
        print_quality(app, &q->parts[k], graph);
    }
    if (q->n_parts == 0) {
        print_figures(app, q, graph);
    }
}
