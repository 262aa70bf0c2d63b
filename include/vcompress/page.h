/* page.h - reports as pages: one HTML file each, with its drawings and its style inside, to look at, to send and to
 * print. A page refers to nothing outside and runs no script; names in it are escaped. The same report gives the same
 * bytes: there is no time in it.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_PAGE_H
#define VCOMPRESS_PAGE_H

#include <vcompress/distill.h>
#include <vcompress/fit.h>
#include <vcompress/graph.h>
#include <vcompress/inspect.h>
#include <vcompress/plan.h>
#include <vcompress/report.h>
#include <vcompress/sensitivity.h>
#include <vcompress/verify.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- values of single tensors, looked at more closely ---- */

#define VC_LOOK_BINS       96
#define VC_LOOK_ERROR_BINS 48
#define VC_LOOK_LEVELS     256
#define VC_LOOK_MOST       8 /* tensors on one page */

/* How the values of a tensor lie, before and after. */
struct vc_look {
    const char *name;
    const char *scheme;       /* "int8/channel"; "": not changed */
    double sqnr_db;           /* of the tensor, as its report has it */
    uint64_t n_elems, n_seen; /* of very large tensors only the first values are looked at */
    /* Of the first model, or of the only one: counts of finite values in bins of the same width from -reach to
     * reach, and of zeros. */
    double reach;
    uint64_t bins[VC_LOOK_BINS];
    uint64_t n_zeros, n_nonfinite;
    /* Of both: how the errors lie, from -error_reach to error_reach. */
    bool compared;
    double error_reach;
    uint64_t error_bins[VC_LOOK_ERROR_BINS];
    uint64_t n_zeros_after;
    /* The values that one row (or group, where each has a scale) of the second model has: the one with the largest
     * error. None where there are more than VC_LOOK_LEVELS. */
    size_t n_levels;
    uint64_t level_row, n_level_elems;
    double levels[VC_LOOK_LEVELS];
    uint64_t level_counts[VC_LOOK_LEVELS];
};

struct vc_looks {
    size_t n;
    const struct vc_look *looks;
};

/* Looks at tensors of `before` and, where it is not NULL, at those of the same names in `after`. Each tensor is read
 * twice in both, at most 2^24 of its values; memory does not grow with them. Tensors that have no values as floats are
 * left out, those that `after` lacks or has with another shape are not compared. names: at most VC_LOOK_MOST. Freed
 * with vc_looks_free, before the models. */
VC_API enum vc_status vc_models_look(struct vc_ctx *ctx, const struct vc_model *before, const struct vc_model *after,
                                     const char *const *names, size_t n, struct vc_looks **out);
/* The same for the tensors of a report with the lowest SQNR: `before` is its source. What the job wrote is opened and
 * compared; where that cannot be read, or nothing was written, only the source is looked at. */
VC_API enum vc_status vc_report_look(struct vc_ctx *ctx, const struct vc_report *report, const struct vc_model *before,
                                     struct vc_looks **out);
VC_API void vc_looks_free(struct vc_looks *looks); /* accepts NULL */

/* ---- pages ---- */

struct vc_page_options {
    size_t struct_size;           /* set by vc_page_defaults */
    const char *command;          /* how the program was called: "vcompress quantize --int8 a.npz"; NULL: not told */
    const struct vc_looks *looks; /* NULL: none */
    const struct vc_fit_matrix *matrix; /* NULL: none */
    const char *baseline;    /* of vc_fit_html: a document of before, with which the peak is compared; NULL: none ... */
    uint64_t baseline_bytes; /* ... and the peak that it has */
};

VC_API void vc_page_defaults_sized(struct vc_page_options *options, size_t struct_size);

/* Nothing beside the report: what options NULL means, too. */
static inline void vc_page_defaults(struct vc_page_options *options)
{
    vc_page_defaults_sized(options, sizeof *options);
}

/* Each renders what its document in JSON says as a page. Lists are as long as a page can be: groups of tensors whose
 * names differ in their numbers alone, the largest first, and how many more there are. *text is freed with
 * vc_text_free. */
VC_API enum vc_status vc_report_html(struct vc_ctx *ctx, const struct vc_report *report,
                                     const struct vc_page_options *options, char **text);
VC_API enum vc_status vc_inspect_html(struct vc_ctx *ctx, const struct vc_inspection *inspection,
                                      const struct vc_page_options *options, char **text);
VC_API enum vc_status vc_diff_html(struct vc_ctx *ctx, const struct vc_model *a, const struct vc_model *b,
                                   const struct vc_diff *diff, const struct vc_diff_limits *limits,
                                   const struct vc_page_options *options, char **text);
VC_API enum vc_status vc_sensitivity_html(struct vc_ctx *ctx, const struct vc_sensitivity *sensitivity,
                                          const struct vc_page_options *options, char **text);
VC_API enum vc_status vc_graph_html(struct vc_ctx *ctx, const struct vc_graph *graph,
                                    const struct vc_graph_blocks *blocks, const char *path,
                                    const struct vc_page_options *options, char **text);
VC_API enum vc_status vc_verify_html(struct vc_ctx *ctx, const struct vc_verification *verification, bool strict,
                                     const struct vc_page_options *options, char **text);
VC_API enum vc_status vc_recipes_html(struct vc_ctx *ctx, const struct vc_recipes *recipes, const char *gpu,
                                      const char *path, const struct vc_recipe_lines *lines,
                                      const struct vc_page_options *options, char **text);
/* student: what the page is called after. steps: some of those that vc_distill_options.tell was told, in their order,
 * for the lines of the loss, of the terms of options.matches and of sparsity; there may be none. */
VC_API enum vc_status vc_distill_html(struct vc_ctx *ctx, const struct vc_distillation *distillation,
                                      const char *student, const struct vc_distill_step *steps, size_t n_steps,
                                      const struct vc_page_options *options, char **text);
/* timeline: of the same graph and options; NULL: none. */
VC_API enum vc_status vc_memory_html(struct vc_ctx *ctx, const struct vc_memory_report *report,
                                     const struct vc_memory_options *memory, const struct vc_graph *graph,
                                     const char *path, const struct vc_memory_timeline *timeline,
                                     const struct vc_page_options *options, char **text);
VC_API enum vc_status vc_fit_html(struct vc_ctx *ctx, const struct vc_memory_report *report,
                                  const struct vc_memory_options *memory, const struct vc_graph *graph,
                                  const char *path, const struct vc_fit_row *rows, size_t n_rows,
                                  const struct vc_memory_timeline *timeline, const struct vc_page_options *options,
                                  char **text);

#ifdef __cplusplus
}
#endif
#endif
