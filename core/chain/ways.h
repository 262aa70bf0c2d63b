/* ways.h - the ways to make a tensor smaller that passes have, for those who try them without a job of the pass: each
 * is one step, with the options that it would have from the pass's own defaults.
 *
 * quantize/ and prune/ have the ways; facade/all_ways.h lists them, so that measure/ needs to know neither. */
#ifndef VC_CORE_WAYS_H
#define VC_CORE_WAYS_H

#include "core/chain/pass.h"

#define VC_MAX_WAYS 32

struct vc_way {
    const char *name; /* what reports call it: "int8/group:128", "f16", "2:4" */
    bool makes_zeros; /* and no codes */
    const void *self; /* the pass's own */

    /* Why the way cannot be tried on the item, static; NULL: it can. */
    const char *(*reason)(const struct vc_way *way, const struct vc_item *item);

    /* Adds the one step to an item of plain floats; `weights`: the type of the weights as the model has them. Called
     * from several threads, for different items. NaN and Inf in the tensor are refused when a tile has them. */
    enum vc_status (*add)(struct vc_ctx *ctx, struct vc_item *item, const struct vc_way *way, enum vc_dtype weights);
};

/* Appended to, in the order in which they are reported. */
struct vc_way_list {
    size_t n;
    struct vc_way ways[VC_MAX_WAYS];
};

#endif
