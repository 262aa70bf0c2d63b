/* rest.c - see rest.h. */
#include "quantize/rest.h"
#include "passes/candidate_runs.h"

#include "passes/nonfinite.h"
#include "passes/select.h"

static const char keep[] = "keep";

enum vc_status vc_rest_choose(struct vc_ctx *ctx, const struct vc_quantize_options *options,
                              const struct vc_scheme_row **row)
{
    *row = NULL;
    if (options->rest == NULL || strcmp(options->rest, keep) == 0) {
        return VC_OK;
    }
    *row = vc_scheme_of_flag(options->rest);
    VC_REFUSE_IF(*row == NULL || (*row)->codes, ctx, VC_E_ARGUMENT, "%s is keep, fp16 or bf16, not '%s'",
                 vc_option(ctx, "rest"), options->rest);
    return VC_OK;
}

/* Angles, frequencies, masks and other tables have to be as exact as they are; scales of weights that another program
 * quantized are no weights. Where outputs differ in what they want, only matrices that no name speaks against. `skip`:
 * why names speak against codes for it. A plan without one dialect has several outputs. */
static bool stays(const struct vc_item *item, const char *skip)
{
    const struct vc_tensor *own;

    (void)vc_model_of(item->set->model, item->source, &own);
    return vc_is_table(own) || own->undecoded != NULL ||
           (item->set->dialect == NULL && (item->desc->n_dims < 2 || skip != NULL));
}

/* The dialect may insist on f32 for a tensor, as GGUF does for norms. */
bool vc_rest_takes(const struct vc_item *item, const char *skip)
{
    const struct vc_dialect_tensor tensor = vc_scheme_tensor(item, item->desc->dtype, false);

    return (item->desc->dtype == VC_DTYPE_F32 || item->desc->dtype == VC_DTYPE_F64) && item->desc->quant == NULL &&
           item->desc->n_elems != 0 && !stays(item, skip) && !vc_dialect_keeps_type(item->set->dialect, &tensor);
}

/* The step looks at all values first where a policy says that large ones are an error, so that such a tensor stays.
 * What another worker writes is looked at there. */
enum vc_status vc_rest_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_scheme_row *row,
                           const struct vc_quantize_options *options)
{
    const char *why = vc_arena_printf(ctx, item->set->arena, "the rest: %s", item->reason);

    if (why == NULL || row->add(ctx, item, options, item->desc->dtype) != VC_OK) {
        return ctx->status;
    }
    struct vc_step *step = item->chain->steps[item->chain->n_steps - 1];
    step->why = why;
    if (options->overflow == VC_OVERFLOW_ERROR && !item->in_other_shard) {
        ((struct vc_policy *)step->state)->keeps_large = true; /* rows of casts have that state */
        step->calibrate = true;
    }
    return VC_OK;
}

/* Bytes of the plan's tensors, before and after, without those that the output does not have. */
static void sum_bytes(const struct vc_plan *plan, uint64_t *before, uint64_t *after)
{
    *before = *after = 0;
    for (size_t i = 0; i < plan->n_items; i++) {
        const struct vc_item *item = &plan->items[i];

        if (plan->model->tensors[i].part_of == VC_NO_TENSOR && !vc_item_is_idle(item)) {
            *before += vc_desc_all_bytes(item->first);
            *after += vc_desc_all_bytes(item->desc);
        }
    }
}

/* The threshold is lower behind a cast, which saves no more than half itself. */
enum vc_status vc_rest_note(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_plan *plan,
                            const struct vc_rest_left *left, const struct vc_scheme_row *scheme, const char **note)
{
    const char *word = scheme->codes ? "bf16 or fp16" : scheme->flag + strlen("--");
    uint64_t before, after;
    char saved[32];

    *note = NULL;
    sum_bytes(plan, &before, &after);
    if (left->saved_bytes <= after / (scheme->codes ? 10 : 50) || left->saved_bytes >= after) {
        return VC_OK;
    }
    if (left->saved_bytes < 1048576) {
        snprintf(saved, sizeof saved, "%" PRIu64 " bytes", left->saved_bytes);
    } else {
        snprintf(saved, sizeof saved, "%.1f MiB", (double)left->saved_bytes / 1048576.0);
    }
    double all = (double)after / (double)before; /* above 1 where codes become larger ones */
    double then = (double)(after - left->saved_bytes) / (double)before;
    const char *how = "as large";

    if (all <= 1) {
        how = "smaller";
        all = 1 / all;
        then = 1 / then;
    }
    *note = vc_arena_printf(ctx, arena, "%s=%s would save %s more: the weights %.2f times %s, not %.2f",
                            vc_option(ctx, "rest"), word, saved, then, how, all);
    return *note == NULL ? VC_E_NOMEM : VC_OK;
}

enum vc_status vc_rest_note_half(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_plan *plan,
                                 const struct vc_rest_left *left, const char *word, const char **note)
{
    uint64_t before, after;

    *note = NULL;
    sum_bytes(plan, &before, &after);
    if (left->half_bytes <= after / 10) {
        return VC_OK;
    }
    *note = vc_arena_printf(
        ctx, arena, "%s=%s leaves %zu tensor%s of %s as they are: a cast between types of two bytes would save nothing",
        vc_option(ctx, "rest"), word, left->n_half, left->n_half == 1 ? "" : "s",
        strcmp(word, "fp16") == 0 ? "bf16" : "f16");
    return *note == NULL ? VC_E_NOMEM : VC_OK;
}
