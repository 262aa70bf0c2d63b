/* npz.h - the formats of this room, for the table of formats. */
#pragma once

#include "formats/formats.h"

extern const struct vc_format vc_format_npy;
extern const struct vc_format vc_format_npz;
