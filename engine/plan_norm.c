/* plan_norm.c - BatchNormalization; LayerNormalization and RMSNormalization, of rows of the last dimensions;
 * GroupNormalization and InstanceNormalization. Saved are the input and one or two numbers for each channel or row.
 *
 *     BatchNormalization      mean and variance over the batch and all places, for each channel; a block is a channel
 *     LayerNormalization      mean and variance of each row
 *     RMSNormalization        the same without the mean
 *     GroupNormalization      rows are groups of channels of a sample; then scale and bias of each channel
 *     InstanceNormalization   the same: each channel is a group
 *
 * Gradients of scale and bias are sums over rows: each block of rows has its own partial sum, and one
 * instruction adds them in order:
 *
 *     block 0: rows 0 .. 7   -> partial sum 0        add_chunks:  ((sum 0 + sum 1) + sum 2) ...
 *     block 1: rows 8 .. 15  -> partial sum 1
 *
 * The number of blocks depends on the shape, so a sum has the same bits with any number of threads. */

#include "engine/plan_ops.h"

/* ---- BatchNormalization ---- */

/* Scale, bias and statistics have to be parameters or constants: their gradients and updates go straight to them. */
static bool norm_inputs(struct vc_engine *e, uint32_t node)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);

    for (unsigned k = 1; k < 5; k++) {
        enum vc_value_kind kind = e->graph->values[n->inputs[k]].kind;

        if (kind != VC_VALUE_PARAMETER && kind != VC_VALUE_CONSTANT) {
            vc_plan_fail(e, node, "input %u, '%s', is computed; a parameter is needed", k,
                         e->graph->values[n->inputs[k]].name);
            return false;
        }
    }
    return vc_plan_one_output(e, node);
}

/* fixed: running statistics do not move, because the part is computed again, or they are no weights. */
static struct vc_args_norm *norm_args(struct vc_engine *e, uint32_t node)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    struct vc_args_norm *args = vc_plan_args(e, sizeof *args);

    if (args != NULL) {
        args->batch = (uint64_t)x->shape[0];
        args->channels = (uint64_t)x->shape[1];
        args->inner = vc_plan_count(x, 2, x->n_dims);
        args->epsilon = vc_node_float(n, "epsilon", (double)1e-5f);
        args->momentum = vc_node_float(n, "momentum", (double)0.9f);
        args->frozen = e->options.frozen_norm;
        args->fixed = e->repeats || /* running statistics move once in a step */
                      e->graph->values[n->inputs[3]].kind != VC_VALUE_PARAMETER ||
                      e->graph->values[n->inputs[4]].kind != VC_VALUE_PARAMETER;
    }
    return args;
}

/* extra: mean and inverse standard deviation of each channel, for the backward pass. */
void vc_train_forward_batch_norm(struct vc_engine *e, uint32_t node)
{
    struct vc_args_norm *args = norm_args(e, node);
    struct vc_plan_value *y = vc_plan_out(e, node, 0);
    struct vc_ref refs[7];

    if (args == NULL || !norm_inputs(e, node)) {
        return;
    }
    refs[0] = vc_plan_data(e, node, 0);
    refs[1] = vc_plan_make(e, node, 0, true);
    for (unsigned k = 1; k < 5; k++) {
        refs[1 + k] = vc_plan_data(e, node, k);
    }
    refs[6] = (struct vc_ref){0};
    if (y->trained) {
        y->extra = vc_plan_reals(e, 2 * args->channels);
        refs[6] = y->extra;
    }
    vc_plan_emit(e, node, VC_LOOP_batch_norm, (size_t)args->channels, args, false, refs, 7);
}

/* Scale and bias have one block each to write to, so their gradients go straight to the weights. */
void vc_train_backward_batch_norm(struct vc_engine *e, uint32_t node)
{
    struct vc_args_norm *args = norm_args(e, node);
    struct vc_ref refs[7] = {{0}};
    bool add = false;
    bool adds;

    if (args == NULL) {
        return;
    }
    refs[0] = vc_plan_data(e, node, 0);
    refs[1] = vc_plan_grad(e, node, 0);
    refs[3] = vc_plan_data(e, node, 1);
    refs[4] = vc_plan_out(e, node, 0)->extra;
    for (unsigned k = 0; k < 2; k++) {
        if (vc_plan_trained(e, node, 1 + k)) {
            refs[5 + k] = vc_plan_grad_to(e, node, 1 + k, false, &adds);
            if (refs[5 + k].kind != VC_REF_GRAD) {
                vc_plan_fail(e, node, "'%s' is a part of a tensor that does not lie together",
                             e->graph->values[vc_plan_node(e, node)->inputs[1 + k]].name);
                return;
            }
        }
    }
    if (vc_plan_trained(e, node, 0)) {
        refs[2] = vc_plan_grad_to(e, node, 0, true, &add);
    }
    vc_plan_emit(e, node, VC_LOOP_batch_norm_backward, (size_t)args->channels, args, add, refs, 7);
}

/* ---- LayerNormalization, RMSNormalization: of the last axes ---- */

#define PARTS 16 /* at most, of the sums that gradients of scale and bias are */

/* The mean is taken away: LayerNormalization. */
static bool is_centred(const struct vc_engine *e, uint32_t node)
{
    return vc_node_is(vc_plan_node(e, node), VC_OP_layer_norm);
}

/* A row is what lies from the axis on. Scale and bias have one number for each element of a row, or a
 * single constant. */
static struct vc_args_row_norm *row_norm_args(struct vc_engine *e, uint32_t node)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    unsigned axis = vc_plan_axis(vc_node_int(n, "axis", -1), x->n_dims);
    struct vc_args_row_norm *args = vc_plan_args(e, sizeof *args);

    if (args == NULL) {
        return NULL;
    }
    args->n = vc_plan_count(x, axis, x->n_dims);
    args->rows = x->n / args->n;
    args->epsilon = vc_node_float(n, "epsilon", (double)1e-5f);
    args->centred = is_centred(e, node);
    args->rows_per_block = vc_plan_blocks(args->rows, PARTS);
    for (unsigned k = 1; k < 3; k++) {
        const struct vc_plan_value *by = vc_plan_in(e, node, k);

        if (by != NULL && ((by->n != args->n && (by->n != 1 || by->trained)) || by->n_dims > x->n_dims - axis)) {
            vc_plan_fail(e, node, "'%s' has %llu elements; one for each of the %llu of a row is needed%s",
                         e->graph->values[n->inputs[k]].name, (unsigned long long)by->n, (unsigned long long)args->n,
                         by->n == 1 ? ", or a single one that is not trained" : "");
            return NULL;
        }
    }
    return vc_plan_one_output(e, node) ? args : NULL;
}

/* Scale or bias of n elements. A single number that stands for all (norms with nothing to learn, as OLMo has them) is
 * written out. */
static struct vc_ref row_of(struct vc_engine *e, uint32_t node, unsigned k, uint64_t n)
{
    const struct vc_plan_value *by = vc_plan_in(e, node, k);
    struct vc_strided s = {.kind = VC_SUM_A, .scale = 1, .n_dims = 1, .shape = {(int64_t)n}, .step = {{1}}};

    if (by == NULL || by->n == n) {
        return vc_plan_data(e, node, k);
    }
    s.refs[0] = vc_plan_reals(e, n);
    s.refs[1] = vc_plan_data(e, node, k);
    vc_plan_strided(e, node, &s, false);
    return s.refs[0];
}

/* extra: inverse standard deviation, and for LayerNormalization the mean, of each row. */
void vc_train_forward_layer_norm(struct vc_engine *e, uint32_t node)
{
    struct vc_args_row_norm *args = row_norm_args(e, node);
    struct vc_plan_value *y = vc_plan_out(e, node, 0);
    struct vc_ref refs[5] = {{0}};

    if (args == NULL) {
        return;
    }
    refs[0] = vc_plan_data(e, node, 0);
    refs[2] = row_of(e, node, 1, args->n);
    refs[3] = row_of(e, node, 2, args->n);
    refs[1] = vc_plan_make(e, node, 0, true);
    if (y->trained) {
        y->extra = vc_plan_reals(e, args->rows * (args->centred ? 2 : 1));
        refs[4] = y->extra;
    }
    vc_plan_emit(e, node, VC_LOOP_row_norm, vc_plan_blocks(args->rows, args->rows_per_block), args, false, refs, 5);
}

/* The sum of the parts goes to the gradient of input k. */
static void add_parts(struct vc_engine *e, uint32_t node, unsigned k, uint64_t n, size_t n_parts, struct vc_ref parts)
{
    struct vc_args_chunks *args = vc_plan_args(e, sizeof *args);
    struct vc_ref refs[2] = {parts, {0}};
    bool add;

    if (args != NULL) {
        *args = (struct vc_args_chunks){.n = n, .n_chunks = n_parts};
        refs[1] = vc_plan_grad_to(e, node, k, false, &add);
        vc_plan_emit(e, node, VC_LOOP_add_chunks, vc_plan_blocks(n, VC_ELEMENTS_PER_BLOCK), args, add, refs, 2);
    }
}

/* Partial sums of dscale and dbias first, one row of parts for each block; dx may take the place of dy. */
void vc_train_backward_layer_norm(struct vc_engine *e, uint32_t node)
{
    struct vc_args_row_norm *args = row_norm_args(e, node);
    struct vc_ref refs[7] = {{0}};
    bool add = false;

    if (args == NULL) {
        return;
    }
    size_t parts = vc_plan_blocks(args->rows, args->rows_per_block);
    refs[0] = vc_plan_data(e, node, 0);
    refs[1] = vc_plan_grad(e, node, 0);
    refs[3] = row_of(e, node, 1, args->n);
    refs[4] = vc_plan_out(e, node, 0)->extra;
    for (unsigned k = 1; k < 3; k++) {
        if (vc_plan_trained(e, node, k)) {
            refs[4 + k] = vc_plan_reals(e, parts * args->n);
        }
    }
    if (vc_plan_trained(e, node, 0)) {
        refs[2] = vc_plan_grad_to(e, node, 0, true, &add);
    }
    vc_plan_emit(e, node, VC_LOOP_row_norm_backward, parts, args, add, refs, 7);
    for (unsigned k = 1; k < 3; k++) {
        if (vc_plan_trained(e, node, k)) {
            add_parts(e, node, k, args->n, parts, refs[4 + k]);
        }
    }
}

VC_TRAIN_SAME(rms_norm, layer_norm)

/* ---- GroupNormalization, InstanceNormalization: rows, then channels ---- */

/* A group of channels of a sample lies together: [batch, groups, channels of a group, places]. */
static struct vc_args_row_norm *group_norm_args(struct vc_engine *e, uint32_t node)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    int64_t channels = x->shape[1];
    int64_t groups = vc_node_is(n, VC_OP_instance_norm) ? channels : vc_node_int(n, "num_groups", 1);
    struct vc_args_row_norm *args = vc_plan_args(e, sizeof *args);

    if (args == NULL) {
        return NULL;
    }
    if (channels % groups != 0) {
        vc_plan_fail(e, node, "%lld channels cannot be divided into %lld groups", (long long)channels,
                     (long long)groups);
        return NULL;
    }
    args->rows = (uint64_t)(x->shape[0] * groups);
    args->n = x->n / args->rows;
    args->epsilon = vc_node_float(n, "epsilon", (double)1e-5f);
    args->centred = true;
    args->rows_per_block = vc_plan_blocks(args->rows, PARTS);
    return args;
}

/* A row of n ones: the loops scale each element of a row, and here scales belong to channels. */
static struct vc_ref ones(struct vc_engine *e, uint32_t node, uint64_t n)
{
    struct vc_ref ref = vc_plan_reals(e, n);

    vc_plan_fill(e, node, ref, n, 1);
    return ref;
}

/* y = (x - mean) / deviation of each row. saved: NONE, or where they go. */
static void normalize_rows(struct vc_engine *e, uint32_t node, const struct vc_args_row_norm *args, struct vc_ref y,
                           struct vc_ref saved)
{
    struct vc_ref refs[5] = {vc_plan_data(e, node, 0), y, ones(e, node, args->n), {0}, saved};

    vc_plan_emit(e, node, VC_LOOP_row_norm, vc_plan_blocks(args->rows, args->rows_per_block), args, false, refs, 5);
}

/* out = f(a, b), of the shape of x. b has one number for each channel; or, with `sums`, out has. */
static void by_channel(struct vc_engine *e, uint32_t node, enum vc_sum_kind kind, struct vc_ref out, struct vc_ref a,
                       struct vc_ref b, bool sums, bool add)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    struct vc_strided s = {.kind = kind, .scale = 1, .n_dims = x->n_dims, .refs = {out, a, b}};

    memcpy(s.shape, x->shape, sizeof s.shape);
    vc_plan_steps(x, x->n_dims, s.step[1]);
    memcpy(s.step[sums ? 2 : 0], s.step[1], sizeof s.step[1]);
    s.step[sums ? 0 : 2][1] = 1;
    for (unsigned k = 0; k < x->n_dims; k++) {
        s.reduced[k] = sums && k != 1;
    }
    vc_plan_strided(e, node, &s, add);
}

/* extra: mean and inverse standard deviation of each row. */
void vc_train_forward_group_norm(struct vc_engine *e, uint32_t node)
{
    struct vc_args_row_norm *args = group_norm_args(e, node);
    struct vc_plan_value *y = vc_plan_out(e, node, 0);

    if (args == NULL) {
        return;
    }
    struct vc_ref scale = vc_plan_data(e, node, 1);
    struct vc_ref bias = vc_plan_data(e, node, 2);
    struct vc_ref to = vc_plan_make(e, node, 0, true);
    y->extra = y->trained ? vc_plan_reals(e, 2 * args->rows) : (struct vc_ref){0};
    normalize_rows(e, node, args, to, y->extra);
    by_channel(e, node, VC_SUM_A_TIMES_B, to, to, scale, false, false);
    by_channel(e, node, VC_SUM_A_PLUS_B, to, to, bias, false, false);
}

/* dbias = sums of dy; dscale = sums of dy times the rows, which are normalized again; dx from dy scale, whose place may
 * be that of dx, which may be that of dy. */
void vc_train_backward_group_norm(struct vc_engine *e, uint32_t node)
{
    struct vc_args_row_norm *args = group_norm_args(e, node);
    struct vc_ref dy = vc_plan_grad(e, node, 0);
    struct vc_ref scale = vc_plan_data(e, node, 1);
    bool add;

    if (args == NULL) {
        return;
    }
    for (unsigned k = 2; k > 0; k--) {
        if (vc_plan_trained(e, node, k)) {
            struct vc_ref rows = k == 1 ? vc_plan_reals(e, vc_plan_in(e, node, 0)->n) : (struct vc_ref){0};
            struct vc_ref to = vc_plan_grad_to(e, node, k, false, &add);

            if (k == 1) {
                normalize_rows(e, node, args, rows, (struct vc_ref){0});
            }
            by_channel(e, node, k == 1 ? VC_SUM_A_TIMES_B : VC_SUM_A, to, dy, rows, true, add);
        }
    }
    if (vc_plan_trained(e, node, 0)) {
        struct vc_ref refs[5] = {vc_plan_data(e, node, 0)};

        refs[2] = vc_plan_grad_to(e, node, 0, true, &add);
        refs[1] = add ? vc_plan_reals(e, vc_plan_in(e, node, 0)->n) : refs[2];
        refs[3] = ones(e, node, args->n);
        refs[4] = vc_plan_out(e, node, 0)->extra;
        by_channel(e, node, VC_SUM_A_TIMES_B, refs[1], dy, scale, false, false);
        vc_plan_emit(e, node, VC_LOOP_row_norm_backward, vc_plan_blocks(args->rows, args->rows_per_block), args, add,
                     refs, 5);
    }
}

VC_TRAIN_SAME(instance_norm, group_norm)
