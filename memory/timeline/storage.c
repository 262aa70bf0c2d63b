/* storage.c - which values of a graph share memory, how many bytes each takes, what the backward pass needs. */

#include "core/base/checked.h"
#include "memory/timeline/timeline.h"

#define TRAINS(s) ((s)->options->mode != VC_MEMORY_INFER)

/* ---- sizes ---- */

/* Numbers of positions and masks have widths of their own. */
static bool is_float(const struct vc_graph_value *value)
{
    return value->dtype == VC_DTYPE_F32;
}

#define MAX_CHOSEN 65536U /* experts of a token, in a product with elements */

/* On this device. */
static uint64_t elems_of(const struct vc_storages *s, uint32_t value)
{
    return s->bytes[value] / s->width[value];
}

/* ---- precision ---- */

/* The width of results that follow from those of the inputs. */
static unsigned widest_input(const struct vc_storages *s, const struct vc_graph_node *node)
{
    unsigned width = 0;

    for (unsigned k = 0; k < node->n_inputs; k++) {
        uint32_t v = node->inputs[k];

        if (v != VC_NO_VALUE && is_float(vc_graph_value(s->graph, v)) &&
            vc_graph_value(s->graph, v)->kind != VC_VALUE_CONSTANT) {
            width = s->width[v] > width ? s->width[v] : width;
        }
    }
    return width == 0 ? s->float_bytes : width;
}

/* The bias of a linear layer is added where the product is: input k of the Add is that product. */
static bool is_bias(const struct vc_storages *s, const struct vc_graph_node *node, unsigned *k)
{
    if (!vc_node_is(node, VC_OP_add)) {
        return false;
    }
    for (*k = 0; *k < 2; (*k)++) {
        const struct vc_graph_value *product = vc_graph_value(s->graph, node->inputs[*k]);
        const struct vc_graph_value *bias = vc_graph_value(s->graph, node->inputs[1 - *k]);

        if (bias->kind == VC_VALUE_PARAMETER && bias->n_dims == 1 && product->kind == VC_VALUE_RESULT &&
            product->n_uses == 1 && vc_node_is(vc_graph_node(s->graph, product->node), VC_OP_matmul)) {
            return true;
        }
    }
    return false;
}

/* Bytes of an element of what the node makes. */
static unsigned output_width(const struct vc_storages *s, uint32_t n, const struct vc_graph_value *value)
{
    unsigned product;

    if (value->dtype == VC_DTYPE_BOOL) {
        return 1;
    }
    if (!is_float(value)) {
        return 8;
    }
    if (s->options->amp != VC_AMP_AUTOCAST) {
        return s->float_bytes;
    }
    if (vc_node_is(vc_graph_node(s->graph, n), VC_OP_batch_norm)) {
        return s->width[vc_graph_node(s->graph, n)->inputs[0]]; /* its own numbers are f32, and change nothing */
    }
    return (s->eager[n] & VC_EAGER_HALF) != 0 || is_bias(s, vc_graph_node(s->graph, n), &product) ? 2
           : (s->eager[n] & VC_EAGER_FLOAT) != 0                                                  ? 4
                                                 : widest_input(s, vc_graph_node(s->graph, n));
}

/* Of n, which counts all tokens, what an expert has of it that gets as many as the others: however the router chooses,
 * all experts together have as much. */
static uint64_t share_of_expert(const struct vc_storages *s, uint64_t n)
{
    uint32_t chosen = 0;
    uint32_t all = vc_graph_experts(s->graph, &chosen);

    return all == 0 || n > VC_TOO_MANY / MAX_CHOSEN ? n : vc_ceil_div_u64(n * chosen, all);
}

/* Sets width and bytes. A size that is not known makes the whole unknown; the first name is kept for the sentence. */
static void size_value(struct vc_storages *s, uint32_t v, unsigned width)
{
    const struct vc_graph_value *value = vc_graph_value(s->graph, v);
    uint64_t n = 0;

    s->width[v] = (uint8_t)width;
    if (!vc_count_elems(s->graph, value, &n) && s->unknown == NULL) {
        s->unknown = value->name;
        n = 0;
    }
    s->overflow = s->overflow || n == VC_TOO_MANY;
    if (TRAINS(s) && value->kind == VC_VALUE_RESULT && vc_graph_node(s->graph, value->node)->expert) {
        n = share_of_expert(s, n);
    }
    s->bytes[v] = s->used[v] ? vc_ceil_div_u64(n, s->shard[v]) * width : 0;
}

/* Bytes of an element of a value that no node makes. */
static unsigned outer_width(const struct vc_storages *s, const struct vc_graph_value *value)
{
    if (value->dtype == VC_DTYPE_BOOL) {
        return 1;
    }
    if (!is_float(value)) {
        return 8;
    }
    return s->options->amp == VC_AMP_AUTOCAST ? 4 : s->float_bytes; /* what comes from outside is f32 there */
}

/* Inputs and parameters first, then results in the order of the nodes: widths of results follow from those of
 * inputs. */
static void size_all(struct vc_storages *s)
{
    for (uint32_t v = 0; v < s->n_values; v++) {
        const struct vc_graph_value *value = vc_graph_value(s->graph, v);

        if (value->kind != VC_VALUE_RESULT) {
            size_value(s, v, outer_width(s, value));
        }
    }
    for (uint32_t n = 0; n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);

        for (unsigned k = 0; k < node->n_outputs; k++) {
            if (node->outputs[k] != VC_NO_VALUE) {
                size_value(s, node->outputs[k], output_width(s, n, vc_graph_value(s->graph, node->outputs[k])));
            }
        }
    }
}

/* ---- gradients ---- */

/* Running statistics of BatchNormalization are not trained; nor are codes, which are integers. */
static bool is_statistic(const struct vc_graph_node *node, unsigned k)
{
    return vc_node_is(node, VC_OP_batch_norm) && k >= 3;
}

/* Parameters that training updates without gradients: running means and variances. */
static void find_statistics(struct vc_storages *s)
{
    for (uint32_t n = 0; n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);

        for (unsigned k = 0; k < node->n_inputs; k++) {
            if (node->inputs[k] != VC_NO_VALUE && is_statistic(node, k)) {
                s->statistic[node->inputs[k]] = true;
            }
        }
    }
}

/* What has a gradient: weights that are trained, and all values that depend on them. */
static void find_trained(struct vc_storages *s)
{
    for (uint32_t n = 0; TRAINS(s) && n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);
        bool trained = false;

        for (unsigned k = 0; k < node->n_inputs; k++) {
            uint32_t v = node->inputs[k];

            if (v != VC_NO_VALUE && vc_graph_value(s->graph, v)->kind == VC_VALUE_PARAMETER) {
                s->trained[v] = s->trained[v] || (s->options->lora_rank == 0 && !s->statistic[v] &&
                                                  is_float(vc_graph_value(s->graph, v)));
            }
            trained = trained || (v != VC_NO_VALUE && s->trained[v]);
        }
        trained = trained || s->adapted[n];
        for (unsigned k = 0; trained && k < node->n_outputs; k++) {
            uint32_t v = node->outputs[k];

            if (v != VC_NO_VALUE && is_float(vc_graph_value(s->graph, v))) {
                s->trained[v] = true;
                s->unknown_op = (s->eager[n] & VC_EAGER_UNKNOWN) != 0 ? node->op : s->unknown_op;
            }
        }
    }
}

/* ---- what is saved ---- */

static bool is_result(const struct vc_storages *s, uint32_t v)
{
    return v != VC_NO_VALUE && vc_graph_value(s->graph, v)->kind == VC_VALUE_RESULT;
}

/* x * sigmoid(x), which frameworks have as one operator: the Mul, whose input k is x. */
static bool is_silu(const struct vc_storages *s, const struct vc_graph_node *node, unsigned *k)
{
    if (!vc_node_is(node, VC_OP_mul)) {
        return false;
    }
    for (*k = 0; *k < 2; (*k)++) {
        const struct vc_graph_value *gate = vc_graph_value(s->graph, node->inputs[1 - *k]);
        const struct vc_graph_node *maker = gate->node != VC_NO_NODE ? vc_graph_node(s->graph, gate->node) : NULL;

        if (maker != NULL && vc_node_is(maker, VC_OP_sigmoid) && gate->n_uses == 1 &&
            maker->inputs[0] == node->inputs[*k]) {
            return true;
        }
    }
    return false;
}

/* Their Sigmoid is not there by itself. */
static void find_gates(struct vc_storages *s)
{
    unsigned k;

    for (uint32_t n = 0; n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);

        if (is_silu(s, node, &k)) {
            uint32_t gate = node->inputs[1 - k];

            s->gate[vc_graph_value(s->graph, gate)->node] = true;
            s->bytes[gate] = 0;
        }
    }
}

/* Modules compute in PyTorch's operators; Megatron's, which have a softmax of their own, in larger ones. */
static bool is_stepwise(const struct vc_storages *s)
{
    return s->options->attention != VC_ATTENTION_SOFTMAX;
}

/* A product needs one factor for the gradient of the other. */
static bool other_is_trained(const struct vc_storages *s, const struct vc_graph_node *node, unsigned k)
{
    for (unsigned i = 0; i < node->n_inputs; i++) {
        if (i != k && node->inputs[i] != VC_NO_VALUE && s->trained[node->inputs[i]]) {
            return true;
        }
    }
    return false;
}

/* A norm of half precision, which computes with a copy as f32: RMSNormalization, and one with nothing to learn (OLMo).
 */
static bool is_half_norm(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    bool plain =
        vc_node_is(node, VC_OP_layer_norm) && vc_graph_value(s->graph, node->inputs[1])->kind == VC_VALUE_CONSTANT;

    return is_stepwise(s) && (plain || vc_node_is(node, VC_OP_rms_norm)) && s->width[node->inputs[0]] == 2 &&
           vc_storages_cast_bytes(s, n, 0) == 0;
}

/* LayerNormalization with operators one by one, in f32 (Cohere). */
static bool is_wide_norm(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);

    return is_stepwise(s) && vc_node_is(node, VC_OP_layer_norm) &&
           vc_graph_value(s->graph, node->outputs[0])->wide_scale;
}

/* k counts inputs; behind them it stands for the output. What is computed again from other saved values is not
 * saved. */
bool vc_storages_saves(const struct vc_storages *s, uint32_t n, unsigned k)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    unsigned saves = s->eager[n];
    uint32_t out = node->n_outputs != 0 ? node->outputs[0] : VC_NO_VALUE;
    uint32_t v = k < node->n_inputs ? node->inputs[k] : out;
    unsigned x;

    for (unsigned i = 1; out == VC_NO_VALUE && i < node->n_outputs; i++) {
        out = node->outputs[i]; /* of a recurrent layer the last state alone */
    }

    if (!TRAINS(s) || v == VC_NO_VALUE || out == VC_NO_VALUE || !s->trained[out] || s->gate[n] || s->idle[n] ||
        vc_graph_value(s->graph, v)->kind == VC_VALUE_PARAMETER ||
        vc_graph_value(s->graph, v)->kind == VC_VALUE_CONSTANT) {
        return false;
    }
    if (is_silu(s, node, &x)) {
        return k == x;
    }
    if (k == node->n_inputs) { /* the output of attention as products is needed by the product behind it alone */
        return (saves & VC_NEEDS_Y) != 0 && (!vc_node_is(node, VC_OP_attention) || vc_storages_fused(s, n));
    }
    if (((k == 1 || k == 2) && vc_storages_repeats_keys(s, n)) || (k == 3 && v == vc_storages_bias(s, n))) {
        return false; /* copies of them are kept: attention_bytes; the sum of scores and numbers needs neither */
    }
    if (k == 1 && vc_node_is(node, VC_OP_gather) && s->trained[node->inputs[0]]) {
        return is_result(s, v) && vc_graph_value(s->graph, v)->n_dims > 1; /* computed, as buckets of positions (T5) */
    }
    if (k == 0 && (is_half_norm(s, n) || is_wide_norm(s, n))) {
        return vc_graph_value(s->graph, out)->stepwise;
    }
    if (k == 0 && s->adapted[n] && s->width[v] == 4) {
        return true; /* the adapter, of f32, needs it; of another width it keeps a copy (vc_storages_extra_bytes) */
    }
    return (k < 2 && (saves & VC_NEEDS_IN(k)) != 0) ||
           ((saves & VC_NEEDS_INPUTS) != 0 && other_is_trained(s, node, k) && is_float(vc_graph_value(s->graph, v)));
}

/* Sizes of such values are those of the rows that the expert has; others are of all tokens. */
static bool is_of_expert(const struct vc_storages *s, uint32_t v)
{
    const struct vc_graph_node *maker = vc_memory_maker(s->graph, v);

    return maker != NULL && maker->expert;
}

/* Autocast makes a copy of an input in the type of the operator; an expert of its own rows. */
uint64_t vc_storages_cast_bytes(const struct vc_storages *s, uint32_t n, unsigned k)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    uint32_t v = node->inputs[k];
    unsigned want = (s->eager[n] & VC_EAGER_HALF) != 0 ? 2 : 4;

    if (s->options->amp != VC_AMP_AUTOCAST || s->idle[n] || (s->eager[n] & (VC_EAGER_HALF | VC_EAGER_FLOAT)) == 0 ||
        v == VC_NO_VALUE || !is_float(vc_graph_value(s->graph, v)) || s->width[v] == want ||
        (k == 3 && vc_storages_bias(s, n) != VC_NO_VALUE) || /* attention_bytes */
        vc_graph_value(s->graph, v)->kind == VC_VALUE_PARAMETER ||
        vc_graph_value(s->graph, v)->kind == VC_VALUE_CONSTANT) {
        return 0;
    }
    return (node->expert && !is_of_expert(s, v) ? share_of_expert(s, elems_of(s, v)) : elems_of(s, v)) * want;
}

/* A device's part of what is counted from the shape of a value. */
static uint64_t part_of(const struct vc_storages *s, uint32_t v, uint64_t n)
{
    return vc_ceil_div_u64(n, s->shard[v]);
}

/* Scores go through cap * tanh(scores / cap), of which the tangent is kept. */
static bool is_capped(const struct vc_graph_node *node)
{
    return vc_node_float(node, "softcap", 0) > 0;
}

/* What training drops; inference drops nothing, whatever the configuration states. */
static enum vc_dropout dropout_of(const struct vc_storages *s)
{
    return TRAINS(s) ? s->options->dropout : VC_DROPOUT_NEVER;
}

/* The softmax of scores of half precision is one of f32 in most modules, and under autocast in all. */
static unsigned softmax_width(const struct vc_storages *s, const struct vc_graph_value *y, unsigned width)
{
    return s->options->attention == VC_ATTENTION_SOFTMAX || (y->half_softmax && s->options->amp != VC_AMP_AUTOCAST)
               ? width
               : 4;
}

/* In a model with numbers by relative position, what one kernel gets of them in training: a copy for each layer, with the
 * mask of padding that several sequences have. Zeros in their place are one matrix for all layers without that mask. */
static uint64_t bias_bytes(const struct vc_storages *s, uint32_t n)
{
    uint64_t bytes = vc_storages_scores(s, n) * s->width[vc_graph_node(s->graph, n)->outputs[0]];

    return vc_storages_bias(s, n) == VC_NO_VALUE && bytes == vc_storages_zeros(s, n) ? 0 : bytes;
}

/* As one kernel: the sum of each row of scores. As products: the
 * probabilities, in the softmax's precision and, where that of the values is another, as these; the tangent of capped
 * ones; and what dropout makes of them, with its mask. */
static uint64_t attention_bytes(const struct vc_storages *s, uint32_t n, uint64_t *transient)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    uint64_t copies = 0;
    uint64_t scores = vc_storages_scores(s, n);
    const struct vc_graph_value *y = vc_graph_value(s->graph, node->outputs[0]);
    unsigned width = s->width[node->outputs[0]];
    unsigned softmax = softmax_width(s, y, width);
    bool drops = dropout_of(s) == VC_DROPOUT_ALWAYS || (dropout_of(s) == VC_DROPOUT_STATED && y->drops_scores);
    bool fused = vc_storages_fused(s, n);
    unsigned kept;

    if (TRAINS(s) || !fused) {
        copies = vc_storages_copies(s, n);
    }
    if (fused) { /* numbers by position, or zeros in their place, with the mask of padding */
        copies += copies == 0 ? 0 : vc_packed_bytes(s, node->inputs[2]);
        if (TRAINS(s)) {
            copies += s->biased ? bias_bytes(s, n) : vc_storages_window_mask(s, n);
            copies += width == 2 && y->stepwise ? s->bytes[node->outputs[0]] : 0; /* as the kernel made it */
        }
        return scores == 0 ? 0 : copies + scores / vc_storages_positions(s, n) * 4;
    }
    *transient = scores * softmax;
    if (vc_storages_by_onnxruntime(s)) { /* its softmax, too; a mask of bytes becomes floats */
        uint32_t mask = node->n_inputs > 3 ? node->inputs[3] : VC_NO_VALUE;

        *transient = (scores + (mask != VC_NO_VALUE && s->width[mask] == 1 ? elems_of(s, mask) : 0)) * width;
        return 0;
    }
    /* PyTorch's own function for products has queries and keys a second time, times the root of the scale, and the keys of
     * each head before that. */
    if (!TRAINS(s) && !s->biased && !(s->options->attention == VC_ATTENTION_AUTO && copies != 0 && !is_capped(node))) {
        /* the scores are gone before the result is there, ... */
        *transient -= vc_min_u64(*transient, s->bytes[node->outputs[0]]);
    }
    if (s->options->program == VC_RUN_BY_LLAMA_CPP) { /* ... where the queries were; heads share keys as they are */
        return 0;
    }
    kept = softmax + (softmax != width ? width : 0) + (drops ? 1 + (softmax == width ? width : 0) : 0) +
           (TRAINS(s) && is_stepwise(s) && is_capped(node) ? width : 0);
    if (s->options->recompute == VC_RECOMPUTE_SELECTIVE) { /* computed again in the backward step, one at a time */
        *transient = scores * kept;
        return copies;
    }
    return copies + scores * kept;
}

/* What backward steps have besides: of attention matrices of scores, of norms rows of f32, of recurrent layers and gelu_new
 * what their operators make. */
uint64_t vc_storages_backward_bytes(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);

    if (!s->idle[n] && vc_is_recurrent(node)) {
        return vc_recurrent_backward_bytes(s, n);
    }
    if (!s->idle[n] && is_half_norm(s, n) && s->trained[node->outputs[0]]) {
        return elems_of(s, node->outputs[0]) * 14; /* four rows of f32, less the gradient of x, which comes of them */
    }
    if (!s->idle[n] && is_stepwise(s) && vc_node_is(node, VC_OP_rms_norm) && s->trained[node->outputs[0]]) {
        /* five rows, of which one is the gradient of x, when that of y and the rows before the weight are gone */
        return elems_of(s, node->outputs[0]) * 8;
    }
    if (!s->idle[n] && vc_node_is(node, VC_OP_mul) && node->inputs[0] == node->inputs[1]) {
        /* a square is a power in modules: x once more, and twice that */
        return s->trained[node->outputs[0]] ? 2 * s->bytes[node->outputs[0]] : 0;
    }
    if (!s->idle[n] && is_stepwise(s) && vc_node_is(node, VC_OP_gelu) &&
        vc_graph_value(s->graph, node->outputs[0])->stepwise) {
        /* gradients of both factors, half of x and the tangent and one; under autocast f32, of which x has one of half
         * precision */
        return (s->options->amp == VC_AMP_AUTOCAST ? 2 : 1) * s->bytes[node->outputs[0]];
    }
    if (s->idle[n] || !vc_node_is(node, VC_OP_attention) || !s->trained[node->outputs[0]] || !is_stepwise(s)) {
        return 0;
    }
    uint32_t bias = vc_storages_bias(s, n);
    if (vc_storages_fused(s, n)) {
        unsigned sums = vc_node_int(node, "is_causal", 0) != 0 ? 2 : 1; /* of a causal mask the gradient without it */

        return bias != VC_NO_VALUE && s->trained[bias]
                   ? vc_storages_scores(s, n) * s->width[node->outputs[0]] + sums * vc_storages_shared_scores(s, n)
                   : 0;
    }
    return vc_storages_scores(s, n) * 2 *
           softmax_width(s, vc_graph_value(s->graph, node->outputs[0]), s->width[node->outputs[0]]);
}

/* Beside the frozen product: its input as f32, where it has another precision; what the first of the adapter's two
 * products makes. For a while: what the second makes. */
static uint64_t adapter_bytes(const struct vc_storages *s, const struct vc_graph_node *node, uint64_t *transient)
{
    uint32_t x = node->inputs[0];
    const struct vc_graph_value *value = vc_graph_value(s->graph, x);

    *transient = elems_of(s, node->outputs[0]) * 4;
    return (s->width[x] == 4 ? 0 : elems_of(s, x) * 4) + vc_count_rows(s->graph, value) * s->options->lora_rank * 4;
}

/* What reads v reads what dropout leaves of it. */
static bool drops(const struct vc_storages *s, uint32_t v)
{
    return v != VC_NO_VALUE && dropout_of(s) != VC_DROPOUT_NEVER && vc_graph_value(s->graph, v)->dropped;
}

/* A byte for each value that may be dropped; what is left is another copy beside a result that its operator keeps, or
 * beside an input; beside others only until they are gone. */
static uint64_t dropout_bytes(const struct vc_storages *s, uint32_t n, uint64_t *transient)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    uint32_t y = node->outputs[0];
    uint64_t bytes = 0;

    if (drops(s, y) && s->trained[y]) {
        bool copies = vc_storages_saves(s, n, node->n_inputs);

        bytes += elems_of(s, y) + (copies ? s->bytes[y] : 0);
        *transient += copies ? 0 : s->bytes[y];
    }
    for (unsigned k = 0; k < node->n_inputs; k++) {
        uint32_t v = node->inputs[k];

        if (drops(s, v) && vc_graph_value(s->graph, v)->kind == VC_VALUE_INPUT && vc_storages_saves(s, n, k)) {
            bytes += s->bytes[v];
        }
    }
    return bytes;
}

/* An expert begins with a copy of the rows that are its own. */
static uint64_t row_bytes(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);

    return !node->expert || (n > 0 && vc_graph_node(s->graph, n - 1)->expert) ||
                   vc_product_weight(s->graph, node) == VC_NO_VALUE
               ? 0
               : share_of_expert(s, elems_of(s, node->inputs[0])) * s->width[node->inputs[0]];
}

/* RMSNormalization in operators of its own: the rows before the weight, of the input's type, or (where the scale is 1 +
 * weight, or the product is one of f32) of f32; of an input of half precision a copy as f32, as a norm with nothing to
 * learn has. LayerNormalization in operators: x less its mean twice, for the square and for the result before the
 * weight, which is the third, all f32. */
static uint64_t norm_bytes(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    uint32_t y = node->outputs[0];
    uint64_t elems = elems_of(s, y);
    uint64_t bytes = 0;

    if (!is_stepwise(s)) {
        return 0;
    }
    if (is_wide_norm(s, n)) {
        return elems * (s->trained[node->inputs[1]] ? 12 : 8);
    }
    if (vc_node_is(node, VC_OP_rms_norm) && node->n_inputs > 1 && s->trained[node->inputs[1]]) {
        bool wide = is_result(s, node->inputs[1]) || vc_graph_value(s->graph, y)->wide_scale;

        bytes += wide ? vc_max_u64(elems * 4, s->bytes[y]) : s->bytes[y];
    }
    return bytes + (is_half_norm(s, n) ? elems * 4 : 0);
}

/* Cosines and sines of rotary positions, whole rows for each half of a head. */
static uint64_t table_bytes(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    bool rotary = false;

    if (!TRAINS(s) || (!vc_node_is(node, VC_OP_cos) && !vc_node_is(node, VC_OP_sin)) || s->trained[node->outputs[0]]) {
        return 0;
    }
    for (uint32_t k = n; !rotary && k < s->n_nodes; k++) {
        rotary = vc_node_is(vc_graph_node(s->graph, k), VC_OP_rotary_embedding);
    }
    return rotary ? 2 * s->bytes[node->outputs[0]] : 0;
}

/* The size of a dimension, counted from the last one, in which a value may have fewer. */
static uint64_t dim_from_end(const struct vc_storages *s, uint32_t v, unsigned d)
{
    const struct vc_graph_value *value = vc_graph_value(s->graph, v);

    return d < value->n_dims ? (uint64_t)vc_graph_dim_value(s->graph, value->shape[value->n_dims - 1 - d]) : 1;
}

/* onnxruntime's Gelu has x / sqrt(2), and BiasGelu the sum; its Where chooses from either side into a tensor of its own,
 * as large as the condition and that side together, before it joins the two. */
static uint64_t onnxruntime_bytes(const struct vc_storages *s, const struct vc_graph_node *node)
{
    uint32_t y = node->outputs[0];
    uint64_t bytes = 0;

    if (vc_node_is(node, VC_OP_gelu)) {
        return s->bytes[y];
    }
    for (unsigned k = 1; vc_node_is(node, VC_OP_where) && k < 3; k++) {
        uint64_t chosen = s->width[y];

        for (unsigned d = 0; d < vc_graph_value(s->graph, y)->n_dims; d++) {
            chosen *= vc_max_u64(dim_from_end(s, node->inputs[0], d), dim_from_end(s, node->inputs[k], d));
        }
        bytes += chosen;
    }
    return bytes;
}

/* *transient: what only lives while the node computes; the rest is kept for the backward pass. */
uint64_t vc_storages_extra_bytes(const struct vc_storages *s, uint32_t n, uint64_t *transient)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    const struct vc_graph_value *x =
        node->n_inputs != 0 && node->inputs[0] != VC_NO_VALUE ? vc_graph_value(s->graph, node->inputs[0]) : NULL;
    unsigned saves = s->eager[n];
    uint64_t bytes = 0;

    *transient = 0;
    if (s->idle[n]) {
        return 0;
    }
    if (vc_node_is(node, VC_OP_attention)) {
        return attention_bytes(s, n, transient);
    }
    if (vc_is_recurrent(node)) {
        return vc_recurrent_extra_bytes(s, n, transient);
    }
    if (s->adapted[n] && TRAINS(s)) {
        return adapter_bytes(s, node, transient);
    }
    bytes = vc_recurrent_copy_bytes(s, n);
    if (x == NULL || node->outputs[0] == VC_NO_VALUE || !s->trained[node->outputs[0]]) {
        bool computes = node->n_outputs != 0 && node->outputs[0] != VC_NO_VALUE;

        *transient = bytes + (computes && vc_storages_by_onnxruntime(s) ? onnxruntime_bytes(s, node) : 0);
        return node->n_outputs != 0 && node->outputs[0] != VC_NO_VALUE ? table_bytes(s, n) : 0;
    }
    bytes += dropout_bytes(s, n, transient) + vc_beside_bytes(s, n) + row_bytes(s, n);
    if ((saves & VC_NEEDS_CHANNELS) != 0 && x->n_dims > 1 && s->unknown == NULL) {
        bytes += 8 * (uint64_t)vc_graph_dim_value(s->graph, x->shape[1]);
    }
    if ((saves & VC_NEEDS_ROWS) != 0) {
        bool rms = vc_node_is(node, VC_OP_rms_norm);

        bytes += (rms ? 4 : 8) * part_of(s, node->inputs[0], vc_count_rows(s->graph, x));
        bytes += norm_bytes(s, n);
    }
    if (is_stepwise(s) && vc_node_is(node, VC_OP_gelu) && vc_graph_value(s->graph, node->outputs[0])->stepwise) {
        bytes += 2 * s->bytes[node->outputs[0]] + s->bytes[node->inputs[0]]; /* in operators of its own: the tangent,
                                                                              * the tangent and one, half of x */
    }
    if ((saves & VC_NEEDS_PLACES) != 0) {
        bytes += 8 * elems_of(s, node->outputs[0]);
    }
    if (dropout_of(s) == VC_DROPOUT_ALWAYS && vc_node_is(node, VC_OP_add) && node->n_inputs == 2 &&
        is_result(s, node->inputs[0]) && is_result(s, node->inputs[1]) && !drops(s, node->inputs[0]) &&
        !drops(s, node->inputs[1])) { /* where a branch joins the stream again, its values are dropped */
        bytes += elems_of(s, node->outputs[0]);
    }
    return bytes;
}

/* Weights that are codes and become floats for the time of the product. */
uint64_t vc_storages_decoded_bytes(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    uint64_t bytes = 0;

    if (s->options->program == VC_RUN_BY_BITSANDBYTES && !TRAINS(s) && node->n_inputs != 0 &&
        node->inputs[0] != VC_NO_VALUE && vc_count_rows(s->graph, vc_graph_value(s->graph, node->inputs[0])) == 1) {
        return 0; /* it has kernels for a product with one row */
    }
    for (unsigned k = 0; !s->idle[n] && k < node->n_inputs; k++) {
        bytes += node->inputs[k] == VC_NO_VALUE ? 0 : s->decoded[node->inputs[k]];
    }
    return bytes;
}

/* ---- sharing ---- */

/* One place along an axis, x[:, 0], is a view; rows that are looked up by numbers are not. onnxruntime copies what only
 * strides would tell: Transpose, Slice, Split, Expand, Gather. */
static bool is_view(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);

    if (vc_storages_by_onnxruntime(s)) {
        return (s->eager[n] & VC_OP_VIEW) != 0;
    }
    if (!vc_node_is(node, VC_OP_gather)) {
        return (s->eager[n] & (VC_OP_VIEW | VC_EAGER_VIEW)) != 0;
    }
    const struct vc_graph_value *index = vc_graph_value(s->graph, node->inputs[1]);
    return is_result(s, node->inputs[0]) && index->kind == VC_VALUE_CONSTANT && index->n_dims == 0;
}

/* Numbers by relative position of T5, which has no mask in them until each layer makes its copy. */
static bool is_bias_for_all(const struct vc_storages *s, const struct vc_graph_node *node)
{
    return vc_node_is(node, VC_OP_where) && vc_graph_value(s->graph, node->outputs[0])->stepwise;
}

/* The gradient of an addition goes to both sides as it is, where nothing else is added to it there. */
static void share_gradients(struct vc_storages *s)
{
    for (uint32_t n = 0; n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);

        for (unsigned k = 0; (s->eager[n] & VC_EAGER_SAME_GRAD) != 0 && k < node->n_inputs; k++) {
            uint32_t v = node->inputs[k];

            if (is_result(s, v) && vc_graph_value(s->graph, v)->n_uses == 1 && s->grad_root[v] == v && !drops(s, v) &&
                s->grad_root[node->outputs[0]] != v && s->bytes[v] == s->bytes[node->outputs[0]]) {
                s->grad_root[v] = node->outputs[0]; /* resolved by following: outputs come later */
            }
        }
    }
    for (uint32_t n = s->n_values; n-- > 0;) {
        while (s->grad_root[s->grad_root[n]] != s->grad_root[n]) {
            s->grad_root[n] = s->grad_root[s->grad_root[n]];
        }
    }
}

/* ---- liveness: what PyTorch's eager mode shares and keeps ---- */

/* The value whose memory output k has: views, and additions in place. */
static uint32_t shares(const void *user, uint32_t n, unsigned k)
{
    const struct vc_storages *s = user;
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    unsigned product;

    if (is_bias_for_all(s, node)) {
        return k == 0 ? node->inputs[1] : VC_NO_VALUE;
    }
    if (vc_storages_by_onnxruntime(s)) { /* which adds a bias as it adds other things: share_in_place */
        return is_view(s, n) ? node->inputs[0] : VC_NO_VALUE;
    }
    return is_view(s, n) ? node->inputs[0] : k == 0 && is_bias(s, node, &product) ? node->inputs[product] : VC_NO_VALUE;
}

/* Nodes of other stages read nothing here. */
static bool reads(const void *user, uint32_t n, unsigned k)
{
    return !((const struct vc_storages *)user)->idle[n];
}

/* A copy is saved in place of the value where one was made. */
static bool saves(const void *user, uint32_t n, unsigned k)
{
    const struct vc_storages *s = user;

    return vc_storages_saves(s, n, k) &&
           (k == vc_graph_node(s->graph, n)->n_inputs || vc_storages_cast_bytes(s, n, k) == 0);
}

struct vc_liveness_policy vc_storages_policy(const struct vc_storages *s)
{
    return (struct vc_liveness_policy){.user = s, .shares = shares, .reads = reads, .saves = saves};
}

/* Gradients share memory as their values do, until later steps find otherwise. */
static void find_uses(struct vc_storages *s)
{
    struct vc_liveness_policy policy = vc_storages_policy(s);
    struct vc_liveness found = {.root = s->root, .last_use = s->last_use, .saved = s->saved};

    vc_liveness_find(s->graph, &policy, &found);
    memcpy(s->grad_root, s->root, s->n_values * sizeof *s->root);
    for (uint32_t k = 0; k < vc_graph_output_count(s->graph); k++) {
        s->last_use[s->root[vc_graph_output(s->graph, k)]] = s->n_nodes;
    }
}

/* With shorter paths behind it, for the next call. */
static uint32_t find_root(struct vc_storages *s, uint32_t v)
{
    while (s->root[v] != v) {
        s->root[v] = s->root[s->root[v]];
        v = s->root[v];
    }
    return v;
}

/* Where it is asked for; and llama.cpp and onnxruntime, whose products and shares element by element do it, too
 * (ggml_op_can_inplace, MayInplace). */
static bool writes_over(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    bool may = (s->eager[n] & VC_EAGER_IN_PLACE) != 0;
    bool all = s->options->program == VC_RUN_BY_LLAMA_CPP || vc_storages_by_onnxruntime(s);

    return all ? may || vc_node_is(node, VC_OP_mul) || vc_node_is(node, VC_OP_div) : may && s->options->in_place;
}

/* onnxruntime uses a buffer again where it knows, before it runs, that the sizes are the same: by their names, as inputs
 * have them. A range of positions, and rows or shapes by numbers that are computed, have sizes without a name, and so has all
 * that follows, until the file states a value's sizes. */
static void find_unnamed(struct vc_storages *s)
{
    for (uint32_t n = 0; vc_storages_by_onnxruntime(s) && n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);
        bool unnamed = vc_node_is(node, VC_OP_range);

        for (unsigned k = 0; k < node->n_inputs && (k < 3 || !vc_node_is(node, VC_OP_attention)); k++) {
            uint32_t v = node->inputs[k];
            bool shapes =
                vc_node_is(node, VC_OP_slice) || vc_node_is(node, VC_OP_reshape) || vc_node_is(node, VC_OP_expand);
            bool bound = shapes && k != 0;

            unnamed = unnamed || (v != VC_NO_VALUE && (s->unnamed[v] || (bound && is_result(s, v))));
        }
        for (unsigned k = 0; k < node->n_outputs; k++) {
            if (node->outputs[k] != VC_NO_VALUE) {
                s->unnamed[node->outputs[k]] = unnamed && !vc_graph_value(s->graph, node->outputs[k])->stated;
            }
        }
    }
}

/* Operators that may write over their first input do so where nobody needs that any more. */
static void share_in_place(struct vc_storages *s)
{
    for (uint32_t n = 0; n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);
        uint32_t to = node->n_outputs != 0 ? node->outputs[0] : VC_NO_VALUE;
        uint32_t from = node->n_inputs != 0 && node->inputs[0] != VC_NO_VALUE ? find_root(s, node->inputs[0]) : to;

        if (writes_over(s, n) && from != to && to != VC_NO_VALUE && is_result(s, from) && s->last_use[from] == n &&
            !s->saved[from] && !s->unnamed[to] && s->bytes[from] == s->bytes[to] && s->root[to] == to) {
            s->root[to] = from;
            s->last_use[from] = s->last_use[to];
            s->saved[from] = s->saved[to];
        }
    }
}

/* Sizes and bytes of an element are the same. */
static bool is_alike(const struct vc_storages *s, uint32_t v, uint32_t w)
{
    const struct vc_graph_value *a = vc_graph_value(s->graph, v);
    const struct vc_graph_value *b = vc_graph_value(s->graph, w);
    bool alike = !s->unnamed[v] && !s->unnamed[w] && a->n_dims == b->n_dims && s->width[v] == s->width[w] &&
                 s->bytes[v] == s->bytes[w];

    for (unsigned k = 0; alike && k < a->n_dims; k++) {
        alike = vc_graph_dim_value(s->graph, a->shape[k]) == vc_graph_dim_value(s->graph, b->shape[k]);
    }
    return alike;
}

/* onnxruntime plans which buffers are used again before it runs (PlannerImpl::FindReusableTensor): a result takes the
 * buffer that died last of those with its shape, and such a buffer is there from its first value to its last one, in
 * between, too; a network's outputs take none.
 *
 *     q = MatMul(x)   [8, 197, 768]  |---- q ----|            |---- out ----|
 *     Attention; Gelu                            |............|   nobody reads it, and it is not given back */
static enum vc_status share_dead(struct vc_storages *s)
{
    VC_SCOPED uint32_t *behind = vc_alloc_array(s->ctx, VC_TAG_MISC, s->n_values, sizeof *behind);
    uint32_t dead = VC_NO_VALUE; /* the list of dead buffers: the last one that died, then behind[] */

    if (behind == NULL) {
        return VC_E_NOMEM;
    }
    for (uint32_t n = 0; n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);

        for (unsigned k = 0; !s->idle[n] && k < node->n_outputs; k++) {
            uint32_t v = node->outputs[k];
            uint32_t *at = &dead;

            if (v == VC_NO_VALUE || s->root[v] != v || s->last_use[v] >= s->n_nodes) {
                continue;
            }
            while (*at != VC_NO_VALUE && !is_alike(s, *at, v)) {
                at = &behind[*at];
            }
            if (*at != VC_NO_VALUE) {
                s->root[v] = *at;
                s->last_use[*at] = s->last_use[v];
                *at = behind[*at];
            }
        }
        for (unsigned k = 0; !s->idle[n] && k < node->n_inputs + node->n_outputs; k++) {
            uint32_t v = k < node->n_inputs ? node->inputs[k] : node->outputs[k - node->n_inputs];
            uint32_t root = v == VC_NO_VALUE ? v : find_root(s, v);

            if (v != VC_NO_VALUE && is_result(s, root) && s->last_use[root] == n && root != dead) {
                behind[root] = dead;
                dead = root;
            }
        }
    }
    return VC_OK;
}

/* llama.cpp writes keys and values into its cache before it computes scores, which take the place of the values; what
 * lies in front of them, the keys', stays as it is, and so does a product that has queries, keys and values (of what
 * stands in for a model nobody knows). */
static void release_values(struct vc_storages *s)
{
    for (uint32_t n = 1;
         s->options->program == VC_RUN_BY_LLAMA_CPP && s->options->context_tokens != 0 && n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);
        uint32_t v =
            vc_node_is(node, VC_OP_attention) && !vc_storages_fused(s, n) ? s->root[node->inputs[2]] : VC_NO_VALUE;

        if (v != VC_NO_VALUE && is_result(s, v) && s->last_use[v] == n && v != s->root[node->inputs[1]] &&
            v != s->root[node->inputs[0]] && vc_packed_bytes(s, v) == 0 && !s->graph->stands_in) {
            s->last_use[v] = n - 1;
        }
    }
}

/* ---- all of it ---- */

static enum vc_status allocate(struct vc_storages *s)
{
    uint32_t nodes = s->n_nodes;
    uint32_t values = s->n_values;

    s->eager = vc_alloc_array(s->ctx, VC_TAG_MISC, nodes, sizeof *s->eager);
    s->bytes = vc_calloc_array(s->ctx, VC_TAG_MISC, values, sizeof *s->bytes);
    s->width = vc_alloc_array(s->ctx, VC_TAG_MISC, values, sizeof *s->width);
    s->root = vc_alloc_array(s->ctx, VC_TAG_MISC, values, sizeof *s->root);
    s->grad_root = vc_alloc_array(s->ctx, VC_TAG_MISC, values, sizeof *s->grad_root);
    s->last_use = vc_alloc_array(s->ctx, VC_TAG_MISC, values, sizeof *s->last_use);
    s->statistic = vc_calloc_array(s->ctx, VC_TAG_MISC, values, sizeof *s->statistic);
    s->trained = vc_calloc_array(s->ctx, VC_TAG_MISC, values, sizeof *s->trained);
    s->saved = vc_alloc_array(s->ctx, VC_TAG_MISC, values, sizeof *s->saved);
    s->gate = vc_calloc_array(s->ctx, VC_TAG_MISC, nodes, sizeof *s->gate);
    s->shard = vc_alloc_array(s->ctx, VC_TAG_MISC, values, sizeof *s->shard);
    s->idle = vc_alloc_array(s->ctx, VC_TAG_MISC, nodes, sizeof *s->idle);
    s->adapted = vc_calloc_array(s->ctx, VC_TAG_MISC, nodes, sizeof *s->adapted);
    s->inside = vc_calloc_array(s->ctx, VC_TAG_MISC, values, sizeof *s->inside);
    s->used = vc_calloc_array(s->ctx, VC_TAG_MISC, values, sizeof *s->used);
    s->decoded = vc_calloc_array(s->ctx, VC_TAG_MISC, values, sizeof *s->decoded);
    s->unnamed = vc_calloc_array(s->ctx, VC_TAG_MISC, values, sizeof *s->unnamed);
    s->cached = vc_calloc_array(s->ctx, VC_TAG_MISC, nodes, sizeof *s->cached);
    return s->eager == NULL || s->bytes == NULL || s->width == NULL || s->root == NULL || s->grad_root == NULL ||
                   s->last_use == NULL || s->trained == NULL || s->saved == NULL || s->gate == NULL ||
                   s->shard == NULL || s->idle == NULL || s->adapted == NULL || s->used == NULL || s->decoded == NULL ||
                   s->statistic == NULL || s->unnamed == NULL || s->cached == NULL || s->inside == NULL
               ? VC_E_NOMEM
               : VC_OK;
}

void vc_frames_release(struct vc_storages *s)
{
    vc_free(s->ctx, s->frames.until);
    vc_free(s->ctx, s->frames.extra);
    vc_free(s->ctx, s->frames.kept);
    vc_free(s->ctx, s->frames.kept_until);
    s->frames = (struct vc_frames){.until = NULL};
}

void vc_storages_release(struct vc_storages *s)
{
    vc_free(s->ctx, s->eager);
    vc_free(s->ctx, s->bytes);
    vc_free(s->ctx, s->width);
    vc_free(s->ctx, s->root);
    vc_free(s->ctx, s->grad_root);
    vc_free(s->ctx, s->last_use);
    vc_free(s->ctx, s->trained);
    vc_free(s->ctx, s->saved);
    vc_free(s->ctx, s->gate);
    vc_free(s->ctx, s->shard);
    vc_free(s->ctx, s->idle);
    vc_free(s->ctx, s->adapted);
    vc_free(s->ctx, s->inside);
    vc_free(s->ctx, s->used);
    vc_free(s->ctx, s->decoded);
    vc_free(s->ctx, s->cached);
    vc_free(s->ctx, s->unnamed);
    vc_free(s->ctx, s->statistic);
    vc_frames_release(s);
}

static void find_biases(struct vc_storages *s)
{
    for (uint32_t n = 0; n < s->n_nodes; n++) {
        s->biased = s->biased || vc_storages_bias(s, n) != VC_NO_VALUE;
    }
}

/* What this stage reads or makes. */
static void find_used(struct vc_storages *s)
{
    for (uint32_t n = 0; n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);

        for (unsigned k = 0; !s->idle[n] && k < node->n_inputs + node->n_outputs; k++) {
            uint32_t v = k < node->n_inputs ? node->inputs[k] : node->outputs[k - node->n_inputs];

            if (v != VC_NO_VALUE) {
                s->used[v] = true;
            }
        }
    }
    for (uint32_t v = 0; s->options->pp < 2 && v < s->n_values; v++) {
        s->used[v] = true; /* inputs that nothing reads are there, too */
    }
}

/* Bytes of an element of a float that a node makes, where autocast does not say so for each node. */
static unsigned float_bytes(const struct vc_memory_options *options)
{
    enum vc_dtype type = options->activations != VC_DTYPE_NONE ? options->activations : options->weights;
    bool half = type == VC_DTYPE_F16 || type == VC_DTYPE_BF16 || type == VC_DTYPE_I8 || options->amp == VC_AMP_PURE ||
                (options->scheme != NULL && options->activations == VC_DTYPE_NONE);

    if (options->amp == VC_AMP_AUTOCAST) {
        return 4;
    }
    if (half) {
        return 2;
    }
    return type == VC_DTYPE_F64 ? 8 : 4;
}

/* The order: division between devices, then sizes, then what is trained, then what shares memory. */
enum vc_status vc_storages_make(struct vc_ctx *ctx, const struct vc_graph *graph,
                                const struct vc_memory_options *options, unsigned stage, struct vc_storages *out)
{
    *out = (struct vc_storages){.ctx = ctx,
                                .graph = graph,
                                .options = options,
                                .float_bytes = float_bytes(options),
                                .n_nodes = vc_graph_node_count(graph),
                                .n_values = vc_graph_value_count(graph)};
    VC_CALL(allocate(out));
    for (uint32_t n = 0; n < out->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(graph, n);

        out->eager[n] = vc_op_eager(node);
        if (vc_node_is(node, VC_OP_gelu) && vc_graph_value(graph, node->outputs[0])->stepwise) {
            out->eager[n] |= VC_EAGER_FLOAT; /* its x^3 */
        }
    }
    find_biases(out);
    VC_CALL(vc_divide_tensors(out));
    VC_CALL(vc_divide_stages(out, stage));
    find_used(out);
    VC_REFUSE_IF(options->lora_rank != 0 && TRAINS(out) && !vc_find_adapted(out), ctx, VC_E_ARGUMENT,
                 "%s: the graph has no products that get adapters", vc_option(ctx, "lora_rank"));
    size_all(out);
    find_gates(out);
    vc_recurrent_find(out);
    find_statistics(out);
    find_trained(out);
    find_uses(out);
    share_gradients(out);
    find_unnamed(out);
    share_in_place(out);
    if (vc_storages_by_onnxruntime(out)) {
        VC_CALL(share_dead(out));
    }
    for (uint32_t v = 0; v < out->n_values; v++) {
        out->root[v] = find_root(out, v);
    }
    release_values(out);
    return VC_OK;
}
