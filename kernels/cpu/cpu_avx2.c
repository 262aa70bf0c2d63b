/* cpu_avx2.c - the loops of loops.h for x86-64-v3 (AVX2, F16C, FMA, BMI2), as vc_<kernel>_avx2. CMake gives this file
 * the flags; nothing in it may run before kernels.c has looked at the processor. */
#define VC_SUFFIX  avx2
#define VC_USE_X86 1
#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "kernels/cpu/loops.h"
#else /* a build that gives this file no flags: kernels.c then leaves the level out */
#include "kernels/cpu/variants.h"
#endif
