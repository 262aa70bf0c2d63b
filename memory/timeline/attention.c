/* attention.c - how many keys an Attention reads, copies of them for each head, and its matrix of scores; whose Attention
 * it is. */
#include "core/base/checked.h"
#include "memory/timeline/timeline.h"

/* What decodes tensor by tensor, without a program's name, counts as onnxruntime does: codes of a file must not need more
 * than its floats, only because the way to load them was named. */
bool vc_storages_by_onnxruntime(const struct vc_storages *s)
{
    return s->options->program == VC_RUN_BY_ONNXRUNTIME ||
           (s->options->program == VC_RUN_BY_ANY && s->options->runtime == VC_RUNTIME_LAYERWISE &&
            s->options->mode == VC_MEMORY_INFER);
}

/* Attention whose heads share keys and values copies these for each head; the copies are what is kept. One kernel for
 * all does without them only where no mask is given, for padding or a window. */
bool vc_storages_repeats_keys(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);

    return vc_node_is(node, VC_OP_attention) &&
           vc_node_int(node, "q_num_heads", 1) > vc_node_int(node, "kv_num_heads", 1);
}

/* A mask of floats by head: a bias that is added to the scores. */
uint32_t vc_storages_bias(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    uint32_t v = vc_node_is(node, VC_OP_attention) && node->n_inputs > 3 ? node->inputs[3] : VC_NO_VALUE;
    const struct vc_graph_value *mask = v == VC_NO_VALUE ? NULL : vc_graph_value(s->graph, v);

    return mask != NULL && mask->dtype == VC_DTYPE_F32 && mask->n_dims == 4 ? v : VC_NO_VALUE;
}

/* Modules have no kernel for scores that are capped (Gemma 2), nor for numbers by position that each sequence has
 * (MPNet; T5 has them for all at once). */
static bool has_kernel(const struct vc_storages *s, uint32_t n)
{
    uint32_t bias = vc_storages_bias(s, n);

    return vc_node_float(vc_graph_node(s->graph, n), "softcap", 0) <= 0 &&
           (bias == VC_NO_VALUE || vc_graph_value(s->graph, bias)->stepwise);
}

/* Whether scores are never written: by the option, or where PyTorch's kernel takes these inputs. onnxruntime's Attention
 * has one matrix of them. */
bool vc_storages_fused(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);

    return s->options->attention == VC_ATTENTION_FUSED ||
           (s->options->attention == VC_ATTENTION_AUTO && !vc_storages_by_onnxruntime(s) && has_kernel(s, n) &&
            !(s->width[node->outputs[0]] == 4 && vc_storages_repeats_keys(s, n)));
}

/* How many positions a mask lets a query look back: a difference of positions is compared with a number, perhaps in an
 * And with another mask. 0 if the mask is not of that form. */
static uint64_t window_of(const struct vc_graph *graph, uint32_t mask, unsigned depth)
{
    const struct vc_graph_node *node = vc_memory_maker(graph, mask);

    if (node != NULL && vc_node_is(node, VC_OP_and) && depth != 0) {
        return vc_max_u64(window_of(graph, node->inputs[0], depth - 1), window_of(graph, node->inputs[1], depth - 1));
    }
    if (node == NULL || !vc_node_is(node, VC_OP_less)) {
        return 0;
    }
    const struct vc_graph_node *from = vc_memory_maker(graph, node->inputs[0]);
    const struct vc_graph_value *most = vc_graph_value(graph, node->inputs[1]);
    if (from == NULL || !vc_node_is(from, VC_OP_sub) || most->kind != VC_VALUE_CONSTANT ||
        most->dtype != VC_DTYPE_I64 || most->n_dims != 0) {
        return 0;
    }
    return *(const int64_t *)most->data > 0 ? (uint64_t) * (const int64_t *)most->data : 0;
}

uint64_t vc_attention_window(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    return node->n_inputs > 3 ? window_of(graph, node->inputs[3], 3) : 0;
}

/* Positions of keys in the graph, and those that are read: a cache has more. */
static uint64_t keys_in_graph(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_value *k = vc_graph_value(s->graph, vc_graph_node(s->graph, n)->inputs[1]);

    return k->n_dims < 3 ? 1 : (uint64_t)vc_graph_dim_value(s->graph, k->shape[k->n_dims - 2]);
}

uint64_t vc_storages_positions(const struct vc_storages *s, uint32_t n)
{
    return vc_max_u64(keys_in_graph(s, n), s->cached[n]);
}

/* n of what the graph has, for all positions. */
static uint64_t of_all_keys(const struct vc_storages *s, uint32_t node, uint64_t n)
{
    uint64_t in_graph = keys_in_graph(s, node);
    uint64_t all = n;

    return in_graph == 0 || vc_storages_positions(s, node) == in_graph ? n
           : vc_mul_u64(vc_ceil_div_u64(n, in_graph), vc_storages_positions(s, node), &all)
               ? vc_min_u64(all, VC_TOO_MANY)
               : VC_TOO_MANY;
}

/* Keys (k 1) or values (k 2) with those of the cache. */
uint64_t vc_storages_keys(const struct vc_storages *s, uint32_t n, unsigned k)
{
    return of_all_keys(s, n, s->bytes[vc_graph_node(s->graph, n)->inputs[k]]);
}

/* Where heads share keys and the kernel does not, keys and values are repeated for each head. */
uint64_t vc_storages_copies(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);

    return vc_storages_repeats_keys(s, n)
               ? (vc_storages_keys(s, n, 1) + vc_storages_keys(s, n, 2)) *
                     (uint64_t)vc_node_int(node, "q_num_heads", 1) / (uint64_t)vc_node_int(node, "kv_num_heads", 1)
               : 0;
}

/* Scores of attention: queries times keys, for every head. */
static uint64_t count_scores(const struct vc_storages *s, const struct vc_graph_node *node)
{
    const struct vc_graph_value *q = vc_graph_value(s->graph, node->inputs[0]);
    const struct vc_graph_value *k = vc_graph_value(s->graph, node->inputs[1]);

    if (q->n_dims == 4 && k->n_dims == 4) {
        return vc_count_rows(s->graph, q) * (uint64_t)vc_graph_dim_value(s->graph, k->shape[2]);
    }
    uint64_t n = (uint64_t)vc_node_int(node, "q_num_heads", 1);
    return k->n_dims != 3 ? 0 : n * vc_count_rows(s->graph, q) * (uint64_t)vc_graph_dim_value(s->graph, k->shape[1]);
}

/* Elements of the matrix [batch, heads, queries, keys], on one device of those that divide the heads. */
uint64_t vc_storages_scores(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);

    return s->unknown != NULL ? 0
                              : vc_ceil_div_u64(of_all_keys(s, n, count_scores(s, node)), s->shard[node->inputs[0]]);
}

/* Bytes of the scores of one sequence of the batch. */
uint64_t vc_storages_shared_scores(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    const struct vc_graph_value *q = vc_graph_value(s->graph, node->inputs[0]);
    int64_t batch = q->n_dims == 0 ? 1 : vc_graph_dim_value(s->graph, q->shape[0]);

    return vc_storages_scores(s, n) / (batch > 0 ? (uint64_t)batch : 1) * s->width[node->outputs[0]];
}

/* A bias of zeros for layers that have none, beside others that have one. */
uint64_t vc_storages_zeros(const struct vc_storages *s, uint32_t n)
{
    return !s->biased || s->idle[n] || !vc_node_is(vc_graph_node(s->graph, n), VC_OP_attention) ||
                   vc_storages_bias(s, n) != VC_NO_VALUE
               ? 0
               : vc_storages_shared_scores(s, n);
}

/* Bytes of the mask of a window that is shorter than what is kept. */
uint64_t vc_storages_window_mask(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    uint64_t window = vc_attention_window(s->graph, node);

    return window == 0 || window >= vc_storages_positions(s, n)
               ? 0
               : of_all_keys(s, n, s->bytes[node->inputs[3]]) * s->width[node->outputs[0]];
}

/* Keys and values of the positions behind a window: they are made before the cache leaves them out. */
uint64_t vc_storages_prefilled(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    uint64_t bytes;

    if (!vc_node_is(node, VC_OP_attention) || s->idle[n] || s->cached[n] == 0 ||
        s->cached[n] >= s->options->context_tokens || vc_attention_window(s->graph, node) == 0) {
        return 0;
    }
    uint64_t in_graph = keys_in_graph(s, n);
    bytes = s->bytes[node->inputs[1]] + s->bytes[node->inputs[2]];
    return in_graph == 0 ||
                   !vc_mul_u64(vc_ceil_div_u64(bytes, in_graph), s->options->context_tokens - s->cached[n], &bytes)
               ? 0
               : vc_min_u64(bytes, VC_TOO_MANY);
}
