/* ops_math.c - shapes of what works on one element at a time, and of what broadcasts. */
#include <string.h>

#include "graph/ops/ops.h"

/* ---- two inputs ---- */

/* What the operator makes of two integers that are known; bad: nothing can be said. */
static struct vc_dim combine(struct vc_dims *dims, char op, struct vc_dim a, struct vc_dim b)
{
    int64_t least;

    switch (op) {
    case '+':
        return vc_dim_add(dims, a, b);
    case '-':
        return vc_dim_subtract(dims, a, b);
    case '*':
        return vc_dim_multiply(dims, a, b);
    case '>': /* the larger one, where that does not depend on the sizes of inputs */
        return vc_dim_least(dims, vc_dim_subtract(dims, a, b), &least) && least >= 0   ? a
               : vc_dim_least(dims, vc_dim_subtract(dims, b, a), &least) && least >= 0 ? b
                                                                                       : vc_dim_bad();
    case '<':
        return vc_dim_least(dims, vc_dim_subtract(dims, b, a), &least) && least >= 0   ? a
               : vc_dim_least(dims, vc_dim_subtract(dims, a, b), &least) && least >= 0 ? b
                                                                                       : vc_dim_bad();
    case '%':
        return vc_dim_is_number(a) && a.size < 0
                   ? vc_dim_bad()
                   : vc_dim_subtract(dims, a, vc_dim_multiply(dims, b, vc_dim_divide(dims, a, b)));
    default: /* division of what is not negative rounds as vc_dim_divide does; of negative numbers nothing is said */
        return vc_dim_is_number(a) && a.size < 0 ? vc_dim_bad() : vc_dim_divide(dims, a, b);
    }
}

static void known_elems(struct vc_infer *in, char op)
{
    struct vc_dim elems[VC_MAX_ELEMS];
    size_t n;
    const struct vc_dim *first = vc_infer_elems(in, 0, &n);

    if (in->failed || first == NULL || vc_infer_in(in, 0)->dtype != VC_DTYPE_I64) {
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
            elems[i] = combine(vc_infer_dims(in), op, elems[n == 1 ? 0 : i], b[n_b == 1 ? 0 : i]);
        }
        n = n > n_b ? n : n_b;
    }
    vc_infer_out_elems(in, 0, elems, n);
}

/* The shape of all inputs together. */
static void infer_together(struct vc_infer *in, const char *types, char op)
{
    struct vc_graph_value all;
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    struct vc_dim next[VC_GRAPH_MAX_DIMS];

    if (!vc_infer_types(in, types)) {
        return;
    }
    all = *vc_infer_in(in, 0);
    for (unsigned k = 1; k < vc_infer_n_in(in); k++) {
        const struct vc_graph_value *x = vc_infer_in(in, k);
        unsigned n_dims;

        if (x == NULL) {
            vc_infer_fail(in, "input %u is missing", k);
            return;
        }
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

#define TOGETHER(id, types, op)             \
    void vc_infer_##id(struct vc_infer *in) \
    {                                       \
        infer_together(in, types, op);      \
    }

TOGETHER(add, "nx", '+')
TOGETHER(sub, "nx", '-')
TOGETHER(mul, "nx", '*')
TOGETHER(div, "nx", '/')
TOGETHER(sum, "nx", '+')
TOGETHER(min, "nx", '<')
TOGETHER(max, "nx", '>')
TOGETHER(mean, "f", ' ')
TOGETHER(pow, "n", ' ')
#undef TOGETHER

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
EACH(floor, "f")
EACH(ceil, "f")
EACH(round, "f")
#undef EACH

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
