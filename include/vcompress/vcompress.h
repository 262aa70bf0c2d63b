/* vcompress.h - what most programs need of the library, in one include: open a model, quantize or prune it, verify it.
 *
 * vcompress makes model checkpoints smaller and says what that cost:
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
 *     vc_job_plan(ctx, job, &w);                       sizes are known from here on
 *     vc_job_run(ctx, job);
 *     vc_job_report(job)->totals.file_after ...
 *
 * Rules that hold everywhere: every fallible function takes the context first and returns a vc_status; on failure the
 * sentence is vc_ctx_message(ctx). The library never prints, exits or aborts. Output bytes depend on the input and the
 * options alone: not on threads, CPU, device or memory limit. examples/ has complete programs.
 *
 * Every structure of options begins with struct_size and is filled by its function of defaults before anything in it is
 * set. Later versions add options at its end. A program works with them as it was compiled: options that it does not
 * know have their defaults. A library that is older than the program refuses options that it does not know
 * (VC_E_ARGUMENT). The functions ..._defaults are inline; a program in another language calls ..._defaults_sized with
 * the size that it has of the structure.
 *
 * What outlives what: a context outlives everything that is made with it, a model the jobs, inspections and differences
 * that are made of it. Everything that a call returns as const belongs to the object that was asked, and is valid until
 * that is freed, where the header does not say less. What a call is given is not needed after it, but for contexts,
 * models, and the functions that a context is given with what they use.
 *
 * These headers are stable: from 1.0 on a program that was compiled with them works with every later library of the
 * same major version. What stands in experimental.h may change with a minor version.
 *
 * Numbers of enums are stable: a program may store them. Later versions add values. */
#ifndef VCOMPRESS_VCOMPRESS_H
#define VCOMPRESS_VCOMPRESS_H

#include <vcompress/context.h>
#include <vcompress/device.h>
#include <vcompress/dtype.h>
#include <vcompress/job.h>
#include <vcompress/model.h>
#include <vcompress/prune.h>
#include <vcompress/quantize.h>
#include <vcompress/report.h>
#include <vcompress/status.h>
#include <vcompress/verify.h>

#endif
