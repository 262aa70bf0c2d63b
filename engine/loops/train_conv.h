/* train_conv.h - part of train_products.h: convolutions as products. An image's windows are unrolled into a matrix,
 * part by part:
 *
 *     row (c, d, h, w): channel and element of the window        column: output row and place in it
 *
 *     forward  y = weights [filters, inputs] * unrolled [inputs, positions]
 *     input    dx += roll(weights' dy)           weights  dw += dy * unrolled'
 */

/* Output rows there are: all but the last dimension. */
static size_t conv_rows(const struct vc_args_conv *args)
{
    return (size_t)(args->out[0] * args->out[1]);
}

/* The windows o along the last dimension of which element w is in the input: from *first to before *end. */
static void conv_inside(const struct vc_args_conv *args, int64_t w, int64_t *first, int64_t *end)
{
    int64_t from = args->before[2] - w * args->dilation[2]; /* o * stride >= from, and < from + in */
    int64_t to = from + args->in[2];

    *first = from <= 0 ? 0 : (from - 1) / args->stride[2] + 1;
    *end = to <= 0 ? 0 : (to - 1) / args->stride[2] + 1;
    *end = *end > args->out[2] ? args->out[2] : *end;
    *first = *first > *end ? *end : *first;
}

/* Where the row of the input begins that element (d, h) of the windows in output row `row` is in; -1: in the padding.
 */
static int64_t conv_row_at(const struct vc_args_conv *args, size_t row, int64_t d, int64_t h)
{
    int64_t i = (int64_t)row / args->out[1] * args->stride[0] - args->before[0] + d * args->dilation[0];
    int64_t j = (int64_t)row % args->out[1] * args->stride[1] - args->before[1] + h * args->dilation[1];

    return i < 0 || i >= args->in[0] || j < 0 || j >= args->in[1] ? -1 : (i * args->in[1] + j) * args->in[2];
}

/* One row of the matrix: element (d, h, w) of the windows in `rows` output rows from `first` on, of one channel x. */
static void unroll_row(const struct vc_args_conv *args, const REAL *x, int64_t d, int64_t h, int64_t w, size_t first,
                       size_t rows, REAL *to)
{
    int64_t begin, end;

    conv_inside(args, w, &begin, &end);
    for (size_t r = 0; r < rows; r++, to += args->out[2]) {
        int64_t at = conv_row_at(args, first + r, d, h);
        const REAL *from = x + at + begin * args->stride[2] - args->before[2] + w * args->dilation[2];

        if (at < 0) {
            memset(to, 0, (size_t)args->out[2] * sizeof *to);
            continue;
        }
        memset(to, 0, (size_t)begin * sizeof *to);
        if (args->stride[2] == 1) {
            memcpy(to + begin, from, (size_t)(end - begin) * sizeof *to);
        } else {
            for (int64_t o = begin; o < end; o++) {
                to[o] = from[(o - begin) * args->stride[2]];
            }
        }
        memset(to + end, 0, (size_t)(args->out[2] - end) * sizeof *to);
    }
}

/* The other way: the row is added to where its elements came from. */
static void roll_row(const struct vc_args_conv *args, REAL *x, int64_t d, int64_t h, int64_t w, size_t first,
                     size_t rows, const REAL *from)
{
    int64_t begin, end;

    conv_inside(args, w, &begin, &end);
    for (size_t r = 0; r < rows; r++, from += args->out[2]) {
        int64_t at = conv_row_at(args, first + r, d, h);
        REAL *to = x + at + begin * args->stride[2] - args->before[2] + w * args->dilation[2];

        for (int64_t o = begin; at >= 0 && o < end; o++) {
            to[(o - begin) * args->stride[2]] += from[o];
        }
    }
}

/* All rows of `channels` channels. */
static void unroll(const struct vc_args_conv *args, const REAL *x, size_t channels, size_t first, size_t rows, REAL *to)
{
    for (size_t c = 0; c < channels; c++, x += vc_window_volume(args->in)) {
        for (int64_t d = 0; d < args->kernel[0]; d++) {
            for (int64_t h = 0; h < args->kernel[1]; h++) {
                for (int64_t w = 0; w < args->kernel[2]; w++, to += rows * (size_t)args->out[2]) {
                    unroll_row(args, x, d, h, w, first, rows, to);
                }
            }
        }
    }
}

/* The reverse of unrolling: elements of the matrix are added to the places of the image that they were
 * taken from. A place is in several windows and gets several sums. */
static void roll(const struct vc_args_conv *args, REAL *x, size_t channels, size_t first, size_t rows, const REAL *from)
{
    for (size_t c = 0; c < channels; c++, x += vc_window_volume(args->in)) {
        for (int64_t d = 0; d < args->kernel[0]; d++) {
            for (int64_t h = 0; h < args->kernel[1]; h++) {
                for (int64_t w = 0; w < args->kernel[2]; w++, from += rows * (size_t)args->out[2]) {
                    roll_row(args, x, d, h, w, first, rows, from);
                }
            }
        }
    }
}

/* A block is one image and one group of channels: where its elements begin, and its worker's scratch. */
struct conv_block {
    size_t x, y, weights; /* places in elements */
    size_t group, inputs; /* channels * volume of the window */
    size_t positions;     /* of all of an image's output */
    REAL *unrolled, *scratch;
};

static struct conv_block conv_block(const struct vc_args_conv *args, size_t image, size_t group, REAL *scratch,
                                    unsigned worker)
{
    struct conv_block b = {.group = group};

    b.inputs = (size_t)args->channels * vc_window_volume(args->kernel);
    b.positions = vc_window_volume(args->out);
    b.x = (image * (size_t)args->groups + group) * (size_t)args->channels * vc_window_volume(args->in);
    b.y = (image * (size_t)args->groups + group) * (size_t)args->filters * b.positions;
    b.weights = group * (size_t)args->filters * b.inputs;
    b.scratch = scratch + worker * (size_t)args->scratch;
    b.unrolled = b.scratch + args->unrolled;
    return b;
}

LOOP_FN(conv_forward)
{
    const struct vc_args_conv *args = call->args;
    struct conv_block b =
        conv_block(args, block / (size_t)args->groups, block % (size_t)args->groups, call->p[4], worker);
    const REAL *x = (const REAL *)call->p[0] + b.x;
    const REAL *weights = (const REAL *)call->p[1] + b.weights;
    REAL *y = (REAL *)call->p[3] + b.y;

    for (size_t first = 0; first < conv_rows(args); first += (size_t)args->rows_per_part) {
        size_t rows = VC_AT_MOST(conv_rows(args) - first, (size_t)args->rows_per_part);
        size_t n = rows * (size_t)args->out[2];

        unroll(args, x, (size_t)args->channels, first, rows, b.unrolled);
        multiply((size_t)args->filters, n, b.inputs, weights, (struct vc_matrix){(int64_t)b.inputs, 1}, b.unrolled,
                 (struct vc_matrix){(int64_t)n, 1}, y + first * (size_t)args->out[2], b.positions, false, 1, b.scratch);
    }
    for (size_t f = 0; args->has_bias && f < (size_t)args->filters; f++) {
        REAL bias = ((const REAL *)call->p[2])[b.group * (size_t)args->filters + f];

        for (size_t i = 0; i < b.positions; i++) {
            y[f * b.positions + i] += bias;
        }
    }
}

LOOP_FN(conv_input)
{
    const struct vc_args_conv *args = call->args;
    struct conv_block b =
        conv_block(args, block / (size_t)args->groups, block % (size_t)args->groups, call->p[3], worker);
    const REAL *dy = (const REAL *)call->p[0] + b.y;
    const REAL *weights = (const REAL *)call->p[1] + b.weights;
    REAL *dx = (REAL *)call->p[2] + b.x;

    if (!call->add) {
        memset(dx, 0, (size_t)args->channels * vc_window_volume(args->in) * sizeof *dx);
    }
    for (size_t first = 0; first < conv_rows(args); first += (size_t)args->rows_per_part) {
        size_t rows = VC_AT_MOST(conv_rows(args) - first, (size_t)args->rows_per_part);
        size_t n = rows * (size_t)args->out[2];

        multiply(b.inputs, n, (size_t)args->filters, weights, (struct vc_matrix){1, (int64_t)b.inputs},
                 dy + first * (size_t)args->out[2], (struct vc_matrix){(int64_t)b.positions, 1}, b.unrolled, n, false,
                 1, b.scratch);
        roll(args, dx, (size_t)args->channels, first, rows, b.unrolled);
    }
}

/* Block = chunk of images, group, part of the channels. Each block adds its images in order. */
LOOP_FN(conv_weights)
{
    const struct vc_args_conv *args = call->args;
    size_t parts = (size_t)((args->channels + args->channels_per_block - 1) / args->channels_per_block);
    size_t chunk = block / parts / (size_t)args->groups;
    size_t group = block / parts % (size_t)args->groups;
    size_t channel = block % parts * (size_t)args->channels_per_block;
    size_t channels = VC_AT_MOST((size_t)args->channels - channel, (size_t)args->channels_per_block);
    size_t window = vc_window_volume(args->kernel);
    size_t inputs = (size_t)args->channels * window;
    size_t all = (size_t)(args->groups * args->filters) * inputs;
    REAL *dw = (REAL *)call->p[2] + chunk * all + group * (size_t)args->filters * inputs + channel * window;
    size_t end = VC_AT_MOST((chunk + 1) * (size_t)args->chunk, (size_t)args->batch);
    bool add = call->add;

    for (size_t image = chunk * (size_t)args->chunk; image < end; image++) {
        struct conv_block b = conv_block(args, image, group, call->p[3], worker);

        for (size_t first = 0; first < conv_rows(args); first += (size_t)args->rows_per_part) {
            size_t rows = VC_AT_MOST(conv_rows(args) - first, (size_t)args->rows_per_part);
            size_t n = rows * (size_t)args->out[2];

            unroll(args, (const REAL *)call->p[0] + b.x + channel * vc_window_volume(args->in), channels, first, rows,
                   b.unrolled);
            multiply((size_t)args->filters, channels * window, n,
                     (const REAL *)call->p[1] + b.y + first * (size_t)args->out[2],
                     (struct vc_matrix){(int64_t)b.positions, 1}, b.unrolled, (struct vc_matrix){1, (int64_t)n}, dw,
                     inputs, add, 1, b.scratch);
            add = true;
        }
    }
}

/* Partial sums of chunks are added in the order of chunks. */
LOOP_FN(add_chunks)
{
    const struct vc_args_chunks *args = call->args;
    size_t first = block * VC_ELEMENTS_PER_BLOCK;
    size_t end = VC_AT_MOST(first + VC_ELEMENTS_PER_BLOCK, (size_t)args->n);
    const REAL *chunks = call->p[0];
    REAL *sum = call->p[1];

    for (size_t c = 0; c < (size_t)args->n_chunks; c++) {
        for (size_t i = first; i < end; i++) {
            sum[i] = c == 0 && !call->add ? chunks[i] : sum[i] + chunks[c * (size_t)args->n + i];
        }
    }
}
