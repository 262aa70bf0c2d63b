/* sum_loops.h - sums of doubles that vectors can add: LANES partial sums, of which element i belongs to
 * number i modulo LANES, added in one order. Part of step_loops.h.
 *
 *     elements   0 1 2 3 4 5 6 7 | 8 9 10 11 12 13 14 15 | 16 17
 *     lane 0     0               + 8                     + 16          lane 1: 1 + 9 + 17
 *     sum        ((lane 0 + lane 1) + (lane 2 + lane 3)) + ((lane 4 + lane 5) + (lane 6 + lane 7))
 *
 * A register of any width that divides LANES adds in this order, so all levels of the processor give the
 * same bits. */

#define LANES 8 /* those that fill one register of AVX-512 */

/* The lanes in pairs. */
static double NAME(sum_of)(const double *lane)
{
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

/* Lanes as values of a register each, which stay there while terms are added to them: gcc keeps wider ones in memory. They lie
 * anywhere that a double may lie. */
#if defined(__AVX512F__)
#define WIDE LANES
#elif defined(__AVX__)
#define WIDE (LANES / 2)
#else
#define WIDE (LANES / 4)
#endif
typedef double NAME(lanes) __attribute__((vector_size(WIDE * sizeof(double)), aligned(sizeof(double)), may_alias));

/* A register of reals, and one whose lanes are a's where those of the comparison are true, else b's. */
typedef REAL NAME(reals) __attribute__((vector_size(WIDE * sizeof(double)), aligned(sizeof(REAL)), may_alias));
#define CHOSEN(of, a, b) ((NAME(reals))(((of) & (__typeof__(of))(a)) | (~(of) & (__typeof__(of))(b))))

/* Adds m terms, the first of which belongs to number 0. */
static void NAME(add_terms)(const double *terms, size_t m, double *lane)
{
    size_t whole = m / LANES * LANES;

    for (size_t k = 0; k < LANES; k += WIDE) {
        NAME(lanes) sum = *(const NAME(lanes) *)(lane + k);

        for (size_t i = k; i < whole; i += LANES) {
            sum += *(const NAME(lanes) *)(terms + i);
        }
        *(NAME(lanes) *)(lane + k) = sum;
    }
    for (size_t i = whole; i < m; i++) {
        lane[i - whole] += terms[i];
    }
}

/* Products are of doubles, whatever REAL is. */
static double NAME(dot)(const REAL *x, const REAL *y, size_t n)
{
    double lane[LANES] = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            lane[k] += (double)x[i + k] * (double)y[i + k];
        }
    }
    for (size_t k = 0; i < n; i++, k++) {
        lane[k] += (double)x[i] * (double)y[i];
    }
    return NAME(sum_of)(lane);
}
