/* slim.c - see slim.h. */
#include "search/recipes/slim.h"

#include "core/job/job_state.h"

enum vc_status vc_slim_graph(struct vc_ctx *ctx, const struct vc_job *job, const struct vc_graph *sized,
                             struct vc_planned_model *planned)
{
    const char *name;
    int64_t size;

    *planned = (struct vc_planned_model){.ctx = ctx};
    VC_CALL(vc_planned_shapes(ctx, &job->plan, planned));
    VC_CALL(vc_planned_graph(ctx, &job->plan, planned));
    for (uint32_t k = 0; (name = vc_graph_symbol(sized, k, &size)) != NULL; k++) {
        if (size > 0) {
            VC_CALL(vc_graph_bind(ctx, planned->graph, name, size));
        }
    }
    return VC_OK;
}
