/* output_parts.h - what the first run of output_runs.h and those with changes share. */
#pragma once

#include "measure/output_runs.h"

/* Bytes of the elements: f32 or 64-bit integers. */
static inline uint64_t vc_output_bytes(const struct vc_run_value *value)
{
    return (uint64_t)value->n * (value->is_real ? sizeof(float) : sizeof(int64_t));
}

/* Parameter k of the graph is floats; others are codes of weights, which the graph decodes itself. */
bool vc_output_is_float(const struct vc_output_runs *runs, uint32_t k);
/* The elements of a parameter as the models have them. */
enum vc_status vc_output_read_param(struct vc_ctx *ctx, const struct vc_output_runs *runs,
                                    const struct vc_graph_param *param, void *elements);
