/* train_random.h - part of train_elements.h: Dropout. Its random numbers are a function of where they are used, so that
 * the backward pass, and a run that is resumed, make the same ones again. */

/* Four numbers for four elements: counter [element / 4 (64 bits), step, node], key seed. The number of the
 * element counts through the whole step, whatever batch its row is in, so batches of other sizes drop the
 * same elements. Kept ones are multiplied by 1 / (1 - ratio). */
LOOP_FN(dropout)
{
    const struct vc_args_dropout *args = call->args;
    size_t first = block * VC_ELEMENTS_PER_BLOCK;
    size_t n = VC_AT_MOST((size_t)args->n - first, VC_ELEMENTS_PER_BLOCK);
    const REAL *x = (const REAL *)call->p[0] + first;
    REAL *y = (REAL *)call->p[1] + first;
    uint64_t element = pass->row * args->per_row + first;
    uint32_t least = (uint32_t)(args->ratio * 4294967296.0); /* ratio is below 1 */
    REAL scale = (REAL)(1 / (1 - args->ratio));
    const uint32_t key[2] = {(uint32_t)args->seed, (uint32_t)(args->seed >> 32)};
    uint32_t c[4] = {0};

    for (size_t i = 0; i < n; i++, element++) {
        REAL v = x[i];

        if (pass->training) {
            if (i == 0 || element % 4 == 0) {
                const uint32_t counter[4] = {(uint32_t)(element / 4), (uint32_t)(element / 4 >> 32),
                                             (uint32_t)pass->step, args->node ^ (uint32_t)(pass->step >> 32) << 24};

                vc_philox(counter, key, c);
            }
            v = c[element % 4] >= least ? v * scale : 0;
        }
        y[i] = call->add ? y[i] + v : v;
    }
}
