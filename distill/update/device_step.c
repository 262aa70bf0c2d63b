/* device_step.c - see device_step.h. */
#include "distill/update/device_step.h"

#include <math.h>
#include <string.h>

#include "core/base/checked.h"
#include "distill/update/device_ranks.h"
#include "distill/update/gradual.h"
#include "distill/update/grid.h"
#include "distill/update/masks.h"
#include "distill/update/update.h"

/* All of it in one block of device memory, and arrays for what goes there and comes back in one of the host. */
struct vc_device_step {
    void *block;
    uint64_t bytes;
    bool changed;         /* states and masks of the host are newer */
    bool newer_on_device; /* states of the device are */
    bool nccl;            /* adds up the gradients of ranks, whose devices have their own sums */
    /* Within the block: */
    char *states;
    uint8_t *keep; /* of the trained tensors that have masks, one after the other */
    struct vc_train_block *blocks;
    double *squares, *sums;
    float *total, *teacher;
    int64_t *labels;
    uint8_t *mask;
    struct vc_dynamic_maps *maps;
    char *grids; /* of the block of vc_grid_room: masters and scales */
};

static bool trains(const struct vc_trainer *t)
{
    return !t->judge_only && t->options.task == VC_TASK_TRAIN;
}

static enum vc_status refuse(struct vc_trainer *t, const char *what)
{
    return vc_fail(t->ctx, VC_E_UNSUPPORTED, "%s computes on the CPU only: %s cpu", what, vc_option(t->ctx, "device"));
}

enum vc_status vc_device_open(struct vc_trainer *t)
{
    const struct vc_distill_options *o = &t->options;
    bool nccl = false;
    enum vc_status status = VC_OK;

    VC_TRY(vc_train_device_open(t->ctx, &t->device));
    VC_TRY(trains(t) ? vc_device_ranks_choose(t, &nccl) : VC_OK);
    if (t->device == NULL) {
        return VC_OK;
    }
    VC_TRY(t->f64 ? refuse(t, "float64") : VC_OK);
    VC_TRY(o->learn_scales ? refuse(t, "learned scales") : VC_OK);
    t->device->limit_bytes = o->device_memory;
    t->on_device = vc_calloc_array(t->ctx, VC_TAG_MISC, 1, sizeof *t->on_device);
    VC_TRY_ALLOC(t->on_device);
    t->on_device->nccl = nccl;
out:
    return status;
}

void vc_device_close(struct vc_trainer *t)
{
    vc_device_ranks_end(t);
    vc_device_release(t);
    vc_free(t->ctx, t->on_device);
    vc_train_device_close(t->device);
    t->on_device = NULL;
    t->device = NULL;
}

bool vc_device_uses_nccl(const struct vc_trainer *t)
{
    return t->on_device != NULL && t->on_device->nccl;
}

bool vc_device_sums(const struct vc_trainer *t)
{
    return t->device != NULL && (t->options.ranks == NULL || vc_device_uses_nccl(t));
}

/* ---- memory ---- */

static bool may_have_mask(const struct vc_trainer *t, size_t entry)
{
    return vc_masks_has(t, entry) || vc_gradual_has(t, entry);
}

static uint64_t n_logits(const struct vc_trainer *t)
{
    return t->options.batch * t->student.positions * (uint64_t)t->student.n_classes;
}

static uint64_t n_rows(const struct vc_trainer *t)
{
    return t->options.batch * t->student.positions;
}

/* Where the parts of the block begin, if it begins at `base`; returns its bytes. */
static uint64_t lay_out(const struct vc_trainer *t, struct vc_device_step *d, char *base)
{
    uint64_t n_blocks = vc_trainer_cut_bytes(t) / sizeof *t->blocks;
    uint64_t masks = 0;
    uint64_t at = 0;

#define PART(member, n_bytes)                                  \
    do {                                                       \
        d->member = (void *)(base != NULL ? base + at : NULL); \
        at += vc_train_block_bytes(n_bytes);                   \
    } while (0)

    for (size_t k = 0; k < t->student.weights->n; k++) {
        masks += t->student.weights->items[k].trained && may_have_mask(t, k) ? t->student.weights->items[k].n : 0;
    }
    PART(states, t->report->state_bytes);
    PART(keep, masks);
    PART(blocks, n_blocks * sizeof *d->blocks);
    PART(squares, n_blocks * sizeof *d->squares);
    PART(sums, 2 * n_rows(t) * sizeof *d->sums);
    PART(labels, n_rows(t) * sizeof *d->labels);
    PART(mask, n_rows(t));
    PART(teacher, t->data.taught ? n_logits(t) * sizeof *d->teacher : 0);
    PART(maps, t->options.optimizer == VC_OPTIMIZER_ADAM8BIT ? sizeof *d->maps : 0);
    PART(grids, vc_grid_bytes(t));
    PART(total, t->options.accum > 1 && vc_device_sums(t) ? t->student.weights->grad_bytes : 0);
#undef PART
    return at;
}

uint64_t vc_device_bytes(const struct vc_trainer *t)
{
    const struct vc_net *nets[2] = {&t->student, &t->teacher};
    struct vc_device_step parts;
    uint64_t bytes;

    if (t->device == NULL) {
        return 0;
    }
    bytes = t->device->table->own_bytes() + vc_train_block_bytes(t->report->arena_bytes);
    bytes += trains(t) ? vc_train_block_bytes(lay_out(t, &parts, NULL)) : 0;
    for (size_t k = 0; k < 2; k++) {
        if (nets[k]->weights != NULL) {
            bytes += vc_train_block_bytes(nets[k]->weights->data_bytes) +
                     vc_train_block_bytes(nets[k]->weights->grad_bytes) + vc_net_own_bytes(nets[k]);
        }
    }
    return bytes;
}

uint64_t vc_device_room_bytes(const struct vc_trainer *t)
{
    uint64_t n_blocks = vc_trainer_cut_bytes(t) / sizeof *t->blocks;
    uint64_t blocks = n_blocks * (sizeof(struct vc_train_block) + sizeof(double));

    return t->device != NULL && trains(t) ? vc_max_u64(blocks, 2 * n_rows(t) * sizeof(double)) : 0;
}

enum vc_status vc_device_prepare(struct vc_trainer *t)
{
    struct vc_device_step *d = t->on_device;
    enum vc_status status = VC_OK;

    if (t->device == NULL || t->device_arena != NULL) {
        return VC_OK;
    }
    VC_TRY(vc_train_alloc(t->device, t->report->arena_bytes, &t->device_arena));
    if (trains(t)) {
        d->bytes = lay_out(t, d, NULL);
        VC_TRY(vc_train_alloc(t->device, d->bytes, &d->block));
        (void)lay_out(t, d, d->block);
    }
    d->changed = true;
    d->newer_on_device = false;
out:
    return status;
}

void vc_device_release(struct vc_trainer *t)
{
    if (t->device != NULL) {
        vc_train_free(t->device, t->device_arena, t->report->arena_bytes);
        t->device_arena = NULL;
    }
    if (t->on_device != NULL) {
        bool nccl = t->on_device->nccl;

        vc_train_free(t->device, t->on_device->block, t->on_device->bytes);
        *t->on_device = (struct vc_device_step){.nccl = nccl};
    }
}

/* ---- states and masks ---- */

void vc_device_changed(struct vc_trainer *t)
{
    if (t->device != NULL) {
        t->on_device->changed = true;
        t->on_device->newer_on_device = false;
    }
}

enum vc_status vc_device_to_host(struct vc_trainer *t)
{
    enum vc_status status = VC_OK;

    if (t->device == NULL) {
        return VC_OK;
    }
    VC_TRY(vc_weights_to_host(t->student.weights));
    if (t->on_device->newer_on_device) {
        VC_TRY(vc_train_to_host(t->device, t->state_block, t->on_device->states, t->report->state_bytes));
        if (t->grids != NULL) {
            VC_TRY(vc_train_to_host(t->device, *vc_grid_room(t), t->on_device->grids, vc_grid_bytes(t)));
        }
        t->on_device->newer_on_device = false;
    }
out:
    return status;
}

/* The device's copy of what lies at `p` of a block of the host. */
static void *copy_of(const void *p, const void *block, const void *copy)
{
    return p == NULL ? NULL : (char *)(uintptr_t)copy + ((const char *)p - (const char *)block);
}

/* The states of weights from number `first` on of entry k, numbers or codes. */
static void place_states(const struct vc_trainer *t, size_t k, size_t first, struct vc_train_block *block)
{
    const struct vc_trainer_state *s = &t->states[k];
    char *there = t->on_device->states;
    void *m = copy_of(s->m, t->state_block, there);
    void *v = copy_of(s->v, t->state_block, there);

    if (s->m_factors != NULL) {
        block->m_codes = (uint8_t *)m + first;
        block->v_codes = (uint8_t *)v + first;
        block->m_factors = (float *)copy_of(s->m_factors, t->state_block, there) + first / VC_CODED_BLOCK;
        block->v_factors = (float *)copy_of(s->v_factors, t->state_block, there) + first / VC_CODED_BLOCK;
        return;
    }
    block->m = m != NULL ? (float *)m + first : NULL;
    block->v = v != NULL ? (float *)v + first : NULL;
}

/* States, masks, and the list of blocks, which has pointers to them. */
static enum vc_status send(struct vc_trainer *t)
{
    struct vc_device_step *d = t->on_device;
    const struct vc_weights *w = t->student.weights;
    struct vc_train_block *blocks = t->device_room;
    uint8_t *keep = d->keep;
    size_t b = 0;
    enum vc_status status = VC_OK;

    if (!d->changed) {
        return VC_OK;
    }
    VC_TRY(vc_train_to_device(t->device, d->states, t->state_block, t->report->state_bytes));
    VC_TRY(t->maps != NULL ? vc_train_to_device(t->device, d->maps, t->maps, sizeof *t->maps) : VC_OK);
    if (t->grids != NULL) {
        VC_TRY(vc_train_to_device(t->device, d->grids, *vc_grid_room(t), vc_grid_bytes(t)));
    }
    for (size_t k = 0; k < w->n; k++) {
        const struct vc_weight *item = &w->items[k];
        const struct vc_trainer_state *s = &t->states[k];
        bool masked = item->trained && s->keep != NULL;

        VC_TRY(masked ? vc_train_to_device(t->device, keep, s->keep, item->n) : VC_OK);
        for (; b < t->n_blocks && t->blocks[b].weight == k; b++) {
            size_t first = t->blocks[b].first;
            float *data = s->master != NULL ? copy_of(s->master, *vc_grid_room(t), d->grids)
                                            : copy_of(item->data, w->data_block, w->device_data);
            float *grad = copy_of(item->grad, w->grad_block, w->device_grad);

            blocks[b] =
                (struct vc_train_block){.w = data + first,
                                        .g = grad + first,
                                        .keep = masked ? keep + first : NULL,
                                        .n = t->blocks[b].n,
                                        .decay = item->n_dims > 1 || t->options.decay_1d ? t->options.weight_decay : 0};
            place_states(t, k, first, &blocks[b]);
        }
        keep += masked ? item->n : 0;
    }
    VC_TRY(vc_train_to_device(t->device, d->blocks, blocks, t->n_blocks * sizeof *blocks));
    d->changed = false;
out:
    return status;
}

/* ---- losses ---- */

bool vc_device_has_loss(const struct vc_trainer *t, const struct vc_teacher_rows *teacher)
{
    return t->device != NULL && teacher->classes == NULL;
}

enum vc_status vc_device_loss(struct vc_trainer *t, struct vc_engine *engine, const struct vc_loss_spec *spec, size_t n,
                              const struct vc_teacher_rows *teacher, struct vc_loss_sums *sums)
{
    struct vc_device_step *d = t->on_device;
    const struct vc_engine_value *logits = vc_engine_output(engine, 0);
    double *rows = t->device_room;
    uint64_t n_rows = n * t->student.positions;
    struct vc_train_loss loss = {.n_rows = n_rows,
                                 .n_classes = t->student.n_classes,
                                 .alpha = spec->alpha,
                                 .temperature = spec->temperature,
                                 .kd_by = spec->kd_rows != 0 ? 1 / (double)spec->kd_rows : 0,
                                 .ce_by = spec->ce_rows != 0 ? 1 / (double)spec->ce_rows : 0,
                                 .mse = spec->mse,
                                 .cosine = spec->cosine,
                                 .scale = spec->scale != 0 ? spec->scale : 1,
                                 .logits = logits->device_data,
                                 .teacher = teacher->logits != NULL ? d->teacher : NULL,
                                 .labels = d->labels,
                                 .mask = d->mask,
                                 .gradient = logits->device_grad,
                                 .sums = d->sums};
    enum vc_status status = VC_OK;

    if (teacher->logits != NULL) {
        VC_TRY(
            vc_train_to_device(t->device, d->teacher, teacher->logits, n_rows * t->student.n_classes * sizeof(float)));
    }
    VC_TRY(vc_train_to_device(t->device, d->labels, t->labels, n_rows * sizeof *t->labels));
    VC_TRY(vc_train_to_device(t->device, d->mask, t->mask, n_rows));
    VC_TRY(vc_train_result(t->device, t->device->table->loss(t->device->session, &loss)));
    VC_TRY(vc_train_to_host(t->device, rows, d->sums, 2 * n_rows * sizeof *rows));
    *sums = (struct vc_loss_sums){0, 0};
    for (uint64_t r = 0; r < n_rows; r++) {
        sums->kd += rows[2 * r];
        sums->ce += rows[2 * r + 1];
    }
out:
    return status;
}

/* ---- gradients and weights ---- */

/* to = from, or to += from, of all gradients. */
static enum vc_status add_all(struct vc_trainer *t, float *from, float *to, bool add)
{
    const struct vc_args_chunks args = {.n = t->student.weights->grad_bytes / sizeof(float), .n_chunks = 1};
    const struct vc_train_call call = {.p = {from, to}, .args = &args, .add = add};
    const struct vc_engine_pass pass = {.norm_share = -1};
    const struct vc_train_work work = {t->device->table->find("add_chunks"), &call, NULL, &pass};

    return vc_train_result(t->device, t->device->table->run(t->device->session, &work));
}

/* All gradients times a. */
static enum vc_status scale_all(struct vc_trainer *t, double a)
{
    float *grad = t->student.weights->device_grad;
    const struct vc_args_unary args = {
        .kind = VC_UNARY_COPY, .n = t->student.weights->grad_bytes / sizeof(float), .a = a};
    const struct vc_train_call call = {.p = {grad, grad}, .args = &args};
    const struct vc_engine_pass pass = {.norm_share = -1};
    const struct vc_train_work work = {t->device->table->find("unary"), &call, NULL, &pass};

    return vc_train_result(t->device, t->device->table->run(t->device->session, &work));
}

enum vc_status vc_device_sum(struct vc_trainer *t, uint64_t first, uint64_t n_batches)
{
    const struct vc_weights *w = t->student.weights;
    uint64_t n_ranks = vc_ranks_size(t->options.ranks);
    float *total = t->on_device->total;
    enum vc_status status = VC_OK;

    if (t->options.ranks == NULL && n_batches == 1) {
        return VC_OK; /* its gradient is that of the step */
    }
    if (first + vc_ranks_rank(t->options.ranks) < n_batches) {
        VC_TRY(add_all(t, w->device_grad, total, first != 0));
    } else if (first == 0) {
        VC_TRY(vc_train_clear(t->device, total, w->grad_bytes)); /* this rank has no batch in this step */
    }
    if (first + n_ranks < n_batches) {
        return VC_OK;
    }
    VC_TRY(t->options.ranks != NULL ? vc_device_ranks_add(t, total, w->grad_bytes / sizeof *total) : VC_OK);
    VC_TRY(add_all(t, total, w->device_grad, false));
out:
    return status;
}

enum vc_status vc_device_measure(struct vc_trainer *t, double *norm)
{
    struct vc_device_step *d = t->on_device;
    double *squares = t->device_room;
    double sum = 0;
    enum vc_status status = VC_OK;

    VC_TRY(send(t));
    VC_TRY(t->scale.value != 1 ? scale_all(t, 1 / t->scale.value) : VC_OK);
    VC_TRY(vc_train_result(t->device,
                           t->device->table->measure(t->device->session, d->blocks, t->n_blocks, d->squares, squares)));
    for (size_t k = 0; k < t->n_blocks; k++) {
        sum += squares[k];
    }
    *norm = sqrt(sum);
out:
    return status;
}

enum vc_status vc_device_update(struct vc_trainer *t, const struct vc_update *update, double by)
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
                                      .maps = t->on_device->maps};
    enum vc_status status = VC_OK;

    VC_TRY(send(t));
    VC_TRY(vc_weights_to_device(t->student.weights)); /* a rank without a batch in this step has run no program */
    VC_TRY(vc_train_result(t->device,
                           t->device->table->update(t->device->session, t->on_device->blocks, t->n_blocks, &u)));
    VC_TRY(vc_grid_apply_device(t, t->on_device->grids));
    t->student.weights->newer_on_device = true;
    t->on_device->newer_on_device = true;
out:
    return status;
}
