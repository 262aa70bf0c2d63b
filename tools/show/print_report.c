/* print_report.c - the report of a conversion as a table: what changed, what was kept and why, totals.
 *
 * Tensors that differ only in their number share a line, with the worst figures of the group; -v lists every one.
 *
 * From the first line to the last:
 *
 *     net.npz: npz, 12 tensors, 301,066 parameters, 1.15 MiB (stored)     print_input
 *     tensor   shape  type  size -> ratio  SQNR                           print_changed
 *     why, kept: reasons with the names of their tensors                  print_why, twice
 *     file, host, device, optimizer: before, after                        print_totals
 *     fit, zeros, layers, worst tensor, layout, notes                     print_facts and others
 *     wrote net.int8.npz in 0.03 s                                        print_outcome
 *
 * The rows of a report are read one by one (row_at), also when the library makes them on request: a model of a million
 * tensors never has all of its rows in memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/model/target.h"
#include "tools/show/group.h"
#include "tools/show/print_distill.h"
#include "tools/show/print_report.h"

#define MAX_LINES 40 /* of the table without -v; the smallest groups beyond it share a line */

/* One line of the table: the sums, and the worst, of its tensors. Sizes are in bytes. `first` stands for all rows of
 * the line where a text is needed: they have type, shape and scheme in common. */
struct line {
    size_t n_tensors;
    size_t first; /* row of the first one */
    uint64_t before, after, zeros, elems, clipped;
    double sqnr_db, max_abs_error; /* the worst of the tensors: the lowest SQNR, the largest error */
    bool measured, shown;          /* measured: some tensor has figures of its error; shown: the line is printed */
};

/* Row number `index`, of those that there are. */
static struct vc_report_row row_at(const struct vc_report *report, size_t index)
{
    struct vc_report_row row = {.name = ""};

    (void)vc_report_get_row(report, index, &row);
    return row;
}

/* What tensors must have in common, besides the pattern of their names, to share a line: action, types, scheme, shape.
 * The last step is the scheme itself, so it is not added twice. */
static void kind_of(const struct vc_report_row *row, struct group_kind *kind)
{
    group_kind_begin(kind);
    group_kind_number(kind, (uint64_t)row->action);
    group_kind_number(kind, (uint64_t)row->dtype_before);
    group_kind_number(kind, (uint64_t)row->dtype_after);
    group_kind_text(kind, row->scheme);
    for (size_t i = 0; i + 1 < row->n_steps; i++) {
        group_kind_text(kind, row->steps[i].scheme);
    }
    for (unsigned i = 0; i < row->n_dims; i++) {
        group_kind_number(kind, row->shape[i]);
    }
}

/* Adds a tensor to its line. Sums of sizes, the minimum of the SQNR, the maximum of the error. */
static void add_row(struct line *line, size_t index, const struct vc_report_row *row)
{
    if (line->n_tensors == 0) {
        *line = (struct line){.first = index, .sqnr_db = (double)INFINITY};
    }
    line->n_tensors++;
    line->before += row->bytes_before;
    line->after += row->bytes_after;
    line->elems += row->n_elems;
    if (row->measured) {
        line->measured = true;
        line->zeros += row->zeros_after;
        line->clipped += row->clipped;
        line->sqnr_db = row->sqnr_db < line->sqnr_db ? row->sqnr_db : line->sqnr_db;
        line->max_abs_error = row->max_abs_error > line->max_abs_error ? row->max_abs_error : line->max_abs_error;
    }
}

/* Whether a pass did something to the tensor. A tied tensor follows the tensor that it is equal to. */
static bool changed(const struct vc_report_row *row)
{
    return row->action != VC_ACTION_KEPT && row->action != VC_ACTION_DROPPED && row->action != VC_ACTION_TIED;
}

/* What became of a row, in a word: the scheme of a changed tensor, else "kept", "dropped" or "tied". */
static const char *fate(const struct vc_report_row *row)
{
    if (row->action == VC_ACTION_DROPPED) {
        return "dropped";
    }
    if (row->action == VC_ACTION_TIED) {
        return "tied";
    }
    if (row->action == VC_ACTION_KEPT) {
        return "kept";
    }
    return row->scheme;
}

/* The same word for the same reason: such tensors share a line of reasons. */
static bool same_fate(const struct vc_report_row *a, const struct vc_report_row *b)
{
    return a->action == b->action && strcmp(fate(a), fate(b)) == 0 && strcmp(a->reason, b->reason) == 0;
}

/* ---- first line ---- */

/* "net.npz: npz, 12 tensors, 301,066 parameters, 1.15 MiB (stored)" */
static void print_input(const struct out *out, const struct vc_report *report)
{
    const struct vc_report_totals *totals = &report->totals;

    out_inked(out, INK_BOLD, report->input);
    say(out->to, ": %s, %s tensor%s, %s parameter%s, %s (%s)\n", report->input_format,
        fmt_count(CELL, totals->n_tensors), plural(totals->n_tensors), fmt_count(CELL, totals->n_params),
        plural(totals->n_params), fmt_size(CELL, out, totals->file_before),
        report->input_compressed ? "deflated" : "stored");
}

/* ---- what changed ---- */

/* Which columns the table has. */
struct view {
    const struct out *out;
    const struct vc_report *report;
    bool measured, verbose; /* some line has figures of its error; -v was given */
    bool zeros;             /* something was pruned: the share of zeros is shown without -v, too */
    bool one_type;          /* every line has the same type and room is short: it is said once, above the table */
};

/* The columns from the size on. */
static void add_figures(struct table *table, const struct view *view, const struct line *line)
{
    const struct out *out = view->out;
    bool known = line->measured;

    table_cell(table, 'r', "size", INK_NONE, fmt_size(CELL, out, line->before));
    table_cell(table, 'a', "", INK_DIM, out_arrow(out));
    table_cell(table, 'r', "", INK_NONE, fmt_size(CELL, out, line->after));
    table_cell(table, 'r', "ratio", line->after < line->before ? INK_GOOD : INK_NONE,
               fmt_ratio(CELL, out, line->before, line->after));
    if (view->measured) {
        table_cell(table, 'r', "SQNR", INK_NONE, known ? fmt_db(CELL, line->sqnr_db) : "");
    }
    if (view->measured && view->verbose) {
        table_cell(table, 'r', "max error", INK_NONE, known ? fmt_real(CELL, line->max_abs_error) : "");
    }
    if (view->measured && (view->verbose || view->zeros)) {
        table_cell(table, 'r', "zeros", INK_NONE,
                   known ? fmt_percent(CELL, (double)line->zeros, (double)line->elems) : "");
    }
    if (view->measured && view->verbose) {
        table_cell(table, 'r', "clipped", line->clipped != 0 ? INK_WARN : INK_NONE,
                   known ? fmt_count(CELL, line->clipped) : "");
    }
    table_end_row(table);
}

#define TYPE_BYTES (CELL_BYTES * 2)

/* "f32 -> int8/channel"; after several passes "f32 -> 50% -> int8/channel". A chain of passes that does not fit
 * TYPE_BYTES is cut; snprintf then returns what it would have written, which is why n is compared before each further
 * part. */
static char *fmt_type(char *buf, const struct out *out, const struct vc_report_row *row)
{
    size_t n = (size_t)snprintf(buf, TYPE_BYTES, "%s", vc_dtype_name(row->dtype_before));

    for (size_t i = 0; i + 1 < row->n_steps && n < TYPE_BYTES; i++) {
        n += (size_t)snprintf(buf + n, TYPE_BYTES - n, " %s %.40s", out_arrow(out), row->steps[i].scheme);
    }
    if (n < TYPE_BYTES) {
        snprintf(buf + n, TYPE_BYTES - n, " %s %.60s", out_arrow(out),
                 row->scheme[0] != '\0' ? row->scheme : vc_dtype_name(row->dtype_after));
    }
    return buf;
}

/* What earlier passes did is the same. */
static bool same_steps(const struct vc_report_row *a, const struct vc_report_row *b)
{
    bool same = a->n_steps == b->n_steps && strcmp(a->scheme, b->scheme) == 0;

    for (size_t i = 0; same && i < a->n_steps; i++) {
        same = strcmp(a->steps[i].scheme, b->steps[i].scheme) == 0;
    }
    return same;
}

/* One row of the table: name, shape, type, figures. row NULL: of tensors that differ in shape and type. */
static void add_line(struct table *table, const struct view *view, const struct line *line, const char *label,
                     const struct vc_report_row *row)
{
    char type[TYPE_BYTES];

    table_cell(table, 'l', "tensor", row != NULL ? INK_NONE : INK_DIM, label);
    table_cell(table, 'l', "shape", INK_NONE, row != NULL ? fmt_shape(CELL, view->out, row->n_dims, row->shape) : "");
    if (!view->one_type) {
        table_cell(table, 'l', "type", INK_NONE, row != NULL ? fmt_type(type, view->out, row) : "");
    }
    add_figures(table, view, line);
}

/* Larger inputs first. Equal sizes keep the order of the file, so that the table is the same on every machine. */
static int by_size(const void *a, const void *b)
{
    const struct line *x = *(const struct line *const *)a;
    const struct line *y = *(const struct line *const *)b;

    if (x->before != y->before) {
        return x->before < y->before ? 1 : -1;
    }
    return x < y ? -1 : x > y;
}

/* Marks the lines to show: all of them, or the largest and the one with the worst tensor. False: no memory. Two lines
 * of MAX_LINES are left free: one for the worst tensor, one for the sum of the others. */
static bool choose_lines(struct line *lines, size_t n, size_t worst, bool all)
{
    const struct line **order;

    for (size_t i = 0; i < n; i++) {
        lines[i].shown = all || n <= MAX_LINES;
    }
    if (all || n <= MAX_LINES) {
        return true;
    }
    order = malloc(n * sizeof(*order));
    if (order == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        order[i] = &lines[i];
    }
    qsort(order, n, sizeof(*order), by_size);
    for (size_t i = 0; i < MAX_LINES - 2; i++) {
        lines[order[i] - lines].shown = true;
    }
    free(order);
    if (worst < n) {
        lines[worst].shown = true;
    }
    return true;
}

/* The last line: "17 smaller (see -v)", with the sums of all lines that are not shown. Nothing where all are. */
static void add_rest(struct table *table, const struct view *view, const struct line *lines, size_t n)
{
    struct line rest = {.sqnr_db = (double)INFINITY};

    for (size_t i = 0; i < n; i++) {
        if (!lines[i].shown) {
            rest.n_tensors += lines[i].n_tensors;
            rest.before += lines[i].before;
            rest.after += lines[i].after;
            rest.measured = rest.measured || lines[i].measured;
            rest.zeros += lines[i].zeros;
            rest.elems += lines[i].elems;
            rest.sqnr_db = lines[i].sqnr_db < rest.sqnr_db ? lines[i].sqnr_db : rest.sqnr_db;
        }
    }
    if (rest.n_tensors != 0) {
        add_line(table, view, &rest, fmt_text(CELL, "%zu smaller (see -v)", rest.n_tensors), NULL);
    }
}

#define FIGURES_WIDTH 74 /* of everything but the names */

/* Whether the column of types is left out and said once above the table: all lines have the same type and steps, and
 * with the column the longest name would not fit the terminal. The 4 columns are those of a count
 * behind a pattern, such as " x24". */
static bool drop_type(const struct view *view, const struct groups *groups, const struct line *lines)
{
    const struct vc_report_row first = row_at(view->report, lines[0].first);
    size_t longest = 0;

    for (size_t i = 0; i < groups->n; i++) {
        const struct vc_report_row row = row_at(view->report, lines[i].first);
        size_t width = text_width(groups->list[i].pattern) + (groups->list[i].count > 1 ? 4 : 0);

        longest = lines[i].shown && width > longest ? width : longest;
        if (row.dtype_before != first.dtype_before || row.dtype_after != first.dtype_after ||
            !same_steps(&row, &first)) {
            return false;
        }
    }
    return longest + FIGURES_WIDTH > (size_t)view->out->width;
}

/* Chooses the lines and the columns, then prints the table. worst: the group with the worst tensor, or NO_GROUP. */
static bool print_lines(struct app *app, const struct groups *groups, struct line *lines, size_t worst,
                        const struct view *as)
{
    const struct out *out = &app->out;
    struct view view = *as;
    struct table table = {.failed = false};
    char type[TYPE_BYTES];

    if (groups->n == 0) {
        return true;
    }
    if (!choose_lines(lines, groups->n, worst, view.verbose)) {
        return false;
    }
    view.one_type = !view.verbose && drop_type(&view, groups, lines);
    if (view.one_type) {
        const struct vc_report_row row = row_at(view.report, lines[0].first);

        fprintf(out->to, "  %s\n", fmt_type(type, out, &row));
    }
    fputc('\n', out->to);
    for (size_t i = 0; i < groups->n; i++) {
        char *label = lines[i].shown ? group_label(&groups->list[i], out_times(out)) : NULL;
        const struct vc_report_row row = row_at(view.report, lines[i].first);

        if (lines[i].shown) {
            add_line(&table, &view, &lines[i], label != NULL ? label : "?", &row);
        }
        free(label);
    }
    add_rest(&table, &view, lines, groups->n);
    return table_print(&table, out, !view.verbose);
}

/* The table of what changed. With -v each tensor is a group of its own. There are at most as many groups as rows, so
 * lines[] is as long as the rows; the one more keeps calloc from a size of 0. False: no memory. */
static bool print_changed(struct app *app, const struct vc_report *report)
{
    struct view view = {
        .out = &app->out, .report = report, .verbose = app->common.verbose > 0, .zeros = report->pruning != NULL};
    struct line *lines = calloc(report->n_rows + 1, sizeof(*lines));
    struct groups groups;
    size_t worst = NO_GROUP;
    bool ok = lines != NULL;

    groups_init(&groups);
    for (size_t i = 0; ok && report->totals.n_changed > 0 && i < report->n_rows; i++) {
        const struct vc_report_row row = row_at(report, i);
        struct group_kind kind;
        size_t g;

        if (!changed(&row)) {
            continue;
        }
        kind_of(&row, &kind);
        g = view.verbose ? groups_add_alone(&groups, i, row.name) : groups_add(&groups, i, row.name, &kind, false);
        if (g == NO_GROUP) {
            ok = false;
            break;
        }
        add_row(&lines[g], i, &row);
        view.measured = view.measured || row.measured;
        worst = i == report->totals.worst ? g : worst;
    }
    ok = ok && print_lines(app, &groups, lines, worst, &view);
    groups_release(&groups);
    free(lines);
    return ok;
}

/* ---- reasons: of what was kept, and of what changed where there is something to say ---- */

/* "a.weight, b.* x24, ..." in one line of at most `room` columns. The tensors of the reason of `like`, grouped by the
 * pattern of their names. 12 columns are left for ", N more" where further names follow; the first name is printed even
 * if it is too long by itself. False: no memory. */
static bool print_names(const struct out *out, const struct vc_report *report, const struct vc_report_row *like,
                        size_t room)
{
    struct groups groups;
    size_t used = 0;
    bool ok = true;

    groups_init(&groups);
    for (size_t i = 0; ok && i < report->n_rows; i++) {
        const struct vc_report_row row = row_at(report, i);

        if (same_fate(&row, like)) {
            ok = groups_add(&groups, i, row.name, NULL, false) != NO_GROUP;
        }
    }
    for (size_t i = 0; ok && i < groups.n; i++) {
        char *label = group_label(&groups.list[i], out_times(out));
        char *clean = label != NULL ? text_clean(label) : NULL;
        size_t width = clean != NULL ? text_width(clean) : 0;

        ok = clean != NULL;
        if (ok && i > 0 && used + width + 2 + (i + 1 < groups.n ? 12 : 0) > room) {
            fprintf(out->to, ", %zu more", groups.n - i);
            i = groups.n;
        } else if (ok) {
            fprintf(out->to, "%s%s", i > 0 ? ", " : "", clean);
            used += width + (i > 0 ? 2 : 0);
        }
        free(clean);
        free(label);
    }
    groups_release(&groups);
    return ok;
}

/* "  kept 12 tensors, 3.10 KiB: one dimension" and under it, dimmed, the names. */
static bool print_reason(const struct out *out, const struct vc_report *report, const struct line *line)
{
    const struct vc_report_row row = row_at(report, line->first);

    say(out->to, "  %s %s tensor%s, %s: %s", fate(&row), fmt_count(CELL, line->n_tensors), plural(line->n_tensors),
        fmt_size(CELL, out, line->before), row.reason[0] != '\0' ? row.reason : "nothing to do");
    fprintf(out->to, "%s\n    ", out_ink(out, INK_DIM));
    bool ok = print_names(out, report, &row, (size_t)out->width - 6);
    fprintf(out->to, "%s\n", out_ink(out, INK_NONE));
    return ok;
}

/* Whether a reason is printed for the row, in the list of those that changed or of the others. */
static bool is_listed(const struct vc_report_row *row, bool of_changed)
{
    return changed(row) == of_changed && (!of_changed || row->reason[0] != '\0');
}

/* With -v: a table with a row per tensor, under the heading "why" for changed tensors and "kept" for the others. */
static bool print_each_reason(const struct out *out, const struct vc_report *report, bool of_changed)
{
    struct table table = {.failed = false};

    for (size_t i = 0; i < report->n_rows; i++) {
        const struct vc_report_row row = row_at(report, i);

        if (is_listed(&row, of_changed)) {
            bool kept = row.action == VC_ACTION_KEPT || of_changed;
            char reason[CELL_BYTES * 5];

            snprintf(reason, sizeof(reason), "%s%s%.300s", kept ? "" : fate(&row), kept ? "" : ": ", row.reason);
            table_cell(&table, 'l', "", INK_NONE, row.name);
            table_cell(&table, 'l', "", INK_NONE, fmt_shape(CELL, out, row.n_dims, row.shape));
            table_cell(&table, 'l', "", INK_NONE, of_changed ? row.scheme : vc_dtype_name(row.dtype_before));
            table_cell(&table, 'r', "", INK_NONE, fmt_size(CELL, out, of_changed ? row.bytes_after : row.bytes_before));
            table_cell(&table, 'l', "", INK_DIM, reason);
            table_end_row(&table);
        }
    }
    if (table.n_cells > 0) {
        fputs(of_changed ? "\n  why\n" : "\n  kept\n", out->to);
    }
    return table_print(&table, out, false);
}

/* Without -v: a line for every reason, with the names of its tensors. groups_add takes the reason as the name of a
 * group, whole (`apart`), so that sentences with different numbers stay apart. False: no memory. */
static bool print_reasons(struct app *app, const struct vc_report *report, bool of_changed)
{
    struct line *lines = calloc(report->n_rows + 1, sizeof(*lines));
    struct groups reasons;
    bool ok = lines != NULL;

    groups_init(&reasons);
    for (size_t i = 0; ok && i < report->n_rows; i++) {
        const struct vc_report_row row = row_at(report, i);

        if (is_listed(&row, of_changed)) {
            struct group_kind kind;

            group_kind_begin(&kind);
            group_kind_text(&kind, fate(&row));
            size_t g = groups_add(&reasons, i, row.reason, &kind, true);
            ok = g != NO_GROUP;
            if (ok) {
                add_row(&lines[g], i, &row);
            }
        }
    }
    for (size_t i = 0; ok && i < reasons.n; i++) {
        fputs(i == 0 ? "\n" : "", app->out.to);
        ok = print_reason(&app->out, report, &lines[i]);
    }
    groups_release(&reasons);
    free(lines);
    return ok;
}

/* The reasons of tensors that changed (of_changed, such as a scheme that --aim chose), or of those that did not. */
static bool print_why(struct app *app, const struct vc_report *report, bool of_changed)
{
    if (of_changed && report->totals.n_changed == 0) {
        return true;
    }
    return app->common.verbose > 0 ? print_each_reason(&app->out, report, of_changed)
                                   : print_reasons(app, report, of_changed);
}

/* ---- totals ---- */

#define UNKNOWN UINT64_MAX /* a size that only the run tells: of a deflated file */

/* One row of the totals. An empty label continues the row above: the size before is not repeated. */
static void add_total(struct table *table, const struct out *out, const char *label, uint64_t before, uint64_t after,
                      const char *note)
{
    table_cell(table, 'l', "", INK_BOLD, label);
    table_cell(table, 'r', "", INK_NONE, label[0] != '\0' ? fmt_size(CELL, out, before) : "");
    table_cell(table, 'a', "", after != UNKNOWN ? INK_DIM : INK_NONE, out_arrow(out));
    table_cell(table, 'r', "", INK_NONE, after != UNKNOWN ? fmt_size(CELL, out, after) : "?");
    if (after == UNKNOWN) {
        table_cell(table, 'l', "", INK_NONE, "known after the run: deflated");
    } else {
        table_cell(table, 'l', "", after < before ? INK_GOOD : INK_NONE,
                   before > 0 && after == 0 ? "left out" : fmt_change(CELL, out, before, after));
    }
    table_cell(table, 'l', "", INK_NONE, note);
    table_end_row(table);
}

/* Pruned weights are in the output, and the file is not smaller than its tensors: nothing compresses the zeros. */
static bool zeros_stored(const struct vc_report *report)
{
    return report->pruning != NULL && report->totals.file_after >= report->totals.host_after;
}

/* The line of one output; which one is said where there are several. The size of a deflated file is known after the run
 * only, so a dry run has "?" there. */
static void add_file(struct table *table, const struct out *out, const struct vc_report *report, size_t index)
{
    const struct vc_report_output *output = &report->outputs[index];
    const char *name = "";

    if (report->n_outputs > 1) {
        name = output->path;
    } else if (zeros_stored(report) && strcmp(output->format, "npz") == 0) {
        name = "zeros are stored at full size; --deflate makes them small";
    } else if (zeros_stored(report)) {
        name = "zeros are stored at full size in this format";
    }
    add_total(table, out, index == 0 ? "file" : "", report->totals.file_before,
              output->file_bytes != 0 ? output->file_bytes : UNKNOWN, name);
}

/* Sizes before and after, in three places:
 *
 *     file        bytes on disk
 *     host        bytes of the tensors in memory, as stored
 *     device      the same on a device: with kernels for codes, and with a loader that decodes, where these differ;
 *                 with 2:4 kernels where layers qualify
 *
 * Parts of the host's bytes follow: the optimizer's state, and other tensors of a checkpoint. */
static bool print_totals(const struct out *out, const struct vc_report *report)
{
    const struct vc_report_totals *totals = &report->totals;
    const struct vc_report_pruning *pruning = report->pruning;
    struct table table = {.failed = false};
    char note[CELL_BYTES * 2];

    for (size_t i = 0; i < report->n_outputs; i++) {
        add_file(&table, out, report, i);
    }
    snprintf(note, sizeof(note), "%.2f bits/weight%s%s", totals->bits_per_weight, totals->measured ? ", SQNR " : "",
             totals->measured ? fmt_db(CELL, totals->sqnr_db) : "");
    add_total(&table, out, "host", totals->host_before, totals->host_after, totals->n_params > 0 ? note : "");
    if (totals->device_native == totals->device_dequantized) {
        add_total(&table, out, "device", totals->host_before, totals->device_native,
                  pruning != NULL ? "with dense kernels: zeros save nothing" : "");
    } else {
        add_total(&table, out, "device", totals->host_before, totals->device_native,
                  "with kernels that compute on the codes");
        add_total(&table, out, "", totals->host_before, totals->device_dequantized, "with a loader that dequantizes");
    }
    if (pruning != NULL && pruning->n_sparse_2_4 > 0) {
        snprintf(note, sizeof(note), "with kernels for 2:4 sparsity (TensorRT, cuSPARSELt): %s layer%s qualif%s",
                 fmt_count(CELL, pruning->n_sparse_2_4), plural(pruning->n_sparse_2_4),
                 pruning->n_sparse_2_4 == 1 ? "ies" : "y");
        add_total(&table, out, "", totals->host_before, pruning->device_sparse_2_4, note);
    }
    if (totals->optimizer_before > 0) {
        add_total(&table, out, "optimizer", totals->optimizer_before, totals->optimizer_after,
                  totals->optimizer_after > 0 ? "part of host; --drop optimizer omits this part" : "");
    }
    if (totals->other_before > 0) {
        add_total(&table, out, "other", totals->other_before, totals->other_after,
                  totals->other_after > 0 ? "part of host; --drop other omits this part" : "");
    }
    fputc('\n', out->to);
    return table_print(&table, out, false);
}

/* How many zeros there are, and what their places and the other values take at least when nothing but zeros is
 * compressed. The entropy is a lower bound for any coding of the mask: -p log2 p - (1 - p) log2 (1 - p) bits for each
 * weight, p the share of zeros. Nothing without a pruning pass, or before it has run. */
static void print_zeros(const struct out *out, const struct vc_report *report)
{
    const struct vc_report_pruning *pruning = report->pruning;

    if (pruning == NULL || !pruning->measured) {
        return;
    }
    say(out->to, "  zeros: %s of %s pruned weights (%.2f %%; %s before), %.2f %% of all weights\n",
        fmt_count(CELL, pruning->zeros_after), fmt_count(CELL, pruning->n_weights), 100.0 * pruning->sparsity,
        fmt_count(CELL, pruning->zeros_before), 100.0 * pruning->model_sparsity);
    say(out->to, "  mask and values: %s: the entropy of the mask, all bits of the other values%s\n",
        fmt_size(CELL, out, pruning->mask_and_values),
        zeros_stored(report) && strcmp(report->output_format, "npz") == 0 ? "; with --deflate somewhat more" : "");
    if (pruning->n_pattern != 0) {
        say(out->to, "  pattern: %u:%u in all %s groups of %s tensor%s, checked in the masks that were applied\n",
            pruning->pattern_keep, pruning->pattern_group, fmt_count(CELL, pruning->n_groups),
            fmt_count(CELL, pruning->n_pattern), plural(pruning->n_pattern));
    }
    if (pruning->masks != NULL) {
        say(out->to, "  masks: %s for %s of weights, 1 : %.1f\n", fmt_size(CELL, out, pruning->mask_bytes),
            fmt_size(CELL, out, pruning->pruned_bytes), (double)pruning->pruned_bytes / (double)pruning->mask_bytes);
    }
}

/* "8, 9, 11 to 14": runs of three and more as ranges. Two numbers in a row stay two numbers. */
static void print_numbers(const struct out *out, const uint64_t *numbers, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;

        while (end < n && numbers[end] == numbers[end - 1] + 1) {
            end++;
        }
        end = end - i < 3 ? i + 1 : end;
        fprintf(out->to, "%s%llu", i == 0 ? "" : ", ", (unsigned long long)numbers[i]);
        if (end > i + 1) {
            fprintf(out->to, " to %llu", (unsigned long long)numbers[end - 1]);
        }
        i = end;
    }
}

/* "  layers: model.layers 32 -> 28, without 21 to 24; parameters 6,738,415,616 -> 5,928,900,608" */
static void print_layers(const struct out *out, const struct vc_report *report)
{
    const struct vc_report_layers *layers = report->layers;

    if (layers == NULL) {
        return;
    }
    say(out->to, "  layers: %s %s %s %s, without ", layers->list, fmt_count(CELL, layers->before), out_arrow(out),
        fmt_count(CELL, layers->after));
    print_numbers(out, layers->left_out, layers->n_left_out);
    say(out->to, "; parameters %s %s %s\n", fmt_count(CELL, report->totals.n_params), out_arrow(out),
        fmt_count(CELL, report->n_params_after));
}

/* What the tables do not say: layers left out, the share of scales, the worst tensor, values that were replaced or cut
 * off. */
static void print_facts(const struct out *out, const struct vc_report *report)
{
    const struct vc_report_totals *totals = &report->totals;
    uint64_t nonfinite = 0;
    uint64_t clipped = 0;

    for (size_t i = 0; totals->measured && i < report->n_rows; i++) {
        const struct vc_report_row row = row_at(report, i);

        nonfinite += row.measured ? row.nonfinite : 0;
        clipped += row.measured ? row.clipped : 0;
    }
    print_layers(out, report);
    if (totals->scale_bytes > 0) {
        fprintf(out->to, "  scales are %s of the output\n",
                fmt_percent(CELL, (double)totals->scale_bytes, (double)totals->host_after));
    }
    if (totals->measured && totals->worst < report->n_rows) {
        const struct vc_report_row row = row_at(report, totals->worst);

        say(out->to, "  worst tensor %s: %s, max error %s\n", row.name, fmt_db(CELL, row.sqnr_db),
            fmt_real(CELL, row.max_abs_error));
    }
    if (nonfinite > 0) {
        fputs("  ", out->to);
        out_inked(out, INK_WARN, fmt_text(CELL, "replaced %s NaN or Inf", fmt_count(CELL, nonfinite)));
        fputc('\n', out->to);
    }
    if (clipped > 0) {
        fputs("  ", out->to);
        out_inked(
            out, INK_WARN,
            fmt_text(CELL, "%s value%s beyond the range of the target", fmt_count(CELL, clipped), plural(clipped)));
        fputc('\n', out->to);
    }
}

/* How quantized weights lie in the outputs, and what loads them; outputs that are alike are said once. Alike: the same
 * layout and the same loader. */
static void print_layouts(const struct out *out, const struct vc_report *report)
{
    for (size_t i = 0; report->layouts != NULL && i < report->n_outputs; i++) {
        const struct vc_layout *layout = report->layouts[i];
        bool said = layout == NULL;

        for (size_t k = 0; !said && k < i; k++) {
            said = report->layouts[k] != NULL && strcmp(report->layouts[k]->name, layout->name) == 0 &&
                   strcmp(report->layouts[k]->loader, layout->loader) == 0;
        }
        if (!said) {
            print_layout(out, layout);
        }
    }
}

/* In the order of the report: of the input, the passes, the outputs. */
static void print_notes(const struct out *out, const struct vc_report *report)
{
    for (size_t i = 0; i < report->n_notes; i++) {
        out_inked(out, INK_WARN, "note: ");
        say(out->to, "%s\n", report->notes[i].text);
    }
}

/* ---- last line ---- */

/* "nothing" for an output without a path: a call that takes the bytes itself. */
static void print_path(const struct out *out, const char *path)
{
    print_clean(out->to, path[0] == '\0' ? "nothing" : strcmp(path, "-") == 0 ? "standard output" : path);
}

#define WORTH_A_LINE 0.1 /* seconds that a run is expected to take, for a dry run to speak of devices */

/* "device auto: cpu (avx512), expected 0.21 s; with a card 0.43 s": of a dry run that takes a moment, of a run with a card, and
 * with --verbose. */
static void print_choice(const struct app *app, const struct vc_report *report)
{
    const struct out *out = &app->out;
    bool by_card = report->device_reason[0] == '\0';

    if (report->expected_cpu_seconds <= 0 ||
        !(by_card || app->common.verbose || (report->dry_run && report->expected_cpu_seconds >= WORTH_A_LINE))) {
        return;
    }
    double here = by_card ? report->expected_card_seconds : report->expected_cpu_seconds;
    bool dearer = report->expected_card_seconds < report->expected_cpu_seconds && !by_card;
    double there = by_card ? report->expected_cpu_seconds : report->expected_card_seconds;
    say(out->to, "device auto: %s, expected %.2f s; %s %.2f s", report->device, here,
        by_card ? "without it" : "with a card", there);
    if (dearer) {
        say(out->to, ", but %s", report->device_reason);
    }
    fputc('\n', out->to);
}

/* The last line: what was written, or would be, or why nothing was. */
static void print_outcome(struct app *app, const struct vc_report *report)
{
    const struct out *out = &app->out;

    if (report->gate_missed != NULL && report->gate_missed[0] != '\0') {
        out_inked(out, INK_BAD, "wrote nothing:");
        say(out->to, " %s\n", report->gate_missed);
        return;
    }
    print_choice(app, report);
    fputs(report->dry_run ? "would write " : "wrote ", out->to);
    for (size_t i = 0; i < report->n_outputs; i++) {
        fputs(i == 0 ? "" : i + 1 < report->n_outputs ? ", " : " and ", out->to);
        print_path(out, report->outputs[i].path);
    }
    if (!report->dry_run && report->device != NULL && report->device[0] != '\0') {
        say(out->to, " in %.2f s: %s, %u thread%s", report->seconds, report->device, report->threads,
            plural(report->threads));
        if (report->peak_rss_bytes > 0) {
            say(out->to, ", peak %s", fmt_size(CELL, out, report->peak_rss_bytes));
        }
    }
    fputc('\n', out->to);
}

/* --digest: lines that `sha256sum --check` takes, two blanks between digest and path. */
void print_digests(const struct out *out, const struct vc_report *report)
{
    for (size_t i = 0; i < report->n_files; i++) {
        say(out->to, "%s  %s\n", report->files[i].sha256, report->files[i].path);
    }
}

/* What passes trained. The teacher is a network, or the first file of answers; NULL where labels alone taught. False:
 * no memory. */
static bool print_distillations(struct app *app, const struct vc_report *report)
{
    bool printed = true;

    for (size_t i = 0; printed && i < report->n_distillations; i++) {
        const struct vc_distillation *d = report->distillations[i];
        const struct vc_distill_options *o = d->options;
        const struct vc_model *teacher = o->teacher.weights != NULL ? o->teacher.weights
                                         : o->n_logits != 0         ? o->logits[0]
                                                                    : NULL;

        fputc('\n', app->out.to);
        printed = print_distillation(app, o, teacher != NULL ? vc_model_facts(teacher)->path : NULL,
                                     vc_model_facts(o->student.weights)->path, d);
    }
    return printed;
}

bool print_report(struct app *app, const struct vc_report *report)
{
    print_input(&app->out, report);
    if (!print_changed(app, report) || !print_why(app, report, true) || !print_why(app, report, false) ||
        !print_removal(app, report) || !print_distillations(app, report) || !print_totals(&app->out, report)) {
        return false;
    }
    print_targets(app, report);
    print_zeros(&app->out, report);
    print_facts(&app->out, report);
    print_layouts(&app->out, report);
    print_notes(&app->out, report);
    print_outcome(app, report);
    print_digests(&app->out, report);
    return true;
}
