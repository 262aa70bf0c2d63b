/* net_attention.c - attention of families, and what its scores get: masks of padding and of sliding
 * windows, numbers by relative position.
 *
 *     mask [batch, 1, 1, keys] true: token counts     window [queries, keys] i - j < w     bias [1, heads, queries, keys]
 */
#include "core/base/array.h"
#include "graph/families/net.h"

#include "kernels/functions.h"

/* Keys (what 0) or values of the tokens before, as an input, and of all tokens, as an output. */
static void cache(struct vc_net *net, int64_t heads, uint32_t x, unsigned what, uint32_t *past, const char **present)
{
    static const char *const words[2] = {"key", "value"};
    struct vc_dims *dims = &net->graph->dims;
    struct vc_dim shape[4] = {net->batch, vc_dim_number(heads), net->past};
    unsigned layer = net->n_presents / 2;

    shape[3] = vc_dim_divide(dims, net->graph->values[x].shape[2], shape[1]);
    *past = vc_graph_add_input(net->graph, vc_net_print(net, "past_key_values.%u.%s", layer, words[what]), VC_DTYPE_F32,
                               shape, 4);
    *present = vc_net_print(net, "present.%u.%s", layer, words[what]);
}

/* The node of attention with a cache. */
static uint32_t cached_attention(struct vc_net *net, const struct vc_net_attention *how, uint32_t inputs[6],
                                 const struct vc_graph_attr *attrs, unsigned n_attrs)
{
    const char *names[3] = {vc_net_print(net, "%s%s", net->prefix, how->value)};
    struct vc_graph *graph = net->graph;

    if (inputs[1] >= graph->n_values || graph->facts[inputs[1]].unknown || inputs[2] >= graph->n_values ||
        graph->facts[inputs[2]].unknown) {
        return vc_graph_unknown(graph, NULL);
    }
    VC_LEAVE_WITH(VC_GROW(net->ctx, VC_TAG_MISC, net->presents, net->presents_capacity, net->n_presents + (size_t)2) !=
                      VC_OK,
                  graph->status = VC_E_NOMEM, VC_NO_VALUE);
    cache(net, how->kv_heads, inputs[1], 0, &inputs[4], &names[1]);
    cache(net, how->kv_heads, inputs[2], 1, &inputs[5], &names[2]);
    uint32_t y = vc_graph_add_node(graph, &(struct vc_node_spec){.op = "Attention",
                                                                 .n_inputs = 6,
                                                                 .inputs = inputs,
                                                                 .n_outputs = 3,
                                                                 .output_names = names,
                                                                 .n_attrs = n_attrs,
                                                                 .attrs = attrs});
    if (y < graph->n_values) {
        net->presents[net->n_presents++] = vc_graph_output_of(graph, y, 1);
        net->presents[net->n_presents++] = vc_graph_output_of(graph, y, 2);
    }
    return y;
}

/* Marks of the value (drops_scores, half_softmax, stepwise) do not change the result: memory/ estimates by
 * them what PyTorch keeps. */
uint32_t vc_net_attention(struct vc_net *net, uint32_t q, uint32_t k, uint32_t v, const struct vc_net_attention *how)
{
    uint32_t inputs[6] = {q, k, v, how->mask};
    struct vc_graph_attr attrs[5];
    unsigned n = 0;

    attrs[n++] = vc_attr_int("q_num_heads", how->heads);
    attrs[n++] = vc_attr_int("kv_num_heads", how->kv_heads);
    attrs[n++] = vc_attr_float("scale", how->scale);
    if (how->causal && !net->cached) { /* with a cache the mask says it */
        attrs[n++] = vc_attr_int("is_causal", 1);
    }
    if (how->softcap != 0) {
        attrs[n++] = vc_attr_float("softcap", how->softcap);
    }
    uint32_t y = net->cached
                     ? cached_attention(net, how, inputs, attrs, n)
                     : vc_net_node(net, "Attention", how->value, inputs, how->mask == VC_NO_VALUE ? 3 : 4, attrs, n);
    if (y < net->graph->n_values) {
        net->graph->values[y].drops_scores = how->dropout > 0;
        net->graph->values[y].half_softmax = how->half_softmax;
        net->graph->values[y].stepwise = how->copied;
    }
    return y;
}

/* Numbers of the texts' places: of queries [sequence, 1] and of keys [1, sequence], which with a cache are those of
 * all tokens, of which the queries are the last. */
static void places(struct vc_net *net, uint32_t *queries, uint32_t *keys)
{
    uint32_t all, own;

    vc_graph_set_block(net->graph, NULL);
    if (!net->cached) {
        all = vc_net_positions(net);
        own = all;
    } else {
        all = vc_net_positions_of(net, net->attention_mask);
        uint32_t end = vc_net_pick(net, vc_net_op1(net, "Shape", net->attention_mask), 0, 1);
        own = vc_net_pick(net, vc_net_op1(net, "Shape", net->input_ids), 0, 1);
        own =
            vc_graph_add(net->graph, "Range", NULL,
                         (uint32_t[]){vc_net_op(net, "Sub", NULL, end, own), end, vc_graph_add_int(net->graph, 1)}, 3);
    }
    *queries = vc_net_reshape(net, own, (int64_t[]){-1, 1}, 2);
    *keys = vc_net_reshape(net, all, (int64_t[]){1, -1}, 2);
}

/* positions [n, 1] - positions [1, n] < window. Keys behind the query are left to the causal mask. */
uint32_t vc_net_window(struct vc_net *net, int64_t window)
{
    uint32_t queries, keys;

    places(net, &queries, &keys);
    return vc_net_op(net, "Less", NULL, vc_net_op(net, "Sub", NULL, queries, keys),
                     vc_graph_add_int(net->graph, window));
}

/* attention_mask [batch, tokens] of 0 and 1 as truth values [batch, 1, 1, tokens]. */
static uint32_t keys_that_count(struct vc_net *net, uint32_t mask)
{
    struct vc_graph_attr to = vc_attr_int("to", 9); /* ONNX's number of truth values */

    vc_graph_set_block(net->graph, NULL);
    mask = vc_net_node(net, "Cast", NULL, &mask, 1, &to, 1);
    return vc_net_reshape(net, mask, (int64_t[]){0, 1, 1, -1}, 4);
}

uint32_t vc_net_padding_mask(struct vc_net *net)
{
    uint32_t queries, keys;

    if (!net->exported) {
        return keys_that_count(net, vc_net_text_option(net, "attention_mask", 1));
    }
    places(net, &queries, &keys);
    if (net->cached) {
        return vc_net_op(net, "And", NULL, vc_net_op(net, "LessOrEqual", NULL, keys, queries),
                         keys_that_count(net, net->attention_mask));
    }
    /* A row for each query, all alike: onnxruntime's Attention broadcasts no axis of queries. */
    return vc_net_op(net, "And", NULL, vc_net_op(net, "GreaterOrEqual", NULL, queries, vc_graph_add_int(net->graph, 0)),
                     keys_that_count(net, vc_net_text_option(net, "attention_mask", 1)));
}

uint32_t vc_net_decoder_padding_mask(struct vc_net *net)
{
    return keys_that_count(net, vc_net_decoder_option(net, "decoder_attention_mask", 1));
}

/* ---- relative positions ---- */

/* T5's bucket of a distance: below buckets / 2 each distance has its own; larger ones share buckets that
 * grow by powers, up to `longest`, behind which all are in the last. transformers:
 * _relative_position_bucket. */
static int64_t bucket_of(int64_t distance, int64_t buckets, int64_t longest)
{
    int64_t exact = buckets / 2;

    if (distance < exact) {
        return distance;
    }
    double part = vc_log_f64((double)distance / (double)exact) / vc_log_f64((double)longest / (double)exact);
    int64_t bucket = exact + (int64_t)(part * (double)(buckets - exact));
    return bucket < buckets ? bucket : buckets - 1;
}

/* The buckets of key positions -longest to longest relative to the query, as a constant: the graph then
 * only has to clip and look up. both: keys behind the query have the upper half of the buckets; else they
 * count as distance 0. */
static uint32_t bucket_table(struct vc_net *net, const struct vc_net_relative *how, bool both)
{
    int64_t n = 2 * how->longest + 1;
    int64_t *table = vc_arena_alloc(net->ctx, net->arena, (size_t)n * sizeof *table);

    VC_LEAVE_WITH(table == NULL, net->graph->status = VC_E_NOMEM, VC_NO_VALUE);
    for (int64_t k = 0; k < n; k++) {
        int64_t place = k - how->longest;

        if (both) {
            table[k] = bucket_of(place < 0 ? -place : place, how->buckets / 2, how->longest) +
                       (place > 0 ? how->buckets / 2 : 0);
        } else {
            table[k] = bucket_of(place < 0 ? -place : 0, how->buckets, how->longest);
        }
    }
    return vc_graph_add_constant(net->graph, NULL, VC_DTYPE_I64, &n, 1, table);
}

/* place = clip(key - query, -longest, longest) + longest; table[place] is a bucket; the bucket's row has a
 * number for each head. */
uint32_t vc_net_relative_bias(struct vc_net *net, const struct vc_net_relative *how, uint32_t ids, bool both)
{
    struct vc_graph *graph = net->graph;
    struct vc_graph_attr perm = vc_attr_ints("perm", (int64_t[]){2, 0, 1}, 3);
    uint32_t table = bucket_table(net, how, both);
    uint32_t positions = vc_net_positions_of(net, ids);
    uint32_t place = vc_net_op(net, "Sub", NULL, vc_net_reshape(net, positions, (int64_t[]){1, -1}, 2),
                               vc_net_reshape(net, positions, (int64_t[]){-1, 1}, 2));

    if (table == VC_NO_VALUE) {
        return table;
    }
    place = vc_graph_add(
        graph, "Clip", NULL,
        (uint32_t[]){place, vc_graph_add_int(graph, -how->longest), vc_graph_add_int(graph, how->longest)}, 3);
    place = vc_net_add(net, NULL, place, vc_graph_add_int(graph, how->longest));
    uint32_t bias = vc_net_embed(net, vc_net_op(net, "Gather", NULL, table, place), how->table, how->rows, how->heads);
    bias = vc_net_node(net, "Transpose", NULL, &bias, 1, &perm, 1);
    return vc_net_op(net, "Unsqueeze", vc_net_print(net, "%s.bias", how->table), bias,
                     vc_graph_add_ints(graph, (int64_t[]){0}, 1));
}

uint32_t vc_net_masked_bias(struct vc_net *net, uint32_t mask, uint32_t bias)
{
    return vc_graph_add(net->graph, "Where", NULL,
                        (uint32_t[]){mask, bias, vc_graph_add_float(net->graph, VC_NET_NOTHING)}, 3);
}
