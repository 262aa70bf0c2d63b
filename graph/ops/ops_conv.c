/* ops_conv.c - shapes and multiply-adds of convolutions.
 *
 * Weights of Conv are [filters, channels / groups, kernel...], of ConvTranspose [channels, filters / groups,
 * kernel...]. */
#include "graph/ops/window.h"

/* Input 0 has a batch, channels and one to three more dimensions; so have the weights. The bias has one. */
static bool check_ranks(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);

    return vc_infer_types(in, "f") && vc_infer_rank(in, 0, 3, 2 + VC_WINDOW_DIMS) &&
           vc_infer_rank(in, 1, x->n_dims, x->n_dims) && vc_infer_rank(in, 2, 1, 1);
}

/* The attribute group, if it divides both numbers of channels; else 0, after a problem. */
static int64_t groups_of(struct vc_infer *in, struct vc_dim a, struct vc_dim b)
{
    int64_t groups = vc_infer_int(in, "group", 1);

    VC_LEAVE_WITH(groups < 1 || (vc_dim_is_number(a) && a.size % groups != 0) ||
                      (vc_dim_is_number(b) && b.size % groups != 0),
                  vc_infer_fail(in, "the channels cannot be divided into %lld groups", (long long)groups), 0);
    return groups;
}

/* Multiply-adds: `each` channels times the kernel's elements for every element of the shape. Conv counts outputs,
 * ConvTranspose inputs: each of them meets the whole kernel.
 *     Conv [1, 3, 32, 32] with weights [16, 3, 3, 3]:     3 * 9 * (1 * 16 * 32 * 32) = 442,368
 */
static void macs(struct vc_infer *in, struct vc_dim each, const struct vc_dim *shape, const struct vc_window_attrs *w)
{
    struct vc_dims *dims = vc_infer_dims(in);

    for (unsigned k = 0; k < w->n; k++) {
        each = vc_dim_multiply(dims, each, vc_dim_number(w->kernel[k]));
    }
    vc_infer_macs(in, vc_dim_multiply(dims, each, vc_dim_product(dims, shape, w->n + 2)));
}

/* Channels of the input = channels of the weights * groups; the bias has one number for each filter. */
void vc_infer_conv(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    const struct vc_graph_value *weights = vc_infer_in(in, 1);
    const struct vc_graph_value *bias = vc_infer_in(in, 2);
    struct vc_dim shape[2 + VC_WINDOW_DIMS];
    struct vc_window_attrs w;

    if (!check_ranks(in) || !vc_infer_window(in, x->n_dims - 2, weights->shape + 2, &w)) {
        return;
    }
    int64_t groups = groups_of(in, x->shape[1], weights->shape[0]);
    vc_infer_same(in, "the channels of the input and those that the weights and groups make", x->shape[1],
                  vc_dim_multiply(vc_infer_dims(in), weights->shape[1], vc_dim_number(groups)));
    if (bias != NULL) {
        vc_infer_same(in, "the filters and the bias", weights->shape[0], bias->shape[0]);
    }
    if (in->failed) {
        return;
    }
    shape[0] = x->shape[0];
    shape[1] = weights->shape[0];
    for (unsigned k = 0; k < w.n; k++) {
        shape[2 + k] = vc_window_count(vc_infer_dims(in), &w, k, x->shape[2 + k], false);
    }
    macs(in, weights->shape[1], shape, &w);
    vc_infer_out(in, 0, VC_DTYPE_F32, shape, x->n_dims);
}

/* A list attribute of ConvTranspose: one number for each spatial dimension, 0 to 10^9; NULL if it is missing or
 * empty. */
static const int64_t *extra(struct vc_infer *in, const char *name, unsigned n, bool *ok)
{
    size_t n_given;
    const int64_t *given = vc_infer_ints(in, name, &n_given);

    for (size_t k = 0; given != NULL && *ok && k < n_given; k++) {
        if (n_given != n || given[k] < 0 || given[k] > 1000000000) {
            vc_infer_fail(in, "%s has %zu numbers, or a number that is out of range", name, n_given);
            *ok = false;
        }
    }
    return n_given == 0 ? NULL : given;
}

/* The output's size: (in - 1) * stride + reach + output_padding - pads, written as in * stride + (reach - stride)
 * to have one symbol only. */
void vc_infer_conv_transpose(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    const struct vc_graph_value *weights = vc_infer_in(in, 1);
    const struct vc_graph_value *bias = vc_infer_in(in, 2);
    struct vc_dims *dims = vc_infer_dims(in);
    struct vc_dim shape[2 + VC_WINDOW_DIMS];
    struct vc_window_attrs w;
    bool ok = true;

    if (!check_ranks(in) || !vc_infer_window(in, x->n_dims - 2, weights->shape + 2, &w)) {
        return;
    }
    const int64_t *more = extra(in, "output_padding", w.n, &ok);
    const int64_t *wanted = extra(in, "output_shape", w.n, &ok);
    int64_t groups = groups_of(in, x->shape[1], x->shape[1]);
    vc_infer_same(in, "the channels of the input and of the weights", x->shape[1], weights->shape[0]);
    shape[0] = x->shape[0];
    shape[1] = vc_dim_multiply(dims, weights->shape[1], vc_dim_number(groups));
    if (bias != NULL) {
        vc_infer_same(in, "the filters and the bias", shape[1], bias->shape[0]);
    }
    if (in->failed) {
        return;
    }
    for (unsigned k = 0; k < w.n; k++) {
        struct vc_dim stride = vc_dim_number(w.stride[k]);
        int64_t reach =
            (w.kernel[k] - 1) * w.dilation[k] + 1 + (more != NULL ? more[k] : 0) - w.before[k] - w.behind[k];

        shape[2 + k] =
            wanted != NULL ? vc_dim_number(wanted[k])
            : w.pad == VC_PAD_SAME_UPPER || w.pad == VC_PAD_SAME_LOWER
                ? vc_dim_multiply(dims, x->shape[2 + k], stride)
                : vc_dim_add(dims, vc_dim_multiply(dims, x->shape[2 + k], stride), vc_dim_number(reach - w.stride[k]));
    }
    macs(in, weights->shape[1], x->shape, &w);
    vc_infer_out(in, 0, VC_DTYPE_F32, shape, x->n_dims);
}
