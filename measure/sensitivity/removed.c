/* removed.c - see removed.h. */
#include "measure/sensitivity/removed.h"

#include <vcompress/structured.h>

#include "core/job/job_state.h"
#include "graph/planned_model.h"

/* The job that removes these units of the group and nothing else, planned. Nothing is written: the weights
 * are asked for tensor by tensor. Codes are decoded, since their shapes could not be cut otherwise. */
static enum vc_status plan_removal(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_coupling *group,
                                   const struct vc_structured_units *units, struct vc_job **job)
{
    struct vc_structured_options options;
    struct vc_write_options write;

    vc_structured_defaults(&options);
    options.units = 1u << group->unit;
    options.remove = units;
    options.n_remove = 1;
    options.dequantize = true;
    vc_write_defaults(&write);
    write.dry_run = true;
    write.force = true;
    write.rows_on_request = true;
    VC_CALL(vc_job_create(ctx, model, job));
    VC_CALL(vc_job_add_structured(ctx, *job, &options));
    return vc_job_plan(ctx, *job, &write);
}

/* A failure of these says that this model cannot be had without the units, which is a result and no failure
 * of the measurement. Others end it. */
static bool is_refusal(enum vc_status status)
{
    return status == VC_E_ARGUMENT || status == VC_E_UNSUPPORTED || status == VC_E_FORMAT || status == VC_E_NOMEM;
}

/* The sentence, without the name of the model, of which the whole report is. */
static const char *reason_of(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_model *model)
{
    const char *reason = vc_ctx_message(ctx);
    size_t n = strlen(model->path);

    reason += strncmp(reason, model->path, n) == 0 && strncmp(reason + n, ": ", 2) == 0 ? n + 2 : 0;
    return vc_arena_printf(ctx, arena, "%s", reason);
}

/* Lists the units that go, plans the job, makes weights and graph as the job would write them, and runs
 * that graph. Memory of the planned model is freed before the next run. */
enum vc_status vc_removed_run(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_output_runs *runs,
                              const struct vc_coupling *group, const bool *goes, struct vc_output_change *out)
{
    uint64_t *units = vc_alloc_array(ctx, VC_TAG_MISC, (size_t)group->n_units + 1, sizeof *units);
    struct vc_structured_units remove = {
        .tensor = group->members[0].tensor, .axis = group->members[0].axis, .units = units};
    struct vc_planned_model planned = {.ctx = ctx};
    struct vc_job *job = NULL;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(units);
    for (uint64_t u = 0; u < group->n_units; u++) {
        units[remove.n] = u;
        remove.n += goes[u];
    }
    VC_TRY(plan_removal(ctx, runs->model, group, &remove, &job));
    VC_TRY(vc_planned_weights(ctx, &job->plan, &planned));
    VC_TRY(vc_planned_graph(ctx, &job->plan, &planned));
    VC_TRY(vc_output_runs_other(ctx, runs, planned.graph, planned.weights, out));
out:
    vc_planned_free(&planned);
    vc_job_free(job);
    vc_free(ctx, units);
    if (is_refusal(status)) {
        out->reason = reason_of(ctx, arena, runs->model);
        vc_clear_error(ctx);
        status = out->reason == NULL ? VC_E_NOMEM : VC_OK;
    }
    return status;
}
