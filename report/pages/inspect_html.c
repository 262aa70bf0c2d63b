/* inspect_html.c - what is in a checkpoint, as a page: vc_inspect_html. */
#include <math.h>
#include <stdio.h>

#include "report/pages/page_groups.h"
#include "report/pages/page_write.h"

#define N_SPREADS 12 /* groups whose magnitudes are drawn */

struct line {
    uint64_t bytes, n_elems, zeros, bad;
    double min, max;
    bool valid;
};

struct inspect_page {
    struct vc_page page; /* first */
    const struct vc_inspection *in;
    struct vc_page_groups groups;
    struct line lines[VC_PAGE_GROUPS + 1];
    uint64_t spreads[N_SPREADS][VC_HISTOGRAM_BINS];
};

static void kind_of(const struct vc_tensor *t, char *kind, size_t room)
{
    size_t n = (size_t)snprintf(kind, room, "%d %d %d", (int)t->dtype, (int)t->role, t->quant != NULL);

    for (unsigned i = 0; i < t->n_dims && n < room; i++) {
        n += (size_t)snprintf(kind + n, room - n, ",%llu", (unsigned long long)t->shape[i]);
    }
}

static void add_stats(struct line *line, const struct vc_value_stats *stats)
{
    line->min = line->valid ? fmin(line->min, stats->min) : stats->min;
    line->max = line->valid ? fmax(line->max, stats->max) : stats->max;
    line->valid = true;
    line->zeros += stats->zeros;
    line->bad += stats->nans + stats->infs;
    line->n_elems += stats->n_elems;
}

static void collect(struct inspect_page *p)
{
    for (size_t i = 0; i < vc_model_tensor_count(p->in->model); i++) {
        const struct vc_tensor *t = vc_model_tensor(p->in->model, i);
        struct vc_value_stats stats;
        struct line *line;
        char kind[256];

        if (t->part_of != VC_NO_TENSOR) {
            continue;
        }
        kind_of(t, kind, sizeof kind);
        line = &p->lines[vc_page_groups_add(&p->groups, i, t->name, kind, t->size_bytes)];
        line->bytes += t->alias_of == VC_NO_TENSOR ? t->size_bytes : 0;
        if (vc_inspect_get_stats(p->in, i, &stats) && stats.valid) {
            add_stats(line, &stats);
        }
    }
    vc_page_groups_sort(&p->groups);
}

static void add_spreads(struct inspect_page *p)
{
    for (size_t i = 0; i < vc_model_tensor_count(p->in->model); i++) {
        const struct vc_tensor *t = vc_model_tensor(p->in->model, i);
        struct vc_value_stats stats;
        char kind[256];
        size_t group;

        if (t->part_of != VC_NO_TENSOR || !vc_inspect_get_stats(p->in, i, &stats) || !stats.valid) {
            continue;
        }
        kind_of(t, kind, sizeof kind);
        group = vc_page_groups_find(&p->groups, t->name, kind);
        for (size_t s = 0; s < N_SPREADS && s < p->groups.n; s++) {
            for (size_t b = 0; p->groups.order[s] == group && b < VC_HISTOGRAM_BINS; b++) {
                p->spreads[s][b] += stats.histogram[b];
            }
        }
    }
}

static void add_hero(struct inspect_page *p)
{
    const struct vc_inspection *in = p->in;
    struct vc_page_part parts[VC_DTYPE_COUNT];
    struct vc_page *page = &p->page;
    char note[64];

    vc_page_add(page, "<section>\n<p class=\"big\">%s</p><p>parameters in %s tensors</p>\n",
                vc_figure_short(in->n_params).s, vc_figure_count(in->n_own).s);
    vc_page_tiles(page);
    (void)snprintf(note, sizeof note, "%s in the file", vc_figure_size(vc_model_file_bytes(in->model)).s);
    vc_page_tile(page, "values", vc_figure_size(in->value_bytes).s, note);
    vc_page_tile(page, "stored", in->compressed ? "compressed" : "plain", vc_model_format(in->model));
    vc_page_tile(page, "quantized already", vc_figure_count(in->n_quantized).s, "tensors");
    if (in->int8_bytes != 0) {
        vc_page_tile(page, "as int8", vc_figure_size(in->int8_bytes).s, "the file then, exactly");
    }
    if (in->fp16_bytes != 0) {
        vc_page_tile(page, "as fp16", vc_figure_size(in->fp16_bytes).s, "the file then, exactly");
    }
    vc_page_tiles_end(page);
    vc_page_section_end(page);
    vc_page_section(page, "What the bytes are", NULL);
    for (size_t i = 0; i < in->n_dtypes; i++) {
        parts[i] = (struct vc_page_part){vc_dtype_name(in->dtypes[i].dtype), in->dtypes[i].size_bytes,
                                         (unsigned)i % VC_PAGE_COLOURS};
    }
    vc_page_stack(page, "bytes by type", parts, in->n_dtypes, in->value_bytes);
    vc_page_add(page, "<ul class=\"legend\">\n");
    for (size_t i = 0; i < in->n_dtypes; i++) {
        vc_page_add(page, "<li>");
        vc_page_swatch(page, (unsigned)i % VC_PAGE_COLOURS);
        vc_page_add(page, "%s: %s in %s tensors</li>\n", vc_dtype_name(in->dtypes[i].dtype),
                    vc_figure_size(in->dtypes[i].size_bytes).s, vc_figure_count(in->dtypes[i].n_tensors).s);
    }
    vc_page_add(page, "</ul>\n");
    vc_page_section_end(page);
}

static void add_group(struct inspect_page *p, size_t group)
{
    const struct vc_page_group *g = &p->groups.groups[group];
    const struct vc_tensor *t = vc_model_tensor(p->in->model, g->first);
    const struct line *line = &p->lines[group];
    struct vc_page *page = &p->page;

    vc_page_row(page);
    vc_page_head_cell(page);
    vc_page_group_name(page, g);
    vc_page_head_cell_end(page);
    vc_page_cell(page, group == VC_PAGE_GROUPS ? "" : vc_figure_shape(t->n_dims, t->shape).s);
    vc_page_add(page, "<td>%s%s</td>", group == VC_PAGE_GROUPS ? "" : vc_dtype_name(t->dtype),
                group != VC_PAGE_GROUPS && t->quant != NULL ? " codes" : "");
    vc_page_figure(page, vc_figure_size(line->bytes).s);
    if (p->in->has_stats) {
        vc_page_figure(page, line->valid ? vc_figure_real(line->min).s : "");
        vc_page_figure(page, line->valid ? vc_figure_real(line->max).s : "");
        vc_page_figure(page, line->valid ? vc_figure_percent((double)line->zeros, (double)line->n_elems).s : "");
        vc_page_figure(page, line->valid ? vc_figure_count(line->bad).s : "");
    }
}

static void add_groups(struct inspect_page *p)
{
    static const struct vc_page_column columns[] = {{"tensors", false}, {"shape", false},  {"type", false},
                                                    {"size", true},     {"least", true},   {"most", true},
                                                    {"zeros", true},    {"NaN, Inf", true}};
    size_t n = p->groups.n < VC_PAGE_GROUP_LINES ? p->groups.n : VC_PAGE_GROUP_LINES;
    size_t rest = 0;

    vc_page_section(&p->page, "Tensors by group",
                    "Tensors whose names differ in their numbers alone share a line, the largest first.");
    vc_page_table(&p->page, "groups of tensors", columns, p->in->has_stats ? 8 : 4);
    for (size_t k = 0; k < n; k++) {
        add_group(p, p->groups.order[k]);
    }
    vc_page_table_end(&p->page);
    for (size_t k = n; k < p->groups.n; k++) {
        rest += p->groups.groups[p->groups.order[k]].n;
    }
    rest += p->groups.groups[VC_PAGE_GROUPS].n;
    if (rest != 0) {
        vc_page_add(&p->page, "<p class=\"note\">And %s more tensors.</p>\n", vc_figure_count(rest).s);
    }
    vc_page_section_end(&p->page);
}

/* Bars of powers of two, from the smallest magnitude that there is to the largest. */
static void add_spread(struct inspect_page *p, size_t s)
{
    const uint64_t *bins = p->spreads[s];
    struct vc_page *page = &p->page;
    size_t first = 1;
    size_t end = VC_HISTOGRAM_BINS;

    while (first < end && bins[first] == 0) {
        first++;
    }
    while (end > first && bins[end - 1] == 0) {
        end--;
    }
    if (first == end) {
        return;
    }
    vc_page_add(page, "<figure>\n<h3>");
    vc_page_group_name(page, &p->groups.groups[p->groups.order[s]]);
    vc_page_add(page, "</h3>\n");
    vc_page_bars(page, "histogram of the magnitudes", bins + first, end - first);
    vc_page_add(page, "<div class=\"ticks\"><span>%s</span><span>%s</span></div>\n</figure>\n",
                vc_figure_real(ldexp(1.0, (int)first - 127)).s, vc_figure_real(ldexp(1.0, (int)end - 127)).s);
}

enum vc_status vc_inspect_html(struct vc_ctx *ctx, const struct vc_inspection *in,
                               const struct vc_page_options *options, char **text)
{
    const struct vc_page_head head = {"inspect", vc_model_path(in->model), vc_model_format(in->model)};
    struct inspect_page *p = vc_calloc_array(ctx, VC_TAG_REPORT, 1, sizeof *p);
    enum vc_status status;

    *text = NULL;
    if (p == NULL) {
        return VC_E_NOMEM;
    }
    p->in = in;
    vc_page_groups_init(&p->groups, ctx);
    status = vc_page_begin(&p->page, ctx, options, &head);
    if (status == VC_OK) {
        collect(p);
        status = p->groups.status;
    }
    if (status == VC_OK) {
        add_hero(p);
        add_groups(p);
        if (in->has_stats) {
            add_spreads(p);
            vc_page_section(&p->page, "How large the values are",
                            "Magnitudes by powers of two, without zeros; heights go by the logarithm of how many there "
                            "are.");
            vc_page_add(&p->page, "<div class=\"looks\">\n");
            for (size_t s = 0; s < N_SPREADS && s < p->groups.n; s++) {
                add_spread(p, s);
            }
            vc_page_add(&p->page, "</div>\n");
            vc_page_section_end(&p->page);
        }
        if (p->page.options.matrix != NULL) {
            vc_page_matrix(&p->page);
        }
        status = vc_page_end(&p->page, text);
    }
    vc_text_release(&p->page.text);
    vc_page_groups_release(&p->groups);
    vc_free(ctx, p);
    return status;
}
