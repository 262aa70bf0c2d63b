/* train_f32_avx512.c - the loops of train_loops.h for float, for processors with AVX-512. CMake gives this file the
 * flags; without them it has none. */
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define VC_TRAIN_AVX512
#define REAL        float
#define REAL_IS_F64 0
#define SUFFIX      f32_avx512
#include "distill/engine/loops/train_all.h"
#else
#include "distill/engine/train_loops.h"

const vc_train_loop *vc_train_table_f32_avx512(void)
{
    return 0;
}
#endif
