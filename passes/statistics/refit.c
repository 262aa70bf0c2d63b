/* refit.c - see refit.h. Vectors of all rows lie side by side, element j of row r at j * R + r. */
#include "passes/statistics/refit.h"

#include <math.h>

#define R      VC_REFIT_ROWS
#define CHUNK  256  /* terms of a product that are added up before they are added to the others */
#define ENOUGH 1e-7 /* of the first residual, squared */

size_t vc_refit_floats(size_t k)
{
    return 4 * k * R;
}

/* Moments become means, with something added to the diagonal: 1 % of its mean, up to ten times that where
 * there were few inputs for the number of columns. */
void vc_refit_prepare(float *moments, double count, size_t k)
{
    double damp = 0.01 * fmin(10.0, fmax(1.0, 4.0 * (double)k / count));
    double mean = 0.0;

    for (size_t j = 0; j < k; j++) {
        mean += (double)moments[j * k + j] / count / (double)k;
    }
    for (size_t i = 0; i < k * k; i++) {
        moments[i] = (float)((double)moments[i] / count);
    }
    for (size_t j = 0; j < k; j++) {
        moments[j * k + j] += mean > 0.0 ? (float)(damp * mean) : 1.0f;
    }
}

/* y = H x */
static void multiply(const float *h, size_t k, const float *x, float *y)
{
    for (size_t i = 0; i < k; i++) {
        const float *row = h + i * k;
        float sum[R] = {0.0f};

        for (size_t first = 0; first < k; first += CHUNK) {
            size_t end = first + CHUNK < k ? first + CHUNK : k;
            float part[R] = {0.0f};

            for (size_t j = first; j < end; j++) {
                for (size_t r = 0; r < R; r++) {
                    part[r] += row[j] * x[j * R + r];
                }
            }
            for (size_t r = 0; r < R; r++) {
                sum[r] += part[r];
            }
        }
        memcpy(y + i * R, sum, sizeof sum);
    }
}

/* The inner product of each row of a with that of b, divided by the diagonal of h, if that is given. */
static void products(const float *a, const float *b, const float *h, size_t k, double *out)
{
    memset(out, 0, R * sizeof *out);
    for (size_t j = 0; j < k; j++) {
        double by = h != NULL ? 1.0 / (double)h[j * k + j] : 1.0;

        for (size_t r = 0; r < R; r++) {
            out[r] += (double)a[j * R + r] * (double)b[j * R + r] * by;
        }
    }
}

/* A weight that was 0 stays 0, whatever the mask says. */
static bool stays(const uint8_t *mask, size_t at, float weight)
{
    return (mask[at / 8] & 1U << at % 8) != 0 && weight != 0.0f;
}

/* Zeros where weights are gone. */
static void apply(const uint8_t *mask, size_t first, const float *rows, size_t k, size_t n, float *x)
{
    for (size_t r = 0; r < n; r++) {
        for (size_t j = 0; j < k; j++) {
            x[j * R + r] = stays(mask, first + r * k + j, rows[r * k + j]) ? x[j * R + r] : 0.0f;
        }
    }
}

/* p = r / diagonal + beta p */
static void turn(const float *h, size_t k, const float *residual, const double *beta, float *p)
{
    for (size_t j = 0; j < k; j++) {
        for (size_t r = 0; r < R; r++) {
            p[j * R + r] = residual[j * R + r] / h[j * k + j] + (float)beta[r] * p[j * R + r];
        }
    }
}

/* w += alpha p, residual -= alpha H p. */
static void step(size_t n, const double *alpha, const float *p, const float *product, float *w, float *residual)
{
    for (size_t i = 0; i < n; i++) {
        float by = (float)alpha[i % R];

        w[i] += by * p[i];
        residual[i] -= by * product[i];
    }
}

/* Conjugate gradients on the weights that stay, for R rows at a time, with the diagonal as the
 * preconditioner. Each row stops when its residual is small enough; the walk ends when all have, or after
 * VC_REFIT_STEPS. */
void vc_refit(const float *h, size_t k, const uint8_t *mask, size_t first, float *rows, size_t n, float *work)
{
    float *w = work;
    float *residual = w + k * R;
    float *p = residual + k * R;
    float *product = p + k * R;
    double begun[R], norm[R], alpha[R];
    double beta[R] = {0.0};
    bool more = true;

    memset(work, 0, vc_refit_floats(k) * sizeof *work);
    for (size_t j = 0; j < k; j++) { /* p: what is gone */
        for (size_t r = 0; r < n; r++) {
            bool stay = stays(mask, first + r * k + j, rows[r * k + j]);

            w[j * R + r] = stay ? rows[r * k + j] : 0.0f;
            p[j * R + r] = stay ? 0.0f : rows[r * k + j];
        }
    }
    multiply(h, k, p, residual);
    apply(mask, first, rows, k, n, residual);
    memset(p, 0, k * R * sizeof *p);
    products(residual, residual, h, k, norm);
    memcpy(begun, norm, sizeof norm);
    for (unsigned i = 0; i < VC_REFIT_STEPS && more; i++) {
        double next[R], curve[R];

        turn(h, k, residual, beta, p);
        multiply(h, k, p, product);
        apply(mask, first, rows, k, n, product);
        products(p, product, NULL, k, curve);
        for (size_t r = 0; r < R; r++) {
            alpha[r] = curve[r] > 0.0 && norm[r] > ENOUGH * begun[r] ? norm[r] / curve[r] : 0.0;
        }
        step(k * R, alpha, p, product, w, residual);
        products(residual, residual, h, k, next);
        more = false;
        for (size_t r = 0; r < R; r++) {
            beta[r] = alpha[r] > 0.0 ? next[r] / norm[r] : 0.0;
            norm[r] = next[r];
            more = more || (alpha[r] > 0.0 && norm[r] > ENOUGH * begun[r]);
        }
    }
    for (size_t r = 0; r < n; r++) {
        for (size_t j = 0; j < k; j++) {
            rows[r * k + j] = w[j * R + r];
        }
    }
}
