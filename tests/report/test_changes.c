/* test_changes.c - what differs between two documents: values of every kind, items by name and by place, every
 * allocation failing in turn; short tables of documents. As commands show them: tests/cli/cases/documents.test. */
#include <stdio.h>
#include <string.h>

#include <vcompress/changes.h>

#include "scratch.h"
#include "support.h"

static void expect(const struct vc_changes *changes, size_t i, const char *name, const char *member, const char *a,
                   const char *b)
{
    const struct vc_change *change = &changes->changes[i];

    assert_true(i < changes->n);
    assert_string_equal(change->name == NULL ? "-" : change->name, name);
    assert_string_equal(change->member, member);
    assert_string_equal(change->a == NULL ? "-" : change->a, a);
    assert_string_equal(change->b == NULL ? "-" : change->b, b);
}

static void test_every_kind(void **unused)
{
    static const char first[] = "{\"schema\": \"vcompress.x/1\", \"tool\": \"1\", \"run\": {\"seconds\": 1, \"n\": 2}, "
                                "\"n\": 1, \"s\": \"a\\\"b\","
                                "\"gone\": true, \"null\": null, \"list\": [1, 2], \"same\": 1.0, \"items\": ["
                                "{\"name\": \"w\", \"n\": 5, \"parts\": [{\"x\": 1}]}, {\"name\": \"only\", \"n\": "
                                "1}], \"rows\": [{\"v\": 1}, {\"v\": 2}]}";
    static const char second[] = "{\"schema\": \"vcompress.x/1\", \"tool\": \"2\", \"run\": {\"seconds\": 9, \"n\": "
                                 "3}, \"n\": 1.5, \"s\": \"a\","
                                 "\"list\": [1, 3], \"same\": 1, \"items\": [{\"name\": \"new\", \"n\": 1}, "
                                 "{\"name\": \"w\", \"n\": 6, \"parts\": [{\"x\": 2}]}], \"rows\": [{\"v\": 1}, "
                                 "{\"v\": 3}], \"more\": {\"k\": 1}}";
    struct vc_ctx *ctx = test_ctx();
    struct vc_changes *changes = NULL;
    enum vc_status status = VC_E_NOMEM;
    uint64_t n = 0;
    char *text = NULL;

    (void)unused;
    (void)save_text("a.json", first);
    (void)save_text("b.json", second);
    while (status != VC_OK) {
        vc_pool_fail_at(ctx->shared->pool, ++n, 0);
        status = vc_changes_of_documents(ctx, in_folder("a.json"), in_folder("b.json"), &changes);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK || (status == VC_E_NOMEM && changes == NULL));
    }
    assert_true(n > 5);
    assert_string_equal(changes->schema, "vcompress.x/1");
    expect(changes, 0, "-", "run.n", "2", "3");
    expect(changes, 1, "-", "n", "1", "1.5");
    assert_true(changes->changes[1].numbers && changes->changes[1].y == 1.5);
    expect(changes, 2, "-", "s", "\"a\\\"b\"", "\"a\"");
    expect(changes, 3, "-", "gone", "true", "-");
    expect(changes, 4, "-", "list", "[1,2]", "[1,3]");
    expect(changes, 5, "-", "more", "-", "{\"k\":1}");
    expect(changes, 6, "w", "n", "5", "6");
    expect(changes, 7, "w", "parts", "[{\"x\":1}]", "[{\"x\":2}]");
    expect(changes, 8, "only", "", "true", "-");
    expect(changes, 9, "new", "", "-", "true");
    expect(changes, 10, "1", "v", "2", "3");
    assert_int_equal(changes->n, 11);
    assert_int_equal(changes->n_items, 4);
    assert_int_equal(vc_changes_json(ctx, changes, &text), VC_OK);
    assert_non_null(strstr(text, "{\"list\": \"items\", \"name\": \"w\", \"member\": \"n\", \"a\": 5, \"b\": 6},\n"));
    vc_text_free(text);
    vc_changes_free(changes);
    test_ctx_done(ctx);
}

static void test_refusals(void **unused)
{
    static const char *const texts[] = {"",
                                        "[]",
                                        "{\"schema\": \"other\"}",
                                        "{\"schema\": \"vcompress.x/1\"",
                                        "{\"schema\": \"vcompress.x/2\"}",
                                        "{\"schema\": \"vcompress.x/1\", \"error\": {}}",
                                        "{\"schema\": \"vcompress.x/1\", \"a\": 1, \"a\": 2}"};
    struct vc_ctx *ctx = test_ctx();
    struct vc_changes *changes;
    const char *good = "good.json";
    char *text;

    (void)unused;
    (void)save_text(good, "{\"schema\": \"vcompress.x/1\", \"big\": 18446744073709551615}");
    assert_int_equal(vc_changes_of_documents(ctx, in_folder(good), in_folder(good), &changes), VC_OK);
    assert_int_equal(changes->n, 0);
    vc_changes_free(changes);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        (void)save_text("bad.json", texts[i]);
        assert_int_equal(vc_changes_of_documents(ctx, in_folder(good), in_folder("bad.json"), &changes), VC_E_FORMAT);
        assert_null(changes);
    }
    assert_int_equal(vc_changes_of_documents(ctx, in_folder(good), in_folder("none.json"), &changes), VC_E_IO);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(vc_document_markdown(ctx, texts[i], &text), VC_E_FORMAT);
        assert_null(text);
    }
    test_ctx_done(ctx);
}

/* Documents that lack everything, and names that would be markup. */
static void test_markdown(void **unused)
{
    static const char *const kinds[] = {"report", "distill", "diff", "changes"};
    struct vc_ctx *ctx = test_ctx();
    char document[64];
    char *text;

    (void)unused;
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(document, sizeof document, "{\"schema\": \"vcompress.%s/1\"}", kinds[i]);
        assert_int_equal(vc_document_markdown(ctx, document, &text), VC_OK);
        assert_int_equal(strncmp(text, "**vcompress", 11), 0);
        vc_text_free(text);
    }
    assert_int_equal(
        vc_document_markdown(
            ctx,
            "{\"schema\": \"vcompress.report/1\", \"command\": \"run [x](y)\", \"input\": {\"path\": \"a|`b\\n\"}, "
            "\"totals\": {\"file\": {\"before\": 4096, \"after\": 1024}, \"sqnr_db\": 40.25}}",
            &text),
        VC_OK);
    assert_non_null(strstr(text, "**vcompress run** `a\\|'b `\n"));
    assert_non_null(strstr(text, "| file | 4.00 KiB | 1.00 KiB | 4\xc3\x97 smaller |\n"));
    assert_non_null(strstr(text, "| SQNR |  | 40.2 dB |  |\n"));
    vc_text_free(text);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_markdown),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
