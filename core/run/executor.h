/* executor.h - moves the tiles of a plan through its steps on several threads: the one engine under every job and
 * measurement. It opens no file and knows no format or scheme; it calls the model's reader, the steps and the sink.
 *
 * Tickets (a tile of a phase of an item) are handed out to the workers in a fixed order. A ticket that needs an earlier
 * phase of its item, or its turn at a sequential source or an ordered sink, waits for it. Waiting cannot deadlock:
 * everything that a ticket waits for was handed out before it. Of several failures the one with the lowest ticket is
 * reported, so that the sentence does not depend on timing. */
#pragma once

#include "core/chain/steps.h"
#include "core/run/sink.h"
#include "core/values/exact_sum.h"

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
    struct vc_error *steps; /* the caller's, item->chain->n_steps of them; NULL: not asked for */
};

/* What is to be run; all of it is the caller's and outlives the call. */
struct vc_exec {
    struct vc_item *items;
    size_t n_items;
    struct vc_item_result *results; /* n_items; may be NULL */
    struct vc_sink *sink;           /* NULL: the results are only measured */
    const uint32_t *first_out;      /* with a sink: per item its main output tensor */
    const struct vc_out_list *outs;
    bool calibrate; /* a round of calibration: of each item, the first step with `calibrate` set sees its input; no step
                  from it on is applied, nothing is written */
    const char *what; /* for progress */

    unsigned threads_used; /* set by vc_exec_run */
    size_t failed_item;    /* the one whose tile was refused; VC_NO_TENSOR otherwise */
};

/* The number of workers whose buffers fit under the memory limit beside what is in use now; VC_E_NOMEM, with the bytes
 * that are needed, when not even one does. For the report of a plan; vc_exec_run asks by itself. */
enum vc_status vc_exec_workers(struct vc_ctx *ctx, struct vc_exec *exec, unsigned *n_workers);
/* Runs all items that are not idle (merged, dropped, tied) and returns when all threads have ended. VC_E_CANCELLED when
 * the call is cancelled. After a failure outputs are incomplete, and no step is between begin and end. */
enum vc_status vc_exec_run(struct vc_ctx *ctx, struct vc_exec *exec);

/* Work on one index, by one of several threads; `buffers` points to the thread's own sets. */
typedef enum vc_status vc_each_fn(struct vc_ctx *ctx, void *user, size_t index, struct vc_buffers *buffers);

/* Calls fn once for every index below n, on several threads, starting them in the order of `order` (NULL: ascending),
 * until all are done or one fails; of several failures the one that comes first in that order is returned. For work
 * that is one piece per tensor (statistics, diff, verify). Every thread has n_buffers (1 or 2) sets of buffers of
 * `sizes`. */
enum vc_status vc_exec_each(struct vc_ctx *ctx, size_t n, const size_t *order, const struct vc_buffer_sizes *sizes,
                            unsigned n_buffers, vc_each_fn *fn, void *user);
