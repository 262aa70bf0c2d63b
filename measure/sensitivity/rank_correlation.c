/* rank_correlation.c - see rank_correlation.h.
 *
 * Spearman's rank correlation is that of ranks in place of figures, so only the order of the figures
 * counts:
 *
 *     x       0.1   0.5   0.2   0.9         ranks   0   2   1   3
 *     y       1e-3  0.2   0.2   7                   0   1.5 1.5 3        correlation of the ranks: 0.95
 */
#include "measure/sensitivity/rank_correlation.h"

#include <math.h>
#include <stdlib.h>

static int by_x(const void *a, const void *b)
{
    const struct vc_rank_pair *p = a;
    const struct vc_rank_pair *q = b;

    return p->x < q->x ? -1 : p->x > q->x;
}

/* x becomes its rank, equal ones have the mean of theirs; then x and y change places. So two calls rank
 * both sides, and the sides are where they were. The order of pairs changes, which does not matter. */
static void rank(struct vc_rank_pair *pairs, size_t n)
{
    size_t i = 0;

    qsort(pairs, n, sizeof *pairs, by_x);
    while (i < n) {
        size_t end = i;

        while (end < n && pairs[end].x == pairs[i].x) {
            end++;
        }
        double mean = ((double)i + (double)(end - 1)) / 2.0;
        for (; i < end; i++) {
            pairs[i] = (struct vc_rank_pair){pairs[i].y, mean};
        }
    }
}

/* The mean of ranks is (n - 1) / 2 also where some are equal. */
double vc_rank_correlation(struct vc_rank_pair *pairs, size_t n)
{
    double mean = ((double)n - 1.0) / 2.0;
    double xy = 0.0;
    double xx = 0.0;
    double yy = 0.0;

    if (n < 3) {
        return (double)NAN;
    }
    rank(pairs, n);
    rank(pairs, n);
    for (size_t i = 0; i < n; i++) {
        xy += (pairs[i].x - mean) * (pairs[i].y - mean);
        xx += (pairs[i].x - mean) * (pairs[i].x - mean);
        yy += (pairs[i].y - mean) * (pairs[i].y - mean);
    }
    return xx == 0.0 || yy == 0.0 ? (double)NAN : xy / sqrt(xx * yy);
}
