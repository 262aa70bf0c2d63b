/* vocab_pieces.c - SentencePiece's vocabularies: the protobuf ModelProto (formats/tokenizer/pieces.h, whose types have the
 * numbers that GGUF has), and BPE with byte fallback in tokenizer.json. */
#include "formats/gguf_folder/vocab.h"

#include "formats/tokenizer/pieces.h"

static enum vc_status take(void *user, uint64_t number, const struct vc_piece *piece)
{
    return vc_vocab_set(user, number, piece->text, piece->n, piece->type, piece->score);
}

/* BPE with a table of characters is refused: llama.cpp would tokenize such texts otherwise. */
enum vc_status vc_vocab_read_pieces(struct vocab *v, const char *path)
{
    struct vc_piece_rules rules;

    v->has_scores = true;
    v->pre = "default";
    VC_CALL(vc_pieces_read(v->ctx, v->arena, path, &rules, take, v));
    v->charsmap = rules.charsmap;
    v->n_charsmap = rules.n_charsmap;
    v->space_prefix = rules.space_prefix;
    v->spaces = rules.joins_spaces;
    v->kind = rules.kind == VC_PIECES_BPE ? "llama" : "t5";
    VC_REFUSE_IF(rules.kind == VC_PIECES_BPE && v->n_charsmap != 0, v->ctx, VC_E_UNSUPPORTED,
                 "%s: replaces characters of a text (precompiled_charsmap), which llama.cpp does not with BPE",
                 strrchr(path, '/') + 1);
    return VC_OK;
}

/* ---- tokenizer.json ---- */

/* "<0x0A>" The token of a byte. */
static bool is_byte(const char *text)
{
    return strlen(text) == 6 && strncmp(text, "<0x", 3) == 0 && text[5] == '>' &&
           strspn(text + 3, "0123456789ABCDEF") == 2;
}

/* The parts of a merge, "left right" or ["left", "right"], joined in `to`; false: it is no merge. */
static bool join(const json_t *merge, struct vc_text *to)
{
    const char *left = json_string_value(json_array_get(merge, 0));
    const char *right = json_string_value(json_array_get(merge, 1));
    const char *both = json_string_value(merge);
    const char *space = both != NULL ? strchr(both, ' ') : NULL;

    to->n = 0;
    if (left != NULL && right != NULL) {
        vc_text_add(to, "%s%s", left, right);
    } else if (space != NULL) {
        vc_text_add(to, "%.*s%s", (int)(space - both), both, space + 1);
    }
    return to->n != 0;
}

/* llama.cpp merges what gives the token of the highest score: the first merge has to have the highest. Merge i gets
 * score -i. Backwards, so that of several merges that give one token the first wins. */
static enum vc_status score(struct vocab *v, const json_t *vocabulary, const json_t *merges)
{
    VC_SCOPED_TEXT struct vc_text text = {.ctx = v->ctx};

    for (size_t i = json_array_size(merges); i-- > 0;) {
        bool is = join(json_array_get(merges, i), &text);
        const json_t *id = is ? json_object_get(vocabulary, text.data) : NULL;

        VC_CALL(text.status);
        if (!json_is_integer(id) || (uint64_t)json_integer_value(id) >= v->n) {
            VC_CALL(vc_fail(v->ctx, VC_E_FORMAT, "tokenizer.json: merge %zu gives no token", i));
        }
        v->tokens[json_integer_value(id)].score = -(float)i;
    }
    return VC_OK;
}

/* Whether a step of the normalizer puts a space in front of a text. A step Prepend, alone or in a sequence; else
 * Metaspace's "prepend_scheme", or its older "add_prefix_space". */
static bool puts_space(const json_t *tokenizer)
{
    const json_t *normalizer = json_object_get(tokenizer, "normalizer");
    const json_t *pre = json_object_get(tokenizer, "pre_tokenizer");
    const json_t *steps = json_object_get(normalizer, "normalizers");
    const char *scheme = json_string_value(json_object_get(pre, "prepend_scheme"));
    const char *type = json_string_value(json_object_get(normalizer, "type"));
    bool puts = type != NULL && strcmp(type, "Prepend") == 0;

    for (size_t i = 0; i < json_array_size(steps); i++) {
        type = json_string_value(json_object_get(json_array_get(steps, i), "type"));
        puts = puts || (type != NULL && strcmp(type, "Prepend") == 0);
    }
    return puts ||
           (scheme != NULL ? strcmp(scheme, "never") != 0 : json_is_true(json_object_get(pre, "add_prefix_space")));
}

/* BPE over characters with tokens for bytes. Tokens that no merge gives have the lowest score. vocabulary: {"text":
 * id}. */
enum vc_status vc_vocab_read_merged(struct vocab *v)
{
    const json_t *model = json_object_get(v->tokenizer.root, "model");
    json_t *vocabulary = json_object_get(model, "vocab");
    const json_t *merges = json_object_get(model, "merges");
    const char *unknown = json_string_value(json_object_get(model, "unk_token"));
    float last = -(float)json_array_size(merges);
    const char *text;
    json_t *id;

    v->kind = "llama";
    v->pre = "default";
    v->has_scores = true;
    v->space_prefix = puts_space(v->tokenizer.root);
    if (strcmp(v->family->gguf, "gemma4") == 0) { /* merged in the order of the list */
        v->kind = v->pre = "gemma4";
        v->merges = merges;
    }
    json_object_foreach(vocabulary, text, id)
    {
        int32_t type = is_byte(text)                                   ? VOCAB_BYTE
                       : unknown != NULL && strcmp(text, unknown) == 0 ? VOCAB_UNKNOWN
                                                                       : VOCAB_NORMAL;

        VC_REFUSE_IF(!json_is_integer(id) || json_integer_value(id) < 0, v->ctx, VC_E_FORMAT,
                     "tokenizer.json: token '%.60s' has no number", text);
        VC_CALL(vc_vocab_set(v, (uint64_t)json_integer_value(id), text, strlen(text), type, last));
    }
    return score(v, vocabulary, merges);
}
