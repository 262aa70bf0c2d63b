/* update.c - the norm of the gradients and the optimizer's step, on all threads, in blocks that the sizes of the
 * tensors fix. So neither a weight nor the norm depends on the number of threads. */
#include <math.h>

#include "distill/math/real.h"
#include "distill/update/device_step.h"
#include "distill/update/update.h"

#define PER_BLOCK 32768 /* weights; a multiple of VC_CODED_BLOCK */
#define SMALL     32768 /* bytes of gradients that one thread takes alone */

/* One call of each_block. */
struct task {
    struct vc_trainer *t;
    const struct vc_update *update;
    double by; /* gradients are multiplied by it */
};

static void *at(const struct vc_trainer *t, void *array, size_t first)
{
    return array != NULL ? (char *)array + first * (t->f64 ? sizeof(double) : sizeof(float)) : NULL;
}

uint64_t vc_trainer_cut_bytes(const struct vc_trainer *t)
{
    uint64_t n = 0;

    for (size_t k = 0; k < t->student.weights->n; k++) {
        n += t->student.weights->items[k].trained ? t->student.weights->items[k].n / PER_BLOCK + 1 : 0;
    }
    return n * sizeof *t->blocks;
}

void vc_trainer_cut(struct vc_trainer *t)
{
    t->n_blocks = 0;
    for (size_t k = 0; k < t->student.weights->n; k++) {
        const struct vc_weight *item = &t->student.weights->items[k];

        for (size_t first = 0; item->trained && first < item->n; first += PER_BLOCK) {
            size_t rest = (size_t)item->n - first;

            t->blocks[t->n_blocks++] =
                (struct vc_update_block){.weight = k, .first = first, .n = rest < PER_BLOCK ? rest : PER_BLOCK};
        }
    }
}

/* Gradients lose the scale of the loss; those of masked weights do not count. */
static void measure(void *user, unsigned worker, size_t block)
{
    struct task *task = user;
    struct vc_update_block *b = &task->t->blocks[block];
    const uint8_t *keep = task->t->states[b->weight].keep;
    void *grad = at(task->t, task->t->student.weights->items[b->weight].grad, b->first);

    (void)worker;
    if (task->by != 1) {
        vc_scale(task->t->f64, grad, b->n, task->by);
    }
    for (size_t i = 0; keep != NULL && i < b->n; i++) {
        if (keep[b->first + i] == 0 && task->t->f64) {
            ((double *)grad)[i] = 0;
        } else if (keep[b->first + i] == 0) {
            ((float *)grad)[i] = 0;
        }
    }
    b->squares = task->t->step->square_sum(grad, b->n);
}

/* All blocks of weights; those of a small network by the calling thread, since threads take longer to meet. */
static void each_block(struct vc_trainer *t, struct vc_engine *engine,
                       void (*fn)(void *user, unsigned worker, size_t block), struct task *task)
{
    if (t->student.weights->grad_bytes > SMALL) {
        vc_engine_each(engine, t->n_blocks, fn, task);
        return;
    }
    for (size_t k = 0; k < t->n_blocks; k++) {
        fn(task, 0, k);
    }
}

enum vc_status vc_trainer_measure(struct vc_trainer *t, struct vc_engine *engine, double *norm)
{
    struct task task = {.t = t, .by = 1 / t->scale.value};
    double sum = 0;

    if (t->device != NULL) {
        return vc_device_measure(t, norm);
    }
    each_block(t, engine, measure, &task);
    for (size_t k = 0; k < t->n_blocks; k++) {
        sum += t->blocks[k].squares;
    }
    *norm = sqrt(sum);
    return VC_OK;
}

static void move(void *user, unsigned worker, size_t block)
{
    struct task *task = user;
    const struct vc_trainer *t = task->t;
    const struct vc_update_block *b = &t->blocks[block];
    const struct vc_weight *item = &t->student.weights->items[b->weight];
    const struct vc_trainer_state *s = &t->states[b->weight];
    struct vc_update u = *task->update;
    void *grad = at(t, item->grad, b->first);

    (void)worker;
    if (task->by != 1) {
        vc_scale(t->f64, grad, b->n, task->by);
    }
    u.decay = (item->n_dims > 1 || t->options.decay_1d) && !item->shares ? t->options.weight_decay : 0;
    if (s->m_factors != NULL) {
        const struct vc_coded_states states = {.maps = t->maps,
                                               .m = (uint8_t *)s->m + b->first,
                                               .v = (uint8_t *)s->v + b->first,
                                               .m_factors = s->m_factors + b->first / VC_CODED_BLOCK,
                                               .v_factors = s->v_factors + b->first / VC_CODED_BLOCK};

        t->step->update_coded(&u, b->n, at(t, vc_trainer_master(t, b->weight), b->first), grad, &states,
                              s->keep != NULL ? s->keep + b->first : NULL);
        return;
    }
    t->step->update(&u, b->n, at(t, vc_trainer_master(t, b->weight), b->first), grad, at(t, s->m, b->first),
                    at(t, s->v, b->first), s->keep != NULL ? s->keep + b->first : NULL);
}

enum vc_status vc_trainer_update(struct vc_trainer *t, struct vc_engine *engine, uint64_t step, double grad_norm,
                                 double lr)
{
    const struct vc_distill_options *o = &t->options;
    const struct vc_update u = {.kind = o->optimizer == VC_OPTIMIZER_ADAM       ? VC_UPDATE_ADAM
                                        : o->optimizer == VC_OPTIMIZER_ADAMW    ? VC_UPDATE_ADAMW
                                        : o->optimizer == VC_OPTIMIZER_ADAM8BIT ? VC_UPDATE_ADAMW
                                                                                : VC_UPDATE_SGD,
                                .lr = lr,
                                .momentum = o->momentum,
                                .beta1 = o->beta1,
                                .beta2 = o->beta2,
                                .eps = o->eps,
                                .nesterov = o->nesterov,
                                .t = step + 1};
    struct task task = {
        .t = t, .update = &u, .by = o->clip > 0 && grad_norm > o->clip ? o->clip / (grad_norm + 1e-6) : 1};

    if (t->device != NULL) {
        return vc_device_update(t, &u, task.by);
    }
    each_block(t, engine, move, &task);
    return VC_OK;
}
