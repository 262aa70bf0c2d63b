/* print_answers.c - see print_answers.h.
 *
 * The notes say what an output without labels was taken for, since all figures depend on that guess. */
#include "tools/show/print_answers.h"

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
        snprintf(text, n_text, "the output is made by Sigmoid: answers are the %s logit%s before it", buf,
                 n == 1 ? "" : "s");
        return text;
    default:
        snprintf(text, n_text, "answers are %s value%s, compared by squared error (--loss mse)", buf,
                 n == 1 ? "" : "s");
        return named ? NULL : text;
    }
}

/* output: which of several outputs was judged; NULL: there is one. */
void print_answers(const struct app *app, const struct vc_quality *q, const char *output)
{
    const struct out *out = &app->out;
    bool named = options_seen(&app->parsed, "loss") || options_seen(&app->parsed, "task") ||
                 q->task == VC_NET_TASK_LABELS; /* the line before says it */
    char text[200];

    if (answers_text(q->answers, q->n_outputs, q->n_labels != 0, named, text, sizeof(text)) == NULL && output == NULL) {
        return;
    }
    fprintf(out->to, "%snote:%s ", out_ink(out, INK_WARN), out_ink(out, INK_NONE));
    if (output != NULL) {
        fputs("of several outputs ", out->to);
        print_clean(out->to, output);
        fputs(" is judged: ", out->to);
    }
    answers_text(q->answers, q->n_outputs, false, false, text, sizeof(text));
    fputs(text, out->to);
    fputc('\n', out->to);
}
