/* train_f64_avx512.c - the loops of train_loops.h for double, for processors with AVX-512. CMake gives this file the
 * flags; without them it has none. */
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define VC_TRAIN_AVX512
#define REAL        double
#define REAL_IS_F64 1
#define SUFFIX      f64_avx512
#include "distill/engine/loops/train_all.h"
#else
#include "distill/engine/train_loops.h"

const vc_train_loop *vc_train_table_f64_avx512(void)
{
    return 0;
}
#endif
