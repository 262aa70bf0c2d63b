/* train_strided.h - part of train_sums.h: sums over arrays with strides, and elements that go elsewhere.
 *
 *     out[i] (+)= scale * sum over j of f(a[i, j], b[i, j], c[i, j])      i: kept dimensions, j: reduced ones
 *     places   base[v] + sum of index[k] * step[v][k], for v = out, a, b, c
 *
 * Bias additions, broadcasts, transposes, reductions and their gradients are all this one loop. Three ways
 * through it: no reduced dimension (strided_elements), kept results side by side (strided_columns: one term
 * of each at a time), terms side by side (strided_row). Which way is taken depends on strides alone, so
 * that the order of a sum does, too. */

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* One term. Operands that the kind does not have are any numbers. */
ALWAYS_INLINE REAL sum_term(enum vc_sum_kind kind, REAL a, REAL b, REAL c)
{
    switch (kind) {
#define KIND(id, term) \
    case VC_SUM_##id:  \
        return term;
        VC_SUM_TERMS(KIND)
#undef KIND
    default:
        return a;
    }
}

/* RUN(kind) with a kind that the compiler knows: the choice is made outside of the loop over elements. */
#define WITH_CASE(id, term) \
    case VC_SUM_##id:       \
        RUN(VC_SUM_##id);   \
        break;
#define WITH_KIND(kind)         \
    switch (kind) {             \
        VC_SUM_TERMS(WITH_CASE) \
    default:                    \
        break;                  \
    }

/* The places of the operands at number `index` of the first n dimensions. */
static void strided_place(uint64_t index, unsigned n, const int64_t *size, const int64_t step[4][VC_GRAPH_MAX_DIMS],
                          int64_t *place)
{
    for (unsigned k = n; k-- > 0;) {
        int64_t at = (int64_t)(index % (uint64_t)size[k]);

        index /= (uint64_t)size[k];
        for (unsigned v = 0; v < 4; v++) {
            place[v] += at * step[v][k];
        }
    }
}

/* Terms go through a part of known size, so that the compiler makes one loop of vectors: results may lie over operands.
 */
#define VC_PART 64

ALWAYS_INLINE void put_part(bool add, REAL *out, const REAL *part, size_t n)
{
    if (add) {
        for (size_t i = 0; i < n; i++) {
            out[i] += part[i];
        }
    } else {
        memcpy(out, part, n * sizeof *out);
    }
}

/* n terms whose first operands lie side by side; b_step: of the second ones, 1, or 0 for one number. */
ALWAYS_INLINE void part_run(enum vc_sum_kind kind, bool add, REAL scale, REAL *out, const REAL *a, const REAL *b,
                            size_t b_step, size_t n)
{
    REAL part[VC_PART];

    for (size_t i = 0; i < n; i++) {
        part[i] = scale * sum_term(kind, a[i], b[i * b_step], a[i]);
    }
    put_part(add, out, part, n);
}

/* `n` results in a row, each of one term: of two operands that lie side by side, or of a row and one number, as
 * vectors. */
ALWAYS_INLINE void each_run(enum vc_sum_kind kind, bool add, REAL scale, REAL *out, const REAL *a, const REAL *b,
                            const REAL *c, const int64_t *step, size_t n)
{
    bool row = step[0] == 1 && step[1] == 1 && kind < VC_SUM_QUOTIENT_D2;
    size_t i = 0;

    if (row && step[2] == 1) {
        for (; i + VC_PART <= n; i += VC_PART) {
            part_run(kind, add, scale, out + i, a + i, b + i, 1, VC_PART);
        }
    } else if (row && step[2] == 0) {
        REAL number = *b;

        for (; i + VC_PART <= n; i += VC_PART) {
            part_run(kind, add, scale, out + i, a + i, &number, 0, VC_PART);
        }
    }
    for (; i < n; i++) {
        int64_t at = (int64_t)i;
        REAL v = scale * sum_term(kind, a[at * step[1]], b[at * step[2]], c[at * step[3]]);
        REAL *to = out + at * step[0];

        *to = add ? *to + v : v;
    }
}

/* b and c that are not given point at a, so that no branch is in the loop. */
static void strided_each(enum vc_sum_kind kind, const struct vc_train_call *call, const int64_t *place,
                         const int64_t *step, size_t n, REAL scale)
{
    REAL *out = (REAL *)call->p[0] + place[0];
    const REAL *a = (const REAL *)call->p[1] + place[1];
    const REAL *b = call->p[2] != NULL ? (const REAL *)call->p[2] + place[2] : a;
    const REAL *c = call->p[3] != NULL ? (const REAL *)call->p[3] + place[3] : a;

#define RUN(of) each_run(of, call->add, scale, out, a, b, c, step, n)
    WITH_KIND(kind)
#undef RUN
}

/* `n` results in a row (at most VC_SUM_ROW) whose operands lie side by side: one term of each at a time. */
#define VC_SUM_ROW 256

ALWAYS_INLINE void columns_run(enum vc_sum_kind kind, REAL *sums, const REAL *a, const REAL *b, const REAL *c,
                               const int64_t *step, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sums[i] += sum_term(kind, a[i], b[(int64_t)i * step[2]], c[(int64_t)i * step[3]]);
    }
}

/* The sums of n results side by side, one reduced place after the other: each sum runs in the order of
 * places. */
static void strided_columns(enum vc_sum_kind kind, const struct vc_train_call *call, const struct vc_args_strided *args,
                            const int64_t *place, const int64_t *step, size_t n, REAL *sums)
{
    uint64_t terms = 1;

    for (unsigned k = 0; k < args->n_reduced; k++) {
        terms *= (uint64_t)args->reduced[k];
    }
    for (size_t i = 0; i < n; i++) {
        sums[i] = 0;
    }
    for (uint64_t j = 0; j < terms; j++) {
        int64_t at[4] = {place[0], place[1], place[2], place[3]};

        strided_place(j, args->n_reduced, args->reduced, args->reduced_step, at);
        const REAL *a = (const REAL *)call->p[1] + at[1];
        const REAL *b = call->p[2] != NULL ? (const REAL *)call->p[2] + at[2] : a;
        const REAL *c = call->p[3] != NULL ? (const REAL *)call->p[3] + at[3] : a;
#define RUN(of) columns_run(of, sums, a, b, c, step, n)
        WITH_KIND(kind)
#undef RUN
    }
}

/* One result whose terms lie side by side, or nearly: LANES partial sums, added in a fixed order. */
ALWAYS_INLINE void row_run(enum vc_sum_kind kind, REAL *lanes, const REAL *a, const REAL *b, const REAL *c,
                           const int64_t *step, int64_t n)
{
    int64_t i = 0;

    if (step[1] == 1 && step[2] == 1) {
        for (; i + LANES <= n; i += LANES) {
            for (int64_t l = 0; l < LANES; l++) {
                lanes[l] += sum_term(kind, a[i + l], b[i + l], c[(i + l) * step[3]]);
            }
        }
    }
    for (; i < n; i++) {
        lanes[i % LANES] += sum_term(kind, a[i * step[1]], b[i * step[2]], c[i * step[3]]);
    }
}

/* Lanes are kept over all rows of the reduced dimensions and added at the end. */
static REAL strided_row(enum vc_sum_kind kind, const struct vc_train_call *call, const struct vc_args_strided *args,
                        const int64_t *place)
{
    unsigned last = args->n_reduced - 1;
    int64_t n = args->reduced[last];
    uint64_t rows = 1;
    REAL lanes[LANES] = {0};
    REAL sum = 0;

    for (unsigned k = 0; k < last; k++) {
        rows *= (uint64_t)args->reduced[k];
    }
    for (uint64_t j = 0; j < rows; j++) {
        int64_t at[4] = {place[0], place[1], place[2], place[3]};
        int64_t step[4];

        strided_place(j, last, args->reduced, args->reduced_step, at);
        for (unsigned v = 0; v < 4; v++) {
            step[v] = args->reduced_step[v][last];
        }
        const REAL *a = (const REAL *)call->p[1] + at[1];
        const REAL *b = call->p[2] != NULL ? (const REAL *)call->p[2] + at[2] : a;
        const REAL *c = call->p[3] != NULL ? (const REAL *)call->p[3] + at[3] : a;
#define RUN(of) row_run(of, lanes, a, b, c, step, n)
        WITH_KIND(kind)
#undef RUN
    }
    for (unsigned l = 0; l < LANES; l++) {
        sum += lanes[l];
    }
    return sum;
}

/* ---- one term for each result ---- */

/* Where a run along the last kept dimension begins: indices, and the place in each array. An odometer,
 * since dividing for each element would cost more than the element. */
struct run_at {
    int64_t index[VC_GRAPH_MAX_DIMS];
    int64_t place[4];
};

/* The place of output number `first`: its index in each kept dimension, and what that is in the four
 * arrays. */
static struct run_at first_run(const struct vc_args_strided *args, uint64_t first)
{
    struct run_at at = {.place = {args->base[0], args->base[1], args->base[2], args->base[3]}};

    for (unsigned k = args->n_kept; k-- > 0;) {
        at.index[k] = (int64_t)(first % (uint64_t)args->kept[k]);
        first /= (uint64_t)args->kept[k];
        for (unsigned v = 0; v < 4; v++) {
            at.place[v] += at.index[k] * args->kept_step[v][k];
        }
    }
    return at;
}

/* From a run to the next one, which begins with its dimension; `dims` dimensions are left of them. */
static void next_run(const struct vc_args_strided *args, unsigned dims, struct run_at *at)
{
    for (unsigned k = args->n_kept; k-- > 0;) {
        bool more = k < dims && at->index[k] + 1 < args->kept[k];
        int64_t by = more ? 1 : -at->index[k];

        at->index[k] += by;
        for (unsigned v = 0; v < 4; v++) {
            at->place[v] += by * args->kept_step[v][k];
        }
        if (more) {
            return;
        }
    }
}

/* The last two dimensions are swapped: a is read along the first of them. */
static bool swaps_two(const struct vc_args_strided *args)
{
    unsigned n = args->n_kept;

    return args->kind == VC_SUM_A && n >= 2 && args->kept_step[0][n - 1] == 1 &&
           args->kept_step[0][n - 2] == args->kept[n - 1] && args->kept_step[1][n - 2] == 1;
}

/* rows x columns results from columns x rows elements, in squares that a cache holds. */
#define SWAP_SIDE 8

/* Transposes in squares of SWAP_SIDE, so that reads and writes both stay in a few cache lines. */
static void swap_two(const REAL *a, int64_t step, size_t rows, size_t columns, REAL scale, REAL *out)
{
    for (size_t i = 0; i < rows; i += SWAP_SIDE) {
        for (size_t j = 0; j < columns; j += SWAP_SIDE) {
            size_t n_i = VC_AT_MOST(rows - i, (size_t)SWAP_SIDE);
            size_t n_j = VC_AT_MOST(columns - j, (size_t)SWAP_SIDE);

            for (size_t r = i; r < i + n_i; r++) {
                for (size_t c = j; c < j + n_j; c++) {
                    out[r * columns + c] = scale * a[(int64_t)c * step + (int64_t)r];
                }
            }
        }
    }
}

/* Results `first` to before `end`, in runs along the last kept dimension, or planes of the last two. */
static void strided_elements(const struct vc_train_call *call, uint64_t first, uint64_t end)
{
    const struct vc_args_strided *args = call->args;
    unsigned last = args->n_kept - 1;
    bool swaps = swaps_two(args) && !call->add;
    uint64_t row = (uint64_t)args->kept[last];
    uint64_t plane = swaps ? row * (uint64_t)args->kept[last - 1] : row;
    struct run_at at = first_run(args, first);
    int64_t step[4];

    for (unsigned v = 0; v < 4; v++) {
        step[v] = args->kept_step[v][last];
    }
    for (uint64_t n; first < end; first += n) {
        if (swaps && first % plane == 0 && end - first >= plane) {
            n = plane;
            swap_two((const REAL *)call->p[1] + at.place[1], step[1], (size_t)args->kept[last - 1], (size_t)row,
                     (REAL)args->scale, (REAL *)call->p[0] + at.place[0]);
            next_run(args, last - 1, &at);
        } else {
            n = VC_AT_MOST(row - (uint64_t)at.index[last], end - first);
            strided_each(args->kind, call, at.place, step, (size_t)n, (REAL)args->scale);
            next_run(args, last, &at);
        }
    }
}

/* ---- sums ---- */

/* Results `first` to before `end`, each of several terms. */
static void strided_sums(enum vc_sum_kind kind, const struct vc_train_call *call, uint64_t first, uint64_t end)
{
    const struct vc_args_strided *args = call->args;
    unsigned last = args->n_kept - 1;
    REAL scale = (REAL)args->scale;
    int64_t step = args->kept_step[0][last];
    REAL sums[VC_SUM_ROW];

    for (size_t n; first < end; first += n) {
        int64_t place[4] = {args->base[0], args->base[1], args->base[2], args->base[3]};
        uint64_t room = (uint64_t)args->kept[last] - first % (uint64_t)args->kept[last];

        strided_place(first, args->n_kept, args->kept, args->kept_step, place);
        if (args->kept_step[1][last] == 1) {
            int64_t steps[4];

            n = (size_t)VC_AT_MOST(VC_AT_MOST(room, end - first), (uint64_t)VC_SUM_ROW);
            for (unsigned v = 0; v < 4; v++) {
                steps[v] = args->kept_step[v][last];
            }
            strided_columns(kind, call, args, place, steps, n, sums);
        } else {
            n = 1;
            sums[0] = strided_row(kind, call, args, place);
        }
        for (size_t i = 0; i < n; i++) {
            REAL *to = (REAL *)call->p[0] + place[0] + (int64_t)i * step;

            *to = call->add ? *to + scale * sums[i] : scale * sums[i];
        }
    }
}

LOOP_FN(strided_sum)
{
    const struct vc_args_strided *args = call->args;
    uint64_t first = block * args->per_block;
    uint64_t end = VC_AT_MOST(first + args->per_block, args->n);

    if (args->n_reduced == 0) {
        strided_elements(call, first, end);
    } else {
        strided_sums(args->kind, call, first, end);
    }
}

/* ---- elements that go elsewhere ---- */

LOOP_FN(mapped)
{
    const struct vc_args_mapped *args = call->args;
    uint64_t first = block * (uint64_t)VC_ELEMENTS_PER_BLOCK;
    uint64_t end = VC_AT_MOST(first + VC_ELEMENTS_PER_BLOCK, args->n_out);
    const REAL *x = call->p[0];
    REAL *y = call->p[1];

    for (uint64_t i = first; i < end; i++) {
        uint64_t rest = i;
        int64_t place = 0;
        int64_t step = 1;
        bool inside = true;

        for (unsigned k = args->n_dims; k-- > 0;) {
            int64_t from = args->map[k][rest % (uint64_t)args->out[k]];

            rest /= (uint64_t)args->out[k];
            inside = inside && from >= 0;
            place += from * step;
            step *= args->in[k];
        }
        y[i] = inside ? x[place] : (REAL)args->otherwise;
    }
}

/* The sum of dy over all places of y that show the element of x at `at`: recursion over dimensions, each
 * with its list of places. */
static REAL mapped_sum(const struct vc_args_mapped *args, const REAL *dy, unsigned k, const int64_t *at, int64_t place)
{
    REAL sum = 0;

    if (k == args->n_dims) {
        return dy[place];
    }
    for (int64_t i = args->back[k][at[k]]; i < args->back[k][at[k] + 1]; i++) {
        sum += mapped_sum(args, dy, k + 1, at, place * args->out[k] + args->back_list[k][i]);
    }
    return sum;
}

LOOP_FN(mapped_backward)
{
    const struct vc_args_mapped *args = call->args;
    uint64_t first = block * (uint64_t)VC_ELEMENTS_PER_BLOCK;
    uint64_t end = VC_AT_MOST(first + VC_ELEMENTS_PER_BLOCK, args->n_in);
    REAL *dx = call->p[1];

    for (uint64_t i = first; i < end; i++) {
        int64_t at[VC_GRAPH_MAX_DIMS];
        uint64_t rest = i;

        for (unsigned k = args->n_dims; k-- > 0;) {
            at[k] = (int64_t)(rest % (uint64_t)args->in[k]);
            rest /= (uint64_t)args->in[k];
        }
        REAL sum = mapped_sum(args, call->p[0], 0, at, 0);
        dx[i] = call->add ? dx[i] + sum : sum;
    }
}

/* n results of row `row` of the matrix, from x on, which is the first of them in row 0 of the input. */
static void blend_row(const struct vc_args_blend *args, int64_t row, const REAL *restrict x, REAL *restrict y, size_t n,
                      bool add)
{
    if (!add) {
        memset(y, 0, n * sizeof *y);
    }
    for (int64_t k = args->first[row]; k < args->first[row + 1]; k++) {
        const REAL *from = x + args->from[k] * args->inner;
        REAL weight = (REAL)args->weight[k];

        for (size_t j = 0; j < n; j++) {
            y[j] += weight * from[j];
        }
    }
}

/* Row by row of the output; the first and the last row of a block may be parts. */
LOOP_FN(blend)
{
    const struct vc_args_blend *args = call->args;
    uint64_t i = block * (uint64_t)VC_ELEMENTS_PER_BLOCK;
    uint64_t end = VC_AT_MOST(i + VC_ELEMENTS_PER_BLOCK, args->n);
    uint64_t rows = i / (uint64_t)args->inner;
    uint64_t column = i % (uint64_t)args->inner;
    int64_t row = (int64_t)(rows % (uint64_t)args->out);
    const REAL *x = (const REAL *)call->p[0] + rows / (uint64_t)args->out * (uint64_t)(args->in * args->inner);

    while (i < end) {
        uint64_t n = VC_AT_MOST((uint64_t)args->inner - column, end - i);

        blend_row(args, row, x + column, (REAL *)call->p[1] + i, (size_t)n, call->add);
        i += n;
        column = 0;
        if (++row == args->out) {
            row = 0;
            x += args->in * args->inner;
        }
    }
}
