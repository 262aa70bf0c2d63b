/* resize.c - see resize.h. */
#include "graph/ops/resize.h"

#include <math.h>

/* A list of floats that a constant has; NULL: it is no constant. */
static const double *numbers(const struct vc_graph *graph, const struct vc_graph_node *node, unsigned k, int64_t *n)
{
    const struct vc_graph_value *v =
        k < node->n_inputs && node->inputs[k] != VC_NO_VALUE ? &graph->values[node->inputs[k]] : NULL;

    *n = v != NULL && v->kind == VC_VALUE_CONSTANT && v->n_dims <= 1 ? 1 : 0;
    *n = *n != 0 && v->n_dims == 1 ? v->shape[0].size : *n;
    return *n != 0 ? v->data : NULL;
}

/* What all dimensions have in common. */
static struct vc_resize_axis axis_of(const struct vc_graph_node *node, bool f64)
{
    const char *mode = vc_node_string(node, "mode", "nearest");
    const char *place = vc_node_string(node, "coordinate_transformation_mode", "half_pixel");
    struct vc_resize_axis axis = {.end = 1,
                                  .place = *place,
                                  .round = vc_node_string(node, "nearest_mode", "round_prefer_floor"),
                                  .reach = *mode == 'n'   ? 0
                                           : *mode == 'l' ? 1
                                                          : 2,
                                  .a = vc_node_float(node, "cubic_coeff_a", -0.75),
                                  .exclude = vc_node_int(node, "exclude_outside", 0) != 0,
                                  .f64 = f64};

    axis.antialias = axis.reach != 0 && vc_node_int(node, "antialias", 0) != 0;
    axis.exclude = axis.exclude && (axis.reach == 2 || axis.antialias);
    axis.place = strcmp(place, "half_pixel_symmetric") == 0 ? 's' : axis.place;
    axis.place = strcmp(place, "asymmetric") == 0 ? 'y' : axis.place;
    return axis;
}

bool vc_resize_axes(const struct vc_graph *graph, const struct vc_graph_node *node, const int64_t *in,
                    const int64_t *out, unsigned n_dims, bool f64, struct vc_resize_axis *axes, const char **why)
{
    const struct vc_graph_attr *order = vc_node_attr(node, "axes");
    bool by_size = node->n_inputs > 3 && node->inputs[3] != VC_NO_VALUE;
    int64_t n_listed = order != NULL ? (int64_t)order->n : (int64_t)n_dims;
    int64_t n_scales, n_roi;
    const double *scales = numbers(graph, node, 2, &n_scales);
    const double *roi = numbers(graph, node, 1, &n_roi);

    *why = "its scales are computed; constants or sizes are needed";
    if (!by_size && n_scales != n_listed) {
        return false;
    }
    for (unsigned k = 0; k < n_dims; k++) {
        axes[k] = axis_of(node, f64);
        axes[k].in = in[k];
        axes[k].out = out[k];
        axes[k].scale = in[k] != 0 ? (double)out[k] / (double)in[k] : 1;
    }
    for (int64_t i = 0; i < n_listed; i++) {
        int64_t at = order != NULL ? order->ints[i] : i;
        struct vc_resize_axis *axis = &axes[at < 0 ? at + (int64_t)n_dims : at];

        axis->scale = by_size ? axis->scale : scales[i];
        if (axis->place == 't' && n_roi == 2 * n_listed) {
            axis->begin = roi[i];
            axis->end = roi[n_listed + i];
        }
    }
    *why = "antialias over more than 4096 elements is not supported";
    for (unsigned k = 0; k < n_dims; k++) {
        if (axes[k].antialias && axes[k].scale < VC_RESIZE_LEAST) {
            return false;
        }
    }
    return true;
}

/* Where element `at` of the output lies between the elements of the input.
 *     4 to 8, scale 2:     half_pixel (0 + 0.5) / 2 - 0.5 = -0.25     asymmetric 0 / 2 = 0     align_corners 0 * 3 / 7 = 0
 */
static double place_of(const struct vc_resize_axis *axis, int64_t at)
{
    double x = (double)at;
    double last = (double)(axis->in - 1);
    double shrink;

    switch (axis->place) {
    case 'a':
        return axis->out == 1 ? 0 : x * last / (double)(axis->out - 1);
    case 'y':
        return x / axis->scale;
    case 't':
        x = axis->out == 1 ? 0.5 : x / (double)(axis->out - 1);
        return (axis->begin + (axis->end - axis->begin) * x) * last;
    case 's': /* the middle stays where it is, although the size was rounded down */
        shrink = (double)axis->out / (axis->scale * (double)axis->in);
        return (double)axis->in / 2 * (1 - shrink) + (x + 0.5) / axis->scale - 0.5;
    default:
        return axis->place == 'p' && axis->out == 1 ? 0 : (x + 0.5) / axis->scale - 0.5;
    }
}

/* The whole place next to one between two elements. A half goes down with round_prefer_floor, up with
 * round_prefer_ceil. */
static double rounded(const char *how, double place)
{
    if (strcmp(how, "floor") == 0) {
        return floor(place);
    }
    if (strcmp(how, "ceil") == 0) {
        return ceil(place);
    }
    return strcmp(how, "round_prefer_ceil") == 0 ? floor(place + 0.5) : ceil(place - 0.5);
}

/* Linear and cubic: how much of an element that far away. */
static double kernel(const struct vc_resize_axis *axis, double x)
{
    double a = axis->a;

    x = fabs(x);
    if (axis->reach == 1) {
        return fmax(1 - x, 0);
    }
    if (x <= 1) {
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    }
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* How far apart the elements of the input stand for the kernel. */
static double step_of(const struct vc_resize_axis *axis)
{
    return axis->antialias ? fmin(axis->scale, 1) : 1;
}

size_t vc_resize_most(const struct vc_resize_axis *axis)
{
    return axis->reach == 0 ? 1 : 2 * (size_t)ceil(axis->reach / step_of(axis)) + 2;
}

size_t vc_resize_row(const struct vc_resize_axis *axis, int64_t at, int64_t *from, double *weight)
{
    double place = place_of(axis, at);
    double step = step_of(axis);
    double base = axis->reach == 0 ? rounded(axis->round, place) : floor(place);
    double ratio = place - base;
    double last = (double)(axis->in - 1);
    double sum = 0;
    int64_t first = axis->reach == 0 ? 0 : (int64_t)floor(-(double)axis->reach / step) + 1;
    size_t n = 0;

    if (axis->place == 't' && (place < 0 || place > last)) {
        return 0;
    }
    ratio = axis->f64 ? ratio : (double)(float)ratio;
    for (int64_t i = first; i <= (axis->reach == 0 ? 0 : 1 - first); i++) {
        double w = axis->reach == 0 ? 1 : kernel(axis, step * ((double)i - ratio));
        double to = base + (double)i;
        int64_t clamped = (int64_t)fmin(fmax(to, 0), last);

        if (w == 0 || (axis->exclude && (to < 0 || to > last))) {
            continue;
        }
        sum += w;
        if (n != 0 && from[n - 1] == clamped) {
            weight[n - 1] += w;
            continue;
        }
        from[n] = clamped;
        weight[n++] = w;
    }
    for (size_t k = 0; (axis->antialias || axis->exclude) && k < n; k++) {
        weight[k] /= sum;
    }
    return n;
}
