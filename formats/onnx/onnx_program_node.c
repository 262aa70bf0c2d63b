/* onnx_program_node.c - a node and an operator set of the program, of the graph and of its functions. */
#include "formats/onnx/onnx.h"

/* A node while it is read, with its lists: inputs, outputs, attributes. */
struct node_reader {
    struct vc_program_node *node;
    struct onnx_list lists[4];
    bool traced; /* the entry of metadata_props that is being read has the trace */
};

/* Of an entry of a node's metadata_props, whose key stands first, the value where it is PyTorch's trace. */
static enum vc_status take_note(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    static const char key[] = "pkg.torch.onnx.fx_node";
    char text[sizeof key] = "";
    struct node_reader *reader = to;

    if (f->number == ONNX_ENTRY_KEY) {
        reader->traced = f->type == VC_WIRE_BYTES && f->data.n == sizeof key - 1;
        if (reader->traced) {
            VC_CALL(vc_wire_read(&r->wire, f->data.at, text, sizeof key - 1));
        }
        reader->traced = reader->traced && strcmp(text, key) == 0;
    } else if (f->number == ONNX_ENTRY_VALUE && reader->traced) {
        return vc_onnx_bytes_read(r, f, "a value of its metadata_props", &reader->node->trace);
    }
    return VC_OK;
}

static enum vc_status take_node(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    static const struct onnx_text texts[] = {
        {ONNX_NODE_NAME, offsetof(struct vc_program_node, name), "the name of a node"},
        {ONNX_NODE_OP, offsetof(struct vc_program_node, op), "the operator of a node"},
        {ONNX_NODE_DOMAIN, offsetof(struct vc_program_node, domain), "the domain of a node"},
        {ONNX_NODE_OVERLOAD, offsetof(struct vc_program_node, overload), "the overload of a node"},
        {0, 0, NULL}};
    struct node_reader *reader = to;

    switch (f->number) {
    case ONNX_NODE_INPUT:
        return vc_onnx_text_read(r, f, "the input of a node", vc_onnx_next(&reader->lists[0]));
    case ONNX_NODE_OUTPUT:
        return vc_onnx_text_read(r, f, "the output of a node", vc_onnx_next(&reader->lists[1]));
    case ONNX_NODE_ATTRIBUTE:
        return vc_onnx_attribute_read(r, f, vc_onnx_next(&reader->lists[2]));
    case ONNX_NODE_METADATA:
        reader->traced = false;
        return f->type == VC_WIRE_BYTES ? vc_onnx_each(r, f->data, take_note, to) : VC_OK;
    default:
        return vc_onnx_texts_take(r, f, texts, reader->node);
    }
}

enum vc_status vc_onnx_program_node(struct onnx_program_reader *r, const struct vc_field *f,
                                    struct vc_program_node *node)
{
    struct node_reader reader = {.node = node,
                                 .lists = {ONNX_LIST(ONNX_NODE_INPUT, node->n_inputs, node->inputs),
                                           ONNX_LIST(ONNX_NODE_OUTPUT, node->n_outputs, node->outputs),
                                           ONNX_LIST(ONNX_NODE_ATTRIBUTE, node->n_attrs, node->attrs)}};

    *node = (struct vc_program_node){.op = "", .domain = "", .name = "", .overload = ""};
    VC_CALL(vc_wire_expect(&r->wire, f, VC_WIRE_BYTES, "a node"));
    VC_CALL(vc_onnx_lists(r, f->data, reader.lists));
    VC_CALL(vc_onnx_each(r, f->data, take_node, &reader));
    node->domain = vc_onnx_domain(node->domain);
    return VC_OK;
}

static enum vc_status take_opset(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    static const struct onnx_text texts[] = {
        {ONNX_OPSET_DOMAIN, offsetof(struct vc_program_opset, domain), "the domain of its opset_import"}, {0, 0, NULL}};
    struct vc_program_opset *opset = to;

    if (f->number == ONNX_OPSET_VERSION) {
        opset->version = (int64_t)f->value;
    }
    return vc_onnx_texts_take(r, f, texts, to);
}

enum vc_status vc_onnx_program_opset(struct onnx_program_reader *r, const struct vc_field *f,
                                     struct vc_program_opset *opset)
{
    opset->domain = "";
    VC_CALL(vc_wire_expect(&r->wire, f, VC_WIRE_BYTES, "an operator set"));
    VC_CALL(vc_onnx_each(r, f->data, take_opset, opset));
    opset->domain = vc_onnx_domain(opset->domain);
    return VC_OK;
}
