/* lazy.h - nodes that a run may leave out, because a choice made before does not take what they lead to.
 *
 *     t = Neg (x); e = Sqrt (x); y = Where (c, t, e)     c is one truth value: Neg is for a run in which c is true, Sqrt for others
 *
 * A Where of one truth value and of two values of the output's shape is a choice: what If and the end of a Loop become (graph/onnx), and the
 * same thing written as a Where. The guard of a node is a side of a choice, and a node with a guard leads to that side alone. Guards
 * nest: the guard of the choice itself is around both sides. A run computes a node where all its guards hold. */
#pragma once

#include <vcompress/graph.h>

/* Guard 0: the node is computed in every run. Others are 1 + 2 * the choice, and 1 more for the side where the condition is false. */
#define VC_GUARD(choice, otherwise) (1 + 2 * (choice) + (uint32_t)(otherwise))

static inline uint32_t vc_guard_choice(uint32_t guard)
{
    return (guard - 1) / 2;
}

/* The guard of each node; *guards, an element for each node and one more, is the caller's to free. wanted: values that every run has. */
enum vc_status vc_graph_find_guards(struct vc_ctx *ctx, const struct vc_graph *graph, const bool *wanted,
                                    uint32_t **guards);
/* The innermost guard that both are, or are inside of. */
uint32_t vc_guard_common(const uint32_t *guards, uint32_t a, uint32_t b);
/* Whether a node with that guard is computed. is_true: of the condition of a choice, which is asked for only where it was computed. */
bool vc_guard_holds(const uint32_t *guards, uint32_t guard, bool (*is_true)(const void *user, uint32_t choice),
                    const void *user);
