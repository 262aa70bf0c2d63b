/* train_recurrent.h - part of train_products.h: RNN, GRU and LSTM step by step, for a tile of rows of one
 * direction.
 *
 *     forward   sums = h r'          backward   ds = slopes of what came     in every step, for all rows at once
 *               h = functions                   dh = ds r
 *
 * The weights are packed once for all steps. Each row goes its own way through time: rows of a reverse
 * direction begin at their own ends, and a row that has ended keeps its state. What is computed of a row
 * depends on no other, so no cut into tiles changes a bit.
 *
 * The products with the input, x w', are not made here: one product over all steps and rows stands before
 * this instruction in the program, and its result lies in `work`, where the gates are then put in its
 * place:
 *
 *     work, gates     [steps * rows * directions, gates * hidden]     x w', then gates, then the gradients of their sums
 *           kept      [.., hidden]     LSTM: the cell; GRU: r h, or h r' + b
 *           before    [.., hidden]     the state before the step
 *
 * The last two are there in training alone (args->keeps). The backward pass leaves the gradients of the
 * sums in the place of the gates, and products over all steps make of them the gradients of w, r and the
 * biases. Steps that a row does not have are 0 in all three, so that these products need no lengths.
 *
 * A step of the backward pass for an LSTM, from dh and dc behind it to those before it:
 *
 *     do = dh h(C)           dc += dh o h'(C)
 *     di = dc g   df = dc c_before   dg = dc i   dc = dc f
 *     each times the slope of its function: d;   dh = d r
 */

#include "kernels/unary_math.inc"

/* Kinds of functions by number: the same order as the library's, since both come from one file. */
enum {
#define FUNCTION(KIND, word, alpha, beta, value, slope) RECURRENT_##KIND,
#include "kernels/unary_recurrent.inc"
#undef FUNCTION
};

#define LINE (64 / sizeof(REAL)) /* of a cache */

/* A tile, and its part of the scratch. Rows of states and sums are further apart than their elements need
 * (VC_RECURRENT_ROW). */
struct tile {
    const struct vc_args_recurrent *args;
    size_t direction, first, rows; /* rows of the batch */
    size_t size, wide;             /* hidden; gates * hidden */
    size_t row, wide_row;          /* between the rows of states and of sums */
    const int64_t *lengths;
    REAL *work;
    REAL *packed, *packed_new; /* of all gates, of GRU of the first two; of its third */
    REAL *panel;
    REAL *h, *c, *t, *back; /* [rows, row]; backward gradients */
    REAL *sums;             /* [rows, wide_row] */
    REAL *bias; /* of the sums: [wide]; GRU, resets_last: [hidden] more, of the state's part of the new one */
    REAL *u;    /* four rows of hidden */
};

/* Cuts the worker's scratch into the parts of a tile; block counts tiles of the first direction, then those
 * of the second. */
static struct tile recurrent_tile(const struct vc_args_recurrent *args, size_t block, REAL *work, const void *lengths,
                                  REAL *scratch)
{
    struct tile t = {.args = args,
                     .direction = block / (size_t)args->tiles,
                     .first = block % (size_t)args->tiles * (size_t)args->tile,
                     .size = (size_t)args->hidden,
                     .wide = (size_t)(args->gates * args->hidden),
                     .lengths = lengths,
                     .work = work};
    size_t tile = (size_t)args->tile;

    t.rows = VC_AT_MOST((size_t)args->rows - t.first, tile);
    t.row = VC_RECURRENT_ROW(t.size);
    t.wide_row = VC_RECURRENT_ROW(t.wide);
    t.packed = scratch;
    t.packed_new = t.packed + VC_RECURRENT_ALL((size_t)args->gates, t.size);
    t.panel = t.packed_new + VC_RECURRENT_PACKED(t.size, t.size);
    t.h = t.panel + 12 * DEPTH;
    t.c = t.h + tile * t.row;
    t.t = t.c + tile * t.row;
    t.back = t.t + tile * t.row;
    t.sums = t.back + tile * t.row;
    t.bias = t.sums + tile * t.wide_row;
    t.u = t.bias + t.wide + t.size;
    return t;
}

/* All of k x n columns as panels, in parts of DEPTH. */
static void pack_all(const REAL *b, struct vc_matrix is, size_t k, size_t n, REAL *to)
{
    size_t all = (n + NR - 1) / NR * NR;

    for (size_t k0 = 0; k0 < k; k0 += DEPTH) {
        pack_columns(b + (int64_t)k0 * is.row, is.column, is.row, n, VC_AT_MOST(k - k0, DEPTH), to + k0 * all);
    }
}

/* MR / 3 rows or twice as many, whose elements are side by side. */
static __attribute__((noinline)) void part_tile(size_t depth, const REAL *a, size_t a_row, const REAL *b, REAL *c,
                                                size_t c_row, size_t rows, size_t columns, bool add, const REAL *bias,
                                                struct next *next)
{
    if (rows == MR / 3) {
        product_tile(MR / 3, depth, a, a_row, 1, b, c, c_row, rows, columns, add, 1, bias, next);
    } else {
        product_tile(MR / 3 * 2, depth, a, a_row, 1, b, c, c_row, rows, columns, add, 1, bias, next);
    }
}

/* c = a b, or c += a b, and then c += bias if there is one, with b from pack_all; rows of a have their elements side by side. Rows behind the last MR are
 * packed, or read where they lie where they are a third or two of MR. */
static void multiply_packed(size_t m, size_t n, size_t k, const REAL *a, size_t a_row, const REAL *packed, REAL *c,
                            size_t c_row, bool add, const REAL *bias, REAL *panel)
{
    size_t all = (n + NR - 1) / NR * NR;
    size_t whole = m / MR * MR;
    bool part = MR % 3 == 0 && (m - whole) % (MR / 3) == 0;
    struct next next[2] = {{0}}; /* nothing: a step's operands are in a cache */

    for (size_t k0 = 0; k0 < k; k0 += DEPTH) {
        size_t depth = VC_AT_MOST(k - k0, DEPTH);

        if (!part) {
            pack_rows(a + whole * a_row + k0, (int64_t)a_row, 1, m - whole, depth, panel);
        }
        for (size_t j = 0; j < n; j += NR) {
            const REAL *b = packed + k0 * all + j * depth;
            const REAL *last = bias != NULL && k0 + depth == k ? bias + j : NULL;
            size_t columns = VC_AT_MOST(n - j, NR);

            for (size_t i = 0; i < whole; i += MR) {
                row_tile(depth, a + i * a_row + k0, a_row, b, c + i * c_row + j, c_row, columns, add || k0 != 0, 1,
                         last, next);
            }
            if (whole != m && part) {
                part_tile(depth, a + whole * a_row + k0, a_row, b, c + whole * c_row + j, c_row, m - whole, columns,
                          add || k0 != 0, last, next);
            } else if (whole != m) {
                packed_tile(depth, panel, b, c + whole * c_row + j, c_row, m - whole, columns, add || k0 != 0, 1, last,
                            next);
            }
        }
    }
}

/* ---- functions ---- */

/* Holds what goes into a function within the clip; 0 is no clip. */
static void limit(REAL *x, size_t n, REAL clip)
{
    for (size_t i = 0; clip != 0 && i < n; i++) {
        x[i] = x[i] < -clip ? -clip : x[i] > clip ? clip : x[i];
    }
}

/* x = f(x), of n elements. f: the functions of the direction, by number.
 * Function 2, of an LSTM's cell, is not clipped. */
static void apply(const struct tile *t, unsigned f, REAL *restrict at, size_t n)
{
    unsigned per_direction = t->args->gates == 4 ? 3 : t->args->gates == 3 ? 2 : 1;
    REAL a = (REAL)t->args->functions[per_direction * t->direction + f].a;
    REAL b = (REAL)t->args->functions[per_direction * t->direction + f].b;

    (void)b;
    limit(at, n, f < 2 ? (REAL)t->args->clip : 0);
    switch (t->args->functions[per_direction * t->direction + f].kind) {
#define FUNCTION(KIND, word, alpha, beta, value, slope) \
    case RECURRENT_##KIND:                              \
        for (size_t i = 0; i < n; i++) {                \
            REAL x = at[i];                             \
                                                        \
            at[i] = value;                              \
        }                                               \
        break;
#include "kernels/unary_recurrent.inc"
#undef FUNCTION
    default:
        break;
    }
}

/* d = d f'(x), of y = f(x). Where the clip held x, y is what the function makes of an end of the range. */
static void slope(const struct tile *t, unsigned f, const REAL *restrict ys, REAL *restrict d, size_t n)
{
    unsigned per_direction = t->args->gates == 4 ? 3 : t->args->gates == 3 ? 2 : 1;
    REAL a = (REAL)t->args->functions[per_direction * t->direction + f].a;
    REAL b = (REAL)t->args->functions[per_direction * t->direction + f].b;

    (void)a;
    (void)b;
    switch (t->args->functions[per_direction * t->direction + f].kind) {
#define FUNCTION(KIND, word, alpha, beta, value, slope) \
    case RECURRENT_##KIND:                              \
        for (size_t i = 0; i < n; i++) {                \
            REAL y = ys[i];                             \
                                                        \
            (void)y;                                    \
            d[i] *= slope;                              \
        }                                               \
        break;
#include "kernels/unary_recurrent.inc"
#undef FUNCTION
    default:
        break;
    }
    if (f < 2 && t->args->clip != 0) {
        REAL ends[2] = {(REAL)-t->args->clip, (REAL)t->args->clip};

        apply(t, f, ends, 2);
        for (size_t i = 0; i < n; i++) {
            d[i] = ys[i] == ends[0] || ys[i] == ends[1] ? 0 : d[i];
        }
    }
}

/* ---- where things are ---- */

/* How many steps row i of the tile has. */
static size_t length_of(const struct tile *t, size_t i)
{
    int64_t length = t->lengths != NULL ? t->lengths[t->first + i] : (int64_t)t->args->steps;

    return length < 0 ? 0 : VC_AT_MOST((size_t)length, (size_t)t->args->steps); /* a wrong one was told before */
}

/* The step that is number k on the row's way. */
static size_t step_of(const struct tile *t, size_t i, size_t k)
{
    size_t length = length_of(t, i);

    return t->args->reverse[t->direction] && k < length ? length - 1 - k : k;
}

/* Of row i of the tile at a step: its number among all, times directions. */
static size_t place_of(const struct tile *t, size_t i, size_t step)
{
    const struct vc_args_recurrent *args = t->args;
    size_t row = t->first + i;
    size_t n = args->rows_first ? row * (size_t)args->steps + step : step * (size_t)args->rows + row;

    return n * (size_t)args->directions + t->direction;
}

/* Where the three arrays of `work` have a place. */
static REAL *gates_of(const struct tile *t, size_t place)
{
    return t->work + place * t->wide;
}

static REAL *kept_of(const struct tile *t, size_t place)
{
    return t->work + t->args->kept + place * t->size;
}

static REAL *before_of(const struct tile *t, size_t place)
{
    return t->work + t->args->before + place * t->size;
}

/* Tells the processor that n elements come next: they have lain in memory since another instruction, and the product of a
 * step leaves time to bring them. */
static inline __attribute__((always_inline)) void expect(const REAL *from, size_t n)
{
    for (size_t j = 0; j < n; j += LINE) {
        __builtin_prefetch(from + j, 1, 2);
    }
}

/* What step number k of row i reads and writes, forward. */
static inline __attribute__((always_inline)) void expect_forward(const struct tile *t, size_t i, size_t k)
{
    if (k < length_of(t, i)) {
        size_t place = place_of(t, i, step_of(t, i, k));

        expect(gates_of(t, place), t->wide);
        if (t->args->keeps) {
            expect(before_of(t, place), t->size);
            expect(kept_of(t, place), t->args->gates != 1 ? t->size : 0);
        }
    }
}

/* What step number k - 1 of row i reads, backward. An LSTM reads the cells before its step; those behind it are what the
 * step that came before this one has read. */
static inline __attribute__((always_inline)) void expect_backward(const struct tile *t, size_t i, size_t k)
{
    if (k != 0 && k <= length_of(t, i)) {
        size_t place = place_of(t, i, step_of(t, i, k - 1));

        expect(gates_of(t, place), t->wide);
        if (t->args->gates == 4 && k > 1) {
            expect(kept_of(t, place_of(t, i, step_of(t, i, k - 2))), t->size);
        } else if (t->args->gates == 3) {
            expect(kept_of(t, place), t->size);
            expect(before_of(t, place), t->size);
        }
    }
}

/* Where y has row i at a step. */
static size_t y_at(const struct tile *t, size_t i, size_t step)
{
    const struct vc_args_recurrent *args = t->args;
    size_t row = t->first + i;

    return args->rows_first ? ((row * (size_t)args->steps + step) * (size_t)args->directions + t->direction) * t->size
                            : ((step * (size_t)args->directions + t->direction) * (size_t)args->rows + row) * t->size;
}

/* Where first and last states have row i. */
static size_t state_at(const struct tile *t, size_t i)
{
    const struct vc_args_recurrent *args = t->args;
    size_t row = t->first + i;

    return (args->rows_first ? row * (size_t)args->directions + t->direction
                             : t->direction * (size_t)args->rows + row) *
           t->size;
}

/* Rows of a state from an array that may not be there, or to one. A row without steps has the state 0 in front and
 * behind, and no gradient. */
static void load_states(const struct tile *t, const REAL *from, REAL *to)
{
    for (size_t i = 0; i < t->rows; i++) {
        if (from != NULL && length_of(t, i) != 0) {
            memcpy(to + i * t->row, from + state_at(t, i), t->size * sizeof *to);
        } else {
            memset(to + i * t->row, 0, t->size * sizeof *to);
        }
    }
}

/* Nothing is done where the array is NULL: nobody reads that output. */
static void store_states(const struct tile *t, const REAL *from, REAL *to)
{
    for (size_t i = 0; to != NULL && i < t->rows; i++) {
        memcpy(to + state_at(t, i), from + i * t->row, t->size * sizeof *to);
    }
}

/* ---- forward ---- */

/* to += x, and to = a b: n elements side by side, which compilers turn into vectors. */
static void add_row(REAL *restrict to, const REAL *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] += x[i];
    }
}

/* to = to + x + z */
static void add_rows(REAL *restrict to, const REAL *restrict x, const REAL *restrict z, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = to[i] + x[i] + z[i];
    }
}

/* to += a b */
static void add_products(REAL *restrict to, const REAL *restrict a, const REAL *restrict b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] += a[i] * b[i];
    }
}

static void multiply_rows(REAL *restrict to, const REAL *restrict a, const REAL *restrict b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = a[i] * b[i];
    }
}

/* C = f C + i g */
static void next_cells(REAL *restrict c, const REAL *restrict f, const REAL *restrict i, const REAL *restrict g,
                       size_t n)
{
    for (size_t j = 0; j < n; j++) {
        c[j] = f[j] * c[j] + i[j] * g[j];
    }
}

/* g: x w', then the gates; h and c: the states. p: peepholes, or NULL.
 * Without peepholes i, o and f, which lie next to each other, go through their function together. */
static void lstm_forward(const struct tile *t, REAL *g, REAL *h, REAL *c, const REAL *p)
{
    size_t n = t->size;
    REAL *o = g + n;
    REAL *f = g + 2 * n;
    REAL *cells = g + 3 * n;

    if (p != NULL) {
        add_products(g, p, c, n);
        add_products(f, p + 2 * n, c, n);
    }
    apply(t, 0, g, p == NULL ? 3 * n : n);
    if (t->args->couples) {
        for (size_t j = 0; j < n; j++) {
            f[j] = 1 - g[j];
        }
    } else if (p != NULL) {
        apply(t, 0, f, n);
    }
    apply(t, 1, cells, n);
    next_cells(c, f, g, cells, n);
    if (p != NULL) {
        add_products(o, p + n, c, n);
        apply(t, 0, o, n);
    }
    memcpy(t->u, c, n * sizeof *c);
    apply(t, 2, t->u, n);
    multiply_rows(h, t->u, o, n);
}

/* GRU's gates z and r, and r h, or r (h r' + b), for the new one. `kept`: of the row, or NULL.
 * Without resets_last, `s` is written here for the second product. */
static void gru_gates(const struct tile *t, REAL *g, const REAL *h, REAL *s, REAL *kept)
{
    size_t n = t->size;

    apply(t, 0, g, 2 * n);
    if (t->args->resets_last) { /* s: h r' */
        add_row(s, t->bias + t->wide, n);
        if (kept != NULL) {
            memcpy(kept, s, n * sizeof *s);
        }
        add_products(g + 2 * n, g + n, s, n);
        return;
    }
    multiply_rows(s, g + n, h, n);
    if (kept != NULL) {
        memcpy(kept, s, n * sizeof *s);
    }
}

/* H = (1 - z) n + z h */
static void mix_states(REAL *restrict h, const REAL *restrict z, const REAL *restrict news, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        h[j] = (1 - z[j]) * news[j] + z[j] * h[j];
    }
}

static void gru_state(const struct tile *t, REAL *g, REAL *h)
{
    apply(t, 1, g + 2 * t->size, t->size);
    mix_states(h, g, g + 2 * t->size, t->size);
}

/* The products of step k with the states: behind x w' in the gates' place, if all rows are at the same step, or apart.
 * Either way a sum is x w', plus the product, plus the bias. */
static void state_products(const struct tile *t, size_t k, bool in_place)
{
    size_t n = t->args->gates == 3 ? 2 * t->size : t->wide;

    if (in_place) {
        size_t place = place_of(t, 0, step_of(t, 0, k));

        multiply_packed(t->rows, n, t->size, t->h, t->row, t->packed, gates_of(t, place),
                        (place_of(t, 1, step_of(t, 0, k)) - place) * t->wide, true, t->bias, t->panel);
    } else {
        multiply_packed(t->rows, n, t->size, t->h, t->row, t->packed, t->sums, t->wide_row, false, NULL, t->panel);
    }
    if (t->args->gates == 3 && t->args->resets_last) {
        multiply_packed(t->rows, t->size, t->size, t->h, t->row, t->packed_new, t->t, t->row, false, NULL, t->panel);
    }
}

/* Row i, up to its new state; of GRU without resets_last up to what its second product reads. */
static void forward_row(const struct tile *t, size_t i, size_t place, bool in_place, const REAL *peepholes)
{
    REAL *g = gates_of(t, place);
    REAL *h = t->h + i * t->row;
    REAL *c = t->c + i * t->row;
    bool keeps = t->args->keeps;
    size_t n_sums = t->args->gates == 3 ? 2 * t->size : t->wide;

    if (keeps) {
        memcpy(before_of(t, place), h, t->size * sizeof *h);
    }
    if (!in_place) {
        add_rows(g, t->sums + i * t->wide_row, t->bias, n_sums);
    }
    add_row(g + n_sums, t->bias + n_sums, t->wide - n_sums);
    if (t->args->gates == 4) {
        lstm_forward(t, g, h, c, peepholes);
        if (keeps) {
            memcpy(kept_of(t, place), c, t->size * sizeof *c);
        }
    } else if (t->args->gates == 3) {
        gru_gates(t, g, h, t->t + i * t->row, keeps ? kept_of(t, place) : NULL);
        if (t->args->resets_last) {
            gru_state(t, g, h);
        }
    } else {
        apply(t, 0, g, t->size);
        memcpy(h, g, t->size * sizeof *h);
    }
}

/* Zeros for a step behind the end of a row: products over all steps read it, too. */
static void clear_step(const struct tile *t, size_t place)
{
    if (t->args->keeps) {
        memset(gates_of(t, place), 0, t->wide * sizeof *t->work);
        memset(before_of(t, place), 0, t->size * sizeof *t->work);
        if (t->args->gates != 1) {
            memset(kept_of(t, place), 0, t->size * sizeof *t->work);
        }
    }
}

/* Step k of all rows: one product with all states, then each row by itself. GRU without resets_last has a
 * second product, which reads r h. */
/* at_zero: the states are all 0, and so are the products with them. */
static void forward_step(const struct tile *t, size_t k, bool at_zero, const REAL *peepholes, REAL *y)
{
    bool in_place = !at_zero && t->lengths == NULL;

    if (at_zero) {
        memset(t->sums, 0, t->rows * t->wide_row * sizeof *t->sums);
    } else {
        state_products(t, k, in_place);
    }
    for (size_t i = 0; i < t->rows; i++) {
        if (k < length_of(t, i)) {
            forward_row(t, i, place_of(t, i, step_of(t, i, k)), in_place, peepholes);
            expect_forward(t, i, k + 1);
        } else {
            clear_step(t, place_of(t, i, k));
        }
    }
    if (t->args->gates == 3 && !t->args->resets_last) {
        multiply_packed(t->rows, t->size, t->size, t->t, t->row, t->packed_new, t->sums, t->wide_row, false, NULL,
                        t->panel);
        for (size_t i = 0; i < t->rows; i++) {
            if (k < length_of(t, i)) {
                REAL *g = gates_of(t, place_of(t, i, step_of(t, i, k)));

                add_row(g + 2 * t->size, t->sums + i * t->wide_row, t->size);
                gru_state(t, g, t->h + i * t->row);
            }
        }
    }
    for (size_t i = 0; y != NULL && i < t->rows; i++) {
        REAL *to = y + y_at(t, i, step_of(t, i, k));

        if (k < length_of(t, i)) {
            memcpy(to, t->h + i * t->row, t->size * sizeof *to);
        } else {
            memset(to, 0, t->size * sizeof *to);
        }
    }
}

/* One number for each sum: both biases, but for the third gate of a GRU that resets last. */
static void join_biases(const struct tile *t, const REAL *bias)
{
    const REAL *b = bias != NULL ? bias + t->direction * 2 * t->wide : NULL;
    size_t both = t->args->gates == 3 && t->args->resets_last ? 2 * t->size : t->wide;

    for (size_t j = 0; j < t->wide + t->size; j++) {
        t->bias[j] = 0;
        if (b != NULL && j < t->wide) {
            t->bias[j] = j < both ? b[j] + b[t->wide + j] : b[j];
        } else if (b != NULL && both != t->wide) {
            t->bias[j] = b[t->wide + 2 * t->size + (j - t->wide)];
        }
    }
}

/* All steps of one tile, forward. Pointers: work, r, bias, peepholes, lengths, first state and cell, then
 * y, last state and cell, scratch. */
LOOP_FN(recurrent)
{
    const struct vc_args_recurrent *args = call->args;
    REAL *scratch = (REAL *)call->p[10] + worker * (size_t)args->scratch;
    struct tile t = recurrent_tile(args, block, call->p[0], call->p[4], scratch);
    const REAL *r = (const REAL *)call->p[1] + t.direction * t.wide * t.size;
    const REAL *peepholes = call->p[3] != NULL ? (const REAL *)call->p[3] + t.direction * 3 * t.size : NULL;
    struct vc_matrix turned = {1, (int64_t)t.size};
    size_t n = args->gates == 3 ? 2 * t.size : t.wide;

    pack_all(r, turned, t.size, n, t.packed);
    if (args->gates == 3) {
        pack_all(r + n * t.size, turned, t.size, t.size, t.packed_new);
    }
    join_biases(&t, call->p[2]);
    load_states(&t, call->p[5], t.h);
    load_states(&t, call->p[6], t.c);
    memset(t.t, 0, t.rows * t.row * sizeof *t.t);
    for (size_t k = 0; k < (size_t)args->steps; k++) {
        forward_step(&t, k, k == 0 && call->p[5] == NULL, peepholes, call->p[7]);
    }
    store_states(&t, t.h, call->p[8]);
    store_states(&t, t.c, call->p[9]);
}

/* ---- backward ---- */

/* Gradients of i, f and g by that of the cell, which becomes that of the cell before: C = f c + i g. */
static void cell_backward(REAL *restrict di, REAL *restrict df, REAL *restrict dg, REAL *restrict dc,
                          const REAL *restrict i, const REAL *restrict f, const REAL *restrict g,
                          const REAL *restrict c, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        di[j] = dc[j] * g[j];
        df[j] = dc[j] * c[j];
        dg[j] = dc[j] * i[j];
        dc[j] *= f[j];
    }
}

/* g: the gates; d: gradients of their sums; dh, dc: of the states behind the step. *dc becomes that of before. */
static void lstm_backward(const struct tile *t, const REAL *g, REAL *d, const REAL *c, const REAL *c_before,
                          const REAL *dh, REAL *dc, const REAL *p, REAL *dp)
{
    size_t n = t->size;
    const REAL *o = g + n;
    const REAL *f = g + 2 * n;
    const REAL *cells = g + 3 * n;
    REAL *out = t->u;
    REAL *through = t->u + n;

    memcpy(out, c, n * sizeof *out);
    apply(t, 2, out, n);
    multiply_rows(d + n, dh, out, n);
    multiply_rows(through, dh, o, n);
    slope(t, 2, out, through, n);
    add_row(dc, through, n);
    slope(t, 0, o, d + n, n);
    if (p != NULL) {
        add_products(dc, d + n, p + n, n);
    }
    cell_backward(d, d + 2 * n, d + 3 * n, dc, g, f, cells, c_before, n);
    if (t->args->couples) { /* f = 1 - i */
        for (size_t j = 0; j < n; j++) {
            d[j] -= d[2 * n + j];
            d[2 * n + j] = 0;
        }
    } else {
        slope(t, 0, f, d + 2 * n, n);
    }
    slope(t, 0, g, d, n);
    slope(t, 1, cells, d + 3 * n, n);
    if (p != NULL) {
        add_products(dc, d, p, n);
        add_products(dc, d + 2 * n, p + 2 * n, n);
    }
    if (dp != NULL) {
        add_products(dp, d, c_before, n);
        add_products(dp + n, d + n, c, n);
        add_products(dp + 2 * n, d + 2 * n, c_before, n);
    }
}

/* Gradients of z and of the new part, and what goes straight to the state before: H = (1 - z) n + z h. */
static void mix_backward(REAL *restrict dz, REAL *restrict dn, REAL *restrict back, const REAL *restrict dh,
                         const REAL *restrict z, const REAL *restrict news, const REAL *restrict h, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        dz[j] = dh[j] * (h[j] - news[j]);
        dn[j] = dh[j] * (1 - z[j]);
        back[j] = dh[j] * z[j];
    }
}

/* The gradients of the sums of the new state and of z, and what of dh goes straight back: in `back`. */
static void gru_backward(const struct tile *t, const REAL *g, REAL *d, const REAL *h, const REAL *dh, REAL *back)
{
    size_t n = t->size;

    mix_backward(d, d + 2 * n, back, dh, g, g + 2 * n, h, n);
    slope(t, 0, g, d, n);
    slope(t, 1, g + 2 * n, d + 2 * n, n);
}

/* r: of the gradient of what it was multiplied with, and what that was. */
static void reset_backward(const struct tile *t, const REAL *r, REAL *d, const REAL *by, const REAL *other)
{
    multiply_rows(d, by, other, t->size);
    slope(t, 0, r, d, t->size);
}

/* The gradients of the sums of row i take the place of the gates, and are added to those of the row's other steps, of
 * which the biases' are sums. kept: of the state's part of a GRU's new one, which has a bias of its own; else NULL. */
static void leave_row(const struct tile *t, size_t i, REAL *g, const REAL *d, const REAL *kept, REAL *by_row)
{
    size_t row = (t->first + i) * (size_t)t->args->directions + t->direction;
    REAL *sums = by_row == NULL ? NULL : by_row + t->args->sums + row * t->wide;

    memcpy(g, d, t->wide * sizeof *g);
    if (sums != NULL) {
        add_row(sums, d, t->wide);
    }
    if (sums != NULL && kept != NULL) {
        add_row(by_row + t->args->sums + (size_t)(t->args->rows * t->args->directions) * t->wide + row * t->size, kept,
                t->size);
    }
}

/* Row i: gradients of the sums, for the product that follows in t->sums, and in the place of the gates. by_row: sums
 * over the steps of each row, of the gradients of peepholes, then of those of the gates; or NULL. */
static void backward_row(const struct tile *t, size_t i, size_t place, size_t before, const REAL *first_cell,
                         const REAL *peepholes, REAL *by_row)
{
    size_t row = (t->first + i) * (size_t)t->args->directions + t->direction;
    size_t n = t->size;
    REAL *g = gates_of(t, place);
    REAL *d = t->sums + i * t->wide_row;
    REAL *dh = t->h + i * t->row;
    REAL *back = t->t + i * t->row;

    if (t->args->gates == 4) {
        const REAL *c_before = before != SIZE_MAX ? kept_of(t, before) : first_cell;

        lstm_backward(t, g, d, kept_of(t, place), c_before, dh, t->c + i * t->row, peepholes,
                      by_row != NULL && t->args->sums != 0 ? by_row + row * 3 * n : NULL);
    } else if (t->args->gates == 3) {
        REAL *kept = kept_of(t, place);

        gru_backward(t, g, d, before_of(t, place), dh, back);
        if (t->args->resets_last) { /* the state's part of the new one has a gradient of its own */
            reset_backward(t, g + n, d + n, d + 2 * n, kept);
            multiply_rows(kept, d + 2 * n, g + n, n);
            leave_row(t, i, g, d, kept, t->args->biases ? by_row : NULL);
            memcpy(d + 2 * n, kept, n * sizeof *d);
            return;
        }
        return; /* r: behind the product with the new one's weights */
    } else {
        memcpy(d, dh, n * sizeof *d);
        slope(t, 0, g, d, n);
    }
    leave_row(t, i, g, d, NULL, t->args->biases ? by_row : NULL);
}

/* GRU without resets_last: t->back is the gradient of r h. */
static void reset_row(const struct tile *t, size_t i, size_t place, REAL *by_row)
{
    size_t n = t->size;
    REAL *g = gates_of(t, place);
    REAL *d = t->sums + i * t->wide_row;

    reset_backward(t, g + n, d + n, t->back + i * t->row, before_of(t, place));
    add_products(t->t + i * t->row, t->back + i * t->row, g + n, n);
    leave_row(t, i, g, d, NULL, t->args->biases ? by_row : NULL);
}

/* Step k of all rows, from the last to the first. t->h has the gradient of the state behind the step, and
 * leaves with that of the state before it. */
static void backward_step(const struct tile *t, size_t k, const struct vc_train_call *call, const REAL *zeros)
{
    const REAL *peepholes = call->p[2] != NULL ? (const REAL *)call->p[2] + t->direction * 3 * t->size : NULL;
    bool second = t->args->gates == 3 && !t->args->resets_last;
    size_t n = second ? 2 * t->size : t->wide;

    for (size_t i = 0; i < t->rows; i++) {
        size_t step = step_of(t, i, k);

        if (k >= length_of(t, i)) {
            memset(t->sums + i * t->wide_row, 0, t->wide * sizeof *t->sums);
            clear_step(t, place_of(t, i, k));
            continue;
        }
        if (call->p[5] != NULL) {
            add_row(t->h + i * t->row, (const REAL *)call->p[5] + y_at(t, i, step), t->size);
        }
        backward_row(t, i, place_of(t, i, step), k != 0 ? place_of(t, i, step_of(t, i, k - 1)) : SIZE_MAX,
                     call->p[4] != NULL ? (const REAL *)call->p[4] + state_at(t, i) : zeros, peepholes, call->p[9]);
        expect_backward(t, i, k);
    }
    if (second) {
        multiply_packed(t->rows, t->size, t->size, t->sums + 2 * t->size, t->wide_row, t->packed_new, t->back, t->row,
                        false, NULL, t->panel);
        for (size_t i = 0; i < t->rows; i++) {
            if (k < length_of(t, i)) {
                reset_row(t, i, place_of(t, i, step_of(t, i, k)), call->p[9]);
            }
        }
    }
    if (k == 0 && call->p[8] == NULL) { /* nobody has the states before */
        return;
    }
    if (t->lengths == NULL && t->args->gates != 3) { /* of every row, and nothing goes straight back */
        multiply_packed(t->rows, t->size, n, t->sums, t->wide_row, t->packed, t->h, t->row, false, NULL, t->panel);
        return;
    }
    multiply_packed(t->rows, t->size, n, t->sums, t->wide_row, t->packed, t->back, t->row, false, NULL, t->panel);
    for (size_t i = 0; i < t->rows; i++) {
        if (k < length_of(t, i)) {
            memcpy(t->h + i * t->row, t->back + i * t->row, t->size * sizeof *t->h);
            if (t->args->gates == 3) {
                add_row(t->h + i * t->row, t->t + i * t->row, t->size);
            }
        }
    }
}

/* What the sums over a row's steps begin with. */
static void clear_row(const struct tile *t, size_t row, REAL *by_row)
{
    size_t all = (size_t)(t->args->rows * t->args->directions);

    if (t->args->sums != 0) {
        memset(by_row + row * 3 * t->size, 0, 3 * t->size * sizeof *by_row);
    }
    if (t->args->biases) {
        by_row += t->args->sums;
        memset(by_row + row * t->wide, 0, t->wide * sizeof *by_row);
        if (t->args->gates == 3 && t->args->resets_last) {
            memset(by_row + all * t->wide + row * t->size, 0, t->size * sizeof *by_row);
        }
    }
}

/* All steps of one tile from the last to the first. The gradients of peepholes and biases are made for each
 * row apart, and summed by instructions that follow, in an order that no tile changes. */
LOOP_FN(recurrent_backward)
{
    const struct vc_args_recurrent *args = call->args;
    REAL *scratch = (REAL *)call->p[10] + worker * (size_t)args->scratch;
    struct tile t = recurrent_tile(args, block, call->p[0], call->p[3], scratch);
    const REAL *r = (const REAL *)call->p[1] + t.direction * t.wide * t.size;
    struct vc_matrix is = {(int64_t)t.size, 1};
    bool second = args->gates == 3 && !args->resets_last;
    size_t n = second ? 2 * t.size : t.wide;
    REAL *zeros = t.u + 2 * t.size;

    memset(zeros, 0, t.size * sizeof *zeros);
    pack_all(r, is, n, t.size, t.packed);
    if (second) {
        pack_all(r + n * t.size, is, t.size, t.size, t.packed_new);
    }
    load_states(&t, call->p[6], t.h);
    load_states(&t, call->p[7], t.c);
    for (size_t i = 0; call->p[9] != NULL && i < t.rows; i++) {
        clear_row(&t, (t.first + i) * (size_t)args->directions + t.direction, call->p[9]);
    }
    for (size_t k = (size_t)args->steps; k-- > 0;) {
        backward_step(&t, k, call, zeros);
    }
    if (call->p[8] != NULL) {
        store_states(&t, t.h, call->p[8]);
        store_states(&t, t.c, (REAL *)call->p[8] + args->directions * args->rows * t.size);
    }
}
