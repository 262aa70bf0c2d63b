/* graph_html.c - what a model computes, block by block, as a page: vc_graph_html. */
#include <stdio.h>

#include "report/pages/page_write.h"

#define N_BLOCKS 80
#define N_PARTS  12

/* Blocks that repeat have one line, the first's. */
static bool is_shown(const struct vc_graph_blocks *blocks, uint32_t k)
{
    for (uint32_t b = k; b != VC_NO_BLOCK; b = blocks->blocks[b].parent) {
        if (blocks->blocks[b].n_like == 0 && blocks->blocks[b].depth != 0) {
            return false;
        }
    }
    return blocks->blocks[k].depth != 0;
}

/* A number, or the expression in the sizes that are open. */
static void add_macs(struct vc_page *page, const struct vc_graph *graph, struct vc_dim macs)
{
    int64_t n = vc_graph_dim_value(graph, macs);
    char buf[256];

    vc_page_add(page, "<td class=\"n\">");
    if (n >= 0) {
        vc_page_add(page, "%s", vc_figure_short((uint64_t)n).s);
    } else {
        vc_svg_add_text(&page->text, vc_graph_dim_text(graph, macs, buf, sizeof buf), 40);
    }
    vc_page_add(page, "</td>");
}

static void add_block(struct vc_page *page, const struct vc_graph *graph, const struct vc_graph_block *block,
                      uint64_t whole)
{
    const struct vc_page_part part = {block->path, block->n_params, 0};

    vc_page_row(page);
    vc_page_head_cell(page);
    vc_page_add(page, "<span class=\"name\">");
    vc_svg_add_text(&page->text, block->path, 56);
    vc_page_add(page, "</span>");
    if (block->n_like > 1) {
        vc_page_add(page, " <span class=\"sub\">&#215;%u</span>", block->n_like);
    }
    vc_page_head_cell_end(page);
    vc_page_figure(page, vc_figure_count(block->n_nodes).s);
    vc_page_figure(page, vc_figure_short(block->n_params).s);
    vc_page_add(page, "<td class=\"wide\">");
    vc_page_stack(page, "share of the parameters", &part, 1, whole);
    vc_page_add(page, "</td>");
    add_macs(page, graph, block->macs);
}

static void add_blocks(struct vc_page *page, const struct vc_graph *graph, const struct vc_graph_blocks *blocks)
{
    static const struct vc_page_column columns[] = {
        {"block", false}, {"nodes", true}, {"parameters", true}, {"share", false}, {"multiply-adds", true}};
    uint32_t shown = 0;
    uint32_t more = 0;

    vc_page_section(page, "Blocks", "Figures of a block are of all that is in it; blocks that repeat have one line.");
    vc_page_table(page, "blocks", columns, 5);
    for (uint32_t k = 0; k < blocks->n; k++) {
        if (is_shown(blocks, k) && shown < N_BLOCKS) {
            add_block(page, graph, &blocks->blocks[k], blocks->blocks[0].n_params);
            shown++;
        } else if (is_shown(blocks, k)) {
            more++;
        }
    }
    vc_page_table_end(page);
    if (more != 0) {
        vc_page_add(page, "<p class=\"note\">And %u more blocks.</p>\n", more);
    }
    vc_page_section_end(page);
}

/* Inputs or outputs with their shapes. */
static void add_ends(struct vc_page *page, const struct vc_graph *graph, bool outputs)
{
    uint32_t n = outputs ? vc_graph_output_count(graph) : vc_graph_input_count(graph);

    for (uint32_t k = 0; k < n && k < N_PARTS; k++) {
        const struct vc_graph_value *value =
            vc_graph_value(graph, outputs ? vc_graph_output(graph, k) : vc_graph_input(graph, k));

        vc_page_row(page);
        vc_page_head_cell(page);
        vc_page_add(page, "<span class=\"name\">");
        vc_svg_add_text(&page->text, value->name, 64);
        vc_page_add(page, "</span>");
        vc_page_head_cell_end(page);
        vc_page_cell(page, outputs ? "output" : "input");
        vc_page_add(page, "<td>");
        for (unsigned d = 0; d < value->n_dims; d++) {
            char buf[256];

            vc_page_add(page, d == 0 ? "" : " &#215; ");
            vc_svg_add_text(&page->text, vc_graph_dim_text(graph, value->shape[d], buf, sizeof buf), 40);
        }
        vc_page_add(page, "</td>");
    }
}

enum vc_status vc_graph_html(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_graph_blocks *blocks,
                             const char *path, const struct vc_page_options *options, char **text)
{
    static const struct vc_page_column columns[] = {{"value", false}, {"", false}, {"shape", false}};
    const struct vc_page_head head = {"graph", path, NULL};
    const struct vc_graph_block *all = &blocks->blocks[0];
    int64_t macs = vc_graph_dim_value(graph, all->macs);
    struct vc_page page;
    enum vc_status status = vc_page_begin(&page, ctx, options, &head);

    *text = NULL;
    if (status == VC_OK) {
        vc_page_add(&page, "<section>\n<p class=\"big\">%s</p><p>parameters</p>\n", vc_figure_short(all->n_params).s);
        vc_page_tiles(&page);
        vc_page_tile(&page, "nodes", vc_figure_count(all->n_nodes).s, NULL);
        if (macs >= 0) {
            vc_page_tile(&page, "multiply-adds", vc_figure_short((uint64_t)macs).s, "of products and convolutions");
        }
        if (all->bytes != 0) {
            vc_page_tile(&page, "in the file", vc_figure_size(all->bytes).s, NULL);
        }
        vc_page_tiles_end(&page);
        vc_page_section_end(&page);
        if (blocks->n > 1) {
            add_blocks(&page, graph, blocks);
        }
        vc_page_section(&page, "Inputs and outputs", NULL);
        vc_page_table(&page, "inputs and outputs", columns, 3);
        add_ends(&page, graph, false);
        add_ends(&page, graph, true);
        vc_page_table_end(&page);
        vc_page_section_end(&page);
        status = vc_page_end(&page, text);
    }
    vc_text_release(&page.text);
    return status;
}
