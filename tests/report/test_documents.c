/* test_documents.c - the documents of inspect, diff and verify as a program gets them from the library, and the one of
 * a failure; every allocation failing in turn. That they fit their schemas is checked in tests/cli. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <vcompress/experimental.h>

#include "core/base/ctx.h"
#include "report/document_parts.h"
#include "same_figures.h"

static struct vc_ctx *ctx;
static char path_a[] = "/tmp/vc_documents_a_XXXXXX";
static char path_b[] = "/tmp/vc_documents_b_XXXXXX";
static struct vc_model *a, *b;

/* An npy file of [2, 3] f32: 0, 1, 2, 3, 4, `last`. */
static void make_npy(char *path, float last)
{
    static const char head[] = "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    const float values[] = {0, 1, 2, 3, 4, last};
    char header[128];
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    memset(header, ' ', sizeof header);
    memcpy(header, head, sizeof head - 1);
    header[127] = '\n';
    assert_int_equal(write(fd, header, sizeof header), sizeof header);
    assert_int_equal(write(fd, values, sizeof values), sizeof values);
    assert_int_equal(close(fd), 0);
}

static int set_up(void **unused)
{
    (void)unused;
    make_npy(path_a, 5.0F);
    make_npy(path_b, 5.5F);
    return vc_ctx_create(&ctx) == VC_OK && vc_model_open(ctx, path_a, NULL, &a) == VC_OK &&
                   vc_model_open(ctx, path_b, NULL, &b) == VC_OK
               ? 0
               : -1;
}

static int tear_down(void **unused)
{
    (void)unused;
    vc_model_close(b);
    vc_model_close(a);
    vc_ctx_free(ctx);
    return unlink(path_a) == 0 && unlink(path_b) == 0 ? 0 : -1;
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("%s is not in %s", part, text);
    }
}

/* Calls `render` with the n-th allocation failing, n from 1 on, until it succeeds; its text. */
static char *text_of(enum vc_status (*render)(const void *what, char **text), const void *what)
{
    struct vc_pool *pool = ctx->shared->pool;
    enum vc_status status = VC_E_NOMEM;
    uint64_t in_use = vc_pool_in_use(pool);
    char *text = NULL;
    uint64_t n = 0;

    while (status != VC_OK) {
        vc_pool_fail_at(pool, ++n, 0);
        status = render(what, &text);
        vc_pool_fail_at(pool, 0, 0);
        assert_true(status == VC_OK || (status == VC_E_NOMEM && text == NULL && vc_pool_in_use(pool) == in_use));
    }
    assert_true(n > 1);
    return text;
}

static enum vc_status render_inspection(const void *what, char **text)
{
    return vc_document_json(ctx, &(struct vc_document){.kind = VC_DOCUMENT_INSPECT, .of = what}, text);
}

static void test_inspect(void **unused)
{
    struct vc_inspection *in;
    struct vc_value_stats stats;
    char *text;

    (void)unused;
    assert_int_equal(vc_inspect(ctx, a, false, &in), VC_OK);
    assert_false(in->has_stats || vc_inspect_get_stats(in, 0, &stats));
    assert_true(in->int8_bytes > 0 && in->fp16_bytes > 0);
    vc_result_free(in);
    assert_int_equal(vc_inspect(ctx, a, true, &in), VC_OK);
    assert_int_equal(in->n_dtypes, 1);
    assert_int_equal(in->n_params, 6);
    text = text_of(render_inspection, in);
    has(text, "\"schema\": \"vcompress.inspect/1\",\n");
    has(text, "{\"dtype\": \"f32\", \"tensors\": 1, \"elements\": 6, \"bytes\": 24}");
    has(text, "\"zeros\": 1, \"subnormals\": 0, \"min\": 0, \"max\": 5,");
    assert_true(vc_inspect_get_stats(in, 0, &stats) && stats.n_elems == 6 && stats.max == 5.0);
    assert_false(vc_inspect_get_stats(in, in->n_tensors, &stats));
    vc_text_free(text);
    vc_result_free(in);
}

/* A failure inside of the plans means that the sizes are not known; elsewhere it is the call's. */
static void test_inspect_out_of_memory(void **unused)
{
    uint64_t in_use = vc_pool_in_use(ctx->shared->pool);
    uint64_t n_failed = 0;

    (void)unused;
    for (uint64_t n = 1; n < 300; n++) {
        struct vc_inspection *in = NULL;
        enum vc_status status;

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_inspect(ctx, a, true, &in);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK ? in != NULL : status == VC_E_NOMEM && in == NULL);
        n_failed += status != VC_OK;
        vc_result_free(in);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), in_use);
    }
    assert_true(n_failed > 2);
}

struct compared {
    const struct vc_diff *diff;
    const struct vc_diff_limits *limits;
};

static enum vc_status render_diff(const void *what, char **text)
{
    const struct compared *c = what;

    return vc_document_json(
        ctx, &(struct vc_document){.kind = VC_DOCUMENT_DIFF, .of = c->diff, .a = a, .b = b, .limits = c->limits}, text);
}

static struct vc_diff_limits both_measures(double tolerance, double min_sqnr_db)
{
    struct vc_diff_limits limits;

    vc_diff_limits_defaults(&limits);
    limits.by_value = true;
    limits.tolerance = tolerance;
    limits.by_sqnr = true;
    limits.min_sqnr_db = min_sqnr_db;
    return limits;
}

static size_t n_beyond(const struct vc_diff_limits *limits, const struct vc_diff *diff)
{
    size_t n = 0;

    for (size_t i = 0; i < diff->n_rows; i++) {
        n += !vc_diff_within(limits, &diff->rows[i]);
    }
    return n;
}

static void test_diff(void **unused)
{
    const struct vc_diff_limits wide = both_measures(0.5, 12.5);
    const struct vc_diff_limits tight = both_measures(0.5, 90);
    struct vc_diff_limits none;
    struct vc_diff *diff;
    char *text;

    (void)unused;
    vc_diff_limits_defaults(&none);
    none.by_value = true;
    assert_int_equal(vc_diff_models(ctx, a, b, &diff), VC_OK);
    assert_int_equal(n_beyond(&none, diff), 1);
    assert_int_equal(n_beyond(&wide, diff), 0);
    assert_int_equal(n_beyond(&tight, diff), 1);
    text = text_of(render_diff, &(struct compared){diff, &wide});
    has(text, "\"limits\": {\"tolerance\": 0.5, \"min_sqnr_db\": 12.5},\n  \"within\": true,\n");
    has(text, "\"kind\": \"values\", \"within\": true, ");
    has(text, "\"max_abs_error\": 0.5, ");
    vc_text_free(text);
    text = text_of(render_diff, &(struct compared){diff, &none});
    has(text, "\"limits\": {\"tolerance\": 0, \"min_sqnr_db\": null},\n  \"within\": false,\n");
    vc_text_free(text);
    vc_result_free(diff);
}

static enum vc_status render_verification(const void *what, char **text)
{
    return vc_document_json(ctx, &(struct vc_document){.kind = VC_DOCUMENT_VERIFY, .of = what, .strict = true}, text);
}

static void test_verify(void **unused)
{
    static const struct vc_finding findings[] = {{VC_SEVERITY_WARNING, "nan", "w", "has 1 NaN"}};
    static const struct vc_verification v = {.path = "m.npz",
                                             .format = "npz",
                                             .against = "",
                                             .n_findings = 1,
                                             .findings = findings,
                                             .n_warnings = 1,
                                             .worst = VC_NO_TENSOR};
    char *text = text_of(render_verification, &v);

    (void)unused;
    has(text, "\"fine\": false,\n  \"errors\": 0,\n  \"warnings\": 1,\n");
    has(text, "{\"severity\": \"warning\", \"id\": \"nan\", \"tensor\": \"w\", \"sentence\": \"has 1 NaN\"}");
    has(text, "\"against\": null,\n");
    vc_text_free(text);
    assert_int_equal(vc_document_json(ctx, &(struct vc_document){.kind = VC_DOCUMENT_VERIFY, .of = &v}, &text), VC_OK);
    has(text, "\"fine\": true,\n");
    vc_text_free(text);
}

static void test_error(void **unused)
{
    char *text;

    (void)unused;
    assert_int_equal(vc_document_json(ctx,
                                      &(struct vc_document){.kind = VC_DOCUMENT_ERROR,
                                                            .of = "vcompress.diff/1",
                                                            .failure = VC_E_FORMAT,
                                                            .missed = "a: is \"damaged\""},
                                      &text),
                     VC_OK);
    assert_string_equal(text, "{\n  \"schema\": \"vcompress.diff/1\",\n  \"error\": {\n    \"code\": \"format\",\n"
                              "    \"message\": \"a: is \\\"damaged\\\"\"\n  }\n}\n");
    vc_text_free(text);
}

static enum vc_status render_schema(const void *name, char **out)
{
    return vc_schema_json(ctx, name, out);
}

/* Each document has a schema; a name that no document has is refused. */
static void test_schemas(void **unused)
{
    size_t n = 0;
    char *text;

    (void)unused;
    for (const char *name; (name = vc_schema_name(n)) != NULL; n++) {
        char line[64];

        (void)snprintf(line, sizeof line, "\"$id\": \"urn:vcompress:%s:1\",\n", name);
        text = text_of(render_schema, name);
        has(text, line);
        (void)snprintf(line, sizeof line, "\"schema\": {\"const\": \"vcompress.%s/1\"}", name);
        has(text, line);
        has(text, "\"failure\": {");
        vc_text_free(text);
    }
    assert_true(n > 1);
    assert_int_equal(vc_schema_json(ctx, "nothing", &text), VC_E_ARGUMENT);
    assert_null(text);
    assert_non_null(strstr(vc_ctx_message(ctx), "no document is called 'nothing': "));
}

/* What rows say of a member is in the schema: whether it is always there, whether it may be null, what a list holds. */
static void test_rows_in_schemas(void **unused)
{
    static const struct {
        const char *document, *part;
    } wanted[] = {
        /* PAGE: not asked for. LATER and WHEN: neither. */
        {"plan", "[\"schema\", \"version\", \"model\", \"gpu\", \"usable_bytes\", \"unknown\", \"best\", \"recipes\"]"},
        {"distill", "\"first_loss\", \"last_loss\", \"kd_gradient\", \"ce_gradient\", \"seconds\"]"},
        {"plan", "\"best\": {\"description\": \"number of the first recipe"},
        {"estimate", "\"lora_targets\": {\"enum\": [\"qv\", \"attention\", \"all\", null]}"},
        {"estimate", "\"additionalProperties\": {\"type\": [\"integer\", \"null\"], \"minimum\": 0}"},
        {"report", "\"type\": [\"array\", \"null\"],\n"},
        {"report", "\"list\": {\n"},
        {"gpus", "\"items\": {\n            \"oneOf\": [\n"},
        {"graph", "\"macs\": {\"type\": [\"integer\", \"string\"]}"},
        {"inspect", "\"enum\": [\"int8\", \"int32\", \"int2\","},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char *text;

        assert_int_equal(vc_schema_json(ctx, wanted[i].document, &text), VC_OK);
        has(text, wanted[i].part);
        vc_text_free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inspect),
        cmocka_unit_test(test_inspect_out_of_memory),
        cmocka_unit_test(test_diff),
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_schemas),
        cmocka_unit_test(test_rows_in_schemas),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
