/* job.c - a job: passes planned over the headers of a model, the output laid out, then run by the executor. */
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "core/base/checked.h"
#include "core/base/cpu.h"
#include "core/job/job_state.h"

enum vc_status vc_job_create(struct vc_ctx *ctx, const struct vc_model *model, struct vc_job **out)
{
    struct vc_job *job;

    vc_clear_error(ctx);
    job = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *job);
    *out = job;
    if (job == NULL) {
        return VC_E_NOMEM;
    }
    job->ctx = ctx;
    job->model = model;
    return VC_OK;
}

static void drop_items(struct vc_ctx *ctx, struct vc_job *job)
{
    size_t i;

    for (i = 0; job->items != NULL && i < job->model->n_tensors; i++) {
        vc_item_drop_stages(ctx, &job->items[i], 0);
    }
    vc_free(ctx, job->items);
    job->items = NULL;
}

void vc_job_free(struct vc_job *job)
{
    struct vc_ctx *ctx;
    size_t i;

    if (job == NULL) {
        return;
    }
    ctx = job->ctx;
    if (job->sink != NULL) {
        job->sink->ops->free(ctx, job->sink);
    }
    drop_items(ctx, job);
    for (i = 0; i < job->n_passes; i++) {
        job->passes[i]->ops->free(ctx, job->passes[i]);
    }
    vc_free(ctx, job->results);
    vc_free(ctx, job->out_tensors);
    vc_free(ctx, job->first_out);
    vc_free(ctx, job->recipe);
    vc_free(ctx, job->rows);
    vc_free(ctx, job->row_item);
    vc_arena_release(ctx, &job->arena);
    vc_free(ctx, job);
}

enum vc_status vc_job_add_pass(struct vc_ctx *ctx, struct vc_job *job, struct vc_pass *pass)
{
    if (job->n_passes == VC_MAX_PASSES) {
        pass->ops->free(ctx, pass);
        return vc_fail(ctx, VC_E_ARGUMENT, "more than %d passes in one job", VC_MAX_PASSES);
    }
    job->passes[job->n_passes++] = pass;
    return VC_OK;
}

enum vc_status vc_job_drop(struct vc_ctx *ctx, struct vc_job *job, enum vc_role role)
{
    vc_clear_error(ctx);
    if (role != VC_ROLE_OPTIMIZER && role != VC_ROLE_OTHER) {
        return vc_fail(ctx, VC_E_ARGUMENT, "weights cannot be dropped");
    }
    job->drop[role] = true;
    return VC_OK;
}

const struct vc_report *vc_job_report(const struct vc_job *job)
{
    return &job->report;
}

/* ---- planning: what happens to every tensor ---- */

/* With --shard: what lies in other workers' files is left to them. */
static enum vc_status share_items(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_model *model = job->model;
    const struct vc_write_options *o = &job->options;
    size_t i;

    if (o->n_shards == 0) {
        return VC_OK;
    }
    for (i = 0; i < model->n_tensors; i++) {
        size_t owner = model->tensors[i].companion_of;

        if (owner != VC_NO_TENSOR && model->io[owner].shard != model->io[i].shard) {
            return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: lies in another file than %s, so --shard cannot divide them",
                           model->tensors[i].name, model->tensors[owner].name);
        }
        job->items[i].elsewhere = model->io[i].shard % o->n_shards != o->shard - 1;
        job->items[i].merged = job->items[i].elsewhere;
    }
    return VC_OK;
}

const struct vc_item *vc_job_root(const struct vc_job *job, size_t index)
{
    return &job->items[job->items[index].tied ? job->items[index].alias_of : index];
}

const char *vc_job_role_reason(enum vc_role role)
{
    return role == VC_ROLE_OPTIMIZER ? "optimizer state" : "beside the weights";
}

static void make_item(struct vc_job *job, size_t i)
{
    const struct vc_model *model = job->model;
    const struct vc_tensor *t = &model->tensors[i];
    enum vc_role role = t->companion_of != VC_NO_TENSOR ? model->tensors[t->companion_of].role : t->role;

    job->items[i] = (struct vc_item){
        .model = model,
        .arena = &job->arena,
        .source = i,
        .dialect = job->sink->dialect,
        .desc = {.dtype = t->dtype, .n_dims = t->n_dims, .shape = t->shape, .n_elems = t->n_elems, .quant = t->quant},
        .reason = job->n_passes == 0 ? "copied bit for bit" : "",
        .dropped = job->drop[role],
        .alias_of = t->alias_of};
    job->items[i].tied =
        job->sink->aliases && !job->items[i].dropped && t->alias_of != VC_NO_TENSOR && !job->items[t->alias_of].dropped;
}

/* Passes work on weights that are there for themselves, other workers' included: the sink is told about those. */
static enum vc_status plan_item(struct vc_ctx *ctx, struct vc_job *job, struct vc_pass *pass, size_t i)
{
    const struct vc_tensor *t = &job->model->tensors[i];
    struct vc_item *item = &job->items[i];

    if (t->companion_of != VC_NO_TENSOR || item->dropped || item->tied) {
        return VC_OK;
    }
    if (t->role != VC_ROLE_WEIGHT) {
        return vc_item_keep(ctx, item, "%s", t->kept_as != NULL ? t->kept_as : vc_job_role_reason(t->role));
    }
    return pass->ops->plan(ctx, pass, item) == VC_OK ? VC_OK : vc_context(ctx, "%s", t->name);
}

static enum vc_status plan_items(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_model *model = job->model;
    enum vc_status status = VC_OK;
    size_t i;
    size_t p;

    job->items = vc_calloc_array(ctx, VC_TAG_MISC, model->n_tensors, sizeof *job->items);
    VC_TRY_ALLOC(job->items);
    for (i = 0; i < model->n_tensors; i++) {
        make_item(job, i);
    }
    VC_TRY(share_items(ctx, job));
    for (p = 0; p < job->n_passes; p++) {
        struct vc_pass *pass = job->passes[p];

        if (pass->ops->plan_begin != NULL) {
            VC_TRY(pass->ops->plan_begin(ctx, pass, job->sink->dialect));
        }
        for (i = 0; i < model->n_tensors; i++) {
            VC_TRY(plan_item(ctx, job, pass, i));
        }
        if (pass->ops->plan_end != NULL) {
            VC_TRY(pass->ops->plan_end(ctx, pass, model));
        }
    }
out:
    return status;
}

/* What cannot be read would be lost without a word. */
static enum vc_status check_refused(struct vc_ctx *ctx, const struct vc_job *job)
{
    size_t i;

    for (i = 0; i < job->model->n_refused; i++) {
        const struct vc_refused *refused = &job->model->refused[i];

        if (!job->drop[refused->role]) {
            return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: %s", refused->name, refused->why);
        }
    }
    return VC_OK;
}

/* Scales and zero points share the fate of their tensor, and second names that of the first. What only the bytes of the
 * source's format need beside it (a shape, say) is left behind by an output of another format. */
static bool is_part(const struct vc_quant *quant, size_t tensor)
{
    unsigned i = 0;

    while (i < quant->n_parts && quant->parts[i].tensor != tensor) {
        i++;
    }
    return i < quant->n_parts;
}

static void plan_companions(struct vc_job *job)
{
    size_t i;

    for (i = 0; i < job->model->n_tensors; i++) {
        size_t owner = job->model->tensors[i].companion_of;
        const struct vc_quant *quant = owner != VC_NO_TENSOR ? job->model->tensors[owner].quant : NULL;
        bool needed = job->sink->accepts_raw || quant == NULL || is_part(quant, i);
        const struct vc_item *root = vc_job_root(job, i);

        if (owner != VC_NO_TENSOR) {
            job->items[i].merged = vc_job_root(job, owner)->n_stages != 0 || !needed || job->items[i].elsewhere;
        } else if (root != &job->items[i] && root->n_stages != 0) {
            job->items[i].desc = root->desc;
        }
    }
    for (i = 0; i < job->model->n_tensors; i++) { /* the first name of a scale may go where the second one stays */
        job->items[i].tied = job->items[i].tied && !job->items[job->items[i].alias_of].merged;
    }
}

static enum vc_status survey(struct vc_ctx *ctx, struct vc_job *job)
{
    struct vc_exec exec = {.items = job->items, .n_items = job->model->n_tensors, .survey = true, .what = "survey"};
    size_t i;

    for (i = 0; i < exec.n_items; i++) {
        if (vc_item_survey_stage(&job->items[i]) < job->items[i].n_stages) {
            return vc_exec_run(ctx, &exec);
        }
    }
    return VC_OK;
}

/* ---- planning: the output ---- */

static enum vc_status add_companion_outs(struct vc_ctx *ctx, struct vc_job *job, const struct vc_item *item, size_t *n)
{
    const struct vc_item *root = vc_job_root(job, item->source);
    const struct vc_stage *last = root->stages[root->n_stages - 1];
    const struct vc_tensor *tensor = &job->model->tensors[item->source];
    size_t k;

    for (k = 0; k < last->n_companions; k++) {
        const struct vc_companion *c = &last->companions[k];
        char *name = vc_arena_printf(ctx, &job->arena, "%s%s", tensor->name, c->suffix);
        size_t clash;

        if (name == NULL) {
            return VC_E_NOMEM;
        }
        clash = vc_model_find(job->model, name);
        if (clash != VC_NO_TENSOR && !job->items[clash].merged && !job->items[clash].dropped) {
            return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: its %s would be named %s, which the file has already",
                           tensor->name, c->suffix + 1, name);
        }
        job->out_tensors[(*n)++] = (struct vc_out_tensor){.name = name,
                                                          .dtype = c->dtype,
                                                          .n_dims = c->n_dims,
                                                          .shape = c->shape,
                                                          .size_bytes = vc_dtype_bytes(c->dtype, c->n_elems),
                                                          .form = VC_FORM_VALUES,
                                                          .source = item->source,
                                                          .item = item->source,
                                                          .role = c->role,
                                                          .alias = item->tied,
                                                          .alias_of = job->first_out[root->source] + 1 + k,
                                                          .source_dtype = c->dtype};
    }
    return VC_OK;
}

/* The quantization an output has: of the stage that made it, or of the kept source tensor. */
static struct vc_quant out_quant(const struct vc_job *job, const struct vc_item *item)
{
    size_t main_out = job->first_out[item->source];
    const struct vc_item *root = vc_job_root(job, item->source);
    struct vc_quant quant = {.scheme = VC_SCHEME_NONE};
    unsigned i;

    if (root->n_stages != 0) {
        const struct vc_stage *last = root->stages[root->n_stages - 1];

        quant = last->quant;
        for (i = 0; i < quant.n_parts; i++) {
            quant.parts[i].tensor += main_out + 1;
        }
    } else if (item->desc.quant != NULL) {
        quant = *item->desc.quant;
        for (i = 0; i < quant.n_parts; i++) {
            quant.parts[i].tensor = job->first_out[quant.parts[i].tensor];
        }
    }
    return quant;
}

/* root: the item, or the one that it is a second name of. */
static struct vc_out_tensor main_out(const struct vc_job *job, const struct vc_item *item, const struct vc_item *root)
{
    const struct vc_tensor *t = &job->model->tensors[item->source];
    bool raw = root->n_stages == 0 && job->sink->accepts_raw;

    return (struct vc_out_tensor){.name = t->name,
                                  .dtype = item->desc.dtype,
                                  .n_dims = item->desc.n_dims,
                                  .shape = item->desc.shape,
                                  .size_bytes = raw ? job->model->io[item->source].raw_bytes
                                                : root->n_stages == 0
                                                    ? t->size_bytes
                                                    : vc_dtype_bytes(item->desc.dtype, item->desc.n_elems),
                                  .form = raw ? VC_FORM_RAW : VC_FORM_VALUES,
                                  .kept = root->n_stages == 0,
                                  .source = item->source,
                                  .item = item->source,
                                  .alias = item->tied,
                                  .alias_of = job->first_out[root->source],
                                  .source_dtype = t->quant != NULL ? t->quant->source_dtype : t->dtype};
}

/* What other workers write: `to` has room for all of it. */
static void list_elsewhere(struct vc_job *job, struct vc_out_tensor *to)
{
    size_t i;

    job->outs.elsewhere = to;
    for (i = 0; i < job->model->n_tensors; i++) {
        const struct vc_item *item = &job->items[i];
        const struct vc_quant *kept = item->desc.quant;

        if (!item->elsewhere || item->dropped || job->model->tensors[i].companion_of != VC_NO_TENSOR) {
            continue;
        }
        *to = main_out(job, item, item);
        to->quant.scheme = VC_SCHEME_NONE;
        if (item->n_stages != 0) {
            to->quant = item->stages[item->n_stages - 1]->quant;
        } else if (kept != NULL) {
            to->quant = *kept;
        }
        job->outs.elsewhere_unsure = job->outs.elsewhere_unsure || vc_item_survey_stage(item) < item->n_stages;
        job->outs.n_elsewhere++;
        to++;
    }
}

/* Outputs there can be at most: every tensor with what its last stage adds. */
static size_t room_for_outs(const struct vc_job *job)
{
    size_t n = job->model->n_tensors;
    size_t i;

    for (i = 0; i < job->model->n_tensors; i++) {
        const struct vc_item *root = vc_job_root(job, i);

        n += root->n_stages == 0 ? 0 : root->stages[root->n_stages - 1]->n_companions;
    }
    return n;
}

static enum vc_status list_outs(struct vc_ctx *ctx, struct vc_job *job)
{
    size_t n_tensors = job->model->n_tensors;
    enum vc_status status = VC_OK;
    size_t n = 0;
    size_t i;

    job->first_out = vc_calloc_array(ctx, VC_TAG_MISC, n_tensors, sizeof *job->first_out);
    VC_TRY_ALLOC(job->first_out);
    job->out_tensors = vc_calloc_array(ctx, VC_TAG_MISC, room_for_outs(job), sizeof *job->out_tensors);
    VC_TRY_ALLOC(job->out_tensors);
    for (i = 0; i < n_tensors; i++) {
        const struct vc_item *item = &job->items[i];
        const struct vc_item *root = vc_job_root(job, i);

        if (item->merged || item->dropped) {
            continue;
        }
        job->first_out[i] = n;
        job->out_tensors[n++] = main_out(job, item, root);
        if (root->n_stages != 0) {
            VC_TRY(add_companion_outs(ctx, job, item, &n));
        }
    }
    for (i = 0; i < n_tensors; i++) {
        if (!job->items[i].merged && !job->items[i].dropped) {
            job->out_tensors[job->first_out[i]].quant = out_quant(job, &job->items[i]);
        }
    }
    job->outs.n = n;
    job->outs.tensors = job->out_tensors;
    job->outs.drop = job->drop;
    list_elsewhere(job, job->out_tensors + n);
out:
    return status;
}

/* Without a pass, what the source was made with. */
static enum vc_status join_recipes(struct vc_ctx *ctx, struct vc_job *job)
{
    size_t n = 0;
    size_t p;

    if (job->n_passes == 0) {
        job->outs.n_recipe = job->model->n_recipe;
        job->outs.recipe = job->model->recipe;
        return VC_OK;
    }
    for (p = 0; p < job->n_passes; p++) {
        n += job->passes[p]->n_recipe;
    }
    job->recipe = vc_alloc_array(ctx, VC_TAG_MISC, n, sizeof *job->recipe);
    if (job->recipe == NULL) {
        return VC_E_NOMEM;
    }
    n = 0;
    for (p = 0; p < job->n_passes; p++) {
        size_t k;

        for (k = 0; k < job->passes[p]->n_recipe; k++) {
            job->recipe[n++] = job->passes[p]->recipe[k];
        }
    }
    job->outs.n_recipe = n;
    job->outs.recipe = job->recipe;
    return VC_OK;
}

static struct vc_exec job_exec(struct vc_job *job)
{
    return (struct vc_exec){.items = job->items,
                            .n_items = job->model->n_tensors,
                            .results = job->results,
                            .sink = job->sink,
                            .first_out = job->first_out,
                            .outs = job->out_tensors,
                            .what = job->n_passes != 0 ? job->passes[0]->ops->name : "convert"};
}

static enum vc_status plan(struct vc_ctx *ctx, struct vc_job *job)
{
    enum vc_status status = VC_OK;
    unsigned n_workers = 1;
    uint64_t file_bytes = 0;
    struct vc_exec exec;

    VC_TRY(check_refused(ctx, job));
    VC_TRY(plan_items(ctx, job));
    plan_companions(job);
    VC_TRY(survey(ctx, job));
    plan_companions(job);
    VC_TRY(vc_job_check_held(ctx, job));
    VC_TRY(list_outs(ctx, job));
    VC_TRY(join_recipes(ctx, job));
    VC_TRY(job->sink->ops->layout(ctx, job->sink, &job->outs, &file_bytes));
    vc_job_output_sizes(job, file_bytes);
    job->results = vc_calloc_array(ctx, VC_TAG_MISC, job->model->n_tensors, sizeof *job->results);
    VC_TRY_ALLOC(job->results);
    VC_TRY(vc_job_report_plan(ctx, job));
    exec = job_exec(job);
    VC_TRY(vc_exec_workers(ctx, &exec, &n_workers));
    job->report.threads = n_workers;
out:
    return status;
}

enum vc_status vc_job_plan(struct vc_ctx *ctx, struct vc_job *job, const struct vc_write_options *options)
{
    enum vc_status status;

    vc_clear_error(ctx);
    if (job->items != NULL) {
        return vc_fail(ctx, VC_E_ARGUMENT, "the job is planned already");
    }
    if (!vc_cpu_denormals_ok()) {
        return vc_fail(ctx, VC_E_INTERNAL, "a library in this process has switched on flush-to-zero arithmetic");
    }
    job->options = *options;
    /* Refuses a bad name of an output; those sentences are not about the input. */
    if (vc_job_create_sink(ctx, job) != VC_OK) {
        return ctx->status;
    }
    status = plan(ctx, job);
    return status != VC_OK ? vc_context(ctx, "%s", job->model->path) : vc_job_check_size(ctx, job);
}

/* ---- running ---- */

static double seconds_now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A stage refused a value it saw in one tile: looks at the whole tensor, so that the message gives count and first
 * index whatever the threads did. Which stage it was is not known: the first whose survey fails has the sentence. */
static enum vc_status explain_refusal(struct vc_ctx *ctx, struct vc_job *job, size_t failed, enum vc_status status)
{
    struct vc_item *item = &job->items[failed];
    struct vc_exec exec = {.items = item, .n_items = 1, .survey = true, .what = "survey"};
    char message[VC_MESSAGE_BYTES];
    size_t k;

    if (status != VC_E_UNSUPPORTED) {
        return status;
    }
    memcpy(message, ctx->message, sizeof message);
    for (k = 0; k < item->n_stages; k++) {
        item->stages[k]->survey = false;
    }
    for (k = 0; k < item->n_stages; k++) {
        item->stages[k]->survey = true;
        if (item->stages[k]->pass->ops->survey != NULL && vc_exec_run(ctx, &exec) != VC_OK) {
            return ctx->status;
        }
        item->stages[k]->survey = false;
    }
    memcpy(ctx->message, message, sizeof message);
    ctx->status = status;
    return status;
}

static enum vc_status check_quality_gate(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_report_totals *totals = &job->report.totals;
    const struct vc_report_row *worst;

    if (!(job->options.min_sqnr_db > 0.0) || !totals->measured) {
        return VC_OK;
    }
    worst = &job->rows[totals->worst];
    if (worst->sqnr_db >= job->options.min_sqnr_db) {
        return VC_OK;
    }
    job->report.gate_missed =
        vc_arena_printf(ctx, &job->arena, "%s has an SQNR of %.2f dB, --min-sqnr asks for %.2f dB", worst->name,
                        worst->sqnr_db, job->options.min_sqnr_db);
    if (job->report.gate_missed == NULL) {
        job->report.gate_missed = "";
        return VC_E_NOMEM;
    }
    return vc_fail(ctx, VC_E_GATE, "%s", job->report.gate_missed);
}

static uint64_t peak_rss_bytes(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

static enum vc_status run(struct vc_ctx *ctx, struct vc_job *job)
{
    struct vc_exec exec = job_exec(job);
    enum vc_status status = VC_OK;
    uint64_t file_bytes = 0;

    VC_TRY(job->sink->ops->begin(ctx, job->sink));
    status = vc_exec_run(ctx, &exec);
    job->report.threads = exec.threads_used != 0 ? exec.threads_used : job->report.threads;
    if (status != VC_OK) {
        if (exec.failed_item != VC_NO_TENSOR) {
            status = explain_refusal(ctx, job, exec.failed_item, status);
        }
        goto out;
    }
    VC_TRY(vc_job_report_results(ctx, job));
    VC_TRY(check_quality_gate(ctx, job));
    VC_TRY(job->sink->ops->finish(ctx, job->sink, &file_bytes));
    vc_job_output_sizes(job, file_bytes);
    VC_TRY(vc_job_check_size(ctx, job));
    VC_TRY(vc_check_cancelled(ctx));
    VC_TRY(job->sink->ops->commit(ctx, job->sink));
    vc_job_written(job);
out:
    return status;
}

enum vc_status vc_job_run(struct vc_ctx *ctx, struct vc_job *job)
{
    double start = seconds_now();
    enum vc_status status;

    vc_clear_error(ctx);
    if (job->results == NULL || job->report.written || job->options.dry_run || job->report.gate_missed[0] != '\0') {
        return vc_fail(ctx, VC_E_ARGUMENT, "the job is not planned, a dry run, missed a gate, or was run already");
    }
    status = run(ctx, job);
    if (job->sink != NULL) {
        job->sink->ops->free(ctx, job->sink); /* removes what was not committed */
        job->sink = NULL;
    }
    job->report.seconds = seconds_now() - start;
    job->report.device = ctx->shared->device_name[0] != '\0' ? ctx->shared->device_name : "cpu";
    job->report.peak_pool_bytes = vc_pool_peak(ctx->shared->pool);
    job->report.peak_rss_bytes = peak_rss_bytes();
    if (status != VC_OK && status != VC_E_GATE) {
        (void)vc_context(ctx, "%s", job->model->path);
    }
    return status;
}
