/* group_codes.h - what the pass asks the schemes of group_codes.c (schemes.h has their rows) beyond a row's functions.
 */
#ifndef VC_QUANTIZE_GROUP_CODES_H
#define VC_QUANTIZE_GROUP_CODES_H

#include "core/chain/pass.h"

/* After the look at all values: gives every tensor that becomes nvfp4 its global scale. Layers that runtimes join get
 * the same. Does nothing where no tensor does. */
enum vc_status vc_group_codes_decide(struct vc_ctx *ctx, struct vc_plan *plan);

#endif
