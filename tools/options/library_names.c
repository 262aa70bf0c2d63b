/* library_names.c - see library_names.h. */
#include "tools/options/library_names.h"

#include <vcompress/name_lists.h>

const char *format_name(size_t index)
{
    return vc_name_at(VC_NAMES_FORMATS, index);
}

const char *layout_name(size_t index)
{
    return vc_name_at(VC_NAMES_LAYOUTS, index);
}

const char *mixture_name(size_t index)
{
    return vc_name_at(VC_NAMES_MIXTURES, index);
}
