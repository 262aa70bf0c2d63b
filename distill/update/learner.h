/* learner.h - the student while it learns: its network, and everything that moves or holds its weights. The functions
 * of this folder work on it; teacher, data and the order of the work are distill/run/trainer.h. */
#pragma once

#include "distill/data/network.h"
#include "distill/math/step_table.h"

/* Of an entry of the student's weights. */
struct vc_weight_state {
    void *m, *v;                  /* numbers, or codes, of train_codes.h ... */
    float *m_factors, *v_factors; /* ... of each block of which this is the factor; NULL: numbers */
    void *master;  /* what the optimizer moves, where the network computes with what is made of it; else NULL */
    uint8_t *keep; /* NULL: nothing is masked */
    uint64_t n_masked;
};

/* Weights that are updated together (update.c). */
struct vc_update_block {
    size_t weight; /* entry of the student's weights */
    size_t first, n;
    double squares; /* of its gradients */
};

/* What the optimizer keeps: optimizer_states.c. */
struct vc_optimizer_memory {
    void *block;                    /* of all states */
    struct vc_weight_state *states; /* by entry of the weights, n of them */
    size_t n_states;
    struct vc_dynamic_maps *maps; /* of codes; NULL: no states are coded */
    struct vc_update_block *blocks;
    size_t n_blocks;
};

/* Of an entry: masks.c. */
struct vc_weight_zeros {
    uint64_t n;  /* weights that are 0 in the student's file, of a tensor with two or more dimensions */
    bool masked; /* a mask of the file, or its zeros, are kept from being trained */
};

struct vc_learner {
    struct vc_ctx *ctx;
    const struct vc_distill_options *options; /* of the run */
    const struct vc_write_options *write;     /* of the job; NULL if there is none */
    struct vc_distillation *report;
    struct vc_arena *texts;           /* the report's */
    const struct vc_step_table *math; /* losses and updates, for this processor */
    bool f64;
    bool trains; /* steps are made; else it only answers, or its statistics move */
    bool taught; /* by a teacher */
    struct vc_net net;
    struct vc_optimizer_memory optimizer;
    struct vc_weight_zeros *zeros; /* by entry of the weights */
    struct vc_gradual *gradual;    /* gradual.h; NULL: masks stay as they begin */
    /* fake_quant.h; NULL: the network computes with the weights that the optimizer moves. */
    struct vc_fake_quants *fake_quants;
    struct vc_train_device *device;   /* NULL: the CPU computes */
    struct vc_device_step *on_device; /* device_step.h */
    void *device_arena;               /* all programs take turns in it */
    void *device_room;                /* host memory of device_step.c */
};

/* What the optimizer moves: of entry k of the weights. */
static inline void *vc_learner_master(const struct vc_learner *l, size_t k)
{
    return l->optimizer.states[k].master != NULL ? l->optimizer.states[k].master : l->net.weights->items[k].data;
}
