/* cholesky.c - see cholesky.h.
 *
 *     M = L L'       row by row: L_ij = (M_ij - L_i . L_j) / L_jj,   L_ii = sqrt(M_ii - L_i . L_i)
 *     M x = y        L z = y from the first row on, then L' x = z from the last
 *
 * Rows of L lie one behind the other, so that both products of rows walk along memory. The second half of a
 * solution subtracts from all rows above instead of collecting from below, for the same reason. */
#include "passes/statistics/cholesky.h"

#include <math.h>

#define LANES 8 /* partial sums of a product of two rows */
#define SIDES VC_CHOLESKY_SIDES

/* A sum in LANES chains that are joined in pairs: the same bits on every machine. */
static double dot(const double *a, const double *b, size_t n)
{
    double lanes[LANES] = {0.0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            lanes[l] += a[i + l] * b[i + l];
        }
    }
    for (size_t l = 0; i < n; i++, l++) {
        lanes[l] += a[i] * b[i];
    }
    for (size_t half = LANES / 2; half > 0; half /= 2) {
        for (size_t l = 0; l < half; l++) {
            lanes[l] += lanes[l + half];
        }
    }
    return lanes[0];
}

/* False where a diagonal is not above 0 (or NaN): the matrix is not positive definite, within rounding. */
bool vc_cholesky_factor(double *m, size_t k)
{
    for (size_t i = 0; i < k; i++) {
        for (size_t j = 0; j < i; j++) {
            m[i * k + j] = (m[i * k + j] - dot(m + i * k, m + j * k, j)) / m[j * k + j];
        }
        m[i * k + i] -= dot(m + i * k, m + i * k, i);
        if (!(m[i * k + i] > 0.0)) {
            return false;
        }
        m[i * k + i] = sqrt(m[i * k + i]);
    }
    return true;
}

/* SIDES right sides at once: each element of the factor is loaded once for all of them. */
void vc_cholesky_solve(const double *factor, size_t k, double *y)
{
    for (size_t i = 0; i < k; i++) {
        double *to = y + i * SIDES;

        for (size_t j = 0; j < i; j++) {
            for (size_t r = 0; r < SIDES; r++) {
                to[r] -= factor[i * k + j] * y[j * SIDES + r];
            }
        }
        for (size_t r = 0; r < SIDES; r++) {
            to[r] /= factor[i * k + i];
        }
    }
    for (size_t i = k; i-- > 0;) {
        const double *from = y + i * SIDES;

        for (size_t r = 0; r < SIDES; r++) {
            y[i * SIDES + r] /= factor[i * k + i];
        }
        for (size_t j = 0; j < i; j++) {
            for (size_t r = 0; r < SIDES; r++) {
                y[j * SIDES + r] -= factor[i * k + j] * from[r];
            }
        }
    }
}
