/* cuda_train.cu - training on the device: sessions, memory, and the table that the library sees (train_backend.h). */
#include "kernels/cuda/train/cuda_train.h"

#include <string.h>

#include "kernels/cuda/train/cuda_train_table.h"

#define FAULT_BYTES  256                 /* in their second half, the pass */
#define PINNED_BYTES ((uint64_t)1 << 20) /* for each direction */

/* One session is open at a time per process, as one device is; so it needs no heap. */
static struct vc_cuda_session the_session;
static bool is_open;

/* Takes a session that has begun in part. */
static void train_end(void *session)
{
    struct vc_cuda_session *s = (struct vc_cuda_session *)session;

    if (s == NULL) {
        return;
    }
    if (s->stream != NULL) {
        (void)cudaStreamSynchronize(s->stream);
    }
    vc_cuda_products_end(s);
    if (s->fault != NULL) {
        vc_cuda_memory_give(s->fault, FAULT_BYTES);
    }
    if (s->pinned != NULL) {
        (void)cudaFreeHost(s->pinned);
    }
    if (s->stream != NULL) {
        (void)cudaStreamDestroy(s->stream);
    }
    (void)cudaGetLastError();
    memset(s, 0, sizeof *s);
    is_open = false;
}

/* One session is open at a time: its memory is static. */
static int train_begin(void **session)
{
    struct vc_cuda_session *s = &the_session;
    void *fault = NULL;
    int result;

    *session = NULL;
    if (is_open) {
        return cudaErrorInvalidValue;
    }
    memset(s, 0, sizeof *s);
    is_open = true;
    VC_CUDA_TRY(vc_cuda_memory_take(FAULT_BYTES, &fault)); /* makes the device current */
    s->fault = (unsigned long long *)fault;
    s->pass = (struct vc_engine_pass *)((char *)fault + FAULT_BYTES / 2);
    VC_CUDA_TRY(cudaMallocHost((void **)&s->pinned, 2 * PINNED_BYTES));
    VC_CUDA_TRY(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    VC_CUDA_TRY(cudaMemsetAsync(s->fault, 0, FAULT_BYTES, s->stream));
    vc_cuda_products_begin(s);
    *session = s;
out:
    if (result != cudaSuccess) {
        train_end(s);
    }
    return result;
}

/* What a session takes of the device by itself, for plans of memory. */
static uint64_t train_own_bytes(void)
{
    return FAULT_BYTES + vc_cuda_products_bytes();
}

static int train_alloc(void *session, uint64_t bytes, void **out)
{
    return vc_cuda_memory_take(bytes, out);
}

/* Nothing that was asked for before may still use it. */
static void train_release(void *session, void *p, uint64_t bytes)
{
    (void)cudaStreamSynchronize(((struct vc_cuda_session *)session)->stream);
    vc_cuda_memory_give(p, bytes);
}

/* ---- graphs ----
 *
 * What the stream is asked for is captured (thread-local mode: other threads may use the device meanwhile). cuBLAS has a
 * workspace of ours, so that it takes no memory then. What differs between launches lies in device memory. */

static int train_begin_capture(void *session)
{
    struct vc_cuda_session *s = (struct vc_cuda_session *)session;
    int result = (int)cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal);

    s->captures = result == cudaSuccess;
    (void)cudaGetLastError();
    return result;
}

static int train_end_capture(void *session, void **graph)
{
    struct vc_cuda_session *s = (struct vc_cuda_session *)session;
    cudaGraph_t captured = NULL;
    cudaGraphExec_t ready = NULL;
    int result = (int)cudaStreamEndCapture(s->stream, &captured);

    *graph = NULL;
    s->captures = false;
    if (result == cudaSuccess) {
        result = (int)cudaGraphInstantiateWithFlags(&ready, captured, 0);
    }
    if (result == cudaSuccess) {
        *graph = ready;
    }
    if (captured != NULL) {
        (void)cudaGraphDestroy(captured);
    }
    (void)cudaGetLastError();
    return result;
}

static __global__ void pass_kernel(struct vc_engine_pass pass, struct vc_engine_pass *to)
{
    if (threadIdx.x == 0) {
        *to = pass;
    }
}

static int train_launch(void *session, void *graph, const struct vc_engine_pass *pass)
{
    struct vc_cuda_session *s = (struct vc_cuda_session *)session;
    int result = cudaSuccess;

    if (pass != NULL) {
        VC_CUDA_LAUNCH(pass_kernel, 1, 32, s->stream, *pass, s->pass);
        VC_CUDA_TRY(vc_cuda_launched());
    }
    VC_CUDA_TRY(cudaGraphLaunch((cudaGraphExec_t)graph, s->stream));
out:
    return result;
}

static void train_drop(void *session, void *graph)
{
    (void)cudaStreamSynchronize(((struct vc_cuda_session *)session)->stream);
    (void)cudaGraphExecDestroy((cudaGraphExec_t)graph);
}

/* ---- copies ---- */

/* Waits for all that was asked for, pinned memory included. */
static int train_wait(struct vc_cuda_session *s)
{
    s->pinned_taken = 0;
    return (int)cudaStreamSynchronize(s->stream);
}

/* Through pinned memory, piece by piece, of which the next one lies behind the last: only where all of it is in flight does
 * the host wait. */
static int train_to_device(void *session, void *to, const void *from, uint64_t bytes)
{
    struct vc_cuda_session *s = (struct vc_cuda_session *)session;
    int result =
        s->captures ? cudaErrorStreamCaptureUnsupported : cudaSuccess; /* the graph would copy what is there later */

    for (uint64_t at = 0, n; result == cudaSuccess && at < bytes; at += n) {
        if (s->pinned_taken == PINNED_BYTES || (bytes <= PINNED_BYTES && bytes > PINNED_BYTES - s->pinned_taken)) {
            VC_CUDA_TRY(train_wait(s));
        }
        n = VC_AT_MOST(bytes - at, PINNED_BYTES - s->pinned_taken);
        memcpy(s->pinned + s->pinned_taken, (const char *)from + at, n);
        VC_CUDA_TRY(
            cudaMemcpyAsync((char *)to + at, s->pinned + s->pinned_taken, n, cudaMemcpyHostToDevice, s->stream));
        s->pinned_taken += n;
    }
out:
    return result;
}

int vc_cuda_train_to_host(void *session, void *to, const void *from, uint64_t bytes)
{
    struct vc_cuda_session *s = (struct vc_cuda_session *)session;
    unsigned char *pinned = s->pinned + PINNED_BYTES;
    int result = cudaSuccess;

    for (uint64_t at = 0; at < bytes; at += PINNED_BYTES) {
        uint64_t n = VC_AT_MOST(bytes - at, PINNED_BYTES);

        VC_CUDA_TRY(cudaMemcpyAsync(pinned, (const char *)from + at, n, cudaMemcpyDeviceToHost, s->stream));
        VC_CUDA_TRY(train_wait(s));
        memcpy((char *)to + at, pinned, n);
    }
out:
    return result;
}

static int train_clear(void *session, void *p, uint64_t bytes)
{
    return bytes == 0 ? (int)cudaSuccess
                      : (int)cudaMemsetAsync(p, 0, bytes, ((struct vc_cuda_session *)session)->stream);
}

/* ---- instructions ---- */

/* Loops by the names that the engine asks for. */
static const struct {
    const char *name;
    vc_cuda_loop *run;
} loops[] = {
#define LOOP(id) {#id, vc_cuda_train_##id},
#include "kernels/cuda/train/cuda_train.inc"
#undef LOOP
};

/* The number of a loop, which train_run gets; -1: the device has none of that name. */
static int train_find(const char *loop)
{
    for (size_t k = 0; k < sizeof loops / sizeof *loops; k++) {
        if (strcmp(loops[k].name, loop) == 0) {
            return (int)k;
        }
    }
    return -1;
}

static int train_run(void *session, const struct vc_train_work *work)
{
    return loops[work->loop].run((struct vc_cuda_session *)session, work);
}

/* The first fault of the loops since the last call, such as an index out of range: the smallest node and place, of
 * which the complement is kept, so that a maximum finds it. */
static int train_fault(void *session, struct vc_train_fault *fault)
{
    struct vc_cuda_session *s = (struct vc_cuda_session *)session;
    unsigned long long noted = 0;
    int result;

    memset(fault, 0, sizeof *fault);
    VC_CUDA_TRY(vc_cuda_train_to_host(session, &noted, s->fault, sizeof noted));
    if (noted != 0) {
        fault->set = true;
        fault->node = (uint32_t)(~noted >> 40);
        fault->at = ~noted & (((uint64_t)1 << 40) - 1);
        VC_CUDA_TRY(cudaMemsetAsync(s->fault, 0, FAULT_BYTES, s->stream));
    }
out:
    return result;
}

static const char *train_products(void *session)
{
    return ((struct vc_cuda_session *)session)->products;
}

const struct vc_train_backend vc_cuda_train_table = {
    VC_TRAIN_BACKEND_ABI,
    (uint32_t)sizeof(struct vc_train_backend),
    train_begin,
    train_end,
    train_own_bytes,
    train_alloc,
    train_release,
    train_to_device,
    vc_cuda_train_to_host,
    train_clear,
    train_find,
    train_run,
    train_fault,
    vc_cuda_train_loss,
    vc_cuda_train_measure,
    vc_cuda_train_update,
    train_products,
    vc_cuda_train_fake_quant,
    &vc_cuda_train_sums,
    train_begin_capture,
    train_end_capture,
    train_launch,
    train_drop,
};
