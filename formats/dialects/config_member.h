/* config_member.h - what the configurations of several dialects have in common: lists of modules, by name. */
#pragma once

#include "core/run/sink.h"
#include "formats/dialects/module_names.h"

/* An output of the job, this worker's or another's: what of it a configuration speaks of. */
struct vc_config_weight {
    const char *name;
    const struct vc_quant *quant; /* NULL: no codes */
    enum vc_dtype dtype;
    unsigned n_dims;
    bool table; /* an embedding table, by its name, and by having no bias beside it */
    bool told;  /* codes whose name and neighbours say how they are quantized; the configuration has to speak of them */
};

/* What a configuration is written from. */
struct vc_config_weights {
    size_t n;
    const struct vc_config_weight *weights; /* all outputs, in the order of the source */
    size_t n_groups;
    const struct vc_quant *groups;  /* the ways in which the told ones share their scales */
    const struct vc_family *family; /* NULL: nothing is known */
};

/* A linear layer, as far as name and shape tell; not codes: one that a loader would look at. */
bool vc_config_is_layer(const struct vc_config_weight *weight, size_t *n_path);

/* Two weights of one group. */
bool vc_config_same_group(const struct vc_quant *a, const struct vc_quant *b);

/* Adds a JSON list of the modules whose weights are codes of that group. */
void vc_config_add_modules(const struct vc_config_weights *weights, const struct vc_quant *group, struct vc_text *text);

/* Adds a JSON list of the linear layers that are not codes, as far as names and shapes tell (a name too many does no
 * harm, one too few makes the loader look for codes); and the heads of a model that has them tied to its embedding,
 * which no tensor tells of. */
void vc_config_add_ignored(const struct vc_config_weights *weights, enum vc_names_form form, struct vc_text *text);

/* Refuses experts that transformers joins where some are codes and some are not (it stops at the first that is not), or
 * where they are codes of two kinds (it decodes all as the first). */
enum vc_status vc_config_check_experts(struct vc_ctx *ctx, const struct vc_config_weights *weights,
                                       const struct vc_dialect *dialect);

/* Refuses outputs whose codes are of several kinds, of a layout whose configuration describes one. */
enum vc_status vc_config_one_kind(struct vc_ctx *ctx, const struct vc_config_weights *weights,
                                  const struct vc_dialect *dialect);

/* Refuses a layer that is no codes and whose name in diffusers' list would stand for layers that are. */
enum vc_status vc_config_check_names(struct vc_ctx *ctx, const struct vc_config_weights *weights);

/* Of linear layers nothing but the model's output is kept, as loaders do it that are told nothing. */
bool vc_config_ignores_heads_only(const struct vc_config_weights *weights);
