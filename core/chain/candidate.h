/* candidate.h - a candidate: one step that makes a tensor smaller (int8 with a scale per row, 2:4, ...), with the
 * options that it has from the defaults of its pass. measure/ tries candidates without a job of the pass.
 *
 * quantize/ and prune/ make candidates; facade/all_candidates.h lists them, so that measure/ includes neither. */
#pragma once

#include "core/chain/pass.h"

#define VC_MAX_CANDIDATES 32

struct vc_candidate {
    const char *name; /* what reports call it: "int8/group:128", "f16", "2:4" */
    bool makes_zeros; /* and no codes */
    bool slow;        /* its scales are searched */
    const void *self; /* the pass's own */

    /* Why the candidate cannot be tried on the item, static; NULL if it can. */
    const char *(*reason)(const struct vc_candidate *candidate, const struct vc_item *item);

    /* Adds the one step to an item of plain floats; `weights`: the type of the weights as the model has them. Called
     * from several threads, for different items. NaN and Inf in the tensor are refused when a tile has them. */
    enum vc_status (*add)(struct vc_ctx *ctx, struct vc_item *item, const struct vc_candidate *candidate,
                          enum vc_dtype weights);
};

/* Appended to, in the order in which they are reported. */
struct vc_candidate_list {
    size_t n;
    struct vc_candidate candidates[VC_MAX_CANDIDATES];
};
