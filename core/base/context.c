/* context.c - creating a context, its settings, and the one error it holds. */
#include "core/base/ctx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cpu.h"
#include "core/base/kept_files.h"

#define MAX_THREADS 256

/* The limit that holds until the program sets one: what is free later does not change it. */
static void set_default_memory(struct vc_shared *shared)
{
    shared->max_memory = vc_default_max_memory();
    shared->default_memory = true;
    vc_pool_set_limit(shared->pool, shared->max_memory);
}

static enum vc_status shared_create(struct vc_shared **out)
{
    struct vc_shared *shared = calloc(1, sizeof *shared);

    VC_CALL_ALLOC(shared);
    shared->pool = vc_pool_create();
    if (shared->pool == NULL) {
        free(shared);
        return VC_E_NOMEM;
    }
    if (pthread_mutex_init(&shared->kept.mutex, NULL) != 0) {
        vc_pool_destroy(shared->pool);
        free(shared);
        return VC_E_NOMEM;
    }
    set_default_memory(shared);
    shared->cpu_level = vc_cpu_best();
    memcpy(shared->device, "auto", sizeof "auto");
    atomic_init(&shared->cancelled, 0);
    *out = shared;
    return VC_OK;
}

enum vc_status vc_ctx_create(struct vc_ctx **out)
{
    struct vc_ctx *ctx = calloc(1, sizeof *ctx);
    const char *mask = getenv("VC_CPU_MASK");

    *out = NULL;
    VC_CALL_ALLOC(ctx);
    if (shared_create(&ctx->shared) != VC_OK) {
        free(ctx);
        return VC_E_NOMEM;
    }
    *out = ctx;
    if (mask != NULL && mask[0] != '\0' && vc_ctx_set_cpu_mask(ctx, mask) != VC_OK) {
        return vc_context(ctx, "VC_CPU_MASK");
    }
    return VC_OK;
}

static void forget_kernels(struct vc_ctx *ctx)
{
    struct vc_shared *shared = ctx->shared;

    if (shared->kernels != NULL && shared->kernels_free != NULL) {
        shared->kernels_free(ctx, shared->kernels);
    }
    shared->kernels = NULL;
    shared->kernels_free = NULL;
    shared->device_name[0] = '\0';
}

void vc_ctx_free(struct vc_ctx *ctx)
{
    if (ctx == NULL) {
        return;
    }
    forget_kernels(ctx);
    vc_kept_free(ctx);
    vc_pool_destroy(ctx->shared->pool);
    free(ctx->shared);
    free(ctx);
}

void vc_ctx_fork(const struct vc_ctx *parent, struct vc_ctx *child)
{
    child->shared = parent->shared;
    child->findings = NULL;
    child->status = VC_OK;
    child->message[0] = '\0';
}

const char *vc_ctx_message(const struct vc_ctx *ctx)
{
    return ctx->message;
}

enum vc_status vc_ctx_set_threads(struct vc_ctx *ctx, unsigned n_threads)
{
    VC_REFUSE_IF(n_threads > MAX_THREADS, ctx, VC_E_ARGUMENT, "%u threads: at most %d are possible", n_threads,
                 MAX_THREADS);
    ctx->shared->n_threads = n_threads;
    return VC_OK;
}

unsigned vc_ctx_threads(const struct vc_ctx *ctx)
{
    unsigned n = ctx->shared->n_threads != 0 ? ctx->shared->n_threads : vc_cpu_threads();

    return n < MAX_THREADS ? n : MAX_THREADS;
}

enum vc_status vc_ctx_set_max_memory(struct vc_ctx *ctx, uint64_t bytes)
{
    if (bytes == 0) {
        set_default_memory(ctx->shared);
        return VC_OK;
    }
    ctx->shared->max_memory = bytes;
    ctx->shared->default_memory = false;
    vc_pool_set_limit(ctx->shared->pool, bytes);
    return VC_OK;
}

uint64_t vc_ctx_max_memory(const struct vc_ctx *ctx)
{
    return ctx->shared->max_memory;
}

enum vc_status vc_ctx_set_cpu_mask(struct vc_ctx *ctx, const char *level)
{
    enum vc_cpu_level parsed;

    VC_REFUSE_IF(!vc_cpu_level_parse(level, &parsed), ctx, VC_E_ARGUMENT,
                 "'%s' is no CPU level: ref, base, avx2, avx512, neon or all", level);
    VC_REFUSE_IF(!vc_cpu_has(parsed), ctx, VC_E_ARGUMENT, "this processor has no %s", level);
    forget_kernels(ctx);
    ctx->shared->cpu_level = parsed;
    return VC_OK;
}

const char *vc_ctx_cpu_level(const struct vc_ctx *ctx)
{
    return vc_cpu_level_name(ctx->shared->cpu_level);
}

/* "auto", "cpu", "cuda", "cuda:N" with N of at most four digits. */
static bool device_is_valid(const char *s)
{
    if (strcmp(s, "auto") == 0 || strcmp(s, "cpu") == 0 || strcmp(s, "cuda") == 0) {
        return true;
    }
    return strncmp(s, "cuda:", 5) == 0 && s[5] != '\0' && strlen(s + 5) <= 4 &&
           strspn(s + 5, "0123456789") == strlen(s + 5);
}

enum vc_status vc_ctx_set_device(struct vc_ctx *ctx, const char *device)
{
    VC_REFUSE_IF(!device_is_valid(device), ctx, VC_E_ARGUMENT, "'%s' is no device: auto, cpu, cuda or cuda:N", device);
    forget_kernels(ctx);
    memcpy(ctx->shared->device, device, strlen(device) + 1);
    return VC_OK;
}

const char *vc_ctx_device(const struct vc_ctx *ctx)
{
    return ctx->shared->device;
}

void vc_ctx_set_progress(struct vc_ctx *ctx, void (*fn)(void *user, const struct vc_progress *progress), void *user)
{
    ctx->shared->progress = fn;
    ctx->shared->progress_user = user;
}

void vc_ctx_set_option_names(struct vc_ctx *ctx, const char *(*name)(const char *field))
{
    ctx->shared->option_name = name;
}

const char *vc_option(const struct vc_ctx *ctx, const char *field)
{
    const char *name = ctx->shared->option_name != NULL ? ctx->shared->option_name(field) : NULL;

    return name != NULL ? name : field;
}

void vc_ctx_cancel(struct vc_ctx *ctx)
{
    atomic_store(&ctx->shared->cancelled, 1);
}

void vc_ctx_print_memory(const struct vc_ctx *ctx, FILE *to)
{
    vc_pool_print(ctx->shared->pool, to);
}

uint64_t vc_ctx_peak_bytes(const struct vc_ctx *ctx)
{
    return vc_pool_peak(ctx->shared->pool);
}

const char *vc_version(void)
{
    return VC_VERSION_STRING;
}

/* Sentences are one line, whatever names contain. */
static void clean(char *s)
{
    for (; *s != '\0'; s++) {
        if ((unsigned char)*s < 0x20 || *s == 0x7f) {
            *s = '?';
        }
    }
}

/* Sets the message to a text of any length. Of one that is too long the middle is left out: names come first and may
 * have any length, but what is wrong comes last. */
static void fit_message(struct vc_ctx *ctx, const char *text, size_t n)
{
    static const char gap[] = " ... ";
    size_t room = sizeof ctx->message - 1;
    size_t head = room / 4;
    size_t tail = room - head - (sizeof gap - 1);

    if (n <= room) {
        memcpy(ctx->message, text, n + 1);
        return;
    }
    while (head > 0 && ((unsigned char)text[head] & 0xc0) == 0x80) {
        head--; /* characters stay whole */
    }
    while (tail > 0 && ((unsigned char)text[n - tail] & 0xc0) == 0x80) {
        tail--;
    }
    memcpy(ctx->message, text, head);
    memcpy(ctx->message + head, gap, sizeof gap - 1);
    memcpy(ctx->message + head + sizeof gap - 1, text + n - tail, tail + 1);
}

static void VC_PRINTF(2, 0) set_message(struct vc_ctx *ctx, const char *format, va_list args)
{
    char *whole;
    va_list again;
    int n;

    va_copy(again, args);
    n = vsnprintf(ctx->message, sizeof ctx->message, format, args);
    if (n >= (int)sizeof ctx->message) {
        whole = vc_alloc(ctx, VC_TAG_NAMES, (size_t)n + 1);
        if (whole != NULL) {
            (void)vsnprintf(whole, (size_t)n + 1, format, again);
            fit_message(ctx, whole, (size_t)n);
            vc_free(ctx, whole);
        } else { /* then the beginning has to do */
            (void)vsnprintf(ctx->message, sizeof ctx->message, format, again);
        }
    }
    va_end(again);
    clean(ctx->message);
}

enum vc_status vc_fail(struct vc_ctx *ctx, enum vc_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    set_message(ctx, format, args);
    va_end(args);
    ctx->status = status;
    return status;
}

enum vc_status vc_fail_errno(struct vc_ctx *ctx, int error_number, const char *format, ...)
{
    va_list args;
    char reason[128];
    char text[VC_MESSAGE_BYTES + sizeof reason + 2];

    va_start(args, format);
    set_message(ctx, format, args);
    va_end(args);
    if (strerror_r(error_number, reason, sizeof reason) != 0) {
        (void)snprintf(reason, sizeof reason, "error %d", error_number);
    }
    fit_message(ctx, text, (size_t)snprintf(text, sizeof text, "%s: %s", ctx->message, reason));
    ctx->status = error_number == ENOMEM ? VC_E_NOMEM : VC_E_IO;
    return ctx->status;
}

enum vc_status vc_context(struct vc_ctx *ctx, const char *format, ...)
{
    char text[2 * VC_MESSAGE_BYTES];
    size_t n;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, VC_MESSAGE_BYTES - 2, format, args);
    va_end(args);
    clean(text);
    n = strlen(text);
    if (strncmp(ctx->message, text, n) == 0 && ctx->message[n] == ':') {
        return ctx->status; /* a room below has said it */
    }
    n += (size_t)snprintf(text + n, sizeof text - n, ": %s", ctx->message);
    fit_message(ctx, text, n);
    return ctx->status;
}

void vc_clear_error(struct vc_ctx *ctx)
{
    ctx->status = VC_OK;
    ctx->message[0] = '\0';
}

void vc_call_begin(struct vc_ctx *ctx)
{
    vc_clear_error(ctx);
    ctx->depth++;
}

enum vc_status vc_call_end(struct vc_ctx *ctx, enum vc_status status)
{
    if (--ctx->depth == 0 && status == VC_E_CANCELLED) {
        atomic_store(&ctx->shared->cancelled, 0);
    }
    return status;
}

enum vc_status vc_check_cancelled(struct vc_ctx *ctx)
{
    VC_REFUSE_IF(VC_UNLIKELY(atomic_load_explicit(&ctx->shared->cancelled, memory_order_relaxed) != 0), ctx,
                 VC_E_CANCELLED, "interrupted");
    return VC_OK;
}
