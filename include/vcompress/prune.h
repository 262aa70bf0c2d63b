/* prune.h - weights set to zero: which ones, exactly. Definitions: docs/numerics.md.
 *
 * The output has the shapes and types of the input, so every loader reads it. A pass belongs to its job from
 * vc_job_add_prune on. The options are copied with their strings; NULL means the defaults. The numbers of all enums are
 * stable. */
#ifndef VCOMPRESS_PRUNE_H
#define VCOMPRESS_PRUNE_H

#include <vcompress/quantize.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Among which weights the smallest are sought. */
enum vc_prune_scope {
    VC_PRUNE_TENSOR = 0, /* of each tensor floor(sparsity * elements) */
    VC_PRUNE_GLOBAL = 1  /* of all tensors together */
};

/* What is compared where one threshold serves all tensors. */
enum vc_prune_score {
    VC_SCORE_MAGNITUDE = 0,
    VC_SCORE_LAMP = 1 /* of a tensor's weights in ascending order, the square over the sum of the squares from there on
                         (layer-adaptive, arXiv 2010.07611). VC_PRUNE_GLOBAL only, and VC_PATTERN_NONE */
};

enum vc_prune_pattern {
    VC_PATTERN_NONE = 0,   /* any weight may go */
    VC_PATTERN_N_OF_M = 1, /* of every `group` weights in a row, along the input channels, the `keep` largest stay */
    VC_PATTERN_BLOCK = 2,  /* whole blocks of block_rows x block_cols, by their sums of squares */
    VC_PATTERN_GIVEN = 3,  /* what `mask` says; only tensors with a mask are pruned */
    VC_PATTERN_PAIRS =
        4 /* nothing but the masks of joined pairs (vc_open_options.pairs), which every pattern applies */
};

/* A sparsity of their own for the tensors whose names match; the last rule that matches decides. */
struct vc_sparsity_rule {
    const char *glob;
    const char *sparsity;
};

struct vc_prune_options {
    size_t struct_size;   /* set by vc_prune_defaults */
    const char *sparsity; /* share of the weights that becomes zero, a decimal from 0 to 1 with at most 9 digits behind
                             the point: "0.5". Zeros that are there count. NULL: only tensors with a rule are pruned.
                             Not for N of M, which says it already */
    enum vc_prune_scope scope;
    enum vc_prune_pattern pattern;
    unsigned keep, group;            /* VC_PATTERN_N_OF_M: 2 and 4 */
    unsigned block_rows, block_cols; /* VC_PATTERN_BLOCK */
    const char *min_keep; /* VC_PRUNE_GLOBAL: of each tensor at least this share stays, a decimal; default "0.01" */
    const struct vc_sparsity_rule *sets;
    size_t n_sets;
    const struct vc_rule *rules;
    size_t n_rules;
    uint64_t min_elems;          /* tensors with fewer elements are kept */
    enum vc_nonfinite nonfinite; /* error or keep */
    bool dequantize;             /* quantized weights become floats first; else they are refused */
    const struct vc_model *mask; /* VC_PATTERN_GIVEN: a file with masks (docs/formats.md), which outlives the job */
    /* The masks of all tensors that were pruned go to a file of that name, in the format of its extension, as the last
     * of the report's outputs. It replaces an older one as the outputs do. NULL: nowhere. */
    const char *mask_path;
    enum vc_prune_score score;
};

VC_API void vc_prune_defaults_sized(struct vc_prune_options *options, size_t struct_size);

/* By tensor, any weight, NaN and Inf refused, everything else off. (The command line's --sparsity means VC_SCORE_LAMP
 * with VC_PRUNE_GLOBAL, which loses least, where nothing else is said.) */
static inline void vc_prune_defaults(struct vc_prune_options *options)
{
    vc_prune_defaults_sized(options, sizeof *options);
}

VC_API enum vc_status vc_job_add_prune(struct vc_ctx *ctx, struct vc_job *job, const struct vc_prune_options *options);

#ifdef __cplusplus
}
#endif
#endif
