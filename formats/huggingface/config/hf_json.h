/* hf_json.h - config.json as Python writes it: JSON in which a number may be NaN, Infinity or -Infinity, as the
 * time_step_limit of Mamba2, or an integer of more than 64 bits, as the model_max_length of tokenizers. To readers of
 * ours these numbers are 0; the text itself is never changed. */
#pragma once

#include <jansson.h>

#include "core/base/ctx.h"

/* The text as a tree, whose bytes the pool counts; zeros before. */
struct hf_json {
    json_t *root;
    uint64_t counted;
    struct vc_ctx *ctx;
};

/* Reads the text, strictly but for these numbers. whole: all of it, else what it says of the model and of weights;
 * lists and objects beside that are missing where they are large (vc_json_trim). VC_E_FORMAT: it is no JSON, or its
 * tree would take much more memory than its size lets one expect. vc_hf_json_free in any case. */
enum vc_status vc_hf_json_load(struct vc_ctx *ctx, const char *text, size_t n, bool whole, struct hf_json *out);

/* The same, not whole; a text that is refused has no tree, and that is no failure. */
enum vc_status vc_hf_json_look(struct vc_ctx *ctx, const char *text, size_t n, struct hf_json *out);

/* All of a JSON file of the folder; root NULL: it is not there. Sentences begin with its name. vc_hf_json_free in any
 * case. */
enum vc_status vc_hf_json_beside(struct vc_ctx *ctx, const char *folder, const char *name, struct hf_json *out);

void vc_hf_json_free(struct hf_json *json);
#define VC_SCOPED_JSON VC_CLEANUP(vc_hf_json_free) /* before a tree that ends with its scope: zeros at first */
