/* item.c - what passes do to an item (a tensor and its way through the job) while they plan: adding and taking back
 * steps, parts, reasons. Nothing is read or computed here. See pass.h. */

#include "core/base/array.h"
#include "core/chain/pass.h"

/* The parts of a quantized tensor as the source has them. */
static enum vc_status list_parts(struct vc_ctx *ctx, const struct vc_item_set *set, struct vc_desc *desc)
{
    const struct vc_quant *quant = desc->quant;
    struct vc_part_desc *parts = vc_arena_alloc(ctx, set->arena, quant->n_parts * sizeof *parts);

    VC_CALL_ALLOC(parts);
    for (unsigned i = 0; i < quant->n_parts; i++) {
        const struct vc_tensor *t = &set->model->tensors[quant->parts[i].tensor];

        parts[i] = (struct vc_part_desc){.role = quant->parts[i].role,
                                         .dtype = t->dtype,
                                         .n_dims = t->n_dims,
                                         .shape = t->shape,
                                         .n_elems = t->n_elems,
                                         .index = quant->parts[i].tensor};
    }
    desc->parts = parts;
    desc->n_parts = quant->n_parts;
    return VC_OK;
}

/* Where in set->seen a tensor's descriptor would be. Readers give tensors of one shape one copy of it (shapes.h). */
static size_t place_of(const struct vc_tensor *t)
{
    uint64_t key =
        ((uint64_t)(uintptr_t)t->shape ^ t->n_elems ^ (uint64_t)t->dtype << 56) * UINT64_C(0x9e3779b97f4a7c15);

    return (size_t)(key >> 58);
}

static bool describes(const struct vc_desc *desc, const struct vc_tensor *t)
{
    return desc != NULL && desc->dtype == t->dtype && desc->n_dims == t->n_dims && desc->shape == t->shape &&
           desc->n_elems == t->n_elems && desc->quant == t->quant;
}

/* The descriptor of a tensor of the source, shared with tensors that have the same one. NULL: no memory. */
static const struct vc_desc *describe(struct vc_ctx *ctx, struct vc_item_set *set, const struct vc_tensor *t)
{
    const struct vc_desc **seen = &set->seen[place_of(t)];
    struct vc_desc *desc;

    if (describes(*seen, t)) {
        return *seen;
    }
    desc = vc_arena_alloc(ctx, set->arena, sizeof *desc);
    if (desc == NULL) {
        return NULL;
    }
    *desc = (struct vc_desc){
        .dtype = t->dtype, .n_dims = t->n_dims, .shape = t->shape, .n_elems = t->n_elems, .quant = t->quant};
    if (desc->quant != NULL && list_parts(ctx, set, desc) != VC_OK) {
        return NULL;
    }
    *seen = desc;
    return desc;
}

void vc_item_from(struct vc_item_set *set, size_t tensor, const struct vc_desc *desc, struct vc_item *out)
{
    *out = (struct vc_item){
        .set = set, .first = desc, .desc = desc, .chain = &set->none, .reason = "", .source = (uint32_t)tensor};
}

enum vc_status vc_item_make(struct vc_ctx *ctx, struct vc_item_set *set, size_t tensor, struct vc_item *out)
{
    const struct vc_desc *desc = describe(ctx, set, &set->model->tensors[tensor]);

    vc_item_from(set, tensor, desc, out);
    return desc != NULL ? VC_OK : VC_E_NOMEM;
}

enum vc_status vc_item_own_chain(struct vc_ctx *ctx, struct vc_item *item)
{
    struct vc_chain *chain;

    if (item->chain != &item->set->none) {
        return VC_OK;
    }
    VC_CALL_ALLOC(chain = vc_arena_alloc(ctx, item->set->arena, sizeof *chain));
    *chain = (struct vc_chain){.total_step = SIZE_MAX};
    item->chain = chain;
    return VC_OK;
}

/* Makes room for one step more: lists have room for the power of two that is not below their length. */
static enum vc_status grow_steps(struct vc_ctx *ctx, struct vc_item *item)
{
    struct vc_chain *chain = item->chain;
    size_t capacity = chain->n_steps; /* or more, if that is no power of two */

    return (capacity & (capacity - 1)) != 0
               ? VC_OK
               : VC_ARENA_RESERVE(ctx, item->set->arena, chain->steps, capacity, capacity == 0 ? 1 : 2 * capacity);
}

struct vc_step *vc_item_add_step(struct vc_ctx *ctx, struct vc_item *item, const struct vc_step_ops *ops)
{
    struct vc_step *step = vc_arena_alloc(ctx, item->set->arena, sizeof *step);

    if (step == NULL || vc_item_own_chain(ctx, item) != VC_OK || grow_steps(ctx, item) != VC_OK) {
        return NULL;
    }
    item->chain->steps[item->chain->n_steps++] = step;
    *step = (struct vc_step){.ops = ops, .pass = item->set->pass, .scheme = "", .in = *item->desc, .out = *item->desc};
    return step;
}

void vc_item_replan(struct vc_item *item)
{
    item->desc = item->chain->n_steps == 0 ? item->first : &item->chain->steps[item->chain->n_steps - 1]->out;
}

/* A copy of the list of parts with room for one more. */
static struct vc_part_desc *copy_parts(struct vc_ctx *ctx, struct vc_item *item, const struct vc_desc *desc)
{
    struct vc_part_desc *parts = vc_arena_alloc(ctx, item->set->arena, (desc->n_parts + 1) * sizeof *parts);

    if (parts != NULL && desc->n_parts != 0) {
        memcpy(parts, desc->parts, desc->n_parts * sizeof *parts);
    }
    return parts;
}

/* Parts of that role have a file of their own. */
static bool goes_apart(const struct vc_pass *pass, enum vc_part_role role)
{
    return pass != NULL && pass->part_file != NULL && pass->part_file->role == role;
}

enum vc_status vc_step_add_part(struct vc_ctx *ctx, struct vc_item *item, struct vc_step *step, enum vc_part_role role,
                                enum vc_dtype dtype, unsigned n_dims, const uint64_t *shape)
{
    struct vc_part_desc *parts = copy_parts(ctx, item, &step->out);
    uint64_t n_elems = 1;

    VC_CALL_ALLOC(parts);
    for (unsigned d = 0; d < n_dims; d++) {
        VC_REFUSE_IF(!vc_mul_u64(n_elems, shape[d], &n_elems), ctx, VC_E_UNSUPPORTED,
                     "a part of it has too many elements");
    }
    memmove(parts + step->n_made + 1, parts + step->n_made, (step->out.n_parts - step->n_made) * sizeof *parts);
    parts[step->n_made] = (struct vc_part_desc){.role = role,
                                                .apart = goes_apart(step->pass, role),
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

    VC_CALL_ALLOC(parts);
    for (size_t i = 0; i < step->out.n_parts; i++) {
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
    while (item->chain->n_steps > n_left) {
        struct vc_step *step = item->chain->steps[--item->chain->n_steps];

        if (step->ops->forget != NULL) {
            step->ops->forget(ctx, step);
        }
    }
    vc_item_replan(item);
}

void vc_item_undo(struct vc_ctx *ctx, struct vc_item *item)
{
    drop_steps(ctx, item, item->chain->pass_first);
}

void vc_item_release(struct vc_ctx *ctx, struct vc_item *item)
{
    if (item->chain != NULL) {
        drop_steps(ctx, item, 0);
    }
}

enum vc_status vc_item_keep_as(struct vc_ctx *ctx, struct vc_item *item, const char *reason)
{
    struct vc_pass *pass = item->set->pass;
    const char *said = pass != NULL ? pass->said : NULL;

    if (said == NULL || strcmp(said, reason) != 0) {
        said = vc_arena_copy(ctx, item->set->arena, reason, strlen(reason));
    }
    VC_CALL_ALLOC(said);
    if (pass != NULL) {
        pass->said = said;
    }
    item->reason = said;
    return VC_OK;
}

enum vc_status vc_item_keep(struct vc_ctx *ctx, struct vc_item *item, const char *format, ...)
{
    char text[256];
    va_list args;
    const char *reason = text;

    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text) {
        va_start(args, format);
        reason = vc_arena_vprintf(ctx, item->set->arena, format, args);
        va_end(args);
    }
    return reason != NULL ? vc_item_keep_as(ctx, item, reason) : VC_E_NOMEM;
}

size_t vc_desc_find_part(const struct vc_desc *desc, enum vc_part_role role)
{
    for (size_t i = 0; i < desc->n_parts; i++) {
        if (desc->parts[i].role == role) {
            return i;
        }
    }
    return SIZE_MAX;
}

enum vc_dtype vc_desc_weight_dtype(const struct vc_desc *desc)
{
    if (desc->quant != NULL) {
        return desc->quant->source_dtype;
    }
    return vc_is_float8(desc->dtype) || vc_dtype_is_quantized(desc->dtype) ? VC_DTYPE_F32 : desc->dtype;
}

void vc_desc_grid(const struct vc_desc *desc, uint64_t *n_rows, uint64_t *row_len)
{
    struct vc_tensor as_tensor = {.dtype = desc->dtype, .n_dims = desc->n_dims, .shape = desc->shape};

    vc_tile_rows_of(&as_tensor, n_rows, row_len);
}

void vc_desc_first_tile(const struct vc_desc *desc, struct vc_tile *tile)
{
    uint64_t n_rows, row_len;

    *tile = (struct vc_tile){.n_elems = 0};
    vc_desc_grid(desc, &n_rows, &row_len);
    if (vc_tile_count(n_rows, row_len) != 0) {
        vc_tile_get(n_rows, row_len, 0, tile);
    }
}

enum vc_status vc_step_copy(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                            const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                            struct vc_tile_out *out)
{
    memcpy(out->data, in->data, (size_t)vc_dtype_bytes(step->in.dtype, tile->n_elems));
    return VC_OK;
}

size_t vc_item_calibrate_step(const struct vc_item *item)
{
    size_t k = 0;

    while (k < item->chain->n_steps &&
           !(item->chain->steps[k]->calibrate && item->chain->steps[k]->ops->calibrate != NULL)) {
        k++;
    }
    return k;
}

bool vc_item_is_idle(const struct vc_item *item)
{
    return item->merged || item->dropped || item->tied;
}

bool vc_item_has_action(const struct vc_item *item, enum vc_action action)
{
    size_t k = 0;

    while (k < item->chain->n_steps && item->chain->steps[k]->action != action) {
        k++;
    }
    return k < item->chain->n_steps && !vc_item_is_idle(item);
}

bool vc_item_calibrates(const struct vc_item *item)
{
    size_t k = vc_item_calibrate_step(item);

    return k < item->chain->n_steps &&
           (!vc_item_is_idle(item) || (item->in_other_shard && !item->absent && item->chain->steps[k]->calibrate_all));
}

enum vc_status vc_part_load(struct vc_ctx *ctx, const struct vc_item *item, const struct vc_part_desc *part, void *dst)
{
    const struct vc_tensor *t = &item->set->model->tensors[part->index];

    VC_REFUSE_IF(part->maker != NULL, ctx, VC_E_INTERNAL, "a part that is made tile by tile was asked for as a whole");
    return vc_source_read_any(ctx, item->set->model, part->index, VC_FORM_VALUES, 0, dst,
                              (size_t)vc_tensor_bytes(t, t->n_elems));
}
