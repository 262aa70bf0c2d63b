/* answers_series.c - see answers.h: runs with their inputs, one or many.
 *
 *     run 1   inputs [8, 64]   program of the inputs; parameters come in, and are kept
 *     run 2   inputs [8, 64]   program of the inputs and the parameters
 *     run 3   inputs [8, 64]   the same program
 *     run 4   inputs [5, 64]   another one */

#include "core/base/checked.h"
#include "engine/answers/answers.h"

/* The list of values has an element for each value of the graph; data is NULL for those that are neither. */
struct vc_answers_series {
    struct vc_ctx *ctx;
    struct vc_graph *graph;
    uint32_t *wanted;
    size_t n_wanted;
    bool keeps;                    /* parameters */
    struct vc_run_value *values;   /* by value: inputs of the run that goes on, parameters that are kept */
    struct vc_run_value *made_for; /* by value: `values` when the program was made; elements are not there any more */
    struct vc_answers *program;    /* NULL: none yet, or the plain loops */
    const struct vc_run_calls *calls; /* of the run that goes on */
    uint64_t kept_bytes, budget;      /* of parameters */
};

/* Nothing is computed yet. `wanted` is copied. */
enum vc_status vc_answers_series_make(struct vc_ctx *ctx, struct vc_graph *graph, const uint32_t *wanted,
                                      size_t n_wanted, bool keeps, struct vc_answers_series **out)
{
    size_t n_values = vc_graph_value_count(graph) + (size_t)1;
    struct vc_answers_series *s = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *s);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(s);
    *s = (struct vc_answers_series){.ctx = ctx, .graph = graph, .n_wanted = n_wanted, .keeps = keeps};
    VC_TRY(VC_ARRAY(ctx, VC_TAG_MISC, s->wanted, n_wanted + 1));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, s->values, n_values));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, s->made_for, n_values));
    memcpy(s->wanted, wanted, n_wanted * sizeof *wanted);
out:
    if (status == VC_OK) {
        *out = s;
    } else {
        vc_answers_series_free(s);
    }
    return status;
}

/* Frees inputs, or parameters. */
static void drop_values(struct vc_answers_series *s, enum vc_value_kind kind)
{
    for (uint32_t v = 0; s->values != NULL && v < vc_graph_value_count(s->graph); v++) {
        if (vc_graph_value(s->graph, v)->kind == kind) {
            vc_free(s->ctx, s->values[v].data);
            s->values[v].data = NULL;
        }
    }
}

/* Accepts what is half made, and NULL. */
void vc_answers_series_free(struct vc_answers_series *s)
{
    if (s == NULL) {
        return;
    }
    vc_answers_free(s->program);
    drop_values(s, VC_VALUE_INPUT);
    drop_values(s, VC_VALUE_PARAMETER);
    vc_free(s->ctx, s->wanted);
    vc_free(s->ctx, s->values);
    vc_free(s->ctx, s->made_for);
    vc_free(s->ctx, s);
}

/* ---- the program ---- */

/* Bytes below the memory limit that nothing uses now. */
static uint64_t memory_left(const struct vc_answers_series *s)
{
    uint64_t limit = vc_ctx_max_memory(s->ctx);
    uint64_t used = vc_pool_in_use(s->ctx->shared->pool);

    return limit - vc_min_u64(limit, used);
}

/* Whether the memory that a run takes is left now. */
static bool fits(const struct vc_answers_series *s)
{
    return vc_pool_block_bytes(vc_answers_run_bytes(s->program)) <= memory_left(s);
}

/* Makes the program if the limit has room for its values; VC_E_UNSUPPORTED: it has none, or there is no program. */
static enum vc_status make_if_fits(struct vc_answers_series *s, unsigned threads)
{
    const struct vc_answers_options options = {
        .feeds = s->values, .wanted = s->wanted, .n_wanted = s->n_wanted, .threads = threads};
    enum vc_status status = vc_answers_make(s->ctx, s->graph, &options, &s->program);

    if (status == VC_OK && !fits(s)) {
        vc_answers_free(s->program);
        s->program = NULL;
        status = VC_E_UNSUPPORTED;
    }
    return status;
}

/* A program that fits: of one thread, each of which has workspace, if it has to be. */
static enum vc_status make_fitting(struct vc_answers_series *s)
{
    enum vc_status status = make_if_fits(s, 0);

    if (status == VC_E_UNSUPPORTED && vc_ctx_threads(s->ctx) != 1) {
        status = make_if_fits(s, 1);
    }
    return status;
}

/* The program is for values of these sizes, and begins with as many of them.
 * A parameter that was kept since then makes a difference, too: the new program takes it from memory. */
static bool is_for_these(const struct vc_answers_series *s)
{
    for (uint32_t v = 0; v < vc_graph_value_count(s->graph); v++) {
        const struct vc_run_value *was = &s->made_for[v];
        const struct vc_run_value *is = &s->values[v];

        if ((was->data != NULL) != (is->data != NULL) ||
            (is->data != NULL &&
             (was->n_dims != is->n_dims || memcmp(was->shape, is->shape, is->n_dims * sizeof *is->shape) != 0))) {
            return false;
        }
    }
    return true;
}

/* s->program for the values; NULL where the plain loops have to compute.
 * made_for copies the sizes; its data pointers only tell whether there was something. */
static enum vc_status find_program(struct vc_answers_series *s)
{
    enum vc_status status = VC_OK;

    if (s->program != NULL && is_for_these(s)) {
        return VC_OK;
    }
    vc_answers_free(s->program);
    s->program = NULL;
    status = make_fitting(s);
    memcpy(s->made_for, s->values, vc_graph_value_count(s->graph) * sizeof *s->values);
    return status == VC_E_UNSUPPORTED ? VC_OK : status;
}

/* ---- runs ---- */

/* vc_run_calls.param: the caller's, whose elements are kept where there is room. */
static enum vc_status bring_param(struct vc_ctx *ctx, void *user, const struct vc_graph_param *param, void *elements)
{
    struct vc_answers_series *s = user;
    const struct vc_graph_value *value = vc_graph_value(s->graph, param->value);
    struct vc_run_value *to = &s->values[param->value];
    struct vc_run_value kept = {.n_dims = value->n_dims, .n = 1, .is_real = value->dtype == VC_DTYPE_F32};

    VC_CALL(s->calls->param(ctx, s->calls->user, param, elements));
    for (unsigned k = 0; k < kept.n_dims; k++) { /* numbers all; the elements are there, so nothing overflows */
        kept.shape[k] = value->shape[k].size;
        kept.n *= (size_t)kept.shape[k];
    }
    uint64_t n_bytes = (uint64_t)kept.n * (kept.is_real ? sizeof(float) : sizeof(int64_t));
    if (s->keeps && to->data == NULL && n_bytes <= s->budget - s->kept_bytes) {
        VC_CALL_ALLOC(kept.data = vc_alloc(ctx, VC_TAG_TILES, (size_t)n_bytes + 1));
        memcpy(kept.data, elements, (size_t)n_bytes);
        *to = kept;
        s->kept_bytes += n_bytes;
    }
    return VC_OK;
}

/* vc_run_calls.take */
static enum vc_status take(struct vc_ctx *ctx, void *user, uint32_t value, const struct vc_run_value *elements)
{
    const struct vc_answers_series *s = user;

    return s->calls->take(ctx, s->calls->user, value, elements);
}

/* Inputs and a program. */
static enum vc_status prepare(struct vc_answers_series *s)
{
    VC_CALL(vc_graph_read_inputs(s->ctx, s->graph, VC_PRECISION_F32, s->calls, s->wanted, s->n_wanted, s->values));
    return find_program(s);
}

/* The same without parameters that are kept, if it has to be. */
static enum vc_status prepare_fitting(struct vc_answers_series *s)
{
    enum vc_status status = prepare(s);

    if ((status == VC_E_NOMEM || (status == VC_OK && s->program == NULL)) && s->kept_bytes != 0) {
        vc_clear_error(s->ctx);
        vc_answers_free(s->program);
        s->program = NULL;
        drop_values(s, VC_VALUE_INPUT);
        drop_values(s, VC_VALUE_PARAMETER);
        s->kept_bytes = 0;
        s->keeps = false;
        status = prepare(s);
    }
    return status;
}

/* One run. Inputs are read anew and freed behind it. Until the first parameter is kept, what parameters may
 * take is set anew: half of what the program leaves. */
enum vc_status vc_answers_series_run(struct vc_answers_series *s, const struct vc_run_calls *calls)
{
    const struct vc_run_calls own = {.user = s, .param = bring_param, .take = take};
    enum vc_status status;

    s->calls = calls;
    VC_TRY(prepare_fitting(s));
    if (s->program == NULL) {
        status = vc_graph_forward_from(s->ctx, s->graph, VC_PRECISION_F32, calls, s->values, s->wanted, s->n_wanted);
        goto out;
    }
    if (s->kept_bytes == 0) {
        uint64_t left = memory_left(s);

        s->budget = (left - vc_min_u64(left, vc_answers_run_bytes(s->program))) / 2;
    }
    status = vc_answers_run(s->program, &own, s->values);
out:
    drop_values(s, VC_VALUE_INPUT);
    return status;
}

/* A series of one run, which keeps no parameters. */
enum vc_status vc_answers_forward(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_run_calls *calls,
                                  const uint32_t *wanted, size_t n_wanted)
{
    struct vc_answers_series *series = NULL;
    enum vc_status status;

    VC_TRY(vc_answers_series_make(ctx, graph, wanted, n_wanted, false, &series));
    status = vc_answers_series_run(series, calls);
out:
    vc_answers_series_free(series);
    return status;
}
