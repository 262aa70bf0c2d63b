/* decode.c - see decode.h. Chooses the decoder of quantized storage (decoders.h), and converts between float types,
 * which is exact but for f64 to f32. */
#include "passes/decode.h"

#include "core/model/code_schemes.h"
#include "kernels/arith.h"
#include "kernels/grid_codes.h"
#include "kernels/kernels.h"
#include "passes/decoders.h"

/* The row for what the descriptor says is stored; NULL: plain values, or nothing that can be decoded. */
static const struct vc_decoder *find_decoder(const struct vc_desc *desc)
{
    const struct vc_code_scheme *codes = desc->quant != NULL ? vc_code_scheme(desc->quant->scheme) : NULL;

    for (size_t i = 0; i < vc_n_decoders_blocks; i++) {
        if (vc_decoders_blocks[i].dtype == desc->dtype) {
            return &vc_decoders_blocks[i];
        }
    }
    return codes != NULL && codes->codes == desc->dtype ? &vc_decoder_codes : NULL;
}

bool vc_decode_can(const struct vc_desc *desc)
{
    return find_decoder(desc) != NULL || (desc->quant == NULL && vc_dtype_is_float(desc->dtype));
}

/* ---- conversions ---- */

/* f32 to f64, which is exact; through memcpy since tiles are bytes. */
static void widen_to_f64(const char *x, size_t n, char *y)
{
    for (size_t i = 0; i < n; i++) {
        float f;

        memcpy(&f, x + 4 * i, sizeof f);
        double d = (double)f;
        memcpy(y + 8 * i, &d, sizeof d);
    }
}

enum vc_status vc_decode_floats(struct vc_ctx *ctx, enum vc_dtype dtype, const void *data, size_t n, float *values)
{
    const struct vc_kernels *k = vc_kernels_get(ctx);
    const unsigned char *bytes = data;

    VC_CALL_FOUND(ctx, k);
    switch (dtype) {
    case VC_DTYPE_F16:
        VC_KERNEL_CALL(k->f16_to_f32(data, n, values));
        break;
    case VC_DTYPE_BF16:
        VC_KERNEL_CALL(k->bf16_to_f32(data, n, values));
        break;
    case VC_DTYPE_F64:
        VC_KERNEL_CALL(k->f64_to_f32(data, n, values));
        break;
    case VC_DTYPE_F32:
        memcpy(values, data, n * sizeof *values);
        break;
    default:
        for (size_t i = 0; i < n; i++) { /* E5M2 is the upper half of an f16 */
            values[i] = dtype == VC_DTYPE_F8_E4M3 ? vc_e4m3_value(bytes[i]) : vc_f16_to_f32((uint16_t)(bytes[i] << 8));
        }
        break;
    }
    return VC_OK;
}

/* From another float type to f32, or from f32 to f64: the step's input says which. */
static enum vc_status convert_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                    const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                    struct vc_tile_out *out)
{
    if (step->in.dtype != VC_DTYPE_F32) {
        return vc_decode_floats(ctx, step->in.dtype, in->data, tile->n_elems, out->data);
    }
    widen_to_f64(in->data, tile->n_elems, out->data);
    return VC_OK;
}

static const struct vc_step_ops convert_ops = {.apply = convert_apply};

/* A step whose output has the type `target`. */
static enum vc_status add_conversion(struct vc_ctx *ctx, struct vc_item *item, enum vc_dtype target)
{
    struct vc_step *step = vc_item_add_step(ctx, item, &convert_ops);

    VC_CALL_ALLOC(step);
    step->action = VC_ACTION_DEQUANTIZED;
    step->scheme = vc_dtype_name(target);
    step->out.dtype = target;
    vc_item_replan(item);
    return VC_OK;
}

/* ---- adding ---- */

/* Adds the step that decodes a tensor of codes. */
enum vc_status vc_decode_add_codes(struct vc_ctx *ctx, struct vc_item *item, enum vc_overflow overflow,
                                   bool finite_scales)
{
    const struct vc_decoder *decoder = find_decoder(item->desc);

    return decoder == NULL ? vc_fail(ctx, VC_E_INTERNAL, "%s is not quantized", vc_dtype_name(item->desc->dtype))
                           : decoder->add(ctx, item, decoder, overflow, finite_scales);
}

/* Nothing is added where the values are f32 already, or f64 that may stay. */
enum vc_status vc_decode_add(struct vc_ctx *ctx, struct vc_item *item, bool narrow)
{
    enum vc_dtype dtype = item->desc->dtype;

    if (vc_decode_is_f8(item->desc)) {
        return vc_decode_add_f8(ctx, item);
    }
    VC_REFUSE_IF(!vc_decode_can(item->desc), ctx, VC_E_INTERNAL, "%s holds no floats", vc_dtype_name(dtype));
    if (find_decoder(item->desc) != NULL) {
        return vc_decode_add_codes(ctx, item, VC_OVERFLOW_INF, false);
    }
    return dtype == VC_DTYPE_F32 || (dtype == VC_DTYPE_F64 && !narrow) ? VC_OK
                                                                       : add_conversion(ctx, item, VC_DTYPE_F32);
}

bool vc_decode_is_f8(const struct vc_desc *desc)
{
    return desc->quant == NULL && vc_is_float8(desc->dtype);
}

enum vc_status vc_decode_add_f8(struct vc_ctx *ctx, struct vc_item *item)
{
    return add_conversion(ctx, item, VC_DTYPE_F32);
}

enum vc_status vc_decode_add_f64(struct vc_ctx *ctx, struct vc_item *item)
{
    return add_conversion(ctx, item, VC_DTYPE_F64);
}
