/* print_inspect.c - the report of vcompress inspect as tables.
 *
 *     net.npz: npz, 12 tensors, 301,066 parameters, 1.15 MiB (stored)    print_head
 *     what the file says about itself                                    print_facts
 *     part, what it is, role: a training checkpoint                      print_parts
 *     type, tensors, elements, size, share                               print_census
 *     tensor, shape, type, size or the statistics of --stats             print_tensors
 *     tied tensors, quantized tensors, layout, estimates                 print_tied and others
 *
 * print_calibrated, at the end, is the table of another command that looks at values, calibrate. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/possible.h"
#include "tools/show/group.h"
#include "tools/show/print_inspect.h"

#define MAX_LINES  40 /* of a table without -v */
#define BAR_CELLS  12 /* powers of two in the bar of magnitudes */
#define BAR_LEVELS 8

/* A line of the list: one tensor, or all that differ in their number alone. */
struct line {
    size_t index; /* the first tensor */
    size_t n_tensors;
    uint64_t bytes;             /* of all its tensors */
    struct vc_value_stats *own; /* of several tensors, summed up; NULL: of one, or without --stats */
    bool nonfinite;             /* there are NaN or Inf */
    double sum, sum2;           /* over the finite values, for mean and rms */
    bool shown;                 /* without -v only some lines are */
};

/* "int8/group:128/asym" for a quantized tensor, into a buffer of CELL_BYTES. */
static char *fmt_scheme(char *buf, const struct vc_quant *quant)
{
    const char *end = quant->symmetric ? "" : "/asym";
    const char *name = vc_name_at(VC_NAMES_SCHEMES, quant->scheme);

    switch (quant->granularity) {
    case VC_GRANULARITY_TENSOR:
        snprintf(buf, CELL_BYTES, "%s/tensor%s", name, end);
        break;
    case VC_GRANULARITY_CHANNEL:
        snprintf(buf, CELL_BYTES, "%s/channel%s", name, end);
        break;
    case VC_GRANULARITY_GROUP:
        snprintf(buf, CELL_BYTES, "%s/group:%llu%s", name, (unsigned long long)quant->group_size, end);
        break;
    case VC_GRANULARITY_BLOCK:
        snprintf(buf, CELL_BYTES, "%s/block:%llux%llu%s", name, (unsigned long long)quant->group_rows,
                 (unsigned long long)quant->group_size, end);
        break;
    }
    return buf;
}

/* ---- first line and census ---- */

/* "net.npz: npz, 12 tensors, 301,066 parameters, 1.15 MiB (stored)". Tensors without scales and zero points; parameters
 * are the elements of weights, those with two names once. */
static void print_head(const struct out *out, const struct vc_inspection *in)
{
    const struct vc_model_info *facts = vc_model_facts(in->model);

    out_inked(out, INK_BOLD, facts->path);
    /* the format and how values lie in it */
    say(out->to, ": %s, %s tensor%s, %s parameter%s, %s (%s)\n", facts->format, fmt_count(CELL, in->n_own),
        plural(in->n_own), fmt_count(CELL, in->n_params), plural(in->n_params), fmt_size(CELL, out, facts->file_bytes),
        in->compressed ? "deflated" : "stored");
}

/* What the file says about itself: "architecture: llama". */
static void print_facts(const struct out *out, const struct vc_inspection *in)
{
    const struct vc_fact *fact;

    for (size_t i = 0; i < vc_model_facts(in->model)->n_facts; i++) {
        fact = &vc_model_facts(in->model)->facts[i];
        fprintf(out->to, "  %s%s:%s ", out_ink(out, INK_DIM), fact->key, out_ink(out, INK_NONE));
        say(out->to, "%s\n", fact->value);
    }
}

/* What --drop can leave out, by the number of a role. */
static const char *const role_names[] = {
    [VC_ROLE_WEIGHT] = "weights", [VC_ROLE_OPTIMIZER] = "optimizer", [VC_ROLE_OTHER] = "other"};

#define MAX_PARTS 20 /* without -v */

/* What a training checkpoint holds beside its weights: the optimizer's state, counters. Nothing is printed for a file
 * that holds weights alone. chosen: the part whose tensors are read as the weights (--key chooses another). False: no
 * memory. */
static bool print_parts(const struct app *app, const struct vc_inspection *in)
{
    size_t n = vc_model_facts(in->model)->n_parts;
    struct table table = {.failed = false};

    if (n < 2) {
        return true;
    }
    for (size_t i = 0; i < n && (app->common.verbose > 0 || i < MAX_PARTS); i++) {
        const struct vc_part *part = &vc_model_facts(in->model)->parts[i];
        bool filled = part->n_tensors > 0;
        bool baggage = part->role != VC_ROLE_WEIGHT && filled;
        const char *drop =
            part->role == VC_ROLE_OPTIMIZER ? "--drop optimizer omits this part" : "--drop other omits this part";

        table_cell(&table, 'l', "part", INK_NONE, part->name[0] != '\0' ? part->name : "(top)");
        table_cell(&table, 'l', "what it is", INK_NONE, part->what);
        table_cell(&table, 'l', "role", INK_NONE, part->chosen || baggage ? role_names[part->role] : "");
        table_cell(&table, 'r', "tensors", INK_NONE, filled ? fmt_count(CELL, part->n_tensors) : "");
        table_cell(&table, 'r', "size", INK_NONE, filled ? fmt_size(CELL, &app->out, part->size_bytes) : "");
        table_cell(&table, 'l', "", INK_DIM, baggage && !part->chosen ? drop : part->chosen ? "chosen" : "");
        table_end_row(&table);
    }
    fputc('\n', app->out.to);
    if (!table_print(&table, &app->out, false)) {
        return false;
    }
    if (app->common.verbose == 0 && n > MAX_PARTS) {
        fprintf(app->out.to, "  and %zu more (-v lists them)\n", n - MAX_PARTS);
    }
    return true;
}

#define MAX_TIED 10 /* without -v */

/* "tied: lm_head.weight is model.embed_tokens.weight, counted once" */
static void print_tied(const struct app *app, const struct vc_inspection *in)
{
    const struct out *out = &app->out;
    size_t n = 0;

    fputs(in->n_tied > 0 ? "\n" : "", out->to);
    for (size_t i = 0; i < in->n_tensors && n < in->n_tied; i++) {
        const struct vc_tensor *tensor = vc_model_tensor(in->model, i);

        if (tensor->alias_of == VC_NO_TENSOR || (n++ >= MAX_TIED && app->common.verbose == 0)) {
            continue;
        }
        say(out->to, "  tied: %s is %s, counted once\n", tensor->name,
            vc_model_tensor(in->model, tensor->alias_of)->name);
    }
    if (app->common.verbose == 0 && in->n_tied > MAX_TIED) {
        fprintf(out->to, "  and %zu more tied tensors (-v lists them)\n", in->n_tied - MAX_TIED);
    }
}

/* A row for every type: how many tensors, elements and bytes, and its share of all bytes. False: no memory. */
static bool print_census(const struct out *out, const struct vc_inspection *in)
{
    struct table table = {.failed = false};

    if (in->n_tensors == 0) {
        return true;
    }
    for (size_t i = 0; i < in->n_dtypes; i++) {
        const struct vc_inspect_dtype *of_type = &in->dtypes[i];

        table_cell(&table, 'l', "type", INK_NONE, vc_dtype_name(of_type->dtype));
        table_cell(&table, 'r', "tensors", INK_NONE, fmt_count(CELL, of_type->n_tensors));
        table_cell(&table, 'r', "elements", INK_NONE, fmt_count(CELL, of_type->n_elems));
        table_cell(&table, 'r', "size", INK_NONE, fmt_size(CELL, out, of_type->size_bytes));
        table_cell(&table, 'r', "share", INK_NONE,
                   fmt_percent(CELL, (double)of_type->size_bytes, (double)in->value_bytes));
        table_end_row(&table);
    }
    fputc('\n', out->to);
    return table_print(&table, out, false);
}

/* "quantize --int8 would make it 305 KiB (3.86x smaller), --fp16 612 KiB (1.92x smaller)". 0 bytes: the command would
 * refuse this file. */
static void print_estimates(const struct out *out, const struct vc_inspection *in)
{
    uint64_t before = vc_model_facts(in->model)->file_bytes;

    if (in->fp16_bytes == 0) {
        return;
    }
    fputs("\n  quantize", out->to);
    if (in->int8_bytes != 0) { /* 0: it would be refused */
        fprintf(out->to, " --int8 would make it %s (%s),", fmt_size(CELL, out, in->int8_bytes),
                fmt_change(CELL, out, before, in->int8_bytes));
    }
    fprintf(out->to, " --fp16 %s%s (%s)\n", in->int8_bytes == 0 ? "would make it " : "",
            fmt_size(CELL, out, in->fp16_bytes), fmt_change(CELL, out, before, in->fp16_bytes));
}

/* ---- the bar: how the magnitudes are spread over the powers of two ---- */

/* One cell per power of two, the largest magnitudes at the right; heights are relative to the fullest cell.
 * conv3.weight of examples/digits: ▁▁▁▁▂▂▃▅█▇▂▁     ....::-+@#:.   where the locale has no UTF-8. Bin 0 has zeros and
 * subnormals and is never drawn. level is 0 for an empty bin and at least 1 for any other, so that outliers are seen:
 *
 *     level = 1 + round(7 n / fullest) */
static char *fmt_bar(char *buf, const struct out *out, const uint64_t *histogram)
{
    static const char *const blocks[] = {" ",
                                         "\xe2\x96\x81",
                                         "\xe2\x96\x82",
                                         "\xe2\x96\x83",
                                         "\xe2\x96\x84",
                                         "\xe2\x96\x85",
                                         "\xe2\x96\x86",
                                         "\xe2\x96\x87",
                                         "\xe2\x96\x88"};
    static const char *const letters[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
    size_t top = VC_HISTOGRAM_BINS - 1;
    uint64_t most = 0;
    char *end = buf;

    while (top > 0 && histogram[top] == 0) { /* bin 0: zeros and subnormals */
        top--;
    }
    for (size_t i = top < BAR_CELLS ? 1 : top - BAR_CELLS + 1; i <= top; i++) {
        most = histogram[i] > most ? histogram[i] : most;
    }
    for (size_t cell = 0; top != 0 && cell < BAR_CELLS; cell++) {
        size_t bin = top + cell + 1 > BAR_CELLS ? top + cell + 1 - BAR_CELLS : 0;
        uint64_t n = bin > 0 ? histogram[bin] : 0;
        size_t level = n == 0 ? 0 : 1 + (size_t)((double)n / (double)most * (BAR_LEVELS - 1) + 0.5);

        end = stpcpy(end, out->utf8 ? blocks[level] : letters[level]);
    }
    *end = '\0';
    return buf;
}

/* ---- the list ---- */

/* Only these have a minimum, a maximum and moments. */
static uint64_t count_finite(const struct vc_value_stats *stats)
{
    return stats->n_elems - stats->nans - stats->infs;
}

/* Adds the statistics of a tensor to those of its line. The sums for mean and rms are in the line itself (add_sums): a
 * mean of means would be wrong for tensors of different sizes. */
static void merge(struct vc_value_stats *sum, const struct vc_value_stats *stats)
{
    if (count_finite(stats) > 0) {
        bool first = count_finite(sum) == 0;

        sum->min = first || stats->min < sum->min ? stats->min : sum->min;
        sum->max = first || stats->max > sum->max ? stats->max : sum->max;
    }
    sum->valid = true;
    sum->n_elems += stats->n_elems;
    sum->nans += stats->nans;
    sum->infs += stats->infs;
    sum->zeros += stats->zeros;
    for (size_t i = 0; i < VC_HISTOGRAM_BINS; i++) {
        sum->histogram[i] += stats->histogram[i];
    }
}

/* mean and rms are turned back into sums, sum = mean n and sum2 = rms^2 n, over the n finite values. */
static void add_sums(struct line *line, const struct vc_value_stats *stats)
{
    double n = (double)count_finite(stats);

    line->sum += n > 0 ? stats->mean * n : 0;
    line->sum2 += n > 0 ? stats->rms * stats->rms * n : 0;
    line->nonfinite = line->nonfinite || stats->nans + stats->infs > 0;
}

/* Adds the statistics of one more tensor to its line. Those of the first are asked for again, and a copy to sum up in
 * is made with the second, because statistics are large (a histogram each) and most lines may have no second. False:
 * no memory. */
static bool add_stats(struct line *line, const struct vc_inspection *in, size_t tensor)
{
    struct vc_value_stats stats;

    if (!vc_inspect_get_stats(in, tensor, &stats)) {
        return true; /* without --stats */
    }
    add_sums(line, &stats);
    if (line->n_tensors == 1) {
        return true;
    }
    if (line->own == NULL) {
        line->own = malloc(sizeof(*line->own));
        if (line->own == NULL) {
            return false;
        }
        (void)vc_inspect_get_stats(in, line->index, line->own);
    }
    if (stats.valid) {
        merge(line->own, &stats);
    }
    return true;
}

/* Which columns the table has. */
struct view {
    const struct out *out;
    bool stats, verbose;
    bool nonfinite; /* there are NaN or Inf somewhere */
};

/* The columns of --stats: min, max, (mean,) rms, zeros, (NaN, Inf,) the bar. s->valid is false for tensors whose values
 * are not numbers; their cells are empty. "-" stands where no value is finite. */
static void add_value_cells(struct table *table, const struct view *view, const struct line *line,
                            const struct vc_value_stats *s)
{
    uint64_t n_finite = count_finite(s);
    double n = (double)n_finite;
    const double figures[4] = {s->min, s->max, line->sum / n, sqrt(line->sum2 / n)};
    static const char *const titles[4] = {"min", "max", "mean", "rms"};

    for (size_t i = 0; i < 4; i++) {
        if (i != 2 || view->verbose) { /* the mean of weights is next to nothing */
            table_cell(table, 'r', titles[i], INK_NONE,
                       !s->valid       ? ""
                       : n_finite == 0 ? "-"
                                       : fmt_real(CELL, figures[i]));
        }
    }
    table_cell(table, 'r', "zeros", INK_NONE, s->valid ? fmt_percent(CELL, (double)s->zeros, (double)s->n_elems) : "");
    if (view->nonfinite) {
        table_cell(table, 'r', "NaN", s->nans != 0 ? INK_BAD : INK_NONE, s->valid ? fmt_count(CELL, s->nans) : "");
        table_cell(table, 'r', "Inf", s->infs != 0 ? INK_BAD : INK_NONE, s->valid ? fmt_count(CELL, s->infs) : "");
    }
    table_cell(table, 'l', "magnitudes", INK_NONE, s->valid ? fmt_bar(CELL, view->out, s->histogram) : "");
}

/* Of bytes that are no array of numbers what they are. */
static const char *type_name(const struct vc_tensor *tensor)
{
    return tensor->dtype == VC_DTYPE_RAW && tensor->kept_as != NULL ? tensor->kept_as : vc_dtype_name(tensor->dtype);
}

/* stats: of the line; not looked at without --stats. Which columns there are depends on what was read. */
static void add_line(struct table *table, const struct view *view, const struct vc_inspection *in,
                     const struct line *line, const struct vc_value_stats *stats, const char *label)
{
    const struct vc_tensor *tensor = vc_model_tensor(in->model, line->index);
    const struct vc_quant *quant = tensor->quant;
    char type[CELL_BYTES * 2];

    table_cell(table, 'l', "tensor", INK_NONE, label);
    if (!view->stats || view->verbose) {
        if (quant != NULL) {
            snprintf(type, sizeof(type), "%s of %s", fmt_scheme(CELL, quant), vc_dtype_name(quant->source_dtype));
        }
        table_cell(table, 'l', "shape", INK_NONE, fmt_shape(CELL, view->out, tensor->n_dims, tensor->shape));
        table_cell(table, 'l', "type", INK_NONE, quant != NULL ? type : type_name(tensor));
    }
    if (!view->stats) {
        table_cell(table, 'r', "size", INK_NONE, fmt_size(CELL, view->out, line->bytes));
        table_cell(table, 'r', "share", INK_NONE, fmt_percent(CELL, (double)line->bytes, (double)in->value_bytes));
    } else {
        add_value_cells(table, view, line, stats);
    }
    table_end_row(table);
}

/* Larger lines first, equal ones in the order of the file. */
static int by_size(const void *a, const void *b)
{
    const struct line *x = *(const struct line *const *)a;
    const struct line *y = *(const struct line *const *)b;

    if (x->bytes != y->bytes) {
        return x->bytes < y->bytes ? 1 : -1;
    }
    return x < y ? -1 : x > y;
}

/* Marks the lines to show: the MAX_LINES - 1 largest and those that hold NaN or Inf. Returns how many
 * tensors are left out. */
static size_t choose_lines(struct line *lines, size_t n, const struct line **order)
{
    size_t hidden = 0;

    for (size_t i = 0; i < n; i++) {
        order[i] = &lines[i];
        lines[i].shown = n <= MAX_LINES || lines[i].nonfinite;
    }
    if (n > MAX_LINES) {
        qsort(order, n, sizeof(*order), by_size);
        for (size_t i = 0; i < MAX_LINES - 1; i++) {
            lines[order[i] - lines].shown = true;
        }
    }
    for (size_t i = 0; i < n; i++) {
        hidden += lines[i].shown ? 0 : lines[i].n_tensors;
    }
    return hidden;
}

/* What the last column shows. */
static void print_legend(const struct view *view)
{
    if (view->stats) {
        fprintf(view->out->to, "  %smagnitudes: one cell per power of two, the largest at the right\n",
                view->nonfinite ? "" : "no NaN, no Inf; ");
    }
}

/* Without -v: groups of tensors. Statistics of the first tensor are asked for again where the line has only one
 * (add_stats). False: no memory. A table of groups. hidden: tensors in lines that are not shown. */
static bool print_lines(struct app *app, const struct vc_inspection *in, const struct groups *groups,
                        struct line *lines)
{
    const struct out *out = &app->out;
    struct view view = {.out = out, .stats = in->has_stats};
    const struct line **order = malloc((groups->n + 1) * sizeof(*order));
    struct table table = {.failed = false};

    if (order == NULL) {
        return false;
    }
    size_t hidden = choose_lines(lines, groups->n, order);
    free(order);
    for (size_t i = 0; i < groups->n; i++) {
        view.nonfinite = view.nonfinite || lines[i].nonfinite;
    }
    for (size_t i = 0; i < groups->n; i++) {
        struct vc_value_stats first;

        if (!lines[i].shown) {
            continue;
        }
        (void)vc_inspect_get_stats(in, lines[i].index, &first);
        char *label = group_label(&groups->list[i], out_times(out));
        add_line(&table, &view, in, &lines[i], lines[i].own != NULL ? lines[i].own : &first,
                 label != NULL ? label : "?");
        free(label);
    }
    fputc('\n', out->to);
    bool ok = table_print(&table, out, true);
    if (hidden > 0) {
        fprintf(out->to, "  and %zu more, smaller (-v lists them)\n", hidden);
    }
    print_legend(&view);
    return ok;
}

/* -v: a line for each tensor. There may be a million, so nothing is kept of them. Called twice with the same rows: to
 * measure the columns, and to print them (table_measure, table_again). */
static void add_every(struct table *table, const struct view *view, const struct vc_inspection *in)
{
    for (size_t i = 0; i < in->n_tensors; i++) {
        struct line line = {.index = i, .n_tensors = 1, .bytes = vc_model_tensor(in->model, i)->size_bytes};
        struct vc_value_stats stats;

        if (vc_inspect_get_stats(in, i, &stats)) {
            add_sums(&line, &stats);
        }
        add_line(table, view, in, &line, &stats, vc_model_tensor(in->model, i)->name);
    }
}

/* False: no memory. Whether there is a column for NaN and Inf has to be known before the first row. */
static bool print_every(const struct out *out, const struct vc_inspection *in)
{
    struct view view = {.out = out, .stats = in->has_stats, .verbose = true};
    struct vc_value_stats stats;
    struct table table = {.failed = false};

    for (size_t i = 0; i < in->n_tensors && view.stats && !view.nonfinite; i++) {
        view.nonfinite = vc_inspect_get_stats(in, i, &stats) && stats.nans + stats.infs > 0;
    }
    table_measure(&table);
    add_every(&table, &view, in);
    fputc('\n', out->to);
    table_again(&table, out);
    add_every(&table, &view, in);
    bool ok = table_print(&table, out, false);
    print_legend(&view);
    return ok;
}

/* What tensors must have in common, besides the pattern of their names, to share a line. */
static void kind_of(const struct vc_tensor *tensor, struct group_kind *kind)
{
    char scheme[CELL_BYTES];

    group_kind_begin(kind);
    group_kind_number(kind, (uint64_t)tensor->dtype);
    group_kind_text(kind, tensor->quant != NULL ? fmt_scheme(scheme, tensor->quant) : "");
    group_kind_text(kind, type_name(tensor));
    for (unsigned d = 0; d < tensor->n_dims; d++) {
        group_kind_number(kind, tensor->shape[d]);
    }
}

/* The list without -v. Scales and zero points are not listed, they go with their tensor; nor are tied tensors, which
 * print_tied names. False: no memory. */
static bool print_groups(struct app *app, const struct vc_inspection *in)
{
    struct line *lines = calloc(in->n_tensors + 1, sizeof(*lines));
    struct groups groups;
    bool ok = lines != NULL;

    groups_init(&groups);
    for (size_t i = 0; ok && i < in->n_tensors; i++) {
        const struct vc_tensor *tensor = vc_model_tensor(in->model, i);
        struct group_kind kind;

        if ((tensor->part_of != VC_NO_TENSOR || tensor->alias_of != VC_NO_TENSOR ||
             (tensor->role != VC_ROLE_WEIGHT && vc_model_facts(in->model)->n_parts > 0))) {
            continue; /* -v lists them, and the table of parts has what is beside the weights */
        }
        kind_of(tensor, &kind);
        size_t g = groups_add(&groups, i, tensor->name, &kind, false);
        ok = g != NO_GROUP;
        if (ok) {
            lines[g].index = groups.list[g].first;
            lines[g].n_tensors++;
            lines[g].bytes += tensor->size_bytes;
            ok = add_stats(&lines[g], in, i);
        }
    }
    if (ok && groups.n > 0) {
        ok = print_lines(app, in, &groups, lines);
    }
    for (size_t i = 0; i < groups.n; i++) {
        free(lines[i].own);
    }
    groups_release(&groups);
    free(lines);
    return ok;
}

/* With -v every tensor, also scales and tied ones. */
static bool print_tensors(struct app *app, const struct vc_inspection *in)
{
    if (app->common.verbose == 0) {
        return print_groups(app, in);
    }
    return in->n_tensors == 0 || print_every(&app->out, in);
}

/* Whether to propose `vcompress dequantize`: a dry run of it succeeds. There are codes that no program here can
 * decode. */
static bool decodes(const struct app *app)
{
    char *line = NULL;
    size_t n;
    FILE *to = open_memstream(&line, &n);
    bool ok = to != NULL;

    if (ok) {
        fprintf(to, "vcompress dequantize%s", app->subject[0] == '-' ? " --" : "");
        ok = print_shell_word(to, app->subject);
        ok = fclose(to) == 0 && ok && line_is_possible(app, line, 0);
    }
    free(line);
    return ok;
}

/* False: no memory. Parts that say nothing about this file print nothing. */
bool print_inspection(struct app *app, const struct vc_inspection *in)
{
    const struct out *out = &app->out;

    print_head(out, in);
    print_facts(out, in);
    if (!print_parts(app, in) || !print_census(out, in) || !print_tensors(app, in)) {
        return false;
    }
    print_tied(app, in);
    if (in->n_quantized > 0) {
        fprintf(out->to, "\n  %s of %zu tensors are quantized%s\n", fmt_count(CELL, in->n_quantized), in->n_own,
                decodes(app) ? "; vcompress dequantize decodes them" : "");
    }
    if (vc_model_layout(in->model) != NULL) {
        fputs(in->n_quantized > 0 ? "" : "\n", out->to);
        print_layout(out, vc_model_layout(in->model));
    }
    print_estimates(out, in);
    return true;
}

/* ---- statistics ---- */

/* A row for each layer: how many columns its inputs have, how many rows were seen, their range, and columns that were
 * always zero ("dead"). False: no memory. */
bool print_calibrated(struct app *app, const struct vc_calibration_report *r)
{
    static const char *const titles[] = {"smallest", "largest", "rms"};
    size_t n = app->common.verbose != 0 || r->n_layers <= MAX_LINES ? r->n_layers : MAX_LINES;
    struct table table = {.failed = false};

    for (size_t k = 0; k < n; k++) {
        const struct vc_calibrated_layer *layer = &r->layers[k];
        const double figures[] = {layer->min, layer->max, layer->rms};

        table_cell(&table, 'l', "tensor", INK_NONE, layer->tensor);
        table_cell(&table, 'r', "columns", INK_NONE, fmt_count(CELL, layer->n_columns));
        table_cell(&table, 'r', "inputs", INK_NONE, fmt_count(CELL, layer->n_vectors));
        for (size_t i = 0; i < 3; i++) {
            table_cell(&table, 'r', titles[i], INK_NONE, isnan(figures[i]) ? "-" : fmt_text(CELL, "%.4g", figures[i]));
        }
        table_cell(&table, 'r', "dead", layer->n_dead != 0 ? INK_WARN : INK_DIM, fmt_count(CELL, layer->n_dead));
        table_end_row(&table);
    }
    if (!table_print(&table, &app->out, app->out.limited)) {
        return false;
    }
    if (n < r->n_layers) {
        fprintf(app->out.to, "  %zu more: -v\n", r->n_layers - n);
    }
    return true;
}
