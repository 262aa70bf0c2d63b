/* test_choose_files.c - which files of a folder are its model: the usual names, indices, GGUF and PyTorch files beside
 * others, pipelines, folders inside. Folders are lists of names, written by hand with what is expected of each. */
#include "formats_test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder_builder.h"
#include "gguf_builder.h"
#include "tasks.h"
#include "torch_files.h"

#define ROOT "in"

static const char *inside(const char *name)
{
    static char paths[4][400];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/" ROOT "%s%s", scratch_folder(), name[0] != '\0' ? "/" : "", name);
    return path;
}

/* A file whose extension says what is in it: one tensor, called as the file up to its first dot or slash. */
static void make_file(const char *name)
{
    static const uint64_t dims[] = {32};
    struct bytes b = {NULL, 0, 0};
    struct gguf_builder g = {0};
    char tensor[64];
    char header[200];
    size_t n = strcspn(name, "./");

    snprintf(tensor, sizeof tensor, "%.*s", (int)n, name);
    if (strstr(name, ".gguf") != NULL) {
        unsigned no = strstr(name, "-00002-of-") != NULL;
        unsigned char v[4] = {(unsigned char)no, 0, 0, 0};

        if (strstr(name, "-of-") != NULL) {
            gguf_pair(&g, "split.no", 2, v, 2);
            gguf_pair(&g, "split.count", 2, "\2", 2);
            gguf_pair(&g, "split.tensors.count", 5, "\2\0\0", 4);
        }
        gguf_tensor(&g, tensor, 0, 1, dims, 128);
        b = gguf_finish(&g);
    } else if (strstr(name, ".bin") != NULL && strstr(name, ".json") == NULL) {
        static const size_t sizes[] = {2048, 24};
        struct bytes pickle = plain_pickle();

        b = torch_archive(&pickle, "little", sizes, 2, NULL);
        bytes_release(&pickle);
    } else if (strstr(name, ".json") != NULL) {
        bytes_add(&b, "{\"weight_map\": {}}", 18);
    } else {
        snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", tensor);
        bytes_u64(&b, strlen(header));
        bytes_add(&b, header, strlen(header));
        bytes_add(&b, "\0\0\0\0", 4);
    }
    folder_write(inside(""), name, b.p, b.n);
    bytes_release(&b);
}

/* Names with blanks between them; those that end in '/' are folders, and come before what is in them. */
static void make_files(const char *names)
{
    char *copy = strdup(names);
    char *rest = NULL;
    char *name;

    assert_int_equal(mkdir(inside(""), 0700), 0);
    for (name = strtok_r(copy, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest)) {
        if (name[strlen(name) - 1] == '/') {
            assert_int_equal(mkdir(inside(name), 0700), 0);
        } else {
            make_file(name);
        }
    }
    free(copy);
}

static void remove_files(const char *names)
{
    char *copy = strdup(names);
    char *rest = NULL;
    char *name;
    unsigned pass;

    for (pass = 0; pass < 2; pass++) { /* files, then folders */
        strcpy(copy, names);
        for (name = strtok_r(copy, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest)) {
            if (pass == 0 ? name[strlen(name) - 1] != '/' : name[strlen(name) - 1] == '/') {
                (void)remove(inside(name));
            }
        }
    }
    free(copy);
    (void)rmdir(inside("text/deep"));
    (void)rmdir(inside("text"));
    assert_int_equal(rmdir(inside("")), 0);
}

struct choice {
    const char *names;
    const char *tensors; /* of the model, in its order; NULL: it is refused */
    const char *words;   /* of the refusal, or of a note; NULL: none */
};

static const struct choice choices[] = {
    {"a.safetensors", "a", NULL},
    {"model.safetensors other.safetensors", "model", NULL},
    {"A.SAFETENSORS", "A", NULL},
    {"a.safetensors pytorch_model.bin", "a", "the safetensors files are read, not the weights in pytorch_model.bin"},
    {"a.safetensors b.safetensors", NULL, "with 2 safetensors files and no index"},
    {"", NULL, "is a folder without safetensors, GGUF or ONNX files"},
    {"readme.md", NULL, "is a folder without safetensors, GGUF or ONNX files"},
    {"weights.h5 readme.md", NULL, "without safetensors, GGUF or ONNX files; give the file itself (weights.h5?)"},
    {"b.onnx.data a.onnx b.onnx", NULL, "with 2 ONNX models, none of which is model.onnx; give one of them (a.onnx?)"},
    {"x.safetensors.index.fp16.json readme.md", "", NULL},
    {"x.safetensors.index.fp16.json x.safetensors.index.fp32.json", NULL, "with 2 indices; give one of them"},
    {"diffusion_pytorch_model.safetensors x.safetensors.index.fp16.json b.safetensors", "diffusion_pytorch_model",
     NULL},
    {"tf.index.json", NULL, "give the file itself (tf.index.json?)"},
    /* indices */
    {"model.safetensors.index.json x.safetensors.index.json a.safetensors", "", NULL},
    {"y.safetensors.index.json a.safetensors", "", NULL},
    {"y.safetensors.index.json x.safetensors.index.json a.safetensors", NULL, "with 2 indices; give one of them"},
    {"pytorch_model.bin.index.json x.bin.index.json", "", NULL},
    {"y.bin.index.json x.bin.index.json pytorch_model.bin", NULL, "with 2 indices; give one of them"},
    /* GGUF */
    {"m.gguf readme.md", "m", NULL},
    {"m.gguf n.gguf", NULL, "is a folder with 2 GGUF models; give one of them"},
    {"m-00001-of-00002.gguf m-00002-of-00002.gguf", "m-00001-of-00002 m-00002-of-00002", NULL},
    {"text/ text/m.gguf", NULL,
     "is a folder without safetensors, GGUF or ONNX files; give the file itself (text/m.gguf?)"},
    /* PyTorch */
    {"pytorch_model.bin training_args.bin optimizer.bin", "w b", NULL},
    {"adapter_model.bin", "w b", NULL},
    {"pytorch_model.bin pytorch_model-1.bin", "w b", NULL},
    {"pytorch_model-1.bin pytorch_model-2.bin", NULL,
     "is a folder with 2 PyTorch files (pytorch_model-1.bin, ...) and no index; give one of them"},
    {"pytorch_modeling.bin", NULL, "give the file itself (pytorch_modeling.bin?)"},
    /* pipelines of diffusers */
    {"model_index.json text/ text/a.safetensors vae/ vae/b.safetensors", NULL,
     "is a pipeline (model_index.json) of no models that can be read"}, /* it names none of them */
    {"model_index.json text/ text/pytorch_model.bin text/readme.h5 a.safetensors", NULL, "of no models that can be"},
    {"model_index.json text/ text/readme.md a.safetensors", "a", NULL},
    {"text/ text/a.safetensors b.safetensors", "b", NULL},
    {"text/ text/deep/ text/deep/vocab.txt b.safetensors", "b", NULL},
};

static void check_choice(const struct choice *choice, const char *path)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    char tensors[200] = "";
    bool noted = choice->words == NULL;
    size_t i;

    if (vc_model_open(ctx, path, NULL, &model) != VC_OK) {
        if (choice->tensors != NULL || strstr(vc_ctx_message(ctx), choice->words) == NULL) {
            fail_msg("%s: %s", choice->names, vc_ctx_message(ctx));
        }
        assert_int_equal(ctx->status, VC_E_UNSUPPORTED);
        test_ctx_done(ctx);
        return;
    }
    for (i = 0; i < model->n_tensors; i++) {
        snprintf(tensors + strlen(tensors), sizeof tensors - strlen(tensors), "%s%s", i == 0 ? "" : " ",
                 model->tensors[i].name);
    }
    for (i = 0; i < model->n_facts; i++) {
        noted = noted || strstr(model->facts[i].value, choice->words) != NULL;
    }
    if (choice->tensors == NULL || strcmp(choice->tensors, tensors) != 0 || !noted) {
        fail_msg("%s: has '%s'", choice->names, tensors);
    }
    vc_model_close(model);
    test_ctx_done(ctx);
}

static void test_choices(void **state)
{
    char slashed[420];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        make_files(choices[i].names);
        check_choice(&choices[i], inside(""));
        snprintf(slashed, sizeof slashed, "%s//", inside(""));
        check_choice(&choices[i], slashed);
        remove_files(choices[i].names);
    }
}

/* The working folder is ".", and an index in it has no folder in its name. */
static void test_here(void **state)
{
    static const struct choice one = {"here", "model", NULL};
    static const struct choice none = {"here", "", NULL};
    static const char names[] = "model.safetensors model.safetensors.index.json";
    char before[512];

    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    make_files(names);
    assert_int_equal(chdir(inside("")), 0);
    check_choice(&none, "model.safetensors.index.json");
    check_choice(&none, ".");
    assert_int_equal(unlink("model.safetensors.index.json"), 0);
    check_choice(&one, ".");
    check_choice(&one, "./");
    assert_int_equal(chdir(before), 0);
    remove_files(names);
}

/* What stays behind is named, four of them and how many more. */
static void test_left_behind(void **state)
{
    static const char names[] = "a.bin b.h5 c.onnx d.npz e.tflite f.ot text/ text/g.safetensors m.safetensors";
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    make_files(names);
    must_run(ctx, inside(""), "out", task_copy());
    assert_non_null(strstr(last_report.note, "left behind: a.bin, b.h5, c.onnx, d.npz and 3 more"));
    remove_path("out/text");
    remove_path("out");
    remove_files(names);
    make_files("m.safetensors z.bin");
    must_run(ctx, inside(""), "out", task_copy());
    assert_non_null(strstr(last_report.note, "left behind: z.bin"));
    assert_null(strstr(last_report.note, "more"));
    remove_path("out");
    remove_files("m.safetensors z.bin");
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_here),
        cmocka_unit_test(test_left_behind),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
