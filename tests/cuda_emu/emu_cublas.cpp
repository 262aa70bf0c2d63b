/* emu_cublas.cpp - stands in for cuBLAS: the functions that cuda_train_products.cu looks up, as loops that
 * run when the stream gets there. Sums run backwards, so that nothing can count on one order. VC_EMU_CUBLAS=0: the
 * system has no such library. */
#include <cstdlib>
#include <cstring>

#include <cuda_runtime.h>

#include "emu.h"

namespace
{

struct handle {
    cudaStream_t stream;
};

struct product {
    bool turned_a, turned_b;
    int m, n, k, lda, ldb, ldc, n_batch;
    float alpha, beta;
    const float *a, *b;
    float *c;
    long long stride_a, stride_b, stride_c;
    const float *const *a_at, *const *b_at; /* NULL: by strides */
    float *const *c_at;
};

int create(void **out)
{
    *out = new handle();
    return 0;
}

int destroy(void *h)
{
    delete static_cast<handle *>(h);
    return 0;
}

int version(void *, int *out)
{
    *out = 130000;
    return 0;
}

int set_stream(void *h, cudaStream_t stream)
{
    static_cast<handle *>(h)->stream = stream;
    return 0;
}

int set_math(void *, int mode)
{
    return mode; /* 0: the default, which is all there is */
}

int set_workspace(void *, void *, size_t)
{
    return 0;
}

/* Column by column, as BLAS has it. */
void compute(const product &p)
{
    for (int batch = 0; batch < p.n_batch; batch++) {
        const float *a = p.a_at != nullptr ? p.a_at[batch] : p.a + batch * p.stride_a;
        const float *b = p.b_at != nullptr ? p.b_at[batch] : p.b + batch * p.stride_b;
        float *c = p.c_at != nullptr ? p.c_at[batch] : p.c + batch * p.stride_c;

        for (int j = 0; j < p.n; j++) {
            for (int i = 0; i < p.m; i++) {
                float *to = c + static_cast<long long>(j) * p.ldc + i;
                float sum = 0;

                for (int k = p.k; k-- > 0;) {
                    sum +=
                        a[p.turned_a ? static_cast<long long>(i) * p.lda + k : static_cast<long long>(k) * p.lda + i] *
                        b[p.turned_b ? static_cast<long long>(k) * p.ldb + j : static_cast<long long>(j) * p.ldb + k];
                }
                *to = p.beta == 0 ? p.alpha * sum : p.alpha * sum + p.beta * *to;
            }
        }
    }
}

bool leading_fits(bool turned, int rows, int columns, int leading)
{
    return leading >= (turned ? columns : rows);
}

int start(const char *name, void *h, const product &p)
{
    if (p.m < 0 || p.n < 0 || p.k < 0 || !leading_fits(p.turned_a, p.m, p.k, p.lda) ||
        !leading_fits(p.turned_b, p.k, p.n, p.ldb) || p.ldc < p.m) {
        return 7; /* CUBLAS_STATUS_INVALID_VALUE */
    }
    vc_emu_launch(name, 1, 32, static_cast<handle *>(h)->stream, [p]() {
        if (threadIdx.x == 0) {
            compute(p);
        }
    });
    return cudaGetLastError() == cudaSuccess ? 0 : 13; /* CUBLAS_STATUS_EXECUTION_FAILED */
}

int single(void *h, int op_a, int op_b, int m, int n, int k, const float *alpha, const float *a, int lda,
           const float *b, int ldb, const float *beta, float *c, int ldc)
{
    return start("cublasSgemm", h, {op_a != 0, op_b != 0, m, n, k, lda, ldb, ldc,     1,       *alpha,
                                    *beta,     a,         b, c, 0, 0,   0,   nullptr, nullptr, nullptr});
}

int batched(void *h, int op_a, int op_b, int m, int n, int k, const float *alpha, const float *a, int lda,
            long long stride_a, const float *b, int ldb, long long stride_b, const float *beta, float *c, int ldc,
            long long stride_c, int n_batch)
{
    return start("cublasSgemmStridedBatched", h,
                 {op_a != 0, op_b != 0, m, n, k,        lda,      ldb,      ldc,     n_batch, *alpha,
                  *beta,     a,         b, c, stride_a, stride_b, stride_c, nullptr, nullptr, nullptr});
}

/* The addresses are in device memory: they are read when the stream gets there. */
int addressed(void *h, int op_a, int op_b, int m, int n, int k, const float *alpha, const float *const a[], int lda,
              const float *const b[], int ldb, const float *beta, float *const c[], int ldc, int n_batch)
{
    return start("cublasSgemmBatched", h, {op_a != 0, op_b != 0, m,       n,       k, lda, ldb, ldc, n_batch, *alpha,
                                           *beta,     nullptr,   nullptr, nullptr, 0, 0,   0,   a,   b,       c});
}

} // namespace

void *vc_emu_cublas_open(const char *)
{
    const char *wanted = getenv("VC_EMU_CUBLAS");
    static char file;

    return wanted != nullptr && strcmp(wanted, "0") == 0 ? nullptr : &file;
}

void *vc_emu_cublas_find(void *, const char *symbol)
{
    static const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"cublasCreate_v2", reinterpret_cast<void *>(create)},
        {"cublasDestroy_v2", reinterpret_cast<void *>(destroy)},
        {"cublasGetVersion_v2", reinterpret_cast<void *>(version)},
        {"cublasSetStream_v2", reinterpret_cast<void *>(set_stream)},
        {"cublasSetMathMode", reinterpret_cast<void *>(set_math)},
        {"cublasSetWorkspace_v2", reinterpret_cast<void *>(set_workspace)},
        {"cublasSgemm_v2", reinterpret_cast<void *>(single)},
        {"cublasSgemmStridedBatched", reinterpret_cast<void *>(batched)},
        {"cublasSgemmBatched", reinterpret_cast<void *>(addressed)},
    };

    for (const auto &f : functions) {
        if (strcmp(f.name, symbol) == 0) {
            return f.function;
        }
    }
    return nullptr;
}
