/* candidate_runs.h - runs several candidates on the values of one tensor and gives the error of each candidate; nothing
 * is changed or written.
 *
 * A candidate is the one step that a pass would add (int8 with a scale per row, 2:4, ...). The step is planned on an
 * item of its own and runs on every tile. The result is thrown away; the sums of squares that the step reports are
 * added exactly, so the order of the tiles does not matter:
 *
 *     open       plans all candidates; count tells what each candidate needs; close ends the plans
 *     begin      the step that runs the candidates begins
 *     scan       every tile, if a candidate needs the whole tensor first (a scale per tensor)
 *     scan_end
 *     apply      every tile
 *     close      the sums are in the results
 *
 * The items of the candidates live from begin to close, so memory goes with the number of threads. Aims
 * (quantize/aim.h) and measurements (measure/sensitivity/sensitivity.c) use it. */
#pragma once

#include "core/chain/pass.h"

#define VC_CANDIDATE_TILES 16

/* What one candidate makes of one tensor. */
struct vc_candidate_result {
    unsigned candidate; /* its number, for vc_candidate_add_fn */
    bool refused;       /* it has no place for a value of the tensor */
    bool sampled;       /* its step is slow: of a large tensor it gets some VC_CANDIDATE_TILES tiles, and the sums are
                           what these say of all. Set by the caller */
    uint64_t bytes;     /* that the result takes with its parts; from vc_candidate_runs_count */
    double sum_x2, sum_e2;
};

/* Adds the step of candidate number `candidate` to an item of plain floats that has no steps. Called from several
 * threads, for different items. */
typedef enum vc_status vc_candidate_add_fn(struct vc_ctx *ctx, struct vc_item *item, const void *user,
                                           unsigned candidate);

struct vc_candidate_run;

/* The caller sets the first members; the others begin as zeros. */
struct vc_candidate_runs {
    vc_candidate_add_fn *add;
    const void *user;
    size_t n;
    struct vc_candidate_result *results; /* n of them, with their candidates set */

    bool scans; /* one of those that were counted needs vc_candidate_runs_scan */
    size_t out_bytes, sums_bytes, views_bytes, own_bytes; /* of the scratch */
    size_t state_bytes;
    uint64_t n_elems, stride; /* of the tensor; slow candidates get every stride-th tile */
    pthread_mutex_t mutex;
    bool has_mutex;
    struct vc_arena arena; /* from open to close, as the runs are */
    struct vc_item_set set;
    struct vc_candidate_run *runs; /* one per result */
};

/* Once, before anything else; release also takes zeros. */
enum vc_status vc_candidate_runs_init(struct vc_ctx *ctx, struct vc_candidate_runs *r);
void vc_candidate_runs_release(struct vc_ctx *ctx, struct vc_candidate_runs *r);

/* Plans all candidates on the input of `step`, which is one of the item's. vc_candidate_runs_close also after a
 * failure. */
enum vc_status vc_candidate_runs_open(struct vc_ctx *ctx, struct vc_candidate_runs *r, const struct vc_step *step,
                                      const struct vc_item *item);
/* Between open and close: what result i of `r` takes, and the bytes that it makes. Candidates that were not counted
 * must be taken out of the results before they begin. */
void vc_candidate_runs_count(struct vc_candidate_runs *r, const struct vc_step *step, size_t i);
uint64_t vc_candidate_runs_bytes(const struct vc_candidate_runs *r, size_t i);
/* Once it was open: a candidate did not get all tiles. */
bool vc_candidate_runs_sampled(const struct vc_candidate_runs *r);
/* Scratch of one tile, of all that were counted. */
size_t vc_candidate_runs_scratch(const struct vc_candidate_runs *r);

/* open, and the steps of all candidates begin. Does nothing where they have begun. */
enum vc_status vc_candidate_runs_begin(struct vc_ctx *ctx, struct vc_candidate_runs *r, const struct vc_step *step,
                                       const struct vc_item *item);
enum vc_status vc_candidate_runs_scan(struct vc_ctx *ctx, struct vc_candidate_runs *r, const struct vc_tile *tile,
                                      const struct vc_tile_in *in, void *scratch);
enum vc_status vc_candidate_runs_scan_end(struct vc_ctx *ctx, struct vc_candidate_runs *r);
enum vc_status vc_candidate_runs_apply(struct vc_ctx *ctx, struct vc_candidate_runs *r, const struct vc_tile *tile,
                                       const struct vc_tile_in *in, void *scratch);
void vc_candidate_runs_close(struct vc_ctx *ctx, struct vc_candidate_runs *r);

/* What a tensor takes with its parts. */
uint64_t vc_desc_all_bytes(const struct vc_desc *desc);
