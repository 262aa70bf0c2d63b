/* plan_window.c - convolutions and pools.
 *
 *     stride 1, 2-D, on the processor    direct: the image is padded once, each tap is a shifted row (loops/train_direct.h)
 *     all others                         windows are unrolled into a matrix, rows_per_part rows of the output at a time, and
 *                                        multiplied by the weights (loops/train_conv.h); a device unrolls whole images
 *
 *     forward  y = w * unroll(x)         dw += dy * unroll(x)'          dx = roll(w' * dy)
 *
 * ConvTranspose is the same three products in other places: it makes of x what the convolution with its weights makes of
 * dy, so that `args` are those of this convolution, whose input has the sizes of the output.
 *
 *     forward  y = roll(w' * x)          dw += x * unroll(dy)'          dx = w * unroll(dy)
 *
 * Unrolling, of one channel of 3 x 3 with a kernel of 2 x 2: a column for each window, a row for each tap.
 *
 *     x   a b c        unroll(x)   a b d e        y = w * unroll(x), w [filters, 4]
 *         d e f                    b c e f
 *         g h i                    d e g h
 *                                  e f h i
 *
 * How work is cut is decided by shapes alone, since the cut decides the order of sums: gradients of small
 * weights are sums of chunks of images side by side, those of large ones are made channel by channel over
 * all images. */

#include "engine/plan_ops.h"
#include "graph/ops/window.h"

#define UNROLLED_ELEMENTS 65536      /* of windows that are unrolled at a time */
#define DEVICE_ELEMENTS   (1u << 24) /* the same on a device, which takes whole images */
#define CHUNKS            16         /* sums of gradients of weights that are made side by side, where they are small */

static bool is_transposed(const struct vc_engine *e, uint32_t node)
{
    return vc_node_is(vc_plan_node(e, node), VC_OP_conv_transpose);
}

/* Sizes and padding of the windows, worked out by graph/ from a value with the shape of input 0, so that
 * plan and definition cannot differ. Padding that follows from the size (auto_pad) is in before and behind. */
static bool find_window(struct vc_engine *e, uint32_t node, const int64_t *kernel, struct vc_window *w)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    struct vc_run_value value = {.n_dims = x->n_dims, .n = (size_t)x->n, .is_real = true};
    const struct vc_run_value *in[1] = {&value};
    struct vc_run run = {
        .ctx = e->ctx, .graph = e->graph, .node = vc_plan_node(e, node), .n_in = 1, .in = in, .real_bytes = 8};
    bool ceil = kernel == NULL && vc_node_int(run.node, "ceil_mode", 0) != 0;

    if (!x->real || x->n_dims < 3 || x->n_dims > 2 + VC_WINDOW_DIMS) {
        vc_plan_fail(e, node, "its input has %u dimensions", x->n_dims);
        return false;
    }
    memcpy(value.shape, x->shape, sizeof value.shape);
    if (!(is_transposed(e, node) ? vc_run_window_transposed(&run, kernel, w) : vc_run_window(&run, kernel, ceil, w))) {
        vc_plan_fail(e, node, "its windows do not fit the input");
        return false;
    }
    return true;
}

/* ---- Conv ---- */

/* Elements of a window or an image. */
static uint64_t volume(const int64_t *size)
{
    return (uint64_t)size[0] * (uint64_t)size[1] * (uint64_t)size[2];
}

/* How the work is cut, by the shapes alone, since the cut decides the order of sums. Gradients of small
 * weights are made in up to CHUNKS chunks of images side by side, each with an array of its own, and added
 * in order; of large ones channel by channel over all images. A device makes those of all images together, as far as
 * there is room for so many arrays. */
static void cut_conv(struct vc_args_conv *args, bool on_device)
{
    uint64_t inputs = args->channels * volume(args->kernel);
    uint64_t rows = (uint64_t)(args->out[0] * args->out[1]);
    uint64_t weights = args->groups * args->filters * inputs;
    uint64_t most = UNROLLED_ELEMENTS / (inputs * (uint64_t)args->out[2]);

    args->rows_per_part = most < 1 ? 1 : VC_AT_MOST(most, rows);
    args->n_chunks = weights <= 65536 ? VC_AT_MOST(args->batch, CHUNKS) : 1;
    if (on_device) {
        args->n_chunks = weights < DEVICE_ELEMENTS ? VC_AT_MOST(args->batch, DEVICE_ELEMENTS / weights) : 1;
    }
    args->chunk = vc_plan_blocks(args->batch, args->n_chunks);
    args->n_chunks = vc_plan_blocks(args->batch, args->chunk);
    args->channels_per_block = args->n_chunks > 1 ? args->channels : vc_plan_blocks(args->channels, CHUNKS);
}

/* scratch: the unrolled part, and what the largest of the three products needs for packing. */
static struct vc_args_conv *conv_args(struct vc_engine *e, uint32_t node)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    const struct vc_plan_value *weights = vc_plan_in(e, node, 1);
    struct vc_args_conv *args = vc_plan_args(e, sizeof *args);
    struct vc_window w;

    if (args == NULL || !find_window(e, node, weights->shape + 2, &w)) {
        return NULL;
    }
    args->batch = (uint64_t)x->shape[0];
    args->groups = (uint64_t)vc_node_int(vc_plan_node(e, node), "group", 1);
    args->channels = (uint64_t)weights->shape[1];
    args->filters = (uint64_t)weights->shape[0] / args->groups;
    if ((is_transposed(e, node) ? args->filters : args->channels) * args->groups != (uint64_t)x->shape[1] ||
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
    cut_conv(args, e->options.device != NULL);
    args->has_bias = vc_plan_in(e, node, 2) != NULL && !is_transposed(e, node);
    uint64_t inputs = args->channels * volume(args->kernel);
    uint64_t n = args->rows_per_part * (uint64_t)args->out[2];
    args->unrolled = vc_product_scratch(args->filters, n, inputs);
    if (vc_product_scratch(inputs, n, args->filters) > args->unrolled) {
        args->unrolled = vc_product_scratch(inputs, n, args->filters);
    }
    if (vc_product_scratch(args->filters, inputs, n) > args->unrolled) {
        args->unrolled = vc_product_scratch(args->filters, inputs, n);
    }
    args->scratch = args->unrolled + inputs * n;
    if (e->options.device != NULL) {
        uint64_t image = args->groups * inputs * volume(args->out);

        args->images = VC_AT_MOST(DEVICE_ELEMENTS / image, args->batch);
        args->images = args->images < 1 ? 1 : args->images;
        args->scratch = args->scratch > args->images * image ? args->scratch : args->images * image;
    }
    return args;
}

/* ---- stride 1, without unrolling ---- */

#define DIRECT_ELEMENTS 262144 /* of a padded image, at most */

/* Where each tap lies in the padded image and in the weights: of the convolution, or `turned`, for dx: the
 * same convolution with the kernel reversed and channels and filters exchanged. */
static bool find_taps(struct vc_engine *e, const struct vc_args_conv *conv, bool turned, struct vc_args_direct *args)
{
    uint64_t window = volume(conv->kernel);
    int64_t *tap_at = vc_plan_args(e, (size_t)args->n_taps * sizeof *tap_at);
    int64_t *weight_at = vc_plan_args(e, (size_t)args->n_taps * sizeof *weight_at);
    size_t n = 0;

    if (tap_at == NULL || weight_at == NULL) {
        return false;
    }
    for (int64_t c = 0; c < (int64_t)args->channels; c++) {
        for (int64_t h = 0; h < conv->kernel[1]; h++) {
            for (int64_t w = 0; w < conv->kernel[2]; w++, n++) {
                int64_t i = turned ? conv->kernel[1] - 1 - h : h;
                int64_t j = turned ? conv->kernel[2] - 1 - w : w;

                tap_at[n] = (c * args->padded[0] + i * conv->dilation[1]) * args->padded[1] + j * conv->dilation[2];
                weight_at[n] = (turned ? c * (int64_t)conv->channels * (int64_t)window : c * (int64_t)window) +
                               h * conv->kernel[2] + w;
            }
        }
    }
    args->tap_at = tap_at;
    args->weight_at = weight_at;
    return true;
}

/* Arguments of a direct convolution; NULL for a convolution that this loop does not take (other strides, 3-D, too large an
 * image) or memory is short. */
static struct vc_args_direct *direct_args(struct vc_engine *e, const struct vc_args_conv *conv, bool turned)
{
    struct vc_args_direct *args = vc_plan_args(e, sizeof *args);

    if (args == NULL || e->options.device != NULL || conv->in[0] != 1 || conv->kernel[0] != 1 || conv->out[0] != 1) {
        return NULL;
    }
    args->batch = conv->batch;
    args->groups = conv->groups;
    args->channels = turned ? conv->filters : conv->channels;
    args->filters = turned ? conv->channels : conv->filters;
    for (unsigned k = 0; k < 2; k++) {
        int64_t reach = (conv->kernel[k + 1] - 1) * conv->dilation[k + 1];

        args->in[k] = turned ? conv->out[k + 1] : conv->in[k + 1];
        args->out[k] = turned ? conv->in[k + 1] : conv->out[k + 1];
        args->before[k] = turned ? reach - conv->before[k + 1] : conv->before[k + 1];
        args->padded[k] = args->out[k] + reach;
        if (conv->stride[k + 1] != 1 || args->before[k] < 0 || args->before[k] + args->in[k] > args->padded[k]) {
            return NULL;
        }
    }
    args->n_taps = args->channels * volume(conv->kernel);
    args->filter_step = turned ? volume(conv->kernel) : args->n_taps;
    args->n_sums = (uint64_t)((args->out[0] - 1) * args->padded[1] + args->out[1]);
    args->sums_row = (args->n_sums + VC_DIRECT_SLACK / 2 - 1) / (VC_DIRECT_SLACK / 2) * (VC_DIRECT_SLACK / 2);
    args->x_image = args->channels * (uint64_t)(args->padded[0] * args->padded[1]) + VC_DIRECT_SLACK;
    args->sums_at = args->x_image;
    args->scratch = args->sums_at + VC_DIRECT_ROWS * args->sums_row;
    uint64_t panels = vc_plan_blocks(args->filters, VC_DIRECT_ROWS);
    if (args->x_image > DIRECT_ELEMENTS || args->n_taps * panels * VC_DIRECT_ROWS * args->groups > 1u << 24 ||
        !find_taps(e, conv, turned, args)) {
        return NULL;
    }
    return args;
}

/* to = (or +=) x with the taps of the weights. */
static void emit_direct(struct vc_engine *e, uint32_t node, const struct vc_args_direct *args, struct vc_ref x,
                        struct vc_ref bias, struct vc_ref to, bool add)
{
    size_t panels = vc_plan_blocks(args->filters, VC_DIRECT_ROWS) * (size_t)args->groups;
    struct vc_ref packed = vc_plan_reals(e, panels * VC_DIRECT_ROWS * args->n_taps);
    struct vc_ref pack[2] = {vc_plan_data(e, node, 1), packed};
    struct vc_ref refs[5] = {x, packed, bias, to, vc_plan_scratch(e, args->scratch)};

    vc_plan_emit(e, node, VC_LOOP_direct_pack, panels, args, false, pack, 2);
    vc_plan_emit(e, node, VC_LOOP_direct, (size_t)(args->batch * args->groups), args, add, refs, 5);
}

/* The direct convolution that made x applies Relu itself, where the result goes in the same place. Its
 * arguments are copied, as the backward pass may have the old ones. */
bool vc_plan_relu_joins(struct vc_engine *e, struct vc_ref x, struct vc_ref y)
{
    struct vc_instruction *maker = vc_same_ref(x, y) ? vc_plan_maker(e, VC_LOOP_direct, 3, x) : NULL;
    struct vc_args_direct *args = maker != NULL ? vc_plan_args(e, sizeof *args) : NULL;

    if (args != NULL) {
        *args = *(const struct vc_args_direct *)maker->call.args;
        args->relu = true;
        maker->call.args = args;
    }
    return args != NULL;
}

/* y = x convolved, direct where it can be, else unrolled, which cannot add. */
static void emit_conv(struct vc_engine *e, uint32_t node, const struct vc_args_conv *args, struct vc_ref x,
                      struct vc_ref bias, struct vc_ref y, bool add)
{
    struct vc_args_direct *direct = direct_args(e, args, false);
    const struct vc_plan_value *sum = vc_plan_in(e, node, 0); /* what is added to is a gradient of it */
    struct vc_strided s = {.kind = VC_SUM_A, .scale = 1, .n_dims = sum->n_dims, .refs = {y}};
    struct vc_ref refs[5] = {x, vc_plan_data(e, node, 1), bias, add ? vc_plan_reals(e, sum->n) : y};

    if (direct != NULL) {
        emit_direct(e, node, direct, x, bias, y, add);
        return;
    }
    refs[4] = vc_plan_scratch(e, args->scratch);
    vc_plan_emit(e, node, VC_LOOP_conv_forward, (size_t)(args->batch * args->groups), args, false, refs, 5);
    if (add) {
        memcpy(s.shape, sum->shape, sizeof s.shape);
        vc_plan_steps(sum, sum->n_dims, s.step[0]);
        vc_plan_steps(sum, sum->n_dims, s.step[1]);
        s.refs[1] = refs[3];
        vc_plan_strided(e, node, &s, true);
    }
}

/* dx = dy through the windows, back to where they were read. bias: NULL, or of ConvTranspose, whose `dx` is y. */
static void emit_conv_back(struct vc_engine *e, uint32_t node, const struct vc_args_conv *args, struct vc_ref dy,
                           struct vc_ref bias, struct vc_ref dx, bool add)
{
    struct vc_args_direct *direct = direct_args(e, args, true);
    const struct vc_plan_value *y = vc_plan_out(e, node, 0);
    struct vc_strided s = {.kind = VC_SUM_A, .scale = 1, .n_dims = y->n_dims, .refs = {dx, bias}};
    struct vc_ref refs[4] = {dy, vc_plan_data(e, node, 1), dx};

    if (direct != NULL) {
        emit_direct(e, node, direct, dy, bias, dx, add);
        return;
    }
    refs[3] = vc_plan_scratch(e, args->scratch);
    vc_plan_emit(e, node, VC_LOOP_conv_input, (size_t)(args->batch * args->groups), args, add, refs, 4);
    if (bias.kind != VC_REF_NONE) {
        memcpy(s.shape, y->shape, sizeof s.shape);
        vc_plan_steps(y, y->n_dims, s.step[0]);
        s.step[1][1] = 1;
        vc_plan_strided(e, node, &s, true);
    }
}

static void conv_forward(struct vc_engine *e, uint32_t node, bool transposed)
{
    struct vc_args_conv *args = conv_args(e, node);

    if (args != NULL) {
        struct vc_ref x = vc_plan_data(e, node, 0);
        struct vc_ref bias = vc_plan_data(e, node, 2);

        (transposed ? emit_conv_back : emit_conv)(e, node, args, x, bias, vc_plan_make(e, node, 0, false), false);
    }
}

/* dw += sum over all images. With chunks the parts are added by one more instruction, in the order of
 * chunks. */
static void conv_weights(struct vc_engine *e, uint32_t node, const struct vc_args_conv *args, bool transposed)
{
    uint64_t n = vc_plan_in(e, node, 1)->n;
    size_t parts = vc_plan_blocks(args->channels, args->channels_per_block);
    struct vc_args_direct *direct = args->n_chunks > 1 || args->batch == 1 ? direct_args(e, args, false) : NULL;
    struct vc_args_chunks *chunks = vc_plan_args(e, sizeof *chunks);
    struct vc_ref refs[4];
    bool add;

    if (chunks == NULL) {
        return;
    }
    refs[transposed] = vc_plan_data(e, node, 0);
    refs[!transposed] = vc_plan_grad(e, node, 0);
    struct vc_ref dw = vc_plan_grad_to(e, node, 1, false, &add);
    refs[2] = args->n_chunks > 1 ? vc_plan_reals(e, args->n_chunks * n) : dw;
    if (direct != NULL) {
        direct->chunk = args->chunk;
        direct->dy_image = (direct->filters + VC_DIRECT_ROWS) * direct->sums_row;
        direct->scratch = direct->chunk * (direct->x_image + direct->dy_image);
    }
    if (direct != NULL && direct->scratch <= 4 * DIRECT_ELEMENTS) {
        refs[3] = vc_plan_scratch(e, direct->scratch);
        vc_plan_emit(e, node, VC_LOOP_direct_weights, (size_t)(args->n_chunks * args->groups), direct,
                     args->n_chunks == 1 && add, refs, 4);
    } else {
        refs[3] = vc_plan_scratch(e, args->scratch);
        vc_plan_emit(e, node, VC_LOOP_conv_weights, (size_t)(args->n_chunks * args->groups) * parts, args,
                     args->n_chunks == 1 && add, refs, 4);
    }
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

/* Bias, weights, input, each only where it has a gradient. All three read dy. */
static void conv_backward(struct vc_engine *e, uint32_t node, bool transposed)
{
    struct vc_args_conv *args = conv_args(e, node);

    if (args == NULL) {
        return;
    }
    if (vc_plan_trained(e, node, 2)) {
        conv_bias(e, node);
    }
    if (vc_plan_trained(e, node, 1)) {
        conv_weights(e, node, args, transposed);
    }
    if (vc_plan_trained(e, node, 0)) {
        struct vc_ref dy = vc_plan_grad(e, node, 0);
        bool add;
        struct vc_ref dx = vc_plan_grad_to(e, node, 0, false, &add);

        (transposed ? emit_conv : emit_conv_back)(e, node, args, dy, (struct vc_ref){0}, dx, add);
    }
}

VC_TRAIN_OP(conv, conv, false)
VC_TRAIN_OP(conv_transpose, conv, true)

/* ---- pools ---- */

/* Sizes of the windows; GlobalMaxPool has one. Planes are channels of images: each is pooled by itself. */
static struct vc_args_window *pool_args(struct vc_engine *e, uint32_t node)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    struct vc_args_window *args = vc_plan_args(e, sizeof *args);
    int64_t places = (int64_t)vc_plan_count(x, 2, x->n_dims);
    bool whole = vc_node_is(vc_plan_node(e, node), VC_OP_global_max_pool);
    struct vc_window w = {
        .in = {1, 1, places}, .out = {1, 1, 1}, .kernel = {1, 1, places}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}};

    if (args == NULL || (!whole && !find_window(e, node, NULL, &w))) {
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
    args->with_pads = vc_node_int(vc_plan_node(e, node), "count_include_pad", 0) != 0;
    if (volume(args->kernel) > UINT32_MAX) {
        vc_plan_fail(e, node, "its window is too large");
        return NULL;
    }
    return args;
}

/* In training a maximum notes which element of its window it was, in 1 or 4 bytes each: the backward loop
 * then needs no input. */
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

/* A maximum's gradient goes to the element that it was; a mean's is spread over its window. */
static void pool_backward(struct vc_engine *e, uint32_t node, bool largest)
{
    struct vc_args_window *args = pool_args(e, node);
    struct vc_ref refs[3] = {vc_plan_grad(e, node, 0), {0}, vc_plan_out(e, node, 0)->extra};
    bool add;

    if (args != NULL && vc_plan_trained(e, node, 0) && vc_plan_in(e, node, 0)->n != 0) {
        refs[1] = vc_plan_grad_to(e, node, 0, false, &add);
        vc_plan_emit(e, node, largest ? VC_LOOP_max_pool_backward : VC_LOOP_average_pool_backward, (size_t)args->planes,
                     args, add, refs, 3);
    }
}

VC_TRAIN_OP(max_pool, pool, true)
VC_TRAIN_OP(global_max_pool, pool, true)
VC_TRAIN_OP(average_pool, pool, false)
