/* pipeline_layout.c - the layouts of the components of a pipeline as one: pipeline.h.
 *
 *     unet: quanto, text_encoder: compressed-tensors    name "quanto, compressed-tensors", needs "text_encoder: ..."
 *
 * The row is made for the report: it has a name, and no functions. Where one component's loader is not known, none is
 * promised for the whole. */
#include "formats/pipeline.h"

#define VC_DIFFUSERS_TRIED "diffusers 0.42.1"

/* Adds a word to a list of them, once. A word is found only whole, between commas: "int8" is not in "int8_pure". *list
 * NULL: empty. */
static enum vc_status add_once(struct vc_ctx *ctx, struct vc_arena *arena, const char *word, const char **list)
{
    size_t n = strlen(word);
    const char *at = *list;

    while (at != NULL && (at = strstr(at, word)) != NULL &&
           ((at != *list && at[-1] != ' ') || (at[n] != '\0' && at[n] != ','))) {
        at++;
    }
    if (at == NULL) {
        *list = *list == NULL ? word : vc_arena_printf(ctx, arena, "%s, %s", *list, word);
    }
    return *list != NULL ? VC_OK : VC_E_NOMEM;
}

/* What each component asks for, "text_encoder_2: ...". "name: what it needs; name: ...". */
static enum vc_status add_needs(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_pipeline_codes *codes,
                                const char **needs)
{
    if (codes->loader->needs == NULL) {
        return VC_OK;
    }
    *needs = vc_arena_printf(ctx, arena, "%s%s%s: %s", *needs != NULL ? *needs : "", *needs != NULL ? "; " : "",
                             codes->name, codes->loader->needs);
    return *needs != NULL ? VC_OK : VC_E_NOMEM;
}

enum vc_status vc_pipeline_layout(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_pipeline_codes *codes,
                                  size_t n, const struct vc_dialect **dialect, struct vc_loader *loader)
{
    struct vc_dialect *row = vc_arena_alloc(ctx, arena, sizeof *row);
    const char *names = NULL;
    bool loads = true;
    bool tried = true;

    VC_CALL_ALLOC(row);
    *loader = (struct vc_loader){.tried = VC_DIFFUSERS_TRIED};
    for (size_t i = 0; i < n; i++) {
        loads = loads && codes[i].loader->program != NULL;
        tried = tried && codes[i].loader->tried != NULL;
        VC_CALL(add_once(ctx, arena, codes[i].dialect->name, &names));
        VC_CALL(add_needs(ctx, arena, &codes[i], &loader->needs));
    }
    for (size_t i = 0; loads && tried && i < n; i++) {
        VC_CALL(add_once(ctx, arena, codes[i].loader->tried, &loader->tried));
    }
    loader->program = loads ? "diffusers" : NULL;
    loader->tried = loads && tried ? loader->tried : NULL;
    *row = (struct vc_dialect){.name = names};
    *dialect = row;
    return VC_OK;
}
