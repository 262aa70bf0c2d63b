/* trained.c - see trained.h. */
#include "distill/trained.h"

#include "core/model/code_schemes.h"
#include "facade/all_candidates.h"
#include "kernels/kernels.h"
#include "passes/decode.h"

/* ---- values in the type of a file ---- */

/* Types that weights can be trained in: floats as they are. */
static bool is_plain(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F64 || dtype == VC_DTYPE_F32 || dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16;
}

/* Elements first .. first + n - 1 of an entry. */
static void convert(const struct vc_weight *item, bool f64, uint64_t first, size_t n, enum vc_dtype dtype, void *to)
{
    for (size_t i = 0; i < n; i++) {
        double x = f64 ? ((const double *)item->data)[first + i] : (double)((const float *)item->data)[first + i];

        switch (dtype) {
        case VC_DTYPE_F64:
            ((double *)to)[i] = x;
            break;
        case VC_DTYPE_F32:
            ((float *)to)[i] = (float)x;
            break;
        case VC_DTYPE_F16:
            ((uint16_t *)to)[i] = vc_f64_to_f16(x);
            break;
        default:
            ((uint16_t *)to)[i] = vc_f64_to_bf16(x);
            break;
        }
    }
}

/* x in that type, back as a double. */
static double rounded(enum vc_dtype dtype, double x)
{
    return dtype == VC_DTYPE_F32   ? (double)(float)x
           : dtype == VC_DTYPE_F16 ? (double)vc_f16_to_f32(vc_f64_to_f16(x))
                                   : (double)vc_bf16_to_f32(vc_f64_to_bf16(x));
}

/* Every tensor that is trained must be one whose new values can be written in its type, or as its codes. */
enum vc_status vc_weights_check(struct vc_ctx *ctx, const struct vc_weights *weights, const struct vc_model *model)
{
    for (size_t k = 0; k < weights->n; k++) {
        const struct vc_weight *item = &weights->items[k];
        size_t tensor = vc_model_find(model, item->name);
        const struct vc_tensor *t = tensor != VC_NO_TENSOR ? &model->tensors[tensor] : NULL;

        VC_REFUSE_IF(item->trained && !item->coded && !item->initialized &&
                         (t == NULL || t->quant != NULL || !is_plain(t->dtype)),
                     ctx, VC_E_UNSUPPORTED,
                     t == NULL ? "%s: there is no tensor %s, which the graph computes with"
                               : "%s: %s is quantized in a way that is not trained: only int8 with f32 scales, "
                                 "symmetric codes with scales per group or row of axis 0, and Q8_0 are "
                                 "(vcompress dequantize makes floats of it, %s leaves it as it is)",
                     model->path, item->name, vc_option(ctx, "trained.freeze"));
    }
    return VC_OK;
}

/* The tensor leaves with other values than it came with. */
static bool is_changed(const struct vc_weight *item, bool statistics)
{
    return item->trained || (statistics && item->statistic);
}

/* Weights from a device first. Codes are not rounded here: their scheme does that. */
enum vc_status vc_weights_round(struct vc_ctx *ctx, struct vc_weights *weights, const struct vc_model *model,
                                bool statistics)
{
    bool f64 = weights->precision == VC_GRAPH_F64;
    enum vc_status status = vc_weights_to_host(weights);

    for (size_t k = 0; status == VC_OK && k < weights->n; k++) {
        const struct vc_weight *item = &weights->items[k];
        size_t tensor = vc_model_find(model, item->name);
        enum vc_dtype dtype;

        if (!is_changed(item, statistics) || item->coded || tensor == VC_NO_TENSOR) {
            continue;
        }
        dtype = model->tensors[tensor].dtype;
        for (uint64_t i = 0; dtype != VC_DTYPE_F64 && i < item->n; i++) {
            double x = f64 ? ((double *)item->data)[i] : (double)((float *)item->data)[i];
            double y = rounded(dtype, x);

            VC_REFUSE_IF(!isfinite(x), ctx, VC_E_GATE, "%s: a trained weight is NaN or infinite", item->name);
            VC_REFUSE_IF(!isfinite(y), ctx, VC_E_UNSUPPORTED,
                         "%s: a trained weight is %g, beyond the largest %s of its file", item->name, x,
                         vc_dtype_name(dtype));
            if (f64) {
                ((double *)item->data)[i] = y;
            } else {
                ((float *)item->data)[i] = (float)y;
            }
        }
    }
    vc_weights_changed(weights);
    return status;
}

/* ---- the step ---- */

/* What the step of a tensor holds, in the job's arena. */
struct trained {
    const struct vc_weight *item;
    bool f64, dry_plan;
};

/* n values of a float type as floats, or as doubles where the type is f64. */
static void widen(enum vc_dtype dtype, const void *from, size_t n, void *to)
{
    const uint16_t *half = from;

    if (dtype == VC_DTYPE_F64 || dtype == VC_DTYPE_F32) {
        memcpy(to, from, n * (dtype == VC_DTYPE_F64 ? sizeof(double) : sizeof(float)));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        ((float *)to)[i] = dtype == VC_DTYPE_F16 ? vc_f16_to_f32(half[i]) : vc_bf16_to_f32(half[i]);
    }
}

/* For the report's sparsity. */
static uint64_t count_zeros(const void *x, size_t n, bool f64)
{
    uint64_t zeros = 0;

    for (size_t i = 0; i < n; i++) {
        zeros += f64 ? ((const double *)x)[i] == 0 : ((const float *)x)[i] == 0;
    }
    return zeros;
}

/* How far the values have moved, as the error of every lossy step is measured. scratch: two arrays of the tile as
 * floats or doubles, then four sums for each chunk. */
static enum vc_status measure(struct vc_ctx *ctx, enum vc_dtype dtype, const struct vc_tile *tile, const void *before,
                              const void *after, void *scratch, struct vc_tile_stats *stats)
{
    const struct vc_kernels *k = vc_kernels_get(ctx);
    bool f64 = dtype == VC_DTYPE_F64;
    size_t n = (size_t)tile->n_elems;
    double *x = scratch;
    double *y = x + n;
    struct vc_diff_sums sums = {.chunk_sums = y + n};

    VC_CALL_FOUND(ctx, k);
    memcpy(y, before, n * vc_dtype_size(dtype)); /* a tile is not aligned */
    widen(dtype, y, n, x);
    widen(dtype, after, n, y);
    VC_KERNEL_CALL(f64 ? k->diff_f64(x, y, tile->n_rows, tile->row_len, &sums)
                       : k->diff_f32((const float *)x, (const float *)y, tile->n_rows, tile->row_len, &sums));
    for (size_t i = 0; i < vc_tile_chunks(tile); i++) { /* of four sums the first two: x * x and e * e */
        stats->chunk_sums[2 * i] = sums.chunk_sums[4 * i];
        stats->chunk_sums[2 * i + 1] = sums.chunk_sums[4 * i + 1];
    }
    stats->max_abs_error = sums.max_abs_error;
    stats->zeros_before = count_zeros(x, n, f64);
    stats->zeros_after = count_zeros(y, n, f64);
    return VC_OK;
}

/* A tile of the trained values, in place of what comes in; what comes in is only measured against. */
static enum vc_status trained_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                    const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                    struct vc_tile_out *out)
{
    const struct trained *t = step->state;

    if (t->dry_plan) {
        memcpy(out->data, in->data, (size_t)vc_dtype_bytes(step->out.dtype, tile->n_elems));
    } else {
        convert(t->item, t->f64, tile->first, (size_t)tile->n_elems, step->out.dtype, out->data);
    }
    return measure(ctx, step->out.dtype, tile, in->data, out->data, scratch, out->stats);
}

static const struct vc_step_ops trained_step_ops = {.apply = trained_apply};

/* What measure needs for the largest tile. */
static size_t scratch_bytes(const struct vc_desc *desc)
{
    struct vc_tile tile;

    vc_desc_first_tile(desc, &tile);
    return (2 * (size_t)tile.n_elems + 4 * vc_tile_chunks(&tile)) * sizeof(double);
}

/* The step goes on from whatever the chain has: values are the trained ones. */
static enum vc_status add_step(struct vc_ctx *ctx, struct vc_item *item, const struct vc_weight *weight, bool f64,
                               bool dry_plan)
{
    struct trained *state = vc_arena_alloc(ctx, item->set->arena, sizeof *state);
    struct vc_step *step = state != NULL ? vc_item_add_step(ctx, item, &trained_step_ops) : NULL;

    VC_CALL_ALLOC(step);
    *state = (struct trained){weight, f64, dry_plan};
    step->state = state;
    step->action = VC_ACTION_TRAINED;
    step->scheme = weight->statistic ? "statistics" : "trained";
    step->lossy = true;
    step->scratch_bytes = scratch_bytes(&step->in);
    vc_item_replan(item);
    return VC_OK;
}

/* The output has the codes that were trained: their scales are of the type and the signs that they were trained with.
 */
static enum vc_status check_scales(struct vc_ctx *ctx, const struct vc_item *item, const struct vc_weight *weight)
{
    const struct vc_desc *desc = item->desc;
    const struct vc_code_scheme *row = desc->quant != NULL ? vc_code_scheme(desc->quant->scheme) : NULL;

    VC_REFUSE_IF(row != NULL && vc_code_groups(row, VC_DTYPE_NONE, item->set->dialect).both_signs != weight->both_signs,
                 ctx, VC_E_UNSUPPORTED, "%s: the layout of the output has scales of %s, which it was not trained with",
                 weight->name, weight->both_signs ? "one sign" : "both signs");
    for (size_t k = 0; k < desc->n_parts; k++) {
        const struct vc_part_desc *part = &desc->parts[k];

        VC_REFUSE_IF(
            part->role == VC_PART_ABSMAX || (part->role == VC_PART_SCALE && weight->code_scales != VC_DTYPE_NONE &&
                                             part->dtype != weight->code_scales),
            ctx, VC_E_UNSUPPORTED, "%s: the layout of the output has other scales than %s, which it was trained with",
            weight->name, vc_dtype_name(weight->code_scales));
    }
    return VC_OK;
}

/* Floats, what was trained in their place, and codes of that: as the student has them, or in place of its floats. */
static enum vc_status add_coded(struct vc_ctx *ctx, struct vc_item *item, const struct vc_weight *weight, bool f64,
                                bool dry_plan)
{
    enum vc_dtype weights = vc_desc_weight_dtype(item->desc);
    struct vc_desc like = *item->desc;
    struct vc_candidate way;

    if (weight->becomes != NULL) {
        like.quant = weight->becomes;
        like.dtype = vc_code_scheme(weight->becomes->scheme)->codes;
    }
    VC_CALL(vc_candidate_of_codes(ctx, item->set->arena, &like, &way));
    VC_CALL(vc_decode_add(ctx, item, true));
    const char *why = way.reason(&way, item);
    VC_REFUSE_IF(why != NULL, ctx, VC_E_UNSUPPORTED, "%s: its codes cannot be made again: %s (%s leaves it as it is)",
                 weight->name, why, vc_option(ctx, "trained.freeze"));
    VC_CALL(add_step(ctx, item, weight, f64, dry_plan));
    VC_CALL(way.add(ctx, item, &way, weights));
    return check_scales(ctx, item, weight);
}

/* A tensor without a weight, or with one that stays, is kept and says why. */
enum vc_status vc_trained_plan(struct vc_ctx *ctx, struct vc_item *item, struct vc_weights *weights, bool statistics,
                               bool dry_plan)
{
    const struct vc_weight *weight = vc_weights_find(weights, item->set->model->tensors[item->source].name);
    bool f64 = weights->precision == VC_GRAPH_F64;

    if (weight == NULL) {
        return vc_item_keep_as(ctx, item, "not in the graph");
    }
    if (!is_changed(weight, statistics)) {
        return vc_item_keep_as(ctx, item,
                               weight->statistic ? "statistics, frozen"
                               : weight->unread  ? "no logits depend on it"
                                                 : "not trained");
    }
    return weight->coded ? add_coded(ctx, item, weight, f64, dry_plan) : add_step(ctx, item, weight, f64, dry_plan);
}
