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

/* The largest element of window (o0, o1, o2), of equal ones the first, and which element of the window it is. */
static REAL pool_largest(const struct vc_args_window *w, const REAL *x, const int64_t *o, uint32_t *which)
{
    int64_t first[3];
    int64_t end[3];
    int64_t begin[3];
    REAL most = -(REAL)INFINITY;

    for (unsigned k = 0; k < 3; k++) {
        begin[k] = pool_inside(w, k, o[k], &first[k], &end[k]);
    }
    *which = (uint32_t)((first[0] * w->kernel[1] + first[1]) * w->kernel[2] + first[2]);
    for (int64_t d = first[0]; d < end[0]; d++) {
        for (int64_t h = first[1]; h < end[1]; h++) {
            const REAL *row =
                x + ((begin[0] + d * w->dilation[0]) * w->in[1] + begin[1] + h * w->dilation[1]) * w->in[2];

            for (int64_t v = first[2]; v < end[2]; v++) {
                REAL e = row[begin[2] + v * w->dilation[2]];

                if (e > most || e != e) {
                    most = e;
                    *which = (uint32_t)((d * w->kernel[1] + h) * w->kernel[2] + v);
                }
            }
        }
    }
    return most;
}

static bool places_are_bytes(const struct vc_args_window *w)
{
    return pool_volume(w->kernel) <= 255;
}

LOOP_FN(max_pool)
{
    const struct vc_args_window *w = call->args;
    const REAL *x = (const REAL *)call->p[0] + block * pool_volume(w->in);
    size_t n = pool_volume(w->out);
    REAL *y = (REAL *)call->p[1] + block * n;
    int64_t o[3];
    size_t i = 0;

    (void)pass;
    (void)worker;
    for (o[0] = 0; o[0] < w->out[0]; o[0]++) {
        for (o[1] = 0; o[1] < w->out[1]; o[1]++) {
            for (o[2] = 0; o[2] < w->out[2]; o[2]++, i++) {
                uint32_t which;

                y[i] = pool_largest(w, x, o, &which);
                if (call->p[2] == NULL) {
                    continue;
                }
                if (places_are_bytes(w)) {
                    ((uint8_t *)call->p[2])[block * n + i] = (uint8_t)which;
                } else {
                    ((uint32_t *)call->p[2])[block * n + i] = which;
                }
            }
        }
    }
}

LOOP_FN(max_pool_backward)
{
    const struct vc_args_window *w = call->args;
    size_t n = pool_volume(w->out);
    const REAL *dy = (const REAL *)call->p[0] + block * n;
    REAL *dx = (REAL *)call->p[1] + block * pool_volume(w->in);
    int64_t o[3];
    size_t i = 0;

    (void)pass;
    (void)worker;
    if (!call->add) {
        memset(dx, 0, pool_volume(w->in) * sizeof *dx);
    }
    for (o[0] = 0; o[0] < w->out[0]; o[0]++) {
        for (o[1] = 0; o[1] < w->out[1]; o[1]++) {
            for (o[2] = 0; o[2] < w->out[2]; o[2]++, i++) {
                int64_t which = places_are_bytes(w) ? ((const uint8_t *)call->p[2])[block * n + i]
                                                    : ((const uint32_t *)call->p[2])[block * n + i];
                int64_t at[3];

                at[2] = o[2] * w->stride[2] - w->before[2] + which % w->kernel[2] * w->dilation[2];
                which /= w->kernel[2];
                at[1] = o[1] * w->stride[1] - w->before[1] + which % w->kernel[1] * w->dilation[1];
                at[0] = o[0] * w->stride[0] - w->before[0] + which / w->kernel[1] * w->dilation[0];
                dx[(at[0] * w->in[1] + at[1]) * w->in[2] + at[2]] += dy[i];
            }
        }
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
