/* plan_answers.c - programs that begin at values which the caller has and hand over others (options.answers). Where a
 * parameter comes in and where a value goes out the program stops, and the calling thread does that:
 *
 *     fed image       0  stop: conv1.weight comes in, into the arena
 *                     1  conv        2  relu
 *                     3  stop: relu is wanted, and is taken
 *                     4  stop: fc.weight comes in, over conv1.weight ...
 *
 * A parameter lives from there to the last node that reads it, so that the arena holds few of them at a time. */

#include "engine/train_program.h"
#include "graph/ops/run.h"

/* Marks values that the caller has. */
void vc_plan_find_fed(struct vc_engine *e)
{
    for (uint32_t v = 0; e->options.answers != NULL && v < e->n_values; v++) {
        e->values[v].fed = e->options.answers->feeds[v].data != NULL && !e->values[v].known;
    }
}

/* Values of the caller have no memory in the arena. An input that is needed must be among them. */
void vc_plan_feed(struct vc_engine *e)
{
    for (uint32_t v = 0; e->options.answers != NULL && v < e->graph->n_values; v++) {
        struct vc_plan_value *x = &e->values[v];

        if (x->fed) {
            x->data = (struct vc_ref){.kind = VC_REF_FEED, .index = v};
        } else if (x->made && e->graph->values[v].kind == VC_VALUE_INPUT && e->status == VC_OK) {
            e->status = vc_fail(e->ctx, VC_E_INTERNAL, "the input '%s' is not given", e->graph->values[v].name);
        }
    }
}

/* An instruction without a function: the run stops there and asks the caller. */
static void add_stop(struct vc_engine *e, uint32_t node, enum vc_stop kind, uint32_t v, struct vc_ref ref)
{
    const struct vc_plan_value *x = &e->values[v];
    struct vc_plan_stop *stop = vc_plan_args(e, sizeof *stop);

    if (stop != NULL) {
        *stop = (struct vc_plan_stop){.kind = kind, .value = v, .n_dims = x->n_dims, .n = x->n, .real = x->real};
        memcpy(stop->shape, x->shape, sizeof stop->shape);
        vc_plan_emit_run(e, node, NULL, stop, &ref, 1, kind == VC_STOP_PARAM);
    }
}

/* The first reader makes the stop. */
struct vc_ref vc_plan_param(struct vc_engine *e, uint32_t node, uint32_t value)
{
    struct vc_plan_value *x = &e->values[value];

    if (x->data.kind == VC_REF_NONE) {
        x->data = x->real ? vc_plan_reals(e, x->n) : vc_plan_buffer(e, x->n, sizeof(int64_t));
        add_stop(e, node, VC_STOP_PARAM, value, x->data);
    }
    return x->data;
}

/* Once, where the value is there: the root's elements with the value's shape. */
static void take(struct vc_engine *e, uint32_t node, uint32_t v)
{
    struct vc_plan_value *x = &e->values[v];

    if (!x->taken && e->status == VC_OK) {
        x->taken = true;
        add_stop(e, node, VC_STOP_TAKE, v, e->values[x->root].data);
    }
}

/* Behind the instructions of a node, before anything may write over its results. */
void vc_plan_take_results(struct vc_engine *e, uint32_t node)
{
    const struct vc_engine_answers *a = e->options.answers;
    const struct vc_graph_node *n = vc_plan_node(e, node);

    for (unsigned k = 0; a != NULL && k < n->n_outputs; k++) {
        uint32_t v = n->outputs[k];

        if (v != VC_NO_VALUE && e->values[v].made && !e->values[v].fed &&
            (e->wanted[v] || (a->every && e->values[v].root == v))) {
            take(e, node, v);
        }
    }
}

/* Inputs that are wanted are there from the beginning. */
void vc_plan_take_inputs(struct vc_engine *e)
{
    for (uint32_t k = 0; e->options.answers != NULL && k < e->graph->n_inputs; k++) {
        if (e->wanted[e->graph->inputs[k]]) {
            take(e, 0, e->graph->inputs[k]);
        }
    }
}

/* What no node makes, such as parameters, and values that were known. */
void vc_plan_take_rest(struct vc_engine *e)
{
    for (uint32_t v = 0; e->options.answers != NULL && v < e->graph->n_values; v++) {
        if (e->wanted[v] && e->graph->values[v].kind == VC_VALUE_PARAMETER) {
            (void)vc_plan_param(e, 0, v);
        }
        if (e->wanted[v]) {
            take(e, 0, v);
        }
    }
}
