/* engine_run.c - see engine.h: memory, access, passes.
 *
 * Running: blocks of an instruction are taken by workers from an atomic counter; a barrier is between
 * instructions, except between neighbours of one block each, which the same worker runs. */
#include "engine/train_program.h"
#include "graph/lazy.h"
#include "graph/ops/run.h"

/* Numbers about the program, for callers that plan memory: what it takes, what is alive at the worst step,
 * what lives across the loss, constants, and what it would take without sharing. */
uint64_t vc_engine_bytes(const struct vc_engine *engine)
{
    return engine->plan.arena_bytes;
}

uint64_t vc_engine_least_bytes(const struct vc_engine *engine)
{
    return engine->plan.live_bytes;
}

/* A buffer that begins before the loss (step n_forward) and ends behind it lives in between. */
uint64_t vc_engine_kept_bytes(const struct vc_engine *engine)
{
    uint64_t bytes = 0;

    for (size_t k = 0; k < engine->n_buffers; k++) {
        const struct vc_buffer *b = &engine->buffers[k];

        bytes += b->first <= engine->n_forward && b->last > engine->n_forward ? b->size_bytes : 0;
    }
    return bytes;
}

uint64_t vc_engine_constant_bytes(const struct vc_engine *engine)
{
    return engine->constant_bytes;
}

void vc_engine_feed(struct vc_engine *engine, const struct vc_run_value *feeds)
{
    engine->feeds = feeds;
}

uint64_t vc_engine_naive_bytes(const struct vc_engine *engine)
{
    return engine->naive_bytes;
}

void vc_engine_recomputed(const struct vc_engine *engine, uint64_t *again, uint64_t *forward)
{
    *again = engine->macs_again;
    *forward = engine->macs;
}

bool vc_engine_has_grad(const struct vc_engine *engine, size_t k)
{
    return engine->output_refs[2 * k + 1].kind != VC_REF_NONE;
}

/* The pointer of a ref, once memory is attached. NONE: NULL, which loops take for "not given". */
static void *resolve(const struct vc_engine *e, struct vc_ref ref, char *memory)
{
    switch (ref.kind) {
    case VC_REF_ARENA:
        return memory + e->buffers[ref.index].offset + ref.offset;
    case VC_REF_WEIGHT:
        return (char *)e->weights->items[ref.index].data + ref.offset;
    case VC_REF_GRAD:
        return (char *)e->weights->items[ref.index].grad + ref.offset;
    case VC_REF_CONSTANT:
        return (char *)e->constants + ref.offset;
    case VC_REF_FEED:
        return (char *)e->feeds[ref.index].data + ref.offset;
    default:
        return NULL;
    }
}

/* Also for further engines over the same memory: only pointers change. */
void vc_engine_attach(struct vc_engine *e, void *memory)
{
    for (size_t k = 0; k < e->n; k++) {
        for (unsigned r = 0; r < e->instructions[k].n_refs; r++) {
            e->instructions[k].call.p[r] = resolve(e, e->instructions[k].refs[r], memory);
        }
    }
    for (uint32_t n = 0; n < e->graph->n_nodes; n++) {
        e->choices[n].is_true = resolve(e, e->choices[n].condition, memory);
    }
    for (size_t k = 0; k < e->n_inputs; k++) {
        e->inputs[k].data = resolve(e, e->input_refs[2 * k], memory);
        e->inputs[k].grad = resolve(e, e->input_refs[2 * k + 1], memory);
    }
    for (size_t k = 0; k < e->n_outputs; k++) {
        e->outputs[k].data = resolve(e, e->output_refs[2 * k], memory);
        e->outputs[k].grad = resolve(e, e->output_refs[2 * k + 1], memory);
    }
}

size_t vc_engine_input_count(const struct vc_engine *engine)
{
    return engine->n_inputs;
}

const struct vc_engine_value *vc_engine_input(const struct vc_engine *engine, size_t k)
{
    return &engine->inputs[k];
}

size_t vc_engine_output_count(const struct vc_engine *engine)
{
    return engine->n_outputs;
}

const struct vc_engine_value *vc_engine_output(const struct vc_engine *engine, size_t k)
{
    return &engine->outputs[k];
}

/* ---- passes ---- */

/* Instructions [first, end) of one run. */
struct pass {
    struct vc_engine *e;
    size_t first, end; /* instructions */
    bool alone;        /* by the calling thread */
};

/* The end of the run of instructions with one block that begins at k; k + 1 if instruction k has more
 * blocks. */
static size_t end_of_single(const struct pass *pass, size_t k)
{
    size_t end = k;

    while (end < pass->end && pass->e->instructions[end].n_blocks == 1) {
        end++;
    }
    return end > k ? end : k + 1;
}

/* vc_guard_holds. */
static bool is_true(const void *user, uint32_t choice)
{
    const struct vc_engine *e = user;

    return *e->choices[choice].is_true != 0;
}

/* A program without gradients leaves out what is still to come once its call was cancelled. */
static void run_block(const struct pass *pass, size_t k, unsigned worker, size_t block)
{
    struct vc_engine *e = pass->e;
    const struct vc_instruction *in = &e->instructions[k];

    bool cancelled =
        e->options.answers != NULL && atomic_load_explicit(&e->ctx->shared->cancelled, memory_order_relaxed) != 0;

    if (!cancelled && vc_guard_holds(e->guards, in->guard, is_true, e)) {
        in->run(&in->call, &e->pass, worker, block);
    }
}

/* Blocks are taken, not given: which worker runs one does not matter to what it computes. Instructions of one block
 * that follow each other are run by the worker that takes the first one, so that no barrier is between them. */
static void run_pass(void *user, unsigned worker)
{
    const struct pass *pass = user;
    struct vc_engine *e = pass->e;

    for (size_t k = pass->first, end = k; k < pass->end; k = end) {
        const struct vc_instruction *in = &e->instructions[k];

        end = end_of_single(pass, k);
        for (;;) {
            size_t block = atomic_fetch_add_explicit(&e->next[k], 1, memory_order_relaxed);

            if (block >= in->n_blocks) {
                break;
            }
            run_block(pass, k, worker, block);
            for (size_t next = k + 1; next < end; next++) {
                run_block(pass, next, worker, 0);
            }
        }
        if (!pass->alone) {
            vc_thread_pool_barrier(e->pool);
        }
    }
}

/* Counters are set to 0 first. A range of single blocks runs on the calling thread, without waking others. */
static enum vc_status run_range(struct vc_engine *e, size_t first, size_t end)
{
    struct pass pass = {e, first, end, false};
    enum vc_status status = vc_check_cancelled(e->ctx);

    if (status == VC_OK) {
        for (size_t k = first; k < end; k++) {
            atomic_store_explicit(&e->next[k], 0, memory_order_relaxed);
        }
        pass.alone = end_of_single(&pass, first) >= end;
        if (pass.alone) {
            run_pass(&pass, 0);
        } else {
            vc_thread_pool_run(e->pool, run_pass, &pass);
        }
        status = e->options.answers != NULL ? vc_check_cancelled(e->ctx) : VC_OK;
    }
    return status;
}

/* What instructions found wrong in the data: a definition that failed, or an index out of range. The fault
 * of the first node is kept, so that the sentence does not depend on threads. */
static enum vc_status check_data(struct vc_engine *e)
{
    const struct vc_engine_fault *fault = &e->fault;

    VC_REFUSE_IF(e->define_status != VC_OK, e->ctx, e->define_status, "%s", vc_ctx_message(&e->define_ctx));
    if (fault->set) {
        const struct vc_graph_node *node = &e->graph->nodes[fault->node];

        return vc_fail(e->ctx, VC_E_ARGUMENT,
                       "%s '%s': index %lld, at place %llu, is out of range: there are %lld rows", node->op,
                       e->graph->values[node->outputs[0]].name, (long long)fault->index, (unsigned long long)fault->at,
                       (long long)fault->size);
    }
    return VC_OK;
}

/* A parameter comes in, or a value goes out. */
static enum vc_status stop(struct vc_engine *e, const struct vc_instruction *in)
{
    const struct vc_engine_answers *a = e->options.answers;
    const struct vc_plan_stop *args = in->call.args;
    struct vc_run_value value = {
        .n_dims = args->n_dims, .n = (size_t)args->n, .is_real = args->real, .data = in->call.p[0]};

    if (args->kind == VC_STOP_PARAM) {
        return a->param(a->user, e->graph->values[args->value].param, value.data);
    }
    memcpy(value.shape, args->shape, sizeof value.shape);
    return a->take(a->user, args->value, &value);
}

/* Runs instructions up to `end`, and stops where they say so (plan_answers.c). */
static enum vc_status run_stops(struct vc_engine *e, size_t end)
{
    size_t first = 0;

    for (size_t k = 0; k < end; k++) {
        if (e->instructions[k].run == NULL) {
            VC_CALL(run_range(e, first, k));
            VC_CALL(check_data(e));
            VC_CALL(stop(e, &e->instructions[k]));
            first = k + 1;
        }
    }
    return run_range(e, first, end);
}

enum vc_status vc_engine_forward(struct vc_engine *e, const struct vc_engine_pass *pass)
{
    e->pass = *pass;
    e->fault.set = false;
    e->define_status = VC_OK;
    vc_clear_error(&e->define_ctx);
    enum vc_status status = e->options.device != NULL    ? vc_check_cancelled(e->ctx)
                            : e->options.answers != NULL ? run_stops(e, e->n_forward)
                                                         : run_range(e, 0, e->n_forward);
    if (e->options.device != NULL && status == VC_OK) {
        status = vc_engine_forward_device(e);
    }
    return status != VC_OK ? status : check_data(e);
}

enum vc_status vc_engine_backward(struct vc_engine *e)
{
    if (e->options.device == NULL) {
        return run_range(e, e->n_forward, e->n);
    }
    VC_CALL(vc_check_cancelled(e->ctx));
    return vc_engine_backward_device(e);
}

unsigned vc_engine_workers(const struct vc_engine *engine)
{
    return engine->n_workers;
}

struct each {
    void (*fn)(void *user, unsigned worker, size_t block);
    void *user;
    size_t n;
    atomic_size_t next;
};

static void run_each(void *user, unsigned worker)
{
    struct each *each = user;

    for (;;) {
        size_t block = atomic_fetch_add_explicit(&each->next, 1, memory_order_relaxed);

        if (block >= each->n) {
            return;
        }
        each->fn(each->user, worker, block);
    }
}

void vc_engine_each(struct vc_engine *engine, size_t n, void (*fn)(void *user, unsigned worker, size_t block),
                    void *user)
{
    struct each each = {.fn = fn, .user = user, .n = n};

    atomic_init(&each.next, 0);
    if (n <= 1) { /* a barrier would take longer */
        run_each(&each, 0);
    } else {
        vc_thread_pool_run(engine->pool, run_each, &each);
    }
}
