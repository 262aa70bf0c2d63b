/* match_word.c - see match_word.h.
 *
 *     conv3=conv2:mse:0.1     teacher "conv3", student "conv2", kind mse, weight 0.1
 *     a:b=c:mse               names may have colons: the kind is behind the last one, or the last but one */
#include "tools/options/match_word.h"

#include <stdio.h>
#include <string.h>

/* Cuts what stands behind the last colon off the text; "" where there is none. */
static char *cut_last(char *text)
{
    char *colon = strrchr(text, ':');

    if (colon == NULL) {
        return text + strlen(text);
    }
    *colon = '\0';
    return colon + 1;
}

/* The first '=' divides the names. The last part is a weight if it is a number, and the kind is then before it. */
bool match_word(const char *word, char *text, struct vc_match *match)
{
    static const char *const kinds[] = {"mse", "attention", "cosine", "distances", "angles", "gram"};
    char end;

    *match = (struct vc_match){.weight = 1};
    if (strlen(word) >= MATCH_BYTES) {
        return false;
    }
    memcpy(text, word, strlen(word) + 1);
    char *is = strchr(text, '=');
    if (is == NULL || is == text) {
        return false;
    }
    *is = '\0';
    char *last = cut_last(is + 1);
    last = sscanf(last, "%lf%c", &match->weight, &end) == 1 ? cut_last(is + 1) : last;
    match->teacher = text;
    match->student = is + 1;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        if (strcmp(last, kinds[k]) == 0 && is[1] != '\0') {
            match->kind = (enum vc_match_kind)k;
            return true;
        }
    }
    return false;
}
