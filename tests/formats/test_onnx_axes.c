/* test_onnx_axes.c - what the nodes of an ONNX graph say about the axes of their weights: where the output channels
 * are, and which axis is summed over. */
#include "formats_test.h"

#include <unistd.h>

#include "onnx_builder.h"

struct open_model {
    struct vc_model *model;
    char path[512];
    int fd;
};

static void open_bytes(struct vc_ctx *ctx, struct bytes b, struct open_model *o)
{
    o->fd = walk_file_open(b.p, b.n, o->path, sizeof o->path);
    if (vc_model_open(ctx, o->path, NULL, &o->model) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    bytes_release(&b);
}

static void close_model(struct open_model *o)
{
    vc_model_close(o->model);
    walk_file_close(o->fd, o->path);
}

static const struct vc_tensor *get(const struct open_model *o, const char *name)
{
    size_t index = vc_model_find(o->model, name);

    if (index == VC_NO_TENSOR) {
        fail_msg("there is no tensor '%s'", name);
    }
    return vc_model_tensor(o->model, index);
}

static void expect_axis(const char *op, const char *inputs, const char *attribute, unsigned axis)
{
    struct vc_ctx *ctx = test_ctx();
    struct onnx_builder g = {.ir = 0};
    const uint64_t dims[] = {2, 3, 4, 5};
    struct open_model o;

    if (attribute == NULL) {
        onnx_op(&g, op, inputs, "y");
    } else {
        onnx_op_with(&g, op, inputs, "y", attribute, 1);
    }
    onnx_raw(&g, "w", 1, 2, dims, NULL, 24);
    onnx_raw(&g, "w4", 1, 4, dims, NULL, 480);
    onnx_raw(&g, "v", 1, 1, dims, NULL, 8);
    open_bytes(ctx, onnx_finish(&g), &o);
    assert_int_equal(get(&o, strstr(inputs, "w4") != NULL ? "w4" : "w")->channel_axis, axis);
    assert_int_equal(get(&o, "v")->channel_axis, 0);
    close_model(&o);
    test_ctx_done(ctx);
}

static void test_axes(void **state)
{
    (void)state;
    expect_axis("MatMul", "x w", NULL, 1);
    expect_axis("MatMul", "w x", NULL, 0);
    expect_axis("MatMul", "x w4", NULL, 3);
    expect_axis("MatMul", "w4 x", NULL, 2);
    expect_axis("MatMul", "w w", NULL, 0);
    expect_axis("MatMul", "x v", NULL, 0);
    expect_axis("Gemm", "x w v", NULL, 1);
    expect_axis("Gemm", "x w v", "transA", 1);
    expect_axis("Gemm", "x w v", "transB", 0);
    expect_axis("Gemm", "w x v", NULL, 0);
    expect_axis("Gemm", "w x v", "transA", 1);
    expect_axis("Gemm", "x x w", NULL, 0);
    expect_axis("Conv", "x w4 v", NULL, 0);
    expect_axis("ConvTranspose", "x w4 v", NULL, 1);
    expect_axis("LSTM", "x w4 w4 v", NULL, 2); /* the last but one of three */
    expect_axis("Gather", "w x", NULL, 0);
    expect_axis("Add", "x w", NULL, 0);
}

/* What they sum over, which N:M goes along: `inputs` as in struct vc_tensor. */
static void expect_inputs(const char *op, const char *operands, const char *attribute, const char *text, uint64_t value,
                          unsigned inputs)
{
    struct vc_ctx *ctx = test_ctx();
    struct onnx_builder g = {.ir = 0};
    const uint64_t dims[] = {2, 3, 4, 5};
    const struct vc_tensor *t;
    struct open_model o;

    if (text != NULL) {
        onnx_op_text(&g, op, operands, "y", attribute, text);
    } else if (attribute != NULL) {
        onnx_op_with(&g, op, operands, "y", attribute, value);
    } else {
        onnx_op(&g, op, operands, "y");
    }
    onnx_raw(&g, "w", 1, 2, dims, NULL, 24);
    onnx_raw(&g, "w3", 1, 3, dims, NULL, 96);
    onnx_raw(&g, "w4", 1, 4, dims, NULL, 480);
    open_bytes(ctx, onnx_finish(&g), &o);
    t = get(&o, strstr(operands, "w4") != NULL ? "w4" : strstr(operands, "w3") != NULL ? "w3" : "w");
    assert_int_equal(t->inputs, inputs);
    assert_true((inputs == VC_NO_INPUTS) == (t->inputs_reason != NULL));
    close_model(&o);
    test_ctx_done(ctx);
}

static void test_inputs(void **state)
{
    (void)state;
    expect_inputs("MatMul", "x w", NULL, NULL, 0, 1);
    expect_inputs("MatMul", "w x", NULL, NULL, 0, 2);
    expect_inputs("MatMul", "x w3", NULL, NULL, 0, 2);
    expect_inputs("MatMul", "w3 x", NULL, NULL, 0, 3);
    expect_inputs("Gemm", "x w", NULL, NULL, 0, 1);
    expect_inputs("Gemm", "x w", "transB", NULL, 1, 2);
    expect_inputs("Gemm", "w x", NULL, NULL, 0, 2);
    expect_inputs("Gemm", "w x", "transA", NULL, 1, 1);
    expect_inputs("Conv", "x w4", NULL, NULL, 0, 2);
    expect_inputs("ConvTranspose", "x w4", NULL, NULL, 0, 1);
    expect_inputs("ConvTranspose", "x w4", "group", NULL, 2, VC_NO_INPUTS);
    expect_inputs("LSTM", "x w3", NULL, NULL, 0, 3);
    expect_inputs("GRU", "x x w3", NULL, NULL, 0, 3);
    expect_inputs("Add", "x w", NULL, NULL, 0, 0);
    expect_inputs("Einsum", "x w", "equation", "bi,ij->bj", 0, 1);
    expect_inputs("Einsum", "x w", "equation", "bi, oi -> bo", 0, 2);
    expect_inputs("Einsum", "w x", "equation", "oi,bi->bo", 0, 2);
    expect_inputs("Einsum", "x w3", "equation", "bi,hik->bhk", 0, 2);
    expect_inputs("Einsum", "x w3", "equation", "bi,ihk->bhk", 0, 1);
    expect_inputs("Einsum", "x w3", "equation", "bhk,hkd->bd", 0, 2); /* over both: the inner one */
    expect_inputs("Einsum", "x w", "equation", "...i,...ij->...j", 0, 1);
    expect_inputs("Einsum", "x w", "equation", "bi,bi->bi", 0, VC_NO_INPUTS);
    expect_inputs("Einsum", "x w", "equation", "b,ii->b", 0, VC_NO_INPUTS);
    expect_inputs("Einsum", "x w", "equation", "bi,ij", 0, VC_NO_INPUTS);
    expect_inputs("Einsum", "x w", "equation", "", 0, VC_NO_INPUTS);
    expect_inputs("Einsum", "x w", NULL, NULL, 0, VC_NO_INPUTS);
}

/* A graph inside a node has its say about weights of the graph around it: x w' in a branch, and what the main graph
 * does with w. */
static void expect_inside(const char *op, unsigned inputs, unsigned axis)
{
    static const char *const branch[] = {"then_branch"};
    struct vc_ctx *ctx = test_ctx();
    struct onnx_builder g = {.ir = 0};
    struct onnx_builder inside[1] = {{.ir = 0}};
    const uint64_t dims[] = {4, 4};
    struct open_model o;

    onnx_raw(&g, "w", 1, 2, dims, NULL, 64);
    onnx_op_with(&inside[0], "Gemm", "x w", "z", "transB", 1);
    onnx_outer(&g, "If", "n", "b", "i", branch, inside, 1);
    if (op != NULL) {
        onnx_op(&g, op, "x w", "y");
    }
    open_bytes(ctx, onnx_finish(&g), &o);
    assert_int_equal(get(&o, "w")->inputs, inputs);
    assert_int_equal(get(&o, "w")->channel_axis, axis);
    close_model(&o);
    test_ctx_done(ctx);
}

static void test_inside(void **state)
{
    (void)state;
    expect_inside(NULL, 2, 0);
    expect_inside("Add", 2, 0);
    expect_inside("MatMul", VC_NO_INPUTS, 0); /* the one sums over axis 1, the other over axis 0 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_axes), cmocka_unit_test(test_inputs),
                                       cmocka_unit_test(test_inside)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
