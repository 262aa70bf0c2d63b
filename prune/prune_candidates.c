/* prune_candidates.c - the pattern 2:4 as a candidate (core/chain/candidate.h), for `vcompress sensitivity` and others
 * that try what each tensor would lose. */
#include "prune/prune_candidates.h"

#include "prune/prune_steps.h"

/* Why the tensor cannot have the pattern; NULL: it can. */
static const char *reason(const struct vc_candidate *candidate, const struct vc_item *item)
{
    const struct vc_tensor *t = &item->set->model->tensors[item->source];

    return item->desc->n_dims < 2 ? "fewer than two axes" : vc_input_axis(t) == VC_NO_INPUTS ? t->inputs_reason : NULL;
}

/* Adds the step that prunes the item so. */
static enum vc_status add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_candidate *candidate,
                          enum vc_dtype weights)
{
    return vc_n_of_m_add(ctx, item, candidate->self, candidate->name);
}

enum vc_status vc_prune_candidates(struct vc_ctx *ctx, struct vc_arena *arena, struct vc_candidate_list *list)
{
    struct vc_prune_options *options = vc_arena_alloc(ctx, arena, sizeof *options);

    VC_CALL_ALLOC(options);
    VC_REFUSE_IF(list->n == VC_MAX_CANDIDATES, ctx, VC_E_INTERNAL, "more than %d candidates", VC_MAX_CANDIDATES);
    vc_prune_defaults(options);
    options->pattern = VC_PATTERN_N_OF_M;
    options->keep = 2;
    options->group = 4;
    list->candidates[list->n++] =
        (struct vc_candidate){.name = "2:4", .makes_zeros = true, .self = options, .reason = reason, .add = add};
    return VC_OK;
}
