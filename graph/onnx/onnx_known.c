/* onnx_known.c - inputs that have to be known when the graph is built, and are computed of constants:
 * scales by Concat, sizes by Cast, Mul and Floor.
 *
 *     Resize(x, , Concat([1, 1], [2, 2]))     ->     Resize(x, , [1, 1, 2, 2])
 *
 * Integer shape arithmetic is done by vc_infer_X on known elements (facts[v].elems); this file is for
 * floats and whatever that leaves. The nodes before the input are run with the loops that define the
 * operators, in f32 as runtimes do it. */
#include "graph/onnx/onnx_build.h"
#include "graph/ops/ops.h"
#include "graph/ops/run.h"

#define MAX_DEPTH 24  /* nodes one behind the other: compute() recurses */
#define MAX_NODES 200 /* that are run for one input: a diamond of nodes is computed once for each path */

struct known {
    struct vc_onnx_build *b;
    unsigned n_nodes;
};

static bool compute(struct known *known, uint32_t value, unsigned depth, struct vc_run_value *to);

/* Room for VC_MAX_ELEMS elements of the value, with its shape. False if a size is no number or there are
 * more elements; then nothing is allocated, unless memory is short. */
static bool make_room(struct known *known, const struct vc_graph_value *value, struct vc_run_value *to)
{
    to->n_dims = value->n_dims;
    to->is_real = value->dtype == VC_DTYPE_F32;
    to->n = 1;
    for (unsigned d = 0; d < value->n_dims; d++) {
        if (!vc_dim_is_number(value->shape[d]) || value->shape[d].size < 0 || value->shape[d].size > VC_MAX_ELEMS) {
            return false;
        }
        to->shape[d] = value->shape[d].size;
        to->n *= (size_t)to->shape[d];
        if (to->n > VC_MAX_ELEMS) {
            return false;
        }
    }
    to->data = vc_calloc_array(known->b->ctx, VC_TAG_MISC, VC_MAX_ELEMS, sizeof(int64_t));
    known->b->graph->status = to->data == NULL ? VC_E_NOMEM : known->b->graph->status;
    return to->data != NULL;
}

/* The elements of a constant, of a small tensor of the file, or of a shape that depends on no input. False:
 * not known that way; to->data may be allocated and belongs to the caller. */
static bool is_there(struct known *known, uint32_t v, struct vc_run_value *to)
{
    const struct vc_graph_value *value = &known->b->graph->values[v];
    const struct vc_dim *elems = known->b->graph->facts[v].elems;
    const struct vc_program_tensor *tensor = vc_onnx_tensor_of(known->b, v);

    if ((value->kind != VC_VALUE_CONSTANT && elems == NULL && tensor == NULL) || !make_room(known, value, to)) {
        return false;
    }
    for (size_t k = 0; k < to->n; k++) {
        if (to->is_real) {
            ((float *)to->data)[k] = (float)(value->kind == VC_VALUE_CONSTANT ? ((const double *)value->data)[k]
                                             : tensor != NULL                 ? vc_onnx_real_at(tensor, k)
                                                                              : (double)elems[k].size);
            if (elems != NULL && !vc_dim_is_number(elems[k])) {
                return false;
            }
        } else if (value->kind == VC_VALUE_CONSTANT) {
            ((int64_t *)to->data)[k] = ((const int64_t *)value->data)[k];
        } else if (elems != NULL && vc_dim_is_number(elems[k])) {
            ((int64_t *)to->data)[k] = elems[k].size;
        } else {
            return false;
        }
    }
    return true;
}

/* Runs the loop of the node that makes v; *to gets its output. False if it fails or has another shape than
 * inferred. */
static bool run_node(struct known *known, uint32_t v, const struct vc_run_value **in, struct vc_run_value *to)
{
    struct vc_graph *graph = known->b->graph;
    uint32_t index = graph->values[v].node;
    const struct vc_graph_node *node = &graph->nodes[index];
    struct vc_run_value out[2] = {{0}};
    struct vc_run run = {.ctx = known->b->ctx,
                         .graph = graph,
                         .node = node,
                         .n_in = node->n_inputs,
                         .in = in,
                         .out = out,
                         .real_bytes = sizeof(float)};
    const struct vc_graph_value *value = &graph->values[v];

    node->row->run_f32(&run);
    *to = out[0];
    bool right = run.status == VC_OK && to->data != NULL && to->n <= VC_MAX_ELEMS && to->n_dims == value->n_dims &&
                 to->is_real == (value->dtype == VC_DTYPE_F32);
    for (unsigned d = 0; right && d < value->n_dims; d++) {
        right = to->shape[d] == value->shape[d].size;
    }
    return right;
}

/* Computes the inputs first, up to VC_GRAPH_MAX_DIMS of them, then runs the node. `stated` only checks that
 * the result is small. */
static bool compute_node(struct known *known, uint32_t v, unsigned depth, struct vc_run_value *to)
{
    const struct vc_graph_node *node = &known->b->graph->nodes[known->b->graph->values[v].node];
    struct vc_run_value x[VC_GRAPH_MAX_DIMS] = {{0}};
    const struct vc_run_value *in[VC_GRAPH_MAX_DIMS] = {NULL};
    struct vc_run_value stated = {0};
    bool right = depth < MAX_DEPTH && known->n_nodes++ < MAX_NODES && node->n_inputs <= VC_GRAPH_MAX_DIMS &&
                 node->n_outputs == 1 && node->row != NULL && make_room(known, &known->b->graph->values[v], &stated);

    for (unsigned k = 0; right && k < node->n_inputs; k++) {
        if (node->inputs[k] != VC_NO_VALUE) {
            right = compute(known, node->inputs[k], depth + 1, &x[k]);
            in[k] = &x[k];
        }
    }
    right = right && run_node(known, v, in, to);
    for (unsigned k = 0; k < VC_GRAPH_MAX_DIMS; k++) {
        vc_free(known->b->ctx, x[k].data);
    }
    vc_free(known->b->ctx, stated.data);
    return right;
}

/* What the value is, in f32 and int64_t. to->data belongs to the caller, whatever is returned. */
static bool compute(struct known *known, uint32_t v, unsigned depth, struct vc_run_value *to)
{
    const struct vc_graph *graph = known->b->graph;

    if (graph->facts[v].unknown) {
        return false;
    }
    if (is_there(known, v, to)) {
        return true;
    }
    vc_free(known->b->ctx, vc_give(&to->data));
    return graph->values[v].kind == VC_VALUE_RESULT && graph->values[v].node != VC_NO_NODE &&
           compute_node(known, v, depth, to);
}

/* A float value is computed even if its elements are known as dimensions, so that it becomes a real
 * constant. */
uint32_t vc_onnx_known(struct vc_onnx_build *b, uint32_t v)
{
    struct known known = {.b = b};
    struct vc_run_value found = {0};
    const struct vc_graph_value *value = v == VC_NO_VALUE ? NULL : &b->graph->values[v];
    double reals[VC_MAX_ELEMS];

    if (value == NULL || b->graph->facts[v].unknown ||
        (b->graph->facts[v].elems != NULL && value->dtype != VC_DTYPE_F32) || value->kind != VC_VALUE_RESULT) {
        return v;
    }
    if (compute(&known, v, 0, &found)) {
        for (size_t k = 0; found.is_real && k < found.n; k++) {
            reals[k] = (double)((const float *)found.data)[k];
        }
        v = vc_graph_add_constant(b->graph, NULL, value->dtype, found.shape, found.n_dims,
                                  found.is_real ? (const void *)reals : found.data);
    }
    vc_free(b->ctx, found.data);
    return v;
}
