/* aim.h - aims: the user says how exact the weights have to be, or how large the file may be, and the pass chooses a
 * way for each tensor: a row of the table of schemes with its granularity, or to leave it as it is.
 *
 *     plan      every tensor that could be quantized gets a trial: a step that changes nothing (aim_trial.c)
 *     calibrate the trial runs all ways on every tile and adds up their errors
 *     decide    aim_choose.c picks a way for each tensor, the trial goes, the steps of that way come
 *
 * A scheme takes part by being in the table: its own step is what a trial runs. Planning is done by one thread; a round
 * calls a trial from many. */
#ifndef VC_QUANTIZE_AIM_H
#define VC_QUANTIZE_AIM_H

#include "passes/attempts.h"
#include "quantize/schemes.h"

#define VC_AIM_WAYS 16

struct vc_aim_way {
    const struct vc_scheme_row *row;
    struct vc_quantize_options options; /* the user's, with the row's target and one of its granularities */
};

/* What a pass with an aim knows; zeros without one. */
struct vc_aim {
    bool set;
    double sqnr_db;      /* every tensor reaches this; 0: the other aim */
    uint64_t file_bytes; /* the output has at most so many */
    size_t n_ways;       /* of this plan, for this output's dialect */
    struct vc_aim_way ways[VC_AIM_WAYS];
};

/* Takes the aim out of the options, and refuses two of them, and options that an aim chooses itself. options->target
 * becomes that of int8, by which tensors are selected. */
enum vc_status vc_aim_read(struct vc_ctx *ctx, struct vc_quantize_options *options, struct vc_aim *aim);

/* Lists the ways that the plan's dialect has a place for. */
enum vc_status vc_aim_list_ways(struct vc_ctx *ctx, struct vc_aim *aim, const struct vc_quantize_options *options,
                                const struct vc_plan *plan);

/* ---- aim_trial.c ---- */

/* Adds a trial to the item, or keeps it where no way makes it smaller. codes: loaders would find codes for it; else
 * it may only be cast. included: a rule asks for the tensor by name. */
enum vc_status vc_trial_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_aim *aim, bool codes,
                            bool included);

/* The trial among the steps of the pass that is planned, or NULL. */
struct vc_step *vc_trial_of(const struct vc_item *item);

/* What a trial found, after calibration; *bytes_kept: what the tensor takes as it is. The results live until the trial
 * is taken back. */
const struct vc_attempt_result *vc_trial_results(const struct vc_step *trial, size_t *n, uint64_t *bytes_kept);

/* ---- aim_choose.c ---- */

/* After calibration: replaces every trial by the steps of its way. *note: what was chosen in sum, in the arena. */
enum vc_status vc_aim_decide(struct vc_ctx *ctx, const struct vc_aim *aim, struct vc_plan *plan, struct vc_arena *arena,
                             const char **note);

#endif
