/* test_onnx_edits.c - numbers of an ONNX graph that follow where a pass removes something: attributes, constants,
 * declared shapes. Judge: files of the builder, with the numbers that they should have, byte by byte. What loaders make
 * of such files: tests/judge/test_onnx_edits.py. */
#include "formats_test.h"

#include <stdlib.h>

#include "cut_pass.h"
#include "onnx_builder.h"
#include "tasks.h"

enum { NODE = 1, INITIALIZER = 5, INPUT = 11, OUTPUT = 12, VALUE_INFO = 13, INT64 = 7 };

/* ---- files ---- */

/* A declared shape: words such as "n" and numbers, with blanks between them. */
static void declare(struct onnx_builder *g, unsigned field, const char *name, const char *dims)
{
    struct bytes shape = {NULL, 0, 0};
    struct bytes tensor = {NULL, 0, 0};
    struct bytes type = {NULL, 0, 0};
    struct bytes info = {NULL, 0, 0};

    while (*dims != '\0') {
        struct bytes dim = {NULL, 0, 0};
        size_t n = strcspn(dims, " ");

        if (*dims >= '0' && *dims <= '9') {
            pb_int(&dim, 1, strtoull(dims, NULL, 10));
        } else {
            pb_data(&dim, 2, dims, n);
        }
        pb_message(&shape, 1, &dim);
        dims += n + (dims[n] == ' ');
    }
    pb_int(&tensor, 1, 1);
    pb_message(&tensor, 2, &shape);
    pb_message(&type, 1, &tensor);
    pb_text(&info, 1, name);
    pb_message(&info, 2, &type);
    pb_message(&g->graph, field, &info);
}

/* f32 values that count up, a row after the other: "w" of 4 x 3 has 0 1 2 / 10 11 12 / 20 .. Of `rows` and `cols` those
 * with a 1 are there. */
static void weights(struct onnx_builder *g, const char *name, const char *rows, const char *cols)
{
    struct bytes values = {NULL, 0, 0};
    uint64_t dims[2] = {0, 0};
    size_t i, k;

    for (i = 0; rows[i] != '\0'; i++) {
        dims[0] += rows[i] == '1';
        for (k = 0, dims[1] = 0; cols[k] != '\0'; k++) {
            float x = (float)(10 * i + k);

            dims[1] += cols[k] == '1';
            if (rows[i] == '1' && cols[k] == '1') {
                bytes_add(&values, &x, sizeof x);
            }
        }
    }
    onnx_raw(g, name, 1, 2, dims, values.p, values.n);
    bytes_release(&values);
}

/* Integers of 8 bytes as an initializer; n 0: a scalar. */
static void integers(struct onnx_builder *g, const char *name, const int64_t *numbers, uint64_t n)
{
    onnx_raw(g, name, INT64, n == 0 ? 0 : 1, &n, numbers, 8 * (size_t)(n == 0 ? 1 : n));
}

/* A node with an attribute that is a list, whose numbers stand one by one. */
static void split(struct onnx_builder *g, const char *input, const char *outputs[2], const int64_t *sizes, size_t n)
{
    struct bytes node = {NULL, 0, 0};
    struct bytes a = {NULL, 0, 0};
    size_t i;

    pb_text(&node, 1, input);
    pb_text(&node, 2, outputs[0]);
    pb_text(&node, 2, outputs[1]);
    pb_text(&node, 4, "Split");
    pb_text(&a, 1, "axis");
    pb_int(&a, 3, 1);
    pb_int(&a, 20, 2);
    pb_message(&node, 5, &a);
    pb_text(&a, 1, "split");
    for (i = 0; i < n; i++) {
        pb_int(&a, 8, (uint64_t)sizes[i]);
    }
    pb_int(&a, 20, 7);
    pb_text(&a, 13, "a note");
    pb_message(&node, 5, &a);
    pb_message(&g->graph, NODE, &node);
}

/* ---- what is expected ---- */

/* The file of `in`, cut as the script says, is that of `want`. Both builders are empty afterwards. */
static void expect_cut(struct onnx_builder *in, const char *script, struct onnx_builder *want)
{
    struct vc_ctx *ctx = test_ctx();

    (void)save_own("in.onnx", onnx_finish(in));
    (void)save_own("want.onnx", onnx_finish(want));
    if (run_cut(ctx, in_folder("in.onnx"), in_folder("out.onnx"), NULL, script) != VC_OK) {
        fail_msg("%s: %s", script, vc_ctx_message(ctx));
    }
    expect_same("out.onnx", "want.onnx");
    empty_folder();
    test_ctx_done(ctx);
}

/* ---- attributes and shapes ---- */

/* x w -> h -> Split -> a, b; both are outputs. With 6 columns or with 4. */
static void split_graph(struct onnx_builder *g, bool cut)
{
    static const int64_t sizes[2][2] = {{3, 3}, {2, 2}};

    onnx_op(g, "MatMul", "x w", "h");
    split(g, "h", (const char *[]){"a", "b"}, sizes[cut], 2);
    weights(g, "w", "1111", cut ? "110110" : "111111");
    declare(g, INPUT, "x", "n 4");
    declare(g, OUTPUT, "a", cut ? "n 2" : "n 3");
    declare(g, OUTPUT, "b", cut ? "n 2" : "n 3");
}

static void test_attribute(void **state)
{
    struct onnx_builder in = {0};
    struct onnx_builder want = {0};

    (void)state;
    split_graph(&in, false);
    split_graph(&want, true);
    expect_cut(&in, "keep w 1 0,1,3,4\nattribute b split 2,2\nshape a -1,2\nshape b -1,2\n", &want);
    split_graph(&in, false);
    split_graph(&want, true);
    /* Of several edits of one number the last one holds; -1 leaves what an earlier one said. */
    expect_cut(&in,
               "keep w 1 0,1,3,4\nattribute b split 1,3\nattribute a split 2,2\nshape a -1,2\nshape a -1,-1\n"
               "shape b -1,1\nshape b -1,2",
               &want);
    onnx_op_with(&in, "Conv", "x w", "y", "group", 4);
    onnx_op_with(&want, "Conv", "x w", "y", "group", 3);
    expect_cut(&in, "attribute y group 3", &want);
}

/* Values that no edit names lose their value_info where a shape changes, and only there. */
static void test_value_info(void **state)
{
    struct onnx_builder in = {0};
    struct onnx_builder want = {0};

    (void)state;
    split_graph(&in, false);
    declare(&in, VALUE_INFO, "h", "n 6");
    declare(&in, VALUE_INFO, "x", "n 4");
    declare(&in, VALUE_INFO, "w", "4 6");
    split_graph(&want, false);
    declare(&want, VALUE_INFO, "h", "n 6");
    declare(&want, VALUE_INFO, "x", "n 4");
    declare(&want, VALUE_INFO, "w", "4 6");
    expect_cut(&in, "", &want);
    split_graph(&in, false);
    declare(&in, VALUE_INFO, "h", "n 6");
    declare(&in, VALUE_INFO, "x", "n 4");
    declare(&in, VALUE_INFO, "w", "4 6"); /* a tensor: its shape is known */
    split_graph(&want, true);
    declare(&want, VALUE_INFO, "w", "4 4");
    expect_cut(&in, "keep w 1 0,1,3,4\nattribute b split 2,2\nshape a -1,2\nshape b -1,2", &want);
    split_graph(&in, false);
    declare(&in, VALUE_INFO, "h", "n 6");
    declare(&in, VALUE_INFO, "x", "n 4");
    split_graph(&want, true);
    declare(&want, VALUE_INFO, "h", "n 4");
    declare(&want, VALUE_INFO, "x", "n 4");
    expect_cut(&in, "keep w 1 0,1,3,4\nattribute b split 2,2\nshape a -1,2\nshape b -1,2\nshape x\nshape h -1,4",
               &want);
    /* A dimension that has a name becomes a number. */
    onnx_op(&in, "Relu", "x", "y");
    declare(&in, OUTPUT, "y", "n m");
    onnx_op(&want, "Relu", "x", "y");
    declare(&want, OUTPUT, "y", "n 7");
    expect_cut(&in, "shape y -1,7", &want);
}

/* IR version 3: initializers are inputs, too, and so are new constants. */
static void test_old_inputs(void **state)
{
    static const int64_t shape[] = {-1, 6};
    static const int64_t less[] = {-1, 4};
    struct onnx_builder in = {.ir = 3, .opset = 9};
    struct onnx_builder want = {.ir = 3, .opset = 9};
    struct bytes info = {NULL, 0, 0};
    static const char elem_and_shape[] = {0x0a, 8, 8, 7, 0x12, 4, 0x0a, 2, 8, 2}; /* i64, [2] */

    (void)state;
    onnx_op(&in, "MatMul", "x w", "h");
    onnx_op(&in, "Reshape", "h shape", "y");
    weights(&in, "w", "1111", "111111");
    integers(&in, "shape", shape, 2);
    declare(&in, INPUT, "x", "n 4");
    declare(&in, INPUT, "w", "4 6");
    declare(&in, INPUT, "shape", "2");
    declare(&in, OUTPUT, "y", "n 6");
    onnx_op(&want, "MatMul", "x w", "h");
    onnx_op(&want, "Reshape", "h shape", "y");
    weights(&want, "w", "1111", "110110");
    declare(&want, INPUT, "x", "n 4");
    declare(&want, INPUT, "w", "4 4");
    declare(&want, OUTPUT, "y", "n 4");
    integers(&want, "shape", less, 2);
    pb_text(&info, 1, "shape");
    pb_data(&info, 2, elem_and_shape, sizeof elem_and_shape);
    pb_message(&want.graph, INPUT, &info);
    expect_cut(&in, "keep w 1 0,1,3,4\ninput y 1 -1,4\nshape y -1,4", &want);
}

/* ---- constants ---- */

/* x -> Reshape -> y, and -> Reshape -> z, with target shapes of those names. */
static void reshapes(struct onnx_builder *g, const char *first, const char *second)
{
    char inputs[64];

    (void)snprintf(inputs, sizeof inputs, "x %s", first);
    onnx_op(g, "Reshape", inputs, "y");
    (void)snprintf(inputs, sizeof inputs, "x %s", second);
    onnx_op(g, "Reshape", inputs, "z");
}

static void test_initializers(void **state)
{
    static const int64_t shape[] = {-1, 6};
    static const int64_t less[] = {-1, 4};
    static const int64_t other[] = {-1, 2, 2};
    struct onnx_builder in = {0};
    struct onnx_builder want = {0};

    (void)state;
    /* Another node reads it: a new one. */
    reshapes(&in, "shape", "shape");
    integers(&in, "shape", shape, 2);
    reshapes(&want, "y.input1", "shape");
    integers(&want, "shape", shape, 2);
    integers(&want, "y.input1", less, 2);
    expect_cut(&in, "input y 1 -1,4", &want);
    /* All read the same: the old one changes. */
    reshapes(&in, "shape", "shape");
    integers(&in, "shape", shape, 2);
    reshapes(&want, "shape", "shape");
    integers(&want, "shape", less, 2);
    expect_cut(&in, "input y 1 -1,4\ninput z 1 -1,4", &want);
    /* They read different ones; the name is taken. */
    reshapes(&in, "shape", "shape");
    integers(&in, "shape", shape, 2);
    integers(&in, "z.input1", shape, 2);
    reshapes(&want, "shape", "z.input1_1");
    integers(&want, "z.input1", shape, 2);
    integers(&want, "shape", less, 2);
    integers(&want, "z.input1_1", other, 3);
    expect_cut(&in, "input y 1 -1,4\ninput z 1 -1,2,2", &want);
    /* An output of the graph, or one that is also an input, stays. */
    reshapes(&in, "shape", "more");
    integers(&in, "shape", shape, 2);
    integers(&in, "more", shape, 2);
    onnx_info(&in, OUTPUT, "shape");
    onnx_info(&in, INPUT, "more");
    reshapes(&want, "y.input1", "z.input1");
    integers(&want, "shape", shape, 2);
    integers(&want, "more", shape, 2);
    onnx_info(&want, OUTPUT, "shape");
    onnx_info(&want, INPUT, "more");
    integers(&want, "y.input1", less, 2);
    integers(&want, "z.input1", less, 2);
    expect_cut(&in, "input y 1 -1,4\ninput z 1 -1,4", &want);
    /* What the graph computes cannot change: a new one beside it. */
    onnx_op(&in, "Shape", "x", "shape");
    onnx_op(&in, "Reshape", "x shape", "y");
    onnx_op(&want, "Shape", "x", "shape");
    onnx_op(&want, "Reshape", "x y.input1", "y");
    integers(&want, "y.input1", less, 2);
    expect_cut(&in, "input y 1 -1,4", &want);
}

/* Constant nodes that nothing reads any more go; a number stays one, and i32 stays i32. */
static void test_constant_nodes(void **state)
{
    static const int64_t shape[] = {-1, 6};
    static const int64_t less[] = {-1, 4};
    static const int64_t four = 4;
    static const uint64_t two_dims[] = {2};
    static const uint64_t one_dim[] = {1};
    struct onnx_builder in = {0};
    struct onnx_builder want = {0};

    (void)state;
    onnx_constant(&in, "shape", INT64, 1, two_dims, shape, sizeof shape);
    reshapes(&in, "shape", "shape");
    onnx_constant(&want, "shape", INT64, 1, two_dims, shape, sizeof shape);
    reshapes(&want, "shape", "z.input1");
    integers(&want, "z.input1", less, 2);
    expect_cut(&in, "input z 1 -1,4", &want);
    onnx_constant(&in, "shape", INT64, 1, two_dims, shape, sizeof shape);
    reshapes(&in, "shape", "shape");
    reshapes(&want, "shape", "shape");
    integers(&want, "shape", less, 2);
    expect_cut(&in, "input z 1 -1,4\ninput y 1 -1,4", &want);
    /* Scalars, as a tensor and as a number. */
    onnx_constant(&in, "a", INT64, 0, NULL, &shape[1], 8);
    onnx_op_with(&in, "Constant", "", "b", "value_int", 6);
    onnx_op(&in, "Range", "zero a", "r");
    onnx_op(&in, "Range", "zero b", "s");
    onnx_op(&want, "Range", "zero a", "r");
    onnx_op(&want, "Range", "zero b", "s");
    integers(&want, "a", &four, 0);
    integers(&want, "b", &four, 0);
    expect_cut(&in, "input r 1 4\ninput s 1 4", &want);
    /* i32 */
    onnx_constant(&in, "end", 6, 1, one_dim, "\6\0\0\0", 4);
    onnx_op(&in, "Slice", "x start end", "y");
    onnx_op(&want, "Slice", "x start end", "y");
    onnx_raw(&want, "end", 6, 1, one_dim, "\4\0\0\0", 4);
    expect_cut(&in, "input y 2 4", &want);
}

/* ---- graphs inside nodes, functions ---- */

/* An If whose branches declare what is inside, one with a tensor and one without; a function that does. */
static struct onnx_builder outer(bool declared)
{
    static const char *const names[] = {"then_branch", "else_branch"};
    struct onnx_builder branches[2] = {{0}, {0}};
    struct onnx_builder g = {0};
    struct bytes function = {NULL, 0, 0};

    onnx_op(&branches[0], "Relu", "h", "t");
    onnx_op(&branches[1], "MatMul", "h v", "e");
    weights(&branches[1], "v", "11", "11");
    for (size_t k = 0; k < 2 && declared; k++) {
        declare(&branches[k], VALUE_INFO, "h", "n 6");
    }
    onnx_info(&branches[0], OUTPUT, "t");
    onnx_info(&branches[1], OUTPUT, "e");
    onnx_op(&g, "MatMul", "x w", "h");
    onnx_outer(&g, "If", "choice", "c", "y", names, branches, 2);
    weights(&g, "w", "1111", declared ? "111111" : "110110");
    pb_text(&function, 1, "f");
    if (declared) {
        pb_data(&function, 12, "\n\1h", 3);
    }
    pb_text(&function, 10, "domain");
    pb_message(&g.model, 25, &function);
    return g;
}

static void test_inner_graphs(void **state)
{
    struct onnx_builder in = outer(true);
    struct onnx_builder want = outer(true);

    (void)state;
    expect_cut(&in, "", &want);
    in = outer(true);
    want = outer(false);
    expect_cut(&in, "keep w 1 0,1,3,4", &want);
}

/* ---- other outputs ---- */

/* A second output without a graph has the tensors only; one with a graph has the edits. */
static void test_beside(void **state)
{
    static const char script[] = "keep w 1 0,1,3,4\nattribute b split 2,2\nshape a -1,2\nshape b -1,2";
    struct vc_ctx *ctx = test_ctx();
    struct onnx_builder g = {0};

    (void)state;
    split_graph(&g, true);
    (void)save_own("want.onnx", onnx_finish(&g));
    split_graph(&g, false);
    (void)save_own("in.onnx", onnx_finish(&g));
    assert_int_equal(run_cut(ctx, in_folder("in.onnx"), in_folder("out.npz"), in_folder("out.onnx"), script), VC_OK);
    expect_same("out.onnx", "want.onnx");
    assert_true(exists("out.npz"));
    assert_int_equal(
        run_cut(ctx, in_folder("in.onnx"), in_folder("out.npz"), NULL, "keep w 1 0,1,3,4\nattribute nobody split 2,2"),
        VC_OK);
    empty_folder();
    test_ctx_done(ctx);
}

/* ---- refused ---- */

static void refuse_cut(struct onnx_builder *g, const char *script, const char *sentence)
{
    struct vc_ctx *ctx = test_ctx();

    (void)save_own("in.onnx", onnx_finish(g));
    assert_int_equal(run_cut(ctx, in_folder("in.onnx"), in_folder("out.onnx"), NULL, script), VC_E_INTERNAL);
    expect_says(ctx, sentence);
    assert_false(exists("out.onnx"));
    empty_folder();
    test_ctx_done(ctx);
}

static void test_refused(void **state)
{
    struct onnx_builder g = {0};

    (void)state;
    split_graph(&g, false);
    refuse_cut(&g, "shape nobody 1,2", "the graph has no value 'nobody', which an edit names");
    split_graph(&g, false);
    refuse_cut(&g, "attribute nobody split 2,2", "the graph has no value 'nobody', which an edit names");
    split_graph(&g, false);
    refuse_cut(&g, "attribute x split 2,2", "no node makes 'x', which an edit names");
    split_graph(&g, false);
    refuse_cut(&g, "attribute a splits 2,2", "the node that makes 'a' has no attribute 'splits'");
    split_graph(&g, false);
    refuse_cut(&g, "attribute a axis 2,2", "attribute 'axis' of the node that makes 'a' is no list of integers");
    split_graph(&g, false);
    refuse_cut(&g, "input a 1 2", "the node that makes 'a' has 1 inputs, none of number 1");
    split_graph(&g, false);
    refuse_cut(&g, "input h 1 2", "input 1 of the node that makes 'h' is no constant of integers");
    split_graph(&g, false);
    refuse_cut(&g, "shape a -1,2,2", "'a' is declared with 2 dimensions, and an edit has 3");
}

/* ---- failures ---- */

/* Every kind of edit at once: an attribute, shapes, an initializer, a Constant node. */
#define EVERY_EDIT "keep w 1 0,1,3,4\nattribute b split 2,2\nshape a -1,2\nshape h -1,4\ninput y 1 -1,4\ninput z 1 -1,4"

static void save_every_edit(void)
{
    static const int64_t shape[] = {-1, 6};
    struct onnx_builder g = {0};

    split_graph(&g, false);
    reshapes(&g, "shape", "other");
    integers(&g, "shape", shape, 2);
    onnx_constant(&g, "other", INT64, 1, (const uint64_t[]){2}, shape, sizeof shape);
    declare(&g, VALUE_INFO, "h", "n 6");
    (void)save_own("in.onnx", onnx_finish(&g));
}

static enum vc_status cut_everything(struct vc_ctx *ctx, struct vc_job *job)
{
    return add_cut(ctx, job, EVERY_EDIT);
}

/* The graph is read again while it is edited: reads fail, and somebody changes the file. */
static void test_reads(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task task = task_copy();

    (void)state;
    task.add = cut_everything;
    save_every_edit();
    fail_each_read(ctx, "in.onnx", "out.onnx", task, 5);
    change_each_byte(ctx, "in.onnx", "in.onnx", "out.onnx", task, 1);
    vc_ctx_free(ctx);
    empty_folder();
}

static void test_allocations(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    enum vc_status status = VC_E_NOMEM;
    uint64_t n;

    (void)state;
    save_every_edit();
    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    for (n = 1; status != VC_OK; n++) {
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = run_cut(ctx, in_folder("in.onnx"), in_folder("out.onnx"), NULL, EVERY_EDIT);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
        assert_true(status == VC_OK || status == VC_E_NOMEM);
        assert_int_equal(exists("out.onnx"), status == VC_OK);
    }
    assert_true(n > 60);
    empty_folder();
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attribute),    cmocka_unit_test(test_value_info),     cmocka_unit_test(test_old_inputs),
        cmocka_unit_test(test_initializers), cmocka_unit_test(test_constant_nodes), cmocka_unit_test(test_inner_graphs),
        cmocka_unit_test(test_beside),       cmocka_unit_test(test_refused),        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_reads),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
