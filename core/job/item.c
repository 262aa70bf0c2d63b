/* item.c - what passes do to items while they plan. */
#include "core/job/pass.h"

#include <stdio.h>

struct vc_stage *vc_item_add_stage(struct vc_ctx *ctx, struct vc_item *item, struct vc_pass *pass)
{
    struct vc_stage *stage;

    if (item->n_stages == VC_MAX_STAGES) {
        (void)vc_fail(ctx, VC_E_ARGUMENT, "%s: more than %d passes in one run", pass->ops->name, VC_MAX_STAGES);
        return NULL;
    }
    stage = vc_arena_alloc(ctx, item->arena, sizeof *stage);
    if (stage == NULL) {
        return NULL;
    }
    item->stages[item->n_stages++] = stage;
    *stage = (struct vc_stage){.pass = pass, .in = item->desc, .out = item->desc};
    return stage;
}

enum vc_status vc_item_keep(struct vc_ctx *ctx, struct vc_item *item, const char *format, ...)
{
    va_list args;
    char *reason;

    va_start(args, format);
    reason = vc_arena_vprintf(ctx, item->arena, format, args);
    va_end(args);
    if (reason == NULL) {
        return VC_E_NOMEM;
    }
    item->reason = reason;
    return VC_OK;
}

void vc_item_drop_stages(struct vc_ctx *ctx, struct vc_item *item, size_t n_left)
{
    while (item->n_stages > n_left) {
        struct vc_stage *stage = item->stages[--item->n_stages];

        if (stage->pass->ops->forget != NULL) {
            stage->pass->ops->forget(ctx, stage);
        }
        item->desc = stage->in;
    }
}

size_t vc_item_survey_stage(const struct vc_item *item)
{
    size_t k = 0;

    while (k < item->n_stages && !(item->stages[k]->survey && item->stages[k]->pass->ops->survey != NULL)) {
        k++;
    }
    return k;
}

bool vc_item_is_idle(const struct vc_item *item)
{
    return item->merged || item->dropped || item->tied;
}
