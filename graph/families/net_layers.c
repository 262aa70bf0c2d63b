/* net_layers.c - layers that most families share: products, norms, embeddings, activations (net.h). Each is
 * one or two nodes, named as the module in transformers, so that blocks, couplings and messages speak of
 * modules. */
#include "graph/families/net.h"

/* ---- layers ---- */

/* nn.Linear has its matrix as [out, in], which is read transposed; Conv1D of GPT-2 has [in, out]. The
 * product's value is called "MODULE.product" if a bias follows, so that the module's own name belongs to
 * its result. */
uint32_t vc_net_linear_part(struct vc_net *net, uint32_t x, const struct vc_net_part *part)
{
    const char *value = part->value != NULL ? part->value : part->module;
    bool sliced = part->out != part->all;
    struct vc_net_tensor weight = {.name = vc_net_print(net, "%s.weight", part->module),
                                   .value = vc_net_print(net, "%s.weight", value),
                                   .n_dims = 2,
                                   .shape = {(uint64_t)part->all, (uint64_t)part->in},
                                   .transposed = !part->conv1d,
                                   .sliced = sliced,
                                   .axis = part->conv1d ? 1 : 0,
                                   .first = (uint64_t)part->first,
                                   .count = (uint64_t)part->out};
    struct vc_net_tensor bias = {.name = vc_net_print(net, "%s.bias", part->module),
                                 .value = vc_net_print(net, "%s.bias", value),
                                 .n_dims = 1,
                                 .shape = {(uint64_t)part->all},
                                 .sliced = sliced,
                                 .first = (uint64_t)part->first,
                                 .count = (uint64_t)part->out};

    if (part->conv1d) {
        weight.shape[0] = (uint64_t)part->in;
        weight.shape[1] = (uint64_t)part->all;
    }
    x = vc_net_layer_input(net, x, part->module, value, part->in);
    uint32_t y = vc_net_op(net, "MatMul", part->bias ? vc_net_print(net, "%s.product", value) : value, x,
                           vc_net_param(net, &weight));
    return part->bias ? vc_net_add(net, value, y, vc_net_param(net, &bias)) : y;
}

uint32_t vc_net_linear(struct vc_net *net, uint32_t x, const char *module, int64_t in, int64_t out, bool bias)
{
    return vc_net_linear_part(net, x,
                              &(struct vc_net_part){.module = module, .in = in, .out = out, .all = out, .bias = bias});
}

/* A tied head reads the matrix of the embeddings, unless the checkpoint has a tensor of its own under the
 * head's name. */
uint32_t vc_net_tied_head(struct vc_net *net, uint32_t x, const char *head, const char *embedding, int64_t hidden,
                          int64_t vocabulary, const char *bias, bool tied)
{
    const char *own = vc_net_print(net, "%s.weight", head);
    bool shared = tied && (net->model == NULL || !vc_net_has(net, own));
    struct vc_net_tensor weight = {.name = shared ? vc_net_print(net, "%s.weight", embedding) : own,
                                   .value = own,
                                   .n_dims = 2,
                                   .shape = {(uint64_t)vocabulary, (uint64_t)hidden},
                                   .transposed = true};

    const char *own_bias = vc_net_print(net, "%s.bias", head);
    if (bias != NULL && !tied && net->model != NULL && vc_net_has(net, own_bias)) {
        bias = own_bias; /* transformers makes one of both where the head is tied */
    }
    vc_net_block(net, "%s", head);
    x = shared ? x : vc_net_layer_input(net, x, head, head, hidden);
    uint32_t y = vc_net_op(net, "MatMul", bias != NULL ? vc_net_print(net, "%s.product", head) : head, x,
                           vc_net_param(net, &weight));
    y = bias == NULL ? y : vc_net_add(net, head, y, vc_net_vector(net, bias, vocabulary));
    return !net->graph->others.scales ? y : vc_net_op(net, "Mul", NULL, y, vc_graph_add_float(net->graph, 1));
}

uint32_t vc_net_layer_norm(struct vc_net *net, uint32_t x, const char *module, int64_t n, double epsilon)
{
    struct vc_graph_attr attrs[2] = {vc_attr_int("axis", -1), vc_attr_float("epsilon", epsilon)};
    uint32_t inputs[3];

    inputs[0] = x;
    inputs[1] = vc_net_vector(net, vc_net_print(net, "%s.weight", module), n);
    inputs[2] = vc_net_vector(net, vc_net_print(net, "%s.bias", module), n);
    return vc_net_node(net, "LayerNormalization", module, inputs, 3, attrs, 2);
}

uint32_t vc_net_rms_norm(struct vc_net *net, uint32_t x, const char *module, int64_t n, double epsilon)
{
    struct vc_graph_attr attrs[2] = {vc_attr_int("axis", -1), vc_attr_float("epsilon", epsilon)};
    uint32_t inputs[2];

    inputs[0] = x;
    inputs[1] = vc_net_vector(net, vc_net_print(net, "%s.weight", module), n);
    return vc_net_node(net, "RMSNormalization", module, inputs, 2, attrs, 2);
}

uint32_t vc_net_embed(struct vc_net *net, uint32_t ids, const char *module, int64_t rows, int64_t columns)
{
    uint32_t table = vc_net_matrix(net, vc_net_print(net, "%s.weight", module), rows, columns);

    return vc_net_op(net, "Gather", module, table, ids);
}

uint32_t vc_net_drop(struct vc_net *net, uint32_t value, double p)
{
    if (p > 0 && value < net->graph->n_values) {
        net->graph->values[value].dropped = true;
    }
    return value;
}

/* ---- activations ---- */

/* Functions of transformers' ACT2FN. gelu_new, gelu_pytorch_tanh and gelu_accurate are the same formula;
 * silu and swish are x * sigmoid(x). */
static const struct activation {
    const char *name, *op;
    bool tanh;  /* Gelu's approximation */
    bool gated; /* x * op(factor * x); factor 0: op(x) * op(x) */
    double factor;
} activations[] = {
    {"gelu", "Gelu", false, false, 0},         {"gelu_python", "Gelu", false, false, 0},
    {"gelu_new", "Gelu", true, false, 0},      {"gelu_pytorch_tanh", "Gelu", true, false, 0},
    {"gelu_accurate", "Gelu", true, false, 0}, {"quick_gelu", "Sigmoid", false, true, 1.702},
    {"silu", "Sigmoid", false, true, 1},       {"swish", "Sigmoid", false, true, 1},
    {"relu", "Relu", false, false, 0},         {"tanh", "Tanh", false, false, 0},
    {"sigmoid", "Sigmoid", false, false, 0},   {"relu2", "Relu", false, true, 0},
};

#define N_ACTIVATIONS (sizeof activations / sizeof *activations)

static const struct activation *activation_of(const char *function)
{
    for (size_t k = 0; k < N_ACTIVATIONS; k++) {
        if (strcmp(activations[k].name, function) == 0) {
            return &activations[k];
        }
    }
    return NULL;
}

void vc_net_check_activation(struct vc_net *net, const char *key, const char *function)
{
    const char *known = "";

    if (activation_of(function) != NULL || net->failed) {
        return;
    }
    for (size_t k = 0; k < N_ACTIVATIONS; k++) {
        known = vc_net_print(net, "%s%s%s", known, k == 0 ? "" : ", ", activations[k].name);
    }
    vc_net_refuse(net, key, vc_net_print(net, "none of %s", known));
}

/* Only gelu_new is marked stepwise: transformers computes it with several operators, gelu_pytorch_tanh with
 * one. */
uint32_t vc_net_activation(struct vc_net *net, uint32_t x, const char *value, const char *key, const char *function)
{
    const struct activation *a = activation_of(function);
    struct vc_graph_attr tanh_form = vc_attr_string("approximate", "tanh");
    uint32_t y = x;

    if (a == NULL) {
        vc_net_check_activation(net, key, function);
        return vc_graph_unknown(net->graph, NULL);
    }
    if (!a->gated) {
        y = vc_net_node(net, a->op, value, &x, 1, &tanh_form, a->tanh ? 1 : 0);
        if (y < net->graph->n_values) {
            net->graph->values[y].stepwise = strcmp(function, "gelu_new") == 0;
        }
        return y;
    }
    if (a->factor == 0) {
        x = vc_net_op1(net, a->op, x);
        return vc_net_op(net, "Mul", value, x, x);
    }
    if (a->factor != 1) {
        y = vc_net_op(net, "Mul", NULL, x, vc_graph_add_float(net->graph, a->factor));
    }
    return vc_net_op(net, "Mul", value, x, vc_net_op1(net, a->op, y));
}
