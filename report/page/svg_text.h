/* svg_text.h - names in drawings. They come from files: they are escaped, and what XML does not allow, or what reorders
 * text, becomes '?'. */
#pragma once

#include <vcompress/document.h>

#include "core/text/text.h"

/* Behind vc_document_svg, of documents of these kinds. */
enum vc_status vc_draw_graph(struct vc_ctx *ctx, const struct vc_document *document, char **out);
enum vc_status vc_draw_sensitivity(struct vc_ctx *ctx, const struct vc_document *document, char **out);

/* At most `most` characters: the middle of a longer string is left out. */
void vc_svg_add_text(struct vc_text *text, const char *s, size_t most);
