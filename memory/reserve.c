/* reserve.c - what PyTorch's allocator has taken from the device at the moments of a run: its requests are those of the
 * timeline, step by step, for two steps of training or one run of inference. The second step of training is the usual
 * one: gradients and states are there already, between what the first one left.
 *
 *     load      a request for each weight
 *     step 1    buffers of the timeline as they begin and end; gradients when they are made
 *     states    of the optimizer, which appear with the first step
 *     step 2    the same buffers again, among what stays */
#include <math.h>

#include "memory/estimate.h"

/* The list of requests, and what is needed to make it. */
struct requests {
    struct vc_estimate *e;
    struct vc_allocation *list;
    size_t n, capacity;
    uint32_t *by_first, *by_last; /* buffers of the timeline in the order of these steps */
    uint64_t *id;                 /* by buffer: the request that it was last made by */
    uint64_t *gradient_step;      /* by parameter of the graph; 0: it has none */
    uint64_t *gradient;           /* by parameter: its bytes */
    uint32_t *first_of_step;      /* by step: the first parameter whose gradient it makes; NULL: none makes any */
    uint32_t *next_of_step;       /* by parameter: the next one of its step */
    size_t marks[VC_MOMENTS];     /* requests before that moment */
};

/* Adds a request, and returns its number: to free it later. */
static uint64_t ask(struct requests *r, uint64_t bytes)
{
    r->list[r->n] = (struct vc_allocation){.bytes = bytes};
    return r->n++;
}

/* Part n of `whole` of the weights. Where it has a whole number of bytes for each element but for what its blocks are
 * rounded up to, the part has them, too: 4 MiB, and not a few bytes more, which would be another block. */
static uint64_t part(const struct requests *r, uint64_t n, uint64_t whole)
{
    uint64_t bytes = r->e->out->components[VC_MEMORY_PARAMETERS].bytes;
    double each = whole == 0 ? 0 : (double)bytes / (double)whole;

    each = fabs(each - round(each)) < 0.01 ? round(each) : each;
    return (uint64_t)((double)n * each);
}

/* ---- what stays ---- */

/* Each tensor as it is loaded; where these are not known, or divided, the parameters' shares of the whole. */
static void ask_weights(struct requests *r)
{
    const struct vc_estimate *e = r->e;
    uint64_t loaded = 0;
    uint64_t sum = 0;

    for (size_t k = 0; k < e->requests.n; k++) {
        loaded += e->requests.list[k].kind == VC_MEMORY_PARAMETERS ? e->requests.list[k].block : 0;
    }
    if (loaded == e->out->components[VC_MEMORY_PARAMETERS].bytes) {
        for (unsigned adapter = 0; adapter < 2; adapter++) {
            for (size_t k = 0; k < e->requests.n; k++) {
                if (e->requests.list[k].kind == VC_MEMORY_PARAMETERS && e->requests.list[k].adapter == (adapter != 0)) {
                    (void)ask(r, e->requests.list[k].bytes);
                }
            }
        }
        return;
    }
    for (uint32_t k = 0; k < vc_graph_param_count(e->graph); k++) {
        const struct vc_graph_param *param = vc_graph_param(e->graph, k);

        sum += vc_param_is_double(e, k) || !e->storages.used[param->value] ? 0 : vc_param_elems(r->e, param, false);
    }
    for (uint32_t k = 0; k < vc_graph_param_count(e->graph); k++) {
        const struct vc_graph_param *param = vc_graph_param(e->graph, k);

        if (!vc_param_is_double(e, k) && e->storages.used[param->value]) {
            (void)ask(r, part(r, vc_param_elems(r->e, param, false), sum));
        }
    }
}

/* Gradients and states that are shared or few come as one request each. */
static bool one_block(const struct requests *r)
{
    return r->e->options.zero != 0 || r->e->options.lora_rank != 0;
}

/* Gradients of the parameters whose backward step this is. */
static void ask_gradients(struct requests *r, uint64_t step)
{
    bool on_host = r->e->out->components[VC_MEMORY_GRADIENTS].bytes == 0;

    if (one_block(r) || on_host || r->first_of_step == NULL) {
        return;
    }
    for (uint32_t k = r->first_of_step[step]; k != VC_NO_PARAM; k = r->next_of_step[k]) {
        (void)ask(r, r->gradient[k]);
    }
}

/* In the order in which the optimizer makes them: masters, then states. */
static void ask_states(struct requests *r)
{
    const struct vc_requests *list = &r->e->requests;
    const struct vc_memory_part *c = r->e->out->components;
    const enum vc_memory_kind kinds[] = {VC_MEMORY_MASTER, VC_MEMORY_OPTIMIZER};
    uint64_t masters = c[VC_MEMORY_MASTER].bytes;

    for (size_t of = 0; of < 2 && !one_block(r); of++) {
        for (size_t k = 0; c[kinds[of]].bytes != 0 && k < list->n; k++) { /* else they are on the host */
            if (list->list[k].kind == kinds[of]) {
                (void)ask(r, list->list[k].bytes);
                masters -= of == 0 ? vc_min_u64(masters, list->list[k].block) : 0;
            }
        }
    }
    if (one_block(r)) {
        (void)ask(r, c[VC_MEMORY_OPTIMIZER].bytes);
    }
    (void)ask(r, masters); /* copies that autocast makes */
}

/* A cache of keys and values by layer; buffers of communication; the batch; gradients that come as one. */
static void ask_others(struct requests *r)
{
    const struct vc_memory_part *c = r->e->out->components;
    uint32_t layers = 0;

    for (uint32_t n = 0; n < r->e->storages.n_nodes; n++) {
        layers += vc_node_is(vc_graph_node(r->e->graph, n), VC_OP_attention);
    }
    for (uint32_t k = 0; c[VC_MEMORY_KV_CACHE].bytes != 0 && k < 2 * layers; k++) {
        (void)ask(r, c[VC_MEMORY_KV_CACHE].bytes / (2 * layers));
    }
    if (c[VC_MEMORY_COMMUNICATION].bytes != 0) {
        (void)ask(r, c[VC_MEMORY_COMMUNICATION].bytes);
    }
    if (vc_estimate_trains(r->e) && c[VC_MEMORY_INPUTS].bytes != 0) {
        (void)ask(r, c[VC_MEMORY_INPUTS].bytes);
    }
    if (one_block(r)) {
        (void)ask(r, c[VC_MEMORY_GRADIENTS].bytes);
    }
}

/* ---- what comes and goes ---- */

/* Buffers that begin with a step are asked for before those that end with it are freed. What lives to the end is freed
 * after it. */
static void ask_steps(struct requests *r, bool first_time)
{
    const struct vc_timeline *t = &r->e->timeline;
    size_t made = 0;
    size_t gone = 0;

    for (uint64_t step = 0; step < t->n_steps; step++) {
        for (; made < t->n && t->buffers[r->by_first[made]].first <= step; made++) {
            r->id[r->by_first[made]] = ask(r, t->buffers[r->by_first[made]].size_bytes);
        }
        if (first_time) {
            ask_gradients(r, step);
        }
        if (step == t->loss_step) {
            r->marks[VC_MOMENT_FORWARD] = r->n;
        }
        for (; gone < t->n && t->buffers[r->by_last[gone]].last <= step; gone++) {
            r->list[r->n++] = (struct vc_allocation){.id = r->id[r->by_last[gone]], .free = true};
        }
    }
    for (; gone < t->n; gone++) { /* outputs */
        r->list[r->n++] = (struct vc_allocation){.id = r->id[r->by_last[gone]], .free = true};
    }
}

/* Buffers by their first step, or by their last: counted, then put in order. Steps behind the end are the end. */
static enum vc_status sort(struct vc_ctx *ctx, const struct vc_timeline *t, bool last, uint32_t *sorted)
{
    uint64_t n_steps = t->n_steps + 1;
    uint32_t *begin = vc_calloc_array(ctx, VC_TAG_MISC, n_steps + 1, sizeof *begin);

    VC_CALL_ALLOC(begin);
    for (size_t k = 0; k < t->n; k++) {
        begin[1 + vc_min_u64(last ? t->buffers[k].last : t->buffers[k].first, t->n_steps)]++;
    }
    for (uint64_t step = 0; step < n_steps; step++) {
        begin[step + 1] += begin[step];
    }
    for (size_t k = 0; k < t->n; k++) {
        sorted[begin[vc_min_u64(last ? t->buffers[k].last : t->buffers[k].first, t->n_steps)]++] = (uint32_t)k;
    }
    vc_free(ctx, begin);
    return VC_OK;
}

/* The backward step of a parameter's last reader makes its gradient. */
static enum vc_status find_gradient_steps(struct requests *r)
{
    const struct vc_estimate *e = r->e;
    uint64_t *of_value = vc_calloc_array(e->ctx, VC_TAG_MISC, e->storages.n_values, sizeof *of_value);

    VC_CALL_ALLOC(of_value);
    for (uint64_t step = e->timeline.n_steps; step-- > e->timeline.loss_step + 1;) {
        uint32_t n = e->timeline.node_of[step];
        const struct vc_graph_node *node = n != VC_NO_NODE ? vc_graph_node(e->graph, n) : NULL;

        for (unsigned k = 0; node != NULL && !e->storages.idle[n] && k < node->n_inputs; k++) {
            if (node->inputs[k] != VC_NO_VALUE) {
                of_value[node->inputs[k]] = step;
            }
        }
    }
    for (uint32_t k = 0; k < vc_graph_param_count(e->graph); k++) {
        uint32_t v = vc_graph_param(e->graph, k)->value;

        r->gradient_step[k] =
            vc_estimate_trains(e) && e->storages.trained[v] && !vc_param_is_double(e, k) ? of_value[v] : 0;
    }
    vc_free(e->ctx, of_value);
    return VC_OK;
}

/* The parameters of each step, in their order. */
static enum vc_status list_gradients(struct requests *r)
{
    const struct vc_estimate *e = r->e;
    uint32_t n_params = vc_graph_param_count(e->graph);
    uint64_t n_steps = e->timeline.n_steps;

    if (!vc_estimate_trains(e)) {
        return VC_OK;
    }
    r->next_of_step = vc_alloc_array(e->ctx, VC_TAG_MISC, (size_t)n_params + 1, sizeof *r->next_of_step);
    r->first_of_step = vc_alloc_array(e->ctx, VC_TAG_MISC, n_steps + 1, sizeof *r->first_of_step);
    if (r->next_of_step == NULL || r->first_of_step == NULL) {
        return VC_E_NOMEM;
    }
    for (uint64_t step = 0; step <= n_steps; step++) {
        r->first_of_step[step] = VC_NO_PARAM;
    }
    for (uint32_t k = n_params; k-- > 0;) {
        if (r->gradient_step[k] != 0) {
            r->next_of_step[k] = r->first_of_step[r->gradient_step[k]];
            r->first_of_step[r->gradient_step[k]] = k;
        }
    }
    return VC_OK;
}

/* The room is what all stages may ask for. The moments are marked by the number of requests before them. */
static enum vc_status make_requests(struct requests *r)
{
    struct vc_estimate *e = r->e;
    size_t n_params = vc_graph_param_count(e->graph);
    size_t n = e->timeline.n;

    r->capacity = e->requests.n + n_params + 4 * n + 2 * (size_t)e->storages.n_nodes + 16;
    r->list = vc_alloc_array(e->ctx, VC_TAG_MISC, r->capacity, sizeof *r->list);
    r->by_first = vc_alloc_array(e->ctx, VC_TAG_MISC, n, sizeof *r->by_first);
    r->by_last = vc_alloc_array(e->ctx, VC_TAG_MISC, n, sizeof *r->by_last);
    r->id = vc_alloc_array(e->ctx, VC_TAG_MISC, n, sizeof *r->id);
    r->gradient_step = vc_calloc_array(e->ctx, VC_TAG_MISC, n_params, sizeof *r->gradient_step);
    r->gradient = vc_calloc_array(e->ctx, VC_TAG_MISC, n_params + 1, sizeof *r->gradient);
    if (r->gradient == NULL || r->list == NULL || r->by_first == NULL || r->by_last == NULL || r->id == NULL ||
        r->gradient_step == NULL) {
        return VC_E_NOMEM;
    }
    for (size_t k = 0; k < e->requests.n; k++) {
        const struct vc_request *request = &e->requests.list[k];

        if (request->kind == VC_MEMORY_GRADIENTS && request->param != VC_NO_PARAM) {
            r->gradient[request->param] = request->bytes;
        }
    }
    VC_CALL(sort(e->ctx, &e->timeline, false, r->by_first));
    VC_CALL(sort(e->ctx, &e->timeline, true, r->by_last));
    VC_CALL(find_gradient_steps(r));
    VC_CALL(list_gradients(r));
    ask_weights(r);
    r->marks[VC_MOMENT_LOAD] = r->n;
    ask_others(r);
    ask_steps(r, true);
    if (vc_estimate_trains(e)) {
        ask_states(r);
        ask_steps(r, false);
    }
    r->marks[VC_MOMENT_PEAK] = r->marks[VC_MOMENT_STEP] = r->n;
    return VC_OK;
}

/* The allocator is run once on the whole list; `after` has what it holds behind each request. */
enum vc_status vc_estimate_reserved(struct vc_estimate *e)
{
    struct requests r = {.e = e};
    uint64_t *after = NULL;
    struct vc_allocated total;
    enum vc_status status;

    VC_TRY(make_requests(&r));
    VC_TRY(VC_ARRAY(e->ctx, VC_TAG_MISC, after, r.n));
    VC_TRY(vc_allocator_trace(e->ctx, r.list, r.n, &total, after, NULL));
    for (enum vc_moment m = 0; m < VC_MOMENTS; m++) {
        e->out->reserved[m] = (struct vc_memory_part){r.marks[m] == 0 ? 0 : after[r.marks[m] - 1], VC_KNOWN_MODELLED};
    }
out:
    vc_free(e->ctx, after);
    vc_free(e->ctx, r.gradient);
    vc_free(e->ctx, r.gradient_step);
    vc_free(e->ctx, r.next_of_step);
    vc_free(e->ctx, r.first_of_step);
    vc_free(e->ctx, r.id);
    vc_free(e->ctx, r.by_last);
    vc_free(e->ctx, r.by_first);
    vc_free(e->ctx, r.list);
    return status;
}
