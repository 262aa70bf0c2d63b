/* job_pruning.c - what pruning reached and what it saves, over all tensors: report.pruning. From the plan which
 * tensors, and what runtimes for 2:4 sparsity would make of them; after the run, the zeros. */
#include <math.h>

#include "core/base/checked.h"
#include "core/job/job_state.h"
#include "kernels/functions.h"

bool vc_job_is_pruned(const struct vc_item *item)
{
    size_t k = 0;

    while (k < item->chain->n_steps && item->chain->steps[k]->action != VC_ACTION_PRUNED) {
        k++;
    }
    return k < item->chain->n_steps && !vc_item_is_idle(item);
}

/* The step whose pattern the result has; NULL: none. Later steps but those that change the shape leave zeros where they
 * are. */
static const struct vc_step *pattern_of(const struct vc_item *item)
{
    const struct vc_step *found = NULL;
    size_t k;

    for (k = 0; k < item->chain->n_steps; k++) {
        const struct vc_step *step = item->chain->steps[k];

        found = step->group != 0 ? step : step->regroups ? NULL : found;
    }
    return found;
}

/* Whether the tensor was pruned 2:4, and kernels for that pattern take it: sparse tensor cores compute on 16-bit floats
 * and int8, and tile 8 output and 16 input channels. */
static bool fits_2_4(const struct vc_item *item)
{
    const struct vc_desc *desc = item->desc;
    const struct vc_tensor *tensor = &item->set->model->tensors[item->source];
    unsigned output = tensor->channel_axis;
    const struct vc_step *step = pattern_of(item);
    uint64_t n_out;

    if (step == NULL || step->keep != 2 || step->group != 4 || desc->n_dims < 2 || output >= desc->n_dims ||
        (desc->dtype != VC_DTYPE_F16 && desc->dtype != VC_DTYPE_BF16 && desc->dtype != VC_DTYPE_I8)) {
        return false;
    }
    n_out = desc->shape[output];
    return n_out % 8 == 0 && vc_input_axis(tensor) < desc->n_dims && vc_input_axis(tensor) != output &&
           desc->shape[vc_input_axis(tensor)] % 16 == 0;
}

enum vc_status vc_job_report_pruning(struct vc_ctx *ctx, struct vc_job *job)
{
    struct vc_report_pruning *p = vc_arena_alloc(ctx, &job->arena, sizeof *p);
    size_t i;

    if (p == NULL) {
        return VC_E_NOMEM;
    }
    *p = (struct vc_report_pruning){.device_sparse_2_4 = job->report.totals.device_native, .masks = job->masks};
    for (i = 0; i < job->report.n_rows; i++) {
        const struct vc_item *item = vc_job_row_item(job, i);
        uint64_t n = item->desc->n_elems;

        if (!vc_job_is_pruned(item)) {
            continue;
        }
        p->n_tensors++;
        p->n_weights += n;
        p->mask_bytes += vc_ceil_div_u64(n, 8);
        p->pruned_bytes += vc_dtype_bytes(item->desc->dtype, n);
        if (fits_2_4(item)) {
            p->n_sparse_2_4++;
            p->device_sparse_2_4 -= vc_dtype_bytes(item->desc->dtype, n) / 2 - n / 8;
        }
    }
    job->pruning = p;
    job->report.pruning = p->n_tensors != 0 ? p : NULL;
    return VC_OK;
}

/* Bits per element that tell which of them are zero. */
static double mask_entropy(double zeros)
{
    return zeros <= 0.0 || zeros >= 1.0 ? 0.0 : -zeros * vc_log2_f64(zeros) - (1.0 - zeros) * vc_log2_f64(1.0 - zeros);
}

/* Bytes of the tensor's mask at its entropy, of its values that are not zero, and of its scales. */
static uint64_t mask_and_values(const struct vc_report_row *row)
{
    double n = (double)row->n_elems;
    double zeros = row->n_elems == 0 ? 0.0 : (double)row->zeros_after / n;
    double values = (double)(row->bytes_after - row->scale_bytes);

    return (uint64_t)ceil(mask_entropy(zeros) * n / 8.0 + (1.0 - zeros) * values) + row->scale_bytes;
}

/* What was looked at of one pattern: that of the first tensor that has one. */
static void add_checked(struct vc_report_pruning *p, const struct vc_item *item)
{
    const struct vc_step *step = pattern_of(item);

    if (step == NULL || step->n_checked == 0) {
        return;
    }
    if (p->n_pattern == 0) {
        p->pattern_keep = step->keep;
        p->pattern_group = step->group;
    }
    if (step->keep == p->pattern_keep && step->group == p->pattern_group) {
        p->n_pattern++;
        p->n_groups += step->n_checked;
    }
}

void vc_job_report_zeros(struct vc_job *job)
{
    struct vc_report_pruning *p = job->pruning;
    size_t i;

    if (job->report.pruning == NULL) {
        return;
    }
    p->measured = true;
    for (i = 0; i < job->report.n_rows; i++) {
        const struct vc_report_row row = vc_job_row(job, i);

        if (vc_job_is_pruned(vc_job_row_item(job, i))) {
            p->measured = p->measured && row.measured;
            add_checked(p, vc_job_row_item(job, i));
            p->zeros_before += row.zeros_before;
            p->zeros_after += row.zeros_after;
            p->mask_and_values += mask_and_values(&row);
        } else {
            p->mask_and_values += row.bytes_after;
        }
    }
    p->sparsity = p->n_weights == 0 ? 0.0 : (double)p->zeros_after / (double)p->n_weights;
    p->model_sparsity =
        job->report.totals.n_params == 0 ? 0.0 : (double)p->zeros_after / (double)job->report.totals.n_params;
}
