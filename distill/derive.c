/* derive.c - see derive.h. The passes are those of `prune`, through the public headers: layers are left out first, then
 * each group of neurons, channels and heads keeps the units of the largest weights. */
#include "distill/derive.h"

#include <vcompress/depth.h>
#include <vcompress/structured.h>

#include "core/values/fraction.h"
#include "distill/student.h"

bool vc_derives(const struct vc_distill_options *options)
{
    return options->derive.width != NULL || options->derive.keep_layers != NULL;
}

/* A student is given, or it is made of a teacher; not both. */
static enum vc_status check(struct vc_ctx *ctx, const struct vc_distill_options *o)
{
    VC_REFUSE_IF(o->student.weights != NULL, ctx, VC_E_ARGUMENT,
                 "%s makes the student of the teacher, and another student is given",
                 vc_option(ctx, o->derive.width != NULL ? "derive.width" : "derive.keep_layers"));
    VC_REFUSE_IF(o->teacher.weights == NULL, ctx, VC_E_ARGUMENT,
                 "%s makes the student of the teacher, which has to be a network",
                 vc_option(ctx, o->derive.width != NULL ? "derive.width" : "derive.keep_layers"));
    return VC_OK;
}

/* "0.25" for the width "0.75". */
static enum vc_status share_to_remove(struct vc_ctx *ctx, const char *width, char *share, size_t size)
{
    struct vc_fraction stays;

    VC_CALL(vc_share_read(ctx, "derive.width", width, &stays));
    VC_REFUSE_IF(stays.n == 0 || stays.n == stays.d, ctx, VC_E_ARGUMENT, "%s: %s is not above 0 and below 1",
                 vc_option(ctx, "derive.width"), width);
    (void)snprintf(share, size, "%.9f", (double)(stays.d - stays.n) / (double)stays.d);
    return VC_OK;
}

/* What belongs together, where a file of its own says what the teacher computes. */
static enum vc_status find_couplings(struct vc_ctx *ctx, const struct vc_distill_options *o, struct vc_couplings **out)
{
    struct vc_student teacher = {.ctx = ctx, .network = {.weights = o->teacher.weights}};
    enum vc_status status = VC_OK;

    if (o->graph_path == NULL) {
        return VC_OK;
    }
    VC_TRY(vc_student_read_graph(ctx, o->graph_path, &teacher));
    VC_TRY(vc_graph_bind_usual(ctx, teacher.graph));
    VC_TRY(vc_couplings_of_graph(ctx, teacher.graph, out));
out:
    vc_student_free(&teacher);
    return status;
}

/* Layers before units, so that units are compared among the layers that stay. */
enum vc_status vc_derive_add(struct vc_ctx *ctx, const struct vc_distill_options *o, struct vc_job *job, bool heads,
                             struct vc_couplings **couplings)
{
    struct vc_structured_options structured;
    struct vc_depth_options depth;
    char share[32];

    *couplings = NULL;
    VC_CALL(check(ctx, o));
    if (o->derive.keep_layers != NULL) {
        vc_depth_defaults(&depth);
        depth.keep = o->derive.keep_layers;
        depth.layers = o->derive.layers;
        VC_CALL(vc_job_add_depth(ctx, job, &depth));
    }
    if (o->derive.width != NULL) {
        VC_CALL(share_to_remove(ctx, o->derive.width, share, sizeof share));
        VC_CALL(find_couplings(ctx, o, couplings));
        vc_structured_defaults(&structured);
        structured.share = share;
        structured.state_sizes = true;
        structured.units = 1u << VC_UNIT_NEURONS | (heads ? 1u << VC_UNIT_HEADS : 0);
        structured.couplings = *couplings;
        VC_CALL(vc_job_add_structured(ctx, job, &structured));
    }
    return VC_OK;
}
