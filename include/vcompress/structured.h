/* structured.h - structured pruning: removes whole neurons, channels, heads and experts. Tensors stay dense and become
 * smaller.
 *
 * Couplings (couplings.h) say which rows of one tensor belong to which columns of others. The shapes in the
 * configuration beside the weights are changed, too (docs/structured.md). Definitions: docs/numerics.md.
 *
 * The job owns a pass from vc_job_add_structured on. The options are copied with their strings. Couplings are not
 * copied and must outlive the job.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_STRUCTURED_H
#define VCOMPRESS_STRUCTURED_H

#include <vcompress/couplings.h>
#include <vcompress/prune.h>

VC_BEGIN_C

/* The score of a unit; units with the lowest scores are removed. Numbers are stable. */
enum vc_structured_score {
    /* For each member that makes the units: the square root of the sum of squares of the unit's elements, divided by
     * the mean of this root over all units. The score is the mean over these members. */
    VC_STRUCTURED_L2 = 0,
    VC_STRUCTURED_L1 = 1, /* the same with the sum of magnitudes instead of the root */
    /* The same over the scales of normalizations only: Network Slimming, arXiv 1708.06519. */
    VC_STRUCTURED_NORM = 2,
    /* What the layers that read the units lose although the units that stay make up for it, unit by unit, by the second
     * moments of `calibration` (docs/numerics.md): the order in which units cost least with `reconstruct`. */
    VC_STRUCTURED_OBS = 3
};

/* Units of one group to remove, whatever their scores. */
struct vc_structured_units {
    const char *tensor; /* any member of the group */
    unsigned axis;      /* the axis of this member */
    size_t n;
    const uint64_t *units; /* numbers from 0 on, each at most once */
};

struct vc_structured_options {
    size_t struct_size; /* set by vc_structured_defaults */
    /* Share of the units of each group to remove, a decimal from 0 to 1 with at most 9 digits after the point: "0.3".
     * NULL: only groups in `sets` or units in `remove`. */
    const char *share;
    enum vc_structured_score score;
    enum vc_prune_scope scope;            /* VC_PRUNE_TENSOR: share of each group; _GLOBAL: of all groups of a kind */
    uint64_t round_to;                    /* the remaining units are rounded up to a multiple of this; 0: not rounded */
    unsigned units;                       /* kinds of groups to cut, bits: 1u << VC_UNIT_NEURONS and so on */
    const struct vc_couplings *couplings; /* NULL: the couplings of the model's graph */
    const struct vc_sparsity_rule *sets;  /* shares for groups, by the names of their members' tensors */
    size_t n_sets;
    const struct vc_rule *rules; /* a group with an excluded tensor is not cut */
    size_t n_rules;
    const struct vc_structured_units *remove; /* instead of shares: all units to remove */
    size_t n_remove;
    bool dequantize; /* decode quantized weights to floats first; false: refuse them */
    /* Weights that lose columns change what stays of them by least squares on `calibration`, so that they answer to
     * their inputs as before as far as they can; biases take the means. Weights without second moments there are only
     * cut. */
    bool reconstruct;
    /* For `reconstruct`: what the layers get to see, a file of vc_calibrate; must outlive the job. */
    const struct vc_model *calibration;
    bool calibration_anyway; /* also statistics that were measured with weights of another training, or another graph */
    /* The text (vc_graph_print_text) of the graph that `couplings` are of, before its sizes are bound: statistics of
     * another graph are refused. NULL: not known. Must outlive the job. */
    const char *graph_text;
    /* true: the configuration beside the weights states the new sizes, also in a job whose vc_write_options.layout is
     * "plain" for the codes of another pass. false: that layout copies the configuration unchanged. */
    bool state_sizes;
};

/* Neurons, VC_STRUCTURED_L2, VC_PRUNE_TENSOR, everything else off. `share`, `sets` or `remove` must be set. */
static inline void vc_structured_defaults(struct vc_structured_options *options)
{
    vc_options_defaults("vc_structured_options", options, sizeof *options);
}

/* Adds the pass. vc_job_plan refuses, before reading weights and with all errors in one sentence: couplings that
 * contradict the model's shapes, unknown tensors, units beyond the group. VC_E_UNSUPPORTED if no couplings are given
 * and the model has no graph; the sentence shows how to write couplings. */
VC_API enum vc_status vc_job_add_structured(struct vc_ctx *ctx, struct vc_job *job,
                                            const struct vc_structured_options *options);

VC_END_C
#endif
