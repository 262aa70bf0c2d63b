/* cuda_train_window.cu - training on the device: pools, and convolutions as products of unrolled windows. A thread
 * makes one result: where windows overlap, one thread adds up what goes to an element, in the order of the windows, as
 * the loops of engine/loops/train_pool.h do. */
#include "kernels/cuda/train/cuda_train.h"
#include "kernels/train_windows.h"

/* The indices of element `at` in three dimensions; returns what is in front of these, the plane. */
static __device__ __forceinline__ uint64_t place_in(uint64_t at, const struct vc_cuda_sizes *sizes, int64_t *place)
{
    VC_CUDA_UNROLL
    for (unsigned k = 3; k-- > 0;) {
        uint64_t rest = vc_cuda_quotient(at, &sizes->by[k], sizes->size[k]);

        place[k] = (int64_t)(at - rest * (uint64_t)sizes->size[k]);
        at = rest;
    }
    return at;
}

/* What a pool's backward pass divides by. */
struct pool_sizes {
    struct vc_cuda_sizes in, stride, dilation;
};

static struct pool_sizes pool_sizes_of(const struct vc_args_window *w)
{
    struct pool_sizes sizes = {vc_cuda_sizes_of(3, w->in), vc_cuda_sizes_of(3, w->stride),
                               vc_cuda_sizes_of(3, w->dilation)};

    return sizes;
}

/* The windows along dimension k that may have element i in them: from *first to before *end. */
static __device__ __forceinline__ void pool_windows(const struct vc_args_window *w, const struct pool_sizes *sizes,
                                                    unsigned k, int64_t i, int64_t *first, int64_t *end)
{
    const struct vc_cuda_divisor *by = &sizes->stride.by[k];
    int64_t last = i + w->before[k]; /* o * stride is at most this, and at least so much less */
    int64_t least = last - (w->kernel[k] - 1) * w->dilation[k];

    *first = least <= 0 ? 0 : (int64_t)vc_cuda_quotient((uint64_t)least - 1, by, w->stride[k]) + 1;
    *end = last < 0 ? 0 : (int64_t)vc_cuda_quotient((uint64_t)last, by, w->stride[k]) + 1;
    *end = *end > w->out[k] ? w->out[k] : *end;
}

/* Which element of window o is element i, along dimension k; -1: none. */
static __device__ __forceinline__ int64_t pool_element(const struct vc_args_window *w, const struct pool_sizes *sizes,
                                                       unsigned k, int64_t o, int64_t i)
{
    int64_t from = i + w->before[k] - o * w->stride[k];
    int64_t element = (int64_t)vc_cuda_quotient(from > 0 ? (uint64_t)from : 0, &sizes->dilation.by[k], w->dilation[k]);

    return element * w->dilation[k] == from && element < w->kernel[k] ? element : -1;
}

/* NaN wins, as soon as it comes. `places` keeps which element won, for the step back; NULL where nothing is trained. */
static __global__ void max_pool_kernel(struct vc_args_window w, struct vc_cuda_sizes sizes, const float *from, float *y,
                                       void *places)
{
    uint64_t out = vc_window_volume(w.out);

    VC_CUDA_EACH(at, w.planes * out)
    {
        int64_t o[3], first[3], end[3], begin[3];
        const float *x = from + place_in(at, &sizes, o) * vc_window_volume(w.in);
        float most = -vc_bits_f32(VC_F32_INF_BITS);
        uint32_t which = UINT32_MAX;

        for (unsigned k = 0; k < 3; k++) {
            begin[k] = vc_window_inside(&w, k, o[k], &first[k], &end[k]);
        }
        for (int64_t d = first[0]; d < end[0]; d++) {
            for (int64_t h = first[1]; h < end[1]; h++) {
                for (int64_t v = first[2]; v < end[2]; v++) {
                    float e = x[((begin[0] + d * w.dilation[0]) * w.in[1] + begin[1] + h * w.dilation[1]) * w.in[2] +
                                begin[2] + v * w.dilation[2]];

                    if (which == UINT32_MAX || e > most || e != e) {
                        most = e;
                        which = (uint32_t)((d * w.kernel[1] + h) * w.kernel[2] + v);
                    }
                }
            }
        }
        y[at] = most;
        if (places != NULL && vc_window_places_are_bytes(&w)) {
            ((uint8_t *)places)[at] = (uint8_t)which;
        } else if (places != NULL) {
            ((uint32_t *)places)[at] = which;
        }
    }
}

int vc_cuda_train_max_pool(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_window *args = (const struct vc_args_window *)w->call->args;

    VC_CUDA_ELEMENTS(s, max_pool_kernel, args->planes * vc_window_volume(args->out), *args,
                     vc_cuda_sizes_of(3, args->out), (const float *)w->call->p[0], (float *)w->call->p[1],
                     w->call->p[2]);
    return vc_cuda_launched();
}

/* A thread for each element of the input: the gradients of the windows that it won. by_four: the CPU computes choices in place of
 * sums there, and the sign of a zero is another one. */
static __global__ void max_pool_backward_kernel(struct vc_args_window w, struct pool_sizes sizes, bool by_four,
                                                bool add, const float *grad, float *dx, const void *places)
{
    uint64_t in = vc_window_volume(w.in);
    uint64_t out = vc_window_volume(w.out);

    VC_CUDA_EACH(at, w.planes * in)
    {
        int64_t i[3], first[3], end[3], o[3];
        uint64_t plane = place_in(at, &sizes.in, i) * out;
        float sum = add ? dx[at] : 0;

        for (unsigned k = 0; k < 3; k++) {
            pool_windows(&w, &sizes, k, i[k], &first[k], &end[k]);
        }
        for (o[0] = first[0]; o[0] < end[0]; o[0]++) {
            for (o[1] = first[1]; o[1] < end[1]; o[1]++) {
                for (o[2] = first[2]; o[2] < end[2]; o[2]++) {
                    uint64_t window = plane + (uint64_t)((o[0] * w.out[1] + o[1]) * w.out[2] + o[2]);
                    int64_t d = pool_element(&w, &sizes, 0, o[0], i[0]);
                    int64_t h = pool_element(&w, &sizes, 1, o[1], i[1]);
                    int64_t v = pool_element(&w, &sizes, 2, o[2], i[2]);
                    int64_t which = vc_window_places_are_bytes(&w) ? (int64_t)((const uint8_t *)places)[window]
                                                                   : (int64_t)((const uint32_t *)places)[window];
                    bool is = d >= 0 && h >= 0 && v >= 0 && which == (d * w.kernel[1] + h) * w.kernel[2] + v;

                    if (by_four && !add) {
                        sum = is ? grad[window] : 0;
                    } else if (by_four) {
                        sum += is ? grad[window] : 0;
                    } else if (is) {
                        sum += grad[window];
                    }
                }
            }
        }
        dx[at] = sum;
    }
}

int vc_cuda_train_max_pool_backward(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_window *args = (const struct vc_args_window *)w->call->args;

    VC_CUDA_ELEMENTS(s, max_pool_backward_kernel, args->planes * vc_window_volume(args->in), *args, pool_sizes_of(args),
                     vc_window_by_four(args), w->call->add, (const float *)w->call->p[0], (float *)w->call->p[1],
                     (const void *)w->call->p[2]);
    return vc_cuda_launched();
}

/* A thread for each window. */
static __global__ void average_pool_kernel(struct vc_args_window w, struct vc_cuda_sizes sizes, const float *from,
                                           float *y)
{
    uint64_t out = vc_window_volume(w.out);

    VC_CUDA_EACH(at, w.planes * out)
    {
        int64_t o[3], first[3], end[3], begin[3];
        const float *x = from + place_in(at, &sizes, o) * vc_window_volume(w.in);
        float sum = 0;

        for (unsigned k = 0; k < 3; k++) {
            begin[k] = vc_window_inside(&w, k, o[k], &first[k], &end[k]);
        }
        for (int64_t d = first[0]; d < end[0]; d++) {
            for (int64_t h = first[1]; h < end[1]; h++) {
                for (int64_t v = first[2]; v < end[2]; v++) {
                    sum += x[((begin[0] + d * w.dilation[0]) * w.in[1] + begin[1] + h * w.dilation[1]) * w.in[2] +
                             begin[2] + v * w.dilation[2]];
                }
            }
        }
        y[at] = sum / (float)vc_window_count(&w, o);
    }
}

int vc_cuda_train_average_pool(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_window *args = (const struct vc_args_window *)w->call->args;

    VC_CUDA_ELEMENTS(s, average_pool_kernel, args->planes * vc_window_volume(args->out), *args,
                     vc_cuda_sizes_of(3, args->out), (const float *)w->call->p[0], (float *)w->call->p[1]);
    return vc_cuda_launched();
}

/* A thread for each element of the input: its share of the gradient of each window that it lies in. */
static __global__ void average_pool_backward_kernel(struct vc_args_window w, struct pool_sizes sizes, bool add,
                                                    const float *grad, float *dx)
{
    uint64_t in = vc_window_volume(w.in);
    uint64_t out = vc_window_volume(w.out);

    VC_CUDA_EACH(at, w.planes * in)
    {
        int64_t i[3], first[3], end[3], o[3];
        const float *dy = grad + place_in(at, &sizes.in, i) * out;
        float sum = add ? dx[at] : 0;

        for (unsigned k = 0; k < 3; k++) {
            pool_windows(&w, &sizes, k, i[k], &first[k], &end[k]);
        }
        for (o[0] = first[0]; o[0] < end[0]; o[0]++) {
            for (o[1] = first[1]; o[1] < end[1]; o[1]++) {
                for (o[2] = first[2]; o[2] < end[2]; o[2]++) {
                    if (pool_element(&w, &sizes, 0, o[0], i[0]) >= 0 && pool_element(&w, &sizes, 1, o[1], i[1]) >= 0 &&
                        pool_element(&w, &sizes, 2, o[2], i[2]) >= 0) {
                        sum += dy[(o[0] * w.out[1] + o[1]) * w.out[2] + o[2]] / (float)vc_window_count(&w, o);
                    }
                }
            }
        }
        dx[at] = sum;
    }
}

int vc_cuda_train_average_pool_backward(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    const struct vc_args_window *args = (const struct vc_args_window *)w->call->args;

    VC_CUDA_ELEMENTS(s, average_pool_backward_kernel, args->planes * vc_window_volume(args->in), *args,
                     pool_sizes_of(args), w->call->add, (const float *)w->call->p[0], (float *)w->call->p[1]);
    return vc_cuda_launched();
}

/* ---- convolutions ----
 *
 * The windows of some images at a time become matrices in scratch:
 *
 *     [image, group and channel and element of the window, place of the window] */

/* Images whose windows are unrolled together: `first`, first + step, ... */
struct images {
    uint64_t first, step, n;
};

/* Where elements of the unrolled matrices are read: the place in x, and the indices in its three dimensions, which are outside
 * where windows are padded. All four move by steps of the matrices' dimensions. */
struct unrolled {
    struct vc_cuda_sizes sizes;
    int64_t first[4], step[4][VC_TRAIN_DIMS];
    uint64_t n;
};

static struct unrolled unrolled_of(const struct vc_args_conv *args, struct images images)
{
    uint64_t volume = vc_window_volume(args->in);
    uint64_t channels = args->groups * args->channels;
    const int64_t *in = args->in;
    const int64_t x_step[3] = {in[1] * in[2], in[2], 1};
    int64_t size[VC_TRAIN_DIMS] = {(int64_t)images.n, (int64_t)channels};
    struct unrolled u = {};

    u.first[0] = (int64_t)(images.first * channels * volume);
    u.step[0][0] = (int64_t)(images.step * channels * volume);
    u.step[0][1] = (int64_t)volume;
    for (unsigned k = 0; k < 3; k++) {
        size[2 + k] = args->kernel[k];
        size[5 + k] = args->out[k];
        u.step[1 + k][2 + k] = args->dilation[k];
        u.step[1 + k][5 + k] = args->stride[k];
        u.step[0][2 + k] = args->dilation[k] * x_step[k];
        u.step[0][5 + k] = args->stride[k] * x_step[k];
        u.first[1 + k] = -args->before[k];
        u.first[0] -= args->before[k] * x_step[k];
    }
    u.sizes = vc_cuda_sizes_of(VC_TRAIN_DIMS, size);
    u.n = images.n * channels * vc_window_volume(args->kernel) * vc_window_volume(args->out);
    return u;
}

#define UNROLLED 4 /* elements that a thread reads together */

/* A thread for every UNROLLED elements; outside of the input, where windows are padded, they are 0. */
template <class Q, class P>
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    unroll_kernel(struct unrolled u, P in_0, P in_1, P in_2, const float *x, float *unrolled)
{
    uint64_t all = (uint64_t)gridDim.x * blockDim.x * UNROLLED;

    for (uint64_t base = (uint64_t)blockIdx.x * blockDim.x * UNROLLED; base < u.n; base += all) {
        uint64_t first = base + threadIdx.x;
        P place[4][UNROLLED];
        float v[UNROLLED];

        VC_CUDA_FOR(k, 4 * UNROLLED)
        {
            place[k / UNROLLED][k % UNROLLED] = (P)u.first[k / UNROLLED];
        }
        vc_cuda_places<Q, UNROLLED, 4>(&u.sizes, u.step, first, blockDim.x, place);
        VC_CUDA_FOR(k, UNROLLED)
        {
            bool inside = place[1][k] >= 0 && place[1][k] < in_0 && place[2][k] >= 0 && place[2][k] < in_1 &&
                          place[3][k] >= 0 && place[3][k] < in_2 && first + k * blockDim.x < u.n;

            v[k] = inside ? x[place[0][k]] : 0;
        }
        VC_CUDA_FOR(k, UNROLLED)
        {
            if (first + k * blockDim.x < u.n) {
                unrolled[first + k * blockDim.x] = v[k];
            }
        }
    }
}

/* The other way: a thread adds up all places of an element of the input. */
static __global__ void roll_kernel(struct vc_args_conv args, struct vc_cuda_sizes sizes, struct vc_cuda_sizes strides,
                                   struct images images, bool add, const float *unrolled, float *dx)
{
    uint64_t channels = args.groups * args.channels;
    uint64_t in = vc_window_volume(args.in);

    VC_CUDA_EACH(at, images.n * channels * in)
    {
        float *to = dx + images.first * channels * in + at; /* images are side by side */
        int64_t i[3], e[3];
        const float *from =
            unrolled + place_in(at, &sizes, i) * vc_window_volume(args.kernel) * vc_window_volume(args.out);
        float sum = add ? *to : 0;

        for (e[0] = 0; e[0] < args.kernel[0]; e[0]++) {
            for (e[1] = 0; e[1] < args.kernel[1]; e[1]++) {
                for (e[2] = 0; e[2] < args.kernel[2]; e[2]++) {
                    int64_t place = 0;
                    bool inside = true;

                    for (unsigned k = 0; k < 3; k++) {
                        int64_t from_0 = i[k] + args.before[k] - e[k] * args.dilation[k];
                        int64_t o = (int64_t)vc_cuda_quotient(from_0 > 0 ? (uint64_t)from_0 : 0, &strides.by[k],
                                                              args.stride[k]);

                        inside = inside && o * args.stride[k] == from_0 && o < args.out[k];
                        place = place * args.out[k] + o;
                    }
                    if (inside) {
                        sum += from[(uint64_t)((e[0] * args.kernel[1] + e[1]) * args.kernel[2] + e[2]) *
                                        vc_window_volume(args.out) +
                                    (uint64_t)place];
                    }
                }
            }
        }
        *to = sum;
    }
}

/* Adds the bias of its filter to each result. */
static __global__ void bias_kernel(uint64_t n, uint64_t positions, uint64_t filters, const float *bias, float *y)
{
    VC_CUDA_EACH(i, n)
    {
        y[i] += bias[i / positions % filters];
    }
}

/* Sizes in elements. */
struct conv {
    const struct vc_args_conv *args;
    uint64_t inputs, positions; /* of a group's matrix of windows */
    uint64_t x_image, y_image, unrolled_image;
    uint64_t n; /* images that scratch has room for */
    bool plain; /* windows of one element, side by side: x is its own matrix */
};

/* Sizes of the call's arguments. Windows of one element without steps or padding need no copy. */
static struct conv conv_of(const struct vc_train_work *w)
{
    struct conv c = {};

    c.args = (const struct vc_args_conv *)w->call->args;
    c.inputs = c.args->channels * vc_window_volume(c.args->kernel);
    c.positions = vc_window_volume(c.args->out);
    c.x_image = c.args->groups * c.args->channels * vc_window_volume(c.args->in);
    c.y_image = c.args->groups * c.args->filters * c.positions;
    c.unrolled_image = c.args->groups * c.inputs * c.positions;
    c.n = c.args->images;
    /* One element a window, each in its own place: no unrolling. */
    c.plain = vc_window_volume(c.args->kernel) == 1;
    for (unsigned k = 0; k < 3; k++) {
        c.plain = c.plain && c.args->stride[k] == 1 && c.args->before[k] == 0 && c.args->in[k] == c.args->out[k];
    }
    return c;
}

/* The product for all groups of n images; a, b, c step from group to group and from image to image. The longer of both
 * is the batch. */
static int multiply_all(struct vc_cuda_session *s, struct vc_cuda_product product, uint64_t groups, uint64_t images,
                        const int64_t *group_step, const int64_t *image_step)
{
    bool by_image = images >= groups;
    const int64_t *inner = by_image ? image_step : group_step;
    const int64_t *outer = by_image ? group_step : image_step;
    int result = cudaSuccess;

    product.n_batch = by_image ? images : groups;
    product.a_step = inner[0];
    product.b_step = inner[1];
    product.c_step = inner[2];
    for (uint64_t k = 0; k < (by_image ? groups : images) && result == cudaSuccess; k++) {
        result = vc_cuda_multiply(s, &product);
        product.a += outer[0];
        product.b += outer[1];
        product.c += outer[2];
    }
    return result;
}

static int unroll(struct vc_cuda_session *s, const struct conv *c, struct images images, const float *x,
                  float *unrolled)
{
    struct unrolled u = unrolled_of(c->args, images);
    const int64_t *in = c->args->in;
    uint64_t threads = (u.n + UNROLLED - 1) / UNROLLED;

    if (u.n < 1u << 31 && c->args->batch * c->x_image < 1u << 31) {
        VC_CUDA_ELEMENTS(s, (unroll_kernel<uint32_t, int32_t>), threads, u, (int32_t)in[0], (int32_t)in[1],
                         (int32_t)in[2], x, unrolled);
    } else {
        VC_CUDA_ELEMENTS(s, (unroll_kernel<uint64_t, int64_t>), threads, u, in[0], in[1], in[2], x, unrolled);
    }
    return vc_cuda_launched();
}

/* y = W * windows, for each group of each image: W is [filters, inputs], the windows [inputs, positions]. */
int vc_cuda_train_conv_forward(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    struct conv c = conv_of(w);
    const float *x = (const float *)w->call->p[0];
    float *unrolled = (float *)w->call->p[4];
    float *y = (float *)w->call->p[3];
    struct vc_cuda_product product = {};
    int result = cudaSuccess;

    product.m = c.args->filters;
    product.n = c.positions;
    product.k = c.inputs;
    product.a_row = (int64_t)c.inputs;
    product.a_column = 1;
    product.b_row = product.c_row = (int64_t)c.positions;
    product.b_column = 1;
    product.alpha = 1;
    for (uint64_t first = 0; first < c.args->batch; first += c.n) {
        struct images images = {first, 1, VC_AT_MOST(c.n, c.args->batch - first)};
        const int64_t group[3] = {(int64_t)(c.args->filters * c.inputs), (int64_t)(c.inputs * c.positions),
                                  (int64_t)(c.args->filters * c.positions)};
        const int64_t image[3] = {0, (int64_t)c.unrolled_image, (int64_t)c.y_image};

        /* Scratch has room for c.n images. */
        if (!c.plain) {
            VC_CUDA_TRY(unroll(s, &c, images, x, unrolled));
        }
        product.a = (const float *)w->call->p[1];
        product.b = c.plain ? x + first * c.x_image : unrolled;
        product.c = y + first * c.y_image;
        VC_CUDA_TRY(multiply_all(s, product, c.args->groups, images.n, group, image));
    }
    if (c.args->has_bias) {
        VC_CUDA_ELEMENTS(s, bias_kernel, c.args->batch * c.y_image, c.args->batch * c.y_image, c.positions,
                         c.args->groups * c.args->filters, (const float *)w->call->p[2], y);
        result = vc_cuda_launched();
    }
out:
    return result;
}

/* The gradient of the inputs: the transposed W times that of y, in the form of windows, which are then rolled up. */
int vc_cuda_train_conv_input(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    struct conv c = conv_of(w);
    float *unrolled = (float *)w->call->p[3];
    float *dx = (float *)w->call->p[2];
    struct vc_cuda_product product = {};
    int result = cudaSuccess;

    product.m = c.inputs;
    product.n = c.positions;
    product.k = c.args->filters;
    product.a_row = 1;
    product.a_column = (int64_t)c.inputs;
    product.b_row = product.c_row = (int64_t)c.positions;
    product.b_column = 1;
    product.alpha = 1;
    for (uint64_t first = 0; first < c.args->batch; first += c.n) {
        struct images images = {first, 1, VC_AT_MOST(c.n, c.args->batch - first)};
        const int64_t group[3] = {(int64_t)(c.args->filters * c.inputs), (int64_t)(c.args->filters * c.positions),
                                  (int64_t)(c.inputs * c.positions)};
        const int64_t image[3] = {0, (int64_t)c.y_image, (int64_t)c.unrolled_image};

        product.a = (const float *)w->call->p[1];
        product.b = (const float *)w->call->p[0] + first * c.y_image;
        product.c = unrolled;
        VC_CUDA_TRY(multiply_all(s, product, c.args->groups, images.n, group, image));
        VC_CUDA_ELEMENTS(s, roll_kernel, images.n * c.x_image, *c.args, vc_cuda_sizes_of(3, c.args->in),
                         vc_cuda_sizes_of(3, c.args->stride), images, w->call->add, unrolled, dx);
        VC_CUDA_TRY(vc_cuda_launched());
    }
out:
    return result;
}

/* The gradients of the weights of each chunk of images: image r of all chunks together, then the next one. */
int vc_cuda_train_conv_weights(struct vc_cuda_session *s, const struct vc_train_work *w)
{
    struct conv c = conv_of(w);
    const struct vc_args_conv *args = c.args;
    const float *x = (const float *)w->call->p[0];
    float *unrolled = (float *)w->call->p[3];
    uint64_t group_weights = args->filters * c.inputs;
    struct vc_cuda_product product = {};
    int result = cudaSuccess;

    product.m = args->filters;
    product.n = c.inputs;
    product.k = c.positions;
    product.a_row = (int64_t)c.positions;
    product.a_column = 1;
    product.b_row = 1;
    product.b_column = (int64_t)c.positions;
    product.c_row = (int64_t)c.inputs;
    product.alpha = 1;
    for (uint64_t r = 0; r < args->chunk; r++) {
        uint64_t chunks = (args->batch - r + args->chunk - 1) / args->chunk; /* that have an image r */

        for (uint64_t first = 0; first < chunks; first += c.n) {
            struct images images = {first * args->chunk + r, args->chunk, VC_AT_MOST(c.n, chunks - first)};
            const int64_t group[3] = {(int64_t)(args->filters * c.positions), (int64_t)(c.inputs * c.positions),
                                      (int64_t)group_weights};
            const int64_t image[3] = {(int64_t)(args->chunk * c.y_image),
                                      (int64_t)(c.plain ? args->chunk * c.x_image : c.unrolled_image),
                                      (int64_t)(args->groups * group_weights)};

            if (!c.plain) {
                VC_CUDA_TRY(unroll(s, &c, images, x, unrolled));
            }
            product.a = (const float *)w->call->p[1] + images.first * c.y_image;
            product.b = c.plain ? x + images.first * c.x_image : unrolled;
            product.c = (float *)w->call->p[2] + first * args->groups * group_weights;
            product.add = r > 0 || w->call->add;
            VC_CUDA_TRY(multiply_all(s, product, args->groups, images.n, group, image));
        }
    }
out:
    return result;
}
