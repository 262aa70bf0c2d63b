/* train_all.h - the loops of train_loops.h for one type of reals, REAL, and one level of the processor; train_SUFFIX.c
 * says which. Sums run in one order, whatever the level; only products of matrices add with fused multiply-adds where
 * the processor has them, and so depend on it. */
#include <math.h>
#include <string.h>

#include "distill/engine/train_loops.h"
#include "kernels/functions.h"
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
#define LOOP_FN(id)                                                                                             \
    static void loop_##id(const struct vc_train_call *call, const struct vc_engine_pass *pass, unsigned worker, \
                          size_t block)

#include "distill/engine/loops/train_math.h"
#include "distill/engine/loops/train_random.h"
#include "distill/engine/loops/train_strided.h"

#include "distill/engine/loops/train_product.h"

#include "distill/engine/loops/train_conv.h"
#include "distill/engine/loops/train_direct.h"
#include "distill/engine/loops/train_norm.h"
#include "distill/engine/loops/train_pool.h"

#include "distill/engine/loops/train_gather.h"
#include "distill/engine/loops/train_row_norm.h"

#include "distill/engine/loops/train_attention.h"

static const vc_train_loop table[VC_TRAIN_LOOPS] = {
#define LOOP(id) [VC_LOOP_##id] = loop_##id,
#include "distill/engine/train_loops.inc"
#undef LOOP
};

const vc_train_loop *JOIN(vc_train_table_, SUFFIX)(void)
{
    return table;
}
