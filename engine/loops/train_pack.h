/* train_pack.h - part of train_products.h: operands of products as panels. The panel of `width` rows has, for each k,
 * the rows' elements side by side:
 *
 *     r0: a b c d ...      r1: e f g h ...      r2: i j k l ...      width 3:  a e i  b f j  c g k  d h l ...
 *
 * Rows that lie side by side in memory are copied; rows whose elements do are transposed, VL x VL elements at a time.
 */

/* a[0] b[0] a[1] b[1] ..., of the first half of the lanes and of the second one. */
#if defined(VC_TRAIN_AVX512)
#define LOW_LANES  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_LANES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(VC_TRAIN_AVX2) && !REAL_IS_F64
#define LOW_LANES  0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_LANES 4, 12, 5, 13, 6, 14, 7, 15
#elif defined(VC_TRAIN_AVX2) || !REAL_IS_F64
#define LOW_LANES  0, 4, 1, 5
#define HIGH_LANES 2, 6, 3, 7
#else
#define LOW_LANES  0, 2
#define HIGH_LANES 1, 3
#endif

#if defined(__clang__)
#define LOW(a, b)  __builtin_shufflevector(a, b, LOW_LANES)
#define HIGH(a, b) __builtin_shufflevector(a, b, HIGH_LANES)
#else
typedef WORD order __attribute__((vector_size(sizeof(vec))));

#define LOW(a, b)  __builtin_shuffle(a, b, (order){LOW_LANES})
#define HIGH(a, b) __builtin_shuffle(a, b, (order){HIGH_LANES})
#endif

/* VL elements of each of `rows` rows, `step` apart, become VL times `rows` elements, `width` apart; of these rows
 * `count` are there, the others are 0. */
static inline __attribute__((always_inline)) void pack_block(const REAL *from, int64_t step, size_t count, size_t rows,
                                                             size_t width, REAL *to)
{
    vec x[VL];
    vec y[VL];

    UNROLL
    for (size_t i = 0; i < VL; i++) {
        x[i] = i < rows && i < count ? LOAD(from + (int64_t)i * step) : SPREAD((REAL)0);
    }
    /* Each round puts the halves of the rows between each other; the last one ends with columns. */
    UNROLL
    for (size_t half = VL; half > 1; half /= 2) {
        UNROLL
        for (size_t i = 0; i < VL / 2; i++) {
            y[2 * i] = LOW(x[i], x[i + VL / 2]);
            y[2 * i + 1] = HIGH(x[i], x[i + VL / 2]);
        }
        UNROLL
        for (size_t i = 0; i < VL; i++) {
            x[i] = y[i];
        }
    }
    UNROLL
    for (size_t i = 0; i < VL; i++) {
        if (rows == VL) {
            STORE(to + i * width, x[i]);
        } else {
            memcpy(to + i * width, &x[i], rows * sizeof *to);
        }
    }
}

/* A panel whose rows are `step` apart, with elements side by side. */
static inline __attribute__((always_inline)) void pack_across(const REAL *from, int64_t step, size_t count,
                                                              size_t depth, size_t width, REAL *to)
{
    size_t k = 0;

    for (; k + VL <= depth; k += VL) {
        for (size_t i = 0; i + VL <= width; i += VL) {
            pack_block(from + (int64_t)i * step + k, step, count > i ? count - i : 0, VL, width, to + k * width + i);
        }
        if (width % VL != 0) {
            size_t i = width / VL * VL;

            pack_block(from + (int64_t)i * step + k, step, count > i ? count - i : 0, width % VL, width,
                       to + k * width + i);
        }
    }
    for (; k < depth; k++) {
        for (size_t i = 0; i < width; i++) {
            to[k * width + i] = i < count ? from[(int64_t)i * step + (int64_t)k] : 0;
        }
    }
}

/* `count` rows (or columns) of depth elements, `step` apart, into panels that are `width` wide; those that are missing
 * in the last one are 0. */
static inline __attribute__((always_inline)) void pack_panels(const REAL *from, int64_t step, int64_t next,
                                                              size_t count, size_t depth, size_t width, REAL *to)
{
    for (size_t first = 0; first < count; first += width, to += depth * width) {
        size_t n = VC_AT_MOST(count - first, width);
        const REAL *at = from + (int64_t)first * step;

        if (step == 1 && n == width) {
            for (size_t k = 0; k < depth; k++) {
                memcpy(to + k * width, at + (int64_t)k * next, width * sizeof *to);
            }
        } else if (next == 1) {
            pack_across(at, step, n, depth, width, to);
        } else {
            for (size_t k = 0; k < depth; k++) {
                for (size_t i = 0; i < width; i++) {
                    to[k * width + i] = i < n ? at[(int64_t)i * step + (int64_t)k * next] : 0;
                }
            }
        }
    }
}

/* Rows of a into panels MR high, columns of b into panels NR wide. noinline: the two copies of the code are
 * large. */
static __attribute__((noinline)) void pack_rows(const REAL *from, int64_t step, int64_t next, size_t count,
                                                size_t depth, REAL *to)
{
    pack_panels(from, step, next, count, depth, MR, to);
}

static __attribute__((noinline)) void pack_columns(const REAL *from, int64_t step, int64_t next, size_t count,
                                                   size_t depth, REAL *to)
{
    pack_panels(from, step, next, count, depth, NR, to);
}
