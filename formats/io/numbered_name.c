/* numbered_name.c - see numbered_name.h. */
#include "formats/io/numbered_name.h"

#include <stdio.h>
#include <string.h>

/* Looks for "-of-" from the end of the name, then for the digits before and behind it. "%9lu" keeps numbers within 9
 * digits. */
bool vc_numbered_name_parse(const char *name, const char *extension, struct vc_numbered_name *out)
{
    const char *at = name + strlen(name);
    int end = 0;

    while (at != name && strncmp(at, "-of-", 4) != 0) {
        at--;
    }
    while (at != name && at[-1] >= '0' && at[-1] <= '9') {
        at--;
    }
    if (at == name || at[-1] != '-' || sscanf(at, "%9lu-of-%9lu%n", &out->number, &out->count, &end) != 2) {
        return false;
    }
    if (extension != NULL ? strcmp(at + end, extension) != 0 : at[end] != '\0' && at[end] != '.') {
        return false;
    }
    out->n_prefix = (size_t)(at - 1 - name);
    return true;
}
