/* npy_write.h - the writing side of npy: one array per file. vc_npy_write (npy.h) makes its header. */
#pragma once

#include "core/run/sink.h"

/* More than any header that vc_npy_write makes. */
#define VC_NPY_WRITE_MAX ((size_t)2048)

/* The writer of the npy row (npy_file.c). What one npy can hold becomes an npy; several arrays, or a name that ends in
 * .npz, make it an npz, and several arrays under a name that ends in .npy are refused. */
enum vc_status vc_npy_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                  const struct vc_write_options *options, struct vc_sink **out);
