/* test_engine_again.c - recomputation: the same bits in less memory. */
#include "decoder_text.h"
#include "engine_test.h"

#include <stdlib.h>

#define RELU_CONV(from, to, w) "t" to " = Conv<pads: ints = [1, 1, 1, 1]>(" from ", " w ")  " to " = Relu(t" to ")  "

static const char mlp[] =
    "(float[9,12] x, float[16,12] pa, float[16] pb, float[16,16] pc, float[16,16] pd, float[16,16] pe, float[5,16] pf) "
    "=> (float[9,5] y) { a = Gemm<transB: int = 1>(x, pa, pb)  b = Tanh(a)  c = Gemm<transB: int = 1>(b, pc)  d = "
    "Relu(c)  e = Gemm<transB: int = 1>(d, pd)  f = Sigmoid(e)  g = Gemm<transB: int = 1>(f, pe)  h = Add(g, b)  i = "
    "Relu(h)  y = Gemm<transB: int = 1>(i, pf) }";

static const char cnn[] =
    "(float[5,1,12,12] x, float[6,1,3,3] pa, float[6,6,3,3] pb, float[6,6,3,3] pc, float[6,6,3,3] pd, float[7,54] pe) "
    "=> "
    "(float[5,7] y) <int64[2] shape = {-1, 54}> { " RELU_CONV("x", "a", "pa")
        RELU_CONV("a", "b", "pb") "c = MaxPool<kernel_shape: ints = [2, 2], strides: ints = [2, 2]>(b)  " RELU_CONV(
            "c", "d", "pc") "e = Add(d, c)  " RELU_CONV("e", "f",
                                                        "pd") "g = MaxPool<kernel_shape: ints = [2, 2], strides: ints "
                                                              "= [2, 2]>(f)  h = Reshape(g, shape)  "
                                                              "y = Gemm<transB: int = 1>(h, pe) }";

/* Dropout draws in both computations; running statistics pg, ph belong to the first normalization alone. */
static const char norm[] =
    "(float[6,3,8,8] x, float[4,3,3,3] pa, float[4,4,3,3] pb, float[4] pc, float[4] pd, float[3,4] pe, float[4,4,3,3] "
    "pf, "
    "float[4] pg, float[4] ph) => (float[6,3] y) <float[1] ratio = {0.3}, int64[2] axes = {2, 3}> { "
    "a = Conv<pads: ints = [1, 1, 1, 1]>(x, pa)  b = BatchNormalization(a, pc, pd, pg, ph)  c = Relu(b)  "
    "d, m = Dropout(c, ratio)  n = Not(m)  e = Conv<pads: ints = [1, 1, 1, 1]>(d, pb)  f = Sigmoid(e)  "
    "g = Conv<pads: ints = [1, 1, 1, 1]>(f, pf)  h = Mul(g, f)  i = ReduceMean<keepdims: int = 0>(h, axes)  "
    "y = Gemm<transB: int = 1>(i, pe) }";

/* A chain of equal layers, of which the kept values decide the peak. */
#define LAYER(from, to) "l" to " = MatMul(" from ", pa)  " to " = Tanh(l" to ")  "
static const char chain[] =
    "(float[256,32] x, float[32,32] pa) => (float[256,32] y) { " LAYER("x", "a") LAYER("a", "b") LAYER("b", "c")
        LAYER("c", "d") LAYER("d", "e") LAYER("e", "f") LAYER("f", "g") LAYER("g", "h") LAYER("h", "i") LAYER("i", "j")
            LAYER("j", "k") LAYER("k", "m") LAYER("m", "n") LAYER("n", "o") LAYER("o", "q") "y = MatMul(q, pa) }";

struct outcome {
    double *weights; /* after some steps, statistics too */
    size_t n;
    uint64_t bytes, least, again, forward;
};

enum numbers { F32, F64, BF16 };

/* Five steps: forward, backward, every weight less 0.001 of its gradient. */
static struct outcome train(const char *text, enum numbers numbers, unsigned threads, enum vc_recompute kind,
                            uint32_t every)
{
    struct vc_engine_options options = {.train = true,
                                        .threads = threads,
                                        .dropout = true,
                                        .seed = 7,
                                        .recompute = kind,
                                        .recompute_every = every,
                                        .rounding = numbers == BF16 ? VC_UNARY_ROUND_BF16 : VC_UNARY_COPY};
    struct net net = net_begin(text, numbers == F64 ? VC_GRAPH_F64 : VC_GRAPH_F32, &options);
    struct outcome out = {.bytes = vc_engine_bytes(net.engine), .least = vc_engine_least_bytes(net.engine)};
    unsigned char *more = vc_alloc(net.ctx, VC_TAG_TILES, (size_t)out.bytes + 4096);
    size_t at = 0;

    memset(more, 0xff, (size_t)out.bytes + 4096); /* NaN inside, a pattern behind */
    vc_engine_attach(net.engine, more);
    vc_engine_recomputed(net.engine, &out.again, &out.forward);
    for (uint64_t step = 0; step < 5; step++) {
        struct vc_engine_pass pass = {.training = true, .step = step, .norm_share = -1};

        vc_weights_clear(net.weights);
        net_forward(&net, &pass);
        net_backward(&net);
        for (size_t k = 0; k < net.weights->n; k++) {
            struct vc_weight *w = &net.weights->items[k];

            for (size_t i = 0; w->trained && i < w->n; i++) {
                net_put(net.weights, w->data, i,
                        net_get(net.weights, w->data, i) - 0.001 * net_get(net.weights, w->grad, i));
            }
        }
    }
    for (size_t i = 0; i < 4096; i++) {
        assert_int_equal(more[out.bytes + i], 0xff);
    }
    for (size_t k = 0; k < net.weights->n; k++) {
        out.n += net.weights->items[k].n;
    }
    out.weights = calloc(out.n, sizeof *out.weights);
    for (size_t k = 0; k < net.weights->n; k++) {
        for (size_t i = 0; i < net.weights->items[k].n; i++) {
            out.weights[at] = net_get(net.weights, net.weights->items[k].data, i);
            assert_true(out.weights[at] == out.weights[at]);
            at++;
        }
    }
    vc_free(net.ctx, more);
    net_end(&net);
    return out;
}

/* Parts of the square root, and of 1 to 4 values, in each kind of number; under AddressSanitizer each in one kind. */
static void check_bits(const char *text)
{
    for (int numbers = F32; numbers <= BF16; numbers++) {
        struct outcome plain = train(text, (enum numbers)numbers, 1, VC_RECOMPUTE_NONE, 0);

        assert_int_equal(plain.again, 0);
        for (uint32_t every = 0; every < 5; every++) {
            struct outcome again;

            if (TEST_STRIDE > 1 && (every + (uint32_t)numbers) % 3 != 0) {
                continue;
            }
            again = train(text, (enum numbers)numbers, 1 + every % 3,
                          every == 0 ? VC_RECOMPUTE_SQRT : VC_RECOMPUTE_EVERY, every);

            assert_int_equal(again.n, plain.n);
            assert_memory_equal(again.weights, plain.weights, plain.n * sizeof *plain.weights);
            assert_in_range(again.bytes, again.least, again.least / 100 * 120); /* tiny buffers leave gaps */
            assert_int_equal(again.forward, plain.forward);
            assert_in_range(again.again, 0, plain.forward);
            free(again.weights);
        }
        free(plain.weights);
    }
}

static void layers_give_the_same_bits(void **state)
{
    (void)state;
    check_bits(mlp);
}

static void convolutions_give_the_same_bits(void **state)
{
    (void)state;
    check_bits(cnn);
}

static void statistics_move_once_and_numbers_repeat(void **state)
{
    struct outcome plain = train(norm, F32, 1, VC_RECOMPUTE_NONE, 0);
    struct outcome again = train(norm, F32, 1, VC_RECOMPUTE_EVERY, 2);

    (void)state;
    assert_in_range(again.again, 1, plain.forward); /* the normalization is in a part that is computed twice */
    free(plain.weights);
    free(again.weights);
    check_bits(norm);
}

/* 15 layers of 32 KiB: kept are 15 of them, or the 3 before parts of 4 and the 4 of one part. */
static void less_is_kept(void **state)
{
    struct outcome plain = train(chain, F32, 1, VC_RECOMPUTE_NONE, 0);
    struct outcome again = train(chain, F32, 1, VC_RECOMPUTE_SQRT, 0);

    (void)state;
    assert_in_range(again.bytes, 1, plain.bytes * 6 / 10);
    assert_in_range(again.again, plain.forward / 2, plain.forward);
    free(plain.weights);
    free(again.weights);
    check_bits(chain);
}

static void a_decoder_gives_the_same_bits(void **state)
{
    (void)state;
    check_bits(DECODER);
}

static struct outcome plan(const char *text, enum vc_recompute kind, uint32_t every, uint64_t budget)
{
    struct vc_engine_options options = {
        .train = true, .threads = 1, .recompute = kind, .recompute_every = every, .budget_bytes = budget};
    struct net net = net_begin(text, VC_GRAPH_F32, &options);
    struct outcome out = {.bytes = vc_engine_bytes(net.engine), .least = vc_engine_least_bytes(net.engine)};

    vc_engine_recomputed(net.engine, &out.again, &out.forward);
    net_end(&net);
    return out;
}

/* Within the budget, with no more multiply-adds than any plan of equal parts that fits; what does not fit is as small
 * as the smallest of these. */
static void a_budget_is_met(void **state)
{
    uint64_t most = plan(chain, VC_RECOMPUTE_NONE, 0, 0).bytes;
    uint64_t least = most;
    uint64_t last = 0;
    struct outcome equal[17];

    (void)state;
    for (uint32_t every = 1; every <= 16; every++) {
        equal[every] = plan(chain, VC_RECOMPUTE_EVERY, every, 0);
        least = equal[every].bytes < least ? equal[every].bytes : least;
    }
    for (uint64_t budget = most; budget >= least; budget -= (most - least) / 6) {
        struct outcome chosen = plan(chain, VC_RECOMPUTE_AUTO, 0, budget);

        assert_in_range(chosen.bytes, 1, budget);
        assert_in_range(chosen.again, last, chosen.forward); /* less memory costs no less */
        for (uint32_t every = 1; every <= 16; every++) {
            assert_true(equal[every].bytes > budget || equal[every].again >= chosen.again);
        }
        last = chosen.again;
    }
    assert_int_equal(plan(chain, VC_RECOMPUTE_AUTO, 0, most).again, 0);
    assert_in_range(last, 1, UINT64_MAX);
    assert_in_range(plan(chain, VC_RECOMPUTE_AUTO, 0, 1).bytes, 1, least);
}

/* Each allocation fails once: nothing is left behind. */
static void no_memory_is_a_sentence(void **state)
{
    struct vc_engine_options options = {
        .train = true, .threads = 1, .recompute = VC_RECOMPUTE_AUTO, .budget_bytes = 300000};
    struct net net = {.ctx = test_ctx(), .random = 1};
    uint64_t before;
    uint64_t n = 1;
    enum vc_status status;

    (void)state;
    net_parse(&net, chain);
    net_weights(&net, VC_GRAPH_F32);
    before = vc_pool_in_use(net.ctx->shared->pool);
    do {
        vc_pool_fail_at(net.ctx->shared->pool, n, 0);
        status = vc_engine_make(net.ctx, net.graph, net.weights, &options, &net.engine);
        vc_pool_fail_at(net.ctx->shared->pool, 0, 0);
        if (status != VC_OK) {
            assert_int_equal(status, VC_E_NOMEM);
            assert_null(net.engine);
            assert_int_equal(vc_pool_in_use(net.ctx->shared->pool), before);
            n += TEST_STRIDE;
        }
    } while (status != VC_OK);
    assert_in_range(n, 100, 100000);
    net_end(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_give_the_same_bits),
        cmocka_unit_test(convolutions_give_the_same_bits),
        cmocka_unit_test(statistics_move_once_and_numbers_repeat),
        cmocka_unit_test(less_is_kept),
        cmocka_unit_test(a_decoder_gives_the_same_bits),
        cmocka_unit_test(a_budget_is_met),
        cmocka_unit_test(no_memory_is_a_sentence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
