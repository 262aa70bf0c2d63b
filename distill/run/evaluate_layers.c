/* evaluate_layers.c - vc_layers_least: the layers of a network without which its answers change least. Each is left out
 * alone, in a job that is only planned, and what is left answers the rows with the network as the teacher. */

#include <vcompress/depth.h>
#include <vcompress/distill.h>

#include "core/job/job_state.h"
#include "core/text/text.h"
#include "graph/planned_model.h"
#include "passes/scores/unit_scores.h"

#define MOST 1024

/* What the answers lose without one layer. *refused: it cannot be left out, for that status. */
static enum vc_status measure(struct vc_ctx *ctx, struct vc_evaluate_options o, struct vc_depth_options *depth,
                              uint64_t number, enum vc_status *refused, double *loss, const char **what)
{
    struct vc_planned_model planned = {.ctx = ctx};
    struct vc_write_options write;
    struct vc_quality quality;
    struct vc_job *job = NULL;
    char drop[24];
    enum vc_status status;

    (void)snprintf(drop, sizeof drop, "%llu", (unsigned long long)number);
    depth->drop = drop;
    vc_write_defaults(&write);
    write.dry_run = true;
    o.teacher = o.network;
    VC_TRY(vc_job_create(ctx, o.network.weights, &job));
    VC_TRY(vc_job_add_depth(ctx, job, depth));
    VC_TRY(*refused = vc_job_plan(ctx, job, &write));
    VC_TRY(vc_planned_weights(ctx, &job->plan, &planned));
    VC_TRY(vc_planned_graph(ctx, &job->plan, &planned));
    o.network = (struct vc_network){planned.graph, planned.weights, NULL};
    status = vc_evaluate(ctx, &o, &quality);
    if (status == VC_E_UNSUPPORTED && o.loss == VC_TEACHER_LOSS_AUTO) { /* outputs of encoders are no logits */
        o.loss = VC_TEACHER_LOSS_MSE;
        status = vc_evaluate(ctx, &o, &quality);
    }
    VC_TRY(status);
    *loss = quality.kd;
    *what = vc_teacher_loss_facts(quality.loss)->measure;
out:
    vc_planned_free(&planned);
    vc_job_free(job);
    return status;
}

/* Tries the numbers of layers from 0 on until there are no more. *drop is the n with the smallest loss,
 * *why what all of them lose. */
enum vc_status vc_layers_least(struct vc_ctx *ctx, const struct vc_evaluate_options *options, const char *layers,
                               uint64_t n, char **drop, char **why)
{
    struct vc_ranked_unit *found = vc_alloc_array(ctx, VC_TAG_MISC, MOST, sizeof *found);
    enum vc_status status = found == NULL ? VC_E_NOMEM : VC_OK;
    struct vc_depth_options depth;
    struct vc_text texts[2];
    size_t n_found = 0;
    const char *what = NULL;

    *drop = *why = NULL;
    vc_text_init(&texts[0], ctx);
    vc_text_init(&texts[1], ctx);
    vc_depth_defaults(&depth);
    depth.layers = layers;
    for (uint64_t number = 0; status == VC_OK && number < MOST; number++) {
        enum vc_status refused = VC_OK;
        double loss = 0.0;

        status = measure(ctx, *options, &depth, number, &refused, &loss, &what);
        if (status == VC_OK) {
            found[n_found++] = (struct vc_ranked_unit){loss, 0, number};
        } else if (refused == VC_E_UNSUPPORTED && (number == 0 || n_found != 0)) { /* it has to stay */
            status = VC_OK;
        } else if (refused == VC_E_ARGUMENT && n_found != 0) { /* there are no more */
            number = MOST;
            status = VC_OK;
        }
    }
    VC_TRY(status);
    vc_clear_error(ctx);
    if (n == 0 || n > n_found) {
        VC_TRY(vc_fail(ctx, VC_E_ARGUMENT, "%s: %llu layers cannot go: from 1 to %zu can", vc_option(ctx, "drop"),
                       (unsigned long long)n, n_found));
    }
    vc_ranked_units_sort(found, n_found);
    vc_text_add(&texts[1], "%s without one layer alone:", what);
    for (size_t i = 0; i < n_found; i++) {
        const char *comma = i == 0 ? "" : ",";

        vc_text_add(&texts[1], "%s %llu %.3g", comma, (unsigned long long)found[i].unit, found[i].score);
        if (i < n) {
            vc_text_add(&texts[0], "%s%llu", comma, (unsigned long long)found[i].unit);
        }
    }
    *drop = vc_text_detach(&texts[0]);
    *why = vc_text_detach(&texts[1]);
    VC_TRY(*drop == NULL || *why == NULL ? VC_E_NOMEM : VC_OK);
out:
    vc_text_release(&texts[0]);
    vc_text_release(&texts[1]);
    vc_free(ctx, found);
    return status;
}
