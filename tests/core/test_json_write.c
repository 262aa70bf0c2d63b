/* test_json_write.c - the layout of JSON documents: lines, brackets, separators, compared with the text that is
 * wanted. How strings and numbers look is in test_text.c. */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <vcompress/report.h>
#include <vcompress/stream.h>

#include "core/text/json_write.h"

static struct vc_ctx *ctx;
static struct vc_text text;
static struct vc_json json;

static int make(void **unused)
{
    (void)unused;
    if (vc_ctx_create(&ctx) != VC_OK) {
        return -1;
    }
    vc_text_init(&text, ctx);
    json = (struct vc_json){.text = &text};
    return 0;
}

static int unmake(void **unused)
{
    (void)unused;
    vc_text_release(&text);
    vc_ctx_free(ctx);
    return 0;
}

static void test_lines(void **unused)
{
    (void)unused;
    vc_json_begin(&json, NULL, '{', false);
    vc_json_string(&json, "name", "a\"b");
    vc_json_string(&json, "none", NULL);
    vc_json_begin(&json, "shape", '[', true);
    vc_json_uint(&json, NULL, 2);
    vc_json_uint(&json, NULL, UINT64_MAX);
    vc_json_end(&json, ']');
    vc_json_begin(&json, "rows", '[', false);
    vc_json_begin(&json, NULL, '{', true);
    vc_json_real(&json, "x", 0.5);
    vc_json_real(&json, "y", (double)NAN);
    vc_json_end(&json, '}');
    vc_json_begin(&json, NULL, '{', true);
    vc_json_known(&json, "n", 0);
    vc_json_known(&json, "m", 7);
    vc_json_bool(&json, "is", true);
    vc_json_word(&json, "first", "one|two|three", 0);
    vc_json_word(&json, "last", "one|two|three", 2);
    vc_json_word(&json, "none", "one|two|three", UINT_MAX);
    vc_json_end(&json, '}');
    vc_json_end(&json, ']');
    vc_json_end(&json, '}');
    assert_string_equal(
        text.data,
        "{\n"
        "  \"name\": \"a\\\"b\",\n"
        "  \"none\": null,\n"
        "  \"shape\": [2, 18446744073709551615],\n"
        "  \"rows\": [\n"
        "    {\"x\": 0.5, \"y\": null},\n"
        "    {\"n\": null, \"m\": 7, \"is\": true, \"first\": \"one\", \"last\": \"three\", \"none\": \"\"}\n"
        "  ]\n"
        "}\n");
}

static void test_empty(void **unused)
{
    (void)unused;
    vc_json_begin(&json, NULL, '{', false);
    vc_json_begin(&json, "rows", '[', false);
    vc_json_end(&json, ']');
    vc_json_begin(&json, "flat", '{', true);
    vc_json_end(&json, '}');
    vc_json_end(&json, '}');
    assert_string_equal(text.data, "{\n  \"rows\": [],\n  \"flat\": {}\n}\n");
}

/* A flat object in which some members begin a line. */
static void test_broken_lines(void **unused)
{
    (void)unused;
    vc_json_begin(&json, NULL, '{', false);
    vc_json_begin(&json, "totals", '{', true);
    vc_json_line(&json);
    vc_json_uint(&json, "a", 1);
    vc_json_uint(&json, "b", 2);
    vc_json_line(&json);
    vc_json_begin(&json, "c", '{', true);
    vc_json_bool(&json, "d", false);
    vc_json_end(&json, '}');
    vc_json_null(&json, "e");
    vc_json_end(&json, '}');
    vc_json_uint(&json, "f", 3);
    vc_json_end(&json, '}');
    assert_string_equal(text.data, "{\n"
                                   "  \"totals\": {\n"
                                   "    \"a\": 1, \"b\": 2,\n"
                                   "    \"c\": {\"d\": false}, \"e\": null\n"
                                   "  },\n"
                                   "  \"f\": 3\n"
                                   "}\n");
}

/* What came to a writer: the last piece, and how many bytes in all. */
struct sent {
    uint64_t n;
    size_t pieces, most; /* more pieces are refused */
};

static bool take(void *user, uint64_t offset, const void *data, size_t n)
{
    struct sent *sent = user;

    assert_int_equal(offset, sent->n);
    assert_true(n > 0 && n < 70000);
    assert_true(sent->n != 0 || *(const char *)data == '[');
    sent->n += n;
    return ++sent->pieces <= sent->most;
}

/* A list of 100,000 numbers of 20 digits into a writer, which takes at most so many pieces. */
static enum vc_status write_list(struct sent *sent)
{
    const struct vc_writer writer = {.write = take, .user = sent};
    char *rest = NULL;

    json.writer = &writer;
    vc_json_begin(&json, NULL, '[', true);
    for (unsigned k = 0; k < 100000; k++) {
        vc_json_uint(&json, NULL, UINT64_MAX);
    }
    vc_json_end(&json, ']');
    enum vc_status status = vc_json_finish(&json, &rest);
    assert_true(status != VC_OK || rest[0] == '\0');
    vc_text_free(rest);
    return status;
}

/* All the bytes in pieces; behind a piece that is refused comes no other one. */
static void test_writer(void **unused)
{
    struct sent all = {.most = SIZE_MAX};

    (void)unused;
    assert_int_equal(write_list(&all), VC_OK);
    assert_int_equal(all.n, 100000 * 22 + 1);
    assert_true(all.pieces > 30 && vc_pool_in_use(ctx->shared->pool) == 0);
}

static void test_writer_refuses(void **unused)
{
    struct sent few = {.most = 3};

    (void)unused;
    assert_int_equal(write_list(&few), VC_E_IO);
    assert_int_equal(few.pieces, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines, make, unmake),
        cmocka_unit_test_setup_teardown(test_empty, make, unmake),
        cmocka_unit_test_setup_teardown(test_broken_lines, make, unmake),
        cmocka_unit_test_setup_teardown(test_writer, make, unmake),
        cmocka_unit_test_setup_teardown(test_writer_refuses, make, unmake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
