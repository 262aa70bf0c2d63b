/* left.c - see left.h. */
#include "graph/left.h"

#include <string.h>

#include "core/base/checked.h"
#include "core/chain/fetch.h"
#include "core/model/changed_model.h"
#include "graph/build.h"

/* ---- weights ---- */

/* The item whose steps make the tensor: its own, or that of the first of its names. */
static struct vc_item *maker_of(const struct vc_plan *plan, size_t tensor)
{
    const struct vc_item *item = &plan->items[tensor];

    return &plan->items[item->tied ? plan->model->tensors[tensor].alias_of : tensor];
}

static bool is_changed(const struct vc_plan *plan, size_t tensor)
{
    return !plan->items[tensor].dropped && maker_of(plan, tensor)->chain->n_steps != 0;
}

static enum vc_status check_plain(struct vc_ctx *ctx, const struct vc_plan *plan, size_t tensor)
{
    const struct vc_desc *desc = maker_of(plan, tensor)->desc;

    if (desc->quant == NULL && !vc_dtype_is_quantized(desc->dtype)) {
        return VC_OK;
    }
    return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: an earlier pass quantizes it, and what is computed with are floats",
                   plan->model->tensors[tensor].name);
}

/* What the steps make of every tensor that has some, one behind the other in one block. */
static enum vc_status take_values(struct vc_ctx *ctx, const struct vc_plan *plan, struct vc_left *left)
{
    uint64_t at = 0;
    enum vc_status status = VC_OK;

    for (size_t i = 0; i < plan->n_items; i++) {
        const struct vc_desc *desc = maker_of(plan, i)->desc;

        if (!is_changed(plan, i)) {
            continue;
        }
        VC_TRY(check_plain(ctx, plan, i));
        left->changes[i] = (struct vc_change){true, desc->dtype, desc->n_dims, desc->shape, desc->n_elems, NULL};
        at += (vc_dtype_bytes(desc->dtype, desc->n_elems) + VC_POOL_ALIGN - 1) / VC_POOL_ALIGN * VC_POOL_ALIGN;
    }
    if (at > SIZE_MAX) {
        return VC_E_NOMEM;
    }
    left->values = vc_alloc(ctx, VC_TAG_TILES, (size_t)at + 1);
    VC_TRY_ALLOC(left->values);
    at = 0;
    for (size_t i = 0; i < plan->n_items; i++) {
        struct vc_change *change = &left->changes[i];
        uint64_t n_bytes = change->changed ? vc_dtype_bytes(change->dtype, change->n_elems) : 0;

        if (!change->changed) {
            continue;
        }
        change->data = left->values + at;
        status = vc_fetch_all(ctx, maker_of(plan, i), VC_PART_CODES, left->values + at, (size_t)n_bytes);
        if (status != VC_OK) {
            return vc_context(ctx, "%s", plan->model->tensors[i].name);
        }
        at += (n_bytes + VC_POOL_ALIGN - 1) / VC_POOL_ALIGN * VC_POOL_ALIGN;
    }
out:
    return status;
}

enum vc_status vc_left_weights(struct vc_ctx *ctx, const struct vc_plan *plan, struct vc_left *left)
{
    bool changed = false;
    enum vc_status status = VC_OK;

    left->weights = plan->model;
    for (size_t i = 0; i < plan->n_items; i++) {
        changed = changed || is_changed(plan, i);
    }
    if (!changed) {
        return VC_OK;
    }
    left->changes = vc_calloc_array(ctx, VC_TAG_NAMES, plan->n_items + 1, sizeof *left->changes);
    VC_TRY_ALLOC(left->changes);
    VC_TRY(take_values(ctx, plan, left));
    VC_TRY(vc_changed_model_make(ctx, plan->model, left->changes, &left->own));
    left->weights = left->own;
out:
    return status;
}

/* ---- what it computes ---- */

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

enum vc_status vc_left_graph(struct vc_ctx *ctx, const struct vc_plan *plan, struct vc_left *left)
{
    const struct vc_model *weights = left->weights;
    struct vc_program program;
    enum vc_status status;

    VC_TRY(vc_model_program(ctx, plan->model, &left->arena, &program));
    VC_TRY(plan->n_edits != 0 ? vc_program_edit(ctx, plan->edits, plan->n_edits, &left->arena, &program) : VC_OK);
    if (changes_shapes(plan)) {
        VC_TRY(vc_program_edit_graph(ctx, plan->graph_edits, plan->n_graph_edits, &left->arena, &program));
    }
    if (left->own != NULL) {
        VC_TRY(vc_program_take_shapes(ctx, weights, &left->arena, &program));
    }
    VC_TRY(vc_graph_build_program(ctx, weights, &program, &left->graph));
out:
    return status;
}

void vc_left_free(struct vc_left *left)
{
    struct vc_ctx *ctx = left->ctx;

    if (ctx == NULL) {
        return;
    }
    vc_graph_close(left->graph);
    vc_changed_model_free(ctx, left->own);
    vc_free(ctx, left->values);
    vc_free(ctx, left->changes);
    vc_arena_release(ctx, &left->arena);
    *left = (struct vc_left){.ctx = NULL};
}
