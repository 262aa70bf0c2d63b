/* onnx_graph.c - walks over the graph of an ONNX file: initializers become tensors, and every name is known afterwards,
 * with how often it is used. Nodes are onnx_nodes.c's. Nothing is kept but what a writer has to change. */
#include <inttypes.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/findings.h"
#include "formats/onnx/onnx.h"

#define MAX_DEPTH 32 /* graphs within nodes within graphs */
/* Tensors that are only carried over are counted for a note from this size on. */
#define LARGE_BYTES 1024

/* ---- tensors that are only carried over ---- */

/* Called for tensors inside nodes and inner graphs. Counts the large ones for a note, and those with values in another
 * file, which the writer cannot take along. */
enum vc_status vc_onnx_inner_tensor(struct onnx_reader *r, const struct vc_field *field, bool named)
{
    struct vc_span rest = field->data;
    struct vc_field f;
    enum vc_status status;

    VC_TRY(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "a tensor"));
    r->self->n_inner += field->all.n >= LARGE_BYTES;
    r->self->inner_bytes += field->all.n >= LARGE_BYTES ? field->all.n : 0;
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        if (named && f.number == ONNX_TENSOR_NAME) {
            size_t symbol;

            VC_TRY(vc_onnx_symbol_read(r, &f, "the name of a tensor", &symbol));
        }
        if (f.number == ONNX_TENSOR_LOCATION && f.type == VC_WIRE_VARINT && f.value != 0) {
            r->self->n_inner_external++;
        }
    }
out:
    return status;
}

/* A SparseTensorProto is two tensors, values and indices; its name is that of the values. */
enum vc_status vc_onnx_inner_sparse(struct onnx_reader *r, const struct vc_field *field, bool named)
{
    struct vc_span rest = field->data;
    struct vc_field f;
    enum vc_status status;

    VC_TRY(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "a sparse tensor"));
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        if (f.number == ONNX_SPARSE_VALUES || f.number == ONNX_SPARSE_INDICES) {
            VC_TRY(vc_onnx_inner_tensor(r, &f, named && f.number == ONNX_SPARSE_VALUES));
        }
    }
out:
    return status;
}

/* ---- names of inputs and outputs ---- */

/* The name of a ValueInfoProto. */
static enum vc_status info_name(struct onnx_reader *r, const struct vc_field *field, size_t *symbol)
{
    struct vc_span rest = field->data;
    struct vc_field f;
    enum vc_status status;

    *symbol = ONNX_NONE;
    VC_TRY(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "an input or output of the graph"));
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        if (f.number == ONNX_INFO_NAME) {
            VC_TRY(vc_onnx_symbol_read(r, &f, "the name of an input or output", symbol));
        }
    }
out:
    return status;
}

/* A TensorAnnotation names a tensor (1) and, in pairs of key and value (2), the tensors that quantize it. */
static enum vc_status take_annotation(struct onnx_reader *r, const struct vc_field *field)
{
    struct vc_span rest = field->data;
    struct vc_field f;
    size_t symbol;
    enum vc_status status;

    VC_TRY(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "an annotation"));
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        symbol = ONNX_NONE;
        if (f.number == 1) {
            VC_TRY(vc_onnx_symbol_read(r, &f, "the name in an annotation", &symbol));
        } else if (f.number == 2 && f.type == VC_WIRE_BYTES) {
            struct vc_span pair = f.data;

            while (pair.n != 0 && symbol == ONNX_NONE) {
                VC_TRY(vc_wire_field(&r->wire, &pair, &f));
                if (f.number == ONNX_ENTRY_VALUE) {
                    VC_TRY(vc_onnx_symbol_read(r, &f, "the name in an annotation", &symbol));
                }
            }
        }
        if (symbol != ONNX_NONE) {
            r->self->symbols.list[symbol].pinned = true;
        }
    }
out:
    return status;
}

/* ---- initializers ---- */

/* Looks for the name of a TensorProto first, so that sentences about everything else can begin with it. */
static enum vc_status find_name(struct onnx_reader *r, struct vc_span message, const char **name)
{
    struct vc_field f;
    size_t symbol = ONNX_NONE;
    enum vc_status status = VC_OK;

    *name = NULL;
    while (message.n != 0 && symbol == ONNX_NONE) {
        VC_TRY(vc_wire_field(&r->wire, &message, &f));
        if (f.number == ONNX_TENSOR_NAME) {
            VC_TRY(vc_onnx_symbol_read(r, &f, "its name", &symbol));
        }
    }
    *name = symbol != ONNX_NONE ? r->self->symbols.list[symbol].name : NULL;
out:
    return status;
}

/* Parses a TensorProto and adds it to the tensors. constant: the symbol of the Constant node's output, whose name it
 * gets; else ONNX_NONE. With findings, one that is damaged is left out. */
static enum vc_status add_tensor(struct onnx_reader *r, const struct vc_field *field, size_t constant)
{
    struct onnx *self = r->self;
    struct onnx_tensor *tensor;
    const char *name = constant != ONNX_NONE ? self->symbols.list[constant].name : NULL;
    enum vc_status status;

    VC_TRY(vc_onnx_grow(r->ctx, &self->tensors, &self->tensors_capacity, self->n_tensors, sizeof *self->tensors));
    tensor = &self->tensors[self->n_tensors];
    if ((name == NULL && find_name(r, field->data, &name) != VC_OK) ||
        vc_onnx_tensor_parse(r, field->data, tensor) != VC_OK) {
        status = name != NULL
                     ? vc_context(r->ctx, "%s", name)
                     : vc_context(r->ctx, "initializer %zu (at offset %" PRIu64 ")", self->n_tensors, field->all.at);
        return vc_collect_missing(r->ctx, status, "tensor", name);
    }
    if (constant != ONNX_NONE) {
        tensor->symbol = constant;
        tensor->name = name;
    }
    if (tensor->symbol == ONNX_NONE) {
        status = vc_fail(r->ctx, VC_E_FORMAT, "initializer %zu (at offset %" PRIu64 ") has no name", self->n_tensors,
                         field->all.at);
        return vc_collect(r->ctx, status, "name", NULL);
    }
    tensor->field = field->all;
    if (self->symbols.list[tensor->symbol].tensor != ONNX_NONE) {
        status = vc_fail(r->ctx, VC_E_FORMAT, "tensor '%s' occurs twice", tensor->name);
        return vc_collect(r->ctx, status, "duplicate", tensor->name);
    }
    self->symbols.list[tensor->symbol].tensor = self->n_tensors++;
out:
    return status;
}

static enum vc_status take_initializer(struct onnx_reader *r, const struct vc_field *field)
{
    enum vc_status status;

    VC_TRY(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "an initializer"));
    VC_TRY(add_tensor(r, field, ONNX_NONE));
out:
    return status;
}

/* Floats of two dimensions or more: other constants are axes, shapes and small numbers. */
static enum vc_status looks_like_weights(struct onnx_reader *r, struct vc_span message, bool *yes)
{
    enum vc_dtype dtype = VC_DTYPE_RAW;
    unsigned n_dims = 0;
    struct vc_field f;
    enum vc_status status = VC_OK;

    while (message.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &message, &f));
        if (f.number == ONNX_TENSOR_TYPE && f.value < ONNX_N_TYPES) {
            dtype = vc_onnx_types[f.value].dtype;
        }
        n_dims += f.number != ONNX_TENSOR_DIMS ? 0 : f.type == VC_WIRE_VARINT ? 1 : (unsigned)vc_min_u64(f.data.n, 2);
    }
    *yes = n_dims >= 2 && vc_dtype_is_float(dtype);
out:
    return status;
}

/* The field of the tensor is the whole node then, which is what the writer replaces. */
enum vc_status vc_onnx_constant_scan(struct onnx_reader *r, const struct vc_field *node, const struct vc_field *value,
                                     size_t symbol)
{
    struct onnx *self = r->self;
    size_t n_before = self->n_tensors;
    bool yes = false;
    enum vc_status status;

    VC_TRY(looks_like_weights(r, value->data, &yes));
    if (!yes || symbol == ONNX_NONE || self->symbols.list[symbol].tensor != ONNX_NONE ||
        !vc_utf8_valid(self->symbols.list[symbol].name, strlen(self->symbols.list[symbol].name))) {
        return VC_OK;
    }
    VC_TRY(add_tensor(r, value, symbol));
    if (self->n_tensors != n_before) {
        self->tensors[n_before].field = node->all;
        self->tensors[n_before].constant = true;
        self->n_inner_external -= self->tensors[n_before].place == ONNX_PLACE_EXTERNAL;
        self->symbols.list[symbol].n_made--; /* no node makes it: it is there */
        self->n_inner -= value->all.n >= LARGE_BYTES;
        self->inner_bytes -= value->all.n >= LARGE_BYTES ? value->all.n : 0;
    }
out:
    return status;
}

/* ---- graphs ---- */

/* A field of a GraphProto. depth 0: the main graph, whose initializers become tensors; in graphs below it only names
 * are counted. */
static enum vc_status take_field(struct onnx_reader *r, const struct vc_field *field, unsigned depth)
{
    struct onnx_symbols *symbols = &r->self->symbols;
    size_t symbol = ONNX_NONE;
    enum vc_status status = VC_OK;

    switch (field->number) {
    case ONNX_GRAPH_NODE:
        return vc_onnx_node_scan(r, field, depth);
    case ONNX_GRAPH_INITIALIZER:
        return depth == 0 ? take_initializer(r, field) : vc_onnx_inner_tensor(r, field, true);
    case ONNX_GRAPH_SPARSE:
        return vc_onnx_inner_sparse(r, field, true);
    case ONNX_GRAPH_ANNOTATION:
        return take_annotation(r, field);
    case ONNX_GRAPH_INPUT:
        VC_TRY(info_name(r, field, &symbol));
        if (symbol != ONNX_NONE && depth == 0) {
            symbols->list[symbol].graph_input = true;
        }
        break;
    case ONNX_GRAPH_OUTPUT:
        VC_TRY(info_name(r, field, &symbol));
        if (symbol != ONNX_NONE) {
            symbols->list[symbol].n_uses++;
            symbols->list[symbol].pinned = true;
        }
        break;
    default:
        break;
    }
out:
    return status;
}

/* Goes over the fields of a graph, the main one (depth 0) or one inside a node. */
enum vc_status vc_onnx_subgraph_scan(struct onnx_reader *r, struct vc_span message, unsigned depth)
{
    struct vc_field field;
    enum vc_status status = VC_OK;

    if (depth > MAX_DEPTH) {
        return vc_fail(r->ctx, VC_E_UNSUPPORTED, "has more than %d graphs inside each other", MAX_DEPTH);
    }
    while (message.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &message, &field));
        VC_TRY(take_field(r, &field, depth));
    }
out:
    return status;
}

/* The main graph is read like any other, at depth 0. */
enum vc_status vc_onnx_graph_scan(struct onnx_reader *r)
{
    return vc_onnx_subgraph_scan(r, r->self->graph, 0);
}
