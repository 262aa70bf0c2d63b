/* train_args.h - the instructions of a program that trains: what each loop computes, and what it is told. Shared by the
 * loops of the CPU (engine/loops/), those that plan them (engine/plan_*.c), and the CUDA plug-in
 * (cuda/train/cuda_train*.cu). Valid as C11, C++ and CUDA.
 *
 * p[...] are arrays of reals (float or double; on a device float), unless it says otherwise. `add`: results are added
 * to what is there. What is said of blocks is how the CPU cuts the work; where a sum is made in parts by it, a device
 * makes the same parts. Every size here is of arrays that exist, so nothing overflows. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VC_TRAIN_DIMS    8 /* of shapes, at most */
#define VC_LOOP_PTRS     12
#define VC_AT_MOST(a, b) ((a) < (b) ? (a) : (b))

struct vc_train_call {
    void *p[VC_LOOP_PTRS];
    const void *args;
    bool add;
};

/* One pass. */
struct vc_engine_pass {
    bool training;     /* Dropout drops, BatchNormalization takes the statistics of the batch and updates its own */
    uint64_t step;     /* of the random numbers: the same step and row give the same numbers */
    uint64_t row;      /* number of the batch's first row within the step: micro-batches drop what one batch would */
    double norm_share; /* what the batch counts for in running statistics; below 0: as each node says (1 - momentum) */
};

struct vc_engine_fault; /* of the library: devices note faults in their own way */

#define VC_ELEMENTS_PER_BLOCK 16384 /* of loops that go element by element */

/* ---- one element at a time ---- */

/* VC_UNARY_COPY, ...: the rows of unary.inc. ROUND_BF16 and ROUND_F16 have no gradient. */
enum vc_unary {
#define UNARY(KIND, reads, value, gradient) VC_UNARY_##KIND,
#include "kernels/unary.inc"
#undef UNARY
    VC_UNARY_KINDS
};

/* unary           p: x, y                  y = f(x); may be the same array
 * unary_backward  p: x or y, dy, dx        dx = f'(x) dy; dx may be dy. Which of both: `reads` of unary.inc
 * fill            p: y                     y = a */
struct vc_args_unary {
    enum vc_unary kind;
    uint64_t n;
    double a, b;
    /* What p[0] holds, and in `unary` what p[1] does: VC_UNARY_COPY, reals; ROUND_BF16, ROUND_F16: numbers of 16 bits,
     * uint16_t. */
    enum vc_unary from, to;
};

/* codes  p: x, scale, zero (int64_t) or NULL, y    y = x as a code times the scale; may be the same array
 *
 * A code is a whole number from `least` to `most`, minus the zero point; is_f8: a value of f8_e4m3. `size` elements
 * side by side share a scale; scale NULL: that of their largest magnitude. Blocks are of `per_block` elements. */
struct vc_args_codes {
    uint64_t n, size, per_block;
    double least, most;
    bool is_f8, keeps_nan; /* keeps_nan: else NaN has the code 0 */
};

/* dropout  p: x, y    y = x / (1 - ratio) where the element stays, else 0; the gradient goes the same way */
struct vc_args_dropout {
    uint64_t n, per_row; /* elements of a row of the batch */
    uint64_t seed;
    uint32_t node;
    double ratio;
};

/* ---- arrays that are walked with strides ---- */

/* The terms of strided_sum: KIND(id, its value by a, b and c). Those from QUOTIENT_D2 on read c. */
#define VC_SUM_TERMS(KIND)                                                                   \
    KIND(A, a)                                                                               \
    KIND(A_PLUS_B, a + b)                                                                    \
    KIND(A_MINUS_B, a - b)                                                                   \
    KIND(A_TIMES_B, a *b)                                                                    \
    KIND(A_OVER_B, a / b)                                                                    \
    /* the larger or the smaller; NaN where one is */                                        \
    KIND(LARGER, b > a || b != b ? b : a)                                                    \
    KIND(SMALLER, b < a || b != b ? b : a)                                                   \
    /* x and the slope of PRelu; the derivative by the slope of x = b, times a */            \
    KIND(PRELU, a < 0 ? a * b : a)                                                           \
    KIND(PRELU_D2, b > 0 ? 0 : a * b)                                                        \
    /* the derivative of b / c by c, times a */                                              \
    KIND(QUOTIENT_D2, -a *b / (c * c))                                                       \
    /* the derivative of the larger of b and c by b, times a; equal ones have a half each */ \
    KIND(SHARE, a *(float)(!(b < c) + !(b <= c)) / 2)                                        \
    /* the derivative of PRelu by x = b, times a; at 0 it is the slope, as in PyTorch */     \
    KIND(PRELU_D1, b > 0 ? a : a * c)

enum vc_sum_kind {
#define KIND(id, term) VC_SUM_##id,
    VC_SUM_TERMS(KIND)
#undef KIND
};

/* strided_sum  p: out, a, b, c    out[i] = scale * sum over j of f(a, b, c)
 *
 * i runs over the `kept` dimensions, j over the `reduced` ones, of which there may be none; step[k] are the steps of
 * out, a, b, c (those of out only in kept dimensions), and base[k] where they begin. Blocks are of
 * VC_ELEMENTS_PER_BLOCK results, or fewer (`per_block`) where each is a sum of many. */
struct vc_args_strided {
    enum vc_sum_kind kind;
    double scale;
    unsigned n_kept, n_reduced;
    int64_t kept[VC_TRAIN_DIMS], reduced[VC_TRAIN_DIMS];
    int64_t kept_step[4][VC_TRAIN_DIMS], reduced_step[4][VC_TRAIN_DIMS];
    int64_t base[4];
    uint64_t n; /* results */
    uint64_t per_block;
};

/* mapped           p: x, y      y[at] = x[map of each dimension], or `otherwise` where a map says -1
 * mapped_backward  p: dy, dx    dx[at] = sum of dy at all places that map there, in their order
 *
 * map[k][i]: where index i of dimension k of y is in x. back[k]: for each index of x the first of its places in
 * back_list[k], and one more for the end. Blocks are of VC_ELEMENTS_PER_BLOCK results. */
struct vc_args_mapped {
    unsigned n_dims;
    int64_t in[VC_TRAIN_DIMS], out[VC_TRAIN_DIMS];
    const int64_t *map[VC_TRAIN_DIMS], *back[VC_TRAIN_DIMS], *back_list[VC_TRAIN_DIMS];
    uint64_t n_in, n_out;
    double otherwise;
};

/* blend  p: x, y    y[o, i, j] = sum of weight[k] * x[o, from[k], j] for k from first[i] to before first[i + 1], in this order
 *
 * A sparse matrix along one axis, of which a place between two elements is a row of two: x is [outer, in, inner], y
 * [outer, out, inner]. Gradients go through the same loop, by the matrix turned. Blocks are of VC_ELEMENTS_PER_BLOCK
 * results. */
struct vc_args_blend {
    int64_t in, out, inner;
    const int64_t *first, *from; /* [out + 1], [first[out]] */
    const double *weight;        /* [first[out]], each a number of the program's precision */
    uint64_t n;                  /* results */
};

/* softmax           p: x, y         rows of `size` elements, `inner` apart
 * softmax_backward  p: y, dy, dx    dx may be dy */
struct vc_args_softmax {
    uint64_t rows, size, inner, rows_per_block;
    bool logarithm;
};

/* ---- products ---- */

/* A matrix: element (i, j) of matrix s of a stack is at places[s] + i * row + j * column; places NULL: there is one. */
struct vc_matrix {
    int64_t row, column;
};

/* product  p: a, b, c, scratch, bias    c = alpha * sum of a b: c is m x n with columns side by side
 *
 * bias: then bias[j] is added to column j; NULL, as on every device: nothing is.
 *
 * For each of n_stack results the pairs from first[s] to before first[s + 1]: matrices a_at[...] and b_at[...], added
 * in this order. Blocks are the tiles of a result, of tile_m x tile_n. */
struct vc_args_product {
    uint64_t m, n, k;
    struct vc_matrix a, b;
    int64_t c_row;
    uint64_t n_stack;
    const uint64_t *first, *a_at, *b_at, *c_at; /* places in elements; c_at[s] */
    uint64_t tile_m, tile_n;
    double alpha;
    uint64_t scratch; /* reals for each worker */
};

/* Products are computed in parts of at most so many rows of a, columns of b, and inner elements, which are packed in
 * the scratch of the worker; rows and columns are rounded up to whole panels, of at most 12 and 32. */
#define VC_PRODUCT_ROWS    96
#define VC_PRODUCT_COLUMNS 512
#define VC_PRODUCT_DEPTH   256
#define VC_PRODUCT_PADDING 16 /* behind each row of a copy, so that they lie in different sets of a cache */

/* Elements of scratch that a worker needs for an m x n product with k inner elements. */
static inline uint64_t vc_product_scratch(uint64_t m, uint64_t n, uint64_t k)
{
    uint64_t rows = VC_AT_MOST((m + 11) / 12 * 12, VC_PRODUCT_ROWS);
    uint64_t columns = VC_AT_MOST((n + 31) / 32 * 32, VC_PRODUCT_COLUMNS);

    return (rows + columns) * VC_AT_MOST(k, VC_PRODUCT_DEPTH) + rows * VC_PRODUCT_PADDING;
}

/* ---- windows ---- */

struct vc_args_window {
    uint64_t planes; /* batch * channels of what goes in and comes out of a pool */
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], before[3], behind[3];
    bool with_pads; /* averages count the padding */
};

/* max_pool              p: x, y, places     which element of the window it was: u8 where there are at most 255
 * max_pool_backward     p: dy, dx, places   else u32; blocks are planes
 * average_pool          p: x, y
 * average_pool_backward p: dy, dx */

struct vc_args_conv {
    uint64_t batch, groups, channels, filters; /* channels and filters of one group */
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], before[3];
    uint64_t rows_per_part; /* output rows (of the last dimension) that are unrolled at a time */
    bool has_bias;
    uint64_t chunk;              /* images whose gradients of weights are added in one array: */
    uint64_t n_chunks;           /* how many arrays there are */
    uint64_t channels_per_block; /* of conv_weights */
    uint64_t scratch;            /* reals for each worker: for products ... */
    uint64_t unrolled;           /* ... and, from here on, for unrolled windows */
    uint64_t images;             /* of a device: whose windows are unrolled at a time, in all of scratch */
};

/* conv_forward  p: x, weights, bias, y, scratch      blocks: image, group
 * conv_input    p: dy, weights, dx, scratch          blocks: image, group
 * conv_weights  p: x, dy, dw of each chunk, scratch  blocks: chunk, group, channels
 * add_chunks    p: dw of each chunk, dw              dw += the chunks, in their order */
struct vc_args_chunks {
    uint64_t n, n_chunks;
};

/* Convolutions of stride 1 in two dimensions (train_direct.h): y = x with the taps of a window, or, for the gradient of
 * the input, dx = dy with the taps turned round.
 *
 * direct_pack     p: weights, packed                    blocks: group, VC_DIRECT_ROWS filters
 * direct          p: x, packed, bias or NULL, y, scratch   blocks: image, group
 * direct_weights  p: x, dy, dw of each chunk, scratch      blocks: chunk, group
 *
 * packed has n_taps reals for each filter, of which there are whole VC_DIRECT_ROWS in a group. */
#define VC_DIRECT_ROWS  8
#define VC_DIRECT_SLACK 64 /* elements behind a padded image that may be read */

struct vc_args_direct {
    uint64_t batch, groups, channels, filters; /* of x and y, in one group */
    int64_t in[2], out[2], before[2], padded[2];
    uint64_t n_taps;
    const int64_t *tap_at;             /* where in a padded image each one begins: channel, row, column */
    const int64_t *weight_at;          /* which weight of a filter it is */
    uint64_t filter_step;              /* from one filter to the next */
    uint64_t n_sums;                   /* places of a padded image up to the last that is wanted */
    uint64_t sums_row;                 /* the same, rounded up */
    uint64_t sums_at;                  /* in the scratch of a worker, behind the padded image */
    uint64_t scratch;                  /* reals for each worker */
    uint64_t chunk, x_image, dy_image; /* direct_weights: images of a chunk, and their sizes in scratch */
    bool relu;                         /* direct: y = Relu of that */
};

/* ---- BatchNormalization ---- */

/* batch_norm           p: x, y, scale, bias, running mean, running variance, saved
 * batch_norm_backward  p: x, dy, dx, scale, saved, dscale, dbias     dx, dscale, dbias: NULL where not wanted
 *
 * saved: mean and 1 / sqrt(variance + epsilon) of each channel. Blocks are channels. */
struct vc_args_norm {
    uint64_t batch, channels, inner;
    double epsilon, momentum;
    bool frozen; /* by its running statistics even in training */
    bool fixed;  /* they are no weights, and stay as they are */
};

/* ---- normalization of rows ---- */

/* row_norm           p: x, y, scale, bias, saved     scale, bias: n; bias NULL: 0
 * row_norm_backward  p: x, dy, dx, scale, saved, dscale of each block, dbias of each block
 *
 * LayerNormalization, or, not `centred`, RMSNormalization. saved: 1 / sqrt(variance + epsilon) of each row, and, if
 * centred, its mean in front of that; NULL: not wanted. dx may be dy; dx, dscale, dbias: NULL where not wanted. */
struct vc_args_row_norm {
    uint64_t rows, n, rows_per_block;
    double epsilon;
    bool centred;
};

/* ---- rows by numbers ---- */

/* gather           p: x, indices (int64_t), y       y[o, i, k] = x[o, index i, k]
 * gather_backward  p: dy, indices, dx               dx[o, j, k] = sum of dy[o, i, k] over all i whose index is j, in
 * order
 *
 * o is one of `outer`, k of `inner`; negative indices count from the end. Blocks of gather are of `per_block` indices,
 * of one o; of gather_backward of `rows_per_block` rows of dx, of one o. */
struct vc_args_gather {
    uint64_t outer, size, n, inner, per_block, rows_per_block;
    uint32_t node;
    struct vc_engine_fault *fault;
};

/* where           p: condition (int64_t), a, b, y      y = condition ? a : b, with steps for each
 * where_backward  p: condition, dy, d                  d = condition == which ? dy : 0, of y's shape */
struct vc_args_where {
    uint64_t n;
    unsigned n_dims;
    int64_t shape[VC_TRAIN_DIMS];
    int64_t step[3][VC_TRAIN_DIMS]; /* of condition, a, b */
    bool which;
};

/* ---- attention ---- */

enum vc_mask_kind { VC_MASK_NONE, VC_MASK_TRUTH /* int64_t: 0 is not seen */, VC_MASK_ADDED /* reals */ };

/* Rows of queries, keys, values and results, wherever they lie: element i of row r of head h of batch b is at
 * b * batch + h * head + r * row + i. */
struct vc_heads {
    int64_t batch, head, row;
};

/* attention           p: q, k, v, mask, y, sums or NULL, scratch
 * attention_backward  p: q, k, v, mask, y, dy, sums, dq, dk, dv, scratch, dmask      dq, dk, dv, dmask: NULL where not
 *                     wanted; dmask is [batch, heads, queries, keys], whatever the mask broadcasts from
 *
 * y = softmax(softcap(scale q k') + mask) v. sums: for each row of scores the logarithm of the sum of its exponentials,
 * from which the backward pass makes the probabilities again; no array of scores lives between the passes. A block is a
 * tile of `tile` queries of one head; in the backward pass all that shares one head of keys. */
struct vc_args_attention {
    uint64_t batch, heads, kv_heads, queries, keys, size, v_size;
    struct vc_heads q, k, v, y;
    enum vc_mask_kind mask;
    int64_t mask_step[4]; /* of batch, head, query, key */
    bool causal;
    bool clear_q, clear_k, clear_v; /* gradients are written, not added to: the first of those that are one array */
    double scale, softcap;
    uint64_t tile;
    uint64_t scratch, scores; /* reals for each worker; where its scores begin, behind what products need */
    uint64_t kv_per_part; /* of a device: heads of keys whose scores are made at a time, of a row or of whole rows */
};

/* On a device there is room behind the scores: for each head of a part the places of so many matrices. */
#define VC_ATTENTION_SIDES 9

/* ---- RNN, GRU and LSTM ---- */

/* recurrent           p: work, r, bias, peepholes, lengths (int64_t), state, cell, y, last state, last cell, scratch
 * recurrent_backward  p: work, r, peepholes, lengths, cell, dy, dlast, dcell, dfirst, dpeepholes, scratch
 *
 * What lies between the products over all steps, which are instructions of their own (plan_recurrent.c): the products
 * with the state, and the functions. NULL: bias, peepholes, lengths, state, cell where the node has none; results and
 * gradients that nobody has. A block is a direction of `tile` rows; on a device of all rows. With n = steps * rows,
 * numbered as the input has them, work is
 *
 *     gates  [n, directions, gates * hidden]   x w' goes in; what the functions made of the sums; their gradients
 *     kept   [n, directions, hidden]           LSTM: cells. GRU: r h, or, resets_last, h r' + b, then its gradient
 *     before [n, directions, hidden]           the state before the step; of steps beyond a row's length 0
 *
 * kept and before only with `keeps`. dfirst: gradients of the first states, then of the first cells, each
 * [directions, rows, hidden] or as rows_first has them. dpeepholes: [rows, directions, 3 * hidden], of each row. */
struct vc_args_recurrent {
    uint64_t steps, rows, directions, hidden;
    unsigned gates;   /* 1: RNN, 3: GRU, 4: LSTM */
    bool resets_last; /* GRU: linear_before_reset */
    bool couples;     /* LSTM: input_forget */
    bool rows_first, reverse[2], keeps;
    struct {
        unsigned kind; /* a row of unary_recurrent.inc */
        double a, b;
    } functions[6];
    double clip;           /* 0: none */
    uint64_t kept, before; /* where they begin in work */
    bool biases;           /* backward: their gradients are wanted, of each row, behind those of the peepholes: */
    uint64_t sums; /* [rows * directions, gates * hidden] from there on, then a GRU's [.., hidden]; 0: no peepholes */
    uint64_t tile, tiles;
    uint64_t scratch; /* reals for each worker */
};

/* Rows of states and sums in scratch are so far apart that they lie in different sets of a cache. */
#define VC_RECURRENT_ROW(n) ((n) + VC_PRODUCT_PADDING)
/* Elements of k x n packed weights; of those of all gates, which the one way or the other are the larger. */
#define VC_RECURRENT_PACKED(k, n) (((n) + 31) / 32 * 32 * (k))
#define VC_RECURRENT_ALL(gates, hidden) \
    (VC_RECURRENT_PACKED(hidden, (gates) * (hidden)) + VC_RECURRENT_PACKED((gates) * (hidden), hidden))

/* Elements of scratch: packed weights, a panel of rows, states and sums of a tile, biases and four rows. */
static inline uint64_t vc_recurrent_scratch(uint64_t tile, uint64_t gates, uint64_t hidden)
{
    return VC_RECURRENT_ALL(gates, hidden) + VC_RECURRENT_PACKED(hidden, hidden) + UINT64_C(12) * VC_PRODUCT_DEPTH +
           tile * (4 * VC_RECURRENT_ROW(hidden) + VC_RECURRENT_ROW(gates * hidden)) + (gates + 5) * hidden;
}

/* rotary  p: x, cosines, sines, positions (int64_t) or NULL, y      y may be x; `back`: turned the other way round */
struct vc_args_rotary {
    uint64_t batch, heads, length, size, half, rows; /* rows of the tables */
    struct vc_heads x;
    bool interleaved, back;
    uint32_t node;
    struct vc_engine_fault *fault;
};
