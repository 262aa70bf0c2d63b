/* bytes.c - see bytes.h. */
#include "bytes.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"

static void *must(void *p)
{
    if (p == NULL) {
        abort();
    }
    return p;
}

void bytes_add(struct bytes *b, const void *data, size_t n)
{
    if (b->n + n > b->capacity) {
        b->capacity = 2 * (b->n + n) + 64;
        b->p = must(realloc(b->p, b->capacity));
    }
    if (n > 0) {
        memcpy(b->p + b->n, data, n);
    }
    b->n += n;
}

void bytes_fill(struct bytes *b, int value, size_t n)
{
    unsigned char c = (unsigned char)value;

    while (n-- > 0) {
        bytes_add(b, &c, 1);
    }
}

void bytes_u16(struct bytes *b, unsigned v)
{
    unsigned char p[2];

    vc_put_le16(p, (uint16_t)v);
    bytes_add(b, p, sizeof p);
}

void bytes_u32(struct bytes *b, uint32_t v)
{
    unsigned char p[4];

    vc_put_le32(p, v);
    bytes_add(b, p, sizeof p);
}

void bytes_u64(struct bytes *b, uint64_t v)
{
    unsigned char p[8];

    vc_put_le64(p, v);
    bytes_add(b, p, sizeof p);
}

void bytes_release(struct bytes *b)
{
    free(b->p);
    memset(b, 0, sizeof *b);
}
