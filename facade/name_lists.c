/* name_lists.c - the lists of names of the rooms below, for programs: vc_name_at. */
#include <vcompress/name_lists.h>

#include "core/model/code_schemes.h"
#include "core/model/mixture_rules.h"
#include "core/model/source.h"
#include "formats/formats.h"
#include "passes/sha256.h"

static const char *mixture_at(size_t index)
{
    const struct vc_mixture *mixture = vc_mixture_at(index);

    return mixture != NULL ? mixture->name : NULL;
}

static const char *scheme_at(size_t index)
{
    const struct vc_code_scheme *row = vc_code_scheme((enum vc_scheme)index);

    if (index == VC_SCHEME_NONE) {
        return vc_scheme_name(VC_SCHEME_NONE);
    }
    return row != NULL ? row->name : NULL;
}

static const char *digest_at(size_t index)
{
    return index == 0 && vc_sha256_built_in() ? "sha256" : NULL;
}

const char *vc_name_at(enum vc_names list, size_t index)
{
    static const char *(*const lists[])(size_t index) = {
        [VC_NAMES_FORMATS] = vc_format_name, [VC_NAMES_EXTENSIONS] = vc_format_extension,
        [VC_NAMES_LAYOUTS] = vc_layout_name, [VC_NAMES_MIXTURES] = mixture_at,
        [VC_NAMES_SCHEMES] = scheme_at,      [VC_NAMES_DIGESTS] = digest_at,
    };

    return (size_t)list < sizeof lists / sizeof *lists ? lists[list](index) : NULL;
}
