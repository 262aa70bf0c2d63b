/* device_step.c - see device_step.h.
 *
 * Memory on the device is two blocks: the arena of the programs, and the parts of the step, laid out once.
 * Weights and gradients are the engine's own. What goes over the bus in a step:
 *
 *     to the device      labels, mask, the teacher's answers from files; after a change on the host: states, masks, block list
 *     to the host        two losses for each row; a square for each block of weights; both in one copy, for which alone the
 *                        host waits, where a step is one batch of one process
 *     neither            logits of the student and of a teacher that runs, gradients, weights, states
 */
#include "distill/update/device_step.h"

#include "distill/update/device_ranks.h"
#include "distill/update/device_state.h"
#include "distill/update/fake_quant.h"
#include "distill/update/gradual.h"
#include "distill/update/masks.h"
#include "distill/update/update.h"

/* What the device has no kernels for. */
static enum vc_status refuse(struct vc_learner *l, const char *what)
{
    return vc_fail(l->ctx, VC_E_UNSUPPORTED, "%s computes on the CPU only: %s cpu", what, vc_option(l->ctx, "device"));
}

/* Opens the device that the context names, and agrees with the other ranks how gradients are added up. */
enum vc_status vc_device_open(struct vc_learner *l)
{
    const struct vc_distill_options *o = l->options;
    bool nccl = false;

    VC_CALL(vc_train_device_open(l->ctx, &l->device));
    if (l->trains) {
        VC_CALL(vc_device_ranks_choose(l, &nccl));
    }
    if (l->device == NULL) {
        return VC_OK;
    }
    if (l->f64) {
        VC_CALL(refuse(l, "float64"));
    }
    if (o->precision.learn_scales) {
        VC_CALL(refuse(l, "learned scales"));
    }
    l->device->limit_bytes = o->memory.device_memory;
    l->device->graphs = l->trains; /* whose report says where that went wrong */
    VC_CALL(VC_ZEROS(l->ctx, VC_TAG_MISC, l->on_device, 1));
    l->on_device->nccl = nccl;
    return VC_OK;
}

/* NCCL ends before its device is given up. */
void vc_device_close(struct vc_learner *l)
{
    vc_device_ranks_end(l);
    vc_device_release(l);
    if (l->device != NULL && l->device->no_graphs[0] != '\0') {
        l->report->no_graphs = vc_arena_printf(l->ctx, l->texts, "%s", l->device->no_graphs);
    }
    vc_free(l->ctx, l->on_device);
    vc_train_device_close(l->device);
    l->on_device = NULL;
    l->device = NULL;
}

/* Gradients are added up on the device: there is one rank, or NCCL. */
bool vc_device_sums(const struct vc_learner *l)
{
    return l->device != NULL && (l->options->parallel.ranks == NULL || vc_device_uses_nccl(l));
}

/* ---- memory ---- */

static bool may_have_mask(const struct vc_learner *l, size_t entry)
{
    return vc_masks_has(l, entry) || vc_gradual_has(l, entry);
}

/* Of the largest batch. */
static uint64_t n_logits(const struct vc_learner *l)
{
    return l->options->training.batch * l->net.positions * (uint64_t)l->net.n_classes;
}

/* Positions of the largest batch. */
static uint64_t n_rows(const struct vc_learner *l)
{
    return l->options->training.batch * l->net.positions;
}

/* Where the parts of the block begin, if it begins at `base`; returns its bytes. */
static uint64_t lay_out(const struct vc_learner *l, struct vc_device_step *d, char *base)
{
    uint64_t n_blocks = vc_optimizer_cut_bytes(l) / sizeof *l->optimizer.blocks;
    uint64_t masks = 0;
    uint64_t at = 0;

#define PART(member, n_bytes)                                  \
    do {                                                       \
        d->member = (void *)(base != NULL ? base + at : NULL); \
        at += vc_train_block_bytes(n_bytes);                   \
    } while (0)

    for (size_t k = 0; k < l->net.weights->n; k++) {
        masks += l->net.weights->items[k].trained && may_have_mask(l, k) ? l->net.weights->items[k].n : 0;
    }
    PART(states, l->report->state_bytes);
    PART(keep, masks);
    PART(blocks, n_blocks * sizeof *d->blocks);
    PART(squares, (n_blocks + 1) * sizeof *d->squares); /* and whether there was a fault */
    PART(sums, 2 * n_rows(l) * sizeof *d->sums);
    PART(labels, n_rows(l) * sizeof *d->labels);
    PART(mask, n_rows(l));
    PART(teacher, l->taught ? n_logits(l) * sizeof *d->teacher : 0);
    PART(maps, l->options->optimizer.kind == VC_OPTIMIZER_ADAM8BIT ? sizeof *d->maps : 0);
    PART(fake_quants, vc_fake_quant_bytes(l));
    PART(total, l->options->training.accum > 1 && vc_device_sums(l) ? l->net.weights->grad_bytes : 0);
#undef PART
    return at;
}

/* What the run takes there, for the plan: the program's own, the arena, the step, and both networks. */
uint64_t vc_device_bytes(const struct vc_learner *l, const struct vc_net *teacher)
{
    const struct vc_net *nets[2] = {&l->net, teacher};
    struct vc_device_step parts;

    if (l->device == NULL) {
        return 0;
    }
    uint64_t bytes = l->device->table->own_bytes() + vc_train_block_bytes(l->report->arena_bytes);
    bytes += l->trains ? vc_train_block_bytes(lay_out(l, &parts, NULL)) : 0;
    for (size_t k = 0; k < 2; k++) {
        if (nets[k]->weights != NULL) {
            bytes += vc_train_block_bytes(nets[k]->weights->data_bytes) +
                     vc_train_block_bytes(nets[k]->weights->grad_bytes) + vc_net_own_bytes(nets[k]);
        }
    }
    return bytes;
}

uint64_t vc_device_room_bytes(const struct vc_learner *l)
{
    uint64_t n_blocks = vc_optimizer_cut_bytes(l) / sizeof *l->optimizer.blocks;
    uint64_t figures = vc_train_block_bytes((n_blocks + 1) * sizeof(double)) + 2 * n_rows(l) * sizeof(double);

    return l->device != NULL && l->trains ? vc_max_u64(n_blocks * sizeof(struct vc_train_block), figures) : 0;
}

/* Allocates both blocks once; everything on the device counts as changed. */
enum vc_status vc_device_prepare(struct vc_learner *l)
{
    struct vc_device_step *d = l->on_device;

    if (l->device == NULL || l->device_arena != NULL) {
        return VC_OK;
    }
    VC_CALL(vc_train_alloc(l->device, l->report->arena_bytes, &l->device_arena));
    if (l->trains) {
        d->bytes = lay_out(l, d, NULL);
        VC_CALL(vc_train_alloc(l->device, d->bytes, &d->block));
        (void)lay_out(l, d, d->block);
    }
    d->changed = true;
    d->newer_on_device = false;
    return VC_OK;
}

/* Frees both blocks; how gradients are added up stays known. */
void vc_device_release(struct vc_learner *l)
{
    if (l->device != NULL) {
        vc_train_free(l->device, l->device_arena, l->report->arena_bytes);
        l->device_arena = NULL;
    }
    if (l->on_device != NULL) {
        bool nccl = l->on_device->nccl;

        vc_train_free(l->device, l->on_device->block, l->on_device->bytes);
        *l->on_device = (struct vc_device_step){.nccl = nccl};
    }
}

/* ---- states and masks ---- */

/* The device's copy of what lies at `p` of a block of the host. */
static void *copy_of(const void *p, const void *block, const void *copy)
{
    return p == NULL ? NULL : (char *)(uintptr_t)copy + ((const char *)p - (const char *)block);
}

/* The states of weights from number `first` on of entry k, numbers or codes. */
static void place_states(const struct vc_learner *l, size_t k, size_t first, struct vc_train_block *block)
{
    const struct vc_weight_state *s = &l->optimizer.states[k];
    char *there = l->on_device->states;
    void *m = copy_of(s->m, l->optimizer.block, there);
    void *v = copy_of(s->v, l->optimizer.block, there);

    if (s->m_factors != NULL) {
        block->m_codes = (uint8_t *)m + first;
        block->v_codes = (uint8_t *)v + first;
        block->m_factors = (float *)copy_of(s->m_factors, l->optimizer.block, there) + first / VC_CODED_BLOCK;
        block->v_factors = (float *)copy_of(s->v_factors, l->optimizer.block, there) + first / VC_CODED_BLOCK;
        return;
    }
    block->m = m != NULL ? (float *)m + first : NULL;
    block->v = v != NULL ? (float *)v + first : NULL;
}

/* States, masks, and the list of blocks, which has pointers to them. */
static enum vc_status send(struct vc_learner *l)
{
    struct vc_device_step *d = l->on_device;
    const struct vc_weights *w = l->net.weights;
    struct vc_train_block *blocks = l->device_room;
    uint8_t *keep = d->keep;
    size_t b = 0;

    if (!d->changed) {
        return VC_OK;
    }
    VC_CALL(vc_train_to_device(l->device, d->states, l->optimizer.block, l->report->state_bytes));
    if (l->optimizer.maps != NULL) {
        VC_CALL(vc_train_to_device(l->device, d->maps, l->optimizer.maps, sizeof *l->optimizer.maps));
    }
    if (l->fake_quants != NULL) {
        VC_CALL(vc_train_to_device(l->device, d->fake_quants, *vc_fake_quant_room(l), vc_fake_quant_bytes(l)));
    }
    for (size_t k = 0; k < w->n; k++) {
        const struct vc_weight *item = &w->items[k];
        const struct vc_weight_state *s = &l->optimizer.states[k];
        bool masked = item->trained && s->keep != NULL;

        if (masked) {
            VC_CALL(vc_train_to_device(l->device, keep, s->keep, item->n));
        }
        for (; b < l->optimizer.n_blocks && l->optimizer.blocks[b].weight == k; b++) {
            size_t first = l->optimizer.blocks[b].first;
            float *data = s->master != NULL ? copy_of(s->master, *vc_fake_quant_room(l), d->fake_quants)
                                            : copy_of(item->data, w->data_block, w->device_data);
            float *grad = copy_of(item->grad, w->grad_block, w->device_grad);

            blocks[b] = (struct vc_train_block){
                .w = data + first,
                .g = grad + first,
                .keep = masked ? keep + first : NULL,
                .n = l->optimizer.blocks[b].n,
                .decay = item->n_dims > 1 || l->options->optimizer.decay_1d ? l->options->optimizer.weight_decay : 0};
            place_states(l, k, first, &blocks[b]);
        }
        keep += masked ? item->n : 0;
    }
    VC_CALL(vc_train_to_device(l->device, d->blocks, blocks, l->optimizer.n_blocks * sizeof *blocks));
    d->changed = false;
    return VC_OK;
}

/* ---- losses ---- */

/* to = from, or to += from, of n floats of the device. */
static enum vc_status copy_floats(struct vc_learner *l, float *from, float *to, uint64_t n, bool add)
{
    const struct vc_args_chunks args = {.n = n, .n_chunks = 1};
    const struct vc_train_call call = {.p = {from, to}, .args = &args, .add = add};
    const struct vc_engine_pass pass = {.norm_share = -1};
    const struct vc_train_work work = {l->device->table->find("add_chunks"), &call, NULL, &pass};

    return vc_train_result(l->device, l->device->table->run(l->device->session, &work));
}

/* Losses that have kernels there; the others are computed on the host. */
bool vc_device_has_loss(const struct vc_learner *l, const struct vc_loss_spec *spec,
                        const struct vc_teacher_rows *teacher, const struct vc_label_rows *labels)
{
    return l->device != NULL && l->net.task != VC_NET_TASK_SPANS && teacher->classes == NULL &&
           labels->targets == NULL && spec->label_smoothing == 0 && spec->class_weights == NULL &&
           (spec->kind == VC_TEACHER_LOSS_KD || spec->kind == VC_TEACHER_LOSS_MSE ||
            spec->kind == VC_TEACHER_LOSS_COSINE);
}

/* A copy, since the student's program uses the same memory. */
enum vc_status vc_device_keep_teacher(struct vc_learner *l, struct vc_engine *engine, size_t n)
{
    return copy_floats(l, vc_engine_output(engine, 0)->device_data, l->on_device->teacher,
                       n * l->net.positions * l->net.n_classes, false);
}

/* What rows add to the losses, in their order. */
static struct vc_loss_sums add_rows(const double *rows, uint64_t n_rows)
{
    struct vc_loss_sums sums = {0, 0};

    for (uint64_t r = 0; r < n_rows; r++) {
        sums.kd += rows[2 * r];
        sums.ce += rows[2 * r + 1];
    }
    return sums;
}

/* What each of n rows counts for in their mean; of none nothing. */
static double share_of(uint64_t n)
{
    return n != 0 ? 1 / (double)n : 0;
}

/* Loss and its gradient at the logits, which stay on the device. */
enum vc_status vc_device_loss(struct vc_learner *l, struct vc_engine *engine, const struct vc_batch *batch,
                              const struct vc_loss_spec *spec, size_t n, const struct vc_teacher_rows *teacher,
                              bool late, struct vc_loss_sums *sums)
{
    struct vc_device_step *d = l->on_device;
    const struct vc_engine_value *logits = vc_engine_output(engine, 0);
    uint64_t n_rows = n * l->net.positions;
    struct vc_train_loss loss = {.n_rows = n_rows,
                                 .n_classes = l->net.n_classes,
                                 .alpha = spec->alpha,
                                 .temperature = spec->temperature,
                                 .kd_by = share_of(spec->kd_rows),
                                 .ce_by = share_of(spec->ce_rows),
                                 .mse = spec->kind == VC_TEACHER_LOSS_MSE,
                                 .cosine = spec->kind == VC_TEACHER_LOSS_COSINE,
                                 .scale = spec->scale != 0 ? spec->scale : 1,
                                 .logits = logits->device_data,
                                 .teacher = teacher->logits != NULL ? d->teacher : NULL,
                                 .labels = d->labels,
                                 .mask = d->mask,
                                 .gradient = logits->device_grad,
                                 .sums = d->sums};

    if (teacher->logits != NULL && !teacher->on_device) {
        VC_CALL(vc_train_to_device(l->device, d->teacher, teacher->logits, n_rows * l->net.n_classes * sizeof(float)));
    }
    VC_CALL(vc_train_to_device(l->device, d->labels, batch->labels, n_rows * sizeof *batch->labels));
    VC_CALL(vc_train_to_device(l->device, d->mask, batch->mask, n_rows));
    VC_CALL(vc_train_result(l->device, l->device->table->loss(l->device->session, &loss)));
    d->late = late;
    d->late_rows = n_rows;
    *sums = (struct vc_loss_sums){0, 0};
    if (!late) {
        VC_CALL(vc_train_to_host(l->device, l->device_room, d->sums, 2 * n_rows * sizeof *d->sums));
        *sums = add_rows(l->device_room, n_rows);
    }
    return VC_OK;
}

/* ---- gradients and weights ---- */

/* The same of all gradients. */
static enum vc_status add_all(struct vc_learner *l, float *from, float *to, bool add)
{
    return copy_floats(l, from, to, l->net.weights->grad_bytes / sizeof(float), add);
}

/* All gradients times a. */
static enum vc_status scale_all(struct vc_learner *l, double a)
{
    float *grad = l->net.weights->device_grad;
    const struct vc_args_unary args = {.kind = VC_UNARY_COPY, .n = l->net.weights->grad_bytes / sizeof(float), .a = a};
    const struct vc_train_call call = {.p = {grad, grad}, .args = &args};
    const struct vc_engine_pass pass = {.norm_share = -1};
    const struct vc_train_work work = {l->device->table->find("unary"), &call, NULL, &pass};

    return vc_train_result(l->device, l->device->table->run(l->device->session, &work));
}

/* Adds the gradients of a batch to those of the step, which end in the gradients' place. `first`: the first
 * batch of the round. */
enum vc_status vc_device_sum(struct vc_learner *l, uint64_t first, uint64_t n_batches)
{
    const struct vc_weights *w = l->net.weights;
    uint64_t n_ranks = vc_ranks_size(l->options->parallel.ranks);
    float *total = l->on_device->total;

    if (l->options->parallel.ranks == NULL && n_batches == 1) {
        return VC_OK; /* its gradient is that of the step */
    }
    if (first + vc_ranks_rank(l->options->parallel.ranks) < n_batches) {
        VC_CALL(add_all(l, w->device_grad, total, first != 0));
    } else if (first == 0) {
        VC_CALL(vc_train_clear(l->device, total, w->grad_bytes)); /* this rank has no batch in this step */
    }
    if (first + n_ranks < n_batches) {
        return VC_OK;
    }
    if (l->options->parallel.ranks != NULL) {
        VC_CALL(vc_device_ranks_add(l, total, w->grad_bytes / sizeof *total));
    }
    return add_all(l, total, w->device_grad, false);
}

/* The norm of all gradients, from the squares of blocks, added in their order. Takes the scale of the loss
 * out first. Losses that are late lie behind the squares. */
enum vc_status vc_device_measure(struct vc_learner *l, double scale, double *norm)
{
    struct vc_device_step *d = l->on_device;
    size_t n = l->optimizer.n_blocks;
    double *squares = l->device_room;
    uint64_t rows_at = (uint64_t)(d->sums - d->squares);
    uint64_t bytes = (d->late ? rows_at + 2 * d->late_rows : n + 1) * sizeof *squares;
    double sum = 0;

    VC_CALL(send(l));
    if (scale != 1) {
        VC_CALL(scale_all(l, 1 / scale));
    }
    VC_CALL(vc_train_result(l->device, l->device->table->measure(l->device->session, d->blocks, n, d->squares)));
    VC_CALL(vc_train_to_host(l->device, squares, d->squares, bytes));
    for (size_t k = 0; k < n; k++) {
        sum += squares[k];
    }
    *norm = sqrt(sum);
    d->fault = squares[n] != 0;
    if (d->late) {
        d->losses = add_rows(squares + rows_at, d->late_rows);
    }
    return VC_OK;
}

/* One update of all blocks. Afterwards the device's weights and states are the newer ones. */
enum vc_status vc_device_update(struct vc_learner *l, const struct vc_update *update, double by)
{
    const struct vc_train_update u = {.kind = update->kind == VC_UPDATE_SGD    ? VC_TRAIN_SGD
                                              : update->kind == VC_UPDATE_ADAM ? VC_TRAIN_ADAM
                                                                               : VC_TRAIN_ADAMW,
                                      .nesterov = update->nesterov,
                                      .lr = update->lr,
                                      .momentum = update->momentum,
                                      .beta1 = update->beta1,
                                      .beta2 = update->beta2,
                                      .eps = update->eps,
                                      .t = update->t,
                                      .by = by,
                                      .maps = l->on_device->maps};

    VC_CALL(send(l));
    VC_CALL(vc_weights_to_device(l->net.weights)); /* a rank without a batch in this step has run no program */
    VC_CALL(vc_train_result(
        l->device, l->device->table->update(l->device->session, l->on_device->blocks, l->optimizer.n_blocks, &u)));
    VC_CALL(vc_fake_quant_apply_device(l, l->on_device->fake_quants));
    l->net.weights->newer_on_device = true;
    l->on_device->newer_on_device = true;
    return VC_OK;
}
