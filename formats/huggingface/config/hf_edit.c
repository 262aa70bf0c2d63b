/* hf_edit.c - see hf_edit.h.
 *
 *     edit: intermediate size 11008 -> 8192            {"hidden_size": 4096, "intermediate_size": 11008, ...}
 *     becomes                                          {"hidden_size": 4096, "intermediate_size": 8192, ...}
 *
 * Families of models call the same size by different names. All names are tried, and a number is replaced only where it
 * says what it was before, so that a name which means something else in another family does no harm. Models of text and
 * pictures have the sizes of their text part one level down.
 *
 * Each edit is one pass over the tree (edit_object), which changes the text by the numbers of members; values keep
 * their places, so the tree of the old text stays a map of the new one. A size that no key states is refused, unless it
 * follows from another edit. */
#include "formats/huggingface/config/hf_edit.h"

#include "arch/arch_config.h"
#include "arch/arch_family.h"
#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/config/hf_json.h"
#include "formats/huggingface/config/hf_layers.h"
#include "formats/json/json_member.h"
#include "formats/json/json_walk.h"

/* How many experts work on every token, beside those that are chosen. */
static const char of_shared[] = "n_shared_experts|num_shared_experts|num_shared_expert|moe_num_shared_experts";

/* How many experts work on a token, which cannot be more than there are. */
static const char of_choice[] =
    "num_experts_per_tok num_experts_per_token experts_per_token top_k_experts moe_top_k moe_topk moe_k";

/* Experts of these are divided into so many parts of one size, by their numbers. */
static const char of_parts[] = "n_group num_expert_group";

/* The number of layers where a model has an encoder and a decoder: that of the list whose layers go. */
#define OF_ENCODER "encoder_layers|num_encoder_layers|encoder_num_hidden_layers"
static const char of_decoder[] = "decoder_layers|num_decoder_layers|decoder_num_hidden_layers";
static const char of_encoder[] = OF_ENCODER "|num_layers|num_hidden_layers";
static const char of_encoder_alone[] = OF_ENCODER;

/* What stands in front of the last word of such a list: "decoder.layers", "decoder.wrapped_decoder.layers". Others are
 * lists beside it, such as "decoder.prenet.layers", which have a key that nobody here knows. */
static const char main_lists[] = "encoder|decoder|wrapped_encoder|wrapped_decoder";

/* Lists beside the main one of their part, by the word in front of the last, and what counts their layers. */
static const struct {
    const char *word, *key;
} beside_lists[] = {{"global_transformer", "num_global_layers"}};

/* Numbers of layers that are no list's. */
static const char no_lists[] = "num_dense_layers num_hash_layers num_kv_shared_layers num_nextn_predict_layers";

/* Types of models whose loaders take any number of heads, since "head_dim" says how wide one is (seen with transformers
 * 5.23). Others want the heads to divide the hidden size. */
static const char free_heads[] =
    "cohere cohere2 ernie4_5 exaone4 gemma glm glm4 glm4_moe gpt_oss granite helium granitemoe ministral mistral mt5 "
    "hunyuan_v1_dense mixtral ministral3 nemotron olmo olmo2 olmo3 phi phi3 qwen2 qwen2_moe qwen3 qwen3_moe seed_oss "
    "starcoder2 t5 umt5 smollm3";

/* Words of the names of layers, and objects of the configuration that describe that part of the model; beside those of
 * one name ("decoder"), and "vision" and "vision_..." for "vision_config". */
static const struct {
    const char *word, *section;
} parts[] = {{"visual", "vision_config"},
             {"language_model", "text_config"},
             {"language_model", "llm_config"},
             {"language_model", "language_config"}};

/* While the edits are made, one after the other. */
struct editing {
    struct vc_ctx *ctx;
    const struct vc_edit *edits;
    size_t n;
    const struct vc_edit *edit; /* the one that is made */
    const char *names;          /* of its keys, "a|b" */
    const char *type;           /* "model_type" of the object that is edited; NULL: not known */
    const char *section;        /* it is about that object alone; NULL: the top, and the part for text */
    bool beside;                /* of a list beside the main one: nothing but its number follows */
    size_t n_named;             /* keys of that meaning, whatever they say */
    size_t n_made;
};

/* The value is that whole number. */
static bool says(const json_t *value, uint64_t number)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 && (uint64_t)json_integer_value(value) == number;
}

/* Sets member number `index` of the object whose text is *now. */
static enum vc_status replace(const struct editing *e, struct vc_text *now, size_t index, const char *value)
{
    struct vc_text next = {.ctx = e->ctx};

    vc_json_member_replace(now->data, now->n, index, value, &next);
    vc_text_release(now);
    *now = next;
    return now->status;
}

/* A size of the model, under any of its names. VC_EDIT_KEYS: none. */
static bool is_size(const char *name)
{
    size_t key = 0;

    while (key < VC_EDIT_KEYS && !vc_is_one_of(name, vc_arch_config_names((enum vc_edit_key)key))) {
        key++;
    }
    return key < VC_EDIT_KEYS;
}

/* Whether edits have anything to do with the key. */
bool vc_hf_edit_knows(const char *name)
{
    return is_size(name) || vc_is_one_of(name, vc_config_text_parts) || vc_is_one_of(name, of_decoder) ||
           vc_is_one_of(name, of_encoder);
}

/* What the member says of single layers, where some are left out. The member's own text goes along, so that a list
 * loses entries and keeps its spacing. */
static enum vc_status edit_layers(const struct editing *e, const json_t *object, const char *name, const json_t *value,
                                  size_t index, struct vc_text *now)
{
    VC_SCOPED_TEXT struct vc_text fresh = {.ctx = e->ctx};
    struct json_member m;

    if (vc_json_member_find(now->data, now->n, index, &m)) {
        VC_CALL(vc_hf_layers_member(e->ctx, e->edit, object, e->type, name, value, is_size(name), now->data + m.value,
                                    m.end - m.value, &fresh));
        VC_CALL(fresh.status);
        if (fresh.n != 0) {
            VC_CALL(replace(e, now, index, fresh.data));
        }
    }
    return VC_OK;
}

/* One of the keys "a|b" is that number. */
static bool object_says(const json_t *object, const char *names, uint64_t number)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        if (says(value, number) && vc_is_one_of(name, names)) {
            return true;
        }
    }
    return false;
}

/* The object has the number that the edit changes, so that what it says of layers is about these. */
static bool states(const struct editing *e, const json_t *object)
{
    return object_says(object, e->names, e->edit->before);
}

/* What the member says of experts, of which fewer are left. */
static enum vc_status check_experts(const struct editing *e, const char *name, const json_t *value)
{
    uint64_t number = vc_json_count(value);

    VC_REFUSE_IF(number > e->edit->after && vc_is_one_of(name, of_choice), e->ctx, VC_E_UNSUPPORTED,
                 VC_HF_CONFIG_NAME ": \"%s\" is %" PRIu64 ", and %" PRIu64 " of %" PRIu64
                                   " experts would be left to choose from",
                 name, number, e->edit->after, e->edit->before);
    VC_REFUSE_IF(number > 1 && vc_is_one_of(name, of_parts), e->ctx, VC_E_UNSUPPORTED,
                 VC_HF_CONFIG_NAME ": \"%s\" divides the experts into %" PRIu64
                                   " parts by their numbers, so that those which stay would come into others",
                 name, number);
    return VC_OK;
}

/* Makes the edit in one member of an object. n_named counts keys of the meaning that say anything, n_made keys that
 * said the old number. */
static enum vc_status edit_member(struct editing *e, const json_t *object, const char *name, const json_t *value,
                                  size_t index, struct vc_text *now)
{
    const struct vc_edit *edit = e->edit;
    char number[24];

    if (vc_is_one_of(name, e->names)) {
        e->n_named += !json_is_null(value);
        if (says(value, edit->before)) {
            e->n_made++;
            (void)snprintf(number, sizeof number, "%" PRIu64, edit->after);
            return replace(e, now, index, number);
        }
    }
    if (edit->key == VC_EDIT_EXPERTS && states(e, object)) {
        VC_CALL(check_experts(e, name, value));
    }
    return edit->n_dropped != 0 && !e->beside && states(e, object) ? edit_layers(e, object, name, value, index, now)
                                                                   : VC_OK;
}

/* Whether the edit is about the members of the object at the top, and about an object in it. */
static bool is_about(const struct editing *e, const char *section)
{
    if (e->section != NULL) {
        return section != NULL && strcmp(section, e->section) == 0;
    }
    return section == NULL || vc_is_one_of(section, vc_config_text_parts);
}

/* The type of the model that the object describes, or of its part for text; parent: of what it is a part of. */
static const char *type_of(const json_t *object, const char *parent)
{
    const char *own = json_string_value(json_object_get(object, "model_type"));
    const struct vc_arch *arch = vc_arch_find_text(own);

    own = arch != NULL ? arch->type : own;
    return own != NULL ? own : parent;
}

/* Makes the edit in the members of the object `now`, and in those of the objects in it that it is about. An object
 * inside is edited as a text of its own, and put back. e->type is that of the object whose members are visited. */
static enum vc_status edit_object(struct editing *e, const json_t *object, bool top, struct vc_text *now)
{
    bool about = !top || is_about(e, NULL);
    const char *type = type_of(object, e->type);
    struct json_member m;
    VC_SCOPED_TEXT struct vc_text inner;
    const char *name;
    json_t *value;
    size_t index = 0;

    vc_text_init(&inner, e->ctx);
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        e->type = type;
        if (about) {
            VC_CALL(edit_member(e, object, name, value, index, now));
        }
        if (top && is_about(e, name) && json_is_object(value) && vc_json_member_find(now->data, now->n, index, &m)) {
            vc_text_add_bytes(&inner, now->data + m.value, m.end - m.value);
            VC_CALL(inner.status);
            e->type = vc_is_one_of(name, vc_config_text_parts) ? type : NULL;
            VC_CALL(edit_object(e, value, false, &inner));
            VC_CALL(replace(e, now, index, inner.data));
            vc_text_release(&inner);
            vc_text_init(&inner, e->ctx);
        }
        index++;
    }
    if (about && e->edit->n_dropped != 0 && !e->beside && states(e, object)) {
        VC_CALL(vc_hf_layers_unsaid(e->ctx, e->edit, object, type, now));
    }
    return VC_OK;
}

/* Whether the names of the layers have that word between dots: "model.decoder.layers". */
static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    const char *at = list;

    while (at != NULL && !(strncmp(at, word, n) == 0 && (at[n] == '.' || at[n] == '\0'))) {
        at = strchr(at, '.');
        at = at != NULL ? at + 1 : NULL;
    }
    return at != NULL;
}

/* Whether the object of that name describes the part of the model that the word stands for, n bytes long. */
static bool describes(const char *section, const char *word, size_t n)
{
    size_t n_base = strlen(section);

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(parts[i].section, section) == 0 && strlen(parts[i].word) == n &&
            strncmp(parts[i].word, word, n) == 0) {
            return true;
        }
    }
    if (n_base == n && strncmp(section, word, n) == 0) {
        return true;
    }
    if (n_base <= strlen("_config") || strcmp(section + n_base - strlen("_config"), "_config") != 0) {
        return false;
    }
    n_base -= strlen("_config");
    return n >= n_base && strncmp(word, section, n_base) == 0 && (n == n_base || word[n_base] == '_');
}

/* The object that describes the first part of the model that the names of the layers name; NULL: none does. *rest: what
 * stands behind its word. "model.vision_tower.encoder.layers" with a "vision_config": the word vision_tower is
 * described, *rest is ".encoder.layers". */
static const char *find_section(const char *list, const json_t *root, const char **rest)
{
    const char *at = list;
    const char *name;
    json_t *value;

    while (*at != '\0') {
        size_t n = strcspn(at, ".");

        json_object_foreach((json_t *)(uintptr_t)root, name, value)
        {
            if (json_is_object(value) && describes(name, at, n)) {
                *rest = at + n;
                return name;
            }
        }
        at += n + (at[n] == '.');
    }
    *rest = list;
    return NULL;
}

/* Some key of these names has a number. */
static bool has_any(const json_t *object, const char *names)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        if (json_is_integer(value) && vc_is_one_of(name, names)) {
            return true;
        }
    }
    return false;
}

/* The list is called so, but for its last word: "vision_model.global_transformer.layers". */
static bool is_called(const char *list, const char *word)
{
    const char *last = strrchr(list, '.');
    size_t n = strlen(word);

    return last != NULL && (size_t)(last - list) >= n && strncmp(last - n, word, n) == 0 &&
           (last - list == (ptrdiff_t)n || last[-(ptrdiff_t)n - 1] == '.');
}

/* A key that nobody here knows states as many layers, so that it may be the one that counts the list. */
static const char *find_unknown_count(const json_t *object, uint64_t number)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        size_t n = strlen(name);

        if (says(value, number) && (strncmp(name, "num_", 4) == 0 || strncmp(name, "n_", 2) == 0) &&
            n > strlen("_layers") && strcmp(name + n - strlen("_layers"), "_layers") == 0 && !vc_hf_edit_knows(name) &&
            !vc_is_one_of(name, of_encoder_alone) && !vc_is_one_of(name, no_lists)) {
            return name;
        }
    }
    return NULL;
}

/* The word in front of the last one of a list. */
static bool is_main_list(const char *list)
{
    const char *last = strrchr(list, '.');
    const char *word = last;
    char name[32];

    while (word != NULL && word > list && word[-1] != '.') {
        word--;
    }
    return word != NULL && snprintf(name, sizeof name, "%.*s", (int)(last - word), word) < (int)sizeof name &&
           vc_is_one_of(name, main_lists);
}

/* Which keys and which objects the edit is about: of several lists of layers that of edit->list.
 *
 *     model.layers                          num_hidden_layers at the top, or in text_config
 *     model.vision_tower.encoder.layers     num_hidden_layers of vision_config
 *     model.decoder.layers of an encoder and a decoder    decoder_layers
 *     vision_model.global_transformer.layers              num_global_layers, and nothing else follows */
static enum vc_status choose_place(struct editing *e, const json_t *root)
{
    const char *list = e->edit->list;
    const char *rest;

    e->beside = false;
    e->names = vc_arch_config_names(e->edit->key);
    e->section = NULL;
    if (list == NULL || e->edit->key != VC_EDIT_LAYERS) {
        return VC_OK;
    }
    e->section = find_section(list, root, &rest);
    const json_t *object = e->section != NULL ? json_object_get(root, e->section) : root;
    if (e->section != NULL && vc_is_one_of(e->section, vc_config_text_parts)) { /* text: there, or at the top */
        e->section = NULL;
    }
    for (size_t i = 0; i < sizeof beside_lists / sizeof beside_lists[0]; i++) {
        if (is_called(list, beside_lists[i].word) && has_any(object, beside_lists[i].key)) {
            e->names = beside_lists[i].key;
            e->beside = true;
            return VC_OK;
        }
    }
    const char *unknown_key = find_unknown_count(object, e->edit->before);
    for (size_t i = 0; unknown_key != NULL && i < sizeof beside_lists / sizeof beside_lists[0]; i++) {
        unknown_key = strcmp(unknown_key, beside_lists[i].key) == 0 ? NULL : unknown_key;
    }
    VC_REFUSE_IF(unknown_key != NULL, e->ctx, VC_E_UNSUPPORTED,
                 VC_HF_CONFIG_NAME ": \"%s\" is %" PRIu64
                                   ", too, so it is not known which key states how many layers %s has",
                 unknown_key, e->edit->before, list);
    if (!json_is_true(json_object_get(object, "is_encoder_decoder")) && !has_any(object, of_decoder) &&
        !has_any(object, of_encoder_alone)) {
        return VC_OK;
    }
    if (!has_word(list, "decoder") && !has_word(list, "encoder")) {
        return VC_OK;
    }
    VC_REFUSE_IF(!is_main_list(list), e->ctx, VC_E_UNSUPPORTED,
                 VC_HF_CONFIG_NAME ": which key states the %" PRIu64
                                   " layers of %s is not known; those of its encoder or decoder are",
                 e->edit->before, list);
    rest = has_word(rest, "decoder") || has_word(rest, "encoder") ? rest : list;
    e->names = has_word(rest, "decoder") ? of_decoder : of_encoder;
    return VC_OK;
}

/* What other parts of the configuration say of the layers by number: vision_feature_layer at the top of those of the
 * vision part, and that part of the first layers for text. */
static enum vc_status edit_beside(struct editing *e, const json_t *root, struct vc_text *now)
{
    const json_t *vision = json_object_get(root, "vision_config");
    VC_SCOPED_TEXT struct vc_text fresh;
    const char *name;
    json_t *value;
    size_t index = 0;

    vc_text_init(&fresh, e->ctx);
    if (e->section == NULL) {
        return vc_hf_layers_fed(e->ctx, e->edit, vision);
    }
    if (strcmp(e->section, "vision_config") != 0) {
        return VC_OK;
    }
    json_object_foreach((json_t *)(uintptr_t)root, name, value)
    {
        VC_CALL(vc_hf_layers_feature(e->ctx, e->edit, name, value, &fresh));
        if (fresh.n != 0) {
            VC_CALL(replace(e, now, index, fresh.data));
            vc_text_release(&fresh);
            vc_text_init(&fresh, e->ctx);
        }
        index++;
    }
    return VC_OK;
}

/* One edit: choose, change, and refuse where no key said the old number. */
static enum vc_status make_edit(struct editing *e, const json_t *root, struct vc_text *now)
{
    const struct vc_edit *edit = e->edit;

    e->n_named = 0;
    e->n_made = 0;
    e->type = NULL;
    VC_CALL(choose_place(e, root));
    VC_CALL(edit_object(e, root, true, now));
    if (edit->n_dropped != 0 && !e->beside) {
        VC_CALL(edit_beside(e, root, now));
    }
    VC_REFUSE_IF(e->n_made == 0 && !(e->n_named == 0 && vc_edit_is_implied(e->edits, e->n, edit)), e->ctx,
                 VC_E_UNSUPPORTED,
                 VC_HF_CONFIG_NAME ": no key of it says that the %s is %" PRIu64 ", which becomes %" PRIu64
                                   "; expected one such as \"%.*s\"",
                 vc_edit_name(edit->key), edit->before, edit->after, (int)strcspn(e->names, "|"), e->names);
    return VC_OK;
}

/* The number of any key of that meaning, in the part for text before the whole; 0 if there is none. */
static uint64_t number_of(const json_t *root, enum vc_edit_key key)
{
    uint64_t inner = vc_config_number(vc_config_text(root), vc_arch_config_names(key));

    return inner != 0 ? inner : vc_config_number(root, vc_arch_config_names(key));
}

/* The type of the model, or of its part for text. See free_heads. */
static bool has_free_heads(const json_t *root)
{
    const char *type = json_string_value(json_object_get(vc_config_text(root), "model_type"));

    return type != NULL && vc_is_one_of(type, free_heads);
}

/* Says which numbers next to that one would do: as many queries share a key as before. step: query heads for one key
 * head after the edit. */
static enum vc_status refuse_heads(const struct editing *e, uint64_t hidden, const struct vc_edit *fewer)
{
    const struct vc_edit *pairs = vc_edit_find(e->edits, e->n, VC_EDIT_KV_HEADS);
    uint64_t step = pairs != NULL && pairs->after != 0 ? fewer->after / pairs->after : 1;
    uint64_t below = fewer->after;
    uint64_t above = fewer->after;

    while (hidden % below != 0 && below > step) {
        below -= step;
    }
    while (hidden % above != 0 && above < fewer->before) {
        above += step;
    }
    return vc_fail(e->ctx, VC_E_UNSUPPORTED,
                   VC_HF_CONFIG_NAME ": %" PRIu64 " heads would not divide the hidden size of %" PRIu64
                                     ", which loaders refuse; %" PRIu64 " or %" PRIu64 " of %" PRIu64 " heads do",
                   fewer->after, hidden, below, above, fewer->before);
}

/* Heads whose size the hidden size tells, and that divide it: loaders look at that first. Three refusals: heads without
 * "head_dim" whose size would be taken for another; a hidden size that the heads would no longer divide; a number of
 * heads that would no longer divide it. */
static enum vc_status check_head_size(const struct editing *e, const json_t *root)
{
    const struct vc_edit *width = vc_edit_find(e->edits, e->n, VC_EDIT_HIDDEN);
    const struct vc_edit *fewer = vc_edit_find(e->edits, e->n, VC_EDIT_HEADS);
    uint64_t hidden = number_of(root, VC_EDIT_HIDDEN);
    uint64_t heads = number_of(root, VC_EDIT_HEADS);
    uint64_t left = fewer != NULL ? fewer->after : heads;
    uint64_t before, after;

    VC_REFUSE_IF(hidden != 0 && number_of(root, VC_EDIT_HEAD_SIZE) == 0 &&
                     vc_edits_change_head_size(e->edits, e->n, hidden, heads, &before, &after),
                 e->ctx, VC_E_UNSUPPORTED,
                 VC_HF_CONFIG_NAME ": has no \"head_dim\", so that a head would be taken for one of size %" PRIu64
                                   " in place of %" PRIu64,
                 after, before);
    VC_REFUSE_IF(width != NULL && left != 0 && heads != 0 && width->before % heads == 0 && width->after % left != 0,
                 e->ctx, VC_E_UNSUPPORTED,
                 VC_HF_CONFIG_NAME ": %" PRIu64 " heads would not divide a hidden size of %" PRIu64
                                   ", which loaders refuse; %s %" PRIu64 " makes a multiple of it",
                 left, width->after, vc_option(e->ctx, "round_to"), left);
    if (width == NULL && fewer != NULL && left != 0 && hidden != 0 && hidden % fewer->before == 0 &&
        hidden % left != 0 && !has_free_heads(root)) {
        return refuse_heads(e, hidden, fewer);
    }
    return VC_OK;
}

/* The tree stays that of the text before; `now` is what it has become. */
enum vc_status vc_hf_edit(struct vc_ctx *ctx, const char *text, size_t n, const struct vc_edit *edits, size_t n_edits,
                          struct vc_text *out)
{
    struct editing e = {.ctx = ctx, .edits = edits, .n = n_edits};
    VC_SCOPED_JSON struct hf_json json = {0};
    VC_SCOPED_TEXT struct vc_text now = {.ctx = ctx};

    vc_text_add_bytes(&now, text, n);
    VC_CALL(now.status);
    VC_CALL(vc_hf_config_parse(ctx, text, n, true, &json));
    VC_CALL(check_head_size(&e, json.root));
    for (size_t i = 0; i < n_edits; i++) {
        e.edit = &edits[i];
        VC_CALL(make_edit(&e, json.root, &now));
    }
    vc_text_add_bytes(out, now.data, now.n);
    return out->status;
}

/* Whether another key than those that are known says that number of a width: "intermediate_size_mlp". */
static bool has_unknown_width(const json_t *object, uint64_t number)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        if (says(value, number) && !is_size(name) &&
            (strstr(name, "intermediate") != NULL || strstr(name, "ffn") != NULL)) {
            return true;
        }
    }
    return false;
}

/* Sizes inside a feed-forward part, which families give several names. */
static bool is_width(enum vc_edit_key key)
{
    return key == VC_EDIT_INTERMEDIATE || key == VC_EDIT_EXPERT || key == VC_EDIT_SHARED;
}

/* Whether the number, which the top or the part for text says, may be about something else than the tensor: it is of a
 * part that another object describes; or its name tells no part, and another object says the same number, too. */
static bool is_of_other_part(const json_t *root, const char *tensor, enum vc_edit_key key, uint64_t number)
{
    const char *rest;
    const char *section = find_section(tensor, root, &rest);
    const char *name;
    json_t *value;

    if (section != NULL) {
        return !vc_is_one_of(section, vc_config_text_parts);
    }
    json_object_foreach((json_t *)(uintptr_t)root, name, value)
    {
        if (json_is_object(value) && !vc_is_one_of(name, vc_config_text_parts) &&
            object_says(value, vc_arch_config_names(key), number)) {
            return true;
        }
    }
    return false;
}

/* For a tensor, a number that may belong to another part, or to a second width, counts as not said: a wrong yes would
 * shrink a tensor that the loader still expects whole. */
enum vc_status vc_hf_edit_says(struct vc_ctx *ctx, const char *text, size_t n, enum vc_edit_key key, uint64_t number,
                               const char *tensor, bool *out)
{
    VC_SCOPED_JSON struct hf_json json = {0};

    VC_CALL(vc_hf_config_parse(ctx, text, n, true, &json));
    const json_t *part = vc_config_text(json.root);
    *out = object_says(json.root, vc_arch_config_names(key), number) ||
           object_says(part, vc_arch_config_names(key), number);
    bool unknown = has_unknown_width(json.root, number) || has_unknown_width(part, number);
    if (*out && tensor != NULL) {
        *out = !is_of_other_part(json.root, tensor, key, number) && !(is_width(key) && unknown);
    }
    return VC_OK;
}

/* 0: the configuration does not say how many experts are shared. */
enum vc_status vc_hf_edit_shared(struct vc_ctx *ctx, const char *text, size_t n, uint64_t *out)
{
    VC_SCOPED_JSON struct hf_json json = {0};

    VC_CALL(vc_hf_config_parse(ctx, text, n, true, &json));
    *out = vc_config_number(json.root, of_shared);
    *out = *out != 0 ? *out : vc_config_number(vc_config_text(json.root), of_shared);
    return VC_OK;
}
