/* c_header.h - convert --c-header: a checkpoint as a header of C, for programs on microcontrollers. */
#pragma once

#include "tools/convert/convert.h"

struct c_header_options {
    bool on;
    const char *prefix; /* of all names in the header; NULL: made of the output's name */
    uint64_t alignment; /* of each array, in bytes; 0: 16 */
};

/* After app_parse: writes the header of the only INPUT to -o. Returns the exit status. */
int c_header_run(struct app *app, struct convert_options *options, const struct c_header_options *header);
