/* null_sink.h - a sink that stores nothing: the output of a job on a model in memory (memory_model.h) to which no path
 * was given. The plan and the report of such a job are its result. */
#pragma once

#include "core/run/sink.h"

/* A sink that takes every dtype, in any order, and needs no memory. Freed with its ops->free, as every sink. */
enum vc_status vc_null_sink_create(struct vc_ctx *ctx, struct vc_sink **out);
bool vc_sink_is_null(const struct vc_sink *sink);
