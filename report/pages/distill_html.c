/* distill_html.c - the report of a distillation as a page: vc_distill_html. */
#include <math.h>
#include <stdio.h>

#include "report/pages/distill_curves.h"
#include "report/pages/page_write.h"

/* ---- quality ---- */

/* What is judged by: labels, or without them the teacher's answers. */
static double answer(const struct vc_distillation *d, const struct vc_quality *q)
{
    return isnan(d->before.accuracy) ? q->agreement : q->accuracy;
}

static struct vc_figure share(double x)
{
    struct vc_figure figure = {"-"};

    return isnan(x) ? figure : vc_figure_percent(x, 1.0);
}

static struct vc_figure nats(double x)
{
    struct vc_figure figure = {"-"};

    return isnan(x) ? figure : vc_figure_real(x);
}

static void add_quality(struct vc_page *page, const char *name, const struct vc_quality *q)
{
    vc_page_row(page);
    vc_page_head_cell(page);
    vc_page_add(page, "%s", name);
    vc_page_head_cell_end(page);
    vc_page_figure(page, share(q->accuracy).s);
    vc_page_figure(page, nats(q->ce).s);
    vc_page_figure(page, share(q->agreement).s);
    vc_page_figure(page, nats(q->kd).s);
}

static void add_evaluation(struct vc_page *page, const struct vc_distillation *d)
{
    enum vc_teacher_loss loss = d->options->loss.kind;
    const struct vc_page_column columns[] = {{"", false},
                                             {"accuracy", true},
                                             {"cross-entropy", true},
                                             {"agreement", true},
                                             {vc_teacher_loss_measure(loss), true}};

    vc_page_section(page, "Before and after",
                    loss == VC_TEACHER_LOSS_KD
                        ? "Judged by the rows of the evaluation; cross-entropy and divergence in nats per row."
                        : "Judged by the rows of the evaluation; cross-entropy in nats per row.");
    vc_page_table(page, "quality of teacher and student", columns, 5);
    if (!isnan(d->teacher.agreement) || !isnan(d->teacher.accuracy)) {
        add_quality(page, "teacher", &d->teacher);
    }
    add_quality(page, "student before", &d->before);
    add_quality(page, "student after", &d->after);
    if (d->has_control) {
        add_quality(page, "control: labels, no teacher", &d->control);
    }
    vc_page_table_end(page);
    if (d->has_control) {
        vc_page_add(page, "<p class=\"note\">The teacher is worth %s points, with a standard error of %s.</p>\n",
                    vc_figure_fixed(100.0 * d->gain, 2).s, vc_figure_fixed(100.0 * d->gain_error, 2).s);
    }
    vc_page_section_end(page);
}

/* ---- memory ---- */

static void add_memory(struct vc_page *page, const struct vc_distillation *d)
{
    const struct vc_page_part parts[] = {
        {"weights", d->weight_bytes, 0},         {"gradients", d->gradient_bytes, 2},
        {"optimizer states", d->state_bytes, 3}, {"teacher's weights", d->teacher_bytes, 4},
        {"activations", d->arena_bytes, 1},
    };
    size_t n = sizeof parts / sizeof *parts;
    uint64_t whole = 0;

    for (size_t i = 0; i < n; i++) {
        whole += parts[i].bytes;
    }
    vc_page_section(page, "Memory", "What a step takes, in blocks that are planned before the first one.");
    vc_page_add(page, "<p class=\"bar\"><span>a step</span><span>%s</span>", vc_figure_size(whole).s);
    vc_page_stack(page, "memory of a step by component", parts, n, whole);
    vc_page_add(page, "</p>\n<ul class=\"legend\">\n");
    for (size_t i = 0; i < n; i++) {
        vc_page_add(page, "<li>");
        vc_page_swatch(page, parts[i].colour);
        vc_page_add(page, "%s %s</li>\n", parts[i].name, vc_figure_size(parts[i].bytes).s);
    }
    vc_page_add(page, "</ul>\n");
    vc_page_section_end(page);
}

/* ---- the page ---- */

static void add_hero(struct vc_page *page, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    char left_out[64];

    vc_page_add(page, "<section>\n");
    if (d->evaluated && !o->dry_run && !isnan(answer(d, &d->after))) {
        vc_page_add(page, "<div class=\"hero\">\n<div><p class=\"big\">%s</p><p>", share(answer(d, &d->after)).s);
        vc_page_add(page, "%s, %s before</p></div>\n<div class=\"bars\">\n",
                    isnan(d->before.accuracy) ? "of the teacher's answers" : "of the answers are right",
                    share(answer(d, &d->before)).s);
        for (int after = 0; after < 2; after++) {
            double x = answer(d, after ? &d->after : &d->before);
            const struct vc_page_part part = {after ? "after" : "before", (uint64_t)(isfinite(x) ? 1e6 * x : 0),
                                              after ? 11 : 9};

            vc_page_add(page, "<p class=\"bar\"><span>%s</span><span>%s</span>", part.name, share(x).s);
            vc_page_stack(page, part.name, &part, 1, 1000000);
            vc_page_add(page, "</p>\n");
        }
        vc_page_add(page, "</div>\n</div>\n");
    }
    vc_page_tiles(page);
    vc_page_tile(page, o->dry_run ? "steps planned" : "steps",
                 vc_figure_count(o->dry_run ? d->n_planned : d->n_steps).s, NULL);
    vc_page_tile(page, "rows of a step", vc_figure_count(d->batch * d->accum).s, NULL);
    vc_page_tile(page, "weights that are trained", vc_figure_count(d->n_weights).s, NULL);
    if (!o->dry_run && isfinite(d->last_loss)) {
        vc_page_tile(page, "loss at the end", vc_figure_real(d->last_loss).s, NULL);
    }
    if (d->n_masked != 0) {
        vc_page_tile(page, "weights that stay 0", vc_figure_count(d->n_masked).s, NULL);
    }
    if (d->prune_weights != 0 && !o->dry_run) {
        vc_page_tile(page, "sparsity at the end", share((double)d->prune_end / (double)d->prune_weights).s, NULL);
    }
    if (d->fake_quant != NULL) {
        vc_page_tile(page, "weights that codes say", vc_figure_count(d->n_fake_quant_weights).s, d->fake_quant);
    }
    if (o->precision.half == VC_HALF_BF16) {
        vc_page_tile(page, "values while it trains", "bf16", NULL);
    } else if (o->precision.half == VC_HALF_F16) {
        (void)snprintf(left_out, sizeof left_out, "steps left out: %s", vc_figure_count(d->n_skipped).s);
        vc_page_tile(page, "values while it trains", "fp16", o->dry_run ? NULL : left_out);
    }
    vc_page_tiles_end(page);
    if (d->missed != NULL) {
        vc_page_add(page, "<p class=\"note\"><span class=\"badge no\">missed</span> ");
        vc_page_words(page, d->missed);
        vc_page_add(page, "; nothing was written</p>\n");
    }
    vc_page_section_end(page);
}

enum vc_status vc_distill_html(struct vc_ctx *ctx, const struct vc_distillation *d, const char *student,
                               const struct vc_distill_step *steps, size_t n_steps,
                               const struct vc_page_options *options, char **text)
{
    const struct vc_page_head head = {"distill", student, d->options->dry_run ? "planned: nothing is written" : NULL};
    struct vc_page page;
    enum vc_status status = vc_page_begin(&page, ctx, options, &head);

    *text = NULL;
    if (status == VC_OK) {
        add_hero(&page, d->options, d);
        if (d->evaluated && !d->options->dry_run) {
            add_evaluation(&page, d);
        }
        if (n_steps != 0) {
            vc_page_distill_curves(&page, d->options, steps, n_steps);
        }
        add_memory(&page, d);
        status = vc_page_end(&page, text);
    }
    vc_text_release(&page.text);
    return status;
}
