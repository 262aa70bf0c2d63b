/* hf_config.h - config.json of a Hugging Face model, as far as it speaks of weights: its "quantization_config".
 *
 * Only that one member of the text is added, replaced or removed; every other byte stays, so that numbers, their
 * spelling and the order of keys survive. Forms: docs/formats.md. */
#pragma once

#include <sys/stat.h>

#include "formats/dialects/dialects.h"

#define VC_HF_CONFIG_NAME      "config.json"
#define VC_HF_CONFIG_MAX_BYTES ((size_t)16 << 20)

/* What becomes of the model, for its config.json. */
struct vc_hf_change {
    const struct vc_model *model; /* the source */
    const struct vc_out_list *outs;
    const bool *told; /* by output: codes in a layout that loaders know (safetensors_records) */
    const struct vc_dialect *dialect;
    bool describes; /* how weights are quantized is said: they are in a dialect that has a configuration, or were */
};

/* Adds the new text to `out`. VC_E_FORMAT: it is no JSON object. VC_E_UNSUPPORTED: weights were quantized in a way that
 * the text describes and that cannot be joined with ours, or the loader of such a model has no linear layers. */
enum vc_status vc_hf_quantization_rewrite(struct vc_ctx *ctx, const char *text, size_t n,
                                          const struct vc_hf_change *change, struct vc_text *out);

/* Whether loaders of that model take int8 weights of linear layers, as far as the config.json (NULL: none) tells: it
 * names a type of model, none with transposed matrices. A quantization_config in it is the caller's matter. */
struct json_t;
bool vc_hf_config_takes_int8(const struct json_t *root);

/* Whether the text says that input and output embeddings are two matrices ("tie_word_embeddings": false): where they
 * are the same in a file, the loader still looks for both. */
enum vc_status vc_hf_config_unties(struct vc_ctx *ctx, const char *text, size_t n, bool *unties);

/* vc_hf_json_load, which see. VC_E_FORMAT: it is no JSON object. (hf_json.c) */
struct hf_json;
enum vc_status vc_hf_config_parse(struct vc_ctx *ctx, const char *text, size_t n, bool whole, struct hf_json *out);

/* Bits and group size where all groups of compressed-tensors agree on them; zeros otherwise. Text that is no JSON says
 * nothing. */
enum vc_status vc_hf_config_hint(struct vc_ctx *ctx, const char *text, size_t n, struct vc_dialect_hint *out);

/* stat: *there, and *st where it is. VC_E_IO where nobody can tell: what a file says must not be missed because of a
 * disk that fails. */
enum vc_status vc_hf_look(struct vc_ctx *ctx, const char *path, struct stat *st, bool *there);

/* The path of that file in the folder `path`, or in the folder of the file `path`. The pool's: vc_free. NULL: see
 * ctx->status. */
char *vc_hf_path_beside(struct vc_ctx *ctx, const char *path, const char *name);

/* Whether a config.json is that of a model: other programs call their files so, too ({"port": 8080}), and such a file
 * says nothing about the weights beside it. It is where it has a key that loaders of models ask for; a text that is no
 * JSON may be what is left of one, and counts as one, so that its readers refuse it. */
enum vc_status vc_hf_config_is_model(struct vc_ctx *ctx, const char *text, size_t n, bool *is);

/* The text of the config.json in the folder, or in the folder of that file; NULL where there is none, one that is odd
 * (formats/io/side_file.h), one that is no model's, or one of more than VC_HF_CONFIG_MAX_BYTES. The pool's: vc_free. */
enum vc_status vc_hf_config_read_beside(struct vc_ctx *ctx, const char *path, char **text, size_t *n);
/* Why it is not read: "is a link that leads out of the folder"; NULL: it is a file, or there is none. */
enum vc_status vc_hf_config_why_beside(struct vc_ctx *ctx, const char *path, const char **why);
enum vc_status vc_hf_config_hint_beside(struct vc_ctx *ctx, const char *path, struct vc_dialect_hint *out);
