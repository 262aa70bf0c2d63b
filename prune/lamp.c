/* lamp.c - see lamp.h. Bounds are computed in double with a margin for their rounding; what decides in the end are
 * sums that are exact. */
#include "prune/lamp.h"

#include "kernels/arith.h"

#define MARGIN  0x1p-44               /* of bounds: far more than the rounding of what they are computed from */
#define LARGEST 0x1p240               /* magnitudes from here on are refused, and ... */
#define LEAST   0x1p-240              /* ... those below this have the square 0: so no score is too small for f64 */
#define ONE     0x3ff0000000000000ULL /* the bits of 1.0, the largest score */
#define CHUNK   ((size_t)1 << 12) /* squares of so many f32 fit into 64 bits, exponent by exponent; see add_vectors */
#define LANES   8
#define ALWAYS  static inline __attribute__((always_inline))
#define NEAR    20 /* 2 * NEAR + 48 bits of a square's mantissa: at most 89, see add_vectors */

/* ---- squares ---- */

/* The magnitude of a key, exactly. */
static double value_of(const struct vc_lamp *lamp, uint64_t key)
{
    uint32_t bits32 = (uint32_t)key;
    double wide;
    float f;

    if (lamp->type == VC_KEY_U16) {
        return (double)(lamp->dtype == VC_DTYPE_F16 ? vc_f16_to_f32((uint16_t)key) : vc_bf16_to_f32((uint16_t)key));
    }
    if (lamp->type == VC_KEY_F32) {
        memcpy(&f, &bits32, sizeof f);
        return (double)f;
    }
    memcpy(&wide, &key, sizeof wide);
    return wide;
}

/* 0 for magnitudes below LEAST. */
static double square_of(const struct vc_lamp *lamp, uint64_t key)
{
    double x = value_of(lamp, key);

    return x < LEAST ? 0.0 : x * x;
}

/* sum += x * times, exactly: one addition for each bit of `times`. */
static void add_times(struct vc_exact_sum *sum, double x, uint64_t times)
{
    for (int bit = 0; times != 0; bit++, times >>= 1) {
        if ((times & 1) != 0) {
            vc_exact_add(sum, ldexp(x, bit));
        }
    }
}

/* Before a look at the data: nothing is summed yet. */
void vc_lamp_begin(struct vc_lamp *lamp)
{
    vc_exact_clear(&lamp->above);
}

/* The squares of up to CHUNK values, exactly: integers, one sum for each exponent. Takes any values. */
static void add_integers(struct vc_exact_sum *sum, const char *values, size_t n, uint32_t end)
{
    uint64_t squares[256] = {0};

    for (size_t i = 0; i < n; i++) {
        uint32_t key;

        memcpy(&key, values + i * sizeof key, sizeof key);
        key &= VC_F32_ABS_MASK;
        uint64_t mantissa = key >= end ? (key & 0x7fffffu) | (key >> 23 != 0 ? 0x800000u : 0) : 0;
        squares[key >> 23] += mantissa * mantissa;
    }
    for (size_t i = 0; i < 255; i++) { /* 255: not finite, refused before it counts */
        int exponent = 2 * ((i == 0 ? 1 : (int)i) - 150);

        if (squares[i] != 0) {
            vc_exact_add(sum, ldexp((double)(squares[i] >> 32), exponent + 32));
            vc_exact_add(sum, ldexp((double)(squares[i] & 0xffffffffu), exponent));
        }
    }
}

/* Of n magnitudes of f32. */
ALWAYS uint32_t largest_key(const char *values, size_t n)
{
    uint32_t top = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t key;

        memcpy(&key, values + i * sizeof key, sizeof key);
        key &= VC_F32_ABS_MASK;
        top = key > top ? key : top;
    }
    return top;
}

/* The sums of one chunk by lanes, in vectors: of what each square has above `split`'s last bit, and of the rest. */
struct lanes {
    double high[LANES];
    double rest[LANES];
};

/* LANES sums at a time, so that compilers make vectors of them. A square is split in two numbers that are added without
 * error: `high` has its upper bits only. Values below `end` count as 0, by a mask in place of a branch. */
ALWAYS void add_lanes(struct lanes *sums, const char *values, size_t n, uint32_t end, double split)
{
    for (size_t i = 0; i < n; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            uint32_t key;
            float x;

            memcpy(&key, values + (i + l) * sizeof key, sizeof key);
            key &= VC_F32_ABS_MASK;
            key &= -(uint32_t)((int32_t)key > (int32_t)(end - 1)); /* end is 1 to 2^31 */
            memcpy(&x, &key, sizeof x);
            double square = (double)x * (double)x;
            double high = (square + split) - split;
            sums->high[l] += high;
            sums->rest[l] += square - high;
        }
    }
}

/* The squares of up to CHUNK values, exactly, by vectors; returns false, and adds nothing, where this way is not exact: weights that
 * are not finite, or between `end` and the largest more than NEAR binades.
 *
 * Squares lie below 2^top and are multiples of 2^low, both even. `split` is 1.5 * 2^(top + 8), so (x^2 + split) - split is x^2 rounded
 * to a multiple of u = 2^(top - 44):
 *
 *     bit of x^2    top ............ top-44 ............... low
 *                    |---- high ------|-------- rest ------|        |rest| <= u / 2
 *
 * Each of 8 lanes adds at most CHUNK / 8 = 2^9 of them: sums of `high` are multiples of u below 2^(top + 9) = 2^53 u, sums of `rest` are
 * multiples of 2^low of at most 2^(9 + top - 45), which is 2^53 * 2^low or less for top - low <= 89. No addition rounds. */
ALWAYS bool add_vectors(struct vc_exact_sum *sum, const char *values, size_t n, uint32_t end)
{
    struct lanes sums = {.high = {0}};
    uint32_t largest = largest_key(values, n);
    /* exponents of the largest and of the smallest magnitude that counts */
    int last = (int)(largest >> 23);
    int first = end >> 23 == 0 ? 1 : (int)(end >> 23);
    size_t whole = n - n % LANES;

    if (largest >= VC_F32_INF_BITS || last - first > NEAR) {
        return false;
    }
    double split = ldexp(1.5, 2 * (last - 126) + 8);
    add_lanes(&sums, values, whole, end, split);
    /* the last lanes, filled up with zeros */
    if (whole < n) {
        char padded[LANES * sizeof(float)] = {0};

        memcpy(padded, values + whole * sizeof(float), (n - whole) * sizeof(float));
        add_lanes(&sums, padded, LANES, end, split);
    }
    for (size_t l = 0; l < LANES; l++) {
        vc_exact_add(sum, sums.high[l]);
        vc_exact_add(sum, sums.rest[l]);
    }
    return true;
}

/* All squares of a tile of f32. */
ALWAYS void add_f32(struct vc_exact_sum *sum, const char *values, size_t n, uint32_t end)
{
    for (size_t i = 0; i < n; i += CHUNK) {
        const char *chunk = values + i * sizeof(float);
        size_t count = n - i < CHUNK ? n - i : CHUNK;

        if (!add_vectors(sum, chunk, count, end)) {
            add_integers(sum, chunk, count, end);
        }
    }
}

/* The same loops for registers of any width: no addition rounds. */
static void add_f32_base(struct vc_exact_sum *sum, const char *values, size_t n, uint32_t end)
{
    add_f32(sum, values, n, end);
}

#ifdef __x86_64__
VC_TARGET("avx2") static void add_f32_avx2(struct vc_exact_sum *sum, const char *values, size_t n, uint32_t end)
{
    add_f32(sum, values, n, end);
}

VC_TARGET("avx512f,avx512vl,avx512bw,avx512dq")
static void add_f32_avx512(struct vc_exact_sum *sum, const char *values, size_t n, uint32_t end)
{
    add_f32(sum, values, n, end);
}
#else
#define add_f32_avx2   add_f32_base
#define add_f32_avx512 add_f32_base
#endif

/* The squares of a tile, for keys of f32 and f64; those of 16 bits are few enough to be counted. Each tile has a sum of
 * its own, and the mutex is held for the merge alone. */
void vc_lamp_add(struct vc_lamp *lamp, pthread_mutex_t *mutex, const void *values, size_t n)
{
    struct vc_exact_sum sum;

    if (lamp->end == 0 || lamp->type == VC_KEY_U16) {
        return;
    }
    vc_exact_clear(&sum);
    if (lamp->type == VC_KEY_F32 && lamp->level == VC_CPU_AVX512) {
        add_f32_avx512(&sum, values, n, (uint32_t)lamp->end);
    } else if (lamp->type == VC_KEY_F32 && lamp->level == VC_CPU_AVX2) {
        add_f32_avx2(&sum, values, n, (uint32_t)lamp->end);
    } else if (lamp->type == VC_KEY_F32) {
        add_f32_base(&sum, values, n, (uint32_t)lamp->end);
    } else {
        for (size_t i = 0; i < n; i++) {
            uint64_t key;

            memcpy(&key, (const char *)values + i * sizeof key, sizeof key);
            key &= 0x7fffffffffffffffULL;
            if (key >= lamp->end) {
                vc_exact_add(&sum, square_of(lamp, key));
            }
        }
    }
    (void)pthread_mutex_lock(mutex);
    vc_exact_merge(&lamp->above, &sum);
    (void)pthread_mutex_unlock(mutex);
}

/* ---- the search ---- */

/* Where count_bound stands on its way down the list of bins. */
struct walk {
    size_t bin;         /* it looks at list[bin - 1] next */
    uint64_t before;    /* weights up to that bin, its own included */
    double above, lost; /* squares above it, and what their sum has lost by rounding: it is added compensated */
};

/* A tensor in it, whose bins are those of the last round. */
struct place {
    const struct vc_lamp_keys *of;
    size_t top;                /* bins of keys->list from here on stay ... */
    struct vc_exact_sum above; /* ... and this is the sum of their squares and of those above all bins; where bins are
                                  single keys */
    uint64_t before_top;       /* weights before bin `top` in the order */
    uint64_t low, high;        /* at least so many of its weights go, and at most: before limits */
    struct walk start, stop;   /* of count_bound: where it begins in a search, and where it ended last */
};

/* It still takes part in the search. */
static bool is_open(const struct vc_lamp_keys *tensor)
{
    return !tensor->keys->done && !tensor->keys->own;
}

/* The tensor has its answer, as far as scores decide it: so many go. What is left is counting. */
static void fix(struct vc_ctx *ctx, const struct vc_lamp_keys *tensor, uint64_t position, uint64_t *k)
{
    tensor->keys->limit = position < tensor->keys->limit ? position : tensor->keys->limit;
    tensor->keys->own = true;
    tensor->lamp->waits = false;
    *k -= tensor->keys->limit;
    vc_keys_narrow(ctx, tensor->keys);
}

/* A bound of the score of a bin's j-th weight from its end: squares of the bin lie between lo and hi, those above it
 * add up to `above` (at least, for upper bounds; at most, for lower ones). */
static double bound_of(double lo, double hi, double above, uint64_t j, bool upper)
{
    double score;

    if (!upper) {
        return lo == 0.0 ? 0.0 : lo / ((above + (double)(j - 1) * hi + lo) * (1.0 + MARGIN));
    }
    score = hi == 0.0 ? 0.0 : hi / ((above + (double)j * hi) * (1.0 - MARGIN)); /* those behind it are no smaller */
    return score < 1.0 ? score : 1.0;
}

/* The walk down all bins. */
static struct walk walk_all(const struct place *p)
{
    return (struct walk){.bin = p->top, .before = p->before_top, .above = vc_exact_value(&p->above)};
}

/* Weights whose scores are at most t: at least so many if `upper`, else at most so many. The walk ends at the first bin
 * that has such a weight; for smaller t it never ends earlier. */
static uint64_t count_bound(struct place *p, double t, bool upper)
{
    const struct vc_keys *keys = p->of->keys;
    uint64_t width = (uint64_t)1 << keys->range.shift;
    struct walk w = p->start;
    uint64_t j0 = 0; /* of the bin where it ends: scores of the last j0 are above t ... */

    for (; w.bin > 0; w.bin--) {
        uint64_t entry = keys->list[w.bin - 1];
        uint64_t first = keys->range.first + ((uint64_t)vc_keys_bin(entry) << keys->range.shift);
        uint64_t count = vc_keys_count(entry);
        double lo = square_of(p->of->lamp, first);
        double hi = square_of(p->of->lamp, first + width - 1);

        if (bound_of(lo, hi, w.above, count, upper) <= t) {
            uint64_t j1 = count;

            while (j1 - j0 > 1) { /* ... and that of the j1-th from the end is not */
                uint64_t j = j0 + (j1 - j0) / 2;

                if (bound_of(lo, hi, w.above, j, upper) <= t) {
                    j1 = j;
                } else {
                    j0 = j;
                }
            }
            break;
        }
        w.before -= count;
        double term = (double)count * (upper ? lo : hi) - w.lost;
        double sum = w.above + term;
        w.lost = sum - w.above - term;
        w.above = sum;
    }
    p->stop = w;
    return w.before - j0;
}

/* The score of the j-th weight from the end of a bin of equal squares: square / (above + j * square). above is
 * exact. */
static double score_of(const struct vc_exact_sum *above, double square, uint64_t j)
{
    struct vc_exact_sum sum = *above;

    if (square == 0.0) {
        return 0.0;
    }
    add_times(&sum, square, j);
    return square / vc_exact_value(&sum);
}

/* Weights whose scores are at most t, where bins are single keys. */
static uint64_t count_exact(const struct place *p, double t)
{
    const struct vc_keys *keys = p->of->keys;
    struct vc_exact_sum above = p->above;
    uint64_t before = p->before_top;

    for (size_t i = p->top; i-- > 0;) {
        double square = square_of(p->of->lamp, keys->range.first + vc_keys_bin(keys->list[i]));
        uint64_t count = vc_keys_count(keys->list[i]);
        uint64_t j0 = 0;
        uint64_t j1 = count;

        if (score_of(&above, square, count) <= t) {
            while (j1 - j0 > 1) {
                uint64_t j = j0 + (j1 - j0) / 2;

                if (score_of(&above, square, j) <= t) {
                    j1 = j;
                } else {
                    j0 = j;
                }
            }
            return before - j0;
        }
        before -= count;
        add_times(&above, square, count);
    }
    return before;
}

enum counting { AT_LEAST, AT_MOST, EXACTLY };

/* Keys of one tensor below the threshold t, as exactly as `how` asks. */
static uint64_t count(struct place *p, double t, enum counting how)
{
    return how == EXACTLY ? count_exact(p, t) : count_bound(p, t, how == AT_LEAST);
}

/* Weights whose scores are below that of these bits; those before all bins go in any case. */
static uint64_t count_below(struct place *p, uint64_t bits, enum counting how)
{
    return bits == 0 ? p->of->keys->below : count(p, vc_bits_f64(bits - 1), how);
}

/* The smallest score, as bits from `from` to `to`, up to which k of all weights go. Once the score is at most `middle`,
 * walks begin where they ended there. */
static uint64_t find_score(struct place *places, size_t n, uint64_t k, uint64_t from, uint64_t to, enum counting how)
{
    while (from < to) {
        uint64_t middle = from + (to - from) / 2;
        uint64_t total = 0;
        size_t looked = 0;

        for (; looked < n && total < k; looked++) {
            struct place *p = &places[looked];
            uint64_t found = count(p, vc_bits_f64(middle), how);

            total += found < p->of->keys->limit ? found : p->of->keys->limit;
        }
        if (total >= k) {
            to = middle;
            for (size_t i = 0; i < looked && how != EXACTLY; i++) {
                places[i].start = places[i].stop;
            }
        } else {
            from = middle + 1;
        }
    }
    for (size_t i = 0; i < n; i++) {
        places[i].start = walk_all(&places[i]);
    }
    return from;
}

/* The next round counts the bins between p->low and p->high only, as small as they can be. False: they would be no
 * smaller, or are single keys already. */
static bool look_closer(struct vc_ctx *ctx, const struct place *p)
{
    struct vc_keys *keys = p->of->keys;
    uint64_t before = keys->below;
    unsigned shift = 0;
    uint64_t n_keys;
    size_t first = 0;
    size_t last;

    while (before + vc_keys_count(keys->list[first]) <= p->low) {
        before += vc_keys_count(keys->list[first++]);
    }
    for (last = first; before + vc_keys_count(keys->list[last]) < p->high; last++) {
        before += vc_keys_count(keys->list[last]);
    }
    n_keys = (uint64_t)(vc_keys_bin(keys->list[last]) - vc_keys_bin(keys->list[first]) + 1) << keys->range.shift;
    while (n_keys >> shift > VC_KEY_BINS) {
        shift++;
    }
    if (shift >= keys->range.shift) {
        return false;
    }
    vc_keys_enter(ctx, keys, first, n_keys, shift);
    p->of->lamp->end = keys->range.first + n_keys;
    return true;
}

/* A place for each tensor that is still in the search; *k becomes what their limits allow. */
static size_t list_places(const struct vc_lamp_keys *tensors, size_t n, struct place *places, uint64_t *k)
{
    uint64_t most = 0;
    size_t n_places = 0;

    for (size_t t = 0; t < n; t++) {
        const struct vc_keys *keys = tensors[t].keys;
        struct place *p = &places[n_places];

        if (!is_open(&tensors[t])) {
            continue;
        }
        *p = (struct place){.of = &tensors[t], .top = keys->n_list, .above = tensors[t].lamp->above};
        p->before_top = keys->below;
        for (size_t i = 0; i < keys->n_list; i++) {
            p->before_top += vc_keys_count(keys->list[i]);
        }
        p->start = walk_all(p);
        most += keys->limit;
        n_places++;
    }
    *k = *k < most ? *k : most;
    return n_places;
}

/* What stays for sure is added once. Bins are single keys. */
static void add_rest(struct place *p)
{
    const struct vc_keys *keys = p->of->keys;

    while (p->top > 0 && p->before_top - vc_keys_count(keys->list[p->top - 1]) >= p->high) {
        uint64_t entry = keys->list[--p->top];

        p->before_top -= vc_keys_count(entry);
        add_times(&p->above, square_of(p->of->lamp, keys->range.first + vc_keys_bin(entry)), vc_keys_count(entry));
    }
}

/* From `from` to `to` lies the score up to which k weights go, and `how` counts exactly there. */
static void settle(struct vc_ctx *ctx, struct place *places, size_t n, uint64_t from, uint64_t to, enum counting how,
                   uint64_t *k)
{
    uint64_t left = *k;
    uint64_t score = find_score(places, n, *k, from, to, how);

    for (size_t i = 0; i < n; i++) {
        uint64_t limit = places[i].of->keys->limit;

        places[i].low = count_below(&places[i], score, how);
        places[i].high = count(&places[i], vc_bits_f64(score), how);
        places[i].low = places[i].low < limit ? places[i].low : limit;
        places[i].high = places[i].high < limit ? places[i].high : limit;
        left -= places[i].low < left ? places[i].low : left;
    }
    for (size_t i = 0; i < n; i++) { /* of equal scores those of the first tensor go first */
        uint64_t equal = places[i].high - places[i].low;
        uint64_t go = equal < left ? equal : left;

        left -= go;
        fix(ctx, places[i].of, places[i].low + go, k);
    }
}

/* Bins whose squares, or their sum, f64 does not hold. */
static enum vc_status check_large(struct vc_ctx *ctx, const struct vc_lamp_keys *tensor)
{
    const struct vc_keys *keys = tensor->keys;
    uint64_t last = keys->n_list == 0 ? 0 : (uint64_t)vc_keys_bin(keys->list[keys->n_list - 1]) << keys->range.shift;

    return value_of(tensor->lamp, keys->range.first + last) < LARGEST
               ? VC_OK
               : vc_fail(ctx, VC_E_UNSUPPORTED,
                         "%s: has weights of 2^240 and more, whose squares are too large for scores (%s lamp); %s "
                         "tensor has none",
                         tensor->name, vc_option(ctx, "score"), vc_option(ctx, "scope"));
}

/* Bounds of the score up to which k weights go, and of what goes of each tensor. The places of those that are still
 * open move to the front; the others are done, or have only to be counted. */
static size_t narrow_places(struct vc_ctx *ctx, struct place *places, size_t n, uint64_t *from, uint64_t *to,
                            uint64_t *k)
{
    size_t n_open = 0;

    *from = find_score(places, n, *k, 0, ONE, AT_MOST);
    *to = find_score(places, n, *k, *from, ONE, AT_LEAST);
    for (size_t i = 0; i < n; i++) {
        struct place *p = &places[i];

        p->low = *k == 0 ? p->of->keys->below : count_below(p, *from, AT_LEAST);
        p->high = *k == 0 ? p->low : count(p, vc_bits_f64(*to), AT_MOST);
    }
    for (size_t i = 0; i < n; i++) {
        if (places[i].low >= places[i].of->keys->limit || places[i].low >= places[i].high) {
            fix(ctx, places[i].of, places[i].low, k);
        } else {
            places[n_open++] = places[i];
        }
    }
    return n_open;
}

/* Whether the bins tell exactly which scores are 0. */
static bool zeros_are_known(struct place *places, size_t n)
{
    size_t i = 0;

    while (i < n && count(&places[i], 0.0, AT_LEAST) == count(&places[i], 0.0, AT_MOST)) {
        i++;
    }
    return i == n;
}

/* One round: ranges of all tensors are narrowed together, since the threshold is one of scores. It ends with a cut for
 * every tensor, or with some tensors that look at their keys more closely in the next round. */
enum vc_status vc_lamp_narrow(struct vc_ctx *ctx, const struct vc_lamp_keys *tensors, size_t n, uint64_t *k)
{
    VC_SCOPED struct place *places = vc_alloc_array(ctx, VC_TAG_SCRATCH, n, sizeof *places);
    bool closer = false;
    bool single = true;
    uint64_t from, to;

    VC_CALL_ALLOC(places);
    for (size_t i = 0; i < n; i++) {
        VC_CALL(check_large(ctx, &tensors[i]));
        if (tensors[i].keys->own && !tensors[i].keys->done) {
            vc_keys_narrow(ctx, tensors[i].keys);
        }
    }
    size_t n_open = list_places(tensors, n, places, k);
    n_open = narrow_places(ctx, places, n_open, &from, &to, k);
    if (to == 0 && zeros_are_known(places, n_open)) {
        settle(ctx, places, n_open, 0, 0, AT_LEAST, k);
        return VC_OK;
    }
    for (size_t i = 0; i < n_open; i++) {
        places[i].of->lamp->waits = !look_closer(ctx, &places[i]);
        closer = closer || !places[i].of->lamp->waits;
        single = single && places[i].of->keys->range.shift == 0;
    }
    if (!closer && single) {
        for (size_t i = 0; i < n_open; i++) {
            add_rest(&places[i]);
        }
        settle(ctx, places, n_open, from, to, EXACTLY, k);
    } else if (!closer) {
        return vc_fail(ctx, VC_E_INTERNAL, "the scores of %s are not told apart", places[0].of->name);
    }
    return VC_OK;
}
