/* finish.c - the end of building a graph: what no output needs goes, and numbers are given anew without gaps.
 *
 *     built      x - Shape - Gather - Concat -+            the four compute [batch, 12, 64] of known integers
 *                x ------------------------- Reshape - y
 *     finished   x, constant --------------- Reshape - y   if all elements are numbers
 *
 * Inputs stay even if nothing reads them: callers give them by position. Values of nodes that stay, but that nobody
 * uses, stay too (the second output of TopK). */

#include "graph/builder/builder.h"

/* What is needed, and the new numbers. */
struct sweep {
    struct vc_graph *graph;
    bool *node;       /* needed */
    uint32_t *uses;   /* of values, by needed nodes and as outputs */
    uint32_t *number; /* of values: the new one */
    uint32_t *params; /* the same */
};

/* Number of elements of a value whose elements are known: its dimensions are numbers, and there are at most
 * VC_MAX_ELEMS. */
static size_t count_of(const struct vc_graph_value *value)
{
    size_t n = 1;

    for (unsigned d = 0; d < value->n_dims; d++) {
        n *= (size_t)value->shape[d].size;
    }
    return n;
}

/* True if all elements are known numbers: the value can be a constant. An element "batch" is known, but no number. */
static bool is_known(const struct vc_graph *graph, uint32_t value)
{
    const struct vc_dim *elems = graph->facts[value].elems;
    size_t n = elems == NULL ? 0 : count_of(&graph->values[value]);

    if (elems == NULL) {
        return false;
    }
    for (size_t k = 0; k < n; k++) {
        if (!vc_dim_is_number(elems[k])) {
            return false;
        }
    }
    return true;
}

/* Turns results with known elements into constants; the nodes that made them then have no user, and mark() drops
 * them. The elements are double or int64_t in the same 8 bytes, hence the memcpy. */
static void make_constants(struct vc_graph *graph)
{
    for (uint32_t v = 0; v < graph->n_values && graph->status == VC_OK; v++) {
        struct vc_graph_value *value = &graph->values[v];
        size_t n = is_known(graph, v) ? count_of(value) : 0;
        int64_t *data;

        if (value->kind != VC_VALUE_RESULT || !is_known(graph, v)) {
            continue;
        }
        data = vc_arena_alloc(graph->ctx, &graph->arena, (n + 1) * sizeof *data);
        VC_LEAVE_IF(data == NULL, graph->status = VC_E_NOMEM);
        for (size_t k = 0; k < n; k++) {
            data[k] = graph->facts[v].elems[k].size;
            if (value->dtype == VC_DTYPE_F32) {
                double real = (double)data[k];
                memcpy(&data[k], &real, sizeof real);
            }
        }
        value->kind = VC_VALUE_CONSTANT;
        value->data = data;
        value->node = VC_NO_NODE;
    }
}

/* Counts uses from the outputs backwards; a node is needed if one of its outputs is used. Nodes come after what
 * they use, so that one walk from the last node down is enough. */
static void mark(struct sweep *sweep)
{
    struct vc_graph *graph = sweep->graph;

    for (uint32_t k = 0; k < graph->n_outputs; k++) {
        sweep->uses[graph->outputs[k]]++;
    }
    for (uint32_t k = graph->n_nodes; k-- > 0;) {
        const struct vc_graph_node *node = &graph->nodes[k];

        for (unsigned i = 0; i < node->n_outputs; i++) {
            sweep->node[k] |= sweep->uses[node->outputs[i]] != 0 && graph->values[node->outputs[i]].node == k;
        }
        for (unsigned i = 0; i < node->n_inputs && sweep->node[k]; i++) {
            if (node->inputs[i] != VC_NO_VALUE) {
                sweep->uses[node->inputs[i]]++;
            }
        }
    }
}

static bool stays(const struct sweep *sweep, uint32_t v)
{
    const struct vc_graph_value *value = &sweep->graph->values[v];

    return value->kind == VC_VALUE_INPUT || sweep->uses[v] != 0 ||
           (value->node != VC_NO_NODE && sweep->node[value->node]);
}

/* A list of values with their new numbers. */
static const uint32_t *renumbered(struct sweep *sweep, const uint32_t *list, unsigned n)
{
    uint32_t *to = vc_arena_alloc(sweep->graph->ctx, &sweep->graph->arena, (n + 1) * sizeof *to);

    VC_LEAVE_WITH(to == NULL, sweep->graph->status = VC_E_NOMEM, list);
    for (unsigned k = 0; k < n; k++) {
        to[k] = list[k] == VC_NO_VALUE ? VC_NO_VALUE : sweep->number[list[k]];
    }
    return to;
}

/* Moves what stays to the front of each array. New numbers never exceed old ones, so that reading at v and writing
 * at n_values in one walk overwrites nothing that is still to be read. Then every reference gets the new number:
 * parameter and value point at each other, nodes at inputs and outputs (outputs that became constants:
 * VC_NO_VALUE), the graph's lists. */
static void renumber(struct sweep *sweep)
{
    struct vc_graph *graph = sweep->graph;
    uint32_t n_values = 0;
    uint32_t n_nodes = 0;
    uint32_t n_params = 0;

    for (uint32_t v = 0; v < graph->n_values; v++) {
        sweep->number[v] = VC_NO_VALUE;
        if (stays(sweep, v)) {
            graph->values[n_values] = graph->values[v];
            graph->values[n_values].n_uses = sweep->uses[v];
            graph->facts[n_values] = graph->facts[v];
            sweep->number[v] = n_values++;
        }
    }
    for (uint32_t p = 0; p < graph->n_params; p++) {
        if (sweep->uses[graph->params[p].value] != 0) {
            sweep->params[p] = n_params;
            graph->params[n_params] = graph->params[p];
            graph->params[n_params].value = sweep->number[graph->params[p].value];
            graph->values[graph->params[n_params].value].param = n_params;
            n_params++;
        }
    }
    for (uint32_t k = 0; k < graph->n_nodes; k++) {
        if (!sweep->node[k]) {
            continue;
        }
        graph->nodes[n_nodes] = graph->nodes[k];
        graph->nodes[n_nodes].inputs = renumbered(sweep, graph->nodes[k].inputs, graph->nodes[k].n_inputs);
        graph->nodes[n_nodes].outputs = renumbered(sweep, graph->nodes[k].outputs, graph->nodes[k].n_outputs);
        for (unsigned i = 0; i < graph->nodes[n_nodes].n_outputs; i++) {
            uint32_t v = graph->nodes[n_nodes].outputs[i];

            if (v != VC_NO_VALUE) {
                graph->values[v].node = graph->values[v].kind == VC_VALUE_RESULT ? n_nodes : VC_NO_NODE;
            }
        }
        n_nodes++;
    }
    for (uint32_t k = 0; k < graph->n_inputs; k++) {
        graph->inputs[k] = sweep->number[graph->inputs[k]];
    }
    for (uint32_t k = 0; k < graph->n_outputs; k++) {
        graph->outputs[k] = sweep->number[graph->outputs[k]];
    }
    graph->n_values = n_values;
    graph->n_nodes = n_nodes;
    graph->n_params = n_params;
}

/* Transposed or not does not count: tied parameters read the same elements of the tensor. */
static uint64_t hash_of_param(const struct vc_graph_param *param)
{
    return vc_hash_mix(vc_hash_text(param->tensor), param->sliced ? param->first : 0);
}

struct param_key {
    const struct vc_graph *graph;
    const struct vc_graph_param *param;
};

static bool is_same_param(const void *user, size_t number)
{
    const struct param_key *key = user;
    const struct vc_graph_param *param = key->param;
    const struct vc_graph_param *other = &key->graph->params[number];

    return strcmp(other->tensor, param->tensor) == 0 && other->sliced == param->sliced &&
           (!param->sliced ||
            (other->axis == param->axis && other->first == param->first && other->count == param->count));
}

/* Of several parameters that are the same elements of a tensor, the later ones are tied to the first (an embedding
 * that is the output layer, too): sums count it once, and training gives it one gradient. */
static enum vc_status tie(struct vc_graph *graph)
{
    struct vc_hash_table firsts = {.slots = NULL};
    enum vc_status status = VC_OK;

    VC_TRY(vc_hash_make(graph->ctx, graph->n_params, &firsts));
    for (uint32_t p = 0; p < graph->n_params; p++) {
        const struct param_key key = {graph, &graph->params[p]};
        uint64_t hash = hash_of_param(&graph->params[p]);
        size_t first = vc_hash_find(&firsts, hash, is_same_param, &key);

        if (first == SIZE_MAX) {
            vc_hash_add(&firsts, hash, p);
        } else {
            graph->params[p].tied_to = (uint32_t)first;
        }
    }
out:
    vc_hash_release(graph->ctx, &firsts);
    return status;
}

/* The table of names has old numbers: it is made again. */
static enum vc_status index_names(struct vc_graph *graph)
{
    VC_CALL(vc_hash_make(graph->ctx, graph->n_values, &graph->by_name));
    for (uint32_t v = 0; v < graph->n_values; v++) {
        vc_hash_add(&graph->by_name, vc_hash_text(graph->values[v].name), v);
    }
    return VC_OK;
}

/* make_constants first: it frees nodes that mark() then finds without use. */
static enum vc_status sweep_graph(struct vc_graph *graph)
{
    struct vc_ctx *ctx = graph->ctx;
    struct sweep sweep = {.graph = graph};
    enum vc_status status = VC_OK;

    make_constants(graph);
    VC_TRY(graph->status);
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, sweep.node, graph->n_nodes + (size_t)1));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, sweep.uses, graph->n_values + (size_t)1));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, sweep.number, graph->n_values + (size_t)1));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, sweep.params, graph->n_params + (size_t)1));
    mark(&sweep);
    renumber(&sweep);
    VC_TRY(graph->status);
    VC_TRY(index_names(graph));
    VC_TRY(tie(graph));
out:
    VC_FREE_ALL(ctx, sweep.node, sweep.uses, sweep.number, sweep.params);
    return status;
}

/* An unknown value without a problem would be our own fault; it is refused all the same, before anyone reads its
 * shape. */
enum vc_status vc_graph_finish(struct vc_graph *graph, struct vc_graph **out)
{
    struct vc_ctx *ctx = graph->ctx;
    enum vc_status status = graph->status;

    *out = NULL;
    if (status == VC_OK && graph->dims.no_memory) {
        status = VC_E_NOMEM;
    }
    VC_TRY(status);
    if (graph->n_problems == 0 && graph->n_outputs == 0) {
        vc_graph_complain(graph, "the graph has no outputs");
    }
    if (graph->n_problems != 0) {
        *out = graph;
        return vc_fail(ctx, VC_E_FORMAT, "%s", graph->problems[0]);
    }
    vc_graph_write_note(graph);
    VC_TRY(sweep_graph(graph));
    for (uint32_t v = 0; v < graph->n_values; v++) { /* each has a problem that was noted; this one has not */
        if (graph->facts[v].unknown && graph->values[v].n_uses != 0) {
            vc_graph_complain(graph, "%s: its shape cannot be told", graph->values[v].name);
            *out = graph;
            return vc_fail(ctx, VC_E_FORMAT, "%s", graph->problems[0]);
        }
    }
    graph->batch = vc_graph_batch_symbol(graph);
    *out = graph;
    return VC_OK;
out:
    vc_graph_close(graph);
    return status;
}
