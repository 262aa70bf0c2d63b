/* test_couple_read.c - files of couplings: what their lines mean, and all that can be wrong with them, at once. */
#include "support.h"

#include <stdlib.h>

#include "core/model/memory_model.h"
#include "scratch.h"

static struct vc_ctx *ctx;
static struct vc_model *model;
static const float nothing[1];

#define SHAPE(...)              \
    .shape = (const uint64_t[]) \
    {                           \
        __VA_ARGS__             \
    }
#define F32 .dtype = VC_DTYPE_F32, .data = nothing
static const struct vc_memory_tensor tensors[] = {
    {.name = "fc1.weight", .n_dims = 2, SHAPE(12, 8), F32},
    {.name = "fc1.bias", .n_dims = 1, SHAPE(12), F32},
    {.name = "fc2.weight", .n_dims = 2, SHAPE(4, 12), F32},
    {.name = "bn.weight", .n_dims = 1, SHAPE(12), F32},
    {.name = "bn.bias", .n_dims = 1, SHAPE(12), F32},
    {.name = "bn.count", .n_dims = 0, SHAPE(1), F32},
    {.name = "flat.weight", .n_dims = 2, SHAPE(5, 588), F32},
    {.name = "grouped.weight", .n_dims = 4, SHAPE(8, 3, 3, 3), F32},
    {.name = "qkv.weight", .n_dims = 2, SHAPE(48, 16), F32},
    {.name = "o.weight", .n_dims = 2, SHAPE(16, 16), F32},
    {.name = "odd name=\"1\" #2[*]", .n_dims = 1, SHAPE(12), F32},
    {.name = "onnx::MatMul_105", .n_dims = 2, SHAPE(12, 12), F32},
    {.name = "gate.weight", .n_dims = 2, SHAPE(2, 12), F32},
    {.name = "experts.0.w", .n_dims = 2, SHAPE(12, 12), F32},
    {.name = "experts.1.w", .n_dims = 2, SHAPE(12, 12), F32},
};

static int begin(void **state)
{
    (void)state;
    ctx = test_ctx();
    assert_int_equal(vc_memory_model_create(ctx, tensors, sizeof tensors / sizeof *tensors, &model), VC_OK);
    return 0;
}

static int end(void **state)
{
    (void)state;
    vc_model_close(model);
    empty_folder();
    test_ctx_done(ctx);
    return 0;
}

static enum vc_status read_text(const char *text, struct vc_couplings **out)
{
    return vc_couplings_read(ctx, save_text("couplings.txt", text), model, out);
}

static struct vc_couplings *couplings_of(const char *text)
{
    struct vc_couplings *couplings = NULL;

    if (read_text(text, &couplings) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    return couplings;
}

/* What is read prints as `wanted`, and that as itself. */
static void expect_prints(const char *text, const char *wanted)
{
    for (int k = 0; k < 2; k++) {
        struct vc_couplings *couplings = couplings_of(k == 0 ? text : wanted);
        char *printed = NULL;

        assert_int_equal(vc_couplings_print(ctx, couplings, &printed), VC_OK);
        assert_string_equal(printed, wanted);
        vc_text_free(printed);
        vc_result_free(couplings);
    }
}

static void a_group(void **state)
{
    struct vc_couplings *couplings;
    const struct vc_coupling *group;

    (void)state;
    couplings =
        couplings_of("\n  # the first layer\r\nfc1.weight:0=fc1.bias:0  =\tflat.weight:1*49 # and what reads it\n");
    assert_int_equal(vc_couplings_count(couplings), 1);
    group = vc_coupling(couplings, 0);
    assert_string_equal(group->name, "fc1.weight:0");
    assert_int_equal(group->unit, VC_UNIT_NEURONS);
    assert_int_equal(group->n_units, 12);
    assert_null(group->fixed);
    assert_int_equal(group->n_members, 3);
    assert_true(group->members[0].makes);
    assert_false(group->members[1].makes);
    assert_int_equal(group->members[1].index, 1);
    assert_int_equal(group->members[2].axis, 1);
    assert_int_equal(group->members[2].block, 49);
    assert_int_equal(group->members[2].repeat, 1);
    assert_null(vc_coupling(couplings, 1));
    vc_result_free(couplings);
}

/* Units u, u + 3, ... of the twelve share an input channel of the convolution of four groups. */
static void shares(void **state)
{
    struct vc_couplings *couplings;
    const struct vc_coupling *group;

    (void)state;
    couplings = couplings_of("fc1.weight:0 = grouped.weight:1/4");
    group = vc_coupling(couplings, 0);
    assert_int_equal(group->n_units, 3);
    assert_int_equal(group->members[0].repeat, 4);
    assert_int_equal(group->members[1].repeat, 1);
    vc_result_free(couplings);
    expect_prints("3: fc1.weight:0 = fc2.weight:1", "3: fc1.weight:0 = fc2.weight:1\n");
    expect_prints("3*4: qkv.weight:0+0 = qkv.weight:0+12", "3*4: qkv.weight:0+0 = qkv.weight:0+12\n");
    expect_prints("6: qkv.weight:0 = fc1.weight:0/4", "6: qkv.weight:0 = fc1.weight:0/4\n");
}

static void parts_of_an_axis(void **state)
{
    (void)state;
    expect_prints("heads: qkv.weight:0*4+0 = qkv.weight:0*4+16 = qkv.weight:0*4+32 = o.weight:1*4",
                  "heads: qkv.weight:0*4+0 = qkv.weight:0*4+16 = qkv.weight:0*4+32 = o.weight:1*4\n");
    expect_prints("heads 4: qkv.weight:0*4+16 = qkv.weight:0*4+0", "heads 4: qkv.weight:0*4+16 = qkv.weight:0*4+0\n");
    expect_prints("neurons 12: fc1.weight:0", "fc1.weight:0\n");
    /* heads, and the elements of a head */
    expect_prints("heads: o.weight:1*4\n4: o.weight:1", "heads: o.weight:1*4\n4: o.weight:1\n");
}

static void names(void **state)
{
    (void)state;
    expect_prints("\"odd name=\\\"1\\\" #2[*]\":0 = onnx::MatMul_105:1",
                  "\"odd name=\\\"1\\\" #2[*]\":0 = onnx::MatMul_105:1\n");
    expect_prints("fc1.weight:0 = bn.*:0 = odd*:0",
                  "fc1.weight:0 = bn.weight:0 = bn.bias:0 = \"odd name=\\\"1\\\" #2[*]\":0\n");
    expect_prints("bn.*:0 = fc?.weight:1", "bn.weight:0 = bn.bias:0 = fc2.weight:1\n");
    expect_prints("", "# nothing is coupled\n");
}

static void who_makes_units(void **state)
{
    struct vc_couplings *couplings;

    (void)state;
    expect_prints("fc1.weight:0 = fc2.weight:1!", "fc2.weight:1! = fc1.weight:0\n");
    couplings = couplings_of("fc2.weight:1 = fc1.weight:0");
    assert_string_equal(vc_coupling(couplings, 0)->name, "fc1.weight:0");
    assert_true(vc_coupling(couplings, 0)->members[0].makes);
    assert_false(vc_coupling(couplings, 0)->members[1].makes);
    vc_result_free(couplings);
}

static void experts(void **state)
{
    struct vc_couplings *couplings;
    const struct vc_coupling *group;

    (void)state;
    expect_prints("experts: gate.weight:0 = experts.0.w@0 = experts.1.w@1",
                  "experts: gate.weight:0 = experts.0.w@0 = experts.1.w@1\n");
    couplings = couplings_of("experts: experts.1.w@1 = experts.0.w@0");
    group = vc_coupling(couplings, 0);
    assert_int_equal(group->n_units, 2);
    assert_true(group->members[0].whole);
    assert_int_equal(group->members[0].unit, 1);
    vc_result_free(couplings);
}

static void expect_refused(const char *text, const char *words)
{
    struct vc_couplings *couplings = NULL;

    assert_int_equal(read_text(text, &couplings), VC_E_FORMAT);
    assert_null(couplings);
    expect_says(ctx, words);
}

static void what_is_no_line(void **state)
{
    (void)state;
    expect_refused("fc1.weight", "line 1: 'fc1.weight' is no TENSOR:AXIS");
    expect_refused("\nfc1.weight:", "line 2: 'fc1.weight:' is no TENSOR:AXIS");
    expect_refused("fc1.weight:0 = ", "line 1: '' is no TENSOR:AXIS");
    expect_refused("= fc1.weight:0", "line 1: '' is no TENSOR:AXIS");
    expect_refused(":0", "line 1: ':0' is no TENSOR:AXIS");
    expect_refused("fc1.weight:0 fc1.bias:0", "line 1: '=' is expected before 'fc1.bias:0'");
    expect_refused("fc1.weight:99999999999999999999", "is no TENSOR:AXIS");
    expect_refused("fc1.weight:0*0", "is no TENSOR:AXIS");
    expect_refused("fc1.weight:0/0", "is no TENSOR:AXIS");
    expect_refused("fc1.weight:0+", "is no TENSOR:AXIS");
    expect_refused("\"fc1.weight:0", "a quote without an end");
    expect_refused("\"fc1.weight", "a quote without an end");
    expect_refused("\"\":0", "is no TENSOR:AXIS");
    expect_refused("layers: fc1.weight:0", "'layers:' is not neurons, heads, experts or hidden");
    expect_refused("heads x: fc1.weight:0", "'heads x:' is not neurons, heads");
    expect_refused("heads 0: fc1.weight:0", "is not neurons, heads");
    expect_refused("experts*: fc1.weight:0", "is not neurons, heads");
}

static void what_contradicts_the_shapes(void **state)
{
    (void)state;
    expect_refused("nobody:0", "line 1: nobody: there is no such tensor");
    expect_refused("fc1.weight:2", "line 1: fc1.weight:2: the tensor has 2 axes");
    expect_refused("bn.count:0", "line 1: bn.count:0: the tensor has 0 axes");
    expect_refused("fc1.weight:0 = fc2.weight:0", "line 1: fc2.weight:0 has 4 entries, and fc1.weight:0 12");
    expect_refused("fc1.weight:0*5", "line 1: fc1.weight:0: 12 cannot be divided into blocks of 5");
    expect_refused("fc1.weight:0/18446744073709551615", "cannot be divided into blocks of 1");
    expect_refused("qkv.weight:0*4+0 = qkv.weight:0*4+16", "the number of units has to be said, as in '8: ...'");
    expect_refused("5: fc1.weight:0", "line 1: 12 entries cannot be 5 units");
    expect_refused("6*3: fc1.weight:0", "line 1: 12 entries cannot be 6 units");
    expect_refused("heads: qkv.weight:0*4+40 = o.weight:1*4",
                   "line 1: qkv.weight:0 has 48 elements, which do not reach for 4 blocks of 4 from 40 on");
    expect_refused("8: qkv.weight:0+18446744073709551615", "do not reach");
    expect_refused("fc1.weight:0 = nobody.*:0", "nobody.*:0: no tensor of that name has such an axis with 12 entries");
    expect_refused("experts: gate.weight:0 = experts.1.w@2", "experts.1.w is unit 2 of 2");
    expect_refused("experts: gate.weight:0 = experts.*@0", "experts.*: a tensor of its own has a whole name");
}

static void everything_at_once(void **state)
{
    (void)state;
    expect_refused("fc1.weight:0 = fc2.weight:0\n\nnobody:0 = fc1.weight:3\nfoo\n",
                   "line 1: fc2.weight:0 has 4 entries, and fc1.weight:0 12; line 3: nobody: there is no such tensor; "
                   "line 3: fc1.weight:3: the tensor has 2 axes; line 4: 'foo' is no TENSOR:AXIS");
}

static void axes_of_two_groups(void **state)
{
    (void)state;
    expect_refused("fc1.weight:0 = fc2.weight:1\nfc1.bias:0 = fc2.weight:1\n",
                   "line 2: fc2.weight:1 is claimed by line 1 already");
    expect_refused("fc1.weight:0 = fc1.weight:0\n", "line 1: fc1.weight:0 is claimed by line 1 already");
    expect_refused("8: qkv.weight:0*4+8\n8: qkv.weight:0*4+0\n", "line 2: qkv.weight:0 is claimed by line 1 already");
    expect_refused("heads: o.weight:1*4\n2: o.weight:1*3+0", "line 2: o.weight:1 is claimed by line 1 already");
    expect_refused("experts: experts.0.w@0 = experts.0.w@1", "line 1: experts.0.w is claimed by line 1 already");
}

static void damaged_files(void **state)
{
    struct vc_couplings *couplings = NULL;
    struct bytes b = {0};

    (void)state;
    assert_int_equal(vc_couplings_read(ctx, in_folder("none.txt"), model, &couplings), VC_E_IO);
    expect_says(ctx, "none.txt: cannot open it");
    bytes_add(&b, "fc1.weight:0\0", 13);
    assert_int_equal(vc_couplings_read(ctx, save_own("zero.txt", b), model, &couplings), VC_E_FORMAT);
    expect_says(ctx, "is not text");
    b = (struct bytes){0};
    for (int k = 0; k < 100000; k++) {
        bytes_add(&b, "fc1.weight:0 = nobody:0\n", 24);
    }
    assert_int_equal(vc_couplings_read(ctx, save_own("many.txt", b), model, &couplings), VC_E_FORMAT);
    expect_says(ctx, "and 99");
    b = (struct bytes){0};
    for (int k = 0; k < 1000000; k++) {
        bytes_add(&b, k == 0 ? "fc1.bias:0" : "=fc1.bias:0", k == 0 ? 10 : 11);
    }
    assert_int_equal(vc_couplings_read(ctx, save_own("long.txt", b), model, &couplings), VC_E_FORMAT);
    expect_says(ctx, "line 1: fc1.bias:0 is claimed by line 1 already");
    assert_null(couplings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_group, begin, end),
        cmocka_unit_test_setup_teardown(shares, begin, end),
        cmocka_unit_test_setup_teardown(parts_of_an_axis, begin, end),
        cmocka_unit_test_setup_teardown(names, begin, end),
        cmocka_unit_test_setup_teardown(who_makes_units, begin, end),
        cmocka_unit_test_setup_teardown(experts, begin, end),
        cmocka_unit_test_setup_teardown(what_is_no_line, begin, end),
        cmocka_unit_test_setup_teardown(what_contradicts_the_shapes, begin, end),
        cmocka_unit_test_setup_teardown(everything_at_once, begin, end),
        cmocka_unit_test_setup_teardown(axes_of_two_groups, begin, end),
        cmocka_unit_test_setup_teardown(damaged_files, begin, end),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
