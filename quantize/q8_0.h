/* q8_0.h - the stage that turns floats into Q8_0 blocks: what int8 is in a GGUF file. */
#ifndef VC_QUANTIZE_Q8_0_H
#define VC_QUANTIZE_Q8_0_H

#include <vcompress/quantize.h>

#include "core/job/pass.h"
#include "passes/nonfinite.h"

struct vc_q8_0_state {
    const struct vc_quantize_options *options; /* the pass's */
    struct vc_finding finding;
};

/* Adds the stage to the item, whose elements are of a float type. */
enum vc_status vc_q8_0_add(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_item *item,
                           const struct vc_quantize_options *options);

enum vc_status vc_q8_0_apply(struct vc_ctx *ctx, struct vc_stage *stage, const struct vc_item *item,
                             const struct vc_tile *tile, const void *in, void *scratch, struct vc_tile_out *out);

#endif
