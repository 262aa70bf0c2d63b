/* test_graph_run.c - vc_graph_run: parameters of every storage, sliced and transposed; inputs of every type; names and
 * shapes that do not fit. */
#include "graph/base/graph_state.h"
#include "support.h"

#include "core/model/memory_model.h"
#include "graph/builder/builder.h"

static struct vc_ctx *ctx;
static struct vc_graph *graph;
static struct vc_model *model;

/* Two matrices [2, 3], and each element says where it is: 100 * matrix + 10 * row + column. */
static const float cube_data[12] = {0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112};
static const uint64_t cube_shape[3] = {2, 2, 3};
static const uint16_t half_data[2] = {0x3c00, 0xc000}; /* 1, -2 */
static const uint64_t pair_shape[1] = {2};
static const double exact_data[2] = {1.0 / 3, 1e-300};
static const int32_t whole_data[2] = {1, 2};

/* What a run gave. */
struct taken {
    double x[16];
    enum vc_dtype dtype;
    size_t n;
    uint64_t shape[4];
    unsigned n_arrays;
    enum vc_status answer;
};

static int begin(void **state)
{
    const struct vc_memory_tensor tensors[] = {
        {.name = "cube", .dtype = VC_DTYPE_F32, .n_dims = 3, .shape = cube_shape, .data = cube_data},
        {.name = "half", .dtype = VC_DTYPE_F16, .n_dims = 1, .shape = pair_shape, .data = half_data},
        {.name = "exact", .dtype = VC_DTYPE_F64, .n_dims = 1, .shape = pair_shape, .data = exact_data},
        {.name = "whole", .dtype = VC_DTYPE_I32, .n_dims = 1, .shape = pair_shape, .data = whole_data},
    };

    (void)state;
    ctx = test_ctx();
    assert_int_equal(vc_memory_model_create(ctx, tensors, 4, &model), VC_OK);
    assert_int_equal(vc_graph_create(ctx, &graph), VC_OK);
    return 0;
}

static int end(void **state)
{
    (void)state;
    vc_graph_close(graph);
    vc_model_close(model);
    vc_ctx_free(ctx);
    return 0;
}

static enum vc_status take(void *user, const struct vc_graph_array *array)
{
    struct taken *t = user;

    t->dtype = array->dtype;
    t->n = (size_t)array->n_elems;
    t->n_arrays++;
    memcpy(t->shape, array->shape, array->n_dims * sizeof *t->shape);
    for (size_t i = 0; i < array->n_elems; i++) {
        t->x[i] = array->dtype == VC_DTYPE_F32   ? (double)((const float *)array->data)[i]
                  : array->dtype == VC_DTYPE_F64 ? ((const double *)array->data)[i]
                                                 : (double)((const int64_t *)array->data)[i];
    }
    return t->answer;
}

static enum vc_status run(const struct vc_graph_array *inputs, size_t n, enum vc_graph_precision precision,
                          const char *value, struct taken *taken)
{
    struct vc_graph_run_options options;

    vc_graph_run_defaults(&options);
    options.precision = precision;
    options.n_values = value == NULL ? 0 : 1;
    options.values = &value;
    options.take = take;
    options.user = taken;
    return vc_graph_run(ctx, graph, model, inputs, n, &options);
}

static void expect(const struct taken *t, const double *x, size_t n)
{
    assert_int_equal(t->n, n);
    for (size_t i = 0; i < n; i++) {
        assert_true(t->x[i] == x[i]);
    }
}

/* A graph whose output is the parameter itself. */
static void param_of(const char *tensor, unsigned n_dims, const uint64_t *shape, const struct vc_param_spec *how)
{
    struct vc_param_spec spec = *how;

    spec.tensor = tensor;
    spec.index = VC_NO_TENSOR; /* the name finds it */
    spec.n_dims = n_dims;
    spec.shape = shape;
    vc_graph_add_output(graph, vc_graph_add_param(graph, "p", &spec));
    assert_int_equal(vc_graph_finish(graph, &graph), VC_OK);
}

/* Slices of every axis, each as it lies and with the last two axes swapped. */
static void slices_and_transposes(void **state)
{
    static const struct {
        struct vc_param_spec spec;
        size_t n;
        double x[12];
    } cases[] = {
        {{.transposed = true}, 12, {0, 10, 1, 11, 2, 12, 100, 110, 101, 111, 102, 112}},
        {{.sliced = true, .axis = 0, .first = 1, .count = 1}, 6, {100, 101, 102, 110, 111, 112}},
        {{.sliced = true, .axis = 1, .first = 0, .count = 1}, 6, {0, 1, 2, 100, 101, 102}},
        {{.sliced = true, .axis = 2, .first = 1, .count = 2}, 8, {1, 2, 11, 12, 101, 102, 111, 112}},
        {{.sliced = true, .axis = 0, .first = 1, .count = 1, .transposed = true}, 6, {100, 110, 101, 111, 102, 112}},
        {{.sliced = true, .axis = 1, .first = 1, .count = 1, .transposed = true}, 6, {10, 11, 12, 110, 111, 112}},
        {{.sliced = true, .axis = 2, .first = 0, .count = 2, .transposed = true},
         8,
         {0, 10, 1, 11, 100, 110, 101, 111}},
    };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct taken t = {0};

        param_of("cube", 3, cube_shape, &cases[k].spec);
        assert_int_equal(run(NULL, 0, VC_GRAPH_F32, NULL, &t), VC_OK);
        assert_int_equal(t.dtype, VC_DTYPE_F32);
        expect(&t, cases[k].x, cases[k].n);
        assert_int_equal(run(NULL, 0, VC_GRAPH_F64, NULL, &t), VC_OK);
        assert_int_equal(t.dtype, VC_DTYPE_F64);
        expect(&t, cases[k].x, cases[k].n);
        vc_graph_close(graph);
        assert_int_equal(vc_graph_create(ctx, &graph), VC_OK);
    }
}

/* f16 exactly, f64 as f64 in a run of that precision. */
static void types_of_parameters(void **state)
{
    const struct vc_param_spec whole = {.index = 0};
    const double halves[2] = {1, -2};
    const double rounded[2] = {(float)(1.0 / 3), 0};
    struct taken t = {0};

    (void)state;
    param_of("half", 1, pair_shape, &whole);
    assert_int_equal(run(NULL, 0, VC_GRAPH_F64, NULL, &t), VC_OK);
    expect(&t, halves, 2);
    vc_graph_close(graph);
    assert_int_equal(vc_graph_create(ctx, &graph), VC_OK);
    param_of("exact", 1, pair_shape, &whole);
    assert_int_equal(run(NULL, 0, VC_GRAPH_F64, NULL, &t), VC_OK);
    expect(&t, exact_data, 2);
    assert_int_equal(run(NULL, 0, VC_GRAPH_F32, NULL, &t), VC_OK);
    expect(&t, rounded, 2);
}

static void tensors_that_do_not_fit(void **state)
{
    static const struct {
        const char *tensor;
        uint64_t length;
        enum vc_status status;
        const char *words;
    } cases[] = {
        {"none", 2, VC_E_FORMAT, "there is no tensor 'none'"},
        {"half", 3, VC_E_FORMAT, "half has another shape than in the graph"},
        {"whole", 2, VC_E_UNSUPPORTED, "whole: elements of type i32 are no floats"},
    };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct taken t = {0};

        param_of(cases[k].tensor, 1, &cases[k].length, &(struct vc_param_spec){.index = 0});
        assert_int_equal(run(NULL, 0, VC_GRAPH_F32, NULL, &t), cases[k].status);
        expect_says(ctx, cases[k].words);
        vc_graph_close(graph);
        assert_int_equal(vc_graph_create(ctx, &graph), VC_OK);
    }
}

/* y = x + x of floats, n + n of integers. */
static void build_sums(void)
{
    struct vc_dim shape = vc_dim_symbol(&graph->dims, "length");
    uint32_t x = vc_graph_add_input(graph, "x", VC_DTYPE_F32, &shape, 1);
    uint32_t n = vc_graph_add_input(graph, "n", VC_DTYPE_I64, &shape, 1);

    vc_graph_add_output(graph, vc_graph_add(graph, "Add", "y", (uint32_t[]){x, x}, 2));
    vc_graph_add_output(graph, vc_graph_add(graph, "Add", "m", (uint32_t[]){n, n}, 2));
    assert_int_equal(vc_graph_finish(graph, &graph), VC_OK);
}

static void inputs_of_all_types(void **state)
{
    static const union {
        uint16_t u16[2];
        int16_t i16[2];
        uint8_t u8[2];
        int8_t i8[2];
        uint32_t u32[2];
        int32_t i32[2];
        int64_t i64[2];
        double f64[2];
    } data[] = {
        {.u16 = {0x3c00, 0xc000}}, {.u16 = {0x3f80, 0xc000}}, {.f64 = {1, -2}},    {.u8 = {7, 0}},
        {.u8 = {7, 200}},          {.i8 = {7, -7}},           {.u16 = {7, 60000}}, {.i16 = {7, -7}},
        {.u32 = {7, 4000000000}},  {.i32 = {7, -7}},          {.i64 = {7, -7}},
    };
    static const struct {
        enum vc_dtype dtype;
        double x[2];
    } wanted[] = {
        {VC_DTYPE_F16, {2, -4}},   {VC_DTYPE_BF16, {2, -4}},  {VC_DTYPE_F64, {2, -4}},      {VC_DTYPE_BOOL, {2, 0}},
        {VC_DTYPE_U8, {14, 400}},  {VC_DTYPE_I8, {14, -14}},  {VC_DTYPE_U16, {14, 120000}}, {VC_DTYPE_I16, {14, -14}},
        {VC_DTYPE_U32, {14, 8e9}}, {VC_DTYPE_I32, {14, -14}}, {VC_DTYPE_I64, {14, -14}},
    };

    (void)state;
    build_sums();
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
        bool is_real = wanted[k].dtype >= VC_DTYPE_F16;
        struct vc_graph_array array = {.name = is_real ? "x" : "n",
                                       .dtype = wanted[k].dtype,
                                       .n_dims = 1,
                                       .shape = pair_shape,
                                       .n_elems = 2,
                                       .data = &data[k]};
        struct taken t = {0};

        assert_int_equal(run(&array, 1, VC_GRAPH_F64, is_real ? "y" : "m", &t), VC_OK);
        assert_int_equal(t.dtype, is_real ? VC_DTYPE_F64 : VC_DTYPE_I64);
        expect(&t, wanted[k].x, 2);
    }
}

static void inputs_that_do_not_fit(void **state)
{
    static const float x[2] = {1, 2};
    struct vc_graph_array array = {
        .name = "n", .dtype = VC_DTYPE_F32, .n_dims = 1, .shape = pair_shape, .n_elems = 2, .data = x};
    struct taken t = {.answer = VC_E_IO};

    (void)state;
    build_sums();
    assert_int_equal(run(&array, 1, VC_GRAPH_F32, "m", &t), VC_E_ARGUMENT);
    expect_says(ctx, "the input 'n' is of type f32 and has 1 dimensions; the model takes integers");
    assert_int_equal(run(&array, 1, VC_GRAPH_F32, "y", &t), VC_E_ARGUMENT);
    expect_says(ctx, "the input 'x' is missing");
    assert_int_equal(run(&array, 1, VC_GRAPH_F32, "z", &t), VC_E_ARGUMENT);
    expect_says(ctx, "the graph has no value 'z'");
    array.name = "x";
    assert_int_equal(run(&array, 1, VC_GRAPH_F32, "y", &t), VC_E_IO); /* what take returns */
    expect_says(ctx, "the value 'y' was not taken");
    assert_int_equal(t.n_arrays, 1);
}

/* Elements of inputs that are left out; their sizes are those of the inputs that are there. */
static void inputs_left_out(void **state)
{
    static const float x[2] = {1, 2};
    static const int64_t mask[2] = {0, 5};
    static const uint64_t three[1] = {3};
    struct vc_graph_array arrays[2] = {
        {.name = "x", .dtype = VC_DTYPE_F32, .n_dims = 1, .shape = pair_shape, .n_elems = 2, .data = x},
        {.name = "mask", .dtype = VC_DTYPE_I64, .n_dims = 1, .shape = pair_shape, .n_elems = 2, .data = mask}};
    struct vc_dim shape = vc_dim_symbol(&graph->dims, "length");
    struct vc_dim other = vc_dim_symbol(&graph->dims, "other");
    uint32_t mask_input = vc_graph_add_option(graph, "mask", VC_DTYPE_I64, &shape, 1, -3);
    uint32_t shift_input = vc_graph_add_option(graph, "shift", VC_DTYPE_F32, &shape, 1, 2);
    uint32_t alone_input = vc_graph_add_option(graph, "alone", VC_DTYPE_I64, &other, 1, 0);
    uint32_t x_input = vc_graph_add_input(graph, "x", VC_DTYPE_F32, &shape, 1);
    struct taken t = {0};

    (void)state;
    vc_graph_add_output(graph, vc_graph_add(graph, "Add", "y", (uint32_t[]){x_input, shift_input}, 2));
    vc_graph_add_output(graph, vc_graph_add(graph, "Add", "m", (uint32_t[]){mask_input, mask_input}, 2));
    vc_graph_add_output(graph, vc_graph_add(graph, "Neg", "a", (uint32_t[]){alone_input}, 1));
    assert_int_equal(vc_graph_finish(graph, &graph), VC_OK);
    assert_true(vc_graph_value(graph, vc_graph_find(graph, "mask"))->optional);
    assert_false(vc_graph_value(graph, vc_graph_find(graph, "x"))->optional);
    assert_int_equal(run(arrays, 1, VC_GRAPH_F32, "y", &t), VC_OK);
    expect(&t, (double[]){3, 4}, 2);
    assert_int_equal(run(arrays, 1, VC_GRAPH_F64, "y", &t), VC_OK);
    expect(&t, (double[]){3, 4}, 2);
    assert_int_equal(run(arrays + 1, 1, VC_GRAPH_F32, "m", &t), VC_OK);
    expect(&t, (double[]){0, 10}, 2);
    assert_int_equal(run(arrays, 1, VC_GRAPH_F32, "m", &t), VC_E_ARGUMENT); /* x is not needed, and not looked at */
    expect_says(ctx, "the input 'mask' is missing: no other input tells its size");
    assert_int_equal(run(arrays, 2, VC_GRAPH_F32, "a", &t), VC_E_ARGUMENT);
    expect_says(ctx, "the input 'alone' is missing: no other input tells its size");
    arrays[1].name = "shift";
    arrays[1].dtype = VC_DTYPE_F32;
    arrays[1].shape = three;
    arrays[1].n_elems = 3;
    assert_int_equal(run(arrays, 2, VC_GRAPH_F32, "y", &t), VC_E_ARGUMENT);
    expect_says(ctx, "has size 2 in dimension 0; the model takes length");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(inputs_left_out, begin, end),
        cmocka_unit_test_setup_teardown(slices_and_transposes, begin, end),
        cmocka_unit_test_setup_teardown(types_of_parameters, begin, end),
        cmocka_unit_test_setup_teardown(tensors_that_do_not_fit, begin, end),
        cmocka_unit_test_setup_teardown(inputs_of_all_types, begin, end),
        cmocka_unit_test_setup_teardown(inputs_that_do_not_fit, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
