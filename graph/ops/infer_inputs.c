/* infer_inputs.c - what vc_infer_X ask about their inputs: types, ranks, lists of axes, floats of constants. Each
 * check notes a sentence and returns false; the loops (vc_run_X) rely on what was checked here. */

#include "graph/ops/ops.h"

static const char *type_name(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F32 ? "floats" : dtype == VC_DTYPE_I64 ? "integers" : "truth values";
}

/* What an input of that letter takes, in words. */
static const char *taken(char type, enum vc_dtype first)
{
    switch (type) {
    case 'f':
        return "floats";
    case 'i':
        return "integers";
    case 'b':
        return "truth values";
    case 'x':
        return type_name(first);
    default:
        return "floats or integers";
    }
}

/* Letters as in vc_infer_types; `first` is the type of input 0, for 'x'. */
static bool fits(char type, enum vc_dtype dtype, enum vc_dtype first)
{
    switch (type) {
    case 'f':
        return dtype == VC_DTYPE_F32;
    case 'i':
        return dtype == VC_DTYPE_I64;
    case 'b':
        return dtype == VC_DTYPE_BOOL;
    case 'n':
        return dtype == VC_DTYPE_F32 || dtype == VC_DTYPE_I64;
    case 'x':
        return dtype == first;
    default:
        return true;
    }
}

/* `types` moves on by one letter for each input and stays at the last: "fi" is floats, then integers for all
 * others. */
bool vc_infer_types(struct vc_infer *in, const char *types)
{
    unsigned n = vc_infer_n_in(in);
    enum vc_dtype first = n != 0 && vc_infer_in(in, 0) != NULL ? vc_infer_in(in, 0)->dtype : VC_DTYPE_F32;

    for (unsigned k = 0; k < n; k++) {
        const struct vc_graph_value *x = vc_infer_in(in, k);

        if (x != NULL && !fits(*types, x->dtype, first)) {
            vc_infer_fail(in, "input %u, '%s', has %s; the operator takes %s there", k, x->name, type_name(x->dtype),
                          taken(*types, first));
            return false;
        }
        types += types[1] != '\0';
    }
    return true;
}

bool vc_infer_rank(struct vc_infer *in, unsigned k, unsigned least, unsigned most)
{
    const struct vc_graph_value *x = vc_infer_in(in, k);

    if (x == NULL || (x->n_dims >= least && x->n_dims <= most)) {
        return true;
    }
    if (least == most) {
        vc_infer_fail(in, "'%s' has %u dimensions; %u are needed", x->name, x->n_dims, least);
    } else {
        vc_infer_fail(in, "'%s' has %u dimensions; %u to %u are supported", x->name, x->n_dims, least, most);
    }
    return false;
}

bool vc_infer_single(struct vc_infer *in, unsigned k, const char *what)
{
    const struct vc_graph_value *x = vc_infer_in(in, k);

    if (x == NULL || x->n_dims == 0 || (x->n_dims == 1 && vc_dim_is(x->shape[0], 1))) {
        return true;
    }
    vc_infer_fail(in, "%s, '%s', has to be a single number", what, x->name);
    return false;
}

/* A missing list marks no axis and is right: the operator decides what that means (Squeeze: all of size 1). */
bool vc_infer_axes(struct vc_infer *in, unsigned k, unsigned n_dims, bool *marked, size_t *n)
{
    int64_t axes[VC_GRAPH_MAX_DIMS];

    memset(marked, 0, VC_GRAPH_MAX_DIMS * sizeof *marked);
    *n = 0;
    if (vc_infer_in(in, k) == NULL) {
        return true;
    }
    if (!vc_infer_numbers(in, k, "the list of axes", axes, VC_GRAPH_MAX_DIMS, n)) {
        return false;
    }
    for (size_t i = 0; i < *n; i++) {
        unsigned axis = vc_infer_axis(in, axes[i], n_dims);

        if (!in->failed && marked[axis]) {
            vc_infer_fail(in, "axis %lld is listed twice", (long long)axes[i]);
        }
        if (in->failed) {
            return false;
        }
        marked[axis] = true;
    }
    return true;
}

/* Only constants: a parameter is read when the graph runs, too late for a shape. */
bool vc_infer_floats(struct vc_infer *in, unsigned k, const char *what, double *floats, size_t capacity, size_t *n)
{
    const struct vc_graph_value *x = vc_infer_in(in, k);

    *n = 0;
    if (x == NULL || x->kind != VC_VALUE_CONSTANT || x->dtype != VC_DTYPE_F32) {
        vc_infer_fail(in, "%s is computed while the model runs; it has to be constant", what);
        return false;
    }
    VC_LEAVE_WITH(x->n_dims > 1 || (x->n_dims == 1 && (size_t)x->shape[0].size > capacity) || capacity == 0,
                  vc_infer_fail(in, "%s has too many elements", what), false);
    *n = x->n_dims == 0 ? 1 : (size_t)x->shape[0].size;
    if (*n != 0) {
        memcpy(floats, x->data, *n * sizeof *floats);
    }
    return true;
}

void vc_infer_out_like(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);

    vc_infer_out(in, 0, x->dtype, x->shape, x->n_dims);
}
