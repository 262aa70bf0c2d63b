/* context.c - creating a context, and its settings. Its error: fail.c. */

#include "core/base/clock.h"
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
    memset(&shared->training, 0, sizeof shared->training);
}

void vc_ctx_free(struct vc_ctx *ctx)
{
    if (ctx == NULL) {
        return;
    }
    forget_kernels(ctx);
    vc_kept_free(ctx);
    for (struct vc_known_input *known = ctx->shared->known; known != NULL; known = ctx->shared->known) {
        ctx->shared->known = known->next;
        free(known);
    }
    vc_pool_destroy(ctx->shared->pool);
    free(ctx->shared);
    free(ctx);
}

void vc_ctx_fork(const struct vc_ctx *parent, struct vc_ctx *child)
{
    child->shared = parent->shared;
    child->findings = NULL;
    child->on_cpu = false;
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

struct vc_known_input *vc_ctx_known(const struct vc_ctx *ctx, const char *name)
{
    for (struct vc_known_input *known = ctx->shared->known; known != NULL; known = known->next) {
        if (strcmp(known->name, name) == 0) {
            return known;
        }
    }
    return NULL;
}

enum vc_status vc_ctx_set_known(struct vc_ctx *ctx, const char *name, int64_t value)
{
    size_t n = strlen(name) + 1;
    struct vc_known_input *known = malloc(sizeof *known + n);

    VC_CALL_ALLOC(known);
    known->next = ctx->shared->known;
    known->value = value;
    atomic_init(&known->used, false);
    memcpy(known->name, name, n);
    ctx->shared->known = known; /* in front of what was said before */
    return VC_OK;
}

static const char *unused_known(const struct vc_ctx *ctx)
{
    for (const struct vc_known_input *known = ctx->shared->known; known != NULL; known = known->next) {
        if (!atomic_load(&known->used)) {
            return known->name;
        }
    }
    return NULL;
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

void vc_ctx_cancel(struct vc_ctx *ctx)
{
    atomic_store(&ctx->shared->cancelled, 1);
}

void vc_ctx_print_memory(const struct vc_ctx *ctx, FILE *to)
{
    vc_pool_print(ctx->shared->pool, to);
}

void vc_ctx_look(const struct vc_ctx *ctx, struct vc_ctx_facts *out)
{
    *out = (struct vc_ctx_facts){.threads = vc_ctx_threads(ctx),
                                 .max_memory = vc_ctx_max_memory(ctx),
                                 .peak_bytes = vc_pool_peak(ctx->shared->pool),
                                 .cpu_level = vc_cpu_level_name(ctx->shared->cpu_level),
                                 .unused_known = unused_known(ctx)};
}

const char *vc_version(void)
{
    return VC_VERSION_STRING;
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
    const struct vc_shared *s = ctx->shared;
    bool late = VC_UNLIKELY(s->deadline > 0) && vc_seconds() >= s->deadline;

    VC_REFUSE_IF(VC_UNLIKELY(late || atomic_load_explicit(&s->cancelled, memory_order_relaxed) != 0), ctx,
                 VC_E_CANCELLED, "interrupted");
    return VC_OK;
}
