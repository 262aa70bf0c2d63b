/* net_resnet.c - ResNet: a stem, stages of residual layers, each of two or three convolutions with batch norm, and the
 * mean over the image.
 *
 *     basic        3x3, 3x3                  the first with the layer's stride
 *     bottleneck   1x1, 3x3, 1x1             inner channels a quarter; the stride in the 3x3, or in the 1x1 (in_bottleneck)
 *     shortcut     1x1 where channels or stride change
 */
#include "graph/families/net.h"

#define MAX_STAGES 16

struct resnet {
    struct vc_net *net;
    int64_t channels, stem, n_stages, sizes[MAX_STAGES], depths[MAX_STAGES];
    bool bottleneck, early, in_bottleneck;
    const char *act;
};

/* A list of sizes, one per stage. */
static void read_sizes(struct resnet *r, const char *key, int64_t *sizes, int64_t *n)
{
    const json_t *list = vc_net_get(r->net, key);
    int64_t count = (int64_t)json_array_size(list);

    VC_LEAVE_IF(count < 1 || count > MAX_STAGES || (*n != 0 && *n != count),
                vc_net_refuse(r->net, key, "not a list with a size for each stage"));
    *n = count;
    for (int64_t k = 0; k < count; k++) {
        json_int_t size = json_integer_value(json_array_get(list, (size_t)k));

        VC_LEAVE_IF(size < 1 || size > 1 << 20, vc_net_refuse(r->net, key, "of which an element is no size"));
        sizes[k] = (int64_t)size;
    }
}

/* Lists give the number of stages; both have to agree. */
static bool read_config(struct resnet *r)
{
    struct vc_net *net = r->net;

    r->channels = vc_net_size(net, "num_channels", 3);
    r->stem = vc_net_size(net, "embedding_size", 64);
    read_sizes(r, "hidden_sizes", r->sizes, &r->n_stages);
    read_sizes(r, "depths", r->depths, &r->n_stages);
    for (int64_t k = 0; k < r->n_stages; k++) {
        if (r->depths[k] > VC_NET_MAX_LAYERS) {
            vc_net_refuse(net, "depths", "more layers than are supported");
        }
    }
    const char *type = vc_net_word(net, "layer_type", "bottleneck");
    r->bottleneck = strcmp(type, "bottleneck") == 0;
    if (!r->bottleneck && strcmp(type, "basic") != 0) {
        vc_net_refuse(net, "layer_type", "neither basic nor bottleneck");
    }
    r->early = vc_net_flag(net, "downsample_in_first_stage", false);
    r->in_bottleneck = vc_net_flag(net, "downsample_in_bottleneck", false);
    r->act = vc_net_word(net, "hidden_act", "relu");
    vc_net_check_activation(net, "hidden_act", r->act);
    vc_net_check_keys(net);
    return !net->failed;
}

struct convolution {
    const char *module; /* of "convolution" and "normalization" */
    int64_t in, out, kernel, stride;
    bool activated;
};

/* Convolution without bias, batch norm (epsilon of torch, 1e-5), and the activation if asked for. Padding
 * keeps the size. */
static uint32_t convolve(struct resnet *r, uint32_t x, const struct convolution *c)
{
    struct vc_net *net = r->net;
    int64_t pad = c->kernel / 2;
    struct vc_graph_attr attrs[3] = {vc_attr_ints("strides", (int64_t[]){c->stride, c->stride}, 2),
                                     vc_attr_ints("pads", (int64_t[]){pad, pad, pad, pad}, 4),
                                     vc_attr_ints("kernel_shape", (int64_t[]){c->kernel, c->kernel}, 2)};
    struct vc_graph_attr epsilon = vc_attr_float("epsilon", 1e-5);
    static const char *const names[4] = {"weight", "bias", "running_mean", "running_var"};
    struct vc_net_tensor weight = {
        .name = vc_net_print(net, "%s.convolution.weight", c->module),
        .n_dims = 4,
        .shape = {(uint64_t)c->out, (uint64_t)c->in, (uint64_t)c->kernel, (uint64_t)c->kernel}};
    uint32_t inputs[5];

    inputs[0] = x;
    inputs[1] = vc_net_param(net, &weight);
    inputs[0] = vc_net_node(net, "Conv", vc_net_print(net, "%s.convolution", c->module), inputs, 2, attrs, 3);
    for (int k = 0; k < 4; k++) {
        inputs[k + 1] = vc_net_vector(net, vc_net_print(net, "%s.normalization.%s", c->module, names[k]), c->out);
    }
    x = vc_net_node(net, "BatchNormalization", vc_net_print(net, "%s.normalization", c->module), inputs, 5, &epsilon,
                    1);
    return c->activated ? vc_net_activation(net, x, c->module, "hidden_act", r->act) : x;
}

/* y = convolutions of x; the shortcut convolves x only if its shape changes; act(y + x). */
static uint32_t residual_layer(struct resnet *r, uint32_t x, const char *module, int64_t in, int64_t out,
                               int64_t stride)
{
    struct vc_net *net = r->net;
    int64_t inner = r->bottleneck ? out / 4 : out;
    struct convolution chain[3] = {
        {vc_net_print(net, "%s.layer.0", module), in, inner, r->bottleneck ? 1 : 3, stride, true},
        {vc_net_print(net, "%s.layer.1", module), inner, inner, 3, 1, r->bottleneck},
        {vc_net_print(net, "%s.layer.2", module), inner, out, 1, 1, false},
    };
    struct convolution shortcut = {vc_net_print(net, "%s.shortcut", module), in, out, 1, stride, false};
    uint32_t y = x;

    if (r->bottleneck && !r->in_bottleneck) {
        chain[0].stride = 1;
        chain[1].stride = stride;
    }
    vc_net_block(net, "%s", module);
    for (int k = 0; k < (r->bottleneck ? 3 : 2); k++) {
        y = convolve(r, y, &chain[k]);
    }
    if (in != out || stride != 1) {
        x = convolve(r, x, &shortcut);
    }
    return vc_net_activation(net, vc_net_add(net, NULL, y, x), module, "hidden_act", r->act);
}

static uint32_t stem(struct resnet *r)
{
    struct vc_net *net = r->net;
    struct vc_graph_attr attrs[3] = {vc_attr_ints("kernel_shape", (int64_t[]){3, 3}, 2),
                                     vc_attr_ints("strides", (int64_t[]){2, 2}, 2),
                                     vc_attr_ints("pads", (int64_t[]){1, 1, 1, 1}, 4)};
    struct convolution first = {"embedder.embedder", r->channels, r->stem, 7, 2, true};
    struct vc_dim shape[4];

    shape[0] = vc_dim_symbol(&net->graph->dims, "batch");
    shape[1] = vc_dim_number(r->channels);
    shape[2] = vc_dim_symbol(&net->graph->dims, "height");
    shape[3] = vc_dim_symbol(&net->graph->dims, "width");
    vc_net_block(net, "embedder");
    uint32_t x = vc_graph_add_input(net->graph, "pixel_values", VC_DTYPE_F32, shape, 4);
    x = convolve(r, x, &first);
    return vc_net_node(net, "MaxPool", "embedder.pooler", &x, 1, attrs, 3);
}

/* The first layer of each stage halves the image, of the first stage only with "downsample_in_first_stage". */
static void build_resnet(struct vc_net *net)
{
    struct resnet r = {.net = net};

    if (!read_config(&r)) {
        return;
    }
    uint32_t x = stem(&r);
    int64_t in = r.stem;
    for (int64_t s = 0; s < r.n_stages; s++) {
        for (int64_t k = 0; k < r.depths[s] && net->graph->status == VC_OK; k++) {
            x = residual_layer(&r, x, vc_net_print(net, "encoder.stages.%lld.layers.%lld", (long long)s, (long long)k),
                               in, r.sizes[s], k != 0 || (s == 0 && !r.early) ? 1 : 2);
            in = r.sizes[s];
        }
    }
    if (net->head == VC_NET_BASE) {
        vc_net_output(net, x, "last_hidden_state");
    }
    vc_net_block(net, "pooler");
    x = vc_net_op1(net, "GlobalAveragePool", x);
    if (net->head == VC_NET_BASE) {
        vc_net_output(net, x, "pooler_output");
        return;
    }
    vc_net_block(net, "/classifier");
    x = vc_net_op1(net, "Flatten", x);
    vc_net_output(net, vc_net_linear(net, x, "/classifier.1", in, vc_net_labels(net), true), "logits");
}

static const char *const unused[] = {"*.num_batches_tracked", NULL};

const struct vc_net_family vc_net_resnet = {.type = "resnet",
                                            .class_name = "ResNet",
                                            .prefix = "resnet.",
                                            .probe = "embedder.embedder.convolution.weight",
                                            .heads = VC_NET_BASE | VC_NET_IMAGE,
                                            .usual = VC_NET_BASE,
                                            .unused = unused,
                                            .build = build_resnet};
