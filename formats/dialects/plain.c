/* plain.c - the dialect of vcompress itself: a weight keeps its name, its parts follow with suffixes, and the manifest
 * or the suffixes tell how they belong together (manifest.h). Every scheme fits, in every format that holds its types.
 *
 *     fc.weight             i8  [out, in]
 *     fc.weight.scale       f32 [out, 1]
 *     fc.weight.zero_point  i8  [out, 1]      asymmetric only
 *
 * The parts are what passes make, so there is nothing to say about them here. */
#include "formats/dialects/dialects.h"

const struct vc_dialect vc_dialect_plain = {
    .name = "plain",
    .is_choice = true,
    .takes_codes = true,
    .loader = {.needs = "vcompress dequantize, or code that knows w and w.scale"}};
