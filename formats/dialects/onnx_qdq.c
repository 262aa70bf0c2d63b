/* onnx_qdq.c - the dialect of ONNX graphs: int8 codes and f32 scales as initializers, and a DequantizeLinear node that
 * makes floats of them where the graph used the weight.
 *
 *     w_q  int8 [in, out] --+
 *     w_s  f32  [out]     --+-- DequantizeLinear (axis 1) -- w -- MatMul
 *
 * Passes make the parts of the plain dialect; the writer of ONNX (formats/onnx/) names them, gives scales the shape
 * that the operator wants and adds the nodes, because all of that depends on the graph. Codes that are there already
 * come with nodes of their own, which are not made again. */
#include "formats/dialects/dialects.h"

/* Below this, the Cast node that makes f32 of a tensor again takes more bytes than the cast saves. */
#define MIN_CAST 128

static bool onnx_keeps_type(const struct vc_dialect_tensor *tensor)
{
    uint64_t n = 1;
    unsigned d;

    for (d = 0; d < tensor->n_dims && n < MIN_CAST; d++) {
        n *= tensor->shape[d];
    }
    return n < MIN_CAST;
}

static const char *const schemes[] = {"int8", NULL};

const struct vc_dialect vc_dialect_onnx = {.name = "onnx",
                                           .schemes = schemes,
                                           .groups_depend = true,
                                           .same_parts_as = &vc_dialect_plain,
                                           .keeps_type = onnx_keeps_type,
                                           .loader = {.program = "onnxruntime", .tried = "onnxruntime 1.31.1"}};
