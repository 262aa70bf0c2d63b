/* shell_word.c - words of command lines that are printed or stored: recipes, plans, reports, advice. Every name in one
 * goes through here, so that what a user pastes into a shell names the file and does nothing else.
 *
 *     in.npz                 in.npz                   nothing that a shell knows
 *     my $(x) it's           'my $(x) it'\''s'        quotes
 *     new<line break>line    "$(printf 'new\012line')"    what a terminal must not see, in words that every sh knows
 *
 * Line breaks at the end, which a shell drops from the output of a command, stand behind it. */

#include <vcompress/report.h>

#include "core/text/text.h"

/* A terminal shows it, and it neither hides nor reorders what is around it. n bytes are left, c begins a character. */
static bool is_clean(const unsigned char *s)
{
    if (!vc_utf8_valid((const char *)s, strlen((const char *)s))) {
        return false;
    }
    for (; *s != '\0'; s++) {
        bool hides = (s[0] == 0xc2 && (s[1] < 0xa0 || s[1] == 0xad)) || (s[0] == 0xd8 && s[1] == 0x9c) ||
                     (s[0] == 0xe2 && (s[1] == 0x80 || s[1] == 0x81) && s[2] >= 0x8b) ||
                     (s[0] == 0xe2 && s[1] == 0x81 && s[2] >= 0xa0) ||
                     (s[0] == 0xef && ((s[1] == 0xbb && s[2] == 0xbf) || (s[1] == 0xbf && s[2] >= 0xb9))) ||
                     (s[0] == 0xf3 && s[1] >= 0xa0) || s[0] == 0xf4;

        if (*s < 0x20 || *s == 0x7f || hides) {
            return false;
        }
    }
    return true;
}

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
        } else if (c < 0x20 || c >= 0x7f || c == '\'' || c == '\\' || (c == '-' && i == 0)) {
            fprintf(to, "\\%03o", c); /* a '-' in front would be an option of printf */
        } else {
            fputc(c, to);
        }
    }
    fprintf(to, "')%s\"", s + end);
}

char *vc_shell_word(const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+@%-";
    char *word = NULL;
    char *given = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&word, &n);

    if (to == NULL) {
        return NULL;
    }
    if (s[0] != '\0' && s[strspn(s, plain)] == '\0') {
        fputs(s, to);
    } else if (!is_clean((const unsigned char *)s)) {
        put_printf(to, s);
    } else {
        fputc('\'', to);
        for (; *s != '\0'; s++) {
            fputs(*s == '\'' ? "'\\''" : (char[]){*s, '\0'}, to);
        }
        fputc('\'', to);
    }
    if ((ferror(to) | fclose(to)) == 0) {
        given = vc_pool_new_given(n + 1);
    }
    if (given != NULL) {
        memcpy(given, word, n);
    }
    free(word);
    return given;
}

void vc_text_add_shell_word(struct vc_text *text, const char *word)
{
    char *quoted = vc_shell_word(word);

    vc_text_add(text, " %s", quoted != NULL ? quoted : "");
    if (quoted == NULL && text->status == VC_OK) {
        text->status = vc_fail(text->ctx, VC_E_NOMEM, "not enough memory for a command line");
    }
    vc_text_free(quoted);
}

void vc_text_add_shell_path(struct vc_text *text, const char *path)
{
    size_t n = strlen(path) + sizeof "./";
    char *beside = path[0] == '-' && path[1] != '\0' ? vc_alloc(text->ctx, VC_TAG_NAMES, n) : NULL;

    if (beside != NULL) {
        (void)snprintf(beside, n, "./%s", path);
    }
    vc_text_add_shell_word(text, beside != NULL ? beside : path);
    vc_free(text->ctx, beside);
}
