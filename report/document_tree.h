/* document_tree.h - documents as trees of jansson: of texts, without what nobody looks at, and of files. The pool counts
 * what a tree takes; a tree that does not fit is refused with VC_E_NOMEM before it is made. */
#pragma once

#include <jansson.h>

#include "core/base/ctx.h"

struct vc_document_tree {
    json_t *root;
    uint64_t counted; /* bytes charged to the pool */
};

/* Of each list of objects only the first items are there; a last item, a number, says how many more there are. */
struct vc_document_cut {
    size_t most;      /* items of a list */
    size_t least;     /* so many, where a tree of `most` does not fit the memory */
    bool beyond_only; /* and of these none that says "within": true */
};

/* VC_E_FORMAT: the text is no JSON. */
enum vc_status vc_document_tree(struct vc_ctx *ctx, const char *document, const struct vc_document_cut *cut,
                                struct vc_document_tree *tree);
/* The whole document of that file. VC_E_IO, or VC_E_FORMAT if it is no document of vcompress. */
enum vc_status vc_document_read(struct vc_ctx *ctx, const char *path, struct vc_document_tree *tree);
void vc_document_tree_free(struct vc_ctx *ctx, struct vc_document_tree *tree); /* accepts one without a root */

/* How many items of that list of a cut document are left out. */
size_t vc_document_left_out(const json_t *list);
