/* json_skip.h - values of a JSON text that nobody asked for: where they end, whether they are JSON, and out of the way
 * with them, without a tree. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define VC_JSON_LEVELS ((size_t)1000) /* Python's json, which most programs read with, has as many */

/* Behind the white space at `at`. */
size_t vc_json_skip_space(const char *text, size_t n, size_t at);

/* at: an opening quote. Behind the closing one; n if there is none. */
size_t vc_json_skip_string(const char *text, size_t n, size_t at);

/* Behind the value at `at`; 0: there is no JSON value, or one of more than VC_JSON_LEVELS levels. Names may be there
 * twice, and numbers may have any size: nobody looks at them. */
size_t vc_json_skip_value(const char *text, size_t n, size_t at);

/* Puts 0 and blanks in the place of lists and objects that nobody asks for, so that a tree of the rest is small:
 *
 *     {"a": [1, 2], "b": {"c": 3, "d": {}}, "e": 4}      wanted: none
 *     {"a": 0     , "b": {"c": 3, "d": 0 }, "e": 4}
 *
 * What is wanted has its name in the list, which ends with NULL, at the first or the second level; its value stays. The
 * text begins with the bracket or comma before a member. A text that is no JSON stays as it is from that place on. */
void vc_json_trim(char *text, size_t n, const char *const *wanted);
