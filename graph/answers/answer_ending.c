/* answer_ending.c - what makes values that cannot be logits: activations, normalizations, sums of a
 * residual stream, averages of these. Products and convolutions, with a bias or a scale, make logits or
 * values alike: nothing is said of them. See answer_path.h.
 *
 *     MatMul, Add(bias)                 NULL: may be logits          hidden states of an encoder      "LayerNormalization"
 *     x / ReduceL2(x)                   "a division by a norm"       Add(x, f(x))                     "a sum of a value and ..."
 *
 * The name goes into a sentence of evaluate and distill: an embedding must not be judged by accuracy of
 * classes. */
#include "graph/answers/answer_path.h"

#define MOST_FORKS 8 /* parts of a Concat within parts */

static const char *ending(const struct vc_graph *graph, uint32_t v, unsigned forks);

/* ---- norms ---- */

/* True if the value is a norm that others are divided by: a Sqrt (Pow of 0.5) of a sum or
 * mean, through nodes that only reshape or bound it. */
static bool is_norm(const struct vc_graph *graph, uint32_t v)
{
    bool root = false;

    for (unsigned k = 0; k < VC_ANSWER_STEPS; k++) {
        const struct vc_graph_node *node = vc_answer_maker(graph, v);

        if (node == NULL || node->row == NULL || node->n_inputs == 0) {
            return false;
        }
        switch (node->row->op) {
        case VC_OP_reduce_sum:
        case VC_OP_reduce_mean:
            return root;
        case VC_OP_sqrt:
        case VC_OP_pow: /* of 0.5, or of -0.5 */
            root = true;
            break;
        case VC_OP_add:
        case VC_OP_max:
        case VC_OP_clip:
        case VC_OP_expand:
        case VC_OP_tile:
        case VC_OP_reshape:
        case VC_OP_unsqueeze:
        case VC_OP_identity:
        case VC_OP_reciprocal:
        case VC_OP_abs:
            break;
        default:
            return false;
        }
        v = vc_answer_is_fixed(graph, node->inputs[0]) && node->n_inputs > 1 ? node->inputs[1] : node->inputs[0];
    }
    return false;
}

/* ---- sums ---- */

/* True if a is computed from b: marks what a needs, backwards from a's node to b's. False if memory is
 * short. */
static bool is_made_of(const struct vc_graph *graph, uint32_t a, uint32_t b)
{
    uint32_t first = graph->values[b].node;
    uint32_t last = graph->values[a].node;
    bool *reached;
    bool found = false;

    if (first == VC_NO_NODE || last == VC_NO_NODE || first > last) {
        return false;
    }
    reached = vc_calloc_array(graph->ctx, VC_TAG_MISC, graph->n_values, sizeof *reached);
    if (reached == NULL) {
        return false;
    }
    reached[a] = true;
    for (uint32_t n = last + 1; n-- > first;) {
        const struct vc_graph_node *node = &graph->nodes[n];
        bool needed = false;

        for (unsigned k = 0; k < node->n_outputs; k++) {
            needed = needed || (node->outputs[k] != VC_NO_VALUE && reached[node->outputs[k]]);
        }
        for (unsigned k = 0; needed && k < node->n_inputs; k++) {
            if (node->inputs[k] != VC_NO_VALUE) {
                reached[node->inputs[k]] = true;
            }
        }
    }
    found = reached[b];
    vc_free(graph->ctx, reached);
    return found;
}

static bool makes_products(const struct vc_graph *graph, uint32_t v)
{
    const struct vc_graph_node *node = vc_answer_maker(graph, v);

    return node != NULL && (vc_node_is(node, VC_OP_matmul) || vc_node_is(node, VC_OP_gemm) ||
                            vc_node_is(node, VC_OP_conv) || vc_node_is(node, VC_OP_einsum));
}

/* The operand that is computed, where the other one is a constant or a parameter; VC_NO_VALUE: both are computed. */
static uint32_t computed(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    return vc_answer_is_fixed(graph, node->inputs[1])   ? node->inputs[0]
           : vc_answer_is_fixed(graph, node->inputs[0]) ? node->inputs[1]
                                                        : VC_NO_VALUE;
}

/* ---- activations ---- */

/* tanh(x / c) * c keeps logits within c (Gemma 2): no activation. */
static bool is_soft_cap(const struct vc_graph *graph, const struct vc_graph_node *tanh)
{
    const struct vc_graph_node *scale = vc_answer_maker(graph, tanh->inputs[0]);
    double c;

    return scale != NULL && (vc_node_is(scale, VC_OP_div) || vc_node_is(scale, VC_OP_mul)) &&
           (vc_answer_number(graph, scale->inputs[1], &c) || vc_answer_number(graph, scale->inputs[0], &c));
}

/* True for operators of one element and for norms: their results are no logits. Log is left out: it mostly
 * takes shares. */
static bool is_activation(const struct vc_graph_node *node)
{
    switch (node->row->op) {
    case VC_OP_clip:
    case VC_OP_prelu:
    case VC_OP_sign:
    case VC_OP_floor:
    case VC_OP_ceil:
    case VC_OP_round:
    case VC_OP_sin:
    case VC_OP_cos:
    case VC_OP_tan:
    case VC_OP_top_k:
    case VC_OP_layer_norm:
    case VC_OP_rms_norm:
    case VC_OP_instance_norm:
    case VC_OP_group_norm:
        return true;
    case VC_OP_log: /* of shares, most often */
        return false;
    default:
        return (node->row->eager & VC_OP_ONE_BY_ONE) != 0;
    }
}

/* ---- products and quotients by elements ---- */

/* A product with a fixed factor scales what its other side is. Of two computed sides: a division by a norm,
 * x * sigmoid(x). */
static const char *of_product(const struct vc_graph *graph, const struct vc_graph_node *node, unsigned forks)
{
    uint32_t x = computed(graph, node);
    const struct vc_graph_node *inner;

    for (unsigned k = 0; x == VC_NO_VALUE && k < 2; k++) {
        inner = vc_answer_maker(graph, node->inputs[k]);
        if (is_norm(graph, node->inputs[k])) {
            return "a division by a norm";
        }
        if (inner != NULL && vc_node_is(inner, VC_OP_sigmoid) && inner->inputs[0] == node->inputs[1 - k]) {
            return "x sigmoid(x)";
        }
    }
    if (x == VC_NO_VALUE) {
        return NULL;
    }
    inner = vc_answer_maker(graph, x);
    return inner == NULL || inner->row == NULL ||
                   (vc_node_is(inner, VC_OP_tanh) && is_soft_cap(graph, inner) && vc_node_is(node, VC_OP_mul))
               ? NULL
               : ending(graph, x, forks);
}

/* Sum(x * mask) / Sum(mask) is the mean over tokens that count: looks at x, the side with three dimensions. */
static const char *of_quotient(const struct vc_graph *graph, const struct vc_graph_node *node, unsigned forks)
{
    const struct vc_graph_node *sum = vc_answer_maker(graph, node->inputs[0]);

    if (is_norm(graph, node->inputs[1])) {
        return "a division by a norm";
    }
    if (sum != NULL && vc_node_is(sum, VC_OP_reduce_sum)) { /* the mean of those that a mask leaves */
        const struct vc_graph_node *product = vc_answer_maker(graph, sum->inputs[0]);

        return product != NULL && vc_node_is(product, VC_OP_mul)
                   ? ending(graph,
                            vc_answer_maker(graph, product->inputs[0]) != NULL &&
                                    graph->values[product->inputs[0]].n_dims >= 3
                                ? product->inputs[0]
                                : product->inputs[1],
                            forks)
                   : ending(graph, sum->inputs[0], forks);
    }
    return vc_answer_is_fixed(graph, node->inputs[1]) ? ending(graph, node->inputs[0], forks) : NULL;
}

/* A bias adds nothing; a sum of x and what is computed from x is a residual stream. */
static const char *of_sum(const struct vc_graph *graph, const struct vc_graph_node *node, unsigned forks)
{
    uint32_t x = computed(graph, node);

    if (x != VC_NO_VALUE) {
        return ending(graph, x, forks);
    }
    return is_made_of(graph, node->inputs[0], node->inputs[1]) || is_made_of(graph, node->inputs[1], node->inputs[0])
               ? "a sum of a value and of what it becomes"
               : NULL;
}

/* A Concat is not logits if one of its parts is not: the reason, NULL if all are. */
static const char *of_parts(const struct vc_graph *graph, const struct vc_graph_node *node, unsigned forks)
{
    const char *found = NULL;

    for (unsigned k = 0; found == NULL && forks < MOST_FORKS && k < node->n_inputs && k < MOST_FORKS; k++) {
        found = ending(graph, node->inputs[k], forks + 1);
    }
    return found;
}

/* ---- the way back ---- */

static bool pools(const struct vc_graph_node *node)
{
    return vc_node_is(node, VC_OP_reduce_mean) || vc_node_is(node, VC_OP_reduce_sum) ||
           vc_node_is(node, VC_OP_reduce_max) || vc_node_is(node, VC_OP_global_average_pool) ||
           vc_node_is(node, VC_OP_global_max_pool) || vc_node_is(node, VC_OP_average_pool) ||
           vc_node_is(node, VC_OP_max_pool);
}

/* A part of a value: of the first token, mostly. */
static bool cuts(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    return vc_node_is(node, VC_OP_slice) || vc_node_is(node, VC_OP_split) ||
           (vc_node_is(node, VC_OP_gather) && !vc_answer_is_fixed(graph, node->inputs[0]));
}

static const char *ending(const struct vc_graph *graph, uint32_t v, unsigned forks)
{
    bool pooled = false;

    for (unsigned k = 0; k < VC_ANSWER_STEPS; k++) {
        const struct vc_graph_node *node = vc_answer_maker(graph, v);
        bool moves = false;

        if (node == NULL || node->row == NULL || node->n_inputs == 0) {
            return NULL;
        }
        uint32_t before = vc_answer_before_move(graph, node, &moves);
        if (before != VC_NO_VALUE || pools(node) || cuts(graph, node)) {
            pooled = pooled || pools(node);
            v = before != VC_NO_VALUE ? before : node->inputs[0];
            continue;
        }
        if (is_activation(node)) { /* classes of whole images are averages of Relu(Conv), too: SqueezeNet */
            return pooled && makes_products(graph, node->inputs[0]) ? NULL : node->op;
        }
        switch (node->row->op) {
        case VC_OP_mul:
            return of_product(graph, node, forks);
        case VC_OP_div:
            return of_quotient(graph, node, forks);
        case VC_OP_add:
        case VC_OP_sub:
            return of_sum(graph, node, forks);
        case VC_OP_concat:
            return of_parts(graph, node, forks);
        default:
            return NULL;
        }
    }
    return NULL;
}

const char *vc_answer_ending(const struct vc_graph *graph, uint32_t v)
{
    return ending(graph, v, 0);
}
