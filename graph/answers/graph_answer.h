/* graph_answer.h - what the output of a graph is to those who learn from it or judge it: logits of classes, or values.
 *
 * Found is the function, not the name of a node: behind Softmax may stand nodes that move elements or hardly change
 * them (Reshape, Transpose, Cast, codes, a Clip), and the Softmax may be written out (Exp, ReduceSum, Div). The logits
 * are then what stands before it. Where nothing does (shares that are averaged, or made in another way), they are the
 * logarithm of the shares, which has the same Softmax.
 *
 *     MatMul -> l -> Softmax -> Identity -> out          logits l
 *     Conv -> l [n, 10, 1, 1] -> Softmax(1) -> Flatten   logits l: its elements lie as those of the output
 *     l [n, 5, 30] -> Softmax(1) -> Transpose            logits: the same Transpose of l, a node that is added
 *     z [n, 1] -> Sigmoid -> out                         logits of two classes, 0 and z
 *
 * Knows nothing of data and losses: what an output without such a function is, the caller decides. */
#pragma once

#include "graph/base/graph_state.h"

enum vc_answer_function {
    VC_ANSWER_NONE,      /* the output is what some other node makes */
    VC_ANSWER_SOFTMAX,   /* the output is shares; `logits` are before it */
    VC_ANSWER_LOGARITHM, /* the output is shares; `logits` are their logarithm */
    VC_ANSWER_SIGMOID,   /* each number of the output is a share of its own; `logits` are before it */
    VC_ANSWER_MIXED      /* shares along an axis that has rows of data, or that a Reshape divides: no classes */
};

struct vc_graph_answer {
    uint32_t output; /* number among the outputs of the graph: the first one of floats */
    uint32_t value;  /* of that output */
    enum vc_answer_function function;
    bool single; /* no SOFTMAX, and the output has one number for each row, or for each position of a row */
    /* SOFTMAX, LOGARITHM: elements [rows, ..., classes]; `classes` is how many. SIGMOID: the shape of the output; of a
     * single one as two classes, 0 and the value. NONE and single: the same of the output itself. Else `value`. */
    uint32_t logits;
    struct vc_dim classes;
    /* NONE, SIGMOID of several: who makes what are no logits: "Relu", "LayerNormalization"; NULL: it may be logits. */
    const char *ending;
};

/* With the sizes that are bound. output: a number among the outputs; VC_NO_VALUE: the first one of floats. pairs: a single number is the logits of two classes. Nodes may be added to the
 * graph, which outputs do not need; a second call finds them. VC_E_UNSUPPORTED: no output has floats; the
 * sentence says what makes the first one. */
enum vc_status vc_graph_find_answer(struct vc_ctx *ctx, struct vc_graph *graph, uint32_t output, bool pairs,
                                    struct vc_graph_answer *out);

/* Of an output that no function makes: the same with dimension `axis` behind the others. A node is added, which
 * a second call finds. VC_NO_VALUE: no memory. */
uint32_t vc_graph_answer_last(struct vc_graph *graph, const struct vc_graph_answer *found, unsigned axis);
/* Values [rows, ...] side by side, [rows, numbers of the first, numbers of the second, ...]. Nodes are added, which a second
 * call finds. VC_NO_VALUE: no memory. */
uint32_t vc_graph_answer_join(struct vc_graph *graph, const uint32_t *values, unsigned n);
