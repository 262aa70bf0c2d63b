/* torch_choose.h - which dict of a PyTorch file is the model, and what its other entries are. */
#pragma once

#include "formats/torch/torch.h"

#define TORCH_MAX_DEPTH 200

/* Sets self->chosen and self->key; *home: the entry at the top that it is in, or is. key NULL: by the usual names. */
enum vc_status vc_torch_choose(struct vc_ctx *ctx, struct torch *self, const char *key, struct vc_pickle_node **home);

/* A walk may take a few steps per opcode of the pickle, and some more. */
uint64_t vc_torch_max_steps(const struct torch *self);
/* Counts a step of a walk; VC_E_UNSUPPORTED when there were more: a few dicts that contain each other many times over.
 * What looks at many values at once adds them to *steps itself. */
enum vc_status vc_torch_step(struct vc_ctx *ctx, const struct torch *self, uint64_t *steps);

/* Adds ".key" to a path, or the position where the key is no name (NULL: items of a list). vc_torch_path_leave goes
 * back to n bytes. */
enum vc_status vc_torch_path_enter(struct vc_ctx *ctx, struct vc_text *path, const struct vc_pickle_node *key,
                                   size_t position);
/* The steps that this counts for, beside the one of the value. */
uint64_t vc_torch_key_steps(const struct vc_pickle_node *key);
void vc_torch_path_leave(struct vc_text *path, size_t n);

/* By the key at the top; `usual` for keys that say nothing. */
enum vc_role vc_torch_role_of(const char *key, enum vc_role usual);

/* ---- torch_node.c ---- */

/* {"state": ..., "param_groups": ...}: an optimizer's state_dict(). */
bool vc_torch_is_optimizer(const struct vc_pickle_node *node);
/* Made by one of the functions that make tensors, known or not. */
bool vc_torch_is_tensor(const struct vc_pickle_node *node);
/* A list, tuple, dict or call: something may be in it. */
bool vc_torch_is_container(const struct vc_pickle_node *node);
/* The node with the items of a set (may be NULL): itself, or the list it is made from. NULL: no set, list or tuple. */
const struct vc_pickle_node *vc_torch_set_items(const struct vc_pickle_node *set);
bool vc_torch_items_have(const struct vc_pickle_node *items, const struct vc_pickle_node *key);
/* Some storage is in there, as far as `depth` levels and `budget` steps show. */
bool vc_torch_holds_storage(const struct vc_pickle_node *node, unsigned depth, uint64_t *budget);

/* ---- torch_plain.c ---- */

/* Nothing in it but values that a restricted loader takes as they are, and no tensors. Adds what it looked at to
 * *steps, and says no when there were too many: the next vc_torch_step fails then. */
bool vc_torch_is_plain(const struct torch *self, const struct vc_pickle_node *node, uint64_t *steps);
bool vc_torch_is_atom(const struct vc_pickle_node *node); /* ... and no container */
/* A call that restricted loaders make, too: torch.Size, set, ... */
bool vc_torch_is_known_call(const struct vc_pickle_node *node);
bool vc_torch_is_ordered_dict(const struct vc_pickle_node *node);

/* ---- torch_numpy.c ---- */

bool vc_torch_is_numpy_array(const struct vc_pickle_node *node);
/* For sentences: "NumPy array", "NumPy number"; NULL: neither. */
const char *vc_torch_numpy_kind(const struct vc_pickle_node *node);
/* A bool, integer or float of NumPy's as one of Python's: *number is a node of its own. False if it is not one, or has no
 * equal among those (half precision, complex, text). */
bool vc_torch_numpy_number(const struct vc_pickle_node *node, struct vc_pickle_node *number);

/* ---- torch_describe.c ---- */

/* "dict of 7", "argparse.Namespace, opaque", "int 12": in the arena; NULL: no memory. */
const char *vc_torch_describe(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_pickle_node *node);
