/* onnx_strip.c - what a file says that computes nothing: descriptions (doc_string) and metadata_props of the model, its
 * graphs, functions, nodes, attributes, values and tensors, such as the stack traces that torch.onnx writes for each
 * node. Left out with vc_write_options.strip, else counted. Entries of the model's metadata that vcompress reads stay. */
#include "formats/onnx/onnx_sink.h"

static const struct {
    enum onnx_kind kind;
    uint32_t number;
    enum onnx_kind inner; /* of the message in that field; NONE: the field is what goes */
} rows[] = {{ONNX_KIND_MODEL, 6, ONNX_KIND_NONE},
            {ONNX_KIND_MODEL, ONNX_MODEL_FUNCTION, ONNX_KIND_FUNCTION},
            {ONNX_KIND_GRAPH, 10, ONNX_KIND_NONE},
            {ONNX_KIND_GRAPH, 16, ONNX_KIND_NONE},
            {ONNX_KIND_GRAPH, ONNX_GRAPH_NODE, ONNX_KIND_NODE},
            {ONNX_KIND_GRAPH, ONNX_GRAPH_INITIALIZER, ONNX_KIND_TENSOR},
            {ONNX_KIND_GRAPH, ONNX_GRAPH_INPUT, ONNX_KIND_VALUE},
            {ONNX_KIND_GRAPH, ONNX_GRAPH_OUTPUT, ONNX_KIND_VALUE},
            {ONNX_KIND_GRAPH, ONNX_GRAPH_VALUE_INFO, ONNX_KIND_VALUE},
            {ONNX_KIND_NODE, 6, ONNX_KIND_NONE},
            {ONNX_KIND_NODE, 9, ONNX_KIND_NONE},
            {ONNX_KIND_NODE, ONNX_NODE_ATTRIBUTE, ONNX_KIND_ATTRIBUTE},
            {ONNX_KIND_ATTRIBUTE, 13, ONNX_KIND_NONE},
            {ONNX_KIND_ATTRIBUTE, ONNX_ATTRIBUTE_T, ONNX_KIND_TENSOR},
            {ONNX_KIND_ATTRIBUTE, ONNX_ATTRIBUTE_G, ONNX_KIND_GRAPH},
            {ONNX_KIND_ATTRIBUTE, ONNX_ATTRIBUTE_TENSORS, ONNX_KIND_TENSOR},
            {ONNX_KIND_ATTRIBUTE, ONNX_ATTRIBUTE_GRAPHS, ONNX_KIND_GRAPH},
            {ONNX_KIND_VALUE, 3, ONNX_KIND_NONE},
            {ONNX_KIND_VALUE, 4, ONNX_KIND_NONE},
            {ONNX_KIND_TENSOR, ONNX_TENSOR_DOC, ONNX_KIND_NONE},
            {ONNX_KIND_TENSOR, ONNX_TENSOR_METADATA, ONNX_KIND_NONE},
            {ONNX_KIND_FUNCTION, 8, ONNX_KIND_NONE},
            {ONNX_KIND_FUNCTION, 14, ONNX_KIND_NONE},
            {ONNX_KIND_FUNCTION, ONNX_FUNCTION_NODE, ONNX_KIND_NODE},
            {ONNX_KIND_FUNCTION, ONNX_FUNCTION_DEFAULT, ONNX_KIND_ATTRIBUTE},
            {ONNX_KIND_FUNCTION, ONNX_FUNCTION_VALUE_INFO, ONNX_KIND_VALUE}};

/* The field, of a message of that kind, in the new file (`add`), and what of it can go, which is counted. */
static enum vc_status take(struct onnx_layout *l, const struct vc_field *field, enum onnx_kind kind, bool add)
{
    size_t n_rows = sizeof rows / sizeof *rows;
    size_t k = 0;
    size_t mark = 0;

    while (k < n_rows && (rows[k].kind != kind || rows[k].number != field->number || field->type != VC_WIRE_BYTES)) {
        k++;
    }
    if (k < n_rows && rows[k].inner == ONNX_KIND_NONE) {
        l->n_strippable += field->all.n;
        return add && !l->self->strip ? vc_onnx_add_copy(l, field->all) : VC_OK;
    }
    bool opens = add && k < n_rows && l->self->strip;
    if (opens) {
        VC_CALL(vc_onnx_begin_message(l, &mark));
    } else if (add) {
        VC_CALL(vc_onnx_add_copy(l, field->all));
    }
    if (k == n_rows) {
        return VC_OK;
    }
    VC_EACH_FIELD(f, &l->r.wire, field->data) {
        VC_CALL(take(l, &f, rows[k].inner, opens));
    }
    return opens ? vc_onnx_end_message(l, mark, field->number) : VC_OK;
}

enum vc_status vc_onnx_add_rest(struct onnx_layout *l, const struct vc_field *field, enum onnx_kind kind)
{
    return take(l, field, kind, true);
}
