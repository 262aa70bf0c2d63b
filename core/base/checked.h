/* checked.h - arithmetic on sizes that cannot wrap, and little-endian integers read byte by byte.
 *
 * Everything that comes from a file passes through these. Each returns false when the result does not fit. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool vc_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool vc_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool vc_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool vc_add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* n + padding to the next multiple of the power of two `align`. */
static inline bool vc_round_up_u64(uint64_t n, uint64_t align, uint64_t *out)
{
    uint64_t t;

    if (!vc_add_u64(n, align - 1, &t)) {
        return false;
    }
    *out = t & ~(align - 1);
    return true;
}

static inline uint64_t vc_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline size_t vc_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t vc_max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static inline uint64_t vc_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t vc_ceil_div_u64(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static inline uint16_t vc_le16(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t vc_le32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t vc_le64(const unsigned char *p)
{
    return (uint64_t)vc_le32(p) | (uint64_t)vc_le32(p + 4) << 32;
}

static inline void vc_put_le16(unsigned char *p, uint16_t v)
{
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
}

static inline void vc_put_le32(unsigned char *p, uint32_t v)
{
    vc_put_le16(p, (uint16_t)v);
    vc_put_le16(p + 2, (uint16_t)(v >> 16));
}

static inline void vc_put_le64(unsigned char *p, uint64_t v)
{
    vc_put_le32(p, (uint32_t)v);
    vc_put_le32(p + 4, (uint32_t)(v >> 32));
}
