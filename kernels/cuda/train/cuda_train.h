/* cuda_train.h - inside of training on the device: a session, and what the files cuda_train*.cu have in common.
 *
 * Kernels for floats only, and with the sums of the CPU's loops (engine/loops/) in the CPU's order, so that an
 * instruction without a product of matrices gives the same bits. Where the CPU adds in 16 lanes, a team of 16 threads
 * does; where it adds one by one, one thread does. */
#pragma once

#include "kernels/cuda/cuda_device.h"
#include "kernels/device/train_backend.h"

#define VC_CUDA_LANES_OF_SUM 16
#define VC_CUDA_TEAMS        (VC_CUDA_THREADS / VC_CUDA_LANES_OF_SUM) /* of a block */

struct vc_cuda_cublas; /* cuda_train_products.cu */

struct vc_cuda_session {
    cudaStream_t stream;
    bool captures;                 /* what is asked for becomes part of a graph */
    struct vc_engine_pass *pass;   /* device memory: that of the graph which is launched */
    unsigned long long *fault;     /* device memory: 0, or the complement of node (24 bits) and place (40 bits) */
    struct vc_cuda_cublas *cublas; /* NULL: products are made by a kernel of our own */
    char products[64];
    unsigned char *pinned; /* host memory that copies go through: half of it up, half of it down */
    uint64_t pinned_taken; /* of the upper half, by copies that may be in flight */
};

/* As to_host of train_backend.h. */
int vc_cuda_train_to_host(void *session, void *to, const void *from, uint64_t bytes);

typedef int vc_cuda_loop(struct vc_cuda_session *session, const struct vc_train_work *work);

#define LOOP(id) vc_cuda_loop vc_cuda_train_##id;
#include "kernels/cuda/train/cuda_train.inc"
#undef LOOP

/* cuda_train_step.cu; contracts in train_backend.h. */
int vc_cuda_train_loss(void *session, const struct vc_train_loss *loss);
int vc_cuda_train_measure(void *session, const struct vc_train_block *blocks, uint64_t n, double *squares);
int vc_cuda_train_update(void *session, const struct vc_train_block *blocks, uint64_t n,
                         const struct vc_train_update *update);
/* cuda_train_fake_quant.cu */
int vc_cuda_train_fake_quant(void *session, const struct vc_train_fake_quant *fake_quant);

extern const struct vc_train_sums vc_cuda_train_sums; /* cuda_train_nccl.cu */

/* A product of matrices for each of n_batch: c = alpha a b, or c += alpha a b. Element (i, j) of a is at
 * i * a_row + j * a_column; those of a row of c are side by side. Matrix number i of a batch lies at
 * i / n_inner * a_outer + i % n_inner * a_step of a; n_inner 0: at i * a_step. */
struct vc_cuda_product {
    uint64_t m, n, k;
    const float *a, *b;
    float *c;
    int64_t a_row, a_column, b_row, b_column, c_row;
    uint64_t n_batch;
    int64_t a_step, b_step, c_step; /* from one of the batch to the next */
    uint64_t n_inner;
    int64_t a_outer, b_outer, c_outer;
    /* With n_inner: device memory, the addresses of all these matrices; or NULL. cuBLAS takes a batch without equal steps by
     * them. */
    const float *const *a_at, *const *b_at;
    float *const *c_at;
    float alpha;
    bool add;
};

int vc_cuda_multiply(struct vc_cuda_session *session, const struct vc_cuda_product *product);
void vc_cuda_products_begin(struct vc_cuda_session *session); /* cuBLAS, where it can be loaded */
void vc_cuda_products_end(struct vc_cuda_session *session);
uint64_t vc_cuda_products_bytes(void); /* device memory that cuBLAS works in */

/* How many loads a thread of the next launch makes one after the other, each waiting for the one before or for a barrier
 * behind it: loads that are asked for together count as one. The time of small kernels is that number times 0.5 us or so. The
 * emulated card writes it down, and a test bounds it. */
#ifndef VC_CUDA_CHAIN
#define VC_CUDA_CHAIN(kernel, n) ((void)0)
#endif

/* for every element i of n, over all threads of the launch */
#define VC_CUDA_EACH(i, n)                                                                       \
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x, vc_end = (n); i < vc_end; \
         i += (uint64_t)gridDim.x * blockDim.x)

/* Divisors for the sizes of dimensions; numbers that they do not divide are divided as they are. */
struct vc_cuda_sizes {
    unsigned n;
    int64_t size[VC_TRAIN_DIMS];
    struct vc_cuda_divisor by[VC_TRAIN_DIMS];
};

static inline struct vc_cuda_sizes vc_cuda_sizes_of(unsigned n, const int64_t *size)
{
    struct vc_cuda_sizes s = {};

    s.n = n;
    for (unsigned k = 0; k < n; k++) {
        s.size[k] = size[k];
        s.by[k] = vc_cuda_divisor_of((uint64_t)size[k]);
    }
    return s;
}

/* Adds to place[v][k] the steps of V arrays for number first + k * by. Q holds the numbers, P the places. All N numbers go through a
 * dimension together, so that nothing waits for one division after the other. */
template <class Q, unsigned N, unsigned V, class P>
static __device__ __forceinline__ void vc_cuda_places(const struct vc_cuda_sizes *sizes,
                                                      const int64_t (*step)[VC_TRAIN_DIMS], uint64_t first, unsigned by,
                                                      P (*place)[N])
{
    Q rest[N];

    VC_CUDA_FOR(k, N)
    {
        rest[k] = (Q)(first + k * by);
    }
    for (unsigned d = sizes->n; d-- > 0;) {
        VC_CUDA_FOR(k, N)
        {
            Q next = d == 0           ? 0
                     : sizeof(Q) == 4 ? (Q)vc_cuda_divide((uint32_t)rest[k], &sizes->by[d])
                                      : rest[k] / (Q)sizes->size[d];
            P index = (P)(rest[k] - next * (Q)sizes->size[d]);

            VC_CUDA_FOR(v, V)
            {
                place[v][k] += index * (P)step[v][d];
            }
            rest[k] = next;
        }
    }
}

/* n / d, of any n; `by` is what d divides by. */
static __device__ __forceinline__ uint64_t vc_cuda_quotient(uint64_t n, const struct vc_cuda_divisor *d, int64_t by)
{
    return n < 1u << 31 ? vc_cuda_divide((uint32_t)n, d) : n / (uint64_t)by;
}

/* Starts a kernel with a thread for each of n elements. */
#define VC_CUDA_ELEMENTS(session, kernel, n, ...)                                                                   \
    VC_CUDA_LAUNCH(kernel, vc_cuda_grid(((uint64_t)(n) + VC_CUDA_THREADS - 1) / VC_CUDA_THREADS), vc_cuda_block(n), \
                   (session)->stream, __VA_ARGS__)

/* Starts a kernel with a team of 16 threads for each of n rows. */
#define VC_CUDA_ROWS(session, kernel, n, ...)                                                                  \
    VC_CUDA_LAUNCH(kernel, vc_cuda_grid(((uint64_t)(n) + VC_CUDA_TEAMS - 1) / VC_CUDA_TEAMS), VC_CUDA_THREADS, \
                   (session)->stream, __VA_ARGS__)

/* Rows of a kernel with teams: the same number of turns for all threads of a block, since sums have barriers. `row` may
 * be beyond the last one, for which nothing is read or written. */
#define VC_CUDA_EACH_ROW(row, n)                                                                                      \
    for (uint64_t vc_base = blockIdx.x * (uint64_t)VC_CUDA_TEAMS, row = vc_base + threadIdx.x / VC_CUDA_LANES_OF_SUM; \
         vc_base < (n); vc_base += (uint64_t)gridDim.x * VC_CUDA_TEAMS, row += (uint64_t)gridDim.x * VC_CUDA_TEAMS)

#define VC_CUDA_LANE (threadIdx.x % VC_CUDA_LANES_OF_SUM)

/* Elements of a row of n that a thread of a team asks for together, before it uses the first: number k of them, behind `base`. */
#define VC_CUDA_PER_LANE    8
#define VC_CUDA_AT(base, k) ((base) + (k)*VC_CUDA_LANES_OF_SUM)
#define VC_CUDA_TOGETHER(base, n) \
    for (uint64_t base = VC_CUDA_LANE; base < (n); base += VC_CUDA_PER_LANE * VC_CUDA_LANES_OF_SUM)
#define VC_CUDA_ADDERS 32u /* threads of a block beside VC_CUDA_THREADS others, which bring what they add */

/* The sum of the lanes of the team, in their order, for all of its threads. `lanes`: VC_CUDA_THREADS floats of shared
 * memory. */
static __device__ __forceinline__ float vc_cuda_add_lanes(float lane, float *lanes)
{
    unsigned first = threadIdx.x - VC_CUDA_LANE;
    float sum = 0;

    __syncthreads();
    lanes[threadIdx.x] = lane;
    __syncthreads();
    for (unsigned l = 0; l < VC_CUDA_LANES_OF_SUM; l++) {
        sum += lanes[first + l];
    }
    return sum;
}

/* Sum of (x - mean) * (y - shift), or of x where y is NULL (train_norm.h), for all threads of the team; n 0 where the team has no
 * row. */
static __device__ __forceinline__ float vc_cuda_norm_dot(const float *x, float mean, const float *y, float shift,
                                                         uint64_t n, float *lanes)
{
    uint64_t whole = n / VC_CUDA_LANES_OF_SUM * VC_CUDA_LANES_OF_SUM;
    float lane = 0;
    float sum;

    VC_CUDA_TOGETHER(base, whole)
    {
        float v[VC_CUDA_PER_LANE];

        VC_CUDA_FOR(k, VC_CUDA_PER_LANE)
        {
            uint64_t i = VC_CUDA_AT(base, k);

            v[k] = i >= whole ? 0 : y == NULL ? x[i] : (x[i] - mean) * (y[i] - shift); /* 0 changes no sum */
        }
        VC_CUDA_FOR(k, VC_CUDA_PER_LANE)
        {
            lane += v[k];
        }
    }
    sum = vc_cuda_add_lanes(lane, lanes);
    for (uint64_t i = whole; i < n; i++) {
        sum += y == NULL ? x[i] : (x[i] - mean) * (y[i] - shift);
    }
    return sum;
}

/* Whether the last launches could be started. */
static inline int vc_cuda_launched(void)
{
    return (int)cudaGetLastError();
}
