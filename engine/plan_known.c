/* plan_known.c - values that follow from sizes and constants alone: positions, tables of sines, causal windows. They
 * are computed once, when the program is made, by the definitions of graph/, and are constants of it from then on. */

#include "engine/train_program.h"
#include "graph/forward.h"

/* A node is known if all its inputs are, or if it reads no elements at all (Shape). */
void vc_plan_find_known(struct vc_engine *e)
{
    const struct vc_graph *g = e->graph;

    for (uint32_t v = 0; v < g->n_values; v++) {
        e->values[v].known = g->values[v].kind == VC_VALUE_CONSTANT;
    }
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const struct vc_graph_node *node = &g->nodes[n];
        bool known = node->row != NULL && node->n_inputs != 0;

        for (unsigned k = 0; known && k < node->n_inputs && node->row->reads != 0; k++) {
            known = known && (node->inputs[k] == VC_NO_VALUE || e->values[node->inputs[k]].known);
        }
        for (unsigned k = 0; k < node->n_outputs; k++) {
            if (node->outputs[k] != VC_NO_VALUE) {
                e->values[node->outputs[k]].known = known;
            }
        }
    }
}

/* vc_run_calls.param: known values depend on none. */
static enum vc_status no_param(struct vc_ctx *ctx, void *user, const struct vc_graph_param *param, void *elements)
{
    return vc_fail(ctx, VC_E_INTERNAL, "%s is no constant", param->tensor);
}

/* vc_run_calls.take: into the block of constants. */
static enum vc_status take(struct vc_ctx *ctx, void *user, uint32_t value, const struct vc_run_value *elements)
{
    struct vc_engine *e = user;
    struct vc_plan_value *x = &e->values[value];

    VC_REFUSE_IF(elements->n != x->n || elements->is_real != x->real, ctx, VC_E_INTERNAL,
                 "'%s' has %zu elements, and %llu are expected", e->graph->values[value].name, elements->n,
                 (unsigned long long)x->n);
    memcpy((char *)e->constants + x->data.offset, elements->data,
           x->n * (x->real ? vc_real_bytes(e->weights->precision) : sizeof(int64_t)));
    return VC_OK;
}

/* Shape reads no elements: its input is fed as a shape with a pointer that nobody reads. */
static void feed_shapes(const struct vc_engine *e, struct vc_run_value *feeds)
{
    static int64_t nothing;

    for (uint32_t n = 0; n < e->graph->n_nodes; n++) {
        const struct vc_graph_node *node = &e->graph->nodes[n];
        uint32_t v = node->n_inputs != 0 ? node->inputs[0] : VC_NO_VALUE;

        if (v != VC_NO_VALUE && node->row != NULL && node->row->reads == 0 && !e->values[v].known) {
            feeds[v] = (struct vc_run_value){.n_dims = e->values[v].n_dims, .n = 1, .data = &nothing};
            memcpy(feeds[v].shape, e->values[v].shape, sizeof feeds[v].shape);
            for (unsigned k = 0; k < feeds[v].n_dims; k++) {
                feeds[v].n *= (size_t)feeds[v].shape[k];
            }
        }
    }
}

/* By the definitions of graph/, for all known values that somebody reads. */
enum vc_status vc_plan_compute_known(struct vc_engine *e)
{
    const struct vc_graph *g = e->graph;
    const struct vc_run_calls calls = {.user = e, .param = no_param, .take = take};
    VC_SCOPED struct vc_run_value *feeds = vc_calloc_array(e->ctx, VC_TAG_MISC, g->n_values + (size_t)1, sizeof *feeds);
    VC_SCOPED uint32_t *wanted = vc_alloc_array(e->ctx, VC_TAG_MISC, g->n_values + (size_t)1, sizeof *wanted);
    size_t n = 0;

    VC_CALL_ALLOC(feeds);
    VC_CALL_ALLOC(wanted);
    feed_shapes(e, feeds);
    for (uint32_t v = 0; v < g->n_values; v++) {
        if (e->values[v].known && e->values[v].made && g->values[v].kind == VC_VALUE_RESULT) {
            wanted[n++] = v;
        }
    }
    if (n != 0) { /* it changes nothing in the graph */
        VC_CALL(vc_graph_forward_from(e->ctx, (struct vc_graph *)(uintptr_t)g,
                                      e->weights->precision == VC_GRAPH_F64 ? VC_PRECISION_F64 : VC_PRECISION_F32,
                                      &calls, feeds, wanted, n));
    }
    return VC_OK;
}
