/* recurrent.h - attributes of RNN, GRU and LSTM, for shapes and loops alike. */
#ifndef VC_GRAPH_RECURRENT_H
#define VC_GRAPH_RECURRENT_H

#include "graph/base/graph_state.h"

enum vc_recurrent_function {
    VC_RECURRENT_SIGMOID,
    VC_RECURRENT_TANH,
    VC_RECURRENT_RELU,
    VC_RECURRENT_HARD_SIGMOID, /* 0.2 x + 0.5, from 0 to 1 */
    VC_RECURRENT_SOFTSIGN,
    VC_RECURRENT_SOFTPLUS
};

#define VC_RECURRENT_FUNCTIONS 6 /* three of each direction */

/* Rows of weights for each hidden unit: 4 of LSTM (input, output, forget, cell), 3 of GRU (update, reset, new), 1 of RNN. */
unsigned vc_recurrent_gates(const struct vc_graph_node *node);
/* Functions of one direction: of gates, of the new state, and with LSTM of the cell on its way out. */
unsigned vc_recurrent_direction_functions(const struct vc_graph_node *node);
/* The functions of all directions, in ONNX's order; out has room for VC_RECURRENT_FUNCTIONS. Returns what is wrong with
 * them, or NULL. */
const char *vc_recurrent_functions(const struct vc_graph_node *node, enum vc_recurrent_function *out);

#endif
