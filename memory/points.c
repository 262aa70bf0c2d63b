/* points.c - a run as points in time, for drawings: vc_memory_timeline_make. The steps are those of timeline.h; states
 * live from the first to the last. */

#include "memory/estimate.h"

/* What the caller gets, with its memory. */
struct owned {
    struct vc_memory_timeline timeline; /* first: what the caller sees */
    struct vc_ctx *ctx;
    struct vc_memory_point *points;
    const char **names;
};

struct maker {
    struct vc_estimate e; /* its options, storages and timeline */
    struct vc_memory_report report;
    struct vc_memory_report own; /* of e, as it loads weights once more */
    /* By step and component: what begins to live less what ended before, then what lives. One step more than there are.
     */
    struct vc_memory_point *steps;
};

/* Whether the timeline has the component step by step; others stay all the time. */
static bool comes_and_goes(const struct maker *m, enum vc_memory_kind kind)
{
    return kind == VC_MEMORY_ACTIVATIONS || kind == VC_MEMORY_TRANSIENT ||
           (kind == VC_MEMORY_INPUTS && !vc_estimate_trains(&m->e));
}

/* What the moments do not count is no part of the run; a teacher is added when the peak is known. */
static bool is_counted(enum vc_memory_kind kind)
{
    return kind != VC_MEMORY_WORKSPACE && kind != VC_MEMORY_CONTEXT && kind != VC_MEMORY_SLACK &&
           kind != VC_MEMORY_TEACHER;
}

/* Of all steps; without weights that the program keeps in the host's memory. */
static uint64_t standing_bytes(const struct maker *m, enum vc_memory_kind kind)
{
    return m->report.components[kind].bytes - (kind == VC_MEMORY_PARAMETERS ? m->report.host_weight_bytes : 0);
}

/* Adds up: differences wrap around below 0 and back. */
static void fill_steps(struct maker *m)
{
    const struct vc_timeline *t = &m->e.timeline;
    uint64_t live[VC_MEMORY_COMPONENTS] = {0};

    for (size_t k = 0; k < t->n; k++) {
        uint64_t bytes = 0;

        (void)vc_round_up_u64(t->buffers[k].size_bytes, m->e.align, &bytes); /* vc_memory_estimate has done it */
        m->steps[t->buffers[k].first].bytes[t->kinds[k]] += bytes;
        m->steps[t->buffers[k].last + 1].bytes[t->kinds[k]] -= bytes;
    }
    for (uint64_t s = 0; s < t->n_steps; s++) {
        m->steps[s].step = s;
        for (enum vc_memory_kind k = 0; k < VC_MEMORY_COMPONENTS; k++) {
            live[k] += m->steps[s].bytes[k];
            m->steps[s].bytes[k] = comes_and_goes(m, k) ? live[k] : is_counted(k) ? standing_bytes(m, k) : 0;
        }
    }
}

/* All components of a point. */
static uint64_t sum_of(const struct vc_memory_point *point)
{
    uint64_t sum = 0;

    for (enum vc_memory_kind k = 0; k < VC_MEMORY_COMPONENTS; k++) {
        sum += point->bytes[k];
    }
    return sum;
}

/* What the peak has beside the fullest step of this run, at all steps: activations of other parts of the batch, which
 * are in flight in a pipeline; a teacher. */
static void add_beside(struct maker *m)
{
    enum vc_memory_kind kind = m->e.options.mode == VC_MEMORY_DISTILL ? VC_MEMORY_TEACHER : VC_MEMORY_ACTIVATIONS;
    uint64_t peak = m->report.moments[VC_MOMENT_PEAK].bytes;
    uint64_t most = 0;

    for (uint64_t s = 0; s < m->e.timeline.n_steps; s++) {
        most = vc_max_u64(most, sum_of(&m->steps[s]));
    }
    for (uint64_t s = 0; peak > most && s < m->e.timeline.n_steps; s++) {
        m->steps[s].bytes[kind] += peak - most;
    }
}

/* The fullest of the steps that each point stands for. */
static void choose_points(const struct maker *m, size_t most, struct owned *out)
{
    uint64_t n = m->e.timeline.n_steps;
    size_t n_points = n < most ? (size_t)n : most;
    uint64_t fullest = 0;

    for (size_t p = 0; p < n_points; p++) {
        uint64_t from = n * p / n_points;
        uint64_t best = from;

        for (uint64_t s = from; s < n * (p + 1) / n_points; s++) {
            best = sum_of(&m->steps[s]) > sum_of(&m->steps[best]) ? s : best;
        }
        out->points[p] = m->steps[best];
        out->names[p] = vc_estimate_step_name(&m->e, best);
        if (sum_of(&out->points[p]) > fullest) {
            fullest = sum_of(&out->points[p]);
            out->timeline.peak = p;
        }
    }
    out->timeline.n_points = n_points;
    out->timeline.points = out->points;
    out->timeline.names = out->names;
    out->timeline.n_steps = n;
    out->timeline.backward = vc_estimate_trains(&m->e) ? m->e.timeline.loss_step : n;
}

static void end(void *result)
{
    struct owned *owned = result;

    vc_free(owned->ctx, owned->points);
    vc_free(owned->ctx, owned->names);
}

/* Where there are more steps than `most`, each point is the fullest of several. */
static enum vc_status make(struct maker *m, size_t most, struct vc_memory_timeline **out)
{
    struct vc_estimate *e = &m->e;
    struct owned *owned = NULL;
    enum vc_status status;

    VC_TRY(vc_storages_make(e->ctx, e->graph, &e->options, m->report.stage - 1, &e->storages));
    vc_cache_find(&e->storages);
    if (vc_estimate_trains(e)) {
        VC_TRY(vc_frames_make(&e->storages));
    }
    e->out = &m->own;
    VC_TRY(vc_estimate_weights(e));
    VC_TRY(vc_timeline_make(e->ctx, &e->storages, &e->timeline));
    if (e->timeline.n_steps == 0) {
        return VC_OK;
    }
    VC_TRY(VC_ZEROS(e->ctx, VC_TAG_MISC, m->steps, (size_t)e->timeline.n_steps + 1));
    VC_TRY(VC_RESULT(e->ctx, VC_TAG_REPORT, owned, end));
    owned->ctx = e->ctx;
    VC_TRY(VC_ARRAY(e->ctx, VC_TAG_REPORT, owned->points, most));
    VC_TRY(VC_ARRAY(e->ctx, VC_TAG_REPORT, owned->names, most));
    fill_steps(m);
    add_beside(m);
    choose_points(m, most, owned);
    *out = &owned->timeline;
    owned = NULL;
out:
    vc_result_free(owned);
    return status;
}

/* Nothing where a part of the need is unknown: *out is NULL then. */
enum vc_status vc_memory_timeline_make(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model,
                                       const struct vc_memory_options *options, size_t most,
                                       struct vc_memory_timeline **out)
{
    struct maker m = {.e = {.ctx = ctx, .graph = graph, .model = model}};
    enum vc_status status;

    *out = NULL;
    VC_REFUSE_IF(most == 0, ctx, VC_E_ARGUMENT, "a timeline of 0 points");
    VC_TRY(vc_memory_estimate(ctx, graph, model, options, &m.report));
    VC_TRY(vc_estimate_begin(&m.e, options));
    if (m.report.unknown == NULL) {
        status = make(&m, most, out);
    }
out:
    vc_free(ctx, m.steps);
    vc_free(ctx, m.e.requests.list);
    if (m.e.storages.ctx != NULL) {
        vc_storages_release(&m.e.storages);
    }
    vc_timeline_release(ctx, &m.e.timeline);
    return status;
}
