/* aim_choose.c - from what the probes found to a candidate for every tensor.
 *
 * An error: of the candidates that reach the error, the candidate with the fewest bytes; a tensor without such a
 * candidate stays as it is.
 *
 * A size: the sum of squared errors over all tensors is to be as small as the file allows. Every tensor begins as it
 * is. Then steps to smaller candidates are taken, those first that add the least error per byte, until the file is
 * small enough. The last one may make it much smaller than it has to be, so it is also tried without that one; and
 * where aim_exact.c finds a better choice in time, that is taken:
 *
 *     error |*  int8/tensor                 of the candidates of a tensor those on the lower hull are steps;
 *           |  *  int8/channel              what lies above it (x) is only used to fill what is left at the end
 *           |     x   *  f16
 *           +---------------- * as it is
 *                        bytes
 *
 * A loss: the smallest size whose choice stays below it.
 *
 * With costs that were measured on the outputs of the model, their squares take the place of squared errors.
 *
 * The file's own overhead (headers, names of scales) is measured by laying the output out, and taken off the size;
 * where there are few tensors, what each candidate takes of it counts as its bytes. All comparisons have an order for
 * equal values, so the same input gives the same choice. */
#include "quantize/aim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/job/job_passes.h"
#include "core/job/totals.h"
#include "quantize/aim_exact.h"

#define KEEP       UINT32_MAX /* in place of the number of a candidate */
#define ROUNDS     8          /* of choosing, laying out and choosing again */
#define LAID_OUT   64         /* tensors of which every candidate is laid out to see what it takes beside its bytes */
#define SAME_ERROR 1e-4       /* errors of the same weights and scheme are equal but for the order of sums */

struct tensor {
    size_t item;     /* the first one of those that get the same; the others are next of each other */
    size_t first, n; /* its points, from the smallest to the tensor as it is */
    size_t chosen;   /* of its points */
    size_t barred;   /* no step leads below this one */
    size_t applied;  /* of which it has the steps; SIZE_MAX: none yet */
    double sum_x2;
};

/* A step from one point of a tensor to a smaller one, both on its hull. */
struct edge {
    size_t tensor, to;
    double error;   /* more */
    uint64_t bytes; /* fewer */
};

/* While vc_aim_decide runs. The arrays of sizes n are by tensor. */
struct choosing {
    struct vc_ctx *ctx;
    const struct vc_aim *aim;
    struct vc_plan *plan;
    size_t n, n_points, n_edges;
    struct tensor *tensors;
    size_t *next; /* by item: the one that gets the same, or SIZE_MAX */
    struct vc_aim_point *points;
    struct edge *edges;
    size_t *best;                /* chosen points of the best choice that fits; behind them as many of choose_by_size */
    struct vc_aim_points *lists; /* by tensor: its points */
    double bound;                /* no choice of this size has less error */
    const char *why;
    bool sampled;      /* errors of large tensors are those of parts of them */
    const char *other; /* the first tensor whose weights are not those that costs were measured on; NULL: none */
};

/* ---- what the probes found ---- */

static int by_bytes(const void *a, const void *b)
{
    const struct vc_aim_point *x = a;
    const struct vc_aim_point *y = b;

    if (x->bytes != y->bytes) {
        return x->bytes < y->bytes ? -1 : 1;
    }
    if (x->error != y->error) {
        return x->error < y->error ? -1 : 1;
    }
    return x->candidate < y->candidate ? -1 : x->candidate > y->candidate;
}

/* The n points from t->first on are those of the tensor: sorts them, and drops those that are no smaller and no more
 * exact than another. */
static void sort_points(struct choosing *c, struct tensor *t, size_t n)
{
    struct vc_aim_point *points = c->points + t->first;

    qsort(points, n, sizeof *points, by_bytes);
    t->n = 0;
    for (size_t i = 0; i < n; i++) {
        if (t->n == 0 || points[i].error < points[t->n - 1].error) {
            points[t->n++] = points[i];
        }
    }
    t->chosen = t->n - 1;
    t->applied = SIZE_MAX;
}

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
static size_t find_points(struct choosing *c, const struct vc_item *item, struct vc_aim_point *points, double *sum_x2)
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
            points[n++] = (struct vc_aim_point){results[i].candidate, results[i].bytes, error,
                                                vc_sqnr_db(results[i].sum_x2, results[i].sum_e2)};
            *sum_x2 = fmax(*sum_x2, results[i].sum_x2); /* but for f64 they are the same */
            if (!sampled && c->aim->n_costs != 0) {
                check_weights(c, name, c->aim->costs + first, last - first, &results[i]);
            }
        }
    }
    points[n++] = (struct vc_aim_point){KEEP, bytes_kept, 0.0, (double)INFINITY};
    return n;
}

/* The points that both lists have, of both together; the aim at an error is one for each tensor. */
static size_t join_points(struct vc_aim_point *points, size_t n, const struct vc_aim_point *more, size_t n_more)
{
    size_t n_both = 0;
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        while (k < n_more && more[k].candidate < points[i].candidate) {
            k++;
        }
        if (k < n_more && more[k].candidate == points[i].candidate) {
            points[n_both++] =
                (struct vc_aim_point){points[i].candidate, points[i].bytes + more[k].bytes,
                                      points[i].error + more[k].error, fmin(points[i].sqnr_db, more[k].sqnr_db)};
        }
    }
    return n_both;
}

/* The points of a tensor and of those that get the same: sorted, without those that are no smaller and no more exact
 * than another. */
static void list_points(struct choosing *c, struct tensor *t)
{
    struct vc_aim_point *points = c->points + c->n_points;
    struct vc_aim_point more[VC_AIM_CANDIDATES + 1];
    size_t n = find_points(c, &c->plan->items[t->item], points, &t->sum_x2);

    for (size_t i = c->next[t->item]; i != SIZE_MAX; i = c->next[i]) {
        double sum_x2;
        size_t n_more = find_points(c, &c->plan->items[i], more, &sum_x2);

        n = join_points(points, n, more, n_more);
        t->sum_x2 += sum_x2;
    }
    t->first = c->n_points;
    sort_points(c, t, n);
    c->n_points += t->n;
}

/* The tensors with a probe; those of one kind become one entry, which chooses for all of them. */
static enum vc_status list_tensors(struct choosing *c)
{
    size_t last = SIZE_MAX; /* of one kind with others */
    size_t n = 0;

    for (size_t i = 0; i < c->plan->n_items; i++) {
        n += vc_aim_probe_of(&c->plan->items[i]) != NULL;
    }
    c->tensors = vc_calloc_array(c->ctx, VC_TAG_MISC, n, sizeof *c->tensors);
    VC_CALL_ALLOC(c->tensors);
    c->points = vc_calloc_array(c->ctx, VC_TAG_MISC, n * (c->aim->n_candidates + 1), sizeof *c->points);
    VC_CALL_ALLOC(c->points);
    c->best = vc_calloc_array(c->ctx, VC_TAG_MISC, 2 * n, sizeof *c->best);
    VC_CALL_ALLOC(c->best);
    c->lists = vc_calloc_array(c->ctx, VC_TAG_MISC, n, sizeof *c->lists);
    VC_CALL_ALLOC(c->lists);
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
            c->tensors[c->n++].item = i;
        }
        last = vc_scheme_of_one_kind(item) ? i : last;
    }
    for (size_t i = 0; i < c->n; i++) {
        list_points(c, &c->tensors[i]);
    }
    return VC_OK;
}

static const struct vc_aim_point *chosen(const struct choosing *c, const struct tensor *t)
{
    return &c->points[t->first + t->chosen];
}

/* ---- steps in place of probes ---- */

/* The probe, or the steps of an earlier choice, are taken back first. */
static enum vc_status apply_to(struct choosing *c, const struct vc_aim_point *point, struct vc_item *item)
{
    const struct vc_aim_candidate *candidate;

    vc_item_undo(c->ctx, item);
    if (point->candidate == KEEP) {
        return vc_item_keep_as(c->ctx, item, c->aim->file_bytes != 0 ? c->why : "nothing smaller reaches the aim");
    }
    candidate = &c->aim->candidates[point->candidate];
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

/* Nothing is done where the tensor has the steps of that point already: laying out is repeated many times. */
static enum vc_status apply_one(struct choosing *c, struct tensor *t)
{
    for (size_t i = t->item; i != SIZE_MAX && t->applied != t->chosen; i = c->next[i]) {
        VC_CALL(apply_to(c, chosen(c, t), &c->plan->items[i]));
    }
    t->applied = t->chosen;
    return VC_OK;
}

static enum vc_status apply(struct choosing *c)
{
    for (size_t i = 0; i < c->n; i++) {
        VC_CALL(apply_one(c, &c->tensors[i]));
    }
    return VC_OK;
}

static uint64_t total_bytes(const struct choosing *c)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < c->n; i++) {
        bytes += chosen(c, &c->tensors[i])->bytes;
    }
    return bytes;
}

static double total_error(const struct choosing *c)
{
    double error = 0.0;

    for (size_t i = 0; i < c->n; i++) {
        error += chosen(c, &c->tensors[i])->error;
    }
    return error;
}

/* ---- an error ---- */

/* Points come from the smallest on, and the last one has no error. */
static void choose_by_error(struct choosing *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct tensor *t = &c->tensors[i];

        t->chosen = 0;
        while (chosen(c, t)->sqnr_db < c->aim->sqnr_db) {
            t->chosen++;
        }
    }
}

/* ---- a size ---- */

static int by_price(const void *a, const void *b)
{
    const struct edge *x = a;
    const struct edge *y = b;
    double p = x->error / (double)x->bytes;
    double q = y->error / (double)y->bytes;

    if (p != q) {
        return p < q ? -1 : 1;
    }
    if (x->tensor != y->tensor) {
        return x->tensor < y->tensor ? -1 : 1;
    }
    return x->to > y->to ? -1 : x->to < y->to; /* of one tensor the larger first */
}

/* The steps of every tensor along its hull, the cheapest first. From each point the next one is that with the least
 * error per byte, so prices rise along a tensor, and sorted edges of it are in their order. */
static enum vc_status list_edges(struct choosing *c)
{
    c->edges = vc_calloc_array(c->ctx, VC_TAG_MISC, c->n_points, sizeof *c->edges);
    VC_CALL_ALLOC(c->edges);
    for (size_t i = 0; i < c->n; i++) {
        const struct tensor *t = &c->tensors[i];
        const struct vc_aim_point *points = c->points + t->first;
        size_t at = t->n - 1;

        while (at > 0) {
            struct edge least = {0};

            for (size_t to = at; to-- > 0;) {
                struct edge edge = {i, to, points[to].error - points[at].error, points[at].bytes - points[to].bytes};

                if (least.bytes == 0 ||
                    edge.error / (double)edge.bytes <= least.error / (double)least.bytes) { /* equal: the farther */
                    least = edge;
                }
            }
            c->edges[c->n_edges++] = least;
            at = least.to;
        }
    }
    qsort(c->edges, c->n_edges, sizeof *c->edges, by_price);
    return VC_OK;
}

/* Takes steps, the cheapest first, until the tensors take at most `room` bytes together, or as far as it goes; then
 * goes back where the last one left room for it, the dearest first. No step leads a tensor below the point that it is
 * barred from. Returns the last step that was taken; n_edges: none. */
static size_t take_steps(struct choosing *c, uint64_t room)
{
    size_t last = c->n_edges;
    size_t i;

    for (i = 0; i < c->n; i++) {
        c->tensors[i].chosen = c->tensors[i].n - 1;
    }
    uint64_t bytes = total_bytes(c);
    for (i = 0; i < c->n_edges && bytes > room; i++) {
        struct tensor *t = &c->tensors[c->edges[i].tensor];

        if (c->edges[i].to >= t->barred) {
            t->chosen = c->edges[i].to;
            bytes -= c->edges[i].bytes;
            last = i;
        }
    }
    /* Back along the steps that were taken, for tensors that may grow within what is left. */
    while (i-- > 0 && bytes <= room) {
        struct tensor *t = &c->tensors[c->edges[i].tensor];
        uint64_t from = chosen(c, t)->bytes;

        while (t->chosen + 1 < t->n && c->points[t->first + t->chosen + 1].bytes - from <= room - bytes) {
            t->chosen++;
        }
        bytes += chosen(c, t)->bytes - from;
    }
    return last;
}

/* The best that is found without the last steps of one choice after the other, while each is better than before. */
static void choose_by_size(struct choosing *c, uint64_t room)
{
    double best = (double)INFINITY;
    size_t *points = c->best + c->n; /* of the best choice of this call */
    size_t last = c->n_edges;

    for (size_t i = 0; i < c->n; i++) {
        c->tensors[i].barred = 0;
    }
    do {
        if (last != c->n_edges) {
            c->tensors[c->edges[last].tensor].barred = c->edges[last].to + 1;
        }
        last = take_steps(c, room);
        double error = total_error(c);
        if (best < (double)INFINITY && (total_bytes(c) > room || !(error < best))) {
            break;
        }
        best = error;
        for (size_t i = 0; i < c->n; i++) {
            points[i] = c->tensors[i].chosen;
        }
    } while (last != c->n_edges && total_bytes(c) <= room);
    for (size_t i = 0; i < c->n; i++) {
        c->tensors[i].chosen = points[i];
    }
}

/* What a byte costs where the cheapest steps just fill the room. */
static double price_of(struct choosing *c, uint64_t room)
{
    uint64_t bytes = 0;
    size_t i;

    for (i = 0; i < c->n; i++) {
        bytes += c->points[c->tensors[i].first + c->tensors[i].n - 1].bytes;
    }
    for (i = 0; i < c->n_edges && bytes > room; i++) {
        bytes -= c->edges[i].bytes;
    }
    return i == 0 ? 0.0 : c->edges[i - 1].error / (double)c->edges[i - 1].bytes;
}

/* The same choice, or the best one where it can be found. */
static enum vc_status improve(struct choosing *c, uint64_t room)
{
    double price = price_of(c, room);
    double error = total_bytes(c) <= room ? total_error(c) : (double)INFINITY;
    bool better = false;

    for (size_t i = 0; i < c->n; i++) {
        c->lists[i] = (struct vc_aim_points){c->tensors[i].n, c->points + c->tensors[i].first};
    }
    c->bound = vc_aim_bound(c->lists, c->n, room, price);
    if (error > 0.0 && error < (double)INFINITY) {
        VC_CALL(vc_aim_exact(c->ctx, c->lists, c->n, room, price, error, c->best + c->n, &better));
    }
    for (size_t i = 0; i < c->n && better; i++) {
        c->tensors[i].chosen = c->best[c->n + i];
    }
    return VC_OK;
}

/* Counts what each candidate takes in the file beside its bytes (a scale is a member with headers of its own) as bytes
 * of it, so that candidates are compared by what they really save. Members may be aligned, so these are not exact to
 * the last. */
static enum vc_status add_overheads(struct choosing *c)
{
    uint64_t whole = 0;

    if (c->n > LAID_OUT) {
        return VC_OK;
    }
    VC_CALL(apply(c)); /* every tensor as it is */
    VC_CALL(vc_plan_file_bytes(c->ctx, c->plan, &whole));
    for (size_t i = 0; i < c->n; i++) {
        struct tensor *t = &c->tensors[i];
        struct vc_aim_point *points = c->points + t->first;
        size_t n = t->n;

        for (size_t p = 0; p + 1 < n; p++) {
            uint64_t file = 0;

            t->chosen = p;
            VC_CALL(apply_one(c, t));
            VC_CALL(vc_plan_file_bytes(c->ctx, c->plan, &file));
            uint64_t without = whole - (points[n - 1].bytes - points[p].bytes);
            points[p].bytes += file > without ? file - without : 0;
        }
        t->chosen = n - 1;
        VC_CALL(apply_one(c, t));
    }
    for (size_t i = 0; i < c->n; i++) {
        sort_points(c, &c->tensors[i], c->tensors[i].n);
    }
    return VC_OK;
}

static void remember(struct choosing *c)
{
    for (size_t i = 0; i < c->n; i++) {
        c->best[i] = c->tensors[i].chosen;
    }
}

/* The smallest file there can be comes first: it tells what the file has beside the tensors, and is what is left where
 * nothing fits. */
static enum vc_status choose_for_file(struct choosing *c)
{
    uint64_t limit = c->aim->file_bytes;
    double best_error = (double)INFINITY;
    double best_bound = 0.0;
    uint64_t room = 0;

    VC_CALL(add_overheads(c));
    VC_CALL(list_edges(c));
    for (size_t round = 0; round < ROUNDS; round++) {
        uint64_t file = 0;

        choose_by_size(c, room);
        VC_CALL(improve(c, room));
        VC_CALL(apply(c));
        VC_CALL(vc_plan_file_bytes(c->ctx, c->plan, &file));
        uint64_t bytes = total_bytes(c);
        uint64_t beside = file > bytes ? file - bytes : 0;
        if (round == 0) {
            remember(c);
        }
        if (file <= limit && total_error(c) < best_error) {
            best_error = total_error(c);
            best_bound = c->bound;
            remember(c);
        }
        uint64_t next = limit > beside ? limit - beside : 0;
        if (file > limit && next >= room) { /* what the file has beside them grew: that much less */
            next = room > file - limit ? room - (file - limit) : 0;
        }
        if (next == room || (round == 0 && file > limit)) {
            break;
        }
        room = next;
    }
    for (size_t i = 0; i < c->n; i++) {
        c->tensors[i].chosen = c->best[i];
    }
    c->bound = best_bound;
    return apply(c);
}

/* Loaders want codes of all weights of one kind or, where nothing else has codes, of none. So these stay as they are
 * only if all of the file does, which is tried first; *done: it fits. */
static enum vc_status keep_or_bar(struct choosing *c, bool *done)
{
    bool any = false;
    uint64_t file = 0;

    for (size_t i = 0; i < c->n; i++) {
        any = any || vc_scheme_of_one_kind(&c->plan->items[c->tensors[i].item]);
    }
    *done = false;
    if (!any) {
        return VC_OK;
    }
    VC_CALL(apply(c)); /* the last points, of no error */
    VC_CALL(vc_plan_file_bytes(c->ctx, c->plan, &file));
    *done = file <= c->aim->file_bytes;
    for (size_t i = 0; i < c->n && !*done; i++) {
        struct tensor *t = &c->tensors[i];

        if (vc_scheme_of_one_kind(&c->plan->items[t->item]) && t->n > 1 && chosen(c, t)->candidate == KEEP) {
            t->n--;
            t->chosen--;
        }
    }
    return VC_OK;
}

/* ---- a loss ---- */

/* The smallest size that is enough, by halves. */
static enum vc_status choose_for_loss(struct choosing *c)
{
    double limit = c->aim->loss * c->aim->loss;
    uint64_t low = 0;

    VC_CALL(add_overheads(c));
    VC_CALL(list_edges(c));
    for (size_t i = 0; i < c->n; i++) {
        c->tensors[i].chosen = c->tensors[i].n - 1;
        low += c->points[c->tensors[i].first].bytes;
    }
    uint64_t high = total_bytes(c);
    remember(c);
    while (low < high) {
        uint64_t room = low + (high - low) / 2;

        VC_CALL(vc_check_cancelled(c->ctx));
        choose_by_size(c, room);
        if (c->n <= LAID_OUT) {
            VC_CALL(improve(c, room));
        }
        if (total_bytes(c) <= room && total_error(c) <= limit) {
            high = total_bytes(c);
            remember(c);
        } else {
            low = room + 1;
        }
    }
    for (size_t i = 0; i < c->n; i++) {
        c->tensors[i].chosen = c->best[i];
        c->lists[i] = (struct vc_aim_points){c->tensors[i].n, c->points + c->tensors[i].first};
    }
    double price = price_of(c, high);
    c->bound = price > 0.0 ? (vc_aim_bound(c->lists, c->n, 0, price) - limit) / price : 0.0;
    return apply(c);
}

/* ---- all of it ---- */

/* ", no choice of that size has more than 42.2": in bytes for a loss, else as the sum of errors is told. */
static const char *tell_errors(struct choosing *c, struct vc_arena *arena, const char *text, double x2)
{
    bool costs = c->aim->n_costs != 0;

    if (total_error(c) > 0.0) {
        text =
            costs ? vc_arena_printf(c->ctx, arena, "%s; %.3g %% of the outputs, if what each does alone adds up", text,
                                    100.0 * sqrt(total_error(c)))
                  : vc_arena_printf(c->ctx, arena, "%s; SQNR over these %.1f dB", text, vc_sqnr_db(x2, total_error(c)));
    }
    if (text == NULL || !(c->bound > 0.0) || (c->aim->loss == 0.0 && c->bound > total_error(c))) {
        return text; /* no bound, or one that is lost in the rounding of errors of very different sizes */
    }
    if (c->aim->loss > 0.0) {
        return vc_arena_printf(c->ctx, arena, "%s, in %llu bytes, no choice below that loss has fewer than %.0f", text,
                               (unsigned long long)total_bytes(c), ceil(c->bound));
    }
    return costs ? vc_arena_printf(c->ctx, arena, "%s, no choice of that size has less than %.3g %%", text,
                                   100.0 * sqrt(c->bound))
                 : vc_arena_printf(c->ctx, arena, "%s, no choice of that size has more than %.1f", text,
                                   vc_sqnr_db(x2, c->bound));
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

    for (size_t i = 0; i < c->n; i++) {
        const struct tensor *t = &c->tensors[i];
        const struct vc_item *item = &c->plan->items[t->item];
        uint32_t candidate = chosen(c, t)->candidate;

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
            mixed = n++ != 0 && c->aim->file_bytes != 0 && c->aim->n_costs == 0
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
    if (c->n == 0) {
        text = "no tensor that it could be chosen for";
    }
    text = tell_errors(c, arena, text, x2);
    VC_CALL_ALLOC(text);
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

    c.why = aim->loss > 0.0
                ? vc_arena_printf(ctx, plan->arena, "the smallest below %g %% of the outputs", 100.0 * aim->loss)
            : aim->file_bytes != 0
                ? vc_arena_printf(ctx, plan->arena, "for a file of %llu bytes", (unsigned long long)aim->file_bytes)
                : vc_arena_printf(ctx, plan->arena, "the smallest that has %g dB", aim->sqnr_db);
    VC_TRY_ALLOC(c.why);
    VC_TRY(list_tensors(&c));
    if (aim->file_bytes != 0) {
        VC_TRY(keep_or_bar(&c, &kept));
        if (!kept) {
            VC_TRY(choose_for_file(&c));
        }
    } else if (aim->loss > 0.0) {
        VC_TRY(choose_for_loss(&c));
    } else {
        choose_by_error(&c);
        VC_TRY(apply(&c));
    }
    VC_TRY(describe(&c, arena, note));
out:
    vc_free(ctx, c.tensors);
    vc_free(ctx, c.next);
    vc_free(ctx, c.points);
    vc_free(ctx, c.edges);
    vc_free(ctx, c.best);
    vc_free(ctx, c.lists);
    return status;
}
