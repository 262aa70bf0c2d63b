/* html_pages.h - the pages of --html: what each command gathers for them. The library makes them. */
#ifndef VC_TOOLS_HTML_PAGES_H
#define VC_TOOLS_HTML_PAGES_H

#include "tools/model/memory_cli.h"

/* Each does nothing without --html. GO_ON or a status. */

/* model: the source. Looks at the values of the tensors that lost most, and at the catalogue of GPUs. */
int page_report(struct app *app, const struct vc_report *report, const struct vc_model *model);
int page_inspect(struct app *app, const struct vc_inspection *in);
int page_diff(struct app *app, const struct vc_model *a, const struct vc_model *b, const struct vc_diff *diff,
              const struct vc_diff_limits *limits);
int page_sensitivity(struct app *app, const struct vc_sensitivity *s);
int page_graph(struct app *app, const struct vc_graph *graph, const struct vc_graph_blocks *blocks);
int page_verify(struct app *app, const struct vc_verification *v, bool strict);
int page_plan(struct app *app, const struct vc_recipes *recipes, const char *gpu, const struct vc_recipe_lines *lines);
/* steps: of the run, or some of them. */
int page_distill(struct app *app, const struct vc_distillation *d, const char *student,
                 const struct vc_distill_step *steps, size_t n_steps);
int page_estimate(struct app *app, const struct memory_cli *cli);
int page_fit(struct app *app, const struct memory_cli *cli, const struct vc_fit_options *fit,
             const struct vc_gpus *catalogue, const struct vc_fit_row *rows, size_t n_rows, const char *baseline,
             uint64_t baseline_bytes);

#endif
