/* net_attention.c - attention of families, and the masks of sliding windows. */
#include "graph/families/net.h"

uint32_t vc_net_attention(struct vc_net *net, uint32_t q, uint32_t k, uint32_t v, const struct vc_net_attention *how)
{
    uint32_t inputs[4] = {q, k, v, how->mask};
    struct vc_graph_attr attrs[5];
    unsigned n = 0;

    attrs[n++] = vc_attr_int("q_num_heads", how->heads);
    attrs[n++] = vc_attr_int("kv_num_heads", how->kv_heads);
    attrs[n++] = vc_attr_float("scale", how->scale);
    if (how->causal) {
        attrs[n++] = vc_attr_int("is_causal", 1);
    }
    if (how->softcap != 0) {
        attrs[n++] = vc_attr_float("softcap", how->softcap);
    }
    return vc_net_node(net, "Attention", how->value, inputs, how->mask == VC_NO_VALUE ? 3 : 4, attrs, n);
}

uint32_t vc_net_window(struct vc_net *net, int64_t window)
{
    uint32_t positions;
    uint32_t queries;
    uint32_t keys;

    vc_graph_set_block(net->graph, NULL);
    positions = vc_net_positions(net);
    queries = vc_net_reshape(net, positions, (int64_t[]){-1, 1}, 2);
    keys = vc_net_reshape(net, positions, (int64_t[]){1, -1}, 2);
    return vc_net_op(net, "Less", NULL, vc_net_op(net, "Sub", NULL, queries, keys),
                     vc_graph_add_int(net->graph, window));
}
