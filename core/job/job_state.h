/* job_state.h - inside of struct vc_job; shared by job.c (life, running), job_plan.c (passes), job_names.c (new
 * names), job_outs.c (output tensors), job_outputs.c (files), job_gates.c (limits) and job_report.c (rows).
 *
 * A job is used by one thread at a time; vc_exec_run makes threads of its own. Functions here set the error of ctx.
 * What they allocate belongs to the job, and the job frees it, also after a failure halfway. */
#pragma once

#include "core/job/job_make.h"
#include "core/run/executor.h"

struct vc_job {
    struct vc_ctx *ctx;
    const struct vc_model *model;
    const struct vc_writers *writers;
    const struct vc_comparer *comparer;
    const struct vc_chooser *chooser;
    size_t n_passes, pass_capacity;
    struct vc_pass **passes;
    bool drop[VC_ROLE_OTHER + 1];
    bool sizes_only;             /* set by who plans for sizes alone: no pass looks at values before it decides */
    bool dry_plan;               /* of the plan that is being made: vc_plan.dry_plan */
    struct vc_outfile *reserved; /* disk space for the output while a pass trains; NULL: none is */

    /* Everything from here on is made by planning, and taken back when it fails or starts over: reset in job.c. */
    struct vc_arena arena;
    struct vc_write_options options; /* its strings are copied into the arena */
    struct vc_plan plan;             /* plan.items: one per tensor of the model, same index */
    struct vc_model *renamed;        /* plan.model where passes have renamed tensors; NULL: nobody has */
    struct vc_item_result *results;
    struct vc_sink *sink;             /* of all outputs */
    struct vc_part_file parts_file;   /* the last of outputs: where parts of a pass go; path NULL: nowhere */
    struct vc_report_output *outputs; /* in the arena; report.outputs */
    const char **beside;              /* by output, in the arena: another file of it beside it, or NULL */
    struct vc_out_stage *stages;      /* in the arena: outs.stages, as far as passes are planned */
    struct vc_out_list outs;
    uint32_t *out_item;                 /* per output: its item. outs.make makes the rest of it */
    uint32_t *first_out;                /* per item: its main output; its parts follow */
    struct vc_out_tensor *other_shards; /* outs.other_shards */
    struct vc_report_row *rows;         /* NULL where they are made on request */
    size_t *row_item;                   /* item of each row; NULL: row i is of item i */
    struct vc_report_gate *gates;       /* in the arena; report.gates */
    struct vc_report_note *notes;       /* in the arena; report.notes, with room for those of the run */
    struct vc_report report;
    struct vc_device_choice choice;                             /* report.device_reason points there */
    char device[sizeof((struct vc_shared *)NULL)->device_name]; /* report.device: that of the context may change */
};

/* What the outputs of an item have beside what its steps say. */
struct vc_item_outs {
    const struct vc_quant *quant; /* of its main output; NULL: it is plain */
    const char *const *names;     /* of its parts that steps make */
};

/* The lists of a row. */
struct vc_item_lists {
    size_t n_parts, n_steps;
    const struct vc_report_part *parts;
    struct vc_report_step *steps;
};

/* ---- job.c ---- */

/* Sets what the outputs say of how they were made. */
void vc_job_choose_recipe(struct vc_job *job);

/* ---- job_plan.c ---- */

/* Makes the items, plans all passes with their calibration, and decides what tells the error of each chain. */
enum vc_status vc_job_plan_items(struct vc_ctx *ctx, struct vc_job *job);
/* A step refused a value it saw in one tile (VC_E_UNSUPPORTED): looks at the whole tensor, so that the message gives
 * count and first index whatever the threads did. Returns the status, with the better sentence where there is one. */
enum vc_status vc_job_explain(struct vc_ctx *ctx, struct vc_job *job, size_t failed, enum vc_status status);
/* The item that decides about this one: itself, or the one that it is another name of. */
const struct vc_item *vc_job_root(const struct vc_job *job, size_t index);
/* After steps were planned or taken back: what follows for parts of the source and for second names. */
void vc_job_settle_parts(struct vc_job *job);

/* Lists what passes ask dialects about, for plan.model. */
enum vc_status vc_job_list_targets(struct vc_ctx *ctx, struct vc_job *job);

/* ---- job_names.c ---- */

/* The pass that was planned last has left out tensors or given them new names: from now on plan.model and its items
 * have these. Does nothing where it has not. */
enum vc_status vc_job_take_names(struct vc_ctx *ctx, struct vc_job *job);
/* report.layers, from the edits of the model's configuration. */
enum vc_status vc_job_report_layers(struct vc_ctx *ctx, struct vc_job *job);

/* ---- job_outs.c ---- */

/* Pass number `pass` is planned, and what it leaves out is still there: notes what it does to types. */
void vc_job_add_stage(struct vc_job *job, size_t pass);
/* Lists the output tensors: every item's main tensor, then its parts. */
enum vc_status vc_job_list_outs(struct vc_ctx *ctx, struct vc_job *job);
void vc_job_free_outs(struct vc_ctx *ctx, struct vc_job *job);

/* ---- job_outputs.c ---- */

/* Makes the sink of all outputs. Refuses bad names, and the same file twice. */
enum vc_status vc_job_create_sink(struct vc_ctx *ctx, struct vc_job *job);
/* Refuses what the outputs cannot hold of the tensors that are kept, all of it in one sentence. */
enum vc_status vc_job_check_held(struct vc_ctx *ctx, struct vc_job *job);
/* The first output has that many bytes (0: not known yet); the others said so themselves. */
void vc_job_output_sizes(struct vc_job *job, uint64_t first_bytes);
void vc_job_written(struct vc_job *job);
/* The layout is known: notes the files that lie beside outputs. */
enum vc_status vc_job_list_beside(struct vc_ctx *ctx, struct vc_job *job);

/* ---- job_gates.c ---- */

/* What the options ask for, not judged yet. */
enum vc_status vc_job_list_gates(struct vc_ctx *ctx, struct vc_job *job);
/* The gate on the size of every output, as far as the sizes are known; the one on the error of every tensor, after the
 * run. VC_E_GATE: report.gate_missed has the sentence. */
enum vc_status vc_job_check_size(struct vc_ctx *ctx, struct vc_job *job);
enum vc_status vc_job_check_quality(struct vc_ctx *ctx, struct vc_job *job);
/* The gates that passes have themselves, such as distillation; when planned. */
enum vc_status vc_job_check_passes(struct vc_ctx *ctx, struct vc_job *job);
/* The gate on zeros: when planned, whether there is anything pruned at all; after the run, how many there are. */
enum vc_status vc_job_check_sparsity(struct vc_ctx *ctx, struct vc_job *job);

/* ---- job_report.c ---- */

/* Row number `row`, made from the plan and, once there are results, from these. */
struct vc_report_row vc_job_row(const struct vc_job *job, size_t row);
/* The item that it is of. */
struct vc_item *vc_job_row_item(const struct vc_job *job, size_t row);
/* Builds rows and totals from the plan. */
enum vc_status vc_job_report_plan(struct vc_ctx *ctx, struct vc_job *job);
/* Puts what was measured into rows and totals. */
enum vc_status vc_job_report_results(struct vc_ctx *ctx, struct vc_job *job);
/* The outputs have their names: notes what they say of that. Cannot fail any more. */
void vc_job_report_written(struct vc_ctx *ctx, struct vc_job *job);
