/* cast.h - the stage that rounds floats to f16 or bf16 (or f64 to f32). */
#ifndef VC_QUANTIZE_CAST_H
#define VC_QUANTIZE_CAST_H

#include <vcompress/quantize.h>

#include "core/job/pass.h"
#include "passes/nonfinite.h"

struct vc_cast_state {
    enum vc_dtype target;
    enum vc_nonfinite nonfinite;
    enum vc_overflow overflow;
    struct vc_finding finding;
};

/* Adds the stage; item->desc.dtype is f32 or f64, or f16 or bf16, which are widened first (exactly). `action` and
 * `scheme` are for the report. */
enum vc_status vc_cast_add(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_item *item, enum vc_dtype target,
                           enum vc_nonfinite nonfinite, enum vc_overflow overflow, enum vc_action action);

enum vc_status vc_cast_apply(struct vc_ctx *ctx, struct vc_stage *stage, const struct vc_item *item,
                             const struct vc_tile *tile, const void *in, void *scratch, struct vc_tile_out *out);

#endif
