/* all_ways.h - the ways to make a tensor smaller, of all passes: for those who try them without knowing the passes. */
#ifndef VC_FACADE_ALL_WAYS_H
#define VC_FACADE_ALL_WAYS_H

#include "core/chain/ways.h"

/* Appends the patterns of prune, then the schemes of quantize. What the ways point to lives in the arena. */
enum vc_status vc_ways_list(struct vc_ctx *ctx, struct vc_arena *arena, struct vc_way_list *list);

/* The way to codes like those of a quantized tensor: the same scheme, with scales of the same elements. *way lives in
 * the arena. VC_E_UNSUPPORTED: no scheme makes such codes. */
enum vc_status vc_way_of_codes(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_desc *desc,
                               struct vc_way *way);

#endif
