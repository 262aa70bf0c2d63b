/* graph_state.h - inside of a graph: what those who build it, the operators and those who walk it share. */
#ifndef VC_GRAPH_STATE_H
#define VC_GRAPH_STATE_H

#include <vcompress/graph.h>

#include "core/base/arena.h"
#include "core/base/ctx.h"
#include "core/base/hash_table.h"
#include "graph/base/dims.h"

#define VC_GRAPH_MAX_NODES    1000000
#define VC_GRAPH_MAX_PROBLEMS 100

/* What a file that the graph was made from has of a value: an ONNX file, or ONNX's textual form. */
enum vc_written {
    VC_WRITTEN_NOT = 0,
    VC_WRITTEN_NAME, /* a value of that name, which other operators make, or an operator in other words */
    VC_WRITTEN_NODE, /* the same operator makes it */
    VC_WRITTEN_ATTRS /* and its lists of integers are attributes there (Slice-1, Split-11) */
};

/* Beside the public part of a value. */
struct vc_value_facts {
    enum vc_written written;
    const char *slice; /* of a parameter that a Slice of the file cuts out: what the file calls the Slice's output */
    bool slice_attrs;  /* where that begins and ends is in attributes */
    bool unknown;      /* a problem was found: type and shape mean nothing */
    const struct vc_dim *elems; /* of up to VC_MAX_ELEMS integers, or floats that are whole numbers, whose shape is of
                                   numbers: what they are, where that is known: the shape of a tensor, and what is
                                   computed from it; else NULL */
};

#define VC_MAX_ELEMS  64
#define VC_MOST_WHOLE 0x1p24 /* of floats that are whole numbers: f32 has all up to there */

struct vc_graph {
    struct vc_ctx *ctx;
    struct vc_arena arena;
    struct vc_dims dims;
    uint32_t n_nodes;
    size_t node_capacity;
    struct vc_graph_node *nodes;
    uint32_t n_values;
    size_t value_capacity;
    struct vc_graph_value *values;
    struct vc_value_facts *facts;
    uint32_t n_params;
    size_t param_capacity;
    struct vc_graph_param *params;
    uint32_t n_inputs;
    size_t input_capacity;
    uint32_t *inputs;
    uint32_t n_outputs;
    size_t output_capacity;
    uint32_t *outputs;

    struct vc_hash_table by_name; /* of the values */
    uint32_t n_problems;
    const char *problems[VC_GRAPH_MAX_PROBLEMS];
    uint32_t n_training;  /* nodes that are to compute as in training */
    const char *training; /* the first of them: "BatchNormalization 'bn1'"; the arena's */
    const char *note;     /* vc_graph_note; NULL: none */
    uint32_t n_unused;
    size_t unused_capacity;
    const char **unused;            /* names of tensors: vc_graph_unused */
    const char *block;              /* of the nodes that are added from now on; the arena's */
    bool in_expert;                 /* they are */
    bool ids_from_0;                /* of a family of transformers, whose embeddings have no negative rows */
    uint32_t routes, expert_number; /* of these nodes: vc_graph_node */
    uint32_t n_experts, experts_per_token;
    enum vc_dtype float_type; /* what config.json says that weights are loaded as; VC_DTYPE_NONE: nothing */
    uint64_t max_positions;   /* of a sequence, as the model's configuration has it; 0: it has none */
    const char *problem_type; /* of a config.json: what a head of classes is for; the arena's; NULL: it says nothing */
    uint32_t logits;          /* one more than the value that graph/answers added; 0: none */
    enum vc_status status;    /* VC_E_NOMEM, or VC_OK */
};

/* Notes a problem: a sentence without a full stop. Beyond VC_GRAPH_MAX_PROBLEMS the last one says how many more. */
void vc_graph_complain(struct vc_graph *graph, const char *format, ...) VC_PRINTF(2, 3);

/* n elements of that size in the arena; NULL: no memory, which the graph remembers. */
void *vc_graph_copy(struct vc_graph *graph, const void *bytes, size_t n, size_t size);
/* The same for a text; "" without memory. */
const char *vc_graph_copy_text(struct vc_graph *graph, const char *s);

/* "[2, 3]" in `text` of n bytes, cut where there is no room for more; returns text. */
const char *vc_graph_shape_text(const int64_t *sizes, unsigned n_dims, char *text, size_t n);

/* An attribute of the node, whose kind is the operator's; NULL, or `otherwise`: the node does not have it. */
const struct vc_graph_attr *vc_node_attr(const struct vc_graph_node *node, const char *name);
int64_t vc_node_int(const struct vc_graph_node *node, const char *name, int64_t otherwise);
double vc_node_float(const struct vc_graph_node *node, const char *name, double otherwise);
const char *vc_node_string(const struct vc_graph_node *node, const char *name, const char *otherwise);

#endif
