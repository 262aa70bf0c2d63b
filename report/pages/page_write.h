/* page_write.h - a report as a page: one HTML file that needs nothing beside it. What all pages are made of; what is on
 * one is in the file of its document (report_html.c, memory_html.c, ...).
 *
 *     vc_page_begin(&page, ctx, &head);                  <!DOCTYPE html> ... <h1>model.npz</h1>
 *     vc_page_section(&page, "Sizes", NULL);             <section><h2>Sizes</h2>
 *     vc_page_name(&page, tensor->name);                 fc1.weight, escaped
 *     vc_page_section_end(&page);                        </section>
 *     status = vc_page_end(&page, &text);
 *
 * The markup is valid as HTML and well-formed as XML, so that a strict parser can check it: every element is closed,
 * every attribute has a value, &amp; &lt; &gt; &quot; and numbers are the only entities. Nothing outside is referenced.
 * Whatever comes from a file goes through vc_page_name or vc_page_words. Numbers are the same in every locale. */
#ifndef VC_REPORT_PAGE_WRITE_H
#define VC_REPORT_PAGE_WRITE_H

#include <vcompress/page.h>

#include "core/text/text.h"
#include "report/pages/svg_text.h"

struct vc_page {
    struct vc_text text; /* holds the first failure */
    struct vc_page_options options;
    bool row; /* a row of a table is open */
};

struct vc_page_head {
    const char *kind;  /* "quantize": what the page is about, a word or two */
    const char *path;  /* of the model; its last part is the title */
    const char *about; /* what stands under the title: the format, what was asked; NULL: nothing */
};

/* Up to the first section. options NULL: the defaults. vc_page_end follows after a failure, too. */
enum vc_status vc_page_begin(struct vc_page *page, struct vc_ctx *ctx, const struct vc_page_options *options,
                             const struct vc_page_head *head);
/* Provenance, then the end. *out is for vc_text_free. */
enum vc_status vc_page_end(struct vc_page *page, char **out);

/* lead: a sentence of ours under the heading, markup allowed; NULL: none. */
void vc_page_section(struct vc_page *page, const char *title, const char *lead);
void vc_page_section_end(struct vc_page *page);

/* Markup of ours. */
#define vc_page_add(page, ...) vc_text_add(&(page)->text, __VA_ARGS__)

/* What comes from files, escaped: a name, of which at most 120 characters are shown; a sentence. */
void vc_page_name(struct vc_page *page, const char *name);
void vc_page_words(struct vc_page *page, const char *words);
const char *vc_page_base(const char *path); /* "model.npz" of "a/model.npz"; "b/config.json" of "a/b/config.json" */

/* ---- figures, locale or not ---- */

struct vc_figure {
    char s[48];
};

struct vc_figure vc_figure_size(uint64_t bytes);                          /* "1.15 MiB" */
struct vc_figure vc_figure_count(uint64_t n);                             /* "301,066" */
struct vc_figure vc_figure_short(uint64_t n);                             /* "301 K", "6.74 G" */
struct vc_figure vc_figure_ratio(uint64_t before, uint64_t after);        /* "3.88"; "-" where one is 0 */
struct vc_figure vc_figure_percent(double part, double whole);            /* "1.3 %" */
struct vc_figure vc_figure_db(double db);                                 /* "46.2 dB", "exact" */
struct vc_figure vc_figure_real(double x);                                /* "0.0013": 3 digits */
struct vc_figure vc_figure_fixed(double x, int decimals);                 /* "12.50" */
struct vc_figure vc_figure_shape(unsigned n_dims, const uint64_t *shape); /* "512 x 64" */

/* ---- tiles: a figure with its name ---- */

void vc_page_tiles(struct vc_page *page);
/* value and note are markup of ours; note may be NULL. */
void vc_page_tile(struct vc_page *page, const char *label, const char *value, const char *note);
void vc_page_tiles_end(struct vc_page *page);

/* ---- tables, which scroll inside their own box ---- */

struct vc_page_column {
    const char *title;
    bool figures; /* to the right */
};

void vc_page_table(struct vc_page *page, const char *label, const struct vc_page_column *columns, size_t n);
void vc_page_row(struct vc_page *page);
/* A cell's beginning, and its end; between them any markup. The first cell of a row is its head. */
void vc_page_head_cell(struct vc_page *page);
void vc_page_head_cell_end(struct vc_page *page);
void vc_page_cell(struct vc_page *page, const char *text); /* a figure or a word of ours */
void vc_page_figure(struct vc_page *page, const char *text);
void vc_page_table_end(struct vc_page *page);

/* ---- drawings ---- */

/* A part of a stacked bar. Colours have numbers from 0 to VC_PAGE_COLOURS - 1; each has its name beside it somewhere.
 */
struct vc_page_part {
    const char *name;
    uint64_t bytes;
    unsigned colour;
};
#define VC_PAGE_COLOURS 13

/* A bar of all parts, drawn as long as it is of `whole`. `label` is escaped. */
void vc_page_stack(struct vc_page *page, const char *label, const struct vc_page_part *parts, size_t n, uint64_t whole);
/* A small square of that colour, for tables and keys. */
void vc_page_swatch(struct vc_page *page, unsigned colour);

/* A strip of n cells with a shade from 0 to VC_PAGE_SHADES - 1 each; below 0: no figure. */
#define VC_PAGE_SHADES 8
void vc_page_strip(struct vc_page *page, const char *label, const signed char *shades, size_t n);
/* What the shades stand for: from `least` to `most`, words of ours. */
void vc_page_shade_key(struct vc_page *page, const char *least, const char *most);

/* A histogram: bars that stand side by side, as high as the logarithm of their counts. */
void vc_page_bars(struct vc_page *page, const char *label, const uint64_t *counts, size_t n);

/* ---- sections that several pages have ---- */

struct vc_page_group; /* page_groups.h */
/* "layers.*.w x24" */
void vc_page_group_name(struct vc_page *page, const struct vc_page_group *group);

void vc_page_values(struct vc_page *page);                                  /* options.histograms: page_values.c */
void vc_page_matrix(struct vc_page *page);                                  /* options.matrix: page_fit.c */
void vc_page_targets(struct vc_page *page, const struct vc_report *report); /* report.fits: page_fit.c */
void vc_page_verdict(struct vc_page *page, enum vc_verdict verdict, bool weights_only);
const char *vc_page_memory_name(enum vc_memory_kind kind); /* "optimizer states": memory_html.c */
void vc_page_timeline(struct vc_page *page, const struct vc_memory_timeline *timeline); /* page_timeline.c */

#endif
