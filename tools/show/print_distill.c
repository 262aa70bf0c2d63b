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

/* "weights 626 KiB" */
static void print_size(const struct app *app, const char *name, uint64_t bytes)
{
    char buf[CELL_BYTES];

    fprintf(app->out.to, "%s %s", name, fmt_size(buf, &app->out, bytes));
}

/* Two lines: the memory of the networks' programs by purpose, then the peak of the whole process. "Without reuse": if
 * every value had memory of its own. */
static void print_memory(const struct app *app, const struct vc_distillation *d)
{
    char buf[CELL_BYTES];

    fprintf(app->out.to, "memory    %s:",
            fmt_size(buf, &app->out,
                     d->arena_bytes + d->weight_bytes + d->gradient_bytes + d->state_bytes + d->teacher_bytes +
                         d->copy_bytes));
    print_size(app, " programs", d->arena_bytes);
    fprintf(app->out.to, " (without reuse %s)", fmt_size(buf, &app->out, d->naive_bytes));
    print_size(app, ", weights", d->weight_bytes);
    print_size(app, ", gradients", d->gradient_bytes);
    print_size(app, ", states", d->state_bytes);
    if (d->teacher_bytes != 0) {
        print_size(app, ", teacher", d->teacher_bytes);
    }
    fputc('\n', app->out.to);
    fprintf(app->out.to, "peak      %s during training", fmt_size(buf, &app->out, d->planned_bytes));
    print_size(app, ", with data and models; evaluation alone", d->eval_bytes);
    if (d->macs_again != 0) {
        fprintf(app->out.to, "; %.0f %% of the forward pass is computed again",
                100 * (double)d->macs_again / (double)d->macs_forward);
    }
    if (d->device_planned_bytes != 0) {
        print_size(app, "; on the device", d->device_planned_bytes);
    }
    fputc('\n', app->out.to);
    if (d->expected_cpu_seconds > 0 && (app->common.verbose || d->device_reason == NULL)) {
        fprintf(app->out.to, "          device auto: expected %.2f s on 16 processors, %.2f s with a card",
                d->expected_cpu_seconds, d->expected_card_seconds);
        if (d->device_reason != NULL) {
            fputs("; the CPU: ", app->out.to);
            print_clean(app->out.to, d->device_reason);
        }
        fputc('\n', app->out.to);
    }
    if (d->no_graphs != NULL) {
        fprintf(app->out.to, "          note: steps were not started as CUDA graphs, which is slower: %s\n",
                d->no_graphs);
    }
}

/* Gradual pruning: from where to where, and when. The last line is advice: the masks should be final for a quarter of
 * the steps. A dry run has no figures of its own, so the wanted sparsity is printed. */
static void print_pruning(const struct app *app, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    FILE *to = app->out.to;
    char buf[CELL_BYTES];
    double n = (double)d->prune_weights;
    /* steps that train with the final masks */
    uint64_t behind = d->n_planned - d->prune_last;

    fprintf(to, "pruning   %s weights", fmt_count(buf, d->prune_weights));
    if (o->dry_run) {
        fprintf(to, " to a sparsity of %s", o->sparsity.prune->sparsity);
    } else {
        fprintf(to, ", sparsity %.2f %% -> %.2f %%", 100 * (double)d->prune_begin / n, 100 * (double)d->prune_end / n);
    }
    fprintf(to, ", after steps %s", fmt_count(buf, d->prune_first));
    fprintf(to, " to %s", fmt_count(buf, d->prune_last));
    fprintf(to, ", every %s\n", fmt_count(buf, d->prune_every));
    if (4 * behind < d->n_planned) {
        fprintf(to, "          only %s", fmt_count(buf, behind));
        fprintf(to, " of %s steps train with the last mask; a quarter of them is usual\n",
                fmt_count(buf, d->n_planned));
    }
}

#define MOST_ZEROS 6 /* lines of one kind, where -v does not ask for all */

/* Tensors that came with zeros: those whose zeros stay, then those that were trained as others. z->kept says which of
 * the two; without -v at most MOST_ZEROS of each. */
static void print_zeros(const struct app *app, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    FILE *to = app->out.to;
    char buf[CELL_BYTES];

    for (unsigned kind = 0; kind < 2; kind++) {
        size_t n = 0;

        for (size_t k = 0; k < d->n_zeros; k++) {
            const struct vc_distill_zeros *z = &d->zeros[k];

            if (z->kept != (kind == 0) || (++n > MOST_ZEROS && app->common.verbose == 0)) {
                continue;
            }
            fputs(n == 1 ? (kind == 0 ? "zeros     stay in " : "zeros     are trained in ") : "          ", to);
            print_clean(to, z->name);
            fprintf(to, ": %s", fmt_count(buf, z->before));
            fprintf(to, " of %s", fmt_count(buf, z->n));
            if (!o->dry_run) {
                fprintf(to, " before, %s after", fmt_count(buf, z->after));
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

        fputs("match     ", to);
        print_clean(to, m->teacher);
        fputs(" = ", to);
        print_clean(to, m->student);
        fprintf(to, ": %s, weight %g", kinds[m->kind], m->weight);
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
    char buf[CELL_BYTES];

    if (o->precision.half == VC_HALF_NONE) {
        return;
    }
    fprintf(to, "precision %s, with f32 weights", o->precision.half == VC_HALF_BF16 ? "bf16" : "fp16");
    if (o->precision.half == VC_HALF_F16 && !o->dry_run) {
        fprintf(to, "; scale of the loss %.15g", d->loss_scale);
        fprintf(to, ", %s step%s left out", fmt_count(buf, d->n_skipped), d->n_skipped == 1 ? "" : "s");
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
    char buf[CELL_BYTES];

    /* task */
    if (o->task == VC_TASK_TRAIN && d->tasks != NULL) {
        fputs("task      ", to);
        print_clean(to, d->tasks);
        fputs("; the loss is the weighted sum of theirs\n", to);
    } else if (o->task == VC_TASK_TRAIN) {
        fprintf(to, "task      %s: %s value%s", vc_word(VC_WORDS_NET_TASK, d->net_task), fmt_count(buf, d->n_outputs),
                d->n_outputs == 1 ? "" : "s");
        const char *measure = vc_teacher_loss_facts(d->options->loss.kind)->measure;
        bool labels_alone = o->loss.alpha == 0 && o->moving.alpha_end <= 0;

        fprintf(to, " for each %s, compared by %s\n", each_of(d->net_task),
                labels_alone && strstr(measure, "divergence") != NULL ? "cross-entropy" : measure);
    }
    /* student, with what of it is trained */
    fputs("student   ", to);
    print_clean(to, student);
    fprintf(to, ": %s weights", fmt_count(buf, d->n_weights));
    fprintf(to, " of %zu tensors are trained", d->n_tensors);
    if (d->n_masked != 0) {
        fprintf(to, ", %s of which stay 0", fmt_count(buf, d->n_masked));
    }
    if (d->n_frozen != 0) {
        fprintf(to, "; %zu tensors are frozen", d->n_frozen);
    }
    if (d->n_unread != 0) {
        fprintf(to, "; %zu tensors are not trained: no logit depends on them", d->n_unread);
    }
    if (d->heads_kept != NULL) {
        fputs("\n          all heads stay: ", to);
        print_clean(to, d->heads_kept);
    }
    /* teacher */
    fputs("\nteacher   ", to);
    print_clean(to, teacher != NULL ? teacher : "none: labels alone");
    if (!isnan(d->teacher_accuracy)) {
        fprintf(to, ": accuracy on the labelled rows %s", fmt_share(buf, d->teacher_accuracy));
    }
}

/* Rows, steps, epochs; then notes about what the rows and the answers look like. */
static void print_data(FILE *to, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    char buf[CELL_BYTES], text[200];

    fputs("\ndata      ", to);
    print_clean(to, o->data->path);
    fprintf(to, ": %s rows;", fmt_count(buf, d->n_rows));
    fprintf(to, " %s steps of", fmt_count(buf, o->dry_run ? d->n_planned : d->n_steps));
    fprintf(to, " %s rows", fmt_count(buf, d->batch * d->accum < d->n_rows ? d->batch * d->accum : d->n_rows));
    if (d->accum != 1 && d->batch < d->n_rows) {
        fprintf(to, ", %s at a time", fmt_count(buf, d->batch));
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
        fprintf(to, "; resumed after %s", fmt_count(buf, d->resumed));
    }
    fputc('\n', to);
    if (d->note != NULL) {
        fputs("          note: ", to);
        print_clean(to, d->note);
        fputc('\n', to);
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
        fputs("          note: ", to);
        print_clean(to, d->unscaled);
        fputs(" has whole numbers from 0 to 255; if the teacher was trained with pixels from 0 to 1, add --scale "
              "0.00392156862745098\n",
              to);
    }
}

/* The grid and the scales of codes in training. */
static void print_grid(const struct app *app, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    FILE *to = app->out.to;
    char buf[CELL_BYTES];

    if (d->fake_quant == NULL) {
        return;
    }
    fprintf(to, "grid      %s: %s weights", d->fake_quant, fmt_count(buf, d->n_fake_quant_weights));
    fprintf(to, " of %s tensor%s are rounded to codes in every step", fmt_count(buf, d->n_fake_quant_tensors),
            d->n_fake_quant_tensors == 1 ? "" : "s");
    print_size(app, "; float copies with scales", d->fake_quant_bytes);
    fputc('\n', to);
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

/* small: an error that may be a hundredth of a percent gets four significant digits, others four places. */
static void add_number(struct table *table, double x, bool small)
{
    char buf[CELL_BYTES];

    if (isnan(x)) {
        table_add(table, INK_DIM, "-");
    } else {
        (void)(small ? snprintf(buf, sizeof(buf), "%.4g", x) : snprintf(buf, sizeof(buf), "%.4f", x));
        table_add(table, INK_NONE, buf);
    }
}

/* One row of the table. The teacher does not agree with itself in a way that says anything: "-". */
static void add_quality(struct table *table, const char *name, const struct vc_quality *q, enum vc_teacher_loss loss,
                        bool the_teacher)
{
    char buf[CELL_BYTES];

    table_add(table, INK_NONE, name);
    table_add(table, INK_NONE, fmt_share(buf, q->accuracy));
    add_number(table, q->ce, false);
    table_add(table, the_teacher ? INK_DIM : INK_NONE, the_teacher ? "-" : fmt_share(buf, q->agreement));
    add_number(table, the_teacher ? (double)NAN : q->kd, loss != VC_TEACHER_LOSS_KD);
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

        fputs("          ", to);
        print_clean(to, d->after.parts[k].name);
        fprintf(to, ": %s %.4f -> %.4f\n", vc_word(VC_WORDS_METRIC, after.metric),
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
    const char *const titles[] = {"", "accuracy", "cross-entropy", "agreement",
                                  d->tasks != NULL ? "loss" : vc_teacher_loss_facts(loss)->measure};
    struct table table;

    table_init(&table, "lrrrr");
    for (size_t k = 0; k < 5; k++) {
        table_add(&table, INK_DIM, titles[k]);
    }
    if (has_teacher) {
        add_quality(&table, "teacher", &d->teacher, loss, true);
    }
    add_quality(&table, "before", &d->before, loss, false);
    add_quality(&table, "after", &d->after, loss, false);
    if (d->has_control) {
        add_quality(&table, "control", &d->control, loss, false);
    }
    return table_print(&table, &app->out, true);
}

/* False: no memory. */
bool print_distillation(struct app *app, const struct vc_distill_options *o, const char *teacher, const char *student,
                        const struct vc_distillation *d)
{
    FILE *to = app->out.to;
    char buf[CELL_BYTES];
    bool printed = true;

    print_head(app, o, teacher, student, d);
    if (d->nothing_to_learn) {
        fputs("          note: the outputs are the teacher's to the last bit: nothing was trained\n", to);
    }
    if (d->n_idle != 0) {
        fputs("          note: ", to);
        print_clean(to, d->idle);
        fprintf(to, " has a gradient of zeros in the first step%s",
                o->precision.half != VC_HALF_NONE ? ", or one that 16 bits are too coarse for" : "");
        if (d->n_idle > 1) {
            fprintf(to, "; %zu tensors have", d->n_idle);
        }
        fputc('\n', to);
    }
    if (d->evaluated) {
        fputs("eval      ", to);
        print_clean(to, o->eval.rows->path);
        fprintf(to, ": %s rows\n", fmt_count(buf, d->after.n_rows));
        printed = print_qualities(app, d, d->options->loss.kind, o->teacher.graph != NULL || o->eval.n_logits != 0);
        print_errors(app, d);
    }
    /* what the evaluations on the way decided */
    if (d->best_step != 0) {
        fprintf(to, "the best of %s evaluations was after", fmt_count(buf, d->n_evals));
        fprintf(to, " step %s", fmt_count(buf, d->best_step));
        fprintf(to, "; %s%s\n", o->eval.keep == VC_KEEP_BEST ? "its weights are kept" : "the last weights are kept",
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
        fprintf(to, "%s checkpoint%s could not be written; the last: ", fmt_count(buf, d->n_unsaved),
                d->n_unsaved == 1 ? "" : "s");
        print_clean(to, d->unsaved);
        fputc('\n', to);
    }
    if (d->written != NULL) {
        fputs("wrote ", to);
        print_clean(to, o->write->path);
        fprintf(to, ", %s", fmt_size(buf, &app->out, d->written->totals.file_after));
        if (!app->common.diffable) {
            fprintf(to, ", in %.1f s", d->seconds);
        }
        fputc('\n', to);
    }
    return printed;
}
