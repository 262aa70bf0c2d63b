/* ops_resize.c - shapes of Resize.
 *
 * The output's shape comes from sizes, or from scales times the input's dimensions; both have to be known when the
 * graph is built. Attributes that no supported mode uses are asked for and ignored. */
#include <math.h>

#include "graph/ops/ops.h"

/* Fails unless the word is one of the list, which ends with NULL. */
static bool one_of(struct vc_infer *in, const char *attr, const char *otherwise, const char *const *words)
{
    const char *word = vc_infer_string(in, attr, otherwise);

    for (; *words != NULL; words++) {
        if (strcmp(word, *words) == 0) {
            return true;
        }
    }
    vc_infer_fail(in, "%s '%s' is not supported", attr, word);
    return false;
}

/* Modes, coordinates and rounding that resize.c knows; what stands outside of a crop is 0, and other policies are refused. */
static bool check_attrs(struct vc_infer *in, bool crops)
{
    static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
    static const char *const coordinates[] = {
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
        NULL};
    static const char *const rounding[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
    static const char *const policies[] = {"stretch", NULL};

    vc_infer_float(in, "cubic_coeff_a", 0);
    vc_infer_int(in, "exclude_outside", 0);
    if (vc_infer_int(in, "antialias", 0) != 0 && crops) {
        vc_infer_fail(in, "antialias of a crop is not supported");
    }
    if (vc_infer_float(in, "extrapolation_value", 0) != 0 && crops) {
        vc_infer_fail(in, "an extrapolation_value other than 0 is not supported");
    }
    return !in->failed && one_of(in, "mode", "nearest", modes) &&
           one_of(in, "coordinate_transformation_mode", "half_pixel", coordinates) &&
           one_of(in, "nearest_mode", "round_prefer_floor", rounding) &&
           one_of(in, "keep_aspect_ratio_policy", "stretch", policies);
}

/* floor(size * scale), multiplied in f32 as runtimes do it: 5 * 2.6f is 13, and 12.999... in double. A size that
 * depends on inputs needs a scale that is a fraction above/below with below up to 64: 1.5 * height is
 * floor(3*height / 2). */
static struct vc_dim scaled(struct vc_infer *in, struct vc_dim size, double scale)
{
    struct vc_dims *dims = vc_infer_dims(in);

    VC_LEAVE_WITH(!(scale > 0) || scale > 1e9, vc_infer_fail(in, "the scale is %g", scale), vc_dim_bad());
    if (vc_dim_is_number(size)) {
        double all = floor((double)((float)size.size * (float)scale));

        return all < 9e15 ? vc_dim_number((int64_t)all) : vc_dim_bad();
    }
    for (int64_t below = 1; below <= 64; below++) {
        double above = rint(scale * (double)below);

        if (above >= 1 && fabs(above - scale * (double)below) < 1e-6 * above) {
            return vc_dim_divide(dims, vc_dim_multiply(dims, size, vc_dim_number((int64_t)above)),
                                 vc_dim_number(below));
        }
    }
    vc_infer_fail(in, "the scale %g of a size that depends on an input is no fraction of small numbers", scale);
    return vc_dim_bad();
}

/* Inputs: x, roi (of crops), scales, sizes; sizes count if both are given. */
void vc_infer_resize(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    size_t n_axes;
    const int64_t *axes = vc_infer_ints(in, "axes", &n_axes);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    double scales[VC_GRAPH_MAX_DIMS];
    double roi[2 * VC_GRAPH_MAX_DIMS];
    size_t n;
    bool by_size = vc_infer_in(in, 3) != NULL;
    bool crops = strcmp(vc_infer_string(in, "coordinate_transformation_mode", ""), "tf_crop_and_resize") == 0;

    n_axes = axes != NULL ? n_axes : x->n_dims;
    if (!vc_infer_types(in, "fffi") || !check_attrs(in, crops) ||
        (crops && !vc_infer_floats(in, 1, "the roi", roi, 2 * VC_GRAPH_MAX_DIMS, &n))) {
        return;
    }
    VC_LEAVE_IF(crops && n != 2 * n_axes, vc_infer_fail(in, "the roi has %zu numbers for %zu axes", n, n_axes));
    for (size_t k = 0; crops && k < n; k++) {
        VC_LEAVE_IF(!isfinite(roi[k]), vc_infer_fail(in, "the roi has %g", roi[k]));
    }
    const struct vc_dim *sizes = vc_infer_elems(in, 3, &n);
    VC_LEAVE_IF(by_size ? sizes == NULL : !vc_infer_floats(in, 2, "the list of scales", scales, VC_GRAPH_MAX_DIMS, &n),
                vc_infer_fail(in, "the sizes are computed from values, not from the sizes of inputs"));
    VC_LEAVE_IF(n != n_axes || n > x->n_dims,
                vc_infer_fail(in, "%zu sizes or scales are given for %zu axes", n, n_axes));
    memcpy(shape, x->shape, x->n_dims * sizeof *shape);
    for (size_t k = 0; k < n && !in->failed; k++) {
        unsigned axis = vc_infer_axis(in, axes != NULL ? axes[k] : (int64_t)k, x->n_dims);

        shape[axis] = by_size ? sizes[k] : scaled(in, x->shape[axis], scales[k]);
    }
    vc_infer_out(in, 0, VC_DTYPE_F32, shape, x->n_dims);
}
