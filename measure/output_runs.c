/* output_runs.c - see output_runs.h. */
#include "measure/output_runs.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "core/base/checked.h"
#include "measure/graph_inputs.h"
#include "passes/graph_params.h"

/* A run with changes. */
struct run {
    const struct vc_output_runs *runs;
    const struct vc_changed_tensor *changed;
    size_t n_changed;
    double error2;          /* of the outputs */
    uint64_t n_rows, other; /* of the first output, and those whose largest entry is another one */
    float *copy;            /* of a value that is asked for */
};

static double now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t bytes_of(const struct vc_run_value *value)
{
    return (uint64_t)value->n * (value->is_real ? sizeof(float) : sizeof(int64_t));
}

/* ---- what runs ask for ---- */

/* Others are codes of weights, which the graph decodes itself. */
static bool is_float(const struct vc_output_runs *runs, uint32_t k)
{
    return vc_graph_value(runs->graph, vc_graph_param(runs->graph, k)->value)->dtype == VC_DTYPE_F32;
}

/* The elements of a parameter as the models have them. */
static enum vc_status read_param(struct vc_ctx *ctx, const struct vc_output_runs *runs,
                                 const struct vc_graph_param *param, void *elements)
{
    struct vc_place place = vc_place_of_param(param);
    uint32_t k = vc_graph_value(runs->graph, param->value)->param;
    const struct vc_model *model = runs->tensor_of[k] != VC_NO_TENSOR ? runs->model : runs->other;
    size_t tensor = runs->tensor_of[k];
    enum vc_status status = VC_OK;

    VC_TRY(tensor == VC_NO_TENSOR ? vc_param_find(ctx, model, param, &tensor) : VC_OK);
    status = is_float(runs, k) ? vc_place_values(ctx, model, tensor, &place, false, elements)
                               : vc_place_integers(ctx, model, tensor, &place, elements);
    if (status != VC_OK) {
        status = vc_context(ctx, "%s", model->path);
    }
out:
    return status;
}

/* vc_run_feed.param of the first run */
static enum vc_status first_param(struct vc_ctx *ctx, void *user, const struct vc_graph_param *param, void *elements)
{
    return read_param(ctx, user, param, elements);
}

/* vc_run_feed.input of the first run; others know their inputs. */
static enum vc_status first_input(struct vc_ctx *ctx, void *user, uint32_t k, struct vc_run_value *value)
{
    const struct vc_output_runs *runs = user;

    return vc_graph_input_value(ctx, runs->graph, runs->arrays, runs->n_arrays, k, false, value);
}

/* The largest value that may be given up; VC_NO_VALUE: there is none. */
static uint32_t largest_known(const struct vc_output_runs *runs)
{
    uint32_t n = vc_graph_value_count(runs->graph);
    uint32_t largest = VC_NO_VALUE;

    for (uint32_t v = 0; v < n; v++) {
        if (runs->known[v].data != NULL && !runs->is_kept[v] &&
            (largest == VC_NO_VALUE || runs->known[v].n > runs->known[largest].n)) {
            largest = v;
        }
    }
    return largest;
}

/* Room in the budget, by giving up values that are larger: those are few, and are computed again from their inputs. */
static bool make_room(struct vc_ctx *ctx, struct vc_output_runs *runs, const struct vc_run_value *value)
{
    while (runs->kept_bytes + bytes_of(value) > runs->budget) {
        uint32_t v = largest_known(runs);

        if (v == VC_NO_VALUE || bytes_of(&runs->known[v]) <= bytes_of(value)) {
            return false;
        }
        runs->kept_bytes -= bytes_of(&runs->known[v]);
        vc_free(ctx, runs->known[v].data);
        runs->known[v].data = NULL;
    }
    return true;
}

/* vc_run_feed.take of the first run: shapes and times of all values, and elements of those that fit. */
static enum vc_status first_take(struct vc_ctx *ctx, void *user, uint32_t v, const struct vc_run_value *value)
{
    struct vc_output_runs *runs = user;
    size_t n_bytes = (size_t)bytes_of(value);
    enum vc_status status = VC_OK;

    runs->seconds[v] = now() - runs->last;
    runs->known[v] = *value;
    runs->known[v].data = NULL;
    if (runs->is_kept[v] || make_room(ctx, runs, value)) {
        runs->known[v].data = vc_alloc(ctx, VC_TAG_TILES, n_bytes + 1);
        VC_TRY_ALLOC(runs->known[v].data);
        memcpy(runs->known[v].data, value->data, n_bytes);
        runs->kept_bytes += n_bytes;
    }
    runs->last = now();
out:
    return status;
}

/* vc_run_feed.param of the others */
static enum vc_status next_param(struct vc_ctx *ctx, void *user, const struct vc_graph_param *param, void *elements)
{
    const struct run *run = user;
    uint32_t k = vc_graph_value(run->runs->graph, param->value)->param;

    for (size_t i = 0; i < run->n_changed; i++) {
        if (run->changed[i].tensor == run->runs->tensor_of[k] && is_float(run->runs, k)) {
            struct vc_place place = vc_place_of_param(param);

            vc_place_floats(&place, run->changed[i].values, run->changed[i].n, elements);
            return VC_OK;
        }
    }
    return read_param(ctx, run->runs, param, elements);
}

/* vc_run_feed.input of the others: the first run has filled in what may be left out. */
static enum vc_status no_input(struct vc_ctx *ctx, void *user, uint32_t k, struct vc_run_value *value)
{
    (void)user;
    (void)k;
    (void)value;
    return vc_fail(ctx, VC_E_INTERNAL, "a run with changes asks for an input");
}

/* The first of the largest entries. */
static size_t largest_entry(const float *row, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++) {
        best = row[i] > row[best] ? i : best;
    }
    return best;
}

/* Adds what output `v` of the first run has become. */
static void compare(struct run *run, uint32_t v, const struct vc_run_value *value)
{
    const float *was = run->runs->known[v].data;
    const float *is = value->data;
    size_t length = value->n_dims == 0 ? 1 : (size_t)value->shape[value->n_dims - 1];

    for (size_t i = 0; i < value->n; i++) {
        double e = (double)is[i] - (double)was[i];

        run->error2 += e * e;
    }
    for (size_t i = 0; v == run->runs->outputs[0] && length > 1 && i + length <= value->n; i += length) {
        run->n_rows++;
        run->other += largest_entry(is + i, length) != largest_entry(was + i, length);
    }
}

/* vc_run_feed.take of the others: an output, against that of the first run. */
static enum vc_status next_take(struct vc_ctx *ctx, void *user, uint32_t v, const struct vc_run_value *value)
{
    (void)ctx;
    compare(user, v, value);
    return VC_OK;
}

/* ---- the first run ---- */

static enum vc_status find_tensors(struct vc_ctx *ctx, struct vc_output_runs *runs)
{
    uint32_t n = vc_graph_param_count(runs->graph);
    enum vc_status status = VC_OK;

    runs->tensor_of = vc_alloc_array(ctx, VC_TAG_MISC, n + (size_t)1, sizeof *runs->tensor_of);
    VC_TRY_ALLOC(runs->tensor_of);
    for (uint32_t k = 0; k < n; k++) {
        const struct vc_graph_param *param = vc_graph_param(runs->graph, k);

        runs->tensor_of[k] = VC_NO_TENSOR;
        if (runs->other == NULL || vc_model_find(runs->model, param->tensor) != VC_NO_TENSOR) {
            VC_TRY(vc_param_find(ctx, runs->model, param, &runs->tensor_of[k]));
        }
    }
out:
    return status;
}

static enum vc_status find_outputs(struct vc_ctx *ctx, struct vc_output_runs *runs)
{
    uint32_t n = vc_graph_output_count(runs->graph);
    enum vc_status status = VC_OK;

    runs->outputs = vc_alloc_array(ctx, VC_TAG_MISC, n + (size_t)1, sizeof *runs->outputs);
    VC_TRY_ALLOC(runs->outputs);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t v = vc_graph_output(runs->graph, k);

        const struct vc_graph_value *value = vc_graph_value(runs->graph, v);

        if (value->dtype == VC_DTYPE_F32 && value->kind == VC_VALUE_RESULT && !runs->is_kept[v]) {
            runs->outputs[runs->n_outputs++] = v;
            runs->is_kept[v] = true;
        }
    }
    if (runs->n_outputs == 0) {
        status = vc_fail(ctx, VC_E_ARGUMENT, "the graph has no outputs that are floats, which could be compared");
    }
out:
    return status;
}

/* The values that the first run hands over: inputs and results that the outputs depend on. */
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
        enum vc_value_kind kind = vc_graph_value(graph, v)->kind;

        if (used[v] && (kind == VC_VALUE_RESULT || kind == VC_VALUE_INPUT)) {
            wanted[n++] = v;
            runs->is_kept[v] |= kind == VC_VALUE_INPUT;
        }
    }
    return n;
}

/* Bytes of a value that is loaded or made in a run. */
static uint64_t run_bytes_of(const struct vc_output_runs *runs, uint32_t v)
{
    const struct vc_graph_value *value = vc_graph_value(runs->graph, v);
    uint64_t n = 1;

    if (value->kind == VC_VALUE_RESULT || value->kind == VC_VALUE_INPUT) {
        return bytes_of(&runs->known[v]);
    }
    for (unsigned k = 0; k < value->n_dims; k++) {
        n *= (uint64_t)value->shape[k].size;
    }
    return n * (value->dtype == VC_DTYPE_F32 ? sizeof(float) : sizeof(int64_t));
}

/* What a run takes at most: values live from their node to the last one that reads them. `left` counts uses down. */
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

            params +=
                v != VC_NO_VALUE && vc_graph_value(runs->graph, v)->node == VC_NO_NODE ? run_bytes_of(runs, v) : 0;
        }
        for (unsigned i = 0; runs->needed[k] && i < node->n_outputs; i++) {
            live += node->outputs[i] != VC_NO_VALUE ? run_bytes_of(runs, node->outputs[i]) : 0;
        }
        most = vc_max_u64(most, live + params);
        for (unsigned i = 0; runs->needed[k] && i < node->n_inputs; i++) {
            uint32_t v = node->inputs[i];

            if (v != VC_NO_VALUE && --left[v] == 0 && vc_graph_value(runs->graph, v)->node != VC_NO_NODE) {
                live -= vc_min_u64(live, run_bytes_of(runs, v));
            }
        }
    }
    return most;
}

static enum vc_status compute_first(struct vc_ctx *ctx, struct vc_output_runs *runs)
{
    uint32_t n_values = vc_graph_value_count(runs->graph);
    struct vc_run_feed feed = {.user = runs, .param = first_param, .input = first_input, .take = first_take};
    bool *used = vc_calloc_array(ctx, VC_TAG_MISC, n_values + (size_t)1, sizeof *used);
    uint32_t *wanted = vc_calloc_array(ctx, VC_TAG_MISC, n_values + (size_t)1, sizeof *wanted);
    uint32_t *left = vc_calloc_array(ctx, VC_TAG_MISC, n_values + (size_t)1, sizeof *left);
    size_t n;
    enum vc_status status = VC_OK;

    VC_TRY(used == NULL || wanted == NULL || left == NULL ? VC_E_NOMEM : VC_OK);
    n = list_wanted(runs, used, wanted);
    runs->last = now();
    VC_TRY(vc_graph_forward(ctx, runs->graph, VC_PRECISION_F32, &feed, wanted, n));
    runs->run_bytes = most_bytes(runs, left);
out:
    vc_free(ctx, used);
    vc_free(ctx, wanted);
    vc_free(ctx, left);
    return status;
}

enum vc_status vc_output_runs_begin(struct vc_ctx *ctx, struct vc_output_runs *runs)
{
    size_t n_values = vc_graph_value_count(runs->graph) + (size_t)1;
    enum vc_status status;

    runs->needed =
        vc_calloc_array(ctx, VC_TAG_MISC, vc_graph_node_count(runs->graph) + (size_t)1, sizeof *runs->needed);
    VC_TRY_ALLOC(runs->needed);
    runs->known = vc_calloc_array(ctx, VC_TAG_MISC, n_values, sizeof *runs->known);
    VC_TRY_ALLOC(runs->known);
    runs->seconds = vc_calloc_array(ctx, VC_TAG_MISC, n_values, sizeof *runs->seconds);
    VC_TRY_ALLOC(runs->seconds);
    runs->is_kept = vc_calloc_array(ctx, VC_TAG_MISC, n_values, sizeof *runs->is_kept);
    VC_TRY_ALLOC(runs->is_kept);
    VC_TRY(find_tensors(ctx, runs));
    VC_TRY(find_outputs(ctx, runs));
    VC_TRY(compute_first(ctx, runs));
    for (size_t k = 0; k < runs->n_outputs; k++) {
        const struct vc_run_value *output = &runs->known[runs->outputs[k]];

        for (size_t i = 0; i < output->n; i++) {
            runs->norm2 += (double)((const float *)output->data)[i] * (double)((const float *)output->data)[i];
        }
    }
out:
    return status;
}

static void end_one(struct vc_ctx *ctx, struct vc_output_runs *runs)
{
    for (uint32_t v = 0; runs->known != NULL && v < vc_graph_value_count(runs->graph); v++) {
        vc_free(ctx, runs->known[v].data);
    }
    vc_free(ctx, runs->tensor_of);
    vc_free(ctx, runs->needed);
    vc_free(ctx, runs->known);
    vc_free(ctx, runs->seconds);
    vc_free(ctx, runs->is_kept);
    vc_free(ctx, runs->outputs);
}

void vc_output_runs_end(struct vc_ctx *ctx, struct vc_output_runs *runs)
{
    for (struct vc_output_runs *part = runs; part != NULL; part = part->next) {
        end_one(ctx, part);
    }
}

/* ---- runs with changes ---- */

bool vc_output_runs_use(const struct vc_output_runs *runs, size_t tensor)
{
    for (uint32_t k = 0; k < vc_graph_param_count(runs->graph); k++) {
        if (runs->tensor_of[k] == tensor && is_float(runs, k)) {
            return true;
        }
    }
    return false;
}

/* Marks the parameters that are made of the tensors. */
static void mark_changed(const struct vc_output_runs *runs, const struct vc_changed_tensor *changed, size_t n,
                         bool *reached)
{
    for (uint32_t k = 0; k < vc_graph_param_count(runs->graph); k++) {
        for (size_t i = 0; i < n; i++) {
            reached[vc_graph_param(runs->graph, k)->value] |= runs->tensor_of[k] == changed[i].tensor;
        }
    }
}

static bool reads_marked(const struct vc_graph_node *node, const bool *reached)
{
    for (unsigned i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] != VC_NO_VALUE && reached[node->inputs[i]]) {
            return true;
        }
    }
    return false;
}

static void mark_outputs(const struct vc_graph_node *node, bool *reached)
{
    for (unsigned i = 0; i < node->n_outputs; i++) {
        if (node->outputs[i] != VC_NO_VALUE) {
            reached[node->outputs[i]] = true;
        }
    }
}

/* Marks the values behind those that are marked. */
static void mark_behind(const struct vc_output_runs *runs, bool *reached)
{
    for (uint32_t k = 0; k < vc_graph_node_count(runs->graph); k++) {
        const struct vc_graph_node *node = vc_graph_node(runs->graph, k);

        if (reads_marked(node, reached)) {
            mark_outputs(node, reached);
        }
    }
}

double vc_output_runs_seconds(struct vc_ctx *ctx, const struct vc_output_runs *runs,
                              const struct vc_changed_tensor *changed, size_t n)
{
    uint32_t n_values = vc_graph_value_count(runs->graph);
    bool *reached = vc_calloc_array(ctx, VC_TAG_MISC, n_values + (size_t)1, sizeof *reached);
    double seconds = 0.0;

    if (reached == NULL) {
        return -1.0;
    }
    mark_changed(runs, changed, n, reached);
    mark_behind(runs, reached);
    for (const struct vc_output_runs *part = runs; part != NULL; part = part->next) {
        for (uint32_t v = 0; v < n_values; v++) {
            seconds += reached[v] ? part->seconds[v] : 0.0;
        }
    }
    vc_free(ctx, reached);
    return seconds;
}

static struct vc_output_change judge(const struct vc_output_runs *runs, const struct run *run)
{
    struct vc_output_change change = {.answers = (double)NAN};
    double norm2 = 0.0;

    for (const struct vc_output_runs *part = runs; part != NULL; part = part->next) {
        norm2 += part->norm2;
    }
    if (norm2 == 0.0 || !isfinite(norm2)) {
        return (struct vc_output_change){.reason = norm2 == 0.0 ? "all outputs are zero" : "outputs are not finite"};
    }
    change.relative = isfinite(run->error2) ? sqrt(run->error2 / norm2) : (double)INFINITY;
    if (run->n_rows != 0) {
        change.answers = (double)run->other / (double)run->n_rows;
    }
    return change;
}

/* What is known of the first run, without what is reached. */
static void give_known(const struct vc_output_runs *runs, const bool *reached, struct vc_run_value *given)
{
    for (uint32_t v = 0; v < vc_graph_value_count(runs->graph); v++) {
        given[v] = runs->known[v];
        given[v].data = reached[v] ? NULL : given[v].data;
    }
}

enum vc_status vc_output_runs_run(struct vc_ctx *ctx, const struct vc_output_runs *runs,
                                  const struct vc_changed_tensor *changed, size_t n, struct vc_output_change *out)
{
    uint32_t n_values = vc_graph_value_count(runs->graph);
    struct run run = {.changed = changed, .n_changed = n};
    struct vc_run_feed feed = {.user = &run, .param = next_param, .input = no_input, .take = next_take};
    struct vc_run_value *given = vc_alloc_array(ctx, VC_TAG_MISC, n_values + (size_t)1, sizeof *given);
    bool *reached = vc_calloc_array(ctx, VC_TAG_MISC, n_values + (size_t)1, sizeof *reached);
    enum vc_status status = VC_OK;

    VC_TRY(given == NULL || reached == NULL ? VC_E_NOMEM : VC_OK);
    mark_changed(runs, changed, n, reached);
    mark_behind(runs, reached);
    for (run.runs = runs; run.runs != NULL; run.runs = run.runs->next) {
        give_known(run.runs, reached, given);
        VC_TRY(vc_graph_forward_from(ctx, runs->graph, VC_PRECISION_F32, &feed, given, runs->outputs, runs->n_outputs));
    }
    *out = judge(runs, &run);
out:
    vc_free(ctx, given);
    vc_free(ctx, reached);
    return status;
}

/* ---- runs in which some units are not chosen ---- */

static uint32_t find_scores(const struct vc_output_runs *runs, uint64_t n, bool *reached)
{
    for (uint32_t k = 0; k < vc_graph_node_count(runs->graph); k++) {
        const struct vc_graph_node *node = vc_graph_node(runs->graph, k);
        bool chooses = strcmp(node->op, "Softmax") == 0 || strcmp(node->op, "TopK") == 0;
        uint32_t v = node->n_inputs != 0 ? node->inputs[0] : VC_NO_VALUE;

        if (!runs->needed[k] || !reads_marked(node, reached)) {
            continue;
        }
        if (!chooses) {
            mark_outputs(node, reached);
        } else if (v != VC_NO_VALUE && reached[v]) {
            const struct vc_run_value *scores = &runs->known[v];
            bool fits = scores->is_real && scores->n_dims != 0 && scores->shape[scores->n_dims - 1] == (int64_t)n;

            return fits ? v : VC_NO_VALUE;
        }
    }
    return VC_NO_VALUE;
}

uint32_t vc_output_runs_scores(struct vc_ctx *ctx, const struct vc_output_runs *runs, size_t tensor, uint64_t n)
{
    const struct vc_changed_tensor changed = {.tensor = tensor};
    bool *reached = vc_calloc_array(ctx, VC_TAG_MISC, vc_graph_value_count(runs->graph) + (size_t)1, sizeof *reached);
    uint32_t scores = VC_NO_VALUE;

    if (reached != NULL) {
        mark_changed(runs, &changed, 1, reached);
        scores = find_scores(runs, n, reached);
    }
    vc_free(ctx, reached);
    return scores;
}

/* vc_run_feed.take: the elements of one value. */
static enum vc_status copy_take(struct vc_ctx *ctx, void *user, uint32_t v, const struct vc_run_value *value)
{
    (void)ctx;
    (void)v;
    memcpy(((struct run *)user)->copy, value->data, (size_t)bytes_of(value));
    return VC_OK;
}

/* The scores of one part with -infinity for those that go, and the run behind them. */
static enum vc_status bar_part(struct vc_ctx *ctx, struct run *run, uint32_t scores, const bool *goes, uint64_t n,
                               const bool *reached, struct vc_run_value *given)
{
    const struct vc_output_runs *runs = run->runs;
    struct vc_run_feed feed = {.user = run, .param = next_param, .input = no_input, .take = copy_take};
    const struct vc_run_value *known = &runs->known[scores];
    enum vc_status status = VC_OK;

    if (known->data != NULL) {
        memcpy(run->copy, known->data, (size_t)bytes_of(known));
    } else {
        VC_TRY(vc_graph_forward_from(ctx, runs->graph, VC_PRECISION_F32, &feed, runs->known, &scores, 1));
    }
    for (size_t i = 0; i < known->n; i++) {
        run->copy[i] = goes[i % n] ? -INFINITY : run->copy[i];
    }
    give_known(runs, reached, given);
    given[scores].data = run->copy;
    feed.take = next_take;
    VC_TRY(vc_graph_forward_from(ctx, runs->graph, VC_PRECISION_F32, &feed, given, runs->outputs, runs->n_outputs));
out:
    return status;
}

enum vc_status vc_output_runs_bar(struct vc_ctx *ctx, const struct vc_output_runs *runs, uint32_t scores,
                                  const bool *goes, uint64_t n, struct vc_output_change *out)
{
    uint32_t n_values = vc_graph_value_count(runs->graph);
    struct run run = {.runs = runs};
    struct vc_run_value *given = vc_alloc_array(ctx, VC_TAG_MISC, n_values + (size_t)1, sizeof *given);
    bool *reached = vc_calloc_array(ctx, VC_TAG_MISC, n_values + (size_t)1, sizeof *reached);
    enum vc_status status = VC_OK;

    run.copy = vc_alloc_array(ctx, VC_TAG_TILES, runs->known[scores].n + 1, sizeof *run.copy);
    VC_TRY(given == NULL || reached == NULL || run.copy == NULL ? VC_E_NOMEM : VC_OK);
    reached[scores] = true;
    mark_behind(runs, reached);
    for (; run.runs != NULL; run.runs = run.runs->next) { /* all have the same sizes */
        VC_TRY(bar_part(ctx, &run, scores, goes, n, reached, given));
    }
    *out = judge(runs, &run);
out:
    vc_free(ctx, run.copy);
    vc_free(ctx, given);
    vc_free(ctx, reached);
    return status;
}

/* ---- runs of another graph ---- */

struct other_run {
    struct run run;
    struct vc_graph *graph;
    const struct vc_model *weights;
    uint32_t *outputs; /* by that of the runs */
    bool reshaped;     /* an output has another shape */
};

static enum vc_status other_param(struct vc_ctx *ctx, void *user, const struct vc_graph_param *param, void *elements)
{
    const struct other_run *other = user;
    struct vc_place place = vc_place_of_param(param);
    size_t tensor;
    enum vc_status status;

    VC_TRY(vc_param_find(ctx, other->weights, param, &tensor));
    status = vc_graph_value(other->graph, param->value)->dtype == VC_DTYPE_F32
                 ? vc_place_values(ctx, other->weights, tensor, &place, false, elements)
                 : vc_place_integers(ctx, other->weights, tensor, &place, elements);
out:
    return status;
}

static enum vc_status other_input(struct vc_ctx *ctx, void *user, uint32_t k, struct vc_run_value *value)
{
    const struct other_run *other = user;

    return vc_graph_input_value(ctx, other->graph, other->run.runs->arrays, other->run.runs->n_arrays, k, false, value);
}

static enum vc_status other_take(struct vc_ctx *ctx, void *user, uint32_t v, const struct vc_run_value *value)
{
    struct other_run *other = user;
    const struct vc_output_runs *runs = other->run.runs;

    (void)ctx;
    for (size_t k = 0; k < runs->n_outputs; k++) {
        const struct vc_run_value *was = &runs->known[runs->outputs[k]];

        if (other->outputs[k] != v) {
            continue;
        }
        if (was->n != value->n || was->n_dims != value->n_dims ||
            memcmp(was->shape, value->shape, was->n_dims * sizeof *was->shape) != 0) {
            other->reshaped = true;
        } else {
            compare(&other->run, runs->outputs[k], value);
        }
    }
    return VC_OK;
}

enum vc_status vc_output_runs_other(struct vc_ctx *ctx, const struct vc_output_runs *runs, struct vc_graph *graph,
                                    const struct vc_model *weights, struct vc_output_change *out)
{
    struct other_run other = {.run = {.runs = runs}, .graph = graph, .weights = weights};
    struct vc_run_feed feed = {.user = &other, .param = other_param, .input = other_input, .take = other_take};
    enum vc_status status = VC_OK;

    other.outputs = vc_alloc_array(ctx, VC_TAG_MISC, runs->n_outputs + 1, sizeof *other.outputs);
    VC_TRY_ALLOC(other.outputs);
    for (size_t k = 0; k < runs->n_outputs; k++) {
        other.outputs[k] = vc_graph_find(graph, vc_graph_value(runs->graph, runs->outputs[k])->name);
        if (other.outputs[k] == VC_NO_VALUE) {
            out->reason = "its graph has other outputs";
            goto out;
        }
    }
    for (; other.run.runs != NULL; other.run.runs = other.run.runs->next) {
        VC_TRY(vc_graph_forward(ctx, graph, VC_PRECISION_F32, &feed, other.outputs, runs->n_outputs));
    }
    *out = judge(runs, &other.run);
    if (other.reshaped) {
        *out = (struct vc_output_change){.reason = "an output has another shape without them"};
    }
out:
    vc_free(ctx, other.outputs);
    return status;
}
