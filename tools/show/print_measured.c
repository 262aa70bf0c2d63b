/* print_measured.c - what the outputs of a model lose, measured with data: tables for pruning, for schemes and for
 * coupled groups, each with how well the figures from the weights alone predict it.
 *
 *     pruned: outputs, %   50 %  70 %  90 %   2:4  answers
 *     fc1.weight           3.10  8.42  31.0  2.15      6.2
 *     order agrees by      0.90  0.90  0.70  0.60 */
#include "tools/show/print_sensitivity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINES 40 /* without -v: the worst of more */

/* What all three tables need. */
struct view {
    struct app *app;
    const struct vc_sensitivity *s;
    const struct vc_measured *m;
    double *scratch; /* one per line of the longest table */
};

/* ---- cells ---- */

/* NaN: the change was not measured. */
static double relative_of(const struct vc_output_change *change)
{
    return change->reason == NULL ? change->relative : (double)NAN;
}

/* A measured change that is no number any more is worse than any number. */
static void add_change(struct table *table, const char *heading, const struct vc_output_change *change)
{
    double relative = relative_of(change);

    table_cell(table, 'r', heading, isnan(relative) ? INK_DIM : INK_NONE,
               isinf(relative) ? "inf" : fmt_relative(CELL, relative));
}

/* How many rows in 100 have another largest output. */
static void add_answers(struct table *table, const struct vc_output_change *change)
{
    bool known = change->reason == NULL && isfinite(change->answers);

    table_cell(table, 'r', "answers", INK_NONE, known ? fmt_text(CELL, "%.1f", 100 * change->answers) : "-");
}

/* Spearman's rank correlation, from -1 to 1; "-" where there are too few figures. */
static void add_agreement(struct table *table, const char *heading, double agreement)
{
    table_cell(table, 'r', heading, INK_DIM, isfinite(agreement) ? fmt_text(CELL, "%.2f", agreement) : "-");
}

/* The least figure of the n in scratch that is shown; lines below it are not. -1: all are shown. */
static double shown_from(const struct view *view, size_t n)
{
    if (view->app->common.verbose > 0 || n <= MAX_LINES) {
        return -1;
    }
    qsort(view->scratch, n, sizeof(*view->scratch), smaller_first);
    return view->scratch[n - MAX_LINES];
}

/* Prints the table and says how many lines are missing. False: no memory. */
static bool end_table(const struct view *view, struct table *table, size_t hidden, const char *what)
{
    FILE *to = view->app->out.to;

    fputc('\n', to);
    bool ok = table_print(table, &view->app->out, true);
    if (hidden > 0) {
        fprintf(to, "  and %zu more %s, less sensitive (-v lists every one)\n", hidden, what);
    }
    return ok;
}

/* ---- tensors ---- */

/* The columns of a table: numbers of measured candidates. */
struct columns {
    const char *title;
    size_t n, answers, judged; /* answers: the candidate whose share of other answers is told; SIZE_MAX: none */
    size_t candidates[MAX_CANDIDATES];
};

/* The measured candidates of one table. judged: the one whose figures say which tensors are worst, as in
 * print_sensitivity.c; answers: that of 90 % sparsity. */
static struct columns columns_of(const struct view *view, enum sensitivity_table table)
{
    static const char *const titles[N_TABLES] = {"pruned: outputs, %", "quantized: outputs, %",
                                                 "ints in groups: outputs, %", "floats in groups: outputs, %"};
    static const char *const judged[N_TABLES] = {"", "int8/channel", "int4/group:128", "nf4/group:64"};
    struct columns c = {.title = titles[table], .answers = SIZE_MAX};

    for (size_t i = 0; i < view->m->n_candidates && c.n < MAX_CANDIDATES; i++) {
        const struct vc_sensitivity_candidate *candidate = &view->s->candidates[view->m->candidates[i]];

        if (table_of(candidate) == table) {
            c.judged = strcmp(candidate->name, judged[table]) == 0 || c.n == 0 ? i : c.judged;
            c.answers = candidate->percent == 90 ? i : c.answers;
            c.candidates[c.n++] = i;
        }
    }
    return c;
}

/* What a row is sorted by: a change that was not measured is NaN, which has no place in an order. */
static double order_of(const struct vc_output_change *change)
{
    double x = relative_of(change);

    return isnan(x) ? 0 : x;
}

/* One table: a row for each tensor, the last row compares with the figures from the weights alone. False: no memory. */
static bool print_tensors(const struct view *view, const struct columns *c)
{
    const struct vc_measured *m = view->m;
    char headings[MAX_CANDIDATES][CELL_BYTES];
    struct table table = {.failed = false};
    size_t hidden = 0;
    size_t n = 0;

    for (size_t k = 0; k < c->n; k++) {
        fmt_candidate(headings[k], &view->s->candidates[m->candidates[c->candidates[k]]]);
    }
    for (size_t i = 0; i < m->n_tensors; i++) {
        if (m->tensors[i].changes != NULL) {
            view->scratch[n++] = order_of(&m->tensors[i].changes[c->judged]);
        }
    }
    double from = shown_from(view, n);
    for (size_t i = 0; i < m->n_tensors; i++) {
        const struct vc_measured_tensor *t = &m->tensors[i];

        if (t->changes == NULL) {
            continue;
        }
        if (relative_of(&t->changes[c->judged]) < from) {
            hidden++;
            continue;
        }
        table_cell(&table, 'l', c->title, INK_NONE, view->s->rows[t->row].name);
        for (size_t k = 0; k < c->n; k++) {
            add_change(&table, headings[k], &t->changes[c->candidates[k]]);
        }
        if (c->answers != SIZE_MAX) {
            add_answers(&table, &t->changes[c->answers]);
        }
        table_end_row(&table);
    }
    table_cell(&table, 'l', c->title, INK_DIM, "order agrees by");
    for (size_t k = 0; k < c->n; k++) {
        add_agreement(&table, headings[k], m->agreement[c->candidates[k]]);
    }
    if (c->answers != SIZE_MAX) {
        table_cell(&table, 'r', "answers", INK_DIM, "");
    }
    table_end_row(&table);
    return end_table(view, &table, hidden, "tensors");
}

/* ---- groups ---- */

/* Groups of units that are removed together, by the share of units. False: no memory. */
static bool print_groups(const struct view *view)
{
    const struct vc_measured *m = view->m;
    struct table table = {.failed = false};
    size_t hidden = 0;
    size_t n = 0;

    for (size_t i = 0; i < m->n_groups; i++) {
        if (m->groups[i].changes != NULL) {
            view->scratch[n++] = order_of(&m->groups[i].changes[0]);
        }
    }
    if (n == 0) {
        return true;
    }
    double from = shown_from(view, n);
    for (size_t i = 0; i < m->n_groups; i++) {
        const struct vc_measured_group *g = &m->groups[i];

        if (g->changes == NULL) {
            continue;
        }
        if (relative_of(&g->changes[0]) < from) {
            hidden++;
            continue;
        }
        table_cell(&table, 'l', "removed: outputs, %", INK_NONE, g->name);
        table_cell(&table, 'r', "units", INK_NONE, fmt_count(CELL, g->n_units));
        for (size_t k = 0; k < m->n_percents; k++) {
            add_change(&table, fmt_text(CELL, "%u %%", m->percents[k]), &g->changes[k]);
        }
        add_answers(&table, &g->changes[m->n_percents - 1]);
        table_end_row(&table);
    }
    table_cell(&table, 'l', "removed: outputs, %", INK_DIM, "order agrees by");
    table_cell(&table, 'r', "units", INK_DIM, "");
    for (size_t k = 0; k < m->n_percents; k++) {
        add_agreement(&table, fmt_text(CELL, "%u %%", m->percents[k]), m->group_agreement[k]);
    }
    table_cell(&table, 'r', "answers", INK_DIM, "");
    table_end_row(&table);
    return end_table(view, &table, hidden, "groups");
}

/* "not in the tables: 1 is an output of the graph": groups whose units stay, and tensors that the graph does not use.
 */
static void print_others(const struct view *view)
{
    const struct vc_measured *m = view->m;
    FILE *to = view->app->out.to;

    for (size_t i = 0; i < m->n_tensors; i++) {
        if (m->tensors[i].reason != NULL) {
            say(to, "  %s: %s\n", view->s->rows[m->tensors[i].row].name, m->tensors[i].reason);
        }
    }
    for (size_t i = 0; view->app->common.verbose > 0 && i < m->n_groups; i++) {
        if (m->groups[i].reason != NULL) {
            say(to, "  %s: %s\n", m->groups[i].name, m->groups[i].reason);
        }
    }
}

/* s->measured is NULL without --data. scratch has room for the longer of the lists. */
bool print_measured(struct app *app, const struct vc_sensitivity *s)
{
    struct view view = {.app = app, .s = s, .m = s->measured};
    bool ok = true;

    if (view.m == NULL) {
        return true;
    }
    view.scratch = malloc((view.m->n_tensors + view.m->n_groups + 1) * sizeof(*view.scratch));
    if (view.scratch == NULL) {
        return false;
    }
    fprintf(app->out.to,
            "\nwith data, %s rows: error of the outputs if one tensor alone changes\n"
            "answers: rows in 100 with another largest output, at 90 %%\n"
            "order agrees by: Spearman's rank correlation of these figures and the figures above\n",
            view.m->n_rows != 0 ? fmt_count(CELL, view.m->n_rows) : "all");
    for (enum sensitivity_table table = TABLE_PRUNED; ok && table < N_TABLES; table++) {
        const struct columns columns = columns_of(&view, table);

        ok = print_tensors(&view, &columns);
    }
    ok = ok && print_groups(&view);
    print_others(&view);
    free(view.scratch);
    return ok;
}
