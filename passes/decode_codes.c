/* decode_codes.c - the decoder of codes with scales beside them: values (q - z) * s of int8 and int4, grid[q] * s of
 * the others (core/model/code_schemes.h). Two codes of four bits lie in a byte. Scales are f32, f16 or bf16, or
 * absolute maxima, or bytes of E8M0 or E4M3. They come whole with the source, or, from a step before this one, with
 * each tile. Codes of other programs may have a float beside each scale (enum vc_offset_rule), and groups in an order of
 * their own. What is too large for f32 is decided by policy where the caller gives one. */
#include <float.h>

#include "core/model/code_schemes.h"
#include "kernels/arith.h"
#include "kernels/grid_codes.h"
#include "kernels/kernels.h"
#include "passes/decoders.h"
#include "passes/nonfinite.h"

struct codes_state {
    struct vc_policy policy; /* first; its overflow is that of a finite scale's product */
    struct vc_quant quant;
    const struct vc_code_scheme *codes;
    bool has_grid;                /* values are grid[code] * scale; else the codes are whole numbers */
    float grid[256];              /* by code */
    size_t global_part;           /* among step->in.parts; SIZE_MAX: scales are not divided */
    float global;                 /* ... what they are divided by, where it is a tensor of the source */
    size_t scale_part, zero_part; /* among step->in.parts; zero_part SIZE_MAX: symmetric */
    size_t offset_part, order_part;
    uint64_t row_len, n_groups, group, inner, n_scales;
    uint64_t group_rows; /* rows that share the scales of their groups */
    bool by_rows;
    size_t code_bytes; /* of scratch, in front of scales: codes of a tile, a byte each; 0: they come so */

    float *scale; /* of the whole tensor, from begin to end; NULL: they come with each tile */
    int8_t *zero;
    float *offset;        /* NULL: none. Scales, offsets and order of special codes come whole with the source */
    unsigned char *order; /* the group of each column, i32; NULL: groups follow each other */
    bool may_overflow;    /* some product of these can, and the policy changes or refuses it */

    bool finite_scales; /* others are refused */
};

/* The scales that a tile needs: those of the tensor from number `first` on. */
struct tile_scales {
    const float *scale;
    const int8_t *zero;
    uint64_t first;
    bool may_overflow;
};

/* Codes of less than a byte become bytes first. */
size_t vc_decode_scratch(enum vc_dtype codes, uint64_t n_elems)
{
    return codes != VC_DTYPE_NONE && vc_dtype_size(codes) == 0
               ? ((size_t)vc_min_u64(n_elems, VC_TILE_ELEMS) + 63) & ~(size_t)63
               : 0;
}

/* Groups of a row, or blocks over several rows, share a scale. */
static bool has_groups(const struct vc_quant *quant)
{
    return quant->granularity == VC_GRANULARITY_GROUP || quant->granularity == VC_GRANULARITY_BLOCK;
}

/* Works out where the scale of an element lies. With rows of row_len elements in n_groups groups:
 *
 *     by rows       row / group_rows * n_groups + column / group
 *     otherwise     element / inner % n_scales        inner: elements behind the axis that has the scales
 *
 * `inner` is all elements for one scale of the tensor. */
static void map_scales(struct codes_state *s, const struct vc_desc *desc)
{
    const struct vc_quant *quant = desc->quant;
    uint64_t n_rows;

    s->quant = *quant;
    s->codes = vc_code_scheme(quant->scheme);
    s->has_grid = s->codes->grid != VC_GRID_NONE;
    if (s->has_grid) {
        vc_float_values(s->codes->grid, s->grid);
    }
    s->global_part = vc_desc_find_part(desc, VC_PART_GLOBAL_SCALE);
    s->code_bytes = vc_decode_scratch(desc->dtype, desc->n_elems);
    s->scale_part = vc_desc_find_part(desc, VC_PART_ABSMAX);
    s->scale_part = s->scale_part != SIZE_MAX ? s->scale_part : vc_desc_find_part(desc, VC_PART_SCALE);
    s->zero_part = vc_desc_find_part(desc, VC_PART_ZERO_POINT);
    s->offset_part = vc_desc_find_part(desc, VC_PART_OFFSET);
    s->order_part = vc_desc_find_part(desc, VC_PART_ORDER);
    s->n_scales = desc->parts[s->scale_part].n_elems;
    vc_rows_of(desc->shape, desc->n_dims, &n_rows, &s->row_len);
    s->by_rows =
        quant->scale_run == 0 &&
        (has_groups(quant) || (quant->granularity == VC_GRANULARITY_CHANNEL && quant->axis == 0 && desc->n_dims >= 2));
    s->group = has_groups(quant) ? quant->group_size : s->row_len;
    s->group_rows = quant->granularity == VC_GRANULARITY_BLOCK ? quant->group_rows : 1;
    s->n_groups = s->row_len == 0 ? 0 : vc_ceil_div_u64(s->row_len, s->group);
    s->inner = quant->granularity == VC_GRANULARITY_TENSOR ? vc_max_u64(1, desc->n_elems) : 1;
    for (unsigned d = quant->axis + 1; quant->granularity == VC_GRANULARITY_CHANNEL && d < desc->n_dims; d++) {
        s->inner *= desc->shape[d];
    }
    s->inner = quant->scale_run != 0 ? quant->scale_run : s->inner;
    s->global = 1.0f;
}

/* ---- scales ---- */

/* A scale that is a byte: a power of two, or an E4M3 number that is divided by that of the tensor. */
static float scale_of_byte(const struct codes_state *s, uint8_t byte, float global)
{
    return s->codes->scale == VC_DTYPE_F8_E8M0 ? vc_e8m0_value(byte)
           : s->quant.global_multiplies        ? vc_e4m3_value(byte) * global
                                               : vc_e4m3_value(byte) / global;
}

/* n stored scales as f32. `from` may be the upper half of the room at `scale`, with scales of 16 or 8 bits: going
 * upwards, a float is never written over a scale that has not been read. */
static void widen_scales(const struct codes_state *s, const struct vc_part_desc *part, const unsigned char *from,
                         size_t n, float global, float *scale)
{
    for (size_t i = 0; i < n; i++) {
        float value;

        if (s->codes->scale != VC_DTYPE_NONE) {
            value = scale_of_byte(s, from[i], global);
        } else if (part->dtype == VC_DTYPE_F32) {
            memcpy(&value, from + 4 * i, sizeof value);
        } else {
            uint16_t h = vc_le16(from + 2 * i);
            value = part->dtype == VC_DTYPE_F16 ? vc_f16_to_f32(h) : vc_bf16_to_f32(h);
        }
        scale[i] = part->role == VC_PART_ABSMAX ? vc_int8_scale_of_absmax(value) : value;
    }
}

/* No value with that scale and offset is beyond this. */
static double magnitude(const struct codes_state *s, float scale, float offset)
{
    double product = fabs((double)s->codes->largest * (double)scale);

    return product + fabs((double)offset * (s->quant.offset_rule == VC_OFFSET_BEFORE ? (double)scale : 1.0));
}

/* Some code could be beyond f32 with one of these scales, and the policy does something about it. */
static bool any_overflows(const struct codes_state *s, const float *scale, size_t n)
{
    size_t i = 0;

    if (s->policy.overflow == VC_OVERFLOW_INF) {
        return false;
    }
    while (i < n && !vc_int8_steps_overflow(s->codes->largest, scale[i]) &&
           (s->offset == NULL || magnitude(s, scale[i], s->offset[i]) < FLT_MAX)) {
        i++;
    }
    return i < n;
}

/* NaN and Inf among all scales of the tensor, or their offsets, where they are refused. */
static enum vc_status check_scales(struct vc_ctx *ctx, const struct codes_state *s, const struct vc_part_desc *part,
                                   const float *values, const char *what)
{
    const struct vc_desc desc = {
        .dtype = part->dtype, .n_dims = part->n_dims, .shape = part->shape, .n_elems = part->n_elems};
    struct vc_specials specials;
    enum vc_status status = VC_OK;

    if (!s->finite_scales || !vc_has_nonfinite(VC_DTYPE_F32, values, (size_t)s->n_scales)) {
        return VC_OK;
    }
    VC_CALL(vc_specials_init(ctx, &specials, vc_largest_fitting(VC_DTYPE_F32)));
    vc_specials_add(&specials, VC_DTYPE_F32, values, (size_t)s->n_scales, 0);
    status = vc_specials_fail_nonfinite(ctx, &specials, &desc, what, VC_ADVICE_EXCLUDE);
    vc_specials_release(&specials);
    return status;
}

/* Scales that are codes of scales. The codes may be the upper part of the room at `scale`, as in widen_scales. */
static void decode_scales(const struct codes_state *s, const float *book, const float *outer,
                          const struct vc_part_view *view, float *scale)
{
    const unsigned char *from = view->data;

    for (size_t i = 0; i < view->n; i++) {
        scale[i] = book[from[i]] * outer[(view->first + i) / s->quant.scale_group] + s->quant.scale_offset;
    }
}

/* The same of a tensor of the source. */
static enum vc_status load_scales(struct vc_ctx *ctx, const struct codes_state *s, const struct vc_step *step,
                                  const struct vc_item *item, const unsigned char *from, size_t n, float *scale)
{
    const struct vc_part_desc *book = &step->in.parts[vc_desc_find_part(&step->in, VC_PART_CODEBOOK)];
    const struct vc_part_desc *outer = &step->in.parts[vc_desc_find_part(&step->in, VC_PART_SCALE_SCALE)];
    VC_SCOPED float *values = vc_alloc_array(ctx, VC_TAG_SCALES, 256 + (size_t)outer->n_elems, sizeof *values);

    VC_CALL_ALLOC(values);
    VC_CALL(vc_part_load(ctx, item, book, values));
    VC_CALL(vc_part_load(ctx, item, outer, values + 256));
    decode_scales(s, values, values + 256, &(struct vc_part_view){.data = from, .n = n}, scale);
    return VC_OK;
}

/* What codes of other programs have beside their scales. */
static enum vc_status load_special(struct vc_ctx *ctx, struct codes_state *s, const struct vc_step *step,
                                   const struct vc_item *item)
{
    const struct vc_part_desc *offset = s->offset_part != SIZE_MAX ? &step->in.parts[s->offset_part] : NULL;
    size_t n = (size_t)s->n_scales;

    if (offset != NULL) {
        VC_CALL(VC_ARRAY(ctx, VC_TAG_SCALES, s->offset, n));
        unsigned char *upper = (unsigned char *)s->offset + n * (sizeof *s->offset - vc_dtype_size(offset->dtype));
        VC_CALL(vc_part_load(ctx, item, offset, upper));
        widen_scales(s, offset, upper, n, 1.0f, s->offset);
        VC_CALL(check_scales(ctx, s, offset, s->offset, "offsets"));
    }
    if (s->order_part != SIZE_MAX) {
        VC_CALL(VC_ARRAY(ctx, VC_TAG_SCALES, s->order, 4 * (size_t)s->row_len));
        VC_CALL(vc_part_load(ctx, item, &step->in.parts[s->order_part], s->order));
    }
    return VC_OK;
}

/* Reads the scales and zero points that are tensors of the source. */
static enum vc_status codes_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct codes_state *s = step->state;
    enum vc_status status = VC_OK;
    size_t n = (size_t)s->n_scales;

    if (step->in.parts[s->scale_part].maker != NULL) {
        return VC_OK;
    }
    const struct vc_part_desc *part = &step->in.parts[s->scale_part];
    VC_TRY(VC_ARRAY(ctx, VC_TAG_SCALES, s->scale, n));
    unsigned char *upper = (unsigned char *)s->scale + n * (sizeof *s->scale - vc_dtype_size(part->dtype));
    VC_TRY(vc_part_load(ctx, item, part, upper));
    if (s->global_part != SIZE_MAX) {
        VC_TRY(vc_part_load(ctx, item, &step->in.parts[s->global_part], &s->global));
        VC_REFUSE_IF(s->finite_scales && !(s->global > 0.0f && s->global < INFINITY), ctx, VC_E_UNSUPPORTED,
                     "its global scale is %g, which is not finite and above 0; %s leaves the "
                     "tensor as it is",
                     (double)s->global, vc_option(ctx, "include=false"));
    }
    if (s->quant.scale_group != 0) {
        VC_TRY(load_scales(ctx, s, step, item, upper, n, s->scale));
    } else {
        widen_scales(s, part, upper, n, s->global, s->scale);
    }
    if (s->zero_part != SIZE_MAX) {
        VC_TRY(VC_ARRAY(ctx, VC_TAG_SCALES, s->zero, n));
        VC_TRY(vc_part_load(ctx, item, &step->in.parts[s->zero_part], s->zero));
    }
    VC_TRY(load_special(ctx, s, step, item));
    s->may_overflow = any_overflows(s, s->scale, n);
    VC_TRY(check_scales(ctx, s, part, s->scale, "scales"));
out:
    return status; /* end frees what is there */
}

/* Frees what begin has read. */
static void codes_end(struct vc_ctx *ctx, struct vc_step *step)
{
    struct codes_state *s = step->state;

    VC_FREE_ALL(ctx, s->scale, s->zero, s->offset, s->order);
    s->scale = NULL;
    s->zero = NULL;
    s->offset = NULL;
    s->order = NULL;
}

/* The scales of a tile: the tensor's, or those that came with the tile, as f32 in scratch. */
static enum vc_status find_scales(struct vc_ctx *ctx, const struct vc_step *step, const struct vc_tile_in *in,
                                  void *scratch, struct tile_scales *out)
{
    const struct codes_state *s = step->state;
    float global = 1.0f;

    *out = (struct tile_scales){s->scale, s->zero, 0, s->may_overflow};
    if (s->scale != NULL) {
        return VC_OK;
    }
    const struct vc_part_view *view = &in->parts[s->scale_part];
    VC_REFUSE_IF(view->data == NULL || (s->global_part != SIZE_MAX && in->parts[s->global_part].data == NULL), ctx,
                 VC_E_INTERNAL, "its scales did not come with the codes");
    scratch = (char *)scratch + s->code_bytes;
    if (s->global_part != SIZE_MAX) {
        memcpy(&global, in->parts[s->global_part].data, sizeof global);
    }
    if (s->quant.scale_group != 0) {
        const float *book = in->parts[vc_desc_find_part(&step->in, VC_PART_CODEBOOK)].data;
        const float *outer = in->parts[vc_desc_find_part(&step->in, VC_PART_SCALE_SCALE)].data;

        decode_scales(s, book, outer, view, scratch);
    } else {
        widen_scales(s, &step->in.parts[s->scale_part], view->data, view->n, global, scratch);
    }
    out->scale = scratch;
    out->zero = s->zero_part != SIZE_MAX ? in->parts[s->zero_part].data : NULL;
    out->first = view->first;
    out->may_overflow = any_overflows(s, scratch, view->n);
    return VC_OK;
}

/* ---- codes ---- */

/* The number of the scale of an element among those of the tile. A group beyond the last was refused by the reader; a
 * file that has changed since gets the last one. */
static size_t scale_of(const struct codes_state *s, const struct tile_scales *t, uint64_t flat)
{
    if (s->order != NULL) {
        uint64_t group = vc_le32(s->order + 4 * (flat % s->row_len));

        return (size_t)(flat / s->row_len * s->n_groups + vc_min_u64(group, s->n_groups - 1));
    }
    return (size_t)((s->by_rows ? flat / s->row_len / s->group_rows * s->n_groups + flat % s->row_len / s->group
                                : flat / s->inner % s->n_scales) -
                    t->first);
}

/* A code that counts from 0. */
static float count_of(const struct codes_state *s, int8_t q)
{
    return (float)((int)q + (1 << (vc_code_bits(s->codes) - 1)));
}

/* One code. k is the number of its scale among those of the tile. */
static float decode_one(const struct codes_state *s, const struct tile_scales *t, size_t k, int8_t q)
{
    switch (s->offset != NULL ? s->quant.offset_rule : VC_OFFSET_NONE) {
    case VC_OFFSET_BEFORE:
        return (count_of(s, q) - s->offset[k]) * t->scale[k];
    case VC_OFFSET_AFTER:
        return count_of(s, q) * t->scale[k] + s->offset[k];
    case VC_OFFSET_MINUS:
        return count_of(s, q) * t->scale[k] - s->offset[k];
    case VC_OFFSET_NONE:
        break;
    }
    return s->has_grid ? vc_grid_decode(s->grid[(uint8_t)q], t->scale[k])
                       : vc_int8_decode(q, t->scale[k], t->zero != NULL ? t->zero[k] : 0);
}

/* Codes whose scales are shared by several rows, and special ones. */
static void decode_each(const struct codes_state *s, const struct tile_scales *t, const struct vc_tile *tile,
                        const int8_t *q, char *y)
{
    for (size_t i = 0; i < tile->n_elems; i++) {
        float value = decode_one(s, t, scale_of(s, t, tile->first + i), q[i]);

        memcpy(y + i * sizeof value, &value, sizeof value);
    }
}

/* Code i of 32 bits, little-endian. */
static int32_t wide_code(const void *q, size_t i)
{
    return (int32_t)vc_le32((const unsigned char *)q + i * sizeof(int32_t));
}

static bool is_wide(const struct codes_state *s)
{
    return s->codes->codes == VC_DTYPE_I32;
}

/* Codes of 32 bits, which biases have. */
static void decode_wide(const struct codes_state *s, const struct tile_scales *t, const struct vc_tile *tile,
                        const void *q, char *y)
{
    for (size_t i = 0; i < tile->n_elems; i++) {
        float value = (float)wide_code(q, i) * t->scale[scale_of(s, t, tile->first + i)];

        memcpy(y + i * sizeof value, &value, sizeof value);
    }
}

/* Where the scales of a tile lie along an axis. */
static int decode_axis(const struct vc_kernels *k, const struct codes_state *s, const struct tile_scales *t,
                       uint64_t first, const struct vc_tile *tile, const struct vc_axis_map *map, const void *in,
                       float *y)
{
    return s->has_grid ? k->grid_decode_axis(in, tile->n_elems, map, s->codes->grid, t->scale + first, y)
                       : k->int8_decode_axis(in, tile->n_elems, map, t->scale + first,
                                             t->zero != NULL ? t->zero + first : NULL, y);
}

/* The codes of a tile, by the fastest way that the scheme has: kernels where a scale is shared along a row
 * or an axis, and one code at a time for the rest. */
static enum vc_status decode_codes(struct vc_ctx *ctx, const struct vc_kernels *k, const struct codes_state *s,
                                   const struct tile_scales *t, const struct vc_tile *tile, const void *in, float *y)
{
    if (is_wide(s)) {
        decode_wide(s, t, tile, in, (char *)y);
    } else if (s->group_rows != 1 || s->offset != NULL || s->order != NULL) {
        decode_each(s, t, tile, in, (char *)y);
    } else if (s->by_rows && tile->whole_rows) {
        uint64_t first = tile->row0 * s->n_groups - t->first;

        VC_KERNEL_CALL(s->has_grid
                           ? k->grid_decode_rows(in, tile->n_rows, tile->row_len, (size_t)s->group, s->codes->grid,
                                                 t->scale + first, y)
                           : k->int8_decode_rows(in, tile->n_rows, tile->row_len, (size_t)s->group, t->scale + first,
                                                 t->zero != NULL ? t->zero + first : NULL, y));
    } else if (s->by_rows) { /* a piece of one row that may begin inside a group */
        uint64_t first = tile->row0 * s->n_groups + tile->col0 / s->group - t->first;
        struct vc_axis_map map = {tile->col0 % s->group, s->group, s->n_groups - tile->col0 / s->group};

        VC_KERNEL_CALL(decode_axis(k, s, t, first, tile, &map, in, y));
    } else {
        struct vc_axis_map map = {tile->first, s->inner, s->n_scales};

        VC_KERNEL_CALL(decode_axis(k, s, t, 0, tile, &map, in, y));
    }
    return VC_OK;
}

/* Infinities that came from a finite scale become the largest f32. False where the policy refuses them. */
static bool settle(const struct codes_state *s, const struct tile_scales *t, const struct vc_tile *tile, char *y)
{
    for (size_t i = 0; i < tile->n_elems; i++) {
        uint32_t bits;
        size_t k = scale_of(s, t, tile->first + i);

        memcpy(&bits, y + i * sizeof bits, sizeof bits);
        if ((bits & VC_F32_ABS_MASK) != VC_F32_INF_BITS || vc_f32_magnitude(t->scale[k]) >= VC_F32_INF_BITS ||
            (s->offset != NULL && vc_f32_magnitude(s->offset[k]) >= VC_F32_INF_BITS)) {
            continue;
        }
        if (s->policy.overflow == VC_OVERFLOW_ERROR) {
            return false;
        }
        bits--; /* the largest finite value with its sign */
        memcpy(y + i * sizeof bits, &bits, sizeof bits);
    }
    return true;
}

/* The codes of a tile, a byte each: as they come, or in scratch. */
static const int8_t *codes_of(const struct codes_state *s, const struct vc_tile *tile, const void *in, void *scratch)
{
    if (s->code_bytes == 0) {
        return in;
    }
    vc_codes_unpack(in, tile->n_elems, vc_code_bits(s->codes), s->codes->high_first, !s->has_grid, scratch);
    return scratch;
}

/* decode_one without rounding to f32, of codes with an offset. */
static double decode_exactly(const struct codes_state *s, const struct tile_scales *t, size_t k, int8_t q)
{
    double n = (double)count_of(s, q);
    double offset = (double)s->offset[k];

    return s->quant.offset_rule == VC_OFFSET_BEFORE
               ? (n - offset) * (double)t->scale[k]
               : n * (double)t->scale[k] + (s->quant.offset_rule == VC_OFFSET_AFTER ? offset : -offset);
}

#define CHUNK_ELEMS ((size_t)256) /* values that are put together before they are counted */

/* Counts values beyond f32, in doubles, a chunk at a time. Tiles whose scales rule them out are not looked
 * at. */
static enum vc_status codes_calibrate(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                      const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct codes_state *s = step->state;
    struct tile_scales t;
    double values[CHUNK_ELEMS];
    size_t n = 0;

    VC_CALL(find_scales(ctx, step, in, scratch, &t));
    const int8_t *q = codes_of(s, tile, in->data, scratch);
    for (size_t i = 0; t.may_overflow && i < tile->n_elems; i++) {
        size_t k = scale_of(s, &t, tile->first + i);

        int32_t zero = t.zero != NULL ? t.zero[k] : 0;
        double code = (double)((int32_t)q[i] - zero);

        if (is_wide(s)) {
            code = (double)wide_code(q, i);
        } else if (s->has_grid) {
            code = (double)s->grid[(uint8_t)q[i]];
        }
        values[n++] = s->offset != NULL ? decode_exactly(s, &t, k, q[i]) : code * (double)t.scale[k];
        if (n == CHUNK_ELEMS || i + 1 == tile->n_elems) {
            vc_specials_add(&s->policy.specials, VC_DTYPE_F64, values, n, tile->first + i + 1 - n);
            n = 0;
        }
    }
    return VC_OK;
}

/* The sentence that names the first value beyond f32, where those are refused. */
static enum vc_status codes_explain(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    const struct codes_state *s = step->state;

    if (s->policy.specials.overflows != 0 && s->policy.overflow == VC_OVERFLOW_ERROR) {
        return vc_specials_fail_overflow(ctx, &s->policy.specials, &step->in, VC_DTYPE_F32, VC_ADVICE_OVERFLOW);
    }
    return VC_OK;
}

/* Decodes a tile; afterwards values beyond f32 are settled by the policy. */
static enum vc_status codes_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                  struct vc_tile_out *out)
{
    const struct vc_kernels *k = vc_kernels_get(ctx);
    const struct codes_state *s = step->state;
    struct tile_scales t;

    VC_CALL_FOUND(ctx, k);
    VC_CALL(find_scales(ctx, step, in, scratch, &t));
    VC_CALL(decode_codes(ctx, k, s, &t, tile, codes_of(s, tile, in->data, scratch), out->data));
    VC_REFUSE_IF(t.may_overflow && vc_has_nonfinite(VC_DTYPE_F32, out->data, tile->n_elems) &&
                     !settle(s, &t, tile, out->data),
                 ctx, VC_E_UNSUPPORTED, "a value does not fit f32");
    return VC_OK;
}

static const struct vc_step_ops codes_ops = {.calibrate = codes_calibrate,
                                             .explain = codes_explain,
                                             .begin = codes_begin,
                                             .apply = codes_apply,
                                             .end = codes_end,
                                             .forget = vc_policy_forget};

/* Scales come whole with the source: memory while the tensor is in work. From another step: scratch for as many as come
 * with a tile. */
static void plan_memory(const struct codes_state *s, struct vc_step *step)
{
    uint64_t most = s->by_rows ? vc_min_u64(s->n_scales, VC_TILE_ELEMS + 2) : s->n_scales;

    if (step->in.parts[s->scale_part].maker == NULL) {
        step->state_bytes = (size_t)s->n_scales * (s->zero_part != SIZE_MAX ? 5 : 4);
        step->state_bytes += s->offset_part != SIZE_MAX ? 4 * (size_t)s->n_scales : 0;
        step->state_bytes += s->order_part != SIZE_MAX ? 4 * (size_t)s->row_len : 0;
        if (s->quant.scale_group != 0) {
            step->state_bytes += (256 + (size_t)vc_ceil_div_u64(s->n_scales, s->quant.scale_group)) * sizeof(float);
        }
    } else {
        bool whole = s->by_rows && (s->row_len > VC_TILE_ELEMS || s->group_rows != 1);

        step->scratch_bytes = (size_t)(whole ? s->n_scales : most) * sizeof(float);
    }
    step->scratch_bytes += s->code_bytes;
}

/* A decoder of codes is a step that drops the coding: values come out as f32. */
static enum vc_status codes_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_decoder *decoder,
                                enum vc_overflow overflow, bool finite_scales)
{
    struct codes_state *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    struct vc_step *step;

    VC_CALL_ALLOC(s);
    s->finite_scales = finite_scales;
    s->policy = (struct vc_policy){.overflow = overflow, .room = VC_DTYPE_F32};
    VC_CALL(vc_policy_add_step(ctx, item, &codes_ops, &s->policy, &step));
    step->action = VC_ACTION_DEQUANTIZED;
    step->scheme = vc_dtype_name(VC_DTYPE_F32);
    map_scales(s, &step->in);
    plan_memory(s, step);
    VC_CALL(vc_step_drop_coding(ctx, item, step));
    step->out.dtype = VC_DTYPE_F32;
    vc_item_replan(item);
    return VC_OK;
}

/* One function for all of them. */
const struct vc_decoder vc_decoder_codes = {.add = codes_add};
