/* ops_math.c - shapes of what works on one element at a time. */
#include "graph/ops/ops.h"

/* Elements of integers that are known: sizes are computed from sizes. */
static struct vc_dim combine(struct vc_dims *dims, char op, struct vc_dim a, struct vc_dim b)
{
    switch (op) {
    case '+':
        return vc_dim_add(dims, a, b);
    case '-':
        return vc_dim_subtract(dims, a, b);
    case '*':
        return vc_dim_multiply(dims, a, b);
    default: /* division of what is not negative rounds as vc_dim_divide does; of negative numbers nothing is said */
        return vc_dim_is_number(a) && a.size < 0 ? vc_dim_bad() : vc_dim_divide(dims, a, b);
    }
}

static void known_elems(struct vc_infer *in, char op)
{
    size_t n_a;
    size_t n_b;
    const struct vc_dim *a = vc_infer_elems(in, 0, &n_a);
    const struct vc_dim *b = vc_infer_elems(in, 1, &n_b);
    struct vc_dim elems[VC_MAX_ELEMS];
    size_t n = n_a > n_b ? n_a : n_b;

    if (a == NULL || b == NULL || n_a == 0 || n_b == 0 || (n_a != n_b && n_a != 1 && n_b != 1)) {
        return;
    }
    for (size_t k = 0; k < n; k++) {
        elems[k] = combine(vc_infer_dims(in), op, a[n_a == 1 ? 0 : k], b[n_b == 1 ? 0 : k]);
    }
    vc_infer_out_elems(in, 0, elems, n);
}

static void infer_pair(struct vc_infer *in, char op)
{
    const struct vc_graph_value *a = vc_infer_in(in, 0);
    const struct vc_graph_value *b = vc_infer_in(in, 1);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    unsigned n_dims;

    if (a->dtype != b->dtype) {
        vc_infer_fail(in, "'%s' and '%s' are of different types", a->name, b->name);
    } else if (vc_infer_broadcast(in, a, b, shape, &n_dims)) {
        vc_infer_out(in, 0, a->dtype, shape, n_dims);
        known_elems(in, op);
    }
}

void vc_infer_add(struct vc_infer *in)
{
    infer_pair(in, '+');
}

void vc_infer_sub(struct vc_infer *in)
{
    infer_pair(in, '-');
}

void vc_infer_mul(struct vc_infer *in)
{
    infer_pair(in, '*');
}

void vc_infer_div(struct vc_infer *in)
{
    infer_pair(in, '/');
}

void vc_infer_relu(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);

    vc_infer_out(in, 0, x->dtype, x->shape, x->n_dims);
}
