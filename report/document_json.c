/* document_json.c - documents by their kind: vc_document_json. */
#include "report/document_json.h"

#include "core/base/ctx.h"

static vc_document_writer *const writers[] = {
    [VC_DOCUMENT_INSPECT] = vc_write_inspect,
    [VC_DOCUMENT_DIFF] = vc_write_diff,
    [VC_DOCUMENT_GRAPH] = vc_write_graph,
    [VC_DOCUMENT_ESTIMATE] = vc_write_estimate,
    [VC_DOCUMENT_FIT] = vc_write_fit,
    [VC_DOCUMENT_PLAN] = vc_write_plan,
    [VC_DOCUMENT_SHRINK] = vc_write_shrink,
    [VC_DOCUMENT_DISTILL] = vc_write_distill,
    [VC_DOCUMENT_EVALUATE] = vc_write_evaluate,
    [VC_DOCUMENT_SENSITIVITY] = vc_write_sensitivity,
    [VC_DOCUMENT_GPUS] = vc_write_gpus,
    [VC_DOCUMENT_HISTOGRAMS] = vc_write_histograms,
    [VC_DOCUMENT_FIT_MATRIX] = vc_write_fit_matrix,
    [VC_DOCUMENT_TIMELINE] = vc_write_timeline,
    [VC_DOCUMENT_STEPS] = vc_write_steps,
    [VC_DOCUMENT_REPORT] = vc_write_report,
    [VC_DOCUMENT_VERIFY] = vc_write_verify,
    [VC_DOCUMENT_ERROR] = vc_write_error,
};

enum vc_status vc_document_json(struct vc_ctx *ctx, const struct vc_document *document, char **text)
{
    *text = NULL;
    vc_clear_error(ctx);
    VC_REFUSE_IF((size_t)document->kind >= sizeof writers / sizeof *writers, ctx, VC_E_ARGUMENT,
                 "there is no document of kind %u", (unsigned)document->kind);
    return writers[document->kind](ctx, document, text);
}
