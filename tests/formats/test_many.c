/* test_many.c - more of everything than small tests have, so that lists grow and windows move: a folder of 40 files
 * with thousands of tensors, an index of several megabytes written in two ways, second names, metadata that files do
 * not agree about, parts by the dozen. Judge: the tensors' values, which tell where they were written. */
#include "formats_test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/safetensors/safetensors.h"
#include "tasks.h"

enum { N_FILES = 40, N_EACH = 200, N_TIED = 20, N_NOTES = 20, N_BESIDE = 40 };

/* Names are long, as generated ones can be. */
static void tensor_name(char *name, size_t capacity, unsigned file, unsigned i)
{
    (void)snprintf(name, capacity, "model.layers.%u.%0400u.weight", file, i);
}

/* A file of N_EACH values that are its number and theirs; the first ones have second names in the metadata. */
static void save_shard(unsigned file)
{
    struct bytes header = {NULL, 0, 0};
    struct bytes out = {NULL, 0, 0};
    char text[1200];
    char name[500];
    unsigned i;

    bytes_add(&header, "{\"__metadata__\":{\"format\":\"pt\"", 30);
    for (i = 0; i < N_NOTES; i++) { /* half of them differ from file to file */
        (void)snprintf(text, sizeof text, ",\"note%u\":\"%u\"", i, i % 2 == 0 ? i : file);
        bytes_add(&header, text, strlen(text));
    }
    for (i = 0; i < N_TIED && file == 0; i++) {
        tensor_name(name, sizeof name, file, i);
        (void)snprintf(text, sizeof text, "%s\\\"tied%u\\\":\\\"%s\\\"",
                       i == 0 ? ",\"" VC_SAFETENSORS_NAMES "\":\"{" : ",", i, name);
        bytes_add(&header, text, strlen(text));
    }
    bytes_add(&header, "}\"", file == 0 ? 2 : 0);
    bytes_add(&header, "}", 1);
    for (i = 0; i < N_EACH; i++) {
        tensor_name(name, sizeof name, file, i);
        (void)snprintf(text, sizeof text, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%u,%u]}", name,
                       4 * i, 4 * i + 4);
        bytes_add(&header, text, strlen(text));
    }
    bytes_add(&header, "}", 1);
    bytes_u64(&out, header.n);
    bytes_add(&out, header.p, header.n);
    for (i = 0; i < N_EACH; i++) {
        float v = (float)(1000 * file + i);

        bytes_add(&out, &v, 4);
    }
    (void)snprintf(name, sizeof name, "in/model-%05u-of-%05u.safetensors", file + 1, (unsigned)N_FILES);
    (void)save_own(name, out);
    bytes_release(&header);
}

/* `blank`: what is between the entries; begin: in front of everything. */
static void save_index(const char *begin, const char *blank, const char *escape)
{
    struct bytes b = {NULL, 0, 0};
    char text[600];
    unsigned file, i;

    bytes_add(&b, begin, strlen(begin));
    (void)snprintf(text, sizeof text, "{\"metadata\": {\"total_size\": %u},%s\"weight_map\": {", 4 * N_FILES * N_EACH,
                   blank);
    bytes_add(&b, text, strlen(text));
    for (i = 0; i < N_EACH; i++) { /* files take turns */
        for (file = 0; file < N_FILES; file++) {
            char name[500];

            tensor_name(name, sizeof name, file, i);
            (void)snprintf(text, sizeof text, "%s%s\"%s%s\": \"model-%05u-of-%05u.safetensors\"",
                           i + file == 0 ? "" : ",", blank, escape, name + (escape[0] != '\0'), file + 1,
                           (unsigned)N_FILES);
            bytes_add(&b, text, strlen(text));
        }
    }
    bytes_add(&b, "}}\n", 3);
    (void)save_own("in/model.safetensors.index.json", b);
}

static void check_values(struct vc_ctx *ctx, const char *path)
{
    struct vc_model *model = must_open(ctx, path);
    unsigned file, i;
    char name[500];

    for (file = 0; file < N_FILES; file++) {
        for (i = 0; i < N_EACH; i++) {
            float v = -1;
            size_t index;

            tensor_name(name, sizeof name, file, i);
            index = vc_model_find(model, name);
            assert_int_not_equal(index, VC_NO_TENSOR);
            assert_int_equal(vc_source_read_any(ctx, model, index, VC_FORM_VALUES, 0, &v, 4), VC_OK);
            assert_true(v == (float)(1000 * file + i));
        }
    }
    for (i = 0; i < N_TIED; i++) {
        size_t index;

        (void)snprintf(name, sizeof name, "tied%u", i);
        index = vc_model_find(model, name);
        assert_int_not_equal(index, VC_NO_TENSOR);
        assert_int_not_equal(model->tensors[index].alias_of, VC_NO_TENSOR);
    }
    vc_model_close(model);
}

static unsigned count_beside(const char *folder)
{
    unsigned n = 0;
    unsigned i;
    char name[100];

    for (i = 0; i < N_BESIDE; i++) {
        (void)snprintf(name, sizeof name, "%s/%s%u.txt", folder, i % 2 == 0 ? "" : "inner/", i);
        n += exists(name);
    }
    return n;
}

static void test_folder(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task fewer = task_copy();
    char name[100];
    unsigned i;

    (void)state;
    fewer.write.max_shard_bytes = 4 * N_EACH * 3;
    assert_int_equal(mkdir(in_folder("in"), 0700), 0);
    assert_int_equal(mkdir(in_folder("in/inner"), 0700), 0);
    for (i = 0; i < N_FILES; i++) {
        save_shard(i);
    }
    for (i = 0; i < N_BESIDE; i++) {
        (void)snprintf(name, sizeof name, "in/%s%u.txt", i % 2 == 0 ? "" : "inner/", i);
        save_text(name, "beside");
    }
    save_index("", "", "");
    check_values(ctx, "in");
    save_index(" \t\r\n", "\n  ", "\\u006d"); /* the m of "model": no longer the plain form */
    check_values(ctx, "in");
    must_run(ctx, "in", "out", task_copy());
    check_values(ctx, "out");
    assert_int_equal(count_beside("out"), count_beside("in"));
    must_run(ctx, "in", "few", fewer);
    check_values(ctx, "few");
    must_run(ctx, "in", "one.safetensors", task_copy());
    if (strstr(last_report.note, "note1, note11, ") == NULL || strstr(last_report.note, " and more") == NULL) {
        fail_msg("%s", last_report.note);
    }
    check_values(ctx, "one.safetensors");
    vc_ctx_free(ctx);
    remove_path("in/inner");
    remove_path("in");
    remove_path("out/inner");
    remove_path("out");
    remove_path("few/inner");
    remove_path("few");
    empty_folder();
}

/* ---- names ---- */

/* Names that one format has and another cannot: refused with the name's place, whatever its length. */
static void test_names(void **state)
{
    static const struct {
        const char *first, *second, *sentence; /* of an npz */
    } cases[] = {
        {"", "w", "has an empty name"},
        {"<70000>", "w", "zip allows"},
        {"<300>", "<400>", NULL},
        {"a/b", "a\\\\b", NULL},
    };
    struct vc_ctx *ctx = test_ctx();
    size_t i;
    unsigned k;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bytes header = {NULL, 0, 0};
        struct bytes b = {NULL, 0, 0};

        for (k = 0; k < 2; k++) {
            const char *name = k == 0 ? cases[i].first : cases[i].second;
            char text[100];

            bytes_add(&header, k == 0 ? "{\"" : ",\"", 2);
            if (name[0] == '<') {
                bytes_fill(&header, 'n', strtoul(name + 1, NULL, 10));
            } else {
                bytes_add(&header, name, strlen(name));
            }
            (void)snprintf(text, sizeof text, "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%u,%u]}", 4 * k,
                           4 * k + 4);
            bytes_add(&header, text, strlen(text));
        }
        bytes_add(&header, "}", 1);
        bytes_u64(&b, header.n);
        bytes_add(&b, header.p, header.n);
        bytes_add(&b, "abcdefgh", 8);
        (void)save_own("in.safetensors", b);
        bytes_release(&header);
        if (cases[i].sentence != NULL) {
            remove_path("out.npz");
            must_refuse(ctx, "in.safetensors", "out.npz", task_copy(), cases[i].sentence);
        } else {
            must_run(ctx, "in.safetensors", "out.npz", task_copy());
            must_run(ctx, "out.npz", "back.safetensors", task_copy());
            must_run(ctx, "in.safetensors", "out.safetensors", task_copy());
            expect_same("back.safetensors", "out.safetensors");
        }
    }
    vc_ctx_free(ctx);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_folder), cmocka_unit_test(test_names)};

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
