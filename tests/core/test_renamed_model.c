/* test_renamed_model.c - a model under other names: what they find, second names of tensors that are gone, names that
 * follow others. */
#include "support.h"

#include "core/model/memory_model.h"
#include "core/model/renamed_model.h"

#define N 6

static const uint64_t shape[] = {1};
static const float values[N] = {1, 2, 3, 4, 5, 6};

/* a.0 a.1 a.2, and second names of a.1: x y z. */
static struct vc_model *model_of(struct vc_ctx *ctx)
{
    static const char *const names[N] = {"a.0", "a.1", "a.2", "x", "y", "z"};
    struct vc_memory_tensor tensors[N];
    struct vc_model *model = NULL;
    size_t i;

    for (i = 0; i < N; i++) {
        tensors[i] = (struct vc_memory_tensor){names[i], VC_DTYPE_F32, 1, shape, &values[i]};
    }
    assert_int_equal(vc_memory_model_create(ctx, tensors, N, &model), VC_OK);
    for (i = 3; i < N; i++) {
        model->tensors[i].alias_of = 1;
    }
    return model;
}

static void test_names(void **state)
{
    const char *names[N] = {NULL, NULL, "a.1", NULL, NULL, NULL};
    bool gone[N] = {false, true, false, true, false, false};
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *source = model_of(ctx);
    struct vc_model *model = NULL;
    float value = 0;

    (void)state;
    assert_int_equal(vc_renamed_model_make(ctx, source, names, gone, &model), VC_OK);
    assert_int_equal(vc_model_find(model, "a.0"), 0);
    assert_int_equal(vc_model_find(model, "a.1"), 2);
    assert_int_equal(vc_model_find(model, "a.2"), VC_NO_TENSOR);
    assert_int_equal(vc_model_find(model, "x"), VC_NO_TENSOR);
    assert_int_equal(vc_model_find(model, "z"), 5);
    assert_string_equal(model->tensors[2].name, "a.1");
    assert_int_equal(vc_model_read(ctx, model, 2, 0, 1, &value, sizeof value), VC_OK);
    assert_true(value == 3);
    /* y is the tensor now, and z its second name. */
    assert_int_equal(model->tensors[4].alias_of, VC_NO_TENSOR);
    assert_int_equal(model->tensors[5].alias_of, 4);
    /* The source is as it was. */
    assert_int_equal(vc_model_find(source, "a.1"), 1);
    assert_string_equal(source->tensors[2].name, "a.2");
    assert_int_equal(source->tensors[5].alias_of, 1);
    /* Made anew: in the same place, from the source. */
    names[2] = NULL;
    names[0] = "b";
    gone[1] = false;
    assert_int_equal(vc_renamed_model_make(ctx, source, names, gone, &model), VC_OK);
    assert_int_equal(vc_model_find(model, "a.2"), 2);
    assert_int_equal(vc_model_find(model, "b"), 0);
    assert_int_equal(model->tensors[5].alias_of, 1);
    names[0] = "a.2";
    assert_int_equal(vc_renamed_model_make(ctx, source, names, gone, &model), VC_E_UNSUPPORTED);
    assert_string_equal(vc_ctx_message(ctx), "a.2: two tensors of the output would have this name");
    vc_renamed_model_free(ctx, model);
    vc_renamed_model_free(ctx, NULL);
    vc_model_close(source);
    test_ctx_done(ctx);
}

static void expect_follow(const char *name, const char *before, const char *after, const char *want)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_arena arena = {0};
    const char *got = vc_name_follow(ctx, &arena, name, before, after);

    assert_non_null(got);
    assert_string_equal(got, want);
    vc_arena_release(ctx, &arena);
    test_ctx_done(ctx);
}

static void test_follow(void **state)
{
    (void)state;
    expect_follow("h.10.w_packed", "h.10.w", "h.9.w", "h.9.w_packed");
    expect_follow("h.10.w", "h.10.w", "h.10.w", "h.10.w");
    expect_follow("h.100.w", "h.10.w", "h.9.w", "h.100.w");
    expect_follow("h.10", "h.10.w", "h.9.w", "h.9");
    expect_follow("h.1.scale", "h.1", "h.0", "h.0.scale");
    expect_follow("h.1.int8", "h.1", "h.11", "h.11.int8");
    expect_follow("other", "h.1.w", "h.0.w", "other");
    expect_follow("m.1.1.q", "m.1.1.w", "m.0.1.w", "m.0.1.q");
    expect_follow("1.q", "1.w", "0.w", "0.q");
    expect_follow("", "1.w", "0.w", "");
}

static void test_allocations(void **state)
{
    const char *names[N] = {NULL, NULL, "a.1", NULL, NULL, NULL};
    const bool gone[N] = {false, true, false, true, false, false};
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *source = model_of(ctx);
    enum vc_status status = VC_E_NOMEM;
    uint64_t n;

    (void)state;
    for (n = 1; status != VC_OK; n++) {
        struct vc_model *model = NULL;

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_renamed_model_make(ctx, source, names, gone, &model);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK || status == VC_E_NOMEM);
        vc_renamed_model_free(ctx, model);
    }
    assert_true(n > 3);
    vc_model_close(source);
    assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_follow),
        cmocka_unit_test(test_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
