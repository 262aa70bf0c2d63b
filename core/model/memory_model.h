/* memory_model.h - a model whose tensors lie in memory: for chains that are applied to weights of a program (fake
 * quantization, masks) and for tests of passes. No format knows it; it is read like any other model. */
#pragma once

#include "core/model/source.h"

#define VC_MEMORY_PATH "memory" /* the path of such a model */

struct vc_memory_tensor {
    const char *name;
    enum vc_dtype dtype;
    unsigned n_dims;
    const uint64_t *shape;
    const void *data; /* C order, little-endian; may change between two runs */
};

/* Names, shapes and data are the caller's and outlive the model. Freed with vc_model_close. */
enum vc_status vc_memory_model_create(struct vc_ctx *ctx, const struct vc_memory_tensor *tensors, size_t n,
                                      struct vc_model **out);

/* The block of the pool that has the tensors' names, shapes or data is the model's from now on. */
void vc_memory_model_give(struct vc_model *model, void *block);
