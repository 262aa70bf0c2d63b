/* test_sizes.c - sizes that contradict each other: refused when the graph is built, where no sizes of inputs could be
 * right, and for the sizes that are bound, where some are. */
#include "graph/base/graph_state.h"
#include "graph/build.h"
#include "graph/sizes.h"

#include "graph_test.h"

static enum vc_status parse(const char *body)
{
    char text[1024];

    snprintf(text, sizeof text, "<ir_version: 10, opset_import: [\"\" : 23]>\ng %s\n", body);
    return vc_graph_parse_text(ctx, text, strlen(text), NULL, &graph);
}

static void expect_message(const char *what)
{
    if (strstr(vc_ctx_message(ctx), what) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", vc_ctx_message(ctx), what);
    }
}

/* No batch makes them right. */
static void never_right(void **state)
{
    static const char *const cases[][2] = {
        {"(float[b, 5] x) => (float[n, m] y) <int64[2] s = {0, 40}> { y = Reshape (x, s) }",
         "Reshape 'y': 5*b elements cannot have a shape of 40*b"},
        {"(float[b, 5] x) => (float[n, m] y) <int64[2] s = {0, 400000}> { y = Reshape (x, s) }", "shape of 400000*b"},
        {"(float[b, 80] x) => (float[n, m, k] y) <int64[3] s = {0, 3, -1}> { y = Reshape (x, s) }",
         "80*b elements cannot have a shape of 78*b"},
        {"(float[b, 392] x) => (float[n, m] y) <int64[2] s = {1, 288}> { y = Reshape (x, s) }",
         "392*b elements cannot have a shape of 288"},
        {"(float[b, 5] x, float[b, 2, 5] z) => (float[n, m] y) <int64[2] s = {0, -1}>"
         "{ f = Reshape (z, s) y = Add (x, f) }",
         "do not broadcast: dimension 1 is 5 and 10"},
        {"(float[b, 5] x) => (float[n] y) <int64[2] two = {2, 5}, int64[1] one = {-1}>"
         "{ t = Concat <axis = 0> (x, x) f = Reshape (t, one) g = Reshape (x, one) y = Add (f, g) }",
         "do not broadcast"},
    };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        assert_int_equal(parse(cases[k][0]), VC_E_FORMAT);
        expect_message(cases[k][1]);
        vc_graph_close(graph);
        graph = NULL;
    }
}

/* Right for one batch and for no other. */
static void right_for_some(void **state)
{
    static const struct {
        const char *text;
        int64_t right, wrong;
        const char *sentence;
    } cases[] = {
        {"(float[b, 5] x) => (float[n, m] y) <int64[2] s = {20, 5}> { y = Reshape (x, s) }", 20, 7,
         "Reshape 'y': 35 elements cannot have a shape of 100 (b is 7)"},
        {"(float[b, 5] x) => (float[n, m] y) <int64[2] s = {-1, 4}> { y = Reshape (x, s) }", 8, 7,
         "35 elements cannot be divided into parts of 4 (b is 7)"},
        {"(float[b, 5] x) => (float[n, m] y) <int64[2] s = {1, -1}, float[5, 1] w = {1, 1, 1, 1, 1}>"
         "{ f = Reshape (x, s) y = MatMul (f, w) }",
         1, 2, "the inner dimensions: 10 and 5 differ (b is 2)"},
        {"(float[b, 5] x) => (float[n, m] y) <float[4, 1] c = {1, 2, 3, 4}> { y = Add (x, c) }", 4, 7,
         "do not broadcast: dimension 0 is 7 and 4 (b is 7)"},
        {"(float[b, 1] x) => (float[n, m] y) <int64[2] s = {4, 5}> { y = Expand (x, s) }", 4, 7, "do not broadcast"},
        {"(float[b, 1] x) => (float[n, m] y) <float[4, 2] c = {1, 2, 3, 4, 5, 6, 7, 8}>"
         "{ y = Concat <axis = 1> (x, c) }",
         4, 1, "dimension 0 of the inputs: 1 and 4 differ (b is 1)"},
        {"(float[b, 5] x) => (float[n, m] y) <int64[1] f = {0}, int64[1] t = {3}> { y = Slice (x, f, t, f) }", 3, 2,
         "Slice 'y': its output is [2, 5] and would be [3, 5] for all sizes that the model was built for (b is 2)"},
        {"(float[b, 5] x) => (float[m] y) <int64[1] a = {0}> { y = Squeeze (x, a) }", 1, 2, "cannot be left out"},
        /* behind a value that has one dimension more or less */
        {"(float[b, 5] x) => (float[n, m] y) { y = Squeeze (x) }", 2, 1, "its output is [5] and would be [1, 5]"},
        /* integers that are computed from sizes */
        {"(float[b, 6] x) => (float[n, m] y) <int64[1] k = {0}, int64[1] h = {2}, int64[1] r = {-1}>"
         "{ s = Shape (x) n0 = Gather (s, k) half = Div (n0, h) t = Concat <axis = 0> (half, r) y = Reshape (x, t) }",
         6, 11, "66 elements cannot be divided into parts of 5 (b is 11)"},
    };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        if (parse(cases[k].text) != VC_OK) {
            fail_msg("%s: %s", cases[k].text, vc_ctx_message(ctx));
        }
        assert_int_equal(vc_graph_check_sizes(ctx, graph, NULL, 0), VC_OK); /* nothing is bound */
        assert_int_equal(vc_graph_bind(ctx, graph, "b", cases[k].right), VC_OK);
        assert_int_equal(vc_graph_check_sizes(ctx, graph, NULL, 0), VC_OK);
        assert_int_equal(vc_graph_bind(ctx, graph, "b", cases[k].wrong), VC_OK);
        if (vc_graph_check_sizes(ctx, graph, NULL, 0) != VC_E_FORMAT) {
            fail_msg("%s: not refused", cases[k].text);
        }
        expect_message(cases[k].sentence);
        vc_graph_close(graph);
        graph = NULL;
    }
}

/* What nobody wants may be wrong. */
static void what_is_wanted(void **state)
{
    uint32_t wanted;

    (void)state;
    assert_int_equal(parse("(float[b, 5] x) => (float[n, m] y, float[n, k] z) <int64[2] s = {20, 5}>"
                           "{ y = Relu (x) z = Reshape (x, s) }"),
                     VC_OK);
    assert_int_equal(vc_graph_bind(ctx, graph, "b", 7), VC_OK);
    wanted = vc_graph_find(graph, "y");
    assert_int_equal(vc_graph_check_sizes(ctx, graph, &wanted, 1), VC_OK);
    wanted = vc_graph_find(graph, "z");
    assert_int_equal(vc_graph_check_sizes(ctx, graph, &wanted, 1), VC_E_FORMAT);
    assert_int_equal(vc_graph_check_sizes(ctx, graph, NULL, 0), VC_E_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(never_right, begin_without, end),
        cmocka_unit_test_setup_teardown(right_for_some, begin_without, end),
        cmocka_unit_test_setup_teardown(what_is_wanted, begin_without, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
