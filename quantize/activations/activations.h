/* activations.h - static quantization of a stored graph: which values become codes (u8, one scale for a value), so that
 * onnxruntime runs the products on codes; the scales of the weights and biases of these products.
 *
 *     x -> Conv -> Relu -> MaxPool -> Gemm -> y
 *     x -> Q DQ -> Conv -> Relu -> Q DQ -> MaxPool -> Q DQ -> Gemm -> y        Q DQ: QuantizeLinear, DequantizeLinear
 *
 * Ranges of values come from a file of vc_calibrate. Everything is decided in plan_begin of the pass, which reads the
 * weights and biases. */
#pragma once

#include <vcompress/quantize.h>

#include "core/text/text.h"
#include "quantize/activations/fold_norms.h"

/* A product that runs on codes. */
struct act_layer {
    const struct vc_program_node *node;
    size_t x, y;          /* values */
    size_t weights, bias; /* tensors; bias VC_NO_TENSOR if there is none that becomes codes */
    size_t n_scales;
    float *scale, *bias_scale;
    bool short_codes; /* no two neighbours add up to more than 128 */
};

/* Starts as zeros. */
struct vc_activations {
    const struct vc_quantize_options *options;
    const struct vc_plan *plan;
    struct act_graph graph;
    struct act_layer *layers;
    size_t n_layers;
    size_t n_products; /* Conv, Gemm and MatMul of the graph */
    size_t *work;      /* values whose makers are still to be looked at */
    size_t n_work;
    size_t *layer_of; /* by tensor of the model: of its weights or bias; ACT_NONE */
    size_t n_tensors;
    struct vc_text left; /* why the other products stay floats: "Conv 'y': its weights are f16, ..." */
    size_t n_left;
    size_t n_narrowed; /* ranges that leave out rare values */
    size_t n_norms;    /* BatchNormalization that stays behind a product */
    struct vc_folded_norm *folded;
};

/* Refuses options that do not go with codes of activations. */
enum vc_status vc_activations_check(struct vc_ctx *ctx, const struct vc_quantize_options *options);

/* Decides everything. `takes` with `self`: which weights norms are folded into. VC_E_UNSUPPORTED: the file has no graph; the statistics lack a range or have one that is not
 * finite. */
enum vc_status vc_activations_begin(struct vc_ctx *ctx, const struct vc_quantize_options *options,
                                    const struct vc_plan *plan, struct vc_arena *arena, vc_fold_takes *takes,
                                    void *self, struct vc_activations *out);
void vc_activations_end(struct vc_ctx *ctx, struct vc_activations *activations);

/* The step of the item's tensor: weights or bias of a product; *done false: it is neither. */
enum vc_status vc_activations_add(struct vc_ctx *ctx, const struct vc_activations *activations, struct vc_item *item,
                                  bool *done);
/* The nodes that the graph gets, as edits of the plan, and what the report says of it. */
enum vc_status vc_activations_finish(struct vc_ctx *ctx, const struct vc_activations *activations, struct vc_plan *plan,
                                     struct vc_arena *arena, const char **note);

/* ---- act_inputs.c ---- */

/* The codes that the item has become get the scale of their layer's inputs, by the statistics. divided: what each input
 * is divided by beforehand, or NULL. VC_E_UNSUPPORTED: there is no range of the layer, one of another number of
 * columns, which an earlier pass removed, or one that is not finite. */
enum vc_status vc_act_set_input_scale(struct vc_ctx *ctx, const struct vc_model *statistics, struct vc_item *item,
                                      const float *divided);
/* Raises out[column] to the largest magnitude of that input of the layer with the weights `name`. Fails as above. */
enum vc_status vc_act_largest(struct vc_ctx *ctx, const struct vc_model *statistics, const char *name,
                              uint64_t n_columns, float *out);

/* ---- act_place.c ---- */

/* Lists the layers and marks the values that become codes. */
enum vc_status vc_act_place(struct vc_ctx *ctx, struct vc_activations *a);

/* ---- act_scales.c ---- */

/* The range of a value in the statistics; *found false if there is none. */
enum vc_status vc_act_range(struct vc_ctx *ctx, const struct vc_model *statistics, const char *name, float *range,
                            bool *found);
/* Scale and zero point for a range. */
void vc_act_scale_of_range(struct act_value *value, float low, float high);
/* Scale and zero point of every root. */
enum vc_status vc_act_value_scales(struct vc_ctx *ctx, struct vc_activations *a);
/* Scales of weights and biases. */
enum vc_status vc_act_layer_scales(struct vc_ctx *ctx, struct vc_activations *a, struct vc_arena *arena);

/* ---- act_ranges.c ---- */

/* The part of the range of a root that options.ranges takes. */
enum vc_status vc_act_narrow(struct vc_ctx *ctx, struct vc_activations *a, size_t value, float *range);
