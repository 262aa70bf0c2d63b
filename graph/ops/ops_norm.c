/* ops_norm.c - shapes of normalizations and of Softmax. */
#include "graph/ops/ops.h"

static void infer_softmax(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    int64_t axis = vc_infer_int(in, "axis", -1);

    if (vc_infer_types(in, "f")) {
        vc_infer_axis(in, axis, x->n_dims);
        vc_infer_out_like(in);
    }
}

void vc_infer_softmax(struct vc_infer *in)
{
    infer_softmax(in);
}

void vc_infer_log_softmax(struct vc_infer *in)
{
    infer_softmax(in);
}

/* Scale and bias have to broadcast to the input without making it larger: only then has the output the input's
 * shape. */
static void check_fits(struct vc_infer *in, unsigned k)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    const struct vc_graph_value *scale = vc_infer_in(in, k);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    unsigned n_dims;

    if (scale == NULL || in->failed || !vc_infer_broadcast(in, x, scale, shape, &n_dims)) {
        return;
    }
    VC_LEAVE_IF(n_dims != x->n_dims, vc_infer_fail(in, "'%s' has more dimensions than the input", scale->name));
    for (unsigned d = 0; d < n_dims; d++) {
        if (vc_dim_is(x->shape[d], 1) && !vc_dim_is(shape[d], 1)) {
            vc_infer_fail(in, "'%s' is larger than the input in dimension %u", scale->name, d);
        }
    }
}

/* LayerNormalization and RMSNormalization over the dimensions from the axis on; outputs 1 and 2 are mean and
 * inverse standard deviation, one for each row. */
static void infer_layer(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);
    int64_t at = vc_infer_int(in, "axis", -1);
    struct vc_dim shape[VC_GRAPH_MAX_DIMS];
    struct vc_graph_value of = *x;
    unsigned axis;

    vc_infer_float(in, "epsilon", 0);
    vc_infer_int(in, "stash_type", 1);
    if (!vc_infer_types(in, "f")) {
        return;
    }
    axis = vc_infer_axis(in, at, x->n_dims);
    check_fits(in, 1);
    check_fits(in, 2);
    vc_infer_out_like(in);
    for (unsigned k = 0; k < of.n_dims; k++) {
        shape[k] = k < axis ? of.shape[k] : vc_dim_number(1);
    }
    vc_infer_out(in, 1, VC_DTYPE_F32, shape, of.n_dims);
    vc_infer_out(in, 2, VC_DTYPE_F32, shape, of.n_dims);
}

void vc_infer_layer_norm(struct vc_infer *in)
{
    infer_layer(in);
}

void vc_infer_rms_norm(struct vc_infer *in)
{
    infer_layer(in);
}

/* Inputs from number 1 on have one number for each channel, which is dimension 1 of the input. */
static void infer_channels(struct vc_infer *in)
{
    const struct vc_graph_value *x = vc_infer_in(in, 0);

    if (!vc_infer_types(in, "f") || !vc_infer_rank(in, 0, 2, VC_GRAPH_MAX_DIMS)) {
        return;
    }
    for (unsigned k = 1; k < vc_infer_n_in(in); k++) {
        if (!vc_infer_rank(in, k, 1, 1)) {
            return;
        }
        vc_infer_same(in, "the channels of the input and of its parameters", x->shape[1], vc_infer_in(in, k)->shape[0]);
    }
    vc_infer_out_like(in);
}

/* Inference: the model's stored statistics are used and returned; momentum and training_mode change nothing. */
void vc_infer_batch_norm(struct vc_infer *in)
{
    vc_infer_float(in, "epsilon", 0);
    vc_infer_float(in, "momentum", 0);
    vc_infer_int(in, "training_mode", 0);
    infer_channels(in);
    if (!in->failed) {
        struct vc_dim channels = vc_infer_in(in, 0)->shape[1];
        vc_infer_out(in, 1, VC_DTYPE_F32, &channels, 1);
        vc_infer_out(in, 2, VC_DTYPE_F32, &channels, 1);
    }
}

void vc_infer_instance_norm(struct vc_infer *in)
{
    vc_infer_float(in, "epsilon", 0);
    infer_channels(in);
}

void vc_infer_group_norm(struct vc_infer *in)
{
    int64_t groups = vc_infer_int(in, "num_groups", 0);
    const struct vc_graph_value *x = vc_infer_in(in, 0);

    vc_infer_float(in, "epsilon", 0);
    vc_infer_int(in, "stash_type", 1);
    if (groups < 1 || (x->n_dims > 1 && vc_dim_is_number(x->shape[1]) && x->shape[1].size % groups != 0)) {
        vc_infer_fail(in, "the channels cannot be divided into %lld groups", (long long)groups);
    }
    infer_channels(in);
}
