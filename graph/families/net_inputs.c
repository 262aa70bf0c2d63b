/* net_inputs.c - what loaders make of the inputs of quantized layers: "input_activations" of compressed-tensors rounds
 * them to codes and back, by a scale of each token, of each group of a token's elements, or by the tensor
 * "input_scale".
 *
 *     x  -> FakeQuantize ->  MatMul with q_proj, k_proj, v_proj            one node for all layers that round x alike
 */

#include "core/model/code_schemes.h"
#include "graph/families/net.h"

const char vc_net_inputs_note[] = "loaders of this file round the inputs of quantized layers; here these stay floats, "
                                  "so that answers there are a little worse";

static bool says(const json_t *object, const char *key, const char *word)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL && strcmp(text, word) == 0;
}

/* "weights" of a group are of that many bits, and floats or not. */
static bool fits(const json_t *group, const struct vc_code_scheme *codes)
{
    const json_t *weights = json_object_get(group, "weights");
    bool floats = codes->codes == VC_DTYPE_F8_E4M3 || codes->codes == VC_DTYPE_F4_E2M1;

    return json_integer_value(json_object_get(weights, "num_bits")) == (json_int_t)vc_code_bits(codes) &&
           says(weights, "type", floats ? "float" : "int");
}

/* "input_activations" of those groups whose weights have the scheme of the layer; *inputs NULL: nothing is
 * rounded. False: two such groups differ, and which one means the layer is not known. */
static bool find_inputs(const struct vc_net *net, enum vc_scheme scheme, const json_t **inputs)
{
    const struct vc_code_scheme *codes = vc_code_scheme(scheme);
    json_t *groups = json_object_get(json_object_get(net->config, "quantization_config"), "config_groups");
    bool first = true;
    const char *key;
    json_t *group;

    *inputs = NULL;
    json_object_foreach(groups, key, group)
    {
        json_t *own = json_object_get(group, "input_activations");

        own = json_is_object(own) ? own : NULL;
        if (codes == NULL || !fits(group, codes)) {
            continue;
        }
        if (!first && (own == NULL || *inputs == NULL ? own != *inputs : !json_equal(own, *inputs))) {
            return false;
        }
        *inputs = own;
        first = false;
    }
    return true;
}

/* Which rounding it is: *fixed by the tensor input_scale, else by a scale of each token (*size 0) or each
 * group of *size elements. False: FakeQuantize cannot do it (asymmetric, other bits, scales of another
 * type). */
static bool read_inputs(const json_t *inputs, int64_t in, bool *fixed, const char **codes, int64_t *size)
{
    const json_t *dynamic = json_object_get(inputs, "dynamic");
    bool groups = says(inputs, "strategy", "group");

    *fixed = json_is_false(dynamic) && says(inputs, "strategy", "tensor");
    *size = groups ? (int64_t)json_integer_value(json_object_get(inputs, "group_size")) : 0;
    *codes = says(inputs, "type", "float") ? "f8_e4m3" : "int8";
    return json_integer_value(json_object_get(inputs, "num_bits")) == 8 &&
           (says(inputs, "type", "int") || says(inputs, "type", "float")) &&
           json_is_true(json_object_get(inputs, "symmetric")) &&
           (json_object_get(inputs, "scale_dtype") == NULL || json_is_null(json_object_get(inputs, "scale_dtype"))) &&
           (*fixed ||
            (json_is_true(dynamic) && (says(inputs, "strategy", "token") || (groups && *size > 0 && in % *size == 0))));
}

/* A FakeQuantize of x with these attributes: q, k and v read the same rounded value. The search goes back
 * to the node that makes x. */
static uint32_t find_rounded(const struct vc_net *net, uint32_t x, const char *codes, int64_t size, size_t scale)
{
    const struct vc_graph *g = net->graph;

    for (uint32_t n = g->n_nodes; n-- > 0;) {
        const struct vc_graph_node *node = &g->nodes[n];

        if (x < g->n_values && g->values[x].kind == VC_VALUE_RESULT && n == g->values[x].node) {
            break;
        }
        if (strcmp(node->op, "FakeQuantize") == 0 && node->inputs[0] == x && strcmp(node->attrs[0].s, codes) == 0 &&
            node->attrs[1].i == size && (node->n_inputs == 2) == (scale != VC_NO_TENSOR) &&
            (scale == VC_NO_TENSOR || (g->values[node->inputs[1]].kind == VC_VALUE_PARAMETER &&
                                       g->params[g->values[node->inputs[1]].param].index == scale))) {
            return node->outputs[0];
        }
    }
    return VC_NO_VALUE;
}

/* Without weights, or if the caller wants floats, x itself. */
uint32_t vc_net_layer_input(struct vc_net *net, uint32_t x, const char *module, const char *value, int64_t in)
{
    bool floats = net->model == NULL || net->plain_inputs;
    size_t weight = floats ? VC_NO_TENSOR : vc_net_find(net, vc_net_print(net, "%s.weight", module));
    const struct vc_quant *quant = weight == VC_NO_TENSOR ? NULL : net->model->tensors[weight].quant;
    struct vc_net_tensor scale = {.name = vc_net_print(net, "%s.input_scale", module),
                                  .value = vc_net_print(net, "%s.input_scale", value),
                                  .n_dims = 1,
                                  .shape = {1}};
    const json_t *how = NULL;
    bool agreed = quant == NULL || find_inputs(net, quant->scheme, &how);
    uint32_t inputs[2] = {x, VC_NO_VALUE};
    size_t tensor = VC_NO_TENSOR;
    const char *codes;
    int64_t size;
    bool fixed;
    uint32_t y = VC_NO_VALUE;

    if (agreed && how == NULL) {
        return x;
    }
    if (!agreed || !read_inputs(how, in, &fixed, &codes, &size)) {
        net->graph->note = vc_net_inputs_note;
        return x;
    }
    if (fixed) {
        tensor = vc_net_find(net, scale.name);
        scale.n_dims = tensor != VC_NO_TENSOR && net->model->tensors[tensor].n_dims == 0 ? 0 : 1;
    }
    if (!fixed || tensor != VC_NO_TENSOR) {
        y = find_rounded(net, x, codes, size, tensor);
    }
    if (y == VC_NO_VALUE && fixed) {
        inputs[1] = vc_net_param(net, &scale);
    }
    return y != VC_NO_VALUE
               ? y
               : vc_net_node(net, "FakeQuantize", NULL, inputs, fixed ? 2 : 1,
                             (struct vc_graph_attr[]){vc_attr_string("codes", codes), vc_attr_int("size", size)}, 2);
}
