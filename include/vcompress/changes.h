/* changes.h - what differs between two JSON documents of vcompress: two reports, two runs of distill.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_CHANGES_H
#define VCOMPRESS_CHANGES_H

#include <stddef.h>

#include <vcompress/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Compares two documents with the same schema, and renders the members that differ as a JSON document, schema
 * vcompress.changes/1; *n: how many. Items of lists are paired by their names, else by their place. Not compared: the
 * command, time, memory and threads of the run, the version of the program, and the members that pages add. Free *text
 * with vc_text_free. VC_E_FORMAT if a file is no document of vcompress, or the schemas differ. */
VC_API enum vc_status vc_changes_json(struct vc_ctx *ctx, const char *path_a, const char *path_b, size_t *n,
                                      char **text);

/* Makes a short table in Markdown, for a comment on a pull request. document: JSON of vc_report_json, vc_distill_json,
 * vc_diff_json or vc_changes_json. most: lines of tensors or changes. Free *text with vc_text_free. VC_E_FORMAT if the
 * document is another one. */
VC_API enum vc_status vc_document_markdown(struct vc_ctx *ctx, const char *document, size_t most, char **text);

#ifdef __cplusplus
}
#endif
#endif
