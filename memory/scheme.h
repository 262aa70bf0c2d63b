/* scheme.h - the bytes of weights under the names that schemes have (vc_weight_scheme_name). */
#pragma once

#include <vcompress/memory.h>
#include <vcompress/quantize.h>

#include "core/model/mixture_rules.h"

struct vc_scheme_layout {
    const struct scheme_row *row; /* of the table in scheme.c; NULL: blocks of `dtype` along the columns */
    enum vc_dtype dtype;
    unsigned group;                   /* 0: none */
    bool all;                         /* embeddings and the output layer, too; else these stay as they are */
    bool vectors;                     /* what has one dimension, too */
    const struct vc_mixture *mixture; /* some tensors have another type, by their names: vc_scheme_of_tensor; or NULL */
};

/* False: there is no scheme of that name. */
bool vc_scheme_find(const char *name, struct vc_scheme_layout *out);

/* The options of quantize for such weights; the texts are static. False: quantize makes none. */
bool vc_scheme_quantize(const char *name, struct vc_quantize_options *out);

/* Of a mixture, the type that a tensor of a model of so many numbered layers has, and of a type of blocks which do not
 * divide its rows, that of smaller ones; else `layout`. tied: the embedding is
 * the output layer, too. */
struct vc_scheme_layout vc_scheme_of_tensor(const struct vc_scheme_layout *layout, const char *tensor, unsigned n_dims,
                                            const uint64_t *shape, uint32_t n_layers, bool tied);
/* The first number among the parts of a name, "model.layers.3.mlp.down_proj.weight": 3; UINT32_MAX if there is none. */
uint32_t vc_scheme_layer(const char *tensor);

/* Bytes of a weight of one dimension, which gets no codes: f32 in GGUF files, else f16. */
unsigned vc_scheme_vector_bytes(const struct vc_scheme_layout *layout);

/* The layout of a matrix with rows of that length in a folder of transformers, as compressed-tensors has it: groups divide
 * the rows (vc_code_whole_group). *none: no group does, and the matrix gets no codes. */
struct vc_scheme_layout vc_scheme_in_folder(const struct vc_scheme_layout *layout, uint64_t n_columns, bool *none);

/* UINT64_MAX: too many. */
uint64_t vc_scheme_bytes(const struct vc_scheme_layout *layout, uint64_t n_rows, uint64_t n_columns);

/* How the usual loader of a layout (vc_model_layout) treats codes: NATIVE for llama.cpp and bitsandbytes, LAYERWISE for
 * onnxruntime, DEQUANTIZE for others. NATIVE if layout is NULL (no codes). */
enum vc_runtime vc_memory_runtime(const struct vc_layout *layout);
