/* state_bytes.c - see state_bytes.h. */
#include "engine/state_bytes.h"

#include "core/base/checked.h"
#include "graph/ops/ops.h"

#define CODED_FROM 4096 /* elements; smaller tensors keep plain states, as in bitsandbytes */

/* Rows of it are looked up: most of their gradients are 0, and a block would have states of many sizes. */
static bool is_looked_up(const struct vc_weights *weights, size_t weight)
{
    const struct vc_graph *graph = weights->graph;

    for (uint32_t p = 0; p < vc_graph_param_count(graph); p++) {
        for (uint32_t k = 0; weights->of_param[p] == weight && k < vc_graph_node_count(graph); k++) {
            const struct vc_graph_node *node = vc_graph_node(graph, k);

            if (vc_node_is(node, VC_OP_gather) && node->inputs[0] == vc_graph_param(graph, p)->value) {
                return true;
            }
        }
    }
    return false;
}

/* What the optimizer keeps of one entry: arrays, and the bytes of each. */
struct vc_state_bytes vc_weights_state(const struct vc_weights *weights, size_t weight, enum vc_optimizer optimizer)
{
    const struct vc_weight *item = &weights->items[weight];
    bool coded = optimizer == VC_OPTIMIZER_ADAM8BIT && item->n >= CODED_FROM && !is_looked_up(weights, weight);

    if (!item->trained || optimizer == VC_OPTIMIZER_SGD) {
        return (struct vc_state_bytes){0};
    }
    if (coded) {
        return (struct vc_state_bytes){.n = 2,
                                       .elements = VC_POOL_ALIGNED(item->n),
                                       .factors =
                                           VC_POOL_ALIGNED(vc_ceil_div_u64(item->n, VC_CODED_BLOCK) * sizeof(float))};
    }
    return (struct vc_state_bytes){.n = optimizer == VC_OPTIMIZER_MOMENTUM ? 1 : 2,
                                   .elements = VC_POOL_ALIGNED(item->n * vc_real_bytes(weights->precision))};
}

/* Of all entries that are trained. */
uint64_t vc_weights_state_bytes(const struct vc_weights *weights, enum vc_optimizer optimizer)
{
    uint64_t sum = 0;

    for (size_t k = 0; k < weights->n; k++) {
        struct vc_state_bytes state = vc_weights_state(weights, k, optimizer);

        sum += state.n * (state.elements + state.factors);
    }
    return sum;
}
