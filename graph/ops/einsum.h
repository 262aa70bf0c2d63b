/* einsum.h - the equation of an Einsum: which sizes of the inputs belong together, and which the output has.
 *
 *     "bij, bjk -> bik"     inputs [0, 1, 2] and [0, 2, 3], output [0, 1, 3]; label 2 is summed
 *
 * A label is a letter, or a dimension of "...". A letter twice in one input takes its diagonal. */
#pragma once

#include "graph/ops/ops.h"

#define VC_EINSUM_INPUTS 8
#define VC_EINSUM_LABELS (52 + VC_GRAPH_MAX_DIMS) /* a to z and A to Z, and the dimensions of "..." */

/* The parsed equation. labels[i][d] is the label of dimension d of input i, a number below VC_EINSUM_LABELS. */
struct vc_einsum {
    unsigned n_inputs;
    unsigned n_dims[VC_EINSUM_INPUTS];
    unsigned char labels[VC_EINSUM_INPUTS][VC_GRAPH_MAX_DIMS];
    /* All labels that are used: first those of the output, then those that are summed, as they come. */
    unsigned n_labels, n_out;
    unsigned char order[VC_EINSUM_LABELS];
};

/* NULL, or what is wrong with the equation for inputs of those numbers of dimensions. */
const char *vc_einsum_parse(const char *equation, unsigned n_inputs, const unsigned *n_dims, struct vc_einsum *out);
