/* test_output_name.c - the names that outputs get when nobody gives one, and which inputs are several files: a table
 * of input, options and name, written by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <vcompress/report.h>

#include "core/model/source.h"
#include "formats/formats.h"
#include "formats/gguf/gguf.h"
#include "formats/npz/npz.h"
#include "formats/safetensors/safetensors.h"
#include "formats/torch/torch.h"
#include "support_options.h"

static struct vc_ctx *ctx;

static int set_up(void **unused)
{
    (void)unused;
    return vc_ctx_create(&ctx) == VC_OK ? 0 : -1;
}

static int tear_down(void **unused)
{
    (void)unused;
    vc_ctx_free(ctx);
    return 0;
}

/* `divided`: the model is a folder, or several files. */
static void name_is(const char *path, const struct vc_format *format, bool divided, struct vc_name_options options,
                    const char *name)
{
    char file;
    char *own_path = strdup(path);
    struct vc_model model = {
        .ctx = ctx, .path = own_path, .format = format, .input = divided ? NULL : (struct vc_infile *)(void *)&file};
    char *text = NULL;

    assert_int_equal(vc_model_output_name(ctx, &model, &options, &text), VC_OK);
    assert_string_equal(text, name);
    vc_text_free(text);
    free(own_path);
}

static void test_files(void **unused)
{
    const struct vc_name_options fp16 = support_name("fp16");
    struct vc_name_options int8 = support_name("int8");
    struct vc_name_options divided = fp16;

    (void)unused;
    int8.more_tensors = true;
    divided.folder = true;
    name_is("model.npz", &vc_format_npz, false, int8, "model.int8.npz");
    name_is("a.b/model", &vc_format_npz, false, int8, "a.b/model.int8.npz");
    name_is("/x/.hidden", &vc_format_npz, false, fp16, "/x/.hidden.fp16.npz");
    name_is("w.npy", &vc_format_npy, false, fp16, "w.fp16.npy");
    name_is("w.npy", &vc_format_npy, false, int8, "w.int8.npz");
    name_is("m.v2.pth", &vc_format_torch, false, int8, "m.v2.int8.pth");
    name_is("m.safetensors", &vc_format_safetensors, false, divided, "m.fp16");
    name_is("q-00001-of-00003.gguf", &vc_format_gguf, false, fp16, "q.fp16.gguf");
}

/* Another format, another folder, no tag. */
static void test_format_and_folder(void **unused)
{
    struct vc_name_options options = support_name("int8");
    struct vc_model model = {.ctx = ctx, .format = &vc_format_npz};
    char *text = NULL;

    (void)unused;
    options.more_tensors = true;
    options.format = "safetensors";
    name_is("d/model.npz", &vc_format_npz, false, options, "d/model.int8.safetensors");
    name_is("llama/", &vc_format_gguf, true, options, "llama.int8.safetensors");
    name_is("llama", &vc_format_safetensors, true, options, "llama.int8");
    options.format = "npy";
    name_is("w.npy", &vc_format_npy, false, options, "w.int8.npy");
    options.format = "torch";
    options.tag = "";
    name_is("d/w.npy", &vc_format_npy, false, options, "d/w.pt");
    options.into = "out";
    name_is("d/w.npy", &vc_format_npy, false, options, "out/w.pt");
    name_is("w.npy", &vc_format_npy, false, options, "out/w.pt");
    options.into = "/";
    name_is("d/w.npy", &vc_format_npy, false, options, "/w.pt");
    options.format = NULL;
    options.tag = "fp16";
    options.into = "out/";
    name_is("a/llama//", &vc_format_safetensors, true, options, "out/llama.fp16");
    options.format = "hdf5";
    assert_int_equal(vc_model_output_name(ctx, &model, &options, &text), VC_E_ARGUMENT);
    assert_null(text);
    assert_non_null(strstr(vc_ctx_message(ctx), "format: 'hdf5' is no format that can be written: npy, npz, "));
}

static void test_folders(void **unused)
{
    const struct vc_name_options fp16 = support_name("fp16");
    char here[4096];
    char *want;

    (void)unused;
    name_is("llama", &vc_format_safetensors, true, fp16, "llama.fp16");
    name_is("a/llama//", &vc_format_safetensors, true, fp16, "a/llama.fp16");
    name_is("a/llama-3.1/", &vc_format_safetensors, true, fp16, "a/llama-3.1.fp16");
    name_is("llama/model.safetensors.index.json", &vc_format_safetensors, true, fp16, "llama.fp16");
    name_is("d/q-00002-of-00003.gguf", &vc_format_gguf, true, fp16, "d/q.fp16");
    assert_non_null(getcwd(here, sizeof here - 5));
    want = strcat(here, ".fp16");
    name_is(".", &vc_format_safetensors, true, fp16, want);
    name_is("./", &vc_format_safetensors, true, fp16, want);
    name_is("model.safetensors.index.json", &vc_format_safetensors, true, fp16, want);
}

/* A folder with one GGUF file: the model's path is the file, the user knows the folder. */
static void test_input(void **unused)
{
    struct vc_name_options options = support_name("int8");

    (void)unused;
    options.input = "d";
    name_is("d/m.gguf", &vc_format_gguf, false, options, "d.int8.gguf");
}

static void test_standard_input(void **unused)
{
    struct vc_name_options options = support_name("int8");
    struct vc_model model = {.ctx = ctx, .format = &vc_format_npz};
    char *text = NULL;

    (void)unused;
    options.input = "-";
    assert_int_equal(vc_model_output_name(ctx, &model, &options, &text), VC_E_ARGUMENT);
    assert_null(text);
}

static void test_no_tag(void **unused)
{
    struct vc_name_options options = support_name(NULL);
    struct vc_model model = {.ctx = ctx, .format = &vc_format_npz};
    char *text = NULL;

    (void)unused;
    options.input = "m.npz";
    assert_int_equal(vc_model_output_name(ctx, &model, &options, &text), VC_E_ARGUMENT);
    assert_null(text);
    assert_string_equal(vc_ctx_message(ctx), "a name needs a tag");
}

static void test_divided(void **unused)
{
    (void)unused;
    assert_true(vc_path_is_divided("/"));
    assert_true(vc_path_is_divided("none/model.safetensors.index.json"));
    assert_true(vc_path_is_divided("none/q-00001-of-00002.gguf"));
    assert_false(vc_path_is_divided("none/q-00001-of-00002.npz"));
    assert_false(vc_path_is_divided("none/-00001-of-00002.gguf"));
    assert_false(vc_path_is_divided("none/model.gguf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),          cmocka_unit_test(test_folders),
        cmocka_unit_test(test_input),          cmocka_unit_test(test_format_and_folder),
        cmocka_unit_test(test_folders),        cmocka_unit_test(test_input),
        cmocka_unit_test(test_standard_input), cmocka_unit_test(test_divided),
        cmocka_unit_test(test_no_tag),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
