/* hf_json.h - config.json as Python writes it: JSON in which a number may be NaN, Infinity or -Infinity, as the
 * time_step_limit of Mamba2. To readers of ours these numbers are 0; the text itself is never changed. */
#ifndef VC_FORMATS_HF_JSON_H
#define VC_FORMATS_HF_JSON_H

#include <jansson.h>
#include <stddef.h>

/* The text as JSON, strictly but for these numbers; json_decref it. NULL: error says why. */
json_t *vc_hf_json_load(const char *text, size_t n, json_error_t *error);

/* Puts 0 and blanks in the place of these numbers, in a text that is read only. */
void vc_hf_json_make_plain(char *text, size_t n);

#endif
