/* bench_device.cu - how fast the kernels are on data that is on the device already, beside a plain copy on the same
 * device. Prints a Markdown table; times are the best of some runs, by events. Not part of the plug-in.
 *
 *     bench_device [RUNS]        one run: for a profiler
 *
 * The kernels are static in their files, so these are included. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda_absmax.cu"
#include "kernels/cuda/cuda_cast.cu"
#include "kernels/cuda/cuda_int8.cu"
#include "kernels/cuda/cuda_sums.cu"

#ifndef N_ELEMS
#define N_ELEMS ((size_t)1 << 26) /* 256 MiB of f32: beyond every L2 cache */
#endif
static int runs = 20;

#define BUS_BYTES (N_ELEMS < (size_t)1 << 24 ? N_ELEMS * 4 : (size_t)64 << 20)

#define CHECK(call)                                                                  \
    do {                                                                             \
        cudaError_t check_result = (call);                                           \
        if (check_result != cudaSuccess) {                                           \
            fprintf(stderr, "bench_device: %s\n", cudaGetErrorString(check_result)); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

/* Never called here: the launch functions get their units from this file. */
int vc_cuda_run(const struct vc_cuda_call *)
{
    return 0;
}

bool vc_cuda_rows_fit(const struct vc_cuda_call *)
{
    return true;
}

void vc_cuda_add_in(struct vc_cuda_call *call, const void *, size_t, enum vc_cuda_per)
{
    call->n_arrays++;
}

void vc_cuda_add_out(struct vc_cuda_call *call, void *, size_t, enum vc_cuda_per, enum vc_cuda_flow)
{
    call->n_arrays++;
}

unsigned vc_cuda_grid_of(const void *kernel, unsigned block, size_t needed)
{
    int processors = 0;
    int each = 0;
    size_t most;

    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, (int)block, 0));
    most = (size_t)processors * (size_t)each;
    return (unsigned)(needed < most ? needed : most);
}

unsigned vc_cuda_team_block(size_t, unsigned)
{
    return VC_CUDA_THREADS;
}

struct buffers {
    float *x, *scale, *y;
    uint32_t *bits;
    int8_t *q;
    uint16_t *h;
    double *sums;
    void *totals;
    cudaStream_t stream;
    cudaEvent_t from, to;
};

static __global__ void fill_kernel(float *x, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) {
        uint32_t r = (uint32_t)i * 2654435761u;

        r ^= r >> 15;
        x[i] = (float)(int32_t)(r * 2246822519u) * 0x1p-36f;
    }
}

static void buffers_create(struct buffers *b)
{
    CHECK(cudaMalloc((void **)&b->x, N_ELEMS * 4));
    CHECK(cudaMalloc((void **)&b->y, N_ELEMS * 4));
    CHECK(cudaMalloc((void **)&b->scale, N_ELEMS / 16));
    CHECK(cudaMalloc((void **)&b->bits, N_ELEMS / 16));
    CHECK(cudaMalloc((void **)&b->q, N_ELEMS));
    CHECK(cudaMalloc((void **)&b->h, N_ELEMS * 2));
    CHECK(cudaMalloc((void **)&b->sums, N_ELEMS));
    CHECK(cudaMalloc(&b->totals, 1 << 16));
    CHECK(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&b->from, 0));
    CHECK(cudaEventCreateWithFlags(&b->to, 0));
    VC_CUDA_LAUNCH(fill_kernel, VC_CUDA_MAX_GRID, VC_CUDA_THREADS, b->stream, b->x, N_ELEMS);
    VC_CUDA_LAUNCH(fill_kernel, VC_CUDA_MAX_GRID, VC_CUDA_THREADS, b->stream, b->y, N_ELEMS);
    CHECK(cudaStreamSynchronize(b->stream));
}

/* Milliseconds of the fastest run of the call's kernels; NULL: of a copy on the device. */
static float best_ms(struct buffers *b, const struct vc_cuda_call *call, struct vc_cuda_unit *unit)
{
    float best = 1e30f;

    for (int i = 0; i < runs; i++) {
        float ms;

        CHECK(cudaEventRecord(b->from, b->stream));
        if (call == NULL) {
            CHECK(cudaMemcpyAsync(b->y, b->x, N_ELEMS * 4, cudaMemcpyDeviceToDevice, b->stream));
        } else {
            unit->stream = b->stream;
            call->launch(call, unit);
        }
        CHECK(cudaEventRecord(b->to, b->stream));
        CHECK(cudaEventSynchronize(b->to));
        CHECK(cudaGetLastError());
        CHECK(cudaEventElapsedTime(&ms, b->from, b->to));
        best = ms < best ? ms : best;
    }
    return best;
}

static double copy_rate;

/* predicted: percent of the copy's rate, from instructions for each element (docs/gpu-results.md). */
static void report(const char *name, double bytes, unsigned predicted, float ms)
{
    double rate = bytes / 1e6 / ms;

    printf("| %s | %.3f | %.0f | %.0f %% | %u %% |\n", name, ms, rate, 100 * rate / copy_rate, predicted);
}

static struct vc_cuda_unit unit_of(size_t row_len, size_t group)
{
    struct vc_cuda_unit unit = {};

    unit.n_rows = (uint32_t)(N_ELEMS / row_len);
    unit.row_len = (uint32_t)row_len;
    unit.n_elems = unit.n_rows * unit.row_len;
    unit.index.head = (uint32_t)group;
    unit.index.step = vc_cuda_divisor_of(group);
    unit.index.row_len = vc_cuda_divisor_of(row_len);
    unit.index.per_row = (uint32_t)((row_len + group - 1) / group);
    unit.n_groups = (size_t)unit.n_rows * unit.index.per_row;
    unit.n_chunks = unit.n_rows * ((row_len + VC_CHUNK_ELEMS - 1) / VC_CHUNK_ELEMS);
    return unit;
}

static struct vc_cuda_call call_of(size_t row_len, size_t group, unsigned n_arrays,
                                   void (*launch)(const struct vc_cuda_call *, const struct vc_cuda_unit *))
{
    struct vc_cuda_call call = {};

    call.n_rows = N_ELEMS / row_len;
    call.row_len = row_len;
    call.group = group;
    call.n_arrays = n_arrays;
    call.launch = launch;
    return call;
}

static void bench_int8(struct buffers *b, const char *name, unsigned predicted, size_t row_len, size_t group)
{
    struct vc_cuda_call call = call_of(row_len, group, 6, launch_rows);
    struct vc_cuda_unit unit = unit_of(row_len, group);
    void *arrays[] = {b->x, b->bits, b->scale, b->q, b->sums, b->totals};

    memcpy(unit.device, arrays, sizeof arrays);
    CHECK(cudaMemsetAsync(b->bits, 0, N_ELEMS / 16, b->stream));
    report(name, 5.0 * N_ELEMS + 8.0 * (double)unit.n_groups, predicted, best_ms(b, &call, &unit));
}

static void bench(struct buffers *b, const char *name, unsigned n_arrays, double bytes_per_elem, void *second,
                  void *third, void *fourth, void (*launch)(const struct vc_cuda_call *, const struct vc_cuda_unit *))
{
    struct vc_cuda_call call = call_of(4096, 4096, n_arrays, launch);
    struct vc_cuda_unit unit = unit_of(4096, 4096);
    void *arrays[] = {b->x, second, third, fourth, NULL, NULL};

    memcpy(unit.device, arrays, sizeof arrays);
    report(name, bytes_per_elem * N_ELEMS, 90, best_ms(b, &call, &unit));
}

static void bench_bus(struct buffers *b, const char *name, enum cudaMemcpyKind kind, void *pinned, size_t bytes)
{
    float best = 1e30f;

    for (int i = 0; i < runs; i++) {
        float ms;

        CHECK(cudaEventRecord(b->from, b->stream));
        CHECK(cudaMemcpyAsync(kind == cudaMemcpyHostToDevice ? b->x : pinned,
                              kind == cudaMemcpyHostToDevice ? pinned : b->x, bytes, kind, b->stream));
        CHECK(cudaEventRecord(b->to, b->stream));
        CHECK(cudaEventSynchronize(b->to));
        CHECK(cudaEventElapsedTime(&ms, b->from, b->to));
        best = ms < best ? ms : best;
    }
    printf("| %s | %.3f | %.1f | | |\n", name, best, (double)bytes / 1e6 / best);
}

int main(int argc, char **argv)
{
    struct buffers b = {};
    void *pinned;

    if (argc > 1) {
        runs = atoi(argv[1]);
    }
    buffers_create(&b);
    copy_rate = 8.0 * N_ELEMS / 1e6 / best_ms(&b, NULL, NULL);
    printf("%zu elements on the device; GB/s counts every byte read and written once.\n\n", N_ELEMS);
    printf("| kernel | ms | GB/s | of the copy | predicted |\n|---|---:|---:|---:|---:|\n");
    report("copy on the device (f32)", 8.0 * N_ELEMS, 100, best_ms(&b, NULL, NULL));
    for (size_t row_len = 64; row_len <= 16384; row_len *= row_len == 64 || row_len == 512 ? 2 : 4) {
        char name[64];

        (void)snprintf(name, sizeof name, "int8_rows, rows of %zu", row_len);
        bench_int8(&b, name, row_len < 128 ? 50 : row_len < 512 ? 75 : 90, row_len, row_len);
    }
    bench_int8(&b, "int8_rows, rows of 147", 40, 147, 147);
    bench_int8(&b, "int8_rows, rows of 4096 in groups of 128", 85, 4096, 128);
    bench(&b, "absmax_rows, rows of 4096", 2, 4, b.bits, NULL, NULL, launch);
    bench(&b, "cast_f32_f16", 4, 6, b.h, b.sums, b.totals, launch_cast<quick_cast_op<f32_f16>>);
    bench(&b, "cast_f32_bf16", 4, 6, b.h, b.sums, b.totals, launch_cast<quick_cast_op<f32_bf16>>);
    bench(&b, "f16_to_f32", 2, 6, b.y, NULL, NULL, launch_convert<f16_f32>);
    bench(&b, "diff_f32", 4, 8, b.y, b.sums, b.totals, launch_diff<float>);
    bench(&b, "values_f32", 3, 4, b.sums, b.totals, NULL, launch_values<float>);
    CHECK(cudaMallocHost(&pinned, BUS_BYTES));
    bench_bus(&b, "64 MiB to the device, pinned", cudaMemcpyHostToDevice, pinned, BUS_BYTES);
    bench_bus(&b, "64 MiB from the device, pinned", cudaMemcpyDeviceToHost, pinned, BUS_BYTES);
    bench_bus(&b, "512 KiB to the device, pinned", cudaMemcpyHostToDevice, pinned, (size_t)512 << 10);
    return 0;
}
