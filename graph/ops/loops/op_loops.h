/* op_loops.h - the operators' definitions, compiled twice: loops_f32.c and loops_f64.c set REAL, the type of floats,
 * SUFFIX, and MATH, the name of a function of math.h for that type: one that IEEE 754 fixes (sqrt, rint, fmod), since
 * others have other bits in other C libraries and on other processors. OF is one of ours for double, which has not, and
 * FN(vc_exp) ours for REAL. Nothing here is fast. Every sum is in REAL and in a fixed order: front to back, or by tens of
 * elements that are then added pairwise (sum_of, SUMMED_FIRST), which keeps f32 sums of long rows exact enough to judge. */
#include <math.h>

#include "graph/ops/einsum.h"
#include "graph/ops/recurrent.h"
#include "graph/ops/resize.h"
#include "graph/ops/window.h"
#include "kernels/functions.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define OF(name, x) ((REAL)vc_##name##_f64((double)(x)))
#define FN(name)    JOIN(name, SUFFIX)
#define RUN(id)     void JOIN(vc_run_##id, SUFFIX)(struct vc_run * run)

#include "graph/ops/loops/loops_share.h"

#include "graph/ops/loops/loops_attention.h"
#include "graph/ops/loops/loops_conv.h"
#include "graph/ops/loops/loops_einsum.h"
#include "graph/ops/loops/loops_index.h"
#include "graph/ops/loops/loops_logic.h"
#include "graph/ops/loops/loops_math.h"
#include "graph/ops/loops/loops_matmul.h"
#include "graph/ops/loops/loops_move.h"
#include "graph/ops/loops/loops_norm.h"
#include "graph/ops/loops/loops_pool.h"
#include "graph/ops/loops/loops_quant.h"
#include "graph/ops/loops/loops_recurrent.h"
#include "graph/ops/loops/loops_reduce.h"
#include "graph/ops/loops/loops_resize.h"
#include "graph/ops/loops/loops_shape.h"
