/* print_removal.c - the part of a report about groups of rows and columns that were removed together: how many units
 * each had and has, the scores that decided, and with -v or --dry-run which tensors are coupled and which units go.
 *
 * Groups of layers that differ only in their number share a line, with the extremes of their scores.
 *
 *     group                      units        removed           kept
 *     fc1.weight:0      neurons  128 -> 90    0.12 to 0.55      0.55 to 2.31       a score per unit decided
 *     layers.*.mlp x12  neurons  ...          given                                --remove listed them */
#include <stdlib.h>
#include <string.h>

#include "tools/show/group.h"
#include "tools/show/print_report.h"

/* One line: groups that are alike. */
struct removal_line {
    size_t first;               /* the first of them */
    struct vc_report_group sum; /* its figures, with the extremes of the scores of all */
};

/* Units of the group go; else `reason` says why all stay. */
static bool is_cut(const struct vc_report_group *group)
{
    return group->reason[0] == '\0';
}

/* The counts of units are equal in all groups of a line (their kind says so), so only scores are compared. */
static void add_to(struct removal_line *line, size_t index, const struct vc_report_group *group)
{
    struct vc_report_group *sum = &line->sum;

    /* the first group of the line gives all that is not a score */
    if (sum->name == NULL) {
        line->first = index;
        *sum = *group;
        return;
    }
    sum->removed_min = group->removed_min < sum->removed_min ? group->removed_min : sum->removed_min;
    sum->removed_max = group->removed_max > sum->removed_max ? group->removed_max : sum->removed_max;
    sum->kept_min = group->kept_min < sum->kept_min ? group->kept_min : sum->kept_min;
    sum->kept_max = group->kept_max > sum->kept_max ? group->kept_max : sum->kept_max;
}

/* "0.12 to 0.55" */
static char *fmt_range(char *buf, double least, double most)
{
    (void)snprintf(buf, CELL_BYTES, "%.24s to %.24s", fmt_real(CELL, least), fmt_real(CELL, most));
    return buf;
}

/* One row of the table. */
static void add_cut(struct table *table, const struct out *out, const struct vc_report_group *sum, const char *label)
{
    table_cell(table, 'l', "group", INK_NONE, label);
    table_cell(table, 'l', "units", INK_DIM, sum->kind);
    table_cell(table, 'r', "", INK_NONE, fmt_count(CELL, sum->n_before));
    table_cell(table, 'a', "", INK_DIM, out_arrow(out));
    table_cell(table, 'r', "", INK_GOOD, fmt_count(CELL, sum->n_after));
    table_cell(table, 'l', "removed", INK_NONE,
               sum->scored ? fmt_range(CELL, sum->removed_min, sum->removed_max) : "given");
    table_cell(table, 'l', "kept", INK_NONE, sum->scored ? fmt_range(CELL, sum->kept_min, sum->kept_max) : "");
    table_end_row(table);
}

/* "    go 3,7,12-20": runs as ranges, broken behind a comma where the line is full. */
static void print_list(const struct out *out, const char *word, size_t room, const struct vc_report_group *group)
{
    size_t used = strlen(word);

    fprintf(out->to, "%s", word);
    for (size_t i = 0; i < group->n_removed; i++) {
        size_t last = i;
        char text[2 * CELL_BYTES];

        while (last + 1 < group->n_removed && group->removed[last + 1] == group->removed[last] + 1) {
            last++;
        }
        int n = last == i ? snprintf(text, sizeof(text), "%llu", (unsigned long long)group->removed[i])
                          : snprintf(text, sizeof(text), "%llu-%llu", (unsigned long long)group->removed[i],
                                     (unsigned long long)group->removed[last]);
        if (i != 0 && used + (size_t)n + 1 > room) {
            fputs(",\n       ", out->to);
            used = 7;
        } else if (i != 0) {
            fputc(',', out->to);
            used++;
        }
        fputs(text, out->to);
        used += (size_t)n;
        i = last;
    }
    fputc('\n', out->to);
}

/* The members of a group, a line broken where it is full; with -v the units that go.
 *
 *     fc1.weight:0 = fc1.bias:0 = fc2.weight:1
 *     go 3,7,12-20 */
static void print_members(const struct out *out, const struct vc_report_group *group, bool units)
{
    size_t room = (size_t)out->width - 2;
    size_t used = 4;

    fprintf(out->to, "    %s", out_ink(out, INK_DIM));
    for (size_t i = 0; i < group->n_members; i++) {
        size_t n = text_width(group->members[i]);

        if (i != 0 && used + n + 3 > room) {
            fputs("\n      = ", out->to);
            used = 8;
        } else if (i != 0) {
            fputs(" = ", out->to);
            used += 3;
        }
        print_clean(out->to, group->members[i]);
        used += n;
    }
    fputc('\n', out->to);
    if (units && group->n_removed != 0) {
        print_list(out, "    go ", room, group);
    }
    fputs(out_ink(out, INK_NONE), out->to);
}

/* Groups that stay: a line for each reason and kind of units, with -v their members. False: no memory. */
static bool print_kept(const struct out *out, const struct vc_report_removal *removal, bool each)
{
    struct groups reasons;
    bool ok = true;

    groups_init(&reasons);
    for (size_t i = 0; ok && i < removal->n_groups; i++) {
        if (!is_cut(&removal->groups[i])) {
            struct group_kind kind;

            group_kind_begin(&kind);
            group_kind_text(&kind, removal->groups[i].kind);
            ok = groups_add(&reasons, i, removal->groups[i].reason, &kind, true) != NO_GROUP;
        }
    }
    for (size_t r = 0; ok && r < reasons.n; r++) {
        const struct vc_report_group *first = &removal->groups[reasons.list[r].first];

        say(out->to, r == 0 ? "\n  kept %s group%s of %s: %s\n" : "  kept %s group%s of %s: %s\n",
            fmt_count(CELL, reasons.list[r].count), plural(reasons.list[r].count), first->kind, first->reason);
        for (size_t i = 0; each && i < removal->n_groups; i++) {
            if (strcmp(removal->groups[i].reason, first->reason) == 0 &&
                strcmp(removal->groups[i].kind, first->kind) == 0) {
                print_members(out, &removal->groups[i], false);
            }
        }
    }
    groups_release(&reasons);
    return ok;
}

/* The table of groups that lose units. False: no memory. */
static bool print_lines(const struct out *out, const struct groups *groups, const struct removal_line *lines)
{
    struct table table = {.failed = false};

    for (size_t i = 0; i < groups->n; i++) {
        char *label = group_label(&groups->list[i], out_times(out));

        add_cut(&table, out, &lines[i].sum, label != NULL ? label : "?");
        free(label);
    }
    if (groups->n == 0) {
        add_cut(&table, out, &(struct vc_report_group){.kind = ""}, "");
        table_drop_row(&table);
    }
    fputc('\n', out->to);
    return table_print(&table, out, true);
}

/* "multiply-adds 1.89 M -> 1.2 M, batch 1, sequence 128" */
static void print_work(const struct out *out, const struct vc_report_removal *removal)
{
    if (removal->macs_at == NULL) {
        return;
    }
    say(out->to, "  multiply-adds %s %s %s%s%s\n", fmt_figure(CELL, removal->macs_before), out_arrow(out),
        fmt_figure(CELL, removal->macs_after), removal->macs_at[0] != '\0' ? ", " : "", removal->macs_at);
}

/* Groups of one pattern, kind and counts share a line; with -v each has its own. Members are listed with -v, and in a
 * dry run, where people check the couplings before anything is written. */
bool print_removal(struct app *app, const struct vc_report *report)
{
    const struct vc_report_removal *removal = report->removal;
    const struct out *out = &app->out;
    bool each = app->common.verbose > 0;
    struct removal_line *lines;
    struct groups groups;

    if (removal == NULL) {
        return true;
    }
    lines = calloc(removal->n_groups + 1, sizeof(*lines));
    bool ok = lines != NULL;
    groups_init(&groups);
    for (size_t i = 0; ok && i < removal->n_groups; i++) {
        const struct vc_report_group *group = &removal->groups[i];
        struct group_kind kind;

        if (!is_cut(group)) {
            continue;
        }
        group_kind_begin(&kind);
        group_kind_text(&kind, group->kind);
        group_kind_number(&kind, group->n_before);
        group_kind_number(&kind, group->n_after);
        size_t g = groups_add(&groups, i, group->name, &kind, each);
        ok = g != NO_GROUP;
        if (ok) {
            add_to(&lines[g], i, group);
        }
    }
    ok = ok && print_lines(out, &groups, lines);
    for (size_t i = 0; ok && (each || report->dry_run) && i < groups.n; i++) {
        fputs(i == 0 ? "\n" : "", out->to);
        print_members(out, &removal->groups[lines[i].first], each);
    }
    ok = ok && print_kept(out, removal, each);
    fprintf(out->to, "\n  parameters %s %s %s\n", fmt_count(CELL, report->totals.n_params), out_arrow(out),
            fmt_count(CELL, report->n_params_after));
    print_work(out, removal);
    groups_release(&groups);
    free(lines);
    return ok;
}
