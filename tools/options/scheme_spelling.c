/* scheme_spelling.c - see scheme_spelling.h.
 *
 * Words are changed in place, in buffers of SCHEME_BYTES; what does not fit is cut and then names no scheme. */
#include "tools/options/scheme_spelling.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Where "-g128" of "int4-g128" begins; NULL: the word has no such end. */
static char *dashed_group(char *word)
{
    char *dash = strrchr(word, '-');

    return dash != NULL && dash[1] == 'g' && dash[2] != '\0' && strspn(dash + 2, "0123456789") == strlen(dash + 2)
               ? dash
               : NULL;
}

/* Replaces what stands at `from` to the end of the word. `by` may point into the word. */
static void replace_end(char *word, char *from, const char *by)
{
    char end[SCHEME_BYTES];

    (void)snprintf(end, sizeof end, "%s", by);
    (void)snprintf(from, SCHEME_BYTES - (size_t)(from - word), "%s", end);
}

/* Where `end` begins, if the word ends so and is longer; else NULL. */
static char *at_end(char *word, const char *end)
{
    size_t n = strlen(word);
    size_t m = strlen(end);

    return n > m && strcmp(word + n - m, end) == 0 ? word + n - m : NULL;
}

/* Steps: without leading dashes, in small letters, "-gN" to "/group:N", "-tensor" to "/tensor", other names of
 * floats. */
const char *scheme_spelled(const char *word, char *to)
{
    static const char *const others[][2] = {
        {"f16", "fp16"}, {"float16", "fp16"}, {"half", "fp16"}, {"bfloat16", "bf16"}};
    static const char *const kinds[] = {"-tensor", "-channel"};
    char group[SCHEME_BYTES];

    word += strncmp(word, "--", 2) == 0 ? 2 : 0;
    (void)snprintf(to, SCHEME_BYTES, "%s", word);
    for (char *p = to; *p != '\0'; p++) {
        *p = (char)tolower((unsigned char)*p);
    }
    char *found = dashed_group(to);
    if (found != NULL) {
        (void)snprintf(group, sizeof group, "/group:%s", found + 2);
        replace_end(to, found, group);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        found = at_end(to, kinds[i]);
        if (found != NULL) {
            *found = '/';
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(to, others[i][0]) == 0) {
            (void)snprintf(to, SCHEME_BYTES, "%s", others[i][1]);
        }
    }
    return to;
}

/* From the usual spelling: "/group:64" to "-g64", the default granularity goes, any other slash becomes a dash. */
const char *scheme_spelled_for_estimates(const char *word, char *to)
{
    char group[SCHEME_BYTES];

    (void)scheme_spelled(word, to);
    char *found = strstr(to, "/group:");
    if (found != NULL) {
        (void)snprintf(group, sizeof group, "-g%s", found + strlen("/group:"));
        replace_end(to, found, group);
    }
    if (strcmp(to, "int8/channel") == 0 || strcmp(to, "fp8/tensor") == 0) {
        *strchr(to, '/') = '\0'; /* the usual one has no end there */
    }
    found = strchr(to, '/');
    if (found != NULL) {
        *found = '-';
    }
    return to;
}
