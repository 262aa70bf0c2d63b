/* test_onnx_write.c - ONNX output in one file: copies are the same bytes, weights become codes behind nodes and come
 * back, and whatever fails leaves nothing behind. tests/judge/test_onnx.py runs the graphs. */
#include "onnx_jobs.h"

#include <stdio.h>
#include <unistd.h>

#include "core/job/job_passes.h"
#include "core/run/sink.h"

static void test_copy(void **state)
{
    struct onnx_builder g = small_graph(8, 17);

    (void)state;
    save_own("in.onnx", onnx_finish(&g));
    must_convert("in.onnx", "out.onnx", COPY);
    expect_same("in.onnx", "out.onnx");
    empty_folder();
}

static void expect_tensor(struct vc_model *model, const char *name, enum vc_dtype dtype, bool quantized)
{
    size_t i = vc_model_find(model, name);

    if (i == VC_NO_TENSOR) {
        fail_msg("there is no '%s'", name);
    }
    assert_int_equal(vc_model_tensor(model, i)->dtype, dtype);
    assert_int_equal(vc_model_tensor(model, i)->quant != NULL, quantized);
}

/* There and back: the names stay, the nodes go. */
static void test_round_trips(void **state)
{
    static const struct {
        enum what what;
        uint64_t opset;
        enum vc_dtype dtype;
        const char *op;
    } ways[] = {{INT8, 17, VC_DTYPE_I8, "DequantizeLinear"},
                {INT8, 12, VC_DTYPE_I8, "Mul"},
                {INT8, 7, VC_DTYPE_I8, "Mul"},
                {ASYMMETRIC, 12, VC_DTYPE_I8, "Sub"},
                {ASYMMETRIC, 7, VC_DTYPE_I8, "Sub"},
                {TENSORS, 10, VC_DTYPE_I8, "DequantizeLinear"},
                {TENSORS, 9, VC_DTYPE_I8, "Mul"},
                {GROUPS, 21, VC_DTYPE_I8, "DequantizeLinear"},
                {FP16, 6, VC_DTYPE_F16, "Cast"},
                {BF16, 13, VC_DTYPE_BF16, "Cast"}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct onnx_builder g = small_graph(8, ways[i].opset);
        struct vc_ctx *ctx = test_ctx();
        struct vc_model *model = NULL;

        save_own("in.onnx", onnx_finish(&g));
        must_convert("in.onnx", "out.onnx", ways[i].what);
        assert_true(holds("out.onnx", ways[i].op));
        assert_int_equal(strstr(last_report.note, "stays: int8 weights pass through Cast and Mul") != NULL,
                         strlen(ways[i].op) == 3);
        assert_int_equal(vc_model_open(ctx, in_folder("out.onnx"), NULL, &model), VC_OK);
        expect_tensor(model, "w", ways[i].dtype, ways[i].dtype == VC_DTYPE_I8);
        expect_tensor(model, "v", ways[i].dtype, ways[i].dtype == VC_DTYPE_I8);
        expect_tensor(model, "n", VC_DTYPE_I64, false);
        vc_model_close(model);
        vc_ctx_free(ctx);
        must_convert("out.onnx", "same.onnx", COPY);
        expect_same("out.onnx", "same.onnx");
        must_convert("out.onnx", "back.onnx", BACK);
        if (ways[i].what == FP16 || ways[i].what == BF16) { /* small whole numbers: exact */
            expect_same("in.onnx", "back.onnx");
        }
        assert_false(holds("back.onnx", "Linear"));
        assert_false(holds("back.onnx", "Cast"));
        assert_false(holds("back.onnx", "codes"));
        must_convert("back.onnx", "again.onnx", ways[i].what);
        must_convert("again.onnx", "back2.onnx", BACK);
        expect_same("back.onnx", "back2.onnx");
        empty_folder();
    }
}

static const float constant_values[] = {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12, 13, -14, 15, -16};

/* One weight in a node, one in an initializer. */
static struct onnx_builder constant_graph(void)
{
    struct onnx_builder g = {.ir = 3, .opset = 13};
    const uint64_t dims[] = {4, 4};

    onnx_op(&g, "MatMul", "x w", "h");
    onnx_constant(&g, "c", 1, 2, dims, constant_values, sizeof constant_values);
    onnx_constant(&g, "flat", 1, 1, dims, constant_values, 16);
    onnx_op(&g, "MatMul", "h c", "y");
    onnx_weights(&g, "w", 4, 4);
    onnx_info(&g, 11, "x");
    onnx_info(&g, 12, "y");
    return g;
}

/* A node that holds weights goes when they change; kept ones stay in it. */
static void test_constants(void **state)
{
    static const enum what whats[] = {INT8, FP16, BF16};
    struct onnx_builder g = constant_graph();
    size_t i;

    (void)state;
    save_own("in.onnx", onnx_finish(&g));
    must_convert("in.onnx", "same.onnx", COPY);
    expect_same("in.onnx", "same.onnx");
    for (i = 0; i < 3; i++) {
        must_convert("in.onnx", "out.onnx", whats[i]);
        assert_true(holds("out.onnx", whats[i] == INT8 ? "c.int8" : whats[i] == FP16 ? "c.f16" : "c.bf16"));
        must_convert("out.onnx", "back.onnx", BACK);
        must_convert("back.onnx", "back.npz", COPY);
        must_convert("out.onnx", "out.npz", BACK);
        expect_same("back.npz", "out.npz");
        must_convert("back.onnx", "again.onnx", whats[i]);
        must_convert("again.onnx", "back2.onnx", BACK);
        expect_same("back.onnx", "back2.onnx");
        assert_false(holds("back.onnx", "value of a node\x4a\x40")); /* its values; the flat one stays */
        assert_true(holds("back.onnx", "flat"));
    }
    beside = "two.npz";
    must_convert("in.onnx", "same.onnx", COPY);
    beside = NULL;
    expect_same("in.onnx", "same.onnx");
    empty_folder();
}

static void test_names(void **state)
{
    struct onnx_builder g = small_graph(8, 17);

    (void)state;
    onnx_op(&g, "Relu", "y", "w.int8"); /* a value that has the name already */
    onnx_op(&g, "Relu", "y", "w.int8_1");
    onnx_info(&g, 11, "w"); /* a default that callers may replace: not any more */
    save_own("in.onnx", onnx_finish(&g));
    must_convert("in.onnx", "out.onnx", INT8);
    assert_true(holds("out.onnx", "w.int8_2"));
    assert_true(holds("out.onnx", "v.int8"));
    assert_false(holds("out.onnx", "\x5a\3\x0a\1w"));
    assert_true(holds("out.onnx", "\x5a\3\x0a\1x"));
    must_convert("out.onnx", "again.onnx", INT8); /* names of what goes are free */
    assert_true(holds("again.onnx", "w.int8_2"));
    assert_false(holds("again.onnx", "w.int8_3"));
    assert_false(holds("again.onnx", "v.int8_1"));
    g = small_graph(8, 9);
    save_own("in.onnx", onnx_finish(&g));
    must_convert("in.onnx", "out.onnx", ASYMMETRIC);
    must_convert("out.onnx", "again.onnx", ASYMMETRIC); /* of values between nodes, too */
    assert_true(holds("again.onnx", "w.difference"));
    assert_false(holds("again.onnx", "_1"));
    empty_folder();
}

/* Old graphs list their initializers among the inputs. */
static void test_old_inputs(void **state)
{
    struct onnx_builder g = small_graph(3, 10);

    (void)state;
    onnx_info(&g, 11, "w");
    onnx_info(&g, 11, "n");
    onnx_info(&g, 11, "v");
    save_own("in.onnx", onnx_finish(&g));
    must_convert("in.onnx", "out.onnx", INT8);
    assert_false(holds("out.onnx", "\x5a\3\x0a\1w"));
    assert_true(holds("out.onnx", "\x5a\3\x0a\1n"));
    assert_true(holds("out.onnx", "\x5a\x18\x0a\6w.int8\x12\x0e\x0a\x0c\x08\3\x12\x08\x0a\2\x08\4\x0a\2\x08\6"));
    assert_true(holds("out.onnx", "\x5a\x19\x0a\7w.scale\x12\x0e\x0a\x0c\x08\1\x12\x08\x0a\2\x08\1\x0a\2\x08\6"));
    must_convert("out.onnx", "back.onnx", BACK);
    assert_true(holds("back.onnx", "\x0a\1w\x12"));
    assert_false(holds("back.onnx", "w.int8"));
    empty_folder();
}

static void test_refusals(void **state)
{
    struct onnx_builder g = small_graph(8, 6);
    const uint64_t conv[] = {2, 3, 4};
    struct bytes inner = {NULL, 0, 0};
    struct bytes attribute = {NULL, 0, 0};
    struct bytes node = {NULL, 0, 0};

    (void)state;
    save_own("in.onnx", onnx_finish(&g));
    must_not_convert("in.onnx", "out.onnx", INT8, "w: int8 (codes times scales) needs opset 7, and this model has 6");
    g = small_graph(8, 12);
    save_own("in.onnx", onnx_finish(&g));
    must_not_convert("in.onnx", "out.onnx", GROUPS,
                     "has 12; granularity channel needs 7; or a converter of ONNX versions");
    must_not_convert("in.onnx", "out.onnx", BF16, "has 12; target=f16 needs 6; or a converter of ONNX versions");
    g = small_graph(8, 5);
    save_own("in.onnx", onnx_finish(&g));
    must_not_convert("in.onnx", "out.onnx", FP16,
                     "w: another float type (Cast) needs opset 6, and this model has 5; a converter of ONNX");
    g = (struct onnx_builder){.opset = 21};
    onnx_raw(&g, "k", 1, 3, conv, NULL, 96);
    save_own("in.onnx", onnx_finish(&g));
    must_not_convert("in.onnx", "out.onnx", GROUPS, "k: ONNX has groups along one axis only");
    g = small_graph(8, 17);
    pb_data(&g.model, 20, "", 0);
    save_own("in.onnx", onnx_finish(&g));
    must_not_convert("in.onnx", "out.onnx", INT8, "w: the file holds training_info");
    must_convert("in.onnx", "out.onnx", COPY);
    expect_same("in.onnx", "out.onnx");
    g = small_graph(8, 17);
    pb_int(&inner, 14, 1);
    pb_message(&attribute, 5, &inner);
    pb_message(&node, 5, &attribute);
    pb_message(&g.graph, 1, &node);
    save_own("in.onnx", onnx_finish(&g));
    must_not_convert("in.onnx", "out2.onnx", INT8, "a tensor inside a node has its values in another file");
    save_own("in.npy", npy_matrix(3, 4));
    must_not_convert("in.npy", "out2.onnx", COPY, "npy has no graph: only ONNX becomes ONNX");
    empty_folder();
}

/* ---- failures ---- */

static void test_allocations(void **state)
{
    static const struct {
        const char *from;
        enum what what;
    } jobs[] = {{"in.onnx", INT8},  {"in.onnx", FP16}, {"q.onnx", BACK}, {"old.onnx", ASYMMETRIC}, {"p.onnx", BACK},
                {"ext.onnx", COPY}, {"in.onnx", INT4}, {"n.onnx", BACK}, {"n.onnx", LINEAR},       {"l.onnx", NBITS}};
    struct onnx_builder g = small_graph(3, 13);
    struct onnx_builder old = small_graph(3, 8);
    struct onnx_builder new = small_graph(10, 21);
    size_t i;

    (void)state;
    save_external();
    assert_int_equal(rename(in_folder("in.onnx"), in_folder("ext.onnx")), 0);
    onnx_info(&g, 11, "w");
    save_own("in.onnx", onnx_finish(&g));
    must_convert("in.onnx", "q.onnx", INT8);
    save_own("new.onnx", onnx_finish(&new));
    must_convert("new.onnx", "n.onnx", INT4);
    assert_true(holds("n.onnx", "MatMulNBits"));
    must_convert("n.onnx", "l.onnx", LINEAR);
    assert_true(holds("l.onnx", "DequantizeLinear") && !holds("l.onnx", "MatMulNBits"));
    must_convert("l.onnx", "again.onnx", NBITS);
    expect_same("again.onnx", "n.onnx");
    save_own("old.onnx", onnx_finish(&old));
    must_convert("old.onnx", "p.onnx", ASYMMETRIC);
    for (i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        struct vc_ctx *ctx = test_ctx();
        enum vc_status status = VC_E_NOMEM;
        uint64_t in_use;
        uint64_t n;

        assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
        assert_int_equal(convert(ctx, jobs[i].from, "out.onnx", jobs[i].what, true), VC_OK);
        in_use = vc_pool_in_use(ctx->shared->pool); /* the kernels, which the context keeps */
        for (n = 1; status != VC_OK; n++) {
            remove_path("out.onnx");
            remove_path("out.onnx.data");
            vc_pool_fail_at(ctx->shared->pool, n, 0);
            status = convert(ctx, jobs[i].from, "out.onnx", jobs[i].what, false);
            vc_pool_fail_at(ctx->shared->pool, 0, 0);
            assert_int_equal(vc_pool_in_use(ctx->shared->pool), in_use);
            assert_true(status == VC_OK || status == VC_E_NOMEM);
            assert_int_equal(exists("out.onnx"), status == VC_OK);
            assert_int_equal(exists("out.onnx.data"), status == VC_OK && jobs[i].what == COPY);
        }
        assert_true(n > 30);
        vc_ctx_free(ctx);
    }
    empty_folder();
}

/* Whatever a damaged graph still allows to read can be written, or is refused. */
static void flip_bits(struct onnx_builder g, enum what what, size_t step)
{
    const enum what jobs[] = {BACK, what == BACK ? INT8 : what, LINEAR, NBITS};
    struct vc_ctx *ctx = test_ctx();
    struct bytes b;
    size_t i;

    save_own("first.onnx", onnx_finish(&g));
    must_convert("first.onnx", "in.onnx", what == BACK ? COPY : what);
    b = load("in.onnx");
    for (i = 0; i < b.n; i += step) {
        struct bytes copy = {NULL, 0, 0};
        enum vc_status status;

        b.p[i] ^= (unsigned char)(1u << i / step % 8);
        bytes_add(&copy, b.p, b.n);
        save_own("bad.onnx", copy);
        status = convert(ctx, "bad.onnx", "out.onnx", jobs[(i / step + i / step / 8) % 4], true);
        if (status == VC_OK) { /* what was written can be read */
            status = walk_path(ctx, in_folder("out.onnx"), NULL);
            if (status != VC_OK) {
                fail_msg("byte %zu: %s", i, vc_ctx_message(ctx));
            }
        }
        assert_true(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED);
        b.p[i] ^= (unsigned char)(1u << i / step % 8);
    }
    bytes_release(&b);
    vc_ctx_free(ctx);
    empty_folder();
}

/* A weight of MatMul alone, and one that a Transpose uses as well. */
static struct onnx_builder int4_graph(void)
{
    struct onnx_builder g = small_graph(10, 21);

    onnx_weights(&g, "u", 3, 4);
    onnx_op(&g, "MatMul", "x u", "z");
    onnx_op(&g, "Transpose", "u", "t");
    return g;
}

static void test_flips(void **state)
{
    (void)state;
    flip_bits(int4_graph(), INT4, 1);
    flip_bits(small_graph(3, 13), INT8, 2);
    flip_bits(small_graph(3, 9), ASYMMETRIC, 3);
    flip_bits(constant_graph(), BACK, 3);
}

static enum vc_status leave_alone(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_item *item)
{
    (void)pass;
    return vc_item_keep(ctx, item, "nothing is to be done");
}

static void forget_nothing(struct vc_ctx *ctx, struct vc_pass *pass)
{
    (void)ctx;
    (void)pass;
}

static struct vc_pass trained;

static enum vc_status add_trained(struct vc_ctx *ctx, struct vc_job *job)
{
    static const struct vc_pass_ops ops = {.name = "trained", .plan = leave_alone, .free = forget_nothing};

    trained = (struct vc_pass){.ops = &ops, .command = "train", .lineage = trained.lineage};
    return vc_job_add_pass(ctx, job, &trained);
}

/* What was trained stands in metadata_props, once: a second training takes the place of the first one, other entries
 * stay. */
static void test_lineage(void **state)
{
    struct onnx_builder g = small_graph(8, 17);
    struct vc_ctx *ctx = test_ctx();
    struct task task = task_copy();
    struct bytes note = {NULL, 0, 0};
    const struct vc_recipe_entry first = {"vcompress.distill", "{\"teacher\": \"first\"}"};
    const struct vc_recipe_entry second = {"vcompress.distill", "{\"teacher\": \"second\"}"};

    (void)state;
    pb_text(&note, 1, "author");
    pb_text(&note, 2, "somebody");
    pb_message(&g.model, 14, &note);
    (void)save_own("in.onnx", onnx_finish(&g));
    task.add = add_trained;
    trained.lineage = &first;
    must_run(ctx, "in.onnx", "a.onnx", task);
    assert_true(holds("a.onnx", "vcompress.distill"));
    assert_true(holds("a.onnx", "{\"teacher\": \"first\"}"));
    trained.lineage = &second;
    must_run(ctx, "a.onnx", "b.onnx", task);
    assert_true(holds("b.onnx", "{\"teacher\": \"second\"}"));
    assert_false(holds("b.onnx", "first"));
    assert_true(holds("b.onnx", "somebody"));
    fail_each_allocation(ctx, "a.onnx", "c.onnx", task, 20);
    expect_same("b.onnx", "c.onnx");
    trained.lineage = NULL;
    must_run(ctx, "b.onnx", "d.onnx", task);
    expect_same("b.onnx", "d.onnx");
    vc_ctx_free(ctx);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),        cmocka_unit_test(test_round_trips), cmocka_unit_test(test_constants),
        cmocka_unit_test(test_names),       cmocka_unit_test(test_old_inputs),  cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_allocations), cmocka_unit_test(test_flips),       cmocka_unit_test(test_lineage),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
