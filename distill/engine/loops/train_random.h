/* train_random.h - part of train_all.h: random numbers that are a function of where they are used (Philox 4x32, ten
 * rounds), so that the backward pass, and a run that is resumed, make the same ones again. */

static void philox(uint32_t *c, uint32_t k0, uint32_t k1)
{
    for (unsigned round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0];
        uint64_t b = (uint64_t)0xCD9E8D57u * c[2];

        c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k0;
        c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k1;
        c[3] = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Four numbers for four elements: counter [element / 4 (64 bits), step, node], key seed. */
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
    uint32_t c[4] = {0};

    (void)worker;
    for (size_t i = 0; i < n; i++, element++) {
        REAL v = x[i];

        if (pass->training) {
            if (i == 0 || element % 4 == 0) {
                c[0] = (uint32_t)(element / 4);
                c[1] = (uint32_t)(element / 4 >> 32);
                c[2] = (uint32_t)pass->step;
                c[3] = args->node ^ (uint32_t)(pass->step >> 32) << 24;
                philox(c, (uint32_t)args->seed, (uint32_t)(args->seed >> 32));
            }
            v = c[element % 4] >= least ? v * scale : 0;
        }
        y[i] = call->add ? y[i] + v : v;
    }
}
