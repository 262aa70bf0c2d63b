/* onnx_function.c - operators that an ONNX file defines by other nodes, as records of a program (core/model/program.h).
 * graph/onnx puts the nodes in the place of those that call them.
 *
 *     FunctionProto { name "Rotate", domain "model", input "x", output "y", node { Neg (x) -> y } } */
#include "formats/onnx/onnx.h"

/* How many there are of each repeated field. */
static enum vc_status count(struct onnx_program_reader *r, struct vc_span rest, struct vc_program_function *fn)
{
    struct vc_field f;
    enum vc_status status = VC_OK;

    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        fn->n_inputs += f.number == ONNX_FUNCTION_INPUT;
        fn->n_outputs += f.number == ONNX_FUNCTION_OUTPUT;
        fn->n_attrs += f.number == ONNX_FUNCTION_ATTRIBUTE;
        fn->n_defaults += f.number == ONNX_FUNCTION_DEFAULT;
        fn->n_nodes += f.number == ONNX_FUNCTION_NODE;
        fn->n_opsets += f.number == ONNX_FUNCTION_OPSET;
    }
out:
    return status;
}

/* The lists while they are filled. */
struct lists {
    const char **inputs, **outputs, **attrs;
    struct vc_program_attr *defaults;
    struct vc_program_node *nodes;
    struct vc_program_opset *opsets;
};

static enum vc_status make_lists(struct onnx_program_reader *r, struct vc_program_function *fn, struct lists *l)
{
    enum vc_status status = VC_OK;

    l->inputs = vc_onnx_items(r, fn->n_inputs, sizeof *l->inputs);
    VC_TRY_ALLOC(l->inputs);
    l->outputs = vc_onnx_items(r, fn->n_outputs, sizeof *l->outputs);
    VC_TRY_ALLOC(l->outputs);
    l->attrs = vc_onnx_items(r, fn->n_attrs, sizeof *l->attrs);
    VC_TRY_ALLOC(l->attrs);
    l->defaults = vc_onnx_items(r, fn->n_defaults, sizeof *l->defaults);
    VC_TRY_ALLOC(l->defaults);
    l->nodes = vc_onnx_items(r, fn->n_nodes, sizeof *l->nodes);
    VC_TRY_ALLOC(l->nodes);
    l->opsets = vc_onnx_items(r, fn->n_opsets, sizeof *l->opsets);
    VC_TRY_ALLOC(l->opsets);
    fn->inputs = l->inputs;
    fn->outputs = l->outputs;
    fn->attrs = l->attrs;
    fn->defaults = l->defaults;
    fn->nodes = l->nodes;
    fn->opsets = l->opsets;
out:
    return status;
}

static enum vc_status take_field(struct onnx_program_reader *r, const struct vc_field *f, struct lists *l,
                                 struct vc_program_function *fn)
{
    enum vc_status status = VC_OK;

    switch (f->number) {
    case ONNX_FUNCTION_NAME:
        return vc_onnx_text_read(r, f, "the name of a function", &fn->name);
    case ONNX_FUNCTION_DOMAIN:
        return vc_onnx_text_read(r, f, "the domain of a function", &fn->domain);
    case ONNX_FUNCTION_OVERLOAD:
        return vc_onnx_text_read(r, f, "the overload of a function", &fn->overload);
    case ONNX_FUNCTION_INPUT:
        return vc_onnx_text_read(r, f, "the input of a function", l->inputs++);
    case ONNX_FUNCTION_OUTPUT:
        return vc_onnx_text_read(r, f, "the output of a function", l->outputs++);
    case ONNX_FUNCTION_ATTRIBUTE:
        return vc_onnx_text_read(r, f, "the attribute of a function", l->attrs++);
    case ONNX_FUNCTION_DEFAULT:
        VC_TRY(vc_wire_expect(&r->wire, f, VC_WIRE_BYTES, "the attribute of a function"));
        return vc_onnx_attribute_read(r, f->data, l->defaults++);
    case ONNX_FUNCTION_NODE:
        VC_TRY(vc_wire_expect(&r->wire, f, VC_WIRE_BYTES, "the node of a function"));
        return vc_onnx_program_node(r, f->data, l->nodes++);
    case ONNX_FUNCTION_OPSET:
        VC_TRY(vc_wire_expect(&r->wire, f, VC_WIRE_BYTES, "the operator set of a function"));
        return vc_onnx_program_opset(r, f->data, l->opsets++);
    default:
        break;
    }
out:
    return status;
}

enum vc_status vc_onnx_program_function(struct onnx_program_reader *r, struct vc_span message,
                                        struct vc_program_function *function)
{
    struct lists lists;
    struct vc_field f;
    enum vc_status status;

    *function = (struct vc_program_function){.name = "", .domain = "", .overload = ""};
    VC_TRY(count(r, message, function));
    if (function->n_nodes > VC_PROGRAM_MAX_NODES) {
        return vc_fail(r->ctx, VC_E_UNSUPPORTED, "has a function of more than %zu nodes", VC_PROGRAM_MAX_NODES);
    }
    VC_TRY(make_lists(r, function, &lists));
    while (message.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &message, &f));
        VC_TRY(take_field(r, &f, &lists, function));
    }
out:
    return status;
}
