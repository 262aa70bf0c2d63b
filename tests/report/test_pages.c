/* test_pages.c - documents as pages: names that would be markup, documents that are none, long lists, members that a
 * page adds, every allocation failing in turn. That the pages of commands are whole is checked in tests/cli with
 * tests/page/check_page.py, how they look and work in a browser by tests/page/test_browser.py. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vcompress/experimental.h>

#include "core/text/text.h"
#include "support.h"

static char *page_of(struct vc_ctx *ctx, const char *document, const char *drawing)
{
    char *text = NULL;

    assert_int_equal(vc_page_html(ctx, document, drawing, &text), VC_OK);
    assert_non_null(text);
    return text;
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("%s is not on the page", part);
    }
}

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;

    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) {
        n++;
    }
    return n;
}

/* Names are text, in the document and in the tables. */
static void test_names_are_text(void **unused)
{
    static const char document[] =
        "{\"schema\": \"vcompress.inspect/1\", \"input\": {\"path\": \"d/<b>&.npz\"}, \"tensors\": ["
        "{\"name\": \"</script><script>alert(1)</script>\", \"shape\": [8, 4], \"quant\": null},\n"
        "{\"name\": \"\xe2\x80\xa8\xe2\x80\xae\\u0007]]><!--\", \"shape\": [], \"quant\": {\"bits\": 4}}]}";
    struct vc_ctx *ctx = test_ctx();
    char *plain = page_of(ctx, "{}", NULL);
    char *text = page_of(ctx, document, NULL);

    (void)unused;
    has(text, "{\"name\": \"\\u003c/script>\\u003cscript>alert(1)\\u003c/script>\"");
    has(text, "\"\\u2028\xe2\x80\xae\\u0007]]>\\u003c!--\"");
    has(text, "<title>&lt;b&gt;&amp;.npz &#183; inspect</title>");
    has(text, "<th>name</th><th>shape</th><th>quant</th>");
    has(text, "<tr><td>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</td><td>8, 4</td><td></td></tr>");
    has(text, "<tr><td>???????]]&gt;&lt;!--</td><td></td><td>bits 4</td></tr>");
    assert_int_equal(count_of(text, "<script"), count_of(plain, "<script"));
    assert_int_equal(count_of(text, "</script"), count_of(plain, "</script"));
    assert_int_equal(strncmp(text, "<!DOCTYPE html>\n<!-- vcompress page -->", 39), 0);
    vc_text_free(plain);
    vc_text_free(text);
    test_ctx_done(ctx);
}

static void test_values(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    char *text = page_of(
        ctx,
        "{\"schema\": \"vcompress.report/1\", \"command\": \"quantize --int8\", \"dry_run\": false, \"totals\": {"
        "\"file\": {\"before\": 18446744073709551615, \"ratio\": 3.5}, \"note\": null}, \"list\": [1, 2.5, true]}",
        "<!-- vcompress graph -->\n<svg><style>a{}</style></svg>\n");

    (void)unused;
    has(text, "<title>quantize</title>");
    has(text, "<tr><th>totals.file.before</th><td>1.8446744073709552e+19</td></tr>");
    has(text, "<tr><th>dry_run</th><td>no</td></tr>");
    has(text, "<tr><th>list</th><td>1, 2.5, yes</td></tr>");
    assert_null(strstr(text, "<th>totals.note"));
    has(text, "<template shadowrootmode=\"open\"><svg><style>a{}</style></svg>");
    vc_text_free(text);
    test_ctx_done(ctx);
}

static void refused(struct vc_ctx *ctx, const char *document)
{
    char *text = NULL;

    assert_int_equal(vc_page_html(ctx, document, NULL, &text), VC_E_FORMAT);
    assert_null(text);
    has(vc_ctx_message(ctx), "the document is no JSON");
}

static void test_no_documents(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    char deep[9001];

    (void)unused;
    refused(ctx, "");
    refused(ctx, "{");
    refused(ctx, "\xff\xfe");
    refused(ctx, "{\"a\": 1} {}");
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    refused(ctx, deep);
    for (size_t i = 0; i < 200; i++) { /* deeper than a table goes */
        memcpy(deep + 5 * i, "{\"a\":", 5);
        deep[1001 + i] = '}';
    }
    deep[1000] = '1';
    deep[1201] = '\0';
    vc_text_free(page_of(ctx, deep, ""));
    vc_text_free(page_of(ctx, "[]", "no drawing"));
    test_ctx_done(ctx);
}

/* Ten thousand tensors: all in the document, the first ones in the tables. */
static void test_long_lists(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_text document;
    char *text;

    (void)unused;
    vc_text_init(&document, ctx);
    vc_text_add(&document, "{\"tensors\": [");
    for (unsigned i = 0; i < 10000; i++) {
        vc_text_add(&document, "%s{\"name\": \"w%u\", \"bytes\": %u}", i == 0 ? "" : ",\n", i, i);
    }
    vc_text_add(&document, "]}");
    assert_int_equal(document.status, VC_OK);
    text = page_of(ctx, document.data, NULL);
    has(text, "{\"name\": \"w9999\", \"bytes\": 9999}");
    has(text, "<tr><td>w1999</td><td>1999</td></tr>\n<tr><td>and 8000 more</td></tr>");
    assert_int_equal(count_of(text, "<tr><td>w"), 2000);
    vc_text_free(text);
    vc_text_release(&document);
    test_ctx_done(ctx);
}

static char *copy(struct vc_ctx *ctx, const char *from)
{
    struct vc_text text;

    vc_text_init(&text, ctx);
    vc_text_add(&text, "%s", from);
    return vc_text_detach(&text);
}

/* 10,000 tensors, and one that is not within limits. */
static char *long_document(struct vc_ctx *ctx)
{
    struct vc_text document;

    vc_text_init(&document, ctx);
    vc_text_add(&document, "{\"schema\": \"vcompress.diff/1\", \"tensors\": [");
    for (unsigned i = 0; i < 10000; i++) {
        vc_text_add(&document, "{\"name\": \"w%u\", \"kind\": \"values\", \"within\": %s},\n", i,
                    i == 8765 ? "false" : "true");
    }
    vc_text_add(&document, "{\"name\": \"last\", \"within\": true}]}");
    return vc_text_detach(&document);
}

/* Whatever is made of a document is in the pool: not the whole document as a tree, and nothing beyond the limit. */
static void test_memory(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_pool *pool = ctx->shared->pool;
    char *document = long_document(ctx);
    uint64_t n = strlen(document);
    char *text = NULL;

    (void)unused;
    assert_in_range(vc_pool_in_use(pool), n, 2 * n);
    vc_ctx_set_max_memory(ctx, 6 * n);
    text = page_of(ctx, document, NULL);
    assert_in_range(vc_pool_in_use(pool), 2 * n, 4 * n);
    assert_true(vc_pool_peak(pool) > 3 * n); /* 2,000 items as a tree, beside the document */
    vc_text_free(text);
    assert_int_equal(vc_document_markdown(ctx, document, 3, &text), VC_OK);
    has(text, "|---|---|---:|---:|\n| `w8765` | values |");
    assert_int_equal(count_of(text, "\n| "), 2);
    vc_text_free(text);
    vc_ctx_set_max_memory(ctx, vc_pool_in_use(pool) + 2 * n); /* a smaller tree, so tables have fewer lines */
    text = page_of(ctx, document, NULL);
    assert_int_equal(count_of(text, "<tr><td>w"), 1000);
    has(text, "{\"name\": \"last\", \"within\": true}");
    vc_text_free(text);
    vc_ctx_set_max_memory(ctx, vc_pool_in_use(pool) + n / 2); /* no room for the page */
    assert_int_equal(vc_page_html(ctx, document, NULL, &text), VC_E_NOMEM);
    assert_null(text);
    vc_text_free(document);
    assert_int_equal(vc_pool_in_use(pool), 0);
    vc_ctx_set_max_memory(ctx, 0);
    text = copy(ctx, "stays");
    vc_ctx_free(ctx);
    assert_string_equal(text, "stays"); /* and its context's memory with it */
    vc_text_free(text);
}

static void test_members(void **unused)
{
    static const double term = 0.5;
    static const struct vc_distill_step steps[] = {
        {.step = 1, .n_steps = 9, .loss = 2.5, .lr = 0.1, .sparsity = (double)NAN},
        {.step = 1, .n_steps = 9, .loss = 7.5, .control = true},
        {.step = 2, .n_steps = 9, .loss = 1.5, .matches = &term, .n_matches = 1}};
    static const char *const names[] = {"conv1"};
    static const struct vc_memory_point points[] = {{3, {[VC_MEMORY_PARAMETERS] = 8}}};
    static const struct vc_memory_timeline timeline = {
        .n_steps = 4, .backward = 2, .n_points = 1, .points = points, .names = names};
    static const struct vc_value_histogram one = {
        .name = "a\"b", .scheme = "", .levels = {0.5}, .n_levels = 1, .compared = true};
    static const struct vc_value_histograms histograms = {1, &one};
    struct vc_ctx *ctx = test_ctx();
    char *document = copy(ctx, "{\n  \"schema\": \"x\"\n}\n");
    char *broken = copy(ctx, "[]");
    char *text;

    (void)unused;
    assert_int_equal(vc_document_add(ctx, &document, "command_line", NULL, "a b"), VC_OK);
    assert_int_equal(vc_document_add(ctx, &document, "steps", "[]", NULL), VC_OK);
    assert_string_equal(document, "{\n  \"schema\": \"x\",\n\"command_line\": \"a b\",\n\"steps\": []\n}\n");
    assert_int_equal(vc_document_add(ctx, &broken, "steps", "[]", NULL), VC_E_FORMAT);
    assert_string_equal(broken, "[]");
    vc_text_free(broken);
    vc_text_free(document);
    assert_int_equal(
        vc_document_json(ctx, &(struct vc_document){.kind = VC_DOCUMENT_STEPS, .of = steps, .n = 3}, &text), VC_OK);
    assert_int_equal(count_of(text, "\"step\""), 2); /* without the control run */
    has(text, "\"loss\": 2.5, \"kd\": 0, \"ce\": 0, \"lr\": 0.1, \"grad_norm\": 0, \"sparsity\": null, ");
    has(text, "\"matches\": [0.5]");
    vc_text_free(text);
    assert_int_equal(vc_document_json(ctx, &(struct vc_document){.kind = VC_DOCUMENT_TIMELINE, .of = &timeline}, &text),
                     VC_OK);
    has(text, "\"backward\": 2,\n  \"peak\": 0,\n  \"points\": [\n    {\"step\": 3, \"parameters\": 8}\n  ],\n  "
              "\"operators\": [\"conv1\"]");
    vc_text_free(text);
    assert_int_equal(
        vc_document_json(ctx, &(struct vc_document){.kind = VC_DOCUMENT_HISTOGRAMS, .of = &histograms}, &text), VC_OK);
    has(text, "{\"tensor\": \"a\\\"b\", \"scheme\": \"\", ");
    has(text, "\"levels\": [0.5], \"level_counts\": [0]}");
    vc_text_free(text);
    test_ctx_done(ctx);
}

static void test_out_of_memory(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    char *document = copy(ctx, "{\"tensors\": [{\"name\": \"w\"}]}");
    enum vc_status status = VC_E_NOMEM;
    uint64_t n = 0;

    (void)unused;
    while (status != VC_OK) {
        char *text = NULL;

        vc_pool_fail_at(ctx->shared->pool, ++n, 0);
        status = vc_document_add(ctx, &document, "more", "[1, 2]", NULL);
        if (status == VC_OK) {
            status = vc_page_html(ctx, document, "<svg></svg>", &text);
        }
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK || (status == VC_E_NOMEM && text == NULL));
        vc_text_free(text);
    }
    assert_true(n > 2);
    vc_text_free(document);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_text), cmocka_unit_test(test_values), cmocka_unit_test(test_no_documents),
        cmocka_unit_test(test_long_lists),     cmocka_unit_test(test_memory), cmocka_unit_test(test_members),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
