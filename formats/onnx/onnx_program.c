/* onnx_program.c - what an ONNX file says its model computes, as records for graph/ (core/model/program.h): the nodes
 * of the main graph with all their attributes, inputs and outputs with their shapes, operator sets, and its tensors by
 * name.
 *
 *     codes -> DequantizeLinear -> "w" -> MatMul          the model's tensor "w", then MatMul
 *
 * Nodes that only make a tensor of the model from its parts (onnx_links.c) are left out: the graph uses what they give.
 * Graphs inside nodes are read the same way, as the programs of their attributes. */

#include "formats/onnx/onnx.h"

#define MAX_FUNCTIONS   10000
#define MAX_SMALL_ELEMS 64 /* floats up to that many are given as they are, too */

/* ---- inputs and outputs ---- */

/* A dimension: dim_value or dim_param. */
static enum vc_status take_dim(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    struct vc_program_dim *dim = to;

    if (f->number == ONNX_DIM_VALUE && f->type == VC_WIRE_VARINT) {
        dim->size = f->value <= INT64_MAX ? (int64_t)f->value : -1;
    } else if (f->number == ONNX_DIM_PARAM && f->data.n != 0) {
        return vc_onnx_text_read(r, f, "the name of a dimension", &dim->name);
    }
    return VC_OK;
}

/* -1 for a size that is not known. */
static enum vc_status take_shape(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    if (f->number == ONNX_SHAPE_DIM) {
        VC_CALL(vc_wire_expect(&r->wire, f, VC_WIRE_BYTES, "a dimension of a value"));
        struct vc_program_dim *dim = vc_onnx_next(to);
        dim->size = -1;
        VC_CALL(vc_onnx_each(r, f->data, take_dim, dim));
    }
    return VC_OK;
}

/* A TensorShapeProto. */
static enum vc_status read_shape(struct onnx_program_reader *r, struct vc_span message, struct vc_program_value *value)
{
    struct onnx_list dims[2] = {{.number = ONNX_SHAPE_DIM, .item_bytes = sizeof(struct vc_program_dim)}};

    VC_CALL(vc_onnx_lists(r, message, dims));
    VC_CALL(vc_onnx_each(r, message, take_shape, dims));
    value->has_shape = true;
    value->n_dims = (unsigned)dims->n;
    value->shape = (const void *)dims->items;
    return VC_OK;
}

/* TypeProto.Tensor: elem_type and shape. */
static enum vc_status take_tensor_type(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    struct vc_program_value *value = to;

    if (f->number == ONNX_TYPE_ELEM && f->type == VC_WIRE_VARINT) {
        value->dtype = vc_onnx_dtype(f->value);
    } else if (f->number == ONNX_TYPE_SHAPE && f->type == VC_WIRE_BYTES) {
        return read_shape(r, f->data, value);
    }
    return VC_OK;
}

/* TypeProto: a tensor, or something else, which stays VC_DTYPE_RAW. */
static enum vc_status take_type(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    return f->number == ONNX_TYPE_TENSOR && f->type == VC_WIRE_BYTES ? vc_onnx_each(r, f->data, take_tensor_type, to)
                                                                     : VC_OK;
}

/* A value without a type stays VC_DTYPE_RAW. */
static enum vc_status take_value(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    static const struct onnx_text texts[] = {
        {ONNX_INFO_NAME, offsetof(struct vc_program_value, name), "the name of a value"}, {0, 0, NULL}};

    return f->number == ONNX_INFO_TYPE && f->type == VC_WIRE_BYTES ? vc_onnx_each(r, f->data, take_type, to)
                                                                   : vc_onnx_texts_take(r, f, texts, to);
}

enum vc_status vc_onnx_program_value(struct onnx_program_reader *r, const struct vc_field *f,
                                     struct vc_program_value *value)
{
    *value = (struct vc_program_value){.name = "", .dtype = VC_DTYPE_RAW};
    VC_CALL(vc_wire_expect(&r->wire, f, VC_WIRE_BYTES, "an input, an output or the shape of a value"));
    return vc_onnx_each(r, f->data, take_value, value);
}

/* ---- nodes ---- */

/* Nodes and Constant nodes of a graph that belong to tensors, by their places, which ascend in both lists. */
struct skipped {
    uint32_t graph;
    size_t node, tensor;
};

/* *node: the node that was kept there, or NULL. */
static bool is_skipped(const struct onnx *self, struct skipped *at, uint64_t place, const struct onnx_node **node)
{
    while (at->node < self->n_nodes &&
           (self->nodes[at->node].graph != at->graph || self->nodes[at->node].field.at < place)) {
        at->node++;
    }
    while (at->tensor < self->n_tensors &&
           (self->tensors[at->tensor].graph != at->graph || !self->tensors[at->tensor].constant ||
            self->tensors[at->tensor].field.at < place)) {
        at->tensor++;
    }
    *node = at->node < self->n_nodes && self->nodes[at->node].field.at == place ? &self->nodes[at->node] : NULL;
    return (*node != NULL && (*node)->taken) ||
           (at->tensor < self->n_tensors && self->tensors[at->tensor].field.at == place);
}

/* A MatMulNBits node as the product by the tensor that its codes are. */
static enum vc_status rewrite(struct onnx_program_reader *r, const struct onnx_node *from, struct vc_program_node *node)
{
    const struct onnx_link *link = &r->self->links[from->weights];
    bool rows = r->self->symbols.list[link->name].axes == ONNX_AXIS_0;
    const char **inputs = vc_onnx_items(r, 3, sizeof *inputs);
    struct vc_program_attr *attr = vc_onnx_items(r, 1, sizeof *attr);

    VC_CALL_ALLOC(inputs);
    VC_CALL_ALLOC(attr);
    *attr = (struct vc_program_attr){.name = "transB", .kind = VC_PROGRAM_INT, .i = 1};
    inputs[0] = node->inputs[0];
    inputs[1] = r->self->symbols.list[link->name].name;
    inputs[2] = from->in[5] != ONNX_NONE ? r->self->symbols.list[from->in[5]].name : NULL;
    node->op = rows || inputs[2] != NULL ? "Gemm" : "MatMul";
    node->domain = "";
    node->n_inputs = inputs[2] != NULL ? 3 : 2;
    node->inputs = inputs;
    node->n_attrs = rows;
    node->attrs = attr;
    return VC_OK;
}

/* ---- the graph ---- */

/* The graph while it is read, with its lists: nodes, inputs, outputs, other values. */
struct graph_reader {
    struct skipped skipped;
    struct onnx_list lists[5];
};

/* Lists have room for what the graph has: they were counted first. */
static enum vc_status take_graph(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    struct graph_reader *g = to;
    const struct onnx_node *kept;
    struct vc_program_node *node;

    switch (f->number) {
    case ONNX_GRAPH_NODE:
        if (is_skipped(r->self, &g->skipped, f->all.at, &kept)) {
            return VC_OK;
        }
        node = vc_onnx_next(&g->lists[0]);
        VC_CALL(vc_onnx_program_node(r, f, node));
        if (kept != NULL && kept->weights != ONNX_NONE) {
            VC_CALL(rewrite(r, kept, node));
        }
        break;
    case ONNX_GRAPH_INPUT:
        return vc_onnx_program_value(r, f, vc_onnx_next(&g->lists[1]));
    case ONNX_GRAPH_OUTPUT:
        return vc_onnx_program_value(r, f, vc_onnx_next(&g->lists[2]));
    case ONNX_GRAPH_VALUE_INFO:
        return vc_onnx_program_value(r, f, vc_onnx_next(&g->lists[3]));
    default:
        break;
    }
    return VC_OK;
}

static enum vc_status read_constants(struct onnx_program_reader *r, uint32_t graph, struct vc_program *out);

/* Lists of what the graph has are counted, then filled. The limit is one of memory. */
static enum vc_status read_graph(struct onnx_program_reader *r, struct vc_span message, struct vc_program *out)
{
    uint32_t number = vc_onnx_graph_number(r->self, message);
    struct graph_reader g = {.skipped = {.graph = number},
                             .lists = {ONNX_LIST(ONNX_GRAPH_NODE, out->n_nodes, out->nodes),
                                       ONNX_LIST(ONNX_GRAPH_INPUT, out->n_inputs, out->inputs),
                                       ONNX_LIST(ONNX_GRAPH_OUTPUT, out->n_outputs, out->outputs),
                                       ONNX_LIST(ONNX_GRAPH_VALUE_INFO, out->n_declared, out->declared)}};

    VC_CALL(vc_onnx_lists(r, message, g.lists));
    for (size_t k = 0; k < 4; k++) {
        VC_REFUSE_IF(g.lists[k].n > (k == 3 ? 4 : 1) * VC_PROGRAM_MAX_NODES, r->ctx, VC_E_UNSUPPORTED,
                     "has more than %zu nodes, inputs or outputs", VC_PROGRAM_MAX_NODES);
    }
    VC_CALL(vc_onnx_each(r, message, take_graph, &g));
    out->n_nodes = g.lists[0].n_taken;
    return read_constants(r, number, out);
}

/* ---- tensors ---- */

/* Integers, and floats where they are few, are given with their elements. */
static bool is_inline(const struct vc_tensor *tensor)
{
    return tensor->quant == NULL && tensor->size_bytes <= VC_PROGRAM_MAX_INLINE &&
           (!vc_dtype_is_float(tensor->dtype) || tensor->n_elems <= MAX_SMALL_ELEMS);
}

/* Values of a small constant, which shapes and axes are made of. */
static enum vc_status read_inline(struct onnx_program_reader *r, size_t index, struct vc_program_tensor *to)
{
    const struct vc_tensor *tensor = &r->model->tensors[index];
    void *data = vc_onnx_items(r, (size_t)tensor->size_bytes, 1);

    VC_CALL_ALLOC(data);
    *to = (struct vc_program_tensor){
        .dtype = tensor->dtype, .n_dims = tensor->n_dims, .shape = tensor->shape, .n_bytes = tensor->size_bytes};
    VC_CALL(vc_source_read_any(r->ctx, r->model, index, VC_FORM_VALUES, 0, data, (size_t)tensor->size_bytes));
    to->data = data;
    return VC_OK;
}

/* The tensors of a graph under the names that its nodes know. Parts of quantized ones are none: they are what
 * the quantized tensor is made from. */
static enum vc_status read_constants(struct onnx_program_reader *r, uint32_t graph, struct vc_program *out)
{
    const struct onnx *self = r->self;
    const struct vc_model *model = r->model;
    struct vc_program_constant *constants;
    size_t n = 0;

    for (size_t i = 0; i < self->n_tensors; i++) {
        n += self->tensors[i].graph == graph;
    }
    VC_CALL_ALLOC(constants = vc_onnx_items(r, n, sizeof *constants));
    n = 0;
    for (size_t i = 0; i < self->n_tensors; i++) {
        const struct onnx_tensor *t = &self->tensors[i];
        struct vc_program_tensor *tensor;

        if (t->graph != graph || (t->index != ONNX_NONE && model->tensors[t->index].part_of != VC_NO_TENSOR)) {
            continue;
        }
        VC_CALL_ALLOC(tensor = vc_onnx_items(r, 1, sizeof *tensor));
        constants[n] = (struct vc_program_constant){.name = t->name, .index = VC_NO_TENSOR, .tensor = tensor};
        tensor->dtype = VC_DTYPE_RAW;
        if (t->index != ONNX_NONE) {
            constants[n].name = self->symbols.list[self->links[t->index].name].name;
            constants[n].index = t->index;
            if (is_inline(&model->tensors[t->index])) {
                VC_CALL(read_inline(r, t->index, tensor));
            } else {
                constants[n].tensor = NULL;
            }
        }
        n++;
    }
    out->constants = constants;
    out->n_constants = n;
    return VC_OK;
}

/* ---- the model around it ---- */

/* The file while it is read, with its lists: operator sets, notes, functions. */
struct file_reader {
    struct onnx_list lists[4];
};

static enum vc_status take_note(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    static const struct onnx_text texts[] = {
        {ONNX_ENTRY_KEY, offsetof(struct vc_program_note, key), "a key of its metadata_props"},
        {ONNX_ENTRY_VALUE, offsetof(struct vc_program_note, value), "a value of its metadata_props"},
        {0, 0, NULL}};

    return vc_onnx_texts_take(r, f, texts, to);
}

static enum vc_status read_note(struct onnx_program_reader *r, const struct vc_field *f, struct vc_program_note *note)
{
    *note = (struct vc_program_note){.key = "", .value = ""};
    VC_CALL(vc_wire_expect(&r->wire, f, VC_WIRE_BYTES, "an entry of its metadata_props"));
    return vc_onnx_each(r, f->data, take_note, note);
}

static enum vc_status take_file(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    struct file_reader *file = to;

    switch (f->number) {
    case ONNX_MODEL_OPSET:
        return vc_onnx_program_opset(r, f, vc_onnx_next(&file->lists[0]));
    case ONNX_MODEL_METADATA:
        return read_note(r, f, vc_onnx_next(&file->lists[1]));
    case ONNX_MODEL_FUNCTION:
        return vc_onnx_program_function(r, f, vc_onnx_next(&file->lists[2]));
    default:
        return VC_OK;
    }
}

/* The fields of the file but its graph. */
static enum vc_status read_around(struct onnx_program_reader *r, struct vc_program *out)
{
    struct vc_span all = {0, r->self->file->size_bytes};
    struct file_reader file = {.lists = {ONNX_LIST(ONNX_MODEL_OPSET, out->n_opsets, out->opsets),
                                         ONNX_LIST(ONNX_MODEL_METADATA, out->n_notes, out->notes),
                                         ONNX_LIST(ONNX_MODEL_FUNCTION, out->n_functions, out->functions)}};

    VC_CALL(vc_onnx_lists(r, all, file.lists));
    VC_REFUSE_IF(file.lists[2].n > MAX_FUNCTIONS, r->ctx, VC_E_UNSUPPORTED, "has more than %d functions",
                 MAX_FUNCTIONS);
    return vc_onnx_each(r, all, take_file, &file);
}

enum vc_status vc_onnx_program(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                               struct vc_program *out)
{
    struct onnx_program_reader r = {
        .ctx = ctx, .self = model->self, .arena = arena, .model = model, .graph = read_graph};
    enum vc_status status;

    *out = (struct vc_program){.kind = VC_PROGRAM_NODES};
    VC_TRY(vc_wire_open(ctx, r.self->file, &r.wire));
    VC_TRY(read_around(&r, out));
    VC_TRY(read_graph(&r, r.self->graph, out));
out:
    vc_wire_close(&r.wire);
    return status;
}
