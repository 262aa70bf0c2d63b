/* prune_pass.h - the pass itself, between its files: prune.c (which tensors, the plan), prune_options.c (checks and
 * words), prune_decide.c (thresholds), prune_report.c (figures). What the steps see is in prune_steps.h. */
#pragma once

#include "prune/prune_steps.h"

/* The pattern says which weights go: no share is given. */
static inline bool vc_prune_says_itself(const struct vc_prune_options *options)
{
    return options->pattern == VC_PATTERN_N_OF_M || options->pattern == VC_PATTERN_GIVEN ||
           options->pattern == VC_PATTERN_PAIRS;
}

#define VC_PRUNE_RECIPE 9

struct vc_prune {
    struct vc_pass pass;
    struct vc_arena arena;
    struct vc_prune_options options;
    /* For the masks of joined pairs: by themselves, and where the weights that they leave are pruned further. */
    struct vc_prune_options pair_alone, pair_first;
    struct vc_fraction sparsity; /* if options.sparsity is set */
    struct vc_fraction min_keep;
    struct vc_prune_set *sets;
    struct vc_recipe_entry recipe[VC_PRUNE_RECIPE];
    struct vc_part_file mask_file; /* if options.mask_path is set */

    /* Of this plan. */
    const char *measured; /* the note of vc_calibration_check */
    size_t n_scored;      /* tensors with the statistics that their scores need */
    size_t n_unscored;    /* ... and without second moments */
    uint64_t k;           /* keys that go together, as far as they are not found yet */
    size_t n_shared;      /* the tensors with a common threshold, in the order of their names: items */
    size_t *shared;
    struct vc_report_pruning figures;
};

/* prune_options.c: refuses options that say nothing or too much, and parses shares; copies what they point to; makes
 * the recipe and the command. In this order. */
enum vc_status vc_prune_check(struct vc_ctx *ctx, struct vc_prune *p);
enum vc_status vc_prune_copy(struct vc_ctx *ctx, struct vc_prune *p);
enum vc_status vc_prune_describe(struct vc_ctx *ctx, struct vc_prune *p);

/* prune_decide.c: sets up the common threshold after all tensors are planned; a vc_pass_ops.decide. */
enum vc_key_type vc_prune_key_type(const struct vc_desc *desc);
enum vc_status vc_prune_share(struct vc_ctx *ctx, struct vc_prune *p, const struct vc_plan *plan);
enum vc_status vc_prune_decide(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_plan *plan, size_t round);

/* prune_report.c: a vc_pass_ops.report. */
enum vc_status vc_prune_report(struct vc_ctx *ctx, struct vc_pass *pass, const struct vc_plan *plan, bool measured,
                               struct vc_report *report);
