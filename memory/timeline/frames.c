/* frames.c - what PyTorch's eager mode keeps in inference beside values that are still needed: Python's frames hold the
 * inputs of a module until it returns, and modules compute in more operators than the graph has.
 *
 *     the inputs of the model          until the end: the caller has them
 *     a value that a module reads      until that module, and those around it that do not make it, have returned
 *     the input of a linear layer      until the activation function behind it is done: both are one module
 *     slices of one product            until the last of them is read: they are views of it
 *     probabilities of attention       until the layer returns, which has them as a result, without one kernel for all
 */

#include "core/base/checked.h"
#include "memory/timeline/timeline.h"

/* The last node of each block, and of each block around one: "a.b.c", "a.b", "a". */
struct place {
    const char *name;
    size_t length;
    uint32_t last, count; /* of the nodes in it */
};

/* While the graph is walked. */
struct frames {
    const struct vc_storages *s;
    struct vc_frames *out;
    struct place *places;
    size_t n_places;
    struct vc_hash_table by_name; /* of the places */
    bool shared;                  /* an expert that all tokens use */
};

/* A prefix that is looked for. */
struct key {
    const struct frames *f;
    const char *name;
    size_t length;
};

static bool is_same(const void *user, size_t number)
{
    const struct key *key = user;
    const struct place *p = &key->f->places[number];

    return p->length == key->length && memcmp(p->name, key->name, key->length) == 0;
}

/* NULL if there is none, before note_blocks is done. */
static struct place *find(const struct frames *f, const char *name, size_t length)
{
    const struct key key = {f, name, length};
    size_t at = vc_hash_find(&f->by_name, vc_hash_bytes(0, name, length), is_same, &key);

    return at != SIZE_MAX ? &f->places[at] : NULL;
}

/* The length of the next longer prefix of a block's name: "a", "a.b", ...; 0 behind the whole name. */
static size_t longer(const char *block, size_t length)
{
    const char *from = block + length + (length != 0);

    if (*block == '\0' || block[length] == '\0') {
        return length == 0 ? strlen(block) : 0;
    }
    from = strchr(length == 0 ? block : from, '.');
    return from == NULL ? strlen(block) : (size_t)(from - block);
}

/* For each prefix of a block, such as "layers.0" of "layers.0.mlp", the last node in it, until which the module has not
 * returned. */
static void note_blocks(struct frames *f)
{
    for (uint32_t n = 0; n < f->s->n_nodes; n++) {
        const char *block = vc_graph_node(f->s->graph, n)->block;

        for (size_t length = longer(block, 0); length != 0; length = longer(block, length)) {
            struct place *p = find(f, block, length);

            if (p == NULL) {
                vc_hash_add(&f->by_name, vc_hash_bytes(0, block, length), f->n_places);
                p = &f->places[f->n_places++];
            }
            *p = (struct place){block, length, n, p->count + 1};
        }
        f->shared = f->shared || strstr(block, ".shared_expert") != NULL;
    }
}

/* The most places there can be. */
static size_t count_prefixes(const struct vc_storages *s)
{
    size_t n = 1;

    for (uint32_t k = 0; k < s->n_nodes; k++) {
        const char *block = vc_graph_node(s->graph, k)->block;

        for (size_t length = longer(block, 0); length != 0; length = longer(block, length)) {
            n++;
        }
    }
    return n;
}

/* Whether the block is that module, or one inside it. */
static bool is_in(const char *block, const char *prefix, size_t length)
{
    return strncmp(block, prefix, length) == 0 && (block[length] == '\0' || block[length] == '.');
}

/* The node that makes the value; NULL: none does. */
static const struct vc_graph_node *maker_of(const struct frames *f, uint32_t v)
{
    const struct vc_graph_value *value = v == VC_NO_VALUE ? NULL : vc_graph_value(f->s->graph, v);

    return value != NULL && value->kind == VC_VALUE_RESULT ? vc_graph_node(f->s->graph, value->node) : NULL;
}

/* The storage of the value lives at least until that node. */
static void hold(struct frames *f, uint32_t v, uint32_t until)
{
    uint32_t *held = &f->out->until[f->s->root[v]];

    *held = *held > until ? *held : until;
}

/* The base model, made by the node: the first step of its block, in a model of words; 0: most of the graph is not in
 * it. */
static size_t base_of(const struct frames *f, const struct vc_graph_node *maker)
{
    size_t length = strcspn(maker->block, ".");

    if (length == 0 || vc_graph_lists(f->s->graph)->max_positions == 0) {
        return 0;
    }
    return 2 * find(f, maker->block, length)->count > f->s->n_nodes ? length : 0;
}

/* A head reads what the base model has made, which the model has in a variable to the end. */
static bool is_of_base(const struct frames *f, const struct vc_graph_node *maker, const struct vc_graph_node *node)
{
    size_t first = strcspn(maker->block, ".");

    return *node->block != '\0' && !is_in(node->block, maker->block, first) && base_of(f, maker) != 0;
}

/* Until when the outermost module holds it that does not make it and reads it at node n. */
static void hold_argument(struct frames *f, uint32_t v, const struct vc_graph_node *node)
{
    const struct vc_graph_node *maker = maker_of(f, f->s->root[v]);

    for (size_t length = longer(node->block, 0); maker != NULL && length != 0; length = longer(node->block, length)) {
        if (!is_in(maker->block, node->block, length)) {
            hold(f, v, is_of_base(f, maker, node) ? f->s->n_nodes : find(f, node->block, length)->last);
            return;
        }
    }
}

/* The layer that the node is in: the first of its blocks that is a number; the whole graph where there is none. */
static uint32_t end_of_layer(const struct frames *f, const struct vc_graph_node *node)
{
    size_t before = 0;

    for (size_t length = longer(node->block, 0); length != 0; length = longer(node->block, length)) {
        size_t from = before == 0 ? 0 : before + 1;

        if (strspn(node->block + from, "0123456789") == length - from) {
            return find(f, node->block, length)->last;
        }
        before = length;
    }
    return f->s->n_nodes;
}

static bool is_product(const struct vc_graph_node *node)
{
    return node != NULL && (vc_node_is(node, VC_OP_matmul) || vc_node_is(node, VC_OP_gemm));
}

/* x of act(x W + b), of norm(convolution(x)), and of the square of act(x), which one function computes. */
static void hold_before_activation(struct frames *f, const struct vc_graph_node *node, uint32_t n)
{
    const struct vc_graph_node *from = maker_of(f, node->n_inputs == 0 ? VC_NO_VALUE : node->inputs[0]);
    bool function = (vc_op_eager(node) & VC_OP_ONE_BY_ONE) != 0;

    if (function && from != NULL && vc_node_is(from, VC_OP_add)) {
        from = maker_of(f, from->inputs[0]);
    }
    if ((function && is_product(from)) ||
        (from != NULL && vc_node_is(node, VC_OP_batch_norm) && vc_node_is(from, VC_OP_conv))) {
        hold(f, from->inputs[0], n);
    }
    if (from != NULL && vc_node_is(node, VC_OP_mul) && node->inputs[1] == node->inputs[0] &&
        (vc_op_eager(from) & VC_OP_ONE_BY_ONE) != 0) {
        hold(f, from->inputs[0], n);
    }
}

/* x and y of norm(x + y), of a module that adds them and has the norm: x is its variable, y its argument. */
static void hold_added(struct frames *f, const struct vc_graph_node *node, uint32_t n)
{
    const struct vc_graph_node *from = maker_of(f, node->n_inputs == 0 ? VC_NO_VALUE : node->inputs[0]);
    bool only = from != NULL && vc_node_is(node, VC_OP_layer_norm) && vc_node_is(from, VC_OP_add) &&
                f->s->last_use[f->s->root[from->outputs[0]]] == n;

    if (only && *from->block != '\0' && is_in(node->block, from->block, strlen(from->block))) {
        hold(f, from->inputs[0], n);
        hold(f, from->inputs[1], n);
    }
}

/* The parameter that a product multiplies with. */
static const struct vc_graph_param *weight_of(const struct frames *f, const struct vc_graph_node *node)
{
    uint32_t v = is_product(node) && node->n_inputs > 1 ? node->inputs[1] : VC_NO_VALUE;
    const struct vc_graph_value *value = v == VC_NO_VALUE ? NULL : vc_graph_value(f->s->graph, v);

    return value != NULL && value->param != VC_NO_PARAM ? vc_graph_param(f->s->graph, value->param) : NULL;
}

/* Products of one input with slices of one tensor are one product: each part of it lives as long as any. Parts follow
 * each other closely. */
static void hold_slices(struct frames *f, const struct vc_graph_node *node, uint32_t n)
{
    const struct vc_graph_param *param = weight_of(f, node);

    for (uint32_t k = n + 1; param != NULL && param->sliced && k < f->s->n_nodes && k < n + 16; k++) {
        const struct vc_graph_node *other = vc_graph_node(f->s->graph, k);
        const struct vc_graph_param *its = weight_of(f, other);

        if (its != NULL && its->sliced && other->inputs[0] == node->inputs[0] &&
            strcmp(its->tensor, param->tensor) == 0) {
            hold(f, node->outputs[0], f->s->last_use[f->s->root[other->outputs[0]]]);
            hold(f, other->outputs[0], f->s->last_use[f->s->root[node->outputs[0]]]);
        }
    }
}

/* Rows of tables that are added are variables of the module that adds them: words and positions. */
static void hold_rows(struct frames *f, const struct vc_graph_node *node)
{
    uint32_t end = *node->block == '\0' ? f->s->n_nodes : find(f, node->block, strlen(node->block))->last;

    for (unsigned k = 0; vc_node_is(node, VC_OP_add) && k < node->n_inputs; k++) {
        const struct vc_graph_node *maker = maker_of(f, node->inputs[k]);

        if (maker != NULL && vc_node_is(maker, VC_OP_gather) &&
            vc_graph_value(f->s->graph, maker->inputs[0])->kind == VC_VALUE_PARAMETER) {
            hold(f, node->inputs[k], end);
        }
    }
}

/* Positions in work of each sequence. */
static uint64_t queries_of(const struct vc_storages *s, const struct vc_graph_node *node)
{
    const struct vc_graph_value *q = vc_graph_value(s->graph, node->inputs[0]);
    int64_t n = q->n_dims < 2 ? 0 : vc_graph_dim_value(s->graph, q->shape[q->n_dims - 2]);

    return n < 0 ? 0 : (uint64_t)n;
}

/* Masks become a matrix of the values' type, one for all heads, that all layers share. Layers of a model with relative
 * positions that have none have zeros for each head, once for all sequences; numbers by position are copied for one
 * kernel, with a mask for what comes later once more before that; without a kernel the result is copied while the
 * probabilities are there. */
static void add_mask(struct frames *f, const struct vc_graph_node *node, uint32_t n, uint64_t scores, uint64_t heads)
{
    const struct vc_storages *s = f->s;
    const struct vc_graph_node *maker = maker_of(f, node->n_inputs > 3 ? node->inputs[3] : VC_NO_VALUE);
    bool fused = vc_storages_fused(s, n);
    uint32_t at = maker == NULL ? 0 : vc_graph_value(s->graph, node->inputs[3])->node;
    uint32_t end = *node->block == '\0' ? s->n_nodes : find(f, node->block, longer(node->block, 0))->last;
    uint32_t bias = vc_storages_bias(s, n);
    uint64_t y = s->bytes[node->outputs[0]];
    /* elements of the decoder's mask, which is there in its attention to the encoder, too */
    uint64_t own = scores / heads / vc_max_u64(vc_storages_positions(s, n), 1) * queries_of(s, node);

    if (bias != VC_NO_VALUE) {
        uint64_t copy = s->bytes[s->root[bias]];
        bool masked = vc_node_int(node, "is_causal", 0) != 0; /* two copies before y is there, then one */

        f->out->extra[n] += fused ? copy + (masked && copy > y ? copy - y : 0) : y;
        f->out->extra[n] += fused && masked ? scores / heads : 0; /* which keys come later, a byte each */
    } else if (s->biased && f->out->kept[at] == 0 && maker != NULL) {
        f->out->kept[at] = vc_storages_zeros(s, n) + (fused ? 0 : own * s->width[node->outputs[0]]);
        f->out->kept_until[at] = end;
    } else if (!fused && maker != NULL && f->out->kept[at] == 0) {
        /* Qwen2-MoE has another one for layers with a window, whether there are such or not */
        f->out->kept[at] = scores / heads * s->width[node->outputs[0]] * (f->shared ? 2 : 1);
        f->out->kept_until[at] = end;
    }
}

/* Keys and values of a cache that has more than the positions in work: a new tensor takes the old one's place, of one
 * layer at a time, before its attention. One kernel gets a mask of all positions, a byte each for all layers, which it
 * makes numbers of; for one position of each sequence it needs neither that nor copies for each head. */
static void add_cache(struct frames *f, const struct vc_graph_node *node, uint32_t n, uint64_t mask)
{
    const struct vc_storages *s = f->s;
    bool fused = vc_storages_fused(s, n);
    uint64_t cat = vc_storages_keys(s, n, 1);
    uint64_t transient;

    if (cat == s->bytes[node->inputs[1]]) {
        return;
    }
    if (vc_attention_window(s->graph, node) != 0) { /* both, before the window becomes a view of them */
        cat += vc_storages_keys(s, n, 2);
    }
    if (fused && queries_of(s, node) == 1) {
        f->out->extra[n] -= vc_storages_copies(s, n);
    } else if (fused) {
        f->out->extra[n] += mask * s->width[node->outputs[0]];
        f->out->kept[0] = vc_max_u64(f->out->kept[0], mask);
        f->out->kept_until[0] = s->n_nodes;
    }
    uint64_t others = vc_storages_extra_bytes(s, n, &transient) + transient + f->out->extra[n];
    f->out->extra[n] += cat - vc_min_u64(cat, others);
}

/* Queries, keys and values are variables of the module; where heads share keys, copies of these for each head; as
 * products, the probabilities, which the layer gets. */
static void hold_attention(struct frames *f, const struct vc_graph_node *node, uint32_t n)
{
    const struct vc_storages *s = f->s;
    uint32_t end = *node->block == '\0' ? n : find(f, node->block, strlen(node->block))->last;
    uint64_t q_heads = (uint64_t)vc_node_int(node, "q_num_heads", 1);
    uint64_t scores = vc_storages_scores(s, n);

    for (unsigned k = 0; k < 3 && k < node->n_inputs; k++) {
        hold(f, node->inputs[k], end);
    }
    f->out->extra[n] += vc_storages_fused(s, n) ? vc_storages_copies(s, n) : 0;
    if (!vc_storages_fused(s, n)) {
        f->out->kept[n] = scores * s->width[node->outputs[0]];
        f->out->kept_until[n] = end_of_layer(f, node);
    }
    add_mask(f, node, n, scores, q_heads == 0 ? 1 : q_heads);
    add_cache(f, node, n, scores / (q_heads == 0 ? 1 : q_heads));
}

/* Variables of an attention that joins the rotated part of each head and the rest: that part, and what both are from. */
static void hold_parts(struct frames *f, const struct vc_graph_node *node, uint32_t n)
{
    uint32_t y = node->outputs[0];
    const struct vc_graph_value *value = vc_graph_value(f->s->graph, y);
    uint64_t rotated = (uint64_t)(vc_node_int(node, "rotary_embedding_dim", 0) * vc_node_int(node, "num_heads", 1));

    if (value->stepwise && value->n_dims != 0 && *node->block != '\0') {
        uint64_t all = (uint64_t)vc_graph_dim_value(f->s->graph, value->shape[value->n_dims - 1]);

        /* no number: all of each head */
        f->out->kept[n] = rotated == 0 || all == 0 ? f->s->bytes[y] : f->s->bytes[y] / all * rotated;
        f->out->kept_until[n] = find(f, node->block, strlen(node->block))->last;
        hold(f, node->inputs[0], f->out->kept_until[n]);
    }
}

/* Whether the attention that reads the keys of that node gets values that the graph makes behind them. */
static bool makes_values_later(const struct frames *f, uint32_t keys)
{
    for (uint32_t k = keys + 1; k < f->s->n_nodes && k < keys + 16; k++) {
        const struct vc_graph_node *node = vc_graph_node(f->s->graph, k);

        if (vc_node_is(node, VC_OP_attention) && node->n_inputs > 2) {
            const struct vc_graph_value *value = vc_graph_value(f->s->graph, f->s->root[node->inputs[2]]);

            return value->kind == VC_VALUE_RESULT && value->node > keys;
        }
    }
    return false;
}

/* The node that turns the keys of the queries that node n turns; n_nodes: none does. */
static uint32_t keys_of(const struct frames *f, const struct vc_graph_node *node, uint32_t n)
{
    uint32_t keys = n + 1;

    while (keys < f->s->n_nodes && keys < n + 8 &&
           !vc_node_is(vc_graph_node(f->s->graph, keys), VC_OP_rotary_embedding)) {
        keys++;
    }
    return keys < f->s->n_nodes && keys < n + 8 && strcmp(vc_graph_node(f->s->graph, keys)->block, node->block) == 0
               ? keys
               : f->s->n_nodes;
}

/* One function turns queries and keys: the queries as they were are variables until the keys are turned, too, and keys
 * and values are there before, which the graph makes behind the queries. */
static void hold_queries(struct frames *f, const struct vc_graph_node *node, uint32_t n)
{
    uint32_t keys = keys_of(f, node, n);

    if (keys < f->s->n_nodes && makes_values_later(f, keys)) {
        uint64_t key = f->s->bytes[vc_graph_node(f->s->graph, keys)->outputs[0]];

        hold(f, node->inputs[0], keys);
        f->out->extra[n] += 2 * key;
        f->out->extra[keys] += key;
    }
}

/* Queries and keys of half precision that one function turns in f32: of each x, x cos, the turned x and that with sin;
 * the queries as f32, and what comes of them, until the keys are turned. */
static void add_wide_rotation(struct frames *f, const struct vc_graph_node *node, uint32_t n)
{
    const struct vc_storages *s = f->s;
    uint32_t y = node->outputs[0];

    if (!vc_graph_value(s->graph, y)->wide_scale || s->width[y] != 2) {
        hold_queries(f, node, n);
        return;
    }
    uint32_t keys = keys_of(f, node, n);
    f->out->extra[n] += 5 * s->bytes[y]; /* with the two that any rotation has, and y: 16 bytes of each element */
    if (keys < s->n_nodes) {
        uint64_t key = s->bytes[vc_graph_node(s->graph, keys)->outputs[0]];

        f->out->kept[n] += 4 * s->bytes[y];
        f->out->kept_until[n] = keys;
        f->out->extra[n] += 4 * key; /* keys, as f32, too, and values, which the graph makes later */
        f->out->extra[keys] += key;
    }
}

/* Operators that modules have no single one for. */
static void add_parts(struct frames *f, const struct vc_graph_node *node, uint32_t n)
{
    const struct vc_storages *s = f->s;
    uint32_t y = node->n_outputs != 0 ? node->outputs[0] : VC_NO_VALUE;
    uint64_t elems = y == VC_NO_VALUE ? 0 : s->bytes[y] / s->width[y];

    if (vc_is_recurrent(node)) { /* a variable has the last states */
        f->out->kept[n] = vc_recurrent_last_bytes(s, n);
        f->out->kept_until[n] = s->n_nodes;
        for (unsigned k = 1; k < node->n_outputs; k++) {
            if (node->outputs[k] != VC_NO_VALUE) {
                hold(f, node->outputs[k], s->n_nodes);
            }
        }
    } else if (vc_node_is(node, VC_OP_rms_norm)) { /* in f32, before the weight */
        f->out->extra[n] += elems * (s->width[y] == 4 ? 4 : 8);
    } else if (vc_node_is(node, VC_OP_rotary_embedding)) { /* x cos, and the turned x with sin */
        f->out->extra[n] += 2 * s->bytes[y];
        hold_parts(f, node, n);
        add_wide_rotation(f, node, n);
    } else if (vc_node_is(node, VC_OP_layer_norm) && vc_graph_value(s->graph, y)->wide_scale) {
        /* x less its mean, and beside y what the weight multiplies; of half precision x as f32, too */
        f->out->extra[n] += elems * (s->width[y] == 4 ? 4 : 10);
    } else if (vc_node_is(node, VC_OP_max_pool)) { /* where the maxima were */
        f->out->extra[n] += 8 * elems;
    } else if (vc_node_is(node, VC_OP_gelu) && vc_graph_value(s->graph, y)->stepwise) {
        f->out->extra[n] += 2 * s->bytes[y]; /* with x and y: half of x, x^3, and a multiple of it */
    } else if ((vc_node_is(node, VC_OP_layer_norm) || is_product(node)) && vc_graph_value(s->graph, y)->stepwise) {
        hold(f, y, end_of_layer(f, node));
    }
}

/* The weights of experts stay f32 where values are of half precision: the router is the last Softmax before them. */
static bool routes_f32(const struct frames *f, uint32_t n)
{
    while (n-- > 0) {
        const struct vc_graph_node *node = vc_graph_node(f->s->graph, n);

        if (vc_node_is(node, VC_OP_softmax)) {
            return f->s->width[node->outputs[0]] == 2 && !vc_graph_value(f->s->graph, node->outputs[0])->half_softmax;
        }
    }
    return false;
}

/* Experts: transformers computes the rows that each has got side by side. Of a row that is the input, gate and up in
 * one, the function's result and the product of both; or the row, its result, and the result weighted, sorted and
 * unsorted, of the weights' type. The graph's experts begin with one product of all rows. */
static void add_experts(struct frames *f, const struct vc_graph_node *node, uint32_t n)
{
    const struct vc_storages *s = f->s;
    uint32_t chosen = 0;

    if (!node->expert || (n > 0 && vc_graph_node(s->graph, n - 1)->expert) || !is_product(node) ||
        vc_graph_experts(s->graph, &chosen) == 0) {
        return;
    }
    uint64_t in = s->bytes[node->inputs[0]];
    uint64_t inner = s->bytes[node->outputs[0]];
    if (n + 1 < s->n_nodes && vc_node_is(vc_graph_node(s->graph, n + 1), VC_OP_split)) {
        inner /= 2;
    }
    f->out->extra[n] += chosen * vc_max_u64(4 * inner + in, (routes_f32(f, n) ? 6 : 4) * in) + (f->shared ? in : 0);
    f->out->extra[n] -= vc_min_u64(f->out->extra[n], s->bytes[node->outputs[0]]);
}

/* Cosines and sines of whole heads; the graph has each once for the two halves. Some modules (OLMo 2) keep f32. */
static void add_tables(struct frames *f)
{
    for (uint32_t n = 0; n < f->s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(f->s->graph, n);

        if (vc_node_is(node, VC_OP_cos) || vc_node_is(node, VC_OP_sin)) {
            f->out->kept[n] = f->s->bytes[node->outputs[0]] * (f->s->width[node->outputs[0]] == 2 ? 3 : 1);
            f->out->kept_until[n] = f->out->until[f->s->root[node->outputs[0]]];
        }
    }
}

/* What each node holds, and what it makes besides. */
static void walk(struct frames *f)
{
    const struct vc_storages *s = f->s;

    for (uint32_t n = 0; n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);

        if (s->idle[n]) {
            continue;
        }
        for (unsigned k = 0; k < node->n_inputs; k++) {
            if (node->inputs[k] != VC_NO_VALUE) {
                hold_argument(f, node->inputs[k], node);
            }
        }
        hold_before_activation(f, node, n);
        hold_added(f, node, n);
        hold_slices(f, node, n);
        hold_rows(f, node);
        if (vc_node_is(node, VC_OP_attention)) {
            hold_attention(f, node, n);
        }
        add_parts(f, node, n);
        add_experts(f, node, n);
    }
    add_tables(f);
}

/* Spans begin as the graph has them; the walk only makes them longer. */
enum vc_status vc_frames_make(struct vc_storages *s)
{
    struct vc_frames *out = &s->frames;
    struct frames f = {.s = s, .out = out};
    size_t n_prefixes = count_prefixes(s);

    out->until = vc_alloc_array(s->ctx, VC_TAG_MISC, s->n_values + 1U, sizeof *out->until);
    out->extra = vc_calloc_array(s->ctx, VC_TAG_MISC, s->n_nodes + 1U, sizeof *out->extra);
    out->kept = vc_calloc_array(s->ctx, VC_TAG_MISC, s->n_nodes + 1U, sizeof *out->kept);
    out->kept_until = vc_calloc_array(s->ctx, VC_TAG_MISC, s->n_nodes + 1U, sizeof *out->kept_until);
    f.places = vc_calloc_array(s->ctx, VC_TAG_MISC, n_prefixes, sizeof *f.places);
    if (out->until == NULL || out->extra == NULL || out->kept == NULL || out->kept_until == NULL || f.places == NULL ||
        vc_hash_make(s->ctx, n_prefixes, &f.by_name) != VC_OK) {
        vc_free(s->ctx, f.places);
        vc_hash_release(s->ctx, &f.by_name);
        vc_frames_release(s);
        return VC_E_NOMEM;
    }
    for (uint32_t v = 0; v < s->n_values; v++) {
        out->until[v] = vc_graph_value(s->graph, v)->kind == VC_VALUE_INPUT ? s->n_nodes : s->last_use[v];
    }
    note_blocks(&f);
    walk(&f);
    vc_free(s->ctx, f.places);
    vc_hash_release(s->ctx, &f.by_name);
    return VC_OK;
}
