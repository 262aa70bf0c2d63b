/* edit.c - see edit.h. Knows no format. */
#include "core/model/edit.h"

const char *vc_edit_name(enum vc_edit_key key)
{
    static const char *const names[VC_EDIT_KEYS] = {[VC_EDIT_HIDDEN] = "hidden size",
                                                    [VC_EDIT_INTERMEDIATE] = "intermediate size",
                                                    [VC_EDIT_EXPERT] = "intermediate size of experts",
                                                    [VC_EDIT_SHARED] = "intermediate size of the shared expert",
                                                    [VC_EDIT_ENCODER] = "intermediate size of the encoder",
                                                    [VC_EDIT_DECODER] = "intermediate size of the decoder",
                                                    [VC_EDIT_LAYERS] = "number of layers",
                                                    [VC_EDIT_HEADS] = "number of attention heads",
                                                    [VC_EDIT_KV_HEADS] = "number of key/value heads",
                                                    [VC_EDIT_HEAD_SIZE] = "size of an attention head",
                                                    [VC_EDIT_EXPERTS] = "number of experts",
                                                    [VC_EDIT_VOCABULARY] = "size of the vocabulary"};

    return names[key];
}

const struct vc_edit *vc_edit_find(const struct vc_edit *edits, size_t n, enum vc_edit_key key)
{
    size_t i = 0;

    while (i < n && edits[i].key != key) {
        i++;
    }
    return i < n ? &edits[i] : NULL;
}

bool vc_edit_is_implied(const struct vc_edit *edits, size_t n, const struct vc_edit *edit)
{
    const struct vc_edit *heads = vc_edit_find(edits, n, VC_EDIT_HEADS);

    return edit->key == VC_EDIT_KV_HEADS && heads != NULL && heads->before == edit->before &&
           heads->after == edit->after;
}

bool vc_edits_change_head_size(const struct vc_edit *edits, size_t n, uint64_t hidden, uint64_t heads, uint64_t *before,
                               uint64_t *after)
{
    const struct vc_edit *fewer = vc_edit_find(edits, n, VC_EDIT_HEADS);
    const struct vc_edit *width = vc_edit_find(edits, n, VC_EDIT_HIDDEN);
    uint64_t left = fewer != NULL ? fewer->after : heads;

    heads = fewer != NULL ? fewer->before : heads;
    if (heads == 0 || left == 0) {
        return false;
    }
    *before = hidden / heads;
    *after = (width != NULL ? width->after : hidden) / left;
    return *before != *after;
}

bool vc_edit_drops_layer(const struct vc_edit *edit, uint64_t layer)
{
    size_t i = 0;

    while (i < edit->n_dropped && edit->dropped[i] != layer) {
        i++;
    }
    return i < edit->n_dropped;
}

uint64_t vc_edit_layers_below(const struct vc_edit *edit, uint64_t layer)
{
    size_t n = 0;

    while (n < edit->n_dropped && edit->dropped[n] < layer) {
        n++;
    }
    return layer - n;
}

bool vc_edit_keeps_period(const struct vc_edit *edit, uint64_t period)
{
    for (size_t i = 0; i < edit->n_dropped; i++) { /* each layer moves by the dropped ones below it */
        bool last = i + 1 == edit->n_dropped;
        uint64_t next = last ? edit->before : edit->dropped[i + 1];

        if ((i + 1) % period != 0 && next != edit->dropped[i] + 1) {
            return false;
        }
    }
    return true;
}
