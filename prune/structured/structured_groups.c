/* structured_groups.c - the groups of couplings to cut, the number of units that each group loses (if no score is
 * needed), and the tensors in the groups.
 *
 * A group is a set of places, a tensor and an axis each, whose indices belong together, unit by unit (graph/couple):
 *
 *     fc1.weight:0 = fc1.bias:0 = fc2.weight:1       unit u: row u, element u, column u
 *
 * vc_structured_list asks each group in turn (judge): may it be cut, and by how much? What is known then is either how
 * many units go (n_go), or which ones (goes), or that scores of all groups decide together. */

#include "core/base/array.h"
#include "core/text/glob.h"
#include "core/text/text.h"
#include "graph/build.h"
#include "passes/select.h"
#include "prune/structured/removal.h"

/* ---- couplings ---- */

/* The bias of a layer, "fc1.bias" for "fc1.weight". Returns VC_NO_TENSOR if there is no bias of n elements. */
static size_t bias_of(struct vc_ctx *ctx, const struct vc_plan *plan, const char *weight, uint64_t n)
{
    const struct vc_model *model = plan->model;
    size_t len = strlen(weight);

    if (len < 6 || strcmp(weight + len - 6, "weight") != 0) {
        return VC_NO_TENSOR;
    }
    char *name = vc_arena_printf(ctx, plan->arena, "%.*sbias", (int)(len - 6), weight);
    size_t found = name == NULL ? VC_NO_TENSOR : vc_model_find(model, name);
    return found != VC_NO_TENSOR && model->tensors[found].n_dims == 1 && model->tensors[found].shape[0] == n
               ? found
               : VC_NO_TENSOR;
}

/* An example line for a user who must write a file of couplings, with two weights of this model: the second has as many
 * columns as the first has rows. The two need not be coupled. Returns NULL if no two weights fit. */
static const char *example_line(struct vc_ctx *ctx, const struct vc_plan *plan)
{
    const struct vc_tensor *tensors = plan->model->tensors;

    for (size_t i = 0; i < plan->model->n_tensors; i++) {
        for (size_t k = i + 1; tensors[i].n_dims == 2 && k < plan->model->n_tensors && k < i + 16; k++) {
            if (tensors[k].n_dims == 2 && tensors[k].shape[1] == tensors[i].shape[0]) {
                size_t bias = bias_of(ctx, plan, tensors[i].name, tensors[i].shape[0]);

                return bias == VC_NO_TENSOR
                           ? vc_arena_printf(ctx, plan->arena, "%s:0 = %s:1", tensors[i].name, tensors[k].name)
                           : vc_arena_printf(ctx, plan->arena, "%s:0 = %s:0 = %s:1", tensors[i].name,
                                             tensors[bias].name, tensors[k].name);
            }
        }
    }
    return NULL;
}

/* A model without a graph: the user has to say what is coupled, and gets an example line. */
static enum vc_status refuse_unknown(struct vc_ctx *ctx, const struct vc_plan *plan)
{
    const char *line = example_line(ctx, plan);

    return vc_fail(
        ctx, VC_E_UNSUPPORTED,
        "nothing says what the model computes, so it is not known which rows of one tensor are which columns "
        "of others; write a file with a line for each group, such as '%s', and name it with %s",
        line != NULL ? line : "fc1.weight:0 = fc1.bias:0 = fc2.weight:1", vc_option(ctx, "couplings"));
}

/* The couplings of the options, or else of the model's graph. s->built owns those of the graph. Statistics must be of
 * the same graph. */
static enum vc_status find_couplings(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan,
                                     const struct vc_couplings **out)
{
    struct vc_graph *graph = NULL;
    char *text = NULL;
    enum vc_status status = VC_OK;

    *out = s->options.couplings;
    VC_REFUSE_IF(*out != NULL && plan->names != NULL, ctx, VC_E_UNSUPPORTED,
                 "an earlier pass gives tensors other names, and the couplings are those of the source; write a "
                 "file in between");
    if (*out != NULL) {
        return vc_calibration_check_graph(ctx, s->options.calibration, s->options.graph_text,
                                          s->options.calibration_anyway);
    }
    VC_REFUSE_IF(plan->names != NULL && s->program.kind == VC_PROGRAM_NODES, ctx, VC_E_UNSUPPORTED,
                 "an earlier pass leaves out tensors that the graph of the file uses; write a file in between");
    status = vc_graph_build_program(ctx, plan->model, &s->program, &graph);
    if (status == VC_E_UNSUPPORTED) {
        status = refuse_unknown(ctx, plan);
    }
    VC_TRY(status);
    if (s->options.calibration != NULL) {
        VC_TRY(vc_graph_print_text(ctx, graph, &text));
        VC_TRY(vc_calibration_check_graph(ctx, s->options.calibration, text, s->options.calibration_anyway));
    }
    VC_TRY(vc_graph_bind_usual(ctx, graph));
    VC_TRY(vc_couplings_of_graph(ctx, graph, &s->built));
    *out = s->built;
out:
    vc_text_free(text);
    vc_graph_close(graph);
    return status;
}

/* ---- reasons to keep a group uncut ---- */

/* As sentences call them. */
static const char *units_name(enum vc_unit unit)
{
    static const char *const names[] = {[VC_UNIT_NEURONS] = "neurons",
                                        [VC_UNIT_HEADS] = "heads",
                                        [VC_UNIT_EXPERTS] = "experts",
                                        [VC_UNIT_HIDDEN] = "hidden"};

    return names[unit];
}

/* True if a rule excludes a tensor of the group; *glob: the rule's glob. */
static bool is_excluded(const struct vc_structured *s, const struct vc_coupling *c, const char **glob)
{
    size_t i = 0;

    while (i < c->n_members &&
           vc_rules_choose(s->options.rules, s->options.n_rules, c->members[i].tensor, glob) != VC_CHOICE_EXCLUDE) {
        i++;
    }
    return i < c->n_members;
}

/* Compares by tensor and axis; rules of one tensor and axis stay in order. */
static int by_place(const void *a, const void *b)
{
    const struct vc_structured_units *x = *(const struct vc_structured_units *const *)a;
    const struct vc_structured_units *y = *(const struct vc_structured_units *const *)b;

    return VC_FIRST_ORDER(strcmp(x->tensor, y->tensor), VC_ORDER(x->axis, y->axis), VC_ORDER(x, y));
}

/* Sorts the remove rules by tensor and axis, for a fast search: there may be as many rules as groups. */
static enum vc_status sort_removals(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan)
{
    size_t n = s->options.n_remove;

    VC_CALL_ALLOC(s->removals = vc_arena_alloc(ctx, plan->arena, (n + 1) * sizeof *s->removals));
    for (size_t i = 0; i < n; i++) {
        s->removals[i] = &s->options.remove[i];
    }
    if (n != 0) {
        qsort(s->removals, n, sizeof *s->removals, by_place);
    }
    return VC_OK;
}

/* The order of by_place, for a search. */
static bool comes_before(const struct vc_structured_units *units, const struct vc_coupling_member *m)
{
    int order = strcmp(units->tensor, m->tensor);

    return order < 0 || (order == 0 && units->axis < m->axis);
}

/* Finds the remove rules for the member's tensor and axis: *first in s->removals. Returns their number. 0 for a member
 * that is a unit by itself, which has no axis. */
static size_t removals_of(const struct vc_structured *s, const struct vc_coupling_member *m, size_t *first)
{
    size_t low;
    size_t n = 0;

    VC_BISECT(low, s->options.n_remove, k, comes_before(s->removals[k], m));
    *first = low;
    while (!m->whole && low + n < s->options.n_remove && s->removals[low + n]->axis == m->axis &&
           strcmp(s->removals[low + n]->tensor, m->tensor) == 0) {
        n++;
    }
    return n;
}

/* Some remove rule is about a member of the group. */
static bool is_named(const struct vc_structured *s, const struct vc_coupling *c)
{
    size_t first;
    size_t k = 0;

    while (k < c->n_members && removals_of(s, &c->members[k], &first) == 0) {
        k++;
    }
    return k < c->n_members;
}

/* Sets the group's share; the last rule that matches a tensor of the group decides. Returns false if the group has no
 * share. */
static bool share_of(const struct vc_structured *s, struct vc_removal_group *group)
{
    const struct vc_coupling *c = group->coupling;
    bool found = s->options.share != NULL;

    group->share = s->share;
    for (size_t i = 0; i < s->options.n_sets; i++) {
        for (size_t k = 0; k < c->n_members; k++) {
            if (vc_glob_match(s->sets[i].glob, c->members[k].tensor)) {
                group->share = s->sets[i].share;
                group->own = found = true;
            }
        }
    }
    return found;
}

/* Units of the group are tensors of their own (experts). */
static bool has_whole(const struct vc_coupling *c)
{
    size_t i = 0;

    while (i < c->n_members && !c->members[i].whole) {
        i++;
    }
    return i < c->n_members;
}

/* True if some member of the group counts for the scores; scores by norms need a normalization. */
static bool has_scores(const struct vc_structured *s, const struct vc_plan *plan, const struct vc_coupling *c)
{
    for (size_t i = 0; i < c->n_members; i++) {
        const struct vc_tensor *t = &plan->model->tensors[c->members[i].index];

        if (vc_structured_counts(s, &c->members[i], t->n_dims)) {
            return true;
        }
    }
    return false;
}

/* Sets group->reason if the group is not cut for a reason known without scores; else the share and the number of units
 * to remove. The order of the questions decides which reason is reported: asked for, excluded, possible to rename, a
 * share, possible to say in the configuration, scores. */
static enum vc_status judge(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan,
                            struct vc_removal_group *group)
{
    const struct vc_coupling *c = group->coupling;
    const char *glob = "";

    /* asked for, and not fixed by the graph */
    if (s->options.n_remove != 0) {
        group->reason = is_named(s, c) ? c->fixed : "not named";
    } else if ((s->options.units >> c->unit & 1u) == 0) {
        group->reason = vc_arena_printf(ctx, plan->arena, "%s are not asked for", units_name(c->unit));
    } else {
        group->reason = c->fixed;
    }
    if (group->reason == NULL && is_excluded(s, c, &glob)) {
        VC_CALL_ALLOC(group->reason = vc_arena_printf(ctx, plan->arena, "excluded by '%s'", glob));
    }
    /* experts: their names must have numbers */
    if (group->reason == NULL && has_whole(c)) {
        VC_CALL(vc_structured_find_numbers(ctx, plan, group, &group->reason));
    }
    if (group->reason == NULL && s->options.n_remove == 0 && !share_of(s, group)) {
        group->reason = "no share is asked for";
    }
    /* the configuration must be able to say the new size */
    if (group->reason == NULL) {
        VC_CALL(vc_structured_unsaid(ctx, s, plan, group, &group->reason));
        group->unsaid = group->reason != NULL;
    }
    if (group->reason != NULL || s->options.n_remove != 0) {
        return VC_OK;
    }
    /* scores, and how many units go */
    if (!has_scores(s, plan, c)) {
        group->reason = s->options.score == VC_STRUCTURED_NORM ? "has no scale of a normalization"
                                                               : "nothing in it is said to make its units";
        return VC_OK;
    }
    group->n_go = vc_structured_round(s, c->unit, c->n_units, vc_fraction_floor(group->share, c->n_units));
    if (group->n_go == 0 && (group->own || s->options.scope != VC_PRUNE_GLOBAL)) {
        group->reason = vc_arena_printf(ctx, plan->arena, "none of %llu go", (unsigned long long)c->n_units);
        VC_CALL_ALLOC(group->reason);
    }
    if (s->options.scope == VC_PRUNE_GLOBAL && !group->own) {
        group->n_go = 0; /* the scores decide */
    }
    return VC_OK;
}

/* ---- the tensors of groups ---- */

/* By tensor, then group, so that the places of a tensor stand together (vc_structured_find). */
static int by_tensor(const void *a, const void *b)
{
    const struct vc_removal_member *x = a;
    const struct vc_removal_member *y = b;

    return VC_FIRST_ORDER(VC_ORDER(x->tensor, y->tensor), VC_ORDER(x->group, y->group), VC_ORDER(x->member, y->member));
}

/* The same place under a second name of the tensor: a tied tensor is cut once. */
static bool same_place(const struct vc_removal_member *a, const struct vc_removal_member *b)
{
    return a->tensor == b->tensor && a->group == b->group && a->member->whole == b->member->whole &&
           a->member->axis == b->member->axis && a->member->offset == b->member->offset;
}

/* The places of all groups that are cut, sorted, each once. */
static enum vc_status list_members(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_groups; i++) {
        n += s->groups[i].reason == NULL ? s->groups[i].coupling->n_members : 0;
    }
    VC_CALL_ALLOC(s->members = vc_arena_alloc(ctx, plan->arena, (n + 1) * sizeof *s->members));
    s->n_members = 0;
    for (size_t i = 0; i < s->n_groups; i++) {
        const struct vc_coupling *c = s->groups[i].coupling;

        for (size_t k = 0; s->groups[i].reason == NULL && k < c->n_members; k++) {
            size_t first = plan->model->tensors[c->members[k].index].alias_of;

            s->members[s->n_members++] = (struct vc_removal_member){
                .tensor = first != VC_NO_TENSOR ? first : c->members[k].index, .group = i, .member = &c->members[k]};
        }
    }
    qsort(s->members, s->n_members, sizeof *s->members, by_tensor);
    /* each place once */
    n = 0;
    for (size_t i = 0; i < s->n_members; i++) {
        bool again = false;

        for (size_t k = n; k > 0 && s->members[k - 1].tensor == s->members[i].tensor && !again; k--) {
            again = same_place(&s->members[k - 1], &s->members[i]);
        }
        if (!again) {
            s->members[n++] = s->members[i];
        }
    }
    s->n_members = n;
    return VC_OK;
}

/* ---- given units ---- */

/* Marks the units that a remove rule names. Errors of the rule are added to `wrong`. A unit that is named twice counts
 * once. */
static void take_units(const struct vc_structured_units *remove, struct vc_removal_group *group, struct vc_text *wrong)
{
    const struct vc_coupling *c = group->coupling;

    for (size_t i = 0; i < remove->n; i++) {
        if (remove->units[i] >= c->n_units) {
            vc_text_add(wrong, "%s%s:%u has %llu units, numbered from 0; there is no number %llu",
                        wrong->n != 0 ? "; " : "", remove->tensor, remove->axis, (unsigned long long)c->n_units,
                        (unsigned long long)remove->units[i]);
            return;
        }
        group->n_go += !group->goes[remove->units[i]];
        group->goes[remove->units[i]] = true;
    }
    if (group->n_go == c->n_units) {
        vc_text_add(wrong, "%snothing is left of %s", wrong->n != 0 ? "; " : "", c->name);
    }
}

/* For each remove rule the first group with its tensor and axis, or NULL. If an axis has units of several groups (a
 * grouped convolution), a group that can be cut is preferred. */
static struct vc_removal_group **find_named(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan)
{
    struct vc_removal_group **named = vc_arena_alloc(ctx, plan->arena, (s->options.n_remove + 1) * sizeof *named);

    for (size_t r = 0; named != NULL && r < s->options.n_remove; r++) {
        named[r] = NULL;
    }
    for (size_t i = 0; named != NULL && i < s->n_groups; i++) {
        const struct vc_coupling *c = s->groups[i].coupling;

        for (size_t k = 0; k < c->n_members; k++) {
            size_t first;
            size_t n = removals_of(s, &c->members[k], &first);

            for (size_t f = first; f < first + n; f++) {
                size_t r = (size_t)(s->removals[f] - s->options.remove);

                if (named[r] == NULL || (named[r]->reason != NULL && s->groups[i].reason == NULL)) {
                    named[r] = &s->groups[i];
                }
            }
        }
    }
    return named;
}

/* Applies all remove rules. One sentence has all errors. */
static enum vc_status take_removals(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan)
{
    struct vc_removal_group **named = find_named(ctx, s, plan);
    VC_SCOPED_TEXT struct vc_text wrong = {.ctx = ctx};
    enum vc_status status;

    VC_CALL_ALLOC(named);
    for (size_t r = 0; r < s->options.n_remove; r++) {
        const struct vc_structured_units *remove = &s->options.remove[r];

        if (named[r] == NULL) {
            vc_text_add(&wrong, "%s%s:%u is in no group", wrong.n != 0 ? "; " : "", remove->tensor, remove->axis);
        } else if (named[r]->reason != NULL) {
            vc_text_add(&wrong, "%s%s:%u: %s", wrong.n != 0 ? "; " : "", remove->tensor, remove->axis,
                        named[r]->reason);
        } else {
            take_units(remove, named[r], &wrong);
        }
    }
    status = wrong.status;
    if (status == VC_OK && wrong.n != 0) {
        status = vc_fail(ctx, VC_E_ARGUMENT, "%s: %s", vc_option(ctx, "remove"), wrong.data);
    }
    return status;
}

/* ---- all of it ---- */

/* Couplings may be given by the caller: each place must be in the model. An axis with a member has room for all its
 * units:
 *
 *     offset + repeat * n_units * block <= size of the axis */
static enum vc_status check_members(struct vc_ctx *ctx, const struct vc_coupling *c, const struct vc_plan *plan)
{
    for (size_t i = 0; i < c->n_members; i++) {
        const struct vc_coupling_member *m = &c->members[i];
        const struct vc_tensor *t = m->index < plan->model->n_tensors ? &plan->model->tensors[m->index] : NULL;

        VC_REFUSE_IF(t == NULL || strcmp(t->name, m->tensor) != 0, ctx, VC_E_ARGUMENT,
                     "the couplings are those of another model: it has no tensor %s in that "
                     "place",
                     m->tensor);
        VC_REFUSE_IF(!m->whole &&
                         (m->axis >= t->n_dims || m->offset + m->repeat * c->n_units * m->block > t->shape[m->axis]),
                     ctx, VC_E_ARGUMENT, "the couplings are those of another model: axis %u of %s is shorter", m->axis,
                     m->tensor);
    }
    return VC_OK;
}

/* Refuses a pass that cuts no group. The sentence gives the reason of one group: a group that only the configuration
 * keeps, else a group of a requested kind. */
static enum vc_status refuse_nothing(struct vc_ctx *ctx, const struct vc_structured *s)
{
    const struct vc_removal_group *group = NULL;

    for (size_t i = 0; i < s->n_groups; i++) {
        bool asked = (s->options.units >> s->groups[i].coupling->unit & 1u) != 0;

        if (group == NULL || (!group->unsaid && s->groups[i].unsaid) ||
            (asked && (s->options.units >> group->coupling->unit & 1u) == 0)) {
            group = &s->groups[i];
        }
    }
    VC_REFUSE_IF(group == NULL, ctx, VC_E_UNSUPPORTED, "there is no group of rows and columns to remove from");
    VC_REFUSE_IF(s->options.n_remove == 0 && (s->options.units >> group->coupling->unit & 1u) == 0, ctx,
                 VC_E_UNSUPPORTED,
                 "nothing can be removed: the groups that are known have other units, such as %s, of %s",
                 units_name(group->coupling->unit), group->coupling->name);
    VC_REFUSE_IF(group->unsaid, ctx, VC_E_UNSUPPORTED,
                 "nothing can be removed; of %s: %s (%s plain writes the new shapes all the same, and leaves the "
                 "configuration as it is)",
                 group->coupling->name, group->reason, vc_option(ctx, "layout"));
    return vc_fail(ctx, VC_E_UNSUPPORTED, "nothing can be removed; of %s: %s", group->coupling->name, group->reason);
}

/* Refuses a job that would remove nothing, in words of the reason: a share so small that no unit goes, or sizes rounded
 * up. Groups whose units scores choose later are not judged here. */
enum vc_status vc_structured_check_any(struct vc_ctx *ctx, const struct vc_structured *s)
{
    const struct vc_removal_group *group = NULL;

    for (size_t i = 0; i < s->n_groups; i++) {
        /* Something goes, or scores will say what does. */
        if (s->groups[i].reason == NULL && (s->groups[i].n_go != 0 || s->groups[i].scores == NULL)) {
            return VC_OK;
        }
        group = s->groups[i].reason == NULL && group == NULL ? &s->groups[i] : group;
    }
    VC_REFUSE_IF(group != NULL && s->options.round_to > 1, ctx, VC_E_UNSUPPORTED,
                 "nothing can be removed; of %s: none of %llu go, as what stays is rounded up by %s",
                 group->coupling->name, (unsigned long long)group->coupling->n_units, vc_option(ctx, "round_to"));
    VC_REFUSE_IF(group != NULL, ctx, VC_E_UNSUPPORTED, "nothing can be removed; of %s: none of %llu go",
                 group->coupling->name, (unsigned long long)group->coupling->n_units);
    return VC_OK;
}

/* In this order: groups, keys of the configuration, reasons, given units, the file's own graph, places. */
enum vc_status vc_structured_list(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan)
{
    bool any = false;

    s->plain = !s->options.state_sizes && plan->layout != NULL && strcmp(plan->layout, "plain") == 0;
    VC_CALL(vc_model_program(ctx, plan->model, plan->arena, &s->program));
    if (plan->n_edits != 0) {
        VC_CALL(vc_program_edit(ctx, plan->edits, plan->n_edits, plan->arena, &s->program));
    }
    VC_CALL(find_couplings(ctx, s, plan, &s->couplings));
    s->n_groups = vc_couplings_count(s->couplings);
    VC_CALL_ALLOC(s->groups = vc_arena_alloc(ctx, plan->arena, (s->n_groups + 1) * sizeof *s->groups));
    for (size_t i = 0; i < s->n_groups; i++) {
        s->groups[i] = (struct vc_removal_group){.coupling = vc_coupling(s->couplings, i)};
    }
    /* needed by judge */
    VC_CALL(vc_structured_find_keys(ctx, s));
    VC_CALL(sort_removals(ctx, s, plan));
    for (size_t i = 0; i < s->n_groups; i++) {
        struct vc_removal_group *group = &s->groups[i];
        size_t n = (size_t)group->coupling->n_units;

        VC_CALL(check_members(ctx, group->coupling, plan));
        VC_CALL(judge(ctx, s, plan, group));
        any = any || group->reason == NULL;
        if (group->reason == NULL) {
            VC_CALL_ALLOC(group->goes = vc_arena_alloc(ctx, plan->arena, n + 1));
            memset(group->goes, 0, n + 1);
        }
        if (group->reason == NULL && s->options.n_remove == 0) {
            VC_CALL_ALLOC(group->scores = vc_arena_alloc(ctx, plan->arena, (n + 1) * sizeof *group->scores));
            memset(group->scores, 0, (n + 1) * sizeof *group->scores);
        }
    }
    VC_CALL(take_removals(ctx, s, plan));
    if (!any) {
        VC_CALL(refuse_nothing(ctx, s));
    }
    VC_CALL(vc_structured_match_graph(ctx, s, plan));
    return list_members(ctx, s, plan);
}
