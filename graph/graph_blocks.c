/* graph_blocks.c - the parts of a graph by the names of its nodes' blocks, their sums, and which of them
 * repeat.
 *
 *     node 17, block "encoder.layer.3.attention"     block ""  - "encoder" - "layer" - "3" - "attention"
 *                                                    the sums of each block contain those of the blocks inside
 *
 *     block                  own nodes   nodes   parameters
 *     ""                     2           410     109 M
 *       encoder              0           380      85 M
 *         layer              0           380      85 M
 *           0                12          31        7 M      n_like 12: layers 1 to 11 are like it
 *             attention      19          19        2 M
 *
 * `inspect --graph` prints the tree. "layer.0" to "layer.11" of BERT have equal signatures and are shown
 * once, with 12. The order: blocks of all nodes (find), own sums (add_node), sums outwards (add_up), shares
 * of experts, repeats, outputs.
 *
 * A signature is a hash: two layers with the same one have the same operators, shapes and attributes in the
 * same order. Values of parameters are not in it. */

#include "core/base/array.h"
#include "core/model/source.h"
#include "graph/ops/ops.h"
#include "graph/sizes.h"

/* The public part and what making it needs. Block 0 is the whole graph, with the empty path. vc_result_free
 * gets back a pointer to the first member. */
struct blocks {
    struct vc_graph_blocks public;
    struct vc_ctx *ctx;
    struct vc_arena arena;
    struct vc_graph *graph;
    const struct vc_model *model, *weights;
    struct vc_graph_block *list;
    uint64_t *signature; /* of each block: hash of operators, shapes and attributes; equal ones compute the same */
    struct of_experts {
        uint64_t params;
        struct vc_dim macs;
    } * experts;    /* what of each block is in experts */
    uint32_t *last; /* child of each, the last one */
    size_t capacity, last_capacity;
    uint32_t *of_node;
    struct vc_hash_table by_name; /* and parent */
};

/* For the table: blocks of one name inside different parents are different. */
static uint64_t hash_of_block(uint32_t parent, const char *name)
{
    return vc_hash_mix(vc_hash_text(name), parent);
}

static uint64_t hash_of(const void *list, size_t number)
{
    const struct vc_graph_block *block = &((const struct vc_graph_block *)list)[number];

    return hash_of_block(block->parent, block->name);
}

/* A block is found by its parent and the last word of its path. */
struct key {
    const struct vc_graph_block *list;
    uint32_t parent;
    const char *name;
};

/* The two functions that the hash table calls. */
static bool is_same(const void *user, size_t number)
{
    const struct key *key = user;

    return key->list[number].parent == key->parent && strcmp(key->list[number].name, key->name) == 0;
}

/* Room for one more block in the lists that grow with them; signature and experts are made once all blocks are
 * there. */
static enum vc_status grow(struct blocks *b)
{
    size_t n = b->public.n;

    VC_CALL(VC_GROW(b->ctx, VC_TAG_MISC, b->list, b->capacity, n + 1));
    VC_CALL(VC_GROW(b->ctx, VC_TAG_MISC, b->last, b->last_capacity, n + 1));
    return vc_hash_grow(b->ctx, &b->by_name, n, hash_of, b->list);
}

/* The block of that name inside `parent`, made if there is none: appended as the last child, so that children keep
 * the order of the nodes. VC_NO_BLOCK as parent: the root, which is made first. */
static enum vc_status child(struct blocks *b, uint32_t parent, const char *name, const char *path, uint32_t *out)
{
    const struct key key = {b->list, parent, name};
    uint32_t n = b->public.n;
    size_t at = vc_hash_find(&b->by_name, hash_of_block(parent, name), is_same, &key);

    if (parent != VC_NO_BLOCK && at != SIZE_MAX) {
        *out = (uint32_t)at;
        return VC_OK;
    }
    VC_CALL(grow(b));
    struct vc_graph_block *block = &b->list[n];
    *block = (struct vc_graph_block){.parent = parent,
                                     .first_child = VC_NO_BLOCK,
                                     .next = VC_NO_BLOCK,
                                     .like = n,
                                     .n_like = 1,
                                     .output = VC_NO_VALUE};
    block->name = vc_arena_copy(b->ctx, &b->arena, name, strlen(name));
    block->path = vc_arena_copy(b->ctx, &b->arena, path, strlen(path));
    VC_CALL_ALLOC(block->name);
    VC_CALL_ALLOC(block->path);
    vc_hash_add(&b->by_name, hash_of_block(parent, name), n);
    if (parent != VC_NO_BLOCK) {
        block->depth = b->list[parent].depth + 1;
        if (b->list[parent].first_child == VC_NO_BLOCK) {
            b->list[parent].first_child = n;
        } else {
            b->list[b->last[parent]].next = n;
        }
        b->last[parent] = n;
    }
    b->public.n++;
    *out = n;
    return VC_OK;
}

/* The block of a path, made with the blocks around it: "encoder", "encoder.layer", "encoder.layer.3". A path of 512
 * characters or more belongs to the root. */
static enum vc_status find(struct blocks *b, const char *path, uint32_t *out)
{
    char text[512];
    size_t from = 0;

    *out = 0;
    while (path[from] != '\0' && strlen(path) < sizeof text) {
        size_t n = strcspn(path + from, ".");
        char name[512];

        memcpy(name, path + from, n);
        name[n] = '\0';
        memcpy(text, path, from + n);
        text[from + n] = '\0';
        VC_CALL(child(b, *out, name, text, out));
        from += n + (path[from + n] == '.');
    }
    return VC_OK;
}

/* ---- sums ---- */

/* Sums stay at UINT64_MAX once they overflow: shapes of damaged files state anything. */
static void add_params(uint64_t *sum, uint64_t n)
{
    if (!vc_add_u64(*sum, n, sum)) {
        *sum = UINT64_MAX;
    }
}

/* Means and variances of BatchNormalization: nobody learns them, and published numbers of parameters leave them out.
 * Inputs 3 and 4 of that operator. */
static bool is_statistic(const struct vc_graph_node *node, unsigned input)
{
    return (input == 3 || input == 4) && vc_node_is(node, VC_OP_batch_norm);
}

/* Adds the elements of a parameter to its block, and the bytes that the tensor has in the file: of a slice, its
 * share. A tensor that several parameters slice is so counted once in all. */
static void count_param(struct blocks *b, struct vc_graph_block *block, const struct vc_graph_param *param, bool expert,
                        bool statistic)
{
    const struct vc_model *of = param->from_weights ? b->weights : b->model;
    uint64_t n = 1;
    uint64_t all = 1;
    bool fits = true;

    for (unsigned k = 0; k < param->n_dims; k++) {
        fits = fits && vc_mul_u64(n, param->sliced && k == param->axis ? param->count : param->shape[k], &n) &&
               vc_mul_u64(all, param->shape[k], &all);
    }
    if (!fits) {
        n = all = UINT64_MAX;
    }
    if (!statistic) {
        add_params(&block->n_params, n);
    }
    if (expert) {
        add_params(&b->experts[block - b->list].params, n);
    }
    if (of != NULL && param->index < of->n_tensors && all != 0) {
        uint64_t bytes = of->tensors[param->index].size_bytes;

        block->bytes += n == all ? bytes : (uint64_t)((double)bytes * ((double)n / (double)all));
    }
}

/* Adds parameters and multiply-adds of one node to its own block, and mixes operator, shapes of tensors and
 * outputs, and attributes into the signature. counted[p] keeps a parameter of several nodes (tied embeddings) from
 * being counted twice. */
static void add_node(struct blocks *b, uint32_t k, bool *counted)
{
    const struct vc_graph *graph = b->graph;
    const struct vc_graph_node *node = &graph->nodes[k];
    uint32_t at = b->of_node[k];
    struct vc_graph_block *block = &b->list[at];
    uint64_t h = vc_hash_text(node->op);

    for (unsigned i = 0; i < node->n_inputs; i++) {
        uint32_t v = node->inputs[i];
        uint32_t p = v == VC_NO_VALUE ? VC_NO_PARAM : graph->values[v].param;

        if (p != VC_NO_PARAM) {
            for (unsigned d = 0; d < graph->params[p].n_dims; d++) {
                h = vc_hash_mix(h, graph->params[p].shape[d]);
            }
            if (!counted[p] && graph->params[p].tied_to == VC_NO_PARAM) {
                count_param(b, block, &graph->params[p], node->expert, is_statistic(node, i));
            }
            counted[p] = true;
        }
    }
    for (unsigned i = 0; i < node->n_outputs; i++) {
        const struct vc_graph_value *value = node->outputs[i] == VC_NO_VALUE ? NULL : &graph->values[node->outputs[i]];

        for (unsigned d = 0; value != NULL && d < value->n_dims; d++) {
            h = vc_hash_mix(h, (uint64_t)value->shape[d].size ^ (uint64_t)value->shape[d].expression << 32);
        }
    }
    for (unsigned i = 0; i < node->n_attrs; i++) {
        h = vc_hash_mix(h, (uint64_t)node->attrs[i].i ^ vc_hash_text(node->attrs[i].name));
    }
    b->signature[at] = vc_hash_mix(b->signature[at], h);
    block->macs = vc_dim_add(&b->graph->dims, block->macs, node->macs);
    if (node->expert) {
        b->experts[at].macs = vc_dim_add(&b->graph->dims, b->experts[at].macs, node->macs);
    }
    block->n_own++;
    block->n_nodes++;
}

/* From the inner blocks outwards: children have larger numbers than their parents, so one walk downwards is enough.
 * The name of a child is part of the parent's signature unless the name is a number: layers differ in their number
 * only. */
static void add_up(struct blocks *b)
{
    for (uint32_t k = b->public.n; k-- > 1;) {
        struct vc_graph_block *block = &b->list[k];
        struct vc_graph_block *parent = &b->list[block->parent];

        parent->n_nodes += block->n_nodes;
        parent->bytes += block->bytes;
        parent->macs = vc_dim_add(&b->graph->dims, parent->macs, block->macs);
        b->experts[block->parent].macs =
            vc_dim_add(&b->graph->dims, b->experts[block->parent].macs, b->experts[k].macs);
        add_params(&parent->n_params, block->n_params);
        add_params(&b->experts[block->parent].params, b->experts[k].params);
        b->signature[block->parent] =
            vc_hash_mix(vc_hash_mix(b->signature[block->parent], b->signature[k]),
                        strspn(block->name, "0123456789") == strlen(block->name) ? 0 : vc_hash_text(block->name));
    }
}

/* n_active and macs of a token: of what experts have, the share per_token / n that a token uses. The product
 * e->params * per_token could overflow, so quotient and remainder by n are multiplied apart.
 *     8 experts, 2 for each token, 800 M parameters in them: 600 M of the block are not active
 */
static void share_experts(struct blocks *b)
{
    struct vc_dims *dims = &b->graph->dims;
    uint32_t per_token;
    uint32_t n = vc_graph_experts(b->graph, &per_token);
    struct vc_dim used = vc_dim_number(per_token);
    struct vc_dim all = vc_dim_number(n);

    for (uint32_t k = 0; k < b->public.n; k++) {
        struct vc_graph_block *block = &b->list[k];
        const struct of_experts *e = &b->experts[k];

        block->n_active = block->n_params;
        if (n != 0 && block->n_params != UINT64_MAX) {
            block->n_active -= e->params - (e->params / n * per_token + e->params % n * per_token / n);
        }
        if (n != 0) {
            struct vc_dim plain = vc_dim_subtract(dims, block->macs, e->macs);

            block->macs = vc_dim_add(dims, plain, vc_dim_divide(dims, vc_dim_multiply(dims, e->macs, used), all));
        }
    }
}

/* Among the children of one block that have numbers for names, finds those that are like an earlier one: `like`
 * names it and its n_like counts them. A layer is compared with at most eight kinds, so that the walk stays linear;
 * further kinds count as different. */
static void find_repeats(struct blocks *b, uint32_t parent)
{
    uint32_t kinds[8];
    unsigned n_kinds = 0;

    for (uint32_t k = b->list[parent].first_child; k != VC_NO_BLOCK; k = b->list[k].next) {
        struct vc_graph_block *block = &b->list[k];
        unsigned i = 0;

        if (strspn(block->name, "0123456789") != strlen(block->name)) {
            continue;
        }
        while (i < n_kinds && b->signature[kinds[i]] != b->signature[k]) {
            i++;
        }
        if (i < n_kinds) {
            block->like = kinds[i];
            block->n_like = 0;
            b->list[kinds[i]].n_like++;
        } else if (n_kinds < 8) {
            kinds[n_kinds++] = k;
        }
    }
}

/* Whether block `inner` is `outer` or lies in it.
 * Parents have a smaller depth, by one each. */
static bool lies_in(const struct blocks *b, uint32_t inner, uint32_t outer)
{
    while (b->list[inner].depth > b->list[outer].depth) {
        inner = b->list[inner].parent;
    }
    return inner == outer;
}

/* A value that is used in another block is an output of its own block, and of the blocks around that up to the
 * first one that also holds the user. A block with several outputs keeps the one with the largest number. user
 * VC_NO_BLOCK: an output of the graph, used outside of all blocks. */
static void note_use(struct blocks *b, uint32_t value, uint32_t user)
{
    uint32_t node = b->graph->values[value].node;

    if (node == VC_NO_NODE) {
        return;
    }
    for (uint32_t k = b->of_node[node]; k != VC_NO_BLOCK; k = b->list[k].parent) {
        if (user != VC_NO_BLOCK && lies_in(b, user, k)) {
            return;
        }
        if (b->list[k].output == VC_NO_VALUE || b->list[k].output < value) {
            b->list[k].output = value;
        }
    }
}

/* Every use of a value, by nodes and as an output of the graph, may make it the output of blocks. */
static void find_outputs(struct blocks *b)
{
    const struct vc_graph *graph = b->graph;

    for (uint32_t k = 0; k < graph->n_nodes; k++) {
        for (unsigned i = 0; i < graph->nodes[k].n_inputs; i++) {
            if (graph->nodes[k].inputs[i] != VC_NO_VALUE) {
                note_use(b, graph->nodes[k].inputs[i], b->of_node[k]);
            }
        }
    }
    for (uint32_t k = 0; k < graph->n_outputs; k++) {
        note_use(b, graph->outputs[k], VC_NO_BLOCK);
    }
}

/* Sums of dimensions may run out of memory on the way; dims.no_memory is asked once, at the end. */
static enum vc_status make(struct blocks *b)
{
    struct vc_ctx *ctx = b->ctx;
    const struct vc_graph *graph = b->graph;
    VC_SCOPED bool *counted = NULL;
    uint32_t root;

    VC_CALL(child(b, VC_NO_BLOCK, "", "", &root));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, b->of_node, graph->n_nodes + (size_t)1));
    for (uint32_t k = 0; k < graph->n_nodes; k++) {
        VC_CALL(find(b, graph->nodes[k].block, &b->of_node[k]));
    }
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, counted, graph->n_params + (size_t)1));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, b->signature, b->public.n));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, b->experts, b->public.n));
    for (uint32_t k = 0; k < graph->n_nodes; k++) {
        add_node(b, k, counted);
    }
    add_up(b);
    share_experts(b);
    for (uint32_t k = 0; k < b->public.n; k++) {
        find_repeats(b, k);
    }
    find_outputs(b);
    VC_CALL(b->graph->dims.no_memory ? VC_E_NOMEM : VC_OK);
    b->public.blocks = b->list;
    b->public.of_node = b->of_node;
    return VC_OK;
}

static void end(void *result)
{
    struct blocks *b = result;

    vc_arena_release(b->ctx, &b->arena);
    VC_FREE_ALL(b->ctx, b->list, b->signature, b->experts, b->last, b->of_node);
    vc_hash_release(b->ctx, &b->by_name);
}

/* Costs are for the sizes that are bound; so all nodes are checked with these first. */
enum vc_status vc_graph_blocks_make(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                    const struct vc_model *weights, struct vc_graph_blocks **out)
{
    VC_SCOPED_RESULT struct blocks *b = vc_result_new(ctx, VC_TAG_MISC, sizeof *b, end);

    *out = NULL;
    VC_CALL_ALLOC(b);
    b->ctx = ctx;
    b->graph = graph;
    b->model = model;
    b->weights = weights;
    VC_CALL(vc_graph_check_sizes(ctx, graph, NULL, 0)); /* figures are for the sizes that are bound */
    VC_CALL(make(b));
    *out = vc_give(&b);
    return VC_OK;
}
