/* fence.c - guarded arrays: see fence.h. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */

#include "fence.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

bool fence_create(struct fence *fence, size_t max_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (max_bytes + 4 * FENCE_BYTES + page - 1) / page * page;
    unsigned char *map = mmap(NULL, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memset(fence, 0, sizeof *fence);
    if (map == MAP_FAILED) {
        return false;
    }
    fence->low = map + page;
    fence->high = fence->low + room;
    if (mprotect(fence->low, room, PROT_READ | PROT_WRITE) != 0) {
        munmap(map, room + 2 * page);
        fence->low = NULL;
        return false;
    }
    return true;
}

void fence_destroy(struct fence *fence)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (fence->low != NULL) {
        munmap(fence->low - page, (size_t)(fence->high - fence->low) + 2 * page);
        fence->low = NULL;
    }
}

/* Poisoned bytes behind the data: none where it ends at the unmapped page. */
static size_t fence_after(const struct fence *fence)
{
    size_t left = (size_t)(fence->high - (fence->data + fence->n_bytes));

    return left < FENCE_BYTES ? left : FENCE_BYTES;
}

void fence_place(struct fence *fence, size_t n_bytes, enum placement placement, bool align_8)
{
    fence->n_bytes = n_bytes;
    switch (placement) {
    case PLACE_END:
        fence->data = fence->high - n_bytes;
        break;
    case PLACE_SHIFTED:
        fence->data = fence->low + FENCE_BYTES + (align_8 ? 8 : 1);
        break;
    default:
        fence->data = fence->low + FENCE_BYTES;
        break;
    }
    memset(fence->data - FENCE_BYTES, FENCE_POISON, FENCE_BYTES + n_bytes + fence_after(fence));
}

static bool all_poison(const unsigned char *p, size_t n)
{
    return n == 0 || (p[0] == FENCE_POISON && memcmp(p, p + 1, n - 1) == 0);
}

bool fence_intact(const struct fence *fence)
{
    return all_poison(fence->data - FENCE_BYTES, FENCE_BYTES) &&
           all_poison(fence->data + fence->n_bytes, fence_after(fence));
}
