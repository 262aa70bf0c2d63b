/* onnx_codes.c - values of an ONNX graph that become codes and floats again (VC_GRAPH_EDIT_CODES): a QuantizeLinear and
 * a DequantizeLinear behind each.
 *
 *     Relu -> "y"          Relu -> "y.float" -> QuantizeLinear -> "y.codes" -> DequantizeLinear -> "y"
 *     input "x"            "x" -> QuantizeLinear -> "x.codes" -> DequantizeLinear -> "x.decoded", which the nodes read
 *
 * So whoever reads "y" stays as it is, graphs inside nodes and outputs of the graph included. Values with the same
 * scale and zero point share these, which are scalars: operators on codes of onnxruntime take no others.
 *
 * A pass decides which values (core/model/edit.h); here they get names, nodes and constants. vc_onnx_plan_codes is called once,
 * before the layout; the others as the writer walks over the graph. */

#include "formats/onnx/onnx_sink.h"

/* Edits of other kinds are other files' business. */
static bool is_codes(const struct vc_graph_edit *edit)
{
    return edit->kind == VC_GRAPH_EDIT_CODES;
}

/* QuantizeLinear as it is used here needs VC_GRAPH_CODES_OPSET; a newer operator set stays. */
uint64_t vc_onnx_opset_with_codes(const struct onnx *source, const struct vc_out_list *outs)
{
    for (size_t i = 0; i < outs->n_graph_edits; i++) {
        if (is_codes(&outs->graph_edits[i])) {
            return vc_max_u64(source->opset, VC_GRAPH_CODES_OPSET);
        }
    }
    return source->opset;
}

/* ---- planning ---- */

/* Initializers with that scale and zero point: those of an earlier value, or new ones that are named after this one. */
static enum vc_status make_constants(struct vc_ctx *ctx, struct onnx_sink *self, struct onnx_coded *value)
{
    struct onnx_edits *edits = &self->edits;
    const struct vc_graph_edit *edit = value->edit;
    int64_t *numbers = vc_arena_alloc(ctx, &self->arena, 2 * sizeof *numbers);
    const char *name = self->source->symbols.list[value->symbol].name;
    struct onnx_constant *scale = &edits->coded_constants[edits->n_coded_constants];
    struct onnx_constant *zero = scale + 1;
    uint32_t bits;

    VC_CALL_ALLOC(numbers);
    for (const struct onnx_coded *other = edits->coded; other < value; other++) {
        if (memcmp(&other->edit->scale, &edit->scale, sizeof edit->scale) == 0 &&
            memcmp(other->edit->numbers, edit->numbers, 2 * sizeof *numbers) == 0) {
            value->scale = other->scale;
            value->zero = other->zero;
            return VC_OK;
        }
    }
    memcpy(&bits, &edit->scale, sizeof bits);
    numbers[0] = (int64_t)bits;
    numbers[1] = edit->numbers[0];
    VC_CALL(vc_onnx_choose_name(ctx, self, name, ".scale", &value->scale));
    VC_CALL(vc_onnx_choose_name(ctx, self, name, ".zero_point", &value->zero));
    *scale = (struct onnx_constant){value->scale, ONNX_NONE, ONNX_FLOAT, true, 1, numbers};
    *zero = (struct onnx_constant){value->zero, ONNX_NONE, edit->numbers[1] != 0 ? ONNX_INT8 : ONNX_UINT8,
                                   true,        1,         numbers + 1};
    edits->n_coded_constants += 2;
    return VC_OK;
}

/* A value that no node makes is an input of the graph: nodes read "x.decoded" in its place. */
static enum vc_status plan_value(struct vc_ctx *ctx, struct onnx_sink *self, const struct vc_graph_edit *edit)
{
    struct onnx_edits *edits = &self->edits;
    size_t symbol = vc_onnx_symbol_named(&self->source->symbols, edit->value);
    struct onnx_coded *value = &edits->coded[edits->n_coded];

    VC_REFUSE_IF(symbol == ONNX_NONE || edits->coded_of[symbol] != ONNX_NONE, ctx, VC_E_INTERNAL,
                 "the graph has no value '%s' that could become codes", edit->value);
    const struct onnx_symbol *s = &self->source->symbols.list[symbol];
    *value = (struct onnx_coded){.symbol = symbol, .edit = edit, .input = s->n_made == 0};
    VC_CALL(vc_onnx_choose_name(ctx, self, s->name, value->input ? ".decoded" : ".float", &value->other));
    VC_CALL(vc_onnx_choose_name(ctx, self, s->name, ".codes", &value->codes));
    VC_CALL(make_constants(ctx, self, value));
    edits->coded_of[symbol] = edits->n_coded++;
    return VC_OK;
}

enum vc_status vc_onnx_plan_codes(struct vc_ctx *ctx, struct onnx_sink *self)
{
    const struct vc_out_list *outs = self->outs;
    struct onnx_edits *edits = &self->edits;
    size_t n = 0;

    for (size_t i = 0; i < outs->n_graph_edits; i++) {
        n += is_codes(&outs->graph_edits[i]);
    }
    if (n == 0) {
        return VC_OK;
    }
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, edits->coded, n));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, edits->coded_constants, 2 * n));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_NAMES, edits->coded_of, self->source->symbols.n));
    for (size_t i = 0; i < self->source->symbols.n; i++) {
        edits->coded_of[i] = ONNX_NONE;
    }
    for (size_t i = 0; i < outs->n_graph_edits; i++) {
        if (is_codes(&outs->graph_edits[i])) {
            VC_CALL(plan_value(ctx, self, &outs->graph_edits[i]));
        }
    }
    return VC_OK;
}

/* ---- the new graph ---- */

/* Both nodes, behind what makes the value. */
static void put_nodes(struct onnx_layout *l, const struct onnx_coded *v)
{
    struct vc_text *text = &l->self->literals;
    const char *name = l->self->source->symbols.list[v->symbol].name;

    vc_onnx_put_node(l->ctx,
                     &(struct onnx_new_node){.op = "QuantizeLinear",
                                             .output = v->codes,
                                             .inputs = {v->input ? name : v->other, v->scale, v->zero}},
                     text);
    vc_onnx_put_node(l->ctx,
                     &(struct onnx_new_node){.op = "DequantizeLinear",
                                             .output = v->input ? v->other : name,
                                             .inputs = {v->codes, v->scale, v->zero}},
                     text);
}

/* In front of all other nodes: the graph stays in topological order. */
void vc_onnx_put_coded_inputs(struct onnx_layout *l)
{
    const struct onnx_edits *edits = &l->self->edits;

    for (size_t i = 0; i < edits->n_coded; i++) {
        if (edits->coded[i].input) {
            put_nodes(l, &edits->coded[i]);
        }
    }
}

/* The value for which a node of the graph gets another name in its inputs, or outputs; NULL: it does not. */
static const struct onnx_coded *coded_value(const struct onnx_layout *l, const char *name, bool input)
{
    const struct onnx_edits *edits = &l->self->edits;
    size_t symbol = edits->coded_of == NULL ? ONNX_NONE : vc_onnx_symbol_in(&l->self->source->symbols, l->graph, name);

    symbol = input ? symbol : vc_onnx_folded_name(l->self, symbol);
    return symbol != ONNX_NONE && edits->coded_of[symbol] != ONNX_NONE &&
                   edits->coded[edits->coded_of[symbol]].input == input
               ? &edits->coded[edits->coded_of[symbol]]
               : NULL;
}

const char *vc_onnx_coded_name(const struct onnx_layout *l, const char *name, bool input)
{
    const struct onnx_coded *value = coded_value(l, name, input);

    return value != NULL ? value->other : name;
}

/* The same for that input or output of a node. */
static enum vc_status find_coded(struct onnx_layout *l, const struct vc_field *field, const struct onnx_coded **value)
{
    VC_CALL(vc_onnx_string_read(&l->r, field, "the input or output of a node"));
    *value = coded_value(l, l->r.name, field->number == ONNX_NODE_INPUT);
    return VC_OK;
}

/* *done: the field was written, with another name. */
enum vc_status vc_onnx_add_coded_name(struct onnx_layout *l, const struct vc_field *field, bool *done)
{
    const struct onnx_coded *value = NULL;

    if (!*done && (field->number == ONNX_NODE_INPUT || field->number == ONNX_NODE_OUTPUT)) {
        VC_CALL(find_coded(l, field, &value));
        *done = value != NULL;
    }
    if (value != NULL) {
        vc_wire_put_string(&l->self->literals, field->number, value->other);
    }
    return VC_OK;
}

/* For each output of the node that becomes codes. */
enum vc_status vc_onnx_add_coded_outputs(struct onnx_layout *l, const struct vc_field *node)
{
    const struct onnx_coded *value;

    VC_EACH_FIELD(f, &l->r.wire, node->data) {
        if (f.number == ONNX_NODE_OUTPUT) {
            VC_CALL(find_coded(l, &f, &value));
            if (value != NULL) {
                put_nodes(l, value);
            }
        }
    }
    return VC_OK;
}
