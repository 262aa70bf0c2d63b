/* optimizer_states.c - what the optimizer keeps for each weight: how many bytes that is, and where each tensor has them
 * in the block of all states.
 *
 *     momentum, adam, adamw    m [n], v [n]                       of the type of the weights
 *     adam8bit                 codes of m u8 [n], a f32 for each 256 of them, the same of v (kernels/train_codes.h)
 *
 * Each array begins at a multiple of VC_POOL_ALIGN. Checkpoints have the block as it is. */
#include <string.h>

#include "core/base/checked.h"
#include "distill/update/update.h"
#include "graph/ops/ops.h"

#define CODED_FROM 4096 /* elements; smaller tensors keep plain states, as in bitsandbytes */

static unsigned count_of(enum vc_optimizer optimizer)
{
    return optimizer == VC_OPTIMIZER_SGD ? 0 : optimizer == VC_OPTIMIZER_MOMENTUM ? 1 : 2;
}

/* Rows of it are looked up: most of their gradients are 0, and a block would have states of many sizes. */
static bool is_looked_up(const struct vc_net *net, size_t weight)
{
    const struct vc_graph *graph = net->weights->graph;

    for (uint32_t p = 0; p < vc_graph_param_count(graph); p++) {
        for (uint32_t k = 0; net->weights->of_param[p] == weight && k < vc_graph_node_count(graph); k++) {
            const struct vc_graph_node *node = vc_graph_node(graph, k);

            if (vc_node_is(node, VC_OP_gather) && node->inputs[0] == vc_graph_param(graph, p)->value) {
                return true;
            }
        }
    }
    return false;
}

static bool is_coded(const struct vc_learner *l, size_t weight)
{
    return l->options->optimizer == VC_OPTIMIZER_ADAM8BIT && l->net.weights->items[weight].n >= CODED_FROM &&
           !is_looked_up(&l->net, weight);
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + VC_POOL_ALIGN - 1) / VC_POOL_ALIGN * VC_POOL_ALIGN;
}

/* Of one of the states of a weight: its elements or codes, and what its codes are multiplied by. */
static uint64_t element_bytes(const struct vc_learner *l, size_t weight)
{
    return aligned(l->net.weights->items[weight].n *
                   (is_coded(l, weight) ? 1 : vc_real_bytes(l->net.options.precision)));
}

static uint64_t factor_bytes(const struct vc_learner *l, size_t weight)
{
    uint64_t n = l->net.weights->items[weight].n;

    return is_coded(l, weight) ? aligned(vc_ceil_div_u64(n, VC_CODED_BLOCK) * sizeof(float)) : 0;
}

uint64_t vc_optimizer_bytes(const struct vc_learner *l)
{
    uint64_t sum = 0;

    for (size_t k = 0; k < l->net.weights->n; k++) {
        if (l->net.weights->items[k].trained) {
            sum += count_of(l->options->optimizer) * (element_bytes(l, k) + factor_bytes(l, k));
        }
    }
    return sum;
}

static void *take(char **at, uint64_t bytes)
{
    void *block = bytes != 0 ? *at : NULL;

    *at += bytes;
    return block;
}

void vc_optimizer_place(struct vc_learner *l)
{
    unsigned n_states = count_of(l->options->optimizer);
    char *at = l->optimizer.block;

    memset(l->optimizer.block, 0, (size_t)l->report->state_bytes);
    for (size_t k = 0; k < l->net.weights->n; k++) {
        struct vc_weight_state *s = &l->optimizer.states[k];

        if (!l->net.weights->items[k].trained) {
            continue;
        }
        s->m = n_states > 0 ? take(&at, element_bytes(l, k)) : NULL;
        s->m_factors = n_states > 0 ? take(&at, factor_bytes(l, k)) : NULL;
        s->v = n_states > 1 ? take(&at, element_bytes(l, k)) : NULL;
        s->v_factors = n_states > 1 ? take(&at, factor_bytes(l, k)) : NULL;
    }
    if (l->optimizer.maps != NULL) {
        vc_dynamic_maps_make(l->optimizer.maps);
    }
}
