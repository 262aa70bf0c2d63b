/* graph_answer.c - see graph_answer.h: the way back from the output to its function, and the logits in its
 * shape.
 *
 *     out <- Flatten <- Clip <- Softmax(1) <- l [n, 10, 1, 1]       walk: two nodes on the path, then the function
 *     axis 1 of l  -Flatten->  axis 1 of out                        follow: forwards along the path
 *     logits l: nothing moves, and no elements are behind the axis  take_shares
 *
 * Nodes are added only if the elements have to be moved, or the logarithm is needed; graph->logits
 * remembers the result, so that a second call adds nothing. */
#include "graph/answers/answer_path.h"
#include "graph/builder/builder.h"

#define LEAST_SHARE 0x1p-126 /* smaller shares are raised to it before the Log: the least normal f32 */

/* Nodes between the function and the output, the last one first. */
struct path {
    struct vc_graph *graph;
    uint32_t nodes[VC_ANSWER_STEPS];
    unsigned n;
    bool moves;   /* one of them changes the order of the elements */
    uint32_t end; /* what the function makes */
};

/* ---- the way back ---- */

/* True if the walk stops at v: it is given, or it is made by a function (out->function, shares). */
static bool ends_here(const struct vc_graph *graph, uint32_t v, struct vc_graph_answer *out,
                      struct vc_answer_shares *shares)
{
    const struct vc_graph_node *node = vc_answer_maker(graph, v);

    if (node == NULL || node->row == NULL) {
        return true;
    }
    if (vc_answer_is_shares(graph, v, shares)) {
        out->function = shares->logits != VC_NO_VALUE ? VC_ANSWER_SOFTMAX : VC_ANSWER_LOGARITHM;
        return true;
    }
    if (vc_node_is(node, VC_OP_sigmoid)) {
        out->function = VC_ANSWER_SIGMOID;
        shares->logits = node->inputs[0];
        return true;
    }
    return false;
}

/* From the output back over nodes that move elements or hardly change them; the path has these nodes,
 * path->end what the function made. Without a function, path->end is where the walk stopped. */
static void walk(struct path *path, struct vc_graph_answer *out, struct vc_answer_shares *shares)
{
    const struct vc_graph *graph = path->graph;
    uint32_t v = out->value;

    while (!ends_here(graph, v, out, shares) && path->n < VC_ANSWER_STEPS) {
        const struct vc_graph_node *node = vc_answer_maker(graph, v);
        bool moves;
        uint32_t before = vc_answer_before_move(graph, node, &moves);

        before = before == VC_NO_VALUE ? vc_answer_before_scale(graph, node) : before;
        if (before == VC_NO_VALUE) {
            break;
        }
        path->moves = path->moves || moves;
        path->nodes[path->n++] = graph->values[v].node;
        v = before;
    }
    path->end = v;
}

/* Follows the axis of the function forwards to the output. Nodes that only scale keep axes. False: a
 * Reshape divided the axis. */
static bool follow(struct path *path, unsigned *axis)
{
    struct vc_graph *graph = path->graph;
    bool found = true;

    for (unsigned k = path->n; found && k-- > 0;) {
        const struct vc_graph_node *node = &graph->nodes[path->nodes[k]];
        bool moves;

        found = (vc_answer_before_move(graph, node, &moves) == VC_NO_VALUE) || vc_node_is(node, VC_OP_dequantize) ||
                vc_answer_follow(graph, node, axis);
    }
    return found;
}

/* ---- nodes that are added ---- */

/* Adds a node and counts the uses of its inputs, which a finished graph has counted already. */
static uint32_t add(struct path *path, const char *op, const uint32_t *inputs, unsigned n,
                    const struct vc_graph_attr *attrs, unsigned n_attrs)
{
    struct vc_graph *graph = path->graph;
    const struct vc_node_spec spec = {
        .op = op, .inputs = inputs, .n_inputs = n, .n_outputs = 1, .attrs = attrs, .n_attrs = n_attrs};

    for (unsigned k = 0; k < n; k++) {
        if (inputs[k] == VC_NO_VALUE) {
            return VC_NO_VALUE;
        }
        graph->values[inputs[k]].n_uses++;
    }
    return vc_graph_add_node(graph, &spec);
}

/* The moves of the path once more, for other elements (the logits): what reshapes or transposes shares has
 * to do so with logits. Nodes that only scale, and codes, are left out. */
static uint32_t repeat_moves(struct path *path, uint32_t v)
{
    struct vc_graph *graph = path->graph;

    for (unsigned k = path->n; v != VC_NO_VALUE && k-- > 0;) {
        struct vc_graph_node node = graph->nodes[path->nodes[k]]; /* a copy: the list grows */
        uint32_t inputs[5];
        bool moves;

        if (vc_answer_before_move(graph, &node, &moves) == VC_NO_VALUE || node.n_inputs > 5 ||
            vc_node_is(&node, VC_OP_dequantize)) {
            continue;
        }
        for (unsigned i = 0; i < node.n_inputs; i++) {
            inputs[i] = i == 0 ? v : node.inputs[i];
        }
        v = add(path, node.op, inputs, node.n_inputs, node.attrs, node.n_attrs);
    }
    return v;
}

/* Transposes so that `axis` is the last, and the others keep their order. */
static uint32_t add_last(struct path *path, uint32_t v, unsigned axis)
{
    unsigned n = path->graph->values[v].n_dims;
    int64_t perm[VC_GRAPH_MAX_DIMS];
    unsigned at = 0;

    for (unsigned k = 0; k < n; k++) {
        if (k != axis) {
            perm[at++] = k;
        }
    }
    perm[at] = axis;
    struct vc_graph_attr attr = vc_attr_ints("perm", perm, n);
    return add(path, "Transpose", &v, 1, &attr, 1);
}

/* log(max(share, LEAST_SHARE)): its Softmax is the share again, since exp(log p) / sum of p = p. */
static uint32_t add_logarithm(struct path *path)
{
    uint32_t in[2] = {path->end, vc_graph_add_float(path->graph, LEAST_SHARE)};
    uint32_t v = add(path, "Clip", in, 2, NULL, 0);

    return add(path, "Log", &v, 1, NULL, 0);
}

/* A single number z as the logits (0, z) of two classes: sigmoid(z) = exp(z) / (exp(0) + exp(z)). A Pad
 * puts the 0 in front of the last axis, which an Unsqueeze makes if it has more than one element. */
static uint32_t add_pair(struct path *path, uint32_t v)
{
    struct vc_graph *graph = path->graph;
    unsigned n = graph->values[v].n_dims;
    int64_t pads[2 * VC_GRAPH_MAX_DIMS + 2] = {0};
    uint32_t in[2];

    if (n == 0 || graph->values[v].shape[n - 1].size != 1) {
        int64_t last = -1;

        in[0] = v;
        in[1] = vc_graph_add_ints(graph, &last, 1);
        v = add(path, "Unsqueeze", in, 2, NULL, 0);
        n++;
    }
    pads[n - 1] = 1;
    in[0] = v;
    in[1] = vc_graph_add_ints(graph, pads, 2 * (size_t)n);
    return add(path, "Pad", in, 2, NULL, 0);
}

/* ---- the answer ---- */

/* Shares along `axis` of path->end: their logits, with classes as the last axis. MIXED if the axis is lost,
 * holds the rows of data (axis 0), or has one element. */
static void take_shares(struct path *path, const struct vc_answer_shares *shares, struct vc_graph_answer *out)
{
    struct vc_graph *graph = path->graph;
    unsigned axis = shares->axis;
    uint32_t v = shares->logits;

    out->classes = graph->values[path->end].shape[axis];
    if (!follow(path, &axis) || axis == 0 || out->classes.size < 2) {
        out->function = VC_ANSWER_MIXED;
        return;
    }
    bool last = vc_dim_value(&graph->dims, vc_answer_behind(graph, out->value, axis)) == 1;
    if (graph->logits[out->output] != 0) {
        out->logits = graph->logits[out->output] - 1;
        return;
    }
    if (v != VC_NO_VALUE && !path->moves && last) {
        out->logits = v;
        return;
    }
    v = v == VC_NO_VALUE ? add_logarithm(path) : v;
    v = path->moves ? repeat_moves(path, v) : v;
    out->logits = last || v == VC_NO_VALUE ? v : add_last(path, v, axis);
    graph->logits[out->output] = out->logits + 1;
}

/* Each number is a share of its own (SIGMOID), or no share at all (NONE). pairs: a single number becomes
 * two classes. */
static void take_numbers(struct path *path, uint32_t v, bool pairs, struct vc_graph_answer *out)
{
    struct vc_graph *graph = path->graph;
    bool adds = out->single ? pairs : out->function == VC_ANSWER_SIGMOID && path->moves;

    if (adds && graph->logits[out->output] == 0) {
        v = v != out->value && path->moves ? repeat_moves(path, v) : v;
        v = out->single ? add_pair(path, v) : v;
        graph->logits[out->output] = v + 1;
    }
    out->logits = adds ? graph->logits[out->output] - 1 : v;
}

/* One number for each row, or for each position of a row. */
static bool is_single(const struct vc_graph *graph, const struct vc_graph_value *value)
{
    bool ones = true;

    for (unsigned k = 1; k < value->n_dims; k++) {
        ones = ones && vc_dim_value(&graph->dims, value->shape[k]) == 1;
    }
    return ones || (value->n_dims == 3 && vc_dim_value(&graph->dims, value->shape[2]) == 1);
}

/* The output of that number, or the first one of floats with a dimension. Otherwise a sentence about the first output. */
static enum vc_status choose_output(struct vc_ctx *ctx, const struct vc_graph *graph, uint32_t output,
                                    struct vc_graph_answer *out)
{
    const struct vc_graph_value *first = graph->n_outputs != 0 ? &graph->values[graph->outputs[0]] : NULL;
    const struct vc_graph_node *node = graph->n_outputs != 0 ? vc_answer_maker(graph, graph->outputs[0]) : NULL;

    for (uint32_t k = 0; k < graph->n_outputs && k < VC_GRAPH_ANSWERS; k++) {
        const struct vc_graph_value *value = &graph->values[graph->outputs[k]];

        if ((output == VC_NO_VALUE || output == k) && value->dtype == VC_DTYPE_F32 && value->n_dims != 0) {
            out->output = k;
            out->value = graph->outputs[k];
            return VC_OK;
        }
    }
    VC_REFUSE_IF(first == NULL, ctx, VC_E_UNSUPPORTED, "the graph has no outputs");
    VC_REFUSE_IF(output != VC_NO_VALUE, ctx, VC_E_UNSUPPORTED, "the output %s is no floats for each row",
                 graph->values[graph->outputs[output]].name);
    VC_REFUSE_IF(first->dtype == VC_DTYPE_F32, ctx, VC_E_UNSUPPORTED, "the output %s is one number for all rows",
                 first->name);
    return vc_fail(ctx, VC_E_UNSUPPORTED,
                   "the output %s has integers%s%s: the answers themselves, where logits or values are needed",
                   first->name, node != NULL ? ", made by " : "", node != NULL ? node->op : "");
}

/* Nodes that were added may have problems of their own (a rank above VC_GRAPH_MAX_DIMS): these are refused
 * at the end. */
enum vc_status vc_graph_find_answer(struct vc_ctx *ctx, struct vc_graph *graph, uint32_t output, bool pairs,
                                    struct vc_graph_answer *out)
{
    struct vc_answer_shares shares = {.logits = VC_NO_VALUE};
    struct path path = {.graph = graph};

    *out = (struct vc_graph_answer){.logits = VC_NO_VALUE};
    VC_CALL(choose_output(ctx, graph, output, out));
    walk(&path, out, &shares);
    if (out->function == VC_ANSWER_SOFTMAX || out->function == VC_ANSWER_LOGARITHM) {
        take_shares(&path, &shares, out);
    } else {
        out->single = is_single(graph, &graph->values[out->value]);
        take_numbers(&path, out->function == VC_ANSWER_SIGMOID ? shares.logits : out->value, pairs, out);
    }
    out->ending = out->function == VC_ANSWER_NONE || out->function == VC_ANSWER_SIGMOID
                      ? vc_answer_ending(graph, out->value)
                      : NULL;
    if (out->function != VC_ANSWER_MIXED && out->logits == VC_NO_VALUE) {
        return graph->status != VC_OK ? graph->status : VC_E_NOMEM;
    }
    return graph->n_problems == 0 ? VC_OK : vc_fail(ctx, VC_E_UNSUPPORTED, "%s", graph->problems[0]);
}

uint32_t vc_graph_answer_last(struct vc_graph *graph, const struct vc_graph_answer *found, unsigned axis)
{
    struct path path = {.graph = graph};

    if (graph->logits[found->output] == 0) {
        graph->logits[found->output] = add_last(&path, found->value, axis) + 1; /* VC_NO_VALUE + 1 is 0 */
    }
    return graph->logits[found->output] - 1;
}

/* Flatten makes rows of each value, Concat one row of all. */
uint32_t vc_graph_answer_join(struct vc_graph *graph, const uint32_t *values, unsigned n)
{
    struct path path = {.graph = graph};
    struct vc_graph_attr axis = vc_attr_int("axis", 1);
    uint32_t rows[VC_GRAPH_ANSWERS];

    for (unsigned k = 0; graph->joined == 0 && k < n; k++) {
        rows[k] = graph->values[values[k]].n_dims == 2 ? values[k] : add(&path, "Flatten", &values[k], 1, &axis, 1);
    }
    graph->joined = graph->joined == 0 ? add(&path, "Concat", rows, n, &axis, 1) + 1 : graph->joined;
    return graph->joined - 1;
}
