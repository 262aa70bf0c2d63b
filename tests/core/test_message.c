/* test_message.c - the one sentence of an error: where it has to be shortened, long names go first and the reason
 * stays, and no character of UTF-8 is cut in two. Judge: the whole sentence, which the test knows. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/ctx.h"
#include "core/base/findings.h"

static struct vc_ctx *ctx;

static int make(void **unused)
{
    (void)unused;
    return vc_ctx_create(&ctx) == VC_OK ? 0 : -1;
}

static int unmake(void **unused)
{
    (void)unused;
    vc_ctx_free(ctx);
    return 0;
}

static bool ends_with(const char *s, const char *end)
{
    return strlen(s) >= strlen(end) && strcmp(s + strlen(s) - strlen(end), end) == 0;
}

static void test_short(void **unused)
{
    (void)unused;
    assert_int_equal(vc_fail(ctx, VC_E_FORMAT, "%s: has %d", "w", 3), VC_E_FORMAT);
    assert_int_equal(vc_context(ctx, "%s", "in.npz"), VC_E_FORMAT);
    assert_string_equal(vc_ctx_message(ctx), "in.npz: w: has 3");
    assert_int_equal(vc_context(ctx, "%s", "in.npz"), VC_E_FORMAT); /* once is enough */
    assert_string_equal(vc_ctx_message(ctx), "in.npz: w: has 3");
    assert_int_equal(vc_context(ctx, "%s", "in"), VC_E_FORMAT);
    assert_string_equal(vc_ctx_message(ctx), "in: in.npz: w: has 3");
    assert_int_equal(vc_fail_errno(ctx, ENOENT, "%s", "in.npz"), VC_E_IO);
    assert_string_equal(vc_ctx_message(ctx), "in.npz: No such file or directory");
    assert_int_equal(vc_fail(ctx, VC_E_FORMAT, "a\nb\x7f"), VC_E_FORMAT);
    assert_string_equal(vc_ctx_message(ctx), "a?b?");
}

/* Every length around the limit, and names of many characters of two bytes. */
static void test_reason_stays(void **unused)
{
    static char name[8192];
    size_t n;

    (void)unused;
    for (n = 1; n < sizeof name; n = n < VC_MESSAGE_BYTES + 8 ? n + 1 : 2 * n) {
        memset(name, 'x', n - 1);
        name[n - 1] = '\0';
        assert_int_equal(vc_fail(ctx, VC_E_FORMAT, "%s: its shape is wrong", name), VC_E_FORMAT);
        assert_true(ends_with(vc_ctx_message(ctx), ": its shape is wrong"));
        assert_int_equal(strlen(vc_ctx_message(ctx)),
                         n + 19 < VC_MESSAGE_BYTES ? n + 19 : (size_t)VC_MESSAGE_BYTES - 1);
        assert_int_equal(vc_context(ctx, "%s", name), VC_E_FORMAT);
        assert_true(ends_with(vc_ctx_message(ctx), ": its shape is wrong"));
        assert_true(strncmp(vc_ctx_message(ctx), name, n <= 200 ? n - 1 : 200) == 0);
        assert_int_equal(vc_fail_errno(ctx, ENOENT, "%s", name), VC_E_IO);
        assert_true(ends_with(vc_ctx_message(ctx), ": No such file or directory"));
    }
}

/* What is left out begins and ends between characters. */
static void test_characters_stay_whole(void **unused)
{
    static char name[4097];
    const char *gap;
    size_t shift;
    size_t i;

    (void)unused;
    for (shift = 0; shift < 3; shift++) {
        memset(name, 'a', shift);
        for (i = shift; i + 4 <= sizeof name; i += 3) {
            memcpy(name + i, "\xe2\x82\xac", 4);
        }
        assert_int_equal(vc_fail(ctx, VC_E_FORMAT, "%s: wrong", name), VC_E_FORMAT);
        gap = strstr(vc_ctx_message(ctx), " ... ");
        assert_non_null(gap);
        assert_memory_equal(gap - 3, "\xe2\x82\xac", 3);
        assert_memory_equal(gap + 5, "\xe2\x82\xac", 3);
    }
}

/* Without memory for the whole sentence its beginning has to do; nothing fails. */
static void test_no_memory(void **unused)
{
    static char name[4096];

    (void)unused;
    memset(name, 'x', sizeof name - 1);
    assert_int_equal(vc_ctx_set_max_memory(ctx, 1024), VC_OK);
    assert_int_equal(vc_fail(ctx, VC_E_FORMAT, "%s: wrong", name), VC_E_FORMAT);
    assert_int_equal(strlen(vc_ctx_message(ctx)), VC_MESSAGE_BYTES - 1);
    assert_int_equal(strspn(vc_ctx_message(ctx), "x"), VC_MESSAGE_BYTES - 1);
}

static void test_finding_of_a_long_name(void **unused)
{
    static char name[4096];
    struct vc_findings findings = {0};
    size_t n;

    (void)unused;
    ctx->findings = &findings;
    for (n = 900; n < 1100; n++) {
        memset(name, 'x', n);
        name[n] = '\0';
        assert_int_equal(vc_fail(ctx, VC_E_FORMAT, "%s: wrong", name), VC_E_FORMAT);
        assert_int_equal(vc_collect(ctx, VC_E_FORMAT, "shape", name), VC_OK);
        assert_true(ends_with(findings.list[findings.n - 1].sentence, "wrong"));
    }
    ctx->findings = NULL;
    vc_findings_release(ctx, &findings);
}

static const char *flag_of(const char *field)
{
    return strcmp(field, "max_memory") == 0 ? "--max-memory" : NULL;
}

/* Sentences say the caller's name of an option, those of a worker's context, too. */
static void test_option_names(void **unused)
{
    struct vc_ctx worker;

    (void)unused;
    assert_int_equal(vc_ctx_set_max_memory(ctx, 4096), VC_OK);
    assert_null(vc_alloc(ctx, VC_TAG_MISC, 1 << 20));
    assert_non_null(strstr(vc_ctx_message(ctx), "bytes: max_memory is 4096 bytes, and at least 1"));
    vc_ctx_set_option_names(ctx, flag_of);
    vc_ctx_fork(ctx, &worker);
    assert_null(vc_alloc(&worker, VC_TAG_MISC, 1 << 20));
    assert_non_null(strstr(vc_ctx_message(&worker), "bytes: --max-memory is 4096 bytes, and at least 1"));
    assert_string_equal(vc_option(ctx, "target=f16"), "target=f16");
    vc_ctx_set_option_names(ctx, NULL);
    assert_string_equal(vc_option(&worker, "max_memory"), "max_memory");
}

/* A new context has a limit, which holds for allocations; 0 gives it back. */
static void test_default_limit(void **unused)
{
    uint64_t most = vc_ctx_max_memory(ctx);

    (void)unused;
    assert_true(most >= (uint64_t)64 << 20);
    assert_int_equal(vc_pool_limit(ctx->shared->pool), most);
    assert_int_equal(vc_ctx_max_memory(ctx), most); /* not looked at again */
    assert_null(vc_alloc(ctx, VC_TAG_MISC, (size_t)most + 1));
    assert_non_null(strstr(vc_ctx_message(ctx), "bytes: max_memory is "));
    assert_non_null(strstr(vc_ctx_message(ctx), ", a quarter of what was free"));
    assert_int_equal(vc_ctx_set_max_memory(ctx, 4096), VC_OK);
    assert_int_equal(vc_pool_limit(ctx->shared->pool), 4096);
    assert_int_equal(vc_ctx_set_max_memory(ctx, 0), VC_OK);
    assert_true(vc_ctx_max_memory(ctx) >= (uint64_t)64 << 20);
    assert_int_equal(vc_pool_limit(ctx->shared->pool), vc_ctx_max_memory(ctx));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_short, make, unmake),
        cmocka_unit_test_setup_teardown(test_reason_stays, make, unmake),
        cmocka_unit_test_setup_teardown(test_characters_stay_whole, make, unmake),
        cmocka_unit_test_setup_teardown(test_no_memory, make, unmake),
        cmocka_unit_test_setup_teardown(test_finding_of_a_long_name, make, unmake),
        cmocka_unit_test_setup_teardown(test_option_names, make, unmake),
        cmocka_unit_test_setup_teardown(test_default_limit, make, unmake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
