/* tokenizer_parts.h - the inside of a tokenizer. tokenizer.c opens it and takes a text through its parts:
 *
 *     "Hello <eos>World"   added tokens that stand in the text itself     tok_added.c      "Hello ", <eos>, "World"
 *     NFKC, Prepend ...    the normalizer, of what lies between them      tok_normalize.c  "_Hello_", <eos>, "_World"
 *                          added tokens of the normalized text            tok_added.c
 *     ByteLevel, Split ... the pre-tokenizer makes words                  tok_words.c      "_Hello", "_", <eos>, "_World"
 *     BPE, Unigram ...     the model makes tokens of a word               tok_models.c     17 3 2 18
 *
 * Each byte of a text on its way has the place of the text that it comes from. */
#pragma once

#include <jansson.h>

#include "core/base/array.h"
#include "core/base/hash_table.h"
#include "formats/tokenizer/pattern.h"
#include "formats/tokenizer/pieces.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer/unicode.h"

struct tok_step;

#define VC_NO_ID      UINT32_MAX
#define VC_MOST_FRAME 256 /* tokens on each side of a text */

/* ---- texts ---- */

/* A text on its way: bytes, and where each comes from. The pool's. */
struct tok_text {
    char *s;
    uint32_t *at;
    size_t n, capacity, at_capacity;
};

/* Adds n bytes; `at`: the place of each, `from` NULL: of all of them. */
enum vc_status vc_tok_put(struct vc_ctx *ctx, struct tok_text *text, const char *s, size_t n, uint32_t at);
enum vc_status vc_tok_copy(struct vc_ctx *ctx, struct tok_text *text, const char *s, const uint32_t *from, size_t n);
enum vc_status vc_tok_put_char(struct vc_ctx *ctx, struct tok_text *text, uint32_t c, uint32_t at);
void vc_tok_release(struct vc_ctx *ctx, struct tok_text *text);

/* A piece of the text: a word, or an added token. at: where it begins in the text that was given. */
struct tok_piece {
    uint32_t begin, end, at;
    uint32_t id; /* VC_NO_ID: a word */
};
struct tok_pieces {
    struct tok_piece *items;
    size_t n, capacity;
};
enum vc_status vc_tok_add_piece(struct vc_ctx *ctx, struct tok_pieces *pieces, struct tok_piece piece);
/* Adds bytes [begin, end) of a piece of the text, unless they are none. */
enum vc_status vc_tok_add_part(struct vc_ctx *ctx, const struct tok_text *text, const struct tok_piece *piece,
                               size_t begin, size_t end, uint32_t id, struct tok_pieces *to);
/* Words of t->pieces become what `cut` makes of each, in t->others, which become the pieces. */
enum vc_status vc_tok_cut_words(struct vc_ctx *ctx, struct vc_tokenizer *t, const void *by,
                                enum vc_status (*cut)(struct vc_ctx *ctx, struct vc_tokenizer *t, const void *by,
                                                      const struct tok_piece *word));
/* A new text in the place of t->text: of each word what `change` puts into t->other. */
enum vc_status vc_tok_change_words(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                                   enum vc_status (*change)(struct vc_ctx *ctx, struct vc_tokenizer *t,
                                                            const struct tok_step *step, const struct tok_piece *word));

/* ---- vocabulary ---- */

struct tok_entry {
    const char *s; /* the arena's */
    uint32_t n, id;
    double score;
};

/* Texts of tokens, found by their bytes. */
struct tok_vocab {
    struct tok_entry *entries;
    size_t n, capacity;
    uint32_t most; /* the highest number of all */
    struct vc_hash_table table;
    /* Sorted by bytes, for all that a text begins with; first[b]: the first that begins with byte b. */
    const struct tok_entry **sorted;
    size_t first[257];
};

/* A text that is there already keeps its first entry, with the last number. */
enum vc_status vc_tok_vocab_add(struct vc_ctx *ctx, struct vc_arena *arena, struct tok_vocab *vocab, const char *s,
                                size_t n, uint32_t id, double score);
/* The entry; NULL if there is none. */
const struct tok_entry *vc_tok_vocab_find(const struct tok_vocab *vocab, const char *s, size_t n);
enum vc_status vc_tok_vocab_sort(struct vc_ctx *ctx, struct tok_vocab *vocab);
void vc_tok_vocab_release(struct vc_ctx *ctx, struct tok_vocab *vocab);

/* Walks over the entries that s begins with, the shortest first. */
struct tok_prefixes {
    size_t low, high, length;
};
struct tok_prefixes vc_tok_prefixes(const struct tok_vocab *vocab, const char *s);
/* The next entry; NULL: no more. */
const struct tok_entry *vc_tok_next_prefix(const struct tok_vocab *vocab, struct tok_prefixes *at, const char *s,
                                           size_t n);

/* ---- steps of normalizers and pre-tokenizers ---- */

enum tok_behavior { TOK_REMOVED, TOK_ISOLATED, TOK_WITH_PREVIOUS, TOK_WITH_NEXT, TOK_CONTIGUOUS };

struct tok_step {
    const struct tok_step_row *row;
    bool flags[4]; /* what its row says */
    bool inverted; /* a cut: what does not match is cut out */
    enum tok_behavior behavior;
    struct vc_pattern *pattern;
    const char *text, *content; /* a text that is sought, or put in */
    size_t n_text, n_content;
    struct vc_charsmap charsmap;
};
struct tok_steps {
    struct tok_step *items;
    size_t n, capacity;
};

/* ---- the models ---- */

struct tok_merge {
    uint32_t left, right, rank, id;
};

struct tok_model {
    const struct tok_model_row *row;
    struct tok_vocab vocab;
    struct tok_merge *merges; /* BPE */
    size_t n_merges;
    struct vc_hash_table merge_table;
    const char *prefix, *suffix; /* of a token that does not begin a word, that ends one; "" */
    size_t most_characters;      /* WordPiece */
    bool byte_fallback, ignore_merges, fuse_unknown;
    uint32_t unknown;         /* VC_NO_ID: none */
    uint32_t byte_ids[256];   /* VC_NO_ID: none */
    double least, most;       /* Unigram: scores */
    uint8_t *types;           /* SentencePiece: by number of the entry, enum vc_piece_type */
    bool is_pieces;           /* of SentencePiece, whose rules are others */
    struct tok_vocab symbols; /* of SentencePiece: texts that are not cut */
};

/* An added token. */
struct tok_added {
    const char *s;
    size_t n;
    uint32_t id;
    bool single_word, left, right, normalized;
};

/* Those that are sought in one kind of text. */
struct tok_added_set {
    struct tok_vocab texts;  /* whose numbers are those of items */
    struct tok_added *items; /* by entry of texts */
    size_t n, capacity;
};

/* A cell of BPE's chain, of Unigram's paths. */
struct tok_cell {
    uint32_t id, begin, n;
    int32_t before, next;
    bool frozen;
};
struct tok_candidate {
    double order;       /* the least first: a rank, or a score below 0 */
    uint32_t place, id; /* id: of what both are, or its bytes (SentencePiece) */
};
struct tok_path {
    double score;
    uint32_t id, from; /* from VC_NO_ID: no path comes here */
};

struct vc_tokenizer {
    struct vc_arena arena;
    struct vc_token_frame frame;
    struct tok_steps normalizers, words;
    struct tok_model model;
    struct tok_added_set raw, normalized; /* added tokens, by the text that they are found in */
    struct tok_vocab contents;            /* all of them, by what they are called */
    struct vc_piece_rules rules;          /* of SentencePiece's normalizer */
    /* work of a text */
    struct tok_text text, other;
    struct tok_pieces pieces, others;
    struct vc_pattern_work pattern_work;
    struct tok_cell *cells;
    struct tok_candidate *heap;
    struct tok_path *paths;
    size_t cell_capacity, n_heap, heap_capacity, path_capacity;
    struct vc_token_list *out;
};

/* ---- who does what ---- */

/* {"type": ...} or null, with those of a "Sequence" one after the other. VC_E_UNSUPPORTED names the part. */
enum vc_status vc_tok_read_normalizers(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part);
enum vc_status vc_tok_read_words(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part);
enum vc_status vc_tok_read_model(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part);
enum vc_status vc_tok_read_added(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *list);
enum vc_status vc_tok_read_frame(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part);
/* The end of a text, by tokenizer_config.json, else config.json; each may be NULL. */
void vc_tok_find_end(struct vc_tokenizer *t, const json_t *settings, const json_t *config);
/* Of SentencePiece alone: what transformers' classes put around a text, a begin for BPE (Llama) and an end for Unigram (T5),
 * unless tokenizer_config.json says otherwise. */
void vc_tok_frame_pieces(struct vc_tokenizer *t, const json_t *settings);
/* The model of SentencePiece at `path`. */
enum vc_status vc_tok_read_pieces(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *path);

/* t->text normalized into `to`, at whose end it is put; t->other is used. at: where the text begins. */
enum vc_status vc_tok_normalize(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, const uint32_t *at, size_t n,
                                struct tok_text *to);
/* The same by SentencePiece's rules. */
enum vc_status vc_tok_normalize_pieces(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, size_t n,
                                       struct tok_text *to);
/* Cuts a word at added tokens of a set, a struct tok_added_set (vc_tok_cut_words). */
enum vc_status vc_tok_cut_added(struct vc_ctx *ctx, struct vc_tokenizer *t, const void *set,
                                const struct tok_piece *word);
/* t->pieces of t->text become words. */
enum vc_status vc_tok_make_words(struct vc_ctx *ctx, struct vc_tokenizer *t);
/* The tokens of a word, added to t->out. */
enum vc_status vc_tok_model_word(struct vc_ctx *ctx, struct vc_tokenizer *t, const char *s, const uint32_t *at,
                                 size_t n);
enum vc_status vc_tok_put_token(struct vc_ctx *ctx, struct vc_tokenizer *t, uint32_t id, uint32_t at);

/* A text of a part, in the arena; *out NULL: it has none. VC_E_FORMAT: it is no text. */
enum vc_status vc_tok_text_of(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part, const char *key,
                              const char **out, size_t *n);
/* A number of a token; VC_NO_ID if it is not one. */
uint32_t vc_tok_number(const json_t *value);
/* A truth value of a part. */
bool vc_tok_flag(const json_t *part, const char *key, bool otherwise);
/* {"String": ...} or {"Regex": ...} of a step. */
enum vc_status vc_tok_read_sought(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *pattern,
                                  struct tok_step *step);
/* The first match of the step's pattern or text from `from` on; *begin == n: none. */
enum vc_status vc_tok_find(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step, const char *s,
                           size_t n, size_t from, size_t *begin, size_t *end);

/* A row of a table of steps: what "type" is called, how it is read and done. */
struct tok_step_row {
    const char *type;
    enum vc_status (*read)(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part, struct tok_step *step);
    /* Of a normalizer: from `s` to `to`, which is empty. */
    enum vc_status (*normalize)(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step,
                                const struct tok_text *from, struct tok_text *to);
    /* Of a pre-tokenizer: t->pieces of t->text. */
    enum vc_status (*cut)(struct vc_ctx *ctx, struct vc_tokenizer *t, const struct tok_step *step);
    bool (*fits)(uint32_t c); /* characters that cut; NULL: the step's pattern or text does */
    /* The library gives characters their places in turn: the first that is left has that of the first that there was. */
    bool in_turn;
};
/* Reads a step or a Sequence of them by the rows. list: the key of a Sequence's steps; what: "normalizer". */
enum vc_status vc_tok_read_steps(struct vc_ctx *ctx, struct vc_tokenizer *t, const json_t *part, const char *list,
                                 const char *what, const struct tok_step_row *rows, size_t n_rows,
                                 struct tok_steps *steps);
