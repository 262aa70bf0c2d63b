/* lost_columns.c - see lost_columns.h. Vectors of all rows lie side by side, element j of row r at j * R + r. */
#include "passes/statistics/lost_columns.h"

#include "passes/statistics/cholesky.h"

#define R VC_LOST_ROWS

struct vc_lost_columns {
    size_t k, n_kept;
    size_t *columns; /* those that stay, then those that go */
    float *h;        /* C, damped */
    float *means;    /* of the inputs; 0 without a bias */
    double *factor;  /* of its part that stays: lower */
    uint8_t *mask;   /* of VC_LOST_ROWS rows, for refit.h */
};

uint64_t vc_lost_columns_bytes(uint64_t k)
{
    return k * k * (sizeof(float) + sizeof(double)) + k * (sizeof(size_t) + 3 * sizeof(float));
}

void vc_lost_columns_free(struct vc_ctx *ctx, struct vc_lost_columns *c)
{
    if (c != NULL) {
        VC_FREE_ALL(ctx, c->columns, c->h, c->means, c->factor, c->mask, c);
    }
}

/* Columns that stay come first, so that the factor of their part is the upper left of the whole. */
static void list_columns(struct vc_lost_columns *c, const bool *gone)
{
    size_t n = 0;

    for (size_t go = 0; go < 2; go++) {
        for (size_t j = 0; j < c->k; j++) {
            if (gone[j] == (go == 1)) {
                c->columns[n++] = j;
            }
        }
        c->n_kept = go == 0 ? n : c->n_kept;
    }
    for (size_t i = 0; i < R * c->k; i++) {
        c->mask[i / 8] |= (uint8_t)(!gone[i % c->k] << i % 8);
    }
}

/* Second moments, about the means where a bias takes those up, damped. */
enum vc_status vc_lost_columns_load(struct vc_ctx *ctx, const struct vc_calibration *calibration, bool centred,
                                    float *h, float *means)
{
    size_t k = (size_t)calibration->row;
    double count;

    VC_CALL(vc_calibration_load_moments(ctx, calibration, h, &count));
    if (centred) {
        VC_CALL(vc_calibration_load_means(ctx, calibration, means));
        vc_calibration_centre(h, count, means, k);
    }
    vc_refit_prepare(h, count, k);
    return VC_OK;
}

/* What all rows share: which columns go is the same for them, so one factor serves all. */
enum vc_status vc_lost_columns_make(struct vc_ctx *ctx, const struct vc_calibration *calibration, const bool *gone,
                                    bool centred, struct vc_lost_columns **out)
{
    size_t k = (size_t)calibration->row;
    struct vc_lost_columns *c = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *c);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(c);
    c->k = k;
    VC_TRY(VC_ARRAY(ctx, VC_TAG_MISC, c->columns, k));
    VC_TRY(VC_ARRAY(ctx, VC_TAG_TILES, c->h, k * k));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, c->means, k));
    VC_TRY_ALLOC(c->mask = vc_calloc_array(ctx, VC_TAG_MISC, R * k / 8 + 1, 1));
    list_columns(c, gone);
    VC_TRY(vc_lost_columns_load(ctx, calibration, centred, c->h, c->means));
    VC_TRY(VC_ARRAY(ctx, VC_TAG_TILES, c->factor, k * k));
    for (size_t i = 0; i < k; i++) {
        for (size_t j = 0; j <= i; j++) {
            c->factor[i * k + j] = (double)c->h[c->columns[i] * k + c->columns[j]];
        }
    }
    VC_TRY(vc_calibration_factor(ctx, calibration, c->factor, k)); /* all of C, whose columns that go count, too */
    for (size_t i = 1; i < c->n_kept; i++) {                       /* what stays comes first, so its factor does */
        memmove(c->factor + i * c->n_kept, c->factor + i * k, (i + 1) * sizeof *c->factor);
    }
    *out = vc_give(&c);
out:
    vc_lost_columns_free(ctx, c);
    return status;
}

size_t vc_lost_columns_work(size_t k)
{
    size_t refit = vc_refit_floats(k) * sizeof(float);

    return k * R * sizeof(float) + (refit > k * R * sizeof(double) ? refit : k * R * sizeof(double));
}

/* A weight that was 0 must stay 0, which the shared factor does not know. */
static bool has_zeros(const struct vc_lost_columns *c, const float *rows, size_t n)
{
    for (size_t r = 0; r < n; r++) {
        for (size_t i = 0; i < c->n_kept; i++) {
            if (rows[r * c->k + c->columns[i]] == 0.0f) {
                return true;
            }
        }
    }
    return false;
}

/* y = C_kd w_d */
static void multiply(const struct vc_lost_columns *c, const float *rows, size_t n, double *y)
{
    for (size_t i = 0; i < c->n_kept; i++) {
        const float *h = c->h + c->columns[i] * c->k;
        double sum[R] = {0.0};

        for (size_t j = c->n_kept; j < c->k; j++) {
            for (size_t r = 0; r < n; r++) {
                sum[r] += (double)h[c->columns[j]] * (double)rows[r * c->k + c->columns[j]];
            }
        }
        memcpy(y + i * R, sum, sizeof sum);
    }
}

/* Where any of the rows has a zero, all are refit step by step; else they are solved with the shared
 * factor: w_k += C_kk^-1 C_kd w_d. `gains` is what a bias has to take up: means times the change of the
 * row. */
void vc_lost_columns_rows(const struct vc_lost_columns *c, float *rows, size_t n, void *work, double *gains)
{
    float *before = work;
    double *y = (double *)(void *)(before + c->k * R);

    memcpy(before, rows, n * c->k * sizeof *rows);
    if (has_zeros(c, rows, n)) {
        vc_refit(c->h, c->k, c->mask, 0, rows, n, (float *)(void *)y);
    } else {
        multiply(c, rows, n, y);
        vc_cholesky_solve(c->factor, c->n_kept, y);
        for (size_t r = 0; r < n; r++) {
            for (size_t i = 0; i < c->k; i++) {
                float *w = &rows[r * c->k + c->columns[i]];

                *w = i < c->n_kept ? (float)((double)*w + y[i * R + r]) : 0.0f;
            }
        }
    }
    for (size_t r = 0; gains != NULL && r < n; r++) {
        gains[r] = 0.0;
        for (size_t j = 0; j < c->k; j++) {
            gains[r] += (double)c->means[j] * ((double)before[r * c->k + j] - (double)rows[r * c->k + j]);
        }
    }
}
