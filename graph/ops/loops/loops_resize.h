/* loops_resize.h - part of op_loops.h: Resize, by ONNX's definitions of coordinate_transformation_mode and
 * nearest_mode. Places are computed in double in both precisions; only the weights of linear interpolation are
 * REAL. */

/* One axis: `out` elements of `in`. */
struct resize_axis {
    int64_t in, out;
    double scale;
    char mode; /* of coordinates: h half_pixel, s half_pixel_symmetric, p pytorch_half_pixel, a align_corners, y
                * asymmetric
                */
};

/* Where element `at` of the output lies between the elements of the input. */
static double resize_place(const struct resize_axis *axis, int64_t at)
{
    double x = (double)at;
    double shrink;

    switch (axis->mode) {
    case 'a':
        return axis->out == 1 ? 0 : x * (double)(axis->in - 1) / (double)(axis->out - 1);
    case 'y':
        return x / axis->scale;
    case 'p':
        return axis->out == 1 ? 0 : (x + 0.5) / axis->scale - 0.5;
    case 's': /* the middle stays where it is, although the size was rounded down */
        shrink = (double)axis->out / (axis->scale * (double)axis->in);
        return (double)axis->in / 2 * (1 - shrink) + (x + 0.5) / axis->scale - 0.5;
    default:
        return (x + 0.5) / axis->scale - 0.5;
    }
}

/* The place as an index, clamped to the dimension: borders repeat. */
static int64_t inside(double place, int64_t size)
{
    return place < 0 ? 0 : place > (double)(size - 1) ? size - 1 : (int64_t)place;
}

/* Attributes and sizes, for each axis; false: failed. */
static bool resize_axes(struct vc_run *run, struct resize_axis *axis, int64_t *shape)
{
    const struct vc_run_value *x = run->in[0];
    const struct vc_dim *stated = run->graph->values[run->node->outputs[0]].shape;
    const struct vc_run_value *scales = run->n_in > 3 && run->in[3] != NULL ? NULL : run->in[2];
    const char *mode = vc_node_string(run->node, "coordinate_transformation_mode", "half_pixel");
    size_t n;
    const int64_t *axes = vc_run_ints(run, "axes", &n);

    for (unsigned k = 0; k < x->n_dims; k++) {
        shape[k] = vc_dim_value(&run->graph->dims, stated[k]);
        axis[k] = (struct resize_axis){.in = x->shape[k], .out = shape[k], .scale = 1};
        axis[k].mode = strcmp(mode, "half_pixel_symmetric") == 0 ? 's' : strcmp(mode, "asymmetric") == 0 ? 'y' : *mode;
        VC_LEAVE_WITH(
            shape[k] < 0 || (x->shape[k] == 0 && shape[k] != 0),
            vc_run_fail(run, "a dimension of %lld cannot become %lld", (long long)x->shape[k], (long long)shape[k]),
            false);
        axis[k].scale = x->shape[k] != 0 ? (double)shape[k] / (double)x->shape[k] : 1;
    }
    for (size_t k = 0; scales != NULL && k < scales->n; k++) {
        axis[axes != NULL ? vc_run_axis(axes[k], x->n_dims) : k].scale = (double)((const REAL *)scales->data)[k];
    }
    return true;
}

static int64_t nearest(const struct resize_axis *axis, int64_t at, const char *how)
{
    double place = resize_place(axis, at);

    if (strcmp(how, "floor") == 0) {
        return inside(floor(place), axis->in);
    }
    if (strcmp(how, "ceil") == 0) {
        return inside(ceil(place), axis->in);
    }
    return inside(strcmp(how, "round_prefer_ceil") == 0 ? floor(place + 0.5) : ceil(place - 0.5), axis->in);
}

/* The mean of the elements around the place, two along each axis, weighted by how near they are. */
static REAL between(const struct vc_run_value *x, const struct vc_run_view *view, const struct resize_axis *axis,
                    const int64_t *at)
{
    int64_t low[VC_GRAPH_MAX_DIMS], high[VC_GRAPH_MAX_DIMS];
    REAL weight[VC_GRAPH_MAX_DIMS];
    REAL sum = 0;

    for (unsigned k = 0; k < x->n_dims; k++) {
        double place = resize_place(&axis[k], at[k]);

        low[k] = inside(floor(place), axis[k].in);
        high[k] = inside(floor(place) + 1, axis[k].in);
        weight[k] = low[k] == high[k] ? 0 : (REAL)(place - floor(place));
    }
    for (unsigned corner = 0; corner < 1u << x->n_dims; corner++) {
        REAL all = 1;
        int64_t place = 0;

        for (unsigned k = 0; k < x->n_dims && all != 0; k++) {
            bool second = corner >> k & 1;

            all *= second ? weight[k] : 1 - weight[k];
            place += (second ? high[k] : low[k]) * view->step[k];
        }
        sum += all != 0 ? all * ((const REAL *)x->data)[place] : 0;
    }
    return sum;
}

RUN(resize)
{
    const struct vc_run_value *x = run->in[0];
    struct vc_run_view view = vc_run_view_of(x);
    struct vc_run_walk walk = {.n_dims = x->n_dims};
    struct resize_axis axis[VC_GRAPH_MAX_DIMS];
    bool linear = strcmp(vc_node_string(run->node, "mode", "nearest"), "linear") == 0;
    const char *how = vc_node_string(run->node, "nearest_mode", "round_prefer_floor");
    REAL *out = resize_axes(run, axis, walk.shape) ? vc_run_out(run, 0, true, walk.shape, x->n_dims) : NULL;

    for (size_t i = 0; out != NULL && i < run->out[0].n; i++, vc_run_walk_next(&walk)) {
        int64_t place = 0;

        for (unsigned k = 0; k < x->n_dims && !linear; k++) {
            place += nearest(&axis[k], walk.at[k], how) * view.step[k];
        }
        out[i] = linear ? between(x, &view, axis, walk.at) : ((const REAL *)x->data)[place];
    }
}
