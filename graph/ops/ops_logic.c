/* ops_logic.c - shapes of comparisons, of truth values and of conversions of types; and their elements
 * where these are known: exporters ask "Equal(Shape(x)[0], 1)" in front of a Where that chooses the shape
 * of an Expand.
 *
 * A known element is a polynomial, so that a comparison has three answers: true for all sizes, false for
 * all sizes, or it depends.
 *
 *     batch = batch              1
 *     batch + 1 > batch          1
 *     batch = 0                  0        a size is 1 or more
 *     batch = 1                 -1        depends: the node stays and is computed in each run
 */
#include "graph/ops/ops.h"

/* ---- comparisons ---- */

/* True if a >= b + by for all sizes of the inputs.
 * False also where it cannot be told. */
static bool above(struct vc_dims *dims, struct vc_dim a, struct vc_dim b, int64_t by)
{
    int64_t least;

    return vc_dim_least(dims, vc_dim_subtract(dims, a, b), &least) && least >= by;
}

/* The truth value of a OP b for all sizes of the inputs: 1 or 0; -1 where it depends on the sizes.
 * Truth values are the numbers 0 and 1. */
static int compare(struct vc_dims *dims, char op, struct vc_dim a, struct vc_dim b)
{
    switch (op) {
    case '=':
        return vc_dim_equal(a, b) ? 1 : above(dims, a, b, 1) || above(dims, b, a, 1) ? 0 : -1;
    case '>':
        return above(dims, a, b, 1) ? 1 : above(dims, b, a, 0) ? 0 : -1;
    case '<':
        return above(dims, b, a, 1) ? 1 : above(dims, a, b, 0) ? 0 : -1;
    case 'g':
        return above(dims, a, b, 0) ? 1 : above(dims, b, a, 1) ? 0 : -1;
    case '&': /* truth values that are known are numbers */
        return a.size != 0 && b.size != 0;
    case '|':
        return a.size != 0 || b.size != 0;
    case '^':
        return (a.size != 0) != (b.size != 0);
    default:
        return above(dims, b, a, 0) ? 1 : above(dims, a, b, 1) ? 0 : -1;
    }
}

/* One comparison that depends on sizes makes all elements unknown: the node then stays and runs. */
static void infer_pair(struct vc_infer *in, const char *types, char op)
{
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    struct vc_dim elems[VC_MAX_ELEMS];
    unsigned n_dims;
    size_t n_a, n_b;

    if (!vc_infer_types(in, types) || !vc_infer_broadcast(in, vc_infer_in(in, 0), vc_infer_in(in, 1), shape, &n_dims)) {
        return;
    }
    vc_infer_out(in, 0, VC_DTYPE_BOOL, shape, n_dims);
    const struct vc_dim *a = vc_infer_elems(in, 0, &n_a);
    const struct vc_dim *b = vc_infer_elems(in, 1, &n_b);
    if (a == NULL || b == NULL || n_a == 0 || n_b == 0) {
        return;
    }
    size_t n = n_a > n_b ? n_a : n_b;
    for (size_t k = 0; k < n; k++) {
        int truth = compare(vc_infer_dims(in), op, a[n_a == 1 ? 0 : k], b[n_b == 1 ? 0 : k]);

        if (truth < 0) {
            return;
        }
        elems[k] = vc_dim_number(truth);
    }
    vc_infer_out_elems(in, 0, elems, n);
}

#define PAIR(id, types, op)                 \
    void vc_infer_##id(struct vc_infer *in) \
    {                                       \
        infer_pair(in, types, op);          \
    }

PAIR(equal, "ax", '=')
PAIR(greater, "nx", '>')
PAIR(less, "nx", '<')
PAIR(greater_or_equal, "nx", 'g')
PAIR(less_or_equal, "nx", 'l')
PAIR(and, "b", '&')
PAIR(or, "b", '|')
PAIR(xor, "b", '^')
#undef PAIR

/* 1 for 0, and 0 for everything else. */
void vc_infer_not(struct vc_infer *in)
{
    struct vc_dim elems[VC_MAX_ELEMS];
    size_t n;
    const struct vc_dim *x = vc_infer_elems(in, 0, &n);

    if (!vc_infer_types(in, "b")) {
        return;
    }
    vc_infer_out_like(in);
    for (size_t k = 0; k < n; k++) {
        elems[k] = vc_dim_number(vc_dim_is(x[k], 0));
    }
    if (x != NULL) { /* truth values that are known are numbers */
        vc_infer_out_elems(in, 0, elems, n);
    }
}

/* Floats to truth values. Known elements are integers, so that none of them is NaN. */
static void infer_test(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);

    if (vc_infer_types(in, "f")) {
        vc_infer_out(in, 0, VC_DTYPE_BOOL, x->shape, x->n_dims);
    }
}

void vc_infer_isnan(struct vc_infer *in)
{
    infer_test(in);
}

/* Which infinities count is read by the loops. */
void vc_infer_isinf(struct vc_infer *in)
{
    vc_infer_int(in, "detect_negative", 1);
    vc_infer_int(in, "detect_positive", 1);
    infer_test(in);
}

/* ---- a choice ---- */

/* Known elements only if the condition and both choices are known; each is a list of one length or a single number.
 * Three shapes are broadcast in two steps, first the choices with each other. */
void vc_infer_where(struct vc_infer *in)
{
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    struct vc_dim both[VC_GRAPH_MAX_DIMS];
    struct vc_dim elems[VC_MAX_ELEMS];
    unsigned n_dims;
    size_t n[3];
    size_t most = 0;
    const struct vc_dim *known[3];

    if (!vc_infer_types(in, "ba")) {
        return;
    }
    struct vc_graph_value all = *vc_infer_in(in, 1);
    if (all.dtype != vc_infer_in(in, 2)->dtype) {
        vc_infer_fail(in, "'%s' and '%s' are of different types", all.name, vc_infer_in(in, 2)->name);
    }
    if (in->failed || !vc_infer_broadcast(in, &all, vc_infer_in(in, 2), both, &n_dims)) {
        return;
    }
    all.shape = both;
    all.n_dims = n_dims;
    if (!vc_infer_broadcast(in, vc_infer_in(in, 0), &all, shape, &n_dims)) {
        return;
    }
    vc_infer_out(in, 0, all.dtype, shape, n_dims);
    for (unsigned k = 0; k < 3; k++) {
        known[k] = vc_infer_elems(in, k, &n[k]);
        if (known[k] == NULL || n[k] == 0) {
            return;
        }
        most = n[k] > most ? n[k] : most;
    }
    for (size_t i = 0; i < most; i++) {
        unsigned k = vc_dim_is(known[0][n[0] == 1 ? 0 : i], 0) ? 2 : 1;

        elems[i] = known[k][n[k] == 1 ? 0 : i];
    }
    vc_infer_out_elems(in, 0, elems, most);
}

/* ---- types ---- */

/* The type of values for ONNX's TensorProto.DataType; VC_DTYPE_NONE for types that no value has (strings, 4-bit
 * codes).
 * Values have one kind of float, one of integers, and truth values; a cast to float16 rounds nothing here. */
static enum vc_dtype dtype_of(int64_t onnx)
{
    switch (onnx) {
    case 1:  /* float */
    case 10: /* float16 */
    case 11: /* double */
    case 16: /* bfloat16 */
        return VC_DTYPE_F32;
    case 2:  /* uint8 */
    case 3:  /* int8 */
    case 4:  /* uint16 */
    case 5:  /* int16 */
    case 6:  /* int32 */
    case 7:  /* int64 */
    case 12: /* uint32 */
    case 13: /* uint64 */
        return VC_DTYPE_I64;
    case 9:
        return VC_DTYPE_BOOL;
    default:
        return VC_DTYPE_NONE;
    }
}

/* Casts between types of one kind keep known elements; a cast to an integer narrower than 32 bits would wrap, and
 * its elements are left to the run. To int32 known numbers wrap here as in a run. */
void vc_infer_cast(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    int64_t to = vc_infer_int(in, "to", 0);
    enum vc_dtype dtype = dtype_of(to);
    struct vc_dim elems[VC_MAX_ELEMS];
    size_t n;
    const struct vc_dim *known = vc_infer_all_elems(in, 0, &n);

    vc_infer_int(in, "saturate", 1);
    vc_infer_string(in, "round_mode", "");
    VC_LEAVE_IF(dtype == VC_DTYPE_NONE,
                vc_infer_fail(in, "conversion to the type with number %lld is not supported", (long long)to));
    vc_infer_out(in, 0, dtype, x->shape, x->n_dims);
    if (known == NULL && dtype == VC_DTYPE_I64 && vc_infer_quotient(in, false, elems, &n)) {
        known = elems; /* rounded to 0, which is down for what is not negative */
    }
    if (known == NULL || (dtype == VC_DTYPE_I64 && to != 6 && to != 7)) {
        return;
    }
    for (size_t k = 0; k < n; k++) {
        int64_t least;

        elems[k] = known[k];
        if (dtype == VC_DTYPE_BOOL) {
            if (!vc_dim_is_number(known[k]) && !(vc_dim_least(vc_infer_dims(in), known[k], &least) && least > 0)) {
                return;
            }
            elems[k] = vc_dim_number(!vc_dim_is(known[k], 0));
        } else if (to == 6 && vc_dim_is_number(known[k])) {
            elems[k] = vc_dim_number((int32_t)(uint32_t)(uint64_t)known[k].size);
        }
    }
    vc_infer_out_elems(in, 0, elems, n);
}
