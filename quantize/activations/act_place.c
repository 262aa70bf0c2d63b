/* act_place.c - which values of a graph become codes, by what onnxruntime fuses (docs/numerics.md, section 13).
 *
 * Inputs of products do. From there backwards: what pools, sums and concatenations read whose results do, so that these
 * run on codes as well. And what a Conv makes, behind the Relu that goes into it: without codes there it runs on
 * floats. A value is coded once, and all that read it read the same codes.
 *
 *     Conv -> Relu -> MaxPool -> Gemm
 *
 *     1  list_layers    Conv and Gemm have weights that can be codes
 *     2  want           their inputs, and the Relu's output, for the Conv
 *     3  look_back      MaxPool passes the codes of the Relu on: the same range */
#include "passes/select.h"
#include "quantize/activations/activations.h"

/* The node that makes the value; NULL: an input of the graph or a constant. */
static const struct vc_program_node *maker_of(const struct vc_activations *a, size_t value)
{
    size_t node = a->graph.values[value].maker;

    return node == ACT_NONE ? NULL : &a->graph.program.nodes[node];
}

/* The only node that reads the value; NULL: others do, or it is an output of the graph. */
static const struct vc_program_node *only_reader(const struct vc_activations *a, size_t value)
{
    const struct act_value *v = &a->graph.values[value];

    return v->n_uses == 1 && v->reader != ACT_NONE ? &a->graph.program.nodes[v->reader] : NULL;
}

/* Not a constant, and not left out. Inputs of the graph count as computed. */
static bool is_computed(const struct vc_activations *a, size_t value)
{
    return value != ACT_NONE && a->graph.values[value].constant == ACT_NONE;
}

static bool all_computed(const struct vc_activations *a, const struct vc_program_node *node)
{
    for (size_t k = 0; k < node->n_inputs; k++) {
        if (!is_computed(a, vc_act_input(&a->graph, node, k))) {
            return false;
        }
    }
    return true;
}

/* ---- products ---- */

/* The axis of the weights that its outputs are. */
static unsigned output_axis(const struct vc_program_node *node)
{
    return vc_act_is(node, "MatMul") || (vc_act_is(node, "Gemm") && vc_act_number(node, "transB", 0) == 0) ? 1 : 0;
}

/* Why the node stays on floats; NULL: it does not. The words go to the report, for the first few products. */
static const char *reason(const struct vc_activations *a, const struct vc_program_node *node)
{
    size_t x = vc_act_input(&a->graph, node, 0);
    size_t w = vc_act_input(&a->graph, node, 1);
    size_t tensor = vc_act_tensor(&a->graph, w);
    const struct vc_item *item = tensor != VC_NO_TENSOR ? vc_plan_item(a->plan, tensor) : NULL;
    const char *glob = NULL;

    if (!is_computed(a, x)) {
        return "its first input is a constant";
    }
    if (is_computed(a, w)) {
        return maker_of(a, w) != NULL && vc_act_is(maker_of(a, w), "DequantizeLinear") ? "its weights are codes already"
                                                                                       : "both inputs are computed";
    }
    if (item == NULL || item->desc->quant != NULL || item->desc->dtype != VC_DTYPE_F32 || item->desc->n_elems == 0) {
        return "its weights are not f32";
    }
    if (vc_rules_choose(a->options->rules, a->options->n_rules, a->plan->model->tensors[tensor].name, &glob) ==
        VC_CHOICE_EXCLUDE) {
        return "its weights are excluded";
    }
    if (item->desc->n_dims < 2 || (!vc_act_is(node, "Conv") && item->desc->n_dims != 2)) {
        return "its weights are no matrix";
    }
    if (a->plan->model->tensors[tensor].channel_axis != output_axis(node)) {
        return "its weights are used otherwise, too";
    }
    if (vc_act_is(node, "Gemm") && (vc_act_number(node, "transA", 0) != 0 || vc_act_number(node, "alpha", 1) != 1 ||
                                    vc_act_number(node, "beta", 1) != 1)) {
        return "transA, alpha or beta is set";
    }
    return NULL;
}

/* The tensor of its bias if that belongs to this product alone. Its codes depend on this product's scales. */
static size_t bias_of(const struct vc_activations *a, const struct vc_program_node *node, uint64_t n_outputs)
{
    size_t value = vc_act_input(&a->graph, node, 2);
    size_t tensor = vc_act_tensor(&a->graph, value);
    const struct vc_item *item = tensor != VC_NO_TENSOR ? vc_plan_item(a->plan, tensor) : NULL;
    const char *glob = NULL;

    return item != NULL && a->graph.values[value].n_uses == 1 && item->desc->quant == NULL &&
                   item->desc->dtype == VC_DTYPE_F32 && item->desc->n_dims == 1 && item->desc->n_elems == n_outputs &&
                   vc_rules_choose(a->options->rules, a->options->n_rules, a->plan->model->tensors[tensor].name,
                                   &glob) != VC_CHOICE_EXCLUDE
               ? tensor
               : VC_NO_TENSOR;
}

/* Counts a product that stays on floats; the first three are told. */
static enum vc_status leave(struct vc_activations *a, const struct vc_program_node *node, const char *why)
{
    if (a->n_left++ < 3) {
        vc_text_add(&a->left, "%s%s '%s': %s", a->n_left == 1 ? "" : ", ", node->op,
                    node->n_outputs != 0 ? node->outputs[0] : "", why);
    }
    return a->left.status;
}

/* A norm that could not be folded, since something else reads what it reads. */
static bool is_behind_product(const struct vc_activations *a, const struct vc_program_node *node)
{
    size_t x = vc_act_input(&a->graph, node, 0);

    return x != ACT_NONE && maker_of(a, x) != NULL && vc_act_kind(maker_of(a, x)) == ACT_LAYER;
}

/* A tensor has one product: with two, its scales would be those of one of them only. */
static enum vc_status list_layers(struct vc_ctx *ctx, struct vc_activations *a)
{
    const struct vc_program *p = &a->graph.program;

    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, a->layers, p->n_nodes + 1));
    for (size_t k = 0; k < p->n_nodes; k++) {
        const struct vc_program_node *node = &p->nodes[k];
        struct act_layer *layer = &a->layers[a->n_layers];

        if (vc_act_kind(node) != ACT_LAYER) {
            a->n_norms += vc_act_is(node, "BatchNormalization") && is_behind_product(a, node);
            continue;
        }
        a->n_products++;
        const char *why = reason(a, node);
        if (why == NULL && a->graph.has_branches) {
            float range[2];
            bool found;

            VC_CALL(vc_act_range(ctx, a->options->calibration, a->graph.values[vc_act_output(&a->graph, node, 0)].name,
                                 range, &found));
            why = found ? NULL : "it is in a branch that the statistics did not compute";
        }
        if (why != NULL) {
            VC_CALL(leave(a, node, why));
            continue;
        }
        *layer = (struct act_layer){.node = node,
                                    .x = vc_act_input(&a->graph, node, 0),
                                    .y = vc_act_output(&a->graph, node, 0),
                                    .weights = vc_act_tensor(&a->graph, vc_act_input(&a->graph, node, 1)),
                                    .bias = VC_NO_TENSOR};
        if (a->layer_of[layer->weights] != ACT_NONE || layer->y == ACT_NONE) {
            VC_CALL(leave(a, node, "another node has its weights"));
            continue;
        }
        layer->bias = bias_of(a, node, a->plan->items[layer->weights].desc->shape[output_axis(node)]);
        a->layer_of[layer->weights] = a->n_layers;
        if (layer->bias != VC_NO_TENSOR) {
            a->layer_of[layer->bias] = a->n_layers;
        }
        a->n_layers++;
    }
    return VC_OK;
}

/* ---- values ---- */

/* The value becomes codes; what makes it is looked at later. */
static void want(struct vc_activations *a, size_t value)
{
    if (is_computed(a, value) && !a->graph.values[value].coded) {
        a->graph.values[value].coded = true;
        a->work[a->n_work++] = value;
    }
}

static void want_inputs(struct vc_activations *a, const struct vc_program_node *node)
{
    for (size_t k = 0; k < node->n_inputs; k++) {
        want(a, vc_act_input(&a->graph, node, k));
    }
}

/* What chooses among elements of an input that is computed has its codes. */
static bool passes_codes(const struct vc_activations *a, const struct vc_program_node *node)
{
    bool indices = vc_act_is(node, "MaxPool") && node->n_outputs > 1 && *node->outputs[1] != '\0';

    return vc_act_kind(node) == ACT_PASS && !indices && is_computed(a, vc_act_input(&a->graph, node, 0));
}

/* What the maker of a coded value has to read so that it runs on codes itself. */
static void look_back(struct vc_activations *a, size_t value)
{
    const struct vc_program_node *node = maker_of(a, value);
    const struct vc_program_node *before;

    if (node == NULL || vc_act_input(&a->graph, node, 0) == ACT_NONE) {
        return;
    }
    size_t x = vc_act_input(&a->graph, node, 0);
    switch (vc_act_kind(node)) {
    case ACT_PASS:
        if (passes_codes(a, node)) {
            want(a, x);
            for (size_t k = 0; vc_act_is(node, "Split") && k < node->n_outputs; k++) {
                want(a, vc_act_output(&a->graph, node, k));
            }
        }
        break;
    case ACT_BOTH:
        if (all_computed(a, node)) {
            want_inputs(a, node);
        }
        break;
    case ACT_SINGLE:
        want(a, x);
        break;
    case ACT_CLAMP: /* goes into an Add or Mul */
        before = is_computed(a, x) && only_reader(a, x) != NULL ? maker_of(a, x) : NULL;
        if (before != NULL && vc_act_kind(before) == ACT_BOTH && !vc_act_is(before, "Concat") &&
            all_computed(a, before)) {
            want_inputs(a, before);
        }
        break;
    default:
        break;
    }
}

/* The value behind a Relu or Clip that goes into the node which makes `value`; or `value` itself. Codes from 0 on
 * already leave out what is negative, so the clamp costs nothing. */
static enum vc_status behind_clamp(struct vc_ctx *ctx, const struct vc_activations *a, size_t value, size_t *out)
{
    const struct vc_program_node *reader = only_reader(a, value);
    size_t y = reader != NULL && vc_act_kind(reader) == ACT_CLAMP ? vc_act_output(&a->graph, reader, 0) : ACT_NONE;
    float range[2];
    bool found;

    *out = value;
    if (y != ACT_NONE) {
        VC_CALL(vc_act_range(ctx, a->options->calibration, a->graph.values[y].name, range, &found));
        *out = found && range[0] >= 0.0f ? y : value;
    }
    return VC_OK;
}

/* What a product needs to have codes behind it. */
static enum vc_status want_result(struct vc_ctx *ctx, struct vc_activations *a, const struct act_layer *layer)
{
    const struct vc_program_node *reader = only_reader(a, layer->y);
    size_t y;

    if (vc_act_is(layer->node, "Conv")) {
        VC_CALL(behind_clamp(ctx, a, layer->y, &y));
        want(a, y);
    } else if (vc_act_is(layer->node, "MatMul") && reader != NULL && vc_act_is(reader, "Add") &&
               !all_computed(a, reader)) {
        want(a, layer->y); /* or both become a Gemm of floats */
    }
    return VC_OK;
}

/* `work` holds each value once at most: want marks it first. At the end each value gets its root, whose codes it has; a
 * maker comes before its readers, so one look at each value is enough. */
enum vc_status vc_act_place(struct vc_ctx *ctx, struct vc_activations *a)
{
    VC_CALL(list_layers(ctx, a));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, a->work, a->graph.n_values + 1));
    for (size_t k = 0; k < a->n_layers; k++) {
        want(a, a->layers[k].x);
        VC_CALL(want_result(ctx, a, &a->layers[k]));
    }
    while (a->n_work != 0) {
        look_back(a, a->work[--a->n_work]);
    }
    for (size_t v = 0; v < a->graph.n_values; v++) { /* in the order of the nodes */
        const struct vc_program_node *node = maker_of(a, v);
        size_t x = node != NULL && passes_codes(a, node) ? vc_act_input(&a->graph, node, 0) : v;

        a->graph.values[v].root = x < v ? a->graph.values[x].root : v;
    }
    return VC_OK;
}
