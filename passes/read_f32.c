/* read_f32.c - vc_tensor_read_f32, a public function: reads one tensor whole, as the floats that it stands for. One
 * thread; tile by tile, so that it takes little memory beside the result. */
#include "core/chain/tile_reader.h"
#include "kernels/kernels.h"
#include "passes/decode.h"

enum vc_status vc_decode_tensor(struct vc_ctx *ctx, const struct vc_model *model, size_t index, float *dst,
                                size_t n_elems)
{
    const struct vc_tensor *t = vc_model_tensor(model, index);
    VC_SCOPED_ARENA struct vc_arena arena = {0};
    struct vc_item_set set = {.model = model, .arena = &arena};
    struct vc_item item = {.set = NULL};
    enum vc_status status = VC_OK;

    VC_REFUSE_IF(t == NULL || t->n_elems != n_elems, ctx, VC_E_ARGUMENT,
                 "tensor %zu: %zu elements asked for, it has %llu", index, n_elems,
                 (unsigned long long)(t != NULL ? t->n_elems : 0));
    VC_TRY(vc_item_make(ctx, &set, index, &item));
    if (!vc_decode_can(item.desc) && (!vc_decode_is_f8(item.desc) || t->undecoded != NULL)) {
        return vc_fail(ctx, VC_E_ARGUMENT, "%s: elements of type %s are no floats", t->name, vc_dtype_name(t->dtype));
    }
    VC_TRY(vc_kernels_get(ctx) != NULL ? VC_OK : ctx->status);
    VC_TRY(vc_decode_add(ctx, &item, true));
    VC_TRY(vc_tile_reader_all(ctx, &item, VC_PART_CODES, dst, n_elems * sizeof *dst));
out:
    vc_item_release(ctx, &item);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", model->path);
}

enum vc_status vc_tensor_read_f32(struct vc_ctx *ctx, const struct vc_model *model, size_t index, float *dst,
                                  size_t n_elems)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, vc_decode_tensor(ctx, model, index, dst, n_elems));
}
