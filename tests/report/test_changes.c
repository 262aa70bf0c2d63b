/* test_changes.c - what differs between two documents: values of every kind, items by name and by place, every
 * allocation failing in turn; short tables of documents. As commands show them: tests/cli/cases/documents.test. */
#include <stdio.h>
#include <string.h>

#include <vcompress/page.h>

#include "scratch.h"
#include "support.h"

static void test_every_kind(void **unused)
{
    static const char first[] =
        "{\"schema\": \"vcompress.x/1\", \"tool\": \"1\", \"command\": \"one\", \"run\": {\"seconds\": 1, \"n\": 2}, "
        "\"n\": 1, \"s\": \"a\\\"b\","
        "\"gone\": true, \"null\": null, \"list\": [1, 2], \"same\": 1.0, \"items\": ["
        "{\"name\": \"w\", \"n\": 5, \"parts\": [{\"x\": 1}]}, {\"name\": \"only\", \"n\": "
        "1}], \"rows\": [{\"v\": 1}, {\"v\": 2}]}";
    static const char second[] =
        "{\"schema\": \"vcompress.x/1\", \"tool\": \"2\", \"command\": \"two\", \"run\": {\"seconds\": 9, \"n\": "
        "3}, \"n\": 1.5, \"s\": \"a\","
        "\"list\": [1, 3], \"same\": 1, \"items\": [{\"name\": \"new\", \"n\": 1}, "
        "{\"name\": \"w\", \"n\": 6, \"parts\": [{\"x\": 2}]}], \"rows\": [{\"v\": 1}, "
        "{\"v\": 3}], \"more\": {\"k\": 1}}";
    struct vc_ctx *ctx = test_ctx();
    enum vc_status status = VC_E_NOMEM;
    size_t n_changes;
    uint64_t n = 0;
    char *text = NULL;

    (void)unused;
    (void)save_text("a.json", first);
    (void)save_text("b.json", second);
    while (status != VC_OK) {
        vc_pool_fail_at(ctx->shared->pool, ++n, 0);
        status = vc_changes_json(ctx, in_folder("a.json"), in_folder("b.json"), &n_changes, &text);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK || (status == VC_E_NOMEM && text == NULL));
    }
    assert_true(n > 2);
    assert_int_equal(n_changes, 11);
    assert_non_null(strstr(text, "\"of\": \"vcompress.x/1\",\n"));
    assert_non_null(strstr(text, "\"command\": \"one\"},\n"));
    assert_non_null(strstr(
        text,
        "\"changes\": [\n"
        "    {\"list\": null, \"name\": null, \"member\": \"run.n\", \"a\": 2, \"b\": 3},\n"
        "    {\"list\": null, \"name\": null, \"member\": \"n\", \"a\": 1, \"b\": 1.5},\n"
        "    {\"list\": null, \"name\": null, \"member\": \"s\", \"a\": \"a\\\"b\", \"b\": \"a\"},\n"
        "    {\"list\": null, \"name\": null, \"member\": \"gone\", \"a\": true, \"b\": null},\n"
        "    {\"list\": null, \"name\": null, \"member\": \"list\", \"a\": [1,2], \"b\": [1,3]},\n"
        "    {\"list\": null, \"name\": null, \"member\": \"more\", \"a\": null, \"b\": {\"k\":1}},\n"
        "    {\"list\": \"items\", \"name\": \"w\", \"member\": \"n\", \"a\": 5, \"b\": 6},\n"
        "    {\"list\": \"items\", \"name\": \"w\", \"member\": \"parts\", \"a\": [{\"x\":1}], \"b\": [{\"x\":2}]},\n"
        "    {\"list\": \"items\", \"name\": \"only\", \"member\": \"\", \"a\": true, \"b\": null},\n"
        "    {\"list\": \"items\", \"name\": \"new\", \"member\": \"\", \"a\": null, \"b\": true},\n"
        "    {\"list\": \"rows\", \"name\": \"1\", \"member\": \"v\", \"a\": 2, \"b\": 3}\n"
        "  ],\n  \"same\": false\n}\n"));
    vc_text_free(text);
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
    size_t n;
    const char *good = "good.json";
    char *text;

    (void)unused;
    (void)save_text(good, "{\"schema\": \"vcompress.x/1\", \"big\": 18446744073709551615}");
    assert_int_equal(vc_changes_json(ctx, in_folder(good), in_folder(good), &n, &text), VC_OK);
    assert_int_equal(n, 0);
    assert_non_null(strstr(text, "\"changes\": [],\n  \"same\": true\n}\n"));
    vc_text_free(text);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        (void)save_text("bad.json", texts[i]);
        assert_int_equal(vc_changes_json(ctx, in_folder(good), in_folder("bad.json"), &n, &text), VC_E_FORMAT);
        assert_null(text);
    }
    assert_int_equal(vc_changes_json(ctx, in_folder(good), in_folder("none.json"), &n, &text), VC_E_IO);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(vc_document_markdown(ctx, texts[i], 12, &text), VC_E_FORMAT);
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
        assert_int_equal(vc_document_markdown(ctx, document, 12, &text), VC_OK);
        assert_int_equal(strncmp(text, "**vcompress", 11), 0);
        vc_text_free(text);
    }
    assert_int_equal(
        vc_document_markdown(
            ctx,
            "{\"schema\": \"vcompress.report/1\", \"command\": \"run [x](y)\", \"input\": {\"path\": \"a|`b\\n\"}, "
            "\"totals\": {\"file\": {\"before\": 4096, \"after\": 1024}, \"sqnr_db\": 40.25}}",
            12, &text),
        VC_OK);
    assert_non_null(strstr(text, "**vcompress run** `a\\|'b `\n"));
    assert_non_null(strstr(text, "| file | 4.00 KiB | 1.00 KiB | 4\xc3\x97 smaller |\n"));
    assert_non_null(strstr(text, "| SQNR |  | 40.2 dB |  |\n"));
    vc_text_free(text);
    test_ctx_done(ctx);
}

/* What pages add to documents is not compared. A member that is a document's own is, also where pages add one of this name to others. */
static void test_members_of_pages(void **unused)
{
    static const struct {
        const char *schema, *members[2];
        size_t n;
    } cases[] = {
        {"vcompress.report/1", {"\"histograms\": [1], \"gpus\": {\"a\": 1}", "\"command_line\": \"c\""}, 0},
        {"vcompress.distill/1", {"\"steps\": [{\"step\": 1}]", "\"steps\": [{\"step\": 2}]"}, 0},
        {"vcompress.gpus/1", {"\"gpus\": [{\"name\": \"A\"}]", "\"gpus\": [{\"name\": \"B\"}]"}, 2},
        {"vcompress.plan/1", {"\"gpus\": 1", "\"gpus\": 2"}, 1},
    };
    struct vc_ctx *ctx = test_ctx();

    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char document[256];
        char *text;
        size_t n = 9;

        for (int side = 0; side < 2; side++) {
            (void)snprintf(document, sizeof document, "{\"schema\": \"%s\", %s}", cases[i].schema,
                           cases[i].members[side]);
            (void)save_text(side == 0 ? "a.json" : "b.json", document);
        }
        assert_int_equal(vc_changes_json(ctx, in_folder("a.json"), in_folder("b.json"), &n, &text), VC_OK);
        assert_int_equal(n, cases[i].n);
        vc_text_free(text);
    }
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_markdown),
        cmocka_unit_test(test_members_of_pages),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
