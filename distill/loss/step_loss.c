/* step_loss.c - the loss of a batch, on all threads of an engine. Each takes rows; what they come to is added up in the
 * order of the rows, as one thread does it, so the number of threads changes no bit. */
#include "distill/loss/step_loss.h"
#include "core/base/checked.h"
#include "distill/math/real.h"

#define PER_BLOCK 1024 /* elements of the rows that a thread takes at a time; at least one row */
#define MOST_ROWS 1024 /* whose sums are kept at a time */

struct task {
    struct vc_trainer *t;
    const struct vc_loss_spec *spec;
    const struct vc_teacher_rows *teacher;
    const char *logits;
    const int64_t *labels;
    char *gradient;
    struct vc_loss_sums *rows; /* what each of n rows from `first` on comes to */
    size_t first, n, per_block;
};

static unsigned most_workers(const struct vc_trainer *t)
{
    unsigned most = 1;

    for (size_t k = 0; !t->judge_only && k < t->student.n_engines; k++) {
        unsigned n = vc_engine_workers(t->student.engines[k].engine);

        most = n > most ? n : most;
    }
    return most;
}

uint64_t vc_trainer_row_bytes(const struct vc_trainer *t, uint64_t n_rows)
{
    uint64_t sums = t->judge_only ? 0 : vc_min_u64(n_rows, MOST_ROWS) * sizeof(struct vc_loss_sums);

    return sums + most_workers(t) * t->student.n_classes * sizeof *t->row;
}

static void some_rows(void *user, unsigned worker, size_t block)
{
    const struct task *task = user;
    const struct vc_trainer *t = task->t;
    size_t classes = t->student.n_classes;
    size_t bytes = vc_real_bytes(t->options.precision);
    size_t end = (size_t)vc_min_u64((block + 1) * task->per_block, task->n);

    for (size_t k = block * task->per_block; k < end; k++) {
        size_t r = task->first + k;
        struct vc_teacher_rows teacher = *task->teacher;

        if (teacher.logits != NULL) {
            teacher.logits = (const char *)teacher.logits + r * (teacher.classes != NULL ? teacher.k : classes) * bytes;
        }
        if (teacher.classes != NULL) {
            teacher.classes += r * teacher.k;
            teacher.rest += r;
        }
        task->rows[k] = t->step->loss(task->spec, 1, classes, task->logits + r * classes * bytes, &teacher,
                                      task->labels != NULL ? task->labels + r : NULL, t->mask + r,
                                      t->row + worker * classes, task->gradient + r * classes * bytes);
    }
}

struct vc_loss_sums vc_trainer_loss(struct vc_trainer *t, struct vc_engine *engine, const struct vc_loss_spec *spec,
                                    size_t n_rows, const void *logits, const struct vc_teacher_rows *teacher,
                                    const int64_t *labels, void *gradient)
{
    size_t classes = t->student.n_classes;
    struct task task = {.t = t,
                        .spec = spec,
                        .teacher = teacher,
                        .logits = logits,
                        .labels = labels,
                        .gradient = gradient,
                        .rows = (struct vc_loss_sums *)(void *)(t->row + most_workers(t) * classes),
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
