/* test_onnx_read.c - ONNX files as models: initializers of every kind, codes that nodes turn back into floats. Graphs
 * are onnx_builder.c's, so that the test knows every value; each kind of damage is named, and no cut or flipped bit
 * does harm. */
#include "formats_test.h"

#include <stdlib.h>
#include <unistd.h>

#include "formats/onnx/onnx.h"
#include "onnx_builder.h"

static const uint64_t two_by_three[] = {2, 3};

/* ---- good files ---- */

static struct bytes sample(void)
{
    struct onnx_builder g = {.ir = 0};
    const uint64_t eight[] = {8};
    const uint64_t four[] = {4};
    const uint64_t dims[] = {4, 8};

    onnx_op_with(&g, "DequantizeLinear", "w.int8 w.scale w.zero_point", "w", "axis", 1);
    onnx_op(&g, "MatMul", "x w", "h");
    onnx_op_with(&g, "Cast", "c.f16", "c", "to", 1);
    onnx_op(&g, "Add", "h c", "y");
    onnx_raw(&g, "w.int8", 3, 2, dims, NULL, 32);
    onnx_raw(&g, "w.scale", 1, 1, eight, NULL, 32);
    onnx_raw(&g, "w.zero_point", 3, 1, eight, NULL, 8);
    onnx_raw(&g, "c.f16", 10, 1, four, NULL, 8);
    onnx_raw(&g, "words", 8, 1, four, NULL, 0);
    onnx_weights(&g, "plain", 3, 5);
    onnx_info(&g, 11, "x");
    onnx_info(&g, 12, "y");
    pb_text(&g.model, 6, "a note");
    return onnx_finish(&g);
}

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

static void test_sample(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct open_model o;
    const struct vc_tensor *t;
    unsigned char data[32];
    size_t i;

    (void)state;
    open_bytes(ctx, sample(), &o);
    assert_string_equal(vc_model_facts(o.model)->format, "onnx");
    assert_int_equal(vc_model_facts(o.model)->n_tensors, 5); /* the words are only carried over */
    assert_string_equal(vc_model_facts(o.model)->facts[0].key, "ir version");
    assert_string_equal(vc_model_facts(o.model)->facts[1].value, "17");
    t = get(&o, "w");
    assert_int_equal(t->dtype, VC_DTYPE_I8);
    assert_non_null(t->quant);
    assert_int_equal(t->quant->granularity, VC_GRANULARITY_CHANNEL);
    assert_int_equal(t->quant->axis, 1);
    assert_false(t->quant->symmetric);
    assert_int_equal(vc_quant_scale(t->quant), vc_model_find(o.model, "w.scale"));
    assert_int_equal(vc_quant_find(t->quant, VC_PART_ZERO_POINT), vc_model_find(o.model, "w.zero_point"));
    assert_int_equal(t->channel_axis, 1);
    t = get(&o, "w.scale");
    assert_int_equal(t->part_of, vc_model_find(o.model, "w"));
    assert_true(t->n_dims == 2 && t->shape[0] == 1 && t->shape[1] == 8); /* as NumPy broadcasts it */
    t = get(&o, "c");
    assert_int_equal(t->dtype, VC_DTYPE_F16);
    assert_null(t->quant);
    assert_int_equal(get(&o, "plain")->channel_axis, 0);
    assert_int_equal(vc_model_read(ctx, o.model, vc_model_find(o.model, "w"), 0, 32, data, sizeof data), VC_OK);
    for (i = 0; i < 32; i++) {
        assert_int_equal(data[i], i);
    }
    close_model(&o);
    test_ctx_done(ctx);
}

/* One tensor whose values are in a field of numbers, written in several ways. */
static void expect_numbers(unsigned type, unsigned field, enum vc_dtype dtype, const char *packed, size_t n_packed,
                           const void *values, size_t n_bytes, uint64_t n_elems)
{
    struct vc_ctx *ctx = test_ctx();
    const uint64_t dims[] = {n_elems};
    struct onnx_builder g = {.ir = 0};
    struct bytes t = onnx_tensor_header("t", type, 1, dims);
    struct open_model o;
    unsigned char data[64] = {0};

    if (n_packed != 0) {
        pb_data(&t, field, packed, n_packed);
    }
    pb_message(&g.graph, 5, &t);
    open_bytes(ctx, onnx_finish(&g), &o);
    assert_int_equal(vc_model_tensor(o.model, 0)->dtype, dtype);
    assert_int_equal(vc_model_tensor(o.model, 0)->size_bytes, n_bytes);
    if (vc_model_read(ctx, o.model, 0, 0, n_elems, data, sizeof data) != VC_OK || walk_model(ctx, o.model) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    assert_memory_equal(data, values, n_bytes);
    close_model(&o);
    test_ctx_done(ctx);
}

#define MINUS_1 "\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"
#define MINUS_2 "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1"

static void test_numbers(void **state)
{
    (void)state;
    expect_numbers(1, 4, VC_DTYPE_F32, "abcdefgh", 8, "abcdefgh", 8, 2);
    expect_numbers(14, 4, VC_DTYPE_C64, "abcdefgh", 8, "abcdefgh", 8, 1);
    expect_numbers(11, 10, VC_DTYPE_F64, "abcdefgh", 8, "abcdefgh", 8, 1);
    expect_numbers(15, 10, VC_DTYPE_C128, "abcdefghijklmnop", 16, "abcdefghijklmnop", 16, 1);
    expect_numbers(6, 5, VC_DTYPE_I32, "\1" MINUS_2 "\xfe\xff\xff\xff\x0f", 16,
                   "\1\0\0\0\xfe\xff\xff\xff\xfe\xff\xff\xff", 12, 3);
    expect_numbers(3, 5, VC_DTYPE_I8, "\x7f" MINUS_1, 11, "\x7f\xff", 2, 2);
    expect_numbers(2, 5, VC_DTYPE_U8, "\xff\1\0", 3, "\xff\0", 2, 2);
    expect_numbers(5, 5, VC_DTYPE_I16, "\xff\xff\1" MINUS_2, 13, "\xff\x7f\xfe\xff", 4, 2);
    expect_numbers(4, 5, VC_DTYPE_U16, "\xff\xff\3", 3, "\xff\xff", 2, 1);
    expect_numbers(9, 5, VC_DTYPE_BOOL, "\1\0", 2, "\1\0", 2, 2);
    expect_numbers(10, 5, VC_DTYPE_F16, "\x80\x78", 2, "\0\x3c", 2, 1);
    expect_numbers(16, 5, VC_DTYPE_BF16, "\x80\x7f", 2, "\x80\x3f", 2, 1);
    expect_numbers(17, 5, VC_DTYPE_F8_E4M3, "\xff\1", 2, "\xff", 1, 1);
    expect_numbers(22, 5, VC_DTYPE_I4, "\x21\3", 2, "\x21\3", 2, 3);
    expect_numbers(7, 7, VC_DTYPE_I64, "\1" MINUS_1, 11, "\1\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 16, 2);
    expect_numbers(13, 11, VC_DTYPE_U64, MINUS_1, 10, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, 1);
    expect_numbers(12, 11, VC_DTYPE_U32, "\xff\xff\xff\xff\x0f", 5, "\xff\xff\xff\xff", 4, 1);
    expect_numbers(1, 4, VC_DTYPE_F32, "", 0, "", 0, 0);
    expect_numbers(7, 7, VC_DTYPE_I64, "", 0, "", 0, 0);
}

/* Packed in two pieces, one by one, and dims packed. */
static void test_loose_numbers(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct onnx_builder g = {.ir = 0};
    struct bytes t = {NULL, 0, 0};
    struct open_model o;
    unsigned char data[16];

    (void)state;
    pb_data(&t, 1, "\2\2", 2);
    bytes_add(&t,
              "\x25"
              "abcd",
              5);
    pb_data(&t, 4, "", 0);
    pb_int(&t, 2, 1);
    pb_data(&t, 4, "efghijkl", 8);
    pb_text(&t, 8, "t");
    bytes_add(&t, "\x25mnop", 5);
    pb_message(&g.graph, 5, &t);
    open_bytes(ctx, onnx_finish(&g), &o);
    assert_int_equal(vc_model_tensor(o.model, 0)->n_dims, 2);
    assert_int_equal(vc_model_read(ctx, o.model, 0, 0, 4, data, sizeof data), VC_OK);
    assert_memory_equal(data, "abcdefghijklmnop", 16);
    assert_int_equal(vc_model_read(ctx, o.model, 0, 2, 1, data, sizeof data), VC_OK);
    assert_memory_equal(data, "ijkl", 4);
    close_model(&o);
    test_ctx_done(ctx);
}

/* ---- what nodes say ---- */

/* How the tensor `w` looks in a graph with these nodes: "i8 quantized", "f16", ... */
static void expect_seen(struct onnx_builder *g, const char *name, enum vc_dtype dtype, bool quantized)
{
    struct vc_ctx *ctx = test_ctx();
    struct open_model o;

    open_bytes(ctx, onnx_finish(g), &o);
    assert_int_equal(get(&o, name)->dtype, dtype);
    assert_int_equal(get(&o, name)->quant != NULL, quantized);
    assert_int_equal(walk_model(ctx, o.model), VC_OK);
    close_model(&o);
    test_ctx_done(ctx);
}

static void add_parts(struct onnx_builder *g, unsigned code_type, unsigned scale_type, unsigned zero_type, size_t n)
{
    const uint64_t dims[] = {4, 6};
    const uint64_t scales[] = {n};

    onnx_raw(g, "q", code_type, 2, dims, NULL, 24);
    onnx_raw(g, "s", scale_type, n > 1, scales, NULL, n * (scale_type == 1 ? 4 : 2));
    onnx_raw(g, "z", zero_type, n > 1, scales, NULL, n);
}

static void test_patterns(void **state)
{
    struct onnx_builder g = {.ir = 0};

    (void)state;
    /* One scale; per channel of the default axis; its own Cast. */
    onnx_op(&g, "DequantizeLinear", "q s z", "w");
    add_parts(&g, 3, 1, 3, 1);
    expect_seen(&g, "w", VC_DTYPE_I8, true);
    g.opset = 10;
    onnx_op(&g, "DequantizeLinear", "q s z", "w");
    add_parts(&g, 3, 1, 3, 1);
    expect_seen(&g, "w", VC_DTYPE_I8, true);
    onnx_op(&g, "DequantizeLinear", "q s z", "w");
    add_parts(&g, 3, 1, 3, 6);
    expect_seen(&g, "w", VC_DTYPE_I8, true);
    onnx_op(&g, "DequantizeLinear", "q s z", "w.f32");
    onnx_op_with(&g, "Cast", "w.f32", "w", "to", 10);
    add_parts(&g, 3, 1, 3, 6);
    expect_seen(&g, "w", VC_DTYPE_I8, true);
    onnx_op(&g, "DequantizeLinear", "q s z", "w"); /* scales of f16 */
    add_parts(&g, 3, 10, 3, 6);
    expect_seen(&g, "w", VC_DTYPE_I8, true);
    /* A Cast that others watch is not the tensor's. */
    onnx_op(&g, "DequantizeLinear", "q s z", "w");
    onnx_op_with(&g, "Cast", "w", "half", "to", 10);
    onnx_op(&g, "MatMul", "x w", "y");
    add_parts(&g, 3, 1, 3, 6);
    expect_seen(&g, "w", VC_DTYPE_I8, true);
    /* Casts that widen, and one that does not. */
    onnx_op_with(&g, "Cast", "q", "w", "to", 11);
    onnx_raw(&g, "q", 1, 2, two_by_three, NULL, 24);
    expect_seen(&g, "w", VC_DTYPE_F32, false);
    onnx_op_with(&g, "Cast", "q", "w", "to", 10);
    onnx_raw(&g, "q", 1, 2, two_by_three, NULL, 24);
    expect_seen(&g, "q", VC_DTYPE_F32, false);
}

static void test_no_patterns(void **state)
{
    struct onnx_builder g = {.ir = 0};

    (void)state;
    onnx_op(&g, "DequantizeLinear", "q s z", "w"); /* uint8 */
    add_parts(&g, 2, 1, 2, 1);
    expect_seen(&g, "q", VC_DTYPE_U8, false);
    onnx_op(&g, "DequantizeLinear", "q s z", "w"); /* scales of 16 bits that are no floats */
    add_parts(&g, 3, 4, 3, 1);
    expect_seen(&g, "q", VC_DTYPE_I8, false);
    onnx_op(&g, "DequantizeLinear", "q s z", "w"); /* scales of another shape */
    add_parts(&g, 3, 1, 3, 5);
    expect_seen(&g, "q", VC_DTYPE_I8, false);
    onnx_op_with(&g, "DequantizeLinear", "q s z", "w", "axis", 2);
    add_parts(&g, 3, 1, 3, 6);
    expect_seen(&g, "q", VC_DTYPE_I8, false);
    g.opset = 12; /* no channels there */
    onnx_op(&g, "DequantizeLinear", "q s z", "w");
    add_parts(&g, 3, 1, 3, 6);
    expect_seen(&g, "q", VC_DTYPE_I8, false);
    onnx_op_with(&g, "DequantizeLinear", "q s z", "w", "novelty", 1);
    add_parts(&g, 3, 1, 3, 1);
    expect_seen(&g, "q", VC_DTYPE_I8, false);
    onnx_op(&g, "DequantizeLinear", "q s z", "w"); /* used twice */
    onnx_op(&g, "Add", "s x", "y");
    add_parts(&g, 3, 1, 3, 1);
    expect_seen(&g, "q", VC_DTYPE_I8, false);
    onnx_op(&g, "DequantizeLinear", "q s z", "w"); /* an output by itself */
    onnx_info(&g, 12, "q");
    add_parts(&g, 3, 1, 3, 1);
    expect_seen(&g, "q", VC_DTYPE_I8, false);
    onnx_op(&g, "DequantizeLinear", "q s z", "w\xff"); /* a name that no tensor can have */
    add_parts(&g, 3, 1, 3, 1);
    expect_seen(&g, "q", VC_DTYPE_I8, false);
    onnx_op(&g, "DequantizeLinear", "q s missing", "w");
    add_parts(&g, 3, 1, 3, 1);
    expect_seen(&g, "q", VC_DTYPE_I8, false);
    onnx_op(&g, "DequantizeLinear", "q s z", "w");
    onnx_op(&g, "Relu", "x", "w"); /* made twice */
    add_parts(&g, 3, 1, 3, 1);
    expect_seen(&g, "q", VC_DTYPE_I8, false);
}

/* q [4, 6] -> Cast -> Mul with s, as a graph before DequantizeLinear has it; dims of s, 0 ends them. */
static void add_product(struct onnx_builder *g, const char *factors, unsigned scale_type, const uint64_t *scale_dims)
{
    const uint64_t dims[] = {4, 6};
    unsigned n_dims = 0;
    uint64_t n = 1;

    while (scale_dims[n_dims] != 0) {
        n *= scale_dims[n_dims++];
    }
    g->opset = g->opset == 0 ? 9 : g->opset;
    onnx_op_with(g, "Cast", "q", "c", "to", 1);
    onnx_op(g, "Mul", factors, "w");
    onnx_raw(g, "q", 3, 2, dims, NULL, 24);
    onnx_raw(g, "s", scale_type, n_dims, scale_dims, NULL, (size_t)n * (scale_type == 1 ? 4 : 2));
    onnx_raw(g, "z", 3, n_dims, scale_dims, NULL, (size_t)n);
}

/* The axis that the scales of w run along; VC_MAX_DIMS: there is one scale. */
static void expect_product(struct onnx_builder *g, bool symmetric, unsigned axis)
{
    struct vc_ctx *ctx = test_ctx();
    const struct vc_tensor *t;
    struct open_model o;

    open_bytes(ctx, onnx_finish(g), &o);
    t = get(&o, "w");
    assert_non_null(t->quant);
    assert_int_equal(t->quant->symmetric, symmetric);
    assert_int_equal(t->quant->granularity, axis == VC_MAX_DIMS ? VC_GRANULARITY_TENSOR : VC_GRANULARITY_CHANNEL);
    assert_true(axis == VC_MAX_DIMS || t->quant->axis == axis);
    assert_int_equal(vc_model_tensor(o.model, vc_quant_scale(t->quant))->n_dims, axis == VC_MAX_DIMS ? 1 : 2);
    close_model(&o);
    test_ctx_done(ctx);
}

static void test_products(void **state)
{
    static const uint64_t one[] = {0}, ones[] = {1, 1, 0}, rows[] = {4, 1, 0}, cols[] = {1, 6, 0}, last[] = {6, 0};
    struct onnx_builder g = {.ir = 0};

    (void)state;
    add_product(&g, "c s", 1, one);
    expect_product(&g, true, VC_MAX_DIMS);
    add_product(&g, "s c", 1, ones);
    expect_product(&g, true, VC_MAX_DIMS);
    g.opset = 7;
    add_product(&g, "c s", 1, rows);
    expect_product(&g, true, 0);
    g.opset = 17;
    add_product(&g, "s c", 1, cols);
    expect_product(&g, true, 1);
    add_product(&g, "c s", 1, last);
    expect_product(&g, true, 1);
    add_product(&g, "d s", 1, rows);
    onnx_op_with(&g, "Cast", "z", "y", "to", 1);
    onnx_op(&g, "Sub", "c y", "d");
    expect_product(&g, false, 0);
    add_product(&g, "c s", 1, rows); /* weights of f16 */
    onnx_op_with(&g, "Cast", "w", "half", "to", 10);
    expect_seen(&g, "half", VC_DTYPE_I8, true);
}

static void test_no_products(void **state)
{
    static const uint64_t rows[] = {4, 1, 0}, all[] = {4, 6, 0}, more[] = {1, 4, 1, 0}, other[] = {1, 4, 0};
    static const struct {
        const char *factors, *op, *inputs, *output;
        unsigned type;
        const uint64_t *dims;
    } cases[] = {{"c s", NULL, NULL, NULL, 1, all},   /* a scale for every code */
                 {"c s", NULL, NULL, NULL, 1, more},  /* the product has three dimensions */
                 {"c s", NULL, NULL, NULL, 1, other}, /* scales that do not fit */
                 {"c s", NULL, NULL, NULL, 10, rows}, /* f16 and f32 */
                 {"c x", NULL, NULL, NULL, 1, rows},  /* scales from elsewhere */
                 {"c s", "Relu", "c", "y", 1, rows},  /* the codes as floats are used as well */
                 {"c s", "Relu", "q", "y", 1, rows},  /* the codes are used as well */
                 {"d s", "Sub", "z c", "d", 1, rows}, /* zero point less codes */
                 {"d s", "Sub", "c z", "d", 1, rows}, /* a zero point that is no float */
                 {"d s", "Sub", "c x", "d", 1, rows}, /* ... that is no initializer */
                 {"c s", "Relu", "x", "c", 1, rows}}; /* made twice */
    struct onnx_builder g = {.ir = 0};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].op != NULL) {
            onnx_op(&g, cases[i].op, cases[i].inputs, cases[i].output);
        }
        add_product(&g, cases[i].factors, cases[i].type, cases[i].dims);
        expect_seen(&g, "q", VC_DTYPE_I8, false);
    }
    g.opset = 6; /* shapes are not spread by themselves there */
    add_product(&g, "c s", 1, rows);
    expect_seen(&g, "q", VC_DTYPE_I8, false);
    add_product(&g, "c s", 1, rows);
    onnx_info(&g, 12, "c");
    expect_seen(&g, "q", VC_DTYPE_I8, false);
    add_product(&g, "c s", 1, rows); /* a tensor that has the name already */
    onnx_weights(&g, "w", 4, 6);
    expect_seen(&g, "q", VC_DTYPE_I8, false);
}

/* Numbers in Constant nodes of the main graph are tensors; nothing else in nodes is. */
static void test_constants(void **state)
{
    static const float values[6] = {1, -2, 3, -4, 5, -6};
    struct onnx_builder g = {.ir = 0};
    struct vc_ctx *ctx = test_ctx();
    struct open_model o;
    float read[6];

    (void)state;
    onnx_constant(&g, "flat", 1, 1, two_by_three, values, 8);
    onnx_constant(&g, "ints", 6, 2, two_by_three, values, 24);
    onnx_constant(&g, "w\xff", 1, 2, two_by_three, values, 24);
    onnx_constant(&g, "taken", 1, 2, two_by_three, values, 24);
    onnx_constant(&g, "w", 1, 2, two_by_three, values, 24);
    onnx_constant(&g, "half", 10, 2, two_by_three, values, 12);
    onnx_op_with(&g, "Cast", "half", "wide", "to", 1);
    onnx_op(&g, "MatMul", "x w", "y");
    open_bytes(ctx, onnx_finish(&g), &o);
    assert_int_equal(vc_model_facts(o.model)->n_tensors, 5);
    assert_int_equal(get(&o, "taken")->n_elems, 6);
    assert_int_equal(get(&o, "flat")->n_dims, 1);
    assert_int_equal(get(&o, "ints")->dtype, VC_DTYPE_I32);
    assert_int_equal(get(&o, "w")->channel_axis, 1);
    assert_int_equal(get(&o, "wide")->dtype, VC_DTYPE_F16);
    assert_int_equal(vc_model_read(ctx, o.model, vc_model_find(o.model, "w"), 0, 6, read, sizeof read), VC_OK);
    assert_memory_equal(read, values, sizeof read);
    assert_int_equal(walk_model(ctx, o.model), VC_OK);
    close_model(&o);
    onnx_constant(&g, "w", 1, 2, two_by_three, values, 24);
    onnx_weights(&g, "w", 2, 3);
    {
        struct bytes b = onnx_finish(&g);

        expect_bad("twice", b.p, b.n, "tensor 'w' occurs twice");
        bytes_release(&b);
    }
    onnx_constant(&g, "w", 1, 2, two_by_three, values, 20);
    {
        struct bytes b = onnx_finish(&g);

        expect_bad("short", b.p, b.n, "w: has 20 bytes of values, but its shape and type need 24");
        bytes_release(&b);
    }
    test_ctx_done(ctx);
}

/* What is no matrix of weights says what it is. */
static void test_kept_as(void **state)
{
    static const struct {
        const char *op, *inputs, *what;
    } cases[] = {{"LSTM", "x x x w", "bias"},
                 {"GRU", "x x x x s w", "initial state"},
                 {"LSTM", "x x x x s x x w", "peephole weights"},
                 {"Gemm", "x x w", "bias"},
                 {"Gemm", "x w x", NULL},
                 {"LSTM", "x w x x", NULL},
                 {"Add", "x w", "table that Add reads"},
                 {"Gather", "x w", "index or size"},
                 {"Gather", "w x", NULL},
                 {"LayerNormalization", "x w", "normalization"},
                 {"Shape", "w", NULL},
                 {"Unheard", "x w", "table that Unheard reads"},
                 {"QLinearConv", "x x x w", "part of an operator on codes"}};
    size_t i;

    (void)state;
    for (i = 0; i <= sizeof cases / sizeof cases[0]; i++) {
        bool twice = i == sizeof cases / sizeof cases[0]; /* a bias that is a factor, too */
        const char *what = twice ? "bias" : cases[i].what;
        struct onnx_builder g = {.ir = 0};
        struct vc_ctx *ctx = test_ctx();
        struct open_model o;

        onnx_op(&g, cases[twice ? 0 : i].op, cases[twice ? 0 : i].inputs, "y");
        if (twice) {
            onnx_op(&g, "MatMul", "y w", "z");
        }
        onnx_weights(&g, "w", 4, 6);
        open_bytes(ctx, onnx_finish(&g), &o);
        if (what == NULL) {
            assert_null(get(&o, "w")->kept_as);
        } else {
            assert_string_equal(get(&o, "w")->kept_as, what);
        }
        close_model(&o);
        test_ctx_done(ctx);
    }
}

/* ---- bad files ---- */

/* One initializer, whose fields are given. */
static void refuse_tensor(struct bytes *t, const char *needle)
{
    struct onnx_builder g = {.ir = 0};
    struct bytes b;

    pb_message(&g.graph, 5, t);
    b = onnx_finish(&g);
    expect_bad(needle, b.p, b.n, needle);
    bytes_release(&b);
}

static struct bytes head(unsigned type)
{
    return onnx_tensor_header("w", type, 2, two_by_three);
}

static void test_bad_tensors(void **state)
{
    struct bytes t;
    uint64_t dims[65];
    unsigned i;

    (void)state;
    t = head(1);
    pb_data(&t, 9, "123", 3);
    refuse_tensor(&t, "w: has 3 bytes of values, but its shape and type need 24");
    t = head(1);
    refuse_tensor(&t, "w: has 0 bytes of values");
    t = head(0);
    refuse_tensor(&t, "w: has data_type 0");
    t = head(27);
    refuse_tensor(&t, "w: has data_type 27, which is not known");
    t = head(1);
    pb_int(&t, 2, 1);
    refuse_tensor(&t, "w: has data_type twice");
    t = head(1);
    pb_text(&t, 8, "v");
    refuse_tensor(&t, "w: has name twice");
    t = head(1);
    pb_data(&t, 9, "", 0);
    pb_data(&t, 9, "", 0);
    refuse_tensor(&t, "w: has raw_data twice");
    t = head(1);
    pb_data(&t, 4, "1234", 4);
    pb_data(&t, 9, "1234", 4);
    refuse_tensor(&t, "w: has values in raw_data and in field 4");
    t = head(1);
    pb_data(&t, 4, "1234", 4);
    pb_data(&t, 5, "1", 1);
    refuse_tensor(&t, "w: has values in two fields, 4 and 5");
    t = head(3);
    pb_data(&t, 7, "123456", 6);
    refuse_tensor(&t, "w: is INT8, but has its values in field 7, expected 5");
    t = head(3);
    pb_data(&t, 5, "\1\2\3\4\5\x80\1", 7);
    refuse_tensor(&t, "w: is INT8, which cannot be the value 128");
    t = head(9);
    pb_data(&t, 5, "\1\1\1\1\1\2", 6);
    refuse_tensor(&t, "w: is BOOL, which cannot be the value 2");
    t = head(3);
    pb_data(&t, 5, "\1\2\3\4\5", 5);
    refuse_tensor(&t, "w: has values for 5 bytes, but its shape and type need 6");
    t = head(3);
    pb_data(&t, 5, "\1\2\3\4\5\6\7", 7);
    refuse_tensor(&t, "w: has more values than the 6 bytes");
    t = head(1);
    pb_data(&t, 4, "12345678901234567890123", 23);
    refuse_tensor(&t, "w: its values end inside a number");
    t = head(1);
    pb_int(&t, 4, 1);
    refuse_tensor(&t, "w: its values (at offset");
    t = head(1);
    pb_int(&t, 3, 1);
    refuse_tensor(&t, "w: is a segment of a tensor");
    t = head(1);
    pb_int(&t, 14, 2);
    refuse_tensor(&t, "w: has data_location 2");
    t = head(1);
    pb_int(&t, 14, 1);
    refuse_tensor(&t, "w: has its values in another file, but does not say in which");
    t = head(1);
    pb_int(&t, 1, UINT64_MAX);
    refuse_tensor(&t, "w: dimension 2 is -1");
    t = head(1);
    pb_int(&t, 1, INT64_MAX);
    refuse_tensor(&t, "w: its shape has more than 2^64 elements");
    t = head(1);
    pb_int(&t, 1, 0);
    pb_int(&t, 1, INT64_MAX);
    refuse_tensor(&t, "w: its shape has more than 2^64 elements");
    t = head(1);
    pb_int(&t, 1, (uint64_t)1 << 60);
    refuse_tensor(&t, "w: its shape needs more than 2^63 bytes");
    for (i = 0; i < 65; i++) {
        dims[i] = 1;
    }
    t = onnx_tensor_header("w", 1, 65, dims);
    refuse_tensor(&t, "w: has more than 64 dimensions");
    t = onnx_tensor_header("", 1, 0, dims);
    pb_data(&t, 9, "1234", 4);
    refuse_tensor(&t, "initializer 0 (at offset 13) has no name");
    t = onnx_tensor_header("\xff", 1, 0, dims);
    refuse_tensor(&t, "its name is no UTF-8");
    t = (struct bytes){NULL, 0, 0};
    pb_data(&t, 8, "a\0b", 3);
    refuse_tensor(&t, "has a zero byte in it");
    t = (struct bytes){NULL, 0, 0};
    bytes_add(&t, "\x42\5w", 3);
    refuse_tensor(&t, "a field of 5 bytes starts where only 1 are left");
}

static void refuse_file(struct onnx_builder *g, const char *needle)
{
    struct bytes b = onnx_finish(g);

    expect_bad(needle, b.p, b.n, needle);
    bytes_release(&b);
}

static void test_bad_graphs(void **state)
{
    struct onnx_builder g = {.ir = 0};
    struct bytes b = {NULL, 0, 0};
    unsigned i;

    (void)state;
    onnx_weights(&g, "w", 1, 1);
    onnx_weights(&g, "w", 1, 1);
    refuse_file(&g, "tensor 'w' occurs twice");
    pb_data(&g.model, 7, "", 0);
    refuse_file(&g, "has two graphs");
    pb_int(&g.graph, 5, 1);
    refuse_file(&g, "an initializer (at offset");
    pb_int(&g.graph, 1, 1);
    refuse_file(&g, "a node (at offset");
    pb_data(&g.graph, 1, "\x0a\1\0", 3);
    refuse_file(&g, "the input of a node (at offset");
    pb_data(&g.model, 8, "\x12\1x", 3);
    refuse_file(&g, "the version of its opset_import (at offset");
    pb_int(&b, 1, 8);
    pb_text(&b, 2, "nobody");
    pb_data(&b, 14, "", 0);
    expect_bad("no graph", b.p, b.n, "is no checkpoint that can be read");
    bytes_release(&b);
    b = (struct bytes){NULL, 0, 0};
    pb_int(&b, 1, 8);
    { /* longer than what is looked at to find the format */
        struct bytes note = {NULL, 0, 0};

        bytes_fill(&note, 'n', 1000);
        pb_message(&b, 6, &note);
    }
    expect_bad("no graph", b.p, b.n, "is taken for an ONNX file, but has no graph");
    bytes_release(&b);
    /* Graphs within nodes within graphs. */
    for (i = 0; i < 33; i++) {
        struct bytes attribute = {NULL, 0, 0};
        struct bytes node = {NULL, 0, 0};

        pb_message(&attribute, 6, &g.graph);
        pb_message(&node, 5, &attribute);
        pb_message(&g.graph, 1, &node);
    }
    refuse_file(&g, "more than 32 graphs inside each other");
}

static void test_cuts_and_flips(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = sample();
    size_t i;
    unsigned bit;

    (void)state;
    expect_good("the sample", b.p, b.n);
    for (i = 1; i < b.n; i++) {
        expect_calm(ctx, b.p, i);
    }
    for (i = 0; i < b.n; i++) {
        for (bit = 0; bit < 8; bit++) {
            b.p[i] ^= (unsigned char)(1u << bit);
            expect_calm(ctx, b.p, b.n);
            b.p[i] ^= (unsigned char)(1u << bit);
        }
    }
    bytes_release(&b);
    test_ctx_done(ctx);
}

static void test_allocations(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = sample();
    enum vc_status status = VC_E_NOMEM;
    uint64_t n;

    (void)state;
    for (n = 1; status != VC_OK; n++) {
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = walk_bytes(ctx, b.p, b.n, NULL);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK || status == VC_E_NOMEM);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
    }
    assert_true(n > 25);
    bytes_release(&b);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample),      cmocka_unit_test(test_numbers),     cmocka_unit_test(test_loose_numbers),
        cmocka_unit_test(test_patterns),    cmocka_unit_test(test_no_patterns), cmocka_unit_test(test_products),
        cmocka_unit_test(test_no_products), cmocka_unit_test(test_constants),   cmocka_unit_test(test_kept_as),
        cmocka_unit_test(test_bad_tensors), cmocka_unit_test(test_bad_graphs),  cmocka_unit_test(test_cuts_and_flips),
        cmocka_unit_test(test_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
