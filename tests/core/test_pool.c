/* test_pool.c - the memory pool: the limit holds, large blocks are used again, what it says of use and peaks is what
 * the test allocated, and injected failures hit the request that was asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/ctx.h"
#include "core/base/pool.h"

#define KIB ((size_t)1024)

static void test_alignment_and_zero(void **unused)
{
    struct vc_pool *pool = vc_pool_create();

    (void)unused;
    for (size_t size = 0; size < 300000; size = size * 2 + 1) {
        unsigned char *p = vc_pool_alloc(pool, VC_TAG_MISC, size);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % VC_POOL_ALIGN, 0);
        memset(p, 1, size);
        vc_pool_free(pool, p);
    }
    vc_pool_free(pool, NULL);
    assert_int_equal(vc_pool_in_use(pool), 0);
    vc_pool_destroy(pool);
    vc_pool_destroy(NULL);
}

static void test_large_blocks_are_reused(void **unused)
{
    struct vc_pool *pool = vc_pool_create();
    void *a = vc_pool_alloc(pool, VC_TAG_TILES, 1000 * KIB);
    void *b;
    uint64_t peak = vc_pool_peak(pool);

    (void)unused;
    vc_pool_free(pool, a);
    b = vc_pool_alloc(pool, VC_TAG_IO, 999 * KIB);
    assert_ptr_equal(a, b);
    assert_int_equal(vc_pool_peak(pool), peak);
    vc_pool_free(pool, b);
    b = vc_pool_alloc(pool, VC_TAG_IO, 100 * KIB); /* far too large a block is not wasted on it */
    assert_ptr_not_equal(a, b);
    vc_pool_free(pool, b);
    b = vc_pool_alloc(pool, VC_TAG_NAMES, 5000 * KIB); /* tables are not kept: the same room serves two of them */
    vc_pool_free(pool, b);
    peak = vc_pool_peak(pool);
    b = vc_pool_alloc(pool, VC_TAG_NAMES, 4000 * KIB);
    vc_pool_free(pool, b);
    assert_int_equal(vc_pool_peak(pool), peak);
    vc_pool_destroy(pool);
}

static void test_limit(void **unused)
{
    struct vc_pool *pool = vc_pool_create();
    void *a;
    void *b;

    (void)unused;
    vc_pool_set_limit(pool, 1024 * KIB);
    assert_int_equal(vc_pool_limit(pool), 1024 * KIB);
    a = vc_pool_alloc(pool, VC_TAG_TILES, 640 * KIB);
    assert_non_null(a);
    assert_null(vc_pool_alloc(pool, VC_TAG_TILES, 640 * KIB));
    vc_pool_free(pool, a);
    b = vc_pool_alloc(pool, VC_TAG_TILES, 1024 * KIB); /* what was kept for reuse gives way */
    assert_non_null(b);
    assert_null(vc_pool_alloc(pool, VC_TAG_MISC, 1));
    assert_true(vc_pool_peak(pool) <= 1024 * KIB);
    vc_pool_free(pool, b);
    assert_null(vc_pool_alloc(pool, VC_TAG_MISC, SIZE_MAX));
    assert_null(vc_pool_alloc(pool, VC_TAG_MISC, SIZE_MAX - 10));
    vc_pool_destroy(pool);
}

static void test_peak_and_accounting(void **unused)
{
    struct vc_pool *pool = vc_pool_create();
    void *a = vc_pool_alloc(pool, VC_TAG_SCALES, 1000);
    void *b = vc_pool_alloc(pool, VC_TAG_NAMES, 500);
    char text[4096] = "";
    FILE *file;

    (void)unused;
    assert_int_equal(vc_pool_in_use(pool), 1500);
    vc_pool_free(pool, a);
    assert_int_equal(vc_pool_in_use(pool), 500);
    assert_int_equal(vc_pool_peak(pool), 1500);
    vc_pool_account(pool, VC_TAG_DEVICE, 1 << 20);
    vc_pool_account(pool, VC_TAG_DEVICE, -(1 << 20));
    assert_int_equal(vc_pool_peak(pool), 1500); /* host only */
    file = fmemopen(text, sizeof text - 1, "w");
    vc_pool_print(pool, file);
    fclose(file);
    assert_non_null(strstr(text, "device"));
    assert_non_null(strstr(text, "1024.0")); /* its peak, in KiB */
    assert_non_null(strstr(text, "scales"));
    assert_null(strstr(text, "tiles"));
    vc_pool_free(pool, b);
    vc_pool_destroy(pool);
}

static void test_injected_failures(void **unused)
{
    struct vc_pool *pool = vc_pool_create();
    uint64_t count = vc_pool_alloc_count(pool);
    void *p[3];

    (void)unused;
    vc_pool_fail_at(pool, 2, 0);
    for (int i = 0; i < 3; i++) {
        p[i] = vc_pool_alloc(pool, VC_TAG_MISC, 10);
    }
    assert_non_null(p[0]);
    assert_null(p[1]);
    assert_non_null(p[2]);
    assert_int_equal(vc_pool_alloc_count(pool), count + 3);
    vc_pool_fail_at(pool, 1, 1);
    assert_null(vc_pool_alloc(pool, VC_TAG_MISC, 10));
    assert_null(vc_pool_alloc(pool, VC_TAG_MISC, 10));
    vc_pool_fail_at(pool, 0, 0);
    vc_pool_free(pool, p[1]);
    p[1] = vc_pool_alloc(pool, VC_TAG_MISC, 10);
    assert_non_null(p[1]);
    for (int i = 0; i < 3; i++) {
        vc_pool_free(pool, p[i]);
    }
    vc_pool_destroy(pool);
}

/* vc_give leaves NULL behind, so that neither the end of the scope nor a second free sees the block again. */
static char *given(struct vc_ctx *ctx)
{
    VC_SCOPED char *text = vc_strdup(ctx, VC_TAG_NAMES, "given");
    VC_SCOPED char *other = vc_strdup(ctx, VC_TAG_NAMES, "freed");

    assert_non_null(other);
    return vc_give(&text);
}

static void test_several_are_freed(void **unused)
{
    struct {
        char *name, *none, *other;
    } * self;
    struct vc_ctx *ctx = NULL;

    (void)unused;
    assert_int_equal(vc_ctx_create(&ctx), VC_OK);
    uint64_t before = vc_pool_in_use(ctx->shared->pool);
    self = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *self);
    assert_non_null(self);
    self->name = given(ctx);
    self->other = vc_strdup(ctx, VC_TAG_NAMES, "other");
    assert_string_equal(self->name, "given");
    VC_FREE_ALL(ctx, self, self->name, self->none, self->other); /* members that are named behind what holds them */
    assert_int_equal(vc_pool_in_use(ctx->shared->pool), before);
    self = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *self);
    vc_free(ctx, vc_give(&self));
    assert_null(self);
    assert_null(vc_give(&self));
    assert_int_equal(vc_pool_in_use(ctx->shared->pool), before);
    vc_ctx_free(ctx);
}

static void test_sentences(void **unused)
{
    struct vc_ctx *ctx = NULL;
    char *copy;

    (void)unused;
    assert_int_equal(vc_ctx_create(&ctx), VC_OK);
    assert_null(vc_alloc_array(ctx, VC_TAG_TILES, SIZE_MAX / 2, 3));
    assert_int_equal(ctx->status, VC_E_NOMEM);
    assert_non_null(strstr(vc_ctx_message(ctx), "do not fit"));
    vc_pool_set_limit(ctx->shared->pool, 1 << 20);
    assert_null(vc_alloc(ctx, VC_TAG_TILES, (size_t)2 << 20));
    assert_non_null(strstr(vc_ctx_message(ctx), "2097152 bytes for tiles"));
    assert_non_null(strstr(vc_ctx_message(ctx), "1048576"));
    copy = vc_strdup(ctx, VC_TAG_NAMES, "name");
    assert_string_equal(copy, "name");
    vc_free(ctx, copy);
    copy = vc_calloc_array(ctx, VC_TAG_NAMES, 10, 3);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(copy[i], 0);
    }
    vc_free(ctx, copy);
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alignment_and_zero),
        cmocka_unit_test(test_large_blocks_are_reused),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_peak_and_accounting),
        cmocka_unit_test(test_injected_failures),
        cmocka_unit_test(test_several_are_freed),
        cmocka_unit_test(test_sentences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
