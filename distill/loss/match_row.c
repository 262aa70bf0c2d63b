/* match_row.c - see match_row.h.
 *
 * A point's gradient is written together with its loss. `by` has everything that the term is multiplied by,
 * so the gradient is that of the whole loss. */
#include "distill/loss/match_row.h"
#include "distill/loss/relate.h"

#include <math.h>
#include <string.h>

/* The point is one of those that count. */
static bool counts(const struct vc_match_row *r, size_t p)
{
    return r->mask == NULL || r->mask[p] != 0;
}

/* One point: the mean of the squares, and 2 d / width. */
static double mse_point(const struct vc_match_row *r, const double *s, const double *t, double *gradient)
{
    double sum = 0;

    for (size_t i = 0; i < r->width; i++) {
        double d = s[i] - t[i];

        sum += d * d;
        gradient[i] = r->by * 2 * d / (double)r->width;
    }
    return sum / (double)r->width;
}

/* d cos / ds = t / (|s| |t|) - cos s / |s|^2 */
static double cosine_point(const struct vc_match_row *r, const double *s, const double *t, double *gradient)
{
    double squares = vc_relate_dot(s, s, r->width);
    double norms = sqrt(squares) * sqrt(vc_relate_dot(t, t, r->width));

    if (norms == 0) {
        return 1;
    }
    double cosine = vc_relate_dot(s, t, r->width) / norms;
    for (size_t i = 0; i < r->width; i++) {
        gradient[i] = r->by * (cosine * s[i] / squares - t[i] / norms);
    }
    return 1 - cosine;
}

/* The map of one side, divided by its norm, which is returned. Points that do not count are 0. */
static double make_map(const struct vc_match_row *r, const double *x, size_t width, double *map)
{
    for (size_t p = 0; p < r->n_points; p++) {
        map[p] = counts(r, p) ? vc_relate_dot(x + p * width, x + p * width, width) : 0;
    }
    double norm = sqrt(vc_relate_dot(map, map, r->n_points));
    for (size_t p = 0; norm != 0 && p < r->n_points; p++) {
        map[p] /= norm;
    }
    return norm;
}

/* With F the squared lengths of the points, Q = F / |F| and g = 2 (Q_s - Q_t):
 *
 *     d / dF = (g - Q_s (g Q_s)) / |F|,  d / ds = d / dF 2 s
 *
 * The first is the derivative of a vector over its own length: what lies along Q_s is taken away, as it
 * would only change the length. */
static double attention(const struct vc_match_row *r)
{
    double *q = r->maps;
    double *g = q + r->n_points;
    double norm = make_map(r, r->student, r->width, q);
    double sum = 0;

    (void)make_map(r, r->teacher, r->teacher_width, g);
    for (size_t p = 0; p < r->n_points; p++) {
        double d = q[p] - g[p];

        sum += d * d;
        g[p] = 2 * d;
    }
    double along = vc_relate_dot(g, q, r->n_points);
    for (size_t p = 0; norm != 0 && p < r->n_points; p++) {
        double by = counts(r, p) ? r->by * 2 * (g[p] - q[p] * along) / norm : 0;

        for (size_t i = 0; i < r->width; i++) {
            r->gradient[p * r->width + i] = by * r->student[p * r->width + i];
        }
    }
    return sum;
}

/* Points that do not count have a gradient of 0. */
double vc_match_row(const struct vc_match_row *r)
{
    double sum = 0;

    memset(r->gradient, 0, r->n_points * r->width * sizeof *r->gradient);
    if (r->kind == VC_MATCH_ATTENTION) {
        return attention(r);
    }
    for (size_t p = 0; p < r->n_points; p++) {
        const double *s = r->student + p * r->width;
        const double *t = r->teacher + p * r->width;
        double *gradient = r->gradient + p * r->width;

        if (counts(r, p)) {
            sum += r->kind == VC_MATCH_MSE ? mse_point(r, s, t, gradient) : cosine_point(r, s, t, gradient);
        }
    }
    return sum;
}
