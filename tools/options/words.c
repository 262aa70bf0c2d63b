/* words.c - see words.h. Words of a recipe's line, as a POSIX shell would cut them, without its expansions:
 *
 *     'a b'                 as it is
 *     "a b"                 a backslash stands before a quote and before a backslash
 *     a\ b                  one word
 *     # ...                 a comment, where a word would begin
 *     "$(printf 'a\012b')"  what vc_shell_word makes of control characters */
#include "tools/options/words.h"

#include <stdlib.h>
#include <string.h>

/* A carriage return is one: recipes may come from Windows. */
static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The end of "$(printf 'a\\012b')", behind the quote: what vc_shell_word makes of a word with control characters. Its
 * text goes to *to, and *at moves on to what follows the parenthesis. False: it is something else, and nothing is
 * moved. \NNN is a byte in octal, %% a percent sign. A byte of 0 is refused: words end with one. */
static bool cut_printf(const char **at, const char *end, char **to)
{
    static const char begin[] = "$(printf '";
    size_t n = sizeof(begin) - 1;
    const char *s = *at;
    char *out = *to;

    if ((size_t)(end - s) < n || memcmp(s, begin, n) != 0) {
        return false;
    }
    for (s += n; s < end && *s != '\'';) {
        size_t left = (size_t)(end - s);

        if (*s == '\\' && left > 3 && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' &&
            s[3] <= '7') {
            *out = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            if (*out++ == '\0') {
                return false;
            }
            s += 4;
        } else if (*s == '%' && left > 1 && s[1] == '%') {
            *out++ = '%';
            s += 2;
        } else if (*s != '\\' && *s != '%') {
            *out++ = *s++;
        } else {
            return false;
        }
    }
    if (end - s < 2 || s[1] != ')') {
        return false;
    }
    *at = s + 2;
    *to = out;
    return true;
}

/* One word from *at on, written to *to with a 0 behind it. False: *error says what is wrong. */
static bool cut_word(const char **at, const char *end, char **to, const char **error)
{
    char quote = '\0';

    while (*at < end && (quote != '\0' || !is_blank(**at))) {
        char c = *(*at)++;

        if (c == quote && quote != '\0') {
            quote = '\0';
        } else if (quote == '\0' && (c == '\'' || c == '"')) {
            quote = c;
            if (c == '"') {
                (void)cut_printf(at, end, to);
            }
        } else if (c == '\\' && quote != '\'' && (quote == '\0' || (*at < end && (**at == '"' || **at == '\\')))) {
            if (*at == end) {
                *error = "a backslash ends the line";
                return false;
            }
            *(*to)++ = *(*at)++;
        } else {
            *(*to)++ = c;
        }
    }
    if (quote != '\0') {
        *error = quote == '"' ? "\" is not closed" : "' is not closed";
        return false;
    }
    *(*to)++ = '\0';
    return true;
}

/* Words lie one behind the other in words->text. A failed call leaves the text to words_free. */
bool words_cut(const char *line, size_t n, struct words *words)
{
    const char *end = line + n;

    *words = (struct words){.text = malloc(2 * n + 1)}; /* every word has one byte more, and takes at least one */
    if (words->text == NULL) {
        words->error = "not enough memory";
        return false;
    }
    char *to = words->text;
    if (memchr(line, '\0', n) != NULL) {
        words->error = "it holds a zero byte, so it is no text";
        return false;
    }
    for (;;) {
        while (line < end && is_blank(*line)) {
            line++;
        }
        if (line == end || *line == '#') {
            return true;
        }
        if (words->n == MAX_WORDS) {
            words->error = "it has too many words";
            return false;
        }
        words->word[words->n++] = to;
        if (!cut_word(&line, end, &to, &words->error)) {
            return false;
        }
    }
}

/* Ready for more words afterwards. */
void words_free(struct words *words)
{
    free(words->text);
    words->text = NULL;
}
