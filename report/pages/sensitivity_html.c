/* sensitivity_html.c - what each tensor would lose, as a page: vc_sensitivity_html. */
#include <math.h>

#include "report/pages/page_write.h"

#define N_ROWS 40

/* What a row loses where half of it is pruned: by that they are chosen. */
static double loss_of(const struct vc_sensitivity *s, const struct vc_sensitivity_row *row)
{
    for (size_t i = 0; i < s->n_candidates && row->errors != NULL; i++) {
        if (s->candidates[i].percent == 50) {
            return isfinite(row->errors[i].relative) ? row->errors[i].relative : 0.0;
        }
    }
    return 0.0;
}

/* Those that lose most, in the order of the model. */
static size_t choose(const struct vc_sensitivity *s, size_t *rows)
{
    double least = -1.0;
    size_t n = 0;

    for (size_t i = 0; i < s->n_rows; i++) { /* the N_ROWS largest losses, by insertion */
        size_t at = n < N_ROWS ? n : N_ROWS - 1;
        double loss = loss_of(s, &s->rows[i]);

        if (s->rows[i].errors == NULL || (n == N_ROWS && !(loss > least))) {
            continue;
        }
        while (at > 0 && loss > loss_of(s, &s->rows[rows[at - 1]])) {
            rows[at] = rows[at - 1];
            at--;
        }
        rows[at] = i;
        n += n < N_ROWS;
        least = loss_of(s, &s->rows[rows[n - 1]]);
    }
    for (size_t i = 1; i < n; i++) {
        size_t row = rows[i];
        size_t at = i;

        for (; at > 0 && rows[at - 1] > row; at--) {
            rows[at] = rows[at - 1];
        }
        rows[at] = row;
    }
    return n;
}

static unsigned shade_of(double relative)
{
    static const double ends[VC_PAGE_SHADES - 1] = {1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.2, 0.4};
    unsigned i = 0;

    while (i + 1 < VC_PAGE_SHADES && !(relative <= ends[i])) {
        i++;
    }
    return i;
}

static void add_cell(struct vc_page *page, const struct vc_sensitivity_error *error)
{
    if (error->reason != NULL || isnan(error->relative)) {
        vc_page_add(page, "<td class=\"heat\">-</td>");
    } else {
        double percent = 100.0 * error->relative;

        vc_page_add(page, "<td class=\"heat s%u\">%s</td>", shade_of(error->relative),
                    percent == 0.0 ? "0"
                                   : vc_figure_fixed(percent, percent >= 9.95   ? 0
                                                              : percent >= 0.95 ? 1
                                                                                : 2)
                                         .s);
    }
}

static void add_map(struct vc_page *page, const struct vc_sensitivity *s)
{
    size_t rows[N_ROWS];
    size_t n = choose(s, rows);

    vc_page_section(page, "What each tensor would lose",
                    "The error of each way in percent: RMS of the change over the RMS of the tensor, from the weights "
                    "alone. Pruned to a sparsity, to a pattern, or quantized.");
    vc_page_add(page, "<div class=\"scroll\" role=\"region\" aria-label=\"errors\" tabindex=\"0\">\n<table>\n"
                      "<thead><tr><th scope=\"col\">tensor</th>");
    for (size_t i = 0; i < s->n_candidates; i++) {
        vc_page_add(page, "<th scope=\"col\" class=\"heat\">");
        vc_page_words(page, s->candidates[i].name);
        vc_page_add(page, "</th>");
    }
    vc_page_add(page, "</tr></thead>\n<tbody>\n");
    for (size_t k = 0; k < n; k++) {
        const struct vc_sensitivity_row *row = &s->rows[rows[k]];

        vc_page_add(page, "<tr><th scope=\"row\"><span class=\"name\">");
        vc_svg_add_text(&page->text, row->name, 48);
        vc_page_add(page, "</span></th>");
        for (size_t i = 0; i < s->n_candidates; i++) {
            add_cell(page, &row->errors[i]);
        }
        vc_page_add(page, "</tr>\n");
    }
    vc_page_add(page, "</tbody>\n</table>\n</div>\n");
    if (n < s->n_measured) {
        vc_page_add(page, "<p class=\"note\">The %zu that lose most at 50 %%, of %s that were measured.</p>\n", n,
                    vc_figure_count(s->n_measured).s);
    }
    vc_page_section_end(page);
}

/* With data: what the outputs lose. */
static void add_outputs(struct vc_page *page, const struct vc_sensitivity *s)
{
    const struct vc_measured *m = s->measured;
    size_t shown = 0;

    vc_page_section(page, "What the outputs would lose",
                    "With data: the change of the outputs in percent of their norm when that tensor alone changes.");
    vc_page_add(page, "<div class=\"scroll\" role=\"region\" aria-label=\"outputs\" tabindex=\"0\">\n<table>\n"
                      "<thead><tr><th scope=\"col\">tensor</th>");
    for (size_t k = 0; k < m->n_candidates; k++) {
        vc_page_add(page, "<th scope=\"col\" class=\"heat\">");
        vc_page_words(page, s->candidates[m->candidates[k]].name);
        vc_page_add(page, "</th>");
    }
    vc_page_add(page, "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < m->n_tensors && shown < N_ROWS; i++) {
        const struct vc_measured_tensor *tensor = &m->tensors[i];

        if (tensor->changes == NULL) {
            continue;
        }
        shown++;
        vc_page_add(page, "<tr><th scope=\"row\"><span class=\"name\">");
        vc_svg_add_text(&page->text, s->rows[tensor->row].name, 48);
        vc_page_add(page, "</span></th>");
        for (size_t k = 0; k < m->n_candidates; k++) {
            const struct vc_sensitivity_error cell = {.reason = tensor->changes[k].reason,
                                                      .relative = tensor->changes[k].relative};

            add_cell(page, &cell);
        }
        vc_page_add(page, "</tr>\n");
    }
    vc_page_add(page, "</tbody>\n</table>\n</div>\n");
    vc_page_section_end(page);
}

/* The tensors that stand out, for one command. */
static void add_picks(struct vc_page *page, const struct vc_sensitivity *s, const struct vc_sensitivity_advice *advice,
                      const char *title)
{
    static const struct vc_page_column columns[] = {{"tensor", false}, {"error", true}};
    size_t n = advice->n_picks < N_ROWS ? advice->n_picks : N_ROWS;

    vc_page_section(page, title, NULL);
    if (advice->candidate == VC_NO_TENSOR) {
        vc_page_add(page, "<p>No tensor was measured that the command would choose.</p>\n");
    } else if (n == 0) {
        vc_page_add(page, "<p>No tensor is far from the others: the median is %s, and none has more than %s.</p>\n",
                    vc_figure_percent(advice->median, 1.0).s, vc_figure_percent(advice->limit, 1.0).s);
    } else {
        vc_page_add(page, "<p class=\"lead\">Above %s, where the median is %s.</p>\n",
                    vc_figure_percent(advice->limit, 1.0).s, vc_figure_percent(advice->median, 1.0).s);
        vc_page_table(page, title, columns, 2);
        for (size_t i = 0; i < n; i++) {
            vc_page_row(page);
            vc_page_head_cell(page);
            vc_page_add(page, "<span class=\"name\">");
            vc_svg_add_text(&page->text, s->rows[advice->picks[i].row].name, 64);
            vc_page_add(page, "</span>");
            vc_page_head_cell_end(page);
            vc_page_figure(page, vc_figure_percent(advice->picks[i].relative, 1.0).s);
        }
        vc_page_table_end(page);
    }
    vc_page_section_end(page);
}

enum vc_status vc_sensitivity_html(struct vc_ctx *ctx, const struct vc_sensitivity *s,
                                   const struct vc_page_options *options, char **text)
{
    const struct vc_page_head head = {"sensitivity", vc_model_path(s->model), vc_model_format(s->model)};
    struct vc_page page;
    enum vc_status status = vc_page_begin(&page, ctx, options, &head);

    *text = NULL;
    if (status == VC_OK) {
        vc_page_add(&page, "<section>\n<p class=\"big\">%s</p><p>of %s weights measured, in %zu ways each</p>\n",
                    vc_figure_count(s->n_measured).s, vc_figure_count(s->n_rows).s, s->n_candidates);
        vc_page_section_end(&page);
        if (s->n_measured != 0) {
            add_map(&page, s);
            if (s->measured != NULL) {
                add_outputs(&page, s);
            }
        }
        add_picks(&page, s, &s->prune, "To be pruned with care");
        add_picks(&page, s, &s->quantize, "To be quantized with care");
        if (page.options.histograms != NULL) {
            vc_page_values(&page);
        }
        status = vc_page_end(&page, text);
    }
    vc_text_release(&page.text);
    return status;
}
