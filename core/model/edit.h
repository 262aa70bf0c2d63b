/* edit.h - what passes change about a model beside its weights: sizes that its configuration states.
 *
 * A pass that removes neurons, heads or layers says so in the model's own words ("the hidden size was 4096 and becomes
 * 3072"). It does not know where a format writes that down. The writer of a format translates: into the keys of
 * config.json (formats/huggingface/config/hf_edit.c), into metadata keys of GGUF (formats/gguf/gguf_edit.c). What
 * cannot be translated is refused, since a loader would believe the old number.
 *
 * Edits reach writers in struct vc_out_list, before the first weight is read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vc_edit_key {
    VC_EDIT_HIDDEN = 0,   /* width of the stream from layer to layer: 4096 */
    VC_EDIT_INTERMEDIATE, /* width inside the feed-forward part: 11008 */
    VC_EDIT_EXPERT,       /* ... of an expert, and of one that every token goes through, where they have their own */
    VC_EDIT_SHARED,
    VC_EDIT_ENCODER, /* ... of an encoder and of a decoder, where each has its own */
    VC_EDIT_DECODER,
    VC_EDIT_LAYERS,
    VC_EDIT_HEADS,    /* of attention */
    VC_EDIT_KV_HEADS, /* those of keys and values */
    VC_EDIT_HEAD_SIZE,
    VC_EDIT_EXPERTS,
    VC_EDIT_VOCABULARY,
    VC_EDIT_KEYS
};

struct vc_edit {
    enum vc_edit_key key;
    uint64_t before, after;  /* before: what the source says; only numbers that say this are changed */
    size_t n_dropped;        /* VC_EDIT_LAYERS: the layers that are gone, so that lists with an entry per layer lose */
    const uint64_t *dropped; /* those entries: their numbers from 0 on, rising */
    const char *list;        /* VC_EDIT_LAYERS: what their numbers stand behind in names, "decoder.block", where a model
                                has several lists; NULL: it has one */
};

/* "hidden size". */
const char *vc_edit_name(enum vc_edit_key key);

/* The edit of that key; NULL if there is none. */
const struct vc_edit *vc_edit_find(const struct vc_edit *edits, size_t n, enum vc_edit_key key);

/* Models that state no number of key/value heads have as many as heads: true for an edit that such a model needs no
 * change for, because the heads change in the same way. */
bool vc_edit_is_implied(const struct vc_edit *edits, size_t n, const struct vc_edit *edit);

/* Models that state no size of a head divide the hidden size by the number of heads. True when the edits change the
 * result of that: *before and *after are the sizes a loader would take. hidden and heads: what the source says; 0 where
 * it does not. */
bool vc_edits_change_head_size(const struct vc_edit *edits, size_t n, uint64_t hidden, uint64_t heads, uint64_t *before,
                               uint64_t *after);

/* ---- layers that are left out: an edit of VC_EDIT_LAYERS with a list ---- */

bool vc_edit_drops_layer(const struct vc_edit *edit, uint64_t layer);

/* How many of the layers below `layer` stay: the new number of `layer`, where it does. */
uint64_t vc_edit_layers_below(const struct vc_edit *edit, uint64_t layer);

/* Whether every layer that stays keeps its place in a pattern that repeats after `period` layers. */
bool vc_edit_keeps_period(const struct vc_edit *edit, uint64_t period);

/* ---- what a stored graph says about sizes ---- */

enum vc_graph_edit_kind {
    VC_GRAPH_EDIT_ATTRIBUTE, /* of the node that makes `value`: Conv's group, Split's sizes */
    VC_GRAPH_EDIT_INPUT,     /* of that node: its input number `input` becomes a constant, Reshape's new shape */
    VC_GRAPH_EDIT_SHAPE,     /* that is declared for `value`; -1: the dimension stays as it is declared */
    VC_GRAPH_EDIT_FOLD,      /* the BatchNormalization that alone reads `value` goes: the product that made `value`
                                makes what it made, and reads its beta as a bias */
    VC_GRAPH_EDIT_CODES      /* QuantizeLinear and DequantizeLinear come behind `value`, and all read what these make */
};

/* Where a shape of the model changes, what is declared for other values than those that VC_GRAPH_EDIT_SHAPE names is
 * left out of the output: it may be wrong. An edit with n 0, or with -1 only, says that the declared shape holds. It is
 * no failure where the file declares none. Tensors need no edit: the shape that they are written with is known. */

/* A number that an ONNX file has written down beside its tensors, and that follows a size that a pass changes. Values
 * have names of their own in a graph, nodes need not: a node is known by what it makes. */
struct vc_graph_edit {
    enum vc_graph_edit_kind kind;
    const char *value;
    const char *attribute; /* "group" */
    unsigned input;
    size_t n; /* 1: an integer where the attribute is one, and a scalar where the input was one; SHAPE: dimensions */
    const int64_t *numbers;
    float scale; /* CODES: one for the whole value; numbers: the zero point, and 1 where codes have a sign (i8), else 0
                    (u8) */
};

/* The operator set that such codes need: the writer makes a graph of an older one one of this set, or refuses it. */
#define VC_GRAPH_CODES_OPSET 13
