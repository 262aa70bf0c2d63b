/* train_begin.h - what the loops of train_loops.h are written with, for one type of reals, REAL, and one level of the
 * processor; the files of levels/ say which. Their three parts (train_elements.h, train_sums.h, train_products.h) are
 * objects of their own, which compile side by side. Sums run in one order, whatever the level; only products add with
 * fused multiply-adds, and in vectors, where the processor has them, and so depend on the level. */
#include <math.h>
#include <string.h>

#include "engine/train_loops.h"
#include "kernels/functions.h"
#include "kernels/train_windows.h"
#include "passes/random.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#if REAL_IS_F64
#define FN(name) JOIN(name, _f64)
#define WORD     int64_t /* as wide as a real */
#else
#define FN(name) JOIN(name, _f32)
#define WORD     int32_t
#endif
/* A loop of train_loops.inc. `worker` chooses the part of scratch memory; `block` is the work. Loops that have neither
 * scratch nor random numbers cast what they do not use to void. */
#define LOOP_FN(id)                                                                                         \
    void JOIN(vc_loop_##id##_, SUFFIX)(const struct vc_train_call *call, const struct vc_engine_pass *pass, \
                                       unsigned worker, size_t block)
