/* train_loops.c - which loops the processor runs. */
#include "engine/train_loops.h"

static const vc_train_loop table_f32[VC_TRAIN_LOOPS] = {
#define LOOP(id, part) [VC_LOOP_##id] = vc_loop_##id##_f32,
#include "engine/train_loops.inc"
#undef LOOP
};

static const vc_train_loop table_f64[VC_TRAIN_LOOPS] = {
#define LOOP(id, part) [VC_LOOP_##id] = vc_loop_##id##_f64,
#include "engine/train_loops.inc"
#undef LOOP
};

#ifdef VC_HAVE_TRAIN_AVX2
static const vc_train_loop table_f32_avx2[VC_TRAIN_LOOPS] = {
#define LOOP(id, part) [VC_LOOP_##id] = vc_loop_##id##_f32_avx2,
#include "engine/train_loops.inc"
#undef LOOP
};

/* Products alone have loops of their own for double. */
#define F64_AVX2_elements(id) vc_loop_##id##_f64
#define F64_AVX2_sums(id)     vc_loop_##id##_f64
#define F64_AVX2_products(id) vc_loop_##id##_f64_avx2
static const vc_train_loop table_f64_avx2[VC_TRAIN_LOOPS] = {
#define LOOP(id, part) [VC_LOOP_##id] = F64_AVX2_##part(id),
#include "engine/train_loops.inc"
#undef LOOP
};
#endif

#ifdef VC_HAVE_TRAIN_AVX512
static const vc_train_loop table_f32_avx512[VC_TRAIN_LOOPS] = {
#define LOOP(id, part) [VC_LOOP_##id] = vc_loop_##id##_f32_avx512,
#include "engine/train_loops.inc"
#undef LOOP
};
#endif

/* One table for each type and level, filled from train_loops.inc. */
const vc_train_loop *vc_train_table(enum vc_graph_precision precision, enum vc_cpu_level level)
{
    bool f64 = precision == VC_GRAPH_F64;

    switch (level) {
#ifdef VC_HAVE_TRAIN_AVX2
    case VC_CPU_AVX512:
#ifdef VC_HAVE_TRAIN_AVX512
        return f64 ? table_f64_avx2 : table_f32_avx512;
#endif
    case VC_CPU_AVX2:
        return f64 ? table_f64_avx2 : table_f32_avx2;
#endif
    case VC_CPU_BASE:
        return f64 ? table_f64 : table_f32;
    default:
        return NULL;
    }
}

const vc_train_loop *vc_train_loops(const struct vc_ctx *ctx, enum vc_graph_precision precision)
{
    const vc_train_loop *loops = vc_train_table(precision, ctx->shared->cpu_level);

    return loops != NULL ? loops : vc_train_table(precision, VC_CPU_BASE);
}
