/* act_scales.c - scales and zero points of values, weights and biases (docs/numerics.md, section 13).
 *
 *     values     scale, zero     of a range of the statistics, or known: Sigmoid is 0 to 1
 *     weights    scale           largest magnitude / 127; larger where pairs of codes would overflow
 *     bias       scale           scale of the inputs * scale of the weights
 *
 * onnxruntime's kernels without VNNI multiply pairs of a u8 and an i8 and add two products in 16 bits, which saturate
 * (pmaddubsw). For each layer a sample of its inputs tells whether that happens; its codes are made smaller then. */

#include "core/chain/tile_reader.h"
#include "kernels/arith.h"
#include "passes/statistics/calibration.h"
#include "quantize/activations/activations.h"

#define PAIR_CODES 128                 /* two codes of one sign that add up to more could overflow: 255 * 128 = 32640 */
#define MAX_PAIR   32767               /* what pmaddubsw adds two products into */
#define MAX_SHARE  1e-4                /* of pairs that do not fit */
#define MAX_WORK   ((uint64_t)1 << 28) /* products that are looked at for a layer, at most */

/* ---- values ---- */

/* A range is two numbers; one that is not finite or not in order is no range of values. */
enum vc_status vc_act_range(struct vc_ctx *ctx, const struct vc_model *statistics, const char *name, float *range,
                            bool *found)
{
    size_t at;

    VC_CALL(vc_calibration_array(ctx, statistics, name, ".range", &at));
    *found =
        at != VC_NO_TENSOR && statistics->tensors[at].dtype == VC_DTYPE_F32 && statistics->tensors[at].n_elems == 2;
    if (!*found) {
        return VC_OK;
    }
    VC_CALL(vc_source_read_any(ctx, statistics, at, VC_FORM_VALUES, 0, range, 2 * sizeof *range));
    VC_REFUSE_IF(!(fabsf(range[0]) < INFINITY) || !(fabsf(range[1]) < INFINITY) || range[0] > range[1], ctx,
                 VC_E_FORMAT, "%s: the range of '%s' is %g to %g", statistics->path, name, (double)range[0],
                 (double)range[1]);
    return VC_OK;
}

/* The input that the maker of v hands on as it is, so that the graph which calibrate ran has no node for it; else ACT_NONE. */
static size_t handed_on(const struct vc_activations *a, size_t v)
{
    size_t maker = a->graph.values[v].maker;
    const struct vc_program_node *node = maker == ACT_NONE ? NULL : &a->graph.program.nodes[maker];

    return node != NULL && *node->domain == '\0' &&
                   (vc_is_one_of(node->op, "Cast CastLike") ||
                    (node->n_inputs == 1 && vc_is_one_of(node->op, "Sum Mean Max Min")))
               ? vc_act_input(&a->graph, node, 0)
               : ACT_NONE;
}

/* The scale of a root: all values that are only chosen from its elements have the same codes. */
static enum vc_status value_scale(struct vc_ctx *ctx, struct vc_activations *a, struct act_value *v)
{
    const struct vc_program_node *node = v->maker == ACT_NONE ? NULL : &a->graph.program.nodes[v->maker];
    float range[2];
    bool found = false;

    if (node != NULL && (vc_act_is(node, "Sigmoid") || vc_act_is(node, "Softmax"))) { /* known without data */
        v->scale = vc_act_is(node, "Sigmoid") ? 1.0f / 255.0f : 1.0f / 256.0f;
        return VC_OK;
    }
    for (size_t x = (size_t)(v - a->graph.values); !found && x != ACT_NONE; x = handed_on(a, x)) {
        VC_CALL(vc_act_range(ctx, a->options->calibration, a->graph.values[x].name, range, &found));
    }
    VC_REFUSE_IF(!found, ctx, VC_E_UNSUPPORTED,
                 "%s: has no range of the value '%s': make statistics of this graph with vcompress calibrate, or "
                 "leave out the weights of the node with %s",
                 a->options->calibration->path, v->name, vc_option(ctx, "include=false"));
    VC_CALL(vc_act_narrow(ctx, a, (size_t)(v - a->graph.values), range));
    vc_act_scale_of_range(v, range[0], range[1]);
    return VC_OK;
}

/* A scale of 0 is one that is not known yet. */
enum vc_status vc_act_value_scales(struct vc_ctx *ctx, struct vc_activations *a)
{
    for (size_t i = 0; i < a->graph.n_values; i++) {
        struct act_value *v = &a->graph.values[a->graph.values[i].root];

        if (a->graph.values[i].coded && v->scale == 0.0f) {
            VC_CALL(value_scale(ctx, a, v));
        }
    }
    return VC_OK;
}

/* ---- weights ---- */

/* Rows of outputs: element (n, k) is at n * step_n + k * step_k. */
struct matrix {
    const float *w;
    size_t n, k, step_n, step_k;
    size_t places; /* of the window of a convolution; else 1 */
};

/* Weight k of output n. */
static float at(const struct matrix *m, size_t n, size_t k)
{
    return m->w[n * m->step_n + k * m->step_k];
}

/* Outputs are on axis 0, as of a Conv, or on the last axis of a matrix. */
static struct matrix matrix_of(const struct vc_desc *desc, unsigned axis, size_t places, const float *w)
{
    size_t n = (size_t)desc->shape[axis];
    size_t k = (size_t)desc->n_elems / n;

    return axis == 0 ? (struct matrix){w, n, k, k, 1, places} : (struct matrix){w, n, k, 1, n, places};
}

/* Where kernels read weight k: [channels][places] becomes [places][channels]. */
static size_t place_of(size_t k, size_t places, size_t channels)
{
    return k % places * channels + k / places;
}

/* The row as the kernels read it: of a convolution each place of the window with all channels. */
static void order_row(const struct matrix *m, size_t n, float *row)
{
    for (size_t k = 0; k < m->k; k++) {
        row[place_of(k, m->places, m->k / m->places)] = at(m, n, k);
    }
}

/* The largest magnitude, and the largest sum of two neighbours that have one sign, or of one of them. */
static void largest(const float *row, size_t n, float *most, float *pair)
{
    for (size_t k = 0; k < n; k++) {
        float next = k + 1 < n ? row[k + 1] : 0.0f;

        *most = fmaxf(*most, fabsf(row[k]));
        *pair = fmaxf(*pair, fabsf(row[k]) + (row[k] * next > 0.0f ? fabsf(next) : 0.0f));
    }
}

/* Whether no two neighbours of the row have codes that could overflow with the largest inputs. */
static bool pairs_fit(const float *row, size_t n, float scale)
{
    for (size_t k = 0; k + 1 < n; k++) {
        int a = vc_int8_encode(row[k], scale);
        int b = vc_int8_encode(row[k + 1], scale);

        if (a + b > PAIR_CODES || a + b < -PAIR_CODES) {
            return false;
        }
    }
    return true;
}

/* One for each output, or one for all: the largest magnitude is 127 steps, or fewer where pairs have to fit. Called
 * twice for a layer: with full codes, of which the sample tells whether they saturate, then with those that are
 * chosen. */
static void weight_scales(const struct matrix *m, struct act_layer *layer, float *row)
{
    for (size_t i = 0; i < layer->n_scales; i++) {
        size_t first = layer->n_scales == 1 ? 0 : i;
        size_t end = layer->n_scales == 1 ? m->n : i + 1;
        float most = 0.0f;
        float pair = 0.0f;
        float *scale = &layer->scale[i];

        for (size_t n = first; n < end; n++) {
            order_row(m, n, row);
            largest(row, m->k, &most, &pair);
        }
        *scale = vc_int8_scale(vc_f32_bits(most));
        if (!layer->short_codes || vc_int8_scale_is_tiny(vc_f32_bits(most))) {
            continue;
        }
        *scale = fmaxf(*scale, pair / (float)PAIR_CODES);
        for (size_t n = first; n < end; n++) {
            order_row(m, n, row);
            while (!pairs_fit(row, m->k, *scale)) { /* quotients are rounded: a step or two */
                *scale = nextafterf(*scale, INFINITY);
            }
        }
    }
}

/* Scales of the bias, (scale of the inputs) * (scale of the weights); where codes of 32 bits would not do, the scale of
 * the weights grows. Codes go to 2^31 - 1 of both signs, so a scale has to be at least 2 |bias| / 4294967294, with some
 * room for rounding. */
static void bias_scales(const float *bias, size_t n, float x_scale, struct act_layer *layer)
{
    for (size_t i = 0; i < n; i++) {
        size_t s = layer->n_scales == 1 ? 0 : i;
        double needed = 2.0002 * fabs((double)bias[i]) / 4294967294.0;

        if ((double)x_scale * (double)layer->scale[s] < needed) {
            layer->scale[s] = nextafterf((float)(needed / (double)x_scale), INFINITY);
        }
    }
    for (size_t i = 0; i < layer->n_scales; i++) {
        layer->bias_scale[i] = x_scale * layer->scale[i];
    }
}

/* ---- saturation ---- */

/* Codes of inputs in the order in which the kernels multiply: of a convolution each place of the window with all
 * channels. */
struct sample {
    uint8_t *codes; /* [n][columns] */
    size_t n, columns;
};

/* Reads the rows of inputs that calibrate has stored beside the statistics, and makes codes of them by the scale of the
 * layer's inputs. `group`: elements of the inputs of one group of a convolution. */
static enum vc_status load_sample(struct vc_ctx *ctx, const struct vc_activations *a, const struct act_layer *layer,
                                  size_t group, size_t places, struct sample *out)
{
    const struct vc_model *file = a->options->calibration;
    const char *name = a->plan->model->tensors[layer->weights].name;
    const struct act_value *x = &a->graph.values[a->graph.values[layer->x].root];
    VC_SCOPED float *rows = NULL;
    size_t index;

    VC_CALL(vc_calibration_array(ctx, file, name, ".in_sample", &index));
    const struct vc_tensor *t = index != VC_NO_TENSOR ? &file->tensors[index] : NULL;
    VC_REFUSE_IF(t == NULL || t->dtype != VC_DTYPE_F32 || t->n_dims != 2 || t->shape[1] == 0 ||
                     t->shape[1] % group != 0,
                 ctx, VC_E_UNSUPPORTED,
                 "%s: has no sample of the inputs of '%s', which tells whether its kernel saturates: make "
                 "statistics of this graph with vcompress calibrate, or choose %s",
                 file->path, name, vc_option(ctx, "saturation=all"));
    out->n = (size_t)t->shape[0];
    out->columns = (size_t)t->shape[1];
    VC_CALL_ALLOC(rows = vc_alloc_array(ctx, VC_TAG_MISC, (size_t)t->n_elems + 1, sizeof *rows));
    VC_CALL_ALLOC(out->codes = vc_alloc_array(ctx, VC_TAG_MISC, (size_t)t->n_elems + 1, sizeof *out->codes));
    VC_CALL(vc_source_read_any(ctx, file, index, VC_FORM_VALUES, 0, rows, (size_t)t->n_elems * sizeof *rows));
    for (size_t i = 0; i < t->n_elems; i++) {
        size_t row = i / group * group;
        float q = rintf(rows[i] / x->scale) + (float)x->zero;

        out->codes[row + place_of(i - row, places, group / places)] = (uint8_t)(q >= 255.0f ? 255.0f
                                                                                : q >= 0.0f ? q
                                                                                            : 0.0f);
    }
    return VC_OK;
}

/* Pairs of neighbours whose sum of products does not fit, of pairs that begin at even and at odd places. Where a pair
 * begins depends on the kernel, so both ways are counted and the worse one decides. */
static void count_pairs(const uint8_t *a, const int16_t *w, size_t n, uint64_t *bad)
{
    for (unsigned odd = 0; odd < 2; odd++) {
        uint32_t found = 0;

        for (size_t k = odd; k + 1 < n; k += 2) {
            int32_t sum = (int32_t)a[k] * w[k] + (int32_t)a[k + 1] * w[k + 1];

            found += sum > MAX_PAIR || sum < -MAX_PAIR - 1;
        }
        bad[odd] += found;
    }
}

/* *found: a share of more than MAX_SHARE of the pairs does not fit. Of large layers every step-th row of the sample is
 * taken, so that the work has an end. */
static enum vc_status saturates(struct vc_ctx *ctx, const struct vc_activations *a, const struct act_layer *layer,
                                const struct matrix *m, float *row, bool *found)
{
    double group = vc_act_number(layer->node, "group", 1);
    size_t groups = group >= 1.0 && group <= (double)m->n ? (size_t)group : 1;
    struct sample sample = {NULL, 0, 0};
    int16_t *w = vc_alloc_array(ctx, VC_TAG_MISC, m->k + 1, sizeof *w);
    uint64_t bad[2] = {0, 0};
    enum vc_status status = VC_OK;

    *found = false;
    VC_TRY_ALLOC(w);
    VC_TRY(load_sample(ctx, a, layer, m->k, m->places, &sample));
    if (sample.columns != m->k * groups || m->n % groups != 0) {
        VC_TRY(vc_fail(ctx, VC_E_UNSUPPORTED, "%s: the sample of the inputs of '%s' is that of another model",
                       a->options->calibration->path, a->plan->model->tensors[layer->weights].name));
    }
    size_t step = (size_t)(1 + (uint64_t)m->k * m->n / MAX_WORK * sample.n +
                           (uint64_t)m->k * m->n % MAX_WORK * sample.n / MAX_WORK);
    for (size_t n = 0; n < m->n; n++) {
        float scale = layer->scale[layer->n_scales == 1 ? 0 : n];

        order_row(m, n, row);
        for (size_t k = 0; k < m->k; k++) {
            w[k] = vc_int8_encode(row[k], scale);
        }
        for (size_t v = 0; v < sample.n; v += step) {
            count_pairs(sample.codes + v * sample.columns + n / (m->n / groups) * m->k, w, m->k, bad);
        }
    }
    uint64_t pairs = (uint64_t)(m->k / 2) * m->n * ((sample.n + step - 1) / step);
    *found = (double)(bad[0] > bad[1] ? bad[0] : bad[1]) > MAX_SHARE * (double)pairs;
out:
    VC_FREE_ALL(ctx, w, sample.codes);
    return status;
}

/* ---- a layer ---- */

/* The values as the passes before this one leave them. Codes need a finite scale, so NaN and Inf are refused. */
static enum vc_status read_item(struct vc_ctx *ctx, const struct vc_activations *a, size_t tensor, float **out)
{
    struct vc_item *item = &a->plan->items[tensor];
    size_t n = (size_t)item->desc->n_elems;
    const char *name = a->plan->model->tensors[tensor].name;
    enum vc_status status = VC_OK;

    VC_CALL_ALLOC(*out = vc_alloc_array(ctx, VC_TAG_MISC, n + 1, sizeof **out));
    status = vc_tile_reader_all(ctx, item, VC_PART_CODES, *out, n * sizeof **out);
    if (status != VC_OK) {
        return vc_context(ctx, "%s", name);
    }
    for (size_t i = 0; i < n; i++) {
        VC_REFUSE_IF(!(fabsf((*out)[i]) < INFINITY), ctx, VC_E_UNSUPPORTED,
                     "%s: element %zu is NaN or infinite (%s leaves the tensor as it is)", name, i,
                     vc_option(ctx, "include=false"));
    }
    return VC_OK;
}

/* A depthwise convolution has one channel in each group: kernels add no pairs there. */
static enum vc_status layer_scales(struct vc_ctx *ctx, struct vc_activations *a, struct vc_arena *arena,
                                   struct act_layer *layer)
{
    const struct vc_desc *desc = a->plan->items[layer->weights].desc;
    unsigned axis = a->plan->model->tensors[layer->weights].channel_axis;
    bool conv = vc_act_is(layer->node, "Conv");
    size_t places = conv ? (size_t)(desc->n_elems / desc->shape[0] / desc->shape[1]) : 1;
    bool depthwise = conv && desc->shape[1] == 1 && vc_act_number(layer->node, "group", 1) > 1;
    VC_SCOPED float *bias = NULL;
    VC_SCOPED float *w = NULL;
    VC_SCOPED float *row = NULL;

    VC_CALL(read_item(ctx, a, layer->weights, &w));
    struct matrix m = matrix_of(desc, axis, places, w);
    VC_CALL_ALLOC(row = vc_alloc_array(ctx, VC_TAG_MISC, m.k + 1, sizeof *row));
    layer->n_scales = a->options->granularity == VC_GRANULARITY_TENSOR ? 1 : m.n;
    VC_CALL_ALLOC(layer->scale = vc_arena_alloc(ctx, arena, layer->n_scales * sizeof *layer->scale));
    VC_CALL_ALLOC(layer->bias_scale = vc_arena_alloc(ctx, arena, layer->n_scales * sizeof *layer->bias_scale));
    weight_scales(&m, layer, row);
    if (a->options->saturation == VC_SATURATION_AUTO && !depthwise) { /* whose kernel does not add pairs */
        VC_CALL(saturates(ctx, a, layer, &m, row, &layer->short_codes));
    }
    layer->short_codes = layer->short_codes || a->options->saturation == VC_SATURATION_ALL;
    weight_scales(&m, layer, row);
    if (layer->bias != VC_NO_TENSOR) {
        VC_CALL(read_item(ctx, a, layer->bias, &bias));
        bias_scales(bias, m.n, a->graph.values[a->graph.values[layer->x].root].scale, layer);
    }
    return VC_OK;
}

enum vc_status vc_act_layer_scales(struct vc_ctx *ctx, struct vc_activations *a, struct vc_arena *arena)
{
    for (size_t k = 0; k < a->n_layers; k++) {
        VC_CALL(vc_check_cancelled(ctx));
        VC_CALL(layer_scales(ctx, a, arena, &a->layers[k]));
    }
    return VC_OK;
}
