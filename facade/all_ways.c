/* all_ways.c - see all_ways.h. */
#include "facade/all_ways.h"

#include "prune/prune_ways.h"
#include "quantize/quantize_ways.h"

enum vc_status vc_ways_list(struct vc_ctx *ctx, struct vc_arena *arena, struct vc_way_list *list)
{
    enum vc_status status = vc_prune_ways(ctx, arena, list);

    return status == VC_OK ? vc_quantize_ways(ctx, arena, list) : status;
}

enum vc_status vc_way_of_codes(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_desc *desc,
                               struct vc_way *way)
{
    return vc_quantize_way_of(ctx, arena, desc, way);
}
