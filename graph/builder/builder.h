/* builder.h - how builders make a graph.
 *
 * A builder declares inputs, parameters and constants and then adds nodes in the order in which they can be computed.
 * Each call returns the number of a value, whose type and shape are known at once: vc_graph_add infers them
 * (graph/ops). What is wrong is noted as a problem, a sentence each, and building goes on with a value of unknown
 * shape, about which nothing else is said; so a builder never checks what a call returns, and all problems are found in
 * one go. vc_graph_finish ends it: VC_E_FORMAT with the first problem, if there is one.
 *
 *     uint32_t x = vc_graph_add_input(g, "x", VC_DTYPE_F32, (struct vc_dim[]){batch, vc_dim_number(784)}, 2);
 *     uint32_t w = vc_graph_add_param(g, "fc1.weight", &(struct vc_param_spec){.tensor = "fc1.weight", .n_dims = 2, ...});
 *     uint32_t y = vc_graph_add(g, "MatMul", "fc1.product", (uint32_t[]){x, w}, 2);
 *     vc_graph_add_output(g, y);
 *
 * Running out of memory is remembered and returned by vc_graph_finish. */
#pragma once

#include "graph/base/graph_state.h"

/* An empty graph; ended by vc_graph_finish or vc_graph_close. */
enum vc_status vc_graph_create(struct vc_ctx *ctx, struct vc_graph **out);

/* What a parameter is: struct vc_graph_param without the members that the graph finds out. Strings and arrays are copied.
 *     the key's rows of a fused projection:  {.tensor = "qkv.weight", .n_dims = 2, .shape = {192, 64}, .sliced = true,
 *                                             .axis = 0, .first = 64, .count = 64, .transposed = true}   value [64, 64]
 */
struct vc_param_spec {
    const char *tensor;
    size_t index; /* VC_NO_TENSOR: no weights */
    bool from_weights;
    unsigned n_dims;
    const uint64_t *shape; /* of the tensor, before slice and transposition */
    bool sliced;
    unsigned axis;
    uint64_t first, count;
    bool transposed;
    bool integers; /* codes: elements are what is stored */
};

/* Names of values must be unique; an empty one, or NULL, gets a name of its own: "MatMul_12". A taken one is a problem.
 */
uint32_t vc_graph_add_input(struct vc_graph *graph, const char *name, enum vc_dtype dtype, const struct vc_dim *shape,
                            unsigned n_dims);
/* An input that need not be given: all its elements are `otherwise` then, 1 for attention_mask. */
uint32_t vc_graph_add_option(struct vc_graph *graph, const char *name, enum vc_dtype dtype, const struct vc_dim *shape,
                             unsigned n_dims, int64_t otherwise);
uint32_t vc_graph_add_param(struct vc_graph *graph, const char *name, const struct vc_param_spec *spec);
/* Notes a further name of the same tensor (Identity of an initializer): vc_graph_param.n_also and .also. */
void vc_graph_also(struct vc_graph *graph, uint32_t param, const char *name);
/* Elements: double for VC_DTYPE_F32, else int64_t; copied. */
uint32_t vc_graph_add_constant(struct vc_graph *graph, const char *name, enum vc_dtype dtype, const int64_t *shape,
                               unsigned n_dims, const void *elements);
/* Constants without a name: a list of integers [n], and single numbers []. */
uint32_t vc_graph_add_ints(struct vc_graph *graph, const int64_t *ints, size_t n);
uint32_t vc_graph_add_int(struct vc_graph *graph, int64_t i);
uint32_t vc_graph_add_float(struct vc_graph *graph, double f);
void vc_graph_add_output(struct vc_graph *graph, uint32_t value);

/* A node to add. Everything is copied. output_names may be NULL, and so may each name. vc_graph_add_node returns
 * the first output; VC_NO_VALUE if memory is short. Attributes have ONNX's names and kinds of operator set
 * VC_GRAPH_OPSET; one that the operator does not ask for is a problem. */
struct vc_node_spec {
    const char *op;
    const char *name; /* NULL: none */
    unsigned n_inputs, n_outputs, n_attrs;
    const uint32_t *inputs;
    const char *const *output_names;
    const struct vc_graph_attr *attrs;
};

uint32_t vc_graph_add_node(struct vc_graph *graph, const struct vc_node_spec *spec);
/* A node with one output. */
uint32_t vc_graph_add_one(struct vc_graph *graph, const char *op, const char *output, const uint32_t *inputs,
                          unsigned n_inputs, const struct vc_graph_attr *attrs, unsigned n_attrs);
/* The same without attributes. */
uint32_t vc_graph_add(struct vc_graph *graph, const char *op, const char *output, const uint32_t *inputs,
                      unsigned n_inputs);
/* Output number k of the node that makes `first`. */
uint32_t vc_graph_output_of(const struct vc_graph *graph, uint32_t first, unsigned k);

/* Nodes that are added from now on belong to that block: "encoder.layer.3". NULL: to none. */
void vc_graph_set_block(struct vc_graph *graph, const char *format, ...) VC_PRINTF(2, 3);

/* Nodes that are added from now on are part of one of n experts, of which each token uses `per_token`; the same numbers
 * in all of a graph. routes, number: vc_graph_node. n 0: they are part of none. */
void vc_graph_set_expert(struct vc_graph *graph, uint32_t n, uint32_t per_token, uint32_t routes, uint32_t number);

static inline struct vc_graph_attr vc_attr_int(const char *name, int64_t i)
{
    return (struct vc_graph_attr){.name = name, .kind = VC_ATTR_INT, .i = i};
}

static inline struct vc_graph_attr vc_attr_float(const char *name, double f)
{
    return (struct vc_graph_attr){.name = name, .kind = VC_ATTR_FLOAT, .f = f};
}

static inline struct vc_graph_attr vc_attr_ints(const char *name, const int64_t *ints, size_t n)
{
    return (struct vc_graph_attr){.name = name, .kind = VC_ATTR_INTS, .ints = ints, .n = n};
}

static inline struct vc_graph_attr vc_attr_string(const char *name, const char *s)
{
    return (struct vc_graph_attr){.name = name, .kind = VC_ATTR_STRING, .s = s};
}

/* Notes a node that is to compute as in training, and computes as in inference here: vc_graph_lists.note tells of all. */
void vc_graph_asks_training(struct vc_graph *graph, const char *op, const char *name);

/* The end of building: one sentence about all of them, since a network has fifty. */
void vc_graph_write_note(struct vc_graph *graph);

/* vc_graph_lists.batch: the first symbol whose name begins with "batch", else the first symbol that leads an input. */
const char *vc_graph_batch_symbol(const struct vc_graph *graph);

/* Notes a tensor of the checkpoint that nothing needs, which is no problem: vc_graph.unused. */
void vc_graph_leave(struct vc_graph *graph, const char *tensor);

/* Marks the value as one whose shape nobody knows, without a problem of its own. */
uint32_t vc_graph_unknown(struct vc_graph *graph, const char *name);

/* The end of building. Nodes that no output needs are removed, and constants and parameters that nobody uses; nodes
 * whose outputs are known integers become constants. Numbers change. Then, VC_OK: *out is the graph. VC_E_FORMAT: there
 * are problems; the sentence is the first, and *out has them and nothing else that may be used. Otherwise *out is NULL.
 * The graph is taken in any case. */
enum vc_status vc_graph_finish(struct vc_graph *graph, struct vc_graph **out);
