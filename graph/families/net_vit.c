/* net_vit.c - the vision transformer: an image cut into patches, a class token before them, learned
 * positions, layer norms before attention and MLP.
 *
 *     pixels [batch, 3, 224, 224]
 *         Conv with stride = kernel = patch     [batch, hidden, 14, 14]     a product for each patch
 *         reshaped and transposed               [batch, 196, hidden]
 *         class token in front                  [batch, 197, hidden]
 *         + positions [1, 197, hidden]
 *     each layer
 *         x = x + out(attention(norm(x)))
 *         x = x + down(act(up(norm(x))))
 *     norm, then the first token through the classifier, or the pooler
 *
 * The number of patches is fixed by image_size: positions are learned for it, and images of other sizes are
 * refused by the shapes. */
#include "graph/families/net.h"

#include <math.h>

/* The values of config.json while the graph is built. pooled: how many numbers the pooler makes. patches:
 * of one image. */
struct vit {
    struct vc_net *net;
    int64_t hidden, layers, heads, inner, image[2], patch[2], channels, pooled, patches;
    double epsilon;
    double dropout, score_dropout; /* in training */
    bool qkv_bias;
    const char *act, *pooler_act;
};

/* A number, or a list of two: height and width. */
static void read_pair(struct vc_net *net, const char *key, int64_t otherwise, int64_t pair[2])
{
    const json_t *value = vc_net_get(net, key);

    if (json_is_array(value) && json_array_size(value) == 2) {
        for (size_t k = 0; k < 2; k++) {
            json_int_t n = json_integer_value(json_array_get(value, k));

            pair[k] = n > 0 && n < 1 << 20 ? (int64_t)n : 1;
            if (pair[k] != (int64_t)n) {
                vc_net_refuse(net, key, "neither a size nor two of them");
            }
        }
        return;
    }
    pair[0] = vc_net_size(net, key, otherwise);
    pair[1] = pair[0];
}

/* False: a problem was noted, and nothing is built. */
static bool read_config(struct vit *v)
{
    struct vc_net *net = v->net;

    v->hidden = vc_net_size(net, "hidden_size", VC_NET_REQUIRED);
    v->layers = vc_net_layers(net, "num_hidden_layers");
    v->heads = vc_net_size(net, "num_attention_heads", VC_NET_REQUIRED);
    v->inner = vc_net_size(net, "intermediate_size", VC_NET_REQUIRED);
    read_pair(net, "image_size", 224, v->image);
    read_pair(net, "patch_size", 16, v->patch);
    v->channels = vc_net_size(net, "num_channels", 3);
    v->epsilon = vc_net_real(net, "layer_norm_eps", 1e-12);
    v->dropout = vc_net_probability(net, "hidden_dropout_prob", 0);
    v->score_dropout = vc_net_probability(net, "attention_probs_dropout_prob", 0);
    v->qkv_bias = vc_net_flag(net, "qkv_bias", true);
    v->act = vc_net_word(net, "hidden_act", "gelu");
    v->pooled = vc_net_size(net, "pooler_output_size", v->hidden);
    v->pooler_act = vc_net_word(net, "pooler_act", "tanh");
    v->patches = (v->image[0] / v->patch[0]) * (v->image[1] / v->patch[1]);
    (void)vc_net_share(net, "hidden_size by num_attention_heads", v->hidden, v->heads);
    vc_net_check_activation(net, "hidden_act", v->act);
    vc_net_check_activation(net, "pooler_act", v->pooler_act);
    vc_net_check_keys(net);
    return !net->failed;
}

/* [batch, channels, height, width] -> [batch, patches + 1, hidden]
 * The batch is taken from the shape of the input, so that the one token can be repeated for each image
 * (Expand). */
static uint32_t embeddings(struct vit *v, uint32_t pixels)
{
    struct vc_net *net = v->net;
    struct vc_graph_attr attrs[2] = {vc_attr_ints("strides", v->patch, 2), vc_attr_ints("kernel_shape", v->patch, 2)};
    struct vc_graph_attr perm = vc_attr_ints("perm", (int64_t[]){0, 2, 1}, 3);
    struct vc_graph_attr axis = vc_attr_int("axis", 1);
    struct vc_net_tensor weight = {
        .name = "embeddings.patch_embeddings.projection.weight",
        .n_dims = 4,
        .shape = {(uint64_t)v->hidden, (uint64_t)v->channels, (uint64_t)v->patch[0], (uint64_t)v->patch[1]}};
    struct vc_net_tensor token = {.name = "embeddings.cls_token", .n_dims = 3, .shape = {1, 1, (uint64_t)v->hidden}};
    struct vc_net_tensor positions = {.name = "embeddings.position_embeddings",
                                      .n_dims = 3,
                                      .shape = {1, (uint64_t)v->patches + 1, (uint64_t)v->hidden}};
    uint32_t inputs[3], sizes[3];

    vc_net_block(net, "embeddings");
    inputs[0] = pixels;
    inputs[1] = vc_net_param(net, &weight);
    inputs[2] = vc_net_vector(net, "embeddings.patch_embeddings.projection.bias", v->hidden);
    uint32_t x = vc_net_node(net, "Conv", NULL, inputs, 3, attrs, 2);
    x = vc_net_reshape(net, x, (int64_t[]){0, 0, -1}, 3);
    x = vc_net_node(net, "Transpose", NULL, &x, 1, &perm, 1);
    uint32_t batch = vc_net_reshape(net, vc_net_pick(net, vc_net_op1(net, "Shape", pixels), 0, 0), (int64_t[]){1}, 1);
    sizes[0] = batch;
    sizes[1] = vc_graph_add_ints(net->graph, (int64_t[]){1, v->hidden}, 2);
    axis.i = 0;
    batch = vc_net_node(net, "Concat", NULL, sizes, 2, &axis, 1);
    inputs[0] = vc_net_op(net, "Expand", NULL, vc_net_param(net, &token), batch);
    inputs[1] = x;
    axis.i = 1;
    x = vc_net_node(net, "Concat", NULL, inputs, 2, &axis, 1);
    x = vc_net_add(net, "embeddings", x, vc_net_param(net, &positions));
    return vc_net_drop(net, x, v->dropout);
}

/* The second norm reads what the first half added up, which has a name for it. */
static uint32_t vit_layer(struct vit *v, uint32_t x, int64_t number)
{
    static const char *const projections[3] = {"query", "key", "value"};
    struct vc_net *net = v->net;
    const char *layer = vc_net_print(net, "encoder.layer.%lld", (long long)number);
    struct vc_net_attention how = {.value = vc_net_print(net, "%s.attention", layer),
                                   .heads = v->heads,
                                   .kv_heads = v->heads,
                                   .scale = 1 / sqrt((double)(v->hidden / v->heads)),
                                   .mask = VC_NO_VALUE,
                                   .dropout = v->score_dropout};
    uint32_t qkv[3];

    vc_net_block(net, "%s", layer);
    uint32_t y = vc_net_layer_norm(net, x, vc_net_print(net, "%s.layernorm_before", layer), v->hidden, v->epsilon);
    vc_net_block(net, "%s.attention", layer);
    for (int k = 0; k < 3; k++) {
        qkv[k] = vc_net_linear(net, y, vc_net_print(net, "%s.attention.attention.%s", layer, projections[k]), v->hidden,
                               v->hidden, v->qkv_bias);
    }
    y = vc_net_attention(net, qkv[0], qkv[1], qkv[2], &how);
    y = vc_net_linear(net, y, vc_net_print(net, "%s.attention.output.dense", layer), v->hidden, v->hidden, true);
    y = vc_net_drop(net, y, v->dropout);
    vc_net_block(net, "%s", layer);
    x = vc_net_add(net, vc_net_print(net, "%s.after_attention", layer), y, x);
    y = vc_net_layer_norm(net, x, vc_net_print(net, "%s.layernorm_after", layer), v->hidden, v->epsilon);
    y = vc_net_linear(net, y, vc_net_print(net, "%s.intermediate.dense", layer), v->hidden, v->inner, true);
    y = vc_net_activation(net, y, vc_net_print(net, "%s.activation", layer), "hidden_act", v->act);
    y = vc_net_linear(net, y, vc_net_print(net, "%s.output.dense", layer), v->inner, v->hidden, true);
    y = vc_net_drop(net, y, v->dropout);
    return vc_net_add(net, layer, y, x);
}

static void build_vit(struct vc_net *net)
{
    struct vit v = {.net = net};
    struct vc_dim shape[4];

    if (!read_config(&v)) {
        return;
    }
    net->batch = vc_dim_symbol(&net->graph->dims, "batch");
    shape[0] = net->batch;
    shape[1] = vc_dim_number(v.channels);
    shape[2] = vc_dim_number(v.image[0]);
    shape[3] = vc_dim_number(v.image[1]);
    uint32_t x = embeddings(&v, vc_graph_add_input(net->graph, "pixel_values", VC_DTYPE_F32, shape, 4));
    for (int64_t k = 0; k < v.layers && net->graph->status == VC_OK; k++) {
        x = vit_layer(&v, x, k);
    }
    vc_net_block(net, "layernorm");
    x = vc_net_layer_norm(net, x, "layernorm", v.hidden, v.epsilon);
    if (net->head == VC_NET_IMAGE) {
        vc_net_block(net, "/classifier");
        x = vc_net_linear(net, vc_net_pick(net, x, 1, 0), "/classifier", v.hidden, vc_net_labels(net), true);
        vc_net_output(net, x, "logits");
        return;
    }
    uint32_t first = vc_net_pick(net, x, 1, 0);
    vc_net_output(net, x, "last_hidden_state");
    if (vc_net_has(net, "pooler.dense.weight")) {
        vc_net_block(net, "pooler");
        x = vc_net_linear(net, first, "pooler.dense", v.hidden, v.pooled, true);
        vc_net_output(net, vc_net_activation(net, x, NULL, "pooler_act", v.pooler_act), "pooler_output");
    }
}

static const char *const unused[] = {"*pooler.dense.*", "*embeddings.mask_token", NULL};

const struct vc_net_family vc_net_vit = {.type = "vit",
                                         .class_name = "ViT",
                                         .prefix = "vit.",
                                         .probe = "embeddings.cls_token",
                                         .heads = VC_NET_BASE | VC_NET_IMAGE,
                                         .usual = VC_NET_BASE,
                                         .unused = unused,
                                         .build = build_vit};
