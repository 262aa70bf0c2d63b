/* job_state.h - inside of struct vc_job; shared by job.c (planning, running), job_outputs.c (files) and job_report.c
 * (rows). */
#ifndef VC_CORE_JOB_STATE_H
#define VC_CORE_JOB_STATE_H

#include "core/run/executor.h"

#define VC_MAX_PASSES 4

struct vc_job {
    struct vc_ctx *ctx;
    const struct vc_model *model;
    struct vc_arena arena;
    size_t n_passes;
    struct vc_pass *passes[VC_MAX_PASSES];

    bool drop[VC_ROLE_OTHER + 1];

    struct vc_write_options options; /* its strings are copied into the arena */
    struct vc_item *items;           /* one per tensor of the model, same index */
    struct vc_item_result *results;
    struct vc_sink *sink;             /* of all outputs */
    struct vc_report_output *outputs; /* in the arena; report.outputs */
    struct vc_out_list outs;
    struct vc_out_tensor *out_tensors;
    size_t *first_out; /* per item */
    struct vc_recipe_entry *recipe;

    struct vc_report_row *rows;
    size_t *row_item; /* item of each row */
    struct vc_report report;
};

/* Makes the sink of all outputs. Refuses bad names, and the same file twice. */
enum vc_status vc_job_create_sink(struct vc_ctx *ctx, struct vc_job *job);
/* Refuses what the outputs cannot hold of the tensors that are kept, all of it in one sentence. */
enum vc_status vc_job_check_held(struct vc_ctx *ctx, struct vc_job *job);
/* The first output has that many bytes (0: not known yet); the others said so themselves. */
void vc_job_output_sizes(struct vc_job *job, uint64_t first_bytes);
/* The gate on the size of every output. */
enum vc_status vc_job_check_size(struct vc_ctx *ctx, struct vc_job *job);
void vc_job_written(struct vc_job *job);

/* Builds rows and totals from the plan. */
enum vc_status vc_job_report_plan(struct vc_ctx *ctx, struct vc_job *job);
/* Puts what was measured into rows and totals. */
enum vc_status vc_job_report_results(struct vc_ctx *ctx, struct vc_job *job);
/* Why a tensor of that role is not worked on. */
const char *vc_job_role_reason(enum vc_role role);
/* The item that decides about this one: itself, or the one that it is another name of. */
const struct vc_item *vc_job_root(const struct vc_job *job, size_t index);

#endif
