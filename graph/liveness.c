/* liveness.c - see liveness.h. */
#include "graph/liveness.h"

/* Nodes are in topological order, so the root of a node's input is final when the node's output takes it: chains of
 * views (Reshape of a Squeeze) end at the value that was computed. */
static void find_roots(const struct vc_graph *graph, const struct vc_liveness_policy *policy, uint32_t *root)
{
    for (uint32_t v = 0; v < graph->n_values; v++) {
        root[v] = v;
    }
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        const struct vc_graph_node *node = &graph->nodes[n];

        for (unsigned k = 0; k < node->n_outputs; k++) {
            uint32_t shared = node->outputs[k] == VC_NO_VALUE ? VC_NO_VALUE : policy->shares(policy->user, n, k);

            if (shared != VC_NO_VALUE) {
                root[node->outputs[k]] = root[shared];
            }
        }
    }
}

static void note_use(void *user, uint32_t node, uint32_t value, bool saved)
{
    struct vc_liveness *out = user;
    uint32_t root = out->root[value];

    out->last_use[root] = node;
    out->saved[root] = out->saved[root] || saved;
}

/* Shape inputs that are known before the run do not count as reads: policy->reads says so. */
void vc_liveness_each(const struct vc_graph *graph, const struct vc_liveness_policy *policy, uint32_t node,
                      void (*fn)(void *user, uint32_t node, uint32_t value, bool saved), void *user)
{
    const struct vc_graph_node *n = &graph->nodes[node];

    for (unsigned k = 0; k < n->n_inputs; k++) {
        if (n->inputs[k] != VC_NO_VALUE && policy->reads(policy->user, node, k)) {
            fn(user, node, n->inputs[k], policy->saves(policy->user, node, k));
        }
    }
    if (n->n_outputs != 0 && n->outputs[0] != VC_NO_VALUE && policy->saves(policy->user, node, n->n_inputs)) {
        fn(user, node, n->outputs[0], true);
    }
}

/* Nodes are visited in order, so the last note of a root is its last use. A node's own outputs are noted after its
 * inputs: a value that nobody reads is alive until the node that makes it. */
void vc_liveness_find(const struct vc_graph *graph, const struct vc_liveness_policy *policy, struct vc_liveness *out)
{
    find_roots(graph, policy, out->root);
    memset(out->last_use, 0, graph->n_values * sizeof *out->last_use);
    memset(out->saved, 0, graph->n_values * sizeof *out->saved);
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        const struct vc_graph_node *node = &graph->nodes[n];

        vc_liveness_each(graph, policy, n, note_use, out);
        for (unsigned k = 0; k < node->n_outputs; k++) {
            if (node->outputs[k] != VC_NO_VALUE) {
                out->last_use[out->root[node->outputs[k]]] = n;
            }
        }
    }
}
