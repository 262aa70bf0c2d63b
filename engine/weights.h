/* weights.h - the tensors of a net that is trained: values, gradients, running statistics.
 *
 * One entry for each tensor of the checkpoint, with its elements as they lie in the file, so that an optimizer, a mask
 * or a writer walks them without knowing the graph. Parameters of the graph (vc_graph_param) are slices and transposes
 * of these tensors; several may be of one tensor, whose gradient is the sum of theirs.
 *
 *     graph parameters   query.weight, key.weight: first and second third of qkv.weight, transposed for MatMul
 *     entry              qkv.weight [192, 64]: data, grad
 *
 * Any number of engines (engine.h) may use one set of weights: for full batches, for a last one of fewer rows, for an
 * evaluation. */
#pragma once

#include <vcompress/graph.h>

#include "core/base/arena.h"
#include "core/text/name_table.h"
#include "kernels/train_device.h"

struct vc_weight {
    const char *name;  /* of the tensor in the checkpoint */
    bool from_weights; /* it is in vc_graph_options.weights */
    uint32_t param;    /* the first parameter of the graph that is made of it */
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t n;    /* elements: float or double as the precision is, int64_t where `integers` */
    bool integers; /* codes; never trained */
    /* A running mean or variance of BatchNormalization: changed by forward passes, never by gradients. */
    bool statistic;
    bool mixed; /* a statistic that the graph also reads as something else: equal tensors that its exporter kept once */
    double norm_share;         /* statistic: what a batch counts for in it; -1: several nodes move it */
    bool trained;              /* it has a gradient */
    bool coded;                /* codes are written for it, made of what was trained (distill/update/fake_quant.h) */
    bool both_signs;           /* coded: its scales may be negative */
    enum vc_dtype code_scales; /* coded: the type of the scales that it is trained with; NONE: codes without */
    const struct vc_quant *becomes; /* coded: the codes that replace floats; NULL: its file has codes of that kind */
    bool unread;                    /* no value that counts depends on it: not trained */
    bool initialized; /* in no file: random numbers of the seed between middle - bound and middle + bound; `param` is
                         none */
    double middle, bound;
    bool shares; /* initialized, of learned scales: they have no weight decay, and may have no gradient */
    void *data;  /* NULL before vc_weights_allocate */
    void *grad;  /* the sum of all backward passes since vc_weights_clear; NULL: not trained */
};

/* All entries. Who writes to values says so with vc_weights_changed, so that copies on a device follow. */
struct vc_weights {
    struct vc_ctx *ctx;
    const struct vc_graph *graph; /* has to outlive the weights */
    enum vc_graph_precision precision;
    size_t n;
    struct vc_weight *items;       /* in the order of their first parameters */
    uint32_t *of_param;            /* by parameter of the graph: its entry */
    struct vc_name_table names[2]; /* of the entries that are made of parameters, by from_weights */
    uint64_t seed;                 /* of entries that are initialized */
    struct vc_arena added;         /* names and shapes of these */
    uint64_t data_bytes;           /* of all values, each rounded up to 64 */
    uint64_t grad_bytes;           /* the same for gradients */
    void *data_block, *grad_block;
    /* Copies of both blocks on a device, which passes read and write there. */
    struct vc_train_device *device; /* NULL if there are none */
    void *device_data, *device_grad;
    bool newer_on_host, newer_on_device; /* values */
    bool grads_on_device;                /* gradients */
};

/* The entries, without memory for elements. frozen[k]: parameter k of the graph is not trained, and no other parameter
 * of its tensor; NULL: all floats are, but for statistics. train false: nothing is. */
enum vc_status vc_weights_make(struct vc_ctx *ctx, const struct vc_graph *graph, enum vc_graph_precision precision,
                               bool train, const bool *frozen, struct vc_weights **out);
/* The entry of that name, of the first parameter where the names of both files have it; NULL if there is none. */
const struct vc_weight *vc_weights_find(const struct vc_weights *weights, const char *name);
/* Leaves out of the training what none of these values of the graph depends on: it would never have a gradient. */
enum vc_status vc_weights_leave_unread(struct vc_weights *weights, const uint32_t *values, size_t n);
/* Two more entries that are trained, in no file and used by no graph: a map of `inputs` to `outputs` numbers, weight
 * [outputs, inputs] and bias [outputs]. *first: the weight, behind which the bias is. Before vc_weights_allocate and
 * before engines are made. Loading initializes them from `seed`. */
enum vc_status vc_weights_add_map(struct vc_weights *weights, const char *name, uint64_t inputs, uint64_t outputs,
                                  uint64_t seed, size_t *first);
/* The same for n numbers that begin as 1, "grid.<name>". */
enum vc_status vc_weights_add_shares(struct vc_weights *weights, const char *name, uint64_t n, size_t *entry);
/* Two blocks of the pool, of data_bytes and grad_bytes. Elements are undefined, gradients 0. */
enum vc_status vc_weights_allocate(struct vc_weights *weights);
/* Reads the elements: from `model`, and those that are in vc_graph_options.weights from `other`, which may be NULL. */
enum vc_status vc_weights_load(struct vc_weights *weights, const struct vc_model *model, const struct vc_model *other);
/* All gradients are 0. Only a device can fail. */
enum vc_status vc_weights_clear(struct vc_weights *weights);

/* Takes memory of the device for copies; does nothing the second time. */
enum vc_status vc_weights_use(struct vc_weights *weights, struct vc_train_device *device);
/* Gives that memory back, before the device is closed; what is only there is lost. */
void vc_weights_leave(struct vc_weights *weights);
/* Who has written to values of the host says so; who will read them there, or gradients, brings them there first.
 * Without a device these do nothing. */
void vc_weights_changed(struct vc_weights *weights);
enum vc_status vc_weights_to_host(struct vc_weights *weights);
enum vc_status vc_weights_grads_to_host(struct vc_weights *weights);
enum vc_status vc_weights_to_device(struct vc_weights *weights);
/* All gradients were made on the host. */
enum vc_status vc_weights_grads_to_device(struct vc_weights *weights);
/* The same for one entry: its values are read on the host, or were made there; its gradient was made there. */
enum vc_status vc_weights_entry_to_host(struct vc_weights *weights, size_t entry);
enum vc_status vc_weights_entry_to_device(struct vc_weights *weights, size_t entry);
enum vc_status vc_weights_gradient_to_device(struct vc_weights *weights, size_t entry);
void vc_weights_free(struct vc_weights *weights); /* accepts NULL */

static inline size_t vc_real_bytes(enum vc_graph_precision precision)
{
    return precision == VC_GRAPH_F64 ? sizeof(double) : sizeof(float);
}
