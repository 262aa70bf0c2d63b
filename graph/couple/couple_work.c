/* couple_work.c - the multiply-adds of a graph, and how they follow the sizes of axes:
 *
 *     MatMul [batch, 784] x [784, 128]     batch * 784 * 128: axes of the output, and the one that is summed over
 *
 * Rules have given every axis its term; a node's multiply-adds are a product that has the sizes of its axes as factors,
 * so that they change as these do. */

#include "graph/couple/couple_graph.h"
#include "graph/ops/einsum.h"

#define MOST_AXES 64

/* The axes of one node. */
struct work_axes {
    size_t n;
    uint32_t terms[MOST_AXES];
};

static void add_axis(const struct vc_couple *c, struct work_axes *axes, uint32_t value, unsigned axis)
{
    if (axes->n < MOST_AXES) {
        axes->terms[axes->n++] = c->axis[c->first[value] + axis];
    }
}

/* All axes of the value from `first` on. */
static void add_axes(const struct vc_couple *c, struct work_axes *axes, uint32_t value, unsigned first)
{
    for (unsigned k = first; k < c->graph->values[value].n_dims; k++) {
        add_axis(c, axes, value, k);
    }
}

/* Of an Einsum: the letters that the output does not have, each by the first input that has it. */
static bool add_summed(const struct vc_couple *c, struct work_axes *axes, const struct vc_graph_node *node)
{
    const struct vc_graph_attr *equation = vc_couple_attr(c, "equation");
    unsigned n_dims[VC_EINSUM_INPUTS];
    struct vc_einsum e;

    for (unsigned k = 0; k < node->n_inputs && k < VC_EINSUM_INPUTS; k++) {
        n_dims[k] = vc_couple_in(c, k)->n_dims;
    }
    if (equation == NULL || equation->kind != VC_ATTR_STRING || node->n_inputs > VC_EINSUM_INPUTS ||
        vc_einsum_parse(equation->s, node->n_inputs, n_dims, &e) != NULL) {
        return false;
    }
    for (unsigned i = e.n_out; i < e.n_labels; i++) {
        bool found = false;

        for (unsigned k = 0; k < e.n_inputs && !found; k++) {
            for (unsigned d = 0; d < e.n_dims[k] && !found; d++) {
                found = e.labels[k][d] == e.order[i];
                if (found) {
                    add_axis(c, axes, node->inputs[k], d);
                }
            }
        }
    }
    return true;
}

/* The axes whose sizes are factors of the node's multiply-adds. False for operators that are not known here: no
 * figures then. */
static bool list_axes(const struct vc_couple *c, const struct vc_graph_node *node, struct work_axes *axes)
{
    axes->n = 0;
    if (node->outputs[0] == VC_NO_VALUE) {
        return false;
    }
    if (vc_node_is(node,
                   VC_OP_conv_transpose)) { /* for each element of the input what its channel gives to the output */
        add_axes(c, axes, node->inputs[0], 0);
        add_axes(c, axes, node->inputs[1], 1);
        return true;
    }
    add_axes(c, axes, node->outputs[0], 0);
    if (vc_node_is(node, VC_OP_conv)) { /* for each element of the output a row of the weights */
        add_axes(c, axes, node->inputs[1], 1);
    } else if (vc_node_is(node, VC_OP_matmul)) {
        add_axis(c, axes, node->inputs[0], vc_couple_in(c, 0)->n_dims - 1);
    } else if (vc_node_is(node, VC_OP_gemm)) {
        add_axis(c, axes, node->inputs[0], vc_couple_int(c, "transA", 0) != 0 ? 0 : 1);
    } else if (vc_node_is(node, VC_OP_einsum)) {
        return add_summed(c, axes, node);
    } else if (!vc_node_is(node, VC_OP_attention)) { /* of which heads go; their sizes stay */
        return false;
    }
    return true;
}

/* "batch 1, sequence 128". */
static enum vc_status name_sizes(struct vc_couple *c)
{
    const char *name;
    int64_t size;
    struct vc_text text = {.ctx = c->ctx};

    for (uint32_t k = 0; (name = vc_graph_symbol(c->graph, k, &size)) != NULL; k++) {
        if (size >= 0) {
            vc_text_add(&text, "%s%s %lld", text.n != 0 ? ", " : "", name, (long long)size);
        }
    }
    return vc_text_take(&text, c->arena, &c->sizes->work_at);
}

/* All or nothing: one node without known work leaves sizes->work NULL, and no command prints a share of the total. */
enum vc_status vc_couple_take_work(struct vc_couple *c)
{
    const struct vc_graph *graph = c->graph;
    struct vc_work *list = vc_arena_alloc(c->ctx, c->arena, (graph->n_nodes + (size_t)1) * sizeof *list);
    size_t n = 0;

    VC_CALL_ALLOC(list);
    for (c->node = 0; c->node < graph->n_nodes; c->node++) {
        const struct vc_graph_node *node = &graph->nodes[c->node];
        int64_t macs = vc_graph_dim_value(graph, node->macs);
        struct work_axes axes;
        uint32_t *terms;

        if (macs == 0) {
            continue;
        }
        if (macs < 0 || !list_axes(c, node, &axes)) {
            return VC_OK; /* not known */
        }
        VC_CALL_ALLOC(terms = vc_arena_alloc(c->ctx, c->arena, (axes.n + 1) * sizeof *terms));
        memcpy(terms, axes.terms, axes.n * sizeof *terms);
        list[n++] = (struct vc_work){.macs = (uint64_t)macs, .expert = node->expert, .n = axes.n, .terms = terms};
    }
    c->sizes->n_experts = vc_graph_experts(graph, &c->sizes->experts_per_token);
    c->sizes->work = list;
    c->sizes->n_work = n;
    return name_sizes(c);
}
