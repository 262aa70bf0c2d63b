/* names.h - what the name of a tensor says in the common model families. Loaders of int8 models go by names, so passes
 * and formats have to, too. Only names that mean one thing almost everywhere are listed. */
#ifndef VC_CORE_NAMES_H
#define VC_CORE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* True for the weight of a module, "a.b.weight" or "weight"; *n_path is then the length of the module's path: that of
 * "a.b", or 0. */
bool vc_name_is_module_weight(const char *name, size_t *n_path);

/* A table of vectors, by token or by position, or something beside one: a layer that makes embeddings of pictures. */
bool vc_name_is_embedding(const char *name);

/* Such a table and nothing else. */
bool vc_name_is_embedding_table(const char *name);

/* The layer whose outputs are the model's. */
bool vc_name_is_head(const char *name);

/* Packed codes, scales and the like of weights that another program quantized. */
bool vc_name_is_quantized_part(const char *name);

#endif
