/* onnx_program.c - what an ONNX file says its model computes, as records for graph/ (core/model/program.h): the nodes
 * of the main graph with all their attributes, inputs and outputs with their shapes, operator sets, and its tensors by
 * name.
 *
 *     codes -> DequantizeLinear -> "w" -> MatMul          the model's tensor "w", then MatMul
 *
 * Nodes that only make a tensor of the model from its parts (onnx_links.c) are left out: the graph uses what they give.
 * Graphs inside nodes are not taken apart. */
#include <inttypes.h>
#include <string.h>

#include "core/base/checked.h"
#include "formats/onnx/onnx.h"

#define MAX_FUNCTIONS   10000
#define MAX_SMALL_ELEMS 64 /* floats up to that many are given as they are, too */

/* ---- inputs and outputs ---- */

/* TensorShapeProto { dim { dim_value or dim_param } ... } */
static enum vc_status read_shape(struct onnx_program_reader *r, struct vc_span message, struct vc_program_value *value)
{
    struct vc_program_dim *dims;
    struct vc_span rest = message;
    unsigned n = 0;
    struct vc_field f;
    enum vc_status status = VC_OK;

    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        n += f.number == ONNX_SHAPE_DIM;
    }
    dims = vc_onnx_items(r, n, sizeof *dims);
    VC_TRY_ALLOC(dims);
    value->has_shape = true;
    value->shape = dims;
    for (rest = message; rest.n != 0;) {
        struct vc_span dim;

        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        if (f.number != ONNX_SHAPE_DIM) {
            continue;
        }
        VC_TRY(vc_wire_expect(&r->wire, &f, VC_WIRE_BYTES, "a dimension of a value"));
        dims[value->n_dims].size = -1;
        for (dim = f.data; dim.n != 0;) {
            VC_TRY(vc_wire_field(&r->wire, &dim, &f));
            if (f.number == ONNX_DIM_VALUE && f.type == VC_WIRE_VARINT) {
                dims[value->n_dims].size = (int64_t)f.value < 0 ? -1 : (int64_t)f.value;
            } else if (f.number == ONNX_DIM_PARAM && f.data.n != 0) {
                VC_TRY(vc_onnx_text_read(r, &f, "the name of a dimension", &dims[value->n_dims].name));
            }
        }
        value->n_dims++;
    }
out:
    return status;
}

/* TypeProto { tensor_type { elem_type, shape } } or something else, which is VC_DTYPE_RAW. */
static enum vc_status read_type(struct onnx_program_reader *r, struct vc_span message, struct vc_program_value *value)
{
    struct vc_span tensor;
    struct vc_field f;
    enum vc_status status = VC_OK;

    while (message.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &message, &f));
        if (f.number != ONNX_TYPE_TENSOR || f.type != VC_WIRE_BYTES) {
            continue;
        }
        for (tensor = f.data; tensor.n != 0;) {
            VC_TRY(vc_wire_field(&r->wire, &tensor, &f));
            if (f.number == ONNX_TYPE_ELEM) {
                value->dtype = f.type == VC_WIRE_VARINT && f.value < ONNX_N_TYPES && vc_onnx_types[f.value].name != NULL
                                   ? vc_onnx_types[f.value].dtype
                                   : VC_DTYPE_RAW;
            } else if (f.number == ONNX_TYPE_SHAPE && f.type == VC_WIRE_BYTES && !value->has_shape) {
                VC_TRY(read_shape(r, f.data, value));
            }
        }
    }
out:
    return status;
}

/* A ValueInfoProto. */
static enum vc_status read_value(struct onnx_program_reader *r, const struct vc_field *field,
                                 struct vc_program_value *value)
{
    struct vc_span rest = field->data;
    struct vc_field f;
    enum vc_status status;

    *value = (struct vc_program_value){.name = "", .dtype = VC_DTYPE_RAW};
    VC_TRY(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "an input, an output or the shape of a value"));
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        if (f.number == ONNX_INFO_NAME) {
            VC_TRY(vc_onnx_text_read(r, &f, "the name of a value", &value->name));
        } else if (f.number == ONNX_INFO_TYPE && f.type == VC_WIRE_BYTES) {
            VC_TRY(read_type(r, f.data, value));
        }
    }
out:
    return status;
}

/* ---- nodes ---- */

static enum vc_status count_node(struct onnx_program_reader *r, struct vc_span rest, struct vc_program_node *node)
{
    struct vc_field f;
    enum vc_status status = VC_OK;

    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        node->n_inputs += f.number == ONNX_NODE_INPUT;
        node->n_outputs += f.number == ONNX_NODE_OUTPUT;
        node->n_attrs += f.number == ONNX_NODE_ATTRIBUTE;
    }
out:
    return status;
}

enum vc_status vc_onnx_program_node(struct onnx_program_reader *r, struct vc_span rest, struct vc_program_node *node)
{
    const char **inputs;
    const char **outputs;
    struct vc_program_attr *attrs;
    struct vc_field f;
    enum vc_status status;

    *node = (struct vc_program_node){.op = "", .domain = "", .name = "", .overload = ""};
    VC_TRY(count_node(r, rest, node));
    inputs = vc_onnx_items(r, node->n_inputs, sizeof *inputs);
    VC_TRY_ALLOC(inputs);
    outputs = vc_onnx_items(r, node->n_outputs, sizeof *outputs);
    VC_TRY_ALLOC(outputs);
    attrs = vc_onnx_items(r, node->n_attrs, sizeof *attrs);
    VC_TRY_ALLOC(attrs);
    node->inputs = inputs;
    node->outputs = outputs;
    node->attrs = attrs;
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        switch (f.number) {
        case ONNX_NODE_INPUT:
            VC_TRY(vc_onnx_text_read(r, &f, "the input of a node", inputs++));
            break;
        case ONNX_NODE_OUTPUT:
            VC_TRY(vc_onnx_text_read(r, &f, "the output of a node", outputs++));
            break;
        case ONNX_NODE_NAME:
            VC_TRY(vc_onnx_text_read(r, &f, "the name of a node", &node->name));
            break;
        case ONNX_NODE_OP:
            VC_TRY(vc_onnx_text_read(r, &f, "the operator of a node", &node->op));
            break;
        case ONNX_NODE_DOMAIN:
            VC_TRY(vc_onnx_text_read(r, &f, "the domain of a node", &node->domain));
            node->domain = strcmp(node->domain, "ai.onnx") == 0 ? "" : node->domain;
            break;
        case ONNX_NODE_OVERLOAD:
            VC_TRY(vc_onnx_text_read(r, &f, "the overload of a node", &node->overload));
            break;
        case ONNX_NODE_ATTRIBUTE:
            VC_TRY(vc_wire_expect(&r->wire, &f, VC_WIRE_BYTES, "the attribute of a node"));
            VC_TRY(vc_onnx_attribute_read(r, f.data, attrs++));
            break;
        default:
            break;
        }
    }
out:
    return status;
}

/* Nodes and Constant nodes of the main graph that belong to tensors, by their places, which ascend in both lists. */
struct skipped {
    size_t node, tensor;
};

static bool is_skipped(const struct onnx *self, struct skipped *at, uint64_t place)
{
    while (at->node < self->n_nodes &&
           (self->nodes[at->node].graph != ONNX_MAIN || self->nodes[at->node].field.at < place)) {
        at->node++;
    }
    while (at->tensor < self->n_tensors &&
           (self->tensors[at->tensor].graph != ONNX_MAIN || !self->tensors[at->tensor].constant ||
            self->tensors[at->tensor].field.at < place)) {
        at->tensor++;
    }
    return (at->node < self->n_nodes && self->nodes[at->node].field.at == place && self->nodes[at->node].taken) ||
           (at->tensor < self->n_tensors && self->tensors[at->tensor].field.at == place);
}

/* ---- the graph ---- */

static enum vc_status count_graph(struct onnx_program_reader *r, struct vc_program *out)
{
    struct vc_span rest = r->self->graph;
    struct vc_field f;
    enum vc_status status = VC_OK;

    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        out->n_nodes += f.number == ONNX_GRAPH_NODE;
        out->n_inputs += f.number == ONNX_GRAPH_INPUT;
        out->n_outputs += f.number == ONNX_GRAPH_OUTPUT;
        out->n_declared += f.number == ONNX_GRAPH_VALUE_INFO;
    }
    if (out->n_nodes > VC_PROGRAM_MAX_NODES || out->n_inputs > VC_PROGRAM_MAX_NODES ||
        out->n_outputs > VC_PROGRAM_MAX_NODES || out->n_declared > 4 * VC_PROGRAM_MAX_NODES) {
        return vc_fail(r->ctx, VC_E_UNSUPPORTED, "has more than %zu nodes, inputs or outputs", VC_PROGRAM_MAX_NODES);
    }
out:
    return status;
}

static enum vc_status read_graph(struct onnx_program_reader *r, struct vc_program *out)
{
    struct vc_span rest = r->self->graph;
    struct skipped skipped = {0, 0};
    struct vc_program_node *nodes;
    struct vc_program_value *inputs;
    struct vc_program_value *outputs;
    struct vc_program_value *declared;
    struct vc_field f;
    enum vc_status status;

    VC_TRY(count_graph(r, out));
    nodes = vc_onnx_items(r, out->n_nodes, sizeof *nodes);
    VC_TRY_ALLOC(nodes);
    inputs = vc_onnx_items(r, out->n_inputs, sizeof *inputs);
    VC_TRY_ALLOC(inputs);
    outputs = vc_onnx_items(r, out->n_outputs, sizeof *outputs);
    VC_TRY_ALLOC(outputs);
    declared = vc_onnx_items(r, out->n_declared, sizeof *declared);
    VC_TRY_ALLOC(declared);
    out->nodes = nodes;
    out->inputs = inputs;
    out->outputs = outputs;
    out->declared = declared;
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        if (f.number == ONNX_GRAPH_INPUT) {
            VC_TRY(read_value(r, &f, inputs++));
        } else if (f.number == ONNX_GRAPH_OUTPUT) {
            VC_TRY(read_value(r, &f, outputs++));
        } else if (f.number == ONNX_GRAPH_VALUE_INFO) {
            VC_TRY(read_value(r, &f, declared++));
        } else if (f.number == ONNX_GRAPH_NODE && !is_skipped(r->self, &skipped, f.all.at)) {
            VC_TRY(vc_wire_expect(&r->wire, &f, VC_WIRE_BYTES, "a node"));
            VC_TRY(vc_onnx_program_node(r, f.data, nodes++));
        }
    }
    out->n_nodes = (size_t)(nodes - out->nodes);
out:
    return status;
}

/* ---- tensors ---- */

/* Integers, and floats where they are few, are given with their elements. */
static bool is_inline(const struct vc_tensor *tensor)
{
    return tensor->quant == NULL && tensor->size_bytes <= VC_PROGRAM_MAX_INLINE &&
           (!vc_dtype_is_float(tensor->dtype) || tensor->n_elems <= MAX_SMALL_ELEMS);
}

static enum vc_status read_inline(struct onnx_program_reader *r, const struct vc_model *model, size_t index,
                                  struct vc_program_tensor *to)
{
    const struct vc_tensor *tensor = &model->tensors[index];
    void *data = vc_onnx_items(r, (size_t)tensor->size_bytes, 1);
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(data);
    *to = (struct vc_program_tensor){
        .dtype = tensor->dtype, .n_dims = tensor->n_dims, .shape = tensor->shape, .n_bytes = tensor->size_bytes};
    VC_TRY(vc_source_read_any(r->ctx, model, index, VC_FORM_VALUES, 0, data, (size_t)tensor->size_bytes));
    to->data = data;
out:
    return status;
}

/* The tensors of the main graph under the names that its nodes know. Parts of quantized ones are none: they are what
 * the quantized tensor is made from. */
static enum vc_status read_constants(struct onnx_program_reader *r, const struct vc_model *model,
                                     struct vc_program *out)
{
    const struct onnx *self = r->self;
    struct vc_program_constant *constants = vc_onnx_items(r, self->n_tensors, sizeof *constants);
    size_t n = 0;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(constants);
    for (size_t i = 0; i < self->n_tensors; i++) {
        const struct onnx_tensor *t = &self->tensors[i];
        struct vc_program_tensor *tensor;

        if (t->graph != ONNX_MAIN || (t->index != ONNX_NONE && model->tensors[t->index].companion_of != VC_NO_TENSOR)) {
            continue;
        }
        tensor = vc_onnx_items(r, 1, sizeof *tensor);
        VC_TRY_ALLOC(tensor);
        constants[n] = (struct vc_program_constant){.name = t->name, .index = VC_NO_TENSOR, .tensor = tensor};
        tensor->dtype = VC_DTYPE_RAW;
        if (t->index != ONNX_NONE) {
            constants[n].name = self->symbols.list[self->links[t->index].name].name;
            constants[n].index = t->index;
            if (is_inline(&model->tensors[t->index])) {
                VC_TRY(read_inline(r, model, t->index, tensor));
            } else {
                constants[n].tensor = NULL;
            }
        }
        n++;
    }
    out->constants = constants;
    out->n_constants = n;
out:
    return status;
}

/* ---- the model around it ---- */

enum vc_status vc_onnx_program_opset(struct onnx_program_reader *r, struct vc_span rest, struct vc_program_opset *opset)
{
    struct vc_field f;
    enum vc_status status = VC_OK;

    opset->domain = "";
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        if (f.number == ONNX_OPSET_DOMAIN) {
            VC_TRY(vc_onnx_text_read(r, &f, "the domain of its opset_import", &opset->domain));
            opset->domain = strcmp(opset->domain, "ai.onnx") == 0 ? "" : opset->domain;
        } else if (f.number == ONNX_OPSET_VERSION) {
            opset->version = (int64_t)f.value;
        }
    }
out:
    return status;
}

static enum vc_status read_note(struct onnx_program_reader *r, struct vc_span rest, struct vc_program_note *note)
{
    struct vc_field f;
    enum vc_status status = VC_OK;

    *note = (struct vc_program_note){.key = "", .value = ""};
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        if (f.number == ONNX_ENTRY_KEY || f.number == ONNX_ENTRY_VALUE) {
            VC_TRY(vc_onnx_text_read(r, &f, "an entry of its metadata_props",
                                     f.number == ONNX_ENTRY_KEY ? &note->key : &note->value));
        }
    }
out:
    return status;
}

/* The fields of the file but its graph. */
static enum vc_status read_around(struct onnx_program_reader *r, struct vc_program *out)
{
    struct vc_span all = {0, r->self->file->size_bytes};
    struct vc_span rest = all;
    struct vc_program_opset *opsets;
    struct vc_program_note *notes;
    struct vc_program_function *functions;
    struct vc_field f;
    enum vc_status status = VC_OK;

    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        out->n_opsets += f.number == ONNX_MODEL_OPSET && f.type == VC_WIRE_BYTES;
        out->n_notes += f.number == ONNX_MODEL_METADATA && f.type == VC_WIRE_BYTES;
        out->n_functions += f.number == ONNX_MODEL_FUNCTION && f.type == VC_WIRE_BYTES;
    }
    if (out->n_functions > MAX_FUNCTIONS) {
        return vc_fail(r->ctx, VC_E_UNSUPPORTED, "has more than %d functions", MAX_FUNCTIONS);
    }
    opsets = vc_onnx_items(r, out->n_opsets, sizeof *opsets);
    VC_TRY_ALLOC(opsets);
    notes = vc_onnx_items(r, out->n_notes, sizeof *notes);
    VC_TRY_ALLOC(notes);
    functions = vc_onnx_items(r, out->n_functions, sizeof *functions);
    VC_TRY_ALLOC(functions);
    out->opsets = opsets;
    out->notes = notes;
    out->functions = functions;
    for (rest = all; rest.n != 0;) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        if (f.number == ONNX_MODEL_OPSET && f.type == VC_WIRE_BYTES) {
            VC_TRY(vc_onnx_program_opset(r, f.data, opsets++));
        } else if (f.number == ONNX_MODEL_METADATA && f.type == VC_WIRE_BYTES) {
            VC_TRY(read_note(r, f.data, notes++));
        } else if (f.number == ONNX_MODEL_FUNCTION && f.type == VC_WIRE_BYTES) {
            VC_TRY(vc_onnx_program_function(r, f.data, functions++));
        }
    }
out:
    return status;
}

enum vc_status vc_onnx_program(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                               struct vc_program *out)
{
    struct onnx_program_reader r = {.ctx = ctx, .self = model->self, .arena = arena};
    enum vc_status status;

    *out = (struct vc_program){.kind = VC_PROGRAM_NODES};
    VC_TRY(vc_wire_open(ctx, r.self->file, &r.wire));
    VC_TRY(read_around(&r, out));
    VC_TRY(read_graph(&r, out));
    VC_TRY(read_constants(&r, model, out));
out:
    vc_wire_close(&r.wire);
    return status;
}
