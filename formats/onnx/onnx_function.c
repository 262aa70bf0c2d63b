/* onnx_function.c - operators that an ONNX file defines by other nodes, as records of a program (core/model/program.h).
 * graph/onnx puts the nodes in the place of those that call them.
 *
 *     FunctionProto { name "Rotate", domain "model", input "x", output "y", node { Neg (x) -> y } } */

#include "formats/onnx/onnx.h"

/* A function while it is read, with its lists. */
enum { INPUTS, OUTPUTS, ATTRS, DEFAULTS, NODES, OPSETS, N_LISTS };

struct function_reader {
    struct vc_program_function *function;
    struct onnx_list lists[N_LISTS + 1];
};

static enum vc_status take_field(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    static const struct onnx_text texts[] = {
        {ONNX_FUNCTION_NAME, offsetof(struct vc_program_function, name), "the name of a function"},
        {ONNX_FUNCTION_DOMAIN, offsetof(struct vc_program_function, domain), "the domain of a function"},
        {ONNX_FUNCTION_OVERLOAD, offsetof(struct vc_program_function, overload), "the overload of a function"},
        {0, 0, NULL}};
    struct function_reader *reader = to;
    struct onnx_list *lists = reader->lists;

    switch (f->number) {
    case ONNX_FUNCTION_INPUT:
        return vc_onnx_text_read(r, f, "the input of a function", vc_onnx_next(&lists[INPUTS]));
    case ONNX_FUNCTION_OUTPUT:
        return vc_onnx_text_read(r, f, "the output of a function", vc_onnx_next(&lists[OUTPUTS]));
    case ONNX_FUNCTION_ATTRIBUTE:
        return vc_onnx_text_read(r, f, "the attribute of a function", vc_onnx_next(&lists[ATTRS]));
    case ONNX_FUNCTION_DEFAULT:
        return vc_onnx_attribute_read(r, f, vc_onnx_next(&lists[DEFAULTS]));
    case ONNX_FUNCTION_NODE:
        return vc_onnx_program_node(r, f, vc_onnx_next(&lists[NODES]));
    case ONNX_FUNCTION_OPSET:
        return vc_onnx_program_opset(r, f, vc_onnx_next(&lists[OPSETS]));
    default:
        return vc_onnx_texts_take(r, f, texts, reader->function);
    }
}

enum vc_status vc_onnx_program_function(struct onnx_program_reader *r, const struct vc_field *f,
                                        struct vc_program_function *function)
{
    struct function_reader reader = {
        .function = function,
        .lists = {[INPUTS] = ONNX_LIST(ONNX_FUNCTION_INPUT, function->n_inputs, function->inputs),
                  [OUTPUTS] = ONNX_LIST(ONNX_FUNCTION_OUTPUT, function->n_outputs, function->outputs),
                  [ATTRS] = ONNX_LIST(ONNX_FUNCTION_ATTRIBUTE, function->n_attrs, function->attrs),
                  [DEFAULTS] = ONNX_LIST(ONNX_FUNCTION_DEFAULT, function->n_defaults, function->defaults),
                  [NODES] = ONNX_LIST(ONNX_FUNCTION_NODE, function->n_nodes, function->nodes),
                  [OPSETS] = ONNX_LIST(ONNX_FUNCTION_OPSET, function->n_opsets, function->opsets)}};

    *function = (struct vc_program_function){.name = "", .domain = "", .overload = ""};
    VC_CALL(vc_wire_expect(&r->wire, f, VC_WIRE_BYTES, "a function"));
    VC_CALL(vc_onnx_lists(r, f->data, reader.lists));
    VC_REFUSE_IF(function->n_nodes > VC_PROGRAM_MAX_NODES, r->ctx, VC_E_UNSUPPORTED,
                 "has a function of more than %zu nodes", VC_PROGRAM_MAX_NODES);
    return vc_onnx_each(r, f->data, take_field, &reader);
}
