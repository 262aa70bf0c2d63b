/* format_loader.c - what loads quantized weights that lie in files of a format. */
#include "formats/dialects/dialects.h"
#include "formats/formats.h"

void vc_format_set_loader(const struct vc_format *format, const struct vc_dialect *dialect,
                          const struct vc_family *family, struct vc_loader *loader)
{
    const char *needs = dialect->file != NULL ? vc_family_needs(family, dialect->file->loads) : NULL;

    if (loader->program == NULL && loader->needs == NULL) {
        *loader = format->loader != NULL && dialect == format->dialect ? *format->loader : dialect->loader;
        loader->needs = needs != NULL ? needs : loader->needs;
        if (family != NULL && family->diffusers && dialect->file != NULL && dialect->file->loads != VC_LOADS_NONE) {
            *loader = dialect->file->loads == VC_LOADS_BITSANDBYTES
                          ? (struct vc_loader){.program = "diffusers", .needs = "a GPU"}
                          : (struct vc_loader){.program = NULL};
        }
    }
}
