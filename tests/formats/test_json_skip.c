/* test_json_skip.c - values that nobody asks for: where they end and whether they are JSON, as jansson judges them, for
 * every cut and many changed bytes; what is taken out of a text; headers, indices and configurations with a lot of it,
 * which are read, and in memory that does not grow with it. */
#include "formats_test.h"

#include <jansson.h>
#include <stdlib.h>

#include "formats/huggingface/config/hf_json.h"
#include "formats/json/json_skip.h"
#include "formats/json/json_walk.h"
#include "tasks.h"

#define MANY 300000 /* empty lists, whose tree would take a hundred times their text */

/* ---- one value ---- */

/* jansson refuses numbers that it cannot hold, and characters that it cannot keep; nobody looks at them here. */
static bool is_about_values(const json_error_t *error)
{
    return json_error_code(error) == json_error_numeric_overflow ||
           json_error_code(error) == json_error_null_character || strstr(error->text, "Unicode") != NULL ||
           strstr(error->text, "\\u0000") != NULL;
}

static void same_verdict(const char *text, size_t n)
{
    char *copy = malloc(n + 1); /* of its own, so that a sanitizer sees a read beyond it */
    json_error_t error;
    json_t *value;
    size_t end;
    bool taken;

    memcpy(copy, text, n);
    value = json_loadb(copy, n, JSON_DECODE_ANY, &error);
    end = vc_json_skip_value(copy, n, 0);
    taken = end != 0 && vc_json_skip_space(copy, n, end) == n;
    if (value != NULL ? !taken : taken && !is_about_values(&error)) {
        fail_msg("%.*s: ends at %zu; jansson says %s", (int)n, text, end, value != NULL ? "yes" : error.text);
    }
    json_decref(value);
    free(copy);
}

static void test_values(void **state)
{
    static const char *const samples[] = {
        "{ \"a\" : [1,2,{\"b\":\"},{\"}] , \"c\\\"\":{},\"d\":-0.5e+10, \"e\":[[],[ ]],\n\"\\u00e4\":null,\"\":true}x",
        "[0, -1, 10.25, 1E5, 1e-3, false, \"\\b\\f\\n\\r\\t\\/\\\\\\uD83D\\uDE00\", \"\xc3\xa4\", {\"x\":[{}]}]",
        "\"text\" , 1",
        "-12.5e3]",
        "true}",
        "nul",
        "01",
        "-",
        "1.",
        "1e",
        ".5",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\"}",
        "[}",
        "{1:2}",
        "\"\x01\"",
        "\"\xff\"",
        "\"\\x\"",
        "\"\\u12\"",
        "",
        " ",
        "[",
        "{",
        "[[[[",
        "\"",
    };
    static const char bytes[] = "{}[],:\"\\ 0-.ea\x7f\x01\xc3";
    size_t i;
    size_t at;
    size_t k;

    (void)state;
    for (i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        size_t n = strlen(samples[i]);
        char *copy = malloc(n + 1);

        for (at = 0; at <= n; at++) {
            same_verdict(samples[i], at);
        }
        for (at = 0; at < n; at++) {
            for (k = 0; k < sizeof bytes - 1; k++) {
                memcpy(copy, samples[i], n);
                copy[at] = bytes[k];
                same_verdict(copy, n);
            }
        }
        free(copy);
    }
}

static void test_levels(void **state)
{
    char text[2 * VC_JSON_LEVELS + 4];
    size_t i;

    (void)state;
    for (i = 0; i <= VC_JSON_LEVELS; i++) {
        text[i] = '[';
        text[2 * VC_JSON_LEVELS + 1 - i] = ']';
    }
    assert_int_equal(vc_json_skip_value(text, 2 * VC_JSON_LEVELS + 2, 0), 0);
    assert_int_equal(vc_json_skip_value(text, 2 * VC_JSON_LEVELS + 1, 1), 2 * VC_JSON_LEVELS + 1);
    assert_int_equal(vc_json_skip_value("[ [1 ] ] , 2", 12, 0), 8);
    assert_int_equal(vc_json_skip_value("12, 2", 5, 0), 2);
}

/* ---- out of the way ---- */

static void expect_trimmed(const char *text, const char *want)
{
    static const char *const wanted[] = {"keep", "shape", NULL};
    size_t n = strlen(text);
    char *copy = malloc(n);

    memcpy(copy, text, n);
    vc_json_trim(copy, n, wanted);
    if (strlen(want) != n || memcmp(copy, want, n) != 0) {
        fail_msg("%.*s\nexpected\n%s", (int)n, copy, want);
    }
    free(copy);
}

static void test_trim(void **state)
{
    (void)state;
    expect_trimmed("{\"a\": [1, 2], \"b\": {\"c\": 3, \"d\": {}}, \"e\": 4}",
                   "{\"a\": 0     , \"b\": {\"c\": 3, \"d\": 0 }, \"e\": 4}");
    expect_trimmed("{\"keep\": [[1]], \"b\": {\"shape\": [3], \"d\": [\n[]\n]} , \"f\":{}}",
                   "{\"keep\": [[1]], \"b\": {\"shape\": [3], \"d\": 0\n  \n } , \"f\":{}}");
    expect_trimmed(",\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"x\":[[],\"]\"]}",
                   ",\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"x\":0       }");
    expect_trimmed("{\"keep\": {\"x\": []}, \"shapes\": []}", "{\"keep\": {\"x\": []}, \"shapes\": 0 }");
    expect_trimmed("{}", "{}");
    expect_trimmed("{", "{");
    expect_trimmed("{\"a\"", "{\"a\"");
    expect_trimmed("{\"a\":", "{\"a\":");
    expect_trimmed("{\"a\":{", "{\"a\":{");
    /* up to where it stops being JSON */
    expect_trimmed("{\"a\": [1], \"b\": [1,], \"c\": []}", "{\"a\": 0  , \"b\": [1,], \"c\": []}");
    expect_trimmed("{\"a\": [1]; \"b\": []}", "{\"a\": 0  ; \"b\": []}");
    expect_trimmed("{\"a\": {\"b\": []] , \"c\": []}", "{\"a\": {\"b\": 0 ] , \"c\": []}");
}

/* ---- in files ---- */

/* before, MANY empty lists in one, after. */
static struct bytes with_many(const char *before, const char *after)
{
    struct bytes b = {NULL, 0, 0};
    size_t i;

    bytes_add(&b, before, strlen(before));
    bytes_add(&b, "[[]", 3);
    for (i = 1; i < MANY; i++) {
        bytes_add(&b, ",[]", 3);
    }
    bytes_add(&b, "]", 1);
    bytes_add(&b, after, strlen(after));
    return b;
}

static struct bytes safetensors_of(struct bytes header)
{
    struct bytes b = {NULL, 0, 0};

    bytes_u64(&b, header.n);
    bytes_add(&b, header.p, header.n);
    bytes_add(&b, "\0\0\0\0\0\0\0\0", 8);
    bytes_release(&header);
    return b;
}

#define ENTRY "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]"

static void expect_read(struct bytes header, uint64_t most)
{
    struct bytes b = safetensors_of(header);
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;

    save_own("m.safetensors", b);
    model = must_open(ctx, "m.safetensors");
    assert_int_equal(model->n_tensors, 1);
    assert_string_equal(model->tensors[0].name, "w");
    assert_true(vc_pool_peak(ctx->shared->pool) < most);
    vc_model_close(model);
    test_ctx_done(ctx);
}

static void expect_refused(struct bytes header, const char *words)
{
    struct bytes b = safetensors_of(header);

    expect_bad(words, b.p, b.n, words);
    bytes_release(&b);
}

static void test_headers(void **state)
{
    (void)state;
    expect_read(with_many("{\"w\":" ENTRY ",\"x\":", "}}"), 8 << 20);
    expect_read(with_many("{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"x\":", ","
                                                                                 "\"dtype\":\"F32\",\"shape\":[2],"
                                                                                 "\"data_offsets\":[0,8]}}"),
                8 << 20);
    expect_refused(with_many("{\"w\":" ENTRY ",\"x\":", ",}}"), "is no valid JSON");
    expect_refused(with_many("{\"v\":", ",\"w\":" ENTRY "}}"), "v: its header entry is no object");
    expect_refused(with_many("{\"__metadata__\":{\"x\":", "},\"w\":" ENTRY "}}"), "has 'x', which is no string");
    expect_refused(with_many("{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,8],\"shape\":", "}}"),
                   "little but brackets and commas");
}

static void test_configs(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b =
        with_many("{\"model_type\": \"bert\",\n \"x\": {\"y\": ", "}, \"quantization_config\": {\"a\": [1]}}");
    struct bytes q = with_many("{\"quantization_config\": ", "}");
    struct hf_json json;

    (void)state;
    assert_int_equal(vc_hf_json_load(ctx, (char *)b.p, b.n, false, &json), VC_OK);
    assert_string_equal(json_string_value(json_object_get(json.root, "model_type")), "bert");
    assert_int_equal(json_array_size(json_object_get(json_object_get(json.root, "quantization_config"), "a")), 1);
    assert_true(json_is_integer(json_object_get(json_object_get(json.root, "x"), "y")));
    vc_hf_json_free(&json);
    assert_true(vc_pool_peak(ctx->shared->pool) < 8 << 20);

    assert_int_equal(vc_hf_json_load(ctx, (char *)b.p, b.n, true, &json), VC_E_FORMAT);
    expect_says(ctx, "is no valid JSON: byte 0: ");
    expect_says(ctx, "little but brackets and commas");
    vc_hf_json_free(&json);
    assert_int_equal(vc_hf_json_load(ctx, (char *)q.p, q.n, false, &json), VC_E_FORMAT);
    vc_hf_json_free(&json);
    assert_int_equal(vc_hf_json_look(ctx, (char *)q.p, q.n, &json), VC_OK);
    assert_null(json.root);
    bytes_release(&b);
    bytes_release(&q);
    test_ctx_done(ctx);
}

/* Nested deeper than any parser goes. */
static void test_deep(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = {NULL, 0, 0};
    struct hf_json json;

    (void)state;
    bytes_add(&b, "{\"a\":", 5);
    bytes_fill(&b, '[', 2000);
    assert_int_equal(vc_hf_json_load(ctx, (char *)b.p, b.n, false, &json), VC_E_FORMAT);
    expect_says(ctx, "nested too deep, more than 1000 levels");
    vc_hf_json_free(&json);
    bytes_release(&b);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_levels),  cmocka_unit_test(test_trim),
        cmocka_unit_test(test_headers), cmocka_unit_test(test_configs), cmocka_unit_test(test_deep),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
