/* cache.c - keys and values of attention that generation keeps, and how many of them each attention reads. */

#include "memory/estimate.h"

/* Keys or values of one position of all sequences: elements, and of one head of one of them. */
static uint64_t elems_of(struct vc_estimate *e, uint32_t v)
{
    const struct vc_graph_value *value = vc_graph_value(e->graph, v);
    uint64_t n = 1;

    for (unsigned k = 0; k < value->n_dims; k++) {
        if (k + 2 != value->n_dims) { /* the axis before the last is that of positions */
            int64_t size = vc_graph_dim_value(e->graph, value->shape[k]);

            n = vc_estimate_product(e, n, size < 0 ? 0 : (uint64_t)size);
        }
    }
    return vc_ceil_div_u64(n, e->storages.shard[v]);
}

/* What a product makes queries or keys from; its own value where there is none. */
static uint32_t source_of(const struct vc_graph *graph, uint32_t v)
{
    const struct vc_graph_node *node = vc_memory_maker(graph, v);

    for (; node != NULL && node->n_inputs != 0 && node->inputs[0] != VC_NO_VALUE; node = vc_memory_maker(graph, v)) {
        v = node->inputs[0];
        if (vc_node_is(node, VC_OP_matmul) || vc_node_is(node, VC_OP_gemm)) {
            break;
        }
    }
    return v;
}

/* Attention of a decoder. */
static bool is_causal(const struct vc_graph_node *node)
{
    return vc_node_is(node, VC_OP_attention) && vc_node_int(node, "is_causal", 0) != 0;
}

/* Keys and values of another sequence, the encoder's: made once, for its own positions. */
static bool is_cross(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    return !is_causal(node) && source_of(graph, node->inputs[0]) != source_of(graph, node->inputs[1]);
}

/* Rows of a learned table, a number per head for each distance of query and key (T5, MPNet): these forbid nothing. */
static bool is_learned_bias(const struct vc_graph *graph, uint32_t v, int64_t heads)
{
    const struct vc_graph_node *node = vc_memory_maker(graph, v);

    while (node != NULL && (vc_node_is(node, VC_OP_transpose) || vc_node_is(node, VC_OP_unsqueeze))) {
        node = vc_memory_maker(graph, node->inputs[0]);
    }
    if (node == NULL || !vc_node_is(node, VC_OP_gather)) {
        return false;
    }
    const struct vc_graph_value *table = vc_graph_value(graph, node->inputs[0]);
    return table->kind == VC_VALUE_PARAMETER && table->n_dims == 2 &&
           vc_graph_dim_value(graph, table->shape[1]) == heads;
}

/* A mask that is the same for all queries, a learned bias, or both. */
static bool looks_both_ways(const struct vc_graph *graph, uint32_t mask, int64_t heads, unsigned depth)
{
    const struct vc_graph_value *value = mask != VC_NO_VALUE ? vc_graph_value(graph, mask) : NULL;
    const struct vc_graph_node *node = vc_memory_maker(graph, mask);

    if (value == NULL || value->n_dims < 2 || is_learned_bias(graph, mask, heads)) {
        return true;
    }
    if (value->shape[value->n_dims - 2].size == 1) { /* not a sequence that happens to be 1 */
        return true;
    }
    bool good = node != NULL && depth != 0 && (vc_node_is(node, VC_OP_where) || vc_node_is(node, VC_OP_add));
    for (unsigned k = 0; good && k < node->n_inputs; k++) {
        good = looks_both_ways(graph, node->inputs[k], heads, depth - 1);
    }
    return good;
}

/* Attention of an encoder keeps nothing. It looks both ways, or other attention of the model is causal. */
static bool is_of_encoder(const struct vc_graph *graph, const struct vc_graph_node *node, bool decoder)
{
    uint32_t mask = node->n_inputs > 3 ? node->inputs[3] : VC_NO_VALUE;

    return !is_causal(node) && !is_cross(graph, node) &&
           (decoder || looks_both_ways(graph, mask, vc_node_int(node, "q_num_heads", 0), 4));
}

/* Positions of a value [.., positions, width]; 0: not known. */
static uint64_t length_of(const struct vc_graph *graph, uint32_t v)
{
    const struct vc_graph_value *value = vc_graph_value(graph, v);
    int64_t size = value->n_dims < 2 ? 0 : vc_graph_dim_value(graph, value->shape[value->n_dims - 2]);

    return size < 0 ? 0 : (uint64_t)size;
}

/* Positions that are kept: all of the context; of a window as many as it is wide beside those in work. */
static uint64_t positions_of(const struct vc_graph *graph, const struct vc_graph_node *node, uint64_t context)
{
    uint64_t window = vc_attention_window(graph, node);

    if (is_cross(graph, node)) {
        return length_of(graph, node->inputs[1]);
    }
    return window == 0 ? context : vc_min_u64(context, window + length_of(graph, node->inputs[0]));
}

/* Programs have room for keys and values in blocks of so many positions. */
static uint64_t block_of(const struct vc_storages *s)
{
    if (s->options->program == VC_RUN_BY_LLAMA_CPP) {
        return 256;
    }
    return s->options->program == VC_RUN_BY_VLLM ? 16 : 1;
}

/* Of a model with an encoder only the decoder's attention keeps keys. Programs round positions up to blocks. */
void vc_cache_find(struct vc_storages *s)
{
    uint64_t context = s->options->context_tokens;
    bool decoder = false;

    for (uint32_t n = 0; n < s->n_nodes; n++) {
        decoder = decoder || is_causal(vc_graph_node(s->graph, n));
    }
    for (uint32_t n = 0; context != 0 && n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);

        if (vc_node_is(node, VC_OP_attention) && !is_of_encoder(s->graph, node, decoder)) {
            uint64_t positions = positions_of(s->graph, node, context);

            s->overflow = !vc_round_up_u64(positions, block_of(s), &s->cached[n]) || s->overflow;
        }
    }
}

/* Blocks (q8_0) do not go across heads: every head of a position has whole ones. */
static uint64_t bytes_of(struct vc_estimate *e, uint64_t elems, uint64_t head)
{
    enum vc_dtype type = e->options.cache;

    if (type == VC_DTYPE_NONE) {
        return vc_estimate_product(e, elems, e->storages.float_bytes);
    }
    uint64_t bytes = vc_dtype_bytes(type, head);
    e->overflow = e->overflow || bytes == UINT64_MAX;
    return head == 0 ? 0 : vc_estimate_product(e, elems / head, bytes);
}

/* Of a decoder that stands in for one with MLA: what that keeps, by the program. */
static uint64_t as_latent(const struct vc_estimate *e, uint64_t bytes)
{
    const struct vc_net_others *others = &e->graph->others;
    bool narrow = e->options.program == VC_RUN_BY_LLAMA_CPP || e->options.program == VC_RUN_BY_VLLM;

    return others->counted == 0
               ? bytes
               : (uint64_t)((double)bytes * (double)(narrow ? others->latent : others->kept) / (double)others->counted);
}

/* Keys and values (inputs 1 and 2) of each attention with a cache. */
void vc_estimate_cache(struct vc_estimate *e)
{
    for (uint32_t n = 0; n < e->storages.n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(e->graph, n);

        for (unsigned k = 1; k < 3 && e->storages.cached[n] != 0 && !e->storages.idle[n]; k++) {
            const struct vc_graph_value *value = vc_graph_value(e->graph, node->inputs[k]);
            int64_t last = vc_graph_dim_value(e->graph, value->shape[value->n_dims - 1]);
            uint64_t heads = value->n_dims == 4 ? 1 : (uint64_t)vc_node_int(node, "kv_num_heads", 1);
            uint64_t head = last < 1 || heads == 0 ? 0 : (uint64_t)last / heads;
            uint64_t line = bytes_of(e, elems_of(e, node->inputs[k]), head);

            vc_estimate_add(e, VC_MEMORY_KV_CACHE,
                            vc_estimate_block(e, as_latent(e, vc_estimate_product(e, line, e->storages.cached[n])), 1));
        }
    }
}
