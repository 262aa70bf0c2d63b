/* lazy.c - see lazy.h: guards, from the last node to the first, as a node reads only what nodes before it make. */
#include "graph/lazy.h"

#include "graph/ops/ops.h"

#define NOT_READ UINT32_MAX

static bool is_choice(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    if (!vc_node_is(node, VC_OP_where)) {
        return false;
    }
    const struct vc_graph_value *condition = &graph->values[node->inputs[0]];
    bool chooses =
        (condition->kind == VC_VALUE_RESULT || condition->kind == VC_VALUE_INPUT) && vc_graph_is_single(condition);

    for (unsigned k = 1; chooses && k < 3; k++) {
        chooses = vc_graph_same_kind(&graph->values[node->inputs[k]], &graph->values[node->outputs[0]]);
    }
    return chooses;
}

/* A choice inside of another one stands before it: of two guards the one whose choice is first gives way to what is around it. */
uint32_t vc_guard_common(const uint32_t *guards, uint32_t a, uint32_t b)
{
    while (a != b) {
        bool first = b == 0 || (a != 0 && vc_guard_choice(a) <= vc_guard_choice(b));
        uint32_t *inner = first ? &a : &b;

        *inner = guards[vc_guard_choice(*inner)];
    }
    return a;
}

bool vc_guard_holds(const uint32_t *guards, uint32_t guard, bool (*is_true)(const void *user, uint32_t choice),
                    const void *user)
{
    if (guard == 0) {
        return true;
    }
    uint32_t choice = vc_guard_choice(guard);

    return vc_guard_holds(guards, guards[choice], is_true, user) &&
           is_true(user, choice) == (guard == VC_GUARD(choice, false));
}

/* The guard of node n, of whose readers it is the common one, less those whose conditions come behind the node. */
static uint32_t settled(const struct vc_graph *graph, const uint32_t *guards, uint32_t n)
{
    uint32_t guard = guards[n] == NOT_READ ? 0 : guards[n];

    for (uint32_t g = guard; g != 0; g = guards[vc_guard_choice(g)]) {
        uint32_t maker = graph->values[graph->nodes[vc_guard_choice(g)].inputs[0]].node;

        guard = maker != VC_NO_NODE && maker >= n ? guards[vc_guard_choice(g)] : guard;
    }
    return guard;
}

/* Choices by one condition, as an If with two outputs has them, are one choice: the last of them. by_condition: that one, by value; 0: none yet. */
static uint32_t same_choice(const struct vc_graph *graph, const uint32_t *guards, uint32_t *by_condition, uint32_t n)
{
    uint32_t *last = &by_condition[graph->nodes[n].inputs[0]];

    *last = *last == 0 ? n : *last;
    return guards[*last] == guards[n] ? *last : n;
}

enum vc_status vc_graph_find_guards(struct vc_ctx *ctx, const struct vc_graph *graph, const bool *wanted,
                                    uint32_t **guards)
{
    uint32_t *of = vc_alloc_array(ctx, VC_TAG_MISC, graph->n_nodes + (size_t)1, sizeof *of);
    VC_SCOPED uint32_t *by_condition = vc_calloc_array(ctx, VC_TAG_MISC, graph->n_values + (size_t)1, sizeof *of);

    *guards = of;
    VC_CALL_ALLOC(of);
    VC_CALL_ALLOC(by_condition);
    memset(of, 0xff, graph->n_nodes * sizeof *of);
    for (uint32_t n = graph->n_nodes; n-- > 0;) {
        const struct vc_graph_node *node = &graph->nodes[n];

        of[n] = settled(graph, of, n);
        for (unsigned k = 0; k < node->n_outputs; k++) {
            of[n] = node->outputs[k] != VC_NO_VALUE && wanted[node->outputs[k]] ? 0 : of[n];
        }
        uint32_t choice = is_choice(graph, node) ? same_choice(graph, of, by_condition, n) : VC_NO_NODE;
        for (unsigned k = 0; k < node->n_inputs; k++) {
            uint32_t maker = node->inputs[k] == VC_NO_VALUE ? VC_NO_NODE : graph->values[node->inputs[k]].node;
            uint32_t side = choice != VC_NO_NODE && k != 0 ? VC_GUARD(choice, k == 2) : of[n];

            if (maker != VC_NO_NODE) {
                of[maker] = of[maker] == NOT_READ ? side : vc_guard_common(of, of[maker], side);
            }
        }
    }
    return VC_OK;
}
