/* train_math.h - part of train_elements.h: one element at a time, and Softmax. */

#define ROOT_HALF ((REAL)0.70710678118654752440)

/* d/dx of x / 2 (1 + erf(x / sqrt 2)): the normal distribution, and x times its density. */
static inline REAL gelu_slope(REAL x)
{
    return (REAL)0.5 * (1 + FN(vc_erf)(x * ROOT_HALF)) +
           x * (REAL)0.39894228040143267794 * FN(vc_exp)((REAL)-0.5 * x * x);
}

static inline REAL gelu_tanh(REAL x)
{
    return (REAL)0.79788456080286535588 * (x + (REAL)0.044715 * x * x * x);
}

static inline REAL gelu_tanh_slope(REAL x)
{
    REAL t = FN(vc_tanh)(gelu_tanh(x));

    return (REAL)0.5 * (1 + t) +
           (REAL)0.5 * x * (1 - t * t) * (REAL)0.79788456080286535588 * (1 + (REAL)0.134145 * x * x);
}

static inline REAL swish_slope(REAL x)
{
    REAL s = FN(vc_sigmoid)(x);

    return s * (1 + x * (1 - s));
}

/* Whole powers up to 16 are products; others exponentials, so that no C library matters. */
static inline REAL power(REAL x, REAL a)
{
    REAL n = a < 0 ? -a : a;
    REAL y = 1;

    if (n <= 16 && n == (REAL)(int)n) {
        for (int k = 0; k < (int)n; k++) {
            y *= x;
        }
        return a < 0 ? 1 / y : y;
    }
    return FN(vc_exp)(a * FN(vc_log)(x));
}

/* What is left of x in 16 bits: the conversions of every cast. */
static inline REAL round_bf16(REAL x)
{
    return (REAL)vc_bf16_to_f32(REAL_IS_F64 ? vc_f64_to_bf16((double)x) : vc_f32_to_bf16((float)x));
}

static inline REAL round_f16(REAL x)
{
    return (REAL)vc_f16_to_f32(REAL_IS_F64 ? vc_f64_to_f16((double)x) : vc_f32_to_f16((float)x));
}

/* f of the elements of a block, from x to y. */
#define EACH(f)                      \
    for (size_t i = 0; i < n; i++) { \
        REAL v = x[i];               \
                                     \
        y[i] = f;                    \
    }                                \
    break

LOOP_FN(unary)
{
    const struct vc_args_unary *args = call->args;
    size_t first = block * VC_ELEMENTS_PER_BLOCK;
    size_t n = VC_AT_MOST((size_t)args->n - first, VC_ELEMENTS_PER_BLOCK);
    const REAL *x = (const REAL *)call->p[0] + first;
    REAL *y = (REAL *)call->p[1] + first;
    REAL a = (REAL)args->a;
    REAL b = (REAL)args->b;

    (void)pass;
    (void)worker;
    switch (args->kind) {
    case VC_UNARY_COPY:
        EACH(a * v);
    case VC_UNARY_RELU:
        EACH(v > 0 ? v : v == v ? 0 : v);
    case VC_UNARY_LEAKY_RELU:
        EACH(v < 0 ? a * v : v);
    case VC_UNARY_CLIP:
        EACH((v < a ? a : v) > b ? b : (v < a ? a : v));
    case VC_UNARY_SIGMOID:
        EACH(FN(vc_sigmoid)(v));
    case VC_UNARY_TANH:
        EACH(FN(vc_tanh)(v));
    case VC_UNARY_HARD_SIGMOID:
        EACH(a * v + b < 0 ? 0 : a * v + b > 1 ? 1 : a * v + b);
    case VC_UNARY_HARD_SWISH:
        EACH(v * (v < -3 ? 0 : v > 3 ? 1 : v / 6 + (REAL)0.5));
    case VC_UNARY_EXP:
        EACH(FN(vc_exp)(v));
    case VC_UNARY_LOG:
        EACH(FN(vc_log)(v));
    case VC_UNARY_SQRT:
        EACH((REAL)sqrt((double)v));
    case VC_UNARY_RECIPROCAL:
        EACH(1 / v);
    case VC_UNARY_ABS:
        EACH(v < 0 ? -v : v);
    case VC_UNARY_GELU:
        EACH((REAL)0.5 * v * (1 + FN(vc_erf)(v * ROOT_HALF)));
    case VC_UNARY_GELU_TANH:
        EACH((REAL)0.5 * v * (1 + FN(vc_tanh)(gelu_tanh(v))));
    case VC_UNARY_ERF:
        EACH(FN(vc_erf)(v));
    case VC_UNARY_POWER:
        EACH(power(v, a));
    case VC_UNARY_SWISH:
        EACH(v * FN(vc_sigmoid)(v));
    case VC_UNARY_ROUND_BF16:
        EACH(round_bf16(v));
    case VC_UNARY_ROUND_F16:
        EACH(round_f16(v));
    }
}

#undef EACH

/* dx = f'(x) dy; v is what was saved, x or y. In parts, since dx may be dy, which keeps compilers from vectors. */
#define PART 256
#define EACH(f)                                        \
    for (size_t from = 0; from < n; from += PART) {    \
        size_t m = VC_AT_MOST(n - from, (size_t)PART); \
        REAL result[PART];                             \
                                                       \
        for (size_t i = 0; i < m; i++) {               \
            REAL v = s[from + i];                      \
            REAL d = dy[from + i];                     \
                                                       \
            result[i] = f;                             \
        }                                              \
        put_part(dx + from, result, m, call->add);     \
    }                                                  \
    break

static inline void put_part(REAL *dx, const REAL *result, size_t n, bool add)
{
    if (add) {
        for (size_t i = 0; i < n; i++) {
            dx[i] += result[i];
        }
    } else {
        memcpy(dx, result, n * sizeof *dx);
    }
}

LOOP_FN(unary_backward)
{
    const struct vc_args_unary *args = call->args;
    size_t first = block * VC_ELEMENTS_PER_BLOCK;
    size_t n = VC_AT_MOST((size_t)args->n - first, VC_ELEMENTS_PER_BLOCK);
    const REAL *s = (const REAL *)call->p[0] + first;
    const REAL *dy = (const REAL *)call->p[1] + first;
    REAL *dx = (REAL *)call->p[2] + first;
    REAL a = (REAL)args->a;
    REAL b = (REAL)args->b;

    (void)pass;
    (void)worker;
    switch (args->kind) {
    case VC_UNARY_COPY: /* nothing was saved: s is dy */
        EACH(((void)v, a * d));
    case VC_UNARY_RELU:
        EACH(v > 0 ? d : 0);
    case VC_UNARY_LEAKY_RELU: /* of x: a may be negative */
        EACH(v < 0 ? a * d : d);
    case VC_UNARY_CLIP:
        EACH(v >= a && v <= b ? d : 0);
    case VC_UNARY_SIGMOID:
        EACH(v * (1 - v) * d);
    case VC_UNARY_TANH:
        EACH((1 - v * v) * d);
    case VC_UNARY_HARD_SIGMOID:
        EACH(v > 0 && v < 1 ? a * d : 0);
    case VC_UNARY_HARD_SWISH:
        EACH(v < -3 ? 0 : v > 3 ? d : (v / 3 + (REAL)0.5) * d);
    case VC_UNARY_EXP:
        EACH(v * d);
    case VC_UNARY_LOG:
        EACH(d / v);
    case VC_UNARY_SQRT:
        EACH(d / (2 * v));
    case VC_UNARY_RECIPROCAL:
        EACH(-v * v * d);
    case VC_UNARY_ABS:
        EACH(v > 0 ? d : v < 0 ? -d : 0);
    case VC_UNARY_GELU:
        EACH(d * gelu_slope(v));
    case VC_UNARY_GELU_TANH:
        EACH(d * gelu_tanh_slope(v));
    case VC_UNARY_ERF:
        EACH(d * (REAL)1.12837916709551257390 * FN(vc_exp)(-v * v));
    case VC_UNARY_POWER:
        EACH(d * a * power(v, a - 1));
    case VC_UNARY_SWISH:
        EACH(d * swish_slope(v));
    case VC_UNARY_ROUND_BF16: /* no node is one */
    case VC_UNARY_ROUND_F16:
        break;
    }
}

#undef EACH
#undef PART
#undef ROOT_HALF

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
