/* onnx_qdq.c - the dialects of ONNX graphs. Codes and scales are initializers; int8 codes, and codes of int4 under the
 * layout onnx-qdq, become floats in a DequantizeLinear node where the graph used the weight:
 *
 *     w_q  int8 [in, out] --+
 *     w_s  f32  [out]     --+-- DequantizeLinear (axis 1) -- w -- MatMul
 *
 * Codes of int4 have a scale per group of inputs. Under the layout onnx they lie in MatMulNBits nodes of onnxruntime,
 * in the place of the MatMul or Gemm nodes that used the weight, and where other nodes use it as under onnx-qdq.
 *
 * Passes make the parts of the plain dialect; the writer of ONNX (formats/onnx/) names them, gives them the form that
 * the operator wants and adds the nodes, because all of that depends on the graph. Codes that are there already come
 * with nodes of their own, which are not made again. */

#include "formats/dialects/dialects.h"

/* Below this, the Cast node that makes f32 of a tensor again takes more bytes than the cast saves. */
#define MIN_CAST 128

#define MIN_BLOCK 16 /* of MatMulNBits, whose blocks are powers of two */

static bool onnx_keeps_type(const struct vc_dialect_tensor *tensor)
{
    uint64_t n = 1;

    for (unsigned d = 0; d < tensor->n_dims && n < MIN_CAST; d++) {
        n *= tensor->shape[d];
    }
    return n < MIN_CAST;
}

/* What the graph has room for, for codes of int4; true. False: it is about other codes, or no graph. */
static bool places_of(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor,
                      struct vc_code_places *places)
{
    const struct vc_model *model = request->model;

    if (strcmp(request->scheme, vc_scheme_name(VC_SCHEME_INT4)) != 0 || tensor == NULL || model == NULL ||
        model->ops == NULL || model->ops->code_places == NULL) {
        return false;
    }
    *places = model->ops->code_places(model, tensor->index);
    return true;
}

static bool onnx_down_columns(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor)
{
    struct vc_code_places places;

    return places_of(request, tensor, &places) && tensor->n_dims == 2 &&
           request->model->tensors[tensor->index].inputs == 1;
}

static enum vc_dtype onnx_part_type(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor,
                                    enum vc_part_role role, enum vc_dtype usual)
{
    struct vc_code_places places;

    return role == VC_PART_SCALE && places_of(request, tensor, &places) ? places.scale : usual;
}

static enum vc_status onnx_check(struct vc_ctx *ctx, const struct vc_dialect_request *request)
{
    VC_REFUSE_IF(
        strcmp(request->scheme, vc_scheme_name(VC_SCHEME_INT4)) == 0 && request->granularity != VC_GRANULARITY_GROUP,
        ctx, VC_E_ARGUMENT, "int4 codes of a graph have a scale per group (%s)", vc_option(ctx, "granularity"));
    return VC_OK;
}

static const char *qdq_reason(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor)
{
    struct vc_code_places places;

    return !places_of(request, tensor, &places) || places.as_floats ? NULL
           : places.product                                         ? "DequantizeLinear of int4 needs opset 21"
                                                                    : places.why;
}

static const char *onnx_reason(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor)
{
    uint64_t group = request->group_size;
    struct vc_code_places places;

    if (!places_of(request, tensor, &places) || places.as_floats) {
        return NULL;
    }
    if (places.product && (group < MIN_BLOCK || (group & (group - 1)) != 0)) {
        return "groups of MatMulNBits are 16, 32, 64, 128, ...";
    }
    return places.product ? NULL : places.why;
}

static const char *const schemes[] = {"int8", "int4", "int32", NULL};

#define ONNX_ROW                                                                                               \
    .schemes = schemes, .is_choice = true, .groups_depend = true, .activations = true,                         \
    .same_parts_as = &vc_dialect_plain, .takes_codes = true, .check = onnx_check, .part_type = onnx_part_type, \
    .keeps_type = onnx_keeps_type, .down_columns = onnx_down_columns,                                          \
    .loader = {.program = "onnxruntime", .tried = "onnxruntime 1.32.0"}

const struct vc_dialect vc_dialect_onnx = {.name = "onnx", .reason = onnx_reason, ONNX_ROW};
const struct vc_dialect vc_dialect_onnx_qdq = {.name = "onnx-qdq", .reason = qdq_reason, ONNX_ROW};
