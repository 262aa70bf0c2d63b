/* cmd_diff.c - vcompress diff: how far two checkpoints are apart, tensor by tensor, and what two documents say
 * differently. The library compares (vc_diff_models) and judges (vc_diff_within); here are the options, the table with
 * the worst tensors first, and the exit status. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/show/documents.h"

#define MAX_LINES 20 /* without -v; the worst come first */

/* The options of the command. */
struct diff_cli {
    struct base_options base;
    struct vc_diff_limits limits; /* what still counts as equal */
    struct vc_open_options open;  /* --key, for both files */
};

/* Limits; without any two tensors must be equal. */
/* clang-format off */
static const struct opt diff_opts[] = {
    {.name = "tolerance", .value = "X", .kind = OPT_REAL, .gate = true, OPT_FIELD(struct diff_cli, limits.tolerance),
     .help = "largest difference of two values that still counts as equal (default 0)"},
    {.name = "min-sqnr", .value = "DB", .kind = OPT_REAL, .gate = true, OPT_FIELD(struct diff_cli, limits.min_sqnr_db),
     .help = "what counts is the SQNR of each tensor, not the single value, unless --tolerance is given too"},
    {.name = "key", .value = "NAME", .kind = OPT_TEXT, OPT_FIELD(struct diff_cli, open.key),
     .help = "PyTorch files: the dict whose tensors are the weights (default: the usual names)"},
};
/* clang-format on */
static const struct opt_group group_diff = OPT_GROUP("Diff", diff_opts);
static const struct opt_group *const groups[] = {&group_diff,    &group_gates,  &group_run, &group_json,
                                                 &group_comment, &group_report, &group_help};

/* What is compared with what, and what was found. */
struct comparison {
    const struct vc_model *a, *b;
    const struct vc_diff *diff;
    const struct vc_diff_limits *limits;
    const struct vc_diff_row **order; /* worst first */
    size_t n_beyond;                  /* rows that are not close enough */
};

/* Where a row stands in the table: missing tensors first, then other shapes, other values that have no figures, other
 * values by SQNR (worst_first), equal ones. A small number is worse. */
static int rank(const struct vc_diff_row *row)
{
    switch (row->kind) {
    case VC_DIFF_ONLY_A:
        return 0;
    case VC_DIFF_ONLY_B:
        return 1;
    case VC_DIFF_SHAPE:
        return 2;
    case VC_DIFF_VALUES:
        return row->numeric ? 4 : 3;
    case VC_DIFF_SAME:
        break;
    }
    return 5;
}

/* For qsort, over pointers to rows. Equal ranks and figures keep the order of the first file. */
static int worst_first(const void *pa, const void *pb)
{
    const struct vc_diff_row *a = *(const struct vc_diff_row *const *)pa;
    const struct vc_diff_row *b = *(const struct vc_diff_row *const *)pb;
    int by_rank = rank(a) - rank(b);

    if (by_rank != 0) {
        return by_rank;
    }
    if (rank(a) == 4 && a->sqnr_db != b->sqnr_db) {
        return a->sqnr_db < b->sqnr_db ? -1 : 1;
    }
    return a < b ? -1 : a > b;
}

/* ---- the table ---- */

/* "-" for a tensor that is not in that file. */
static const char *type_name(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_NONE ? "-" : vc_dtype_name(dtype);
}

/* The last column. "close enough": other values within the limits. */
static const char *verdict_of(const struct comparison *c, const struct vc_diff_row *row)
{
    static const char *const words[] = {
        [VC_DIFF_SAME] = "equal",
        [VC_DIFF_VALUES] = "differs",
        [VC_DIFF_SHAPE] = "other shape",
        [VC_DIFF_ONLY_A] = "only in the first",
        [VC_DIFF_ONLY_B] = "only in the second",
    };

    return row->kind == VC_DIFF_VALUES && vc_diff_within(c->limits, row) ? "close enough" : words[row->kind];
}

/* One row of the table. Figures are there for numbers in both files with the same shape. */
static void add_row(struct table *table, const struct out *out, const struct comparison *c,
                    const struct vc_diff_row *row)
{
    bool figures = row->numeric && row->kind <= VC_DIFF_VALUES;
    const char *a = type_name(row->dtype_a);

    table_cell(table, 'l', "tensor", INK_NONE, row->name);
    table_cell(table, 'l', "type", INK_NONE,
               row->dtype_a == row->dtype_b ? a
                                            : fmt_text(CELL, "%s %s %s", a, out_arrow(out), type_name(row->dtype_b)));
    table_cell(table, 'r', "elements", INK_NONE, fmt_count(CELL, row->n_elems));
    table_cell(table, 'r', "max error", INK_NONE, figures ? fmt_real(CELL, row->max_abs_error) : "");
    table_cell(table, 'r', "SQNR", INK_NONE, figures ? fmt_db(CELL, row->sqnr_db) : "");
    table_cell(table, 'r', "cosine", INK_NONE,
               figures && isfinite(row->cosine) ? fmt_text(CELL, "%.7f", row->cosine) : "");
    table_cell(table, 'l', "", vc_diff_within(c->limits, row) ? INK_NONE : INK_BAD, verdict_of(c, row));
    table_end_row(table);
}

/* Without -v at most MAX_LINES, and no equal tensors. False: no memory. */
static bool print_table(struct app *app, const struct comparison *c)
{
    bool verbose = app->common.verbose > 0;
    size_t n = 0;
    struct table table = {.failed = false};

    if (c->diff->n_rows == 0 || (!verbose && c->order[0]->kind == VC_DIFF_SAME)) {
        return true; /* nothing to list */
    }
    for (; n < c->diff->n_rows && (verbose || n < MAX_LINES); n++) {
        if (!verbose && c->order[n]->kind == VC_DIFF_SAME) {
            break;
        }
        add_row(&table, &app->out, c, c->order[n]);
    }
    fputc('\n', app->out.to);
    if (!table_print(&table, &app->out, !verbose)) {
        return false;
    }
    if (n < c->diff->n_rows) {
        fprintf(app->out.to, "  and %zu more, %s (-v lists them)\n", c->diff->n_rows - n,
                c->order[n]->kind == VC_DIFF_SAME ? "equal" : "closer");
    }
    fputc('\n', app->out.to);
    return true;
}

/* The last line: "same", "close enough" or "differs", with counts and, where there are figures, those over all
 * tensors. */
static void print_verdict(const struct out *out, const struct comparison *c)
{
    const struct vc_diff *diff = c->diff;
    char limit[CELL_BYTES * 2] = "";

    /* the limit, in words, for the end of the line */
    if (c->limits->by_value && c->limits->tolerance > 0) {
        snprintf(limit, sizeof(limit), " (tolerance %g)", c->limits->tolerance);
    } else if (c->limits->by_sqnr) {
        snprintf(limit, sizeof(limit), " (at least %s)", fmt_db(CELL, c->limits->min_sqnr_db));
    }
    if (diff->n_different == 0) {
        fprintf(out->to, "%ssame:%s %s tensors, all equal\n", out_ink(out, INK_GOOD), out_ink(out, INK_NONE),
                fmt_count(CELL, diff->n_rows));
        return;
    }
    if (c->n_beyond == 0) {
        fprintf(out->to, "%sclose enough:%s %zu of %zu tensors differ, all within the limit%s", out_ink(out, INK_GOOD),
                out_ink(out, INK_NONE), diff->n_different, diff->n_rows, limit);
    } else {
        fprintf(out->to, "%sdiffers:%s %zu of %zu tensors%s", out_ink(out, INK_BAD), out_ink(out, INK_NONE),
                c->n_beyond, diff->n_rows, limit);
    }
    if (isfinite(diff->sqnr_db)) {
        say(out->to, "; SQNR over all %s, max error %s", fmt_db(CELL, diff->sqnr_db),
            fmt_real(CELL, diff->max_abs_error));
    }
    fputc('\n', out->to);
}

/* Facts that every user of a file should know (VC_FACT_NOTE). */
static void print_model_notes(const struct out *out, const struct vc_model *model)
{
    const struct vc_fact *fact;

    for (size_t i = 0; i < vc_model_facts(model)->n_facts; i++) {
        fact = &vc_model_facts(model)->facts[i];
        if (strcmp(fact->key, VC_FACT_NOTE) == 0) {
            out_inked(out, INK_WARN, "note:");
            say(out->to, " %s\n", fact->value);
        }
    }
}

/* "a.npz (1.15 MiB) -> b.npz (305 KiB)", notes, table, verdict. False: no memory. */
static bool print_comparison(struct app *app, const struct comparison *c)
{
    const struct out *out = &app->out;

    out_inked(out, INK_BOLD, vc_model_facts(c->a)->path);
    say(out->to, " (%s) %s ", fmt_size(CELL, out, vc_model_facts(c->a)->file_bytes), out_arrow(out));
    out_inked(out, INK_BOLD, vc_model_facts(c->b)->path);
    say(out->to, " (%s)\n", fmt_size(CELL, out, vc_model_facts(c->b)->file_bytes));
    print_model_notes(out, c->a);
    print_model_notes(out, c->b);
    if (!print_table(app, c)) {
        return false;
    }
    print_verdict(out, c);
    return true;
}

/* ---- two documents ---- */

/* Adds the cells of a line of a table in Markdown, without what makes code of them. The line is cut in place: "| `a` |
 * 1 | 2 |" are the cells a, 1 and 2; "\|" is a bar within a cell. */
static void add_cells(struct table *table, char *line)
{
    for (char *cell = line + 2; *cell != '\0';) {
        char *end = strstr(cell, " |");
        char *to = cell;

        *end = '\0';
        for (char *from = cell; *from != '\0'; from++) {
            if (*from != '`' && !(*from == '\\' && from[1] == '|')) {
                *to++ = *from;
            }
        }
        *to = '\0';
        table_cell(table, table->column == 0 ? 'l' : 'r', "", INK_NONE, cell);
        cell = end + (end[2] == '\0' ? 2 : 3);
    }
    table_end_row(table);
}

/* The short table of the document in Markdown, as text, with more lines; n: how many members differ. False: no
 * memory. */
static bool print_changes(struct app *app, const char *document, size_t n)
{
    struct out *out = &app->out;
    struct table table = {.failed = false};
    char *text = NULL;

    if (vc_document_markdown(app->ctx, document, app->common.verbose > 0 ? n : MAX_LINES, &text) != VC_OK) {
        return false;
    }
    /* the lines of the Markdown table begin with "| "; the line of dashes below the titles does not */
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (line[0] == '|' && line[1] == ' ') {
            add_cells(&table, line);
        }
    }
    vc_text_free(text);
    if (!table_print(&table, out, app->common.verbose == 0)) {
        return false;
    }
    if (n == 0) {
        fprintf(out->to, "%ssame:%s both documents say the same\n", out_ink(out, INK_GOOD), out_ink(out, INK_NONE));
    } else {
        fprintf(out->to, "%sdiffers:%s %s members%s\n", out_ink(out, INK_BAD), out_ink(out, INK_NONE),
                fmt_count(CELL, n), n > MAX_LINES && app->common.verbose == 0 ? " (-v lists them)" : "");
    }
    return true;
}

/* Two documents of --json, which are recognized by how the files begin (is_document). The exit status. */
static int diff_documents(struct app *app)
{
    char *document = NULL;
    size_t n;

    if (options_seen(&app->parsed, "tolerance") || options_seen(&app->parsed, "min-sqnr") ||
        options_seen(&app->parsed, "key")) {
        return app_usage(app, "--tolerance, --min-sqnr and --key are about checkpoints; %s is a document",
                         app->subject);
    }
    enum vc_status status = vc_changes_json(app->ctx, app->subject, app->output, &n, &document);
    if (status != VC_OK) {
        return app_fail(app, status);
    }
    if (app_prints(app) && !print_changes(app, document, n)) {
        vc_text_free(document);
        return app_refuse(app, VC_E_NOMEM, "not enough memory to print the report");
    }
    int rc = document_changes(app, document);
    if (rc != GO_ON || n == 0) {
        return rc != GO_ON ? rc : EXIT_YES;
    }
    return app_answer_no(app, "%s and %s differ in %zu member%s", app->subject, app->output, n, plural(n));
}

/* ---- the command ---- */

/* The worst tensor that is not close enough, and how many there are beside it. */
static int say_no(struct app *app, const struct comparison *c)
{
    const struct vc_diff_row *worst = c->order[0];
    char others[CELL_BYTES] = "";

    for (size_t i = 1; vc_diff_within(c->limits, worst); i++) {
        worst = c->order[i];
    }
    if (c->n_beyond > 1) {
        snprintf(others, sizeof(others), ", and %zu more", c->n_beyond - 1);
    }
    return app_answer_no(app, "%s and %s: %s: %s%s", app->subject, app->output, worst->name, verdict_of(c, worst),
                         others);
}

/* Prints the table and the document. The exit status: are all tensors close enough? */
static int tell(struct app *app, struct comparison *c)
{
    int rc = GO_ON;

    signals_end_printing();
    c->order = malloc((c->diff->n_rows + 1) * sizeof(*c->order));
    if (c->order == NULL) {
        return app_refuse(app, VC_E_NOMEM, "not enough memory to compare %zu tensors", c->diff->n_rows);
    }
    for (size_t i = 0; i < c->diff->n_rows; i++) {
        c->order[i] = &c->diff->rows[i];
        c->n_beyond += !vc_diff_within(c->limits, &c->diff->rows[i]);
    }
    qsort(c->order, c->diff->n_rows, sizeof(*c->order), worst_first);
    if (app_prints(app) && !print_comparison(app, c)) {
        rc = app_refuse(app, VC_E_NOMEM, "not enough memory to print the report");
    }
    rc = rc == GO_ON ? document_diff(app, c->a, c->b, c->diff, c->limits) : rc;
    app_print_memory(app);
    if (rc == GO_ON) {
        rc = c->n_beyond == 0 ? EXIT_YES : say_no(app, c);
    }
    free(c->order);
    return rc;
}

/* subject and output are the two files, so that sentences name the one that they are about. */
static int run_diff(struct app *app, int n_args, char **args)
{
    struct diff_cli cli;
    struct comparison c = {.a = NULL};
    struct vc_model *a = NULL;
    struct vc_model *b = NULL;
    struct vc_diff *diff = NULL;
    int rc = GO_ON;

    memset(&cli, 0, sizeof cli);
    vc_diff_limits_defaults(&cli.limits);
    vc_open_defaults(&cli.open);
    GO(app_parse(app, n_args, args, &cli));
    if (app->parsed.n_args != 2) {
        return app_usage(app, "diff takes two files, got %d; see vcompress diff --help", app->parsed.n_args);
    }
    if (cli.limits.tolerance < 0) {
        return app_usage(app, "--tolerance: a difference is never below 0, as %g is", cli.limits.tolerance);
    }
    GO(app_open(app));
    GO(json_check(app));
    app->subject = app->parsed.args[0];
    app->output = app->parsed.args[1];
    if (is_document(app->subject) && is_document(app->output)) {
        return diff_documents(app);
    }
    enum vc_status status = vc_model_open(app->ctx, app->subject, &cli.open, &a);
    if (status == VC_OK) {
        status = vc_model_open(app->ctx, app->output, &cli.open, &b);
    }
    if (status == VC_OK) {
        progress_begin(app);
        status = vc_diff_models(app->ctx, a, b, &diff);
        progress_end();
    }
    if (status != VC_OK) {
        rc = app_fail(app, status);
    } else {
        /* with --min-sqnr alone single values do not matter */
        cli.limits.by_sqnr = options_seen(&app->parsed, "min-sqnr");
        cli.limits.by_value = !cli.limits.by_sqnr || options_seen(&app->parsed, "tolerance");
        c = (struct comparison){.a = a, .b = b, .diff = diff, .limits = &cli.limits};
        rc = tell(app, &c);
    }
    vc_result_free(diff);
    vc_model_close(b);
    vc_model_close(a);
    return rc;
}

const struct command command_diff = {
    .name = "diff",
    .usage = "[--tolerance X] [--min-sqnr DB] [options] A B",
    .summary = "compare two checkpoints, or two reports",
    .text = "Compares weights: quantized tensors are decoded first, dtypes may differ. Exit status 0 if every tensor "
            "of A is in B, with the same shape and within the limits, and B has no other tensors; else 1. Error and "
            "SQNR are of B against A.\n"
            "Two JSON documents of --json, of the same kind, are compared member by member, items of lists by their "
            "names; not "
            "compared are the commands, time, memory and threads of the runs, and the version of the program. Status 0 "
            "if both say "
            "the same.\n"
            "  vcompress diff model.npz model.int8.npz --min-sqnr 35\n"
            "  vcompress diff before.json after.json --markdown comment.md",
    .first = "min-sqnr tolerance json html markdown",
    OPT_GROUPS(groups),
    .args = "FILE",
    .schema = "vcompress.diff/1",
    .run = run_diff,
};
