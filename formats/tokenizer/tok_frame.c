/* tok_frame.c - what a tokenizer puts around a text: the post-processor of tokenizer.json, and the end-of-text token. See
 * tokenizer_parts.h.
 *
 *     {"type": "TemplateProcessing", "single": [<s>, A, </s>]}      before <s>, behind </s>
 *     {"type": "BertProcessing", "sep": [.., 102], "cls": [.., 101]}    101 text 102
 *
 * What the template says for pairs of texts is not read. */
#include "formats/tokenizer/tokenizer_parts.h"

#define MOST_DEPTH 8 /* of Sequences in each other */

/* The number of a token by its text; VC_NO_ID if there is none. */
static uint32_t find_id(const struct vc_tokenizer *t, const char *text)
{
    const struct tok_entry *entry = vc_tok_vocab_find(&t->contents, text, strlen(text));

    entry = entry != NULL ? entry : vc_tok_vocab_find(&t->model.vocab, text, strlen(text));
    return entry != NULL ? entry->id : VC_NO_ID;
}

/* Token `id` around the text: outermost on its side. */
static enum vc_status put_around(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *id, bool before)
{
    struct vc_token_frame *f = &t->frame;
    uint32_t *list = before ? f->before : f->behind;
    size_t *n = before ? &f->n_before : &f->n_behind;

    VC_REFUSE_IF(vc_tok_number(id) == VC_NO_ID || *n == VC_MOST_FRAME, ctx, VC_E_FORMAT,
                 "the post-processor has a token without a number, or too many tokens");
    list[(*n)++] = vc_tok_number(id);
    return VC_OK;
}

/* "single": tokens, the text, tokens. Those before it come before the ones that are there already. */
static enum vc_status read_template(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part)
{
    const json_t *single = json_object_get(part, "single");
    struct vc_token_frame *f = &t->frame;
    size_t n_texts = 0;
    size_t n_before = f->n_before;

    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *entry = json_array_get(single, i);
        const char *text = json_string_value(json_object_get(json_object_get(entry, "Sequence"), "id"));
        const char *name = json_string_value(json_object_get(json_object_get(entry, "SpecialToken"), "id"));

        if (text != NULL && strcmp(text, "A") == 0) {
            n_texts++;
            continue;
        }
        VC_REFUSE_IF(name == NULL, ctx, VC_E_UNSUPPORTED,
                     "the template of the post-processor has a part that is not known");
        const json_t *ids = json_object_get(json_object_get(json_object_get(part, "special_tokens"), name), "ids");
        VC_REFUSE_IF(!json_is_array(ids), ctx, VC_E_FORMAT, "the post-processor has no number for '%.60s'", name);
        for (size_t k = 0; k < json_array_size(ids); k++) {
            VC_CALL(put_around(ctx, t, json_array_get(ids, k), n_texts == 0));
        }
    }
    VC_REFUSE_IF(n_texts != 1, ctx, VC_E_UNSUPPORTED, "the template of the post-processor has the text %zu times",
                 n_texts);
    for (size_t i = 0; i < n_before; i++) { /* the earlier ones behind the later */
        uint32_t first = f->before[0];

        memmove(f->before, f->before + 1, (f->n_before - 1) * sizeof first);
        f->before[f->n_before - 1] = first;
    }
    return VC_OK;
}

/* A Sequence puts each part around what the ones before it have made. */
static enum vc_status read_frame(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part, unsigned depth)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *parts = json_object_get(part, "processors");

    VC_REFUSE_IF(type == NULL || depth > MOST_DEPTH, ctx, VC_E_FORMAT, "the post-processor has no type");
    if (strcmp(type, "Sequence") == 0) {
        for (size_t i = 0; i < json_array_size(parts); i++) {
            VC_CALL(read_frame(ctx, t, json_array_get(parts, i), depth + 1));
        }
        return VC_OK;
    }
    if (strcmp(type, "TemplateProcessing") == 0) {
        return read_template(ctx, t, part);
    }
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) {
        VC_CALL(put_around(ctx, t, json_array_get(json_object_get(part, "cls"), 1), true));
        return put_around(ctx, t, json_array_get(json_object_get(part, "sep"), 1), false);
    }
    return strcmp(type, "ByteLevel") == 0
               ? VC_OK
               : vc_fail(ctx, VC_E_UNSUPPORTED, "the post-processor '%.60s' is not known", type);
}

/* Without a post-processor nothing is around a text. */
enum vc_status vc_tok_read_frame(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part)
{
    return part == NULL || json_is_null(part) ? VC_OK : read_frame(ctx, t, part, 0);
}

/* "eos_token": a text, or an object with one. */
void vc_tok_find_end(struct vc_tokenizer *t, const json_t *settings, const json_t *config)
{
    const json_t *said = json_object_get(settings, "eos_token");
    const char *text = json_string_value(json_is_object(said) ? json_object_get(said, "content") : said);
    const json_t *id = json_object_get(config, "eos_token_id");
    uint32_t found = text != NULL ? find_id(t, text) : VC_NO_ID;

    id = json_is_array(id) ? json_array_get(id, 0) : id;
    found = found == VC_NO_ID ? vc_tok_number(id) : found;
    t->frame.has_end = found != VC_NO_ID;
    t->frame.end = t->frame.has_end ? found : 0;
}

/* As transformers' classes for these files: BPE (Llama) has the begin, Unigram (T5) the end, unless the settings say
 * so. */
void vc_tok_frame_pieces(struct vc_tokenizer *t, const json_t *settings)
{
    struct vc_token_frame *f = &t->frame;
    bool bpe = t->rules.kind == VC_PIECES_BPE;

    if (vc_tok_flag(settings, "add_bos_token", bpe) && t->rules.begin < t->model.vocab.n) {
        f->before[f->n_before++] = (uint32_t)t->rules.begin;
    }
    if (vc_tok_flag(settings, "add_eos_token", !bpe) && t->rules.end < t->model.vocab.n) {
        f->behind[f->n_behind++] = (uint32_t)t->rules.end;
    }
}
