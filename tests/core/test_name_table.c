/* test_name_table.c - names found by hash among many: each of them, others, prefixes, names that occur twice; no room.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/text/name_table.h"

#define N_NAMES ((size_t)5000)

struct named {
    const char *name;
    int other;
};

static char texts[N_NAMES][32];
static struct named list[N_NAMES];

static struct vc_name_list names(void)
{
    for (size_t i = 0; i < N_NAMES; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "layers.%zu.w", i);
        list[i].name = texts[i];
    }
    return VC_NAME_LIST(list, sizeof *list);
}

static void test_find(void **unused)
{
    struct vc_name_list all = names();
    struct vc_name_table table = {{.slots = NULL}};
    struct vc_ctx *ctx = NULL;

    (void)unused;
    assert_int_equal(vc_ctx_create(&ctx), VC_OK);
    assert_int_equal(vc_name_table_find(&table, all, "layers.1.w", 10), SIZE_MAX);
    assert_int_equal(vc_name_table_make(ctx, N_NAMES, &table), VC_OK);
    for (size_t i = 0; i < N_NAMES; i++) {
        assert_int_equal(vc_name_table_find(&table, all, texts[i], strlen(texts[i])), SIZE_MAX);
        assert_int_equal(vc_name_table_add(&table, all, i), SIZE_MAX);
    }
    for (size_t i = 0; i < N_NAMES; i++) {
        assert_int_equal(vc_name_table_find(&table, all, texts[i], strlen(texts[i])), i);
        assert_int_equal(vc_name_table_add(&table, all, i), i);
    }
    assert_int_equal(vc_name_table_find(&table, all, "layers.17.w.scale", 11), 17); /* the first 11 characters */
    assert_int_equal(vc_name_table_find(&table, all, "layers.17.w.scale", 17), SIZE_MAX);
    assert_int_equal(vc_name_table_find(&table, all, "layers.17.", 10), SIZE_MAX);
    assert_int_equal(vc_name_table_find(&table, all, "", 0), SIZE_MAX);
    list[3].name = "";
    assert_int_equal(vc_name_table_make(ctx, N_NAMES, &table), VC_OK);
    assert_int_equal(vc_name_table_add(&table, all, 3), SIZE_MAX);
    assert_int_equal(vc_name_table_find(&table, all, "", 0), 3);
    vc_name_table_release(ctx, &table);
    vc_ctx_free(ctx);
}

static void test_unique(void **unused)
{
    struct vc_name_list all = names();
    struct vc_ctx *ctx = NULL;
    size_t twice = 0;

    (void)unused;
    assert_int_equal(vc_ctx_create(&ctx), VC_OK);
    assert_int_equal(vc_names_unique(ctx, all, 0, &twice), VC_OK);
    assert_int_equal(twice, SIZE_MAX);
    assert_int_equal(vc_names_unique(ctx, all, N_NAMES, &twice), VC_OK);
    assert_int_equal(twice, SIZE_MAX);
    list[N_NAMES - 1].name = "layers.2.w";
    assert_int_equal(vc_names_unique(ctx, all, N_NAMES, &twice), VC_OK);
    assert_int_equal(twice, N_NAMES - 1);
    vc_pool_fail_at(ctx->shared->pool, 1, 1);
    assert_int_equal(vc_names_unique(ctx, all, N_NAMES, &twice), VC_E_NOMEM);
    vc_pool_fail_at(ctx->shared->pool, 0, 0);
    assert_int_equal(vc_names_unique(ctx, all, SIZE_MAX / 8, &twice), VC_E_NOMEM);
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_unique),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
