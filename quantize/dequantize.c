/* dequantize.c - the pass behind `vcompress dequantize`: codes and blocks become floats again, and with --casts f16 and
 * bf16 are widened or rounded. Chooses tensors and targets; the work is in passes/decode.c and cast.c.
 *
 *     codes, blocks --decode--> f32 --(--fp16, --bf16: cast)--> f16, bf16
 *                                   --(source_dtype: f64)-----> f64 */
#include "core/base/option_struct.h"
#include "core/job/job_passes.h"
#include "kernels/kernels.h"
#include "passes/decode.h"
#include "passes/select.h"
#include "quantize/schemes/cast.h"

/* The pass. */
struct dequantize {
    struct vc_pass pass;
    struct vc_arena arena;
    struct vc_dequantize_options options;
    struct vc_recipe_entry recipe[2];
    bool changes, halves; /* the plan has a tensor that changes; one that casts would have changed */
};

/* The type that the item's values are to have. With `source_dtype` each tensor has the type that it had before it was
 * quantized, where the file tells. */
static enum vc_dtype target_of(const struct dequantize *d, const struct vc_item *item)
{
    static const enum vc_dtype targets[] = {
        [VC_TARGET_F16] = VC_DTYPE_F16, [VC_TARGET_BF16] = VC_DTYPE_BF16, [VC_TARGET_F32] = VC_DTYPE_F32};

    if (d->options.source_dtype && item->desc->quant != NULL) {
        return item->desc->quant->source_dtype;
    }
    if (d->options.source_dtype && (vc_dtype_is_quantized(item->desc->dtype) || vc_decode_is_f8(item->desc))) {
        return VC_DTYPE_F32; /* blocks do not tell */
    }
    return targets[d->options.target];
}

/* Whether the tensor stays, with a reason. Codes that are not understood are refused rather than kept, unless a rule
 * excludes them: what the user asks for cannot be done. */
static enum vc_status choose(struct vc_ctx *ctx, const struct dequantize *d, struct vc_item *item, bool *kept)
{
    const struct vc_desc *desc = item->desc;
    const struct vc_tensor *t = &item->set->model->tensors[item->source];
    const char *name = t->name;
    bool cast = desc->dtype == VC_DTYPE_F16 || desc->dtype == VC_DTYPE_BF16;
    bool blocks = vc_dtype_is_quantized(desc->dtype) || vc_decode_is_f8(desc);
    const char *glob = NULL;

    *kept = true;
    if (!vc_decode_can(desc) && desc->dtype != VC_DTYPE_VOID && vc_dtype_size(desc->dtype) == 0) {
        return vc_item_keep_as(ctx, item, vc_dtype_name(desc->dtype)); /* blocks that are not understood */
    }
    VC_REFUSE_IF(desc->quant == NULL && t->undecoded != NULL &&
                     vc_rules_choose(d->options.rules, d->options.n_rules, name, &glob) != VC_CHOICE_EXCLUDE,
                 ctx, VC_E_UNSUPPORTED, "%s; %s leaves it as it is", t->undecoded, vc_option(ctx, "include=false"));
    if (desc->quant == NULL && !blocks && !(cast && d->options.casts)) {
        return vc_item_keep_as(ctx, item, "not quantized");
    }
    if (desc->quant == NULL && desc->dtype == target_of(d, item)) {
        return vc_item_keep(ctx, item, "%s already", vc_dtype_name(desc->dtype));
    }
    if (vc_rules_choose(d->options.rules, d->options.n_rules, name, &glob) == VC_CHOICE_EXCLUDE) {
        return d->options.excluded_as != NULL ? vc_item_keep_as(ctx, item, d->options.excluded_as)
                                              : vc_item_keep(ctx, item, "excluded by '%s'", glob);
    }
    *kept = false;
    return VC_OK;
}

static enum vc_status dequantize_plan_begin(struct vc_ctx *ctx, struct vc_pass *pass, const struct vc_plan *plan)
{
    struct dequantize *d = pass->self;

    (void)ctx;
    (void)plan;
    d->changes = d->halves = false; /* of this plan: a job may be planned again */
    return VC_OK;
}

/* The steps: decode to f32, then to the target. Values beyond f32 (a scale times a code) are a matter of the policy. */
static enum vc_status dequantize_plan(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_item *item)
{
    struct dequantize *d = pass->self;
    bool kept = false;
    enum vc_dtype own = item->desc->dtype;

    VC_CALL(choose(ctx, d, item, &kept));
    d->changes = d->changes || !kept;
    if (kept) {
        d->halves = d->halves || (!d->options.casts && !d->options.source_dtype && d->options.n_rules == 0 &&
                                  item->desc->quant == NULL && (own == VC_DTYPE_F16 || own == VC_DTYPE_BF16) &&
                                  own != target_of(d, item));
        return VC_OK;
    }
    enum vc_dtype target = target_of(d, item);
    if (vc_decode_is_f8(item->desc)) {
        VC_CALL(vc_decode_add_f8(ctx, item));
    } else if (item->desc->quant == NULL && !vc_dtype_is_quantized(item->desc->dtype)) {
        VC_CALL(vc_decode_add(ctx, item, false));
    } else if (target == VC_DTYPE_F32 || target == VC_DTYPE_F64) {
        VC_CALL(vc_decode_add_codes(ctx, item, d->options.overflow, true));
    } else { /* FLT_MAX does not fit f16 and bf16 either, so the policy of the cast still decides */
        VC_CALL(vc_decode_add_codes(ctx, item, VC_OVERFLOW_SATURATE, true));
    }
    if (target == VC_DTYPE_F64) {
        VC_CALL(vc_decode_add_f64(ctx, item));
    } else if (target != VC_DTYPE_F32) {
        VC_CALL(vc_cast_add(ctx, item, target, VC_NONFINITE_ERROR, d->options.overflow, VC_ACTION_DEQUANTIZED,
                            VC_ADVICE_EXCLUDE));
    }
    return VC_OK;
}

static enum vc_status dequantize_plan_end(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_plan *plan)
{
    struct dequantize *d = pass->self;

    VC_CALL(vc_rules_unmatched(ctx, &d->arena, d->options.rules, d->options.n_rules, plan->model, &pass->note));
    /* Who made them with quantize --bf16 may expect the way back. */
    if (pass->note == NULL && !d->changes && d->halves) {
        pass->note = vc_arena_printf(ctx, &d->arena, "f16 and bf16 are floats and stay as they are; %s casts them, too",
                                     vc_option(ctx, "casts"));
        VC_CALL_ALLOC(pass->note);
    }
    return VC_OK;
}

static void dequantize_free(struct vc_ctx *ctx, struct vc_pass *pass)
{
    struct dequantize *d = pass->self;

    vc_arena_release(ctx, &d->arena);
    vc_free(ctx, d);
}

static const struct vc_pass_ops dequantize_ops = {.name = "dequantize",
                                                  .plan_begin = dequantize_plan_begin,
                                                  .plan = dequantize_plan,
                                                  .plan_end = dequantize_plan_end,
                                                  .free = dequantize_free};

/* The recipe and the command of the report. */
static enum vc_status describe(struct vc_ctx *ctx, struct dequantize *d)
{
    static const char *const names[] = {
        [VC_TARGET_INT8] = "", [VC_TARGET_F16] = "fp16", [VC_TARGET_BF16] = "bf16", [VC_TARGET_F32] = "f32"};
    const char *target = d->options.source_dtype ? "source-dtype" : names[d->options.target];
    const char *casts = d->options.casts ? "casts" : "";

    d->recipe[0] = (struct vc_recipe_entry){"dequantize", target};
    d->recipe[1] =
        (struct vc_recipe_entry){"rules", vc_rules_text(ctx, &d->arena, d->options.rules, d->options.n_rules)};
    d->pass.recipe = d->recipe;
    d->pass.n_recipe = 2;
    d->pass.command =
        vc_arena_printf(ctx, &d->arena, "dequantize --%s%s%s", target, casts[0] != '\0' ? " --" : "", casts);
    return d->recipe[1].value != NULL && d->pass.command != NULL ? VC_OK : VC_E_NOMEM;
}

enum vc_status vc_job_add_dequantize(struct vc_ctx *ctx, struct vc_job *job,
                                     const struct vc_dequantize_options *options)
{
    struct vc_dequantize_options own;
    struct dequantize *d = NULL;
    enum vc_status status = VC_OK;

    vc_clear_error(ctx);
    VC_TRY(vc_options_read(ctx, VC_OPTIONS(dequantize), options, &own));
    /* The targets between those two are the types of floats. */
    VC_REFUSE_IF(own.target == VC_TARGET_INT8 || (unsigned)own.target > VC_TARGET_F32, ctx, VC_E_ARGUMENT,
                 "dequantize makes f32, f16 or bf16");
    VC_CALL_FOUND(ctx, vc_kernels_get(ctx));
    VC_TRY_ALLOC(d = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *d));
    d->pass.ops = &dequantize_ops;
    d->pass.self = d;
    d->options = own;
    /* Without rules nothing stays quantized. */
    d->pass.decodes = own.n_rules == 0;
    VC_TRY(vc_rules_copy(ctx, &d->arena, own.rules, own.n_rules, &d->options.rules));
    VC_TRY(describe(ctx, d));
    return vc_job_add_pass(ctx, job, &d->pass);
out:
    if (d != NULL) {
        dequantize_free(ctx, &d->pass);
    }
    return status;
}
