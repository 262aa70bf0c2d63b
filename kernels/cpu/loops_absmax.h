/* loops_absmax.h - part of loops.h: largest magnitudes by group and by channel (absmax_*, range_*), and the walk
 * along an axis that loops_int8.h uses too. Integer maxima, so their order does not matter, and NaN and Inf need no
 * rule. */
#pragma once

/* Largest magnitude of n elements; 0 for none. Signed compare is enough (the sign bit is masked off), and every
 * instruction set has it. */
static inline uint32_t absmax_run(const float *x, size_t n)
{
    int32_t most = 0;

    for (size_t i = 0; i < n; i++) {
        int32_t m = (int32_t)vc_f32_magnitude(vc_get_f32(x, i));

        most = m > most ? m : most;
    }
    return (uint32_t)most;
}

/* Largest magnitude among the elements with sign bit 0 (pos) and 1 (neg), joined to what is there. */
static inline void range_run(const float *x, size_t n, uint32_t *pos, uint32_t *neg)
{
    int32_t p = (int32_t)*pos;
    int32_t m = (int32_t)*neg;

    for (size_t i = 0; i < n; i++) {
        int32_t u = (int32_t)vc_f32_bits(vc_get_f32(x, i));
        int32_t if_neg = u < 0 ? (int32_t)((uint32_t)u & VC_F32_ABS_MASK) : 0;

        p = u > p ? u : p; /* a set sign bit makes u negative */
        m = if_neg > m ? if_neg : m;
    }
    *pos = (uint32_t)p;
    *neg = (uint32_t)m;
}

/* As vc_absmax_rows_ref and vc_range_rows_ref: g walks over groups in row order. */
int VC_VARIANT(absmax_rows)(const float *x, size_t n_rows, size_t row_len, size_t group, uint32_t *bits)
{
    size_t g = 0;

    for (size_t row = 0; row < n_rows; row++) {
        for (size_t first = 0; first < row_len; g++) {
            size_t n = vc_min_size(group, row_len - first);

            vc_put_u32(bits, g, absmax_run(x + row * row_len + first, n));
            first += n;
        }
    }
    return 0;
}

/* As absmax_rows, by sign. */
int VC_VARIANT(range_rows)(const float *x, size_t n_rows, size_t row_len, size_t group, uint32_t *pos, uint32_t *neg)
{
    size_t g = 0;

    for (size_t row = 0; row < n_rows; row++) {
        for (size_t first = 0; first < row_len; g++) {
            size_t n = vc_min_size(group, row_len - first);
            uint32_t p = 0;
            uint32_t m = 0;

            range_run(x + row * row_len + first, n, &p, &m);
            vc_put_u32(pos, g, p);
            vc_put_u32(neg, g, m);
            first += n;
        }
    }
    return 0;
}

/* Where a walk along an axis stands: the next `left` elements belong to `channel`, the ones after them to the channel
 * that follows. Saves two divisions per element. */
struct axis_at {
    size_t channel, left;
};

/* At element i of the tile. */
static struct axis_at axis_start(const struct vc_axis_map *map, size_t i)
{
    uint64_t at = map->first + i;

    return (struct axis_at){(size_t)(at / map->inner % map->n_channels), (size_t)(map->inner - at % map->inner)};
}

/* n elements on; n <= at->left. */
static inline void axis_step(const struct vc_axis_map *map, struct axis_at *at, size_t n)
{
    at->left -= n;
    if (at->left == 0) {
        at->left = (size_t)map->inner;
        at->channel = at->channel + 1 == map->n_channels ? 0 : at->channel + 1;
    }
}

/* inner == 1: neighbouring elements are neighbouring channels, so maxima are taken element by element, many at once.
 * bits (pos, neg) begins at the channel of x[0]. */
static void absmax_spread(const float *x, size_t n, uint32_t *bits)
{
    for (size_t i = 0; i < n; i++) {
        int32_t m = (int32_t)vc_f32_magnitude(vc_get_f32(x, i));
        int32_t b = (int32_t)vc_get_u32(bits, i);

        vc_put_u32(bits, i, (uint32_t)(m > b ? m : b));
    }
}

/* Each element has a channel of its own: maxima of arrays. As signed integers negative floats are below all others. */
static void range_spread(const float *x, size_t n, uint32_t *pos, uint32_t *neg)
{
    for (size_t i = 0; i < n; i++) {
        int32_t u = (int32_t)vc_f32_bits(vc_get_f32(x, i));
        int32_t if_neg = u < 0 ? (int32_t)((uint32_t)u & VC_F32_ABS_MASK) : 0;
        int32_t p = (int32_t)vc_get_u32(pos, i);
        int32_t m = (int32_t)vc_get_u32(neg, i);

        vc_put_u32(pos, i, (uint32_t)(u > p ? u : p));
        vc_put_u32(neg, i, (uint32_t)(if_neg > m ? if_neg : m));
    }
}

/* A run is what needs no change of channel: up to `left` elements of one channel, or with inner == 1 all channels up
 * to the last. */
int VC_VARIANT(absmax_axis)(const float *x, size_t n, const struct vc_axis_map *map, uint32_t *bits)
{
    struct axis_at at = axis_start(map, 0);

    for (size_t i = 0; i < n;) {
        size_t run = vc_min_size(map->inner == 1 ? map->n_channels - at.channel : at.left, n - i);

        if (map->inner == 1) {
            absmax_spread(x + i, run, bits + at.channel);
            at.channel = 0;
        } else {
            uint32_t most = absmax_run(x + i, run);
            uint32_t b = vc_get_u32(bits, at.channel);

            vc_put_u32(bits, at.channel, most > b ? most : b);
            axis_step(map, &at, run);
        }
        i += run;
    }
    return 0;
}

/* Adds to what earlier tiles have found. */
int VC_VARIANT(range_axis)(const float *x, size_t n, const struct vc_axis_map *map, uint32_t *pos, uint32_t *neg)
{
    struct axis_at at = axis_start(map, 0);

    for (size_t i = 0; i < n;) {
        size_t run = vc_min_size(map->inner == 1 ? map->n_channels - at.channel : at.left, n - i);

        if (map->inner == 1) {
            range_spread(x + i, run, pos + at.channel, neg + at.channel);
            at.channel = 0;
        } else {
            uint32_t p = vc_get_u32(pos, at.channel);
            uint32_t m = vc_get_u32(neg, at.channel);

            range_run(x + i, run, &p, &m);
            vc_put_u32(pos, at.channel, p);
            vc_put_u32(neg, at.channel, m);
            axis_step(map, &at, run);
        }
        i += run;
    }
    return 0;
}
