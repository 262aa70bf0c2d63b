/* tokens.h - the format of this room. It is in no table: a file is one where vc_open_options.row_tokens says so. */
#pragma once

#include "formats/formats.h"

extern const struct vc_format vc_format_tokens;
extern const struct vc_format vc_format_text; /* the same of a text, whose tokens are made: where vc_is_text */

/* The name is one of a text: corpus.txt, corpus.jsonl. */
bool vc_is_text(const char *path);
