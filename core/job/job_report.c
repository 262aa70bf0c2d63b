/* job_report.c - the rows of a report, from the plan and from what was measured. */
#include <string.h>

#include "core/job/job_state.h"
#include "core/job/totals.h"
#include "core/run/tee_sink.h"

/* Bytes of the tensor with its scales and zero points as the source has them. */
static uint64_t source_bytes(const struct vc_model *model, size_t index, uint64_t *file_bytes)
{
    const struct vc_tensor *t = &model->tensors[index];
    uint64_t bytes = t->size_bytes;
    unsigned i;

    *file_bytes = t->file_bytes;
    for (i = 0; t->quant != NULL && i < t->quant->n_parts; i++) {
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
static void add_block_scales(enum vc_dtype dtype, struct vc_report_row *row)
{
    static const struct {
        unsigned char n, n_bytes; /* of a block: steps (or scales of steps), and everything that is no code */
    } scales[VC_DTYPE_COUNT] = {
        [VC_DTYPE_Q4_0] = {1, 2}, [VC_DTYPE_Q4_1] = {1, 4},  [VC_DTYPE_Q5_0] = {1, 2},  [VC_DTYPE_Q5_1] = {1, 4},
        [VC_DTYPE_Q8_0] = {1, 2}, [VC_DTYPE_Q4_K] = {8, 16}, [VC_DTYPE_Q5_K] = {8, 16}, [VC_DTYPE_Q6_K] = {16, 18}};
    size_t block_elems;
    size_t block_bytes;

    vc_dtype_block(dtype, &block_elems, &block_bytes);
    row->n_scales += row->n_elems / block_elems * scales[dtype].n;
    row->scale_bytes += row->n_elems / block_elems * scales[dtype].n_bytes;
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
    add_block_scales(t->dtype, row);
}

static void fill_changed(const struct vc_model *model, const struct vc_item *item, struct vc_report_row *row)
{
    const struct vc_stage *last = item->stages[item->n_stages - 1];
    const struct vc_tensor *t = &model->tensors[item->source];
    size_t k;

    row->action = last->action;
    row->scheme = last->scheme;
    row->reason = "";
    for (k = 0; k < last->n_companions; k++) {
        row->scale_bytes += vc_dtype_bytes(last->companions[k].dtype, last->companions[k].n_elems);
    }
    row->n_scales = last->n_companions != 0 ? last->companions[0].n_elems : 0;
    row->bytes_after = vc_dtype_bytes(item->desc.dtype, item->desc.n_elems) + row->scale_bytes;
    add_block_scales(item->desc.dtype, row);
    /* A loader that turns codes back makes what the weights were; one that loads a cast keeps the cast. */
    row->dequantized_bytes = last->quant.scheme != VC_SCHEME_NONE || vc_dtype_is_quantized(item->desc.dtype)
                                 ? vc_dtype_bytes(weight_dtype(t), row->n_elems)
                                 : row->bytes_after;
}

/* Dropped, or a second name: nothing of its own is in the output. */
static enum vc_status fill_idle(struct vc_ctx *ctx, struct vc_job *job, const struct vc_item *item,
                                struct vc_report_row *row)
{
    row->scheme = "";
    row->action = item->dropped ? VC_ACTION_DROPPED : VC_ACTION_TIED;
    row->reason = item->dropped
                      ? vc_job_role_reason(job->model->tensors[item->source].role)
                      : vc_arena_printf(ctx, &job->arena, "the same as %s", job->model->tensors[item->alias_of].name);
    if (item->tied) {
        row->bytes_before = 0;
        row->file_bytes_before = 0;
    }
    return row->reason == NULL ? VC_E_NOMEM : VC_OK;
}

static enum vc_status fill_row(struct vc_ctx *ctx, struct vc_job *job, size_t index, struct vc_report_row *row)
{
    const struct vc_item *item = &job->items[index];
    const struct vc_tensor *t = &job->model->tensors[index];

    *row = (struct vc_report_row){.name = t->name,
                                  .role = t->role,
                                  .dtype_before = t->dtype,
                                  .dtype_after = item->desc.dtype,
                                  .n_dims = t->n_dims,
                                  .shape = t->shape,
                                  .n_elems = t->n_elems};
    row->bytes_before = source_bytes(job->model, index, &row->file_bytes_before);
    if (vc_item_is_idle(item)) {
        return fill_idle(ctx, job, item, row);
    }
    if (item->n_stages == 0) {
        fill_kept(job->model, item, row);
    } else {
        fill_changed(job->model, item, row);
    }
    return VC_OK;
}

/* "quantize --int8" of every pass, joined by " + ". */
static const char *join_commands(struct vc_ctx *ctx, struct vc_job *job)
{
    const char *all = "convert";
    size_t p;

    for (p = 0; p < job->n_passes && all != NULL; p++) {
        all = p == 0 ? job->passes[0]->command
                     : vc_arena_printf(ctx, &job->arena, "%s + %s", all, job->passes[p]->command);
    }
    return all;
}

/* Adds a copy of a note to those so far; NULL when there is no memory. */
static const char *add_note(struct vc_ctx *ctx, struct vc_job *job, const char *all, const char *note)
{
    return all == NULL || note == NULL
               ? all
               : vc_arena_printf(ctx, &job->arena, "%s%s%s", all, all[0] == '\0' ? "" : "; ", note);
}

/* What the input's reader, the passes and the outputs want to be known. */
static const char *join_notes(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_model *model = job->model;
    const char *all = "";
    size_t i;

    for (i = 0; i < model->n_facts; i++) {
        all = add_note(ctx, job, all, strcmp(model->facts[i].key, VC_FACT_NOTE) == 0 ? model->facts[i].value : NULL);
    }
    for (i = 0; i < job->n_passes; i++) {
        all = add_note(ctx, job, all, job->passes[i]->note);
    }
    for (i = 0; i < job->report.n_outputs; i++) {
        all = add_note(ctx, job, all, vc_sink_note(job->sink, i));
    }
    /* The sinks go before the report does. */
    return all == NULL ? NULL : vc_arena_printf(ctx, &job->arena, "%s", all);
}

/* The whole file; of a worker's share, what its tensors take. */
static uint64_t source_file_bytes(const struct vc_job *job)
{
    uint64_t total = 0;
    size_t i;

    if (job->options.n_shards == 0) {
        return job->model->file_bytes;
    }
    for (i = 0; i < job->model->n_tensors; i++) {
        total += job->items[i].elsewhere ? 0 : job->model->tensors[i].file_bytes;
    }
    return total;
}

enum vc_status vc_job_report_plan(struct vc_ctx *ctx, struct vc_job *job)
{
    struct vc_report *report = &job->report;
    const struct vc_model *model = job->model;
    enum vc_status status = VC_OK;
    size_t i;

    job->rows = vc_calloc_array(ctx, VC_TAG_REPORT, model->n_tensors, sizeof *job->rows);
    VC_TRY_ALLOC(job->rows);
    job->row_item = vc_calloc_array(ctx, VC_TAG_REPORT, model->n_tensors, sizeof *job->row_item);
    VC_TRY_ALLOC(job->row_item);
    for (i = 0; i < model->n_tensors; i++) {
        report->input_compressed |= model->tensors[i].compressed;
        if (model->tensors[i].companion_of == VC_NO_TENSOR && !job->items[i].elsewhere) {
            job->row_item[report->n_rows] = i;
            VC_TRY(fill_row(ctx, job, i, &job->rows[report->n_rows++]));
        }
    }
    report->rows = job->rows;
    report->command = join_commands(ctx, job);
    VC_TRY_ALLOC(report->command);
    report->note = join_notes(ctx, job);
    VC_TRY_ALLOC(report->note);
    report->input = model->path;
    report->output = job->outputs[0].path;
    report->input_format = model->format_name;
    report->output_format = job->outputs[0].format;
    report->dry_run = job->options.dry_run;
    report->gate_missed = "";
    report->device = "cpu";
    report->totals.file_before = source_file_bytes(job);
    vc_totals_compute(job->rows, report->n_rows, &report->totals);
out:
    return status;
}

/* What the reader noticed while it read. */
static enum vc_status add_late_note(struct vc_ctx *ctx, struct vc_job *job)
{
    char text[VC_MESSAGE_BYTES] = "";
    const char *note;

    if (job->model->ops->late_note != NULL) {
        job->model->ops->late_note(job->model, text, sizeof text);
    }
    if (text[0] == '\0') {
        return VC_OK;
    }
    note = vc_arena_printf(ctx, &job->arena, "%s%s%s", job->report.note, job->report.note[0] == '\0' ? "" : "; ", text);
    if (note == NULL) {
        return VC_E_NOMEM;
    }
    job->report.note = note;
    return VC_OK;
}

enum vc_status vc_job_report_results(struct vc_ctx *ctx, struct vc_job *job)
{
    size_t i;

    for (i = 0; i < job->report.n_rows; i++) {
        const struct vc_item_result *result = &job->results[job->row_item[i]];
        struct vc_report_row *row = &job->rows[i];

        row->measured = result->measured;
        row->nonfinite = result->nonfinite;
        if (result->measured) {
            row->sum_x2 = result->sum_x2;
            row->sum_e2 = result->sum_e2;
            row->sqnr_db = vc_sqnr_db(result->sum_x2, result->sum_e2);
            row->max_abs_error = result->max_abs_error;
            row->zeros_before = result->zeros_before;
            row->zeros_after = result->zeros_after;
            row->clipped = result->clipped;
        }
    }
    vc_totals_compute(job->rows, job->report.n_rows, &job->report.totals);
    return add_late_note(ctx, job);
}
