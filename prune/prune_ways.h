/* prune_ways.h - patterns of zeros as ways that others try. */
#ifndef VC_PRUNE_WAYS_H
#define VC_PRUNE_WAYS_H

#include "core/chain/ways.h"

/* Patterns that need no figure of how much: 2:4. */
enum vc_status vc_prune_ways(struct vc_ctx *ctx, struct vc_arena *arena, struct vc_way_list *list);

#endif
