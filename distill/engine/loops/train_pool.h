/* train_pool.h - part of train_all.h: pools. A block is a plane. */

static size_t pool_volume(const int64_t *size)
{
    return (size_t)(size[0] * size[1] * size[2]);
}

/* The elements of window `o` along dimension k that are in the input: from *first to before *end; returns where element
 * 0 would be. */
static int64_t pool_inside(const struct vc_args_window *w, unsigned k, int64_t o, int64_t *first, int64_t *end)
{
    int64_t begin = o * w->stride[k] - w->before[k];
    int64_t room = w->in[k] - begin;

    *first = begin >= 0 ? 0 : (-begin - 1) / w->dilation[k] + 1;
    *end = room <= 0 ? 0 : (room - 1) / w->dilation[k] + 1;
    *end = *end > w->kernel[k] ? w->kernel[k] : *end;
    return begin;
}

/* The windows o along the last dimension of which element v is in the input: from *first to before *end. */
static void pool_columns(const struct vc_args_window *w, int64_t v, int64_t *first, int64_t *end)
{
    int64_t from = w->before[2] - v * w->dilation[2]; /* o * stride >= from, and < from + in */
    int64_t to = from + w->in[2];

    *first = from <= 0 ? 0 : (from - 1) / w->stride[2] + 1;
    *end = to <= 0 ? 0 : (to - 1) / w->stride[2] + 1;
    *end = *end > w->out[2] ? w->out[2] : *end;
}

static bool places_are_bytes(const struct vc_args_window *w)
{
    return pool_volume(w->kernel) <= 255;
}

/* For n windows side by side: element `number` of each, x[i * step], against the largest so far; of equal ones the
 * first stays, a NaN is larger than all. NOTHING: there was none. */
#define NOTHING UINT32_MAX

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

/* Windows `first` to before `first + n` of output row (o0, o1). */
static void pool_row(const struct vc_args_window *w, const REAL *x, int64_t o0, int64_t o1, int64_t first, int64_t n,
                     REAL *most, uint32_t *which)
{
    int64_t from[2];
    int64_t end[2];
    int64_t begin[2] = {pool_inside(w, 0, o0, &from[0], &end[0]), pool_inside(w, 1, o1, &from[1], &end[1])};

    for (int64_t i = 0; i < n; i++) {
        most[i] = -(REAL)INFINITY;
        which[i] = NOTHING;
    }
    for (int64_t d = from[0]; d < end[0]; d++) {
        for (int64_t h = from[1]; h < end[1]; h++) {
            const REAL *row =
                x + ((begin[0] + d * w->dilation[0]) * w->in[1] + begin[1] + h * w->dilation[1]) * w->in[2];

            for (int64_t v = 0; v < w->kernel[2]; v++) {
                int64_t a;
                int64_t b;

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

/* The usual case, windows of 2 x 2 side by side without padding: every element of dx is in one window, or in none. */
static bool pool_by_four(const struct vc_args_window *w)
{
    return w->kernel[0] == 1 && w->in[0] == 1 && w->kernel[1] == 2 && w->kernel[2] == 2 && w->stride[1] == 2 &&
           w->stride[2] == 2 && w->dilation[1] == 1 && w->dilation[2] == 1 && w->before[1] == 0 && w->before[2] == 0 &&
           2 * w->out[1] <= w->in[1] && 2 * w->out[2] <= w->in[2];
}

static void pool_four(const struct vc_args_window *w, const REAL *x, REAL *y, uint8_t *places)
{
    for (int64_t i = 0; i < w->out[1]; i++, y += w->out[2]) {
        const REAL *above = x + 2 * i * w->in[2];
        const REAL *below = above + w->in[2];

        for (int64_t j = 0; j < w->out[2]; j++) {
            REAL a = above[2 * j];
            REAL b = above[2 * j + 1];
            REAL c = below[2 * j];
            REAL d = below[2 * j + 1];
            bool second = (b > a) | (b != b);
            bool fourth = (d > c) | (d != d);
            REAL m = second ? b : a;
            REAL n = fourth ? d : c;
            bool lower = (n > m) | (n != n);

            y[j] = lower ? n : m;
            if (places != NULL) {
                places[i * w->out[2] + j] = (uint8_t)(lower ? 2 + fourth : second);
            }
        }
    }
}

LOOP_FN(max_pool)
{
    const struct vc_args_window *w = call->args;
    const REAL *x = (const REAL *)call->p[0] + block * pool_volume(w->in);
    size_t at = block * pool_volume(w->out);
    REAL *y = call->p[1];
    REAL most[POOL_COLUMNS];
    uint32_t which[POOL_COLUMNS];

    (void)pass;
    (void)worker;
    if (pool_by_four(w)) {
        pool_four(w, x, y + at, call->p[2] != NULL ? (uint8_t *)call->p[2] + at : NULL);
        return;
    }
    for (int64_t row = 0; row < w->out[0] * w->out[1]; row++) {
        for (int64_t first = 0; first < w->out[2]; first += POOL_COLUMNS) {
            int64_t n = VC_AT_MOST(w->out[2] - first, POOL_COLUMNS);

            pool_row(w, x, row / w->out[1], row % w->out[1], first, n, most, which);
            memcpy(y + at, most, (size_t)n * sizeof *y);
            for (int64_t i = 0; call->p[2] != NULL && i < n; i++) {
                if (places_are_bytes(w)) {
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

static void pool_give_four(const struct vc_args_window *w, const REAL *dy, const uint8_t *places, REAL *dx)
{
    for (int64_t i = 0; i < w->out[1]; i++, dy += w->out[2], places += w->out[2]) {
        for (int64_t h = 0; h < 2; h++) {
            REAL *row = dx + (2 * i + h) * w->in[2];

            for (int64_t j = 0; j < w->out[2]; j++) {
                row[2 * j] += places[j] == 2 * h ? dy[j] : 0;
                row[2 * j + 1] += places[j] == 2 * h + 1 ? dy[j] : 0;
            }
        }
    }
}

LOOP_FN(max_pool_backward)
{
    const struct vc_args_window *w = call->args;
    size_t at = block * pool_volume(w->out);
    const REAL *dy = (const REAL *)call->p[0] + at;
    REAL *dx = (REAL *)call->p[1] + block * pool_volume(w->in);
    const uint8_t *bytes = places_are_bytes(w) ? (const uint8_t *)call->p[2] + at : NULL;

    (void)pass;
    (void)worker;
    if (!call->add) {
        memset(dx, 0, pool_volume(w->in) * sizeof *dx);
    }
    if (pool_by_four(w)) {
        pool_give_four(w, dy, bytes, dx);
    } else {
        pool_give(w, dy, bytes, bytes == NULL ? (const uint32_t *)call->p[2] + at : NULL, dx);
    }
}

/* How many elements an average is of: those in the input; with_pads also padding, but not what hangs over its end. */
static REAL pool_count(const struct vc_args_window *w, const int64_t *o)
{
    double inside = 1;
    double padded = 1;

    for (unsigned k = 0; k < 3; k++) {
        int64_t first;
        int64_t end;
        int64_t begin = pool_inside(w, k, o[k], &first, &end);
        int64_t room = w->in[k] + w->behind[k] - begin;
        int64_t with_padding = room <= 0 ? 0 : (room - 1) / w->dilation[k] + 1;

        inside *= (double)(end - first);
        padded *= (double)(with_padding < w->kernel[k] ? with_padding : w->kernel[k]);
    }
    return (REAL)(w->with_pads ? padded : inside);
}

/* For each element of window `o` that is in the input: returns their sum, or adds `spread` to each. */
static REAL pool_walk(const struct vc_args_window *w, const REAL *x, REAL *dx, const int64_t *o, REAL spread)
{
    int64_t first[3];
    int64_t end[3];
    int64_t begin[3];
    REAL sum = 0;

    for (unsigned k = 0; k < 3; k++) {
        begin[k] = pool_inside(w, k, o[k], &first[k], &end[k]);
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

LOOP_FN(average_pool)
{
    const struct vc_args_window *w = call->args;
    const REAL *x = (const REAL *)call->p[0] + block * pool_volume(w->in);
    REAL *y = (REAL *)call->p[1] + block * pool_volume(w->out);
    int64_t o[3];

    (void)pass;
    (void)worker;
    for (o[0] = 0; o[0] < w->out[0]; o[0]++) {
        for (o[1] = 0; o[1] < w->out[1]; o[1]++) {
            for (o[2] = 0; o[2] < w->out[2]; o[2]++) {
                *y++ = pool_walk(w, x, NULL, o, 0) / pool_count(w, o);
            }
        }
    }
}

LOOP_FN(average_pool_backward)
{
    const struct vc_args_window *w = call->args;
    const REAL *dy = (const REAL *)call->p[0] + block * pool_volume(w->out);
    REAL *dx = (REAL *)call->p[1] + block * pool_volume(w->in);
    int64_t o[3];

    (void)pass;
    (void)worker;
    if (!call->add) {
        memset(dx, 0, pool_volume(w->in) * sizeof *dx);
    }
    for (o[0] = 0; o[0] < w->out[0]; o[0]++) {
        for (o[1] = 0; o[1] < w->out[1]; o[1]++) {
            for (o[2] = 0; o[2] < w->out[2]; o[2]++) {
                (void)pool_walk(w, NULL, dx, o, *dy++ / pool_count(w, o));
            }
        }
    }
}
