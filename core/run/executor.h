/* executor.h - moves the tiles of a plan through its steps: the one engine under every job and measurement.
 *
 * Tickets (a tile of a phase of an item) are handed out in order to the workers. A ticket that needs an earlier phase
 * of its item, or its turn at a sequential source or an ordered sink, waits for it; that cannot lock up, because
 * everything it waits for was handed out before. Of several failures the one with the lowest ticket is reported. */
#ifndef VC_CORE_EXECUTOR_H
#define VC_CORE_EXECUTOR_H

#include "core/base/exact_sum.h"
#include "core/chain/steps.h"
#include "core/run/sink.h"

/* The error of a step, or of a whole chain; complete after the run. */
struct vc_error {
    bool measured;
    double sum_x2, sum_e2, max_abs_error;
    uint64_t zeros_before, zeros_after, clipped;
};

/* Figures of an item. */
struct vc_item_result {
    struct vc_error total;
    uint64_t nonfinite;
    struct vc_error *steps; /* the caller's, item->n_steps of them; NULL: not asked for */
};

struct vc_exec {
    struct vc_item *items;
    size_t n_items;
    struct vc_item_result *results; /* n_items; may be NULL */
    struct vc_sink *sink;           /* NULL: the results are only measured */
    const size_t *first_out;        /* with a sink: per item its main output tensor */
    const struct vc_out_tensor *outs;
    bool look;        /* the first step of each item that has `look` set sees its input; nothing is applied after it */
    const char *what; /* for progress */

    unsigned threads_used; /* set by vc_exec_run */
    size_t failed_item;    /* the one whose tile was refused; VC_NO_TENSOR otherwise */
};

/* The number of workers that fit under the memory limit; VC_E_NOMEM when not even one does. */
enum vc_status vc_exec_workers(struct vc_ctx *ctx, struct vc_exec *exec, unsigned *n_workers);
enum vc_status vc_exec_run(struct vc_ctx *ctx, struct vc_exec *exec);

/* Calls fn for every index below n, each by one of several threads, in order of `order` (NULL: ascending), until all
 * are done or one fails: for work that is one piece per tensor. Every worker has n_buffers (1 or 2) sets of buffers of
 * `room`. */
typedef enum vc_status vc_each_fn(struct vc_ctx *ctx, void *user, size_t index, struct vc_buffers *buffers);

enum vc_status vc_exec_each(struct vc_ctx *ctx, size_t n, const size_t *order, const struct vc_room *room,
                            unsigned n_buffers, vc_each_fn *fn, void *user);

#endif
