/* attempts.h - several ways tried on the values of one tensor, for the error of each; nothing is changed or written.
 *
 * A way is the one step that a pass would add (int8 with a scale per row, 2:4, ...). It is planned on an item of its
 * own and run on every tile; what it makes is thrown away, and the sums of squares that it reports are added exactly,
 * so the order of the tiles does not matter:
 *
 *     vc_attempts_open       plans all ways; vc_attempts_count tells what each needs, vc_attempts_close ends that
 *     vc_attempts_begin      the step that tries them begins
 *     vc_attempts_scan       every tile, where a way needs the whole tensor first (a scale per tensor)
 *     vc_attempts_scan_end
 *     vc_attempts_try        every tile
 *     vc_attempts_close      the sums are in the results
 *
 * The items of the ways live from begin to close, so memory goes with the number of threads. Aims (quantize/aim.h) and
 * measurements (measure/sensitivity/sensitivity.c) try with it. */
#ifndef VC_PASSES_ATTEMPTS_H
#define VC_PASSES_ATTEMPTS_H

#include <pthread.h>

#include "core/base/arena.h"
#include "core/chain/pass.h"

/* What one way makes of one tensor. */
struct vc_attempt_result {
    unsigned way;   /* its number, for vc_attempt_fn */
    bool refused;   /* it has no place for a value of the tensor */
    uint64_t bytes; /* that the result takes with its parts; from vc_attempts_count */
    double sum_x2, sum_e2;
};

/* Adds the step of way number `way` to an item of plain floats that has no steps. Called from several threads, for
 * different items. */
typedef enum vc_status vc_attempt_fn(struct vc_ctx *ctx, struct vc_item *item, const void *user, unsigned way);

struct vc_attempt;

/* The caller sets the first members; the others begin as zeros. */
struct vc_attempts {
    vc_attempt_fn *add;
    const void *user;
    size_t n;
    struct vc_attempt_result *results; /* n of them, with their ways set */

    bool scans;                                           /* one of those that were counted needs vc_attempts_scan */
    size_t out_bytes, sums_bytes, views_bytes, own_bytes; /* of the scratch */
    size_t state_bytes;
    pthread_mutex_t mutex;
    bool has_mutex;
    struct vc_arena arena; /* from open to close, as the attempts are */
    struct vc_item_set set;
    struct vc_attempt *tries; /* one per result */
};

/* Once, before anything else; release also takes zeros. */
enum vc_status vc_attempts_init(struct vc_ctx *ctx, struct vc_attempts *a);
void vc_attempts_release(struct vc_ctx *ctx, struct vc_attempts *a);

/* Plans all ways on the input of `step`, which is one of the item's. vc_attempts_close also after a failure. */
enum vc_status vc_attempts_open(struct vc_ctx *ctx, struct vc_attempts *a, const struct vc_step *step,
                                const struct vc_item *item);
/* Between open and close: what result i of `a` takes, and the bytes that it makes. Ways that were not counted must be
 * taken out of the results before they begin. */
void vc_attempts_count(struct vc_attempts *a, const struct vc_step *step, size_t i);
uint64_t vc_attempts_bytes(const struct vc_attempts *a, size_t i);
/* Scratch of one tile, of all that were counted. */
size_t vc_attempts_scratch(const struct vc_attempts *a);

/* open, and the steps of all ways begin. Does nothing where they have begun. */
enum vc_status vc_attempts_begin(struct vc_ctx *ctx, struct vc_attempts *a, const struct vc_step *step,
                                 const struct vc_item *item);
enum vc_status vc_attempts_scan(struct vc_ctx *ctx, struct vc_attempts *a, const struct vc_tile *tile,
                                const struct vc_tile_in *in, void *scratch);
enum vc_status vc_attempts_scan_end(struct vc_ctx *ctx, struct vc_attempts *a);
enum vc_status vc_attempts_try(struct vc_ctx *ctx, struct vc_attempts *a, const struct vc_tile *tile,
                               const struct vc_tile_in *in, void *scratch);
void vc_attempts_close(struct vc_ctx *ctx, struct vc_attempts *a);

/* What a tensor takes with its parts. */
uint64_t vc_desc_all_bytes(const struct vc_desc *desc);

#endif
