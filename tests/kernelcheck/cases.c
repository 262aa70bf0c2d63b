/* cases.c - one call function and one line of the table per kernel of kernels.inc. kernelcheck_table fails where a
 * kernel has none. */
#include "cases.h"

#include <string.h>

/* call_<kernel>: the kernel of table k on the arrays p of trial t; numbers go to r. */
#define CALL(name) \
    static int call_##name(const struct vc_kernels *k, const struct trial *t, void *const *p, struct results *r)
#define ROWS   t->n_rows, t->row_len
#define N      (t->n_rows * t->row_len)
#define STATS  (t->with_stats ? &r->tile : NULL)
#define UNUSED (void)r

CALL(absmax_rows)
{
    UNUSED;
    return k->absmax_rows(p[0], ROWS, t->group, p[1]);
}

CALL(absmax_axis)
{
    UNUSED;
    return k->absmax_axis(p[0], N, &t->map, p[1]);
}

CALL(range_rows)
{
    UNUSED;
    return k->range_rows(p[0], ROWS, t->group, p[1], p[2]);
}

CALL(range_axis)
{
    UNUSED;
    return k->range_axis(p[0], N, &t->map, p[1], p[2]);
}

CALL(int8_rows)
{
    return k->int8_rows(p[0], ROWS, t->group, p[1], p[2], p[3], STATS);
}

CALL(int8_rows_given)
{
    return k->int8_rows_given(p[0], ROWS, t->group, p[1], t->with_zeros ? p[2] : NULL, p[3], STATS);
}

CALL(int8_axis_given)
{
    return k->int8_axis_given(p[0], ROWS, &t->map, p[1], t->with_zeros ? p[2] : NULL, p[3], STATS);
}

CALL(int8_decode_rows)
{
    UNUSED;
    return k->int8_decode_rows(p[0], ROWS, t->group, p[1], t->with_zeros ? p[2] : NULL, p[3]);
}

CALL(int8_decode_axis)
{
    UNUSED;
    return k->int8_decode_axis(p[0], N, &t->map, p[1], t->with_zeros ? p[2] : NULL, p[3]);
}

#define CALL_CAST(name)                          \
    CALL(name)                                   \
    {                                            \
        return k->name(p[0], ROWS, p[1], STATS); \
    }
CALL_CAST(cast_f32_f16)
CALL_CAST(cast_f32_bf16)
CALL_CAST(cast_f64_f16)
CALL_CAST(cast_f64_bf16)
CALL_CAST(cast_f64_f32)

#define CALL_FLAT(name)                \
    CALL(name)                         \
    {                                  \
        UNUSED;                        \
        return k->name(p[0], N, p[1]); \
    }
CALL_FLAT(f16_to_f32)
CALL_FLAT(bf16_to_f32)
CALL_FLAT(f64_to_f32)

CALL(q8_0_rows)
{
    return k->q8_0_rows(p[0], ROWS, p[1], p[2], STATS);
}

#define VC_BLOCK_TYPE(type, TYPE, elems, bytes, decoding, encoding)                                         \
    CALL_FLAT(type##_to_f32)                                                                                \
                                                                                                            \
    CALL(type##_blocks)                                                                                     \
    {                                                                                                       \
        const struct vc_block_how how = {.best = t->with_stats, .importance = t->with_zeros ? p[1] : NULL}; \
                                                                                                            \
        UNUSED;                                                                                             \
        return k->type##_blocks(p[0], ROWS, &how, p[2]);                                                    \
    }
#include "kernels/block_types.inc"
#undef VC_BLOCK_TYPE

CALL(diff_f32)
{
    return k->diff_f32(p[0], p[1], ROWS, &r->diff);
}

CALL(diff_f64)
{
    return k->diff_f64(p[0], p[1], ROWS, &r->diff);
}

CALL(values_f32)
{
    return k->values_f32(p[0], ROWS, &r->values);
}

CALL(values_f64)
{
    return k->values_f64(p[0], ROWS, &r->values);
}

CALL_FLAT(magnitude_bins_u16)

CALL(magnitude_bins_f32)
{
    const struct vc_bin_range range = trial_range(t, 31);

    UNUSED;
    return k->magnitude_bins_f32(p[0], N, &range, p[1]);
}

CALL(magnitude_bins_f64)
{
    const struct vc_bin_range range = trial_range(t, 63);

    UNUSED;
    return k->magnitude_bins_f64(p[0], N, &range, p[1]);
}

/* The threshold is the key of an element, so that there are ties, or beside one. */
#define CALL_ABOVE(name, type, key)                                                                        \
    CALL(name)                                                                                             \
    {                                                                                                      \
        struct vc_mask_cut cut = {.threshold = 0x1234, .n_ties = t->with_zeros ? t->group % 5 : t->group}; \
        type at;                                                                                           \
                                                                                                           \
        UNUSED;                                                                                            \
        if (N != 0) {                                                                                      \
            memcpy(&at, (const char *)p[0] + N / 2 * sizeof at, sizeof at);                                \
            cut.threshold = (at & (key)) + (t->with_stats ? 0 : 1);                                        \
        }                                                                                                  \
        return k->name(p[0], N, &cut, p[1]);                                                               \
    }
CALL_ABOVE(mask_above_u16, uint16_t, 0x7fffu)
CALL_ABOVE(mask_above_f32, uint32_t, 0x7fffffffu)
CALL_ABOVE(mask_above_f64, uint64_t, 0x7fffffffffffffffu)

/* Rows of 9, 27, 576, ... are those of convolutions: input channels lie 9 apart. */
#define CALL_N_OF_M(name)                                                                                        \
    CALL(name)                                                                                                   \
    {                                                                                                            \
        size_t inner = t->row_len % 9 == 0 && t->row_len != 0 ? 9 : t->row_len % 100 == 0 ? 100 : 1;             \
        unsigned group = t->with_stats ? 4 : 2 + (unsigned)(t->group % 7);                                       \
                                                                                                                 \
        UNUSED;                                                                                                  \
        return k->name(p[0], t->n_rows, t->row_len / inner, inner, t->with_zeros ? group / 2 : group - 1, group, \
                       p[1]);                                                                                    \
    }
CALL_N_OF_M(mask_n_of_m_f32)
CALL_N_OF_M(mask_n_of_m_f64)

CALL(mask_apply_u16)
{
    UNUSED;
    return k->mask_apply_u16(p[0], p[1], trial_first_bit(t), N, p[2]);
}

#define CALL_APPLY(name)                                                   \
    CALL(name)                                                             \
    {                                                                      \
        return k->name(p[0], p[1], trial_first_bit(t), ROWS, p[2], STATS); \
    }
CALL_APPLY(mask_apply_f32)
CALL_APPLY(mask_apply_f64)

#define CALL_SQUARES(name)                                                          \
    CALL(name)                                                                      \
    {                                                                               \
        UNUSED;                                                                     \
        return k->name(p[0], ROWS, trial_block_rows(t), trial_block_cols(t), p[1]); \
    }
CALL_SQUARES(block_squares_f32)
CALL_SQUARES(block_squares_f64)

#define CALL_SUMS(name)                                          \
    CALL(name)                                                   \
    {                                                            \
        UNUSED;                                                  \
        return k->name(p[0], ROWS, t->with_stats ? 2 : 1, p[1]); \
    }
CALL_SUMS(row_sums_f32)
CALL_SUMS(row_sums_f64)
CALL_SUMS(column_sums_f32)
CALL_SUMS(column_sums_f64)

/* Each scheme, with the types that scales are stored in; which one depends on the shape. Groups of nvfp4 and mxfp4 have
 * any length here. */
static const struct vc_group_codes group_schemes[] = {
    {.low = -8, .high = 7, .type = VC_DTYPE_F32},
    {.low = -8, .high = 7, .type = VC_DTYPE_F16, .zero_points = true},
    {.grid = VC_GRID_E2M1, .bytes = VC_DTYPE_F8_E4M3, .global = 2688.0f},
    {.grid = VC_GRID_NF4, .type = VC_DTYPE_F32},
    {.grid = VC_GRID_E4M3, .type = VC_DTYPE_BF16},
    {.low = -4, .high = 3, .type = VC_DTYPE_BF16, .both_signs = true},
    {.grid = VC_GRID_E2M1, .bytes = VC_DTYPE_F8_E8M0},
    {.low = -1, .high = 1, .type = VC_DTYPE_F16},
    {.grid = VC_GRID_FP4, .type = VC_DTYPE_F16},
    {.grid = VC_GRID_E4M3, .bytes = VC_DTYPE_F8_E8M0},
    {.low = -32, .high = 31, .type = VC_DTYPE_BF16},
    {.low = -2, .high = 1, .type = VC_DTYPE_F32, .zero_points = true, .both_signs = true},
    {.grid = VC_GRID_E2M1, .bytes = VC_DTYPE_F8_E4M3, .global = 3.0e38f},
};

CALL(group_codes_rows)
{
    const size_t n = sizeof group_schemes / sizeof group_schemes[0];
    struct vc_group_codes how = group_schemes[(t->n_rows + t->row_len + 3 * t->group + t->pattern) % n];

    UNUSED;
    how.weights = t->with_zeros ? p[1] : NULL;
    k->absmax_rows(p[0], ROWS, t->group, p[2]);
    return k->group_codes_rows(p[0], ROWS, t->group, &how, p[2], p[3], t->with_stats ? p[4] : NULL,
                               t->with_stats ? p[5] : NULL);
}

static enum vc_grid grid_of(const struct trial *t)
{
    return (enum vc_grid)(VC_GRID_E4M3 + (t->n_rows + t->row_len + t->pattern) % 4);
}

CALL(grid_decode_rows)
{
    UNUSED;
    return k->grid_decode_rows(p[0], ROWS, t->group, grid_of(t), p[1], p[2]);
}

CALL(grid_decode_axis)
{
    UNUSED;
    return k->grid_decode_axis(p[0], N, &t->map, grid_of(t), p[1], p[2]);
}

/* Pieces of the table. Numbers are bytes of an element. */
#define ENTRY(kernel) .name = #kernel, .offset = offsetof(struct vc_kernels, kernel), .call = call_##kernel
#define ELEMS_F32               \
    {                           \
        ARG_F32, 4, COUNT_ELEMS \
    }
#define ELEMS_F64               \
    {                           \
        ARG_F64, 8, COUNT_ELEMS \
    }
#define ELEMS_HALF               \
    {                            \
        ARG_HALF, 2, COUNT_ELEMS \
    }
#define ELEMS_CODES               \
    {                             \
        ARG_CODES, 1, COUNT_ELEMS \
    }
#define OUT_ELEMS(n)            \
    {                           \
        ARG_OUT, n, COUNT_ELEMS \
    }
#define BLOCKS(kernel, elems, bytes)                                      \
    {                                                                     \
        ENTRY(kernel), .shape = SHAPE_BLOCKS, .block = (elems), .args = { \
            {ARG_BYTES, bytes, COUNT_BLOCKS},                             \
            OUT_ELEMS(4)                                                  \
        }                                                                 \
    }
#define TILE_SUMS                   \
    {                               \
        ARG_SUMS, 8, COUNT_2_CHUNKS \
    }
#define SCALES(count)        \
    {                        \
        ARG_SCALES, 4, count \
    }
#define ZEROS(count)        \
    {                       \
        ARG_ZEROS, 1, count \
    }

#define MASK                        \
    {                               \
        ARG_BYTES, 1, COUNT_MASK_AT \
    }
#define OUT_MASK               \
    {                          \
        ARG_OUT, 1, COUNT_MASK \
    }

const struct kernel_case kernel_cases[] = {
    {ENTRY(absmax_rows), .shape = SHAPE_GROUPS, .args = {ELEMS_F32, {ARG_OUT, 4, COUNT_GROUPS}}},
    {ENTRY(absmax_axis), .shape = SHAPE_AXIS, .args = {ELEMS_F32, {ARG_MAXIMA, 4, COUNT_CHANNELS}}},
    {ENTRY(range_rows), .shape = SHAPE_GROUPS,
     .args = {ELEMS_F32, {ARG_OUT, 4, COUNT_GROUPS}, {ARG_OUT, 4, COUNT_GROUPS}}},
    {ENTRY(range_axis), .shape = SHAPE_AXIS,
     .args = {ELEMS_F32, {ARG_MAXIMA, 4, COUNT_CHANNELS}, {ARG_MAXIMA, 4, COUNT_CHANNELS}}},
    {ENTRY(int8_rows), .shape = SHAPE_GROUPS, .result = RESULT_TILE, .bits_first = 2,
     .args = {ELEMS_F32, {ARG_OUT, 4, COUNT_GROUPS}, {ARG_OUT, 4, COUNT_GROUPS}, OUT_ELEMS(1), TILE_SUMS}},
    {ENTRY(int8_rows_given), .shape = SHAPE_GROUPS, .result = RESULT_TILE, .finite_only = true,
     .args = {ELEMS_F32, SCALES(COUNT_GROUPS), ZEROS(COUNT_GROUPS), OUT_ELEMS(1), TILE_SUMS}},
    {ENTRY(int8_axis_given), .shape = SHAPE_AXIS_ROWS, .result = RESULT_TILE, .finite_only = true,
     .args = {ELEMS_F32, SCALES(COUNT_CHANNELS), ZEROS(COUNT_CHANNELS), OUT_ELEMS(1), TILE_SUMS}},
    {ENTRY(int8_decode_rows), .shape = SHAPE_GROUPS,
     .args = {ELEMS_CODES, SCALES(COUNT_GROUPS), ZEROS(COUNT_GROUPS), OUT_ELEMS(4)}},
    {ENTRY(int8_decode_axis), .shape = SHAPE_AXIS,
     .args = {ELEMS_CODES, SCALES(COUNT_CHANNELS), ZEROS(COUNT_CHANNELS), OUT_ELEMS(4)}},
    {ENTRY(cast_f32_f16), .result = RESULT_TILE, .args = {ELEMS_F32, OUT_ELEMS(2), TILE_SUMS}},
    {ENTRY(cast_f32_bf16), .result = RESULT_TILE, .args = {ELEMS_F32, OUT_ELEMS(2), TILE_SUMS}},
    {ENTRY(cast_f64_f16), .result = RESULT_TILE, .args = {ELEMS_F64, OUT_ELEMS(2), TILE_SUMS}},
    {ENTRY(cast_f64_bf16), .result = RESULT_TILE, .args = {ELEMS_F64, OUT_ELEMS(2), TILE_SUMS}},
    {ENTRY(cast_f64_f32), .result = RESULT_TILE, .args = {ELEMS_F64, OUT_ELEMS(4), TILE_SUMS}},
    {ENTRY(f16_to_f32), .shape = SHAPE_FLAT, .args = {ELEMS_HALF, OUT_ELEMS(4)}},
    {ENTRY(bf16_to_f32), .shape = SHAPE_FLAT, .args = {ELEMS_HALF, OUT_ELEMS(4)}},
    {ENTRY(f64_to_f32), .shape = SHAPE_FLAT, .args = {ELEMS_F64, OUT_ELEMS(4)}},
    {ENTRY(q8_0_rows), .shape = SHAPE_BLOCKS, .result = RESULT_TILE, .bits_first = 1, .block = 32,
     .args = {ELEMS_F32, {ARG_OUT, 4, COUNT_BLOCKS}, {ARG_OUT, 34, COUNT_BLOCKS}, TILE_SUMS}},
#define VC_BLOCK_TYPE(type, TYPE, elems, bytes, decoding, encoding) \
    BLOCKS(type##_to_f32, elems, bytes),                            \
        {ENTRY(type##_blocks),                                      \
         .shape = SHAPE_BLOCKS,                                     \
         .finite_only = true,                                       \
         .slow = true,                                              \
         .choices = true,                                           \
         .block = (elems),                                          \
         .args = {ELEMS_F32, SCALES(COUNT_COLUMNS), {ARG_OUT, bytes, COUNT_BLOCKS}}},
#include "kernels/block_types.inc"
#undef VC_BLOCK_TYPE
    {ENTRY(diff_f32), .result = RESULT_DIFF, .args = {ELEMS_F32, ELEMS_F32, {ARG_SUMS, 8, COUNT_4_CHUNKS}}},
    {ENTRY(diff_f64), .result = RESULT_DIFF, .args = {ELEMS_F64, ELEMS_F64, {ARG_SUMS, 8, COUNT_4_CHUNKS}}},
    {ENTRY(values_f32), .result = RESULT_VALUES, .args = {ELEMS_F32, TILE_SUMS}},
    {ENTRY(values_f64), .result = RESULT_VALUES, .args = {ELEMS_F64, TILE_SUMS}},
    {ENTRY(magnitude_bins_u16), .shape = SHAPE_FLAT, .args = {ELEMS_HALF, {ARG_BINS, 4, COUNT_KEYS}}},
    {ENTRY(magnitude_bins_f32), .shape = SHAPE_GROUPS, .choices = true, .args = {ELEMS_F32, {ARG_BINS, 4, COUNT_BINS}}},
    {ENTRY(magnitude_bins_f64), .shape = SHAPE_GROUPS, .choices = true, .args = {ELEMS_F64, {ARG_BINS, 4, COUNT_BINS}}},
    {ENTRY(mask_above_u16), .shape = SHAPE_GROUPS, .choices = true, .args = {ELEMS_HALF, OUT_MASK}},
    {ENTRY(mask_above_f32), .shape = SHAPE_GROUPS, .choices = true, .args = {ELEMS_F32, OUT_MASK}},
    {ENTRY(mask_above_f64), .shape = SHAPE_GROUPS, .choices = true, .args = {ELEMS_F64, OUT_MASK}},
    {ENTRY(mask_n_of_m_f32), .shape = SHAPE_GROUPS, .choices = true, .args = {ELEMS_F32, OUT_MASK}},
    {ENTRY(mask_n_of_m_f64), .shape = SHAPE_GROUPS, .choices = true, .args = {ELEMS_F64, OUT_MASK}},
    {ENTRY(mask_apply_u16), .shape = SHAPE_GROUPS, .args = {ELEMS_HALF, MASK, OUT_ELEMS(2)}},
    {ENTRY(mask_apply_f32), .shape = SHAPE_GROUPS, .result = RESULT_TILE,
     .args = {ELEMS_F32, MASK, OUT_ELEMS(4), TILE_SUMS}},
    {ENTRY(mask_apply_f64), .shape = SHAPE_GROUPS, .result = RESULT_TILE,
     .args = {ELEMS_F64, MASK, OUT_ELEMS(8), TILE_SUMS}},
    {ENTRY(block_squares_f32), .shape = SHAPE_GROUPS, .args = {ELEMS_F32, {ARG_SUMS, 8, COUNT_SQUARES}}},
    {ENTRY(block_squares_f64), .shape = SHAPE_GROUPS, .args = {ELEMS_F64, {ARG_SUMS, 8, COUNT_SQUARES}}},
    {ENTRY(row_sums_f32), .choices = true, .args = {ELEMS_F32, {ARG_SUMS, 8, COUNT_CHUNKS}}},
    {ENTRY(row_sums_f64), .choices = true, .args = {ELEMS_F64, {ARG_SUMS, 8, COUNT_CHUNKS}}},
    {ENTRY(column_sums_f32), .choices = true, .args = {ELEMS_F32, {ARG_SUMS, 8, COUNT_COLUMNS}}},
    {ENTRY(column_sums_f64), .choices = true, .args = {ELEMS_F64, {ARG_SUMS, 8, COUNT_COLUMNS}}},
    {ENTRY(group_codes_rows), .shape = SHAPE_GROUPS, .finite_only = true, .slow = true, .choices = true,
     .args = {ELEMS_F32,
              SCALES(COUNT_COLUMNS),
              {ARG_OUT, 4, COUNT_GROUPS},
              {ARG_OUT, 8, COUNT_GROUPS},
              OUT_ELEMS(1),
              OUT_ELEMS(4)}},
    {ENTRY(grid_decode_rows), .shape = SHAPE_GROUPS, .args = {ELEMS_CODES, SCALES(COUNT_GROUPS), OUT_ELEMS(4)}},
    {ENTRY(grid_decode_axis), .shape = SHAPE_AXIS, .args = {ELEMS_CODES, SCALES(COUNT_CHANNELS), OUT_ELEMS(4)}},
};

const size_t n_kernel_cases = sizeof kernel_cases / sizeof kernel_cases[0];

size_t trial_elems(const struct trial *t)
{
    return t->n_rows * t->row_len;
}

size_t trial_groups(const struct trial *t)
{
    return t->n_rows * (t->row_len / t->group + (t->row_len % t->group != 0));
}

static size_t trial_chunks(const struct trial *t)
{
    return t->n_rows * (t->row_len / VC_CHUNK_ELEMS + (t->row_len % VC_CHUNK_ELEMS != 0));
}

struct vc_bin_range trial_range(const struct trial *t, unsigned key_bits)
{
    const struct vc_bin_range all = {.first = 0, .shift = key_bits - 9, .n_bins = 512};
    const uint64_t one = key_bits == 31 ? 0x3f800000u : 0x3ff0000000000000u;
    const struct vc_bin_range few = {
        .first = one >> t->group % 3, .shift = (unsigned)(t->group % 4) * (key_bits / 6), .n_bins = 1 + t->group % 300};

    return t->with_zeros ? few : all;
}

uint64_t trial_first_bit(const struct trial *t)
{
    return t->group % 13;
}

size_t trial_block_rows(const struct trial *t)
{
    return 1 + t->group % 5;
}

size_t trial_block_cols(const struct trial *t)
{
    return 1 + t->group % 9;
}

static size_t ceil_div(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

size_t arg_bytes(const struct arg *arg, const struct trial *t)
{
    switch (arg->count) {
    case COUNT_GROUPS:
    case COUNT_BLOCKS:
        return arg->elem_bytes * trial_groups(t);
    case COUNT_CHANNELS:
        return arg->elem_bytes * (size_t)t->map.n_channels;
    case COUNT_2_CHUNKS:
        return arg->elem_bytes * 2 * trial_chunks(t);
    case COUNT_4_CHUNKS:
        return arg->elem_bytes * 4 * trial_chunks(t);
    case COUNT_BINS:
        return arg->elem_bytes * trial_range(t, 31).n_bins;
    case COUNT_KEYS:
        return arg->elem_bytes * 32768;
    case COUNT_MASK:
        return ceil_div(trial_elems(t), 8);
    case COUNT_MASK_AT:
        return ceil_div(trial_elems(t) + (size_t)trial_first_bit(t), 8);
    case COUNT_CHUNKS:
        return arg->elem_bytes * trial_chunks(t);
    case COUNT_COLUMNS:
        return t->n_rows == 0 ? 0 : arg->elem_bytes * t->row_len;
    case COUNT_SQUARES:
        return arg->elem_bytes * ceil_div(t->n_rows, trial_block_rows(t)) * ceil_div(t->row_len, trial_block_cols(t));
    default:
        return arg->elem_bytes * trial_elems(t);
    }
}
