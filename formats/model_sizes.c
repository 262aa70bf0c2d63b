/* model_sizes.c - what a configuration states about sizes, asked by passes before they change one. */
#include "core/model/program.h"
#include "formats/gguf/gguf.h"
#include "formats/huggingface/hf_edit.h"

enum vc_status vc_program_says(struct vc_ctx *ctx, const struct vc_program *program, enum vc_edit_key key,
                               uint64_t number, bool *says)
{
    *says = false;
    if (program->kind == VC_PROGRAM_CONFIG) {
        return vc_hf_edit_says(ctx, program->config, program->config_bytes, key, number, says);
    }
    *says = program->kind == VC_PROGRAM_KEYS && vc_gguf_says(program, key, number);
    return VC_OK;
}
