/* graph_run.h - runs of a graph that follow each other. */
#pragma once

#include <vcompress/graph.h>

struct vc_answers_series;

/* vc_graph_run, one of many with the same graph, model and options. *series is NULL before the first run, keeps what
 * the runs have in common (engine/answers/answers.h), and is the caller's to free. */
enum vc_status vc_graph_run_in_series(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                      const struct vc_graph_array *inputs, size_t n_inputs,
                                      const struct vc_graph_run_options *options, struct vc_answers_series **series);
