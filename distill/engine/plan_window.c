/* plan_window.c - convolutions and pools. */
#include <string.h>

#include "distill/engine/plan_ops.h"
#include "graph/ops/window.h"

#define UNROLLED_ELEMENTS 65536 /* of windows that are unrolled at a time */
#define CHUNKS            16    /* sums of gradients of weights that are made side by side, where they are small */

/* What the attributes say, worked out by graph/ from a value with the shape of input 0. Padding that follows from the
 * size is in before and behind. */
static bool find_window(struct vc_engine *e, uint32_t node, const int64_t *kernel, struct vc_window *w)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    struct vc_run_value value = {.n_dims = x->n_dims, .n = (size_t)x->n, .is_real = true};
    const struct vc_run_value *in[1] = {&value};
    struct vc_run run = {
        .ctx = e->ctx, .graph = e->graph, .node = vc_plan_node(e, node), .n_in = 1, .in = in, .real_bytes = 8};
    bool ceil = kernel == NULL && vc_plan_int(run.node, "ceil_mode", 0) != 0;

    if (!x->real || x->n_dims < 3 || x->n_dims > 2 + VC_WINDOW_DIMS) {
        vc_plan_fail(e, node, "its input has %u dimensions", x->n_dims);
        return false;
    }
    memcpy(value.shape, x->shape, sizeof value.shape);
    if (!vc_run_window(&run, kernel, ceil, w)) {
        vc_plan_fail(e, node, "its windows do not fit the input");
        return false;
    }
    return true;
}

/* ---- Conv ---- */

static uint64_t volume(const int64_t *size)
{
    return (uint64_t)size[0] * (uint64_t)size[1] * (uint64_t)size[2];
}

unsigned vc_train_saves_conv(const struct vc_engine *e, const struct vc_graph_node *node)
{
    return (vc_train_wants(e, node, 0) ? 2u : 0) | (vc_train_wants(e, node, 1) ? 1u : 0);
}

/* How the work is cut: by the shapes alone. Gradients of small weights are made in chunks of images side by side, each
 * with an array of its own; of large ones channel by channel over all images. */
static void cut_conv(struct vc_args_conv *args)
{
    uint64_t inputs = args->channels * volume(args->kernel);
    uint64_t rows = (uint64_t)(args->out[0] * args->out[1]);
    uint64_t weights = args->groups * args->filters * inputs;
    uint64_t most = UNROLLED_ELEMENTS / (inputs * (uint64_t)args->out[2]);

    args->rows_per_part = most < 1 ? 1 : VC_AT_MOST(most, rows);
    args->n_chunks = weights <= 65536 ? VC_AT_MOST(args->batch, CHUNKS) : 1;
    args->chunk = vc_plan_blocks(args->batch, args->n_chunks);
    args->n_chunks = vc_plan_blocks(args->batch, args->chunk);
    args->channels_per_block = args->n_chunks > 1 ? args->channels : vc_plan_blocks(args->channels, CHUNKS);
}

static struct vc_args_conv *conv_args(struct vc_engine *e, uint32_t node)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    const struct vc_plan_value *weights = vc_plan_in(e, node, 1);
    struct vc_args_conv *args = vc_plan_args(e, sizeof *args);
    struct vc_window w;
    uint64_t inputs;
    uint64_t n;

    if (args == NULL || !find_window(e, node, weights->shape + 2, &w)) {
        return NULL;
    }
    args->batch = (uint64_t)x->shape[0];
    args->groups = (uint64_t)vc_plan_int(vc_plan_node(e, node), "group", 1);
    args->channels = (uint64_t)weights->shape[1];
    args->filters = (uint64_t)weights->shape[0] / args->groups;
    if (args->channels * args->groups != (uint64_t)x->shape[1] ||
        args->filters * args->groups != (uint64_t)weights->shape[0]) {
        vc_plan_fail(e, node, "its channels do not fit its groups");
        return NULL;
    }
    memcpy(args->in, w.in, sizeof args->in);
    memcpy(args->out, w.out, sizeof args->out);
    memcpy(args->kernel, w.kernel, sizeof args->kernel);
    memcpy(args->stride, w.stride, sizeof args->stride);
    memcpy(args->dilation, w.dilation, sizeof args->dilation);
    memcpy(args->before, w.before, sizeof args->before);
    cut_conv(args);
    args->has_bias = vc_plan_in(e, node, 2) != NULL;
    inputs = args->channels * volume(args->kernel);
    n = args->rows_per_part * (uint64_t)args->out[2];
    args->unrolled = vc_product_scratch(args->filters, n, inputs);
    if (vc_product_scratch(inputs, n, args->filters) > args->unrolled) {
        args->unrolled = vc_product_scratch(inputs, n, args->filters);
    }
    if (vc_product_scratch(args->filters, inputs, n) > args->unrolled) {
        args->unrolled = vc_product_scratch(args->filters, inputs, n);
    }
    args->scratch = args->unrolled + inputs * n;
    return args;
}

void vc_train_forward_conv(struct vc_engine *e, uint32_t node)
{
    struct vc_args_conv *args = conv_args(e, node);
    struct vc_ref refs[5];

    if (args == NULL) {
        return;
    }
    refs[0] = vc_plan_data(e, node, 0);
    refs[1] = vc_plan_data(e, node, 1);
    refs[2] = vc_plan_data(e, node, 2);
    refs[3] = vc_plan_make(e, node, 0, false);
    refs[4] = vc_plan_scratch(e, args->scratch);
    vc_plan_emit(e, node, VC_LOOP_conv_forward, (size_t)(args->batch * args->groups), args, false, refs, 5);
}

/* dw += the sum over all images, in chunks where there are several. */
static void conv_weights(struct vc_engine *e, uint32_t node, const struct vc_args_conv *args)
{
    uint64_t n = vc_plan_in(e, node, 1)->n;
    size_t parts = vc_plan_blocks(args->channels, args->channels_per_block);
    struct vc_args_chunks *chunks = vc_plan_args(e, sizeof *chunks);
    struct vc_ref refs[4] = {vc_plan_data(e, node, 0), vc_plan_grad(e, node, 0)};
    struct vc_ref dw;
    bool add;

    if (chunks == NULL) {
        return;
    }
    dw = vc_plan_grad_to(e, node, 1, false, &add);
    refs[2] = args->n_chunks > 1 ? vc_plan_reals(e, args->n_chunks * n) : dw;
    refs[3] = vc_plan_scratch(e, args->scratch);
    vc_plan_emit(e, node, VC_LOOP_conv_weights, (size_t)(args->n_chunks * args->groups) * parts, args,
                 args->n_chunks == 1 && add, refs, 4);
    if (args->n_chunks > 1) {
        *chunks = (struct vc_args_chunks){.n = n, .n_chunks = args->n_chunks};
        refs[0] = refs[2];
        refs[1] = dw;
        vc_plan_emit(e, node, VC_LOOP_add_chunks, vc_plan_blocks(n, VC_ELEMENTS_PER_BLOCK), chunks, add, refs, 2);
    }
}

/* The sum of dy over images and places, for each filter. */
static void conv_bias(struct vc_engine *e, uint32_t node)
{
    const struct vc_plan_value *y = vc_plan_out(e, node, 0);
    struct vc_strided s = {.kind = VC_SUM_A, .scale = 1, .n_dims = y->n_dims};
    bool add;

    memcpy(s.shape, y->shape, sizeof s.shape);
    vc_plan_steps(y, y->n_dims, s.step[1]);
    for (unsigned d = 0; d < y->n_dims; d++) {
        s.reduced[d] = d != 1;
    }
    s.step[0][1] = 1;
    s.refs[1] = vc_plan_grad(e, node, 0);
    s.refs[0] = vc_plan_grad_to(e, node, 2, false, &add);
    vc_plan_strided(e, node, &s, add);
}

void vc_train_backward_conv(struct vc_engine *e, uint32_t node)
{
    struct vc_args_conv *args = conv_args(e, node);

    if (args == NULL) {
        return;
    }
    if (vc_plan_trained(e, node, 2)) {
        conv_bias(e, node);
    }
    if (vc_plan_trained(e, node, 1)) {
        conv_weights(e, node, args);
    }
    if (vc_plan_trained(e, node, 0)) {
        struct vc_ref refs[4] = {vc_plan_grad(e, node, 0), vc_plan_data(e, node, 1)};
        bool add;

        refs[2] = vc_plan_grad_to(e, node, 0, false, &add);
        refs[3] = vc_plan_scratch(e, args->scratch);
        vc_plan_emit(e, node, VC_LOOP_conv_input, (size_t)(args->batch * args->groups), args, add, refs, 4);
    }
}

/* ---- pools ---- */

static struct vc_args_window *pool_args(struct vc_engine *e, uint32_t node)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    struct vc_args_window *args = vc_plan_args(e, sizeof *args);
    struct vc_window w;

    if (args == NULL || !find_window(e, node, NULL, &w)) {
        return NULL;
    }
    args->planes = (uint64_t)x->shape[0] * (uint64_t)x->shape[1];
    memcpy(args->in, w.in, sizeof args->in);
    memcpy(args->out, w.out, sizeof args->out);
    memcpy(args->kernel, w.kernel, sizeof args->kernel);
    memcpy(args->stride, w.stride, sizeof args->stride);
    memcpy(args->dilation, w.dilation, sizeof args->dilation);
    memcpy(args->before, w.before, sizeof args->before);
    memcpy(args->behind, w.behind, sizeof args->behind);
    args->with_pads = vc_plan_int(vc_plan_node(e, node), "count_include_pad", 0) != 0;
    if (volume(args->kernel) > UINT32_MAX) {
        vc_plan_fail(e, node, "its window is too large");
        return NULL;
    }
    return args;
}

static void pool_forward(struct vc_engine *e, uint32_t node, bool largest)
{
    struct vc_args_window *args = pool_args(e, node);
    struct vc_plan_value *y = vc_plan_out(e, node, 0);
    struct vc_ref refs[3] = {{0}, {0}, {0}};

    if (args == NULL) {
        return;
    }
    refs[0] = vc_plan_data(e, node, 0);
    refs[1] = vc_plan_make(e, node, 0, false);
    if (largest && y->trained) {
        y->extra = vc_plan_buffer(e, y->n, volume(args->kernel) <= 255 ? 1 : sizeof(uint32_t));
        refs[2] = y->extra;
    }
    vc_plan_emit(e, node, largest ? VC_LOOP_max_pool : VC_LOOP_average_pool, (size_t)args->planes, args, false, refs,
                 3);
}

static void pool_backward(struct vc_engine *e, uint32_t node, bool largest)
{
    struct vc_args_window *args = pool_args(e, node);
    struct vc_ref refs[3] = {vc_plan_grad(e, node, 0), {0}, vc_plan_out(e, node, 0)->extra};
    bool add;

    if (args != NULL && vc_plan_trained(e, node, 0)) {
        refs[1] = vc_plan_grad_to(e, node, 0, false, &add);
        vc_plan_emit(e, node, largest ? VC_LOOP_max_pool_backward : VC_LOOP_average_pool_backward, (size_t)args->planes,
                     args, add, refs, 3);
    }
}

#define POOL(id, largest)                                                                     \
    unsigned vc_train_saves_##id(const struct vc_engine *e, const struct vc_graph_node *node) \
    {                                                                                         \
        (void)e;                                                                              \
        (void)node;                                                                           \
        return 0;                                                                             \
    }                                                                                         \
    void vc_train_forward_##id(struct vc_engine *e, uint32_t node)                            \
    {                                                                                         \
        pool_forward(e, node, largest);                                                       \
    }                                                                                         \
    void vc_train_backward_##id(struct vc_engine *e, uint32_t node)                           \
    {                                                                                         \
        pool_backward(e, node, largest);                                                      \
    }

POOL(max_pool, true)
POOL(average_pool, false)
