/* vocab_back.c - the files of a tokenizer from the vocabulary of a GGUF model.
 *
 *     gpt2     tokenizer.json: tokens, merges, the regular expressions of tokenizer.ggml.pre, what goes in front and behind
 *     gemma4   the same, with U+2581 for spaces, and bytes
 *     bert     the same of WordPiece: "ing" is "##ing" again, "U+2581 play" is "play"; lower case and accents
 *     t5       the same of Unigram: scores, the table of characters
 *     llama    tokenizer.model: SentencePiece's protobuf (vocab_pieces.c has its fields), pieces with scores and types
 *     all      tokenizer_config.json: special tokens, the template of a chat; generation_config.json: where texts end
 *
 * llama.cpp normalizes no text of a byte-level BPE and strips no spaces around tokens, so no such step comes back.
 *
 * The members of tokenizer.json stand in the order of tokenizers' own files. jansson's failures are collected in
 * b->failed, and refused at the end of vc_back_vocab. */

#include "core/base/checked.h"
#include "formats/gguf_folder/llm_back.h"
#include "formats/gguf_folder/vocab.h"
#include "formats/huggingface/infolder.h"
#include "formats/io/protobuf_wire.h"
#include "formats/tokenizer/pieces.h"

#define PREFIX "tokenizer.ggml."
#define SPACE  "\xe2\x96\x81" /* U+2581, which stands for one */

struct back_vocab {
    struct llm_back *b;
    const char *kind; /* tokenizer.ggml.model */
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

/* The same of what stands around a text: a BERT has it where the file says none. */
static const char *special_of_bert(const struct back_vocab *v, const char *word, const char *text)
{
    return special(v, word) == NULL && v->kind[0] == 'b' ? text : special(v, word);
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
        json_pack("{s:o, s:s, s:b, s:b, s:b, s:O*, s:s*, s:s*, s:s*, s:s*, s:s*, s:s*, s:s*, s:s*, s:o*, s:o*}",
                  "added_tokens_decoder", list, "tokenizer_class",
                  pieces ? "LlamaTokenizer" : "PreTrainedTokenizerFast", "add_bos_token", v->begin != NULL,
                  "add_eos_token", v->end != NULL, "clean_up_tokenization_spaces", 0, "model_max_length",
                  json_object_get(v->b->config, "max_position_embeddings"), "bos_token", special(v, "bos"), "eos_token",
                  special(v, "eos"), "unk_token", special(v, "unknown"), "pad_token", special(v, "padding"),
                  "mask_token", special(v, "mask"), "cls_token", special_of_bert(v, "cls", v->begin), "sep_token",
                  special_of_bert(v, "seperator", v->end), "chat_template",
                  vc_back_text(v->b, "tokenizer.chat_template"), "legacy", pieces ? json_true() : NULL,
                  "add_prefix_space", pieces ? prefix : NULL),
        "tokenizer_config.json");
}

/* generation_config.json: where generated texts begin and end. A chat ends at the end of a turn ("eot"), too. */
static enum vc_status add_generation(struct llm_back *b)
{
    json_t *generation = json_pack("{s:O*, s:O*, s:O*}", "bos_token_id", json_object_get(b->config, "bos_token_id"),
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

/* A text, number 0 or 1 of a pair, with what goes around it. Behind the first, BERT puts nothing in front of the second,
 * and RoBERTa with a Unigram what a text ends with. */
static json_t *sequence(const struct back_vocab *v, int i)
{
    const char *begin = v->begin;

    if (i > 0 && begin != NULL && v->kind[0] != 'g') {
        begin = v->kind[0] == 'b' ? NULL : v->end;
    }
    return json_pack("[o*, o, o*]", template_part("SpecialToken", begin, i),
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
    VC_SCOPED_TEXT struct vc_text joined = {.ctx = v->b->ctx};
    size_t i;
    const json_t *merge;

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

/* tokenizer.json of its parts, which it takes over. NULL: there is no such step. */
static enum vc_status add_tokenizer(struct back_vocab *v, json_t *normalizer, json_t *cut, json_t *decoder,
                                    json_t *model)
{
    json_t *added = json_array();

    for (size_t i = 0; i < json_array_size(v->tokens); i++) {
        if (is_added(v, i)) {
            (void)json_array_append_new(added, describe(v, i));
        }
    }
    VC_CALL(vc_back_add_json(v->b,
                             json_pack("{s:s, s:n, s:n, s:o, s:o?, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation",
                                       "padding", "added_tokens", added, "normalizer", normalizer, "pre_tokenizer", cut,
                                       "post_processor", post_processor(v), "decoder", decoder, "model", model),
                             "tokenizer.json"));
    return add_settings(v, false);
}

/* {"play": 4, "##ing": 5}. Rows that no token has are in no vocabulary. */
static enum vc_status make_vocabulary(struct back_vocab *v, json_t *vocabulary)
{
    VC_SCOPED_TEXT struct vc_text text = {.ctx = v->b->ctx};

    for (size_t i = 0; i < json_array_size(v->tokens); i++) {
        const char *own = token(v, i);
        bool begins = strncmp(own, SPACE, strlen(SPACE)) == 0;

        text.n = 0;
        if (v->kind[0] == 'b' && type_of(v, i) == VOCAB_NORMAL) {
            vc_text_add(&text, "%s%s", begins ? "" : "##", begins ? own + strlen(SPACE) : own);
        } else {
            vc_text_add(&text, "%s", own);
        }
        VC_CALL(text.status);
        if (type_of(v, i) != VOCAB_UNUSED) {
            vc_back_set(v->b, vocabulary, text.data, json_integer((json_int_t)i));
        }
    }
    return VC_OK;
}

/* A BPE with its merges. */
static json_t *make_merged(const char *unknown, bool bytes, bool ignores_merges, json_t *vocabulary, json_t *merges)
{
    return json_pack("{s:s, s:n, s:s?, s:n, s:n, s:b, s:b, s:b, s:O, s:O}", "type", "BPE", "dropout", "unk_token",
                     unknown, "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", bytes, "byte_fallback",
                     bytes, "ignore_merges", ignores_merges, "vocab", vocabulary, "merges", merges);
}

/* `pre` of the glm vocabularies ("glm4") begins with g: llama.cpp puts no bos before their texts, and does before the
 * texts of llama-bpe, the other vocabulary with ignore_merges. */
static enum vc_status add_bytes(struct back_vocab *v)
{
    const char *pre = vc_back_text(v->b, PREFIX "pre");
    json_t *merges = vc_back_find(v->b, PREFIX "merges");
    json_auto_t *vocabulary = json_object();
    json_auto_t *steps = NULL;
    bool ignores_merges = false;

    if (pre == NULL || !vc_vocab_pre_steps(pre, &steps, &ignores_merges)) {
        VC_CALL(refuse(v, "pre", "it is not known which regular expressions llama.cpp calls ",
                       pre != NULL ? pre : "nothing"));
    }
    v->begin = around(v, PREFIX "add_bos_token", "bos", ignores_merges && pre[0] != 'g', &v->begin_id);
    v->end = around(v, PREFIX "add_eos_token", "eos", false, &v->end_id);
    VC_CALL(make_vocabulary(v, vocabulary));
    VC_CALL(check_merges(v, merges, vocabulary));
    return add_tokenizer(v, NULL, json_incref(steps),
                         json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets",
                                   1, "use_regex", 1),
                         make_merged(NULL, false, ignores_merges, vocabulary, merges));
}

/* ---- the other kinds of tokenizer.json ---- */

/* The token for texts that no token covers ("<unk>"), by its key or its type; the number of tokens if there is none. */
static size_t unknown_id(const struct back_vocab *v)
{
    uint64_t id = 0;

    if (!vc_back_token(v->b, "unknown", &id)) {
        while (id < json_array_size(v->tokens) && type_of(v, id) != VOCAB_UNKNOWN) {
            id++;
        }
    }
    return (size_t)id;
}

/* Spaces are letters, and no text is cut. */
static enum vc_status add_gemma4(struct back_vocab *v)
{
    json_t *merges = vc_back_find(v->b, PREFIX "merges");
    json_auto_t *vocabulary = json_object();

    v->begin = around(v, PREFIX "add_bos_token", "bos", true, &v->begin_id);
    v->end = around(v, PREFIX "add_eos_token", "eos", false, &v->end_id);
    VC_CALL(make_vocabulary(v, vocabulary));
    VC_CALL(check_merges(v, merges, vocabulary));
    return add_tokenizer(
        v, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", " ", "content", SPACE),
        json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "String", " ", "behavior",
                  "MergedWithPrevious", "invert", 0),
        json_pack("{s:s, s:[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]}", "type", "Sequence", "decoders", "type", "Replace",
                  "pattern", "String", SPACE, "content", " ", "type", "ByteFallback", "type", "Fuse"),
        make_merged(token(v, unknown_id(v)), true, false, vocabulary, merges));
}

/* A truth value; otherwise: what llama.cpp takes without the key. */
static bool flag(const struct back_vocab *v, const char *key, bool otherwise)
{
    const json_t *value = vc_back_find(v->b, key);

    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static enum vc_status add_words(struct back_vocab *v)
{
    bool lower = flag(v, PREFIX "normalizer.lowercase", true);
    bool strip = flag(v, PREFIX "normalizer.strip_accents", lower);
    const char *unknown = token(v, unknown_id(v));
    json_t *vocabulary = json_object();

    v->begin = around(v, PREFIX "add_bos_token", "bos", true, &v->begin_id);
    v->end = around(v, PREFIX "add_eos_token", "eos", true, &v->end_id);
    unknown = unknown != NULL ? unknown : "[UNK]";
    json_t *model = json_pack("{s:s, s:s, s:s, s:i, s:o}", "type", "WordPiece", "unk_token", unknown,
                              "continuing_subword_prefix", "##", "max_input_chars_per_word", 100, "vocab", vocabulary);
    json_t *normalizer = json_pack("{s:s, s:b, s:b, s:b, s:b}", "type", "BertNormalizer", "clean_text", 1,
                                   "handle_chinese_chars", 1, "strip_accents", strip, "lowercase", lower);
    if (model == NULL || make_vocabulary(v, vocabulary) != VC_OK) {
        json_decref(model);
        json_decref(normalizer);
        return vc_fail(v->b->ctx, VC_E_NOMEM, "cannot allocate memory for the tokenizer");
    }
    return add_tokenizer(v, normalizer, json_pack("{s:s}", "type", "BertPreTokenizer"),
                         json_pack("{s:s, s:s, s:b}", "type", "WordPiece", "prefix", "##", "cleanup", 1), model);
}

/* The table of characters in base64; NULL: the file has none. */
static json_t *make_charsmap(struct back_vocab *v)
{
    const json_t *map = vc_back_find(v->b, PREFIX "precompiled_charsmap");
    json_t *made = NULL;
    VC_SCOPED_TEXT struct vc_text bytes = {.ctx = v->b->ctx};
    VC_SCOPED_TEXT struct vc_text text = {.ctx = v->b->ctx};

    for (size_t i = 0; i < json_array_size(map); i++) {
        char byte = (char)json_integer_value(json_array_get(map, i));

        vc_text_add_bytes(&bytes, &byte, 1);
    }
    if (bytes.n != 0) {
        vc_base64_put(&text, (const unsigned char *)bytes.data, bytes.n);
        made = text.status == VC_OK ? json_pack("{s:s, s:s}", "type", "Precompiled", "precompiled_charsmap", text.data)
                                    : NULL;
        v->b->failed = made == NULL || v->b->failed;
    }
    return made;
}

/* [["<pad>", 0.0], ["U+2581 the", -3.2], ...]: the place is the number, so rows without a token stay between others. */
static enum vc_status add_unigrams(struct back_vocab *v)
{
    size_t n = json_array_size(v->tokens);
    const char *scheme = flag(v, PREFIX "add_space_prefix", true) ? "always" : "never";
    json_t *space = json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement", SPACE, "prepend_scheme",
                              scheme, "split", 1);
    uint64_t unknown = unknown_id(v);
    json_t *list = json_array();

    if (json_array_size(v->scores) != n) {
        json_decref(space);
        json_decref(list);
        return refuse(v, "scores", "a Unigram wants a score for each token", "");
    }
    while (n > 0 && type_of(v, n - 1) == VOCAB_UNUSED) {
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(list,
                                    json_pack("[s, f]", token(v, i), json_number_value(json_array_get(v->scores, i))));
    }
    v->begin = around(v, PREFIX "add_bos_token", "bos", false, &v->begin_id);
    v->end = around(v, PREFIX "add_eos_token", "eos", true, &v->end_id);
    json_t *cut =
        flag(v, PREFIX "remove_extra_whitespaces", false)
            ? json_pack("{s:s, s:[{s:s}, O]}", "type", "Sequence", "pretokenizers", "type", "WhitespaceSplit", space)
            : json_incref(space);
    return add_tokenizer(v, make_charsmap(v), cut, space,
                         json_pack("{s:s, s:o*, s:o, s:b}", "type", "Unigram", "unk_id",
                                   unknown < n ? json_integer((json_int_t)unknown) : NULL, "vocab", list,
                                   "byte_fallback", 0));
}

/* ---- SentencePiece ---- */

/* A space of an added token is U+2581 in a piece. Writes the message of one piece over *piece. */
static void put_piece(const struct back_vocab *v, size_t i, json_int_t type, struct vc_text *piece)
{
    float score = (float)json_number_value(json_array_get(v->scores, i));
    VC_SCOPED_TEXT struct vc_text text = {.ctx = piece->ctx};
    uint32_t bits;

    for (const char *at = token(v, i); *at != '\0'; at++) {
        bool space = *at == ' ' && type == VOCAB_USER;

        vc_text_add_bytes(&text, space ? SPACE : at, space ? 3 : 1);
    }
    memcpy(&bits, &score, sizeof bits);
    piece->n = 0;
    vc_wire_put_bytes(piece, 1, text.n != 0 ? text.data : "", text.n);
    vc_wire_put_tag(piece, 2, VC_WIRE_FIXED32);
    vc_text_add_le(piece, bits, 4);
    vc_wire_put_int(piece, 3, (uint64_t)type);
    piece->status = text.status != VC_OK ? text.status : piece->status;
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
    VC_SCOPED_TEXT struct vc_text all = {.ctx = v->b->ctx};
    VC_SCOPED_TEXT struct vc_text part = {.ctx = v->b->ctx};

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

static const struct {
    const char *kind;
    enum vc_status (*add)(struct back_vocab *v);
} kinds[] = {
    {"gpt2", add_bytes}, {"llama", add_pieces}, {"gemma4", add_gemma4}, {"bert", add_words}, {"t5", add_unigrams}};

enum vc_status vc_back_vocab(struct llm_back *b)
{
    const char *kind = vc_back_text(b, PREFIX "model");
    struct back_vocab v = {.b = b,
                           .kind = kind,
                           .tokens = vc_back_find(b, PREFIX "tokens"),
                           .types = vc_back_find(b, PREFIX "token_type"),
                           .scores = vc_back_find(b, PREFIX "scores")};
    size_t i = 0;

    if (kind == NULL || strcmp(kind, "no_vocab") == 0) {
        return vc_model_add_fact(b->ctx, b->model, VC_FACT_NOTE,
                                 "the file has no vocabulary: the folder has no files of a tokenizer");
    }
    while (i < sizeof kinds / sizeof kinds[0] && strcmp(kinds[i].kind, kind) != 0) {
        i++;
    }
    if (i == sizeof kinds / sizeof kinds[0]) {
        return refuse(&v, "model", "expected gpt2, llama, gemma4, bert or t5, found ", kind);
    }
    VC_CALL(check_lists(&v));
    VC_CALL(add_generation(b));
    VC_CALL(kinds[i].add(&v));
    return b->failed ? vc_fail(b->ctx, VC_E_NOMEM, "cannot allocate memory for the tokenizer") : VC_OK;
}
