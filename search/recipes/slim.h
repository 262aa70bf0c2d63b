/* slim.h - what a model computes without the units or layers that a planned job removes: what memory is counted with. */
#pragma once

#include <vcompress/job.h>

#include "graph/planned_model.h"

/* planned->graph: of what the passes of `job` leave, which was planned, with the sizes of `sized`, the graph of its source. Ended by
 * vc_planned_free, also after a failure; the job outlives it. VC_E_UNSUPPORTED: the source does not say what it computes. */
enum vc_status vc_slim_graph(struct vc_ctx *ctx, const struct vc_job *job, const struct vc_graph *sized,
                             struct vc_planned_model *planned);
