/* step_f32_avx512.c - the arithmetic of training with float as the type of numbers, for processors with AVX-512. CMake
 * gives this file the flags; without them it has none. */
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define LEVEL
#define REAL       float
#define SUFFIX     _f32_avx512
#define MATH(name) name##f
#include "distill/math/loops/step_loops.h"
#else
#include "distill/math/step_table.h"

const struct vc_step_table *vc_step_table_f32_avx512(void)
{
    return 0;
}
#endif
