/* setup.c - opens data and networks of a run, checks that they fit, counts the memory and takes it.
 *
 *     vc_trainer_open     rows, networks, teachers, masks; every refusal that needs no training
 *     vc_trainer_fit      memory_choice.c: batches and programs that fit
 *     vc_trainer_begin    weights as in the file; masks, optimizer and counts as at the beginning; again for a control run
 *     vc_trainer_close    frees everything, whatever was opened
 *
 * The order in vc_trainer_open is the order in which one thing decides about the next:
 *
 *     rows of data      which arrays there are                          the student's task, how many positions
 *     student           classes, loss, what is trained                  matches, teacher, labels
 *     teacher           its classes, positions                          how answers are compared
 *     rows of eval      seen as both networks were opened               gates
 *     logits            answers in files, in place of a teacher         the loss's terms
 *     steps             rows by batch and accumulation                  schedules of pruning and learning rates
 *     memory            last, since everything above has its size
 *
 * What can be refused is refused before the first step, with the option's name as the caller's program
 * spells it (vc_option): a run of hours must not end with a sentence that could have been said at once. */

#include "core/job/scoped.h"
#include "core/model/memory_model.h"
#include "distill/loss/match.h"
#include "distill/math/real.h"
#include "distill/run/checkpoint.h"
#include "distill/trained.h"
#include "distill/update/device_step.h"
#include "distill/update/fake_quant.h"
#include "distill/update/gradual.h"
#include "distill/update/masks.h"
#include "distill/update/update.h"
#include "kernels/kernels.h"

/* ---- what fits what ---- */

/* What y has to be, for a sentence. */
static const char *wanted_y(const struct vc_trainer *t)
{
    if (t->student.net.n_heads != 0) {
        return "arrays with the names of the outputs";
    }
    if (t->student.net.task == VC_NET_TASK_LABELS) {
        return "an array y of 0 and 1, one for each answer";
    }
    if (t->student.net.task == VC_NET_TASK_SPANS) {
        return "an array y of start and end, two positions for each row";
    }
    return t->student.net.answers == VC_ANSWERS_VALUES ? "an array y of floats, one for each answer"
                                                       : "an array y of classes, from 0 on";
}

/* What the loss compares with is there: a teacher, labels, or both, and what gates need.
 *     alpha 1             a teacher                          alpha 0    labels
 *     0 < alpha < 1       both                               gates      rows of eval, with labels or a teacher
 *     k largest logits    KD alone: other losses compare all
 */
static enum vc_status check_terms(struct vc_trainer *t)
{
    const struct vc_distill_options *o = &t->options;
    struct vc_metric_miss miss;

    if (t->eval.open && !vc_trainer_has_y(&t->eval.rows) && !t->eval.taught && !t->unjudged) {
        return t->eval.rows.has_labels
                   ? vc_fail(t->ctx, VC_E_ARGUMENT,
                             "%s: all labels are below 0, or ignored, and there is no teacher to judge by",
                             t->eval.rows.model->path)
                   : vc_fail(t->ctx, VC_E_ARGUMENT, "%s: there are neither labels (%s) nor a teacher to judge by",
                             t->eval.rows.model->path, wanted_y(t));
    }
    if (t->judge_only) {
        return VC_OK;
    }
    if (o->task == VC_TASK_RECALIBRATE) {
        return vc_trainer_recalibrate_check(t);
    }
    VC_REFUSE_IF(!t->data.taught && o->moving.alpha_end > 0, t->ctx, VC_E_ARGUMENT,
                 "there is no teacher that %s %g would learn from", vc_option(t->ctx, "moving.alpha_end"),
                 o->moving.alpha_end);
    VC_REFUSE_IF(o->moving.alpha_end >= 0 && o->moving.alpha_end < 1 && !vc_trainer_has_y(&t->data.rows), t->ctx,
                 VC_E_ARGUMENT, "%s: there are no labels: %s %g needs %s", t->data.rows.model->path,
                 vc_option(t->ctx, "moving.alpha_end"), o->moving.alpha_end, wanted_y(t));
    VC_REFUSE_IF(o->moving.temperature_end > 0 && t->data.files.k != 0, t->ctx, VC_E_ARGUMENT,
                 "%s: has the largest logits of each row and a sum at one temperature; %s needs all logits, or the "
                 "teacher itself",
                 t->data.files.items[0].model->path, vc_option(t->ctx, "moving.temperature_end"));
    VC_REFUSE_IF(!t->data.taught && o->loss.alpha != 0, t->ctx, VC_E_ARGUMENT,
                 "there is no teacher; %s 0 learns from labels alone", vc_option(t->ctx, "loss.alpha"));
    VC_REFUSE_IF(o->loss.alpha < 1 && !vc_trainer_has_y(&t->data.rows), t->ctx, VC_E_ARGUMENT,
                 "%s: there are no labels: %s %g needs %s; with %s 1 the student learns from %s alone",
                 t->data.rows.model->path, vc_option(t->ctx, "loss.alpha"), o->loss.alpha, wanted_y(t),
                 vc_option(t->ctx, "loss.alpha"), t->data.taught ? "the teacher" : "a teacher");
    if (o->loss.kind != VC_TEACHER_LOSS_KD && (t->data.files.k != 0 || t->eval.files.k != 0)) {
        const struct vc_teacher_files *files = t->data.files.k != 0 ? &t->data.files : &t->eval.files;

        return vc_fail(t->ctx, VC_E_ARGUMENT, "%s: has the %zu largest logits of each row; %s %s compares all",
                       files->items[0].model->path, files->k, vc_option(t->ctx, "loss.kind"),
                       vc_teacher_loss_facts(o->loss.kind)->word);
    }
    for (size_t k = 0; o->loss.alpha == 0 && o->moving.alpha_end <= 0 && k < t->data.rows.n_outputs; k++) {
        const struct vc_rows_output *output = &t->data.rows.outputs[k];

        VC_REFUSE_IF(!vc_trainer_has_y(output->rows), t->ctx, VC_E_ARGUMENT,
                     "%s: there are no labels for the output %s, and with %s 0 it learns from no teacher",
                     t->data.rows.model->path, output->task.output, vc_option(t->ctx, "loss.alpha"));
    }
    VC_REFUSE_IF((o->gates.min_accuracy > 0 || o->gates.max_drop < 1) &&
                     (!t->eval.open || !vc_trainer_has_labels(&t->eval.rows)),
                 t->ctx, VC_E_ARGUMENT, "%s and %s need rows with labels that accuracy is measured by: %s",
                 vc_option(t->ctx, "gates.min_accuracy"), vc_option(t->ctx, "gates.max_drop"),
                 vc_option(t->ctx, "eval.rows"));
    VC_REFUSE_IF(!t->eval.open && vc_metric_missed(NULL, &o->limits, &miss), t->ctx, VC_E_ARGUMENT,
                 "%s needs rows that the student is judged by: %s", vc_option(t->ctx, miss.field),
                 vc_option(t->ctx, "eval.rows"));
    VC_REFUSE_IF(o->gates.max_drop < 1 && !t->eval.taught, t->ctx, VC_E_ARGUMENT,
                 "%s compares with the teacher, but the rows of %s have no teacher",
                 vc_option(t->ctx, "gates.max_drop"), vc_option(t->ctx, "eval.rows"));
    return VC_OK;
}

/* "1,1,5": a weight for each class.
 * strtod skips spaces before a number, so that "1, 1, 5" is read, too. */
static enum vc_status read_class_weights(struct vc_trainer *t)
{
    const char *text = t->options.answers.class_weights;
    const char *option = vc_option(t->ctx, "class_weights");
    size_t n = t->student.net.n_classes;
    const char *at = text;
    double sum = 0;
    size_t k = 0;

    VC_CALL(VC_ARRAY(t->ctx, VC_TAG_MISC, t->class_weights, n + 1));
    for (; at != NULL && k <= n; k++) {
        char *end = NULL;
        double x = strtod(at, &end);

        VC_REFUSE_IF(end == at || (*end != ',' && *end != '\0') || !(x >= 0) || !isfinite(x), t->ctx, VC_E_ARGUMENT,
                     "%s: '%s' is no list of numbers from 0 on, such as 1,1,5", option, text);
        t->class_weights[k] = x;
        sum += x;
        at = *end == ',' ? end + 1 : NULL;
    }
    VC_REFUSE_IF(k != n || at != NULL, t->ctx, VC_E_ARGUMENT, "%s: '%s' has %s numbers than there are classes, %zu",
                 option, text, k < n ? "fewer" : "more", n);
    VC_REFUSE_IF(sum == 0, t->ctx, VC_E_ARGUMENT, "%s: '%s' leaves no class that counts", option, text);
    return VC_OK;
}

/* Smoothing and weights belong to cross-entropy with labels. */
static enum vc_status open_cross_entropy(struct vc_trainer *t)
{
    const struct vc_distill_options *o = &t->options;
    bool classes = t->student.net.task == VC_NET_TASK_CLASSES || t->student.net.task == VC_NET_TASK_TOKENS ||
                   t->student.net.task == VC_NET_TASK_MAPS;

    if (o->answers.label_smoothing == 0 && o->answers.class_weights == NULL) {
        return VC_OK;
    }
    VC_REFUSE_IF(!classes || (o->loss.alpha == 1 && !o->eval.control), t->ctx, VC_E_ARGUMENT,
                 "%s belongs to cross-entropy with labels of classes: %s",
                 vc_option(t->ctx, o->answers.class_weights != NULL ? "class_weights" : "label_smoothing"),
                 classes ? "the loss has none with a share of 1 for the teacher" : "the network is for other answers");
    return o->answers.class_weights != NULL ? read_class_weights(t) : VC_OK;
}

/* Rows for both networks.
 * A name in the data is an input of either network; vc_rows_open looks at both. */
static enum vc_status open_rows(struct vc_trainer *t, const struct vc_data_options *options,
                                struct vc_taught_rows *rows)
{
    const struct vc_graph *graphs[2] = {t->options.student.graph, t->options.teacher.graph};
    const struct vc_model *weights[2] = {t->options.student.weights, t->options.teacher.weights};

    rows->open = true;
    return vc_rows_open(t->ctx, options, graphs, weights, 2, &rows->rows);
}

/* The views of rows that the networks were not opened with. */
static enum vc_status view_eval(struct vc_trainer *t)
{
    const char *batch;
    int64_t fixed;

    VC_CALL(vc_rows_view_make(&t->eval.rows, t->options.student.graph, &t->eval.student, &batch, &fixed));
    if (t->runs_teacher) {
        VC_CALL(vc_rows_view_make(&t->eval.rows, t->options.teacher.graph, &t->eval.teacher, &batch, &fixed));
    }
    VC_CALL(vc_heads_fit(t, &t->eval));
    VC_CALL(vc_net_fit_labels(&t->student.net, &t->eval.rows));
    VC_CALL(vc_rows_take_positions(&t->eval.rows, &t->eval.student, t->student.net.positions, t->student.net.next));
    return vc_trainer_check_labels(t, &t->student.net, &t->eval.rows);
}

/* Something of the student is trained. */
static enum vc_status check_trained(struct vc_trainer *t)
{
    const struct vc_weights *w = t->student.net.weights;
    bool some = t->judge_only || t->options.task != VC_TASK_TRAIN;

    for (size_t k = 0; k < w->n; k++) {
        some = some || w->items[k].trained;
    }
    if (some) {
        return VC_OK;
    }
    return t->options.trained.n_freeze == 0
               ? vc_fail(t->ctx, VC_E_ARGUMENT, "nothing of the student is trained: its answers depend on no tensor")
               : vc_fail(t->ctx, VC_E_ARGUMENT, "nothing of the student is trained: %s leaves every tensor as it is",
                         vc_option(t->ctx, "trained.freeze"));
}

/* Teacher and student have the same classes, or the first ones in common.
 * Vocabularies are often padded to a round number, with a different one for each model: the first classes
 * are the same then. */
static enum vc_status check_classes(struct vc_trainer *t, const char *role)
{
    size_t teacher = t->teacher.n_classes;
    size_t student = t->student.net.n_classes;
    bool common = t->options.loss.classes == VC_CLASSES_COMMON;

    if (teacher == student || (common && (teacher > student || t->options.loss.kind == VC_TEACHER_LOSS_KD))) {
        return VC_OK;
    }
    VC_REFUSE_IF(common, t->ctx, VC_E_ARGUMENT,
                 "the teacher has %zu classes, the %s has %zu: without the teacher's values of the others outputs "
                 "cannot be compared by %s mse or cosine",
                 teacher, role, student, vc_option(t->ctx, "loss.kind"));
    return t->judge_only
               ? vc_fail(t->ctx, VC_E_ARGUMENT, "the teacher has %zu classes, the %s has %zu", teacher, role, student)
               : vc_fail(t->ctx, VC_E_ARGUMENT,
                         "the teacher has %zu classes, the %s has %zu; where the last ones pad one vocabulary, "
                         "%s common compares the others",
                         teacher, role, student, vc_option(t->ctx, "loss.classes"));
}

/* Answers of several outputs lie side by side, so each has to be as wide. */
static enum vc_status check_outputs(struct vc_trainer *t, struct vc_rows *rows)
{
    const char *teacher = vc_net_outputs_text(&t->teacher, &rows->arena);
    const char *student = vc_net_outputs_text(&t->student.net, &rows->arena);

    VC_REFUSE_IF(teacher == NULL || student == NULL, t->ctx, VC_E_NOMEM, "not enough memory for the outputs' names");
    return strcmp(teacher, student) == 0
               ? VC_OK
               : vc_fail(t->ctx, VC_E_ARGUMENT, "the outputs of the teacher are %s for each row, those of the %s %s",
                         teacher, t->judge_only ? "network" : "student", student);
}

/* Which task the teacher is asked for: what was named, and what its own output does not say. */
static enum vc_net_task task_of_teacher(enum vc_net_task is, enum vc_net_task named)
{
    if (is == VC_NET_TASK_MAPS || is == VC_NET_TASK_SPANS) {
        return is;
    }
    return named == VC_NET_TASK_TOKENS ? VC_NET_TASK_CLASSES : named;
}

/* What values of a student of 16 bits are rounded to. */
static enum vc_unary rounding_of(enum vc_half half)
{
    switch (half) {
    case VC_HALF_BF16:
        return VC_UNARY_ROUND_BF16;
    case VC_HALF_F16:
        return VC_UNARY_ROUND_F16;
    default:
        return VC_UNARY_COPY;
    }
}

/* The networks, with their views of the rows that they are opened for. */
static enum vc_status open_networks(struct vc_trainer *t, struct vc_taught_rows *rows)
{
    const struct vc_distill_options *o = &t->options;
    struct vc_net_options student = {.role = t->judge_only ? "network" : "student",
                                     .loss = o->loss.kind,
                                     .task = o->answers.net_task,
                                     .precision = o->precision.kind,
                                     .rounding = rounding_of(o->precision.half),
                                     .train = t->student.trains,
                                     .frozen_norm = o->trained.frozen_norm,
                                     .freeze = o->trained.freeze,
                                     .n_freeze = o->trained.n_freeze,
                                     .allow_tied = o->trained.allow_tied,
                                     .seed = o->training.seed,
                                     .recompute = o->memory.recompute,
                                     .recompute_every = o->memory.recompute_every,
                                     .budget_bytes = o->memory.budget,
                                     .device = t->student.device};
    struct vc_net_options teacher = {.role = "teacher", .precision = o->precision.kind, .device = t->student.device};

    if (!t->judge_only) {
        VC_CALL(vc_match_find(t->ctx, o, &t->match));
    }
    vc_match_keep_values(t->match, &student, &teacher);
    VC_CALL(vc_net_open(t->ctx, &o->student, &student, &rows->rows, &rows->student, &t->student.net));
    teacher.loss = t->options.loss.kind = t->student.net.loss;
    teacher.task = task_of_teacher(t->student.net.task, o->answers.net_task);
    for (size_t k = 0; k < t->student.net.n_heads; k++) {
        struct vc_output_task *task = &rows->rows.outputs[k].task;

        task->task = task_of_teacher(t->student.net.heads[k].task, t->student.net.heads[k].task);
    }
    VC_CALL(check_trained(t));
    if (!t->judge_only) {
        VC_CALL(vc_fake_quant_open(&t->student));
        VC_CALL(vc_weights_check(t->ctx, t->student.net.weights, o->student.weights));
    }
    if (t->runs_teacher) {
        VC_CALL(vc_net_open(t->ctx, &o->teacher, &teacher, &rows->rows, &rows->teacher, &t->teacher));
        VC_CALL(check_outputs(t, &rows->rows));
        VC_CALL(check_classes(t, student.role));
    }
    VC_REFUSE_IF(t->runs_teacher && t->teacher.positions != t->student.net.positions, t->ctx, VC_E_ARGUMENT,
                 "the teacher answers for %zu positions of each row, the %s for %zu", t->teacher.positions,
                 student.role, t->student.net.positions);
    VC_CALL(vc_rows_take_positions(&rows->rows, &rows->student, t->student.net.positions, t->student.net.next));
    VC_CALL(vc_trainer_check_labels(t, &t->student.net, &rows->rows));
    VC_CALL(vc_heads_fit(t, rows));
    VC_CALL(vc_match_open(t->match, &t->student.net, &t->teacher, &t->data, t->texts));
    t->report->n_matches = t->match != NULL ? o->loss.n_matches : 0;
    t->report->matches = vc_match_figures(t->match);
    return VC_OK;
}

/* Whom the rows are taught by: the network, or files that answer these rows. */
static enum vc_status open_teacher(struct vc_trainer *t, struct vc_taught_rows *rows,
                                   const struct vc_model *const *files, size_t n_files)
{
    const struct vc_distill_options *o = &t->options;

    if (!rows->open) {
        return n_files == 0 ? VC_OK
                            : vc_fail(t->ctx, VC_E_ARGUMENT, "%s has answers to the rows of %s, which is not given",
                                      vc_option(t->ctx, "eval.logits"), vc_option(t->ctx, "eval.rows"));
    }
    VC_REFUSE_IF(n_files != 0 && t->runs_teacher && rows == &t->eval, t->ctx, VC_E_ARGUMENT,
                 "there are two teachers: a network, and files with its answers; the network answers the rows of %s "
                 "itself",
                 vc_option(t->ctx, "eval.rows"));
    VC_REFUSE_IF(n_files != 0 && t->runs_teacher, t->ctx, VC_E_ARGUMENT,
                 "there are two teachers: a network, and files with its answers");
    if (n_files != 0) {
        const char *parts = vc_net_outputs_text(&t->student.net, &rows->rows.arena);

        VC_CALL_ALLOC(parts);
        const struct vc_teacher_question question = {.parts = parts,
                                                     .n_classes = t->student.net.n_classes,
                                                     .common = o->loss.classes == VC_CLASSES_COMMON,
                                                     .outputs = vc_loss_compares(o->loss.kind) != VC_OF_CLASSES,
                                                     .values = t->student.net.answers == VC_ANSWERS_VALUES,
                                                     .temperature = o->loss.temperature,
                                                     .batch = o->training.batch};

        VC_CALL(vc_teacher_files_open(t->ctx, files, n_files, &rows->student, &question, &rows->files));
    }
    rows->taught = t->runs_teacher || n_files != 0;
    return VC_OK;
}

/* ---- inputs that look unscaled ---- */

#define FEW_ROWS 64 /* that are looked at */

/* Whole numbers from 0 to 255, some of them above 64, where nothing scales them: pixels as files have them.
 * NaN fails the first comparison. */
static bool looks_unscaled(const double *x, size_t n, double *most)
{
    for (size_t i = 0; i < n; i++) {
        if (!(x[i] >= 0 && x[i] <= 255) || x[i] != floor(x[i])) {
            return false;
        }
        *most = x[i] > *most ? x[i] : *most;
    }
    return true;
}

/* Input k of the first rows, which has floats. */
static enum vc_status look_at_input(struct vc_trainer *t, size_t k, uint64_t n_rows, bool *unscaled)
{
    const struct vc_rows_view *view = &t->data.student;
    uint64_t n_elems = view->inputs[k].n_elems;
    bool whole = true;
    double most = 0;
    VC_SCOPED double *x = vc_alloc_array(t->ctx, VC_TAG_MISC, n_elems + 1, sizeof *x);

    VC_CALL_ALLOC(x);
    for (uint64_t i = 0; whole && i < n_rows; i++) {
        VC_CALL(vc_rows_read(view, k, &i, 1, true, x));
        whole = looks_unscaled(x, n_elems, &most);
    }
    *unscaled = whole && most > 64;
    return VC_OK;
}

/* Pixels from 0 to 255 as they are make training slow or end it: a note says it. The first rows tell.
 * A mean, a deviation or a scale among the options says that somebody thought of it. */
static enum vc_status find_unscaled(struct vc_trainer *t)
{
    const struct vc_rows_view *view = &t->data.student;
    const struct vc_data_options *o = t->options.data;
    uint64_t n_rows = vc_min_u64(t->data.rows.n, FEW_ROWS);

    for (size_t k = 0; o->scale == 1 && o->mean == NULL && o->deviation == NULL && k < view->n; k++) {
        const struct vc_rows_input *input = &view->inputs[k];
        bool unscaled = false;

        if (!input->integers && input->tensor != VC_NO_TENSOR) {
            VC_CALL(look_at_input(t, k, n_rows, &unscaled));
        }
        if (unscaled) {
            const char *name = t->data.rows.model->tensors[input->tensor].name; /* its model is closed before */

            VC_CALL_ALLOC(t->report->unscaled = vc_arena_copy(t->ctx, t->texts, name, strlen(name)));
        }
    }
    return VC_OK;
}

/* The graph is closed before the report is read.
 * The note of the graph, and how many tables (embeddings) are not trained. */
static enum vc_status take_note(struct vc_trainer *t)
{
    const struct vc_graph *graph = t->options.student.graph;
    const char *note = vc_graph_lists(graph)->note;
    const char *first = NULL;
    size_t n = 0;

    for (uint32_t k = 0; k < vc_graph_param_count(graph); k++) {
        if (vc_net_is_table(&t->student.net, vc_graph_param(graph, k))) {
            first = n++ == 0 ? vc_graph_param(graph, k)->tensor : first;
        }
    }
    if (n != 0) {
        note = vc_arena_printf(t->ctx, t->texts, "%s%s%zu tables stay as they are, such as %s",
                               note != NULL ? note : "", note != NULL ? "; " : "", n, first);
        VC_CALL_ALLOC(note);
    }
    if (note != NULL) {
        t->report->note = vc_arena_copy(t->ctx, t->texts, note, strlen(note));
    }
    return note == NULL || t->report->note != NULL ? VC_OK : VC_E_NOMEM;
}

/* ---- steps ---- */

/* Steps of the run, from epochs or as given.
 * The last step of an epoch may have fewer rows. */
static enum vc_status count_steps(struct vc_trainer *t)
{
    const struct vc_distill_options *o = &t->options;

    VC_REFUSE_IF(!vc_mul_u64(o->training.batch, o->training.accum, &t->steps.rows), t->ctx, VC_E_ARGUMENT,
                 "%s and %s are too large", vc_option(t->ctx, "training.batch"), vc_option(t->ctx, "training.accum"));
    t->steps.per_epoch = vc_ceil_div_u64(t->data.rows.n, t->steps.rows);
    if (o->task == VC_TASK_RECALIBRATE) {
        t->steps.n = t->steps.per_epoch; /* one walk over the rows */
    } else if (o->training.epochs == 0) {
        t->steps.n = o->training.steps;
    } else if (!vc_mul_u64(o->training.epochs, t->steps.per_epoch, &t->steps.n)) {
        return vc_fail(t->ctx, VC_E_ARGUMENT, "%s: too many", vc_option(t->ctx, "training.epochs"));
    }
    return VC_OK;
}

/* A batch of more rows than there are has all of them, and so has a step of more batches (each rank may have one):
 * nothing is sized by more. */
static void cut_to_rows(struct vc_trainer *t)
{
    struct vc_distill_options *o = &t->options;
    uint64_t most = vc_max_u64(t->data.rows.n, t->eval.rows.n);

    t->steps.asked_batch = o->training.batch;
    t->steps.asked_accum = o->training.accum;
    o->training.batch = vc_min_u64(o->training.batch, vc_max_u64(most, 1));
    t->steps.cut_batch = o->training.batch;
    if (!t->judge_only) {
        o->training.accum = vc_min_u64(o->training.accum, vc_max_u64(vc_ceil_div_u64(t->data.rows.n, o->training.batch),
                                                                     vc_ranks_size(o->parallel.ranks)));
    }
}

/* The order matters: the task of the student decides what y is, and the rows what a step is. */
enum vc_status vc_trainer_open_here(struct vc_trainer *t)
{
    struct vc_taught_rows *rows = t->judge_only ? &t->eval : &t->data;

    t->student.ctx = t->ctx;
    t->student.options = &t->options;
    t->student.report = t->report;
    t->student.texts = t->texts;
    t->student.f64 = t->options.precision.kind == VC_GRAPH_F64;
    t->student.math = vc_step_table(t->ctx, t->student.f64);
    t->student.trains = !t->judge_only && t->options.task == VC_TASK_TRAIN;
    t->runs_teacher = t->options.teacher.graph != NULL;
    vc_scale_begin(t);
    VC_REFUSE_IF(t->options.data == NULL || t->options.student.graph == NULL, t->ctx, VC_E_ARGUMENT,
                 t->options.data == NULL ? "there are no data" : "there is no network");
    VC_CALL(vc_kernels_get(t->ctx) != NULL ? VC_OK : t->ctx->status);
    VC_CALL(vc_device_open(&t->student));
    VC_CALL(open_rows(t, t->options.data, rows));
    VC_CALL(open_networks(t, rows));
    if (t->options.eval.rows != NULL) {
        VC_CALL(open_rows(t, t->options.eval.rows, &t->eval));
        VC_CALL(view_eval(t));
    }
    if (!t->judge_only) {
        VC_CALL(open_cross_entropy(t));
    }
    cut_to_rows(t);
    VC_CALL(open_teacher(t, &t->data, t->options.logits, t->options.n_logits));
    VC_CALL(open_teacher(t, &t->eval, t->options.eval.logits, t->options.eval.n_logits));
    t->student.taught = t->data.taught;
    VC_CALL(vc_teacher_files_agree(&t->data.files, &t->eval.files));
    VC_CALL(check_terms(t));
    if (!t->judge_only) {
        VC_CALL(vc_masks_check(&t->student));
        VC_CALL(count_steps(t));
    }
    if (!t->judge_only) {
        VC_CALL(vc_gradual_open(&t->student, t->steps.n));
    }
    VC_CALL(vc_masks_open(&t->student));
    if (!t->judge_only) {
        VC_CALL(find_unscaled(t));
        VC_CALL(take_note(t));
    }
    VC_CALL(vc_trainer_fit(t));
    VC_CALL(vc_match_check_programs(t->match));
    return vc_trainer_ranks_fit(t);
}

/* Training would spread it over all weights in the first step. */
static enum vc_status check_finite(struct vc_trainer *t, const struct vc_weight *item)
{
    size_t bad = vc_first_nonfinite(t->student.f64, item->data, (size_t)item->n);

    return bad == item->n ? VC_OK
                          : vc_fail(t->ctx, VC_E_FORMAT, "%s: %s has a NaN or infinite value at element %zu",
                                    t->options.student.weights->path, item->name, bad);
}

/* Everything that training changes, as at the beginning. */
enum vc_status vc_trainer_begin(struct vc_trainer *t)
{
    VC_CALL(vc_trainer_reload(t));
    t->progress.counts.step = 0;
    t->progress.counts.saved = 0;
    t->progress.counts.looked = 0;
    t->progress.counts.best_step = 0;
    t->progress.counts.waited = 0;
    t->progress.counts.n_evals = 0;
    t->progress.figures.first = t->progress.figures.early = t->progress.figures.early_squares = 0;
    memset(t->progress.figures.late, 0, sizeof t->progress.figures.late);
    vc_scale_begin(t);
    vc_optimizer_place(&t->student);
    t->report->n_masked = 0;
    for (size_t k = 0; k < t->student.net.weights->n; k++) {
        const struct vc_weight *item = &t->student.net.weights->items[k];
        if (!item->trained) {
            if (item->unread) {
                VC_CALL(vc_masks_check_unread(&t->student, item));
            }
            continue;
        }
        VC_CALL(check_finite(t, item));
        t->student.optimizer.states[k].master = NULL;
        if (!item->initialized) {
            VC_CALL(vc_masks_make(&t->student, k));
        }
    }
    VC_CALL(vc_gradual_begin(&t->student));
    VC_CALL(vc_fake_quant_begin(&t->student));
    vc_device_changed(&t->student);
    vc_pool_trim(t->ctx->shared->pool);
    return VC_OK;
}

/* The masks of each state go before the states, and the rows last, since networks read them. */
void vc_trainer_close(struct vc_trainer *t)
{
    t->student.ctx = t->ctx; /* of a run that was refused before it was opened, too */
    for (size_t k = 0; t->student.optimizer.states != NULL && k < t->student.optimizer.n_states; k++) {
        vc_free(t->ctx, t->student.optimizer.states[k].keep);
    }
    vc_checkpoint_close(t);
    vc_gradual_close(&t->student);
    vc_fake_quant_close(&t->student);
    vc_match_close(t->match);
    vc_heads_close(t);
    vc_net_close(&t->student.net);
    vc_net_close(&t->teacher);
    vc_device_close(&t->student);
    vc_free(t->ctx, t->progress.control_answers.right);
    vc_trainer_release(t);
    VC_FREE_ALL(t->ctx, t->sum.total, t->sum.received, t->sum.norms, t->evals.spare, t->evals.best,
                t->student.optimizer.states, t->student.zeros, t->student.optimizer.maps, t->steps.order,
                t->student.optimizer.blocks, t->student.device_room, t->batch.row, t->batch.labels, t->batch.targets,
                t->class_weights, t->batch.mask, t->batch.teacher_logits);
    for (unsigned k = 0; k < 2; k++) {
        struct vc_taught_rows *rows = k == 0 ? &t->data : &t->eval;

        vc_teacher_files_close(&rows->files);
        vc_rows_view_release(&rows->student);
        vc_rows_view_release(&rows->teacher);
        if (rows->open) {
            vc_rows_close(&rows->rows);
        }
    }
}

/* ---- gradients in a file ---- */

/* A run that goes on may have written them in its first part. */
static bool may_replace(const struct vc_distill_options *o)
{
    return (o->write != NULL && o->write->force) || o->checkpoint.resume != NULL;
}

/* Writes the gradients of the weights as they are now. only_plan: refuses what can be refused about the
 * file. */
enum vc_status vc_trainer_dump(struct vc_trainer *t, bool only_plan)
{
    const struct vc_weights *w = t->student.net.weights;
    VC_SCOPED struct vc_memory_tensor *tensors = vc_calloc_array(t->ctx, VC_TAG_MISC, w->n + 1, sizeof *tensors);
    struct vc_write_options write;
    VC_SCOPED_MODEL struct vc_model *model = NULL;
    VC_SCOPED_JOB struct vc_job *job = NULL;
    size_t n = 0;

    VC_CALL_ALLOC(tensors);
    for (size_t k = 0; k < w->n; k++) {
        if (w->items[k].trained) {
            tensors[n++] = (struct vc_memory_tensor){.name = w->items[k].name,
                                                     .dtype = t->student.f64 ? VC_DTYPE_F64 : VC_DTYPE_F32,
                                                     .n_dims = w->items[k].n_dims,
                                                     .shape = w->items[k].shape,
                                                     .data = w->items[k].grad};
        }
    }
    vc_write_defaults(&write);
    write.path = t->options.gradients;
    write.force = may_replace(&t->options);
    VC_CALL(vc_memory_model_create(t->ctx, tensors, n, &model));
    VC_CALL(vc_job_create(t->ctx, model, &job));
    VC_CALL(vc_job_plan(t->ctx, job, &write));
    if (!only_plan) {
        VC_CALL(vc_job_run(t->ctx, job));
    }
    return VC_OK;
}
