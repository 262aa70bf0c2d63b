/* step_table.c - which functions the processor runs. */
#include "distill/math/step_table.h"

#include "core/base/ctx.h"

/* The best level that the build has and the processor can; f64 has one. */
const struct vc_step_table *vc_step_table(const struct vc_ctx *ctx, bool f64)
{
    enum vc_cpu_level level = ctx->shared->cpu_level;
    const struct vc_step_table *table = NULL;

    if (f64) {
        return vc_step_table_f64();
    }
    if (level == VC_CPU_AVX512) {
        table = vc_step_table_f32_avx512();
    }
    if (table == NULL && (level == VC_CPU_AVX512 || level == VC_CPU_AVX2)) {
        table = vc_step_table_f32_avx2();
    }
    return table != NULL ? table : vc_step_table_f32();
}
