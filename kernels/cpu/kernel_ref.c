/* kernel_ref.c - the definition of every kernel but those for blocks (kernel_ref_blocks.c): one plain loop each, in
 * the order of the contract (kernels.h), with the arithmetic of arith.h.
 *
 * Written to be read, not to be fast; every other variant is compared with these bit for bit (tests/kernelcheck). It
 * is also the lowest level that runs: VC_CPU_MASK=ref. Knows nothing of processors; built without vectorization. */
#include "core/base/checked.h"
#include "kernels/arith.h"
#include "kernels/cpu/access.h"
#include "kernels/cpu/variants.h"

#define LANES 64 /* of the tree of sums */

/* The sum of one chunk so far, in 64 lanes; the tree and its reasons are in kernels.h. All zeros to begin with. */
struct tree {
    double lane[LANES];
};

/* Adds v, which belongs to element number index_in_chunk; calls come in ascending order. */
static void tree_add(struct tree *tree, size_t index_in_chunk, double v)
{
    tree->lane[index_in_chunk % LANES] += v;
}

static int finite32(float x)
{
    return vc_f32_magnitude(x) < VC_F32_INF_BITS;
}

static int finite64(double x)
{
    return (vc_f64_bits(x) & 0x7fffffffffffffffu) < 0x7ff0000000000000u;
}

static double magnitude64(double x)
{
    return vc_bits_f64(vc_f64_bits(x) & 0x7fffffffffffffffu);
}

/* Channel of element i of a tile. */
static size_t channel_of(const struct vc_axis_map *map, size_t i)
{
    return (size_t)((map->first + i) / map->inner % map->n_channels);
}

/* ---- absmax ---- */

/* g walks over groups in row order; the last group of a row may be short. */
int vc_absmax_rows_ref(const float *x, size_t n_rows, size_t row_len, size_t group, uint32_t *bits)
{
    size_t g = 0;

    for (size_t row = 0; row < n_rows; row++) {
        for (size_t first = 0; first < row_len; first += vc_min_size(group, row_len - first), g++) {
            uint32_t most = 0;

            for (size_t i = first; i < first + vc_min_size(group, row_len - first); i++) {
                uint32_t m = vc_f32_magnitude(vc_get_f32(x, row * row_len + i));

                most = m > most ? m : most;
            }
            vc_put_u32(bits, g, most);
        }
    }
    return 0;
}

/* Joins with what bits holds: a tensor arrives in many tiles, and channels go on from tile to tile. */
int vc_absmax_axis_ref(const float *x, size_t n, const struct vc_axis_map *map, uint32_t *bits)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t m = vc_f32_magnitude(vc_get_f32(x, i));
        size_t c = channel_of(map, i);

        if (m > vc_get_u32(bits, c)) {
            vc_put_u32(bits, c, m);
        }
    }
    return 0;
}

/* Joins |x| into the side of its sign: pos[at] or neg[at]. -0 counts as negative and adds 0. */
static void widen(float x, uint32_t *pos, uint32_t *neg, size_t at)
{
    uint32_t *side = vc_f32_bits(x) >> 31 ? neg : pos;
    uint32_t m = vc_f32_magnitude(x);

    if (m > vc_get_u32(side, at)) {
        vc_put_u32(side, at, m);
    }
}

/* The largest magnitudes of positive and of negative values, by group. */
int vc_range_rows_ref(const float *x, size_t n_rows, size_t row_len, size_t group, uint32_t *pos, uint32_t *neg)
{
    size_t g = 0;

    for (size_t row = 0; row < n_rows; row++) {
        for (size_t first = 0; first < row_len; first += vc_min_size(group, row_len - first), g++) {
            vc_put_u32(pos, g, 0);
            vc_put_u32(neg, g, 0);
            for (size_t i = first; i < first + vc_min_size(group, row_len - first); i++) {
                widen(vc_get_f32(x, row * row_len + i), pos, neg, g);
            }
        }
    }
    return 0;
}

/* The same by an axis: adds to what earlier tiles have found. */
int vc_range_axis_ref(const float *x, size_t n, const struct vc_axis_map *map, uint32_t *pos, uint32_t *neg)
{
    for (size_t i = 0; i < n; i++) {
        widen(vc_get_f32(x, i), pos, neg, channel_of(map, i));
    }
    return 0;
}

/* ---- statistics ---- */

/* Every field is overwritten by a kernel, so counters start here. */
static void stats_clear(struct vc_tile_stats *stats)
{
    if (stats != NULL) {
        stats->max_abs_error = 0;
        stats->zeros_before = stats->zeros_after = stats->clipped = 0;
    }
}

/* Counts element i of a chunk: x is the source, y what the output decodes to. Both as f64, which holds every f32, so
 * x - y is rounded once. Where either is not finite, only the zeros are counted. */
static void stats_add(struct vc_tile_stats *stats, struct tree sums[2], size_t i, double x, double y)
{
    double e = x - y;

    stats->zeros_before += x == 0;
    stats->zeros_after += y == 0;
    if (finite64(x) && finite64(y)) {
        tree_add(&sums[0], i, x * x);
        tree_add(&sums[1], i, e * e);
        if (magnitude64(e) > stats->max_abs_error) {
            stats->max_abs_error = magnitude64(e);
        }
    }
}

/* ---- int8 ---- */

/* Whether the clamp changed the code (`clipped`): the same steps as vc_int8_encode_asym and vc_int8_encode before
 * their clamps. */
static int clamp_changes(float x, float s, int z)
{
    float t = rintf(x / s) + (float)z;

    return t > 127.0f || t < -128.0f;
}

/* Whether the code of x was cut to 127 or -127. */
static int clamp_changes_symmetric(float x, float s)
{
    float t = rintf(x / s);

    return t > 127.0f || t < -127.0f;
}

/* Which scale (and zero point) an element of a tile takes. */
struct scale_map {
    const struct vc_axis_map *axis; /* NULL: groups of rows */
    size_t row_len, group;
};

/* Number of the scale of element i of a row. */
static size_t scale_at(const struct scale_map *map, size_t row, size_t i)
{
    if (map->axis != NULL) {
        return channel_of(map->axis, row * map->row_len + i);
    }
    return row * (map->row_len / map->group + (map->row_len % map->group != 0)) + i / map->group;
}

/* Codes and statistics of a tile with given scales; zero NULL: symmetric. The body of int8_rows, int8_rows_given and
 * int8_axis_given. Chunks (up to 4096 elements of a row) are numbered in row order. */
static void int8_encode(const float *x, size_t n_rows, const struct scale_map *map, const float *scale,
                        const int8_t *zero, int8_t *q, struct vc_tile_stats *stats)
{
    size_t chunk = 0;

    stats_clear(stats);
    for (size_t row = 0; row < n_rows; row++) {
        for (size_t first = 0; first < map->row_len; first += VC_CHUNK_ELEMS, chunk++) {
            struct tree sums[2] = {{{0}}};

            for (size_t i = first; i < vc_min_size(first + VC_CHUNK_ELEMS, map->row_len); i++) {
                size_t at = scale_at(map, row, i);
                float v = vc_get_f32(x, row * map->row_len + i);
                float s = vc_get_f32(scale, at);
                int8_t z = zero == NULL ? 0 : zero[at];
                int8_t code = zero == NULL ? vc_int8_encode(v, s) : vc_int8_encode_asym(v, s, z);

                q[row * map->row_len + i] = code;
                if (stats != NULL) {
                    stats_add(stats, sums, i - first, v, vc_int8_decode(code, s, z));
                    stats->clipped += (uint64_t)(zero == NULL ? clamp_changes_symmetric(v, s) : clamp_changes(v, s, z));
                }
            }
            if (stats != NULL) {
                stats->chunk_sums[2 * chunk] = sum_of_lanes(sums[0].lane);
                stats->chunk_sums[2 * chunk + 1] = sum_of_lanes(sums[1].lane);
            }
        }
    }
}

/* Three steps over the whole tile; faster variants make one walk of them. A group that is not finite gets scale 1;
 * its codes and statistics are what comes out, and no caller looks at them. */
int vc_int8_rows_ref(const float *x, size_t n_rows, size_t row_len, size_t group, uint32_t *bits, float *scale,
                     int8_t *q, struct vc_tile_stats *stats)
{
    size_t n_groups = row_len == 0 ? 0 : n_rows * (row_len / group + (row_len % group != 0));

    vc_absmax_rows_ref(x, n_rows, row_len, group, bits);
    for (size_t g = 0; g < n_groups; g++) {
        uint32_t b = vc_get_u32(bits, g);

        vc_put_f32(scale, g, b < VC_F32_INF_BITS ? vc_int8_scale(b) : 1.0f);
    }
    int8_encode(x, n_rows, &(struct scale_map){NULL, row_len, group}, scale, NULL, q, stats);
    return 0;
}

int vc_int8_rows_given_ref(const float *x, size_t n_rows, size_t row_len, size_t group, const float *scale,
                           const int8_t *zero, int8_t *q, struct vc_tile_stats *stats)
{
    int8_encode(x, n_rows, &(struct scale_map){NULL, row_len, group}, scale, zero, q, stats);
    return 0;
}

int vc_int8_axis_given_ref(const float *x, size_t n_rows, size_t row_len, const struct vc_axis_map *map,
                           const float *scale, const int8_t *zero, int8_t *q, struct vc_tile_stats *stats)
{
    int8_encode(x, n_rows, &(struct scale_map){map, row_len, 1}, scale, zero, q, stats);
    return 0;
}

int vc_int8_decode_rows_ref(const int8_t *q, size_t n_rows, size_t row_len, size_t group, const float *scale,
                            const int8_t *zero, float *y)
{
    struct scale_map map = {NULL, row_len, group};

    for (size_t row = 0; row < n_rows; row++) {
        for (size_t i = 0; i < row_len; i++) {
            size_t at = scale_at(&map, row, i);

            vc_put_f32(y, row * row_len + i,
                       vc_int8_decode(q[row * row_len + i], vc_get_f32(scale, at), zero == NULL ? 0 : zero[at]));
        }
    }
    return 0;
}

int vc_int8_decode_axis_ref(const int8_t *q, size_t n, const struct vc_axis_map *map, const float *scale,
                            const int8_t *zero, float *y)
{
    for (size_t i = 0; i < n; i++) {
        size_t c = channel_of(map, i);

        vc_put_f32(y, i, vc_int8_decode(q[i], vc_get_f32(scale, c), zero == NULL ? 0 : zero[c]));
    }
    return 0;
}

/* ---- casts: the same loop for every pair of types ----
 *
 * convert makes a `to` of a `from`; back says what the result stands for (f32). clipped counts finite values that
 * became infinite. */

/* A cast of the contract: convert, store, and where figures are asked for, compare with what is read back. */
#define CAST(name, from, get, to, put, convert, back, finite)                                             \
    int vc_##name##_ref(const from *x, size_t n_rows, size_t row_len, to *h, struct vc_tile_stats *stats) \
    {                                                                                                     \
        size_t chunk = 0;                                                                                 \
                                                                                                          \
        stats_clear(stats);                                                                               \
        for (size_t row = 0; row < n_rows; row++) {                                                       \
            for (size_t first = 0; first < row_len; first += VC_CHUNK_ELEMS, chunk++) {                   \
                struct tree sums[2] = {{{0}}};                                                            \
                                                                                                          \
                for (size_t i = first; i < vc_min_size(first + VC_CHUNK_ELEMS, row_len); i++) {           \
                    from v = get(x, row * row_len + i);                                                   \
                    to r = convert(v);                                                                    \
                                                                                                          \
                    put(h, row *row_len + i, r);                                                          \
                    if (stats != NULL) {                                                                  \
                        stats_add(stats, sums, i - first, v, back(r));                                    \
                        stats->clipped += (uint64_t)(finite(v) && !finite32(back(r)));                    \
                    }                                                                                     \
                }                                                                                         \
                if (stats != NULL) {                                                                      \
                    stats->chunk_sums[2 * chunk] = sum_of_lanes(sums[0].lane);                            \
                    stats->chunk_sums[2 * chunk + 1] = sum_of_lanes(sums[1].lane);                        \
                }                                                                                         \
            }                                                                                             \
        }                                                                                                 \
        return 0;                                                                                         \
    }

#define SAME(x) (x)
CAST(cast_f32_f16, float, vc_get_f32, uint16_t, vc_put_u16, vc_f32_to_f16, vc_f16_to_f32, finite32)
CAST(cast_f32_bf16, float, vc_get_f32, uint16_t, vc_put_u16, vc_f32_to_bf16, vc_bf16_to_f32, finite32)
CAST(cast_f64_f16, double, vc_get_f64, uint16_t, vc_put_u16, vc_f64_to_f16, vc_f16_to_f32, finite64)
CAST(cast_f64_bf16, double, vc_get_f64, uint16_t, vc_put_u16, vc_f64_to_bf16, vc_bf16_to_f32, finite64)
CAST(cast_f64_f32, double, vc_get_f64, float, vc_put_f32, vc_f64_to_f32, SAME, finite64)

/* ---- exact conversions ---- */

/* Every value of the narrower types is one of f32; f64 is rounded. */
int vc_f16_to_f32_ref(const uint16_t *h, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) {
        vc_put_f32(y, i, vc_f16_to_f32(vc_get_u16(h, i)));
    }
    return 0;
}

int vc_bf16_to_f32_ref(const uint16_t *h, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) {
        vc_put_f32(y, i, vc_bf16_to_f32(vc_get_u16(h, i)));
    }
    return 0;
}

int vc_f64_to_f32_ref(const double *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) {
        vc_put_f32(y, i, vc_f64_to_f32(vc_get_f64(x, i)));
    }
    return 0;
}

/* ---- sums and counts ---- */

/* Element i of a chunk: x against y, f32 widened exactly. NaN equals NaN, and +0 equals -0. Pairs with a NaN or an
 * Inf are left out of the sums: one Inf would make every figure useless. */
static void diff_add(struct vc_diff_sums *sums, struct tree trees[4], size_t i, double x, double y)
{
    int equal = x == y || (x != x && y != y);
    double e = x - y;

    sums->different += (uint64_t)!equal;
    if (!finite64(x) || !finite64(y)) {
        sums->nonfinite_pairs += (uint64_t)!equal;
        return;
    }
    tree_add(&trees[0], i, x * x);
    tree_add(&trees[1], i, e * e);
    tree_add(&trees[2], i, y * y);
    tree_add(&trees[3], i, x * y);
    if (magnitude64(e) > sums->max_abs_error) {
        sums->max_abs_error = magnitude64(e);
    }
}

/* Element i of a chunk, f32 widened exactly. The histogram has a bin per exponent of f32: bin 0 holds zeros and
 * subnormals. */
static void values_add(struct vc_value_counts *counts, struct tree trees[2], size_t i, double x)
{
    if (!finite64(x)) {
        counts->nans += x != x;
        counts->infs += x == x;
        return;
    }
    counts->zeros += x == 0;
    counts->min = x < counts->min ? x : counts->min;
    counts->max = x > counts->max ? x : counts->max;
    counts->histogram[vc_f32_magnitude((float)x) >> 23]++;
    tree_add(&trees[0], i, x);
    tree_add(&trees[1], i, x * x);
}

/* Magnitudes 1 to just below the smallest normal; for 0 the subtraction wraps around to the largest. */
static uint64_t subnormal32(float x)
{
    return vc_f32_magnitude(x) - 1 < VC_F32_MIN_NORMAL_BITS - 1;
}

/* 1 for a number below the normal ones that is not 0. */
static uint64_t subnormal64(double x)
{
    return (vc_f64_bits(x) & 0x7fffffffffffffffu) - 1 < 0x0010000000000000u - 1;
}

/* diff_* and values_* for one type: walk the chunks, add the elements, store the sums. */
#define SUMS(type, get, subnormal, suffix)                                                                             \
    int vc_diff_##suffix##_ref(const type *x, const type *y, size_t n_rows, size_t row_len, struct vc_diff_sums *sums) \
    {                                                                                                                  \
        size_t chunk = 0;                                                                                              \
                                                                                                                       \
        sums->max_abs_error = 0;                                                                                       \
        sums->different = sums->nonfinite_pairs = 0;                                                                   \
        for (size_t row = 0; row < n_rows; row++) {                                                                    \
            for (size_t first = 0; first < row_len; first += VC_CHUNK_ELEMS, chunk++) {                                \
                struct tree trees[4] = {{{0}}};                                                                        \
                                                                                                                       \
                for (size_t i = first; i < vc_min_size(first + VC_CHUNK_ELEMS, row_len); i++) {                        \
                    diff_add(sums, trees, i - first, get(x, row * row_len + i), get(y, row * row_len + i));            \
                }                                                                                                      \
                for (size_t k = 0; k < 4; k++) {                                                                       \
                    sums->chunk_sums[4 * chunk + k] = sum_of_lanes(trees[k].lane);                                     \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        return 0;                                                                                                      \
    }                                                                                                                  \
                                                                                                                       \
    int vc_values_##suffix##_ref(const type *x, size_t n_rows, size_t row_len, struct vc_value_counts *counts)         \
    {                                                                                                                  \
        double *chunk_sums = counts->chunk_sums;                                                                       \
        size_t chunk = 0;                                                                                              \
                                                                                                                       \
        *counts = (struct vc_value_counts){.chunk_sums = chunk_sums, .min = INFINITY, .max = -INFINITY};               \
        for (size_t row = 0; row < n_rows; row++) {                                                                    \
            for (size_t first = 0; first < row_len; first += VC_CHUNK_ELEMS, chunk++) {                                \
                struct tree trees[2] = {{{0}}};                                                                        \
                                                                                                                       \
                for (size_t i = first; i < vc_min_size(first + VC_CHUNK_ELEMS, row_len); i++) {                        \
                    counts->subnormals += subnormal(get(x, row * row_len + i));                                        \
                    values_add(counts, trees, i - first, get(x, row * row_len + i));                                   \
                }                                                                                                      \
                chunk_sums[2 * chunk] = sum_of_lanes(trees[0].lane);                                                   \
                chunk_sums[2 * chunk + 1] = sum_of_lanes(trees[1].lane);                                               \
            }                                                                                                          \
        }                                                                                                              \
        counts->min += 0.0; /* -0 becomes +0 */                                                                        \
        counts->max += 0.0;                                                                                            \
        return 0;                                                                                                      \
    }

SUMS(float, vc_get_f32, subnormal32, f32)
SUMS(double, vc_get_f64, subnormal64, f64)
