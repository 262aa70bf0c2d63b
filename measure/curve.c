/* curve.c - see curve.h.
 *
 * How the bits of a magnitude, without its sign, are cut; the order of these bits as integers is that of
 * the values:
 *
 *     f16, bf16    15 bits: bin (one magnitude each)
 *     f32          16 bits: bin   15 bits: part                     a part is one magnitude
 *     f64          16 bits: bin   15 bits: part    32 bits: rest    a part is a range
 */
#include "measure/curve.h"

#include "kernels/arith.h"
#include "kernels/kernels.h"
#include "passes/scores/keys.h"

#define BINS  ((size_t)1 << 16)
#define PARTS ((size_t)1 << 15) /* of a bin */
#define LANES 4                 /* sums that are added to in turn, so that one does not wait for the other */

/* How the bits of a magnitude are cut: bin, part, rest. */
struct cut_bits {
    unsigned bin_shift, part_shift;
};

/* 16-bit floats: the bins say everything, and the second walk is left out. */
static bool is_short(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16;
}

static struct cut_bits bits_of(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F64   ? (struct cut_bits){47, 32}
           : dtype == VC_DTYPE_F32 ? (struct cut_bits){15, 0}
                                   : (struct cut_bits){0, 0};
}

/* In two terms, as n * percent could overflow. */
uint64_t vc_curve_count_of(uint64_t n, unsigned percent)
{
    return n / 100 * percent + n % 100 * percent / 100;
}

size_t vc_curve_state_bytes(enum vc_dtype dtype, uint64_t n, size_t n_points)
{
    size_t parts = is_short(dtype) ? 0 : n_points * PARTS * sizeof(uint64_t);
    size_t counts = n <= VC_CURVE_FEW ? (size_t)n * sizeof(uint64_t) : BINS * sizeof(uint64_t) + parts;

    return BINS + counts + (n_points + 1) * sizeof(struct vc_exact_sum);
}

size_t vc_curve_scratch_bytes(enum vc_dtype dtype, size_t n)
{
    size_t keys = n * (dtype == VC_DTYPE_F64 ? sizeof(uint64_t) : sizeof(uint32_t));
    size_t bins = BINS * sizeof(uint32_t);

    return keys > bins ? keys : bins;
}

/* May be called again for a curve that has begun. */
enum vc_status vc_curve_begin(struct vc_ctx *ctx, struct vc_curve *c)
{
    if (c->has_mutex) {
        return VC_OK;
    }
    VC_REFUSE_IF(pthread_mutex_init(&c->mutex, NULL) != 0, ctx, VC_E_NOMEM, "cannot create a mutex");
    c->has_mutex = true;
    if (c->n != 0 && c->n <= VC_CURVE_FEW) {
        VC_CALL(VC_ARRAY(ctx, VC_TAG_SCRATCH, c->few, (size_t)c->n));
    } else {
        VC_CALL(VC_ZEROS(ctx, VC_TAG_SCRATCH, c->bins, BINS));
    }
    VC_CALL(VC_ARRAY(ctx, VC_TAG_SCRATCH, c->classes, BINS));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_SCRATCH, c->segments, c->n_points + 1));
    for (size_t i = 0; i <= c->n_points; i++) {
        vc_exact_clear(&c->segments[i]);
    }
    return VC_OK;
}

/* ---- the first walk ---- */

/* Each thread counts its tile in 32-bit bins of its own scratch and adds them under the lock, so the lock
 * is taken once for a tile. */
enum vc_status vc_curve_count(struct vc_ctx *ctx, struct vc_curve *c, const void *values, size_t n, void *scratch)
{
    const struct vc_kernels *k = vc_kernels_get(ctx);
    const struct vc_bin_range range = {.shift = bits_of(c->dtype).bin_shift, .n_bins = BINS};
    uint32_t *bins = scratch;

    if (c->few != NULL) {
        (void)pthread_mutex_lock(&c->mutex);
        for (size_t i = 0; i < n; i++) {
            c->few[c->n_few++] = vc_key_at(8 * (unsigned)vc_dtype_size(c->dtype) - 1, values, i);
        }
        (void)pthread_mutex_unlock(&c->mutex);
        return VC_OK;
    }
    memset(bins, 0, BINS * sizeof *bins);
    if (is_short(c->dtype)) {
        VC_KERNEL_CALL(k->magnitude_bins_u16(values, n, bins));
    } else if (c->dtype == VC_DTYPE_F32) {
        VC_KERNEL_CALL(k->magnitude_bins_f32(values, n, &range, bins));
    } else {
        VC_KERNEL_CALL(k->magnitude_bins_f64(values, n, &range, bins));
    }
    (void)pthread_mutex_lock(&c->mutex);
    for (size_t i = 0; i < BINS; i++) {
        c->bins[i] += bins[i];
    }
    (void)pthread_mutex_unlock(&c->mutex);
    return VC_OK;
}

/* Goes on to the bin of the k-th smallest one, with the number of those in bins before it. */
static void go_to_bin(const struct vc_curve *c, uint64_t k, size_t *bin, uint64_t *below)
{
    unsigned shift = bits_of(c->dtype).bin_shift;

    if (c->few != NULL) {
        *bin = (size_t)(c->few[k] >> shift);
        while (c->few[*below] >> shift < *bin) {
            ++*below;
        }
        return;
    }
    while (*bin + 1 < BINS && *below + c->bins[*bin] <= k) {
        *below += c->bins[(*bin)++];
    }
}

/* The bins that hold the k-th smallest ones, one mark for each. */
static void find_marks(struct vc_curve *c)
{
    uint64_t below = 0;
    size_t bin = 0;

    c->n_marks = 0;
    for (size_t p = 0; p < c->n_points; p++) {
        go_to_bin(c, c->k[p], &bin, &below);
        if (c->n_marks == 0 || c->marks[c->n_marks - 1].bin != bin) {
            c->marks[c->n_marks++] = (struct vc_curve_mark){.bin = bin, .table = SIZE_MAX};
        }
        struct vc_curve_mark *mark = &c->marks[c->n_marks - 1];
        c->mark_of[p] = c->n_marks - 1;
        c->need[p] = c->k[p] - below;
        if (c->need[p] != 0 && mark->table == SIZE_MAX) {
            mark->table = c->n_tables++;
        }
    }
}

/* Makes the class of every bin, which the second walk looks up for each value. With marks in the bins 5 and
 * 9:
 *
 *     bin       0 .. 4     5          6 .. 8     9          10 ..
 *     class     0          1          2          3          4
 *               segment 0  mark 0     segment 1  mark 1     segment 2
 *
 * A mark of which all stays, with nothing to count, belongs to the segment behind it. */
enum vc_status vc_curve_cut(struct vc_ctx *ctx, struct vc_curve *c)
{
    size_t bin = 0;

    if (c->few != NULL) {
        vc_keys_sort(c->few, c->n_few);
    }
    c->n_tables = 0;
    find_marks(c);
    for (size_t m = 0; m < c->n_marks; m++) {
        size_t end = c->marks[m].bin;

        memset(c->classes + bin, (int)(2 * m), end - bin);
        c->classes[end] = (uint8_t)(2 * m + (c->marks[m].table != SIZE_MAX ? 1 : 2));
        bin = end + 1;
    }
    memset(c->classes + bin, (int)(2 * c->n_marks), BINS - bin);
    if (!is_short(c->dtype) && c->n_tables != 0 && c->few == NULL) {
        c->parts = vc_calloc_array(ctx, VC_TAG_SCRATCH, c->n_tables * PARTS, sizeof *c->parts);
        return c->parts == NULL ? VC_E_NOMEM : VC_OK;
    }
    return VC_OK;
}

/* ---- the second walk ---- */

/* Sums of squares of the tile by segment; the keys whose bins have parts go to `keys`. Returns how many. */
static size_t sum_f32(const struct vc_curve *c, const unsigned char *values, size_t n, double *sums, uint32_t *keys,
                      uint64_t *zeros)
{
    size_t n_keys = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t key;
        float x;
        unsigned class;

        memcpy(&key, values + i * sizeof key, sizeof key);
        memcpy(&x, &key, sizeof x);
        key &= VC_F32_ABS_MASK;
        *zeros += key == 0;
        class = c->classes[key >> 15];
        if ((class & 1u) != 0) {
            keys[n_keys++] = key;
        } else {
            sums[(class / 2) * LANES + i % LANES] += (double)x * (double)x;
        }
    }
    return n_keys;
}

/* The same for f64. */
static size_t sum_f64(const struct vc_curve *c, const unsigned char *values, size_t n, double *sums, uint64_t *keys,
                      uint64_t *zeros)
{
    size_t n_keys = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t key;
        double x;
        unsigned class;

        memcpy(&key, values + i * sizeof key, sizeof key);
        memcpy(&x, &key, sizeof x);
        key &= 0x7fffffffffffffffULL;
        *zeros += key == 0;
        class = c->classes[key >> 47];
        if ((class & 1u) != 0) {
            keys[n_keys++] = key;
        } else {
            sums[(class / 2) * LANES + i % LANES] += x * x;
        }
    }
    return n_keys;
}

static void add_part(struct vc_curve *c, uint64_t key, struct cut_bits bits)
{
    const struct vc_curve_mark *mark = &c->marks[c->classes[key >> bits.bin_shift] / 2];

    c->parts[mark->table * PARTS + (key >> bits.part_shift) % PARTS]++;
}

/* The second walk over a tensor's values: sums between the marks that the first one chose. Types of 16 bits
 * have no second walk, since their counts say everything. Sums of a tile are made without the lock and
 * added exactly, so that the order of tiles does not matter. */
void vc_curve_sum(struct vc_curve *c, const void *values, size_t n, void *scratch)
{
    const struct cut_bits bits = bits_of(c->dtype);
    double sums[(VC_CURVE_POINTS + 1) * LANES] = {0.0};
    uint64_t zeros = 0;

    if (is_short(c->dtype)) {
        return;
    }
    size_t n_keys = c->dtype == VC_DTYPE_F64 ? sum_f64(c, values, n, sums, scratch, &zeros)
                                             : sum_f32(c, values, n, sums, scratch, &zeros);
    (void)pthread_mutex_lock(&c->mutex);
    for (size_t i = 0; c->few == NULL && i < n_keys; i++) {
        add_part(c, c->dtype == VC_DTYPE_F64 ? ((const uint64_t *)scratch)[i] : ((const uint32_t *)scratch)[i], bits);
    }
    for (size_t i = 0; i < (c->n_marks + 1) * LANES; i++) {
        vc_exact_add(&c->segments[i / LANES], sums[i]);
    }
    c->zeros += zeros;
    (void)pthread_mutex_unlock(&c->mutex);
}

/* ---- the end ---- */

/* The value of part `part` of the mark's bin; of f64 the middle of it, but for the one that has zero. */
static double part_value(const struct vc_curve *c, const struct vc_curve_mark *mark, size_t part)
{
    const struct cut_bits bits = bits_of(c->dtype);
    uint64_t key = (uint64_t)mark->bin << bits.bin_shift | (uint64_t)part << bits.part_shift;
    uint32_t narrow = (uint32_t)key;
    double d;
    float f;

    if (c->dtype == VC_DTYPE_F64) {
        key |= key != 0 ? (uint64_t)1 << (bits.part_shift - 1) : 0;
        memcpy(&d, &key, sizeof d);
        return d;
    }
    memcpy(&f, &narrow, sizeof f);
    return (double)f;
}

/* Sum of squares of the `need` smallest of the mark's bin; UINT64_MAX: of all. */
static double sum_parts(const struct vc_curve *c, const struct vc_curve_mark *mark, uint64_t need)
{
    const struct cut_bits bits = bits_of(c->dtype);
    double sum = 0.0;
    size_t i = 0;

    if (c->few != NULL && mark->table != SIZE_MAX) { /* equal ones follow each other */
        while (c->few[i] >> bits.bin_shift < mark->bin) {
            i++;
        }
        while (need != 0 && i < c->n_few && c->few[i] >> bits.bin_shift == mark->bin) {
            size_t part = (size_t)(c->few[i] >> bits.part_shift) % PARTS;
            size_t end = i + 1;
            double x = part_value(c, mark, part);

            while (end < c->n_few && c->few[end] >> bits.part_shift == c->few[i] >> bits.part_shift) {
                end++;
            }
            uint64_t count = vc_min_u64(end - i, need);
            sum += (double)count * (x * x);
            need -= need == UINT64_MAX ? 0 : count;
            i = end;
        }
        return sum;
    }
    for (; mark->table != SIZE_MAX && need != 0 && i < PARTS; i++) {
        uint64_t count = vc_min_u64(c->parts[mark->table * PARTS + i], need);
        double x = count != 0 ? part_value(c, mark, i) : 0.0;

        sum += (double)count * (x * x);
        need -= need == UINT64_MAX ? 0 : count;
    }
    return sum;
}

/* Sums of squares up to each point: whole segments and marks below it, and of its own mark the smallest
 * parts that go. Marks are in rising order, and so are the points. */
static void finish_long(struct vc_curve *c)
{
    double before = 0.0; /* the mark */
    size_t p = 0;

    for (size_t m = 0; m <= c->n_marks; m++) {
        before += vc_exact_value(&c->segments[m]);
        if (m == c->n_marks) {
            break;
        }
        for (; p < c->n_points && c->mark_of[p] == m; p++) {
            c->sum_e2[p] = before + sum_parts(c, &c->marks[m], c->need[p]);
        }
        before += sum_parts(c, &c->marks[m], UINT64_MAX);
    }
    c->sum_x2 = before;
}

/* Of a bin of a type of 16 bits, which is one magnitude; of few magnitudes the next ones from *at on. */
static uint64_t short_count(const struct vc_curve *c, size_t bin, size_t *at)
{
    size_t first = *at;

    if (c->few == NULL) {
        return c->bins[bin];
    }
    while (*at < c->n_few && c->few[*at] == bin) {
        ++*at;
    }
    return *at - first;
}

/* Every bin is one magnitude, so the counts of the first walk give all sums. Half of the bins are enough:
 * the upper half would be the sign. */
static void finish_short(struct vc_curve *c)
{
    double before = 0.0; /* the bin */
    size_t p = 0;
    size_t at = 0;

    for (size_t bin = 0; bin < BINS / 2 && (c->few == NULL || at < c->n_few); bin++) {
        bin = c->few != NULL ? (size_t)c->few[at] : bin;
        uint64_t count = short_count(c, bin, &at);
        double x = (double)(c->dtype == VC_DTYPE_F16 ? vc_f16_to_f32((uint16_t)bin) : vc_bf16_to_f32((uint16_t)bin));

        for (; p < c->n_points && c->marks[c->mark_of[p]].bin == bin; p++) {
            c->sum_e2[p] = before + (double)c->need[p] * (x * x);
        }
        before += count != 0 ? (double)count * (x * x) : 0.0;
        c->zeros += bin == 0 ? count : 0;
    }
    c->sum_x2 = before;
}

/* Makes the sums if both walks were complete. After a failure it only frees. */
void vc_curve_end(struct vc_ctx *ctx, struct vc_curve *c)
{
    if (c->n_marks != 0 && (c->parts != NULL || c->few != NULL || c->n_tables == 0 || is_short(c->dtype))) {
        (is_short(c->dtype) ? finish_short : finish_long)(c);
    }
    c->n_marks = 0;
    VC_FREE_ALL(ctx, c->bins, c->few, c->classes, c->parts, c->segments);
    c->bins = NULL;
    c->few = NULL;
    c->classes = NULL;
    c->parts = NULL;
    c->segments = NULL;
    if (c->has_mutex) {
        (void)pthread_mutex_destroy(&c->mutex);
        c->has_mutex = false;
    }
}
