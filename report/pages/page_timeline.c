/* page_timeline.c - memory over a run, from its first step to its last, as areas on top of each other: a colour for
 * each component. */
#include "report/pages/page_write.h"

#define WIDTH  1000.0
#define HEIGHT 100.0

/* Of training all is drawn, states below what comes and goes. In a run for an answer states are nearly all of it, and
 * only what comes and goes is drawn. */
static bool trains(const struct vc_memory_timeline *t)
{
    return t->backward < t->n_steps;
}

static bool moves(enum vc_memory_kind kind)
{
    return kind == VC_MEMORY_ACTIVATIONS || kind == VC_MEMORY_TRANSIENT;
}

static bool is_drawn(const struct vc_memory_timeline *t, enum vc_memory_kind kind)
{
    if (!trains(t) && !moves(kind) && kind != VC_MEMORY_INPUTS) {
        return false;
    }
    for (size_t i = 0; i < t->n_points; i++) {
        if (t->points[i].bytes[kind] != 0) {
            return true;
        }
    }
    return false;
}

/* What is drawn below a component, it included where `with` is set. */
static uint64_t below(const struct vc_memory_timeline *t, size_t point, enum vc_memory_kind kind, bool with)
{
    uint64_t sum = 0;

    for (enum vc_memory_kind k = 0; k < VC_MEMORY_COMPONENTS; k++) {
        bool under = moves(k) == moves(kind) ? k < kind : moves(kind);

        sum += (under || (with && k == kind)) && (trains(t) || moves(k) || k == VC_MEMORY_INPUTS)
                   ? t->points[point].bytes[k]
                   : 0;
    }
    return sum;
}

static void add_edge(struct vc_page *page, uint64_t bytes, uint64_t whole, char command)
{
    vc_page_add(page, "%c%s", command,
                vc_figure_fixed(HEIGHT * (1.0 - (whole == 0 ? 0.0 : (double)bytes / (double)whole)), 2).s);
}

/* Up along the upper edge, back along the lower one. */
static void add_area(struct vc_page *page, const struct vc_memory_timeline *t, enum vc_memory_kind kind, uint64_t whole)
{
    vc_page_add(page, "<path class=\"k%u\" d=\"M0", (unsigned)kind % VC_PAGE_COLOURS);
    add_edge(page, below(t, 0, kind, true), whole, ' ');
    for (size_t i = 0; i < t->n_points; i++) {
        add_edge(page, below(t, i, kind, true), whole, 'V');
        vc_page_add(page, "H%s", vc_figure_fixed(WIDTH * (double)(i + 1) / (double)t->n_points, 1).s);
    }
    for (size_t i = t->n_points; i > 0; i--) {
        add_edge(page, below(t, i - 1, kind, false), whole, 'V');
        vc_page_add(page, "H%s", vc_figure_fixed(WIDTH * (double)(i - 1) / (double)t->n_points, 1).s);
    }
    vc_page_add(page, "z\"><title>%s</title></path>", vc_page_memory_name(kind));
}

static void add_phases(struct vc_page *page, const struct vc_memory_timeline *t)
{
    double forward = t->n_steps == 0 ? 0.0 : 100.0 * (double)t->backward / (double)t->n_steps;

    vc_page_add(page, "<div class=\"phases\">");
    if (trains(t)) {
        vc_page_add(page, "<span style=\"flex:0 0 %s%%\">forward pass &#8594;</span><span>backward pass &#8594;</span>",
                    vc_figure_fixed(forward, 1).s);
    } else {
        vc_page_add(page, "<span>forward pass &#8594;</span>");
    }
    vc_page_add(page, "</div>\n");
}

void vc_page_timeline(struct vc_page *page, const struct vc_memory_timeline *t)
{
    uint64_t whole = 0; /* of what is drawn */
    uint64_t states = 0;

    if (t == NULL || t->n_points == 0) {
        return;
    }
    for (enum vc_memory_kind k = 0; k < VC_MEMORY_COMPONENTS; k++) {
        *(is_drawn(t, k) ? &whole : &states) += t->points[t->peak].bytes[k];
    }
    vc_page_section(page, trains(t) ? "Memory over one training step" : "Memory over one run",
                    trains(t) ? "What lives at each step of the graph: states at the bottom, what comes and goes above."
                              : "What comes and goes at each step of the graph, on top of what stays all the time.");
    vc_page_add(page, "<figure>\n<div class=\"ticks\"><span>peak %s", vc_figure_size(whole).s);
    if (states != 0 && !trains(t)) {
        vc_page_add(page, " on top of %s", vc_figure_size(states).s);
    }
    vc_page_add(page,
                "</span><span>at step %s of %s</span></div>\n"
                "<svg class=\"plot tall\" role=\"img\" viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" "
                "aria-label=\"memory at each step, by component; the peak is %s\">",
                vc_figure_count(t->points[t->peak].step + 1).s, vc_figure_count(t->n_steps).s, vc_figure_size(whole).s);
    for (enum vc_memory_kind k = 0; k < VC_MEMORY_COMPONENTS; k++) {
        if (is_drawn(t, k)) {
            add_area(page, t, k, whole);
        }
    }
    vc_page_add(page, "<path class=\"peak\" d=\"M%s 0v100\"/>",
                vc_figure_fixed(WIDTH * ((double)t->peak + 0.5) / (double)t->n_points, 1).s);
    if (trains(t)) {
        vc_page_add(page, "<path class=\"phase\" d=\"M%s 0v100\"/>",
                    vc_figure_fixed(WIDTH * (double)t->backward / (double)t->n_steps, 1).s);
    }
    vc_page_add(page, "</svg>\n");
    add_phases(page, t);
    vc_page_add(page, "<ul class=\"legend\">\n");
    for (enum vc_memory_kind k = 0; k < VC_MEMORY_COMPONENTS; k++) {
        if (is_drawn(t, k)) {
            vc_page_add(page, "<li>");
            vc_page_swatch(page, (unsigned)k % VC_PAGE_COLOURS);
            vc_page_add(page, "%s</li>\n", vc_page_memory_name(k));
        }
    }
    vc_page_add(page, "</ul>\n</figure>\n");
    vc_page_section_end(page);
}
