/* executor.h - moves the tiles of a plan through its stages: the one engine under every job and measurement.
 *
 * Tickets (a tile of a phase of an item) are handed out in order to the workers. A ticket that needs an earlier phase
 * of its item, or its turn at a sequential source or an ordered sink, waits for it; that cannot lock up, because
 * everything it waits for was handed out before. Of several failures the one with the lowest ticket is reported. */
#ifndef VC_CORE_EXECUTOR_H
#define VC_CORE_EXECUTOR_H

#include "core/exact_sum.h"
#include "core/pass.h"

/* Figures of an item, complete after the run. */
struct vc_item_result {
    bool measured;
    double sum_x2, sum_e2, max_abs_error;
    uint64_t zeros_before, zeros_after, clipped, nonfinite;
};

/* What leaves the last stage of a tile. Called from any worker, in any order; `out` is only valid during the call. */
struct vc_exec_visitor {
    enum vc_status (*tile)(struct vc_ctx *ctx, void *user, size_t item, const struct vc_tile *tile, const void *data,
                           void *scratch);
    size_t scratch_bytes; /* per worker */
    void *user;
};

struct vc_exec {
    struct vc_model *model;
    struct vc_item *items;
    size_t n_items;
    struct vc_item_result *results; /* n_items; may be NULL */
    struct vc_sink *sink;           /* may be NULL */
    const size_t *first_out;        /* per item: its main output tensor; with sink */
    const struct vc_out_tensor *outs;
    const struct vc_exec_visitor *visitor; /* may be NULL */
    bool survey;                           /* run ops->survey over the items that want it, nothing else */
    const char *what;                      /* for progress */
    unsigned threads_used;                 /* set by vc_exec_run */
};

/* Fails with VC_E_NOMEM when not even one worker fits under the limit; vc_exec_check tells that from the plan. */
enum vc_status vc_exec_check(struct vc_ctx *ctx, const struct vc_exec *exec);
enum vc_status vc_exec_run(struct vc_ctx *ctx, struct vc_exec *exec);

#endif
