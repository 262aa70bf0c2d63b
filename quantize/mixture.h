/* mixture.h - which of GGUF's block types each tensor of a model gets: the mixtures of llama-quantize, such as Q4_K_M,
 * which gives more bits to tensors that need them. Only names and sizes are looked at; encode_blocks.c makes the
 * blocks.
 *
 *     Q4_K_M    blk.0.attn_v.weight    q6_k      (the first and last eighth of the layers, and every third between)
 *               blk.3.attn_v.weight    q4_k
 *               output.weight          q6_k
 *               blk.0.attn_norm.weight kept      (one dimension)
 *
 * Source: src/llama-quant.cpp of llama.cpp, October 2026 (llama_tensor_get_type_impl, tensor_type_fallback). */
#pragma once

#include "core/model/mixture_rules.h"
#include "core/model/source.h"

struct vc_arch_picture;
struct vc_plan;
struct vc_item;

/* What a mixture is for one model. */
struct vc_mixture_plan {
    struct vc_mixture_rules rules; /* statistics: encoders weigh errors by statistics of data; the caller sets it */
    const struct vc_plan *plan;
    uint32_t *place; /* of each item among those of its kind that the mixture tells apart by layer (attention's values,
                        the second matrix of feed-forward parts), in the order of layers */
    bool foreign;    /* no tensor has a name of llama.cpp's: rules about names do not hold */
    const struct vc_arch_picture
        *picture;       /* a network that makes pictures, which has rules of its own; NULL: another */
    const char *prefix; /* of its names */
};

/* Reads what the model's file says about itself, and the names of its tensors as the passes before have left them. The
 * lists are in the arena. Tensors of a model with other names than llama.cpp's get the base type. */
enum vc_status vc_mixture_read(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_plan *plan,
                               const struct vc_mixture *mixture, bool pure, struct vc_mixture_plan *out);

/* Whether llama-quantize makes blocks of the item, a matrix or a stack of matrices: not of norms, routers, tables of
 * positions, convolutions, and what does not end in "weight". */
bool vc_mixture_takes(const struct vc_mixture_plan *plan, const struct vc_item *item);

/* Whether the tensor's elements become rows of VC_FOLDED_ROW, so that blocks divide them (convert.py of ComfyUI-GGUF): the
 * file says the shape beside it. */
#define VC_FOLDED_ROW ((uint64_t)256)
bool vc_mixture_folds(const struct vc_mixture_plan *plan, const struct vc_item *item);

/* Why a tensor of a network for pictures stays as it is; NULL: it becomes blocks. *f32: readers want it as f32. */
const char *vc_mixture_keeps_picture(const struct vc_mixture_plan *plan, const struct vc_item *item, bool *f32);

/* Whether readers of the file find a number beside the blocks of the item: of NVFP4, `x.scale` of `x.weight`. */
bool vc_mixture_scales(const struct vc_mixture_plan *plan, const struct vc_item *item);

/* The item's type, a row of kernels/block_types.inc or f16. *fallback: the mixture's own choice, whose blocks do not
 * divide the last axis, so that a type of smaller blocks took its place (f16 where none divides the axis); else
 * VC_DTYPE_NONE. */
enum vc_dtype vc_mixture_type(const struct vc_mixture_plan *plan, const struct vc_item *item, enum vc_dtype *fallback);
