/* page.h - what is done with documents: HTML pages, comparisons, tables in Markdown. A page is one file: the JSON
 * document, and style and scripts that show the document. A page loads nothing. Without scripts a page shows plain
 * tables. The same document gives the same bytes.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_PAGE_H
#define VCOMPRESS_PAGE_H

#include <vcompress/distill.h>
#include <vcompress/document.h>
#include <vcompress/fit.h>
#include <vcompress/measure.h>
#include <vcompress/plan.h>
#include <vcompress/report.h>

VC_BEGIN_C

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
 * another shape is not compared. Free *out with vc_result_free, before the models. */
VC_API enum vc_status vc_value_histograms_of_models(struct vc_ctx *ctx, const struct vc_model *before,
                                                    const struct vc_model *after, const char *const *names, size_t n,
                                                    struct vc_value_histograms **out);
/* The same for the tensors of a report with the lowest SQNR. before: the source of the job. The output of the job is
 * opened and compared; if there is no readable output, the source alone is used. */
VC_API enum vc_status vc_value_histograms_of_report(struct vc_ctx *ctx, const struct vc_report *report,
                                                    const struct vc_model *before, struct vc_value_histograms **out);

/* ---- members of documents that pages show ---- */

/* Adds a member at the end of a document. *document: of vc_document_json; replaced by a longer text. json: its
 * value; NULL: the value is `string`, which is quoted here ("command_line", "file", "baseline"). VC_E_FORMAT if the document is
 * no object. */
VC_API enum vc_status vc_document_add(struct vc_ctx *ctx, char **document, const char *key, const char *json,
                                      const char *string);

/* ---- pages ---- */

/* Makes the page of a document. document: JSON of vc_document_json, with or
 * without the members above. drawing: SVG of vc_document_svg, which becomes a part of the page, or
 * NULL. Free *text with vc_text_free. VC_E_FORMAT if the document is no JSON. */
VC_API enum vc_status vc_page_html(struct vc_ctx *ctx, const char *document, const char *drawing, char **text);

/* ---- documents described, compared, and as tables ---- */

/* Renders the JSON Schema of a document by its name, "report". Free *text with vc_text_free. VC_E_ARGUMENT if no
 * document has this name; the sentence has all names. */
VC_API enum vc_status vc_schema_json(struct vc_ctx *ctx, const char *name, char **text);

/* Compares two documents with the same schema, and renders the members that differ as a JSON document, schema
 * vcompress.changes/1; *n: how many. Items of lists are paired by their names, else by their place. Not compared: the
 * command, time, memory and threads of the run, the version of the program, and the members that pages add. Free *text
 * with vc_text_free. VC_E_FORMAT if a file is no document of vcompress, or the schemas differ. */
VC_API enum vc_status vc_changes_json(struct vc_ctx *ctx, const char *path_a, const char *path_b, size_t *n,
                                      char **text);

/* Makes a short table in Markdown, for a comment on a pull request. document: JSON of a report, a distillation,
 * a difference, or of vc_changes_json. most: lines of tensors or changes. Free *text with vc_text_free. VC_E_FORMAT if the
 * document is another one. */
VC_API enum vc_status vc_document_markdown(struct vc_ctx *ctx, const char *document, size_t most, char **text);

VC_END_C
#endif
