/* cuda_train_products.cu - training on the device: products of matrices. By cuBLAS where the system has it, which is
 * loaded when a session begins, so that nothing else needs it; else, and for matrices that are no matrices of a BLAS,
 * by a kernel of our own. Only float arithmetic: no TF32. */
#include "kernels/cuda/train/cuda_train.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Where cuBLAS comes from; the emulated runtime has one of its own. */
#ifndef VC_CUDA_CUBLAS_OPEN
#include <dlfcn.h>
#define VC_CUDA_CUBLAS_OPEN(name)         dlopen(name, RTLD_NOW | RTLD_LOCAL)
#define VC_CUDA_CUBLAS_FIND(file, symbol) dlsym(file, symbol)
#define VC_CUDA_CUBLAS_CLOSE(file)        dlclose(file)
#endif

#define CUBLAS_DEFAULT_MATH 0
#define CUBLAS_OP_N         0
#define CUBLAS_OP_T         1
#define CUBLAS_FAILED       cudaErrorUnknown
#define WORKSPACE_BYTES     ((size_t)8 << 20) /* ours, so that results do not depend on what was free */

/* As cublas_v2.h declares them. */
struct vc_cuda_cublas {
    void *file, *handle, *workspace;
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*version)(void *handle, int *version);
    int (*stream)(void *handle, cudaStream_t stream);
    int (*math)(void *handle, int mode);
    int (*workspace_is)(void *handle, void *workspace, size_t bytes);
    int (*single)(void *handle, int op_a, int op_b, int m, int n, int k, const float *alpha, const float *a, int lda,
                  const float *b, int ldb, const float *beta, float *c, int ldc);
    int (*batched)(void *handle, int op_a, int op_b, int m, int n, int k, const float *alpha, const float *a, int lda,
                   long long stride_a, const float *b, int ldb, long long stride_b, const float *beta, float *c,
                   int ldc, long long stride_c, int n_batch);
    int (*addressed)(void *handle, int op_a, int op_b, int m, int n, int k, const float *alpha, const float *const a[],
                     int lda, const float *const b[], int ldb, const float *beta, float *const c[], int ldc,
                     int n_batch);
};

static struct vc_cuda_cublas the_cublas; /* one session is open at a time */

/* Looks one function up; false: it is not there. */
static bool look_up(void *file, const char *name, void *function)
{
    void *symbol = VC_CUDA_CUBLAS_FIND(file, name);

    memcpy(function, &symbol, sizeof symbol); /* POSIX: a function pointer fits into void * */
    return symbol != NULL;
}

/* The newest library that is there. False also where a function is missing; vc_cuda_products_end closes the file
 * then. */
static bool open_cublas(struct vc_cuda_cublas *b)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"};

    for (unsigned k = 0; k < sizeof names / sizeof *names && b->file == NULL; k++) {
        b->file = VC_CUDA_CUBLAS_OPEN(names[k]);
    }
    return b->file != NULL && look_up(b->file, "cublasCreate_v2", &b->create) &&
           look_up(b->file, "cublasDestroy_v2", &b->destroy) && look_up(b->file, "cublasGetVersion_v2", &b->version) &&
           look_up(b->file, "cublasSetStream_v2", &b->stream) && look_up(b->file, "cublasSetMathMode", &b->math) &&
           look_up(b->file, "cublasSetWorkspace_v2", &b->workspace_is) &&
           look_up(b->file, "cublasSgemm_v2", &b->single) &&
           look_up(b->file, "cublasSgemmStridedBatched", &b->batched) &&
           look_up(b->file, "cublasSgemmBatched", &b->addressed);
}

/* Counted whether cuBLAS is there or not. */
uint64_t vc_cuda_products_bytes(void)
{
    return WORKSPACE_BYTES;
}

/* Without cuBLAS sessions go on with the kernel of this file; `products` says which one it is. */
void vc_cuda_products_begin(struct vc_cuda_session *s)
{
    struct vc_cuda_cublas *b = &the_cublas;
    int version = 0;

    memset(b, 0, sizeof *b);
    s->cublas = NULL;
    if (open_cublas(b) && b->create(&b->handle) == 0 &&
        vc_cuda_memory_take(WORKSPACE_BYTES, &b->workspace) == cudaSuccess && b->version(b->handle, &version) == 0 &&
        b->stream(b->handle, s->stream) == 0 && b->math(b->handle, CUBLAS_DEFAULT_MATH) == 0 &&
        b->workspace_is(b->handle, b->workspace, WORKSPACE_BYTES) == 0) {
        s->cublas = b;
        (void)snprintf(s->products, sizeof s->products, "cuBLAS %d.%d", version / 10000, version / 100 % 100);
        return;
    }
    vc_cuda_products_end(s);
    (void)cudaGetLastError();
    (void)snprintf(s->products, sizeof s->products, "a kernel of the plug-in (no cuBLAS)");
}

/* Also after a begin that failed half-way. */
void vc_cuda_products_end(struct vc_cuda_session *s)
{
    struct vc_cuda_cublas *b = &the_cublas;

    if (b->handle != NULL) {
        (void)b->destroy(b->handle);
    }
    if (b->workspace != NULL) {
        vc_cuda_memory_give(b->workspace, WORKSPACE_BYTES);
    }
    if (b->file != NULL) {
        (void)VC_CUDA_CUBLAS_CLOSE(b->file);
    }
    memset(b, 0, sizeof *b);
    s->cublas = NULL;
}

/* How a BLAS, whose matrices lie column by column, sees one of ours transposed: rows of `columns` elements. False: it
 * cannot. */
static bool blas_matrix(int64_t row, int64_t column, uint64_t rows, uint64_t columns, int *op, int *leading)
{
    int64_t ld;

    if ((column == 1 || columns == 1) && (row >= (int64_t)columns || rows == 1)) {
        *op = CUBLAS_OP_N;
        ld = rows == 1 || row < (int64_t)columns ? (int64_t)columns : row;
    } else if ((row == 1 || rows == 1) && (column >= (int64_t)rows || columns == 1)) {
        *op = CUBLAS_OP_T;
        ld = columns == 1 || column < (int64_t)rows ? (int64_t)rows : column;
    } else {
        return false;
    }
    *leading = (int)ld;
    return ld <= INT_MAX;
}

/* A thread for each result; 16 x 16 of them read both matrices by tiles. Every sum runs over k in order, in parts of
 * 256 that are added, as that of the CPU does (train_product.h). */
#define TILE 16
#define PART 256

/* A block of threads makes a tile of the result, a thread an element; tiles of a and b pass through shared memory.
 * Products are added up in the order of k. */
static __global__ void product_kernel(struct vc_cuda_product p)
{
    VC_CUDA_SHARED(float, a, TILE *TILE);
    VC_CUDA_SHARED(float, b, TILE *TILE);
    uint64_t tiles_m = (p.m + TILE - 1) / TILE;
    uint64_t tiles_n = (p.n + TILE - 1) / TILE;
    uint64_t r = threadIdx.x / TILE;
    uint64_t q = threadIdx.x % TILE;

    for (uint64_t tile = blockIdx.x; tile < tiles_m * tiles_n * p.n_batch; tile += gridDim.x) {
        uint64_t inner = tile / tiles_n / tiles_m % p.n_inner;
        uint64_t outer = tile / tiles_n / tiles_m / p.n_inner;
        const float *of_a = p.a + (int64_t)outer * p.a_outer + (int64_t)inner * p.a_step;
        const float *of_b = p.b + (int64_t)outer * p.b_outer + (int64_t)inner * p.b_step;
        uint64_t i = tile / tiles_n % tiles_m * TILE + r;
        uint64_t j = tile % tiles_n * TILE + q;
        float *c = p.c + (int64_t)outer * p.c_outer + (int64_t)inner * p.c_step + (int64_t)i * p.c_row + (int64_t)j;
        bool is = i < p.m && j < p.n;
        float v = is && p.add ? *c : 0;
        float sum = 0;

        for (uint64_t k0 = 0; k0 < p.k; k0 += TILE) {
            uint64_t n = VC_AT_MOST(p.k - k0, TILE);

            __syncthreads();
            if (i < p.m && q < n) {
                a[threadIdx.x] = of_a[(int64_t)i * p.a_row + (int64_t)(k0 + q) * p.a_column];
            }
            if (j < p.n && r < n) {
                b[threadIdx.x] = of_b[(int64_t)(k0 + r) * p.b_row + (int64_t)j * p.b_column];
            }
            __syncthreads();
            for (uint64_t k = 0; is && k < n; k++) {
                sum = sum + a[r * TILE + k] * b[k * TILE + q];
            }
            if ((k0 + TILE) % PART == 0 || k0 + TILE >= p.k) {
                v = k0 < PART && !p.add ? sum * p.alpha : v + sum * p.alpha;
                sum = 0;
            }
        }
        if (is) {
            *c = v;
        }
    }
}

/* BLAS wants one of the two steps of a matrix to be 1, sizes of int, and equal steps within a batch or addresses; else the
 * kernel does it. */
int vc_cuda_multiply(struct vc_cuda_session *s, const struct vc_cuda_product *given)
{
    struct vc_cuda_product p = *given;
    uint64_t tiles = (p.m + TILE - 1) / TILE * ((p.n + TILE - 1) / TILE) * p.n_batch;
    int op[2], leading[2];

    p.n_inner = p.n_inner == 0 ? p.n_batch : p.n_inner;
    /* row by row is column by column transposed: c' = b' a' */
    if (s->cublas != NULL && blas_matrix(p.a_row, p.a_column, p.m, p.k, &op[0], &leading[0]) &&
        blas_matrix(p.b_row, p.b_column, p.k, p.n, &op[1], &leading[1]) && p.m <= INT_MAX && p.n <= INT_MAX &&
        p.k <= INT_MAX && p.c_row <= INT_MAX && p.n_batch <= INT_MAX && (p.n_batch <= p.n_inner || p.a_at != NULL)) {
        const struct vc_cuda_cublas *b = s->cublas;
        float beta = p.add ? 1 : 0;
        int m = (int)p.n;
        int n = (int)p.m;
        int k = (int)p.k;
        int ldc = (int)(p.c_row > (int64_t)p.n ? p.c_row : (int64_t)p.n);
        int failed;

        if (p.n_batch == 1) { /* which may share out a long sum */
            failed = b->single(b->handle, op[1], op[0], m, n, k, &p.alpha, p.b, leading[1], p.a, leading[0], &beta, p.c,
                               ldc);
        } else if (p.n_batch <= p.n_inner) {
            failed = b->batched(b->handle, op[1], op[0], m, n, k, &p.alpha, p.b, leading[1], p.b_step, p.a, leading[0],
                                p.a_step, &beta, p.c, ldc, p.c_step, (int)p.n_batch);
        } else {
            failed = b->addressed(b->handle, op[1], op[0], m, n, k, &p.alpha, p.b_at, leading[1], p.a_at, leading[0],
                                  &beta, p.c_at, ldc, (int)p.n_batch);
        }
        return failed == 0 ? cudaSuccess : CUBLAS_FAILED;
    }
    VC_CUDA_LAUNCH(product_kernel, vc_cuda_grid(tiles), TILE * TILE, s->stream, p);
    return vc_cuda_launched();
}

/* How many results from s on have matrices at equal distances, and as many pairs. */
static uint64_t regular(const struct vc_args_product *args, uint64_t s)
{
    uint64_t pairs = args->first[s + 1] - args->first[s];
    uint64_t n = 1;

    for (; s + n < args->n_stack && args->first[s + n + 1] - args->first[s + n] == pairs; n++) {
        bool same = n == 1 || args->c_at[s + n] - args->c_at[s + n - 1] == args->c_at[s + 1] - args->c_at[s];

        for (uint64_t p = 0; p < pairs && same && n > 1; p++) {
            uint64_t here = args->first[s + n] + p;
            uint64_t second = args->first[s + 1] + p;

            same = args->a_at[here] - args->a_at[here - pairs] == args->a_at[second] - args->a_at[second - pairs] &&
                   args->b_at[here] - args->b_at[here - pairs] == args->b_at[second] - args->b_at[second - pairs];
        }
        if (!same) {
            break;
        }
    }
    return n;
}

/* A stack of results, each the sum of some products. Results whose products lie at even distances go as one batch. */
int vc_cuda_train_product(struct vc_cuda_session *session, const struct vc_train_work *w)
{
    const struct vc_args_product *args = (const struct vc_args_product *)w->call->args;
    struct vc_cuda_product product = {};
    int result = cudaSuccess;

    product.m = args->m;
    product.n = args->n;
    product.k = args->k;
    product.a_row = args->a.row;
    product.a_column = args->a.column;
    product.b_row = args->b.row;
    product.b_column = args->b.column;
    product.c_row = args->c_row;
    product.alpha = (float)args->alpha;
    for (uint64_t s = 0; s < args->n_stack; s += product.n_batch) {
        uint64_t pairs = args->first[s + 1] - args->first[s];

        product.n_batch = regular(args, s);
        product.c = (float *)w->call->p[2] + args->c_at[s];
        product.c_step = product.n_batch > 1 ? (int64_t)(args->c_at[s + 1] - args->c_at[s]) : 0;
        for (uint64_t p = args->first[s]; p < args->first[s + 1]; p++) {
            product.a = (const float *)w->call->p[0] + args->a_at[p];
            product.b = (const float *)w->call->p[1] + args->b_at[p];
            product.a_step = product.n_batch > 1 ? (int64_t)(args->a_at[p + pairs] - args->a_at[p]) : 0;
            product.b_step = product.n_batch > 1 ? (int64_t)(args->b_at[p + pairs] - args->b_at[p]) : 0;
            product.add = w->call->add || p != args->first[s];
            VC_CUDA_TRY(vc_cuda_multiply(session, &product));
        }
    }
out:
    return result;
}
