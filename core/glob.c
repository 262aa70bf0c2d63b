/* glob.c - matching of tensor names. Iterative: a `*` is retried from the last one only, so no pattern is slow. */
#include <stddef.h>

#include "core/pass.h"

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

bool vc_glob_match(const char *glob, const char *s)
{
    const char *star = NULL; /* behind the last '*' seen */
    const char *retry = NULL;

    while (*s != '\0') {
        const char *next = glob;

        if (*glob == '*') {
            star = ++glob;
            retry = s;
        } else if (*glob != '\0' && match_one(&next, *s)) {
            glob = next;
            s++;
        } else if (star != NULL) {
            glob = star;
            s = ++retry;
        } else {
            return false;
        }
    }
    while (*glob == '*') {
        glob++;
    }
    return *glob == '\0';
}
