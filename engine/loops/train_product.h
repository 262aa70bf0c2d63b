/* train_product.h - part of train_products.h: products of matrices, c = alpha * a b or c += alpha * a b.
 *
 * The inner dimension is cut into parts of DEPTH. Of each, columns of b are packed into panels NR wide and rows of a
 * into panels MR high, so that the innermost loop (product_tile) reads both in a row and keeps MR x NR sums in
 * registers. Rows of a whose elements lie side by side need no panel: they are read where they are. The panels:
 *
 *     b panel   k = 0: b[0][0..NR-1]   k = 1: b[1][0..NR-1] ...        a panel   k = 0: a[0..MR-1][0] ...
 *
 * Each sum runs over k in order, part by part, whatever the sizes are and wherever the element lies. */

#if defined(VC_TRAIN_AVX512)
#include <immintrin.h>
typedef __m512 vec;
#define LOAD(p)      _mm512_loadu_ps(p)
#define STORE(p, v)  _mm512_storeu_ps(p, v)
#define SPREAD(x)    _mm512_set1_ps(x)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define MUL(a, b)    _mm512_mul_ps(a, b)
#define ADD(a, b)    _mm512_add_ps(a, b)
#define MR           12
#elif defined(VC_TRAIN_AVX2)
#include <immintrin.h>
#if REAL_IS_F64
typedef __m256d vec;
#define LOAD(p)      _mm256_loadu_pd(p)
#define STORE(p, v)  _mm256_storeu_pd(p, v)
#define SPREAD(x)    _mm256_set1_pd(x)
#define FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define MUL(a, b)    _mm256_mul_pd(a, b)
#define ADD(a, b)    _mm256_add_pd(a, b)
#else
typedef __m256 vec;
#define LOAD(p)      _mm256_loadu_ps(p)
#define STORE(p, v)  _mm256_storeu_ps(p, v)
#define SPREAD(x)    _mm256_set1_ps(x)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define MUL(a, b)    _mm256_mul_ps(a, b)
#define ADD(a, b)    _mm256_add_ps(a, b)
#endif
#define MR 6
#else
typedef REAL vec __attribute__((vector_size(16)));

static inline vec vec_load(const REAL *p)
{
    vec v;

    memcpy(&v, p, sizeof v);
    return v;
}

static inline void vec_store(REAL *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

#define LOAD(p)      vec_load(p)
#define STORE(p, v)  vec_store(p, v)
#define SPREAD(x)    ((x) - (vec){0})
#define FMA(a, b, c) ((a) * (b) + (c))
#define MUL(a, b)    ((a) * (b))
#define ADD(a, b)    ((a) + (b))
#define MR           4
#endif

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define VL           (sizeof(vec) / sizeof(REAL))
#define NR           (2 * VL)
#define DEPTH        ((size_t)VC_PRODUCT_DEPTH)
#define MOST_ROWS    ((size_t)VC_PRODUCT_ROWS)
#define MOST_COLUMNS ((size_t)VC_PRODUCT_COLUMNS)

#include "engine/loops/train_pack.h"

/* What is packed or read next: `count` rows or columns, `step` apart, of `lines` lines of a cache each. It comes from
 * memory while tiles are multiplied, `some` lines at a time: a processor waits for a dozen of lines at most, and then
 * for whatever it reads itself, so that few at a time cost nothing. `line`: the next one of the row or column. */
struct next {
    const REAL *at;
    int64_t step;
    size_t lines, line, count, some;
};

/* n x k elements, of which those of each k, or of each n, lie side by side; else nothing is told to come. Each of
 * `tiles` tiles asks MR times. */
static struct next next_of(const REAL *at, int64_t n_step, int64_t k_step, size_t n, size_t k, size_t tiles)
{
    bool by_k = n_step == 1;
    size_t count = by_k ? k : k_step == 1 ? n : 0;
    size_t lines = (by_k ? n : k) * sizeof *at / 64 + 1;

    return (struct next){.at = at,
                         .step = by_k ? k_step : n_step,
                         .lines = lines,
                         .count = count,
                         .some = (count * lines + tiles * MR - 1) / (tiles * MR)};
}

static inline __attribute__((always_inline)) void bring_some(struct next *next)
{
    for (size_t i = 0; i < next->some && next->count != 0; i++) {
        __builtin_prefetch(next->at + next->line * (64 / sizeof(REAL)), 0, 2);
        if (++next->line == next->lines) {
            next->line = 0;
            next->at += next->step;
            next->count--;
        }
    }
}

/* MR x NR results, of which the first `rows` x `columns` are wanted. bias: one number for each column,
 * added last, or NULL. Rows of a are a_row apart and their elements a_next; where a_next is 1, each of MR /
 * 3 pointers reads three rows, for which there are enough registers. The depth is cut into about MR parts: in front of
 * each, a row of c, which is written in the end, is brought from memory, and some of what is next: two, of a and b. */
static inline __attribute__((always_inline)) void product_tile(unsigned most, size_t depth, const REAL *a, size_t a_row,
                                                               size_t a_next, const REAL *b, REAL *c, size_t c_row,
                                                               size_t rows, size_t columns, bool add, REAL alpha,
                                                               const REAL *bias, struct next *next)
{
    const REAL *at[(MR + 2) / 3];
    vec sum[MR][2];
    vec scale = SPREAD(alpha);
    REAL edge[NR];

    UNROLL
    for (unsigned i = 0; i < MR; i++) {
        sum[i][0] = SPREAD((REAL)0);
        sum[i][1] = SPREAD((REAL)0);
    }
    UNROLL
    for (unsigned i = 0; i < MR; i += 3) {
        at[i / 3] = a + i * a_row;
    }
    for (size_t k = 0, part = 0; k < depth; part++) {
        size_t end = VC_AT_MOST(depth, k + depth / MR + 1);

        if (part < rows) {
            __builtin_prefetch(c + part * c_row, 1);
            __builtin_prefetch(c + part * c_row + columns - 1, 1);
        }
        bring_some(&next[0]);
        bring_some(&next[1]);
        for (; k < end; k++) {
            vec b0 = LOAD(b + k * NR);
            vec b1 = LOAD(b + k * NR + VL);

            UNROLL
            for (unsigned i = 0; i < MR && i < most; i++) {
                vec x = SPREAD(at[i / 3][i % 3 * a_row]);

                sum[i][0] = FMA(x, b0, sum[i][0]);
                sum[i][1] = FMA(x, b1, sum[i][1]);
            }
            UNROLL
            for (unsigned i = 0; i < MR; i += 3) {
                at[i / 3] += a_next;
            }
        }
    }
    UNROLL
    for (unsigned i = 0; i < MR; i++) {
        sum[i][0] = MUL(sum[i][0], scale);
        sum[i][1] = MUL(sum[i][1], scale);
        if (i >= rows || i >= most) {
            continue;
        }
        if (columns == NR) {
            REAL *to = c + i * c_row;
            vec left = add ? ADD(LOAD(to), sum[i][0]) : sum[i][0];
            vec right = add ? ADD(LOAD(to + VL), sum[i][1]) : sum[i][1];

            STORE(to, bias != NULL ? ADD(left, LOAD(bias)) : left);
            STORE(to + VL, bias != NULL ? ADD(right, LOAD(bias + VL)) : right);
        } else {
            STORE(edge, sum[i][0]);
            STORE(edge + VL, sum[i][1]);
            for (size_t j = 0; j < columns; j++) {
                REAL *to = c + i * c_row + j;
                REAL v = add ? *to + edge[j] : edge[j];

                *to = bias != NULL ? v + bias[j] : v;
            }
        }
    }
}

static __attribute__((noinline)) void packed_tile(size_t depth, const REAL *a, const REAL *b, REAL *c, size_t c_row,
                                                  size_t rows, size_t columns, bool add, REAL alpha, const REAL *bias,
                                                  struct next *next)
{
    if (rows <= MR / 3) {
        product_tile(MR / 3, depth, a, 1, MR, b, c, c_row, rows, columns, add, alpha, bias, next);
    } else if (rows <= MR / 3 * 2) {
        product_tile(MR / 3 * 2, depth, a, 1, MR, b, c, c_row, rows, columns, add, alpha, bias, next);
    } else {
        product_tile(MR, depth, a, 1, MR, b, c, c_row, rows, columns, add, alpha, bias, next);
    }
}

/* MR rows whose elements are side by side. */
static __attribute__((noinline)) void row_tile(size_t depth, const REAL *a, size_t a_row, const REAL *b, REAL *c,
                                               size_t c_row, size_t columns, bool add, REAL alpha, const REAL *bias,
                                               struct next *next)
{
    product_tile(MR, depth, a, a_row, 1, b, c, c_row, MR, columns, add, alpha, bias, next);
}

/* Whole vectors: the last one may overlap the one before. */
static void copy_row(const REAL *from, REAL *to, size_t n)
{
    if (n < VL) {
        for (size_t j = 0; j < n; j++) {
            to[j] = from[j];
        }
        return;
    }
    for (size_t j = 0; j < n; j += VL) {
        size_t at = VC_AT_MOST(j, n - VL); /* the last vector may lie over the one before */

        STORE(to + at, LOAD(from + at));
    }
}

/* Rows that are a multiple of this apart fall into the same few sets of a cache. */
#define CLASH (2048 / sizeof(REAL))

/* Where the rows of a are read from: where they lie, or, if their distance would map them to the same sets
 * of a cache, from a padded copy. *step: elements between rows there. */
static const REAL *find_rows(const REAL *a, int64_t row, size_t rows, size_t depth, REAL *copy, size_t *step)
{
    *step = (size_t)row;
    if (*step % CLASH != 0) {
        return a;
    }
    *step = depth + VC_PRODUCT_PADDING;
    for (size_t i = 0; i < rows; i++) {
        copy_row(a + (int64_t)i * row, copy + i * *step, depth);
    }
    return copy;
}

/* Behind the rows from m0 on, in columns from k0 on: rows below, or the first ones of the next part. */
static struct next next_rows(const REAL *a, struct vc_matrix is, size_t m, size_t k, size_t m0, size_t k0, size_t tiles)
{
    bool below = m - m0 > MOST_ROWS;
    size_t m1 = below ? m0 + MOST_ROWS : 0;
    size_t k1 = below ? k0 : VC_AT_MOST(k, k0 + DEPTH);

    return next_of(a + (int64_t)m1 * is.row + (int64_t)k1 * is.column, is.row, is.column, VC_AT_MOST(m - m1, MOST_ROWS),
                   VC_AT_MOST(k - k1, DEPTH), tiles);
}

/* All of c (+)= alpha a b, m x k by k x n: parts of DEPTH outermost, so that a packed part of b is used for
 * all rows; each panel of it is packed where the first rows need it. The bias is added with the last part. scratch:
 * vc_product_scratch(m, n, k) reals. */
static void multiply_add(size_t m, size_t n, size_t k, const REAL *a, struct vc_matrix a_is, const REAL *b,
                         struct vc_matrix b_is, REAL *c, size_t c_row, bool add, REAL alpha, const REAL *bias,
                         REAL *scratch)
{
    bool side_by_side = a_is.column == 1 && a_is.row > 0;
    REAL *packed_b =
        scratch + VC_AT_MOST((m + MR - 1) / MR * MR, MOST_ROWS) * (VC_AT_MOST(k, DEPTH) + VC_PRODUCT_PADDING);

    for (size_t k0 = 0; k0 < k; k0 += DEPTH) {
        size_t depth = VC_AT_MOST(k - k0, DEPTH);

        for (size_t n0 = 0; n0 < n; n0 += MOST_COLUMNS) {
            const REAL *columns = b + (int64_t)k0 * b_is.row + (int64_t)n0 * b_is.column;
            size_t n_columns = VC_AT_MOST(n - n0, MOST_COLUMNS);

            for (size_t m0 = 0; m0 < m; m0 += MOST_ROWS) {
                const REAL *from = a + (int64_t)m0 * a_is.row + (int64_t)k0 * a_is.column;
                size_t rows = VC_AT_MOST(m - m0, MOST_ROWS);
                size_t whole = side_by_side ? rows / MR * MR : 0; /* rows that are not packed */
                size_t tiles = (rows + MR - 1) / MR;
                REAL *packed_a = scratch + whole * (depth + VC_PRODUCT_PADDING);
                size_t step = 0;
                const REAL *read = whole != 0 ? find_rows(from, a_is.row, whole, depth, scratch, &step) : NULL;
                struct next next[2] = {next_rows(a, a_is, m, k, m0, k0, tiles * ((n_columns + NR - 1) / NR))};

                pack_rows(from + (int64_t)whole * a_is.row, a_is.row, a_is.column, rows - whole, depth, packed_a);
                for (size_t j = 0; j < n_columns; j += NR) {
                    size_t here = VC_AT_MOST(n_columns - j, NR);
                    REAL *to = c + m0 * c_row + n0 + j;
                    REAL *panel = packed_b + j * depth;
                    const REAL *last = bias != NULL && k0 + depth == k ? bias + n0 + j : NULL;

                    if (m0 == 0) {
                        pack_columns(columns + (int64_t)j * b_is.column, b_is.column, b_is.row, here, depth, panel);
                        next[1] = next_of(columns + (int64_t)(j + here) * b_is.column, b_is.column, b_is.row,
                                          VC_AT_MOST(n_columns - j - here, NR), depth, tiles);
                    }
                    for (size_t i = 0; i < rows; i += MR) {
                        if (i < whole) {
                            row_tile(depth, read + i * step, step, panel, to + i * c_row, c_row, here, add || k0 != 0,
                                     alpha, last, next);
                        } else {
                            packed_tile(depth, packed_a + (i - whole) * depth, panel, to + i * c_row, c_row,
                                        VC_AT_MOST(rows - i, MR), here, add || k0 != 0, alpha, last, next);
                        }
                    }
                }
            }
        }
    }
}

static void multiply(size_t m, size_t n, size_t k, const REAL *a, struct vc_matrix a_is, const REAL *b,
                     struct vc_matrix b_is, REAL *c, size_t c_row, bool add, REAL alpha, REAL *scratch)
{
    multiply_add(m, n, k, a, a_is, b, b_is, c, c_row, add, alpha, NULL, scratch);
}

_Static_assert(MOST_ROWS % MR == 0 && MOST_COLUMNS % NR == 0, "panels are whole");
_Static_assert(12 % MR == 0 && 32 % NR == 0, "panels are not larger than vc_product_scratch takes them to be");

/* Block = result s, tile (i, j) of it. Pairs of one result are added one after the other. */
LOOP_FN(product)
{
    const struct vc_args_product *args = call->args;
    size_t tiles_n = (size_t)((args->n + args->tile_n - 1) / args->tile_n);
    size_t tiles_m = (size_t)((args->m + args->tile_m - 1) / args->tile_m);
    size_t s = block / (tiles_m * tiles_n);
    size_t i = block / tiles_n % tiles_m * (size_t)args->tile_m;
    size_t j = block % tiles_n * (size_t)args->tile_n;
    REAL *c = (REAL *)call->p[2] + args->c_at[s] + i * (size_t)args->c_row + j;
    REAL *scratch = (REAL *)call->p[3] + worker * (size_t)args->scratch;
    const REAL *bias = call->p[4] != NULL ? (const REAL *)call->p[4] + j : NULL;

    for (uint64_t p = args->first[s]; p < args->first[s + 1]; p++) {
        multiply_add(VC_AT_MOST((size_t)args->m - i, (size_t)args->tile_m),
                     VC_AT_MOST((size_t)args->n - j, (size_t)args->tile_n), (size_t)args->k,
                     (const REAL *)call->p[0] + args->a_at[p] + (int64_t)i * args->a.row, args->a,
                     (const REAL *)call->p[1] + args->b_at[p] + (int64_t)j * args->b.column, args->b, c,
                     (size_t)args->c_row, call->add || p != args->first[s], (REAL)args->alpha,
                     p + 1 == args->first[s + 1] ? bias : NULL, scratch);
    }
}
