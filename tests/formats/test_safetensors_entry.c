/* test_safetensors_entry.c - members of a header that are read without a tree: what is taken, what is left to jansson,
 * and that both say the same of everything that is taken, whatever byte is changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "formats/safetensors/safetensors_entry.h"

#define ENTRY "\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}"

static void test_taken(void **unused)
{
    static const char *const texts[] = {
        "{" ENTRY "}", "{" ENTRY "}  \n",
        "{ \"w\" : { \"shape\" : [ 2 , 3 ], \"data_offsets\":[0,24],\"dtype\":\"F32\" } }"};
    struct safetensors_plain_entry entry;
    size_t end;

    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        size_t n = strlen(texts[i]);

        assert_true(vc_safetensors_plain_entry(texts[i], n, 0, &entry, &end));
        assert_int_equal(end, n);
        assert_int_equal(entry.n_name, 1);
        assert_memory_equal(entry.name, "w", 1);
        assert_int_equal(entry.n_dtype, 3);
        assert_memory_equal(entry.dtype, "F32", 3);
        assert_int_equal(entry.n_dims, 2);
        assert_int_equal(entry.shape[0], 2);
        assert_int_equal(entry.shape[1], 3);
        assert_int_equal(entry.ends[0], 0);
        assert_int_equal(entry.ends[1], 24);
    }
    /* the comma behind it is where the next one begins */
    assert_true(vc_safetensors_plain_entry("{" ENTRY "," ENTRY "}", 2 * strlen(ENTRY) + 3, 0, &entry, &end));
    assert_int_equal(end, strlen(ENTRY) + 1);
    assert_true(vc_safetensors_plain_entry("{" ENTRY "," ENTRY "}", 2 * strlen(ENTRY) + 3, end, &entry, &end));
    assert_int_equal(end, 2 * strlen(ENTRY) + 3);
}

static void test_left(void **unused)
{
    static const char *const texts[] = {
        "",
        "{}",
        "[" ENTRY "]",
        "{" ENTRY,
        "{" ENTRY "} x",
        "{" ENTRY "}}",
        "{\"\\u0077\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
        "{\"\xc3\xa9\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,4]}}",
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}",
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}",
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[1,],\"data_offsets\":[0,4]}}",
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,4]}}",
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0]}}",
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4,4]}}",
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"shape\":[],\"data_offsets\":[0,4]}}",
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"x\":1}}",
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[]}}",
        "{\"w\":{\"dtype\":1,\"shape\":[],\"data_offsets\":[0,4]}}",
        "{\"__metadata__\":{\"format\":\"pt\"}}",
    };
    struct safetensors_plain_entry entry;
    size_t end;

    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (vc_safetensors_plain_entry(texts[i], strlen(texts[i]), 0, &entry, &end)) {
            fail_msg("%s was taken", texts[i]);
        }
    }
}

/* jansson reads the same text to the same values. */
static void expect_same(const char *text, size_t n, const struct safetensors_plain_entry *entry)
{
    json_error_t error;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    char name[64] = "";
    json_t *json;
    json_t *shape;

    assert_non_null(root);
    assert_int_equal(json_object_size(root), 1);
    memcpy(name, entry->name, entry->n_name);
    json = json_object_get(root, name);
    assert_int_equal(json_object_size(json), 3);
    assert_int_equal(json_string_length(json_object_get(json, "dtype")), entry->n_dtype);
    assert_memory_equal(json_string_value(json_object_get(json, "dtype")), entry->dtype, entry->n_dtype);
    shape = json_object_get(json, "shape");
    assert_int_equal(json_array_size(shape), entry->n_dims);
    for (size_t i = 0; i < entry->n_dims; i++) {
        assert_int_equal(json_integer_value(json_array_get(shape, i)), entry->shape[i]);
    }
    shape = json_object_get(json, "data_offsets");
    assert_int_equal(json_integer_value(json_array_get(shape, 0)), entry->ends[0]);
    assert_int_equal(json_integer_value(json_array_get(shape, 1)), entry->ends[1]);
    json_decref(root);
}

/* Every byte by every other one, and every length. */
static void test_changed(void **unused)
{
    static const char sample[] = "{ " ENTRY " }";
    struct safetensors_plain_entry entry;
    size_t n_taken = 0;
    size_t end;

    (void)unused;
    for (size_t at = 0; at < sizeof sample - 1; at++) {
        for (int c = 0; c < 256; c++) {
            char text[sizeof sample];

            memcpy(text, sample, sizeof sample);
            text[at] = (char)c;
            if (vc_safetensors_plain_entry(text, sizeof sample - 1, 0, &entry, &end) && end == sizeof sample - 1) {
                expect_same(text, sizeof sample - 1, &entry);
                n_taken++;
            }
        }
        assert_false(vc_safetensors_plain_entry(sample, at, 0, &entry, &end));
    }
    assert_true(n_taken > 200); /* letters of names, digits, spaces */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_changed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
