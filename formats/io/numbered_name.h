/* numbered_name.h - names of files that belong together: "model-00002-of-00003.gguf". */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define VC_NUMBERED_FORMAT "%.*s-%05lu-of-%05lu%s" /* n_prefix (int), prefix, number, count, extension */

/* What such a name says. */
struct vc_numbered_name {
    size_t n_prefix; /* of the name; folders included if it has any */
    unsigned long number, count;
};

/* False if the name has another form. extension: what has to follow the numbers; NULL: anything that begins with a
 * dot, or nothing. Takes numbers of up to 9 digits. */
bool vc_numbered_name_parse(const char *name, const char *extension, struct vc_numbered_name *out);
