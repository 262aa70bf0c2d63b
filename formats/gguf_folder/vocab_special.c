/* vocab_special.c - tokens with a meaning: tokens that were added to a model, the begin and the end of a text, and the
 * template of a chat. */
#include "formats/gguf_folder/vocab.h"

#include <stdlib.h>

/* Below the scores of the model's own tokens, as llama.cpp's converter has it; added tokens are found before
 * merging. */
#define ADDED_SCORE    (-1000.0F)
#define MOST_TEMPLATE  ((uint64_t)1 << 20)
#define MOST_TEMPLATES 64

/* ---- added tokens ---- */

/* "<|...|>" and the like: a control token whatever a file says, because some files do not mark such tokens, and
 * llama.cpp would print them. The second form has U+FF5C, the full-width bar of DeepSeek. */
static bool looks_special(const char *text)
{
    static const struct {
        const char *begin, *end;
    } forms[] = {{"<|", "|>"}, {"<\xef\xbd\x9c", "\xef\xbd\x9c>"}, {"<unused", ">"}};
    size_t n = strlen(text);

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        size_t begin = strlen(forms[i].begin);
        size_t end = strlen(forms[i].end);

        if (n >= begin + end && strncmp(text, forms[i].begin, begin) == 0 &&
            strcmp(text + n - end, forms[i].end) == 0) {
            return true;
        }
    }
    return strcmp(text, "<pad>") == 0 || strcmp(text, "<mask>") == 0;
}

/* U+2581 as spaces: SentencePiece writes them so, a text has them so. Returns a copy in the arena, NULL if memory is
 * short. */
static const char *with_spaces(struct vocab *v, const char *text)
{
    char *copy = vc_arena_copy(v->ctx, v->arena, text, strlen(text));
    char *to = copy;

    for (const char *at = text; copy != NULL && *at != '\0';) {
        bool space = strncmp(at, "\xe2\x96\x81", 3) == 0;

        *to++ = space ? ' ' : *at;
        at += space ? 3 : 1;
    }
    if (copy != NULL) {
        *to = '\0';
    }
    return copy;
}

/* The first file that lists a token tells what it is. A token whose row the embedding has not is counted, and told in a
 * note. A byte and the unknown token keep their types. */
static enum vc_status add(struct vocab *v, json_int_t id, const char *text, bool special)
{
    bool control = special || looks_special(text);

    if (id < 0 || (uint64_t)id >= v->n) {
        v->n_beyond++;
        return VC_OK;
    }
    struct vocab_token *t = &v->tokens[id];
    if (t->added) {
        return VC_OK;
    }
    if (v->has_scores && !control) {
        VC_CALL_ALLOC(text = with_spaces(v, text));
    }
    if (t->type != VOCAB_UNKNOWN && t->type != VOCAB_BYTE) {
        t->type = control ? VOCAB_CONTROL : VOCAB_USER;
    }
    *t = (struct vocab_token){
        .text = text, .n = strlen(text), .type = t->type, .score = v->has_scores ? ADDED_SCORE : 0, .added = true};
    return VC_OK;
}

/* {"id": 5, "content": "<s>", "special": true}; id -1: it is in there. */
static enum vc_status add_entry(struct vocab *v, json_int_t id, const json_t *entry)
{
    const char *text = json_string_value(json_object_get(entry, "content"));
    const json_t *number = json_object_get(entry, "id");

    id = id >= 0 ? id : json_is_integer(number) ? json_integer_value(number) : -1;
    VC_REFUSE_IF(text == NULL || text[0] == '\0' || id < 0, v->ctx, VC_E_FORMAT,
                 "an added token has no text, or no number");
    return add(v, id, text, json_is_true(json_object_get(entry, "special")));
}

/* tokenizer.json comes first, then tokenizer_config.json, then the older added_tokens.json, which says no more than a
 * number: {"<mask>": 50264}. */
enum vc_status vc_vocab_add(struct vocab *v)
{
    const json_t *list = json_object_get(v->tokenizer.root, "added_tokens");
    const char *name;
    json_t *value;

    for (size_t i = 0; i < json_array_size(list); i++) {
        VC_CALL(add_entry(v, -1, json_array_get(list, i)));
    }
    json_object_foreach(json_object_get(v->settings.root, "added_tokens_decoder"), name, value)
    {
        VC_CALL(add_entry(v, strtol(name, NULL, 10), value));
    }
    json_object_foreach(v->added.root, name, value)
    {
        VC_REFUSE_IF(!json_is_integer(value) || name[0] == '\0', v->ctx, VC_E_FORMAT,
                     "added_tokens.json: an added token has no text, or no number");
        VC_CALL(add(v, json_integer_value(value), name, false));
    }
    if (v->n_beyond != 0) {
        VC_CALL(vc_model_add_fact(v->ctx, v->model, VC_FACT_NOTE,
                                  "%zu added tokens have no row in the embedding, and are left out", v->n_beyond));
    }
    return VC_OK;
}

/* ---- ids ---- */

/* "bos_token": a text, or an object with one. */
static const char *text_of(const struct vocab *v, const char *key)
{
    const json_t *value = json_object_get(v->settings.root, key);

    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

/* The member as an id below `rows`; of a list ("eos_token_id": [1, 106]) the first. */
static bool id_in(const json_t *object, const char *key, uint64_t rows, uint64_t *id)
{
    const json_t *value = json_object_get(object, key);

    value = json_is_array(value) ? json_array_get(value, 0) : value;
    if (!json_is_integer(value) || json_integer_value(value) < 0 || (uint64_t)json_integer_value(value) >= rows) {
        return false;
    }
    *id = (uint64_t)json_integer_value(value);
    return true;
}

/* word: "bos". What the tokenizer says comes before what the model says. */
static bool find_id(struct vocab *v, const char *word, uint64_t *id)
{
    char text_key[32], id_key[32];

    (void)snprintf(text_key, sizeof text_key, "%s_token", word);
    (void)snprintf(id_key, sizeof id_key, "%s_token_id", word);
    const char *text = text_of(v, text_key);
    return (text != NULL && vc_vocab_find(v, text, id)) || id_in(v->config->part, id_key, v->n, id) ||
           id_in(v->config->root, id_key, v->n, id) || id_in(v->generation.root, id_key, v->n, id);
}

/* ---- what is put around a text ---- */

/* What goes around a text. known: a step says it, so that "add_bos_token" is not asked; between: a separator stands
 * between two texts. */
struct around {
    bool known, begin, end, between;
    const char *begin_text, *end_text; /* NULL: not said */
};

/* Of {"SpecialToken": {"id": "<s>"}}; NULL: it is the text itself. */
static const char *template_text(const json_t *entry)
{
    return json_string_value(json_object_get(json_object_get(entry, "SpecialToken"), "id"));
}

/* A step of "post_processor", or a sequence of such.
 *
 *     TemplateProcessing   single: [SpecialToken <s>, Sequence A, SpecialToken </s>]    begin and end by its ends
 *     BertProcessing, RobertaProcessing   cls: ["[CLS]", 101], sep: ["[SEP]", 102]      both
 *     ByteLevel                                                                         neither
 *
 * depth: a file may nest its sequences as deep as it likes. */
static void look_at_step(const json_t *step, struct around *a, unsigned depth)
{
    const char *type = json_string_value(json_object_get(step, "type"));
    const json_t *single = json_object_get(step, "single");
    const json_t *steps = json_object_get(step, "processors");
    size_t n = json_array_size(single);

    for (size_t i = 0; i < json_array_size(steps) && depth < 8; i++) {
        look_at_step(json_array_get(steps, i), a, depth + 1);
    }
    if (type == NULL) {
        return;
    }
    if (strcmp(type, "TemplateProcessing") == 0) {
        a->known = true;
        a->begin_text = template_text(json_array_get(single, 0));
        a->end_text = n > 1 ? template_text(json_array_get(single, n - 1)) : NULL;
        a->begin = a->begin_text != NULL;
        a->end = a->end_text != NULL;
    } else if (strcmp(type, "RobertaProcessing") == 0 || strcmp(type, "BertProcessing") == 0) {
        a->known = a->begin = a->end = true;
        a->between = type[0] == 'R';
        a->begin_text = json_string_value(json_array_get(json_object_get(step, "cls"), 0));
        a->end_text = json_string_value(json_array_get(json_object_get(step, "sep"), 0));
    } else if (strcmp(type, "ByteLevel") == 0) {
        a->known = true;
    }
}

/* What a text begins and ends with is the begin and the end, whatever other files say. llama.cpp takes a bert's [CLS]
 * and [SEP] for begin and end. "seperator" is how the key is spelled. */
static void put_ids(struct vocab *v, const struct around *a, struct llm_pairs *pairs)
{
    static const struct {
        const char *key, *word;
    } ids[] = {{"tokenizer.ggml.bos_token_id", "bos"},     {"tokenizer.ggml.eos_token_id", "eos"},
               {"tokenizer.ggml.unknown_token_id", "unk"}, {"tokenizer.ggml.seperator_token_id", "sep"},
               {"tokenizer.ggml.padding_token_id", "pad"}, {"tokenizer.ggml.cls_token_id", "cls"},
               {"tokenizer.ggml.mask_token_id", "mask"}};
    bool bert = strcmp(v->kind, "bert") == 0;

    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        const char *word = bert && i < 2 ? (i == 0 ? "cls" : "sep") : ids[i].word;
        const char *text = i == 0 ? a->begin_text : i == 1 ? a->end_text : NULL;
        uint64_t id;

        if ((text != NULL && vc_vocab_find(v, text, &id)) || find_id(v, word, &id)) {
            vc_llm_put_u32(pairs, ids[i].key, id);
        }
    }
}

/* Where no step says it, tokenizer_config.json does; where that is silent, SentencePiece's BPE begins with bos, Unigram
 * ends with eos, and WordPiece has both. */
static void put_around(struct vocab *v, struct llm_pairs *pairs)
{
    const json_t *begin = json_object_get(v->settings.root, "add_bos_token");
    const json_t *end = json_object_get(v->settings.root, "add_eos_token");
    struct around a = {.known = false};

    look_at_step(json_object_get(v->tokenizer.root, "post_processor"), &a, 0);
    if (!a.known) {
        a.begin = json_is_boolean(begin) ? json_is_true(begin) : vc_is_one_of(v->kind, "llama|bert");
        a.end = json_is_boolean(end) ? json_is_true(end) : vc_is_one_of(v->kind, "t5|bert");
    }
    a.begin = a.begin || strcmp(v->kind, "gemma4") == 0; /* llama.cpp takes nothing else */
    put_ids(v, &a, pairs);
    vc_llm_put_bool(pairs, "tokenizer.ggml.add_bos_token", a.begin);
    vc_llm_put_bool(pairs, "tokenizer.ggml.add_eos_token", a.end);
    if (a.between) {
        vc_llm_put_bool(pairs, "tokenizer.ggml.add_sep_token", true);
    }
}

/* ---- the template of a chat ---- */

/* A list of {"name", "template"}: "default" is the one that is used. The others get keys with their names, and one key
 * lists these names. */
static enum vc_status put_templates(struct vocab *v, const json_t *list, struct llm_pairs *pairs)
{
    size_t n = 0;

    VC_REFUSE_IF(json_array_size(list) > MOST_TEMPLATES, v->ctx, VC_E_FORMAT,
                 "tokenizer_config.json: it has more than %d chat templates", MOST_TEMPLATES);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(list, i), "name"));
        const char *text = json_string_value(json_object_get(json_array_get(list, i), "template"));
        bool is_default = name != NULL && strcmp(name, "default") == 0;
        const char *key = "tokenizer.chat_template";

        VC_REFUSE_IF(name == NULL || text == NULL, v->ctx, VC_E_FORMAT,
                     "tokenizer_config.json: chat template %zu has no name, or no text", i);
        if (!is_default) {
            VC_CALL_ALLOC(key = vc_arena_printf(v->ctx, v->arena, "tokenizer.chat_template.%.200s", name));
        }
        vc_llm_put_text(pairs, key, text);
        n += !is_default;
    }
    if (n != 0) {
        vc_llm_put_array(pairs, "tokenizer.chat_templates", GGUF_STRING, n);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(list, i), "name"));

        if (strcmp(name, "default") != 0) {
            vc_llm_element_text(pairs, name, strlen(name));
        }
    }
    return VC_OK;
}

/* chat_template.jinja, tokenizer_config.json, chat_template.json: the first that has one. */
static enum vc_status put_template(struct vocab *v, struct llm_pairs *pairs)
{
    const json_t *said = json_object_get(v->settings.root, "chat_template");
    const char *text;
    char *own;

    VC_CALL(vc_vocab_text(v, "chat_template.jinja", MOST_TEMPLATE, "template", &own)); /* as transformers 5 has it */
    text = own != NULL ? own : json_string_value(said);
    if (text == NULL && json_is_array(said)) {
        return put_templates(v, said, pairs);
    }
    text = text != NULL ? text : json_string_value(json_object_get(v->template_file.root, "chat_template"));
    if (text != NULL) {
        vc_llm_put_text(pairs, "tokenizer.chat_template", text);
    }
    return VC_OK;
}

enum vc_status vc_vocab_put_special(struct vocab *v, struct llm_pairs *pairs)
{
    put_around(v, pairs);
    return put_template(v, pairs);
}
