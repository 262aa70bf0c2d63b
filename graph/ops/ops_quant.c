/* ops_quant.c - shapes of conversions between floats and codes.
 *
 *     one scale for all          scale []                        also [1]
 *     one for each row of axis   x [64, 128], axis 0             scale [64]
 *     one for each block         x [64, 128], axis 1, block 32   scale [64, 4]
 */

#include "graph/ops/ops.h"

/* Compares the scale's shape with the input's for the three forms above. block_size 0: no blocks. */
static void check_scale(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    const struct vc_graph_value *scale = vc_infer_in(in, 1);
    int64_t axis = vc_infer_int(in, "axis", 1);
    int64_t block = vc_infer_int(in, "block_size", 0);

    VC_LEAVE_IF(block < 0, vc_infer_fail(in, "the block's size is %lld", (long long)block));
    if (scale->n_dims == 0 || (block == 0 && scale->n_dims == 1 && vc_dim_is(scale->shape[0], 1))) {
        return;
    }
    if (!vc_infer_rank(in, 1, block != 0 ? x->n_dims : 1, block != 0 ? x->n_dims : 1)) {
        return;
    }
    axis = vc_infer_axis(in, axis, x->n_dims);
    for (unsigned k = 0; k < x->n_dims && !in->failed; k++) {
        struct vc_dim size = x->shape[k];

        if (k == axis && block != 0) {
            size = vc_dim_divide(vc_infer_dims(in), vc_dim_add(vc_infer_dims(in), size, vc_dim_number(block - 1)),
                                 vc_dim_number(block));
        }
        if (block != 0 || k == axis) {
            vc_infer_same(in, "the scale and the input", scale->shape[block != 0 ? k : 0], size);
        }
    }
}

static void infer_codes(struct vc_infer *in, const char *types, enum vc_dtype to)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);

    vc_infer_int(in, "saturate", 1);
    vc_infer_int(in, "precision", 0);
    if (!vc_infer_types(in, types)) {
        return;
    }
    check_scale(in);
    vc_infer_out(in, 0, to, x->shape, x->n_dims);
}

void vc_infer_dequantize(struct vc_infer *in)
{
    vc_infer_int(in, "output_dtype", 0);
    infer_codes(in, "ifi", VC_DTYPE_F32);
}

/* The codes' type is an attribute (ONNX's number: 2 uint8, 3 int8, 4 uint16, 5 int16, 21 uint4, 22 int4): values do
 * not know how many bits their integers have. */
void vc_infer_quantize(struct vc_infer *in)
{
    int64_t type = vc_infer_int(in, "output_dtype", 0);

    if (type == 0 && vc_infer_in(in, 2) != NULL) {
        vc_infer_fail(in, "the attribute output_dtype is missing, and there is a zero point");
    }
    if (type != 0 && !(type >= 2 && type <= 5) && type != 21 && type != 22) {
        vc_infer_fail(in, "codes of the type with number %lld are not supported", (long long)type);
    }
    infer_codes(in, "ffi", VC_DTYPE_I64);
}

/* Our own operator, no ONNX: floats rounded to codes and back, as loaders of quantized layers round inputs. One
 * scale, or one for each `size` elements of a row. */
void vc_infer_fake_quantize(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    const char *codes = vc_infer_string(in, "codes", "int8");
    int64_t size = vc_infer_int(in, "size", 0);

    if (!vc_infer_types(in, "ff") || !vc_infer_rank(in, 0, 1, VC_GRAPH_MAX_DIMS) || !vc_infer_single(in, 1, "scale")) {
        return;
    }
    struct vc_dim row = x->shape[x->n_dims - 1];
    if (strcmp(codes, "int8") != 0 && strcmp(codes, "f8_e4m3") != 0) {
        vc_infer_fail(in, "codes of the type '%s' are not supported", codes);
    }
    if (size < 0 || (size != 0 && vc_dim_is_number(row) && row.size % size != 0)) {
        vc_infer_fail(in, "rows are no multiple of %lld elements", (long long)size);
    }
    vc_infer_out_like(in);
}
