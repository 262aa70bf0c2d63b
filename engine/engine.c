/* engine.c - see engine.h: making the program of a graph.
 *
 *     check_sizes, lift    shapes hold for the bound sizes; places that nothing reads are left out
 *     find_readers, find_known, find_needed, find_trained     what is computed at all, and which gradients
 *     check_nodes      operators without loops
 *     find_uses, hold_values, divide, find_kept               lifetimes, recomputation
 *     load_constants, make_inputs, add_forward, make_outputs, add_backward
 *     vc_plan_narrow   16-bit values if asked for; packs the arena
 *
 * The order is forced: each stage reads what the ones before it set in e->values.
 *
 * The program is a list of instructions over buffers. A buffer has a first and a last step, and buffers
 * whose steps do not overlap share memory. Steps are instructions with the loss in between:
 *
 *     forward 0 .. n_forward - 1      loss: step n_forward      backward n_forward + 1 ..
 *
 *     relu's y: first 3 (made), last 9 (the gradient of relu reads it)      kept across the loss
 *     conv1's unrolled windows: first 1, last 1                             its memory is free again at step 2
 *
 * Failures are of two kinds: e->status (no memory, a size), which ends everything at once, and problems
 * (vc_plan_fail), which are collected for all nodes, so that a user sees every operator that cannot be
 * trained. */

#include "core/base/checked.h"
#include "engine/train_program.h"
#include "graph/lazy.h"
#include "graph/ops/run.h"
#include "graph/parts.h"
#include "graph/sizes.h"

/* ---- what is needed ---- */

/* last_reader of each value: searches for its readers stop there.
 * Nodes are walked in order, so that the last one stays. */
static void find_readers(struct vc_engine *e)
{
    for (uint32_t n = 0; n < e->graph->n_nodes; n++) {
        const struct vc_graph_node *node = &e->graph->nodes[n];

        for (unsigned k = 0; k < node->n_inputs; k++) {
            if (node->inputs[k] != VC_NO_VALUE) {
                e->values[node->inputs[k]].last_reader = n;
            }
        }
    }
}

/* Nodes whose results are read, last first. `made` marks values that somebody reads. Integers that are
 * known when the program is made are not computed, and inputs that an operator reads only as shapes
 * (row->reads) need nobody to make them.
 * One walk from the last node to the first is enough, since a node reads only what earlier ones make. */
static enum vc_status find_needed(struct vc_engine *e)
{
    const struct vc_graph *g = e->graph;

    for (uint32_t v = 0; v < g->n_values; v++) {
        e->values[v].made = e->wanted[v];
    }
    if (e->options.answers != NULL && e->options.answers->every) { /* no node may be left out */
        VC_CALL(VC_ZEROS(e->ctx, VC_TAG_MISC, e->guards, g->n_nodes + (size_t)1));
    } else {
        VC_CALL(vc_graph_find_guards(e->ctx, g, e->wanted, &e->guards));
    }
    for (uint32_t n = g->n_nodes; n-- > 0;) {
        const struct vc_graph_node *node = &g->nodes[n];

        for (unsigned k = 0; k < node->n_outputs; k++) {
            const struct vc_plan_value *y = vc_plan_out(e, n, k);

            e->needed[n] = e->needed[n] || (y != NULL && y->made && !y->known && !y->fed);
        }
        for (unsigned k = 0; e->needed[n] && k < node->n_inputs; k++) {
            bool read = node->row == NULL || vc_plan_makes_integers(e, n) || vc_plan_asks_definition(e, n) ||
                        (node->row->reads >> (k < 31 ? k : 31) & 1) != 0;

            read = read && (k != 1 || !vc_plan_is_swish(e, n));
            if (read && node->inputs[k] != VC_NO_VALUE) {
                e->values[node->inputs[k]].made = true;
            }
        }
    }
    return VC_OK;
}

/* A value with more elements is no tensor of this world, but a mistake in a size: 2^48 f32 elements are a pebibyte. */
#define MOST_ELEMENTS ((uint64_t)1 << 48)

/* The shape in numbers. A size below 1 is refused here: no loop expects empty arrays.
 * Values that nobody makes have sizes, too, and are not tested. */
static void size_value(struct vc_engine *e, uint32_t v)
{
    const struct vc_graph_value *value = &e->graph->values[v];
    struct vc_plan_value *x = &e->values[v];
    char text[64];

    x->real = value->dtype == VC_DTYPE_F32;
    x->n_dims = value->n_dims;
    x->n = 1;
    for (unsigned k = 0; k < value->n_dims; k++) {
        x->shape[k] = vc_dim_value(&e->graph->dims, value->shape[k]);
        if (!x->made || e->status != VC_OK) {
            continue;
        }
        if (x->shape[k] < 1) {
            e->status = vc_fail(e->ctx, VC_E_ARGUMENT, "the value '%s' has %lld elements in dimension %u, which is %s",
                                value->name, (long long)x->shape[k], k,
                                vc_dim_text(&e->graph->dims, value->shape[k], text, sizeof text));
        } else if (!vc_mul_u64(x->n, (uint64_t)x->shape[k], &x->n) || x->n > MOST_ELEMENTS) {
            e->status = vc_fail(e->ctx, VC_E_ARGUMENT, "the value '%s' has more than 2^48 elements", value->name);
        }
    }
}

/* Gradients are needed of weights that are trained (and of inputs, if asked for), and of everything
 * computed from them.
 * A node's outputs are trained if one of the inputs that it reads is; integers never are. */
static void find_trained(struct vc_engine *e)
{
    const struct vc_graph *g = e->graph;

    for (uint32_t p = 0; e->options.train && p < g->n_params; p++) {
        e->values[g->params[p].value].trained = e->weights->items[e->weights->of_param[p]].trained;
    }
    for (uint32_t k = 0; e->options.train && e->options.input_grads && k < g->n_inputs; k++) {
        e->values[g->inputs[k]].trained = e->values[g->inputs[k]].made && e->values[g->inputs[k]].real;
    }
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const struct vc_graph_node *node = &g->nodes[n];
        bool trained = false;

        for (unsigned k = 0; e->needed[n] && k < node->n_inputs; k++) {
            trained = trained || (node->inputs[k] != VC_NO_VALUE && e->values[node->inputs[k]].made &&
                                  e->values[node->inputs[k]].trained);
        }
        for (unsigned k = 0; k < node->n_outputs; k++) {
            if (node->outputs[k] != VC_NO_VALUE) {
                e->values[node->outputs[k]].trained = trained && e->values[node->outputs[k]].real;
            }
        }
    }
}

/* root, last_use and saved of each value by graph/liveness.c, with the policy of plan_again.c. */
static enum vc_status find_uses(struct vc_engine *e)
{
    size_t n = e->graph->n_values + (size_t)1;
    struct vc_liveness_policy policy = vc_plan_policy(e);
    struct vc_liveness found = {.root = vc_alloc_array(e->ctx, VC_TAG_MISC, n, sizeof *found.root),
                                .last_use = vc_alloc_array(e->ctx, VC_TAG_MISC, n, sizeof *found.last_use),
                                .saved = vc_alloc_array(e->ctx, VC_TAG_MISC, n, sizeof *found.saved)};
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(found.root);
    VC_TRY_ALLOC(found.last_use);
    VC_TRY_ALLOC(found.saved);
    vc_liveness_find(e->graph, &policy, &found);
    for (uint32_t v = 0; v < e->graph->n_values; v++) {
        e->values[v].root = found.root[v];
        e->values[v].last_use = found.last_use[v];
        e->values[v].saved = found.saved[v];
    }
out:
    vc_free(e->ctx, found.root);
    vc_free(e->ctx, found.last_use);
    vc_free(e->ctx, found.saved);
    return status;
}

/* ---- inputs, constants, outputs ---- */

/* One block with the elements of all constants and known values, each at a multiple of VC_POOL_ALIGN; the
 * graph has floats as double. */
static enum vc_status load_constants(struct vc_engine *e)
{
    const struct vc_graph *g = e->graph;
    bool f64 = e->weights->precision == VC_GRAPH_F64;
    uint64_t bytes = 0;

    for (uint32_t v = 0; v < g->n_values; v++) {
        if (e->values[v].known && e->values[v].made) {
            e->values[v].data = (struct vc_ref){.kind = VC_REF_CONSTANT, .offset = bytes};
            bytes += VC_POOL_ALIGNED(e->values[v].n * 8);
        }
    }
    e->constant_bytes = bytes;
    VC_CALL_ALLOC(e->constants = vc_alloc(e->ctx, VC_TAG_TILES, (size_t)bytes));
    for (uint32_t v = 0; v < g->n_values; v++) {
        void *to = (char *)e->constants + e->values[v].data.offset;

        if (e->values[v].data.kind != VC_REF_CONSTANT || g->values[v].kind != VC_VALUE_CONSTANT) {
            continue;
        }
        if (e->values[v].real && !f64) {
            for (uint64_t i = 0; i < e->values[v].n; i++) {
                ((float *)to)[i] = (float)((const double *)g->values[v].data)[i];
            }
        } else {
            memcpy(to, g->values[v].data, (size_t)e->values[v].n * 8);
        }
    }
    return vc_plan_compute_known(e);
}

/* held: nobody may write over the elements. Inputs, weights, constants, outputs, what the loss reads, and
 * what plain loops make. */
static void hold_values(struct vc_engine *e)
{
    const struct vc_graph *g = e->graph;

    for (uint32_t v = 0; v < g->n_values; v++) {
        e->values[v].held = g->values[v].kind != VC_VALUE_RESULT || e->values[v].known || e->values[v].fed;
    }
    for (uint32_t v = 0; v < g->n_values; v++) {
        e->values[e->values[v].root].held |= e->wanted[v];
    }
    for (uint32_t n = 0; n < g->n_nodes; n++) { /* masks and the like are small, and are not computed again */
        for (unsigned k = 0; e->needed[n] && vc_plan_is_defined(e, n) && k < g->nodes[n].n_outputs; k++) {
            if (g->nodes[n].outputs[k] != VC_NO_VALUE) {
                e->values[g->nodes[n].outputs[k]].held = true;
            }
        }
    }
}

/* What the caller sees of an input or an output. */
static struct vc_engine_value describe(const struct vc_engine *e, uint32_t v)
{
    const struct vc_plan_value *x = &e->values[v];
    struct vc_engine_value out = {.value = v, .n_dims = x->n_dims, .n = x->n, .integers = !x->real};

    memcpy(out.shape, x->shape, sizeof out.shape);
    return out;
}

/* Inputs get buffers that live from step 0; inputs that nothing reads have no memory and data NULL. */
static enum vc_status make_inputs(struct vc_engine *e)
{
    const struct vc_graph *g = e->graph;

    VC_CALL(VC_ZEROS(e->ctx, VC_TAG_MISC, e->inputs, g->n_inputs + (size_t)1));
    VC_CALL(VC_ZEROS(e->ctx, VC_TAG_MISC, e->input_refs, 2 * (g->n_inputs + (size_t)1)));
    e->n_inputs = e->options.answers != NULL ? 0 : g->n_inputs;
    for (size_t k = 0; k < e->n_inputs; k++) {
        struct vc_plan_value *x = &e->values[g->inputs[k]];

        e->inputs[k] = describe(e, g->inputs[k]);
        if (x->made) {
            x->data = x->real ? vc_plan_reals(e, x->n) : vc_plan_buffer(e, x->n, sizeof(int64_t));
            vc_plan_touch(e, x->data, 0);
            e->input_refs[2 * k] = x->data;
        }
    }
    return VC_OK;
}

/* Outputs and kept values live up to the loss (step n_forward), which writes their gradients. A gradient
 * that no node has begun begins here: backward instructions then add to it. */
static enum vc_status make_outputs(struct vc_engine *e)
{
    uint32_t n_outputs = vc_plan_outputs(e);
    size_t n = n_outputs + e->options.n_kept;

    VC_CALL(VC_ZEROS(e->ctx, VC_TAG_MISC, e->outputs, n + 1));
    VC_CALL(VC_ZEROS(e->ctx, VC_TAG_MISC, e->output_refs, 2 * (n + 1)));
    e->n_outputs = n;
    for (size_t k = 0; k < n; k++) {
        uint32_t v = k < n_outputs ? vc_plan_output_list(e)[k] : e->options.kept[k - n_outputs];
        struct vc_plan_value *root = &e->values[e->values[v].root];

        e->outputs[k] = describe(e, v);
        VC_REFUSE_IF(root->data.kind != VC_REF_ARENA, e->ctx, VC_E_UNSUPPORTED,
                     "the value '%s' is no result of a node, and cannot be an output", e->graph->values[v].name);
        vc_plan_touch(e, root->data, e->n_forward);
        e->output_refs[2 * k] = root->data;
        if (e->options.train && root->trained) {
            if (!root->has_grad) {
                root->grad = vc_plan_reals(e, root->n);
                root->has_grad = true;
            }
            vc_plan_touch(e, root->grad, e->n_forward);
            e->output_refs[2 * k + 1] = root->grad;
        }
    }
    return VC_OK;
}

/* ---- the program ---- */

/* All nodes that cannot be computed or trained, each with a reason.
 * TopK has a reason of its own, since the experts of a mixture are the usual case. */
static void check_nodes(struct vc_engine *e)
{
    for (uint32_t n = 0; n < e->graph->n_nodes; n++) {
        const struct vc_graph_node *node = &e->graph->nodes[n];

        if (e->needed[n] && vc_train_op_of(node) == NULL && !vc_node_is_view(node) && !vc_plan_is_defined(e, n)) {
            vc_plan_fail(e, n, "%s",
                         vc_node_is(node, VC_OP_top_k)
                             ? "no gradient goes through what it chooses (the experts of a mixture, mostly): such a "
                               "network can teach and be evaluated, and not learn"
                             : "this operator cannot be trained (docs/distillation.md lists those that can)");
        }
    }
}

/* Adds the node's instructions. If its loops cannot do it as it is and the program may use definitions, the
 * node is marked for the next attempt (vc_engine_answers.defined). */
static void add_node(struct vc_engine *e, uint32_t node, const struct vc_train_op *op)
{
    size_t n_problems = e->n_problems;

    op->forward(e, node);
    if (e->options.answers != NULL && e->n_problems != n_problems && vc_plan_origin(e, node) != VC_NO_NODE) {
        e->options.answers->defined[vc_plan_origin(e, node)] = true;
    }
}

/* Nodes in order. A view has no instructions: its output shows its input's memory.
 * What plain loops compute (vc_plan_define) is not rounded. */
static void add_forward(struct vc_engine *e)
{
    vc_plan_round_inputs(e);
    vc_plan_take_inputs(e);
    for (uint32_t n = 0; n < e->graph->n_nodes; n++) {
        const struct vc_graph_node *node = &e->graph->nodes[n];
        const struct vc_train_op *op = vc_train_op_of(node);
        int64_t macs = e->needed[n] ? vc_dim_value(&e->graph->dims, node->macs) : 0;

        e->macs += macs > 0 ? (uint64_t)macs : 0;
        e->guard = e->guards[n];
        if (e->needed[n] && e->status == VC_OK && vc_plan_is_defined(e, n)) {
            vc_plan_define(e, n);
        } else if (e->needed[n] && op != NULL && e->status == VC_OK) {
            add_node(e, n, op);
            vc_plan_round_results(e, n);
        } else if (e->needed[n] && vc_node_is_view(node)) {
            struct vc_plan_value *root = &e->values[vc_plan_out(e, n, 0)->root];

            if (root->data.kind == VC_REF_NONE) { /* a parameter that nothing has read yet */
                root->data = vc_plan_data(e, n, 0);
            }
        }
        if (e->needed[n]) {
            vc_plan_take_results(e, n);
        }
    }
    e->guard = 0;
    vc_plan_take_rest(e);
    e->n_forward = e->n;
}

/* Nodes in reverse. A node whose outputs got no gradient adds nothing. Before a part's last node its
 * forward instructions are repeated (vc_plan_repeat). */
static void add_backward(struct vc_engine *e)
{
    e->backward = true;
    vc_plan_round_output_gradients(e);
    for (uint32_t n = e->graph->n_nodes; e->options.train && n-- > 0;) {
        const struct vc_train_op *op = vc_train_op_of(&e->graph->nodes[n]);
        bool came = false;

        for (unsigned k = 0; e->needed[n] && k < e->graph->nodes[n].n_outputs; k++) {
            came = came || vc_plan_grad(e, n, k).kind != VC_REF_NONE;
        }
        if (e->status == VC_OK && e->n_problems == 0) {
            vc_plan_repeat(e, n);
        }
        e->guard = e->guards[n];
        if (came && op != NULL && e->status == VC_OK && e->n_problems == 0) {
            op->backward(e, n);
            vc_plan_round_gradients(e, n);
        }
    }
    e->guard = 0;
    if (e->options.train && e->n_problems == 0) {
        vc_plan_give_grads(e);
    }
}

/* Gradients of inputs stay to the end. */
static void keep_input_grads(struct vc_engine *e)
{
    for (size_t k = 0; k < e->n_inputs; k++) {
        const struct vc_plan_value *x = &e->values[e->inputs[k].value];

        if (e->options.input_grads && x->has_grad) {
            e->input_refs[2 * k + 1] = x->grad;
            vc_plan_touch(e, x->grad, vc_plan_step(e, e->n));
        }
    }
}

/* What was inferred for all sizes has to hold for the bound ones: buffers are sized by it. */
static enum vc_status check_sizes(struct vc_engine *e, const bool *wanted)
{
    VC_SCOPED uint32_t *list = vc_alloc_array(e->ctx, VC_TAG_MISC, e->n_values + (size_t)1, sizeof *list);
    size_t n = 0;

    VC_CALL_ALLOC(list);
    for (uint32_t v = 0; v < e->n_values; v++) {
        list[n] = v;
        n += wanted[v];
    }
    return vc_graph_check_sizes(e->ctx, e->graph, list, n);
}

/* ---- the graph ---- */

/* Marks what the caller reads. */
static void mark_wanted(const struct vc_engine *e, bool *wanted)
{
    const struct vc_engine_answers *a = e->options.answers;

    for (uint32_t v = 0; a != NULL && v < e->n_values; v++) {
        wanted[v] = a->wanted[v];
    }
    for (uint32_t k = 0; k < vc_plan_outputs(e); k++) {
        wanted[vc_plan_output_list(e)[k]] = true;
    }
    for (size_t k = 0; k < e->options.n_kept; k++) {
        wanted[e->options.kept[k]] = true;
    }
}

/* The graph that the program is made of: the caller's without places that nothing reads (graph/lift.h). Who asks for
 * every result gets whole ones. */
static enum vc_status lift(struct vc_engine *e)
{
    const struct vc_engine_answers *a = e->options.answers;
    VC_SCOPED bool *fixed = vc_calloc_array(e->ctx, VC_TAG_MISC, e->graph->n_values + (size_t)1, sizeof *fixed);

    VC_CALL_ALLOC(fixed);
    e->n_values = e->graph->n_values;
    mark_wanted(e, fixed);
    if (a == NULL) {
        VC_CALL(check_sizes(e, fixed));
    }
    for (uint32_t v = 0; a != NULL && v < e->n_values; v++) {
        fixed[v] = fixed[v] || a->feeds[v].data != NULL;
    }
    if (a == NULL || !a->every) {
        VC_CALL(vc_graph_lift(e->ctx, e->graph, fixed, e->options.train && e->options.dropout, &e->lifted));
        e->graph = e->lifted != NULL ? &e->lifted->graph : e->graph;
    }
    VC_CALL(VC_ZEROS(e->ctx, VC_TAG_MISC, e->wanted, e->graph->n_values + (size_t)1));
    mark_wanted(e, e->wanted);
    return VC_OK;
}

/* All stages; see the top of this file for why they are in this order. */
static enum vc_status make_program(struct vc_engine *e)
{
    find_readers(e);
    vc_plan_find_known(e);
    vc_plan_find_fed(e);
    VC_CALL(find_needed(e));
    for (uint32_t v = 0; v < e->graph->n_values; v++) {
        size_value(e, v);
    }
    VC_CALL(e->status);
    find_trained(e);
    check_nodes(e);
    VC_CALL(find_uses(e));
    hold_values(e);
    VC_CALL(vc_plan_divide(e));
    vc_plan_find_kept(e);
    VC_CALL(load_constants(e));
    VC_CALL(make_inputs(e));
    vc_plan_feed(e);
    add_forward(e);
    VC_CALL(e->status);
    if (e->n_problems == 0) {
        VC_CALL(make_outputs(e));
        add_backward(e);
        keep_input_grads(e);
        VC_CALL(e->status);
    }
    VC_REFUSE_IF(e->n_problems != 0, e->ctx, VC_E_UNSUPPORTED, "%s", e->problem);
    VC_CALL(vc_plan_narrow(e));
    return e->options.device != NULL ? vc_engine_plan_device(e) : VC_OK;
}

/* A device counts as one worker: scratch memory is made once for each worker. */
static enum vc_status allocate(struct vc_engine *e)
{
    const struct vc_graph *g = e->graph;

    VC_CALL(VC_ZEROS(e->ctx, VC_TAG_MISC, e->values, g->n_values + (size_t)1));
    VC_CALL(VC_ZEROS(e->ctx, VC_TAG_MISC, e->needed, g->n_nodes + (size_t)1));
    VC_CALL(VC_ZEROS(e->ctx, VC_TAG_MISC, e->choices, g->n_nodes + (size_t)1));
    VC_CALL(VC_ZEROS(e->ctx, VC_TAG_MISC, e->parts, g->n_nodes + (size_t)1));
    VC_CALL(VC_ZEROS(e->ctx, VC_TAG_MISC, e->working, e->weights->n + 1));
    e->n_workers = e->options.device != NULL ? 1
                   : e->options.threads != 0 ? e->options.threads
                                             : vc_ctx_threads(e->ctx);
    if (!e->options.plan_only) {
        VC_CALL(vc_thread_pool_create(e->ctx, e->n_workers, &e->pool));
        e->n_workers = vc_thread_pool_size(e->pool);
    }
    e->loops = vc_train_loops(e->ctx, e->weights->precision);
    return VC_OK;
}

/* What only planning needs. */
static void forget(struct vc_engine *e)
{
    vc_free(e->ctx, e->values);
    vc_free(e->ctx, e->wanted);
    vc_free(e->ctx, e->needed);
    vc_free(e->ctx, e->parts);
    e->values = NULL;
    e->wanted = NULL;
    e->needed = NULL;
    e->parts = NULL;
}

/* One program. What only making it needs is freed, also after a failure. */
static enum vc_status make(struct vc_ctx *ctx, const struct vc_graph *graph, struct vc_weights *weights,
                           const struct vc_engine_options *options, struct vc_engine **out)
{
    struct vc_engine *e = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *e);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(e);
    e->ctx = ctx;
    e->graph = graph;
    e->weights = weights;
    e->options = *options;
    e->feeds = options->answers != NULL ? options->answers->feeds : NULL;
    vc_ctx_fork(ctx, &e->define_ctx);
    atomic_flag_clear(&e->fault.lock);
    VC_TRY(lift(e));
    VC_TRY(allocate(e));
    VC_TRY(make_program(e));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, e->next, e->n + 1));
    e->options.kept = NULL; /* the caller's array */
out:
    if (e != NULL) {
        forget(e);
    }
    if (status == VC_OK) {
        *out = e;
    } else {
        vc_engine_free(e);
    }
    return status;
}

/* ---- recomputation within a budget ---- */

/* The best plan so far, with its bytes and the multiply-adds that it computes again. */
struct choice {
    struct vc_engine_options best;
    uint64_t bytes, again; /* of it */
};

/* Tries one plan. Better is one within the budget that computes less again; while none is, one that is smaller. */
static enum vc_status try_plan(struct vc_ctx *ctx, const struct vc_graph *graph, struct vc_weights *weights,
                               const struct vc_engine_options *options, struct choice *c, bool *fits)
{
    struct vc_engine *e = NULL;
    uint64_t bytes, again, forward;
    bool fitted = c->bytes <= options->budget_bytes;
    enum vc_status status = make(ctx, graph, weights, options, &e);

    *fits = false;
    if (status == VC_OK) {
        bytes = vc_engine_bytes(e);
        vc_engine_recomputed(e, &again, &forward);
        *fits = bytes <= options->budget_bytes;
        if (*fits ? !fitted || again < c->again || (again == c->again && bytes < c->bytes)
                  : !fitted && bytes < c->bytes) {
            *c = (struct choice){*options, bytes, again};
        }
    }
    vc_engine_free(e);
    return status;
}

/* For parts of every size the fewest of them, from the first one on, that have to be computed again. More
 * parts computed again never take more memory, so the number is found by halving; sizes grow by an eighth,
 * as neighbours differ little. */
static enum vc_status choose_parts(struct vc_ctx *ctx, const struct vc_graph *graph, struct vc_weights *weights,
                                   const struct vc_engine_options *options, struct vc_engine_options *out)
{
    struct vc_engine_options o = *options;
    struct choice choice = {.bytes = UINT64_MAX};
    uint32_t n = 0;
    bool fits;

    o.plan_only = true;
    o.recompute = VC_RECOMPUTE_NONE;
    for (uint32_t k = 0; k < graph->n_nodes; k++) {
        n += vc_node_has_weights(graph, &graph->nodes[k]);
    }
    VC_CALL(try_plan(ctx, graph, weights, &o, &choice, &fits));
    o.recompute = VC_RECOMPUTE_EVERY;
    for (uint32_t every = 1; !fits && every <= n; every += 1 + every / 8) {
        uint32_t low = 0; /* parts: so few are not enough, so many are */
        uint32_t high = n / every + 1;
        bool enough;

        o.recompute_every = every;
        o.first_parts = 0;
        VC_CALL(try_plan(ctx, graph, weights, &o, &choice, &enough));
        while (enough && high - low > 1) {
            bool middle;

            o.first_parts = low + (high - low) / 2;
            VC_CALL(try_plan(ctx, graph, weights, &o, &choice, &middle));
            low = middle ? low : o.first_parts;
            high = middle ? o.first_parts : high;
        }
    }
    *out = choice.best;
    out->plan_only = options->plan_only;
    return VC_OK;
}

/* With recomputation that is chosen here, plans are made without memory first, and the best of them is the
 * program. */
enum vc_status vc_engine_make(struct vc_ctx *ctx, const struct vc_graph *graph, struct vc_weights *weights,
                              const struct vc_engine_options *options, struct vc_engine **out)
{
    struct vc_engine_options chosen = *options;

    *out = NULL;
    if (options->recompute == VC_RECOMPUTE_AUTO && options->train) {
        enum vc_status status = choose_parts(ctx, graph, weights, options, &chosen);

        if (status != VC_OK) {
            return status;
        }
    }
    return make(ctx, graph, weights, &chosen, out);
}

/* Accepts NULL, and an engine that was made in part. */
void vc_engine_free(struct vc_engine *e)
{
    if (e == NULL) {
        return;
    }
    vc_engine_detach_device(e);
    vc_thread_pool_free(e->pool);
    vc_arena_release(e->ctx, &e->arena);
    vc_free(e->ctx, e->instructions);
    vc_free(e->ctx, e->buffers);
    vc_free(e->ctx, e->constants);
    vc_free(e->ctx, e->inputs);
    vc_free(e->ctx, e->outputs);
    vc_free(e->ctx, e->input_refs);
    vc_free(e->ctx, e->output_refs);
    vc_free(e->ctx, e->working);
    vc_free(e->ctx, e->next);
    vc_free(e->ctx, e->guards);
    vc_free(e->ctx, e->choices);
    vc_graph_lift_free(e->ctx, e->lifted);
    vc_free(e->ctx, e);
}
