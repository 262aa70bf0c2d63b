/* sizes.c - see sizes.h.
 *
 * A second graph is laid over the first: the same nodes, parameters and constants, but values and facts of its own,
 * whose inputs have numbers for shapes. vc_infer_node runs on each node there, and the shapes that come out are
 * compared with those of the first graph, evaluated for the bound sizes. Nothing of the first graph changes, so
 * that several threads may check. */
#include "graph/sizes.h"

#include "graph/ops/ops.h"

int64_t vc_graph_size(const struct vc_graph *graph, const char *symbol)
{
    const char *name;
    int64_t size;

    for (uint32_t k = 0; graph != NULL && (name = vc_graph_symbol(graph, k, &size)) != NULL; k++) {
        if (strcmp(name, symbol) == 0) {
            return size;
        }
    }
    return 0;
}

enum vc_status vc_graph_bind_as(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_graph *other)
{
    const char *name;

    for (uint32_t k = 0; (name = vc_graph_symbol(graph, k, NULL)) != NULL; k++) {
        if (vc_graph_size(other, name) > 0) {
            VC_CALL(vc_graph_bind(ctx, graph, name, vc_graph_size(other, name)));
        }
    }
    return VC_OK;
}

/* The second graph. Constants and parameters are those of the first, whose sizes are numbers already. Only the
 * members that vc_infer_node reads are set. */
struct again {
    const struct vc_graph *of;
    struct vc_graph graph;
    bool *needed; /* values */
};

/* ---- sentences ---- */

/* " (batch is 7, sequence is 12)"; "" where the graph has no symbols. */
static const char *sizes_text(const struct vc_graph *graph, char *text, size_t n)
{
    const char *symbol;
    int64_t size;
    size_t at = 0;

    text[0] = '\0';
    for (uint32_t k = 0; (symbol = vc_graph_symbol(graph, k, &size)) != NULL && at < n; k++) {
        if (size >= 0) {
            at += (size_t)snprintf(text + at, n - at, "%s%s is %lld", at == 0 ? " (" : ", ", symbol, (long long)size);
        }
    }
    if (at != 0 && at + 1 < n) {
        (void)snprintf(text + at, n - at, ")");
    }
    return text;
}

/* "Reshape 'r': its output is [7, 5] and would be [1, 35] for all sizes that the model was built for (batch is 7)". */
static enum vc_status refuse(struct vc_ctx *ctx, const struct vc_graph *graph, uint32_t v, const int64_t *sizes,
                             unsigned n_dims)
{
    const struct vc_graph_value *value = &graph->values[v];
    int64_t stated[VC_GRAPH_MAX_DIMS];
    char text[2][200], symbols[160];

    for (unsigned k = 0; k < value->n_dims; k++) {
        stated[k] = vc_dim_value(&graph->dims, value->shape[k]);
    }
    return vc_fail(ctx, VC_E_FORMAT,
                   "%s '%s': its output is %s and would be %s for all sizes that the model was built for%s",
                   value->node != VC_NO_NODE ? graph->nodes[value->node].op : "the value", value->name,
                   vc_graph_shape_text(sizes, n_dims, text[0], sizeof text[0]),
                   vc_graph_shape_text(stated, value->n_dims, text[1], sizeof text[1]),
                   sizes_text(graph, symbols, sizeof symbols));
}

enum vc_status vc_graph_refuse_sizes(struct vc_ctx *ctx, const struct vc_graph *graph, uint32_t v, const int64_t *sizes)
{
    return refuse(ctx, graph, v, sizes, graph->values[v].n_dims);
}

/* ---- the graph again ---- */

/* A copy of n elements into the pool; *out, a pointer to any type, gets its address by memcpy, without an aliasing
 * cast. */
static enum vc_status copy(struct vc_ctx *ctx, const void *from, size_t n, size_t size, void *out)
{
    void *to = vc_alloc_array(ctx, VC_TAG_MISC, n + 1, size);

    VC_CALL_ALLOC(to);
    if (n != 0) {
        memcpy(to, from, n * size);
    }
    memcpy(out, &to, sizeof to);
    return VC_OK;
}

/* Gives an input the sizes that are bound. If a symbol has no size, the value is unknown, and nodes behind it are
 * skipped. */
static enum vc_status size_input(struct again *a, uint32_t v)
{
    struct vc_graph_value *value = &a->graph.values[v];
    struct vc_dim *shape = vc_arena_alloc(a->graph.ctx, &a->graph.arena, (value->n_dims + 1) * sizeof *shape);

    VC_CALL_ALLOC(shape);
    for (unsigned k = 0; k < value->n_dims; k++) {
        shape[k] = vc_dim_number(vc_dim_value(&a->of->dims, value->shape[k]));
        a->graph.facts[v].unknown |= shape[k].size < 0;
    }
    value->shape = shape;
    return VC_OK;
}

/* Results begin as unknown; each node's inference makes its outputs known. */
static enum vc_status begin(struct again *a, struct vc_ctx *ctx)
{
    const struct vc_graph *of = a->of;
    struct vc_graph *g = &a->graph;

    *g = (struct vc_graph){.ctx = ctx, .block = "", .n_nodes = of->n_nodes, .n_values = of->n_values};
    VC_CALL(vc_dims_init(&g->dims, ctx, &g->arena));
    VC_CALL(copy(ctx, of->nodes, of->n_nodes, sizeof *of->nodes, &g->nodes));
    VC_CALL(copy(ctx, of->values, of->n_values, sizeof *of->values, &g->values));
    VC_CALL(copy(ctx, of->facts, of->n_values, sizeof *of->facts, &g->facts));
    for (uint32_t v = 0; v < of->n_values; v++) {
        if (of->values[v].kind == VC_VALUE_RESULT) {
            g->facts[v] = (struct vc_value_facts){.unknown = true};
        } else if (of->values[v].kind == VC_VALUE_INPUT) {
            VC_CALL(size_input(a, v));
        }
    }
    return VC_OK;
}

static void end(struct again *a)
{
    struct vc_ctx *ctx = a->graph.ctx;

    vc_dims_release(&a->graph.dims);
    vc_arena_release(ctx, &a->graph.arena);
    VC_FREE_ALL(ctx, a->graph.nodes, a->graph.values, a->graph.facts, a->needed);
}

/* ---- the nodes ---- */

static bool makes_needed(const struct again *a, const struct vc_graph_node *node)
{
    for (unsigned k = 0; k < node->n_outputs; k++) {
        if (node->outputs[k] != VC_NO_VALUE && a->needed[node->outputs[k]]) {
            return true;
        }
    }
    return false;
}

/* Backwards from the wanted values: nodes that only lead elsewhere may have sizes that do not fit, and nobody
 * computes them. */
static void find_needed(struct again *a, const uint32_t *wanted, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        a->needed[wanted[k]] = true;
    }
    for (uint32_t k = a->of->n_nodes; k-- > 0;) {
        const struct vc_graph_node *node = &a->of->nodes[k];

        for (unsigned i = 0; i < node->n_inputs && makes_needed(a, node); i++) {
            if (node->inputs[i] != VC_NO_VALUE) {
                a->needed[node->inputs[i]] = true;
            }
        }
    }
}

static bool knows_inputs(const struct again *a, const struct vc_graph_node *node)
{
    for (unsigned k = 0; k < node->n_inputs; k++) {
        if (node->inputs[k] != VC_NO_VALUE && a->graph.facts[node->inputs[k]].unknown) {
            return false;
        }
    }
    return true;
}

/* Compares an output with what the first graph states. A size that either side cannot evaluate may be anything. */
static enum vc_status compare(const struct again *a, uint32_t v)
{
    const struct vc_graph_value *made = &a->graph.values[v];
    const struct vc_graph_value *stated = &a->of->values[v];
    int64_t sizes[VC_GRAPH_MAX_DIMS];
    bool same = made->n_dims == stated->n_dims;

    for (unsigned k = 0; k < made->n_dims; k++) {
        int64_t size = same ? vc_dim_value(&a->of->dims, stated->shape[k]) : -1;

        sizes[k] = vc_dim_value(&a->graph.dims, made->shape[k]);
        same = same && (size < 0 || sizes[k] < 0 || sizes[k] == size);
    }
    return same ? VC_OK : refuse(a->graph.ctx, a->of, v, sizes, made->n_dims);
}

/* A problem of the second graph is refused with the bound sizes behind it. Building the first graph had
 * none, so it depends on the sizes. */
static enum vc_status check_node(struct again *a, uint32_t index)
{
    const struct vc_graph_node *node = &a->of->nodes[index];
    char symbols[160];

    vc_infer_node(&a->graph, index);
    VC_REFUSE_IF(a->graph.n_problems != 0, a->graph.ctx, VC_E_FORMAT, "%s%s%s%s", a->graph.problems[0],
                 sizes_text(a->of, symbols, sizeof symbols), a->of->both != NULL ? "; " : "",
                 a->of->both != NULL ? a->of->both : "");
    VC_CALL(a->graph.dims.no_memory ? VC_E_NOMEM : a->graph.status);
    for (unsigned k = 0; k < node->n_outputs; k++) {
        if (node->outputs[k] != VC_NO_VALUE) {
            VC_CALL(compare(a, node->outputs[k]));
        }
    }
    return VC_OK;
}

/* Nodes in order, so that each node's inputs have their sizes; those behind an unknown size are skipped. */
enum vc_status vc_graph_check_sizes(struct vc_ctx *ctx, const struct vc_graph *graph, const uint32_t *wanted, size_t n)
{
    struct again a = {.of = graph};
    enum vc_status status = VC_OK;

    VC_TRY(begin(&a, ctx));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, a.needed, graph->n_values + (size_t)1));
    find_needed(&a, wanted != NULL ? wanted : graph->outputs, wanted != NULL ? n : graph->n_outputs);
    for (uint32_t k = 0; k < graph->n_nodes; k++) {
        if (makes_needed(&a, &graph->nodes[k]) && knows_inputs(&a, &graph->nodes[k])) {
            VC_TRY(check_node(&a, k));
        }
    }
out:
    end(&a);
    return status;
}
