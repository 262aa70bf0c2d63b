/* train_pool.h - part of train_elements.h: pools. A block is a plane.
 *
 *     max_pool  p: x, y, places     places: which element of its window each maximum was, a byte each, or 4 bytes beyond 255
 *
 * Three ways to the same result; the usual window of 2 x 2 with stride 2 has two of them:
 *
 *     pool_plane     no places wanted, windows fill the plane: maxima of pairs of columns, then of pairs of rows
 *     pool_four      arrays of first, second, third and fourth elements of many windows, compared as vectors
 *     pool_row       all others: many windows of one row side by side, element by element of the window
 *
 * In all three the first of equal elements is the maximum, and a NaN is larger than all numbers, so results
 * and places are the same whichever way a plane goes. */

/* The windows o along the last dimension of which element v is in the input: from *first to before *end. */
static void pool_columns(const struct vc_args_window *w, int64_t v, int64_t *first, int64_t *end)
{
    int64_t from = w->before[2] - v * w->dilation[2]; /* o * stride >= from, and < from + in */
    int64_t to = from + w->in[2];

    *first = from <= 0 ? 0 : (from - 1) / w->stride[2] + 1;
    *end = to <= 0 ? 0 : (to - 1) / w->stride[2] + 1;
    *end = *end > w->out[2] ? w->out[2] : *end;
}

/* In place of a number of an element: the window has none yet. */
#define NOTHING UINT32_MAX

/* For n windows side by side: element `number` of each, x[i * step], against the largest so far; of equal
 * ones the first stays, a NaN is larger than all. NOTHING: there was none. The loop has no branch, so
 * compilers make vectors of it. */
static inline void pool_take(const REAL *x, int64_t step, int64_t n, uint32_t number, REAL *most, uint32_t *which)
{
    for (int64_t i = 0; i < n; i++) {
        REAL e = x[i * step];
        bool better = (which[i] == NOTHING) | (e > most[i]) | (e != e);

        most[i] = better ? e : most[i];
        which[i] = better ? number : which[i];
    }
}

/* The same steps with the numbers that the compiler knows. */
static void pool_take_any(const REAL *x, int64_t step, int64_t n, uint32_t number, REAL *most, uint32_t *which)
{
    if (step == 1) {
        pool_take(x, 1, n, number, most, which);
    } else if (step == 2) {
        pool_take(x, 2, n, number, most, which);
    } else {
        pool_take(x, step, n, number, most, which);
    }
}

#define POOL_COLUMNS 64

/* Windows `first` to before `first + n` of output row (o0, o1).
 * A window that lies in the padding altogether has -inf and NOTHING. */
static void pool_row(const struct vc_args_window *w, const REAL *x, int64_t o0, int64_t o1, int64_t first, int64_t n,
                     REAL *most, uint32_t *which)
{
    int64_t from[2], end[2];
    int64_t begin[2] = {vc_window_inside(w, 0, o0, &from[0], &end[0]), vc_window_inside(w, 1, o1, &from[1], &end[1])};

    for (int64_t i = 0; i < n; i++) {
        most[i] = -(REAL)INFINITY;
        which[i] = NOTHING;
    }
    for (int64_t d = from[0]; d < end[0]; d++) {
        for (int64_t h = from[1]; h < end[1]; h++) {
            const REAL *row =
                x + ((begin[0] + d * w->dilation[0]) * w->in[1] + begin[1] + h * w->dilation[1]) * w->in[2];

            for (int64_t v = 0; v < w->kernel[2]; v++) {
                int64_t a, b;

                pool_columns(w, v, &a, &b);
                a = a < first ? first : a;
                b = b > first + n ? first + n : b;
                if (a < b) {
                    pool_take_any(row + a * w->stride[2] - w->before[2] + v * w->dilation[2], w->stride[2], b - a,
                                  (uint32_t)((d * w->kernel[1] + h) * w->kernel[2] + v), most + (a - first),
                                  which + (a - first));
                }
            }
        }
    }
}

/* Windows are taken POOL_FOURS at a time, row after row, into arrays of their first, second, ... elements. Planes are
 * often narrower than vectors; these arrays are not. */
#define POOL_FOURS 256

/* First, second, third and fourth elements of many windows (above left, above right, below left, below
 * right), and which was the largest. */
struct pool_fours {
    REAL of[4][POOL_FOURS];
    WORD which[POOL_FOURS];
};

/* n windows. Every choice is one of two numbers of the same width, as vectors have it. */
static void pool_choose(struct pool_fours *f, size_t n, REAL *restrict y)
{
    for (size_t k = 0; k < n; k++) {
        REAL a = f->of[0][k];
        REAL b = f->of[1][k];
        REAL c = f->of[2][k];
        REAL d = f->of[3][k];
        REAL m = b > a ? b : a;
        REAL l = d > c ? d : c;
        WORD second = b > a ? 1 : 0;
        WORD fourth = d > c ? 3 : 2;

        m = b != b ? b : m;
        l = d != d ? d : l;
        second = b != b ? 1 : second;
        fourth = d != d ? 3 : fourth;
        y[k] = l != l ? l : l > m ? l : m;
        f->which[k] = l != l ? fourth : l > m ? fourth : second;
    }
}

/* Pairs of n columns, and pairs of what they give, which are rows of windows of 2 x 2. Choices are those of
 * pool_choose.
 */
static void pool_pairs(const REAL *restrict x, size_t n, REAL *restrict y)
{
    for (size_t k = 0; k < n; k++) {
        REAL a = x[2 * k];
        REAL b = x[2 * k + 1];
        REAL m = b > a ? b : a;

        y[k] = b != b ? b : m;
    }
}

/* Elements of the largest vector. */
#define POOL_VECTOR 16

/* Maxima of two rows of pairs. Whole vectors of them: what is behind the n that are wanted is written over
 * by the next row. */
static void pool_two_rows(const REAL *restrict above, const REAL *restrict below, size_t n, REAL *restrict y)
{
    n = (n + POOL_VECTOR - 1) / POOL_VECTOR * POOL_VECTOR;
    for (size_t k = 0; k < n; k++) {
        REAL m = above[k];
        REAL l = below[k];
        REAL most = l > m ? l : m;

        y[k] = l != l ? l : most;
    }
}

/* The windows fill the plane, whose places nobody wants. */
static void pool_plane(const struct vc_args_window *w, const REAL *x, REAL *y)
{
    size_t columns = (size_t)w->out[2];
    size_t most = POOL_FOURS / columns; /* rows of windows at a time */
    REAL pairs[2 * POOL_FOURS + POOL_VECTOR], made[POOL_FOURS + POOL_VECTOR];

    for (size_t row = 0, rows; row < (size_t)w->out[1]; row += rows) {
        rows = VC_AT_MOST((size_t)w->out[1] - row, most);
        pool_pairs(x + 4 * row * columns, 2 * rows * columns, pairs);
        memset(pairs + 2 * rows * columns, 0, POOL_VECTOR * sizeof *pairs);
        for (size_t r = 0; r < rows; r++) {
            pool_two_rows(pairs + 2 * r * columns, pairs + (2 * r + 1) * columns, columns, made + r * columns);
        }
        memcpy(y + row * columns, made, rows * columns * sizeof *y);
    }
}

/* How many windows come next, from column `column` of a row on: those of whole rows, or a part of one. */
static size_t pool_next(const struct vc_args_window *w, size_t windows, size_t at, size_t *rows)
{
    size_t columns = (size_t)w->out[2];
    size_t rest = columns - at % columns;

    if (rest != columns || columns > POOL_FOURS) {
        *rows = 1;
        return VC_AT_MOST(rest, POOL_FOURS);
    }
    *rows = VC_AT_MOST(POOL_FOURS / columns, (windows - at) / columns);
    return *rows * columns;
}

/* Windows of 2 x 2, with their places if these are wanted: gather, choose, scatter. */
static void pool_four(const struct vc_args_window *w, const REAL *x, REAL *y, uint8_t *places)
{
    size_t columns = (size_t)w->out[2];
    size_t windows = (size_t)(w->out[1] * w->out[2]);
    struct pool_fours f;
    size_t rows, n;

    for (size_t at = 0; at < windows; at += n) {
        n = pool_next(w, windows, at, &rows);
        for (size_t r = 0; r < rows; r++) {
            const REAL *above = x + 2 * (at / columns + r) * (size_t)w->in[2] + 2 * (at % columns);
            const REAL *below = above + w->in[2];

            for (size_t k = r * (n / rows); k < (r + 1) * (n / rows); k++, above += 2, below += 2) {
                f.of[0][k] = above[0];
                f.of[1][k] = above[1];
                f.of[2][k] = below[0];
                f.of[3][k] = below[1];
            }
        }
        pool_choose(&f, n, y + at);
        for (size_t k = 0; places != NULL && k < n; k++) {
            places[at + k] = (uint8_t)f.which[k];
        }
    }
}

/* One plane: the quickest way that fits it. */
LOOP_FN(max_pool)
{
    const struct vc_args_window *w = call->args;
    const REAL *x = (const REAL *)call->p[0] + block * vc_window_volume(w->in);
    size_t at = block * vc_window_volume(w->out);
    REAL *y = call->p[1];
    REAL most[POOL_COLUMNS];
    uint32_t which[POOL_COLUMNS];

    if (vc_window_by_four(w) && call->p[2] == NULL && w->in[2] == 2 * w->out[2] && w->out[2] <= POOL_FOURS) {
        pool_plane(w, x, y + at);
        return;
    }
    if (vc_window_by_four(w)) {
        pool_four(w, x, y + at, call->p[2] != NULL ? (uint8_t *)call->p[2] + at : NULL);
        return;
    }
    for (int64_t row = 0; row < w->out[0] * w->out[1]; row++) {
        for (int64_t first = 0; first < w->out[2]; first += POOL_COLUMNS) {
            int64_t n = VC_AT_MOST(w->out[2] - first, POOL_COLUMNS);

            pool_row(w, x, row / w->out[1], row % w->out[1], first, n, most, which);
            memcpy(y + at, most, (size_t)n * sizeof *y);
            for (int64_t i = 0; call->p[2] != NULL && i < n; i++) {
                if (vc_window_places_are_bytes(w)) {
                    ((uint8_t *)call->p[2])[at + (size_t)i] = (uint8_t)which[i];
                } else {
                    ((uint32_t *)call->p[2])[at + (size_t)i] = which[i];
                }
            }
            at += (size_t)n;
        }
    }
}

/* dx += dy where the place says so. */
static void pool_give(const struct vc_args_window *w, const REAL *dy, const uint8_t *bytes, const uint32_t *words,
                      REAL *dx)
{
    for (int64_t i = 0; i < w->out[0] * w->out[1] * w->out[2]; i++) {
        int64_t o[3] = {i / w->out[2] / w->out[1], i / w->out[2] % w->out[1], i % w->out[2]};
        int64_t which = bytes != NULL ? bytes[i] : words[i];
        int64_t at[3];

        at[2] = o[2] * w->stride[2] - w->before[2] + which % w->kernel[2] * w->dilation[2];
        which /= w->kernel[2];
        at[1] = o[1] * w->stride[1] - w->before[1] + which % w->kernel[1] * w->dilation[1];
        at[0] = o[0] * w->stride[0] - w->before[0] + which / w->kernel[1] * w->dilation[0];
        dx[(at[0] * w->in[1] + at[1]) * w->in[2] + at[2]] += dy[i];
    }
}

/* Elements of dx that are in no window are 0 already. */
static void pool_give_four(const struct vc_args_window *w, const REAL *dy, const uint8_t *places, bool add, REAL *dx)
{
    size_t columns = (size_t)w->out[2];
    size_t windows = (size_t)(w->out[1] * w->out[2]);
    struct pool_fours f;
    size_t rows, n;

    for (size_t at = 0; at < windows; at += n) {
        n = pool_next(w, windows, at, &rows);
        for (size_t k = 0; k < n; k++) {
            f.which[k] = places[at + k];
        }
        for (WORD e = 0; e < 4; e++) {
            for (size_t k = 0; k < n; k++) {
                f.of[e][k] = f.which[k] == e ? dy[at + k] : 0;
            }
        }
        for (size_t r = 0; r < rows; r++) {
            REAL *above = dx + 2 * (at / columns + r) * (size_t)w->in[2] + 2 * (at % columns);
            REAL *below = above + w->in[2];

            for (size_t k = r * (n / rows); k < (r + 1) * (n / rows); k++, above += 2, below += 2) {
                above[0] = add ? above[0] + f.of[0][k] : f.of[0][k];
                above[1] = add ? above[1] + f.of[1][k] : f.of[1][k];
                below[0] = add ? below[0] + f.of[2][k] : f.of[2][k];
                below[1] = add ? below[1] + f.of[3][k] : f.of[3][k];
            }
        }
    }
}

/* The gradient of an element is the sum of those of all windows whose maximum it was. Where windows fill
 * the plane, each element of dx is written once and need not be cleared first. */
LOOP_FN(max_pool_backward)
{
    const struct vc_args_window *w = call->args;
    size_t at = block * vc_window_volume(w->out);
    const REAL *dy = (const REAL *)call->p[0] + at;
    REAL *dx = (REAL *)call->p[1] + block * vc_window_volume(w->in);
    const uint8_t *bytes = vc_window_places_are_bytes(w) ? (const uint8_t *)call->p[2] + at : NULL;

    if (!call->add && !(vc_window_by_four(w) && vc_window_volume(w->in) == 4 * vc_window_volume(w->out))) {
        memset(dx, 0, vc_window_volume(w->in) * sizeof *dx);
    }
    if (vc_window_by_four(w)) {
        pool_give_four(w, dy, bytes, call->add, dx);
    } else {
        pool_give(w, dy, bytes, bytes == NULL ? (const uint32_t *)call->p[2] + at : NULL, dx);
    }
}

/* For each element of window `o` that is in the input: returns their sum, or adds `spread` to each. */
static REAL pool_walk(const struct vc_args_window *w, const REAL *x, REAL *dx, const int64_t *o, REAL spread)
{
    int64_t first[3], end[3], begin[3];
    REAL sum = 0;

    for (unsigned k = 0; k < 3; k++) {
        begin[k] = vc_window_inside(w, k, o[k], &first[k], &end[k]);
    }
    for (int64_t d = first[0]; d < end[0]; d++) {
        for (int64_t h = first[1]; h < end[1]; h++) {
            int64_t row =
                ((begin[0] + d * w->dilation[0]) * w->in[1] + begin[1] + h * w->dilation[1]) * w->in[2] + begin[2];

            for (int64_t v = first[2]; v < end[2]; v++) {
                if (dx != NULL) {
                    dx[row + v * w->dilation[2]] += spread;
                } else {
                    sum += x[row + v * w->dilation[2]];
                }
            }
        }
    }
    return sum;
}

/* One plane, window by window. */
LOOP_FN(average_pool)
{
    const struct vc_args_window *w = call->args;
    const REAL *x = (const REAL *)call->p[0] + block * vc_window_volume(w->in);
    REAL *y = (REAL *)call->p[1] + block * vc_window_volume(w->out);
    int64_t o[3];

    for (o[0] = 0; o[0] < w->out[0]; o[0]++) {
        for (o[1] = 0; o[1] < w->out[1]; o[1]++) {
            for (o[2] = 0; o[2] < w->out[2]; o[2]++) {
                *y++ = pool_walk(w, x, NULL, o, 0) / (REAL)vc_window_count(w, o);
            }
        }
    }
}

/* Every element of a window gets the same part of its gradient. */
LOOP_FN(average_pool_backward)
{
    const struct vc_args_window *w = call->args;
    const REAL *dy = (const REAL *)call->p[0] + block * vc_window_volume(w->out);
    REAL *dx = (REAL *)call->p[1] + block * vc_window_volume(w->in);
    int64_t o[3];

    if (!call->add) {
        memset(dx, 0, vc_window_volume(w->in) * sizeof *dx);
    }
    for (o[0] = 0; o[0] < w->out[0]; o[0]++) {
        for (o[1] = 0; o[1] < w->out[1]; o[1]++) {
            for (o[2] = 0; o[2] < w->out[2]; o[2]++) {
                (void)pool_walk(w, NULL, dx, o, *dy++ / (REAL)vc_window_count(w, o));
            }
        }
    }
}
