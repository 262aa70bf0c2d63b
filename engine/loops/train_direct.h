/* train_direct.h - part of train_products.h: convolutions of stride 1 without unrolling. An image is copied once, with
 * its padding, and then each element (tap) of a window is the same rows from another place on:
 *
 *     padded, 4 wide:   0 0 0 0     tap (1, 1) of all windows begins at 5:   a b 0 | 0 c d 0 | ...
 *                       0 a b 0     every third and fourth sum of a row is not wanted
 *                       0 c d 0
 *                       0 0 0 0
 *
 * so that the sums of many windows are products of a number and a vector that lies in memory as it is. */

#if defined(VC_TRAIN_AVX512)
#define ROWS 8 /* filters whose sums are kept at a time */
#define DOTS 6 /* filters, and TAPS taps, in the gradient of weights */
#define TAPS 4
#define WIDE 3 /* vectors of windows at a time */
#elif defined(VC_TRAIN_AVX2)
#define ROWS 4
#define DOTS 3
#define TAPS 3
#define WIDE 3
#else
#define ROWS 4
#define DOTS 2
#define TAPS 2
#define WIDE 2
#endif

_Static_assert(VC_DIRECT_ROWS % ROWS == 0 && VC_DIRECT_SLACK / 2 % VL == 0, "what planning takes them to be");

/* Channels of an image with zeros around them.
 * Behind the last channel there are VC_DIRECT_SLACK zeros, since vectors read beyond the end. */
static void pad_image(const struct vc_args_direct *args, const REAL *x, REAL *to)
{
    for (size_t c = 0; c < (size_t)args->channels; c++) {
        for (int64_t i = 0; i < args->padded[0]; i++, to += args->padded[1]) {
            int64_t from = i - args->before[0];

            if (from < 0 || from >= args->in[0]) {
                memset(to, 0, (size_t)args->padded[1] * sizeof *to);
                continue;
            }
            for (int64_t j = 0; j < args->before[1]; j++) {
                to[j] = 0;
            }
            copy_row(x + from * args->in[1], to + args->before[1], (size_t)args->in[1]);
            for (int64_t j = args->before[1] + args->in[1]; j < args->padded[1]; j++) {
                to[j] = 0;
            }
        }
        x += args->in[0] * args->in[1];
    }
    memset(to, 0, VC_DIRECT_SLACK * sizeof *to);
}

/* Weights of ROWS filters side by side for each tap; a block is such a panel. The filters are those of the convolution,
 * or, for the gradient of its input, its channels.
 * Filters that a last panel does not have are 0. */
LOOP_FN(direct_pack)
{
    const struct vc_args_direct *args = call->args;
    size_t per_group = (size_t)((args->filters + VC_DIRECT_ROWS - 1) / VC_DIRECT_ROWS);
    size_t group = block / per_group;
    size_t first = block % per_group * VC_DIRECT_ROWS;
    const REAL *weights = (const REAL *)call->p[0] + group * (size_t)(args->filters * args->n_taps);
    REAL *to = (REAL *)call->p[1] + block * VC_DIRECT_ROWS * (size_t)args->n_taps;

    for (size_t panel = 0; panel < VC_DIRECT_ROWS; panel += ROWS) {
        for (size_t t = 0; t < (size_t)args->n_taps; t++) {
            for (size_t r = 0; r < ROWS; r++) {
                size_t f = first + panel + r;

                *to++ =
                    f < (size_t)args->filters ? weights[f * (size_t)args->filter_step + (size_t)args->weight_at[t]] : 0;
            }
        }
    }
}

/* Sums of ROWS filters and `wide` vectors of windows from place x on, over n taps; with `add`, to what is there. */
static inline __attribute__((always_inline)) void direct_part(const int64_t *tap_at, size_t n, const REAL *weights,
                                                              const REAL *x, REAL *to, size_t to_row, unsigned wide,
                                                              bool add)
{
    vec sum[ROWS][WIDE];

    UNROLL
    for (unsigned r = 0; r < ROWS; r++) {
        UNROLL
        for (unsigned w = 0; w < wide; w++) {
            sum[r][w] = SPREAD((REAL)0);
        }
    }
    for (size_t t = 0; t < n; t++) {
        const REAL *from = x + tap_at[t];
        vec b[WIDE];

        UNROLL
        for (unsigned w = 0; w < wide; w++) {
            b[w] = LOAD(from + w * VL);
        }
        UNROLL
        for (unsigned r = 0; r < ROWS; r++) {
            vec weight = SPREAD(weights[t * ROWS + r]);

            UNROLL
            for (unsigned w = 0; w < wide; w++) {
                sum[r][w] = FMA(weight, b[w], sum[r][w]);
            }
        }
    }
    UNROLL
    for (unsigned r = 0; r < ROWS; r++) {
        UNROLL
        for (unsigned w = 0; w < wide; w++) {
            REAL *at = to + r * to_row + w * VL;

            STORE(at, add ? ADD(LOAD(at), sum[r][w]) : sum[r][w]);
        }
    }
}

/* Over all taps: of more than LONG_SUM in parts of SUM_PART, so that the last terms are not added to a number that is
 * thousands of times as large. */
#define LONG_SUM 4096
#define SUM_PART 256

static inline __attribute__((always_inline)) void direct_sums(const struct vc_args_direct *args, const REAL *weights,
                                                              const REAL *x, REAL *to, size_t to_row, unsigned wide)
{
    size_t n = (size_t)args->n_taps;
    size_t part = n > LONG_SUM ? SUM_PART : n;

    for (size_t t = 0; t < n; t += part) {
        direct_part(args->tap_at + t, VC_AT_MOST(n - t, part), weights + t * ROWS, x, to, to_row, wide, t != 0);
    }
}

/* All sums of ROWS filters: WIDE vectors at a time, and a rest of at least two, for one waits for its last addition. */
static void direct_filters(const struct vc_args_direct *args, const REAL *weights, const REAL *x, REAL *to,
                           size_t to_row)
{
    size_t n = ((size_t)args->n_sums + VL - 1) / VL;

    for (size_t i = 0, wide; i < n; i += wide) {
        wide = n - i == WIDE + 1 ? 2 : VC_AT_MOST(n - i, WIDE);
        if (wide == WIDE) {
            direct_sums(args, weights, x + i * VL, to + i * VL, to_row, WIDE);
        } else if (wide == 2) {
            direct_sums(args, weights, x + i * VL, to + i * VL, to_row, 2);
        } else {
            direct_sums(args, weights, x + i * VL, to + i * VL, to_row, 1);
        }
    }
}

typedef WORD words __attribute__((vector_size(sizeof(vec))));

/* Relu of unary.inc: 0 where x <= 0, and x where it is larger or NaN. */
static inline vec positive(vec x)
{
    return (vec)((words)x & ~(words)(x <= SPREAD((REAL)0)));
}

/* The sums of a row of windows, with the bias, to where they go. */
static void direct_row(const REAL *from, REAL bias, bool relu, bool add, REAL *to, size_t n)
{
    if (add || n < VL) {
        for (size_t j = 0; j < n; j++) {
            REAL v = from[j] + bias;

            v = !relu || v > 0 || v != v ? v : 0;
            to[j] = add ? to[j] + v : v;
        }
        return;
    }
    for (size_t j = 0; j < n; j += VL) {
        size_t at = VC_AT_MOST(j, n - VL); /* the last vector may lie over the one before */
        vec v = ADD(LOAD(from + at), SPREAD(bias));

        STORE(to + at, relu ? positive(v) : v);
    }
}

/* A block is an image of a group. p: x, packed weights, bias, y, scratch */
LOOP_FN(direct)
{
    const struct vc_args_direct *args = call->args;
    size_t group = block % (size_t)args->groups;
    size_t image = (size_t)args->channels * (size_t)(args->in[0] * args->in[1]);
    size_t places = (size_t)(args->out[0] * args->out[1]);
    size_t row = (size_t)args->sums_row;
    size_t panels = (size_t)((args->filters + VC_DIRECT_ROWS - 1) / VC_DIRECT_ROWS) * (VC_DIRECT_ROWS / ROWS);
    const REAL *weights = (const REAL *)call->p[1] + group * panels * ROWS * (size_t)args->n_taps;
    REAL *padded = (REAL *)call->p[4] + worker * (size_t)args->scratch;
    REAL *sums = padded + args->sums_at;
    REAL *y = (REAL *)call->p[3] + block * (size_t)args->filters * places;

    pad_image(args, (const REAL *)call->p[0] + block * image, padded);
    for (size_t first = 0; first < (size_t)args->filters; first += ROWS, weights += ROWS * args->n_taps) {
        direct_filters(args, weights, padded, sums, row);
        for (size_t f = first; f < first + ROWS && f < (size_t)args->filters; f++) {
            REAL bias = call->p[2] != NULL ? ((const REAL *)call->p[2])[group * (size_t)args->filters + f] : 0;

            for (size_t i = 0; i < (size_t)args->out[0]; i++) {
                direct_row(sums + (f - first) * row + i * (size_t)args->padded[1], bias, args->relu, call->add,
                           y + f * places + i * (size_t)args->out[1], (size_t)args->out[1]);
            }
        }
    }
}

/* ---- the gradient of weights ---- */

/* The sum of a vector's lanes, by halves: the same order at each level with this number of lanes. */
static REAL add_up(vec v)
{
    REAL lane[VL];
    REAL sum = 0;

    STORE(lane, v);
    for (size_t half = VL / 2; half > 0; half /= 2) {
        for (size_t i = 0; i < half; i++) {
            lane[i] += lane[i + half];
        }
    }
    sum = lane[0];
    return sum;
}

/* DOTS filters x TAPS taps: sums of dy * x over all places of a chunk's images, in registers; each vector
 * of dy is used for all taps. */
static void direct_dots(const struct vc_args_direct *args, size_t images, const REAL *dy, const REAL *x,
                        const int64_t *taps, vec sum[DOTS][TAPS])
{
    UNROLL
    for (unsigned f = 0; f < DOTS; f++) {
        UNROLL
        for (unsigned t = 0; t < TAPS; t++) {
            sum[f][t] = SPREAD((REAL)0);
        }
    }
    for (size_t image = 0; image < images; image++, dy += args->dy_image, x += args->x_image) {
        for (size_t p = 0; p < (size_t)args->sums_row; p += VL) {
            vec d[DOTS];

            UNROLL
            for (unsigned f = 0; f < DOTS; f++) {
                d[f] = LOAD(dy + f * (size_t)args->sums_row + p);
            }
            UNROLL
            for (unsigned t = 0; t < TAPS; t++) {
                vec v = LOAD(x + taps[t] + (int64_t)p);

                UNROLL
                for (unsigned f = 0; f < DOTS; f++) {
                    sum[f][t] = FMA(d[f], v, sum[f][t]);
                }
            }
        }
    }
}

/* dy of an image in rows as wide as those of the padded one, with zeros where no window is wanted. */
static void spread_rows(const struct vc_args_direct *args, const REAL *dy, REAL *to)
{
    size_t places = (size_t)(args->out[0] * args->out[1]);

    for (size_t f = 0; f < (size_t)args->filters; f++, to += args->sums_row) {
        memset(to, 0, (size_t)args->sums_row * sizeof *to);
        for (size_t i = 0; i < (size_t)args->out[0]; i++) {
            for (size_t j = 0; j < (size_t)args->out[1]; j++) {
                to[i * (size_t)args->padded[1] + j] = dy[f * places + i * (size_t)args->out[1] + j];
            }
        }
    }
    memset(to, 0, VC_DIRECT_ROWS * (size_t)args->sums_row * sizeof *to); /* filters that DOTS adds */
}

/* A block is a chunk of images of a group. p: x, dy, dw of each chunk, scratch */
LOOP_FN(direct_weights)
{
    const struct vc_args_direct *args = call->args;
    size_t chunk = block / (size_t)args->groups;
    size_t group = block % (size_t)args->groups;
    size_t first = chunk * (size_t)args->chunk;
    size_t images = VC_AT_MOST((size_t)args->chunk, (size_t)args->batch - first);
    size_t all = (size_t)(args->filters * args->n_taps);
    REAL *x = (REAL *)call->p[3] + worker * (size_t)args->scratch;
    REAL *dy = x + (size_t)(args->chunk * args->x_image);
    REAL *dw = (REAL *)call->p[2] + (chunk * (size_t)args->groups + group) * all;

    for (size_t i = 0; i < images; i++) {
        size_t at = (first + i) * (size_t)args->groups + group;

        pad_image(args, (const REAL *)call->p[0] + at * (size_t)args->channels * (size_t)(args->in[0] * args->in[1]),
                  x + i * (size_t)args->x_image);
        spread_rows(args, (const REAL *)call->p[1] + at * (size_t)args->filters * (size_t)(args->out[0] * args->out[1]),
                    dy + i * (size_t)args->dy_image);
    }
    for (size_t t = 0; t < (size_t)args->n_taps; t += TAPS) {
        size_t n_taps = VC_AT_MOST((size_t)args->n_taps - t, TAPS);
        int64_t taps[TAPS];

        for (size_t k = 0; k < TAPS; k++) { /* those that are missing are the first once more */
            taps[k] = args->tap_at[k < n_taps ? t + k : t];
        }
        for (size_t f = 0; f < (size_t)args->filters; f += DOTS) {
            vec sum[DOTS][TAPS];

            direct_dots(args, images, dy + f * (size_t)args->sums_row, x, taps, sum);
            for (size_t i = 0; i < DOTS && f + i < (size_t)args->filters; i++) {
                for (size_t k = 0; k < n_taps; k++) {
                    REAL *to = dw + (f + i) * (size_t)args->n_taps + t + k;
                    REAL v = add_up(sum[i][k]);

                    *to = call->add ? *to + v : v;
                }
            }
        }
    }
}
