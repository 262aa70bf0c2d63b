/* test_report_json.c - the JSON report: null for what is not known, escapes, every allocation failing in turn. That the
 * document fits its schema is checked in tests/cli. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <vcompress/document.h>
#include <vcompress/report.h>

#include "core/base/ctx.h"

static const uint64_t shape[] = {2, 3};

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
                                  .n_elems = 6,
                                  .bytes_before = 24,
                                  .bytes_after = 14,
                                  .sqnr_db = 40.5,
                                  .measured = true};
}

static struct vc_report report_of(const struct vc_report_row *rows, size_t n)
{
    return (struct vc_report){.command = "quantize --int8",
                              .input = "in.npz",
                              .output = "",
                              .input_format = "npz",
                              .output_format = "npz",
                              .gate_missed = "",
                              .device = "",
                              .rows = rows,
                              .n_rows = n,
                              .totals = {.worst = VC_NO_TENSOR, .host_before = 24}};
}

static char *text_of(struct vc_ctx *ctx, const struct vc_report *report)
{
    char *text = NULL;

    assert_int_equal(vc_document_json(ctx, &(struct vc_document){.kind = VC_DOCUMENT_REPORT, .of = report}, &text),
                     VC_OK);
    assert_non_null(text);
    return text;
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("%s is not in %s", part, text);
    }
}

static void test_unknown_is_null(void **state)
{
    struct vc_ctx *ctx = *state;
    struct vc_report report = report_of(NULL, 0);
    char *text = text_of(ctx, &report);

    has(text, "\"path\": null, \"format\": \"npz\", \"file_bytes\": null");
    has(text, "\"seconds\": null, \"threads\": null, \"device\": null, \"peak_pool_bytes\": null");
    has(text, "\"sqnr_db\": null, \"exact\": false, \"worst_tensor\": null");
    has(text, "\"ratio\": null");
    has(text, "\"tensors\": []");
    vc_text_free(text);
}

static void test_layout(void **state)
{
    struct vc_ctx *ctx = *state;
    const struct vc_layout plain = {.name = "plain", .loader = "", .tried = "", .needs = "a command"};
    const struct vc_layout packed = {.name = "packed", .loader = "it", .tried = "it 1.2", .needs = ""};
    const struct vc_layout *layouts[] = {&plain, NULL, &packed};
    const struct vc_report_output outputs[3] = {{.path = "a"}, {.path = "b"}, {.path = "c"}};
    struct vc_report report = report_of(NULL, 0);
    char *text;

    report.n_outputs = 3;
    report.outputs = outputs;
    report.layouts = layouts;
    text = text_of(ctx, &report);
    has(text, "\"layout\": {\"name\": \"plain\", \"loader\": null, \"tried\": null, \"needs\": \"a command\"}},\n");
    has(text, "\"path\": \"b\", \"format\": null, \"file_bytes\": null, \"written\": false, \"layout\": null}");
    has(text, "{\"name\": \"packed\", \"loader\": \"it\", \"tried\": \"it 1.2\", \"needs\": null}}");
    vc_text_free(text);
}

static void test_rows(void **state)
{
    struct vc_ctx *ctx = *state;
    struct vc_report_row rows[] = {row("a\"b\\c\n\xff"), row("w")};
    struct vc_report report = report_of(rows, 2);
    char *text;

    rows[1].sqnr_db = (double)INFINITY;
    report.totals.worst = 0;
    report.totals.measured = true;
    report.gate_missed = "too large";
    text = text_of(ctx, &report);
    has(text, "\"name\": \"a\\\"b\\\\c\\u000a\xef\xbf\xbd\", \"action\": \"quantized\", \"reason\": null");
    has(text, "\"shape\": [2, 3], \"elements\": 6");
    has(text, "\"measured\": {\"sqnr_db\": 40.5, \"exact\": false");
    has(text, "\"measured\": {\"sqnr_db\": null, \"exact\": true");
    has(text, "\"gates\": {\"met\": false, \"missed\": \"too large\", \"each\": []}");
    vc_text_free(text);
}

static void test_pruning(void **state)
{
    struct vc_ctx *ctx = *state;
    struct vc_report report = report_of(NULL, 0);
    struct vc_report_pruning pruning = {
        .n_tensors = 2, .n_weights = 1000, .device_sparse_2_4 = 700, .mask_bytes = 125, .pruned_bytes = 4000};
    char *text = text_of(ctx, &report);

    has(text, "\"sparse_2_4\": null}");
    has(text, "\"pruning\": null");
    vc_text_free(text);
    report.pruning = &pruning;
    text = text_of(ctx, &report);
    has(text, "\"sparse_2_4\": null}");
    has(text, "\"pruning\": {\"tensors\": 2, \"weights\": 1000, \"zeros\": null, \"sparsity\": null, "
              "\"model_sparsity\": null, \"mask_and_values_bytes\": null, \"sparse_2_4_tensors\": 0, "
              "\"pattern\": null, \"mask_bytes\": 125, \"pruned_bytes\": 4000}");
    vc_text_free(text);
    pruning.n_sparse_2_4 = 1;
    pruning.measured = true;
    pruning.zeros_before = 3;
    pruning.zeros_after = 500;
    pruning.sparsity = 0.5;
    pruning.model_sparsity = 0.25;
    pruning.mask_and_values = 2125;
    pruning.n_pattern = 1;
    pruning.n_groups = 125;
    pruning.pattern_keep = 2;
    pruning.pattern_group = 4;
    text = text_of(ctx, &report);
    has(text, "\"sparse_2_4\": 700}");
    has(text, "\"zeros\": {\"before\": 3, \"after\": 500}, \"sparsity\": 0.5, \"model_sparsity\": 0.25, "
              "\"mask_and_values_bytes\": 2125, \"sparse_2_4_tensors\": 1, "
              "\"pattern\": {\"keep\": 2, \"group\": 4, \"tensors\": 1, \"groups\": 125}, \"mask_bytes\": 125, "
              "\"pruned_bytes\": 4000}");
    vc_text_free(text);
}

static void test_gates_and_notes(void **state)
{
    struct vc_ctx *ctx = *state;
    struct vc_report report = report_of(NULL, 0);
    const struct vc_report_gate gates[] = {{"max_bytes", 1048576, 176646, true, true},
                                           {"min_sqnr_db", 32.5, (double)NAN, false, false},
                                           {"min_sqnr_db", 32.5, (double)INFINITY, true, true}};
    const struct vc_report_note notes[] = {{"input", "a note"}, {"pass", "another \"one\""}};
    char *text;

    report.gates = gates;
    report.n_gates = 3;
    report.notes = notes;
    report.n_notes = 2;
    text = text_of(ctx, &report);
    has(text, "{\"id\": \"max_bytes\", \"limit\": 1048576, \"value\": 176646, \"passed\": true}");
    has(text, "{\"id\": \"min_sqnr_db\", \"limit\": 32.5, \"value\": null, \"passed\": null}");
    has(text, "{\"id\": \"min_sqnr_db\", \"limit\": 32.5, \"value\": null, \"passed\": true}");
    has(text, "{\"id\": \"input\", \"text\": \"a note\"}");
    has(text, "{\"id\": \"pass\", \"text\": \"another \\\"one\\\"\"}");
    vc_text_free(text);
}

static void test_out_of_memory(void **state)
{
    struct vc_ctx *ctx = *state;
    struct vc_report_row rows[] = {row("a"), row("b"), row("c")};
    struct vc_report report = report_of(rows, 3);
    enum vc_status status = VC_E_NOMEM;
    uint64_t n = 0;

    while (status != VC_OK) {
        char *text = NULL;

        vc_pool_fail_at(ctx->shared->pool, ++n, 0);
        status = vc_document_json(ctx, &(struct vc_document){.kind = VC_DOCUMENT_REPORT, .of = &report}, &text);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK || (status == VC_E_NOMEM && text == NULL));
        vc_text_free(text);
    }
    assert_true(n > 2);
    assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
}

static int set_up(void **state)
{
    return vc_ctx_create((struct vc_ctx **)state) == VC_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    vc_ctx_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_unknown_is_null, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_layout, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pruning, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gates_and_notes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_out_of_memory, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
