/* build.c - a graph from what a file says about its model: asks the model's format for its program and gives the
 * program to the room that understands it.
 *
 *     vc_graph_build          model --vc_model_program--> program -+
 *     vc_graph_build_program  the caller's program ----------------+> vc_graph_from_program -> builders[kind] -> finish
 *     vc_graph_parse_text     text --vc_onnx_parse--> program -----+
 *
 * The arena of a call holds the program; the finished graph has copies of all that it needs. */
#include "graph/build.h"

#include "core/base/option_struct.h"
#include "graph/families/families_build.h"
#include "graph/onnx/onnx_build.h"

enum vc_status vc_graph_options_read(struct vc_ctx *ctx, const struct vc_graph_options *given,
                                     struct vc_graph_options *own)
{
    return vc_options_read(ctx, VC_OPTIONS(graph), given, own);
}

/* By kind of program. NULL: no room understands the kind (VC_PROGRAM_NONE). To add a kind: a row here and a
 * builder. */
static vc_graph_builder *const builders[] = {
    [VC_PROGRAM_NODES] = vc_onnx_build_graph,
    [VC_PROGRAM_CONFIG] = vc_families_build,
    [VC_PROGRAM_KEYS] = vc_families_build_keys,
};

/* Creates the graph, lets the room fill it, and finishes it. A model of which only some tensors are there (a shard
 * of a checkpoint) is refused first. vc_graph_finish takes the graph in any case, so only the builder's failure
 * closes it here. */
enum vc_status vc_graph_from_program(const struct vc_graph_source *source, struct vc_graph **out)
{
    vc_graph_builder *build = builders[source->program->kind];
    struct vc_graph *graph = NULL;
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_CALL(vc_model_need_all(source->ctx, source->model, "what the model computes takes all tensors"));
    VC_REFUSE_IF(build == NULL, source->ctx, VC_E_UNSUPPORTED,
                 "the file does not say what its model computes: it has no graph of operators, and no config.json "
                 "lies beside it");
    VC_TRY(vc_graph_create(source->ctx, &graph));
    graph->ids_from_0 = source->program->kind == VC_PROGRAM_CONFIG || source->program->kind == VC_PROGRAM_KEYS;
    VC_TRY(build(source, graph));
    return vc_graph_finish(graph, out);
out:
    vc_graph_close(graph);
    return status;
}

/* What vc_graph_build and vc_graph_parse_text share: *program is read, `arena` owns it and is released by the
 * caller. */
static enum vc_status build(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_program *program,
                            const struct vc_graph_options *options, struct vc_arena *arena, struct vc_graph **out)
{
    const struct vc_graph_source source = {.ctx = ctx,
                                           .model = model,
                                           .program = program,
                                           .weights = options->weights,
                                           .arena = arena,
                                           .plain_inputs = options->plain_inputs};

    return vc_graph_from_program(&source, out);
}

/* vc_graph_options.weights is for sources whose parameters have names of their own (ONNX, texts); a family reads
 * the tensors of its own checkpoint. */
static enum vc_status build_model(struct vc_ctx *ctx, const struct vc_model *model,
                                  const struct vc_graph_options *options, struct vc_graph **out)
{
    struct vc_graph_options own;
    struct vc_program program;
    VC_SCOPED_ARENA struct vc_arena arena = {0};
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY(vc_graph_options_read(ctx, options, &own));
    VC_TRY(vc_model_need_weights(ctx, model));
    VC_TRY(vc_model_program(ctx, model, &arena, &program));
    if (own.weights != NULL && program.kind != VC_PROGRAM_NODES && program.kind != VC_PROGRAM_NONE) {
        status = vc_fail(ctx, VC_E_ARGUMENT,
                         "has its own weights under the names of its family; %s is for ONNX files and texts",
                         vc_option(ctx, "weights"));
        goto out;
    }
    VC_TRY(build(ctx, model, &program, &own, &arena, out));
out:
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", model->path);
}

enum vc_status vc_graph_build(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_graph_options *options,
                              struct vc_graph **out)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, build_model(ctx, model, options, out));
}

enum vc_status vc_graph_build_exported(struct vc_ctx *ctx, const struct vc_model *model, struct vc_graph **out)
{
    struct vc_program program;
    VC_SCOPED_ARENA struct vc_arena arena = {0};
    const struct vc_graph_source source = {
        .ctx = ctx, .model = model, .program = &program, .arena = &arena, .plain_inputs = true, .exported = true};

    *out = NULL;
    VC_CALL(vc_model_program(ctx, model, &arena, &program));
    return vc_graph_from_program(&source, out);
}

enum vc_status vc_graph_program(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model,
                                bool rows, struct vc_arena *arena, struct vc_program *out)
{
    return vc_onnx_export(ctx, graph, model, rows, arena, out);
}

/* For programs that a plan changed. Inputs of quantized layers stay floats: the weights of the planned model may be
 * stored in another way than the source's. */
static enum vc_status build_program(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_program *program,
                                    bool stated, struct vc_graph **out)
{
    VC_SCOPED_ARENA struct vc_arena arena = {0};
    const struct vc_graph_source source = {
        .ctx = ctx, .model = model, .program = program, .arena = &arena, .stated = stated, .plain_inputs = true};

    return vc_graph_from_program(&source, out) == VC_OK ? VC_OK : vc_context(ctx, "%s", model->path);
}

enum vc_status vc_graph_build_program(struct vc_ctx *ctx, const struct vc_model *model,
                                      const struct vc_program *program, struct vc_graph **out)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, build_program(ctx, model, program, false, out));
}

enum vc_status vc_graph_build_stated(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_program *program,
                                     struct vc_graph **out)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, build_program(ctx, model, program, true, out));
}

static enum vc_status parse_text(struct vc_ctx *ctx, const char *text, size_t n, const struct vc_graph_options *options,
                                 struct vc_graph **out)
{
    struct vc_graph_options own;
    struct vc_program program;
    VC_SCOPED_ARENA struct vc_arena arena = {0};

    *out = NULL;
    VC_CALL(vc_options_read(ctx, VC_OPTIONS(graph), options, &own));
    VC_CALL(vc_onnx_parse(ctx, &arena, text, n, &program));
    return build(ctx, NULL, &program, &own, &arena, out);
}

enum vc_status vc_graph_parse_text(struct vc_ctx *ctx, const char *text, size_t n,
                                   const struct vc_graph_options *options, struct vc_graph **out)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, parse_text(ctx, text, n, options, out));
}
