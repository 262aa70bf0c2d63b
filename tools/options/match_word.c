/* match_word.c - see match_word.h.
 *
 *     conv3=conv2:mse:0.1     teacher "conv3", student "conv2", kind mse, weight 0.1
 *     conv3=conv2:mse:0.1:0   the weight goes from 0.1 to 0
 *     a:b=c:mse               names may have colons: the kind is behind the last one that is before no number */
#include "tools/options/match_word.h"

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

/* The first '=' divides the names. The last part is a weight if it is a number, as may be the part before it; the kind is before these. */
bool match_word(const char *word, char *text, struct vc_match *match)
{
    static const char *const kinds[] = {"mse", "attention", "cosine", "distances", "angles", "gram"};
    double numbers[2]; /* the last one first */
    unsigned n;
    char end;

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
    for (n = 0; n < 2 && sscanf(last, "%lf%c", &numbers[n], &end) == 1; n++) {
        last = cut_last(is + 1);
    }
    match->weight = n != 0 ? numbers[n - 1] : 1;
    match->weight_change = n == 2 ? numbers[0] - numbers[1] : 0;
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
