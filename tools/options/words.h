/* words.h - a line of text as the words of a command line: parted by blanks; 'as it is', "with \" and \\ inside", and
 * \x for x, and "$(printf 'a\012b')" as vc_shell_word makes it. No variables, no globs: a recipe does the same on every machine. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define MAX_WORDS 128

struct words {
    int n;
    char *word[MAX_WORDS + 1]; /* NULL behind the last; in `text` */
    char *text;
    const char *error; /* why it is no line: static */
};

/* Cuts the n bytes of a line; # begins a comment where a word would begin. False: words->error says why. words_free in
 * any case. */
bool words_cut(const char *line, size_t n, struct words *words);
void words_free(struct words *words);
