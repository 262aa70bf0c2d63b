/* train_math.h - part of train_elements.h: one element at a time, and Softmax. */

#include "kernels/unary_math.inc"

/* Loops of one operator take PART elements at a time, from one array of this size to another: the number that they run
 * to is known, and the arrays are not one another, so that a compiler makes a vector loop of them and nothing beside.
 * dx may be dy. */
#define PART 256

/* y = f(x) for the elements of a part. */
static void unary_part(const struct vc_args_unary *args, const REAL *restrict from, REAL *restrict to)
{
    REAL a = (REAL)args->a;
    REAL b = (REAL)args->b;

    (void)b;
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

LOOP_FN(unary)
{
    const struct vc_args_unary *args = call->args;
    size_t first = block * VC_ELEMENTS_PER_BLOCK;
    size_t n = VC_AT_MOST((size_t)args->n - first, VC_ELEMENTS_PER_BLOCK);
    const REAL *from = (const REAL *)call->p[0] + first;
    REAL *to = (REAL *)call->p[1] + first;
    REAL x[PART] = {0};
    REAL y[PART];

    (void)pass;
    (void)worker;
    for (size_t i = 0; i < n; i += PART) {
        size_t m = VC_AT_MOST(n - i, (size_t)PART);

        memcpy(x, from + i, m * sizeof *x);
        unary_part(args, x, y);
        memcpy(to + i, y, m * sizeof *y);
    }
}

LOOP_FN(unary_backward)
{
    const struct vc_args_unary *args = call->args;
    size_t first = block * VC_ELEMENTS_PER_BLOCK;
    size_t n = VC_AT_MOST((size_t)args->n - first, VC_ELEMENTS_PER_BLOCK);
    const REAL *saved = (const REAL *)call->p[0] + first;
    const REAL *dy = (const REAL *)call->p[1] + first;
    REAL *dx = (REAL *)call->p[2] + first;
    REAL x[PART] = {0};
    REAL d[PART] = {0};
    REAL result[PART];

    (void)pass;
    (void)worker;
    for (size_t i = 0; i < n; i += PART) {
        size_t m = VC_AT_MOST(n - i, (size_t)PART);

        memcpy(x, saved + i, m * sizeof *x);
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

#undef PART

LOOP_FN(fill)
{
    const struct vc_args_unary *args = call->args;
    size_t first = block * VC_ELEMENTS_PER_BLOCK;
    size_t n = VC_AT_MOST((size_t)args->n - first, VC_ELEMENTS_PER_BLOCK);
    REAL *y = (REAL *)call->p[0] + first;

    (void)pass;
    (void)worker;
    for (size_t i = 0; i < n; i++) {
        y[i] = (REAL)args->a;
    }
}

/* ---- Softmax ---- */

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

    (void)pass;
    (void)worker;
    for (size_t row = first; row < end; row++) {
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

    (void)pass;
    (void)worker;
    for (size_t row = first; row < end; row++) {
        size_t at = row / inner * inner * (size_t)args->size + row % inner;

        softmax_row_backward((const REAL *)call->p[0] + at, (const REAL *)call->p[1] + at, (REAL *)call->p[2] + at,
                             (size_t)args->size, inner, args->logarithm, call->add);
    }
}
