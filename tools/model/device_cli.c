/* device_cli.c - which device --gpu (of shrink --fit) means, and how much of its memory is meant.
 *
 *     visible = what a program sees of the device, or of a slice of it (vc_gpu_part_bytes)
 *     used    = what others have taken of the device at hand, unless --used says it */
#include "tools/model/memory_cli.h"

#include <string.h>

/* The option that names the device: shrink has it as a limit. */
static const char *option_of(const struct app *app)
{
    return options_seen(&app->parsed, "fit") ? "--fit" : "--gpu";
}

/* The first device whose memory can be asked, as a row like those of the catalogue. GO_ON or a status. */
static int find_at_hand(struct app *app, struct device_cli *device)
{
    struct vc_devices *list = NULL;
    enum vc_status status = vc_devices_list(app->ctx, &list);
    const struct vc_device_info *found = NULL;
    int rc = GO_ON;

    if (status != VC_OK) {
        return app_fail(app, status);
    }
    for (size_t k = 0; found == NULL && k < list->n_devices; k++) {
        found = list->devices[k].total_bytes != 0 ? &list->devices[k] : NULL;
    }
    if (found == NULL) {
        rc = app_refuse(app, VC_E_DEVICE, "%s auto: there is no device here%s%s", option_of(app),
                        list->n_devices == 0 ? ": " : " whose memory could be asked",
                        list->n_devices == 0 ? list->reason : "");
    } else {
        device->at_hand = (struct vc_gpu){.name = "the device at hand",
                                          .vendor = "",
                                          .architecture = "",
                                          .memory_type = "",
                                          .note = "",
                                          .count = 1,
                                          .cuda_bytes = found->total_bytes,
                                          .visible_bytes = found->total_bytes};
        device->taken = found->free_bytes < found->total_bytes ? found->total_bytes - found->free_bytes : 0;
    }
    vc_result_free(list);
    return rc;
}

/* *count is above 1 for "T4:4" and for instances of clouds. */
int device_find(struct app *app, struct device_cli *device, const struct vc_gpus *catalogue, const char *text,
                const struct vc_gpu **gpu, unsigned *count, uint64_t *visible, uint64_t *used)
{
    unsigned part = 1;
    unsigned of = 1;
    int end = 0;

    if (device->slice != NULL && (sscanf(device->slice, "%4u/%4u%n", &part, &of, &end) != 2 ||
                                  device->slice[end] != '\0' || part == 0 || part > of)) {
        return app_usage(app, "--slice: '%s' is no part of a device, such as 1/8", device->slice);
    }
    *count = 1;
    if (strcmp(text, "auto") == 0) {
        GO(find_at_hand(app, device));
        *gpu = &device->at_hand;
        *used = options_seen(&app->parsed, "used") ? *used : device->taken;
        *visible = vc_gpu_part_bytes(*gpu, VC_GPU_ECC_AS_LISTED, part, of);
        return GO_ON;
    }
    if (vc_gpus_find(app->ctx, catalogue, text, gpu, count) != VC_OK) {
        return app_usage(app, "%s: %s", option_of(app), vc_ctx_message(app->ctx));
    }
    *visible = vc_gpu_part_bytes(*gpu, (enum vc_gpu_ecc)device->ecc, part, of);
    return GO_ON;
}

/* Looks at the words as they were given, since the parsed value has lost its unit. */
int device_size_check(struct app *app)
{
    for (size_t i = 0; i < app->parsed.n_given && i < PARSE_MAX_GIVEN; i++) {
        const struct given *given = &app->parsed.given[i];
        uint64_t number;

        if (strcmp(given->opt->name, "memory") == 0 && given->value != NULL && options_count(given->value, &number) &&
            number > 0 && number < 4096) {
            return app_usage(app, "--memory: %s bytes hold no model; the unit is missing, as in %sGiB", given->value,
                             given->value);
        }
    }
    return GO_ON;
}
