/* out_division.c - see out_division.h. */
#include "core/run/out_division.h"

/* The way from codes to values, with the numbers of the list. */
static const struct vc_quant *move_quant(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_quant *quant,
                                         const size_t *place)
{
    struct vc_quant *copy = vc_arena_alloc(ctx, arena, sizeof *copy);

    if (copy != NULL) {
        *copy = *quant;
        for (size_t k = 0; k < copy->n_parts; k++) {
            copy->parts[k].tensor = place[copy->parts[k].tensor];
        }
    }
    return copy;
}

/* Counts the outputs of each list, and numbers them. */
static void number(const struct vc_out_list *outs, struct vc_out_division *d)
{
    for (size_t i = 0; i < outs->n; i++) {
        size_t list = d->list_of[i];

        d->place[i] = list == SIZE_MAX ? SIZE_MAX : d->lists[list].n++;
    }
}

enum vc_status vc_out_divide(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_out_list *outs, size_t n,
                             const size_t *list_of, struct vc_out_division *out)
{
    *out = (struct vc_out_division){.n = n, .list_of = list_of};
    VC_CALL_ALLOC(out->lists = vc_arena_alloc(ctx, arena, (n + 1) * sizeof *out->lists));
    VC_CALL_ALLOC(out->tensors = vc_arena_alloc(ctx, arena, (n + 1) * sizeof *out->tensors));
    VC_CALL_ALLOC(out->place = vc_arena_alloc(ctx, arena, (outs->n + 1) * sizeof *out->place));
    for (size_t i = 0; i < n; i++) {
        out->lists[i] = *outs;
        out->lists[i].n = 0;
    }
    number(outs, out);
    for (size_t i = 0; i < n; i++) {
        VC_CALL_ALLOC(out->tensors[i] = vc_arena_alloc(ctx, arena, (out->lists[i].n + 1) * sizeof *out->tensors[i]));
        out->lists[i].tensors = out->tensors[i];
    }
    for (size_t i = 0; i < outs->n; i++) {
        if (list_of[i] == SIZE_MAX) {
            continue;
        }
        struct vc_out_tensor *to = &out->tensors[list_of[i]][out->place[i]];
        *to = vc_out_at(outs, i);
        to->alias_of = to->alias ? out->place[to->alias_of] : 0;
        if (to->quant != NULL) {
            VC_CALL_ALLOC(to->quant = move_quant(ctx, arena, to->quant, out->place));
        }
    }
    return VC_OK;
}
