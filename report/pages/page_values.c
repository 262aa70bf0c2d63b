/* page_values.c - how the values of single tensors lie: a drawing for each.
 *
 *       _-=-_        the values before, in bins of the same width
 *     -------------
 *     | || || ||     the values of one row afterwards: a line for each, longer where more weights have it
 */
#include <math.h>

#include "report/pages/page_write.h"

#define HIST_TOP   60.0 /* height of the tallest bar, of 100 */
#define LEVELS_AT  66.0
#define LEVELS_MAX 34.0

static uint64_t most_of(const uint64_t *counts, size_t n)
{
    uint64_t most = 1;

    for (size_t i = 0; i < n; i++) {
        most = counts[i] > most ? counts[i] : most;
    }
    return most;
}

/* Bars as one path that stands on `base`; heights go by the logarithm of the counts, so that single values far out are
 * seen, too. */
static void add_bars(struct vc_page *page, const char *kind, const uint64_t *counts, size_t n, double base, double top)
{
    double most = log1p((double)most_of(counts, n));

    vc_page_add(page, "<path class=\"%s\" d=\"", kind);
    for (size_t i = 0; i < n; i++) {
        double height = top * log1p((double)counts[i]) / most;

        if (counts[i] != 0) {
            vc_page_add(page, "M%zu %sh.9v-%sh-.9z", i, vc_figure_fixed(base, 1).s, vc_figure_fixed(height, 2).s);
        }
    }
    vc_page_add(page, "\"/>");
}

void vc_page_bars(struct vc_page *page, const char *label, const uint64_t *counts, size_t n)
{
    vc_page_add(page,
                "<svg class=\"plot low\" role=\"img\" viewBox=\"0 0 %zu 64\" preserveAspectRatio=\"none\" "
                "aria-label=\"%s\">",
                n, label);
    add_bars(page, "hist", counts, n, 63.0, HIST_TOP);
    vc_page_add(page, "<path class=\"axis\" d=\"M0 63.5h%zu\"/></svg>\n", n);
}

static void add_levels(struct vc_page *page, const struct vc_value_histogram *h)
{
    double most = log1p((double)most_of(h->level_counts, h->n_levels));

    vc_page_add(page, "<path class=\"level\" fill=\"none\" d=\"");
    for (size_t i = 0; i < h->n_levels; i++) {
        double x = h->reach > 0 ? (h->levels[i] / h->reach + 1.0) / 2.0 * VC_VALUE_HISTOGRAM_BINS
                                : VC_VALUE_HISTOGRAM_BINS / 2.0;
        double length = LEVELS_MAX * log1p((double)h->level_counts[i]) / most;

        vc_page_add(page, "M%s %sv%s", vc_figure_fixed(x, 2).s, vc_figure_fixed(LEVELS_AT, 0).s,
                    vc_figure_fixed(fmax(length, 3.0), 1).s);
    }
    vc_page_add(page, "\"/>");
}

static void add_ticks(struct vc_page *page, double reach)
{
    vc_page_add(page, "<div class=\"ticks\"><span>&#8722;%s</span><span>0</span><span>%s</span></div>\n",
                vc_figure_real(reach).s, vc_figure_real(reach).s);
}

static void add_plot(struct vc_page *page, const struct vc_value_histogram *h)
{
    bool levels = h->n_levels != 0;

    vc_page_add(page,
                "<svg class=\"plot\" role=\"img\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
                "aria-label=\"histogram of the values",
                VC_VALUE_HISTOGRAM_BINS, levels ? 100 : 64);
    vc_page_add(page, levels ? " and the grid that they were put on\">" : "\">");
    add_bars(page, "hist", h->bins, VC_VALUE_HISTOGRAM_BINS, 62.0, HIST_TOP);
    vc_page_add(page, "<path class=\"axis\" d=\"M0 62.5h%d\"/>", VC_VALUE_HISTOGRAM_BINS);
    if (levels) {
        add_levels(page, h);
    }
    vc_page_add(page, "</svg>\n");
    add_ticks(page, h->reach);
}

static void add_caption(struct vc_page *page, const struct vc_value_histogram *h)
{
    vc_page_add(page, "<figcaption>%s values", vc_figure_count(h->n_seen).s);
    if (h->n_seen < h->n_elems) {
        vc_page_add(page, ", the first of %s", vc_figure_count(h->n_elems).s);
    }
    if (h->n_levels != 0) {
        vc_page_add(page, "; below, the %zu different ones that %s of row %s afterwards", h->n_levels,
                    h->n_level_elems < h->n_elems ? "the part with the largest error has, " : "are left,",
                    vc_figure_count(h->level_row).s);
    }
    vc_page_add(page, ".");
    if (h->n_zeros != 0 || h->n_zeros_after != 0) {
        vc_page_add(page, " Zeros: %s", vc_figure_percent((double)h->n_zeros, (double)h->n_seen).s);
        if (h->compared) {
            vc_page_add(page, " before, %s after", vc_figure_percent((double)h->n_zeros_after, (double)h->n_seen).s);
        }
        vc_page_add(page, ".");
    }
    if (h->n_nonfinite != 0) {
        vc_page_add(page, " Not finite: %s.", vc_figure_count(h->n_nonfinite).s);
    }
    vc_page_add(page, "</figcaption>\n");
}

static void add_histogram(struct vc_page *page, const struct vc_value_histogram *h)
{
    vc_page_add(page, "<figure>\n<h3 class=\"name\">");
    vc_page_name(page, h->name);
    vc_page_add(page, "</h3>\n<span class=\"sub small\">");
    vc_page_words(page, h->scheme);
    if (!isnan(h->sqnr_db)) {
        vc_page_add(page, "%s%s", h->scheme[0] != '\0' ? " &#183; " : "", vc_figure_db(h->sqnr_db).s);
    }
    vc_page_add(page, "</span>\n");
    add_plot(page, h);
    if (h->compared && h->error_reach > 0) {
        vc_page_add(page,
                    "<svg class=\"plot low\" role=\"img\" viewBox=\"0 0 %d 24\" preserveAspectRatio=\"none\" "
                    "aria-label=\"histogram of the errors\">",
                    VC_VALUE_HISTOGRAM_ERROR_BINS);
        add_bars(page, "err", h->error_bins, VC_VALUE_HISTOGRAM_ERROR_BINS, 23.5, 22.0);
        vc_page_add(page,
                    "<path class=\"axis\" d=\"M0 23.7h%d\"/></svg>\n<div class=\"ticks\"><span>&#8722;%s</span>"
                    "<span>errors</span><span>%s</span></div>\n",
                    VC_VALUE_HISTOGRAM_ERROR_BINS, vc_figure_real(h->error_reach).s, vc_figure_real(h->error_reach).s);
    }
    add_caption(page, h);
    vc_page_add(page, "</figure>\n");
}

void vc_page_values(struct vc_page *page)
{
    const struct vc_value_histograms *histograms = page->options.histograms;
    bool grids = false;

    if (histograms->n == 0) {
        return;
    }
    for (size_t i = 0; i < histograms->n; i++) {
        grids = grids || histograms->histograms[i].n_levels != 0;
    }
    vc_page_section(page, "The tensors that lost most",
                    grids
                        ? "Bars: the values before, from the lowest to the highest. Lines below them: the values that "
                          "one row or group has afterwards, the grid that it was put on. Lengths go by the logarithm "
                          "of how many weights there are."
                        : "How the values lie, from the lowest to the highest; heights go by the logarithm of how many "
                          "there are.");
    vc_page_add(page, "<div class=\"looks\">\n");
    for (size_t i = 0; i < histograms->n; i++) {
        add_histogram(page, &histograms->histograms[i]);
    }
    vc_page_add(page, "</div>\n");
    vc_page_section_end(page);
}
