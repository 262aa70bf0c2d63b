/* train_device.h - a device that trains, as the library uses it: the plug-in's second table (train_backend.h) with
 * statuses and sentences, and with its memory counted.
 *
 * One is open at a time per process. One thread at a time calls. */
#pragma once

#include "core/base/ctx.h"
#include "kernels/device/train_backend.h"

struct vc_train_device {
    struct vc_ctx *ctx;
    const struct vc_train_backend *table;
    void *session;
    uint64_t bytes, peak_bytes; /* of device memory, with that of the session */
    uint64_t limit_bytes;       /* 0: none */
    bool graphs;                /* instructions that are run again are asked for as one */
    char no_graphs[128];        /* why that went wrong; "": it did not */
};

/* *out is NULL where the context computes on the CPU. VC_E_DEVICE, VC_E_NOMEM, or VC_E_UNSUPPORTED: its plug-in does
 * not train. */
enum vc_status vc_train_device_open(struct vc_ctx *ctx, struct vc_train_device **out);
void vc_train_device_close(struct vc_train_device *device); /* accepts NULL; its memory has been freed */

/* Memory that nobody has taken; 0: not known. */
uint64_t vc_train_free_bytes(const struct vc_train_device *device);

/* What a block takes: device memory is given out in units of 256 bytes. */
static inline uint64_t vc_train_block_bytes(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

enum vc_status vc_train_alloc(struct vc_train_device *device, uint64_t bytes, void **out); /* 0 bytes: NULL */
void vc_train_free(struct vc_train_device *device, void *p, uint64_t bytes);               /* accepts NULL */
enum vc_status vc_train_to_device(struct vc_train_device *device, void *to, const void *from, uint64_t bytes);
enum vc_status vc_train_to_host(struct vc_train_device *device, void *to, const void *from, uint64_t bytes);
enum vc_status vc_train_clear(struct vc_train_device *device, void *p, uint64_t bytes);

/* A graph could not be made: from now on instructions are asked for one by one. */
void vc_train_no_graphs(struct vc_train_device *device, int result);

/* Turns a result of the table into a status with its sentence. */
enum vc_status vc_train_result(struct vc_train_device *device, int result);
