/* lay.c - what rows call to say how a part of a weight lies in the file: struct vc_laying. */
#include "core/model/names.h"
#include "formats/dialects/dialects.h"

/* "<path of the module>.<tail>" for the weight of a module, "<path of the module>.weight". NULL: no memory. */
static const char *module_name(struct vc_ctx *ctx, struct vc_arena *arena, const char *weight, const char *tail)
{
    size_t n_path = 0;

    (void)vc_name_is_module_weight(weight, &n_path);
    return vc_arena_printf(ctx, arena, "%.*s%s%s", (int)n_path, weight, n_path != 0 ? "." : "", tail);
}

enum vc_status vc_dialect_lay(struct vc_laying *l, const char *tail, struct vc_laid how, uint64_t a, uint64_t b)
{
    uint64_t *shape = NULL;

    how.name = tail != NULL ? module_name(l->ctx, l->arena, l->codes->name, tail) : l->codes->name;
    VC_CALL_ALLOC(how.name);
    if (how.shape == NULL) {
        shape = vc_arena_alloc(l->ctx, l->arena, 2 * sizeof *shape);
        VC_CALL_ALLOC(shape);
        shape[0] = a;
        shape[1] = b;
        how.shape = shape;
    }
    l->laid[l->n++] = how;
    return VC_OK;
}
