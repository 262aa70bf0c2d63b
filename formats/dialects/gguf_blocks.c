/* gguf_blocks.c - the dialect of GGUF: a quantized weight is one tensor of blocks, each with its codes and its scale.
 *
 *     int8 is Q8_0     block of 32 values: d f16 | q0 .. q31 int8      34 bytes, value = q * d
 *     gguf             any block type of kernels/block_types.inc, chosen for each tensor (quantize/mixture.h)
 *
 * The pass makes the blocks (their arithmetic is a kernel's). Only NVFP4 has a part beside them, the number of the tensor. What of the metadata follows
 * from them is the writer's (formats/gguf/). */

#include "core/text/glob.h"
#include "formats/dialects/dialects.h"

#define BLOCK 32

static enum vc_status gguf_check(struct vc_ctx *ctx, const struct vc_dialect_request *r)
{
    bool int8 = strcmp(r->scheme, "int8") == 0;
    bool group = r->granularity == VC_GRANULARITY_GROUP && r->group_size == BLOCK;
    bool unasked = r->granularity == VC_GRANULARITY_CHANNEL && !r->granularity_given;
    bool other_axis = r->axis_given && !(group && r->axis == 0);

    VC_REFUSE_IF(int8 && !r->symmetric, ctx, VC_E_ARGUMENT, "int8 in GGUF is Q8_0, which has no zero points (%s)",
                 vc_option(ctx, "asymmetric"));
    VC_REFUSE_IF(int8 && other_axis, ctx, VC_E_ARGUMENT,
                 "int8 in GGUF is Q8_0, which has scales along the last axis only (%s)", vc_option(ctx, "axis"));
    VC_REFUSE_IF(int8 && !group && !unasked, ctx, VC_E_ARGUMENT,
                 "int8 in GGUF is Q8_0, which has scales per group of 32 only (%s)", vc_option(ctx, "granularity"));
    return VC_OK;
}

static const char *gguf_reason(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor)
{
    return strcmp(request->scheme, "int8") != 0                                    ? NULL
           : tensor->n_dims == 0 || tensor->shape[tensor->n_dims - 1] % BLOCK != 0 ? "rows are no multiple of 32"
                                                                                   : NULL;
}

static enum vc_dtype gguf_part_type(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor,
                                    enum vc_part_role role, enum vc_dtype usual)
{
    return role != VC_PART_CODES ? VC_DTYPE_RAW : strcmp(request->scheme, "int8") == 0 ? VC_DTYPE_Q8_0 : usual;
}

/* What llama.cpp computes with in f32 alone: its own converter writes these in f32, whatever type is asked for. */
static bool gguf_keeps_type(const struct vc_dialect_tensor *tensor)
{
    static struct vc_glob_set globs = {.n = 12,
                                       .globs = {"*norm*", "*ffn_gate_inp*", "position_embd*", "token_types*",
                                                 "*rope_freqs*", "*ssm_conv*", "*shortconv.conv*", "*time_mix_*",
                                                 "*altup*", "*attn_rel_b*", "*.patch_embd*", "mm.input_projection*"}};
    size_t n = strlen(tensor->name);

    return tensor->n_dims < 2 || n < 7 || strcmp(tensor->name + n - 7, ".weight") != 0 ||
           vc_glob_set_find(&globs, tensor->name) != SIZE_MAX;
}

const struct vc_dialect vc_dialect_gguf = {.name = "gguf",
                                           .schemes = (const char *const[]){"int8", "gguf", NULL},
                                           .instead = "name a type of GGUF, or quantize into a folder and convert the "
                                                      "folder, which keeps codes of nvfp4, int4 and int8",
                                           .blocks = true,
                                           .rows_only = true,
                                           .parts_of_module = true,
                                           .check = gguf_check,
                                           .reason = gguf_reason,
                                           .part_type = gguf_part_type,
                                           .keeps_type = gguf_keeps_type,
                                           .loader = {.program = "llama.cpp", .tried = "gguf 0.19.0"}};
