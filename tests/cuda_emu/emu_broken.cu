/* emu_broken.cu - kernels and host code with the usual mistakes: the emulated card must find each of them, or its
 * silence about our kernels would mean nothing.
 *
 *     emu_broken MISTAKE    exit status 0: found (or, for "none", nothing to find); 1: not found
 *
 * Under a sanitizer some end in its report instead, which CTest expects then (CMakeLists.txt). */
#include <cstdio>
#include <cstring>

#include "emu.h"
#include "kernels/cuda/cuda_common.h"

#define THREADS 64u
#define WORDS   THREADS

/* Adds the words of both neighbours; without the barrier they may not be there yet. */
static __global__ void rotate_kernel(const unsigned *in, unsigned *out, bool barrier)
{
    VC_CUDA_SHARED(unsigned, words, THREADS);

    words[threadIdx.x] = in[threadIdx.x];
    if (barrier) {
        __syncthreads();
    }
    out[threadIdx.x] = words[(threadIdx.x + 1) % THREADS] + words[(threadIdx.x + THREADS - 1) % THREADS];
}

/* Half of the block waits for the other half, which never comes. */
static __global__ void divergent_barrier_kernel(unsigned *out)
{
    if (threadIdx.x < 32) {
        __syncthreads();
    }
    out[threadIdx.x] = threadIdx.x;
}

/* Half of a warp shuffles. */
static __global__ void divergent_shuffle_kernel(unsigned *out)
{
    unsigned v = threadIdx.x;

    if (threadIdx.x % 2 == 0) {
        v = __shfl_xor_sync(VC_CUDA_WARP_MASK, v, 1);
    }
    out[threadIdx.x] = v;
}

/* Writes one word beyond the allocation. */
static __global__ void too_far_kernel(unsigned *out, unsigned n)
{
    for (unsigned i = threadIdx.x; i <= n; i += blockDim.x) {
        out[i] = i;
    }
}

/* The last thread writes beyond the array in shared memory. */
static __global__ void shared_too_far_kernel(unsigned *out)
{
    VC_CUDA_SHARED(unsigned, words, THREADS);

    words[threadIdx.x + 1] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = words[threadIdx.x == 0 ? 1 : threadIdx.x];
}

/* Two blocks write and read the same words, and blocks have no order. */
static __global__ void block_race_kernel(unsigned *out)
{
    out[threadIdx.x] = out[(threadIdx.x + 1) % THREADS] + blockIdx.x;
}

/* A stream and two times WORDS words on either side: input, then output. */
struct card {
    cudaStream_t stream;
    unsigned *device, *pinned;
};

static void card_open(struct card *card, enum vc_emu_schedule schedule)
{
    struct vc_emu_settings settings;

    vc_emu_defaults(&settings);
    settings.schedule = schedule;
    settings.seed = 7;
    vc_emu_configure(&settings);
    (void)cudaStreamCreateWithFlags(&card->stream, cudaStreamNonBlocking);
    (void)cudaMalloc((void **)&card->device, 2 * WORDS * sizeof(unsigned));
    (void)cudaMallocHost((void **)&card->pinned, 2 * WORDS * sizeof(unsigned));
    for (unsigned i = 0; i < WORDS; i++) {
        card->pinned[i] = 3 * i;
        card->pinned[WORDS + i] = 0;
    }
    (void)cudaMemcpyAsync(card->device, card->pinned, 2 * WORDS * sizeof(unsigned), cudaMemcpyHostToDevice,
                          card->stream);
}

static void card_close(struct card *card)
{
    (void)cudaStreamDestroy(card->stream); /* does what still waits */
    (void)cudaFreeHost(card->pinned);
    (void)cudaFree(card->device);
}

/* Whether what came back is what rotate_kernel should make. */
static bool rotated(const struct card *card)
{
    for (unsigned i = 0; i < WORDS; i++) {
        if (card->pinned[WORDS + i] != 3 * ((i + 1) % WORDS) + 3 * ((i + WORDS - 1) % WORDS)) {
            return false;
        }
    }
    return true;
}

/* rotate_kernel as a graph: without a mistake, or captured with one, which leaves no graph. */
static void start_captured(struct card *card, const char *mistake)
{
    unsigned pageable = 0;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    void *more;

    (void)cudaStreamBeginCapture(card->stream, cudaStreamCaptureModeThreadLocal);
    VC_CUDA_LAUNCH(rotate_kernel, 1, THREADS, card->stream, card->device, card->device + WORDS, true);
    if (strcmp(mistake, "captured-wait") == 0) {
        (void)cudaStreamSynchronize(card->stream);
    } else if (strcmp(mistake, "captured-memory") == 0) {
        (void)cudaMalloc(&more, sizeof pageable);
    } else if (strcmp(mistake, "captured-pageable") == 0) {
        (void)cudaMemcpyAsync(card->device, &pageable, sizeof pageable, cudaMemcpyHostToDevice, card->stream);
    }
    if (cudaStreamEndCapture(card->stream, &graph) == cudaSuccess) {
        (void)cudaGraphInstantiateWithFlags(&ready, graph, 0);
        (void)cudaGraphDestroy(graph);
        (void)cudaGraphLaunch(ready, card->stream);
        (void)cudaGraphExecDestroy(ready);
    }
}

/* Launches the kernel with that mistake; rotate_kernel for those that are the host's. */
static void start(struct card *card, const char *mistake)
{
    unsigned *out = card->device + WORDS;

    if (strcmp(mistake, "divergent-barrier") == 0) {
        VC_CUDA_LAUNCH(divergent_barrier_kernel, 1, THREADS, card->stream, out);
    } else if (strcmp(mistake, "divergent-shuffle") == 0) {
        VC_CUDA_LAUNCH(divergent_shuffle_kernel, 1, THREADS, card->stream, out);
    } else if (strcmp(mistake, "off-by-one") == 0) {
        VC_CUDA_LAUNCH(too_far_kernel, 1, THREADS, card->stream, out, WORDS);
    } else if (strcmp(mistake, "shared-off-by-one") == 0) {
        VC_CUDA_LAUNCH(shared_too_far_kernel, 1, THREADS, card->stream, out);
    } else if (strcmp(mistake, "block-race") == 0) {
        VC_CUDA_LAUNCH(block_race_kernel, 2, THREADS, card->stream, out);
    } else if (strcmp(mistake, "odd-block") == 0) {
        VC_CUDA_LAUNCH(rotate_kernel, 1, THREADS + 1, card->stream, card->device, out, true);
    } else if (strcmp(mistake, "none") == 0 || strncmp(mistake, "captured-", 9) == 0) {
        start_captured(card, mistake);
    } else {
        VC_CUDA_LAUNCH(rotate_kernel, 1, THREADS, card->stream, card->device, out,
                       strcmp(mistake, "missing-barrier") != 0);
    }
}

/* True when one order of turns shows the mistake. */
static bool shows(const char *mistake, enum vc_emu_schedule schedule)
{
    struct card card;
    bool wrong;

    card_open(&card, schedule);
    start(&card, mistake);
    wrong = cudaGetLastError() != cudaSuccess;
    (void)cudaMemcpyAsync(card.pinned + WORDS, card.device + WORDS, WORDS * sizeof(unsigned), cudaMemcpyDeviceToHost,
                          card.stream);
    if (strcmp(mistake, "early-read") != 0) {
        wrong = cudaStreamSynchronize(card.stream) != cudaSuccess || wrong;
    }
    wrong = !rotated(&card) || wrong;
    card_close(&card);
    if (wrong || vc_emu_report()[0] != '\0') {
        printf("found: %s\n", vc_emu_report()[0] != '\0' ? vc_emu_report() : "wrong result");
        return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    const char *mistake = argc > 1 ? argv[1] : "none";
    bool found = shows(mistake, VC_EMU_ASCENDING);

    found = shows(mistake, VC_EMU_DESCENDING) || found;
    found = shows(mistake, VC_EMU_SHUFFLED) || found;
    return found == (strcmp(mistake, "none") != 0) ? 0 : 1;
}
