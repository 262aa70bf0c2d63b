/* match_names.h - the value of a graph that a name means. */
#ifndef VC_DISTILL_MATCH_NAMES_H
#define VC_DISTILL_MATCH_NAMES_H

#include <vcompress/graph.h>

#include "core/base/ctx.h"

/* role: "teacher". VC_E_ARGUMENT: there is none of that name, and the sentence has those most like it; or it is none
 * that a node makes, of floats. */
enum vc_status vc_match_name(struct vc_ctx *ctx, const struct vc_graph *graph, const char *role, const char *name,
                             uint32_t *value);

/* "[batch, 64, 8, 8]" */
void vc_match_shape_text(const struct vc_graph *graph, uint32_t value, char *text, size_t n);

#endif
