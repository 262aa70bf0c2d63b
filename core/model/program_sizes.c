/* program_sizes.c - what a configuration states about sizes: asked by passes before they change one, and as it will be
 * once earlier passes of a chain have. The format of the configuration knows the names of the keys. */
#include "core/model/stated.h"

enum vc_status vc_program_states(struct vc_ctx *ctx, const struct vc_program *program, enum vc_edit_key key,
                                 uint64_t number, const char *tensor, bool *states)
{
    *states = false;
    return program->sizes == NULL ? VC_OK : program->sizes->says(ctx, program, key, number, tensor, states);
}

enum vc_status vc_program_says(struct vc_ctx *ctx, const struct vc_program *program, enum vc_edit_key key,
                               uint64_t number, bool *says)
{
    return vc_program_states(ctx, program, key, number, NULL, says);
}

enum vc_status vc_program_shared_experts(struct vc_ctx *ctx, const struct vc_program *program, uint64_t *n)
{
    *n = 0;
    return program->sizes == NULL || program->sizes->shared_experts == NULL
               ? VC_OK
               : program->sizes->shared_experts(ctx, program, n);
}

enum vc_status vc_program_edit(struct vc_ctx *ctx, const struct vc_edit *edits, size_t n, struct vc_arena *arena,
                               struct vc_program *program)
{
    return program->sizes == NULL ? VC_OK : program->sizes->edit(ctx, edits, n, arena, program);
}
