/* job_report.c - the rows of a report, from the plan and from what was measured. */

#include "core/job/job_passes.h"
#include "core/job/job_state.h"
#include "core/job/totals.h"
#include "core/run/tee_sink.h"

/* Bytes of the tensor with its scales and zero points as the source has them. */
static uint64_t source_bytes(const struct vc_model *model, size_t index, uint64_t *file_bytes)
{
    const struct vc_tensor *t = &model->tensors[index];
    uint64_t bytes = t->size_bytes;

    *file_bytes = t->file_bytes;
    for (unsigned i = 0; t->quant != NULL && i < t->quant->n_parts; i++) {
        bytes += model->tensors[t->quant->parts[i].tensor].size_bytes;
        *file_bytes += model->tensors[t->quant->parts[i].tensor].file_bytes;
    }
    return bytes;
}

/* What a loader that turns codes back makes of the source's tensor. */
static enum vc_dtype weight_dtype(const struct vc_tensor *t)
{
    return t->quant != NULL                  ? t->quant->source_dtype
           : vc_dtype_is_quantized(t->dtype) ? VC_DTYPE_F32 /* blocks do not tell what they were made from */
                                             : t->dtype;
}

/* The scales that are part of blocks; those of other types are tensors. */
static void add_block_scales(enum vc_dtype dtype, uint64_t n_elems, struct vc_report_row *row)
{
    static const struct {
        unsigned char n, n_bytes; /* of a block: steps (or scales of steps), and everything that is no code */
    } scales[VC_DTYPE_COUNT] = {
        [VC_DTYPE_Q4_0] = {1, 2},   [VC_DTYPE_Q4_1] = {1, 4},   [VC_DTYPE_Q5_0] = {1, 2},   [VC_DTYPE_Q5_1] = {1, 4},
        [VC_DTYPE_Q8_0] = {1, 2},   [VC_DTYPE_Q4_K] = {8, 16},  [VC_DTYPE_Q5_K] = {8, 16},  [VC_DTYPE_Q6_K] = {16, 18},
        [VC_DTYPE_Q2_K] = {16, 20}, [VC_DTYPE_Q3_K] = {16, 14}, [VC_DTYPE_IQ4_NL] = {1, 2}, [VC_DTYPE_IQ4_XS] = {8, 8},
        [VC_DTYPE_MXFP4] = {1, 1},  [VC_DTYPE_NVFP4] = {4, 4},  [VC_DTYPE_Q1_0] = {1, 2},   [VC_DTYPE_Q2_0] = {1, 2},
        [VC_DTYPE_TQ1_0] = {1, 2},  [VC_DTYPE_TQ2_0] = {1, 2}};
    uint64_t n_blocks = n_elems / vc_dtype_facts(dtype)->block_elems;

    row->n_scales += n_blocks * scales[dtype].n;
    row->scale_bytes += n_blocks * scales[dtype].n_bytes;
}

static void fill_kept(const struct vc_model *model, const struct vc_item *item, struct vc_report_row *row)
{
    const struct vc_tensor *t = &model->tensors[item->source];

    row->action = VC_ACTION_KEPT;
    row->scheme = "";
    row->reason = item->reason;
    row->bytes_after = row->bytes_before;
    row->scale_bytes = row->bytes_before - t->size_bytes;
    row->dequantized_bytes = t->quant != NULL || vc_dtype_is_quantized(t->dtype)
                                 ? vc_dtype_bytes(weight_dtype(t), t->n_elems)
                                 : row->bytes_before;
    row->n_scales = t->quant != NULL ? model->tensors[vc_quant_scale(t->quant)].n_elems : 0;
    add_block_scales(t->dtype, t->n_elems, row);
}

static uint64_t parts_bytes(const struct vc_desc *desc)
{
    uint64_t bytes = 0;

    for (size_t k = 0; k < desc->n_parts; k++) {
        bytes += desc->parts[k].apart ? 0 : vc_dtype_bytes(desc->parts[k].dtype, desc->parts[k].n_elems);
    }
    return bytes;
}

static void fill_changed(const struct vc_model *model, const struct vc_item *item, struct vc_report_row *row)
{
    const struct vc_step *last = item->chain->steps[item->chain->n_steps - 1];
    const struct vc_tensor *t = &model->tensors[item->source];

    row->action = last->action;
    row->scheme = last->scheme;
    row->reason = last->why != NULL ? last->why : "";
    row->n_dims_after = item->desc->n_dims;
    row->shape_after = item->desc->shape;
    for (size_t k = 0; k < item->desc->n_parts; k++) { /* a mask is no scale */
        row->scale_bytes += item->desc->parts[k].role != VC_PART_MASK
                                ? vc_dtype_bytes(item->desc->parts[k].dtype, item->desc->parts[k].n_elems)
                                : 0;
    }
    row->n_scales = item->desc->quant != NULL && item->desc->n_parts != 0 ? item->desc->parts[0].n_elems : 0;
    row->bytes_after = vc_dtype_bytes(item->desc->dtype, item->desc->n_elems) + parts_bytes(item->desc);
    add_block_scales(item->desc->dtype, item->desc->n_elems, row);
    /* A loader that turns codes back makes what the weights were; one that loads a cast keeps the cast. */
    row->dequantized_bytes =
        item->desc->quant != NULL ? vc_dtype_bytes(item->desc->quant->source_dtype, item->desc->n_elems)
        : vc_dtype_is_quantized(item->desc->dtype) ? vc_dtype_bytes(weight_dtype(t), item->desc->n_elems)
                                                   : row->bytes_after;
}

/* One entry for each pass that changed the tensor: what it had become when the pass was through. */
static enum vc_status list_steps(struct vc_ctx *ctx, struct vc_job *job, const struct vc_item *item,
                                 struct vc_item_lists *lists)
{
    struct vc_report_step *steps = vc_arena_alloc(ctx, &job->arena, item->chain->n_steps * sizeof *steps);

    VC_CALL_ALLOC(steps);
    for (size_t k = 0; k < item->chain->n_steps; k++) {
        const struct vc_step *step = item->chain->steps[k];

        if (k + 1 < item->chain->n_steps && item->chain->steps[k + 1]->pass == step->pass) {
            continue;
        }
        steps[lists->n_steps++] = (struct vc_report_step){.pass = step->pass->ops->name,
                                                          .scheme = step->scheme,
                                                          .dtype = step->out.dtype,
                                                          .n_dims = step->out.n_dims,
                                                          .shape = step->out.shape,
                                                          .bytes = vc_dtype_bytes(step->out.dtype, step->out.n_elems) +
                                                                   parts_bytes(&step->out)};
    }
    lists->steps = steps;
    return VC_OK;
}

static enum vc_status list_parts(struct vc_ctx *ctx, struct vc_job *job, const struct vc_item *item,
                                 struct vc_item_lists *lists)
{
    const struct vc_desc *desc = item->desc;
    struct vc_report_part *parts = vc_arena_alloc(ctx, &job->arena, (desc->n_parts + 1) * sizeof *parts);

    VC_CALL_ALLOC(parts);
    for (size_t k = 0; k < desc->n_parts; k++) {
        const struct vc_part_desc *part = &desc->parts[k];

        if (part->apart) {
            continue;
        }
        parts[lists->n_parts++] = (struct vc_report_part){part->role, part->dtype, part->n_dims, part->shape,
                                                          vc_dtype_bytes(part->dtype, part->n_elems)};
    }
    lists->parts = parts;
    return VC_OK;
}

/* What a row points to, made while memory can still be refused: the lists of a tensor that has parts or was changed,
 * and which one a second name is the same as. */
static enum vc_status prepare_row(struct vc_ctx *ctx, struct vc_job *job, struct vc_item *item)
{
    struct vc_item_lists *lists;

    if (vc_item_is_idle(item)) {
        if (item->tied && !item->dropped) {
            item->reason = vc_arena_printf(ctx, &job->arena, "the same as %s",
                                           job->model->tensors[vc_job_root(job, item->source)->source].name);
            VC_CALL_ALLOC(item->reason);
        }
        return VC_OK;
    }
    if (item->chain->n_steps == 0 && item->desc->n_parts == 0) {
        return VC_OK;
    }
    VC_CALL(vc_item_own_chain(ctx, item));
    VC_CALL_ALLOC(lists = vc_arena_alloc(ctx, &job->arena, sizeof *lists));
    *lists = (struct vc_item_lists){.n_parts = 0};
    VC_CALL(list_parts(ctx, job, item, lists));
    if (item->chain->n_steps != 0) {
        VC_CALL(list_steps(ctx, job, item, lists));
    }
    item->chain->lists = lists;
    return VC_OK;
}

/* Dropped, or a second name: nothing of its own is in the output. */
static void fill_idle(const struct vc_item *item, struct vc_report_row *row)
{
    row->scheme = "";
    row->action = item->dropped ? VC_ACTION_DROPPED : VC_ACTION_TIED;
    row->reason = item->reason;
    if (item->tied) {
        row->bytes_before = 0;
        row->file_bytes_before = 0;
    }
}

/* What was measured of the item. */
static void fill_result(const struct vc_item_result *result, struct vc_report_row *row)
{
    const struct vc_error *total = &result->total;

    row->measured = total->measured;
    row->nonfinite = result->nonfinite;
    if (total->measured) {
        row->sum_x2 = total->sum_x2;
        row->sum_e2 = total->sum_e2;
        row->sqnr_db = vc_sqnr_db(total->sum_x2, total->sum_e2);
        row->max_abs_error = total->max_abs_error;
        row->zeros_before = total->zeros_before;
        row->zeros_after = total->zeros_after;
        row->clipped = total->clipped;
    }
}

const struct vc_item *vc_plan_row_item(const struct vc_plan *plan, size_t row)
{
    return vc_job_row_item(plan->job, row);
}

struct vc_report_row vc_job_row(const struct vc_job *job, size_t index)
{
    const struct vc_item *item = vc_job_row_item(job, index);
    const struct vc_tensor *t = &job->model->tensors[item->source];
    struct vc_report_row row = {.name = t->name,
                                .role = t->role,
                                .dtype_before = t->dtype,
                                .dtype_after = item->desc->dtype,
                                .n_dims = t->n_dims,
                                .shape = t->shape,
                                .n_elems = t->n_elems,
                                .n_dims_after = t->n_dims,
                                .shape_after = t->shape};

    if (!item->dropped && job->plan.names != NULL) {
        row.name_after = job->plan.names[item->source];
    }
    row.bytes_before = source_bytes(job->model, item->source, &row.file_bytes_before);
    if (vc_item_is_idle(item)) {
        fill_idle(item, &row);
    } else if (item->chain->n_steps == 0) {
        fill_kept(job->model, item, &row);
    } else {
        fill_changed(job->model, item, &row);
    }
    if (item->chain->lists != NULL) {
        row.n_parts = item->chain->lists->n_parts;
        row.parts = item->chain->lists->parts;
        row.n_steps = item->chain->lists->n_steps;
        row.steps = item->chain->lists->steps;
    }
    if (job->results != NULL) {
        fill_result(&job->results[item->source], &row);
    }
    return row;
}

bool vc_report_get_row(const struct vc_report *report, size_t index, struct vc_report_row *row)
{
    if (index >= report->n_rows) {
        return false;
    }
    *row = report->rows != NULL ? report->rows[index] : vc_job_row(report->job, index);
    return true;
}

/* "quantize --int8" of every pass, joined by " + ". */
static const char *join_commands(struct vc_ctx *ctx, struct vc_job *job)
{
    const char *all = "convert";

    for (size_t p = 0; p < job->n_passes && all != NULL; p++) {
        all = p == 0 ? job->passes[0]->command
                     : vc_arena_printf(ctx, &job->arena, "%s + %s", all, job->passes[p]->command);
    }
    return all;
}

/* ---- notes ---- */

/* Adds a copy of a note (NULL if there is none) to the list, and to the text of all of them. */
static enum vc_status add_note(struct vc_ctx *ctx, struct vc_job *job, const char *id, const char *text)
{
    struct vc_report *report = &job->report;

    if (text == NULL) {
        return VC_OK;
    }
    const char *copy = vc_arena_printf(ctx, &job->arena, "%s", text);
    VC_CALL_ALLOC(copy);
    report->note = report->note[0] == '\0' ? copy : vc_arena_printf(ctx, &job->arena, "%s; %s", report->note, copy);
    VC_CALL_ALLOC(report->note);
    job->notes[report->n_notes++] = (struct vc_report_note){id, copy};
    return VC_OK;
}

/* Passes that found nothing to do are no failure, but hardly what was wanted. A worker's share may have no weights. */
static enum vc_status note_unchanged(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_item *largest = NULL;
    bool same = job->n_passes != 0 && job->report.totals.n_changed == 0 && job->options.n_shards == 0 &&
                job->plan.names == NULL;

    for (size_t i = 0; same && i < job->plan.n_items; i++) {
        const struct vc_item *item = &job->plan.items[i];

        largest = item->reason != NULL && (largest == NULL || item->first->n_elems > largest->first->n_elems) ? item
                                                                                                              : largest;
    }
    if (!same) {
        return VC_OK;
    }
    const char *text =
        largest == NULL
            ? "no weight was changed"
            : vc_arena_printf(ctx, &job->arena,
                              "no weight was changed; the reasons are with the tensors, of the largest one: %s",
                              largest->reason);
    VC_CALL_ALLOC(text);
    return add_note(ctx, job, "unchanged", text);
}

/* What the input's reader, the passes and the outputs want to be known. Places are left for notes of the run. */
static enum vc_status list_notes(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_model *model = job->model;
    size_t most = model->n_facts + job->n_passes + 2 * job->report.n_outputs + 3;

    VC_CALL_ALLOC(job->notes = vc_arena_alloc(ctx, &job->arena, most * sizeof *job->notes));
    job->report.note = "";
    job->report.notes = job->notes;
    for (size_t i = 0; i < model->n_facts; i++) {
        if (strcmp(model->facts[i].key, VC_FACT_NOTE) == 0) {
            VC_CALL(add_note(ctx, job, "input", model->facts[i].value));
        }
    }
    for (size_t i = 0; i < job->n_passes; i++) {
        VC_CALL(add_note(ctx, job, "pass", job->passes[i]->note));
    }
    VC_CALL(note_unchanged(ctx, job));
    for (size_t i = 0; i < job->report.n_outputs; i++) {
        VC_CALL(add_note(ctx, job, "output", vc_sink_of_output(job->sink, i)->note));
    }
    return VC_OK;
}

/* Whether an output has weights in codes, made or kept. */
static bool has_codes(const struct vc_job *job)
{
    size_t i = 0;

    while (i < job->outs.n) {
        const struct vc_out_tensor out = vc_out_at(&job->outs, i++);

        if (out.quant != NULL || vc_dtype_is_quantized(out.dtype)) {
            return true;
        }
    }
    return false;
}

/* The sinks go before the report does, so strings are copied. */
static enum vc_status copy_layout(struct vc_ctx *ctx, struct vc_job *job, const struct vc_sink *sink,
                                  struct vc_layout *out)
{
    *out = vc_dialect_layout(sink->dialect, &sink->loader);
    out->loader = vc_arena_printf(ctx, &job->arena, "%s", out->loader);
    out->tried = vc_arena_printf(ctx, &job->arena, "%s", out->tried);
    out->needs = vc_arena_printf(ctx, &job->arena, "%s", out->needs);
    return out->loader != NULL && out->tried != NULL && out->needs != NULL ? VC_OK : VC_E_NOMEM;
}

/* How quantized weights lie in each output, and what loads it. */
static enum vc_status list_layouts(struct vc_ctx *ctx, struct vc_job *job)
{
    size_t n = job->report.n_outputs;
    const struct vc_layout **list = vc_arena_alloc(ctx, &job->arena, n * sizeof *list);
    struct vc_layout *layouts = vc_arena_alloc(ctx, &job->arena, n * sizeof *layouts);
    bool codes = has_codes(job);

    VC_CALL_ALLOC(list);
    VC_CALL_ALLOC(layouts);
    for (size_t i = 0; i < n; i++) {
        const struct vc_sink *sink = vc_sink_of_output(job->sink, i);

        list[i] = codes && sink->dialect != NULL ? &layouts[i] : NULL;
        if (list[i] != NULL) {
            VC_CALL(copy_layout(ctx, job, sink, &layouts[i]));
        }
    }
    job->report.layouts = list;
    return VC_OK;
}

/* The whole file; of a worker's share, what its tensors take. */
static uint64_t source_file_bytes(const struct vc_job *job)
{
    uint64_t total = 0;

    if (job->options.n_shards == 0) {
        return job->model->file_bytes;
    }
    for (size_t i = 0; i < job->model->n_tensors; i++) {
        total += job->plan.items[i].in_other_shard ? 0 : job->model->tensors[i].file_bytes;
    }
    return total;
}

/* Which items have rows: those of this worker that are no parts of others. */
static enum vc_status list_rows(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_model *model = job->model;
    size_t n = 0;

    for (size_t i = 0; i < model->n_tensors; i++) {
        n += model->tensors[i].part_of == VC_NO_TENSOR && !job->plan.items[i].in_other_shard;
    }
    if (n != model->n_tensors) {
        VC_CALL(VC_ARRAY(ctx, VC_TAG_REPORT, job->row_item, n));
    }
    for (size_t i = 0; i < model->n_tensors; i++) {
        VC_CALL(vc_check_cancelled(ctx));
        if (model->tensors[i].part_of == VC_NO_TENSOR && !job->plan.items[i].in_other_shard) {
            if (job->row_item != NULL) {
                job->row_item[job->report.n_rows] = i;
            }
            job->report.n_rows++;
            VC_CALL(prepare_row(ctx, job, &job->plan.items[i]));
        }
    }
    if (!job->options.rows_on_request) {
        VC_CALL(VC_ARRAY(ctx, VC_TAG_REPORT, job->rows, n));
    }
    return VC_OK;
}

/* Makes the rows, or makes them anew, where a list of them is wanted, and adds them up. */
static void fill_rows(struct vc_job *job)
{
    struct vc_totals sum;

    vc_totals_begin(&sum);
    for (size_t i = 0; i < job->report.n_rows; i++) {
        struct vc_report_row row = vc_job_row(job, i);

        vc_totals_add(&sum, &row);
        if (job->rows != NULL) {
            job->rows[i] = row;
        }
    }
    vc_totals_end(&sum, &job->report.totals, &job->report.n_params_after);
}

/* The members of the report that passes have of their own. */
static enum vc_status report_passes(struct vc_ctx *ctx, struct vc_job *job, bool measured)
{
    for (size_t i = 0; i < job->n_passes; i++) {
        if (job->passes[i]->ops->report != NULL) {
            VC_CALL(job->passes[i]->ops->report(ctx, job->passes[i], &job->plan, measured, &job->report));
        }
    }
    return VC_OK;
}

enum vc_status vc_job_report_plan(struct vc_ctx *ctx, struct vc_job *job)
{
    struct vc_report *report = &job->report;
    const struct vc_model *model = job->model;

    for (size_t i = 0; i < model->n_tensors; i++) {
        report->input_compressed |= model->tensors[i].compressed;
    }
    VC_CALL(list_rows(ctx, job));
    report->rows = job->rows;
    report->job = job;
    VC_CALL_ALLOC(report->command = join_commands(ctx, job));
    VC_CALL(list_layouts(ctx, job));
    report->input = model->path;
    report->output = job->outputs[0].path;
    report->input_format = (model->made_of != NULL ? model->made_of : model)->format_name;
    report->output_format = job->outputs[0].format;
    report->dry_run = job->options.dry_run;
    report->gate_missed = "";
    report->device = "cpu";
    report->device_reason = "";
    report->totals.file_before = source_file_bytes(job);
    fill_rows(job);
    VC_CALL(vc_job_report_layers(ctx, job));
    VC_CALL(report_passes(ctx, job, false));
    return list_notes(ctx, job);
}

/* What the reader noticed while it read. */
static enum vc_status add_late_note(struct vc_ctx *ctx, struct vc_job *job)
{
    char text[VC_MESSAGE_BYTES] = "";

    if (job->model->ops->late_note != NULL) {
        job->model->ops->late_note(job->model, text, sizeof text);
    }
    return add_note(ctx, job, "values", text[0] != '\0' ? text : NULL);
}

/* Weights below this are 0 to a network: times inputs of usual size they are lost in any sum. */
#define NOTHING 0x1p-100

/* The step whose codes all mean 0, of weights that did not: these are below what the type of its scales holds. NULL:
 * there is none. */
static const struct vc_step *lost_step(const struct vc_item *item, const struct vc_item_result *result)
{
    for (size_t k = 0; k < item->chain->n_steps; k++) {
        const struct vc_step *step = item->chain->steps[k];
        const struct vc_error *error = &result->steps[k];
        bool codes = step->out.quant != NULL || vc_dtype_size(step->out.dtype) == 0;

        if (codes && error->measured && error->max_abs_error >= NOTHING && error->zeros_after == step->out.n_elems) {
            return step;
        }
    }
    return NULL;
}

/* Refuses the job where all of a tensor is lost, or notes it where the pass is asked for such bytes. */
static enum vc_status check_lost(struct vc_ctx *ctx, struct vc_job *job)
{
    const char *first = NULL;
    char note[VC_MESSAGE_BYTES];
    size_t n = 0;

    for (size_t i = 0; i < job->report.n_rows; i++) {
        const struct vc_item *item = vc_job_row_item(job, i);
        const struct vc_step *step = lost_step(item, &job->results[item->source]);
        const char *name = job->model->tensors[item->source].name;

        VC_REFUSE_IF(step != NULL && (step->pass == NULL || !step->pass->vanishes), ctx, VC_E_UNSUPPORTED,
                     "%s: all of its values would be 0: they are too small for the scales of %s; exclude it, or "
                     "choose another type for it",
                     name, step->scheme);
        first = first == NULL && step != NULL ? name : first;
        n += step != NULL;
    }
    if (n == 0) {
        return add_note(ctx, job, "lost", NULL);
    }
    (void)snprintf(note, sizeof note, "all values of %zu tensor%s (%s%s) are 0: they are too small for the scales", n,
                   n == 1 ? "" : "s", first, n > 1 ? ", ..." : "");
    return add_note(ctx, job, "lost", note);
}

/* The figures of a pass are those of its last lossy step. */
static void fill_steps(const struct vc_item *item, const struct vc_item_result *result)
{
    size_t at = 0;

    for (size_t k = 0; item->chain->lists != NULL && item->chain->lists->n_steps != 0 && k < item->chain->n_steps;
         k++) {
        struct vc_report_step *step = &item->chain->lists->steps[at];
        const struct vc_error *error = &result->steps[k];

        if (error->measured) {
            step->measured = true;
            step->sqnr_db = vc_sqnr_db(error->sum_x2, error->sum_e2);
            step->max_abs_error = error->max_abs_error;
            step->zeros = error->zeros_after;
        }
        at += k + 1 < item->chain->n_steps && item->chain->steps[k + 1]->pass != item->chain->steps[k]->pass;
    }
}

enum vc_status vc_job_report_results(struct vc_ctx *ctx, struct vc_job *job)
{
    for (size_t i = 0; i < job->report.n_rows; i++) {
        const struct vc_item *item = vc_job_row_item(job, i);

        fill_steps(item, &job->results[item->source]);
    }
    fill_rows(job);
    VC_CALL(report_passes(ctx, job, true));
    VC_CALL(add_late_note(ctx, job));
    return check_lost(ctx, job);
}

/* A note that there is no memory for is left out: the files are there. */
void vc_job_report_written(struct vc_ctx *ctx, struct vc_job *job)
{
    for (size_t i = 0; i < job->report.n_outputs; i++) {
        const char *before = job->report.note;

        if (add_note(ctx, job, "left", vc_sink_of_output(job->sink, i)->late_note) != VC_OK) {
            job->report.note = before;
            vc_clear_error(ctx);
        }
    }
}
