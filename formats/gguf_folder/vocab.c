/* vocab.c - chooses the kind of a vocabulary, reads the files of it, and writes the pairs. See vocab.h.
 *
 * Order of vc_vocab_put: files, tokens of the model by kind, tokens that were added to it (their texts and types win),
 * gaps, a check that all texts differ, then the pairs. The list has an entry for each row of the embedding, because
 * llama.cpp takes the vocabulary's size from the list's length. */
#include "formats/gguf_folder/vocab.h"

#include "formats/json/json_walk.h"

/* Below every score that a vocabulary has: no merge gives such a token. */
#define UNUSED_SCORE (-10000.0F)

/* ---- files ---- */

/* A file that is not there has root NULL; jansson's getters answer NULL for it, so that no later line asks whether a
 * file is there. */
static enum vc_status load_files(struct vocab *v)
{
    VC_CALL(vc_hf_json_beside(v->ctx, v->folder, "tokenizer.json", &v->tokenizer));
    VC_CALL(vc_hf_json_beside(v->ctx, v->folder, "tokenizer_config.json", &v->settings));
    VC_CALL(vc_hf_json_beside(v->ctx, v->folder, "generation_config.json", &v->generation));
    VC_CALL(vc_hf_json_beside(v->ctx, v->folder, "added_tokens.json", &v->added));
    return vc_hf_json_beside(v->ctx, v->folder, "chat_template.json", &v->template_file);
}

static void unload_files(struct vocab *v)
{
    vc_json_tree_free(v->ctx, v->tokenizer.root, v->tokenizer.counted);
    vc_json_tree_free(v->ctx, v->settings.root, v->settings.counted);
    vc_json_tree_free(v->ctx, v->generation.root, v->generation.counted);
    vc_json_tree_free(v->ctx, v->added.root, v->added.counted);
    vc_json_tree_free(v->ctx, v->template_file.root, v->template_file.counted);
}

/* ---- tokens ---- */

/* Rows without a token have a name that no text has. "[PAD151665]", as llama.cpp's converter calls them. */
static enum vc_status fill_gaps(struct vocab *v)
{
    for (size_t i = 0; i < v->n; i++) {
        struct vocab_token *t = &v->tokens[i];
        char *text;

        if (t->text != NULL) {
            continue;
        }
        VC_CALL_ALLOC(text = vc_arena_printf(v->ctx, v->arena, "[PAD%zu]", i));
        *t = (struct vocab_token){.text = text, .n = strlen(text), .type = VOCAB_UNUSED, .score = UNUSED_SCORE};
    }
    return VC_OK;
}

/* llama.cpp ends the program where two texts are equal. */
static enum vc_status check_different(struct vocab *v)
{
    size_t twice = SIZE_MAX;

    VC_CALL(vc_names_unique(v->ctx, VC_NAME_LIST(v->tokens, sizeof *v->tokens), v->n, &twice));
    VC_REFUSE_IF(twice != SIZE_MAX, v->ctx, VC_E_UNSUPPORTED,
                 "the vocabulary has the token '%.60s' twice, the second time as %zu", v->tokens[twice].text, twice);
    return VC_OK;
}

/* ---- kinds ---- */

/* type: of the model in tokenizer.json; NULL: the folder has none. */
static enum vc_status refuse_kind(struct vocab *v, const char *type)
{
    return vc_fail(
        v->ctx, VC_E_UNSUPPORTED,
        "%s%s: there is no tokenizer that is known (tokenizer.json with byte-level BPE, BPE with byte "
        "fallback, WordPiece or Unigram; tokenizer.model; vocab.txt; tiktoken.model); %s leaves the vocabulary out",
        type != NULL ? "tokenizer.json has a model of type " : "the folder", type != NULL ? type : "",
        vc_option(v->ctx, "gguf_no_vocab"));
}

/* Chooses the kind by what the files hold, first that fits:
 *
 *     tokenizer.json  BPE, and a step ByteLevel          gpt2
 *                     WordPiece                          bert
 *                     Unigram                            t5
 *                     BPE of gemma4                      gemma4
 *     tokenizer.model or spiece.model                    llama or t5, by its trainer
 *     tokenizer.json  BPE with byte_fallback             llama
 *     vocab.txt                                          bert
 *     tiktoken.model or hy.tiktoken                      gpt2
 *
 * tokenizer.model comes before a BPE with byte fallback: it has the scores, which merges only imply. */
static enum vc_status read_tokens(struct vocab *v)
{
    const json_t *model = json_object_get(v->tokenizer.root, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    bool merges = json_object_get(model, "merges") != NULL && (type == NULL || strcmp(type, "BPE") == 0);
    bool byte_level = false;
    VC_SCOPED_TEXT struct vc_text form = {.ctx = v->ctx};
    enum vc_status status = VC_OK;

    vc_vocab_form(v->tokenizer.root, &form, &byte_level);
    if (merges && byte_level) {
        return vc_vocab_read_bytes(v);
    }
    if (type != NULL && strcmp(type, "WordPiece") == 0) {
        return vc_vocab_read_words(v);
    }
    if (type != NULL && strcmp(type, "Unigram") == 0) {
        return vc_vocab_read_unigrams(v);
    }
    if (strcmp(v->family->gguf, "gemma4") == 0 && merges) {
        return vc_vocab_read_merged(v);
    }
    const char *path = vc_vocab_path(v, "tokenizer.model", &status);
    if (path == NULL && status == VC_OK) {
        path = vc_vocab_path(v, "spiece.model", &status);
    }
    VC_CALL(status);
    if (path != NULL) {
        return vc_vocab_read_pieces(v, path);
    }
    if (merges && json_is_true(json_object_get(model, "byte_fallback"))) {
        return vc_vocab_read_merged(v);
    }
    path = vc_vocab_path(v, "vocab.txt", &status);
    VC_CALL(status);
    if (path != NULL && type == NULL) {
        return vc_vocab_read_words(v);
    }
    bool ranks = false;
    if (v->tokenizer.root == NULL) {
        VC_CALL(vc_vocab_read_ranks(v, &ranks));
    }
    return ranks ? VC_OK : refuse_kind(v, type);
}

/* llama.cpp's Unigram has no tokens for bytes: what has no token of its own is unknown, line feeds too. */
static enum vc_status check_bytes(struct vocab *v)
{
    for (size_t i = 0; i < v->n && strcmp(v->kind, "t5") == 0; i++) {
        const char *text = v->tokens[i].text;

        VC_REFUSE_IF(text != NULL && strcmp(text, "<0x0A>") == 0, v->ctx, VC_E_UNSUPPORTED,
                     "the tokenizer is a Unigram with byte fallback, and llama.cpp has no bytes in such a "
                     "vocabulary: line feeds and rare characters would be <unk>; %s leaves the vocabulary out",
                     vc_option(v->ctx, "gguf_no_vocab"));
    }
    return VC_OK;
}

/* ---- pairs ---- */

/* The two parts of a merge, "left right" or ["left", "right"]; false: it has others. tokenizers wrote merges as one
 * text up to version 0.19, as lists since 0.20. The parts point into the tree. */
static bool split_merge(const json_t *merge, const char *parts[2], size_t n[2])
{
    const char *both = json_string_value(merge);
    const char *space = both != NULL ? strchr(both, ' ') : NULL;

    if (json_is_array(merge)) {
        for (size_t k = 0; k < 2; k++) {
            parts[k] = json_string_value(json_array_get(merge, k));
            n[k] = json_string_length(json_array_get(merge, k));
        }
        return json_array_size(merge) == 2 && parts[0] != NULL && parts[1] != NULL;
    }
    if (space == NULL || strchr(space + 1, ' ') != NULL) {
        return false;
    }
    parts[0] = both;
    n[0] = (size_t)(space - both);
    parts[1] = space + 1;
    n[1] = strlen(space + 1);
    return true;
}

/* How much of a part a sentence shows. */
static int shown(size_t n)
{
    return n < 60 ? (int)n : 60;
}

/* A merge as the file is to have it: "left right". A space in a part is the letter for it. Tokenizers load a merge only
 * where its parts and what it gives are tokens; llama.cpp would leave it out. */
static enum vc_status put_merge(struct vocab *v, const json_t *merge, struct llm_pairs *pairs)
{
    const json_t *model = json_object_get(v->tokenizer.root, "model");
    const json_t *vocabulary = json_object_get(model, "vocab");
    size_t prefix = json_string_length(json_object_get(model, "continuing_subword_prefix"));
    const char *parts[2];
    size_t n[2];
    VC_SCOPED_TEXT struct vc_text text = {.ctx = v->ctx};

    VC_REFUSE_IF(!split_merge(merge, parts, n), v->ctx, VC_E_FORMAT, "tokenizer.json: a merge is not of two texts");
    vc_text_add_bytes(&text, parts[0], n[0]);
    vc_text_add_bytes(&text, parts[1] + (n[1] > prefix ? prefix : 0), n[1] - (n[1] > prefix ? prefix : 0));
    VC_CALL(text.status);
    if (json_object_getn(vocabulary, parts[0], n[0]) == NULL || json_object_getn(vocabulary, parts[1], n[1]) == NULL ||
        json_object_getn(vocabulary, text.data, text.n) == NULL) {
        VC_CALL(
            vc_fail(v->ctx, VC_E_FORMAT,
                    "tokenizer.json: the vocabulary has not both parts of the merge '%.*s' '%.*s', and what they give",
                    shown(n[0]), parts[0], shown(n[1]), parts[1]));
    }
    text.n = 0;
    for (size_t k = 0; k < 2; k++) {
        vc_text_add(&text, "%s", k == 0 ? "" : " ");
        for (size_t i = 0; i < n[k]; i++) {
            bool space = parts[k][i] == ' ';

            vc_text_add_bytes(&text, space ? "\xc4\xa0" : &parts[k][i], space ? 2 : 1);
        }
    }
    VC_CALL(text.status);
    vc_llm_element_text(pairs, text.data, text.n);
    return VC_OK;
}

/* tokens, scores and types are arrays of the same length, in the order of the ids. */
static enum vc_status put_tokens(struct vocab *v, struct llm_pairs *pairs)
{
    vc_llm_put_text(pairs, "tokenizer.ggml.model", v->kind);
    vc_llm_put_text(pairs, "tokenizer.ggml.pre", v->pre);
    vc_llm_put_array(pairs, "tokenizer.ggml.tokens", GGUF_STRING, v->n);
    for (size_t i = 0; i < v->n; i++) {
        vc_llm_element_text(pairs, v->tokens[i].text, v->tokens[i].n);
    }
    if (v->has_scores) {
        vc_llm_put_array(pairs, "tokenizer.ggml.scores", GGUF_F32, v->n);
    }
    for (size_t i = 0; i < v->n && v->has_scores; i++) {
        vc_llm_element_f32(pairs, v->tokens[i].score);
    }
    vc_llm_put_array(pairs, "tokenizer.ggml.token_type", GGUF_I32, v->n);
    for (size_t i = 0; i < v->n; i++) {
        vc_llm_element_u32(pairs, (uint32_t)v->tokens[i].type);
    }
    if (v->merges != NULL) {
        vc_llm_put_array(pairs, "tokenizer.ggml.merges", GGUF_STRING, json_array_size(v->merges));
    }
    for (size_t i = 0; i < json_array_size(v->merges); i++) {
        VC_CALL(put_merge(v, json_array_get(v->merges, i), pairs));
    }
    return VC_OK;
}

/* What only some kinds have. */
static void put_normalizer(const struct vocab *v, struct llm_pairs *pairs)
{
    if (v->space_prefix >= 0) {
        vc_llm_put_bool(pairs, "tokenizer.ggml.add_space_prefix", v->space_prefix != 0);
    }
    if (v->spaces >= 0 && strcmp(v->kind, "t5") == 0) {
        vc_llm_put_bool(pairs, "tokenizer.ggml.remove_extra_whitespaces", v->spaces != 0);
    }
    if (v->n_charsmap != 0 && strcmp(v->kind, "t5") == 0) {
        vc_llm_put_array(pairs, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, v->n_charsmap);
        vc_text_add_bytes(&pairs->text, (const char *)v->charsmap, v->n_charsmap);
    }
    if (v->lowercase >= 0) {
        vc_llm_put_bool(pairs, "tokenizer.ggml.normalizer.lowercase", v->lowercase != 0);
        vc_llm_put_bool(pairs, "tokenizer.ggml.normalizer.strip_accents", v->accents != 0);
    }
}

enum vc_status vc_vocab_put(struct vc_ctx *ctx, const char *folder, const struct llm_config *config,
                            const struct vc_arch_family *family, uint64_t rows, const char *pre, struct vc_model *model,
                            struct llm_pairs *pairs)
{
    /* Texts of tokens belong to the trees of the files, or to this arena; both live until the pairs are written. */
    VC_SCOPED_ARENA struct vc_arena arena = {0};
    struct vocab v = {.ctx = ctx,
                      .arena = &arena,
                      .folder = folder,
                      .config = config,
                      .family = family,
                      .model = model,
                      .n = (size_t)rows,
                      .pre = pre,
                      .space_prefix = -1,
                      .spaces = -1,
                      .lowercase = -1};
    enum vc_status status;

    VC_TRY_ALLOC(v.tokens = vc_calloc_array(ctx, VC_TAG_NAMES, v.n, sizeof *v.tokens));
    VC_TRY(load_files(&v));
    VC_TRY(read_tokens(&v));
    VC_TRY(check_bytes(&v));
    /* The user's word for how texts are cut wins over what was found. */
    v.pre = pre != NULL ? pre : v.pre;
    VC_TRY(vc_vocab_add(&v));
    if (strcmp(v.kind, "bert") == 0) {
        VC_TRY(vc_vocab_mark_words(&v));
    }
    VC_TRY(fill_gaps(&v));
    VC_TRY(check_different(&v));
    const json_t *prefix = json_object_get(v.settings.root, "add_prefix_space");
    if (v.space_prefix >= 0 && json_is_boolean(prefix)) {
        v.space_prefix = json_is_true(prefix);
    }
    VC_TRY(put_tokens(&v, pairs));
    put_normalizer(&v, pairs);
    VC_TRY(vc_vocab_put_special(&v, pairs));
    VC_TRY(pairs->text.status);
out:
    unload_files(&v);
    vc_free(ctx, v.tokens);
    return status;
}
