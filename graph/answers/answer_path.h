/* answer_path.h - inside of graph/answers: the way from an output back to the function that makes it. */
#pragma once

#include "graph/answers/graph_answer.h"
#include "graph/ops/ops.h"

#define VC_ANSWER_STEPS 64 /* nodes that a walk goes back: exporters put far fewer between Softmax and output */

/* The node that makes the value; NULL: it is given. */
const struct vc_graph_node *vc_answer_maker(const struct vc_graph *graph, uint32_t v);
/* Input k of the node; VC_NO_VALUE: it has none. */
uint32_t vc_answer_in(const struct vc_graph_node *node, unsigned k);
/* The value is no result: a constant or a parameter. */
bool vc_answer_is_fixed(const struct vc_graph *graph, uint32_t v);
/* If the value is a constant float of one element: *number. False otherwise; parameters do not count, since
 * weights change. */
bool vc_answer_number(const struct vc_graph *graph, uint32_t v, double *number);
/* All dimensions are the same, for all sizes or for the bound ones. */
bool vc_answer_same_shape(const struct vc_graph *graph, uint32_t a, uint32_t b);

/* What the output of the node is made of, where the elements are the same ones: in the same order (*moves false) or in
 * another one (Transpose). VC_NO_VALUE: the node does something else. */
uint32_t vc_answer_before_move(const struct vc_graph *graph, const struct vc_graph_node *node, bool *moves);
/* The value before a node that hardly changes elements and keeps their places: Clip, a factor above 0, a
 * shift of at most 0.001 (Add 1e-9 before a Log). VC_NO_VALUE: the node does something else. */
uint32_t vc_answer_before_scale(const struct vc_graph *graph, const struct vc_graph_node *node);
/* The value before all nodes that leave the elements in their order. */
uint32_t vc_answer_unmoved(const struct vc_graph *graph, uint32_t v);

/* The axis of the node's output that axis `axis` of the value before it becomes; false: none does. */
bool vc_answer_follow(struct vc_graph *graph, const struct vc_graph_node *node, unsigned *axis);
/* The product of the dimensions behind the axis: 1 if the axis is the last one, or only ones follow. */
struct vc_dim vc_answer_behind(struct vc_graph *graph, uint32_t v, unsigned axis);

/* answer_function.c: a node that makes shares along an axis. */
struct vc_answer_shares {
    unsigned axis;
    uint32_t logits; /* of the shape of what the node makes; VC_NO_VALUE: the logarithm serves */
};

bool vc_answer_is_shares(const struct vc_graph *graph, uint32_t v, struct vc_answer_shares *shares);

/* answer_ending.c: who makes values that are no logits; NULL: they may be. */
const char *vc_answer_ending(const struct vc_graph *graph, uint32_t v);
