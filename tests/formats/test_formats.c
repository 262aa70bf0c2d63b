/* test_formats.c - a format is found by the content of a file, not by its name, and what is none of them is refused
 * with a sentence that says what it is. Judge: first bytes of many kinds of files, written by hand. */
#include "formats_test.h"

#include <stdlib.h>

#include "formats/formats.h"
#include "support_options.h"

static void expect_named(const char *start, size_t n, const char *needle)
{
    struct bytes b = {NULL, 0, 0};

    bytes_add(&b, start, n);
    bytes_fill(&b, 0xa5, 600);
    expect_bad(needle, b.p, b.n, needle);
    bytes_release(&b);
}

#define EXPECT_NAMED(start, needle) expect_named(start, sizeof(start) - 1, needle)

static void test_known_files(void **state)
{
    struct bytes b = {NULL, 0, 0};

    (void)state;
    EXPECT_NAMED("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "git lfs pull");
    EXPECT_NAMED("\x89HDF\r\n\x1a\n", "HDF5");
    EXPECT_NAMED("GGUF\0\0\0\3", "big-endian GGUF");
    EXPECT_NAMED("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "PyTorch");
    EXPECT_NAMED("\x80\x04\x95", "pickle");
    EXPECT_NAMED("7z\xbc\xaf\x27\x1c", "7z archive");
    EXPECT_NAMED("\x1f\x8b\x08", "gzip");
    EXPECT_NAMED("\n <!DOCTYPE html><html>", "HTML page");
    EXPECT_NAMED("<HTML>", "HTML page");
    EXPECT_NAMED("\x40\0\0\0\0\0\0\0{\"a\":", "safetensors");
    EXPECT_NAMED("PK\3\5", "starts with bytes 50 4b 03 05");
    EXPECT_NAMED("\x08\x07\x12", "starts with bytes 08 07 12");
    expect_bad("text", "just some text\n", 15, "text file");
    expect_bad("one byte", "P", 1, "text file");
    bytes_fill(&b, 0, 600);
    expect_bad("zeros", b.p, b.n, "zero bytes");
    bytes_add(&b, "x", 1);
    memcpy(b.p + 257, "ustar", 5);
    expect_bad("tar", b.p, b.n, "tar archive");
    bytes_release(&b);
}

/* Other checkpoints in zip archives, and archives without arrays. */
static void test_other_zips(void **state)
{
    struct zip_builder z;

    (void)state;
    memset(&z, 0, sizeof z);
    zip_add(&z, "archive/data.pkl", "\x80\x02.", 3, NULL);
    zip_add(&z, "archive/data/0", "1234", 4, NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    expect_bad("torch", z.out.p, z.out.n, "PyTorch");
    zip_release(&z);
    zip_add(&z, "config.json", "{}", 2, NULL);
    zip_add(&z, "model.weights.h5", "1234", 4, NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    expect_bad("keras", z.out.p, z.out.n, "Keras");
    zip_release(&z);
    zip_add(&z, "word/document.xml", "<xml/>", 6, NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    expect_bad("document", z.out.p, z.out.n, "without any npy array");
    zip_release(&z);
}

static void test_options(void **state)
{
    struct vc_open_options options = support_open();
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;

    options.void_as = VC_DTYPE_COUNT;
    (void)state;
    assert_int_equal(vc_model_open(ctx, "x", &options, &model), VC_E_ARGUMENT);
    assert_null(model);
    vc_model_close(NULL);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_files),
        cmocka_unit_test(test_other_zips),
        cmocka_unit_test(test_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
