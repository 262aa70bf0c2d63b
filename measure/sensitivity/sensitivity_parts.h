/* sensitivity_parts.h - what the files of vc_model_sensitivity share. */
#pragma once

#include <vcompress/sensitivity.h>

#include "core/base/arena.h"

/* What the caller gets is the first member. */
struct vc_sensitivity_owned {
    struct vc_sensitivity result;
    struct vc_ctx *ctx;
    struct vc_arena arena;
    struct vc_sensitivity_row *rows;
    struct vc_sensitivity_pick *picks; /* of both advices */
    struct vc_measured measured;
};

/* Fills result.prune and result.quantize from the figures of the rows. */
enum vc_status vc_sensitivity_advise(struct vc_ctx *ctx, struct vc_sensitivity_owned *owned);
