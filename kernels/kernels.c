/* kernels.c - which variant of each kernel a context calls. Holds no loops.
 *
 *   device cpu    the reference, overwritten by base, then by the level of the processor (vc_kernels_fill)
 *   device cuda   that table, overwritten by the plug-in's kernels (cuda_load.c)
 *   device auto   that of the CPU; from vc_kernels_card_begin on, once a card is open, with the plug-in's encoders over it
 *
 * A card is opened by a thread of its own (a third of a second). Who asks for kernels takes over what it has opened: at once for
 * "cuda", which waits, and when it is done for "auto".
 *
 * VC_CPU_MASK and vc_ctx_set_cpu_mask lower the level, so that every variant can be tested on a machine that has them
 * all. */
#include "kernels/kernels.h"

#include <stdlib.h>

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

enum card { CARD_NONE, CARD_OPENING, CARD_OPEN, CARD_FAILED };

/* What the context owns (vc_shared.kernels). Tables do not change once they are given out. */
struct held {
    struct vc_kernels cpu, with_card;
    const struct vc_kernels *in_use;
    enum card card;
    bool ordered; /* all of the card's kernels, and none of the CPU's in their place where it fails */
    /* Of the thread that opens: */
    pthread_t thread;
    atomic_bool done;
    struct vc_ctx ctx;
    enum vc_status status;
    struct vc_kernels opened; /* the CPU's, and over them all that the plug-in has */
    unsigned n_cuda;
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
static void name_device(struct vc_shared *shared, const struct held *held)
{
    const char *level = vc_cpu_level_name(shared->cpu_level);
    char *name = shared->device_name;

    if (held->card != CARD_OPEN) {
        snprintf(name, sizeof shared->device_name, "cpu (%s)", level);
    } else if (!held->ordered && shared->training.by_card) {
        snprintf(name, sizeof shared->device_name, "%.80s for the network, else cpu (%s)", held->opened.device, level);
    } else if (!held->ordered) {
        snprintf(name, sizeof shared->device_name, "%.80s for codes, else cpu (%s)", held->opened.device, level);
    } else if (held->n_cuda == VC_KERNEL_ID_COUNT) {
        snprintf(name, sizeof shared->device_name, "%s", held->opened.device);
    } else {
        snprintf(name, sizeof shared->device_name, "%.80s, %u of %u kernels on cpu (%s)", held->opened.device,
                 VC_KERNEL_ID_COUNT - held->n_cuda, VC_KERNEL_ID_COUNT, level);
    }
}

static void *open_card(void *user)
{
    struct held *held = user;
    int device = cuda_number(held->ctx.shared->device);

    held->status = vc_cuda_load(&held->ctx, device < 0 ? 0 : device, &held->opened, &held->n_cuda);
    atomic_store(&held->done, true);
    return NULL;
}

/* With the mutex held, as all that follows. Without a thread the card is opened here and now. */
static void begin_opening(struct held *held)
{
    held->card = CARD_OPENING;
    held->opened = held->cpu;
    if (pthread_create(&held->thread, NULL, open_card, held) != 0) {
        (void)open_card(held);
        held->thread = pthread_self();
    }
}

/* Kernels whose search is worth the way to a card and back (rates.inc). */
static void take_encoders(struct vc_kernels *table, const struct vc_kernels *card)
{
    table->device = card->device;
    table->group_codes_rows = card->group_codes_rows;
#define VC_BLOCK_TYPE(type, TYPE, elems, bytes, decoding, encoding) table->type##_blocks = card->type##_blocks;
#include "kernels/block_types.inc"
#undef VC_BLOCK_TYPE
}

/* Takes over what the thread has opened; waits for it. */
static void end_opening(struct vc_shared *shared, struct held *held)
{
    if (!pthread_equal(held->thread, pthread_self())) {
        (void)pthread_join(held->thread, NULL);
    }
    held->card = held->status == VC_OK ? CARD_OPEN : CARD_FAILED;
    if (held->card == CARD_OPEN) {
        held->with_card = held->ordered ? held->opened : held->cpu;
        if (!held->ordered) {
            take_encoders(&held->with_card, &held->opened);
        }
        held->in_use = &held->with_card;
    }
    name_device(shared, held);
}

/* vc_shared.kernels_free: called when the context goes, or its device or level is changed. */
static void held_free(struct vc_ctx *ctx, void *kernels)
{
    struct held *held = kernels;

    if (held->card == CARD_OPENING) {
        end_opening(ctx->shared, held);
    }
    if (held->card == CARD_OPEN) {
        vc_cuda_unload(ctx);
    }
    vc_free(ctx, held);
}

/* The tables of the CPU. NULL with VC_E_NOMEM. */
static struct held *held_get(struct vc_ctx *ctx)
{
    struct vc_shared *shared = ctx->shared;
    struct held *held = shared->kernels;

    if (held != NULL || VC_ZEROS(ctx, VC_TAG_MISC, held, 1) != VC_OK) {
        return held;
    }
    vc_kernels_fill(&held->cpu, (int)shared->cpu_level);
    held->in_use = &held->cpu;
    held->ordered = cuda_number(shared->device) >= 0;
    atomic_init(&held->done, false);
    vc_ctx_fork(ctx, &held->ctx);
    name_device(shared, held);
    shared->kernels = held;
    shared->kernels_free = held_free;
    if (held->ordered) {
        begin_opening(held);
    }
    return held;
}

/* What is said to whoever asked for a card that cannot be had: no silent way back to the CPU, since the user named a device.
 * Forgotten then, so that the next one who asks tries again. */
static void refuse_card(struct vc_ctx *ctx, struct held *held)
{
    (void)vc_fail(ctx, held->status, "%s", held->ctx.message);
    ctx->shared->kernels = NULL;
    ctx->shared->kernels_free = NULL;
    ctx->shared->device_name[0] = '\0';
    held_free(ctx, held);
}

/* Opens the device with the first call. NULL: it cannot be had, and the context has the sentence. */
const struct vc_kernels *vc_kernels_get(struct vc_ctx *ctx)
{
    const struct vc_kernels *table = NULL;

    pthread_mutex_lock(&first_use);
    struct held *held = held_get(ctx);
    if (held != NULL && held->card == CARD_OPENING && (held->ordered || atomic_load(&held->done))) {
        end_opening(ctx->shared, held);
    }
    if (held != NULL && held->ordered && held->card == CARD_FAILED) {
        refuse_card(ctx, held);
    } else if (held != NULL) {
        table = ctx->on_cpu ? &held->cpu : held->in_use;
    }
    pthread_mutex_unlock(&first_use);
    return table;
}

void vc_kernels_prepare(struct vc_ctx *ctx)
{
    pthread_mutex_lock(&first_use);
    if (cuda_number(ctx->shared->device) >= 0 && held_get(ctx) == NULL) {
        vc_clear_error(ctx); /* whoever computes is told */
    }
    pthread_mutex_unlock(&first_use);
}

void vc_kernels_card_begin(struct vc_ctx *ctx)
{
    pthread_mutex_lock(&first_use);
    struct held *held = held_get(ctx);
    if (held != NULL && held->card == CARD_NONE) {
        begin_opening(held);
    }
    pthread_mutex_unlock(&first_use);
}

const char *vc_kernels_card_end(struct vc_ctx *ctx)
{
    const char *why = NULL;

    pthread_mutex_lock(&first_use);
    struct held *held = ctx->shared->kernels;
    if (held != NULL && held->card == CARD_OPENING) {
        end_opening(ctx->shared, held);
    } else if (held != NULL) {
        name_device(ctx->shared, held); /* the card may have got a network meanwhile */
    }
    if (held != NULL && held->card == CARD_FAILED) {
        why = held->ctx.message;
    }
    pthread_mutex_unlock(&first_use);
    return why;
}

enum vc_status vc_kernels_error(struct vc_ctx *ctx, int result)
{
    return result == 0 ? VC_OK : vc_cuda_fail(ctx, result);
}
