/* emu_nccl.cpp - stands in for NCCL: the functions that cuda_train_nccl.cu looks up, for ranks that are
 * processes of one machine, which add in a file that all of them map. Sums run backwards, so that nothing can count on
 * the order of the ranks. VC_EMU_NCCL says what the system has:
 *   1       it
 *   old     one of before 2.14, whose ranks wait in ncclCommInitRank
 *   init    it, but rank 1 fails at once when ranks look for each other, and the others never find it
 *   dies    one in whose third sum the process of rank 1 ends
 * else there is none. */
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cuda_runtime.h>

#include "emu.h"

namespace
{

enum { ID_BYTES = 128, MAX_RANKS = 8, PART = 1 << 14, SECONDS = 60 };
enum { FAILED = 2, WRONG = 4, LOST = 6, WAITS = 7 }; /* ncclSystemError, -InvalidArgument, -RemoteError, -InProgress */

struct unique_id {
    char path[ID_BYTES];
};

struct shared_state {
    std::atomic<unsigned> here, turn;
    float parts[MAX_RANKS][PART];
};

/* Of NCCL 2.14. */
struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

struct communicator {
    unique_id id;
    bool waits;    /* calls do, and come back when they are done */
    bool joined;   /* the others were found */
    unsigned turn; /* in which they are looked for */
    struct {
        const float *from;
        float *to;
        size_t n;
        cudaStream_t stream;
    } asked; /* is put into the stream later */
    shared_state *shared;
    int rank, size;
    std::atomic<bool> aborted;
    std::atomic<int> error;
    unsigned n_sums;
};

bool is(const char *what)
{
    const char *wanted = getenv("VC_EMU_NCCL");

    return wanted != nullptr && strcmp(wanted, what) == 0;
}

/* Until all ranks are here; false: it was broken off, or one never comes. */
bool meet(communicator *c)
{
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(SECONDS);
    shared_state *m = c->shared;
    unsigned turn = m->turn;

    if (++m->here == static_cast<unsigned>(c->size)) {
        m->here = 0;
        m->turn++;
        return true;
    }
    while (m->turn == turn) {
        if (c->aborted || std::chrono::steady_clock::now() > until) {
            c->error = LOST;
            return false;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return true;
}

void add(communicator *c, const float *from, float *to, size_t n)
{
    for (size_t at = 0; at < n; at += PART) {
        size_t some = n - at < PART ? n - at : static_cast<size_t>(PART);

        memcpy(c->shared->parts[c->rank], from + at, some * sizeof *from);
        if (!meet(c)) {
            return;
        }
        for (size_t i = 0; i < some; i++) {
            float sum = 0;

            for (int k = c->size; k-- > 0;) {
                sum += c->shared->parts[k][i];
            }
            to[at + i] = sum;
        }
        if (!meet(c)) {
            return;
        }
    }
}

/* ---- what the plug-in looks up ---- */

int version(int *out)
{
    *out = 22703;
    return 0;
}

int make_id(unique_id *id)
{
    const char *folder = getenv("TMPDIR");
    int fd;

    (void)snprintf(id->path, sizeof id->path, "%s/vcompress-nccl.XXXXXX", folder != nullptr ? folder : "/tmp");
    fd = mkstemp(id->path);
    if (fd < 0 || ftruncate(fd, sizeof(shared_state)) != 0) {
        return FAILED;
    }
    (void)close(fd);
    return 0;
}

communicator *join(int size, const unique_id &id, int rank)
{
    int fd = open(id.path, O_RDWR);
    void *shared = fd >= 0 ? mmap(nullptr, sizeof(shared_state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    communicator *c;

    if (fd >= 0) {
        (void)close(fd);
    }
    if (shared == MAP_FAILED || size > MAX_RANKS) {
        return nullptr;
    }
    c = new communicator();
    c->id = id;
    c->rank = rank;
    c->size = size;
    c->shared = static_cast<shared_state *>(shared);
    return c;
}

int init(void **out, int size, unique_id id, int rank)
{
    communicator *c = join(size, id, rank);

    if (c == nullptr || !meet(c)) {
        return FAILED;
    }
    (void)unlink(id.path);
    c->waits = c->joined = true;
    *out = c;
    return 0;
}

int init_config(void **out, int size, unique_id id, int rank, const config *how)
{
    communicator *c;

    if (how->size < sizeof *how || how->magic != 0xcafebeef || how->version < 21400 || how->blocking != 0) {
        return WRONG;
    }
    c = is("init") && rank == 1 ? nullptr : join(size, id, rank);
    if (c == nullptr) {
        return FAILED;
    }
    c->turn = c->shared->turn;
    if (++c->shared->here == static_cast<unsigned>(size)) {
        c->shared->here = 0;
        c->shared->turn++;
    }
    *out = c;
    return WAITS;
}

void put_into_stream(communicator *c)
{
    const auto asked = c->asked;

    c->asked.from = nullptr;
    vc_emu_launch("ncclAllReduce", 1, 32, asked.stream, [c, asked]() {
        if (threadIdx.x == 0) {
            add(c, asked.from, asked.to, asked.n);
        }
    });
}

int all_reduce(const void *from, void *to, size_t n, int type, int op, void *comm, cudaStream_t stream)
{
    communicator *c = static_cast<communicator *>(comm);

    if (type != 7 || op != 0 || !c->joined || c->asked.from != nullptr) {
        return WRONG;
    }
    if (is("dies") && c->rank == 1 && ++c->n_sums == 3) {
        _exit(9);
    }
    c->asked = {static_cast<const float *>(from), static_cast<float *>(to), n, stream};
    if (c->waits) {
        put_into_stream(c);
    }
    return c->waits ? 0 : WAITS;
}

/* What goes on does so when somebody asks. */
int error_of(void *comm, int *error)
{
    communicator *c = static_cast<communicator *>(comm);

    *error = WAITS;
    if (!c->joined) {
        c->joined = c->shared->turn != c->turn;
        if (c->joined) {
            (void)unlink(c->id.path);
        }
    } else if (c->asked.from != nullptr) {
        put_into_stream(c);
    } else {
        *error = c->error;
    }
    return 0;
}

int leave(void *comm)
{
    communicator *c = static_cast<communicator *>(comm);

    (void)munmap(c->shared, sizeof(shared_state));
    delete c;
    return 0;
}

/* What is in the stream runs later, and has to find out. */
int abandon(void *comm)
{
    communicator *c = static_cast<communicator *>(comm);

    c->aborted = true;
    (void)unlink(c->id.path);
    return 0;
}

const char *text(int result)
{
    return result == FAILED ? "unhandled system error" : result == LOST ? "remote process exited" : "internal error";
}

} // namespace

void *vc_emu_nccl_open(const char *)
{
    static char file;

    return is("1") || is("old") || is("init") || is("dies") ? &file : nullptr;
}

void *vc_emu_nccl_find(void *, const char *symbol)
{
    static const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"ncclGetVersion", reinterpret_cast<void *>(version)},
        {"ncclGetUniqueId", reinterpret_cast<void *>(make_id)},
        {"ncclCommInitRank", reinterpret_cast<void *>(init)},
        {"ncclCommInitRankConfig", is("old") ? nullptr : reinterpret_cast<void *>(init_config)},
        {"ncclAllReduce", reinterpret_cast<void *>(all_reduce)},
        {"ncclCommGetAsyncError", reinterpret_cast<void *>(error_of)},
        {"ncclCommDestroy", reinterpret_cast<void *>(leave)},
        {"ncclCommAbort", reinterpret_cast<void *>(abandon)},
        {"ncclGetErrorString", reinterpret_cast<void *>(text)},
    };

    for (const auto &f : functions) {
        if (strcmp(f.name, symbol) == 0) {
            return f.function;
        }
    }
    return nullptr;
}
