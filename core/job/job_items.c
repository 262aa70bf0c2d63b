/* job_items.c - the items of a job by tensor and by row of the report, and the models that passes ask dialects about. */
#include "core/job/job_state.h"

const struct vc_item *vc_job_root(const struct vc_job *job, size_t index)
{
    const struct vc_item *items = job->plan.items;

    return &items[items[index].tied ? items[index].set->model->tensors[index].alias_of : index];
}

struct vc_item *vc_job_row_item(const struct vc_job *job, size_t row)
{
    return &job->plan.items[job->row_item != NULL ? job->row_item[row] : row];
}

/* What passes ask dialects about before they look at tensors: of a pipeline every model that has any. */
enum vc_status vc_job_list_targets(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_model *model = job->plan.model;
    struct vc_plan_target *targets = vc_arena_alloc(ctx, &job->arena, (model->n_components + 1) * sizeof *targets);

    VC_CALL_ALLOC(targets);
    job->plan.n_targets = 0;
    for (size_t i = 0; i < model->n_components; i++) {
        const struct vc_component *c = &model->components[i];

        if (c->model->n_tensors != 0) {
            targets[job->plan.n_targets++] =
                (struct vc_plan_target){c->model, vc_sink_of_tensor(job->sink, c->first)->dialect, c->name};
        }
    }
    if (model->n_components == 0) {
        targets[job->plan.n_targets++] = (struct vc_plan_target){model, job->sink->dialect, NULL};
    }
    job->plan.targets = targets;
    return VC_OK;
}
