/* act_ranges.c - ranges that leave out what is rare, from the histogram of a value (docs/formats.md, section 16): of a
 * layer that reads it. Values without one, and inputs of the graph, keep the smallest and the largest. */

#include "kernels/functions.h"
#include "passes/statistics/calibration.h"
#include "quantize/activations/activations.h"

/* Bins of the histogram, half of them below 0. LEVELS: codes of one sign. */
#define BINS   2048
#define STEPS  40 /* ranges that are tried, from 0.3 of the whole on */
#define LEVELS ((size_t)128)

/* How many elements lie in each bin, all of one width. */
struct histogram {
    double count[BINS];
    double width;
};

/* The value that stands for the elements of a bin. */
static double middle(const struct histogram *h, size_t bin)
{
    return ((double)bin - BINS / 2 + 0.5) * h->width;
}

/* *found false: no layer reads the value. All layers that read the value have the same histogram, so the first one
 * does. */
static enum vc_status load(struct vc_ctx *ctx, const struct vc_activations *a, size_t value, struct histogram *h,
                           bool *found)
{
    const struct vc_model *file = a->options->calibration;

    *found = false;
    for (size_t k = 0; k < a->n_layers && !*found; k++) {
        const char *name = a->plan->model->tensors[a->layers[k].weights].name;
        size_t bins, width;
        float w;

        if (a->graph.values[a->layers[k].x].root != value) {
            continue;
        }
        VC_CALL(vc_calibration_array(ctx, file, name, ".in_hist", &bins));
        VC_CALL(vc_calibration_array(ctx, file, name, ".in_hist_width", &width));
        VC_REFUSE_IF(bins == VC_NO_TENSOR || width == VC_NO_TENSOR || file->tensors[bins].dtype != VC_DTYPE_F64 ||
                         file->tensors[bins].n_elems != BINS || file->tensors[width].dtype != VC_DTYPE_F32 ||
                         file->tensors[width].n_elems != 1,
                     ctx, VC_E_UNSUPPORTED, "%s: has no histogram of the inputs of '%s' (%s)", file->path, name,
                     vc_option(ctx, "ranges"));
        VC_CALL(vc_source_read_any(ctx, file, bins, VC_FORM_VALUES, 0, h->count, sizeof h->count));
        VC_CALL(vc_source_read_any(ctx, file, width, VC_FORM_VALUES, 0, &w, sizeof w));
        h->width = (double)w;
        *found = true;
    }
    return VC_OK;
}

/* What codes of that range do to the values: the sum of squared errors. */
static double error_of(const struct histogram *h, float low, float high)
{
    struct act_value v;
    double sum = 0.0;

    vc_act_scale_of_range(&v, low, high);
    for (size_t b = 0; b < BINS; b++) {
        double x = middle(h, b);
        double q = fmin(fmax(rint(x / (double)v.scale) + (double)v.zero, 0.0), 255.0);
        double e = (q - (double)v.zero) * (double)v.scale - x;

        sum += h->count[b] != 0.0 ? h->count[b] * e * e : 0.0;
    }
    return sum;
}

/* Tries ranges from the whole one down to 0.3 of it; both ends keep their ratio. */
static void least_error(const struct histogram *h, float *range)
{
    const float whole[2] = {range[0], range[1]};
    double best = error_of(h, whole[0], whole[1]);

    for (int k = 0; k < STEPS; k++) {
        float f = 0.3f + 0.7f * (float)k / (float)STEPS;
        double error = error_of(h, f * whole[0], f * whole[1]);

        if (error < best) {
            best = error;
            range[0] = f * whole[0];
            range[1] = f * whole[1];
        }
    }
}

/* Leaves out a share of the elements: half of them at each end, or of values without negative ones all above. */
static void cut(const struct histogram *h, double share, float *range)
{
    double all = 0.0;
    double above = 0.0;
    double below = 0.0;
    size_t first = 0;
    size_t end = BINS;

    for (size_t b = 0; b < BINS; b++) {
        all += h->count[b];
    }
    share *= range[0] < 0.0f ? 0.5 : 1.0;
    while (end > 0 && above + h->count[end - 1] <= share * all) {
        above += h->count[--end];
    }
    while (range[0] < 0.0f && first < end && below + h->count[first] <= share * all) {
        below += h->count[first++];
    }
    range[0] = fmaxf(range[0], (float)(middle(h, first) - 0.5 * h->width));
    range[1] = fminf(range[1], (float)(middle(h, end) - 0.5 * h->width));
}

/* How far the first i of n bins, with all above in the last of them, are from LEVELS levels: a divergence. As TensorRT
 * chooses ranges: the distribution of i bins is compared with that of LEVELS codes for the same range. */
static double divergence(const double *h, size_t i, size_t n)
{
    double level[LEVELS] = {0.0};
    double filled[LEVELS] = {0.0}; /* bins of the level with elements */
    double inside = 0.0;
    double above = 0.0;
    double sum = 0.0;

    for (size_t j = 0; j < n; j++) {
        above += j >= i ? h[j] : 0.0;
        inside += j < i ? h[j] : 0.0;
    }
    for (size_t j = 0; j < i; j++) {
        level[LEVELS * j / i] += h[j];
        filled[LEVELS * j / i] += h[j] > 0.0 ? 1.0 : 0.0;
    }
    for (size_t j = 0; j < i; j++) {
        double p = (h[j] + (j == i - 1 ? above : 0.0)) / (inside + above);
        double q = h[j] > 0.0 ? level[LEVELS * j / i] / filled[LEVELS * j / i] / inside : 0.0;

        sum += p > 0.0 ? p * vc_log_f64(p / fmax(q, 1e-12)) : 0.0;
    }
    return sum;
}

/* Magnitudes beyond the end with the least divergence are left out. Zeros count as the bin after them does: those of a
 * Relu would outweigh all else. */
static void least_divergence(const struct histogram *h, float *range)
{
    double magnitudes[BINS / 2];
    double best = INFINITY;
    size_t n = 0;
    size_t end = 0;

    for (size_t j = 0; j < BINS / 2; j++) {
        magnitudes[j] = h->count[BINS / 2 + j] + h->count[BINS / 2 - 1 - j];
        n = magnitudes[j] > 0.0 ? j + 1 : n;
    }
    magnitudes[0] = magnitudes[1];
    for (size_t i = LEVELS; i <= n; i++) {
        double d = divergence(magnitudes, i, n);

        end = d < best ? i : end;
        best = fmin(best, d);
    }
    if (end != 0) {
        range[0] = fmaxf(range[0], (float)(-(double)end * h->width));
        range[1] = fminf(range[1], (float)((double)end * h->width));
    }
}

/* u8: 0 is always a code, and exact. A range of which the scale would be no normal number of f32 has scale 1. */
void vc_act_scale_of_range(struct act_value *v, float low, float high)
{
    double lo = fmin((double)low, 0.0);
    double hi = fmax((double)high, 0.0);

    v->scale = (float)((hi - lo) / 255.0);
    if (!(v->scale >= vc_bits_f32(VC_F32_MIN_NORMAL_BITS)) || !(v->scale < INFINITY)) {
        v->scale = 1.0f;
    }
    v->zero = (int64_t)fmin(fmax(rint(-lo / (double)v->scale), 0.0), 255.0);
}

/* Inputs of the graph keep their range: what users feed in is theirs. */
enum vc_status vc_act_narrow(struct vc_ctx *ctx, struct vc_activations *a, size_t value, float *range)
{
    const float whole[2] = {range[0], range[1]};
    struct histogram h;
    bool found = false;

    if (a->options->ranges == VC_RANGES_WHOLE || a->graph.values[value].is_input) {
        return VC_OK;
    }
    VC_CALL(load(ctx, a, value, &h, &found));
    if (found && a->options->ranges == VC_RANGES_ERROR) {
        least_error(&h, range);
    } else if (found && a->options->ranges == VC_RANGES_ENTROPY) {
        least_divergence(&h, range);
    } else if (found) {
        cut(&h, 1.0 - a->options->percentile / 100.0, range);
    }
    a->n_narrowed += memcmp(range, whole, sizeof whole) != 0;
    return VC_OK;
}
