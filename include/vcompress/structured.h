/* structured.h - whole neurons, channels, heads and experts removed: smaller dense tensors, everywhere they are used.
 *
 * Which rows of one tensor are which columns of others is in couplings (couplings.h). The output has other shapes than
 * the input; the configuration beside the weights follows (docs/structured.md). Definitions: docs/numerics.md.
 *
 * A pass belongs to its job from vc_job_add_structured on. The options are copied with their strings; couplings are
 * not, and outlive the job.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_STRUCTURED_H
#define VCOMPRESS_STRUCTURED_H

#include <vcompress/couplings.h>
#include <vcompress/prune.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How important a unit is. Numbers are stable. */
enum vc_structured_score {
    VC_STRUCTURED_L2 = 0,  /* of each member that makes the units the square root of the sum of squares of the unit's
                              elements, divided by the mean of that over all units; then the mean over these members */
    VC_STRUCTURED_L1 = 1,  /* the same with the sum of magnitudes */
    VC_STRUCTURED_NORM = 2 /* the same of the scales of normalizations only: Network Slimming, arXiv 1708.06519 */
};

/* Units of one group that go, whatever their scores. */
struct vc_structured_units {
    const char *tensor; /* any member of the group ... */
    unsigned axis;      /* ... and the axis that belongs to it */
    size_t n;
    const uint64_t *units; /* from 0 on, each once */
};

struct vc_structured_options {
    size_t struct_size; /* set by vc_structured_defaults */
    const char *share;  /* of the units of each group that go, a decimal from 0 to 1 with at most 9 digits behind the
                           point: "0.3". NULL: only groups with a rule, or given units */
    enum vc_structured_score score;
    enum vc_prune_scope scope; /* tensor: the share of each group; global: of all groups of a kind together */
    uint64_t round_to;         /* what stays of a group is rounded up to a multiple of this; 0: to nothing */
    unsigned units;            /* which kinds of groups are cut: bit 1u << VC_UNIT_NEURONS and so on */
    const struct vc_couplings *couplings; /* NULL: those of the graph of the model, where it says what it computes */
    const struct vc_sparsity_rule *sets;  /* groups with a share of their own: by the names of their members' tensors */
    size_t n_sets;
    const struct vc_rule *rules; /* a group with a tensor that they exclude stays as it is */
    size_t n_rules;
    const struct vc_structured_units *remove; /* in place of shares: all that goes */
    size_t n_remove;
    bool dequantize; /* quantized weights become floats first; else they are refused */
};

VC_API void vc_structured_defaults_sized(struct vc_structured_options *options, size_t struct_size);

/* Neurons by l2, group by group, everything else off; `share`, `sets` or `remove` has to be set. */
static inline void vc_structured_defaults(struct vc_structured_options *options)
{
    vc_structured_defaults_sized(options, sizeof *options);
}

/* Couplings that are contradicted by the model's shapes, tensors that are not there, units that a group does not have:
 * vc_job_plan refuses them before weights are read, all in one sentence. VC_E_UNSUPPORTED: the model does not say what
 * it computes, and the sentence shows the couplings that would. */
VC_API enum vc_status vc_job_add_structured(struct vc_ctx *ctx, struct vc_job *job,
                                            const struct vc_structured_options *options);

#ifdef __cplusplus
}
#endif
#endif
