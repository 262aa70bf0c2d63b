/* shrink_inside.h - the inside of vc_shrink: a candidate as a chain of passes, and the state of a search. */
#pragma once

#include <vcompress/calibrate.h>
#include <vcompress/depth.h>
#include <vcompress/plan.h>
#include <vcompress/shrink.h>
#include <vcompress/structured.h>

#include "core/base/arena.h"
#include "core/text/text.h"
#include "search/search_budget.h"
#include "search/search_points.h"
#include "search/search_schemes.h"

/* A candidate. The passes, in this order: prune or remove units or layers, cast, distill, quantize. */
struct vc_shrink_chain {
    const struct vc_search_scheme *scheme; /* NULL: floats as they are */
    const char *sparsity;                  /* "0.9": single weights become zero; NULL: no */
    const char *share;                     /* "0.5": units are removed; NULL: no */
    enum vc_unit unit;                     /* of `share` */
    const char *drop;                      /* "3,7": layers are removed; NULL: no */
    bool two_four;                         /* 2 of 4 weights become zero */
    uint64_t aim_bytes;                    /* the types are chosen for a file of this size; scheme is NULL */
    uint64_t steps;                        /* of distillation; 0: none */
    double harm;                           /* vc_search_harm, without data */
    uint64_t written;                      /* what it writes, by types and sizes, as a hash; 0: not counted */
};

/* A checkpoint with what it computes. */
struct vc_shrink_net {
    struct vc_model *model, *beside;
    struct vc_graph *graph;
};

#define VC_SHRINK_MOST 192

struct vc_shrinking {
    struct vc_shrinkage result; /* first: what the caller sees */
    struct vc_ctx *ctx;
    struct vc_shrink_options options;
    struct vc_write_options write;
    struct vc_arena arena;
    struct vc_shrink_chain chains[VC_SHRINK_MOST];
    struct vc_shrink_candidate candidates[VC_SHRINK_MOST];
    struct vc_model *given;         /* options.model */
    struct vc_shrink_net teacher;   /* its model is `given`; graph NULL: not known */
    struct vc_graph *sized;         /* the same graph with usual sizes, for memory; NULL: not known */
    struct vc_couplings *couplings; /* NULL: no units can be removed */
    struct vc_model *stats;         /* statistics of the rows to train; NULL: none */
    bool refits;                    /* by these, weights that stay make up for those that go: for some tensor */
    struct vc_data_options train, choose, prove;
    struct vc_search_budget budget;
    struct vc_gpu device; /* of options.visible_bytes */
    const struct vc_gpu *gpu;
    struct vc_fit counted; /* on it, of the candidate whose sizes were taken last */
    const char *plans;     /* without data, for a device: what plan calls its best recipe; NULL: none fits */
    const char *rest;      /* "bf16" */
    bool zeros;            /* the output can be deflated, so that zeros save room */
    bool onnx;
    const char *output, *work, *name; /* its path without slashes at the end; the folder beside it; its last step */
    const char *stats_path, *final_stats, *recipe;
    struct vc_quality whole;                     /* of the model on the rows to choose */
    struct vc_quality parts[3][VC_MOST_OUTPUTS]; /* of several outputs: of `whole`, result.teacher and result.quality */
    double started, used;                        /* seconds: when this call began; that interrupted calls took before */
    double until;                                /* with options.seconds: from when on none of this kind begins */
    double row_seconds;                          /* of a row through the model and its teacher; 0: not known yet */
    double step_seconds;                         /* of a training step; 0: not known yet */
    uint64_t steps_ahead;                        /* of training, as far as it is planned */
    double longest;                              /* of the untrained candidates: making and measuring */
    double deadline_cut;                         /* while training: when the steps will not end in time; 0: no limit */
    bool too_slow;
    bool tried_all;   /* the candidates without training */
    bool has_trained; /* one of them, with a figure */
    FILE *journal;
    const char *known; /* what the journal had when it was opened */
    int lock;          /* of the work folder; -1: not locked */
    const char *lock_path;
    bool ours;  /* the work folder is of this search, which may remove it */
    bool worth; /* the journal has a measured candidate, so that an interrupted search can go on */
};

/* chain.c: a chain as words, as lines of a recipe, as passes of a job. */
enum vc_status vc_chain_describe(struct vc_shrinking *s, const struct vc_shrink_chain *chain,
                                 struct vc_shrink_candidate *out);
enum vc_status vc_chain_add(struct vc_shrinking *s, const struct vc_shrink_chain *chain, struct vc_job *job);
/* " --data rows.npz --rows 1000": the options that read the rows. */
void vc_chain_add_rows(struct vc_text *text, const struct vc_data_options *d);
/* Whether the output is GGUF, whose types are llama.cpp's. */
bool vc_shrink_is_gguf(const struct vc_shrinking *s);

/* output_names.c: the names of all files, from the output's. */
enum vc_status vc_shrink_names(struct vc_shrinking *s);
/* Refuses names that are taken, and those in the folder of the input. */
enum vc_status vc_shrink_check_names(struct vc_shrinking *s);
/* Refuses what a writer refuses about the output's name. */
enum vc_status vc_shrink_try_output(struct vc_shrinking *s);

/* Which candidate is taken, of those that no pass refuses; of equal ones the first.
 *
 *     candidate      file    device   cost   harm              BEST       int4, mixed: the least cost
 *     fp16           9 MB    12 MB    0.01   0.0002   too large GENTLEST   int4: the least harm that is within
 *     int4           3 MB     6 MB    0.2    0.097    within    NEAREST    int2
 *     int4, mixed    3 MB     6 MB    0.1             within
 *     int2           1 MB     4 MB    0.9    0.36     within */
enum vc_shrink_rule {
    VC_PICK_BEST,           /* measured, within: the least cost, then the smallest file */
    VC_PICK_SMALLEST,       /* the same where the loss alone is limited: of those that hold the smallest file */
    VC_PICK_GENTLEST,       /* within: the least harm */
    VC_PICK_FIRST,          /* within, of a known size, untrained: the first of a list in the order of harm */
    VC_PICK_NEAREST_FILE,   /* the smallest file */
    VC_PICK_NEAREST_DEVICE, /* the least need on the device */
    VC_PICK_NEXT_BETTER,    /* not within, with a usual harm below that of the chosen one: the most harm */
    VC_PICK_CHEAPEST,       /* measured: the least cost, within or not */
};
/* shrink_search.c: the number of the candidate, without those that are skipped (NULL: no one is); VC_NO_CANDIDATE: there is no
 * such candidate. */
size_t vc_shrink_pick(const struct vc_shrinking *s, enum vc_shrink_rule rule, const bool *skipped);

/* candidates.c: all candidates of a search with data, in their order. Without data: uniform types, and for a device
 * the recipes of plan. */
enum vc_status vc_shrink_list(struct vc_shrinking *s);
/* Adds candidates without the layers that, removed alone, lost least: when the candidates of one layer were tried. */
enum vc_status vc_shrink_list_layers(struct vc_shrinking *s);

/* measure.c */
/* The weights that a graph is built with: none where the file is a configuration, which states all sizes. */
const struct vc_model *vc_shrink_weights(const char *graph_path, const struct vc_model *model);
enum vc_status vc_shrink_open(struct vc_ctx *ctx, const char *path, const char *graph_path, struct vc_shrink_net *net);
void vc_shrink_close(struct vc_shrink_net *net);
#define VC_SCOPED_NET VC_CLEANUP(vc_shrink_close) /* before a variable: closed where its scope ends */
/* Adds a candidate. *k: its number; VC_NO_CANDIDATE if there is no more room. */
enum vc_status vc_shrink_add(struct vc_shrinking *s, const struct vc_shrink_chain *chain, size_t *k);
/* The layout of the candidate's output: that of its scheme, or what was given. */
const char *vc_shrink_layout(const struct vc_shrinking *s, size_t k);
/* From headers: size, memory, whether it is within the limits; `reason` if the passes refuse it. */
enum vc_status vc_shrink_count(struct vc_shrinking *s, size_t k);
enum vc_status vc_shrink_job(struct vc_shrinking *s, struct vc_job **job);
/* Makes the candidate as a file in the work folder, and measures it: with data on the rows to choose. */
enum vc_status vc_shrink_try(struct vc_shrinking *s, size_t k);
/* Makes the file of an untrained candidate again. */
enum vc_status vc_shrink_make(struct vc_shrinking *s, size_t k);
/* The file of a candidate in the work folder. */
const char *vc_shrink_file(struct vc_shrinking *s, size_t k);
enum vc_status vc_shrink_quality(struct vc_shrinking *s, const char *path, const struct vc_data_options *rows,
                                 struct vc_quality *parts, struct vc_quality *out);
/* options.loss, or what AUTO has come to. */
enum vc_teacher_loss vc_shrink_compares(const struct vc_shrinking *s);
/* options.net_task, or MAPS or SPANS where AUTO has come to it. */
enum vc_net_task vc_shrink_task(const struct vc_shrinking *s);
/* Behind s->whole: the figure that max_loss is a part of. VC_E_ARGUMENT: it, or one of options.limits, is not defined or
 * not measured on these rows. */
enum vc_status vc_shrink_choose_metric(struct vc_shrinking *s);
/* What max_loss is compared with: by how much that figure is worse, in its own unit. */
double vc_shrink_loss(const struct vc_shrinking *s, const struct vc_quality *whole, const struct vc_quality *now);
double vc_shrink_seconds(const struct vc_shrinking *s); /* since the search began, interrupted calls included */
bool vc_shrink_is_late(const struct vc_shrinking *s);   /* s->until has passed */
/* With options.seconds: when the search ends, so that the output can be made and judged in what is left; at least `until`. */
double vc_shrink_end(const struct vc_shrinking *s);
/* Work from here on ends as cancelled where `until` (of vc_shrink_seconds) passes; 0: no end. */
void vc_shrink_set_end(const struct vc_shrinking *s, double until);
/* Whether the status is that of such an end: the error is cleared then, and result.out_of_time set. */
bool vc_shrink_has_ended(struct vc_shrinking *s, enum vc_status status);
/* Seconds that the rest of the search takes, by what was measured so far, at most those of options.seconds. */
double vc_shrink_rest(const struct vc_shrinking *s);

/* journal.c: what was measured, a line for each candidate. */
enum vc_status vc_journal_open(struct vc_shrinking *s);
/* Whether the journal has candidate k, whose figures are then set. */
bool vc_journal_has(struct vc_shrinking *s, size_t k);
enum vc_status vc_journal_add(struct vc_shrinking *s, size_t k);
/* The end: the work folder stays for `resume`, or goes with all files of the search. */
void vc_journal_close(struct vc_shrinking *s, bool keep);

/* work_folder.c: makes the folder, or takes one over that no search works in, and locks it. VC_E_ARGUMENT: another
 * search is at work there, or something lies there that no search wrote. */
enum vc_status vc_work_open(struct vc_shrinking *s);
/* Removes what searches left there. */
void vc_work_clear(const struct vc_shrinking *s);
/* Ends the lock; the files stay. */
void vc_work_leave(struct vc_shrinking *s);
/* Removes the folder with all files of the search. */
void vc_work_remove(struct vc_shrinking *s);
void vc_remove_folder(const char *path);

/* proof.c: whether a checkpoint fits the device, by its own headers and graph. */
enum vc_status vc_shrink_fit(struct vc_shrinking *s, const struct vc_model *model, struct vc_graph *graph,
                             struct vc_fit *out);
/* Reads the output back, verifies and judges it, gives it its name, writes the recipe. */
enum vc_status vc_shrink_prove(struct vc_shrinking *s, size_t k);
