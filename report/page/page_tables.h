/* page_tables.h - a document as plain tables, for readers without scripts. */
#pragma once

#include <jansson.h>

#include "core/text/text.h"

/* "model.npz &#183; quantize": the file that a document is about, and the command. */
void vc_page_title(struct vc_text *text, const json_t *document);
/* All members of the document as HTML tables, escaped. The tree may be cut (vc_document_cut). */
void vc_page_tables(struct vc_text *text, json_t *document);
