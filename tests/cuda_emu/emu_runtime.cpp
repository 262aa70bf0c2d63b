/* emu_runtime.cpp - the host's half of the emulation, the CUDA runtime: memory, streams, events, errors.
 *
 * Device memory is host memory with red zones, poisoned when it is handed out. Work in a stream is only noted down
 * and done when the host waits for it (as late as possible, unless `eager`), so that reading results or reusing a
 * buffer too early gives wrong bytes. Copies must stay inside of one allocation of the right kind. Every fallible
 * call is counted and can be made to fail.
 *
 * While a stream is captured its work is noted down in a graph instead, with the parameters of that time. What CUDA refuses
 * then breaks the capture off, as there: waiting, taking and giving memory, events, copies of memory that is not pinned. */
#include "emu.h"
#include "emu_sanitizers.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#define RED_ZONE    ((size_t)256)
#define CANARY      0xbd
#define POISON      0xff
#define MAX_THREADS 1024u
#define MAX_GRID    2147483647u
#define MAX_KEPT    ((size_t)256 << 20)

enum kind { DEVICE_MEMORY, PINNED_MEMORY };

struct allocation {
    size_t bytes;
    enum kind kind;
};

/* A launch, or a memory operation, in a graph. */
struct node {
    std::string name;
    unsigned grid, block;
    std::function<void()> work;
};

struct vc_emu_graph {
    std::vector<node> nodes;
};

struct vc_emu_graph_exec {
    std::shared_ptr<const std::vector<node>> nodes; /* also of launches that are still to come when it is destroyed */
};

/* Work that was handed to a stream and not done yet; how much was handed over, how much is done. */
struct vc_emu_stream {
    std::deque<std::function<void()>> waiting;
    uint64_t queued, done;
    struct vc_emu_graph *captured; /* NULL: it is not captured */
    bool invalid;                  /* the capture was broken off */
};

struct vc_emu_event {
    struct vc_emu_stream *stream; /* NULL: never recorded */
    uint64_t after;               /* how much of the stream has to be done */
};

namespace
{

/* The card, and what tests want of it. One per process, as with one device. */
struct card {
    std::mutex mutex;
    struct vc_emu_settings settings;
    std::map<char *, allocation> allocations; /* by first byte */
    std::multimap<size_t, char *> released;   /* blocks by their bytes, poisoned until they are handed out again */
    size_t released_bytes;
    uint64_t device_bytes, calls;
    size_t n_handles;
    int sticky_error; /* once set, every call of every thread returns it */
    char report[512];

    card()
    {
        vc_emu_defaults(&settings);
        device_bytes = calls = 0;
        released_bytes = 0;
        n_handles = 0;
        sticky_error = cudaSuccess;
        report[0] = '\0';
    }

    ~card()
    {
        for (auto &block : released) {
            emu_unpoison(block.second, block.first);
            free(block.second);
        }
    }
};

thread_local int last_error;
thread_local struct vc_emu_stream *captures; /* the stream that this thread captures; thread-local mode */

card &the_card(void)
{
    static card card;

    return card;
}

const char *environment(const char *name)
{
    const char *text = getenv(name);

    return text != NULL && text[0] != '\0' ? text : NULL;
}

/* Remembers an error for cudaGetLastError, per thread, and returns it. */
cudaError_t note(cudaError_t error)
{
    if (error != cudaSuccess) {
        last_error = error;
    }
    return error;
}

/* First in every call that can fail: counts it, and returns `injected` where it is the one that has to fail, or the
 * error that stays once a kernel went wrong. */
cudaError_t begin_call(cudaError_t injected)
{
    card &c = the_card();
    std::lock_guard<std::mutex> lock(c.mutex);

    c.calls++;
    if (c.sticky_error != cudaSuccess) {
        return c.sticky_error;
    }
    if (c.settings.fail_at != 0 && c.calls == c.settings.fail_at) {
        last_error = injected;
        return injected;
    }
    return cudaSuccess;
}

/* In calls that a thread must not make while it captures: 0, or the error, and the capture is worth nothing. */
cudaError_t refuse_captured(struct vc_emu_stream *stream)
{
    if (stream == NULL || stream->captured == NULL) {
        return cudaSuccess;
    }
    stream->invalid = true;
    return note(cudaErrorStreamCaptureUnsupported);
}

/* Whether one allocation of that kind holds all of [p, p + bytes). */
bool inside(const void *p, size_t bytes, enum kind kind)
{
    card &c = the_card();
    std::lock_guard<std::mutex> lock(c.mutex);
    char *at = (char *)const_cast<void *>(p);
    auto next = c.allocations.upper_bound(at);

    if (next == c.allocations.begin()) {
        return false;
    }
    --next;
    return next->second.kind == kind && at + bytes <= next->first + next->second.bytes;
}

/* A block of that size which was released, or a new one; returns NULL if memory is short. Fresh pages from the system
 * are most of the time of programs that open the card hundreds of times. */
char *take_block(card &c, size_t bytes)
{
    auto kept = c.released.find(bytes);
    char *block;

    if (kept == c.released.end()) {
        return (char *)malloc(bytes);
    }
    block = kept->second;
    c.released.erase(kept);
    c.released_bytes -= bytes;
    emu_unpoison(block, bytes);
    return block;
}

/* Keeps it for take_block, or frees it. */
void give_block(card &c, char *block, size_t bytes)
{
    if (bytes > MAX_KEPT - c.released_bytes) {
        free(block);
        return;
    }
    c.released.emplace(bytes, block);
    c.released_bytes += bytes;
    emu_poison(block, bytes);
}

/* cudaMalloc and cudaMallocHost. Only device memory counts towards the size of the card. */
cudaError_t allocate(void **p, size_t bytes, enum kind kind)
{
    card &c = the_card();
    cudaError_t error = begin_call(cudaErrorMemoryAllocation);
    char *block;

    error = error == cudaSuccess ? refuse_captured(captures) : error;
    if (error != cudaSuccess) {
        return error;
    }
    std::unique_lock<std::mutex> lock(c.mutex);
    if (kind == DEVICE_MEMORY && bytes > c.settings.card_bytes - c.device_bytes) {
        lock.unlock();
        return note(cudaErrorMemoryAllocation);
    }
    block = take_block(c, bytes + 2 * RED_ZONE);
    if (block == NULL) {
        lock.unlock();
        return note(cudaErrorMemoryAllocation);
    }
    memset(block, CANARY, RED_ZONE);
    memset(block + RED_ZONE, POISON, bytes);
    memset(block + RED_ZONE + bytes, CANARY, RED_ZONE);
    emu_poison(block, RED_ZONE);
    emu_poison(block + RED_ZONE + bytes, RED_ZONE);
    c.allocations[block + RED_ZONE] = {bytes, kind};
    c.device_bytes += kind == DEVICE_MEMORY ? bytes : 0;
    *p = block + RED_ZONE;
    return cudaSuccess;
}

/* cudaFree and cudaFreeHost; looks at the red zones. */
cudaError_t release(void *p, enum kind kind)
{
    card &c = the_card();
    char *data = (char *)p;
    bool intact = true;

    if (p == NULL || refuse_captured(captures) != cudaSuccess) {
        return p == NULL ? cudaSuccess : cudaErrorStreamCaptureUnsupported;
    }
    std::unique_lock<std::mutex> lock(c.mutex);
    auto at = c.allocations.find(data);
    if (at == c.allocations.end() || at->second.kind != kind) {
        lock.unlock();
        return note(cudaErrorInvalidValue);
    }
    emu_unpoison(data - RED_ZONE, at->second.bytes + 2 * RED_ZONE);
    for (size_t i = 0; i < RED_ZONE; i++) {
        intact = intact && (unsigned char)data[(ptrdiff_t)i - (ptrdiff_t)RED_ZONE] == CANARY &&
                 (unsigned char)data[at->second.bytes + i] == CANARY;
    }
    c.device_bytes -= kind == DEVICE_MEMORY ? at->second.bytes : 0;
    give_block(c, data - RED_ZONE, at->second.bytes + 2 * RED_ZONE);
    c.allocations.erase(at);
    lock.unlock();
    if (!intact) {
        vc_emu_complain("write beyond an allocation");
    }
    return cudaSuccess;
}

/* Does the work of a stream up to number `until`. */
void run_stream(struct vc_emu_stream *stream, uint64_t until)
{
    while (stream->done < until && !stream->waiting.empty()) {
        std::function<void()> work = stream->waiting.front();

        stream->waiting.pop_front();
        work();
        stream->done++;
    }
}

/* Notes work down, in the graph if the stream is captured; `eager` does it now. */
cudaError_t enqueue(struct vc_emu_stream *stream, const char *name, unsigned grid, unsigned block,
                    std::function<void()> work)
{
    if (stream->captured != NULL) {
        stream->captured->nodes.push_back({name, grid, block, work});
        return stream->invalid ? note(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
    }
    stream->waiting.push_back(work);
    stream->queued++;
    if (the_card().settings.eager) {
        run_stream(stream, stream->queued);
    }
    return cudaSuccess;
}

/* The error that stays, if a kernel went wrong. */
cudaError_t sticky(void)
{
    card &c = the_card();
    std::lock_guard<std::mutex> lock(c.mutex);

    return c.sticky_error;
}

/* Streams and events that exist, for vc_emu_live. */
void count_handle(int change)
{
    card &c = the_card();
    std::lock_guard<std::mutex> lock(c.mutex);

    c.n_handles += (size_t)change;
}

} // namespace

/* ---- emu.h ---- */

void vc_emu_defaults(struct vc_emu_settings *settings)
{
    const char *schedule = environment("VC_EMU_SCHEDULE");
    const char *eager = environment("VC_EMU_EAGER");
    const char *bytes = environment("VC_EMU_CARD");
    const char *fail_at = environment("VC_EMU_FAIL");
    const char *devices = environment("VC_EMU_DEVICES");

    memset(settings, 0, sizeof *settings);
    if (schedule != NULL && strcmp(schedule, "descending") == 0) {
        settings->schedule = VC_EMU_DESCENDING;
    } else if (schedule != NULL && strcmp(schedule, "ascending") != 0) {
        settings->schedule = VC_EMU_SHUFFLED;
        settings->seed = (unsigned)strtoul(schedule, NULL, 10);
    }
    settings->eager = eager != NULL && strcmp(eager, "1") == 0;
    settings->card_bytes = bytes != NULL ? strtoull(bytes, NULL, 10) : (uint64_t)8 << 30;
    settings->fail_at = fail_at != NULL ? strtoull(fail_at, NULL, 10) : 0;
    settings->n_devices = devices != NULL ? (int)strtol(devices, NULL, 10) : 1;
}

void vc_emu_configure(const struct vc_emu_settings *settings)
{
    card &c = the_card();
    std::lock_guard<std::mutex> lock(c.mutex);

    c.settings = *settings;
    c.calls = 0;
    last_error = c.sticky_error = cudaSuccess;
    c.report[0] = '\0';
}

uint64_t vc_emu_calls(void)
{
    return the_card().calls;
}

size_t vc_emu_live(void)
{
    return the_card().allocations.size() + the_card().n_handles;
}

const char *vc_emu_report(void)
{
    return the_card().report;
}

void vc_emu_complain(const char *format, ...)
{
    card &c = the_card();
    std::lock_guard<std::mutex> lock(c.mutex);
    va_list args;

    if (c.report[0] == '\0') {
        va_start(args, format);
        (void)vsnprintf(c.report, sizeof c.report, format, args);
        va_end(args);
    }
    last_error = c.sticky_error = cudaErrorLaunchFailure;
}

enum vc_emu_schedule vc_emu_current_schedule(unsigned *seed)
{
    *seed = the_card().settings.seed;
    return the_card().settings.schedule;
}

void vc_emu_log(const char *what, const char *name, uint64_t a, uint64_t b)
{
    static FILE *log = environment("VC_EMU_LOG") != NULL ? fopen(environment("VC_EMU_LOG"), "w") : NULL;

    if (log != NULL) {
        (void)fprintf(log, "%s %s %llu %llu\n", what, name, (unsigned long long)a, (unsigned long long)b);
        (void)fflush(log);
    }
}

/* ---- devices ---- */

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = the_card().settings.n_devices < 0 ? 0 : CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error = begin_call(cudaErrorUnknown);

    if (error != cudaSuccess) {
        return error;
    }
    if (the_card().settings.n_devices < 0) {
        return note(cudaErrorInsufficientDriver); /* as the real one: *count stays untouched */
    }
    *count = the_card().settings.n_devices;
    return *count == 0 ? note(cudaErrorNoDevice) : cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    cudaError_t error = begin_call(cudaErrorUnknown);

    if (error != cudaSuccess) {
        return error;
    }
    if (device < 0 || device >= the_card().settings.n_devices) {
        return note(cudaErrorInvalidDevice);
    }
    memset(properties, 0, sizeof *properties);
    (void)snprintf(properties->name, sizeof properties->name, "emulated card");
    properties->uuid.bytes[0] = 'V';
    properties->uuid.bytes[15] =
        (char)((visible != NULL ? strtol(visible, NULL, 10) : 0) + device); /* of the machine */
    properties->totalGlobalMem = the_card().settings.card_bytes;
    properties->major = 8;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = begin_call(cudaErrorUnknown);

    if (error != cudaSuccess) {
        return error;
    }
    return device < 0 || device >= the_card().settings.n_devices ? note(cudaErrorInvalidDevice) : cudaSuccess;
}

/* A card of two processors that hold two blocks each. These cannot fail where a device is open. */
cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr, int)
{
    *value = 2;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int, size_t)
{
    *blocks = 2;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    cudaError_t error = begin_call(cudaErrorNoKernelImageForDevice);

    attributes->numRegs = 0;
    return error != cudaSuccess || function != NULL ? error : note(cudaErrorInvalidDeviceFunction);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    cudaError_t error = begin_call(cudaErrorUnknown);

    *total_bytes = the_card().settings.card_bytes;
    *free_bytes = *total_bytes - the_card().device_bytes;
    return error;
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    return allocate(p, bytes, DEVICE_MEMORY);
}

cudaError_t cudaFree(void *p)
{
    return release(p, DEVICE_MEMORY);
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    return allocate(p, bytes, PINNED_MEMORY);
}

cudaError_t cudaFreeHost(void *p)
{
    return release(p, PINNED_MEMORY);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    cudaError_t error = begin_call(cudaErrorUnknown);
    bool to_device = kind == cudaMemcpyHostToDevice;

    if (error != cudaSuccess) {
        return error;
    }
    vc_emu_log("copy", to_device ? "up" : "down", bytes, 0);
    if (!inside(to, bytes, to_device ? DEVICE_MEMORY : PINNED_MEMORY) ||
        !inside(from, bytes, to_device ? PINNED_MEMORY : DEVICE_MEMORY)) {
        return stream->captured != NULL ? refuse_captured(stream) : note(cudaErrorInvalidValue);
    }
    return enqueue(stream, "memcpy", 0, 0, [=]() { memcpy(to, from, bytes); });
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    cudaError_t error = begin_call(cudaErrorUnknown);

    if (error != cudaSuccess) {
        return error;
    }
    if (!inside(p, bytes, DEVICE_MEMORY)) {
        return note(cudaErrorInvalidValue);
    }
    return enqueue(stream, "memset", 0, 0, [=]() { memset(p, value, bytes); });
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    cudaError_t error = begin_call(cudaErrorUnknown);

    if (error == cudaSuccess) {
        *stream = new vc_emu_stream();
        count_handle(1);
    }
    return error;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    run_stream(stream, stream->queued);
    delete stream;
    count_handle(-1);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t error = begin_call(cudaErrorUnknown);

    if (stream->captured != NULL) {
        return refuse_captured(stream);
    }
    vc_emu_log("wait", "stream", 0, 0);
    run_stream(stream, stream->queued); /* even if the answer is an error: nothing may stay in flight */
    return error != cudaSuccess ? error : sticky();
}

/* Each question lets the stream do one piece of its work. */
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    cudaError_t error = begin_call(cudaErrorUnknown);

    if (stream->captured != NULL) {
        return refuse_captured(stream);
    }
    if (error == cudaSuccess && stream->done < stream->queued) {
        run_stream(stream, stream->done + 1);
        return cudaErrorNotReady;
    }
    return error != cudaSuccess ? error : sticky();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    cudaError_t error = begin_call(cudaErrorUnknown);

    if (error == cudaSuccess) {
        *event = new vc_emu_event();
        count_handle(1);
    }
    return error;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    count_handle(-1);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t error = begin_call(cudaErrorUnknown);

    if (stream->captured != NULL) {
        return refuse_captured(stream); /* CUDA takes it; nobody here has a use for it */
    }
    if (error == cudaSuccess) {
        event->stream = stream;
        event->after = stream->queued;
    }
    return error;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t error = begin_call(cudaErrorUnknown);

    if (error != cudaSuccess) {
        return error;
    }
    vc_emu_log("wait", "event", 0, 0);
    if (event->stream != NULL) {
        run_stream(event->stream, event->after);
    }
    return sticky();
}

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    cudaError_t error = begin_call(cudaErrorUnknown);

    if (error != cudaSuccess) {
        return error;
    }
    if (mode != cudaStreamCaptureModeThreadLocal ||
        (environment("VC_EMU_GRAPHS") != NULL && strcmp(environment("VC_EMU_GRAPHS"), "0") == 0)) {
        return note(cudaErrorStreamCaptureUnsupported);
    }
    if (stream->captured != NULL || captures != NULL) {
        return note(cudaErrorIllegalState);
    }
    stream->captured = new vc_emu_graph();
    stream->invalid = false;
    captures = stream;
    count_handle(1);
    return cudaSuccess;
}

/* Ends the capture in any case, but on another thread. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    cudaError_t error = begin_call(cudaErrorUnknown);

    *graph = NULL;
    if (stream->captured == NULL) {
        return note(cudaErrorIllegalState);
    }
    if (captures != stream) {
        return note(cudaErrorStreamCaptureWrongThread);
    }
    captures = NULL;
    if (error == cudaSuccess && !stream->invalid) {
        *graph = stream->captured;
        stream->captured = NULL;
        return cudaSuccess;
    }
    delete stream->captured;
    stream->captured = NULL;
    count_handle(-1);
    return error != cudaSuccess ? error : note(cudaErrorStreamCaptureInvalidated);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    cudaError_t error = begin_call(cudaErrorMemoryAllocation);

    if (error == cudaSuccess && flags != 0) {
        error = note(cudaErrorInvalidValue);
    }
    if (error == cudaSuccess) {
        *exec = new vc_emu_graph_exec();
        (*exec)->nodes = std::make_shared<const std::vector<node>>(graph->nodes);
        count_handle(1);
    }
    return error;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    count_handle(-1);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    cudaError_t error = begin_call(cudaErrorLaunchFailure);
    std::shared_ptr<const std::vector<node>> nodes = exec->nodes;

    if (error != cudaSuccess) {
        return error;
    }
    vc_emu_log("launch", "graph", nodes->size(), 0);
    for (const node &n : *nodes) {
        vc_emu_log("node", n.name.c_str(), n.grid, n.block);
    }
    return enqueue(stream, "graph", 0, 0, [nodes]() {
        for (const node &n : *nodes) {
            n.work();
        }
    });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec;
    count_handle(-1);
    return cudaSuccess;
}

/* ---- errors and launches ---- */

cudaError_t cudaGetLastError(void)
{
    card &c = the_card();
    std::lock_guard<std::mutex> lock(c.mutex);
    int error = c.sticky_error != cudaSuccess ? c.sticky_error : last_error;

    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorLaunchFailure:
        return the_card().report[0] != '\0' ? the_card().report : "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
        return "operation failed due to a previous error during capture";
    default:
        return "unknown error";
    }
}

/* A launch: sizes are looked at now, the kernel runs when the stream gets there. */
void vc_emu_launch(const char *name, unsigned grid, unsigned block, cudaStream_t stream, std::function<void()> body)
{
    if (begin_call(cudaErrorLaunchFailure) != cudaSuccess) {
        return;
    }
    if (grid == 0 || grid > MAX_GRID || block == 0 || block > MAX_THREADS || block % 32 != 0) {
        (void)note(cudaErrorInvalidConfiguration);
        return;
    }
    if (stream->captured == NULL) {
        vc_emu_log("launch", name, grid, block);
    }
    (void)enqueue(stream, name, grid, block, [=]() {
        if (sticky() == cudaSuccess) {
            (void)vc_emu_run_kernel(name, grid, block, body);
        }
    });
}
