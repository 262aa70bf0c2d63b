/* dialects.c - the table of dialects, made of the list in dialects.h. */
#include "formats/dialects/dialects.h"

#include <string.h>

#define ADDRESS(name) &vc_dialect_##name,
static const struct vc_dialect *const dialects[] = {VC_DIALECTS(ADDRESS)};

static const size_t n_dialects = sizeof dialects / sizeof dialects[0];

const char *vc_layout_name(size_t index)
{
    size_t i;

    for (i = 0; i < n_dialects; i++) {
        if (dialects[i]->is_choice && index-- == 0) {
            return dialects[i]->name;
        }
    }
    return NULL;
}

enum vc_status vc_dialect_asked(struct vc_ctx *ctx, const struct vc_write_options *options,
                                const struct vc_dialect **out)
{
    size_t i;

    *out = NULL;
    if (options->layout == NULL || strcmp(options->layout, "auto") == 0) {
        return VC_OK;
    }
    for (i = 0; i < n_dialects && *out == NULL; i++) {
        *out = strcmp(dialects[i]->name, options->layout) == 0 ? dialects[i] : NULL;
    }
    return *out != NULL ? VC_OK : vc_fail(ctx, VC_E_ARGUMENT, "no layout is called '%.100s'", options->layout);
}
