/* idx.h - the format of this room, for the table of formats. */
#pragma once

#include "formats/formats.h"

extern const struct vc_format vc_format_idx;
