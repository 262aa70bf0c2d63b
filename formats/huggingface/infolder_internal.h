/* infolder_internal.h - what the parts of a folder's reader share: infolder.c looks through it, infolder_choose.c finds
 * the files of its model, infolder_pipeline.c those of its models where there are several. */
#pragma once

#include "formats/huggingface/families.h"
#include "formats/huggingface/infolder.h"
#include "formats/huggingface/weight_index.h"

struct infolder_names {
    size_t n, capacity;
    const char **names;
};

struct vc_infolder {
    struct vc_arena arena;
    const char *path;  /* of the folder */
    const char *index; /* name of the index; NULL: none */
    const char *lone;  /* path of the GGUF or ONNX file that the folder is there for; NULL: none */
    size_t n_lone;     /* how many of the kind there were to choose from */
    struct vc_infile *index_file;
    struct weight_index map; /* what is in it */
    struct infolder_names weights, indices, left, shards;
    struct infolder_names bins, bin_indices; /* PyTorch files that are called like weights */
    bool has_bins;                           /* the shards are some of these */
    const char *out_index, *out_prefix;      /* as in an output */
    struct vc_family family;
    struct infolder_names out_shards;
    struct infolder_names odd; /* "config.json: is a link that leads nowhere": would go along, and cannot */
    size_t n_carried, carried_capacity;
    struct vc_carried *carried;
    bool has_modules; /* modules.json: sentence-transformers has modules in folders below */
    bool has_models;  /* it is a pipeline: see components, of which a damaged one may have none */
    size_t n_components;
    struct vc_pipeline_part *components; /* in the arena */
};

/* ---- infolder_files.c ---- */

/* Whether a name ends so, in capitals, too. */
bool vc_infolder_ends_in(const char *name, const char *suffix);

/* The name of an index: "model.safetensors.index.json" for the suffix ".safetensors.index.json", and with a variant
 * "model.safetensors.index.fp16.json". *variant: 4 bytes of the name, or none. */
bool vc_infolder_names_index(const char *name, const char *suffix, const char **variant, size_t *n_variant);

/* Weights in other formats than ours. */
bool vc_infolder_is_other_weights(const char *name);

enum vc_status vc_infolder_add_name(struct vc_ctx *ctx, struct vc_infolder *folder, struct infolder_names *to,
                                    const char *name);

/* Of sorted names. */
bool vc_infolder_has_name(const struct infolder_names *names, const char *name);

/* ---- infolder_choose.c ---- */

/* The files of the model: those of the index, or the only one. */
enum vc_status vc_infolder_choose(struct vc_ctx *ctx, struct vc_infolder *folder);
/* What was read of the index is freed, but for the names of the files; the index is closed. May be called again. */
void vc_infolder_forget_index(struct vc_ctx *ctx, struct vc_infolder *folder);
/* Every safetensors file. */
enum vc_status vc_infolder_choose_all(struct vc_ctx *ctx, struct vc_infolder *folder);
/* What they are called in an output that is divided as the folder is. */
enum vc_status vc_infolder_name_outputs(struct vc_ctx *ctx, struct vc_infolder *folder);

/* ---- infolder_pipeline.c ---- */

/* Whether the folder holds several models: model_index.json, and weights in folders below. */
bool vc_infolder_is_pipeline(const struct vc_infolder *folder);
/* Fills its components. What lies in their folders is no longer carried or left by this one. */
enum vc_status vc_infolder_find_components(struct vc_ctx *ctx, struct vc_infolder *folder);
