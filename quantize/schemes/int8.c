/* int8.c - int8 codes: one scale per tensor, channel or group; symmetric or with zero points.
 *
 *     s = absmax / 127            q = clamp(rint(x / s), -127, 127)            x' = q * s
 *
 * docs/numerics.md has the definitions; kernels/arith.h has the arithmetic. This file plans the step and decides which
 * kernel does a tile: where a tile holds every element of its scales, one kernel makes scales and codes in one go
 * (int8_rows); else a scan over all tiles (int8_scan.c) finds the scales first. */
#include "quantize/schemes/int8.h"

#include <string.h>

#include "core/base/checked.h"
#include "core/model/code_schemes.h"
#include "kernels/arith.h"
#include "kernels/grid_codes.h"

/* ---- planning ---- */

static const char *scheme_label(struct vc_ctx *ctx, struct vc_item *item, const struct vc_int8_state *s)
{
    const char *tail = s->options->asymmetric ? "/asym" : "";

    if (s->options->granularity == VC_GRANULARITY_BLOCK || s->granularity == VC_GRANULARITY_BLOCK) {
        return vc_arena_printf(ctx, item->set->arena, "%s/%s:%llu%s", s->row->name,
                               s->options->granularity == VC_GRANULARITY_BLOCK ? "block" : "group",
                               (unsigned long long)s->options->group_size, tail);
    }
    return s->granularity == VC_GRANULARITY_GROUP ? vc_arena_printf(ctx, item->set->arena, "%s/group:%llu%s",
                                                                    s->row->name, (unsigned long long)s->group, tail)
                                                  : vc_arena_printf(ctx, item->set->arena, "%s/%s%s", s->row->name,
                                                                    vc_granularity_name(s->granularity), tail);
}

/* The shape of the scales: [1] for the tensor, [1, .., channels, .., 1] for channels, as NumPy broadcasts it against
 * the codes, [rows, groups] for groups. Zero points have the same. */
static enum vc_status add_scale_parts(struct vc_ctx *ctx, struct vc_item *item, struct vc_step *step,
                                      const struct vc_int8_state *s)
{
    bool block = s->granularity == VC_GRANULARITY_BLOCK;
    unsigned n_dims = s->granularity == VC_GRANULARITY_TENSOR           ? 1
                      : s->granularity == VC_GRANULARITY_GROUP || block ? 2
                                                                        : item->desc->n_dims;
    uint64_t *shape = vc_arena_alloc(ctx, item->set->arena, n_dims * sizeof *shape);

    VC_CALL_ALLOC(shape);
    for (unsigned d = 0; d < n_dims; d++) {
        shape[d] = 1;
    }
    if (s->granularity == VC_GRANULARITY_GROUP || block) {
        shape[0] = block ? s->n_scales / s->n_groups : item->desc->shape[0];
        shape[1] = s->n_groups;
    } else if (s->granularity == VC_GRANULARITY_CHANNEL) {
        shape[s->axis] = item->desc->shape[s->axis];
    }
    VC_CALL(
        vc_step_add_part(ctx, item, step, s->absmax ? VC_PART_ABSMAX : VC_PART_SCALE, s->scale_dtype, n_dims, shape));
    if (s->options->asymmetric || s->zeros) {
        VC_CALL(vc_step_add_part(ctx, item, step, VC_PART_ZERO_POINT, VC_DTYPE_I8, n_dims, shape));
    }
    return VC_OK;
}

int vc_int8_axis(const struct vc_quantize_options *options, const struct vc_item *item)
{
    const struct vc_scheme_row *row = vc_scheme_of_target(options->target);
    bool rows_only = options->granularity == VC_GRANULARITY_GROUP || (row != NULL && row->rows_only) ||
                     (item->set->dialect != NULL && item->set->dialect->rows_only);

    if (options->axis != VC_AXIS_OUTPUT) {
        return options->axis;
    }
    return rows_only ? 0 : (int)item->set->model->tensors[item->source].channel_axis;
}

/* Sets scale_dtype and absmax: what the output's dialect stores. */
static void choose_scale(const struct vc_item *item, enum vc_dtype weights, struct vc_int8_state *s)
{
    const struct vc_dialect_request request = vc_scheme_request_for(s->row, s->options, item);
    const struct vc_dialect_tensor tensor = vc_scheme_tensor(item, weights, false);
    enum vc_dtype absmax = vc_dialect_part_type(item->set->dialect, &request, &tensor, VC_PART_ABSMAX, VC_DTYPE_RAW);

    s->absmax = absmax != VC_DTYPE_RAW;
    if (s->options->double_quant || vc_code_scheme(s->row->scheme)->scale != VC_DTYPE_NONE) { /* bytes everywhere */
        s->absmax = false;
        s->scale_dtype = VC_DTYPE_U8;
        return;
    }
    s->scale_dtype =
        s->absmax ? absmax : vc_dialect_part_type(item->set->dialect, &request, &tensor, VC_PART_SCALE, VC_DTYPE_F32);
}

void vc_int8_scales(const struct vc_int8_state *s, const uint32_t *bits, size_t n, float *scale, uint16_t *stored)
{
    for (size_t i = 0; i < n; i++) {
        switch (s->scale_dtype) {
        case VC_DTYPE_F16:
            stored[i] = vc_int8_scale_f16(bits[i]);
            scale[i] = vc_f16_to_f32(stored[i]);
            break;
        case VC_DTYPE_BF16:
            stored[i] = vc_int8_scale_bf16(bits[i]);
            scale[i] = vc_bf16_to_f32(stored[i]);
            break;
        default:
            scale[i] = vc_int8_scale(bits[i]);
            break;
        }
    }
}

void vc_int8_asym_scales(const struct vc_int8_state *s, const uint32_t *pos, const uint32_t *neg, size_t n,
                         float *scale, uint16_t *stored, int8_t *zero)
{
    for (size_t i = 0; i < n; i++) {
        scale[i] = vc_int8_asym_scale(pos[i], neg[i]);
        if (s->scale_dtype != VC_DTYPE_F32) {
            float rounded = vc_scale_stored(scale[i], s->scale_dtype, 256);

            scale[i] = rounded > 0.0f ? rounded : vc_scale_smallest(s->scale_dtype);
            stored[i] = s->scale_dtype == VC_DTYPE_F16 ? vc_f32_to_f16(scale[i]) : vc_f32_to_bf16(scale[i]);
        }
        zero[i] = vc_int8_zero_point(neg[i], scale[i]);
    }
}

bool vc_int8_in_blocks(const struct vc_scheme_row *row, const struct vc_quantize_options *options,
                       const struct vc_item *item)
{
    const struct vc_dialect *dialect = item->set->dialect;
    const struct vc_dialect_request request = vc_scheme_request_for(row, options, item);
    const struct vc_dialect_tensor tensor = vc_scheme_tensor(item, vc_desc_weight_dtype(item->desc), false);

    return options->granularity == VC_GRANULARITY_BLOCK ||
           (options->granularity == VC_GRANULARITY_GROUP && dialect != NULL && dialect->down_columns != NULL &&
            dialect->down_columns(&request, &tensor));
}

/* Blocks of rows and columns, or groups of rows in each column. */
static void map_blocks(struct vc_int8_state *s, uint64_t n_rows)
{
    s->group = s->granularity == VC_GRANULARITY_BLOCK ? s->options->group_size : 1;
    s->granularity = VC_GRANULARITY_BLOCK;
    s->group_rows = s->options->group_size;
    s->n_groups = vc_ceil_div_u64(s->row_len, s->group);
    s->n_scales = vc_ceil_div_u64(n_rows, s->group_rows) * s->n_groups;
    s->scan = true;
}

/* How elements map to scales, from options and shape: see struct vc_int8_state. */
static void choose_map(struct vc_int8_state *s, const struct vc_item *item)
{
    const struct vc_quantize_options *o = s->options;
    const struct vc_desc *desc = item->desc;
    int axis = vc_int8_axis(o, item);
    uint64_t n_rows;

    vc_rows_of(desc->shape, desc->n_dims, &n_rows, &s->row_len);
    s->granularity = desc->n_dims < 2 && s->given == NULL ? VC_GRANULARITY_TENSOR : o->granularity;
    s->axis = s->granularity == VC_GRANULARITY_CHANNEL ? (unsigned)(axis < 0 ? axis + (int)desc->n_dims : axis) : 0;
    if (vc_int8_in_blocks(s->row, o, item)) {
        map_blocks(s, n_rows);
        return;
    }
    s->by_rows = s->granularity == VC_GRANULARITY_GROUP ||
                 (s->granularity == VC_GRANULARITY_CHANNEL && s->axis == 0 && s->given == NULL);
    if (s->by_rows) {
        s->group = s->granularity == VC_GRANULARITY_GROUP ? o->group_size : s->row_len;
        s->n_groups = vc_ceil_div_u64(s->row_len, s->group);
        s->n_scales = n_rows * s->n_groups;
        s->scan = s->row_len > VC_TILE_ELEMS && VC_TILE_ELEMS % s->group != 0;
        return;
    }
    s->scan = true;
    s->n_scales = s->granularity == VC_GRANULARITY_TENSOR ? 1 : desc->shape[s->axis];
    s->inner = s->granularity == VC_GRANULARITY_TENSOR ? desc->n_elems : 1;
    for (unsigned d = s->axis + 1; s->granularity == VC_GRANULARITY_CHANNEL && d < desc->n_dims; d++) {
        s->inner *= desc->shape[d];
    }
}

/* ---- one tile ---- */

size_t vc_int8_local_scales(const struct vc_step *step, const struct vc_int8_state *s)
{
    if (!s->by_rows) { /* those of blocks are in the state */
        return s->granularity == VC_GRANULARITY_BLOCK ? 0 : (size_t)s->n_scales;
    }
    if (s->row_len > VC_TILE_ELEMS) {
        return (size_t)vc_min_u64(s->n_groups, VC_TILE_ELEMS / s->group + 2);
    }
    return (size_t)vc_min_u64(s->n_scales, vc_max_u64(1, vc_tile_elems(step) / s->row_len) * s->n_groups);
}

size_t vc_int8_scratch_bytes(const struct vc_step *step, const struct vc_int8_state *s)
{
    size_t n = vc_tile_elems(step) * sizeof(float);
    size_t copies = (size_t)(step->in.dtype != VC_DTYPE_F32) + (s->options->nonfinite == VC_NONFINITE_ZERO);

    return copies * (n + 64) + vc_int8_local_scales(step, s) * 15 + (size_t)6 * 64;
}

static void *carve(char **p, size_t n)
{
    void *at = *p;

    *p += vc_scratch_room(n);
    return at;
}

void vc_int8_scratch_carve(const struct vc_step *step, const struct vc_int8_state *s, void *memory,
                           struct vc_int8_scratch *out)
{
    size_t n = vc_tile_elems(step) * sizeof(float);
    size_t n_local = vc_int8_local_scales(step, s);
    char *p = memory;

    memset(out, 0, sizeof *out);
    out->x = step->in.dtype != VC_DTYPE_F32 ? carve(&p, n) : NULL;
    out->clean = s->options->nonfinite == VC_NONFINITE_ZERO ? carve(&p, n) : NULL;
    out->scale = carve(&p, n_local * sizeof(float));
    out->stored = carve(&p, n_local * sizeof(uint16_t));
    out->pos = carve(&p, n_local * sizeof(uint32_t));
    out->neg = carve(&p, n_local * sizeof(uint32_t));
    out->zero = carve(&p, n_local);
}

enum vc_status vc_int8_widen(struct vc_ctx *ctx, const struct vc_step *step, const struct vc_tile *tile, const void *in,
                             struct vc_int8_scratch *scratch, const float **x)
{
    const struct vc_kernels *k = vc_kernels_get(ctx);

    VC_CALL_FOUND(ctx, k);
    *x = scratch->x;
    switch (step->in.dtype) {
    case VC_DTYPE_F16:
        VC_KERNEL_CALL(k->f16_to_f32(in, tile->n_elems, scratch->x));
        break;
    case VC_DTYPE_BF16:
        VC_KERNEL_CALL(k->bf16_to_f32(in, tile->n_elems, scratch->x));
        break;
    case VC_DTYPE_F64:
        VC_KERNEL_CALL(k->f64_to_f32(in, tile->n_elems, scratch->x));
        break;
    default:
        *x = in;
        break;
    }
    return VC_OK;
}

void vc_int8_map_tile(const struct vc_int8_state *s, const struct vc_tile *tile, struct vc_int8_tile_map *map)
{
    *map = (struct vc_int8_tile_map){.group = (size_t)vc_min_u64(s->group, tile->row_len)};
    if (!s->by_rows) {
        map->axis = (struct vc_axis_map){tile->first, s->inner, s->n_scales};
        map->n_local = (size_t)s->n_scales;
    } else if (s->scan) { /* a piece of one row that may begin and end inside a group */
        map->first_scale = tile->row0 * s->n_groups + tile->col0 / s->group;
        map->n_local = (size_t)vc_ceil_div_u64(tile->col0 % s->group + tile->row_len, s->group);
        map->axis = (struct vc_axis_map){tile->col0 % s->group, s->group, map->n_local};
    } else {
        map->rows = true;
        map->first_scale = tile->row0 * s->n_groups + tile->col0 / s->group;
        map->n_local = tile->n_rows * (size_t)vc_ceil_div_u64(tile->row_len, map->group);
    }
}

enum vc_status vc_int8_refuse(struct vc_ctx *ctx)
{
    return vc_fail(ctx, VC_E_UNSUPPORTED, "a value is not finite"); /* explain says which, where, how many */
}

static bool any_nonfinite(const uint32_t *bits, size_t n)
{
    uint32_t top = 0;

    for (size_t i = 0; bits != NULL && i < n; i++) {
        top = bits[i] > top ? bits[i] : top;
    }
    return top >= VC_F32_INF_BITS;
}

/* Magnitudes of the tile's groups without NaN and Inf, and a copy of the tile in which they are replaced. */
static enum vc_status clean_tile(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_tile *tile,
                                 const struct vc_int8_tile_map *map, struct vc_int8_scratch *t, bool asymmetric,
                                 const float **x, uint64_t *replaced)
{
    (void)vc_int8_sanitize(*x, tile, map, NULL, NULL, t->clean);
    if (asymmetric) {
        VC_KERNEL_CALL(k->range_rows(t->clean, tile->n_rows, tile->row_len, map->group, t->pos, t->neg));
    } else {
        VC_KERNEL_CALL(k->absmax_rows(t->clean, tile->n_rows, tile->row_len, map->group, t->pos));
    }
    *replaced = vc_int8_sanitize(*x, tile, map, t->pos, asymmetric ? t->neg : NULL, t->clean);
    *x = t->clean;
    return VC_OK;
}

/* Symmetric, f32 scales, and the tile holds every element of them: one kernel finds them and makes the codes. */
static enum vc_status apply_symmetric(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_int8_state *s,
                                      const struct vc_tile *tile, const struct vc_int8_tile_map *map,
                                      struct vc_int8_scratch *t, const float *x, struct vc_tile_out *out)
{
    VC_KERNEL_CALL(k->int8_rows(x, tile->n_rows, tile->row_len, map->group, t->pos, t->scale, out->data, out->stats));
    if (any_nonfinite(t->pos, map->n_local)) {
        const float *clean = x;

        if (s->options->nonfinite != VC_NONFINITE_ZERO) {
            return vc_int8_refuse(ctx);
        }
        VC_CALL(clean_tile(ctx, k, tile, map, t, false, &clean, &out->nonfinite));
        VC_KERNEL_CALL(
            k->int8_rows(clean, tile->n_rows, tile->row_len, map->group, t->pos, t->scale, out->data, out->stats));
        VC_CALL(vc_int8_measure(ctx, tile, map, x, t->scale, NULL, t->clean, out));
    }
    return VC_OK;
}

enum vc_status vc_int8_magnitudes(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_int8_state *s,
                                  const struct vc_tile *tile, const struct vc_int8_tile_map *map,
                                  struct vc_int8_scratch *t, const float **x, uint64_t *replaced)
{
    VC_KERNEL_CALL(k->absmax_rows(*x, tile->n_rows, tile->row_len, map->group, t->pos));
    if (any_nonfinite(t->pos, map->n_local)) {
        if (s->options->nonfinite != VC_NONFINITE_ZERO) {
            return vc_int8_refuse(ctx);
        }
        VC_CALL(clean_tile(ctx, k, tile, map, t, false, x, replaced));
    }
    return VC_OK;
}

/* The same with scales that are rounded to a narrower type before the codes are made. */
static enum vc_status apply_rounded(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_int8_state *s,
                                    const struct vc_tile *tile, const struct vc_int8_tile_map *map,
                                    struct vc_int8_scratch *t, const float *x, struct vc_tile_out *out)
{
    const float *clean = x;

    VC_CALL(vc_int8_magnitudes(ctx, k, s, tile, map, t, &clean, &out->nonfinite));
    vc_int8_scales(s, t->pos, map->n_local, t->scale, t->stored);
    VC_KERNEL_CALL(
        k->int8_rows_given(clean, tile->n_rows, tile->row_len, map->group, t->scale, NULL, out->data, out->stats));
    if (clean != x) {
        VC_CALL(vc_int8_measure(ctx, tile, map, x, t->scale, NULL, t->clean, out));
    }
    return VC_OK;
}

/* With zero points; the tile holds every element of its scales. */
static enum vc_status apply_asymmetric(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_int8_state *s,
                                       const struct vc_tile *tile, const struct vc_int8_tile_map *map,
                                       struct vc_int8_scratch *t, const float *x, struct vc_tile_out *out)
{
    const float *clean = x;

    VC_KERNEL_CALL(k->range_rows(x, tile->n_rows, tile->row_len, map->group, t->pos, t->neg));
    if (any_nonfinite(t->pos, map->n_local) || any_nonfinite(t->neg, map->n_local)) {
        if (s->options->nonfinite != VC_NONFINITE_ZERO) {
            return vc_int8_refuse(ctx);
        }
        VC_CALL(clean_tile(ctx, k, tile, map, t, true, &clean, &out->nonfinite));
    }
    vc_int8_asym_scales(s, t->pos, t->neg, map->n_local, t->scale, t->stored, t->zero);
    VC_KERNEL_CALL(
        k->int8_rows_given(clean, tile->n_rows, tile->row_len, map->group, t->scale, t->zero, out->data, out->stats));
    if (clean != x) {
        VC_CALL(vc_int8_measure(ctx, tile, map, x, t->scale, t->zero, t->clean, out));
    }
    return VC_OK;
}

/* Scales from the scan. */
static enum vc_status apply_given(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_int8_state *s,
                                  const struct vc_tile *tile, const struct vc_int8_tile_map *map,
                                  struct vc_int8_scratch *t, const float *x, struct vc_tile_out *out)
{
    const float *scale = s->scale + map->first_scale;
    const int8_t *zero = s->zero != NULL ? s->zero + map->first_scale : NULL;

    if (s->has_nonfinite) {
        out->nonfinite = vc_int8_sanitize(x, tile, map, s->pos + map->first_scale,
                                          s->neg != NULL ? s->neg + map->first_scale : NULL, t->clean);
    }
    VC_KERNEL_CALL(k->int8_axis_given(out->nonfinite != 0 ? t->clean : x, tile->n_rows, tile->row_len, &map->axis,
                                      scale, zero, out->data, out->stats));
    if (out->nonfinite != 0) {
        VC_CALL(vc_int8_measure(ctx, tile, map, x, scale, zero, t->clean, out));
    }
    return VC_OK;
}

/* The n scales from number `first` on, in the form that is stored. */
static void give_scales(const struct vc_int8_state *s, struct vc_tile_out *out, const float *scale,
                        const uint16_t *stored, const uint32_t *absmax, uint64_t first, size_t n)
{
    const void *data = s->absmax ? (const void *)absmax : s->scale_dtype != VC_DTYPE_F32 ? (const void *)stored : scale;

    out->parts[0] = (struct vc_part_view){.data = data, .first = first, .n = n, .write = true};
}

static void give_zeros(struct vc_tile_out *out, const int8_t *zero, uint64_t first, size_t n)
{
    out->parts[1] = (struct vc_part_view){.data = zero, .first = first, .n = n, .write = true};
}

static enum vc_status int8_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                 const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                 struct vc_tile_out *out)
{
    const struct vc_int8_state *s = step->state;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    struct vc_int8_scratch t;
    struct vc_int8_tile_map map;
    const float *x;

    VC_CALL_FOUND(ctx, k);
    vc_int8_scratch_carve(step, s, scratch, &t);
    vc_int8_map_tile(s, tile, &map);
    VC_CALL(vc_int8_widen(ctx, step, tile, in->data, &t, &x));
    if (s->scan) { /* all scales are known: each tile gives them to the next step, tile 0 has them written */
        VC_CALL(apply_given(ctx, k, s, tile, &map, &t, x, out));
        give_scales(s, out, s->scale, s->stored, s->pos, 0, (size_t)s->n_scales);
        out->parts[0].write = tile->index == 0;
        if (s->zero != NULL) {
            give_zeros(out, s->zero, 0, (size_t)s->n_scales);
            out->parts[1].write = tile->index == 0;
        }
        return VC_OK;
    }
    if (s->options->asymmetric) {
        VC_CALL(apply_asymmetric(ctx, k, s, tile, &map, &t, x, out));
        give_zeros(out, t.zero, map.first_scale, map.n_local);
    } else if (s->scale_dtype != VC_DTYPE_F32) {
        VC_CALL(apply_rounded(ctx, k, s, tile, &map, &t, x, out));
    } else {
        VC_CALL(apply_symmetric(ctx, k, s, tile, &map, &t, x, out));
    }
    give_scales(s, out, t.scale, t.stored, t.pos, map.first_scale, map.n_local);
    return VC_OK;
}

/* ---- the row ---- */

static const struct vc_step_ops int8_ops = {.calibrate = vc_policy_calibrate,
                                            .explain = vc_policy_explain,
                                            .begin = vc_int8_begin,
                                            .scan = vc_int8_scan,
                                            .scan_end = vc_int8_scan_end,
                                            .apply = int8_apply,
                                            .end = vc_int8_end,
                                            .forget = vc_policy_forget};

/* How the codes become values. */
static enum vc_status add_quant(struct vc_ctx *ctx, struct vc_item *item, struct vc_step *step,
                                const struct vc_int8_state *s, enum vc_dtype weights)
{
    struct vc_quant *quant = vc_arena_alloc(ctx, item->set->arena, sizeof *quant);

    VC_CALL_ALLOC(quant);
    *quant =
        (struct vc_quant){.scheme = s->row->scheme,
                          .granularity = s->granularity,
                          .axis = s->axis,
                          .group_size = s->granularity == VC_GRANULARITY_GROUP || s->group_rows != 0 ? s->group : 0,
                          .symmetric = !s->options->asymmetric && !s->zeros,
                          .source_dtype = weights,
                          .group_rows = s->group_rows};
    step->out.quant = quant;
    return VC_OK;
}

/* Why the scales lie along that axis, where the tensor's name told. */
static const char *axis_reason(const struct vc_item *item, const struct vc_int8_state *s)
{
    const struct vc_tensor *tensor = &item->set->model->tensors[item->source];
    bool by_name = s->granularity == VC_GRANULARITY_CHANNEL && s->options->axis == VC_AXIS_OUTPUT;

    return by_name && s->axis == tensor->channel_axis ? tensor->axis_reason : NULL;
}

enum vc_status vc_int8_add_step(struct vc_ctx *ctx, struct vc_item *item, const struct vc_scheme_row *row,
                                const struct vc_step_ops *ops, const struct vc_quantize_options *options,
                                enum vc_dtype weights, struct vc_int8_state *s, struct vc_step **out)
{
    struct vc_step *step;

    s->row = row;
    s->options = options;
    s->policy = (struct vc_policy){.nonfinite = options->nonfinite,
                                   .overflow = options->overflow,
                                   .room = VC_DTYPE_F32,
                                   .codes = true,
                                   .advice = VC_ADVICE_NONFINITE};
    choose_map(s, item);
    choose_scale(item, weights, s);
    VC_CALL(vc_policy_add_step(ctx, item, ops, &s->policy, &step));
    step->action = VC_ACTION_QUANTIZED;
    step->scheme = scheme_label(ctx, item, s);
    VC_CALL_ALLOC(step->scheme);
    step->why = axis_reason(item, s);
    step->lossy = true;
    step->out.dtype = row->result;
    VC_CALL(add_quant(ctx, item, step, s, weights));
    VC_CALL(add_scale_parts(ctx, item, step, s));
    vc_item_replan(item);
    *out = step;
    return VC_OK;
}

static enum vc_status add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                          enum vc_dtype weights, const float *given)
{
    struct vc_int8_state *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    struct vc_step *step;

    VC_CALL_ALLOC(s);
    s->given = given;
    s->zeros = given != NULL;
    VC_CALL(vc_int8_add_step(ctx, item, &vc_scheme_int8, &int8_ops, options, weights, s, &step));
    step->scan = s->scan;
    step->state_bytes = s->scan ? (size_t)s->n_scales * (options->asymmetric || s->zeros ? 15 : 10) : 0;
    step->scratch_bytes = vc_int8_scratch_bytes(step, s);
    return VC_OK;
}

static enum vc_status int8_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                               enum vc_dtype weights)
{
    return add(ctx, item, options, weights, NULL);
}

enum vc_status vc_int8_add_given(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                                 const float *scale)
{
    return add(ctx, item, options, vc_desc_weight_dtype(item->desc), scale);
}

static const struct vc_scheme_granularity granularities[] = {{VC_GRANULARITY_TENSOR, 0},
                                                             {VC_GRANULARITY_CHANNEL, 0},
                                                             {VC_GRANULARITY_GROUP, 128},
                                                             {VC_GRANULARITY_GROUP, 64},
                                                             {VC_GRANULARITY_GROUP, 32}};

const struct vc_scheme_row vc_scheme_int8 = {.target = VC_TARGET_INT8,
                                             .name = "int8",
                                             .flag = "--int8",
                                             .result = VC_DTYPE_I8,
                                             .scheme = VC_SCHEME_INT8,
                                             .codes = true,
                                             .n_granularities = sizeof granularities / sizeof granularities[0],
                                             .granularities = granularities,
                                             .add = int8_add};
