/* totals.c - adds up the rows of a report. See totals.h. */
#include "core/job/totals.h"

#include <math.h>

#include "core/base/exact_sum.h"

double vc_sqnr_db(double x2, double e2)
{
    return e2 == 0.0 ? (double)INFINITY : 10.0 * log10(x2 / e2);
}

static void add_row(const struct vc_report_row *row, struct vc_report_totals *totals)
{
    bool weight = row->role == VC_ROLE_WEIGHT && row->action != VC_ACTION_TIED;

    totals->n_tensors++;
    totals->n_kept += row->action == VC_ACTION_KEPT;
    totals->n_dropped += row->action == VC_ACTION_DROPPED;
    totals->n_tied += row->action == VC_ACTION_TIED;
    totals->n_params += weight && row->dtype_before != VC_DTYPE_RAW ? row->n_elems : 0;
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

void vc_totals_compute(const struct vc_report_row *rows, size_t n, struct vc_report_totals *totals)
{
    uint64_t file_before = totals->file_before;
    uint64_t file_after = totals->file_after;
    struct vc_exact_sum x2;
    struct vc_exact_sum e2;
    uint64_t weights;
    size_t i;

    *totals = (struct vc_report_totals){.file_before = file_before, .file_after = file_after, .worst = VC_NO_TENSOR};
    vc_exact_clear(&x2);
    vc_exact_clear(&e2);
    for (i = 0; i < n; i++) {
        add_row(&rows[i], totals);
        if (rows[i].measured) {
            totals->measured = true;
            vc_exact_add(&x2, rows[i].sum_x2);
            vc_exact_add(&e2, rows[i].sum_e2);
            if (totals->worst == VC_NO_TENSOR || rows[i].sqnr_db < rows[totals->worst].sqnr_db) {
                totals->worst = i;
            }
        }
    }
    totals->n_changed = totals->n_tensors - totals->n_kept - totals->n_dropped - totals->n_tied;
    totals->device_native = totals->host_after;
    weights = totals->host_after - totals->optimizer_after - totals->other_after;
    totals->bits_per_weight = totals->n_params == 0 ? 0.0 : 8.0 * (double)weights / (double)totals->n_params;
    totals->sqnr_db = totals->measured ? vc_sqnr_db(vc_exact_value(&x2), vc_exact_value(&e2)) : 0.0;
}
