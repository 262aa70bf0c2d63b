/* train_sums_f64_avx2.c - loops for double on processors with AVX2: sums along axes, and normalizations. Without the
 * level's flags, which CMake gives it, it has none. */
#include "engine/train_loops.h"

#if defined(__AVX2__) && defined(__FMA__)
#define VC_TRAIN_AVX2
#define REAL        double
#define REAL_IS_F64 1
#define SUFFIX      f64_avx2
#include "engine/loops/train_sums.h"
#endif
