/* vocab_words.c - WordPiece, and Unigram as tokenizer.json has it.
 *
 *     WordPiece   "##ing" goes on with a word, "play" begins one:  llama.cpp has "ing" and "U+2581 play"
 *     Unigram     [["<pad>", 0.0], ["U+2581 the", -3.2], ...], a table of characters in base64 */
#include "formats/gguf_folder/vocab.h"

#include <string.h>

#include "formats/tokenizer/pieces.h"

/* ---- WordPiece ---- */

/* "vocab": {"[PAD]": 0, "the": 1996, "##ing": 2075, ...} */
static enum vc_status read_vocabulary(struct vocab *v)
{
    json_t *vocabulary = json_object_get(json_object_get(v->tokenizer.root, "model"), "vocab");
    const char *text;
    json_t *id;

    json_object_foreach(vocabulary, text, id)
    {
        VC_REFUSE_IF(!json_is_integer(id) || json_integer_value(id) < 0, v->ctx, VC_E_FORMAT,
                     "tokenizer.json: token '%.60s' has no number", text);
        VC_CALL(vc_vocab_set(v, (uint64_t)json_integer_value(id), text, strlen(text), VOCAB_NORMAL, 0));
    }
    return VC_OK;
}

/* vocab.txt: a token a line. The line's number is the id. The last line may have no line feed; \r is dropped. An empty
 * line is a token, too. */
static enum vc_status read_lines(struct vocab *v)
{
    uint64_t id = 0;
    char *text;

    VC_CALL(vc_vocab_text(v, "vocab.txt", VOCAB_FILE, "list of tokens", &text));
    for (char *at = text; at != NULL && *at != '\0'; id++) {
        size_t n = strcspn(at, "\n");
        bool last = at[n] == '\0';
        size_t end = n != 0 && at[n - 1] == '\r' ? n - 1 : n;

        at[end] = '\0';
        if (vc_vocab_set(v, id, at, end, VOCAB_NORMAL, 0) != VC_OK) {
            return vc_context(v->ctx, "vocab.txt");
        }
        at += n + !last;
    }
    return VC_OK;
}

/* Lower case and accents: the normalizer of tokenizer.json, else tokenizer_config.json, else BERT's defaults (lower
 * case; accents go where letters become small). */
enum vc_status vc_vocab_read_words(struct vocab *v)
{
    static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    const json_t *normalizer = json_object_get(v->tokenizer.root, "normalizer");
    const json_t *lower = json_object_get(normalizer, "lowercase");
    const json_t *strip = json_object_get(normalizer, "strip_accents");
    uint64_t id;

    v->kind = "bert";
    v->pre = "default";
    lower = lower != NULL ? lower : json_object_get(v->settings.root, "do_lower_case");
    strip = json_is_boolean(strip) ? strip : json_object_get(v->settings.root, "strip_accents");
    v->lowercase = lower == NULL || json_is_true(lower);
    v->accents = json_is_boolean(strip) ? json_is_true(strip) : v->lowercase;
    if (v->tokenizer.root != NULL) {
        VC_CALL(read_vocabulary(v));
    } else {
        VC_CALL(read_lines(v));
    }
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        if (vc_vocab_find(v, special[i], &id)) {
            v->tokens[id].type = VOCAB_CONTROL;
        }
    }
    return VC_OK;
}

/* U+2581 has 3 bytes in UTF-8. */
enum vc_status vc_vocab_mark_words(struct vocab *v)
{
    for (size_t i = 0; i < v->n; i++) {
        struct vocab_token *t = &v->tokens[i];

        if (t->text == NULL || t->type != VOCAB_NORMAL) {
            continue;
        }
        if (strncmp(t->text, "##", 2) == 0 && t->n > 2) {
            t->text += 2;
            t->n -= 2;
            continue;
        }
        char *marked = vc_arena_printf(v->ctx, v->arena, "\xe2\x96\x81%s", t->text);
        VC_CALL_ALLOC(marked);
        t->text = marked;
        t->n += 3;
    }
    return VC_OK;
}

/* ---- Unigram ---- */

/* A step of the normalizer, or of what cuts the text. Sequences are followed 8 deep. A step that splits at spaces, or
 * joins two and more, means remove_extra_whitespaces. */
static enum vc_status take_step(struct vocab *v, const json_t *step, unsigned depth)
{
    const char *type = json_string_value(json_object_get(step, "type"));
    const char *map = json_string_value(json_object_get(step, "precompiled_charsmap"));
    const char *scheme = json_string_value(json_object_get(step, "prepend_scheme"));
    const char *regex = json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
    const json_t *steps = json_object_get(step, "normalizers");

    steps = steps != NULL ? steps : json_object_get(step, "pretokenizers");
    for (size_t i = 0; i < json_array_size(steps) && depth < 8; i++) {
        VC_CALL(take_step(v, json_array_get(steps, i), depth + 1));
    }
    if (map != NULL) {
        if (vc_base64_decode(v->ctx, v->arena, map, "precompiled_charsmap", &v->charsmap, &v->n_charsmap) != VC_OK) {
            return vc_context(v->ctx, "tokenizer.json");
        }
    }
    if (type != NULL && strcmp(type, "Metaspace") == 0) {
        v->space_prefix =
            scheme != NULL ? strcmp(scheme, "never") != 0 : !json_is_false(json_object_get(step, "add_prefix_space"));
    }
    if ((type != NULL && strcmp(type, "WhitespaceSplit") == 0) || (regex != NULL && strcmp(regex, " {2,}") == 0)) {
        v->spaces = 1;
    }
    return VC_OK;
}

/* The place in the list is the id. */
enum vc_status vc_vocab_read_unigrams(struct vocab *v)
{
    const json_t *model = json_object_get(v->tokenizer.root, "model");
    const json_t *list = json_object_get(model, "vocab");
    const json_t *unknown = json_object_get(model, "unk_id");

    v->kind = "t5";
    v->pre = "default";
    v->has_scores = true;
    v->space_prefix = v->spaces = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);
        const char *text = json_string_value(json_array_get(pair, 0));
        bool is_unknown = json_is_integer(unknown) && (json_int_t)i == json_integer_value(unknown);

        VC_REFUSE_IF(text == NULL || !json_is_number(json_array_get(pair, 1)), v->ctx, VC_E_FORMAT,
                     "tokenizer.json: token %zu has no text, or no score", i);
        VC_CALL(vc_vocab_set(v, i, text, strlen(text), is_unknown ? VOCAB_UNKNOWN : VOCAB_NORMAL,
                             (float)json_number_value(json_array_get(pair, 1))));
    }
    VC_CALL(take_step(v, json_object_get(v->tokenizer.root, "normalizer"), 0));
    return take_step(v, json_object_get(v->tokenizer.root, "pre_tokenizer"), 0);
}
