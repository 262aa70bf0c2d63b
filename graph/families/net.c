/* net.c - parameters by the names of transformers, and the layers that most families share. See net.h. */
#include "graph/families/net.h"

#include <math.h>
#include <string.h>

const char *vc_net_print(struct vc_net *net, const char *format, ...)
{
    const char *text;
    va_list args;

    va_start(args, format);
    text = vc_arena_vprintf(net->ctx, net->arena, format, args);
    va_end(args);
    if (text == NULL) {
        net->graph->status = VC_E_NOMEM;
        return "";
    }
    return text;
}

/* The whole name: "/lm_head" is one already. */
static const char *whole_name(struct vc_net *net, const char *name)
{
    return *name == '/' ? name + 1 : vc_net_print(net, "%s%s", net->prefix, name);
}

void vc_net_block(struct vc_net *net, const char *format, ...)
{
    const char *text;
    va_list args;

    va_start(args, format);
    text = vc_arena_vprintf(net->ctx, net->arena, format, args);
    va_end(args);
    if (text == NULL) {
        net->graph->status = VC_E_NOMEM;
    } else {
        vc_graph_set_block(net->graph, "%s", whole_name(net, text));
    }
}

/* ---- parameters ---- */

/* What the checkpoint calls it: LayerNorm's tensors were "gamma" and "beta" once. */
static size_t find_tensor(struct vc_net *net, const char **name)
{
    const char *own = net->rename == NULL ? *name : net->rename(net, *name);
    size_t index = vc_model_find(net->model, own);
    size_t n = strlen(own);

    if (index == VC_NO_TENSOR && n > 17 && strcmp(own + n - 17, ".LayerNorm.weight") == 0) {
        index = vc_model_find(net->model, vc_net_print(net, "%.*sgamma", (int)(n - 6), own));
    } else if (index == VC_NO_TENSOR && n > 15 && strcmp(own + n - 15, ".LayerNorm.bias") == 0) {
        index = vc_model_find(net->model, vc_net_print(net, "%.*sbeta", (int)(n - 4), own));
    }
    *name = index == VC_NO_TENSOR ? own : net->model->tensors[index].name;
    return index;
}

size_t vc_net_find(struct vc_net *net, const char *name)
{
    const char *own = whole_name(net, name);

    return find_tensor(net, &own);
}

bool vc_net_has(struct vc_net *net, const char *name)
{
    return net->model == NULL || vc_net_find(net, name) != VC_NO_TENSOR;
}

static const char *shape_text(struct vc_net *net, unsigned n_dims, const uint64_t *shape)
{
    const char *text = "";

    for (unsigned k = 0; k < n_dims && k < 6; k++) {
        text = vc_net_print(net, "%s%s%llu", text, k == 0 ? "" : ", ", (unsigned long long)shape[k]);
    }
    return vc_net_print(net, "[%s%s]", text, n_dims > 6 ? ", ..." : "");
}

/* False, with a problem: the checkpoint does not have it as the configuration wants it. */
static bool bind(struct vc_net *net, const struct vc_net_tensor *tensor, struct vc_param_spec *spec)
{
    const struct vc_tensor *t;

    spec->tensor = whole_name(net, tensor->name);
    spec->index = VC_NO_TENSOR;
    if (net->model == NULL) {
        return true;
    }
    spec->index = find_tensor(net, &spec->tensor);
    if (spec->index == VC_NO_TENSOR) {
        vc_graph_complain(net->graph, "%s: missing, expected %s", spec->tensor,
                          shape_text(net, tensor->n_dims, tensor->shape));
        return false;
    }
    net->used[spec->index] = true;
    t = &net->model->tensors[spec->index];
    if (net->stated) {
        return true;
    }
    if (t->n_dims != tensor->n_dims || memcmp(t->shape, tensor->shape, t->n_dims * sizeof *t->shape) != 0) {
        vc_graph_complain(net->graph, "%s: the shape is %s, expected %s by config.json", spec->tensor,
                          shape_text(net, t->n_dims, t->shape), shape_text(net, tensor->n_dims, tensor->shape));
        return false;
    }
    return true;
}

uint32_t vc_net_param(struct vc_net *net, const struct vc_net_tensor *tensor)
{
    struct vc_param_spec spec = {.n_dims = tensor->n_dims,
                                 .shape = tensor->shape,
                                 .sliced = tensor->sliced,
                                 .axis = tensor->axis,
                                 .first = tensor->first,
                                 .count = tensor->count,
                                 .transposed = tensor->transposed};
    const char *value = tensor->value != NULL ? whole_name(net, tensor->value) : whole_name(net, tensor->name);

    return bind(net, tensor, &spec) ? vc_graph_add_param(net->graph, value, &spec)
                                    : vc_graph_unknown(net->graph, value);
}

uint32_t vc_net_vector(struct vc_net *net, const char *name, int64_t n)
{
    return vc_net_param(net, &(struct vc_net_tensor){.name = name, .n_dims = 1, .shape = {(uint64_t)n}});
}

uint32_t vc_net_matrix(struct vc_net *net, const char *name, int64_t rows, int64_t columns)
{
    return vc_net_param(
        net, &(struct vc_net_tensor){.name = name, .n_dims = 2, .shape = {(uint64_t)rows, (uint64_t)columns}});
}

/* ---- single nodes ---- */

uint32_t vc_net_op(struct vc_net *net, const char *op, const char *value, uint32_t a, uint32_t b)
{
    return vc_graph_add(net->graph, op, value == NULL ? NULL : whole_name(net, value), (uint32_t[]){a, b}, 2);
}

uint32_t vc_net_op1(struct vc_net *net, const char *op, uint32_t a)
{
    return vc_graph_add(net->graph, op, NULL, &a, 1);
}

uint32_t vc_net_add(struct vc_net *net, const char *value, uint32_t a, uint32_t b)
{
    return vc_net_op(net, "Add", value, a, b);
}

uint32_t vc_net_node(struct vc_net *net, const char *op, const char *value, const uint32_t *inputs, unsigned n_inputs,
                     const struct vc_graph_attr *attrs, unsigned n_attrs)
{
    const char *name = value == NULL ? NULL : whole_name(net, value);

    return vc_graph_add_node(net->graph, &(struct vc_node_spec){.op = op,
                                                                .n_inputs = n_inputs,
                                                                .inputs = inputs,
                                                                .n_outputs = 1,
                                                                .output_names = &name,
                                                                .n_attrs = n_attrs,
                                                                .attrs = attrs});
}

uint32_t vc_net_cast(struct vc_net *net, uint32_t x, enum vc_dtype dtype)
{
    struct vc_graph_attr to = vc_attr_int("to", dtype == VC_DTYPE_F32 ? 1 : 7); /* ONNX's numbers of types */

    return vc_net_node(net, "Cast", NULL, &x, 1, &to, 1);
}

uint32_t vc_net_reshape(struct vc_net *net, uint32_t x, const int64_t *shape, size_t n)
{
    return vc_net_op(net, "Reshape", NULL, x, vc_graph_add_ints(net->graph, shape, n));
}

uint32_t vc_net_pick(struct vc_net *net, uint32_t x, int64_t axis, int64_t at)
{
    struct vc_graph_attr attr = vc_attr_int("axis", axis);

    return vc_net_node(net, "Gather", NULL, (uint32_t[]){x, vc_graph_add_int(net->graph, at)}, 2, &attr, 1);
}

void vc_net_text_input(struct vc_net *net)
{
    struct vc_dim shape[2];

    net->batch = vc_dim_symbol(&net->graph->dims, "batch");
    net->sequence = vc_dim_symbol(&net->graph->dims, "sequence");
    shape[0] = net->batch;
    shape[1] = net->sequence;
    net->input_ids = vc_graph_add_input(net->graph, "input_ids", VC_DTYPE_I64, shape, 2);
}

uint32_t vc_net_text_option(struct vc_net *net, const char *name, int64_t otherwise)
{
    const struct vc_dim shape[2] = {net->batch, net->sequence};

    return vc_graph_add_option(net->graph, name, VC_DTYPE_I64, shape, 2, otherwise);
}

/* [batch, decoder_sequence] */
static void decoder_shape(struct vc_net *net, struct vc_dim *shape)
{
    shape[0] = vc_dim_symbol(&net->graph->dims, "batch");
    shape[1] = vc_dim_symbol(&net->graph->dims, "decoder_sequence");
}

uint32_t vc_net_decoder_input(struct vc_net *net)
{
    struct vc_dim shape[2];

    decoder_shape(net, shape);
    return vc_graph_add_input(net->graph, "decoder_input_ids", VC_DTYPE_I64, shape, 2);
}

uint32_t vc_net_decoder_option(struct vc_net *net, const char *name, int64_t otherwise)
{
    struct vc_dim shape[2];

    decoder_shape(net, shape);
    return vc_graph_add_option(net->graph, name, VC_DTYPE_I64, shape, 2, otherwise);
}

uint32_t vc_net_positions(struct vc_net *net)
{
    return vc_net_positions_of(net, net->input_ids);
}

uint32_t vc_net_positions_of(struct vc_net *net, uint32_t ids)
{
    uint32_t shape = vc_net_op1(net, "Shape", ids);
    uint32_t n = vc_net_pick(net, shape, 0, 1);

    return vc_graph_add(net->graph, "Range", NULL,
                        (uint32_t[]){vc_graph_add_int(net->graph, 0), n, vc_graph_add_int(net->graph, 1)}, 3);
}

/* Outputs have names of their own: a value that is called otherwise is handed on. */
void vc_net_output(struct vc_net *net, uint32_t value, const char *name)
{
    vc_graph_set_block(net->graph, NULL);
    vc_graph_add_output(net->graph, vc_graph_add(net->graph, "Identity", name, &value, 1));
}

/* ---- layers ---- */

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
    uint32_t y;

    if (part->conv1d) {
        weight.shape[0] = (uint64_t)part->in;
        weight.shape[1] = (uint64_t)part->all;
    }
    x = vc_net_layer_input(net, x, part->module, value, part->in);
    y = vc_net_op(net, "MatMul", part->bias ? vc_net_print(net, "%s.product", value) : value, x,
                  vc_net_param(net, &weight));
    return part->bias ? vc_net_add(net, value, y, vc_net_param(net, &bias)) : y;
}

uint32_t vc_net_linear(struct vc_net *net, uint32_t x, const char *module, int64_t in, int64_t out, bool bias)
{
    return vc_net_linear_part(net, x,
                              &(struct vc_net_part){.module = module, .in = in, .out = out, .all = out, .bias = bias});
}

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
    uint32_t y;

    vc_net_block(net, "%s", head);
    x = shared ? x : vc_net_layer_input(net, x, head, head, hidden);
    y = vc_net_op(net, "MatMul", bias != NULL ? vc_net_print(net, "%s.product", head) : head, x,
                  vc_net_param(net, &weight));
    return bias == NULL ? y : vc_net_add(net, head, y, vc_net_vector(net, bias, vocabulary));
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

/* Functions of ACT2FN: an operator, with an attribute or a factor, or two of them. */
static const struct activation {
    const char *name, *op;
    bool tanh;  /* Gelu's approximation */
    bool gated; /* x * op(factor * x) */
    double factor;
} activations[] = {
    {"gelu", "Gelu", false, false, 0},         {"gelu_python", "Gelu", false, false, 0},
    {"gelu_new", "Gelu", true, false, 0},      {"gelu_pytorch_tanh", "Gelu", true, false, 0},
    {"gelu_accurate", "Gelu", true, false, 0}, {"quick_gelu", "Sigmoid", false, true, 1.702},
    {"silu", "Sigmoid", false, true, 1},       {"swish", "Sigmoid", false, true, 1},
    {"relu", "Relu", false, false, 0},         {"tanh", "Tanh", false, false, 0},
    {"sigmoid", "Sigmoid", false, false, 0},
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
    if (a->factor != 1) {
        y = vc_net_op(net, "Mul", NULL, x, vc_graph_add_float(net->graph, a->factor));
    }
    return vc_net_op(net, "Mul", value, x, vc_net_op1(net, a->op, y));
}
