/* test_engine_sequences.c - a decoder as a whole: bits whatever the threads, memory, tokens that are out of range. */
#include "decoder_text.h"
#include "engine_test.h"

#include <stdlib.h>

static const struct vc_engine_pass training = {.training = true, .norm_share = -1};

static void step(struct net *net)
{
    net_forward(net, &training);
    net_backward(net);
}

/* All logits and gradients of a step; to be freed. */
static double *figures(unsigned threads, enum vc_graph_precision precision, size_t *n)
{
    struct vc_engine_options options = {.train = true, .threads = threads};
    struct net net = net_begin(DECODER, precision, &options);
    double *all;
    size_t at = 0;

    net_forward(&net, &training);
    *n = 3 * 7 * 29;
    for (size_t k = 0; k < net.weights->n; k++) {
        *n += net.weights->items[k].n;
    }
    all = calloc(*n, sizeof *all);
    for (size_t i = 0; i < 3 * 7 * 29; i++) {
        all[at++] = net_get(net.weights, vc_engine_output(net.engine, 0)->data, i);
    }
    net_backward(&net);
    for (size_t k = 0; k < net.weights->n; k++) {
        for (size_t i = 0; i < net.weights->items[k].n; i++) {
            all[at++] = net_get(net.weights, net.weights->items[k].grad, i);
        }
    }
    net_end(&net);
    return all;
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    for (int precision = 0; precision < 2; precision++) {
        size_t n;
        double *one = figures(1, (enum vc_graph_precision)precision, &n);

        for (unsigned threads = 2; threads <= 5; threads++) {
            double *more = figures(threads, (enum vc_graph_precision)precision, &n);

            assert_memory_equal(one, more, n * sizeof *one);
            free(more);
        }
        free(one);
    }
}

/* Nothing beyond the arena is written, and passes allocate nothing. */
static void memory_is_what_was_planned(void **state)
{
    struct vc_engine_options options = {.train = true, .threads = 2};
    struct net net = net_begin(DECODER, VC_GRAPH_F32, &options);
    size_t n = (size_t)vc_engine_bytes(net.engine);
    unsigned char *more = vc_alloc(net.ctx, VC_TAG_TILES, n + 4096);
    uint64_t before = vc_pool_in_use(net.ctx->shared->pool);

    (void)state;
    memset(more, 0x5a, n + 4096);
    vc_engine_attach(net.engine, more);
    step(&net);
    assert_int_equal(vc_pool_in_use(net.ctx->shared->pool), before);
    for (size_t i = n; i < n + 4096; i++) {
        assert_int_equal(more[i], 0x5a);
    }
    vc_free(net.ctx, more);
    net_end(&net);
}

/* Matrices are multiplied where they lie, so no copy of a transposed weight is in the arena. */
static void weights_are_not_copied(void **state)
{
    struct vc_engine_options options = {.train = true, .threads = 1};
    struct net net = net_begin("(float[2,300] x, float[700,300] pa) => (float[2,700] y) { t = Transpose<perm: ints = "
                               "[1, 0]>(pa)  y = MatMul(x, t) }",
                               VC_GRAPH_F32, &options);

    (void)state;
    assert_in_range(vc_engine_naive_bytes(net.engine), 1, 700 * 300 * 4 - 1);
    net_end(&net);
}

static void tokens_out_of_range(void **state)
{
    struct vc_engine_options options = {.train = true, .threads = 3};
    struct net net = net_begin(DECODER, VC_GRAPH_F64, &options);

    (void)state;
    ((int64_t *)vc_engine_input(net.engine, 0)->data)[8] = 29;
    ((int64_t *)vc_engine_input(net.engine, 0)->data)[17] = -30;
    assert_int_equal(vc_engine_forward(net.engine, &training), VC_E_ARGUMENT);
    expect_says(net.ctx, "Gather 'h': index 29, at place 8, is out of range: there are 29 rows");
    step(&net); /* the next one is as if nothing had been */
    net_end(&net);
}

/* A definition that fails says why. */
static void definitions_may_fail(void **state)
{
    struct vc_engine_options options = {.train = true, .threads = 2};
    struct net net =
        net_begin("(int64[4] at, int64[3] list, float[5,2] pa) => (float[4,2] y) { i = Gather(list, at)  y = "
                  "Gather(pa, i) }",
                  VC_GRAPH_F64, &options);
    const int64_t third[3] = {2, 3, 0};

    (void)state;
    for (unsigned k = 0; k < 3; k++) {
        int64_t *at = vc_engine_input(net.engine, 0)->data;

        memset(at, 0, 4 * sizeof *at);
        memset(vc_engine_input(net.engine, 1)->data, 0, 3 * sizeof *at);
        at[2] = third[k];
        assert_int_equal(vc_engine_forward(net.engine, &training), k == 1 ? VC_E_FORMAT : VC_OK);
        if (k == 1) {
            expect_says(net.ctx, "Gather 'i'");
        }
    }
    net_end(&net);
}

/* Every allocation fails once. */
static void no_memory(void **state)
{
    struct net net = {.ctx = test_ctx(), .random = 1};
    struct vc_engine_options options = {.train = true, .threads = 2};
    enum vc_status status = VC_E_NOMEM;

    (void)state;
    net_parse(&net, DECODER);
    assert_int_equal(vc_weights_make(net.ctx, net.graph, VC_GRAPH_F32, true, NULL, &net.weights), VC_OK);
    for (uint64_t n = 1; status != VC_OK; n++) {
        vc_pool_fail_at(net.ctx->shared->pool, n, 0);
        status = vc_engine_make(net.ctx, net.graph, net.weights, &options, &net.engine);
        vc_pool_fail_at(net.ctx->shared->pool, 0, 0);
        if (status != VC_OK) {
            assert_int_equal(status, VC_E_NOMEM);
            assert_null(net.engine);
        }
        assert_true(n < 1000);
    }
    net_end(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_change_no_bit),  cmocka_unit_test(memory_is_what_was_planned),
        cmocka_unit_test(weights_are_not_copied), cmocka_unit_test(tokens_out_of_range),
        cmocka_unit_test(definitions_may_fail),   cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
