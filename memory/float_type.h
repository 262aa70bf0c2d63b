/* float_type.h - the type of a model's floats where nobody says another; vc_memory_float_type is the public part. */
#pragma once

#include <vcompress/memory.h>

/* A weight that is stored as floats. */
bool vc_is_plain_float(const struct vc_tensor *tensor);
/* Of most elements of the weights that are floats; VC_DTYPE_NONE if there are none. */
enum vc_dtype vc_stored_type(const struct vc_tensor *tensors, size_t n_tensors);
/* The type that floats of a stored type are loaded as: that, or the one of the configuration where it is wider. */
enum vc_dtype vc_wider_type(const struct vc_graph *graph, enum vc_dtype stored);

/* Codes of a quantized weight, or blocks of them; and whether a model (may be NULL) has any. */
bool vc_is_coded(const struct vc_tensor *tensor);
bool vc_has_codes(const struct vc_model *model);

/* Safetensors with a configuration of transformers beside them. model may be NULL: no. */
bool vc_is_transformers_folder(struct vc_ctx *ctx, const struct vc_model *model);
