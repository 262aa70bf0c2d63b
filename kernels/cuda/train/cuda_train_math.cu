/* cuda_train_math.cu - training on the device: one element at a time, Dropout, Softmax, choices. Formulas of
 * one element are those of kernels/unary.inc, others as in engine/loops/train_math.h, whose bits these kernels
 * give. */
#include "kernels/cuda/train/cuda_train.h"
#include "kernels/functions.h"
#include "kernels/philox.h"

#define REAL     float
#define FN(name) name##_f32
#include "kernels/unary_math.inc"

/* The value of a function of one number: a case for each row of unary.inc. */
static __device__ __forceinline__ float unary_of(enum vc_unary kind, float x, float a, float b)
{
    switch (kind) {
#define UNARY(KIND, reads, value, gradient) \
    case VC_UNARY_##KIND:                   \
        return value;
#include "kernels/unary.inc"
#undef UNARY
    default:
        return x;
    }
}

/* dx of dy, d, and of what was saved: x or y. */
static __device__ __forceinline__ float unary_gradient(enum vc_unary kind, float saved, float d, float a, float b)
{
    const float x = saved;
    const float y = saved;

    switch (kind) {
#define UNARY(KIND, reads, value, gradient) \
    case VC_UNARY_##KIND:                   \
        return gradient;
#include "kernels/unary.inc"
#undef UNARY
    default:
        return d;
    }
}

/* Element i of an array of floats, or of numbers of 16 bits. */
static __device__ __forceinline__ float element_of(enum vc_unary kind, const void *x, uint64_t i)
{
    return kind == VC_UNARY_ROUND_BF16  ? vc_bf16_to_f32(((const uint16_t *)x)[i])
           : kind == VC_UNARY_ROUND_F16 ? vc_f16_to_f32(((const uint16_t *)x)[i])
                                        : ((const float *)x)[i];
}

/* Reads f32 or halves, and writes what the next node reads. */
static __global__ void unary_kernel(struct vc_args_unary args, const void *x, void *y)
{
    VC_CUDA_EACH(i, args.n)
    {
        float v = unary_of(args.kind, element_of(args.from, x, i), (float)args.a, (float)args.b);

        if (args.to == VC_UNARY_COPY) {
            ((float *)y)[i] = v;
        } else {
            ((uint16_t *)y)[i] = args.to == VC_UNARY_ROUND_BF16 ? vc_f32_to_bf16(v) : vc_f32_to_f16(v);
        }
    }
}

int vc_cuda_train_unary(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_unary *args = (const struct vc_args_unary *)w->call->args;

    VC_CUDA_ELEMENTS(s, unary_kernel, args->n, *args, w->call->p[0], w->call->p[1]);
    return vc_cuda_launched();
}

static __global__ void unary_backward_kernel(struct vc_args_unary args, bool add, const void *saved, const float *dy,
                                             float *dx)
{
    VC_CUDA_EACH(i, args.n)
    {
        float d = unary_gradient(args.kind, element_of(args.from, saved, i), dy[i], (float)args.a, (float)args.b);

        dx[i] = add ? dx[i] + d : d;
    }
}

int vc_cuda_train_unary_backward(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_unary *args = (const struct vc_args_unary *)w->call->args;

    VC_CUDA_ELEMENTS(s, unary_backward_kernel, args->n, *args, w->call->add, w->call->p[0],
                     (const float *)w->call->p[1], (float *)w->call->p[2]);
    return vc_cuda_launched();
}

static __global__ void fill_kernel(float value, uint64_t n, float *y)
{
    VC_CUDA_EACH(i, n)
    {
        y[i] = value;
    }
}

int vc_cuda_train_fill(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_unary *args = (const struct vc_args_unary *)w->call->args;

    VC_CUDA_ELEMENTS(s, fill_kernel, args->n, (float)args->a, args->n, (float *)w->call->p[0]);
    return vc_cuda_launched();
}

/* ---- Dropout ---- */

/* What dropout_kernel needs. */
struct drop {
    uint64_t n, per_row;
    struct vc_engine_pass pass;
    const struct vc_engine_pass *later; /* of a graph: in the place of `pass` */
    uint32_t node, least, key[2];
    float scale;
    bool add;
};

/* Random numbers depend on the element, the step and the node alone, so they are those of the CPU for any number of
 * threads. One counter gives four of them. */
static __global__ void dropout_kernel(struct drop drop, const float *x, float *y)
{
    uint64_t first = (drop.later != NULL ? drop.later->row : drop.pass.row) * drop.per_row;
    uint64_t step = drop.later != NULL ? drop.later->step : drop.pass.step;

    VC_CUDA_EACH(i, drop.n)
    {
        float v = x[i];

        if (drop.pass.training) {
            uint64_t element = first + i;
            const uint32_t counter[4] = {(uint32_t)(element / 4), (uint32_t)(element / 4 >> 32), (uint32_t)step,
                                         drop.node ^ (uint32_t)(step >> 32) << 24};
            uint32_t c[4];

            vc_philox_numbers(counter, drop.key, c);
            v = c[element % 4] >= drop.least ? v * drop.scale : 0;
        }
        y[i] = drop.add ? y[i] + v : v;
    }
}

/* `least`: a number below it drops the element; the others grow, so that the mean stays. */
int vc_cuda_train_dropout(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_dropout *args = (const struct vc_args_dropout *)w->call->args;
    struct drop drop = {};

    drop.n = args->n;
    drop.per_row = args->per_row;
    drop.pass = *w->pass;
    drop.later = s->captures ? s->pass : NULL;
    drop.node = args->node;
    drop.least = (uint32_t)(args->ratio * 4294967296.0);
    drop.key[0] = (uint32_t)args->seed;
    drop.key[1] = (uint32_t)(args->seed >> 32);
    drop.scale = (float)(1 / (1 - args->ratio));
    drop.add = w->call->add;
    VC_CUDA_ELEMENTS(s, dropout_kernel, args->n, drop, (const float *)w->call->p[0], (float *)w->call->p[1]);
    return vc_cuda_launched();
}

/* ---- Softmax: a thread for a row, since its sum runs in one order ---- */

/* A thread takes a row, along an axis whose elements lie `inner` apart. The largest is taken off before exp. y may be
 * x. */
static __global__ void softmax_kernel(struct vc_args_softmax args, const float *from, float *to)
{
    VC_CUDA_EACH(row, args.rows)
    {
        uint64_t at = row / args.inner * args.inner * args.size + row % args.inner;
        const float *x = from + at;
        float *y = to + at;
        float most = x[0];
        float sum = 0;

        for (uint64_t k = 1; k < args.size; k++) {
            most = x[k * args.inner] > most ? x[k * args.inner] : most;
        }
        for (uint64_t k = 0; k < args.size; k++) {
            float e = vc_exp_f32(x[k * args.inner] - most);

            sum += e;
            y[k * args.inner] = args.logarithm ? x[k * args.inner] - most : e;
        }
        if (args.logarithm) {
            sum = vc_log_f32(sum);
        }
        for (uint64_t k = 0; k < args.size; k++) {
            y[k * args.inner] = args.logarithm ? y[k * args.inner] - sum : y[k * args.inner] / sum;
        }
    }
}

int vc_cuda_train_softmax(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_softmax *args = (const struct vc_args_softmax *)w->call->args;

    VC_CUDA_ELEMENTS(s, softmax_kernel, args->rows, *args, (const float *)w->call->p[0], (float *)w->call->p[1]);
    return vc_cuda_launched();
}

/* As the derivative of the row asks: y (dy - sum y dy), and for the logarithm dy - exp(y) sum dy. */
static __global__ void softmax_backward_kernel(struct vc_args_softmax args, bool add, const float *of,
                                               const float *from, float *to)
{
    VC_CUDA_EACH(row, args.rows)
    {
        uint64_t at = row / args.inner * args.inner * args.size + row % args.inner;
        const float *y = of + at;
        const float *dy = from + at;
        float *dx = to + at;
        float sum = 0;

        for (uint64_t k = 0; k < args.size; k++) {
            sum += args.logarithm ? dy[k * args.inner] : y[k * args.inner] * dy[k * args.inner];
        }
        for (uint64_t k = 0; k < args.size; k++) {
            uint64_t i = k * args.inner;
            float d = args.logarithm ? dy[i] - vc_exp_f32(y[i]) * sum : y[i] * (dy[i] - sum);

            dx[i] = add ? dx[i] + d : d;
        }
    }
}

int vc_cuda_train_softmax_backward(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_softmax *args = (const struct vc_args_softmax *)w->call->args;

    VC_CUDA_ELEMENTS(s, softmax_backward_kernel, args->rows, *args, w->call->add, (const float *)w->call->p[0],
                     (const float *)w->call->p[1], (float *)w->call->p[2]);
    return vc_cuda_launched();
}

/* ---- codes of the inputs of layers: a thread for what shares a scale ---- */

/* A thread takes the elements of one scale. NULL for `fixed`: the scale comes from them. */
static __global__ void codes_kernel(struct vc_args_codes args, const float *x, const float *fixed, const int64_t *point,
                                    float *y)
{
    const float zero = point != NULL ? (float)*point : 0.0f;

    VC_CUDA_EACH(row, (args.n + args.size - 1) / args.size)
    {
        uint64_t i = row * args.size;

        vc_round_codes_f32(x + i, VC_AT_MOST(args.size, args.n - i), fixed, (float)args.least - zero,
                           (float)args.most - zero, args.is_f8, args.keeps_nan ? NAN : -zero, y + i);
    }
}

int vc_cuda_train_codes(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_codes *args = (const struct vc_args_codes *)w->call->args;

    VC_CUDA_ELEMENTS(s, codes_kernel, (args->n + args->size - 1) / args->size, *args, (const float *)w->call->p[0],
                     (const float *)w->call->p[1], (const int64_t *)w->call->p[2], (float *)w->call->p[3]);
    return vc_cuda_launched();
}

/* ---- Where ---- */

/* Steps of 0 repeat an operand along a dimension. */
static __global__ void where_kernel(struct vc_args_where args, const int64_t *condition, const float *a, const float *b,
                                    float *y)
{
    VC_CUDA_EACH(i, args.n)
    {
        uint64_t rest = i;
        int64_t at[3] = {0, 0, 0};

        for (unsigned k = args.n_dims; k-- > 0;) {
            int64_t index = (int64_t)(rest % (uint64_t)args.shape[k]);

            rest /= (uint64_t)args.shape[k];
            for (unsigned v = 0; v < 3; v++) {
                at[v] += index * args.step[v][k];
            }
        }
        y[i] = condition[at[0]] != 0 ? a[at[1]] : b[at[2]];
    }
}

int vc_cuda_train_where(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_where *args = (const struct vc_args_where *)w->call->args;

    VC_CUDA_ELEMENTS(s, where_kernel, args->n, *args, (const int64_t *)w->call->p[0], (const float *)w->call->p[1],
                     (const float *)w->call->p[2], (float *)w->call->p[3]);
    return vc_cuda_launched();
}

/* The gradient of one side: dy where that side was chosen, else 0. */
static __global__ void where_backward_kernel(struct vc_args_where args, bool add, const int64_t *condition,
                                             const float *dy, float *d)
{
    VC_CUDA_EACH(i, args.n)
    {
        uint64_t rest = i;
        int64_t at = 0;
        float v;

        for (unsigned k = args.n_dims; k-- > 0;) {
            at += (int64_t)(rest % (uint64_t)args.shape[k]) * args.step[0][k];
            rest /= (uint64_t)args.shape[k];
        }
        v = (condition[at] != 0) == args.which ? dy[i] : 0;
        d[i] = add ? d[i] + v : v;
    }
}

int vc_cuda_train_where_backward(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_where *args = (const struct vc_args_where *)w->call->args;

    VC_CUDA_ELEMENTS(s, where_backward_kernel, args->n, *args, w->call->add, (const int64_t *)w->call->p[0],
                     (const float *)w->call->p[1], (float *)w->call->p[2]);
    return vc_cuda_launched();
}
