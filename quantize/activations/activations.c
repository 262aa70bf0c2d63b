/* activations.c - see activations.h.
 *
 *     act_graph     who makes and reads each value
 *     fold_norms    BatchNormalization goes into the weights before it
 *     act_place     which products run on codes, and which values are codes then
 *     act_ranges    the range of each such value
 *     act_scales    scales and zero points of values, weights, biases */
#include "quantize/activations/activations.h"

#include "quantize/schemes/int8.h"

/* ---- options ---- */

/* A layer has one kind of codes here: symmetric, of whole tensors or channels, by the axis of its outputs. */
enum vc_status vc_activations_check(struct vc_ctx *ctx, const struct vc_quantize_options *o)
{
    const struct {
        bool given;
        const char *field;
    } apart[] = {{o->asymmetric, "asymmetric"},
                 {o->requantize, "requantize"},
                 {o->nonfinite != VC_NONFINITE_ERROR, "nonfinite"},
                 {o->granularity >= VC_GRANULARITY_GROUP, "granularity"},
                 {o->axis != VC_AXIS_OUTPUT, "axis"},
                 {o->rest != NULL && strcmp(o->rest, "keep") != 0, "rest"}};

    VC_REFUSE_IF(o->activations != VC_ACTIVATIONS_STATIC, ctx, VC_E_ARGUMENT, "%s is out of range",
                 vc_option(ctx, "activations"));
    VC_REFUSE_IF((o->target != VC_TARGET_INT8 && o->target != VC_TARGET_FP8) || o->calibration == NULL, ctx,
                 VC_E_ARGUMENT, "codes of activations (%s) go with int8 and fp8, and need %s",
                 vc_option(ctx, "activations"), vc_option(ctx, "calibration"));
    VC_REFUSE_IF(o->ranges == VC_RANGES_PERCENTILE && !(o->percentile > 50.0 && o->percentile <= 100.0), ctx,
                 VC_E_ARGUMENT, "a percentile is above 50 and at most 100, not %g (%s)", o->percentile,
                 vc_option(ctx, "ranges"));
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        VC_REFUSE_IF(apart[i].given, ctx, VC_E_ARGUMENT, "%s does not go with %s", vc_option(ctx, apart[i].field),
                     vc_option(ctx, "activations"));
    }
    return VC_OK;
}

/* ---- planning ---- */

/* Everything is decided here, since scales of biases depend on those of the inputs, which other layers make. A graph
 * that holds codes already has ranges that are not those of floats. */
enum vc_status vc_activations_begin(struct vc_ctx *ctx, const struct vc_quantize_options *options,
                                    const struct vc_plan *plan, struct vc_arena *arena, vc_fold_takes *takes,
                                    void *self, struct vc_activations *out)
{
    const struct vc_program_node *coded = NULL;

    vc_activations_end(ctx, out);
    *out = (struct vc_activations){.options = options, .plan = plan, .n_tensors = plan->n_items};
    vc_text_init(&out->left, ctx);
    VC_CALL(vc_act_graph_read(ctx, plan->model, arena, &out->graph));
    for (size_t k = 0; k < out->graph.program.n_nodes; k++) {
        const struct vc_program_node *node = &out->graph.program.nodes[k];

        coded = strcmp(node->op, "QuantizeLinear") == 0 || strncmp(node->op, "QLinear", 7) == 0 ? node : coded;
    }
    VC_REFUSE_IF(coded != NULL, ctx, VC_E_UNSUPPORTED, "values of the graph are codes already (%s)", coded->op);
    VC_CALL(vc_fold_norms(ctx, plan, &out->graph, arena, takes, self, &out->folded));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, out->layer_of, plan->n_items + 1));
    for (size_t i = 0; i < plan->n_items; i++) {
        out->layer_of[i] = ACT_NONE;
    }
    VC_CALL(vc_act_place(ctx, out));
    VC_CALL(vc_act_value_scales(ctx, out));
    return vc_act_layer_scales(ctx, out, arena);
}

void vc_activations_end(struct vc_ctx *ctx, struct vc_activations *a)
{
    if (a->options == NULL) { /* not begun */
        return;
    }
    vc_act_graph_release(ctx, &a->graph);
    vc_text_release(&a->left);
    VC_FREE_ALL(ctx, a->layers, a->work, a->layer_of);
    *a = (struct vc_activations){.options = NULL};
}

/* Scales are known, so the step needs no look at the values. */
enum vc_status vc_activations_add(struct vc_ctx *ctx, const struct vc_activations *a, struct vc_item *item, bool *done)
{
    size_t tensor = (size_t)(item - a->plan->items);
    const struct act_layer *layer =
        tensor < a->n_tensors && a->layer_of[tensor] != ACT_NONE ? &a->layers[a->layer_of[tensor]] : NULL;

    *done = layer != NULL;
    if (layer == NULL) {
        return VC_OK;
    }
    return layer->weights == tensor ? vc_int8_add_given(ctx, item, a->options, layer->scale)
                                    : vc_bias_codes_add(ctx, item, a->options, layer->bias_scale);
}

/* ---- the graph and the report ---- */

/* The note of the report: how many products run on codes, why the others do not, and what else the user may want to
 * know. */
static enum vc_status describe(struct vc_ctx *ctx, const struct vc_activations *a, struct vc_arena *arena,
                               const char **note)
{
    VC_SCOPED_TEXT struct vc_text text;
    size_t n_short = 0;

    vc_text_init(&text, ctx);
    vc_text_add(&text, "%zu of %zu Conv, Gemm and MatMul run on int8 kernels of onnxruntime", a->n_layers,
                a->n_products);
    if (a->n_left != 0) {
        vc_text_add(&text, " (%s%s)", a->left.data, a->n_left > 3 ? ", ..." : "");
    }
    for (size_t k = 0; k < a->n_layers; k++) {
        if (a->layers[k].short_codes) {
            vc_text_add(&text, "%s%s", n_short++ == 0 ? "; smaller codes, which do not saturate without VNNI: " : ", ",
                        a->plan->model->tensors[a->layers[k].weights].name);
        }
    }
    if (a->n_norms != 0) {
        vc_text_add(&text, "; %zu BatchNormalization behind them stay floats: others use what they read", a->n_norms);
    }
    if (a->n_narrowed != 0) {
        vc_text_add(
            &text,
            "; %zu ranges leave out rare values, and answers may get worse by it: evaluate tells, beside %s min-max",
            a->n_narrowed, vc_option(ctx, "ranges"));
    }
    if (vc_act_opset(&a->graph) < VC_GRAPH_CODES_OPSET) {
        vc_text_add(&text, "; opset %lld becomes %d", (long long)vc_act_opset(&a->graph), VC_GRAPH_CODES_OPSET);
    }
    return vc_text_take(&text, arena, note);
}

/* An edit for each coded value puts QuantizeLinear and DequantizeLinear behind it when the file is written. */
enum vc_status vc_activations_finish(struct vc_ctx *ctx, const struct vc_activations *a, struct vc_plan *plan,
                                     struct vc_arena *arena, const char **note)
{
    for (size_t i = 0; i < a->graph.n_values; i++) {
        const struct act_value *root = &a->graph.values[a->graph.values[i].root];
        const int64_t numbers[2] = {root->zero, 0};
        const struct vc_graph_edit edit = {.kind = VC_GRAPH_EDIT_CODES,
                                           .value = a->graph.values[i].name,
                                           .n = 2,
                                           .numbers = numbers,
                                           .scale = root->scale};

        if (a->graph.values[i].coded) {
            VC_CALL(vc_plan_edit_graph(ctx, plan, &edit, 1));
        }
    }
    return describe(ctx, a, arena, note);
}
