/* test_conv1d.c - a folder of GPT-2's kind, whose matrices are [in, out]: int8 for bitsandbytes, turned in the file and
 * as they were to readers; refused in a layout whose loaders take none; every failure on the way. Judge: the model that
 * was quantized, value by value, and the shapes in the file. */
#include "formats_test.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "folder_builder.h"
#include "tasks.h"

#define ATTN "h.0.attn.c_attn.weight"
#define FC   "h.0.mlp.c_fc.weight"

static struct task with_layout(const char *layout)
{
    struct task task = task_int8();

    task.write.layout = layout;
    return task;
}

/* in/: a matrix of more than what is unpacked at once, a smaller one, an embedding, a norm. */
static void save_model(const char *config)
{
    struct zip_builder z = {0};
    struct vc_ctx *ctx = test_ctx();

    zip_add_bytes(&z, ATTN ".npy", npy_matrix(64, 192), NULL);
    zip_add_bytes(&z, FC ".npy", npy_matrix(3000, 150), NULL);
    zip_add_bytes(&z, "wte.weight.npy", npy_matrix(16, 8), NULL);
    zip_add_bytes(&z, "h.0.ln_1.weight.npy", npy_matrix(1, 8), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    (void)save("in.npz", &z.out);
    zip_release(&z);
    assert_int_equal(mkdir(in_folder("in"), 0700), 0);
    must_run(ctx, "in.npz", "in/model.safetensors", task_copy());
    folder_write(in_folder("in"), "config.json", config, strlen(config));
    vc_ctx_free(ctx);
}

static void remove_model(void)
{
    remove_path("in");
    remove_path("in.npz");
}

static float *values_of(struct vc_ctx *ctx, const char *name, const char *tensor, size_t n)
{
    struct vc_model *model = must_open(ctx, name);
    size_t index = vc_model_find(model, tensor);
    float *values = malloc(n * sizeof *values);

    assert_int_not_equal(index, VC_NO_TENSOR);
    assert_int_equal(model->tensors[index].dtype, VC_DTYPE_F32);
    assert_int_equal(model->tensors[index].n_elems, n);
    assert_int_equal(vc_source_read_any(ctx, model, index, VC_FORM_VALUES, 0, values, n * sizeof *values), VC_OK);
    vc_model_close(model);
    return values;
}

/* A scale per output, the second axis: each value is off by half a step of its column at most. */
static void expect_near(struct vc_ctx *ctx, const char *tensor, size_t rows, size_t cols)
{
    float *before = values_of(ctx, "in.npz", tensor, rows * cols);
    float *after = values_of(ctx, "back", tensor, rows * cols);
    size_t r;
    size_t c;

    for (c = 0; c < cols; c++) {
        float largest = 0.0F;

        for (r = 0; r < rows; r++) {
            largest = fmaxf(largest, fabsf(before[r * cols + c]));
        }
        for (r = 0; r < rows; r++) {
            assert_true(fabsf(before[r * cols + c] - after[r * cols + c]) <= 0.51F * largest / 127.0F);
        }
    }
    free(before);
    free(after);
}

static void test_there_and_back(void **state)
{
    static const char turned[] = "\"" ATTN "\":{\"dtype\":\"I8\",\"shape\":[192,64]";
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;
    size_t index;

    (void)state;
    save_model("{\"model_type\": \"gpt2\"}");
    must_run(ctx, "in", "q", with_layout("auto"));
    assert_true(holds("q/model.safetensors", turned));
    assert_true(holds("q/config.json", "\"quant_method\": \"bitsandbytes\""));
    model = must_open(ctx, "q");
    index = vc_model_find(model, ATTN);
    assert_int_equal(model->tensors[index].shape[0], 64);
    assert_int_equal(model->tensors[index].shape[1], 192);
    assert_int_equal(model->tensors[index].quant->axis, 1);
    vc_model_close(model);
    must_run(ctx, "q", "back", task_back());
    expect_near(ctx, ATTN, 64, 192);
    expect_near(ctx, FC, 3000, 150);
    must_run(ctx, "q", "again", task_copy());
    expect_same("q/model.safetensors", "again/model.safetensors");
    remove_path("again");
    remove_path("back");
    remove_path("q");
    remove_model();
    vc_ctx_free(ctx);
}

static void test_refused(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    save_model("{\"model_type\": \"gpt2\"}");
    must_refuse(ctx, "in", "q", with_layout("compressed-tensors"),
                "models of type gpt2 keep their matrices transposed (Conv1D), which loaders of the layout "
                "compressed-tensors do not take; layout bitsandbytes can be made");
    assert_int_equal(ctx->status, VC_E_UNSUPPORTED);
    remove_model();
    save_model("{\"model_type\": \"llama\"}"); /* these names mean nothing there */
    must_run(ctx, "in", "q", with_layout("compressed-tensors"));
    remove_path("q");
    remove_model();
    vc_ctx_free(ctx);
}

static void test_faults(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    save_model("{\"model_type\": \"gpt2\"}");
    must_run(ctx, "in", "q", with_layout("bitsandbytes"));
    fail_each_allocation(ctx, "in", "out", with_layout("bitsandbytes"), 20);
    fail_each_read(ctx, "q", "out", task_back(), 4);
    fail_each_allocation(ctx, "q", "out", task_back(), 20);
    remove_path("out");
    remove_path("q");
    remove_model();
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
