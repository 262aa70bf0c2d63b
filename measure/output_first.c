/* output_first.c - the first of the runs of a graph: what they have in common, and what the others begin
 * with. See output_runs.h.
 *
 * The first run computes every value that an output depends on. Each is seen once, and is kept if there is
 * room:
 *
 *     kept always       inputs and outputs: what other runs are compared with and begin from
 *     given up first    parameters, the largest first: they can be read again
 *     given up next     results, the largest first, for the sake of smaller ones
 *
 * A small value behind a large one saves as much computing as the large one, so small ones are worth more
 * per byte. */

#include "core/base/clock.h"
#include "measure/graph_inputs.h"
#include "measure/output_parts.h"
#include "passes/graph_params.h"

/* ---- what runs ask for ---- */

bool vc_output_is_float(const struct vc_output_runs *runs, uint32_t k)
{
    return vc_graph_value(runs->graph, vc_graph_param(runs->graph, k)->value)->dtype == VC_DTYPE_F32;
}

/* From the measured model, or from the other one for parameters that it does not have. A parameter may be a
 * part of a tensor, or a transposed one; its place says so. */
enum vc_status vc_output_read_param(struct vc_ctx *ctx, const struct vc_output_runs *runs,
                                    const struct vc_graph_param *param, void *elements)
{
    struct vc_place place = vc_place_of_param(param);
    uint32_t k = vc_graph_value(runs->graph, param->value)->param;
    const struct vc_model *model = runs->tensor_of[k] != VC_NO_TENSOR ? runs->model : runs->other;
    size_t tensor = runs->tensor_of[k];
    enum vc_status status = VC_OK;

    if (tensor == VC_NO_TENSOR) {
        VC_CALL(vc_param_find(ctx, model, param, &tensor));
    }
    status = vc_output_is_float(runs, k) ? vc_place_values(ctx, model, tensor, &place, false, elements)
                                         : vc_place_integers(ctx, model, tensor, &place, elements);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", model->path);
}

/* vc_run_calls.input of the first run; others know their inputs. */
static enum vc_status first_input(struct vc_ctx *ctx, void *user, uint32_t k, struct vc_run_value *value)
{
    const struct vc_output_runs *runs = user;

    return vc_graph_input_value(ctx, runs->graph, runs->arrays, runs->n_arrays, k, false, value);
}

/* The largest value that may be given up, of parameters (`params`) or of results; VC_NO_VALUE: there is
 * none. */
static uint32_t largest_known(const struct vc_output_runs *runs, bool params)
{
    uint32_t n = vc_graph_value_count(runs->graph);
    uint32_t largest = VC_NO_VALUE;

    for (uint32_t v = 0; v < n; v++) {
        if (runs->known[v].data != NULL && !runs->is_kept[v] &&
            (vc_graph_value(runs->graph, v)->kind == VC_VALUE_PARAMETER) == params &&
            (largest == VC_NO_VALUE || runs->known[v].n > runs->known[largest].n)) {
            largest = v;
        }
    }
    return largest;
}

/* Makes room in the budget by giving up values. Parameters are only given up by the first rows, to which
 * they belong. False: everything that is left is smaller than the value, or must stay. */
static bool make_room(struct vc_ctx *ctx, struct vc_output_runs *runs, const struct vc_run_value *value)
{
    while (runs->kept_bytes + vc_output_bytes(value) > runs->budget) {
        uint32_t v = runs->first == NULL ? largest_known(runs, true) : VC_NO_VALUE;

        if (v == VC_NO_VALUE) {
            v = largest_known(runs, false);
            if (v == VC_NO_VALUE || vc_output_bytes(&runs->known[v]) <= vc_output_bytes(value)) {
                return false;
            }
        }
        runs->kept_bytes -= vc_output_bytes(&runs->known[v]);
        vc_free(ctx, vc_give(&runs->known[v].data));
    }
    return true;
}

/* Keeps a copy of the elements. */
static enum vc_status keep(struct vc_ctx *ctx, struct vc_output_runs *runs, uint32_t v, const void *elements)
{
    size_t n_bytes = (size_t)vc_output_bytes(&runs->known[v]);

    VC_CALL_ALLOC(runs->known[v].data = vc_alloc(ctx, VC_TAG_TILES, n_bytes + 1));
    memcpy(runs->known[v].data, elements, n_bytes);
    runs->kept_bytes += n_bytes;
    return VC_OK;
}

/* vc_run_calls.take of the first run: times of all results, and elements of those that fit. The time of a
 * value is what has passed since the one before it was taken; copying is left out. */
static enum vc_status first_take(struct vc_ctx *ctx, void *user, uint32_t v, const struct vc_run_value *value)
{
    struct vc_output_runs *runs = user;

    runs->seconds[v] = vc_seconds() - runs->last;
    if (runs->is_kept[v] || make_room(ctx, runs, value)) {
        VC_CALL(keep(ctx, runs, v, value->data));
    }
    runs->last = vc_seconds();
    return VC_OK;
}

/* vc_run_calls.param of the first run. A parameter is kept only where there is room without giving up
 * anything. */
static enum vc_status first_param(struct vc_ctx *ctx, void *user, const struct vc_graph_param *param, void *elements)
{
    struct vc_output_runs *runs = user;
    uint32_t v = param->value;

    VC_CALL(vc_output_read_param(ctx, runs, param, elements));
    if (runs->first == NULL && runs->kept_bytes + vc_output_bytes(&runs->known[v]) <= runs->budget) {
        VC_CALL(keep(ctx, runs, v, elements));
    }
    return VC_OK;
}

/* ---- the first run ---- */

/* The tensor of each parameter in the measured model. With another model beside it, a name that the
 * measured one does not have is that one's. */
static enum vc_status find_tensors(struct vc_ctx *ctx, struct vc_output_runs *runs)
{
    uint32_t n = vc_graph_param_count(runs->graph);

    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, runs->tensor_of, n + (size_t)1));
    for (uint32_t k = 0; k < n; k++) {
        const struct vc_graph_param *param = vc_graph_param(runs->graph, k);

        runs->tensor_of[k] = VC_NO_TENSOR;
        if (runs->other == NULL || vc_model_find(runs->model, param->tensor) != VC_NO_TENSOR) {
            VC_CALL(vc_param_find(ctx, runs->model, param, &runs->tensor_of[k]));
        }
    }
    return VC_OK;
}

/* The outputs that are compared: floats that the graph computes, each once. Those that are integers, or an
 * input passed on, are left out. */
static enum vc_status find_outputs(struct vc_ctx *ctx, struct vc_output_runs *runs)
{
    uint32_t n = vc_graph_output_count(runs->graph);

    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, runs->outputs, n + (size_t)1));
    for (uint32_t k = 0; k < n; k++) {
        uint32_t v = vc_graph_output(runs->graph, k);

        const struct vc_graph_value *value = vc_graph_value(runs->graph, v);

        if (value->dtype == VC_DTYPE_F32 && value->kind == VC_VALUE_RESULT && !runs->is_kept[v]) {
            runs->outputs[runs->n_outputs++] = v;
            runs->is_kept[v] = true;
        }
    }
    VC_REFUSE_IF(runs->n_outputs == 0, ctx, VC_E_ARGUMENT,
                 "the graph has no outputs that are floats, which could be compared");
    return VC_OK;
}

/* Walks from the outputs back to what they depend on: marks the nodes in `needed` and the values in `used`.
 * Nodes are in an order in which each comes behind what it reads, so one walk from the last to the first is
 * enough. Returns how many of the values are results, in `wanted`. */
static size_t list_wanted(struct vc_output_runs *runs, bool *used, uint32_t *wanted)
{
    const struct vc_graph *graph = runs->graph;
    size_t n = 0;

    for (size_t k = 0; k < runs->n_outputs; k++) {
        used[runs->outputs[k]] = true;
    }
    for (uint32_t k = vc_graph_node_count(graph); k-- > 0;) {
        const struct vc_graph_node *node = vc_graph_node(graph, k);

        for (unsigned i = 0; i < node->n_outputs; i++) {
            runs->needed[k] |= node->outputs[i] != VC_NO_VALUE && used[node->outputs[i]];
        }
        for (unsigned i = 0; runs->needed[k] && i < node->n_inputs; i++) {
            if (node->inputs[i] != VC_NO_VALUE) {
                used[node->inputs[i]] = true;
            }
        }
    }
    for (uint32_t v = 0; v < vc_graph_value_count(graph); v++) {
        if (used[v] && vc_graph_value(graph, v)->kind == VC_VALUE_RESULT) {
            wanted[n++] = v;
        }
    }
    return n;
}

/* Fills in the shapes of all values that are not known, before any of them is there: sizes are bound to
 * those of the inputs by now. What a graph does not tell is empty, with n = 0. */
static void set_shapes(struct vc_output_runs *runs)
{
    for (uint32_t v = 0; v < vc_graph_value_count(runs->graph); v++) {
        const struct vc_graph_value *value = vc_graph_value(runs->graph, v);
        struct vc_run_value *known = &runs->known[v];

        if (known->data != NULL) {
            continue;
        }
        *known = (struct vc_run_value){.n_dims = value->n_dims, .n = 1, .is_real = value->dtype == VC_DTYPE_F32};
        for (unsigned k = 0; k < value->n_dims; k++) {
            int64_t size = vc_graph_dim_value(runs->graph, value->shape[k]);

            known->shape[k] = size < 0 ? 0 : size;
            known->n = vc_mul_size(known->n, (size_t)known->shape[k], &known->n) ? known->n : 0;
        }
    }
}

/* What a run of the plain loops takes at most: the largest sum, over the nodes, of what lives then. Results
 * live from their node to the last one that reads them; parameters only during the nodes that read them.
 *
 *     node         live behind it         at most, with its parameters
 *     conv1        a                      a + w1
 *     relu         a, b                   a + b          then a goes
 *     conv2        b, c                   b + c + w2
 *
 * `left` begins with zeros and counts uses down. */
static uint64_t most_bytes(const struct vc_output_runs *runs, uint32_t *left)
{
    uint64_t live = 0;
    uint64_t most = 0;

    for (uint32_t k = 0; k < vc_graph_node_count(runs->graph); k++) {
        const struct vc_graph_node *node = vc_graph_node(runs->graph, k);

        for (unsigned i = 0; runs->needed[k] && i < node->n_inputs; i++) {
            left[node->inputs[i] == VC_NO_VALUE ? 0 : node->inputs[i]] += node->inputs[i] != VC_NO_VALUE;
        }
    }
    for (uint32_t k = 0; k < vc_graph_node_count(runs->graph); k++) {
        const struct vc_graph_node *node = vc_graph_node(runs->graph, k);
        uint64_t params = 0;

        for (unsigned i = 0; runs->needed[k] && i < node->n_inputs; i++) {
            uint32_t v = node->inputs[i];

            params += v != VC_NO_VALUE && vc_graph_value(runs->graph, v)->node == VC_NO_NODE
                          ? vc_output_bytes(&runs->known[v])
                          : 0;
        }
        for (unsigned i = 0; runs->needed[k] && i < node->n_outputs; i++) {
            live += node->outputs[i] != VC_NO_VALUE ? vc_output_bytes(&runs->known[node->outputs[i]]) : 0;
        }
        most = vc_max_u64(most, live + params);
        for (unsigned i = 0; runs->needed[k] && i < node->n_inputs; i++) {
            uint32_t v = node->inputs[i];

            if (v != VC_NO_VALUE && --left[v] == 0 && vc_graph_value(runs->graph, v)->node != VC_NO_NODE) {
                live -= vc_min_u64(live, vc_output_bytes(&runs->known[v]));
            }
        }
    }
    return most;
}

/* A program for the first run, if the engine has one for the graph and the memory limit room for it. *out
 * is NULL where the plain loops have to run; then `plain` is set for all later runs. Where the first rows
 * are plain, so are all others. The budget shrinks where the program needs more than what was left for it. */
static enum vc_status make_first(struct vc_ctx *ctx, struct vc_output_runs *runs, const struct vc_run_value *feeds,
                                 struct vc_answers **out)
{
    const struct vc_answers_options options = {
        .feeds = feeds, .wanted = runs->outputs, .n_wanted = runs->n_outputs, .every = true, .threads = 1};
    uint64_t limit = vc_ctx_max_memory(ctx);
    enum vc_status status = VC_E_UNSUPPORTED;

    *out = NULL;
    if (!runs->plain && (runs->first == NULL || !runs->first->plain)) {
        status = vc_answers_make(ctx, runs->graph, &options, out);
    }
    uint64_t left = limit - vc_min_u64(limit, vc_pool_in_use(ctx->shared->pool));
    if (status == VC_OK && vc_answers_bytes(*out) > left) {
        vc_answers_free(*out);
        *out = NULL;
        status = VC_E_UNSUPPORTED;
    }
    if (status == VC_OK) {
        runs->run_bytes = vc_answers_bytes(*out);
        runs->budget = vc_min_u64(runs->budget, runs->kept_bytes + left - runs->run_bytes);
    }
    runs->plain = status == VC_E_UNSUPPORTED;
    return runs->plain ? VC_OK : status;
}

/* Inputs, and parameters that the first rows have read, are known before the run. */
static void begin_known(struct vc_output_runs *runs)
{
    for (uint32_t v = 0; v < vc_graph_value_count(runs->graph); v++) {
        enum vc_value_kind kind = vc_graph_value(runs->graph, v)->kind;

        if (kind == VC_VALUE_INPUT && runs->known[v].data != NULL) {
            runs->is_kept[v] = true;
            runs->kept_bytes += vc_output_bytes(&runs->known[v]);
        } else if (kind == VC_VALUE_PARAMETER && runs->first != NULL) {
            runs->known[v] = runs->first->known[v];
        }
    }
}

/* The first run of one batch: reads the inputs, binds the sizes, and computes what is wanted, on the engine
 * or by the plain loops. */
static enum vc_status compute_first(struct vc_ctx *ctx, struct vc_output_runs *runs)
{
    uint32_t n_values = vc_graph_value_count(runs->graph);
    struct vc_run_calls calls = {.user = runs, .param = first_param, .input = first_input, .take = first_take};
    struct vc_run_value *feeds = vc_calloc_array(ctx, VC_TAG_MISC, n_values + (size_t)1, sizeof *feeds);
    bool *used = vc_calloc_array(ctx, VC_TAG_MISC, n_values + (size_t)1, sizeof *used);
    uint32_t *wanted = vc_calloc_array(ctx, VC_TAG_MISC, n_values + (size_t)1, sizeof *wanted);
    uint32_t *left = vc_calloc_array(ctx, VC_TAG_MISC, n_values + (size_t)1, sizeof *left);
    struct vc_answers *program = NULL;
    enum vc_status status = VC_OK;

    VC_TRY(feeds == NULL || used == NULL || wanted == NULL || left == NULL ? VC_E_NOMEM : VC_OK);
    VC_TRY(
        vc_graph_read_inputs(ctx, runs->graph, VC_PRECISION_F32, &calls, runs->outputs, runs->n_outputs, runs->known));
    begin_known(runs);
    set_shapes(runs);
    size_t n = list_wanted(runs, used, wanted);
    memcpy(feeds, runs->known, n_values * sizeof *feeds);
    VC_TRY(make_first(ctx, runs, feeds, &program));
    runs->last = vc_seconds();
    if (runs->plain) {
        VC_TRY(vc_graph_forward_from(ctx, runs->graph, VC_PRECISION_F32, &calls, feeds, wanted, n));
        runs->run_bytes = most_bytes(runs, left);
    } else {
        VC_TRY(vc_answers_run(program, &calls, NULL));
    }
out:
    vc_answers_free(program);
    VC_FREE_ALL(ctx, feeds, used, wanted, left);
    return status;
}

/* After the run, the squares of all outputs are summed: errors of later runs are told relative to their
 * root. */
enum vc_status vc_output_runs_begin(struct vc_ctx *ctx, struct vc_output_runs *runs)
{
    size_t n_values = vc_graph_value_count(runs->graph) + (size_t)1;

    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, runs->needed, vc_graph_node_count(runs->graph) + (size_t)1));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, runs->known, n_values));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, runs->seconds, n_values));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, runs->is_kept, n_values));
    VC_CALL(find_tensors(ctx, runs));
    VC_CALL(find_outputs(ctx, runs));
    VC_CALL(compute_first(ctx, runs));
    for (size_t k = 0; k < runs->n_outputs; k++) {
        const struct vc_run_value *output = &runs->known[runs->outputs[k]];

        for (size_t i = 0; i < output->n; i++) {
            runs->norm2 += (double)((const float *)output->data)[i] * (double)((const float *)output->data)[i];
        }
    }
    return VC_OK;
}

/* Frees one batch. Parameters belong to the first one, and the others only point to them. */
static void end_one(struct vc_ctx *ctx, struct vc_output_runs *runs)
{
    for (uint32_t v = 0; runs->known != NULL && v < vc_graph_value_count(runs->graph); v++) {
        if (runs->first == NULL || vc_graph_value(runs->graph, v)->kind != VC_VALUE_PARAMETER) {
            vc_free(ctx, runs->known[v].data);
        }
    }
    VC_FREE_ALL(ctx, runs->tensor_of, runs->needed, runs->known, runs->seconds, runs->is_kept, runs->outputs);
}

void vc_output_runs_end(struct vc_ctx *ctx, struct vc_output_runs *runs)
{
    for (struct vc_output_runs *part = runs; part != NULL; part = part->next) {
        end_one(ctx, part);
    }
}
