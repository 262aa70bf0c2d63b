/* library_names.h - names that the library lists, for rows of options (struct opt.more). */
#pragma once

#include <stddef.h>

const char *format_name(size_t index);
const char *layout_name(size_t index);
const char *mixture_name(size_t index);
