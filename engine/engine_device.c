/* engine_device.c - an engine whose program runs on a device: the same instructions over the same arena, which is
 * there.
 *
 *     host: staging       inputs, outputs and their gradients; what nodes without loops read and write
 *     device: arena       all buffers, at the offsets that the plan gave them
 *             own block   constants of the graph, arrays of instructions
 *             weights     weights.h
 *
 * Inputs go to the device before a forward pass, outputs come back behind it, their gradients go there before a
 * backward pass. A node that has no loops (plan_define.c) is computed on the host: what it reads is fetched, what it
 * makes is sent. The instructions between such nodes run one by one in the first pass, and become a graph of the device in the
 * second one: a step of training then asks for few things, whatever the network has. */
#include "engine/train_program.h"

/* ---- when the program is made ---- */

/* Takes n bytes of a block that is being laid out; returns where they begin. */
static uint64_t take(uint64_t *bytes, uint64_t n)
{
    uint64_t at = *bytes;

    *bytes += VC_POOL_ALIGNED(n);
    return at;
}

/* Bytes behind a ref of an instruction that runs on the host. */
static uint64_t bytes_of(const struct vc_engine *e, struct vc_ref ref)
{
    switch (ref.kind) {
    case VC_REF_ARENA:
        return e->buffers[ref.index].size_bytes - ref.offset;
    case VC_REF_WEIGHT:
        return e->weights->items[ref.index].n * (e->weights->items[ref.index].integers ? 8 : sizeof(float)) -
               ref.offset;
    default:
        return 0;
    }
}

/* An array of 8-byte numbers that the arguments of an instruction point at. */
struct array {
    void *at; /* the pointer, in the copy for the device */
    const void *from;
    uint64_t n;
};

#define MOST_ARRAYS ((size_t)3 * VC_GRAPH_MAX_DIMS)

static size_t list_maps(const struct vc_args_mapped *from, struct vc_args_mapped *to, struct array *arrays)
{
    size_t n = 0;

    for (unsigned k = 0; k < from->n_dims; k++) {
        if (from->map[k] != NULL) {
            arrays[n++] = (struct array){&to->map[k], from->map[k], (uint64_t)from->out[k]};
        }
        if (from->back[k] != NULL) {
            uint64_t places = (uint64_t)from->back[k][from->in[k]];

            arrays[n++] = (struct array){&to->back[k], from->back[k], (uint64_t)from->in[k] + 1};
            arrays[n++] = (struct array){&to->back_list[k], from->back_list[k], places};
        }
    }
    return n;
}

static size_t list_blend(const struct vc_args_blend *from, struct vc_args_blend *to, struct array *arrays)
{
    uint64_t n = (uint64_t)from->first[from->out];

    arrays[0] = (struct array){&to->first, from->first, (uint64_t)from->out + 1};
    arrays[1] = (struct array){&to->from, from->from, n};
    arrays[2] = (struct array){&to->weight, from->weight, n};
    return 3;
}

/* Bytes of the arguments of loops whose arguments have pointers; 0 for the others. */
static size_t arrays_args(const struct vc_instruction *in)
{
    return in->loop == VC_LOOP_mapped || in->loop == VC_LOOP_mapped_backward ? sizeof(struct vc_args_mapped)
           : in->loop == VC_LOOP_blend                                       ? sizeof(struct vc_args_blend)
                                                                             : 0;
}

/* The arrays of such an instruction go to the device once, and the copy of the arguments points there. */
static size_t list_arrays(const struct vc_instruction *in, struct array arrays[MOST_ARRAYS])
{
    return arrays_args(in) == 0        ? 0
           : in->loop == VC_LOOP_blend ? list_blend(in->call.args, in->device_args, arrays)
                                       : list_maps(in->call.args, in->device_args, arrays);
}

/* Even numbers are values, odd ones gradients. */
static uint64_t *staged_output(struct vc_engine *e, size_t k)
{
    return k % 2 == 0 ? &e->outputs[k / 2].staged : &e->outputs[k / 2].staged_grad;
}

/* Value or gradient k of the outputs. What lies in one buffer of the arena does so in the staging, too: gradients that
 * are added to one of two outputs that share memory are in both. */
static void stage_output(struct vc_engine *e, size_t k)
{
    const struct vc_engine_value *v = &e->outputs[k / 2];
    struct vc_ref ref = e->output_refs[k];
    uint64_t bytes = v->n * (v->integers ? 8 : sizeof(float));

    for (size_t i = k % 2; i < k && ref.kind == VC_REF_ARENA; i += 2) {
        const struct vc_ref *other = &e->output_refs[i];

        if (other->kind == VC_REF_ARENA && other->index == ref.index) {
            *staged_output(e, k) = *staged_output(e, i) - other->offset + ref.offset;
            return;
        }
    }
    if (ref.kind == VC_REF_ARENA) {
        *staged_output(e, k) = take(&e->staging_bytes, e->buffers[ref.index].size_bytes) + ref.offset;
    } else {
        *staged_output(e, k) = take(&e->staging_bytes, ref.kind != VC_REF_NONE ? bytes : 0);
    }
}

/* Copies of what an instruction on the host reads and writes. What it does both to has one copy. */
static void stage_refs(struct vc_engine *e, struct vc_instruction *in)
{
    for (unsigned r = 0; r < in->n_refs; r++) {
        unsigned same = 0;

        while (same < r && (in->refs[r].kind == VC_REF_NONE || !vc_same_ref(in->refs[same], in->refs[r]))) {
            same++;
        }
        in->staged[r] = same < r ? in->staged[same] : take(&e->staging_bytes, bytes_of(e, in->refs[r]));
    }
}

/* Sizes of the staging memory and of the engine's own block; nothing is allocated. */
enum vc_status vc_engine_plan_device(struct vc_engine *e)
{
    struct array arrays[MOST_ARRAYS];

    e->own_bytes = e->constant_bytes;
    for (size_t k = 0; k < e->n; k++) {
        struct vc_instruction *in = &e->instructions[k];

        if (in->loop < 0) {
            stage_refs(e, in);
        }
        if (arrays_args(in) != 0) {
            in->device_args = vc_plan_args(e, arrays_args(in));
            VC_CALL(e->status);
            memcpy(in->device_args, in->call.args, arrays_args(in));
            size_t n = list_arrays(in, arrays);

            for (size_t i = 0; i < n; i++) {
                (void)take(&e->own_bytes, arrays[i].n * sizeof(int64_t));
            }
        }
        e->has_indices = e->has_indices || in->loop == VC_LOOP_gather || in->loop == VC_LOOP_rotary;
    }
    for (size_t k = 0; k < 2 * e->n_inputs; k++) {
        struct vc_engine_value *v = &e->inputs[k / 2];
        uint64_t *at = k % 2 == 0 ? &v->staged : &v->staged_grad;

        *at = take(&e->staging_bytes,
                   e->input_refs[k].kind != VC_REF_NONE ? v->n * (v->integers ? 8 : sizeof(float)) : 0);
    }
    for (size_t k = 0; k < 2 * e->n_outputs; k++) {
        stage_output(e, k);
    }
    return VC_OK;
}

/* ---- memory ---- */

/* Weights lie at the same offsets in both blocks. */
static void *on_device(const struct vc_engine *e, struct vc_ref ref)
{
    switch (ref.kind) {
    case VC_REF_ARENA:
        return (char *)e->device_arena + e->buffers[ref.index].offset + ref.offset;
    case VC_REF_WEIGHT:
        return (char *)e->weights->device_data +
               ((const char *)e->weights->items[ref.index].data - (const char *)e->weights->data_block) + ref.offset;
    case VC_REF_GRAD:
        return (char *)e->weights->device_grad +
               ((const char *)e->weights->items[ref.index].grad - (const char *)e->weights->grad_block) + ref.offset;
    case VC_REF_CONSTANT:
        return (char *)e->own + ref.offset;
    default:
        return NULL;
    }
}

/* Where an instruction that runs on the host finds what a ref is. */
static void *on_host(const struct vc_engine *e, const struct vc_instruction *in, unsigned r)
{
    switch (in->refs[r].kind) {
    case VC_REF_ARENA:
    case VC_REF_WEIGHT:
        return e->staging + in->staged[r];
    case VC_REF_CONSTANT:
        return (char *)e->constants + in->refs[r].offset;
    default:
        return NULL;
    }
}

/* Constants, and the arrays of instructions. */
static enum vc_status fill_own(struct vc_engine *e)
{
    struct vc_train_device *device = e->options.device;
    struct array arrays[MOST_ARRAYS];
    uint64_t at = 0;

    VC_CALL(vc_train_to_device(device, (char *)e->own + take(&at, e->constant_bytes), e->constants, e->constant_bytes));
    for (size_t k = 0; k < e->n; k++) {
        struct vc_instruction *in = &e->instructions[k];
        size_t n = list_arrays(in, arrays);

        for (size_t i = 0; i < n; i++) {
            char *to = (char *)e->own + take(&at, arrays[i].n * sizeof(int64_t));

            VC_CALL(vc_train_to_device(device, to, arrays[i].from, arrays[i].n * sizeof(int64_t)));
            memcpy(arrays[i].at, &to, sizeof to);
        }
    }
    return VC_OK;
}

/* Pointers or the pass are others than before. */
static void drop_graphs(struct vc_engine *e)
{
    struct vc_train_device *device = e->options.device;

    for (size_t k = 0; k < e->n; k++) {
        if (e->instructions[k].together.graph != NULL) {
            device->table->drop(device->session, e->instructions[k].together.graph);
        }
        e->instructions[k].together.graph = NULL;
        e->instructions[k].together.end = 0;
    }
}

/* The own block is filled once; further calls only set pointers. */
enum vc_status vc_engine_attach_device(struct vc_engine *e, void *staging, void *arena)
{
    drop_graphs(e);
    e->staging = staging;
    e->device_arena = arena;
    VC_CALL(vc_weights_use(e->weights, e->options.device));
    if (e->own == NULL && e->own_bytes != 0) {
        VC_CALL(vc_train_alloc(e->options.device, e->own_bytes, &e->own));
        VC_CALL(fill_own(e));
    }
    for (size_t k = 0; k < e->n; k++) {
        struct vc_instruction *in = &e->instructions[k];

        for (unsigned r = 0; r < in->n_refs; r++) {
            in->call.p[r] = in->loop < 0 ? on_host(e, in, r) : on_device(e, in->refs[r]);
        }
    }
    for (size_t k = 0; k < e->n_inputs + e->n_outputs; k++) {
        bool is_input = k < e->n_inputs;
        struct vc_engine_value *v = is_input ? &e->inputs[k] : &e->outputs[k - e->n_inputs];
        const struct vc_ref *refs = is_input ? &e->input_refs[2 * k] : &e->output_refs[2 * (k - e->n_inputs)];

        v->device_data = on_device(e, refs[0]);
        v->device_grad = on_device(e, refs[1]);
        v->data = v->device_data != NULL ? e->staging + v->staged : NULL;
        v->grad = v->device_grad != NULL ? e->staging + v->staged_grad : NULL;
    }
    return VC_OK;
}

/* Frees the engine's own block; arena and weights belong to others. */
void vc_engine_detach_device(struct vc_engine *e)
{
    if (e->options.device != NULL) {
        drop_graphs(e);
    }
    if (e->own != NULL) {
        vc_train_free(e->options.device, e->own, e->own_bytes);
    }
    e->own = NULL;
}

/* What an engine takes beside its arena; 0 without a device. */
uint64_t vc_engine_host_bytes(const struct vc_engine *engine)
{
    return engine->options.device != NULL ? engine->staging_bytes : 0;
}

uint64_t vc_engine_own_bytes(const struct vc_engine *engine)
{
    return engine->options.device != NULL ? vc_train_block_bytes(engine->own_bytes) : 0;
}

/* ---- passes ---- */

/* Where the host has the elements of an input of the forward pass, which nothing writes over; NULL: it has not. */
static const void *fed_here(const struct vc_engine *e, struct vc_ref ref)
{
    for (size_t k = 0; e->fed && k < e->n_inputs; k++) {
        if (vc_same_ref(e->input_refs[2 * k], ref)) {
            return e->inputs[k].data;
        }
    }
    return NULL;
}

/* A node without loops: its definition, on copies. What depends on inputs alone, as masks do, does not wait for the device. */
static enum vc_status run_on_host(struct vc_engine *e, const struct vc_instruction *in)
{
    unsigned n_read = in->n_refs - in->n_written;

    for (unsigned r = 0; r < in->n_refs; r++) {
        uint64_t bytes = bytes_of(e, in->refs[r]);

        if (r == n_read) {
            in->run(&in->call, &e->pass, 0, 0);
        }
        if (bytes != 0 && r < n_read && fed_here(e, in->refs[r]) != NULL) {
            memcpy(in->call.p[r], fed_here(e, in->refs[r]), (size_t)bytes);
        } else if (bytes != 0 && r < n_read) {
            VC_CALL(vc_train_to_host(e->options.device, in->call.p[r], on_device(e, in->refs[r]), bytes));
        } else if (bytes != 0) {
            VC_CALL(vc_train_to_device(e->options.device, on_device(e, in->refs[r]), in->call.p[r], bytes));
        }
    }
    return VC_OK;
}

/* The first index that is out of range, as the device has noted it. */
static enum vc_status find_fault(struct vc_engine *e)
{
    struct vc_train_device *device = e->options.device;
    struct vc_train_fault found;

    if (!e->has_indices) {
        return VC_OK;
    }
    VC_CALL(vc_train_result(device, device->table->fault(device->session, &found)));
    for (size_t k = 0; found.set && k < e->n_forward; k++) {
        const struct vc_instruction *in = &e->instructions[k];
        bool rotary = in->loop == VC_LOOP_rotary;
        const int64_t *indices = in->call.p[rotary ? 3 : 1];

        if (in->node != found.node || (!rotary && in->loop != VC_LOOP_gather)) {
            continue;
        }
        e->fault.set = true;
        e->fault.node = found.node;
        e->fault.at = found.at;
        e->fault.index = (int64_t)found.at;
        e->fault.size = rotary ? (int64_t)((const struct vc_args_rotary *)in->call.args)->rows
                               : (int64_t)((const struct vc_args_gather *)in->call.args)->size;
        if (indices != NULL) {
            VC_CALL(vc_train_to_host(device, &e->fault.index, indices + found.at, sizeof e->fault.index));
        }
        break;
    }
    return VC_OK;
}

/* Asks for instructions that all have kernels, one by one; a code of the table. */
static int ask_each(struct vc_engine *e, size_t first, size_t end)
{
    const struct vc_train_backend *table = e->options.device->table;
    int result = 0;

    for (size_t k = first; k < end && result == 0; k++) {
        const struct vc_instruction *in = &e->instructions[k];
        const struct vc_train_work work = {in->device_loop, &in->call, in->device_args, &e->pass};

        result = table->run(e->options.device->session, &work);
    }
    return result;
}

/* The same as a graph; NULL if there is none, and the device makes no more. */
static void *capture(struct vc_engine *e, size_t first, size_t end)
{
    struct vc_train_device *device = e->options.device;
    void *graph = NULL;
    int result = device->table->begin_capture(device->session);

    if (result == 0) {
        result = ask_each(e, first, end);
        int ended = device->table->end_capture(device->session, &graph);

        result = result == 0 ? ended : result;
    }
    if (result != 0) {
        if (graph != NULL) {
            device->table->drop(device->session, graph);
        }
        vc_train_no_graphs(device, result);
        return NULL;
    }
    return graph;
}

/* Whether the numbers of the step matter to one of them. */
static bool reads_step(const struct vc_engine *e, size_t first, size_t end)
{
    for (size_t k = first; k < end; k++) {
        if (e->instructions[k].loop == VC_LOOP_dropout) {
            return true;
        }
    }
    return false;
}

/* Kernels and libraries are ready behind a first run, so the second one is captured. */
static enum vc_status run_together(struct vc_engine *e, size_t first, size_t end)
{
    struct vc_train_device *device = e->options.device;
    struct vc_instruction *in = &e->instructions[first];

    if (!device->graphs || end - first < 2) {
        return vc_train_result(device, ask_each(e, first, end));
    }
    if (in->together.graph == NULL && in->together.end == end) {
        in->together.graph = capture(e, first, end);
    }
    if (in->together.graph != NULL && in->together.end == end) {
        return vc_train_result(device, device->table->launch(device->session, in->together.graph,
                                                             reads_step(e, first, end) ? &e->pass : NULL));
    }
    in->together.end = in->together.graph == NULL ? end : in->together.end;
    return vc_train_result(device, ask_each(e, first, end));
}

/* Instructions are queued in order; only those without a kernel wait for results. */
enum vc_status vc_engine_run_device(struct vc_engine *e, size_t first, size_t end)
{
    bool same = e->captured.training == e->pass.training && !(e->captured.norm_share < e->pass.norm_share) &&
                !(e->captured.norm_share > e->pass.norm_share);

    if (!same) {
        drop_graphs(e);
        e->captured = e->pass;
    }
    for (size_t k = first, next; k < end; k = next) {
        for (next = k; next < end && e->instructions[next].loop >= 0; next++) {
        }
        if (next == k) {
            VC_CALL(run_on_host(e, &e->instructions[next++]));
        } else {
            VC_CALL(run_together(e, k, next));
        }
    }
    return VC_OK;
}

/* Weights are sent if they changed on the host. */
enum vc_status vc_engine_forward_device(struct vc_engine *e)
{
    struct vc_train_device *device = e->options.device;

    VC_CALL(vc_weights_to_device(e->weights));
    for (size_t k = 0; k < e->n_inputs; k++) {
        const struct vc_engine_value *v = &e->inputs[k];

        if (v->data != NULL) {
            VC_CALL(vc_train_to_device(device, v->device_data, v->data, v->n * (v->integers ? 8 : sizeof(float))));
        }
    }
    e->fed = true;
    VC_CALL(vc_engine_run_device(e, 0, e->n_forward));
    e->fed = false;
    if (e->pass.training) { /* running statistics */
        e->weights->newer_on_device = true;
    }
    if (!e->faults_later) {
        VC_CALL(find_fault(e));
    }
    for (size_t k = 0; !e->outputs_stay && k < e->n_outputs; k++) {
        VC_CALL(vc_engine_fetch(e, k));
    }
    return VC_OK;
}

/* Brings one output to the host, for callers that let outputs stay on the device. */
enum vc_status vc_engine_fetch(struct vc_engine *e, size_t output)
{
    const struct vc_engine_value *v = &e->outputs[output];

    return e->options.device == NULL
               ? VC_OK
               : vc_train_to_host(e->options.device, v->data, v->device_data, v->n * (v->integers ? 8 : sizeof(float)));
}

/* Gradients of outputs go there unless the loss was computed there (outputs_stay); gradients of inputs come
 * back. */
enum vc_status vc_engine_backward_device(struct vc_engine *e)
{
    struct vc_train_device *device = e->options.device;

    for (size_t k = 0; !e->outputs_stay && k < e->n_outputs; k++) {
        const struct vc_engine_value *v = &e->outputs[k];

        if (v->grad != NULL) {
            VC_CALL(vc_train_to_device(device, v->device_grad, v->grad, v->n * sizeof(float)));
        }
    }
    VC_CALL(vc_engine_run_device(e, e->n_forward, e->n));
    e->weights->grads_on_device = true;
    for (size_t k = 0; k < e->n_inputs; k++) {
        const struct vc_engine_value *v = &e->inputs[k];

        if (v->grad != NULL) {
            VC_CALL(vc_train_to_host(device, v->grad, v->device_grad, v->n * sizeof(float)));
        }
    }
    return VC_OK;
}

void vc_engine_keep_outputs(struct vc_engine *engine, bool stay)
{
    engine->outputs_stay = stay && engine->options.device != NULL;
}

void vc_engine_ask_faults_later(struct vc_engine *engine, bool later)
{
    engine->faults_later = later && engine->options.device != NULL;
}
