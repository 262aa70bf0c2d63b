/* relate_distances.c - distances between rows, each side's divided by its mean (RKD-D of arXiv 1904.05068):
 *
 *     d_ij = |s_i - s_j|,  u = d / mean of those above 0,  the same of t;  1 / n^2 * sum of smooth L1 (u_s - u_t)
 *
 *     g = slopes / n^2:   d / dd_ij = g_ij / m - (sum of g d) / (m^2 p)     m the mean, of p distances */
#include <math.h>

#include "distill/loss/relate.h"

uint64_t vc_relate_distances_room(uint64_t n, uint64_t width, uint64_t teacher_width)
{
    return 2 * n * n;
}

/* All distances; returns the mean of the *n_above that are above 0, or 0. */
static double distances(const double *x, size_t n, size_t width, double *d, double *n_above)
{
    double sum = 0;

    *n_above = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            double squares = 0;

            for (size_t c = 0; c < width; c++) {
                double e = x[i * width + c] - x[j * width + c];

                squares += e * e;
            }
            d[i * n + j] = sqrt(squares);
            sum += d[i * n + j];
            *n_above += squares > 0;
        }
    }
    return *n_above > 0 ? sum / *n_above : 0;
}

double vc_relate_distances(const struct vc_relation *r)
{
    size_t n = r->n;
    double *s = r->room;
    double *t = s + n * n;
    double p, of_teacher;
    double teacher = distances(r->teacher, n, r->teacher_width, t, &of_teacher);
    double mean = distances(r->student, n, r->width, s, &p);
    double share = 1 / ((double)n * (double)n);
    double sum = 0;
    double along = 0;

    for (size_t k = 0; k < n * n; k++) {
        double slope;

        sum += share * vc_relate_smooth((mean > 0 ? s[k] / mean : 0) - (teacher > 0 ? t[k] / teacher : 0), &slope);
        t[k] = share * slope;
        along += t[k] * s[k];
    }
    for (size_t k = 0; mean > 0 && k < n * n; k++) {
        size_t i = k / n;
        size_t j = k % n;
        double by = s[k] > 0 ? r->by * (t[k] / mean - along / (mean * mean * p)) / s[k] : 0;

        for (size_t c = 0; by != 0 && c < r->width; c++) {
            double e = by * (r->student[i * r->width + c] - r->student[j * r->width + c]);

            r->gradient[i * r->width + c] += e;
            r->gradient[j * r->width + c] -= e;
        }
    }
    return sum;
}
