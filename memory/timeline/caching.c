/* caching.c - PyTorch's caching allocator on a list of requests: which segments it takes from the device.
 *
 *     request 5 MiB    segment of 20 MiB:  [ 5 in use | 15 free ]
 *     request 1 KiB    segment of 2 MiB:   [ 1 KiB in use | free ]      small ones have segments of their own
 *     free 5 MiB                           [ 20 free ]                  neighbours are joined, the segment stays
 *
 * Free blocks are sorted by size, then by address; the first one that is large enough is taken. */

#include "core/base/array.h"
#include "core/base/checked.h"
#include "memory/timeline/timeline.h"

#define MIB        ((uint64_t)1 << 20)
#define ROUND      512
#define SMALL_MOST MIB
#define NO_BLOCK   UINT32_MAX
#define EMPTY      (UINT32_MAX - 1)

/* A piece of a segment, in use or free. */
struct block {
    uint64_t bytes, address;
    uint32_t before, after; /* in its segment */
    bool small, used;
};

/* Small blocks and large ones have a pool each. */
struct pool {
    uint32_t *sorted; /* free blocks */
    size_t n;
};

/* The allocator. */
struct caching {
    struct block *blocks;
    uint32_t n_blocks;
    struct pool pools[2]; /* large, small */
    uint64_t end;         /* of the addresses that were given */
    struct vc_allocated *out;
};

/* The order of free blocks. */
static bool comes_before(const struct block *b, uint64_t bytes, uint64_t address)
{
    return b->bytes < bytes || (b->bytes == bytes && b->address < address);
}

/* The first free block that does not come before one of that size and address. */
static size_t find(const struct caching *c, const struct pool *pool, uint64_t bytes, uint64_t address)
{
    size_t low;

    VC_BISECT(low, pool->n, k, comes_before(&c->blocks[pool->sorted[k]], bytes, address));
    return low;
}

/* A block becomes free. */
static void put(struct caching *c, uint32_t block)
{
    struct block *b = &c->blocks[block];
    struct pool *pool = &c->pools[b->small];
    size_t at = find(c, pool, b->bytes, b->address);

    memmove(pool->sorted + at + 1, pool->sorted + at, (pool->n - at) * sizeof *pool->sorted);
    pool->sorted[at] = block;
    pool->n++;
    b->used = false;
}

/* The free block at that place is in use. */
static void take_at(struct caching *c, struct pool *pool, size_t at)
{
    c->blocks[pool->sorted[at]].used = true;
    pool->n--;
    memmove(pool->sorted + at, pool->sorted + at + 1, (pool->n - at) * sizeof *pool->sorted);
}

/* 2 MiB for small blocks, 20 MiB for those below 10, else the size in units of 2 MiB: as PyTorch has it. */
static uint32_t new_segment(struct caching *c, uint64_t bytes, bool small)
{
    uint64_t segment = small ? 2 * MIB : bytes < 10 * MIB ? 20 * MIB : vc_ceil_div_u64(bytes, 2 * MIB) * 2 * MIB;

    c->blocks[c->n_blocks] = (struct block){segment, c->end, NO_BLOCK, NO_BLOCK, small, true};
    c->end += segment;
    c->out->reserved += segment;
    c->out->most_reserved = vc_max_u64(c->out->most_reserved, c->out->reserved);
    return c->n_blocks++;
}

/* What is left of the block behind `bytes` becomes a free one, if that is worth it. */
static void split(struct caching *c, uint32_t block, uint64_t bytes)
{
    struct block *b = &c->blocks[block];
    uint64_t rest = b->bytes - bytes;
    uint32_t other = c->n_blocks;

    if (b->small ? rest < ROUND : rest <= SMALL_MOST) {
        return;
    }
    c->n_blocks++;
    c->blocks[other] = (struct block){rest, b->address + bytes, block, b->after, b->small, false};
    if (b->after != NO_BLOCK) {
        c->blocks[b->after].before = other;
    }
    b->after = other;
    b->bytes = bytes;
    put(c, other);
}

/* A block of that size, out of a free one or of a new segment; the rest stays free where it is large enough. */
static uint32_t allocate(struct caching *c, uint64_t bytes)
{
    bool small = bytes <= SMALL_MOST;
    struct pool *pool = &c->pools[small];
    size_t at = find(c, pool, bytes, 0);
    uint32_t block;

    if (at < pool->n) {
        block = pool->sorted[at];
        take_at(c, pool, at);
    } else {
        block = new_segment(c, bytes, small);
    }
    split(c, block, bytes);
    c->out->allocated += c->blocks[block].bytes;
    c->out->most_allocated = vc_max_u64(c->out->most_allocated, c->out->allocated);
    return block;
}

/* The free neighbour becomes part of the block. */
static void join(struct caching *c, uint32_t block, uint32_t other)
{
    struct block *b = &c->blocks[block];
    struct block *o = other != NO_BLOCK ? &c->blocks[other] : NULL;

    if (o == NULL || o->used) {
        return;
    }
    take_at(c, &c->pools[o->small], find(c, &c->pools[o->small], o->bytes, o->address));
    b->bytes += o->bytes;
    if (b->before == other) {
        b->address = o->address;
        b->before = o->before;
        if (o->before != NO_BLOCK) {
            c->blocks[o->before].after = block;
        }
    } else {
        b->after = o->after;
        if (o->after != NO_BLOCK) {
            c->blocks[o->after].before = block;
        }
    }
}

/* Segments are never given back: a run that needs them again finds them. */
static void release(struct caching *c, uint32_t block)
{
    c->out->allocated -= c->blocks[block].bytes;
    join(c, block, c->blocks[block].before);
    join(c, block, c->blocks[block].after);
    put(c, block);
}

/* All requests in order; `reserved` and `given` get figures behind each, if they are no NULL. */
static enum vc_status serve(struct vc_ctx *ctx, struct caching *c, const struct vc_allocation *requests, size_t n,
                            uint32_t *of_request, uint64_t *reserved, uint64_t *given)
{
    for (size_t k = 0; k < n; k++) {
        const struct vc_allocation *r = &requests[k];

        if (k % 4096 == 0 && vc_check_cancelled(ctx) != VC_OK) {
            return VC_E_CANCELLED;
        }
        of_request[k] = NO_BLOCK;
        if (!r->free && r->bytes == 0) {
            of_request[k] = EMPTY; /* no memory is asked for */
        } else if (!r->free) {
            uint64_t rounded;

            if (!vc_round_up_u64(r->bytes, ROUND, &rounded) || rounded > UINT64_MAX / 4 - c->end) {
                return vc_fail(ctx, VC_E_ARGUMENT, "sizes overflow 64 bits");
            }
            of_request[k] = allocate(c, rounded);
        } else if (r->id >= k || of_request[r->id] == NO_BLOCK) {
            return vc_fail(ctx, VC_E_ARGUMENT, "request %zu frees request %llu, which has no memory", k,
                           (unsigned long long)r->id);
        } else {
            if (of_request[r->id] != EMPTY) {
                release(c, of_request[r->id]);
            }
            of_request[r->id] = NO_BLOCK;
        }
        if (reserved != NULL) {
            reserved[k] = c->out->reserved;
        }
        if (given != NULL) {
            given[k] = of_request[k] < EMPTY ? c->blocks[of_request[k]].bytes : 0;
        }
    }
    return VC_OK;
}

/* Room for all blocks there can be: a request makes one, and splits off one. */
enum vc_status vc_allocator_trace(struct vc_ctx *ctx, const struct vc_allocation *requests, size_t n,
                                  struct vc_allocated *out, uint64_t *reserved, uint64_t *given)
{
    struct caching c = {.out = out};
    uint32_t *of_request = NULL;

    *out = (struct vc_allocated){.allocated = 0};
    VC_REFUSE_IF(n > UINT32_MAX / 2, ctx, VC_E_ARGUMENT, "%zu requests are too many", n);
    c.blocks = vc_alloc_array(ctx, VC_TAG_MISC, 2 * n, sizeof *c.blocks); /* a request makes two at most */
    c.pools[0].sorted = vc_alloc_array(ctx, VC_TAG_MISC, 2 * n, sizeof(uint32_t));
    c.pools[1].sorted = vc_alloc_array(ctx, VC_TAG_MISC, 2 * n, sizeof(uint32_t));
    of_request = vc_alloc_array(ctx, VC_TAG_MISC, n, sizeof *of_request);
    enum vc_status status =
        c.blocks == NULL || c.pools[0].sorted == NULL || c.pools[1].sorted == NULL || of_request == NULL
            ? VC_E_NOMEM
            : serve(ctx, &c, requests, n, of_request, reserved, given);
    vc_free(ctx, of_request);
    vc_free(ctx, c.pools[1].sorted);
    vc_free(ctx, c.pools[0].sorted);
    vc_free(ctx, c.blocks);
    return status;
}
