/* page.h - reports as HTML pages. A page is one file with style and drawings inside, without scripts and links to other
 * files; names are escaped. The same report gives the same bytes: a page has no time stamp.
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

/* ---- distributions of the values of single tensors ---- */

#define VC_VALUE_HISTOGRAM_BINS       96
#define VC_VALUE_HISTOGRAM_ERROR_BINS 48
#define VC_VALUE_HISTOGRAM_LEVELS     256
#define VC_VALUE_HISTOGRAM_MOST       8 /* most tensors on one page */

/* Histograms of the values of a tensor, before and after. */
struct vc_value_histogram {
    const char *name;
    const char *scheme;       /* "int8/channel"; "": not changed */
    double sqnr_db;           /* of the tensor, from the report */
    uint64_t n_elems, n_seen; /* of large tensors only the first n_seen values are counted */
    /* The first model: counts of finite values in bins of equal width from -reach to reach, and count of zeros. */
    double reach;
    uint64_t bins[VC_VALUE_HISTOGRAM_BINS];
    uint64_t n_zeros, n_nonfinite;
    /* Both models, if `compared`: counts of errors in bins of equal width from -error_reach to error_reach. */
    bool compared;
    double error_reach;
    uint64_t error_bins[VC_VALUE_HISTOGRAM_ERROR_BINS];
    uint64_t n_zeros_after;
    /* The distinct values of one row of the second model (one group, if groups have scales): the row with the largest
     * error. n_levels is 0 if there are more than VC_VALUE_HISTOGRAM_LEVELS distinct values. */
    size_t n_levels;
    uint64_t level_row, n_level_elems;
    double levels[VC_VALUE_HISTOGRAM_LEVELS];
    uint64_t level_counts[VC_VALUE_HISTOGRAM_LEVELS];
};

struct vc_value_histograms {
    size_t n;
    const struct vc_value_histogram *histograms;
};

/* Makes histograms of the named tensors of `before`, compared with the tensors of the same names in `after` (may be
 * NULL). names: at most VC_VALUE_HISTOGRAM_MOST. Reads at most 2^24 values of each tensor, twice; memory does not grow
 * with the tensors. Tensors that are neither floats nor quantized are omitted. A tensor that `after` lacks or has with
 * another shape is not compared. Free *out with vc_value_histograms_free, before the models. */
VC_API enum vc_status vc_value_histograms_of_models(struct vc_ctx *ctx, const struct vc_model *before,
                                                    const struct vc_model *after, const char *const *names, size_t n,
                                                    struct vc_value_histograms **out);
/* The same for the tensors of a report with the lowest SQNR. before: the source of the job. The output of the job is
 * opened and compared; if there is no readable output, the source alone is used. */
VC_API enum vc_status vc_value_histograms_of_report(struct vc_ctx *ctx, const struct vc_report *report,
                                                    const struct vc_model *before, struct vc_value_histograms **out);
VC_API void vc_value_histograms_free(struct vc_value_histograms *histograms); /* accepts NULL */

/* ---- pages ---- */

struct vc_page_options {
    size_t struct_size;  /* set by vc_page_defaults */
    const char *command; /* command line to show: "vcompress quantize --int8 a.npz"; NULL: not shown */
    const struct vc_value_histograms *histograms; /* NULL: none */
    const struct vc_fit_matrix *matrix;           /* NULL: none */
    const char *baseline;    /* vc_fit_html: name of an earlier document to compare with; NULL: no comparison */
    uint64_t baseline_bytes; /* vc_fit_html: peak of the earlier document */
};

VC_API void vc_page_defaults_sized(struct vc_page_options *options, size_t struct_size);

/* Nothing beside the report. options NULL means the same. */
static inline void vc_page_defaults(struct vc_page_options *options)
{
    vc_page_defaults_sized(options, sizeof *options);
}

/* Each function renders the content of the JSON document of the same name as a page. Lists show groups of tensors whose
 * names differ in numbers only, the largest group first; long lists end with the number of omitted groups. Free *text
 * with vc_text_free. */
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
/* student: name for the title. steps: steps from vc_distill_options.tell, all or some, in order, for the curves of the
 * loss, of the terms of options.loss.matches and of sparsity. n_steps may be 0. */
VC_API enum vc_status vc_distill_html(struct vc_ctx *ctx, const struct vc_distillation *distillation,
                                      const char *student, const struct vc_distill_step *steps, size_t n_steps,
                                      const struct vc_page_options *options, char **text);
/* timeline: of the same graph and options, or NULL. */
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
