/* train_backend.h - the plug-in's second table: training on a device. Memory that stays there, one stream, the
 * instructions of train_args.h for floats, losses and updates. struct vc_backend (backend.h) has a pointer to it; a
 * plug-in of before has none, and then training on a device is refused.
 *
 *     begin                                 a session: stream, library of products
 *     alloc, to_device                      weights, gradients, what instructions read
 *     per step: to_device (inputs), run, run, ..., loss or to_host (outputs), run, ..., measure, update
 *     to_host                               weights, for a file or a checkpoint
 *     begin_capture, run, ..., end_capture  once; then launch in the place of these
 *     drop, release, end
 *
 * Everything of a session happens in the order of its calls; to_host and fault wait for what was asked for before. One
 * thread at a time calls. Results: 0, or a code for vc_backend.error. */
#pragma once

#include "core/values/grids.h"
#include "kernels/train_args.h"
#include "kernels/train_codes.h"

VC_BEGIN_C

/* Raised when a member, an instruction, a struct or an enum of train_args.h changes its meaning or its layout. */
#define VC_TRAIN_BACKEND_ABI 12

/* One instruction. */
struct vc_train_work {
    int loop;                         /* what `find` said */
    const struct vc_train_call *call; /* p: device memory; args: of host memory */
    const void *device_args;          /* the same arguments, whose arrays are in device memory; of `mapped...` only */
    const struct vc_engine_pass *pass;
};

/* The losses of step_math.h with all logits of the teacher, or without a teacher. */
struct vc_train_loss {
    uint64_t n_rows, n_classes;
    double alpha, temperature;
    double kd_by, ce_by; /* 1 / rows of the step; 0: a term without rows */
    bool mse, cosine;
    double scale; /* the gradient is times it, a power of two */
    /* Device memory: */
    const float *logits, *teacher; /* teacher may be NULL */
    const int64_t *labels;
    const uint8_t *mask;
    float *gradient;
    double *sums; /* of each row: what it adds to kd and to ce, 0 where it does not */
};

/* Some weights of one tensor, in device memory. m, v, keep: NULL where there are none. The states are codes where
 * m_factors is not NULL, with a factor for each VC_CODED_BLOCK of them. */
struct vc_train_block {
    float *w, *g, *m, *v;
    uint8_t *m_codes, *v_codes;
    float *m_factors, *v_factors;
    const uint8_t *keep;
    uint64_t n;
    double decay;
};

enum { VC_TRAIN_SGD, VC_TRAIN_ADAM, VC_TRAIN_ADAMW };

struct vc_train_update {
    int kind;
    bool nesterov;
    double lr, momentum, beta1, beta2, eps;
    uint64_t t;                         /* number of the step, from 1 */
    double by;                          /* gradients are multiplied by it; 1: not at all */
    const struct vc_dynamic_maps *maps; /* of coded states, in device memory */
};

enum {
    VC_TRAIN_FAKE_QUANT_I8,
    VC_TRAIN_FAKE_QUANT_Q8_0,
    VC_TRAIN_FAKE_QUANT_F16,
    VC_TRAIN_FAKE_QUANT_BF16,
    VC_TRAIN_FAKE_QUANT_LARGEST, /* pos[0] becomes at least the largest magnitude; nothing else */
    VC_TRAIN_FAKE_QUANT_GROUPS   /* codes whose scales are searched; a group has `inner` elements of a row */
};

/* Fake quantization: w becomes what the codes of `master` stand for. Of I8: element i has scale
 * number  i / row_len * n_per_row + i % row_len / inner % n_per_row. */
struct vc_train_fake_quant {
    int kind;
    bool asymmetric;
    uint64_t n, row_len, inner, n_per_row, n_scales;
    /* Device memory: */
    const float *master;
    float *w;
    uint32_t *pos, *neg; /* I8: of each scale: the largest magnitudes, ... */
    float *scale;        /* ... which the call makes, and what follows of them */
    int8_t *zero;
    /* GROUPS: as vc_group_round takes them (grid_codes.h). pos: of a global scale, from LARGEST; NULL if there is none */
    struct vc_group_codes how;
};

/* Of several indices out of range the first one of the first node. */
struct vc_train_fault {
    bool set;
    uint32_t node;
    uint64_t at;
};

#define VC_TRAIN_SUMS_ID 128 /* bytes that tell ranks of one run from others */
#define VC_TRAIN_UUID    16  /* bytes that tell one device from all others, of other machines too */

/* Sums over ranks that have a device each, by a library that the system may have (NCCL). Results: 0, or 1, and `why`
 * has the reason. A rank alone in a call waits for the others: they agree before that they will be there. */
struct vc_train_sums {
    const char *(*name)(void); /* "NCCL 2.27.3"; NULL if there is none, and `why` has the reason */
    const char *(*why)(void);
    int (*id)(unsigned char id[VC_TRAIN_SUMS_ID]); /* made by one rank for all */
    int (*begin)(void *session, const unsigned char id[VC_TRAIN_SUMS_ID], unsigned rank, unsigned size); /* asked for */
    int (*add)(void *session, float *data, uint64_t n); /* device memory: becomes the sum of that of all; asked for */
    int (*wait)(void *session, bool (*stop)(void *user),
                void *user);                /* what was asked for; 2: stopped before it is done */
    void (*end)(void *session, bool whole); /* whole: all ranks are here; else what is asked for is broken off */
    int (*uuid)(unsigned char uuid[VC_TRAIN_UUID]); /* of the open device: NCCL refuses two ranks with one device */
};

struct vc_train_backend {
    uint32_t abi;         /* VC_TRAIN_BACKEND_ABI of the plug-in */
    uint32_t struct_size; /* sizeof(struct vc_train_backend) of the plug-in; new members go to its end */

    int (*begin)(void **session); /* on the device that is open */
    void (*end)(void *session);   /* accepts NULL; memory has been released */
    uint64_t (*own_bytes)(void);  /* device memory of a session itself */

    int (*alloc)(void *session, uint64_t bytes, void **out); /* aligned to 256 */
    void (*release)(void *session, void *p, uint64_t bytes);
    int (*to_device)(void *session, void *to, const void *from, uint64_t bytes); /* `from` may be reused afterwards */
    int (*to_host)(void *session, void *to, const void *from, uint64_t bytes);
    int (*clear)(void *session, void *p, uint64_t bytes); /* zeros */

    int (*find)(const char *loop); /* "unary": its number; -1: there is no such instruction here */
    int (*run)(void *session, const struct vc_train_work *work);
    int (*fault)(void *session, struct vc_train_fault *fault); /* since the last call */

    int (*loss)(void *session, const struct vc_train_loss *loss);
    /* squares, n + 1 doubles of device memory: the sum of squares of the gradients of each block, with masked ones set to 0
     * first; and 1 if `fault` would find one, else 0. */
    int (*measure)(void *session, const struct vc_train_block *blocks, uint64_t n, double *squares);
    int (*update)(void *session, const struct vc_train_block *blocks, uint64_t n, const struct vc_train_update *update);

    const char *(*products)(void *session); /* "cuBLAS 13.0", "own kernel" */
    int (*fake_quant)(void *session, const struct vc_train_fake_quant *fake_quant);
    const struct vc_train_sums *sums;

    /* Instructions that are asked for again and again as one: between begin_capture and end_capture nothing but `run` is
     * called, and nothing happens. A launch does all of it, with what calls, arguments and the pass were then, but for the
     * numbers of the step and the row, which are those of `pass`; NULL: no instruction reads them. After a code of any of
     * them, end_capture included, nothing of it was done, there is no graph, and the session goes on as before. A graph
     * takes memory of the driver, which is not told to anyone: some KiB for each instruction. */
    int (*begin_capture)(void *session);
    int (*end_capture)(void *session, void **graph); /* always, behind a begin_capture that gave 0 */
    int (*launch)(void *session, void *graph, const struct vc_engine_pass *pass);
    void (*drop)(void *session, void *graph); /* before the session ends */
};

VC_END_C
