/* scoped.h - models, jobs and graphs that end with the scope of a variable, as VC_SCOPED (pool.h) has it for memory. What is
 * declared last ends first: a job is declared behind its model.
 *
 *     VC_SCOPED_MODEL struct vc_model *model = NULL;
 *     VC_SCOPED_JOB struct vc_job *job = NULL;
 *
 *     VC_CALL(vc_model_open(ctx, path, NULL, &model));
 *     VC_CALL(vc_job_create(ctx, model, &job)); */
#pragma once

#include <vcompress/graph.h>
#include <vcompress/job.h>

#include "core/base/ctx.h"

#define VC_SCOPED_MODEL VC_CLEANUP(vc_model_close_at)
#define VC_SCOPED_JOB   VC_CLEANUP(vc_job_free_at)
#define VC_SCOPED_GRAPH VC_CLEANUP(vc_graph_close_at)

static inline void vc_model_close_at(struct vc_model **model)
{
    vc_model_close(*model);
}

static inline void vc_job_free_at(struct vc_job **job)
{
    vc_job_free(*job);
}

static inline void vc_graph_close_at(struct vc_graph **graph)
{
    vc_graph_close(*graph);
}
