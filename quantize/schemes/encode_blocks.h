/* encode_blocks.h - the step that makes GGUF's blocks of a tensor, of any type of kernels/block_types.inc. mixture.h
 * chooses the type. */
#pragma once

#include <vcompress/quantize.h>

#include "core/chain/pass.h"

/* Adds the step to an item of floats whose last axis is whole blocks of `type`. The options (encoder, nonfinite) live
 * as long as the step. scaled: readers look for a number beside blocks of NVFP4, for each matrix: the part
 * VC_PART_SCALE. Other types have none. */
enum vc_status vc_encode_blocks_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                                    enum vc_dtype type, bool scaled);
