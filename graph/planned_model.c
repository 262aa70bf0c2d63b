/* planned_model.c - see planned_model.h.
 *
 * Called by distill (the student that later passes will see) and by measure (what outputs lose before anything is
 * written). The steps of a chain are run here as a job would run them, tile by tile, but into one block of memory.
 *
 *     values    | codes of fc1.weight | pad | scale of fc1.weight | pad | codes of fc2.weight | ...
 *                                       each part begins at a multiple of VC_POOL_ALIGN
 */
#include "graph/planned_model.h"

#include "core/chain/tile_reader.h"
#include "core/model/changed_model.h"
#include "graph/build.h"

/* ---- weights ---- */

/* The item whose steps make the tensor. A tied tensor (lm_head.weight that is embed_tokens.weight) has no steps of
 * its own. */
static struct vc_item *maker_of(const struct vc_plan *plan, size_t tensor)
{
    const struct vc_item *item = &plan->items[tensor];

    return &plan->items[item->tied ? plan->model->tensors[tensor].alias_of : tensor];
}

/* A tensor that a pass drops is not changed: it is read as it was, and the graph does not ask for it. */
static bool is_changed(const struct vc_plan *plan, size_t tensor)
{
    return !plan->items[tensor].dropped && maker_of(plan, tensor)->chain->n_steps != 0;
}

/* Fills changes[tensor] with what the steps make of the tensor: type, shape, parts (scales, zero points). Bytes
 * follow in take_values. *n_bytes grows by the room that codes and parts need. Parts that stand apart, or that
 * belong to no quantization, are no part of the weight's value. */
static enum vc_status describe(struct vc_ctx *ctx, const struct vc_plan *plan, struct vc_planned_model *planned,
                               size_t tensor, uint64_t *n_bytes)
{
    const struct vc_desc *desc = maker_of(plan, tensor)->desc;
    struct vc_change_part *parts = vc_arena_alloc(ctx, &planned->arena, (desc->n_parts + 1) * sizeof *parts);
    struct vc_change *change = &planned->changes[tensor];

    VC_CALL_ALLOC(parts);
    *change =
        (struct vc_change){true, desc->dtype, desc->n_dims, desc->shape, desc->n_elems, NULL, desc->quant, 0, parts};
    *n_bytes += VC_POOL_ALIGNED(vc_dtype_bytes(desc->dtype, desc->n_elems));
    for (size_t k = 0; k < desc->n_parts; k++) {
        const struct vc_part_desc *part = &desc->parts[k];

        if (part->apart || desc->quant == NULL) {
            continue;
        }
        parts[change->n_parts++] =
            (struct vc_change_part){part->role, part->dtype, part->n_dims, part->shape, part->n_elems, NULL};
        *n_bytes += VC_POOL_ALIGNED(vc_dtype_bytes(part->dtype, part->n_elems));
    }
    return VC_OK;
}

/* Runs the steps for one part of the tensor, its codes or a scale, into *at, which moves on behind it. */
static enum vc_status fetch(struct vc_ctx *ctx, const struct vc_plan *plan, size_t tensor, enum vc_part_role role,
                            uint64_t n_bytes, char **at, const void **out)
{
    enum vc_status status = vc_tile_reader_all(ctx, maker_of(plan, tensor), role, *at, (size_t)n_bytes);

    *out = *at;
    *at += VC_POOL_ALIGNED(n_bytes);
    return status != VC_OK ? vc_context(ctx, "%s", plan->model->tensors[tensor].name) : VC_OK;
}

/* What the steps make of every tensor that has some, but for the values; *n_bytes: what these take. */
static enum vc_status describe_all(struct vc_ctx *ctx, const struct vc_plan *plan, struct vc_planned_model *planned,
                                   uint64_t *n_bytes)
{
    *n_bytes = 0;
    for (size_t i = 0; i < plan->n_items; i++) {
        if (is_changed(plan, i)) {
            VC_CALL(describe(ctx, plan, planned, i, n_bytes));
        }
    }
    return VC_OK;
}

/* The same order and the same sizes as describe_all counted: tensors by number, codes first, then parts. */
static enum vc_status take_values(struct vc_ctx *ctx, const struct vc_plan *plan, struct vc_planned_model *planned,
                                  uint64_t n_bytes)
{
    if (n_bytes >= SIZE_MAX) {
        return VC_E_NOMEM;
    }
    VC_CALL_ALLOC(planned->values = vc_alloc(ctx, VC_TAG_TILES, (size_t)n_bytes + 1));
    char *at = planned->values;
    for (size_t i = 0; i < plan->n_items; i++) {
        struct vc_change *change = &planned->changes[i];

        if (!change->changed) {
            continue;
        }
        VC_CALL(fetch(ctx, plan, i, VC_PART_CODES, vc_dtype_bytes(change->dtype, change->n_elems), &at, &change->data));
        for (size_t k = 0; k < change->n_parts; k++) {
            struct vc_change_part *part = &change->parts[k];

            VC_CALL(fetch(ctx, plan, i, part->role, vc_dtype_bytes(part->dtype, part->n_elems), &at, &part->data));
        }
    }
    return VC_OK;
}

/* What vc_planned_weights and vc_planned_shapes share. A plan without changes gives the model of the plan itself. */
static enum vc_status take(struct vc_ctx *ctx, const struct vc_plan *plan, struct vc_planned_model *planned,
                           bool values)
{
    uint64_t n_bytes;
    bool changed = false;

    planned->weights = plan->model;
    for (size_t i = 0; i < plan->n_items; i++) {
        changed = changed || is_changed(plan, i);
    }
    if (!changed) {
        return VC_OK;
    }
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, planned->changes, plan->n_items + 1));
    VC_CALL(describe_all(ctx, plan, planned, &n_bytes));
    if (values) {
        VC_CALL(take_values(ctx, plan, planned, n_bytes));
    }
    VC_CALL(vc_changed_model_make(ctx, plan->model, planned->changes, &planned->own));
    planned->weights = planned->own;
    return VC_OK;
}

enum vc_status vc_planned_weights(struct vc_ctx *ctx, const struct vc_plan *plan, struct vc_planned_model *planned)
{
    return take(ctx, plan, planned, true);
}

enum vc_status vc_planned_shapes(struct vc_ctx *ctx, const struct vc_plan *plan, struct vc_planned_model *planned)
{
    return take(ctx, plan, planned, false);
}

/* ---- what it computes ---- */

/* True if a pass removed or reshaped tensors: sizes that the source's graph states may no longer be right. */
static bool changes_shapes(const struct vc_plan *plan)
{
    for (size_t i = 0; i < plan->n_items; i++) {
        const struct vc_desc *before = plan->items[i].first;
        const struct vc_desc *after = plan->items[i].desc;

        if (plan->items[i].dropped || before->n_dims != after->n_dims ||
            memcmp(before->shape, after->shape, before->n_dims * sizeof *before->shape) != 0) {
            return true;
        }
    }
    return false;
}

/* The source's program, edited in the order in which a written file would be: config.json (edits), sizes in ONNX
 * nodes (graph_edits), shapes of the changed tensors. The graph is then built from that program like any other. */
enum vc_status vc_planned_graph(struct vc_ctx *ctx, const struct vc_plan *plan, struct vc_planned_model *planned)
{
    const struct vc_model *weights = planned->weights;
    struct vc_program program;

    VC_CALL(vc_model_program(ctx, plan->model, &planned->arena, &program));
    if (plan->n_edits != 0) {
        VC_CALL(vc_program_edit(ctx, plan->edits, plan->n_edits, &planned->arena, &program));
    }
    if (plan->n_graph_edits != 0 || changes_shapes(plan)) {
        VC_CALL(vc_program_edit_graph(ctx, plan->graph_edits, plan->n_graph_edits, &planned->arena, &program));
    }
    if (planned->own != NULL) {
        VC_CALL(vc_program_take_shapes(ctx, weights, &planned->arena, &program));
    }
    return vc_graph_build_program(ctx, weights, &program, &planned->graph);
}

/* In the order of use: the graph reads names of the model, the model values, changes lie in the pool. */
void vc_planned_free(struct vc_planned_model *planned)
{
    struct vc_ctx *ctx = planned->ctx;

    if (ctx == NULL) {
        return;
    }
    vc_graph_close(planned->graph);
    vc_changed_model_free(ctx, planned->own);
    VC_FREE_ALL(ctx, planned->values, planned->changes);
    vc_arena_release(ctx, &planned->arena);
    *planned = (struct vc_planned_model){.ctx = NULL};
}
