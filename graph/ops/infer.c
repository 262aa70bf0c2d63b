/* infer.c - what the operators' vc_infer_X share: inputs, attributes, broadcasting, outputs, problems.
 *
 * Called only from vc_infer_X in ops_*.c and from vc_infer_node below, which checks the counts of inputs
 * and outputs first and unasked attributes last. Pointers to values (vc_infer_in) become invalid when a
 * value is added; inference adds none.
 *
 *     vc_infer_gather(in)
 *         vc_infer_int(in, "axis", 0)        the attribute is marked as asked for
 *         vc_infer_types(in, "ai")           any type, then integers
 *         vc_infer_out(in, 0, type, shape)   the result is known from here on
 *         vc_infer_out_elems(...)            and its elements, where they are numbers or polynomials
 *
 * A problem sets in->failed. Functions that follow it do nothing or return harmless values (axis 0, no
 * elements), so that an operator's function needs to test in->failed only before it uses such a value as an
 * index. */

#include "graph/ops/ops.h"

#define MOST_ELEMS ((int64_t)1 << 60) /* of a value: their bytes can be counted, too */

/* The node that is inferred. It is looked up each time, since the array of nodes may move. */
static const struct vc_graph_node *node_of(const struct vc_infer *in)
{
    return &in->graph->nodes[in->index];
}

/* The name of the first output that anybody uses. */
static const char *first_output(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    for (unsigned k = 0; k < node->n_outputs; k++) {
        if (node->outputs[k] != VC_NO_VALUE) {
            return graph->values[node->outputs[k]].name;
        }
    }
    return "";
}

/* "Concat 'join1': there is no axis 4; the input has 3 dimensions": the name is the node's or, without one,
 * that of its first result. */
void vc_infer_fail(struct vc_infer *in, const char *format, ...)
{
    const struct vc_graph_node *node = node_of(in);
    char text[VC_MESSAGE_BYTES];
    va_list args;

    if (in->failed) {
        return; /* what follows from the first problem says nothing new */
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    in->failed = true;
    vc_graph_complain(in->graph, "%s '%s': %s", node->op,
                      *node->name != '\0' ? node->name : first_output(in->graph, node), text);
}

unsigned vc_infer_n_in(const struct vc_infer *in)
{
    return node_of(in)->n_inputs;
}

unsigned vc_infer_n_out(const struct vc_infer *in)
{
    return node_of(in)->n_outputs;
}

/* Input k; NULL: it is left out. */
const struct vc_graph_value *vc_infer_in(const struct vc_infer *in, unsigned k)
{
    const struct vc_graph_node *node = node_of(in);

    return k < node->n_inputs && node->inputs[k] != VC_NO_VALUE ? &in->graph->values[node->inputs[k]] : NULL;
}

/* Known elements of input k, of any rank, or NULL; *n: how many. */
const struct vc_dim *vc_infer_all_elems(const struct vc_infer *in, unsigned k, size_t *n)
{
    const struct vc_graph_value *value = vc_infer_in(in, k);
    const struct vc_dim *elems = value == NULL ? NULL : in->graph->facts[node_of(in)->inputs[k]].elems;

    *n = elems == NULL ? 0 : 1;
    for (unsigned d = 0; elems != NULL && d < value->n_dims; d++) {
        *n *= (size_t)value->shape[d].size; /* numbers: elems are only known then, and few */
    }
    return elems;
}

/* The same of numbers and lists only. */
const struct vc_dim *vc_infer_elems(const struct vc_infer *in, unsigned k, size_t *n)
{
    const struct vc_dim *elems = vc_infer_all_elems(in, k, n);

    if (elems != NULL && vc_infer_in(in, k)->n_dims > 1) {
        *n = 0;
        return NULL;
    }
    return elems;
}

/* Used for lists that have to be constants: axes, sizes of parts. "axes is computed while the model runs;
 * ..."
 * Polynomials are refused. */
bool vc_infer_numbers(struct vc_infer *in, unsigned k, const char *what, int64_t *numbers, size_t capacity, size_t *n)
{
    const struct vc_dim *elems = vc_infer_elems(in, k, n);

    if (elems == NULL || *n > capacity) {
        vc_infer_fail(in,
                      elems == NULL ? "%s is computed while the model runs; it has to be constant"
                                    : "%s has too many elements",
                      what);
        return false;
    }
    for (size_t i = 0; i < *n; i++) {
        if (!vc_dim_is_number(elems[i])) {
            vc_infer_fail(in, "%s depends on the size of an input; it has to be constant", what);
            return false;
        }
        numbers[i] = elems[i].size;
    }
    return true;
}

/* ---- attributes ---- */

/* Marks the attribute as asked for, also when its kind is wrong. */
static const struct vc_graph_attr *attr_of(struct vc_infer *in, const char *name, enum vc_attr_kind kind)
{
    const struct vc_graph_node *node = node_of(in);

    for (unsigned k = 0; k < node->n_attrs; k++) {
        const struct vc_graph_attr *attr = &node->attrs[k];

        if (strcmp(attr->name, name) == 0) {
            in->asked |= (uint64_t)1 << k;
            VC_LEAVE_WITH(attr->kind != kind,
                          vc_infer_fail(in, "the attribute %s is of another kind than the operator's", name), NULL);
            return attr;
        }
    }
    return NULL;
}

/* Whether the node has the attribute; this does not count as asking for it. */
bool vc_infer_has(struct vc_infer *in, const char *name)
{
    return vc_node_attr(node_of(in), name) != NULL;
}

/* An attribute of that kind, or `otherwise`. */
int64_t vc_infer_int(struct vc_infer *in, const char *name, int64_t otherwise)
{
    const struct vc_graph_attr *attr = attr_of(in, name, VC_ATTR_INT);

    return attr == NULL ? otherwise : attr->i;
}

double vc_infer_float(struct vc_infer *in, const char *name, double otherwise)
{
    const struct vc_graph_attr *attr = attr_of(in, name, VC_ATTR_FLOAT);

    return attr == NULL ? otherwise : attr->f;
}

const char *vc_infer_string(struct vc_infer *in, const char *name, const char *otherwise)
{
    const struct vc_graph_attr *attr = attr_of(in, name, VC_ATTR_STRING);

    return attr == NULL ? otherwise : attr->s;
}

const int64_t *vc_infer_ints(struct vc_infer *in, const char *name, size_t *n)
{
    const struct vc_graph_attr *attr = attr_of(in, name, VC_ATTR_INTS);

    *n = attr == NULL ? 0 : attr->n;
    return attr == NULL ? NULL : attr->ints;
}

void vc_infer_float_list(struct vc_infer *in, const char *name)
{
    (void)attr_of(in, name, VC_ATTR_FLOATS);
}

/* ---- shapes ---- */

/* An axis from 0 on: -1 is the last. */
unsigned vc_infer_axis(struct vc_infer *in, int64_t axis, unsigned n_dims)
{
    if (axis < -(int64_t)n_dims || axis >= (int64_t)n_dims) {
        vc_infer_fail(in, "there is no axis %lld; the input has %u dimensions", (long long)axis, n_dims);
        return 0;
    }
    return (unsigned)(axis < 0 ? axis + (int64_t)n_dims : axis);
}

/* Two dimensions that have to be equal: batch of two inputs. Equal expressions are; expressions that always differ
 * are a problem; in between, a symbol that meets a number is taken to be that number, and sizes.c checks it for
 * each run.
 *     batch and batch        batch
 *     batch and 8            8, tested in each run
 *     12 and 8               a problem
 *     batch and batch + 1    a problem: they differ for every batch
 */
struct vc_dim vc_infer_same(struct vc_infer *in, const char *what, struct vc_dim a, struct vc_dim b)
{
    char text_a[128], text_b[128];

    if (vc_dim_equal(a, b)) {
        return a;
    }
    if (vc_dim_differ(vc_infer_dims(in), a, b)) {
        vc_infer_fail(in, "%s: %s and %s differ", what, vc_dim_text(&in->graph->dims, a, text_a, sizeof text_a),
                      vc_dim_text(&in->graph->dims, b, text_b, sizeof text_b));
    }
    return vc_dim_is_number(b) ? b : a;
}

/* True if x and y can be equal, or one of them can be 1, for some sizes of the inputs.
 * batch and 64 may: batch could be 64, or 1. */
static bool may_broadcast(struct vc_infer *in, struct vc_dim x, struct vc_dim y)
{
    struct vc_dims *dims = vc_infer_dims(in);
    struct vc_dim one = vc_dim_number(1);

    return !vc_dim_differ(dims, x, y) || !vc_dim_differ(dims, x, one) || !vc_dim_differ(dims, y, one);
}

/* NumPy's rule, from the last dimension on: missing dimensions are 1, and a 1 is repeated.
 *     [batch, 1, 64] and [12, 64]     ->     [batch, 12, 64]
 * Of two dimensions neither of which is 1, a number wins over a symbol: the more exact one. */
bool vc_infer_broadcast(struct vc_infer *in, const struct vc_graph_value *a, const struct vc_graph_value *b,
                        struct vc_dim *shape, unsigned *n_dims)
{
    unsigned n = a->n_dims > b->n_dims ? a->n_dims : b->n_dims;

    *n_dims = n;
    for (unsigned k = 0; k < n; k++) {
        struct vc_dim x = k < n - a->n_dims ? vc_dim_number(1) : a->shape[k - (n - a->n_dims)];
        struct vc_dim y = k < n - b->n_dims ? vc_dim_number(1) : b->shape[k - (n - b->n_dims)];
        char text_x[128], text_y[128];

        VC_LEAVE_WITH(!may_broadcast(in, x, y),
                      vc_infer_fail(in, "'%s' and '%s' do not broadcast: dimension %u is %s and %s", a->name, b->name,
                                    k, vc_dim_text(&in->graph->dims, x, text_x, sizeof text_x),
                                    vc_dim_text(&in->graph->dims, y, text_y, sizeof text_y)),
                      false);
        shape[k] = !vc_dim_is(x, 1) && (vc_dim_is(y, 1) || vc_dim_is_number(x)) ? x : y;
    }
    return true;
}

/* ---- outputs ---- */

/* Numbers are multiplied for the bound of MOST_ELEMS; symbols are checked by sizes.c once they have sizes.
 * An output that nobody uses has no value, and nothing is done for it. */
void vc_infer_out(struct vc_infer *in, unsigned k, enum vc_dtype dtype, const struct vc_dim *shape, unsigned n_dims)
{
    struct vc_graph *graph = in->graph;
    const struct vc_graph_node *node = node_of(in);
    struct vc_dim *own;
    int64_t n = 1;

    if (in->failed || k >= node->n_outputs || node->outputs[k] == VC_NO_VALUE) {
        return;
    }
    for (unsigned i = 0; i < n_dims; i++) {
        VC_LEAVE_IF(vc_dim_is_bad(shape[i]) || (vc_dim_is_number(shape[i]) && shape[i].size < 0),
                    vc_infer_fail(in,
                                  vc_dim_is_bad(shape[i]) ? "the size of dimension %u overflows or cannot be told"
                                                          : "dimension %u of the output is negative",
                                  i));
    }
    for (unsigned i = 0; i < n_dims; i++) {
        if (vc_dim_is_number(shape[i])) {
            n = __builtin_mul_overflow(n, shape[i].size, &n) || n > MOST_ELEMS ? MOST_ELEMS : n;
        }
    }
    VC_LEAVE_IF(n >= MOST_ELEMS, vc_infer_fail(in, "the output has more elements than can be counted in 60 bits"));
    own = vc_arena_alloc(graph->ctx, &graph->arena, (n_dims + 1) * sizeof *own);
    VC_LEAVE_IF(own == NULL, graph->status = VC_E_NOMEM);
    if (n_dims != 0) {
        memcpy(own, shape, n_dims * sizeof *own);
    }
    struct vc_graph_value *value = &graph->values[node->outputs[k]];
    value->dtype = dtype;
    value->shape = own;
    value->n_dims = n_dims;
    graph->facts[node->outputs[k]].unknown = false;
}

/* Elements are kept only if their number is what the shape says, and all are valid dimensions. Losing them is no
 * error: the value is then computed while the graph runs. */
void vc_infer_out_elems(struct vc_infer *in, unsigned k, const struct vc_dim *elems, size_t n)
{
    struct vc_graph *graph = in->graph;
    struct vc_dim *own;
    size_t all = 1;

    if (in->failed || k >= vc_infer_n_out(in) || node_of(in)->outputs[k] == VC_NO_VALUE || n > VC_MAX_ELEMS) {
        return;
    }
    const struct vc_graph_value *value = &graph->values[node_of(in)->outputs[k]];
    for (unsigned d = 0; d < value->n_dims; d++) {
        all *= vc_dim_is_number(value->shape[d]) ? (size_t)value->shape[d].size : VC_MAX_ELEMS + 1;
    }
    if (all != n) { /* a size that depends on an input */
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (vc_dim_is_bad(elems[i])) {
            return;
        }
    }
    own = vc_arena_alloc(graph->ctx, &graph->arena, (n + 1) * sizeof *own);
    VC_LEAVE_IF(own == NULL, graph->status = VC_E_NOMEM);
    if (n != 0) {
        memcpy(own, elems, n * sizeof *own);
    }
    graph->facts[node_of(in)->outputs[k]].elems = own;
}

/* Multiply-adds of the node, as a polynomial. */
void vc_infer_macs(struct vc_infer *in, struct vc_dim macs)
{
    in->graph->nodes[in->index].macs = macs;
}

/* ---- a node ---- */

/* Counts first, so that vc_infer_X may read inputs 0 to min_in - 1 without asking. Then every attribute has to be
 * known to the operator: an unknown one might change the result. One bit per attribute limits a node to 64. */
void vc_infer_node(struct vc_graph *graph, uint32_t index)
{
    struct vc_infer in = {.graph = graph, .index = index};
    const struct vc_op_row *row = graph->nodes[index].row;
    const struct vc_graph_node *node = &graph->nodes[index];

    if (node->n_inputs < row->min_in || node->n_inputs > row->max_in) {
        vc_infer_fail(&in, "has %u inputs; the operator takes %u to %u", node->n_inputs, row->min_in, row->max_in);
        return;
    }
    if (node->n_outputs < row->min_out || node->n_outputs > row->max_out) {
        vc_infer_fail(&in, "has %u outputs; the operator makes %u to %u", node->n_outputs, row->min_out, row->max_out);
        return;
    }
    for (unsigned k = 0; k < row->min_in; k++) {
        VC_LEAVE_IF(node->inputs[k] == VC_NO_VALUE, vc_infer_fail(&in, "input %u is missing", k));
    }
    VC_LEAVE_IF(node->n_attrs > 64, vc_infer_fail(&in, "has %u attributes", node->n_attrs));
    row->infer(&in);
    node = &graph->nodes[index];
    for (unsigned k = 0; k < node->n_attrs; k++) {
        if (!in.failed && !(in.asked >> k & 1)) {
            vc_infer_fail(&in, "the attribute %s is not supported", node->attrs[k].name);
        }
    }
    for (unsigned k = 0; in.failed && k < node->n_outputs; k++) {
        if (node->outputs[k] != VC_NO_VALUE) {
            graph->facts[node->outputs[k]].unknown = true;
        }
    }
}
