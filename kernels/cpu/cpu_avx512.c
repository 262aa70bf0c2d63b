/* cpu_avx512.c - the loops of loops.h for x86-64-v4 (AVX-512 F, BW, CD, DQ, VL), as vc_<kernel>_avx512. The
 * intrinsics are those of AVX2; the compiler uses the wider registers for the rest. */
#define VC_SUFFIX  avx512
#define VC_USE_X86 1
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "kernels/cpu/loops.h"
#else /* a build that gives this file no flags: kernels.c then leaves the level out */
#include "kernels/cpu/variants.h"
#endif
