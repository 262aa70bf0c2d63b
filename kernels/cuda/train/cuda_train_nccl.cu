/* cuda_train_nccl.cu - training on the device: sums over ranks, each of which has a device, by NCCL where the system
 * has it. It is loaded when ranks ask for it, so that nothing else needs it; contracts in train_backend.h. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels/cuda/train/cuda_train.h"

/* Where NCCL comes from; the emulated runtime has one of its own. */
#ifndef VC_CUDA_NCCL_OPEN
#include <dlfcn.h>
#define VC_CUDA_NCCL_OPEN(name)         dlopen(name, RTLD_NOW | RTLD_LOCAL)
#define VC_CUDA_NCCL_FIND(file, symbol) dlsym(file, symbol)
#endif

#define NCCL_FLOAT32 7
#define NCCL_SUM     0
#define NCCL_WAITS   7 /* ncclInProgress */
#define LOOK_NS      20000

/* As nccl.h declares them. */
struct nccl_id {
    unsigned char bytes[VC_TRAIN_SUMS_ID];
};

/* That of 2.14, which later versions read by its size and version: calls that wait for other ranks come back at once.
 */
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking;
    int later; /* the first member that 2.14 does not have; its word for "not given" */
};
static struct nccl_config no_waiting = {sizeof(struct nccl_config), 0xcafebeef, 21400, 0, (int)0x80000000};

/* NCCL, once it is loaded; one communicator in a process. */
static struct {
    void *file; /* stays loaded: NCCL keeps threads of its own */
    void *comm; /* NULL: none is open */
    char name[64], why[256];
    const char *asked; /* the call that is waited for */
    int (*version)(int *version);
    int (*id)(struct nccl_id *id);
    int (*init)(void **comm, int size, struct nccl_id id, int rank);
    int (*init_config)(void **comm, int size, struct nccl_id id, int rank, struct nccl_config *config); /* or NULL */
    int (*all_reduce)(const void *from, void *to, size_t n, int type, int op, void *comm, cudaStream_t stream);
    int (*error_of)(void *comm, int *error);
    int (*destroy)(void *comm);
    int (*abort)(void *comm);
    const char *(*text)(int result);
} nccl;

/* Looks one function up; false: it is not there. */
static bool look_up(const char *name, void *function)
{
    void *symbol = VC_CUDA_NCCL_FIND(nccl.file, name);

    memcpy(function, &symbol, sizeof symbol); /* POSIX: a function pointer fits into void * */
    if (symbol == NULL) {
        (void)snprintf(nccl.why, sizeof nccl.why, "libnccl.so.2 has no %s", name);
    }
    return symbol != NULL;
}

/* Loads it with the first call; NULL: sums_why says what is missing. */
static const char *sums_name(void)
{
    int version = 0;

    if (nccl.name[0] != '\0') {
        return nccl.name;
    }
    nccl.file = nccl.file != NULL ? nccl.file : VC_CUDA_NCCL_OPEN("libnccl.so.2");
    if (nccl.file == NULL) {
        (void)snprintf(nccl.why, sizeof nccl.why, "libnccl.so.2 cannot be loaded");
        return NULL;
    }
    if (!look_up("ncclGetVersion", &nccl.version) || !look_up("ncclGetUniqueId", &nccl.id) ||
        !look_up("ncclCommInitRank", &nccl.init) || !look_up("ncclAllReduce", &nccl.all_reduce) ||
        !look_up("ncclCommGetAsyncError", &nccl.error_of) || !look_up("ncclCommDestroy", &nccl.destroy) ||
        !look_up("ncclCommAbort", &nccl.abort) || !look_up("ncclGetErrorString", &nccl.text)) {
        return NULL;
    }
    if (!look_up("ncclCommInitRankConfig", &nccl.init_config)) {
        nccl.init_config = NULL; /* before 2.14: ncclCommInitRank, which waits */
    }
    if (nccl.version(&version) != 0 || version < 2400) {
        (void)snprintf(nccl.why, sizeof nccl.why, "libnccl.so.2 is of version %d; 2.4 or later is needed", version);
        return NULL;
    }
    /* 2708: 2.7.8; 22703: 2.27.3 */
    (void)snprintf(nccl.name, sizeof nccl.name, "NCCL %d.%d.%d", version / (version < 10000 ? 1000 : 10000),
                   version < 10000 ? version % 1000 / 100 : version % 10000 / 100, version % 100);
    return nccl.name;
}

/* 0, or 1 with the reason kept. */
static int outcome(const char *call, int result)
{
    if (result != 0) {
        (void)snprintf(nccl.why, sizeof nccl.why, "%s: %s", call, nccl.text(result));
    }
    return result != 0;
}

/* The same of a call that may go on behind its return. */
static int outcome_asked(const char *call, int result)
{
    nccl.asked = call;
    return outcome(call, result == NCCL_WAITS ? 0 : result);
}

/* The sentence about the last failure. */
static const char *sums_why(void)
{
    return nccl.why;
}

/* What all ranks need to find each other; rank 0 makes it. */
static int sums_id(unsigned char id[VC_TRAIN_SUMS_ID])
{
    struct nccl_id made;
    int failed;

    memset(&made, 0, sizeof made);
    failed = outcome("ncclGetUniqueId", nccl.id(&made));
    memcpy(id, made.bytes, sizeof made.bytes);
    return failed;
}

/* All ranks call it, each with its number. */
static int sums_begin(void *session, const unsigned char id[VC_TRAIN_SUMS_ID], unsigned rank, unsigned size)
{
    struct nccl_id given;

    /* the device of the session is the current one */
    memcpy(given.bytes, id, sizeof given.bytes);
    return outcome_asked("ncclCommInitRank",
                         nccl.init_config != NULL
                             ? nccl.init_config(&nccl.comm, (int)size, given, (int)rank, &no_waiting)
                             : nccl.init(&nccl.comm, (int)size, given, (int)rank));
}

/* The sum of all ranks in place of each one's data. */
static int sums_add(void *session, float *data, uint64_t n)
{
    const struct vc_cuda_session *s = (const struct vc_cuda_session *)session;

    return outcome_asked("ncclAllReduce", nccl.all_reduce(data, data, n, NCCL_FLOAT32, NCCL_SUM, nccl.comm, s->stream));
}

/* Of the call that was asked for, as far as NCCL's threads know: 0; 1: it failed; NCCL_WAITS: it goes on. */
static int progress(void)
{
    int error = 0;

    if (outcome("ncclCommGetAsyncError", nccl.error_of(nccl.comm, &error))) {
        return 1;
    }
    return error == NCCL_WAITS ? NCCL_WAITS : outcome(nccl.asked, error);
}

/* Both are asked now and then, so that a call that never ends can be given up: first NCCL, because a sum is in the
 * stream only when its threads have put it there. */
static int sums_wait(void *session, bool (*stop)(void *user), void *user)
{
    const struct vc_cuda_session *s = (const struct vc_cuda_session *)session;
    const struct timespec nap = {0, LOOK_NS};
    int waits;
    cudaError_t stream = cudaErrorNotReady;

    for (;;) {
        waits = progress();
        if (waits == 0) {
            stream = cudaStreamQuery(s->stream);
        }
        if (waits == 1 || stream != cudaErrorNotReady) {
            break;
        }
        (void)cudaGetLastError();
        if (stop(user)) {
            return 2;
        }
        (void)nanosleep(&nap, NULL);
    }
    if (waits == 0 && stream != cudaSuccess) {
        (void)snprintf(nccl.why, sizeof nccl.why, "%s", cudaGetErrorString(stream));
    }
    return waits != 0 || stream != cudaSuccess || progress() != 0;
}

/* Abort ends kernels that wait for ranks which are gone. */
static void sums_end(void *session, bool whole)
{
    if (nccl.comm != NULL) {
        (void)(whole ? nccl.destroy(nccl.comm) : nccl.abort(nccl.comm));
    }
    nccl.comm = NULL;
}

/* Two ranks on one device are told apart from two devices by it. */
static int sums_uuid(unsigned char uuid[VC_TRAIN_UUID])
{
    return vc_cuda_device_uuid(uuid, nccl.why, sizeof nccl.why);
}

const struct vc_train_sums vc_cuda_train_sums = {sums_name, sums_why,  sums_id,  sums_begin,
                                                 sums_add,  sums_wait, sums_end, sums_uuid};
