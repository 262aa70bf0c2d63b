/* print_sensitivity.c - the report of vcompress sensitivity as tables that fit into 80 columns: what pruning does, with
 * a curve in letters, and what each scheme does.
 *
 *     fc1.weight      ▁▂▂▃▄▄▅▆▇█    15.6   27.3   43.1   71.0    33.8
 *     fc1.weight      .::-=+*#%@    15.6   27.3   43.1   71.0    33.8     where the locale has no UTF-8
 *
 * A table for each kind of candidate (enum sensitivity_table), of which each has its own worst tensors.
 * print_measured.c and print_advice.c print what follows. */
#include "tools/show/print_sensitivity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/show/group.h"

#define MAX_LINES \
    40 /* without -v: tensors that differ in their number alone share two lines if there are more, and of \
          these lines the worst are shown */

/* A line: one tensor, or all that differ in their number alone. */
struct line {
    size_t *members; /* rows */
    size_t n, room;  /* members, and how many the list has room for */
};

/* What both tables have in common. */
struct view {
    struct app *app;
    const struct vc_sensitivity *s;
    struct groups groups;
    struct line *lines; /* one per group */
    double *scratch;    /* one per row */
};

/* Two places below 10 %, one above: three digits that fit a column. */
char *fmt_relative(char *buf, double relative)
{
    double percent = 100.0 * relative;

    if (!isfinite(percent)) {
        snprintf(buf, CELL_BYTES, "-");
    } else if (percent == 0.0) {
        snprintf(buf, CELL_BYTES, "0");
    } else if (percent < 0.005) {
        snprintf(buf, CELL_BYTES, "<0.01");
    } else {
        snprintf(buf, CELL_BYTES, percent < 9.995 ? "%.2f" : "%.1f", percent);
    }
    return buf;
}

/* ---- lines ---- */

/* False: no memory. */
static bool add_member(struct line *line, size_t row)
{
    if (line->n == line->room) {
        size_t room = line->room == 0 ? 4 : 2 * line->room;
        size_t *members = realloc(line->members, room * sizeof(*members));

        if (members == NULL) {
            return false;
        }
        line->members = members;
        line->room = room;
    }
    line->members[line->n++] = row;
    return true;
}

/* Groups the measured rows. With few tensors, or with -v, each tensor is a group (`apart`). False: no memory;
 * free_lines accepts what was made. */
static bool make_lines(struct view *view)
{
    const struct vc_sensitivity *s = view->s;
    bool apart = view->app->common.verbose > 0 || s->n_measured <= MAX_LINES;

    groups_init(&view->groups);
    view->lines = calloc(s->n_rows + 1, sizeof(*view->lines));
    view->scratch = malloc((s->n_rows + 1) * sizeof(*view->scratch));
    if (view->lines == NULL || view->scratch == NULL) {
        return false;
    }
    for (size_t i = 0; i < s->n_rows; i++) {
        if (s->rows[i].errors == NULL) {
            continue;
        }
        size_t g = groups_add(&view->groups, i, s->rows[i].name, NULL, apart);
        if (g == NO_GROUP || !add_member(&view->lines[g], i)) {
            return false;
        }
    }
    return true;
}

/* Also of a view whose lines were never made. */
static void free_lines(struct view *view)
{
    for (size_t i = 0; view->lines != NULL && i < view->groups.n; i++) {
        free(view->lines[i].members);
    }
    free(view->lines);
    free(view->scratch);
    groups_release(&view->groups);
}

/* The error of one row, NaN where there is none. */
static double error_of(const struct vc_sensitivity *s, size_t row, size_t candidate)
{
    const struct vc_sensitivity_error *error = &s->rows[row].errors[candidate];

    return error->reason == NULL ? error->relative : (double)NAN;
}

int smaller_first(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* The median of the members that have a figure; NaN: none has. Not the mean: one bad layer of thirty would hide in it
 * or spoil it. */
static double median_of(const struct view *view, const struct line *line, size_t candidate)
{
    size_t n = 0;

    for (size_t i = 0; i < line->n; i++) {
        view->scratch[n] = error_of(view->s, line->members[i], candidate);
        n += isfinite(view->scratch[n]) ? 1 : 0;
    }
    if (n == 0) {
        return (double)NAN;
    }
    qsort(view->scratch, n, sizeof(*view->scratch), smaller_first);
    return n % 2 != 0 ? view->scratch[n / 2] : (view->scratch[n / 2 - 1] + view->scratch[n / 2]) / 2;
}

/* The member with the largest error by one candidate. A member without a figure loses against any other. */
static size_t worst_of(const struct vc_sensitivity *s, const struct line *line, size_t candidate)
{
    size_t worst = line->members[0];

    for (size_t i = 1; i < line->n; i++) {
        double error = error_of(s, line->members[i], candidate);

        if (!isnan(error) && !(error <= error_of(s, worst, candidate))) {
            worst = line->members[i];
        }
    }
    return worst;
}

/* ---- the tables ---- */

/* The candidates of one table, and how it shows them. */
struct columns {
    const char *title;
    bool schemes;
    size_t judged; /* the candidate that says what is worst */
    size_t n;      /* columns */
    size_t candidates[MAX_CANDIDATES];
};

/* Its number; the last candidate where no name is right. */
static size_t find_candidate(const struct vc_sensitivity *s, const char *name)
{
    size_t i = 0;

    while (i + 1 < s->n_candidates && strcmp(s->candidates[i].name, name) != 0) {
        i++;
    }
    return i;
}

/* A cell for each sparsity from 10 to 95 %: eighths of a full error (an RMS of the change as large as the tensor's
 * own). A missing figure is a full cell. */
static char *fmt_curve(char *buf, const struct out *out, const struct vc_sensitivity *s, const double *errors)
{
    static const char *const blocks[] = {
        "\xe2\x96\x81", "\xe2\x96\x82", "\xe2\x96\x83", "\xe2\x96\x84",
        "\xe2\x96\x85", "\xe2\x96\x86", "\xe2\x96\x87", "\xe2\x96\x88",
    };
    static const char *const letters[] = {".", ":", "-", "=", "+", "*", "#", "@"};

    buf[0] = '\0';
    for (size_t i = 0; i < s->n_candidates && s->candidates[i].kind == VC_SENSITIVITY_MAGNITUDE; i++) {
        /* 0 to 12.5 % is the lowest cell, 87.5 % and more the highest */
        double eighths = isfinite(errors[i]) ? floor(8 * fmin(errors[i], 1.0)) : 7;
        size_t level = eighths > 7 ? 7 : (size_t)eighths;

        strcat(buf, out->utf8 ? blocks[level] : letters[level]);
    }
    return buf;
}

/* One line of a table: label, curve, figures. SQNR in dB of a relative error e: -20 log10 e. */
static void add_cells(struct table *table, const struct view *view, const struct columns *c, const char *label,
                      const double *errors, enum ink ink)
{
    table_cell(table, 'l', c->title, ink, label);
    if (!c->schemes) {
        table_cell(table, 'l', "10 to 95 %", ink, fmt_curve(CELL, &view->app->out, view->s, errors));
    }
    for (size_t i = 0; i < c->n; i++) {
        double error = errors[c->candidates[i]];
        const char *text = !c->schemes ? fmt_relative(CELL, error) : fmt_text(CELL, "%.1f", -20 * log10(error));

        text = c->schemes && error == 0 ? "exact" : text;
        table_cell(table, 'r', fmt_candidate(CELL, &view->s->candidates[c->candidates[i]]),
                   isnan(error) ? INK_DIM : ink, isnan(error) ? "-" : text);
    }
    table_end_row(table);
}

/* One row for a single tensor; for a group two rows: the median of each column, and the figures of the worst member.
 * False: no memory. */
static bool add_line(struct table *table, const struct view *view, const struct columns *c, size_t g)
{
    const struct vc_sensitivity *s = view->s;
    const struct line *line = &view->lines[g];
    size_t worst = worst_of(s, line, c->judged);
    double errors[MAX_CANDIDATES];

    if (line->n == 1) {
        for (size_t i = 0; i < s->n_candidates; i++) {
            errors[i] = error_of(s, worst, i);
        }
        add_cells(table, view, c, s->rows[worst].name, errors, INK_NONE);
        return true;
    }
    char *label = group_label(&view->groups.list[g], out_times(&view->app->out));
    if (label == NULL) {
        return false;
    }
    for (size_t i = 0; i < s->n_candidates; i++) {
        errors[i] = median_of(view, line, i);
    }
    add_cells(table, view, c, label, errors, INK_NONE);
    free(label);
    for (size_t i = 0; i < s->n_candidates; i++) {
        errors[i] = error_of(s, worst, i);
    }
    label = malloc(strlen(s->rows[worst].name) + 16);
    if (label == NULL) {
        return false;
    }
    sprintf(label, "  worst %s", s->rows[worst].name);
    add_cells(table, view, c, label, errors, INK_DIM);
    free(label);
    return true;
}

/* By the kind and the name: "int4/group:128" and "ternary/..." are ints, "nf4/group:64" a float; names without a
 * granularity, such as f16 or q8_0, are usual. */
enum sensitivity_table table_of(const struct vc_sensitivity_candidate *candidate)
{
    const char *name = candidate->name;

    if (candidate->kind != VC_SENSITIVITY_SCHEME) {
        return TABLE_PRUNED;
    }
    if (strncmp(name, "int8/", 5) == 0 || strchr(name, '/') == NULL) {
        return TABLE_USUAL;
    }
    if (name[0] == 'i' || name[0] == 't') {
        return TABLE_INTS;
    }
    return TABLE_FLOATS;
}

/* The title of a column: short, since the table has 80 columns of letters. */
char *fmt_candidate(char *buf, const struct vc_sensitivity_candidate *candidate)
{
    const char *name = strncmp(candidate->name, "int8/", 5) == 0 ? candidate->name + 5 : candidate->name;

    if (candidate->kind == VC_SENSITIVITY_MAGNITUDE) {
        snprintf(buf, CELL_BYTES, "%u %%", candidate->percent);
    } else if (strncmp(name, "group:", 6) == 0) {
        snprintf(buf, CELL_BYTES, "g%s", name + 6);
    } else {
        snprintf(buf, CELL_BYTES, "%.*s", (int)strcspn(name, "/"), name);
    }
    return buf;
}

/* The lines that are shown: all, or the worst by the judged candidate. *hidden: tensors that are not. Returns the error
 * from which on lines are shown; -1: all are. */
static double shown_from(const struct view *view, const struct columns *c, size_t *hidden)
{
    size_t n = view->groups.n;
    double *errors = view->scratch;

    *hidden = 0;
    if (view->app->common.verbose > 0 || n <= MAX_LINES) {
        return -1;
    }
    for (size_t g = 0; g < n; g++) {
        double error = error_of(view->s, worst_of(view->s, &view->lines[g], c->judged), c->judged);

        /* without a figure: the least */
        errors[g] = isnan(error) ? 0 : error;
    }
    qsort(errors, n, sizeof(*errors), smaller_first);
    double from = errors[n - (MAX_LINES - 1)];
    for (size_t g = 0; g < n; g++) {
        if (error_of(view->s, worst_of(view->s, &view->lines[g], c->judged), c->judged) < from) {
            *hidden += view->lines[g].n;
        }
    }
    return from;
}

/* Some figure of the table is missing. */
static bool lacks_some(const struct view *view, const struct columns *c)
{
    for (size_t i = 0; i < view->s->n_rows; i++) {
        for (size_t k = 0; view->s->rows[i].errors != NULL && k < c->n; k++) {
            if (view->s->rows[i].errors[c->candidates[k]].reason != NULL) {
                return true;
            }
        }
    }
    return false;
}

/* One table. Lines without a figure for the judged candidate are shown, too. False: no memory. */
static bool print_columns(const struct view *view, const struct columns *c)
{
    const struct out *out = &view->app->out;
    struct table table = {.failed = false};
    size_t hidden;
    double from = shown_from(view, c, &hidden);
    bool ok = true;

    for (size_t g = 0; ok && g < view->groups.n; g++) {
        double worst = error_of(view->s, worst_of(view->s, &view->lines[g], c->judged), c->judged);

        if (!(worst < from)) {
            ok = add_line(&table, view, c, g);
        }
    }
    fputc('\n', out->to);
    ok = table_print(&table, out, true) && ok;
    if (hidden > 0) {
        fprintf(out->to, "  and %zu more tensors, less sensitive (-v lists every one)\n", hidden);
    }
    if (lacks_some(view, c)) {
        fputs("  -: the tensor does not fit the scheme; --json says why\n", out->to);
    }
    return ok;
}

/* Columns beyond the room of the structure are left out. */
static void add_candidate(struct columns *c, size_t candidate)
{
    if (c->n < MAX_CANDIDATES) {
        c->candidates[c->n++] = candidate;
    }
}

/* The candidate that judges a table is the usual choice of its kind: half of the weights, int8 per channel, int4 and
 * nf4 in their default groups. */
static bool print_tables(const struct view *view)
{
    static const char *const sparsities[] = {"30%", "50%", "70%", "80%", "90%"};
    struct columns pruned = {.title = "pruned: error in %", .judged = find_candidate(view->s, "50%")};
    struct columns schemes = {
        .title = "quantized: SQNR in dB", .schemes = true, .judged = find_candidate(view->s, "int8/channel")};
    struct columns ints = {
        .title = "ints in groups: SQNR in dB", .schemes = true, .judged = find_candidate(view->s, "int4/group:128")};
    struct columns floats = {
        .title = "floats in groups: SQNR in dB", .schemes = true, .judged = find_candidate(view->s, "nf4/group:64")};
    bool ok = true;
    struct columns *const tables[N_TABLES] = {&pruned, &schemes, &ints, &floats};

    for (size_t i = 0; i < sizeof(sparsities) / sizeof(sparsities[0]); i++) {
        add_candidate(&pruned, find_candidate(view->s, sparsities[i]));
    }
    for (size_t i = 0; i < view->s->n_candidates; i++) {
        if (view->s->candidates[i].kind != VC_SENSITIVITY_MAGNITUDE) {
            add_candidate(tables[table_of(&view->s->candidates[i])], i);
        }
    }
    for (size_t i = 0; ok && i < N_TABLES; i++) {
        ok = print_columns(view, tables[i]);
    }
    return ok;
}

/* ---- around the tables ---- */

/* "net.npz: npz, 9 of 12 weights measured", a note, and what the figures are. */
static void print_head(const struct view *view)
{
    const struct vc_sensitivity *s = view->s;
    const struct out *out = &view->app->out;
    out_inked(out, INK_BOLD, vc_model_facts(s->model)->path);
    say(out->to, ": %s, %s of %zu weights measured\n", vc_model_facts(s->model)->format, fmt_count(CELL, s->n_measured),
        s->n_rows);
    if (s->note != NULL) {
        out_inked(out, INK_WARN, "note:");
        say(out->to, " %s\n", s->note);
    }
    if (s->n_measured > 0) {
        fputs("error = RMS of the change / RMS of the tensor; SQNR = the same in dB\n", out->to);
    }
}

/* "not measured: 5 1-D, 2 normalization"; with -v each of them. Groups by reason: groups_add takes the reason as the
 * name. False: no memory. */
static bool print_kept(const struct view *view)
{
    const struct vc_sensitivity *s = view->s;
    const struct out *out = &view->app->out;
    bool verbose = view->app->common.verbose > 0;
    struct groups reasons;
    bool ok = true;

    groups_init(&reasons);
    for (size_t i = 0; ok && i < s->n_rows; i++) {
        ok = s->rows[i].reason == NULL || groups_add(&reasons, i, s->rows[i].reason, NULL, true) != NO_GROUP;
    }
    fputs(reasons.n > 0 ? "\n  not measured: " : "", out->to);
    for (size_t i = 0; ok && i < reasons.n; i++) {
        say(out->to, "%s%zu %s", i == 0 ? "" : ", ", reasons.list[i].count, reasons.list[i].name);
    }
    fputs(reasons.n == 0 ? "" : verbose ? "\n" : " (-v lists them)\n", out->to);
    groups_release(&reasons);
    for (size_t i = 0; ok && verbose && i < s->n_rows; i++) {
        if (s->rows[i].reason != NULL) {
            say(out->to, "    %s: %s\n", s->rows[i].name, s->rows[i].reason);
        }
    }
    return ok;
}

/* Figures of the weights, then what was measured with data, then what follows from both. */
bool print_sensitivity(struct app *app, const struct vc_sensitivity *s, const struct sensitivity_request *request)
{
    struct view view = {.app = app, .s = s};
    bool ok = true;

    print_head(&view);
    if (s->n_measured > 0) {
        ok = make_lines(&view) && print_tables(&view);
    }
    ok = ok && print_kept(&view);
    free_lines(&view);
    ok = ok && print_measured(app, s);
    return ok && print_advice(app, s, request);
}
