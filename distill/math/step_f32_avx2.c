/* step_f32_avx2.c - the arithmetic of training with float as the type of numbers, for processors with AVX2. CMake gives
 * this file the flags; without them it has none. */
#if defined(__AVX2__)
#define LEVEL
#define REAL       float
#define SUFFIX     _f32_avx2
#define MATH(name) name##f
#include "distill/math/loops/step_loops.h"
#else
#include "distill/math/step_table.h"

const struct vc_step_table *vc_step_table_f32_avx2(void)
{
    return 0;
}
#endif
