/* couplings.h - which rows and columns of which tensors belong together, so that they can only be removed together.
 *
 * A channel that a layer makes is a row of its weight, an element of its bias and of the norms behind it, and a column
 * of every weight that reads it:
 *
 *     fc1.weight:0 = fc1.bias:0 = fc2.weight:1          128 neurons
 *     conv.weight:0 = bn.weight:0 = fc.weight:1*49      64 channels; the flattened picture has 7*7 of each
 *     q_proj.weight:0*256 = k_proj.weight:0*64 = v_proj.weight:0*64 = o_proj.weight:1*256     8 key/value heads of 64,
 *                                                                                             each with 4 query heads
 * Such a line is a group; what is removed of it are units (neurons, channels, heads, experts). Groups come from a
 * graph, which knows them all, or from a file with a line for each (docs/structured.md).
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_COUPLINGS_H
#define VCOMPRESS_COUPLINGS_H

#include <vcompress/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the units of a group are. Numbers are stable. */
enum vc_unit {
    VC_UNIT_NEURONS = 0, /* of a linear layer, or channels of a convolution: what a file's groups are, too */
    VC_UNIT_HEADS = 1,   /* of attention; where several queries share a key and a value, the latter with all of them */
    VC_UNIT_EXPERTS = 2, /* of a layer that sends each row to a few of them */
    VC_UNIT_HIDDEN = 3   /* of the stream from layer to layer, which a normalization over all of it reads: what is left
                            computes something else, even where the removed ones are zero */
};

/* Unit u of a group of n lies, along the axis, at offset + (r * n + u) * block + j, for all r < repeat, j < block:
 *
 *     conv.weight:0 of 2 groups of 3 channels, each read by `:1/2`     n 3, block 1, repeat 2: unit 1 is rows 1 and 4
 *     heads of 64 in the second third of a packed [3 * 512, 512]       n 8, block 64, repeat 1, offset 512 */
struct vc_coupling_member {
    const char *tensor;
    size_t index;  /* in the model; VC_NO_TENSOR: the graph has no weights */
    unsigned axis; /* as the tensor lies in the checkpoint */
    uint64_t offset, block, repeat;
    bool makes;    /* its rows compute the units; else they read, scale or shift them */
    bool whole;    /* the unit is a tensor of its own (an expert's weight), which goes or stays; axis and the others
                      are 0 then, and `unit` holds */
    uint64_t unit; /* of `whole`: which */
};

struct vc_coupling {
    const char *name; /* the tensor and axis of its first member: "fc1.weight:0"; unique */
    enum vc_unit unit;
    uint64_t n_units;
    size_t n_members;
    const struct vc_coupling_member *members; /* those that make the units first, else in the order of the graph */
    const char *fixed; /* why no unit can be removed, a few words: "is an output of the graph"; NULL: they can */
};

struct vc_couplings;

/* The groups of a graph, of all axes of parameters that have more than one unit. The graph is not needed afterwards.
 * An operator that is not known to keep units apart fixes the groups it touches, which is no failure. */
VC_API enum vc_status vc_couplings_of_graph(struct vc_ctx *ctx, struct vc_graph *graph, struct vc_couplings **out);

/* The groups of a file, bound to the tensors of the model. VC_E_FORMAT: a line is none, a tensor is not there, or sizes
 * contradict each other: the sentence has all that was found. */
VC_API enum vc_status vc_couplings_read(struct vc_ctx *ctx, const char *path, const struct vc_model *model,
                                        struct vc_couplings **out);

/* The groups as such a file. *text is freed with vc_text_free. */
VC_API enum vc_status vc_couplings_print(struct vc_ctx *ctx, const struct vc_couplings *couplings, char **text);

VC_API void vc_couplings_free(struct vc_couplings *couplings); /* accepts NULL */

VC_API size_t vc_couplings_count(const struct vc_couplings *couplings);
VC_API const struct vc_coupling *vc_coupling(const struct vc_couplings *couplings, size_t index);

#ifdef __cplusplus
}
#endif
#endif
