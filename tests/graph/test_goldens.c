/* test_goldens.c - what transformers computed (goldens/make.py, in $VCOMPRESS_GOLDENS) against the graph of the same
 * folder, run in f64 and in f32: outputs within 1e-10 and 1e-5 of the largest, every tensor used or known. */
#include "support.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>

#include "graph/base/graph_state.h"
#include "scratch.h"

#define MAX_GOLDENS 200

static struct vc_ctx *ctx;

/* One golden: the model in the folder, and inputs and outputs beside it. */
struct golden {
    const char *name;
    struct vc_model *values;
    double tolerance, worst;
    unsigned n_compared;
};

static enum vc_status compare(void *user, const struct vc_graph_array *array)
{
    struct golden *g = user;
    char name[256];
    size_t index;
    const struct vc_tensor *t;
    double *wanted;
    double largest = 0;

    (void)snprintf(name, sizeof name, "output.%s", array->name);
    index = vc_model_find(g->values, name);
    assert_true(index != VC_NO_TENSOR);
    t = vc_model_tensor(g->values, index);
    assert_int_equal(t->n_dims, array->n_dims);
    assert_memory_equal(t->shape, array->shape, t->n_dims * sizeof *t->shape);
    wanted = malloc((size_t)t->size_bytes);
    assert_non_null(wanted);
    assert_int_equal(vc_model_read(ctx, g->values, index, 0, t->n_elems, wanted, (size_t)t->size_bytes), VC_OK);
    for (size_t i = 0; i < array->n_elems; i++) {
        largest = fmax(largest, fabs(wanted[i]));
    }
    for (size_t i = 0; i < array->n_elems; i++) {
        double x =
            array->dtype == VC_DTYPE_F64 ? ((const double *)array->data)[i] : (double)((const float *)array->data)[i];
        double error = fabs(x - wanted[i]) / largest;

        g->worst = error <= g->worst ? g->worst : error; /* NaN, too */
    }
    free(wanted);
    g->n_compared++;
    return VC_OK;
}

/* Reads the inputs; the arrays' data are to be freed. */
static size_t read_inputs(struct golden *g, struct vc_graph_array *inputs)
{
    size_t n = 0;

    for (size_t i = 0; i < vc_model_facts(g->values)->n_tensors; i++) {
        const struct vc_tensor *t = vc_model_tensor(g->values, i);
        void *data;

        if (strncmp(t->name, "input.", 6) != 0) {
            continue;
        }
        data = malloc((size_t)t->size_bytes);
        assert_non_null(data);
        assert_int_equal(vc_model_read(ctx, g->values, i, 0, t->n_elems, data, (size_t)t->size_bytes), VC_OK);
        inputs[n++] = (struct vc_graph_array){.name = t->name + 6,
                                              .dtype = t->dtype,
                                              .n_dims = t->n_dims,
                                              .shape = t->shape,
                                              .n_elems = t->n_elems,
                                              .data = data};
    }
    return n;
}

static void run(struct golden *g, struct vc_graph *graph, const struct vc_model *model, enum vc_graph_precision how)
{
    struct vc_graph_array inputs[4];
    struct vc_graph_run_options options;
    size_t n = read_inputs(g, inputs);

    g->worst = 0;
    g->n_compared = 0;
    vc_graph_run_defaults(&options);
    options.precision = how;
    options.take = compare;
    options.user = g;
    if (vc_graph_run(ctx, graph, model, inputs, n, &options) != VC_OK) {
        fail_msg("%s: %s", g->name, vc_ctx_message(ctx));
    }
    for (size_t i = 0; i < n; i++) {
        free((void *)(uintptr_t)inputs[i].data);
    }
    assert_int_equal(g->n_compared + n, vc_model_facts(g->values)->n_tensors);
    print_message("%-24s %s: %.1e of the largest\n", g->name, how == VC_GRAPH_F64 ? "f64" : "f32", g->worst);
    if (!(g->worst <= g->tolerance)) {
        fail_msg("%s: outputs differ by %g of the largest", g->name, g->worst);
    }
}

static void one_golden(const char *folder, const char *name)
{
    struct golden g = {.name = name};
    struct vc_model *model = NULL;
    struct vc_graph *graph = NULL;
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
    assert_int_equal(vc_model_open(ctx, path, NULL, &g.values), VC_OK);
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(vc_model_open(ctx, path, NULL, &model), VC_OK);
    if (vc_graph_build(ctx, model, NULL, &graph) != VC_OK) {
        for (uint32_t k = 0; graph != NULL && vc_graph_problem(graph, k) != NULL; k++) {
            print_message("%s: %s\n", name, vc_graph_problem(graph, k));
        }
        fail_msg("%s: %s", name, vc_ctx_message(ctx));
    }
    g.tolerance = 1e-10;
    run(&g, graph, model, VC_GRAPH_F64);
    g.tolerance = 1e-5;
    run(&g, graph, model, VC_GRAPH_F32);
    vc_graph_close(graph);
    vc_model_close(model);
    vc_model_close(g.values);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static const char *goldens;

/* Every file x.safetensors has its folder x. */
static void all_goldens(void **state)
{
    char *names[MAX_GOLDENS];
    size_t n = 0;
    struct dirent *entry;
    DIR *dir = opendir(goldens);

    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        char *end = strstr(entry->d_name, ".safetensors");

        if (end != NULL && end[12] == '\0') {
            assert_true(n < MAX_GOLDENS);
            names[n] = malloc(strlen(entry->d_name) + 1);
            assert_non_null(names[n]);
            memcpy(names[n], entry->d_name, (size_t)(end - entry->d_name));
            names[n++][end - entry->d_name] = '\0';
        }
    }
    assert_int_equal(closedir(dir), 0);
    assert_true(n >= 88);
    qsort(names, n, sizeof *names, by_name);
    for (size_t k = 0; k < n; k++) {
        one_golden(goldens, names[k]);
        free(names[k]);
    }
}

/* ---- files that do not fit, and compressed ones ---- */

/* The golden's weights as model.safetensors in the scratch folder, with that config.json beside them. */
static void copy_golden(const char *name, const char *config)
{
    char path[4096];
    struct bytes b;

    (void)snprintf(path, sizeof path, "%s/%s/model.safetensors", goldens, name);
    b = load(path);
    (void)save_own("model.safetensors", b);
    if (config == NULL) {
        (void)snprintf(path, sizeof path, "%s/%s/config.json", goldens, name);
        b = load(path);
        (void)save_own("config.json", b);
    } else {
        (void)save_text("config.json", config);
    }
}

#define BERT_OF(layers, inner)                                                                                    \
    "{\"model_type\":\"bert\",\"architectures\":[\"BertModel\"],\"hidden_size\":16,\"num_hidden_layers\":" layers \
    ",\"num_attention_heads\":4,\"intermediate_size\":" inner ",\"vocab_size\":23,\"max_position_embeddings\":20}"

/* A single file with its config.json beside it: what the configuration says otherwise than the tensors. */
static void tensors_that_do_not_fit(void **state)
{
    static const struct {
        const char *config, *words;
        unsigned n;
    } cases[] = {
        {BERT_OF("3", "24"), "encoder.layer.2.attention.self.query.weight: missing, expected [16, 16]", 16},
        {BERT_OF("2", "25"), "encoder.layer.1.output.dense.weight: the shape is [16, 24], expected [16, 25]", 6},
        {BERT_OF("1", "24"), "encoder.layer.1.output.dense.bias: models of the type bert have no such tensor", 16},
    };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct vc_model *model = NULL;
        struct vc_graph *graph = NULL;
        bool said = false;
        uint32_t n = 0;

        copy_golden("bert", cases[k].config);
        assert_int_equal(vc_model_open(ctx, in_folder("model.safetensors"), NULL, &model), VC_OK);
        assert_int_equal(vc_graph_build(ctx, model, NULL, &graph), VC_E_FORMAT);
        for (; vc_graph_problem(graph, n) != NULL; n++) {
            said = said || strstr(vc_graph_problem(graph, n), cases[k].words) != NULL;
        }
        assert_true(said);
        assert_int_equal(n, cases[k].n);
        vc_graph_close(graph);
        vc_model_close(model);
    }
}

/* Every `from` in the file becomes `to`, of the same length. */
static void patch(struct bytes b, const char *from, const char *to)
{
    size_t n = strlen(from);
    unsigned found = 0;

    for (size_t i = 0; i + n <= b.n; i++) {
        if (memcmp(b.p + i, from, n) == 0) {
            memcpy(b.p + i, to, n);
            found++;
        }
    }
    assert_true(found != 0);
}

/* GGUF files whose metadata says what is not known, or something else than the tensors. */
static void metadata_that_does_not_fit(void **state)
{
    static const struct {
        const char *name, *from, *to, *words;
    } cases[] = {
        {"llama-gguf", "llama", "lemma",
         "the architecture 'lemma' is not known; known are llama, qwen2, qwen2moe, qwen3, qwen3moe, gemma"},
        {"llama-gguf", "rope.freq_base", "rope.freq_bend", "the metadata key 'llama.rope.freq_bend' is not supported"},
        {"llama-gguf-yarn", "yarn", "spun", "whose rope_type is not one of default, linear"},
        {"llama-gguf-yarn", "scaling.factor", "scaling.fector", "'llama.rope.scaling.fector' is not supported"},
        {"llama-gguf-factors", "rope_freqs.weight", "rope_fraqs.weight", "rope_fraqs.weight: models of the type llama"},
        {"mixtral-gguf", "expert_used_count", "expert_cast_count", "'llama.expert_cast_count' is not supported"},
        {"mixtral-gguf", "ffn_up_exps", "ffn_ap_exps", "blk.0.ffn_up_exps.weight: missing, expected [3, 24, 16]"},
        {"mixtral-gguf-old", "ffn_down.1", "ffn_duwn.1", "blk.1.ffn_down.1.weight: missing, expected [16, 24]"},
        {"qwen3-moe-gguf", "expert_count", "attend_count", "the architecture 'qwen3moe' is not known without experts"},
    };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct vc_model *model = NULL;
        struct vc_graph *graph = NULL;
        bool said = false;
        char path[4096];
        struct bytes b;

        (void)snprintf(path, sizeof path, "%s/%s/model.gguf", goldens, cases[k].name);
        b = load(path);
        patch(b, cases[k].from, cases[k].to);
        (void)save_own("model.gguf", b);
        assert_int_equal(vc_model_open(ctx, in_folder("model.gguf"), NULL, &model), VC_OK);
        assert_int_equal(vc_graph_build(ctx, model, NULL, &graph), VC_E_FORMAT);
        for (uint32_t i = 0; vc_graph_problem(graph, i) != NULL; i++) {
            said = said || strstr(vc_graph_problem(graph, i), cases[k].words) != NULL;
        }
        if (!said) {
            fail_msg("%s, %s: not said: %s; but %s", cases[k].name, cases[k].to, cases[k].words, vc_ctx_message(ctx));
        }
        vc_graph_close(graph);
        vc_model_close(model);
    }
}

/* The pooler behind a head that does not use it is no problem, and is named. */
static void unused_pooler(void **state)
{
    struct vc_model *model = NULL;
    struct vc_graph *graph = NULL;

    (void)state;
    copy_golden("vit", "{\"model_type\":\"vit\",\"hidden_size\":16,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
                       "\"intermediate_size\":24,\"image_size\":12,\"patch_size\":4}");
    assert_int_equal(vc_model_open(ctx, in_folder("model.safetensors"), NULL, &model), VC_OK);
    assert_int_equal(vc_graph_build(ctx, model, NULL, &graph), VC_OK);
    assert_int_equal(graph->n_unused, 0);
    vc_graph_close(graph);
    vc_model_close(model);
    copy_golden("resnet", NULL);
    assert_int_equal(vc_model_open(ctx, in_folder("model.safetensors"), NULL, &model), VC_OK);
    assert_int_equal(vc_graph_build(ctx, model, NULL, &graph), VC_OK);
    assert_non_null(strstr(graph->unused[0], "num_batches_tracked"));
    vc_graph_close(graph);
    vc_model_close(model);
}

static void quantize(const char *name, const char *layout)
{
    struct vc_quantize_options q;
    struct vc_write_options w;
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/%s", goldens, name);
    assert_int_equal(vc_model_open(ctx, path, NULL, &model), VC_OK);
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    vc_quantize_defaults(&q);
    q.min_elems = 1;
    q.min_row = 1;
    assert_int_equal(vc_job_add_quantize(ctx, job, &q), VC_OK);
    vc_write_defaults(&w);
    w.path = in_folder(layout);
    w.layout = layout;
    if (vc_job_plan(ctx, job, &w) != VC_OK || vc_job_run(ctx, job) != VC_OK) {
        fail_msg("%s: %s", layout, vc_ctx_message(ctx));
    }
    assert_true(vc_job_report(job)->totals.n_kept < vc_model_facts(model)->n_tensors);
    vc_job_free(job);
    vc_model_close(model);
}

/* int8 weights are what they decode to, in every layout: near what transformers computed, and the same in all. */
static void compressed_folders(void **state)
{
    static const char *const layouts[] = {"compressed-tensors", "bitsandbytes", "plain"};
    char path[4096];

    (void)state;
    for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
        struct golden g = {.name = layouts[k]};
        struct vc_model *model = NULL;
        struct vc_graph *graph = NULL;

        quantize("llama", layouts[k]);
        (void)snprintf(path, sizeof path, "%s/llama.safetensors", goldens);
        assert_int_equal(vc_model_open(ctx, path, NULL, &g.values), VC_OK);
        assert_int_equal(vc_model_open(ctx, in_folder(layouts[k]), NULL, &model), VC_OK);
        if (vc_graph_build(ctx, model, NULL, &graph) != VC_OK) {
            fail_msg("%s: %s", layouts[k], vc_ctx_message(ctx));
        }
        g.tolerance = 0.1;
        run(&g, graph, model, VC_GRAPH_F64);
        assert_true(g.worst > 1e-6); /* the codes were used */
        vc_graph_close(graph);
        vc_model_close(model);
        vc_model_close(g.values);
        remove_path(layouts[k]);
    }
}

static int begin(void **state)
{
    ctx = test_ctx();
    return scratch_make(state);
}

static int end(void **state)
{
    vc_ctx_free(ctx);
    return scratch_clear(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_goldens, begin, end),
        cmocka_unit_test_setup_teardown(tensors_that_do_not_fit, begin, end),
        cmocka_unit_test_setup_teardown(metadata_that_does_not_fit, begin, end),
        cmocka_unit_test_setup_teardown(unused_pooler, begin, end),
        cmocka_unit_test_setup_teardown(compressed_folders, begin, end),
    };

    goldens = getenv("VCOMPRESS_GOLDENS");
    if (goldens == NULL) {
        (void)fputs("VCOMPRESS_GOLDENS is not set\n", stderr);
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
