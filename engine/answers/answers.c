/* answers.c - see answers.h: an engine with options.answers behind the callbacks of vc_graph_forward.
 *
 *     vc_answers_make     an engine for the sizes of the feeds: which values are wanted, which nodes run their definitions
 *     vc_answers_run      memory at the first run, then pointers and one forward pass
 *                             a parameter is needed     bring_param asks the caller's `param`
 *                             a wanted value is ready   take gives it to the caller's `take`
 *
 * The engine has weights in name only (vc_weights_make without data): their elements come in while the pass
 * runs and need no memory in between. */
#include "engine/answers/answers.h"

#include "engine/engine.h"

/* A program with what it needs between runs. `asks` is what the engine sees of it and points at `wanted`,
 * `defined` and the struct itself, so that it must not move. */
struct vc_answers {
    struct vc_ctx *ctx;
    const struct vc_graph *graph;
    struct vc_engine_answers asks;
    const struct vc_run_calls *calls; /* of the run that goes on */
    bool *wanted;                     /* values */
    bool *defined;                    /* nodes: see struct vc_engine_answers */
    struct vc_weights *weights;       /* names and sizes; the program has its parameters from the callbacks */
    struct vc_engine *engine;
    void *memory; /* of values, from the first run on */
};

/* vc_engine_answers.param */
static enum vc_status bring_param(void *user, uint32_t param, void *elements)
{
    const struct vc_answers *a = user;

    return a->calls->param(a->ctx, a->calls->user, vc_graph_param(a->graph, param), elements);
}

/* vc_engine_answers.take */
static enum vc_status take(void *user, uint32_t value, const struct vc_run_value *elements)
{
    const struct vc_answers *a = user;

    return a->calls->take(a->ctx, a->calls->user, value, elements);
}

/* Everything but too little memory is left to the plain loops, which know better what to say. */
static enum vc_status refuse(struct vc_ctx *ctx, enum vc_status status)
{
    if (status == VC_OK || status == VC_E_NOMEM || status == VC_E_CANCELLED) {
        return status;
    }
    vc_clear_error(ctx);
    return VC_E_UNSUPPORTED;
}

/* Nodes whose loops cannot do what they ask for are found one after the other: each failed attempt marks
 * one as `defined`, and the next attempt lets it run its plain loop. */
static enum vc_status make_engine(struct vc_answers *a, const struct vc_engine_options *options)
{
    uint32_t n_nodes = vc_graph_node_count(a->graph);
    uint32_t known = 0;
    uint32_t n = 0;
    enum vc_status status;

    do {
        vc_engine_free(a->engine);
        a->engine = NULL;
        status = vc_engine_make(a->ctx, a->graph, a->weights, options, &a->engine);
        known = n;
        n = 0;
        for (uint32_t k = 0; k < n_nodes; k++) {
            n += a->defined[k];
        }
    } while (status == VC_E_UNSUPPORTED && n > known);
    return status;
}

/* VC_E_UNSUPPORTED: the engine cannot run this graph, and plain loops have to. */
enum vc_status vc_answers_make(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_answers_options *options,
                               struct vc_answers **out)
{
    struct vc_answers *a = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *a);
    struct vc_engine_options engine = {.threads = options->threads};
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(a);
    a->ctx = ctx;
    a->graph = graph;
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, a->wanted, vc_graph_value_count(graph) + (size_t)1));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, a->defined, vc_graph_node_count(graph) + (size_t)1));
    for (size_t k = 0; k < options->n_wanted; k++) {
        a->wanted[options->wanted[k]] = true;
    }
    a->asks = (struct vc_engine_answers){.feeds = options->feeds,
                                         .wanted = a->wanted,
                                         .every = options->every,
                                         .defined = a->defined,
                                         .user = a,
                                         .param = bring_param,
                                         .take = take};
    engine.answers = &a->asks;
    VC_TRY(vc_weights_make(ctx, graph, VC_GRAPH_F32, false, NULL, &a->weights));
    status = refuse(ctx, make_engine(a, &engine));
out:
    if (status == VC_OK) {
        *out = a;
    } else {
        vc_answers_free(a);
    }
    return status;
}

/* Accepts what is half made. */
void vc_answers_free(struct vc_answers *a)
{
    if (a == NULL) {
        return;
    }
    vc_engine_free(a->engine);
    vc_weights_free(a->weights);
    vc_free(a->ctx, a->memory);
    vc_free(a->ctx, a->wanted);
    vc_free(a->ctx, a->defined);
    vc_free(a->ctx, a);
}

uint64_t vc_answers_bytes(const struct vc_answers *a)
{
    return vc_engine_bytes(a->engine) + vc_engine_constant_bytes(a->engine);
}

uint64_t vc_answers_run_bytes(const struct vc_answers *a)
{
    return vc_engine_bytes(a->engine);
}

/* The feeds of this run, or those that the program was made with. The pass is no training: nothing is dropped,
 * and running statistics stay as they are. */
enum vc_status vc_answers_run(struct vc_answers *a, const struct vc_run_calls *calls, const struct vc_run_value *feeds)
{
    const struct vc_engine_pass pass = {.norm_share = -1};

    if (a->memory == NULL) {
        VC_CALL_ALLOC(a->memory = vc_alloc(a->ctx, VC_TAG_TILES, (size_t)vc_engine_bytes(a->engine)));
    }
    a->calls = calls;
    vc_engine_feed(a->engine, feeds != NULL ? feeds : a->asks.feeds);
    vc_engine_attach(a->engine, a->memory);
    return vc_engine_forward(a->engine, &pass);
}
