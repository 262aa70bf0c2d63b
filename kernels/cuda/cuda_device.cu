/* cuda_device.cu - lists, opens and closes a device, and lends its slots to calling threads. No kernels here, but one
 * that does nothing: it tells whether this build has code for a device.
 *
 * Every failure of the runtime becomes a sentence in `why`, or a code that a kernel returns; the runtime's own memory
 * of the last error is cleared each time, or the next call that asks would be told of it. */
#include "kernels/cuda/cuda_device.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define SLOT_BYTES (VC_CUDA_LANES * VC_CUDA_ARENA_BYTES) /* of device memory, and of pinned memory */

/* Arenas of n slots side by side, SLOT_BYTES each: in device memory, and as many in pinned memory. */
struct block {
    unsigned char *device, *pinned;
    unsigned n;
};

/* backend.h: one handle is open at a time per process, so it needs no heap. */
struct device {
    bool open;
    int index;
    char label[128];
    void (*account)(void *user, int64_t bytes);
    void *user;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t given;
    unsigned n_slots, max_slots;
    struct vc_cuda_slot slots[VC_CUDA_MAX_SLOTS];
    /* The arenas: of the first slot, which is made when the device is opened, and of all others, made when a second thread comes. */
    struct block blocks[2];
};

static struct device the_device;

/* Asked about, never started. */
static __global__ void probe_kernel(void)
{
}

/* The sentence for a code of a kernel. */
const char *vc_cuda_error(int result)
{
    if (result == VC_CUDA_NO_DEVICE) {
        return "no device is open";
    }
    return cudaGetErrorString((cudaError_t)result);
}

/* The sentence for a failed call: the driver is missing, too old, sees no device, or the words of the runtime. */
static void explain(int result, char *why, size_t why_bytes)
{
    int driver = 0;

    if (result == cudaErrorInsufficientDriver) {
        if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
            (void)snprintf(why, why_bytes, "no NVIDIA driver is installed");
        } else {
            (void)snprintf(why, why_bytes, "the NVIDIA driver is for CUDA %d.%d, this build needs %d.%d or newer",
                           driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
        }
    } else if (result == cudaErrorNoDevice) {
        (void)snprintf(why, why_bytes, "the NVIDIA driver sees no device");
    } else {
        (void)snprintf(why, why_bytes, "%s", cudaGetErrorString((cudaError_t)result));
    }
    (void)cudaGetLastError(); /* forgets this error */
}

/* -1 without a device or a driver, which `why` tells apart. */
int vc_cuda_device_count(char *why, size_t why_bytes)
{
    int count = 0; /* left untouched by the runtime where there is no driver */
    cudaError_t result = cudaGetDeviceCount(&count);

    if (result == cudaSuccess && count > 0) {
        return count;
    }
    explain(result == cudaSuccess ? cudaErrorNoDevice : result, why, why_bytes);
    return -1;
}

/* Makes the device current and says whether the plug-in holds code that it can run: 0, or -1 with the reason. */
static int probe(int device, char *why, size_t why_bytes)
{
    struct cudaFuncAttributes attributes;
    cudaError_t result = cudaSetDevice(device);

    if (result == cudaSuccess) {
        result = cudaFuncGetAttributes(&attributes, (const void *)probe_kernel);
        if (result == cudaErrorNoKernelImageForDevice || result == cudaErrorInvalidDeviceFunction ||
            result == cudaErrorUnsupportedPtxVersion) {
            (void)snprintf(why, why_bytes, "this build has no code for it");
            (void)cudaGetLastError();
            return -1;
        }
    }
    if (result != cudaSuccess) {
        explain(result, why, why_bytes);
        return -1;
    }
    return 0;
}

/* A device that this build has no code for is listed, as not usable. */
int vc_cuda_device_info(int device, struct vc_backend_device *info, char *why, size_t why_bytes)
{
    struct cudaDeviceProp properties;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    cudaError_t result = cudaGetDeviceProperties(&properties, device);

    memset(info, 0, sizeof *info);
    if (result != cudaSuccess) {
        explain(result, why, why_bytes);
        return -1;
    }
    (void)snprintf(info->name, sizeof info->name, "%.95s", properties.name);
    info->major = properties.major;
    info->minor = properties.minor;
    info->total_bytes = properties.totalGlobalMem;
    if (probe(device, why, why_bytes) != 0) {
        return 0;
    }
    result = cudaMemGetInfo(&free_bytes, &total_bytes);
    if (result != cudaSuccess) {
        explain(result, why, why_bytes);
        return 0;
    }
    info->free_bytes = free_bytes;
    info->usable = 1;
    return 0;
}

int vc_cuda_device_uuid(unsigned char uuid[16], char *why, size_t why_bytes)
{
    struct cudaDeviceProp properties;
    cudaError_t result = cudaGetDeviceProperties(&properties, the_device.index);

    if (result != cudaSuccess) {
        explain(result, why, why_bytes);
        return 1;
    }
    memcpy(uuid, properties.uuid.bytes, sizeof properties.uuid.bytes);
    return 0;
}

/* Gives back what there is of a block, and accounts for it. Also half-made ones: what is missing is NULL. */
static void block_destroy(struct block *block)
{
    const int64_t bytes = (int64_t)(block->n * SLOT_BYTES);

    if (block->pinned != NULL && cudaFreeHost(block->pinned) == cudaSuccess) {
        the_device.account(the_device.user, -bytes);
    }
    if (block->device != NULL && cudaFree(block->device) == cudaSuccess) {
        the_device.account(the_device.user, -bytes);
    }
    memset(block, 0, sizeof *block);
}

/* Memory is counted by the library, through `account`. */
static int block_create(unsigned n, struct block *block)
{
    int result;

    memset(block, 0, sizeof *block);
    block->n = n;
    VC_CUDA_TRY(cudaMalloc((void **)&block->device, n * SLOT_BYTES));
    the_device.account(the_device.user, (int64_t)(n * SLOT_BYTES));
    VC_CUDA_TRY(cudaMallocHost((void **)&block->pinned, n * SLOT_BYTES));
    the_device.account(the_device.user, (int64_t)(n * SLOT_BYTES));
out:
    if (result != cudaSuccess) {
        (void)cudaGetLastError();
        block_destroy(block);
    }
    return result;
}

/* Takes slots that were never made, too. */
static void slot_destroy(struct vc_cuda_slot *slot)
{
    unsigned i;

    for (i = 0; i < VC_CUDA_LANES; i++) {
        if (slot->lanes[i].done != NULL) {
            (void)cudaEventDestroy(slot->lanes[i].done);
        }
        if (slot->lanes[i].stream != NULL) {
            (void)cudaStreamDestroy(slot->lanes[i].stream);
        }
    }
    memset(slot, 0, sizeof *slot);
}

/* Number i of a block. All lanes or none. */
static int slot_create(const struct block *block, unsigned i, struct vc_cuda_slot *slot)
{
    unsigned k;
    int result;

    memset(slot, 0, sizeof *slot);
    for (k = 0; k < VC_CUDA_LANES; k++) {
        struct vc_cuda_lane *lane = &slot->lanes[k];
        const size_t at = i * SLOT_BYTES + k * VC_CUDA_ARENA_BYTES;

        lane->device = block->device + at;
        lane->pinned = block->pinned + at;
        VC_CUDA_TRY(cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking));
        /* Waiting spins: a unit takes some 20 us, and being woken up costs as much. */
        VC_CUDA_TRY(cudaEventCreateWithFlags(&lane->done, cudaEventDisableTiming));
    }
out:
    if (result != cudaSuccess) {
        (void)cudaGetLastError();
        slot_destroy(slot);
    }
    return result;
}

/* Slots for so many bytes of device memory; 0: no limit. */
static unsigned slots_within(uint64_t limit_bytes)
{
    uint64_t n = limit_bytes == 0 ? VC_CUDA_MAX_SLOTS : limit_bytes / SLOT_BYTES;

    return n < VC_CUDA_MAX_SLOTS ? (unsigned)n : VC_CUDA_MAX_SLOTS;
}

/* One device is open in a process. The limit is in slots: memory that the kernels of one thread work in. */
void *vc_cuda_open(int device, uint64_t limit_bytes, void (*account)(void *user, int64_t bytes), void *user, char *why,
                   size_t why_bytes)
{
    struct vc_backend_device info;
    int count = vc_cuda_device_count(why, why_bytes);
    int result;

    if (count < 0) {
        return NULL;
    }
    if (device < 0 || device >= count) {
        (void)snprintf(why, why_bytes, "there is no device %d: the last one is %d", device, count - 1);
        return NULL;
    }
    if (the_device.open) {
        (void)snprintf(why, why_bytes, "device %d is open in this process already", the_device.index);
        return NULL;
    }
    if (slots_within(limit_bytes) == 0) {
        (void)snprintf(why, why_bytes, "needs %zu bytes of device memory, the limit is %llu", (size_t)SLOT_BYTES,
                       (unsigned long long)limit_bytes);
        return NULL;
    }
    if (vc_cuda_device_info(device, &info, why, why_bytes) != 0 || !info.usable) {
        return NULL;
    }
    memset(&the_device, 0, sizeof the_device);
    the_device.index = device;
    the_device.account = account;
    the_device.user = user;
    the_device.max_slots = slots_within(limit_bytes);
    (void)snprintf(the_device.label, sizeof the_device.label, "cuda:%d %s", device, info.name);
    if (pthread_mutex_init(&the_device.mutex, NULL) != 0 || pthread_cond_init(&the_device.given, NULL) != 0) {
        (void)snprintf(why, why_bytes, "the system has no room for a lock");
        return NULL;
    }
    /* The first slot now: a card without room is then noticed before any work was done. */
    result = block_create(1, &the_device.blocks[0]);
    if (result == cudaSuccess) {
        result = slot_create(&the_device.blocks[0], 0, &the_device.slots[0]);
    }
    if (result != cudaSuccess) {
        block_destroy(&the_device.blocks[0]);
        explain(result, why, why_bytes);
        (void)pthread_cond_destroy(&the_device.given);
        (void)pthread_mutex_destroy(&the_device.mutex);
        return NULL;
    }
    the_device.n_slots = 1;
    the_device.open = true;
    return &the_device;
}

/* All calls of kernels have returned (no context uses the device any more), so every slot is free. */
void vc_cuda_close(void *handle)
{
    struct device *device = (struct device *)handle;
    unsigned i;

    (void)cudaSetDevice(device->index);
    for (i = 0; i < device->n_slots; i++) {
        slot_destroy(&device->slots[i]);
    }
    for (i = 0; i < 2; i++) {
        block_destroy(&device->blocks[i]);
    }
    (void)pthread_cond_destroy(&device->given);
    (void)pthread_mutex_destroy(&device->mutex);
    device->open = false;
}

const char *vc_cuda_device_label(const void *handle)
{
    return ((const struct device *)handle)->label;
}

/* Makes all other slots, in one block: half as many where the card or the host has no room, and so on. With the mutex held. */
static void make_others(struct device *device)
{
    unsigned n = device->max_slots - device->n_slots;
    unsigned i;

    while (n > 0 && block_create(n, &device->blocks[1]) != cudaSuccess) {
        n /= 2;
    }
    for (i = 0; i < n && slot_create(&device->blocks[1], i, &device->slots[device->n_slots]) == cudaSuccess; i++) {
        device->n_slots++;
    }
    device->max_slots = device->n_slots; /* the card is full: share the slots there are */
}

/* A free slot, new ones if need be; NULL when every slot is taken and there is no room for others. With the mutex held. */
static struct vc_cuda_slot *free_slot(struct device *device)
{
    for (;;) {
        unsigned i = 0;

        while (i < device->n_slots && device->slots[i].taken) {
            i++;
        }
        if (i < device->n_slots) {
            return &device->slots[i];
        }
        if (device->n_slots == device->max_slots) {
            return NULL;
        }
        make_others(device);
    }
}

/* Waits until a slot is free. A device is current for a thread, so it is set for each call. */
int vc_cuda_slot_take(struct vc_cuda_slot **slot)
{
    struct device *device = &the_device;
    cudaError_t result;

    *slot = NULL;
    if (!device->open) {
        return VC_CUDA_NO_DEVICE;
    }
    result = cudaSetDevice(device->index);
    if (result != cudaSuccess) {
        return (int)result;
    }
    (void)pthread_mutex_lock(&device->mutex);
    for (;;) {
        *slot = free_slot(device);
        if (*slot != NULL) {
            break;
        }
        (void)pthread_cond_wait(&device->given, &device->mutex);
    }
    (*slot)->taken = true;
    (void)pthread_mutex_unlock(&device->mutex);
    return 0;
}

/* Wakes one thread that waits. */
void vc_cuda_slot_give(struct vc_cuda_slot *slot)
{
    struct device *device = &the_device;

    (void)pthread_mutex_lock(&device->mutex);
    slot->taken = false;
    (void)pthread_cond_signal(&device->given);
    (void)pthread_mutex_unlock(&device->mutex);
}

/* ---- memory of training ---- */

/* Memory of training, outside of the slots. An empty block has an address as well. */
int vc_cuda_memory_take(uint64_t bytes, void **out)
{
    int result;

    *out = NULL;
    if (!the_device.open) {
        return VC_CUDA_NO_DEVICE;
    }
    VC_CUDA_TRY(cudaSetDevice(the_device.index));
    VC_CUDA_TRY(cudaMalloc(out, bytes == 0 ? 1 : bytes));
    the_device.account(the_device.user, (int64_t)bytes);
out:
    if (result != cudaSuccess) {
        (void)cudaGetLastError();
        *out = NULL;
    }
    return result;
}

void vc_cuda_memory_give(void *p, uint64_t bytes)
{
    if (p != NULL && cudaFree(p) == cudaSuccess) {
        the_device.account(the_device.user, -(int64_t)bytes);
    }
}
