/* relate_angles.c - the angles that rows make at each row (RKD-A of arXiv 1904.05068):
 *
 *     e_ij = (s_j - s_i) / |s_j - s_i|,  a_ijk = e_ij e_ik,  the same of t;  1 / n^3 * sum of smooth L1 (a_s - a_t)
 *
 *     d / de_ij = 2 * sum over k of slope_ijk e_ik / n^3;  through e: what lies along it is taken away, by 1 / length
 *
 * The work grows with n^3: 64 rows of 128 numbers are 67 million multiply-adds. */
#include <math.h>
#include <string.h>

#include "distill/loss/relate.h"

uint64_t vc_relate_angles_room(uint64_t n, uint64_t width, uint64_t teacher_width)
{
    return n * (2 * width + teacher_width + 1);
}

/* The directions from row i to all rows; lengths: NULL, or of each. The direction to an equal row is 0. */
static void directions(const double *x, size_t n, size_t width, size_t i, double *e, double *lengths)
{
    for (size_t j = 0; j < n; j++) {
        double *to = e + j * width;

        for (size_t c = 0; c < width; c++) {
            to[c] = x[j * width + c] - x[i * width + c];
        }
        double length = sqrt(vc_relate_dot(to, to, width));
        for (size_t c = 0; length > 0 && c < width; c++) {
            to[c] /= length;
        }
        if (lengths != NULL) {
            lengths[j] = length;
        }
    }
}

/* The angles at row i: their loss, and the gradients of the directions in `de`. */
static double at_row(const struct vc_relation *r, const double *e, const double *t, double *de)
{
    double share = 1 / ((double)r->n * (double)r->n * (double)r->n);
    double sum = 0;

    memset(de, 0, r->n * r->width * sizeof *de);
    for (size_t j = 0; j < r->n; j++) {
        for (size_t k = 0; k < r->n; k++) {
            double slope;
            double angle = vc_relate_dot(e + j * r->width, e + k * r->width, r->width);
            double wanted = vc_relate_dot(t + j * r->teacher_width, t + k * r->teacher_width, r->teacher_width);

            sum += share * vc_relate_smooth(angle - wanted, &slope);
            for (size_t c = 0; slope != 0 && c < r->width; c++) { /* jk and kj are the same */
                de[j * r->width + c] += 2 * share * slope * e[k * r->width + c];
            }
        }
    }
    return sum;
}

double vc_relate_angles(const struct vc_relation *r)
{
    double *e = r->room;
    double *de = e + r->n * r->width;
    double *t = de + r->n * r->width;
    double *lengths = t + r->n * r->teacher_width;
    double sum = 0;

    for (size_t i = 0; i < r->n; i++) {
        directions(r->student, r->n, r->width, i, e, lengths);
        directions(r->teacher, r->n, r->teacher_width, i, t, NULL);
        sum += at_row(r, e, t, de);
        for (size_t j = 0; j < r->n; j++) {
            const double *unit = e + j * r->width;
            double along = vc_relate_dot(unit, de + j * r->width, r->width);

            for (size_t c = 0; lengths[j] > 0 && c < r->width; c++) {
                double g = r->by * (de[j * r->width + c] - along * unit[c]) / lengths[j];

                r->gradient[j * r->width + c] += g;
                r->gradient[i * r->width + c] -= g;
            }
        }
    }
    return sum;
}
