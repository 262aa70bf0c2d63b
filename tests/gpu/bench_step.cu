/* bench_step.cu - how long the kernels of a training step take by themselves, with the sizes that the networks of train_speed.py
 * give them: each NODES times in a CUDA graph, so that no launch by the host is measured; the best of some runs. Prints a
 * Markdown table beside the predictions of docs/gpu-results.md. Not part of the plug-in.
 *
 *     bench_step [RUNS]
 *
 * The launch functions are those of the plug-in, whose files are included. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/train/cuda_train_move.cu"
#include "kernels/cuda/train/cuda_train_step.cu"
#include "kernels/cuda/train/cuda_train_sums.cu"
#include "kernels/cuda/train/cuda_train_window.cu"

#define NODES   20
#define N_ELEMS ((uint64_t)1 << 24)
#define CHECK(call)                                                                \
    do {                                                                           \
        cudaError_t check_result = (call);                                         \
        if (check_result != cudaSuccess) {                                         \
            fprintf(stderr, "bench_step: %s\n", cudaGetErrorString(check_result)); \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

static int runs = 10;
static struct vc_cuda_session session;
static float *x, *y, *z; /* N_ELEMS each, between -1 and 1 */

/* Never called: of convolutions only what lies around their products is measured. */
int vc_cuda_multiply(struct vc_cuda_session *, const struct vc_cuda_product *)
{
    return 0;
}

static __global__ void fill_kernel(float *to, uint64_t n, uint32_t seed)
{
    VC_CUDA_EACH(i, n)
    {
        uint32_t r = ((uint32_t)i + seed) * 2654435761u;

        r ^= r >> 15;
        to[i] = (float)(int32_t)(r * 2246822519u) * 0x1p-31f;
    }
}

/* n bytes of device memory with those of the host in it. */
static void *on_device(const void *from, size_t n)
{
    void *to;

    CHECK(cudaMalloc(&to, n));
    CHECK(cudaMemcpy(to, from, n, cudaMemcpyHostToDevice));
    return to;
}

/* Times `launch`, which asks for one call's kernels. */
template <class F> static void bench(const char *name, double predicted, F launch)
{
    cudaGraph_t graph;
    cudaGraphExec_t run;
    cudaEvent_t from, to;
    float best = 1e30f;

    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < NODES; i++) {
        CHECK((cudaError_t)launch());
    }
    CHECK(cudaStreamEndCapture(session.stream, &graph));
    CHECK(cudaGraphInstantiate(&run, graph, 0));
    for (int i = 0; i <= runs; i++) {
        float ms;

        CHECK(cudaEventRecord(from, session.stream));
        CHECK(cudaGraphLaunch(run, session.stream));
        CHECK(cudaEventRecord(to, session.stream));
        CHECK(cudaEventSynchronize(to));
        CHECK(cudaEventElapsedTime(&ms, from, to));
        best = i > 0 && ms < best ? ms : best;
    }
    printf("| %s | %.2f | %.1f |\n", name, 1e3 * best / NODES, predicted);
    CHECK(cudaGraphExecDestroy(run));
    CHECK(cudaGraphDestroy(graph));
}

/* An instruction. */
template <class ARGS>
static void bench_loop(const char *name, double predicted, vc_cuda_loop *loop, const ARGS *args, void *const *p,
                       unsigned n)
{
    struct vc_train_call call = {};
    struct vc_engine_pass pass = {true, 0, 0, -1};
    struct vc_train_work work = {0, &call, args, &pass};

    memcpy(call.p, p, n * sizeof *p);
    call.args = args;
    bench(name, predicted, [&]() { return loop(&session, &work); });
}

/* Sums of columns, of `rows` rows of `columns`. */
static void columns(const char *name, double predicted, int64_t rows, int64_t n)
{
    struct vc_args_strided args = {};
    void *p[] = {y, x, NULL, NULL};

    args.scale = 1;
    args.n_kept = args.n_reduced = 1;
    args.n = (uint64_t)n;
    args.kept[0] = n;
    args.reduced[0] = rows;
    args.kept_step[0][0] = args.kept_step[1][0] = 1;
    args.reduced_step[1][0] = n;
    bench_loop(name, predicted, vc_cuda_train_strided_sum, &args, p, 4);
}

/* Sums of the planes of each channel over all images. */
static void planes(const char *name, double predicted, int64_t images, int64_t channels, int64_t plane)
{
    struct vc_args_strided args = {};
    void *p[] = {y, x, NULL, NULL};

    args.scale = 1;
    args.n_kept = 1;
    args.n_reduced = 2;
    args.n = (uint64_t)channels;
    args.kept[0] = channels;
    args.kept_step[0][0] = 1;
    args.kept_step[1][0] = plane;
    args.reduced[0] = images;
    args.reduced[1] = plane;
    args.reduced_step[1][0] = channels * plane;
    args.reduced_step[1][1] = 1;
    bench_loop(name, predicted, vc_cuda_train_strided_sum, &args, p, 4);
}

/* y = x + b, a number of b for each column. */
static void biases(const char *name, double predicted, int64_t rows, int64_t n)
{
    struct vc_args_strided args = {};
    void *p[] = {y, x, z, NULL};

    args.kind = VC_SUM_A_PLUS_B;
    args.scale = 1;
    args.n_kept = 2;
    args.n = (uint64_t)(rows * n);
    args.kept[0] = rows;
    args.kept[1] = n;
    for (unsigned v = 0; v < 3; v++) {
        args.kept_step[v][0] = v == 2 ? 0 : n;
        args.kept_step[v][1] = 1;
    }
    bench_loop(name, predicted, vc_cuda_train_strided_sum, &args, p, 4);
}

static void losses(const char *name, double predicted, uint64_t rows, uint64_t classes)
{
    struct vc_train_loss loss = {rows, classes, 0.5, 4, 1.0 / (double)rows, 1.0 / (double)rows};
    uint8_t *mask = (uint8_t *)malloc(rows);
    int64_t *labels = (int64_t *)malloc(rows * sizeof *labels);

    for (uint64_t i = 0; i < rows; i++) {
        mask[i] = 1;
        labels[i] = (int64_t)(i % classes);
    }
    loss.scale = 1;
    loss.logits = x;
    loss.teacher = z;
    loss.gradient = y;
    loss.mask = (const uint8_t *)on_device(mask, rows);
    loss.labels = (const int64_t *)on_device(labels, rows * sizeof *labels);
    CHECK(cudaMalloc((void **)&loss.sums, rows * 2 * sizeof *loss.sums));
    bench(name, predicted, [&]() { return vc_cuda_train_loss(&session, &loss); });
    free(mask);
    free(labels);
}

/* Norm and update of 65 blocks of weights, as many as the encoder has. */
static void optimizer(double measured, double updated)
{
    enum { N = 65, WEIGHTS = 32768 };
    struct vc_train_block blocks[N] = {};
    struct vc_train_update update = {VC_TRAIN_ADAM, false, 1e-6, 0, 0.9, 0.999, 1e-8, 3, 0.5, NULL};
    const struct vc_train_block *device;
    double *squares;

    for (size_t i = 0; i < N; i++) {
        blocks[i].w = y + i * WEIGHTS;
        blocks[i].g = y + (N + i) * WEIGHTS;
        blocks[i].m = z + i * WEIGHTS;
        blocks[i].v = z + (N + i) * WEIGHTS;
        blocks[i].n = WEIGHTS;
        CHECK(cudaMemset(blocks[i].v, 0, WEIGHTS * sizeof(float))); /* squares are not negative */
    }
    device = (const struct vc_train_block *)on_device(blocks, sizeof blocks);
    CHECK(cudaMalloc((void **)&squares, (N + 1) * sizeof *squares));
    bench("norm of 2.1 million gradients", measured,
          [&]() { return vc_cuda_train_measure(&session, device, N, squares); });
    bench("update of 2.1 million weights, Adam", updated,
          [&]() { return vc_cuda_train_update(&session, device, N, &update); });
}

/* 1,024 rows of 256 that go back to a table; `rows` of it occur. */
static void gathers(const char *name, double predicted, uint64_t rows)
{
    struct vc_args_gather args = {};
    int64_t indices[1024];

    for (uint64_t i = 0; i < 1024; i++) {
        indices[i] = (int64_t)(i * 7919 % rows);
    }
    args.outer = 1;
    args.size = 2000;
    args.n = 1024;
    args.inner = 256;
    void *p[] = {x, on_device(indices, sizeof indices), y};
    bench_loop(name, predicted, vc_cuda_train_gather_backward, &args, p, 3);
}

static void norms(double forward, double backward)
{
    struct vc_args_row_norm args = {1024, 256, 64, 1e-5, true};
    void *p[] = {x, y, z, z, y + N_ELEMS / 2};
    void *q[] = {x, z, y, z, y + N_ELEMS / 2, y + N_ELEMS / 4, y + N_ELEMS / 4 * 3};

    bench_loop("row_norm, 1024 rows of 256", forward, vc_cuda_train_row_norm, &args, p, 5);
    bench_loop("row_norm_backward, both kernels", backward, vc_cuda_train_row_norm_backward, &args, q, 7);
}

/* Pools of 2 x 2 over 64 images of 32 channels of 28 x 28. */
static void pools(double forward, double backward)
{
    struct vc_args_window args = {64 * 32, {1, 28, 28}, {1, 14, 14}, {1, 2, 2}, {1, 2, 2}, {1, 1, 1}};
    void *p[] = {x, y, z};
    void *q[] = {x, y, z};

    bench_loop("max_pool, 64 images of 32 x 28 x 28", forward, vc_cuda_train_max_pool, &args, p, 3);
    bench_loop("max_pool_backward", backward, vc_cuda_train_max_pool_backward, &args, q, 3);
}

/* What lies around the products of a convolution of 3 x 3 over 64 images of 16 channels of 14 x 14. */
static void convolutions(double unrolled, double rolled)
{
    struct vc_args_conv args = {64, 1, 16, 32, {1, 14, 14}, {1, 14, 14}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}};

    args.images = 64;
    args.chunk = 1;
    void *p[] = {x, z, z, y, z};
    void *q[] = {x, z, y, z};
    bench_loop("conv_forward without its products", unrolled, vc_cuda_train_conv_forward, &args, p, 5);
    bench_loop("conv_input without its products", rolled, vc_cuda_train_conv_input, &args, q, 4);
}

int main(int argc, char **argv)
{
    float **all[] = {&x, &y, &z};

    runs = argc > 1 ? atoi(argv[1]) : runs;
    CHECK(cudaStreamCreateWithFlags(&session.stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&session.fault, 256));
    CHECK(cudaMemset(session.fault, 0, 256));
    for (uint32_t k = 0; k < 3; k++) {
        CHECK(cudaMalloc((void **)all[k], N_ELEMS * sizeof(float)));
        VC_CUDA_LAUNCH(fill_kernel, VC_CUDA_MAX_GRID, VC_CUDA_THREADS, session.stream, *all[k], N_ELEMS, k);
    }
    CHECK(cudaStreamSynchronize(session.stream));
    printf("| kernel | us | predicted |\n|---|---:|---:|\n");
    columns("sums of columns, 1024 rows of 256", 4.5, 1024, 256);
    columns("sums of columns, 1024 rows of 1024", 5, 1024, 1024);
    columns("sums of columns, 64 rows of 10", 3, 64, 10);
    planes("sums of planes, 64 images of 16 x 784", 11, 64, 16, 784);
    planes("sums of planes, 64 images of 32 x 196", 5, 64, 32, 196);
    biases("x + b, 1024 rows of 256", 2.5, 1024, 256);
    losses("loss, 64 rows of 10 classes", 6, 64, 10);
    losses("loss, 1024 rows of 2000 classes", 45, 1024, 2000);
    optimizer(20, 12);
    gathers("gather_backward, 1000 rows of the table", 8, 1000);
    gathers("gather_backward, 1 row of the table", 19, 1);
    norms(5, 10);
    pools(5, 12);
    convolutions(7, 7);
    return 0;
}
