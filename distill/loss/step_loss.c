/* step_loss.c - the loss of a batch, on all threads of an engine. Each takes rows; what they come to is added up in the
 * order of the rows, as one thread does it, so the number of threads changes no bit. */
#include "distill/loss/step_loss.h"

#define PER_BLOCK 1024 /* elements of the rows that a thread takes at a time; at least one row */
#define MOST_ROWS 1024 /* whose sums are kept at a time */

/* One batch on all threads, MOST_ROWS of its rows at a time. */
struct task {
    const struct vc_step_loss *loss;
    const char *logits;
    char *gradient;
    struct vc_loss_sums *rows; /* what each of n rows from `first` on comes to */
    size_t first, n, per_block;
};

/* Threads of the program that has the most. */
static unsigned most_workers(const struct vc_net *net)
{
    unsigned most = 1;

    for (size_t k = 0; k < net->n_engines; k++) {
        unsigned n = vc_engine_workers(net->engines[k].engine);

        most = n > most ? n : most;
    }
    return most;
}

uint64_t vc_step_loss_bytes(const struct vc_net *net, uint64_t n_rows)
{
    return vc_min_u64(n_rows, MOST_ROWS) * sizeof(struct vc_loss_sums) +
           most_workers(net) * VC_LOSS_ROOM * net->n_classes * sizeof(double);
}

/* A batch of one row for the loss, with pointers to its part of everything. */
struct vc_loss_sums vc_step_loss_row(const struct vc_step_loss *l, size_t r, const void *logits, double *room,
                                     void *gradient)
{
    size_t classes = l->net->n_classes;
    size_t bytes = vc_real_bytes(l->net->options.precision);
    struct vc_teacher_rows teacher = *l->teacher;
    struct vc_label_rows labels = l->labels;
    struct vc_loss_spec spec = *l->spec;

    if (teacher.logits != NULL) {
        teacher.logits = (const char *)teacher.logits + r * (teacher.classes != NULL ? teacher.k : classes) * bytes;
    }
    if (teacher.classes != NULL) {
        teacher.classes += r * teacher.k;
        teacher.rest += r;
    }
    if (labels.classes != NULL) {
        labels.classes += r;
    }
    if (labels.targets != NULL) {
        labels.targets = (const char *)labels.targets + r * classes * bytes;
    }
    spec.ce_rows = l->ends != NULL ? 2 * l->ends[r % 2] : spec.ce_rows;
    return l->math->loss(&spec, 1, classes, (const char *)logits + r * classes * bytes, &teacher, &labels,
                         l->batch->mask + r, room, gradient != NULL ? (char *)gradient + r * classes * bytes : NULL);
}

/* A thread's rows, one by one. */
static void some_rows(void *user, unsigned worker, size_t block)
{
    const struct task *task = user;
    const struct vc_step_loss *l = task->loss;
    size_t end = (size_t)vc_min_u64((block + 1) * task->per_block, task->n);

    for (size_t k = block * task->per_block; k < end; k++) {
        task->rows[k] = vc_step_loss_row(l, task->first + k, task->logits,
                                         l->batch->row + worker * VC_LOSS_ROOM * l->net->n_classes, task->gradient);
    }
}

/* Sums of rows are kept and added in their order afterwards. */
struct vc_loss_sums vc_step_loss(const struct vc_step_loss *loss, struct vc_engine *engine, size_t n_rows,
                                 const void *logits, void *gradient)
{
    size_t classes = loss->net->n_classes;
    struct task task = {
        .loss = loss,
        .logits = logits,
        .gradient = gradient,
        .rows = (struct vc_loss_sums *)(void *)(loss->batch->row + most_workers(loss->net) * VC_LOSS_ROOM * classes),
        .per_block = classes < PER_BLOCK ? PER_BLOCK / classes : 1};
    struct vc_loss_sums sums = {0, 0};

    for (; task.first < n_rows; task.first += task.n) {
        task.n = (size_t)vc_min_u64(n_rows - task.first, MOST_ROWS);
        vc_engine_each(engine, (size_t)vc_ceil_div_u64(task.n, task.per_block), some_rows, &task);
        for (size_t k = 0; k < task.n; k++) {
            sums.kd += task.rows[k].kd;
            sums.ce += task.rows[k].ce;
        }
    }
    return sums;
}
