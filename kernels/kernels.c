/* kernels.c - which variant of each kernel a context calls. Holds no loops.
 *
 *   device cpu    the reference, overwritten by base, then by the level of the processor (vc_kernels_fill)
 *   device cuda   that table, overwritten by the plug-in's kernels (cuda_load.c)
 *
 * VC_CPU_MASK and vc_ctx_set_cpu_mask lower the level, so that every variant can be tested on a machine that has them
 * all. */
#include "kernels/kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cpu.h"
#include "kernels/cpu/variants.h"
#include "kernels/device/cuda_load.h"

/* For sentences about kernels that differ. */
const char *vc_kernel_name(enum vc_kernel_id id)
{
    static const char *const names[VC_KERNEL_ID_COUNT] = {
#define VC_KERNEL(name, result, params) #name,
#include "kernels/kernels.inc"
#undef VC_KERNEL
    };

    return names[id];
}

/* What the context owns (vc_shared.kernels): the table, and whether the plug-in has to be told when it goes. */
struct held {
    struct vc_kernels table;
    bool cuda;
};

/* Workers of one context may ask for the first time at once. */
static pthread_mutex_t first_use = PTHREAD_MUTEX_INITIALIZER;

/* One function per level puts its variants into the table. They are here and not in the files of the levels: those
 * may use instructions that this machine does not have, even to fill a table. */
static void add_ref(struct vc_kernels *table)
{
#define VC_KERNEL(name, result, params) table->name = vc_##name##_ref;
#include "kernels/kernels.inc"
#undef VC_KERNEL
}

/* Kernels of the table that have a variant of the level take the place of those before; VC_KERNEL_PLAIN are those
 * without. */
static void add_base(struct vc_kernels *table)
{
#define VC_KERNEL(name, result, params) table->name = vc_##name##_base;
#define VC_KERNEL_PLAIN(name, result, params)
#include "kernels/kernels.inc"
#undef VC_KERNEL
}

#if defined(VC_HAVE_KERNELS_AVX2)
static void add_avx2(struct vc_kernels *table)
{
#define VC_KERNEL(name, result, params) table->name = vc_##name##_avx2;
#define VC_KERNEL_PLAIN(name, result, params)
#include "kernels/kernels.inc"
#undef VC_KERNEL
}
#endif

#if defined(VC_HAVE_KERNELS_AVX512)
static void add_avx512(struct vc_kernels *table)
{
#define VC_KERNEL(name, result, params) table->name = vc_##name##_avx512;
#define VC_KERNEL_PLAIN(name, result, params)
#include "kernels/kernels.inc"
#undef VC_KERNEL
}
#endif

#if defined(VC_HAVE_KERNELS_NEON)
static void add_neon(struct vc_kernels *table)
{
#define VC_KERNEL(name, result, params) table->name = vc_##name##_neon;
#define VC_KERNEL_PLAIN(name, result, params)
#include "kernels/kernels.inc"
#undef VC_KERNEL
}
#endif

/* Upward: each level overwrites what it has. Levels that this build lacks are left out. */
void vc_kernels_fill(struct vc_kernels *table, int level)
{
    memset(table, 0, sizeof *table);
    table->device = "cpu";
    add_ref(table);
    if (level >= VC_CPU_BASE) {
        add_base(table);
    }
#if defined(VC_HAVE_KERNELS_AVX2)
    if (level == VC_CPU_AVX2 || level == VC_CPU_AVX512) {
        add_avx2(table);
    }
#endif
#if defined(VC_HAVE_KERNELS_AVX512)
    if (level == VC_CPU_AVX512) {
        add_avx512(table);
    }
#endif
#if defined(VC_HAVE_KERNELS_NEON)
    if (level == VC_CPU_NEON) {
        add_neon(table);
    }
#endif
}

/* vc_shared.kernels_free: called when the context goes, or its device or level is changed. */
static void held_free(struct vc_ctx *ctx, void *kernels)
{
    struct held *held = kernels;

    if (held->cuda) {
        vc_cuda_unload(ctx);
    }
    vc_free(ctx, held);
}

/* "cuda" and "cuda:N" give the device number; "auto" and "cpu" give -1. */
static int cuda_number(const char *device)
{
    if (strncmp(device, "cuda", 4) != 0) {
        return -1;
    }
    return device[4] == ':' ? (int)strtol(device + 5, NULL, 10) : 0;
}

/* What the report says. Kernels that an older plug-in lacks run on the CPU, and the name tells how many:
 * "cuda:0 NVIDIA H200, 2 of 30 kernels on cpu (avx2)". */
static void name_device(struct vc_shared *shared, const char *label, unsigned n_cuda)
{
    const char *level = vc_cpu_level_name(shared->cpu_level);
    char *name = shared->device_name;

    if (label == NULL) {
        snprintf(name, sizeof shared->device_name, "cpu (%s)", level);
    } else if (n_cuda == VC_KERNEL_ID_COUNT) {
        snprintf(name, sizeof shared->device_name, "%s", label);
    } else {
        snprintf(name, sizeof shared->device_name, "%.80s, %u of %u kernels on cpu (%s)", label,
                 VC_KERNEL_ID_COUNT - n_cuda, VC_KERNEL_ID_COUNT, level);
    }
}

/* Makes the table of a context and names its device. VC_E_NOMEM, or VC_E_DEVICE where CUDA was asked for and cannot
 * be had: no silent way back to the CPU, since the user named a device. */
static enum vc_status held_create(struct vc_ctx *ctx, struct held **out)
{
    struct vc_shared *shared = ctx->shared;
    int device = cuda_number(shared->device);
    struct held *held = vc_alloc(ctx, VC_TAG_MISC, sizeof *held);
    enum vc_status status = VC_OK;
    unsigned n_cuda = 0;

    *out = NULL;
    VC_TRY_ALLOC(held);
    held->cuda = false;
    vc_kernels_fill(&held->table, (int)shared->cpu_level);
    if (device >= 0) {
        VC_TRY(vc_cuda_load(ctx, device, &held->table, &n_cuda));
        held->cuda = true;
    }
    name_device(shared, held->cuda ? held->table.device : NULL, n_cuda);
    *out = held;
    return VC_OK;
out:
    vc_free(ctx, held);
    return status;
}

/* Opens the device with the first call. NULL: it cannot be had, and the context has the sentence. */
const struct vc_kernels *vc_kernels_get(struct vc_ctx *ctx)
{
    struct vc_shared *shared = ctx->shared;

    pthread_mutex_lock(&first_use);
    struct held *held = shared->kernels;
    if (held == NULL && held_create(ctx, &held) == VC_OK) {
        shared->kernels = held;
        shared->kernels_free = held_free;
    }
    pthread_mutex_unlock(&first_use);
    return held == NULL ? NULL : &held->table;
}

enum vc_status vc_kernels_error(struct vc_ctx *ctx, int result)
{
    return result == 0 ? VC_OK : vc_cuda_fail(ctx, result);
}
