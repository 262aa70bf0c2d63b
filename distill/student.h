/* student.h - the network that learns in a chain: what the passes before distillation leave of the source, and what
 * that computes.
 *
 *     source -- prune --> item->desc and steps -- vc_student_make --> weights: the source with values in memory
 *                                                                     graph: the source's, with the new shapes */
#pragma once

#include <vcompress/distill.h>

#include "core/chain/pass.h"
#include "graph/planned_model.h"

/* Starts as zeros. */
struct vc_student {
    struct vc_ctx *ctx;
    struct vc_network network;
    struct vc_planned_model planned;
    struct vc_model *other; /* the ONNX file that says what it computes */
    struct vc_graph *graph; /* that a file said: network.graph then */
};

/* Takes the values of the plan as they are now. What they compute is said by the file options->graph_path; by
 * options->student, where no pass has changed anything; by the source, or by the file of the teacher.
 * VC_E_UNSUPPORTED: an earlier pass has quantized a tensor. Ended by vc_student_free, also after a failure. */
enum vc_status vc_student_make(struct vc_ctx *ctx, const struct vc_plan *plan, const struct vc_distill_options *options,
                               struct vc_student *student);
/* The graph that a text or an ONNX file says, with student->network.weights. */
enum vc_status vc_student_read_graph(struct vc_ctx *ctx, const char *path, struct vc_student *student);
void vc_student_free(struct vc_student *student);
