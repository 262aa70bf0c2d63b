/* distill_curves.c - see distill_curves.h. */
#include "report/pages/distill_curves.h"

#include <math.h>

#define WIDTH  1000.0
#define HEIGHT 100.0

/* ---- what is drawn ---- */

/* A figure that every step has: the loss, the sparsity, or the term of a pair of options->loss.matches. */
enum { LOSS = -2, SPARSITY = -1 };

static double figure_of(const struct vc_distill_step *step, int which)
{
    double x = which == LOSS                     ? step->loss
               : which == SPARSITY               ? step->sparsity
               : (size_t)which < step->n_matches ? step->matches[which]
                                                 : (double)NAN;

    return step->control || step->eval != NULL ? (double)NAN : x;
}

static struct vc_figure figure_text(int which, double x)
{
    return which == SPARSITY ? vc_figure_percent(x, 1.0) : vc_figure_real(x);
}

struct scale {
    double least, most;
    bool logarithm;
};

static double height_of(const struct scale *scale, double x)
{
    double from = scale->logarithm ? log(scale->least) : scale->least;
    double to = scale->logarithm ? log(scale->most) : scale->most;
    double at = scale->logarithm ? log(x) : x;

    return to > from ? HEIGHT * (1.0 - (at - from) / (to - from)) : HEIGHT / 2;
}

/* As a logarithm where the largest is far from the least. False: there is no line to draw. */
static bool find_scale(const struct vc_distill_step *steps, size_t n, int which, struct scale *scale)
{
    size_t n_drawn = 0;

    *scale = (struct scale){(double)INFINITY, -(double)INFINITY, false};
    for (size_t i = 0; i < n; i++) {
        double x = figure_of(&steps[i], which);

        if (isfinite(x)) {
            scale->least = fmin(scale->least, x);
            scale->most = fmax(scale->most, x);
            n_drawn++;
        }
    }
    scale->logarithm = which != SPARSITY && n_drawn != 0 && scale->least > 0 && scale->most > 10 * scale->least;
    return n_drawn > 1;
}

/* ---- drawings ---- */

/* name: for who cannot see the drawing, of ours; plot: its class. */
static void add_line(struct vc_page *page, const struct vc_distill_step *steps, size_t n, int which,
                     const struct scale *scale, const char *name, const char *plot)
{
    const char *command = "M";

    vc_page_add(page, "<div class=\"ticks\"><span>%s</span></div>\n", figure_text(which, scale->most).s);
    vc_page_add(page,
                "<svg class=\"%s\" role=\"img\" viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" "
                "aria-label=\"%s over the steps, from %s at most to %s at least\"><path class=\"curve\" d=\"",
                plot, name, figure_text(which, scale->most).s, figure_text(which, scale->least).s);
    for (size_t i = 0; i < n; i++) {
        double x = figure_of(&steps[i], which);

        if (isfinite(x)) {
            vc_page_add(page, "%s%s", command,
                        vc_figure_fixed(WIDTH * (double)steps[i].step / (double)steps[i].n_steps, 1).s);
            vc_page_add(page, " %s", vc_figure_fixed(height_of(scale, x), 2).s);
            command = "L";
        }
    }
    vc_page_add(page, "\"/></svg>\n<div class=\"ticks\"><span>%s at the lowest</span><span>step %s</span></div>\n",
                figure_text(which, scale->least).s, vc_figure_count(steps[n - 1].n_steps).s);
}

static void add_whole(struct vc_page *page, const struct vc_distill_step *steps, size_t n, int which, const char *title,
                      const char *lead, const char *name)
{
    struct scale scale;

    if (!find_scale(steps, n, which, &scale)) {
        return;
    }
    vc_page_section(page, title, scale.logarithm ? "Before each step, on a logarithmic scale." : lead);
    vc_page_add(page, "<figure>\n");
    add_line(page, steps, n, which, &scale, name, "plot tall");
    vc_page_add(page, "</figure>\n");
    vc_page_section_end(page);
}

/* "conv2 = conv3: squared error, weight 0.5" */
static void add_caption(struct vc_page *page, const struct vc_match *match, bool logarithm)
{
    static const char *const kinds[] = {"squared error", "attention", "cosine"};

    vc_page_add(page, "<figcaption>");
    vc_page_name(page, match->teacher);
    vc_page_add(page, " = ");
    vc_page_name(page, match->student);
    vc_page_add(page, ": %s, weight %s%s</figcaption>\n", kinds[match->kind], vc_figure_real(match->weight).s,
                logarithm ? "; logarithmic" : "");
}

static void add_matches(struct vc_page *page, const struct vc_distill_options *options,
                        const struct vc_distill_step *steps, size_t n)
{
    struct scale scale;

    if (options->loss.n_matches == 0 || !find_scale(steps, n, 0, &scale)) {
        return;
    }
    vc_page_section(page, "Values inside",
                    "How far they are from the teacher's, before each step: the terms of the loss without their "
                    "weights.");
    vc_page_add(page, "<div class=\"looks\">\n");
    for (size_t k = 0; k < options->loss.n_matches; k++) {
        if (find_scale(steps, n, (int)k, &scale)) {
            vc_page_add(page, "<figure>\n");
            add_line(page, steps, n, (int)k, &scale, "the term", "plot");
            add_caption(page, &options->loss.matches[k], scale.logarithm);
            vc_page_add(page, "</figure>\n");
        }
    }
    vc_page_add(page, "</div>\n");
    vc_page_section_end(page);
}

void vc_page_distill_curves(struct vc_page *page, const struct vc_distill_options *options,
                            const struct vc_distill_step *steps, size_t n)
{
    add_whole(page, steps, n, LOSS, "The loss", "Before each step.", "the loss");
    add_matches(page, options, steps, n);
    add_whole(page, steps, n, SPARSITY, "Sparsity", "Of the tensors that are pruned on the way, in each step.",
              "the sparsity");
}
