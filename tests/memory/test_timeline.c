/* test_timeline.c - a run as points in time, whose peak is that of the estimate; a matrix of GPUs and types, whose
 * answers are those of vc_fit_decide. */
#include "graph/build.h"
#include "scratch.h"
#include "support.h"

#define NET                           \
    "input x [batch, 3, 32, 32]\n"    \
    "conv conv1 64 kernel=3\nrelu\n"  \
    "conv conv2 128 kernel=3\nrelu\n" \
    "flatten\nlinear fc 10\n"

static struct vc_graph *read_net(struct vc_ctx *ctx, const char *text, int64_t batch)
{
    struct vc_graph *graph = NULL;

    if (vc_graph_read_text(ctx, save_text("net.txt", text), NULL, &graph) != VC_OK ||
        vc_graph_bind(ctx, graph, "batch", batch) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    return graph;
}

static uint64_t sum_of(const struct vc_memory_point *point)
{
    uint64_t sum = 0;

    for (int k = 0; k < VC_MEMORY_COMPONENTS; k++) {
        sum += point->bytes[k];
    }
    return sum;
}

/* What holds for the timeline of any options. */
static void check(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_memory_options *options,
                  size_t most)
{
    struct vc_memory_timeline *t = NULL;
    struct vc_memory_report report;

    assert_int_equal(vc_memory_estimate(ctx, graph, NULL, options, &report), VC_OK);
    assert_int_equal(vc_memory_timeline_make(ctx, graph, NULL, options, most, &t), VC_OK);
    assert_non_null(t);
    assert_true(t->n_points == (most < t->n_steps ? most : t->n_steps));
    assert_true(t->peak < t->n_points);
    assert_int_equal(sum_of(&t->points[t->peak]), report.moments[VC_MOMENT_PEAK].bytes);
    for (size_t i = 0; i < t->n_points; i++) {
        assert_true(sum_of(&t->points[i]) <= sum_of(&t->points[t->peak]));
        assert_true(t->points[i].step < t->n_steps && (i == 0 || t->points[i].step > t->points[i - 1].step));
        assert_int_equal(t->points[i].bytes[VC_MEMORY_PARAMETERS], report.components[VC_MEMORY_PARAMETERS].bytes);
        assert_int_equal(t->points[i].bytes[VC_MEMORY_OPTIMIZER], report.components[VC_MEMORY_OPTIMIZER].bytes);
    }
    if (options->mode == VC_MEMORY_INFER && most >= t->n_steps) {
        assert_string_equal(t->names[t->peak], report.peak_at);
    }
    assert_true(options->mode != VC_MEMORY_INFER ? t->backward < t->n_steps : t->backward == t->n_steps);
    if (options->mode == VC_MEMORY_TRAIN && most >= t->n_steps) {
        assert_int_equal(t->points[t->backward].bytes[VC_MEMORY_ACTIVATIONS],
                         report.components[VC_MEMORY_ACTIVATIONS].bytes);
    }
    vc_result_free(t);
}

static void test_peak(void **unused)
{
    static const size_t most[] = {1, 3, 7, 1000};
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_net(ctx, NET, 64);
    struct vc_memory_options options;

    (void)unused;
    for (size_t i = 0; i < sizeof most / sizeof most[0]; i++) {
        vc_memory_defaults(&options);
        check(ctx, graph, &options, most[i]);
        options.in_place = true;
        options.allocator = VC_ALLOCATOR_PYTORCH;
        check(ctx, graph, &options, most[i]);
        options.mode = VC_MEMORY_TRAIN;
        options.optimizer = VC_OPTIMIZER_ADAM;
        check(ctx, graph, &options, most[i]);
        options.amp = VC_AMP_AUTOCAST;
        check(ctx, graph, &options, most[i]);
        options.recompute = VC_RECOMPUTE_SQRT;
        check(ctx, graph, &options, most[i]);
        options.mode = VC_MEMORY_DISTILL;
        options.teacher = graph;
        check(ctx, graph, &options, most[i]);
    }
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* 100 rows of 1000 classes: in the backward step of the loss the logarithms of the probabilities, their gradient and
 * that of the logits live at once, each f32 (torch.cuda.max_memory_allocated shows these three). */
static void test_loss(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_net(ctx, "input x [batch, 8]\nlinear l 1000 bias=no\n", 100);
    struct vc_memory_options options;
    struct vc_memory_report report;

    (void)unused;
    vc_memory_defaults(&options);
    options.mode = VC_MEMORY_TRAIN;
    options.optimizer = VC_OPTIMIZER_SGD;
    for (int half = 0; half < 2; half++) {
        const uint64_t width = half != 0 ? 2 : 4;

        options.weights = half != 0 ? VC_DTYPE_F16 : VC_DTYPE_F32;
        assert_int_equal(vc_memory_estimate(ctx, graph, NULL, &options, &report), VC_OK);
        assert_int_equal(report.components[VC_MEMORY_ACTIVATIONS].bytes, 100 * 1000 * 4);
        assert_int_equal(report.moments[VC_MOMENT_PEAK].bytes, 2 * 8000 * width + 100 * 8 * width + 3 * 100 * 1000 * 4);
    }
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

static void test_none(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_memory_timeline *t = NULL;
    struct vc_memory_options options;
    struct vc_graph *graph = NULL;

    (void)unused;
    vc_memory_defaults(&options);
    assert_int_equal(vc_memory_timeline_make(ctx, NULL, NULL, &options, 9, &t), VC_OK);
    assert_null(t); /* no graph: activations are not known */
    assert_int_equal(vc_graph_read_text(ctx, save_text("net.txt", NET), NULL, &graph), VC_OK);
    assert_int_equal(vc_memory_timeline_make(ctx, graph, NULL, &options, 9, &t), VC_OK);
    assert_null(t); /* the batch is open */
    assert_int_equal(vc_memory_timeline_make(ctx, graph, NULL, &options, 0, &t), VC_E_ARGUMENT);
    vc_result_free(NULL);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

static void test_timeline_no_memory(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_net(ctx, NET, 8);
    enum vc_status status = VC_E_NOMEM;
    struct vc_memory_options options;
    uint64_t n = 0;

    (void)unused;
    vc_memory_defaults(&options);
    options.mode = VC_MEMORY_TRAIN;
    while (status != VC_OK) {
        struct vc_memory_timeline *t = NULL;

        vc_pool_fail_at(ctx->shared->pool, ++n, 0);
        status = vc_memory_timeline_make(ctx, graph, NULL, &options, 100, &t);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK ? t != NULL : status == VC_E_NOMEM && t == NULL);
        vc_result_free(t);
    }
    assert_true(n > 10);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

/* ---- the matrix ---- */

static void test_matrix(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_graph *graph = read_net(ctx, NET, 20000);
    struct vc_fit_matrix *m = NULL;
    struct vc_gpus *gpus = NULL;
    struct vc_memory_options memory;
    struct vc_fit_row asked = {.count = 1};
    bool there = false;

    (void)unused;
    vc_memory_defaults(&memory);
    assert_int_equal(vc_gpus_open(ctx, NULL, &gpus), VC_OK);
    assert_int_equal(vc_gpus_find(ctx, gpus, "Tesla P4", &asked.gpu, &asked.count), VC_OK);
    assert_int_equal(vc_fit_matrix_make(ctx, graph, NULL, &memory, NULL, gpus, &asked, 1, &m), VC_OK);
    assert_int_equal(m->n_columns, 4); /* no file: nothing is stored */
    assert_string_equal(m->columns[0].name, "f32");
    assert_string_equal(m->columns[2].name, "int8");
    assert_true(m->columns[0].weight_bytes == 2 * m->columns[1].weight_bytes && !m->weights_only);
    for (size_t r = 0; r < m->n_rows; r++) {
        struct vc_memory_report report;
        struct vc_fit fit;

        there = there || m->gpus[r] == asked.gpu;
        assert_true(r == 0 || m->gpus[r]->visible_bytes >= m->gpus[r - 1]->visible_bytes);
        memory.weights = VC_DTYPE_F16;
        assert_int_equal(vc_memory_estimate(ctx, graph, NULL, &memory, &report), VC_OK);
        assert_int_equal(vc_fit_decide(ctx, &report, &memory, m->gpus[r]->visible_bytes, NULL, &fit), VC_OK);
        assert_int_equal(m->fits[r * 4 + 1].verdict, fit.verdict);
        assert_int_equal(m->fits[r * 4 + 1].need_bytes, fit.need_bytes);
    }
    assert_true(there && m->n_rows > 8);
    assert_int_equal(m->fits[0].verdict, VC_FITS_NOT);
    assert_int_equal(m->fits[(m->n_rows - 1) * 4].verdict, VC_FITS);
    vc_result_free(m);
    vc_result_free(gpus);
    vc_graph_close(graph);
    test_ctx_done(ctx);
}

static void test_matrix_of_bytes(void **unused)
{
    const uint64_t gib = (uint64_t)1 << 30;
    const struct vc_fit_column columns[9] = {{"before", 14 * gib}, {"after", 7 * gib}};
    struct vc_ctx *ctx = test_ctx();
    struct vc_fit_matrix *m = NULL;
    struct vc_gpus *gpus = NULL;
    enum vc_status status = VC_E_NOMEM;
    uint64_t n = 0;

    (void)unused;
    assert_int_equal(vc_gpus_open(ctx, NULL, &gpus), VC_OK);
    assert_int_equal(vc_fit_matrix_of_bytes(ctx, columns, 9, gpus, &m), VC_E_ARGUMENT);
    expect_says(ctx, "9 columns");
    while (status != VC_OK) {
        m = NULL;
        vc_pool_fail_at(ctx->shared->pool, ++n, 0);
        status = vc_fit_matrix_of_bytes(ctx, columns, 2, gpus, &m);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK ? m != NULL : status == VC_E_NOMEM && m == NULL);
    }
    assert_true(n > 3 && m->weights_only && m->n_columns == 2);
    for (size_t r = 0; r < m->n_rows; r++) {
        const struct vc_fit *fits = &m->fits[2 * r];

        assert_int_equal(fits[0].peak_bytes, 14 * gib);
        assert_true(fits[0].verdict >= fits[1].verdict); /* what fits before, fits after */
    }
    vc_result_free(m);
    vc_result_free(NULL);
    vc_result_free(gpus);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peak),   cmocka_unit_test(test_loss),
        cmocka_unit_test(test_none),   cmocka_unit_test(test_timeline_no_memory),
        cmocka_unit_test(test_matrix), cmocka_unit_test(test_matrix_of_bytes),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
