/* timeline.c - see timeline.h: when each storage is made, and until when something needs it.
 *
 * Training, for nodes 0 to N - 1; recomputed parts come before their backward steps:
 *
 *     step      0 .. N - 1          N, N + 1    N + 2 ..                                                  last
 *               forward             loss        parts again, backward from the last node to the first     optimizer
 *     buffer    |--- activation, made by node 2, until its backward step ---|
 *                                               |-- gradient --| */

#include "memory/timeline/timeline.h"
#include "core/base/array.h"
#include "core/base/checked.h"

#define NO_STEP UINT64_MAX

/* When something of a value is needed: as the forward pass makes it, and as it is made again. */
struct span {
    uint64_t last;         /* of the first making, which begins with its node; NO_STEP: it is not made there */
    uint64_t again, until; /* of the second */
};

/* While the timeline is made. NO_STEP stands for none. */
struct maker {
    struct vc_ctx *ctx;
    const struct vc_storages *s;
    struct vc_timeline *out;
    uint32_t *part;    /* by node: of those that are computed again together, from 1 on; 0: not computed again */
    uint64_t *redo;    /* by node: the step in which it is computed again; NO_STEP: none */
    uint64_t *back;    /* by node: of its backward step */
    uint64_t *done;    /* by node: the last backward step of its part; without one, its own */
    struct span *span; /* by root */
    uint64_t *grad_first, *grad_last; /* by root of gradients; NO_STEP: none */
    uint32_t node;                    /* of what is added: vc_timeline.maker */
    enum vc_status status;
};

/* A buffer that lives from step first to last; nothing where it has no bytes. The first failure stays in m->status. */
static void add(struct maker *m, uint64_t bytes, uint64_t first, uint64_t last, enum vc_memory_kind kind)
{
    struct vc_timeline *t = m->out;

    if (bytes == 0 || m->status != VC_OK) {
        return;
    }
    for (unsigned k = 0; k < 3 && m->status == VC_OK; k++) {
        m->status = k == 0   ? VC_GROW(m->ctx, VC_TAG_MISC, t->buffers, t->capacity[k], t->n + 1)
                    : k == 1 ? VC_GROW(m->ctx, VC_TAG_MISC, t->kinds, t->capacity[k], t->n + 1)
                             : VC_GROW(m->ctx, VC_TAG_MISC, t->maker, t->capacity[k], t->n + 1);
    }
    if (m->status != VC_OK) {
        return;
    }
    t->buffers[t->n] = (struct vc_buffer){.size_bytes = bytes, .first = first, .last = last};
    t->maker[t->n] = m->node;
    t->kinds[t->n++] = (uint8_t)kind;
}

/* ---- which nodes are computed again, together ---- */

/* Which nodes are computed again together, by the option for it. */
static void divide(struct maker *m)
{
    const struct vc_memory_options *o = m->s->options;

    if (o->recompute == VC_RECOMPUTE_LAYER) {
        vc_parts_by_layers(m->s->graph, m->part);
    } else if (o->recompute == VC_RECOMPUTE_AUTO && m->s->parts != NULL) {
        memcpy(m->part, m->s->parts, m->s->n_nodes * sizeof *m->part);
    } else if (o->recompute == VC_RECOMPUTE_SQRT || o->recompute == VC_RECOMPUTE_EVERY) {
        vc_parts_by_weights(m->s->graph, o->recompute == VC_RECOMPUTE_EVERY ? o->recompute_every : 0, m->part);
    } else {
        memset(m->part, 0, m->s->n_nodes * sizeof *m->part);
    }
}

/* Numbers the steps: forward, two for the loss, then backward, and one for the optimizer. */
static void number_steps(struct maker *m)
{
    uint32_t n = m->s->n_nodes;
    uint64_t step = (uint64_t)n + 2;

    for (uint32_t i = 0; i < n; i++) {
        m->out->node_of[i] = i;
        m->redo[i] = NO_STEP;
    }
    m->out->node_of[n] = m->out->node_of[n + 1] = VC_NO_NODE;
    m->out->loss_step = n;
    while (n > 0) {
        uint32_t end = n;
        uint32_t part = m->part[n - 1];

        while (n > 0 && m->part[n - 1] == part) {
            n--;
        }
        for (uint32_t i = n; part != 0 && i < end; i++) {
            m->out->node_of[step] = i;
            m->redo[i] = step++;
        }
        for (uint32_t i = end; i > n; i--) {
            m->out->node_of[step] = i - 1;
            m->back[i - 1] = step++;
        }
        for (uint32_t i = n; i < end; i++) {
            m->done[i] = part != 0 ? m->back[n] : m->back[i];
        }
    }
    m->out->node_of[step] = VC_NO_NODE;
    m->out->n_steps = step + 1;
    for (uint32_t i = 0; i < m->s->n_nodes; i++) {
        int64_t macs = m->s->idle[i] ? 0 : vc_graph_dim_value(m->s->graph, vc_graph_node(m->s->graph, i)->macs);

        m->out->n_forward += macs < 0 ? 0 : (uint64_t)macs;
        m->out->recomputed += macs < 0 || m->redo[i] == NO_STEP ? 0 : (uint64_t)macs;
    }
}

/* ---- values ---- */

/* The node that makes the storage. */
static uint32_t maker_of(const struct maker *m, uint32_t root)
{
    return vc_graph_value(m->s->graph, root)->node;
}

static bool is_result(const struct maker *m, uint32_t v)
{
    return vc_graph_value(m->s->graph, v)->kind == VC_VALUE_RESULT;
}

/* The backward step of the node, or its second computation, needs the value. */
static void need(void *user, uint32_t node, uint32_t value, bool saved)
{
    struct maker *m = user;
    uint32_t root = m->s->root[value];
    struct span *span = &m->span[root];
    uint32_t from = maker_of(m, root);
    uint64_t until = saved ? m->back[node] : m->redo[node];

    if (until == NO_STEP || !is_result(m, root)) {
        return;
    }
    if (m->part[node] != 0 && m->part[from] == m->part[node] && !m->s->idle[from]) {
        span->again = m->redo[from];
        span->until = vc_max_u64(span->until, until);
    } else {
        span->last = vc_max_u64(span->last, m->done[node]); /* a checkpoint has its inputs until then */
    }
}

/* Each use makes the span of a value longer, or asks for it once more behind the loss. */
static void need_values(struct maker *m)
{
    struct vc_liveness_policy policy = vc_storages_policy(m->s);

    for (uint32_t n = 0; n < m->s->n_nodes; n++) {
        vc_liveness_each(m->s->graph, &policy, n, need, m);
    }
}

/* A storage that is computed again has two lives: until its last use in the forward pass, and from its part on. */
static void add_values(struct maker *m)
{
    const struct vc_storages *s = m->s;

    for (uint32_t v = 0; v < s->n_values; v++) {
        const struct span *span = &m->span[v];

        if (s->root[v] != v || !is_result(m, v)) {
            continue;
        }
        m->node = maker_of(m, v);
        /* what lives at the loss because it is an output is not kept for the backward pass */
        add(m, s->bytes[v], maker_of(m, v), span->last,
            span->last > m->out->loss_step ? VC_MEMORY_ACTIVATIONS : VC_MEMORY_TRANSIENT);
        if (span->again != NO_STEP) {
            add(m, s->bytes[v], span->again, span->until, VC_MEMORY_ACTIVATIONS);
        }
    }
}

/* What a node keeps or takes beside values. */
static void add_extra(struct maker *m, uint32_t n, uint64_t bytes, bool saved)
{
    m->node = n;
    if (!saved) {
        add(m, bytes, n, n, VC_MEMORY_TRANSIENT);
    } else if (m->redo[n] == NO_STEP) {
        add(m, bytes, n, m->back[n], VC_MEMORY_ACTIVATIONS);
    } else {
        add(m, bytes, n, n, VC_MEMORY_TRANSIENT);
        add(m, bytes, m->redo[n], m->back[n], VC_MEMORY_ACTIVATIONS);
    }
}

/* Weights that a node has as floats: while it computes, computes again, and in its backward step. */
static void add_decoded(struct maker *m, uint32_t n)
{
    uint64_t bytes = vc_storages_decoded_bytes(m->s, n);

    m->node = VC_NO_NODE;
    add(m, bytes, n, n, VC_MEMORY_TRANSIENT);
    if (m->s->options->mode != VC_MEMORY_INFER) {
        add(m, bytes, m->back[n], m->back[n], VC_MEMORY_TRANSIENT);
    }
    if (m->redo[n] != NO_STEP) {
        add(m, bytes, m->redo[n], m->redo[n], VC_MEMORY_TRANSIENT);
    }
}

/* What nodes take beside their values: workspaces, saved statistics, decoded weights, casts. */
static void add_extras(struct maker *m)
{
    const struct vc_storages *s = m->s;
    bool trains = s->options->mode != VC_MEMORY_INFER;
    bool zeros = false;

    for (uint32_t n = 0; n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);
        uint64_t transient;
        uint64_t bytes = vc_storages_extra_bytes(s, n, &transient);

        add_extra(m, n, bytes, trains);
        add_extra(m, n, transient, false);
        add_decoded(m, n);
        if (trains) {
            add(m, vc_storages_backward_bytes(s, n), m->back[n], m->back[n], VC_MEMORY_TRANSIENT);
        }
        if (trains && !zeros && vc_storages_zeros(s, n) != 0) {
            zeros = true;
            if (s->options->recompute == VC_RECOMPUTE_NONE) {
                add(m, vc_storages_zeros(s, n), n, m->back[n], VC_MEMORY_ACTIVATIONS);
            } else { /* an output of its part, which has a gradient: both are there to the end of the backward pass */
                add(m, vc_storages_zeros(s, n), n, m->out->n_steps - 2, VC_MEMORY_ACTIVATIONS);
                add(m, vc_storages_zeros(s, n), m->out->loss_step + 1, m->out->n_steps - 2, VC_MEMORY_TRANSIENT);
            }
        }
        if (trains && s->options->recompute == VC_RECOMPUTE_SELECTIVE && vc_node_is(node, VC_OP_attention)) {
            add(m, transient, m->back[n], m->back[n], VC_MEMORY_TRANSIENT); /* its scores, once more */
        }
        for (unsigned k = 0; k < node->n_inputs; k++) {
            add_extra(m, n, vc_storages_cast_bytes(s, n, k), trains && vc_storages_saves(s, n, k));
        }
    }
}

/* ---- gradients ---- */

/* The gradient lives from its first writer to its last reader. */
static void note_gradient(struct maker *m, uint32_t v, uint64_t step)
{
    uint32_t root = m->s->grad_root[v];

    if (m->s->trained[v] && !m->s->inside[v] && is_result(m, v)) {
        m->grad_first[root] = vc_min_u64(m->grad_first[root], step);
        m->grad_last[root] = m->grad_last[root] == NO_STEP ? step : vc_max_u64(m->grad_last[root], step);
    }
}

/* The parameter v, or the earlier one from the same tensor: a table of words that is the output layer, too. */
static uint32_t first_of_tied(const struct vc_storages *s, uint32_t v)
{
    const struct vc_graph_param *param = vc_graph_param(s->graph, vc_graph_value(s->graph, v)->param);

    return param->tied_to != VC_NO_PARAM ? vc_graph_param(s->graph, param->tied_to)->value : v;
}

/* When the nodes that read parameters make their gradients. */
static void note_weights(struct maker *m)
{
    for (uint32_t n = 0; n < m->s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(m->s->graph, n);

        for (unsigned k = 0; !m->s->idle[n] && k < node->n_inputs; k++) {
            uint32_t v = node->inputs[k];

            if (v != VC_NO_VALUE && m->s->trained[v] && vc_graph_value(m->s->graph, v)->kind == VC_VALUE_PARAMETER) {
                v = first_of_tied(m->s, v);
                m->grad_first[v] = vc_min_u64(m->grad_first[v], m->back[n]);
                m->grad_last[v] = m->grad_last[v] == NO_STEP ? m->back[n] : vc_max_u64(m->grad_last[v], m->back[n]);
            }
        }
    }
}

/* Of a weight that several nodes read, the first gradient waits for the others; each sum is another tensor. */
static void add_weight_gradient(struct maker *m, uint32_t n, uint32_t v)
{
    uint32_t all = first_of_tied(m->s, v);
    uint64_t step = m->back[n];

    add(m, vc_storages_gradient_bytes(m->s, n, v), step, step, VC_MEMORY_TRANSIENT);
    if (step != m->grad_first[all]) {
        add(m, m->s->bytes[v], step, step, VC_MEMORY_TRANSIENT);
    } else if (m->grad_last[all] != step) {
        add(m, m->s->bytes[v], step + 1, m->grad_last[all], VC_MEMORY_TRANSIENT);
    }
}

/* What the backward step of the node makes of the gradient of a value that others have begun, before the two are one; that
 * of numbers by position is counted with attention's (vc_storages_backward_bytes). */
static void add_contributions(struct maker *m, uint32_t n)
{
    const struct vc_storages *s = m->s;
    const struct vc_graph_node *node = vc_graph_node(s->graph, n);
    uint32_t y = node->n_outputs != 0 ? node->outputs[0] : VC_NO_VALUE;

    for (unsigned k = 0; !s->idle[n] && (s->eager[n] & VC_EAGER_SAME_GRAD) == 0 && k < node->n_inputs; k++) {
        uint32_t v = node->inputs[k];

        if (v != VC_NO_VALUE && s->trained[v] && !s->inside[v] && is_result(m, v) && v != vc_storages_bias(s, n) &&
            m->grad_first[s->grad_root[v]] < m->back[n] && (y == VC_NO_VALUE || s->grad_root[v] != s->grad_root[y])) {
            add(m, s->bytes[v], m->back[n], m->back[n], VC_MEMORY_TRANSIENT);
        }
    }
}

/* Of values and of weights. Values have one as long as something needs it; those of weights stay until the optimizer's
 * step. */
static void add_gradients(struct maker *m)
{
    const struct vc_storages *s = m->s;

    m->node = VC_NO_NODE;
    note_weights(m);
    for (uint32_t n = 0; n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);

        for (unsigned k = 0; !s->idle[n] && k < node->n_inputs + node->n_outputs; k++) {
            uint32_t v = k < node->n_inputs ? node->inputs[k] : node->outputs[k - node->n_inputs];

            if (v == VC_NO_VALUE) {
                continue;
            }
            note_gradient(m, v, m->back[n]);
            if (k < node->n_inputs && s->trained[v] && vc_graph_value(s->graph, v)->kind == VC_VALUE_PARAMETER &&
                !vc_is_recurrent(node)) {
                add_weight_gradient(m, n, v);
            }
        }
    }
    for (uint32_t k = 0; k < vc_graph_output_count(s->graph); k++) {
        note_gradient(m, vc_graph_output(s->graph, k), m->out->loss_step + 1);
    }
    for (uint32_t n = 0; n < s->n_nodes; n++) {
        add_contributions(m, n);
    }
    for (uint32_t v = 0; v < s->n_values; v++) {
        if (m->grad_first[v] != NO_STEP && is_result(m, v)) {
            add(m, s->bytes[v], m->grad_first[v], m->grad_last[v], VC_MEMORY_TRANSIENT);
        }
    }
}

/* Cross-entropy over the classes of the first output, in f32. The logarithms of the probabilities are kept; logits of
 * half precision have a copy while these are made. The backward step makes the gradient of the logarithms, then that of
 * the logits from both; a gradient of half precision is made of that, when the others are gone. */
static void add_loss(struct maker *m)
{
    const struct vc_storages *s = m->s;
    uint32_t v = vc_graph_output_count(s->graph) != 0 ? vc_graph_output(s->graph, 0) : VC_NO_VALUE;

    if (v != VC_NO_VALUE && s->trained[v]) {
        uint64_t n = s->bytes[v] / s->width[v];

        add(m, n * 4, m->out->loss_step, m->out->loss_step + 1, VC_MEMORY_ACTIVATIONS);
        add(m, s->width[v] == 2 ? n * 4 : 0, m->out->loss_step, m->out->loss_step, VC_MEMORY_TRANSIENT);
        add(m, s->width[v] == 2 ? n * 6 : n * 4, m->out->loss_step + 1, m->out->loss_step + 1, VC_MEMORY_TRANSIENT);
    }
}

/* ---- the optimizer ---- */

/* Beside gradients and states, when activations are gone: the roots of all second moments, a tensor for each weight, which
 * finds room in what activations left (one for all would not), and one for the shard of ZeRO; or of one weight the root and
 * the quotient of that. Adafactor, which PyTorch always computes that way, has two copies of a gradient. */
static void add_optimizer(struct maker *m)
{
    const struct vc_storages *s = m->s;
    const struct vc_memory_options *o = s->options;
    bool adam = o->optimizer == VC_OPTIMIZER_ADAM || o->optimizer == VC_OPTIMIZER_ADAMW;
    bool each = adam && o->foreach_step != 0;
    uint64_t step = m->out->n_steps - 1;
    uint64_t largest = 0;
    uint64_t all = 0;

    if ((!adam && o->optimizer != VC_OPTIMIZER_ADAFACTOR) || o->offload != VC_OFFLOAD_NONE) {
        return;
    }
    for (uint32_t v = 0; v < s->n_values; v++) {
        if (s->trained[v] && vc_graph_value(s->graph, v)->kind == VC_VALUE_PARAMETER) {
            uint64_t bytes = s->bytes[v] / s->width[v] * (o->amp == VC_AMP_PURE ? 4 : s->width[v]);

            largest = vc_max_u64(largest, bytes);
            all += bytes;
            add(m, each && o->zero == 0 ? bytes : 0, step, step, VC_MEMORY_TRANSIENT);
        }
    }
    all /= o->zero != 0 && o->dp > 1 ? o->dp : 1;
    add(m, !each ? 2 * largest : o->zero != 0 ? all : 0, step, step, VC_MEMORY_TRANSIENT);
}

/* ---- inference ---- */

/* llama.cpp makes the masks of attention once, of f32 for each position in work and each that is read, and a copy of
 * f16 for one kernel; they live from the first attention to the last. Layers with a window share another one. Without one
 * kernel another result of attention's size is there in logs: the heads side by side. */
static void add_masks(struct maker *m)
{
    const struct vc_storages *s = m->s;
    uint32_t first = VC_NO_NODE;
    uint32_t last = 0;
    uint64_t most = 0;
    uint64_t least = UINT64_MAX;
    uint64_t beside = 0;

    for (uint32_t n = 0; s->options->program == VC_RUN_BY_LLAMA_CPP && n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);

        if (vc_node_is(node, VC_OP_attention) && !s->idle[n]) {
            uint64_t heads = vc_max_u64((uint64_t)vc_node_int(node, "q_num_heads", 1), 1);
            uint64_t bytes = vc_storages_scores(s, n) / heads * (vc_storages_fused(s, n) ? 6 : 4);

            first = first == VC_NO_NODE ? n : first;
            last = n;
            most = vc_max_u64(most, bytes);
            least = vc_min_u64(least, bytes);
            beside = vc_max_u64(beside, vc_storages_fused(s, n) ? 0 : s->bytes[node->outputs[0]]);
        }
    }
    if (first != VC_NO_NODE) {
        m->node = first;
        add(m, most + (least != most ? least : 0) + beside, first, last, VC_MEMORY_TRANSIENT);
    }
}

/* Checkpoints of transformers keep what a layer is given: where attention is products, the mask for what comes later, of
 * the type of the values, another one where layers have a window; to the backward step of the first layer. */
static void add_checkpointed_masks(struct maker *m)
{
    const struct vc_storages *s = m->s;
    uint64_t last[2] = {0, 0}; /* without, with a window: the backward step of the first attention; 0: there is none */

    for (uint32_t n = 0; s->options->recompute == VC_RECOMPUTE_LAYER && n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);
        bool attends = vc_node_is(node, VC_OP_attention) && !s->idle[n] && !vc_storages_fused(s, n);
        bool window = attends && vc_attention_window(s->graph, node) != 0;

        if (attends && last[window] == 0 && (window || vc_node_int(node, "is_causal", 0) != 0)) {
            uint64_t heads = vc_max_u64((uint64_t)vc_node_int(node, "q_num_heads", 1), 1);

            last[window] = m->back[n];
            m->node = n;
            add(m, vc_storages_scores(s, n) / heads * s->width[node->outputs[0]], n, m->back[n], VC_MEMORY_ACTIVATIONS);
        }
    }
}

/* Without reuse all values live until the end, as in a program that plans nothing. */
static void add_inference(struct maker *m)
{
    const struct vc_storages *s = m->s;
    uint64_t end = s->n_nodes == 0 ? 0 : s->n_nodes - 1U;

    for (uint32_t v = 0; v < s->n_values; v++) {
        enum vc_value_kind kind = vc_graph_value(s->graph, v)->kind;
        uint64_t first = kind == VC_VALUE_RESULT && s->options->reuse ? maker_of(m, v) : 0;
        uint64_t last = s->options->reuse ? vc_min_u64(s->last_use[v], end) : end;

        if (s->frames.until != NULL && s->options->reuse) {
            last = vc_min_u64(s->frames.until[v], end);
        }
        if (kind == VC_VALUE_INPUT && vc_storages_by_onnxruntime(s)) {
            last = end; /* who calls Run has them */
        }
        m->node = kind == VC_VALUE_RESULT ? maker_of(m, v) : VC_NO_NODE;
        if (s->root[v] == v && (kind == VC_VALUE_RESULT || kind == VC_VALUE_INPUT)) {
            add(m, s->bytes[v], first, last, kind == VC_VALUE_INPUT ? VC_MEMORY_INPUTS : VC_MEMORY_ACTIVATIONS);
        }
    }
    for (uint32_t n = 0; n < s->n_nodes; n++) {
        m->out->node_of[n] = m->node = n;
        if (s->frames.until != NULL) {
            add(m, s->frames.extra[n], n, n, VC_MEMORY_TRANSIENT);
            add(m, vc_storages_prefilled(s, n), 0, n, VC_MEMORY_TRANSIENT);
            add(m, s->frames.kept[n], n + 1, vc_min_u64(s->frames.kept_until[n], end), VC_MEMORY_TRANSIENT);
        }
    }
    m->out->n_steps = s->n_nodes;
    m->out->loss_step = end;
}

/* Arrays by node and by value, with nothing in them yet. */
static enum vc_status allocate(struct maker *m)
{
    uint32_t nodes = m->s->n_nodes;
    uint32_t values = m->s->n_values;

    m->out->node_of = vc_alloc_array(m->ctx, VC_TAG_MISC, (size_t)nodes + 1, 3 * sizeof(uint32_t));
    m->part = vc_alloc_array(m->ctx, VC_TAG_MISC, nodes, sizeof *m->part);
    m->redo = vc_alloc_array(m->ctx, VC_TAG_MISC, nodes, sizeof *m->redo);
    m->back = vc_calloc_array(m->ctx, VC_TAG_MISC, nodes, sizeof *m->back);
    m->done = vc_alloc_array(m->ctx, VC_TAG_MISC, nodes, sizeof *m->done);
    m->span = vc_alloc_array(m->ctx, VC_TAG_MISC, values, sizeof *m->span);
    m->grad_first = vc_alloc_array(m->ctx, VC_TAG_MISC, values, sizeof *m->grad_first);
    m->grad_last = vc_alloc_array(m->ctx, VC_TAG_MISC, values, sizeof *m->grad_last);
    if (m->out->node_of == NULL || m->part == NULL || m->redo == NULL || m->back == NULL || m->done == NULL ||
        m->span == NULL || m->grad_first == NULL || m->grad_last == NULL) {
        return VC_E_NOMEM;
    }
    for (uint32_t v = 0; v < values; v++) {
        m->span[v] = (struct span){m->s->last_use[v], NO_STEP, 0};
        if (m->s->frames.until != NULL && nodes != 0) { /* a module's variables, until it returns */
            m->span[v].last = vc_max_u64(m->span[v].last, vc_min_u64(m->s->frames.until[v], nodes - 1U));
        }
        m->grad_first[v] = m->grad_last[v] = NO_STEP;
    }
    return VC_OK;
}

/* The order of the stages matters: numbers of steps first, then who needs what, then buffers. */
enum vc_status vc_timeline_make(struct vc_ctx *ctx, const struct vc_storages *s, struct vc_timeline *out)
{
    struct maker m = {.ctx = ctx, .s = s, .out = out, .status = VC_OK};
    enum vc_status status;

    *out = (struct vc_timeline){.n = 0};
    VC_TRY(allocate(&m));
    if (s->options->mode != VC_MEMORY_INFER) {
        divide(&m);
        number_steps(&m);
        need_values(&m);
        add_values(&m);
        add_gradients(&m);
        add_loss(&m);
        add_optimizer(&m);
        add_checkpointed_masks(&m);
    } else {
        for (uint32_t n = 0; n < s->n_nodes; n++) {
            m.redo[n] = NO_STEP;
        }
        add_inference(&m);
    }
    add_extras(&m);
    add_masks(&m);
    status = m.status;
out:
    vc_free(ctx, m.part);
    vc_free(ctx, m.redo);
    vc_free(ctx, m.back);
    vc_free(ctx, m.done);
    vc_free(ctx, m.span);
    vc_free(ctx, m.grad_first);
    vc_free(ctx, m.grad_last);
    return status;
}

void vc_timeline_release(struct vc_ctx *ctx, struct vc_timeline *timeline)
{
    vc_free(ctx, timeline->buffers);
    vc_free(ctx, timeline->kinds);
    vc_free(ctx, timeline->maker);
    vc_free(ctx, timeline->node_of);
}

/* The most bytes that live at once: the sum of all that begins and ends, step by step. */
enum vc_status vc_timeline_most(struct vc_ctx *ctx, const struct vc_timeline *t, uint64_t align, uint64_t first,
                                uint64_t end, uint64_t *most, uint64_t *step)
{
    uint64_t *change = vc_calloc_array(ctx, VC_TAG_MISC, t->n_steps + 2, sizeof *change);
    uint64_t now = 0;

    VC_CALL_ALLOC(change);
    for (size_t k = 0; k < t->n; k++) {
        uint64_t bytes = t->buffers[k].size_bytes;

        (void)vc_round_up_u64(bytes, align, &bytes);
        if (t->buffers[k].first <= t->buffers[k].last) {
            change[vc_min_u64(t->buffers[k].first, t->n_steps)] += bytes; /* modulo 2^64 */
            change[vc_min_u64(t->buffers[k].last, t->n_steps) + 1] -= bytes;
        }
    }
    *most = *step = 0;
    for (uint64_t s = 0; s < t->n_steps; s++) {
        now += change[s];
        if (now > *most && first <= s && s < end) {
            *most = now;
            *step = s;
        }
    }
    vc_free(ctx, change);
    return VC_OK;
}

/* VC_MEMORY_COMPONENTS for kind: all kinds together. */
uint64_t vc_timeline_live(const struct vc_timeline *timeline, uint64_t step, enum vc_memory_kind kind)
{
    uint64_t bytes = 0;

    for (size_t k = 0; k < timeline->n; k++) {
        const struct vc_buffer *buffer = &timeline->buffers[k];

        if (buffer->first <= step && step <= buffer->last &&
            (kind == VC_MEMORY_COMPONENTS || timeline->kinds[k] == kind)) {
            bytes += buffer->size_bytes;
        }
    }
    return bytes;
}
