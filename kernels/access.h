/* access.h - reads and writes element i of an array that may be unaligned: vc_get_f32(p, i), vc_put_f32(p, i, v), and
 * the same for f64, u32 and u16. By memcpy, which compilers turn into a plain move.
 *
 * Kernels get pointers into files and network buffers; dereferencing an unaligned float * is undefined in C. */
#ifndef VC_KERNELS_ACCESS_H
#define VC_KERNELS_ACCESS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VC_ACCESS(name, type)                                     \
    static inline type vc_get_##name(const type *p, size_t i)     \
    {                                                             \
        type v;                                                   \
                                                                  \
        memcpy(&v, (const char *)p + i * sizeof(type), sizeof v); \
        return v;                                                 \
    }                                                             \
    static inline void vc_put_##name(type *p, size_t i, type v)   \
    {                                                             \
        memcpy((char *)p + i * sizeof(type), &v, sizeof v);       \
    }

VC_ACCESS(f32, float)
VC_ACCESS(f64, double)
VC_ACCESS(u32, uint32_t)
VC_ACCESS(u16, uint16_t)

#endif
