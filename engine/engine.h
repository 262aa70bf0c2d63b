/* engine.h - runs a graph forward and backward as one static program over one planned arena.
 *
 *     make the weights of the graph           vc_weights_make (weights.h)
 *     bind all sizes, make the program        vc_graph_bind, vc_engine_make: nothing large is allocated; a dry run ends
 *                                             here, with vc_engine_bytes
 *     give it memory                          vc_engine_attach, one block for all engines that take turns
 *     per step: fill the inputs               vc_engine_input
 *               forward                       vc_engine_forward
 *               loss: read outputs, write     vc_engine_output: .data, .grad
 *               their gradients
 *               backward                      vc_engine_backward: adds to the gradients of the weights
 *
 * A program is made for the sizes that are bound when it is made. A last batch of fewer rows is a second engine over
 * the same weights and the same memory; so is an evaluation.
 *
 * The work of each instruction is cut into blocks by shapes alone, each sum within a block runs in one order, and
 * partial sums are added in the order of their blocks. So the bits do not depend on the number of threads.
 *
 * Why a static program: all sizes are known before the first step, so every buffer's lifetime is known, the
 * arena is packed once, and a dry run can say to the byte what a training will take. A step then allocates
 * nothing and cannot run short. */
#pragma once

#include <vcompress/memory.h>

#include "engine/weights.h"

struct vc_engine;
struct vc_run_value;

/* A program that begins at values which the caller has and computes the wanted ones, forward only, on the
 * processor: engine/answers and measure/. It stops where a parameter comes in and where a wanted value is
 * there, and calls `param` and `take` on the thread that called vc_engine_forward. */
struct vc_engine_answers {
    const struct vc_run_value *feeds; /* by value of the graph: known where it has data; shapes are not read */
    const bool *wanted;               /* by value */
    bool every; /* take gets every result that the program makes, not views and what is known without inputs */
    /* By node: it runs its definition of graph/, though its operator has loops. vc_engine_make sets it where these
     * cannot do what the node asks for, and fails; the next one finds it. */
    bool *defined;
    void *user;
    enum vc_status (*param)(void *user, uint32_t param, void *elements);
    enum vc_status (*take)(void *user, uint32_t value, const struct vc_run_value *elements);
};

/* What kind of program. Options that change the arena (train, recompute, rounding, device) have to be the
 * same in the dry run that asks for its size. */
struct vc_engine_options {
    bool train;       /* there will be backward passes; false: values are kept no longer than the forward pass needs */
    unsigned threads; /* at most as many work at a time; 0: as many as the context has */
    uint64_t seed;    /* of Dropout's random numbers */
    bool dropout;     /* forward passes with `training` drop elements; false: Dropout changes nothing */
    bool frozen_norm; /* BatchNormalization computes with its running statistics in training, too */
    bool input_grads; /* train: gradients of float inputs are computed and can be read */
    uint32_t n_outputs; /* of the graph, from the first on, that are computed; what only others need is not; 0: all */
    const uint32_t *outputs; /* n_outputs values that are computed in their place; NULL: the graph's */
    size_t n_kept;           /* values beside the outputs that the loss reads, and whose gradients it may set */
    const uint32_t *kept;
    /* train: what of the forward pass is computed again in the backward pass (as in <vcompress/memory.h>): none, sqrt,
     * every, layer; auto: as few multiply-adds as let the arena be within the budget. */
    enum vc_recompute recompute;
    uint32_t recompute_every;
    uint64_t budget_bytes;
    uint32_t first_parts;           /* sqrt, every, layer: only the first so many parts; 0: all */
    struct vc_train_device *device; /* what computes; NULL: the processor. Floats only */
    /* VC_UNARY_ROUND_BF16, VC_UNARY_ROUND_F16: values, their gradients, and copies of the weights that the program then
     * computes with, are rounded (plan_round.c), and values wait in 16 bits; VC_UNARY_COPY: neither. */
    enum vc_unary rounding;
    bool plan_only; /* it can be asked for its figures and nothing else: there are no threads */
    /* In place of outputs and inputs, of which there are none; the caller's, for as long as the engine lives. NULL: a
     * program of the outputs. */
    const struct vc_engine_answers *answers;
};

/* A value as the loss sees it. */
struct vc_engine_value {
    uint32_t value; /* of the graph */
    unsigned n_dims;
    int64_t shape[VC_GRAPH_MAX_DIMS];
    uint64_t n;    /* elements */
    bool integers; /* elements are int64_t; else float or double, as the weights are */
    void *data;    /* an output: valid from forward to backward; an input: to be filled before every forward */
    void *grad;    /* an output: to be written between forward and backward, all of it; an input: read behind backward;
                      NULL if there is none, because nothing that is trained is before it */
    /* On a device: the same there, of which `data` and `grad` are copies, and where those are in the memory of the
     * host. */
    void *device_data, *device_grad;
    uint64_t staged, staged_grad;
};

/* Makes the program of a graph whose symbols are all bound; graph and weights outlive the engine. Nothing
 * large is allocated. VC_E_UNSUPPORTED: the engine has no way to run or train some nodes; the sentence is
 * about the first. VC_E_FORMAT: shapes do not fit with the bound sizes. *out is NULL after a failure. */
enum vc_status vc_engine_make(struct vc_ctx *ctx, const struct vc_graph *graph, struct vc_weights *weights,
                              const struct vc_engine_options *options, struct vc_engine **out);
void vc_engine_free(struct vc_engine *engine); /* accepts NULL */

/* Bytes of the arena: inputs, values, their gradients, workspace; without weights. */
uint64_t vc_engine_bytes(const struct vc_engine *engine);
/* The most bytes that live at one instruction: no arrangement in memory is smaller. vc_engine_bytes is at
 * or a little above it. */
uint64_t vc_engine_least_bytes(const struct vc_engine *engine);
/* Bytes of the arena that live between the forward and the backward pass: inputs, and values that the
 * backward pass reads. */
uint64_t vc_engine_kept_bytes(const struct vc_engine *engine);
/* The arena without any reuse: each value with memory of its own. */
uint64_t vc_engine_naive_bytes(const struct vc_engine *engine);

/* Multiply-adds that a backward pass computes again, and those of the forward pass. */
void vc_engine_recomputed(const struct vc_engine *engine, uint64_t *again, uint64_t *forward);

/* Whether output k has a gradient, .grad, once the engine has memory. */
bool vc_engine_has_grad(const struct vc_engine *engine, size_t k);

/* memory: vc_engine_bytes or more, aligned to VC_POOL_ALIGN, the caller's. It holds nothing between passes, so engines
 * that take turns may share it. */
void vc_engine_attach(struct vc_engine *engine, void *memory);

/* With options.answers: the same values with other elements, before memory is attached. */
void vc_engine_feed(struct vc_engine *engine, const struct vc_run_value *feeds);
/* Bytes of constants, which the engine takes when it is made. */
uint64_t vc_engine_constant_bytes(const struct vc_engine *engine);

/* With options.device: the arena is in its memory, and `staging`, of vc_engine_host_bytes, in the host's. Beside the
 * arena the engine takes vc_engine_own_bytes of the device for itself, at the first call. */
enum vc_status vc_engine_attach_device(struct vc_engine *engine, void *staging, void *arena);
uint64_t vc_engine_host_bytes(const struct vc_engine *engine); /* 0 without a device */
uint64_t vc_engine_own_bytes(const struct vc_engine *engine);  /* the same */

/* Inputs, and outputs followed by the kept values, in the order of the graph and of the options. Pointers are those of
 * the attached memory. */
size_t vc_engine_input_count(const struct vc_engine *engine);
const struct vc_engine_value *vc_engine_input(const struct vc_engine *engine, size_t k);
size_t vc_engine_output_count(const struct vc_engine *engine);
const struct vc_engine_value *vc_engine_output(const struct vc_engine *engine, size_t k);

/* VC_E_CANCELLED; VC_E_ARGUMENT: an index among the inputs is out of range; VC_E_FORMAT: integers that the graph cannot
 * compute with; what a device fails with. Nothing else fails. */
enum vc_status vc_engine_forward(struct vc_engine *engine, const struct vc_engine_pass *pass);
/* Of the last forward pass. Adds to weights->items[].grad. */
enum vc_status vc_engine_backward(struct vc_engine *engine);

/* On a device: outputs stay there behind a forward pass, and their gradients, which the caller computes there, are not
 * sent before a backward pass. Without a device nothing changes. */
void vc_engine_keep_outputs(struct vc_engine *engine, bool stay);
/* On a device: whether forward passes end without asking for an index out of range, which makes the host wait. The caller asks
 * the device, and runs the pass again, without this, for the sentence. */
void vc_engine_ask_faults_later(struct vc_engine *engine, bool later);
/* Brings one that stayed to .data. */
enum vc_status vc_engine_fetch(struct vc_engine *engine, size_t output);

/* fn(user, worker, block) for all blocks from 0 to n - 1, on the threads of the engine: for optimizers and losses. Each
 * block once, in any order; worker < vc_engine_workers. */
unsigned vc_engine_workers(const struct vc_engine *engine);
void vc_engine_each(struct vc_engine *engine, size_t n, void (*fn)(void *user, unsigned worker, size_t block),
                    void *user);
