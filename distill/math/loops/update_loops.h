/* update_loops.h - sums over gradients and steps of optimizers, for one type of numbers. Part of step_loops.h. */

OF_LEVEL double NAME(vc_square_sum)(const REAL *x, size_t n)
{
    return NAME(dot)(x, x, n);
}

/* In the type of the weights, in the order of torch.optim.SGD. The first step of momentum begins with m =
 * 0, as torch does without dampening. */
static void NAME(sgd)(const struct vc_update *u, size_t n, REAL *w, const REAL *g, REAL *m)
{
    REAL lr = (REAL)u->lr;
    REAL momentum = (REAL)u->momentum;
    REAL decay = (REAL)u->decay;

    for (size_t i = 0; i < n; i++) {
        REAL d = g[i] + decay * w[i];

        if (m != NULL) {
            m[i] = momentum * m[i] + d;
            d = u->nesterov ? d + momentum * m[i] : m[i];
        }
        w[i] -= lr * d;
    }
}

/* beta to the power of t, by squares: pow of the C library has other bits on other machines. */
static double NAME(power)(double beta, uint64_t t)
{
    double power = 1;

    for (; t != 0; t >>= 1, beta *= beta) {
        power = (t & 1) != 0 ? power * beta : power;
    }
    return power;
}

/* Powers of the betas are computed in double. */
static void NAME(adam)(const struct vc_update *u, size_t n, REAL *w, const REAL *g, REAL *m, REAL *v)
{
    REAL b1 = (REAL)u->beta1;
    REAL b2 = (REAL)u->beta2;
    REAL not_b1 = (REAL)(1 - u->beta1);
    REAL not_b2 = (REAL)(1 - u->beta2);
    REAL step = (REAL)(u->lr / (1 - NAME(power)(u->beta1, u->t)));
    REAL root = (REAL)sqrt(1 - NAME(power)(u->beta2, u->t));
    REAL eps = (REAL)u->eps;
    REAL decay = u->kind == VC_UPDATE_ADAM ? (REAL)u->decay : 0;
    REAL shrink = u->kind == VC_UPDATE_ADAMW ? (REAL)(1 - u->lr * u->decay) : 1;

    for (size_t i = 0; i < n; i++) {
        REAL d = g[i] + decay * w[i];

        m[i] = b1 * m[i] + not_b1 * d;
        v[i] = b2 * v[i] + not_b2 * d * d;
        w[i] = shrink * w[i] - step * m[i] / (MATH(sqrt)(v[i]) / root + eps);
    }
}

/* Sets to 0 what is masked. */
static void NAME(clear_masked)(const uint8_t *keep, size_t n, REAL *x)
{
    for (size_t i = 0; x != NULL && i < n; i++) {
        x[i] = keep[i] != 0 ? x[i] : 0;
    }
}

/* Masked weights are 0 before and after: before, so that decay and states see no old value of them. */
OF_LEVEL void NAME(vc_update)(const struct vc_update *update, size_t n, REAL *w, REAL *g, REAL *m, REAL *v,
                              const uint8_t *keep)
{
    if (keep != NULL) {
        NAME(clear_masked)(keep, n, g);
        NAME(clear_masked)(keep, n, w);
    }
    if (update->kind == VC_UPDATE_SGD) {
        NAME(sgd)(update, n, w, g, m);
    } else {
        NAME(adam)(update, n, w, g, m, v);
    }
    if (keep != NULL) {
        NAME(clear_masked)(keep, n, w);
        NAME(clear_masked)(keep, n, m);
        NAME(clear_masked)(keep, n, v);
    }
}

/* One block of codes as numbers. */
static void NAME(decode)(const struct vc_dynamic_map *map, size_t n, const uint8_t *codes, float factor, REAL *x)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = (REAL)map->value[codes[i]] * (REAL)factor;
    }
}

/* One block of numbers as codes. Returns the factor: the largest magnitude, which the largest code stands
 * for. */
static float NAME(encode)(const struct vc_dynamic_map *map, size_t n, const REAL *x, uint8_t *codes)
{
    float factor = 0;

    for (size_t i = 0; i < n; i++) {
        float magnitude = (float)(x[i] < 0 ? -x[i] : x[i]);

        factor = magnitude > factor ? magnitude : factor;
    }
    factor = factor < FLT_MAX ? factor : FLT_MAX;
    for (size_t i = 0; i < n; i++) {
        codes[i] = vc_dynamic_code(map, factor > 0 ? (float)x[i] / factor : 0);
    }
    return factor;
}

/* A block at a time: decoded, updated as numbers, coded again with a new factor. */
OF_LEVEL void NAME(vc_update_coded)(const struct vc_update *update, size_t n, REAL *w, REAL *g,
                                    const struct vc_coded_states *states, const uint8_t *keep)
{
    for (size_t first = 0; first < n; first += VC_CODED_BLOCK) {
        size_t here = n - first < VC_CODED_BLOCK ? n - first : VC_CODED_BLOCK;
        size_t block = first / VC_CODED_BLOCK;
        REAL m[VC_CODED_BLOCK], v[VC_CODED_BLOCK];

        NAME(decode)(&states->maps->with_sign, here, states->m + first, states->m_factors[block], m);
        NAME(decode)(&states->maps->without, here, states->v + first, states->v_factors[block], v);
        NAME(vc_update)(update, here, w + first, g + first, m, v, keep != NULL ? keep + first : NULL);
        states->m_factors[block] = NAME(encode)(&states->maps->with_sign, here, m, states->m + first);
        states->v_factors[block] = NAME(encode)(&states->maps->without, here, v, states->v + first);
    }
}
