/* test_sensitivity.c - vc_model_sensitivity as a program uses it: the figures of small tensors by hand, every
 * allocation failing in turn, cancelling, damage. NumPy judges larger ones (tests/judge/test_sensitivity.py). */
#include <math.h>
#include <stdlib.h>

#include "scratch.h"
#include "support.h"

#include "measure/curve.h"

/* An npy of `rows` x 4 f32 whose magnitudes are 1, 2, ... in a mixed order, with signs. */
static void save_ramp(const char *name, unsigned rows)
{
    struct bytes b = {NULL, 0, 0};
    char head[128];
    unsigned n = rows * 4;

    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    head[10 + snprintf(head + 10, 100, "{'descr': '<f4', 'fortran_order': False, 'shape': (%u, 4), }", rows)] = ' ';
    head[127] = '\n';
    bytes_add(&b, head, sizeof head);
    for (unsigned i = 0; i < n; i++) {
        float x = (float)(i * 7 % n + 1) * (i % 2 != 0 ? -1.0F : 1.0F);

        bytes_add(&b, &x, sizeof x);
    }
    (void)save_own(name, b);
}

static struct vc_model *open_ramp(struct vc_ctx *ctx)
{
    struct vc_model *model = NULL;

    save_ramp("in.npy", 25); /* 1 to 100: 7 and 100 have no common factor */
    assert_int_equal(vc_model_open(ctx, in_folder("in.npy"), NULL, &model), VC_OK);
    return model;
}

/* 1^2 + ... + n^2 */
static double squares(double n)
{
    return n * (n + 1) * (2 * n + 1) / 6;
}

static void test_figures(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = open_ramp(ctx);
    struct vc_sensitivity_options options;
    struct vc_sensitivity *s = NULL;
    size_t n_patterns = 0;

    (void)unused;
    vc_sensitivity_defaults(&options);
    options.min_elems = 101;
    assert_int_equal(vc_model_sensitivity(ctx, model, &options, &s), VC_OK);
    assert_int_equal(s->n_rows, 1);
    assert_int_equal(s->n_measured, 0);
    assert_string_equal(s->rows[0].reason, "fewer than 101 elements");
    assert_true(s->prune.candidate == VC_NO_TENSOR && s->quantize.candidate == VC_NO_TENSOR);
    vc_result_free(s);
    assert_int_equal(vc_model_sensitivity(ctx, model, NULL, &s), VC_OK);
    assert_int_equal(s->n_measured, 1);
    assert_true(s->rows[0].rms == sqrt(squares(100) / 100));
    for (size_t i = 0; i < s->n_candidates; i++) {
        const struct vc_sensitivity_error *error = &s->rows[0].errors[i];

        n_patterns += s->candidates[i].kind == VC_SENSITIVITY_PATTERN;
        if (s->candidates[i].kind == VC_SENSITIVITY_MAGNITUDE) {
            assert_true(fabs(error->relative - sqrt(squares(s->candidates[i].percent) / squares(100))) < 1e-15);
            assert_int_equal(error->bytes, 400);
        } else if (strcmp(s->candidates[i].name, "q8_0") == 0) {
            assert_non_null(error->reason); /* rows of 4 */
        } else if (strcmp(s->candidates[i].name, "f16") == 0) {
            assert_true(error->reason == NULL && error->relative == 0.0 && isinf(error->sqnr_db));
            assert_int_equal(error->bytes, 200);
        }
    }
    assert_int_equal(n_patterns, 1);
    assert_int_equal(s->prune.n_picks, 0);
    assert_true(s->quantize.candidate == VC_NO_TENSOR); /* quantize would leave it */
    assert_true(s->prune.median == s->rows[0].errors[s->prune.candidate].relative);
    vc_result_free(s);
    vc_result_free(NULL);
    vc_model_close(model);
    vc_ctx_free(ctx);
    remove_path("in.npy");
}

/* The n-th allocation fails, n from 1 on, until the call succeeds; then the same for document and drawing. */
static void test_out_of_memory(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = open_ramp(ctx);
    struct vc_pool *pool = ctx->shared->pool;
    struct vc_sensitivity *s = NULL;
    enum vc_status (*const renders[])(struct vc_ctx *, const struct vc_document *, char **) = {vc_document_json,
                                                                                               vc_document_svg};
    enum vc_status status = VC_E_NOMEM;
    uint64_t in_use;
    uint64_t n = 0;

    (void)unused;
    assert_int_equal(vc_model_sensitivity(ctx, model, NULL, &s), VC_OK); /* the kernels are there from now on */
    vc_result_free(s);
    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    in_use = vc_pool_in_use(pool);
    while (status != VC_OK) {
        s = NULL;
        vc_pool_fail_at(pool, ++n, 0);
        status = vc_model_sensitivity(ctx, model, NULL, &s);
        vc_pool_fail_at(pool, 0, 0);
        assert_true(status == VC_OK ? s != NULL : status == VC_E_NOMEM && s == NULL);
        assert_true(status == VC_OK || vc_pool_in_use(pool) == in_use);
    }
    assert_true(n > 30);
    for (size_t i = 0; i < 2; i++) {
        char *text = NULL;

        in_use = vc_pool_in_use(pool);
        n = 0;
        do {
            vc_pool_fail_at(pool, ++n, 0);
            status = renders[i](ctx, &(struct vc_document){.kind = VC_DOCUMENT_SENSITIVITY, .of = s}, &text);
            vc_pool_fail_at(pool, 0, 0);
            assert_true(status == VC_OK ? text != NULL : status == VC_E_NOMEM && text == NULL);
            assert_true(status == VC_OK || vc_pool_in_use(pool) == in_use);
        } while (status != VC_OK);
        assert_true(n > 2);
        vc_text_free(text);
    }
    vc_result_free(s);
    vc_model_close(model);
    vc_ctx_free(ctx);
    remove_path("in.npy");
}

/* A wish to cancel holds until a call ends by it, and no longer. */
static void test_cancel(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = open_ramp(ctx);
    struct vc_sensitivity *s = NULL;

    (void)unused;
    vc_ctx_cancel(ctx);
    assert_int_equal(vc_model_sensitivity(ctx, model, NULL, &s), VC_E_CANCELLED);
    assert_null(s);
    assert_int_equal(vc_model_sensitivity(ctx, model, NULL, &s), VC_OK);
    vc_result_free(s);
    vc_model_close(model);
    vc_ctx_free(ctx);
    remove_path("in.npy");
}

/* The file changes under the model. */
static void test_changed(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = open_ramp(ctx);
    struct vc_sensitivity *s = NULL;

    (void)unused;
    save_ramp("in.npy", 24);
    assert_int_equal(vc_model_sensitivity(ctx, model, NULL, &s), VC_E_FORMAT);
    assert_null(s);
    expect_says(ctx, "was changed");
    vc_model_close(model);
    vc_ctx_free(ctx);
    remove_path("in.npy");
}

static void test_counts(void **unused)
{
    (void)unused;
    assert_int_equal(vc_curve_count_of(10, 95), 9);
    assert_int_equal(vc_curve_count_of(99, 10), 9);
    assert_int_equal(vc_curve_count_of(0, 50), 0);
    assert_true(vc_curve_count_of(UINT64_MAX, 95) == UINT64_MAX / 100 * 95 + UINT64_MAX % 100 * 95 / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures), cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_changed), cmocka_unit_test(test_counts),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
