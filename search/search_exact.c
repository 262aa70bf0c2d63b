/* search_exact.c - see search_parts.h.
 *
 * Part by part, the list of all partial choices that no other one beats in both bytes and error. Most are dropped
 * at once: with a price on bytes, the rest of the parts cannot cost less than each by itself, so a partial choice
 * that cannot end below the error that is known already is no use. The order of parts and of points decides between
 * equal choices.
 *
 *     part 1       (10, 0.5) (20, 0.1)                  bytes, error
 *     part 2       (5, 0.4) (16, 0.1)
 *     both         (15, 0.9) (25, 0.5) (36, 0.2)        (26, 0.6) is beaten by (25, 0.5) */
#include "search/search_parts.h"

/* Less than this share of the error that is known is not worth looking for. */
#define WORTH 1e-4

/* The choices for the first so many parts, from the smallest on (vc_search_front). The number of a choice is that of the
 * choice for the parts before, times the points of the last part, plus the point that it adds. */
struct level {
    size_t n;
    struct vc_search_point *choices;
};

struct search {
    struct vc_ctx *ctx;
    const struct vc_search_part *parts;
    size_t n;
    uint64_t room;
    double price;
    double limit;         /* the error that has to be beaten */
    double *rest_cost;    /* by part: of this and all behind it the least error plus price times bytes */
    uint64_t *rest_bytes; /* the same: the fewest bytes */
    struct level *levels; /* n + 1; the first has one empty choice */
};

/* The least of error plus price times bytes among the points. */
static double least_cost(const struct vc_search_part *t, double price)
{
    double least = t->points[0].error + price * (double)t->points[0].bytes;

    for (size_t i = 1; i < t->n; i++) {
        double cost = t->points[i].error + price * (double)t->points[i].bytes;

        least = cost < least ? cost : least;
    }
    return least;
}

double vc_search_bound(const struct vc_search_part *parts, size_t n, uint64_t room, double price)
{
    double bound = -price * (double)room;

    for (size_t i = 0; i < n; i++) {
        bound += least_cost(&parts[i], price);
    }
    return bound > 0.0 ? bound : 0.0;
}

/* Adds part i to all choices of its level; level i + 1 has what is left. False: too many. */
static enum vc_status extend(struct search *s, size_t i, bool *too_many)
{
    const struct vc_search_part *t = &s->parts[i];
    const struct level *from = &s->levels[i];
    struct level *to = &s->levels[i + 1];
    size_t n = 0;

    *too_many = from->n * t->n > VC_SEARCH_STATES;
    if (*too_many) {
        return VC_OK;
    }
    VC_CALL_ALLOC(to->choices = vc_alloc_array(s->ctx, VC_TAG_MISC, from->n * t->n + 1, sizeof *to->choices));
    for (size_t k = 0; k < from->n; k++) {
        for (size_t p = 0; p < t->n; p++) {
            uint64_t bytes = from->choices[k].bytes + t->points[p].bytes;
            double error = from->choices[k].error + t->points[p].error;
            double end = error + s->price * ((double)bytes - (double)s->room) + s->rest_cost[i + 1];

            if (bytes + s->rest_bytes[i + 1] <= s->room && end < s->limit) {
                to->choices[n++] = (struct vc_search_point){(uint32_t)(k * t->n + p), bytes, error, 0};
            }
        }
    }
    to->n = vc_search_front(to->choices, n); /* without those that are no smaller and no more exact than another */
    return VC_OK;
}

/* The sums from the last part back to each one, and the first level. */
static enum vc_status prepare(struct search *s)
{
    VC_CALL_ALLOC(s->rest_cost = vc_calloc_array(s->ctx, VC_TAG_MISC, s->n + 1, sizeof *s->rest_cost));
    VC_CALL_ALLOC(s->rest_bytes = vc_calloc_array(s->ctx, VC_TAG_MISC, s->n + 1, sizeof *s->rest_bytes));
    VC_CALL_ALLOC(s->levels = vc_calloc_array(s->ctx, VC_TAG_MISC, s->n + 1, sizeof *s->levels));
    for (size_t i = s->n; i-- > 0;) {
        s->rest_cost[i] = s->rest_cost[i + 1] + least_cost(&s->parts[i], s->price);
        s->rest_bytes[i] = s->rest_bytes[i + 1] + s->parts[i].points[0].bytes;
    }
    VC_CALL_ALLOC(s->levels[0].choices = vc_calloc_array(s->ctx, VC_TAG_MISC, 1, sizeof *s->levels[0].choices));
    s->levels[0].n = 1;
    return VC_OK;
}

enum vc_status vc_search_exact(struct vc_ctx *ctx, const struct vc_search_part *parts, size_t n, uint64_t room,
                               double price, double error, size_t *chosen, bool *better)
{
    struct search s = {ctx, parts, n, room, price, error * (1.0 - WORTH), NULL, NULL, NULL};
    bool too_many = false;
    enum vc_status status;
    size_t i;

    *better = false;
    VC_TRY(prepare(&s));
    for (i = 0; i < n && !too_many && s.levels[i].n != 0; i++) {
        VC_TRY(vc_check_cancelled(ctx));
        VC_TRY(extend(&s, i, &too_many));
    }
    if (!too_many && i == n && s.levels[n].n != 0) {
        *better = true;
        size_t at = s.levels[n].n - 1; /* the largest has the least error */
        for (i = n; i-- > 0;) {
            chosen[i] = s.levels[i + 1].choices[at].number % parts[i].n;
            at = s.levels[i + 1].choices[at].number / parts[i].n;
        }
    }
out:
    for (i = 0; s.levels != NULL && i <= n; i++) {
        vc_free(ctx, s.levels[i].choices);
    }
    VC_FREE_ALL(ctx, s.levels, s.rest_cost, s.rest_bytes);
    return status;
}
