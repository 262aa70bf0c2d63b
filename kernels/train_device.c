/* train_device.c - see train_device.h. */
#include "kernels/train_device.h"

#include "core/base/checked.h"
#include "kernels/device/cuda_load.h"
#include "kernels/kernels.h"

/* *out NULL and VC_OK: the device's plug-in cannot train, or the device is the CPU. */
enum vc_status vc_train_device_open(struct vc_ctx *ctx, struct vc_train_device **out)
{
    VC_SCOPED struct vc_train_device *device = NULL;
    const struct vc_train_backend *table = NULL;

    *out = NULL;
    if (vc_kernels_get(ctx) == NULL) { /* opens the device */
        return ctx->status;
    }
    VC_CALL(vc_cuda_train(ctx, &table));
    if (table == NULL) {
        return VC_OK;
    }
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, device, 1));
    device->ctx = ctx;
    device->table = table;
    VC_CALL(vc_train_result(device, table->begin(&device->session)));
    device->bytes = device->peak_bytes = table->own_bytes();
    *out = device;
    device = NULL;
    return VC_OK;
}

void vc_train_device_close(struct vc_train_device *device)
{
    if (device != NULL) {
        device->table->end(device->session);
        vc_free(device->ctx, device);
    }
}

uint64_t vc_train_free_bytes(const struct vc_train_device *device)
{
    /* one is open in a process */
    return vc_cuda_free_bytes();
}

/* The status for a code of the plug-in, with its sentence. */
enum vc_status vc_train_result(struct vc_train_device *device, int result)
{
    return vc_kernels_error(device->ctx, result);
}

void vc_train_no_graphs(struct vc_train_device *device, int result)
{
    (void)vc_train_result(device, result);
    (void)snprintf(device->no_graphs, sizeof device->no_graphs, "%.127s", vc_ctx_message(device->ctx));
    vc_clear_error(device->ctx);
    device->graphs = false;
}

/* Bytes are counted as the device gives them out, in units of 256. */
enum vc_status vc_train_alloc(struct vc_train_device *device, uint64_t bytes, void **out)
{
    uint64_t block = vc_train_block_bytes(bytes);

    *out = NULL;
    if (bytes == 0) {
        return VC_OK;
    }
    VC_REFUSE_IF(device->limit_bytes != 0 &&
                     block > device->limit_bytes - vc_min_u64(device->bytes, device->limit_bytes),
                 device->ctx, VC_E_NOMEM, "%llu bytes more of device memory, %llu are taken, the limit is %llu",
                 (unsigned long long)block, (unsigned long long)device->bytes, (unsigned long long)device->limit_bytes);
    VC_CALL(vc_train_result(device, device->table->alloc(device->session, block, out)));
    device->bytes += block;
    device->peak_bytes = vc_max_u64(device->peak_bytes, device->bytes);
    return VC_OK;
}

void vc_train_free(struct vc_train_device *device, void *p, uint64_t bytes)
{
    if (p != NULL) {
        device->table->release(device->session, p, vc_train_block_bytes(bytes));
        device->bytes -= vc_train_block_bytes(bytes);
    }
}

enum vc_status vc_train_to_device(struct vc_train_device *device, void *to, const void *from, uint64_t bytes)
{
    return vc_train_result(device, device->table->to_device(device->session, to, from, bytes));
}

enum vc_status vc_train_to_host(struct vc_train_device *device, void *to, const void *from, uint64_t bytes)
{
    return vc_train_result(device, device->table->to_host(device->session, to, from, bytes));
}

enum vc_status vc_train_clear(struct vc_train_device *device, void *p, uint64_t bytes)
{
    return vc_train_result(device, device->table->clear(device->session, p, bytes));
}
