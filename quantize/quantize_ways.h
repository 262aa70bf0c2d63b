/* quantize_ways.h - the schemes as ways that others try. */
#ifndef VC_QUANTIZE_WAYS_H
#define VC_QUANTIZE_WAYS_H

#include "core/chain/ways.h"

/* Every scheme that there is, with each granularity that aims try. What the ways point to lives in the arena. */
enum vc_status vc_quantize_ways(struct vc_ctx *ctx, struct vc_arena *arena, struct vc_way_list *list);

/* See vc_way_of_codes in facade/all_ways.h. */
enum vc_status vc_quantize_way_of(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_desc *desc,
                                  struct vc_way *way);

#endif
