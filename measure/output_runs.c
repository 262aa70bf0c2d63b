/* output_runs.c - see output_runs.h.
 *
 * Which values a run with changes computes, by what is marked in `reached`:
 *
 *     image     conv1     relu      conv2     relu      fc
 *     known     known     given up  changed   behind    behind
 *     feed      feed      computed  computed  computed  computed
 *
 * What is changed, behind that, or given up is `reached`; known values that are not are the feeds.
 *
 * Marks depend on the tensors that are changed, not on their values, so a program can be used again for the
 * next run with the same tensors. */
#include "measure/output_runs.h"

#include <math.h>

#include "graph/ops/ops.h"
#include "measure/graph_inputs.h"
#include "measure/output_parts.h"
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

/* ---- what runs ask for ---- */

/* vc_run_calls.param of the others: the changed values where the parameter is made of a changed tensor,
 * else the model's. */
static enum vc_status next_param(struct vc_ctx *ctx, void *user, const struct vc_graph_param *param, void *elements)
{
    const struct run *run = user;
    uint32_t k = vc_graph_value(run->runs->graph, param->value)->param;

    for (size_t i = 0; i < run->n_changed; i++) {
        if (run->changed[i].tensor == run->runs->tensor_of[k] && vc_output_is_float(run->runs, k)) {
            struct vc_place place = vc_place_of_param(param);

            vc_place_floats(&place, run->changed[i].values, run->changed[i].n, elements);
            return VC_OK;
        }
    }
    return vc_output_read_param(ctx, run->runs, param, elements);
}

/* vc_run_calls.input of the others: the first run has filled in what may be left out. */
static enum vc_status no_input(struct vc_ctx *ctx, void *user, uint32_t k, struct vc_run_value *value)
{
    return vc_fail(ctx, VC_E_INTERNAL, "a run with changes asks for an input");
}

/* The first of the largest entries of a row: the class that a classifier answers.
 * A NaN is never larger, and stays the answer only where it is the first entry. */
static size_t largest_entry(const float *row, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++) {
        best = row[i] > row[best] ? i : best;
    }
    return best;
}

/* Adds what output `v` of the first run has become: squared errors of all outputs; of the first output also
 * how many rows have their largest entry elsewhere. An output with one entry a row has no answers.
 * Doubles hold the squares of differences of floats well enough for a figure of a few digits. */
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

/* vc_run_calls.take of the others: an output, against that of the first run. */
static enum vc_status next_take(struct vc_ctx *ctx, void *user, uint32_t v, const struct vc_run_value *value)
{
    compare(user, v, value);
    return VC_OK;
}

/* ---- runs with changes ---- */

/* Whether a change of that tensor can change the outputs: some parameter of floats is read from it. */
bool vc_output_runs_use(const struct vc_output_runs *runs, size_t tensor)
{
    for (uint32_t k = 0; k < vc_graph_param_count(runs->graph); k++) {
        if (runs->tensor_of[k] == tensor && vc_output_is_float(runs, k)) {
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

/* The node reads a value that is marked. */
static bool reads_marked(const struct vc_graph_node *node, const bool *reached)
{
    for (unsigned i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] != VC_NO_VALUE && reached[node->inputs[i]]) {
            return true;
        }
    }
    return false;
}

/* What the node makes is no longer what it was. */
static void mark_outputs(const struct vc_graph_node *node, bool *reached)
{
    for (unsigned i = 0; i < node->n_outputs; i++) {
        if (node->outputs[i] != VC_NO_VALUE) {
            reached[node->outputs[i]] = true;
        }
    }
}

/* Marks the values behind those that are marked. Nodes are in the order in which they are computed, so one
 * walk is enough. */
static void mark_behind(const struct vc_output_runs *runs, bool *reached)
{
    for (uint32_t k = 0; k < vc_graph_node_count(runs->graph); k++) {
        const struct vc_graph_node *node = vc_graph_node(runs->graph, k);

        if (reads_marked(node, reached)) {
            mark_outputs(node, reached);
        }
    }
}

/* An estimate: times of the first run, of all batches. Values that were given up and have to be computed
 * again are not in it. */
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

/* The figures of a run over all batches. Outputs that have no norm, or none that is finite, give a reason
 * in place of a figure. A changed output that is not finite is an infinite error. */
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

/* Marks what is not known for some of the rows, too: one program is for all of them. */
static void mark_unknown(const struct vc_output_runs *runs, bool *reached)
{
    for (const struct vc_output_runs *part = runs; part != NULL; part = part->next) {
        for (uint32_t v = 0; v < vc_graph_value_count(runs->graph); v++) {
            reached[v] |= part->known[v].data == NULL;
        }
    }
}

/* The feeds of one batch: what the first run has kept, without what is reached. */
static void feed_known(const struct vc_output_runs *runs, const bool *reached, struct vc_run_value *feeds)
{
    for (uint32_t v = 0; v < vc_graph_value_count(runs->graph); v++) {
        feeds[v] = runs->known[v];
        feeds[v].data = reached[v] ? NULL : feeds[v].data;
    }
}

/* Computes values of one part from the feeds. *program is made at the first call, of its feeds, and
 * is the caller's to free. */
static enum vc_status compute(struct vc_ctx *ctx, const struct vc_output_runs *runs, const struct vc_run_calls *calls,
                              const struct vc_run_value *feeds, const uint32_t *wanted, size_t n,
                              struct vc_answers **program)
{
    const struct vc_answers_options options = {.feeds = feeds, .wanted = wanted, .n_wanted = n, .threads = 1};

    if (!runs->plain && *program == NULL) {
        VC_CALL(vc_answers_make(ctx, runs->graph, &options, program));
    }
    return runs->plain ? vc_graph_forward_from(ctx, runs->graph, VC_PRECISION_F32, calls, feeds, wanted, n)
                       : vc_answers_run(*program, calls, feeds);
}

void vc_output_program_end(struct vc_ctx *ctx, struct vc_output_program *program)
{
    vc_answers_free(program->answers);
    vc_free(ctx, program->reached);
    *program = (struct vc_output_program){0};
}

/* Keeps the program if it was made for the same marks, else ends it; `reached` becomes the program's either
 * way. */
static void begin_program(struct vc_ctx *ctx, struct vc_output_program *program, bool *reached, uint32_t n_values)
{
    if (program->reached != NULL && memcmp(program->reached, reached, n_values * sizeof *reached) == 0) {
        vc_free(ctx, reached);
    } else {
        vc_output_program_end(ctx, program);
        program->reached = reached;
    }
}

/* Outputs with changed tensors, for all inputs, against those without. Only what lies behind a change is
 * computed: values in front of it were kept by the first run and are fed. begin_program takes `reached`
 * over. */
enum vc_status vc_output_runs_run(struct vc_ctx *ctx, const struct vc_output_runs *runs,
                                  struct vc_output_program *program, const struct vc_changed_tensor *changed, size_t n,
                                  struct vc_output_change *out)
{
    uint32_t n_values = vc_graph_value_count(runs->graph);
    struct run run = {.changed = changed, .n_changed = n};
    struct vc_run_calls calls = {.user = &run, .param = next_param, .input = no_input, .take = next_take};
    VC_SCOPED struct vc_run_value *feeds = vc_alloc_array(ctx, VC_TAG_MISC, n_values + (size_t)1, sizeof *feeds);
    bool *reached = vc_calloc_array(ctx, VC_TAG_MISC, n_values + (size_t)1, sizeof *reached);

    if (feeds == NULL || reached == NULL) {
        vc_free(ctx, reached);
        return VC_E_NOMEM;
    }
    mark_changed(runs, changed, n, reached);
    mark_behind(runs, reached);
    mark_unknown(runs, reached);
    begin_program(ctx, program, reached, n_values);
    for (run.runs = runs; run.runs != NULL; run.runs = run.runs->next) {
        feed_known(run.runs, program->reached, feeds);
        VC_CALL(compute(ctx, run.runs, &calls, feeds, runs->outputs, runs->n_outputs, &program->answers));
    }
    *out = judge(runs, &run);
    return VC_OK;
}

/* ---- runs in which some units are not chosen ---- */

/* Follows the tensor's values forward to the first Softmax or TopK that reads one of them. Its input are
 * the scores, if its last axis has n entries: one for each unit. Nodes that choose are not passed, as what
 * is behind them is the choice. */
static uint32_t find_scores(const struct vc_output_runs *runs, uint64_t n, bool *reached)
{
    for (uint32_t k = 0; k < vc_graph_node_count(runs->graph); k++) {
        const struct vc_graph_node *node = vc_graph_node(runs->graph, k);
        bool chooses = vc_node_is(node, VC_OP_softmax) || vc_node_is(node, VC_OP_top_k);
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

/* Marks of a tensor that is not changed really: only where its values go is asked for. */
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

/* vc_run_calls.take: the elements of one value. */
static enum vc_status copy_take(struct vc_ctx *ctx, void *user, uint32_t v, const struct vc_run_value *value)
{
    memcpy(((struct run *)user)->copy, value->data, (size_t)vc_output_bytes(value));
    return VC_OK;
}

/* Runs in which units are not chosen need two programs, of the scores and of what is behind them:
 *
 *     router weights --before--> scores --(-infinity for units that go)--> changed scores --behind--> outputs
 */
struct bar {
    uint32_t scores;
    const bool *goes; /* n units */
    uint64_t n;
    bool *unknown, *reached; /* values: for some rows; those and what is behind the scores */
    struct vc_run_value *feeds;
    struct vc_answers *before, *behind;
};

/* One batch. The scores are those of the first run or, where they were given up, are computed again. Then
 * the entries of the units that go become -infinity, and the outputs are computed from there. */
static enum vc_status bar_part(struct vc_ctx *ctx, struct run *run, struct bar *bar)
{
    const struct vc_output_runs *runs = run->runs;
    struct vc_run_calls calls = {.user = run, .param = next_param, .input = no_input, .take = copy_take};
    const struct vc_run_value *known = &runs->known[bar->scores];

    if (!bar->unknown[bar->scores]) {
        memcpy(run->copy, known->data, (size_t)vc_output_bytes(known));
    } else {
        feed_known(runs, bar->unknown, bar->feeds);
        VC_CALL(compute(ctx, runs, &calls, bar->feeds, &bar->scores, 1, &bar->before));
    }
    for (size_t i = 0; i < known->n; i++) {
        run->copy[i] = bar->goes[i % bar->n] ? -INFINITY : run->copy[i];
    }
    feed_known(runs, bar->reached, bar->feeds);
    bar->feeds[bar->scores].data = run->copy;
    calls.take = next_take;
    return compute(ctx, runs, &calls, bar->feeds, runs->outputs, runs->n_outputs, &bar->behind);
}

/* Values behind the scores are reached; values before them stay as in the first run. */
enum vc_status vc_output_runs_bar(struct vc_ctx *ctx, const struct vc_output_runs *runs, uint32_t scores,
                                  const bool *goes, uint64_t n, struct vc_output_change *out)
{
    size_t n_values = vc_graph_value_count(runs->graph) + (size_t)1;
    struct run run = {.runs = runs};
    struct bar bar = {.scores = scores, .goes = goes, .n = n};
    enum vc_status status = VC_OK;

    bar.feeds = vc_alloc_array(ctx, VC_TAG_MISC, n_values, sizeof *bar.feeds);
    bar.unknown = vc_calloc_array(ctx, VC_TAG_MISC, n_values, sizeof *bar.unknown);
    bar.reached = vc_calloc_array(ctx, VC_TAG_MISC, n_values, sizeof *bar.reached);
    run.copy = vc_alloc_array(ctx, VC_TAG_TILES, runs->known[scores].n + 1, sizeof *run.copy);
    VC_TRY(bar.feeds == NULL || bar.unknown == NULL || bar.reached == NULL || run.copy == NULL ? VC_E_NOMEM : VC_OK);
    mark_unknown(runs, bar.unknown);
    bar.reached[scores] = true;
    mark_behind(runs, bar.reached);
    mark_unknown(runs, bar.reached);
    for (; run.runs != NULL; run.runs = run.runs->next) { /* all have the same sizes */
        VC_TRY(bar_part(ctx, &run, &bar));
    }
    *out = judge(runs, &run);
out:
    vc_answers_free(bar.before);
    vc_answers_free(bar.behind);
    VC_FREE_ALL(ctx, run.copy, bar.feeds, bar.unknown, bar.reached);
    return status;
}

/* ---- runs of another graph ---- */

/* A run of another graph, with other weights: its values have other numbers, its outputs the same names. */
struct other_run {
    struct run run;
    struct vc_graph *graph;
    const struct vc_model *weights;
    uint32_t *outputs; /* by that of the runs */
    bool reshaped;     /* an output has another shape */
};

/* vc_run_calls.param: from the other weights. */
static enum vc_status other_param(struct vc_ctx *ctx, void *user, const struct vc_graph_param *param, void *elements)
{
    const struct other_run *other = user;
    struct vc_place place = vc_place_of_param(param);
    size_t tensor;

    VC_CALL(vc_param_find(ctx, other->weights, param, &tensor));
    return vc_graph_value(other->graph, param->value)->dtype == VC_DTYPE_F32
               ? vc_place_values(ctx, other->weights, tensor, &place, false, elements)
               : vc_place_integers(ctx, other->weights, tensor, &place, elements);
}

/* vc_run_calls.input: the same arrays as the first run had. */
static enum vc_status other_input(struct vc_ctx *ctx, void *user, uint32_t k, struct vc_run_value *value)
{
    const struct other_run *other = user;

    return vc_graph_input_value(ctx, other->graph, other->run.runs->arrays, other->run.runs->n_arrays, k, false, value);
}

/* vc_run_calls.take: compares an output with the one of its name. One of another shape cannot be compared;
 * the run goes on, and its figures are thrown away. */
static enum vc_status other_take(struct vc_ctx *ctx, void *user, uint32_t v, const struct vc_run_value *value)
{
    struct other_run *other = user;
    const struct vc_output_runs *runs = other->run.runs;

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

/* Each batch makes a program of its own, as the graph is used for this run alone. */
enum vc_status vc_output_runs_other(struct vc_ctx *ctx, const struct vc_output_runs *runs, struct vc_graph *graph,
                                    const struct vc_model *weights, struct vc_output_change *out)
{
    struct other_run other = {.run = {.runs = runs}, .graph = graph, .weights = weights};
    struct vc_run_calls calls = {.user = &other, .param = other_param, .input = other_input, .take = other_take};
    enum vc_status status = VC_OK;

    VC_TRY(VC_ARRAY(ctx, VC_TAG_MISC, other.outputs, runs->n_outputs + 1));
    for (size_t k = 0; k < runs->n_outputs; k++) {
        other.outputs[k] = vc_graph_find(graph, vc_graph_value(runs->graph, runs->outputs[k])->name);
        if (other.outputs[k] == VC_NO_VALUE) {
            out->reason = "its graph has other outputs";
            goto out;
        }
    }
    for (; other.run.runs != NULL; other.run.runs = other.run.runs->next) {
        VC_TRY(vc_answers_forward(ctx, graph, &calls, other.outputs, runs->n_outputs));
    }
    *out = judge(runs, &other.run);
    if (other.reshaped) {
        *out = (struct vc_output_change){.reason = "an output has another shape without them"};
    }
out:
    vc_free(ctx, other.outputs);
    return status;
}
