/* recurrent.h - attributes of RNN, GRU and LSTM, for shapes and loops alike. */
#pragma once

#include "graph/base/graph_state.h"

enum vc_recurrent_kind {
#define FUNCTION(KIND, word, alpha, beta, value, slope) VC_RECURRENT_##KIND,
#include "kernels/unary_recurrent.inc"
#undef FUNCTION
    VC_RECURRENT_KINDS
};

struct vc_recurrent_function {
    unsigned kind; /* enum vc_recurrent_kind */
    double a, b;   /* its numbers */
};

#define VC_RECURRENT_FUNCTIONS 6 /* three of each direction */

/* Rows of weights for each hidden unit: 4 of LSTM (input, output, forget, cell), 3 of GRU (update, reset, new), 1 of RNN. */
unsigned vc_recurrent_gates(const struct vc_graph_node *node);
/* Functions of one direction: of gates, of the new state, and with LSTM of the cell on its way out. */
unsigned vc_recurrent_direction_functions(const struct vc_graph_node *node);
/* What PyTorch's module of an operator has, and where ONNX has the gates that the module has in order. */
struct vc_torch_recurrent {
    const char *op;
    unsigned gates;
    unsigned char order[4]; /* ONNX's gate k is gate order[k] of PyTorch */
};

/* NULL: the operator is none of RNN, GRU, LSTM. */
const struct vc_torch_recurrent *vc_torch_recurrent(const char *op);
/* The functions of all directions, in ONNX's order; out has room for VC_RECURRENT_FUNCTIONS. Returns what is wrong with
 * them, or NULL. */
const char *vc_recurrent_functions(const struct vc_graph_node *node, struct vc_recurrent_function *out);
/* Direction d runs from the last step to the first. */
bool vc_recurrent_is_reverse(const struct vc_graph_node *node, unsigned d);
