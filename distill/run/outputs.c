/* outputs.c - several outputs of a network, each with a task and a y of its own. See trainer.h.
 *
 *     answers [rows, 7]:  a a a a | b b b      what the program computes, and a teacher in a file has: side by side (network.h)
 *     output a [rows, 4]  classes              its part, copied, is what every loss and figure of one output is told
 *     output b [rows, 3]  regression
 *     loss = weight_a * loss of a + weight_b * loss of b, each with the teacher's share; gradients go back to their places
 *
 * A figure of an output is computed by a view: the run as it would be, if this were its only output. */

#include "distill/loss/step_loss.h"
#include "distill/run/trainer.h"

bool vc_trainer_has_y(const struct vc_rows *rows)
{
    bool has = rows->labels != NULL || rows->targets != NULL;

    for (size_t k = 0; k < rows->n_outputs; k++) {
        has = has || vc_trainer_has_y(rows->outputs[k].rows);
    }
    return has;
}

bool vc_trainer_has_labels(const struct vc_rows *rows)
{
    bool has = rows->labels != NULL;

    for (size_t k = 0; k < rows->n_outputs; k++) {
        has = has || rows->outputs[k].rows->labels != NULL;
    }
    return has;
}

/* Labels are classes of the student. The largest is known, so rows are looked at only for the sentence.
 * Labels below 0 mean "no label" and were sorted out when the rows were read. */
enum vc_status vc_trainer_check_labels(struct vc_trainer *t, const struct vc_net *net, const struct vc_rows *rows)
{
    if (rows->max_label < (int64_t)net->n_classes) {
        return VC_OK;
    }
    const struct vc_model *file = rows->labels_model != NULL ? rows->labels_model : rows->model;
    bool named = net->output != VC_NO_VALUE;

    for (uint64_t i = 0; i < rows->n * rows->positions; i++) {
        VC_REFUSE_IF(rows->labels[i] >= (int64_t)net->n_classes, t->ctx, VC_E_ARGUMENT,
                     "%s: row %llu%s%s has the label %lld; there are %zu classes, 0 to %zu", file->path,
                     (unsigned long long)vc_rows_in_file(rows, i / rows->positions), named ? " of " : "",
                     named ? vc_net_output(net)->name : "", (long long)rows->labels[i], net->n_classes,
                     net->n_classes - 1);
    }
    return VC_OK;
}

/* ---- work space ---- */

/* Bytes of an output's part of the answers, and of what is known of its rows. */
static size_t part_bytes(const struct vc_trainer *t, const struct vc_net *head)
{
    return (size_t)t->options.training.batch * head->positions * head->n_classes * sizeof(double);
}

uint64_t vc_heads_bytes(const struct vc_trainer *t)
{
    const struct vc_net *net = &t->student.net;
    uint64_t sum = net->n_heads * sizeof *t->heads;

    for (size_t k = 0; k < net->n_heads; k++) {
        sum += 4 * part_bytes(t, &net->heads[k]) +
               t->options.training.batch * net->heads[k].positions * (sizeof(int64_t) + 1);
    }
    return sum;
}

enum vc_status vc_heads_open(struct vc_trainer *t)
{
    const struct vc_net *net = &t->student.net;

    if (net->n_heads == 0 || t->heads != NULL) {
        return VC_OK;
    }
    VC_CALL(VC_ZEROS(t->ctx, VC_TAG_SCRATCH, t->heads, net->n_heads));
    for (size_t k = 0; k < net->n_heads; k++) {
        struct vc_head_work *work = &t->heads[k];
        size_t bytes = part_bytes(t, &net->heads[k]);
        size_t n = (size_t)t->options.training.batch * net->heads[k].positions;
        void **const blocks[] = {&work->logits, &work->teacher, &work->gradient, &work->batch.targets};

        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
            VC_CALL_ALLOC(*blocks[i] = vc_alloc(t->ctx, VC_TAG_SCRATCH, bytes));
        }
        VC_CALL(VC_ARRAY(t->ctx, VC_TAG_SCRATCH, work->batch.labels, n));
        VC_CALL(VC_ARRAY(t->ctx, VC_TAG_SCRATCH, work->batch.mask, n));
        work->batch.row = t->batch.row;
    }
    return VC_OK;
}

void vc_heads_close(struct vc_trainer *t)
{
    for (size_t k = 0; t->heads != NULL && k < t->student.net.n_heads; k++) {
        struct vc_head_work *work = &t->heads[k];

        VC_FREE_ALL(t->ctx, work->logits, work->teacher, work->gradient, work->batch.targets, work->batch.labels,
                    work->batch.mask);
    }
    vc_free(t->ctx, vc_give(&t->heads));
}

/* ---- rows ---- */

enum vc_status vc_heads_fit(struct vc_trainer *t, struct vc_taught_rows *rows)
{
    const struct vc_net *net = &t->student.net;
    bool some = false; /* has labels, of which some may be ignored; values of other outputs have none */

    for (size_t k = 0; k < rows->rows.n_outputs; k++) {
        some = some || rows->rows.outputs[k].rows->has_labels;
    }
    VC_REFUSE_IF(net->n_heads != rows->rows.n_outputs, t->ctx, VC_E_ARGUMENT,
                 "%s: has y for %zu outputs of the network; the other rows have it for %zu", rows->rows.model->path,
                 rows->rows.n_outputs, net->n_heads);
    for (size_t k = 0; k < net->n_heads; k++) {
        const struct vc_net *head = &net->heads[k];
        struct vc_rows *own = rows->rows.outputs[k].rows;

        VC_REFUSE_IF(strcmp(rows->rows.outputs[k].task.output, vc_net_output(head)->name) != 0, t->ctx, VC_E_ARGUMENT,
                     "%s: has y for the output %s, and the other rows for %s", rows->rows.model->path,
                     rows->rows.outputs[k].task.output, vc_net_output(head)->name);
        VC_CALL(vc_net_fit_labels(head, own));
        own->options.ignored_label = own->has_labels || !some ? own->options.ignored_label : -1;
        VC_CALL(vc_rows_take_positions(own, &rows->student, head->positions, head->next));
        VC_CALL(vc_trainer_check_labels(t, head, own));
    }
    return VC_OK;
}

/* ---- parts of answers ---- */

/* An output's part of n rows, out of the rows of all outputs or back into them. */
void vc_heads_move(const struct vc_net *net, const struct vc_net *head, size_t n, void *all, void *part, bool back)
{
    size_t bytes = vc_real_bytes(net->options.precision);
    size_t width = head->positions * head->n_classes * bytes;

    for (size_t i = 0; i < n; i++) {
        char *at = (char *)all + (i * net->n_classes + head->offset) * bytes;

        memcpy(back ? at : (char *)part + i * width, back ? (char *)part + i * width : at, width);
    }
}

/* The teacher's part; none where there is no teacher. */
struct vc_teacher_rows vc_heads_teacher(const struct vc_trainer *t, size_t k, size_t n,
                                        const struct vc_teacher_rows *teacher)
{
    struct vc_teacher_rows part = {.logits = NULL};

    if (teacher->logits != NULL) {
        vc_heads_move(&t->student.net, &t->student.net.heads[k], n, (void *)(uintptr_t)teacher->logits,
                      t->heads[k].teacher, false);
        part.logits = t->heads[k].teacher;
    }
    return part;
}

/* ---- training ---- */

void vc_heads_step(struct vc_trainer *t, const struct vc_loss_spec *of_step, double part, const uint64_t *numbers,
                   size_t n)
{
    for (size_t k = 0; k < t->student.net.n_heads; k++) {
        const struct vc_net *head = &t->student.net.heads[k];
        const struct vc_output_task *task = &t->data.rows.outputs[k].task;
        struct vc_head_work *work = &t->heads[k];

        work->weight = task->weight + (task->weight_end > 0 ? (task->weight_end - task->weight) * part : 0);
        work->spec = *of_step;
        work->spec.kind = head->loss;
        work->spec.y_kind = head->y_loss;
        work->spec.scale = of_step->scale * work->weight;
        vc_rows_count(t->data.rows.outputs[k].rows, numbers, n, &work->spec.kd_rows, &work->spec.ce_rows);
        if (head->task == VC_NET_TASK_SPANS) {
            vc_rows_count_ends(t->data.rows.outputs[k].rows, numbers, n, work->counted);
        }
    }
}

struct vc_loss_sums vc_heads_loss(struct vc_trainer *t, struct vc_engine *engine, const uint64_t *numbers, size_t n,
                                  const struct vc_engine_value *answers, const struct vc_teacher_rows *teacher)
{
    struct vc_loss_sums sums = {0, 0};

    for (size_t k = 0; k < t->student.net.n_heads; k++) {
        const struct vc_rows *rows = t->data.rows.outputs[k].rows;
        struct vc_head_work *work = &t->heads[k];
        struct vc_teacher_rows its_teacher = vc_heads_teacher(t, k, n, teacher);
        struct vc_net head = t->student.net.heads[k];
        const struct vc_step_loss loss = {t->student.math,
                                          &head,
                                          &work->batch,
                                          &work->spec,
                                          &its_teacher,
                                          vc_batch_labels(&work->batch, rows),
                                          head.task == VC_NET_TASK_SPANS ? work->counted : NULL};
        struct vc_loss_sums own;

        head.n_engines = t->student.net.n_engines; /* which say how many threads there are */
        memcpy(head.engines, t->student.net.engines, sizeof head.engines);
        work->batch.row = t->batch.row;
        vc_batch_gather(&work->batch, rows, t->student.f64, numbers, n);
        vc_heads_move(&t->student.net, &head, n, answers->data, work->logits, false);
        own = vc_step_loss(&loss, engine, n * head.positions, work->logits, work->gradient);
        vc_heads_move(&t->student.net, &head, n, answers->grad, work->gradient, true);
        sums.kd += work->weight * own.kd;
        sums.ce += work->weight * own.ce;
    }
    return sums;
}

/* ---- judgement ---- */

/* A copy, in which what belongs to all outputs is replaced. */
struct vc_trainer vc_heads_view(const struct vc_trainer *t, size_t k)
{
    struct vc_trainer view = *t;

    view.student.net = t->student.net.heads[k];
    view.eval.rows = *t->eval.rows.outputs[k].rows;
    view.options.loss.kind = view.student.net.loss;
    if (t->heads != NULL) {
        view.batch = t->heads[k].batch;
        view.batch.row = t->batch.row;
    }
    return view;
}
