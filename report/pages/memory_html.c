/* memory_html.c - what memory a model takes (vc_memory_html) and where it fits (vc_fit_html), as pages. */
#include <stdio.h>
#include <string.h>

#include "report/pages/page_write.h"

const char *vc_page_memory_name(enum vc_memory_kind kind)
{
    static const char *const names[VC_MEMORY_COMPONENTS] = {
        "parameters",     "gradients",       "optimizer states", "copies of weights",     "activations",
        "inputs",         "keys and values", "transients",       "workspace of products", "context of the device",
        "unusable parts", "communication",   "teacher",
    };

    return names[kind];
}

/* What both pages are made of. */
struct memory_page {
    struct vc_page page; /* first */
    const struct vc_memory_report *report;
    const struct vc_memory_options *options;
    const struct vc_memory_timeline *timeline;
    bool trains;
};

static const char *const known_words[] = {"exact", "modelled", "assumed", "not known"};

static void add_hero(struct memory_page *p)
{
    static const char *const modes[] = {"inference", "training", "distillation"};
    const struct vc_memory_part *peak = &p->report->moments[VC_MOMENT_PEAK];
    struct vc_page *page = &p->page;
    char note[96];

    vc_page_add(page, "<section>\n");
    if (peak->known != VC_KNOWN_NOT) {
        vc_page_add(page, "<p class=\"big\">%s</p><p>at the peak of %s</p>\n", vc_figure_size(peak->bytes).s,
                    p->trains ? "one training step" : "a run");
    } else {
        vc_page_add(page, "<p class=\"big\">%s</p><p>of weights; what is computed with them is not known: ",
                    vc_figure_size(p->report->moments[VC_MOMENT_LOAD].bytes).s);
        vc_page_words(page, p->report->unknown != NULL ? p->report->unknown : "");
        if (p->report->unknown_name != NULL) {
            vc_page_add(page, ": <span class=\"name\">");
            vc_page_name(page, p->report->unknown_name);
            vc_page_add(page, "</span>");
        }
        vc_page_add(page, "</p>\n");
    }
    vc_page_tiles(page);
    (void)snprintf(note, sizeof note, "%s", vc_figure_count(p->report->n_params).s);
    vc_page_tile(page, "parameters", vc_figure_short(p->report->n_params).s, note);
    vc_page_tile(page, "mode", modes[p->options->mode], NULL);
    if (peak->known != VC_KNOWN_NOT && *p->report->peak_at != '\0') {
        vc_page_add(page, "<div><dt>the peak is at</dt><dd><span class=\"name\">");
        vc_page_name(page, p->report->peak_at);
        vc_page_add(page, "</span></dd></div>\n");
    }
    if (peak->known != VC_KNOWN_NOT && p->report->arena_bytes != 0) {
        (void)snprintf(note, sizeof note, "no less than %s", vc_figure_size(p->report->arena_least).s);
        vc_page_tile(page, "activations in one arena", vc_figure_size(p->report->arena_bytes).s, note);
    }
    vc_page_tiles_end(page);
    vc_page_section_end(page);
}

/* ---- moments and components ---- */

/* What the device's programs take beside the model: not in the moments. */
static bool is_beside(enum vc_memory_kind kind)
{
    return kind == VC_MEMORY_WORKSPACE || kind == VC_MEMORY_CONTEXT || kind == VC_MEMORY_SLACK;
}

/* Which components live at a moment. */
static bool lives_at(enum vc_memory_kind kind, enum vc_moment moment, const struct vc_memory_options *o)
{
    if (is_beside(kind)) {
        return false;
    }
    if (moment == VC_MOMENT_LOAD) {
        return kind == VC_MEMORY_PARAMETERS;
    }
    if (kind == VC_MEMORY_TRANSIENT) {
        return moment == VC_MOMENT_PEAK;
    }
    if (kind == VC_MEMORY_MASTER && o->amp == VC_AMP_AUTOCAST) {
        return moment != VC_MOMENT_STEP;
    }
    return kind != VC_MEMORY_ACTIVATIONS || moment != VC_MOMENT_STEP;
}

static void add_moment(struct memory_page *p, const char *label, enum vc_moment moment, uint64_t whole)
{
    struct vc_page_part parts[VC_MEMORY_COMPONENTS];
    const struct vc_memory_part *m = &p->report->moments[moment];
    uint64_t sum = 0;
    size_t n = 0;

    if (m->known == VC_KNOWN_NOT) {
        return;
    }
    for (enum vc_memory_kind k = 0; k < VC_MEMORY_COMPONENTS; k++) {
        uint64_t bytes = p->report->components[k].bytes;

        if (bytes != 0 && lives_at(k, moment, p->options) && sum + bytes <= m->bytes) {
            parts[n++] = (struct vc_page_part){vc_page_memory_name(k), bytes, (unsigned)k % VC_PAGE_COLOURS};
            sum += bytes;
        }
    }
    vc_page_add(&p->page, "<p class=\"bar\"><span>%s</span><span>%s</span>", label, vc_figure_size(m->bytes).s);
    vc_page_stack(&p->page, label, parts, n, whole);
    vc_page_add(&p->page, "</p>\n");
}

static void add_components(struct memory_page *p)
{
    static const struct vc_page_column columns[] = {{"component", false}, {"size", true}, {"share", true}, {"", false}};
    const struct vc_memory_report *r = p->report;
    const struct vc_memory_part *peak = &r->moments[VC_MOMENT_PEAK];
    uint64_t whole = peak->known != VC_KNOWN_NOT ? peak->bytes : r->moments[VC_MOMENT_LOAD].bytes;
    struct vc_page *page = &p->page;

    vc_page_section(page, "What takes the memory",
                    "Exact figures are counted from sizes, modelled ones follow what frameworks do, assumed ones are "
                    "guesses.");
    vc_page_add(page, "<div class=\"bars\">\n");
    add_moment(p, "after loading", VC_MOMENT_LOAD, whole);
    if (p->trains) {
        add_moment(p, "after the forward pass", VC_MOMENT_FORWARD, whole);
    }
    add_moment(p, "at the peak", VC_MOMENT_PEAK, whole);
    if (p->trains) {
        add_moment(p, "after the optimizer's step", VC_MOMENT_STEP, whole);
    }
    vc_page_add(page, "</div>\n");
    vc_page_table(page, "components", columns, 4);
    for (enum vc_memory_kind k = 0; k < VC_MEMORY_COMPONENTS; k++) {
        const struct vc_memory_part *part = &r->components[k];

        if (part->bytes != 0 || part->known == VC_KNOWN_NOT) {
            vc_page_row(page);
            vc_page_head_cell(page);
            vc_page_swatch(page, (unsigned)k % VC_PAGE_COLOURS);
            vc_page_add(page, "%s", vc_page_memory_name(k));
            vc_page_head_cell_end(page);
            vc_page_figure(page, part->known == VC_KNOWN_NOT ? "?" : vc_figure_size(part->bytes).s);
            vc_page_figure(page, peak->known == VC_KNOWN_NOT || is_beside(k)
                                     ? ""
                                     : vc_figure_percent((double)part->bytes, (double)whole).s);
            vc_page_add(page, "<td class=\"sub\">%s</td>", known_words[part->known]);
        }
    }
    vc_page_table_end(page);
    vc_page_section_end(page);
}

/* ---- what was asked ---- */

static void add_option(struct vc_page *page, const char *label, const char *value)
{
    vc_page_add(page, "<div><dt>%s</dt><dd>", label);
    vc_page_words(page, value);
    vc_page_add(page, "</dd></div>\n");
}

static void add_assumptions(struct memory_page *p, const struct vc_graph *graph)
{
    static const char *const optimizers[] = {"SGD", "SGD with momentum", "Adam", "AdamW", "Adafactor", "8-bit Adam"};
    static const char *const amps[] = {"none", "autocast", "pure half precision"};
    static const char *const recomputes[] = {
        "none",        "in parts, as many as the root", "every k-th part",
        "every layer", "the scores of attention",       "what the budget asks for"};
    static const char *const attentions[] = {"fused", "eager", "eager, with a softmax of half precision"};
    static const char *const allocators[] = {"exact sizes", "CUDA", "PyTorch"};
    const struct vc_memory_options *o = p->options;
    struct vc_page *page = &p->page;
    const char *name;

    vc_page_section(page, "What was assumed", NULL);
    vc_page_add(page, "<dl class=\"tiles\">\n");
    for (uint32_t k = 0; graph != NULL && k < 12 && (name = vc_graph_symbol(graph, k)) != NULL; k++) {
        int64_t size = vc_graph_symbol_size(graph, k);

        vc_page_add(page, "<div><dt>");
        vc_page_name(page, name);
        vc_page_add(page, "</dt><dd>%s</dd></div>\n", size < 0 ? "open" : vc_figure_count((uint64_t)size).s);
    }
    add_option(page, "weights",
               o->scheme != NULL             ? o->scheme
               : o->weights == VC_DTYPE_NONE ? "as stored"
                                             : vc_dtype_name(o->weights));
    add_option(page, "attention", attentions[o->attention]);
    add_option(page, "allocator", allocators[o->allocator]);
    if (p->trains) {
        add_option(page, "optimizer", optimizers[o->optimizer]);
        add_option(page, "mixed precision", amps[o->amp]);
        add_option(page, "recomputed", recomputes[o->recompute]);
    } else if (o->context_tokens != 0) {
        add_option(page, "context", vc_figure_count(o->context_tokens).s);
    }
    vc_page_tiles_end(page);
    vc_page_section_end(page);
}

static void add_rest(struct memory_page *p, const struct vc_graph *graph)
{
    add_components(p);
    vc_page_timeline(&p->page, p->timeline);
    if (p->page.options.matrix != NULL) {
        vc_page_matrix(&p->page);
    }
    add_assumptions(p, graph);
}

enum vc_status vc_memory_html(struct vc_ctx *ctx, const struct vc_memory_report *report,
                              const struct vc_memory_options *memory, const struct vc_graph *graph, const char *path,
                              const struct vc_memory_timeline *timeline, const struct vc_page_options *options,
                              char **text)
{
    struct memory_page p = {.report = report, .options = memory, .timeline = timeline};
    const struct vc_page_head head = {"estimate", path, NULL};
    enum vc_status status = vc_page_begin(&p.page, ctx, options, &head);

    *text = NULL;
    p.trains = memory->mode != VC_MEMORY_INFER;
    if (status == VC_OK) {
        add_hero(&p);
        add_rest(&p, graph);
        status = vc_page_end(&p.page, text);
    }
    vc_text_release(&p.page.text);
    return status;
}

/* ---- fit ---- */

static const char *device_name(const struct vc_fit_row *row)
{
    return row->gpu != NULL ? row->gpu->name : "a device";
}

/* "peak, runtime, slack" against what a program may use. */
static void add_need(struct memory_page *p, const struct vc_fit_row *row)
{
    const struct vc_fit *fit = &row->fit;
    uint64_t whole = fit->need_bytes > fit->visible_bytes ? fit->need_bytes : fit->visible_bytes;
    const struct vc_page_part need[] = {
        {"the model at its peak", fit->peak_bytes, 0},
        {"the runtime of the device", fit->context_bytes, 8},
        {"what the allocator cannot use", fit->slack_bytes, 9},
    };
    const struct vc_page_part usable[] = {
        {"usable", fit->usable_bytes, 11},
        {"taken by others, and the margin", fit->visible_bytes - fit->usable_bytes, 9}};
    struct vc_page *page = &p->page;

    vc_page_add(page, "<div class=\"bars\">\n<p class=\"bar\"><span>needed</span><span>%s</span>",
                vc_figure_size(fit->need_bytes).s);
    vc_page_stack(page, "needed", need, 3, whole);
    vc_page_add(page, "</p>\n<p class=\"bar\"><span>usable</span><span>%s of %s</span>",
                vc_figure_size(fit->usable_bytes).s, vc_figure_size(fit->visible_bytes).s);
    vc_page_stack(page, "usable", usable, 2, whole);
    vc_page_add(page, "</p>\n<ul class=\"legend\">\n");
    for (size_t i = 0; i < 3; i++) {
        if (need[i].bytes != 0) {
            vc_page_add(page, "<li>");
            vc_page_swatch(page, need[i].colour);
            vc_page_add(page, "%s: %s</li>\n", need[i].name, vc_figure_size(need[i].bytes).s);
        }
    }
    vc_page_add(page, "</ul>\n</div>\n");
}

/* "The peak is 5.02 GiB, in fit.json 5.00 GiB: +0.4 %" */
static void add_baseline(struct memory_page *p)
{
    const struct vc_page_options *o = &p->page.options;
    const struct vc_memory_part *peak = &p->report->moments[VC_MOMENT_PEAK];
    struct vc_page *page = &p->page;

    if (o->baseline == NULL || peak->known == VC_KNOWN_NOT) {
        return;
    }
    vc_page_add(page, "<p>The peak is %s, in ", vc_figure_size(peak->bytes).s);
    vc_page_name(page, o->baseline);
    vc_page_add(page, " %s", vc_figure_size(o->baseline_bytes).s);
    if (o->baseline_bytes != 0) {
        vc_page_add(page, ": %+.2f %%", 100 * ((double)peak->bytes / (double)o->baseline_bytes - 1));
    }
    vc_page_add(page, "</p>\n");
}

static void add_verdict(struct memory_page *p, const struct vc_fit_row *rows, size_t n_rows)
{
    const struct vc_fit *fit = n_rows != 0 ? &rows[0].fit : NULL;
    struct vc_page *page = &p->page;
    bool more;

    if (fit == NULL) {
        vc_page_add(page,
                    "<section>\n<p class=\"big\">no</p><p>no GPU of the catalogue is large enough</p>\n</section>\n");
        return;
    }
    more = fit->headroom_bytes >= 0;
    vc_page_add(page, "<section>\n<div class=\"hero\">\n<div><p class=\"big\">%s</p><p>",
                fit->verdict == VC_FITS       ? vc_fit_word(fit)
                : fit->verdict == VC_FITS_NOT ? "no"
                                              : vc_fit_word(fit));
    vc_page_name(page, device_name(&rows[0]));
    if (rows[0].count > 1) {
        vc_page_add(page, " &#215; %u, each", rows[0].count);
    }
    vc_page_add(page, ": %s %s</p></div>\n",
                vc_figure_size(more ? (uint64_t)fit->headroom_bytes : (uint64_t)-fit->headroom_bytes).s,
                more ? "left" : "short");
    add_need(p, &rows[0]);
    vc_page_add(page, "</div>\n");
    add_baseline(p);
    vc_page_section_end(page);
}

static void add_device(struct memory_page *p, const struct vc_fit_row *row, bool batch, bool context)
{
    const struct vc_fit *fit = &row->fit;
    struct vc_page *page = &p->page;
    uint64_t room = fit->headroom_bytes < 0 ? (uint64_t)-fit->headroom_bytes : (uint64_t)fit->headroom_bytes;

    vc_page_row(page);
    vc_page_head_cell(page);
    vc_page_name(page, device_name(row));
    vc_page_head_cell_end(page);
    vc_page_figure(page, vc_figure_size(fit->visible_bytes).s);
    vc_page_figure(page, vc_figure_size(fit->usable_bytes).s);
    vc_page_add(page, "<td class=\"n\">%s%s</td><td>", fit->headroom_bytes < 0 ? "&#8722;" : "",
                vc_figure_size(room).s);
    vc_page_verdict(page, fit->verdict, fit->weights_only);
    vc_page_add(page, "</td>");
    if (batch) {
        vc_page_figure(page, vc_figure_count(row->largest_batch).s);
    }
    if (context) {
        vc_page_figure(page, vc_figure_count(row->largest_context).s);
    }
}

static void add_devices(struct memory_page *p, const struct vc_fit_row *rows, size_t n_rows)
{
    struct vc_page_column columns[7] = {
        {"device", false}, {"visible", true}, {"usable", true}, {"left", true}, {"verdict", false}};
    bool batch = rows[0].has_batch;
    bool context = rows[0].has_context;
    size_t n = 5;

    if (batch) {
        columns[n++] = (struct vc_page_column){"largest batch", true};
    }
    if (context) {
        columns[n++] = (struct vc_page_column){"largest context", true};
    }
    vc_page_section(&p->page, "Devices", NULL);
    vc_page_table(&p->page, "devices", columns, n);
    for (size_t k = 0; k < n_rows; k++) {
        add_device(p, &rows[k], batch, context);
    }
    vc_page_table_end(&p->page);
    vc_page_section_end(&p->page);
}

enum vc_status vc_fit_html(struct vc_ctx *ctx, const struct vc_memory_report *report,
                           const struct vc_memory_options *memory, const struct vc_graph *graph, const char *path,
                           const struct vc_fit_row *rows, size_t n_rows, const struct vc_memory_timeline *timeline,
                           const struct vc_page_options *options, char **text)
{
    struct memory_page p = {.report = report, .options = memory, .timeline = timeline};
    const struct vc_page_head head = {"fit", path, NULL};
    enum vc_status status = vc_page_begin(&p.page, ctx, options, &head);

    *text = NULL;
    p.trains = memory->mode != VC_MEMORY_INFER;
    if (status == VC_OK) {
        add_verdict(&p, rows, n_rows);
        if (n_rows > 1 || (n_rows == 1 && (rows[0].has_batch || rows[0].has_context))) {
            add_devices(&p, rows, n_rows);
        }
        add_rest(&p, graph);
        status = vc_page_end(&p.page, text);
    }
    vc_text_release(&p.page.text);
    return status;
}
