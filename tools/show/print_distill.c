/* print_distill.c - see print_distill.h. Lines of a name and a sentence, then a table of qualities:
 *
 *     task      classes: 10 values for each row, compared by divergence
 *     student   pruned.npz: 160,301 weights of 13 tensors are trained, 144,125 of which stay 0
 *     teacher   digits.npz
 *     data      images.npz: 800 rows; 400 steps of 64 rows, 30.8 epochs
 *     memory    9.2 MiB: programs 6.1 MiB (without reuse 6.9 MiB), weights 626 KiB, gradients 626 KiB, ...
 *     peak      12.4 MiB during training, with data and models; evaluation alone 3.1 MiB
 *     loss      0.8123 -> 0.0214
 *
 *               accuracy  cross-entropy  agreement  divergence
 *     teacher    97.99 %         0.0712          -           -
 *     before     81.34 %         ...
 *
 * Lines that say nothing of this run (match, pruning, zeros, grid, precision) are left out. */
#include "tools/show/print_distill.h"

#include <math.h>
#include <string.h>

#include "tools/show/print_answers.h"

/* Two lines: the memory of the networks' programs by purpose, then the peak of the whole process. "Without reuse": if
 * every value had memory of its own. */
static void print_memory(const struct app *app, const struct vc_distillation *d)
{
    const struct out *out = &app->out;

    say(out->to, "memory    %s: programs %s (without reuse %s), weights %s, gradients %s, states %s",
        fmt_size(CELL, out,
                 d->arena_bytes + d->weight_bytes + d->gradient_bytes + d->state_bytes + d->teacher_bytes +
                     d->copy_bytes),
        fmt_size(CELL, out, d->arena_bytes), fmt_size(CELL, out, d->naive_bytes), fmt_size(CELL, out, d->weight_bytes),
        fmt_size(CELL, out, d->gradient_bytes), fmt_size(CELL, out, d->state_bytes));
    if (d->teacher_bytes != 0) {
        say(out->to, ", teacher %s", fmt_size(CELL, out, d->teacher_bytes));
    }
    say(out->to, "\npeak      %s during training, with data and models; evaluation alone %s",
        fmt_size(CELL, out, d->planned_bytes), fmt_size(CELL, out, d->eval_bytes));
    if (d->macs_again != 0) {
        say(out->to, "; %.0f %% of the forward pass is computed again",
            100 * (double)d->macs_again / (double)d->macs_forward);
    }
    if (d->device_planned_bytes != 0) {
        say(out->to, "; on the device %s", fmt_size(CELL, out, d->device_planned_bytes));
    }
    fputc('\n', out->to);
    if (d->expected_cpu_seconds > 0 && (app->common.verbose || d->device_reason == NULL)) {
        say(out->to, "          device auto: expected %.2f s on 16 processors, %.2f s with a card%s%s\n",
            d->expected_cpu_seconds, d->expected_card_seconds, d->device_reason != NULL ? "; the CPU: " : "",
            d->device_reason != NULL ? d->device_reason : "");
    }
    if (d->no_graphs != NULL) {
        say(out->to, "          note: steps were not started as CUDA graphs, which is slower: %s\n", d->no_graphs);
    }
}

/* Gradual pruning: from where to where, and when. The last line is advice: the masks should be final for a quarter of
 * the steps. A dry run has no figures of its own, so the wanted sparsity is printed. */
static void print_pruning(const struct app *app, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    FILE *to = app->out.to;
    double n = (double)d->prune_weights;
    /* steps that train with the final masks */
    uint64_t behind = d->n_planned - d->prune_last;

    say(to, "pruning   %s weights", fmt_count(CELL, d->prune_weights));
    if (o->dry_run) {
        say(to, " to a sparsity of %s", o->sparsity.prune->sparsity);
    } else {
        say(to, ", sparsity %.2f %% -> %.2f %%", 100 * (double)d->prune_begin / n, 100 * (double)d->prune_end / n);
    }
    say(to, ", after steps %s to %s, every %s\n", fmt_count(CELL, d->prune_first), fmt_count(CELL, d->prune_last),
        fmt_count(CELL, d->prune_every));
    if (4 * behind < d->n_planned) {
        say(to, "          only %s of %s steps train with the last mask; a quarter of them is usual\n",
            fmt_count(CELL, behind), fmt_count(CELL, d->n_planned));
    }
}

#define MOST_ZEROS 6 /* lines of one kind, where -v does not ask for all */

/* Tensors that came with zeros: those whose zeros stay, then those that were trained as others. z->kept says which of
 * the two; without -v at most MOST_ZEROS of each. */
static void print_zeros(const struct app *app, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    FILE *to = app->out.to;

    for (unsigned kind = 0; kind < 2; kind++) {
        size_t n = 0;

        for (size_t k = 0; k < d->n_zeros; k++) {
            const struct vc_distill_zeros *z = &d->zeros[k];

            if (z->kept != (kind == 0) || (++n > MOST_ZEROS && app->common.verbose == 0)) {
                continue;
            }
            say(to, "%s%s: %s of %s",
                n == 1 ? (kind == 0 ? "zeros     stay in " : "zeros     are trained in ") : "          ", z->name,
                fmt_count(CELL, z->before), fmt_count(CELL, z->n));
            if (!o->dry_run) {
                fprintf(to, " before, %s after", fmt_count(CELL, z->after));
            }
            fputc('\n', to);
        }
        if (n > MOST_ZEROS && app->common.verbose == 0) {
            fprintf(to, "          and in %zu other tensors (-v lists them)\n", n - MOST_ZEROS);
        }
    }
}

/* A line for each pair of --match, with its term in the first step and in the last. */
static void print_matches(const struct app *app, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    static const char *const kinds[] = {"squared error", "attention", "cosine", "distances", "angles", "products"};
    FILE *to = app->out.to;

    for (size_t k = 0; k < d->n_matches; k++) {
        const struct vc_match *m = &o->loss.matches[k];

        say(to, "match     %s = %s: %s, weight %g", m->teacher, m->student, kinds[m->kind], m->weight);
        if (m->weight_change != 0) {
            fprintf(to, " to %g", m->weight + m->weight_change);
        }
        fputs(d->matches[k].projected ? ", projected" : "", to);
        if (!o->dry_run && !isnan(d->matches[k].first)) {
            fprintf(to, "; %.4g -> %.4g", d->matches[k].first, d->matches[k].last);
        }
        fputc('\n', to);
    }
}

/* Training in 16 bits, and what became of the scale of the loss. Nothing for training in f32. */
static void print_half(const struct app *app, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    FILE *to = app->out.to;

    if (o->precision.half == VC_HALF_NONE) {
        return;
    }
    fprintf(to, "precision %s, with f32 weights", o->precision.half == VC_HALF_BF16 ? "bf16" : "fp16");
    if (o->precision.half == VC_HALF_F16 && !o->dry_run) {
        say(to, "; scale of the loss %.15g, %s step%s left out", d->loss_scale, fmt_count(CELL, d->n_skipped),
            plural(d->n_skipped));
    }
    fputc('\n', to);
}

/* Labels are part of the run: they were compared with, or they are part of the loss. */
static bool has_labels(const struct vc_distill_options *o, const struct vc_distillation *d)
{
    return d->after.n_labels != 0 || !isnan(d->teacher_accuracy) || o->loss.alpha < 1;
}

/* What has an answer of its own: a row, a position of a text, a place of a map. */
static const char *each_of(enum vc_net_task task)
{
    if (task == VC_NET_TASK_TOKENS) {
        return "position";
    }
    if (task == VC_NET_TASK_SPANS) {
        return "end of a span";
    }
    return task == VC_NET_TASK_MAPS ? "place" : "row";
}

/* What is learned, by whom and from whom: the student with what of it is trained. */
static void print_networks(FILE *to, const struct vc_distill_options *o, const char *teacher, const char *student,
                           const struct vc_distillation *d)
{
    /* task */
    if (o->task == VC_TASK_TRAIN && d->tasks != NULL) {
        say(to, "task      %s; the loss is the weighted sum of theirs\n", d->tasks);
    } else if (o->task == VC_TASK_TRAIN) {
        const char *measure = vc_teacher_loss_facts(d->options->loss.kind)->measure;
        bool labels_alone = o->loss.alpha == 0 && o->moving.alpha_end <= 0;

        say(to, "task      %s: %s value%s for each %s, compared by %s\n", vc_word(VC_WORDS_NET_TASK, d->net_task),
            fmt_count(CELL, d->n_outputs), plural(d->n_outputs), each_of(d->net_task),
            labels_alone && strstr(measure, "divergence") != NULL ? "cross-entropy" : measure);
    }
    /* student, with what of it is trained */
    say(to, "student   %s: %s weights of %zu tensors are trained", student, fmt_count(CELL, d->n_weights),
        d->n_tensors);
    if (d->n_masked != 0) {
        fprintf(to, ", %s of which stay 0", fmt_count(CELL, d->n_masked));
    }
    if (d->n_frozen != 0) {
        fprintf(to, "; %zu tensors are frozen", d->n_frozen);
    }
    if (d->n_unread != 0) {
        fprintf(to, "; %zu tensors are not trained: no logit depends on them", d->n_unread);
    }
    if (d->heads_kept != NULL) {
        say(to, "\n          all heads stay: %s", d->heads_kept);
    }
    /* teacher */
    say(to, "\nteacher   %s", teacher != NULL ? teacher : "none: labels alone");
    if (!isnan(d->teacher_accuracy)) {
        say(to, ": accuracy on the labelled rows %s", fmt_share(CELL, d->teacher_accuracy));
    }
}

/* Rows, steps, epochs; then notes about what the rows and the answers look like. */
static void print_data(FILE *to, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    char text[200];

    uint64_t rows = d->batch * d->accum < d->n_rows ? d->batch * d->accum : d->n_rows;

    say(to, "\ndata      %s: %s rows; %s steps of %s rows", o->data->path, fmt_count(CELL, d->n_rows),
        fmt_count(CELL, o->dry_run ? d->n_planned : d->n_steps), fmt_count(CELL, rows));
    if (d->accum != 1 && d->batch < d->n_rows) {
        fprintf(to, ", %s at a time", fmt_count(CELL, d->batch));
    }
    if (o->parallel.ranks != NULL) {
        fprintf(to, " on each of %u ranks (%s", vc_ranks_size(o->parallel.ranks), vc_ranks_library(o->parallel.ranks));
        if (d->all_reduce != NULL) {
            fprintf(to, "; gradients by %s", strcmp(d->all_reduce, "host") == 0 ? "the hosts" : d->all_reduce);
        }
        fputc(')', to);
    }
    fprintf(to, ", %.4g epochs", d->epochs);
    if (d->resumed != 0) {
        fprintf(to, "; resumed after %s", fmt_count(CELL, d->resumed));
    }
    fputc('\n', to);
    if (d->note != NULL) {
        say(to, "          note: %s\n", d->note);
    }
    if (d->tasks == NULL &&
        answers_text(d->answers, d->n_outputs, has_labels(o, d),
                     o->loss.kind != VC_TEACHER_LOSS_AUTO || d->net_task == VC_NET_TASK_LABELS ||
                         d->net_task == VC_NET_TASK_SPANS,
                     text, sizeof(text)) != NULL &&
        o->task == VC_TASK_TRAIN) {
        fprintf(to, "          note: %s\n", text);
    }
    if (d->unscaled != NULL) {
        say(to,
            "          note: %s has whole numbers from 0 to 255; if the teacher was trained with pixels from 0 to 1, "
            "add --scale 0.00392156862745098\n",
            d->unscaled);
    }
}

/* The grid and the scales of codes in training. */
static void print_grid(const struct app *app, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    FILE *to = app->out.to;

    if (d->fake_quant == NULL) {
        return;
    }
    say(to, "grid      %s: %s weights of %s tensor%s are rounded to codes in every step; float copies with scales %s\n",
        d->fake_quant, fmt_count(CELL, d->n_fake_quant_weights), fmt_count(CELL, d->n_fake_quant_tensors),
        plural(d->n_fake_quant_tensors), fmt_size(CELL, &app->out, d->fake_quant_bytes));
    if (o->precision.learn_scales && !isnan(d->fake_quant_share)) {
        fprintf(to, "scales    learned: on average %.4g of the scale of the largest magnitude\n", d->fake_quant_share);
    }
}

/* All lines before the table, in the order of the example above. */
static void print_head(const struct app *app, const struct vc_distill_options *o, const char *teacher,
                       const char *student, const struct vc_distillation *d)
{
    FILE *to = app->out.to;

    print_networks(to, o, teacher, student, d);
    print_data(to, o, d);
    print_memory(app, d);
    print_grid(app, o, d);
    print_zeros(app, o, d);
    if (d->prune_weights != 0) {
        print_pruning(app, o, d);
    }
    print_matches(app, o, d);
    print_half(app, o, d);
    /* the loss, last: what the lines before led to */
    if (o->task == VC_TASK_RECALIBRATE) {
        fputs("training  none: running statistics from these rows\n", to);
    } else if (!o->dry_run) {
        fprintf(to, "loss      %.4g -> %.4g", d->first_loss, d->last_loss);
        if (o->loss.alpha > 0 && o->loss.alpha < 1 && d->tasks == NULL) {
            fprintf(to, "; first gradients of the logits: %.3g from the teacher, %.3g from labels", d->kd_gradient,
                    d->ce_gradient);
        }
        fputc('\n', to);
    }
}

/* One row of the table. The teacher does not agree with itself in a way that says anything: "-". kd: the heading of the
 * last figure, which is an error that may be a hundredth of a percent, with four significant digits, or a divergence,
 * with four places. */
static void add_quality(struct table *table, const char *name, const struct vc_quality *q, const char *kd, bool small,
                        bool the_teacher)
{
    bool no_kd = the_teacher || isnan(q->kd);

    table_cell(table, 'l', "", INK_NONE, name);
    table_cell(table, 'r', "accuracy", INK_NONE, fmt_share(CELL, q->accuracy));
    table_cell(table, 'r', "cross-entropy", isnan(q->ce) ? INK_DIM : INK_NONE,
               isnan(q->ce) ? "-" : fmt_text(CELL, "%.4f", q->ce));
    table_cell(table, 'r', "agreement", the_teacher ? INK_DIM : INK_NONE,
               the_teacher ? "-" : fmt_share(CELL, q->agreement));
    const char *figure = small ? fmt_text(CELL, "%.4g", q->kd) : fmt_text(CELL, "%.4f", q->kd);
    table_cell(table, 'r', kd, no_kd ? INK_DIM : INK_NONE, no_kd ? "-" : figure);
    table_end_row(table);
}

/* The figures that compare with y, before and after training, on one line. MSE and its like where y has floats; mean
 * IoU for maps of classes, too. Then why a figure has no value. */
static void print_errors(const struct app *app, const struct vc_distillation *d)
{
    static const struct {
        enum vc_metric metric;
        const char *name;
    } rows[] = {{VC_METRIC_MSE, "squared error"},      {VC_METRIC_R2, "R2"}, {VC_METRIC_MAE, "mean absolute error"},
                {VC_METRIC_COSINE, "cosine"},          {VC_METRIC_F1, "F1"}, {VC_METRIC_IOU, "mean IoU"},
                {VC_METRIC_EXACT_MATCH, "exact match"}};
    FILE *to = app->out.to;
    const char *before = "y         ";
    bool some = false;

    for (size_t k = 0; k < d->after.n_parts && k < d->before.n_parts; k++) {
        struct vc_metric_value after = vc_metric_figure(&d->after.parts[k], VC_METRIC_AUTO);

        say(to, "          %s: %s %.4f -> %.4f\n", d->after.parts[k].name, vc_word(VC_WORDS_METRIC, after.metric),
            vc_metric_figure(&d->before.parts[k], after.metric).value, after.value);
    }
    for (size_t k = 0; d->after.n_parts == 0 && k < sizeof(rows) / sizeof(rows[0]); k++) {
        struct vc_metric_value after = vc_metric_figure(&d->after, rows[k].metric);

        if (!isnan(after.value) &&
            (d->after.n_targets != 0 || (rows[k].metric != VC_METRIC_R2 && rows[k].metric != VC_METRIC_COSINE))) {
            double was = vc_metric_figure(&d->before, rows[k].metric).value;

            fprintf(to, "%s%s", before, rows[k].name);
            fprintf(to, after.rises ? " %.4f -> %.4f" : " %.4g -> %.4g", was, after.value);
            before = ", ";
            some = true;
        }
    }
    if (some) {
        fputc('\n', to);
    }
    if (d->after.undefined != NULL) {
        fprintf(to, "          note: %s\n", d->after.undefined);
    }
}

/* The table: teacher, before, after, control (the same student without the teacher). False: no memory. */
static bool print_qualities(const struct app *app, const struct vc_distillation *d, enum vc_teacher_loss loss,
                            bool has_teacher)
{
    const char *kd = d->tasks != NULL ? "loss" : vc_teacher_loss_facts(loss)->measure;
    bool small = loss != VC_TEACHER_LOSS_KD;
    struct table table = {.failed = false};

    if (has_teacher) {
        add_quality(&table, "teacher", &d->teacher, kd, small, true);
    }
    add_quality(&table, "before", &d->before, kd, small, false);
    add_quality(&table, "after", &d->after, kd, small, false);
    if (d->has_control) {
        add_quality(&table, "control", &d->control, kd, small, false);
    }
    return table_print(&table, &app->out, true);
}

/* False: no memory. */
bool print_distillation(struct app *app, const struct vc_distill_options *o, const char *teacher, const char *student,
                        const struct vc_distillation *d)
{
    FILE *to = app->out.to;
    bool printed = true;

    print_head(app, o, teacher, student, d);
    if (d->nothing_to_learn) {
        fputs("          note: the outputs are the teacher's to the last bit: nothing was trained\n", to);
    }
    if (d->n_idle != 0) {
        say(to, "          note: %s has a gradient of zeros in the first step%s", d->idle,
            o->precision.half != VC_HALF_NONE ? ", or one that 16 bits are too coarse for" : "");
        if (d->n_idle > 1) {
            fprintf(to, "; %zu tensors have", d->n_idle);
        }
        fputc('\n', to);
    }
    if (d->evaluated) {
        say(to, "eval      %s: %s rows\n", o->eval.rows->path, fmt_count(CELL, d->after.n_rows));
        printed = print_qualities(app, d, d->options->loss.kind, o->teacher.graph != NULL || o->eval.n_logits != 0);
        print_errors(app, d);
    }
    /* what the evaluations on the way decided */
    if (d->best_step != 0) {
        say(to, "the best of %s evaluations was after step %s; %s%s\n", fmt_count(CELL, d->n_evals),
            fmt_count(CELL, d->best_step),
            o->eval.keep == VC_KEEP_BEST ? "its weights are kept" : "the last weights are kept",
            d->stopped ? ", and the run ended early" : "");
    }
    if (d->has_control) {
        fprintf(to, "the teacher gains %+.2f +- %.2f points over the control, which learnt from labels alone\n",
                100 * d->gain, 100 * d->gain_error);
    } else if (d->control_reason != NULL) {
        fprintf(to, "no control run: %s\n", d->control_reason);
    }
    /* the work is done although checkpoints could not be written */
    if (d->unsaved != NULL) {
        say(to, "%s checkpoint%s could not be written; the last: %s\n", fmt_count(CELL, d->n_unsaved),
            plural(d->n_unsaved), d->unsaved);
    }
    if (d->written != NULL) {
        say(to, "wrote %s, %s", o->write->path, fmt_size(CELL, &app->out, d->written->totals.file_after));
        if (!app->common.diffable) {
            fprintf(to, ", in %.1f s", d->seconds);
        }
        fputc('\n', to);
    }
    return printed;
}
