/* cuda_train_recurrent.cu - training on the device: RNN, GRU and LSTM, step by step, as engine/loops/train_recurrent.h does it,
 * whose head says what is where. A step is a product of the states of all rows with the weights, and a kernel with a thread for
 * each number of each state: the formulas of a cell need no neighbour.
 *
 *     scratch   h, c, t, back [rows, hidden]   sums [rows, gates * hidden]   bias [(gates + 1) * hidden]
 */
#include "kernels/cuda/train/cuda_train.h"
#include "kernels/functions.h"

#define REAL     float
#define FN(name) name##_f32
#include "kernels/unary_math.inc"

/* Kinds of functions by number: the same order as the library's, since both come from one file. */
enum {
#define FUNCTION(KIND, word, alpha, beta, value, slope) RECURRENT_##KIND,
#include "kernels/unary_recurrent.inc"
#undef FUNCTION
};

/* A direction of a node, and what its kernels read and write; NULL as in train_args.h. */
struct cells {
    struct vc_args_recurrent args;
    uint64_t direction, size, wide; /* wide = gates * size */
    const int64_t *lengths;
    const float *peepholes;                       /* of the direction */
    const float *first_cell;                      /* backward */
    float *work, *h, *c, *t, *back, *sums, *bias; /* backward: h and c are gradients */
    float *y;                                     /* backward: dy, which is read only */
    float *by_row;
};

/* Numbers of all rows' states. */
static __host__ __device__ __forceinline__ uint64_t states_of(const struct cells &s)
{
    return s.args.rows * s.size;
}

/* ---- functions, of one number ---- */

static __device__ __forceinline__ uint64_t function_of(const struct cells &s, unsigned f)
{
    unsigned per_direction = s.args.gates == 4 ? 3 : s.args.gates == 3 ? 2 : 1;

    return per_direction * s.direction + f;
}

static __device__ float apply(const struct cells &s, unsigned f, float x)
{
    uint64_t at = function_of(s, f);
    float a = (float)s.args.functions[at].a;
    float b = (float)s.args.functions[at].b;
    float clip = f < 2 ? (float)s.args.clip : 0;

    (void)b;
    if (clip != 0) {
        x = x < -clip ? -clip : x > clip ? clip : x;
    }
    switch (s.args.functions[at].kind) {
#define FUNCTION(KIND, word, alpha, beta, value, slope) \
    case RECURRENT_##KIND:                              \
        return value;
#include "kernels/unary_recurrent.inc"
#undef FUNCTION
    default:
        return x;
    }
}

/* d f'(x), of y = f(x). */
static __device__ float slope(const struct cells &s, unsigned f, float y, float d)
{
    uint64_t at = function_of(s, f);
    float a = (float)s.args.functions[at].a;
    float b = (float)s.args.functions[at].b;

    (void)a;
    (void)b;
    switch (s.args.functions[at].kind) {
#define FUNCTION(KIND, word, alpha, beta, value, slope) \
    case RECURRENT_##KIND:                              \
        d *= slope;                                     \
        break;
#include "kernels/unary_recurrent.inc"
#undef FUNCTION
    default:
        break;
    }
    if (f < 2 && s.args.clip != 0 && (y == apply(s, f, (float)-s.args.clip) || y == apply(s, f, (float)s.args.clip))) {
        return 0;
    }
    return d;
}

/* ---- where things are ---- */

static __device__ __forceinline__ uint64_t length_of(const struct cells &s, uint64_t row)
{
    int64_t length = s.lengths != NULL ? s.lengths[row] : (int64_t)s.args.steps;

    return length < 0 ? 0 : VC_AT_MOST((uint64_t)length, s.args.steps); /* a wrong one was told before */
}

/* The step that is number k on the way of a row of that length. */
static __device__ __forceinline__ uint64_t step_of(const struct cells &s, uint64_t length, uint64_t k)
{
    return s.args.reverse[s.direction] && k < length ? length - 1 - k : k;
}

static __device__ __forceinline__ uint64_t place_of(const struct cells &s, uint64_t row, uint64_t step)
{
    uint64_t n = s.args.rows_first ? row * s.args.steps + step : step * s.args.rows + row;

    return n * s.args.directions + s.direction;
}

static __device__ __forceinline__ uint64_t y_at(const struct cells &s, uint64_t row, uint64_t step)
{
    return s.args.rows_first ? ((row * s.args.steps + step) * s.args.directions + s.direction) * s.size
                             : ((step * s.args.directions + s.direction) * s.args.rows + row) * s.size;
}

static __device__ __forceinline__ uint64_t state_at(const struct cells &s, uint64_t row)
{
    return (s.args.rows_first ? row * s.args.directions + s.direction : s.direction * s.args.rows + row) * s.size;
}

/* Number j of a row at a place, of the three arrays of work; gates: of the first, the others follow by size. */
static __device__ __forceinline__ float *gates_of(const struct cells &s, uint64_t place, uint64_t j)
{
    return s.work + place * s.wide + j;
}

static __device__ __forceinline__ float *kept_of(const struct cells &s, uint64_t place, uint64_t j)
{
    return s.work + s.args.kept + place * s.size + j;
}

static __device__ __forceinline__ float *before_of(const struct cells &s, uint64_t place, uint64_t j)
{
    return s.work + s.args.before + place * s.size + j;
}

/* Zeros for a step behind the end of a row: products over all steps read it, too. */
static __device__ void clear_step(const struct cells &s, uint64_t place, uint64_t j)
{
    if (s.args.keeps) {
        for (unsigned gate = 0; gate < s.args.gates; gate++) {
            gates_of(s, place, j)[gate * s.size] = 0;
        }
        *before_of(s, place, j) = 0;
        if (s.args.gates != 1) {
            *kept_of(s, place, j) = 0;
        }
    }
}

/* ---- begin and end ---- */

/* States from arrays that may not be there; t becomes 0. */
static __global__ void load_kernel(struct cells s, const float *h, const float *c)
{
    VC_CUDA_EACH(i, states_of(s))
    {
        uint64_t at = state_at(s, i / s.size) + i % s.size;
        bool empty = length_of(s, i / s.size) == 0; /* a row without steps has no states */

        s.h[i] = h != NULL && !empty ? h[at] : 0;
        s.c[i] = c != NULL && !empty ? c[at] : 0;
        s.t[i] = 0;
    }
}

/* to, from; either pair may be NULL. */
static __global__ void store_kernel(struct cells s, float *h, float *c)
{
    VC_CUDA_EACH(i, states_of(s))
    {
        uint64_t at = state_at(s, i / s.size) + i % s.size;

        if (h != NULL) {
            h[at] = s.h[i];
        }
        if (c != NULL) {
            c[at] = s.c[i];
        }
    }
}

/* One number for each sum: both biases, but for the third gate of a GRU that resets last. bias: of the direction, or NULL. */
static __global__ void join_biases_kernel(struct cells s, const float *bias)
{
    uint64_t both = s.args.gates == 3 && s.args.resets_last ? 2 * s.size : s.wide;

    VC_CUDA_EACH(j, s.wide + s.size)
    {
        float v = 0;

        if (bias != NULL && j < s.wide) {
            v = j < both ? bias[j] + bias[s.wide + j] : bias[j];
        } else if (bias != NULL && both != s.wide) {
            v = bias[s.wide + 2 * s.size + (j - s.wide)];
        }
        s.bias[j] = v;
    }
}

/* ---- forward ---- */

/* Gates i, o, f and the new part of an LSTM, whose cell is c; returns the state. */
static __device__ float lstm_forward(const struct cells &s, uint64_t j, float *g, float *cell)
{
    const float *p = s.peepholes;
    float c = *cell;
    float i = g[0];
    float o = g[s.size];
    float f = g[2 * s.size];
    float news = g[3 * s.size];

    if (p != NULL) {
        i += p[j] * c;
        f += p[2 * s.size + j] * c;
    }
    i = apply(s, 0, i);
    f = s.args.couples ? 1 - i : apply(s, 0, f);
    news = apply(s, 1, news);
    c = f * c + i * news;
    if (p != NULL) {
        o += p[s.size + j] * c;
    }
    o = apply(s, 0, o);
    g[0] = i;
    g[s.size] = o;
    g[2 * s.size] = f;
    g[3 * s.size] = news;
    *cell = c;
    return apply(s, 2, c) * o;
}

/* The new state of a GRU, of which g has z and the sum of the new part. */
static __device__ float gru_state(const struct cells &s, float *g, float h)
{
    float news = apply(s, 1, g[2 * s.size]);

    g[2 * s.size] = news;
    return (1 - g[0]) * news + g[0] * h;
}

/* Up to the new state; of GRU without resets_last up to what its second product reads, in t. */
static __device__ void forward_cell(const struct cells &s, uint64_t n, uint64_t place, uint64_t j, bool at_zero)
{
    const float *sums = s.sums + n / s.size * s.wide + j;
    float *g = gates_of(s, place, j);
    float h = s.h[n];

    if (s.args.keeps) {
        *before_of(s, place, j) = h;
    }
    for (unsigned gate = 0; gate < s.args.gates; gate++) {
        float x = g[gate * s.size];

        if (s.args.gates != 3 || gate < 2) {
            x += at_zero ? 0 : sums[gate * s.size];
        }
        g[gate * s.size] = x + s.bias[gate * s.size + j];
    }
    if (s.args.gates == 4) {
        s.h[n] = lstm_forward(s, j, g, &s.c[n]);
        if (s.args.keeps) {
            *kept_of(s, place, j) = s.c[n];
        }
    } else if (s.args.gates == 3) {
        float r;
        float part;

        g[0] = apply(s, 0, g[0]);
        r = g[s.size] = apply(s, 0, g[s.size]);
        part = s.args.resets_last ? (at_zero ? 0 : s.t[n]) + s.bias[s.wide + j] : r * h;
        if (s.args.keeps) {
            *kept_of(s, place, j) = part;
        }
        s.t[n] = part;
        if (s.args.resets_last) {
            g[2 * s.size] += r * part;
            s.h[n] = gru_state(s, g, h);
        }
    } else {
        s.h[n] = g[0] = apply(s, 0, g[0]);
    }
}

static __device__ void write_y(const struct cells &s, uint64_t row, uint64_t j, uint64_t step, float v)
{
    if (s.y != NULL) {
        s.y[y_at(s, row, step) + j] = v;
    }
}

/* Step k of all rows. at_zero: the states are all 0, and nothing was multiplied. */
static __global__ void forward_kernel(struct cells s, uint64_t k, bool at_zero)
{
    VC_CUDA_EACH(n, states_of(s))
    {
        uint64_t row = n / s.size;
        uint64_t j = n % s.size;
        uint64_t length = length_of(s, row);

        if (k < length) {
            uint64_t step = step_of(s, length, k);

            forward_cell(s, n, place_of(s, row, step), j, at_zero);
            write_y(s, row, j, step, s.h[n]);
        } else {
            clear_step(s, place_of(s, row, k), j);
            write_y(s, row, j, k, 0);
        }
    }
}

/* GRU without resets_last: the new part, behind its product. */
static __global__ void forward_new_kernel(struct cells s, uint64_t k)
{
    VC_CUDA_EACH(n, states_of(s))
    {
        uint64_t row = n / s.size;
        uint64_t j = n % s.size;
        uint64_t length = length_of(s, row);
        uint64_t step = step_of(s, length, k);

        if (k < length) {
            float *g = gates_of(s, place_of(s, row, step), j);

            g[2 * s.size] += s.sums[row * s.wide + j];
            s.h[n] = gru_state(s, g, s.h[n]);
            write_y(s, row, j, step, s.h[n]);
        }
    }
}

/* ---- backward ---- */

/* The gradients d of the sums take the place of the gates, go to the product that follows, and are added to those of the row's
 * other steps. */
static __device__ void leave(const struct cells &s, uint64_t row, uint64_t j, float *g, const float *d)
{
    float *by_row = !s.args.biases || s.by_row == NULL
                        ? NULL
                        : s.by_row + s.args.sums + (row * s.args.directions + s.direction) * s.wide + j;

    for (unsigned gate = 0; gate < s.args.gates; gate++) {
        s.sums[row * s.wide + gate * s.size + j] = d[gate];
        g[gate * s.size] = d[gate];
        if (by_row != NULL) {
            by_row[gate * s.size] += d[gate];
        }
    }
}

/* d: gradients of the sums of i, o, f and the new part; cell: that of the cell behind the step, then before it. */
static __device__ void lstm_backward(const struct cells &s, uint64_t row, uint64_t j, const float *g, float c,
                                     float c_before, float dh, float *cell, float *d)
{
    const float *p = s.peepholes;
    float i = g[0];
    float o = g[s.size];
    float f = g[2 * s.size];
    float news = g[3 * s.size];
    float out = apply(s, 2, c);
    float dc = *cell;

    dc += slope(s, 2, out, dh * o);
    d[1] = slope(s, 0, o, dh * out);
    if (p != NULL) {
        dc += d[1] * p[s.size + j];
    }
    d[0] = dc * news;
    d[2] = dc * c_before;
    d[3] = dc * i;
    dc *= f;
    if (s.args.couples) { /* f = 1 - i */
        d[0] -= d[2];
        d[2] = 0;
    } else {
        d[2] = slope(s, 0, f, d[2]);
    }
    d[0] = slope(s, 0, i, d[0]);
    d[3] = slope(s, 1, news, d[3]);
    if (p != NULL) {
        dc += d[0] * p[j];
        dc += d[2] * p[2 * s.size + j];
    }
    if (s.by_row != NULL && s.args.sums != 0) {
        float *dp = s.by_row + (row * s.args.directions + s.direction) * 3 * s.size + j;

        dp[0] += d[0] * c_before;
        dp[s.size] += d[1] * c;
        dp[2 * s.size] += d[2] * c_before;
    }
    *cell = dc;
}

/* What of a GRU's step needs no second product; back: what of dh goes straight to the state before. */
static __device__ void gru_backward(const struct cells &s, uint64_t n, uint64_t place, float dh, float *d)
{
    uint64_t j = n % s.size;
    uint64_t row = n / s.size;
    float *g = gates_of(s, place, j);
    float z = g[0];
    float r = g[s.size];
    float news = g[2 * s.size];

    d[0] = slope(s, 0, z, dh * (*before_of(s, place, j) - news));
    d[2] = slope(s, 1, news, dh * (1 - z));
    s.t[n] = dh * z;
    if (s.args.resets_last) { /* the state's part of the new one has a gradient of its own */
        float *kept = kept_of(s, place, j);
        float part = d[2] * r;

        d[1] = slope(s, 0, r, d[2] * *kept);
        *kept = part;
        leave(s, row, j, g, d);
        if (s.args.biases && s.by_row != NULL) {
            s.by_row[s.args.sums + s.args.rows * s.args.directions * s.wide +
                     (row * s.args.directions + s.direction) * s.size + j] += part;
        }
        s.sums[row * s.wide + 2 * s.size + j] = part;
    } else { /* r: behind the product with the new one's weights */
        s.sums[row * s.wide + j] = d[0];
        s.sums[row * s.wide + 2 * s.size + j] = d[2];
    }
}

/* The gradient of the state behind step k, from that behind the step after it: what the product over it made. */
static __device__ float state_gradient(const struct cells &s, uint64_t n, uint64_t length, uint64_t k)
{
    return k + 1 < length ? s.back[n] + s.t[n] : s.h[n];
}

/* Step k of all rows, from the last to the first. */
static __global__ void backward_kernel(struct cells s, uint64_t k)
{
    VC_CUDA_EACH(n, states_of(s))
    {
        uint64_t row = n / s.size;
        uint64_t j = n % s.size;
        uint64_t length = length_of(s, row);
        uint64_t place = place_of(s, row, step_of(s, length, k));
        float *g = gates_of(s, place, j);
        float d[4];
        float dh;

        if (k >= length) {
            for (unsigned gate = 0; gate < s.args.gates; gate++) {
                s.sums[row * s.wide + gate * s.size + j] = 0;
            }
            clear_step(s, place, j);
            continue;
        }
        dh = state_gradient(s, n, length, k);
        if (s.y != NULL) {
            dh += s.y[y_at(s, row, step_of(s, length, k)) + j];
        }
        if (s.args.gates == 3) {
            gru_backward(s, n, place, dh, d);
            continue;
        }
        s.t[n] = 0;
        if (s.args.gates == 4) {
            float c_before = k != 0                 ? *kept_of(s, place_of(s, row, step_of(s, length, k - 1)), j)
                             : s.first_cell != NULL ? s.first_cell[state_at(s, row) + j]
                                                    : 0;

            lstm_backward(s, row, j, g, *kept_of(s, place, j), c_before, dh, &s.c[n], d);
        } else {
            d[0] = slope(s, 0, g[0], dh);
        }
        leave(s, row, j, g, d);
    }
}

/* GRU without resets_last: back is the gradient of r h. */
static __global__ void backward_reset_kernel(struct cells s, uint64_t k)
{
    VC_CUDA_EACH(n, states_of(s))
    {
        uint64_t row = n / s.size;
        uint64_t j = n % s.size;
        uint64_t length = length_of(s, row);

        if (k < length) {
            uint64_t place = place_of(s, row, step_of(s, length, k));
            float *g = gates_of(s, place, j);
            float d[3] = {s.sums[row * s.wide + j], slope(s, 0, g[s.size], s.back[n] * *before_of(s, place, j)),
                          s.sums[row * s.wide + 2 * s.size + j]};

            s.t[n] += s.back[n] * g[s.size];
            leave(s, row, j, g, d);
        }
    }
}

/* Gradients of the first states, once the products over step 0 are made. */
static __global__ void backward_end_kernel(struct cells s, float *h, float *c)
{
    VC_CUDA_EACH(n, states_of(s))
    {
        uint64_t row = n / s.size;
        uint64_t at = state_at(s, row) + n % s.size;

        h[at] = length_of(s, row) > 0 ? s.back[n] + s.t[n] : s.h[n];
        c[at] = s.c[n];
    }
}

/* ---- steps ---- */

static struct cells cells_of(const struct vc_args_recurrent *args, uint64_t direction, void *work, const void *lengths,
                             const void *peepholes, void *scratch)
{
    struct cells s = {};
    uint64_t states = args->rows * args->hidden;

    s.args = *args;
    s.direction = direction;
    s.size = args->hidden;
    s.wide = args->gates * args->hidden;
    s.lengths = (const int64_t *)lengths;
    s.peepholes = peepholes != NULL ? (const float *)peepholes + direction * 3 * s.size : NULL;
    s.work = (float *)work;
    s.h = (float *)scratch;
    s.c = s.h + states;
    s.t = s.c + states;
    s.back = s.t + states;
    s.sums = s.back + states;
    s.bias = s.sums + args->rows * s.wide;
    return s;
}

/* to [rows, n of to_row] = a [rows, k of a_row] times n x k weights turned, or k x n as they are. */
static int multiply(struct vc_cuda_session *session, const struct cells *s, const float *a, uint64_t a_row, uint64_t k,
                    const float *b, bool turned, uint64_t n, float *to, uint64_t to_row)
{
    struct vc_cuda_product p = {};

    p.m = s->args.rows;
    p.n = n;
    p.k = k;
    p.a = a;
    p.b = b;
    p.c = to;
    p.a_row = (int64_t)a_row;
    p.a_column = 1;
    p.b_row = turned ? 1 : (int64_t)n;
    p.b_column = turned ? (int64_t)k : 1;
    p.c_row = (int64_t)to_row;
    p.n_batch = 1;
    p.alpha = 1;
    return vc_cuda_multiply(session, &p);
}

#define STATES(session, s, kernel, ...) VC_CUDA_ELEMENTS(session, kernel, states_of(*(s)), *(s), __VA_ARGS__)

static int forward_steps(struct vc_cuda_session *session, const struct cells *s, const float *r, bool at_zero)
{
    bool second = s->args.gates == 3 && !s->args.resets_last;
    uint64_t n = s->args.gates == 3 ? 2 * s->size : s->wide;
    int result = cudaSuccess;

    for (uint64_t k = 0; k < s->args.steps; k++) {
        if (k != 0 || !at_zero) {
            VC_CUDA_TRY(multiply(session, s, s->h, s->size, s->size, r, true, n, s->sums, s->wide));
            if (s->args.gates == 3 && s->args.resets_last) {
                VC_CUDA_TRY(
                    multiply(session, s, s->h, s->size, s->size, r + n * s->size, true, s->size, s->t, s->size));
            }
        }
        STATES(session, s, forward_kernel, k, k == 0 && at_zero);
        if (second) {
            VC_CUDA_TRY(multiply(session, s, s->t, s->size, s->size, r + n * s->size, true, s->size, s->sums, s->wide));
            STATES(session, s, forward_new_kernel, k);
        }
    }
    result = vc_cuda_launched();
out:
    return result;
}

int vc_cuda_train_recurrent(struct vc_cuda_session *session, const struct vc_train_work *w)
{
    const struct vc_args_recurrent *args = (const struct vc_args_recurrent *)w->call->args;
    void *const *p = w->call->p;
    int result = cudaSuccess;

    for (uint64_t d = 0; d < args->directions; d++) {
        struct cells s = cells_of(args, d, p[0], p[4], p[3], p[10]);

        s.y = (float *)p[7];
        STATES(session, &s, load_kernel, (const float *)p[5], (const float *)p[6]);
        VC_CUDA_ELEMENTS(session, join_biases_kernel, s.wide + s.size, s,
                         p[2] != NULL ? (const float *)p[2] + d * 2 * s.wide : NULL);
        VC_CUDA_TRY(forward_steps(session, &s, (const float *)p[1] + d * s.wide * s.size, p[5] == NULL));
        STATES(session, &s, store_kernel, (float *)p[8], (float *)p[9]);
    }
    result = vc_cuda_launched();
out:
    return result;
}

static int backward_steps(struct vc_cuda_session *session, const struct cells *s, const float *r, bool wants_first)
{
    bool second = s->args.gates == 3 && !s->args.resets_last;
    uint64_t n = second ? 2 * s->size : s->wide;
    int result = cudaSuccess;

    for (uint64_t k = s->args.steps; k-- > 0;) {
        STATES(session, s, backward_kernel, k);
        if (second) {
            VC_CUDA_TRY(multiply(session, s, s->sums + 2 * s->size, s->wide, s->size, r + n * s->size, false, s->size,
                                 s->back, s->size));
            STATES(session, s, backward_reset_kernel, k);
        }
        if (k != 0 || wants_first) {
            VC_CUDA_TRY(multiply(session, s, s->sums, s->wide, n, r, false, s->size, s->back, s->size));
        }
    }
    result = vc_cuda_launched();
out:
    return result;
}

int vc_cuda_train_recurrent_backward(struct vc_cuda_session *session, const struct vc_train_work *w)
{
    const struct vc_args_recurrent *args = (const struct vc_args_recurrent *)w->call->args;
    void *const *p = w->call->p;
    uint64_t all = args->rows * args->directions;
    uint64_t each = (args->gates + (args->gates == 3 && args->resets_last ? 1 : 0)) * args->hidden;
    int result = cudaSuccess;

    if (p[9] != NULL) {
        VC_CUDA_TRY(
            cudaMemsetAsync(p[9], 0, (args->sums + (args->biases ? all * each : 0)) * sizeof(float), session->stream));
    }
    for (uint64_t d = 0; d < args->directions; d++) {
        struct cells s = cells_of(args, d, p[0], p[3], p[2], p[10]);
        float *first = (float *)p[8];

        s.y = (float *)p[5];
        s.first_cell = (const float *)p[4];
        s.by_row = (float *)p[9];
        STATES(session, &s, load_kernel, (const float *)p[6], (const float *)p[7]);
        VC_CUDA_TRY(backward_steps(session, &s, (const float *)p[1] + d * s.wide * s.size, first != NULL));
        if (first != NULL) {
            STATES(session, &s, backward_end_kernel, first, first + all * s.size);
        }
    }
    result = vc_cuda_launched();
out:
    return result;
}
