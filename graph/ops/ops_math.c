/* ops_math.c - shapes of what works on one element at a time, and of what broadcasts.
 *
 * Also computes with known elements (facts[v].elems): exporters write shape arithmetic as nodes, and this file
 * carries it out on dimensions while the graph is built.
 *
 *     Shape(x) = {batch, 12, 64}  -Gather 0-> {batch} -Mul 12-> {12*batch} -Concat-> target of a Reshape
 */

#include "graph/ops/ops.h"

/* ---- two inputs ---- */

/* What the operator makes of two known integers. vc_dim_bad where nothing can be said: ONNX's Div and Mod of
 * integers round to 0 in runtimes, vc_dim_divide to minus infinity, so negative dividends are left to the run.
 * '>' is the larger of both, a + max(b - a, 0); '<' the smaller one; '%' is a - b * floor(a / b). */
static struct vc_dim combine(struct vc_dims *dims, char op, struct vc_dim a, struct vc_dim b)
{
    switch (op) {
    case '+':
        return vc_dim_add(dims, a, b);
    case '-':
        return vc_dim_subtract(dims, a, b);
    case '*':
        return vc_dim_multiply(dims, a, b);
    case '>':
        return vc_dim_add(dims, a, vc_dim_positive(dims, vc_dim_subtract(dims, b, a)));
    case '<':
        return vc_dim_subtract(dims, a, vc_dim_positive(dims, vc_dim_subtract(dims, a, b)));
    case '%':
        return vc_dim_is_number(a) && a.size < 0
                   ? vc_dim_bad()
                   : vc_dim_subtract(dims, a, vc_dim_multiply(dims, b, vc_dim_divide(dims, a, b)));
    default: /* division of what is not negative rounds as vc_dim_divide does; of negative numbers nothing is said */
        return vc_dim_is_number(a) && a.size < 0 ? vc_dim_bad() : vc_dim_divide(dims, a, b);
    }
}

/* The quotient of floats where it is a whole number: 12*batch / 12.0. Else vc_dim_bad, and Floor or Ceil behind the
 * Div may still know (vc_infer_quotient). */
static struct vc_dim exact(struct vc_dims *dims, struct vc_dim a, struct vc_dim b)
{
    struct vc_dim q = vc_dim_divide(dims, a, b);

    return vc_dim_equal(vc_dim_multiply(dims, q, b), a) ? q : vc_dim_bad();
}

/* Looks at the node in front: `at` is a vc_infer of that Div, used only to read its inputs. Rounding up is floor((a
 * + b - 1) / b). */
bool vc_infer_quotient(struct vc_infer *in, bool up, struct vc_dim *elems, size_t *n)
{
    struct vc_dims *dims = vc_infer_dims(in);
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    const struct vc_graph_node *node = x->kind == VC_VALUE_RESULT && x->node != VC_NO_NODE && x->dtype == VC_DTYPE_F32
                                           ? &in->graph->nodes[x->node]
                                           : NULL;
    struct vc_infer at = {.graph = in->graph, .index = x->node};
    size_t n_b;
    int64_t least;

    if (node == NULL || strcmp(node->op, "Div") != 0) {
        return false;
    }
    const struct vc_dim *a = vc_infer_elems(&at, 0, n);
    const struct vc_dim *b = vc_infer_elems(&at, 1, &n_b);
    if (a == NULL || b == NULL || n_b != 1) {
        return false;
    }
    for (size_t k = 0; k < *n; k++) {
        elems[k] = up ? vc_dim_add(dims, a[k], vc_dim_subtract(dims, b[0], vc_dim_number(1))) : a[k];
        if (!vc_dim_least(dims, a[k], &least) || least < 0) {
            return false;
        }
        elems[k] = vc_dim_divide(dims, elems[k], b[0]);
    }
    return true;
}

/* Elements of output 0 for two or more inputs that are numbers or lists of one length; a list of one is repeated.
 * From the last element down: elems[0] of a single first input is read by all others before it is overwritten. */
static void known_elems(struct vc_infer *in, char op)
{
    bool real = vc_infer_in(in, 0)->dtype == VC_DTYPE_F32;
    struct vc_dim elems[VC_MAX_ELEMS];
    size_t n;
    const struct vc_dim *first = vc_infer_elems(in, 0, &n);

    if (in->failed || first == NULL) {
        return;
    }
    memcpy(elems, first, n * sizeof *elems);
    for (unsigned k = 1; k < vc_infer_n_in(in); k++) {
        size_t n_b;
        const struct vc_dim *b = vc_infer_elems(in, k, &n_b);

        if (b == NULL || n == 0 || n_b == 0 || (n != n_b && n != 1 && n_b != 1)) {
            return;
        }
        for (size_t i = (n > n_b ? n : n_b); i-- > 0;) {
            struct vc_dim x = elems[n == 1 ? 0 : i];
            struct vc_dim y = b[n_b == 1 ? 0 : i];

            elems[i] = real && op == '/' ? exact(vc_infer_dims(in), x, y) : combine(vc_infer_dims(in), op, x, y);
        }
        n = n > n_b ? n : n_b;
    }
    vc_infer_out_elems(in, 0, elems, n);
}

/* Type of the first input, shape that all inputs broadcast to; op ' ' computes no elements. */
static void infer_together(struct vc_infer *in, const char *types, char op)
{
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    struct vc_dim next[VC_GRAPH_MAX_DIMS];

    if (!vc_infer_types(in, types)) {
        return;
    }
    struct vc_graph_value all = *vc_infer_in(in, 0);
    for (unsigned k = 1; k < vc_infer_n_in(in); k++) {
        const struct vc_graph_value *x = vc_infer_in(in, k);
        unsigned n_dims;

        VC_LEAVE_IF(x == NULL, vc_infer_fail(in, "input %u is missing", k));
        if (!vc_infer_broadcast(in, &all, x, next, &n_dims)) {
            return;
        }
        memcpy(shape, next, n_dims * sizeof *shape);
        all.shape = shape;
        all.n_dims = n_dims;
    }
    vc_infer_out(in, 0, all.dtype, all.shape, all.n_dims);
    if (op != ' ') {
        known_elems(in, op);
    }
}

/* The letters are those of vc_infer_types: "nx" numbers of one type. */
#define TOGETHER(id, types, op)             \
    void vc_infer_##id(struct vc_infer *in) \
    {                                       \
        infer_together(in, types, op);      \
    }

TOGETHER(add, "nx", '+')
TOGETHER(sub, "nx", '-')
TOGETHER(mul, "nx", '*')
TOGETHER(div, "nx", '/')
TOGETHER(min, "nx", '<')
TOGETHER(max, "nx", '>')
TOGETHER(pow, "n", ' ')
#undef TOGETHER

/* fmod = 0 is the remainder with the divisor's sign, for integers only; fmod = 1 is C's fmod, for both. */
void vc_infer_mod(struct vc_infer *in)
{
    bool is_fmod = vc_infer_int(in, "fmod", 0) != 0;

    if (!is_fmod && vc_infer_in(in, 0)->dtype == VC_DTYPE_F32) {
        vc_infer_fail(in, "the remainder of floats needs fmod = 1");
    }
    infer_together(in, "nx", is_fmod ? ' ' : '%');
}

/* The slope has no dimension that the input has not. */
void vc_infer_prelu(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    const struct vc_graph_value *slope = vc_infer_in(in, 1);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    unsigned n_dims;

    if (vc_infer_types(in, "f") && vc_infer_broadcast(in, x, slope, shape, &n_dims)) {
        if (n_dims != x->n_dims) {
            vc_infer_fail(in, "the slope has more dimensions than the input");
        }
        vc_infer_out(in, 0, x->dtype, shape, n_dims);
    }
}

/* ---- one input ---- */

static void infer_each(struct vc_infer *in, const char *types)
{
    if (vc_infer_types(in, types)) {
        vc_infer_out_like(in);
    }
}

#define EACH(id, types)                     \
    void vc_infer_##id(struct vc_infer *in) \
    {                                       \
        infer_each(in, types);              \
    }

/* The rows of kernels/unary.inc: asks for their attributes. */
#define NUMBER(attribute, otherwise) vc_infer_float(in, attribute, otherwise)
#define NO_NUMBER                    0
#define UNARY_OP(KIND, reads, value, gradient, id, name, types, alpha, beta, eager) \
    void vc_infer_##id(struct vc_infer *in)                                         \
    {                                                                               \
        (void)(alpha);                                                              \
        (void)(beta);                                                               \
        infer_each(in, #types);                                                     \
    }
#include "kernels/unary.inc"
#undef UNARY_OP

EACH(sign, "n")
EACH(sin, "f")
EACH(cos, "f")
EACH(tan, "f")
EACH(round, "f")
#undef EACH

/* Floor and Ceil of whole numbers change nothing; of a known quotient they give a known whole number. */
static void infer_rounded(struct vc_infer *in, bool up)
{
    struct vc_dim elems[VC_MAX_ELEMS];
    size_t n;
    const struct vc_dim *x = vc_infer_elems(in, 0, &n);

    infer_each(in, "f");
    if (x != NULL || vc_infer_quotient(in, up, elems, &n)) {
        vc_infer_out_elems(in, 0, x != NULL ? x : elems, n);
    }
}

void vc_infer_floor(struct vc_infer *in)
{
    infer_rounded(in, false);
}

void vc_infer_ceil(struct vc_infer *in)
{
    infer_rounded(in, true);
}

void vc_infer_neg(struct vc_infer *in)
{
    struct vc_dim elems[VC_MAX_ELEMS];
    size_t n;
    const struct vc_dim *x = vc_infer_elems(in, 0, &n);

    infer_each(in, "n");
    for (size_t k = 0; k < n; k++) {
        elems[k] = vc_dim_subtract(vc_infer_dims(in), vc_dim_number(0), x[k]);
    }
    if (x != NULL) {
        vc_infer_out_elems(in, 0, elems, n);
    }
}

void vc_infer_gelu(struct vc_infer *in)
{
    const char *kind = vc_infer_string(in, "approximate", "none");

    if (strcmp(kind, "none") != 0 && strcmp(kind, "tanh") != 0) {
        vc_infer_fail(in, "the approximation '%s' is not supported; 'none' and 'tanh' are", kind);
    }
    infer_each(in, "f");
}

void vc_infer_clip(struct vc_infer *in)
{
    if (vc_infer_types(in, "nx") && vc_infer_single(in, 1, "the least value") &&
        vc_infer_single(in, 2, "the largest value")) {
        vc_infer_out_like(in);
    }
}
