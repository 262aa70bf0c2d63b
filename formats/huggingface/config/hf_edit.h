/* hf_edit.h - the sizes that config.json states, changed as passes changed the model. Every other byte of the text
 * stays. */
#pragma once

#include "core/model/edit.h"
#include "core/text/text.h"

/* Adds the text to `out` with the edits made. VC_E_UNSUPPORTED, naming config.json and what is missing, where the text
 * does not state a number that an edit changes: a loader would go on believing the old one. */
enum vc_status vc_hf_edit(struct vc_ctx *ctx, const char *text, size_t n, const struct vc_edit *edits, size_t n_edits,
                          struct vc_text *out);

/* Whether a key of that meaning states that number. tensor: of a tensor of that name (core/model/stated.h); NULL: at
 * all. */
enum vc_status vc_hf_edit_says(struct vc_ctx *ctx, const char *text, size_t n, enum vc_edit_key key, uint64_t number,
                               const char *tensor, bool *out);

/* The number of shared experts; 0: no key states it. */
enum vc_status vc_hf_edit_shared(struct vc_ctx *ctx, const char *text, size_t n, uint64_t *out);

/* Whether that is a key of a size, or of an object that has such keys. */
bool vc_hf_edit_knows(const char *name);
