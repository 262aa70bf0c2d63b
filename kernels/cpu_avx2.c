/* cpu_avx2.c - the loops for x86-64-v3: AVX2, F16C, FMA, BMI2. */
#define VC_SUFFIX  avx2
#define VC_USE_X86 1
#include "kernels/loops.h"
