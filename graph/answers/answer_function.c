/* answer_function.c - nodes that make shares: Softmax, also written out, and what is made of shares. See
 * answer_path.h.
 *
 *     Softmax(l), Exp(LogSoftmax(l))                              logits l, or x of the LogSoftmax
 *     Div(e, ReduceSum(e)), e = Exp(l - ReduceMax(l))             logits l
 *     Mul(e, Reciprocal(ReduceSum(e)))                            the same
 *     Div(r, ReduceSum(r)), r = Relu(x)                           shares, no logits: the caller takes the logarithm
 *     Concat(1 - p, p), p = Sigmoid(z); Mean of several networks  shares, no logits
 *
 * find_shares looks at the node itself, then, inside of another form, through nodes that leave elements
 * alone. */
#include "graph/answers/answer_path.h"

#define MOST_DEPTH 8 /* shares that are made of shares: Log of a Mean of Softmax of ... */

static bool find_shares(const struct vc_graph *graph, uint32_t v, unsigned depth, struct vc_answer_shares *shares);

/* ---- axes ---- */

/* The node's attribute axis, from 0; false if it is out of range. */
static bool own_axis(const struct vc_graph *graph, const struct vc_graph_node *node, unsigned *axis)
{
    int64_t n = (int64_t)graph->values[node->outputs[0]].n_dims;
    int64_t k = vc_node_int(node, "axis", -1);

    *axis = (unsigned)(k < 0 ? k + n : k);
    return *axis < n;
}

/* The one axis that the node sums along or takes the largest of. False if there are several, or none is
 * constant. */
static bool reduced_axis(const struct vc_graph *graph, const struct vc_graph_node *node, unsigned *axis)
{
    uint32_t axes = vc_answer_in(node, 1);
    int64_t n = (int64_t)graph->values[node->inputs[0]].n_dims;

    if (axes == VC_NO_VALUE || graph->values[axes].data == NULL || graph->values[axes].n_dims > 1 ||
        (graph->values[axes].n_dims == 1 && graph->values[axes].shape[0].size != 1)) {
        return false;
    }
    int64_t k = *(const int64_t *)graph->values[axes].data;
    *axis = (unsigned)(k < 0 ? k + n : k);
    return *axis < n;
}

/* ---- sums that a row is divided by ---- */

/* What an operand is made of, if between only shapes change, elements are repeated, or a bound keeps a sum
 * from 0: Max(sum, 1e-9), Add(sum, 1e-9), Clip. */
static uint32_t before_shape(const struct vc_graph *graph, uint32_t v)
{
    for (unsigned k = 0; k < VC_ANSWER_STEPS; k++) {
        const struct vc_graph_node *node = vc_answer_maker(graph, v);
        bool moves = false;
        uint32_t before = node != NULL ? vc_answer_before_move(graph, node, &moves) : VC_NO_VALUE;

        if (node != NULL &&
            (vc_node_is(node, VC_OP_expand) || vc_node_is(node, VC_OP_tile) || vc_node_is(node, VC_OP_clip))) {
            before = vc_answer_in(node, 0);
        }
        for (unsigned i = 0; node != NULL && i < 2 && node->n_inputs == 2 && before == VC_NO_VALUE; i++) {
            bool bounds = vc_node_is(node, VC_OP_max) || vc_node_is(node, VC_OP_add);

            before = bounds && vc_answer_is_fixed(graph, node->inputs[i]) ? node->inputs[1 - i] : VC_NO_VALUE;
        }
        if (before == VC_NO_VALUE || moves) {
            break;
        }
        v = before;
    }
    return v;
}

/* True if the operand is the sum of `of` along *axis; inverse: 1 over this sum, as Reciprocal or Div. */
static bool is_sum_of(const struct vc_graph *graph, uint32_t v, uint32_t of, bool inverse, unsigned *axis)
{
    const struct vc_graph_node *node = vc_answer_maker(graph, before_shape(graph, v));
    double one;

    if (inverse && node != NULL && vc_node_is(node, VC_OP_reciprocal)) {
        return is_sum_of(graph, node->inputs[0], of, false, axis);
    }
    if (inverse) {
        return node != NULL && vc_node_is(node, VC_OP_div) && vc_answer_number(graph, node->inputs[0], &one) &&
               is_sum_of(graph, node->inputs[1], of, false, axis);
    }
    return node != NULL && vc_node_is(node, VC_OP_reduce_sum) &&
           vc_answer_unmoved(graph, node->inputs[0]) == vc_answer_unmoved(graph, of) &&
           vc_answer_same_shape(graph, node->inputs[0], of) && reduced_axis(graph, node, axis);
}

/* ---- exponentials ---- */

/* True if the operand is one number for all elements along the axis of x: ReduceMax(x), or a value of size
 * 1 there. */
static bool is_common(const struct vc_graph *graph, uint32_t v, uint32_t x, unsigned axis)
{
    const struct vc_graph_value *value = &graph->values[v];
    unsigned back = graph->values[x].n_dims - axis; /* axes are counted from the last one */
    const struct vc_graph_node *node = vc_answer_maker(graph, before_shape(graph, v));
    unsigned of;

    if (back > value->n_dims || value->shape[value->n_dims - back].size == 1) {
        return true;
    }
    return node != NULL &&
           (vc_node_is(node, VC_OP_reduce_max) || vc_node_is(node, VC_OP_reduce_log_sum_exp) ||
            vc_node_is(node, VC_OP_reduce_mean)) &&
           vc_answer_same_shape(graph, node->inputs[0], x) && reduced_axis(graph, node, &of) && of == axis;
}

/* x of x - max(x): a number that all along the axis have in common changes no share. Other values are
 * returned as they are. */
static uint32_t without_common(const struct vc_graph *graph, uint32_t v, unsigned axis)
{
    uint32_t before = vc_answer_unmoved(graph, v);
    const struct vc_graph_node *node = vc_answer_maker(graph, before);
    bool subtracts = node != NULL && vc_node_is(node, VC_OP_sub) && vc_answer_same_shape(graph, before, v);

    return subtracts && vc_answer_same_shape(graph, node->inputs[0], v) &&
                   is_common(graph, node->inputs[1], node->inputs[0], axis)
               ? node->inputs[0]
               : v;
}

/* True if v is the logarithm of shares: LogSoftmax, x - ReduceLogSumExp(x), x - Log(ReduceSum(Exp(x))). */
static bool is_log_shares(const struct vc_graph *graph, uint32_t v, unsigned *axis)
{
    const struct vc_graph_node *node = vc_answer_maker(graph, v);

    if (node == NULL || !(vc_node_is(node, VC_OP_sub) || vc_node_is(node, VC_OP_log_softmax))) {
        return false;
    }
    if (vc_node_is(node, VC_OP_log_softmax)) {
        return own_axis(graph, node, axis);
    }
    const struct vc_graph_node *sum = vc_answer_maker(graph, before_shape(graph, node->inputs[1]));
    if (sum != NULL && vc_node_is(sum, VC_OP_reduce_log_sum_exp)) {
        return sum->inputs[0] == node->inputs[0] && reduced_axis(graph, sum, axis);
    }
    if (sum != NULL && vc_node_is(sum, VC_OP_log)) {
        const struct vc_graph_node *reduce = vc_answer_maker(graph, before_shape(graph, sum->inputs[0]));
        const struct vc_graph_node *exp =
            reduce != NULL && vc_node_is(reduce, VC_OP_reduce_sum) ? vc_answer_maker(graph, reduce->inputs[0]) : NULL;

        return exp != NULL && vc_node_is(exp, VC_OP_exp) && exp->inputs[0] == node->inputs[0] &&
               reduced_axis(graph, reduce, axis);
    }
    return false;
}

/* ---- shares ---- */

/* True if the value cannot be negative by the operator that makes it: only such numbers over their sum are
 * shares. */
static bool is_positive(const struct vc_graph *graph, uint32_t v)
{
    const struct vc_graph_node *node = vc_answer_maker(graph, vc_answer_unmoved(graph, v));
    double least;

    if (node == NULL) {
        return false;
    }
    if (vc_node_is(node, VC_OP_clip)) {
        return vc_answer_number(graph, vc_answer_in(node, 1), &least) && least >= 0;
    }
    if (vc_node_is(node, VC_OP_add) && vc_answer_number(graph, node->inputs[1], &least)) {
        return least >= 0 && is_positive(graph, node->inputs[0]);
    }
    return vc_node_is(node, VC_OP_relu) || vc_node_is(node, VC_OP_softplus) || vc_node_is(node, VC_OP_sigmoid) ||
           vc_node_is(node, VC_OP_abs) || vc_node_is(node, VC_OP_exp) ||
           (vc_node_is(node, VC_OP_mul) && node->inputs[0] == node->inputs[1]);
}

/* Numbers over their sum. shares->logits is set if the numbers are exponentials. */
static bool find_quotient(const struct vc_graph *graph, const struct vc_graph_node *node,
                          struct vc_answer_shares *shares)
{
    bool inverse = vc_node_is(node, VC_OP_mul);

    for (unsigned k = 0; k < (inverse ? 2U : 1U); k++) {
        uint32_t x = node->inputs[k];

        if (!vc_answer_same_shape(graph, x, node->outputs[0]) ||
            !is_sum_of(graph, node->inputs[1 - k], x, inverse, &shares->axis)) {
            continue;
        }
        const struct vc_graph_node *exp = vc_answer_maker(graph, vc_answer_unmoved(graph, x));
        shares->logits = VC_NO_VALUE;
        if (exp != NULL && vc_node_is(exp, VC_OP_exp) && vc_answer_same_shape(graph, exp->inputs[0], x)) {
            shares->logits = without_common(graph, exp->inputs[0], shares->axis);
        }
        return shares->logits != VC_NO_VALUE || is_positive(graph, x);
    }
    return false;
}

/* True if the Concat has the chances of two classes: 1 - p and p, with p of a Sigmoid. */
static bool is_pair(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    for (unsigned k = 0; node->n_inputs == 2 && k < 2; k++) {
        const struct vc_graph_node *rest = vc_answer_maker(graph, vc_answer_unmoved(graph, node->inputs[k]));
        uint32_t p = vc_answer_unmoved(graph, node->inputs[1 - k]);
        const struct vc_graph_node *made = vc_answer_maker(graph, p);
        double one = 0;

        if (rest != NULL && made != NULL && vc_node_is(rest, VC_OP_sub) && vc_node_is(made, VC_OP_sigmoid) &&
            vc_answer_number(graph, rest->inputs[0], &one) && one == 1 &&
            vc_answer_unmoved(graph, rest->inputs[1]) == p) {
            return true;
        }
    }
    return false;
}

/* A sum or mean of shares along one axis: ensembles. The sum is not 1 for Add, but the logarithm has the
 * same Softmax. */
static bool find_sum(const struct vc_graph *graph, const struct vc_graph_node *node, unsigned depth,
                     struct vc_answer_shares *shares)
{
    for (unsigned k = 0; k < node->n_inputs; k++) {
        struct vc_answer_shares one;

        if (!vc_answer_same_shape(graph, node->inputs[k], node->outputs[0]) ||
            !find_shares(graph, node->inputs[k], depth + 1, &one) || (k != 0 && one.axis != shares->axis)) {
            return false;
        }
        shares->axis = one.axis;
    }
    shares->logits = VC_NO_VALUE;
    return true;
}

/* Softmax and its logarithm; shares by the operator. */
static bool find_by_operator(const struct vc_graph *graph, const struct vc_graph_node *node, unsigned depth,
                             struct vc_answer_shares *shares)
{
    uint32_t x = node->inputs[0];

    switch (node->row->op) {
    case VC_OP_softmax:
        shares->logits = x;
        return own_axis(graph, node, &shares->axis);
    case VC_OP_log_softmax:
        shares->logits = node->outputs[0];
        return own_axis(graph, node, &shares->axis);
    case VC_OP_log:
        return find_shares(graph, x, depth + 1, shares);
    case VC_OP_exp:
        shares->logits = is_log_shares(graph, x, &shares->axis) ? without_common(graph, x, shares->axis) : VC_NO_VALUE;
        return shares->logits != VC_NO_VALUE;
    case VC_OP_div:
    case VC_OP_mul:
        return find_quotient(graph, node, shares);
    case VC_OP_add:
        return find_sum(graph, node, depth, shares);
    case VC_OP_concat:
        shares->logits = VC_NO_VALUE;
        return is_pair(graph, node) && own_axis(graph, node, &shares->axis);
    default:
        return false;
    }
}

static bool find_shares(const struct vc_graph *graph, uint32_t v, unsigned depth, struct vc_answer_shares *shares)
{
    const struct vc_graph_node *node = vc_answer_maker(graph, v);
    bool moves = false;

    if (node == NULL || node->row == NULL || depth > MOST_DEPTH) {
        return false;
    }
    if (node->n_inputs != 0 && node->n_outputs != 0 && find_by_operator(graph, node, depth, shares)) {
        return true;
    }
    uint32_t before = vc_answer_before_move(graph, node, &moves);
    before = before == VC_NO_VALUE ? vc_answer_before_scale(graph, node) : before;
    return depth != 0 && before != VC_NO_VALUE && !moves && vc_answer_same_shape(graph, before, v) &&
           find_shares(graph, before, depth + 1, shares);
}

bool vc_answer_is_shares(const struct vc_graph *graph, uint32_t v, struct vc_answer_shares *shares)
{
    return find_shares(graph, v, 0, shares);
}
