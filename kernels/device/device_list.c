/* device_list.c - vc_devices_list: the plug-in's devices as users see them (`vcompress devices`), and where the
 * plug-in was looked for. Opens none of them for kernels; asking for free memory starts the driver all the same. */
#include <vcompress/device.h>

#include "kernels/device/cuda_load.h"

#define MAX_DEVICES 64

/* The list and everything it points to, in one allocation. */
struct list {
    struct vc_devices devices; /* first: it is what the caller holds */
    struct vc_plugin_search search;
    struct vc_device_search searched[VC_PLUGIN_PLACES];
    struct vc_device_info info[MAX_DEVICES];
    struct vc_backend_device raw[MAX_DEVICES];
    char reasons[MAX_DEVICES][256];
    char reason[256];
};

/* Device number i. What cannot be asked stays 0, with the reason. */
static void add_device(struct list *list, const struct vc_backend *backend, size_t i)
{
    struct vc_device_info *info = &list->info[i];
    struct vc_backend_device *raw = &list->raw[i];

    if (backend->device_info((int)i, raw, list->reasons[i], sizeof list->reasons[i]) != 0) {
        memset(raw, 0, sizeof *raw);
    }
    info->index = (int)i;
    info->name = raw->name;
    info->major = raw->major;
    info->minor = raw->minor;
    info->total_bytes = raw->total_bytes;
    info->free_bytes = raw->free_bytes;
    info->usable = raw->usable != 0;
    info->reason = list->reasons[i];
}

/* Never fails for want of a device: `reason` says why there is none. */
enum vc_status vc_devices_list(struct vc_ctx *ctx, struct vc_devices **out)
{
    struct list *list = vc_result_new(ctx, VC_TAG_MISC, sizeof *list, NULL);
    unsigned place;
    int i;

    *out = NULL;
    VC_CALL_ALLOC(list);
    list->devices.runtime = "";
    list->devices.reason = list->reason;
    list->devices.devices = list->info;
    list->devices.searched = list->searched;
    const struct vc_backend *backend = vc_cuda_plugin(&list->search);
    list->devices.n_searched = list->search.n_places;
    for (place = 0; place < list->search.n_places; place++) {
        list->searched[place].path = list->search.places[place].path;
        list->searched[place].outcome = list->search.places[place].outcome;
    }
    if (backend == NULL) {
        (void)snprintf(list->reason, sizeof list->reason, "the plug-in %s could not be loaded", VC_BACKEND_FILE);
    } else {
        list->devices.runtime = backend->runtime;
        int count = backend->device_count(list->reason, sizeof list->reason);
        for (i = 0; i < count && i < MAX_DEVICES; i++) {
            add_device(list, backend, (size_t)i);
            list->devices.n_devices++;
        }
    }
    *out = &list->devices;
    return VC_OK;
}
