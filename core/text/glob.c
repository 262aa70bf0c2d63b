/* glob.c - matching of tensor names. Iterative: a `*` is retried from the last one only, so no pattern is slow. */
#include "core/text/glob.h"

#include <pthread.h>
#include <string.h>

#define MAX_WORD 96 /* of a list of globs */

/* Matches one set "[...]" at *glob against c; *glob moves behind it. A '[' without ']' stands for itself. */
static bool match_set(const char **glob, char c)
{
    const char *p = *glob + 1;
    bool negate = *p == '!' || *p == '^';
    bool hit = false;

    p += negate;
    for (const char *first = p; *p != '\0' && (*p != ']' || p == first); p++) {
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

static uint32_t read_four(const char *s)
{
    uint32_t four;

    memcpy(&four, s, sizeof four);
    return four;
}

/* Its place in `first`, below VC_GLOB_FOURS. */
static size_t place_of(uint32_t four)
{
    return (size_t)(four * UINT32_C(0x9e3779b1) >> 22);
}

static bool is_plain(char c)
{
    return c != '\0' && strchr("*?[]\\", c) == NULL;
}

/* Four characters that stand in the glob itself, such as few names have: the last ones that are no part of ".weight",
 * which most names end in, where there are any. Characters behind a '[' may be in a set. NULL if there are none. */
static const char *choose_four(const char *glob)
{
    size_t end = strcspn(glob, "[");
    const char *usual = NULL;
    const char *best = NULL;

    for (size_t k = 0; k + 4 <= end; k++) {
        const char four[5] = {glob[k], glob[k + 1], glob[k + 2], glob[k + 3], '\0'};

        if (is_plain(four[0]) && is_plain(four[1]) && is_plain(four[2]) && is_plain(four[3])) {
            *(strstr(".weight", four) != NULL ? &usual : &best) = glob + k;
        }
    }
    return best != NULL ? best : usual;
}

bool vc_glob_any(const char *globs, const char *s)
{
    while (*globs != '\0') {
        char glob[MAX_WORD];
        size_t n = strcspn(globs, " ");

        if (n < sizeof glob) {
            memcpy(glob, globs, n);
            glob[n] = '\0';
            if (vc_glob_match(glob, s)) {
                return true;
            }
        }
        globs += n + strspn(globs + n, " ");
    }
    return false;
}

static void prepare(struct vc_glob_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        const char *four = choose_four(set->globs[i]);

        if (four == NULL) {
            set->always |= UINT32_C(1) << i;
            continue;
        }
        set->fours[i] = read_four(four);
        size_t place = place_of(set->fours[i]);
        set->next[i] = set->first[place];
        set->first[place] = (uint8_t)(i + 1);
    }
}

size_t vc_glob_set_find(struct vc_glob_set *set, const char *name)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    size_t n = strlen(name);

    if (!atomic_load_explicit(&set->ready, memory_order_acquire)) {
        (void)pthread_mutex_lock(&mutex);
        if (!atomic_load_explicit(&set->ready, memory_order_relaxed)) {
            prepare(set);
            atomic_store_explicit(&set->ready, true, memory_order_release);
        }
        (void)pthread_mutex_unlock(&mutex);
    }
    uint32_t maybe = set->always;
    for (size_t i = 0; i + 4 <= n; i++) {
        uint32_t four = read_four(name + i);

        for (size_t of = set->first[place_of(four)]; of != 0; of = set->next[of - 1]) {
            maybe |= set->fours[of - 1] == four ? UINT32_C(1) << (of - 1) : 0;
        }
    }
    for (size_t i = 0; maybe != 0; i++, maybe >>= 1) { /* of several that match the first one counts */
        if ((maybe & 1) != 0 && vc_glob_match(set->globs[i], name)) {
            return i;
        }
    }
    return SIZE_MAX;
}
