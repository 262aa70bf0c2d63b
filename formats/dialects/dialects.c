/* dialects.c - the table of dialects, made of the list in dialects.h. */
#include "formats/dialects/dialects.h"

#include <jansson.h>
#include <string.h>

#include "core/model/names.h"

#define ADDRESS(name) &vc_dialect_##name,
static const struct vc_dialect *const dialects[] = {VC_DIALECTS(ADDRESS)};

static const size_t n_dialects = sizeof dialects / sizeof dialects[0];

const struct vc_dialect *vc_dialect_row(size_t index)
{
    return index < n_dialects ? dialects[index] : NULL;
}

void vc_dialect_hint_release(struct vc_dialect_hint *hint)
{
    json_decref(hint->mlx);
    hint->mlx = NULL;
}

const char *vc_layout_name(size_t index)
{
    for (size_t i = 0; i < n_dialects; i++) {
        if (dialects[i]->is_choice && index-- == 0) {
            return dialects[i]->name;
        }
    }
    return NULL;
}

enum vc_status vc_dialect_asked(struct vc_ctx *ctx, const struct vc_write_options *options,
                                const struct vc_dialect **out)
{
    *out = NULL;
    if (options->layout == NULL || strcmp(options->layout, "auto") == 0) {
        return VC_OK;
    }
    for (size_t i = 0; i < n_dialects && *out == NULL; i++) {
        *out = strcmp(dialects[i]->name, options->layout) == 0 ? dialects[i] : NULL;
    }
    return *out != NULL ? VC_OK : vc_fail(ctx, VC_E_ARGUMENT, "no layout is called '%.100s'", options->layout);
}

const struct vc_dialect *vc_dialect_that_loads(const struct vc_family *family, const struct vc_dialect *but)
{
    for (size_t i = 0; i < n_dialects; i++) {
        const struct vc_dialect_file *file = dialects[i]->file;

        if (file != NULL && file->loads != VC_LOADS_NONE && dialects[i] != but &&
            vc_family_refused(family, file->loads) == NULL) {
            return dialects[i];
        }
    }
    return &vc_dialect_plain;
}

const struct vc_dialect *vc_dialect_for_codes(const struct vc_dialect *usual, const char *scheme)
{
    for (size_t i = 0; scheme != NULL && i < n_dialects && !vc_dialect_takes(usual, scheme); i++) {
        if (dialects[i]->file != NULL && dialects[i]->file->loads != VC_LOADS_NONE &&
            vc_dialect_takes(dialects[i], scheme)) {
            return dialects[i];
        }
    }
    return usual;
}

const struct vc_dialect *vc_dialect_usual_in_folders(const struct vc_family *family)
{
    const struct vc_dialect *usual = &vc_dialect_plain;
    const struct vc_dialect *other;

    for (size_t i = 0; i < n_dialects; i++) {
        usual = dialects[i]->file != NULL && dialects[i]->file->usual_in_folders ? dialects[i] : usual;
    }
    if (usual->file == NULL || vc_family_refused(family, usual->file->loads) == NULL) {
        return usual;
    }
    other = vc_dialect_that_loads(family, usual);
    return other != &vc_dialect_plain ? other : usual;
}

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
