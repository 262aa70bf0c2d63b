/* engine.c - see engine.h. */
#include "distill/engine/engine.h"

struct vc_engine {
    struct vc_ctx *ctx;
    const char *problem;
};

enum vc_status vc_engine_make(struct vc_ctx *ctx, const struct vc_graph *graph, struct vc_weights *weights,
                              const struct vc_engine_options *options, struct vc_engine **out)
{
    (void)weights;
    (void)options;
    *out = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof **out);
    if (*out == NULL) {
        return VC_E_NOMEM;
    }
    (*out)->ctx = ctx;
    (*out)->problem = vc_graph_node_count(graph) != 0 ? vc_graph_node(graph, 0)->op : "no node";
    return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: the operator cannot be trained", (*out)->problem);
}

void vc_engine_free(struct vc_engine *engine)
{
    if (engine != NULL) {
        vc_free(engine->ctx, engine);
    }
}

const char *vc_engine_problem(const struct vc_engine *engine, size_t k)
{
    return k == 0 ? engine->problem : NULL;
}

uint64_t vc_engine_bytes(const struct vc_engine *engine)
{
    (void)engine;
    return 0;
}

uint64_t vc_engine_least_bytes(const struct vc_engine *engine)
{
    (void)engine;
    return 0;
}

uint64_t vc_engine_naive_bytes(const struct vc_engine *engine)
{
    (void)engine;
    return 0;
}

void vc_engine_attach(struct vc_engine *engine, void *memory)
{
    (void)engine;
    (void)memory;
}

size_t vc_engine_input_count(const struct vc_engine *engine)
{
    (void)engine;
    return 0;
}

const struct vc_engine_value *vc_engine_input(const struct vc_engine *engine, size_t k)
{
    (void)engine;
    (void)k;
    return NULL;
}

size_t vc_engine_output_count(const struct vc_engine *engine)
{
    (void)engine;
    return 0;
}

const struct vc_engine_value *vc_engine_output(const struct vc_engine *engine, size_t k)
{
    (void)engine;
    (void)k;
    return NULL;
}

enum vc_status vc_engine_forward(struct vc_engine *engine, const struct vc_engine_pass *pass)
{
    (void)pass;
    return vc_fail(engine->ctx, VC_E_UNSUPPORTED, "%s: the operator cannot be trained", engine->problem);
}

enum vc_status vc_engine_backward(struct vc_engine *engine)
{
    return vc_engine_forward(engine, NULL);
}

unsigned vc_engine_workers(const struct vc_engine *engine)
{
    (void)engine;
    return 1;
}

void vc_engine_each(struct vc_engine *engine, size_t n, void (*fn)(void *user, unsigned worker, size_t block),
                    void *user)
{
    (void)engine;
    for (size_t block = 0; block < n; block++) {
        fn(user, 0, block);
    }
}
