/* graph_run.c - vc_graph_run: a graph with the parameters of a model and the arrays of a program, in f32 on the engine,
 * in f64 by the plain loops of graph/. */

#include "measure/graph_run.h"
#include "core/base/option_struct.h"
#include "engine/answers/answers.h"
#include "kernels/kernels.h"
#include "measure/graph_inputs.h"
#include "passes/graph_params.h"

/* One call, as the functions below get it. */
struct graph_run {
    struct vc_graph *graph;
    const struct vc_model *model;
    const struct vc_graph_array *inputs;
    size_t n_inputs;
    struct vc_graph_run_options options;
    struct vc_answers_series **series; /* of the runs that this is one of; NULL: of none */
};

/* ---- what the forward pass asks for ---- */

/* vc_run_calls.param: from the model, or from the weights beside it for parameters that are theirs. */
static enum vc_status feed_param(struct vc_ctx *ctx, void *user, const struct vc_graph_param *param, void *elements)
{
    const struct graph_run *run = user;
    const struct vc_model *model = param->from_weights ? run->options.weights : run->model;

    return vc_param_read(ctx, model, param, run->graph->values[param->value].dtype == VC_DTYPE_I64,
                         run->options.precision == VC_GRAPH_F64, elements);
}

/* vc_run_calls.input: from the arrays of the caller. */
static enum vc_status feed_input(struct vc_ctx *ctx, void *user, uint32_t k, struct vc_run_value *value)
{
    const struct graph_run *run = user;

    return vc_graph_input_value(ctx, run->graph, run->inputs, run->n_inputs, k, run->options.precision == VC_GRAPH_F64,
                                value);
}

/* vc_run_calls.take: passes a value to the caller as an array. Runs compute truths as 64-bit integers; the
 * caller gets bytes. The array is valid during the call only. */
static enum vc_status feed_take(struct vc_ctx *ctx, void *user, uint32_t value, const struct vc_run_value *elements)
{
    const struct graph_run *run = user;
    const struct vc_graph_value *v = vc_graph_value(run->graph, value);
    uint64_t shape[VC_GRAPH_MAX_DIMS];
    struct vc_graph_array array = {.name = v->name,
                                   .dtype = elements->is_real && run->options.precision == VC_GRAPH_F64 ? VC_DTYPE_F64
                                                                                                        : v->dtype,
                                   .n_dims = elements->n_dims,
                                   .shape = shape,
                                   .n_elems = elements->n,
                                   .data = elements->data};
    VC_SCOPED uint8_t *truths = NULL;

    for (unsigned k = 0; k < elements->n_dims; k++) {
        shape[k] = (uint64_t)elements->shape[k];
    }
    if (v->dtype == VC_DTYPE_BOOL) {
        VC_CALL_ALLOC(truths = vc_alloc(ctx, VC_TAG_TILES, elements->n + 1));
        for (size_t i = 0; i < elements->n; i++) {
            truths[i] = ((const int64_t *)elements->data)[i] != 0;
        }
        array.data = truths;
    }
    enum vc_status taken = run->options.take(run->options.user, &array);
    VC_REFUSE_IF(taken != VC_OK, ctx, taken, "the value '%s' was not taken", v->name);
    return VC_OK;
}

/* ---- the call ---- */

/* The values that are asked for by name, or all outputs. */
static enum vc_status find_values(struct vc_ctx *ctx, const struct graph_run *run, uint32_t *wanted, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        wanted[k] = run->options.n_values == 0 ? vc_graph_output(run->graph, (uint32_t)k)
                                               : vc_graph_find(run->graph, run->options.values[k]);
        VC_REFUSE_IF(wanted[k] == VC_NO_VALUE, ctx, VC_E_ARGUMENT, "the graph has no value '%s'",
                     run->options.values[k]);
    }
    return VC_OK;
}

/* In f32, on the engine. A series keeps its program for the next run with the same sizes. */
static enum vc_status answer(struct vc_ctx *ctx, const struct graph_run *run, const struct vc_run_calls *calls,
                             const uint32_t *wanted, size_t n)
{
    if (run->series == NULL) {
        return vc_answers_forward(ctx, run->graph, calls, wanted, n);
    }
    if (*run->series == NULL) {
        VC_CALL(vc_answers_series_make(ctx, run->graph, wanted, n, true, run->series));
    }
    return vc_answers_series_run(*run->series, calls);
}

/* One run. The model must not have changed while its parameters were read. */
static enum vc_status run_graph(struct vc_ctx *ctx, struct graph_run *run)
{
    size_t n = run->options.n_values == 0 ? vc_graph_output_count(run->graph) : run->options.n_values;
    VC_SCOPED uint32_t *wanted = vc_alloc_array(ctx, VC_TAG_MISC, n + 1, sizeof *wanted);
    struct vc_run_calls calls = {.user = run, .param = feed_param, .input = feed_input, .take = feed_take};

    VC_CALL_ALLOC(wanted);
    VC_CALL_FOUND(ctx, vc_kernels_get(ctx));
    VC_CALL(find_values(ctx, run, wanted, n));
    enum vc_status ran = run->options.precision == VC_GRAPH_F64
                             ? vc_graph_forward(ctx, run->graph, VC_PRECISION_F64, &calls, wanted, n)
                             : answer(ctx, run, &calls, wanted, n);
    return run->model != NULL ? vc_model_unchanged(ctx, run->model, ran) : ran;
}

/* The same with programs that stay from one call to the next (*series, which the caller frees). */
enum vc_status vc_graph_run_in_series(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                      const struct vc_graph_array *inputs, size_t n_inputs,
                                      const struct vc_graph_run_options *options, struct vc_answers_series **series)
{
    struct graph_run run = {.graph = graph, .model = model, .inputs = inputs, .n_inputs = n_inputs, .series = series};

    VC_CALL(vc_options_read(ctx, VC_OPTIONS(graph_run), options, &run.options));
    VC_REFUSE_IF(run.options.take == NULL || run.options.precision > VC_GRAPH_F64, ctx, VC_E_ARGUMENT,
                 run.options.take == NULL ? "there is no function that takes the values"
                                          : "there is no such precision");
    return run_graph(ctx, &run);
}

enum vc_status vc_graph_run(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                            const struct vc_graph_array *inputs, size_t n_inputs,
                            const struct vc_graph_run_options *options)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, vc_graph_run_in_series(ctx, graph, model, inputs, n_inputs, options, NULL));
}
