/* vocab_back.c - the files of a tokenizer from the vocabulary of a GGUF model.
 *
 *     gpt2     tokenizer.json: tokens, merges, the regular expressions of tokenizer.ggml.pre, what goes in front and behind
 *     llama    tokenizer.model: SentencePiece's protobuf (vocab_pieces.c has its fields), pieces with scores and types
 *     both     tokenizer_config.json: special tokens, the template of a chat; generation_config.json: where texts end
 *
 * llama.cpp normalizes no text and strips no spaces around tokens, so no such step comes back.
 *
 * The members of tokenizer.json stand in the order of tokenizers' own files. jansson's failures are collected in
 * b->failed, and refused at the end of vc_back_vocab. */

#include "core/base/checked.h"
#include "formats/gguf_folder/llm_back.h"
#include "formats/gguf_folder/vocab.h"
#include "formats/huggingface/infolder.h"
#include "formats/io/protobuf_wire.h"

#define PREFIX "tokenizer.ggml."

struct back_vocab {
    struct llm_back *b;
    const json_t *tokens, *types, *scores;
    const char *begin, *end; /* what a text begins and ends with; NULL: nothing */
    uint64_t begin_id, end_id;
};

/* Every refusal names the option that leaves the tokenizer out: the weights can still be converted. */
static enum vc_status refuse(const struct back_vocab *v, const char *key, const char *why, const char *what)
{
    return vc_fail(v->b->ctx, VC_E_UNSUPPORTED, "metadata key '" PREFIX "%s': %s%.60s; %s leaves the tokenizer out",
                   key, why, what, vc_option(v->b->ctx, "gguf_no_vocab"));
}

/* NULL behind the last, or where an entry is no text; check_lists refuses such a file before others ask. */
static const char *token(const struct back_vocab *v, size_t i)
{
    return json_string_value(json_array_get(v->tokens, i));
}

static json_int_t type_of(const struct back_vocab *v, size_t i)
{
    return v->types != NULL ? json_integer_value(json_array_get(v->types, i)) : VOCAB_NORMAL;
}

/* Tokens that are found in a text whatever is around them. */
static bool is_added(const struct back_vocab *v, size_t i)
{
    return (type_of(v, i) == VOCAB_CONTROL || type_of(v, i) == VOCAB_USER) && token(v, i)[0] != '\0';
}

/* As many entries as the embedding has rows, texts that are different, types that there are. */
static enum vc_status check_lists(struct back_vocab *v)
{
    size_t rows = (size_t)json_integer_value(json_object_get(v->b->config, "vocab_size"));
    json_t *seen = json_object();
    size_t i = 0;

    while (i < json_array_size(v->tokens) && token(v, i) != NULL && json_object_get(seen, token(v, i)) == NULL &&
           type_of(v, i) >= VOCAB_NORMAL && type_of(v, i) <= VOCAB_BYTE &&
           json_object_set_new(seen, token(v, i), json_null()) == 0) {
        i++;
    }
    json_decref(seen);
    return i == rows && i == json_array_size(v->tokens)
               ? VC_OK
               : refuse(v, "tokens", "expected a text of its own, and a type, for each row of the embedding", "");
}

/* The token that a text begins (ends) with; NULL: none. otherwise: what llama.cpp takes where the file has no such
 * key. */
static const char *around(const struct back_vocab *v, const char *key, const char *word, bool otherwise, uint64_t *id)
{
    const json_t *adds = vc_back_find(v->b, key);

    return vc_back_token(v->b, word, id) && (adds != NULL ? json_is_true(adds) : otherwise) ? token(v, *id) : NULL;
}

/* An entry of "added_tokens". normalized false: the token is looked for in the text as it is written. */
static json_t *describe(const struct back_vocab *v, size_t i)
{
    return json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (int)i, "content", token(v, i), "single_word", 0,
                     "lstrip", 0, "rstrip", 0, "normalized", 0, "special", type_of(v, i) == VOCAB_CONTROL);
}

/* The text of a special token; NULL: the file says none. */
static const char *special(const struct back_vocab *v, const char *word)
{
    uint64_t id;

    return vc_back_token(v->b, word, &id) ? token(v, id) : NULL;
}

/* tokenizer_config.json. Its added_tokens_decoder has the ids as keys, so they are taken out of the entries.
 * PreTrainedTokenizerFast reads tokenizer.json as it stands; LlamaTokenizer reads tokenizer.model. */
static enum vc_status add_settings(struct back_vocab *v, bool pieces)
{
    json_t *list = json_object();
    json_t *prefix = json_boolean(!json_is_false(vc_back_find(v->b, PREFIX "add_space_prefix")));
    char number[24];

    for (size_t i = 0; i < json_array_size(v->tokens); i++) {
        if (is_added(v, i)) {
            (void)snprintf(number, sizeof number, "%zu", i);
            vc_back_set(v->b, list, number, describe(v, i));
            (void)json_object_del(json_object_get(list, number), "id");
        }
    }
    return vc_back_add_json(
        v->b,
        json_pack("{s:o, s:s, s:b, s:b, s:b, s:O, s:s*, s:s*, s:s*, s:s*, s:s*, s:s*, s:o*, s:o*}",
                  "added_tokens_decoder", list, "tokenizer_class",
                  pieces ? "LlamaTokenizer" : "PreTrainedTokenizerFast", "add_bos_token", v->begin != NULL,
                  "add_eos_token", v->end != NULL, "clean_up_tokenization_spaces", 0, "model_max_length",
                  json_object_get(v->b->config, "max_position_embeddings"), "bos_token", special(v, "bos"), "eos_token",
                  special(v, "eos"), "unk_token", special(v, "unknown"), "pad_token", special(v, "padding"),
                  "mask_token", special(v, "mask"), "chat_template", vc_back_text(v->b, "tokenizer.chat_template"),
                  "legacy", pieces ? json_true() : NULL, "add_prefix_space", pieces ? prefix : NULL),
        "tokenizer_config.json");
}

/* generation_config.json: where generated texts begin and end. A chat ends at the end of a turn ("eot"), too. */
static enum vc_status add_generation(struct llm_back *b)
{
    json_t *generation = json_pack("{s:O, s:O, s:O}", "bos_token_id", json_object_get(b->config, "bos_token_id"),
                                   "eos_token_id", json_object_get(b->config, "eos_token_id"), "pad_token_id",
                                   json_object_get(b->config, "pad_token_id"));
    uint64_t id;

    if (vc_back_token(b, "eot", &id)) {
        vc_back_set(b, generation, "eos_token_id",
                    json_pack("[O, I]", json_object_get(b->config, "eos_token_id"), (json_int_t)id));
    }
    return vc_back_add_json(b, generation, "generation_config.json");
}

/* ---- byte-level BPE ---- */

/* {"SpecialToken": {"id": "<s>", "type_id": 0}}; NULL, which json_pack's o* leaves out, without an id. */
static json_t *template_part(const char *kind, const char *id, int type_id)
{
    return id != NULL ? json_pack("{s:{s:s, s:i}}", kind, "id", id, "type_id", type_id) : NULL;
}

/* A text, number 0 or 1 of a pair, with what goes around it. */
static json_t *sequence(const struct back_vocab *v, int i)
{
    return json_pack("[o*, o, o*]", template_part("SpecialToken", v->begin, i),
                     template_part("Sequence", i == 0 ? "A" : "B", i), template_part("SpecialToken", v->end, i));
}

/* TemplateProcessing, with and without tokens around a text: without any it does nothing. */
static json_t *post_processor(struct back_vocab *v)
{
    const char *const texts[] = {v->begin, v->end};
    const uint64_t numbers[] = {v->begin_id, v->end_id};
    json_t *ids = json_object();
    json_t *pair = sequence(v, 0);
    json_t *second = sequence(v, 1);

    for (size_t i = 0; i < 2; i++) {
        if (texts[i] != NULL) {
            vc_back_set(
                v->b, ids, texts[i],
                json_pack("{s:s, s:[I], s:[s]}", "id", texts[i], "ids", (json_int_t)numbers[i], "tokens", texts[i]));
        }
    }
    (void)json_array_extend(pair, second);
    json_decref(second);
    return json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", sequence(v, 0), "pair", pair,
                     "special_tokens", ids);
}

/* Tokenizers load a merge only where its parts and what they give are tokens. Words are tried from byte 1 on for the
 * space, because a part may begin with one. */
static enum vc_status check_merges(struct back_vocab *v, const json_t *merges, const json_t *vocabulary)
{
    bool known = json_is_array(merges);
    VC_SCOPED_TEXT struct vc_text joined;
    size_t i;
    const json_t *merge;

    vc_text_init(&joined, v->b->ctx);
    json_array_foreach(merges, i, merge)
    {
        const char *text = json_string_value(merge);
        const char *space = text != NULL && text[0] != '\0' ? strchr(text + 1, ' ') : NULL;

        joined.n = 0;
        if (space != NULL) {
            vc_text_add(&joined, "%.*s%s", (int)(space - text), text, space + 1);
        } else {
            vc_text_add(&joined, "%s", ""); /* the text is not NULL */
        }
        VC_CALL(joined.status);
        known = known && space != NULL && json_object_getn(vocabulary, text, (size_t)(space - text)) != NULL &&
                json_object_get(vocabulary, space + 1) != NULL &&
                json_object_getn(vocabulary, joined.data, joined.n) != NULL;
    }
    return known ? VC_OK : refuse(v, "merges", "expected pairs of tokens, and what each gives as a token", "");
}

/* Rows that no token has are in no vocabulary. tokenizer.json. `pre` of the glm vocabularies ("glm4") begins with g:
 * llama.cpp puts no bos before their texts, and does before the texts of llama-bpe, the other vocabulary with
 * ignore_merges. */
static enum vc_status add_bytes(struct back_vocab *v)
{
    const char *pre = vc_back_text(v->b, PREFIX "pre");
    json_t *merges = vc_back_find(v->b, PREFIX "merges");
    json_auto_t *vocabulary = json_object();
    json_auto_t *added = json_array();
    json_auto_t *steps = NULL;
    bool ignores_merges = false;

    if (pre == NULL || !vc_vocab_pre_steps(pre, &steps, &ignores_merges)) {
        VC_CALL(refuse(v, "pre", "it is not known which regular expressions llama.cpp calls ",
                       pre != NULL ? pre : "nothing"));
    }
    v->begin = around(v, PREFIX "add_bos_token", "bos", ignores_merges && pre[0] != 'g', &v->begin_id);
    v->end = around(v, PREFIX "add_eos_token", "eos", false, &v->end_id);
    for (size_t i = 0; i < json_array_size(v->tokens); i++) {
        if (type_of(v, i) != VOCAB_UNUSED) {
            vc_back_set(v->b, vocabulary, token(v, i), json_integer((json_int_t)i));
        }
        if (is_added(v, i)) {
            (void)json_array_append_new(added, describe(v, i));
        }
    }
    VC_CALL(check_merges(v, merges, vocabulary));
    json_t *all =
        json_pack("{s:s, s:n, s:n, s:O, s:n, s:O, s:o, s:{s:s, s:b, s:b, s:b}, s:{s:s, s:n, s:n, s:n, s:n, s:b, s:b, "
                  "s:b, s:O, s:O}}",
                  "version", "1.0", "truncation", "padding", "added_tokens", added, "normalizer", "pre_tokenizer",
                  steps, "post_processor", post_processor(v), "decoder", "type", "ByteLevel", "add_prefix_space", 1,
                  "trim_offsets", 1, "use_regex", 1, "model", "type", "BPE", "dropout", "unk_token",
                  "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges",
                  ignores_merges, "vocab", vocabulary, "merges", merges);
    VC_CALL(vc_back_add_json(v->b, all, "tokenizer.json"));
    return add_settings(v, false);
}

/* ---- SentencePiece ---- */

/* A space of an added token is U+2581 in a piece. Writes the message of one piece over *piece. */
static void put_piece(const struct back_vocab *v, size_t i, json_int_t type, struct vc_text *piece)
{
    float score = (float)json_number_value(json_array_get(v->scores, i));
    struct vc_text text;
    uint32_t bits;

    vc_text_init(&text, piece->ctx);
    for (const char *at = token(v, i); *at != '\0'; at++) {
        bool space = *at == ' ' && type == VOCAB_USER;

        vc_text_add_bytes(&text, space ? "\xe2\x96\x81" : at, space ? 3 : 1);
    }
    memcpy(&bits, &score, sizeof bits);
    piece->n = 0;
    vc_wire_put_bytes(piece, 1, text.n != 0 ? text.data : "", text.n);
    vc_wire_put_tag(piece, 2, VC_WIRE_FIXED32);
    vc_text_add_le(piece, bits, 4);
    vc_wire_put_int(piece, 3, (uint64_t)type);
    piece->status = text.status != VC_OK ? text.status : piece->status;
    vc_text_release(&text);
}

/* tokenizer.model, by the numbers of sentencepiece_model.proto: trainer 3 kind, 4 size, 35 byte_fallback, 40 to 43 ids,
 * 45 to 48 texts; normalizer 3 add_dummy_prefix, 4 remove_extra_whitespaces, 5 escape_whitespaces. SentencePiece wants
 * exactly one unknown piece: others become unused. */
static enum vc_status add_pieces(struct back_vocab *v)
{
    static const struct {
        const char *word;
        unsigned id, text; /* fields of the trainer */
    } special[] = {{"unknown", 40, 45}, {"bos", 41, 46}, {"eos", 42, 47}, {"padding", 43, 48}};
    bool has_prefix = !json_is_false(vc_back_find(v->b, PREFIX "add_space_prefix"));
    size_t n_bytes = 0;
    uint64_t id;
    VC_SCOPED_TEXT struct vc_text all;
    VC_SCOPED_TEXT struct vc_text part;

    vc_text_init(&all, v->b->ctx);
    vc_text_init(&part, v->b->ctx);
    for (size_t i = 0; i < json_array_size(v->tokens); i++) {
        bool is_unknown = (vc_back_token(v->b, "unknown", &id) ? id : 0) == i; /* llama.cpp takes the first */
        json_int_t type = is_unknown ? VOCAB_UNKNOWN : type_of(v, i) == VOCAB_UNKNOWN ? VOCAB_UNUSED : type_of(v, i);

        put_piece(v, i, type, &part);
        vc_wire_put_bytes(&all, 1, part.data, part.n);
        n_bytes += type_of(v, i) == VOCAB_BYTE;
    }
    if (json_array_size(v->scores) != json_array_size(v->tokens)) {
        VC_CALL(refuse(v, "scores", "SentencePiece wants a score for each token", ""));
    }
    part.n = 0;
    vc_wire_put_int(&part, 3, 2); /* BPE */
    vc_wire_put_int(&part, 4, json_array_size(v->tokens));
    vc_wire_put_int(&part, 35, n_bytes != 0);
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        if (vc_back_token(v->b, special[i].word, &id)) {
            vc_wire_put_int(&part, special[i].id, id);
            vc_wire_put_string(&part, special[i].text, token(v, id));
        }
    }
    vc_wire_put_bytes(&all, 2, part.data, part.n);
    part.n = 0;
    vc_wire_put_int(&part, 3, has_prefix);
    vc_wire_put_int(&part, 4, 0); /* spaces stay as they are, */
    vc_wire_put_int(&part, 5, 1); /* and are U+2581 in pieces */
    vc_wire_put_bytes(&all, 3, part.data, part.n);
    VC_CALL(part.status);
    VC_CALL(all.status);
    v->begin = around(v, PREFIX "add_bos_token", "bos", true, &v->begin_id);
    v->end = around(v, PREFIX "add_eos_token", "eos", false, &v->end_id);
    VC_CALL(vc_infolder_add_made(v->b->ctx, v->b->model->folder, "tokenizer.model", all.data, all.n));
    return add_settings(v, true);
}

/* bert, t5 and gemma4 have no way back. */
enum vc_status vc_back_vocab(struct llm_back *b)
{
    const char *kind = vc_back_text(b, PREFIX "model");
    struct back_vocab v = {.b = b,
                           .tokens = vc_back_find(b, PREFIX "tokens"),
                           .types = vc_back_find(b, PREFIX "token_type"),
                           .scores = vc_back_find(b, PREFIX "scores")};

    if (kind == NULL || strcmp(kind, "no_vocab") == 0) {
        return vc_model_add_fact(b->ctx, b->model, VC_FACT_NOTE,
                                 "the file has no vocabulary: the folder has no files of a tokenizer");
    }
    if (strcmp(kind, "gpt2") != 0 && strcmp(kind, "llama") != 0) {
        return refuse(&v, "model", "expected gpt2 or llama, found ", kind);
    }
    VC_CALL(check_lists(&v));
    VC_CALL(add_generation(b));
    if (kind[0] == 'g') {
        VC_CALL(add_bytes(&v));
    } else {
        VC_CALL(add_pieces(&v));
    }
    return b->failed ? vc_fail(b->ctx, VC_E_NOMEM, "cannot allocate memory for the tokenizer") : VC_OK;
}
