/* recompute_word.c - see recompute_word.h. */
#include "tools/options/recompute_word.h"

#include <string.h>

#include "tools/options/options.h"

/* The words are in the order of enum vc_recompute. */
bool recompute_word(const char *text, enum vc_recompute *kind, unsigned *every)
{
    static const char *const words[] = {"none", "sqrt", "every:", "layer", "selective", "auto"};
    size_t n = strlen(words[VC_RECOMPUTE_EVERY]);
    uint64_t count;

    if (strncmp(text, words[VC_RECOMPUTE_EVERY], n) == 0) {
        if (!options_count(text + n, &count) || count == 0 || count > 1000000) {
            return false;
        }
        *kind = VC_RECOMPUTE_EVERY;
        *every = (unsigned)count;
        return true;
    }
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        if (strcmp(text, words[k]) == 0) {
            *kind = (enum vc_recompute)k;
            *every = 0;
            return true;
        }
    }
    return false;
}
