/* test_goldens.c - what transformers computed (goldens/make.py, in $VCOMPRESS_GOLDENS) against the graph of the same
 * folder, run in f64 and in f32: outputs within 1e-10 and 1e-5 of the largest, every tensor used or known. */
#include "support.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>

#include <vcompress/graph.h>

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

    for (size_t i = 0; i < vc_model_tensor_count(g->values); i++) {
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
    g->tolerance = how == VC_GRAPH_F64 ? 1e-10 : 1e-5;
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
    assert_int_equal(g->n_compared + n, vc_model_tensor_count(g->values));
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
    run(&g, graph, model, VC_GRAPH_F64);
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
    assert_true(n >= 20);
    qsort(names, n, sizeof *names, by_name);
    for (size_t k = 0; k < n; k++) {
        one_golden(goldens, names[k]);
        free(names[k]);
    }
}

static int begin(void **state)
{
    (void)state;
    ctx = test_ctx();
    return 0;
}

static int end(void **state)
{
    (void)state;
    vc_ctx_free(ctx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(all_goldens, begin, end)};

    goldens = getenv("VCOMPRESS_GOLDENS");
    if (goldens == NULL) {
        (void)fputs("VCOMPRESS_GOLDENS is not set\n", stderr);
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
