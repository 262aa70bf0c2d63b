/* access.h - reads and writes element i of an array that may be unaligned: vc_get_f32(p, i), vc_put_f32(p, i, v), and
 * n elements from i on: vc_get_run_f32(p, i, n, to), vc_put_run_f32(p, i, n, from); the same for f64, u32 and u16. By
 * memcpy, which compilers turn into a plain move. The pointers become char pointers first: memcpy of a float * promises
 * alignment.
 *
 * Kernels get pointers into files and network buffers; dereferencing an unaligned float * is undefined in C. Behind them
 * what many loops need: the sum of the tree of the reference loops. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VC_ACCESS(name, type)                                                           \
    static inline type vc_get_##name(const type *p, size_t i)                           \
    {                                                                                   \
        type v;                                                                         \
                                                                                        \
        memcpy(&v, (const char *)p + i * sizeof(type), sizeof v);                       \
        return v;                                                                       \
    }                                                                                   \
    static inline void vc_put_##name(type *p, size_t i, type v)                         \
    {                                                                                   \
        memcpy((char *)p + i * sizeof(type), &v, sizeof v);                             \
    }                                                                                   \
    static inline void vc_get_run_##name(const type *p, size_t i, size_t n, type *to)   \
    {                                                                                   \
        memcpy(to, (const char *)p + i * sizeof(type), n * sizeof(type));               \
    }                                                                                   \
    static inline void vc_put_run_##name(type *p, size_t i, size_t n, const type *from) \
    {                                                                                   \
        memcpy((char *)p + i * sizeof(type), from, n * sizeof(type));                   \
    }

VC_ACCESS(f32, float)
VC_ACCESS(f64, double)
VC_ACCESS(u32, uint32_t)
VC_ACCESS(u16, uint16_t)

/* The sum of a chunk of the tree (kernels.h): its 64 lanes are halved six times. They are used up. */
static inline double sum_of_lanes(double *lane)
{
    for (size_t k = 32; k >= 1; k /= 2) {
        for (size_t l = 0; l < k; l++) {
            lane[l] += lane[l + k];
        }
    }
    return lane[0];
}
