/* recompute.c - chooses the parts of the forward pass to compute again in the backward pass: the peak must be within a
 * budget, with as few repeated multiply-adds as possible.
 *
 * The graph is cut at values that alone connect the earlier nodes with the later nodes, if a backward step needs the
 * value. Either consecutive segments between two cuts are one part, computed again from the value before the part,
 * which is kept; or a segment keeps the values that its backward steps need. Memory during a backward step of a part:
 *
 *     kept before + (value before it, if it is computed again) + needs of its segments before this one
 *                 + what this one's backward steps have of their own: needs, gradients                  <= budget
 *
 * and in the backward step of the loss, which has buffers of its own, all that is kept.
 *
 * Dynamic programming over segments finds the least cost, with the kept bytes rounded to LEVELS steps. The timeline of
 * the plan then gives the true peak. If the peak exceeds the budget, the search repeats with a budget lower by the
 * difference; if the peak is below the budget, with a higher budget. */

#include "memory/estimate.h"

#define SEGMENTS 96 /* most segments; further segments are joined */
#define LEVELS   512
#define PLACES   (2 * (LEVELS + 1)) /* per segment: the segment before is kept, or computed again */
#define ROUNDS   24
#define NONE     UINT64_MAX

struct segment {
    uint32_t first, end; /* nodes */
    uint64_t need;       /* bytes that its backward steps need */
    uint64_t before;     /* bytes of the value before the segment */
    uint64_t most;       /* most bytes of needs, gradients and others at once in one backward step */
    uint64_t cost;       /* multiply-adds */
    bool before_kept;    /* the value before is among the needs of an earlier segment */
    bool before_read;    /* backward steps of this segment read the value before */
};

/* The cheapest plan of the segments before k with about `kept` bytes. */
struct place {
    uint64_t cost; /* NONE: no plan */
    uint64_t kept;
    uint32_t from, level;
    bool again; /* the segments from `from` on are computed again */
};

struct chooser {
    struct vc_estimate *e;
    struct segment *segments;
    uint32_t n;
    struct place *places; /* [n + 1][PLACES] */
    uint32_t *parts, *best;
    uint64_t loss; /* bytes in the backward step of the loss beside what is kept */
    uint64_t best_peak, best_cost;
};

static bool carries(const struct vc_storages *s, uint32_t v)
{
    return s->root[v] == v && s->trained[v] && vc_graph_value(s->graph, v)->kind == VC_VALUE_RESULT;
}

/* The values that are alive behind a node: how many, and the sum of their numbers. Where one value is alive (n = 1),
 * the sum is the number of that value. */
struct crossing {
    int32_t n;
    int64_t sum;
};

/* Cuts segments behind nodes where one value is alive and some backward step reads that value: keeping the value as the
 * segment's input costs nothing. */
static void find_segments(struct chooser *c, struct crossing *crossing)
{
    const struct vc_storages *s = &c->e->storages;
    struct crossing now = {0, 0};
    uint32_t first = 0;

    memset(crossing, 0, (s->n_nodes + 1U) * sizeof *crossing);
    for (uint32_t v = 0; v < s->n_values; v++) {
        if (carries(s, v)) {
            struct crossing *made = &crossing[vc_graph_value(s->graph, v)->node];
            struct crossing *gone = &crossing[vc_min_u64(s->last_use[v], s->n_nodes)];

            made->n++;
            made->sum += v;
            gone->n--;
            gone->sum -= v;
        }
    }
    for (uint32_t n = 0; n < s->n_nodes; n++) {
        now.n += crossing[n].n;
        now.sum += crossing[n].sum;
        if ((now.n == 1 && s->saved[now.sum]) || n + 1 == s->n_nodes) {
            c->segments[c->n++] = (struct segment){.first = first, .end = n + 1};
            first = n + 1;
        }
    }
}

/* Joins neighbours until SEGMENTS segments remain. */
static void join_segments(struct chooser *c)
{
    uint32_t each = (c->n + SEGMENTS - 1) / SEGMENTS;
    uint32_t n = 0;

    for (uint32_t k = 0; each > 1 && k < c->n; k += each) {
        uint32_t last = k + each <= c->n ? k + each - 1 : c->n - 1;

        c->segments[n++] = (struct segment){.first = c->segments[k].first, .end = c->segments[last].end};
    }
    c->n = each > 1 ? n : c->n;
}

static uint32_t segment_of(const struct chooser *c, uint32_t node)
{
    uint32_t low = 0;
    uint32_t high = c->n;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (c->segments[middle].first <= node) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_from_before(const struct chooser *c, const struct segment *segment, const struct vc_graph_node *node,
                           unsigned k)
{
    const struct vc_graph_value *root = vc_graph_value(c->e->graph, c->e->storages.root[node->inputs[k]]);

    return root->kind == VC_VALUE_RESULT && root->node < segment->first;
}

/* Fills for each segment: the bytes needed by backward steps and made here, and the value before the segment. */
static void weigh_values(struct chooser *c)
{
    const struct vc_storages *s = &c->e->storages;

    for (uint32_t v = 0; v < s->n_values; v++) {
        if (!carries(s, v)) {
            continue;
        }
        uint32_t made = segment_of(c, vc_graph_value(s->graph, v)->node);
        uint32_t read = segment_of(c, (uint32_t)vc_min_u64(s->last_use[v], s->n_nodes - 1U));
        c->segments[made].need += s->saved[v] ? s->bytes[v] : 0;
        for (uint32_t k = made + 1; k <= read; k++) {
            c->segments[k].before = s->bytes[v];
            c->segments[k].before_kept = s->saved[v];
        }
    }
    for (uint32_t n = 0; n < s->n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(s->graph, n);
        struct segment *segment = &c->segments[segment_of(c, n)];
        int64_t macs = vc_graph_dim_value(s->graph, node->macs);
        uint64_t transient;

        segment->cost += macs < 0 ? 0 : (uint64_t)macs;
        segment->need += vc_storages_extra_bytes(s, n, &transient);
        for (unsigned k = 0; k < node->n_inputs; k++) {
            uint64_t copy = vc_storages_cast_bytes(s, n, k);

            if (vc_storages_saves(s, n, k)) {
                segment->need += copy;
                segment->before_read = segment->before_read || (copy == 0 && is_from_before(c, segment, node, k));
            }
        }
    }
}

/* Fills `most` from the timeline without recomputation: bytes alive in the backward steps of the segment, less the
 * needs of earlier segments; and `loss`. */
static enum vc_status weigh_steps(struct chooser *c, const struct vc_timeline *t)
{
    uint64_t *change = vc_calloc_array(c->e->ctx, VC_TAG_MISC, t->n_steps + 2, sizeof *change);
    uint64_t needs = 0;
    uint64_t now = 0;
    uint32_t k = c->n - 1;

    VC_CALL_ALLOC(change);
    for (size_t b = 0; b < t->n; b++) {
        change[vc_min_u64(t->buffers[b].first, t->n_steps)] += t->buffers[b].size_bytes;
        change[vc_min_u64(t->buffers[b].last + 1, t->n_steps + 1)] -= t->buffers[b].size_bytes; /* modulo 2^64 */
    }
    for (uint32_t before = 0; before < k; before++) {
        needs += c->segments[before].need;
    }
    for (uint64_t step = 0; step < t->n_steps; step++) {
        now += change[step];
        if (step == t->loss_step + 1) {
            c->loss = now - vc_min_u64(now, needs + c->segments[k].need);
        }
        if (step > t->loss_step && t->node_of[step] != VC_NO_NODE) {
            for (; t->node_of[step] < c->segments[k].first; k--) {
                needs -= c->segments[k - 1].need;
            }
            c->segments[k].most = vc_max_u64(c->segments[k].most, now - vc_min_u64(now, needs));
        }
    }
    vc_free(c->e->ctx, change);
    return VC_OK;
}

/* Measures a plan: the peak in bytes, and the repeated multiply-adds. */
static enum vc_status measure(struct chooser *c, const uint32_t *parts, uint64_t *peak, uint64_t *cost)
{
    struct vc_timeline timeline;
    struct vc_buffer_plan packing;
    enum vc_status status;

    c->e->storages.parts = parts;
    VC_TRY(vc_timeline_make(c->e->ctx, &c->e->storages, &timeline));
    VC_TRY(vc_buffers_pack(c->e->ctx, timeline.buffers, timeline.n, c->e->align, &packing));
    *peak = packing.live_bytes;
    *cost = timeline.recomputed;
out:
    c->e->storages.parts = NULL;
    vc_timeline_release(c->e->ctx, &timeline);
    return status;
}

static void reach(struct chooser *c, uint32_t k, uint64_t step, struct place place)
{
    uint64_t level = place.kept / step;
    size_t in_row = (size_t)level + (place.again ? LEVELS + 1 : 0);

    if (level > LEVELS) {
        return;
    }
    struct place *there = &c->places[(size_t)k * PLACES + in_row];
    if (place.cost < there->cost || (place.cost == there->cost && place.kept < there->kept)) {
        *there = place;
    }
}

/* Extends the plan `level` of the segments before k: segment k keeps its needs, or segments k to end, for each end, are
 * computed again as one part. */
static void go_on(struct chooser *c, uint32_t k, uint32_t level, uint64_t step, uint64_t budget)
{
    const struct place *here = &c->places[(size_t)k * PLACES + level];
    const struct segment *s = &c->segments[k];
    uint64_t kept = here->kept;
    uint64_t needs = 0;
    uint64_t most = 0; /* bytes in the part's backward steps, last segment first */
    uint64_t cost = here->cost;
    uint64_t before = s->before_kept && !here->again ? 0 : s->before;
    uint64_t need = s->need + (s->before_read && here->again ? s->before : 0);

    if (kept + need - s->need + s->most <= budget) {
        reach(c, k + 1, step, (struct place){cost, kept + need, k, level, false});
    }
    for (uint32_t end = k; end < c->n; end++) {
        most = vc_max_u64(most, needs + c->segments[end].most);
        needs += c->segments[end].need;
        cost += c->segments[end].cost;
        if (kept + before + most > budget) {
            break;
        }
        reach(c, end + 1, step, (struct place){cost, kept + before, k, level, true});
    }
}

/* Finds the plan of least cost within the budget, for c->parts. Returns false if no plan fits. */
static bool solve(struct chooser *c, uint64_t budget)
{
    uint64_t step = budget / LEVELS + 1;
    size_t n_places = ((size_t)c->n + 1) * PLACES;
    uint32_t best = UINT32_MAX;

    for (size_t i = 0; i < n_places; i++) {
        c->places[i] = (struct place){NONE, 0, 0, 0, false};
    }
    c->places[0].cost = 0;
    for (uint32_t k = 0; k < c->n; k++) {
        if (vc_check_cancelled(c->e->ctx) != VC_OK) {
            return false; /* the caller notices, too */
        }
        for (uint32_t level = 0; level < PLACES; level++) {
            if (c->places[(size_t)k * PLACES + level].cost != NONE) {
                go_on(c, k, level, step, budget);
            }
        }
    }
    for (uint32_t level = PLACES; level-- > 0;) {
        const struct place *end = &c->places[(size_t)c->n * PLACES + level];
        uint64_t cost = end->cost;

        if (cost != NONE && end->kept + c->loss <= budget &&
            (best == UINT32_MAX || cost <= c->places[(size_t)c->n * PLACES + best].cost)) {
            best = level;
        }
    }
    for (uint32_t k = c->n, part = c->n; best != UINT32_MAX && k > 0; part--) {
        const struct place *place = &c->places[(size_t)k * PLACES + best];

        for (uint32_t n = c->segments[place->from].first; n < c->segments[k - 1].end; n++) {
            c->parts[n] = place->again ? part : 0;
        }
        k = place->from;
        best = place->level;
    }
    return best != UINT32_MAX;
}

/* Remembers the plan in c->parts if this plan is the cheapest within the budget so far, or, while no plan fits, has the
 * lowest peak. */
static void consider(struct chooser *c, uint64_t peak, uint64_t cost, uint64_t budget)
{
    bool fits = peak <= budget;
    bool fitted = c->best_peak <= budget;

    if (fits ? !fitted || cost < c->best_cost : !fitted && peak < c->best_peak) {
        c->best_peak = peak;
        c->best_cost = cost;
        memcpy(c->best, c->parts, c->e->storages.n_nodes * sizeof *c->best);
    }
}

/* Tries goals for solve: a lower goal if the plan's peak exceeds the budget, a higher goal if the peak is below or no
 * plan exists.
 * */
static enum vc_status search(struct chooser *c, uint64_t budget)
{
    uint64_t low = 0; /* a goal without a plan, or with a plan that fits */
    uint64_t high = c->best_peak;
    uint64_t goal = budget;

    for (int round = 0; round < ROUNDS && low + 1 < high; round++) {
        uint64_t peak = 0;
        uint64_t cost = 0;

        if (solve(c, goal)) {
            VC_CALL(measure(c, c->parts, &peak, &cost));
            consider(c, peak, cost, budget);
        }
        VC_CALL(vc_check_cancelled(c->e->ctx));
        if (peak > budget) {
            high = goal;
        } else {
            low = goal;
        }
        goal = peak > budget ? goal - vc_min_u64(goal, peak - budget) : peak != 0 ? goal + (budget - peak) : 0;
        if (goal <= low || goal >= high || round % 3 == 2) {
            goal = low + (high - low) / 2;
        }
    }
    return VC_OK;
}

enum vc_status vc_recompute_choose(struct vc_estimate *e, uint64_t budget, uint32_t *parts)
{
    struct chooser c = {.e = e};
    uint32_t n = e->storages.n_nodes;
    struct vc_timeline plain = {.n = 0};
    struct crossing *crossing = vc_alloc_array(e->ctx, VC_TAG_MISC, n + 1U, sizeof *crossing);
    enum vc_status status;

    c.segments = vc_calloc_array(e->ctx, VC_TAG_MISC, n + 1U, sizeof *c.segments);
    c.places = vc_alloc_array(e->ctx, VC_TAG_MISC, (SEGMENTS + 1) * PLACES, sizeof *c.places);
    c.parts = vc_calloc_array(e->ctx, VC_TAG_MISC, n + 1U, sizeof *c.parts);
    c.best = parts;
    if (crossing == NULL || c.segments == NULL || c.places == NULL || c.parts == NULL) {
        status = VC_E_NOMEM;
        goto out;
    }
    memset(parts, 0, n * sizeof *parts);
    find_segments(&c, crossing);
    if (c.n == 0) {
        status = VC_OK;
        goto out;
    }
    join_segments(&c);
    weigh_values(&c);
    VC_TRY(vc_timeline_make(e->ctx, &e->storages, &plain));
    VC_TRY(weigh_steps(&c, &plain));
    VC_TRY(measure(&c, parts, &c.best_peak, &c.best_cost));
    if (c.best_peak > budget) {
        VC_TRY(search(&c, budget));
    }
out:
    vc_timeline_release(e->ctx, &plain);
    vc_free(e->ctx, c.parts);
    vc_free(e->ctx, c.places);
    vc_free(e->ctx, c.segments);
    vc_free(e->ctx, crossing);
    return status;
}
