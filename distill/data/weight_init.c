/* weight_init.c - weight initialization: the first weights of a list of layers, random numbers of a seed.
 *
 *     conv1.weight [32, 1, 3, 3]   between -b and b, b = 1 / sqrt(1 * 3 * 3): the inputs of one output
 *     conv1.bias   [32]            the same b
 *     bn1.weight, bn1.running_var  1
 *     bn1.bias, bn1.running_mean   0
 *
 * as torch.nn initializes its layers, with other random numbers. */
#include <math.h>

#include <vcompress/distill.h>

#include "core/model/memory_model.h"
#include "graph/build.h"
#include "passes/random.h"

/* The tensors of a graph, and where their parts lie in one block: floats, then shapes, then names. */
struct initial_tensors {
    struct vc_memory_tensor *tensors;
    size_t n;
    char *block;
};

/* The parameter with these n letters as its name; NULL if there is none. */
static const struct vc_graph_param *param_named(const struct vc_graph *graph, const char *name, size_t n)
{
    for (uint32_t k = 0; k < vc_graph_param_count(graph); k++) {
        const struct vc_graph_param *param = vc_graph_param(graph, k);

        if (strncmp(param->tensor, name, n) == 0 && param->tensor[n] == '\0') {
            return param;
        }
    }
    return NULL;
}

/* The name ends in `end`. */
static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name);

    return n >= strlen(end) && strcmp(name + n - strlen(end), end) == 0;
}

/* The bound of a tensor's numbers; 0: all are *constant. */
static double bound_of(const struct vc_graph *graph, const struct vc_graph_param *param, double *constant)
{
    const struct vc_graph_param *weight = param;
    double inputs = 1;

    *constant = 0;
    if (param->n_dims < 2 && ends_with(param->tensor, ".bias")) {
        char name[512];
        size_t n = strlen(param->tensor) - strlen("bias");

        if (n + sizeof "weight" > sizeof name) {
            return 0;
        }
        memcpy(name, param->tensor, n);
        memcpy(name + n, "weight", sizeof "weight");
        weight = param_named(graph, name, n + strlen("weight"));
    }
    if (weight == NULL || weight->n_dims < 2) {
        *constant = ends_with(param->tensor, ".weight") || ends_with(param->tensor, ".running_var");
        return 0;
    }
    for (unsigned d = 1; d < weight->n_dims; d++) {
        inputs *= (double)weight->shape[d];
    }
    return 1 / sqrt(inputs);
}

/* Counts the bytes of the block, or, where there is one, sets the tensors to their places in it. */
static enum vc_status lay_out(struct vc_ctx *ctx, const struct vc_graph *graph, struct initial_tensors *t,
                              uint64_t *bytes)
{
    *bytes = 0;
    t->n = 0;
    for (uint32_t k = 0; k < vc_graph_param_count(graph); k++) {
        const struct vc_graph_param *param = vc_graph_param(graph, k);
        uint64_t shape_bytes = param->n_dims * sizeof *param->shape;
        uint64_t name_bytes = strlen(param->tensor) + 1;
        uint64_t n = sizeof(float);
        uint64_t all;

        if (param->tied_to != VC_NO_PARAM) {
            continue;
        }
        for (unsigned i = 0; i < param->n_dims; i++) {
            VC_REFUSE_IF(!vc_mul_u64(n, param->shape[i], &n), ctx, VC_E_ARGUMENT, "%s: its size overflows",
                         param->tensor);
        }
        VC_REFUSE_IF(!vc_round_up_u64(n, sizeof(uint64_t), &n) ||
                         !vc_round_up_u64(shape_bytes + name_bytes, sizeof(uint64_t), &all) ||
                         !vc_add_u64(all, n, &all),
                     ctx, VC_E_ARGUMENT, "%s: its size overflows", param->tensor);
        if (t->block != NULL) {
            char *at = t->block + *bytes;

            memcpy(at + n, param->shape, (size_t)shape_bytes);
            memcpy(at + n + shape_bytes, param->tensor, (size_t)name_bytes);
            t->tensors[t->n] = (struct vc_memory_tensor){.name = at + n + shape_bytes,
                                                         .dtype = VC_DTYPE_F32,
                                                         .n_dims = param->n_dims,
                                                         .shape = (const uint64_t *)(const void *)(at + n),
                                                         .data = at};
        }
        t->n++;
        VC_REFUSE_IF(!vc_add_u64(*bytes, all, bytes), ctx, VC_E_ARGUMENT, "%s: the size overflows", param->tensor);
    }
    return VC_OK;
}

/* Tensor k of the list takes its numbers from stream k of the seed, so weights do not depend on the order
 * of anything else. */
static void init_all(const struct vc_graph *graph, uint64_t seed, struct initial_tensors *t)
{
    size_t k = 0;

    for (uint32_t p = 0; p < vc_graph_param_count(graph); p++) {
        const struct vc_graph_param *param = vc_graph_param(graph, p);
        uint64_t n = 1;
        double constant;
        double bound = bound_of(graph, param, &constant);

        if (param->tied_to != VC_NO_PARAM) {
            continue;
        }
        for (unsigned i = 0; i < param->n_dims; i++) {
            n *= param->shape[i];
        }
        float *x = (float *)(uintptr_t)t->tensors[k].data;
        for (uint64_t i = 0; i < n; i++) { /* 53 bits: a number of [0, 1) */
            double u = (double)(vc_random_bits(seed, k, i) >> 11) * 0x1p-53;

            x[i] = (float)(bound != 0 ? bound * (2 * u - 1) : constant);
        }
        k++;
    }
}

/* All tensors lie in one block that the model owns. Sizes are counted first, then the same walk lays them
 * out. */
enum vc_status vc_network_init_weights(struct vc_ctx *ctx, const char *path, uint64_t seed, struct vc_model **out)
{
    struct vc_graph *graph = NULL;
    struct initial_tensors t = {.block = NULL};
    uint64_t bytes = 0;
    enum vc_status status;

    *out = NULL;
    vc_call_begin(ctx);
    VC_TRY(vc_graph_read_text(ctx, path, NULL, &graph));
    VC_TRY(lay_out(ctx, graph, &t, &bytes));
    if (t.n == 0) {
        status = vc_fail(ctx, VC_E_ARGUMENT, "%s: the network has no weights", path);
        goto out;
    }
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, t.tensors, t.n));
    if (bytes > SIZE_MAX) {
        status = VC_E_NOMEM;
        goto out;
    }
    VC_TRY_ALLOC(t.block = vc_alloc(ctx, VC_TAG_TILES, (size_t)bytes));
    VC_TRY(lay_out(ctx, graph, &t, &bytes));
    init_all(graph, seed, &t);
    VC_TRY(vc_memory_model_create(ctx, t.tensors, t.n, out));
    vc_memory_model_give(*out, t.block);
    t.block = NULL;
    VC_TRY_ALLOC(vc_model_set_path(ctx, *out, vc_strdup(ctx, VC_TAG_NAMES, path)));
out:
    if (status != VC_OK) {
        vc_model_close(*out);
        *out = NULL;
    }
    VC_FREE_ALL(ctx, t.block, t.tensors);
    vc_graph_close(graph);
    return vc_call_end(ctx, status);
}
