/* hf_layers.c - see hf_layers.h. The names of keys are those of transformers' configurations. */
#include "formats/huggingface/config/hf_layers.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "formats/huggingface/config/hf_config.h"
#include "formats/json/json_member.h"

/* An entry per layer, or in a text a character. */
static const char by_layer[] =
    "layer_types mlp_layer_types layers_block_type block_configs no_rope_layers attention_layers attention_window "
    "attn_type_list hybrid_layer_pattern hybrid_override_pattern moe_layer_freq num_query_heads ffn_multipliers "
    "num_attention_heads_per_layer num_key_value_heads_per_layer activation_sparsity_pattern";

/* Numbers of layers. */
static const char numbers_of[] =
    "mlp_only_layers cross_attention_layers full_attn_idxs moe_layers attn_layer_indices hybrid_layer_ids "
    "deepstack_visual_indexes intermediate_layers_indices";

/* Of these something else has an entry for each number, so that the layers they name have to stay. */
static const char numbers_that_stay[] = "deepstack_visual_indexes intermediate_layers_indices";

/* The layer behind which something takes what the vision part has made: 0 is before the first one, -1 behind the last.
 */
static const char features[] = "vision_feature_layer mm_vision_select_layer";

/* So many layers from the first on are of another kind. */
static const char first_of[] =
    "first_k_dense_replace num_dense_layers max_window_layers moe_layer_start_index num_hash_layers";

/* What speaks of layers from the last on, of numbers in other lists, or of sizes of tensors outside of the layers:
 * refused, unless it is 0, false, or null. */
static const char refused[] =
    "num_kv_shared_layers hidden_size_per_layer_input moe_layer_end_index scale_attn_by_inverse_layer_idx stage_names "
    "depths";

/* Layers of another kind come after so many; not looked at where a list says it layer by layer. */
static const struct {
    const char *key, *list;
} periods[] = {{"sliding_window_pattern", "layer_types"},
               {"global_attn_every_n_layers", "layer_types"},
               {"full_attention_interval", "layer_types"},
               {"attn_layer_period", "layers_block_type"},
               {"no_rope_layer_interval", "no_rope_layers"},
               {"interleave_moe_layer_step", "moe_layers"},
               {"decoder_sparse_step", NULL},
               {"encoder_sparse_step", NULL},
               {"moe_layer_freq", NULL},
               {"moe_layer_interval", NULL},
               {"expert_layer_period", NULL},
               {"cross_attention_freq", NULL}};

/* What such models do where neither the list nor the key is there. */
static const struct {
    const char *model_type, *list, *key;
    uint64_t period;
} kinds[] = {{"gemma2", "layer_types", NULL, 2},
             {"gemma3", "layer_types", "sliding_window_pattern", 6},
             {"gemma3_text", "layer_types", "sliding_window_pattern", 6},
             {"cohere2", "layer_types", "sliding_window_pattern", 4},
             {"gpt_oss", "layer_types", NULL, 2},
             {"olmo3", "layer_types", NULL, 4},
             {"llama4_text", "no_rope_layers", "no_rope_layer_interval", 4},
             {"smollm3", "no_rope_layers", "no_rope_layer_interval", 4},
             {"modernbert", "layer_types", "global_attn_every_n_layers", 3}};

static bool is_there(const json_t *object, const char *key)
{
    const json_t *value = key != NULL ? json_object_get(object, key) : NULL;

    return value != NULL && !json_is_null(value) && !(json_is_array(value) && json_array_size(value) == 0);
}

static enum vc_status refuse(struct vc_ctx *ctx, const char *name, const char *what)
{
    return vc_fail(ctx, VC_E_UNSUPPORTED, VC_HF_CONFIG_NAME ": '%s' %s, and layers are left out", name, what);
}

/* ---- lists ---- */

/* "MEM*" without the characters of dropped layers. */
static void drop_characters(const struct vc_edit *edit, const char *value, struct vc_text *out)
{
    char kept[2] = "";
    struct vc_text left;

    vc_text_init(&left, out->ctx);
    for (uint64_t i = 0; i < edit->before; i++) {
        kept[0] = value[i];
        vc_text_add(&left, "%s", vc_edit_drops_layer(edit, i) ? "" : kept);
    }
    if (left.status == VC_OK) {
        vc_text_add_json_string(out, left.data);
    }
    out->status = out->status == VC_OK ? left.status : out->status;
    vc_text_release(&left);
}

/* The numbers of layers that stay, as they are now. */
static enum vc_status renumber(struct vc_ctx *ctx, const struct vc_edit *edit, const char *name, const json_t *list,
                               struct vc_text *out)
{
    bool first = true;

    vc_text_add(out, "[");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);

        if (!json_is_integer(entry) || json_integer_value(entry) < 0) {
            return refuse(ctx, name, "has entries that are not numbers of layers");
        }
        if (vc_is_one_of(name, numbers_that_stay) && vc_edit_drops_layer(edit, (uint64_t)json_integer_value(entry))) {
            return vc_fail(ctx, VC_E_UNSUPPORTED, VC_HF_CONFIG_NAME ": '%s' names layer %" PRIu64 ", which has to stay",
                           name, (uint64_t)json_integer_value(entry));
        }
        if (!vc_edit_drops_layer(edit, (uint64_t)json_integer_value(entry))) {
            vc_text_add(out, "%s%" PRIu64, first ? "" : ", ",
                        vc_edit_layers_below(edit, (uint64_t)json_integer_value(entry)));
            first = false;
        }
    }
    vc_text_add(out, "]");
    return out->status;
}

/* GPT-Neo's [[["global", "local"], 12]]: words, and how often they repeat. Becomes a list of words, once. */
static enum vc_status edit_attention_types(struct vc_ctx *ctx, const struct vc_edit *edit, const json_t *value,
                                           struct vc_text *out)
{
    uint64_t layer = 0;
    bool first = true;

    vc_text_add(out, "[[[");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *pair = json_array_get(value, i);
        const json_t *words = json_array_get(pair, 0);
        json_int_t times = json_integer_value(json_array_get(pair, 1));
        uint64_t n = (uint64_t)json_array_size(words) * (times > 0 ? (uint64_t)times : 0);
        uint64_t k;

        for (k = 0; k < n && layer < edit->before; k++, layer++) {
            const char *word = json_string_value(json_array_get(words, (size_t)(k % json_array_size(words))));

            if (word == NULL) {
                return refuse(ctx, "attention_types", "has no words");
            }
            if (!vc_edit_drops_layer(edit, layer)) {
                vc_text_add(out, "%s", first ? "" : ", ");
                vc_text_add_json_string(out, word);
                first = false;
            }
        }
        layer += k < n; /* more than there are layers */
    }
    vc_text_add(out, "], 1]]");
    return layer == edit->before ? out->status : refuse(ctx, "attention_types", "has not a word for each layer");
}

/* Lists that nobody here knows: whether they could be about layers. */
static bool may_be_of_layers(const struct vc_edit *edit, const char *name, const json_t *value)
{
    return json_array_size(value) != 0 && (strstr(name, "layer") != NULL || strstr(name, "block") != NULL) &&
           (json_array_size(value) == edit->before || json_is_integer(json_array_get(value, 0)));
}

static enum vc_status edit_list(struct vc_ctx *ctx, const struct vc_edit *edit, const char *name, const json_t *value,
                                bool is_size, const char *text, size_t n, struct vc_text *out)
{
    if (strcmp(name, "attention_types") == 0) {
        return edit_attention_types(ctx, edit, value, out);
    }
    if (is_size || vc_is_one_of(name, by_layer)) {
        if (json_array_size(value) != edit->before && json_array_size(value) != 0) {
            return refuse(ctx, name, "has not an entry for each layer");
        }
        vc_json_list_drop(text, n, edit->dropped, edit->n_dropped, out);
        return out->status;
    }
    if (vc_is_one_of(name, numbers_of)) {
        return renumber(ctx, edit, name, value, out);
    }
    return may_be_of_layers(edit, name, value) ? refuse(ctx, name, "is a list whose meaning is not known") : VC_OK;
}

/* ---- the whole ---- */

/* The number is how often a pattern repeats, and no list says it. */
static bool is_period(const json_t *object, const char *name)
{
    for (size_t i = 0; i < sizeof periods / sizeof periods[0]; i++) {
        if (strcmp(periods[i].key, name) == 0) {
            return !is_there(object, periods[i].list);
        }
    }
    return false;
}

static enum vc_status refuse_period(struct vc_ctx *ctx, const char *name, uint64_t period)
{
    return vc_fail(ctx, VC_E_UNSUPPORTED,
                   VC_HF_CONFIG_NAME ": of '%s' every layer is what its number says, in a pattern of %" PRIu64
                                     ", so that the layers which stay would become others; leave out whole patterns",
                   name, period);
}

static bool says_nothing(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) || (json_is_integer(value) && json_integer_value(value) <= 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

enum vc_status vc_hf_layers_member(struct vc_ctx *ctx, const struct vc_edit *edit, const json_t *object,
                                   const char *name, const json_t *value, bool is_size, const char *text, size_t n,
                                   struct vc_text *out)
{
    json_int_t number = json_integer_value(value);

    if (vc_is_one_of(name, refused)) {
        return says_nothing(value) ? VC_OK : refuse(ctx, name, "speaks of layers by their number");
    }
    if (json_is_array(value)) {
        return edit_list(ctx, edit, name, value, is_size, text, n, out);
    }
    if (json_is_string(value) && vc_is_one_of(name, by_layer)) {
        if (json_string_length(value) != edit->before) {
            return refuse(ctx, name, "has not a character for each layer");
        }
        drop_characters(edit, json_string_value(value), out);
        return out->status;
    }
    if (number > 0 && vc_is_one_of(name, first_of) && (uint64_t)number < edit->before) {
        vc_text_add_uint(out, vc_edit_layers_below(edit, (uint64_t)number));
        return out->status;
    }
    if (number > 1 && is_period(object, name) && !vc_edit_keeps_period(edit, (uint64_t)number)) {
        return refuse_period(ctx, name, (uint64_t)number);
    }
    if (json_is_string(value) && is_period(object, name)) {
        return refuse(ctx, name, "is a pattern that repeats");
    }
    return VC_OK;
}

enum vc_status vc_hf_layers_check(struct vc_ctx *ctx, const struct vc_edit *edit, const json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "model_type"));

    for (size_t i = 0; type != NULL && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].model_type, type) == 0 && !is_there(object, kinds[i].list) &&
            !is_there(object, kinds[i].key) && !vc_edit_keeps_period(edit, kinds[i].period)) {
            return refuse_period(ctx, type, kinds[i].period);
        }
    }
    return VC_OK;
}

enum vc_status vc_hf_layers_fed(struct vc_ctx *ctx, const struct vc_edit *edit, const json_t *vision)
{
    size_t n = json_array_size(json_object_get(vision, "deepstack_visual_indexes"));

    if (edit->n_dropped != 0 && edit->dropped[0] < n) {
        return vc_fail(ctx, VC_E_UNSUPPORTED,
                       VC_HF_CONFIG_NAME
                       ": 'deepstack_visual_indexes' feeds the first %zu layers, so that layer %" PRIu64 " has to stay",
                       n, edit->dropped[0]);
    }
    return VC_OK;
}

/* Behind which layer, counted as before: in as many layers as are left. */
static enum vc_status add_feature(struct vc_ctx *ctx, const struct vc_edit *edit, const char *name, const json_t *value,
                                  struct vc_text *out)
{
    json_int_t number = json_integer_value(value);
    json_int_t behind = number < 0 ? (json_int_t)edit->before + 1 + number : number;

    if (!json_is_integer(value) || behind < 0 || behind > (json_int_t)edit->before) {
        return refuse(ctx, name, "names a layer that there is not");
    }
    behind = (json_int_t)vc_edit_layers_below(edit, (uint64_t)behind);
    vc_text_add(out, "%" JSON_INTEGER_FORMAT, number < 0 ? behind - (json_int_t)edit->after - 1 : behind);
    return out->status;
}

enum vc_status vc_hf_layers_feature(struct vc_ctx *ctx, const struct vc_edit *edit, const char *name,
                                    const json_t *value, struct vc_text *out)
{
    if (!vc_is_one_of(name, features) || json_is_null(value)) {
        return VC_OK;
    }
    if (!json_is_array(value)) {
        return add_feature(ctx, edit, name, value, out);
    }
    vc_text_add(out, "[");
    for (size_t i = 0; i < json_array_size(value); i++) {
        vc_text_add(out, "%s", i == 0 ? "" : ", ");
        VC_CALL(add_feature(ctx, edit, name, json_array_get(value, i), out));
    }
    vc_text_add(out, "]");
    return out->status;
}

bool vc_hf_layers_are_named(const char *list, const char *text)
{
    const char *word = strrchr(list, '.') != NULL ? strrchr(list, '.') + 1 : list;
    const char *at = text;

    while (word[0] != '\0' && (at = strstr(at, word)) != NULL) {
        bool begins = at == text || !isalnum((unsigned char)at[-1]);

        at += strlen(word);
        if (begins && (*at == '.' || *at == '\\')) {
            at += strspn(at, ".\\");
            if (isdigit((unsigned char)*at)) {
                return true;
            }
        }
    }
    return false;
}
