/* option_struct.c - structures of options between a program and a library of another version. */
#include "core/base/option_struct.h"

#include <vcompress/experimental.h>

/* No structure comes near it: a larger size is what was on the stack of a program that did not call the maker. */
#define MAX_BYTES 4096

const struct vc_options_kind vc_option_kinds[VC_OPTIONS_KINDS] = {
#define VC_KIND(noun, structure, ...) \
    {#structure, "vc_" #noun "_defaults", &(const struct structure){__VA_ARGS__}, sizeof(struct structure)},
#include "core/base/option_kinds.inc"
#undef VC_KIND
};

void vc_options_fill(const struct vc_options_kind *kind, void *options, size_t size)
{
    if (size < sizeof size) {
        return;
    }
    memset(options, 0, size);
    memcpy(options, kind->defaults, size < kind->size ? size : kind->size);
    memcpy(options, &size, sizeof size);
}

/* A structure of an unknown name is all zeros, struct_size too: every function refuses it as not made. */
void vc_options_defaults(const char *structure, void *options, size_t struct_size)
{
    memset(options, 0, struct_size);
    for (size_t k = 0; k < VC_OPTIONS_KINDS; k++) {
        if (strcmp(vc_option_kinds[k].name, structure) == 0) {
            vc_options_fill(&vc_option_kinds[k], options, struct_size);
        }
    }
}

/* Begins with a size that a structure can have. */
static bool is_made(const void *given, size_t *size)
{
    memcpy(size, given, sizeof *size);
    return *size >= sizeof *size && *size <= MAX_BYTES && *size % sizeof *size == 0;
}

/* The first byte behind what is known here that is set, or `size`. */
static size_t first_unknown(const struct vc_options_kind *kind, const unsigned char *given, size_t size)
{
    size_t i = kind->size;

    while (i < size && given[i] == 0) {
        i++;
    }
    return i < size ? i : size;
}

bool vc_options_take(const struct vc_options_kind *kind, const void *given, void *own)
{
    size_t size = kind->size;

    if (given != NULL && (!is_made(given, &size) || first_unknown(kind, given, size) < size)) {
        return false;
    }
    memcpy(own, kind->defaults, kind->size);
    if (given != NULL) {
        memcpy(own, given, size < kind->size ? size : kind->size);
    }
    memcpy(own, &kind->size, sizeof kind->size);
    return true;
}

enum vc_status vc_options_read(struct vc_ctx *ctx, const struct vc_options_kind *kind, const void *given, void *own)
{
    size_t size;

    if (vc_options_take(kind, given, own)) {
        return VC_OK;
    }
    VC_REFUSE_IF(!is_made(given, &size), ctx, VC_E_ARGUMENT, "struct %s was not made by %s", kind->name, kind->maker);
    return vc_fail(ctx, VC_E_ARGUMENT,
                   "struct %s sets an option that vcompress %s does not know: byte %zu, where its own has %zu",
                   kind->name, vc_version(), first_unknown(kind, given, size), kind->size);
}
