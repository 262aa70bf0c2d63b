/* document_json.h - the functions behind vc_document_json, one for each kind. Each takes from *d what document.h says of its kind. */
#pragma once

#include <vcompress/page.h>
#include <vcompress/verify.h>

typedef enum vc_status vc_document_writer(struct vc_ctx *ctx, const struct vc_document *d, char **text);

vc_document_writer vc_write_inspect, vc_write_diff, vc_write_graph, vc_write_estimate, vc_write_fit, vc_write_plan,
    vc_write_shrink, vc_write_distill, vc_write_evaluate, vc_write_sensitivity, vc_write_gpus, vc_write_histograms,
    vc_write_fit_matrix, vc_write_timeline, vc_write_steps, vc_write_report, vc_write_verify, vc_write_error;
