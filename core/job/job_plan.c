/* job_plan.c - decides what happens to every tensor: makes an item for each, lets the passes plan one after the other,
 * each with its calibration, and settles what follows for parts and second names. Output tensors and files come
 * after this (job_outs.c, job_outputs.c). Nothing but calibration reads weights. */
#include "core/chain/compare.h"
#include "core/job/job_state.h"
#include "core/run/null_sink.h"

/* Why a tensor of that role is not worked on. */
static const char *role_reason(enum vc_role role)
{
    return role == VC_ROLE_OPTIMIZER ? "optimizer state" : "beside the weights";
}

/* ---- items ---- */

/* What the tensor has in common with others: with those of its model in a pipeline. */
static struct vc_item_set *set_of(const struct vc_job *job, size_t tensor)
{
    const struct vc_component *component = vc_model_component(job->model, tensor);

    return &job->plan.sets[component != NULL ? component - job->model->components : 0];
}

static enum vc_status make_item(struct vc_ctx *ctx, struct vc_job *job, size_t i)
{
    const struct vc_model *model = job->model;
    const struct vc_tensor *t = &model->tensors[i];
    enum vc_role role = t->part_of != VC_NO_TENSOR ? model->tensors[t->part_of].role : t->role;
    struct vc_item *item = &job->plan.items[i];
    const struct vc_sink *sink = vc_sink_of_tensor(job->sink, i);

    if (vc_item_make(ctx, set_of(job, i), i, item) != VC_OK) {
        return VC_E_NOMEM;
    }
    item->dropped = job->drop[role];
    item->reason = item->dropped ? role_reason(role) : job->n_passes == 0 ? "copied bit for bit" : "";
    item->tied =
        sink->aliases && !item->dropped && t->alias_of != VC_NO_TENSOR && !job->plan.items[t->alias_of].dropped;
    return VC_OK;
}

/* Where several processes share a checkpoint (options.n_shards), this one works on the tensors that lie in its own
 * files. The items of the others are planned and not written. */
static enum vc_status share_items(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_model *model = job->model;
    const struct vc_write_options *o = &job->options;

    for (size_t i = 0; model->absent != NULL && i < model->n_shards; i++) {
        if (model->absent[i] != NULL && (o->n_shards == 0 || i % o->n_shards == o->shard - 1)) {
            return vc_model_need_all(ctx, model, "this worker needs all files of its own");
        }
    }
    if (o->n_shards == 0) {
        return VC_OK;
    }
    for (size_t i = 0; i < model->n_tensors; i++) {
        size_t owner = model->tensors[i].part_of;

        VC_REFUSE_IF(owner != VC_NO_TENSOR && model->io[owner].shard != model->io[i].shard, ctx, VC_E_UNSUPPORTED,
                     "%s: lies in another file than %s, so %s cannot divide them", model->tensors[i].name,
                     model->tensors[owner].name, vc_option(ctx, "shard"));
        job->plan.items[i].in_other_shard = model->io[i].shard % o->n_shards != o->shard - 1;
        job->plan.items[i].merged = job->plan.items[i].in_other_shard;
        job->plan.items[i].absent = model->absent != NULL && model->absent[model->io[i].shard] != NULL;
    }
    return VC_OK;
}

static bool is_part(const struct vc_quant *quant, size_t tensor)
{
    unsigned i = 0;

    while (i < quant->n_parts && quant->parts[i].tensor != tensor) {
        i++;
    }
    return i < quant->n_parts;
}

/* Whether codes stay as they are in the file. */
static bool keeps_codes(const struct vc_job *job)
{
    for (size_t i = 0; i < job->model->n_tensors; i++) {
        const struct vc_tensor *t = &job->model->tensors[i];

        if ((t->quant != NULL || (t->undecoded != NULL && t->part_of == VC_NO_TENSOR)) &&
            vc_job_root(job, i)->chain->n_steps == 0) {
            return true;
        }
    }
    return false;
}

/* What follows from the steps planned so far; called again whenever these may have changed.
 * - The source's parts of a quantized tensor are not written (merged) where steps make new ones of them. Nor are
 * tensors beside it that are no parts (its shape, say) where the output has another format: only the source's needs
 * them. A mark of all codes stays as long as some of them do.
 * - Second names look like the first one's result. */
void vc_job_settle_parts(struct vc_job *job)
{
    struct vc_item *items = job->plan.items;

    for (size_t i = 0; i < job->model->n_tensors; i++) {
        size_t owner = job->model->tensors[i].part_of;
        const struct vc_quant *quant = owner != VC_NO_TENSOR ? job->model->tensors[owner].quant : NULL;
        bool needed = quant == NULL || is_part(quant, i) || vc_sink_of_tensor(job->sink, i)->accepts_raw;
        const struct vc_item *root = vc_job_root(job, i);

        if (owner != VC_NO_TENSOR) {
            bool made =
                job->model->tensors[i].of_all_codes ? !keeps_codes(job) : vc_job_root(job, owner)->chain->n_steps != 0;

            items[i].merged = made || !needed || items[i].in_other_shard;
        } else if (root != &items[i]) { /* the descriptor of the source where a pass removed its steps again */
            items[i].desc = root->chain->n_steps != 0 ? root->desc : items[i].first;
        }
    }
    /* A tied scale whose first name is merged is written under its second name. */
    for (size_t i = 0; i < job->model->n_tensors; i++) {
        items[i].tied = items[i].tied && !vc_job_root(job, i)->merged;
    }
}

/* ---- calibration ---- */

static bool wants_calibration(const struct vc_plan *plan)
{
    for (size_t i = 0; i < plan->n_items; i++) {
        if (vc_item_calibrates(&plan->items[i])) {
            return true;
        }
    }
    return false;
}

/* The pass is calibrated. Items of other processes keep `calibrate`: what the data would decide is not known here,
 * and the outputs are told so (other_shards_unsure). */
static void clear_calibration(struct vc_item *item)
{
    for (size_t k = 0; !vc_item_is_idle(item) && k < item->chain->n_steps; k++) {
        item->chain->steps[k]->calibrate = false;
    }
}

/* As many rounds as the pass asks for: every step with `calibrate` set sees its input, then the pass decides. */
static enum vc_status calibrate(struct vc_ctx *ctx, struct vc_job *job, struct vc_pass *pass)
{
    struct vc_plan *plan = &job->plan;

    for (size_t round = 0; !job->sizes_only && wants_calibration(plan); round++) {
        struct vc_exec exec = {.items = plan->items, .n_items = plan->n_items, .calibrate = true, .what = "survey"};

        VC_REFUSE_IF(pass->ops->decide == NULL, ctx, VC_E_INTERNAL, "%s: calibrates, but does not decide",
                     pass->ops->name);
        VC_CALL(vc_exec_run(ctx, &exec));
        VC_CALL(pass->ops->decide(ctx, pass, plan, round));
    }
    for (size_t i = 0; i < plan->n_items; i++) {
        clear_calibration(&plan->items[i]);
    }
    return VC_OK;
}

enum vc_status vc_job_explain(struct vc_ctx *ctx, struct vc_job *job, size_t failed, enum vc_status status)
{
    struct vc_item *item = &job->plan.items[failed];
    struct vc_exec exec = {.items = item, .n_items = 1, .calibrate = true, .what = "survey"};
    char message[VC_MESSAGE_BYTES];

    if (status != VC_E_UNSUPPORTED) {
        return status;
    }
    memcpy(message, ctx->message, sizeof message);
    for (size_t k = 0; k < item->chain->n_steps; k++) { /* which step refused is not known: each is asked, in order */
        struct vc_step *step = item->chain->steps[k];

        if (step->ops->calibrate == NULL || step->ops->explain == NULL) {
            continue;
        }
        step->calibrate = true;
        VC_CALL(vc_exec_run(ctx, &exec));
        step->calibrate = false;
        if (step->ops->explain(ctx, step, item) != VC_OK) {
            return vc_context(ctx, "%s", job->model->tensors[item->source].name);
        }
    }
    memcpy(ctx->message, message, sizeof message);
    ctx->status = status;
    return status;
}

/* ---- passes ---- */

/* Lets the pass plan one item. Second names and parts are left alone: vc_job_settle_parts makes them follow the first
 * name and their tensor. */
static enum vc_status plan_item(struct vc_ctx *ctx, struct vc_job *job, struct vc_pass *pass, size_t i)
{
    const struct vc_tensor *t = &job->model->tensors[i];
    struct vc_item *item = &job->plan.items[i];

    if (item->chain->n_steps != 0) {
        item->chain->pass_first = item->chain->n_steps;
    }
    if (t->part_of != VC_NO_TENSOR || item->dropped || item->tied) {
        return VC_OK;
    }
    if (vc_plan_item(&job->plan, i) == NULL) {
        return vc_item_keep_as(ctx, item, t->kept_as != NULL ? t->kept_as : role_reason(t->role));
    }
    return pass->ops->plan(ctx, pass, item) == VC_OK ? VC_OK : vc_context(ctx, "%s", t->name);
}

/* One pass over all items. Those that another process writes are planned, too: a folder's index and config.json
 * describe the whole checkpoint, so the sink is told what becomes of them. */
static enum vc_status plan_pass(struct vc_ctx *ctx, struct vc_job *job, size_t number)
{
    struct vc_pass *pass = job->passes[number];

    pass->said = NULL; /* that of an earlier plan is gone */
    for (size_t i = 0; i < job->plan.n_sets; i++) {
        job->plan.sets[i].pass = pass;
    }
    if (pass->ops->plan_begin != NULL) {
        VC_CALL(pass->ops->plan_begin(ctx, pass, &job->plan));
    }
    for (size_t i = 0; i < job->plan.n_items; i++) {
        VC_CALL(vc_check_cancelled(ctx));
        VC_CALL(plan_item(ctx, job, pass, i));
    }
    if (pass->ops->plan_end != NULL) {
        VC_CALL(pass->ops->plan_end(ctx, pass, &job->plan));
    }
    vc_job_settle_parts(job);
    VC_CALL(calibrate(ctx, job, pass));
    vc_job_add_stage(job, number);
    return vc_job_take_names(ctx, job);
}

/* ---- the error of a chain ---- */

/* Decides what tells the error of the item's chain: its one lossy step (total_step), a comparison of both ends where
 * there are several, or nothing where a step is lossy before a change of shape, since the source's elements and the
 * result's are not the same any more. */
static enum vc_status plan_total(struct vc_ctx *ctx, const struct vc_job *job, struct vc_item *item)
{
    size_t from = item->chain->n_steps;
    size_t n_lossy = 0;

    while (from > 0 && !item->chain->steps[from - 1]->regroups) {
        from--;
    }
    for (size_t k = 0; k < item->chain->n_steps; k++) {
        bool told =
            k >= from || !item->chain->steps[k]->lossy; /* `from`: the first step after the last change of shape */

        n_lossy += item->chain->steps[k]->lossy;
        item->chain->total_step = !told ? SIZE_MAX : item->chain->steps[k]->lossy ? k : item->chain->total_step;
        if (!told) {
            return VC_OK;
        }
    }
    if (n_lossy < 2) {
        return VC_OK;
    }
    item->chain->total_step = SIZE_MAX;
    return job->comparer->create(ctx, item, from, &item->chain->compare);
}

/* A part of an earlier step has the shape of before: the step that changes it has to make its own, or drop it. */
static enum vc_status check_parts(struct vc_ctx *ctx, const struct vc_item *item)
{
    for (size_t k = 0; k < item->chain->n_steps; k++) {
        const struct vc_step *step = item->chain->steps[k];

        for (size_t i = 0; step->regroups && i < step->out.n_parts; i++) {
            VC_REFUSE_IF(step->out.parts[i].maker != step, ctx, VC_E_UNSUPPORTED,
                         "%s: its %s does not fit the shape that %s gives it; change shapes first",
                         item->set->model->tensors[item->source].name, vc_part_role_name(step->out.parts[i].role),
                         step->pass->ops->name);
        }
    }
    return VC_OK;
}

/* Refuses a gate on errors, or on zeros, where those of a tensor cannot be told: it would pass whatever they are. */
static enum vc_status check_told(struct vc_ctx *ctx, const struct vc_job *job, const struct vc_item *item)
{
    bool errors = job->options.min_sqnr_db > 0.0;
    bool zeros = job->options.expect_sparsity > 0.0 && vc_item_has_action(item, VC_ACTION_PRUNED);
    bool lossy = false;

    for (size_t k = 0; k < item->chain->n_steps; k++) {
        lossy = lossy || item->chain->steps[k]->lossy;
    }
    if ((!errors && !zeros) || !lossy || item->chain->total_step != SIZE_MAX || item->chain->compare != NULL) {
        return VC_OK;
    }
    return vc_fail(ctx, VC_E_ARGUMENT,
                   "%s: a pass changes its values before another changes its shape, so its %s cannot be told, which "
                   "%s asks for",
                   job->model->tensors[item->source].name, errors ? "error" : "zeros",
                   vc_option(ctx, errors ? "min_sqnr_db" : "expect_sparsity"));
}

/* The sink says how quantized weights have to lie. */
static enum vc_status take_dialects(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_model *model = job->model;

    job->plan.dialect = job->sink->dialect;
    job->plan.layout = job->options.layout;
    for (size_t i = 0; i < job->plan.n_sets; i++) {
        size_t first = model->n_components != 0 ? model->components[i].first : 0;

        job->plan.sets[i].dialect =
            first < model->n_tensors ? vc_sink_of_tensor(job->sink, first)->dialect : job->sink->dialect;
    }
    return vc_job_list_targets(ctx, job);
}

/* What the items have in common: of a pipeline those of each model. */
static enum vc_status make_sets(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_model *model = job->model;
    size_t n = model->n_components != 0 ? model->n_components : 1;
    struct vc_item_set *sets = vc_arena_alloc(ctx, &job->arena, n * sizeof *sets);

    VC_CALL_ALLOC(sets);
    for (size_t i = 0; i < n; i++) {
        sets[i] = (struct vc_item_set){.model = model, .arena = &job->arena};
    }
    job->plan.sets = sets;
    job->plan.n_sets = n;
    VC_CALL(take_dialects(ctx, job));
    VC_CALL_ALLOC(job->stages = vc_arena_alloc(ctx, &job->arena, (n * job->n_passes + 1) * sizeof *job->stages));
    memset(job->stages, 0, (n * job->n_passes + 1) * sizeof *job->stages);
    return VC_OK;
}

/* ---- codes that do not reach the output ---- */

static bool takes(const struct vc_sink *sink, const char *codes)
{
    return codes == NULL || sink->dialect == NULL || vc_dialect_takes(sink->dialect, codes);
}

/* Makes the sink of codes that a later pass takes away, as a run of the passes up to that one would have it: in the
 * layout "auto", for the output or, where that has no place for the codes, in the input's own form. *sink stays NULL
 * where the job's own does: a layout that was asked for has a place for them, or there is no file. *options are those
 * that it is made with. */
static enum vc_status sink_between(struct vc_ctx *ctx, struct vc_job *job, struct vc_write_options *options,
                                   struct vc_sink **sink)
{
    *sink = NULL;
    if (vc_sink_is_null(job->sink) ||
        (options->layout != NULL && strcmp(options->layout, "auto") != 0 && takes(job->sink, options->codes))) {
        return VC_OK;
    }
    options->layout = NULL;
    for (;;) {
        struct vc_write_options dry = *options;
        dry.dry_run = true;
        VC_CALL(job->writers->create(ctx, job->model, &dry, sink));
        if (takes(*sink, options->codes) || options->path == NULL || job->model->format == NULL) {
            return VC_OK;
        }
        (*sink)->ops->free(ctx, *sink);
        options->path = NULL;
        options->format = NULL;
    }
}

/* Plans the passes from *next on up to one that takes all codes away, or all that are left, and sets *next behind
 * them. What is refused of the former is what has no place in a file of their own. */
static enum vc_status plan_passes(struct vc_ctx *ctx, struct vc_job *job, size_t *next)
{
    struct vc_write_options own_options = job->options;
    struct vc_write_options options = job->options;
    struct vc_sink *own = job->sink;
    struct vc_sink *sink = NULL;
    enum vc_status status = VC_OK;
    size_t end = *next;

    options.codes = NULL;
    options.decoded = *next != 0;
    while (end < job->n_passes && !job->passes[end]->decodes) {
        options.codes = job->passes[end]->codes != NULL ? job->passes[end]->codes : options.codes;
        end++;
    }
    if (*next < end && end < job->n_passes) {
        VC_CALL(sink_between(ctx, job, &options, &sink));
    }
    if (sink != NULL) {
        job->sink = sink;
        job->options = options;
        VC_TRY(take_dialects(ctx, job));
    }
    end += end < job->n_passes;
    for (; *next < end; ++*next) {
        VC_TRY(plan_pass(ctx, job, *next));
    }
out:
    if (sink != NULL) {
        job->sink = own;
        job->options = own_options;
        sink->ops->free(ctx, sink);
        status = status == VC_OK ? take_dialects(ctx, job) : status;
    }
    return status;
}

enum vc_status vc_job_plan_items(struct vc_ctx *ctx, struct vc_job *job)
{
    struct vc_plan *plan = &job->plan;

    *plan = (struct vc_plan){.model = job->model, .arena = &job->arena, .job = job, .dry_plan = job->dry_plan};
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, plan->items, job->model->n_tensors));
    plan->n_items = job->model->n_tensors;
    VC_CALL(make_sets(ctx, job));
    for (size_t i = 0; i < plan->n_items; i++) {
        VC_CALL(vc_check_cancelled(ctx));
        VC_CALL(make_item(ctx, job, i));
    }
    VC_CALL(share_items(ctx, job));
    for (size_t i = 0; i < job->n_passes;) {
        VC_CALL(plan_passes(ctx, job, &i));
    }
    for (size_t i = 0; i < plan->n_sets; i++) {
        plan->sets[i].pass = NULL;
    }
    vc_job_settle_parts(job);
    for (size_t i = 0; i < plan->n_items; i++) {
        VC_CALL(vc_check_cancelled(ctx));
        VC_CALL(check_parts(ctx, &plan->items[i]));
        VC_CALL(plan_total(ctx, job, &plan->items[i]));
        VC_CALL(check_told(ctx, job, &plan->items[i]));
    }
    return VC_OK;
}
