/* totals.c - adds up the rows of a report. See totals.h. */
#include "core/job/totals.h"

#include "core/model/names.h"
#include "kernels/functions.h"

double vc_sqnr_db(double x2, double e2)
{
    return e2 == 0.0 ? (double)INFINITY : 10.0 * vc_log10_f64(x2 / e2);
}

/* Elements of the output's tensor. */
static uint64_t elems_after(const struct vc_report_row *row)
{
    uint64_t n = 1;

    if (row->action == VC_ACTION_KEPT) {
        return row->n_elems;
    }
    for (unsigned d = 0; d < row->n_dims_after; d++) {
        n *= row->shape_after[d];
    }
    return row->action == VC_ACTION_DROPPED ? 0 : n;
}

static void add_row(const struct vc_report_row *row, struct vc_totals *sum)
{
    struct vc_report_totals *totals = &sum->totals;
    bool weight = row->role == VC_ROLE_WEIGHT && row->action != VC_ACTION_TIED && row->dtype_before != VC_DTYPE_RAW;

    totals->n_tensors++;
    totals->n_kept += row->action == VC_ACTION_KEPT;
    totals->n_dropped += row->action == VC_ACTION_DROPPED;
    totals->n_tied += row->action == VC_ACTION_TIED;
    sum->n_elems_after += weight ? elems_after(row) : 0;
    if (weight && !vc_name_is_statistic(row->name)) {
        totals->n_params += row->n_elems;
        sum->n_params_after += elems_after(row);
    }
    if (row->role == VC_ROLE_OPTIMIZER) {
        totals->optimizer_before += row->bytes_before;
        totals->optimizer_after += row->bytes_after;
    } else if (row->role == VC_ROLE_OTHER) {
        totals->other_before += row->bytes_before;
        totals->other_after += row->bytes_after;
    }
    totals->host_before += row->bytes_before;
    totals->host_after += row->bytes_after;
    totals->device_dequantized += row->dequantized_bytes;
    totals->scale_bytes += row->scale_bytes;
}

void vc_totals_begin(struct vc_totals *sum)
{
    *sum = (struct vc_totals){.totals = {.worst = VC_NO_TENSOR}};
    vc_exact_clear(&sum->x2);
    vc_exact_clear(&sum->e2);
}

void vc_totals_add(struct vc_totals *sum, const struct vc_report_row *row)
{
    size_t index = sum->totals.n_tensors;

    add_row(row, sum);
    if (row->measured) {
        vc_exact_add(&sum->x2, row->sum_x2);
        vc_exact_add(&sum->e2, row->sum_e2);
        if (!sum->totals.measured || row->sqnr_db < sum->worst_db) {
            sum->totals.worst = index;
            sum->worst_db = row->sqnr_db;
        }
        sum->totals.measured = true;
    }
}

void vc_totals_end(const struct vc_totals *sum, struct vc_report_totals *totals, uint64_t *n_params_after)
{
    uint64_t file_before = totals->file_before;
    uint64_t file_after = totals->file_after;

    *totals = sum->totals;
    totals->file_before = file_before;
    totals->file_after = file_after;
    totals->n_changed = totals->n_tensors - totals->n_kept - totals->n_dropped - totals->n_tied;
    totals->device_native = totals->host_after;
    uint64_t weights = totals->host_after - totals->optimizer_after - totals->other_after;
    totals->bits_per_weight = sum->n_elems_after == 0 ? 0.0 : 8.0 * (double)weights / (double)sum->n_elems_after;
    *n_params_after = sum->n_params_after;
    totals->sqnr_db = totals->measured ? vc_sqnr_db(vc_exact_value(&sum->x2), vc_exact_value(&sum->e2)) : 0.0;
}
