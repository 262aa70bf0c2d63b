/* student.c - see student.h. */
#include "distill/student.h"

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
    return vc_fail(ctx, VC_E_UNSUPPORTED,
                   "%s: an earlier pass quantizes it, and what is trained are floats; distill stands before quantize",
                   plan->model->tensors[tensor].name);
}

/* What the steps make of every tensor that has some, one behind the other in one block. */
static enum vc_status take_values(struct vc_ctx *ctx, const struct vc_plan *plan, struct vc_student *student)
{
    uint64_t at = 0;
    enum vc_status status = VC_OK;

    for (size_t i = 0; i < plan->n_items; i++) {
        const struct vc_desc *desc = maker_of(plan, i)->desc;

        if (!is_changed(plan, i)) {
            continue;
        }
        VC_TRY(check_plain(ctx, plan, i));
        student->changes[i] = (struct vc_change){true, desc->dtype, desc->n_dims, desc->shape, desc->n_elems, NULL};
        at += (vc_dtype_bytes(desc->dtype, desc->n_elems) + VC_POOL_ALIGN - 1) / VC_POOL_ALIGN * VC_POOL_ALIGN;
    }
    if (at > SIZE_MAX) {
        return VC_E_NOMEM;
    }
    student->values = vc_alloc(ctx, VC_TAG_TILES, (size_t)at + 1);
    VC_TRY_ALLOC(student->values);
    at = 0;
    for (size_t i = 0; i < plan->n_items; i++) {
        struct vc_change *change = &student->changes[i];
        uint64_t n_bytes = change->changed ? vc_dtype_bytes(change->dtype, change->n_elems) : 0;

        if (!change->changed) {
            continue;
        }
        change->data = student->values + at;
        status = vc_fetch_all(ctx, maker_of(plan, i), VC_PART_CODES, student->values + at, (size_t)n_bytes);
        if (status != VC_OK) {
            return vc_context(ctx, "%s", plan->model->tensors[i].name);
        }
        at += (n_bytes + VC_POOL_ALIGN - 1) / VC_POOL_ALIGN * VC_POOL_ALIGN;
    }
out:
    return status;
}

static enum vc_status make_weights(struct vc_ctx *ctx, const struct vc_plan *plan, struct vc_student *student)
{
    bool changed = false;
    enum vc_status status = VC_OK;

    student->network.weights = plan->model;
    for (size_t i = 0; i < plan->n_items; i++) {
        changed = changed || is_changed(plan, i);
    }
    if (!changed) {
        return VC_OK;
    }
    student->changes = vc_calloc_array(ctx, VC_TAG_NAMES, plan->n_items + 1, sizeof *student->changes);
    VC_TRY_ALLOC(student->changes);
    VC_TRY(take_values(ctx, plan, student));
    VC_TRY(vc_changed_model_make(ctx, plan->model, student->changes, &student->own));
    student->network.weights = student->own;
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

enum vc_status vc_student_read_graph(struct vc_ctx *ctx, const char *path, struct vc_student *student)
{
    struct vc_graph_options options;
    enum vc_status status;

    vc_graph_defaults(&options);
    options.weights = student->network.weights;
    if (vc_graph_is_text(path)) {
        return vc_graph_read_text(ctx, path, &options, &student->graph);
    }
    VC_TRY(vc_model_open(ctx, path, NULL, &student->other));
    VC_TRY(vc_graph_build(ctx, student->other, &options, &student->graph));
    student->network.beside = student->other;
out:
    return status;
}

/* What the source says, with what earlier passes change of it. */
static enum vc_status build_graph(struct vc_ctx *ctx, const struct vc_plan *plan, struct vc_student *student)
{
    const struct vc_model *weights = student->network.weights;
    struct vc_program program;
    enum vc_status status;

    VC_TRY(vc_model_program(ctx, plan->model, &student->arena, &program));
    VC_TRY(plan->n_edits != 0 ? vc_program_edit(ctx, plan->edits, plan->n_edits, &student->arena, &program) : VC_OK);
    if (changes_shapes(plan)) {
        VC_TRY(vc_program_edit_graph(ctx, plan->graph_edits, plan->n_graph_edits, &student->arena, &program));
    }
    if (student->own != NULL) {
        VC_TRY(vc_program_take_shapes(ctx, weights, &student->arena, &program));
    }
    VC_TRY(vc_graph_build_program(ctx, weights, &program, &student->graph));
out:
    return status;
}

enum vc_status vc_student_make(struct vc_ctx *ctx, const struct vc_plan *plan, const struct vc_distill_options *options,
                               struct vc_student *student)
{
    enum vc_status status;

    student->ctx = ctx;
    VC_TRY(make_weights(ctx, plan, student));
    if (options->graph != NULL) {
        status = vc_student_read_graph(ctx, options->graph, student);
    } else if (options->student.graph != NULL && student->own == NULL) {
        student->network = options->student;
        return VC_OK;
    } else {
        status = build_graph(ctx, plan, student);
        if (status == VC_E_UNSUPPORTED && student->graph == NULL && options->teacher.weights != NULL) {
            vc_clear_error(ctx);
            status = vc_student_read_graph(ctx, options->teacher.weights->path, student);
        }
    }
    VC_TRY(status);
    student->network.graph = student->graph;
out:
    return status;
}

void vc_student_free(struct vc_student *student)
{
    struct vc_ctx *ctx = student->ctx;

    if (ctx == NULL) {
        return;
    }
    vc_graph_close(student->graph);
    vc_model_close(student->other);
    vc_changed_model_free(ctx, student->own);
    vc_free(ctx, student->values);
    vc_free(ctx, student->changes);
    vc_arena_release(ctx, &student->arena);
    *student = (struct vc_student){.ctx = NULL};
}
