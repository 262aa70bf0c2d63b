/* vcompress.h - what most programs need of the library, in one include: open a model, quantize or prune it, verify it.
 *
 * vcompress makes model checkpoints smaller and reports the error that this causes:
 *
 *     vc_ctx_create(&ctx);
 *     vc_quantize_file(ctx, "in.npz", "out.npz", NULL, &result);
 *     result.sqnr_db ...
 *
 * The same by a job, which has more to choose and to say:
 *
 *     struct vc_ctx *ctx;
 *     struct vc_model *model;
 *     struct vc_job *job;
 *     struct vc_quantize_options q;
 *     struct vc_write_options w;
 *
 *     vc_ctx_create(&ctx);
 *     vc_model_open(ctx, "in.npz", NULL, &model);     headers only
 *     vc_job_create(ctx, model, &job);
 *     vc_quantize_defaults(&q);
 *     vc_job_add_quantize(ctx, job, &q);
 *     vc_write_defaults(&w);
 *     w.path = "out.npz";
 *     vc_job_plan(ctx, job, &w);                      sizes are known from here on
 *     vc_job_run(ctx, job);
 *     vc_job_report(job)->totals.file_after ...
 *
 * Rules: every function that can fail takes the context first and returns a vc_status; vc_ctx_message(ctx) is then the
 * sentence of the failure. The library never prints, exits or aborts. Output bytes depend on the input and the options
 * alone: not on threads, CPU, device or memory limit. examples/ has complete programs.
 *
 * Options: every structure of options begins with struct_size. Call its function ..._defaults first, then set fields.
 * Later versions add fields at the end. With a newer library, fields that the program does not know have their
 * defaults. An older library refuses fields that the library does not know, with VC_E_ARGUMENT. The functions
 * ..._defaults are inline; a program in another language calls vc_options_defaults with its size of the structure.
 *
 * Lifetimes: a context outlives every object made with the context. A model outlives the jobs, inspections and
 * differences made from the model. A const pointer that a call returns belongs to the object that was asked, and is
 * valid until the object is freed, unless the header says less. A caller may free its arguments after a call, except
 * contexts, models, and functions set in a context with their `user` data.
 *
 * These headers are stable: from 1.0 on a program that was compiled with them works with every later library of the
 * same major version. The other headers, listed in experimental.h, may change with a minor version.
 *
 * Numbers of enums are stable: a program may store them. Later versions add values. */
#ifndef VCOMPRESS_VCOMPRESS_H
#define VCOMPRESS_VCOMPRESS_H

#include <vcompress/context.h>
#include <vcompress/device.h>
#include <vcompress/document.h>
#include <vcompress/dtype.h>
#include <vcompress/job.h>
#include <vcompress/model.h>
#include <vcompress/name_lists.h>
#include <vcompress/prune.h>
#include <vcompress/quantize.h>
#include <vcompress/report.h>
#include <vcompress/status.h>
#include <vcompress/stream.h>
#include <vcompress/verify.h>

#endif
