/* onnx_out.c - what all parts of a writer ask about an output: which tensor of the graph it is, which nodes stand between
 * its initializer and its name, which names are free. The parts stand on this file, and it on none of them. */
#include "formats/onnx/onnx_sink.h"

/* Versions of DequantizeLinear. */
enum {
    DEQUANTIZE_OPSET = 10,
    CHANNELS_OPSET = 13 /* with an axis */
};

/* ---- what is needed ---- */

const struct onnx_link *vc_onnx_link_of(const struct onnx_sink *self, size_t out)
{
    return &self->source->links[vc_out_at(self->outs, out).source];
}

const char *vc_onnx_name_in_graph(const struct onnx_sink *self, size_t out)
{
    return self->source->symbols.list[vc_onnx_link_of(self, out)->name].name;
}

bool vc_onnx_is_changed(const struct onnx_sink *self, size_t out)
{
    return self->out[out].changed;
}

bool vc_onnx_is_part(const struct onnx_sink *self, size_t out)
{
    const struct vc_out_tensor t = vc_out_at(self->outs, out);

    return t.role != VC_PART_CODES || (self->out[out].moved && t.beside);
}

bool vc_onnx_is_quantized(const struct onnx_sink *self, size_t out)
{
    return vc_out_at(self->outs, out).quant != NULL;
}

/* DequantizeLinear with a scale per channel needs opset 13, with one scale 10; older graphs get Cast and Mul. */
bool vc_onnx_is_product(const struct onnx_sink *self, size_t out)
{
    const struct vc_quant *quant = vc_out_at(self->outs, out).quant;

    return quant != NULL && quant->scheme == VC_SCHEME_INT8 &&
           self->opset < (quant->granularity == VC_GRANULARITY_CHANNEL ? CHANNELS_OPSET : DEQUANTIZE_OPSET);
}

/* The graph wants another type under that name than the output has, or than DequantizeLinear gives. */
bool vc_onnx_is_cast(const struct onnx_sink *self, size_t out)
{
    const struct vc_out_tensor t = vc_out_at(self->outs, out);
    enum vc_dtype dtype = t.quant == NULL                 ? t.dtype
                          : vc_onnx_is_product(self, out) ? VC_DTYPE_F32
                                                          : vc_out_at(self->outs, vc_quant_scale(t.quant)).dtype;

    return !self->out[out].nbits && vc_onnx_type_of(dtype) != vc_onnx_link_of(self, out)->type;
}

uint64_t vc_onnx_out_bytes(const struct onnx_sink *self, size_t out)
{
    const struct onnx_view *view = &self->out[out].view;

    return view->bits == 0 ? vc_out_at(self->outs, out).size_bytes : vc_onnx_view_stored_bytes(view);
}

/* ---- names ---- */

/* No value of the new graphs has that name. */
static bool is_free(const struct onnx_sink *self, const char *name)
{
    const struct onnx_symbols *symbols = &self->source->symbols;
    size_t symbol = vc_onnx_symbol_find(symbols, ONNX_MAIN, name);
    size_t inner = vc_onnx_symbol_find(symbols, ONNX_ANY, name);

    return (symbol == ONNX_NONE || (self->gone[symbol] & ONNX_NAME_GONE) != 0) && inner == ONNX_NONE;
}

enum vc_status vc_onnx_choose_name(struct vc_ctx *ctx, struct onnx_sink *self, const char *base, const char *suffix,
                                   const char **out)
{
    char *name = vc_arena_printf(ctx, &self->arena, "%s%s", base, suffix);

    for (unsigned i = 1; name != NULL && !is_free(self, name); i++) {
        name = vc_arena_printf(ctx, &self->arena, "%s%s_%u", base, suffix, i);
    }
    *out = name;
    return name != NULL ? VC_OK : VC_E_NOMEM;
}

size_t vc_onnx_folded_name(const struct onnx_sink *self, size_t symbol)
{
    for (size_t i = 0; i < self->edits.n_folded; i++) {
        symbol = self->edits.folded[i].before == symbol ? self->edits.folded[i].after : symbol;
    }
    return symbol;
}

/* ---- messages ---- */

void vc_onnx_put_message(struct vc_text *text, uint32_t number, struct vc_text *inner)
{
    if (inner->status != VC_OK && text->status == VC_OK) {
        text->status = inner->status;
    }
    vc_wire_put_bytes(text, number, inner->n == 0 ? "" : inner->data, inner->n);
    vc_text_release(inner);
}

void vc_onnx_put_attribute(struct vc_ctx *ctx, struct vc_text *node, const char *name, uint64_t value)
{
    struct vc_text a = {.ctx = ctx};

    vc_wire_put_string(&a, ONNX_ATTRIBUTE_NAME, name);
    vc_wire_put_int(&a, ONNX_ATTRIBUTE_I, value);
    vc_wire_put_int(&a, ONNX_ATTRIBUTE_TYPE, ONNX_ATTRIBUTE_TYPE_INT);
    vc_onnx_put_message(node, ONNX_NODE_ATTRIBUTE, &a);
}

void vc_onnx_put_node(struct vc_ctx *ctx, const struct onnx_new_node *n, struct vc_text *text)
{
    struct vc_text node = {.ctx = ctx};

    for (size_t k = 0; k < 3 && n->inputs[k] != NULL; k++) {
        vc_wire_put_string(&node, ONNX_NODE_INPUT, n->inputs[k]);
    }
    vc_wire_put_string(&node, ONNX_NODE_OUTPUT, n->output);
    if (n->name != NULL) {
        vc_wire_put_tag(&node, ONNX_NODE_NAME, VC_WIRE_BYTES);
        vc_wire_put_varint(&node, strlen(n->name) + strlen(n->role));
        vc_text_add(&node, "%s%s", n->name, n->role);
    }
    vc_wire_put_string(&node, ONNX_NODE_OP, n->op);
    for (size_t k = 0; k < 2 && n->attrs[k].name != NULL; k++) {
        vc_onnx_put_attribute(ctx, &node, n->attrs[k].name, (uint64_t)n->attrs[k].value);
    }
    vc_onnx_put_message(text, ONNX_GRAPH_NODE, &node);
}
