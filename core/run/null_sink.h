/* null_sink.h - the output of a job that writes nothing, of a model that no format stands behind (memory_model.h): what
 * it makes is asked for tensor by tensor, with vc_job_apply. */
#ifndef VC_CORE_NULL_SINK_H
#define VC_CORE_NULL_SINK_H

#include "core/run/sink.h"

enum vc_status vc_null_sink_create(struct vc_ctx *ctx, struct vc_sink **out);
bool vc_sink_is_null(const struct vc_sink *sink);

#endif
