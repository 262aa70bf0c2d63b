/* onnx_folded.c - nodes of BatchNormalization that passes have computed into the product before them
 * (VC_GRAPH_EDIT_FOLD): the product makes their output, and reads another bias.
 *
 *     Conv (x, w) -> "a"; BatchNormalization ("a", g, beta, mean, var) -> "y"          Conv (x, w, beta) -> "y"
 *
 * g, mean, var and the bias from before go where nothing else reads them. */

#include "formats/onnx/onnx_sink.h"

/* ---- planning ---- */

/* A node: one that makes what a norm read, whose old bias nobody reads then, or the norm itself. */
static enum vc_status take_node(struct onnx_walk *w, const struct vc_field *node)
{
    struct onnx_edits *edits = &w->self->edits;
    size_t names[6] = {ONNX_NONE, ONNX_NONE, ONNX_NONE, ONNX_NONE, ONNX_NONE, ONNX_NONE}; /* five inputs, an output */
    unsigned k = 0;

    if (w->graph != ONNX_MAIN) {
        return VC_OK;
    }
    VC_EACH_FIELD(f, &w->r.wire, node->data) {
        bool input = f.number == ONNX_NODE_INPUT && k < 5;
        if (input || (f.number == ONNX_NODE_OUTPUT && names[5] == ONNX_NONE)) {
            VC_CALL(vc_onnx_string_read(&w->r, &f, "the input or output of a node"));
            names[input ? k++ : 5] = vc_onnx_symbol_find(&w->self->source->symbols, ONNX_MAIN, w->r.name);
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

    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, edits->folded, outs->n_graph_edits + (size_t)1));
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
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, edits->unread, self->source->symbols.n));
    VC_CALL(vc_onnx_each_node(ctx, self, take_node, NULL));
    for (size_t i = 0; i < edits->n_folded; i++) {
        VC_REFUSE_IF(edits->folded[i].product == 0 || edits->folded[i].norm == 0, ctx, VC_E_INTERNAL,
                     "the graph has no norm that an edit folds");
    }
    return VC_OK;
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

bool vc_onnx_put_folded(struct onnx_layout *l, const struct onnx_folded *folded, uint32_t number, unsigned k)
{
    const char *after = l->self->source->symbols.list[folded->after].name;

    if (number == ONNX_NODE_OUTPUT) {
        vc_wire_put_string(&l->self->literals, ONNX_NODE_OUTPUT, vc_onnx_coded_name(l, after, false));
    }
    return number == ONNX_NODE_OUTPUT || (number == ONNX_NODE_INPUT && k == 2);
}

void vc_onnx_put_folded_bias(struct onnx_layout *l, const struct onnx_folded *folded)
{
    vc_wire_put_string(&l->self->literals, ONNX_NODE_INPUT, l->self->source->symbols.list[folded->bias].name);
}
