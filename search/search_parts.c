/* search_parts.c - see search_parts.h.
 *
 * Every part begins as it is. Then steps to smaller points are taken, those first that add the least error per byte, until
 * the file is small enough. The last one may make it much smaller than it has to be, so it is also tried without that one;
 * and where search_exact.c finds a better choice in time, that is taken:
 *
 *     error |*  int8/tensor                 of the points of a part those on the lower hull are steps;
 *           |  *  int8/channel              what lies above it (x) is only used to fill what is left at the end
 *           |     x   *  f16
 *           +---------------- * as it is
 *                        bytes
 *
 * The file's own overhead is measured by laying it out, and taken off the size; where there are few parts, what each point
 * takes of it counts as its bytes. All comparisons have an order for equal values, so the same input gives the same choice. */
#include "search/search_parts.h"

#include <math.h>

#include "core/base/array.h"

#define ROUNDS   8  /* of choosing, laying out and choosing again */
#define LAID_OUT 64 /* parts of which every point is laid out to see what it takes beside its bytes */

/* A step from one point of a part to a smaller one, both on its hull. */
struct edge {
    size_t part, to;
    double error;   /* more */
    uint64_t bytes; /* fewer */
};

/* While a choice is made. */
struct choosing {
    struct vc_ctx *ctx;
    struct vc_search_whole *whole;
    struct vc_search_part *parts; /* of whole, n of them */
    size_t n, n_edges;
    struct edge *edges;
    size_t *best; /* chosen points of the best choice; behind them as many of choose_by_size */
};

static const struct vc_search_point *chosen(const struct vc_search_part *part)
{
    return &part->points[part->chosen];
}

uint64_t vc_search_bytes(const struct vc_search_whole *whole)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < whole->n; i++) {
        bytes += chosen(&whole->parts[i])->bytes;
    }
    return bytes;
}

double vc_search_error(const struct vc_search_whole *whole)
{
    double error = 0.0;

    for (size_t i = 0; i < whole->n; i++) {
        error += chosen(&whole->parts[i])->error;
    }
    return error;
}

static void remember(struct choosing *c, size_t *points)
{
    for (size_t i = 0; i < c->n; i++) {
        points[i] = c->parts[i].chosen;
    }
}

static void recall(struct choosing *c, const size_t *points)
{
    for (size_t i = 0; i < c->n; i++) {
        c->parts[i].chosen = points[i];
    }
}

static enum vc_status lay_out(struct choosing *c, uint64_t *file)
{
    return c->whole->lay_out(c->whole->user, file);
}

/* ---- steps ---- */

static int by_price(const void *a, const void *b)
{
    const struct edge *x = a;
    const struct edge *y = b;
    double p = x->error / (double)x->bytes;
    double q = y->error / (double)y->bytes;

    return VC_FIRST_ORDER(VC_ORDER(p, q), VC_ORDER(x->part, y->part), VC_ORDER(y->to, x->to)); /* the larger first */
}

/* The steps of every part along its hull, the cheapest first. From each point the next one is that with the least
 * error per byte, so prices rise along a part, and sorted edges of it are in their order. */
static enum vc_status list_edges(struct choosing *c)
{
    size_t n_points = 0;

    for (size_t i = 0; i < c->n; i++) {
        n_points += c->parts[i].n;
    }
    VC_CALL_ALLOC(c->edges = vc_calloc_array(c->ctx, VC_TAG_MISC, n_points, sizeof *c->edges));
    for (size_t i = 0; i < c->n; i++) {
        const struct vc_search_point *points = c->parts[i].points;
        size_t at = c->parts[i].n - 1;

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

/* Takes steps, the cheapest first, until the parts take at most `room` bytes together, or as far as it goes; then
 * goes back where the last one left room for it, the dearest first. No step leads a part below the point that it is
 * barred from. Returns the last step that was taken; n_edges: none. */
static size_t take_steps(struct choosing *c, uint64_t room)
{
    size_t last = c->n_edges;
    size_t i;

    for (i = 0; i < c->n; i++) {
        c->parts[i].chosen = c->parts[i].n - 1;
    }
    uint64_t bytes = vc_search_bytes(c->whole);
    for (i = 0; i < c->n_edges && bytes > room; i++) {
        struct vc_search_part *part = &c->parts[c->edges[i].part];

        if (c->edges[i].to >= part->barred) {
            part->chosen = c->edges[i].to;
            bytes -= c->edges[i].bytes;
            last = i;
        }
    }
    /* Back along the steps that were taken, for parts that may grow within what is left. */
    while (i-- > 0 && bytes <= room) {
        struct vc_search_part *part = &c->parts[c->edges[i].part];
        uint64_t from = chosen(part)->bytes;

        while (part->chosen + 1 < part->n && part->points[part->chosen + 1].bytes - from <= room - bytes) {
            part->chosen++;
        }
        bytes += chosen(part)->bytes - from;
    }
    return last;
}

/* The best that is found without the last steps of one choice after the other, while each is better than before. */
static void choose_by_size(struct choosing *c, uint64_t room)
{
    double best = (double)INFINITY;
    size_t *points = c->best + c->n;
    size_t last = c->n_edges;

    for (size_t i = 0; i < c->n; i++) {
        c->parts[i].barred = 0;
    }
    do {
        if (last != c->n_edges) {
            c->parts[c->edges[last].part].barred = c->edges[last].to + 1;
        }
        last = take_steps(c, room);
        double error = vc_search_error(c->whole);
        if (best < (double)INFINITY && (vc_search_bytes(c->whole) > room || !(error < best))) {
            break;
        }
        best = error;
        remember(c, points);
    } while (last != c->n_edges && vc_search_bytes(c->whole) <= room);
    recall(c, points);
}

/* What a byte costs where the cheapest steps just fill the room. */
static double price_of(struct choosing *c, uint64_t room)
{
    uint64_t bytes = 0;
    size_t i;

    for (i = 0; i < c->n; i++) {
        bytes += c->parts[i].points[c->parts[i].n - 1].bytes;
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
    double error = vc_search_bytes(c->whole) <= room ? vc_search_error(c->whole) : (double)INFINITY;
    bool better = false;

    c->whole->bound = vc_search_bound(c->parts, c->n, room, price);
    if (error > 0.0 && error < (double)INFINITY) {
        VC_CALL(vc_search_exact(c->ctx, c->parts, c->n, room, price, error, c->best + c->n, &better));
    }
    if (better) {
        recall(c, c->best + c->n);
    }
    return VC_OK;
}

/* Counts what each point takes in the file beside its bytes (a scale is a member with headers of its own) as bytes
 * of it, so that points are compared by what they really save. Members may be aligned, so these are not exact to
 * the last. */
static enum vc_status add_overheads(struct choosing *c)
{
    uint64_t whole = 0;

    for (size_t i = 0; i < c->n; i++) {
        c->parts[i].chosen = c->parts[i].n - 1; /* every part as it is */
    }
    if (c->n > LAID_OUT) {
        return VC_OK;
    }
    VC_CALL(lay_out(c, &whole));
    for (size_t i = 0; i < c->n; i++) {
        struct vc_search_part *part = &c->parts[i];
        struct vc_search_point *points = part->points;
        size_t n = part->n;

        for (size_t p = 0; p + 1 < n; p++) {
            uint64_t file = 0;

            part->chosen = p;
            VC_CALL(lay_out(c, &file));
            uint64_t without = whole - (points[n - 1].bytes - points[p].bytes);
            points[p].bytes += file > without ? file - without : 0;
        }
        part->chosen = n - 1;
    }
    for (size_t i = 0; i < c->n; i++) {
        c->parts[i].n = vc_search_front(c->parts[i].points, c->parts[i].n);
        c->parts[i].chosen = c->parts[i].n - 1;
    }
    return VC_OK;
}

static enum vc_status begin(struct choosing *c)
{
    c->whole->bound = 0.0;
    VC_CALL_ALLOC(c->best = vc_calloc_array(c->ctx, VC_TAG_MISC, 2 * c->n, sizeof *c->best));
    VC_CALL(add_overheads(c));
    return list_edges(c);
}

static void end(struct choosing *c)
{
    VC_FREE_ALL(c->ctx, c->edges, c->best);
}

/* ---- a size ---- */

/* The smallest file there can be comes first: it tells what the file has beside the parts, and is what is left where
 * nothing fits. */
enum vc_status vc_search_by_size(struct vc_ctx *ctx, struct vc_search_whole *whole,
                                 const struct vc_search_budget *budget)
{
    VC_CLEANUP(end) struct choosing c = {.ctx = ctx, .whole = whole, .parts = whole->parts, .n = whole->n};
    const uint64_t limit = budget->file_bytes;
    double best_error = (double)INFINITY;
    double best_bound = 0.0;
    uint64_t room = 0;

    VC_CALL(begin(&c));
    for (size_t round = 0; round < ROUNDS; round++) {
        uint64_t file = 0;

        choose_by_size(&c, room);
        VC_CALL(improve(&c, room));
        VC_CALL(lay_out(&c, &file));
        uint64_t bytes = vc_search_bytes(c.whole);
        uint64_t beside = file > bytes ? file - bytes : 0;
        if (round == 0) {
            remember(&c, c.best);
        }
        if (vc_search_within(budget, file, NULL) && vc_search_error(c.whole) < best_error) {
            best_error = vc_search_error(c.whole);
            best_bound = c.whole->bound;
            remember(&c, c.best);
        }
        uint64_t next = limit > beside ? limit - beside : 0;
        if (!vc_search_within(budget, file, NULL) &&
            next >= room) { /* what the file has beside them grew: that much less */
            next = room > file - limit ? room - (file - limit) : 0;
        }
        if (next == room || (round == 0 && !vc_search_within(budget, file, NULL))) {
            break;
        }
        room = next;
    }
    recall(&c, c.best);
    c.whole->bound = best_bound;
    return VC_OK;
}

/* ---- an error ---- */

/* The smallest size that is enough, by halves. */
enum vc_status vc_search_by_error(struct vc_ctx *ctx, struct vc_search_whole *whole, double limit)
{
    VC_CLEANUP(end) struct choosing c = {.ctx = ctx, .whole = whole, .parts = whole->parts, .n = whole->n};
    uint64_t low = 0;

    VC_CALL(begin(&c));
    for (size_t i = 0; i < c.n; i++) {
        low += c.parts[i].points[0].bytes;
    }
    uint64_t high = vc_search_bytes(c.whole);
    remember(&c, c.best);
    while (low < high) {
        uint64_t room = low + (high - low) / 2;

        VC_CALL(vc_check_cancelled(c.ctx));
        choose_by_size(&c, room);
        if (c.n <= LAID_OUT) {
            VC_CALL(improve(&c, room));
        }
        if (vc_search_bytes(c.whole) <= room && vc_search_error(c.whole) <= limit) {
            high = vc_search_bytes(c.whole);
            remember(&c, c.best);
        } else {
            low = room + 1;
        }
    }
    recall(&c, c.best);
    double price = price_of(&c, high);
    c.whole->bound = price > 0.0 ? (vc_search_bound(c.parts, c.n, 0, price) - limit) / price : 0.0;
    return VC_OK;
}
