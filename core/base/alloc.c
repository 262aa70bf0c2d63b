/* alloc.c - memory of a context's pool; a failure sets the sentence (pool.h, second half). */

#include "core/base/ctx.h"

void *vc_alloc(struct vc_ctx *ctx, enum vc_tag tag, size_t size)
{
    struct vc_pool *pool = ctx->shared->pool;
    void *p = vc_pool_alloc(pool, tag, size);

    if (p == NULL) {
        uint64_t limit = vc_pool_limit(pool);
        const char *before = tag == VC_TAG_MISC ? "" : " for ";
        const char *what = tag == VC_TAG_MISC ? "" : vc_pool_tag_name(tag);

        if (limit != 0 && vc_pool_block_bytes(size) > limit - vc_min_u64(limit, vc_pool_in_use(pool))) {
            (void)vc_fail(ctx, VC_E_NOMEM,
                          "cannot allocate %zu bytes%s%s: %s is %llu bytes%s, and at least %llu are needed", size,
                          before, what, vc_option(ctx, "max_memory"), (unsigned long long)limit,
                          ctx->shared->default_memory ? ", a quarter of what was free" : "",
                          (unsigned long long)(vc_pool_in_use(pool) + vc_pool_block_bytes(size)));
        } else {
            (void)vc_fail(ctx, VC_E_NOMEM, "cannot allocate %zu bytes%s%s: out of memory", size, before, what);
        }
    }
    return p;
}

enum vc_status vc_charge(struct vc_ctx *ctx, const char *what, uint64_t bytes, uint64_t *counted)
{
    struct vc_pool *pool = ctx->shared->pool;
    uint64_t limit = vc_ctx_max_memory(ctx);

    *counted = 0;
    vc_pool_trim(pool);
    uint64_t used = vc_pool_in_use(pool);
    VC_REFUSE_IF(bytes > limit - vc_min_u64(limit, used), ctx, VC_E_NOMEM,
                 "reading %s takes about %" PRIu64 " bytes of memory beside %" PRIu64 ", %s allows %" PRIu64, what,
                 bytes, used, vc_option(ctx, "max_memory"), limit);
    vc_pool_count(pool, bytes);
    *counted = bytes;
    return VC_OK;
}

void vc_uncharge(struct vc_ctx *ctx, uint64_t counted)
{
    vc_pool_uncount(ctx->shared->pool, counted);
}

void *vc_alloc_array(struct vc_ctx *ctx, enum vc_tag tag, size_t n, size_t size)
{
    size_t total;

    if (!vc_mul_size(n, size, &total)) {
        (void)vc_fail(ctx, VC_E_NOMEM, "%zu entries of %zu bytes do not fit an address space", n, size);
        return NULL;
    }
    return vc_alloc(ctx, tag, total);
}

void *vc_calloc_array(struct vc_ctx *ctx, enum vc_tag tag, size_t n, size_t size)
{
    void *p = vc_alloc_array(ctx, tag, n, size);

    if (p != NULL) {
        memset(p, 0, n * size);
    }
    return p;
}

void *vc_result_new(struct vc_ctx *ctx, enum vc_tag tag, size_t size, void (*end)(void *result))
{
    void *result = vc_calloc_array(ctx, tag, 1, size);

    if (result != NULL) {
        vc_pool_set_end(result, end);
    }
    return result;
}

char *vc_strdup(struct vc_ctx *ctx, enum vc_tag tag, const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = vc_alloc(ctx, tag, n);

    if (copy != NULL) {
        memcpy(copy, s, n);
    }
    return copy;
}

void vc_free(struct vc_ctx *ctx, void *p)
{
    vc_pool_free(ctx->shared->pool, p);
}

void vc_free_all(struct vc_ctx *ctx, void *const *blocks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        vc_free(ctx, blocks[i]);
    }
}

uint64_t vc_ctx_max_memory(const struct vc_ctx *ctx)
{
    return ctx->shared->max_memory;
}
