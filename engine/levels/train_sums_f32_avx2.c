/* train_sums_f32_avx2.c - loops for float on processors with AVX2: sums along axes, and normalizations. Without the
 * level's flags, which CMake gives it, it has none. */
#include "engine/train_loops.h"

#if defined(__AVX2__) && defined(__FMA__)
#define VC_TRAIN_AVX2
#define REAL        float
#define REAL_IS_F64 0
#define SUFFIX      f32_avx2
#include "engine/loops/train_sums.h"
#endif
