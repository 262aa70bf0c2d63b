/* gpus_json.c - the catalogue of GPUs as one JSON document, schema vcompress.gpus/1 (gpus-1.schema.json). */
#include <math.h>

#include <vcompress/gpus.h>

#include "core/text/json_write.h"

static const char *const sources[] = {"cuda", "driver", "name"};

static void write_types(struct vc_json *json, const char *key, unsigned types)
{
    vc_json_begin(json, key, '[', true);
    for (size_t k = 0; k < VC_GPU_TYPES; k++) {
        if ((types >> k & 1) != 0) {
            vc_json_string(json, NULL, vc_gpu_type_name(1U << k));
        }
    }
    vc_json_end(json, ']');
}

static void write_card(struct vc_json *json, const struct vc_gpu *gpu)
{
    char capability[16] = "";
    enum vc_gpu_source source;
    uint64_t visible = vc_gpu_visible_bytes(gpu, &source);

    snprintf(capability, sizeof capability, "%d.%d", gpu->major, gpu->minor);
    vc_json_string(json, "vendor", gpu->vendor);
    vc_json_string(json, "architecture", gpu->architecture);
    vc_json_string(json, "compute_capability", gpu->major != 0 ? capability : NULL);
    vc_json_real(json, "memory_gb", gpu->memory_gb);
    vc_json_string(json, "memory_type", gpu->memory_type);
    vc_json_known(json, "driver_bytes", gpu->driver_bytes);
    vc_json_known(json, "cuda_bytes", gpu->cuda_bytes);
    vc_json_uint(json, "visible_bytes", visible);
    vc_json_string(json, "visible_from", sources[source]);
    vc_json_real(json, "bandwidth_gb_s", gpu->bandwidth_gb_s != 0 ? gpu->bandwidth_gb_s : (double)NAN);
    write_types(json, "types", gpu->types);
    write_types(json, "types_unsure", gpu->types_unsure);
}

static void write_gpu(struct vc_json *json, const struct vc_gpu *gpu)
{
    vc_json_begin(json, NULL, '{', true);
    vc_json_string(json, "name", gpu->name);
    vc_json_begin(json, "aliases", '[', true);
    for (size_t k = 0; k < gpu->n_aliases; k++) {
        vc_json_string(json, NULL, gpu->aliases[k]);
    }
    vc_json_end(json, ']');
    if (gpu->of != NULL) {
        vc_json_string(json, "of", gpu->of->name);
        vc_json_uint(json, "count", gpu->count);
    } else {
        write_card(json, gpu);
    }
    vc_json_string(json, "note", *gpu->note != '\0' ? gpu->note : NULL);
    vc_json_end(json, '}');
}

enum vc_status vc_gpus_json(struct vc_ctx *ctx, const struct vc_gpus *gpus, const char *match, char **text)
{
    struct vc_text document;
    struct vc_json json;

    vc_clear_error(ctx);
    vc_json_open(&json, &document, ctx, '{', "vcompress.gpus/1");
    vc_json_string(&json, "version", vc_version());
    vc_json_begin(&json, "gpus", '[', false);
    for (size_t k = 0; k < vc_gpus_count(gpus); k++) {
        if (match == NULL || vc_gpu_matches(vc_gpu(gpus, k), match)) {
            write_gpu(&json, vc_gpu(gpus, k));
        }
    }
    vc_json_end(&json, ']');
    vc_json_end(&json, '}');
    vc_text_add(&document, "\n");
    return vc_json_finish(&json, text);
}
