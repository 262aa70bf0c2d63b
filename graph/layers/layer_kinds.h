/* layer_kinds.h - one line of a list of layers, and the table of what a line can be. */
#pragma once

#include "graph/builder/builder.h"

#define VC_LAYER_MAX_LINE  4096
#define VC_LAYER_MAX_WORDS 8

/* "kernel=3". used: some kind of layer asked for it; an option that nobody asks for is refused. */
struct vc_layer_option {
    const char *name, *value;
    bool used;
};

/* A line, split: "conv conv1 64 kernel=3 as features". */
struct vc_layer {
    const char *kind;
    unsigned n_words, n_options;
    const char *words[VC_LAYER_MAX_WORDS];
    struct vc_layer_option options[VC_LAYER_MAX_WORDS];
    const char *as; /* NULL: no name is given */
};

/* What all lines share while the list is read. */
struct vc_layer_list {
    struct vc_graph *graph;
    const struct vc_model *model; /* or NULL */
    unsigned line;
    struct vc_layer layer;
    uint32_t value; /* what the next layer works on; VC_NO_VALUE: there is no input yet */
    bool has_output;
};

/* Notes "line 3: conv: ..." */
void vc_layer_fail(struct vc_layer_list *list, const char *format, ...) VC_PRINTF(2, 3);

/* Adds the layer that the line says. */
void vc_layer_add(struct vc_layer_list *list);
