/* plan_html.c - recipes by which a model fits a device, as a page: vc_recipes_html. */
#include <stdio.h>

#include "report/pages/page_write.h"

#define N_RECIPES 60

static void add_recipe(struct vc_page *page, const struct vc_recipe *recipe, bool best)
{
    const struct vc_fit *fit = &recipe->fit;
    bool more = fit->headroom_bytes >= 0;

    vc_page_row(page);
    vc_page_head_cell(page);
    vc_page_words(page, recipe->what);
    vc_page_add(page, best ? " <span class=\"badge maybe\">chosen</span>" : "");
    vc_page_head_cell_end(page);
    vc_page_figure(page, vc_figure_size(fit->need_bytes).s);
    vc_page_add(page, "<td class=\"n\">%s%s</td>", more ? "" : "&#8722;",
                vc_figure_size(more ? (uint64_t)fit->headroom_bytes : (uint64_t)-fit->headroom_bytes).s);
    vc_page_add(page, "<td class=\"n\">%s <span class=\"sub\">%s</span></td>", vc_figure_percent(recipe->error, 1.0).s,
                recipe->error == 0.0 ? ""
                : recipe->measured   ? "measured"
                                     : "usual");
    vc_page_figure(page, vc_figure_fixed(recipe->time, 2).s);
    vc_page_add(page, "<td>");
    vc_page_verdict(page, fit->verdict, fit->weights_only);
    vc_page_add(page, "</td>");
}

static void add_table(struct vc_page *page, const struct vc_recipes *recipes, size_t best)
{
    static const struct vc_page_column columns[] = {{"recipe", false}, {"needs", true}, {"left", true},
                                                    {"error", true},   {"time", true},  {"", false}};
    const struct vc_recipe *recipe;
    size_t n = 0;

    vc_page_section(
        page, "Recipes",
        "The least harmful first; each needs less than all before it. Error: of the weights. Time: of a step, "
        "in times of the one that was asked for.");
    vc_page_table(page, "recipes", columns, 6);
    for (; n < N_RECIPES && (recipe = vc_recipe(recipes, n)) != NULL; n++) {
        add_recipe(page, recipe, n == best);
    }
    vc_page_table_end(page);
    vc_page_section_end(page);
}

static void add_lines(struct vc_page *page, const struct vc_recipe_lines *lines)
{
    vc_page_section(page, "How", NULL);
    for (size_t i = 0; i < lines->n; i++) {
        vc_page_add(page, "<p class=\"about\"><code>");
        vc_page_words(page, lines->lines[i]);
        vc_page_add(page, "</code></p>\n");
    }
    vc_page_section_end(page);
}

enum vc_status vc_recipes_html(struct vc_ctx *ctx, const struct vc_recipes *recipes, const char *gpu, const char *path,
                               const struct vc_recipe_lines *lines, const struct vc_page_options *options, char **text)
{
    const struct vc_page_head head = {"plan", path, gpu};
    size_t best = vc_recipes_best(recipes);
    const struct vc_recipe *chosen = best != VC_NO_RECIPE ? vc_recipe(recipes, best) : NULL;
    struct vc_page page;
    enum vc_status status = vc_page_begin(&page, ctx, options, &head);

    *text = NULL;
    if (status == VC_OK) {
        if (chosen != NULL) {
            vc_page_add(&page, "<section>\n<p class=\"big\">fits</p><p>");
            vc_page_words(&page, chosen->what);
            vc_page_add(&page, ": %s needed of %s</p>\n</section>\n", vc_figure_size(chosen->fit.need_bytes).s,
                        vc_figure_size(chosen->fit.usable_bytes).s);
        } else {
            vc_page_add(&page, "<section>\n<p class=\"big\">no</p><p>no recipe fits</p>\n</section>\n");
        }
        if (chosen != NULL && lines != NULL && lines[best].n != 0) {
            add_lines(&page, &lines[best]);
        }
        add_table(&page, recipes, best);
        status = vc_page_end(&page, text);
    }
    vc_text_release(&page.text);
    return status;
}
