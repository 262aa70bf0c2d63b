/* test_answers.c - graphs in f32 on the engine (engine/answers/answers.h) against the plain loops of graph/, which
 * define them: every case of the engine and operators that it has no loops for, from the inputs and from the values
 * behind every node; the same bits for any number of threads; what it leaves to the plain loops. */
#include "engine/answers/answers.h"
#include "engine_test.h"

#include <math.h>
#include <stdlib.h>

#include "passes/graph_params.h"

#define BOUND 1e-5 /* of 1 + the value */

/* Operators without loops, or with what theirs cannot do. */
static const char *const others[] = {
    "(float[2,5] x) => (float[2,2] y, int64[2,2] at) <int64[1] k = {2}> { y, at = TopK(x, k) }",
    "(float[2,3,4] x, float[4,5] pa) => (float[2,5] y) { y = Einsum<equation: string = \"bij,jk->bk\">(x, pa) }",
    "(float[3,4] x, float low) => (float[3,4] y) { a = Clip(x, low)  y = Neg(a) }",
    "(float[3,4] x) => (float[3,4] y) <int64 axis = {1}> { a = CumSum(x, axis)  b = Sigmoid(a)  y = Mul(a, b) }",
    "(float[2,3] x, float[2,3] z) => (float[2,3] y) { a = Max(x, z, x)  b = Relu(a)  c = Min(b, z, x, z)  d = Tanh(c)  "
    "y = Max(d) }",
    "(float[2,2,3,3] x, float[2,3,2,2] pa) => (float[2,3,4,4] y) { a = Relu(x)  b = ConvTranspose(a, pa)  y = Neg(b) }",
    "(float[2,3] x) => (float[2,3] y, float[2,3] z) { s = Sigmoid(x)  y = Mul(x, s)  z = Identity(y) }",
    "(int64[2,3] t, float[4,5] pa) => (float[2,3,5] y, int64[2,3] u) { u = Add(t, t)  y = Gather(pa, t) }",
    /* rows that are computed some at a time, choices and planes along rows, products that add their bias */
    "(float[9,70] x) => (float[9,70] y) { y = Softmax(x) }",
    "(float[19,37] x) => (float[19,37] y) { y = LogSoftmax(x) }",
    "(float[2,4200] x) => (float[2,4200] y) { y = Softmax(x) }",
    "(float[3,20,18] x) => (float[3,20,18] y) { a = Transpose<perm: ints = [0, 2, 1]>(x)  b = Neg(a)  y = "
    "Transpose<perm: ints = [0, 2, 1]>(b) }",
    "(float[2,5,3,70] x) => (float[2,3,5,70] y) { y = Transpose<perm: ints = [0, 2, 1, 3]>(x) }",
    "(int64[3,1] t, float[4] a, float[2,1,1] b) => (float[2,3,4] y) { c = Cast<to: int = 9>(t)  y = Where(c, a, b) }",
    "(float[2,7,9] x, float[9,40] pa, float[40] pb) => (float[2,7,40] y) { a = MatMul(x, pa)  y = Add(a, pb) }",
    "(float[2,7,9] x, float[9,40] pa, float[40] pb) => (float[2,7,40] y) { a = MatMul(x, pa)  y = Add(pb, a) }",
    "(float[7,300] x, float[300,40] pa, float[40] pb) => (float[7,40] y) { y = Gemm(x, pa, pb) }",
    "(float[1,9] x, float[9,40] pa) => (float[1,40] y) { a = MatMul(x, pa)  y = Add(a, a) }",
    "(float[1,9] x, float[9,40] pa, float[40] pb) => (float[1,40] y, float[1,40] z) { a = MatMul(x, pa)  y = Add(a, "
    "pb)  z = Add(pb, a) }",
    "(float[5,9] x, float[9,5] pa, float[5,1] pb) => (float[5,5] y) { a = MatMul(x, pa)  y = Add(a, pb) }",
    /* convolutions with Relu, of widths that fill no vector; pools of 2 x 2 of whole planes, and of odd ones */
    "(float[2,3,9,11] x, float[5,3,3,3] pa, float[5] pb) => (float[2,5,9,11] y) { a = Conv<pads: ints = [1, 1, 1, "
    "1]>(x, pa, pb)  y = Relu(a) }",
    "(float[2,4,5,6] x, float[6,2,3,3] pa) => (float[2,6,3,4] y) { a = Conv<group: int = 2>(x, pa)  b = Relu(a)  y = "
    "Neg(b) }",
    "(float[1,3,30,37] x, float[9,3,3,5] pa, float[9] pb) => (float[1,9,28,33] y, float[1,9,28,33] z) { y = Conv(x, "
    "pa, pb)  z = Relu(y) }",
    "(float[2,3,14,14] x) => (float[2,3,7,7] y) { y = MaxPool<kernel_shape: ints = [2, 2], strides: ints = [2, 2]>(x) "
    "}",
    "(float[2,3,29,28] x) => (float[2,3,14,14] y) { a = Abs(x)  b = Log(x)  c = Mul(a, b)  y = MaxPool<kernel_shape: "
    "ints = [2, 2], strides: ints = [2, 2]>(c) }",
    "(int64[1] a, int64[1] b, int64[1] c) => (int64[15] y) { y = Concat<axis: int = 0>(a, b, c, a, b, c, a, b, c, a, "
    "b, c, "
    "a, b, c) }",
};
static const char *const cases[] = {
#include "engine_cases.inc"
};

#define N_CASES  (sizeof cases / sizeof *cases)
#define N_OTHERS (sizeof others / sizeof *others)

/* A graph with numbers for its inputs and parameters, and values that a run took. */
struct world {
    struct net net; /* its graph and weights */
    size_t n_values;
    struct vc_run_value *inputs, *taken; /* by value */
    size_t n_taken, n_read;              /* values; parameters */
    bool cancel;                         /* at the first value */
};

static void fill(struct world *w, struct vc_run_value *value)
{
    for (size_t i = 0; i < value->n; i++) {
        double x = net_random(&w->net);

        if (value->is_real) {
            ((float *)value->data)[i] = (float)x;
        } else {
            ((int64_t *)value->data)[i] = (int64_t)((x + 1) * 2);
        }
    }
}

static size_t bytes_of(const struct vc_run_value *value)
{
    return value->n * (value->is_real ? sizeof(float) : sizeof(int64_t));
}

static struct world world_begin(const char *body)
{
    struct world w = {.net = {.ctx = test_ctx(), .random = 1}};

    net_parse(&w.net, body);
    net_weights(&w.net, VC_GRAPH_F32);
    w.n_values = vc_graph_value_count(w.net.graph);
    w.inputs = calloc(w.n_values, sizeof *w.inputs);
    w.taken = calloc(w.n_values, sizeof *w.taken);
    for (uint32_t k = 0; k < vc_graph_input_count(w.net.graph); k++) {
        uint32_t v = vc_graph_input(w.net.graph, k);
        const struct vc_graph_value *value = vc_graph_value(w.net.graph, v);
        struct vc_run_value *input = &w.inputs[v];

        *input = (struct vc_run_value){.n_dims = value->n_dims, .n = 1, .is_real = value->dtype == VC_DTYPE_F32};
        for (unsigned d = 0; d < value->n_dims; d++) {
            input->shape[d] = value->shape[d].size >= 0 ? value->shape[d].size : 0;
            input->n *= (size_t)input->shape[d];
        }
        input->data = calloc(input->n + 1, 8);
        fill(&w, input);
    }
    return w;
}

static void forget_taken(struct world *w)
{
    for (size_t v = 0; v < w->n_values; v++) {
        free(w->taken[v].data);
        w->taken[v].data = NULL;
    }
    w->n_taken = 0;
}

static void world_end(struct world *w)
{
    forget_taken(w);
    for (size_t v = 0; v < w->n_values; v++) {
        free(w->inputs[v].data);
    }
    free(w->inputs);
    free(w->taken);
    net_drop(&w->net);
    test_ctx_done(w->net.ctx);
}

static enum vc_status param(struct vc_ctx *ctx, void *user, const struct vc_graph_param *p, void *elements)
{
    struct world *w = user;
    const struct vc_weight *item = vc_weights_find(w->net.weights, p->tensor);
    struct vc_place place = vc_place_of_param(p);

    (void)ctx;
    w->n_read++;
    vc_place_floats(&place, item->data, (size_t)item->n, elements);
    return VC_OK;
}

static enum vc_status input(struct vc_ctx *ctx, void *user, uint32_t k, struct vc_run_value *value)
{
    const struct world *w = user;
    const struct vc_run_value *from = &w->inputs[vc_graph_input(w->net.graph, k)];

    *value = *from;
    value->data = vc_alloc(ctx, VC_TAG_TILES, bytes_of(from) + 1);
    if (value->data == NULL) {
        return VC_E_NOMEM;
    }
    memcpy(value->data, from->data, bytes_of(from));
    return VC_OK;
}

static enum vc_status take(struct vc_ctx *ctx, void *user, uint32_t v, const struct vc_run_value *value)
{
    struct world *w = user;

    w->n_taken += w->taken[v].data == NULL;
    free(w->taken[v].data);
    w->taken[v] = *value;
    w->taken[v].data = malloc(bytes_of(value) + 1);
    memcpy(w->taken[v].data, value->data, bytes_of(value));
    if (w->cancel) {
        vc_ctx_cancel(ctx);
    }
    return VC_OK;
}

static struct vc_run_calls feed_of(struct world *w)
{
    return (struct vc_run_calls){.user = w, .param = param, .input = input, .take = take};
}

/* The outputs of the graph, or one value. */
static enum vc_status run(struct world *w, bool plain, const uint32_t *wanted)
{
    const struct vc_run_calls calls = feed_of(w);
    struct vc_graph *graph = w->net.graph;
    size_t n = wanted != NULL ? 1 : vc_graph_output_count(graph);

    wanted = wanted != NULL ? wanted : graph->outputs;
    return plain ? vc_graph_forward(w->net.ctx, graph, VC_PRECISION_F32, &calls, wanted, n)
                 : vc_answers_forward(w->net.ctx, graph, &calls, wanted, n);
}

static void must(struct world *w, enum vc_status status, const char *body)
{
    if (status != VC_OK) {
        fail_msg("%s: %s", body, vc_ctx_message(w->net.ctx));
    }
}

static struct vc_run_value *move_taken(struct world *w)
{
    struct vc_run_value *moved = w->taken;

    w->taken = calloc(w->n_values, sizeof *w->taken);
    w->n_taken = 0;
    return moved;
}

static void free_values(struct vc_run_value *values, size_t n)
{
    for (size_t v = 0; v < n; v++) {
        free(values[v].data);
    }
    free(values);
}

/* The outputs that were taken against others: within the bound, or the same bits. */
static void expect_near(const struct world *w, const struct vc_run_value *should, bool same, const char *body)
{
    for (uint32_t k = 0; k < w->net.graph->n_outputs; k++) {
        const struct vc_run_value *a = &w->taken[w->net.graph->outputs[k]];
        const struct vc_run_value *b = &should[w->net.graph->outputs[k]];

        if (a->data == NULL || b->data == NULL || a->n != b->n || a->n_dims != b->n_dims ||
            memcmp(a->shape, b->shape, a->n_dims * sizeof *a->shape) != 0) {
            fail_msg("%s: output %u is not there, or has another shape", body, k);
        }
        if (same || !a->is_real) {
            if (memcmp(a->data, b->data, bytes_of(a)) != 0) {
                fail_msg("%s: output %u has other bits", body, k);
            }
            continue;
        }
        for (size_t i = 0; i < a->n; i++) {
            double x = (double)((const float *)a->data)[i];
            double y = (double)((const float *)b->data)[i];

            if (!(fabs(x - y) <= BOUND * (1 + fabs(y))) && !(isnan(x) && isnan(y))) {
                fail_msg("%s: element %zu of output %u is %.9g; the plain loops give %.9g", body, i, k, x, y);
            }
        }
    }
}

static void check_case(const char *body)
{
    struct world w = world_begin(body);
    struct vc_run_value *plain;
    struct vc_run_value *first;

    must(&w, run(&w, true, NULL), body);
    plain = move_taken(&w);
    assert_int_equal(vc_ctx_set_threads(w.net.ctx, 1), VC_OK);
    must(&w, run(&w, false, NULL), body);
    expect_near(&w, plain, false, body);
    first = move_taken(&w);
    assert_int_equal(vc_ctx_set_threads(w.net.ctx, 4), VC_OK);
    must(&w, run(&w, false, NULL), body);
    expect_near(&w, first, true, body);
    free_values(plain, w.n_values);
    free_values(first, w.n_values);
    world_end(&w);
}

static void like_the_plain_loops(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_CASES; k++) {
        check_case(cases[k]);
    }
    for (size_t k = 0; k < N_OTHERS; k++) {
        check_case(others[k]);
    }
}

/* ---- feeds ---- */

/* Computes the outputs from what nodes up to k have made: the bits of the whole run. */
static void begin_behind(struct world *w, uint32_t k, const struct vc_run_value *all, const char *body)
{
    const struct vc_run_calls calls = feed_of(w);
    struct vc_graph *graph = w->net.graph;
    struct vc_run_value *feeds = calloc(w->n_values, sizeof *feeds);
    const struct vc_answers_options options = {
        .feeds = feeds, .wanted = graph->outputs, .n_wanted = graph->n_outputs, .threads = 2};
    struct vc_answers *answers = NULL;

    for (uint32_t v = 0; v < w->n_values; v++) {
        uint32_t node = vc_graph_value(graph, v)->node;

        feeds[v] = w->inputs[v].data != NULL ? w->inputs[v] : all[v];
        if (node != VC_NO_NODE && node > k) {
            feeds[v].data = NULL;
        }
    }
    must(w, vc_answers_make(w->net.ctx, graph, &options, &answers), body);
    must(w, vc_answers_run(answers, &calls, NULL), body);
    expect_near(w, all, true, body);
    forget_taken(w);
    must(w, vc_answers_run(answers, &calls, feeds), body); /* once more, in the same memory */
    expect_near(w, all, true, body);
    forget_taken(w);
    vc_answers_free(answers);
    free(feeds);
}

static void check_given(const char *body)
{
    struct world w = world_begin(body);
    const struct vc_run_calls calls = feed_of(&w);
    struct vc_graph *graph = w.net.graph;
    struct vc_run_value *feeds = calloc(w.n_values, sizeof *feeds);
    const struct vc_answers_options options = {
        .feeds = feeds, .wanted = graph->outputs, .n_wanted = graph->n_outputs, .every = true, .threads = 1};
    struct vc_answers *answers = NULL;
    struct vc_run_value *all;
    enum vc_status status;

    must(&w, vc_graph_read_inputs(w.net.ctx, graph, VC_PRECISION_F32, &calls, graph->outputs, graph->n_outputs, feeds),
         body);
    status = vc_answers_make(w.net.ctx, graph, &options, &answers);
    if (status != VC_E_UNSUPPORTED) {
        must(&w, status, body);
        must(&w, vc_answers_run(answers, &calls, NULL), body);
        all = move_taken(&w);
        for (uint32_t k = 0; k < graph->n_nodes; k++) {
            begin_behind(&w, k, all, body);
        }
        free_values(all, w.n_values);
    }
    vc_answers_free(answers);
    for (size_t v = 0; v < w.n_values; v++) {
        vc_free(w.net.ctx, feeds[v].data);
    }
    free(feeds);
    world_end(&w);
}

static void from_values_behind_every_node(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_CASES; k++) {
        check_given(cases[k]);
    }
    for (size_t k = 0; k < N_OTHERS; k++) {
        check_given(others[k]);
    }
}

static const char every_kind[] =
    "(float[2,3] x, float[3,4] pa) => (float[8] y) <int64[1] s = {-1}, float two = {2.0}> {"
    " a = MatMul(x, pa)  b = Reshape(a, s)  c = Relu(a)  d = Reshape(c, s)  e = Add(b, d) "
    " y = Mul(e, two) }";

/* Inputs, parameters, constants, views and results, alone. */
static void values_of_every_kind(void **state)
{
    struct world w = world_begin(every_kind);

    (void)state;
    for (uint32_t v = 0; v < w.n_values; v++) {
        struct vc_run_value plain;

        must(&w, run(&w, true, &v), every_kind);
        plain = w.taken[v];
        w.taken[v].data = NULL;
        w.n_taken = 0;
        must(&w, run(&w, false, &v), every_kind);
        assert_int_equal(w.n_taken, 1);
        assert_int_equal(w.taken[v].n, plain.n);
        for (size_t i = 0; plain.is_real && i < plain.n; i++) {
            assert_true(fabs((double)((float *)w.taken[v].data)[i] - (double)((float *)plain.data)[i]) < 1e-6);
        }
        free(plain.data);
        forget_taken(&w);
    }
    world_end(&w);
}

/* ---- series ---- */

static void same_as_plain(struct world *w, const char *body)
{
    struct vc_run_value *plain;

    must(w, run(w, true, NULL), body);
    plain = move_taken(w);
    must(w, run(w, false, NULL), body);
    expect_near(w, plain, true, body);
    free_values(plain, w->n_values);
}

/* Other inputs, then the first ones again: the bits of a run alone. Returns how often parameters were read behind the
 * first run. */
static size_t run_series(struct world *w, struct vc_answers_series *series, const char *body)
{
    const struct vc_run_calls calls = feed_of(w);
    struct vc_run_value *first;
    size_t n_read;

    must(w, run(w, false, NULL), body);
    first = move_taken(w);
    must(w, vc_answers_series_run(series, &calls), body);
    expect_near(w, first, true, body);
    free_values(first, w->n_values);
    forget_taken(w);
    for (uint32_t v = 0; v < w->n_values; v++) {
        for (size_t i = 0; w->inputs[v].is_real && i < w->inputs[v].n; i++) {
            ((float *)w->inputs[v].data)[i] *= 0.75F;
        }
    }
    must(w, run(w, false, NULL), body);
    first = move_taken(w);
    n_read = w->n_read;
    for (unsigned k = 0; k < 2; k++) {
        must(w, vc_answers_series_run(series, &calls), body);
        expect_near(w, first, true, body);
        forget_taken(w);
    }
    free_values(first, w->n_values);
    return w->n_read - n_read;
}

static size_t reads_of_series(const char *body, bool keeps)
{
    struct world w = world_begin(body);
    struct vc_answers_series *series = NULL;
    size_t n;

    must(&w,
         vc_answers_series_make(w.net.ctx, w.net.graph, w.net.graph->outputs, w.net.graph->n_outputs, keeps, &series),
         body);
    n = run_series(&w, series, body);
    vc_answers_series_free(series);
    world_end(&w);
    return n;
}

static void series_of_runs(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_CASES; k++) {
        assert_int_equal(reads_of_series(cases[k], true), 0);
    }
    for (size_t k = 0; k < N_OTHERS; k++) {
        assert_int_equal(reads_of_series(others[k], true), 0);
    }
    assert_int_equal(reads_of_series("(float[2,3] x, float[3,4] pa) => (float[2,4] y) { y = MatMul(x, pa) }", false),
                     2);
}

static const char five[] =
    "(float[batch,64] x, float[64,64] pa, float[64,64] pb, float[64,64] pc, float[64,64] pd, float[64,64] pe) => "
    "(float[batch,64] y) { a = MatMul(x, pa)  b = MatMul(a, pb)  c = MatMul(b, pc)  d = MatMul(c, pd)  y = MatMul(d, "
    "pe) }";

/* An input of so many rows; the run of the series, within a memory limit, has the bits of a run alone. Returns how many
 * parameters it read. */
static size_t run_rows(struct world *w, struct vc_answers_series *series, int64_t rows, uint64_t limit)
{
    struct vc_run_value *x = &w->inputs[vc_graph_input(w->net.graph, 0)];
    const struct vc_run_calls calls = feed_of(w);
    uint64_t was = vc_ctx_max_memory(w->net.ctx);
    struct vc_run_value *should;
    size_t n_read;

    x->shape[0] = rows;
    x->n = (size_t)rows * 64;
    free(x->data);
    x->data = calloc(x->n, sizeof(float));
    fill(w, x);
    must(w, run(w, false, NULL), five);
    should = move_taken(w);
    n_read = w->n_read;
    must(w, vc_ctx_set_max_memory(w->net.ctx, limit), five);
    must(w, vc_answers_series_run(series, &calls), five);
    must(w, vc_ctx_set_max_memory(w->net.ctx, was), five);
    expect_near(w, should, true, five);
    free_values(should, w->n_values);
    forget_taken(w);
    return w->n_read - n_read;
}

/* A program is for the sizes of its inputs; parameters that are kept go where it needs their memory. */
static void series_of_other_sizes(void **state)
{
    struct world w = world_begin(five);
    struct vc_answers_series *series = NULL;
    uint64_t limit = (uint64_t)1 << 20;
    size_t n_read = 0;

    (void)state;
    assert_int_equal(vc_ctx_set_threads(w.net.ctx, 1), VC_OK);
    must(&w, vc_answers_series_make(w.net.ctx, w.net.graph, w.net.graph->outputs, 1, true, &series), five);
    assert_int_equal(run_rows(&w, series, 5, limit), 5);
    assert_int_equal(run_rows(&w, series, 5, limit), 0);
    assert_int_equal(run_rows(&w, series, 3, limit), 0);
    for (int64_t k = 0; n_read == 0; k++) {
        limit -= 16384;
        n_read = run_rows(&w, series, 100 + k % 2, limit);
    }
    assert_int_equal(n_read, 5);
    assert_int_equal(run_rows(&w, series, 5, limit), 5);
    vc_answers_series_free(series);
    world_end(&w);
}

/* ---- what is left to the plain loops, and failures ---- */

/* Sizes of 0, and a limit that has no room for the arena of a convolution and its workspace. */
static void the_plain_loops_compute(void **state)
{
    static const char empty[] = "(float[2,0] x) => (float[2] y) <int64[1] axes = {1}> { y = ReduceSum<keepdims: int = "
                                "0>(x, axes) }";
    static const char wide[] = "(float[1,4,64,64] x, float[4,4,3,3] pa) => (float[1,4,62,62] y) { y = Conv(x, pa) }";
    struct world w = world_begin(empty);
    struct vc_answers *answers = NULL;

    (void)state;
    same_as_plain(&w, empty);
    world_end(&w);

    w = world_begin(wide);
    {
        const struct vc_run_calls calls = feed_of(&w);
        struct vc_run_value *feeds = calloc(w.n_values, sizeof *feeds);
        const struct vc_answers_options options = {
            .feeds = feeds, .wanted = w.net.graph->outputs, .n_wanted = 1, .threads = 1};
        uint64_t was = vc_ctx_max_memory(w.net.ctx);

        must(&w, vc_graph_read_inputs(w.net.ctx, w.net.graph, VC_PRECISION_F32, &calls, options.wanted, 1, feeds),
             wide);
        must(&w, vc_answers_make(w.net.ctx, w.net.graph, &options, &answers), wide);
        assert_int_equal(
            vc_ctx_set_max_memory(w.net.ctx, vc_pool_in_use(w.net.ctx->shared->pool) + vc_answers_bytes(answers) - 1),
            VC_OK);
        vc_answers_free(answers);
        vc_free(w.net.ctx, feeds[vc_graph_input(w.net.graph, 0)].data);
        free(feeds);
        same_as_plain(&w, wide);
        assert_int_equal(vc_ctx_set_max_memory(w.net.ctx, was), VC_OK);
    }
    world_end(&w);
}

/* 4,608 terms of one sign: added one by one, some of these sums are off by more than 1e-6. */
static void long_sums_of_convolutions(void **state)
{
    static const char body[] = "(float[1,512,5,5] x, float[9,512,3,3] pa) => (float[1,9,3,3] y) { y = Conv(x, pa) }";
    struct world w = world_begin(body);
    struct vc_run_value *x = &w.inputs[vc_graph_input(w.net.graph, 0)];
    const struct vc_weight *weight = vc_weights_find(w.net.weights, "pa");
    float *from = x->data;
    float *by = weight->data;
    const float *y;

    (void)state;
    for (size_t i = 0; i < x->n; i++) {
        from[i] = 1 + from[i] / 2;
    }
    for (size_t i = 0; i < weight->n; i++) {
        by[i] = 1 + by[i] / 2;
    }
    must(&w, run(&w, false, NULL), body);
    y = w.taken[w.net.graph->outputs[0]].data;
    for (size_t i = 0; i < 81; i++) { /* filter i / 9, window (i / 3 % 3, i % 3) */
        double sum = 0;

        for (size_t k = 0; k < 4608; k++) { /* channel k / 9, element (k / 3 % 3, k % 3) */
            sum +=
                (double)from[k / 9 * 25 + (i / 3 % 3 + k / 3 % 3) * 5 + i % 3 + k % 3] * (double)by[i / 9 * 4608 + k];
        }
        assert_true(fabs((double)y[i] / sum - 1) < 1e-6);
    }
    world_end(&w);
}

static void indices_out_of_range(void **state)
{
    static const char body[] = "(int64[3] t, float[2,5] pa) => (float[3,5] y) { y = Gather(pa, t) }";
    struct world w = world_begin(body);

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        ((int64_t *)w.inputs[vc_graph_input(w.net.graph, 0)].data)[i] = i == 1 ? 7 : 1;
    }
    assert_int_not_equal(run(&w, false, NULL), VC_OK);
    expect_says(w.net.ctx, "Gather 'y': index 7, at place 1, is out of range: there are 2 rows");
    world_end(&w);
}

static void no_memory(void **state)
{
    struct world w = world_begin(every_kind);
    struct vc_pool *pool = w.net.ctx->shared->pool;
    enum vc_status status = VC_E_NOMEM;
    unsigned n = 0;

    (void)state;
    assert_int_equal(vc_ctx_set_threads(w.net.ctx, 1), VC_OK);
    for (n = 1; status != VC_OK; n++) {
        uint64_t in_use = vc_pool_in_use(pool);

        vc_pool_fail_at(pool, n, 0);
        status = run(&w, false, NULL);
        vc_pool_fail_at(pool, 0, 0);
        assert_true(status == VC_OK || status == VC_E_NOMEM);
        assert_int_equal(vc_pool_in_use(pool), in_use);
        forget_taken(&w);
        vc_clear_error(w.net.ctx);
    }
    assert_true(n > 30);
    world_end(&w);
}

/* Cancelled while a value is taken: nothing behind it is computed. */
static void cancelled(void **state)
{
    static const char body[] = "(float[3,5] x) => (float[3,5] y, float[3,5] z) { y = Relu(x)  z = Tanh(y) }";
    struct world w = world_begin(body);

    (void)state;
    w.cancel = true;
    vc_call_begin(w.net.ctx);
    assert_int_equal(vc_call_end(w.net.ctx, run(&w, false, NULL)), VC_E_CANCELLED);
    assert_int_equal(w.n_taken, 1);
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_the_plain_loops),
        cmocka_unit_test(from_values_behind_every_node),
        cmocka_unit_test(values_of_every_kind),
        cmocka_unit_test(series_of_runs),
        cmocka_unit_test(series_of_other_sizes),
        cmocka_unit_test(the_plain_loops_compute),
        cmocka_unit_test(long_sums_of_convolutions),
        cmocka_unit_test(indices_out_of_range),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(cancelled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
