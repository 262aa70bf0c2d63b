/* divide.c - one device of several: which products tensor parallelism divides, which nodes a stage of a pipeline
 * computes, and which products have adapters of low rank.
 *
 * Tensor parallelism, as Megatron-LM does it:
 *
 *     x --> [ q, k, v: columns ] --> heads --> [ output: rows ] --> sum over devices
 *     x --> [ gate, up: columns ] --> neurons --> [ down: rows ] --> sum over devices
 *
 * look_back asks from the end of the graph in how many parts the readers of each value take it; divide_node then goes
 * forward and divides weights and values accordingly. */

#include "memory/timeline/timeline.h"

/* ---- layers ---- */

/* Whether blocks of the graph name layers, as in decoders. */
static bool has_layers(const struct vc_graph *graph)
{
    for (uint32_t n = 0; n < vc_graph_node_count(graph); n++) {
        if (vc_block_layer(vc_graph_node(graph, n)->block) != 0) {
            return true;
        }
    }
    return false;
}

/* The weight of a product with one, MatMul or Gemm; VC_NO_VALUE for other nodes. */
uint32_t vc_product_weight(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    if ((!vc_node_is(node, VC_OP_matmul) && !vc_node_is(node, VC_OP_gemm)) || node->n_inputs < 2 ||
        node->inputs[0] == VC_NO_VALUE || node->inputs[1] == VC_NO_VALUE) {
        return VC_NO_VALUE;
    }
    const struct vc_graph_value *weight = vc_graph_value(graph, node->inputs[1]);
    return weight->kind == VC_VALUE_PARAMETER && weight->n_dims == 2 ? node->inputs[1] : VC_NO_VALUE;
}

/* A parameter of one dimension: a bias. */
static bool is_vector(const struct vc_graph *graph, uint32_t v)
{
    const struct vc_graph_value *value = v != VC_NO_VALUE ? vc_graph_value(graph, v) : NULL;

    return value != NULL && value->kind == VC_VALUE_PARAMETER && value->n_dims == 1;
}

/* ---- products that are divided ----
 *
 *     x -> [q k v, up, gate: columns] -> heads, activation functions -> [o, down: rows] -> sum over the devices
 *
 * A product is divided along its outputs where what becomes of them goes into other products of the layer only; those
 * are divided along their inputs then. */

/* Ops that compute each element, or move them, without looking along the last axis. */
static bool is_local(const struct vc_graph_node *node)
{
    static const enum vc_op local[] = {VC_OP_clip,
                                       VC_OP_pow,
                                       VC_OP_neg,
                                       VC_OP_cast,
                                       VC_OP_identity,
                                       VC_OP_dropout,
                                       VC_OP_reshape,
                                       VC_OP_transpose,
                                       VC_OP_squeeze,
                                       VC_OP_unsqueeze,
                                       VC_OP_mul,
                                       VC_OP_div,
                                       VC_OP_rotary_embedding};

    for (size_t k = 0; k < sizeof local / sizeof local[0]; k++) {
        if (vc_node_is(node, local[k])) {
            return true;
        }
    }
    return (vc_op_eager(node) & VC_OP_ONE_BY_ONE) != 0;
}

/* While tensors are divided. */
struct divider {
    struct vc_storages *s;
    unsigned tp;
    bool layered;
    uint32_t vocabulary; /* the table of the most rows: a value; VC_NO_VALUE: none */
    uint32_t *may;       /* by value: in how many parts its readers take it; 0: none has been seen */
};

/* Of models with layers only these are divided. */
static bool in_layer(const struct divider *d, const struct vc_graph_node *node)
{
    return !d->layered || vc_block_layer(node->block) != 0;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The most parts of whole heads, up to n, that are equal: a device with one head more than the others has most. */
static uint32_t parts_of_heads(int64_t heads, uint32_t n)
{
    n = least(n, heads > UINT32_MAX ? UINT32_MAX : (uint32_t)heads);
    while (heads % n != 0) {
        n--;
    }
    return n;
}

/* In how many parts the node can take its input k. */
static uint32_t parts_of_input(const struct divider *d, const struct vc_graph_node *node, unsigned k)
{
    const struct vc_graph *graph = d->s->graph;
    uint32_t out = node->n_outputs != 0 && node->outputs[0] != VC_NO_VALUE ? d->may[node->outputs[0]] : 0;
    uint32_t then = out == 0 ? 1 : out;
    unsigned n_dims = vc_graph_value(graph, node->inputs[k])->n_dims;

    if (vc_product_weight(graph, node) != VC_NO_VALUE) {
        return k == 0 && in_layer(d, node) ? d->tp : 1;
    }
    if (vc_node_is(node, VC_OP_attention)) {
        int64_t heads = k > 2 ? 1 : vc_node_int(node, k == 0 ? "q_num_heads" : "kv_num_heads", 1);

        return then == 1 || heads < 1 ? 1 : parts_of_heads(heads, d->tp);
    }
    if (vc_node_is(node, VC_OP_add)) {
        return is_vector(graph, node->inputs[0]) || is_vector(graph, node->inputs[1]) ? then : 1;
    }
    if (vc_node_is(node, VC_OP_rms_norm) || vc_node_is(node, VC_OP_layer_norm)) {
        return k == 0 && n_dims == 4 ? then : 1;
    }
    return is_local(node) ? then : 1;
}

/* Outputs of the graph are whole. A value has as many parts as the reader that wants fewest. */
static void look_back(struct divider *d)
{
    const struct vc_graph *graph = d->s->graph;

    for (uint32_t k = 0; k < vc_graph_output_count(graph); k++) {
        d->may[vc_graph_output(graph, k)] = 1;
    }
    for (uint32_t n = d->s->n_nodes; n-- > 0;) {
        const struct vc_graph_node *node = vc_graph_node(graph, n);

        for (unsigned k = 0; k < node->n_inputs; k++) {
            uint32_t v = node->inputs[k];

            if (v != VC_NO_VALUE) {
                uint32_t parts = parts_of_input(d, node, k);

                d->may[v] = d->may[v] == 0 ? parts : least(d->may[v], parts);
            }
        }
    }
}

/* Words are looked up in the table of the most rows. */
static void find_vocabulary(struct divider *d)
{
    int64_t most = 0;

    d->vocabulary = VC_NO_VALUE;
    for (uint32_t n = 0; n < d->s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(d->s->graph, n);
        const struct vc_graph_value *table =
            vc_node_is(node, VC_OP_gather) ? vc_graph_value(d->s->graph, node->inputs[0]) : NULL;

        if (table != NULL && table->kind == VC_VALUE_PARAMETER && table->n_dims == 2 && table->shape[0].size > most) {
            most = table->shape[0].size;
            d->vocabulary = node->inputs[0];
        }
    }
}

static bool is_parameter(const struct vc_graph *graph, uint32_t v)
{
    return v != VC_NO_VALUE && vc_graph_value(graph, v)->kind == VC_VALUE_PARAMETER;
}

/* The result of a product is an output of the graph, or becomes one with the bias. */
static bool makes_output(const struct vc_graph *graph, uint32_t v)
{
    for (uint32_t k = 0; k < vc_graph_output_count(graph); k++) {
        uint32_t y = vc_graph_output(graph, k);
        uint32_t maker = vc_graph_value(graph, y)->node;
        const struct vc_graph_node *node = maker != VC_NO_NODE ? vc_graph_node(graph, maker) : NULL;

        if (y == v || (node != NULL && vc_node_is(node, VC_OP_add) &&
                       ((node->inputs[0] == v && is_parameter(graph, node->inputs[1])) ||
                        (node->inputs[1] == v && is_parameter(graph, node->inputs[0]))))) {
            return true;
        }
    }
    return false;
}

/* A product with as many outputs as there are words is the output layer. */
static bool is_head(const struct divider *d, uint32_t weight)
{
    const struct vc_graph_value *w = vc_graph_value(d->s->graph, weight);

    return d->vocabulary != VC_NO_VALUE &&
           w->shape[w->n_dims - 1].size == vc_graph_value(d->s->graph, d->vocabulary)->shape[0].size;
}

/* Inputs that are in parts ask for rows of the weight; else its columns are divided, where readers take the result
 * so. */
static void divide_product(struct divider *d, const struct vc_graph_node *node, uint32_t weight)
{
    uint32_t *shard = d->s->shard;
    uint32_t out = node->outputs[0];

    if (shard[node->inputs[0]] > 1) {
        shard[weight] = shard[node->inputs[0]]; /* rows; the results are sums, of which every device has all */
    } else if (is_head(d, weight)) {
        shard[weight] = shard[out] = d->tp;
    } else if (in_layer(d, node) && d->may[out] > 1) {
        shard[weight] = shard[out] = d->may[out];
    }
    if (node->n_inputs > 2 && node->inputs[2] != VC_NO_VALUE) {
        shard[node->inputs[2]] = shard[out];
    }
}

/* Other nodes pass parts on. A vector that is added to parts is divided as they are. */
static void divide_node(struct divider *d, const struct vc_graph_node *node)
{
    uint32_t *shard = d->s->shard;
    uint32_t weight = vc_product_weight(d->s->graph, node);
    uint32_t parts = 1;

    if (weight != VC_NO_VALUE) {
        divide_product(d, node, weight);
        return;
    }
    for (unsigned k = 0; k < node->n_inputs; k++) {
        uint32_t v = node->inputs[k];

        if (v != VC_NO_VALUE && vc_graph_value(d->s->graph, v)->kind == VC_VALUE_RESULT && parts < shard[v]) {
            parts = shard[v];
        }
    }
    for (unsigned k = 0; k < node->n_outputs; k++) {
        if (node->outputs[k] != VC_NO_VALUE) {
            shard[node->outputs[k]] = parts;
        }
    }
    for (unsigned k = 0; k < node->n_inputs && vc_node_is(node, VC_OP_add); k++) {
        if (is_vector(d->s->graph, node->inputs[k])) {
            shard[node->inputs[k]] = parts;
        }
    }
}

/* What every device has all of is divided along the sequence. */
static void divide_sequence(struct divider *d)
{
    for (uint32_t v = 0; v < d->s->n_values; v++) {
        const struct vc_graph_value *value = vc_graph_value(d->s->graph, v);

        if (value->kind == VC_VALUE_RESULT && value->dtype == VC_DTYPE_F32 && value->n_dims == 3 &&
            d->s->shard[v] == 1 && in_layer(d, vc_graph_node(d->s->graph, value->node))) {
            d->s->shard[v] = d->tp;
        }
    }
}

/* A figure of "one device of two" that is the figure of one would be no answer. */
static enum vc_status check_divided(const struct vc_storages *s)
{
    uint32_t v = 0;

    while (v < s->n_values && s->shard[v] == 1) {
        v++;
    }
    return v < s->n_values ? VC_OK
                           : vc_fail(s->ctx, VC_E_UNSUPPORTED,
                                     "%s: nothing of this graph is divided (products of layers and of a vocabulary "
                                     "are, convolutions are not): every device would hold the whole model",
                                     vc_option(s->ctx, "tp"));
}

/* The table of tokens is divided by its rows, as vocabularies are. */
enum vc_status vc_divide_tensors(struct vc_storages *s)
{
    struct divider d = {.s = s, .tp = s->options->tp, .layered = has_layers(s->graph)};

    find_vocabulary(&d);
    s->vocabulary = d.vocabulary;
    for (uint32_t v = 0; v < s->n_values; v++) {
        s->shard[v] = 1;
    }
    if (d.tp < 2) {
        return VC_OK;
    }
    VC_CALL(VC_ZEROS(s->ctx, VC_TAG_MISC, d.may, s->n_values));
    look_back(&d);
    if (d.vocabulary != VC_NO_VALUE) {
        s->shard[d.vocabulary] = d.tp;
    }
    for (uint32_t n = 0; n < s->n_nodes; n++) {
        divide_node(&d, vc_graph_node(s->graph, n));
    }
    if (s->options->sequence_parallel) {
        divide_sequence(&d);
    }
    vc_free(s->ctx, d.may);
    return check_divided(s);
}

/* ---- stages ---- */

/* The layer of each node, from 0 on; nodes before the first are in it, others in the layer before them. Without
 * numbered blocks each product and convolution begins one. Returns how many there are. */
static uint32_t number_layers(const struct vc_graph *graph, bool layered, uint32_t *layer)
{
    const char *last = "";
    size_t length = 0;
    uint32_t n_layers = 0;

    for (uint32_t n = 0; n < vc_graph_node_count(graph); n++) {
        const struct vc_graph_node *node = vc_graph_node(graph, n);
        size_t own = vc_block_layer(node->block);

        if (layered ? own != 0 && (own != length || strncmp(node->block, last, own) != 0)
                    : vc_node_has_weights(graph, node)) {
            n_layers++;
            last = node->block;
            length = own;
        }
        layer[n] = n_layers == 0 ? 0 : n_layers - 1;
        if (layered && own == 0 && n_layers != 0) {
            layer[n] = UINT32_MAX; /* known once all are counted: behind the last layer, or beside them */
        }
    }
    return n_layers;
}

/* Whether a value comes from weights: what does not (masks, positions) is computed wherever it is needed. */
static bool find_weighted(const struct vc_storages *s, uint32_t n, bool *weighted)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    bool any = false;

    for (unsigned k = 0; k < node->n_inputs; k++) {
        uint32_t v = node->inputs[k];

        any = any || (v != VC_NO_VALUE && (weighted[v] || vc_graph_value(s->graph, v)->kind == VC_VALUE_PARAMETER));
    }
    for (unsigned k = 0; k < node->n_outputs; k++) {
        if (node->outputs[k] != VC_NO_VALUE) {
            weighted[node->outputs[k]] = any;
        }
    }
    return any;
}

/* Layers go to stages in order, in one piece or in chunks by turns; what follows the last layer is in the last stage,
 * what comes before the first one in the first. */
static void choose_nodes(struct vc_storages *s, unsigned stage, uint32_t *layer, bool *weighted)
{
    unsigned stages = s->options->pp;
    unsigned chunks =
        s->options->schedule == VC_PIPELINE_INTERLEAVED && s->options->chunks > 1 ? s->options->chunks : 1;
    uint32_t n_layers = number_layers(s->graph, has_layers(s->graph), layer);
    uint32_t each = (n_layers + stages * chunks - 1) / (stages * chunks);
    bool behind = true;

    for (uint32_t n = s->n_nodes; n-- > 0;) {
        uint32_t own = layer[n];

        behind = behind && own == UINT32_MAX;
        layer[n] = behind ? stages - 1 : own == UINT32_MAX || each == 0 ? 0 : own / each % stages;
    }
    for (uint32_t n = 0; n < s->n_nodes; n++) {
        s->idle[n] = find_weighted(s, n, weighted) && layer[n] != stage;
    }
}

/* Nodes of other stages are idle: they take nothing on this device. */
enum vc_status vc_divide_stages(struct vc_storages *s, unsigned stage)
{
    uint32_t *layer;
    bool *weighted;

    memset(s->idle, 0, s->n_nodes * sizeof *s->idle);
    if (s->options->pp < 2) {
        return VC_OK;
    }
    layer = vc_alloc_array(s->ctx, VC_TAG_MISC, s->n_nodes, sizeof *layer);
    weighted = vc_calloc_array(s->ctx, VC_TAG_MISC, s->n_values, sizeof *weighted);
    if (layer != NULL && weighted != NULL) {
        choose_nodes(s, stage, layer, weighted);
    }
    vc_free(s->ctx, layer);
    vc_free(s->ctx, weighted);
    return layer != NULL && weighted != NULL ? VC_OK : VC_E_NOMEM;
}

/* ---- adapters ---- */

/* The node whose result the value is, seen through what does not change what it is made of: a product with a weight,
 * attention; VC_NO_NODE: none. */
static uint32_t origin(const struct vc_graph *graph, uint32_t v)
{
    for (;;) {
        const struct vc_graph_value *value = v != VC_NO_VALUE ? vc_graph_value(graph, v) : NULL;
        const struct vc_graph_node *node =
            value != NULL && value->node != VC_NO_NODE ? vc_graph_node(graph, value->node) : NULL;

        if (node == NULL || vc_product_weight(graph, node) != VC_NO_VALUE || vc_node_is(node, VC_OP_attention)) {
            return node == NULL ? VC_NO_NODE : value->node;
        }
        if (vc_node_is(node, VC_OP_add)) {
            v = node->inputs[is_vector(graph, node->inputs[0])];
        } else if (is_local(node) || strstr(node->op, "Normalization") != NULL) {
            v = node->inputs[0];
        } else {
            return VC_NO_NODE;
        }
    }
}

static bool is_attention(const struct vc_graph *graph, uint32_t n)
{
    return n != VC_NO_NODE && vc_node_is(vc_graph_node(graph, n), VC_OP_attention);
}

/* Queries, keys, values are inputs 0 to 2. Keys have adapters where the targets are all of attention. */
static void adapt_attention(struct vc_storages *s, const struct vc_graph_node *node)
{
    for (unsigned k = 0; k < 3; k++) {
        uint32_t from = origin(s->graph, node->inputs[k]);

        if (from != VC_NO_NODE && !is_attention(s->graph, from) &&
            (k != 1 || s->options->targets == VC_LORA_ATTENTION)) {
            s->adapted[from] = true;
        }
    }
}

/* Returns whether some product has an adapter. */
bool vc_find_adapted(struct vc_storages *s)
{
    bool layered = has_layers(s->graph);
    bool any = false;

    for (uint32_t n = 0; n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);
        bool product = vc_product_weight(s->graph, node) != VC_NO_VALUE;

        if (s->options->targets == VC_LORA_ALL) {
            s->adapted[n] =
                product && (!layered || vc_block_layer(node->block) != 0) && !makes_output(s->graph, node->outputs[0]);
        } else if (vc_node_is(node, VC_OP_attention)) {
            adapt_attention(s, node);
        } else if (product && s->options->targets == VC_LORA_ATTENTION &&
                   is_attention(s->graph, origin(s->graph, node->inputs[0]))) {
            s->adapted[n] = true;
        }
    }
    for (uint32_t n = 0; n < s->n_nodes; n++) {
        any = any || s->adapted[n];
    }
    return any;
}
