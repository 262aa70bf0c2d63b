/* quantize_candidates.c - the schemes as candidates: core/chain/candidate.h. */
#include "quantize/quantize_candidates.h"

#include "quantize/schemes/group_codes.h"
#include "quantize/schemes/schemes.h"

/* A row with the options that it is tried with. */
struct scheme_candidate {
    const struct vc_scheme_row *row;
    struct vc_quantize_options options;
};

/* The member `reason` of a candidate: the row's, for these options. */
static const char *reason(const struct vc_candidate *candidate, const struct vc_item *item)
{
    const struct scheme_candidate *own = candidate->self;

    return own->row->reason != NULL ? own->row->reason(&own->options, item->desc) : NULL;
}

/* The member `add` of a candidate that comes from a file's codes. */
static enum vc_status add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_candidate *candidate,
                          enum vc_dtype weights)
{
    const struct scheme_candidate *own = candidate->self;

    return own->row->add(ctx, item, &own->options, weights);
}

/* The tensor by itself: what a job decides about all tensors comes from this one. */
static enum vc_status add_alone(struct vc_ctx *ctx, struct vc_item *item, const struct vc_candidate *candidate,
                                enum vc_dtype weights)
{
    enum vc_status status = add(ctx, item, candidate, weights);
    struct vc_step *step = status == VC_OK ? item->chain->steps[item->chain->n_steps - 1] : NULL;

    if (step != NULL && step->calibrate_all) {
        step->scan = true;
        step->calibrate = step->calibrate_all = false;
    }
    return status;
}

/* Adds the row with one granularity to the list; shared NULL: it has none to choose. */
static enum vc_status add_candidate(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_scheme_row *row,
                                    const struct vc_scheme_granularity *shared, struct vc_candidate_list *list)
{
    struct scheme_candidate *own = vc_arena_alloc(ctx, arena, sizeof *own);
    struct vc_candidate candidate = {.slow = row->statistics, .self = own, .reason = reason, .add = add_alone};

    VC_CALL_ALLOC(own);
    own->row = row;
    vc_quantize_defaults(&own->options);
    own->options.target = row->target;
    if (shared != NULL) {
        own->options.granularity = shared->granularity;
        own->options.group_size = shared->group_size;
        own->options.granularity_given = true;
    }
    VC_CALL_ALLOC(candidate.name = vc_scheme_candidate_name(ctx, arena, row, &own->options));
    VC_REFUSE_IF(list->n == VC_MAX_CANDIDATES, ctx, VC_E_INTERNAL, "more than %d candidates", VC_MAX_CANDIDATES);
    list->candidates[list->n++] = candidate;
    return VC_OK;
}

enum vc_status vc_quantize_candidates(struct vc_ctx *ctx, struct vc_arena *arena, struct vc_candidate_list *list)
{
    const struct vc_scheme_row *row;

    for (size_t i = 0; (row = vc_scheme_row_at(i)) != NULL; i++) {
        bool choice = row->codes && !row->own_granularity;

        for (size_t k = 0; row->add != NULL && !row->of_layers && k < (choice ? row->n_granularities : 1); k++) {
            VC_CALL(add_candidate(ctx, arena, row, choice ? &row->granularities[k] : NULL, list));
        }
    }
    return VC_OK;
}

/* The options that would make such codes again: what the descriptor says of granularity, axis, groups and zero
 * points. */
enum vc_status vc_quantize_candidate_of(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_desc *desc,
                                        struct vc_candidate *candidate)
{
    const struct vc_quant *quant = desc->quant;
    struct scheme_candidate *own = vc_arena_alloc(ctx, arena, sizeof *own);

    VC_CALL_ALLOC(own);
    own->row = vc_scheme_of_codes(desc);
    VC_REFUSE_IF(own->row == NULL, ctx, VC_E_UNSUPPORTED, "no scheme makes codes of the type %s",
                 vc_dtype_name(desc->dtype));
    VC_REFUSE_IF(quant != NULL && quant->granularity == VC_GRANULARITY_BLOCK, ctx, VC_E_UNSUPPORTED,
                 "no scheme makes codes that share a scale in blocks");
    vc_quantize_defaults(&own->options);
    own->options.target = own->row->target;
    if (quant != NULL) {
        own->options.granularity = quant->granularity;
        own->options.granularity_given = true;
        own->options.axis = quant->granularity == VC_GRANULARITY_CHANNEL ? (int)quant->axis : VC_AXIS_OUTPUT;
        own->options.group_size =
            quant->granularity == VC_GRANULARITY_GROUP ? quant->group_size : own->options.group_size;
        own->options.asymmetric = !quant->symmetric;
    }
    *candidate = (struct vc_candidate){.name = own->row->name, .self = own, .reason = reason, .add = add};
    return VC_OK;
}

enum vc_status vc_quantize_candidates_decide(struct vc_ctx *ctx, struct vc_plan *plan)
{
    return vc_group_codes_decide(ctx, plan);
}
