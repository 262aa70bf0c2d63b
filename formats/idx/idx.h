/* idx.h - the format of this room, for the table of formats. */
#ifndef VC_FORMATS_IDX_H
#define VC_FORMATS_IDX_H

#include "formats/formats.h"

extern const struct vc_format vc_format_idx;

#endif
