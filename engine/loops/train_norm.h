/* train_norm.h - part of train_sums.h: BatchNormalization. A block is a channel.
 *
 *     p  forward   x, y, scale, bias, running mean, running variance, statistics kept for backward (2 per channel)
 *     p  backward  x, dy, dx, scale, statistics, dscale, dbias
 */

/* Frozen norms, and passes that do not train, use the running statistics. */
static bool norm_by_batch(const struct vc_args_norm *args, const struct vc_engine_pass *pass)
{
    return pass->training && !args->frozen;
}

/* Mean and variance of the batch (divided by n), or the running ones. The running variance takes the
 * variance of a sample (divided by n - 1), as torch does; fixed: a part that is computed again must not
 * move them twice. */
static void norm_statistics(const struct vc_train_call *call, const struct vc_engine_pass *pass, size_t channel,
                            REAL *mean, REAL *variance)
{
    const struct vc_args_norm *args = call->args;
    size_t inner = (size_t)args->inner;
    size_t step = (size_t)args->channels * inner;
    const REAL *x = (const REAL *)call->p[0] + channel * inner;
    REAL *running[2] = {(REAL *)call->p[4] + channel, (REAL *)call->p[5] + channel};
    REAL n = (REAL)(args->batch * args->inner);
    REAL share = (REAL)(pass->norm_share >= 0 ? pass->norm_share : 1 - args->momentum);
    REAL sum = 0;

    if (!norm_by_batch(args, pass)) {
        *mean = *running[0];
        *variance = *running[1];
        return;
    }
    for (size_t i = 0; i < (size_t)args->batch; i++) {
        sum += norm_sum(x + i * step, inner);
    }
    *mean = sum / n;
    sum = 0;
    for (size_t i = 0; i < (size_t)args->batch; i++) {
        sum += norm_dot(x + i * step, *mean, x + i * step, *mean, inner);
    }
    *variance = sum / n;
    if (!args->fixed) {
        *running[0] = *running[0] * (1 - share) + *mean * share;
        *running[1] = *running[1] * (1 - share) + (n > 1 ? sum / (n - 1) : *variance) * share;
    }
}

LOOP_FN(batch_norm)
{
    const struct vc_args_norm *args = call->args;
    size_t inner = (size_t)args->inner;
    REAL mean, variance;
    REAL scale = ((const REAL *)call->p[2])[block];
    REAL bias = ((const REAL *)call->p[3])[block];

    norm_statistics(call, pass, block, &mean, &variance);
    REAL inverse = 1 / (REAL)sqrt((double)(variance + (REAL)args->epsilon));
    if (call->p[6] != NULL) {
        ((REAL *)call->p[6])[2 * block] = mean;
        ((REAL *)call->p[6])[2 * block + 1] = inverse;
    }
    for (size_t i = 0; i < (size_t)args->batch; i++) {
        size_t at = (i * (size_t)args->channels + block) * inner;
        const REAL *x = (const REAL *)call->p[0] + at;
        REAL *y = (REAL *)call->p[1] + at;

        for (size_t k = 0; k < inner; k++) {
            y[k] = (x[k] - mean) * inverse * scale + bias;
        }
    }
}

/* With u = (x - mean) * inverse: dscale = sum of dy u, dbias = sum of dy, dx = scale * inverse * (dy - mean of dy - u *
 * mean of dy u); with statistics that do not depend on x, dx = scale * inverse * dy. */
LOOP_FN(batch_norm_backward)
{
    const struct vc_args_norm *args = call->args;
    size_t inner = (size_t)args->inner;
    size_t step = (size_t)args->channels * inner;
    const REAL *x = (const REAL *)call->p[0] + block * inner;
    const REAL *dy = (const REAL *)call->p[1] + block * inner;
    REAL scale = ((const REAL *)call->p[3])[block];
    REAL mean = ((const REAL *)call->p[4])[2 * block];
    REAL inverse = ((const REAL *)call->p[4])[2 * block + 1];
    REAL n = (REAL)(args->batch * args->inner);
    REAL dbias = 0;
    REAL dscale = 0;

    for (size_t i = 0; i < (size_t)args->batch; i++) {
        dbias += norm_sum(dy + i * step, inner);
        dscale += norm_dot(x + i * step, mean, dy + i * step, 0, inner) * inverse;
    }
    if (call->p[5] != NULL) {
        ((REAL *)call->p[5])[block] += dscale;
    }
    if (call->p[6] != NULL) {
        ((REAL *)call->p[6])[block] += dbias;
    }
    REAL shift = norm_by_batch(args, pass) ? dbias / n : 0;
    REAL slope = norm_by_batch(args, pass) ? dscale / n * inverse : 0;
    for (size_t i = 0; call->p[2] != NULL && i < (size_t)args->batch; i++) {
        REAL *dx = (REAL *)call->p[2] + block * inner + i * step;

        for (size_t k = 0; k < inner; k++) {
            REAL d = scale * inverse * (dy[i * step + k] - shift - (x[i * step + k] - mean) * slope);

            dx[k] = call->add ? dx[k] + d : d;
        }
    }
}
