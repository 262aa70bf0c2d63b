/* test_plain.c - the plain dialect: codes have a name of their own in safetensors files ("w.int8"), and files of both
 * kinds of names are read as the weight "w". PyTorch files: tests/cli/cases/plain.test. */
#include "formats_test.h"

#include <string.h>

#include "formats/dialects/dialects.h"
#include "formats/safetensors/safetensors.h"
#include "tasks.h"

#define F32(name, shape, from, to) \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"
#define I8(name, shape, from, to) \
    "\"" name "\":{\"dtype\":\"I8\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

/* A file with that header and n bytes of small floats or codes. */
static struct vc_model *open_st(struct vc_ctx *ctx, const char *name, const char *header, size_t n)
{
    struct bytes b = {NULL, 0, 0};
    struct vc_model *model = NULL;

    bytes_u64(&b, strlen(header));
    bytes_add(&b, header, strlen(header));
    bytes_fill(&b, 0x3c, n);
    (void)save(name, &b);
    bytes_release(&b);
    if (vc_model_open(ctx, in_folder(name), NULL, &model) != VC_OK) {
        fail_msg("%s: %s", name, vc_ctx_message(ctx));
    }
    return model;
}

/* The weight is quantized and has that scale; NULL: it is a plain tensor. */
static void expect_weight(const struct vc_model *model, const char *name, const char *scale)
{
    size_t index = vc_model_find(model, name);
    const struct vc_tensor *t;

    if (index == VC_NO_TENSOR) {
        fail_msg("there is no %s", name);
    }
    t = vc_model_tensor(model, index);
    if (scale == NULL) {
        assert_null(t->quant);
        return;
    }
    assert_non_null(t->quant);
    assert_int_equal(vc_quant_scale(t->quant), vc_model_find(model, scale));
}

static void test_names_read(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;

    (void)state;
    model =
        open_st(ctx, "old.safetensors", "{" I8("w", "[2,3]", "0", "6") "," F32("w.scale", "[2,1]", "6", "14") "}", 14);
    expect_weight(model, "w", "w.scale");
    vc_model_close(model);
    model = open_st(ctx, "new.safetensors",
                    "{" I8("w.int8", "[2,3]", "0", "6") "," F32("w.scale", "[2,1]", "6", "14") "}", 14);
    expect_weight(model, "w", "w.scale");
    assert_int_equal(vc_model_find(model, "w.int8"), VC_NO_TENSOR);
    assert_string_equal(vc_model_layout(model)->name, "plain");
    assert_string_equal(vc_model_layout(model)->loader, "");
    vc_model_close(model);
    /* A weight whose own name ends so. */
    model = open_st(ctx, "own.safetensors",
                    "{" I8("w.int8", "[2,3]", "0", "6") "," F32("w.int8.scale", "[2,1]", "6", "14") "}", 14);
    expect_weight(model, "w.int8", "w.int8.scale");
    vc_model_close(model);
    /* A tensor of the weight's name is there: these are no codes of it. */
    model = open_st(
        ctx, "both.safetensors",
        "{" I8("w.int8", "[2,3]", "0", "6") "," F32("w", "[1]", "6", "10") "," F32("w.scale", "[2,1]", "10", "18") "}",
        18);
    expect_weight(model, "w.int8", NULL);
    assert_null(vc_model_layout(model));
    vc_model_close(model);
    model = open_st(ctx, "none.safetensors", "{" I8("w.int8", "[2,3]", "0", "6") "}", 6);
    expect_weight(model, "w.int8", NULL);
    vc_model_close(model);
    test_ctx_done(ctx);
}

/* The name of each tensor of a file, as its header has it. */
static bool in_file(const char *name, const char *tensor)
{
    struct bytes b = load(name);
    char quoted[64];
    bool found;

    snprintf(quoted, sizeof quoted, "\"%s\":{", tensor);
    bytes_add(&b, "", 1);
    found = strstr((const char *)b.p + 8, quoted) != NULL;
    bytes_release(&b);
    return found;
}

static void test_names_written(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;

    (void)state;
    vc_model_close(
        open_st(ctx, "in.safetensors", "{" F32("w", "[4,8]", "0", "128") "," F32("b", "[4]", "128", "144") "}", 144));
    must_run(ctx, "in.safetensors", "q.safetensors", task_int8());
    assert_true(in_file("q.safetensors", "w.int8") && in_file("q.safetensors", "w.scale"));
    assert_false(in_file("q.safetensors", "w"));
    must_run(ctx, "q.safetensors", "again.safetensors", task_copy());
    assert_true(in_file("again.safetensors", "w.int8"));
    /* Old names become new ones by a copy. */
    must_run(ctx, "old.safetensors", "renamed.safetensors", task_copy());
    assert_true(in_file("renamed.safetensors", "w.int8"));
    must_run(ctx, "own.safetensors", "own2.safetensors", task_copy());
    assert_true(in_file("own2.safetensors", "w.int8.int8"));
    assert_int_equal(vc_model_open(ctx, in_folder("own2.safetensors"), NULL, &model), VC_OK);
    expect_weight(model, "w.int8", "w.int8.scale");
    vc_model_close(model);
    must_run(ctx, "q.safetensors", "q.npz", task_copy());
    assert_int_equal(vc_model_open(ctx, in_folder("q.npz"), NULL, &model), VC_OK);
    expect_weight(model, "w", "w.scale");
    assert_string_equal(vc_model_layout(model)->loader, "NumPy");
    vc_model_close(model);
    vc_ctx_free(ctx); /* which has kept kernels */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_read),
        cmocka_unit_test(test_names_written),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
