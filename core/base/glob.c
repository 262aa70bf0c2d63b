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

static unsigned char pair_of(const char *s)
{
    return (unsigned char)((unsigned)(unsigned char)s[0] * 37 + (unsigned char)s[1]);
}

static bool is_plain(char c)
{
    return c != '\0' && strchr("*?[]\\", c) == NULL;
}

/* Adds the pairs that stand in the glob itself: those of ".weight", which most names have, or all others. Characters
 * behind a '[' may be in a set. */
static void add_pairs(struct vc_glob_set *set, size_t index, bool usual)
{
    const char *glob = set->globs[index];
    size_t end = strcspn(glob, "[");
    size_t k;

    for (k = 0; k + 1 < end && set->n_pairs[index] < VC_GLOB_PAIRS; k++) {
        const char pair[3] = {glob[k], glob[k + 1], '\0'};

        if (is_plain(pair[0]) && is_plain(pair[1]) && (strstr(".weight", pair) != NULL) == usual) {
            set->pairs[index][set->n_pairs[index]++] = pair_of(pair);
        }
    }
}

static void prepare(struct vc_glob_set *set)
{
    size_t i;

    for (i = 0; i < set->n; i++) {
        add_pairs(set, i, false);
        add_pairs(set, i, true);
    }
}

size_t vc_glob_set_find(struct vc_glob_set *set, const char *name)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    bool has[256] = {false};
    size_t i;
    size_t k;

    if (!atomic_load_explicit(&set->ready, memory_order_acquire)) {
        (void)pthread_mutex_lock(&mutex);
        if (!atomic_load_explicit(&set->ready, memory_order_relaxed)) {
            prepare(set);
            atomic_store_explicit(&set->ready, true, memory_order_release);
        }
        (void)pthread_mutex_unlock(&mutex);
    }
    for (i = 0; name[0] != '\0' && name[i + 1] != '\0'; i++) {
        has[pair_of(name + i)] = true;
    }
    for (i = 0; i < set->n; i++) {
        for (k = 0; k < set->n_pairs[i] && has[set->pairs[i][k]]; k++) {
        }
        if (k == set->n_pairs[i] && vc_glob_match(set->globs[i], name)) {
            return i;
        }
    }
    return SIZE_MAX;
}
