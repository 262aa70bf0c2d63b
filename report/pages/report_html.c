/* report_html.c - what a job did to a model, as a page: vc_report_html. From top to bottom: the sizes before and after,
 * what they are made of, groups of tensors, maps of layers, the worst tensors, where it fits, what was written. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/pages/page_groups.h"
#include "report/pages/page_write.h"

#define N_STRIPS 24

/* A line of the table of groups. */
struct line {
    uint64_t before, after, zeros, n_measured, n_elems, clipped;
    double sqnr_db; /* the lowest */
    bool measured;
};

/* The cells of a group: the worst of the tensors that share one. */
struct strip {
    size_t group, seen;
    float sqnr[VC_PAGE_CELLS], zeros[VC_PAGE_CELLS]; /* NaN: no figure */
};

struct report_page {
    struct vc_page page; /* first */
    const struct vc_report *report;
    struct vc_page_groups groups;
    struct line lines[VC_PAGE_GROUPS + 1];
    struct strip strips[N_STRIPS];
    size_t n_strips;
    uint64_t before[VC_DTYPE_COUNT], after[VC_DTYPE_COUNT]; /* bytes of weights by type */
    bool measured, quantized; /* quantized: something lost precision, and not only values */
};

static bool changed(const struct vc_report_row *row)
{
    return row->action != VC_ACTION_KEPT && row->action != VC_ACTION_DROPPED && row->action != VC_ACTION_TIED;
}

static bool is_pruned(const struct vc_report *report)
{
    return report->pruning != NULL;
}

/* ---- collecting ---- */

static void kind_of(const struct vc_report_row *row, char *kind, size_t room)
{
    size_t n = (size_t)snprintf(kind, room, "%d %d %d %d %s %s", (int)row->action, (int)row->dtype_before,
                                (int)row->dtype_after, (int)row->role, row->scheme, row->reason);

    for (unsigned i = 0; i < row->n_dims && n < room; i++) {
        n += (size_t)snprintf(kind + n, room - n, ",%llu", (unsigned long long)row->shape[i]);
    }
}

static void add_line(struct line *line, const struct vc_report_row *row)
{
    if (line->n_elems == 0 && !line->measured) {
        line->sqnr_db = (double)INFINITY;
    }
    line->before += row->bytes_before;
    line->after += row->bytes_after;
    line->n_elems += row->n_elems;
    if (row->measured) {
        line->measured = true;
        line->zeros += row->zeros_after;
        line->n_measured += row->n_elems;
        line->clipped += row->clipped;
        line->sqnr_db = fmin(line->sqnr_db, row->sqnr_db);
    }
}

static void collect(struct report_page *p)
{
    struct vc_report_row row;
    char kind[256];

    for (size_t i = 0; vc_report_get_row(p->report, i, &row); i++) {
        kind_of(&row, kind, sizeof kind);
        add_line(&p->lines[vc_page_groups_add(&p->groups, i, row.name, kind, row.bytes_before)], &row);
        if (row.role == VC_ROLE_WEIGHT) {
            p->before[row.dtype_before] += row.bytes_before;
            p->after[row.dtype_after] += row.bytes_after - (row.bytes_after < row.scale_bytes ? 0 : row.scale_bytes);
        }
        p->measured = p->measured || row.measured;
        p->quantized = p->quantized || (changed(&row) && row.action != VC_ACTION_PRUNED && row.action != VC_ACTION_CUT);
    }
    vc_page_groups_sort(&p->groups);
}

static void choose_strips(struct report_page *p)
{
    for (size_t k = 0; k < p->groups.n && p->n_strips < N_STRIPS; k++) {
        size_t group = p->groups.order[k];

        if (p->lines[group].measured) {
            struct strip *strip = &p->strips[p->n_strips++];

            strip->group = group;
            for (size_t c = 0; c < VC_PAGE_CELLS; c++) {
                strip->sqnr[c] = strip->zeros[c] = NAN;
            }
        }
    }
}

static size_t n_cells(const struct report_page *p, const struct strip *strip)
{
    size_t n = p->groups.groups[strip->group].n;

    return n < VC_PAGE_CELLS ? n : VC_PAGE_CELLS;
}

static void fill_cell(const struct report_page *p, struct strip *strip, const struct vc_report_row *row)
{
    size_t cell = strip->seen++ * n_cells(p, strip) / p->groups.groups[strip->group].n;

    if (row->measured && cell < VC_PAGE_CELLS) {
        float zeros = row->n_elems == 0 ? 0.0F : (float)row->zeros_after / (float)row->n_elems;

        strip->sqnr[cell] = fminf(strip->sqnr[cell], (float)row->sqnr_db);
        strip->zeros[cell] = fmaxf(strip->zeros[cell], zeros);
    }
}

/* Walks the rows once more: which cell a tensor is in is known once its group is counted. */
static void fill_strips(struct report_page *p)
{
    struct vc_report_row row;
    char kind[256];

    for (size_t i = 0; vc_report_get_row(p->report, i, &row); i++) {
        size_t group;

        kind_of(&row, kind, sizeof kind);
        group = vc_page_groups_find(&p->groups, row.name, kind);
        for (size_t s = 0; s < p->n_strips; s++) {
            if (p->strips[s].group == group) {
                fill_cell(p, &p->strips[s], &row);
            }
        }
    }
}

/* ---- the head ---- */

static void add_bar(struct report_page *p, const char *label, uint64_t bytes, uint64_t whole, unsigned colour)
{
    const struct vc_page_part part = {label, bytes, colour};

    vc_page_add(&p->page, "<p class=\"bar\"><span>%s</span><span>%s</span>", label, vc_figure_size(bytes).s);
    vc_page_stack(&p->page, label, &part, 1, whole);
    vc_page_add(&p->page, "</p>\n");
}

static void add_hero(struct report_page *p)
{
    const struct vc_report_totals *t = &p->report->totals;
    bool file = t->file_after != 0;
    uint64_t before = file ? t->file_before : t->host_before;
    uint64_t after = file ? t->file_after : t->host_after;
    uint64_t whole = before > after ? before : after;
    const char *what = file ? "file" : "values";
    bool larger = after > before;
    bool zeros =
        is_pruned(p->report) && p->report->pruning->measured && !p->quantized && (double)after > 0.98 * (double)before;

    vc_page_add(&p->page, "<section>\n<div class=\"hero\">\n<div><p class=\"big\">");
    if (zeros) { /* stored as before: what was reached is not in the size */
        vc_page_add(&p->page, "%s</p><p>zeros in the tensors that were pruned",
                    vc_figure_percent(p->report->pruning->sparsity, 1.0).s);
    } else if (before == after) {
        vc_page_add(&p->page, "1&#215;</p><p>the same size");
    } else {
        vc_page_add(&p->page, "%s&#215;</p><p>%s %s",
                    (larger ? vc_figure_ratio(after, before) : vc_figure_ratio(before, after)).s,
                    larger ? "larger" : "smaller", what);
    }
    vc_page_add(&p->page, "%s</p></div>\n<div class=\"bars\">\n",
                p->report->dry_run   ? ", planned: nothing is written"
                : p->report->written ? ""
                                     : ", but nothing was written");
    add_bar(p, "before", before, whole, 9);
    add_bar(p, "after", after, whole, 11);
    vc_page_add(&p->page, "</div>\n</div>\n");
}

static void add_tiles(struct report_page *p)
{
    const struct vc_report_totals *t = &p->report->totals;
    struct vc_page *page = &p->page;
    char note[160];
    struct vc_report_row worst;

    vc_page_tiles(page);
    (void)snprintf(note, sizeof note, "%s parameters", vc_figure_short(t->n_params).s);
    vc_page_tile(page, "tensors changed", vc_figure_count(t->n_changed).s, note);
    (void)snprintf(note, sizeof note, "before %s", vc_figure_size(t->host_before).s);
    vc_page_tile(page, "in memory", vc_figure_size(t->host_after).s, note);
    vc_page_tile(page, "bits per weight", vc_figure_fixed(t->bits_per_weight, 2).s, NULL);
    if (t->measured) {
        vc_page_tile(page, "SQNR over all changed", vc_figure_db(t->sqnr_db).s, "higher is closer");
    }
    if (t->measured && vc_report_get_row(p->report, t->worst, &worst) && isfinite(worst.sqnr_db)) {
        vc_page_add(page, "<div><dt>SQNR of the worst</dt><dd>%s<small class=\"name\">", vc_figure_db(worst.sqnr_db).s);
        vc_svg_add_text(&page->text, worst.name, 40);
        vc_page_add(page, "</small></dd></div>\n");
    }
    if (is_pruned(p->report) && p->report->pruning->measured) {
        (void)snprintf(note, sizeof note, "%s of the model",
                       vc_figure_percent(p->report->pruning->model_sparsity, 1.0).s);
        vc_page_tile(page, "zeros in pruned tensors", vc_figure_percent(p->report->pruning->sparsity, 1.0).s, note);
    }
    vc_page_tiles_end(page);
}

static void add_gates(struct report_page *p)
{
    const struct vc_report *r = p->report;

    if (r->gate_missed != NULL && r->gate_missed[0] != '\0') {
        vc_page_add(&p->page, "<p class=\"note\"><span class=\"badge no\">&#10005; gate missed</span> ");
        vc_page_words(&p->page, r->gate_missed);
        vc_page_add(&p->page, "</p>\n");
    } else if (r->n_gates != 0) {
        vc_page_add(&p->page, "<p class=\"note\"><span class=\"badge yes\">&#10003; gates met</span></p>\n");
    }
    vc_page_section_end(&p->page);
}

/* ---- what the bytes are ---- */

/* A part of both bars. */
struct component {
    char name[48];
    uint64_t before, after;
    unsigned colour;
};

static size_t list_components(const struct report_page *p, struct component *list)
{
    static const unsigned colours[] = {0, 7, 2, 6, 1, 4, 12, 10};
    const struct vc_report_totals *t = &p->report->totals;
    size_t n = 0;

    for (int d = 0; d < VC_DTYPE_COUNT && n < sizeof colours / sizeof colours[0]; d++) {
        if (p->before[d] + p->after[d] != 0) {
            list[n] = (struct component){.before = p->before[d], .after = p->after[d], .colour = colours[n]};
            (void)snprintf(list[n++].name, sizeof list->name, "%s", vc_dtype_name((enum vc_dtype)d));
        }
    }
    if (t->scale_bytes != 0) {
        list[n++] = (struct component){"scales and other parts", 0, t->scale_bytes, 3};
    }
    if (t->optimizer_before + t->optimizer_after != 0) {
        list[n++] = (struct component){"optimizer state", t->optimizer_before, t->optimizer_after, 8};
    }
    if (t->other_before + t->other_after != 0) {
        list[n++] = (struct component){"other tensors", t->other_before, t->other_after, 5};
    }
    return n;
}

static void add_stack(struct report_page *p, const char *label, const struct component *list, size_t n, bool after,
                      uint64_t whole)
{
    struct vc_page_part parts[12];
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        parts[i] = (struct vc_page_part){list[i].name, after ? list[i].after : list[i].before, list[i].colour};
        sum += parts[i].bytes;
    }
    vc_page_add(&p->page, "<p class=\"bar\"><span>%s</span><span>%s</span>", label, vc_figure_size(sum).s);
    vc_page_stack(&p->page, label, parts, n, whole);
    vc_page_add(&p->page, "</p>\n");
}

static void add_components(struct report_page *p)
{
    static const struct vc_page_column columns[] = {
        {"part", false}, {"before", true}, {"after", true}, {"share", true}};
    const struct vc_report_totals *t = &p->report->totals;
    uint64_t whole = t->host_before > t->host_after ? t->host_before : t->host_after;
    struct component list[12];
    size_t n = list_components(p, list);
    struct vc_page *page = &p->page;

    vc_page_section(page, "What the bytes are",
                    "Values by the type that they are stored in, without the headers of the file. Exact.");
    vc_page_add(page, "<div class=\"bars\">\n");
    add_stack(p, "before", list, n, false, whole);
    add_stack(p, "after", list, n, true, whole);
    vc_page_add(page, "</div>\n");
    vc_page_table(page, "bytes by type", columns, 4);
    for (size_t i = 0; i < n; i++) {
        vc_page_row(page);
        vc_page_head_cell(page);
        vc_page_swatch(page, list[i].colour);
        vc_page_words(page, list[i].name);
        vc_page_head_cell_end(page);
        vc_page_figure(page, vc_figure_size(list[i].before).s);
        vc_page_figure(page, vc_figure_size(list[i].after).s);
        vc_page_figure(page, vc_figure_percent((double)list[i].after, (double)t->host_after).s);
    }
    vc_page_table_end(page);
    if (t->device_dequantized != t->device_native) {
        vc_page_add(page,
                    "<p class=\"note\">On a device %s with kernels that compute on codes; %s with a loader that "
                    "turns codes back into the type of the source.</p>\n",
                    vc_figure_size(t->device_native).s, vc_figure_size(t->device_dequantized).s);
    }
    vc_page_section_end(page);
}

/* ---- groups ---- */

static void add_fate(struct report_page *p, const struct vc_report_row *row)
{
    static const char *const words[] = {"kept", "", "", "", "dropped", "tied", "", ""};
    struct vc_page *page = &p->page;

    vc_page_add(page, "<td>%s", vc_dtype_name(row->dtype_before));
    if (changed(row)) {
        for (size_t i = 0; i + 1 < row->n_steps; i++) {
            vc_page_add(page, " &#8594; ");
            vc_page_words(page, row->steps[i].scheme);
        }
        vc_page_add(page, " &#8594; ");
        vc_page_words(page, row->scheme[0] != '\0' ? row->scheme : vc_dtype_name(row->dtype_after));
        vc_page_add(page, "</td>");
        return;
    }
    vc_page_add(page, " <span class=\"sub\">%s", words[row->action]);
    if (row->reason != NULL && row->reason[0] != '\0') {
        vc_page_add(page, ": ");
        vc_svg_add_text(&page->text, row->reason, 60);
    }
    vc_page_add(page, "</span></td>");
}

static void add_group(struct report_page *p, size_t group)
{
    const struct line *line = &p->lines[group];
    struct vc_page *page = &p->page;
    struct vc_report_row row;

    if (!vc_report_get_row(p->report, p->groups.groups[group].first, &row)) {
        return;
    }
    vc_page_row(page);
    vc_page_head_cell(page);
    vc_page_group_name(page, &p->groups.groups[group]);
    vc_page_head_cell_end(page);
    if (group == VC_PAGE_GROUPS) {
        vc_page_cell(page, "");
        vc_page_cell(page, "");
    } else {
        vc_page_cell(page, vc_figure_shape(row.n_dims, row.shape).s);
        add_fate(p, &row);
    }
    vc_page_figure(page, vc_figure_size(line->before).s);
    vc_page_figure(page, vc_figure_size(line->after).s);
    vc_page_add(page, "<td class=\"n\">%s&#215;</td>", vc_figure_ratio(line->before, line->after).s);
    if (p->measured) {
        vc_page_figure(page, line->measured ? vc_figure_db(line->sqnr_db).s : "");
    }
    if (is_pruned(p->report) && p->measured) {
        vc_page_figure(page, line->measured ? vc_figure_percent((double)line->zeros, (double)line->n_measured).s : "");
    }
}

static void add_group_rows(struct report_page *p, size_t from, size_t to)
{
    static const struct vc_page_column columns[] = {{"tensors", false}, {"shape", false}, {"type", false},
                                                    {"before", true},   {"after", true},  {"smaller", true},
                                                    {"SQNR", true},     {"zeros", true}};

    vc_page_table(&p->page, "groups of tensors", columns,
                  6U + (p->measured ? 1U : 0U) + (p->measured && is_pruned(p->report) ? 1U : 0U));
    for (size_t k = from; k < to; k++) {
        add_group(p, k < p->groups.n ? p->groups.order[k] : VC_PAGE_GROUPS);
    }
    vc_page_table_end(&p->page);
}

static void add_groups(struct report_page *p)
{
    size_t n = p->groups.n + (p->groups.groups[VC_PAGE_GROUPS].n != 0);
    size_t shown = n <= VC_PAGE_GROUP_LINES + 4 ? n : VC_PAGE_GROUP_LINES;

    vc_page_section(
        &p->page, "Tensors by group",
        "Tensors whose names differ in their numbers alone share a line, the largest first. SQNR is that of "
        "the worst of them.");
    add_group_rows(p, 0, shown);
    if (shown < n) {
        vc_page_add(&p->page, "<details><summary>%s more groups</summary>\n", vc_figure_count(n - shown).s);
        add_group_rows(p, shown, n);
        vc_page_add(&p->page, "</details>\n");
    }
    vc_page_section_end(&p->page);
}

/* ---- maps ---- */

static signed char shade_of_db(float db)
{
    float shade = isnan(db) ? -1.0F : (60.0F - db) / 50.0F * (float)VC_PAGE_SHADES;

    return isnan(db) ? -1 : shade < 0.0F ? 0 : shade >= (float)VC_PAGE_SHADES ? VC_PAGE_SHADES - 1 : (signed char)shade;
}

static signed char shade_of_share(float share)
{
    return isnan(share) ? -1 : share >= 1.0F ? VC_PAGE_SHADES - 1 : (signed char)(share * (float)VC_PAGE_SHADES);
}

static void add_map(struct report_page *p, const char *title, const char *lead, bool zeros)
{
    struct vc_page *page = &p->page;

    vc_page_section(page, title, lead);
    vc_page_add(page, "<div class=\"maps\">\n");
    for (size_t s = 0; s < p->n_strips; s++) {
        const struct strip *strip = &p->strips[s];
        const struct line *line = &p->lines[strip->group];
        signed char shades[VC_PAGE_CELLS];
        size_t n = n_cells(p, strip);

        for (size_t c = 0; c < n; c++) {
            shades[c] = zeros ? shade_of_share(strip->zeros[c]) : shade_of_db(strip->sqnr[c]);
        }
        vc_page_add(page, "<div class=\"row\"><span>");
        vc_page_group_name(page, &p->groups.groups[strip->group]);
        vc_page_add(page, "</span>");
        vc_page_strip(page, title, shades, n);
        vc_page_add(page, "<span class=\"n\">%s</span></div>\n",
                    zeros ? vc_figure_percent((double)line->zeros, (double)line->n_measured).s
                          : vc_figure_db(line->sqnr_db).s);
    }
    vc_page_add(page, "</div>\n");
    if (zeros) {
        vc_page_shade_key(page, "no zeros", "all zeros");
    } else {
        vc_page_shade_key(page, "60 dB or more", "10 dB or less");
    }
    vc_page_section_end(page);
}

static void add_maps(struct report_page *p)
{
    choose_strips(p);
    if (p->n_strips == 0) {
        return;
    }
    fill_strips(p);
    if (is_pruned(p->report)) {
        add_map(p, "Sparsity map", "The share of zeros in each tensor, in the order of the file: a cell is a tensor.",
                true);
    }
    if (p->quantized && isfinite(p->report->totals.sqnr_db)) {
        add_map(p, "Error map",
                "What each tensor lost, in the order of the file: a cell is a tensor, a darker one has "
                "the larger error.",
                false);
    }
}

/* ---- what was removed, what was written ---- */

static void add_removal(struct report_page *p)
{
    static const struct vc_page_column columns[] = {
        {"group", false}, {"units", false}, {"before", true}, {"after", true}};
    const struct vc_report_removal *removal = p->report->removal;
    size_t n = removal->n_groups < VC_PAGE_GROUP_LINES ? removal->n_groups : VC_PAGE_GROUP_LINES;
    struct vc_page *page = &p->page;

    vc_page_section(page, "Units that were removed",
                    "Rows and columns that belong together go together; each line is such a group.");
    vc_page_table(page, "groups of units", columns, 4);
    for (size_t i = 0; i < n; i++) {
        const struct vc_report_group *group = &removal->groups[i];

        vc_page_row(page);
        vc_page_head_cell(page);
        vc_page_add(page, "<span class=\"name\">");
        vc_page_name(page, group->name);
        vc_page_add(page, "</span>");
        vc_page_head_cell_end(page);
        vc_page_add(page, "<td>");
        vc_page_words(page, group->kind);
        vc_page_add(page, "</td>");
        vc_page_figure(page, vc_figure_count(group->n_before).s);
        vc_page_figure(page, vc_figure_count(group->n_after).s);
    }
    vc_page_table_end(page);
    if (n < removal->n_groups) {
        vc_page_add(page, "<p class=\"note\">And %s more groups.</p>\n", vc_figure_count(removal->n_groups - n).s);
    }
    vc_page_section_end(page);
}

static void add_file(struct report_page *p, const char *path, const char *format, uint64_t bytes, const char *state)
{
    struct vc_page *page = &p->page;

    vc_page_row(page);
    vc_page_head_cell(page);
    vc_page_add(page, "<span class=\"name\">");
    vc_page_name(page, path != NULL && path[0] != '\0' ? path : "-");
    vc_page_add(page, "</span>");
    vc_page_head_cell_end(page);
    vc_page_cell(page, format != NULL ? format : "");
    vc_page_figure(page, bytes != 0 ? vc_figure_size(bytes).s : "-");
    vc_page_cell(page, state);
}

static void add_digests(struct report_page *p)
{
    static const struct vc_page_column columns[] = {{"file", false}, {"size", true}, {"SHA-256", false}};
    const struct vc_report *r = p->report;
    size_t n = r->n_files < VC_PAGE_GROUP_LINES ? r->n_files : VC_PAGE_GROUP_LINES;
    struct vc_page *page = &p->page;

    vc_page_table(page, "digests", columns, 3);
    for (size_t i = 0; i < n; i++) {
        vc_page_row(page);
        vc_page_head_cell(page);
        vc_page_add(page, "<span class=\"name\">");
        vc_page_name(page, r->files[i].path);
        vc_page_add(page, "</span>");
        vc_page_head_cell_end(page);
        vc_page_figure(page, vc_figure_size(r->files[i].size_bytes).s);
        vc_page_add(page, "<td><code>");
        vc_page_words(page, r->files[i].sha256);
        vc_page_add(page, "</code></td>");
    }
    vc_page_table_end(page);
    if (n < r->n_files) {
        vc_page_add(page, "<p class=\"note\">And %s more files.</p>\n", vc_figure_count(r->n_files - n).s);
    }
}

static void add_layout(struct report_page *p, const struct vc_layout *layout)
{
    struct vc_page *page = &p->page;

    vc_page_add(page, "<p class=\"note\">Quantized weights lie as ");
    vc_page_words(page, layout->name);
    if (layout->loader[0] != '\0') {
        vc_page_add(page, "; %s loads them", layout->loader);
    }
    if (layout->tried[0] != '\0') {
        vc_page_add(page, " (tried with ");
        vc_page_words(page, layout->tried);
        vc_page_add(page, ")");
    }
    vc_page_add(page, ".");
    if (layout->needs[0] != '\0') {
        vc_page_add(page, " It needs <code>");
        vc_page_words(page, layout->needs);
        vc_page_add(page, "</code>.");
    }
    vc_page_add(page, "</p>\n");
}

static void add_notes(struct report_page *p)
{
    const struct vc_report *r = p->report;

    vc_page_add(&p->page, "<ul class=\"note\">\n");
    for (size_t i = 0; i < r->n_notes && i < VC_PAGE_GROUP_LINES; i++) {
        vc_page_add(&p->page, "<li>");
        vc_page_words(&p->page, r->notes[i].text);
        vc_page_add(&p->page, "</li>\n");
    }
    vc_page_add(&p->page, "<li>Sizes are counted and exact; %s</li>\n</ul>\n",
                p->measured ? "SQNR and zeros were measured on all values of the tensors that changed."
                            : "errors are measured by a run that reads the values.");
}

static void add_files(struct report_page *p)
{
    static const struct vc_page_column columns[] = {{"file", false}, {"format", false}, {"size", true}, {"", false}};
    const struct vc_report *r = p->report;
    struct vc_page *page = &p->page;

    vc_page_section(page, "Files and notes", NULL);
    vc_page_table(page, "files", columns, 4);
    add_file(p, r->input, r->input_format, r->totals.file_before, r->input_compressed ? "input, deflated" : "input");
    for (size_t i = 0; i < r->n_outputs; i++) {
        add_file(p, r->outputs[i].path, r->outputs[i].format, r->outputs[i].file_bytes,
                 r->outputs[i].written ? "written"
                 : r->dry_run          ? "planned"
                                       : "not written");
    }
    vc_page_table_end(page);
    if (r->n_files != 0) {
        add_digests(p);
    }
    if (r->layouts != NULL && r->n_outputs != 0 && r->layouts[0] != NULL) {
        add_layout(p, r->layouts[0]);
    }
    add_notes(p);
    vc_page_section_end(page);
}

/* ---- all of it ---- */

static void add_all(struct report_page *p)
{
    add_hero(p);
    add_tiles(p);
    add_gates(p);
    add_components(p);
    add_groups(p);
    add_maps(p);
    if (p->page.options.histograms != NULL) {
        vc_page_values(&p->page);
    }
    if (p->report->removal != NULL) {
        add_removal(p);
    }
    if (p->report->n_fits != 0) {
        vc_page_targets(&p->page, p->report);
    }
    if (p->page.options.matrix != NULL) {
        vc_page_matrix(&p->page);
    }
    add_files(p);
}

enum vc_status vc_report_html(struct vc_ctx *ctx, const struct vc_report *report, const struct vc_page_options *options,
                              char **text)
{
    struct report_page *p = vc_calloc_array(ctx, VC_TAG_REPORT, 1, sizeof *p);
    struct vc_page_head head = {.path = report->input, .about = report->command};
    char kind[32] = "report";
    enum vc_status status;

    *text = NULL;
    if (p == NULL) {
        return VC_E_NOMEM;
    }
    if (report->command != NULL && report->command[0] != '\0') {
        (void)snprintf(kind, sizeof kind, "%.*s", (int)strcspn(report->command, " "), report->command);
    }
    head.kind = kind;
    p->report = report;
    vc_page_groups_init(&p->groups, ctx);
    status = vc_page_begin(&p->page, ctx, options, &head);
    if (status == VC_OK) {
        collect(p);
        status = p->groups.status;
    }
    if (status == VC_OK) {
        add_all(p);
        status = vc_page_end(&p->page, text);
    }
    vc_text_release(&p->page.text);
    vc_page_groups_release(&p->groups);
    vc_free(ctx, p);
    return status;
}
