/* test_decode_range.c - models whose codes are shown as floats (vc_open_options.decoded): every range of a tensor has the
 * bits that the whole tensor has, for codes with scales beside them and for blocks with scales inside. Judge:
 * vc_tensor_read_f32 of the same file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/ctx.h"
#include "tasks.h"

#define ROWS 12
#define COLS 768
#define N    (ROWS * COLS)

static struct vc_ctx *ctx;

/* A safetensors file with one matrix w and a vector. */
static void make_model(void)
{
    struct bytes b = {NULL, 0, 0};
    char header[200];
    int n = snprintf(header, sizeof header,
                     "{\"w\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]},"
                     "\"v\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[%d,%d]}}",
                     ROWS, COLS, 4 * N, 4 * N, 4 * N + 16);

    bytes_u64(&b, (uint64_t)n);
    bytes_add(&b, header, (size_t)n);
    for (int i = 0; i < N + 4; i++) {
        float x = (float)((i * 7919 + i / 13) % 1001 - 500) / 4000.0f;

        bytes_add(&b, &x, sizeof x);
    }
    save_own("in.safetensors", b);
}

static void compare(const char *name)
{
    struct vc_open_options decoded = support_open();
    struct vc_model *codes = must_open(ctx, name);
    struct vc_model *floats = NULL;
    size_t of = vc_model_find(codes, "w");
    static float whole[N];
    static float part[N];
    size_t w;

    decoded.decoded = true;
    assert_int_equal(vc_tensor_read_f32(ctx, codes, of, whole, N), VC_OK);
    assert_int_equal(vc_model_open(ctx, in_folder(name), &decoded, &floats), VC_OK);
    assert_int_equal(vc_model_facts(floats)->n_tensors, 2); /* scales are not shown */
    w = vc_model_find(floats, "w");
    assert_int_equal(vc_model_tensor(floats, w)->dtype, VC_DTYPE_F32);
    assert_null(vc_model_tensor(floats, w)->quant);
    for (uint64_t first = 0; first < N; first += 97) {
        uint64_t n = (first * 31) % 1500 + 1;

        n = n > N - first ? N - first : n;
        memset(part, 0xff, sizeof part);
        assert_int_equal(vc_model_read(ctx, floats, w, first, n, part, sizeof part), VC_OK);
        if (memcmp(part, whole + first, n * sizeof *part) != 0) {
            fail_msg("%s: %u values from %u on differ", name, (unsigned)n, (unsigned)first);
        }
    }
    vc_model_close(floats);
    vc_model_close(codes);
}

static void test_ranges(void **unused)
{
    static const struct {
        const char *name;
        enum vc_target target;
        const char *gguf;
    } kinds[] = {{"a.npz", VC_TARGET_INT8, NULL},        {"b.safetensors", VC_TARGET_INT4, NULL},
                 {"c.safetensors", VC_TARGET_NF4, NULL}, {"d.safetensors", VC_TARGET_MXFP4, NULL},
                 {"e.gguf", VC_TARGET_GGUF, "Q8_0"},     {"f.gguf", VC_TARGET_GGUF, "Q4_K_S"},
                 {"g.gguf", VC_TARGET_GGUF, "Q6_K"}};

    (void)unused;
    make_model();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct task task = task_int8();

        task.quantize.target = kinds[i].target;
        task.quantize.gguf = kinds[i].gguf;
        must_run(ctx, "in.safetensors", kinds[i].name, task);
        compare(kinds[i].name);
    }
}

/* A read whose allocations fail, one after the other, until none does. */
static void test_no_memory(void **unused)
{
    struct vc_open_options decoded = support_open();
    struct vc_model *floats = NULL;
    static float part[COLS];
    enum vc_status status = VC_E_NOMEM;
    unsigned n = 0;

    (void)unused;
    make_model();
    must_run(ctx, "in.safetensors", "a.npz", task_int8());
    decoded.decoded = true;
    assert_int_equal(vc_model_open(ctx, in_folder("a.npz"), &decoded, &floats), VC_OK);
    while (status == VC_E_NOMEM) {
        vc_pool_fail_at(ctx->shared->pool, ++n, 0);
        status = vc_model_read(ctx, floats, vc_model_find(floats, "w"), 5, COLS, part, sizeof part);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
    }
    assert_int_equal(status, VC_OK);
    assert_true(n > 1);
    vc_model_close(floats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_ranges, scratch_make, scratch_clear),
                                       cmocka_unit_test_setup_teardown(test_no_memory, scratch_make, scratch_clear)};
    int rc;

    if (vc_ctx_create(&ctx) != VC_OK) {
        return 1;
    }
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    vc_ctx_free(ctx);
    return rc;
}
