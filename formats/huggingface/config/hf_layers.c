/* hf_layers.c - see hf_layers.h. The names of keys are those of transformers' configurations.
 *
 * arch/arch.h has the facts: which key is about layers and how (VC_ARCH_KEY_...), and which lists a class of
 * transformers makes by a rule. A key whose meaning is not known and whose form could be about layers is refused: a
 * folder that loads with the wrong layers is worse than none. vc_hf_layers_member edits members that are there,
 * vc_hf_layers_unsaid adds those that only the class says. */
#include "formats/huggingface/config/hf_layers.h"

#include <ctype.h>

#include "arch/arch.h"
#include "formats/huggingface/config/hf_config.h"
#include "formats/json/json_member.h"

/* null and an empty list say as much as no member. */
static bool is_there(const json_t *object, const char *key)
{
    const json_t *value = key != NULL ? json_object_get(object, key) : NULL;

    return value != NULL && !json_is_null(value) && !(json_is_array(value) && json_array_size(value) == 0);
}

/* All sentences of this file begin and end in the same way. */
static enum vc_status refuse(struct vc_ctx *ctx, const char *name, const char *what)
{
    return vc_fail(ctx, VC_E_UNSUPPORTED, VC_HF_CONFIG_NAME ": '%s' %s, and layers are left out", name, what);
}

/* ---- lists ---- */

/* "MEM*" without the characters of dropped layers. value has edit->before characters, which the caller checked. */
static void drop_characters(const struct vc_edit *edit, const char *value, struct vc_text *out)
{
    char kept[2] = "";
    VC_SCOPED_TEXT struct vc_text left = {.ctx = out->ctx};

    for (uint64_t i = 0; i < edit->before; i++) {
        kept[0] = value[i];
        vc_text_add(&left, "%s", vc_edit_drops_layer(edit, i) ? "" : kept);
    }
    if (left.status == VC_OK) {
        vc_text_add_json_string(out, left.data);
    }
    out->status = out->status == VC_OK ? left.status : out->status;
}

/* The numbers of layers that stay, as they are now. Layers 1 and 3 of 4 go: [0, 2, 3] becomes [0, 1]. */
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
        VC_REFUSE_IF(vc_arch_key_is(name, VC_ARCH_KEY_NUMBERS_STAY) &&
                         vc_edit_drops_layer(edit, (uint64_t)json_integer_value(entry)),
                     ctx, VC_E_UNSUPPORTED, VC_HF_CONFIG_NAME ": '%s' names layer %" PRIu64 ", which has to stay", name,
                     (uint64_t)json_integer_value(entry));
        if (!vc_edit_drops_layer(edit, (uint64_t)json_integer_value(entry))) {
            vc_text_add(out, "%s%" PRIu64, first ? "" : ", ",
                        vc_edit_layers_below(edit, (uint64_t)json_integer_value(entry)));
            first = false;
        }
    }
    vc_text_add(out, "]");
    return out->status;
}

/* GPT-Neo's [[["global", "local"], 12]]: words, and how often they repeat. Becomes a list of words, once. n is how many
 * layers the pair speaks of. A pair with too many, or pairs with too few, are refused: layer ends elsewhere than at
 * edit->before. */
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

            VC_RETURN_IF(word == NULL, refuse(ctx, "attention_types", "has no words"));
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

/* Lists that nobody here knows: whether they could be about layers. Of a type that transformers did not have when the
 * tables of arch/ were made, no key is known, and every list with as many entries as there are layers could be. */
static bool may_be_of_layers(const struct vc_edit *edit, const char *type, const char *name, const json_t *value)
{
    bool one_each = json_array_size(value) == edit->before;

    if (json_array_size(value) == 0) {
        return false;
    }
    if (strstr(name, "layer") != NULL || strstr(name, "block") != NULL) {
        return one_each || json_is_integer(json_array_get(value, 0));
    }
    return one_each && edit->before > 1 && type != NULL && vc_arch_find(type) == NULL &&
           strstr(name, "token") == NULL && strcmp(name, "architectures") != 0;
}

/* A list of sizes or of words with an entry for each layer loses entries; a list of numbers of layers is renumbered; an
 * unknown list that could be about layers is refused; all others stay (out empty). */
static enum vc_status edit_list(struct vc_ctx *ctx, const struct vc_edit *edit, const char *type, const char *name,
                                const json_t *value, bool is_size, const char *text, size_t n, struct vc_text *out)
{
    if (strcmp(name, "attention_types") == 0) {
        return edit_attention_types(ctx, edit, value, out);
    }
    if (is_size || vc_arch_key_is(name, VC_ARCH_KEY_BY_LAYER)) {
        if (json_array_size(value) != edit->before && json_array_size(value) != 0) {
            return refuse(ctx, name, "has not an entry for each layer");
        }
        vc_json_list_drop(text, n, edit->dropped, edit->n_dropped, out);
        return out->status;
    }
    if (vc_arch_key_is(name, VC_ARCH_KEY_NUMBERS) || vc_arch_key_is(name, VC_ARCH_KEY_NUMBERS_STAY)) {
        return renumber(ctx, edit, name, value, out);
    }
    return may_be_of_layers(edit, type, name, value) ? refuse(ctx, name, "is a list whose meaning is not known")
                                                     : VC_OK;
}

/* ---- the whole ---- */

/* Whether the class makes a list by a rule that reads this key: the list then says what the key would. */
static bool has_rule(const char *type, const char *key)
{
    const struct vc_arch_list *list;
    bool found = false;

    for (size_t i = 0; (list = vc_arch_list(type, i)) != NULL; i++) {
        found = found || strcmp(list->key, key) == 0 || vc_is_one_of(key, list->unless);
    }
    return found;
}

/* The number is how often a pattern repeats, and no list says it: none of config.json, and none that is made. */
static bool is_period(const json_t *object, const char *type, const char *name)
{
    return vc_arch_key_is(name, VC_ARCH_KEY_PERIOD) && !is_there(object, vc_arch_period_list(name)) &&
           !has_rule(type, name);
}

/* Leaving out whole periods leaves the pattern as it is: layers 4 to 7 of a period of 4. */
static enum vc_status refuse_period(struct vc_ctx *ctx, const char *name, uint64_t period)
{
    return vc_fail(ctx, VC_E_UNSUPPORTED,
                   VC_HF_CONFIG_NAME ": of '%s' every layer is what its number says, in a pattern of %" PRIu64
                                     ", so that the layers which stay would become others; leave out whole patterns",
                   name, period);
}

/* Zero, a negative number and an empty list turn such a key off. */
static bool says_nothing(const json_t *value)
{
    return value == NULL || json_is_null(value) || json_is_false(value) ||
           (json_is_integer(value) && json_integer_value(value) <= 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* By the key's meaning: BY_NUMBER cannot be edited; FIRST is a number of layers at the begin, of which as many are left
 * as stay; PERIOD stays, if whole periods go. */
enum vc_status vc_hf_layers_member(struct vc_ctx *ctx, const struct vc_edit *edit, const json_t *object,
                                   const char *type, const char *name, const json_t *value, bool is_size,
                                   const char *text, size_t n, struct vc_text *out)
{
    json_int_t number = json_integer_value(value);

    if (vc_arch_key_is(name, VC_ARCH_KEY_BY_NUMBER)) {
        return says_nothing(value) ? VC_OK : refuse(ctx, name, "speaks of layers by their number");
    }
    if (json_is_array(value)) {
        return edit_list(ctx, edit, type, name, value, is_size, text, n, out);
    }
    if (json_is_string(value) && vc_arch_key_is(name, VC_ARCH_KEY_BY_LAYER)) {
        if (json_string_length(value) != edit->before) {
            return refuse(ctx, name, "has not a character for each layer");
        }
        drop_characters(edit, json_string_value(value), out);
        return out->status;
    }
    if (number > 0 && vc_arch_key_is(name, VC_ARCH_KEY_FIRST) && (uint64_t)number < edit->before) {
        vc_text_add_uint(out, vc_edit_layers_below(edit, (uint64_t)number));
        return out->status;
    }
    if (number > 1 && is_period(object, type, name) && !vc_edit_keeps_period(edit, (uint64_t)number)) {
        return refuse_period(ctx, name, (uint64_t)number);
    }
    if (json_is_string(value) && is_period(object, type, name)) {
        return refuse(ctx, name, "is a pattern that repeats");
    }
    return VC_OK;
}

/* ---- what is not said ---- */

/* Sets the member of the object whose text is `now`. */
static enum vc_status set_member(struct vc_ctx *ctx, const json_t *object, const char *name, const char *value,
                                 struct vc_text *now)
{
    struct vc_text next = {.ctx = ctx};
    const char *key;
    json_t *old;
    size_t index = 0;
    bool found = false;

    json_object_foreach((json_t *)(uintptr_t)object, key, old)
    {
        found = strcmp(key, name) == 0;
        if (found) {
            break;
        }
        index++;
    }
    if (found) {
        vc_json_member_replace(now->data, now->n, index, value, &next);
    } else {
        vc_json_member_append(now->data, now->n, name, value, &next);
    }
    vc_text_release(now);
    *now = next;
    return now->status;
}

/* The layers of another kind come after so many; by the key, or by the class. */
static uint64_t number_of(const json_t *object, const struct vc_arch_list *list)
{
    const json_t *value = list->key[0] != '\0' ? json_object_get(object, list->key) : NULL;

    return json_is_integer(value) && json_integer_value(value) >= 0 ? (uint64_t)json_integer_value(value)
                                                                    : list->number;
}

/* The first of these keys that says something else than nothing or 1; NULL: none. 1 is a pattern of one layer, so all
 * layers are alike. */
static const char *first_said(const json_t *object, const char *keys)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        bool one = json_is_integer(value) && json_integer_value(value) == 1;

        if (vc_is_one_of(key, keys) && !says_nothing(value) && !one) {
            return key;
        }
    }
    return NULL;
}

/* A list that is not there, as transformers would make it for all layers: those that stay have their entries, unless it
 * would make the same of them. `same`: the rule, applied to the layers that stay, gives what it gave them before; then
 * the list need not be written. */
static enum vc_status add_list(struct vc_ctx *ctx, const struct vc_edit *edit, const json_t *object,
                               const struct vc_arch_list *list, struct vc_text *now)
{
    const char *unless = first_said(object, list->unless);
    uint64_t number = number_of(object, list);
    uint64_t after =
        list->rule == VC_ARCH_BEHIND && is_there(object, list->key) ? vc_edit_layers_below(edit, number) : number;
    bool same = true;
    VC_SCOPED_TEXT struct vc_text value = {.ctx = ctx};
    enum vc_status status;
    uint64_t k = 0;

    if (json_is_string(json_object_get(object, list->key))) {
        return refuse(ctx, list->key, "is a pattern that repeats");
    }
    if (unless != NULL || list->rule == VC_ARCH_UNKNOWN) {
        return refuse(ctx, unless != NULL ? unless : list->list,
                      unless != NULL ? "says of what kind layers are by their number"
                                     : "is not there, and transformers makes it by a rule that is not known");
    }
    for (uint64_t i = 0; i < edit->before; i++) {
        bool other = vc_arch_list_other(list, number, i, edit->before);

        if (!vc_edit_drops_layer(edit, i)) {
            same = same && other == vc_arch_list_other(list, after, k, edit->after);
            vc_text_add(&value, "%s%s", k == 0 ? "[" : ", ", other ? list->other : list->usual);
            k++;
        }
    }
    vc_text_add(&value, "]");
    status = value.status;
    if (status == VC_OK && !same) {
        status = set_member(ctx, object, list->list, value.data, now);
    }
    return status;
}

/* Whether another key that is there says it. */
static bool has_instead(const json_t *object, const struct vc_arch_list *list)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (vc_is_one_of(key, list->instead) && is_there(object, key)) {
            return true;
        }
    }
    return false;
}

/* The last layer of some is of one kind, whatever the list says. */
static enum vc_status check_end(struct vc_ctx *ctx, const struct vc_edit *edit, const struct vc_arch_list *list)
{
    VC_REFUSE_IF(list->rule == VC_ARCH_LAST_ENDS && vc_edit_drops_layer(edit, edit->before - 1), ctx, VC_E_UNSUPPORTED,
                 VC_HF_CONFIG_NAME ": the last layer of such a model is %s whatever '%s' says, so that layer "
                                   "%" PRIu64 " has to stay",
                 list->other, list->list, edit->before - 1);
    return VC_OK;
}

/* A key that is not there, by what the class takes. Its value is edited as a member of the text would be, and added
 * only if the edit changes it. */
static enum vc_status add_default(struct vc_ctx *ctx, const struct vc_edit *edit, const json_t *object,
                                  const char *type, const struct vc_arch_default *word, struct vc_text *now)
{
    VC_SCOPED_TEXT struct vc_text name = {.ctx = ctx};
    VC_SCOPED_TEXT struct vc_text fresh = {.ctx = ctx};
    json_auto_t *value = json_loadb(word->value, word->n_value, JSON_DECODE_ANY, NULL);

    vc_text_add_bytes(&name, word->key, word->n_key);
    VC_CALL(name.status);
    if (value != NULL && !is_there(object, name.data)) {
        VC_CALL(
            vc_hf_layers_member(ctx, edit, object, type, name.data, value, false, word->value, word->n_value, &fresh));
        VC_CALL(fresh.status);
        if (fresh.n != 0) {
            VC_CALL(set_member(ctx, object, name.data, fresh.data, now));
        }
    }
    return VC_OK;
}

/* A class makes its lists by rules of numbers, so a folder with fewer layers has to say them. */
enum vc_status vc_hf_layers_unsaid(struct vc_ctx *ctx, const struct vc_edit *edit, const json_t *object,
                                   const char *type, struct vc_text *now)
{
    const struct vc_arch *arch = vc_arch_find(type);
    const struct vc_arch_list *list;
    struct vc_arch_default word;

    VC_REFUSE_IF(vc_arch_by_number(type), ctx, VC_E_UNSUPPORTED,
                 VC_HF_CONFIG_NAME ": layers of '%s' compute by their number, so that none can be left out", type);
    VC_REFUSE_IF(vc_arch_first_stays(type) && vc_edit_drops_layer(edit, 0), ctx, VC_E_UNSUPPORTED,
                 VC_HF_CONFIG_NAME ": the first layer of '%s' is not as the others are, so that it has to stay", type);
    for (size_t i = 0; vc_arch_default(arch, i, &word); i++) {
        VC_CALL(add_default(ctx, edit, object, type, &word, now));
    }
    for (size_t i = 0; (list = vc_arch_list(type, i)) != NULL; i++) {
        VC_CALL(check_end(ctx, edit, list));
        if (!is_there(object, list->list) && !has_instead(object, list)) {
            VC_CALL(add_list(ctx, edit, object, list, now));
        }
    }
    return VC_OK;
}

/* The number of entries counts, not what they say: each feeds the layer of its place. */
enum vc_status vc_hf_layers_fed(struct vc_ctx *ctx, const struct vc_edit *edit, const json_t *vision)
{
    size_t n = json_array_size(json_object_get(vision, "deepstack_visual_indexes"));

    VC_REFUSE_IF(edit->n_dropped != 0 && edit->dropped[0] < n, ctx, VC_E_UNSUPPORTED,
                 VC_HF_CONFIG_NAME ": 'deepstack_visual_indexes' feeds the first %zu layers, so that layer %" PRIu64
                                   " has to stay",
                 n, edit->dropped[0]);
    return VC_OK;
}

/* Behind which layer a feature is taken, for as many layers as are left. Hidden states have numbers 0 (the embedding)
 * to the number of layers, negative ones count from the end: of 24 layers -2 is number 23. Without two of the layers
 * before it, number 21 of 22 is -2 again. */
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

/* Numbers of layers whose output a part for pictures hands on; one of them or a list. */
enum vc_status vc_hf_layers_feature(struct vc_ctx *ctx, const struct vc_edit *edit, const char *name,
                                    const json_t *value, struct vc_text *out)
{
    if (!vc_arch_key_is(name, VC_ARCH_KEY_FEATURE) || json_is_null(value)) {
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

/* "layers.3", and "layers\.3" of a regular expression; "my_layers3" and "layers.norm" are none. '_' before the word
 * counts as a beginning. */
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
