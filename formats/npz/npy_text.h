/* npy_text.h - the text of an npy header while it is parsed: the Python literals that NumPy writes. Used by npy.c for
 * the dict and by npy_descr.c for the value of 'descr'. Nothing is evaluated: a header is no program. */
#pragma once

#include "core/base/ctx.h"

/* `p` is the next character. Positions in sentences count from start. */
struct vc_npy_text {
    struct vc_ctx *ctx;
    const unsigned char *start, *p, *end;
};

/* A string of the text, without its quotes, escapes as they stand there. */
struct vc_npy_string {
    const unsigned char *p;
    size_t n;
};

/* Fails with "found X at byte N, expected Y". */
enum vc_status vc_npy_unexpected(const struct vc_npy_text *text, const char *expected);

/* Skips white space; the next character is c. */
bool vc_npy_next_is(struct vc_npy_text *text, char c);

/* The same, and goes past it. */
bool vc_npy_take(struct vc_npy_text *text, char c);

/* True (and past it) when the text goes on with that word. */
bool vc_npy_take_word(struct vc_npy_text *text, const char *word);

/* A string in quotes of either kind. escapes: a backslash may stand in it, as in names of fields; otherwise that is
 * refused, since none of the keys and no type of numbers has any. */
enum vc_status vc_npy_take_string(struct vc_npy_text *text, const char *expected, bool escapes,
                                  struct vc_npy_string *out);

/* The string is that text. */
bool vc_npy_string_is(const struct vc_npy_string *s, const char *what);

/* A tuple of dimensions, "()", "(3,)", "(3, 4)", "(3, 4,)"; shape has VC_MAX_DIMS places. "(3)" is a number in Python
 * and no tuple, so it is refused. */
enum vc_status vc_npy_take_shape(struct vc_npy_text *text, uint64_t *shape, unsigned *n_dims);
