/* fuzz_look.c - what is done with every graph that a target could build: it is computed, with 2 for every size that is
 * open, where that is little work; its couplings are found; and it is printed and read again. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <vcompress/couplings.h>
#include <vcompress/report.h>

#include "fuzz_target.h"
#include "graph/build.h"

#define MAX_WORK ((int64_t)1 << 18)

static enum vc_status take(void *user, const struct vc_graph_array *array)
{
    (void)user;
    return array->n_elems == 0 || array->data != NULL ? VC_OK : VC_E_INTERNAL;
}

/* Elements of the value with all sizes bound; MAX_WORK where it is too many, or nobody knows. */
static int64_t elements(const struct vc_graph *graph, const struct vc_graph_value *value)
{
    int64_t n = 1;

    for (unsigned d = 0; d < value->n_dims; d++) {
        int64_t size = vc_graph_dim_value(graph, value->shape[d]);

        if (size < 0 || size > MAX_WORK || n * size >= MAX_WORK) {
            return MAX_WORK;
        }
        n *= size;
    }
    return n;
}

static bool is_little_work(const struct vc_graph *graph)
{
    int64_t all = 0;

    for (uint32_t k = 0; k < vc_graph_value_count(graph) && all < MAX_WORK; k++) {
        all += elements(graph, vc_graph_value(graph, k));
    }
    for (uint32_t k = 0; k < vc_graph_node_count(graph) && all < MAX_WORK; k++) {
        int64_t macs = vc_graph_dim_value(graph, vc_graph_node(graph, k)->macs);

        all += macs < 0 || macs > MAX_WORK ? MAX_WORK : macs;
    }
    return all < MAX_WORK;
}

/* Inputs are zeros. */
static void compute(struct vc_graph *graph, const struct vc_model *model)
{
    uint32_t n = vc_graph_input_count(graph);
    struct vc_graph_array *inputs = calloc(n + 1u, sizeof *inputs);
    uint64_t(*shapes)[VC_GRAPH_MAX_DIMS] = calloc(n + 1u, sizeof *shapes);
    void *zeros = calloc((size_t)MAX_WORK, 8);
    struct vc_graph_run_options options;
    enum vc_status status;

    for (uint32_t k = 0; inputs != NULL && shapes != NULL && k < n; k++) {
        const struct vc_graph_value *value = vc_graph_value(graph, vc_graph_input(graph, k));

        for (unsigned d = 0; d < value->n_dims; d++) {
            shapes[k][d] = (uint64_t)vc_graph_dim_value(graph, value->shape[d]);
        }
        inputs[k] = (struct vc_graph_array){.name = value->name,
                                            .dtype = value->dtype,
                                            .n_dims = value->n_dims,
                                            .shape = shapes[k],
                                            .n_elems = (uint64_t)elements(graph, value),
                                            .data = zeros};
    }
    vc_graph_run_defaults(&options);
    options.take = take;
    status = vc_graph_run(fuzz_ctx(), graph, model, inputs, n, &options);
    fuzz_promise(status != VC_E_INTERNAL, "no error of our own making", fuzz_ctx());
    free(inputs);
    free(shapes);
    free(zeros);
}

/* What belongs together lies in the tensors, and can be printed. */
static void couple(struct vc_graph *graph)
{
    struct vc_couplings *couplings = NULL;
    char *text = NULL;
    enum vc_status status = vc_couplings_of_graph(fuzz_ctx(), graph, &couplings);

    fuzz_promise(status == VC_OK || status == VC_E_NOMEM || status == VC_E_UNSUPPORTED, vc_status_name(status),
                 fuzz_ctx());
    for (size_t k = 0; status == VC_OK && k < vc_couplings_count(couplings); k++) {
        const struct vc_coupling *group = vc_coupling(couplings, k);

        fuzz_promise(group->n_units > 1 && group->n_members != 0, "a group has units and members", fuzz_ctx());
    }
    if (status == VC_OK && vc_couplings_print(fuzz_ctx(), couplings, &text) == VC_OK) {
        vc_text_free(text);
    }
    vc_result_free(couplings);
}

void fuzz_look(struct vc_graph *graph, const struct vc_model *model)
{
    struct vc_graph *again = NULL;
    char *text = NULL;

    for (uint32_t k = 0; vc_graph_symbol(graph, k, NULL) != NULL; k++) {
        (void)vc_graph_bind(fuzz_ctx(), graph, vc_graph_symbol(graph, k, NULL), 2);
    }
    couple(graph);
    if (is_little_work(graph)) {
        compute(graph, model);
    }
    if (vc_graph_print_text(fuzz_ctx(), graph, &text) == VC_OK) {
        (void)vc_graph_parse_text(fuzz_ctx(), text, strlen(text), NULL, &again);
        vc_graph_close(again);
        vc_text_free(text);
    }
}
