/* group_codes.c - codes with a scale per group of a row, or per row of axis 0, that a search finds: whole numbers
 * (int4), and numbers of a grid of floats (fp8, mxfp8, mxfp4, nvfp4, nf4 and fp4).
 *
 *     w  f32 [64, 512] --int4/group:128--> codes i4 [64, 512], scale f32 [64, 4]               x' = q * s, q = -8 .. 7
 *     w  f32 [64, 512] --nvfp4--> codes f4_e2m1 [64, 512], scale u8 [64, 32] of E4M3 bytes, global_scale f32 [1]
 *     w  f32 [64, 512] --nf4, double--> codes u4 [64, 512], scale u8 [64, 8], codebook f32 [256], scale_scale f32 [2]
 *
 * docs/numerics.md has the definitions; kernels/grid_codes.h has the arithmetic. The step is planned as that of int8
 * is. Of nvfp4 all values are seen while the job is planned: layers that runtimes join (q, k and v) share a global
 * scale, which is that of the largest magnitude in all of them. With statistics of the tensor's inputs errors are
 * weighed by them, and with second moments rounding makes up for its own errors (passes/statistics/compensate.h). With
 * a bias beside the weight these are centred: correct_bias.c gives the mean of what is lost to the bias.
 *
 * How often the values of a tensor are read:
 *
 *     fp8 per row, int4, mxfp4, ...        once, when they are written
 *     nf4, fp4 with double quantization    + once before, for the largest magnitudes
 *     nvfp4                                + once before all tensors are written, for the global scale
 *     with a bias that is corrected        + once, the last look, for what rounding loses */
#include "quantize/schemes/group_codes.h"

#include "core/model/code_schemes.h"
#include "core/model/names.h"
#include "kernels/grid_codes.h"
#include "kernels/train_codes.h"
#include "passes/statistics/compensate.h"
#include "passes/statistics/refit.h"
#include "quantize/schemes/int8.h"

/* Scales that share one outer scale in bitsandbytes' double quantization. */
#define SCALE_GROUP  256
#define DESCENT_BITS 3 /* codes of so many bits and fewer are changed once more after rounding */

/* What one tensor's step keeps. While tiles are made it is only read, by many threads; `absmax`, `outer` are changed
 * under the mutex, and `lost` row by row. */
struct group_state {
    struct vc_int8_state shared; /* first */
    struct vc_step *step;        /* its own */
    const struct vc_code_scheme *codes;
    struct vc_group_codes how;

    /* With statistics of the tensor's inputs. */
    struct vc_calibration calibration;
    float *importance;                    /* of each column; between begin and end; NULL: all count alike */
    bool compensates;                     /* there are second moments, so rounding makes up for its errors, ... */
    struct vc_compensation *compensation; /* ... between begin and end */
    float *moments;                       /* damped, for codes that few bits leave far from the best; or NULL */
    double *lost;                         /* by row, for its bias; NULL: nobody takes it */
    float *means;                         /* of the columns, for that; between begin and end */
    unsigned rounds; /* looks at all values that are still to be made; the last one is for `lost` */

    /* nvfp4 */
    pthread_mutex_t mutex; /* while values are seen */
    bool has_mutex;
    uint32_t absmax; /* bits of the largest finite magnitude */
    bool power_global;
    float stored_global;

    /* Scales that are codes, bitsandbytes' double quantization */
    float *outer; /* for SCALE_GROUP scales each: the largest magnitude of their elements; NULL: scales are numbers */
    float book[256]; /* what codes of scales stand for */
};

/* Scratch of one tile: that of int8, and behind it what the codes stand for, the codes and the bytes of scales, a byte
 * each, the scales; where rounding compensates, what is rounded in place of VC_COMPENSATE_ROWS rows, room for them. */
struct group_scratch {
    struct vc_int8_scratch shared;
    float *y;
    uint8_t *q, *bytes;
    struct vc_float_scale *scales;
    float *targets, *work;
};

/* Elements of the rows that are compensated at a time. Each of the two arrays of floats for compensation has so many; 0
 * where nothing is compensated. */
static size_t rows_elems(const struct group_state *s)
{
    return s->compensates ? (size_t)s->calibration.row * VC_COMPENSATE_ROWS : 0;
}

/* For the arrays of carve, each with room to begin at a multiple of 64. */
static size_t scratch_bytes(const struct vc_step *step, const struct group_state *s)
{
    return vc_scratch_room(vc_int8_scratch_bytes(step, &s->shared)) + 6 * 64 +
           vc_tile_elems(step) * (sizeof(float) + 1) +
           vc_int8_local_scales(step, &s->shared) * (1 + sizeof(struct vc_float_scale)) +
           rows_elems(s) * 2 * sizeof(float);
}

/* The arrays follow each other: floats first, then the bytes, of which the sizes are rounded up so that the scales
 * behind them are aligned. */
static void carve(const struct vc_step *step, const struct group_state *s, void *memory, struct group_scratch *out)
{
    size_t n_scales = vc_int8_local_scales(step, &s->shared);
    char *at = memory;

    vc_int8_scratch_carve(step, &s->shared, memory, &out->shared);
    out->y = (float *)(void *)(at + vc_scratch_room(vc_int8_scratch_bytes(step, &s->shared)));
    out->q = (uint8_t *)(out->y + vc_tile_elems(step));
    out->bytes = out->q + vc_scratch_room(vc_tile_elems(step));
    out->scales = (struct vc_float_scale *)(void *)(out->bytes + vc_scratch_room(n_scales));
    out->targets = (float *)(void *)(out->scales + n_scales);
    out->work = out->targets + rows_elems(s);
}

/* ---- what is seen before codes are made ---- */

/* Outer scales: one for SCALE_GROUP scales, in the order of the tensor. */
static size_t n_outer(const struct vc_int8_state *s)
{
    return (size_t)vc_ceil_div_u64(s->n_scales, SCALE_GROUP);
}

/* The largest magnitudes of a tile, for scales that are codes. Groups do not cross rows, so the last one of a row may
 * be short. The caller holds the mutex. */
static void merge_outer(struct group_state *s, const struct vc_tile *tile, const float *x)
{
    struct vc_int8_tile_map map;

    vc_int8_map_tile(&s->shared, tile, &map);
    for (size_t row = 0, k = 0; row < tile->n_rows; row++) {
        for (size_t first = 0; first < tile->row_len; first += map.group, k++) {
            float top = vc_bits_f32(
                vc_int8_largest(x + row * tile->row_len + first, (size_t)vc_min_u64(map.group, tile->row_len - first)));
            float *outer = &s->outer[(map.first_scale + k) / SCALE_GROUP];

            *outer = top > *outer ? top : *outer;
        }
    }
}

/* The largest magnitudes, where the codes have a global scale or scales that are codes: of a tensor by itself, as a
 * candidate, outside of jobs; and for group_calibrate. The values of the tile are widened once and looked at without
 * the mutex, except for the outer scales. */
static enum vc_status group_scan(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                 const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct group_state *s = step->state;
    struct group_scratch t;
    const float *x;

    if (!s->codes->global && s->outer == NULL) {
        return VC_OK;
    }
    carve(step, s, scratch, &t);
    VC_CALL(vc_int8_widen(ctx, step, tile, in->data, &t.shared, &x));
    uint32_t top = vc_int8_largest(x, tile->n_elems);
    (void)pthread_mutex_lock(&s->mutex);
    s->absmax = top > s->absmax ? top : s->absmax;
    if (s->outer != NULL) {
        merge_outer(s, tile, x);
    }
    (void)pthread_mutex_unlock(&s->mutex);
    return VC_OK;
}

/* The number that divides the scales, and what is stored of it: itself, or where the layout multiplies, its inverse. */
static void set_global(struct group_state *s, uint32_t absmax)
{
    float global = vc_nvfp4_global(vc_bits_f32(absmax));

    s->how.global = s->power_global ? vc_nvfp4_power(global) : global;
    s->stored_global = s->power_global ? 1.0f / s->how.global : global;
}

/* The global scale of a tensor by itself. In a job vc_group_codes_decide sets it, with what joined layers have. */
static enum vc_status group_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct group_state *s = step->state;

    set_global(s, s->absmax);
    return VC_OK;
}

/* The tensor stays as it is, or the job ends. */
static void group_forget(struct vc_ctx *ctx, struct vc_step *step)
{
    struct group_state *s = step->state;

    if (s->has_mutex) {
        (void)pthread_mutex_destroy(&s->mutex);
    }
    if (s->lost != NULL) { /* the weight stays as it is, and so does its bias */
        memset(s->lost, 0, (size_t)(step->in.n_elems / s->shared.row_len) * sizeof *s->lost);
    }
    vc_policy_forget(ctx, step);
}

/* ---- one tile ---- */

/* Elements of a tile that are rows of matrices as the statistics know them: `n_rows` whole ones of one matrix, or a
 * piece of one. With a stack of matrices [experts, rows, columns] the statistics have columns for each matrix: a run
 * ends where the next matrix begins.
 *
 *     tile        | piece of a row | row | row | row | row | piece |
 *     runs        |       1        |  rows of matrix 0  | matrix 1 | ... */
struct run {
    size_t n_rows, row_len;
    const float *weights; /* of its columns */
};

/* The run from element `at` on; without statistics, or where rows are those of the tile, that is the whole tile. Of a
 * stack of matrices a tile may begin inside a row. */
static struct run run_from(const struct group_state *s, const struct vc_step *step, const struct vc_tile *tile,
                           size_t at)
{
    uint64_t row = s->calibration.row;
    uint64_t flat = tile->first + at;
    bool whole = row == 0 || (flat % row == 0 && tile->n_elems - at >= row);
    uint64_t n_rows;

    if (s->importance == NULL) {
        return (struct run){tile->n_rows, tile->row_len, NULL};
    }
    n_rows = step->in.n_elems / row / s->calibration.n_matrices; /* of a matrix */
    return (struct run){whole ? (size_t)vc_min_u64(n_rows - flat / row % n_rows, (tile->n_elems - at) / row) : 1,
                        whole ? (size_t)row : (size_t)vc_min_u64(row - flat % row, tile->n_elems - at),
                        s->importance + flat / row / n_rows * row + flat % row};
}

/* Scales that are codes: for each group of the run, which begins at element `at` of the tile, that near the number
 * which was found; without compensation its codes, too. g: number of the first group in the tile, `number` in the
 * tensor. The codes were not made before: they depend on the scale that is stored. */
static void code_scales(const struct group_state *s, const struct run *run, size_t group, const float *x, size_t at,
                        size_t g, uint64_t number, struct group_scratch *t)
{
    struct vc_group_codes how = s->how;

    for (size_t row = 0; row < run->n_rows; row++) {
        for (size_t column = 0; column < run->row_len; column += group, g++, number++) {
            size_t n = (size_t)vc_min_u64(group, run->row_len - column);
            size_t i = at + row * run->row_len + column;

            how.weights = run->weights != NULL ? run->weights + column : NULL;
            vc_coded_scale(&how, s->book, s->outer[number / SCALE_GROUP], x + i, n, &t->scales[g]);
            if (s->compensation == NULL) {
                vc_group_encode(&s->how, &t->scales[g], x + i, n, t->q + i, t->y + i);
            }
        }
    }
}

/* The scales of a tile and, where rounding compensates for nothing, its codes and what they stand for. */
static enum vc_status find_codes(struct vc_ctx *ctx, const struct vc_kernels *k, const struct group_state *s,
                                 const struct vc_step *step, const struct vc_tile *tile,
                                 const struct vc_int8_tile_map *map, const float *x, struct group_scratch *t)
{
    bool only_scales = s->compensation != NULL || s->outer != NULL;
    struct vc_group_codes how = s->how;
    size_t g = 0;

    for (size_t at = 0; at < tile->n_elems;) {
        const struct run run = run_from(s, step, tile, at);

        how.weights = run.weights;
        VC_KERNEL_CALL(k->group_codes_rows(x + at, run.n_rows, run.row_len, map->group, &how, t->shared.pos + g,
                                           t->scales + g, only_scales ? NULL : t->q + at,
                                           only_scales ? NULL : t->y + at));
        if (s->outer != NULL) {
            code_scales(s, &run, map->group, x, at, g, map->first_scale + g, t);
        }
        at += run.n_rows * run.row_len;
        g += run.n_rows * (size_t)vc_ceil_div_u64(run.row_len, map->group);
    }
    return VC_OK;
}

/* The scales of a tile as they are stored. Which of the three arrays is written depends on the type of the part:
 * numbers, halves, or bytes. */
static void put_scales(const struct group_state *s, size_t n, struct group_scratch *t)
{
    for (size_t k = 0; k < n; k++) {
        float value = t->scales[k].value;

        t->shared.scale[k] = value;
        t->bytes[k] = t->scales[k].byte;
        t->shared.zero[k] = t->scales[k].zero_point;
        t->shared.stored[k] = s->shared.scale_dtype == VC_DTYPE_F16 ? vc_f32_to_f16(value) : vc_f32_to_bf16(value);
    }
}

/* The scales of rows while their elements are rounded one after the other. */
struct rounding {
    const struct vc_group_codes *how;
    const struct vc_float_scale *scales;
    size_t group, n_groups; /* elements; of a row */
};

/* vc_compensate and vc_descend call this for a value of row `row` of the rows at hand: what the codes would make of
 * it. */
static float rounded(const void *user, size_t row, size_t column, float x)
{
    const struct rounding *r = user;

    return vc_group_value(r->how, &r->scales[row * r->n_groups + column / r->group], x);
}

/* Whole rows of the tile, at most VC_COMPENSATE_ROWS, with the scales that were found for them. The targets are what
 * compensation leaves in place of the weights: rounding those gives the codes. Errors are measured against the weights
 * themselves, by the caller. */
static void encode_rows(const struct group_state *s, size_t group, const float *x, size_t first, size_t n_rows,
                        const struct vc_float_scale *scales, struct group_scratch *t)
{
    size_t len = (size_t)s->calibration.row;
    const struct rounding r = {&s->how, scales, group, (len + group - 1) / group};

    memcpy(t->targets, x + first, n_rows * len * sizeof *t->targets);
    vc_compensate(s->compensation, 0, (size_t)s->calibration.row, t->targets, n_rows, t->work, rounded, &r);
    if (s->moments != NULL) {
        vc_descend(s->moments, len, x + first, t->targets, n_rows, t->work, rounded, &r);
    }
    for (size_t i = 0; i < n_rows * r.n_groups; i++) {
        size_t at = i / r.n_groups * len + i % r.n_groups * group;

        vc_group_encode(&s->how, &scales[i], t->targets + at, (size_t)vc_min_u64(group, len - i % r.n_groups * group),
                        t->q + first + at, t->y + first + at);
    }
}

/* Compensation works on whole rows; add_statistics allows it only where a tile holds such. */
static enum vc_status encode_tile(struct vc_ctx *ctx, const struct vc_kernels *k, const struct group_state *s,
                                  const struct vc_step *step, const struct vc_tile *tile,
                                  const struct vc_int8_tile_map *map, const float *x, struct group_scratch *t)
{
    VC_CALL(find_codes(ctx, k, s, step, tile, map, x, t));
    for (size_t row = 0; s->compensation != NULL && row < tile->n_rows; row += VC_COMPENSATE_ROWS) {
        encode_rows(s, map->group, x, row * tile->row_len, (size_t)vc_min_u64(VC_COMPENSATE_ROWS, tile->n_rows - row),
                    t->scales + row * (size_t)vc_ceil_div_u64(tile->row_len, map->group), t);
    }
    put_scales(s, map->n_local, t);
    return VC_OK;
}

/* The last look at all values is for what rounding loses, for the bias. `rounds` counts down in vc_group_codes_decide;
 * nvfp4 has its global scale by then. */
static bool measures(const struct group_state *s)
{
    return s->lost != NULL && s->rounds == 1;
}

/* Makes the codes of a tile, or in the last look what each row loses: the same codes, of which nothing is written. A
 * row is part of one tile only then, since statistics of longer rows do not serve. */
static enum vc_status group_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                  struct vc_tile_out *out)
{
    const struct group_state *s = step->state;
    const struct vc_int8_state *shared = &s->shared;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    struct vc_int8_tile_map map;
    struct group_scratch t;
    const float *source;

    VC_CALL_FOUND(ctx, k);
    carve(step, s, scratch, &t);
    vc_int8_map_tile(shared, tile, &map);
    VC_CALL(vc_int8_widen(ctx, step, tile, in->data, &t.shared, &source));
    const float *x = source;
    VC_CALL(vc_int8_magnitudes(ctx, k, shared, tile, &map, &t.shared, &x, &out->nonfinite));
    VC_CALL(encode_tile(ctx, k, s, step, tile, &map, x, &t));
    if (measures(s)) {
        for (size_t i = 0; i < tile->n_elems; i++) {
            s->lost[(tile->first + i) / tile->row_len] +=
                ((double)vc_float_at(x, i) - (double)t.y[i]) * (double)s->means[i % tile->row_len];
        }
        return VC_OK;
    }
    VC_CALL(vc_int8_measure_values(ctx, tile, source, t.y, out->stats));
    vc_codes_pack(t.q, tile->n_elems, vc_code_bits(s->codes), s->codes->high_first, out->data);
    out->parts[0] = (struct vc_part_view){.data = shared->scale_dtype == VC_DTYPE_U8    ? (const void *)t.bytes
                                                  : shared->scale_dtype != VC_DTYPE_F32 ? (const void *)t.shared.stored
                                                                                        : t.shared.scale,
                                          .first = map.first_scale,
                                          .n = map.n_local,
                                          .write = true};
    /* The parts behind the scales, in the order of group_add: one of them at most but for double quantization. What
     * belongs to the whole tensor is written with its first tile. */
    if (s->how.zero_points) {
        out->parts[1] = out->parts[0];
        out->parts[1].data = t.shared.zero;
    }
    if (s->codes->global) {
        out->parts[1] = (struct vc_part_view){.data = &s->stored_global, .n = 1, .write = tile->index == 0};
    }
    if (s->outer != NULL) {
        out->parts[1] = (struct vc_part_view){.data = s->book, .n = 256, .write = tile->index == 0};
        out->parts[2] = (struct vc_part_view){.data = s->outer, .n = n_outer(shared), .write = tile->index == 0};
    }
    return VC_OK;
}

/* The policy "keep" needs its look in any case. Under "zero" magnitudes are those of the finite values. */
static enum vc_status group_calibrate(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                      const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    const struct group_state *s = step->state;
    enum vc_nonfinite policy = s->shared.policy.nonfinite;
    struct vc_tile_out out = {.data = NULL};

    if (!measures(s) || policy == VC_NONFINITE_KEEP) {
        VC_CALL(vc_policy_calibrate(ctx, step, item, tile, in, scratch));
    }
    if (!measures(s)) {
        return group_scan(ctx, step, item, tile, in, scratch);
    }
    if (policy == VC_NONFINITE_ZERO || !vc_has_nonfinite(step->in.dtype, in->data, tile->n_elems)) {
        VC_CALL(group_apply(ctx, step, item, tile, in, scratch, &out)); /* else the tensor is refused, or kept */
    }
    return VC_OK;
}

/* ---- statistics ---- */

/* Loads the statistics before the first tile: weights of the columns, their means for the bias, and the second moments,
 * which become the matrix that compensation goes by. Codes of few bits keep the moments for vc_descend; else they are
 * freed at once, since they are the largest array of all, [columns, columns]. After a failure the end of the step frees what is
 * there. */
static enum vc_status group_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct group_state *s = step->state;
    size_t n = (size_t)vc_calibration_elems(&s->calibration);
    size_t row = (size_t)s->calibration.row;
    VC_SCOPED float *moments = NULL;
    double count;

    if (n == 0 || (step->calibrate && !measures(s))) { /* nothing is rounded yet */
        return VC_OK;
    }
    VC_CALL_ALLOC(s->importance = vc_alloc_array(ctx, VC_TAG_SCALES, n, sizeof *s->importance));
    VC_CALL(vc_calibration_load(ctx, &s->calibration, s->importance));
    if (s->lost != NULL) {
        VC_CALL_ALLOC(s->means = vc_alloc_array(ctx, VC_TAG_SCALES, row, sizeof *s->means));
        VC_CALL(vc_calibration_load_means(ctx, &s->calibration, s->means));
    }
    if (s->compensates) {
        VC_CALL_ALLOC(moments = vc_alloc_array(ctx, VC_TAG_TILES, row * row, sizeof *moments));
        VC_CALL(vc_calibration_load_moments(ctx, &s->calibration, moments, &count));
        if (s->means != NULL) {
            vc_calibration_centre(moments, count, s->means, row);
        }
        VC_CALL(vc_compensation_make(ctx, &s->calibration, moments, count, true, &s->compensation));
        if (vc_code_bits(s->codes) <= DESCENT_BITS) {
            vc_refit_prepare(moments, count, row);
            s->moments = vc_give(&moments);
        }
    }
    return VC_OK;
}

static void group_end(struct vc_ctx *ctx, struct vc_step *step)
{
    struct group_state *s = step->state;

    vc_free(ctx, vc_give(&s->importance));
    vc_free(ctx, vc_give(&s->means));
    vc_free(ctx, vc_give(&s->moments));
    vc_compensation_free(ctx, s->compensation);
    s->compensation = NULL;
}

/* Groups lie in rows of which there are statistics. Second moments serve where the rows of the statistics are those of
 * the tensor, of one matrix, and fit a tile. */
static enum vc_status add_statistics(struct vc_ctx *ctx, struct vc_item *item, struct vc_step *step,
                                     struct group_state *s, const struct vc_model *file)
{
    struct vc_calibration *c = &s->calibration;

    VC_CALL(vc_calibration_find(ctx, file, item, true, c));
    if (file == NULL) {
        return VC_OK;
    }
    if (c->sums != VC_NO_TENSOR && c->row % s->shared.group != 0 && c->row != s->shared.row_len) {
        c->sums = VC_NO_TENSOR; /* a group would have columns of two matrices */
    }
    s->compensates = c->sums != VC_NO_TENSOR && c->moments != VC_NO_TENSOR && c->n_matrices == 1 &&
                     c->row == s->shared.row_len && c->row <= VC_TILE_ELEMS;
    step->why = c->sums == VC_NO_TENSOR ? "no statistics" : step->why;
    step->state_bytes += (size_t)vc_calibration_elems(c) * sizeof(float);
    if (s->compensates) {
        step->state_bytes += (size_t)(vc_compensation_bytes(c->row) + c->row * c->row * sizeof(float));
    }
    return VC_OK;
}

/* ---- the step ---- */

static const struct vc_step_ops group_ops = {.scan = group_scan,
                                             .scan_end = group_scan_end,
                                             .calibrate = group_calibrate,
                                             .explain = vc_policy_explain,
                                             .begin = group_begin,
                                             .apply = group_apply,
                                             .end = group_end,
                                             .forget = group_forget};

/* A part of n f32 numbers. */
static enum vc_status add_part(struct vc_ctx *ctx, struct vc_item *item, struct vc_step *step, enum vc_part_role role,
                               uint64_t n)
{
    uint64_t *shape = vc_arena_alloc(ctx, item->set->arena, sizeof *shape);

    VC_CALL_ALLOC(shape);
    shape[0] = n;
    return vc_step_add_part(ctx, item, step, role, VC_DTYPE_F32, 1, shape);
}

/* Double quantization: the scales become bytes, which stand for numbers of a book of 256 by an outer scale.
 *
 *     scale = book[byte] * scale_scale[number / 256] */
static enum vc_status add_outer(struct vc_ctx *ctx, struct vc_item *item, struct vc_step *step, struct group_state *s)
{
    size_t n_bytes = n_outer(&s->shared) * sizeof *s->outer;
    struct vc_quant *quant = vc_arena_alloc(ctx, item->set->arena, sizeof *quant);
    struct vc_dynamic_maps maps;

    VC_CALL_ALLOC(quant);
    *quant = *step->out.quant;
    quant->scale_group = SCALE_GROUP;
    step->out.quant = quant;
    VC_CALL_ALLOC(s->outer = vc_arena_alloc(ctx, item->set->arena, n_bytes));
    memset(s->outer, 0, n_bytes);
    vc_dynamic_maps_make(&maps);
    memcpy(s->book, maps.without.value, sizeof s->book);
    VC_CALL(add_part(ctx, item, step, VC_PART_CODEBOOK, 256));
    return add_part(ctx, item, step, VC_PART_SCALE_SCALE, n_outer(&s->shared));
}

/* Parts that a look at all values comes first for. All tensors of nvfp4 are looked at, also those that other workers
 * write: layers may be joined across workers. */
static enum vc_status add_looked(struct vc_ctx *ctx, struct vc_item *item, struct vc_step *step, struct group_state *s)
{
    VC_REFUSE_IF(pthread_mutex_init(&s->mutex, NULL) != 0, ctx, VC_E_NOMEM, "cannot create a mutex");
    s->has_mutex = true;
    s->how.global = 1.0f;
    s->rounds = 1;
    step->calibrate = true;
    step->calibrate_all = s->codes->global;
    if (s->codes->global) {
        struct vc_quant *quant = vc_arena_alloc(ctx, item->set->arena, sizeof *quant);

        VC_CALL_ALLOC(quant);
        *quant = *step->out.quant;
        s->power_global = item->set->dialect != NULL && item->set->dialect->power_global;
        quant->global_multiplies = s->power_global;
        step->out.quant = quant;
        VC_CALL(add_part(ctx, item, step, VC_PART_GLOBAL_SCALE, 1));
    } else {
        VC_CALL(add_outer(ctx, item, step, s));
    }
    vc_item_replan(item);
    return VC_OK;
}

/* The row of this file for that target. */
static const struct vc_scheme_row *row_of(enum vc_target target)
{
    size_t i = 0;

    while (vc_scheme_groups[i].target != target) {
        i++;
    }
    return &vc_scheme_groups[i];
}

/* vc_scheme_row.reason: a group lies in one tile, and a byte of two codes in one row. Codes are packed so that a row
 * ends with a whole byte, and a search sees all elements of a group at once. */
static const char *rows_reason(const struct vc_quantize_options *options, const struct vc_desc *desc)
{
    bool block = options->granularity == VC_GRANULARITY_BLOCK;
    bool group = options->granularity == VC_GRANULARITY_GROUP || block;
    unsigned bits;
    bool whole; /* rows are whole bytes */
    uint64_t count, row;

    vc_rows_of(desc->shape, desc->n_dims, &count, &row);
    bits = vc_code_bits(vc_code_scheme(row_of(options->target)->scheme));
    whole = row % 8 * bits % 8 == 0;
    if (desc->n_dims < 2) {
        return "fewer than 2 dimensions";
    }
    if (block && desc->n_dims != 2) {
        return "no matrix";
    }
    if (!whole) {
        if (bits == 4) {
            return "rows of an odd length";
        }
        return bits % 2 == 0 ? "rows that 4 does not divide" : "rows that 8 does not divide";
    }
    if (row > VC_TILE_ELEMS && options->granularity != VC_GRANULARITY_TENSOR &&
        (!group || VC_TILE_ELEMS % options->group_size != 0)) {
        return "rows longer than 262144";
    }
    return NULL;
}

/* Blocks and whole tensors have steps of their own; the other granularities share this one. */
static enum vc_status group_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                                enum vc_dtype weights)
{
    const struct vc_scheme_row *row = row_of(options->target);
    struct group_state *s;
    struct vc_step *step;

    if (vc_int8_in_blocks(row, options, item)) {
        return vc_block_codes_add(ctx, item, row, options, weights);
    }
    if (options->granularity == VC_GRANULARITY_TENSOR) {
        return vc_fp8_tensor_add(ctx, item, row, options, weights);
    }
    VC_CALL_ALLOC(s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s));
    s->codes = vc_code_scheme(row->scheme);
    VC_CALL(vc_int8_add_step(ctx, item, row, &group_ops, options, weights, &s->shared, &step));
    s->step = step;
    s->how = vc_code_groups(s->codes, s->shared.scale_dtype, item->set->dialect);
    s->how.zero_points = options->asymmetric;
    if (s->codes->global || options->double_quant) {
        VC_CALL(add_looked(ctx, item, step, s));
    }
    VC_CALL(add_statistics(ctx, item, step, s, options->calibration));
    step->scratch_bytes = scratch_bytes(step, s);
    return VC_OK;
}

/* ---- after a look at all values ---- */

/* Returns NULL if the item has no such step of the pass. A step of another pass before it does not count. */
static struct group_state *state_of(const struct vc_item *item)
{
    for (size_t i = item->chain->pass_first; i < item->chain->n_steps; i++) {
        if (item->chain->steps[i]->ops == &group_ops) {
            return item->chain->steps[i]->state;
        }
    }
    return NULL;
}

/* The same for nvfp4 alone. */
static struct group_state *global_of(const struct vc_item *item)
{
    struct group_state *s = state_of(item);

    return s != NULL && s->codes->global ? s : NULL;
}

enum vc_status vc_group_codes_bias(struct vc_ctx *ctx, const struct vc_item *item, size_t *bias)
{
    const struct group_state *s = state_of(item);
    const struct vc_calibration *c = s == NULL ? NULL : &s->calibration;

    *bias = VC_NO_TENSOR;
    return c != NULL && c->sums != VC_NO_TENSOR && c->n_matrices == 1 && c->row == s->shared.row_len &&
                   c->row <= VC_TILE_ELEMS
               ? vc_calibration_bias(ctx, c, item, bias)
               : VC_OK;
}

/* A dry plan only counts memory: no tensor is looked at. */
double *vc_group_codes_measure(struct vc_ctx *ctx, struct vc_item *item, bool dry)
{
    struct group_state *s = state_of(item);
    size_t n_bytes = (size_t)item->desc->shape[0] * sizeof *s->lost;
    double *lost = vc_arena_alloc(ctx, item->set->arena, n_bytes);

    if (lost != NULL) {
        memset(lost, 0, n_bytes);
        s->lost = dry ? NULL : lost;
        s->rounds += !dry;
        s->step->state_bytes += (size_t)s->calibration.row * sizeof *s->means;
        s->step->calibrate |= !dry;
        s->step->calibrate_all |= !dry;
    }
    return lost;
}

/* *top: the largest magnitude in the tensor and those that it is joined with. `name`: room for any name of the model.
 * Of a layer in a file that is absent the magnitude cannot be known, so the pass refuses. */
static enum vc_status joined_absmax(struct vc_ctx *ctx, const struct vc_plan *plan, size_t tensor, char *name,
                                    uint32_t *top)
{
    static const char weight[] = ".weight";
    const char *own = plan->model->tensors[tensor].name;
    const struct vc_item *item = &plan->items[tensor];
    size_t n = strlen(own);
    size_t n_base;
    const char *const *set;

    *top = global_of(item)->absmax;
    if (n < sizeof weight || strcmp(own + n - (sizeof weight - 1), weight) != 0) {
        return VC_OK;
    }
    set = vc_name_joined(own, n - (sizeof weight - 1), &n_base);
    for (; set != NULL && *set != NULL; set++) {
        memcpy(name, own, n_base);
        memcpy(name + n_base, *set, strlen(*set));
        memcpy(name + n_base + strlen(*set), weight, sizeof weight);
        size_t index = vc_model_find(plan->model, name);
        const struct group_state *other = index != VC_NO_TENSOR ? global_of(&plan->items[index]) : NULL;
        VC_REFUSE_IF(!item->in_other_shard && (other != NULL || index == VC_NO_TENSOR) &&
                         vc_model_absent(plan->model, name) != NULL,
                     ctx, VC_E_UNSUPPORTED,
                     "%s: has one global scale with %s, which lies in %s, and that file is not there: put it "
                     "beside this one, or keep these layers with %s",
                     own, name, vc_model_absent(plan->model, name), vc_option(ctx, "include=false"));
        *top = other != NULL && other->absmax > *top ? other->absmax : *top;
    }
    return VC_OK;
}

/* nvfp4 needs one look, a bias one more, which comes last: the global scale is set when two are left, or one without a
 * bias. */
enum vc_status vc_group_codes_decide(struct vc_ctx *ctx, struct vc_plan *plan)
{
    VC_SCOPED char *name = NULL;

    VC_CALL_ALLOC(name = vc_model_name_room(ctx, plan->model, VC_JOINED_ROOM));
    for (size_t i = 0; i < plan->n_items; i++) {
        struct group_state *s = state_of(&plan->items[i]);

        if (s == NULL || s->rounds == 0) {
            continue;
        }
        if (s->codes->global && s->rounds == (s->lost != NULL ? 2 : 1)) {
            uint32_t top;

            VC_CALL(joined_absmax(ctx, plan, i, name, &top));
            set_global(s, top);
        }
        s->step->calibrate = --s->rounds > 0; /* also where another worker writes the tensor */
    }
    return VC_OK;
}

/* ---- the rows ---- */

/* What the rows of this file share. `of`: elements of a group; 0: a scale per row. */
#define GROUP_ROW(NAME, word, way, type, of)                                                                     \
    .target = VC_TARGET_##NAME, .name = (word), .flag = "--" way, .result = (type), .scheme = VC_SCHEME_##NAME,  \
    .codes = true, .rows_only = true, .statistics = true, .n_granularities = 1,                                  \
    .granularities =                                                                                             \
        (const struct vc_scheme_granularity[]){{(of) == 0 ? VC_GRANULARITY_CHANNEL : VC_GRANULARITY_GROUP, of}}, \
    .reason = rows_reason, .add = group_add

const struct vc_scheme_row vc_scheme_groups[] = {
/* Codes that are not all the numbers of their bits, as ternary's, take no zero points, and aims do not try them. */
#define INTS(NAME, name, option, bits, low, high)                                                              \
    {GROUP_ROW(NAME, name, option, VC_DTYPE_I##bits, 128), .zero_points = (high) - (low) == (1 << (bits)) - 1, \
     .no_aim = (high) - (low) != (1 << (bits)) - 1},
#define FLOATS(NAME, name, codes, grid, scale, group, largest, global) \
    {GROUP_ROW(NAME, name, name, VC_DTYPE_##codes, group), .no_aim = true, .whole_tensors = (group) == 0},
#define TABLE(NAME, name) {GROUP_ROW(NAME, name, name, VC_DTYPE_U4, 64), .no_aim = true},
#include "core/model/code_schemes.inc"
};
const size_t vc_scheme_n_groups = sizeof vc_scheme_groups / sizeof vc_scheme_groups[0];
