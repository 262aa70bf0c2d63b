/* onnx_edit_find.c - which edits a name or a node has, what kind of attribute an edit meets, and the walk over all nodes
 * that plans of edits need. */
#include "formats/onnx/onnx_sink.h"

size_t vc_onnx_edits_find(const struct onnx_edits *edits, size_t symbol, size_t *n)
{
    size_t low;

    *n = 0;
    VC_BISECT(low, edits->n_named, k, edits->named[k].symbol < symbol);
    while (low + *n < edits->n_named && edits->named[low + *n].symbol == symbol) {
        *n += 1;
    }
    return low;
}

/* Its type says which, or in the first files, which had none, the field that is there. */
enum vc_status vc_onnx_attribute_look(struct onnx_reader *r, struct vc_span message, uint32_t *number)
{
    uint64_t type = 0;
    uint32_t found = 0;

    r->name[0] = '\0';
    VC_EACH_FIELD(f, &r->wire, message) {
        if (f.number == ONNX_ATTRIBUTE_NAME) {
            VC_CALL(vc_onnx_string_read(r, &f, "the name of an attribute"));
        } else if (f.number == ONNX_ATTRIBUTE_TYPE) {
            type = f.value;
        } else if (f.number == ONNX_ATTRIBUTE_I || f.number == ONNX_ATTRIBUTE_INTS) {
            found = f.number;
        }
    }
    if (type == 0) {
        *number = found;
    } else if (type == ONNX_ATTRIBUTE_TYPE_INT) {
        *number = ONNX_ATTRIBUTE_I;
    } else if (type == ONNX_ATTRIBUTE_TYPE_INTS) {
        *number = ONNX_ATTRIBUTE_INTS;
    } else {
        *number = 0;
    }
    return VC_OK;
}

const struct vc_graph_edit *vc_onnx_attribute_edit(const struct onnx_edits *edits, uint64_t node, const char *name)
{
    for (size_t i = 0; i < edits->n_changes; i++) {
        const struct vc_graph_edit *edit = edits->changes[i].edit;

        if (edits->changes[i].node == node && edit != NULL && edit->kind == VC_GRAPH_EDIT_ATTRIBUTE &&
            strcmp(edit->attribute, name) == 0) {
            return edit;
        }
    }
    return NULL;
}

/* ---- all nodes ---- */

static enum vc_status each_node(struct onnx_walk *w, struct vc_span graph, vc_onnx_node_taker *take);

/* The graphs in the attributes of a node. */
static enum vc_status each_inner(struct onnx_walk *w, struct vc_span node, vc_onnx_node_taker *take)
{
    const struct vc_span none = {0, 0};
    uint32_t around = w->graph;

    VC_EACH_FIELD(attribute, &w->r.wire, node) {
        bool is_one = attribute.number == ONNX_NODE_ATTRIBUTE && attribute.type == VC_WIRE_BYTES;

        VC_EACH_FIELD(f, &w->r.wire, is_one ? attribute.data : none) {
            if ((f.number == ONNX_ATTRIBUTE_G || f.number == ONNX_ATTRIBUTE_GRAPHS) && f.type == VC_WIRE_BYTES) {
                w->graph = vc_onnx_graph_number(w->self->source, f.data);
                VC_CALL(each_node(w, f.data, take));
                w->graph = around;
            }
        }
    }
    return VC_OK;
}

static enum vc_status each_node(struct onnx_walk *w, struct vc_span graph, vc_onnx_node_taker *take)
{
    VC_EACH_FIELD(f, &w->r.wire, graph) {
        if (f.number == ONNX_GRAPH_NODE && f.type == VC_WIRE_BYTES) {
            VC_CALL(take(w, &f));
            VC_CALL(each_inner(w, f.data, take));
        }
    }
    return VC_OK;
}

enum vc_status vc_onnx_each_node(struct vc_ctx *ctx, struct onnx_sink *self, vc_onnx_node_taker *take, void *user)
{
    struct onnx_walk w = {.self = self,
                          .r = {.ctx = ctx},
                          .p = {.ctx = ctx, .self = self->source, .arena = &self->arena},
                          .graph = ONNX_MAIN,
                          .user = user};
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(w.r.name = vc_alloc(ctx, VC_TAG_NAMES, ONNX_MAX_NAME + 1));
    VC_TRY(vc_wire_open(ctx, self->source->file, &w.r.wire));
    VC_TRY(vc_wire_open(ctx, self->source->file, &w.p.wire));
    VC_TRY(each_node(&w, self->source->graph, take));
out:
    vc_wire_close(&w.r.wire);
    vc_wire_close(&w.p.wire);
    vc_free(ctx, w.r.name);
    return status;
}

const struct vc_program_attr *vc_onnx_find_attr(const struct vc_program_node *node, const char *name)
{
    for (size_t k = 0; k < node->n_attrs; k++) {
        if (strcmp(node->attrs[k].name, name) == 0) {
            return &node->attrs[k];
        }
    }
    return NULL;
}
