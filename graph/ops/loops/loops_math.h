/* loops_math.h - part of op_loops.h: one element at a time.
 *
 * Each operator is one expression; macros make the loop around it for floats and for integers. Operators of one
 * float are rows of kernels/unary.inc, which the engine and these loops expand, so that there is one formula. */

/* ---- two inputs, which broadcast ---- */

/* y = a OP b with broadcasting, on floats and on integers. */
#define PAIRWISE(id, real, integer)                                                          \
    RUN(id)                                                                                  \
    {                                                                                        \
        struct vc_run_walk walk;                                                             \
        bool is_real = run->in[0]->is_real;                                                  \
        void *out = NULL;                                                                    \
                                                                                             \
        if (vc_run_walk_begin(run, &walk, run->in, 2)) {                                     \
            out = vc_run_out(run, 0, is_real, walk.shape, walk.n_dims);                      \
        }                                                                                    \
        for (size_t i = 0; out != NULL && i < run->out[0].n; i++, vc_run_walk_next(&walk)) { \
            if (is_real) {                                                                   \
                REAL a = ((const REAL *)run->in[0]->data)[walk.place[0]];                    \
                REAL b = ((const REAL *)run->in[1]->data)[walk.place[1]];                    \
                                                                                             \
                ((REAL *)out)[i] = real;                                                     \
            } else {                                                                         \
                int64_t a = ((const int64_t *)run->in[0]->data)[walk.place[0]];              \
                int64_t b = ((const int64_t *)run->in[1]->data)[walk.place[1]];              \
                                                                                             \
                ((int64_t *)out)[i] = integer;                                               \
            }                                                                                \
        }                                                                                    \
    }

/* The remainder has the sign of the divisor; of a division by 0 it is 0. */
static int64_t modulo(int64_t a, int64_t b)
{
    int64_t r = b == 0 || b == -1 ? 0 : a % b;

    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Integers wrap as ONNX's runtimes let them; a division by 0 gives 0. */
PAIRWISE(add, a + b, (int64_t)((uint64_t)a + (uint64_t)b))
PAIRWISE(sub, a - b, (int64_t)((uint64_t)a - (uint64_t)b))
PAIRWISE(mul, a *b, (int64_t)((uint64_t)a *(uint64_t)b))
PAIRWISE(div, a / b, b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b)
PAIRWISE(mod, MATH(fmod)(a, b), vc_node_int(run->node, "fmod", 0) == 0 ? modulo(a, b) : b == 0 || b == -1 ? 0 : a % b)
/* What is not a number stays so. */
PAIRWISE(min, a < b || a != a ? a : b, a < b ? a : b)
PAIRWISE(max, a > b || a != a ? a : b, a > b ? a : b)
#undef PAIRWISE

/* base to the power of a whole number; of a negative one the fraction is cut off. */
static int64_t whole_power(int64_t base, int64_t exponent)
{
    uint64_t x = (uint64_t)base;
    uint64_t y = 1;

    if (exponent < 0) {
        if (base == 1) {
            return 1;
        }
        if (base == -1) {
            return exponent % 2 == 0 ? 1 : -1;
        }
        return 0;
    }
    for (; exponent != 0; exponent /= 2, x *= x) {
        y *= exponent % 2 == 1 ? x : 1;
    }
    return (int64_t)y;
}

/* The result has the type of the base. */
RUN(pow)
{
    const struct vc_run_value *base = run->in[0];
    const struct vc_run_value *exponent = run->in[1];
    struct vc_run_walk walk;
    void *out = NULL;

    if (vc_run_walk_begin(run, &walk, run->in, 2)) {
        out = vc_run_out(run, 0, base->is_real, walk.shape, walk.n_dims);
    }
    for (size_t i = 0; out != NULL && i < run->out[0].n; i++, vc_run_walk_next(&walk)) {
        if (!base->is_real && !exponent->is_real) {
            ((int64_t *)out)[i] = whole_power(((const int64_t *)base->data)[walk.place[0]],
                                              ((const int64_t *)exponent->data)[walk.place[1]]);
        } else {
            REAL y = (REAL)vc_pow_f64((double)as_real(base, walk.place[0]), (double)as_real(exponent, walk.place[1]));

            if (base->is_real) {
                ((REAL *)out)[i] = y;
            } else {
                ((int64_t *)out)[i] = to_integer(y);
            }
        }
    }
}

RUN(prelu)
{
    struct vc_run_walk walk;
    REAL *out = NULL;

    if (vc_run_walk_begin(run, &walk, run->in, 2)) {
        out = vc_run_out(run, 0, true, walk.shape, walk.n_dims);
    }
    for (size_t i = 0; out != NULL && i < run->out[0].n; i++, vc_run_walk_next(&walk)) {
        REAL x = ((const REAL *)run->in[0]->data)[walk.place[0]];

        out[i] = x < 0 ? x * ((const REAL *)run->in[1]->data)[walk.place[1]] : x;
    }
}

/* ---- one input ---- */

#include "kernels/unary_math.inc"

/* unary_RELU(x, a, b), ...: the values of the rows of kernels/unary.inc. */
#define UNARY(KIND, reads, value, gradient)                 \
    static inline REAL unary_##KIND(REAL x, REAL a, REAL b) \
    {                                                       \
        (void)a;                                            \
        (void)b;                                            \
        return value;                                       \
    }
#include "kernels/unary.inc"
#undef UNARY

/* y = f(x) on floats, with up to two attributes that are numbers. */
#define EACH2(id, f, value_a, value_b)                                               \
    RUN(id)                                                                          \
    {                                                                                \
        const REAL *in = run->in[0]->data;                                           \
        REAL *out = vc_run_out(run, 0, true, run->in[0]->shape, run->in[0]->n_dims); \
        REAL a = (REAL)(value_a);                                                    \
        REAL b = (REAL)(value_b);                                                    \
                                                                                     \
        (void)a;                                                                     \
        (void)b;                                                                     \
        for (size_t i = 0; out != NULL && i < run->out[0].n; i++) {                  \
            REAL x = in[i];                                                          \
                                                                                     \
            out[i] = f;                                                              \
        }                                                                            \
    }
#define EACH(id, f)                  EACH2(id, f, 0, 0)
#define NUMBER(attribute, otherwise) vc_node_float(run->node, attribute, otherwise)
#define NO_NUMBER                    0

/* y = f(x) on floats and on integers. */
#define EACH_NUMBER(id, real, integer)                                      \
    RUN(id)                                                                 \
    {                                                                       \
        const struct vc_run_value *in = run->in[0];                         \
        void *out = vc_run_out(run, 0, in->is_real, in->shape, in->n_dims); \
                                                                            \
        for (size_t i = 0; out != NULL && i < run->out[0].n; i++) {         \
            if (in->is_real) {                                              \
                REAL x = ((const REAL *)in->data)[i];                       \
                                                                            \
                ((REAL *)out)[i] = real;                                    \
            } else {                                                        \
                int64_t x = ((const int64_t *)in->data)[i];                 \
                                                                            \
                ((int64_t *)out)[i] = integer;                              \
            }                                                               \
        }                                                                   \
    }

/* The operators of the rows; those of integers, too, with what integers become. */
#define OF_f(id, KIND, alpha, beta)                                                 EACH2(id, unary_##KIND(x, a, b), alpha, beta)
#define OF_n(id, KIND, alpha, beta)                                                 EACH_NUMBER(id, unary_##KIND(x, alpha, beta), whole_##id(x))
#define UNARY_OP(KIND, reads, value, gradient, id, name, types, alpha, beta, eager) OF_##types(id, KIND, alpha, beta)

static int64_t whole_relu(int64_t x)
{
    return x > 0 ? x : 0;
}

static int64_t whole_abs(int64_t x)
{
    return x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
}

#include "kernels/unary.inc"
#undef UNARY_OP

EACH(sin, OF(sin, x))
EACH(cos, OF(cos, x))
EACH(tan, OF(tan, x))
EACH(floor, MATH(floor)(x))
EACH(ceil, MATH(ceil)(x))
EACH(round, MATH(rint)(x)) /* halves to even */
EACH_NUMBER(neg, -x, (int64_t)(0 - (uint64_t)x))
EACH_NUMBER(sign, x > 0 ? 1 : x < 0 ? -1 : x, (x > 0) - (x < 0))
#undef EACH
#undef EACH2
#undef EACH_NUMBER

RUN(gelu)
{
    const REAL *in = run->in[0]->data;
    REAL *out = vc_run_out(run, 0, true, run->in[0]->shape, run->in[0]->n_dims);
    bool with_tanh = strcmp(vc_node_string(run->node, "approximate", "none"), "tanh") == 0;

    for (size_t i = 0; out != NULL && i < run->out[0].n; i++) {
        out[i] = with_tanh ? unary_GELU_TANH(in[i], 0, 0) : unary_GELU(in[i], 0, 0);
    }
}

/* min(max(x, least), largest); either may be missing. */
RUN(clip)
{
    const struct vc_run_value *in = run->in[0];
    const struct vc_run_value *least = run->n_in > 1 ? run->in[1] : NULL;
    const struct vc_run_value *most = run->n_in > 2 ? run->in[2] : NULL;
    void *out = NULL;

    if (vc_run_expect(run, 1, "least value", 1) && vc_run_expect(run, 2, "largest value", 1)) {
        out = vc_run_out(run, 0, in->is_real, in->shape, in->n_dims);
    }
    for (size_t i = 0; out != NULL && i < run->out[0].n; i++) {
        if (in->is_real) {
            REAL x = ((const REAL *)in->data)[i];

            x = least != NULL && x < *(const REAL *)least->data ? *(const REAL *)least->data : x;
            ((REAL *)out)[i] = most != NULL && x > *(const REAL *)most->data ? *(const REAL *)most->data : x;
        } else {
            int64_t x = ((const int64_t *)in->data)[i];

            x = least != NULL && x < *(const int64_t *)least->data ? *(const int64_t *)least->data : x;
            ((int64_t *)out)[i] = most != NULL && x > *(const int64_t *)most->data ? *(const int64_t *)most->data : x;
        }
    }
}
