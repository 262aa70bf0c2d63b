/* vocab.h - the vocabulary of a folder as llama.cpp reads it from GGUF's metadata. It knows five kinds:
 *
 *     gpt2    byte-level BPE: tokenizer.json, tiktoken.model    tokens, types, merges, and a name for how text is cut
 *     llama   SentencePiece's BPE: tokenizer.model, or tokenizer.json     tokens, types, scores
 *     gemma4  the same: tokenizer.json                          tokens, types, scores, merges in place of the scores
 *     bert    WordPiece: tokenizer.json or vocab.txt            tokens, types
 *     t5      Unigram: tokenizer.json or spiece.model           tokens, types, scores, a table of characters
 *
 * vocab.c chooses the kind, vocab_special.c finds the tokens with a meaning, the others read one kind each. */
#pragma once

#include "formats/gguf_folder/llm_parts.h"

enum vocab_type {
    VOCAB_NORMAL = 1,  /* merged, or found, as the kind does it */
    VOCAB_UNKNOWN = 2, /* stands for what has no token */
    VOCAB_CONTROL = 3, /* "<s>": has a meaning, and no text */
    VOCAB_USER = 4,    /* found in a text whatever is around it */
    VOCAB_UNUSED = 5,  /* a row of the embedding without a token */
    VOCAB_BYTE = 6     /* "<0x0A>": a byte that has no token of its own */
};

#define VOCAB_FILE ((uint64_t)1 << 28) /* bytes of a list of tokens, at most */

struct vocab_token {
    const char *text; /* NULL: no token has this number yet. The trees' or the arena's */
    size_t n;
    int32_t type; /* enum vocab_type */
    float score;  /* log-probability, or minus the number of the merge */
    bool added;   /* listed by a file beside the model's own vocabulary */
};

struct vocab {
    struct vc_ctx *ctx;
    struct vc_arena *arena; /* of texts that no tree holds */
    const char *folder;     /* of the source */
    const struct llm_config *config;
    const struct vc_arch_family *family;
    struct vc_model *model; /* for notes */
    size_t n;               /* rows of the embedding */
    struct vocab_token *tokens;
    struct hf_json tokenizer, settings, generation, added, template_file;
    const char *kind, *pre;        /* tokenizer.ggml.model and tokenizer.ggml.pre */
    const json_t *merges;          /* NULL: none are written */
    bool has_scores;               /* the kind has scores, and U+2581 for spaces */
    int space_prefix, spaces;      /* add_space_prefix and remove_extra_whitespaces; -1: not said */
    int lowercase, accents;        /* of WordPiece; -1: not said */
    const unsigned char *charsmap; /* of SentencePiece: which characters become which */
    size_t n_charsmap;
    size_t n_beyond; /* added tokens that have no row */
};

/* Adds the pairs of the vocabulary; rows: of the embedding. pre: what tokenizer.ggml.pre is to say, or NULL. */
enum vc_status vc_vocab_put(struct vc_ctx *ctx, const char *folder, const struct llm_config *config,
                            const struct vc_arch_family *family, uint64_t rows, const char *pre, struct vc_model *model,
                            struct llm_pairs *pairs);

/* ---- vocab_tokens.c ---- */

/* The path of a file in the folder; NULL: it is not there, or *status is a failure. */
const char *vc_vocab_path(struct vocab *v, const char *name, enum vc_status *status);

/* A file of the folder as one text of at most `most` bytes, in the arena; *out NULL: it is not there. kind: "list of
 * tokens", for the sentence where it is none. */
enum vc_status vc_vocab_text(struct vocab *v, const char *name, uint64_t most, const char *kind, char **out);

/* Token number `id` of the model itself. VC_E_UNSUPPORTED where the embedding has no such row. */
enum vc_status vc_vocab_set(struct vocab *v, uint64_t id, const char *text, size_t n, int32_t type, float score);
/* The number of the token with that text, an added one before others; false if there is none. */
bool vc_vocab_find(const struct vocab *v, const char *text, uint64_t *id);

/* ---- the kinds ---- */

/* Tokens added to the model, from each file that lists such. */
enum vc_status vc_vocab_add(struct vocab *v);

enum vc_status vc_vocab_read_bytes(struct vocab *v);                    /* vocab_bytes.c: gpt2 */
enum vc_status vc_vocab_read_merged(struct vocab *v);                   /* vocab_pieces.c: llama, of tokenizer.json */
enum vc_status vc_vocab_read_pieces(struct vocab *v, const char *path); /* vocab_pieces.c: llama or t5, of a protobuf */
enum vc_status vc_vocab_read_unigrams(struct vocab *v);                 /* vocab_words.c: t5, of tokenizer.json */
enum vc_status vc_vocab_read_words(struct vocab *v);                    /* vocab_words.c: bert */
/* vocab_ranks.c: gpt2, of a file of tiktoken's; *found: the folder has one. */
enum vc_status vc_vocab_read_ranks(struct vocab *v, bool *found);
/* bert, behind vc_vocab_add: "##ing" becomes "ing", "play" gets U+2581 in front, control tokens stay. */
enum vc_status vc_vocab_mark_words(struct vocab *v);

/* vocab_pre.c: the steps that cut a text, as one text; *byte_level: one of them turns bytes into letters. */
void vc_vocab_form(const json_t *tokenizer, struct vc_text *form, bool *byte_level);
/* The name that llama.cpp has for the form; NULL: none is known. */
const char *vc_vocab_pre_name(const char *form, bool ignores_merges, bool cleans, bool is_glm, bool is_roberta);
/* The way back: the "pre_tokenizer" of that name, and whether words that are tokens are not cut; false: the name is not
 * known. *out is json_decref'ed in any case. */
bool vc_vocab_pre_steps(const char *name, json_t **out, bool *ignores_merges);

/* vocab_special.c: ids, what is put in front and behind, the template of a chat. */
enum vc_status vc_vocab_put_special(struct vocab *v, struct llm_pairs *pairs);
