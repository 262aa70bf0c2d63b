/* test_text.c - growing text, JSON strings and numbers, UTF-8. Strings are compared with what RFC 8259 and Unicode say;
 * numbers are read back by strtod, which has to give the same bits. */
#include <float.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <vcompress/report.h>

#include "core/text/text.h"

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

static void json_string_is(const char *s, const char *json)
{
    struct vc_text text;

    vc_text_init(&text, ctx);
    vc_text_add_json_string(&text, s);
    assert_string_equal(text.data, json);
    vc_text_release(&text);
}

static void test_json_strings(void **unused)
{
    (void)unused;
    json_string_is("", "\"\"");
    json_string_is("fc1.weight", "\"fc1.weight\"");
    json_string_is("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
    json_string_is("\n\t\x01\x7f", "\"\\u000a\\u0009\\u0001\\u007f\"");
    json_string_is("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    json_string_is("a\xff"
                   "b",
                   "\"a\xef\xbf\xbd"
                   "b\"");
    json_string_is("\xc3", "\"\xef\xbf\xbd\"");
}

static void json_number_is(double x, const char *json)
{
    struct vc_text text;

    vc_text_init(&text, ctx);
    vc_text_add_json_number(&text, x);
    assert_string_equal(text.data, json);
    vc_text_release(&text);
}

static void test_json_numbers(void **unused)
{
    (void)unused;
    json_number_is(0, "0");
    json_number_is(1, "1");
    json_number_is(0.1, "0.1");
    json_number_is(-2.5, "-2.5");
    json_number_is(52428800, "52428800"); /* not 5.24288e+07, which is no integer for most readers */
    json_number_is(-1e15, "-1000000000000000");
    json_number_is(9007199254740992.0, "9007199254740992");
    json_number_is(1e20, "1e+20");
    json_number_is(NAN, "null");
    json_number_is(INFINITY, "null");
    json_number_is(-INFINITY, "null");
}

/* The text reads back as the same number, and is not longer than 17 digits need. */
static void test_numbers_read_back(void **unused)
{
    uint64_t state = 3;

    (void)unused;
    for (int i = 0; i < 20000; i++) {
        struct vc_text text;
        double x;
        double y;

        state = state * 6364136223846793005u + 1442695040888963407u;
        memcpy(&x, &state, sizeof x);
        if (!isfinite(x)) {
            continue;
        }
        vc_text_init(&text, ctx);
        vc_text_add_json_number(&text, x);
        y = strtod(text.data, NULL);
        assert_memory_equal(&x, &y, sizeof x);
        assert_true(strlen(text.data) <= 26);
        vc_text_release(&text);
    }
}

/* In a locale that writes 0,5 JSON has 0.5. CMakeLists.txt has such a locale made where the system can. */
static void test_locale(void **unused)
{
    char printed[8];

    (void)unused;
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL) {
        print_message("there is no locale de_DE.UTF-8 (Debian: apt-get install locales, then configure again)\n");
        skip();
    }
    (void)snprintf(printed, sizeof printed, "%.1f", 0.5);
    assert_string_equal(printed, "0,5");
    json_number_is(0.5, "0.5");
    json_number_is(-1.25e-300, "-1.25e-300");
    setlocale(LC_NUMERIC, "C");
}

static void test_growth_and_detach(void **unused)
{
    struct vc_text text;
    char *copy;

    (void)unused;
    vc_text_init(&text, ctx);
    for (int i = 0; i < 10000; i++) {
        vc_text_add(&text, "%04d,", i);
    }
    vc_text_add_bytes(&text, "xyz", 2);
    assert_int_equal(text.n, 50002);
    assert_memory_equal(text.data + 5 * 1234, "1234,", 5);
    copy = vc_text_detach(&text);
    assert_int_equal(strlen(copy), 50002);
    vc_text_free(copy);
    vc_text_free(NULL);
}

/* A text that only counts takes no memory, and has the size of one that is made. */
static void test_counting(void **unused)
{
    struct vc_text made;
    struct vc_text counted;

    (void)unused;
    vc_text_init(&made, ctx);
    vc_text_init(&counted, ctx);
    counted.counting = true;
    for (uint64_t v = 0; v < UINT64_MAX / 11; v = v * 10 + 9) {
        struct vc_text *both[] = {&made, &counted};
        char digits[32];

        for (size_t i = 0; i < 2; i++) {
            vc_text_add(both[i], "%s", "x ");
            vc_text_add_json_string(both[i], "a\"\n\xc3\xa9\xff");
            vc_text_add_uint(both[i], v);
        }
        (void)snprintf(digits, sizeof digits, "\"%llu", (unsigned long long)v);
        assert_string_equal(made.data + made.n - strlen(digits), digits);
        assert_int_equal(counted.n, made.n);
    }
    vc_text_add_uint(&made, UINT64_MAX);
    assert_string_equal(made.data + made.n - 20, "18446744073709551615");
    assert_null(counted.data);
    assert_int_equal(counted.status, VC_OK);
    vc_text_release(&made);
    vc_text_release(&counted);
}

static void test_no_memory(void **unused)
{
    struct vc_text text;

    (void)unused;
    vc_text_init(&text, ctx);
    vc_text_add(&text, "kept");
    vc_pool_fail_at(ctx->shared->pool, 1, 1);
    for (int i = 0; i < 1000; i++) {
        vc_text_add(&text, "more");
    }
    assert_int_equal(text.status, VC_E_NOMEM);
    vc_pool_fail_at(ctx->shared->pool, 0, 0);
    vc_text_add(&text, "nothing is added after a failure");
    assert_int_equal(text.status, VC_E_NOMEM);
    assert_null(strstr(text.data, "nothing"));
    vc_text_release(&text);
}

static void test_utf8(void **unused)
{
    static const char *const bad[] = {"\x80",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x80\x80",
                                      "\xed\xa0\x80",
                                      "\xf0\x80\x80\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf8\x88\x80\x80\x80",
                                      "\xc3",
                                      "\xe2\x82",
                                      "ab\xff"};

    (void)unused;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(vc_utf8_valid(bad[i], strlen(bad[i])));
    }
    for (size_t i = 0; i < 24; i++) { /* at every place of what is looked at at once, and behind it */
        char text[25] = "model.layers.0.mlp.weigh";

        assert_true(vc_utf8_valid(text, 24));
        text[i] = '\0';
        assert_false(vc_utf8_valid(text, 24));
        text[i] = '\xff';
        assert_false(vc_utf8_valid(text, 24));
        memcpy(text + i, "\xc3\xa9", i < 23 ? 2 : 1);
        assert_true(vc_utf8_valid(text, 24) == (i < 23));
    }
    assert_false(vc_utf8_valid("a\0b", 3));
    assert_true(vc_utf8_valid("", 0));
    assert_true(vc_utf8_valid("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\xed\x9f\xbf", 17));
}

/* Every byte, at every place of a string that is longer than what is looked at at once. */
static void test_plain_bytes(void **unused)
{
    char s[20];

    (void)unused;
    for (int byte = 0; byte < 256; byte++) {
        bool plain = byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';

        for (size_t at = 0; at < sizeof s; at++) {
            memset(s, at % 2 == 0 ? ' ' : '~', sizeof s);
            s[at] = (char)byte;
            assert_int_equal(vc_json_plain_bytes(s, sizeof s), plain ? sizeof s : at);
            assert_int_equal(vc_json_plain_bytes(s, at), at);
        }
    }
}

static void test_distance(void **unused)
{
    char a[300];
    char b[300];

    (void)unused;
    assert_int_equal(vc_text_distance("", ""), 0);
    assert_int_equal(vc_text_distance("", "abc"), 3);
    assert_int_equal(vc_text_distance("abc", ""), 3);
    assert_int_equal(vc_text_distance("kitten", "sitting"), 3);
    assert_int_equal(vc_text_distance("sitting", "kitten"), 3);
    assert_int_equal(vc_text_distance("flaw", "lawn"), 2);
    assert_int_equal(vc_text_distance("ab", "ba"), 2);
    memset(a, 'x', sizeof a - 1);
    a[sizeof a - 1] = '\0';
    memcpy(b, a, sizeof b);
    b[127] = 'y';
    assert_int_equal(vc_text_distance(a, b), 1);
    b[128] = 'y'; /* behind what counts */
    assert_int_equal(vc_text_distance(a, b), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_strings),      cmocka_unit_test(test_json_numbers),
        cmocka_unit_test(test_numbers_read_back), cmocka_unit_test(test_locale),
        cmocka_unit_test(test_growth_and_detach), cmocka_unit_test(test_counting),
        cmocka_unit_test(test_no_memory),         cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_plain_bytes),       cmocka_unit_test(test_distance),
    };

    return cmocka_run_group_tests(tests, make, unmake);
}
