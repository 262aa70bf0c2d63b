/* test_given.c - masks given to prune: the forms that are read, those that do not fit, and damaged ones. Weights and
 * masks lie in memory; files with masks are in tests/judge/test_prune.py and tests/cli/cases/prune_mask.test. */
#include "support.h"

#include "core/model/memory_model.h"
#include "job_apply.h"
#include "support_options.h"

#define N_ROWS 5
#define N_COLS 7
#define N      (N_ROWS * N_COLS)
#define BYTES  ((N + 7) / 8)

static const uint64_t shape[2] = {N_ROWS, N_COLS};
static const uint64_t turned[2] = {N_COLS, N_ROWS};
static const uint64_t packed_shape[1] = {BYTES};
static const uint64_t longer_shape[1] = {BYTES + 1};
static const uint64_t all_shape[1] = {N};

static float weights[N];
static uint8_t whole[N], bits[BYTES + 1];
static float floats[N];

static void fill(void)
{
    size_t i;

    memset(bits, 0, sizeof bits);
    for (i = 0; i < N; i++) {
        weights[i] = 1.0f + (float)i;
        whole[i] = i % 3 == 1;
        floats[i] = whole[i];
        bits[i / 8] |= (uint8_t)(whole[i] << i % 8);
    }
}

/* Prunes "w" by the masks, of which there are n; `out`: the result. Says why not, with the status. */
static enum vc_status prune(struct vc_ctx *ctx, const struct vc_memory_tensor *masks, size_t n, float *out)
{
    const struct vc_memory_tensor tensor = {"w", VC_DTYPE_F32, 2, shape, weights};
    struct vc_write_options write = support_write(NULL);
    struct vc_prune_options options;
    struct vc_model *model = NULL;
    struct vc_model *given = NULL;
    struct vc_job *job = NULL;
    enum vc_status status;

    vc_prune_defaults(&options);
    assert_int_equal(vc_memory_model_create(ctx, &tensor, 1, &model), VC_OK);
    assert_int_equal(vc_memory_model_create(ctx, masks, n, &given), VC_OK);
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    options.pattern = VC_PATTERN_GIVEN;
    options.mask = given;
    assert_int_equal(vc_job_add_prune(ctx, job, &options), VC_OK);
    status = vc_job_plan(ctx, job, &write);
    status = status == VC_OK ? job_apply(ctx, job, 0, VC_PART_CODES, out, N * sizeof *out) : status;
    vc_job_free(job);
    vc_model_close(given);
    vc_model_close(model);
    return status;
}

static void expect_pruned(struct vc_memory_tensor mask)
{
    struct vc_ctx *ctx = test_ctx();
    float out[N];
    size_t i;

    assert_int_equal(prune(ctx, &mask, 1, out), VC_OK);
    for (i = 0; i < N; i++) {
        assert_true(out[i] == (i % 3 == 1 ? weights[i] : 0.0f));
    }
    vc_ctx_free(ctx);
}

static void expect_refused(const struct vc_memory_tensor *masks, size_t n, const char *words)
{
    struct vc_ctx *ctx = test_ctx();
    float out[N];

    assert_int_equal(prune(ctx, masks, n, out), VC_E_FORMAT);
    expect_says(ctx, words);
    vc_ctx_free(ctx);
}

static void every_form(void **state)
{
    (void)state;
    fill();
    expect_pruned((struct vc_memory_tensor){"w.mask", VC_DTYPE_U8, 1, packed_shape, bits});
    expect_pruned((struct vc_memory_tensor){"w.mask", VC_DTYPE_U8, 2, shape, whole});
    expect_pruned((struct vc_memory_tensor){"w.mask", VC_DTYPE_BOOL, 2, shape, whole});
    expect_pruned((struct vc_memory_tensor){"w", VC_DTYPE_BOOL, 2, shape, whole});
    expect_pruned((struct vc_memory_tensor){"w", VC_DTYPE_U8, 1, packed_shape, bits});
}

static void what_does_not_fit(void **state)
{
    const struct vc_memory_tensor both[] = {{"w.mask", VC_DTYPE_BOOL, 2, shape, whole},
                                            {"v.mask", VC_DTYPE_BOOL, 2, shape, whole}};
    struct vc_memory_tensor mask = {"w.mask", VC_DTYPE_F32, 2, shape, floats};

    (void)state;
    fill();
    expect_refused(&mask, 1, "w.mask is f32; a mask is bool or u8");
    mask = (struct vc_memory_tensor){"w.mask", VC_DTYPE_BOOL, 2, turned, whole};
    expect_refused(&mask, 1, "a mask has the shape of its weight, or is u8 [5], a bit for each of the 35 weights");
    mask = (struct vc_memory_tensor){"w.mask", VC_DTYPE_U8, 1, longer_shape, bits};
    expect_refused(&mask, 1, "w.mask has 6 elements");
    mask = (struct vc_memory_tensor){"w.mask", VC_DTYPE_BOOL, 1, packed_shape, whole};
    expect_refused(&mask, 1, "w.mask has 5 elements");
    mask = (struct vc_memory_tensor){"w.mask", VC_DTYPE_U8, 1, all_shape, whole};
    expect_refused(&mask, 1, "w.mask has 35 elements");
    expect_refused(both, 2, "v.mask is the mask of a tensor that is not there");
    mask = (struct vc_memory_tensor){"w", VC_DTYPE_F32, 2, shape, floats};
    expect_refused(&mask, 1, "has no masks");
}

static void damaged_ones(void **state)
{
    struct vc_memory_tensor mask = {"w.mask", VC_DTYPE_U8, 1, packed_shape, bits};

    (void)state;
    fill();
    bits[BYTES - 1] |= 0x80;
    expect_refused(&mask, 1, "w.mask: has bits behind that of weight 34, the last one");
    whole[33] = 2;
    mask = (struct vc_memory_tensor){"w.mask", VC_DTYPE_BOOL, 2, shape, whole};
    expect_refused(&mask, 1, "w.mask: element 33 is neither 0 nor 1; a mask has 0 and 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_form), cmocka_unit_test(what_does_not_fit),
                                       cmocka_unit_test(damaged_ones)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
