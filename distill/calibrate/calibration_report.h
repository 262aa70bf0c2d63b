/* calibration_report.h - what statistics say of each layer, for vc_calibrate and vc_statistics_read. */
#pragma once

#include <vcompress/calibrate.h>

#include "core/base/arena.h"

/* A report with its memory. */
struct vc_calibration_owned {
    struct vc_calibration_report report; /* first */
    struct vc_ctx *ctx;
    struct vc_arena arena;
};

/* An empty one, for vc_result_free. */
enum vc_status vc_calibration_report_new(struct vc_ctx *ctx, struct vc_calibration_owned **out);

/* Fills rows and layers from the arrays of a file of statistics. VC_E_UNSUPPORTED: it has none. */
enum vc_status vc_calibration_report_fill(struct vc_ctx *ctx, const struct vc_model *file,
                                          struct vc_calibration_owned *owned);
