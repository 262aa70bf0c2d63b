/* compensate.c - see compensate.h.
 *
 *     vc_compensation_make    order of columns, H in the reverse order, its lower factor, the inverse of that: U
 *     vc_compensate           rounding in that order, eight rows side by side
 *     vc_descend              one weight after the other again, for grids of few values
 *
 * Two weights, H = [[2, 1], [1, 2]], a grid of whole numbers, w = (0.4, 0.4):
 *
 *     each by itself     q = (0, 0)     e H e = 0.16 * 6 = 0.96
 *     compensated        q0 = 0, and w1 takes 0.4 * H01 / H11 = 0.2 over: 0.6, q1 = 1
 *                        e = (-0.4, 0.6): 2 * 0.16 - 2 * 0.24 + 2 * 0.36 = 0.56
 */
#include "passes/statistics/compensate.h"

#include "kernels/grid_codes.h"

struct vc_compensation {
    size_t k;
    size_t *order; /* the column that is rounded first, second, ... */
    float *factor; /* U: row j has its elements from j on, K of them */
};

uint64_t vc_compensation_bytes(uint64_t k)
{
    return k * k * (sizeof(double) + sizeof(float)) + k * (sizeof(size_t) + 2 * sizeof(double));
}

/* Accepts what is half made. */
void vc_compensation_free(struct vc_ctx *ctx, struct vc_compensation *c)
{
    if (c != NULL) {
        VC_FREE_ALL(ctx, c->order, c->factor, c);
    }
}

/* ---- the order of columns ---- */

/* A column with what it is sorted by. */
struct column {
    double weight;
    size_t index;
};

/* For qsort: the larger weight first. The index makes all columns different, so that the order is the same
 * everywhere. */
static int by_weight(const void *a, const void *b)
{
    const struct column *x = a;
    const struct column *y = b;

    if (x->weight != y->weight) {
        return x->weight > y->weight ? -1 : 1;
    }
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Descending by the diagonal; of equal ones the first column first. */
static enum vc_status sort_columns(struct vc_ctx *ctx, const float *moments, bool sorted, struct vc_compensation *c)
{
    VC_SCOPED struct column *columns = vc_alloc_array(ctx, VC_TAG_MISC, c->k + 1, sizeof *columns);

    VC_CALL_ALLOC(columns);
    for (size_t j = 0; j < c->k; j++) {
        columns[j] = (struct column){sorted ? (double)moments[j * c->k + j] : 0.0, j};
    }
    qsort(columns, c->k, sizeof *columns, by_weight);
    for (size_t j = 0; j < c->k; j++) {
        c->order[j] = columns[j].index;
    }
    return VC_OK;
}

/* ---- the factor ---- */

/* The inverse of a lower triangle, in its place. row: k numbers.
 * Row i of the inverse needs the rows above it, which are inverted by then. */
static void invert(double *m, size_t k, double *row)
{
    for (size_t i = 0; i < k; i++) {
        memset(row, 0, (i + 1) * sizeof *row);
        for (size_t j = 0; j < i; j++) {
            double by = m[i * k + j];
            const double *from = m + j * k;

            for (size_t l = 0; l <= j; l++) {
                row[l] -= by * from[l];
            }
        }
        row[i] = 1.0;
        for (size_t l = 0; l <= i; l++) {
            row[l] /= m[i * k + i];
        }
        memcpy(m + i * k, row, (i + 1) * sizeof *row);
    }
}

/* H of the moments, with rows and columns in the reverse of the order: its lower factor is then what U is made of, for
 * the inverse of a reversed lower triangle is upper.
 * A column whose inputs were always 0 gets a 1 on the diagonal, so that a factor exists;
 * vc_compensation_make then takes it out. */
static void prepare(const struct vc_compensation *c, const float *moments, double count, double *h)
{
    size_t k = c->k;
    double mean = 0.0;
    double damp = 0.01 * fmin(10.0, fmax(1.0, 4.0 * (double)k / count));

    for (size_t j = 0; j < k; j++) {
        mean += (double)moments[j * k + j] / count / (double)k;
    }
    for (size_t i = 0; i < k; i++) {
        for (size_t j = 0; j <= i; j++) {
            h[i * k + j] = (double)moments[c->order[k - 1 - i] * k + c->order[k - 1 - j]] / count;
        }
        h[i * k + i] = h[i * k + i] > 0.0 ? h[i * k + i] + damp * fmax(mean, 0.0) : 1.0;
    }
}

/* Only H's lower triangle is built and factored; everything is in doubles until U is stored. */
enum vc_status vc_compensation_make(struct vc_ctx *ctx, const struct vc_calibration *calibration, const float *moments,
                                    double count, bool sorted, struct vc_compensation **out)
{
    size_t k = (size_t)calibration->row;
    struct vc_compensation *c = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *c);
    double *h = vc_alloc_array(ctx, VC_TAG_TILES, k * k + k, sizeof *h);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY(c == NULL || h == NULL ? VC_E_NOMEM : VC_OK);
    c->k = k;
    VC_TRY(VC_ARRAY(ctx, VC_TAG_MISC, c->order, k));
    VC_TRY(VC_ARRAY(ctx, VC_TAG_TILES, c->factor, k * k));
    VC_TRY(sort_columns(ctx, moments, sorted, c));
    prepare(c, moments, count, h);
    VC_TRY(vc_calibration_factor(ctx, calibration, h, k));
    invert(h, k, h + k * k);
    for (size_t i = 0; i < k; i++) {
        for (size_t j = i; j < k; j++) {
            c->factor[i * k + j] = (float)h[(k - 1 - i) * k + (k - 1 - j)];
        }
        if (!(moments[c->order[i] * (k + 1)] > 0.0f)) {
            c->factor[i * k + i] = INFINITY;
        }
    }
    *out = vc_give(&c);
out:
    vc_free(ctx, h);
    vc_compensation_free(ctx, c);
    return status;
}

/* ---- rows ---- */

/* An error of column j costs (w - q)^2 / U_jj^2 where the columns behind it make up for it as well as can be:
 * the smaller U_jj is, the dearer. */
float vc_compensation_diagonal(const struct vc_compensation *c, size_t j)
{
    return c->factor[j * c->k + j];
}

/* `work` has the columns of all rows next to each other, so that one walk over a row of U serves eight
 * rows. Missing rows are 0 and cost nothing but time. */
void vc_compensate(const struct vc_compensation *c, size_t from, size_t to, float *rows, size_t n, float *work,
                   float (*value)(const void *user, size_t row, size_t column, float x), const void *user)
{
    size_t k = c->k;

    for (size_t j = from; j < k; j++) { /* in the order of rounding, the rows side by side */
        for (size_t r = 0; r < VC_COMPENSATE_ROWS; r++) {
            work[j * VC_COMPENSATE_ROWS + r] = r < n ? rows[r * k + c->order[j]] : 0.0f;
        }
    }
    for (size_t j = from; j < to; j++) {
        const float *factor = c->factor + j * k;
        float e[VC_COMPENSATE_ROWS] = {0.0f};

        for (size_t r = 0; r < n; r++) {
            float x = work[j * VC_COMPENSATE_ROWS + r];
            float *at = &rows[r * k + c->order[j]];
            bool gone = *at == 0.0f;

            *at = gone ? 0.0f : x;
            e[r] = (x - (gone ? 0.0f : value(user, r, c->order[j], x))) / factor[j];
        }
        for (size_t i = j + 1; i < k; i++) {
            for (size_t r = 0; r < VC_COMPENSATE_ROWS; r++) {
                work[i * VC_COMPENSATE_ROWS + r] -= e[r] * factor[i];
            }
        }
    }
    for (size_t j = to; j < k; j++) {
        for (size_t r = 0; r < n; r++) {
            rows[r * k + c->order[j]] = work[j * VC_COMPENSATE_ROWS + r];
        }
    }
}

/* to += by * x. */
static void add(float by, const float *x, size_t k, float *to)
{
    for (size_t i = 0; i < k; i++) {
        to[i] += by * x[i];
    }
}

/* `work` holds (q - w) H, which a change of one weight updates with one row of H. A sweep that changes
 * nothing ends it. */
void vc_descend(const float *h, size_t k, const float *before, float *rows, size_t n, float *work,
                float (*value)(const void *user, size_t row, size_t column, float x), const void *user)
{
    bool more = true;

    memset(work, 0, n * k * sizeof *work); /* (q - w) H, by row */
    for (size_t j = 0; j < k; j++) {
        for (size_t r = 0; r < n; r++) {
            float w = vc_float_at(before, r * k + j);
            float *q = &rows[r * k + j];

            *q = w == 0.0f ? 0.0f : value(user, r, j, *q);
            add(*q - w, h + j * k, k, work + r * k);
        }
    }
    for (unsigned sweep = 0; more && sweep < VC_DESCENT_SWEEPS; sweep++) {
        more = false;
        for (size_t i = 0; i < n * k; i++) { /* columns one after the other, the rows of each */
            size_t j = i / n;
            size_t r = i % n;
            float *q = &rows[r * k + j];
            float to = value(user, r, j, *q - work[r * k + j] / h[j * k + j]);

            if (to != *q && vc_float_at(before, r * k + j) != 0.0f) {
                add(to - *q, h + j * k, k, work + r * k);
                *q = to;
                more = true;
            }
        }
    }
}
