/* slim.c - see slim.h. */
#include "search/recipes/slim.h"

#include "core/job/job_state.h"
#include "graph/sizes.h"

enum vc_status vc_slim_graph(struct vc_ctx *ctx, const struct vc_job *job, const struct vc_graph *sized,
                             struct vc_planned_model *planned)
{
    *planned = (struct vc_planned_model){.ctx = ctx};
    VC_CALL(vc_planned_shapes(ctx, &job->plan, planned));
    VC_CALL(vc_planned_graph(ctx, &job->plan, planned));
    return vc_graph_bind_as(ctx, planned->graph, sized);
}
