/* test_engine_digits.c - the shipped digits network, from its list of layers and its file: the engine's answers against
 * those of the plain loops, for all images
 * (under AddressSanitizer for every ninth of their number). VCOMPRESS_EXAMPLES is the folder. */
#include "engine_test.h"
#include "graph/build.h"

#include <math.h>
#include <stdlib.h>

#define IMAGES (297 / TEST_STRIDE)

static const char *folder;

static void answers(enum vc_graph_precision precision, double bound)
{
    struct net net = {.ctx = test_ctx(), .random = 1};
    struct vc_engine_options options = {.train = false, .threads = 2};
    struct vc_engine_pass pass = {.norm_share = -1};
    struct vc_graph_options graph_options;
    struct vc_model *model = NULL;
    double *should = calloc(IMAGES * 10, sizeof *should);
    char path[512];

    snprintf(path, sizeof path, "%s/digits.npz", folder);
    assert_int_equal(vc_model_open(net.ctx, path, NULL, &model), VC_OK);
    vc_graph_defaults(&graph_options);
    graph_options.weights = model;
    snprintf(path, sizeof path, "%s/digits.layers.txt", folder);
    if (vc_graph_read_text(net.ctx, path, &graph_options, &net.graph) != VC_OK) {
        fail_msg("%s", vc_ctx_message(net.ctx));
    }
    assert_int_equal(vc_graph_bind(net.ctx, net.graph, "batch", IMAGES), VC_OK);
    assert_int_equal(vc_weights_make(net.ctx, net.graph, precision, false, NULL, &net.weights), VC_OK);
    assert_int_equal(net.weights->grad_bytes, 0);
    assert_int_equal(vc_weights_allocate(net.weights), VC_OK);
    if (vc_weights_load(net.weights, model, NULL) != VC_OK) {
        fail_msg("%s", vc_ctx_message(net.ctx));
    }
    net_engine(&net, &options);
    net_numbers(&net);
    for (size_t i = 0; i < net.n_inputs; i++) { /* as pixels: 0 to 16 */
        net.inputs[i] = (double)(int)((net.inputs[i] + 1) * 8.4);
    }
    net_forward(&net, &pass);

    net_plain(&net, should);
    for (size_t i = 0; i < IMAGES * 10; i++) {
        double is = net_get(net.weights, vc_engine_output(net.engine, 0)->data, i);

        if (!(fabs(is - should[i]) <= bound * (1 + fabs(should[i])))) {
            fail_msg("logit %zu is %.17g; the definition gives %.17g", i, is, should[i]);
        }
    }
    free(should);
    net_drop(&net);
    vc_model_close(model);
    vc_ctx_free(net.ctx); /* it has read weights, and keeps its kernels */
}

static void in_double(void **state)
{
    (void)state;
    answers(VC_GRAPH_F64, 1e-13);
}

static void in_float(void **state)
{
    (void)state;
    answers(VC_GRAPH_F32, 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_double),
        cmocka_unit_test(in_float),
    };

    folder = getenv("VCOMPRESS_EXAMPLES");
    if (folder == NULL) {
        fprintf(stderr, "VCOMPRESS_EXAMPLES is not set\n");
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
