/* gpu_part.c - the memory of a GPU with and without ECC, and of a slice of it. */
#include <vcompress/gpus.h>

#include <string.h>

#define GIB 1073741824.0

/* What the driver reports, or would, is that share of the nominal size where ECC is inside the memory: 0.931 to 0.94;
 * the lowest share without is 0.986 (docs/memory-model.md). */
#define SHARE_WITH_ECC 0.96

static bool is_listed_with_ecc(const struct vc_gpu *gpu)
{
    bool geforce = strstr(gpu->name, "GeForce") != NULL || strstr(gpu->name, "TITAN") != NULL;

    if (gpu->driver_bytes == 0) {
        return !geforce; /* as vc_gpu.visible_bytes takes it */
    }
    return (double)gpu->driver_bytes < SHARE_WITH_ECC * gpu->memory_gb * GIB;
}

uint64_t vc_gpu_part_bytes(const struct vc_gpu *gpu, enum vc_gpu_ecc ecc, unsigned part, unsigned of)
{
    uint64_t bytes = gpu->visible_bytes;

    if (strncmp(gpu->memory_type, "GDDR", 4) == 0) {
        bool on = is_listed_with_ecc(gpu);

        if (ecc == VC_GPU_ECC_ON && !on) {
            bytes -= bytes / 16 + 1;
        } else if (ecc == VC_GPU_ECC_OFF && on) {
            bytes += bytes / 15;
        }
    }
    if (part == 0 || of == 0 || part >= of) {
        return part == 0 ? 0 : bytes;
    }
    return bytes / of * part / 100 * 95; /* slices are listed with 0.957 to 0.99 of that */
}
