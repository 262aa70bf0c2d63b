/* variants.h - declares every variant of every kernel from kernels.inc: vc_<kernel>_ref, and those with the suffix
 * of the file that includes it. Private to
 * kernels/; which variants a table holds is decided in kernels.c. */
#ifndef VC_KERNELS_VARIANTS_H
#define VC_KERNELS_VARIANTS_H

#include "kernels/kernels.h"

#define VC_JOIN2(a, b) a##b
#define VC_JOIN(a, b)  VC_JOIN2(a, b)

#define VC_KERNEL(name, result, params) result vc_##name##_ref params;
#include "kernels/kernels.inc"
#undef VC_KERNEL

#if defined(VC_SUFFIX)
#define VC_KERNEL(name, result, params) result VC_JOIN(vc_##name##_, VC_SUFFIX) params;
#include "kernels/kernels.inc"
#undef VC_KERNEL
#endif

/* What one loop file offers: it sets the entries it has and leaves the others. */
void vc_kernels_add_ref(struct vc_kernels *table);
void vc_kernels_add_base(struct vc_kernels *table);
void vc_kernels_add_avx2(struct vc_kernels *table);
void vc_kernels_add_avx512(struct vc_kernels *table);
void vc_kernels_add_neon(struct vc_kernels *table);

#endif
