/* prune.h - pruning: sets the least important weights to zero. Definitions: docs/numerics.md.
 *
 * The output has the shapes and types of the input, so every loader reads the output. The job owns a pass from
 * vc_job_add_prune on. The options are copied with their strings; NULL means the defaults. The numbers of all enums are
 * stable. */
#ifndef VCOMPRESS_PRUNE_H
#define VCOMPRESS_PRUNE_H

#include <vcompress/quantize.h>

VC_BEGIN_C

/* The set of weights whose smallest become zero. */
enum vc_prune_scope {
    VC_PRUNE_TENSOR = 0, /* each tensor by itself: floor(sparsity * elements) zeros */
    VC_PRUNE_GLOBAL = 1  /* all tensors together: one threshold */
};

/* The score of a weight. */
enum vc_prune_score {
    VC_SCORE_MAGNITUDE = 0,
    /* Layer-adaptive (arXiv 2010.07611). With the weights of a tensor in ascending order: the square of the weight,
     * divided by the sum of the squares of this and all larger weights. Only with VC_PRUNE_GLOBAL and VC_PATTERN_NONE.
     */
    VC_SCORE_LAMP = 1,
    /* |w| * sqrt(E[x^2]), x the input of the weight's column (arXiv 2306.11695): needs `calibration`. floor(sparsity *
     * columns) weights of each row go, or N of M stay. Only with VC_PRUNE_TENSOR, and VC_PATTERN_NONE or _N_OF_M.
     * Tensors without statistics are kept. */
    VC_SCORE_WANDA = 2,
    /* w^2 / U_jj^2, U the upper factor of the inverse second moments of the inputs (SparseGPT, arXiv 2301.00774): needs
     * `calibration` with second moments, and holds a tensor in memory. The share of every 128 columns goes, over all
     * rows, or N of M stay, and the weights behind in the row make up for each that goes. As VC_SCORE_WANDA else; with
     * `reconstruct` only the mask is taken. */
    VC_SCORE_SPARSEGPT = 3
};

enum vc_prune_pattern {
    VC_PATTERN_NONE = 0,   /* any weight may become zero */
    VC_PATTERN_N_OF_M = 1, /* of every `group` consecutive weights along the input channels, the `keep` largest stay */
    VC_PATTERN_BLOCK = 2,  /* whole blocks of block_rows x block_cols, chosen by their sums of squares */
    VC_PATTERN_GIVEN = 3,  /* the masks in `mask`; only tensors with a mask are pruned */
    /* nothing but the masks of joined pairs (vc_open_options.pairs), which every pattern applies */
    VC_PATTERN_PAIRS = 4
};

/* A sparsity for tensors whose names match the glob, such as "*.fc2.weight" and "0.8". The last matching rule decides.
 */
struct vc_sparsity_rule {
    const char *glob;
    const char *sparsity;
};

struct vc_prune_options {
    size_t struct_size; /* set by vc_prune_defaults */
    /* Share of the weights that become zero, a decimal from 0 to 1 with at most 9 digits after the point: "0.5".
     * Existing zeros count. NULL: only tensors with a rule in `sets` are pruned. Not with VC_PATTERN_N_OF_M, where keep
     * / group decides. */
    const char *sparsity;
    enum vc_prune_scope scope;
    enum vc_prune_pattern pattern;
    unsigned keep, group;            /* VC_PATTERN_N_OF_M: 2 and 4 */
    unsigned block_rows, block_cols; /* VC_PATTERN_BLOCK */
    const char *min_keep; /* VC_PRUNE_GLOBAL: share of each tensor that always stays, a decimal; default "0.01" */
    const struct vc_sparsity_rule *sets;
    size_t n_sets;
    const struct vc_rule *rules;
    size_t n_rules;
    uint64_t min_elems;          /* smaller tensors are not pruned */
    enum vc_nonfinite nonfinite; /* error or keep */
    bool dequantize;             /* decode quantized weights to floats first; false: refuse them */
    const struct vc_model *mask; /* VC_PATTERN_GIVEN: a file with masks (docs/formats.md); must outlive the job */
    /* File for the masks of all pruned tensors, in the format of its extension; the last of the report's outputs.
     * `force` decides whether an existing file is replaced, as for the other outputs. NULL: no file. */
    const char *mask_path;
    enum vc_prune_score score;
    /* VC_SCORE_WANDA, VC_SCORE_SPARSEGPT and `reconstruct`: what the layers get to see, a file of vc_calibrate; must
     * outlive the job. */
    const struct vc_model *calibration;
    /* The weights of a row that stay change so that the answers of the row change least (least squares), whatever chose
     * them. Tensors without second moments in `calibration` are pruned only. */
    bool reconstruct;
    bool calibration_anyway; /* also statistics that were measured with weights of another training */
};

/* VC_PRUNE_TENSOR, VC_PATTERN_NONE, NaN and Inf refused, everything else off. (The command's --sparsity defaults to
 * VC_PRUNE_GLOBAL with VC_SCORE_LAMP, which loses least.) */
static inline void vc_prune_defaults(struct vc_prune_options *options)
{
    vc_options_defaults("vc_prune_options", options, sizeof *options);
}

VC_API enum vc_status vc_job_add_prune(struct vc_ctx *ctx, struct vc_job *job, const struct vc_prune_options *options);

VC_END_C
#endif
