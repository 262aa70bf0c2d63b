/* train_products_f64_avx512.c - loops for double on processors with AVX-512: products, convolutions and attention.
 * Without the level's flags, which CMake gives it, it has none. */
#include "engine/train_loops.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define VC_TRAIN_AVX512
#define REAL        double
#define REAL_IS_F64 1
#define SUFFIX      f64_avx512
#include "engine/loops/train_products.h"
#endif
