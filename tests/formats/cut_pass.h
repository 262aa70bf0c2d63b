/* cut_pass.h - a pass that removes rows, columns, ... of tensors and edits the graph of an ONNX file as a text says,
 * one line each:
 *
 *     keep w 0 0,2,3              along axis 0 of tensor w, these stay
 *     attribute y group 2         "group" of the node that makes y
 *     input flat 1 -1,48          input 1 of the node that makes flat becomes a constant
 *     shape y -1,48,8,8           what is declared for y; without numbers: it holds
 *
 * It stands for passes that know what they remove. Not part of the library. */
#pragma once

#include <vcompress/job.h>

#include "core/chain/pass.h"

/* Adds the pass; the script is copied. */
enum vc_status add_cut(struct vc_ctx *ctx, struct vc_job *job, const char *script);

/* A job with this pass alone. `also`: a second output of the same run; NULL: none. */
enum vc_status run_cut(struct vc_ctx *ctx, const char *from, const char *to, const char *also, const char *script);
