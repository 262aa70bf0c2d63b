/* onnx_folded.c - nodes of BatchNormalization that passes have computed into the product before them
 * (VC_GRAPH_EDIT_FOLD): the product makes their output, and reads another bias.
 *
 *     Conv (x, w) -> "a"; BatchNormalization ("a", g, beta, mean, var) -> "y"          Conv (x, w, beta) -> "y"
 *
 * g, mean, var and the bias from before go where nothing else reads them. */

#include "formats/onnx/onnx_sink.h"

/* ---- planning ---- */

/* A name in a node, as a symbol. */
static enum vc_status read_symbol(struct onnx_reader *r, const struct onnx_sink *self, const struct vc_field *field,
                                  size_t *symbol)
{
    VC_CALL(vc_onnx_string_read(r, field, "the input or output of a node"));
    *symbol = vc_onnx_symbol_find(&self->source->symbols, ONNX_MAIN, r->name);
    return VC_OK;
}

/* A node: one that makes what a norm read, whose old bias nobody reads then, or the norm itself. */
static enum vc_status take_node(struct onnx_reader *r, struct onnx_sink *self, const struct vc_field *node)
{
    struct onnx_edits *edits = &self->edits;
    size_t names[6] = {ONNX_NONE, ONNX_NONE, ONNX_NONE, ONNX_NONE, ONNX_NONE, ONNX_NONE}; /* five inputs, an output */
    struct vc_span rest = node->data;
    unsigned k = 0;
    struct vc_field f;

    while (rest.n != 0) {
        VC_CALL(vc_wire_field(&r->wire, &rest, &f));
        if (f.number == ONNX_NODE_INPUT && k < 5) {
            VC_CALL(read_symbol(r, self, &f, &names[k++]));
        } else if (f.number == ONNX_NODE_OUTPUT && names[5] == ONNX_NONE) {
            VC_CALL(read_symbol(r, self, &f, &names[5]));
        }
    }
    for (size_t i = 0; i < edits->n_folded; i++) {
        struct onnx_folded *folded = &edits->folded[i];
        bool norm = folded->before == names[0];

        if (norm) {
            folded->norm = node->all.at;
            folded->after = names[5];
            folded->bias = names[2];
        } else if (folded->before == names[5]) {
            folded->product = node->all.at;
        }
        for (k = 0; k < 5 && (norm || folded->before == names[5]); k++) {
            if (names[k] != ONNX_NONE && (norm ? k != 2 : k == 2)) {
                edits->unread[names[k]]++;
            }
        }
    }
    return VC_OK;
}

enum vc_status vc_onnx_plan_folded(struct vc_ctx *ctx, struct onnx_sink *self)
{
    const struct vc_out_list *outs = self->outs;
    struct onnx_edits *edits = &self->edits;
    struct vc_span rest = self->source->graph;
    struct onnx_reader r = {.ctx = ctx};
    struct vc_field f;
    enum vc_status status = VC_OK;

    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, edits->folded, outs->n_graph_edits + (size_t)1));
    for (size_t i = 0; i < outs->n_graph_edits; i++) {
        const struct vc_graph_edit *edit = &outs->graph_edits[i];

        if (edit->kind == VC_GRAPH_EDIT_FOLD) {
            edits->folded[edits->n_folded++].before =
                vc_onnx_symbol_find(&self->source->symbols, ONNX_MAIN, edit->value);
        }
    }
    if (edits->n_folded == 0) {
        return VC_OK;
    }
    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, edits->unread, self->source->symbols.n));
    VC_TRY_ALLOC(r.name = vc_alloc(ctx, VC_TAG_NAMES, ONNX_MAX_NAME + 1));
    VC_TRY(vc_wire_open(ctx, self->source->file, &r.wire));
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r.wire, &rest, &f));
        if (f.number == ONNX_GRAPH_NODE) {
            VC_TRY(take_node(&r, self, &f));
        }
    }
    for (size_t i = 0; i < edits->n_folded; i++) {
        if (edits->folded[i].product == 0 || edits->folded[i].norm == 0) {
            VC_TRY(vc_fail(ctx, VC_E_INTERNAL, "the graph has no norm that an edit folds"));
        }
    }
out:
    vc_wire_close(&r.wire);
    vc_free(ctx, r.name);
    return status;
}

bool vc_onnx_is_unread(const struct onnx_sink *self, size_t symbol)
{
    const struct onnx_symbol *s = &self->source->symbols.list[symbol];
    const uint32_t *unread = self->edits.unread;

    return unread != NULL && unread[symbol] != 0 && unread[symbol] == s->n_uses && !s->pinned;
}

/* ---- the new nodes ---- */

const struct onnx_folded *vc_onnx_folded_at(const struct onnx_sink *self, uint64_t at, bool product)
{
    for (size_t i = 0; i < self->edits.n_folded; i++) {
        if ((product ? self->edits.folded[i].product : self->edits.folded[i].norm) == at) {
            return &self->edits.folded[i];
        }
    }
    return NULL;
}

enum vc_status vc_onnx_add_folded(struct onnx_layout *l, const struct onnx_folded *folded, const struct vc_field *field,
                                  unsigned k, bool *done)
{
    struct vc_text *text = &l->self->literals;
    size_t from = text->n;

    *done = field->number == ONNX_NODE_OUTPUT || (field->number == ONNX_NODE_INPUT && k == 2);
    if (field->number == ONNX_NODE_OUTPUT) {
        vc_wire_put_string(text, ONNX_NODE_OUTPUT,
                           vc_onnx_coded_name(l, l->self->source->symbols.list[folded->after].name, false));
        VC_CALL(vc_onnx_add_literal(l, from));
    }
    return VC_OK;
}

enum vc_status vc_onnx_add_folded_bias(struct onnx_layout *l, const struct onnx_folded *folded)
{
    size_t from = l->self->literals.n;

    vc_wire_put_string(&l->self->literals, ONNX_NODE_INPUT, l->self->source->symbols.list[folded->bias].name);
    return vc_onnx_add_literal(l, from);
}
