/* diff_html.c - the difference of two checkpoints, as a page: vc_diff_html. */
#include <math.h>
#include <stdio.h>

#include "report/pages/page_write.h"

#define N_ROWS 40

/* Missing tensors first, then other shapes, other values without figures, other values by SQNR, equal ones. */
static double rank(const struct vc_diff_row *row)
{
    switch (row->kind) {
    case VC_DIFF_ONLY_A:
    case VC_DIFF_ONLY_B:
        return -3e300;
    case VC_DIFF_SHAPE:
        return -2e300;
    case VC_DIFF_VALUES:
        return row->numeric ? row->sqnr_db : -1e300;
    case VC_DIFF_SAME:
        break;
    }
    return (double)INFINITY;
}

/* The worst that differ, the worst first. */
static size_t find_worst(const struct vc_diff *diff, const struct vc_diff_row **worst)
{
    size_t n = 0;

    for (size_t i = 0; i < diff->n_rows; i++) {
        const struct vc_diff_row *row = &diff->rows[i];
        size_t at = n < N_ROWS ? n : N_ROWS - 1;

        if (row->kind == VC_DIFF_SAME || (n == N_ROWS && !(rank(row) < rank(worst[at])))) {
            continue;
        }
        while (at > 0 && rank(row) < rank(worst[at - 1])) {
            worst[at] = worst[at - 1];
            at--;
        }
        worst[at] = row;
        n += n < N_ROWS;
    }
    return n;
}

static void add_row(struct vc_page *page, const struct vc_diff_row *row, const struct vc_diff_limits *limits)
{
    static const char *const words[] = {"equal", "differs", "other shape", "only in the first", "only in the second"};
    bool within = vc_diff_within(limits, row);

    vc_page_row(page);
    vc_page_head_cell(page);
    vc_page_add(page, "<span class=\"name\">");
    vc_svg_add_text(&page->text, row->name, 64);
    vc_page_add(page, "</span>");
    vc_page_head_cell_end(page);
    vc_page_add(page, "<td>%s", row->dtype_a == VC_DTYPE_NONE ? "-" : vc_dtype_name(row->dtype_a));
    vc_page_add(page, " &#8594; %s</td>", row->dtype_b == VC_DTYPE_NONE ? "-" : vc_dtype_name(row->dtype_b));
    vc_page_figure(page, vc_figure_count(row->n_elems).s);
    vc_page_figure(page, row->numeric ? vc_figure_real(row->max_abs_error).s : "");
    vc_page_figure(page, row->numeric ? vc_figure_db(row->sqnr_db).s : "");
    vc_page_figure(page, row->numeric ? vc_figure_fixed(row->cosine, 6).s : "");
    vc_page_add(page, "<td><span class=\"badge %s\">%s</span></td>", within ? "yes" : "no",
                row->kind == VC_DIFF_VALUES && within ? "close enough" : words[row->kind]);
}

static void add_table(struct vc_page *page, const struct vc_diff *diff, const struct vc_diff_limits *limits)
{
    static const struct vc_page_column columns[] = {{"tensor", false},   {"type", false}, {"elements", true},
                                                    {"max error", true}, {"SQNR", true},  {"cosine", true},
                                                    {"", false}};
    const struct vc_diff_row *worst[N_ROWS];
    size_t n = find_worst(diff, worst);

    if (n == 0) {
        return;
    }
    vc_page_section(page, "Tensors that differ", "The worst first; SQNR is that of the second file against the first.");
    vc_page_table(page, "tensors that differ", columns, 7);
    for (size_t i = 0; i < n; i++) {
        add_row(page, worst[i], limits);
    }
    vc_page_table_end(page);
    if (n < diff->n_different) {
        vc_page_add(page, "<p class=\"note\">And %s more that differ.</p>\n", vc_figure_count(diff->n_different - n).s);
    }
    vc_page_section_end(page);
}

static void add_hero(struct vc_page *page, const struct vc_model *a, const struct vc_model *b,
                     const struct vc_diff *diff, const struct vc_diff_limits *limits)
{
    size_t beyond = vc_diff_beyond(limits, diff);
    uint64_t sizes[] = {vc_model_file_bytes(a), vc_model_file_bytes(b)};
    uint64_t whole = sizes[0] > sizes[1] ? sizes[0] : sizes[1];
    const struct vc_model *models[] = {a, b};

    vc_page_add(page, "<section>\n<div class=\"hero\">\n<div><p class=\"big\">%s</p><p>%s of %s tensors %s</p></div>\n",
                diff->n_different == 0 ? "equal"
                : beyond == 0          ? "close"
                                       : "differs",
                vc_figure_count(beyond != 0 ? beyond : diff->n_different).s, vc_figure_count(diff->n_rows).s,
                beyond == 0 && diff->n_different != 0 ? "differ, within the limit" : "differ");
    vc_page_add(page, "<div class=\"bars\">\n");
    for (size_t i = 0; i < 2; i++) {
        const struct vc_page_part part = {vc_page_base(vc_model_path(models[i])), sizes[i], i == 0 ? 9 : 11};

        vc_page_add(page, "<p class=\"bar\"><span>");
        vc_page_name(page, part.name);
        vc_page_add(page, "</span><span>%s</span>", vc_figure_size(sizes[i]).s);
        vc_page_stack(page, part.name, &part, 1, whole);
        vc_page_add(page, "</p>\n");
    }
    vc_page_add(page, "</div>\n</div>\n");
    if (isfinite(diff->sqnr_db)) {
        vc_page_tiles(page);
        vc_page_tile(page, "SQNR over all", vc_figure_db(diff->sqnr_db).s, "higher is closer");
        vc_page_tile(page, "largest error", vc_figure_real(diff->max_abs_error).s, NULL);
        vc_page_tiles_end(page);
    }
    vc_page_section_end(page);
}

enum vc_status vc_diff_html(struct vc_ctx *ctx, const struct vc_model *a, const struct vc_model *b,
                            const struct vc_diff *diff, const struct vc_diff_limits *limits,
                            const struct vc_page_options *options, char **text)
{
    const struct vc_page_head head = {"diff", vc_model_path(b), vc_model_path(a)};
    struct vc_page page;
    enum vc_status status = vc_page_begin(&page, ctx, options, &head);

    *text = NULL;
    if (status == VC_OK) {
        add_hero(&page, a, b, diff, limits);
        add_table(&page, diff, limits);
        if (page.options.histograms != NULL) {
            vc_page_values(&page);
        }
        status = vc_page_end(&page, text);
    }
    vc_text_release(&page.text);
    return status;
}
