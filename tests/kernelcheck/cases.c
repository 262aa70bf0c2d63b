/* cases.c - one call function and one line of the table per kernel of kernels.inc. kernelcheck_table fails where a
 * kernel has none. */
#include "cases.h"

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

CALL_FLAT(q4_0_to_f32)
CALL_FLAT(q4_1_to_f32)
CALL_FLAT(q5_0_to_f32)
CALL_FLAT(q5_1_to_f32)
CALL_FLAT(q8_0_to_f32)
CALL_FLAT(q4_k_to_f32)
CALL_FLAT(q5_k_to_f32)
CALL_FLAT(q6_k_to_f32)

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
    BLOCKS(q4_0_to_f32, 32, 18),
    BLOCKS(q4_1_to_f32, 32, 20),
    BLOCKS(q5_0_to_f32, 32, 22),
    BLOCKS(q5_1_to_f32, 32, 24),
    BLOCKS(q8_0_to_f32, 32, 34),
    BLOCKS(q4_k_to_f32, 256, 144),
    BLOCKS(q5_k_to_f32, 256, 176),
    BLOCKS(q6_k_to_f32, 256, 210),
    {ENTRY(diff_f32), .result = RESULT_DIFF, .args = {ELEMS_F32, ELEMS_F32, {ARG_SUMS, 8, COUNT_4_CHUNKS}}},
    {ENTRY(diff_f64), .result = RESULT_DIFF, .args = {ELEMS_F64, ELEMS_F64, {ARG_SUMS, 8, COUNT_4_CHUNKS}}},
    {ENTRY(values_f32), .result = RESULT_VALUES, .args = {ELEMS_F32, TILE_SUMS}},
    {ENTRY(values_f64), .result = RESULT_VALUES, .args = {ELEMS_F64, TILE_SUMS}},
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
    default:
        return arg->elem_bytes * trial_elems(t);
    }
}
