/* plan_values.c - what operators ask while a program is made: shapes, attributes, memory, gradients,
 * instructions. The lowest of the plan_*.c: it knows no operator.
 *
 *     ref = vc_plan_reals(e, n)          a buffer without a place, alive while instructions refer to it
 *     vc_plan_emit(..., refs, n_refs)    one instruction; touches the buffers of its refs
 *     vc_plan_pack(e)                    places for all buffers: buffers whose lives do not meet share memory
 */

#include "core/base/array.h"
#include "core/base/checked.h"
#include "engine/train_program.h"
#include "graph/lazy.h"

/* Only the first problem is kept; the others are counted, so that making goes on to the end of the forward
 * pass. */
void vc_plan_fail(struct vc_engine *e, uint32_t node, const char *format, ...)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    char text[VC_MESSAGE_BYTES];
    va_list args;

    if (e->n_problems++ != 0) {
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    e->problem = vc_arena_printf(e->ctx, &e->arena, "%s '%s': %s", n->op,
                                 n->name[0] != '\0' ? n->name : e->graph->values[n->outputs[0]].name, text);
    if (e->problem == NULL) {
        e->status = VC_E_NOMEM;
    }
}

struct vc_plan_value *vc_plan_in(const struct vc_engine *e, uint32_t node, unsigned k)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);

    return k >= n->n_inputs || n->inputs[k] == VC_NO_VALUE ? NULL : &e->values[n->inputs[k]];
}

struct vc_plan_value *vc_plan_out(const struct vc_engine *e, uint32_t node, unsigned k)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);

    return k >= n->n_outputs || n->outputs[k] == VC_NO_VALUE ? NULL : &e->values[n->outputs[k]];
}

bool vc_plan_trained(const struct vc_engine *e, uint32_t node, unsigned k)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, k);

    return x != NULL && x->trained;
}

/* The product of the sizes from dimension `first` to before `end`. */
uint64_t vc_plan_count(const struct vc_plan_value *x, unsigned first, unsigned end)
{
    uint64_t n = 1;

    for (unsigned k = first; k < end; k++) {
        n *= (uint64_t)x->shape[k];
    }
    return n;
}

/* ---- outputs and numbers ---- */

/* Operators with more outputs than their loops make. */
bool vc_plan_one_output(struct vc_engine *e, uint32_t node)
{
    for (unsigned k = 1; k < vc_plan_node(e, node)->n_outputs; k++) {
        if (vc_plan_out(e, node, k) != NULL && vc_plan_out(e, node, k)->made) {
            vc_plan_fail(e, node, "its output %u is read, which is not supported", k);
            return false;
        }
    }
    return true;
}

unsigned vc_plan_axis(int64_t axis, unsigned n_dims)
{
    return (unsigned)(axis < 0 ? axis + (int64_t)n_dims : axis);
}

bool vc_plan_ints(const struct vc_engine *e, uint32_t node, unsigned k, int64_t *ints, size_t capacity, size_t *n)
{
    const struct vc_graph_node *is = vc_plan_node(e, node);
    uint32_t v = k < is->n_inputs ? is->inputs[k] : VC_NO_VALUE;

    *n = 0;
    return v == VC_NO_VALUE || vc_graph_ints(e->graph, v, ints, capacity, n);
}

/* Floats and integers as double. */
bool vc_plan_number(const struct vc_engine *e, uint32_t node, unsigned k, double otherwise, double *number)
{
    const struct vc_graph_node *is = vc_plan_node(e, node);

    *number = otherwise;
    if (k >= is->n_inputs || is->inputs[k] == VC_NO_VALUE) {
        return true;
    }
    const struct vc_graph_value *value = &e->graph->values[is->inputs[k]];
    if (value->kind != VC_VALUE_CONSTANT || vc_graph_elements(e->graph, is->inputs[k]) != 1) {
        return false;
    }
    *number = value->dtype == VC_DTYPE_F32 ? *(const double *)value->data : (double)*(const int64_t *)value->data;
    return true;
}

/* ---- memory ---- */

/* first UINT64_MAX: no instruction refers to it yet. After a failure refs are NONE and instructions are not
 * added. */
struct vc_ref vc_plan_buffer(struct vc_engine *e, uint64_t n, size_t element_bytes)
{
    struct vc_ref ref = {.kind = VC_REF_ARENA, .index = (uint32_t)e->n_buffers};
    uint64_t bytes;

    if (e->status != VC_OK) {
        return (struct vc_ref){0};
    }
    if (!vc_mul_u64(n, element_bytes, &bytes) || bytes > (uint64_t)1 << 60) {
        e->status = vc_fail(e->ctx, VC_E_FORMAT, "the sizes of values overflow");
        return (struct vc_ref){0};
    }
    e->status = VC_GROW(e->ctx, VC_TAG_MISC, e->buffers, e->buffer_capacity, e->n_buffers + 1);
    if (e->status != VC_OK) {
        return (struct vc_ref){0};
    }
    e->buffers[e->n_buffers++] = (struct vc_buffer){.size_bytes = bytes, .first = UINT64_MAX};
    return ref;
}

struct vc_ref vc_plan_reals(struct vc_engine *e, uint64_t n)
{
    return vc_plan_buffer(e, n, vc_real_bytes(e->weights->precision));
}

/* n reals for each worker: a loop uses the part of its own worker. */
struct vc_ref vc_plan_scratch(struct vc_engine *e, uint64_t n)
{
    uint64_t all;

    if (!vc_mul_u64(n, e->n_workers, &all)) {
        all = UINT64_MAX;
    }
    return vc_plan_reals(e, all);
}

/* Buffers that no instruction refers to take no room. naive_bytes: what they would take side by side. */
enum vc_status vc_plan_pack(struct vc_engine *e)
{
    e->naive_bytes = 0;
    for (size_t k = 0; k < e->n_buffers; k++) {
        struct vc_buffer *b = &e->buffers[k];

        if (b->first == UINT64_MAX) { /* nobody refers to it */
            *b = (struct vc_buffer){.size_bytes = 0};
        }
        e->naive_bytes += VC_POOL_ALIGNED(b->size_bytes);
    }
    return vc_buffers_pack(e->ctx, e->buffers, e->n_buffers, VC_POOL_ALIGN, &e->plan);
}

/* True if y may take the memory of input k: the node is the last reader, nothing else holds, keeps or saves
 * the elements, and the sizes are equal. */
static bool may_go_over(const struct vc_engine *e, uint32_t node, unsigned k, const struct vc_plan_value *y)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, k);
    const struct vc_plan_value *root = x != NULL ? &e->values[x->root] : NULL;

    return root != NULL && root->data.kind == VC_REF_ARENA && !root->held && !root->kept &&
           !(e->repeats && root->saved) && root->last_use == node && root->n == y->n && root->real == y->real;
}

/* over: an activation overwrites its input, and the arena has one large value less at the peak. */
struct vc_ref vc_plan_make(struct vc_engine *e, uint32_t node, unsigned k, bool over)
{
    struct vc_plan_value *y = vc_plan_out(e, node, k);

    if (y == NULL) {
        return (struct vc_ref){0};
    }
    if (over && may_go_over(e, node, 0, y)) {
        y->data = e->values[vc_plan_in(e, node, 0)->root].data;
        return y->data;
    }
    y->data = y->real ? vc_plan_reals(e, y->n) : vc_plan_buffer(e, y->n, sizeof(int64_t));
    return y->data;
}

/* The second input's memory only where a plan of training would not have told otherwise. */
struct vc_ref vc_plan_make_pair(struct vc_engine *e, uint32_t node)
{
    struct vc_plan_value *y = vc_plan_out(e, node, 0);

    if (!e->options.train && e->options.device == NULL && !may_go_over(e, node, 0, y) && may_go_over(e, node, 1, y)) {
        y->data = e->values[vc_plan_in(e, node, 1)->root].data;
        return y->data;
    }
    return vc_plan_make(e, node, 0, true);
}

struct vc_ref vc_plan_grad(const struct vc_engine *e, uint32_t node, unsigned k)
{
    const struct vc_plan_value *y = vc_plan_out(e, node, k);

    return y != NULL && e->values[y->root].has_grad ? e->values[y->root].grad : (struct vc_ref){0};
}

/* ---- instructions ---- */

/* Arguments live as long as the program; all zeros at first. */
void *vc_plan_args(struct vc_engine *e, size_t bytes)
{
    void *args = e->status == VC_OK ? vc_arena_alloc(e->ctx, &e->arena, bytes) : NULL;

    if (args == NULL) {
        e->status = VC_E_NOMEM;
        return NULL;
    }
    memset(args, 0, bytes);
    return args;
}

/* Extends the life of the buffer to the step. */
void vc_plan_touch(struct vc_engine *e, struct vc_ref ref, uint64_t step)
{
    if (ref.kind == VC_REF_ARENA) {
        struct vc_buffer *buffer = &e->buffers[ref.index];

        buffer->first = step < buffer->first ? step : buffer->first;
        buffer->last = step > buffer->last ? step : buffer->last;
    }
}

/* The guards that hold for the instruction: those whose conditions are there, which live until now. */
static void guard(struct vc_engine *e, struct vc_instruction *in)
{
    for (uint32_t g = in->guard; g != 0; g = e->guards[vc_guard_choice(g)]) {
        uint32_t choice = vc_guard_choice(g);
        struct vc_ref *condition = &e->choices[choice].condition;

        *condition = e->values[vc_plan_in(e, choice, 0)->root].data;
        in->guard = condition->kind == VC_REF_NONE ? e->guards[choice] : in->guard;
        vc_plan_touch(e, *condition, vc_plan_step(e, e->n - 1));
    }
}

/* Adds an instruction; each of its buffers lives from now on, or until now. */
void vc_plan_add(struct vc_engine *e, const struct vc_instruction *instruction, const struct vc_ref *refs)
{
    if (e->status == VC_OK && instruction->call.args != NULL) {
        e->status = VC_GROW(e->ctx, VC_TAG_MISC, e->instructions, e->capacity, e->n + 1);
    }
    if (e->status != VC_OK || instruction->call.args == NULL) {
        return;
    }
    struct vc_instruction *in = &e->instructions[e->n++];
    *in = *instruction;
    in->guard = in->guard != 0 ? in->guard : e->guard;
    guard(e, in);
    for (unsigned k = 0; k < in->n_refs; k++) {
        in->refs[k] = refs[k];
        vc_plan_touch(e, refs[k], vc_plan_step(e, e->n - 1));
    }
}

/* A device looks the loop up by name: a plug-in that is older than the program may lack one. */
void vc_plan_emit(struct vc_engine *e, uint32_t node, enum vc_train_loop_id loop, size_t n_blocks, const void *args,
                  bool add, const struct vc_ref *refs, unsigned n_refs)
{
    static const char *const names[] = {
#define LOOP(id, part) #id,
#include "engine/train_loops.inc"
#undef LOOP
    };
    struct vc_train_device *device = e->options.device;
    int found = device != NULL ? device->table->find(names[loop]) : 0;

    if (found < 0) {
        vc_plan_fail(e, node, "the plug-in for the device has no instruction '%s'", names[loop]);
        return;
    }
    vc_plan_add(e,
                &(struct vc_instruction){.run = e->loops[loop],
                                         .loop = (int)loop,
                                         .node = node,
                                         .n_blocks = n_blocks,
                                         .call = {.args = args, .add = add},
                                         .n_refs = n_refs,
                                         .device_loop = found},
                refs);
}

/* An instruction that is a function of the host, such as a definition of graph/. */
void vc_plan_emit_run(struct vc_engine *e, uint32_t node, vc_train_loop run, const void *args,
                      const struct vc_ref *refs, unsigned n_refs, unsigned n_written)
{
    vc_plan_add(e,
                &(struct vc_instruction){.run = run,
                                         .loop = -1,
                                         .node = node,
                                         .n_blocks = 1,
                                         .call = {.args = args},
                                         .n_refs = n_refs,
                                         .n_written = n_written},
                refs);
}

void vc_plan_fill(struct vc_engine *e, uint32_t node, struct vc_ref ref, uint64_t n, double number)
{
    struct vc_args_unary *args = vc_plan_args(e, sizeof *args);

    if (args != NULL) {
        *args = (struct vc_args_unary){.n = n, .a = number};
        vc_plan_emit(e, node, VC_LOOP_fill, vc_plan_blocks(n, VC_ELEMENTS_PER_BLOCK), args, false, &ref, 1);
    }
}

bool vc_same_ref(struct vc_ref a, struct vc_ref b)
{
    return a.kind == b.kind && a.index == b.index && a.offset == b.offset;
}

/* Two instructions become one (a bias in a product, Relu in a convolution) only in programs without
 * training and without a device, whose dry plans must not depend on it. */
struct vc_instruction *vc_plan_maker(const struct vc_engine *e, enum vc_train_loop_id loop, unsigned made,
                                     struct vc_ref ref)
{
    struct vc_instruction *last = e->n != 0 ? &e->instructions[e->n - 1] : NULL;

    return last != NULL && !e->options.train && e->options.device == NULL && last->loop == (int)loop &&
                   !last->call.add && vc_same_ref(last->refs[made], ref)
               ? last
               : NULL;
}

void vc_plan_add_ref(struct vc_engine *e, struct vc_instruction *instruction, unsigned k, struct vc_ref ref)
{
    instruction->refs[k] = ref;
    instruction->n_refs = k + 1;
    vc_plan_touch(e, ref, vc_plan_step(e, (size_t)(instruction - e->instructions)));
}

/* ---- walks with strides ---- */

/* Joins neighbouring dimensions that are walked as one in all four arrays: [64, 28, 28] in C order is one
 * of 50,176. Dimensions of size 1 are left out. Returns how many remain. */
static unsigned join(unsigned n, int64_t *size, int64_t step[4][VC_GRAPH_MAX_DIMS])
{
    unsigned to = 0;

    for (unsigned k = 0; k < n; k++) {
        bool joins = to > 0;

        if (size[k] == 1) {
            continue;
        }
        for (unsigned v = 0; joins && v < 4; v++) {
            joins = step[v][to - 1] == step[v][k] * size[k];
        }
        to += !joins;
        size[to - 1] = joins ? size[to - 1] * size[k] : size[k];
        for (unsigned v = 0; v < 4; v++) {
            step[v][to - 1] = step[v][k];
        }
    }
    return to;
}

/* The general instruction for everything that moves, broadcasts or sums: out[kept] (+)= scale * sum over
 * reduced of f(a, b, c). Arrays that are not given get a's steps, so that no loop has to ask. */
void vc_plan_strided(struct vc_engine *e, uint32_t node, const struct vc_strided *s, bool add)
{
    struct vc_args_strided *args = vc_plan_args(e, sizeof *args);
    uint64_t terms = 1;

    if (args == NULL) {
        return;
    }
    args->kind = s->kind;
    args->scale = s->scale;
    args->n = 1;
    for (unsigned k = 0; k < s->n_dims; k++) {
        unsigned at = s->reduced[k] ? args->n_reduced++ : args->n_kept++;

        (s->reduced[k] ? args->reduced : args->kept)[at] = s->shape[k];
        for (unsigned v = 0; v < 4; v++) { /* arrays that are not there go along with a */
            int64_t step = s->step[v != 0 && s->refs[v].kind == VC_REF_NONE ? 1 : v][k];

            (s->reduced[k] ? args->reduced_step : args->kept_step)[v][at] = step;
        }
        args->n *= s->reduced[k] ? 1 : (uint64_t)s->shape[k];
        terms *= s->reduced[k] ? (uint64_t)s->shape[k] : 1;
    }
    memcpy(args->base, s->base, sizeof args->base);
    args->n_kept = join(args->n_kept, args->kept, args->kept_step);
    args->n_reduced = join(args->n_reduced, args->reduced, args->reduced_step);
    if (args->n_kept == 0) {
        args->n_kept = 1;
        args->kept[0] = 1;
        for (unsigned v = 0; v < 4; v++) {
            args->kept_step[v][0] = 0;
        }
    }
    args->per_block = terms >= VC_ELEMENTS_PER_BLOCK ? 1 : VC_ELEMENTS_PER_BLOCK / terms;
    if (args->n_reduced != 0 && args->kept_step[1][args->n_kept - 1] == 1 && args->per_block < 64) {
        args->per_block = 64; /* columns are read side by side */
    }
    vc_plan_emit(e, node, VC_LOOP_strided_sum, vc_plan_blocks(args->n, args->per_block), args, add, s->refs, 4);
}

/* Broadcast dimensions have step 0. */
void vc_plan_steps(const struct vc_plan_value *x, unsigned n_dims, int64_t *step)
{
    int64_t all = 1;

    for (unsigned k = 0; k < n_dims; k++) {
        step[k] = 0;
    }
    for (unsigned k = x->n_dims; k-- > 0;) {
        step[n_dims - x->n_dims + k] = x->shape[k] == 1 ? 0 : all;
        all *= x->shape[k];
    }
}
