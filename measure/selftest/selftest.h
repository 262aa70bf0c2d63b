/* selftest.h - the two parts of vc_selftest. Each adds its line to the summary, and fails with VC_E_INTERNAL. */
#pragma once

#include "core/text/text.h"

/* Every kernel of every level that this context may use against the reference, on a few thousand values. The thorough
 * comparison is tests/kernelcheck. */
enum vc_status vc_selftest_kernels(struct vc_ctx *ctx, struct vc_text *summary);

/* A small checkpoint in a new folder below `folder`: quantized, opened, dequantized, compared, removed. */
enum vc_status vc_selftest_files(struct vc_ctx *ctx, const char *folder, struct vc_text *summary);
