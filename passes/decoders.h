/* decoders.h - the table of decoders: how each kind of quantized storage becomes f32. A new scheme brings a row;
 * decode.c chooses it, and nobody else asks. */
#pragma once

#include "passes/decode.h"

struct vc_kernels;

struct vc_decoder {
    enum vc_dtype dtype; /* of blocks, which have their scales inside */

    /* Adds the step to an item whose descriptor has this storage; its output is plain f32. `overflow` decides what is
     * beyond f32; finite_scales: NaN and Inf among the scales (in blocks: values that are not finite) are refused. */
    enum vc_status (*add)(struct vc_ctx *ctx, struct vc_item *item, const struct vc_decoder *decoder,
                          enum vc_overflow overflow, bool finite_scales);

    /* Of blocks: the kernel for n elements of whole blocks; nonzero when a device failed (kernels.h). */
    int (*blocks_to_f32)(const struct vc_kernels *k, const uint8_t *blocks, size_t n, float *y);
};

/* decode_blocks.c: GGUF's blocks, a row for each type. */
extern const struct vc_decoder vc_decoders_blocks[];
extern const size_t vc_n_decoders_blocks;

/* decode_codes.c: every scheme of core/model/code_schemes.h. */
extern const struct vc_decoder vc_decoder_codes;
