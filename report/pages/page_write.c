/* page_write.c - the frame of a page, its tables and its plain drawings: page_write.h. The style is page_style.c. */
#include "report/pages/page_write.h"

#include <math.h>
#include <string.h>

#include "core/base/option_struct.h"
#include "report/pages/page_style.h"

static const struct vc_page_options page_defaults = {.command = NULL};
static const struct vc_options_kind page_kind = {"vc_page_options", "vc_page_defaults", &page_defaults,
                                                 sizeof page_defaults};

void vc_page_defaults_sized(struct vc_page_options *options, size_t struct_size)
{
    vc_options_fill(&page_kind, options, struct_size);
}

const char *vc_page_base(const char *path)
{
    const char *base = path;
    const char *before = path; /* the part before it */

    for (const char *p = path; *p != '\0'; p++) {
        if (*p == '/' && p[1] != '\0' && p[1] != '/') {
            before = base;
            base = p + 1;
        }
    }
    return strcmp(base, "config.json") == 0 ? before : base;
}

void vc_page_name(struct vc_page *page, const char *name)
{
    vc_svg_add_text(&page->text, name, 120);
}

void vc_page_words(struct vc_page *page, const char *words)
{
    vc_svg_add_text(&page->text, words, 4000);
}

/* ---- the frame ---- */

enum vc_status vc_page_begin(struct vc_page *page, struct vc_ctx *ctx, const struct vc_page_options *options,
                             const struct vc_page_head *head)
{
    enum vc_status status;

    memset(page, 0, sizeof *page);
    vc_text_init(&page->text, ctx);
    status = vc_options_read(ctx, &page_kind, options, &page->options);
    if (status != VC_OK) {
        page->text.status = status;
        return status;
    }
    vc_page_add(page,
                "<!DOCTYPE html>\n<!-- vcompress %s -->\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
                "<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>",
                head->kind);
    vc_page_name(page, vc_page_base(head->path));
    vc_page_add(page, " &#183; %s</title>\n<style>\n", head->kind);
    vc_page_style(&page->text);
    vc_page_add(page,
                "</style>\n</head>\n<body>\n<header>\n<p class=\"mark\"><b>vcompress</b><span>%s</span></p>\n<h1>",
                head->kind);
    vc_page_name(page, vc_page_base(head->path));
    vc_page_add(page, "</h1>\n");
    if (head->about != NULL) {
        vc_page_add(page, "<p class=\"about\">");
        vc_page_words(page, head->about);
        vc_page_add(page, "</p>\n");
    }
    vc_page_add(page, "</header>\n<main>\n");
    return page->text.status;
}

enum vc_status vc_page_end(struct vc_page *page, char **out)
{
    vc_page_add(page, "</main>\n<footer>\n<dl>\n<div><dt>made by</dt><dd>vcompress %s</dd></div>\n", vc_version());
    if (page->options.command != NULL) {
        vc_page_add(page, "<div><dt>command</dt><dd><code>");
        vc_page_words(page, page->options.command);
        vc_page_add(page, "</code></dd></div>\n");
    }
    vc_page_add(page, "<div><dt>sizes</dt><dd>KiB, MiB and GiB are powers of two</dd></div>\n</dl>\n"
                      "</footer>\n</body>\n</html>\n");
    *out = vc_text_detach(&page->text);
    return page->text.status;
}

void vc_page_section(struct vc_page *page, const char *title, const char *lead)
{
    vc_page_add(page, "<section>\n<h2>%s</h2>\n", title);
    if (lead != NULL) {
        vc_page_add(page, "<p class=\"lead\">%s</p>\n", lead);
    }
}

void vc_page_section_end(struct vc_page *page)
{
    vc_page_add(page, "</section>\n");
}

/* ---- tiles ---- */

void vc_page_tiles(struct vc_page *page)
{
    vc_page_add(page, "<dl class=\"tiles\">\n");
}

void vc_page_tile(struct vc_page *page, const char *label, const char *value, const char *note)
{
    vc_page_add(page, "<div><dt>%s</dt><dd>%s", label, value);
    if (note != NULL) {
        vc_page_add(page, "<small>%s</small>", note);
    }
    vc_page_add(page, "</dd></div>\n");
}

void vc_page_tiles_end(struct vc_page *page)
{
    vc_page_add(page, "</dl>\n");
}

/* ---- tables ---- */

void vc_page_table(struct vc_page *page, const char *label, const struct vc_page_column *columns, size_t n)
{
    vc_page_add(page, "<div class=\"scroll\" role=\"region\" aria-label=\"%s\" tabindex=\"0\">\n<table>\n<thead><tr>",
                label);
    for (size_t i = 0; i < n; i++) {
        vc_page_add(page, "<th scope=\"col\"%s>%s</th>", columns[i].figures ? " class=\"n\"" : "", columns[i].title);
    }
    vc_page_add(page, "</tr></thead>\n<tbody>\n");
    page->row = false;
}

static void end_row(struct vc_page *page)
{
    if (page->row) {
        vc_page_add(page, "</tr>\n");
    }
    page->row = false;
}

void vc_page_row(struct vc_page *page)
{
    end_row(page);
    vc_page_add(page, "<tr>");
    page->row = true;
}

void vc_page_head_cell(struct vc_page *page)
{
    vc_page_add(page, "<th scope=\"row\">");
}

void vc_page_head_cell_end(struct vc_page *page)
{
    vc_page_add(page, "</th>");
}

void vc_page_cell(struct vc_page *page, const char *text)
{
    vc_page_add(page, "<td>%s</td>", text);
}

void vc_page_figure(struct vc_page *page, const char *text)
{
    vc_page_add(page, "<td class=\"n\">%s</td>", text);
}

void vc_page_table_end(struct vc_page *page)
{
    end_row(page);
    vc_page_add(page, "</tbody>\n</table>\n</div>\n");
}

/* ---- drawings ----
 *
 * Lengths are percentages of the width that the page has, so that a drawing fits a phone and no text in it shrinks. */

void vc_page_stack(struct vc_page *page, const char *label, const struct vc_page_part *parts, size_t n, uint64_t whole)
{
    double x = 0.0;

    vc_page_add(page, "<svg class=\"stack\" role=\"img\" aria-label=\"");
    vc_page_words(page, label);
    vc_page_add(page, "\">");
    for (size_t i = 0; i < n; i++) {
        double width = whole == 0 ? 0.0 : 100.0 * (double)parts[i].bytes / (double)whole;

        if (parts[i].bytes != 0) {
            vc_page_add(page, "<rect class=\"k%u\" x=\"%s%%\" width=\"%s%%\" height=\"100%%\"><title>", parts[i].colour,
                        vc_figure_fixed(x, 3).s, vc_figure_fixed(fmax(width, 0.2), 3).s);
            vc_page_words(page, parts[i].name);
            vc_page_add(page, ": %s</title></rect>", vc_figure_size(parts[i].bytes).s);
        }
        x += width;
    }
    vc_page_add(page, "</svg>\n");
}

void vc_page_swatch(struct vc_page *page, unsigned colour)
{
    vc_page_add(page,
                "<svg class=\"swatch\" aria-hidden=\"true\"><rect class=\"k%u\" width=\"100%%\" "
                "height=\"100%%\"/></svg>",
                colour);
}

void vc_page_strip(struct vc_page *page, const char *label, const signed char *shades, size_t n)
{
    vc_page_add(page,
                "<svg class=\"strip\" role=\"img\" viewBox=\"0 0 %zu 1\" preserveAspectRatio=\"none\" "
                "aria-label=\"",
                n);
    vc_page_words(page, label);
    vc_page_add(page, "\">");
    for (size_t i = 0; i < n;) {
        size_t run = 1;

        while (n > 64 && i + run < n && shades[i + run] == shades[i]) {
            run++;
        }
        vc_page_add(page,
                    shades[i] < 0 ? "<rect class=\"none\" x=\"%zu\" width=\"%s\" height=\"1\"/>"
                                  : "<rect x=\"%zu\" width=\"%s\" height=\"1\" class=\"",
                    i, vc_figure_fixed((double)run - (n > 64 || n == 1 ? 0.0 : 0.06), 2).s);
        if (shades[i] >= 0) {
            vc_page_add(page, "s%d\"/>", shades[i]);
        }
        i += run;
    }
    vc_page_add(page, "</svg>\n");
}

void vc_page_shade_key(struct vc_page *page, const char *least, const char *most)
{
    vc_page_add(page,
                "<p class=\"key\"><span>%s</span><svg class=\"strip\" viewBox=\"0 0 %d 1\" "
                "preserveAspectRatio=\"none\" aria-hidden=\"true\">",
                least, VC_PAGE_SHADES);
    for (int i = 0; i < VC_PAGE_SHADES; i++) {
        vc_page_add(page, "<rect class=\"s%d\" x=\"%d\" width=\"1\" height=\"1\"/>", i, i);
    }
    vc_page_add(page, "</svg><span>%s</span></p>\n", most);
}
