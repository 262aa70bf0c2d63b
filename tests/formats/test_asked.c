/* test_asked.c - what an output is asked to be: by its name, by a format, divided or in a folder; and what does not go
 * together. What files are that others speak of; links of Hugging Face's cache. Judge: sentences written by hand. */
#include "formats_test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder_builder.h"
#include "formats/formats.h"
#include "formats/io/side_file.h"
#include "tasks.h"
#include "torch_files.h"

static void test_names(void **state)
{
    static const char *const names[][2] = {
        {"a.npz", "npz"},   {"a.NPZ", "npz"},  {"b/a.npy", "npy"}, {"a.gguf", "gguf"},
        {"a.onnx", "onnx"}, {"a.pt", "torch"}, {"a.pth", "torch"}, {"a.safetensors", "safetensors"},
        {"a.txt", NULL},    {".npz", NULL},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *got = vc_format_of_name(names[i][0]);

        if ((got == NULL) != (names[i][1] == NULL) || (got != NULL && strcmp(got, names[i][1]) != 0)) {
            fail_msg("%s is %s", names[i][0], got != NULL ? got : "no format");
        }
    }
    for (i = 0; vc_name_at(VC_NAMES_FORMATS, i) != NULL; i++) {
        const char *extension = vc_name_at(VC_NAMES_EXTENSIONS, i);
        char name[32];

        assert_non_null(extension);
        snprintf(name, sizeof name, "a%s", extension);
        assert_string_equal(vc_format_of_name(name), vc_name_at(VC_NAMES_FORMATS, i));
    }
    assert_int_equal(i, 6);
    assert_null(vc_name_at(VC_NAMES_EXTENSIONS, i));
}

static struct task asked(const char *format, uint64_t max_shard_bytes)
{
    struct task task = task_copy();

    task.write.format = format;
    task.write.max_shard_bytes = max_shard_bytes;
    return task;
}

static struct task share(uint64_t max_shard_bytes)
{
    struct task task = asked(NULL, max_shard_bytes);

    task.write.shard = 0;
    task.write.n_shards = 2;
    return task;
}

static void test_refused(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task deflated = asked(NULL, 0);
    struct task int8 = task_int8();
    struct zip_builder z = {0};

    (void)state;
    int8.write.format = "npy";
    zip_add_bytes(&z, "a.npy", npy_matrix(6, 40), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    (void)save("in.npz", &z.out);
    (void)save_own("in.npy", npy_matrix(6, 40));
    zip_release(&z);
    must_run(ctx, "in.npz", "in.safetensors", task_copy());
    must_refuse(ctx, "in.npz", "q.npz", asked("zip", 0), "format: 'zip' is no format that can be written: npy, npz, ");
    must_refuse(ctx, "in.npz", "q.npz", asked("gguf", 0), "q.npz: its name says npz, but format is gguf");
    must_refuse(ctx, "in.npz", "q.npz", asked(NULL, 100),
                "only safetensors and GGUF can be divided into several files");
    must_refuse(ctx, "in.npz", "q", asked("npy", 100), "only safetensors and GGUF can be divided");
    must_refuse(ctx, "in.npz", "q.safetensors", asked(NULL, 100),
                "q.safetensors: names a file, but max_shard_bytes makes a folder of them");
    must_refuse(ctx, "in.safetensors", "q.safetensors", share(0), "divides the files of a checkpoint in a folder");
    must_refuse(ctx, "in.safetensors", "q", share(0), "divides the files of a checkpoint in a folder");
    must_refuse(ctx, "in.safetensors", "..", asked(NULL, 100), "is no name for a new folder");
    must_refuse(ctx, "in.safetensors", "gone/q", asked(NULL, 100), "gone");
    remove_path("q");
    must_refuse(ctx, "in.npy", "q", int8,
                "the output cannot be npy (codes and scales are several arrays); npz can hold it");
    deflated.write.deflate = VC_DEFLATE_AUTO;
    must_refuse(ctx, "in.npz", "q.gguf", deflated, "deflate");
    must_refuse(ctx, "in.npz", "q.safetensors", deflated, "deflate");
    must_run(ctx, "in.npz", "q", asked("safetensors", 0));
    must_run(ctx, "in.npz", "d/", asked("safetensors", 100)); /* a folder */
    assert_true(exists("d/model.safetensors.index.json") || exists("d/model.safetensors"));
    remove_path("d");
    empty_folder();
    vc_ctx_free(ctx);
}

/* An index says safetensors; what lies there is something else. */
static void test_expected(void **state)
{
    static const char index[] = "{\"weight_map\": {\"a\": \"a.safetensors\"}}";
    struct zip_builder z = {0};
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    zip_add_bytes(&z, "a.npy", npy_matrix(6, 40), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    (void)save("a.safetensors", &z.out);
    (void)save_text("model.safetensors.index.json", index);
    assert_int_equal(walk_path(ctx, scratch_folder(), NULL), VC_E_FORMAT);
    expect_says(ctx, "a.safetensors: is npz by its content, expected safetensors");
    z.out.n -= 30;
    (void)save("a.safetensors", &z.out);
    assert_int_equal(walk_path(ctx, scratch_folder(), NULL), VC_E_FORMAT);
    expect_says(ctx, "a.safetensors: ");
    (void)save_own("a.safetensors", npy_matrix(2, 2));
    assert_int_equal(walk_path(ctx, scratch_folder(), NULL), VC_E_FORMAT);
    expect_says(ctx, "a.safetensors: is npy by its content, expected safetensors");
    zip_release(&z);
    empty_folder();
    test_ctx_done(ctx);
}

/* ---- links ---- */

static bool links_stay(const char *folder, const char *name)
{
    struct vc_ctx *ctx = test_ctx();
    bool stay;

    assert_int_equal(vc_links_stay(ctx, folder, name, &stay), VC_OK);
    vc_ctx_free(ctx);
    return stay;
}

static void link_to(const char *target, const char *name, bool stays)
{
    char folder[300];

    snprintf(folder, sizeof folder, "%s/hub/snapshots/snapshots/main", scratch_folder());
    (void)unlink(in_folder(name));
    assert_int_equal(symlink(target, in_folder(name)), 0);
    if (links_stay(folder, strrchr(name, '/') + 1) != stays) {
        fail_msg("%s -> %s: %s", name, target, stays ? "stays" : "leads out");
    }
    assert_int_equal(unlink(in_folder(name)), 0);
}

/* <cache>/snapshots/<revision>/config.json -> <cache>/blobs/<hash>, and a folder whose path says "snapshots" twice. */
static void test_cache(void **state)
{
    static const char *const folders[] = {"hub",
                                          "hub/blobs",
                                          "hub/snapshots",
                                          "hub/snapshots/blobs",
                                          "hub/snapshots/snapshots",
                                          "hub/snapshots/snapshots/main"};
    static const char name[] = "hub/snapshots/snapshots/main/config.json";
    size_t i;

    (void)state;
    for (i = 0; i < 6; i++) {
        assert_int_equal(mkdir(in_folder(folders[i]), 0700), 0);
    }
    (void)save_text("hub/blobs/1234", "{}");
    (void)save_text("hub/snapshots/blobs/1234", "{}");
    (void)save_text("hub/snapshots/snapshots/main/real.json", "{}");
    (void)save_text("hub/snapshots/snapshots/mainly", "{}");
    link_to("real.json", name, true);
    link_to("../../blobs/1234", name, true);
    link_to("../../../blobs/1234", name, false); /* of another cache */
    link_to("../mainly", name, false);
    link_to("/dev/null", name, false);
    link_to("gone", name, false);
    assert_false(links_stay(in_folder("gone"), "x"));
    assert_false(links_stay(in_folder("hub/blobs"), "../snapshots/blobs/1234"));
    assert_true(links_stay(in_folder("hub/blobs"), "1234"));
    assert_true(links_stay("/", "dev/null"));
    (void)unlink(in_folder("hub/blobs/1234"));
    (void)unlink(in_folder("hub/snapshots/blobs/1234"));
    (void)unlink(in_folder("hub/snapshots/snapshots/main/real.json"));
    (void)unlink(in_folder("hub/snapshots/snapshots/mainly"));
    for (i = 6; i-- > 0;) {
        assert_int_equal(rmdir(in_folder(folders[i])), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_expected),
        cmocka_unit_test(test_cache),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
