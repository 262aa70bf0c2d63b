/* train_lanes.h - part of train_sums.h and train_products.h: sums of numbers in a row.
 *
 *     elements   0 .. 15 | 16 .. 31 | 32 33          lane l: element l + element 16 + l
 *     sum        ((lane 0 + lane 1) + lane 2) ...    then elements 32, 33
 *
 * The order is the same on every level of the processor, whatever the width of its vectors. */

#define LANES 16 /* partial sums, which are added in a fixed order */

/* Sums of n numbers in a row: in LANES parts, which are added in a fixed order. */
static inline REAL norm_sum(const REAL *x, size_t n)
{
    REAL lanes[LANES] = {0};
    REAL sum = 0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            lanes[l] += x[i + l];
        }
    }
    for (size_t l = 0; l < LANES; l++) {
        sum += lanes[l];
    }
    for (; i < n; i++) {
        sum += x[i];
    }
    return sum;
}

/* Sum of (x - mean) * (y - shift). */
static inline REAL norm_dot(const REAL *x, REAL mean, const REAL *y, REAL shift, size_t n)
{
    REAL lanes[LANES] = {0};
    REAL sum = 0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            lanes[l] += (x[i + l] - mean) * (y[i + l] - shift);
        }
    }
    for (size_t l = 0; l < LANES; l++) {
        sum += lanes[l];
    }
    for (; i < n; i++) {
        sum += (x[i] - mean) * (y[i] - shift);
    }
    return sum;
}
