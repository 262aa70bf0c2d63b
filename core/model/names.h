/* names.h - what the name of a tensor says in the common model families. Loaders of int8 models go by names, so passes
 * and formats have to, too. Only names that mean one thing almost everywhere are listed. */
#pragma once

#include <vcompress/model.h>

/* True for the weight of a module, "a.b.weight" or "weight"; *n_path is then the length of the module's path: that of
 * "a.b", or 0. */
bool vc_name_is_module_weight(const char *name, size_t *n_path);

/* A table of vectors, by token or by position, or something beside one: a layer that makes embeddings of pictures. */
bool vc_name_is_embedding(const char *name);

/* Such a table and nothing else. */
bool vc_name_is_embedding_table(const char *name);

/* Means, variances and counters that a normalization keeps of what it has seen: nobody learns them. */
bool vc_name_is_statistic(const char *name);

/* The word of the name that says what the tensor is in its module, n bytes of it: "freqs" of "a.freqs", "anchors" of
 * "a.anchors.0". Not terminated; n may be 0. */
const char *vc_name_variable(const char *name, size_t *n);

#define VC_SKIP_ROTARY "rotary table" /* its values are angles, not weights */

/* What a tensor is used for, where its name and shape tell that it is no weight: a buffer such as a mask, angles,
 * anchors, windows, statistics. *reason is then a few words for the report. VC_USE_UNKNOWN: nothing says so. */
enum vc_use vc_name_use(const char *name, unsigned n_dims, const uint64_t *shape, const char **reason);

/* A state of an optimizer, as converted training checkpoints call it: "optimizer.state.0.exp_avg". */
bool vc_name_is_state(const char *name);

/* Bytes that a name may grow by where its last part becomes another of a joined set. */
#define VC_JOINED_ROOM ((size_t)16)

/* Linear layers that runtimes make one layer of: q, k and v of an attention, gate and up of an MLP. The last parts of
 * the names of all layers that the module is joined with, itself included, up to a NULL; NULL: none. *n_base: bytes
 * before the last part of the name, which has n bytes. */
const char *const *vc_name_joined(const char *module, size_t n, size_t *n_base);

/* Whether two tensors, "m.q_proj.weight" and "m.k_proj.weight", are weights of layers of one joined set. */
bool vc_name_is_joined(const char *weight, const char *other);

/* The layer whose outputs are the model's. */
bool vc_name_is_head(const char *name);

/* The axis with the output channels of a kernel of Flax or Keras, whose inputs come before its outputs: [in, out],
 * [height, width, in, out]. Words of the name end at / . : and brackets, so that params/Dense_0/kernel,
 * layer.query.kernel and dense/kernel:0 are known. Returns a few words for the report that say why this axis, and sets
 * *axis; NULL: the name says nothing. */
const char *vc_name_channel_axis(const char *name, unsigned n_dims, const uint64_t *shape, unsigned *axis);

/* The axis that products with the tensor sum over, + 1, where its name and shape tell that it is not the one beside the
 * output channels; VC_NO_INPUTS if there is none, or it is not known which, and *why says so in a few words; 0: nothing
 * is told. For tensors that are no matrices. */
unsigned vc_name_inputs(const char *name, unsigned n_dims, const uint64_t *shape, const char **why);

/* The weight of a Conv1D of transformers, "h.0.attn.c_attn.weight", whose matrix is [in, out] in GPT-2 and its kin.
 * Other families have linear layers of these names. */
bool vc_name_is_conv1d(const char *name);

/* Packed codes, scales and the like of weights that another program quantized. */
bool vc_name_is_quantized_part(const char *name);
