/* cuda_device.h - the open device: its slots, one for each thread that calls kernels at this moment. cuda_backend.cu
 * shows these functions to the library; cuda_pipeline.cu takes and gives slots.
 *
 * A slot has two lanes, each with a stream, an arena in device memory and one in pinned host memory. Arenas have a
 * fixed size, lie side by side in one block of device memory and one of pinned memory for all slots but the first, and are reused by
 * every call, so nothing is allocated while tiles pass through. */
#pragma once

#include "kernels/cuda/cuda_common.h"
#include "kernels/device/backend.h"

#define VC_CUDA_LANES     2
#define VC_CUDA_MAX_SLOTS 64
#define VC_CUDA_NO_DEVICE 1000000 /* result of a kernel that is called while no device is open */

struct vc_cuda_lane {
    cudaStream_t stream;
    cudaEvent_t done; /* after the last operation of the unit in this lane */
    unsigned char *device;
    unsigned char *pinned;
};

struct vc_cuda_slot {
    bool taken;
    struct vc_cuda_lane lanes[VC_CUDA_LANES];
};

/* The members of struct vc_backend that are about devices; contracts there. */
int vc_cuda_device_count(char *why, size_t why_bytes);
int vc_cuda_device_info(int device, struct vc_backend_device *info, char *why, size_t why_bytes);
int vc_cuda_device_uuid(unsigned char uuid[16], char *why, size_t why_bytes); /* of the open device; 0, or 1 and why */
void *vc_cuda_open(int device, uint64_t limit_bytes, void (*account)(void *user, int64_t bytes), void *user, char *why,
                   size_t why_bytes);
void vc_cuda_close(void *handle);
const char *vc_cuda_error(int result);
const char *vc_cuda_device_label(const void *handle); /* "cuda:0 NAME" */

/* A free slot of the open device, which is made current for this thread. Makes another slot where all are taken and
 * limit and card have room, else waits for one. 0, or the code of the failure (VC_CUDA_NO_DEVICE where none is open)
 * with *slot NULL. */
int vc_cuda_slot_take(struct vc_cuda_slot **slot);
/* Gives it back; nothing may be in flight in its lanes. */
void vc_cuda_slot_give(struct vc_cuda_slot *slot);

/* Memory of the open device for training (train/), counted by the library. take returns 0 or the code of the failure;
 * give takes p NULL, too. */
int vc_cuda_memory_take(uint64_t bytes, void **out);
void vc_cuda_memory_give(void *p, uint64_t bytes);
