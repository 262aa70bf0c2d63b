/* train_rotary.h - part of train_elements.h: rotary positions. Pairs of elements of a head are turned by an
 * angle that grows with the position:
 *
 *     y[i] = x[i] cos - x[j] sin          interleaved: i, j = 2k, 2k + 1         else: i, j = k, k + half
 *     y[j] = x[i] sin + x[j] cos          backward: the same with -sin
 *
 * Elements behind 2 * half are copied. */

#define ROTARY_PART 16 /* pairs in a row, which compilers make vectors of */

/* Pairs of a[k] and b[k] = a[k + half]; back: 1, or -1 for the gradient. All are read before one is written. */
static void turn_part(const REAL *c, const REAL *s, REAL back, const REAL *x, size_t half, bool add, REAL *y)
{
    REAL a[ROTARY_PART], b[ROTARY_PART], to_a[ROTARY_PART], to_b[ROTARY_PART];

    memcpy(a, x, sizeof a);
    memcpy(b, x + half, sizeof b);
    for (size_t k = 0; k < ROTARY_PART; k++) {
        REAL sine = back * s[k];

        to_a[k] = a[k] * c[k] - b[k] * sine;
        to_b[k] = a[k] * sine + b[k] * c[k];
    }
    if (add) {
        for (size_t k = 0; k < ROTARY_PART; k++) {
            to_a[k] += y[k];
            to_b[k] += y[k + half];
        }
    }
    memcpy(y, to_a, sizeof to_a);
    memcpy(y + half, to_b, sizeof to_b);
}

/* A block is one place of one batch, with all heads. p: x, table of cosines, of sines, positions (or NULL:
 * tables have a row for each place), y. dx may be dy, as each pair is read before it is written. */
LOOP_FN(rotary)
{
    const struct vc_args_rotary *args = call->args;
    const int64_t *positions = call->p[3];
    size_t half = (size_t)args->half;
    size_t batch = block / (size_t)args->length;
    size_t place = block % (size_t)args->length;
    uint64_t row = positions != NULL ? gather_row(positions[block], args->rows) : block;

    if (row == args->rows) {
        note_fault(args->fault, args->node, block, positions != NULL ? positions[block] : (int64_t)block, args->rows);
        row = 0;
    }
    for (size_t h = 0; h < (size_t)args->heads; h++) {
        int64_t at = (int64_t)batch * args->x.batch + (int64_t)h * args->x.head + (int64_t)place * args->x.row;
        const REAL *x = (const REAL *)call->p[0] + at;
        const REAL *c = (const REAL *)call->p[1] + row * half;
        const REAL *s = (const REAL *)call->p[2] + row * half;
        REAL *y = (REAL *)call->p[4] + at;
        size_t k = 0;

        for (; !args->interleaved && k + ROTARY_PART <= half; k += ROTARY_PART) {
            turn_part(c + k, s + k, args->back ? -1 : 1, x + k, half, call->add, y + k);
        }
        for (; k < half; k++) {
            size_t i = args->interleaved ? 2 * k : k;
            size_t j = args->interleaved ? 2 * k + 1 : k + half;
            REAL a = x[i];
            REAL b = x[j];
            REAL sine = args->back ? -s[k] : s[k];
            REAL to_a = a * c[k] - b * sine;
            REAL to_b = a * sine + b * c[k];

            y[i] = call->add ? y[i] + to_a : to_a;
            y[j] = call->add ? y[j] + to_b : to_b;
        }
        for (size_t i = 2 * half; i < (size_t)args->size; i++) {
            y[i] = call->add ? y[i] + x[i] : x[i];
        }
    }
}
