/* recurrent_layers.c - recurrent layers as PyTorch has them on a GPU: cuDNN computes all layers of a module in one operator.
 *
 *     all = bytes of the states of all steps of a layer, y [steps, directions, batch, hidden]; one = those of a step
 *
 *     kept       x of the first layer, y of each, cuDNN's reserve space (layers[] has the multiples of `all`), first states;
 *                behind batch_first y once more where a product reads it, which wants its rows side by side
 *     forward    last states; of batch_first a copy of x
 *     backward   the gradients of all weights in one tensor, of x, and of the first and the last states
 *
 * Without training the states between layers are in cuDNN's workspace.
 * The reserve space is that of cuDNN 9.19 to a few hundred bytes, in 670 of 670 modules of all kinds (an H200, torch 2.11).
 *
 * LSTM with projections is counted as PyTorch's own operators compute it, layer by layer and step by step, as it does on a CPU; of
 * cuDNN's nothing was measured:
 *
 *     kept       of each step the gates (4), the cell, its Tanh and the state before the projection, one behind the other; the
 *                state that is projected twice: what the next step reads, and all of them joined
 *     backward   of one direction the gradients of its weights, to which each step adds its own: of the largest weight the sum so far,
 *                that of a step, and the new sum; the gradient of y; what the last step kept is gone by then
 *     graph      R = weight_hh weight_hr is a product of the graph alone (layer_kinds.c), which PyTorch has not */

#include "core/base/checked.h"
#include "memory/timeline/timeline.h"

#define MOST_LAYERS 1000 /* of a module, as in a list of layers */
#define MOST_MOVES  16   /* between two layers */
#define OWN_LSTM    6    /* arrays like the states that PyTorch's own LSTM keeps: gates, cell, its Tanh */
#define MOST_JOINS  4    /* nodes that join a weight, one behind the other: gates, then directions */

/* What cuDNN keeps of a layer for the backward pass, and how many states of a step a layer has. */
static const struct recurrent_layer {
    enum vc_op op;
    unsigned reserve, states;
} layers[] = {{VC_OP_rnn, 1, 1}, {VC_OP_gru, 6, 1}, {VC_OP_lstm, 5, 2}}; /* LSTM: four gates and the cell */

static const struct recurrent_layer *layer_of(const struct vc_graph_node *node)
{
    for (size_t k = 0; k < sizeof layers / sizeof *layers; k++) {
        if (vc_node_is(node, layers[k].op)) {
            return &layers[k];
        }
    }
    return NULL;
}

bool vc_is_recurrent(const struct vc_graph_node *node)
{
    return layer_of(node) != NULL;
}

/* What moves nothing in PyTorch, as the values of layers are there. */
static bool is_moved(const struct vc_storages *s, uint32_t n)
{
    return (s->eager[n] & (VC_OP_VIEW | VC_EAGER_VIEW)) != 0;
}

static uint32_t maker_of(const struct vc_storages *s, uint32_t v)
{
    return v == VC_NO_VALUE ? VC_NO_NODE : vc_graph_value(s->graph, v)->node;
}

/* The value before it was moved. *turned: steps and rows have changed places. */
static uint32_t before_moves(const struct vc_storages *s, uint32_t v, bool *turned)
{
    uint32_t n = maker_of(s, v);

    *turned = false;
    for (unsigned k = 0; k < MOST_MOVES && n != VC_NO_NODE && is_moved(s, n); k++, n = maker_of(s, v)) {
        *turned ^= vc_node_is(vc_graph_node(s->graph, n), VC_OP_transpose) && vc_graph_value(s->graph, v)->n_dims == 3;
        v = vc_graph_node(s->graph, n)->inputs[0];
    }
    return v;
}

/* The layer whose y it is, moved or not; VC_NO_NODE: it is another value. */
static uint32_t layer_behind(const struct vc_storages *s, uint32_t v, bool *turned)
{
    uint32_t from = maker_of(s, v = before_moves(s, v, turned));

    return from != VC_NO_NODE && vc_is_recurrent(vc_graph_node(s->graph, from)) &&
                   vc_graph_node(s->graph, from)->outputs[0] == v
               ? from
               : VC_NO_NODE;
}

/* One row or one step alone lies as it is wanted. */
static bool is_single(const struct vc_storages *s, uint32_t v)
{
    const struct vc_graph_value *value = vc_graph_value(s->graph, v);

    return vc_graph_dim_value(s->graph, value->shape[0]) == 1 || vc_graph_dim_value(s->graph, value->shape[1]) == 1;
}

static bool is_rows_first(const struct vc_graph_node *node)
{
    return vc_node_int(node, "layout", 0) != 0;
}

/* The layer of the same module whose states the node reads; VC_NO_NODE: it is the first. */
static uint32_t layer_before(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    bool turned;
    uint32_t from = layer_behind(s, node->inputs[0], &turned);

    return from != VC_NO_NODE && layer_of(vc_graph_node(s->graph, from)) == layer_of(node) &&
                   strcmp(vc_graph_node(s->graph, from)->block, node->block) == 0
               ? from
               : VC_NO_NODE;
}

/* The product behind a value that is joined of products: R of an LSTM with projections, of its first direction, and its states.
 * VC_NO_NODE: it is made of something else. */
static uint32_t product_behind(const struct vc_storages *s, uint32_t v)
{
    uint32_t n = maker_of(s, v);

    for (unsigned k = 0; k < MOST_JOINS && n != VC_NO_NODE && vc_graph_node(s->graph, n)->n_inputs != 0 &&
                         (is_moved(s, n) || vc_node_is(vc_graph_node(s->graph, n), VC_OP_concat));
         k++) {
        n = maker_of(s, vc_graph_node(s->graph, n)->inputs[0]);
    }
    return n != VC_NO_NODE && vc_node_is(vc_graph_node(s->graph, n), VC_OP_matmul) ? n : VC_NO_NODE;
}

/* The product that makes R; VC_NO_NODE: the layer has no projections. */
static uint32_t projection_of(const struct vc_storages *s, const struct vc_graph_node *node)
{
    return vc_node_is(node, VC_OP_lstm) ? product_behind(s, node->inputs[2]) : VC_NO_NODE;
}

/* The layer whose projected states it is. */
static uint32_t projected_layer(const struct vc_storages *s, uint32_t v, bool *turned)
{
    uint32_t n = product_behind(s, before_moves(s, v, turned));
    bool again = false;
    uint32_t from = n == VC_NO_NODE ? n : layer_behind(s, vc_graph_node(s->graph, n)->inputs[0], &again);

    *turned ^= again;
    return from;
}

uint64_t vc_recurrent_copy_bytes(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    bool turned;

    if (vc_product_weight(s->graph, node) == VC_NO_VALUE || vc_graph_value(s->graph, node->inputs[0])->n_dims != 3 ||
        is_single(s, node->inputs[0])) {
        return 0;
    }
    uint32_t from = layer_behind(s, node->inputs[0], &turned);
    if (from != VC_NO_NODE && projection_of(s, vc_graph_node(s->graph, from)) != VC_NO_NODE) {
        return 0; /* the projection itself, step by step */
    }
    from = from == VC_NO_NODE ? projected_layer(s, node->inputs[0], &turned) : from;
    return from != VC_NO_NODE && turned != is_rows_first(vc_graph_node(s->graph, from)) ? s->bytes[node->inputs[0]] : 0;
}

/* A weight that the graph joins from gates and directions is one tensor from the beginning, and R of projections is no tensor. */
static void hide_joined(struct vc_storages *s, uint32_t v, unsigned depth)
{
    uint32_t n = maker_of(s, v);

    if (n == VC_NO_NODE || s->idle[n] || depth == MOST_JOINS ||
        !(vc_node_is(vc_graph_node(s->graph, n), VC_OP_concat) ||
          vc_node_is(vc_graph_node(s->graph, n), VC_OP_matmul) || is_moved(s, n))) {
        return;
    }
    s->idle[n] = s->inside[v] = true;
    s->eager[n] |= VC_EAGER_HALF; /* as its reader; autocast copies the parameters */
    s->bytes[v] = 0;
    for (unsigned k = 0; k < vc_graph_node(s->graph, n)->n_inputs; k++) {
        hide_joined(s, vc_graph_node(s->graph, n)->inputs[k], depth + 1);
    }
}

/* First states that are zeros of each run, which PyTorch makes for each state. */
static void hide_zeros(struct vc_storages *s, uint32_t v)
{
    bool turned;
    uint32_t all = v == VC_NO_VALUE ? v : before_moves(s, v, &turned);
    bool made = all != VC_NO_VALUE && maker_of(s, all) != VC_NO_NODE &&
                vc_node_is(vc_graph_node(s->graph, maker_of(s, all)), VC_OP_constant_of_shape);

    if (made || (all != VC_NO_VALUE && vc_graph_value(s->graph, all)->kind == VC_VALUE_CONSTANT)) {
        s->inside[v] = true;
        s->bytes[v] = s->bytes[all] = 0;
    }
}

/* Size k of the value; a state of the layer. */
static uint64_t size_of(const struct vc_storages *s, uint32_t v, unsigned k)
{
    return (uint64_t)vc_graph_dim_value(s->graph, vc_graph_value(s->graph, v)->shape[k]);
}

static uint64_t hidden_size(const struct vc_storages *s, const struct vc_graph_node *node)
{
    return vc_max_u64(size_of(s, node->inputs[2], 2), 1);
}

/* Numbers of a state that is projected; 0: none is. */
static uint64_t projected_size(const struct vc_storages *s, const struct vc_graph_node *node)
{
    uint32_t n = projection_of(s, node);

    return n == VC_NO_NODE ? 0 : size_of(s, vc_graph_node(s->graph, n)->inputs[1], 0);
}

/* Weights that are joined, and what is between the layers of a module. */
void vc_recurrent_find(struct vc_storages *s)
{
    for (uint32_t n = 0; n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);

        if (!vc_is_recurrent(node) || s->idle[n]) {
            continue;
        }
        for (unsigned k = 1; k < 4 && k < node->n_inputs; k++) {
            hide_joined(s, node->inputs[k], 0);
        }
        if (projection_of(s, node) != VC_NO_NODE && node->outputs[0] != VC_NO_VALUE) {
            s->inside[node->outputs[0]] = s->options->mode != VC_MEMORY_INFER; /* gradients of a step alone */
        }
        for (unsigned k = 5; k < 7 && k < node->n_inputs; k++) {
            hide_zeros(s, node->inputs[k]);
        }
        uint32_t below = layer_before(s, n);
        for (uint32_t v = node->inputs[0]; below != VC_NO_NODE;
             v = vc_graph_node(s->graph, maker_of(s, v))->inputs[0]) {
            s->inside[v] = true;
            s->bytes[v] = s->options->mode == VC_MEMORY_INFER ? 0 : s->bytes[v];
            below = maker_of(s, v) == below ? VC_NO_NODE : below;
        }
    }
}

/* ---- bytes ---- */

static uint32_t first_output(const struct vc_graph_node *node)
{
    unsigned k = 0;

    while (k + 1 < node->n_outputs && node->outputs[k] == VC_NO_VALUE) {
        k++;
    }
    return node->n_outputs == 0 ? VC_NO_VALUE : node->outputs[k];
}

/* Bytes of the states of all steps; those of one step. Both 0 where a size is not known. */
static uint64_t all_states(const struct vc_storages *s, const struct vc_graph_node *node, uint64_t *one)
{
    const struct vc_graph_value *x = vc_graph_value(s->graph, node->inputs[0]);
    int64_t steps = vc_graph_dim_value(s->graph, x->shape[is_rows_first(node) ? 1 : 0]);
    uint32_t v = first_output(node);
    uint64_t all;

    *one = 0;
    if (steps <= 0 || v == VC_NO_VALUE) {
        return 0;
    }
    if (v == node->outputs[0]) {
        *one = s->bytes[v] / (uint64_t)steps;
        return s->bytes[v];
    }
    *one = s->bytes[v];
    return vc_mul_u64(*one, (uint64_t)steps, &all) ? vc_min_u64(all, VC_TOO_MANY) : VC_TOO_MANY;
}

/* Bytes of a layer's input in the layer's type. */
static uint64_t input_bytes(const struct vc_storages *s, uint32_t x)
{
    return s->options->amp == VC_AMP_AUTOCAST ? s->bytes[x] / s->width[x] * 2 : s->bytes[x];
}

/* Whether the input of a module lies with rows first, and is no layer's output (`from_layer`: what counts for that), which
 * lies as the next one wants it. */
static bool is_copied(const struct vc_storages *s, uint32_t n, uint32_t x, bool from_layer)
{
    bool turned;

    if (layer_behind(s, x, &turned) != VC_NO_NODE) {
        return from_layer && !is_single(s, x);
    }

    (void)before_moves(s, x, &turned);
    return !is_single(s, x) && (turned || is_rows_first(vc_graph_node(s->graph, n)));
}

/* What a layer keeps beside y. */
static uint64_t kept_bytes(const struct vc_storages *s, const struct vc_graph_node *node, uint64_t all)
{
    uint64_t projected = projected_size(s, node);

    return projected == 0 ? layer_of(node)->reserve * all : OWN_LSTM * all + all / hidden_size(s, node) * projected;
}

/* What the backward step of PyTorch's own LSTM has for the weights of a direction. */
static uint64_t own_backward_bytes(const struct vc_storages *s, const struct vc_graph_node *node, uint64_t all,
                                   uint64_t one)
{
    uint64_t hidden = hidden_size(s, node);
    uint64_t projected = projected_size(s, node);
    uint64_t of_x = 4 * hidden * size_of(s, node->inputs[1], 2);
    uint64_t of_state = 4 * hidden * projected;
    uint64_t largest = vc_max_u64(of_x, of_state);
    uint64_t sums = largest; /* of one step there is no sum */

    if (all > one) {
        sums = 2 * largest + of_x + of_state + 12 * hidden + (all > 2 * one ? projected * hidden : 0);
    }
    uint64_t directions = vc_max_u64(size_of(s, node->inputs[2], 0), 1);
    uint64_t least = 0;
    uint64_t gone = all > 2 * one ? (one + kept_bytes(s, node, one)) / directions : 0;

    sums *= s->float_bytes;
    /* Of two steps at least eight states are counted too much, of modules with one to two layers and rows from 1 to 200; with
     * many rows and small weights another moment has the most, as many states. */
    if (all == 2 * one) {
        gone = 8 * one / directions;
        gone = directions == 1 ? gone : vc_min_u64(gone, sums / 16 * 5);
        least = 8 * one / directions;
    }
    return vc_max_u64(sums - vc_min_u64(gone, sums), least) + all / hidden * projected;
}

/* The layer below, or VC_NO_NODE behind the first; count: those before it, 0 at first. */
static uint32_t step_down(const struct vc_storages *s, uint32_t n, unsigned *count)
{
    return ++*count < MOST_LAYERS ? layer_before(s, n) : VC_NO_NODE;
}

/* Whether its output is inside of the module, as its backward step is. */
static bool is_below(const struct vc_storages *s, const struct vc_graph_node *node)
{
    return node->outputs[0] != VC_NO_VALUE && s->inside[node->outputs[0]];
}

/* How many of the states k of outputs or inputs `from` on the graph does not have. */
static unsigned missing(const struct vc_storages *s, const struct recurrent_layer *layer, const uint32_t *values,
                        unsigned n, unsigned from)
{
    unsigned count = 0;

    for (unsigned k = from; k < from + layer->states; k++) {
        count += k >= n || values[k] == VC_NO_VALUE || s->inside[values[k]] ? 1 : 0;
    }
    return count;
}

uint64_t vc_recurrent_last_bytes(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    const struct recurrent_layer *layer = layer_of(node);
    unsigned count = 0;
    uint64_t one;

    (void)all_states(s, node, &one);
    for (uint32_t at = n; at != VC_NO_NODE; at = step_down(s, at, &count)) {
    }
    return is_below(s, node)
               ? 0
               : (missing(s, layer, node->outputs, node->n_outputs, 1) + (count - 1) * layer->states) * one;
}

/* Of the last layer of a module, the states of all layers. */
uint64_t vc_recurrent_extra_bytes(const struct vc_storages *s, uint32_t n, uint64_t *transient)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    const struct recurrent_layer *layer = layer_of(node);
    bool trains = s->options->mode != VC_MEMORY_INFER && s->trained[first_output(node)];
    uint64_t one;
    uint64_t all = all_states(s, node, &one);
    uint32_t x = node->inputs[0];
    unsigned count = 0;

    if (is_below(s, node)) {
        return trains ? kept_bytes(s, node, all) : 0;
    }
    for (uint32_t at = n; at != VC_NO_NODE; at = step_down(s, at, &count)) {
        x = vc_graph_node(s->graph, at)->inputs[0];
    }
    *transient = is_copied(s, n, x, false) && projection_of(s, node) == VC_NO_NODE ? input_bytes(s, x) : 0;
    uint64_t kept = missing(s, layer, node->inputs, node->n_inputs, 5) * count * one + vc_recurrent_last_bytes(s, n) +
                    (node->outputs[0] == VC_NO_VALUE ? all : 0);
    if (!trains) {
        *transient += kept;
        return 0;
    }
    return kept_bytes(s, node, all) + kept;
}

/* Bytes of the weights of a layer, half as many under autocast. *largest: elements of the largest that PyTorch has. */
static uint64_t weight_bytes(const struct vc_storages *s, uint32_t n, uint64_t *largest)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    uint64_t bytes = 0;
    uint64_t elems;

    for (unsigned k = 1; k < 4 && k < node->n_inputs; k++) {
        uint32_t v = node->inputs[k];

        if (v != VC_NO_VALUE && vc_count_elems(s->graph, vc_graph_value(s->graph, v), &elems)) {
            int64_t directions = vc_graph_dim_value(s->graph, vc_graph_value(s->graph, v)->shape[0]);

            bytes += elems * (s->options->amp == VC_AMP_AUTOCAST ? 2 : s->width[v]);
            *largest = vc_max_u64(*largest, directions > 0 ? elems / (uint64_t)directions : elems);
        }
    }
    return bytes;
}

/* Two steps: of x, then of all weights of the module, each of which becomes f32 under autocast. */
uint64_t vc_recurrent_backward_bytes(const struct vc_storages *s, uint32_t n)
{
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    uint64_t states = 0;
    uint64_t weights = 0;
    uint64_t largest = 0;
    uint32_t x = node->inputs[0];
    unsigned count = 0;
    uint64_t one;
    uint64_t all = all_states(s, node, &one);
    bool read = node->outputs[0] != VC_NO_VALUE && vc_graph_value(s->graph, node->outputs[0])->n_uses != 0;

    if (s->trained[first_output(node)] && projection_of(s, node) != VC_NO_NODE) {
        return own_backward_bytes(s, node, all, one);
    }
    if (!s->trained[first_output(node)] || is_below(s, node)) {
        return 0;
    }
    for (uint32_t at = n; at != VC_NO_NODE; at = step_down(s, at, &count)) {
        weights += weight_bytes(s, at, &largest);
        states += 2 * layer_of(node)->states * one;
        x = vc_graph_node(s->graph, at)->inputs[0];
    }
    if (s->options->amp == VC_AMP_AUTOCAST) { /* when the reserve space is gone */
        weights += 4 * largest - vc_min_u64(4 * largest, layer_of(node)->reserve * all * count);
    }
    weights += is_copied(s, n, x, false) ? input_bytes(s, x) : 0;
    states += count == 1 && s->trained[x] ? 0 : input_bytes(s, x);
    states += node->outputs[0] == VC_NO_VALUE ? all : 0; /* zeros, as any gradient that nothing makes */
    return states + vc_max_u64(weights, read && is_copied(s, n, x, true) ? all : 0);
}

uint64_t vc_recurrent_workspace(const struct vc_storages *s, uint32_t n)
{
    uint64_t bytes = 0;
    unsigned count = 0;

    for (uint32_t at = n; at != VC_NO_NODE; at = step_down(s, at, &count)) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, at);
        const struct vc_graph_value *r = vc_graph_value(s->graph, node->inputs[2]);
        int64_t directions = vc_graph_dim_value(s->graph, r->shape[0]);
        int64_t hidden = vc_graph_dim_value(s->graph, r->shape[2]);
        uint64_t one;
        uint64_t all = all_states(s, node, &one);

        if (directions > 0 && hidden > 0) {
            bytes += (uint64_t)directions * ((8U << 20) + 3 * s->bytes[node->inputs[0]]) + weight_bytes(s, at, &one) +
                     all / (uint64_t)hidden * 320 + all / 2 * 3;
        }
    }
    return bytes;
}
