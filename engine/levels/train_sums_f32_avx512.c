/* train_sums_f32_avx512.c - loops for float on processors with AVX-512: sums along axes, and normalizations. Without
 * the level's flags, which CMake gives it, it has none. */
#include "engine/train_loops.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define VC_TRAIN_AVX512
#define REAL        float
#define REAL_IS_F64 0
#define SUFFIX      f32_avx512
#include "engine/loops/train_sums.h"
#endif
