/* act_graph.h - the nodes and values of a stored graph, as far as static quantization asks for them: who makes a value,
 * who reads it, what the statistics say of it. */
#pragma once

#include "core/model/program.h"

#define ACT_NONE ((size_t)-1)

/* What onnxruntime makes of a node whose inputs and outputs are codes. */
enum act_kind {
    ACT_OTHER,  /* floats */
    ACT_LAYER,  /* Conv, Gemm, MatMul: products with weights, on codes */
    ACT_CLAMP,  /* Relu, Clip: goes into the node before it */
    ACT_BOTH,   /* Add, Mul, Concat: on codes where no input is a constant */
    ACT_SINGLE, /* pools of means, Sigmoid, ...: one input, on codes with a range of its own */
    ACT_PASS    /* MaxPool, Reshape, ...: chooses among the elements of input 0, so the codes are the same */
};

struct act_value {
    const char *name;
    size_t maker;    /* node; ACT_NONE: an input of the graph, or a constant */
    size_t reader;   /* the last node that reads it */
    size_t n_uses;   /* by nodes and as an output of the graph */
    size_t constant; /* of program.constants; ACT_NONE: it is computed */
    bool is_input;
    bool coded;  /* becomes codes */
    size_t root; /* ... with the range of this value */
    float scale; /* ... of a root */
    int64_t zero;
};

struct act_graph {
    struct vc_program program; /* nodes and constants: with those of the branches of If, in one list */
    bool has_branches;
    struct act_value *values;
    size_t n_values;
    struct vc_hash_table by_name;
};

/* The graph of the model; VC_E_UNSUPPORTED where the file has none of nodes. Strings are in the arena; ended by
 * act_graph_release, also after a failure. */
enum vc_status vc_act_graph_read(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                                 struct act_graph *graph);
void vc_act_graph_release(struct vc_ctx *ctx, struct act_graph *graph);

/* The value in input or output k of the node; ACT_NONE: left out. */
size_t vc_act_input(const struct act_graph *graph, const struct vc_program_node *node, size_t k);
size_t vc_act_output(const struct act_graph *graph, const struct vc_program_node *node, size_t k);

enum act_kind vc_act_kind(const struct vc_program_node *node);
bool vc_act_is(const struct vc_program_node *node, const char *op);
/* An attribute that is an integer, or a float. */
double vc_act_number(const struct vc_program_node *node, const char *name, double otherwise);
/* The model's tensor that the value is; VC_NO_TENSOR if it is not one. */
size_t vc_act_tensor(const struct act_graph *graph, size_t value);

/* Version of ONNX's own operators. */
int64_t vc_act_opset(const struct act_graph *graph);
