/* job_outs.c - the output tensors of a job: the main tensor of every item, then the parts that its steps make. */
#include "core/job/job_state.h"

/* What follows the weight's name in that of a part. */
static const char *suffix_of(enum vc_part_role role)
{
    static const char *const suffixes[VC_PART_ROLES] = {[VC_PART_CODES] = "",
                                                        [VC_PART_SCALE] = ".scale",
                                                        [VC_PART_ABSMAX] = ".scale",
                                                        [VC_PART_ZERO_POINT] = ".zero_point",
                                                        [VC_PART_GLOBAL_SCALE] = ".global_scale",
                                                        [VC_PART_CODEBOOK] = ".codebook",
                                                        [VC_PART_SCALE_SCALE] = ".scale_scale",
                                                        [VC_PART_SCALE_OFFSET] = ".scale_offset",
                                                        [VC_PART_ORDER] = ".order",
                                                        [VC_PART_MASK] = ".mask",
                                                        [VC_PART_OFFSET] = ".offset"};

    return suffixes[role];
}

/* The name of a part that a step makes. */
static enum vc_status name_part(struct vc_ctx *ctx, struct vc_job *job, const struct vc_item *item,
                                const struct vc_part_desc *part, const char **out)
{
    const struct vc_tensor *tensor = &job->plan.model->tensors[item->source];
    const char *suffix = suffix_of(part->role);
    const char *tail =
        item->set->dialect != NULL && item->set->dialect->parts_of_module ? strrchr(tensor->name, '.') : NULL;
    int n = (int)(tail != NULL ? (size_t)(tail - tensor->name) : strlen(tensor->name));
    const char *name = vc_arena_printf(ctx, &job->arena, "%.*s%s", n, tensor->name, suffix);

    *out = name;
    VC_CALL_ALLOC(name);
    size_t clash = vc_model_find(job->plan.model, name);
    VC_REFUSE_IF(
        !part->apart && clash != VC_NO_TENSOR && !job->plan.items[clash].merged && !job->plan.items[clash].dropped, ctx,
        VC_E_UNSUPPORTED, "%s: its %s would be named %s, which the file has already", tensor->name, suffix + 1, name);
    return VC_OK;
}

/* How the codes of an output become values: of the step that made them, or of the kept source tensor; NULL where they
 * are plain values. The parts become numbers of output tensors. */
static enum vc_status out_quant(struct vc_ctx *ctx, struct vc_job *job, const struct vc_item *item,
                                const struct vc_quant **out)
{
    const struct vc_item *root = vc_job_root(job, item->source);
    const struct vc_quant *source = root->chain->n_steps == 0 ? item->desc->quant : root->desc->quant;
    struct vc_quant *quant;

    *out = NULL;
    if (source == NULL) {
        return VC_OK;
    }
    VC_CALL_ALLOC(quant = vc_arena_alloc(ctx, &job->arena, sizeof *quant));
    *quant = *source;
    if (root->chain->n_steps == 0) {
        for (size_t k = 0; k < quant->n_parts; k++) {
            quant->parts[k].tensor = job->first_out[quant->parts[k].tensor];
        }
    } else {
        quant->n_parts = 0;
        for (size_t k = 0; k < root->desc->n_parts; k++) {
            if (root->desc->parts[k].role != VC_PART_MASK) {
                vc_quant_set(quant, root->desc->parts[k].role, job->first_out[item->source] + 1 + k);
            }
        }
    }
    *out = quant;
    return VC_OK;
}

/* The outputs of an item that its steps make: one for each of its parts. */
static size_t made_parts(const struct vc_item *root)
{
    return root->chain->n_steps == 0 ? 0 : root->desc->n_parts;
}

/* What of the outputs of an item has to be kept. All items have their numbers by now. */
static enum vc_status describe_outs(struct vc_ctx *ctx, struct vc_job *job, struct vc_item *item)
{
    const struct vc_item *root = vc_job_root(job, item->source);
    size_t n_parts = made_parts(root);
    struct vc_item_outs *outs;
    const char **names;

    if (n_parts == 0 && item->desc->quant == NULL && root->desc->quant == NULL) {
        if (item->chain->outs != NULL) { /* of an earlier list: passes have changed their minds */
            item->chain->outs = NULL;
        }
        return VC_OK;
    }
    VC_CALL(vc_item_own_chain(ctx, item));
    VC_CALL_ALLOC(outs = vc_arena_alloc(ctx, &job->arena, sizeof *outs));
    VC_CALL_ALLOC(names = vc_arena_alloc(ctx, &job->arena, (n_parts + 1) * sizeof *names));
    for (size_t k = 0; k < n_parts; k++) {
        VC_CALL(name_part(ctx, job, item, &root->desc->parts[k], &names[k]));
    }
    *outs = (struct vc_item_outs){.names = names};
    VC_CALL(out_quant(ctx, job, item, &outs->quant));
    item->chain->outs = outs;
    return VC_OK;
}

/* What the weights were in the file that the last pass would have read, had every pass written one. */
static enum vc_dtype source_dtype(const struct vc_job *job, const struct vc_item *item, const struct vc_item *root)
{
    const struct vc_pass *last = job->n_passes != 0 ? job->passes[job->n_passes - 1] : NULL;
    const struct vc_desc *before = item->first;
    size_t k = 0;

    while (k < root->chain->n_steps && root->chain->steps[k]->pass != last) {
        before = &root->chain->steps[k++]->out;
    }
    return vc_desc_weight_dtype(before);
}

/* The main output. root: the item, or the one that it is a second name of. quant: how its codes become values. */
static struct vc_out_tensor main_out(const struct vc_job *job, const struct vc_item *item, const struct vc_item *root,
                                     const struct vc_quant *quant)
{
    const struct vc_tensor *t = &job->plan.model->tensors[item->source];
    bool kept = root->chain->n_steps == 0;
    bool raw = kept && vc_sink_of_tensor(job->sink, item->source)->accepts_raw;
    uint64_t size_bytes = kept ? t->size_bytes : vc_dtype_bytes(item->desc->dtype, item->desc->n_elems);
    const struct vc_unfolded *whole = job->model->unfolded != NULL ? job->model->unfolded[item->source] : NULL;
    bool unfolds = whole != NULL && item->desc->n_elems == t->n_elems && vc_dtype_is_float(item->desc->dtype);

    struct vc_out_tensor out = {.name = t->name,
                                .dtype = item->desc->dtype,
                                .n_dims = item->desc->n_dims,
                                .shape = item->desc->shape,
                                .size_bytes = size_bytes,
                                .form = VC_FORM_VALUES,
                                .kept = kept,
                                .source = item->source,
                                .role = VC_PART_CODES,
                                .beside = t->part_of != VC_NO_TENSOR,
                                .alias = item->tied,
                                .alias_of = job->first_out[root->source],
                                .quant = quant,
                                .source_dtype = source_dtype(job, item, root)};
    if (unfolds) {
        out.n_dims = whole->n_dims;
        out.shape = whole->shape;
    }
    if (raw) {
        out.form = VC_FORM_RAW;
        out.size_bytes = job->model->io[item->source].raw_bytes;
    }
    return out;
}

/* Part number k that the item's steps make. */
static struct vc_out_tensor part_out(const struct vc_job *job, const struct vc_item *item, const struct vc_item *root,
                                     size_t k)
{
    const struct vc_part_desc *part = &root->desc->parts[k];

    return (struct vc_out_tensor){.name = item->chain->outs->names[k],
                                  .dtype = part->dtype,
                                  .n_dims = part->n_dims,
                                  .shape = part->shape,
                                  .size_bytes = vc_dtype_bytes(part->dtype, part->n_elems),
                                  .form = VC_FORM_VALUES,
                                  .source = item->source,
                                  .role = part->role,
                                  .apart = part->apart,
                                  .alias = item->tied,
                                  .alias_of = job->first_out[root->source] + 1 + k,
                                  .source_dtype = part->dtype};
}

/* Every output of a million is asked for several times: the structure is made where the caller has it. */
static struct vc_out_tensor make_out(const struct vc_job *job, size_t index)
{
    const struct vc_item *item = &job->plan.items[job->out_item[index]];
    const struct vc_item *root = vc_job_root(job, item->source);
    const struct vc_item_outs *outs = item->chain->outs;
    size_t main = job->first_out[item->source];

    return index == main ? main_out(job, item, root, outs != NULL ? outs->quant : NULL)
                         : part_out(job, item, root, index - main - 1);
}

/* The way in which another worker's codes become values, without parts. */
static const struct vc_quant *quant_of_other_shard(struct vc_ctx *ctx, struct vc_job *job, const struct vc_quant *quant)
{
    struct vc_quant *copy = vc_arena_alloc(ctx, &job->arena, sizeof *copy);

    if (copy != NULL) {
        *copy = *quant;
        copy->n_parts = 0;
    }
    return copy;
}

/* What other workers write. */
static enum vc_status list_other_shards(struct vc_ctx *ctx, struct vc_job *job)
{
    struct vc_out_tensor *to;

    if (job->options.n_shards == 0) {
        return VC_OK;
    }
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, to, job->model->n_tensors));
    job->other_shards = to;
    job->outs.other_shards = to;
    for (size_t i = 0; i < job->model->n_tensors; i++) {
        const struct vc_item *item = &job->plan.items[i];
        const struct vc_quant *quant = NULL;

        if (!item->in_other_shard || item->dropped || job->model->tensors[i].part_of != VC_NO_TENSOR) {
            continue;
        }
        if (item->desc->quant != NULL) {
            VC_CALL_ALLOC(quant = quant_of_other_shard(ctx, job, item->desc->quant));
        }
        *to = main_out(job, item, item, quant);
        size_t k = vc_item_calibrate_step(item); /* one scale for several tensors changes values only */
        job->outs.other_shards_unsure |=
            k < item->chain->n_steps && !(item->absent && item->chain->steps[k]->calibrate_all);
        job->outs.n_other_shards++;
        to++;
    }
    return VC_OK;
}

/* The outputs of the item: none where it is not written. */
static size_t count_outs(const struct vc_job *job, const struct vc_item *item)
{
    return item->merged || item->dropped ? 0 : 1 + made_parts(vc_job_root(job, item->source));
}

/* Gives every output its number. */
static enum vc_status number_outs(struct vc_ctx *ctx, struct vc_job *job)
{
    size_t n_tensors = job->model->n_tensors;
    size_t n = 0;

    for (size_t i = 0; i < n_tensors; i++) {
        n += count_outs(job, &job->plan.items[i]);
    }
    VC_REFUSE_IF(n > UINT32_MAX, ctx, VC_E_NOMEM, "too many tensors");
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, job->first_out, n_tensors));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, job->out_item, n));
    job->outs.n = 0;
    for (size_t i = 0; i < n_tensors; i++) {
        size_t left = count_outs(job, &job->plan.items[i]);

        job->first_out[i] = left != 0 ? (uint32_t)job->outs.n : 0;
        for (; left != 0; left--) {
            job->out_item[job->outs.n++] = (uint32_t)i;
        }
    }
    return VC_OK;
}

/* ---- stages ---- */

static bool is_plain_float(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16 || dtype == VC_DTYPE_F32;
}

/* A pass has made `after` of what was `before`; these are equal where it left the weights alone. */
static void add_to_stage(struct vc_out_stage *stage, const struct vc_desc *before, const struct vc_desc *after)
{
    enum vc_dtype from = before->quant != NULL ? before->quant->source_dtype : before->dtype;

    stage->retyped = stage->retyped || before->dtype != after->dtype;
    stage->blocks = stage->blocks || vc_dtype_size(after->dtype) == 0;
    if (before != after && after->quant == NULL && is_plain_float(from) && is_plain_float(after->dtype) &&
        from != after->dtype) {
        stage->cast = stage->casts && stage->cast != after->dtype ? VC_DTYPE_RAW : after->dtype;
        stage->casts = true;
    }
}

void vc_job_add_stage(struct vc_job *job, size_t pass)
{
    for (size_t i = 0; i < job->plan.n_items; i++) {
        const struct vc_item *item = &job->plan.items[i];
        size_t set = (size_t)(item->set - job->plan.sets);
        const struct vc_desc *before = item->first;

        if (job->model->tensors[i].part_of != VC_NO_TENSOR || item->tied || item->dropped) {
            continue;
        }
        for (size_t k = 0; k < item->chain->n_steps && item->chain->steps[k]->pass != job->passes[pass]; k++) {
            before = &item->chain->steps[k]->out;
        }
        add_to_stage(&job->stages[set * job->n_passes + pass], before, item->desc);
    }
    for (size_t i = 0; i < job->plan.n_sets; i++) {
        job->stages[i * job->n_passes + pass].mixture = job->passes[pass]->mixture;
    }
}

enum vc_status vc_job_list_outs(struct vc_ctx *ctx, struct vc_job *job)
{
    VC_CALL(number_outs(ctx, job));
    for (size_t i = 0; i < job->model->n_tensors; i++) {
        VC_CALL(vc_check_cancelled(ctx));
        if (count_outs(job, &job->plan.items[i]) != 0) {
            VC_CALL(describe_outs(ctx, job, &job->plan.items[i]));
        }
    }
    job->outs.make = make_out;
    job->outs.job = job;
    job->outs.drop = job->drop;
    job->outs.n_stages = job->n_passes * job->plan.n_sets;
    job->outs.stages = job->stages;
    job->outs.n_edits = job->plan.n_edits;
    job->outs.edits = job->plan.edits;
    job->outs.n_graph_edits = job->plan.n_graph_edits;
    job->outs.graph_edits = job->plan.graph_edits;
    for (size_t i = 0; i < job->n_passes; i++) { /* the last one's, as if every pass had written a file of its own */
        job->outs.lineage = job->passes[i]->lineage != NULL ? job->passes[i]->lineage : job->outs.lineage;
    }
    job->outs.n_metadata = job->options.n_metadata;
    job->outs.metadata = job->options.metadata;
    return list_other_shards(ctx, job);
}

void vc_job_free_outs(struct vc_ctx *ctx, struct vc_job *job)
{
    VC_FREE_ALL(ctx, job->out_item, job->first_out, job->other_shards);
    job->out_item = NULL;
    job->first_out = NULL;
    job->other_shards = NULL;
    job->outs = (struct vc_out_list){0};
}
