/* tokenizer.h - texts as numbers of tokens, by what lies in a folder of Hugging Face:
 *
 *     tokenizer.json       normalizer -> pre-tokenizer -> model (BPE, WordPiece, Unigram, WordLevel), added tokens: the numbers
 *                          that the library tokenizers gives, read from its source (0.21 to 0.23)
 *     tokenizer.model,     where there is no tokenizer.json: those of SentencePiece (BPE, Unigram), and the begin and end that
 *     spiece.model         transformers' classes put around a text
 *
 * "truncation" and "padding" of tokenizer.json are ignored, "dropout" is refused, and so is every part that is not known:
 * the sentence names the file and the part. */
#pragma once

#include "core/base/ctx.h"

struct vc_tokenizer;

#define VC_MOST_TEXT_BYTES ((size_t)64 << 20) /* of one text: places are numbers of 32 bits */

/* Tokens of a text. at: the first byte of the text that a token is about, never falling; of the first token not always 0,
 * as a text may begin with what no token has. The pool's: vc_token_list_release. */
struct vc_token {
    uint32_t id, at;
};
struct vc_token_list {
    struct vc_token *tokens;
    size_t n, capacity;
};

/* What is put around a text, and between texts. */
struct vc_token_frame {
    uint32_t *before, *behind;
    size_t n_before, n_behind;
    bool has_end; /* the end of a text: eos_token of tokenizer_config.json, else of config.json */
    uint32_t end;
};

/* path: a folder with a tokenizer in it, or a file in such a folder. VC_E_UNSUPPORTED if there is none,
 * or one with a part that is not known. Sentences name the file. */
enum vc_status vc_tokenizer_open(struct vc_ctx *ctx, const char *path, struct vc_tokenizer **out);
/* Whether the folder, or that of the file, has one. */
enum vc_status vc_tokenizer_is_beside(struct vc_ctx *ctx, const char *path, bool *there);
void vc_tokenizer_close(struct vc_ctx *ctx, struct vc_tokenizer *tokenizer); /* accepts NULL */
const struct vc_token_frame *vc_tokenizer_frame(const struct vc_tokenizer *tokenizer);
/* The largest number that a token has. */
uint32_t vc_tokenizer_most(const struct vc_tokenizer *tokenizer);

/* The tokens of a text in valid UTF-8, without what is put around it; added to none: `to` is emptied first. */
enum vc_status vc_tokenizer_encode(struct vc_ctx *ctx, struct vc_tokenizer *tokenizer, const char *text, size_t n,
                                   struct vc_token_list *to);
void vc_token_list_release(struct vc_ctx *ctx, struct vc_token_list *list);
