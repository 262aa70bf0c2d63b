/* svg_text.h - names in drawings. They come from files: they are escaped, and what XML does not allow, or what reorders
 * text, becomes '?'. */
#pragma once

#include "core/text/text.h"

/* At most `most` characters: the middle of a longer string is left out. */
void vc_svg_add_text(struct vc_text *text, const char *s, size_t most);
