/* estimate.c - the memory of a model by component and by moment: states from the list of its tensors, activations from
 * the timeline of its graph; of each stage of a pipeline, and beside a teacher.
 *
 * The stages of one estimate (vc_estimate_run), each of which adds to components:
 *
 *     storages       bytes of all values, and what is divided between devices
 *     states         gradients, the optimizer, masters: of each weight that is trained
 *     weights        as a loader has them: floats, codes, decoded
 *     activations    the timeline of the graph: what lives at its fullest step
 *     teacher        of a distillation
 *     moments        sums of components: loading, forward pass, peak, between steps
 *     device         context, workspace, slack: beside what programs ask for
 *
 * A part that is not known makes all sums unknown that it belongs to. */

#include "core/base/option_struct.h"
#include "core/model/source.h"
#include "graph/sizes.h"
#include "memory/by_layer.h"
#include "memory/made_as.h"
#include "search/search_schemes.h"

#define MIB          ((uint64_t)1 << 20)
#define FEW_SEGMENTS (64 * MIB) /* of an allocator, that are not full, where its requests are not known */

/* So far: stages add to it. */
static uint64_t bytes_of(const struct vc_estimate *e, enum vc_memory_kind component)
{
    return e->out->components[component].bytes;
}

/* Weights without those that the program keeps in the host's memory. */
static uint64_t bytes_on_device(const struct vc_estimate *e)
{
    return bytes_of(e, VC_MEMORY_PARAMETERS) - e->out->host_weight_bytes;
}

/* ---- what the graph computes with ---- */

/* Each input is a block of its own. */
static void add_inputs(struct vc_estimate *e)
{
    for (uint32_t k = 0; k < vc_graph_input_count(e->graph); k++) {
        uint32_t v = vc_graph_input(e->graph, k);

        vc_estimate_add(e, VC_MEMORY_INPUTS, vc_estimate_block(e, e->storages.bytes[v], 1));
    }
}

/* For people: the node of the step, its block, or its operator; "" between the passes. */
const char *vc_estimate_step_name(const struct vc_estimate *e, uint64_t step)
{
    uint32_t n = step < e->timeline.n_steps ? e->timeline.node_of[step] : VC_NO_NODE;
    const struct vc_graph_node *node = n != VC_NO_NODE ? vc_graph_node(e->graph, n) : NULL;

    if (vc_estimate_trains(e) && step + 1 == e->timeline.n_steps) {
        return "the optimizer's step";
    }
    if (node == NULL) {
        return "";
    }
    if (*node->name != '\0') {
        return node->name;
    }
    return *node->block != '\0' ? node->block : node->op;
}

/* ---- one device of several ---- */

/* Parts of a batch whose activations a stage (from 0 on) keeps: in / of. */
static void count_in_flight(const struct vc_memory_options *o, unsigned stage, uint64_t *in, uint64_t *of)
{
    uint64_t parts = o->micro_batches;
    uint64_t behind = o->pp - 1U - stage;

    *of = 1;
    if (o->pp < 2) {
        *in = 1;
    } else if (o->schedule == VC_PIPELINE_GPIPE) {
        *in = parts;
    } else if (o->schedule == VC_PIPELINE_1F1B || o->chunks < 2) {
        *in = vc_min_u64(parts, behind + 1);
    } else {
        *of = o->chunks;
        *in = vc_min_u64(parts * o->chunks, 2 * behind + (uint64_t)o->pp * (o->chunks - 1U) + 1);
    }
}

/* What comes from the stage before, and the gradient of what goes to it; with activations that are divided along the
 * sequence, the whole of what a product reads. */
static void add_exchange(struct vc_estimate *e)
{
    const struct vc_storages *s = &e->storages;
    uint64_t largest = 0;

    for (uint32_t v = 0; v < s->n_values; v++) {
        const struct vc_graph_value *value = vc_graph_value(e->graph, v);

        if (value->kind == VC_VALUE_RESULT && s->used[v] && s->idle[value->node]) {
            vc_estimate_add(e, VC_MEMORY_COMMUNICATION,
                            vc_estimate_block(e, s->bytes[v], vc_estimate_trains(e) ? 2 : 1));
        }
    }
    for (uint32_t n = 0; s->options->sequence_parallel && n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(e->graph, n);
        uint32_t weight = vc_product_weight(e->graph, node);

        if (weight != VC_NO_VALUE && s->shard[weight] > 1 && !s->idle[n] && s->shard[node->inputs[0]] > 1) {
            largest = vc_max_u64(largest, vc_estimate_product(e, s->bytes[node->inputs[0]], s->options->tp));
        }
    }
    vc_estimate_add(e, VC_MEMORY_COMMUNICATION, vc_estimate_block(e, largest, 1));
}

/* ---- workspace ---- */

/* The windows of images side by side, which convolutions multiply with. Kernels of one element need none. */
static uint64_t im2col_bytes(struct vc_estimate *e)
{
    uint64_t most = 0;

    for (uint32_t n = 0; n < e->storages.n_nodes && e->storages.unknown == NULL; n++) {
        const struct vc_graph_node *node = vc_graph_node(e->graph, n);
        uint64_t kernel = 1;

        if (!vc_node_is(node, VC_OP_conv) || e->storages.idle[n]) {
            continue;
        }
        const struct vc_graph_value *w = vc_graph_value(e->graph, node->inputs[1]);
        const struct vc_graph_value *out = vc_graph_value(e->graph, node->outputs[0]);
        uint64_t bytes = vc_estimate_product(
            e, e->storages.width[node->outputs[0]],
            vc_min_u64(e->options.im2col_images, (uint64_t)vc_graph_dim_value(e->graph, out->shape[0])));
        for (unsigned k = 1; k < w->n_dims; k++) {
            bytes = vc_estimate_product(e, bytes, (uint64_t)vc_graph_dim_value(e->graph, w->shape[k]));
            kernel *= k < 2 ? 1 : (uint64_t)vc_graph_dim_value(e->graph, w->shape[k]);
        }
        for (unsigned k = 2; k < out->n_dims; k++) {
            bytes = vc_estimate_product(e, bytes, (uint64_t)vc_graph_dim_value(e->graph, out->shape[k]));
        }
        most = kernel == 1 ? most : vc_max_u64(most, bytes);
    }
    return most;
}

/* cuDNN's, of the recurrent layers that take most; in place of the usual workspace, and only of that. */
static uint64_t recurrent_bytes(const struct vc_estimate *e)
{
    const struct vc_memory_options *defaults = VC_OPTIONS(memory)->defaults;
    uint64_t most = e->options.workspace_bytes;

    for (uint32_t n = 0; n < e->storages.n_nodes && e->storages.unknown == NULL; n++) {
        if (e->options.program == VC_RUN_BY_PYTORCH && most >= defaults->workspace_bytes &&
            vc_is_recurrent(vc_graph_node(e->graph, n)) && !e->storages.idle[n]) {
            most = vc_max_u64(most, vc_recurrent_workspace(&e->storages, n));
        }
    }
    return most;
}

/* Slack is what an allocator has taken and programs cannot use: as it was emulated (reserve.c), or where it was not a
 * share of what comes and goes. */
static void add_device(struct vc_estimate *e)
{
    const struct vc_memory_options *o = &e->options;
    struct vc_memory_part *c = e->out->components;
    double share = o->slack >= 0 ? o->slack : vc_estimate_trains(e) && o->allocator == VC_ALLOCATOR_PYTORCH ? 0.3 : 0;
    uint64_t peak = e->out->moments[VC_MOMENT_PEAK].bytes;
    uint64_t reserved = e->out->reserved[VC_MOMENT_PEAK].bytes;
    uint64_t moving = vc_estimate_sum(e, c[VC_MEMORY_ACTIVATIONS].bytes, c[VC_MEMORY_TRANSIENT].bytes);

    c[VC_MEMORY_WORKSPACE] = (struct vc_memory_part){recurrent_bytes(e), VC_KNOWN_ASSUMED};
    if (o->im2col_images != 0 && e->graph != NULL) {
        vc_estimate_add(e, VC_MEMORY_WORKSPACE, im2col_bytes(e));
    }
    c[VC_MEMORY_CONTEXT] = (struct vc_memory_part){o->context_bytes, VC_KNOWN_ASSUMED};
    c[VC_MEMORY_SLACK] = (struct vc_memory_part){(uint64_t)((double)moving * share), VC_KNOWN_ASSUMED};
    if (o->slack < 0 && o->allocator == VC_ALLOCATOR_ONNXRUNTIME) {
        c[VC_MEMORY_SLACK].bytes = FEW_SEGMENTS;
    } else if (o->slack < 0 && o->allocator == VC_ALLOCATOR_PYTORCH && reserved == 0) {
        c[VC_MEMORY_SLACK].bytes = vc_max_u64(c[VC_MEMORY_SLACK].bytes, FEW_SEGMENTS);
    } else if (o->slack < 0 && reserved > vc_estimate_sum(e, peak, c[VC_MEMORY_SLACK].bytes)) {
        c[VC_MEMORY_SLACK] = (struct vc_memory_part){reserved - peak, VC_KNOWN_MODELLED};
    }
}

/* ---- a teacher ---- */

/* Its weights, what its forward pass takes, and its outputs, as f32. Without one the outputs come from a file: as many
 * as those of the student. */
static enum vc_status add_teacher(struct vc_estimate *e, struct vc_memory_report *teacher)
{
    const struct vc_memory_options *o = &e->options;
    const struct vc_graph *graph = o->teacher != NULL ? o->teacher : e->graph;
    struct vc_memory_options options;
    struct vc_memory_part *part = &e->out->components[VC_MEMORY_TEACHER];
    uint32_t v = vc_graph_output_count(graph) != 0 ? vc_graph_output(graph, 0) : VC_NO_VALUE;
    uint64_t n = 1;

    vc_memory_defaults(&options);
    *teacher = (struct vc_memory_report){.peak_at = "", .eager_at = ""};
    for (unsigned k = 0; v != VC_NO_VALUE && k < vc_graph_value(graph, v)->n_dims; k++) {
        int64_t size = vc_graph_dim_value(graph, vc_graph_value(graph, v)->shape[k]);

        n = vc_estimate_product(e, n, size < 0 ? 0 : (uint64_t)size);
    }
    e->logits = vc_estimate_block(e, n, 4);
    if (o->teacher != NULL) {
        options.weights = o->teacher_weights;
        options.activations = e->usual ? VC_DTYPE_NONE : o->activations;
        options.amp = o->amp;
        options.attention = o->attention;
        options.allocator = o->allocator == VC_ALLOCATOR_CUDA ? VC_ALLOCATOR_CUDA : VC_ALLOCATOR_EXACT;
        VC_CALL(vc_memory_estimate(e->ctx, o->teacher, o->teacher_model, &options, teacher));
    }
    *part = (struct vc_memory_part){vc_estimate_sum(e, teacher->components[VC_MEMORY_PARAMETERS].bytes,
                                                    teacher->components[VC_MEMORY_ACTIVATIONS].bytes),
                                    teacher->unknown != NULL ? VC_KNOWN_NOT : VC_KNOWN_MODELLED};
    part->bytes = vc_estimate_sum(e, part->bytes, e->logits);
    return VC_OK;
}

/* ---- moments ---- */

/* A sum of components at one moment of the run. */
static void set_moment(struct vc_estimate *e, enum vc_moment moment, uint64_t states, uint64_t more,
                       enum vc_known known)
{
    e->out->moments[moment] = (struct vc_memory_part){vc_estimate_sum(e, states, more), known};
}

/* What the budget leaves for activations and transients. */
static uint64_t budget_of(struct vc_estimate *e)
{
    const enum vc_memory_kind standing[] = {VC_MEMORY_PARAMETERS, VC_MEMORY_GRADIENTS,     VC_MEMORY_OPTIMIZER,
                                            VC_MEMORY_MASTER,     VC_MEMORY_COMMUNICATION, VC_MEMORY_TRANSIENT};
    uint64_t taken = 0;

    for (size_t k = 0; k < sizeof standing / sizeof standing[0]; k++) {
        taken = vc_estimate_sum(e, taken, bytes_of(e, standing[k]));
    }
    for (uint32_t k = 0; k < vc_graph_input_count(e->graph); k++) {
        taken = vc_estimate_sum(e, taken, e->storages.bytes[vc_graph_input(e->graph, k)]);
    }
    return e->options.budget_bytes > taken ? e->options.budget_bytes - taken : 0;
}

/* --recompute auto: which nodes are computed again, so that the peak stays within the budget. */
static enum vc_status choose_parts(struct vc_estimate *e)
{
    VC_CALL(VC_ARRAY(e->ctx, VC_TAG_MISC, e->parts, e->storages.n_nodes + 1U));
    VC_CALL(vc_recompute_choose(e, budget_of(e), e->parts));
    e->storages.parts = e->parts;
    return VC_OK;
}

/* What the fullest step of a scan has, that PyTorch's modules write out, with the states of sequences that are continued;
 * the stand-in for such a model has no nodes for it. */
static uint64_t scan_bytes(struct vc_estimate *e)
{
    const struct vc_net_others *others = &e->graph->others;

    if (!e->graph->stands_in || others->scan == 0) { /* graphs that do not stand in have other inputs, or none */
        return 0;
    }
    const struct vc_graph_value *ids = vc_graph_value(e->graph, vc_graph_input(e->graph, 0)); /* [batch, positions] */
    int64_t batch = vc_graph_dim_value(e->graph, ids->shape[0]);
    int64_t positions = vc_graph_dim_value(e->graph, ids->shape[1]);

    if (batch < 1 || positions < 1) {
        return 0;
    }
    uint64_t whole = vc_estimate_product(e, vc_ceil_div_u64((uint64_t)positions, others->chunk), others->chunk);
    whole = vc_estimate_sum(e, vc_estimate_product(e, whole, others->scan),
                            e->options.context_tokens != 0 ? others->states : 0);
    return vc_estimate_product(e, vc_estimate_product(e, whole, (uint64_t)batch), 4);
}

/* The size of the input's axis 1: positions; 0: it is open, or there is no such input. */
static double positions_of(const struct vc_estimate *e, uint32_t input)
{
    int64_t n = input < vc_graph_input_count(e->graph)
                    ? vc_graph_dim_value(e->graph, vc_graph_value(e->graph, vc_graph_input(e->graph, input))->shape[1])
                    : 0;

    return n > 0 ? (double)n : 0;
}

/* What one letter of a sum is of the whole run (stand_ins.py, LETTERS): capitals are of a decoder behind an encoder. */
static double of_letter(const struct vc_estimate *e, char letter, double batch)
{
    const struct vc_net_others *others = &e->graph->others;
    bool decoder = letter >= 'A' && letter <= 'Z';
    char small = (char)(decoder ? letter - 'A' + 'a' : letter);
    double n = positions_of(e, decoder ? vc_graph_input_count(e->graph) - 1 : 0);
    double read = n > (double)e->options.context_tokens ? n : (double)e->options.context_tokens;
    double heads = (double)others->heads;

    switch (small) {
    case 's':
        return batch * heads * n * read;
    case 'p':
        return heads * n * read;
    case 'm':
        return batch * n * read;
    case 'w':
        return n * read;
    case 'x':
        return batch * heads * n * positions_of(e, 0);
    case 'y':
        return heads * n * positions_of(e, 0);
    default:
        return small >= 'a' && small <= 'z' ? batch * n * (double)others->widths[small - 'a'] : 0;
    }
}

/* What lives at the fullest moment of a model of the type, by the sums that were measured: "h240f40,q40v40" are tenths of
 * bytes of two moments, behind a semicolon those where heads share keys. 0: there are none. */
static uint64_t measured_bytes(const struct vc_estimate *e)
{
    const struct vc_net_others *others = &e->graph->others;
    bool half =
        vc_dtype_size(e->options.activations != VC_DTYPE_NONE ? e->options.activations : e->options.weights) == 2;
    const char *at = others->sums[half];
    double most = 0;
    double sum = 0;

    if (at == NULL) {
        return 0;
    }
    double batch =
        (double)vc_graph_dim_value(e->graph, vc_graph_value(e->graph, vc_graph_input(e->graph, 0))->shape[0]);
    size_t own = strcspn(at, "; ");
    size_t n = at[own] == ';' && (others->shares_keys || own == 0) ? strcspn(at + own + 1, " ") : 0;

    at += n != 0 ? own + 1 : 0;
    n = n != 0 ? n : own;
    for (const char *end = at + n; at < end;) {
        char letter = *at++;
        char *behind = (char *)(uintptr_t)at;

        if (letter == ',') {
            sum = 0;
            continue;
        }
        sum += of_letter(e, letter, batch) * (double)strtoul(at, &behind, 10) / 10;
        most = sum > most ? sum : most;
        at = behind;
    }
    return most > 0 && most < 1e18 ? (uint64_t)most : 0;
}

/* The node that makes the first output: logits, of a model that has some. */
static uint64_t logits_step(const struct vc_estimate *e)
{
    uint32_t root = e->storages.root[vc_graph_output(e->graph, 0)];

    return vc_memory_maker(e->graph, root) == NULL ? UINT64_MAX : vc_graph_value(e->graph, root)->node;
}

/* `percent` of what the stand-in has; 0: as much. */
static uint64_t part_of(struct vc_estimate *e, uint64_t bytes, uint32_t percent)
{
    return percent == 0 ? bytes : vc_ceil_div_u64(vc_estimate_product(e, bytes, percent), 100);
}

/* The same of a type without sums: before there are logits as much more as was measured of its type, with the
 * scores that its modules write out, whether they are there at the fullest step or not; from then on what was measured
 * of that. */
static enum vc_status measure_stand_in(struct vc_estimate *e, const struct vc_timeline *timeline, uint64_t *most)
{
    const struct vc_net_others *others = &e->graph->others;
    bool half =
        vc_dtype_size(e->options.activations != VC_DTYPE_NONE ? e->options.activations : e->options.weights) == 2;
    uint64_t logits = logits_step(e);
    uint64_t scores = 0;
    uint64_t before, after, step;

    VC_CALL(vc_timeline_most(e->ctx, timeline, e->align, 0, logits, &before, &step));
    VC_CALL(vc_timeline_most(e->ctx, timeline, e->align, logits, UINT64_MAX, &after, &step));
    for (uint32_t n = 0; others->scores[half] != 0 && n < e->storages.n_nodes; n++) {
        if (vc_node_is(vc_graph_node(e->graph, n), VC_OP_attention)) {
            scores = vc_max_u64(scores, vc_storages_scores(&e->storages, n));
        }
    }
    before = vc_estimate_sum(e, part_of(e, before, others->live[half]),
                             vc_estimate_product(e, scores, others->scores[half]));
    *most = vc_max_u64(before, part_of(e, after, others->logits[half]));
    return VC_OK;
}

/* The same run as PyTorch's eager mode has it: how much more lives at its fullest step. */
static enum vc_status add_frames(struct vc_estimate *e, uint64_t ideal)
{
    struct vc_timeline timeline = {.n = 0};
    uint64_t most, step, scan, measured;
    enum vc_status status;

    VC_TRY(vc_frames_make(&e->storages));
    VC_TRY(vc_timeline_make(e->ctx, &e->storages, &timeline));
    VC_TRY(vc_timeline_most(e->ctx, &timeline, e->align, 0, UINT64_MAX, &most, &step));
    measured = measured_bytes(e);
    if (measured != 0) { /* behind a cache the stand-in has copies of it, of which nothing was measured */
        most = e->options.context_tokens > (uint64_t)positions_of(e, 0) ? vc_max_u64(most, measured) : measured;
    } else if (e->graph->stands_in) {
        VC_TRY(measure_stand_in(e, &timeline, &most));
    }
    most = vc_estimate_sum(e, most, most / 1000);  /* statistics of rows, numbers of positions, and the like */
    if (e->graph->stands_in && e->model == NULL) { /* weights that the sizes in a configuration do not tell */
        most = vc_estimate_sum(e, most, e->out->components[VC_MEMORY_PARAMETERS].bytes / 100);
    }
    scan = scan_bytes(e);
    if (vc_max_u64(most, scan) > ideal) {
        e->out->eager.bytes = vc_max_u64(most, scan) - ideal;
        e->out->eager_at = scan > most ? "the scan of a layer" : vc_estimate_step_name(e, step);
    }
out:
    vc_timeline_release(e->ctx, &timeline);
    vc_frames_release(&e->storages);
    return status;
}

/* Programs that keep values as PyTorch's modules do, or whose models are mostly exports of these: for comparison. */
static bool has_frames(enum vc_memory_program program)
{
    return program != VC_RUN_BY_LLAMA_CPP && program != VC_RUN_BY_VLLM;
}

/* The timeline of the graph, packed as an arena would have it. Of training only what lives at the loss counts as
 * activations; the rest comes and goes. Several parts of a batch under way have as many activations. */
static enum vc_status add_activations(struct vc_estimate *e, unsigned stage)
{
    struct vc_memory_part *c = e->out->components;
    bool trains = vc_estimate_trains(e);
    struct vc_buffer_plan packing = {0};
    uint64_t in_flight, of, kept;

    if (trains) {
        VC_CALL(vc_frames_make(&e->storages));
    }
    if (trains && e->options.recompute == VC_RECOMPUTE_AUTO) {
        VC_CALL(choose_parts(e));
    }
    VC_CALL(vc_timeline_make(e->ctx, &e->storages, &e->timeline));
    VC_CALL(vc_buffers_pack(e->ctx, e->timeline.buffers, e->timeline.n, e->align, &packing));
    e->out->arena_bytes = packing.arena_bytes;
    e->out->arena_least = packing.live_bytes;
    e->out->peak_at = e->out->eager_at = vc_estimate_step_name(e, packing.peak_step);
    e->out->recomputed = e->timeline.recomputed;
    e->out->n_forward = e->timeline.n_forward;
    if (trains) {
        add_inputs(e);
        kept = vc_timeline_live(&e->timeline, e->timeline.loss_step, VC_MEMORY_ACTIVATIONS);
    } else {
        vc_estimate_add(e, VC_MEMORY_INPUTS, vc_timeline_live(&e->timeline, packing.peak_step, VC_MEMORY_INPUTS));
        kept = packing.live_bytes - vc_min_u64(packing.live_bytes, bytes_of(e, VC_MEMORY_INPUTS));
    }
    if (!trains && packing.peak_step < e->storages.n_nodes) { /* of the transients only these are a row of their own */
        uint64_t decoded = vc_storages_decoded_bytes(&e->storages, (uint32_t)packing.peak_step);

        vc_estimate_add(e, VC_MEMORY_TRANSIENT, decoded);
        kept -= vc_min_u64(kept, decoded);
    }
    vc_estimate_add(e, VC_MEMORY_TRANSIENT, trains ? packing.live_bytes - vc_min_u64(packing.live_bytes, kept) : 0);
    if (trains) {
        count_in_flight(&e->options, stage, &in_flight, &of);
        e->out->stages[stage].in_flight = (double)in_flight / (double)of;
        vc_layers_activations(e, e->timeline.loss_step, in_flight, of);
        kept = vc_ceil_div_u64(vc_estimate_product(e, kept, in_flight), of);
        c[VC_MEMORY_INPUTS].bytes = vc_estimate_product(e, c[VC_MEMORY_INPUTS].bytes, vc_ceil_div_u64(in_flight, of));
    }
    if (!trains) {
        vc_layers_activations(e, packing.peak_step, 1, 1);
    }
    vc_estimate_add(e, VC_MEMORY_ACTIVATIONS, kept);
    c[VC_MEMORY_ACTIVATIONS].known = c[VC_MEMORY_TRANSIENT].known = VC_KNOWN_MODELLED;
    add_exchange(e);
    if (!trains && e->options.reuse && has_frames(e->options.program)) {
        VC_CALL(add_frames(e, packing.live_bytes));
    }
    return VC_OK;
}

/* From the components: the teacher computes while the student's activations are there, or before them, so that the
 * peak is that of its forward pass or that of the backward pass beside its outputs. */
static void set_moments(struct vc_estimate *e, const struct vc_memory_report *teacher)
{
    const enum vc_memory_kind standing[] = {VC_MEMORY_PARAMETERS, VC_MEMORY_GRADIENTS, VC_MEMORY_OPTIMIZER,
                                            VC_MEMORY_KV_CACHE,   VC_MEMORY_INPUTS,    VC_MEMORY_COMMUNICATION};
    bool distills = e->options.mode == VC_MEMORY_DISTILL;
    enum vc_known known = distills && teacher->unknown != NULL ? VC_KNOWN_NOT : VC_KNOWN_MODELLED;
    enum vc_known loaded = e->out->components[VC_MEMORY_PARAMETERS].known;
    uint64_t weights = distills ? teacher->components[VC_MEMORY_PARAMETERS].bytes : 0;
    uint64_t backward = bytes_of(e, VC_MEMORY_TRANSIENT);
    uint64_t states = weights;

    set_moment(e, VC_MOMENT_LOAD, bytes_on_device(e), weights, loaded);
    for (size_t k = 0; k < sizeof standing / sizeof standing[0]; k++) {
        states = vc_estimate_sum(e, states, bytes_of(e, standing[k]));
    }
    states -= e->out->host_weight_bytes;
    states = vc_estimate_sum(e, states, e->options.amp == VC_AMP_PURE ? bytes_of(e, VC_MEMORY_MASTER) : 0);
    set_moment(e, VC_MOMENT_STEP, states, 0, loaded);
    states = vc_estimate_sum(e, states, e->options.amp == VC_AMP_AUTOCAST ? bytes_of(e, VC_MEMORY_MASTER) : 0);
    states = vc_estimate_sum(e, states, bytes_of(e, VC_MEMORY_ACTIVATIONS));
    set_moment(e, VC_MOMENT_FORWARD, states, distills ? e->logits : 0, known);
    if (distills) {
        backward = vc_max_u64(vc_estimate_sum(e, backward, e->logits),
                              vc_estimate_sum(e, teacher->components[VC_MEMORY_ACTIVATIONS].bytes, e->logits));
    }
    set_moment(e, VC_MOMENT_PEAK, states, backward, known);
    e->out->eager.bytes = vc_estimate_sum(e, e->out->eager.bytes, e->out->moments[VC_MOMENT_PEAK].bytes);
    e->out->eager.known = known;
    if (bytes_of(e, VC_MEMORY_COMMUNICATION) != 0) {
        e->out->components[VC_MEMORY_COMMUNICATION].known = VC_KNOWN_MODELLED;
        e->out->moments[VC_MOMENT_STEP].known = VC_KNOWN_MODELLED;
    }
}

/* Sums from the forward pass on are unknown; loading the weights is not. */
static void set_unknown(struct vc_estimate *e, const char *why, const char *name)
{
    struct vc_memory_part *c = e->out->components;

    e->out->unknown = why;
    e->out->unknown_name = name;
    c[VC_MEMORY_ACTIVATIONS].known = c[VC_MEMORY_INPUTS].known = c[VC_MEMORY_TRANSIENT].known = VC_KNOWN_NOT;
    if (e->options.mode == VC_MEMORY_DISTILL) {
        c[VC_MEMORY_TEACHER].known = VC_KNOWN_NOT;
    }
    if (e->options.pp > 1) {
        c[VC_MEMORY_COMMUNICATION].known = VC_KNOWN_NOT;
    }
    if (e->options.context_tokens != 0) {
        c[VC_MEMORY_KV_CACHE].known = VC_KNOWN_NOT;
    }
    e->out->eager = (struct vc_memory_part){0, VC_KNOWN_NOT};
    for (enum vc_moment m = VC_MOMENT_FORWARD; m < VC_MOMENTS; m++) {
        e->out->moments[m].known = VC_KNOWN_NOT;
    }
}

/* What weights take is not known, and so is nothing that they are a part of. */
static void set_unread(struct vc_estimate *e)
{
    struct vc_memory_report *out = e->out;

    out->unknown = "the file has weights that cannot be read here, so that their size is unknown";
    out->unknown_name = e->unread;
    out->components[VC_MEMORY_PARAMETERS].known = VC_KNOWN_NOT;
    for (enum vc_moment m = VC_MOMENT_LOAD; m < VC_MOMENTS; m++) {
        out->moments[m].known = VC_KNOWN_NOT;
        out->reserved[m] = (struct vc_memory_part){0, VC_KNOWN_EXACT};
    }
    out->eager = (struct vc_memory_part){0, VC_KNOWN_NOT};
}

/* Of a model whose type takes what no size bounds, and of a decoder that stands in for one whose layers scan or
 * convolve: PyTorch's modules write the steps of a scan out, which is many times what the stand-in has, and is counted
 * for some (scan_bytes). llama.cpp has one operator for it, and of vLLM only weights and cache are counted. */
static bool is_unbounded(const struct vc_estimate *e)
{
    bool counted = e->graph->others.scan != 0 && e->options.reuse && !vc_estimate_trains(e) &&
                   !vc_memory_program_facts(e->options.program)->ideal;

    return e->graph->stands_in && has_frames(e->options.program) &&
           (e->graph->others.open || (e->graph->others.state && e->graph->others.sums[0] == NULL && !counted));
}

/* Weights, keys and values are known as those of any stand-in, all else is not. */
static void set_unbounded(struct vc_estimate *e)
{
    set_unknown(e,
                e->graph->others.state
                    ? "what its layers with a state or a convolution take while they compute is not known here"
                    : "what models of its type take while they compute is not known here",
                NULL);
    e->out->components[VC_MEMORY_KV_CACHE].known = VC_KNOWN_ASSUMED;
    vc_estimate_cache(e);
    vc_estimate_note_stand_in(e);
}

/* ---- all of it ---- */

/* One stage of a pipeline, or the whole model. */
enum vc_status vc_estimate_run(struct vc_estimate *e, unsigned stage)
{
    struct vc_memory_report teacher;
    bool by_metadata = false;
    enum vc_status status = VC_OK;

    VC_TRY(vc_check_cancelled(e->ctx));
    /* Training in vcompress itself: the plan of its engine, not a model of PyTorch. */
    if (e->options.trainer == VC_MEMORY_VCOMPRESS) {
        VC_TRY(vc_estimate_own_training(e));
        add_device(e);
        goto out;
    }
    if (e->graph != NULL) {
        VC_TRY(vc_storages_make(e->ctx, e->graph, &e->options, stage, &e->storages));
        vc_cache_find(&e->storages);
        vc_layers_begin(e);
        VC_TRY(vc_estimate_states(e));
    }
    VC_TRY(vc_estimate_weights(e));
    vc_estimate_divide(e);
    vc_estimate_notes(e);
    set_moment(e, VC_MOMENT_LOAD, bytes_on_device(e), 0, e->out->components[VC_MEMORY_PARAMETERS].known);
    if (e->graph == NULL) {
        VC_TRY(vc_estimate_by_metadata(e, &by_metadata));
    } else {
        e->out->max_positions = vc_graph_lists(e->graph)->max_positions;
    }
    /* Which way the need is known: by metadata, not at all, or by the graph. */
    if (by_metadata) {
        vc_estimate_note_bound(e);
        set_moments(e, NULL);
        e->out->moments[VC_MOMENT_PEAK].known = e->out->eager.known = VC_KNOWN_ASSUMED;
    } else if (e->graph == NULL) {
        set_unknown(e, "the file does not say what its model computes", NULL);
    } else if (e->storages.unknown != NULL) {
        set_unknown(e, "the size of a value depends on a size of the inputs that is not given", e->storages.unknown);
    } else if (e->storages.unknown_op != NULL) {
        set_unknown(e, "what the backward step of an operator needs is not known", e->storages.unknown_op);
    } else if (is_unbounded(e)) {
        set_unbounded(e);
    } else {
        vc_estimate_cache(e);
        VC_TRY(add_activations(e, stage));
        if (e->options.mode == VC_MEMORY_DISTILL) {
            VC_TRY(add_teacher(e, &teacher));
        }
        set_moments(e, &teacher);
        if (vc_estimate_trains(e) && e->options.recompute == VC_RECOMPUTE_AUTO) {
            uint64_t peak = e->out->moments[VC_MOMENT_PEAK].bytes;

            e->out->over_budget = peak - vc_min_u64(peak, e->options.budget_bytes);
        }
        if (e->options.allocator == VC_ALLOCATOR_PYTORCH && e->options.mode != VC_MEMORY_DISTILL && e->options.pp < 2 &&
            !e->overflow && !e->storages.overflow) { /* one sequence of requests */
            VC_TRY(vc_estimate_reserved(e));
        }
        if (e->options.mode == VC_MEMORY_DISTILL && teacher.unknown != NULL) {
            set_unknown(e, "what the teacher's forward pass takes is not known", NULL);
        }
        if (e->graph->stands_in) {
            vc_estimate_note_stand_in(e);
        }
    }
    if (e->unread != NULL) {
        set_unread(e);
    }
    add_device(e);
    if (e->overflow || e->storages.overflow) {
        status = vc_fail(e->ctx, VC_E_ARGUMENT, "sizes overflow 64 bits");
    }
out:
    if (e->storages.ctx != NULL) {
        vc_storages_release(&e->storages);
    }
    vc_free(e->ctx, e->parts);
    vc_free(e->ctx, e->requests.list);
    vc_timeline_release(e->ctx, &e->timeline);
    return status;
}

/* Every stage; the report is that of the one that was asked for, or that needs most. */
static enum vc_status run_stages(struct vc_estimate *e)
{
    struct vc_memory_report *out = e->out;
    struct vc_memory_stage stages[VC_MEMORY_STAGES];
    unsigned n = e->options.pp;

    for (unsigned k = 0; k < n; k++) {
        struct vc_memory_report own = {.peak_at = "", .eager_at = ""};
        struct vc_estimate one = *e;

        one.out = &own;
        VC_CALL(vc_estimate_run(&one, k));
        stages[k] = (struct vc_memory_stage){own.moments[VC_MOMENT_PEAK].bytes, own.stages[k].in_flight};
        bool best = e->options.stage == 0
                        ? k == 0 || own.moments[VC_MOMENT_PEAK].bytes > out->moments[VC_MOMENT_PEAK].bytes
                        : k + 1 == e->options.stage;
        if (best) {
            *out = own;
            out->stage = k + 1;
        }
    }
    out->n_stages = n;
    memcpy(out->stages, stages, n * sizeof stages[0]);
    return VC_OK;
}

/* Sizes of 0 mean 1; what has no meaning together is refused. */
static enum vc_status check(struct vc_estimate *e)
{
    struct vc_memory_options *o = &e->options;
    const char *scheme = o->scheme != NULL ? o->scheme : o->weights == VC_DTYPE_I8 ? "int8" : NULL;
    bool trains = vc_estimate_trains(e);

    o->allocator = o->trainer == VC_MEMORY_VCOMPRESS ? VC_ALLOCATOR_EXACT : o->allocator;
    o->dp += o->dp == 0;
    o->tp += o->tp == 0;
    o->pp += o->pp == 0;
    o->micro_batches += o->micro_batches == 0;
    bool several = o->tp > 1 || o->pp > 1;
    if ((unsigned)o->allocator > VC_ALLOCATOR_ONNXRUNTIME) {
        return vc_fail(e->ctx, VC_E_ARGUMENT, "there is no allocator %d", (int)o->allocator);
    }
    if (o->pp > VC_MEMORY_STAGES || o->stage > o->pp) {
        return vc_fail(e->ctx, VC_E_ARGUMENT, "%s: a pipeline has %d stages at most, and no stage behind its last one",
                       vc_option(e->ctx, "pp"), VC_MEMORY_STAGES);
    }
    VC_REFUSE_IF(o->zero > 3, e->ctx, VC_E_ARGUMENT, "%s: ZeRO has the stages 0 to 3", vc_option(e->ctx, "zero"));
    if (scheme != NULL && !vc_scheme_find(scheme, &e->scheme)) {
        return vc_fail(e->ctx, VC_E_ARGUMENT, "%s: no scheme is called '%s'", vc_option(e->ctx, "scheme"), scheme);
    }
    e->coded = scheme != NULL;
    if (trains && o->amp == VC_AMP_PURE && o->weights == VC_DTYPE_NONE) {
        o->weights = VC_DTYPE_F16;
    }
    VC_REFUSE_IF((trains || several || o->trainer != VC_MEMORY_PYTORCH) && e->graph == NULL, e->ctx, VC_E_ARGUMENT,
                 trains ? "training needs a graph: what the model computes"
                        : "what a device of several holds needs a graph: what the model computes");
    VC_REFUSE_IF(o->recompute == VC_RECOMPUTE_AUTO && (o->budget_bytes == 0 || o->pp > 1), e->ctx, VC_E_ARGUMENT,
                 o->pp > 1 ? "recomputation within a budget is for a model without a pipeline"
                           : "recomputation within a budget needs a budget");
    VC_REFUSE_IF(trains && e->coded && o->lora_rank == 0, e->ctx, VC_E_ARGUMENT, "training needs float weights");
    return VC_OK;
}

/* Weights in a scheme are what quantize makes of the model, in the layout of the program that runs it. Where it makes none,
 * and of a graph alone, the table of schemes says what they take (scheme.h). */
static enum vc_status take_made(struct vc_estimate *e)
{
    struct vc_memory_options *o = &e->options;
    const char *scheme = o->scheme != NULL ? o->scheme : o->weights == VC_DTYPE_I8 ? "int8" : NULL;
    const char *layout = NULL;
    const struct vc_made_as *made;
    const struct vc_search_place place = {.kinds = VC_SEARCH_BITSANDBYTES};
    const struct vc_search_scheme *kept;

    if (e->model == NULL || e->written != NULL || scheme == NULL || o->trainer != VC_MEMORY_PYTORCH ||
        (vc_estimate_trains(e) && o->lora_rank == 0)) {
        return VC_OK;
    }
    for (size_t at = 0; (kept = vc_search_next(&place, &at)) != NULL;) {
        layout = strcmp(kept->dtype, scheme) == 0 ? kept->layout : layout;
    }
    layout = layout != NULL && (o->program == VC_RUN_BY_PYTORCH || o->program == VC_RUN_BY_BITSANDBYTES) &&
                     vc_is_transformers_folder(e->ctx, e->model)
                 ? layout
                 : NULL;
    VC_CALL(vc_make_as(e->ctx, e->model, e->graph, scheme, layout, &made));
    if (made != NULL) {
        e->model = made->model;
        e->graph = made->graph != NULL ? made->graph : e->graph;
        e->written = &made->weights;
        o->scheme = NULL;
        o->weights = made->type;
        o->activations = o->activations == VC_DTYPE_NONE ? made->activations : o->activations;
    }
    e->by_table = made == NULL;
    return VC_OK;
}

enum vc_status vc_estimate_begin(struct vc_estimate *e, const struct vc_memory_options *options)
{
    static const uint64_t aligns[] = {1, 256, 512, 256};

    VC_CALL(vc_options_read(e->ctx, VC_OPTIONS(memory), options, &e->options));
    VC_CALL(take_made(e));
    e->type = vc_memory_float_type(e->graph, e->model);
    VC_CALL(check(e));
    e->floats = VC_DTYPE_NONE;
    if (e->model != NULL && e->options.runtime == VC_RUNTIME_DEQUANTIZE) {
        e->floats =
            vc_wider_type(e->graph, e->written != NULL ? vc_stored_type(e->written->tensors, e->written->n)
                                                       : vc_stored_type(e->model->tensors, e->model->n_tensors));
    }
    e->whole_groups = e->coded && e->model == NULL && e->graph != NULL && vc_graph_lists(e->graph)->max_positions != 0;
    e->keeps_values =
        e->model != NULL && !vc_estimate_trains(e) && strcmp(vc_model_facts(e->model)->format, "onnx") == 0;
    if (e->keeps_values && !e->coded) {
        e->options.weights = VC_DTYPE_NONE; /* Casts to the type of values stand behind them, which onnxruntime folds */
    }
    e->usual = e->options.activations == VC_DTYPE_NONE &&
               (e->keeps_values || (e->options.weights == VC_DTYPE_NONE && !e->coded));
    e->options.activations = e->usual ? e->type : e->options.activations;
    e->align = aligns[e->options.allocator];
    return VC_OK;
}

static enum vc_status estimate(struct vc_estimate *e, const struct vc_memory_options *options)
{
    vc_clear_error(e->ctx);
    *e->out = (struct vc_memory_report){.peak_at = "", .eager_at = ""};
    if (e->model != NULL && vc_model_need_weights(e->ctx, e->model) != VC_OK) {
        return vc_context(e->ctx, "%s", e->model->path);
    }
    VC_CALL(vc_estimate_begin(e, options));
    if (e->options.pp > 1) {
        VC_CALL(run_stages(e));
    } else {
        VC_CALL(vc_estimate_run(e, 0));
        e->out->n_stages = e->out->stage = 1;
        e->out->stages[0].peak_bytes = e->out->moments[VC_MOMENT_PEAK].bytes;
    }
    return e->graph != NULL ? vc_graph_check_sizes(e->ctx, e->graph, NULL, 0) : VC_OK;
}

enum vc_status vc_memory_estimate(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model,
                                  const struct vc_memory_options *options, struct vc_memory_report *out)
{
    struct vc_estimate e = {.ctx = ctx, .graph = graph, .model = model, .out = out};

    vc_call_begin(ctx);
    return vc_call_end(ctx, estimate(&e, options));
}

enum vc_status vc_memory_estimate_written(struct vc_ctx *ctx, const struct vc_graph *graph,
                                          const struct vc_model *model, const struct vc_memory_options *options,
                                          const struct vc_planned_weights *written, struct vc_memory_report *out)
{
    struct vc_estimate e = {.ctx = ctx, .graph = graph, .model = model, .written = written, .out = out};

    return estimate(&e, options);
}
