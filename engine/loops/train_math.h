/* train_math.h - part of train_elements.h: one element at a time, and Softmax.
 *
 * The operators of one element are rows of kernels/unary.inc: what they compute, and their gradient as a
 * term of x or y. Both loops below are made of these rows, a case for each:
 *
 *     TANH, reads Y     y = tanh(x)     dx = (1 - y * y) * d     y is saved, and x is not needed again
 *
 * Values of 16 bits are widened before a part is computed and rounded behind it, so that there is one loop
 * for all types. */

#include "kernels/unary_math.inc"

/* Loops of one operator take PART elements at a time, from one array of this size to another: the number that they run
 * to is known, and the arrays are not one another, so that a compiler makes a vector loop of them and nothing beside.
 * dx may be dy. */
#define PART 256
#if REAL_IS_F64
#define EXP_NEAR VC_EXP_NEAR_F64
#else
#define EXP_NEAR VC_EXP_NEAR_F32
#endif

/* All elements of a part are small enough for vc_exp_near; what is NaN is not. */
static bool part_is_near(const REAL *x)
{
    WORD far = 0;

    for (size_t i = 0; i < PART; i++) {
        far |= !(x[i] >= -EXP_NEAR && x[i] <= EXP_NEAR);
    }
    return far == 0;
}

/* Swish and its gradient of such a part: what unary.inc says, with fewer operations for the same bits. */
static void swish_part(const REAL *restrict x, REAL *restrict y)
{
    for (size_t i = 0; i < PART; i++) {
        y[i] = x[i] * (1 / (1 + FN(vc_exp_near)(-x[i])));
    }
}

static void swish_backward_part(const REAL *restrict x, const REAL *restrict dy, REAL *restrict dx)
{
    for (size_t i = 0; i < PART; i++) {
        REAL s = 1 / (1 + FN(vc_exp_near)(-x[i]));

        dx[i] = dy[i] * (s * (1 + x[i] * (1 - s)));
    }
}

/* y = f(x) for the elements of a part. */
static void unary_part(const struct vc_args_unary *args, const REAL *restrict from, REAL *restrict to)
{
    REAL a = (REAL)args->a;
    REAL b = (REAL)args->b;

    (void)b;
    if (args->kind == VC_UNARY_SWISH && part_is_near(from)) {
        swish_part(from, to);
        return;
    }
    switch (args->kind) {
#define UNARY(KIND, reads, value, gradient) \
    case VC_UNARY_##KIND:                   \
        for (size_t i = 0; i < PART; i++) { \
            REAL x = from[i];               \
                                            \
            to[i] = value;                  \
        }                                   \
        break;
#include "kernels/unary.inc"
#undef UNARY
    default:
        break;
    }
}

/* dx = f'(x) dy, of what was saved, x or y (NONE: saved is dy). */
static void unary_backward_part(const struct vc_args_unary *args, const REAL *restrict saved, const REAL *restrict dy,
                                REAL *restrict dx)
{
    REAL a = (REAL)args->a;
    REAL b = (REAL)args->b;

    (void)b;
    if (args->kind == VC_UNARY_SWISH && part_is_near(saved)) {
        swish_backward_part(saved, dy, dx);
        return;
    }
    switch (args->kind) {
#define UNARY(KIND, reads, value, gradient) \
    case VC_UNARY_##KIND:                   \
        for (size_t i = 0; i < PART; i++) { \
            REAL d = dy[i];                 \
            REAL x = saved[i];              \
            REAL y = x;                     \
                                            \
            (void)d;                        \
            (void)y;                        \
            dx[i] = gradient;               \
        }                                   \
        break;
#include "kernels/unary.inc"
#undef UNARY
    default:
        break;
    }
}

/* n elements from `at` on of an array of reals, or of numbers of 16 bits. */
static void read_part(enum vc_unary kind, const void *from, size_t at, REAL *restrict x, size_t n)
{
    const uint16_t *h = (const uint16_t *)from + at;

    if (kind == VC_UNARY_COPY) {
        memcpy(x, (const REAL *)from + at, n * sizeof *x);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        x[i] = (REAL)(kind == VC_UNARY_ROUND_BF16 ? vc_bf16_to_f32(h[i]) : vc_f16_to_f32(h[i]));
    }
}

/* n elements to `at` on, as reals or rounded to 16 bits. */
static void write_part(enum vc_unary kind, const REAL *restrict y, void *to, size_t at, size_t n)
{
    uint16_t *h = (uint16_t *)to + at;

    if (kind == VC_UNARY_COPY) {
        memcpy((REAL *)to + at, y, n * sizeof *y);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        h[i] = kind == VC_UNARY_ROUND_BF16 ? FN(vc_to_bf16)(y[i]) : FN(vc_to_f16)(y[i]);
    }
}

/* y = f(x). A block is VC_ELEMENTS_PER_BLOCK elements. The rest of the last part is computed from what an
 * earlier part left there, and not written. */
LOOP_FN(unary)
{
    const struct vc_args_unary *args = call->args;
    size_t first = block * VC_ELEMENTS_PER_BLOCK;
    size_t n = VC_AT_MOST((size_t)args->n - first, VC_ELEMENTS_PER_BLOCK);
    REAL x[PART] = {0};
    REAL y[PART];

    for (size_t i = 0; i < n; i += PART) {
        size_t m = VC_AT_MOST(n - i, (size_t)PART);

        read_part(args->from, call->p[0], first + i, x, m);
        unary_part(args, x, y);
        write_part(args->to, y, call->p[1], first + i, m);
    }
}

/* dx = f'(x) dy, or dx += it. */
LOOP_FN(unary_backward)
{
    const struct vc_args_unary *args = call->args;
    size_t first = block * VC_ELEMENTS_PER_BLOCK;
    size_t n = VC_AT_MOST((size_t)args->n - first, VC_ELEMENTS_PER_BLOCK);
    const REAL *dy = (const REAL *)call->p[1] + first;
    REAL *dx = (REAL *)call->p[2] + first;
    REAL x[PART] = {0};
    REAL d[PART] = {0};
    REAL result[PART];

    for (size_t i = 0; i < n; i += PART) {
        size_t m = VC_AT_MOST(n - i, (size_t)PART);

        read_part(args->from, call->p[0], first + i, x, m);
        memcpy(d, dy + i, m * sizeof *d);
        unary_backward_part(args, x, d, result);
        if (call->add) {
            for (size_t k = 0; k < m; k++) {
                dx[i + k] += result[k];
            }
        } else {
            memcpy(dx + i, result, m * sizeof *dx);
        }
    }
}

/* y = a, for every element. */
LOOP_FN(fill)
{
    const struct vc_args_unary *args = call->args;
    size_t first = block * VC_ELEMENTS_PER_BLOCK;
    size_t n = VC_AT_MOST((size_t)args->n - first, VC_ELEMENTS_PER_BLOCK);
    REAL *y = (REAL *)call->p[0] + first;

    for (size_t i = 0; i < n; i++) {
        y[i] = (REAL)args->a;
    }
}

/* ---- Softmax ---- */

/* A row whose elements are `step` apart: the definition. Each sum runs in the order of the elements. */
static void softmax_row(const REAL *x, REAL *y, size_t n, size_t step, bool logarithm)
{
    REAL most = x[0];
    REAL sum = 0;

    for (size_t k = 1; k < n; k++) {
        most = x[k * step] > most ? x[k * step] : most;
    }
    for (size_t k = 0; k < n; k++) {
        REAL e = FN(vc_exp)(x[k * step] - most);

        sum += e;
        y[k * step] = logarithm ? x[k * step] - most : e;
    }
    if (logarithm) {
        sum = FN(vc_log)(sum);
    }
    for (size_t k = 0; k < n; k++) {
        y[k * step] = logarithm ? y[k * step] - sum : y[k * step] / sum;
    }
}

/* Rows that lie behind each other are computed some at a time, with the bits of softmax_row: exponentials as vectors,
 * and the sums of eight rows side by side, so that no sum waits for its last addition. */
#define SOFT_ROWS     8
#define SOFT_ELEMENTS 4096 /* of these rows, unless one has more */
#define SOFT_LANES    16

/* The same as the first loop of softmax_row: the largest does not depend on the order. */
static REAL largest(const REAL *x, size_t n)
{
    REAL lanes[SOFT_LANES];
    REAL most = x[0];
    size_t i = 0;

    for (size_t l = 0; l < SOFT_LANES; l++) {
        lanes[l] = most;
    }
    for (; i + SOFT_LANES <= n; i += SOFT_LANES) {
        for (size_t l = 0; l < SOFT_LANES; l++) {
            lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
        }
    }
    for (size_t l = 0; l < SOFT_LANES; l++) {
        most = lanes[l] > most ? lanes[l] : most;
    }
    for (; i < n; i++) {
        most = x[i] > most ? x[i] : most;
    }
    return most;
}

/* y = x - number; y may be x. */
static void subtract(const REAL *x, REAL number, REAL *y, size_t n)
{
    size_t i = 0;

    for (; i + SOFT_LANES <= n; i += SOFT_LANES) {
        REAL part[SOFT_LANES];

        memcpy(part, x + i, sizeof part);
        for (size_t l = 0; l < SOFT_LANES; l++) {
            part[l] -= number;
        }
        memcpy(y + i, part, sizeof part);
    }
    for (; i < n; i++) {
        y[i] = x[i] - number;
    }
}

/* A part of known size, for compilers. */
static void exponentials(const REAL *restrict x, REAL *restrict y)
{
    for (size_t i = 0; i < PART; i++) {
        y[i] = FN(vc_exp)(x[i]);
    }
}

/* The exponentials of n elements, in their place, or only their sum. */
static REAL exponentiate(REAL *x, size_t n, bool keep)
{
    REAL from[PART] = {0};
    REAL to[PART];
    REAL sum = 0;

    for (size_t i = 0; i < n; i += PART) {
        size_t m = VC_AT_MOST(n - i, (size_t)PART);

        memcpy(from, x + i, m * sizeof *from);
        exponentials(from, to);
        if (keep) {
            memcpy(x + i, to, m * sizeof *to);
            continue;
        }
        for (size_t k = 0; k < m; k++) {
            sum += to[k];
        }
    }
    return sum;
}

/* Sums of up to SOFT_ROWS rows; each in the order of its elements, as softmax_row has it. */
static void sum_rows(const REAL *x, size_t rows, size_t n, REAL *sums)
{
    for (size_t r = 0; r < SOFT_ROWS; r++) {
        sums[r] = 0;
    }
    if (rows == SOFT_ROWS) {
        for (size_t k = 0; k < n; k++) {
            for (size_t r = 0; r < SOFT_ROWS; r++) {
                sums[r] += x[r * n + k];
            }
        }
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        for (size_t k = 0; k < n; k++) {
            sums[r] += x[r * n + k];
        }
    }
}

/* y may be x. */
static void softmax_rows(const REAL *x, REAL *y, size_t rows, size_t n, bool logarithm)
{
    REAL sums[SOFT_ROWS];

    for (size_t r = 0; r < rows; r++) {
        subtract(x + r * n, largest(x + r * n, n), y + r * n, n);
    }
    if (!logarithm) {
        (void)exponentiate(y, rows * n, true);
        sum_rows(y, rows, n, sums);
    }
    for (size_t r = 0; r < rows; r++) {
        REAL *row = y + r * n;
        REAL sum = logarithm ? FN(vc_log)(exponentiate(row, n, false)) : sums[r];

        for (size_t k = 0; k < n; k++) {
            row[k] = logarithm ? row[k] - sum : row[k] / sum;
        }
    }
}

#undef PART

/* dx = y (dy - sum of y dy); of the logarithm dx = dy - exp(y) * sum of dy. */
static void softmax_row_backward(const REAL *y, const REAL *dy, REAL *dx, size_t n, size_t step, bool logarithm,
                                 bool add)
{
    REAL sum = 0;

    for (size_t k = 0; k < n; k++) {
        sum += logarithm ? dy[k * step] : y[k * step] * dy[k * step];
    }
    for (size_t k = 0; k < n; k++) {
        REAL d = logarithm ? dy[k * step] - FN(vc_exp)(y[k * step]) * sum : y[k * step] * (dy[k * step] - sum);

        dx[k * step] = add ? dx[k * step] + d : d;
    }
}

LOOP_FN(softmax)
{
    const struct vc_args_softmax *args = call->args;
    size_t first = block * (size_t)args->rows_per_block;
    size_t end = VC_AT_MOST(first + (size_t)args->rows_per_block, (size_t)args->rows);
    size_t inner = (size_t)args->inner;

    for (size_t row = first, n; inner == 1 && row < end; row += n) {
        size_t at = row * (size_t)args->size;

        n = VC_AT_MOST(SOFT_ELEMENTS / (size_t)args->size, (size_t)SOFT_ROWS);
        n = n == 0 ? 1 : VC_AT_MOST(end - row, n);
        softmax_rows((const REAL *)call->p[0] + at, (REAL *)call->p[1] + at, n, (size_t)args->size, args->logarithm);
    }
    for (size_t row = first; inner != 1 && row < end; row++) {
        size_t at = row / inner * inner * (size_t)args->size + row % inner;

        softmax_row((const REAL *)call->p[0] + at, (REAL *)call->p[1] + at, (size_t)args->size, inner, args->logarithm);
    }
}

LOOP_FN(softmax_backward)
{
    const struct vc_args_softmax *args = call->args;
    size_t first = block * (size_t)args->rows_per_block;
    size_t end = VC_AT_MOST(first + (size_t)args->rows_per_block, (size_t)args->rows);
    size_t inner = (size_t)args->inner;

    for (size_t row = first; row < end; row++) {
        size_t at = row / inner * inner * (size_t)args->size + row % inner;

        softmax_row_backward((const REAL *)call->p[0] + at, (const REAL *)call->p[1] + at, (REAL *)call->p[2] + at,
                             (size_t)args->size, inner, args->logarithm, call->add);
    }
}
