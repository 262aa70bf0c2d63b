/* pool.c - tagged allocation over malloc, with a free list of large blocks.
 *
 * Each block is preceded by a header of VC_POOL_ALIGN bytes that holds its size and tag. Large sizes are rounded up to
 * 64 KiB so that blocks fit each other. The free list is short (a few buffers per worker), so it is searched linearly.
 */
#include "core/base/pool.h"

#include "core/base/ctx.h"

static const char *const tag_names[VC_TAG_COUNT] = {
    [VC_TAG_MISC] = "misc",       [VC_TAG_NAMES] = "names", [VC_TAG_TILES] = "tiles",   [VC_TAG_SCALES] = "scales",
    [VC_TAG_SCRATCH] = "scratch", [VC_TAG_IO] = "io",       [VC_TAG_REPORT] = "report", [VC_TAG_DEVICE] = "device",
};

struct block {
    struct block *next; /* in the free list */
    size_t size;        /* usable bytes */
    enum vc_tag tag;
    struct vc_pool *pool;      /* NULL: vc_pool_new_given made the block */
    void (*end)(void *result); /* of vc_result_new */
};

struct vc_pool {
    pthread_mutex_t mutex;
    struct block *free_blocks;
    uint64_t limit; /* 0: none */
    uint64_t in_use[VC_TAG_COUNT], peak_by_tag[VC_TAG_COUNT], count[VC_TAG_COUNT];
    uint64_t total_in_use, reserved, peak;
    uint64_t n_allocs;
    uint64_t fail_at; /* n_allocs at which to fail; 0: never */
    bool fail_forever;
    uint64_t n_given; /* blocks that were given away and not freed */
    bool destroyed;   /* and waits for them */
};

_Static_assert(sizeof(struct block) <= VC_POOL_ALIGN, "the header fits before the block");

struct vc_pool *vc_pool_create(void)
{
    struct vc_pool *pool = calloc(1, sizeof *pool);

    if (pool != NULL && pthread_mutex_init(&pool->mutex, NULL) != 0) {
        free(pool);
        pool = NULL;
    }
    return pool;
}

static void release_free_blocks(struct vc_pool *pool)
{
    while (pool->free_blocks != NULL) {
        struct block *block = pool->free_blocks;

        pool->free_blocks = block->next;
        pool->reserved -= block->size;
        free(block);
    }
}

static void end_pool(struct vc_pool *pool)
{
    (void)pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

void vc_pool_destroy(struct vc_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&pool->mutex);
    release_free_blocks(pool);
    pool->destroyed = true;
    bool last = pool->n_given == 0;
    (void)pthread_mutex_unlock(&pool->mutex);
    if (last) {
        end_pool(pool);
    }
}

/* Tables, names and reports are not. */
static bool is_reused(const struct block *block)
{
    return block->size >= VC_POOL_REUSE_MIN && block->tag != VC_TAG_MISC && block->tag != VC_TAG_NAMES &&
           block->tag != VC_TAG_REPORT;
}

/* The smallest that is large enough, unless most of it would be wasted. */
static struct block *take_free_block(struct vc_pool *pool, size_t size)
{
    struct block **best = NULL;
    struct block **at;

    for (at = &pool->free_blocks; *at != NULL; at = &(*at)->next) {
        if ((*at)->size >= size && (*at)->size / 2 <= size && (best == NULL || (*at)->size < (*best)->size)) {
            best = at;
        }
    }
    if (best == NULL) {
        return NULL;
    }
    struct block *block = *best;
    *best = block->next;
    return block;
}

static bool injected_failure(struct vc_pool *pool)
{
    pool->n_allocs++;
    if (pool->fail_at == 0 || pool->n_allocs < pool->fail_at) {
        return false;
    }
    return pool->fail_forever || pool->n_allocs == pool->fail_at;
}

static void count_block(struct vc_pool *pool, struct block *block, enum vc_tag tag)
{
    block->tag = tag;
    block->pool = pool;
    pool->in_use[tag] += block->size;
    pool->peak_by_tag[tag] = vc_max_u64(pool->peak_by_tag[tag], pool->in_use[tag]);
    pool->count[tag]++;
    pool->total_in_use += block->size;
    pool->peak = vc_max_u64(pool->peak, pool->reserved);
}

static struct block *new_block(struct vc_pool *pool, size_t size)
{
    size_t total;
    void *p;

    if (!vc_add_size(size, VC_POOL_ALIGN, &total)) {
        return NULL;
    }
    if (pool->limit != 0 && (size > pool->limit || pool->reserved > pool->limit - size)) {
        release_free_blocks(pool);
        if (size > pool->limit || pool->reserved > pool->limit - size) {
            return NULL;
        }
    }
    if (posix_memalign(&p, VC_POOL_ALIGN, total) != 0) {
        return NULL;
    }
    struct block *block = p;
    block->size = size;
    pool->reserved += size;
    return block;
}

size_t vc_pool_block_bytes(size_t size)
{
    return size < VC_POOL_REUSE_MIN || size > SIZE_MAX - VC_POOL_REUSE_MIN
               ? size
               : (size + VC_POOL_REUSE_MIN - 1) & ~(VC_POOL_REUSE_MIN - 1);
}

void *vc_pool_alloc(struct vc_pool *pool, enum vc_tag tag, size_t size)
{
    struct block *block = NULL;

    if (size >= VC_POOL_REUSE_MIN) {
        if (size > SIZE_MAX - VC_POOL_REUSE_MIN) {
            return NULL;
        }
        size = vc_pool_block_bytes(size);
    }
    (void)pthread_mutex_lock(&pool->mutex);
    if (!injected_failure(pool)) {
        if (size >= VC_POOL_REUSE_MIN) {
            block = take_free_block(pool, size);
        }
        if (block == NULL) {
            block = new_block(pool, size);
        }
        if (block != NULL) {
            count_block(pool, block, tag);
        }
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return block != NULL ? (char *)block + VC_POOL_ALIGN : NULL;
}

static struct block *block_of(void *p)
{
    return (struct block *)(void *)((char *)p - VC_POOL_ALIGN);
}

void vc_pool_free(struct vc_pool *pool, void *p)
{
    if (p == NULL) {
        return;
    }
    struct block *block = block_of(p);
    (void)pthread_mutex_lock(&pool->mutex);
    pool->in_use[block->tag] -= block->size;
    pool->total_in_use -= block->size;
    if (is_reused(block)) {
        block->next = pool->free_blocks;
        pool->free_blocks = block;
        block = NULL;
    } else {
        pool->reserved -= block->size;
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    free(block);
}

void vc_result_free_at(void *variable)
{
    void *p; /* the variable is a pointer of another type */

    memcpy(&p, variable, sizeof p);
    vc_result_free(p);
}

void vc_free_at(void *variable)
{
    void *p; /* the variable is a pointer of another type */

    memcpy(&p, variable, sizeof p);
    if (p != NULL) {
        vc_pool_free(block_of(p)->pool, p);
    }
}

void *vc_give(void *variable)
{
    void *p;

    memcpy(&p, variable, sizeof p);
    memset(variable, 0, sizeof p); /* the bytes of NULL, as vc_calloc_array has them */
    return p;
}

void vc_pool_set_end(void *p, void (*end)(void *p))
{
    block_of(p)->end = end;
}

void vc_result_free(void *result)
{
    if (result != NULL) {
        if (block_of(result)->end != NULL) {
            block_of(result)->end(result);
        }
        vc_pool_free(block_of(result)->pool, result);
    }
}

void vc_pool_give(struct vc_pool *pool, void *p)
{
    (void)pthread_mutex_lock(&pool->mutex);
    pool->n_given++;
    (void)pthread_mutex_unlock(&pool->mutex);
}

void *vc_pool_new_given(size_t size)
{
    struct block *block = size > SIZE_MAX - VC_POOL_ALIGN ? NULL : calloc(1, VC_POOL_ALIGN + size);

    return block != NULL ? (char *)block + VC_POOL_ALIGN : NULL;
}

void vc_pool_free_given(void *p)
{
    struct vc_pool *pool = p == NULL ? NULL : block_of(p)->pool;

    if (pool == NULL) {
        free(p == NULL ? NULL : block_of(p));
        return;
    }
    vc_pool_free(pool, p);
    (void)pthread_mutex_lock(&pool->mutex);
    bool last = --pool->n_given == 0 && pool->destroyed;
    (void)pthread_mutex_unlock(&pool->mutex);
    if (last) {
        end_pool(pool);
    }
}

void vc_pool_set_limit(struct vc_pool *pool, uint64_t bytes)
{
    (void)pthread_mutex_lock(&pool->mutex);
    pool->limit = bytes;
    (void)pthread_mutex_unlock(&pool->mutex);
}

uint64_t vc_pool_limit(const struct vc_pool *pool)
{
    return pool->limit;
}

uint64_t vc_pool_in_use(const struct vc_pool *pool)
{
    return pool->total_in_use;
}

uint64_t vc_pool_reserved(const struct vc_pool *pool)
{
    return pool->reserved;
}

void vc_pool_trim(struct vc_pool *pool)
{
    (void)pthread_mutex_lock(&pool->mutex);
    release_free_blocks(pool);
    (void)pthread_mutex_unlock(&pool->mutex);
}

uint64_t vc_pool_peak(const struct vc_pool *pool)
{
    return pool->peak;
}

void vc_pool_account(struct vc_pool *pool, enum vc_tag tag, int64_t bytes)
{
    (void)pthread_mutex_lock(&pool->mutex);
    pool->in_use[tag] += (uint64_t)bytes; /* wraps down for negative values */
    pool->peak_by_tag[tag] = vc_max_u64(pool->peak_by_tag[tag], pool->in_use[tag]);
    pool->count[tag] += bytes > 0;
    (void)pthread_mutex_unlock(&pool->mutex);
}

void vc_pool_fail_at(struct vc_pool *pool, uint64_t n, int forever)
{
    (void)pthread_mutex_lock(&pool->mutex);
    pool->fail_at = n == 0 ? 0 : pool->n_allocs + n;
    pool->fail_forever = forever != 0;
    (void)pthread_mutex_unlock(&pool->mutex);
}

bool vc_pool_fails(const struct vc_pool *pool)
{
    return pool->fail_at != 0;
}

uint64_t vc_pool_alloc_count(const struct vc_pool *pool)
{
    return pool->n_allocs;
}

static void print_line(FILE *to, const char *name, uint64_t now, uint64_t peak, uint64_t count)
{
    (void)fprintf(to, "  %-10s %12.1f %12.1f %12llu\n", name, (double)now / 1024.0, (double)peak / 1024.0,
                  (unsigned long long)count);
}

void vc_pool_print(const struct vc_pool *pool, FILE *to)
{
    uint64_t count = 0;

    (void)fprintf(to, "memory         in use KiB     peak KiB  allocations\n");
    for (unsigned tag = 0; tag < VC_TAG_COUNT; tag++) {
        if (pool->count[tag] != 0) {
            print_line(to, tag_names[tag], pool->in_use[tag], pool->peak_by_tag[tag], pool->count[tag]);
            count += tag == VC_TAG_DEVICE ? 0 : pool->count[tag];
        }
    }
    print_line(to, "host", pool->total_in_use, pool->peak, count);
}

void vc_pool_count(struct vc_pool *pool, uint64_t bytes)
{
    (void)pthread_mutex_lock(&pool->mutex);
    pool->reserved += bytes;
    pool->total_in_use += bytes;
    pool->in_use[VC_TAG_REPORT] += bytes;
    pool->peak = vc_max_u64(pool->peak, pool->reserved);
    pool->peak_by_tag[VC_TAG_REPORT] = vc_max_u64(pool->peak_by_tag[VC_TAG_REPORT], pool->in_use[VC_TAG_REPORT]);
    pool->count[VC_TAG_REPORT] += bytes != 0;
    (void)pthread_mutex_unlock(&pool->mutex);
}

void vc_pool_uncount(struct vc_pool *pool, uint64_t bytes)
{
    (void)pthread_mutex_lock(&pool->mutex);
    pool->reserved -= bytes;
    pool->total_in_use -= bytes;
    pool->in_use[VC_TAG_REPORT] -= bytes;
    (void)pthread_mutex_unlock(&pool->mutex);
}

const char *vc_pool_tag_name(enum vc_tag tag)
{
    return tag_names[tag];
}
