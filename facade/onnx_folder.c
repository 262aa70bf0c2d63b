/* onnx_folder.c - see onnx_folder.h.
 *
 *     folder -> model (codes decoded) -> graph of its config.json -> program -> bytes of an ONNX file -> model */
#include "facade/onnx_folder.h"

#include "core/job/scoped.h"
#include "core/model/decoded_model.h"
#include "core/model/program.h"
#include "formats/formats.h"
#include "graph/build.h"
#include "passes/decode_range.h"

/* The ONNX model takes the place of *model, which is to be closed also after a failure. */
static enum vc_status make(struct vc_ctx *ctx, const struct vc_open_options *options, struct vc_model **model)
{
    VC_SCOPED_GRAPH struct vc_graph *graph = NULL;
    struct vc_program program;
    VC_SCOPED_ARENA struct vc_arena arena = {0};

    VC_CALL(vc_model_need_all(ctx, *model, "an ONNX file is made of all files of the folder"));
    VC_CALL(vc_decoded_model_make(ctx, &vc_decode_ranges, model));
    VC_CALL(vc_format_finish(ctx, NULL, model)); /* a decoded model, too, finds its config.json */
    VC_CALL(vc_graph_build_exported(ctx, *model, &graph));
    VC_CALL(vc_graph_program(ctx, graph, *model, options->onnx_rows, &arena, &program));
    VC_CALL(vc_format_make_onnx(ctx, &program, model));
    return vc_format_finish(ctx, options, model);
}

enum vc_status vc_onnx_folder_open(struct vc_ctx *ctx, const char *path, const struct vc_open_options *options,
                                   struct vc_model **out)
{
    struct vc_open_options first = *options;
    bool fits = false;

    first.as_gguf = false;
    first.as_folder = false;
    VC_CALL(vc_format_open(ctx, path, &first, out));
    enum vc_status status = vc_format_fits_folder(ctx, *out, &fits);
    if (status == VC_OK && fits) {
        status = make(ctx, &first, out);
    } else if (status == VC_OK && options->decoded) {
        status = vc_decoded_model_make(ctx, &vc_decode_ranges, out);
    }
    if (status != VC_OK) {
        vc_model_close(*out);
        *out = NULL;
    }
    return status;
}
