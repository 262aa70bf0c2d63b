/* graph_config.c - the graph of a config.json alone: formats/ reads the file, graph/ builds; and of a file beside the
 * weights, for programs. */
#include "facade/graph_config.h"

#include <sys/stat.h>

#include "core/base/arena.h"
#include "core/text/text.h"
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

/* The architecture that the configuration names is not known, so its sizes alone are asked. */
static enum vc_status build_sizes(struct vc_ctx *ctx, const struct vc_model *model, const char *path,
                                  struct vc_graph **out)
{
    struct vc_program program = {.kind = VC_PROGRAM_NONE};
    VC_SCOPED_ARENA struct vc_arena arena = {0};
    const struct vc_graph_source source = {.ctx = ctx, .program = &program, .arena = &arena, .stand_in = true};

    *out = NULL;
    if (model != NULL) {
        VC_CALL(vc_model_program(ctx, model, &arena, &program));
    } else {
        VC_CALL(vc_hf_program_read(ctx, path, &arena, &program));
    }
    VC_REFUSE_IF(program.kind != VC_PROGRAM_CONFIG, ctx, VC_E_UNSUPPORTED, "has no configuration that states sizes");
    return vc_graph_from_program(&source, out);
}

enum vc_status vc_graph_build_sizes(struct vc_ctx *ctx, const struct vc_model *model, const char *path,
                                    struct vc_graph **out)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, build_sizes(ctx, model, path, out));
}

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

enum vc_status vc_graph_open(struct vc_ctx *ctx, const char *path, const struct vc_model *weights, bool plain_inputs,
                             struct vc_model **beside, struct vc_graph **out)
{
    struct vc_graph_options options;

    vc_graph_defaults(&options);
    options.plain_inputs = plain_inputs;
    if (path == NULL) {
        return vc_graph_build(ctx, weights, &options, out);
    }
    if (weights == NULL && vc_ends_in(path, ".json") && !vc_ends_in(path, ".index.json")) {
        return vc_graph_build_config(ctx, path, out);
    }
    options.weights = weights;
    if (vc_graph_is_text(path)) {
        return vc_graph_read_text(ctx, path, &options, out);
    }
    if (*beside == NULL) {
        enum vc_status status = vc_model_open(ctx, path, NULL, beside);

        if (status == VC_E_UNSUPPORTED && weights == NULL && is_folder(path)) { /* with a config.json and no weights */
            return vc_graph_build_config(ctx, path, out);
        }
        VC_CALL(status);
    }
    return vc_graph_build(ctx, *beside, &options, out);
}
