/* test_sensitivity_data.c - vc_sensitivity_measure on a network of two layers. Judge: NumPy, in f64, whose numbers are
 * written down here; the network of examples/digits is tests/judge/test_sensitivity_data.py's. */
#include <math.h>

#include "graph/build.h"
#include "scratch.h"
#include "support.h"

#include "core/model/memory_model.h"
#include "measure/output_runs.h"
#include "measure/sensitivity/sensitivity_changes.h"

static const float w1[] = {1, -2, 3, 4, 0, -1, -3, 2, 5, 2, 6, -4};
static const float b1[] = {1, -1, 0, 2};
static const float w2[] = {1, -3, 2, 5, -2, 4, 6, -1};
static const float b2[] = {0.5F, -0.5F};
static const float other[] = {1, 2, 3, 4};
static const float x[] = {1, 2, 3, -1, 0, 2, 2, -1, 1, 0.5F, 1, -2, 9, 9, 9};
static const uint64_t shape_w1[] = {4, 3};
static const uint64_t shape_w2[] = {2, 4};
static const uint64_t shape_other[] = {2, 2};

static struct vc_ctx *ctx;
static struct vc_model *model;
static struct vc_graph *graph;

static const char layers[] = "input x [batch, 3]\nlinear fc1 4\nrelu\nlinear fc2 2\n";

static struct vc_graph *graph_of(const char *text)
{
    struct vc_graph_options options;
    struct vc_graph *made = NULL;

    vc_graph_defaults(&options);
    options.weights = model;
    if (vc_graph_read_text(ctx, save_text("graph.txt", text), &options, &made) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    return made;
}

/* An npy of f32 with n rows of three. */
static void save_data(const char *name, const char *shape, unsigned n)
{
    struct bytes b = {NULL, 0, 0};
    char head[128];

    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    head[10 + snprintf(head + 10, 100, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", shape)] = ' ';
    head[127] = '\n';
    bytes_add(&b, head, sizeof head);
    bytes_add(&b, x, n * 3 * sizeof *x);
    (void)save_own(name, b);
}

static int begin(void **state)
{
    const struct vc_memory_tensor tensors[] = {
        {"fc1.weight", VC_DTYPE_F32, 2, shape_w1, w1},     {"fc1.bias", VC_DTYPE_F32, 1, shape_w1, b1},
        {"fc2.weight", VC_DTYPE_F32, 2, shape_w2, w2},     {"fc2.bias", VC_DTYPE_F32, 1, shape_w2, b2},
        {"left.out", VC_DTYPE_F32, 2, shape_other, other},
    };

    (void)state;
    ctx = test_ctx();
    assert_int_equal(vc_memory_model_create(ctx, tensors, 5, &model), VC_OK);
    graph = graph_of(layers);
    save_data("x.npy", "(5, 3)", 5);
    return 0;
}

static int end(void **state)
{
    (void)state;
    vc_graph_close(graph);
    vc_model_close(model);
    empty_folder();
    vc_ctx_free(ctx);
    return 0;
}

static enum vc_status measure(uint64_t n_rows, struct vc_sensitivity **out)
{
    struct vc_sensitivity_data_options options;
    enum vc_status status;

    *out = NULL;
    VC_TRY(vc_model_sensitivity(ctx, model, NULL, out));
    vc_sensitivity_data_defaults(&options);
    options.graph = graph;
    options.data = in_folder("x.npy");
    options.n_rows = n_rows;
    VC_TRY(vc_sensitivity_measure(ctx, *out, &options));
out:
    return status;
}

/* ---- figures ---- */

static void expect_change(const struct vc_output_change *change, double relative, double answers)
{
    assert_null(change->reason);
    assert_true(fabs(change->relative - relative) < 1e-6);
    assert_true(fabs(change->answers - answers) < 1e-12);
}

static size_t candidate_of(const struct vc_sensitivity *s, const char *name)
{
    size_t k = 0;

    while (strcmp(s->candidates[s->measured->candidates[k]].name, name) != 0) {
        k++;
    }
    return k;
}

static void test_figures(void **unused)
{
    struct vc_sensitivity *s = NULL;
    const struct vc_measured *m;
    static const double pruned[2][3] = {{0.22720102109417245, 0.4207026592070861, 0.4357155114093452},
                                        {0.4160759602103275, 0.4227427163931447, 0.7230483853753636}};
    static const double answers[3] = {0.0, 0.0, 0.25};

    (void)unused;
    assert_int_equal(measure(4, &s), VC_OK);
    m = s->measured;
    assert_int_equal(m->n_rows, 4);
    assert_int_equal(m->n_tensors, 3);
    for (size_t t = 0; t < 2; t++) {
        assert_string_equal(s->rows[m->tensors[t].row].name, t == 0 ? "fc1.weight" : "fc2.weight");
        for (size_t k = 0; k < 3; k++) {
            assert_int_equal(s->candidates[m->candidates[k]].percent, 50 + 20 * k);
            expect_change(&m->tensors[t].changes[k], pruned[t][k], answers[k]);
        }
        expect_change(&m->tensors[t].changes[candidate_of(s, "f16")], 0.0, 0.0); /* small whole numbers */
        assert_non_null(m->tensors[t].changes[candidate_of(s, "q8_0")].reason);
    }
    assert_string_equal(m->tensors[2].reason, "the graph does not use it");
    assert_null(m->tensors[2].changes);
    assert_true(isnan(m->agreement[0])); /* of two tensors */
    vc_result_free(s);
    assert_int_equal(measure(0, &s), VC_OK);
    assert_int_equal(s->measured->n_rows, 5);
    expect_change(&s->measured->tensors[0].changes[0], 0.4711593103086206, 0.0);
    vc_result_free(s);
}

static void test_groups(void **unused)
{
    static const uint64_t removed[] = {2, 2, 3};
    static const double weights[] = {0.4979959839195493, 0.4979959839195493, 0.7429670248402684};
    static const double changes[] = {0.19724708946074737, 0.19724708946074737, 0.8184260753416639};
    static const double answers[] = {0.25, 0.25, 0.75};
    struct vc_sensitivity *s = NULL;
    const struct vc_measured *m;
    size_t n = 0;

    (void)unused;
    assert_int_equal(measure(4, &s), VC_OK);
    m = s->measured;
    assert_int_equal(m->n_percents, 3);
    for (size_t i = 0; i < m->n_groups; i++) {
        if (m->groups[i].reason != NULL) {
            assert_null(m->groups[i].changes);
            continue;
        }
        n++;
        assert_string_equal(m->groups[i].name, "fc1.weight:0");
        assert_int_equal(m->groups[i].n_units, 4);
        for (size_t k = 0; k < 3; k++) {
            assert_int_equal(m->groups[i].n_removed[k], removed[k]);
            assert_true(fabs(m->groups[i].relative[k] - weights[k]) < 1e-9);
            expect_change(&m->groups[i].changes[k], changes[k], answers[k]);
        }
    }
    assert_int_equal(n, 1);
    vc_result_free(s);
}

/* What the outputs lose with another fc2.weight, of two batches. */
static double change_of(uint64_t budget, bool plain)
{
    static const uint64_t shape_x[] = {2, 3};
    const struct vc_graph_array inputs[] = {
        {.name = "x", .dtype = VC_DTYPE_F32, .n_dims = 2, .shape = shape_x, .n_elems = 6, .data = x},
        {.name = "x", .dtype = VC_DTYPE_F32, .n_dims = 2, .shape = shape_x, .n_elems = 6, .data = x + 6}};
    float values[] = {1, -3, 0, 5, -2, 4, 0, -1};
    float before[] = {1, -2, 3, 0, 0, 0, -3, 2, 5, 0, 6, 0};
    const struct vc_changed_tensor changed = {.tensor = 2, .n = 8, .values = values};
    const struct vc_changed_tensor earlier = {.tensor = 0, .n = 12, .values = before};
    struct vc_output_program program = {0};
    struct vc_output_runs runs[2];
    struct vc_output_change change;
    struct vc_output_change again;

    for (size_t k = 0; k < 2; k++) {
        runs[k] = (struct vc_output_runs){.graph = graph,
                                          .model = model,
                                          .arrays = &inputs[k],
                                          .n_arrays = 1,
                                          .budget = budget,
                                          .plain = plain,
                                          .first = k == 0 ? NULL : runs};
        assert_int_equal(vc_output_runs_begin(ctx, &runs[k]), VC_OK);
        assert_int_equal(runs[k].plain, plain);
        assert_true(runs[k].kept_bytes <= budget + 4 * (6 + 4)); /* the input and the output are always kept */
    }
    runs[0].next = &runs[1];
    assert_int_equal(vc_output_runs_run(ctx, runs, &program, &changed, 1, &change), VC_OK);
    assert_null(change.reason);
    assert_true(change.relative > 0.1);
    for (unsigned k = 0; k < 2; k++) { /* with a program for other values, and with the same */
        assert_int_equal(vc_output_runs_run(ctx, runs, &program, &earlier, 1, &again), VC_OK);
        assert_true(again.relative > 0.1 && again.relative != change.relative);
    }
    assert_int_equal(vc_output_runs_run(ctx, runs, &program, &changed, 1, &again), VC_OK);
    assert_true(again.relative == change.relative);
    vc_output_program_end(ctx, &program);
    assert_true(vc_output_runs_use(runs, 0) && !vc_output_runs_use(runs, 4));
    vc_output_runs_end(ctx, runs);
    return change.relative;
}

/* Runs give the same whatever is kept of the first one; those of the engine and of the plain loops differ by rounding.
 */
static void test_budgets(void **unused)
{
    double engine = change_of(1000, false);
    double plain = change_of(1000, true);

    (void)unused;
    assert_true(fabs(engine - plain) < 1e-6);
    for (uint64_t budget = 0; budget < 400; budget += 20) {
        assert_true(change_of(budget, false) == engine);
        assert_true(change_of(budget, true) == plain);
    }
}

/* The bits of all figures do not depend on how many threads run. */
static void test_threads(void **unused)
{
    struct vc_sensitivity *one = NULL;
    struct vc_sensitivity *four = NULL;

    (void)unused;
    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    assert_int_equal(measure(4, &one), VC_OK);
    assert_int_equal(vc_ctx_set_threads(ctx, 4), VC_OK);
    assert_int_equal(measure(4, &four), VC_OK);
    for (size_t t = 0; t < 2; t++) {
        for (size_t k = 0; k < one->measured->n_candidates; k++) {
            const struct vc_output_change *a = &one->measured->tensors[t].changes[k];
            const struct vc_output_change *b = &four->measured->tensors[t].changes[k];

            assert_true(a->reason != NULL ? b->reason != NULL : a->relative == b->relative && a->answers == b->answers);
        }
    }
    vc_result_free(one);
    vc_result_free(four);
}

/* Of equal magnitudes the first go. */
static void test_ties(void **unused)
{
    float values[] = {2, -1, 1, 0.5F, -1, 3, 1, -0.0F};
    static const float want[] = {2, 0, 0, 0, -1, 3, 1, 0};

    (void)unused;
    assert_int_equal(vc_change_prune(ctx, values, 8, 0), VC_OK);
    assert_true(values[3] == 0.5F);
    assert_int_equal(vc_change_prune(ctx, values, 8, 4), VC_OK);
    for (size_t i = 0; i < 8; i++) {
        assert_true(values[i] == want[i]);
    }
    assert_int_equal(vc_change_prune(ctx, values, 8, 8), VC_OK);
    assert_true(values[5] == 0.0F);
}

/* ---- refused ---- */

static void refuse(enum vc_status want, struct vc_graph *g, const char *data, const char *words)
{
    struct vc_sensitivity_data_options options;
    struct vc_sensitivity *s = NULL;

    assert_int_equal(vc_model_sensitivity(ctx, model, NULL, &s), VC_OK);
    vc_sensitivity_data_defaults(&options);
    options.graph = g;
    options.data = data;
    assert_int_equal(vc_sensitivity_measure(ctx, s, &options), want);
    expect_says(ctx, words);
    assert_null(s->measured);
    vc_result_free(s);
}

static void test_refused(void **unused)
{
    struct vc_graph *g;

    (void)unused;
    refuse(VC_E_ARGUMENT, NULL, in_folder("x.npy"), "graph has to be set");
    refuse(VC_E_ARGUMENT, graph, NULL, "data has to be set");
    refuse(VC_E_IO, graph, in_folder("none.npy"), "none.npy");
    save_data("bad.npy", "(3, 4)", 4);
    refuse(VC_E_ARGUMENT, graph, in_folder("bad.npy"), "is [3, 4]; the input x of the graph is [batch, 3]");
    g = graph_of("input x [batch, 3]\ninput z [batch, 3]\nadd x\n");
    refuse(VC_E_ARGUMENT, g, in_folder("x.npy"), "there is no array for the input x of the graph");
    vc_graph_close(g);
    g = graph_of(
        "<ir_version: 8, opset_import: [\"\": 17]>\ng (float[n,3] x) => (int64[n,1] y) { y = ArgMax <axis = 1> "
        "(x) }\n");
    refuse(VC_E_ARGUMENT, g, in_folder("x.npy"), "no outputs that are floats");
    vc_graph_close(g);
}

/* Outputs that are no numbers any more, or were all zero. */
static void test_extremes(void **unused)
{
    struct vc_sensitivity *s = NULL;
    struct vc_graph *usual = graph;

    (void)unused;
    graph = graph_of("input x [batch, 3]\nlinear fc1 4\nrelu\nlinear fc2 2\nmultiply 0\n");
    assert_int_equal(measure(4, &s), VC_OK);
    assert_string_equal(s->measured->tensors[0].changes[0].reason, "all outputs are zero");
    vc_result_free(s);
    vc_graph_close(graph);
    graph = usual;
}

/* Where the time cannot be estimated without memory the work goes on; everything else fails. */
static void test_allocations(void **unused)
{
    struct vc_sensitivity *s = NULL;
    uint64_t before;
    uint64_t all;
    unsigned n_failed = 0;

    (void)unused;
    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    assert_int_equal(measure(4, &s), VC_OK); /* what the context keeps is there from now on */
    vc_result_free(s);
    before = vc_pool_in_use(ctx->shared->pool);
    all = vc_pool_alloc_count(ctx->shared->pool);
    assert_int_equal(measure(4, &s), VC_OK);
    vc_result_free(s);
    all = vc_pool_alloc_count(ctx->shared->pool) - all;
    for (uint64_t n = 1; n <= all; n += n < 100 ? 1 : 3) {
        enum vc_status status;

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = measure(4, &s);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK || status == VC_E_NOMEM);
        assert_true(status == VC_OK || s == NULL || s->measured == NULL);
        n_failed += status != VC_OK;
        vc_result_free(s);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), before);
    }
    assert_true(n_failed > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_figures, begin, end),
        cmocka_unit_test_setup_teardown(test_groups, begin, end),
        cmocka_unit_test_setup_teardown(test_budgets, begin, end),
        cmocka_unit_test_setup_teardown(test_threads, begin, end),
        cmocka_unit_test_setup_teardown(test_ties, begin, end),
        cmocka_unit_test_setup_teardown(test_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_extremes, begin, end),
        cmocka_unit_test_setup_teardown(test_allocations, begin, end),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
