/* arch_config.h - a config.json as all rooms look things up in it: by any of several names, in the part about text, layer
 * by layer. What a key means for a family: arch_keys.c.
 *
 *     {"model_type": "gemma3", "text_config": {"n_embd": null, "hidden_size": 64, "layer_types": ["sliding_attention"]}}
 *
 *     vc_config_text(root)                                the text_config
 *     vc_config_find(text, "n_embd|hidden_size")          64
 *     vc_config_key(text, "n_embd|hidden_size", &n)       "hidden_size", n 11
 *     vc_config_kind(text, 0)                             "sliding_attention"
 *
 * Values are borrowed, and of any kind and size: a config.json is a stranger's text, and who asks checks them. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* The value of the first of the names "a|b" that has one which is not null; NULL: none has. */
json_t *vc_config_find(const json_t *object, const char *names);
/* That name, of *n bytes, inside `names`; where none has a value the first one. */
const char *vc_config_key(const json_t *object, const char *names, size_t *n);
/* Of the names those that have whole numbers above 0: the first such number; 0: none has. */
uint64_t vc_config_number(const json_t *object, const char *names);
/* The part about text of a model that also sees or hears; of others `root`. Its names are "a|b". */
extern const char vc_config_text_parts[];
json_t *vc_config_text(const json_t *root);
/* The kind of a layer in transformers' words, "full_attention", "mamba"; NULL: nothing says it. Older files have a letter
 * for each layer ("hybrid_override_pattern"), or the numbers of those with attention. */
const char *vc_config_kind(const json_t *text, uint64_t layer);
