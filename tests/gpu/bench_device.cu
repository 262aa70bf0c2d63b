/* bench_device.cu - how fast the kernels are on data that is on the device already, beside a plain copy on the same
 * device: first those that the plug-in takes, launched as it does, then what else they could be made as, side by side. Prints
 * Markdown tables; times are the best of some runs, by events. Not part of the plug-in.
 *
 *     bench_device [RUNS]        one run: for a profiler; no variants then
 *
 * The kernels are static in their files, so these are included. */
#include <stdio.h>
#include <stdlib.h>

static unsigned bench_waves = 1; /* how often the blocks that the card holds at once are started at most */
#define VC_CUDA_WAVES bench_waves

#include "kernels/cuda/cuda_absmax.cu"
#include "kernels/cuda/cuda_cast.cu"
#include "kernels/cuda/cuda_int8.cu"
#include "kernels/cuda/cuda_pipeline.cu"
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
int vc_cuda_slot_take(struct vc_cuda_slot **)
{
    return VC_CUDA_NO_DEVICE;
}

void vc_cuda_slot_give(struct vc_cuda_slot *)
{
}

struct buffers {
    float *x, *scale, *y;
    uint32_t *bits;
    int8_t *q;
    uint16_t *h;
    double *sums;
    void *totals;
    unsigned long long *hash;
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

/* Adds up words, each with a weight by its place. */
static __global__ void hash_kernel(const uint32_t *words, size_t n, unsigned long long *sum)
{
    unsigned long long mine = 0;

    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) {
        mine += (words[i] + 1ull) * (i * 0x9e3779b97f4a7c15ull | 1);
    }
    atomicAdd(sum, mine);
}

static void buffers_create(struct buffers *b)
{
    CHECK(cudaMalloc((void **)&b->x, N_ELEMS * 4));
    CHECK(cudaMalloc((void **)&b->y, N_ELEMS * 4));
    CHECK(cudaMalloc((void **)&b->scale, N_ELEMS / 4));
    CHECK(cudaMalloc((void **)&b->bits, N_ELEMS / 4));
    CHECK(cudaMalloc((void **)&b->q, N_ELEMS));
    CHECK(cudaMalloc((void **)&b->h, N_ELEMS * 2));
    CHECK(cudaMalloc((void **)&b->sums, N_ELEMS));
    CHECK(cudaMalloc(&b->totals, 1 << 16));
    CHECK(cudaMalloc((void **)&b->hash, sizeof *b->hash));
    CHECK(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&b->from, 0));
    CHECK(cudaEventCreateWithFlags(&b->to, 0));
    VC_CUDA_LAUNCH(fill_kernel, VC_CUDA_MAX_GRID, VC_CUDA_THREADS, b->stream, b->x, N_ELEMS);
    VC_CUDA_LAUNCH(fill_kernel, VC_CUDA_MAX_GRID, VC_CUDA_THREADS, b->stream, b->y, N_ELEMS);
    CHECK(cudaStreamSynchronize(b->stream));
}

/* Of what int8_rows made of a unit. */
static unsigned long long hash_of(struct buffers *b, const struct vc_cuda_unit *unit)
{
    const struct {
        const void *words;
        size_t n;
    } arrays[] = {{b->q, unit->n_elems / 4},
                  {b->scale, unit->n_groups},
                  {b->bits, unit->n_groups},
                  {b->sums, unit->n_chunks * 4}};
    unsigned long long hash = 0;

    CHECK(cudaMemsetAsync(b->hash, 0, sizeof *b->hash, b->stream));
    for (size_t k = 0; k < 4; k++) {
        VC_CUDA_LAUNCH(hash_kernel, VC_CUDA_MAX_GRID, VC_CUDA_THREADS, b->stream, (const uint32_t *)arrays[k].words,
                       arrays[k].n, b->hash);
    }
    CHECK(cudaMemcpyAsync(&hash, b->hash, sizeof hash, cudaMemcpyDeviceToHost, b->stream));
    CHECK(cudaStreamSynchronize(b->stream));
    return hash;
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

static double bytes_of(const struct vc_cuda_unit *unit)
{
    return 5.0 * unit->n_elems + 8.0 * (double)unit->n_groups + 16.0 * (double)unit->n_chunks;
}

static struct vc_cuda_unit int8_unit(struct buffers *b, size_t row_len, size_t group)
{
    struct vc_cuda_unit unit = unit_of(row_len, group);
    void *arrays[] = {b->x, b->bits, b->scale, b->q, b->sums, b->totals};

    memcpy(unit.device, arrays, sizeof arrays);
    CHECK(cudaMemsetAsync(b->bits, 0, N_ELEMS / 4, b->stream));
    return unit;
}

static void bench_int8(struct buffers *b, const char *name, unsigned predicted, size_t row_len, size_t group)
{
    struct vc_cuda_call call = call_of(row_len, group, 6, launch_rows);
    struct vc_cuda_unit unit = int8_unit(b, row_len, group);

    report(name, bytes_of(&unit), predicted, best_ms(b, &call, &unit));
}

static struct vc_cuda_unit bench_unit(struct buffers *b, void *second, void *third, void *fourth)
{
    struct vc_cuda_unit unit = unit_of(4096, 4096);
    void *arrays[] = {b->x, second, third, fourth, NULL, NULL};

    memcpy(unit.device, arrays, sizeof arrays);
    return unit;
}

static void bench(struct buffers *b, const char *name, unsigned n_arrays, double bytes_per_elem, void *second,
                  void *third, void *fourth, void (*launch)(const struct vc_cuda_call *, const struct vc_cuda_unit *))
{
    struct vc_cuda_call call = call_of(4096, 4096, n_arrays, launch);
    struct vc_cuda_unit unit = bench_unit(b, second, third, fourth);

    report(name, bytes_per_elem * N_ELEMS, 90, best_ms(b, &call, &unit));
}

/* ---- variants ---- */

/* One line: registers, blocks of a multiprocessor, percent of the copy with 1, 2, 4 times the blocks that the card holds and
 * with as many as there is work for. */
static void report_variant(struct buffers *b, const char *what, const char *variant, const void *kernel, unsigned block,
                           double bytes, const struct vc_cuda_call *call, struct vc_cuda_unit *unit)
{
    static const unsigned waves[] = {1, 2, 4, 1u << 20};
    struct cudaFuncAttributes attributes;
    int each = 0;

    CHECK(cudaFuncGetAttributes(&attributes, kernel));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, (int)block, 0));
    printf("| %s | %s | %d | %d x %u |", what, variant, attributes.numRegs, each, block);
    for (size_t k = 0; k < sizeof waves / sizeof *waves; k++) {
        bench_waves = waves[k];
        printf(" %.1f |", 100 * bytes / 1e6 / best_ms(b, call, unit) / copy_rate);
    }
    bench_waves = 1;
}

static const struct row_kernel *variant_kernel;

static void launch_variant(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    struct row_args args = row_args_of(call, unit);

    launch_row_kernel(variant_kernel, &args, unit);
}

/* A kernel for groups or rows, and where it may be better than others. */
struct row_variant {
    const char *name;
    struct row_kernel kernel;
    size_t row_len, group;
};

#define ROWS(row_len, steps, lanes, vec, ahead, blocks)                                                          \
    {                                                                                                            \
#lanes " lanes by " #vec ", ahead " #ahead ", " #blocks " blocks",                                       \
            {64 * (steps), own_kernel < own < steps, lanes, vec, ahead, true>, blocks>, 64 / (lanes) }, row_len, \
             row_len                                                                                             \
    }
#define GROUPS(steps, lanes, ahead, blocks)                                                                  \
    {                                                                                                        \
#lanes " lanes by 4, ahead " #ahead ", " #blocks " blocks",                                          \
            {64 * (steps), own_kernel < own < steps, lanes, 4, ahead, false>, blocks>, 64 / (lanes) }, 4096, \
             64 * (steps)                                                                                    \
    }
static const struct row_variant row_variants[] = {
    ROWS(64, 1, 4, 4, 0, 4),    ROWS(64, 1, 8, 4, 0, 4),    ROWS(64, 1, 8, 4, 1, 4),    ROWS(64, 1, 8, 4, 2, 3),
    ROWS(64, 1, 16, 4, 0, 2),   ROWS(64, 1, 16, 4, 1, 2),   ROWS(64, 1, 16, 4, 1, 3),   ROWS(128, 2, 4, 4, 1, 4),
    ROWS(128, 2, 8, 4, 0, 3),   ROWS(128, 2, 8, 4, 1, 3),   ROWS(128, 2, 8, 4, 2, 2),   ROWS(128, 2, 8, 4, 2, 3),
    ROWS(128, 2, 16, 4, 0, 2),  ROWS(128, 2, 16, 4, 1, 2),  ROWS(256, 4, 4, 4, 0, 4),   ROWS(256, 4, 4, 4, 1, 3),
    ROWS(256, 4, 4, 4, 2, 3),   ROWS(256, 4, 8, 4, 0, 2),   ROWS(256, 4, 8, 4, 1, 2),   ROWS(384, 6, 4, 4, 0, 3),
    ROWS(384, 6, 4, 4, 1, 3),   ROWS(384, 6, 4, 4, 2, 2),   ROWS(512, 8, 4, 4, 0, 3),   ROWS(512, 8, 4, 4, 1, 3),
    ROWS(512, 8, 4, 4, 1, 2),   ROWS(512, 8, 4, 4, 2, 2),   ROWS(512, 8, 2, 2, 1, 4),   ROWS(512, 8, 2, 2, 1, 3),
    ROWS(512, 8, 2, 2, 2, 3),   ROWS(768, 12, 4, 4, 0, 2),  ROWS(768, 12, 2, 2, 1, 3),  ROWS(768, 12, 2, 2, 2, 2),
    ROWS(1024, 16, 4, 4, 0, 2), ROWS(1024, 16, 4, 4, 1, 2), ROWS(1024, 16, 2, 2, 0, 3), ROWS(1024, 16, 2, 2, 1, 3),
    ROWS(1024, 16, 2, 2, 1, 2), ROWS(1024, 16, 2, 2, 2, 2), ROWS(27, 1, 4, 1, 0, 4),    ROWS(27, 1, 4, 1, 1, 4),
    ROWS(147, 4, 2, 1, 0, 4),   ROWS(147, 4, 2, 1, 1, 4),   ROWS(147, 4, 4, 1, 1, 3),   ROWS(147, 4, 4, 1, 0, 3),
    ROWS(363, 8, 2, 1, 0, 4),   ROWS(363, 8, 2, 1, 1, 4),   ROWS(363, 8, 4, 1, 1, 3),   ROWS(363, 8, 4, 1, 0, 3),
    GROUPS(2, 4, 0, 3),         GROUPS(2, 4, 2, 3),         GROUPS(2, 8, 1, 2),         GROUPS(2, 8, 2, 2),
    GROUPS(2, 16, 1, 2),        GROUPS(1, 4, 2, 3),         GROUPS(1, 8, 2, 3),         GROUPS(1, 16, 1, 2),
    GROUPS(4, 4, 2, 3),         GROUPS(4, 8, 1, 2)};

static void bench_row_variants(struct buffers *b)
{
    unsigned long long hash = 0;

    for (size_t k = 0; k < sizeof row_variants / sizeof *row_variants; k++) {
        const struct row_variant *v = &row_variants[k];
        bool first = k == 0 || v->group != v[-1].group || v->row_len != v[-1].row_len;
        struct vc_cuda_call call = call_of(v->row_len, v->group, 6, launch_variant);
        struct vc_cuda_unit unit = int8_unit(b, v->row_len, v->group);
        const struct row_kernel *taken = kernel_for(v->row_len, v->group);
        char what[64];

        variant_kernel = &v->kernel;
        (void)snprintf(what, sizeof what, "%zu in groups of %zu%s", v->row_len, v->group,
                       taken != NULL && taken->kernel == v->kernel.kernel ? ", taken" : "");
        CHECK(cudaMemsetAsync(b->q, 0x55, N_ELEMS, b->stream));
        CHECK(cudaMemsetAsync(b->sums, 0x55, N_ELEMS, b->stream));
        report_variant(b, what, v->name, (const void *)v->kernel.kernel,
                       v->kernel.team == 0 ? (unsigned)((v->row_len + VC_CHUNK_ELEMS - 1) / VC_CHUNK_ELEMS) * 64
                                           : VC_CUDA_THREADS,
                       bytes_of(&unit), &call, &unit);
        hash = first ? hash_of(b, &unit) : hash;
        printf(" %s |\n", hash_of(b, &unit) == hash ? "same" : "OTHER BITS");
    }
}

template <int A, int B> struct tuned {
    enum { AHEAD = A, BLOCKS = B };
};

template <class Op, class Tuned>
static void launch_cast_variant(const struct vc_cuda_call *, const struct vc_cuda_unit *unit)
{
    Op op;

    op.x = (decltype(op.x))unit->device[0];
    op.h = (decltype(op.h))unit->device[1];
    vc_cuda_launch_chunks<Op, Tuned>(op, unit, (double *)unit->device[2], (struct vc_cuda_totals *)unit->device[3]);
}

template <class Tuned> static void launch_diff_variant(const struct vc_cuda_call *, const struct vc_cuda_unit *unit)
{
    diff_op<float> op = {(const float *)unit->device[0], (const float *)unit->device[1]};

    vc_cuda_launch_chunks<diff_op<float>, Tuned>(op, unit, (double *)unit->device[2],
                                                 (struct vc_cuda_totals *)unit->device[3]);
}

template <class Tuned> static void launch_values_variant(const struct vc_cuda_call *, const struct vc_cuda_unit *unit)
{
    values_op<float> op = {(const float *)unit->device[0]};
    struct value_totals *totals = (struct value_totals *)unit->device[2];

    vc_cuda_launch_chunks<values_op<float>, Tuned>(op, unit, (double *)unit->device[1], &totals->totals,
                                                   totals->histogram);
}

template <uint32_t QUADS> static void launch_each_variant(const struct vc_cuda_call *, const struct vc_cuda_unit *unit)
{
    convert_op<f16_f32> op = {(const uint16_t *)unit->device[0]};

    vc_cuda_launch_each<convert_op<f16_f32>, QUADS>(op, unit, (float *)unit->device[1]);
}

/* Those of the walk over chunks, and of one value from each element. */
static void bench_chunk_variants(struct buffers *b)
{
    struct vc_cuda_unit cast = bench_unit(b, b->h, b->sums, b->totals);
    struct vc_cuda_unit diff = bench_unit(b, b->y, b->sums, b->totals);
    struct vc_cuda_unit values = bench_unit(b, b->sums, b->totals, NULL);
    struct vc_cuda_unit each = bench_unit(b, b->y, NULL, NULL);
    struct vc_cuda_call call = {};

#define VARIANT(what, unit, bytes, name, op, launcher, ahead, blocks)                                            \
    call.launch = launcher;                                                                                      \
    report_variant(b, what, name, (const void *)vc_cuda_chunks_kernel<op, true, ahead, blocks>, VC_CUDA_THREADS, \
                   (bytes)*N_ELEMS, &call, &(unit));                                                             \
    printf(" |\n")
#define VARIANTS(what, unit, bytes, op, launcher, ahead, blocks) \
    VARIANT(what, unit, bytes, "ahead " #ahead ", " #blocks " blocks", op, launcher, ahead, blocks)
#define CASTS(what, op, ahead, blocks)                                                                           \
    call.launch = launch_cast_variant<quick_cast_op<op>, tuned<ahead, blocks>>;                                  \
    report_variant(b, what, "ahead " #ahead ", " #blocks " blocks",                                              \
                   (const void *)vc_cuda_chunks_kernel<quick_cast_op<op>, true, ahead, blocks>, VC_CUDA_THREADS, \
                   6.0 * N_ELEMS, &call, &cast);                                                                 \
    printf(" |\n")
    CASTS("cast_f32_f16", f32_f16, 0, 4);
    CASTS("cast_f32_f16", f32_f16, 1, 4);
    CASTS("cast_f32_f16", f32_f16, 1, 3);
    CASTS("cast_f32_bf16", f32_bf16, 0, 4);
    CASTS("cast_f32_bf16", f32_bf16, 1, 4);
    CASTS("cast_f32_bf16", f32_bf16, 1, 3);
    VARIANTS("diff_f32", diff, 8.0, diff_op<float>, (launch_diff_variant<tuned<0, 2>>), 0, 2);
    VARIANTS("diff_f32", diff, 8.0, diff_op<float>, (launch_diff_variant<tuned<1, 2>>), 1, 2);
    VARIANTS("values_f32", values, 4.0, values_op<float>, (launch_values_variant<tuned<0, 4>>), 0, 4);
    VARIANTS("values_f32", values, 4.0, values_op<float>, (launch_values_variant<tuned<1, 3>>), 1, 3);
    VARIANTS("values_f32", values, 4.0, values_op<float>, (launch_values_variant<tuned<1, 4>>), 1, 4);
#undef VARIANT
#undef VARIANTS
#undef CASTS
    call.launch = launch_each_variant<4>;
    report_variant(b, "f16_to_f32", "4 quads", (const void *)vc_cuda_each_kernel<convert_op<f16_f32>, 4>,
                   VC_CUDA_THREADS, 6.0 * N_ELEMS, &call, &each);
    call.launch = launch_each_variant<8>;
    printf(" |\n");
    report_variant(b, "f16_to_f32", "8 quads", (const void *)vc_cuda_each_kernel<convert_op<f16_f32>, 8>,
                   VC_CUDA_THREADS, 6.0 * N_ELEMS, &call, &each);
    printf(" |\n");
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
    /* predicted: percent of the copy's rate */
    static const struct {
        size_t row_len;
        unsigned predicted;
    } rows[] = {{27, 20},  {64, 75},  {128, 85},  {147, 55},  {256, 88},  {363, 60},  {384, 90},
                {512, 92}, {768, 91}, {1024, 92}, {4096, 90}, {4097, 60}, {16384, 85}};
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
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        char name[64];

        (void)snprintf(name, sizeof name, "int8_rows, rows of %zu", rows[k].row_len);
        bench_int8(&b, name, rows[k].predicted, rows[k].row_len, rows[k].row_len);
    }
    bench_int8(&b, "int8_rows, rows of 4096 in groups of 64", 75, 4096, 64);
    bench_int8(&b, "int8_rows, rows of 4096 in groups of 128", 85, 4096, 128);
    bench(&b, "absmax_rows, rows of 4096", 2, 4, b.bits, NULL, NULL, launch);
    bench(&b, "cast_f32_f16", 4, 6, b.h, b.sums, b.totals, launch_cast<quick_cast_op<f32_f16>>);
    bench(&b, "cast_f32_bf16", 4, 6, b.h, b.sums, b.totals, launch_cast<quick_cast_op<f32_bf16>>);
    bench(&b, "f16_to_f32", 2, 6, b.y, NULL, NULL, launch_convert<f16_f32>);
    /* What f16_to_f32 made of other bits has Inf and NaN; files that are compared have not. */
    VC_CUDA_LAUNCH(fill_kernel, VC_CUDA_MAX_GRID, VC_CUDA_THREADS, b.stream, b.y, N_ELEMS);
    bench(&b, "diff_f32", 4, 8, b.y, b.sums, b.totals, launch_diff<float>);
    bench(&b, "values_f32", 3, 4, b.sums, b.totals, NULL, launch_values<float>);
    if (runs > 1) {
        printf("\nVariants, percent of the copy with 1, 2, 4 times the blocks that the card holds at once, and with "
               "all:\n\n"
               "| rows of | variant | registers | blocks | 1 | 2 | 4 | all | bits "
               "|\n|---|---|---:|---:|---:|---:|---:|---:|---|\n");
        bench_row_variants(&b);
        bench_chunk_variants(&b);
        printf("\n| bus | ms | GB/s | | |\n|---|---:|---:|---:|---:|\n");
    }
    CHECK(cudaMallocHost(&pinned, BUS_BYTES));
    bench_bus(&b, "64 MiB to the device, pinned", cudaMemcpyHostToDevice, pinned, BUS_BYTES);
    bench_bus(&b, "64 MiB from the device, pinned", cudaMemcpyDeviceToHost, pinned, BUS_BYTES);
    bench_bus(&b, "512 KiB to the device, pinned", cudaMemcpyHostToDevice, pinned, (size_t)512 << 10);
    return 0;
}
