/* graph_driver.c - builds a graph and computes it, for tests/judge/test_graph_onnx.py.
 *
 *     graph_driver [-64] [-w WEIGHTS] MODEL [DATA.npz]     MODEL.txt is a text; -p instead of data prints the graph as one
 *
 * prints, with tabs between the words:
 *
 *     problem SENTENCE                 of a graph that could not be built
 *     node Conv                        every node
 *     param NAME TENSOR transposed from_weights
 *     value NAME float 2 3             every value, with the sizes that the data has; -1: not known
 *     out NAME 2 3 : 0.5 1 ...         every output of the graph */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vcompress/experimental.h>

#include "graph/build.h"

static struct vc_ctx *ctx;

static int fail(void)
{
    printf("problem\t%s\n", vc_ctx_message(ctx));
    return 1;
}

/* A file of any size that fits. */
static char *read_file(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    size_t room = 1 << 16;
    char *text = malloc(room);

    *n = 0;
    while (file != NULL && text != NULL) {
        size_t k = fread(text + *n, 1, room - *n, file);

        *n += k;
        if (k == 0) {
            break;
        }
        if (*n == room) {
            room *= 2;
            text = realloc(text, room);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return text;
}

static enum vc_status take(void *user, const struct vc_graph_array *array)
{
    (void)user;
    printf("out\t%s\t", array->name);
    for (unsigned d = 0; d < array->n_dims; d++) {
        printf("%" PRIu64 " ", array->shape[d]);
    }
    printf(":");
    for (uint64_t k = 0; k < array->n_elems; k++) {
        if (array->dtype == VC_DTYPE_F32) {
            printf(" %.9g", (double)((const float *)array->data)[k]);
        } else if (array->dtype == VC_DTYPE_F64) {
            printf(" %.17g", ((const double *)array->data)[k]);
        } else if (array->dtype == VC_DTYPE_BOOL) {
            printf(" %d", ((const uint8_t *)array->data)[k]);
        } else {
            printf(" %" PRId64, ((const int64_t *)array->data)[k]);
        }
    }
    printf("\n");
    return VC_OK;
}

static enum vc_status run(struct vc_graph *graph, const struct vc_model *model, const struct vc_model *weights,
                          const struct vc_model *data, bool precise)
{
    struct vc_graph_run_options options;
    size_t n = vc_model_facts(data)->n_tensors;
    struct vc_graph_array *inputs = calloc(n + 1, sizeof *inputs);
    enum vc_status status = VC_OK;

    vc_graph_run_defaults(&options);
    options.take = take;
    options.precision = precise ? VC_GRAPH_F64 : VC_GRAPH_F32;
    options.weights = weights;
    for (size_t k = 0; inputs != NULL && k < n && status == VC_OK; k++) {
        const struct vc_tensor *t = vc_model_tensor(data, k);
        void *bytes = malloc((size_t)t->size_bytes + 1);

        inputs[k] = (struct vc_graph_array){.name = t->name,
                                            .dtype = t->dtype,
                                            .n_dims = t->n_dims,
                                            .shape = t->shape,
                                            .n_elems = t->n_elems,
                                            .data = bytes};
        status = vc_model_read(ctx, data, k, 0, t->n_elems, bytes, (size_t)t->size_bytes);
    }
    status = status == VC_OK ? vc_graph_run(ctx, graph, model, inputs, n, &options) : status;
    for (size_t k = 0; inputs != NULL && k < n; k++) {
        free((void *)(uintptr_t)inputs[k].data);
    }
    free(inputs);
    return status;
}

static void list(const struct vc_graph *graph)
{
    for (uint32_t k = 0; k < vc_graph_node_count(graph); k++) {
        printf("node\t%s\n", vc_graph_node(graph, k)->op);
    }
    for (uint32_t k = 0; k < vc_graph_param_count(graph); k++) {
        const struct vc_graph_param *param = vc_graph_param(graph, k);

        printf("param\t%s\t%s\t%d\t%d\n", vc_graph_value(graph, param->value)->name, param->tensor, param->transposed,
               param->from_weights);
    }
    for (uint32_t k = 0; k < vc_graph_value_count(graph); k++) {
        const struct vc_graph_value *value = vc_graph_value(graph, k);

        printf("value\t%s\t%s\t", value->name,
               value->dtype == VC_DTYPE_F32    ? "float"
               : value->dtype == VC_DTYPE_BOOL ? "bool"
                                               : "int");
        for (unsigned d = 0; d < value->n_dims; d++) {
            printf("%" PRId64 " ", vc_graph_dim_value(graph, value->shape[d]));
        }
        printf("\n");
    }
}

static int print_text(const struct vc_graph *graph)
{
    char *text = NULL;

    if (vc_graph_print_text(ctx, graph, &text) != VC_OK) {
        return fail();
    }
    printf("%s", text);
    vc_text_free(text);
    return 0;
}

int main(int argc, char **argv)
{
    const char *paths[2] = {NULL, NULL};
    const char *weights_path = NULL;
    struct vc_graph_options options;
    struct vc_model *model = NULL;
    struct vc_model *weights = NULL;
    struct vc_model *data = NULL;
    struct vc_graph *graph = NULL;
    bool precise = false;
    bool as_text = false;
    size_t n_paths = 0;
    size_t n = 0;
    char *text = NULL;
    enum vc_status status = vc_ctx_create(&ctx);
    int code = 0;

    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "-64") == 0) {
            precise = true;
        } else if (strcmp(argv[k], "-p") == 0) {
            as_text = true;
        } else if (strcmp(argv[k], "-w") == 0 && k + 1 < argc) {
            weights_path = argv[++k];
        } else if (n_paths < 2) {
            paths[n_paths++] = argv[k];
        }
    }
    if (status != VC_OK || n_paths == 0) {
        return 2;
    }
    vc_graph_defaults(&options);
    if (weights_path != NULL && vc_model_open(ctx, weights_path, NULL, &weights) != VC_OK) {
        return fail();
    }
    options.weights = weights;
    if (strlen(paths[0]) > 4 && strcmp(paths[0] + strlen(paths[0]) - 4, ".txt") == 0) {
        text = read_file(paths[0], &n);
        status = vc_graph_parse_text(ctx, text, n, &options, &graph);
    } else {
        status = vc_model_open(ctx, paths[0], NULL, &model);
        status = status == VC_OK ? vc_graph_build(ctx, model, &options, &graph) : status;
    }
    if (status != VC_OK) {
        code = fail();
        for (uint32_t k = 1; graph != NULL && vc_graph_problem(graph, k) != NULL; k++) {
            printf("problem\t%s\n", vc_graph_problem(graph, k));
        }
    } else if (as_text) {
        code = print_text(graph);
    } else {
        if (paths[1] != NULL && (vc_model_open(ctx, paths[1], NULL, &data) != VC_OK ||
                                 run(graph, model, weights, data, precise) != VC_OK)) {
            code = fail();
        }
        list(graph);
    }
    free(text);
    vc_graph_close(graph);
    vc_model_close(data);
    vc_model_close(weights);
    vc_model_close(model);
    vc_ctx_free(ctx);
    return code;
}
