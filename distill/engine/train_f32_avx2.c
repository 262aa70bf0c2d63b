/* train_f32_avx2.c - the loops of train_loops.h for float, for processors with AVX2. CMake gives this file the flags;
 * without them it has none. */
#if defined(__AVX2__) && defined(__FMA__)
#define VC_TRAIN_AVX2
#define REAL        float
#define REAL_IS_F64 0
#define SUFFIX      f32_avx2
#include "distill/engine/loops/train_all.h"
#else
#include "distill/engine/train_loops.h"

const vc_train_loop *vc_train_table_f32_avx2(void)
{
    return 0;
}
#endif
