/* aim.c - options of an aim, and the candidates that an output has a place for. See aim.h. */
#include "quantize/aim.h"

#include <math.h>

#include "quantize/schemes/encode_blocks.h"

/* The fields of aims, of which one is set. */
static const char *one_aim(const struct vc_quantize_options *o, unsigned *n)
{
    const struct {
        bool set;
        const char *field;
    } aims[] = {{o->aim_sqnr_db != 0.0, "aim_sqnr_db"},
                {o->aim_bytes != 0, "aim_bytes"},
                {o->aim_bpw != 0.0, "aim_bpw"},
                {o->aim_loss != 0.0, "aim_loss"}};
    const char *field = NULL;

    *n = 0;
    for (size_t i = 0; i < sizeof aims / sizeof *aims; i++) {
        *n += aims[i].set;
        field = aims[i].set ? aims[i].field : field;
    }
    return field;
}

/* Of the target only "chosen" goes with an aim. The target that takes its place is what the options are checked by, and
 * what selects the tensors. */
enum vc_status vc_aim_read(struct vc_ctx *ctx, struct vc_quantize_options *options, struct vc_aim *aim)
{
    unsigned n;
    const char *field = one_aim(options, &n);

    *aim = (struct vc_aim){.set = options->target == VC_TARGET_CHOSEN,
                           .sqnr_db = options->aim_sqnr_db,
                           .budget.file_bytes = options->aim_bytes,
                           .bpw = options->aim_bpw,
                           .loss = options->aim_loss,
                           .costs = options->costs,
                           .n_costs = options->n_costs};
    VC_REFUSE_IF((!aim->set || aim->sqnr_db != 0.0) && aim->n_costs != 0, ctx, VC_E_ARGUMENT,
                 "%s is about aims at a size or a loss", vc_option(ctx, "costs"));
    if (!aim->set && field == NULL) {
        return VC_OK;
    }
    VC_REFUSE_IF(!aim->set, ctx, VC_E_ARGUMENT,
                 "%s chooses what each tensor becomes; a target cannot be given beside it", vc_option(ctx, field));
    VC_REFUSE_IF(n != 1, ctx, VC_E_ARGUMENT, "%s and %s are two aims; one of them is needed",
                 vc_option(ctx, "aim_sqnr_db"), vc_option(ctx, "aim_bytes"));
    VC_REFUSE_IF(aim->sqnr_db != 0.0 && !(aim->sqnr_db > 0.0 && isfinite(aim->sqnr_db)), ctx, VC_E_ARGUMENT,
                 "%s is a number of dB above 0", vc_option(ctx, field));
    VC_REFUSE_IF(!(aim->bpw >= 0.0 && aim->bpw <= 64.0) || !(aim->loss >= 0.0 && aim->loss < 1.0), ctx, VC_E_ARGUMENT,
                 "%s is a number of bits above 0, %s a share of the outputs below 1", vc_option(ctx, "aim_bpw"),
                 vc_option(ctx, "aim_loss"));
    VC_REFUSE_IF(aim->loss != 0.0 && aim->n_costs == 0, ctx, VC_E_ARGUMENT, "%s needs what schemes cost: %s",
                 vc_option(ctx, field), vc_option(ctx, "costs"));
    VC_REFUSE_IF(options->granularity_given, ctx, VC_E_ARGUMENT,
                 "%s chooses the granularity of each tensor; %s cannot be given beside it", vc_option(ctx, field),
                 vc_option(ctx, "granularity"));
    options->target = VC_TARGET_INT8;
    options->granularity = VC_GRANULARITY_CHANNEL;
    return VC_OK;
}

/* Types of GGUF's blocks that are candidates, from the smallest on; Q8_0 is a row of its own. Those of 32 elements are
 * for rows that blocks of 256 do not divide. */
static const enum vc_dtype block_types[] = {VC_DTYPE_Q2_K, VC_DTYPE_Q3_K, VC_DTYPE_Q4_K, VC_DTYPE_Q4_0,
                                            VC_DTYPE_Q5_K, VC_DTYPE_Q5_0, VC_DTYPE_Q6_K};

enum vc_status vc_aim_candidate_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_aim_candidate *candidate,
                                    enum vc_dtype weights)
{
    return candidate->blocks != VC_DTYPE_NONE
               ? vc_encode_blocks_add(ctx, item, &candidate->options, candidate->blocks, false)
               : candidate->row->add(ctx, item, &candidate->options, weights);
}

/* Adds the candidate, unless a dialect of the output has no place for it. Groups are none where it depends on the file
 * whether a scale per group fits (groups_depend): the choice would be refused when it is laid out. */
static enum vc_status add_candidate(struct vc_ctx *ctx, struct vc_aim *aim, const struct vc_scheme_row *row,
                                    const struct vc_quantize_options *options, enum vc_dtype blocks,
                                    const struct vc_plan *plan)
{
    bool group = options->granularity == VC_GRANULARITY_GROUP && !row->own_granularity;

    for (size_t i = 0; row->codes && group && i < plan->n_targets; i++) {
        if (plan->targets[i].dialect != NULL && plan->targets[i].dialect->groups_depend) {
            return VC_OK;
        }
    }
    enum vc_status status = row->codes ? vc_scheme_check(ctx, row, options, plan) : VC_OK;
    if (status == VC_E_ARGUMENT) {
        vc_clear_error(ctx);
        return VC_OK;
    }
    VC_REFUSE_IF(status == VC_OK && aim->n_candidates == VC_AIM_CANDIDATES, ctx, VC_E_INTERNAL,
                 "more than %d candidates to quantize", VC_AIM_CANDIDATES);
    if (status == VC_OK) {
        const char *name =
            blocks != VC_DTYPE_NONE ? vc_dtype_name(blocks) : vc_scheme_candidate_name(ctx, plan->arena, row, options);

        aim->candidates[aim->n_candidates++] = (struct vc_aim_candidate){row, *options, blocks, name};
        status = name != NULL ? VC_OK : VC_E_NOMEM;
    }
    return status;
}

/* The size in bytes that bits per weight mean, and whether the costs are those of this model. Weights count once each, as
 * the passes before leave them: not parts of codes, second names, dropped layers, or bytes without a type. */
static enum vc_status settle(struct vc_ctx *ctx, struct vc_aim *aim, const struct vc_plan *plan)
{
    uint64_t n_weights = 0;
    bool known = aim->n_costs == 0;

    for (size_t i = 0; i < plan->n_items; i++) {
        const struct vc_tensor *t = &plan->model->tensors[i];
        const struct vc_item *item = vc_plan_item(plan, i);

        n_weights += item != NULL && t->role == VC_ROLE_WEIGHT && t->dtype != VC_DTYPE_RAW && !vc_is_of_codes(t)
                         ? item->desc->n_elems
                         : 0;
    }
    for (size_t i = 0; i < aim->n_costs && !known; i++) {
        known = vc_model_find(plan->model, aim->costs[i].tensor) != VC_NO_TENSOR;
    }
    aim->budget.file_bytes = aim->bpw > 0.0 ? vc_search_bytes_of_bits(aim->bpw, n_weights) : aim->budget.file_bytes;
    return known ? VC_OK
                 : vc_fail(ctx, VC_E_UNSUPPORTED, "%s: of no tensor of this model: '%s' is of another one",
                           vc_option(ctx, "costs"), aim->costs[0].tensor);
}

/* The block types, where the output is GGUF. */
static enum vc_status add_blocks(struct vc_ctx *ctx, struct vc_aim *aim, const struct vc_quantize_options *options,
                                 const struct vc_plan *plan)
{
    const struct vc_scheme_row *row = vc_scheme_of_target(VC_TARGET_GGUF);

    for (size_t i = 0; plan->dialect != NULL && plan->dialect->blocks && i < sizeof block_types / sizeof block_types[0];
         i++) {
        struct vc_quantize_options own = *options;

        own.target = row->target;
        own.granularity_given = false;
        own.overflow = VC_OVERFLOW_ERROR;
        VC_CALL(add_candidate(ctx, aim, row, &own, block_types[i], plan));
    }
    return VC_OK;
}

/* Each row of the table with each of its granularities, as far as the output has a place for it. Channels of an axis
 * that was given are candidates, groups along another axis are not. */
enum vc_status vc_aim_list_candidates(struct vc_ctx *ctx, struct vc_aim *aim, const struct vc_quantize_options *options,
                                      const struct vc_plan *plan)
{
    const struct vc_scheme_row *row;

    aim->n_candidates = 0;
    for (size_t i = 0; (row = vc_scheme_row_at(i)) != NULL; i++) {
        struct vc_quantize_options own = *options;
        bool choice = row->codes && !row->own_granularity;

        own.target = row->target;
        own.overflow = VC_OVERFLOW_ERROR; /* a tensor that a cast has no room for gets another candidate */
        if (row->add == NULL || row->no_aim || (row->codes && vc_scheme_choose(&own, plan->dialect) != row)) {
            continue;
        }
        own.granularity_given = choice;
        for (size_t k = 0; k < (choice ? row->n_granularities : 1); k++) {
            own.granularity = choice ? row->granularities[k].granularity : VC_GRANULARITY_CHANNEL;
            own.group_size = choice ? row->granularities[k].group_size : 0;
            if (own.granularity == VC_GRANULARITY_CHANNEL || own.axis == VC_AXIS_OUTPUT || own.axis == 0) {
                VC_CALL(add_candidate(ctx, aim, row, &own, VC_DTYPE_NONE, plan));
            }
        }
    }
    VC_CALL(add_blocks(ctx, aim, options, plan));
    return settle(ctx, aim, plan);
}
