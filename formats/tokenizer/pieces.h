/* pieces.h - the protobuf ModelProto of SentencePiece: its pieces, and how it changes texts.
 *
 *     ModelProto   1 piece {1 text, 2 score f32, 3 type}
 *                  2 trainer {3 kind: 1 Unigram, 2 BPE, 24 spaces behind words, 35 bytes for unknown, 40 unknown, 41 begin, 42 end}
 *                  3 normalizer {2 table of characters, 3 a space goes in front, 4 spaces are joined, 5 spaces become U+2581}
 *
 * Types of pieces have the numbers that GGUF has. */
#pragma once

#include "core/base/arena.h"
#include "core/text/text.h"

enum vc_piece_type {
    VC_PIECE_NORMAL = 1,
    VC_PIECE_UNKNOWN = 2,
    VC_PIECE_CONTROL = 3,
    VC_PIECE_USER = 4, /* found in a text whatever is around it */
    VC_PIECE_UNUSED = 5,
    VC_PIECE_BYTE = 6
};

struct vc_piece {
    const char *text;
    size_t n;
    int32_t type;
    float score;
};

#define VC_PIECES_UNIGRAM 1
#define VC_PIECES_BPE     2

struct vc_piece_rules {
    uint64_t kind;
    bool space_prefix, joins_spaces, escapes_spaces, space_behind, byte_fallback;
    const unsigned char *charsmap; /* NULL: none */
    size_t n_charsmap;
    uint64_t unknown, begin, end; /* numbers; UINT64_MAX if there is none */
};

/* Calls `take` for each piece in its order; texts are the arena's. VC_E_UNSUPPORTED: neither BPE nor Unigram. Sentences
 * name the file's base name. */
enum vc_status vc_pieces_read(struct vc_ctx *ctx, struct vc_arena *arena, const char *path,
                              struct vc_piece_rules *rules,
                              enum vc_status (*take)(void *user, uint64_t number, const struct vc_piece *piece),
                              void *user);

/* precompiled_charsmap: a trie in a double array, then texts that end in NUL. */
struct vc_charsmap {
    const unsigned char *trie, *texts;
    size_t n_units, n_texts;
};

/* Bytes from base64, up to a '=': the arena's. tokenizer.json has a precompiled_charsmap so, tiktoken's files each
 * token. what: what the text is, for the sentence. */
enum vc_status vc_base64_decode(struct vc_ctx *ctx, struct vc_arena *arena, const char *text, const char *what,
                                const unsigned char **out, size_t *n);
void vc_base64_put(struct vc_text *to, const unsigned char *bytes, size_t n);
/* VC_E_FORMAT if it is not one. n 0: an empty one. */
enum vc_status vc_charsmap_open(struct vc_ctx *ctx, const unsigned char *bytes, size_t n, struct vc_charsmap *out);
/* What the longest, or the shortest, key that s begins with becomes; *used: bytes of the key. NULL: no key fits. */
const char *vc_charsmap_find(const struct vc_charsmap *map, const char *s, size_t n, bool longest, size_t *used);
