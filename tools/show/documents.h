/* documents.h - the documents of commands: --json, --markdown, and --html with what a page shows beside its document.
 */
#pragma once

#include "tools/model/memory_cli.h"

/* Each writes what of --json, --markdown and --html was asked for. GO_ON or a status. */

/* Kinds whose page needs nothing beside the document: verify, plan, shrink. */
int document_plain(struct app *app, const struct vc_document *document);
/* --svg: what vc_document_svg draws, to a file. */
int document_svg(struct app *app, const char *path, const struct vc_document *document);
/* model: the source. A page looks at the values of the tensors that lost most, and at the catalogue of GPUs. */
int document_report(struct app *app, const struct vc_report *report, const struct vc_model *model);
int document_inspect(struct app *app, const struct vc_inspection *in);
int document_diff(struct app *app, const struct vc_model *a, const struct vc_model *b, const struct vc_diff *diff,
                  const struct vc_diff_limits *limits);
int document_changes(struct app *app, char *document); /* of vc_changes_json; frees it */
int document_sensitivity(struct app *app, const struct vc_sensitivity *s);
/* model: may be NULL. */
int document_graph(struct app *app, const struct vc_graph *graph, const struct vc_graph_blocks *blocks,
                   const struct vc_model *model);
/* steps: of the run, or some of them. */
int document_distill(struct app *app, const struct vc_distillation *d, const struct vc_distill_step *steps,
                     size_t n_steps);
int document_estimate(struct app *app, const struct memory_cli *cli);
int document_fit(struct app *app, const struct memory_cli *cli, const struct vc_fit_options *fit,
                 const struct vc_gpus *catalogue, const struct vc_fit_row *rows, size_t n_rows, const char *baseline,
                 uint64_t baseline_bytes);
