/* train_row_norm.h - part of train_sums.h: LayerNormalization and RMSNormalization, row by row. With u = (x - mean) *
 * inverse, and g = dy * scale:
 *
 *     y = u scale + bias      dscale = sum over rows of dy u      dbias = sum over rows of dy
 *     dx = inverse (g - mean of g - u * mean of g u)              not centred: without mean, and mean of g */

/* Sums of g and of g u over a row, g u first. */
static void row_norm_sums(const REAL *x, const REAL *dy, const REAL *scale, REAL mean, REAL inverse, size_t n,
                          REAL *sums)
{
    REAL lanes[2][LANES] = {{0}};
    size_t i = 0;

    sums[0] = 0;
    sums[1] = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            REAL g = dy[i + l] * scale[i + l];

            lanes[0][l] += g * (x[i + l] - mean);
            lanes[1][l] += g;
        }
    }
    for (size_t l = 0; l < LANES; l++) {
        sums[0] += lanes[0][l];
        sums[1] += lanes[1][l];
    }
    for (; i < n; i++) {
        sums[0] += dy[i] * scale[i] * (x[i] - mean);
        sums[1] += dy[i] * scale[i];
    }
    sums[0] *= inverse;
}

/* Mean, then variance around it, then the row: three walks, of which the last two find the row in the
 * cache. p: x, y, scale, bias (or NULL), saved (or NULL). */
LOOP_FN(row_norm)
{
    const struct vc_args_row_norm *args = call->args;
    size_t n = (size_t)args->n;
    size_t first = block * (size_t)args->rows_per_block;
    size_t end = VC_AT_MOST(first + (size_t)args->rows_per_block, (size_t)args->rows);
    const REAL *scale = call->p[2];
    const REAL *bias = call->p[3];
    REAL *saved = call->p[4];

    for (size_t row = first; row < end; row++) {
        const REAL *x = (const REAL *)call->p[0] + row * n;
        REAL *y = (REAL *)call->p[1] + row * n;
        REAL mean = args->centred ? norm_sum(x, n) / (REAL)n : 0;
        REAL variance = norm_dot(x, mean, x, mean, n) / (REAL)n;
        REAL inverse = 1 / (REAL)sqrt((double)(variance + (REAL)args->epsilon));

        if (saved != NULL && args->centred) {
            saved[2 * row] = mean;
            saved[2 * row + 1] = inverse;
        } else if (saved != NULL) {
            saved[row] = inverse;
        }
        for (size_t i = 0; i < n; i++) {
            y[i] = (x[i] - mean) * inverse * scale[i];
        }
        for (size_t i = 0; bias != NULL && i < n; i++) { /* a masked load from NULL traps inside of the processor */
            y[i] += bias[i];
        }
    }
}

/* One row: its gradient, and what it adds to those of scale and bias. */
static void row_norm_row(const struct vc_train_call *call, const REAL *x, const REAL *dy, REAL *dx, REAL mean,
                         REAL inverse, REAL *dscale, REAL *dbias)
{
    const struct vc_args_row_norm *args = call->args;
    const REAL *scale = call->p[3];
    size_t n = (size_t)args->n;
    REAL sums[2];

    for (size_t i = 0; dscale != NULL && i < n; i++) {
        dscale[i] += dy[i] * (x[i] - mean) * inverse;
    }
    for (size_t i = 0; dbias != NULL && i < n; i++) {
        dbias[i] += dy[i];
    }
    if (dx == NULL) {
        return;
    }
    row_norm_sums(x, dy, scale, mean, inverse, n, sums);
    sums[0] = sums[0] / (REAL)n * inverse;
    sums[1] = args->centred ? sums[1] / (REAL)n : 0;
    for (size_t i = 0; i < n; i++) {
        REAL d = inverse * (dy[i] * scale[i] - sums[1] - (x[i] - mean) * sums[0]);

        dx[i] = call->add ? dx[i] + d : d;
    }
}

/* p: x, dy, dx (or NULL), scale, saved, partial sums of dscale and of dbias (or NULL): the block's own row
 * of them, which it clears first. */
LOOP_FN(row_norm_backward)
{
    const struct vc_args_row_norm *args = call->args;
    size_t n = (size_t)args->n;
    size_t first = block * (size_t)args->rows_per_block;
    size_t end = VC_AT_MOST(first + (size_t)args->rows_per_block, (size_t)args->rows);
    const REAL *saved = call->p[4];
    REAL *dscale = call->p[5] != NULL ? (REAL *)call->p[5] + block * n : NULL;
    REAL *dbias = call->p[6] != NULL ? (REAL *)call->p[6] + block * n : NULL;

    for (size_t i = 0; i < n; i++) {
        if (dscale != NULL) {
            dscale[i] = 0;
        }
        if (dbias != NULL) {
            dbias[i] = 0;
        }
    }
    for (size_t row = first; row < end; row++) {
        REAL mean = args->centred ? saved[2 * row] : 0;
        REAL by = saved[args->centred ? 2 * row + 1 : row];

        row_norm_row(call, (const REAL *)call->p[0] + row * n, (const REAL *)call->p[1] + row * n,
                     call->p[2] != NULL ? (REAL *)call->p[2] + row * n : NULL, mean, by, dscale, dbias);
    }
}
