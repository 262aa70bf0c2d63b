/* aim_choose.c - from what the probes found to a candidate for every tensor.
 *
 * An error: of the candidates that reach the error, the candidate with the fewest bytes; a tensor without such a
 * candidate stays as it is.
 *
 * A size: the sum of squared errors over all tensors is to be as small as the file allows. A loss: the smallest size whose
 * choice stays below it. Both are found by search/search_parts.c. With costs that were measured on the outputs of the model,
 * their squares take the place of squared errors. */
#include "quantize/aim.h"

#include <math.h>

#include "core/job/job_passes.h"
#include "core/job/totals.h"

#define KEEP       UINT32_MAX /* in place of the number of a candidate */
#define SAME_ERROR 1e-4       /* errors of the same weights and scheme are equal but for the order of sums */

/* Beside the part of the same number. */
struct tensor {
    size_t item;      /* the first one of those that get the same; the others are next of each other */
    uint64_t applied; /* the candidate that it has the steps of; NOTHING: none yet */
    double sum_x2;
};
#define NOTHING UINT64_MAX

/* While vc_aim_decide runs. */
struct choosing {
    struct vc_ctx *ctx;
    const struct vc_aim *aim;
    struct vc_plan *plan;
    struct vc_search_whole whole; /* a part for each of the tensors */
    struct tensor *tensors;
    size_t *next; /* by item: the one that gets the same, or SIZE_MAX */
    struct vc_search_point *points;
    size_t n_points;
    const char *why;
    bool sampled;      /* errors of large tensors are those of parts of them */
    const char *other; /* the first tensor whose weights are not those that costs were measured on; NULL: none */
};

/* ---- what the probes found ---- */

/* What the candidate costs by the figures of its tensor, n of them: its own, or that of the nearest error. */
static double cost_of(const struct choosing *c, const struct vc_measured_cost *costs, size_t n,
                      const struct vc_candidate_result *r)
{
    const char *name = c->aim->candidates[r->candidate].name;
    double error = sqrt(r->sum_e2 / r->sum_x2);
    double cost = r->sum_e2 == 0.0 ? 0.0 : (double)INFINITY;
    double nearest = (double)INFINITY;

    for (size_t i = 0; i < n; i++) {
        double ratio = costs[i].weights / error;
        double apart = ratio < 1.0 ? 1.0 / ratio : ratio;

        if (strcmp(costs[i].scheme, name) == 0) {
            return costs[i].outputs * costs[i].outputs;
        }
        if (costs[i].weights > 0.0 && error > 0.0 && apart < nearest) {
            nearest = apart;
            cost = costs[i].outputs * error / costs[i].weights * costs[i].outputs * error / costs[i].weights;
        }
    }
    return cost;
}

/* Costs carry the error of the weights that each scheme made: with the same weights it is the error found now. Not
 * where statistics weigh errors. */
static void check_weights(struct choosing *c, const char *name, const struct vc_measured_cost *costs, size_t n,
                          const struct vc_candidate_result *r)
{
    const struct vc_aim_candidate *candidate = &c->aim->candidates[r->candidate];
    double error = sqrt(r->sum_e2 / r->sum_x2);

    for (size_t i = 0; i < n && candidate->options.calibration == NULL && c->other == NULL; i++) {
        if (strcmp(costs[i].scheme, candidate->name) == 0 && fabs(costs[i].weights - error) > SAME_ERROR * error) {
            c->other = name;
        }
    }
}

/* The points of an item, in the order of candidates; the last one keeps it. Returns how many. */
static size_t find_points(struct choosing *c, const struct vc_item *item, struct vc_search_point *points,
                          double *sum_x2)
{
    const char *name = c->plan->model->tensors[item->source].name;
    bool sampled = false;
    uint64_t bytes_kept;
    size_t n_results;
    const struct vc_candidate_result *results =
        vc_aim_probe_results(vc_aim_probe_of(item), &n_results, &bytes_kept, &sampled);
    size_t first = 0;
    size_t last;
    size_t n = 0;

    c->sampled = c->sampled || sampled;
    while (first < c->aim->n_costs && strcmp(c->aim->costs[first].tensor, name) != 0) {
        first++;
    }
    for (last = first; last < c->aim->n_costs && strcmp(c->aim->costs[last].tensor, name) == 0;) {
        last++;
    }
    *sum_x2 = 0.0;
    for (size_t i = 0; i < n_results; i++) {
        double error =
            c->aim->n_costs == 0 ? results[i].sum_e2 : cost_of(c, c->aim->costs + first, last - first, &results[i]);

        if (!results[i].refused && error < (double)INFINITY) {
            points[n++] = (struct vc_search_point){results[i].candidate, results[i].bytes, error,
                                                   vc_sqnr_db(results[i].sum_x2, results[i].sum_e2)};
            *sum_x2 = fmax(*sum_x2, results[i].sum_x2); /* but for f64 they are the same */
            if (!sampled && c->aim->n_costs != 0) {
                check_weights(c, name, c->aim->costs + first, last - first, &results[i]);
            }
        }
    }
    points[n++] = (struct vc_search_point){KEEP, bytes_kept, 0.0, (double)INFINITY};
    return n;
}

/* The points that both lists have, of both together; the aim at an error is one for each tensor. */
static size_t join_points(struct vc_search_point *points, size_t n, const struct vc_search_point *more, size_t n_more)
{
    size_t n_both = 0;
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        while (k < n_more && more[k].number < points[i].number) {
            k++;
        }
        if (k < n_more && more[k].number == points[i].number) {
            points[n_both++] =
                (struct vc_search_point){points[i].number, points[i].bytes + more[k].bytes,
                                         points[i].error + more[k].error, fmin(points[i].sqnr_db, more[k].sqnr_db)};
        }
    }
    return n_both;
}

/* The points of a tensor and of those that get the same: sorted, without those that are no smaller and no more exact
 * than another. */
static void list_points(struct choosing *c, struct tensor *t, struct vc_search_part *part)
{
    struct vc_search_point *points = c->points + c->n_points;
    struct vc_search_point more[VC_AIM_CANDIDATES + 1];
    size_t n = find_points(c, &c->plan->items[t->item], points, &t->sum_x2);

    for (size_t i = c->next[t->item]; i != SIZE_MAX; i = c->next[i]) {
        double sum_x2;
        size_t n_more = find_points(c, &c->plan->items[i], more, &sum_x2);

        n = join_points(points, n, more, n_more);
        t->sum_x2 += sum_x2;
    }
    n = vc_search_front(points, n);
    *part = (struct vc_search_part){.n = n, .points = points, .chosen = n - 1};
    c->n_points += n;
}

/* The tensors with a probe; those of one kind become one entry, which chooses for all of them. */
static enum vc_status list_tensors(struct choosing *c)
{
    size_t last = SIZE_MAX; /* of one kind with others */
    size_t n = 0;

    for (size_t i = 0; i < c->plan->n_items; i++) {
        n += vc_aim_probe_of(&c->plan->items[i]) != NULL;
    }
    VC_CALL_ALLOC(c->tensors = vc_calloc_array(c->ctx, VC_TAG_MISC, n, sizeof *c->tensors));
    VC_CALL_ALLOC(c->points = vc_calloc_array(c->ctx, VC_TAG_MISC, n * (c->aim->n_candidates + 1), sizeof *c->points));
    VC_CALL_ALLOC(c->whole.parts = vc_calloc_array(c->ctx, VC_TAG_MISC, n, sizeof *c->whole.parts));
    VC_CALL(VC_ARRAY(c->ctx, VC_TAG_MISC, c->next, c->plan->n_items));
    for (size_t i = 0; i < c->plan->n_items; i++) {
        const struct vc_item *item = &c->plan->items[i];

        c->next[i] = SIZE_MAX;
        if (vc_aim_probe_of(item) == NULL) {
            continue;
        }
        if (vc_scheme_of_one_kind(item) && last != SIZE_MAX) {
            c->next[last] = i;
        } else {
            c->tensors[c->whole.n++] = (struct tensor){.item = i, .applied = NOTHING};
        }
        last = vc_scheme_of_one_kind(item) ? i : last;
    }
    for (size_t i = 0; i < c->whole.n; i++) {
        list_points(c, &c->tensors[i], &c->whole.parts[i]);
    }
    return VC_OK;
}

static const struct vc_search_point *chosen(const struct vc_search_part *part)
{
    return &part->points[part->chosen];
}

/* ---- steps in place of probes ---- */

/* The probe, or the steps of an earlier choice, are taken back first. */
static enum vc_status apply_to(struct choosing *c, const struct vc_search_point *point, struct vc_item *item)
{
    const struct vc_aim_candidate *candidate;

    vc_item_undo(c->ctx, item);
    if (point->number == KEEP) {
        return vc_item_keep_as(c->ctx, item,
                               c->aim->budget.file_bytes != 0 ? c->why : "nothing smaller reaches the aim");
    }
    candidate = &c->aim->candidates[point->number];
    enum vc_dtype weights = vc_desc_weight_dtype(item->desc);
    if (vc_scheme_decode(c->ctx, candidate->row, item) != VC_OK ||
        vc_aim_candidate_add(c->ctx, item, candidate, weights) != VC_OK) {
        return vc_context(c->ctx, "%s", c->plan->model->tensors[item->source].name);
    }
    for (size_t k = item->chain->pass_first; k < item->chain->n_steps; k++) {
        item->chain->steps[k]->calibrate = false; /* the probe looked already */
    }
    item->chain->steps[item->chain->n_steps - 1]->why = c->why;
    return VC_OK;
}

/* Nothing is done where a tensor has the steps of its point already: laying out is repeated many times. */
static enum vc_status apply(struct choosing *c)
{
    for (size_t i = 0; i < c->whole.n; i++) {
        const struct vc_search_point *point = chosen(&c->whole.parts[i]);
        struct tensor *t = &c->tensors[i];

        for (size_t k = t->item; k != SIZE_MAX && t->applied != point->number; k = c->next[k]) {
            VC_CALL(apply_to(c, point, &c->plan->items[k]));
        }
        t->applied = point->number;
    }
    return VC_OK;
}

/* vc_search_whole.lay_out */
static enum vc_status lay_out(void *choosing, uint64_t *file_bytes)
{
    struct choosing *c = choosing;

    VC_CALL(apply(c));
    return vc_plan_file_bytes(c->ctx, c->plan, file_bytes);
}

/* ---- the aims ---- */

/* Points come from the smallest on, and the last one has no error. */
static void choose_by_error(struct choosing *c)
{
    for (size_t i = 0; i < c->whole.n; i++) {
        struct vc_search_part *part = &c->whole.parts[i];

        part->chosen = 0;
        while (chosen(part)->sqnr_db < c->aim->sqnr_db) {
            part->chosen++;
        }
    }
}

/* Loaders want codes of all weights of one kind or, where nothing else has codes, of none. So these stay as they are
 * only if all of the file does, which is tried first; *done: it fits. */
static enum vc_status keep_or_bar(struct choosing *c, bool *done)
{
    bool any = false;
    uint64_t file = 0;

    for (size_t i = 0; i < c->whole.n; i++) {
        any = any || vc_scheme_of_one_kind(&c->plan->items[c->tensors[i].item]);
    }
    *done = false;
    if (!any) {
        return VC_OK;
    }
    VC_CALL(lay_out(c, &file)); /* the last points, of no error */
    *done = vc_search_within(&c->aim->budget, file, NULL);
    for (size_t i = 0; i < c->whole.n && !*done; i++) {
        struct vc_search_part *part = &c->whole.parts[i];

        if (vc_scheme_of_one_kind(&c->plan->items[c->tensors[i].item]) && part->n > 1 && chosen(part)->number == KEEP) {
            part->n--;
            part->chosen--;
        }
    }
    return VC_OK;
}

/* ---- all of it ---- */

/* ", no choice of that size has more than 42.2": in bytes for a loss, else as the sum of errors is told. */
static const char *tell_errors(struct choosing *c, struct vc_arena *arena, const char *text, double x2)
{
    bool costs = c->aim->n_costs != 0;

    if (vc_search_error(&c->whole) > 0.0) {
        text = costs ? vc_arena_printf(c->ctx, arena, "%s; %.3g %% of the outputs, if what each does alone adds up",
                                       text, 100.0 * sqrt(vc_search_error(&c->whole)))
                     : vc_arena_printf(c->ctx, arena, "%s; SQNR over these %.1f dB", text,
                                       vc_sqnr_db(x2, vc_search_error(&c->whole)));
    }
    if (text == NULL || !(c->whole.bound > 0.0) ||
        (c->aim->loss == 0.0 && c->whole.bound > vc_search_error(&c->whole))) {
        return text; /* no bound, or one that is lost in the rounding of errors of very different sizes */
    }
    if (c->aim->loss > 0.0) {
        return vc_arena_printf(c->ctx, arena, "%s, in %llu bytes, no choice below that loss has fewer than %.0f", text,
                               (unsigned long long)vc_search_bytes(&c->whole), ceil(c->whole.bound));
    }
    return costs ? vc_arena_printf(c->ctx, arena, "%s, no choice of that size has less than %.3g %%", text,
                                   100.0 * sqrt(c->whole.bound))
                 : vc_arena_printf(c->ctx, arena, "%s, no choice of that size has more than %.1f", text,
                                   vc_sqnr_db(x2, c->whole.bound));
}

/* "the smallest that has 40 dB: int8/channel 30, f16 2, as they are 1; SQNR over these 42.1 dB" */
static enum vc_status describe(struct choosing *c, struct vc_arena *arena, const char **note)
{
    size_t counts[VC_AIM_CANDIDATES] = {0};
    const char *labels[VC_AIM_CANDIDATES] = {NULL};
    const char *text = "";
    const char *mixed = "";
    double x2 = 0.0;
    size_t kept = 0;
    size_t n = 0;

    for (size_t i = 0; i < c->whole.n; i++) {
        const struct tensor *t = &c->tensors[i];
        const struct vc_item *item = &c->plan->items[t->item];
        uint32_t candidate = chosen(&c->whole.parts[i])->number;

        x2 += t->sum_x2;
        for (size_t k = t->item; k != SIZE_MAX; k = c->next[k]) {
            *(candidate == KEEP ? &kept : &counts[candidate]) += 1;
        }
        if (candidate != KEEP) {
            labels[candidate] = item->chain->steps[item->chain->n_steps - 1]->scheme;
        }
    }
    for (size_t i = 0; i < c->aim->n_candidates && text != NULL; i++) {
        if (counts[i] != 0) {
            mixed = n++ != 0 && c->aim->budget.file_bytes != 0 && c->aim->n_costs == 0
                        ? ", by errors of weights alone, so that a mix may lose more than one scheme for all"
                        : "";
            text =
                vc_arena_printf(c->ctx, arena, "%s%s%s %zu", text, text[0] == '\0' ? "" : ", ", labels[i], counts[i]);
        }
    }
    if (kept != 0 && text != NULL) {
        text = vc_arena_printf(c->ctx, arena, "%s%sas they are %zu", text, text[0] == '\0' ? "" : ", ", kept);
    }
    VC_CALL_ALLOC(text);
    if (c->whole.n == 0) {
        text = "no tensor that it could be chosen for";
    }
    VC_CALL_ALLOC(text = tell_errors(c, arena, text, x2));
    *note = vc_arena_printf(c->ctx, arena, "%s%s%s: %s", c->why, mixed,
                            c->sampled ? ", by parts of each large tensor" : "", text);
    if (*note != NULL && c->other != NULL) {
        *note = vc_arena_printf(c->ctx, arena, "%s; the costs were measured on other weights: %s", *note, c->other);
    }
    return *note == NULL ? VC_E_NOMEM : VC_OK;
}

enum vc_status vc_aim_decide(struct vc_ctx *ctx, const struct vc_aim *aim, struct vc_plan *plan, struct vc_arena *arena,
                             const char **note)
{
    struct choosing c = {.ctx = ctx, .aim = aim, .plan = plan};
    enum vc_status status = VC_OK;
    bool kept = false;

    c.why =
        aim->loss > 0.0
            ? vc_arena_printf(ctx, plan->arena, "the smallest below %g %% of the outputs", 100.0 * aim->loss)
        : aim->budget.file_bytes != 0
            ? vc_arena_printf(ctx, plan->arena, "for a file of %llu bytes", (unsigned long long)aim->budget.file_bytes)
            : vc_arena_printf(ctx, plan->arena, "the smallest that has %g dB", aim->sqnr_db);
    VC_TRY_ALLOC(c.why);
    VC_TRY(list_tensors(&c));
    c.whole.lay_out = lay_out;
    c.whole.user = &c;
    if (aim->budget.file_bytes != 0) {
        VC_TRY(keep_or_bar(&c, &kept));
        if (!kept) {
            VC_TRY(vc_search_by_size(ctx, &c.whole, &aim->budget));
        }
    } else if (aim->loss > 0.0) {
        VC_TRY(vc_search_by_error(ctx, &c.whole, aim->loss * aim->loss));
    } else {
        choose_by_error(&c);
    }
    VC_TRY(apply(&c));
    VC_TRY(describe(&c, arena, note));
out:
    VC_FREE_ALL(ctx, c.tensors, c.next, c.points, c.whole.parts);
    return status;
}
