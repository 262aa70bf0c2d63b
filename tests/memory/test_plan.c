/* test_plan.c - recipes: what they change, their order, and that none is said to fit which does not. */
#include <stdlib.h>
#include <string.h>

#include "core/base/ctx.h"
#include "core/base/pool.h"
#include "facade/graph_config.h"
#include "graph/build.h"
#include "memory/scheme.h"
#include "scratch.h"
#include "support.h"

#define MIB ((uint64_t)1 << 20)
#define NET "input x [batch, 256]\nlinear a 1024\nrelu\nlinear b 1024\nrelu\nlinear c 64\n"

struct asked {
    struct vc_memory_options memory;
    struct vc_fit_options fit;
    struct vc_recipe_options options;
};

static struct asked ask(uint64_t visible)
{
    struct asked a;

    vc_memory_defaults(&a.memory);
    vc_fit_defaults(&a.fit);
    vc_recipe_defaults(&a.options);
    a.fit.context_bytes = a.fit.workspace_bytes = a.fit.margin_bytes = 0;
    a.options.visible_bytes = visible;
    return a;
}

static struct vc_recipes *make(struct vc_ctx *ctx, struct vc_graph *graph, const struct asked *a)
{
    struct vc_recipes *recipes = NULL;

    if (vc_recipes_make(ctx, graph, NULL, &a->memory, &a->fit, &a->options, &recipes) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    return recipes;
}

static struct vc_graph *read_net(struct vc_ctx *ctx, const char *text, int64_t batch)
{
    struct vc_graph *graph = NULL;

    assert_int_equal(vc_graph_read_text(ctx, save_text("net.txt", text), NULL, &graph), VC_OK);
    assert_int_equal(vc_graph_bind(ctx, graph, "batch", batch), VC_OK);
    return graph;
}

static int64_t batch_of(const struct vc_graph *graph)
{
    int64_t size = -1;

    (void)vc_graph_symbol(graph, 0, &size);
    return size;
}

/* Each needs less than all before it, and the harm only grows. */
static size_t check_order(const struct vc_recipes *recipes)
{
    const struct vc_recipe *r;
    size_t n = 1;

    assert_non_null(vc_recipe(recipes, 0));
    assert_string_equal(vc_recipe(recipes, 0)->what, "as it is");
    for (; (r = vc_recipe(recipes, n)) != NULL; n++) {
        const struct vc_recipe *before = vc_recipe(recipes, n - 1);

        assert_true(r->fit.need_bytes < before->fit.need_bytes);
        assert_true(r->does_less > before->does_less ||
                    (r->does_less == before->does_less && r->error >= before->error) || r->does_less);
        assert_true((vc_recipes_best(recipes) <= n) >= (r->fit.verdict == VC_FITS));
    }
    return n;
}

/* ---- several devices ---- */

/* Four of them: what one has no room for is divided before the weights lose anything, unless that is not wanted;
 * training that fits in no other way than with ZeRO 3 gets that, and the options say so. */
static void test_devices(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_net(ctx, NET, 64);
    bool seen[2] = {false};

    (void)unused;
    for (int train = 0; train < 2; train++) {
        for (uint64_t visible = MIB; visible < 24 * MIB; visible += MIB / 4 * TEST_STRIDE) {
            struct asked a = ask(visible);
            struct vc_recipes *recipes;
            const struct vc_recipe *best;

            a.memory.mode = train ? VC_MEMORY_TRAIN : VC_MEMORY_INFER;
            a.memory.optimizer = VC_OPTIMIZER_ADAM;
            a.memory.bucket_elems = 1000;
            a.options.n_devices = 4;
            recipes = make(ctx, graph, &a);
            (void)check_order(recipes);
            best = vc_recipe(recipes, vc_recipes_best(recipes));
            for (size_t k = 0; vc_recipe(recipes, k) != NULL; k++) {
                const struct vc_recipe *r = vc_recipe(recipes, k);
                struct vc_memory_report again;

                if (r->memory->dp > 1 || r->memory->tp > 1 || r->memory->pp > 1) {
                    assert_int_equal((r->memory->dp > 1 ? r->memory->dp : 1) * (r->memory->tp > 1 ? r->memory->tp : 1) *
                                         (r->memory->pp > 1 ? r->memory->pp : 1),
                                     4);
                    assert_non_null(strstr(r->what, "4 devices"));
                    assert_int_equal(vc_graph_bind(ctx, graph, "batch", (int64_t)r->batch), VC_OK);
                    assert_int_equal(vc_memory_estimate(ctx, graph, NULL, r->memory, &again), VC_OK);
                    assert_int_equal(again.moments[VC_MOMENT_PEAK].bytes, r->report->moments[VC_MOMENT_PEAK].bytes);
                    assert_int_equal(vc_graph_bind(ctx, graph, "batch", 64), VC_OK);
                    seen[train] = seen[train] || r == best;
                }
            }
            vc_result_free(recipes);
            a.options.without = VC_LEVER_DEVICES;
            recipes = make(ctx, graph, &a);
            for (size_t k = 0; vc_recipe(recipes, k) != NULL; k++) {
                assert_null(strstr(vc_recipe(recipes, k)->what, "devices"));
            }
            vc_result_free(recipes);
        }
    }
    assert_true(seen[0] && seen[1]);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* ---- inference ---- */

/* For every size of a device: the first recipe that fits, whose need, counted again, is what was said. */
static void test_inference(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_net(ctx, NET, 64);
    bool seen_none = false;
    bool seen[4] = {false};

    (void)unused;
    for (uint64_t visible = MIB / 4; visible < 8 * MIB; visible += MIB / 16 * (TEST_STRIDE > 1 ? 3 : 1)) {
        struct asked a = ask(visible);
        struct vc_recipes *recipes = make(ctx, graph, &a);
        const struct vc_recipe *best = vc_recipe(recipes, vc_recipes_best(recipes));
        struct vc_memory_report again;

        (void)check_order(recipes);
        assert_int_equal(batch_of(graph), 64);
        if (best == NULL) {
            seen_none = true;
            vc_result_free(recipes);
            continue;
        }
        assert_true(best->fit.need_bytes <= visible);
        seen[best->does_less ? 3 : best->more_tensors ? 2 : best->n_passes != 0 ? 1 : 0] = true;
        assert_int_equal(vc_graph_bind(ctx, graph, "batch", (int64_t)best->batch), VC_OK);
        assert_int_equal(vc_memory_estimate(ctx, graph, NULL, best->memory, &again), VC_OK);
        if (!best->more_tensors) {
            assert_int_equal(again.eager.bytes, best->fit.need_bytes);
        }
        assert_int_equal(vc_graph_bind(ctx, graph, "batch", 64), VC_OK);
        vc_result_free(recipes);
    }
    assert_true(seen_none && seen[0] && seen[1] && seen[2] && seen[3]);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* Without a file int8 is what --dtype int8 says: biases stay in half precision. The bytes, counted by hand. */
static void test_int8(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_net(ctx, NET, 1);
    struct asked a = ask(64 * MIB);
    struct vc_recipes *recipes = make(ctx, graph, &a);
    const uint64_t codes = 1024 * 256 + 1024 * 1024 + 64 * 1024;
    const uint64_t scales = 4 * (1024 + 1024 + 64);
    const uint64_t halves = 2 * (1024 + 1024 + 64);

    (void)unused;
    assert_int_equal(check_order(recipes), 9);
    assert_string_equal(vc_recipe(recipes, 1)->what, "fp16 weights");
    assert_string_equal(vc_recipe(recipes, 1)->passes[0], "quantize --fp16 --rest fp16");
    assert_string_equal(vc_recipe(recipes, 2)->what, "int8 weights");
    assert_int_equal(vc_recipe(recipes, 2)->report->components[VC_MEMORY_PARAMETERS].bytes, codes + scales + halves);
    /* groups of 128 along the inputs, a scale of f16 each */
    assert_string_equal(vc_recipe(recipes, 6)->what, "int4 weights");
    assert_string_equal(vc_recipe(recipes, 6)->passes[0], "quantize --int4 --rest fp16");
    assert_string_equal(vc_recipe(recipes, 6)->memory->scheme, "int4-g128");
    assert_int_equal(vc_recipe(recipes, 6)->report->components[VC_MEMORY_PARAMETERS].bytes,
                     codes / 2 + 2 * codes / 128 + halves);
    assert_string_equal(vc_recipe(recipes, 8)->what, "int2 weights");
    assert_int_equal(vc_recipes_best(recipes), 0);
    vc_result_free(recipes);
    /* nothing may change: one recipe */
    a.options.without = VC_LEVER_WEIGHTS | VC_LEVER_BATCH | VC_LEVER_CONTEXT | VC_LEVER_CACHE;
    a.options.visible_bytes = MIB;
    recipes = make(ctx, graph, &a);
    assert_int_equal(check_order(recipes), 1);
    assert_int_equal(vc_recipes_best(recipes), VC_NO_RECIPE);
    assert_true(vc_recipe(recipes, 0)->fit.headroom_bytes < 0);
    vc_result_free(recipes);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* What is not known is in no recipe that fits, however large the device. */
static void test_unknown(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = NULL;
    struct asked a = ask((uint64_t)1 << 50);
    struct vc_recipes *recipes;

    (void)unused;
    assert_int_equal(vc_graph_read_text(ctx, save_text("net.txt", NET), NULL, &graph), VC_OK);
    recipes = make(ctx, graph, &a);
    assert_int_equal(vc_recipes_best(recipes), VC_NO_RECIPE);
    assert_int_equal(vc_recipe(recipes, 0)->fit.verdict, VC_FITS_UNKNOWN);
    assert_int_equal(vc_recipe(recipes, 0)->batch, 0);
    vc_result_free(recipes);
    a.fit.weights_only = true;
    recipes = make(ctx, graph, &a);
    assert_int_equal(vc_recipes_best(recipes), 0);
    vc_result_free(recipes);
    a.options.visible_bytes = 0;
    assert_int_equal(vc_recipes_make(ctx, graph, NULL, &a.memory, &a.fit, &a.options, &recipes), VC_E_ARGUMENT);
    assert_null(recipes);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* ---- training ---- */

/* Parts whose product is the batch; recomputation and 8-bit states only where parts do not do. */
static void test_training(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_net(ctx, NET, 96);
    struct asked a = ask(64 * MIB);
    const struct vc_recipe *r;
    struct vc_recipes *recipes;
    bool adam8 = false;

    (void)unused;
    a.memory.mode = VC_MEMORY_TRAIN;
    a.memory.optimizer = VC_OPTIMIZER_ADAMW;
    recipes = make(ctx, graph, &a);
    (void)check_order(recipes);
    for (size_t k = 0; (r = vc_recipe(recipes, k)) != NULL; k++) {
        assert_int_equal(r->batch * r->accumulate, 96);
        assert_true(r->n_passes == 0 && r->error == 0 && !r->does_less);
        assert_true((r->time > 1) == (r->memory->recompute != VC_RECOMPUTE_NONE));
        adam8 = adam8 || r->memory->optimizer == VC_OPTIMIZER_ADAM8BIT;
        assert_true(adam8 == (r->memory->optimizer == VC_OPTIMIZER_ADAM8BIT)); /* the most harmful comes last */
    }
    assert_true(adam8);
    vc_result_free(recipes);
    a.options.without = VC_LEVER_OPTIMIZER | VC_LEVER_RECOMPUTE | VC_LEVER_AMP;
    recipes = make(ctx, graph, &a);
    for (size_t k = 0; (r = vc_recipe(recipes, k)) != NULL; k++) {
        assert_true(r->memory->optimizer == VC_OPTIMIZER_ADAMW && r->memory->amp == VC_AMP_NONE && r->time == 1);
    }
    assert_true(vc_recipe(recipes, 1) != NULL);
    vc_result_free(recipes);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* ---- keys and values ---- */

static void test_context(void **unused)
{
    static const char config[] =
        "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 64, "
        "\"intermediate_size\": 128, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 100}";
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = NULL;
    struct asked a;
    struct vc_recipes *recipes;
    const struct vc_recipe *r;

    (void)unused;
    assert_int_equal(vc_graph_build_config(ctx, save_text("config.json", config), &graph), VC_OK);
    assert_int_equal(vc_graph_bind(ctx, graph, "batch", 1), VC_OK);
    assert_int_equal(vc_graph_bind(ctx, graph, "sequence", 16), VC_OK);
    a = ask(3 * MIB);
    a.memory.context_tokens = 4096; /* 2 layers * 2 * 64 * 4 bytes: 4 MiB */
    recipes = make(ctx, graph, &a);
    r = vc_recipe(recipes, vc_recipes_best(recipes));
    assert_non_null(r);
    assert_true(!r->does_less && r->memory->context_tokens == 4096);
    assert_int_equal(r->report->components[VC_MEMORY_KV_CACHE].bytes, 2 * MIB);
    vc_result_free(recipes);
    a.options.visible_bytes = MIB;
    recipes = make(ctx, graph, &a);
    r = vc_recipe(recipes, vc_recipes_best(recipes));
    assert_non_null(r);
    assert_true(r->does_less && r->memory->context_tokens < 4096);
    vc_result_free(recipes);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* ---- a file ---- */

/* Two f32 matrices of 128 x 256, of different magnitudes, in a safetensors file. */
static struct vc_model *open_file(struct vc_ctx *ctx)
{
    static const char head[] = "{\"a.weight\":{\"dtype\":\"F32\",\"shape\":[128,256],\"data_offsets\":[0,131072]},"
                               "\"b.weight\":{\"dtype\":\"F32\",\"shape\":[128,256],\"data_offsets\":[131072,262144]}}";
    unsigned char size[8] = {sizeof head - 1};
    struct bytes b = {NULL, 0, 0};
    struct vc_model *model = NULL;

    bytes_add(&b, size, 8);
    bytes_add(&b, head, sizeof head - 1);
    for (unsigned k = 0; k < 2 * 128 * 256; k++) {
        float f = (float)((double)(k * 2654435761u % 1000003) / 1e6 - 0.5) * (k < 128 * 256 ? 1.0F : 100.0F);

        bytes_add(&b, &f, 4);
    }
    (void)save_own("m.safetensors", b);
    if (vc_model_open(ctx, in_folder("m.safetensors"), NULL, &model) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    return model;
}

/* The sizes are those of the file that quantize would write, and int8, which it refuses for a file that no program
 * loads then, is in no recipe. The measured error is that of both tensors together. */
static void test_file(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = open_file(ctx);
    struct asked a = ask(MIB);
    struct vc_recipes *recipes = NULL;
    const uint64_t n = (uint64_t)2 * 128 * 256;

    (void)unused;
    a.fit.weights_only = true;
    assert_int_equal(vc_recipes_make(ctx, NULL, model, &a.memory, &a.fit, &a.options, &recipes), VC_OK);
    assert_int_equal(check_order(recipes), 2);
    assert_int_equal(vc_recipe(recipes, 0)->fit.need_bytes, 4 * n);
    assert_int_equal(vc_recipe(recipes, 1)->fit.need_bytes, 2 * n);
    assert_int_equal(vc_recipe(recipes, 1)->report->n_params, n);
    assert_false(vc_recipe(recipes, 1)->measured);
    vc_result_free(recipes);
    a.options.scan = true;
    assert_int_equal(vc_recipes_make(ctx, NULL, model, &a.memory, &a.fit, &a.options, &recipes), VC_OK);
    assert_int_equal(check_order(recipes), 2);
    assert_true(vc_recipe(recipes, 1)->measured);
    assert_true(vc_recipe(recipes, 1)->error > 1e-4 && vc_recipe(recipes, 1)->error < 3e-4);
    vc_result_free(recipes);
    vc_model_close(model);
    vc_ctx_free(ctx); /* its kernels stay in its pool */
}

/* What a job's report says of a device: weights before and after, beside 332 MiB of the runtime; to the byte. */
static void test_report(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = open_file(ctx);
    struct vc_gpu gpu = {.name = "small", .vendor = "", .architecture = "", .memory_type = "", .note = "", .count = 1};
    struct vc_fit_change change = {.gpu = &gpu, .count = 1};
    struct vc_quantize_options quantize;
    struct vc_job *job = NULL;
    const uint64_t n = (uint64_t)2 * 128 * 256;

    (void)unused;
    vc_quantize_defaults(&quantize);
    quantize.target = VC_TARGET_F16;
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(vc_job_add_quantize(ctx, job, &quantize), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, NULL), VC_OK);
    gpu.visible_bytes = (332 + 256) * MIB + 2 * n;
    assert_int_equal(vc_fit_of_report(ctx, vc_job_report(job), model, NULL, NULL, &change), VC_OK);
    assert_true(change.weights_only);
    assert_int_equal(change.before.need_bytes, 332 * MIB + 4 * n);
    assert_int_equal(change.before.verdict, VC_FITS_TIGHTLY);
    assert_int_equal(change.after.need_bytes, 332 * MIB + 2 * n);
    assert_int_equal(change.after.verdict, VC_FITS);
    assert_int_equal(change.after.headroom_bytes, 0);
    assert_int_equal(change.native.verdict, VC_FITS);
    gpu.visible_bytes = 332 * MIB + 2 * n - 1;
    assert_int_equal(vc_fit_of_report(ctx, vc_job_report(job), model, NULL, NULL, &change), VC_OK);
    assert_true(change.before.verdict == VC_FITS_NOT && change.after.verdict == VC_FITS_NOT);
    vc_job_free(job);
    vc_model_close(model);
    vc_ctx_free(ctx);
}

/* A question about weights in a scheme for which there was no memory is asked again: the failure is not kept as "quantize makes
 * none", after which a table of schemes would have answered. */
static void test_asked_again(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = open_file(ctx);
    struct vc_memory_options options;
    struct vc_memory_report r;
    enum vc_status status = VC_E_NOMEM;
    uint64_t bytes[3];
    uint64_t n;

    (void)unused;
    vc_memory_defaults(&options);
    options.scheme = "int4-g128";
    for (n = 1; status == VC_E_NOMEM && n < 20000; n++) {
        vc_pool_fail_at(ctx->shared->pool, n, 1);
        status = vc_memory_estimate(ctx, NULL, model, &options, &r);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        vc_model_close(status == VC_E_NOMEM && n % 2 == 0 ? model : NULL); /* and the rest is freed */
        model = status == VC_E_NOMEM && n % 2 == 0 ? open_file(ctx) : model;
    }
    assert_int_equal(status, VC_OK);
    assert_true(n > 30);
    bytes[0] = r.components[VC_MEMORY_PARAMETERS].bytes;
    vc_model_close(model);
    model = open_file(ctx);
    assert_int_equal(vc_memory_estimate(ctx, NULL, model, &options, &r), VC_OK);
    bytes[1] = r.components[VC_MEMORY_PARAMETERS].bytes;
    assert_int_equal(vc_memory_estimate(ctx, NULL, model, &options, &r), VC_OK);
    bytes[2] = r.components[VC_MEMORY_PARAMETERS].bytes;
    assert_int_equal(bytes[1], bytes[0]);
    assert_int_equal(bytes[2], bytes[0]);
    vc_model_close(model);
    vc_ctx_free(ctx);
}

/* Every allocation fails once: no memory, nothing is left, and the graph is bound as it was. */
static void test_memory_faults(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_net(ctx, NET, 8);
    struct vc_model *model = open_file(ctx);
    struct vc_pool *pool = ctx->shared->pool;
    struct asked a = ask(MIB);

    (void)unused;
    for (int with_file = 0; with_file < 2; with_file++) {
        enum vc_status status = VC_E_NOMEM;
        struct vc_recipes *first = NULL;
        uint64_t before;
        uint64_t n;

        a.fit.weights_only = with_file == 1;
        assert_int_equal(vc_recipes_make(ctx, with_file ? NULL : graph, with_file ? model : NULL, &a.memory, &a.fit,
                                         &a.options, &first),
                         VC_OK);
        vc_result_free(first);
        before = vc_pool_in_use(pool);
        for (n = 1; status != VC_OK && n < 20000; n += TEST_STRIDE) {
            struct vc_recipes *recipes = NULL;

            vc_pool_fail_at(pool, n, 0);
            status = vc_recipes_make(ctx, with_file ? NULL : graph, with_file ? model : NULL, &a.memory, &a.fit,
                                     &a.options, &recipes);
            vc_pool_fail_at(pool, 0, 0);
            assert_true(status == VC_E_NOMEM || (status == VC_OK && recipes != NULL));
            vc_result_free(recipes);
            assert_int_equal(vc_pool_in_use(pool), before);
            assert_int_equal(batch_of(graph), 8);
        }
        assert_int_equal(status, VC_OK);
        assert_true(n > 10);
    }
    vc_model_close(model);
    vc_graph_close(graph);
    vc_ctx_free(ctx);
}

/* Layers go to the host one by one, each with its weights and its share of keys and values; by hand: a layer has 4 * 64
 * * 64 + 3 * 64 * 128 + 2 * 64 weights of f32, and 2 * 64 * 4 bytes for each of 256 positions. */
static void test_layers(void **unused)
{
    static const char config[] =
        "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 64, "
        "\"intermediate_size\": 128, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"vocab_size\": 100}";
    const uint64_t layer = (uint64_t)(4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) * 4 + (uint64_t)2 * 64 * 4 * 256;
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = NULL;
    struct vc_memory_report report;
    struct asked a = ask(0);
    uint64_t whole;
    bool fits;
    uint32_t n;

    (void)unused;
    assert_int_equal(vc_graph_build_config(ctx, save_text("config.json", config), &graph), VC_OK);
    assert_int_equal(vc_graph_bind(ctx, graph, "batch", 1), VC_OK);
    assert_int_equal(vc_graph_bind(ctx, graph, "sequence", 1), VC_OK);
    a.memory.context_tokens = 256;
    assert_int_equal(vc_memory_estimate(ctx, graph, NULL, &a.memory, &report), VC_OK);
    whole = report.eager.bytes;
    for (uint32_t k = 0; k <= 4; k++) {
        uint32_t largest = 9;

        assert_int_equal(
            vc_fit_layers(ctx, graph, NULL, &report, &a.memory, whole - k * layer, &a.fit, &largest, &n, &fits), VC_OK);
        assert_true(largest == 4 - k && n == 4 && fits);
    }
    assert_int_equal(vc_fit_layers(ctx, graph, NULL, &report, &a.memory, whole - 4 * layer - 1, &a.fit, &n, &n, &fits),
                     VC_OK);
    assert_false(fits);
    a.memory.mode = VC_MEMORY_TRAIN;
    assert_int_equal(vc_fit_layers(ctx, graph, NULL, &report, &a.memory, whole, &a.fit, &n, &n, &fits), VC_E_ARGUMENT);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

static void test_names(void **unused)
{
    (void)unused;
    for (unsigned k = 0; k < VC_LEVERS; k++) {
        assert_non_null(vc_word(VC_WORDS_LEVER, k));
    }
    assert_string_equal(vc_word(VC_WORDS_LEVER, 8), "optimizer");
    assert_null(vc_word(VC_WORDS_LEVER, VC_LEVERS));
    assert_int_equal(vc_memory_runtime(NULL), VC_RUNTIME_NATIVE);
    assert_int_equal(vc_memory_runtime(&(struct vc_layout){.name = "gguf"}), VC_RUNTIME_NATIVE);
    assert_int_equal(vc_memory_runtime(&(struct vc_layout){.name = "onnx"}), VC_RUNTIME_LAYERWISE);
    assert_int_equal(vc_memory_runtime(&(struct vc_layout){.name = "plain"}), VC_RUNTIME_DEQUANTIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices), cmocka_unit_test(test_inference),   cmocka_unit_test(test_int8),
        cmocka_unit_test(test_unknown), cmocka_unit_test(test_training),    cmocka_unit_test(test_context),
        cmocka_unit_test(test_names),   cmocka_unit_test(test_file),        cmocka_unit_test(test_report),
        cmocka_unit_test(test_layers),  cmocka_unit_test(test_asked_again), cmocka_unit_test(test_memory_faults),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
