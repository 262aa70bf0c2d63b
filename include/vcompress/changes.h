/* changes.h - what differs between two JSON documents of vcompress: two reports, two runs of distill.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_CHANGES_H
#define VCOMPRESS_CHANGES_H

#include <stdbool.h>
#include <stddef.h>

#include <vcompress/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A member that differs. Values are JSON; NULL: the document has no such member, or null. */
struct vc_change {
    const char *list;   /* "tensors"; NULL: the member is of the document, not of an item of a list */
    const char *name;   /* of the item: "fc1.weight" */
    const char *member; /* "totals.file.after", "bytes_after"; of an item that one document lacks: "" */
    const char *a, *b;
    bool numbers; /* both values are numbers: x and y */
    double x, y;
};

struct vc_changes {
    const char *schema;                /* of both documents: "vcompress.report/1" */
    const char *path_a, *path_b;       /* as given */
    const char *command_a, *command_b; /* what made them; NULL: the document does not say */
    size_t n;
    const struct vc_change *changes; /* members of the documents, then of items, in the order of the first document */
    size_t n_items;                  /* items of lists with a change */
};

/* Compares two documents with the same schema. Items of lists are paired by their names, else by their place. Not
 * compared: time, memory and threads of the run, the version of the program, and the members that pages add. Free *out
 * with vc_changes_free. VC_E_FORMAT if a file is no document of vcompress, or the schemas differ. */
VC_API enum vc_status vc_changes_of_documents(struct vc_ctx *ctx, const char *path_a, const char *path_b,
                                              struct vc_changes **out);
VC_API void vc_changes_free(struct vc_changes *changes); /* accepts NULL */

/* Renders the changes as one JSON document, schema vcompress.changes/1. Free *text with vc_text_free. */
VC_API enum vc_status vc_changes_json(struct vc_ctx *ctx, const struct vc_changes *changes, char **text);

/* Makes a short table in Markdown, for a comment on a pull request. document: JSON of vc_report_json, vc_distill_json,
 * vc_diff_json or vc_changes_json. Free *text with vc_text_free. VC_E_FORMAT if the document is another one. */
VC_API enum vc_status vc_document_markdown(struct vc_ctx *ctx, const char *document, char **text);

#ifdef __cplusplus
}
#endif
#endif
