/* fit_report.c - whether a model fits a device before and after a job, by the job's report. */

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
    return vc_fit_decide(ctx, report, memory, change->gpu->visible_bytes, &own, out);
}

/* The program that usually runs a file of this format with codes in this layout, and what follows from it. */
static void set_program(struct vc_memory_options *memory, const struct vc_layout *layout, const char *format)
{
    enum vc_memory_program program = vc_memory_program(layout, format, memory);

    vc_memory_set_program(memory, program, layout);
    memory->allocator = vc_memory_program_facts(program)->allocator;
}

/* The output. kept: by a program that keeps codes, where the usual one decodes them. */
static enum vc_status decide_after(struct vc_ctx *ctx, const struct vc_report *report, const struct vc_model *model,
                                   const struct vc_graph *graph, const struct vc_fit_options *options,
                                   struct vc_fit_change *change, bool kept, struct vc_fit *out)
{
    const struct vc_layout *layout = report->layouts != NULL ? report->layouts[0] : NULL;
    const char *format = report->output_format != NULL ? report->output_format : vc_model_facts(model)->format;
    struct vc_memory_options memory;
    struct vc_memory_report after;
    struct vc_planned_weights written = {.n = 0};
    struct vc_fit_options own;
    enum vc_status status;

    vc_memory_defaults(&memory);
    vc_fit_defaults(&own);
    own = options != NULL ? *options : own;
    set_program(&memory, layout, format);
    if (memory.program != VC_RUN_BY_LLAMA_CPP &&
        memory.program != VC_RUN_BY_ONNXRUNTIME) { /* these load floats as they are stored */
        memory.weights = vc_written_half_after(report);
    }
    if (memory.weights == VC_DTYPE_NONE && memory.activations == VC_DTYPE_NONE) {
        memory.activations = vc_written_type(report, model);
    }
    if (kept) {
        vc_memory_set_keeper(&memory, layout, &own.ideal);
    } else {
        change->runtime = memory.runtime;
    }
    VC_TRY(vc_written_make(ctx, report, model, &written));
    graph = change->graph_after != NULL ? change->graph_after : graph;
    VC_TRY(vc_memory_estimate_written(ctx, graph, model, &memory, &written, &after));
    if (change->weights_only && memory.runtime == VC_RUNTIME_LAYERWISE) { /* one tensor as floats is there, too */
        after.components[VC_MEMORY_PARAMETERS].bytes += vc_written_largest(&written, memory.weights, memory.allocator);
    }
    VC_TRY(decide(ctx, &after, &memory, &own, change, out));
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
    set_program(&memory, vc_model_layout(model), vc_model_facts(model)->format);
    VC_CALL(vc_memory_estimate(ctx, graph, model, &memory, &counted));
    change->weights_only = counted.unknown != NULL || (options != NULL && options->weights_only);
    VC_CALL(decide(ctx, &counted, &memory, options, change, &change->before));
    VC_CALL(decide_after(ctx, report, model, graph, options, change, true, &change->native));
    return decide_after(ctx, report, model, graph, options, change, false, &change->after);
}
