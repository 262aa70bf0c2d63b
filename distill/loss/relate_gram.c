/* relate_gram.c - products of all pairs of rows, each row of them with the length 1 (arXiv 1907.09682):
 *
 *     G = S S',  Q_i = G_i / |G_i|,  the same of T;  1 / n^2 * sum of (Q_s - Q_t)^2
 *
 *     h = 2 (Q_s - Q_t) / n^2:   d / dG_i = (h_i - Q_i (h_i Q_i)) / |G_i|,   d / dS = (dG + dG') S */
#include <math.h>

#include "distill/loss/relate.h"

uint64_t vc_relate_gram_room(uint64_t n, uint64_t width, uint64_t teacher_width)
{
    return 2 * n * n + n;
}

/* lengths: NULL, or of each row of products, which are 0 where the length is. */
static void products(const double *x, size_t n, size_t width, double *q, double *lengths)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            q[i * n + j] = vc_relate_dot(x + i * width, x + j * width, width);
        }
        double length = sqrt(vc_relate_dot(q + i * n, q + i * n, n));
        for (size_t j = 0; length > 0 && j < n; j++) {
            q[i * n + j] /= length;
        }
        if (lengths != NULL) {
            lengths[i] = length;
        }
    }
}

double vc_relate_gram(const struct vc_relation *r)
{
    size_t n = r->n;
    double *q = r->room;
    double *g = q + n * n; /* of the teacher, then gradients */
    double *lengths = g + n * n;
    double share = 1 / ((double)n * (double)n);
    double sum = 0;

    products(r->teacher, n, r->teacher_width, g, NULL);
    products(r->student, n, r->width, q, lengths);
    for (size_t k = 0; k < n * n; k++) {
        double d = q[k] - g[k];

        sum += share * d * d;
        g[k] = 2 * share * d;
    }
    for (size_t i = 0; i < n; i++) {
        double along = vc_relate_dot(g + i * n, q + i * n, n);

        for (size_t j = 0; j < n; j++) {
            double by = lengths[i] > 0 ? r->by * (g[i * n + j] - q[i * n + j] * along) / lengths[i] : 0;

            for (size_t c = 0; by != 0 && c < r->width; c++) {
                r->gradient[i * r->width + c] += by * r->student[j * r->width + c];
                r->gradient[j * r->width + c] += by * r->student[i * r->width + c];
            }
        }
    }
    return sum;
}
