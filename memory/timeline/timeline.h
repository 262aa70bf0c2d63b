/* timeline.h - a run of a graph as steps, and what lives in memory at which of them.
 *
 *     inference   one step per node
 *     training    one step per node, the loss, then the backward step of each node, last node first; with recomputation
 *                 the nodes of a part are computed once more before the backward steps of that part; then the optimizer
 *
 * The column `eager` of graph/ops/ops.inc says what each operator does to memory, storage.c which values share it,
 * timeline.c makes the list. */
#pragma once

#include <vcompress/memory.h>

#include "core/base/ctx.h"
#include "core/base/pack.h"
#include "graph/liveness.h"
#include "graph/ops/ops.h"
#include "graph/parts.h"

/* The node that makes a value. NULL: none does, or v is VC_NO_VALUE. */
static inline const struct vc_graph_node *vc_memory_maker(const struct vc_graph *graph, uint32_t v)
{
    const struct vc_graph_value *value = v != VC_NO_VALUE ? vc_graph_value(graph, v) : NULL;

    return value != NULL && value->node != VC_NO_NODE ? vc_graph_node(graph, value->node) : NULL;
}

/* ---- storage.c: which values share memory ---- */

/* A request to PyTorch's caching allocator: allocate `bytes` as `id`, or (free) release the memory of `id`. */
struct vc_allocation {
    uint64_t bytes;
    uint64_t id;
    bool free;
};

struct vc_allocated {
    uint64_t allocated, reserved; /* at the end: bytes of blocks in use and of segments taken from the device */
    uint64_t most_allocated, most_reserved;
};

/* Emulates PyTorch's native allocator with default settings: the memory it takes from the device for these requests.
 * Sizes are rounded up to 512 bytes; 0 bytes take nothing. Segments have 2 MiB for requests up to 1 MiB, 20 MiB below
 * 10 MiB, else the size in steps of 2 MiB. Blocks are split, joined and reused. VC_E_ARGUMENT if an id to free has no
 * memory. reserved and given, where not NULL, get what is reserved after each request, and the bytes of its block.
 * caching.c */
enum vc_status vc_allocator_trace(struct vc_ctx *ctx, const struct vc_allocation *requests, size_t n,
                                  struct vc_allocated *out, uint64_t *reserved, uint64_t *given);

/* What eager PyTorch holds in inference (frames.c); `until` NULL: it is not asked. */
struct vc_frames {
    uint32_t *until;      /* by root: the last node that it lives at */
    uint64_t *extra;      /* by node: bytes while it computes */
    uint64_t *kept;       /* by node: bytes from then on ... */
    uint32_t *kept_until; /* ... to that node */
};

struct vc_storages {
    struct vc_ctx *ctx;
    const struct vc_graph *graph;
    const struct vc_memory_options *options;
    unsigned float_bytes; /* of activations without autocast */
    uint32_t n_nodes, n_values;
    unsigned *eager;        /* by node: vc_op_row.eager */
    bool *gate;             /* by node: a Sigmoid that is part of x * sigmoid(x) */
    uint64_t *bytes;        /* by value */
    uint8_t *width;         /* by value: bytes of an element */
    uint32_t *root;         /* by value: the value whose memory it is */
    uint32_t *grad_root;    /* by value: ... whose gradient's memory its gradient is */
    uint32_t *last_use;     /* by root: the last node that reads it; 0 where none does */
    bool *trained;          /* by value: there is a gradient */
    bool *statistic;        /* by value: a mean or variance that a normalization has seen */
    bool *saved;            /* by root: a backward step needs it */
    bool overflow;          /* a value is too large for 64 bits */
    const char *unknown;    /* a value whose size is no number; NULL: all are known */
    const char *unknown_op; /* an operator whose backward step is not modelled; NULL: none */
    uint32_t *shard;        /* by value: in how many parts it is divided, of which a device has one; >= 1 */
    bool *idle;             /* by node: another stage of the pipeline computes it */
    bool *adapted;          /* by node: a product with an adapter of low rank */
    bool *inside;           /* by value: inside of one of PyTorch's operators, which has its gradient in a workspace */
    bool *unnamed;          /* by value: onnxruntime does not know its sizes before it runs */
    bool *used;             /* by value: a node that is not idle reads or makes it */
    uint64_t *cached;       /* by node: positions that an Attention reads of a cache, with those in work; 0: none */
    uint64_t *decoded;      /* by value: bytes of the floats that a parameter becomes while a node reads it */
    const uint32_t *parts;  /* VC_RECOMPUTE_AUTO: by node, which are computed again together; NULL: none */
    struct vc_frames frames;
    uint32_t vocabulary; /* the table of the most rows that is looked up in; VC_NO_VALUE: none */
    bool biased;         /* some Attention has numbers by relative position: those without have zeros (T5) */
};

/* ---- divide.c: one device of several ---- */

/* Sets shard and vocabulary; idle, for a stage from 0 on; adapted (false: there is nothing to adapt). */
enum vc_status vc_divide_tensors(struct vc_storages *s);
enum vc_status vc_divide_stages(struct vc_storages *s, unsigned stage);
bool vc_find_adapted(struct vc_storages *s);

/* The weight of a product with one, MatMul or Gemm; VC_NO_VALUE for other nodes. */
uint32_t vc_product_weight(const struct vc_graph *graph, const struct vc_graph_node *node);

/* stage: of the pipeline, from 0 on. */
enum vc_status vc_storages_make(struct vc_ctx *ctx, const struct vc_graph *graph,
                                const struct vc_memory_options *options, unsigned stage, struct vc_storages *out);
void vc_storages_release(struct vc_storages *s);

/* Sets and clears frames. */
enum vc_status vc_frames_make(struct vc_storages *s);
void vc_frames_release(struct vc_storages *s);

/* A device's elements of a value are at most as many. */
#define VC_TOO_MANY (UINT64_MAX / 64)

/* ---- elements.c ---- */

/* Elements of a value, at most VC_TOO_MANY; false: a size is not known. */
bool vc_count_elems(const struct vc_graph *graph, const struct vc_graph_value *value, uint64_t *n);

/* Elements of a value without its last axis; 0: a size is not known. */
uint64_t vc_count_rows(const struct vc_graph *graph, const struct vc_graph_value *value);

/* ---- attention.c ---- */

/* Whether heads of the Attention share keys and values. */
bool vc_storages_repeats_keys(const struct vc_storages *s, uint32_t node);
/* Numbers that are added to its scores, for each head: relative positions; VC_NO_VALUE: it has none. */
uint32_t vc_storages_bias(const struct vc_storages *s, uint32_t node);
/* Bytes of scores of one sequence, of the type of the Attention's output. */
uint64_t vc_storages_shared_scores(const struct vc_storages *s, uint32_t node);
/* Of an Attention without such numbers in a model that has them elsewhere (T5, to its encoder): bytes of the zeros in
 * their place, which all layers and sequences share. */
uint64_t vc_storages_zeros(const struct vc_storages *s, uint32_t node);
/* Whether one kernel computes it. */
bool vc_storages_fused(const struct vc_storages *s, uint32_t node);
/* Positions whose keys it reads: those in the graph, or in a cache. */
uint64_t vc_storages_positions(const struct vc_storages *s, uint32_t node);
/* Positions that its mask lets look back at most; 0: all. */
uint64_t vc_attention_window(const struct vc_graph *graph, const struct vc_graph_node *node);
/* Of such a mask that forbids something, as numbers, which one kernel for all heads adds to scores: bytes. */
uint64_t vc_storages_window_mask(const struct vc_storages *s, uint32_t node);
/* Of a cache that is a window: bytes of keys and values in front of it, which PyTorch has until the layer's first
 * attention behind a text that was read at once, since the window is a view of all of them. */
uint64_t vc_storages_prefilled(const struct vc_storages *s, uint32_t node);
/* Elements of the matrix of scores of an Attention, of this device. */
uint64_t vc_storages_scores(const struct vc_storages *s, uint32_t node);
/* Bytes of its keys (k: 1) or values (2) of all positions that it reads, without copies for each head. */
uint64_t vc_storages_keys(const struct vc_storages *s, uint32_t node, unsigned k);
/* Of copies of both for each head; 0: its heads share none. */
uint64_t vc_storages_copies(const struct vc_storages *s, uint32_t node);

/* ---- storage.c ---- */

/* What eager PyTorch shares, reads and saves; a copy that autocast makes is saved in place of its value. */
struct vc_liveness_policy vc_storages_policy(const struct vc_storages *s);
/* Whether the backward step of the node needs its input k, or (k == n_inputs) its first output. */
bool vc_storages_saves(const struct vc_storages *s, uint32_t node, unsigned k);
/* Bytes of a copy in another precision that autocast makes of input k for the node; 0: none. */
uint64_t vc_storages_cast_bytes(const struct vc_storages *s, uint32_t node, unsigned k);
/* Of the parameters that are decoded for the node: floats that live during its steps. */
uint64_t vc_storages_decoded_bytes(const struct vc_storages *s, uint32_t node);
/* ---- slices.c ---- */

/* Of values that are a slice of a product of queries, keys and values: all of that, where one kernel takes them as they
 * are. */
uint64_t vc_packed_bytes(const struct vc_storages *s, uint32_t v);
/* Products with slices of one tensor are one product, and their results views of its result: where one of them is kept,
 * all of that is. Counted at the first one that is kept. */
uint64_t vc_beside_bytes(const struct vc_storages *s, uint32_t node);
/* Of the gradient of parameter v that the backward step of the node makes: of all of a tensor where the parameter is a
 * slice of it; of all experts, which modules have in one tensor, gate and up beside each other. */
uint64_t vc_storages_gradient_bytes(const struct vc_storages *s, uint32_t node, uint32_t v);

/* ---- storage.c ---- */

/* Whether values are counted as onnxruntime makes them. */
bool vc_storages_by_onnxruntime(const struct vc_storages *s);

/* What else the backward step needs: statistics, places, the matrix of scores. `transient`: what only the forward step
 * itself takes beside its output. */
uint64_t vc_storages_extra_bytes(const struct vc_storages *s, uint32_t node, uint64_t *transient);

/* What the backward step takes beside gradients of values: as products, the gradients of the probabilities and of the
 * scores; as one kernel, those of numbers by position that are added to them: the kernel's, without the mask, and their
 * sum over the layers. */
uint64_t vc_storages_backward_bytes(const struct vc_storages *s, uint32_t node);

/* ---- recurrent_layers.c: RNN, GRU and LSTM, of which all layers of a module are one operator ---- */

/* Marks what is inside of such operators: sets inside and idle. Behind the sizes of values, before who uses them. */
void vc_recurrent_find(struct vc_storages *s);
bool vc_is_recurrent(const struct vc_graph_node *node);
/* Of a product that reads states with rows first, as batch_first leaves them: a copy of these. */
uint64_t vc_recurrent_copy_bytes(const struct vc_storages *s, uint32_t node);
/* Of the last layer of a module, the last states that the graph does not have. */
uint64_t vc_recurrent_last_bytes(const struct vc_storages *s, uint32_t node);
/* As vc_storages_extra_bytes and vc_storages_backward_bytes. */
uint64_t vc_recurrent_extra_bytes(const struct vc_storages *s, uint32_t node, uint64_t *transient);
uint64_t vc_recurrent_backward_bytes(const struct vc_storages *s, uint32_t node);
/* What cuDNN takes of its own while a module computes whose last layer the node is, as it usually is: of 670 modules on
 * an H200 (cuDNN 9.19) half took 0.97 to 1.13 of it in training, nine of ten 0.6 to 1.9. */
uint64_t vc_recurrent_workspace(const struct vc_storages *s, uint32_t node);

/* ---- timeline.c ---- */

struct vc_timeline {
    size_t n;
    size_t capacity[3]; /* of the three arrays */
    struct vc_buffer *buffers;
    uint8_t *kinds;     /* enum vc_memory_kind of each */
    uint32_t *maker;    /* the node that makes it; VC_NO_NODE: the loss makes it, or it belongs to no node */
    uint64_t loss_step; /* training: what lives here is what the backward pass needs */
    uint64_t n_steps;
    uint32_t *node_of;              /* by step; VC_NO_NODE: the loss, and the optimizer's step, which is the last one */
    uint64_t recomputed, n_forward; /* multiply-adds that are computed again, and in the forward pass */
};

enum vc_status vc_timeline_make(struct vc_ctx *ctx, const struct vc_storages *s, struct vc_timeline *out);
void vc_timeline_release(struct vc_ctx *ctx, struct vc_timeline *timeline);

/* The most that lives at one step of first to end - 1, blocks rounded up to `align`. VC_E_NOMEM. */
enum vc_status vc_timeline_most(struct vc_ctx *ctx, const struct vc_timeline *timeline, uint64_t align, uint64_t first,
                                uint64_t end, uint64_t *most, uint64_t *step);

/* What lives at that step, of that component or (VC_MEMORY_COMPONENTS) of all. */
uint64_t vc_timeline_live(const struct vc_timeline *timeline, uint64_t step, enum vc_memory_kind kind);
