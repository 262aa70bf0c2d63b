/* train_inputs.h - part of train_elements.h: what loaders make of the inputs of quantized layers, codes and back. */

/* p: x, scales, zero point (or NULL), y. Each run of `size` elements has one scale. Limits and the zero
 * point are taken together: codes from least - zero to most - zero are what is left of 0. */
LOOP_FN(codes)
{
    const struct vc_args_codes *args = call->args;
    const int64_t *point = call->p[2];
    const REAL zero = point != NULL ? (REAL)*point : 0;
    const REAL least = (REAL)args->least - zero;
    const REAL most = (REAL)args->most - zero;
    uint64_t end = VC_AT_MOST((block + 1) * args->per_block, args->n);

    for (uint64_t i = block * args->per_block, n; i < end; i += n) {
        const REAL *x = (const REAL *)call->p[0] + i;
        REAL *y = (REAL *)call->p[3] + i;

        n = VC_AT_MOST(args->size, end - i);
        FN(vc_round_codes)(x, (size_t)n, call->p[1], least, most, args->is_f8, args->keeps_nan ? (REAL)NAN : -zero, y);
    }
}
