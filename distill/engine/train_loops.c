/* train_loops.c - which loops the processor runs. */
#include "distill/engine/train_loops.h"

#include "core/base/ctx.h"

const vc_train_loop *vc_train_loops(const struct vc_ctx *ctx, enum vc_graph_precision precision)
{
    bool f64 = precision == VC_GRAPH_F64;
    const vc_train_loop *loops = NULL;

    if (ctx->shared->cpu_level == VC_CPU_AVX512) {
        loops = f64 ? vc_train_table_f64_avx512() : vc_train_table_f32_avx512();
    }
    if (loops == NULL && (ctx->shared->cpu_level == VC_CPU_AVX512 || ctx->shared->cpu_level == VC_CPU_AVX2)) {
        loops = f64 ? vc_train_table_f64_avx2() : vc_train_table_f32_avx2();
    }
    return loops != NULL ? loops : f64 ? vc_train_table_f64() : vc_train_table_f32();
}
