/* state_blocks.c - weights, gradients and states as blocks of memory: a list of requests, and what PyTorch's allocator
 * gives for them. It leaves a block whole of which too little would remain, so that a tensor takes more than its bytes:
 * up to 1 MiB where it is large.
 *
 * The order of the requests is that of a program that trains: weights as they are loaded, adapters, the gradients as
 * the first backward pass makes them, the masters, then the states of each weight in the optimizer's first step. What
 * activations leave between them is not known to any estimate, and no part of this. */

#include "core/base/array.h"
#include "memory/estimate.h"

#define AUTOCAST_COPY(e) ((e)->options.amp != VC_AMP_PURE)

void vc_estimate_request(struct vc_estimate *e, enum vc_memory_kind kind, uint64_t bytes, uint32_t param, bool adapter,
                         const char *tensor)
{
    struct vc_requests *r = &e->requests;

    vc_estimate_add(e, kind, bytes);
    if (VC_GROW(e->ctx, VC_TAG_MISC, r->list, r->capacity, r->n + 1) != VC_OK) {
        r->failed = true;
        return;
    }
    r->list[r->n++] = (struct vc_request){bytes, bytes, param, (uint8_t)kind, adapter, tensor};
}

/* ---- the order ---- */

/* The node that reads each parameter of the graph last: its backward step makes the gradient. */
static void find_readers(const struct vc_estimate *e, uint32_t *reader)
{
    for (uint32_t n = 0; n < e->storages.n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(e->graph, n);

        for (unsigned k = 0; !e->storages.idle[n] && k < node->n_inputs; k++) {
            if (node->inputs[k] != VC_NO_VALUE) {
                reader[node->inputs[k]] = n;
            }
        }
    }
}

/* Numbers of the gradients in the order in which the backward pass makes them, at order[*n] and behind; those of one
 * node in the order of its weights. Lists by node: first[node], next[request]. */
static void order_gradients(const struct vc_estimate *e, const uint32_t *reader, size_t *first, size_t *next,
                            size_t *order, size_t *n)
{
    const struct vc_requests *r = &e->requests;

    for (uint32_t node = 0; node < e->storages.n_nodes; node++) {
        first[node] = SIZE_MAX;
    }
    for (size_t k = r->n; k-- > 0;) {
        if (r->list[k].kind == VC_MEMORY_GRADIENTS && r->list[k].param != VC_NO_PARAM) {
            uint32_t node = reader[vc_graph_param(e->graph, r->list[k].param)->value];

            next[k] = first[node];
            first[node] = k;
        }
    }
    for (uint32_t node = e->storages.n_nodes; node-- > 0;) {
        for (size_t k = first[node]; k != SIZE_MAX; k = next[k]) {
            order[(*n)++] = k;
        }
    }
}

/* Adapters' gradients: the last one's first. */
static void order_adapters(const struct vc_requests *r, size_t *order, size_t *n)
{
    for (size_t k = r->n; k-- > 0;) {
        if (r->list[k].kind == VC_MEMORY_GRADIENTS && r->list[k].adapter) {
            order[(*n)++] = k;
        }
    }
}

static void order_kind(const struct vc_requests *r, enum vc_memory_kind kind, bool adapter, size_t *order, size_t *n)
{
    for (size_t k = 0; k < r->n; k++) {
        if (r->list[k].kind == kind && r->list[k].adapter == adapter) {
            order[(*n)++] = k;
        }
    }
}

/* Which requests an allocator gets, one after the other. Autocast's copies come and go with every step. */
static enum vc_status order_all(struct vc_estimate *e, size_t *order, size_t *n)
{
    struct vc_requests *r = &e->requests;
    size_t n_nodes = e->graph != NULL ? e->storages.n_nodes : 0;
    size_t n_values = e->graph != NULL ? e->storages.n_values : 0;
    VC_SCOPED uint32_t *reader = vc_calloc_array(e->ctx, VC_TAG_MISC, n_values + 1, sizeof *reader);
    VC_SCOPED size_t *first = vc_alloc_array(e->ctx, VC_TAG_MISC, n_nodes + 1, sizeof *first);
    VC_SCOPED size_t *next = vc_alloc_array(e->ctx, VC_TAG_MISC, r->n + 1, sizeof *next);

    VC_CALL_ALLOC(reader);
    VC_CALL_ALLOC(first);
    VC_CALL_ALLOC(next);
    *n = 0;
    order_kind(r, VC_MEMORY_PARAMETERS, false, order, n);
    order_kind(r, VC_MEMORY_PARAMETERS, true, order, n);
    if (e->graph != NULL && vc_estimate_trains(e) && e->options.zero == 0) { /* ZeRO has them in buffers of its own */
        find_readers(e, reader);
        order_gradients(e, reader, first, next, order, n);
        order_adapters(r, order, n);
        if (!AUTOCAST_COPY(e)) {
            order_kind(r, VC_MEMORY_MASTER, false, order, n);
        }
        order_kind(r, VC_MEMORY_OPTIMIZER, false, order, n);
        order_kind(r, VC_MEMORY_OPTIMIZER, true, order, n);
    }
    return VC_OK;
}

enum vc_status vc_estimate_allocate(struct vc_estimate *e)
{
    struct vc_requests *r = &e->requests;
    VC_SCOPED struct vc_allocation *asked = NULL;
    VC_SCOPED uint64_t *given = NULL;
    VC_SCOPED size_t *order = NULL;
    struct vc_allocated total;
    size_t n = 0;

    if (r->failed) {
        return VC_E_NOMEM;
    }
    if (e->options.allocator != VC_ALLOCATOR_PYTORCH || e->overflow) {
        return VC_OK;
    }
    VC_CALL(VC_ARRAY(e->ctx, VC_TAG_MISC, order, r->n + 1));
    VC_CALL(order_all(e, order, &n));
    VC_CALL(VC_ZEROS(e->ctx, VC_TAG_MISC, asked, n + 1));
    VC_CALL(VC_ARRAY(e->ctx, VC_TAG_MISC, given, n + 1));
    for (size_t k = 0; k < n; k++) {
        asked[k].bytes = r->list[order[k]].bytes;
    }
    VC_CALL(vc_allocator_trace(e->ctx, asked, n, &total, NULL, given));
    for (size_t k = 0; k < n; k++) {
        struct vc_request *request = &r->list[order[k]];

        request->block = given[k];
        vc_estimate_add(e, request->kind, given[k] - vc_min_u64(given[k], request->bytes)); /* bytes are rounded */
    }
    return VC_OK;
}
