/* text.h - a string that grows, and how strings and numbers look in JSON. json_write.h makes documents of them. */
#pragma once

#include "core/base/ctx.h"

struct vc_arena;

struct vc_text {
    struct vc_ctx *ctx;
    char *data; /* NUL-terminated once something was added; owned, vc_text_release */
    size_t n, capacity;
    bool counting;         /* no text is made: only n, what it would have, is known in the end */
    enum vc_status status; /* first failure; later calls do nothing */
};

void vc_text_init(struct vc_text *text, struct vc_ctx *ctx);
void vc_text_release(struct vc_text *text);
#define VC_SCOPED_TEXT VC_CLEANUP(vc_text_release) /* before a text that ends with its scope; VC_SCOPED has the idea */
void vc_text_add(struct vc_text *text, const char *format, ...) VC_PRINTF(2, 3);
void vc_text_add_bytes(struct vc_text *text, const char *bytes, size_t n);
void vc_text_add_uint(struct vc_text *text, uint64_t v);

/* Room for n bytes more and not one beyond them, for a large text whose length was counted before. */
void vc_text_room(struct vc_text *text, size_t n);

#define VC_UINT_DIGITS 20

/* Writes the digits of v to `to`, without a NUL; tells how many. */
size_t vc_put_uint(char *to, uint64_t v);

/* How many of the n bytes at s, from the first on, are ASCII that stands in a JSON string as it is. */
size_t vc_json_plain_bytes(const char *s, size_t n);

/* "..." with JSON escapes; bytes that are no UTF-8 become U+FFFD. */
void vc_text_add_json_string(struct vc_text *text, const char *s);

/* A number with the fewest digits that read back the same; null for NaN and infinities. Locale-independent. */
void vc_text_add_json_number(struct vc_text *text, double x);

/* The text, for vc_text_free, which the pool counts until then; `text` is empty. NULL, with text->status telling why. */
char *vc_text_detach(struct vc_text *text);

/* Moves the text into an arena, "" where nothing was added; `text` is released, also after a failure. What failed in `text`, or
 * VC_E_NOMEM; *out is NULL then. */
enum vc_status vc_text_take(struct vc_text *text, struct vc_arena *arena, const char **out);

/* "60000, 28, 28", cut where `to` is full; returns `to`. */
const char *vc_shape_text(const uint64_t *shape, unsigned n_dims, char *to, size_t room);

bool vc_ends_in(const char *text, const char *end);
/* The path ends so, in capitals, too, and has something before it. */
bool vc_path_ends_in(const char *path, const char *suffix);
/* "a" is one of the words of "a b" (or of "a|b"). */
bool vc_is_one_of(const char *word, const char *words);

/* Appends a number of n bytes, 2, 4 or 8, little-endian. */
void vc_text_add_le(struct vc_text *text, uint64_t v, size_t n);

/* What is behind the last '/' of a path. */
const char *vc_base_name(const char *path);

/* For qsort and bsearch, bytewise: a and b point to elements of an array of texts. */
int vc_compare_texts(const void *a, const void *b);

/* The bytes to change, insert or delete to turn a into b (edit distance). Of longer texts the first 128 bytes count. */
size_t vc_text_distance(const char *a, const char *b);

/* A blank, and the word as a shell and a recipe read it back (vc_shell_word). A path that begins with '-' becomes "./-x":
 * no option. */
void vc_text_add_shell_word(struct vc_text *text, const char *word);
void vc_text_add_shell_path(struct vc_text *text, const char *path);

/* Bytes of the valid UTF-8 character at s, of which n > 0 bytes are there; 0 if there is none. NUL is one. */
size_t vc_utf8_length(const char *s, size_t n);
/* True when the n bytes are valid UTF-8 without NUL. */
bool vc_utf8_valid(const char *s, size_t n);
