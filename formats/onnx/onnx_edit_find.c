/* onnx_edit_find.c - which edits a name or a node has, and what kind of attribute an edit meets. */
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
    struct vc_field f;

    r->name[0] = '\0';
    while (message.n != 0) {
        VC_CALL(vc_wire_field(&r->wire, &message, &f));
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
