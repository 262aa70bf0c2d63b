/* sensitivity_svg.c - what each tensor would lose as one drawing: a heat map of tensors and candidates, and the curves
 * of the tensors that pruning hurts most. It needs nothing beside it: no script, no font, no other file; colours follow
 * the reader's light or dark setting.
 *
 *     10% 20% ... 95%   2:4   int8/tensor ... bf16
 *     [ ][ ]     [#]    [+]   [ ]             [ ]     fc1.weight
 *
 * Numbers are printed from integers, so that no locale puts a comma into them. */
#include <math.h>

#include <vcompress/sensitivity.h>

#include "core/base/array.h"
#include "report/page/svg_text.h"

#define MAX_ROWS 400 /* of the heat map; the worst of more */
#define N_CURVES 5
#define WIDTH    1000
#define LABELS   320 /* column of names */
#define CELL     33  /* width of a cell */
#define GAP      12  /* between the kinds of candidates */
#define HEAT_TOP 190 /* of the first row */
#define PLOT_W   460
#define PLOT_H   300

/* Upper ends of the classes of colour, as relative errors; what is above the last is in a class of its own. Roughly
 * equal steps of the logarithm, finer where pruning lies (0.1 to 0.7): a tensor of int8 is blue, one that is pruned to
 * half orange. */
static const double classes[] = {1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.2, 0.3, 0.5, 0.7};
#define N_CLASSES (sizeof classes / sizeof classes[0] + 1)

struct drawing {
    struct vc_text text;
    const struct vc_sensitivity *s; /* what is drawn */
    size_t n_rows;                  /* of the map */
    size_t *rows;                   /* in the model's order */
    double *scratch;                /* one per measured row */
    unsigned row_h10;               /* height of a row, in tenths */
};

/* ---- text ---- */

/* A number of tenths: "12.5". */
static void add_tenths(struct vc_text *text, double tenths)
{
    long n = lround(tenths);

    vc_text_add(text, "%s%ld.%ld", n < 0 ? "-" : "", labs(n) / 10, labs(n) % 10);
}

/* A relative error as percent with two digits: 27, 3.1, 0.19. */
static void add_percent(struct vc_text *text, double relative)
{
    double percent = 100.0 * relative;

    if (!isfinite(percent)) {
        vc_text_add(text, "-");
    } else if (percent >= 9.95) {
        vc_text_add(text, "%ld", lround(percent));
    } else if (percent >= 0.995) {
        add_tenths(text, 10.0 * percent);
    } else {
        long n = lround(100.0 * percent);
        vc_text_add(text, n == 0 ? (percent == 0.0 ? "0" : "&lt;.01") : ".%02ld", n);
    }
}

/* The number of the class of colour. Only used for figures that are numbers. */
static size_t class_of(double relative)
{
    size_t i = 0;

    while (i + 1 < N_CLASSES && !(relative <= classes[i])) {
        i++;
    }
    return i;
}

/* ---- which rows ---- */

/* The candidate that prunes to that sparsity. */
static size_t candidate_of_percent(const struct vc_sensitivity *s, unsigned percent)
{
    size_t i = 0;

    while (i < s->n_candidates && s->candidates[i].percent != percent) {
        i++;
    }
    return i;
}

/* What a measured row loses at that sparsity. */
static double error_at(const struct drawing *d, size_t row, unsigned percent)
{
    return d->s->rows[row].errors[candidate_of_percent(d->s, percent)].relative;
}

/* Sorts what the measured rows lose at that sparsity into d->scratch. Returns how many there are. */
static size_t sort_errors(struct drawing *d, unsigned percent)
{
    size_t n = 0;

    for (size_t i = 0; i < d->s->n_rows; i++) {
        if (d->s->rows[i].errors != NULL && isfinite(error_at(d, i, percent))) {
            d->scratch[n++] = error_at(d, i, percent);
        }
    }
    if (n != 0) {
        qsort(d->scratch, n, sizeof *d->scratch, vc_order_f64);
    }
    return n;
}

/* All measured rows, or the MAX_ROWS that lose most at 50 %. The more rows, the lower each one: 18, 11 or 5 pixels.
 * Figures are only printed into rows of 18. */
static void choose_rows(struct drawing *d)
{
    size_t n = sort_errors(d, 50);
    double least = n > MAX_ROWS ? d->scratch[n - MAX_ROWS] : -1.0;

    for (size_t i = 0; i < d->s->n_rows && d->n_rows < MAX_ROWS; i++) {
        if (d->s->rows[i].errors != NULL && !(error_at(d, i, 50) < least)) {
            d->rows[d->n_rows++] = i;
        }
    }
    d->row_h10 = d->n_rows <= 48 ? 180 : d->n_rows <= 120 ? 110 : 50;
}

/* ---- the frame ---- */

/* The colours are those of page.css: one meaning everywhere. Light cells have dark text from class 0 to 8, and the
 * other way round from class 9 on. */
static void add_style(struct vc_text *text)
{
    static const char *const light[N_CLASSES] = {"#f3f6fa", "#e3ecf5", "#cfe0ef", "#b5d0e6", "#93bbd9", "#6a9fc7",
                                                 "#fbe3b5", "#f8c27a", "#f19a4b", "#bf4a1c", "#a92a1f", "#8c1620"};
    static const char *const dark[N_CLASSES] = {"#1d2733", "#21303f", "#263b4e", "#2c4960", "#335a77", "#39688a",
                                                "#5a4420", "#6e4d1e", "#855519", "#cf7b2a", "#ea7a4b", "#ff9c86"};
    static const char *const curves[N_CURVES] = {"#d1462f", "#2b7bba", "#3f9142", "#8d5fb4", "#b8860b"};

    vc_text_add(text,
                "<style>\n"
                ".bg{fill:#fff}svg{font-family:system-ui,'DejaVu Sans',Arial,sans-serif;font-size:12px}\n"
                "text{fill:#1b1f24}.dim{fill:#59636e}.h{font-size:18px;font-weight:600}"
                ".b{font-size:14px;font-weight:600}.n{font-size:10px;text-anchor:middle}.e{text-anchor:end}"
                ".m{text-anchor:middle}\n"
                ".x{fill:none;stroke:#59636e}.g{stroke:#d5dae0}.l{fill:none;stroke-width:2}"
                ".md{fill:none;stroke:#59636e;stroke-width:2;stroke-dasharray:6 4}.no{fill:#fff;stroke:#d5dae0}\n");
    for (size_t i = 0; i < N_CLASSES; i++) {
        vc_text_add(text, ".c%zu{fill:%s}.t%zu{fill:%s}", i, light[i], i, i >= 9 ? "#fff" : "#1b1f24");
    }
    for (size_t i = 0; i < N_CURVES; i++) {
        vc_text_add(text, ".l%zu{stroke:%s}.d%zu{fill:%s}", i, curves[i], i, curves[i]);
    }
    vc_text_add(text, "\n@media (prefers-color-scheme:dark){.bg{fill:#12161b}text{fill:#e6eaef}.dim{fill:#9aa5b1}"
                      ".x{stroke:#9aa5b1}.g{stroke:#2f3842}.md{stroke:#9aa5b1}.no{fill:#12161b;stroke:#2f3842}\n");
    for (size_t i = 0; i < N_CLASSES; i++) {
        vc_text_add(text, ".c%zu{fill:%s}.t%zu{fill:%s}", i, dark[i], i, i >= 9 ? "#12161b" : "#e6eaef");
    }
    vc_text_add(text, "}\n</style>\n");
}

/* The last part of a path. */
static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

/* The comment at the start is how an older drawing is recognized (svg_check). */
static void add_head(struct drawing *d, unsigned height)
{
    const struct vc_sensitivity *s = d->s;
    struct vc_text *text = &d->text;

    vc_text_add(text,
                "<!-- vcompress sensitivity -->\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
                "height=\"%u\" viewBox=\"0 0 %d %u\" role=\"img\">\n<title>",
                WIDTH, height, WIDTH, height);
    vc_svg_add_text(text, file_name(vc_model_facts(s->model)->path), 200);
    vc_text_add(text, ": what each tensor loses</title>\n");
    add_style(text);
    vc_text_add(text, "<rect class=\"bg\" width=\"%d\" height=\"%u\"/>\n", WIDTH, height);
    vc_text_add(text, "<text class=\"h\" x=\"16\" y=\"32\">");
    vc_svg_add_text(text, file_name(vc_model_facts(s->model)->path), 60);
    vc_text_add(text,
                ": what each tensor loses</text>\n<text class=\"dim\" x=\"16\" y=\"52\">Relative error in percent: "
                "RMS of the change / RMS of the tensor, from the weights alone. %zu of %zu weights measured",
                s->n_measured, s->n_rows);
    if (d->n_rows < s->n_measured) {
        vc_text_add(text, "; the %zu that lose most are drawn", d->n_rows);
    }
    vc_text_add(text, ".</text>\n");
}

/* ---- the heat map ---- */

/* Left end of the cells of a candidate. Kinds are numbered: each one moves the cells by GAP more. */
static unsigned candidate_x(const struct vc_sensitivity *s, size_t candidate)
{
    return LABELS + (unsigned)candidate * CELL + GAP * (unsigned)s->candidates[candidate].kind;
}

/* Titles of kinds where they begin, and the names of candidates, turned by 50 degrees. */
static void add_columns(struct drawing *d)
{
    static const char *const titles[] = {"pruned to a sparsity, smallest magnitudes first", "pattern",
                                         "quantized, by scheme"};
    const struct vc_sensitivity *s = d->s;
    struct vc_text *text = &d->text;

    for (size_t i = 0; i < s->n_candidates; i++) {
        bool first = i == 0 || s->candidates[i - 1].kind != s->candidates[i].kind;
        unsigned x = candidate_x(s, i);

        if (first) {
            vc_text_add(text, "<text class=\"dim\" x=\"%u\" y=\"%d\">%s</text>\n", x,
                        s->candidates[i].kind == VC_SENSITIVITY_PATTERN ? 106 : 84, titles[s->candidates[i].kind]);
        }
        vc_text_add(text, "<text transform=\"translate(%u %d) rotate(-50)\">", x + CELL / 2, HEAT_TOP - 6);
        vc_svg_add_text(text, s->candidates[i].name, 16);
        vc_text_add(text, "</text>\n");
    }
}

/* A cell with its colour, and a title with row, candidate and figures, which browsers show under the pointer. y10:
 * tenths. */
static void add_cell(struct drawing *d, size_t row, size_t candidate, double y10)
{
    const struct vc_sensitivity_error *error = &d->s->rows[row].errors[candidate];
    struct vc_text *text = &d->text;
    unsigned x = candidate_x(d->s, candidate);
    size_t shade = class_of(error->relative);
    /* a figure: else the cell is empty, and its title has the reason */
    bool known = error->reason == NULL && !isnan(error->relative);

    vc_text_add(text, "<g><title>");
    vc_svg_add_text(text, d->s->rows[row].name, 200);
    vc_text_add(text, ", %s: ", d->s->candidates[candidate].name);
    if (!known) {
        vc_text_add(text, "%s", error->reason != NULL ? error->reason : "no figure");
    } else if (error->relative == 0.0) {
        vc_text_add(text, "exact");
    } else {
        add_percent(text, error->relative);
        vc_text_add(text, " %%, ");
        add_tenths(text, 10.0 * error->sqnr_db);
        vc_text_add(text, " dB");
    }
    /* the cell is one pixel less wide than its column, and less high than its row where rows are not too low */
    vc_text_add(text, "</title><rect x=\"%u\" y=\"", x);
    add_tenths(text, y10);
    vc_text_add(text, "\" width=\"%d\" height=\"", CELL - 1);
    add_tenths(text, d->row_h10 - (d->row_h10 >= 100 ? 10.0 : 0.0));
    if (known) {
        vc_text_add(text, "\" class=\"c%zu\"/>", shade);
    } else {
        vc_text_add(text, "\" class=\"no\"/>");
    }
    /* room for figures in the cells */
    if (d->row_h10 >= 180 && known) {
        vc_text_add(text, "<text class=\"n t%zu\" x=\"%u\" y=\"", shade, x + (CELL - 1) / 2);
        add_tenths(text, y10 + 122.0);
        vc_text_add(text, "\">");
        add_percent(text, error->relative);
        vc_text_add(text, "</text>");
    }
    vc_text_add(text, "</g>\n");
}

/* Names of rows, of every third where rows are low, and all cells. */
static void add_map(struct drawing *d)
{
    struct vc_text *text = &d->text;
    size_t every = d->row_h10 >= 100 ? 1 : 3; /* label */

    add_columns(d);
    for (size_t i = 0; i < d->n_rows; i++) {
        double y10 = 10.0 * HEAT_TOP + (double)d->row_h10 * (double)i;

        if (i % every == 0) {
            vc_text_add(text, "<text class=\"e\" x=\"%d\" y=\"", LABELS - 8);
            add_tenths(text, y10 + (d->row_h10 >= 180 ? 126.0 : 90.0));
            vc_text_add(text, d->row_h10 >= 180 ? "\">" : "\" font-size=\"10\">");
            vc_svg_add_text(text, d->s->rows[d->rows[i]].name, 42);
            vc_text_add(text, "</text>\n");
        }
        for (size_t candidate = 0; candidate < d->s->n_candidates; candidate++) {
            add_cell(d, d->rows[i], candidate, y10);
        }
    }
}

static unsigned map_bottom(const struct drawing *d)
{
    return HEAT_TOP + (unsigned)(d->row_h10 * d->n_rows / 10);
}

/* What the colours stand for. y: of its upper end. */
static void add_key(struct drawing *d, unsigned y)
{
    struct vc_text *text = &d->text;

    vc_text_add(text, "<text class=\"e dim\" x=\"%d\" y=\"%u\">error in percent, up to</text>\n", LABELS - 8, y + 12);
    for (size_t i = 0; i < N_CLASSES; i++) {
        unsigned x = LABELS + (unsigned)i * 46;

        vc_text_add(text,
                    "<rect class=\"c%zu\" x=\"%u\" y=\"%u\" width=\"45\" height=\"18\"/><text class=\"n t%zu\" "
                    "x=\"%u\" y=\"%u\">",
                    i, x, y, i, x + 22, y + 13);
        if (i + 1 < N_CLASSES) {
            add_percent(text, classes[i]);
        } else {
            vc_text_add(text, "more");
        }
        vc_text_add(text, "</text>\n");
    }
}

/* ---- the curves ---- */

/* A square of 0 to 100 percent in both directions, its lower left corner at x, y + PLOT_H. */
static void add_axes(struct drawing *d, unsigned x, unsigned y)
{
    struct vc_text *text = &d->text;

    for (unsigned i = 0; i <= 100; i += 20) {
        unsigned at_x = x + i * PLOT_W / 100;
        unsigned at_y = y + PLOT_H - i * PLOT_H / 100;

        vc_text_add(text, "<line class=\"g\" x1=\"%u\" y1=\"%u\" x2=\"%u\" y2=\"%u\"/>\n", x, at_y, x + PLOT_W, at_y);
        vc_text_add(text, "<text class=\"e dim\" x=\"%u\" y=\"%u\">%u</text>\n", x - 8, at_y + 4, i);
        vc_text_add(text, "<text class=\"m dim\" x=\"%u\" y=\"%u\">%u</text>\n", at_x, y + PLOT_H + 18, i);
    }
    vc_text_add(text, "<path class=\"x\" d=\"M%u %uV%uH%u\"/>\n", x, y, y + PLOT_H, x + PLOT_W);
    vc_text_add(text, "<text class=\"m dim\" x=\"%u\" y=\"%u\">sparsity, percent of the weights that are zero</text>\n",
                x + PLOT_W / 2, y + PLOT_H + 40);
    vc_text_add(text,
                "<text class=\"m dim\" transform=\"translate(%u %u) rotate(-90)\">relative error, percent</text>\n",
                x - 44, y + PLOT_H / 2);
}

/* The row's error, or the median of all where row is VC_NO_TENSOR. */
static double curve_at(struct drawing *d, size_t row, unsigned percent)
{
    if (row != VC_NO_TENSOR) {
        return error_at(d, row, percent);
    }
    size_t n = sort_errors(d, percent);
    return n == 0 ? 0.0 : n % 2 != 0 ? d->scratch[n / 2] : (d->scratch[n / 2 - 1] + d->scratch[n / 2]) / 2.0;
}

/* A line from 0 at a sparsity of 0 through the measured sparsities. Errors above 1 are drawn at the top. */
static void add_curve(struct drawing *d, size_t row, size_t number, unsigned x, unsigned y)
{
    const struct vc_sensitivity *s = d->s;
    struct vc_text *text = &d->text;
    bool median = row == VC_NO_TENSOR;

    vc_text_add(text, "<path d=\"M%u %u", x, y + PLOT_H);
    for (size_t i = 0; i < s->n_candidates && s->candidates[i].kind == VC_SENSITIVITY_MAGNITUDE; i++) {
        unsigned percent = s->candidates[i].percent;
        double error = curve_at(d, row, percent);

        vc_text_add(text, "L");
        add_tenths(text, 10.0 * x + 10.0 * PLOT_W * percent / 100.0);
        vc_text_add(text, " ");
        add_tenths(text, 10.0 * y + 10.0 * PLOT_H * (1.0 - fmin(error, 1.0)));
    }
    if (median) {
        vc_text_add(text, "\" class=\"md\"><title>median of all tensors</title></path>\n");
    } else {
        vc_text_add(text, "\" class=\"l l%zu\"><title>", number);
        vc_svg_add_text(text, s->rows[row].name, 200);
        vc_text_add(text, "</title></path>\n");
    }
}

/* The line of the key at the right of the plot. number: of the colour. */
static void add_curve_name(struct drawing *d, size_t row, size_t number, unsigned x, unsigned y)
{
    struct vc_text *text = &d->text;

    if (row == VC_NO_TENSOR) {
        vc_text_add(text, "<path class=\"md\" d=\"M%u %uh30\"/><text x=\"%u\" y=\"%u\">median of %zu, ", x, y - 4,
                    x + 40, y, d->s->n_measured);
    } else {
        vc_text_add(text, "<path class=\"l l%zu\" d=\"M%u %uh30\"/><text x=\"%u\" y=\"%u\">", number, x, y - 4, x + 40,
                    y);
        vc_svg_add_text(text, d->s->rows[row].name, 44);
        vc_text_add(text, ", ");
    }
    add_percent(text, curve_at(d, row, 50));
    vc_text_add(text, " %% at 50 %%</text>\n");
}

/* The worst N_CURVES rows at 50 %, and the median of all rows over them. */
static void add_curves(struct drawing *d, unsigned top)
{
    unsigned x = 76;
    unsigned y = top + 34;
    size_t used[N_CURVES];
    size_t n = 0;

    vc_text_add(&d->text,
                "<text class=\"b\" x=\"16\" y=\"%u\">Pruning by magnitude: the tensors that lose most at 50 "
                "%%</text>\n",
                top + 8);
    add_axes(d, x, y);
    add_curve_name(d, VC_NO_TENSOR, 0, x + PLOT_W + 24, y + 16);
    while (n < N_CURVES) { /* the worst that is not drawn yet */
        size_t worst = VC_NO_TENSOR;

        for (size_t i = 0; i < d->n_rows; i++) {
            bool drawn = false;

            for (size_t k = 0; k < n; k++) {
                drawn |= used[k] == d->rows[i];
            }
            if (!drawn && isfinite(error_at(d, d->rows[i], 50)) &&
                (worst == VC_NO_TENSOR || error_at(d, d->rows[i], 50) > error_at(d, worst, 50))) {
                worst = d->rows[i];
            }
        }
        if (worst == VC_NO_TENSOR) {
            break;
        }
        used[n] = worst;
        add_curve(d, worst, n, x, y);
        n++;
        add_curve_name(d, worst, n - 1, x + PLOT_W + 24, y + 16 + 24 * (unsigned)n);
    }
    add_curve(d, VC_NO_TENSOR, 0, x, y); /* over the others */
}

/* ---- measured with data ---- */

/* What the outputs lose where the tensor is pruned to that sparsity; NaN: no figure. */
static double change_at(const struct drawing *d, size_t tensor, unsigned percent)
{
    const struct vc_measured *m = d->s->measured;

    for (size_t i = 0; m->tensors[tensor].changes != NULL && i < m->n_candidates; i++) {
        if (d->s->candidates[m->candidates[i]].percent == percent && m->tensors[tensor].changes[i].reason == NULL) {
            return m->tensors[tensor].changes[i].relative;
        }
    }
    return (double)NAN;
}

/* The curve of one tensor, and its line of the key. */
static void add_change_curve(struct drawing *d, size_t tensor, size_t number, unsigned x, unsigned y)
{
    const struct vc_measured *m = d->s->measured;
    const char *name = d->s->rows[m->tensors[tensor].row].name;
    struct vc_text *text = &d->text;
    unsigned at = y + 16 + 24 * (unsigned)number;

    vc_text_add(text, "<path d=\"M%u %u", x, y + PLOT_H);
    for (size_t i = 0; i < m->n_percents; i++) {
        double change = change_at(d, tensor, m->percents[i]);

        if (!isnan(change)) {
            vc_text_add(text, "L");
            add_tenths(text, 10.0 * x + 10.0 * PLOT_W * m->percents[i] / 100.0);
            vc_text_add(text, " ");
            add_tenths(text, 10.0 * y + 10.0 * PLOT_H * (1.0 - fmin(change, 1.0)));
        }
    }
    vc_text_add(text, "\" class=\"l l%zu\"><title>", number);
    vc_svg_add_text(text, name, 200);
    vc_text_add(text, "</title></path>\n<path class=\"l l%zu\" d=\"M%u %uh30\"/><text x=\"%u\" y=\"%u\">", number,
                x + PLOT_W + 24, at - 4, x + PLOT_W + 64, at);
    vc_svg_add_text(text, name, 44);
    vc_text_add(text, ", ");
    add_percent(text, change_at(d, tensor, m->percents[0]));
    vc_text_add(text, " %% at %u %%</text>\n", m->percents[0]);
}

/* The tensors whose pruning changes the outputs most. Tensors are found in falling order without a list: each is the
 * worst below the one before it, equal ones by number. */
static void add_changes(struct drawing *d, unsigned top)
{
    const struct vc_measured *m = d->s->measured;
    unsigned first = m->percents[0];
    double last = (double)INFINITY;
    size_t last_tensor = 0;

    vc_text_add(&d->text,
                "<text class=\"b\" x=\"16\" y=\"%u\">Measured with data: what the outputs lose, one tensor pruned at a "
                "time</text>\n",
                top + 8);
    add_axes(d, 76, top + 34);
    for (size_t n = 0; n < N_CURVES; n++) { /* the worst behind the one before it */
        size_t worst = VC_NO_TENSOR;

        for (size_t i = 0; i < m->n_tensors; i++) {
            double change = change_at(d, i, first);
            /* NaN is behind nothing */
            bool behind = change < last || (change == last && n > 0 && i > last_tensor);

            if (behind && (worst == VC_NO_TENSOR || change > change_at(d, worst, first))) {
                worst = i;
            }
        }
        if (worst == VC_NO_TENSOR) {
            break;
        }
        add_change_curve(d, worst, n, 76, top + 34);
        last = change_at(d, worst, first);
        last_tensor = worst;
    }
}

/* The height is known beforehand, from the number of rows. */
enum vc_status vc_draw_sensitivity(struct vc_ctx *ctx, const struct vc_document *document, char **out)
{
    const struct vc_sensitivity *s = document->of;
    const unsigned plot = 60 + 34 + PLOT_H + 64;
    struct drawing d = {.s = s};
    unsigned bottom;

    vc_text_init(&d.text, ctx);
    d.rows = vc_alloc_array(ctx, VC_TAG_REPORT, s->n_rows + 1, sizeof *d.rows);
    d.scratch = vc_alloc_array(ctx, VC_TAG_REPORT, s->n_rows + 1, sizeof *d.scratch);
    if (d.rows != NULL && d.scratch != NULL) {
        choose_rows(&d);
        bottom = map_bottom(&d);
        add_head(&d, bottom + (d.n_rows == 0 ? 40 : plot + (s->measured != NULL ? plot : 0)));
        if (d.n_rows != 0) {
            add_map(&d);
            add_key(&d, bottom + 12);
            add_curves(&d, bottom + 70);
            if (s->measured != NULL) {
                add_changes(&d, bottom + 70 + plot);
            }
        }
        vc_text_add(&d.text, "</svg>\n");
    } else {
        d.text.status = VC_E_NOMEM;
    }
    VC_FREE_ALL(ctx, d.rows, d.scratch);
    *out = vc_text_detach(&d.text);
    return *out == NULL ? d.text.status : VC_OK;
}
