/* decode_range.h - values of codes by range, for models whose codes are shown as floats (core/model/decoded_model.h):
 * the same bits as `dequantize` makes of them. */
#pragma once

#include "core/model/decoded_model.h"

extern const struct vc_range_decoding vc_decode_ranges;
