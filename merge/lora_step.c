/* lora_step.c - the steps that merge: values plus sums of two factors, and for DoRA each output brought to its norm.
 *
 *     sum       y = w + s1 (B1 A1) + s2 D2 ...          products and sums in f32, in this order; rounded once
 *     DoRA      y = m (w + s (B A)) / |w + s (B A)|     the norm of an output, summed in f64
 *     whole     y = the adapter's tensor
 *
 * An element of B A is summed over the rank in ascending order, so that tiles and threads change nothing. */
#include <math.h>

#include "kernels/kernels.h"
#include "merge/lora.h"
#include "passes/decode.h"
#include "passes/measure_tile.h"

#define AT_ONCE 4    /* rows of the right factor in one walk along a row of values; the rank is filled up to that */
#define COLUMNS 1024 /* of a row in one go, so that sums stay in the first cache */

/* What one term adds to element [to + i, j] of the tensor as rows: scale * sum over k of left[i, k] * right[k, j].
 *     w [768, 768], rank 6: left [768, 8], right [8, 768]; ranks 6 and 7 are 0 and add nothing
 * A difference has no factors: its values are read as they are needed, or are all in `left` (is_held). */
struct factors {
    const struct vc_lora_term *term;
    size_t rank;         /* a multiple of AT_ONCE; zeros behind the adapter's */
    float *left, *right; /* n_rows x rank; rank x columns; for each expert */
    uint64_t to, n_rows; /* of a matrix; other rows keep their bits */
    float scale;
};

/* What a step has while a tensor is in work; terms and sizes are there from planning on. */
struct state {
    const struct vc_lora_term *terms; /* those of this step; the last one's `next` belongs to the next step */
    size_t n_terms;
    uint64_t rows, cols;            /* of the tensor as tiles see it */
    uint64_t n_experts, per, width; /* matrices in the tensor; rows and columns of each: 1, rows, cols of most */
    struct factors *factors;
    /* DoRA: by output, and before that sums of squares by `slot`, added in their order. */
    float *norm;
    double *squares;
    uint64_t n_outputs, n_slots, pieces; /* pieces: tiles that a row is cut into */
};

/* The term has magnitudes: outputs are brought to their norms. */
static bool is_dora(const struct vc_lora_term *term)
{
    return term->kind == VC_LORA_DOWN && term->module->tensors[VC_LORA_MAGNITUDE] != VC_NO_TENSOR;
}

/* The rank, rounded up: what is added is zeros. */
static size_t filled(uint64_t rank)
{
    return (size_t)((rank + AT_ONCE - 1) / AT_ONCE * AT_ONCE);
}

/* ---- begin and end ---- */

/* One tensor of the adapter as f32; *out is freed by the caller, also after a failure. */
static enum vc_status read_tensor(struct vc_ctx *ctx, const struct vc_lora_term *term, size_t tensor, float **out)
{
    const struct vc_model *adapter = term->from->adapter;
    size_t n = (size_t)adapter->tensors[tensor].n_elems;

    VC_CALL_ALLOC(*out = vc_alloc_array(ctx, VC_TAG_TILES, n + 1, sizeof **out));
    return vc_decode_tensor(ctx, adapter, tensor, *out, n);
}

/* A difference that is read at once, in begin: of a type that is decoded (f64, say), or of a file that is read from its
 * beginning on alone. Others are read by pieces. */
static bool is_held(const struct vc_lora_term *term)
{
    const struct vc_model *adapter = term->from->adapter;
    enum vc_dtype dtype = adapter->tensors[term->own].dtype;

    return term->kind == VC_LORA_DIFF && (adapter->io[term->own].sequential ||
                                          (dtype != VC_DTYPE_F32 && dtype != VC_DTYPE_F16 && dtype != VC_DTYPE_BF16));
}

/* A is [experts * rank, inputs], B is [outputs, rank * experts]. A tensor of rows of outputs has B to the left; one that is
 * turned over has A, with its axes exchanged, and B in the same way to the right. */
static void lay_out(const struct vc_lora_term *term, const float *a, const float *b, const struct state *s,
                    struct factors *f)
{
    size_t rank = (size_t)term->rank;
    size_t experts = (size_t)term->place.n_experts;
    size_t inputs = (size_t)(term->transposed ? s->per : s->width);

    b += term->place.from * rank * experts;
    for (size_t e = 0; e < s->n_experts; e++) {
        const float *own_a = a + (term->place.expert + e) * rank * inputs;
        const float *own_b = b + term->place.expert + e;
        float *left = f->left + e * f->n_rows * f->rank;
        float *right = f->right + e * f->rank * s->width;

        for (size_t i = 0; i < f->n_rows; i++) {
            for (size_t k = 0; k < rank; k++) {
                left[i * f->rank + k] = term->transposed ? own_a[k * inputs + i] : own_b[(i * rank + k) * experts];
            }
        }
        for (size_t k = 0; k < rank; k++) {
            for (size_t j = 0; j < s->width; j++) {
                right[k * s->width + j] = term->transposed ? own_b[(j * rank + k) * experts] : own_a[k * inputs + j];
            }
        }
    }
}

/* Both factors, laid out for the walk along rows, with zeros behind the rank. */
static enum vc_status make_factors(struct vc_ctx *ctx, const struct state *s, const struct vc_lora_term *term,
                                   struct factors *f)
{
    VC_SCOPED float *a = NULL;
    VC_SCOPED float *b = NULL;

    *f = (struct factors){.term = term, .rank = filled(term->rank), .scale = (float)term->scale, .to = term->place.to};
    f->n_rows = term->place.n_rows != 0 ? term->place.n_rows : s->per;
    if (term->kind == VC_LORA_DIFF) {
        return is_held(term) ? read_tensor(ctx, term, term->own, &f->left) : VC_OK;
    }
    VC_CALL(VC_ZEROS(ctx, VC_TAG_TILES, f->left, (size_t)(s->n_experts * f->n_rows) * f->rank + 1));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_TILES, f->right, (size_t)(s->n_experts * s->width) * f->rank + 1));
    VC_CALL(read_tensor(ctx, term, term->own, &a));
    VC_CALL(read_tensor(ctx, term, term->module->tensors[VC_LORA_UP], &b));
    lay_out(term, a, b, s, f);
    return VC_OK;
}

/* Reads the factors of all terms of the step, and makes room for DoRA's sums. */
static enum vc_status lora_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct state *s = step->state;
    const struct vc_lora_term *term = s->terms;

    VC_CALL(VC_ZEROS(ctx, VC_TAG_TILES, s->factors, s->n_terms));
    for (size_t i = 0; i < s->n_terms; i++, term = term->next) {
        VC_CALL(make_factors(ctx, s, term, &s->factors[i]));
    }
    return s->n_slots == 0 ? VC_OK : VC_ZEROS(ctx, VC_TAG_TILES, s->squares, s->n_slots);
}

/* Frees what begin and the scan have made. */
static void lora_end(struct vc_ctx *ctx, struct vc_step *step)
{
    struct state *s = step->state;

    for (size_t i = 0; s->factors != NULL && i < s->n_terms; i++) {
        VC_FREE_ALL(ctx, s->factors[i].left, s->factors[i].right);
    }
    VC_FREE_ALL(ctx, s->factors, s->squares, s->norm);
    s->factors = NULL;
    s->squares = NULL;
    s->norm = NULL;
}

/* ---- sums ---- */

/* sum[j] += left . right over the rank, four at a time, for n columns from `right` on. */
static void add_rank(const struct factors *f, const float *left, const float *right, size_t stride, size_t n,
                     float *sum)
{
    for (size_t k = 0; k < f->rank; k += AT_ONCE) {
        const float *r0 = right + k * stride;
        const float *r1 = r0 + stride;
        const float *r2 = r1 + stride;
        const float *r3 = r2 + stride;

        for (size_t j = 0; j < n; j++) {
            float x = sum[j];

            x += left[k] * r0[j];
            x += left[k + 1] * r1[j];
            x += left[k + 2] * r2[j];
            x += left[k + 3] * r3[j];
            sum[j] = x;
        }
    }
}

static void widen(enum vc_dtype dtype, const void *data, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = vc_load_float(dtype, data, i);
    }
}

/* n values of the term's own tensor from the element `first` on; `raw` has room for them as f32. */
static enum vc_status read_values(struct vc_ctx *ctx, const struct vc_lora_term *term, uint64_t first, size_t n,
                                  float *raw, float *out)
{
    const struct vc_model *adapter = term->from->adapter;
    enum vc_dtype dtype = adapter->tensors[term->own].dtype;
    size_t size = vc_dtype_size(dtype);

    VC_CALL(vc_source_read_any(ctx, adapter, term->own, VC_FORM_VALUES, first * size, raw, n * size));
    widen(dtype, raw, n, out);
    return VC_OK;
}

/* y = x plus what all terms add, for the elements of the tile. */
static enum vc_status add_terms(struct vc_ctx *ctx, const struct state *s, const struct vc_tile *tile, const float *x,
                                float *y)
{
    float raw[COLUMNS];
    float sum[COLUMNS];

    memcpy(y, x, tile->n_elems * sizeof *y);
    for (size_t t = 0; t < s->n_terms; t++) {
        const struct factors *f = &s->factors[t];

        for (size_t at = 0, n; at < tile->n_elems; at += n) {
            uint64_t expert = (tile->first + at) / s->width / s->per;
            uint64_t row = (tile->first + at) / s->width % s->per - f->to; /* before f->to: huge */
            uint64_t col = (tile->first + at) % s->width;

            n = (size_t)vc_min_u64(vc_min_u64(COLUMNS, s->width - col), tile->n_elems - at);
            if (row >= f->n_rows) {
                continue;
            }
            if (f->term->kind == VC_LORA_DIFF) {
                uint64_t moved = (f->term->place.from - f->to) * s->width; /* may wrap, as does its sum */
                uint64_t first = tile->first + at + moved;

                if (f->left != NULL) {
                    memcpy(sum, f->left + first, n * sizeof *sum);
                } else {
                    VC_CALL(read_values(ctx, f->term, first, n, raw, sum));
                }
            } else {
                memset(sum, 0, n * sizeof *sum);
                add_rank(f, f->left + (expert * f->n_rows + row) * f->rank,
                         f->right + expert * f->rank * s->width + col, (size_t)s->width, n, sum);
            }
            for (size_t c = 0; c < n; c++) {
                y[at + c] += f->scale * sum[c];
            }
        }
    }
    return VC_OK;
}

/* Values into the tile's place in the type of the file, as rounded; y becomes what is stored. */
static enum vc_status store(struct vc_ctx *ctx, const struct vc_step *step, const struct vc_tile *tile, const float *x,
                            float *y, struct vc_tile_out *out)
{
    for (size_t i = 0; i < tile->n_elems; i++) {
        float value = y[i];

        y[i] = vc_store_float(step->out.dtype, value, isfinite(x[i]) ? NAN : x[i], out->data, i);
        VC_REFUSE_IF(!isfinite(y[i]) && isfinite(x[i]), ctx, VC_E_UNSUPPORTED,
                     "element %llu becomes %g, which %s does not have", (unsigned long long)(tile->first + i),
                     (double)value, vc_dtype_name(step->out.dtype));
    }
    VC_CALL(vc_measure_tile(ctx, tile, x, y, out->stats));
    out->stats->zeros_after = vc_count_zeros(y, tile->n_elems);
    out->stats->clipped = 0;
    return VC_OK;
}

/* A tile: values, plus the terms, times the factor of each output for DoRA. */
static enum vc_status lora_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                 const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                 struct vc_tile_out *out)
{
    const struct state *s = step->state;
    float *x = scratch;
    float *y = x + tile->n_elems;

    widen(step->in.dtype, in->data, tile->n_elems, x);
    VC_CALL(add_terms(ctx, s, tile, x, y));
    for (size_t i = 0; s->norm != NULL && i < tile->n_elems; i++) {
        size_t row = (size_t)tile->row0 + i / tile->row_len;
        size_t col = (size_t)tile->col0 + i % tile->row_len;

        y[i] *= s->norm[s->terms->transposed ? col : row];
    }
    return store(ctx, step, tile, x, y, out);
}

/* ---- norms of DoRA ---- */

/* Sums of squares of each output. An output may lie in many tiles; each tile adds to a slot of its own, so
 * that threads do not share one and the sum has a fixed order:
 *
 *     rows are outputs       slot = row * pieces + piece of the row
 *     columns are outputs    slot = tile * columns + column
 */
static enum vc_status lora_scan(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct state *s = step->state;
    float *x = scratch;
    float *y = x + tile->n_elems;

    widen(step->in.dtype, in->data, tile->n_elems, x);
    VC_CALL(add_terms(ctx, s, tile, x, y));
    for (size_t i = 0; i < tile->n_elems; i++) {
        uint64_t row = tile->row0 + i / tile->row_len;
        uint64_t col = tile->col0 + i % tile->row_len;
        uint64_t slot =
            s->terms->transposed ? tile->index * s->cols + col : row * s->pieces + tile->col0 / VC_TILE_ELEMS;

        s->squares[slot] += (double)y[i] * (double)y[i];
    }
    return VC_OK;
}

/* Adds the slots of each output, in their order, and turns magnitudes into factors: m / |output|. */
static enum vc_status lora_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    struct state *s = step->state;
    bool turned = s->terms->transposed;
    uint64_t n = s->n_slots / s->n_outputs;

    VC_CALL(read_tensor(ctx, s->terms, s->terms->module->tensors[VC_LORA_MAGNITUDE], &s->norm));
    for (uint64_t o = 0; o < s->n_outputs; o++) {
        double sum = 0.0;

        for (uint64_t k = 0; k < n; k++) {
            sum += s->squares[turned ? k * s->n_outputs + o : o * n + k];
        }
        VC_REFUSE_IF(sum == 0.0, ctx, VC_E_UNSUPPORTED, "output %llu is 0, and DoRA divides by its norm",
                     (unsigned long long)o);
        s->norm[o] = (float)((double)s->norm[o] / sqrt(sum));
    }
    return VC_OK;
}

/* ---- whole tensors ---- */

/* The adapter's row for that one of the tensor; SIZE_MAX: it has none. */
static size_t find_row(const struct vc_adapter_rows *rows, uint64_t row)
{
    for (size_t k = rows->n; k-- > 0;) {
        if (rows->rows[k] == row) {
            return k;
        }
    }
    return SIZE_MAX;
}

/* The adapter's values in place of the model's, all or those of some rows, with the same rounding to the type of the
 * file. */
static enum vc_status whole_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                  const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                  struct vc_tile_out *out)
{
    const struct state *s = step->state;
    float *x = scratch;
    float *y = x + tile->n_elems;
    float *read = y + tile->n_elems;
    const struct vc_adapter_rows *rows = s->terms->module->rows;
    size_t n = rows != NULL ? (size_t)tile->row_len : tile->n_elems;

    widen(step->in.dtype, in->data, tile->n_elems, x);
    memcpy(y, x, tile->n_elems * sizeof *y);
    for (size_t at = 0; at < tile->n_elems; at += n) {
        size_t row = rows != NULL ? find_row(rows, tile->row0 + at / n) : 0;
        uint64_t first = rows != NULL ? row * s->cols + tile->col0 : tile->first;

        if (row != SIZE_MAX) {
            VC_CALL(read_values(ctx, s->terms, first, n, read, y + at));
        }
    }
    return store(ctx, step, tile, x, y, out);
}

/* ---- planning ---- */

static const struct vc_step_ops lora_ops = {.begin = lora_begin, .apply = lora_apply, .end = lora_end};
static const struct vc_step_ops dora_ops = {
    .begin = lora_begin, .scan = lora_scan, .scan_end = lora_scan_end, .apply = lora_apply, .end = lora_end};
static const struct vc_step_ops whole_ops = {.apply = whole_apply};

/* Elements of the largest tile. */
static size_t tile_elems(const struct vc_step *step)
{
    struct vc_tile tile;

    vc_desc_first_tile(&step->in, &tile);
    return tile.n_elems;
}

/* Room for the factors, and for the sums of DoRA. */
static size_t state_bytes(const struct state *s)
{
    size_t bytes = (size_t)(s->n_slots * sizeof(double) + s->n_outputs * sizeof(float));
    const struct vc_lora_term *term = s->terms;

    for (size_t i = 0; i < s->n_terms; i++, term = term->next) {
        const struct vc_lora_place *place = &term->place;

        bytes += filled(term->rank) * (size_t)(s->n_experts * (s->per + s->width)) * sizeof(float); /* as laid out */
        bytes += (size_t)(term->rank * place->n_experts * (place->outputs + s->per + s->width)) * sizeof(float);
        bytes += is_held(term) ? (size_t)term->from->adapter->tensors[term->own].n_elems * sizeof(float) : 0;
    }
    return bytes;
}

/* What the report says of the step. */
static const char *scheme_of(struct vc_ctx *ctx, const struct vc_item *item, const struct state *s)
{
    if (s->terms->kind == VC_LORA_WHOLE) {
        return "replaced";
    }
    if (s->n_terms > 1) {
        return vc_arena_printf(ctx, item->set->arena, "%zu loras", s->n_terms);
    }
    if (s->terms->kind == VC_LORA_DIFF) {
        return "added";
    }
    return vc_arena_printf(ctx, item->set->arena, "%s r=%llu", is_dora(s->terms) ? "dora" : "lora",
                           (unsigned long long)s->terms->rank);
}

/* One step for the first n_terms of `terms`. Tiles are planned anew, as the step needs other scratch. */
static enum vc_status add_step(struct vc_ctx *ctx, struct vc_item *item, const struct vc_lora_term *terms,
                               size_t n_terms)
{
    bool whole = terms->kind == VC_LORA_WHOLE;
    bool dora = is_dora(terms);
    const struct vc_lora_term *last = terms;
    struct state *s = vc_arena_alloc(ctx, item->set->arena, sizeof *s);

    VC_CALL_ALLOC(s);
    struct vc_step *step = vc_item_add_step(ctx, item, whole ? &whole_ops : dora ? &dora_ops : &lora_ops);
    VC_CALL_ALLOC(step);
    *s = (struct state){.terms = terms, .n_terms = n_terms, .n_experts = 1};
    vc_desc_grid(item->desc, &s->rows, &s->cols);
    s->per = s->rows;
    s->width = s->cols;
    for (size_t i = 0; i < n_terms; i++, last = last->next) {
        if (last->place.parameter != NULL && item->desc->n_dims == 3) {
            s->n_experts = item->desc->shape[0];
            s->per = item->desc->shape[1];
            s->width = item->desc->shape[2];
        }
    }
    if (dora) {
        s->pieces = (s->cols + VC_TILE_ELEMS - 1) / VC_TILE_ELEMS;
        s->n_outputs = terms->transposed ? s->cols : s->rows;
        s->n_slots = terms->transposed ? vc_tile_count(s->rows, s->cols) * s->cols : s->rows * s->pieces;
    }
    step->state = s;
    step->action = VC_ACTION_MERGED;
    VC_CALL_ALLOC(step->scheme = scheme_of(ctx, item, s));
    step->lossy = true;
    step->scan = dora;
    step->scratch_bytes = (whole ? 4 : 2) * tile_elems(step) * sizeof(float);
    step->state_bytes = whole ? 0 : state_bytes(s);
    vc_item_replan(item);
    return VC_OK;
}

/* Sums side by side share a step, which reads and rounds each value once. DoRA and what replaces a tensor
 * have steps of their own, as they change what is there and do not add to it. */
enum vc_status vc_lora_add_steps(struct vc_ctx *ctx, struct vc_item *item, const struct vc_lora_term *terms)
{
    while (terms != NULL) {
        const struct vc_lora_term *end = terms->next;
        size_t n = 1;

        if (terms->kind != VC_LORA_WHOLE && !is_dora(terms)) {
            for (; end != NULL && end->kind != VC_LORA_WHOLE && !is_dora(end); end = end->next) {
                n++;
            }
        }
        VC_CALL(add_step(ctx, item, terms, n));
        terms = end;
    }
    return VC_OK;
}
