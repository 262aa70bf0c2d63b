/* fake_quant.c - see fake_quant.h. Which tensors `quantize` would work on, and how, is asked of a job of it
 * that is planned and thrown away.
 *
 *     master    the weights that the optimizer moves, as floats of the run
 *     values    what the network computes with: the masters rounded to codes and back, after each step
 *
 *     open      tensors of the student that have codes, then those that --fake-quant asks for
 *     begin     masters from the weights, values from the masters
 *     apply     after a step: scales anew, values anew
 *     finish    behind the run: weights that are written as codes get their masters, of which the codes are made again
 */
#include "distill/update/fake_quant.h"

#include "core/base/option_struct.h"
#include "core/job/job_state.h"
#include "core/job/scoped.h"
#include "core/model/code_schemes.h"
#include "distill/update/fake_quant_codes.h"
#include "kernels/kernels.h"

#define PER_CALL VC_CHUNK_ELEMS /* elements that kernels get at a time: a multiple of Q8_0's blocks */

/* ---- which tensors ---- */

/* "int8/group:32": what the report calls it; by the first tensor. */
static enum vc_status describe(struct vc_learner *l, const struct vc_quant *quant, enum vc_dtype dtype)
{
    struct vc_text text;
    enum vc_status status;

    vc_text_init(&text, l->ctx);
    vc_text_add(&text, "%s", quant != NULL ? vc_scheme_name(quant->scheme) : vc_dtype_name(dtype));
    if (quant != NULL) {
        vc_text_add(&text, "/%s", vc_granularity_name(quant->granularity));
    }
    if (quant != NULL && quant->granularity == VC_GRANULARITY_GROUP) {
        vc_text_add(&text, ":%llu", (unsigned long long)quant->group_size);
    }
    vc_text_add(&text, "%s", quant != NULL && !quant->symmetric ? "/asym" : "");
    status = text.status;
    l->fake_quants->label = vc_text_detach(&text);
    return l->fake_quants->label != NULL ? VC_OK : status;
}

/* One more tensor. */
static struct vc_fake_quant *next(struct vc_learner *l, size_t k)
{
    const struct vc_weight *item = &l->net.weights->items[k];
    struct vc_fake_quant *f = &l->fake_quants->items[l->fake_quants->n++];

    *f = (struct vc_fake_quant){.entry = k, .row_len = item->n, .shares = VC_NO_SHARES};
    l->report->n_fake_quant_tensors++;
    l->report->n_fake_quant_weights += item->n;
    return f;
}

/* The fake quantization of entry k to codes whose scales are searched. */
static enum vc_status add_searched(struct vc_learner *l, size_t k, const struct vc_searched *codes)
{
    struct vc_weight *item = &l->net.weights->items[k];

    vc_fake_quant_set(l, next(l, k), codes);
    item->coded = true;
    item->both_signs = codes->how.both_signs;
    item->code_scales = codes->scheme->scale == VC_DTYPE_NONE ? codes->how.type : VC_DTYPE_NONE;
    return l->fake_quants->label == NULL ? describe(l, codes->quant, codes->scheme->codes) : VC_OK;
}

/* Blocks of Q8_0 as groups, where their scales are learned. */
#define Q8_0_BLOCK 32

/* The fake quantization of entry k: codes of that type, with `quant` where they are int8.
 *     int8/tensor         1 scale, inner n                            one scale for everything
 *     int8/channel        a scale for each place along the axis       inner: elements behind the axis
 *     int8/group:32       a scale for each 32 elements of a row       a row that is no multiple ends with fewer
 */
static enum vc_status add(struct vc_learner *l, size_t k, const struct vc_quant *quant, enum vc_dtype dtype)
{
    const struct vc_weight *item = &l->net.weights->items[k];
    struct vc_fake_quant *f = next(l, k);
    uint64_t n_rows, row_len;

    f->codes = quant != NULL ? VC_DTYPE_I8 : dtype;
    if (quant != NULL) {
        f->asymmetric = !quant->symmetric;
        vc_rows_of(item->shape, item->n_dims, &n_rows, &row_len);
        switch (quant->granularity) {
        case VC_GRANULARITY_TENSOR:
            f->inner = item->n;
            f->n_scales = 1;
            break;
        case VC_GRANULARITY_CHANNEL:
            f->n_scales = item->shape[quant->axis];
            f->inner = 1;
            for (unsigned d = quant->axis + 1; d < item->n_dims; d++) {
                f->inner *= item->shape[d];
            }
            break;
        case VC_GRANULARITY_GROUP:
            f->inner = quant->group_size;
            f->n_scales = n_rows * vc_ceil_div_u64(row_len, quant->group_size);
            f->row_len = row_len % quant->group_size != 0 ? row_len : item->n;
            break;
        case VC_GRANULARITY_BLOCK: /* is refused */
            break;
        }
        f->n_per_row = f->row_len == item->n ? f->n_scales : f->n_scales / n_rows;
    }
    if (dtype == VC_DTYPE_Q8_0 && quant == NULL && l->options->precision.learn_scales) {
        f->inner = Q8_0_BLOCK;
        f->n_scales = item->n / Q8_0_BLOCK;
        f->n_per_row = f->n_scales;
    }
    return l->fake_quants->label == NULL ? describe(l, quant, dtype) : VC_OK;
}

/* A tensor of the student's file that has codes. Others are for vc_weights_check to refuse. */
static enum vc_status add_coded(struct vc_learner *l, size_t k, const struct vc_tensor *tensor)
{
    const struct vc_quant *quant = tensor->quant;
    struct vc_weight *item = &l->net.weights->items[k];
    const struct vc_searched codes = vc_fake_quant_of_tensor(l->options->student.weights, tensor);
    size_t scale = quant != NULL ? vc_quant_find(quant, VC_PART_SCALE) : VC_NO_TENSOR;
    bool int8 = scale != VC_NO_TENSOR && quant->scheme == VC_SCHEME_INT8 &&
                quant->granularity != VC_GRANULARITY_BLOCK && !vc_quant_is_special(quant) &&
                l->options->student.weights->tensors[scale].dtype == VC_DTYPE_F32;

    if (codes.scheme != NULL) {
        return add_searched(l, k, &codes);
    }
    if (!int8 && (quant != NULL || tensor->dtype != VC_DTYPE_Q8_0)) {
        return VC_OK;
    }
    item->coded = true;
    item->code_scales = int8 ? VC_DTYPE_F32 : VC_DTYPE_NONE;
    return add(l, k, quant, tensor->dtype);
}

/* Shares of scales for all tensors that can have them. */
static enum vc_status learn_scales(struct vc_learner *l)
{
    bool any = false;

    for (size_t i = 0; i < l->fake_quants->n; i++) {
        VC_CALL(vc_fake_quant_learn(l, &l->fake_quants->items[i]));
        any = any || l->fake_quants->items[i].shares != VC_NO_SHARES;
    }
    VC_REFUSE_IF(!any, l->ctx, VC_E_ARGUMENT, "%s: no tensor that is trained has codes with scales: int8 and Q8_0 do",
                 vc_option(l->ctx, "precision.learn_scales"));
    return VC_OK;
}

/* ---- --fake-quant ---- */

/* The options of the quantize pass, without what lies on no single grid. */
static enum vc_status read_options(struct vc_ctx *ctx, const struct vc_distill_options *distill,
                                   struct vc_quantize_options *o)
{
    VC_CALL(vc_options_read(ctx, VC_OPTIONS(quantize), distill->precision.fake_quant, o));
    VC_REFUSE_IF(o->aim_sqnr_db != 0 || o->aim_bytes != 0 || o->target == VC_TARGET_CHOSEN ||
                     o->target == VC_TARGET_GGUF || o->rest != NULL,
                 ctx, VC_E_UNSUPPORTED,
                 "%s: what is trained lies on the grid of one scheme; aims, mixtures and a rest are for the "
                 "quantize pass",
                 vc_option(ctx, "precision.fake_quant"));
    VC_REFUSE_IF(o->asymmetric, ctx, VC_E_UNSUPPORTED,
                 "%s: values on an asymmetric grid would get other scales when they are quantized; symmetric "
                 "ones keep theirs",
                 vc_option(ctx, "precision.fake_quant"));
    return VC_OK;
}

/* Values of these are floats in the output, of which quantize makes the same values; others are written as codes. */
static bool writes_floats(enum vc_target target)
{
    return target == VC_TARGET_INT8 || target == VC_TARGET_F16 || target == VC_TARGET_BF16;
}

/* *codes: what the output's codes are called, if it has codes; NULL: it has floats. */
enum vc_status vc_fake_quant_writes(struct vc_ctx *ctx, const struct vc_model *model,
                                    const struct vc_distill_options *options, const char **codes)
{
    struct vc_quantize_options quantize;
    struct vc_job *job = NULL;
    enum vc_status status = VC_OK;

    *codes = NULL;
    if (options->precision.fake_quant == NULL) {
        return VC_OK;
    }
    VC_TRY(read_options(ctx, options, &quantize));
    if (!writes_floats(quantize.target)) {
        VC_TRY(vc_job_create(ctx, model, &job));
        status = vc_job_add_quantize(ctx, job, &quantize);
        if (status != VC_OK) {
            status = vc_context(ctx, "%s", vc_option(ctx, "precision.fake_quant"));
            goto out;
        }
        *codes = job->passes[0]->codes;
    }
out:
    vc_job_free(job);
    return status;
}

/* The output has these codes in place of floats. `quant` is of a plan that will be gone. */
static enum vc_status become(struct vc_learner *l, size_t k, const struct vc_quant *quant)
{
    struct vc_weights *w = l->net.weights;
    struct vc_quant *own = vc_arena_alloc(l->ctx, &w->added, sizeof *own);

    VC_CALL_ALLOC(own);
    *own = *quant;
    w->items[k].becomes = own;
    return VC_OK;
}

/* What a planned job of quantize makes of the tensor of entry k. */
static enum vc_status add_planned(struct vc_learner *l, size_t k, const struct vc_dialect *dialect,
                                  const struct vc_desc *desc, const struct vc_desc *was)
{
    const struct vc_weight *item = &l->net.weights->items[k];
    const struct vc_searched codes = vc_fake_quant_of_desc(dialect, desc);
    enum vc_dtype before = was->dtype;

    if (desc->quant == was->quant && desc->dtype == before) {
        return VC_OK; /* it is kept */
    }
    if (codes.scheme != NULL) {
        VC_CALL(become(l, k, codes.quant));
        return add_searched(l, k, &codes);
    }
    VC_REFUSE_IF(desc->quant != NULL && before != VC_DTYPE_F32 && before != VC_DTYPE_F64, l->ctx, VC_E_UNSUPPORTED,
                 "%s: is %s in the student's file, which has no place for values on the grid of int8; %s needs "
                 "an f32 student",
                 item->name, vc_dtype_name(before), vc_option(l->ctx, "precision.fake_quant"));
    VC_REFUSE_IF(desc->quant != NULL && desc->quant->granularity == VC_GRANULARITY_BLOCK, l->ctx, VC_E_UNSUPPORTED,
                 "%s: in that output its rows share scales, which is not trained; %s of npz or safetensors can be",
                 item->name, vc_option(l->ctx, "path"));
    return add(l, k, desc->quant, desc->dtype);
}

/* Plans a job of quantize on the student's file and takes over what it would do to each tensor that is
 * trained. */
static enum vc_status add_asked(struct vc_learner *l)
{
    const struct vc_model *model = l->options->student.weights;
    struct vc_quantize_options options;
    struct vc_write_options write;
    VC_SCOPED_JOB struct vc_job *job = NULL;
    size_t n = l->fake_quants->n;

    VC_CALL(read_options(l->ctx, l->options, &options));
    options.requantize = true; /* a tensor that is quantized keeps the scheme that it has */
    vc_write_defaults(&write);
    if (!writes_floats(options.target) && l->write != NULL) { /* the types of scales are those of the output */
        write.path = l->write->path;
        write.emit = l->write->emit;
        write.n_emit = l->write->n_emit;
        write.format = l->write->format;
        write.layout = l->write->layout;
        write.force = true;
    }
    write.dry_run = true;
    VC_CALL(vc_job_create(l->ctx, model, &job));
    VC_CALL(vc_job_add_quantize(l->ctx, job, &options));
    VC_CALL(vc_job_plan(l->ctx, job, &write));
    for (size_t k = 0; k < l->net.weights->n; k++) {
        const struct vc_weight *item = &l->net.weights->items[k];
        size_t tensor = vc_model_find(model, item->name);

        if (item->trained && !item->coded && tensor != VC_NO_TENSOR) {
            VC_CALL(add_planned(l, k, job->plan.dialect, job->plan.items[tensor].desc, job->plan.items[tensor].first));
        }
    }
    VC_REFUSE_IF(l->fake_quants->n == n, l->ctx, VC_E_ARGUMENT,
                 "%s: quantize would work on no tensor that is trained; %s chooses small ones, too",
                 vc_option(l->ctx, "precision.fake_quant"), vc_option(l->ctx, "include=true"));
    return VC_OK;
}

/* Nothing stays where no tensor is quantized. */
enum vc_status vc_fake_quant_open(struct vc_learner *l)
{
    const struct vc_model *model = l->options->student.weights;
    struct vc_weights *w = l->net.weights;

    l->report->fake_quant_share = (double)NAN;
    VC_CALL(VC_ZEROS(l->ctx, VC_TAG_MISC, l->fake_quants, 1));
    VC_CALL(VC_ZEROS(l->ctx, VC_TAG_MISC, l->fake_quants->items, w->n + 1));
    for (size_t k = 0; k < w->n; k++) {
        size_t tensor = vc_model_find(model, w->items[k].name);

        if (w->items[k].trained && tensor != VC_NO_TENSOR) {
            VC_CALL(add_coded(l, k, &model->tensors[tensor]));
        }
    }
    if (l->options->precision.fake_quant != NULL) {
        VC_CALL(add_asked(l));
    }
    if (l->options->precision.learn_scales) {
        VC_CALL(learn_scales(l));
    }
    vc_fake_quant_join(l);
    if (l->fake_quants->n == 0) {
        vc_fake_quant_close(l);
        return VC_OK;
    }
    l->report->fake_quant_bytes = vc_fake_quant_bytes(l);
    VC_CALL_ALLOC(l->report->fake_quant = vc_arena_printf(l->ctx, l->texts, "%s", l->fake_quants->label));
    return VC_OK;
}

/* Accepts a learner without fake quantization. */
void vc_fake_quant_close(struct vc_learner *l)
{
    if (l->fake_quants != NULL) {
        vc_text_free(l->fake_quants->label);
        VC_FREE_ALL(l->ctx, l->fake_quants->items, l->fake_quants->room, l->fake_quants);
        l->fake_quants = NULL;
    }
}

/* ---- memory ---- */

static size_t real_bytes(const struct vc_learner *l)
{
    return l->f64 ? sizeof(double) : sizeof(float);
}

/* One block for all: masters, limits and scales of each tensor. */
uint64_t vc_fake_quant_bytes(const struct vc_learner *l)
{
    uint64_t sum = 0;

    for (size_t i = 0; l->fake_quants != NULL && i < l->fake_quants->n; i++) {
        const struct vc_fake_quant *f = &l->fake_quants->items[i];

        sum += VC_POOL_ALIGNED(l->net.weights->items[f->entry].n * real_bytes(l));
        sum += 3 * VC_POOL_ALIGNED(f->n_scales * sizeof(float)) + VC_POOL_ALIGNED(f->n_scales);
        sum += f->shares != VC_NO_SHARES ? VC_POOL_ALIGNED(f->n_scales * sizeof(double)) : 0;
    }
    return sum;
}

void **vc_fake_quant_room(struct vc_learner *l)
{
    return &l->fake_quants->room;
}

/* ---- rounding ---- */

/* n masters from number `first` on as floats, as quantize takes them: `room` where they are doubles. */
static enum vc_status floats(struct vc_learner *l, const struct vc_fake_quant *f, uint64_t first, size_t n, float *room,
                             const float **out)
{
    struct vc_ctx *ctx = l->ctx;
    const struct vc_kernels *k = vc_kernels_get(ctx);

    *out = (const float *)f->master + first;
    if (l->f64) {
        VC_KERNEL_CALL(k->f64_to_f32((const double *)f->master + first, n, room));
        *out = room;
    }
    return VC_OK;
}

/* Which scales elements from number `first` on have; *n is cut where a row ends. *at: of the scales.
 * Kernels take a piece of one row at a time where groups do not divide it. */
static struct vc_axis_map map_of(const struct vc_fake_quant *f, uint64_t first, size_t *n, uint64_t *at)
{
    uint64_t in_row = first % f->row_len;

    *n = (size_t)vc_min_u64(*n, f->row_len - in_row);
    *at = first / f->row_len * f->n_per_row;
    return (struct vc_axis_map){.first = in_row, .inner = f->inner, .n_channels = (size_t)f->n_per_row};
}

/* ... in arrays of their own. */
static bool has_scales(const struct vc_fake_quant *f)
{
    return f->codes == VC_DTYPE_I8 || f->shares != VC_NO_SHARES;
}

/* Scales of one tensor from its masters, by the kernels of the quantize pass. */
static enum vc_status make_scales(struct vc_learner *l, struct vc_fake_quant *f)
{
    struct vc_ctx *ctx = l->ctx;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    uint64_t n_elems = l->net.weights->items[f->entry].n;
    float room[PER_CALL];

    memset(f->pos, 0, (size_t)f->n_scales * sizeof *f->pos);
    memset(f->neg, 0, (size_t)f->n_scales * sizeof *f->neg);
    for (uint64_t first = 0; first < n_elems;) {
        size_t n = (size_t)vc_min_u64(PER_CALL, n_elems - first);
        uint64_t at;
        struct vc_axis_map map = map_of(f, first, &n, &at);
        const float *x;

        VC_CALL(floats(l, f, first, n, room, &x));
        if (f->asymmetric) {
            VC_KERNEL_CALL(k->range_axis(x, n, &map, f->pos + at, f->neg + at));
        } else {
            VC_KERNEL_CALL(k->absmax_axis(x, n, &map, f->pos + at));
        }
        first += n;
    }
    vc_fake_quant_clip(l, f);
    for (uint64_t i = 0; i < f->n_scales; i++) {
        f->scale[i] = f->asymmetric ? vc_int8_asym_scale(f->pos[i], f->neg[i]) : vc_int8_scale(f->pos[i]);
        f->zero[i] = f->asymmetric ? vc_int8_zero_point(f->neg[i], f->scale[i]) : 0;
    }
    return VC_OK;
}

/* n masters from number `first` on, rounded to 16 bits once, as floats. */
static enum vc_status cast_some(struct vc_learner *l, const struct vc_fake_quant *f, uint64_t first, size_t n, float *y)
{
    struct vc_ctx *ctx = l->ctx;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    bool f16 = f->codes == VC_DTYPE_F16;
    const double *wide = (const double *)f->master + first;
    const float *x = (const float *)f->master + first;
    uint16_t halves[PER_CALL];
    _Alignas(64) double sums[4];
    struct vc_tile_stats stats = {.chunk_sums = sums};

    if (l->f64) {
        VC_KERNEL_CALL(f16 ? k->cast_f64_f16(wide, 1, n, halves, &stats)
                           : k->cast_f64_bf16(wide, 1, n, halves, &stats));
    } else {
        VC_KERNEL_CALL(f16 ? k->cast_f32_f16(x, 1, n, halves, &stats) : k->cast_f32_bf16(x, 1, n, halves, &stats));
    }
    VC_KERNEL_CALL(f16 ? k->f16_to_f32(halves, n, y) : k->bf16_to_f32(halves, n, y));
    return VC_OK;
}

/* The same through codes. *n is cut where scales end. */
static enum vc_status code_some(struct vc_learner *l, const struct vc_fake_quant *f, uint64_t first, size_t *n,
                                float *y)
{
    struct vc_ctx *ctx = l->ctx;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    float room[PER_CALL];
    uint8_t codes[PER_CALL * 2];
    _Alignas(64) double sums[4];
    struct vc_tile_stats stats = {.chunk_sums = sums};
    uint32_t bits[PER_CALL / 32];
    uint64_t at;
    const int8_t *zero;
    const float *x;

    VC_CALL(floats(l, f, first, *n, room, &x));
    if (f->shares != VC_NO_SHARES) {
        memmove(room, x, *n * sizeof *room);
        vc_fake_quant_clamp(f, first, *n, room);
        x = room;
    }
    if (f->codes == VC_DTYPE_Q8_0) {
        VC_KERNEL_CALL(k->q8_0_rows(x, 1, *n, bits, codes, &stats));
        VC_KERNEL_CALL(k->q8_0_to_f32(codes, *n, y));
        return VC_OK;
    }
    struct vc_axis_map map = map_of(f, first, n, &at);
    zero = f->asymmetric ? f->zero + at : NULL;
    VC_KERNEL_CALL(k->int8_axis_given(x, 1, *n, &map, f->scale + at, zero, (int8_t *)codes, &stats));
    VC_KERNEL_CALL(k->int8_decode_axis((const int8_t *)codes, *n, &map, f->scale + at, zero, y));
    return VC_OK;
}

/* One tensor whose scales follow from its largest magnitudes, a piece at a time. */
static enum vc_status apply(struct vc_learner *l, struct vc_fake_quant *f)
{
    const struct vc_weight *item = &l->net.weights->items[f->entry];
    bool cast = f->codes == VC_DTYPE_F16 || f->codes == VC_DTYPE_BF16;
    float wide[PER_CALL];

    if (has_scales(f)) {
        VC_CALL(make_scales(l, f));
    }
    for (uint64_t first = 0; first < item->n;) {
        size_t n = (size_t)vc_min_u64(PER_CALL, item->n - first);
        float *y = l->f64 ? wide : (float *)item->data + first;

        if (cast) {
            VC_CALL(cast_some(l, f, first, n, y));
        } else {
            VC_CALL(code_some(l, f, first, &n, y));
        }
        for (size_t i = 0; l->f64 && i < n; i++) {
            ((double *)item->data)[first + i] = (double)y[i];
        }
        first += n;
    }
    return VC_OK;
}

/* All tensors on the host. */
enum vc_status vc_fake_quant_apply(struct vc_learner *l, struct vc_engine *engine)
{
    enum vc_status status = VC_OK;

    for (size_t i = 0; l->fake_quants != NULL && status == VC_OK && i < l->fake_quants->n; i++) {
        struct vc_fake_quant *f = &l->fake_quants->items[i];

        status = f->scheme == NULL ? apply(l, f) : VC_OK;
    }
    if (l->fake_quants != NULL && status == VC_OK) {
        vc_fake_quant_search(l, false, engine);
    }
    return status;
}

/* The kernel of the device for these codes. */
static int kind_on_device(const struct vc_fake_quant *f)
{
    if (f->scheme != NULL) {
        return VC_TRAIN_FAKE_QUANT_GROUPS;
    }
    switch (f->codes) {
    case VC_DTYPE_I8:
        return VC_TRAIN_FAKE_QUANT_I8;
    case VC_DTYPE_Q8_0:
        return VC_TRAIN_FAKE_QUANT_Q8_0;
    case VC_DTYPE_F16:
        return VC_TRAIN_FAKE_QUANT_F16;
    default:
        return VC_TRAIN_FAKE_QUANT_BF16;
    }
}

/* What the device computes of tensor f. room: its copy of the block of masters and scales. */
static struct vc_train_fake_quant on_device(const struct vc_learner *l, const struct vc_fake_quant *f, char *room)
{
    const struct vc_weights *w = l->net.weights;
    const struct vc_weight *item = &w->items[f->entry];
    const char *here = l->fake_quants->room;
    bool global = f->scheme != NULL && f->scheme->global;
    const struct vc_fake_quant *limits = global ? &l->fake_quants->items[f->joined] : f;

#define THERE(p) (void *)(room + ((const char *)(const void *)(p)-here))
    return (struct vc_train_fake_quant){
        .kind = kind_on_device(f),
        .asymmetric = f->asymmetric,
        .n = item->n,
        .row_len = f->row_len,
        .inner = f->inner,
        .n_per_row = f->n_per_row,
        .n_scales = f->n_scales,
        .master = THERE(f->master),
        .w = (void *)((char *)w->device_data + ((const char *)item->data - (const char *)w->data_block)),
        .pos = f->scheme == NULL || global ? THERE(limits->pos) : NULL,
        .neg = THERE(f->neg),
        .scale = THERE(f->scale),
        .zero = THERE(f->zero),
        .how = f->how};
#undef THERE
}

/* The largest magnitudes of tensors with a global scale, those of joined tensors in one place. */
static enum vc_status largest_on_device(struct vc_learner *l, char *room)
{
    const struct vc_train_backend *table = l->device->table;
    void *session = l->device->session;

    for (size_t i = 0; i < l->fake_quants->n; i++) {
        const struct vc_fake_quant *f = &l->fake_quants->items[i];

        if (f->scheme == NULL || !f->scheme->global) {
            continue;
        }
        struct vc_train_fake_quant there = on_device(l, f, room);
        there.kind = VC_TRAIN_FAKE_QUANT_LARGEST;
        if (f->joined == i) { /* the first of its set */
            VC_CALL(vc_train_result(l->device, table->clear(session, there.pos, sizeof *there.pos)));
        }
        VC_CALL(vc_train_result(l->device, table->fake_quant(session, &there)));
    }
    return VC_OK;
}

/* All tensors on the device, after its update. Largest magnitudes of global scales come first. */
enum vc_status vc_fake_quant_apply_device(struct vc_learner *l, void *room)
{
    if (l->fake_quants == NULL) {
        return VC_OK;
    }
    VC_CALL(largest_on_device(l, room));
    for (size_t i = 0; i < l->fake_quants->n; i++) {
        const struct vc_train_fake_quant there = on_device(l, &l->fake_quants->items[i], room);

        VC_CALL(vc_train_result(l->device, l->device->table->fake_quant(l->device->session, &there)));
    }
    return VC_OK;
}

/* The next part of the block. */
static void *take(char **at, uint64_t bytes)
{
    void *p = *at;

    *at += VC_POOL_ALIGNED(bytes);
    return p;
}

/* Lays the block out, copies the weights to the masters, and makes the values. */
enum vc_status vc_fake_quant_begin(struct vc_learner *l)
{
    char *at = l->fake_quants != NULL ? l->fake_quants->room : NULL;

    for (size_t i = 0; l->fake_quants != NULL && i < l->fake_quants->n; i++) {
        struct vc_fake_quant *f = &l->fake_quants->items[i];
        const struct vc_weight *item = &l->net.weights->items[f->entry];

        f->master = take(&at, item->n * real_bytes(l));
        f->pos = take(&at, f->n_scales * sizeof *f->pos);
        f->neg = take(&at, f->n_scales * sizeof *f->neg);
        f->scale = take(&at, f->n_scales * sizeof *f->scale);
        f->zero = take(&at, f->n_scales);
        f->sum = f->shares != VC_NO_SHARES ? take(&at, f->n_scales * sizeof *f->sum) : NULL;
        l->optimizer.states[f->entry].master = f->master;
        memcpy(f->master, item->data, (size_t)item->n * real_bytes(l));
        /* Codes say their values already, which asymmetric scales would not give again. */
        if (!(item->coded || f->scheme != NULL)) {
            VC_CALL(apply(l, f));
        }
        if (item->coded && has_scales(f)) {
            VC_CALL(make_scales(l, f));
        }
    }
    if (l->fake_quants != NULL) {
        vc_fake_quant_search(l, true, NULL);
    }
    return VC_OK;
}

/* ---- masters ---- */

/* Masters in place of the values, in a copy of the weights' block. */
void vc_fake_quant_copy_masters(const struct vc_learner *l, void *copy)
{
    for (size_t i = 0; l->fake_quants != NULL && i < l->fake_quants->n; i++) {
        const struct vc_fake_quant *f = &l->fake_quants->items[i];
        const struct vc_weight *item = &l->net.weights->items[f->entry];
        size_t at = (size_t)((const char *)item->data - (const char *)l->net.weights->data_block);

        memcpy((char *)copy + at, f->master, (size_t)item->n * real_bytes(l));
    }
}

/* The reverse, from the weights' block itself. */
void vc_fake_quant_take_masters(struct vc_learner *l)
{
    for (size_t i = 0; l->fake_quants != NULL && i < l->fake_quants->n; i++) {
        struct vc_fake_quant *f = &l->fake_quants->items[i];
        const struct vc_weight *item = &l->net.weights->items[f->entry];

        memcpy(f->master, item->data, (size_t)item->n * real_bytes(l));
    }
}

/* Weights that leave as codes are the masters, cut where scales were learned. */
void vc_fake_quant_finish(struct vc_learner *l)
{
    l->report->fake_quant_share = vc_fake_quant_mean_share(l);
    for (size_t i = 0; l->fake_quants != NULL && i < l->fake_quants->n; i++) {
        const struct vc_fake_quant *f = &l->fake_quants->items[i];
        const struct vc_weight *item = &l->net.weights->items[f->entry];

        if (item->coded) {
            memcpy(item->data, f->master, (size_t)item->n * real_bytes(l));
        }
        if (item->coded && f->shares != VC_NO_SHARES) {
            vc_fake_quant_cut(l, f);
        }
    }
}

/* ---- checkpoints ---- */

/* A line for each tensor, for checkpoints. */
void vc_fake_quant_text(const struct vc_learner *l, struct vc_text *text)
{
    for (size_t i = 0; l->fake_quants != NULL && i < l->fake_quants->n; i++) {
        const struct vc_fake_quant *f = &l->fake_quants->items[i];

        vc_text_add(text, "grid %zu %s %llu %llu%s\n", f->entry,
                    f->scheme != NULL ? f->scheme->name : vc_dtype_name(f->codes), (unsigned long long)f->inner,
                    (unsigned long long)f->n_scales, f->shares != VC_NO_SHARES ? " learned" : "");
    }
}
