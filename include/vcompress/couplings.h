/* couplings.h - couplings: rows and columns of several tensors that can only be removed together.
 *
 * A channel that a layer computes is a row of the layer's weight, an element of the layer's bias and of the norms after
 * the layer, and a column of every weight that reads the channel:
 *
 *     fc1.weight:0 = fc1.bias:0 = fc2.weight:1          128 neurons
 *     conv.weight:0 = bn.weight:0 = fc.weight:1*49      64 channels; the flattened picture has 7*7 of each
 *     q_proj.weight:0*256 = k_proj.weight:0*64 = v_proj.weight:0*64 = o_proj.weight:1*256     8 key/value heads of 64,
 *                                                                                             each with 4 query heads
 * Such a line is a group. A group consists of units (neurons, channels, heads, experts), the smallest parts that can be
 * removed. Groups come from a graph, which knows all of them, or from a file with one line per group
 * (docs/structured.md).
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_COUPLINGS_H
#define VCOMPRESS_COUPLINGS_H

#include <vcompress/graph.h>

VC_BEGIN_C

/* The kind of a group's units. Numbers are stable. */
enum vc_unit {
    VC_UNIT_NEURONS = 0, /* neurons of a linear layer, channels of a convolution; all groups of a file */
    VC_UNIT_HEADS = 1, /* heads of attention; if several query heads share a key/value head, the key/value head with all
                          its query heads */
    VC_UNIT_EXPERTS = 2, /* experts of a layer that sends each token to a few experts */
    /* Elements of the hidden state from layer to layer. A normalization reads the whole hidden state, so removing even
     * zeros changes the results. */
    VC_UNIT_HIDDEN = 3
};

/* Unit u of a group of n lies, along the axis, at offset + (r * n + u) * block + j, for all r < repeat, j < block:
 *
 *     conv.weight:0 of 2 groups of 3 channels, each read by `:1/2`     n 3, block 1, repeat 2: unit 1 is rows 1 and 4
 *     heads of 64 in the second third of a packed [3 * 512, 512]       n 8, block 64, repeat 1, offset 512 */
struct vc_coupling_member {
    const char *tensor;
    size_t index;  /* index in the model; VC_NO_TENSOR: the graph has no weights */
    unsigned axis; /* axis of the tensor as stored in the checkpoint */
    uint64_t offset, block, repeat;
    bool makes; /* true: this tensor computes the units; false: reads, scales or shifts them */
    /* The whole tensor is one unit (the weight of an expert), removed or kept whole. `unit` is valid; axis, offset,
     * block and repeat are 0. */
    bool whole;
    uint64_t unit; /* if `whole`: number of the unit */
};

struct vc_coupling {
    const char *name; /* the tensor and axis of its first member: "fc1.weight:0"; unique */
    enum vc_unit unit;
    uint64_t n_units;
    size_t n_members;
    const struct vc_coupling_member *members; /* members with `makes` first, then the others, in graph order */
    /* why no unit can be removed, a few words: "is an output of the graph"; NULL: units can be removed */
    const char *fixed;
};

struct vc_couplings;

/* Finds the groups of a graph: of all axes of parameters with more than one unit. The graph may be closed afterwards.
 * If an operator is not known to keep units apart, its groups get a `fixed` reason; the call succeeds. Free *out with
 * vc_result_free. */
VC_API enum vc_status vc_couplings_of_graph(struct vc_ctx *ctx, struct vc_graph *graph, struct vc_couplings **out);

/* Reads the groups of a file and finds their tensors in the model. VC_E_FORMAT if a line is not a group, a tensor is
 * missing, or sizes contradict each other; the sentence lists all errors. */
VC_API enum vc_status vc_couplings_read(struct vc_ctx *ctx, const char *path, const struct vc_model *model,
                                        struct vc_couplings **out);

/* Renders the groups as the text of a file for vc_couplings_read. Free *text with vc_text_free. */
VC_API enum vc_status vc_couplings_print(struct vc_ctx *ctx, const struct vc_couplings *couplings, char **text);

/* What a vc_couplings begins with, for reading. An index behind the end gives NULL. */
struct vc_coupling_list {
    size_t n;
    struct vc_coupling *groups;
};

static inline size_t vc_couplings_count(const struct vc_couplings *couplings)
{
    return ((const struct vc_coupling_list *)(const void *)couplings)->n;
}
static inline const struct vc_coupling *vc_coupling(const struct vc_couplings *couplings, size_t index)
{
    const struct vc_coupling_list *list = (const struct vc_coupling_list *)(const void *)couplings;

    return index < list->n ? &list->groups[index] : NULL;
}

VC_END_C
#endif
