/* verify_codes.c - values of a graph that become codes and floats again: a QuantizeLinear and the
 * DequantizeLinear of its codes have one scale and one zero point, and a bias has the scale of what it is
 * added to.
 *
 *     x --QuantizeLinear(s, z)--> codes --DequantizeLinear(s, z)--> x'      the same s and z: else x' is another x
 *     conv(x', w, bias)           scale of bias = scale of x' * scale of w
 *
 * Runtimes replace such a conv by one on codes and then use the bias's codes as they are. */
#include <math.h>

#include "graph/build.h"
#include "graph/ops/ops.h"
#include "measure/verify/verify_parts.h"

/* The node that makes input k, if it is of that operator; NULL: it is not. */
static const struct vc_graph_node *maker(const struct vc_graph *g, const struct vc_graph_node *node, unsigned k,
                                         enum vc_op op)
{
    const struct vc_graph_value *v =
        k < node->n_inputs && node->inputs[k] != VC_NO_VALUE ? &g->values[node->inputs[k]] : NULL;

    return v != NULL && v->kind == VC_VALUE_RESULT && vc_node_is(&g->nodes[v->node], op) ? &g->nodes[v->node] : NULL;
}

/* Input k of both is the same number; true where that is not known, as of a scale by channel. A zero point
 * that is not given is 0. Constants are compared as 8 bytes, which hold a double or an integer. */
static bool is_same(const struct vc_graph *g, const struct vc_graph_node *a, const struct vc_graph_node *b, unsigned k)
{
    const struct vc_graph_node *nodes[2] = {a, b};
    double number[2] = {0, 0}; /* the bits of an integer, or a float */

    for (unsigned i = 0; i < 2; i++) {
        uint32_t of = k < nodes[i]->n_inputs ? nodes[i]->inputs[k] : VC_NO_VALUE;
        const struct vc_graph_value *v = of != VC_NO_VALUE ? &g->values[of] : NULL;

        if (v == NULL) {
            continue;
        }
        if (v->kind != VC_VALUE_CONSTANT || v->n_dims > 1 || (v->n_dims == 1 && !vc_dim_is(v->shape[0], 1))) {
            return true;
        }
        memcpy(&number[i], v->data, sizeof number[i]);
    }
    return memcmp(&number[0], &number[1], sizeof number[0]) == 0;
}

/* The pair of an encoder and a decoder. Nodes that decode something else than made codes, such as weights,
 * pass. */
static enum vc_status check_decoder(struct vc_ctx *ctx, const struct vc_graph *g, const struct vc_graph_node *node)
{
    const struct vc_graph_node *coder = maker(g, node, 0, VC_OP_quantize);
    bool scale = coder == NULL || is_same(g, coder, node, 1);

    return coder == NULL || (scale && is_same(g, coder, node, 2))
               ? VC_OK
               : vc_find(ctx, VC_SEVERITY_ERROR, "codes", g->values[node->outputs[0]].name,
                         "is decoded with another %s than its codes were made with", scale ? "zero point" : "scale");
}

/* A scale of one entry as a vector is allowed, and onnxruntime treats it worse than a number. */
static enum vc_status check_coder(struct vc_ctx *ctx, const struct vc_graph *g, const struct vc_graph_node *node)
{
    const struct vc_graph_value *scale = &g->values[node->inputs[1]];

    return scale->n_dims != 1 || !vc_dim_is(scale->shape[0], 1)
               ? VC_OK
               : vc_find(ctx, VC_SEVERITY_WARNING, "codes", g->values[node->outputs[0]].name,
                         "has a scale of shape [1] in place of a single number: onnxruntime leaves Add, Mul and Clip "
                         "of it in floats, and refuses AveragePool");
}

/* The scales of a parameter that is codes, `n` of them, the pool's; *n 0: it has none, or none of f32. */
static enum vc_status read_scales(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_graph *g,
                                  uint32_t value, float **scales, size_t *n)
{
    uint32_t param = value != VC_NO_VALUE ? g->values[value].param : VC_NO_PARAM;
    const struct vc_quant *quant =
        param != VC_NO_PARAM && !g->params[param].sliced ? model->tensors[g->params[param].index].quant : NULL;
    size_t index = quant != NULL ? vc_quant_scale(quant) : VC_NO_TENSOR;

    *n = index != VC_NO_TENSOR && model->tensors[index].dtype == VC_DTYPE_F32 ? (size_t)model->tensors[index].n_elems
                                                                              : 0;
    *scales = vc_alloc_array(ctx, VC_TAG_MISC, *n + 1, sizeof **scales);
    return *scales == NULL ? VC_E_NOMEM
           : *n == 0       ? VC_OK
                           : vc_source_read_any(ctx, model, index, VC_FORM_VALUES, 0, *scales, *n * sizeof **scales);
}

/* Kernels on codes add biases as they are: their scale is that of the inputs times that of the weights.
 * Scales may be one for all or one for each channel; where the numbers do not match, nothing is said. Only
 * the first wrong one is. */
static enum vc_status check_bias(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_graph *g,
                                 const struct vc_graph_node *node)
{
    const struct vc_graph_node *x = maker(g, node, 0, VC_OP_dequantize);
    float *scales[2] = {NULL, NULL};
    size_t n[2] = {0, 0};
    enum vc_status status = VC_OK;

    if (x == NULL || node->n_inputs < 3 || g->values[x->inputs[1]].kind != VC_VALUE_CONSTANT ||
        g->values[x->inputs[1]].n_dims != 0) {
        return VC_OK;
    }
    for (unsigned k = 0; k < 2; k++) {
        VC_TRY(read_scales(ctx, model, g, node->inputs[1 + k], &scales[k], &n[k]));
    }
    size_t count = n[0] == n[1] || n[1] == 1 ? n[0] : n[0] == 1 ? n[1] : 0;
    for (size_t i = 0; i < count; i++) {
        float is = scales[1][n[1] == 1 ? 0 : i];
        float should = (float)*(const double *)g->values[x->inputs[1]].data * scales[0][n[0] == 1 ? 0 : i];

        if (!(fabsf(is - should) <= 1e-6F * fabsf(should))) {
            VC_TRY(vc_find(ctx, VC_SEVERITY_ERROR, "codes", g->params[g->values[node->inputs[2]].param].tensor,
                           "has the scale %.9g at %zu; the scales of inputs and weights make %.9g", (double)is, i,
                           (double)should));
            break;
        }
    }
out:
    VC_FREE_ALL(ctx, scales[0], scales[1]);
    return status;
}

/* All nodes in their order. */
static enum vc_status check_graph(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_graph *g)
{
    for (uint32_t k = 0; k < g->n_nodes; k++) {
        const struct vc_graph_node *node = &g->nodes[k];

        if (vc_node_is(node, VC_OP_dequantize)) {
            VC_CALL(check_decoder(ctx, g, node));
        } else if (vc_node_is(node, VC_OP_quantize)) {
            VC_CALL(check_coder(ctx, g, node));
        } else if (vc_node_is(node, VC_OP_conv) || vc_node_is(node, VC_OP_gemm)) {
            VC_CALL(check_bias(ctx, model, g, node));
        }
    }
    return VC_OK;
}

/* Makes the graph of the file, if it has one that can be read, for these checks alone. */
enum vc_status vc_verify_codes(struct vc_ctx *ctx, struct verify *v)
{
    VC_SCOPED_ARENA struct vc_arena arena = {0};
    struct vc_program program;
    struct vc_graph *graph = NULL;
    const struct vc_graph_source source = {.ctx = ctx, .model = v->model, .program = &program, .arena = &arena};

    if (v->findings.n_errors != 0 || v->model->ops == NULL || v->model->ops->program == NULL) {
        return VC_OK; /* what the file says is in doubt, or it says nothing */
    }
    vc_findings_mute(ctx, true); /* what is wrong with the graph itself is another question */
    enum vc_status status = vc_model_program(ctx, v->model, &arena, &program);
    if (status == VC_OK && program.kind == VC_PROGRAM_NODES) {
        status = vc_graph_from_program(&source, &graph);
    }
    vc_findings_mute(ctx, false);
    if (status == VC_E_FORMAT || status == VC_E_UNSUPPORTED) {
        vc_clear_error(ctx);
        status = VC_OK;
    } else if (status == VC_OK && graph != NULL) {
        status = vc_collect(ctx, check_graph(ctx, v->model, graph), "data", NULL);
    }
    vc_graph_close(graph);
    return status;
}
