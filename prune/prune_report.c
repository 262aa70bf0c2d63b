/* prune_report.c - what pruning reached and what it saves, over all tensors: report.pruning. From the plan which
 * tensors, and what runtimes for 2:4 sparsity would make of them; after the run, the zeros. Of several passes that
 * prune, the last one counts for all of them. */

#include "core/job/job_passes.h"
#include "kernels/functions.h"
#include "prune/prune_pass.h"

/* Some step of its chain made zeros. */
static bool is_pruned(const struct vc_item *item)
{
    return vc_item_has_action(item, VC_ACTION_PRUNED);
}

/* The step whose pattern the result has; NULL: none. Later steps but those that change the shape leave zeros where they
 * are. */
static const struct vc_step *pattern_of(const struct vc_item *item)
{
    const struct vc_step *found = NULL;

    for (size_t k = 0; k < item->chain->n_steps; k++) {
        const struct vc_step *step = item->chain->steps[k];

        found = step->group != 0 ? step : step->regroups ? NULL : found;
    }
    return found;
}

/* Whether the tensor was pruned 2:4, and kernels for that pattern take it: sparse tensor cores compute on 16-bit floats
 * and int8, and tile 8 output and 16 input channels. n_out: output channels. */
static bool fits_2_4(const struct vc_item *item)
{
    const struct vc_desc *desc = item->desc;
    const struct vc_tensor *tensor = &item->set->model->tensors[item->source];
    unsigned output = tensor->channel_axis;
    const struct vc_step *step = pattern_of(item);

    /* the pattern and the type */
    if (step == NULL || step->keep != 2 || step->group != 4 || desc->n_dims < 2 || output >= desc->n_dims ||
        (desc->dtype != VC_DTYPE_F16 && desc->dtype != VC_DTYPE_BF16 && desc->dtype != VC_DTYPE_I8)) {
        return false;
    }
    uint64_t n_out = desc->shape[output];
    return n_out % 8 == 0 && vc_input_axis(tensor) < desc->n_dims && vc_input_axis(tensor) != output &&
           desc->shape[vc_input_axis(tensor)] % 16 == 0;
}

/* From the plan alone. Half of the values stay, with 2 bits for the place of each: n/2 values and n/8 bytes. */
static void count_planned(const struct vc_plan *plan, const struct vc_report *report, struct vc_report_pruning *p)
{
    for (size_t i = 0; i < report->n_rows; i++) {
        const struct vc_item *item = vc_plan_row_item(plan, i);
        uint64_t n = item->desc->n_elems;

        if (!is_pruned(item)) {
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
}

/* Bits per element that tell which of them are zero. zeros: their share. */
static double mask_entropy(double zeros)
{
    return zeros <= 0.0 || zeros >= 1.0 ? 0.0 : -zeros * vc_log2_f64(zeros) - (1.0 - zeros) * vc_log2_f64(1.0 - zeros);
}

/* Bytes of the tensor's mask at its entropy, of its values that are not zero, and of its scales. A lower bound for what
 * a compressor can reach that knows nothing but zeros. */
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

/* After the run, from the rows of the report. */
static void count_measured(const struct vc_plan *plan, const struct vc_report *report, struct vc_report_pruning *p)
{
    p->measured = true;
    for (size_t i = 0; i < report->n_rows; i++) {
        const struct vc_item *item = vc_plan_row_item(plan, i);
        struct vc_report_row row;

        (void)vc_report_get_row(report, i, &row);
        if (is_pruned(item)) {
            p->measured = p->measured && row.measured;
            add_checked(p, item);
            p->zeros_before += row.zeros_before;
            p->zeros_after += row.zeros_after;
            p->mask_and_values += mask_and_values(&row);
        } else {
            p->mask_and_values += row.bytes_after;
        }
    }
    p->sparsity = p->n_weights == 0 ? 0.0 : (double)p->zeros_after / (double)p->n_weights;
    p->model_sparsity = report->totals.n_params == 0 ? 0.0 : (double)p->zeros_after / (double)report->totals.n_params;
}

enum vc_status vc_prune_report(struct vc_ctx *ctx, struct vc_pass *pass, const struct vc_plan *plan, bool measured,
                               struct vc_report *report)
{
    struct vc_prune *p = pass->self;
    const struct vc_report_pruning *before = report->pruning;

    if (measured) {
        if (before == &p->figures) {
            count_measured(plan, report, &p->figures);
        }
        return VC_OK;
    }
    p->figures = (struct vc_report_pruning){.device_sparse_2_4 = report->totals.device_native,
                                            .masks = p->options.mask_path != NULL ? p->options.mask_path
                                                     : before != NULL             ? before->masks
                                                                                  : NULL};
    count_planned(plan, report, &p->figures);
    report->pruning = p->figures.n_tensors != 0 ? &p->figures : NULL;
    return VC_OK;
}
