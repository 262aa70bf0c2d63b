/* byte_order.c - see byte_order.h. */
#include "formats/io/byte_order.h"

#include <stdint.h>
#include <string.h>

static uint16_t reversed16(uint16_t v)
{
    return (uint16_t)(v << 8 | v >> 8);
}

static uint32_t reversed32(uint32_t v)
{
    return v << 24 | (v & 0xff00) << 8 | (v >> 8 & 0xff00) | v >> 24;
}

static uint64_t reversed64(uint64_t v)
{
    return (uint64_t)reversed32((uint32_t)v) << 32 | reversed32((uint32_t)(v >> 32));
}

/* Elements of `type`, one by one; bytes behind the last whole element stay. */
#define VC_SWAP_LOOP(type, reverse)                         \
    for (i = 0; i + sizeof(type) <= n; i += sizeof(type)) { \
        type v;                                             \
        memcpy(&v, p + i, sizeof v);                        \
        v = reverse(v);                                     \
        memcpy(p + i, &v, sizeof v);                        \
    }

/* memcpy, since the destination may be aligned to nothing. */
void vc_bytes_swap(void *data, size_t n, unsigned unit)
{
    unsigned char *p = data;
    size_t i;

    if (unit == 2) {
        VC_SWAP_LOOP(uint16_t, reversed16)
    } else if (unit == 4) {
        VC_SWAP_LOOP(uint32_t, reversed32)
    } else if (unit == 8) {
        VC_SWAP_LOOP(uint64_t, reversed64)
    }
}
