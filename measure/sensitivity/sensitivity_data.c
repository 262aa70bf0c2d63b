/* sensitivity_data.c - vc_sensitivity_measure: the outputs of the model with one tensor changed, or the
 * units of one group removed. A target is a tensor or a group; a unit of work is one target changed by one
 * candidate, which is one run of the graph (output_runs.h). Threads take units of work in their order.
 *
 *     inputs        rows of the data file, in batches
 *     first runs    one for each batch: what outputs are compared with
 *     candidates    those of vc_model_sensitivity; of the sparsities only three
 *     targets       tensors that have errors and that the graph uses; groups whose units can go
 *     works         target x candidate, by all threads at once
 *     removed       groups whose units have to be removed really, one after the other
 *     agreement     how well errors of weights predict what outputs lose
 *
 * How a target is changed:
 *
 *     tensor                    the candidate's values in its place
 *     group of channels         elements of the units that go are 0 in all members
 *     group of experts          the experts stay; the router's scores of those that go are -infinity
 *     group of the hidden size  a new graph without them: normalizations take means over all channels, also zeros
 */

#include "core/base/option_struct.h"
#include "core/base/thread_pool.h"
#include "facade/all_candidates.h"
#include "measure/curve.h"
#include "measure/graph_inputs.h"
#include "measure/sensitivity/rank_correlation.h"
#include "measure/sensitivity/removed.h"
#include "measure/sensitivity/sensitivity_changes.h"
#include "measure/sensitivity/sensitivity_parts.h"
#include "measure/sensitivity/sensitivity_units.h"

/* Sparsities that are measured: a run of the graph for each takes far longer than the error of weights. */
static const unsigned percents[] = {50, 70, 90};
#define N_PERCENTS (sizeof percents / sizeof percents[0])

/* What is changed: a tensor, or all tensors of a group.
 * The lists lie in the result's arena, and `changes` is what the result shows. */
struct target {
    size_t n_changed;
    struct vc_changed_tensor *changed; /* values: NULL until a run */
    const struct vc_coupling *group;   /* NULL: one tensor */
    const double *unit_scores;         /* of the group's units: the lowest go first */
    uint32_t scores;                   /* of experts: the value that says which are chosen */
    bool removed;                      /* its units have to be removed really: no thread does that */
    uint64_t bytes;                    /* of the tensors, for progress */
    size_t n_candidates;
    struct vc_output_change *changes; /* one for each candidate */
};

/* One run of the graph: numbers of a target and of one of its candidates. */
struct work {
    size_t target, candidate;
};

/* The call: what is measured, and what threads share. Everything above `ctx` is written before they begin. */
struct measuring {
    struct vc_sensitivity_owned *owned;
    struct vc_measured *out;
    struct vc_sensitivity_data_options options;
    struct vc_candidate_list tried;
    const struct vc_candidate **candidate_of; /* by number in out->candidates; NULL: a sparsity */
    struct vc_graph_inputs inputs;
    struct vc_output_runs runs; /* of the first batch; the others behind it */
    struct vc_couplings *couplings;
    struct vc_measured_tensor *tensors;
    struct vc_measured_group *groups;
    struct target *targets; /* tensors, then groups: those that are measured */
    size_t n_targets;
    struct work *works;
    size_t n_works;
    uint64_t largest; /* bytes of the f32 of one target */

    /* While threads work. */
    struct vc_ctx *ctx;
    pthread_mutex_t mutex;
    size_t next, failed; /* unit of work */
    uint64_t done, total;
    enum vc_status failure;
    char message[VC_MESSAGE_BYTES];
};

/* ---- candidates ---- */

/* The candidate with this name; NULL: it is a sparsity. */
static const struct vc_candidate *find_candidate(const struct vc_candidate_list *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->candidates[i].name, name) == 0) {
            return &list->candidates[i];
        }
    }
    return NULL;
}

/* One of the sparsities above. */
static bool is_measured_percent(unsigned percent)
{
    for (size_t i = 0; i < N_PERCENTS; i++) {
        if (percents[i] == percent) {
            return true;
        }
    }
    return false;
}

/* The candidates that are measured, by their numbers among all, and what makes each of them. */
static enum vc_status list_candidates(struct vc_ctx *ctx, struct measuring *m)
{
    const struct vc_sensitivity *s = &m->owned->result;
    struct vc_arena *arena = &m->owned->arena;
    size_t *candidates = vc_arena_alloc(ctx, arena, (s->n_candidates + 1) * sizeof *candidates);

    m->candidate_of = vc_arena_alloc(ctx, arena, (s->n_candidates + 1) * sizeof *m->candidate_of);
    VC_CALL(candidates == NULL || m->candidate_of == NULL ? VC_E_NOMEM : VC_OK);
    VC_CALL(vc_candidates_list(ctx, arena, &m->tried));
    for (size_t i = 0; i < s->n_candidates; i++) {
        const struct vc_candidate *candidate = find_candidate(&m->tried, s->candidates[i].name);

        if (candidate != NULL || is_measured_percent(s->candidates[i].percent)) {
            candidates[m->out->n_candidates] = i;
            m->candidate_of[m->out->n_candidates++] = candidate;
        }
    }
    m->out->candidates = candidates;
    return VC_OK;
}

/* ---- targets ---- */

/* A target with room for its figures, in the result's arena. */
static enum vc_status add_target(struct vc_ctx *ctx, struct measuring *m, size_t n_changed, size_t n_candidates,
                                 struct target **out)
{
    struct vc_arena *arena = &m->owned->arena;
    struct target *target = &m->targets[m->n_targets];

    *target = (struct target){.n_candidates = n_candidates};
    VC_CALL_ALLOC(target->changed = vc_arena_alloc(ctx, arena, (n_changed + 1) * sizeof *target->changed));
    VC_CALL_ALLOC(target->changes = vc_arena_alloc(ctx, arena, (n_candidates + 1) * sizeof *target->changes));
    memset(target->changes, 0, n_candidates * sizeof *target->changes);
    m->n_targets++;
    *out = target;
    return VC_OK;
}

/* A tensor of the target, once, whatever number of members it has. */
static void add_tensor(struct measuring *m, struct target *target, size_t tensor)
{
    const struct vc_tensor *t = &m->owned->result.model->tensors[tensor];

    for (size_t i = 0; i < target->n_changed; i++) {
        if (target->changed[i].tensor == tensor) {
            return;
        }
    }
    target->changed[target->n_changed++] = (struct vc_changed_tensor){.tensor = tensor, .n = (size_t)t->n_elems};
    target->bytes += t->n_elems * sizeof(float);
}

/* A target for each row that has errors. A candidate that could not be tried on the weights has the same
 * reason here.
 * A tensor that the graph does not read has a row with that reason. */
static enum vc_status list_tensors(struct vc_ctx *ctx, struct measuring *m)
{
    const struct vc_sensitivity *s = &m->owned->result;
    struct target *target;

    for (size_t i = 0; i < s->n_rows; i++) {
        const struct vc_sensitivity_row *row = &s->rows[i];
        struct vc_measured_tensor *t = &m->tensors[m->out->n_tensors];

        if (row->errors == NULL) {
            continue;
        }
        *t = (struct vc_measured_tensor){.row = i};
        m->out->n_tensors++;
        if (!vc_output_runs_use(&m->runs, row->tensor)) {
            t->reason = "the graph does not use it";
            continue;
        }
        VC_CALL(add_target(ctx, m, 1, m->out->n_candidates, &target));
        add_tensor(m, target, row->tensor);
        t->changes = target->changes;
        for (size_t k = 0; k < m->out->n_candidates; k++) {
            target->changes[k].reason = row->errors[m->out->candidates[k]].reason;
        }
    }
    return VC_OK;
}

/* Why the group cannot be measured; NULL: it can.
 * A coupling that says itself why it is fixed has that reason. */
static const char *group_reason(const struct measuring *m, const struct vc_coupling *group)
{
    const struct vc_model *model = m->owned->result.model;
    bool made = false;

    if (group->fixed != NULL) {
        return group->fixed;
    }
    for (size_t k = 0; k < group->n_members; k++) {
        const struct vc_coupling_member *member = &group->members[k];
        size_t tensor = vc_model_find(model, member->tensor);

        if (tensor == VC_NO_TENSOR || (!member->whole && member->axis >= model->tensors[tensor].n_dims) ||
            !vc_output_runs_use(&m->runs, tensor)) {
            return "has a tensor that the model does not have";
        }
        made |= member->makes;
    }
    return made ? NULL : "no tensor of the model makes it";
}

/* The value that says which experts are chosen: made of the members that are not the experts themselves. */
static uint32_t find_scores(struct vc_ctx *ctx, const struct measuring *m, const struct vc_coupling *group)
{
    for (size_t k = 0; k < group->n_members; k++) {
        if (!group->members[k].makes) {
            return vc_output_runs_scores(ctx, &m->runs, vc_model_find(m->owned->result.model, group->members[k].tensor),
                                         group->n_units);
        }
    }
    return VC_NO_VALUE;
}

/* How many units go at each sparsity, and their share of the norm. Numbers are rounded down; with few units
 * the lowest sparsity may remove none.
 *     12 heads: at 50 % 6 go, at 70 % 8, at 90 % 10
 */
static enum vc_status weigh_group(struct vc_ctx *ctx, const struct vc_coupling *group, const double *norms,
                                  const double *unit_scores, uint64_t *n_removed, double *relative)
{
    VC_SCOPED bool *goes = vc_alloc_array(ctx, VC_TAG_MISC, (size_t)group->n_units, sizeof *goes);

    VC_CALL_ALLOC(goes);
    for (size_t i = 0; i < N_PERCENTS; i++) {
        n_removed[i] = group->n_units * percents[i] / 100;
        VC_CALL(vc_units_lowest(ctx, group, unit_scores, n_removed[i], goes));
        relative[i] = vc_units_share(group, norms, goes);
    }
    return VC_OK;
}

/* What is measured of a group that can be: its target. `router`: of experts, the value that says which are chosen. */
static enum vc_status add_group_target(struct vc_ctx *ctx, struct measuring *m, const struct vc_coupling *group,
                                       struct vc_measured_group *g, uint32_t router)
{
    const struct vc_model *model = m->owned->result.model;
    struct vc_arena *arena = &m->owned->arena;
    size_t n = (size_t)group->n_units;
    uint64_t *n_removed = vc_arena_alloc(ctx, arena, N_PERCENTS * sizeof *n_removed);
    double *relative = vc_arena_alloc(ctx, arena, N_PERCENTS * sizeof *relative);
    double *unit_scores = vc_arena_alloc(ctx, arena, (n + 1) * sizeof *unit_scores);
    VC_SCOPED double *norms = vc_alloc_array(ctx, VC_TAG_MISC, n + 1, sizeof *norms);
    struct target *target;

    VC_CALL(n_removed == NULL || relative == NULL || unit_scores == NULL || norms == NULL ? VC_E_NOMEM : VC_OK);
    VC_CALL(vc_units_scores(ctx, model, group, arena, unit_scores, &g->reason));
    if (g->reason != NULL) {
        return VC_OK;
    }
    VC_CALL(vc_units_norms(ctx, model, group, norms));
    VC_CALL(weigh_group(ctx, group, norms, unit_scores, n_removed, relative));
    VC_CALL(add_target(ctx, m, group->n_members, N_PERCENTS, &target));
    for (size_t k = 0; k < group->n_members; k++) {
        /* Experts stay as they are: only what chooses among them changes. */
        if (router == VC_NO_VALUE || !group->members[k].makes) {
            add_tensor(m, target, vc_model_find(model, group->members[k].tensor));
        }
    }
    target->group = group;
    target->scores = router;
    target->removed = group->unit == VC_UNIT_HIDDEN;
    target->unit_scores = unit_scores;
    g->n_removed = n_removed;
    g->relative = relative;
    g->changes = target->changes;
    return VC_OK;
}

/* Adds a group to the result, with a reason, or with a target. The graph has to be asked first where units
 * are experts: a router that is not understood cannot be kept from choosing some. */
static enum vc_status add_group(struct vc_ctx *ctx, struct measuring *m, const struct vc_coupling *group)
{
    struct vc_arena *arena = &m->owned->arena;
    struct vc_measured_group *g = &m->groups[m->out->n_groups++];
    const char *reason = group_reason(m, group);
    uint32_t router = VC_NO_VALUE;

    *g = (struct vc_measured_group){
        .name = vc_arena_printf(ctx, arena, "%s", group->name), .unit = group->unit, .n_units = group->n_units};
    VC_CALL_ALLOC(g->name);
    if (reason == NULL && group->unit == VC_UNIT_EXPERTS) {
        router = find_scores(ctx, m, group);
        reason = router == VC_NO_VALUE ? "how a router chooses among them is not understood" : NULL;
    }
    if (reason == NULL) {
        return add_group_target(ctx, m, group, g, router);
    }
    VC_CALL_ALLOC(g->reason = vc_arena_printf(ctx, arena, "%s", reason));
    return VC_OK;
}

/* Tensors first, then groups. Arrays have room for all, so that pointers into them stay valid. */
static enum vc_status list_targets(struct vc_ctx *ctx, struct measuring *m)
{
    struct vc_sensitivity_owned *owned = m->owned;

    VC_CALL(vc_couplings_of_graph(ctx, m->options.graph, &m->couplings));
    size_t n_groups = vc_couplings_count(m->couplings);
    m->tensors = vc_arena_alloc(ctx, &owned->arena, (owned->result.n_rows + 1) * sizeof *m->tensors);
    m->groups = vc_arena_alloc(ctx, &owned->arena, (n_groups + 1) * sizeof *m->groups);
    m->targets = vc_alloc_array(ctx, VC_TAG_MISC, owned->result.n_rows + n_groups + 1, sizeof *m->targets);
    VC_CALL(m->tensors == NULL || m->groups == NULL || m->targets == NULL ? VC_E_NOMEM : VC_OK);
    VC_CALL(list_tensors(ctx, m));
    for (size_t i = 0; i < n_groups; i++) {
        VC_CALL(add_group(ctx, m, vc_coupling(m->couplings, i)));
    }
    m->out->tensors = m->tensors;
    m->out->groups = m->groups;
    m->out->percents = percents;
    m->out->n_percents = N_PERCENTS;
    return VC_OK;
}

/* One for each target and candidate that has no reason not to be tried. Targets that are removed really are
 * run later and count in n_runs alone. */
static enum vc_status list_works(struct vc_ctx *ctx, struct measuring *m)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n_targets; i++) {
        n += m->targets[i].n_candidates;
    }
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, m->works, n + 1));
    for (size_t i = 0; i < m->n_targets; i++) {
        for (size_t k = 0; k < m->targets[i].n_candidates; k++) {
            if (m->targets[i].changes[k].reason == NULL && !m->targets[i].removed) {
                m->works[m->n_works++] = (struct work){i, k};
                m->total += m->targets[i].bytes;
            }
        }
        m->largest = vc_max_u64(m->largest, m->targets[i].removed ? 0 : m->targets[i].bytes);
        m->out->n_runs += m->targets[i].removed ? m->targets[i].n_candidates : 0;
    }
    m->out->n_runs += m->n_works;
    return VC_OK;
}

/* ---- one unit of work ---- */

/* Reads all tensors of the target and zeroes the units that go in each place that they have there. */
static enum vc_status zero_units(struct vc_ctx *ctx, struct measuring *m, const struct target *target, const bool *goes,
                                 struct vc_changed_tensor *changed)
{
    const struct vc_coupling *group = target->group;
    const struct vc_model *model = m->owned->result.model;

    for (size_t i = 0; i < target->n_changed; i++) {
        VC_CALL(vc_units_read(ctx, model, changed[i].tensor, &changed[i].values));
        for (size_t k = 0; k < group->n_members; k++) {
            if (vc_model_find(model, group->members[k].tensor) == changed[i].tensor) {
                vc_change_remove(group, &group->members[k], &model->tensors[changed[i].tensor], goes,
                                 changed[i].values);
            }
        }
    }
    return VC_OK;
}

/* A token is given to as many experts as before, so as many have to stay. */
static bool too_few_stay(const struct measuring *m, const struct vc_coupling *group, uint64_t n_go)
{
    uint32_t chosen = 0;

    return vc_graph_experts(m->options.graph, &chosen) != 0 && group->n_units - n_go < chosen;
}

/* The group without its lowest units, at the sparsity number `candidate`. */
static enum vc_status run_group(struct vc_ctx *ctx, struct measuring *m, struct vc_output_program *program,
                                const struct target *target, size_t candidate, struct vc_changed_tensor *changed)
{
    const struct vc_coupling *group = target->group;
    uint64_t n = group->n_units * percents[candidate] / 100;
    VC_SCOPED bool *goes = vc_alloc_array(ctx, VC_TAG_MISC, (size_t)group->n_units, sizeof *goes);
    struct vc_output_change *change = &target->changes[candidate];

    VC_CALL_ALLOC(goes);
    VC_CALL(vc_units_lowest(ctx, group, target->unit_scores, n, goes));
    if (target->scores == VC_NO_VALUE) {
        VC_CALL(zero_units(ctx, m, target, goes, changed));
        VC_CALL(vc_output_runs_run(ctx, &m->runs, program, changed, target->n_changed, change));
    } else if (too_few_stay(m, group, n)) {
        change->reason = "fewer would stay than a token is given to";
    } else {
        VC_CALL(vc_output_runs_bar(ctx, &m->runs, target->scores, goes, group->n_units, change));
    }
    return VC_OK;
}

/* The tensor's values after the candidate, or pruned to the sparsity. */
static enum vc_status change_tensor(struct vc_ctx *ctx, struct measuring *m, size_t candidate,
                                    struct vc_changed_tensor *changed)
{
    const struct vc_model *model = m->owned->result.model;
    unsigned percent = m->owned->result.candidates[m->out->candidates[candidate]].percent;

    VC_CALL(vc_units_read(ctx, model, changed->tensor, &changed->values));
    if (m->candidate_of[candidate] != NULL) {
        VC_CALL(vc_change_tensor(ctx, model, changed->tensor, m->candidate_of[candidate], changed->values));
    } else {
        VC_CALL(vc_change_prune(ctx, changed->values, changed->n, vc_curve_count_of(changed->n, percent)));
    }
    return VC_OK;
}

/* One unit of work, on a thread. Values are the thread's own, so that several threads may work on one
 * target; they are freed before the next. */
static enum vc_status do_work(struct vc_ctx *ctx, struct measuring *m, struct vc_output_program *program,
                              const struct work *work)
{
    const struct target *target = &m->targets[work->target];
    struct vc_changed_tensor *changed =
        vc_alloc_array(ctx, VC_TAG_MISC, target->n_changed + 1, sizeof *changed); /* values of this thread's own */
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(changed);
    memcpy(changed, target->changed, target->n_changed * sizeof *changed);
    if (target->group != NULL) {
        VC_TRY(run_group(ctx, m, program, target, work->candidate, changed));
    } else {
        VC_TRY(change_tensor(ctx, m, work->candidate, changed));
        VC_TRY(
            vc_output_runs_run(ctx, &m->runs, program, changed, target->n_changed, &target->changes[work->candidate]));
    }
out:
    for (size_t i = 0; changed != NULL && i < target->n_changed; i++) {
        vc_free(ctx, changed[i].values);
    }
    vc_free(ctx, changed);
    return status;
}

/* ---- threads ---- */

/* Gives out the next unit of work; none after a failure. */
static bool next_work(struct measuring *m, size_t *number)
{
    (void)pthread_mutex_lock(&m->mutex);
    bool more = m->failed == SIZE_MAX && m->next < m->n_works;
    *number = more ? m->next++ : 0;
    (void)pthread_mutex_unlock(&m->mutex);
    return more;
}

/* Counts the work as done. Of several failures that of the lowest number is kept, so that the sentence does
 * not depend on the threads.
 * Bytes of the target stand for the work that it was. */
static void end_work(struct measuring *m, const struct vc_ctx *ctx, size_t number, enum vc_status status)
{
    (void)pthread_mutex_lock(&m->mutex);
    m->done += m->targets[m->works[number].target].bytes;
    if (status != VC_OK && number < m->failed) {
        m->failed = number;
        m->failure = status;
        memcpy(m->message, ctx->message, sizeof m->message);
    }
    (void)pthread_mutex_unlock(&m->mutex);
}

/* By the thread that called into the library. */
static void tell_progress(struct measuring *m, size_t number)
{
    const struct target *target = &m->targets[m->works[number].target];
    struct vc_progress progress = {.what = "computing", .total = m->total};

    if (m->ctx->shared->progress == NULL) {
        return;
    }
    progress.tensor = m->owned->result.model->tensors[target->changed[0].tensor].name;
    (void)pthread_mutex_lock(&m->mutex);
    progress.done = m->done;
    (void)pthread_mutex_unlock(&m->mutex);
    m->ctx->shared->progress(m->ctx->shared->progress_user, &progress);
}

/* A thread: takes work until there is none. Its context is a fork, since messages are by thread. The
 * program stays for the next unit of work, which often is the same target. */
static void work_main(void *user, unsigned worker)
{
    struct measuring *m = user;
    struct vc_output_program program = {0};
    struct vc_ctx ctx;
    size_t number;

    vc_ctx_fork(m->ctx, &ctx);
    while (next_work(m, &number)) {
        end_work(m, &ctx, number, do_work(&ctx, m, &program, &m->works[number]));
        if (worker == 0) {
            tell_progress(m, number);
        }
    }
    vc_output_program_end(&ctx, &program);
}

/* As many threads as runs fit into memory: each holds a run, the values of the largest target, and what a
 * candidate makes of them.
 * One worker is always there, whatever the limit says. */
static unsigned count_workers(struct vc_ctx *ctx, const struct measuring *m)
{
    uint64_t limit = vc_ctx_max_memory(ctx);
    uint64_t used = vc_pool_in_use(ctx->shared->pool);
    uint64_t one = m->runs.run_bytes + 2 * m->largest + ((uint64_t)1 << 20);
    uint64_t fit = (limit - vc_min_u64(used, limit)) / one;

    return (unsigned)vc_max_u64(1, vc_min_u64(vc_min_u64(fit, vc_ctx_threads(ctx)), m->n_works));
}

/* Tells the estimate, from the times of the first run, then runs all threads and takes the failure over, if
 * there is one.
 * Works of one target follow each other in the list, so that its time is asked for once. */
static enum vc_status do_works(struct vc_ctx *ctx, struct measuring *m)
{
    unsigned n_workers = count_workers(ctx, m);
    double seconds = 0.0;

    for (size_t i = 0; i < m->n_works; i++) {
        const struct target *target = &m->targets[m->works[i].target];

        if (i == 0 || m->works[i - 1].target != m->works[i].target) {
            double one = vc_output_runs_seconds(ctx, &m->runs, target->changed, target->n_changed);

            for (size_t k = i; k < m->n_works && m->works[k].target == m->works[i].target; k++) {
                seconds += one > 0.0 ? one : 0.0;
            }
        }
    }
    if (m->options.estimate != NULL) {
        m->options.estimate(m->options.user, m->n_works, seconds / n_workers);
    }
    m->ctx = ctx;
    m->failed = SIZE_MAX;
    VC_REFUSE_IF(pthread_mutex_init(&m->mutex, NULL) != 0, ctx, VC_E_NOMEM, "cannot create a mutex");
    (void)vc_thread_pool_once(n_workers, work_main, m);
    (void)pthread_mutex_destroy(&m->mutex);
    if (m->failed != SIZE_MAX) {
        memcpy(ctx->message, m->message, sizeof ctx->message);
        ctx->status = m->failure;
        return m->failure;
    }
    return VC_OK;
}

/* ---- units that are really removed ---- */

/* All sparsities of one group. Where none could be computed, the first reason is that of the group. */
static enum vc_status run_removed(struct vc_ctx *ctx, struct measuring *m, struct target *target)
{
    const struct vc_coupling *group = target->group;
    VC_SCOPED bool *goes = vc_alloc_array(ctx, VC_TAG_MISC, (size_t)group->n_units, sizeof *goes);
    bool known = false;

    VC_CALL_ALLOC(goes);
    for (size_t k = 0; k < target->n_candidates; k++) {
        VC_CALL(vc_units_lowest(ctx, group, target->unit_scores, group->n_units * percents[k] / 100, goes));
        VC_CALL(vc_removed_run(ctx, &m->owned->arena, &m->runs, group, goes, &target->changes[k]));
        known |= target->changes[k].reason == NULL;
    }
    for (size_t i = 0; !known && i < m->out->n_groups; i++) {
        if (m->groups[i].changes == target->changes) {
            m->groups[i].reason = target->changes[0].reason;
            m->groups[i].changes = NULL;
        }
    }
    return VC_OK;
}

/* Targets whose change is the removal of units, one after the other. */
static enum vc_status do_removed(struct vc_ctx *ctx, struct measuring *m)
{
    for (size_t i = 0; i < m->n_targets; i++) {
        if (m->targets[i].removed) {
            VC_CALL(run_removed(ctx, m, &m->targets[i]));
        }
    }
    return VC_OK;
}

/* ---- how well one predicts the other ---- */

/* The rank correlation of two figures over all tensors: the error of the weights, and what the outputs
 * lose.
 * 1: the order is the same; 0: one says nothing about the other; NaN: there are too few tensors. */
static double agreement_of_candidate(const struct measuring *m, size_t candidate, struct vc_rank_pair *pairs)
{
    size_t n = 0;

    for (size_t i = 0; i < m->out->n_tensors; i++) {
        const struct vc_measured_tensor *t = &m->tensors[i];

        if (t->changes != NULL && t->changes[candidate].reason == NULL) {
            pairs[n++] =
                (struct vc_rank_pair){m->owned->result.rows[t->row].errors[m->out->candidates[candidate]].relative,
                                      t->changes[candidate].relative};
        }
    }
    return vc_rank_correlation(pairs, n);
}

/* The same over groups: the share of the norm, and what the outputs lose. */
static double agreement_of_groups(const struct measuring *m, size_t percent, struct vc_rank_pair *pairs)
{
    size_t n = 0;

    for (size_t i = 0; i < m->out->n_groups; i++) {
        const struct vc_measured_group *g = &m->groups[i];

        if (g->changes != NULL && g->changes[percent].reason == NULL) {
            pairs[n++] = (struct vc_rank_pair){g->relative[percent], g->changes[percent].relative};
        }
    }
    return vc_rank_correlation(pairs, n);
}

/* One agreement for each candidate, and one for each sparsity of groups. */
static enum vc_status compare_orders(struct vc_ctx *ctx, struct measuring *m)
{
    struct vc_arena *arena = &m->owned->arena;
    VC_SCOPED struct vc_rank_pair *pairs =
        vc_alloc_array(ctx, VC_TAG_MISC, m->out->n_tensors + m->out->n_groups + 1, sizeof *pairs);
    double *tensors = vc_arena_alloc(ctx, arena, (m->out->n_candidates + 1) * sizeof *tensors);
    double *groups = vc_arena_alloc(ctx, arena, N_PERCENTS * sizeof *groups);

    VC_CALL(pairs == NULL || tensors == NULL || groups == NULL ? VC_E_NOMEM : VC_OK);
    for (size_t k = 0; k < m->out->n_candidates; k++) {
        tensors[k] = agreement_of_candidate(m, k, pairs);
    }
    for (size_t k = 0; k < N_PERCENTS; k++) {
        groups[k] = agreement_of_groups(m, k, pairs);
    }
    m->out->agreement = tensors;
    m->out->group_agreement = groups;
    return VC_OK;
}

/* ---- the call ---- */

/* Runs of one batch, which begin where the batch does. The values that it keeps may take half of the memory
 * that is left, divided by the batches that are still to come. */
static enum vc_status begin_runs(struct vc_ctx *ctx, struct measuring *m, struct vc_output_runs *runs, uint64_t first)
{
    const struct vc_graph_inputs *inputs = &m->inputs;
    uint64_t limit = vc_ctx_max_memory(ctx);
    uint64_t n_left = m->options.batch == 0 ? 1 : (inputs->n_rows - first) / m->options.batch; /* batches */
    struct vc_graph_array *rows = inputs->arrays;

    if (m->options.batch != 0) {
        VC_CALL_ALLOC(rows = vc_arena_alloc(ctx, &m->owned->arena, (inputs->n + 1) * sizeof *rows));
        VC_CALL(vc_graph_inputs_rows(ctx, &m->inputs, first, m->options.batch, rows));
    }
    *runs =
        (struct vc_output_runs){.graph = m->options.graph,
                                .model = m->owned->result.model,
                                .other = m->options.graph_model,
                                .arrays = rows,
                                .n_arrays = inputs->n,
                                .first = runs == &m->runs ? NULL : &m->runs,
                                .budget = (limit - vc_min_u64(limit, vc_pool_in_use(ctx->shared->pool))) / 2 / n_left};
    return vc_output_runs_begin(ctx, runs);
}

/* A list of runs, one for each batch. Batches are of equal size, since programs are made for one size. */
static enum vc_status begin_all_runs(struct vc_ctx *ctx, struct measuring *m)
{
    struct vc_output_runs *runs = &m->runs;
    uint64_t batch = m->options.batch;

    VC_REFUSE_IF(batch != 0 && (m->inputs.n_rows == 0 || m->inputs.n_rows % batch != 0), ctx, VC_E_ARGUMENT,
                 "%s %llu does not divide the %llu rows; %s says how many are taken", vc_option(ctx, "batch"),
                 (unsigned long long)batch, (unsigned long long)m->inputs.n_rows, vc_option(ctx, "n_rows"));
    VC_CALL(begin_runs(ctx, m, runs, 0));
    for (uint64_t first = batch; batch != 0 && first < m->inputs.n_rows; first += batch) {
        struct vc_output_runs *next = vc_arena_alloc(ctx, &m->owned->arena, sizeof *next);

        VC_CALL_ALLOC(next);
        *next = (struct vc_output_runs){.graph = m->options.graph};
        runs->next = next;
        runs = next;
        VC_CALL(begin_runs(ctx, m, runs, first));
    }
    return VC_OK;
}

/* All of it, in the order of the list at the top of this file. */
static enum vc_status measure(struct vc_ctx *ctx, struct measuring *m)
{
    const struct vc_graph_inputs_from from = {.path = m->options.data,
                                              .arrays = m->options.arrays,
                                              .n_arrays = m->options.n_arrays,
                                              .scale = m->options.scale,
                                              .mean = m->options.mean,
                                              .deviation = m->options.deviation,
                                              .length = m->options.length,
                                              .token_bits = m->options.token_bits,
                                              .tokenizer = m->owned->result.model->path,
                                              .n_rows = m->options.n_rows,
                                              .measured = true,
                                              .batch = m->options.batch};

    VC_CALL(vc_graph_inputs_read(ctx, m->options.graph, &from, &m->inputs));
    VC_CALL(begin_all_runs(ctx, m));
    m->out->n_rows = m->inputs.n_rows;
    VC_CALL(list_candidates(ctx, m));
    VC_CALL(list_targets(ctx, m));
    VC_CALL(list_works(ctx, m));
    VC_CALL(do_works(ctx, m));
    VC_CALL(do_removed(ctx, m));
    return compare_orders(ctx, m);
}

/* The result becomes part of the sensitivity only if all of it is there. */
enum vc_status vc_sensitivity_measure(struct vc_ctx *ctx, struct vc_sensitivity *sensitivity,
                                      const struct vc_sensitivity_data_options *options)
{
    struct measuring m = {.owned = (struct vc_sensitivity_owned *)(void *)sensitivity};
    struct vc_measured found = {0};
    enum vc_status status;

    vc_call_begin(ctx);
    m.out = &found;
    VC_TRY(vc_options_read(ctx, VC_OPTIONS(sensitivity_data), options, &m.options));
    if (m.options.graph == NULL || m.options.data == NULL) {
        status = vc_fail(ctx, VC_E_ARGUMENT, "%s has to be set: %s",
                         vc_option(ctx, m.options.graph == NULL ? "graph" : "data"),
                         m.options.graph == NULL ? "what the model computes" : "the inputs of the model");
        goto out;
    }
    status = measure(ctx, &m);
    VC_TRY(vc_model_unchanged(ctx, sensitivity->model, status));
    m.owned->measured = found;
    sensitivity->measured = &m.owned->measured;
    status = vc_sensitivity_advise(ctx, m.owned); /* anew, from what the outputs lose */
out:
    vc_output_runs_end(ctx, &m.runs);
    vc_graph_inputs_release(ctx, &m.inputs);
    vc_result_free(m.couplings);
    VC_FREE_ALL(ctx, m.targets, m.works);
    return vc_call_end(ctx, status);
}
