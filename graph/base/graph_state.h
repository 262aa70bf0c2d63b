/* graph_state.h - inside of a graph: what builders, operators and walks over graphs share.
 *
 * Programs see a graph through include/vcompress/graph.h; the rooms of graph/, engine/ and memory/ read the
 * members. Only graph/builder/ adds values and nodes and only graph/ops/ sets their shapes; after vc_graph_finish
 * nothing changes but the sizes bound to symbols, and what graph/answers adds.
 *
 *     nodes[k].inputs --> values[v] --> params[p]      by number, VC_NO_VALUE for an omitted input
 *                         facts[v]                     same number: what programs do not see
 */
#pragma once

#include "graph/base/dims.h"

/* Bounds on files: a graph of a million nodes is refused, and of a file with more problems only the first hundred
 * are kept (VC_GRAPH_MAX_PROBLEMS). */
#define VC_GRAPH_MAX_NODES 1000000
#define VC_GRAPH_ANSWERS   32 /* outputs, from the first on, that may be answers (graph/answers/) */

/* How the value appears in the file that the graph was made from (an ONNX file or ONNX's textual form). Couplings
 * ask for it: a size that the file states (of a Reshape, a Slice) has to be written anew there once units are
 * removed. */
enum vc_written {
    VC_WRITTEN_NOT = 0,
    VC_WRITTEN_NAME, /* a value of that name, which other operators make, or an operator in other words */
    VC_WRITTEN_NODE, /* the same operator makes it */
    VC_WRITTEN_ATTRS /* and its lists of integers are attributes there (Slice-1, Split-11) */
};

/* Values in an order, while the graph is built. */
struct vc_value_list {
    size_t n;
    const uint32_t *values;
};

/* What is known of a value beyond the public part: facts[v] belongs to values[v]. */
struct vc_value_facts {
    enum vc_written written;
    const char *slice; /* of a parameter that a Slice of the file cuts out: what the file calls the Slice's output */
    bool slice_attrs;  /* start and end of that Slice are attributes (Slice-1), not inputs */
    bool unknown;      /* a problem was found: type and shape mean nothing */
    bool elsewhere;    /* a branch of an If that is no part of this graph reads it, too: its shape has to stay */
    /* The elements, where they are known while the graph is built, else NULL. A Shape of x [batch, 12, 64] has the
     * elements {batch, 12, 64}, and Gather, Concat, Mul and Div compute with them, so that Reshape knows its target
     * shape. At most VC_MAX_ELEMS elements, integers or floats that are whole numbers; the shape has only numbers. */
    const struct vc_dim *elems;
    const struct vc_value_list *list; /* of an unknown value that stands for a sequence of ONNX; else NULL */
};

#define VC_MAX_ELEMS  64
#define VC_MOST_WHOLE 0x1p24 /* floats below 2^24 in size: f32 represents every whole number up to there exactly */

/* What a decoder that stands in for another one does not have. */
struct vc_net_others {
    uint64_t params, coded; /* weights that stay floats, and others: elements */
    /* MLA: elements of a position that each layer of the stand-in keeps, that the model's layers keep as transformers has
     * them, and that programs keep which compute with the latent vector; 0: no MLA */
    uint64_t counted, kept, latent;
    /* f32 numbers at the fullest step of the layers' scans: of each position, in whole chunks of them, and of each sequence
     * that is continued, as the states of all layers; 0: no scan, or what it takes is not known */
    uint64_t scan, chunk, states;
    bool state;  /* layers keep a state or convolve: what those take while they compute is none of the stand-in's */
    bool scales; /* its logits are another tensor, times a number (Cohere, Granite) or with a bias (BART) */
    /* What scripts/stand_ins.py measured of the type (arch.h): percent of all weights, 0 where they are not more; bytes of
     * the masks of all positions that it has beside weights; what lives at the fullest moments, of f32 and of half
     * precision, NULL where it was not measured: a text up to a blank, whose letters are numbers that a position has
     * ("h": widths['h' - 'a']). Of types that were not measured so: percent of the values at the stand-in's fullest step
     * before there are logits and from then on, 0 where they are not more, and bytes of each score that a module writes
     * out. `open`: nothing bounds that. */
    uint64_t masks;
    uint32_t weights, live[2], logits[2], scores[2];
    const char *sums[2];
    uint64_t widths['z' - 'a' + 1], heads;
    bool shares_keys, open;
};

/* The arena owns names, shapes, attributes and elements; the arrays are the pool's and grow. All is freed by
 * vc_graph_close. n_X elements are used of X_capacity. */
struct vc_graph {
    union {
        struct vc_graph_lists lists; /* what programs read: the same members */
        struct {
            uint32_t n_nodes, n_values, n_params, n_inputs, n_outputs;
            uint32_t n_experts, experts_per_token;
            struct vc_graph_node *nodes;
            struct vc_graph_value *values;
            struct vc_graph_param *params;
            uint32_t *inputs, *outputs;
            uint64_t max_positions;
            const char *note;
            uint32_t n_problems; /* may be more than are kept */
            const char *const *problems;
            const char *batch;
        };
    };
    struct vc_ctx *ctx;
    struct vc_arena arena;
    struct vc_dims dims;
    size_t node_capacity, value_capacity, param_capacity, input_capacity, output_capacity;
    struct vc_value_facts *facts;

    struct vc_hash_table by_name;                     /* of the values */
    const char *kept_problems[VC_GRAPH_MAX_PROBLEMS]; /* what `problems` points to */
    uint32_t n_training;                              /* nodes that are to compute as in training */
    const char *training;                             /* the first of them: "BatchNormalization 'bn1'"; the arena's */
    /* Of an If whose branches are both computed: which, and how to leave one out; NULL if there is none. */
    const char *both;
    uint64_t n_unrolled; /* nodes and names of loops, in each of their steps: what unrolling has cost */
    uint32_t n_unused;
    size_t unused_capacity;
    /* Names of tensors in file order that the graph does not read, as is usual for the model's family (buffers,
     * heads for training); any other unused tensor is a problem. */
    const char **unused;
    const char *block; /* of the nodes that are added from now on; the arena's */
    bool in_expert;    /* nodes that are added from now on are part of an expert */
    bool of_file;      /* made from nodes that a file or a text states, with sizes that stand there */
    bool ids_from_0;   /* the graph of a transformers family: token -1 is an error there, and the last row in ONNX */
    uint32_t routes, expert_number; /* for nodes that are added from now on: members of vc_graph_node */
    bool stands_in;                 /* vc_graph_build_sizes: a decoder with the sizes of another one */
    struct vc_net_others others;
    enum vc_dtype float_type; /* the dtype that config.json names for loading weights; VC_DTYPE_NONE: not stated */
    /* config.json's: "multi_label_classification"; "question_answering" by its class; NULL: not stated. */
    const char *problem_type;
    /* By output: the value that graph/answers added, plus one; 0: no value was added. */
    uint32_t logits[VC_GRAPH_ANSWERS];
    uint32_t joined;       /* the same for several outputs side by side */
    enum vc_status status; /* VC_E_NOMEM, or VC_OK */
};

/* Notes a problem: a sentence without a full stop. Building goes on, so that one run finds all problems of a file.
 * Beyond VC_GRAPH_MAX_PROBLEMS the last one says how many more there are. */
void vc_graph_complain(struct vc_graph *graph, const char *format, ...) VC_PRINTF(2, 3);

/* The value with this name. Returns VC_NO_VALUE if no value has the name. */
uint32_t vc_graph_find(const struct vc_graph *graph, const char *name);

/* Copies n elements of `size` bytes into the arena. Returns NULL if memory is short, which graph->status remembers. */
void *vc_graph_copy(struct vc_graph *graph, const void *bytes, size_t n, size_t size);
/* The same for a text. Returns "" if memory is short, so that callers need no check. */
const char *vc_graph_copy_text(struct vc_graph *graph, const char *s);

/* "[2, 3]" in `text` of n bytes, cut where there is no room for more; returns text. */
const char *vc_graph_shape_text(const int64_t *sizes, unsigned n_dims, char *text, size_t n);
/* Both have one type, and one shape for all sizes of the inputs. */
bool vc_graph_same_kind(const struct vc_graph_value *a, const struct vc_graph_value *b);
/* It has one element for all sizes of the inputs. */
bool vc_graph_is_single(const struct vc_graph_value *value);

/* How many elements the value has with the bound sizes; -1: not known. */
int64_t vc_graph_elements(const struct vc_graph *graph, uint32_t v);
/* The *n integers that the value is known to be with the bound sizes; false: they are computed from values, are floats, or
 * more than `capacity`. */
bool vc_graph_ints(const struct vc_graph *graph, uint32_t v, int64_t *ints, size_t capacity, size_t *n);

/* An attribute of the node. NULL, or `otherwise`, if the node does not have it: callers pass ONNX's default. The
 * kind is not checked: vc_infer_int and its neighbours checked it when the node was added. */
const struct vc_graph_attr *vc_node_attr(const struct vc_graph_node *node, const char *name);
int64_t vc_node_int(const struct vc_graph_node *node, const char *name, int64_t otherwise);
double vc_node_float(const struct vc_graph_node *node, const char *name, double otherwise);
const char *vc_node_string(const struct vc_graph_node *node, const char *name, const char *otherwise);
