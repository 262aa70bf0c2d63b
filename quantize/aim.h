/* aim.h - aims: the user says how exact the weights have to be, or how large the file may be, and the pass chooses a
 * candidate for each tensor: a row of the table of schemes with its granularity, or to leave it as it is.
 *
 *     plan      every tensor that could be quantized gets a probe: a step that changes nothing (aim_probe.c)
 *     calibrate the probe runs all candidates on every tile and adds up their errors
 *     decide    aim_choose.c picks a candidate for each tensor, the probe goes, the steps of that candidate come
 *
 * A scheme takes part by being in the table: its own step is what a probe runs. Planning is done by one thread; a round
 * calls a probe from many. */
#pragma once

#include "passes/candidate_runs.h"
#include "quantize/schemes/schemes.h"
#include "search/search_parts.h"

#define VC_AIM_CANDIDATES 16

struct vc_aim_candidate {
    const struct vc_scheme_row *row;
    struct vc_quantize_options options; /* the user's, with the row's target and one of its granularities */
    enum vc_dtype blocks;               /* of the row of GGUF's block types: which; else VC_DTYPE_NONE */
    const char *name;                   /* as sensitivity calls it, "int8/group:128"; in the plan's arena */
};

/* What a pass with an aim knows; zeros without one. */
struct vc_aim {
    bool set;
    double sqnr_db;                 /* every tensor reaches this; 0: another aim */
    struct vc_search_budget budget; /* the output has at most so many bytes; 0: another aim */
    double bpw;                     /* ... bits per weight; budget follows when it is planned */
    double loss;                    /* the costs together stay below this share of the outputs; 0: another aim */
    const struct vc_measured_cost *costs;
    size_t n_costs;      /* 0: the errors of weights count */
    size_t n_candidates; /* of this plan, for this output's dialect */
    struct vc_aim_candidate candidates[VC_AIM_CANDIDATES];
};

/* Takes the aim out of the options, and refuses two of them, and options that an aim chooses itself. options->target
 * becomes that of int8, by which tensors are selected. */
enum vc_status vc_aim_read(struct vc_ctx *ctx, struct vc_quantize_options *options, struct vc_aim *aim);

/* Lists the candidates that the plan's dialect has a place for. */
enum vc_status vc_aim_list_candidates(struct vc_ctx *ctx, struct vc_aim *aim, const struct vc_quantize_options *options,
                                      const struct vc_plan *plan);

/* Adds the candidate's step to an item of floats. `weights`: as in vc_scheme_row.add. */
enum vc_status vc_aim_candidate_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_aim_candidate *candidate,
                                    enum vc_dtype weights);

/* ---- aim_probe.c ---- */

/* Adds a probe to the item, or keeps it where no candidate makes it smaller. codes: loaders would find codes for it;
 * else it may only be cast. included: a rule asks for the tensor by name. */
enum vc_status vc_aim_probe_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_aim *aim, bool codes,
                                bool included);

/* The probe among the steps of the pass that is planned, or NULL. */
struct vc_step *vc_aim_probe_of(const struct vc_item *item);

/* What a probe found, after calibration; *bytes_kept: what the tensor takes as it is; *sampled becomes true where that
 * is not from all of it. The results live until the probe is taken back. */
const struct vc_candidate_result *vc_aim_probe_results(const struct vc_step *probe, size_t *n, uint64_t *bytes_kept,
                                                       bool *sampled);

/* ---- aim_choose.c ---- */

/* After calibration: replaces every probe by the steps of its candidate. *note: what was chosen in sum;
 * lives in the arena. */
enum vc_status vc_aim_decide(struct vc_ctx *ctx, const struct vc_aim *aim, struct vc_plan *plan, struct vc_arena *arena,
                             const char **note);
