/* dialects.c - the table of dialects, made of the list in dialects.h.
 *
 * Rows are in the order of VC_DIALECTS, which decides where several would do. Every question about dialects as a whole
 * is here; a row's own facts are in its file. */
#include "formats/dialects/dialects.h"

#include <jansson.h>

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

/* *out NULL: none was asked for, the writer chooses. */
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

/* Layouts that a loader of such models takes, for refusals that offer another one. */
void vc_dialect_list_loading(struct vc_family *family)
{
    family->n_layouts = 0;
    for (size_t i = 0; i < n_dialects; i++) {
        const struct vc_dialect_file *file = dialects[i]->file;

        if (file != NULL && file->loads != VC_LOADS_NONE && vc_family_refused(family, file->loads) == NULL &&
            family->n_layouts < VC_FAMILY_MAX_LAYOUTS) {
            family->layouts[family->n_layouts++] = dialects[i];
        }
    }
}

/* `usual` where it takes the scheme, else the first layout with a loader that takes it. */
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

/* The layout for int8 in a folder with a config.json: the one that is marked so, or another one where the family cannot
 * be loaded in that. */
const struct vc_dialect *vc_dialect_usual_in_folders(const struct vc_family *family)
{
    const struct vc_dialect *usual = &vc_dialect_plain;

    for (size_t i = 0; i < n_dialects; i++) {
        usual = dialects[i]->file != NULL && dialects[i]->file->usual_in_folders ? dialects[i] : usual;
    }
    if (usual->file == NULL || vc_family_refused(family, usual->file->loads) == NULL) {
        return usual;
    }
    const struct vc_dialect *other = vc_family_other_layout(family, usual);
    return other != NULL ? other : usual;
}
