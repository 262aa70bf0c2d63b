/* glob.c - matching of tensor names. Iterative: a `*` is retried from the last one only, so no pattern is slow. */
#include "core/base/glob.h"

#include <pthread.h>
#include <string.h>

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

/* ---- sets ---- */

static void add_pair(uint64_t pairs[4], const char *s)
{
    unsigned pair = ((unsigned)(unsigned char)s[0] * 37 + (unsigned char)s[1]) & 255;

    pairs[pair / 64] |= (uint64_t)1 << pair % 64;
}

static bool is_plain(char c)
{
    return c != '\0' && strchr("*?[]\\", c) == NULL;
}

/* The pairs that stand in the glob itself. Those behind a '[' may be in a set, and are left out. */
static void prepare(struct vc_glob_set *set)
{
    size_t i;
    size_t k;

    for (i = 0; i < set->n; i++) {
        const char *glob = set->globs[i];

        for (k = 0; glob[k] != '\0' && glob[k] != '['; k++) {
            if (is_plain(glob[k]) && is_plain(glob[k + 1])) {
                add_pair(set->pairs[i], glob + k);
            }
        }
    }
}

size_t vc_glob_set_find(struct vc_glob_set *set, const char *name)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    uint64_t has[4] = {0};
    size_t i;

    if (!atomic_load_explicit(&set->ready, memory_order_acquire)) {
        (void)pthread_mutex_lock(&mutex);
        if (!atomic_load_explicit(&set->ready, memory_order_relaxed)) {
            prepare(set);
            atomic_store_explicit(&set->ready, true, memory_order_release);
        }
        (void)pthread_mutex_unlock(&mutex);
    }
    for (i = 0; name[0] != '\0' && name[i + 1] != '\0'; i++) {
        add_pair(has, name + i);
    }
    for (i = 0; i < set->n; i++) {
        const uint64_t *needs = set->pairs[i];
        uint64_t lacks = (needs[0] & ~has[0]) | (needs[1] & ~has[1]) | (needs[2] & ~has[2]) | (needs[3] & ~has[3]);

        if (lacks == 0 && vc_glob_match(set->globs[i], name)) {
            return i;
        }
    }
    return SIZE_MAX;
}
