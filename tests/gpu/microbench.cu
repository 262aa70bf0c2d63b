/* microbench.cu - the constants of a card that predictions rest on: results of each pipe per cycle and multiprocessor, what a
 * launch, a node of a graph, a wait and an allocation cost, how fast copies of a size are, and how long a context takes. Prints
 * Markdown. Not part of the plug-in.
 *
 *     | f64 fma | 63.8 |        63.8 results for each cycle of each multiprocessor */
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cuda_runtime.h>

#define CHECK(call)                                                                \
    do {                                                                           \
        cudaError_t check_result = (call);                                         \
        if (check_result != cudaSuccess) {                                         \
            fprintf(stderr, "microbench: %s\n", cudaGetErrorString(check_result)); \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

enum { ROUNDS = 4096, CHAINS = 8, THREADS = 1024 };

static double seconds(void)
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/* Each kernel runs CHAINS instructions `rounds` times. One block has a multiprocessor to itself, so that the cycles of block 0
 * are those of its multiprocessor. Chains take operands from one another (%1), so that none can be folded. */
#define PIPE(name, type, text, constraint)                                                                           \
    static __global__ void __launch_bounds__(THREADS, 1)                                                             \
        name##_kernel(type seed, int rounds, long long *cycles, type *out)                                           \
    {                                                                                                                \
        type v[CHAINS];                                                                                              \
                                                                                                                     \
        for (int i = 0; i < CHAINS; i++) {                                                                           \
            v[i] = seed + (type)(threadIdx.x + i);                                                                   \
        }                                                                                                            \
        __syncthreads();                                                                                             \
        long long from = clock64();                                                                                  \
        for (int round = 0; round < rounds; round++) {                                                               \
            _Pragma("unroll") for (int i = 0; i < CHAINS;                                                            \
                                   i++) asm volatile(text : "+" constraint(v[i]) : constraint(v[(i + 1) % CHAINS])); \
        }                                                                                                            \
        __syncthreads();                                                                                             \
        if (blockIdx.x == 0 && threadIdx.x == 0) {                                                                   \
            *cycles = clock64() - from;                                                                              \
        }                                                                                                            \
        for (int i = 0; i < CHAINS; i++) {                                                                           \
            if (v[i] == (type)12345) {                                                                               \
                out[0] = v[i];                                                                                       \
            }                                                                                                        \
        }                                                                                                            \
    }

PIPE(fma32, float, "fma.rn.f32 %0, %0, %1, %0;", "f")
PIPE(fma64, double, "fma.rn.f64 %0, %0, %1, %0;", "d")
PIPE(add64, double, "add.rn.f64 %0, %0, %1;", "d")
PIPE(add32, unsigned, "add.u32 %0, %0, %1;", "r")
PIPE(max32, unsigned, "max.u32 %0, %0, %1;", "r")
PIPE(lop, unsigned, "lop3.b32 %0, %0, %1, 0x5a5a3c3c, 0xe8;", "r")
PIPE(popc, unsigned, "popc.b32 %0, %0;", "r")
PIPE(shuffle, unsigned, "shfl.sync.bfly.b32 %0, %0, 1, 31, -1;", "r")
PIPE(rint32, float, "cvt.rni.f32.f32 %0, %0;", "f")
PIPE(power, float, "ex2.approx.ftz.f32 %0, %0;", "f")
PIPE(widen, float, "{ .reg .f64 d; .reg .b32 h; cvt.f64.f32 d, %0; mov.b64 {h, %0}, d; }", "f")
PIPE(to_int, float, "{ .reg .s32 n; cvt.rni.s32.f32 n, %0; mov.b32 %0, n; }", "f")

static int processors;
static double clock_hz;

template <typename T> static void pipe(const char *name, void (*kernel)(T, int, long long *, T *))
{
    long long *cycles;
    long long n = 0;
    T *out;

    CHECK(cudaMalloc((void **)&cycles, sizeof *cycles));
    CHECK(cudaMalloc((void **)&out, sizeof *out));
    for (int i = 0; i < 2; i++) {
        kernel<<<(unsigned)processors, THREADS>>>((T)1, ROUNDS, cycles, out);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaMemcpy(&n, cycles, sizeof n, cudaMemcpyDeviceToHost));
    printf("| %s | %.1f |\n", name, (double)THREADS * ROUNDS * CHAINS / (double)n);
    CHECK(cudaFree(cycles));
    CHECK(cudaFree(out));
}

/* The clock under load: cycles of a long kernel over its time. */
static void clock_under_load(void)
{
    long long *cycles;
    long long n = 0;
    float *out;
    float ms = 0;
    cudaEvent_t from, to;

    CHECK(cudaMalloc((void **)&cycles, sizeof *cycles));
    CHECK(cudaMalloc((void **)&out, sizeof *out));
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    for (int i = 0; i < 10; i++) { /* of some milliseconds each, so that starting it does not count */
        CHECK(cudaEventRecord(from));
        fma32_kernel<<<(unsigned)processors, THREADS>>>(1.0f, 16 * ROUNDS, cycles, out);
        CHECK(cudaEventRecord(to));
        CHECK(cudaEventSynchronize(to));
        CHECK(cudaEventElapsedTime(&ms, from, to));
    }
    CHECK(cudaMemcpy(&n, cycles, sizeof n, cudaMemcpyDeviceToHost));
    clock_hz = (double)n / (ms * 1e-3);
}

static __global__ void nothing_kernel(int *p)
{
    if (p != NULL) {
        *p = 1;
    }
}

/* Microseconds of a launch by the host, of a launch with a wait, of a node in a graph. */
static void launches(void)
{
    enum { N = 2000, NODES = 200 };
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t run;
    double begin;
    double enqueue, drained, waits, nodes;

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    nothing_kernel<<<1, 32, 0, stream>>>(NULL);
    CHECK(cudaStreamSynchronize(stream));
    begin = seconds();
    for (int i = 0; i < N; i++) {
        nothing_kernel<<<1, 32, 0, stream>>>(NULL);
    }
    enqueue = seconds() - begin;
    CHECK(cudaStreamSynchronize(stream));
    drained = seconds() - begin;
    begin = seconds();
    for (int i = 0; i < N; i++) {
        nothing_kernel<<<1, 32, 0, stream>>>(NULL);
        CHECK(cudaStreamSynchronize(stream));
    }
    waits = seconds() - begin;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < NODES; i++) {
        nothing_kernel<<<1, 32, 0, stream>>>(NULL);
    }
    CHECK(cudaStreamEndCapture(stream, &graph));
    begin = seconds();
    CHECK(cudaGraphInstantiate(&run, graph, 0));
    printf("| making a graph of %d kernels | %.0f us |\n", NODES, 1e6 * (seconds() - begin));
    CHECK(cudaGraphLaunch(run, stream));
    CHECK(cudaStreamSynchronize(stream));
    begin = seconds();
    for (int i = 0; i < 20; i++) {
        CHECK(cudaGraphLaunch(run, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    nodes = seconds() - begin;
    printf("| launch, host's part | %.2f us |\n| launch, one after the other on the device | %.2f us |\n",
           1e6 * enqueue / N, 1e6 * drained / N);
    printf("| launch and wait | %.2f us |\n| kernel in a graph | %.2f us |\n", 1e6 * waits / N,
           1e6 * nodes / 20 / NODES);
}

static void memory(void)
{
    void *p[16];
    char *device;
    char *host;
    char *plain;
    const size_t most = (size_t)64 << 20;
    double begin = seconds();
    cudaStream_t stream;

    for (int i = 0; i < 16; i++) {
        CHECK(cudaMallocHost(&p[i], (size_t)2 << 20));
    }
    printf("| pinned allocation of 2 MiB | %.0f us |\n", 1e6 * (seconds() - begin) / 16);
    begin = seconds();
    CHECK(cudaMallocHost((void **)&host, most));
    printf("| pinned allocation of 64 MiB | %.0f us |\n", 1e6 * (seconds() - begin));
    begin = seconds();
    for (int i = 0; i < 16; i++) {
        CHECK(cudaFreeHost(p[i]));
        CHECK(cudaMalloc(&p[i], (size_t)2 << 20));
    }
    printf("| its end and 2 MiB of the device | %.0f us |\n", 1e6 * (seconds() - begin) / 16);
    CHECK(cudaMalloc((void **)&device, most));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    plain = (char *)malloc(most);
    memset(plain, 1, most);
    begin = seconds();
    for (int i = 0; i < 4; i++) {
        memcpy(host, plain, most);
    }
    printf("| memcpy of 64 MiB into pinned memory | %.1f GB/s |\n", 4.0 * most / 1e9 / (seconds() - begin));
    for (size_t bytes = (size_t)64 << 10; bytes <= most; bytes *= 4) {
        double up, down;
        int times = bytes < (size_t)4 << 20 ? 50 : 10;

        begin = seconds();
        for (int i = 0; i < times; i++) {
            CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
            CHECK(cudaStreamSynchronize(stream));
        }
        up = seconds() - begin;
        begin = seconds();
        for (int i = 0; i < times; i++) {
            CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream));
            CHECK(cudaStreamSynchronize(stream));
        }
        down = seconds() - begin;
        printf("| %zu KiB up, down, a wait each | %.1f, %.1f GB/s |\n", bytes >> 10, (double)bytes * times / 1e9 / up,
               (double)bytes * times / 1e9 / down);
    }
}

int main(void)
{
    double begin = seconds();

    CHECK(cudaFree(NULL));
    printf("| what | |\n|---|---:|\n| context | %.0f ms |\n", 1e3 * (seconds() - begin));
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    clock_under_load();
    printf("| clock under load | %.0f MHz |\n", clock_hz / 1e6);
    launches();
    memory();
    printf("\n| instruction | results a cycle and multiprocessor |\n|---|---:|\n");
    pipe("f32 fma", fma32_kernel);
    pipe("f64 fma", fma64_kernel);
    pipe("f64 add", add64_kernel);
    pipe("integer add", add32_kernel);
    pipe("integer max", max32_kernel);
    pipe("logic", lop_kernel);
    pipe("popc", popc_kernel);
    pipe("shuffle", shuffle_kernel);
    pipe("rint", rint32_kernel);
    pipe("power of 2", power_kernel);
    pipe("f32 to f64", widen_kernel);
    pipe("f32 to int", to_int_kernel);
    return 0;
}
