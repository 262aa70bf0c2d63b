/* graph_config.c - the graph of a config.json alone: formats/ reads the file, graph/ builds. */
#include "core/base/arena.h"
#include "formats/huggingface/hf_program.h"
#include "graph/build.h"

static enum vc_status build_config(struct vc_ctx *ctx, const char *path, struct vc_graph **out)
{
    struct vc_program program;
    struct vc_arena arena = {0};
    const struct vc_graph_source source = {.ctx = ctx, .program = &program, .arena = &arena};
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY(vc_hf_program_read(ctx, path, &arena, &program));
    VC_TRY(vc_graph_from_program(&source, out));
out:
    vc_arena_release(ctx, &arena);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", path);
}

enum vc_status vc_graph_build_config(struct vc_ctx *ctx, const char *path, struct vc_graph **out)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, build_config(ctx, path, out));
}
