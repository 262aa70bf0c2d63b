/* depth_lists.h - which tensors are layers, by their names: a list of layers is a container with numbers from 0 on
 * behind it.
 *
 *     model.layers.0.mlp.w     list "model.layers", layer 0, rest ".mlp.w"
 *     blk.11.ffn_up.weight     list "blk", layer 11, rest ".ffn_up.weight" */
#pragma once

#include "core/model/source.h"

/* A tensor of a layer. */
struct vc_layer_tensor {
    size_t index;     /* in the model */
    const char *name; /* of the tensor; the list is its first n_list bytes */
    size_t n_list;
    uint64_t layer;
    const char *rest; /* behind the number; empty, or begins with '.' or '/' */
    bool beside;      /* a part of another tensor, such as its scales: layers that are quantized otherwise are alike */
};

struct vc_layer_list {
    const char *name; /* "model.layers", in the arena */
    uint64_t n_layers;
    size_t n;
    struct vc_layer_tensor *tensors; /* sorted by layer, then by the rest of the name */
    /* Two tensors by which layers differ: one that some have and others have not (other NULL), or one that has another
     * shape. NULL: all layers are alike. */
    const struct vc_layer_tensor *odd, *other;
};

/* Finds the list of that name, or where it is NULL the only one. The caller frees list->tensors with vc_free, also
 * after a failure. VC_E_UNSUPPORTED: there are several, or none, or numbers are missing; the sentence names them. */
enum vc_status vc_layers_find(struct vc_ctx *ctx, const struct vc_model *model, const char *name,
                              struct vc_arena *arena, struct vc_layer_list *list);
