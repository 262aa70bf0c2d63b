/* item.c - what passes do to an item (a tensor and its way through the job) while they plan: adding and taking back
 * steps, parts, reasons. Nothing is read or computed here. See pass.h. */
#include <stdio.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/chain/pass.h"

struct vc_item vc_item_make(const struct vc_model *model, size_t tensor, struct vc_arena *arena)
{
    const struct vc_tensor *t = &model->tensors[tensor];
    struct vc_item item = {.model = model,
                           .arena = arena,
                           .source = tensor,
                           .reason = "",
                           .alias_of = t->alias_of,
                           .total_step = SIZE_MAX};

    item.first = (struct vc_desc){
        .dtype = t->dtype, .n_dims = t->n_dims, .shape = t->shape, .n_elems = t->n_elems, .quant = t->quant};
    item.desc = item.first;
    return item;
}

enum vc_status vc_item_list_parts(struct vc_ctx *ctx, struct vc_item *item)
{
    const struct vc_quant *quant = item->first.quant;
    struct vc_part_desc *parts;
    unsigned i;

    if (quant == NULL) {
        return VC_OK;
    }
    parts = vc_arena_alloc(ctx, item->arena, quant->n_parts * sizeof *parts);
    if (parts == NULL) {
        return VC_E_NOMEM;
    }
    for (i = 0; i < quant->n_parts; i++) {
        const struct vc_tensor *t = &item->model->tensors[quant->parts[i].tensor];

        parts[i] = (struct vc_part_desc){.role = quant->parts[i].role,
                                         .dtype = t->dtype,
                                         .n_dims = t->n_dims,
                                         .shape = t->shape,
                                         .n_elems = t->n_elems,
                                         .index = quant->parts[i].tensor};
    }
    item->first.parts = parts;
    item->first.n_parts = quant->n_parts;
    if (item->n_steps == 0) {
        item->desc = item->first;
    }
    return VC_OK;
}

/* Makes room for one more: lists have room for the power of two that is not below their length. */
static enum vc_status grow_steps(struct vc_ctx *ctx, struct vc_item *item)
{
    size_t n = item->n_steps;
    struct vc_step **grown;

    if (n != 0 && (n & (n - 1)) != 0) {
        return VC_OK;
    }
    grown = vc_arena_alloc(ctx, item->arena, (n == 0 ? 1 : 2 * n) * sizeof(struct vc_step *));
    if (grown == NULL) {
        return VC_E_NOMEM;
    }
    if (n != 0) {
        memcpy(grown, item->steps, n * sizeof(struct vc_step *));
    }
    item->steps = grown;
    return VC_OK;
}

struct vc_step *vc_item_add_step(struct vc_ctx *ctx, struct vc_item *item, const struct vc_step_ops *ops)
{
    struct vc_step *step = vc_arena_alloc(ctx, item->arena, sizeof *step);

    if (step == NULL || grow_steps(ctx, item) != VC_OK) {
        return NULL;
    }
    item->steps[item->n_steps++] = step;
    *step = (struct vc_step){.ops = ops, .pass = item->pass, .scheme = "", .in = item->desc, .out = item->desc};
    return step;
}

void vc_item_replan(struct vc_item *item)
{
    item->desc = item->n_steps == 0 ? item->first : item->steps[item->n_steps - 1]->out;
}

/* A copy of the list of parts with room for one more. */
static struct vc_part_desc *copy_parts(struct vc_ctx *ctx, struct vc_item *item, const struct vc_desc *desc)
{
    struct vc_part_desc *parts = vc_arena_alloc(ctx, item->arena, (desc->n_parts + 1) * sizeof *parts);

    if (parts != NULL && desc->n_parts != 0) {
        memcpy(parts, desc->parts, desc->n_parts * sizeof *parts);
    }
    return parts;
}

enum vc_status vc_step_add_part(struct vc_ctx *ctx, struct vc_item *item, struct vc_step *step, enum vc_part_role role,
                                enum vc_dtype dtype, unsigned n_dims, const uint64_t *shape)
{
    struct vc_part_desc *parts = copy_parts(ctx, item, &step->out);
    uint64_t n_elems = 1;
    unsigned d;

    if (parts == NULL) {
        return VC_E_NOMEM;
    }
    for (d = 0; d < n_dims; d++) {
        if (!vc_mul_u64(n_elems, shape[d], &n_elems)) {
            return vc_fail(ctx, VC_E_UNSUPPORTED, "a part of it has too many elements");
        }
    }
    memmove(parts + step->n_made + 1, parts + step->n_made, (step->out.n_parts - step->n_made) * sizeof *parts);
    parts[step->n_made] =
        (struct vc_part_desc){.role = role,
                              .apart = role == VC_PART_MASK && step->pass != NULL && step->pass->mask_path != NULL,
                              .dtype = dtype,
                              .n_dims = n_dims,
                              .shape = shape,
                              .n_elems = n_elems,
                              .maker = step,
                              .index = step->n_made};
    step->n_made++;
    step->out.n_parts++;
    step->out.parts = parts;
    return VC_OK;
}

enum vc_status vc_step_drop_coding(struct vc_ctx *ctx, struct vc_item *item, struct vc_step *step)
{
    struct vc_part_desc *parts = copy_parts(ctx, item, &step->out);
    size_t n = 0;
    size_t i;

    if (parts == NULL) {
        return VC_E_NOMEM;
    }
    for (i = 0; i < step->out.n_parts; i++) {
        if (parts[i].role == VC_PART_MASK) {
            parts[n++] = parts[i];
        }
    }
    step->out.quant = NULL;
    step->out.parts = parts;
    step->out.n_parts = n;
    return VC_OK;
}

static void drop_steps(struct vc_ctx *ctx, struct vc_item *item, size_t n_left)
{
    while (item->n_steps > n_left) {
        struct vc_step *step = item->steps[--item->n_steps];

        if (step->ops->forget != NULL) {
            step->ops->forget(ctx, step);
        }
    }
    vc_item_replan(item);
}

void vc_item_undo(struct vc_ctx *ctx, struct vc_item *item)
{
    drop_steps(ctx, item, item->pass_first);
}

void vc_item_release(struct vc_ctx *ctx, struct vc_item *item)
{
    drop_steps(ctx, item, 0);
}

enum vc_status vc_item_keep(struct vc_ctx *ctx, struct vc_item *item, const char *format, ...)
{
    char text[256];
    va_list args;
    const char *reason = item->pass != NULL ? item->pass->said : NULL;
    int n;

    va_start(args, format);
    n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text) {
        va_start(args, format);
        reason = vc_arena_vprintf(ctx, item->arena, format, args);
        va_end(args);
    } else if (reason == NULL || strcmp(reason, text) != 0) {
        reason = vc_arena_copy(ctx, item->arena, text, (size_t)n);
    }
    if (reason == NULL) {
        return VC_E_NOMEM;
    }
    if (item->pass != NULL) {
        item->pass->said = reason;
    }
    item->reason = reason;
    return VC_OK;
}

size_t vc_desc_find_part(const struct vc_desc *desc, enum vc_part_role role)
{
    size_t i;

    for (i = 0; i < desc->n_parts; i++) {
        if (desc->parts[i].role == role) {
            return i;
        }
    }
    return SIZE_MAX;
}

enum vc_dtype vc_desc_weight_dtype(const struct vc_desc *desc)
{
    return desc->quant != NULL                  ? desc->quant->source_dtype
           : vc_dtype_is_quantized(desc->dtype) ? VC_DTYPE_F32
                                                : desc->dtype;
}

void vc_desc_grid(const struct vc_desc *desc, uint64_t *n_rows, uint64_t *row_len)
{
    struct vc_tensor as_tensor = {.dtype = desc->dtype, .n_dims = desc->n_dims, .shape = desc->shape};

    vc_tile_rows_of(&as_tensor, n_rows, row_len);
}

size_t vc_item_look_step(const struct vc_item *item)
{
    size_t k = 0;

    while (k < item->n_steps && !(item->steps[k]->look && item->steps[k]->ops->look != NULL)) {
        k++;
    }
    return k;
}

bool vc_item_is_idle(const struct vc_item *item)
{
    return item->merged || item->dropped || item->tied;
}

bool vc_item_looks(const struct vc_item *item)
{
    size_t k = vc_item_look_step(item);

    return k < item->n_steps && (!vc_item_is_idle(item) || (item->elsewhere && item->steps[k]->look_elsewhere));
}

enum vc_status vc_part_load(struct vc_ctx *ctx, const struct vc_item *item, const struct vc_part_desc *part, void *dst)
{
    const struct vc_tensor *t = &item->model->tensors[part->index];

    if (part->maker != NULL) {
        return vc_fail(ctx, VC_E_INTERNAL, "a part that is made tile by tile was asked for as a whole");
    }
    return vc_source_read_any(ctx, item->model, part->index, VC_FORM_VALUES, 0, dst,
                              (size_t)vc_tensor_bytes(t, t->n_elems));
}
