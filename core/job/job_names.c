/* job_names.c - what follows when a pass leaves tensors out of the output or gives them new names: the passes behind
 * it, and everything that lists outputs, see the model under the new names (core/model/renamed_model.h). The report has
 * the names of the source in its rows. */
#include "core/job/job_state.h"
#include "core/model/renamed_model.h"

/* What lies beside a tensor that is left out goes with it. */
static void drop_parts(struct vc_job *job)
{
    for (size_t i = 0; i < job->plan.n_items; i++) {
        size_t owner = job->model->tensors[i].part_of;

        job->plan.gone[i] |= owner != VC_NO_TENSOR && job->plan.gone[owner];
    }
}

/* Second names of a tensor that goes are tensors of their own from now on. Steps that an earlier pass gave to the first
 * one would be lost for them. */
static enum vc_status untie(struct vc_ctx *ctx, struct vc_job *job)
{
    for (size_t i = 0; i < job->plan.n_items; i++) {
        const struct vc_item *item = &job->plan.items[i];
        const struct vc_item *root = vc_job_root(job, i);

        VC_REFUSE_IF(root != item && job->plan.gone[root->source] && !job->plan.gone[i] && root->chain->n_steps != 0,
                     ctx, VC_E_UNSUPPORTED,
                     "%s: is left out, and an earlier pass works on it for %s, which is the same tensor; leave "
                     "out layers first",
                     job->model->tensors[root->source].name, job->model->tensors[i].name);
    }
    return VC_OK;
}

/* Tensors that are left out stay in the list of the model, under names that no other tensor can have. */
static enum vc_status name_gone(struct vc_ctx *ctx, struct vc_job *job)
{
    for (size_t i = 0; i < job->plan.n_items; i++) {
        if (job->plan.gone[i] && job->plan.names[i] == NULL) {
            job->plan.names[i] = vc_arena_printf(ctx, job->plan.arena, "%s (left out)", job->model->tensors[i].name);
            VC_CALL_ALLOC(job->plan.names[i]);
        }
    }
    return VC_OK;
}

static void settle(struct vc_ctx *ctx, struct vc_job *job)
{
    for (size_t i = 0; i < job->plan.n_sets; i++) {
        job->plan.sets[i].model = job->renamed;
    }
    for (size_t i = 0; i < job->plan.n_items; i++) {
        struct vc_item *item = &job->plan.items[i];

        item->tied = item->tied && job->renamed->tensors[i].alias_of != VC_NO_TENSOR;
        if (job->plan.gone[i]) {
            vc_item_release(ctx, item);
            vc_item_replan(item);
            item->dropped = true;
            item->tied = false;
        }
    }
}

enum vc_status vc_job_take_names(struct vc_ctx *ctx, struct vc_job *job)
{
    if (!job->plan.renames) {
        return VC_OK;
    }
    job->plan.renames = false;
    VC_REFUSE_IF(job->model->n_components != 0, ctx, VC_E_UNSUPPORTED,
                 "a pipeline: its models keep their tensors and their names");
    drop_parts(job);
    VC_CALL(untie(ctx, job));
    VC_CALL(name_gone(ctx, job));
    VC_CALL(vc_renamed_model_make(ctx, job->model, job->plan.names, job->plan.gone, &job->renamed));
    settle(ctx, job);
    job->plan.model = job->renamed;
    return vc_job_list_targets(ctx, job);
}

/* ---- the report ---- */

enum vc_status vc_job_report_layers(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_edit *edit = vc_edit_find(job->plan.edits, job->plan.n_edits, VC_EDIT_LAYERS);
    struct vc_report_layers *layers;

    if (edit == NULL || edit->n_dropped == 0) {
        return VC_OK;
    }
    VC_CALL_ALLOC(layers = vc_arena_alloc(ctx, &job->arena, sizeof *layers));
    *layers = (struct vc_report_layers){edit->list != NULL ? edit->list : "", edit->before, edit->after,
                                        edit->n_dropped, edit->dropped};
    job->report.layers = layers;
    return VC_OK;
}
