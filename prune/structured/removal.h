/* removal.h - inside of the pass that removes units (neurons, channels, heads), between its files:
 *
 *     structured.c          the pass: the plan of each tensor
 *     structured_groups.c   which groups are cut, and by how much
 *     structured_options.c  checks and copies the options; words for the report
 *     structured_select.c   scores, and which units go
 *     structured_obs.c      scores by statistics
 *     structured_experts.c  units that are tensors of their own: their scores, and the numbers in names
 *     structured_graph.c    which groups of the file's own graph they are
 *     structured_edits.c    what the model's configuration says afterwards
 *     structured_stated.c   ... and whether that is what the shapes will be
 *     structured_follow.c   ... and, of families that nobody knows, whether it is so of all that it is about
 *     structured_report.c   what the report says of each group
 *     removal_step.c        the step: sums up what is scored, copies what stays
 *     removal_refit.c       a step before it: what stays makes up for what goes */
#pragma once

#include <vcompress/structured.h>

#include "core/job/job_state.h"
#include "core/model/program.h"
#include "passes/scores/axis_sums.h"
#include "passes/scores/unit_scores.h"
#include "prune/prune_steps.h"

/* A group of the couplings. Units that go are known after the scores are, how many of them before that where each
 * group has its own share. */
struct vc_removal_group {
    const struct vc_coupling *coupling;
    enum vc_edit_key key;       /* of the size in the configuration */
    uint64_t times;             /* the units are so many times what that states */
    const char *reason;         /* why all of it stays; NULL: it is cut */
    bool unsaid;                /* ... only because the configuration cannot say it */
    struct vc_unit_names names; /* of units that are tensors of their own: where their numbers are */
    struct vc_fraction share;
    bool own;                                      /* by a rule of its own: no part of a common order */
    uint64_t n_go;                                 /* units that go */
    bool *goes;                                    /* [n_units] */
    double *scores;                                /* [n_units]; NULL: the units are given */
    size_t n_scored;                               /* members that made the scores */
    double gone_min, gone_max, kept_min, kept_max; /* scores of what goes and of what stays */
};

/* A place of a tensor that follows a group: the tensors of the output that have it, in their order. */
struct vc_removal_member {
    size_t tensor; /* in the model; of several names the first */
    size_t group;
    const struct vc_coupling_member *member;
};

/* Indices of an axis that stay, one after the other. */
struct vc_kept_run {
    uint64_t first, n;
    uint64_t out; /* the place of the first one among all that stay */
};

/* An axis of a tensor that loses indices. */
struct vc_axis_cut {
    unsigned axis;
    uint64_t len, inner; /* before */
    uint64_t n_kept;
    bool scored;
    struct vc_axis_sums sums;
    size_t n_runs;
    struct vc_kept_run *runs; /* in the job's arena */
};

/* The state of a step. */
struct vc_removal_state {
    unsigned power;
    size_t n_axes; /* rising */
    struct vc_axis_cut axes[];
};

/* The graph of the model with the size of that key made twice as large in the configuration. */
struct vc_stated_role {
    bool known;
    enum vc_edit_key key;
    uint64_t n;
    struct vc_graph *graph;               /* NULL: the family of the model is not known */
    const struct vc_graph_param **params; /* by tensor; NULL: it has none */
};

#define VC_STRUCTURED_RECIPE 9

struct vc_structured {
    struct vc_pass pass;
    struct vc_arena arena;
    struct vc_structured_options options;
    struct vc_fraction share; /* if options.share is set */
    struct vc_prune_set *sets;
    struct vc_recipe_entry recipe[VC_STRUCTURED_RECIPE];

    /* Of this plan; in the job's arena. */
    struct vc_couplings *built; /* from the model; NULL: they were given, and no others are needed */
    const struct vc_couplings *couplings;
    const struct vc_couplings *stating;          /* those that know what the file states beside its tensors */
    size_t *stated;                              /* of each group that is cut: its number there */
    struct vc_program program;                   /* what the model says about its sizes */
    bool plain;                                  /* shapes are written whatever that says */
    struct vc_stated_role role;                  /* while groups are listed */
    const struct vc_structured_units **removals; /* options.remove by tensor and axis */
    const char *measured;                        /* the note of vc_calibration_check */
    size_t n_refitted;                           /* weights, if options.reconstruct is set */
    size_t n_groups;
    struct vc_removal_group *groups;
    size_t n_members;
    struct vc_removal_member *members; /* by tensor, then group */
    const struct vc_report_removal *removal;
};

/* structured_options.c, in this order. */
enum vc_status vc_structured_check(struct vc_ctx *ctx, struct vc_structured *s);
enum vc_status vc_structured_copy(struct vc_ctx *ctx, struct vc_structured *s);
enum vc_status vc_structured_describe(struct vc_ctx *ctx, struct vc_structured *s);

/* structured_groups.c: the groups of the model, which of them are cut, and how many units each loses where that is
 * known before any score. */
enum vc_status vc_structured_list(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan);
/* Once it is known which units go: VC_E_UNSUPPORTED where none do, since the common order takes so few of each group
 * that what stays is rounded up to all of it. */
enum vc_status vc_structured_check_any(struct vc_ctx *ctx, const struct vc_structured *s);
/* The item's places in groups that are cut: *first in s->members; returns how many. */
size_t vc_structured_find(const struct vc_structured *s, const struct vc_item *item, size_t *first);
/* The kept count that n_go of n leave, as the options round it: units that go then. */
uint64_t vc_structured_round(const struct vc_structured *s, enum vc_unit unit, uint64_t n, uint64_t n_go);

/* structured_select.c: whether the elements of a member, of a tensor with so many axes, count for scores; scores from
 * the sums of all members, then which units go. */
bool vc_structured_counts(const struct vc_structured *s, const struct vc_coupling_member *member, unsigned n_dims);
enum vc_status vc_structured_select(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan);

/* structured_experts.c: where the names of tensors that are units have their numbers: group->names. *reason: they have
 * none, so that nothing could be renumbered. */
enum vc_status vc_structured_find_numbers(struct vc_ctx *ctx, const struct vc_plan *plan,
                                          struct vc_removal_group *group, const char **reason);
/* Adds their scores to the group's. */
enum vc_status vc_structured_score_tensors(struct vc_ctx *ctx, const struct vc_structured *s,
                                           const struct vc_removal_group *group, const struct vc_plan *plan,
                                           struct vc_unit_scores *scores);
/* Tensors of units that go leave the output, and those behind them get their numbers. */
enum vc_status vc_structured_renumber(struct vc_ctx *ctx, const struct vc_structured *s, struct vc_plan *plan);

/* structured_graph.c: once it is known which groups are cut. VC_E_UNSUPPORTED: given couplings are not those of the
 * file's own graph. */
enum vc_status vc_structured_match_graph(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan);
/* Of each group of s->stating how many units stay; freed by the caller. */
enum vc_status vc_structured_kept(struct vc_ctx *ctx, const struct vc_structured *s, uint64_t **kept);

/* structured_edits.c: tells the plan which sizes change. */
enum vc_status vc_structured_edit(struct vc_ctx *ctx, struct vc_structured *s, struct vc_plan *plan);
/* A width of experts that a loader's fast way does not take: pass.note says so. */
enum vc_status vc_structured_note_experts(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan);
/* Once it is known how many units go: what an ONNX file states beside its tensors. */
enum vc_status vc_structured_edit_graph(struct vc_ctx *ctx, const struct vc_structured *s, struct vc_plan *plan);
/* For every group, what its size is called in the configuration: group->key. */
enum vc_status vc_structured_find_keys(struct vc_ctx *ctx, struct vc_structured *s);
/* Why the configuration cannot say that the group has another size, in the arena; *reason NULL: it can, or there is
 * none. */
enum vc_status vc_structured_unsaid(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan,
                                    const struct vc_removal_group *group, const char **reason);

/* ---- structured_words.c ---- */

/* A word of a tensor's name that says which part of the model it is of: a part between dots, or the end of one. */
bool vc_structured_has_word(const char *name, const char *word);

/* A key for widths by the names of the tensors that make them; VC_EDIT_INTERMEDIATE: no word is there. */
enum vc_edit_key vc_structured_width_key(const struct vc_coupling *c);

/* Whether the width of experts is about the tensor, of that shape before: not about those of shared ones that have a
 * key of their own. */
enum vc_status vc_structured_is_experts(struct vc_ctx *ctx, const struct vc_structured *s, const char *name,
                                        const struct vc_desc *first, bool *is);

/* Whether the name is that of an expert, or of a shared one. */
bool vc_structured_names_expert(const char *name);

/* structured_follow.c: of a family that is not known. VC_E_UNSUPPORTED: a tensor stays as it is, and a number that
 * changes is about it, too. */
enum vc_status vc_structured_check_follow(struct vc_ctx *ctx, const struct vc_structured *s,
                                          const struct vc_plan *plan);

/* structured_stated.c: whether the group is what the configuration's number of its key is about. `role` is kept from
 * group to group. */
enum vc_status vc_structured_has_role(struct vc_ctx *ctx, const struct vc_structured *s, struct vc_stated_role *role,
                                      const struct vc_plan *plan, const struct vc_removal_group *group, bool *has);
void vc_structured_forget_role(struct vc_ctx *ctx, struct vc_stated_role *role);
/* VC_E_UNSUPPORTED: a tensor will not have the shape that the configuration will state. */
enum vc_status vc_structured_check_stated(struct vc_ctx *ctx, const struct vc_structured *s,
                                          const struct vc_plan *plan);

/* structured_report.c */
enum vc_status vc_structured_report(struct vc_ctx *ctx, struct vc_structured *s, struct vc_plan *plan);

/* removal_step.c: adds the step for the members of the item; none where it neither loses anything nor is scored. Shapes
 * and runs follow with vc_removal_settle, once it is known how many go (then `final` is false), and which. */
enum vc_status vc_removal_add(struct vc_ctx *ctx, const struct vc_structured *s, struct vc_item *item);
enum vc_status vc_removal_settle(struct vc_ctx *ctx, const struct vc_structured *s, struct vc_item *item, bool final);
/* The cut of that axis; NULL: the step has none. */
struct vc_axis_cut *vc_removal_axis(const struct vc_step *step, unsigned axis);
/* Marks the indices of the item's axis that go. */
void vc_removal_mark(const struct vc_structured *s, const struct vc_item *item, unsigned axis, bool *gone);
/* The item's step; NULL: it has none of this pass. */
struct vc_step *vc_removal_step(const struct vc_structured *s, const struct vc_item *item);

/* removal_refit.c. *is: the item, as the source has it, is a weight that loses columns and whose inputs are known;
 * *bias: the bias that may take the mean, or VC_NO_TENSOR. Else *why says what it lacks, if it loses columns. */
enum vc_status vc_removal_reader(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_item *item,
                                 struct vc_calibration *calibration, size_t *bias, bool *is, const char **why);
/* structured_obs.c: scores of the group, by what the weights that read its units would lose. */
enum vc_status vc_structured_obs(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_plan *plan,
                                 struct vc_removal_group *group);

/* Before vc_removal_add: *added: the item is a weight that loses columns, or the bias of such a
 * weight, and has a step that changes it; else *why, for the report, or NULL. Then, once it is known what goes:
 * *refits: that is columns of the weight. */
enum vc_status vc_removal_refit_add(struct vc_ctx *ctx, struct vc_structured *s, struct vc_item *item, bool *added,
                                    const char **why);
enum vc_status vc_removal_refit_settle(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_plan *plan,
                                       struct vc_item *item, bool *refits);
