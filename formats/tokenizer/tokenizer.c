/* tokenizer.c - opens a tokenizer, and takes texts through its parts. See tokenizer_parts.h. */
#include "formats/tokenizer/tokenizer.h"

#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/config/hf_json.h"
#include "formats/io/side_file.h"
#include "formats/tokenizer/tokenizer_parts.h"

/* ------------------------------------------------------------------------------------------------ opening */

/* The parts in an order in which each finds what it needs: added tokens may be tokens of the model. */
static enum vc_status read_json(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *root)
{
    VC_CALL(vc_tok_read_normalizers(ctx, t, json_object_get(root, "normalizer")));
    VC_CALL(vc_tok_read_words(ctx, t, json_object_get(root, "pre_tokenizer")));
    VC_CALL(vc_tok_read_model(ctx, t, json_object_get(root, "model")));
    VC_CALL(vc_tok_read_added(ctx, t, json_object_get(root, "added_tokens")));
    return vc_tok_read_frame(ctx, t, json_object_get(root, "post_processor"));
}

/* The file of a tokenizer that the folder has; NULL: none. */
static enum vc_status find_file(struct vc_ctx *ctx, const char *folder, const char **name)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bool there = false;

        *name = names[i];
        VC_CALL(vc_side_check(ctx, folder, names[i], &there));
        if (there) {
            return VC_OK;
        }
    }
    *name = NULL;
    return VC_OK;
}

/* Only names are looked at. */
enum vc_status vc_tokenizer_is_beside(struct vc_ctx *ctx, const char *path, bool *there)
{
    char *folder = vc_hf_path_beside(ctx, path, ".");
    const char *name = NULL;

    VC_CALL_FOUND(ctx, folder);
    enum vc_status status = find_file(ctx, folder, &name);
    *there = name != NULL;
    vc_free(ctx, folder);
    return status;
}

/* The SentencePiece model of the folder. */
static enum vc_status open_pieces(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *folder)
{
    const char *name;

    VC_CALL(find_file(ctx, folder, &name));
    VC_REFUSE_IF(
        name == NULL, ctx, VC_E_UNSUPPORTED,
        "there is no tokenizer beside the model, neither tokenizer.json nor tokenizer.model: a text cannot become "
        "tokens");
    char *path = vc_hf_path_beside(ctx, folder, name);
    VC_CALL_FOUND(ctx, path);
    enum vc_status status = vc_tok_read_pieces(ctx, t, path);
    vc_free(ctx, path);
    return status;
}

/* tokenizer.json decides where it is there; settings and configuration only tell what is put around a text. */
enum vc_status vc_tokenizer_open(struct vc_ctx *ctx, const char *path, struct vc_tokenizer **out)
{
    VC_SCOPED char *folder = vc_hf_path_beside(ctx, path, ".");
    struct vc_tokenizer *t = NULL;
    VC_SCOPED_JSON struct hf_json json = {.root = NULL};
    VC_SCOPED_JSON struct hf_json settings = {.root = NULL};
    VC_SCOPED_JSON struct hf_json config = {.root = NULL};
    enum vc_status status;

    *out = NULL;
    VC_CALL_FOUND(ctx, folder);
    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, t, 1));
    VC_TRY_ALLOC(t->frame.before = vc_arena_alloc(ctx, &t->arena, 2 * VC_MOST_FRAME * sizeof *t->frame.before));
    t->frame.behind = t->frame.before + VC_MOST_FRAME;
    t->model.unknown = VC_NO_ID;
    VC_TRY(vc_hf_json_beside(ctx, folder, "tokenizer.json", &json));
    VC_TRY(vc_hf_json_beside(ctx, folder, "tokenizer_config.json", &settings));
    VC_TRY(vc_hf_json_beside(ctx, folder, "config.json", &config));
    if (json.root != NULL) {
        if (read_json(ctx, t, json.root) != VC_OK) {
            VC_TRY(vc_context(ctx, "tokenizer.json"));
        }
    } else {
        VC_TRY(open_pieces(ctx, t, folder));
        vc_tok_frame_pieces(t, settings.root);
    }
    vc_tok_find_end(t, settings.root, config.root);
out:
    if (status == VC_OK) {
        *out = t;
    } else {
        vc_tokenizer_close(ctx, t);
    }
    return status;
}

void vc_tokenizer_close(struct vc_ctx *ctx, struct vc_tokenizer *t)
{
    if (t == NULL) {
        return;
    }
    vc_tok_vocab_release(ctx, &t->model.vocab);
    vc_tok_vocab_release(ctx, &t->model.symbols);
    vc_tok_vocab_release(ctx, &t->contents);
    vc_tok_vocab_release(ctx, &t->raw.texts);
    vc_tok_vocab_release(ctx, &t->normalized.texts);
    vc_hash_release(ctx, &t->model.merge_table);
    vc_tok_release(ctx, &t->text);
    vc_tok_release(ctx, &t->other);
    VC_FREE_ALL(ctx, t->pieces.items, t->others.items);
    vc_pattern_work_release(ctx, &t->pattern_work);
    VC_FREE_ALL(ctx, t->cells, t->heap, t->paths);
    vc_arena_release(ctx, &t->arena);
    vc_free(ctx, t);
}

const struct vc_token_frame *vc_tokenizer_frame(const struct vc_tokenizer *t)
{
    return &t->frame;
}

uint32_t vc_tokenizer_most(const struct vc_tokenizer *t)
{
    return t->model.vocab.most > t->contents.most ? t->model.vocab.most : t->contents.most;
}

/* ------------------------------------------------------------------------------------------------ a text */

/* What lies between added tokens (vc_tok_change_words). */
static enum vc_status normalize(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                                const struct tok_piece *word)
{
    return vc_tok_normalize(ctx, t, t->text.s + word->begin, t->text.at + word->begin, word->end - word->begin,
                            &t->other);
}

/* The steps of tokenizer_parts.h. Each byte of the text begins with its own place. */
static enum vc_status encode_json(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *text, size_t n)
{
    enum vc_status status = VC_OK;

    t->text.n = t->pieces.n = 0;
    VC_CALL(vc_tok_put(ctx, &t->text, text, n, 0));
    for (size_t i = 0; i < n; i++) {
        t->text.at[i] = (uint32_t)i;
    }
    VC_CALL(vc_tok_add_piece(ctx, &t->pieces, (struct tok_piece){0, (uint32_t)n, 0, VC_NO_ID}));
    VC_CALL(vc_tok_cut_words(ctx, t, &t->raw, vc_tok_cut_added));
    VC_CALL(vc_tok_change_words(ctx, t, NULL, normalize));
    for (size_t i = 0; i < t->pieces.n; i++) { /* a text whose first spaces are gone does not begin the text */
        struct tok_piece *piece = &t->pieces.items[i];

        piece->at = piece->begin < piece->end ? t->text.at[piece->begin] : piece->at;
    }
    VC_CALL(vc_tok_cut_words(ctx, t, &t->normalized, vc_tok_cut_added));
    VC_CALL(vc_tok_make_words(ctx, t));
    struct tok_text words = t->text; /* models work in t->other */
    for (size_t i = 0; i < t->pieces.n && status == VC_OK; i++) {
        const struct tok_piece *piece = &t->pieces.items[i];

        status = piece->id != VC_NO_ID ? vc_tok_put_token(ctx, t, piece->id, piece->at)
                                       : vc_tok_model_word(ctx, t, words.s + piece->begin, words.at + piece->begin,
                                                           piece->end - piece->begin);
    }
    return status;
}

/* SentencePiece has no words: the model gets the whole text. */
static enum vc_status encode_pieces(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *text, size_t n)
{
    t->text.n = 0;
    VC_CALL(vc_tok_normalize_pieces(ctx, t, text, n, &t->text));
    return vc_tok_model_word(ctx, t, t->text.s, t->text.at, t->text.n);
}

enum vc_status vc_tokenizer_encode(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *text, size_t n,
                                   struct vc_token_list *to)
{
    uint32_t at = 0;

    VC_REFUSE_IF(n > VC_MOST_TEXT_BYTES, ctx, VC_E_UNSUPPORTED, "a text of %zu bytes is too long to be one", n);
    t->out = to;
    to->n = 0;
    if (n == 0) {
        return VC_OK;
    }
    if (t->model.is_pieces) {
        VC_CALL(encode_pieces(ctx, t, text, n));
    } else {
        VC_CALL(encode_json(ctx, t, text, n));
    }
    for (size_t i = 0; i < to->n; i++) { /* marks that were put into order may come from behind their neighbours */
        at = to->tokens[i].at > at ? to->tokens[i].at : at;
        to->tokens[i].at = at;
    }
    return VC_OK;
}

void vc_token_list_release(struct vc_ctx *ctx, struct vc_token_list *list)
{
    vc_free(ctx, list->tokens);
    *list = (struct vc_token_list){.n = 0};
}
