/* test_engine.c - programs as a whole: memory, threads, several engines over one set of weights, what is refused. */
#include "engine/train_loops.h"
#include "engine_test.h"
#include "graph/base/graph_state.h"
#include "kernels/functions.h"

#include <math.h>
#include <stdlib.h>

static const struct vc_engine_pass training = {.training = true, .norm_share = -1};

/* Two convolutions, two pools, two linear layers; the loss sees 10 logits for each row. */
#define CNN(batch)                                                                                                    \
    "(float[" batch ",1,28,28] x, float[8,1,3,3] pa, float[8] pb, float[8,8,3,3] pc, float[8] pd, float[16,392] pe, " \
    "float[16] pf, float[10,16] pg, float[10] ph) => (float[" batch                                                   \
    ",10] y) <int64[2] shape = {-1, 392}> { a = Conv<pads: ints = [1, 1, 1, 1]>(x, pa, pb)  "                         \
    "b = Relu(a)  c = MaxPool<kernel_shape: ints = [2, 2], strides: ints = [2, 2]>(b)  d = Conv<pads: ints = [1, 1, " \
    "1, 1]>(c, pc, pd)  e = Relu(d)  f = MaxPool<kernel_shape: ints = [2, 2], strides: ints = [2, 2]>(e)  h = "       \
    "Reshape(f, shape)  i = Gemm<transB: int = 1>(h, pe, pf)  j = Relu(i)  y = Gemm<transB: int = 1>(j, pg, ph) }"

static void step(struct net *net)
{
    net_forward(net, &training);
    net_backward(net);
}

/* ---- memory ---- */

static void memory_is_what_was_planned(void **state)
{
    struct vc_engine_options options = {.train = true, .threads = 1};
    struct net net = {.ctx = test_ctx(), .random = 1};
    uint64_t before;
    uint64_t infer;

    (void)state;
    net_parse(&net, CNN("64"));
    net_weights(&net, VC_GRAPH_F32);
    before = vc_pool_in_use(net.ctx->shared->pool);
    assert_int_equal(vc_engine_make(net.ctx, net.graph, net.weights, &options, &net.engine), VC_OK);
    /* making it takes nothing that grows with the sizes */
    assert_in_range(vc_pool_in_use(net.ctx->shared->pool) - before, 1, 200000);
    vc_engine_free(net.engine);
    assert_int_equal(vc_pool_in_use(net.ctx->shared->pool), before);

    net_engine(&net, &options);
    net_numbers(&net);
    before = vc_pool_in_use(net.ctx->shared->pool);
    step(&net);
    assert_int_equal(vc_pool_in_use(net.ctx->shared->pool), before); /* passes allocate nothing */
    assert_in_range(vc_engine_bytes(net.engine), vc_engine_least_bytes(net.engine),
                    vc_engine_least_bytes(net.engine) / 100 * 102);
    assert_in_range(vc_engine_naive_bytes(net.engine), vc_engine_bytes(net.engine) / 10 * 14, UINT64_MAX);
    infer = vc_engine_bytes(net.engine);
    vc_engine_free(net.engine);
    options.train = false;
    assert_int_equal(vc_engine_make(net.ctx, net.graph, net.weights, &options, &net.engine), VC_OK);
    assert_in_range(vc_engine_bytes(net.engine), 1, infer / 10 * 8);
    net_end(&net);
}

/* Nothing beyond the arena is written: bytes behind it stay as they were. */
static void memory_ends_where_it_ends(void **state)
{
    struct vc_engine_options options = {.train = true, .threads = 2};
    struct net net = net_begin(CNN("5"), VC_GRAPH_F32, &options);
    size_t n = (size_t)vc_engine_bytes(net.engine);
    unsigned char *more = vc_alloc(net.ctx, VC_TAG_TILES, n + 4096);

    (void)state;
    memset(more, 0x5a, n + 4096);
    vc_engine_attach(net.engine, more);
    step(&net);
    for (size_t i = n; i < n + 4096; i++) {
        assert_int_equal(more[i], 0x5a);
    }
    vc_free(net.ctx, more);
    net_end(&net);
}

/* ---- the same bits ---- */

/* Networks, and how many outputs and inputs they have. */
static const struct subject {
    const char *text;
    size_t n_outputs, n_inputs;
} subjects[] = {
    {CNN("37"), 370, 37 * 784},
    /* products that are cut along both sides */
    {"(float[200,128] x, float[200,128] pa, float[200] pb, float[210,200] pc) => (float[200,210] y) { "
     "a = Gemm<transB: int = 1>(x, pa, pb)  b = Relu(a)  y = Gemm<transB: int = 1>(b, pc) }",
     200 * 210, 200 * 128},
};

/* All outputs and gradients of a step; to be freed. */
static double *figures(const struct subject *subject, unsigned threads, enum vc_graph_precision precision, size_t *n)
{
    struct vc_engine_options options = {.train = true, .threads = threads, .input_grads = true};
    struct net net = net_begin(subject->text, precision, &options);
    double *all;
    size_t at = 0;

    step(&net);
    *n = subject->n_outputs + subject->n_inputs;
    for (size_t k = 0; k < net.weights->n; k++) {
        *n += net.weights->items[k].n;
    }
    all = calloc(*n, sizeof *all);
    net_forward(&net, &training);
    for (size_t i = 0; i < subject->n_outputs; i++) {
        all[at++] = net_get(net.weights, vc_engine_output(net.engine, 0)->data, i);
    }
    vc_weights_clear(net.weights);
    net_backward(&net);
    for (size_t i = 0; i < subject->n_inputs; i++) {
        all[at++] = net_get(net.weights, vc_engine_input(net.engine, 0)->grad, i);
    }
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
    for (size_t k = 0; k < 2 * sizeof subjects / sizeof *subjects; k++) {
        const struct subject *subject = &subjects[k / 2];
        enum vc_graph_precision precision = k % 2 == 0 ? VC_GRAPH_F32 : VC_GRAPH_F64;
        size_t n;
        double *one = figures(subject, 1, precision, &n);

        for (unsigned threads = 2; threads <= 5; threads++) {
            double *more = figures(subject, threads, precision, &n);

            assert_memory_equal(one, more, n * sizeof *one);
            free(more);
        }
        free(one);
    }
}

static void float_is_near_double(void **state)
{
    size_t n;
    double *a = figures(&subjects[0], 2, VC_GRAPH_F32, &n);
    double *b = figures(&subjects[0], 2, VC_GRAPH_F64, &n);
    double largest = 0;

    (void)state;
    for (size_t i = 0; i < n; i++) {
        largest = fabs(b[i]) > largest ? fabs(b[i]) : largest;
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(fabs(a[i] - b[i]) <= 1e-5 * largest);
    }
    free(a);
    free(b);
}

/* ---- batches ---- */

/* Gradients of 6 rows at once, and of 4 and 2 rows by two engines over the same weights in the same memory. */
static void parts_of_a_batch_add_up(void **state)
{
    struct vc_engine_options options = {.train = true, .threads = 2};
    struct net whole = net_begin(CNN("6"), VC_GRAPH_F64, &options);
    struct net parts[2] = {{.ctx = whole.ctx, .random = 1}, {.ctx = whole.ctx, .random = 1}};
    double *all;
    size_t n = 0;

    (void)state;
    step(&whole);
    for (size_t k = 0; k < whole.weights->n; k++) {
        n += whole.weights->items[k].n;
    }
    all = calloc(n, sizeof *all);
    n = 0;
    for (size_t k = 0; k < whole.weights->n; k++) {
        memcpy(all + n, whole.weights->items[k].grad, whole.weights->items[k].n * sizeof *all);
        n += whole.weights->items[k].n;
    }
    vc_weights_clear(whole.weights);
    for (unsigned p = 0; p < 2; p++) {
        size_t rows = p == 0 ? 4 : 2;

        net_parse(&parts[p], p == 0 ? CNN("4") : CNN("2"));
        parts[p].weights = whole.weights;
        assert_int_equal(vc_engine_make(whole.ctx, parts[p].graph, whole.weights, &options, &parts[p].engine), VC_OK);
        assert_true(vc_engine_bytes(parts[p].engine) <= vc_engine_bytes(whole.engine));
        vc_engine_attach(parts[p].engine, whole.memory);
        parts[p].inputs = whole.inputs + (p == 0 ? 0 : 4 * 784);
        parts[p].cotangents = whole.cotangents + (p == 0 ? 0 : 40);
        step(&parts[p]);
        assert_int_equal(vc_engine_output(parts[p].engine, 0)->shape[0], rows);
    }
    n = 0;
    for (size_t k = 0; k < whole.weights->n; k++) {
        const double *grad = whole.weights->items[k].grad;

        for (size_t i = 0; i < whole.weights->items[k].n; i++, n++) {
            assert_true(fabs(grad[i] - all[n]) <= 1e-12 * (1 + fabs(all[n])));
        }
    }
    for (unsigned p = 0; p < 2; p++) {
        vc_engine_free(parts[p].engine);
        vc_graph_close(parts[p].graph);
    }
    free(all);
    net_end(&whole);
}

/* ---- outputs that nobody wants ---- */

/* The program of the first output has no instruction of the second one, which would want a gradient; and the weights
 * that only the second one depends on have none. */
static void first_output_only(void **state)
{
    struct vc_engine_options options = {.train = true, .threads = 1, .n_outputs = 1};
    const struct vc_engine_pass pass = {.training = true, .norm_share = -1};
    struct net net = {.ctx = test_ctx(), .random = 5};
    uint64_t before;
    uint32_t y;

    (void)state;
    net_parse(&net, "(float[2, 3] x, float[3, 4] pa, float[4, 5] pb) => (float[2, 4] y, float[2, 5] z)\n"
                    "{ y = MatMul(x, pa)  z = MatMul(y, pb) }");
    net_weights(&net, VC_GRAPH_F64);
    before = net.weights->grad_bytes;
    y = vc_graph_output(net.graph, 0);
    assert_int_equal(vc_weights_leave_unread(net.weights, &y, 1), VC_OK);
    assert_true(net.weights->items[0].trained && !net.weights->items[0].unread);
    assert_true(!net.weights->items[1].trained && net.weights->items[1].unread);
    assert_int_equal(net.weights->grad_bytes, before - 192); /* 20 doubles, up to whole 64 bytes */
    net_engine(&net, &options);
    assert_int_equal(vc_engine_output_count(net.engine), 1);
    net_numbers(&net);
    net_forward(&net, &pass);
    net_backward(&net);
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < 4; k++) {
            double wanted = net.inputs[i] * net.cotangents[k] + net.inputs[3 + i] * net.cotangents[4 + k];

            assert_true(fabs(((const double *)net.weights->items[0].grad)[i * 4 + k] - wanted) < 1e-14);
        }
    }
    net_end(&net);
}

/* A dimension of a million: the program is made in steps that grow as its size does, not as the square, which would
 * not end. The borders' elements come three and four times. */
static void long_dimension(void **state)
{
    enum { N = 1000000 };
    const struct vc_engine_options options = {.train = true, .threads = 1};
    struct net net = net_begin("(float[1] x, float[1000000] pa) => (float[1000005] y) <int64[2] p = {2, 3}>\n"
                               "{ a = Pad<mode: string = \"edge\">(pa, p)  y = Mul(a, x) }",
                               VC_GRAPH_F64, &options);

    (void)state;
    net_forward(&net, &training);
    net_backward(&net);
    for (size_t i = 0; i < N; i++) {
        double wanted = 0;

        for (size_t k = i == 0 ? 0 : i + 2; k <= (i == N - 1 ? N + 4 : i + 2); k++) {
            wanted += net.inputs[0] * net.cotangents[k];
        }
        assert_true(fabs(((const double *)net.weights->items[0].grad)[i] - wanted) < 1e-14);
    }
    net_end(&net);
}

/* ---- Dropout ---- */

/* Graphs of ONNX files have no Dropout any more; this one is built by hand. */
static void drop(const struct vc_engine_pass *pass, int64_t rows, double *out)
{
    struct vc_engine_options options = {.train = true, .threads = 2, .dropout = true, .seed = 11, .input_grads = true};
    struct vc_dim shape[2] = {vc_dim_number(rows), vc_dim_number(5000)};
    struct net net = {.ctx = test_ctx(), .random = 1};
    uint32_t ratio;
    uint32_t x;

    assert_int_equal(vc_graph_create(net.ctx, &net.graph), VC_OK);
    x = vc_graph_add_input(net.graph, "x", VC_DTYPE_F32, shape, 2);
    ratio = vc_graph_add_float(net.graph, 0.25);
    vc_graph_add_output(net.graph, vc_graph_add(net.graph, "Dropout", "y", (uint32_t[]){x, ratio}, 2));
    assert_int_equal(vc_graph_finish(net.graph, &net.graph), VC_OK);
    net_weights(&net, VC_GRAPH_F64);
    net_engine(&net, &options);
    net_numbers(&net);
    for (size_t i = 0; i < net.n_inputs; i++) {
        net.inputs[i] = 3;
        net.cotangents[i] = 3;
    }
    net_forward(&net, pass);
    memcpy(out, vc_engine_output(net.engine, 0)->data, net.n_outputs * sizeof *out);
    net_backward(&net); /* drops the same ones */
    assert_memory_equal(out, vc_engine_input(net.engine, 0)->grad, net.n_outputs * sizeof *out);
    net_end(&net);
}

static void dropped_elements(void **state)
{
    struct vc_engine_pass pass = {.training = true, .step = 5};
    double *a = calloc(40000, sizeof *a);
    double *b = calloc(40000, sizeof *b);
    size_t n = 0;

    (void)state;
    drop(&pass, 8, a);
    for (size_t i = 0; i < 40000; i++) {
        assert_true(a[i] == 0 || a[i] == 4);
        n += a[i] == 0;
    }
    assert_in_range(n, 9700, 10300); /* 10000 with a deviation of 87 */
    /* rows 3 to 7 of the same step by themselves */
    pass.row = 3;
    drop(&pass, 5, b);
    assert_memory_equal(a + 15000, b, 25000 * sizeof *a);
    pass.step = 6;
    drop(&pass, 5, b);
    assert_memory_not_equal(a + 15000, b, 25000 * sizeof *a);
    pass.training = false;
    drop(&pass, 5, b);
    for (size_t i = 0; i < 25000; i++) {
        assert_true(b[i] == 3);
    }
    free(a);
    free(b);
}

/* ---- statistics ---- */

static void running_statistics(void **state)
{
    struct vc_engine_options options = {.train = true, .threads = 1};
    struct vc_engine_pass pass = training;
    struct net net =
        net_begin("(float[4,2] x, float[2] pa, float[2] pb, float[2] pc, float[2] pd) => (float[4,2] y) { y "
                  "= BatchNormalization<momentum: float = 0.75>(x, pa, pb, pc, pd) }",
                  VC_GRAPH_F64, &options);
    double *mean = net.weights->items[2].data;
    double *variance = net.weights->items[3].data;
    const double x[8] = {1, 10, 2, 20, 3, 30, 6, 60};

    (void)state;
    assert_true(net.weights->items[2].statistic && net.weights->items[3].statistic);
    assert_null(net.weights->items[2].grad);
    memcpy(net.inputs, x, sizeof x);
    mean[0] = 7;
    variance[0] = 2;
    net_forward(&net, &pass); /* mean 3, variance of a sample 14 / 3 */
    assert_true(fabs(mean[0] - (0.75 * 7 + 0.25 * 3)) < 1e-7);
    assert_true(fabs(variance[0] - (0.75 * 2 + 0.25 * 14 / 3)) < 1e-7);
    pass.norm_share = 1;
    net_forward(&net, &pass);
    assert_true(fabs(mean[1] - 30) < 1e-12 && fabs(variance[1] - 1400.0 / 3) < 1e-10);
    pass.training = false;
    net_forward(&net, &pass);
    assert_true(fabs(mean[1] - 30) < 1e-12);
    net_end(&net);
}

/* ---- kept values, weights that nothing reaches ---- */

static void kept_values(void **state)
{
    struct net net = {.ctx = test_ctx(), .random = 1};
    struct vc_engine_options options = {.train = true, .threads = 1, .n_kept = 1};
    uint32_t kept;
    double grad[3];

    (void)state;
    net_parse(&net,
              "(float[1,2] x, float[2,3] pa, float[2,3] pb) => (float[1,3] y) { a = MatMul(x, pa)  b = Relu(a)  y "
              "= Mul(b, b) }");
    net_weights(&net, VC_GRAPH_F64);
    kept = vc_graph_find(net.graph, "b");
    options.kept = &kept;
    net_engine(&net, &options);
    net_numbers(&net);
    assert_int_equal(vc_engine_output_count(net.engine), 2);
    net_forward(&net, &training);
    for (unsigned i = 0; i < 3; i++) {
        double b = ((double *)vc_engine_output(net.engine, 1)->data)[i];

        assert_true(b * b == ((double *)vc_engine_output(net.engine, 0)->data)[i]);
        /* d/da of c y + e b */
        grad[i] = b > 0 ? net.cotangents[i] * 2 * b + net.cotangents[3 + i] : 0;
    }
    net_backward(&net);
    for (unsigned i = 0; i < 6; i++) {
        double should = net.inputs[i / 3] * grad[i % 3];

        assert_true(fabs(((double *)net.weights->items[0].grad)[i] - should) < 1e-14);
    }
    net_end(&net);
}

/* A parameter of which only its shape is used by what is trained, and one whose tensor is frozen. */
static void weights_that_are_not_reached(void **state)
{
    struct net net = {.ctx = test_ctx(), .random = 1};
    struct vc_engine_options options = {.train = true, .threads = 1};
    const bool frozen[2] = {true, false};

    (void)state;
    net_parse(&net,
              "(float[1,2] x, float[2,3] pa, float[2,3] pb) => (float[1,3] y, float[2,3] z) { y = MatMul(x, pa)  z "
              "= Neg(pb) }");
    assert_int_equal(vc_weights_make(net.ctx, net.graph, VC_GRAPH_F64, true, frozen, &net.weights), VC_OK);
    assert_int_equal(vc_weights_allocate(net.weights), VC_OK);
    assert_null(net.weights->items[0].grad);
    assert_non_null(net.weights->items[1].grad);
    net_engine(&net, &options);
    assert_null(vc_engine_output(net.engine, 0)->grad); /* nothing before it is trained */
    assert_non_null(vc_engine_output(net.engine, 1)->grad);
    net_end(&net);
}

/* ---- parameters that are parts of tensors ---- */

/* y = x a b c, all three of the tensor "qk" [4, 3]: a is its rows 1 and 2, transposed, b its columns 1 and 2,
 * transposed, c all of it. The gradients of all go to their places in one tensor. */
static void parts_of_one_tensor(void **state)
{
    struct vc_engine_options options = {.train = true, .threads = 1};
    struct net net = {.ctx = test_ctx(), .random = 1};
    const uint64_t shape[2] = {4, 3};
    struct vc_param_spec rows = {.tensor = "qk", .index = VC_NO_TENSOR, .n_dims = 2, .shape = shape, .sliced = true};
    struct vc_param_spec whole = {.tensor = "qk", .index = VC_NO_TENSOR, .n_dims = 2, .shape = shape};
    struct vc_dim x_shape[2] = {vc_dim_number(2), vc_dim_number(3)};
    const double *qk;
    const double *grad;
    double gx[2][3] = {{0}};
    uint32_t x;
    uint32_t a;
    uint32_t b;
    uint32_t c;

    (void)state;
    assert_int_equal(vc_graph_create(net.ctx, &net.graph), VC_OK);
    x = vc_graph_add_input(net.graph, "x", VC_DTYPE_F32, x_shape, 2);
    rows.first = 1;
    rows.count = 2;
    rows.transposed = true; /* [3, 2] */
    a = vc_graph_add_param(net.graph, "rows", &rows);
    rows.axis = 1; /* [4, 2], transposed [2, 4] */
    b = vc_graph_add_param(net.graph, "columns", &rows);
    c = vc_graph_add_param(net.graph, "whole", &whole); /* [4, 3] */
    a = vc_graph_add(net.graph, "MatMul", "xa", (uint32_t[]){x, a}, 2);
    b = vc_graph_add(net.graph, "MatMul", "xab", (uint32_t[]){a, b}, 2);
    vc_graph_add_output(net.graph, vc_graph_add(net.graph, "MatMul", "y", (uint32_t[]){b, c}, 2));
    assert_int_equal(vc_graph_finish(net.graph, &net.graph), VC_OK);
    net_weights(&net, VC_GRAPH_F64);
    options.input_grads = true;
    net_engine(&net, &options);
    net_numbers(&net);
    assert_int_equal(net.weights->n, 1);
    assert_int_equal(net.weights->items[0].n, 12);
    step(&net);
    step(&net); /* gradients are added up */
    memcpy(gx, vc_engine_input(net.engine, 0)->grad, sizeof gx);
    qk = net.weights->items[0].data;
    grad = net.weights->items[0].grad;
    /* by differences of the forward pass */
    for (unsigned i = 0; i < 12; i++) {
        double *w = (double *)net.weights->items[0].data + i;
        double was = *w;
        double up;

        *w = was + 1e-5;
        net_forward(&net, &training);
        up = net_objective(&net);
        *w = was - 1e-5;
        net_forward(&net, &training);
        assert_true(fabs((up - net_objective(&net)) / 2e-5 - grad[i] / 2) < 1e-8);
        *w = was;
    }
    /* and the forward pass by hand */
    net_forward(&net, &training);
    for (unsigned i = 0; i < 2; i++) {
        double xa[2] = {0};
        double xab[4] = {0};

        for (unsigned k = 0; k < 3; k++) {
            xa[0] += net.inputs[3 * i + k] * qk[3 + k];
            xa[1] += net.inputs[3 * i + k] * qk[6 + k];
        }
        for (unsigned j = 0; j < 4; j++) {
            xab[j] = xa[0] * qk[3 * j + 1] + xa[1] * qk[3 * j + 2];
        }
        for (unsigned j = 0; j < 3; j++) {
            double y = xab[0] * qk[j] + xab[1] * qk[3 + j] + xab[2] * qk[6 + j] + xab[3] * qk[9 + j];

            assert_true(fabs(((double *)vc_engine_output(net.engine, 0)->data)[3 * i + j] - y) < 1e-14);
        }
    }
    net_end(&net);
}

/* ---- levels of the processor ---- */

/* Outputs and gradients are nearly the same at each level: products differ by fused additions. */
static void levels_agree(void **state)
{
    const enum vc_cpu_level levels[] = {VC_CPU_BASE, VC_CPU_AVX2, VC_CPU_AVX512};
    struct vc_engine_options options = {.train = true, .threads = 1};
    double first[370 + 80];

    (void)state;
    for (unsigned k = 0; k < 3; k++) {
        struct net net = {.ctx = test_ctx(), .random = 1};

        if (net.ctx->shared->cpu_level >= VC_CPU_AVX512 + 1 || net.ctx->shared->cpu_level < levels[k]) {
            test_ctx_done(net.ctx);
            continue;
        }
        net.ctx->shared->cpu_level = levels[k];
        net_parse(&net, CNN("37"));
        net_weights(&net, VC_GRAPH_F64);
        net_engine(&net, &options);
        net_numbers(&net);
        step(&net);
        for (unsigned i = 0; i < 80; i++) {
            double is = ((double *)net.weights->items[0].grad)[i % 72];

            first[370 + i] = k == 0 ? is : first[370 + i];
            assert_true(fabs(is - first[370 + i]) <= 1e-12 * (1 + fabs(is)));
        }
        net_forward(&net, &training);
        for (unsigned i = 0; i < 370; i++) {
            double is = ((double *)vc_engine_output(net.engine, 0)->data)[i];

            first[i] = k == 0 ? is : first[i];
            assert_true(fabs(is - first[i]) <= 1e-13 * (1 + fabs(is)));
        }
        net_end(&net);
    }
}

/* ---- what is refused ---- */

static void refused_nodes(void **state)
{
    static const struct {
        const char *graph, *says;
    } cases[] = {
        {"(float[2,3,4] x, float[4,5] pa) => (float[2,5] y) { a = Einsum<equation: string = \"bij,jk->bk\">(x, pa)  y "
         "= "
         "Cos(a) }",
         "Einsum 'a': this operator cannot be trained"}, /* the first of two */
    };
    struct vc_engine_options options = {.train = true, .threads = 1};

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct net net = {.ctx = test_ctx(), .random = 1};

        net_parse(&net, cases[k].graph);
        net_weights(&net, VC_GRAPH_F32);
        assert_int_equal(vc_engine_make(net.ctx, net.graph, net.weights, &options, &net.engine), VC_E_UNSUPPORTED);
        expect_says(net.ctx, cases[k].says);
        assert_null(net.engine);
        net_end(&net);
    }
}

static void sizes_that_are_not_known(void **state)
{
    struct net net = {.ctx = test_ctx(), .random = 1};
    struct vc_engine_options options = {.train = true, .threads = 1};

    (void)state;
    net_parse(&net, "(float[batch,2] x) => (float[batch,2] y) { y = Relu(x) }");
    net_weights(&net, VC_GRAPH_F32);
    assert_int_equal(vc_engine_make(net.ctx, net.graph, net.weights, &options, &net.engine), VC_E_ARGUMENT);
    expect_says(net.ctx, "dimension 0, which is batch");
    assert_null(net.engine);
    assert_int_equal(vc_graph_bind(net.ctx, net.graph, "batch", 3), VC_OK);
    assert_int_equal(vc_engine_make(net.ctx, net.graph, net.weights, &options, &net.engine), VC_OK);
    assert_int_equal(vc_engine_input(net.engine, 0)->n, 6);
    net_end(&net);
}

static void cancelled(void **state)
{
    struct vc_engine_options options = {.train = true, .threads = 2};
    struct net net = net_begin("(float[3,2] x) => (float[3,2] y) { y = Relu(x) }", VC_GRAPH_F32, &options);

    (void)state;
    vc_ctx_cancel(net.ctx);
    assert_int_equal(vc_engine_forward(net.engine, &training), VC_E_CANCELLED);
    assert_int_equal(vc_engine_backward(net.engine), VC_E_CANCELLED);
    net_end(&net);
}

/* Every allocation fails once. */
static void no_memory(void **state)
{
    struct net net = {.ctx = test_ctx(), .random = 1};
    struct vc_engine_options options = {.train = true, .threads = 2};
    enum vc_status status = VC_E_NOMEM;

    (void)state;
    net_parse(&net, CNN("3"));
    for (uint64_t n = 1; status != VC_OK; n++) {
        vc_pool_fail_at(net.ctx->shared->pool, n, 0);
        status = vc_weights_make(net.ctx, net.graph, VC_GRAPH_F32, true, NULL, &net.weights);
        if (status == VC_OK) {
            status = vc_weights_allocate(net.weights);
        }
        if (status == VC_OK) {
            status = vc_engine_make(net.ctx, net.graph, net.weights, &options, &net.engine);
        }
        vc_pool_fail_at(net.ctx->shared->pool, 0, 0);
        if (status != VC_OK) {
            assert_int_equal(status, VC_E_NOMEM);
            assert_null(net.engine);
            vc_weights_free(net.weights);
            net.weights = NULL;
        }
        assert_true(n < 1000);
    }
    net_end(&net);
}

/* ---- shorter ways through loops ---- */

#define PARTS 700 /* elements: two whole parts of 256, and the rest of a third */

static const enum vc_cpu_level levels[] = {VC_CPU_BASE, VC_CPU_AVX2, VC_CPU_AVX512};

static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* A part whose elements all lie within VC_EXP_NEAR is computed by fewer operations than one with an element beyond: each
 * gives what the formula of unary.inc says. */
static void swish_of_near_and_far(void **state)
{
    const float far[] = {87.1f, -87.5f, 300, -300, INFINITY, -INFINITY, NAN, -0.0f};
    struct vc_ctx *c = test_ctx();
    float x[PARTS], dy[PARTS], y[PARTS], dx[PARTS];
    struct net numbers = {.random = 1};

    (void)state;
    for (size_t i = 0; i < PARTS; i++) {
        x[i] = (float)(174 * net_random(&numbers) - 87);
        dy[i] = (float)net_random(&numbers);
    }
    memcpy(x + 300, far, sizeof far); /* of the second part */
    for (size_t k = 0; k < 3; k++) {
        const vc_train_loop *table = vc_train_table(VC_GRAPH_F32, levels[k]);
        struct vc_args_unary args = {.kind = VC_UNARY_SWISH, .n = PARTS};
        struct vc_train_call forward = {.p = {x, y}, .args = &args}, back = {.p = {x, dy, dx}, .args = &args};

        if (table == NULL || c->shared->cpu_level < levels[k]) {
            continue;
        }
        table[VC_LOOP_unary](&forward, &training, 0, 0);
        table[VC_LOOP_unary_backward](&back, &training, 0, 0);
        for (size_t i = 0; i < PARTS; i++) {
            float s = vc_sigmoid_f32(x[i]);

            assert_true(same_bits(y[i], x[i] * s));
            assert_true(same_bits(dx[i], dy[i] * (s * (1 + x[i] * (1 - s)))));
        }
    }
    vc_ctx_free(c);
}

#define HALF 37 /* pairs: two parts of 16, and five */

/* Pairs in parts and those behind them, forward and back, written, added, and in place. */
static void turned_in_parts(void **state)
{
    struct vc_ctx *c = test_ctx();
    float x[2 * HALF + 1], cosines[HALF], sines[HALF], y[2 * HALF + 1];
    struct net numbers = {.random = 1};

    (void)state;
    for (size_t i = 0; i < 2 * HALF + 1; i++) {
        x[i] = (float)net_random(&numbers);
    }
    for (size_t i = 0; i < HALF; i++) {
        cosines[i] = (float)net_random(&numbers);
        sines[i] = (float)net_random(&numbers);
    }
    for (size_t k = 0; k < 3 * 8; k++) {
        const vc_train_loop *table = vc_train_table(VC_GRAPH_F32, levels[k / 8]);
        bool back = k % 2 != 0, add = k / 2 % 2 != 0, interleaved = k / 4 % 2 != 0;
        struct vc_args_rotary args = {.batch = 1,
                                      .heads = 1,
                                      .length = 1,
                                      .size = 2 * HALF + 1,
                                      .half = HALF,
                                      .rows = 1,
                                      .interleaved = interleaved,
                                      .back = back};
        struct vc_train_call call = {.p = {y, cosines, sines, NULL, y}, .args = &args, .add = add};

        if (table == NULL || c->shared->cpu_level < levels[k / 8]) {
            continue;
        }
        memcpy(y, x, sizeof y);
        table[VC_LOOP_rotary](&call, &training, 0, 0);
        for (size_t p = 0; p < HALF; p++) {
            size_t i = interleaved ? 2 * p : p, j = interleaved ? 2 * p + 1 : p + HALF;
            float sine = back ? -sines[p] : sines[p];
            float a = x[i] * cosines[p] - x[j] * sine, b = x[i] * sine + x[j] * cosines[p];

            assert_true(same_bits(y[i], add ? x[i] + a : a) && same_bits(y[j], add ? x[j] + b : b));
        }
        assert_true(y[2 * HALF] == (add ? 2 * x[2 * HALF] : x[2 * HALF]));
    }
    vc_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swish_of_near_and_far),
        cmocka_unit_test(turned_in_parts),
        cmocka_unit_test(memory_is_what_was_planned),
        cmocka_unit_test(memory_ends_where_it_ends),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(float_is_near_double),
        cmocka_unit_test(parts_of_a_batch_add_up),
        cmocka_unit_test(first_output_only),
        cmocka_unit_test(long_dimension),
        cmocka_unit_test(dropped_elements),
        cmocka_unit_test(running_statistics),
        cmocka_unit_test(kept_values),
        cmocka_unit_test(weights_that_are_not_reached),
        cmocka_unit_test(parts_of_one_tensor),
        cmocka_unit_test(levels_agree),
        cmocka_unit_test(refused_nodes),
        cmocka_unit_test(sizes_that_are_not_known),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
