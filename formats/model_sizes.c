/* model_sizes.c - what a configuration states about sizes: asked by passes before they change one, and as it will be
 * once earlier passes of a chain have. */
#include "core/model/stated.h"
#include "formats/gguf/gguf.h"
#include "formats/huggingface/hf_edit.h"

enum vc_status vc_program_says(struct vc_ctx *ctx, const struct vc_program *program, enum vc_edit_key key,
                               uint64_t number, bool *says)
{
    *says = false;
    if (program->kind == VC_PROGRAM_CONFIG) {
        return vc_hf_edit_says(ctx, program->config, program->config_bytes, key, number, NULL, says);
    }
    *says = program->kind == VC_PROGRAM_KEYS && vc_gguf_says(program, key, number);
    return VC_OK;
}

enum vc_status vc_program_states(struct vc_ctx *ctx, const struct vc_program *program, enum vc_edit_key key,
                                 uint64_t number, const char *tensor, bool *states)
{
    return program->kind == VC_PROGRAM_CONFIG
               ? vc_hf_edit_says(ctx, program->config, program->config_bytes, key, number, tensor, states)
               : vc_program_says(ctx, program, key, number, states);
}

enum vc_status vc_program_shared_experts(struct vc_ctx *ctx, const struct vc_program *program, uint64_t *n)
{
    *n = 0;
    return program->kind == VC_PROGRAM_CONFIG ? vc_hf_edit_shared(ctx, program->config, program->config_bytes, n)
                                              : VC_OK;
}

enum vc_status vc_program_edit(struct vc_ctx *ctx, const struct vc_edit *edits, size_t n, struct vc_arena *arena,
                               struct vc_program *program)
{
    struct vc_text text;
    enum vc_status status = VC_OK;

    vc_text_init(&text, ctx);
    if (program->kind == VC_PROGRAM_KEYS) {
        VC_TRY(vc_gguf_edit_keys(ctx, edits, n, arena, program));
    } else if (program->kind == VC_PROGRAM_CONFIG) {
        VC_TRY(vc_hf_edit(ctx, program->config, program->config_bytes, edits, n, &text));
        program->config = vc_arena_copy(ctx, arena, text.data, text.n);
        VC_TRY_ALLOC(program->config);
        program->config_bytes = text.n;
    }
out:
    vc_text_release(&text);
    return status;
}
