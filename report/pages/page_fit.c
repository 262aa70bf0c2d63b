/* page_fit.c - GPUs and ways to have a model as a table of answers. */
#include "report/pages/page_write.h"

static const char *const classes[] = {"yes", "near", "no", "maybe"};
static const char *const words[] = {"&#10003; fits", "~ tight", "&#10005; no", "? unknown"};

void vc_page_verdict(struct vc_page *page, enum vc_verdict verdict, bool weights_only)
{
    vc_page_add(page, "<span class=\"badge %s\">%s</span>", classes[verdict],
                verdict == VC_FITS && weights_only ? "&#10003; weights fit" : words[verdict]);
}

static void add_cell(struct vc_page *page, const struct vc_fit *fit)
{
    bool more = fit->headroom_bytes >= 0;
    uint64_t bytes = more ? (uint64_t)fit->headroom_bytes : (uint64_t)-fit->headroom_bytes;

    vc_page_add(page, "<td class=\"cell\"><span class=\"%s\"><b>%s</b>%s %s</span></td>", classes[fit->verdict],
                words[fit->verdict], vc_figure_size(bytes).s, more ? "left" : "short");
}

static void add_row(struct vc_page *page, const struct vc_fit_matrix *m, size_t row)
{
    vc_page_add(page, "<tr><th scope=\"row\">");
    vc_page_name(page, m->gpus[row]->name);
    vc_page_add(page, "<br/><span class=\"sub\">%s</span></th>",
                vc_figure_size(m->fits[row * m->n_columns].visible_bytes).s);
    for (size_t c = 0; c < m->n_columns; c++) {
        add_cell(page, &m->fits[row * m->n_columns + c]);
    }
    vc_page_add(page, "</tr>\n");
}

/* Every row at least as large as this one has the same answers all over: yes. */
static bool all_fit(const struct vc_fit_matrix *m, size_t row)
{
    for (size_t c = 0; c < m->n_columns; c++) {
        if (m->fits[row * m->n_columns + c].verdict != VC_FITS) {
            return false;
        }
    }
    return true;
}

void vc_page_matrix(struct vc_page *page)
{
    const struct vc_fit_matrix *m = page->options.matrix;
    size_t n = m->n_rows;

    if (m->n_rows == 0 || m->n_columns == 0) {
        return;
    }
    while (n > 2 && all_fit(m, n - 1) && all_fit(m, n - 2)) {
        n--; /* larger ones say nothing new */
    }
    vc_page_section(page, "Where it fits",
                    m->weights_only
                        ? "The weights alone, with what the runtime of a device takes and a margin. What is "
                          "computed with them needs more: vcompress fit."
                        : "All that the run needs, with what the runtime of a device takes and a margin, by "
                          "the type that the weights are loaded as.");
    if (all_fit(m, 0)) {
        vc_page_add(page, "<p><span class=\"badge yes\">&#10003; fits</span> every GPU of the list, from ");
        vc_page_name(page, m->gpus[0]->name);
        vc_page_add(page, " (%s) on.</p>\n", vc_figure_size(m->fits[0].visible_bytes).s);
        vc_page_section_end(page);
        return;
    }
    vc_page_add(page, "<div class=\"scroll\" role=\"region\" aria-label=\"GPUs and types\" tabindex=\"0\">\n"
                      "<table class=\"matrix\">\n<thead><tr><th scope=\"col\">GPU</th>");
    for (size_t c = 0; c < m->n_columns; c++) {
        vc_page_add(page, "<th scope=\"col\">%s<br/><span class=\"sub\">%s</span></th>", m->columns[c].name,
                    vc_figure_size(m->columns[c].weight_bytes).s);
    }
    vc_page_add(page, "</tr></thead>\n<tbody>\n");
    for (size_t r = 0; r < n; r++) {
        add_row(page, m, r);
    }
    vc_page_add(page, "</tbody>\n</table>\n</div>\n");
    if (n < m->n_rows) {
        vc_page_add(page, "<p class=\"note\">Larger ones fit all of them, too.</p>\n");
    }
    vc_page_section_end(page);
}

/* ---- devices that were asked about: --target-gpu ---- */

/* "fits 1.37 GiB left" */
static void add_answer(struct vc_page *page, const struct vc_fit *fit, bool weights_only)
{
    bool more = fit->headroom_bytes >= 0;

    vc_page_add(page, "<td>");
    vc_page_verdict(page, fit->verdict, weights_only);
    vc_page_add(page, " %s %s</td>",
                vc_figure_size(more ? (uint64_t)fit->headroom_bytes : (uint64_t)-fit->headroom_bytes).s,
                more ? "left" : "short");
}

void vc_page_targets(struct vc_page *page, const struct vc_report *report)
{
    static const struct vc_page_column columns[] = {
        {"device", false}, {"usable", true}, {"before", false}, {"after", false}};

    vc_page_section(
        page, "Before and after",
        "Inference of one input, with what the runtime of a device takes and a margin; codes as the program that "
        "usually reads such files loads them.");
    vc_page_table(page, "devices that were asked about", columns, 4);
    for (size_t k = 0; k < report->n_fits; k++) {
        const struct vc_fit_change *change = &report->fits[k];

        vc_page_row(page);
        vc_page_head_cell(page);
        vc_page_name(page, change->gpu->name);
        if (change->count > 1) {
            vc_page_add(page, " &#215; %u, each", change->count);
        }
        vc_page_head_cell_end(page);
        vc_page_figure(page, vc_figure_size(change->before.usable_bytes).s);
        add_answer(page, &change->before, change->weights_only);
        add_answer(page, &change->after, change->weights_only);
    }
    vc_page_table_end(page);
    vc_page_section_end(page);
}
