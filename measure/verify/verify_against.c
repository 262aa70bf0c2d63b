/* verify_against.c - a file and what it was made from: the same tensors in the same shapes, kept ones byte
 * for byte, the error of the others.
 *
 *     in the file       in the source      judged by
 *     same type         same type          bytes: they should have been kept; a least SQNR allows other values
 *     codes, f16        f32                SQNR: at least the given one, or, with a warning, 10 dB
 *     -                 a weight           missing: an error; a warning where it is another name of a tensor
 *     a tensor          -                  extra: an error
 */

#include <math.h>

#include "core/job/totals.h"
#include "measure/diff.h"
#include "measure/verify/verify_parts.h"

#define VC_LOW_SQNR_DB 10.0 /* below it, something else than rounding is likely to have happened */

struct against_job {
    const struct verify *v;
    struct vc_diff_pair *pairs; /* a: the source's tensor, b: the file's */
    struct vc_diff_row *rows;
    char **errors;
};

/* The SQNR as it is printed: the sign of a NaN depends on the compiler. */
static double shown(double sqnr_db)
{
    return isnan(sqnr_db) ? fabs(sqnr_db) : sqnr_db;
}

/* A vc_exec_each function. A tensor of the file that could not be read has its finding already. */
static enum vc_status one_pair(struct vc_ctx *ctx, void *user, size_t index, struct vc_buffers *buffers)
{
    const struct against_job *job = user;
    const struct vc_diff_pair *pair = &job->pairs[index];

    if (pair->b != VC_NO_TENSOR && !job->v->rows[pair->b].read) {
        job->rows[index] = (struct vc_diff_row){.name = job->v->rows[pair->b].name};
        return VC_OK; /* said already */
    }
    return vc_verify_take(ctx, vc_diff_pair(ctx, job->v->source, job->v->model, pair, &job->rows[index], buffers),
                          &job->errors[index]);
}

/* ---- findings ---- */

/* A tensor that the file does not have. Those that are no weights may be left out on purpose. */
static enum vc_status report_missing(struct vc_ctx *ctx, const struct verify *v, size_t index)
{
    const struct vc_tensor *t = &v->source->tensors[index];

    if (t->role != VC_ROLE_WEIGHT || vc_findings_has(&v->findings, t->name)) {
        return VC_OK;
    }
    if (t->alias_of != VC_NO_TENSOR) {
        return vc_find(ctx, VC_SEVERITY_WARNING, "missing", t->name, "is not in the file; in the source it is '%s'",
                       v->source->tensors[t->alias_of].name);
    }
    return vc_find(ctx, VC_SEVERITY_ERROR, "missing", t->name, "is not in the file");
}

/* Same type, other bytes: what should have been kept. */
static enum vc_status report_changed(struct vc_ctx *ctx, const struct verify *v, const struct vc_diff_row *row)
{
    if (!row->numeric) {
        return vc_find(ctx, VC_SEVERITY_ERROR, "changed", row->name, "has the source's type, %s, but other values",
                       vc_dtype_name(row->dtype_a));
    }
    if (v->options.min_sqnr_db > 0.0 && row->sqnr_db >= v->options.min_sqnr_db) {
        return VC_OK;
    }
    if (row->kind == VC_DIFF_SAME) {
        return vc_find(ctx, VC_SEVERITY_WARNING, "changed", row->name,
                       "has the source's values, but other bits (the sign of a zero, the bits of a NaN)");
    }
    return vc_find(ctx, VC_SEVERITY_ERROR, "changed", row->name,
                   "has the source's type, %s, but other values: SQNR %.1f dB, max error %g",
                   vc_dtype_name(row->dtype_a), shown(row->sqnr_db), row->max_abs_error);
}

/* Another type than in the source: the error must be one of rounding. */
static enum vc_status report_quality(struct vc_ctx *ctx, const struct verify *v, const struct vc_diff_row *row)
{
    double least = v->options.min_sqnr_db;

    if (least > 0.0 && !(row->sqnr_db >= least)) {
        return vc_find(ctx, VC_SEVERITY_ERROR, "sqnr", row->name, "has an SQNR of %.2f dB, expected %.2f dB",
                       shown(row->sqnr_db), least);
    }
    if (!(least > 0.0) && !(row->sqnr_db >= VC_LOW_SQNR_DB)) {
        return vc_find(ctx, VC_SEVERITY_WARNING, "sqnr", row->name,
                       "has an SQNR of %.2f dB: are these the weights of that source?", shown(row->sqnr_db));
    }
    return VC_OK;
}

/* The finding of one pair, if there is one: by what vc_diff_pair says, then by the types of both. */
static enum vc_status report_pair(struct vc_ctx *ctx, const struct verify *v, const struct vc_diff_pair *pair,
                                  const struct vc_diff_row *row)
{
    const struct vc_tensor *t = pair->b != VC_NO_TENSOR ? &v->model->tensors[pair->b] : NULL;

    switch (row->kind) {
    case VC_DIFF_ONLY_A:
        return report_missing(ctx, v, pair->a);
    case VC_DIFF_ONLY_B:
        return vc_find(ctx, VC_SEVERITY_ERROR, "extra", row->name, "is not in the source");
    case VC_DIFF_SHAPE:
        return vc_find(ctx, VC_SEVERITY_ERROR, "shape", row->name, "has another shape than in the source");
    case VC_DIFF_VALUES:
    case VC_DIFF_SAME:
        break;
    }
    if (!row->numeric && row->dtype_a != row->dtype_b) {
        return vc_find(ctx, VC_SEVERITY_ERROR, "type", row->name, "has type %s, in the source %s",
                       vc_dtype_name(row->dtype_b), vc_dtype_name(row->dtype_a));
    }
    if (row->dtype_a == row->dtype_b && t->quant == NULL && v->source->tensors[pair->a].quant == NULL) {
        return row->identical ? VC_OK : report_changed(ctx, v, row);
    }
    return row->numeric ? report_quality(ctx, v, row) : VC_OK;
}

/* ---- the whole ---- */

/* Fills in the row, and the totals: SQNR over all tensors that are not the same bytes, and which of them is
 * the worst. What the source has under two names counts once, as in the report of the pass. */
static void take_figures(struct verify *v, const struct vc_diff_pair *pair, const struct vc_diff_row *diff,
                         struct vc_exact_sum *sums)
{
    struct vc_verification *r = &v->result;

    if (diff->kind != VC_DIFF_SAME && diff->kind != VC_DIFF_VALUES) {
        return;
    }
    struct vc_verify_row *row = &v->rows[pair->b];
    row->compared = true;
    row->identical = diff->identical;
    row->numeric = diff->numeric;
    row->sqnr_db = diff->sqnr_db;
    row->max_abs_error = diff->max_abs_error;
    r->n_compared++;
    r->n_identical += diff->identical;
    if (diff->numeric && !diff->identical) {
        if (v->source->tensors[pair->a].alias_of == VC_NO_TENSOR) {
            vc_exact_add(&sums[0], diff->sum_x2);
            vc_exact_add(&sums[1], diff->sum_e2);
        }
        r->measured = true;
        r->worst = r->worst == VC_NO_TENSOR || diff->sqnr_db < v->rows[r->worst].sqnr_db ? pair->b : r->worst;
    }
}

/* Findings come from this thread, in the order of the pairs, whatever order the threads had. */
static enum vc_status report(struct vc_ctx *ctx, struct verify *v, const struct against_job *job, size_t n)
{
    struct vc_exact_sum sums[2];

    vc_exact_clear(&sums[0]);
    vc_exact_clear(&sums[1]);
    for (size_t i = 0; i < n; i++) {
        if (job->errors[i] != NULL) { /* the file's own tensors were read before */
            VC_CALL(
                vc_find(ctx, VC_SEVERITY_ERROR, "source", job->rows[i].name, "cannot be compared: %s", job->errors[i]));
        } else if (job->pairs[i].b == VC_NO_TENSOR || v->rows[job->pairs[i].b].read) {
            take_figures(v, &job->pairs[i], &job->rows[i], sums);
            VC_CALL(report_pair(ctx, v, &job->pairs[i], &job->rows[i]));
        }
    }
    v->result.sqnr_db = vc_sqnr_db(vc_exact_value(&sums[0]), vc_exact_value(&sums[1]));
    return VC_OK;
}

/* Compares all pairs, by all threads, then reports. */
enum vc_status vc_verify_against(struct vc_ctx *ctx, struct verify *v)
{
    struct against_job job = {.v = v};
    size_t n_max = v->source->n_tensors + v->model->n_tensors;
    struct vc_buffer_sizes sizes = {0};
    enum vc_status status = VC_OK;
    size_t n = 0;

    VC_TRY(VC_ARRAY(ctx, VC_TAG_MISC, job.pairs, n_max));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_REPORT, job.rows, n_max));
    VC_TRY_ALLOC(job.errors = vc_calloc_array(ctx, VC_TAG_REPORT, n_max, sizeof(char *)));
    VC_TRY(vc_diff_pairs(ctx, v->source, v->model, job.pairs, &n));
    vc_diff_sizes(v->source, v->model, &sizes);
    VC_TRY(vc_exec_each(ctx, n, NULL, &sizes, 2, one_pair, &job));
    VC_TRY(report(ctx, v, &job, n));
out:
    for (size_t i = 0; job.errors != NULL && i < n; i++) {
        vc_free(ctx, job.errors[i]);
    }
    VC_FREE_ALL(ctx, job.errors, job.rows, job.pairs);
    return status;
}
