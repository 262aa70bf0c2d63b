/* glob.c - matching of tensor names. Iterative: a `*` is retried from the last one only, so no pattern is slow. */
#include <string.h>

#include "core/base/glob.h"

/* Matches one set "[...]" at *glob against c; *glob moves behind it. A '[' without ']' stands for itself. */
static bool match_set(const char **glob, char c)
{
    const char *p = *glob + 1;
    bool negate = *p == '!' || *p == '^';
    bool hit = false;
    const char *first;

    p += negate;
    for (first = p; *p != '\0' && (*p != ']' || p == first); p++) {
        if (p[1] == '-' && p[2] != ']' && p[2] != '\0') {
            hit |= (unsigned char)p[0] <= (unsigned char)c && (unsigned char)c <= (unsigned char)p[2];
            p += 2;
        } else {
            hit |= *p == c;
        }
    }
    if (*p == '\0') {
        (*glob)++;
        return c == '[';
    }
    *glob = p + 1;
    return hit != negate;
}

/* Matches one pattern element that is not '*'; *glob moves behind it. */
static bool match_one(const char **glob, char c)
{
    if (**glob == '?') {
        (*glob)++;
        return true;
    }
    if (**glob == '[') {
        return match_set(glob, c);
    }
    if (**glob == '\\' && (*glob)[1] != '\0') {
        (*glob)++;
    }
    return *(*glob)++ == c;
}

/* The first place in s where what follows a '*' can begin; NULL: nowhere. Globs begin or end in "*word" mostly, and
 * words are found faster than by trying every place. */
static const char *first_place(const char *glob, const char *s)
{
    size_t plain = 0;
    size_t n;

    while (glob[plain] != '\0' && glob[plain] != '*' && glob[plain] != '?' && glob[plain] != '[' &&
           glob[plain] != '\\') {
        plain++;
    }
    if (glob[plain] == '\0') { /* it has to be the end */
        n = strlen(s);
        return n >= plain && memcmp(s + n - plain, glob, plain) == 0 ? s + n - plain : NULL;
    }
    if (plain < 2) {
        return plain == 0 ? s : strchr(s, glob[0]);
    }
    for (; *s != '\0'; s++) {
        if (s[0] == glob[0] && s[1] == glob[1] && strncmp(s, glob, plain) == 0) {
            return s;
        }
    }
    return NULL;
}

/* The last character alone rules most names out where many globs are tried. True: nothing is known. */
static bool end_may_match(const char *glob, const char *s)
{
    size_t n = strlen(glob);
    size_t length = strlen(s);

    return n == 0 || length == 0 || strchr("*?]", glob[n - 1]) != NULL || glob[n - 1] == s[length - 1];
}

bool vc_glob_match(const char *glob, const char *s)
{
    const char *star = NULL; /* behind the last '*' seen */
    const char *retry = NULL;

    if (!end_may_match(glob, s)) {
        return false;
    }
    while (*s != '\0') {
        const char *next = glob;

        if (*glob == '*') {
            star = ++glob;
            retry = first_place(star, s);
        } else if (*glob != '\0' && match_one(&next, *s)) {
            glob = next;
            s++;
            continue;
        } else if (star != NULL) {
            glob = star;
            retry = first_place(star, retry + 1);
        } else {
            return false;
        }
        if (retry == NULL) {
            return false;
        }
        s = retry;
    }
    while (*glob == '*') {
        glob++;
    }
    return *glob == '\0';
}

static unsigned pair_of(const char *s)
{
    return ((unsigned)(unsigned char)s[0] * 37 + (unsigned char)s[1]) & 255;
}

void vc_glob_name(struct vc_glob_name *name, const char *s)
{
    size_t i;

    *name = (struct vc_glob_name){.s = s, .n = strlen(s)};
    for (i = 0; i + 1 < name->n; i++) {
        unsigned pair = pair_of(s + i);

        name->pairs[pair / 64] |= (uint64_t)1 << pair % 64;
    }
}

static bool is_special(char c)
{
    return c == '\0' || c == '*' || c == '?' || c == '[' || c == '\\';
}

bool vc_glob_match_name(const char *glob, const struct vc_glob_name *name)
{
    const char *word = glob + (*glob == '*');
    size_t i;

    for (i = 0; i < 4 && !is_special(word[i]) && !is_special(word[i + 1]); i++) {
        unsigned pair = pair_of(word + i);

        if ((name->pairs[pair / 64] >> pair % 64 & 1) == 0) {
            return false;
        }
    }
    return vc_glob_match(glob, name->s);
}
