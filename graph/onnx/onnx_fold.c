/* onnx_fold.c - what exporters write in many nodes, as the one operator that it is. Looked for from its
 * last node backwards, when that node is added; the same in exact arithmetic, or it stays as it is.
 *
 *     Transpose(w)                                                          w, transposed
 *     d = Sub(x, ReduceMean(x)); Div(d, Sqrt(Add(ReduceMean(Pow(d, 2)), eps)))        LayerNormalization(x, 1)
 *     Mul(x, Reciprocal(Sqrt(Add(ReduceMean(Pow(x, 2)), eps))))                       RMSNormalization(x, 1)
 *     Mul(LayerNormalization(x, 1), w); Add(LayerNormalization(x, w), b)              LayerNormalization(x, w, b)
 *     0.5 * x * (1 + Erf(x / sqrt(2)))                                                Gelu(x)
 *     0.5 * x * (1 + Tanh(sqrt(2 / pi) * (x + 0.044715 * x ^ 3)))                     Gelu<approximate = "tanh">(x)
 *
 * Why: couplings know LayerNormalization (hidden units) and Gelu, the engine has loops with gradients for
 * them, and sums of a whole norm are more exact than those of its nodes. Products are compared as sets of
 * factors, so that the order in which an exporter multiplies does not matter. */
#include <math.h>

#include "graph/onnx/onnx_build.h"

#define MAX_FACTORS 8    /* of a product that may be Gelu; x appears up to four times */
#define MAX_NESTED  4    /* Mul inside Mul that is taken apart */
#define TOLERANCE   1e-6 /* of constants, which files have in f32 */

static bool is_near(double a, double b)
{
    return fabs(a - b) <= TOLERANCE * fabs(b);
}

/* ---- the nodes before a value ---- */

/* The node that makes the value, if it has that operator, else NULL. The pointer is valid until a node is
 * added.
 * A value that is unknown is made by nothing here. */
static const struct vc_graph_node *made_by(const struct vc_onnx_build *b, uint32_t value, const char *op)
{
    uint32_t node = value == VC_NO_VALUE || b->graph->facts[value].unknown ? VC_NO_NODE : b->graph->values[value].node;

    return node != VC_NO_NODE && strcmp(b->graph->nodes[node].op, op) == 0 ? &b->graph->nodes[node] : NULL;
}

/* True if the value is op(a, number), or with `either` also op(number, a): Add and Mul commute, Div and Pow
 * do not.
 * The number is a constant with one element. */
static bool with_number(const struct vc_onnx_build *b, uint32_t value, const char *op, bool either, uint32_t *a,
                        double *number)
{
    const struct vc_graph_node *node = made_by(b, value, op);

    if (node == NULL || node->n_inputs != 2) {
        return false;
    }
    for (unsigned k = 0; k < (either ? 2u : 1u); k++) {
        if (vc_onnx_scalar(b, node->inputs[1 - k], number)) {
            *a = node->inputs[k];
            return true;
        }
    }
    return false;
}

/* If the value is ReduceMean(*x) over the last n dimensions, which are kept as 1: n; else 0. The axes are
 * known elements; each has to be among the last n and stand once.
 *     ReduceMean(x, axes {-1}), x [b, s, 768]       1
 *     ReduceMean(x, axes {2, 1}), x [b, s, 768]     2
 *     ReduceMean(x, axes {1}), x [b, s, 768]        0: not the last one
 */
static unsigned mean_of(const struct vc_onnx_build *b, uint32_t value, uint32_t *x)
{
    const struct vc_graph_node *node = made_by(b, value, "ReduceMean");
    const struct vc_graph_value *in = node == NULL ? NULL : &b->graph->values[node->inputs[0]];
    uint64_t seen = 0;

    if (node == NULL || node->n_inputs != 2 || node->inputs[1] == VC_NO_VALUE ||
        b->graph->facts[node->inputs[1]].elems == NULL || b->graph->values[value].n_dims != in->n_dims) {
        return 0;
    }
    const struct vc_dim *axes = b->graph->facts[node->inputs[1]].elems;
    int64_t n = b->graph->values[node->inputs[1]].n_dims == 1 ? b->graph->values[node->inputs[1]].shape[0].size : 0;
    for (int64_t k = 0; k < n; k++) {
        int64_t axis = !vc_dim_is_number(axes[k]) ? 0 : axes[k].size + (axes[k].size < 0 ? (int64_t)in->n_dims : 0);

        if (axis < (int64_t)in->n_dims - n || axis >= (int64_t)in->n_dims || (seen >> axis & 1) != 0) {
            return 0;
        }
        seen |= (uint64_t)1 << axis;
    }
    *x = node->inputs[0];
    return (unsigned)n;
}

/* True if the value is *x squared: Mul(x, x) or Pow(x, 2). */
static bool is_square(const struct vc_onnx_build *b, uint32_t value, uint32_t *x)
{
    const struct vc_graph_node *mul = made_by(b, value, "Mul");
    double power;

    if (mul != NULL && mul->inputs[0] == mul->inputs[1]) {
        *x = mul->inputs[0];
        return true;
    }
    return with_number(b, value, "Pow", false, x, &power) && power == 2;
}

/* True if both are x - mean of the same x and mean: exporters write the difference twice, once for the
 * variance. */
static bool is_same_difference(const struct vc_onnx_build *b, uint32_t a, uint32_t c)
{
    const struct vc_graph_node *x = made_by(b, a, "Sub");
    const struct vc_graph_node *y = made_by(b, c, "Sub");

    return a == c || (x != NULL && y != NULL && x->inputs[0] == y->inputs[0] && x->inputs[1] == y->inputs[1]);
}

/* If the value is Sqrt(mean of *x squared + *epsilon): over how many last dimensions; else 0.
 * The epsilon has to be inside the root. */
static unsigned is_root(const struct vc_onnx_build *b, uint32_t value, uint32_t *x, double *epsilon)
{
    const struct vc_graph_node *root = made_by(b, value, "Sqrt");
    uint32_t mean, squares;
    unsigned n;

    if (root == NULL || !with_number(b, root->inputs[0], "Add", true, &mean, epsilon)) {
        return 0;
    }
    n = mean_of(b, mean, &squares);
    return n != 0 && is_square(b, squares, x) ? n : 0;
}

/* ---- normalizations ---- */

/* Adds op(x, scale of ones) over the last n dimensions. VC_NO_VALUE if these are not numbers, or more than
 * a million elements. The ones are replaced by the real scale when its Mul is added (fold_affine). */
static uint32_t add_norm(struct vc_onnx_build *b, const char *op, const char *output, uint32_t x, unsigned n,
                         double epsilon)
{
    const struct vc_graph_value *v = &b->graph->values[x];
    const struct vc_graph_attr attrs[2] = {vc_attr_int("axis", -(int64_t)n), vc_attr_float("epsilon", epsilon)};
    int64_t shape[VC_GRAPH_MAX_DIMS];
    uint32_t in[2] = {x, VC_NO_VALUE};
    double *ones;
    int64_t all = 1;

    for (unsigned k = 0; k < n; k++) {
        struct vc_dim d = v->shape[v->n_dims - n + k];

        if (!vc_dim_is_number(d) || d.size < 1 || d.size > VC_GRAPH_MAX_NODES / all) {
            return VC_NO_VALUE;
        }
        shape[k] = d.size;
        all *= d.size;
    }
    ones = vc_alloc_array(b->ctx, VC_TAG_NAMES, (size_t)all, sizeof *ones);
    VC_LEAVE_WITH(ones == NULL, b->graph->status = VC_E_NOMEM, VC_NO_VALUE);
    for (int64_t k = 0; k < all; k++) {
        ones[k] = 1;
    }
    in[1] = vc_graph_add_constant(b->graph, NULL, VC_DTYPE_F32, shape, n, ones);
    vc_free(b->ctx, ones);
    return vc_onnx_add_one(b, op, output, in, 2, attrs, 2);
}

/* Div(x - mean, root), where the root is of the same difference. */
static uint32_t fold_layer_norm(struct vc_onnx_build *b, const struct vc_onnx_node *div, const char *output)
{
    const struct vc_graph_node *sub = made_by(b, div->inputs[0], "Sub");
    uint32_t difference, x;
    double epsilon;
    unsigned n = is_root(b, div->inputs[1], &difference, &epsilon);

    if (sub == NULL || n == 0 || !is_same_difference(b, div->inputs[0], difference) ||
        mean_of(b, sub->inputs[1], &x) != n || x != sub->inputs[0]) {
        return VC_NO_VALUE;
    }
    return add_norm(b, "LayerNormalization", output, x, n, epsilon);
}

/* x / root; callers also find x * (1 / root). */
static uint32_t fold_rms_norm(struct vc_onnx_build *b, uint32_t x, uint32_t root, const char *output)
{
    uint32_t of;
    double epsilon;
    unsigned n = is_root(b, root, &of, &epsilon);

    return n != 0 && of == x ? add_norm(b, "RMSNormalization", output, x, n, epsilon) : VC_NO_VALUE;
}

/* The value's number of elements is known and all are 1. */
static bool is_ones(const struct vc_onnx_build *b, uint32_t value)
{
    const struct vc_graph_value *v = &b->graph->values[value];
    int64_t n = 1;

    if (v->kind != VC_VALUE_CONSTANT || v->dtype != VC_DTYPE_F32) {
        return false;
    }
    for (unsigned d = 0; d < v->n_dims; d++) {
        n *= v->shape[d].size;
    }
    for (int64_t k = 0; k < n; k++) {
        if (((const double *)v->data)[k] != 1) {
            return false;
        }
    }
    return true;
}

/* Mul(norm with a scale of ones, w) and Add(norm without bias, b) become one more input of the same norm. w
 * has to have the shape of the ones: a single number would be another operator.
 * Parameters and constants only: a scale that is computed would be no scale of a norm for couplings. */
static uint32_t fold_affine(struct vc_onnx_build *b, const struct vc_onnx_node *node, const char *op, bool is_add,
                            const char *output)
{
    for (unsigned k = 0; k < 2; k++) {
        const struct vc_graph_node *norm = made_by(b, node->inputs[k], op);
        const struct vc_graph_value *more = vc_onnx_input(b, node, 1 - k);
        uint32_t in[3];

        if (norm == NULL || more == NULL || norm->n_inputs != 2 || norm->n_outputs != 1 ||
            (more->kind != VC_VALUE_PARAMETER && more->kind != VC_VALUE_CONSTANT) ||
            !vc_graph_same_kind(more, &b->graph->values[norm->inputs[1]]) ||
            (!is_add && !is_ones(b, norm->inputs[1]))) {
            continue;
        }
        in[0] = norm->inputs[0];
        in[1] = is_add ? norm->inputs[1] : node->inputs[1 - k];
        in[2] = node->inputs[1 - k];
        return vc_onnx_add_one(b, op, output, in, is_add ? 3 : 2, norm->attrs, norm->n_attrs);
    }
    return VC_NO_VALUE;
}

/* ---- Gelu ---- */

/* A value as a product: a number, and what is no number. Two products are the same if their numbers are
 * near and their factors are the same values. */
struct product {
    double number;
    unsigned n;
    uint32_t factors[MAX_FACTORS];
    bool too_many;
};

static void add_factor(struct product *p, uint32_t value)
{
    if (p->n == MAX_FACTORS) {
        p->too_many = true;
    } else {
        p->factors[p->n++] = value;
    }
}

/* Takes the value apart into p: products, quotients by a number, squares and cubes; numbers are multiplied
 * into p->number.
 *     0.5 * x * (1 + t)              number 0.5, factors {x, 1 + t}
 *     (x / sqrt(2)) * 3              number 3 / sqrt(2), factors {x}
 *     0.044715 * (x * (x * x))       number 0.044715, factors {x, x, x}
 */
static void factor(const struct vc_onnx_build *b, uint32_t value, unsigned depth, struct product *p)
{
    const struct vc_graph_node *mul = made_by(b, value, "Mul");
    uint32_t x;
    double number;

    if (vc_onnx_scalar(b, value, &number)) {
        p->number *= number;
    } else if (depth == 0) {
        add_factor(p, value);
    } else if (mul != NULL) {
        factor(b, mul->inputs[0], depth - 1, p);
        factor(b, mul->inputs[1], depth - 1, p);
    } else if (with_number(b, value, "Div", false, &x, &number)) {
        p->number /= number;
        factor(b, x, depth - 1, p);
    } else if (with_number(b, value, "Pow", false, &x, &number) && (number == 2 || number == 3)) {
        for (double k = 0; k < number; k++) {
            add_factor(p, x);
        }
    } else {
        add_factor(p, value);
    }
}

/* The value as a product, MAX_NESTED levels deep. */
static struct product factors_of(const struct vc_onnx_build *b, uint32_t value)
{
    struct product p = {.number = 1};

    factor(b, value, MAX_NESTED, &p);
    return p;
}

/* True if the value is number * x ^ power: is_power(v, x, 0.044715, 3). */
static bool is_power(const struct vc_onnx_build *b, uint32_t value, uint32_t x, double number, unsigned power)
{
    struct product p = factors_of(b, value);

    for (unsigned k = 0; k < p.n; k++) {
        if (p.factors[k] != x) {
            return false;
        }
    }
    return !p.too_many && p.n == power && is_near(p.number, number);
}

/* True for sqrt(2 / pi) * (x + 0.044715 x ^ 3), or with x in front of the sum: sqrt(2 / pi) * x * (1 +
 * 0.044715 x ^ 2). */
static bool is_cubic(const struct vc_onnx_build *b, uint32_t value, uint32_t x)
{
    struct product p = factors_of(b, value);
    const struct vc_graph_node *add = NULL;
    uint32_t rest;
    double one;

    if (p.too_many || !is_near(p.number, 0.79788456080286536)) {
        return false;
    }
    if (p.n == 1) {
        add = made_by(b, p.factors[0], "Add");
        return add != NULL && ((add->inputs[0] == x && is_power(b, add->inputs[1], x, 0.044715, 3)) ||
                               (add->inputs[1] == x && is_power(b, add->inputs[0], x, 0.044715, 3)));
    }
    for (unsigned k = 0; p.n == 2 && k < 2; k++) {
        if (p.factors[k] == x && with_number(b, p.factors[1 - k], "Add", true, &rest, &one) && one == 1) {
            return is_power(b, rest, x, 0.044715, 2);
        }
    }
    return false;
}

/* The product has to be 0.5, x and (1 + Erf(..)) or (1 + Tanh(..)), in any order and nesting. 0.7071... is
 * 1 / sqrt(2). */
static uint32_t fold_gelu(struct vc_onnx_build *b, const struct vc_onnx_node *mul, const char *output)
{
    struct product p = {.number = 1};

    factor(b, mul->inputs[0], MAX_NESTED, &p);
    factor(b, mul->inputs[1], MAX_NESTED, &p);
    for (unsigned k = 0; !p.too_many && p.n == 2 && is_near(p.number, 0.5) && k < 2; k++) {
        uint32_t x = p.factors[k];
        struct vc_graph_attr tanh_form = vc_attr_string("approximate", "tanh");
        uint32_t rest;
        double one;

        if (!with_number(b, p.factors[1 - k], "Add", true, &rest, &one) || one != 1) {
            continue;
        }
        const struct vc_graph_node *inner = made_by(b, rest, "Erf");
        bool is_erf = inner != NULL && is_power(b, inner->inputs[0], x, 0.70710678118654752, 1);
        inner = made_by(b, rest, "Tanh");
        if (is_erf || (inner != NULL && is_cubic(b, inner->inputs[0], x))) {
            return vc_onnx_add_one(b, "Gelu", output, &x, 1, &tanh_form, is_erf ? 0 : 1);
        }
    }
    return VC_NO_VALUE;
}

/* ---- weights ---- */

/* The parameter x as a specification that can be changed and added as another parameter of the same tensor. */
static struct vc_param_spec spec_of(const struct vc_onnx_build *b, const struct vc_graph_value *x)
{
    const struct vc_graph_param *param = &b->graph->params[x->param];

    return (struct vc_param_spec){.tensor = param->tensor,
                                  .index = param->index,
                                  .from_weights = param->from_weights,
                                  .n_dims = param->n_dims,
                                  .shape = param->shape,
                                  .sliced = param->sliced,
                                  .axis = param->axis,
                                  .first = param->first,
                                  .count = param->count,
                                  .transposed = param->transposed,
                                  .integers = x->dtype == VC_DTYPE_I64};
}

/* A Transpose that swaps the last two axes of a parameter and no others: the parameter is read transposed
 * instead. Sums of Linear layers, which exporters write as MatMul(x, Transpose(w)), so read w itself.
 * A parameter that is transposed already becomes one that is not. */
static uint32_t fold_transpose(struct vc_onnx_build *b, const struct vc_onnx_node *node, const char *output)
{
    const struct vc_graph_value *x = vc_onnx_input(b, node, 0);
    const struct vc_graph_attr *perm = vc_onnx_attr(node, "perm");

    if (x == NULL || x->kind != VC_VALUE_PARAMETER || x->n_dims < 2 || (perm == NULL && x->n_dims != 2) ||
        (perm != NULL && (perm->kind != VC_ATTR_INTS || perm->n != x->n_dims))) {
        return VC_NO_VALUE;
    }
    for (unsigned d = 0; perm != NULL && d < x->n_dims; d++) {
        unsigned other = d + 2 == x->n_dims ? d + 1 : d + 1 == x->n_dims ? d - 1 : d;

        if (perm->ints[d] != other) {
            return VC_NO_VALUE;
        }
    }
    struct vc_param_spec spec = spec_of(b, x);
    spec.transposed = !spec.transposed;
    return vc_graph_add_param(b->graph, output, &spec);
}

/* Elements `first` to end - 1 of a parameter's axis, as a parameter of its own. VC_NO_VALUE if x is a slice
 * or transposed already: struct vc_graph_param has room for one slice, before the transposition. */
static uint32_t part_of(struct vc_onnx_build *b, const struct vc_graph_value *x, unsigned axis, int64_t first,
                        int64_t end, const char *output)
{
    struct vc_param_spec spec = spec_of(b, x);

    if (spec.sliced || spec.transposed || end <= first) {
        return VC_NO_VALUE;
    }
    spec.sliced = true;
    spec.axis = axis;
    spec.first = (uint64_t)first;
    spec.count = (uint64_t)(end - first);
    return vc_graph_add_param(b->graph, output, &spec);
}

/* Slice(parameter) along one axis with step 1 and constant bounds. Bounds are clamped as ONNX says.
 * Slices of packed weights (q, k and v in one tensor) become three parameters of it, which couplings and
 * passes can tell apart. */
static uint32_t fold_slice(struct vc_onnx_build *b, const struct vc_onnx_node *node, const char *output)
{
    const struct vc_graph_value *x = vc_onnx_input(b, node, 0);
    int64_t at[4] = {0, 0, 0, 1}; /* start, end, axis, step */
    int64_t size;

    if (x == NULL || x->kind != VC_VALUE_PARAMETER || node->n_inputs < 4 || node->n_inputs > 5) {
        return VC_NO_VALUE;
    }
    for (unsigned k = 1; k < node->n_inputs; k++) {
        const struct vc_graph_value *v = vc_onnx_input(b, node, k);

        if (v == NULL || v->kind != VC_VALUE_CONSTANT || v->dtype != VC_DTYPE_I64 || v->n_dims != 1 ||
            v->shape[0].size != 1) {
            return VC_NO_VALUE;
        }
        at[k - 1] = *(const int64_t *)v->data;
    }
    at[2] += at[2] < 0 ? (int64_t)x->n_dims : 0;
    if (at[3] != 1 || at[2] < 0 || at[2] >= (int64_t)x->n_dims) {
        return VC_NO_VALUE;
    }
    size = x->shape[at[2]].size;
    for (unsigned k = 0; k < 2; k++) {
        at[k] += at[k] < 0 ? size : 0;
        at[k] = at[k] < 0 ? 0 : at[k] > size ? size : at[k];
    }
    return part_of(b, x, (unsigned)at[2], at[0], at[1], output);
}

/* All sizes are checked before the first part is added, since a part that failed in between could not be
 * taken back. Values move when parts are added: `whole` is a copy, and the list of sizes is looked up
 * again. */
bool vc_onnx_fold_split(struct vc_onnx_build *b, const struct vc_onnx_node *node)
{
    const struct vc_graph_value *x = vc_onnx_input(b, node, 0);
    const struct vc_graph_value *sizes = vc_onnx_input(b, node, 1);
    int64_t axis = vc_onnx_int(node, "axis", 0);
    int64_t n = (int64_t)node->from->n_outputs;
    int64_t at = 0;

    if (strcmp(node->op, "Split") != 0 || x == NULL || x->kind != VC_VALUE_PARAMETER || n == 0 ||
        b->graph->params[x->param].sliced || b->graph->params[x->param].transposed) {
        return false;
    }
    axis += axis < 0 ? (int64_t)x->n_dims : 0;
    if (axis < 0 || axis >= (int64_t)x->n_dims ||
        (vc_onnx_has_input(node, 1)
             ? sizes == NULL || sizes->kind != VC_VALUE_CONSTANT || sizes->n_dims != 1 || sizes->shape[0].size != n
             : x->shape[axis].size % n != 0)) {
        return false;
    }
    struct vc_graph_value whole = *x; /* values move as parts are added */
    for (int64_t k = 0; k < n; k++) {
        int64_t size = sizes != NULL ? ((const int64_t *)sizes->data)[k] : whole.shape[axis].size / n;

        if (size < 1 || size > whole.shape[axis].size - at) {
            return false;
        }
        at += size;
    }
    if (at != whole.shape[axis].size) {
        return false;
    }
    at = 0;
    for (int64_t k = 0; k < n; k++) {
        const struct vc_graph_value *list = vc_onnx_input(b, node, 1);
        int64_t end = at + (list != NULL ? ((const int64_t *)list->data)[k] : whole.shape[axis].size / n);

        vc_onnx_set_output(b, node->from, (size_t)k,
                           part_of(b, &whole, (unsigned)axis, at, end, vc_onnx_output_name(b, node->from, (size_t)k)));
        at = end;
    }
    return true;
}

/* By the operator of the last node of each pattern. Mul closes three of them: a scale, x times a reciprocal
 * root, Gelu. */
uint32_t vc_onnx_fold(struct vc_onnx_build *b, const struct vc_onnx_node *node, const char *output)
{
    const struct vc_graph_value *other = vc_onnx_input(b, node, 1);
    uint32_t made = VC_NO_VALUE;
    bool two = node->n_inputs == 2 && other != NULL && vc_onnx_input(b, node, 0) != NULL;
    double one;

    if (strcmp(node->op, "Transpose") == 0) {
        made = fold_transpose(b, node, output);
    } else if (strcmp(node->op, "Slice") == 0) {
        made = fold_slice(b, node, output);
    } else if (strcmp(node->op, "Div") == 0 && two) {
        made = fold_layer_norm(b, node, output);
        made = made == VC_NO_VALUE ? fold_rms_norm(b, node->inputs[0], node->inputs[1], output) : made;
    } else if (strcmp(node->op, "Add") == 0 && two) {
        made = fold_affine(b, node, "LayerNormalization", true, output);
    } else if (strcmp(node->op, "Mul") == 0 && two) {
        made = fold_affine(b, node, "LayerNormalization", false, output);
        made = made == VC_NO_VALUE ? fold_affine(b, node, "RMSNormalization", false, output) : made;
        for (unsigned k = 0; k < 2 && made == VC_NO_VALUE; k++) {
            const struct vc_graph_node *root = made_by(b, node->inputs[1 - k], "Reciprocal");
            const struct vc_graph_node *div = made_by(b, node->inputs[1 - k], "Div");

            if (root != NULL || (div != NULL && vc_onnx_scalar(b, div->inputs[0], &one) && one == 1)) {
                made = fold_rms_norm(b, node->inputs[k], root != NULL ? root->inputs[0] : div->inputs[1], output);
            }
        }
        made = made == VC_NO_VALUE ? fold_gelu(b, node, output) : made;
    }
    return made;
}
