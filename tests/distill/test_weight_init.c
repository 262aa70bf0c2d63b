/* test_weight_init.c - weight initialization of networks from lists of layers. */
#include "distill_test.h"

#include <math.h>

static const char net[] = "input x [batch, 1, 8, 8]\nconv c 4 kernel=3\nbatchnorm n\nrelu\nflatten\nlinear f 3\n";

static void read_floats(const struct vc_model *model, const char *name, float *out, size_t n)
{
    size_t k = vc_model_find(model, name);

    assert_true(k != VC_NO_TENSOR && model->tensors[k].dtype == VC_DTYPE_F32 && model->tensors[k].n_elems == n);
    assert_int_equal(vc_model_read(ctx, model, k, 0, n, out, n * sizeof *out), VC_OK);
}

/* Even between -1 / sqrt(inputs) and that, norms the identity, a function of the seed. */
static void test_numbers(void **unused)
{
    struct vc_model *model = NULL;
    struct vc_model *other = NULL;
    float w[432];
    float again[432];
    float b[4];
    double sum = 0;
    double squares = 0;
    double most = 0;

    (void)unused;
    (void)save_text("net.txt", net);
    assert_int_equal(vc_network_init_weights(ctx, in_folder("net.txt"), 7, &model), VC_OK);
    assert_true(model->n_tensors == 8);
    read_floats(model, "f.weight", w, 432);
    for (size_t i = 0; i < 432; i++) {
        sum += (double)w[i];
        squares += (double)w[i] * (double)w[i];
        most = fmax(most, fabs((double)w[i]));
    }
    /* 144 inputs: the bound is 1/12, the mean square its third of a square; 432 numbers are within 10 % of it */
    assert_true(most <= 1.0 / 12 && most > 0.99 / 12);
    assert_true(fabs(sum / 432) < 0.01 && fabs(squares / 432 * 3 * 144 - 1) < 0.15);
    read_floats(model, "c.bias", b, 4);
    assert_true(b[0] != b[1] && fabs((double)b[0]) <= 1.0 / 3);
    read_floats(model, "n.weight", b, 4);
    assert_true(b[0] == 1 && b[3] == 1);
    read_floats(model, "n.bias", b, 4);
    assert_true(b[0] == 0 && b[3] == 0);
    read_floats(model, "n.running_mean", b, 4);
    assert_true(b[0] == 0 && b[3] == 0);
    read_floats(model, "n.running_var", b, 4);
    assert_true(b[0] == 1 && b[3] == 1);
    assert_int_equal(vc_network_init_weights(ctx, in_folder("net.txt"), 7, &other), VC_OK);
    read_floats(other, "f.weight", again, 432);
    assert_memory_equal(w, again, sizeof w);
    vc_model_close(other);
    assert_int_equal(vc_network_init_weights(ctx, in_folder("net.txt"), 8, &other), VC_OK);
    read_floats(other, "f.weight", again, 432);
    assert_true(memcmp(w, again, sizeof w) != 0);
    vc_model_close(other);
    vc_model_close(model);
}

static void test_refused(void **unused)
{
    struct vc_model *model = NULL;

    (void)unused;
    (void)save_text("none.txt", "input x [batch, 8]\nrelu\n");
    assert_int_equal(vc_network_init_weights(ctx, in_folder("none.txt"), 0, &model), VC_E_ARGUMENT);
    assert_null(model);
    expect_says(ctx, "the network has no weights");
    (void)save_text("bad.txt", "input x [batch, 8]\nlinear\n");
    assert_int_equal(vc_network_init_weights(ctx, in_folder("bad.txt"), 0, &model), VC_E_FORMAT);
    assert_null(model);
    (void)save_text("net.txt", net);
    for (uint64_t k = 1;; k++) {
        enum vc_status status;

        vc_pool_fail_at(ctx->shared->pool, k, 0);
        status = vc_network_init_weights(ctx, in_folder("net.txt"), 0, &model);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        if (status == VC_OK) {
            assert_true(k > 10);
            break;
        }
        assert_int_equal(status, VC_E_NOMEM);
        assert_null(model);
    }
    vc_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_refused)};

    return cmocka_run_group_tests(tests, begin, end);
}
