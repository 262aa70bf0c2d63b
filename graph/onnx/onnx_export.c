/* onnx_export.c - a graph as the program of an ONNX file that is to be made: the inverse of onnx_build.c, for graphs of
 * configurations, whose weights come from a model in another form.
 *
 *     parameter q_proj.weight, of a bf16 tensor [64, 32], transposed     weight "q_proj.weight.bf16" [32, 64], turned
 *                                                                        Cast -> "q_proj.weight"
 *     ... with `rows`                                        weight "q_proj.weight.bf16" [64, 32]
 *                                                            Cast -> "q_proj.weight" -> Transpose -> "q_proj.weight.turned"
 *     ... of a tensor that another parameter is as it lies (tied)        Transpose of that one's value
 *     constant                                                           constant with its elements
 *     node                                                               the same node, by the names of its values */

#include "core/base/array.h"
#include "graph/onnx/onnx_build.h"

#define CAST_TO_FLOAT 1 /* ONNX's number of f32 */

struct export
{
    struct vc_ctx *ctx;
    const struct vc_graph *graph;
    const struct vc_model *model;
    struct vc_arena *arena;
    struct vc_program_node *nodes;
    size_t n_nodes, nodes_capacity;
    struct vc_program_weight *weights;
    size_t n_weights;
    struct vc_program_constant *constants;
    size_t n_constants;
    bool rows;          /* matrices of products as they lie, with a Transpose behind them */
    const char **names; /* by value: what nodes call it */
};

static void *room(struct export *e, size_t n, size_t size)
{
    void *p = vc_arena_alloc(e->ctx, e->arena, (n + 1) * size);

    if (p != NULL) {
        memset(p, 0, (n + 1) * size);
    }
    return p;
}

/* ---- nodes ---- */

static enum vc_status next_node(struct export *e, struct vc_program_node **out)
{
    VC_CALL(VC_ARENA_GROW(e->ctx, e->arena, e->nodes, e->nodes_capacity, e->n_nodes + 1));
    *out = &e->nodes[e->n_nodes++];
    **out = (struct vc_program_node){.domain = "", .name = "", .overload = ""};
    return VC_OK;
}

/* A node of one input and one output, with an attribute or without. */
static enum vc_status add_single(struct export *e, const char *op, const char *input, const char *output,
                                 const struct vc_program_attr *attr)
{
    struct vc_program_node *node;
    const char **names = room(e, 2, sizeof *names);
    struct vc_program_attr *own = room(e, 1, sizeof *own);

    VC_CALL_ALLOC(names);
    VC_CALL_ALLOC(own);
    VC_CALL(next_node(e, &node));
    names[0] = input;
    names[1] = output;
    node->op = op;
    node->n_inputs = 1;
    node->inputs = names;
    node->n_outputs = 1;
    node->outputs = names + 1;
    if (attr != NULL) {
        *own = *attr;
        node->n_attrs = 1;
        node->attrs = own;
    }
    return VC_OK;
}

/* Elements of the graph as those of a file. */
static enum vc_status tensor_of(struct export *e, enum vc_dtype dtype, unsigned n_dims, const uint64_t *shape,
                                const void *elements, struct vc_program_tensor *to)
{
    size_t size = dtype == VC_DTYPE_I64 ? 8 : dtype == VC_DTYPE_F32 ? 4 : 1;
    uint64_t n = 1;

    for (unsigned d = 0; d < n_dims; d++) {
        n *= shape[d];
    }
    unsigned char *bytes = room(e, (size_t)n, size);
    VC_CALL_ALLOC(bytes);
    for (size_t i = 0; i < n; i++) {
        if (dtype == VC_DTYPE_F32) {
            float x = (float)((const double *)elements)[i];
            uint32_t bits;

            memcpy(&bits, &x, sizeof bits);
            vc_put_le32(bytes + 4 * i, bits);
        } else if (dtype == VC_DTYPE_I64) {
            vc_put_le64(bytes + 8 * i, (uint64_t)((const int64_t *)elements)[i]);
        } else {
            bytes[i] = ((const int64_t *)elements)[i] != 0;
        }
    }
    *to = (struct vc_program_tensor){
        .dtype = dtype, .n_dims = n_dims, .shape = shape, .n_bytes = n * size, .data = bytes};
    return VC_OK;
}

/* ConstantOfShape has its number as a tensor of one element in ONNX. */
static enum vc_status number_attr(struct export *e, const struct vc_graph_attr *from, struct vc_program_attr *to)
{
    static const uint64_t one[1] = {1};
    struct vc_program_tensor *tensor = room(e, 1, sizeof *tensor);

    VC_CALL_ALLOC(tensor);
    to->kind = VC_PROGRAM_TENSOR;
    to->tensor = tensor;
    return from->kind == VC_ATTR_INT ? tensor_of(e, VC_DTYPE_I64, 1, one, &from->i, tensor)
                                     : tensor_of(e, VC_DTYPE_F32, 1, one, &from->f, tensor);
}

static enum vc_status add_attrs(struct export *e, const struct vc_graph_node *from, struct vc_program_node *to)
{
    static const enum vc_program_attr_kind kinds[] = {[VC_ATTR_INT] = VC_PROGRAM_INT,
                                                      [VC_ATTR_FLOAT] = VC_PROGRAM_FLOAT,
                                                      [VC_ATTR_STRING] = VC_PROGRAM_STRING,
                                                      [VC_ATTR_INTS] = VC_PROGRAM_INTS,
                                                      [VC_ATTR_FLOATS] = VC_PROGRAM_FLOATS};
    struct vc_program_attr *attrs = room(e, from->n_attrs, sizeof *attrs);

    VC_CALL_ALLOC(attrs);
    for (unsigned k = 0; k < from->n_attrs; k++) {
        const struct vc_graph_attr *a = &from->attrs[k];

        attrs[k] = (struct vc_program_attr){.name = a->name,
                                            .kind = kinds[a->kind],
                                            .i = a->i,
                                            .f = a->f,
                                            .n = a->kind == VC_ATTR_STRING ? strlen(a->s) : a->n,
                                            .s = a->s,
                                            .ints = a->ints,
                                            .floats = a->floats};
        if (strcmp(from->op, "ConstantOfShape") == 0) {
            VC_CALL(number_attr(e, a, &attrs[k]));
        }
    }
    to->attrs = attrs;
    to->n_attrs = from->n_attrs;
    return VC_OK;
}

/* Names of values; "" for one that is left out. */
static const char **names_of(struct export *e, const uint32_t *values, unsigned n)
{
    const char **names = room(e, n, sizeof *names);

    for (unsigned k = 0; names != NULL && k < n; k++) {
        names[k] = values[k] == VC_NO_VALUE ? "" : e->names[values[k]];
    }
    return names;
}

static enum vc_status add_node(struct export *e, const struct vc_graph_node *from)
{
    struct vc_program_node *node;

    /* Lists of words (RNN) are one string in the graph, and FakeQuantize is nothing of ONNX: no family has them here. */
    VC_REFUSE_IF(strcmp(from->op, "FakeQuantize") == 0 || vc_node_string(from, "activations", NULL) != NULL, e->ctx,
                 VC_E_UNSUPPORTED, "its operator %s has no place in an ONNX file here", from->op);
    VC_CALL(next_node(e, &node));
    node->op = from->op;
    node->name = from->name;
    node->n_inputs = from->n_inputs;
    node->inputs = names_of(e, from->inputs, from->n_inputs);
    node->n_outputs = from->n_outputs;
    node->outputs = names_of(e, from->outputs, from->n_outputs);
    VC_CALL_ALLOC(node->inputs);
    VC_CALL_ALLOC(node->outputs);
    return add_attrs(e, from, node);
}

/* ---- weights ---- */

/* The elements of the tensor that a parameter is. */
static void place_elements(const struct vc_graph_param *param, struct vc_program_weight *w)
{
    uint64_t shape[VC_GRAPH_MAX_DIMS] = {0};
    uint64_t step[VC_GRAPH_MAX_DIMS];
    unsigned n = param->n_dims;

    w->n_blocks = 1;
    w->rows = 1;
    w->columns = 1;
    for (unsigned d = n; d-- > 0;) {
        step[d] = d + 1 == n ? 1 : step[d + 1] * param->shape[d + 1];
        shape[d] = param->sliced && param->axis == d ? param->count : param->shape[d];
    }
    if (n == 0) {
        return;
    }
    w->first = param->sliced ? param->first * step[param->axis] : 0;
    w->columns = shape[n - 1];
    w->row_step = n > 1 ? step[n - 2] : w->columns;
    w->rows = n > 1 ? shape[n - 2] : 1;
    w->block_step = n > 2 ? step[n - 3] : w->rows * w->row_step;
    for (unsigned d = 0; d + 2 < n; d++) {
        w->n_blocks *= shape[d];
    }
}

/* A name of its own for what is made of the value, or what the value is made of. */
static const char *other_name(struct export *e, const char *value, const char *what)
{
    const char *name = value;

    for (unsigned k = 0; name != NULL && vc_graph_find(e->graph, name) != VC_NO_VALUE; k++) {
        name = k == 0 ? vc_arena_printf(e->ctx, e->arena, "%s.%s", value, what)
                      : vc_arena_printf(e->ctx, e->arena, "%s.%s_%u", value, what, k);
    }
    return name;
}

/* Nodes read the matrix turned: they are told so. */
static enum vc_status add_turn(struct export *e, const struct vc_graph_param *param, uint64_t *shape)
{
    static const int64_t axes[] = {1, 0};
    static const struct vc_program_attr perm = {.name = "perm", .kind = VC_PROGRAM_INTS, .n = 2, .ints = axes};
    const char *value = e->graph->values[param->value].name;
    uint64_t first = shape[0];

    shape[0] = shape[1];
    shape[1] = first;
    VC_CALL_ALLOC(e->names[param->value] = other_name(e, value, "turned"));
    return add_single(e, "Transpose", value, e->names[param->value], &perm);
}

static enum vc_status add_weight(struct export *e, const struct vc_graph_param *param)
{
    static const struct vc_program_attr cast = {.name = "to", .kind = VC_PROGRAM_INT, .i = CAST_TO_FLOAT};
    const struct vc_graph_value *value = &e->graph->values[param->value];
    const struct vc_tensor *t = &e->model->tensors[param->index];
    struct vc_program_weight *w = &e->weights[e->n_weights++];
    uint64_t *shape = room(e, value->n_dims, sizeof *shape);
    bool as_it_lies = e->rows && param->transposed && param->n_dims == 2 && value->n_dims == 2;

    VC_CALL_ALLOC(shape);
    VC_REFUSE_IF(t->dtype != VC_DTYPE_F32 && t->dtype != VC_DTYPE_F16 && t->dtype != VC_DTYPE_BF16 &&
                     t->dtype != VC_DTYPE_F64,
                 e->ctx, VC_E_UNSUPPORTED, "%s: its elements are %s, and no floats that ONNX casts", t->name,
                 vc_dtype_name(t->dtype));
    VC_REFUSE_IF(param->sliced && param->axis != 0 && param->axis + 2 < param->n_dims, e->ctx, VC_E_INTERNAL,
                 "%s: a slice of an axis in between", t->name);
    for (unsigned d = 0; d < value->n_dims; d++) {
        shape[d] = (uint64_t)value->shape[d].size;
    }
    *w = (struct vc_program_weight){
        .name = t->dtype == VC_DTYPE_F32 ? value->name : other_name(e, value->name, vc_dtype_name(t->dtype)),
        .tensor = param->index,
        .dtype = t->dtype,
        .n_dims = value->n_dims,
        .shape = shape,
        .turned = param->transposed && !as_it_lies};
    VC_CALL_ALLOC(w->name);
    place_elements(param, w);
    if (t->dtype != VC_DTYPE_F32) {
        VC_CALL(add_single(e, "Cast", w->name, value->name, &cast));
    }
    return as_it_lies ? add_turn(e, param, shape) : VC_OK;
}

static bool is_whole(const struct vc_graph_param *param)
{
    return !param->sliced && !param->transposed;
}

/* A parameter whose tensor another one is as it lies, so that the file has it once: the same under another name, or
 * transposed. */
static enum vc_status add_twin(struct export *e, const struct vc_graph_param *param, const struct vc_graph_param *whole)
{
    const struct vc_graph_value *values = e->graph->values;
    struct vc_program_attr perm = {.name = "perm", .kind = VC_PROGRAM_INTS, .n = param->n_dims};
    int64_t *axes = room(e, param->n_dims, sizeof *axes);

    VC_CALL_ALLOC(axes);
    for (unsigned d = 0; d < param->n_dims; d++) {
        axes[d] = d + 2 == param->n_dims ? d + 1 : d + 1 == param->n_dims ? d - 1 : d;
    }
    perm.ints = axes;
    return add_single(e, param->transposed ? "Transpose" : "Identity", values[whole->value].name,
                      values[param->value].name, param->transposed ? &perm : NULL);
}

/* Wholes first, so that their values are there for the others. */
static enum vc_status add_params(struct export *e)
{
    const struct vc_graph *graph = e->graph;
    uint32_t *wholes = room(e, e->model->n_tensors, sizeof *wholes); /* by tensor: one more than its parameter */

    e->weights = room(e, graph->n_params, sizeof *e->weights);
    VC_CALL_ALLOC(wholes);
    VC_CALL_ALLOC(e->weights);
    for (uint32_t k = 0; k < graph->n_params; k++) {
        const struct vc_graph_param *param = &graph->params[k];

        if (is_whole(param) && wholes[param->index] == 0) {
            wholes[param->index] = k + 1;
        }
    }
    for (uint32_t k = 0; k < graph->n_params; k++) {
        const struct vc_graph_param *param = &graph->params[k];

        if (param->sliced || wholes[param->index] == 0 || wholes[param->index] == k + 1) {
            VC_CALL(add_weight(e, param));
        }
    }
    for (uint32_t k = 0; k < graph->n_params; k++) {
        const struct vc_graph_param *param = &graph->params[k];

        if (!param->sliced && wholes[param->index] != 0 && wholes[param->index] != k + 1) {
            VC_CALL(add_twin(e, param, &graph->params[wholes[param->index] - 1]));
        }
    }
    return VC_OK;
}

/* ---- the rest ---- */

static enum vc_status add_constants(struct export *e)
{
    const struct vc_graph *graph = e->graph;

    VC_CALL_ALLOC(e->constants = room(e, graph->n_values, sizeof *e->constants));
    for (uint32_t v = 0; v < graph->n_values; v++) {
        const struct vc_graph_value *value = &graph->values[v];
        struct vc_program_tensor *tensor;
        uint64_t *shape;

        if (value->kind != VC_VALUE_CONSTANT) {
            continue;
        }
        tensor = room(e, 1, sizeof *tensor);
        shape = room(e, value->n_dims, sizeof *shape);
        VC_CALL_ALLOC(tensor);
        VC_CALL_ALLOC(shape);
        for (unsigned d = 0; d < value->n_dims; d++) {
            shape[d] = (uint64_t)value->shape[d].size;
        }
        VC_CALL(tensor_of(e, value->dtype, value->n_dims, shape, value->data, tensor));
        e->constants[e->n_constants++] =
            (struct vc_program_constant){.name = value->name, .index = VC_NO_TENSOR, .tensor = tensor};
    }
    return VC_OK;
}

/* Inputs or outputs, with numbers or expressions ("past_sequence_length + sequence_length") for dimensions. */
static enum vc_status add_values(struct export *e, const uint32_t *numbers, uint32_t n,
                                 const struct vc_program_value **out, size_t *n_out)
{
    struct vc_program_value *values = room(e, n, sizeof *values);
    char text[512];

    VC_CALL_ALLOC(values);
    for (uint32_t k = 0; k < n; k++) {
        const struct vc_graph_value *value = &e->graph->values[numbers[k]];
        struct vc_program_dim *dims = room(e, value->n_dims, sizeof *dims);

        VC_CALL_ALLOC(dims);
        for (unsigned d = 0; d < value->n_dims; d++) {
            dims[d].size = value->shape[d].size;
            if (!vc_dim_is_number(value->shape[d])) {
                (void)vc_dim_text(&e->graph->dims, value->shape[d], text, sizeof text);
                VC_CALL_ALLOC(dims[d].name = vc_arena_copy(e->ctx, e->arena, text, strlen(text)));
            }
        }
        values[k] = (struct vc_program_value){
            .name = value->name, .dtype = value->dtype, .has_shape = true, .n_dims = value->n_dims, .shape = dims};
    }
    *out = values;
    *n_out = n;
    return VC_OK;
}

enum vc_status vc_onnx_export(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model, bool rows,
                              struct vc_arena *arena, struct vc_program *out)
{
    static const struct vc_program_opset opset = {.domain = "", .version = VC_GRAPH_OPSET};
    struct export e = {.ctx = ctx, .graph = graph, .model = model, .arena = arena, .rows = rows};

    *out = (struct vc_program){.kind = VC_PROGRAM_NODES, .n_opsets = 1, .opsets = &opset};
    VC_CALL_ALLOC(e.names = room(&e, graph->n_values, sizeof *e.names));
    for (uint32_t v = 0; v < graph->n_values; v++) {
        e.names[v] = graph->values[v].name;
    }
    VC_CALL(add_params(&e));
    VC_CALL(add_constants(&e));
    for (uint32_t k = 0; k < graph->n_nodes; k++) {
        VC_CALL(add_node(&e, &graph->nodes[k]));
    }
    VC_CALL(add_values(&e, graph->inputs, graph->n_inputs, &out->inputs, &out->n_inputs));
    VC_CALL(add_values(&e, graph->outputs, graph->n_outputs, &out->outputs, &out->n_outputs));
    out->n_nodes = e.n_nodes;
    out->nodes = e.nodes;
    out->n_constants = e.n_constants;
    out->constants = e.constants;
    out->n_weights = e.n_weights;
    out->weights = e.weights;
    return VC_OK;
}
