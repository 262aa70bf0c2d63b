/* code_scales.c - what all codes with scales beside them share: how elements map to scales, the step with its label and
 * parts, the scratch of a tile. int8.c, group_codes.c and block_codes.c have the schemes.
 *
 * Where the scale of an element is, of w [6, 8] with groups of 4 and of w [6, 8] by columns (axis 1):
 *
 *     by_rows       0 0 0 0 1 1 1 1        by axis    0 1 2 3 4 5 6 7        inner 1: element i has i / 1 % 8
 *                   2 2 2 2 3 3 3 3                   0 1 2 3 4 5 6 7
 *                   ...                               ... */

#include "core/model/code_schemes.h"
#include "kernels/grid_codes.h"
#include "quantize/schemes/int8.h"

/* ---- planning ---- */

/* "int4/group:128", "fp8/block:128", "int8/channel/asym". Groups down the columns are blocks inside, and groups in the
 * label, as the user has asked for them. */
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
 * the codes, [rows, groups] for groups. Zero points have the same. Blocks have [rows of blocks, blocks in a row]. */
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

/* An axis that was given holds; else scales of rows are those of axis 0, and others lie where the outputs of the tensor
 * are, axis 1 for Conv1D of GPT-2 and products x * w of ONNX. */
int vc_int8_axis(const struct vc_scheme_row *row, const struct vc_quantize_options *options, const struct vc_item *item)
{
    bool rows_only = options->granularity == VC_GRANULARITY_GROUP || (row != NULL && row->rows_only) ||
                     (item->set->dialect != NULL && item->set->dialect->rows_only);

    if (options->axis != VC_AXIS_OUTPUT) {
        return options->axis;
    }
    return rows_only ? 0 : (int)item->set->model->tensors[item->source].channel_axis;
}

/* Sets scale_dtype and absmax: what the output's dialect stores. Bitsandbytes stores the largest magnitudes of int8,
 * from which its kernels make the scales. */
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

/* Codes are made with the scale as it will be read: a narrower one is rounded first. */
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

/* A scale that rounds to 0 becomes the smallest above 0: codes divide by it. */
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

/* The dialect decides for groups: loaders of weights as [in, out] want them down the columns. */
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

/* Blocks of rows and columns, or groups of rows in each column. Groups down the columns are blocks of one column.
 * group_rows counts rows in both. A tile may hold a part of a block, so a scan finds the scales. */
static void map_blocks(struct vc_int8_state *s, uint64_t n_rows)
{
    s->group = s->granularity == VC_GRANULARITY_BLOCK ? s->options->group_size : 1;
    s->granularity = VC_GRANULARITY_BLOCK;
    s->group_rows = s->options->group_size;
    s->n_groups = vc_ceil_div_u64(s->row_len, s->group);
    s->n_scales = vc_ceil_div_u64(n_rows, s->group_rows) * s->n_groups;
    s->scan = true;
}

/* How elements map to scales, from options and shape: see struct vc_int8_state. Scales of rows are found with the tile
 * where a tile holds whole groups; else, and along any other axis, by a scan. Scales that are given (codes of
 * activations) are held in memory, as a scan has them. */
static void choose_map(struct vc_int8_state *s, const struct vc_item *item)
{
    const struct vc_quantize_options *o = s->options;
    const struct vc_desc *desc = item->desc;
    int axis = vc_int8_axis(s->row, o, item);
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
        s->group = s->granularity == VC_GRANULARITY_GROUP ? vc_scheme_group(s->row, o, item) : s->row_len;
        s->n_groups = vc_ceil_div_u64(s->row_len, s->group);
        s->n_scales = n_rows * s->n_groups;
        s->scan = s->row_len > VC_TILE_ELEMS && VC_TILE_ELEMS % s->group != 0;
        return;
    }
    s->scan = true;
    s->n_scales = s->granularity == VC_GRANULARITY_TENSOR ? 1 : desc->shape[s->axis];
    /* Elements behind each other that share a scale: the product of the axes behind this one. */
    s->inner = s->granularity == VC_GRANULARITY_TENSOR ? desc->n_elems : 1;
    for (unsigned d = s->axis + 1; s->granularity == VC_GRANULARITY_CHANNEL && d < desc->n_dims; d++) {
        s->inner *= desc->shape[d];
    }
}

/* How the codes become values. The descriptor of the codes, which the output's dialect writes down and decoders
 * read. */
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

/* Why the scales lie along that axis, where the tensor's name told; or why groups are smaller than those of the options. */
static const char *scales_reason(const struct vc_item *item, const struct vc_int8_state *s)
{
    const struct vc_tensor *tensor = &item->set->model->tensors[item->source];
    bool by_name = s->granularity == VC_GRANULARITY_CHANNEL && s->options->axis == VC_AXIS_OUTPUT;

    if (s->granularity == VC_GRANULARITY_GROUP && s->group < s->options->group_size) {
        return "larger groups do not divide the rows";
    }
    return by_name && s->axis == tensor->channel_axis ? tensor->axis_reason : NULL;
}

/* The map comes before the policy, since the label and the parts depend on it. */
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
    VC_CALL_ALLOC(step->scheme = scheme_label(ctx, item, s));
    step->why = scales_reason(item, s);
    step->lossy = true;
    step->out.dtype = row->result;
    VC_CALL(add_quant(ctx, item, step, s, weights));
    VC_CALL(add_scale_parts(ctx, item, step, s));
    vc_item_replan(item);
    *out = step;
    return VC_OK;
}

/* ---- scratch, and the values of a tile ---- */

/* A piece of a row that begins and ends inside groups touches two more than fit in it. */
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

/* 15 bytes a scale: 4 for itself, 2 as a half, 4 for each of two magnitudes, 1 for the zero point. */
size_t vc_int8_scratch_bytes(const struct vc_step *step, const struct vc_int8_state *s)
{
    size_t n = vc_tile_elems(step) * sizeof(float);
    size_t copies = (size_t)(step->in.dtype != VC_DTYPE_F32) + (s->options->nonfinite == VC_NONFINITE_ZERO);

    return copies * (n + 64) + vc_int8_local_scales(step, s) * 15 + (size_t)6 * 64;
}

/* The next array; what follows begins at a multiple of 64 bytes. */
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

/* Local numbers keep the scratch of a tile small: a tensor may have millions of groups. */
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
