/* slices.c - products with slices of one tensor, which modules have as one product: queries, keys and values, gate and
 * up, experts. */

#include "memory/timeline/timeline.h"

static const struct vc_graph_param *weight_of(const struct vc_storages *s, const struct vc_graph_node *node)
{
    uint32_t v = vc_product_weight(s->graph, node);

    return v == VC_NO_VALUE || vc_graph_value(s->graph, v)->param == VC_NO_PARAM
               ? NULL
               : vc_graph_param(s->graph, vc_graph_value(s->graph, v)->param);
}

uint64_t vc_packed_bytes(const struct vc_storages *s, uint32_t v)
{
    uint32_t root = s->root[v];
    const struct vc_graph_param *weight =
        vc_graph_value(s->graph, root)->kind == VC_VALUE_RESULT
            ? weight_of(s, vc_graph_node(s->graph, vc_graph_value(s->graph, root)->node))
            : NULL;

    return weight == NULL || !weight->sliced || weight->count == 0
               ? 0
               : s->bytes[root] / weight->count * weight->shape[weight->axis];
}

/* Another product of the same input with a slice of the same tensor. */
static bool is_beside(const struct vc_storages *s, uint32_t n, uint32_t k)
{
    const struct vc_graph_param *a = weight_of(s, vc_graph_node(s->graph, n));
    const struct vc_graph_param *b = weight_of(s, vc_graph_node(s->graph, k));

    return a != NULL && b != NULL && a->sliced && b->sliced && strcmp(a->tensor, b->tensor) == 0 &&
           vc_graph_node(s->graph, n)->inputs[0] == vc_graph_node(s->graph, k)->inputs[0];
}

#define NEAR 16U /* nodes between products with slices of one tensor, at most */

uint64_t vc_beside_bytes(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    const struct vc_graph_param *weight = weight_of(s, node);
    uint64_t bytes = 0;

    if (weight == NULL || !weight->sliced || node->expert || !s->saved[s->root[node->outputs[0]]]) {
        return 0;
    }
    for (uint32_t k = n < NEAR ? 0 : n - NEAR; k < s->n_nodes && k < n + NEAR; k++) {
        if (k == n || !is_beside(s, n, k)) {
            continue;
        }
        if (!s->saved[s->root[vc_graph_node(s->graph, k)->outputs[0]]]) {
            bytes += s->bytes[vc_graph_node(s->graph, k)->outputs[0]];
        } else if (k < n) {
            return 0;
        }
    }
    return bytes;
}

uint64_t vc_storages_gradient_bytes(const struct vc_storages *s, uint32_t n, uint32_t v)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    const struct vc_graph_param *param = vc_graph_param(s->graph, vc_graph_value(s->graph, v)->param);
    uint32_t chosen = 0;
    uint32_t x = node->inputs[0];
    /* autocast's products make it of half precision, from which it becomes f32 */
    bool half = s->options->amp == VC_AMP_AUTOCAST && (s->eager[n] & VC_EAGER_HALF) != 0 && s->width[v] == 4;
    uint64_t bytes = s->bytes[v] + (half ? s->bytes[v] / 2 : 0);
    bool first = node->expert && x != VC_NO_VALUE && vc_graph_value(s->graph, x)->kind == VC_VALUE_RESULT &&
                 !vc_graph_node(s->graph, vc_graph_value(s->graph, x)->node)->expert;

    if (param->sliced) {
        return param->count == 0 ? 0 : bytes / param->count * param->shape[param->axis];
    }
    return node->expert ? bytes * vc_graph_experts(s->graph, &chosen) * (first ? 2 : 1) : bytes;
}
