/* block_codes.c - codes whose scales are shared by several rows of a matrix, so that a tile may hold only a part of the
 * elements of a scale: fp8 in blocks, and int4 in groups down the columns, for programs that keep weights as [in, out].
 *
 *     w  f32 [512, 256] --fp8/block:128--> codes f8_e4m3 [512, 256], scale [4, 2]
 *                       --int4/group:128-> codes i4 [512, 256], scale [4, 256]    one for 128 rows of a column;
 *                                                                                 with zero points of the same shape
 *
 * The scan finds the scales, apply makes the codes. Of fp8 the scan keeps the largest magnitudes; the search of int4
 * needs the values of a whole group, so the scan keeps those of the tensor as f32. Formulas: those of
 * group_codes.c for the same elements. */

#include "core/model/code_schemes.h"
#include "kernels/grid_codes.h"
#include "quantize/schemes/int8.h"

struct block_state {
    struct vc_int8_state shared; /* first */
    const struct vc_code_scheme *codes;
    struct vc_group_codes how;
    bool grid;     /* fp8; else whole numbers */
    float *values; /* int4: of the whole tensor, from begin to scan_end */
};

static size_t shared_bytes(const struct vc_step *step, const struct vc_int8_state *s)
{
    return vc_scratch_room(vc_int8_scratch_bytes(step, s));
}

/* ---- the scan ---- */

/* Memory of int4 is that of the tensor as f32; it is freed when the scales are found. */
static enum vc_status block_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct block_state *s = step->state;
    enum vc_status status = VC_OK;

    VC_TRY(vc_int8_begin(ctx, step, item));
    if (!s->grid) {
        VC_TRY(VC_ARRAY(ctx, VC_TAG_SCALES, s->values, (size_t)step->in.n_elems));
    }
out:
    return status; /* end frees what is there */
}

static void block_end(struct vc_ctx *ctx, struct vc_step *step)
{
    struct block_state *s = step->state;

    vc_free(ctx, vc_give(&s->values));
    vc_int8_end(ctx, step);
}

static bool is_finite(float x)
{
    return vc_f32_magnitude(x) < VC_F32_INF_BITS;
}

/* What a piece of a row adds to the magnitudes of its blocks. The mutex is held for each block only: tiles of the same
 * rows of blocks meet here. */
static void merge_row(struct vc_int8_state *s, uint64_t row, uint64_t col, size_t n, const float *x)
{
    uint32_t *pos = s->pos + row / s->group_rows * s->n_groups;

    for (size_t i = 0; i < n; i += (size_t)s->group) {
        uint32_t top = vc_int8_largest(x + i, (size_t)vc_min_u64(s->group, n - i));
        uint32_t *to = pos + (col + i) / s->group;

        (void)pthread_mutex_lock(&s->mutex);
        *to = top > *to ? top : *to;
        (void)pthread_mutex_unlock(&s->mutex);
    }
}

/* Where NaN and Inf are replaced they are kept in the copy of the values: what they become depends on the block. */
static enum vc_status block_scan(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                 const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct block_state *s = step->state;
    struct vc_int8_scratch t;
    const float *x;

    vc_int8_scratch_carve(step, &s->shared, scratch, &t);
    VC_CALL(vc_int8_widen(ctx, step, tile, in->data, &t, &x));
    if (s->shared.options->nonfinite != VC_NONFINITE_ZERO && vc_has_nonfinite(VC_DTYPE_F32, x, tile->n_elems)) {
        return vc_int8_refuse(ctx);
    }
    if (s->values != NULL) {
        memcpy(s->values + tile->first, (const char *)x, tile->n_elems * sizeof *x);
        return VC_OK;
    }
    for (size_t row = 0; row < tile->n_rows; row++) {
        merge_row(&s->shared, tile->row0 + row, tile->col0, tile->row_len, x + row * tile->row_len);
    }
    return VC_OK;
}

/* A value as codes are made of it: NaN becomes 0, an infinity the largest finite magnitude of its block. */
static float clean(float x, uint32_t top)
{
    uint32_t bits = vc_f32_bits(x);

    return is_finite(x)                                  ? x
           : (bits & VC_F32_ABS_MASK) == VC_F32_INF_BITS ? vc_bits_f32(top | (bits & ~VC_F32_ABS_MASK))
                                                         : 0.0f;
}

/* The scales of int4 for the groups of n rows that begin with `x`; `column` has room for n values. */
static void search_groups(struct block_state *state, const float *x, size_t n, uint64_t first_scale, float *column)
{
    struct vc_int8_state *s = &state->shared;

    for (size_t c = 0; c < s->row_len; c++) {
        uint32_t *pos = &s->pos[first_scale + c];

        for (size_t r = 0; r < n; r++) {
            column[r] = x[r * (size_t)s->row_len + c];
        }
        *pos = vc_int8_largest(column, n);
        for (size_t r = 0; r < n; r++) {
            column[r] = clean(column[r], *pos);
        }
        struct vc_float_scale scale = vc_group_scale(&state->how, column, n, *pos);
        s->scale[first_scale + c] = scale.value;
        if (s->zero != NULL) {
            s->zero[first_scale + c] = scale.zero_point;
        }
        *pos = scale.zero ? 0 : *pos;
    }
}

/* Of the last rows there may be fewer than a block has. */
static enum vc_status block_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct block_state *state = step->state;
    struct vc_int8_state *s = &state->shared;
    uint64_t n_rows = s->row_len == 0 ? 0 : step->in.n_elems / s->row_len;
    size_t column_rows = (size_t)vc_min_u64(s->group_rows, n_rows);
    float *column = NULL;
    enum vc_status status = VC_OK;

    if (state->values != NULL) {
        VC_TRY(VC_ARRAY(ctx, VC_TAG_SCALES, column, column_rows));
        for (uint64_t row = 0; row < n_rows; row += s->group_rows) {
            search_groups(state, state->values + row * s->row_len, (size_t)vc_min_u64(s->group_rows, n_rows - row),
                          row / s->group_rows * s->n_groups, column);
        }
    } else {
        for (size_t i = 0; i < s->n_scales; i++) {
            s->scale[i] = vc_fp8_scale(vc_bits_f32(s->pos[i]), s->scale_dtype).value;
        }
    }
    for (size_t i = 0; s->stored != NULL && i < s->n_scales; i++) {
        s->stored[i] = s->scale_dtype == VC_DTYPE_F16 ? vc_f32_to_f16(s->scale[i]) : vc_f32_to_bf16(s->scale[i]);
    }
out:
    vc_free(ctx, vc_give(&state->values));
    vc_free(ctx, column);
    return status;
}

/* ---- one tile ---- */

/* Codes and what they stand for; returns how many values were replaced. The code is the nearest value of the grid, or
 * the nearest whole number shifted by the zero point. */
static uint64_t encode_tile(const struct block_state *state, const struct vc_tile *tile, const float *x, uint8_t *q,
                            float *y)
{
    const struct vc_int8_state *s = &state->shared;
    uint64_t replaced = 0;

    for (size_t i = 0; i < tile->n_elems; i++) {
        uint64_t row = tile->row0 + i / tile->row_len;
        uint64_t k = row / s->group_rows * s->n_groups + (tile->col0 + i % tile->row_len) / s->group;
        float value = vc_float_at(x, i);
        int zero = s->zero != NULL ? s->zero[k] : 0;
        const struct vc_group_codes own = vc_group_shifted(&state->how, zero);

        replaced += !is_finite(value);
        value = s->pos[k] == 0 ? 0.0f : clean(value, s->pos[k]);
        value /= s->scale[k];
        value = state->grid ? value : vc_float_near(VC_GRID_NONE, &own, value);
        q[i] = state->grid ? vc_e4m3_of(value) : (uint8_t)((int)value + zero);
        y[i] = (state->grid ? vc_e4m3_value(q[i]) : value) * s->scale[k];
    }
    return replaced;
}

/* Scales are known as a whole, so tile 0 has them written. */
static enum vc_status block_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                  struct vc_tile_out *out)
{
    const struct block_state *s = step->state;
    bool halves = s->shared.scale_dtype != VC_DTYPE_F32;
    float *y = (float *)(void *)((char *)scratch + shared_bytes(step, &s->shared));
    uint8_t *q = (uint8_t *)(y + vc_tile_elems(step));
    struct vc_int8_scratch t;
    const float *x;

    vc_int8_scratch_carve(step, &s->shared, scratch, &t);
    VC_CALL(vc_int8_widen(ctx, step, tile, in->data, &t, &x));
    out->nonfinite = encode_tile(s, tile, x, q, y);
    VC_CALL(vc_int8_measure_values(ctx, tile, x, y, out->stats));
    vc_codes_pack(q, tile->n_elems, vc_code_bits(s->codes), s->codes->high_first, out->data);
    out->parts[0] = (struct vc_part_view){.data = halves ? (const void *)s->shared.stored : s->shared.scale,
                                          .n = (size_t)s->shared.n_scales,
                                          .write = tile->index == 0};
    if (s->shared.zero != NULL) {
        out->parts[1] = out->parts[0];
        out->parts[1].data = s->shared.zero;
    }
    return VC_OK;
}

/* ---- the step ---- */

static const struct vc_step_ops block_ops = {.calibrate = vc_policy_calibrate,
                                             .explain = vc_policy_explain,
                                             .begin = block_begin,
                                             .scan = block_scan,
                                             .scan_end = block_scan_end,
                                             .apply = block_apply,
                                             .end = block_end,
                                             .forget = vc_policy_forget};

/* Bytes of the state for each scale: magnitude 4, scale 4, half 2; with zero points 4 and 1 more. */
enum vc_status vc_block_codes_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_scheme_row *row,
                                  const struct vc_quantize_options *options, enum vc_dtype weights)
{
    struct block_state *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    struct vc_step *step;

    VC_CALL_ALLOC(s);
    s->codes = vc_code_scheme(row->scheme);
    s->grid = s->codes->grid != VC_GRID_NONE;
    VC_CALL(vc_int8_add_step(ctx, item, row, &block_ops, options, weights, &s->shared, &step));
    s->how = vc_code_groups(s->codes, s->shared.scale_dtype, item->set->dialect);
    s->how.zero_points = options->asymmetric;
    step->why = options->calibration != NULL ? "statistics do not serve groups of several rows" : step->why;
    step->scan = true;
    step->scratch_bytes = shared_bytes(step, &s->shared) + vc_tile_elems(step) * (sizeof(float) + 1);
    step->state_bytes = (size_t)s->shared.n_scales * (options->asymmetric ? 15 : 10);
    if (!s->grid) {
        step->state_bytes +=
            (size_t)(step->in.n_elems + vc_min_u64(s->shared.group_rows, step->in.n_elems)) * sizeof(float);
    }
    return VC_OK;
}
