/* verify_html.c - what is wrong with a checkpoint, as a page: vc_verify_html. */
#include <math.h>
#include <stdio.h>

#include "report/pages/page_write.h"

#define N_FINDINGS 200

static void add_finding(struct vc_page *page, const struct vc_finding *finding)
{
    bool error = finding->severity == VC_SEVERITY_ERROR;

    vc_page_row(page);
    vc_page_head_cell(page);
    vc_page_add(page, "<span class=\"badge %s\">%s</span>", error ? "no" : "near", error ? "error" : "warning");
    vc_page_head_cell_end(page);
    vc_page_cell(page, finding->id);
    vc_page_add(page, "<td><span class=\"name\">");
    vc_svg_add_text(&page->text, finding->tensor, 56);
    vc_page_add(page, "</span></td><td class=\"why\">");
    vc_page_words(page, finding->sentence);
    vc_page_add(page, "</td>");
}

static void add_findings(struct vc_page *page, const struct vc_verification *v)
{
    static const struct vc_page_column columns[] = {{"", false}, {"what", false}, {"where", false}, {"", false}};
    size_t n = v->n_findings < N_FINDINGS ? v->n_findings : N_FINDINGS;

    vc_page_section(page, "What was found", NULL);
    vc_page_table(page, "findings", columns, 4);
    for (size_t i = 0; i < n; i++) {
        add_finding(page, &v->findings[i]);
    }
    vc_page_table_end(page);
    if (n < v->n_errors + v->n_warnings) {
        vc_page_add(page, "<p class=\"note\">And %s more.</p>\n", vc_figure_count(v->n_errors + v->n_warnings - n).s);
    }
    vc_page_section_end(page);
}

static void add_against(struct vc_page *page, const struct vc_verification *v)
{
    vc_page_section(page, "Against its source", NULL);
    vc_page_add(page, "<p><span class=\"name\">");
    vc_page_name(page, v->against);
    vc_page_add(page, "</span></p>\n");
    vc_page_tiles(page);
    vc_page_tile(page, "compared", vc_figure_count(v->n_compared).s, "tensors");
    vc_page_tile(page, "identical", vc_figure_count(v->n_identical).s, "tensors");
    if (v->measured) {
        vc_page_tile(page, "SQNR over all that differ", vc_figure_db(v->sqnr_db).s, NULL);
    }
    if (v->measured && v->worst < v->n_rows) {
        vc_page_add(page, "<div><dt>the lowest</dt><dd>%s<small class=\"name\">",
                    vc_figure_db(v->rows[v->worst].sqnr_db).s);
        vc_svg_add_text(&page->text, v->rows[v->worst].name, 40);
        vc_page_add(page, "</small></dd></div>\n");
    }
    vc_page_tiles_end(page);
    vc_page_section_end(page);
}

enum vc_status vc_verify_html(struct vc_ctx *ctx, const struct vc_verification *v, bool strict,
                              const struct vc_page_options *options, char **text)
{
    const struct vc_page_head head = {"verify", v->path, v->format};
    bool fine = v->n_errors == 0 && (!strict || v->n_warnings == 0);
    struct vc_page page;
    enum vc_status status = vc_page_begin(&page, ctx, options, &head);

    *text = NULL;
    if (status == VC_OK) {
        vc_page_add(&page, "<section>\n<p class=\"big\">%s</p><p>%s errors, %s warnings</p>\n",
                    fine ? "fine" : "not fine", vc_figure_count(v->n_errors).s, vc_figure_count(v->n_warnings).s);
        vc_page_tiles(&page);
        vc_page_tile(&page, "file", vc_figure_size(v->file_bytes).s, NULL);
        vc_page_tile(&page, "tensors", vc_figure_count(v->n_tensors).s, "that could be read");
        vc_page_tile(&page, "looked at", v->data ? "values" : "headers", v->data ? NULL : "values were not read");
        vc_page_tiles_end(&page);
        vc_page_section_end(&page);
        if (v->n_findings != 0) {
            add_findings(&page, v);
        }
        if (v->against != NULL && v->against[0] != '\0') {
            add_against(&page, v);
        }
        status = vc_page_end(&page, text);
    }
    vc_text_release(&page.text);
    return status;
}
