/* train_inputs.h - part of train_elements.h: what loaders make of the inputs of quantized layers, codes and back. */

LOOP_FN(codes)
{
    const struct vc_args_codes *args = call->args;
    uint64_t first = block * args->per_block;
    uint64_t end = VC_AT_MOST(first + args->per_block, args->n);
    const REAL *fixed = call->p[1];
    const int64_t *point = call->p[2];
    REAL zero = point != NULL ? (REAL)*point : 0;
    REAL least = (REAL)args->least - zero;
    REAL most = (REAL)args->most - zero;

    (void)pass;
    (void)worker;
    for (uint64_t i = first, n; i < end; i += n) {
        const REAL *x = (const REAL *)call->p[0] + i;
        REAL *y = (REAL *)call->p[3] + i;
        REAL largest = 0;
        REAL scale;

        n = VC_AT_MOST(args->size, end - i);
        for (size_t k = 0; fixed == NULL && k < (size_t)n; k++) {
            largest = FN(vc_codes_largest)(largest, x[k]);
        }
        scale = fixed != NULL ? *fixed : FN(vc_codes_scale)(largest, args->is_f8);
        for (size_t k = 0; args->is_f8 && k < (size_t)n; k++) {
            y[k] = FN(vc_round_codes)(x[k], scale, least, most, 1, x[k]);
        }
        for (size_t k = 0; !args->is_f8 && k < (size_t)n; k++) {
            y[k] = FN(vc_round_codes)(x[k], scale, least, most, 0, point != NULL ? -zero : x[k]);
        }
    }
}
