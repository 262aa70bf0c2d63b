/* family.h - what the loaders of transformers do with models of one family, as far as a quantized file has to know it.
 *
 * The table of families is formats/huggingface/families.c, where config.json is read. A model whose reader found its
 * families points at a struct vc_family (core/model/source.h); dialects and configurations put the questions below to
 * it. NULL, and a family without rows, have no answers: then the rules that hold for most models stand alone. */
#pragma once

#include "core/model/source.h"

/* The loaders that a row speaks of. A dialect names its own in struct vc_dialect_file. */
enum vc_loads { VC_LOADS_NONE = 0, VC_LOADS_COMPRESSED_TENSORS, VC_LOADS_BITSANDBYTES, VC_LOADS_COUNT };

/* What one loader does with models of the family. Lists are texts with blanks between. NULL: nothing special. */
struct vc_loading {
    const char *refused; /* why no configuration of it loads such a model: "it splits layers as it loads them" */
    const char *keeps;   /* globs of weights in whose place it wants floats: "*.wo.weight" ... */
    const char *why;     /* ... and the reason, for the report */
    const char *needs; /* what has to be passed to it: "quantization_config=CompressedTensorsConfig(dequantize=True)" */
};

struct vc_family_row {
    const char *types;   /* values of model_type in config.json: "t5 mt5" */
    const char *heads;   /* modules whose weight is that of an embedding, and in no file: "cls.predictions.decoder".
                            "re:..." is for lists that take regular expressions */
    const char *renames; /* modules that have another name in the file than in memory, one after the other:
                            "block_sparse_moe=mlp encoder.block.#=stages.#.blocks vision_model=". Whole parts of a name;
                            # is a number */
    const char *tables;  /* globs of weights of two dimensions that are in no linear layer: "*.query_feat.weight" */
    struct vc_loading loads[VC_LOADS_COUNT];
    bool asked; /* says that transformers was asked for these types, and nothing of them */
};

#define VC_FAMILY_MAX_ROWS    48
#define VC_FAMILY_MAX_LAYOUTS 4

/* The rows for one model: its own, and those of the models that it is made of (text_config, vision_config, ...). */
struct vc_family {
    char type[64]; /* the model's own model_type; "" if there is none */
    bool speaks;   /* its output is an embedding turned round, or may be: "architectures" name a language model */
    bool nested;   /* it is made of others, whose modules may have more or fewer names in front than in the file */
    /* A model of diffusers ("_class_name"), which compares names of modules, whole or the last part, and knows no
     * expressions. */
    bool diffusers;
    bool asked; /* what transformers does with models of the type is known: other types are taken as most are */
    size_t n;
    const struct vc_family_row *rows[VC_FAMILY_MAX_ROWS];
    size_t n_layouts; /* the dialects whose loaders take such models, in the order of the table of dialects */
    const struct vc_dialect *layouts[VC_FAMILY_MAX_LAYOUTS];
};

/* Whether a word of the list is the name, or, with globs, matches it. */
bool vc_family_lists(const char *words, const char *name, bool globs);

/* The next word of the list: *n bytes at the result, or NULL behind the last. *at is 0 first. */
const char *vc_family_word(const char *words, size_t *at, size_t *n);

/* vc_loading.refused, .needs of the model; NULL: none. */
const char *vc_family_refused(const struct vc_family *family, enum vc_loads loads);
const char *vc_family_needs(const struct vc_family *family, enum vc_loads loads);

/* The first layout but `but` whose loader takes such models; NULL if there is none. */
const struct vc_dialect *vc_family_other_layout(const struct vc_family *family, const struct vc_dialect *but);

/* Why that loader wants floats for the tensor; NULL: it takes codes. */
const char *vc_family_keeps(const struct vc_family *family, enum vc_loads loads, const char *name);

/* The weight has two dimensions and is in no linear layer, by its name. */
bool vc_family_has_table(const struct vc_family *family, const char *name);

/* The module is the output of the model, under a name of the family. */
bool vc_family_has_head(const struct vc_family *family, const char *module, size_t n);

/* Names of modules in memory may differ from those in the file. */
bool vc_family_changes_names(const struct vc_family *family);

/* What the module of that path is called in memory, as far as the rows know; in the arena, or `path` itself. NULL: no
 * memory. */
const char *vc_family_rename(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_family *family,
                             const char *path);

/* vc_model.module_name and vc_model.is_tied. */
const char *vc_family_module(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_model *model,
                             const char *path);
bool vc_family_is_tied(const struct vc_model *model);
