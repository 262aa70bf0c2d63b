/* cuda_runtime.h - stands in for NVIDIA's header of that name, so that kernels/cuda/ compiles unmodified as C++ and
 * runs on the processor. Only what those files use. What happens behind it: emu_fibers.cpp (threads of a block) and
 * emu_runtime.cpp (memory, streams, events, errors); how tests steer it: emu.h.
 *
 * It shows logic, barriers, bounds, races between barriers, host-side ordering and error paths. It cannot show rounding
 * of the device build, memory order between blocks, limits of registers, or speed. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>

#define CUDART_VERSION       11080
#define VC_CUDA_RUNTIME_NAME "emulated CUDA runtime"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define VC_CUDA_UNROLL
#define VC_CUDA_RARE
#define VC_CUDA_CHAIN(kernel, n) vc_emu_log("chain", kernel, n, 0)

enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInsufficientDriver = 35,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorUnsupportedPtxVersion = 222,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorLaunchFailure = 719,
    cudaErrorIllegalState = 401,
    cudaErrorNotReady = 600,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorStreamCaptureWrongThread = 908,
    cudaErrorUnknown = 999
};
typedef int cudaError_t;

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };

enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };

#define cudaStreamNonBlocking  1u
#define cudaEventDisableTiming 2u

struct vc_emu_stream;
struct vc_emu_event;
typedef struct vc_emu_stream *cudaStream_t;
typedef struct vc_emu_event *cudaEvent_t;
typedef struct vc_emu_graph *cudaGraph_t;
typedef struct vc_emu_graph_exec *cudaGraphExec_t;

enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
};

struct cudaDeviceProp {
    char name[256];
    struct {
        char bytes[16];
    } uuid;
    size_t totalGlobalMem;
    int major, minor;
};

void vc_emu_log(const char *what, const char *name, uint64_t a, uint64_t b); /* a line of VC_EMU_LOG (emu.h) */

struct cudaFuncAttributes {
    int numRegs;
};

/* As NVIDIA documents them, as far as kernels/cuda/ relies on it; in emu_runtime.cpp. */
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int block, size_t shared);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaMallocHost(void **p, size_t bytes);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);

/* cuBLAS, as cuda_train_products.cu looks for it; in emu_cublas.cpp. */
void *vc_emu_cublas_open(const char *name);
void *vc_emu_cublas_find(void *file, const char *symbol);
#define VC_CUDA_CUBLAS_OPEN(name)         vc_emu_cublas_open(name)
#define VC_CUDA_CUBLAS_FIND(file, symbol) vc_emu_cublas_find(file, symbol)
#define VC_CUDA_CUBLAS_CLOSE(file)        (0)

/* NCCL, as cuda_train_nccl.cu looks for it; in emu_nccl.cpp. */
void *vc_emu_nccl_open(const char *name);
void *vc_emu_nccl_find(void *file, const char *symbol);
#define VC_CUDA_NCCL_OPEN(name)         vc_emu_nccl_open(name)
#define VC_CUDA_NCCL_FIND(file, symbol) vc_emu_nccl_find(file, symbol)

/* ---- inside of a kernel ---- */

/* threadIdx and the others; y and z are always 0 or 1. */
struct vc_emu_index {
    unsigned x, y, z;
};

extern thread_local struct vc_emu_index threadIdx, blockIdx, blockDim, gridDim;

/* In emu_fibers.cpp. file and line name the place in reports, and tell two barriers apart. */
void vc_emu_barrier(const char *file, int line);
void vc_emu_warp_barrier(const char *file, int line);
unsigned vc_emu_ballot(unsigned mask, bool is, const char *file, int line);
uint64_t vc_emu_exchange(unsigned mask, uint64_t value, unsigned from_lane, const char *file, int line);
unsigned vc_emu_lane(void);
void *vc_emu_shared(const void *key, size_t bytes);

#define __syncthreads() vc_emu_barrier(__FILE__, __LINE__)

/* The address of a static of its own is the key: the same for all threads of a block, another for each array. */
#define VC_CUDA_SHARED(type, name, n) \
    static const char name##_key = 0; \
    type *name = static_cast<type *>(vc_emu_shared(&name##_key, sizeof(type) * (n)))

/* Any type of up to 64 bits through vc_emu_exchange. */
template <class T>
static inline T vc_emu_shuffle(unsigned mask, T value, unsigned from_lane, const char *file, int line)
{
    uint64_t raw = 0;

    static_assert(sizeof value <= sizeof raw, "as in CUDA");
    memcpy(&raw, &value, sizeof value);
    raw = vc_emu_exchange(mask, raw, from_lane, file, line);
    memcpy(&value, &raw, sizeof value);
    return value;
}

#define __shfl_xor_sync(mask, value, k) \
    vc_emu_shuffle(mask, value, vc_emu_lane() ^ static_cast<unsigned>(k), __FILE__, __LINE__)
/* Lanes at the end keep their own value. */
#define __shfl_down_sync(mask, value, k) \
    vc_emu_shuffle(mask, value, vc_emu_lane() + (k) < 32 ? vc_emu_lane() + (k) : vc_emu_lane(), __FILE__, __LINE__)

/* Among `width` neighbours, of which `k` is one. */
#define __shfl_sync(mask, value, k, width) \
    vc_emu_shuffle(mask, value, vc_emu_lane() / (width) * (width) + (k) % (width), __FILE__, __LINE__)
#define __ballot_sync(mask, is) vc_emu_ballot(mask, is, __FILE__, __LINE__)
#define __any_sync(mask, is)    (vc_emu_ballot(mask, is, __FILE__, __LINE__) != 0)
#define __syncwarp()            vc_emu_warp_barrier(__FILE__, __LINE__)

/* Integers only: the order of float atomics is not defined, so they do not exist here. */
static inline unsigned atomicAdd(unsigned *p, unsigned v)
{
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}

static inline unsigned long long atomicAdd(unsigned long long *p, unsigned long long v)
{
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}

template <class T> static inline T vc_emu_atomic_max(T *p, T v)
{
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);

    while (old < v && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}

static inline unsigned atomicMax(unsigned *p, unsigned v)
{
    return vc_emu_atomic_max(p, v);
}

static inline unsigned long long atomicMax(unsigned long long *p, unsigned long long v)
{
    return vc_emu_atomic_max(p, v);
}

struct float2 {
    float x, y;
};

static inline float2 make_float2(float x, float y)
{
    float2 v = {x, y};

    return v;
}

static inline int __popc(unsigned v)
{
    return __builtin_popcount(v);
}

/* Bytes of b : a that the four low digits of s name. */
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s)
{
    uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    unsigned out = 0;

    for (unsigned i = 0; i < 4; i++) {
        out |= static_cast<unsigned>(both >> 8 * (s >> 4 * i & 7) & 0xff) << 8 * i;
    }
    return out;
}

/* ---- launching ---- */

void vc_emu_launch(const char *name, unsigned grid, unsigned block, cudaStream_t stream, std::function<void()> body);

/* Parameters are copied now, as by CUDA; the kernel runs when the stream gets there. */
template <class... P, class... A>
static inline void vc_emu_launch_kernel(void (*kernel)(P...), const char *name, unsigned grid, unsigned block,
                                        cudaStream_t stream, A... arguments)
{
    std::tuple<P...> parameters(arguments...);

    vc_emu_launch(name, grid, block, stream, [kernel, parameters]() { std::apply(kernel, parameters); });
}

#define VC_CUDA_LAUNCH(kernel, grid, block, stream, ...) \
    vc_emu_launch_kernel(kernel, #kernel, grid, block, stream, __VA_ARGS__)
