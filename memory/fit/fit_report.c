/* fit_report.c - whether a model fits a device before and after a job, by the job's report. */
#include <string.h>

#include "core/base/ctx.h"
#include "memory/written.h"

/* Of what was counted; weights alone where no more is known. */
static enum vc_status decide(struct vc_ctx *ctx, const struct vc_memory_report *report,
                             const struct vc_memory_options *memory, const struct vc_fit_options *options,
                             const struct vc_fit_change *change, struct vc_fit *out)
{
    struct vc_fit_options own;

    if (options != NULL) {
        own = *options;
    } else {
        vc_fit_defaults(&own);
    }
    own.weights_only = own.weights_only || change->weights_only;
    return vc_fit_decide(ctx, report, memory, vc_gpu_visible_bytes(change->gpu, NULL), &own, out);
}

/* The output, whose codes are loaded in that way. */
static enum vc_status decide_after(struct vc_ctx *ctx, const struct vc_report *report, const struct vc_model *model,
                                   const struct vc_graph *graph, const struct vc_memory_options *memory,
                                   const struct vc_fit_options *options, struct vc_fit_change *change,
                                   enum vc_runtime runtime, struct vc_fit *out)
{
    struct vc_memory_options own = *memory;
    struct vc_memory_report after;
    struct vc_planned_weights written = {.n = 0};
    enum vc_status status;

    own.runtime = runtime;
    if (runtime == change->runtime && report->layouts != NULL && report->layouts[0] != NULL &&
        strcmp(report->layouts[0]->name, "bitsandbytes") == 0) {
        own.program = VC_RUN_BY_BITSANDBYTES;
    }
    VC_TRY(vc_written_make(ctx, report, model, &written));
    VC_TRY(vc_memory_estimate_written(ctx, graph, model, &own, &written, &after));
    if (change->weights_only && runtime == VC_RUNTIME_LAYERWISE) { /* one tensor as floats is there, too */
        after.components[VC_MEMORY_PARAMETERS].bytes += vc_written_largest(&written, own.weights, own.allocator);
    }
    VC_TRY(decide(ctx, &after, &own, options, change, out));
out:
    vc_written_release(ctx, &written);
    return status;
}

enum vc_status vc_fit_of_report(struct vc_ctx *ctx, const struct vc_report *report, const struct vc_model *model,
                                const struct vc_graph *graph, const struct vc_fit_options *options,
                                struct vc_fit_change *change)
{
    struct vc_memory_options memory;
    struct vc_memory_report counted;

    vc_clear_error(ctx);
    vc_memory_defaults(&memory);
    memory.allocator = VC_ALLOCATOR_PYTORCH;
    memory.runtime = vc_memory_runtime(vc_model_layout(model));
    VC_CALL(vc_memory_estimate(ctx, graph, model, &memory, &counted));
    change->weights_only = counted.unknown != NULL;
    VC_CALL(decide(ctx, &counted, &memory, options, change, &change->before));
    memory.weights = vc_written_half_after(report);
    memory.activations = memory.weights == VC_DTYPE_NONE ? vc_written_type(report) : VC_DTYPE_NONE;
    change->runtime = vc_memory_runtime(report->layouts != NULL ? report->layouts[0] : NULL);
    VC_CALL(decide_after(ctx, report, model, graph, &memory, options, change, change->runtime, &change->after));
    return decide_after(ctx, report, model, graph, &memory, options, change, VC_RUNTIME_NATIVE, &change->native);
}
