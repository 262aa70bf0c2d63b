/* test_kernels.c - the table of a context: level, device name, errors; several threads that ask first at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/cpu.h"
#include "core/base/thread_pool.h"
#include "kernels/kernels.h"

/* A context that computes on the CPU, whatever the machine has. */
static struct vc_ctx *make(void)
{
    struct vc_ctx *ctx = NULL;

    assert_int_equal(vc_ctx_create(&ctx), VC_OK);
    assert_int_equal(vc_ctx_set_device(ctx, "cpu"), VC_OK);
    return ctx;
}

static void test_every_level_is_complete(void **unused)
{
    static const struct vc_kernels none;

    (void)unused;
    for (int level = 0; level < VC_CPU_COUNT; level++) {
        struct vc_kernels table;

        vc_kernels_fill(&table, level);
#define VC_KERNEL(name, result, params) assert_true(table.name != none.name);
#include "kernels/kernels.inc"
#undef VC_KERNEL
    }
    assert_string_equal(vc_kernel_name(VC_KERNEL_ID_int8_rows), "int8_rows");
}

static void test_mask_decides(void **unused)
{
    struct vc_ctx *ctx = make();
    struct vc_kernels ref;

    (void)unused;
    vc_kernels_fill(&ref, VC_CPU_REF);
    assert_int_equal(vc_ctx_set_cpu_mask(ctx, "ref"), VC_OK);
    assert_true(vc_kernels_get(ctx)->int8_rows == ref.int8_rows);
    assert_string_equal(ctx->shared->device_name, "cpu (ref)");
    assert_int_equal(vc_ctx_set_cpu_mask(ctx, "base"), VC_OK);
    assert_true(vc_kernels_get(ctx)->int8_rows != ref.int8_rows);
    assert_string_equal(ctx->shared->device_name, "cpu (base)");
    assert_true(vc_kernels_get(ctx) == vc_kernels_get(ctx));
    vc_ctx_free(ctx);
}

static void test_no_memory(void **unused)
{
    struct vc_ctx *ctx = make();

    (void)unused;
    vc_pool_fail_at(ctx->shared->pool, 1, 1);
    assert_null(vc_kernels_get(ctx));
    assert_int_equal(ctx->status, VC_E_NOMEM);
    vc_pool_fail_at(ctx->shared->pool, 0, 0);
    assert_non_null(vc_kernels_get(ctx));
    vc_ctx_free(ctx);
}

struct race {
    struct vc_ctx *ctx;
    const struct vc_kernels *seen[8];
};

static void ask(void *user, unsigned worker)
{
    struct race *race = user;
    struct vc_ctx mine;

    vc_ctx_fork(race->ctx, &mine);
    race->seen[worker] = vc_kernels_get(&mine);
}

static void test_first_use_from_threads(void **unused)
{
    struct race race = {.ctx = make()};
    unsigned n;

    (void)unused;
    n = vc_thread_pool_once(8, ask, &race);
    for (unsigned i = 0; i < n; i++) {
        assert_true(race.seen[i] != NULL && race.seen[i] == race.seen[0]);
    }
    vc_ctx_free(race.ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_level_is_complete),
        cmocka_unit_test(test_mask_decides),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_first_use_from_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
