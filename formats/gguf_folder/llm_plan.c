/* llm_plan.c - tensors that are computed, not read: their values go into the plan. */
#include "formats/gguf_folder/llm_parts.h"

enum vc_status vc_llm_plan_add_values(struct vc_ctx *ctx, struct llm_plan *plan, const char *name, const float *values,
                                      uint64_t n)
{
    VC_REFUSE_IF(plan->n == plan->capacity, ctx, VC_E_INTERNAL, "%s: there is no room for it", name);
    plan->tensors[plan->n++] = (struct llm_tensor){.name = name,
                                                   .layer = -1,
                                                   .dtype = VC_DTYPE_F32,
                                                   .from = VC_DTYPE_F32,
                                                   .n_dims = 1,
                                                   .shape = {n},
                                                   .row_elems = 1,
                                                   .piece_rows = n,
                                                   .step = 1,
                                                   .scale = 1.0F,
                                                   .values = values};
    return VC_OK;
}
