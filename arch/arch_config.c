/* arch_config.c - see arch_config.h. */
#include "arch/arch_config.h"

#include <stdbool.h>
#include <string.h>

const char *vc_config_key(const json_t *object, const char *names, size_t *n)
{
    for (const char *at = names; at != NULL; at = at[*n] == '|' ? at + *n + 1 : NULL) {
        const json_t *value;

        *n = strcspn(at, "|");
        value = json_object_getn(object, at, *n);
        if (value != NULL && !json_is_null(value)) {
            return at;
        }
    }
    *n = strcspn(names, "|");
    return names;
}

json_t *vc_config_find(const json_t *object, const char *names)
{
    size_t n;
    const char *key = vc_config_key(object, names, &n);
    json_t *value = json_object_getn(object, key, n);

    return json_is_null(value) ? NULL : value;
}

uint64_t vc_config_number(const json_t *object, const char *names)
{
    json_int_t number = 0;

    while (*names != '\0' && number <= 0) {
        size_t n = strcspn(names, "|");

        number = json_integer_value(json_object_getn(object, names, n));
        names += n + (names[n] == '|');
    }
    return number > 0 ? (uint64_t)number : 0;
}

const char vc_config_text_parts[] = "text_config|llm_config|language_config";

json_t *vc_config_text(const json_t *root)
{
    json_t *part = vc_config_find(root, vc_config_text_parts);

    return json_is_object(part) ? part : (json_t *)(uintptr_t)root;
}

/* A letter of Nemotron-H's. */
static const char *kind_of_letter(char letter)
{
    switch (letter) {
    case '*':
        return "attention";
    case '-':
        return "mlp";
    case 'E':
        return "moe";
    default:
        return "mamba";
    }
}

/* "block_types" repeat: the kinds of two layers may be those of all. */
const char *vc_config_kind(const json_t *text, uint64_t layer)
{
    const json_t *types = vc_config_find(text, "layer_types|layers_block_type|block_types");
    const char *letters = json_string_value(vc_config_find(text, "hybrid_override_pattern"));
    const json_t *numbers = vc_config_find(text, "full_attn_idxs|attn_layer_indices");
    uint64_t period = vc_config_number(text, "attn_layer_period");
    size_t n = json_array_size(types);

    if (n != 0) {
        return json_string_value(json_array_get(types, (size_t)layer % n));
    }
    if (letters != NULL && layer < strlen(letters)) {
        return kind_of_letter(letters[layer]);
    }
    for (size_t i = 0; i < json_array_size(numbers); i++) {
        if ((uint64_t)json_integer_value(json_array_get(numbers, i)) == layer) {
            return "attention";
        }
    }
    if (period != 0) { /* of Jamba, each so many layers from another one on */
        return layer % period == (uint64_t)json_integer_value(vc_config_find(text, "attn_layer_offset"))
                   ? "attention"
                   : "linear_attention";
    }
    return json_is_array(numbers) ? "linear_attention" : NULL;
}
