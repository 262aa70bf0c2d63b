/* quantize_ways.c - the schemes as ways that others try: core/chain/ways.h. */
#include "quantize/quantize_ways.h"

#include "quantize/schemes.h"

#define Q8_0_BLOCK 32

struct scheme_way {
    const struct vc_scheme_row *row;
    struct vc_quantize_options options;
};

/* Blocks lie along the last axis and are never short. */
static const char *reason(const struct vc_way *way, const struct vc_item *item)
{
    const struct scheme_way *w = way->self;
    const struct vc_desc *desc = item->desc;
    bool whole = desc->n_dims != 0 && desc->shape[desc->n_dims - 1] % Q8_0_BLOCK == 0;

    return w->row->result == VC_DTYPE_Q8_0 && !whole ? "the last axis is no multiple of 32" : NULL;
}

static enum vc_status add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_way *way, enum vc_dtype weights)
{
    const struct scheme_way *w = way->self;

    return w->row->add(ctx, item, &w->options, weights);
}

/* "int8/group:128", or the type where there is nothing to choose. */
static enum vc_status add_way(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_scheme_row *row,
                              const struct vc_scheme_variant *variant, struct vc_way_list *list)
{
    static const char *const words[] = {
        [VC_GRANULARITY_TENSOR] = "tensor", [VC_GRANULARITY_CHANNEL] = "channel", [VC_GRANULARITY_GROUP] = "group"};
    struct scheme_way *w = vc_arena_alloc(ctx, arena, sizeof *w);
    struct vc_way way = {.name = vc_dtype_name(row->result), .reason = reason, .add = add};
    const char *how = "";

    if (w == NULL) {
        return VC_E_NOMEM;
    }
    w->row = row;
    vc_quantize_defaults(&w->options);
    w->options.target = row->target;
    if (variant != NULL) {
        w->options.granularity = variant->granularity;
        w->options.group_size = variant->group_size;
        w->options.granularity_given = true;
        how = variant->granularity == VC_GRANULARITY_GROUP
                  ? vc_arena_printf(ctx, arena, "group:%llu", (unsigned long long)variant->group_size)
                  : words[variant->granularity];
        way.name = how == NULL ? NULL : vc_arena_printf(ctx, arena, "%s/%s", row->name, how);
    }
    if (way.name == NULL) {
        return VC_E_NOMEM;
    }
    way.self = w;
    if (list->n == VC_MAX_WAYS) {
        return vc_fail(ctx, VC_E_INTERNAL, "more than %d ways", VC_MAX_WAYS);
    }
    list->ways[list->n++] = way;
    return VC_OK;
}

enum vc_status vc_quantize_ways(struct vc_ctx *ctx, struct vc_arena *arena, struct vc_way_list *list)
{
    const struct vc_scheme_row *row;
    enum vc_status status = VC_OK;
    size_t i;
    size_t k;

    for (i = 0; (row = vc_scheme_row_at(i)) != NULL; i++) {
        bool choice = row->codes && !row->own_granularity;

        for (k = 0; k < (choice ? row->n_variants : 1); k++) {
            VC_TRY(add_way(ctx, arena, row, choice ? &row->variants[k] : NULL, list));
        }
    }
out:
    return status;
}

enum vc_status vc_quantize_way_of(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_desc *desc,
                                  struct vc_way *way)
{
    const struct vc_quant *quant = desc->quant;
    struct scheme_way *w = vc_arena_alloc(ctx, arena, sizeof *w);

    if (w == NULL) {
        return VC_E_NOMEM;
    }
    if (desc->dtype != VC_DTYPE_Q8_0 && (quant == NULL || quant->scheme != VC_SCHEME_INT8)) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "no scheme makes codes of the type %s", vc_dtype_name(desc->dtype));
    }
    w->row = desc->dtype == VC_DTYPE_Q8_0 ? &vc_scheme_q8_0 : &vc_scheme_int8;
    vc_quantize_defaults(&w->options);
    w->options.target = w->row->target;
    if (quant != NULL) {
        w->options.granularity = quant->granularity;
        w->options.granularity_given = true;
        w->options.axis = quant->granularity == VC_GRANULARITY_CHANNEL ? (int)quant->axis : VC_AXIS_OUTPUT;
        w->options.group_size = quant->granularity == VC_GRANULARITY_GROUP ? quant->group_size : w->options.group_size;
        w->options.asymmetric = !quant->symmetric;
    }
    *way = (struct vc_way){.name = w->row->name, .self = w, .reason = reason, .add = add};
    return VC_OK;
}
