/* cholesky.c - see cholesky.h. */
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
