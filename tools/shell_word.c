/* shell_word.c - words of command lines, for whoever copies them into a shell. */
#include <stdlib.h>
#include <string.h>

#include "tools/print.h"

static bool is_clean(const char *s)
{
    char *clean = text_clean(s);
    bool same = clean != NULL && strcmp(clean, s) == 0;

    free(clean);
    return same;
}

/* "$(printf 'new\012line')": what a terminal must not see, in words that every shell knows. Line breaks at the end,
 * which a shell drops, stand behind it. */
static void put_printf(FILE *to, const char *s)
{
    size_t n = strlen(s);
    size_t end = n;

    while (end > 0 && s[end - 1] == '\n') {
        end--;
    }
    fputs("\"$(printf '", to);
    for (size_t i = 0; i < end; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c == '%') {
            fputs("%%", to);
        } else if (s[i] < 0x20 || s[i] >= 0x7f || c == '\'' || c == '\\') {
            fprintf(to, "\\%03o", c);
        } else {
            fputc(c, to);
        }
    }
    fprintf(to, "')%s\"", s + end);
}

char *shell_word(const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+@%-";
    char *word = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&word, &n);

    if (to == NULL) {
        return NULL;
    }
    if (s[0] != '\0' && s[strspn(s, plain)] == '\0') {
        fputs(s, to);
    } else if (!is_clean(s)) {
        put_printf(to, s);
    } else {
        fputc('\'', to);
        for (; *s != '\0'; s++) {
            fputs(*s == '\'' ? "'\\''" : (char[]){*s, '\0'}, to);
        }
        fputc('\'', to);
    }
    if (ferror(to) | fclose(to)) {
        free(word);
        return NULL;
    }
    return word;
}

bool print_shell_word(FILE *to, const char *s)
{
    char *word = shell_word(s);

    fprintf(to, " %s", word != NULL ? word : "");
    free(word);
    return word != NULL;
}
