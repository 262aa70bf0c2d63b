/* match_names.h - finds the value of a graph by its name. */
#pragma once

#include <vcompress/graph.h>

#include "core/base/ctx.h"

/* role: "teacher" or "student", for the sentence. VC_E_ARGUMENT if no value has the name (the sentence lists the most
 * similar names), or if the value is not a float result of a node. */
enum vc_status vc_match_name(struct vc_ctx *ctx, const struct vc_graph *graph, const char *role, const char *name,
                             uint32_t *value);

/* "[batch, 64, 8, 8]" */
void vc_match_shape_text(const struct vc_graph *graph, uint32_t value, char *text, size_t n);
