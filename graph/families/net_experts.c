/* net_experts.c - experts of decoders: a router chooses some of them for each token, whose results are summed with the
 * router's weights. Checkpoints have them one by one, or all in tensors of three dimensions:
 *
 *     block_sparse_moe.experts.3.w1.weight [inner, hidden]   Mixtral; also w3, w2
 *     mlp.experts.3.gate_proj.weight [inner, hidden]         Qwen; also up_proj, down_proj
 *     mlp.experts.gate_up_proj [experts, 2 inner, hidden]    both, as transformers has them in memory; also down_proj
 *     mlp.experts.gate_proj.weight [experts, inner, hidden]  GGUF; also up_proj, down_proj
 *
 * Every expert computes every token, and the router's weight is 0 for tokens that do not choose it: the
 * same result as transformers, which gives each expert only its tokens. Costs are corrected by
 * vc_graph_experts.
 *
 *     weights = ScatterElements(0 * p, places, top)      p = Softmax(gate(x)), top and places of TopK(p, chosen)
 *     y = sum over e of expert_e(x) * weights[..., e]
 */
#include "graph/families/net_decoder.h"

enum form { ONE_BY_ONE, GATE_UP_IN_ONE, STACKED };

/* ---- configuration ---- */

/* "mlp_only_layers" has to be a list of whole numbers, if it is there. */
static void check_mlp_layers(const struct vc_decoder *d)
{
    bool good = d->mlp_layers == NULL || json_is_array(d->mlp_layers);

    for (size_t k = 0; good && k < json_array_size(d->mlp_layers); k++) {
        good = json_is_integer(json_array_get(d->mlp_layers, k));
    }
    if (!good) {
        vc_net_refuse(d->net, "mlp_only_layers", "not a list of layers");
    }
}

/* What the class takes. */
static int64_t usual(const struct vc_decoder *d, const char *key)
{
    return (int64_t)vc_arch_number(d->usual, key, VC_NET_REQUIRED);
}

/* Mixtral has "num_local_experts" and experts as wide as the MLP; Qwen names all sizes. */
void vc_decoder_read_experts(struct vc_decoder *d)
{
    struct vc_net *net = d->net;

    if (!vc_arch_has(d->family, VC_ARCH_EXPERTS)) {
        return;
    }
    d->experts = vc_net_size(net, "num_local_experts|num_experts", usual(d, "num_experts"));
    d->chosen = vc_net_size(net, "num_experts_per_tok", usual(d, "num_experts_per_tok"));
    d->sparse_step = 1;
    d->sum_is_1 = true;
    d->expert_inner = d->inner;
    if (!vc_decoder_is_mixtral(d)) {
        d->expert_inner = vc_net_size(net, "moe_intermediate_size", usual(d, "moe_intermediate_size"));
        d->sum_is_1 = vc_net_flag(net, "norm_topk_prob", vc_arch_flag(d->usual, "norm_topk_prob"));
        d->sparse_step = vc_net_size(net, "decoder_sparse_step", 1);
        d->mlp_layers = vc_net_get(net, "mlp_only_layers");
    }
    if (vc_arch_has(d->family, VC_ARCH_SHARED_EXPERT)) {
        d->shared_inner =
            vc_net_size(net, "shared_expert_intermediate_size", usual(d, "shared_expert_intermediate_size"));
    }
    if (d->experts * (d->layers + 1) > VC_NET_MAX_PARTS) {
        vc_net_refuse(net, json_object_get(net->config, "num_experts") != NULL ? "num_experts" : "num_local_experts",
                      "which are too many for a model");
    } else if (d->chosen > d->experts) {
        vc_net_refuse(net, "num_experts_per_tok", "more than there are experts");
    }
    check_mlp_layers(d);
}

bool vc_decoder_has_experts(const struct vc_decoder *d, int64_t layer)
{
    for (size_t k = 0; k < json_array_size(d->mlp_layers); k++) {
        if (json_integer_value(json_array_get(d->mlp_layers, k)) == (json_int_t)layer) {
            return false;
        }
    }
    return d->experts != 0 && (layer + 1) % d->sparse_step == 0;
}

/* ---- layers ---- */

/* The weight of each expert for each token [batch, sequence, experts]: the largest `chosen` probabilities,
 * scaled to a sum of 1 where the family does that; 0 for the others. */
static uint32_t expert_weights(struct vc_decoder *d, uint32_t x, const char *module)
{
    struct vc_net *net = d->net;
    struct vc_graph_attr last = vc_attr_int("axis", -1);
    const char *names[2] = {NULL, NULL};
    uint32_t p = vc_net_linear(net, x, vc_net_print(net, "%s.gate", module), d->hidden, d->experts, false);
    uint32_t inputs[3];

    p = vc_graph_add(net->graph, "Softmax", NULL, &p, 1);
    if (p < net->graph->n_values) {
        net->graph->values[p].half_softmax = !vc_decoder_is_mixtral(d); /* Mixtral's stay f32 */
    }
    inputs[0] = p;
    inputs[1] = vc_graph_add_ints(net->graph, &d->chosen, 1);
    uint32_t top = vc_graph_add_node(net->graph, &(struct vc_node_spec){.op = "TopK",
                                                                        .n_inputs = 2,
                                                                        .inputs = inputs,
                                                                        .n_outputs = 2,
                                                                        .output_names = names,
                                                                        .n_attrs = 1,
                                                                        .attrs = &last});
    uint32_t places = vc_graph_output_of(net->graph, top, 1);
    if (d->sum_is_1) {
        inputs[0] = top;
        inputs[1] = vc_graph_add_ints(net->graph, (int64_t[]){-1}, 1);
        top = vc_net_op(net, "Div", NULL, top, vc_graph_add(net->graph, "ReduceSum", NULL, inputs, 2));
    }
    inputs[0] = vc_net_op(net, "Mul", NULL, p, vc_graph_add_float(net->graph, 0));
    inputs[1] = places;
    inputs[2] = top;
    return vc_net_node(net, "ScatterElements", NULL, inputs, 3, &last, 1);
}

/* By the tensors that the checkpoint has; without weights, one by one. */
static enum form form_of(struct vc_decoder *d, const char *layer)
{
    struct vc_net *net = d->net;

    if (net->model == NULL) {
        return ONE_BY_ONE;
    }
    return vc_net_has(net, vc_net_print(net, "%s.mlp.experts.gate_up_proj", layer))       ? GATE_UP_IN_ONE
           : vc_net_has(net, vc_net_print(net, "%s.mlp.experts.gate_proj.weight", layer)) ? STACKED
                                                                                          : ONE_BY_ONE;
}

/* x times the matrix of one expert, which is slice `expert` of `tensor` [experts, out, in], read
 * transposed. The slice keeps a leading dimension of 1, which broadcasts. */
static uint32_t slice_product(struct vc_decoder *d, uint32_t x, const char *tensor, const char *value, int64_t expert,
                              int64_t in, int64_t out)
{
    struct vc_net *net = d->net;
    const struct vc_net_tensor matrix = {.name = tensor,
                                         .value = vc_net_print(net, "%s.weight", value),
                                         .n_dims = 3,
                                         .shape = {(uint64_t)d->experts, (uint64_t)out, (uint64_t)in},
                                         .sliced = true,
                                         .first = (uint64_t)expert,
                                         .count = 1,
                                         .transposed = true};

    return vc_net_op(net, "MatMul", value, x, vc_net_param(net, &matrix));
}

/* gate and up as the halves of one product. */
static void halves(struct vc_decoder *d, uint32_t x, const char *const names[2], uint32_t out[2])
{
    struct vc_graph_attr attrs[2] = {vc_attr_int("axis", -1), vc_attr_int("num_outputs", 2)};
    uint32_t split = vc_graph_add_node(d->net->graph, &(struct vc_node_spec){.op = "Split",
                                                                             .n_inputs = 1,
                                                                             .inputs = &x,
                                                                             .n_outputs = 2,
                                                                             .output_names = names,
                                                                             .n_attrs = 2,
                                                                             .attrs = attrs});

    out[0] = split;
    out[1] = vc_graph_output_of(d->net->graph, split, 1);
}

/* One expert by the form of the checkpoint. Values are named as with single experts, whatever the form. */
static uint32_t expert(struct vc_decoder *d, uint32_t x, const char *module, int64_t e, enum form form)
{
    static const struct vc_decoder_mlp mixtral = {.gate = "w1", .up = "w3", .down = "w2"};
    static const struct vc_decoder_mlp qwen = {.gate = "gate_proj", .up = "up_proj", .down = "down_proj"};
    struct vc_net *net = d->net;
    const char *own = vc_net_print(net, "%s.experts.%lld", module, (long long)e);
    const char *dot = form == STACKED ? ".weight" : "";
    struct vc_decoder_mlp mlp = vc_decoder_is_mixtral(d) ? mixtral : qwen;
    int64_t n = d->expert_inner;
    uint32_t parts[2], y;

    vc_net_block(net, "%s", own);
    mlp.inner = n;
    if (form == ONE_BY_ONE) {
        return vc_decoder_mlp(d, x, own, &mlp);
    }
    if (form == GATE_UP_IN_ONE) {
        y = slice_product(d, x, vc_net_print(net, "%s.experts.gate_up_proj", module),
                          vc_net_print(net, "%s.gate_up_proj", own), e, d->hidden, 2 * n);
        halves(d, y, (const char *const[2]){NULL, NULL}, parts);
    } else {
        parts[0] = slice_product(d, x, vc_net_print(net, "%s.experts.gate_proj.weight", module),
                                 vc_net_print(net, "%s.gate_proj", own), e, d->hidden, n);
        parts[1] = slice_product(d, x, vc_net_print(net, "%s.experts.up_proj.weight", module),
                                 vc_net_print(net, "%s.up_proj", own), e, d->hidden, n);
    }
    y = vc_decoder_gate(d, own, parts[0], parts[1]);
    return slice_product(d, y, vc_net_print(net, "%s.experts.down_proj%s", module, dot),
                         vc_net_print(net, "%s.down_proj", own), e, n, d->hidden);
}

/* What every token has beside its experts: sigmoid(a number) times an MLP. */
static uint32_t shared_expert(struct vc_decoder *d, uint32_t x, const char *module)
{
    struct vc_net *net = d->net;
    const char *own = vc_net_print(net, "%s.shared_expert", module);
    struct vc_decoder_mlp mlp = {.gate = "gate_proj", .up = "up_proj", .down = "down_proj", .inner = d->shared_inner};

    vc_net_block(net, "%s", module);
    uint32_t weight = vc_net_linear(net, x, vc_net_print(net, "%s.shared_expert_gate", module), d->hidden, 1, false);
    vc_net_block(net, "%s", own);
    return vc_net_op(net, "Mul", own, vc_net_op1(net, "Sigmoid", weight), vc_decoder_mlp(d, x, own, &mlp));
}

/* Experts are summed in their order; nodes of each are marked (vc_graph_set_expert), so that memory and
 * macs know their share. */
uint32_t vc_decoder_experts(struct vc_decoder *d, uint32_t x, const char *layer)
{
    struct vc_net *net = d->net;
    enum form form = form_of(d, layer);
    bool own_name = vc_decoder_is_mixtral(d) && form == ONE_BY_ONE;
    const char *module = vc_net_print(net, "%s.%s", layer, own_name ? "block_sparse_moe" : "mlp");
    uint32_t sum = VC_NO_VALUE;

    vc_net_block(net, "%s", module);
    uint32_t weights = expert_weights(d, x, module);
    for (int64_t e = 0; e < d->experts; e++) {
        vc_graph_set_expert(net->graph, (uint32_t)d->experts, (uint32_t)d->chosen, weights, (uint32_t)e);
        uint32_t y = expert(d, x, module, e, form);
        vc_graph_set_expert(net->graph, 0, 0, 0, 0);
        vc_net_block(net, "%s", module);
        uint32_t weight = vc_net_reshape(net, vc_net_pick(net, weights, -1, e), (int64_t[]){0, 0, 1}, 3);
        y = vc_net_op(net, "Mul", NULL, y, weight);
        sum = sum == VC_NO_VALUE ? y : vc_net_add(net, NULL, sum, y);
    }
    if (d->shared_inner != 0) {
        uint32_t shared = shared_expert(d, x, module);

        vc_net_block(net, "%s", module);
        sum = vc_net_add(net, module, sum, shared);
    }
    return sum;
}
