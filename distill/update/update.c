/* update.c - the norm of the gradients and the optimizer's step, on all threads, in blocks that the sizes of the
 * tensors fix. So neither a weight nor the norm depends on the number of threads. */

#include "distill/update/update.h"
#include "distill/math/real.h"
#include "distill/update/device_step.h"

#define SMALL 32768 /* bytes of gradients that one thread takes alone */

/* One call of each_block. */
struct task {
    struct vc_learner *l;
    const struct vc_update *update;
    double by; /* gradients are multiplied by it */
};

/* Element `first` of an array of the run's type; NULL stays NULL. */
static void *at(const struct vc_learner *l, void *array, size_t first)
{
    return array != NULL ? (char *)array + first * (l->f64 ? sizeof(double) : sizeof(float)) : NULL;
}

/* Gradients lose the scale of the loss; those of masked weights do not count. */
static void measure(void *user, unsigned worker, size_t block)
{
    struct task *task = user;
    struct vc_update_block *b = &task->l->optimizer.blocks[block];
    const uint8_t *keep = task->l->optimizer.states[b->weight].keep;
    void *grad = at(task->l, task->l->net.weights->items[b->weight].grad, b->first);

    if (task->by != 1) {
        vc_scale(task->l->f64, grad, b->n, task->by);
    }
    for (size_t i = 0; keep != NULL && i < b->n; i++) {
        if (keep[b->first + i] == 0 && task->l->f64) {
            ((double *)grad)[i] = 0;
        } else if (keep[b->first + i] == 0) {
            ((float *)grad)[i] = 0;
        }
    }
    b->squares = task->l->math->square_sum(grad, b->n);
}

/* All blocks of weights; those of a small network by the calling thread, since a barrier of the threads takes longer.
 */
static void each_block(struct vc_learner *l, struct vc_engine *engine,
                       void (*fn)(void *user, unsigned worker, size_t block), struct task *task)
{
    if (l->net.weights->grad_bytes > SMALL) {
        vc_engine_each(engine, l->optimizer.n_blocks, fn, task);
        return;
    }
    for (size_t k = 0; k < l->optimizer.n_blocks; k++) {
        fn(task, 0, k);
    }
}

/* The norm of all gradients, on the device or here. Squares of blocks are added in the order of the blocks. */
enum vc_status vc_learner_measure(struct vc_learner *l, struct vc_engine *engine, double scale, double *norm)
{
    struct task task = {.l = l, .by = 1 / scale};
    double sum = 0;

    if (l->device != NULL) {
        return vc_device_measure(l, scale, norm);
    }
    each_block(l, engine, measure, &task);
    for (size_t k = 0; k < l->optimizer.n_blocks; k++) {
        sum += l->optimizer.blocks[k].squares;
    }
    *norm = sqrt(sum);
    return VC_OK;
}

/* A thread's block: gradients are clipped, then the rule moves the weights, or the masters of what is
 * quantized. */
static void move(void *user, unsigned worker, size_t block)
{
    struct task *task = user;
    const struct vc_learner *l = task->l;
    const struct vc_update_block *b = &l->optimizer.blocks[block];
    const struct vc_weight *item = &l->net.weights->items[b->weight];
    const struct vc_weight_state *s = &l->optimizer.states[b->weight];
    struct vc_update u = *task->update;
    void *grad = at(l, item->grad, b->first);

    if (task->by != 1) {
        vc_scale(l->f64, grad, b->n, task->by);
    }
    u.decay =
        (item->n_dims > 1 || l->options->optimizer.decay_1d) && !item->shares ? l->options->optimizer.weight_decay : 0;
    if (s->m_factors != NULL) {
        const struct vc_coded_states states = {.maps = l->optimizer.maps,
                                               .m = (uint8_t *)s->m + b->first,
                                               .v = (uint8_t *)s->v + b->first,
                                               .m_factors = s->m_factors + b->first / VC_CODED_BLOCK,
                                               .v_factors = s->v_factors + b->first / VC_CODED_BLOCK};

        l->math->update_coded(&u, b->n, at(l, vc_learner_master(l, b->weight), b->first), grad, &states,
                              s->keep != NULL ? s->keep + b->first : NULL);
        return;
    }
    l->math->update(&u, b->n, at(l, vc_learner_master(l, b->weight), b->first), grad, at(l, s->m, b->first),
                    at(l, s->v, b->first), s->keep != NULL ? s->keep + b->first : NULL);
}

/* Adam with 8-bit states is AdamW with its states as codes. */
static enum vc_update_kind rule_of(enum vc_optimizer optimizer)
{
    switch (optimizer) {
    case VC_OPTIMIZER_ADAM:
        return VC_UPDATE_ADAM;
    case VC_OPTIMIZER_ADAMW:
    case VC_OPTIMIZER_ADAM8BIT: /* of AdamW, with states as codes */
        return VC_UPDATE_ADAMW;
    default:
        return VC_UPDATE_SGD;
    }
}

/* One step of the optimizer. Where the norm is above the clip, all gradients are multiplied by clip / norm. */
enum vc_status vc_learner_update(struct vc_learner *l, struct vc_engine *engine, uint64_t step, double grad_norm,
                                 double lr)
{
    const struct vc_distill_options *o = l->options;
    const struct vc_update u = {.kind = rule_of(o->optimizer.kind),
                                .lr = lr,
                                .momentum = o->optimizer.momentum,
                                .beta1 = o->optimizer.beta1,
                                .beta2 = o->optimizer.beta2,
                                .eps = o->optimizer.eps,
                                .nesterov = o->optimizer.nesterov,
                                .t = step + 1};
    struct task task = {
        .l = l,
        .update = &u,
        .by = o->optimizer.clip > 0 && grad_norm > o->optimizer.clip ? o->optimizer.clip / (grad_norm + 1e-6) : 1};

    if (l->device != NULL) {
        return vc_device_update(l, &u, task.by);
    }
    each_block(l, engine, move, &task);
    return VC_OK;
}
