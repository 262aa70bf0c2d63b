/* totals.c - see totals.h. */
#include "core/totals.h"

#include <math.h>

#include "core/exact_sum.h"

double vc_sqnr_db(double x2, double e2)
{
    return e2 == 0.0 ? (double)INFINITY : 10.0 * log10(x2 / e2);
}

static void add_row(const struct vc_report_row *row, struct vc_report_totals *totals)
{
    totals->n_tensors++;
    totals->n_kept += row->action == VC_ACTION_KEPT;
    totals->n_changed += row->action != VC_ACTION_KEPT;
    totals->n_params += row->dtype_before == VC_DTYPE_RAW ? 0 : row->n_elems;
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
    totals->device_native = totals->host_after;
    totals->bits_per_weight = totals->n_params == 0 ? 0.0 : 8.0 * (double)totals->host_after / (double)totals->n_params;
    totals->sqnr_db = totals->measured ? vc_sqnr_db(vc_exact_value(&x2), vc_exact_value(&e2)) : 0.0;
}
