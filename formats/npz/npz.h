/* npz.h - the formats of this room, for the table of formats. */
#ifndef VC_FORMATS_NPZ_H
#define VC_FORMATS_NPZ_H

#include "formats/formats.h"

extern const struct vc_format vc_format_npy;
extern const struct vc_format vc_format_npz;

#endif
