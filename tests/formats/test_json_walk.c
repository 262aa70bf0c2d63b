/* test_json_walk.c - a large object member by member, and an object in it that is walked by itself: the same verdict as
 * jansson has on the whole text, for every cut and many changed bytes; the text is put back; memory is counted and
 * limited. */
#include "formats_test.h"

#include <jansson.h>
#include <stdlib.h>

#include "formats/json/json_walk.h"

static const char sample[] =
    "{ \"a\" : [1,2,{\"b\":\"},{\"}] , \"o\" : { \"x\":[1,{\"y\":2}], \"z\":\"}\"} ,\"c\\\"\":{},\"d\":-0.5, "
    "\"e\":[[],[]],\n\"\\u00e4\":null,\"\":true }  ";

/* Adds the members that are left to `all`. over: the name of an object that gets a walk of its own; NULL: none. */
static enum vc_status walk_rest(struct vc_ctx *ctx, struct json_walk *walk, const char *text, const char *over,
                                json_t *all)
{
    const char *name = "";
    json_t *value = NULL;
    enum vc_status status = VC_OK;

    while (status == VC_OK && name != NULL) {
        struct json_walk inside;
        size_t begin, end;

        if (over != NULL && vc_json_walk_over(walk, over, &begin, &end)) {
            json_t *members = json_object();

            vc_json_walk_inside(&inside, walk->text, begin, end);
            status = walk_rest(ctx, &inside, text, NULL, members);
            vc_json_walk_end(ctx, &inside);
            json_object_set_new(all, over, members);
            continue;
        }
        status = vc_json_walk_next(ctx, walk, &name, &value);
        assert_memory_equal(walk->text, text, walk->n);
        if (name != NULL) {
            json_object_set(all, name, value);
        }
    }
    return status;
}

/* Walks the text; the members joined again, or NULL when it was refused. */
static json_t *walk(struct vc_ctx *ctx, const char *text, size_t n, const char *over)
{
    char *copy = malloc(n + 1);
    json_t *all = json_object();
    struct json_walk walk;

    memcpy(copy, text, n);
    vc_json_walk_begin(&walk, copy, n);
    if (walk_rest(ctx, &walk, text, over, all) != VC_OK) {
        assert_memory_equal(vc_ctx_message(ctx), "byte ", 5);
        json_decref(all);
        all = NULL;
    }
    vc_json_walk_end(ctx, &walk);
    free(copy);
    return all;
}

/* Names that occur twice at the top are the caller's to find: the last one wins on both sides here. */
static void compare_walk(struct vc_ctx *ctx, const char *text, size_t n, const char *over)
{
    json_t *whole = json_loadb(text, n, 0, NULL);
    json_t *strict = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    json_t *walked = walk(ctx, text, n, over);

    if (strict != NULL || whole == NULL) {
        if ((walked != NULL) != (strict != NULL && json_is_object(strict)) ||
            (walked != NULL && !json_equal(walked, strict))) {
            fail_msg("%.*s: %s", (int)n, text, walked == NULL ? vc_ctx_message(ctx) : "taken");
        }
    }
    json_decref(whole);
    json_decref(strict);
    json_decref(walked);
}

static void same_as_jansson(struct vc_ctx *ctx, const char *text, size_t n)
{
    compare_walk(ctx, text, n, NULL);
    compare_walk(ctx, text, n, "o");
}

static void test_samples(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{}",
        "{} ",
        "{ }",
        "[]",
        "",
        "{",
        "{,}",
        "{\"a\":1,}",
        "{,\"a\":1}",
        "{\"a\":1,,\"b\":2}",
        "{\"a\":1}}",
        "{\"a\":1}{}",
        "{\"a\":1},",
        "{\"a\":1},{}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":[1,2},\"b\":3]}",
        "{\"a\":1],\"b\":[2}",
        "{\"a\":\"\\",
        "{\"a\":\"",
        "{\"a\":1,\"b",
        "{\"a\":{\"x\":1,\"x\":2}}",
        "{\"o\":{}}",
        "{\"o\":{},}",
        "{\"o\":{ },\"a\":1}",
        "[\"o\":{}}",
        "{\"o\":{}]",
        "{\"o\":{}}}",
        "{\"o\":{]}",
        "{\"o\":{\"x\":1}",
        "{\"o\"{\"x\":1}}",
        "{\"o\":{\"x\":1,}}",
        "1",
        "null",
    };
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        same_as_jansson(ctx, texts[i], strlen(texts[i]));
    }
    assert_int_equal(vc_json_object_end("{}", 2, 0), 2);
    assert_int_equal(vc_json_object_end("[{\"}\":[1]},2]", 13, 1), 10);
    assert_int_equal(vc_json_object_end("{[]", 3, 0), 3);
    assert_int_equal(vc_json_object_end(sample, strlen(sample), 0), strlen(sample) - 2);
    test_ctx_done(ctx);
}

static void test_damage(void **state)
{
    static const char bytes[] = "{}[],:\"\\ 0-a\xc3";
    struct vc_ctx *ctx = test_ctx();
    size_t n = strlen(sample);
    char text[sizeof sample];

    (void)state;
    for (size_t cut = 0; cut <= n; cut++) {
        same_as_jansson(ctx, sample, cut);
    }
    for (size_t at = 0; at < n; at++) {
        for (size_t k = 0; k < sizeof bytes; k++) { /* the NUL, too */
            memcpy(text, sample, sizeof sample);
            text[at] = bytes[k];
            same_as_jansson(ctx, text, n);
        }
    }
    test_ctx_done(ctx);
}

static void test_minus_zero(void **state)
{
    static const struct {
        const char *text;
        bool found;
    } cases[] = {{"{\"a\":-0}", true},        {"{\"a\":[1,-0 ]}", true},  {"{\"a\":-0.0}", false},
                 {"{\"a\":-0e1}", false},     {"{\"-0\":\"-0\"}", false}, {"{\"a\":-1}", false},
                 {"{\"a\":1,\"b\":-0}", true}};
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[40];
        struct json_walk walk;
        const char *name;
        json_t *value;

        snprintf(text, sizeof text, "%s", cases[i].text);
        vc_json_walk_begin(&walk, text, strlen(text));
        do {
            assert_int_equal(vc_json_walk_next(ctx, &walk, &name, &value), VC_OK);
        } while (name != NULL);
        assert_int_equal(walk.minus_zero, cases[i].found);
        vc_json_walk_end(ctx, &walk);
    }
    test_ctx_done(ctx);
}

/* A tree is many times the size of a text such as this. */
static void test_memory(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    size_t n = (size_t)300 << 10;
    char *text = malloc(n);
    struct json_walk walk;
    const char *name;
    json_t *value;

    (void)state;
    memset(text, ' ', n);
    memcpy(text, "{\"a\":[0", 7);
    for (size_t i = 7; i + 4 < n; i += 2) {
        memcpy(text + i, ",0", 2);
    }
    memcpy(text + n - 2, "]}", 2);
    assert_int_equal(vc_ctx_set_max_memory(ctx, (uint64_t)8 << 20), VC_OK);
    vc_json_walk_begin(&walk, text, n);
    assert_int_equal(vc_json_walk_next(ctx, &walk, &name, &value), VC_E_NOMEM);
    assert_non_null(strstr(vc_ctx_message(ctx), "max_memory"));
    vc_json_walk_end(ctx, &walk);
    assert_int_equal(vc_ctx_set_max_memory(ctx, (uint64_t)64 << 20), VC_OK);
    vc_json_walk_begin(&walk, text, n);
    assert_int_equal(vc_json_walk_next(ctx, &walk, &name, &value), VC_OK);
    assert_string_equal(name, "a");
    assert_true(json_array_size(value) > 100000);
    assert_true(walk.counted > n);
    assert_int_equal(vc_json_walk_next(ctx, &walk, &name, &value), VC_OK);
    assert_null(name);
    vc_json_walk_end(ctx, &walk);
    free(text);
    test_ctx_done(ctx);
}

/* n times `piece` inside {"a":[...]}. */
static char *repeated(const char *piece, size_t n, size_t *length)
{
    size_t k = strlen(piece);
    char *text = malloc(n * k + 16);
    size_t i;

    memcpy(text, "{\"a\":[", 6);
    for (i = 0; i < n; i++) {
        memcpy(text + 6 + i * k, piece, k);
    }
    memcpy(text + 6 + n * k, "0]}", 3);
    *length = 6 + n * k + 3;
    return text;
}

static void expect_refused(const char *piece, size_t count, const char *needle)
{
    struct vc_ctx *ctx = test_ctx();
    struct json_walk walk;
    uint64_t counted;
    const char *name;
    json_t *value;
    size_t n = 0;
    char *text = repeated(piece, count, &n);

    vc_json_walk_begin(&walk, text, n);
    assert_int_equal(vc_json_walk_next(ctx, &walk, &name, &value), VC_E_FORMAT);
    assert_non_null(strstr(vc_ctx_message(ctx), needle));
    vc_json_walk_end(ctx, &walk);
    assert_int_equal(vc_json_tree_load(ctx, text, n, &value, &counted), VC_E_FORMAT);
    assert_non_null(strstr(vc_ctx_message(ctx), needle));
    assert_null(value);
    free(text);
    test_ctx_done(ctx);
}

/* By levels, and by what the tree would take: whatever the length, nothing is made of such a text. */
static void test_bounded(void **state)
{
    (void)state;
    expect_refused("[", 998, "']' expected"); /* the thousandth level is fine, but nothing closes it */
    expect_refused("[", 999, "byte 1004: nested too deep, more than 1000 levels");
    expect_refused("[", 3000000, "nested too deep");
    expect_refused("{\"a\":", 3000000, "nested too deep");
    expect_refused("{},", 1000000, "little but brackets");
    expect_refused("[[],[]],", 1000000, "little but brackets");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples), cmocka_unit_test(test_damage),  cmocka_unit_test(test_minus_zero),
        cmocka_unit_test(test_memory),  cmocka_unit_test(test_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
