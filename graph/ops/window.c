/* window.c - attributes and sizes of windows: see window.h. Twice the same formulas: for dimensions while the graph
 * is built (vc_window_count), for numbers in a run (vc_run_window); sizes.c compares both for each run. */
#include "graph/ops/window.h"

#define MOST 1000000000 /* of a kernel, a stride, a dilation, a pad: their products fit */

/* Reads a list attribute with one number for each spatial dimension (pads: two), each from `least` to MOST. Without
 * the attribute every number is `least`, which is ONNX's default for strides and dilations (1) and pads (0). */
static bool fill(struct vc_infer *in, const char *name, unsigned n, int64_t least, int64_t *to, unsigned n_to)
{
    size_t n_given;
    const int64_t *given = vc_infer_ints(in, name, &n_given);

    for (unsigned k = 0; k < n_to; k++) {
        to[k] = least;
    }
    if (given != NULL && n_given != n) {
        vc_infer_fail(in, "%s has %zu numbers; %u are needed", name, n_given, n);
        return false;
    }
    for (unsigned k = 0; given != NULL && k < n; k++) {
        VC_LEAVE_WITH(given[k] < least || given[k] > MOST,
                      vc_infer_fail(in, "%s has the number %lld", name, (long long)given[k]), false);
        to[k] = given[k];
    }
    return !in->failed;
}

/* ONNX's auto_pad. NOTSET: pads are those of the attribute; VALID: none; SAME_*: as many that there are ceil(size /
 * stride) windows, the odd one at the end (UPPER) or at the beginning (LOWER). */
static bool auto_pad(struct vc_infer *in, struct vc_window_attrs *w)
{
    const char *pad = vc_infer_string(in, "auto_pad", "NOTSET");
    static const struct {
        const char *name;
        enum vc_pad pad;
    } pads[] = {{"NOTSET", VC_PAD_NOTSET},
                {"VALID", VC_PAD_VALID},
                {"SAME_UPPER", VC_PAD_SAME_UPPER},
                {"SAME_LOWER", VC_PAD_SAME_LOWER}};

    for (size_t k = 0; k < sizeof pads / sizeof pads[0]; k++) {
        if (strcmp(pad, pads[k].name) == 0) {
            w->pad = pads[k].pad;
            return true;
        }
    }
    vc_infer_fail(in, "auto_pad is '%s'; NOTSET, VALID, SAME_UPPER and SAME_LOWER are supported", pad);
    return false;
}

/* The kernel's sizes come from the weights' shape, where there are weights; a kernel_shape that says something else
 * is refused. */
bool vc_infer_window(struct vc_infer *in, unsigned n, const struct vc_dim *kernel, struct vc_window_attrs *w)
{
    int64_t pads[2 * VC_WINDOW_DIMS];

    *w = (struct vc_window_attrs){.n = n};
    if (!fill(in, "kernel_shape", n, 1, w->kernel, VC_WINDOW_DIMS) ||
        !fill(in, "strides", n, 1, w->stride, VC_WINDOW_DIMS) ||
        !fill(in, "dilations", n, 1, w->dilation, VC_WINDOW_DIMS) ||
        !fill(in, "pads", 2 * n, 0, pads, 2 * VC_WINDOW_DIMS) || !auto_pad(in, w)) {
        return false;
    }
    VC_LEAVE_WITH(kernel == NULL && !vc_infer_has(in, "kernel_shape"),
                  vc_infer_fail(in, "the attribute kernel_shape is missing"), false);
    for (unsigned k = 0; k < n; k++) {
        VC_LEAVE_WITH(kernel != NULL && (!vc_dim_is_number(kernel[k]) || kernel[k].size < 1 || kernel[k].size > MOST ||
                                         (vc_infer_has(in, "kernel_shape") && kernel[k].size != w->kernel[k])),
                      vc_infer_fail(in, "kernel_shape does not fit the weights, or is no number"), false);
        w->kernel[k] = kernel != NULL ? kernel[k].size : w->kernel[k];
        w->before[k] = w->pad == VC_PAD_NOTSET ? pads[k] : 0;
        w->behind[k] = w->pad == VC_PAD_NOTSET ? pads[n + k] : 0;
    }
    return true;
}

/* With numbers: size 5, kernel 3, stride 2, pads 1 and 1 give floor((5 + 2 - 3) / 2) + 1 = 3 windows. */
struct vc_dim vc_window_count(struct vc_dims *dims, const struct vc_window_attrs *w, unsigned k, struct vc_dim size,
                              bool ceil)
{
    struct vc_dim stride = vc_dim_number(w->stride[k]);
    int64_t reach = (w->kernel[k] - 1) * w->dilation[k] + 1;

    if (w->pad == VC_PAD_SAME_UPPER || w->pad == VC_PAD_SAME_LOWER) { /* ceil(size / stride) */
        return vc_dim_divide(dims, vc_dim_add(dims, size, vc_dim_number(w->stride[k] - 1)), stride);
    }
    /* floor((before + size + behind - reach) / stride) + 1. With ceil the quotient is rounded up, and a window that
     * would begin behind the input is not there: ceil((before + size + min(behind - reach + stride, 0)) / stride). */
    int64_t spare = w->behind[k] - reach + w->stride[k];
    if (ceil) {
        spare = (spare < 0 ? spare : 0) + w->stride[k] - 1;
    }
    return vc_dim_divide(dims, vc_dim_add(dims, size, vc_dim_number(w->before[k] + spare)), stride);
}

/* ---- in a run ---- */

/* The attributes of a node that was inferred: they are right. The missing dimensions come first. */
static void read_attrs(struct vc_run *run, const int64_t *kernel, struct vc_window *w)
{
    const struct vc_run_value *x = run->in[0];
    unsigned n = x->n_dims - 2;
    unsigned skip = VC_WINDOW_DIMS - n;
    size_t size;
    const int64_t *shape = kernel != NULL ? kernel : vc_run_ints(run, "kernel_shape", &size);
    const int64_t *strides = vc_run_ints(run, "strides", &size);
    const int64_t *dilations = vc_run_ints(run, "dilations", &size);
    const int64_t *pads = vc_run_ints(run, "pads", &size);
    bool explicit_pads = strcmp(vc_node_string(run->node, "auto_pad", "NOTSET"), "NOTSET") == 0;

    for (unsigned k = 0; k < VC_WINDOW_DIMS; k++) {
        bool there = k >= skip;

        w->in[k] = there ? x->shape[2 + k - skip] : 1;
        w->out[k] = 1;
        w->kernel[k] = there ? shape[k - skip] : 1;
        w->stride[k] = there && strides != NULL ? strides[k - skip] : 1;
        w->dilation[k] = there && dilations != NULL ? dilations[k - skip] : 1;
        w->before[k] = there && pads != NULL && explicit_pads ? pads[k - skip] : 0;
        w->behind[k] = there && pads != NULL && explicit_pads ? pads[n + k - skip] : 0;
    }
}

static int64_t quotient_up(int64_t a, int64_t b)
{
    return a <= 0 ? 0 : (a - 1) / b + 1;
}

/* SAME pads are computed from the size: all = (out - 1) * stride + reach - in, at least 0. Bounds: kernel, stride,
 * dilation and pads are at most 10^9 (MOST) and the input a quarter of int64_t, so that no sum or product here
 * overflows. */
bool vc_run_window(struct vc_run *run, const int64_t *kernel, bool ceil, struct vc_window *w)
{
    const char *pad = vc_node_string(run->node, "auto_pad", "NOTSET");

    read_attrs(run, kernel, w);
    for (unsigned k = 0; k < VC_WINDOW_DIMS; k++) {
        int64_t reach = (w->kernel[k] - 1) * w->dilation[k] + 1;

        VC_LEAVE_WITH(w->in[k] > INT64_MAX / 4, vc_run_fail(run, "a dimension of the input is too large"), false);
        if (strncmp(pad, "SAME", 4) == 0) {
            w->out[k] = quotient_up(w->in[k], w->stride[k]);
            int64_t all = (w->out[k] - 1) * w->stride[k] + reach - w->in[k];
            all = all < 0 ? 0 : all;
            w->before[k] = strcmp(pad, "SAME_UPPER") == 0 ? all / 2 : all - all / 2;
            w->behind[k] = all - w->before[k];
            continue;
        }
        int64_t room = w->in[k] + w->before[k] + w->behind[k] - reach;
        VC_LEAVE_WITH(room < 0 && !(ceil && room + w->stride[k] > 0),
                      vc_run_fail(run, "a window of %lld elements does not fit into %lld with padding",
                                  (long long)reach, (long long)(w->in[k] + w->before[k] + w->behind[k])),
                      false);
        w->out[k] =
            ceil ? quotient_up(w->in[k] + w->before[k] +
                                   (w->behind[k] - reach + w->stride[k] < 0 ? w->behind[k] - reach + w->stride[k] : 0),
                               w->stride[k])
                 : room / w->stride[k] + 1;
    }
    return true;
}

/* ConvTranspose reads the equation of Conv backwards: the input has the windows, the output the elements under
 * them. all = (windows - 1) * stride + reach is cut by the pads; output_padding adds to the reach; output_shape or
 * SAME fix the output's size instead, and what is too much is cut in two halves, the smaller half before the
 * elements with SAME_UPPER. */
bool vc_run_window_transposed(struct vc_run *run, const int64_t *kernel, struct vc_window *w)
{
    unsigned n = run->in[0]->n_dims - 2;
    unsigned skip = VC_WINDOW_DIMS - n;
    const char *pad = vc_node_string(run->node, "auto_pad", "NOTSET");
    bool same = strncmp(pad, "SAME", 4) == 0;
    size_t size;
    const int64_t *more = vc_run_ints(run, "output_padding", &size);
    const int64_t *shape = vc_run_ints(run, "output_shape", &size);

    read_attrs(run, kernel, w);
    for (unsigned k = 0; k < VC_WINDOW_DIMS; k++) {
        int64_t reach = (w->kernel[k] - 1) * w->dilation[k] + 1 + (more != NULL && k >= skip ? more[k - skip] : 0);
        int64_t windows = w->in[k];

        VC_LEAVE_WITH(windows == 0 || windows > INT64_MAX / 4 / w->stride[k],
                      vc_run_fail(run, "a dimension of the input has size %lld", (long long)windows), false);
        int64_t all = (windows - 1) * w->stride[k] + reach; /* with what the pads cut off */
        w->in[k] = all - w->before[k] - w->behind[k];
        if (k >= skip && (shape != NULL || same)) {
            w->in[k] = shape != NULL ? shape[k - skip] : windows * w->stride[k];
            int64_t cut = all > w->in[k] ? all - w->in[k] : 0;
            w->before[k] = strcmp(pad, "SAME_UPPER") == 0 ? cut / 2 : cut - cut / 2;
        }
        w->out[k] = windows;
        VC_LEAVE_WITH(w->in[k] < 0, vc_run_fail(run, "the padding takes more than there is"), false);
    }
    return true;
}
