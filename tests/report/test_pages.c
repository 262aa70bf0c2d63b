/* test_pages.c - reports as pages: names that would be markup, figures, long lists, every allocation failing in turn.
 * That pages are well-formed and refer to nothing is checked in tests/cli with tests/page/check_page.py. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "report/pages/page_write.h"
#include "support.h"

static const uint64_t shape[] = {64, 128};

static struct vc_report_row row(const char *name)
{
    return (struct vc_report_row){.name = name,
                                  .action = VC_ACTION_QUANTIZED,
                                  .dtype_before = VC_DTYPE_F32,
                                  .dtype_after = VC_DTYPE_I8,
                                  .scheme = "int8/channel",
                                  .reason = "",
                                  .n_dims = 2,
                                  .shape = shape,
                                  .n_elems = 8192,
                                  .bytes_before = 32768,
                                  .bytes_after = 8448,
                                  .scale_bytes = 256,
                                  .sqnr_db = 40.5,
                                  .zeros_after = 4096,
                                  .measured = true};
}

static struct vc_report report_of(const struct vc_report_row *rows, size_t n)
{
    return (struct vc_report){.command = "quantize --int8",
                              .input = "dir/in.npz",
                              .output = "",
                              .input_format = "npz",
                              .output_format = "npz",
                              .gate_missed = "",
                              .device = "",
                              .rows = rows,
                              .n_rows = n,
                              .written = true,
                              .totals = {.worst = 0,
                                         .measured = true,
                                         .sqnr_db = 41,
                                         .n_tensors = n,
                                         .n_changed = n,
                                         .file_before = 40000,
                                         .file_after = 10000,
                                         .host_before = 32768 * n,
                                         .host_after = 8448 * n,
                                         .scale_bytes = 256 * n}};
}

static char *page_of(struct vc_ctx *ctx, const struct vc_report *report, const struct vc_page_options *options)
{
    char *text = NULL;

    assert_int_equal(vc_report_html(ctx, report, options, &text), VC_OK);
    assert_non_null(text);
    return text;
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("%s is not in the page", part);
    }
}

static void has_not(const char *text, const char *part)
{
    if (strstr(text, part) != NULL) {
        fail_msg("%s is in the page", part);
    }
}

static void test_names_are_escaped(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    const struct vc_report_row rows[] = {row("<script>&\"'\x01\xff\xc3\xa9\xe2\x80\xae]]>")};
    struct vc_report report = report_of(rows, 1);
    struct vc_page_options options;
    char *text;

    (void)unused;
    vc_page_defaults(&options);
    options.command = "vcompress '<b>'";
    report.input = "dir/<i>.npz";
    text = page_of(ctx, &report, &options);
    has(text, "&lt;script&gt;&amp;&quot;&#39;??\xc3\xa9???]]&gt;");
    has(text, "<title>&lt;i&gt;.npz");
    has(text, "vcompress &#39;&lt;b&gt;&#39;");
    has_not(text, "<script");
    has_not(text, "<i>");
    has_not(text, "\x01");
    vc_text_free(text);
    test_ctx_done(ctx);
}

static void test_what_it_says(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    const struct vc_report_row rows[] = {row("layers.0.w"), row("layers.1.w"), row("head")};
    struct vc_report report = report_of(rows, 3);
    const struct vc_report_note note = {"input", "a note & more"};
    struct vc_report_pruning pruning = {.n_tensors = 1, .measured = true, .sparsity = 0.5};
    char *text = page_of(ctx, &report, NULL);
    char *again = page_of(ctx, &report, NULL);

    (void)unused;
    assert_string_equal(text, again);
    vc_text_free(again);
    assert_true(strncmp(text, "<!DOCTYPE html>\n<!-- vcompress quantize -->\n", 44) == 0);
    has(text, "4.00&#215;</p><p>smaller file");
    has(text, "<span class=\"name\">layers.*.w</span> <span class=\"sub\">&#215;2</span>");
    has(text, "f32 &#8594; int8/channel");
    has(text, "Error map");
    has_not(text, "Sparsity map");
    vc_text_free(text);
    report.gate_missed = "too <large>";
    report.written = false;
    report.notes = &note;
    report.n_notes = 1;
    report.pruning = &pruning;
    report.totals.file_after = 80000;
    text = page_of(ctx, &report, NULL);
    has(text, "&#10005; gate missed</span> too &lt;large&gt;");
    has(text, "2.00&#215;</p><p>larger file, but nothing was written");
    has(text, "a note &amp; more");
    has(text, "Sparsity map");
    vc_text_free(text);
    report.dry_run = true;
    report.totals.file_after = report.totals.file_before;
    text = page_of(ctx, &report, NULL);
    has(text, "1&#215;</p><p>the same size, planned: nothing is written");
    vc_text_free(text);
    test_ctx_done(ctx);
}

/* Rows of one group more than are told apart, and of one group with more members than a strip has cells. */
static void test_long_lists(void **unused)
{
    enum { N = 20000 };
    struct vc_report_row *rows = calloc(N, sizeof *rows);
    char(*names)[24] = calloc(N, sizeof *names);
    size_t length[2];

    (void)unused;
    assert_true(rows != NULL && names != NULL);
    for (int i = 0; i < N; i++) {
        (void)snprintf(names[i], sizeof *names, i % 2 == 0 ? "group%d" : "layers.%d.w", i);
        rows[i] = row(names[i]);
    }
    for (int k = 0; k < 2; k++) {
        struct vc_ctx *ctx = test_ctx();
        struct vc_report report = report_of(rows, k == 0 ? N / 10 : N);
        char *text = page_of(ctx, &report, NULL);

        length[k] = strlen(text);
        has(text, k == 0 ? "layers.*.w</span> <span class=\"sub\">&#215;1,000"
                         : "layers.*.w</span> <span class=\"sub\">&#215;10,000");
        has(text,
            k == 0 ? "others</span> <span class=\"sub\">&#215;841" : "others</span> <span class=\"sub\">&#215;9,841");
        has(text, "more groups</summary>");
        has(text, "viewBox=\"0 0 256 1\"");
        has_not(text, "viewBox=\"0 0 257");
        vc_text_free(text);
        assert_true(vc_pool_peak(ctx->shared->pool) < 4 << 20);
        test_ctx_done(ctx);
    }
    assert_true(length[1] < length[0] + 1000); /* ten times the tensors, a few digits more */
    free(names);
    free(rows);
}

static void test_figures(void **unused)
{
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "ru_RU.UTF-8"};
    const uint64_t dims[] = {12345678901234567890u, 2, 12345678901234567890u};
    bool found = false;

    (void)unused;
    for (int k = 0; k < 2; k++) { /* the second time with a comma, where there is such a locale */
        assert_string_equal(vc_figure_size(0).s, "0 B");
        assert_string_equal(vc_figure_size(1023).s, "1023 B");
        assert_string_equal(vc_figure_size(1536).s, "1.50 KiB");
        assert_string_equal(vc_figure_size(1048575).s, "1.00 MiB");
        assert_string_equal(vc_figure_size(UINT64_MAX).s, "16.0 EiB");
        assert_string_equal(vc_figure_count(1234567).s, "1,234,567");
        assert_string_equal(vc_figure_short(6738415616u).s, "6.74 G");
        assert_string_equal(vc_figure_short(9999).s, "9,999");
        assert_string_equal(vc_figure_ratio(10, 4).s, "2.50");
        assert_string_equal(vc_figure_ratio(10, 0).s, "-");
        assert_string_equal(vc_figure_percent(1, 3).s, "33.3 %");
        assert_string_equal(vc_figure_percent(1, 1).s, "100 %");
        assert_string_equal(vc_figure_percent(0, 0).s, "0 %");
        assert_string_equal(vc_figure_db(46.25).s, "46.2 dB");
        assert_string_equal(vc_figure_db((double)INFINITY).s, "exact");
        assert_string_equal(vc_figure_db((double)NAN).s, "-");
        assert_string_equal(vc_figure_real(0.00123456).s, "0.00123");
        assert_string_equal(vc_figure_real(-1.5e-20).s, "-1.5e-20");
        assert_string_equal(vc_figure_fixed(-12.345, 1).s, "-12.3");
        assert_string_equal(vc_figure_shape(2, shape).s, "64&#215;128");
        assert_string_equal(vc_figure_shape(0, shape).s, "scalar");
        assert_non_null(strstr(vc_figure_shape(3, dims).s, "&#8230;"));
        for (size_t i = 0; !found && i < sizeof locales / sizeof locales[0]; i++) {
            found = setlocale(LC_NUMERIC, locales[i]) != NULL;
        }
    }
    (void)setlocale(LC_NUMERIC, "C");
}

static void test_titles(void **unused)
{
    (void)unused;
    assert_string_equal(vc_page_base("a/model.npz"), "model.npz");
    assert_string_equal(vc_page_base("model.npz"), "model.npz");
    assert_string_equal(vc_page_base("a/folder/"), "folder/");
    assert_string_equal(vc_page_base("a/b/config.json"), "b/config.json");
    assert_string_equal(vc_page_base("config.json"), "config.json");
}

static void test_patterns(void **unused)
{
    static const char *const pairs[][2] = {
        {"layers.12.w", "layers.*.w"},  {"conv1.w", "conv1.w"}, {"12", "*"}, {"a.0.b.11", "a.*.b.*"},
        {"x_3_y-4:5/6", "x_*_y-*:*/*"}, {"a.1b.c", "a.1b.c"},   {"", ""},    {"1.", "*."},
    };
    char to[64];

    (void)unused;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        assert_int_equal(vc_name_pattern(pairs[i][0], to, sizeof to), strlen(pairs[i][1]));
        assert_string_equal(to, pairs[i][1]);
    }
    assert_int_equal(vc_name_pattern("layers.12.w", to, 9), 8);
    assert_string_equal(to, "layers.*");
}

static void test_out_of_memory(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    const struct vc_report_row rows[] = {row("layers.0.w"), row("layers.1.w"), row("head")};
    const struct vc_report report = report_of(rows, 3);
    enum vc_status status = VC_E_NOMEM;
    uint64_t n = 0;

    (void)unused;
    while (status != VC_OK) {
        char *text = NULL;

        vc_pool_fail_at(ctx->shared->pool, ++n, 0);
        status = vc_report_html(ctx, &report, NULL, &text);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK || (status == VC_E_NOMEM && text == NULL));
        vc_text_free(text);
    }
    assert_true(n > 4);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_escaped),
        cmocka_unit_test(test_what_it_says),
        cmocka_unit_test(test_long_lists),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_titles),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
