/* cast.h - the step that rounds floats to f16 or bf16 (or f64 to f32). */
#pragma once

#include "core/chain/pass.h"
#include "passes/nonfinite.h"

/* Adds the step; item->desc->dtype is f32 or f64, or f16 or bf16, which are widened first (exactly). `action` is for
 * the report; `advice` for the sentence about NaN and Inf. */
enum vc_status vc_cast_add(struct vc_ctx *ctx, struct vc_item *item, enum vc_dtype target, enum vc_nonfinite nonfinite,
                           enum vc_overflow overflow, enum vc_action action, const char *advice);
