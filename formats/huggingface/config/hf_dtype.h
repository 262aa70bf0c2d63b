/* hf_dtype.h - the type that config.json says the weights have: "torch_dtype", or "dtype" as newer versions call it.
 * Every other byte of the text stays. */
#pragma once

#include "core/run/sink.h"
#include "core/text/text.h"

/* The one float type that a pass gives to the weights whose type it changes, of several passes the last that gives one;
 * VC_DTYPE_RAW if there is none. */
enum vc_dtype vc_hf_cast_of(const struct vc_out_list *outs);

/* Adds the text to `out`, with that type in the members that are there and are strings. What is no JSON object stays as
 * it is. */
enum vc_status vc_hf_dtype_rewrite(struct vc_ctx *ctx, const char *text, size_t n, enum vc_dtype dtype,
                                   struct vc_text *out);
