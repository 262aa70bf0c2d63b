/* test_onnx_graphs.c - weights in graphs inside nodes: the branches of If, the body of Loop. They are tensors with
 * names of their own, their nodes go into their graph, and everything else stays. tests/judge/test_onnx.py runs such
 * graphs.
 */
#include "onnx_jobs.h"

static const char *const branches[] = {"then_branch", "else_branch"};
static const char *const body[] = {"body"};

/* A branch with weights called w, as the other one has, a Constant, and a use of the main graph's o. */
static struct onnx_builder branch(const char *output)
{
    const uint64_t dims[] = {4, 4};
    struct bytes values = counting(64);
    struct onnx_builder g = {.ir = 0};

    onnx_constant(&g, output[0] == 'y' ? "c1" : "c2", 1, 2, dims, values.p, values.n);
    onnx_op(&g, "MatMul", "x w", "h");
    onnx_op(&g, "MatMul", output[0] == 'y' ? "h c1" : "h c2", "k");
    onnx_op(&g, "MatMul", "k o", output);
    onnx_weights(&g, "w", 4, 4);
    onnx_info(&g, 12, output);
    bytes_release(&values);
    return g;
}

/* If { w, c1 } else { w, c2 }, then Loop { If without a name { w } , l }, with o of the main graph used everywhere. */
static struct onnx_builder nested(uint64_t ir, uint64_t opset, const char *name)
{
    struct onnx_builder g = {.ir = ir, .opset = opset};
    struct onnx_builder two[] = {branch("y1"), branch("z1")};
    struct onnx_builder one[] = {branch("y2")};
    struct onnx_builder loop[] = {{.ir = 0}};

    onnx_outer(&g, "If", name, "b", "i", branches, two, 2);
    onnx_info(&loop[0], 11, "t");
    onnx_outer(&loop[0], "If", "", "b", "inner", branches, one, 1);
    onnx_op(&loop[0], "MatMul", "t l", "u");
    onnx_weights(&loop[0], "l", 4, 4);
    onnx_info(&loop[0], 12, "u");
    onnx_outer(&g, "Loop", name, "n", "j", body, loop, 1);
    onnx_op(&g, "MatMul", "o i", "y");
    onnx_weights(&g, "o", 4, 4);
    onnx_info(&g, 11, "x");
    onnx_info(&g, 12, "y");
    pb_text(&g.model, 6, "the last field");
    return g;
}

/* The names that the tensors have, in this order. */
static void expect_names(const char *file, const char *const *names, size_t n)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = must_open(ctx, in_folder(file));
    size_t found = 0;
    size_t i;

    for (i = 0; i < vc_model_facts(model)->n_tensors; i++) {
        const struct vc_tensor *t = vc_model_tensor(model, i);

        if (t->part_of == VC_NO_TENSOR) {
            assert_true(found < n);
            assert_string_equal(t->name, names[found++]);
        }
    }
    assert_int_equal(found, n);
    assert_int_equal(walk_model(ctx, model), VC_OK);
    vc_model_close(model);
    test_ctx_done(ctx);
}

static const char *const all[] = {"c1",
                                  "node/then_branch/w",
                                  "c2",
                                  "node/else_branch/w",
                                  "node/body/inner/then_branch/c1",
                                  "node/body/inner/then_branch/w",
                                  "l",
                                  "o"};

static void test_names(void **state)
{
    const char *const renamed[] = {"node/then_branch/c1", all[1], all[2], all[3], all[4], all[5], all[6], all[7]};
    static const char *const unnamed[] = {"i/then_branch/c1",
                                          "i/then_branch/w",
                                          "c2",
                                          "i/else_branch/w",
                                          "j/body/inner/then_branch/c1",
                                          "j/body/inner/then_branch/w",
                                          "l",
                                          "o"};
    struct onnx_builder g = nested(8, 17, "node");
    struct onnx_builder h = nested(8, 17, "");
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;

    (void)state;
    save_own("in.onnx", onnx_finish(&g));
    expect_names("in.onnx", renamed, 8);
    model = must_open(ctx, in_folder("in.onnx"));
    assert_int_equal(vc_model_tensor(model, 7)->channel_axis, 0); /* the last axis inside, the last but one outside */
    assert_int_equal(vc_model_tensor(model, 1)->channel_axis, 1);
    vc_model_close(model);
    test_ctx_done(ctx);
    save_own("in.onnx", onnx_finish(&h));
    expect_names("in.onnx", unnamed, 8);
    empty_folder();
}

/* Two nodes of one name: a number tells them apart. */
static void test_same_nodes(void **state)
{
    static const char *const names[] = {"n/then_branch/c1", "n/then_branch/w", "n/then_branch/c1.2",
                                        "n/then_branch/w.2", "w"};
    struct onnx_builder g = {.ir = 0};
    struct onnx_builder a[] = {branch("y1")};
    struct onnx_builder b[] = {branch("y2")};

    (void)state;
    onnx_outer(&g, "If", "n", "b", "i", branches, a, 1);
    onnx_outer(&g, "If", "n", "b", "j", branches, b, 1);
    onnx_weights(&g, "w", 4, 4);
    save_own("in.onnx", onnx_finish(&g));
    expect_names("in.onnx", names, 5);
    must_convert("in.onnx", "out.onnx", INT8);
    expect_names("out.onnx", names, 5);
    empty_folder();
}

/* There and back: names stay, every tensor but those of the main graph is quantized where it lies, and what was made of
 * the way back is the same again. */
static void test_round_trips(void **state)
{
    const char *const names[] = {"node/then_branch/c1", all[1], all[2], all[3], all[4], all[5], all[6], all[7]};
    static const struct {
        enum what what;
        uint64_t opset;
    } ways[] = {{COPY, 17}, {INT8, 17}, {INT8, 9}, {ASYMMETRIC, 17}, {ASYMMETRIC, 12}, {GROUPS, 21}, {FP16, 17}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct onnx_builder g = nested(8, ways[i].opset, "node");

        save_own("in.onnx", onnx_finish(&g));
        must_convert("in.onnx", "out.onnx", ways[i].what);
        expect_names("out.onnx", names, 8);
        if (ways[i].what == COPY) {
            expect_same("in.onnx", "out.onnx");
            continue;
        }
        must_convert("out.onnx", "back.onnx", BACK);
        expect_names("back.onnx", names, 8);
        must_convert("back.onnx", "again.onnx", ways[i].what);
        must_convert("again.onnx", "more.onnx", COPY);
        expect_same("again.onnx", "more.onnx");
        must_convert("in.onnx", "in.npz", ways[i].what);
        assert_true(holds("in.npz", "node/else_branch/w.npy"));
        remove_path("in.npz");
    }
    empty_folder();
}

/* Values of inner graphs in another file go along. */
static void test_external(void **state)
{
    struct onnx_builder g = {.ir = 0};
    struct onnx_builder one[] = {{.ir = 0}};

    (void)state;
    onnx_external(&one[0], "w", 20, 20, "w.bin", "16", "1600");
    onnx_outer(&g, "If", "n", "b", "i", branches, one, 1);
    save_own("in.onnx", onnx_finish(&g));
    save_own("w.bin", counting(1616));
    must_convert("in.onnx", "out.onnx", COPY);
    assert_true(exists("out.onnx.data"));
    must_convert("out.onnx", "q.onnx", INT8);
    must_convert("in.onnx", "p.onnx", INT8);
    assert_true(holds("q.onnx", "w.int8"));
    empty_folder();
}

/* Left alone: initializers before IR version 4, those that are inputs of their graph, and what a node of another graph
 * makes of codes. */
static void test_left_alone(void **state)
{
    static const char *const outer[] = {"o"};
    static const char *const parts[] = {"w.int8", "w.scale"};
    const uint64_t dims[] = {4, 4};
    struct onnx_builder old = nested(3, 9, "node");
    struct onnx_builder g = {.ir = 0};
    struct onnx_builder one[] = {{.ir = 0}};
    struct onnx_builder h = {.ir = 0};
    struct onnx_builder two[] = {{.ir = 0}};

    (void)state;
    save_own("in.onnx", onnx_finish(&old));
    expect_names("in.onnx", outer, 1);
    must_convert("in.onnx", "out.onnx", COPY);
    expect_same("in.onnx", "out.onnx");
    must_convert("in.onnx", "out.onnx", INT8);
    expect_names("out.onnx", outer, 1);

    onnx_info(&one[0], 11, "w");
    onnx_weights(&one[0], "w", 4, 4);
    onnx_outer(&g, "Loop", "n", "b", "i", body, one, 1);
    onnx_weights(&g, "o", 4, 4);
    save_own("in.onnx", onnx_finish(&g));
    expect_names("in.onnx", outer, 1);
    must_convert("in.onnx", "out.onnx", COPY);
    expect_same("in.onnx", "out.onnx");
    must_convert("in.onnx", "out.onnx", FP16);
    expect_names("out.onnx", outer, 1);

    onnx_op_with(&two[0], "DequantizeLinear", "w.int8 w.scale", "w", "axis", 0);
    onnx_outer(&h, "If", "n", "b", "i", branches, two, 1);
    onnx_raw(&h, "w.int8", 3, 2, dims, NULL, 16);
    onnx_raw(&h, "w.scale", 1, 1, dims, "\0\0\x80?\0\0\x80?\0\0\x80?\0\0\x80?", 16);
    save_own("in.onnx", onnx_finish(&h));
    expect_names("in.onnx", parts, 2);
    must_convert("in.onnx", "out.onnx", INT8);
    expect_same("in.onnx", "out.onnx");
    empty_folder();
}

/* A TensorAnnotation: the tensor, and a pair of a key and the tensor that quantizes it. */
static struct bytes annotation(const char *tensor, const char *scale)
{
    struct bytes pair = {NULL, 0, 0};
    struct bytes b = {NULL, 0, 0};

    pb_text(&pair, 1, "SCALE_TENSOR");
    pb_text(&pair, 2, scale);
    pb_text(&b, 1, tensor);
    pb_message(&b, 2, &pair);
    return b;
}

/* Codes of DequantizeLinear, which annotations may speak of: then they stay as they are, under their names. */
static struct onnx_builder annotated(struct bytes *note)
{
    const uint64_t dims[] = {4, 4};
    struct onnx_builder g = {.ir = 0};

    onnx_op_with(&g, "DequantizeLinear", "w.int8 w.scale", "w", "axis", 0);
    onnx_op(&g, "MatMul", "x w", "y");
    onnx_raw(&g, "w.int8", 3, 2, dims, NULL, 16);
    onnx_raw(&g, "w.scale", 1, 1, dims, "\0\0\x80?\0\0\x80?\0\0\x80?\0\0\x80?", 16);
    onnx_info(&g, 11, "x");
    onnx_info(&g, 12, "y");
    if (note != NULL) {
        pb_message(&g.graph, 14, note);
    }
    return g;
}

static void test_annotations(void **state)
{
    static const char *const parts[] = {"w.int8", "w.scale"};
    static const char *const tensors[][2] = {{"w.int8", "other"}, {"y", "w.scale"}};
    struct onnx_builder g = annotated(NULL);
    struct bytes note;
    struct bytes b;
    size_t i;

    (void)state;
    save_own("in.onnx", onnx_finish(&g));
    must_convert("in.onnx", "out.onnx", BACK); /* they become floats */
    assert_false(holds("out.onnx", "w.scale"));
    for (i = 0; i < 2; i++) {
        note = annotation(tensors[i][0], tensors[i][1]);
        g = annotated(&note);
        save_own("in.onnx", onnx_finish(&g));
        expect_names("in.onnx", parts, 2);
        must_convert("in.onnx", "out.onnx", COPY);
        expect_same("in.onnx", "out.onnx");
        must_convert("in.onnx", "out.onnx", BACK);
        expect_same("in.onnx", "out.onnx");
    }
    g = annotated(NULL);
    pb_int(&g.graph, 14, 7);
    b = onnx_finish(&g);
    expect_bad("a number", b.p, b.n, "an annotation");
    bytes_release(&b);
    note = (struct bytes){NULL, 0, 0};
    pb_int(&note, 1, 7);
    g = annotated(&note);
    b = onnx_finish(&g);
    expect_bad("a name that is a number", b.p, b.n, "the name in an annotation");
    bytes_release(&b);
    note = (struct bytes){NULL, 0, 0};
    pb_data(&note, 2, "\x12\x7f", 2);
    g = annotated(&note);
    b = onnx_finish(&g);
    expect_bad("a pair that ends early", b.p, b.n, "");
    bytes_release(&b);
    empty_folder();
}

/* Sparse initializers stay as they are; large ones are spoken of. */
static void test_sparse(void **state)
{
    const uint64_t many[] = {2000};
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;
    unsigned kind;

    (void)state;
    for (kind = 0; kind < 3; kind++) {
        struct onnx_builder g = {.ir = 0};
        struct bytes values = onnx_tensor_header("s", 1, 1, many);
        struct bytes data = counting(8000);
        struct bytes sparse = {NULL, 0, 0};
        bool noted = false;
        size_t i;

        onnx_weights(&g, "w", 4, 4);
        pb_data(&values, 9, data.p, data.n);
        if (kind == 1) {
            pb_int(&values, 14, 1); /* its values lie in another file */
        }
        pb_message(&sparse, 1, &values);
        pb_message(&g.graph, 15, &sparse);
        if (kind == 2) {
            pb_int(&g.graph, 15, 3);
        }
        save_own("in.onnx", onnx_finish(&g));
        bytes_release(&data);
        if (kind == 2) {
            assert_int_equal(walk_path(ctx, in_folder("in.onnx"), NULL), VC_E_FORMAT);
            expect_says(ctx, "a sparse tensor");
            continue;
        }
        model = must_open(ctx, in_folder("in.onnx"));
        assert_int_equal(model->n_tensors, 1);
        for (i = 0; i < model->n_facts; i++) {
            noted = noted || strstr(model->facts[i].value, "or sparse, are carried over as they are: 1 with") != NULL;
        }
        assert_true(noted);
        vc_model_close(model);
        if (kind == 1) {
            must_not_convert("in.onnx", "new.onnx", COPY, "a tensor inside a node has its values in another file");
        } else {
            must_convert("in.onnx", "out.onnx", COPY);
            expect_same("in.onnx", "out.onnx");
        }
    }
    empty_folder();
    test_ctx_done(ctx);
}

/* Graphs inside each other, `depth` of them below the main one, the innermost with weights. */
static struct bytes deep(unsigned depth)
{
    struct onnx_builder g = {.ir = 0};
    unsigned i;

    onnx_weights(&g, "w", 4, 4);
    for (i = 0; i < depth; i++) {
        struct onnx_builder around = {.ir = 0};

        onnx_outer(&around, "If", "a name of some length", "b", "y", branches, &g, 1);
        g = around;
    }
    return onnx_finish(&g);
}

static void test_depth(void **state)
{
    struct bytes b = deep(33);

    (void)state;
    save_own("in.onnx", deep(32));
    must_convert("in.onnx", "out.onnx", INT8);
    must_convert("out.onnx", "back.onnx", BACK);
    assert_true(holds("out.onnx", "DequantizeLinear"));
    expect_bad("deep", b.p, b.n, "more than 32 graphs inside each other");
    bytes_release(&b);
    empty_folder();
}

static void test_allocations(void **state)
{
    struct onnx_builder g = nested(8, 17, "");
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    save_own("in.onnx", onnx_finish(&g));
    fail_each_allocation(ctx, in_folder("in.onnx"), in_folder("out.onnx"), task_int8(), 50);
    vc_ctx_free(ctx);
    empty_folder();
}

/* Whatever a damaged file still allows to read can be written and read again, or is refused. */
static void test_cuts_and_flips(void **state)
{
    struct onnx_builder g = nested(8, 17, "node");
    struct vc_ctx *calm = test_ctx();
    struct vc_ctx *ctx = test_ctx();
    struct bytes b;
    size_t i;

    (void)state;
    save_own("first.onnx", onnx_finish(&g));
    must_convert("first.onnx", "in.onnx", INT8);
    b = load("in.onnx");
    for (i = 0; i < b.n; i++) {
        struct bytes copy = {NULL, 0, 0};
        enum vc_status status;

        expect_calm(calm, b.p, i);
        if (i % 3 != 0) {
            continue;
        }
        b.p[i] ^= (unsigned char)(1u << i / 3 % 8);
        bytes_add(&copy, b.p, b.n);
        save_own("bad.onnx", copy);
        status = convert(ctx, "bad.onnx", "out.onnx", i % 2 == 0 ? BACK : FP16, true);
        if (status == VC_OK && walk_path(ctx, in_folder("out.onnx"), NULL) != VC_OK) {
            fail_msg("byte %zu: %s", i, vc_ctx_message(ctx));
        }
        assert_true(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED);
        b.p[i] ^= (unsigned char)(1u << i / 3 % 8);
    }
    bytes_release(&b);
    vc_ctx_free(ctx);
    test_ctx_done(calm);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),          cmocka_unit_test(test_same_nodes), cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_external),       cmocka_unit_test(test_left_alone), cmocka_unit_test(test_depth),
        cmocka_unit_test(test_annotations),    cmocka_unit_test(test_sparse),     cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_cuts_and_flips),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
