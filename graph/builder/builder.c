/* builder.c - values, parameters, nodes and problems of a graph while it is built, and how programs walk
 * it. The end of building is finish.c.
 *
 * A graph is a few lists that grow by one element at a time. Everything is named by its number in a list:
 *
 *     values     every tensor of the program       kind, name, type, shape; made by `node`, read from parameter `param`
 *     facts      one for each value                 unknown, known elements
 *     params     tensors of the weights             .value is the number of its value
 *     nodes      operators, in order of execution   .inputs and .outputs are numbers of values
 *     inputs     numbers of values                  what the caller gives
 *     outputs    numbers of values                  what the caller gets
 *     by_name    hash table over values             a name to its number
 *
 * A program of one linear layer, y = x * w + b:
 *
 *     number   name    kind        made by
 *     0        x       input       the caller
 *     1        w       parameter   params[0]
 *     2        MatMul_2  result    nodes[0]: inputs {0, 1}, outputs {2}
 *     3        b       parameter   params[1]
 *     4        y       result      nodes[1]: inputs {2, 3}, outputs {4}
 *
 * Numbers are given once and never change until the graph is finished, so that builders keep them in local
 * variables (uint32_t x = vc_graph_add(...)).
 *
 * A value gets a name and a number first (new_value), then type and shape: inputs, parameters and constants
 * from the caller, results by vc_infer_node. A value whose shape nobody knows is marked facts[v].unknown;
 * nodes that read it are not inferred, so that one mistake gives one problem and not one for each node
 * behind it.
 *
 * Two kinds of failure are kept apart. What is wrong with the program is a problem: a text in
 * graph->problems, and building goes on, so that a user sees all of them at once. What is wrong with the
 * machine is graph->status: no memory. After it every function returns VC_NO_VALUE without doing anything,
 * and finish.c returns the status; builders therefore do not test what they get.
 *
 * Texts and lists of fixed length (names, shapes, attributes) lie in the arena of the graph, which is
 * released as one. */
#include "graph/builder/builder.h"

#include <math.h>

#include "core/base/array.h"
#include "core/job/scoped.h"
#include "graph/ops/ops.h"

/* A graph without values. The families set float_type from config.json; the block is "" until the first
 * vc_graph_set_block.
 *
 * A failure after the allocation closes the graph, which accepts members that are not made yet. */
enum vc_status vc_graph_create(struct vc_ctx *ctx, struct vc_graph **out)
{
    VC_SCOPED_GRAPH struct vc_graph *graph = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *graph);

    *out = NULL;
    VC_CALL_ALLOC(graph);
    graph->ctx = ctx;
    graph->float_type = VC_DTYPE_NONE;
    graph->block = "";
    VC_CALL(vc_dims_init(&graph->dims, ctx, &graph->arena));
    *out = vc_give(&graph);
    return VC_OK;
}

/* Releases everything that the graph owns. Texts that were taken from it (names, problems) are gone with
 * the arena. */
void vc_graph_close(struct vc_graph *graph)
{
    struct vc_ctx *ctx;

    if (graph == NULL) {
        return;
    }
    ctx = graph->ctx;
    vc_dims_release(&graph->dims);
    vc_arena_release(ctx, &graph->arena);
    VC_FREE_ALL(ctx, graph->nodes, graph->values, graph->facts, graph->params, graph->inputs, graph->outputs);
    vc_hash_release(ctx, &graph->by_name);
    VC_FREE_ALL(ctx, graph->unused, graph);
}

/* ---- memory ---- */

/* A list of the graph: the address of the pointer to its elements, and their size. Values and facts are two
 * lists of equal length, and grow in one call of make_room. */
struct list {
    void *at;
    size_t size;
};

/* Room for one more in lists of n elements that grow together; false after a failure, which the graph
 * remembers.
 *
 * Each list starts from the same *capacity, which is replaced only when all of them have grown: after a
 * failure in the second list the first one is merely larger than it is told to be. */
static bool make_room(struct vc_graph *graph, uint32_t n, size_t *capacity, const struct list *lists, unsigned n_lists)
{
    size_t larger = *capacity;

    for (unsigned k = 0; k < n_lists && graph->status == VC_OK; k++) {
        larger = *capacity;
        graph->status = vc_array_grow(graph->ctx, VC_TAG_MISC, lists[k].at, &larger, n + (size_t)1, lists[k].size);
    }
    *capacity = graph->status == VC_OK ? larger : *capacity;
    return graph->status == VC_OK;
}

/* Appends a value's number to a list of them (inputs, outputs). */
static bool add_number(struct vc_graph *graph, uint32_t **list, uint32_t *n, size_t *capacity, uint32_t number)
{
    const struct list lists[] = {{list, sizeof **list}};

    if (!make_room(graph, *n, capacity, lists, 1)) {
        return false;
    }
    (*list)[(*n)++] = number;
    return true;
}

/* ---- problems ---- */

/* An operator asks to be computed as in training (training_mode of BatchNormalization or Dropout). That is
 * a note for the user and no problem. Only the first is kept by name; the note counts the others. */
void vc_graph_asks_training(struct vc_graph *graph, const char *op, const char *name)
{
    char text[VC_MESSAGE_BYTES];

    if (graph->n_training++ == 0) {
        snprintf(text, sizeof text, "%s '%s'", op, name);
        graph->training = vc_graph_copy_text(graph, text);
    }
}

/* Called once, at the end of building: "BatchNormalization 'bn1' and 51 more: training_mode is 1, and what
 * is computed is inference: ..." */
void vc_graph_write_note(struct vc_graph *graph)
{
    char text[VC_MESSAGE_BYTES];
    char others[32] = "";

    if (graph->n_training > 1) {
        snprintf(others, sizeof others, " and %u more", (unsigned)graph->n_training - 1);
    }
    if (graph->n_training != 0) {
        snprintf(
            text, sizeof text,
            "%s%s: training_mode is 1, and what is computed is inference: running statistics, and nothing is dropped",
            graph->training, others);
        graph->note = vc_graph_copy_text(graph, text);
    }
}

/* A tensor of the checkpoint that no parameter reads. Families call it for those that their list of
 * patterns allows; others are a problem. */
void vc_graph_leave(struct vc_graph *graph, const char *tensor)
{
    const struct list lists[] = {{&graph->unused, sizeof *graph->unused}};

    if (make_room(graph, graph->n_unused, &graph->unused_capacity, lists, 1)) {
        graph->unused[graph->n_unused++] = vc_graph_copy_text(graph, tensor);
    }
}

/* ---- names ---- */

/* What the hash of a value is when the table of names (vc_graph_find) grows. */
static uint64_t hash_of(const void *graph, size_t number)
{
    return vc_hash_text(((const struct vc_graph *)graph)->values[number].name);
}

/* A copy of the name if it is free. A name that is taken is a problem, and like an empty one it is replaced by
 * "MatMul_12": the kind and the first number from the count of values on that is free.
 * The loop ends: among the n + 1 names from n_values on, at least one differs from the n names that are
 * taken. */
static const char *name_for(struct vc_graph *graph, const char *name, const char *kind)
{
    char own[128];

    if (name != NULL && *name != '\0') {
        if (vc_graph_find(graph, name) == VC_NO_VALUE) {
            return vc_graph_copy_text(graph, name);
        }
        vc_graph_complain(graph, "the value '%s' is made twice", name);
    }
    for (uint32_t k = graph->n_values;; k++) {
        snprintf(own, sizeof own, "%.100s_%u", kind, (unsigned)k); /* an operator's name may have any length */
        if (vc_graph_find(graph, own) == VC_NO_VALUE) {
            return vc_graph_copy_text(graph, own);
        }
    }
}

/* ---- values ---- */

/* Appends a value without type and shape, under a unique name. VC_NO_VALUE if memory is short (remembered) or there
 * are too many values. */
static uint32_t new_value(struct vc_graph *graph, const char *name, const char *kind_name, enum vc_value_kind kind)
{
    const struct list lists[] = {{&graph->values, sizeof *graph->values}, {&graph->facts, sizeof *graph->facts}};
    uint32_t n = graph->n_values;

    if (graph->status != VC_OK || n >= VC_NO_VALUE / 2) {
        return VC_NO_VALUE;
    }
    const char *own = name_for(graph, name, kind_name);
    if (!make_room(graph, n, &graph->value_capacity, lists, 2)) { /* or no memory for the name */
        return VC_NO_VALUE;
    }
    graph->status = vc_hash_grow(graph->ctx, &graph->by_name, n, hash_of, graph);
    if (graph->status != VC_OK) {
        return VC_NO_VALUE;
    }
    graph->values[n] = (struct vc_graph_value){.name = own, .kind = kind, .node = VC_NO_NODE, .param = VC_NO_PARAM};
    graph->facts[n] = (struct vc_value_facts){0};
    vc_hash_add(&graph->by_name, vc_hash_text(own), n);
    return graph->n_values++;
}

/* Copies the shape. If memory is short the value is a scalar, and whole() keeps callers from getting its number. */
static void set_shape(struct vc_graph *graph, uint32_t value, enum vc_dtype dtype, const struct vc_dim *shape,
                      unsigned n_dims)
{
    const struct vc_dim *own = vc_graph_copy(graph, shape, n_dims, sizeof *shape);

    graph->values[value].dtype = dtype;
    graph->values[value].n_dims = own != NULL ? n_dims : 0;
    graph->values[value].shape = own;
}

/* The value if nothing has failed so far, else VC_NO_VALUE. */
static uint32_t whole(const struct vc_graph *graph, uint32_t value)
{
    return graph->status == VC_OK ? value : VC_NO_VALUE;
}

/* A value that stands for something that could not be made, after a problem was noted: F32 without
 * dimensions, and marked unknown so that nobody uses that shape. */
uint32_t vc_graph_unknown(struct vc_graph *graph, const char *name)
{
    uint32_t value = new_value(graph, name, "unknown", VC_VALUE_RESULT);

    if (value != VC_NO_VALUE) {
        graph->facts[value].unknown = true;
        set_shape(graph, value, VC_DTYPE_F32, NULL, 0);
    }
    return value;
}

/* An input of the program. Sizes may be symbols, vc_dim_symbol(&graph->dims, "batch"). */
uint32_t vc_graph_add_input(struct vc_graph *graph, const char *name, enum vc_dtype dtype, const struct vc_dim *shape,
                            unsigned n_dims)
{
    uint32_t value = new_value(graph, name, "input", VC_VALUE_INPUT);

    if (value != VC_NO_VALUE && add_number(graph, &graph->inputs, &graph->n_inputs, &graph->input_capacity, value)) {
        set_shape(graph, value, dtype, shape, n_dims);
    }
    return whole(graph, value);
}

/* An input that the caller may leave out; each of its elements is `otherwise` then. An example is
 * attention_mask with 1. */
uint32_t vc_graph_add_option(struct vc_graph *graph, const char *name, enum vc_dtype dtype, const struct vc_dim *shape,
                             unsigned n_dims, int64_t otherwise)
{
    uint32_t value = vc_graph_add_input(graph, name, dtype, shape, n_dims);

    if (value != VC_NO_VALUE) {
        graph->values[value].optional = true;
        graph->values[value].otherwise = otherwise;
    }
    return value;
}

/* The shape that the parameter has in the graph: of the tensor, with the slice's count, last two axes swapped if
 * transposed. Everything comes from a file: ranks, sizes and bounds of the slice are checked, first + count without
 * overflow.
 *     tensor [30, 20], sliced: axis 0, first 10, count 10          [10, 20]
 *     the same, transposed                                         [20, 10]
 */
static bool param_shape(struct vc_graph *graph, const char *name, const struct vc_param_spec *spec,
                        struct vc_dim *shape)
{
    if (spec->n_dims > VC_GRAPH_MAX_DIMS) {
        vc_graph_complain(graph, "%s: the tensor has %u dimensions; %d are supported", name, spec->n_dims,
                          VC_GRAPH_MAX_DIMS);
        return false;
    }
    for (unsigned k = 0; k < spec->n_dims; k++) {
        uint64_t size = spec->sliced && k == spec->axis ? spec->count : spec->shape[k];

        VC_LEAVE_WITH(size > INT64_MAX, vc_graph_complain(graph, "%s: a dimension of the tensor is too large", name),
                      false);
        shape[k] = vc_dim_number((int64_t)size);
    }
    VC_LEAVE_WITH(spec->sliced && (spec->axis >= spec->n_dims || spec->first > spec->shape[spec->axis] ||
                                   spec->count > spec->shape[spec->axis] - spec->first),
                  vc_graph_complain(graph, "%s: elements %llu to %llu of axis %u are outside of the tensor", name,
                                    (unsigned long long)spec->first, (unsigned long long)(spec->first + spec->count),
                                    spec->axis),
                  false);
    VC_LEAVE_WITH(spec->transposed && spec->n_dims < 2,
                  vc_graph_complain(graph, "%s: the tensor has %u dimensions, and a transposed one two or more", name,
                                    spec->n_dims),
                  false);
    if (spec->transposed) {
        struct vc_dim last = shape[spec->n_dims - 1];

        shape[spec->n_dims - 1] = shape[spec->n_dims - 2];
        shape[spec->n_dims - 2] = last;
    }
    return true;
}

/* The weights have the same numbers under a second name, too. The first such name is kept for messages, and
 * the others are counted. */
void vc_graph_also(struct vc_graph *graph, uint32_t param, const char *name)
{
    struct vc_graph_param *p = &graph->params[param];

    p->also = p->n_also == 0 ? vc_graph_copy_text(graph, name) : p->also;
    p->n_also++;
}

/* A parameter is two things: a value of the graph and an entry of params that says how to read it; each has the
 * number of the other.
 * Integers become I64, everything else F32: weights of 2 and of 1 byte are widened when they are read
 * (weights.c in engine/). */
uint32_t vc_graph_add_param(struct vc_graph *graph, const char *name, const struct vc_param_spec *spec)
{
    const struct list lists[] = {{&graph->params, sizeof *graph->params}};
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];

    if (!param_shape(graph, name, spec, shape)) {
        return vc_graph_unknown(graph, name);
    }
    uint32_t value = new_value(graph, name, "param", VC_VALUE_PARAMETER);
    if (value == VC_NO_VALUE || !make_room(graph, graph->n_params, &graph->param_capacity, lists, 1)) {
        return VC_NO_VALUE;
    }
    set_shape(graph, value, spec->integers ? VC_DTYPE_I64 : VC_DTYPE_F32, shape, spec->n_dims);
    struct vc_graph_param param =
        (struct vc_graph_param){.tensor = vc_graph_copy_text(graph, spec->tensor),
                                .index = spec->index,
                                .from_weights = spec->from_weights,
                                .n_dims = spec->n_dims,
                                .shape = vc_graph_copy(graph, spec->shape, spec->n_dims, sizeof *spec->shape),
                                .sliced = spec->sliced,
                                .axis = spec->axis,
                                .first = spec->first,
                                .count = spec->count,
                                .transposed = spec->transposed,
                                .tied_to = VC_NO_PARAM,
                                .value = value};
    graph->values[value].param = graph->n_params;
    graph->params[graph->n_params++] = param;
    return whole(graph, value);
}

/* Short lists of whole numbers are also kept as facts[value].elems, from which the shapes of later nodes are
 * computed (Reshape's target, Slice's ends). Floats count if they are whole and below 2^24: exporters compute sizes
 * in floats, too.
 * Both kinds of elements have 8 bytes: doubles of F32, int64_t of the others. `fabs(x) < VC_MOST_WHOLE` is
 * written so that NaN fails it. */
uint32_t vc_graph_add_constant(struct vc_graph *graph, const char *name, enum vc_dtype dtype, const int64_t *shape,
                               unsigned n_dims, const void *elements)
{
    struct vc_dim dims[VC_GRAPH_MAX_DIMS];
    struct vc_dim elems[VC_MAX_ELEMS];
    size_t n = 1;

    if (n_dims > VC_GRAPH_MAX_DIMS) {
        vc_graph_complain(graph, "%s: the constant has %u dimensions; %d are supported", name != NULL ? name : "",
                          n_dims, VC_GRAPH_MAX_DIMS);
        return vc_graph_unknown(graph, name);
    }
    for (unsigned k = 0; k < n_dims; k++) {
        dims[k] = vc_dim_number(shape[k]);
        VC_LEAVE_WITH(shape[k] < 0 || !vc_mul_size(n, (size_t)shape[k], &n),
                      vc_graph_complain(graph, "%s: the constant's shape overflows", name != NULL ? name : ""),
                      vc_graph_unknown(graph, name));
    }
    uint32_t value = new_value(graph, name, "constant", VC_VALUE_CONSTANT);
    if (value == VC_NO_VALUE) {
        return value;
    }
    set_shape(graph, value, dtype, dims, n_dims);
    graph->values[value].data = vc_graph_copy(graph, elements, n, 8);
    if (n <= VC_MAX_ELEMS && n_dims <= 1 && graph->status == VC_OK) {
        for (size_t k = 0; k < n; k++) {
            double x = dtype == VC_DTYPE_F32 ? ((const double *)elements)[k] : 0;

            if (!(fabs(x) < VC_MOST_WHOLE) || x != rint(x)) {
                return whole(graph, value);
            }
            elems[k] = vc_dim_number(dtype == VC_DTYPE_F32 ? (int64_t)x : ((const int64_t *)elements)[k]);
        }
        graph->facts[value].elems = vc_graph_copy(graph, elems, n, sizeof *elems);
    }
    return whole(graph, value);
}

/* Short forms for builders: a list of integers, one integer, one float. The names are made by name_for. */
uint32_t vc_graph_add_ints(struct vc_graph *graph, const int64_t *ints, size_t n)
{
    int64_t shape = (int64_t)n;

    return vc_graph_add_constant(graph, NULL, VC_DTYPE_I64, &shape, 1, ints);
}

uint32_t vc_graph_add_int(struct vc_graph *graph, int64_t i)
{
    return vc_graph_add_constant(graph, NULL, VC_DTYPE_I64, NULL, 0, &i);
}

uint32_t vc_graph_add_float(struct vc_graph *graph, double f)
{
    return vc_graph_add_constant(graph, NULL, VC_DTYPE_F32, NULL, 0, &f);
}

/* Makes the value an output. The same value may be added twice and is two outputs then. */
void vc_graph_add_output(struct vc_graph *graph, uint32_t value)
{
    if (value != VC_NO_VALUE) {
        (void)add_number(graph, &graph->outputs, &graph->n_outputs, &graph->output_capacity, value);
    }
}

/* ---- nodes ---- */

/* Copies the attributes of a node into the arena. A member that another kind would use is NULL in the copy,
 * whatever the caller left in it. */
static const struct vc_graph_attr *copy_attrs(struct vc_graph *graph, const struct vc_graph_attr *attrs, unsigned n)
{
    struct vc_graph_attr *to = vc_graph_copy(graph, attrs, n, sizeof *attrs);

    for (unsigned k = 0; to != NULL && k < n; k++) {
        to[k].name = vc_graph_copy_text(graph, attrs[k].name);
        to[k].s = attrs[k].kind == VC_ATTR_STRING ? vc_graph_copy_text(graph, attrs[k].s) : NULL;
        to[k].ints =
            attrs[k].kind == VC_ATTR_INTS ? vc_graph_copy(graph, attrs[k].ints, attrs[k].n, sizeof(int64_t)) : NULL;
        to[k].floats =
            attrs[k].kind == VC_ATTR_FLOATS ? vc_graph_copy(graph, attrs[k].floats, attrs[k].n, sizeof(double)) : NULL;
    }
    return to;
}

/* Values for what the node makes, of unknown shape until it is inferred. */
static const uint32_t *make_outputs(struct vc_graph *graph, const struct vc_node_spec *spec)
{
    uint32_t *outputs = vc_arena_alloc(graph->ctx, &graph->arena, (spec->n_outputs + 1) * sizeof *outputs);

    VC_LEAVE_WITH(outputs == NULL, graph->status = VC_E_NOMEM, NULL);
    for (unsigned k = 0; k < spec->n_outputs; k++) {
        outputs[k] =
            new_value(graph, spec->output_names != NULL ? spec->output_names[k] : NULL, spec->op, VC_VALUE_RESULT);
        if (outputs[k] == VC_NO_VALUE) {
            return NULL;
        }
        set_shape(graph, outputs[k], VC_DTYPE_F32, NULL, 0);
        graph->facts[outputs[k]].unknown = true;
        graph->values[outputs[k]].node = graph->n_nodes;
    }
    return outputs;
}

/* True if a problem was noted for one of the inputs: nothing more can be said about the node.
 * An input that is left out (VC_NO_VALUE) is not unknown. */
static bool has_unknown_input(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    for (unsigned k = 0; k < node->n_inputs; k++) {
        if (node->inputs[k] != VC_NO_VALUE && graph->facts[node->inputs[k]].unknown) {
            return true;
        }
    }
    return false;
}

/* Order matters: room first, then copies, then outputs, and only then the node is counted, so that a failure in
 * between leaves a consistent graph. Beyond VC_GRAPH_MAX_NODES nodes become unknown values, with one problem for
 * all of them.
 * An operator that the library does not have is a problem with the nearest name, "Gelu" for "GELU"; its
 * node stays in the graph, with results of unknown shape. A node behind an unknown value says nothing, whatever its
 * operator: GridSample behind one that is not there is no operator of the graph either. One with known inputs is
 * inferred at once: the result has its shape when this function returns, and builders can look at it. */
uint32_t vc_graph_add_node(struct vc_graph *graph, const struct vc_node_spec *spec)
{
    const struct list lists[] = {{&graph->nodes, sizeof *graph->nodes}};

    if (!make_room(graph, graph->n_nodes, &graph->node_capacity, lists, 1)) {
        return VC_NO_VALUE;
    }
    if (graph->n_nodes >= VC_GRAPH_MAX_NODES) {
        if (graph->n_nodes == VC_GRAPH_MAX_NODES && graph->n_problems == 0) {
            vc_graph_complain(graph, "there are more than %d nodes", VC_GRAPH_MAX_NODES);
        }
        return vc_graph_unknown(graph, NULL);
    }
    struct vc_graph_node node =
        (struct vc_graph_node){.op = vc_graph_copy_text(graph, spec->op),
                               .row = vc_op_find(spec->op),
                               .name = vc_graph_copy_text(graph, spec->name != NULL ? spec->name : ""),
                               .block = graph->block,
                               .expert = graph->in_expert,
                               .routes = graph->routes,
                               .expert_number = graph->expert_number,
                               .n_inputs = spec->n_inputs,
                               .n_outputs = spec->n_outputs,
                               .n_attrs = spec->n_attrs};
    node.inputs = vc_graph_copy(graph, spec->inputs, spec->n_inputs, sizeof *spec->inputs);
    node.attrs = copy_attrs(graph, spec->attrs, spec->n_attrs);
    node.outputs = make_outputs(graph, spec);
    if (graph->status != VC_OK || node.outputs == NULL) {
        return VC_NO_VALUE;
    }
    graph->nodes[graph->n_nodes++] = node;
    if (has_unknown_input(graph, &node)) {
        /* says nothing: also an operator of which a builder, that knows its inputs, would have made others */
    } else if (node.row == NULL) {
        vc_graph_complain(graph, "the operator '%s'%s%s%s is not supported; the most similar one is %s", spec->op,
                          *node.name != '\0' ? " of the node '" : "", node.name, *node.name != '\0' ? "'" : "",
                          vc_op_nearest(spec->op));
    } else {
        vc_infer_node(graph, graph->n_nodes - 1);
    }
    return node.n_outputs != 0 ? node.outputs[0] : VC_NO_VALUE;
}

uint32_t vc_graph_add_one(struct vc_graph *graph, const char *op, const char *output, const uint32_t *inputs,
                          unsigned n_inputs, const struct vc_graph_attr *attrs, unsigned n_attrs)
{
    return vc_graph_add_node(graph, &(struct vc_node_spec){.op = op,
                                                           .n_inputs = n_inputs,
                                                           .inputs = inputs,
                                                           .n_outputs = 1,
                                                           .output_names = &output,
                                                           .n_attrs = n_attrs,
                                                           .attrs = attrs});
}

/* A node with one output and no attributes, which is the most frequent kind. */
uint32_t vc_graph_add(struct vc_graph *graph, const char *op, const char *output, const uint32_t *inputs,
                      unsigned n_inputs)
{
    return vc_graph_add_one(graph, op, output, inputs, n_inputs, NULL, 0);
}

/* Result number k of the node whose first result is `first`. vc_graph_add_node returns only the first one;
 * a Split has more. */
uint32_t vc_graph_output_of(const struct vc_graph *graph, uint32_t first, unsigned k)
{
    uint32_t node = first == VC_NO_VALUE ? VC_NO_NODE : graph->values[first].node;

    return node == VC_NO_NODE || k >= graph->nodes[node].n_outputs ? VC_NO_VALUE : graph->nodes[node].outputs[k];
}

/* Copies the text only when the block changes: thousands of nodes share one.
 * Nodes that are added later belong to the block; NULL as format ends it. The block is what tables name:
 * "layer.3.attention". */
void vc_graph_set_block(struct vc_graph *graph, const char *format, ...)
{
    char text[512] = "";
    va_list args;

    if (format != NULL) {
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
    }
    if (strcmp(text, graph->block) != 0) {
        graph->block = vc_graph_copy_text(graph, text);
    }
}

/* The numbers of experts are kept once for the graph; families with experts have the same in all layers.
 * n = 0: nodes from now on belong to no expert. */
void vc_graph_set_expert(struct vc_graph *graph, uint32_t n, uint32_t per_token, uint32_t routes, uint32_t number)
{
    graph->in_expert = n != 0;
    graph->routes = routes;
    graph->expert_number = number;
    if (n != 0) {
        graph->n_experts = n;
        graph->experts_per_token = per_token;
    }
}

/* ---- walking ---- */

/* Names and sizes of the open dimensions, in the order of their first use: atoms that are quotients do not count. */
const char *vc_graph_symbol(const struct vc_graph *graph, uint32_t index, int64_t *size)
{
    for (uint32_t k = 0; k < graph->dims.n_atoms; k++) {
        const struct vc_dim_atom *atom = &graph->dims.atoms[k];

        if (atom->name != NULL && index-- == 0) {
            if (size != NULL) {
                *size = atom->known ? atom->value : -1;
            }
            return atom->name;
        }
    }
    return NULL;
}

/* Gives an open dimension its size: batch = 8. A later call for the same symbol replaces the size, and the
 * sizes of all values follow it, since they are computed on demand (vc_dim_value). */
enum vc_status vc_graph_bind(struct vc_ctx *ctx, struct vc_graph *graph, const char *symbol, int64_t size)
{
    VC_REFUSE_IF(size < 1, ctx, VC_E_ARGUMENT, "%s must be 1 or more, not %lld", symbol, (long long)size);
    VC_REFUSE_IF(!vc_dim_bind(&graph->dims, symbol, size), ctx, VC_E_ARGUMENT, "no input has a dimension '%s'", symbol);
    return VC_OK;
}

/* The leading dimension of input number `index`; NULL: it is no symbol. */
static const struct vc_dim_atom *leading(const struct vc_graph *graph, uint32_t index)
{
    const struct vc_graph_value *value = vc_graph_value(graph, graph->inputs[index]);

    return value->n_dims == 0 ? NULL : vc_dim_symbol_of(&graph->dims, value->shape[0]);
}

/* The first symbol whose name begins with "batch", else the first symbol that leads an input.
 * NULL: all sizes are numbers, or none leads an input. */
const char *vc_graph_batch_symbol(const struct vc_graph *graph)
{
    const char *name;

    for (uint32_t i = 0; (name = vc_graph_symbol(graph, i, NULL)) != NULL; i++) {
        if (strncmp(name, "batch", 5) == 0) {
            return name;
        }
    }
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        if (leading(graph, i) != NULL) {
            return leading(graph, i)->name;
        }
    }
    return NULL;
}

/* The table holds the names that families and exporters give to open sizes; a symbol that has a size keeps it.
 * What leads an input and is in no row becomes 1; other symbols that are in no row stay open, and a run
 * asks for them. */
enum vc_status vc_graph_bind_usual(struct vc_ctx *ctx, struct vc_graph *graph)
{
    static const struct {
        const char *name;
        int64_t size;
    } usual[] = {
        {"batch", 1},    {"batch_size", 1}, {"sequence", 128}, {"sequence_length", 128}, {"decoder_sequence", 128},
        {"height", 224}, {"width", 224}};
    const char *name;
    int64_t size;

    for (uint32_t i = 0; (name = vc_graph_symbol(graph, i, &size)) != NULL; i++) {
        for (size_t k = 0; k < sizeof usual / sizeof *usual; k++) {
            if (strcmp(name, usual[k].name) == 0 && size < 0) {
                VC_CALL(vc_graph_bind(ctx, graph, name, usual[k].size));
            }
        }
    }
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const struct vc_dim_atom *atom = leading(graph, i);

        if (atom != NULL && !atom->known) {
            VC_CALL(vc_graph_bind(ctx, graph, atom->name, 1));
        }
    }
    return VC_OK;
}

int64_t vc_graph_dim_value(const struct vc_graph *graph, struct vc_dim dim)
{
    return vc_dim_value(&graph->dims, dim);
}

const char *vc_graph_dim_text(const struct vc_graph *graph, struct vc_dim dim, char *buffer, size_t n)
{
    return n == 0 ? "" : vc_dim_text(&graph->dims, dim, buffer, n);
}
