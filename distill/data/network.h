/* network.h - a network that is run on rows of data: its weights, and a program for every number of rows that it is run
 * with. Teacher and student are one each. */
#pragma once

#include "distill/data/rows.h"
#include "engine/engine.h"
#include "graph/answers/graph_answer.h"

#define VC_NETWORK_SIZES 8 /* numbers of rows that one network has programs for */

struct vc_net_options {
    const char *role;          /* "student": in sentences, which begin with the file of its weights */
    enum vc_teacher_loss loss; /* what its answers are compared by; AUTO: vc_net_open decides (vc_net.loss) */
    enum vc_net_task task;     /* ... and vc_net.task */
    enum vc_graph_precision precision;
    enum vc_unary rounding; /* of programs that train, as in struct vc_engine_options */
    bool train;
    bool frozen_norm;
    const char *const *freeze; /* globs of tensors that are not trained */
    size_t n_freeze;
    bool allow_tied;             /* tensors with several names in an ONNX file are trained as one; else refused */
    uint64_t seed;               /* of Dropout */
    enum vc_recompute recompute; /* of programs that train, as in struct vc_engine_options */
    uint32_t recompute_every;
    uint64_t budget_bytes;
    struct vc_train_device *device; /* NULL: the CPU computes */
    const uint32_t *kept; /* values of the graph that the loss reads, too: of a network that is trained in its programs
                             that train */
    size_t n_kept;
};

struct vc_net {
    struct vc_ctx *ctx;
    uint32_t output; /* number among the outputs; VC_NO_VALUE: the first of floats */
    /* Several outputs: each as a network of its own, without weights and programs, whose answers begin at `offset` of a row. The
     * network's own are all of them side by side, as values. */
    size_t n_heads, offset;
    struct vc_net *heads;
    struct vc_network network;
    struct vc_net_options options;
    struct vc_weights *weights;
    const char *batch; /* the symbol for the number of rows; NULL: it is fixed */
    int64_t fixed;
    enum vc_teacher_loss loss;   /* never AUTO */
    enum vc_teacher_loss y_loss; /* what y of floats is compared by */
    enum vc_net_task task;       /* never AUTO, behind vc_net_fit_labels of the rows that it is opened with */
    enum vc_answer_kind answers; /* what the value `answer` is */
    struct vc_graph_answer found;
    uint32_t answer;  /* the value of the graph that is computed */
    bool looked;      /* the first answers were no shares */
    size_t n_classes; /* or values */
    size_t positions; /* of each row, for each of which there are logits: 1, or those of a sequence */
    bool next;        /* they are about the next position: a decoder */
    size_t n_engines;
    struct vc_net_engine {
        uint64_t rows;
        bool train;
        struct vc_engine *engine;
    } engines[VC_NETWORK_SIZES];
};

/* Weights without memory, and the view of the rows. The first output of floats has to be rows of logits,
 * [batch, classes], logits for each position, [batch, sequence, classes], what Softmax or Sigmoid makes of such, or,
 * where the loss compares values, any values of each row; other outputs are not computed. y of the rows, of floats or of
 * integers, becomes labels or targets as the answers need it. */
enum vc_status vc_net_open(struct vc_ctx *ctx, const struct vc_network *network, const struct vc_net_options *options,
                           struct vc_rows *rows, struct vc_rows_view *view, struct vc_net *net);
/* y of other rows as the answers of the network need it: classes or floats. VC_E_ARGUMENT: it fits no task, or not that of the
 * network. */
enum vc_status vc_net_fit_labels(const struct vc_net *net, struct vc_rows *rows);
/* Of vc_net_open: what the network is for, by which loss its answers are compared, and which value of the graph has them. */
enum vc_status vc_net_find_answer(struct vc_net *net, struct vc_rows *rows);
/* The same for each output that the rows have a y for. */
enum vc_status vc_net_find_heads(struct vc_net *net, struct vc_rows *rows);
/* "kind 4, price 1", with the numbers of each output for a row, of spans "2x384"; "" of one output. NULL: no memory. */
const char *vc_net_outputs_text(const struct vc_net *net, struct vc_arena *arena);
/* What sentences begin with. */
static inline const char *vc_net_file(const struct vc_net *net)
{
    return net->network.weights->path;
}
static inline const struct vc_graph_value *vc_net_output(const struct vc_net *net)
{
    return vc_graph_value(net->network.graph, net->found.value);
}
/* Reads the weights; memory is taken at the first call. */
enum vc_status vc_net_load(struct vc_net *net);
void vc_net_close(struct vc_net *net);
/* A mask, anchors, angles: no weight, so that training leaves it as it is. By who reads it, and by its name. */
bool vc_net_is_table(const struct vc_net *net, const struct vc_graph_param *param);

/* The program for so many rows; made at the first call, without memory. train: it has a backward pass. */
enum vc_status vc_net_engine(struct vc_net *net, uint64_t rows, bool train, struct vc_engine **out);
/* Frees all programs: others are made with net->options as they are then. */
void vc_net_drop_engines(struct vc_net *net);
/* Its training takes statistics of batches, which depend on how many rows are in one. */
bool vc_net_has_batch_norm(const struct vc_net *net);
/* The most that one of its programs takes, and the least and naive figures of that one. */
void vc_net_bytes(const struct vc_net *net, uint64_t *arena, uint64_t *least, uint64_t *naive);
/* Multiply-adds that a backward pass computes again, and those of a forward pass, of its largest program that trains.
 */
void vc_net_macs(const struct vc_net *net, uint64_t *again, uint64_t *forward);
/* Of the programs without a backward pass alone. */
uint64_t vc_net_forward_bytes(const struct vc_net *net);
/* The memory of all of its programs, which take turns. With a device it is that of the host, vc_net_host_bytes or more;
 * arena is the device's. */
enum vc_status vc_net_attach(struct vc_net *net, void *memory, void *arena);
uint64_t vc_net_host_bytes(const struct vc_net *net); /* 0 without a device */
uint64_t vc_net_own_bytes(const struct vc_net *net);  /* what programs take of the device beside the arena */

/* Fills the inputs with rows by their numbers and computes. *logits: [n, positions, n_classes], those of the engine,
 * valid until its next pass or that of an engine that has the same memory. */
enum vc_status vc_net_forward(struct vc_net *net, struct vc_engine *engine, const struct vc_rows_view *view,
                              const uint64_t *numbers, size_t n, const struct vc_engine_pass *pass,
                              const struct vc_engine_value **logits);
