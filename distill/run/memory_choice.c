/* memory_choice.c - the memory of a run: programs, what they and everything else take, the plan that fits into the
 * memory that there is, and the blocks themselves.
 *
 *     planned peak = what is in use already (data, models, programs) + the blocks of a run, as the pool rounds them up
 *
 * Nothing else is allocated for as long as steps are made, so the peak of training is that figure to the byte. Where it
 * is beyond options.memory.max_memory: batches of fewer rows, which accumulate to the same steps, as many rows as fit;
 * then, with the smallest batches, recomputation, as little as fits. */

#include "distill/loss/match.h"
#include "distill/loss/step_loss.h"
#include "distill/run/trainer.h"
#include "distill/update/device_step.h"
#include "distill/update/fake_quant.h"
#include "distill/update/gradual.h"
#include "distill/update/masks.h"
#include "distill/update/update.h"
#include "engine/state_bytes.h"

/* ---- programs ---- */

/* Every program that a walk over n rows needs. */
static enum vc_status make_engines(struct vc_trainer *t, struct vc_net *net, uint64_t n, bool train)
{
    struct vc_engine *engine;
    uint64_t tail = n % t->options.training.batch;

    if (n >= t->options.training.batch) {
        VC_CALL(vc_net_engine(net, t->options.training.batch, train, &engine));
    }
    return tail != 0 ? vc_net_engine(net, tail, train, &engine) : VC_OK;
}

/* Programs for all numbers of rows that the run will have, so that none is made, and none fails, in the
 * middle of it. */
static enum vc_status make_programs(struct vc_trainer *t)
{
    if (t->data.open) {
        VC_CALL(make_engines(t, &t->student.net, t->data.rows.n, t->options.task == VC_TASK_TRAIN));
        if (t->runs_teacher) {
            VC_CALL(make_engines(t, &t->teacher, t->data.rows.n, false));
        }
    }
    if (t->eval.open) {
        VC_CALL(make_engines(t, &t->student.net, t->eval.rows.n, false));
        if (t->runs_teacher) {
            VC_CALL(make_engines(t, &t->teacher, t->eval.rows.n, false));
        }
    }
    return VC_OK;
}

/* ---- what a run takes ---- */

/* One block of a run. */
struct block {
    void **at;
    enum vc_tag tag;
    uint64_t bytes;
};

#define MAX_BLOCKS 20

/* Of the host: all programs, or what it reads and writes of those on a device. */
static uint64_t arena_bytes(const struct vc_trainer *t)
{
    return t->student.device == NULL ? t->report->arena_bytes
                                     : vc_max_u64(vc_net_host_bytes(&t->student.net), vc_net_host_bytes(&t->teacher));
}

/* Beside the weights of both networks. UINT64_MAX: the size overflows. */
static size_t list_blocks(struct vc_trainer *t, struct block *blocks)
{
    uint64_t batch, n_logits, row_bytes;
    size_t most = t->student.net.positions; /* rows of one output */
    size_t n = 0;

    for (size_t k = 0; k < t->student.net.n_heads; k++) {
        most = t->student.net.heads[k].positions > most ? t->student.net.heads[k].positions : most;
    }

    if (!vc_mul_u64(t->options.training.batch, t->student.net.positions, &batch)) {
        batch = UINT64_MAX / sizeof *t->batch.labels;
    }
    if (!vc_mul_u64(batch, (uint64_t)t->student.net.n_classes * sizeof(double), &n_logits)) {
        n_logits = UINT64_MAX;
    }
    row_bytes = t->judge_only ? VC_LOSS_ROOM * t->student.net.n_classes * sizeof *t->batch.row
                              : vc_step_loss_bytes(&t->student.net, batch * most / t->student.net.positions);
    blocks[n++] = (struct block){&t->arena, VC_TAG_TILES, arena_bytes(t)};
    blocks[n++] = (struct block){&t->student.optimizer.block, VC_TAG_TILES, t->report->state_bytes};
    blocks[n++] = (struct block){(void **)&t->steps.order, VC_TAG_MISC, (t->data.rows.n + 1) * sizeof *t->steps.order};
    blocks[n++] = (struct block){(void **)&t->batch.row, VC_TAG_SCRATCH, row_bytes};
    blocks[n++] = (struct block){(void **)&t->batch.labels, VC_TAG_SCRATCH, batch * sizeof *t->batch.labels};
    blocks[n++] = (struct block){(void **)&t->batch.mask, VC_TAG_SCRATCH, batch * sizeof *t->batch.mask};
    blocks[n++] = (struct block){(void **)&t->student.optimizer.states, VC_TAG_MISC,
                                 (t->student.net.weights->n + 1) * sizeof *t->student.optimizer.states};
    blocks[n++] =
        (struct block){(void **)&t->student.optimizer.blocks, VC_TAG_MISC, vc_optimizer_cut_bytes(&t->student)};
    if (!t->judge_only && t->options.task == VC_TASK_TRAIN) {
        const struct block sums[] = {{&t->sum.total, VC_TAG_TILES, vc_trainer_total_bytes(t)},
                                     {&t->sum.received, VC_TAG_IO, vc_trainer_received_bytes(t)},
                                     {&t->sum.norms, VC_TAG_SCRATCH, vc_trainer_norm_bytes(t)}};

        for (size_t k = 0; k < sizeof sums / sizeof *sums; k++) {
            blocks[n] = sums[k];
            n += sums[k].bytes != 0;
        }
    }
    if (vc_device_room_bytes(&t->student) != 0) {
        blocks[n++] = (struct block){&t->student.device_room, VC_TAG_SCRATCH, vc_device_room_bytes(&t->student)};
    }
    if (t->options.optimizer.kind == VC_OPTIMIZER_ADAM8BIT && !t->judge_only) {
        blocks[n++] =
            (struct block){(void **)&t->student.optimizer.maps, VC_TAG_SCRATCH, sizeof *t->student.optimizer.maps};
    }
    if (t->options.eval.every != 0) {
        blocks[n++] = (struct block){&t->evals.spare, VC_TAG_TILES, t->report->weight_bytes};
        blocks[n++] = (struct block){&t->evals.best, VC_TAG_TILES, t->report->weight_bytes};
    }
    if (t->student.fake_quants != NULL) {
        blocks[n++] = (struct block){vc_fake_quant_room(&t->student), VC_TAG_TILES, vc_fake_quant_bytes(&t->student)};
    }
    if (t->student.gradual != NULL) {
        blocks[n++] = (struct block){vc_gradual_room(&t->student), VC_TAG_SCRATCH, vc_gradual_bytes(&t->student)};
    }
    if (t->match != NULL) {
        blocks[n++] = (struct block){vc_match_room(t->match), VC_TAG_TILES, vc_match_bytes(t->match)};
    }
    if (t->data.rows.targets != NULL || t->eval.rows.targets != NULL) {
        blocks[n++] = (struct block){&t->batch.targets, VC_TAG_SCRATCH, n_logits};
    }
    if (t->runs_teacher) {
        blocks[n++] = (struct block){&t->batch.teacher_logits, VC_TAG_TILES, n_logits};
    }
    return n;
}

/* As the pool rounds it up. */
static uint64_t block_bytes(uint64_t bytes)
{
    return bytes > SIZE_MAX / 4 ? UINT64_MAX / 4 : vc_pool_block_bytes((size_t)bytes);
}

/* The peak of the run, to the byte: what is in use, and every block that will be. */
static uint64_t planned(struct vc_trainer *t)
{
    const struct vc_net *nets[2] = {&t->student.net, &t->teacher};
    struct block blocks[MAX_BLOCKS];
    size_t n = list_blocks(t, blocks);
    uint64_t sum = vc_pool_in_use(t->ctx->shared->pool) + vc_heads_bytes(t);

    for (size_t k = 0; k < n; k++) {
        sum += block_bytes(blocks[k].bytes);
    }
    for (size_t k = 0; k < 2; k++) {
        if (nets[k]->weights != NULL) {
            sum += block_bytes(nets[k]->weights->data_bytes) + block_bytes(nets[k]->weights->grad_bytes);
        }
    }
    for (size_t k = 0; !t->judge_only && k < t->student.net.weights->n; k++) {
        /* a byte for each weight of tensors that have a mask */
        sum += vc_masks_has(&t->student, k) || vc_gradual_has(&t->student, k)
                   ? block_bytes(t->student.net.weights->items[k].n)
                   : 0;
    }
    for (unsigned k = 0; t->eval.open && !t->judge_only && k < 2; k++) {
        sum += block_bytes(t->eval.rows.n * t->student.net.positions); /* which answers were right */
    }
    return sum;
}

/* The figures of the report. */
static void count(struct vc_trainer *t)
{
    struct vc_distillation *r = t->report;

    r->n_tensors = r->n_frozen = r->n_unread = 0;
    r->n_weights = r->arena_bytes = 0;
    for (size_t k = 0; k < t->student.net.weights->n; k++) {
        const struct vc_weight *item = &t->student.net.weights->items[k];

        r->n_tensors += item->trained && !item->initialized;
        r->n_weights += item->trained && !item->initialized ? item->n : 0;
        r->n_frozen += !item->trained && !item->statistic && !item->unread;
        r->n_unread += item->unread && !item->statistic;
    }
    vc_net_bytes(&t->student.net, &r->arena_bytes, &r->least_bytes, &r->naive_bytes);
    vc_net_bytes(&t->teacher, &r->arena_bytes, &r->least_bytes, &r->naive_bytes);
    r->eval_bytes = vc_max_u64(vc_net_forward_bytes(&t->student.net), vc_net_forward_bytes(&t->teacher));
    vc_net_macs(&t->student.net, &r->macs_again, &r->macs_forward);
    r->weight_bytes = t->student.net.weights->data_bytes;
    r->copy_bytes = t->options.eval.every != 0 ? 2 * r->weight_bytes : 0;
    r->gradient_bytes = t->student.net.weights->grad_bytes;
    r->state_bytes = vc_weights_state_bytes(t->student.net.weights, t->options.optimizer.kind);
    r->teacher_bytes = t->runs_teacher ? t->teacher.weights->data_bytes : 0;
    r->teacher_accuracy = t->data.files.n != 0 ? t->data.files.accuracy : (double)NAN;
    r->n_rows = t->data.rows.n;
    r->batch = t->options.training.batch;
    r->accum = t->options.training.accum;
    r->planned_bytes = planned(t);
    r->device_planned_bytes = vc_device_bytes(&t->student, &t->teacher);
    r->n_planned = t->judge_only ? 0 : t->steps.n;
    r->epochs = t->judge_only ? 0 : (double)t->steps.n / (double)t->steps.per_epoch;
}

/* ---- the plan that fits ---- */

/* Programs for batches of so many rows, and their figures. */
static enum vc_status try_batch(struct vc_trainer *t, uint64_t batch)
{
    vc_net_drop_engines(&t->student.net);
    vc_net_drop_engines(&t->teacher);
    t->options.training.batch = batch;
    t->options.training.accum = t->steps.rows / batch;
    enum vc_status status = make_programs(t);
    if (status == VC_OK) {
        count(t);
    }
    return status;
}

/* Both limits hold, where they are set. */
static bool fits(const struct vc_trainer *t)
{
    const struct vc_distill_options *o = &t->options;

    return (o->memory.max_memory == 0 || t->report->planned_bytes <= o->memory.max_memory) &&
           (o->memory.device_memory == 0 || t->report->device_planned_bytes <= o->memory.device_memory);
}

/* The next smaller number of rows that divides a step; 0 if there is none. */
static uint64_t smaller(const struct vc_trainer *t, uint64_t batch)
{
    for (uint64_t b = batch - 1; b > 0; b--) {
        if (t->steps.rows % b == 0) {
            return b;
        }
    }
    return 0;
}

/* What the limit leaves for the arena, where that is. */
static uint64_t budget(const struct vc_trainer *t)
{
    const struct vc_distillation *r = t->report;
    bool there = t->student.device != NULL;
    uint64_t limit = there ? t->options.memory.device_memory : t->options.memory.max_memory;
    uint64_t others = there ? r->device_planned_bytes - vc_train_block_bytes(r->arena_bytes)
                            : r->planned_bytes - block_bytes(r->arena_bytes);

    return limit - vc_min_u64(limit, others);
}

/* What the same run takes in 16 bits, whose programs and figures replace those of f32; 0: it does not fit, either. */
static uint64_t in_16_bits(struct vc_trainer *t, bool there)
{
    const struct vc_distill_precision *precision = &t->options.precision;
    bool half = precision->half == VC_HALF_NONE && precision->kind == VC_GRAPH_F32 && t->student.trains;

    t->student.net.options.rounding = VC_UNARY_ROUND_BF16;
    for (unsigned k = 0; half && k < 2; k++) { /* its program itself is larger, which the first one shows */
        if (try_batch(t, t->options.training.batch) == VC_OK && fits(t)) {
            return there ? t->report->device_planned_bytes : t->report->planned_bytes;
        }
        t->student.net.options.budget_bytes = budget(t);
    }
    return 0;
}

/* The sentence says what the run takes at least, why it is not less, and whether 16 bits would fit. */
static enum vc_status refuse(struct vc_trainer *t)
{
    const char *why = t->options.training.keep_batch != 0
                          ? "with batches of that size, and as much as possible computed again"
                      : vc_net_has_batch_norm(&t->student.net)
                          ? "as much as possible computed again; batch normalization keeps batches from being divided"
                          : "with the smallest batches, and as much as possible computed again";

    bool there =
        t->options.memory.device_memory != 0 && t->report->device_planned_bytes > t->options.memory.device_memory;
    uint64_t bytes = there ? t->report->device_planned_bytes : t->report->planned_bytes;
    uint64_t half = in_16_bits(t, there);
    char instead[128] = "";

    if (half != 0) {
        (void)snprintf(instead, sizeof instead, "; %s bf16 takes %llu", vc_option(t->ctx, "precision.kind"),
                       (unsigned long long)half);
    }
    VC_REFUSE_IF(there, t->ctx, VC_E_NOMEM, "the run takes %llu bytes of device memory at least, %s; %s is %llu%s",
                 (unsigned long long)bytes, why, vc_option(t->ctx, "memory.device_memory"),
                 (unsigned long long)t->options.memory.device_memory, instead);
    return vc_fail(t->ctx, VC_E_NOMEM, "the run takes %llu bytes at least, %s; %s is %llu%s", (unsigned long long)bytes,
                   why, vc_option(t->ctx, "max_memory"), (unsigned long long)t->options.memory.max_memory, instead);
}

/* Batches are divided before anything is computed again: that costs no time. Batch normalization forbids
 * it, since its means are those of a batch. */
enum vc_status vc_trainer_fit(struct vc_trainer *t)
{
    bool chosen = t->options.memory.recompute == VC_RECOMPUTE_AUTO && t->options.memory.budget == 0;
    bool divides = t->options.training.keep_batch == 0 && t->student.net.batch != NULL &&
                   (!t->runs_teacher || t->teacher.batch != NULL) && !vc_net_has_batch_norm(&t->student.net);

    VC_REFUSE_IF(t->options.memory.device_memory != 0 && t->student.device == NULL, t->ctx, VC_E_ARGUMENT,
                 "%s: no device computes: the run is on the CPU", vc_option(t->ctx, "memory.device_memory"));
    if ((t->options.memory.max_memory == 0 && t->options.memory.device_memory == 0) || t->judge_only) {
        VC_CALL(make_programs(t));
        count(t);
        return VC_OK;
    }
    if (chosen) { /* first without */
        t->student.net.options.recompute = VC_RECOMPUTE_NONE;
    }
    for (uint64_t batch = t->options.training.batch; batch != 0; batch = divides ? smaller(t, batch) : 0) {
        VC_CALL(try_batch(t, batch));
        if (fits(t)) {
            return VC_OK;
        }
    }
    if (t->options.memory.recompute == VC_RECOMPUTE_NONE || chosen) {
        t->student.net.options.recompute = VC_RECOMPUTE_AUTO;
        t->student.net.options.budget_bytes = budget(t);
        VC_CALL(try_batch(t, t->options.training.batch));
    }
    return fits(t) ? VC_OK : refuse(t);
}

/* ---- the memory ---- */

/* Tells all programs where their memory is. */
static enum vc_status attach(struct vc_trainer *t)
{
    VC_CALL(vc_device_prepare(&t->student));
    VC_CALL(vc_net_attach(&t->student.net, t->arena, t->student.device_arena));
    return vc_net_attach(&t->teacher, t->arena, t->student.device_arena);
}

/* Allocates all blocks of the run, and loads the weights. Free blocks of the pool are given back before, so
 * that none of them is taken that is larger than needed. */
enum vc_status vc_trainer_prepare(struct vc_trainer *t)
{
    struct block blocks[MAX_BLOCKS];
    size_t n = list_blocks(t, blocks);

    vc_pool_trim(t->ctx->shared->pool); /* a block of this run is of its own size, not of one that was there before */
    VC_CALL(vc_net_load(&t->student.net));
    vc_pool_trim(t->ctx->shared->pool);
    if (t->runs_teacher) {
        VC_CALL(vc_net_load(&t->teacher));
    }
    vc_pool_trim(t->ctx->shared->pool);
    for (size_t k = 0; k < n; k++) {
        VC_REFUSE_IF(blocks[k].bytes > SIZE_MAX / 4, t->ctx, VC_E_NOMEM, "%s: too many rows",
                     vc_option(t->ctx, "training.batch"));
        VC_CALL_ALLOC(*blocks[k].at = vc_alloc(t->ctx, blocks[k].tag, (size_t)blocks[k].bytes));
    }
    t->student.optimizer.n_states = t->student.net.weights->n;
    memset(t->student.optimizer.states, 0, (t->student.net.weights->n + 1) * sizeof *t->student.optimizer.states);
    VC_CALL(attach(t)); /* programs find the weights, too, so these come first */
    return vc_heads_open(t);
}

/* The student as its file has it, for another run with the same programs. */
enum vc_status vc_trainer_reload(struct vc_trainer *t)
{
    vc_trainer_release(t);
    vc_pool_trim(t->ctx->shared->pool);
    VC_CALL(vc_net_load(&t->student.net));
    vc_pool_trim(t->ctx->shared->pool);
    VC_CALL_ALLOC(t->arena = vc_alloc(t->ctx, VC_TAG_TILES, (size_t)arena_bytes(t)));
    VC_CALL_ALLOC(t->student.optimizer.block = vc_alloc(t->ctx, VC_TAG_TILES, (size_t)t->report->state_bytes));
    return attach(t);
}

/* Frees what is as large as the student: the arena and the states. */
void vc_trainer_release(struct vc_trainer *t)
{
    vc_device_release(&t->student);
    VC_FREE_ALL(t->ctx, t->arena, t->student.optimizer.block);
    t->arena = NULL;
    t->student.optimizer.block = NULL;
}
