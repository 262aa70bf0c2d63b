/* plan_again.c - recomputation: parts of the forward pass are computed again just before their own backward
 * instructions, so that what they need need not be kept.
 *
 *     nodes   0 1 2 | 3 4 5 | 6 7       parts 1, 2, 0 (the last one is kept)
 *     program 0 1 2 3 4 5 6 7  loss  7' 6'  3 4 5  5' 4' 3'  0 1 2  2' 1' 0'
 *
 * Of the first computation of a part those values are kept that other parts read, or their backward instructions. Of
 * the second one a node is computed only if its own part's backward instructions need what it makes. Random numbers are
 * functions of seed, step, row and node, so a second computation gives the same bits; running statistics are left as
 * they are. */

#include "engine/train_program.h"
#include "graph/parts.h"

/* The last part gets 0: its backward instructions come first, so that nothing is gained by computing it
 * again. first_parts limits recomputation to the first parts, whose values would wait longest. */
enum vc_status vc_plan_divide(struct vc_engine *e)
{
    const struct vc_engine_options *o = &e->options;
    uint32_t n = e->graph->n_nodes;
    uint32_t last = 0;

    if (!o->train || n == 0 || o->recompute == VC_RECOMPUTE_NONE) {
        return VC_OK;
    }
    if (o->recompute == VC_RECOMPUTE_SQRT || o->recompute == VC_RECOMPUTE_EVERY) {
        vc_parts_by_weights(e->graph, o->recompute == VC_RECOMPUTE_EVERY ? o->recompute_every : 0, e->parts);
    } else if (o->recompute == VC_RECOMPUTE_LAYER) {
        vc_parts_by_layers(e->graph, e->parts);
    } else {
        return vc_fail(e->ctx, VC_E_INTERNAL, "recomputation of a kind that the engine does not have");
    }
    for (uint32_t k = 0; k < n; k++) {
        last = e->parts[k] > last ? e->parts[k] : last;
    }
    for (uint32_t k = n; k-- > 0 && (e->parts[k] == last || e->parts[k] == 0);) {
        e->parts[k] = 0;
    }
    for (uint32_t k = 0; o->first_parts != 0 && k < n; k++) {
        e->parts[k] = e->parts[k] <= o->first_parts ? e->parts[k] : 0;
    }
    return VC_OK;
}

/* ---- liveness: what our instructions read ---- */

/* Views show the elements of their first input. */
static uint32_t shares(const void *user, uint32_t node, unsigned k)
{
    const struct vc_engine *e = user;
    const struct vc_graph_node *n = &e->graph->nodes[node];

    return k == 0 && e->needed[node] && vc_node_is_view(n) ? n->inputs[0] : VC_NO_VALUE;
}

/* Known integers and views read no elements. */
static bool reads(const void *user, uint32_t node, unsigned k)
{
    const struct vc_engine *e = user;

    return e->needed[node] && !vc_node_is_view(&e->graph->nodes[node]) && vc_plan_in(e, node, k)->made;
}

/* A value is saved if the backward instructions of a node read it, and the node has a gradient to give. */
static bool saves(const void *user, uint32_t node, unsigned k)
{
    const struct vc_engine *e = user;
    const struct vc_graph_node *n = &e->graph->nodes[node];
    bool trained = false;

    if (!e->options.train || !e->needed[node] || vc_train_op_of(n) == NULL) {
        return false;
    }
    for (unsigned i = 0; i < n->n_outputs; i++) {
        trained = trained || (n->outputs[i] != VC_NO_VALUE && e->values[n->outputs[i]].trained);
    }
    return trained &&
           (k < n->n_inputs ? vc_saves_input(vc_plan_saves(e, node), k) : (vc_plan_saves(e, node) & VC_NEEDS_Y) != 0);
}

struct vc_liveness_policy vc_plan_policy(const struct vc_engine *e)
{
    return (struct vc_liveness_policy){.user = e, .shares = shares, .reads = reads, .saves = saves};
}

/* ---- parts ---- */

/* The part that computes a root; 0 for what is no result. */
static uint32_t part_of(const struct vc_engine *e, const struct vc_plan_value *root)
{
    const struct vc_graph_value *value = &e->graph->values[root - e->values];

    return value->kind == VC_VALUE_RESULT ? e->parts[value->node] : 0;
}

/* Calls fn for what the instructions of the node read, and for its output where its backward instructions read that. A
 * definition, which no gradient goes through, is not computed again. */
static void each_value(struct vc_engine *e, uint32_t node,
                       void (*fn)(void *user, uint32_t node, uint32_t value, bool saved))
{
    struct vc_liveness_policy policy = vc_plan_policy(e);

    if (vc_train_op_of(vc_plan_node(e, node)) != NULL) {
        vc_liveness_each(e->graph, &policy, node, fn, e);
    }
}

/* A value stays if another part reads it, or if the backward instructions of another part do. */
static void keep(void *user, uint32_t node, uint32_t value, bool saved)
{
    struct vc_engine *e = user;
    struct vc_plan_value *root = &e->values[e->values[value].root];
    uint32_t part = e->parts[node];
    bool elsewhere = part == 0 || part != part_of(e, root);

    root->kept = root->kept || (elsewhere && (saved || part != 0));
}

/* Before any instruction is made, as the memory of values depends on it. */
void vc_plan_find_kept(struct vc_engine *e)
{
    for (uint32_t n = 0; n < e->graph->n_nodes; n++) {
        each_value(e, n, keep);
    }
}

/* It need not be computed again. */
static bool is_there(const struct vc_plan_value *root)
{
    return root->kept || root->held;
}

/* What the part's own backward instructions read, and what is not there. */
static void want_saved(void *user, uint32_t node, uint32_t value, bool saved)
{
    struct vc_engine *e = user;
    struct vc_plan_value *root = &e->values[e->values[value].root];

    root->again = root->again || (saved && part_of(e, root) == e->parts[node] && !is_there(root));
}

/* What is read by a node that is computed again, itself. */
static void want(void *user, uint32_t node, uint32_t value, bool saved)
{
    want_saved(user, node, value, true);
}

/* Something that it makes is wanted again, or what its backward instructions read beside values. */
static bool is_wanted(const struct vc_engine *e, uint32_t node)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    bool wanted = false;

    for (unsigned k = 0; e->needed[node] && vc_train_op_of(n) != NULL && k < n->n_outputs; k++) {
        const struct vc_plan_value *y = vc_plan_out(e, node, k);

        wanted = wanted || (y != NULL && (y->again || (y->extra.kind != VC_REF_NONE && !is_there(y))));
    }
    return wanted;
}

/* Before the last node of a part: which of its nodes are needed again, from the last to the first, then
 * their instructions in order. */
void vc_plan_repeat(struct vc_engine *e, uint32_t node)
{
    uint32_t part = e->parts[node];
    uint32_t first = node;

    if (part == 0 || (node + 1 < e->graph->n_nodes && e->parts[node + 1] == part)) {
        return;
    }
    while (first > 0 && e->parts[first - 1] == part) {
        first--;
    }
    for (uint32_t n = first; n <= node; n++) {
        each_value(e, n, want_saved);
    }
    for (uint32_t n = node + 1; n-- > first;) {
        if (is_wanted(e, n)) {
            each_value(e, n, want);
        }
    }
    e->repeats = true;
    for (uint32_t n = first; n <= node && e->status == VC_OK; n++) {
        if (is_wanted(e, n)) {
            int64_t macs = vc_dim_value(&e->graph->dims, vc_plan_node(e, n)->macs);

            e->guard = e->guards[n];
            vc_train_op_of(vc_plan_node(e, n))->forward(e, n);
            vc_plan_round_results(e, n);
            e->macs_again += macs > 0 ? (uint64_t)macs : 0;
        }
    }
    e->repeats = false;
}
